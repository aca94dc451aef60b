/* SPDX-License-Identifier: MIT */
/* The options that ask for measuring: most fill in a struct measure_request. */
#ifndef CLI_MEASURE_OPTIONS_H
#define CLI_MEASURE_OPTIONS_H

#include <stdbool.h>

struct command;
struct options;

/* What the commands that measure take, and say of it. */
#define MEASURE_FLAGS                                                                              \
	" count by-site by-thread by-process time depth key print limit filter hist children "     \
	"budget csv keep "
#define MEASURE_USAGE                                                                              \
	"measuring, by the kernel; no handler runs for it:\n"                                      \
	"  --count[=NAMES|RE]        count the hits of every probe; of those named,\n"             \
	"                            separated by commas; or of those whose names begin\n"         \
	"                            as RE says\n"                                                 \
	"  --by-site, --by-thread, --by-process\n"                                                 \
	"                            split the counts\n"                                           \
	"  --time START,STOP         time from a hit of START to the same thread's next\n"         \
	"                            of STOP (repeatable)\n"                                       \
	"  --depth N                 starts that a thread can have open (default, and at\n"        \
	"                            most: 32); one more replaces the oldest\n"                    \
	"  --key argN                match --time's pairs by the value of argument N of\n"         \
	"                            both probes, an int or a string, and not by thread\n"         \
	"  --print NAMES|RE          a line a hit: seconds since the start, pid/tid,\n"            \
	"                            probe, arguments as OCaml would write them\n"                 \
	"  --limit N                 print N hits a second at most (1000 if not given;\n"          \
	"                            0: all)\n"                                                    \
	"  --filter EXPR             only hits with arguments like\n"                              \
	"                            'arg0 > 100 && arg1 == \"GET\"'; also < <= >= != ||\n"        \
	"                            ! ( ), ^= (starts with) and floats, such as 1.5; of\n"        \
	"                            --time's pairs it looks at the starts\n"                      \
	"  --hist argN               a histogram of int argument N of --count's probes\n"          \
	"  --children                also what the processes fork\n"                               \
	"  --exe FILE                here also processes that run FILE later\n"                    \
	"  --for TIME                stop after TIME (500ms, 3s, 2m); else at Ctrl-C or\n"         \
	"                            the processes' end\n"                                         \
	"  --interval TIME           print what came in every TIME as well\n"                      \
	"  --budget P%               stop with exit code 7 when it takes more of a core\n"         \
	"  --keep NAME               go on when this tool has ended, at once; see\n"               \
	"                            `read`, `detach`, `list --kept`\n"                            \
	"  --json, --csv             an object a line, or rows, instead of tables\n"

/*
 * Take the flag NAME with VALUE (NULL: none). Returns EXIT_DONE, or another code after having said
 * why not.
 */
int measure_options_add(const struct command *command, struct options *options, const char *name,
			const char *value);
/* Do OPTIONS ask for something to be measured? */
bool options_measure(const struct options *options);
/* Do the options that go with measuring, and with each other? Returns as above. */
int measure_options_check(const struct command *command, const struct options *options);
/*
 * Set a budget if every program of the machine is to be measured and none was given: nobody has
 * thought of what that does to each of them. Programs that are named have none by default.
 */
enum { ALL_PROGRAMS_PERCENT = 5 }; /* of a core, for each program */
void measure_options_protect_all(struct options *options);
/* Count all probes if OPTIONS count none. Returns EXIT_DONE or EXIT_FAILED. */
int measure_options_count_all(struct options *options);

#endif
