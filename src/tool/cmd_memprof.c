// SPDX-License-Identifier: MIT
/*
 * `memprof`: print what a program allocates and what stays alive, measured by Gc.Memprof. The
 * library ocaml-probes.memprof in the program starts and stops Gc.Memprof. Events are read
 * continuously; names and reports come at the end.
 */
#include "tool/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "memprof/heap_profile.h"
#include "memprof/memtrace_writer.h"
#include "memprof/probes.h"
#include "memprof/session.h"
#include "process/process_kind.h"
#include "profile/allocation.h"
#include "profile/folded_writer.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"
#include "unwind/own_frames.h"
#include "tool/json.h"
#include "tool/profile_files.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "tool/writer.h"
#include "look/proc_file.h"

/* ---- the file of --memtrace, written while the profile runs --------------------------------- */

enum { FLUSH_NS = 1000 * 1000 * 1000 };

struct memtrace_file {
	const char *path;
	struct heap_names *names;
	struct profile_file *file;
	struct memtrace_writer *writer;
	int64_t flushed_ns;
};

static int locate(void *data, const uint64_t *frame, const struct named_frame *const **frames,
		  size_t *n)
{
	return heap_names_of(data, frame, frame ? 1 : 0, frames, n);
}

/* Open the writer, which writes the header of the file: facts about the program and this tool. */
static int open_writer(struct ocp_ctx *ctx, struct memtrace_file *file, pid_t pid, double rate)
{
	char exe[PROC_PATH_BYTES], executable[PATH_MAX] = "", host[HOST_NAME_MAX + 1] = "",
				   context[64];
	const uint64_t monotonic_us = (uint64_t)clock_ns(CLOCK_MONOTONIC) / 1000,
		       start_us = (uint64_t)clock_ns(CLOCK_REALTIME) / 1000;
	const struct memtrace_info info = { .rate = rate,
					    .pid = pid,
					    .executable = executable,
					    .host = host,
					    .parameters = "",
					    .context = context,
					    .start_us = start_us,
					    .epoch_us = start_us - monotonic_us };

	proc_path(exe, pid, "exe");
	if (readlink(exe, executable, sizeof(executable) - 1) < 0)
		executable[0] = '\0';
	if (gethostname(host, sizeof(host) - 1) != 0)
		host[0] = '\0';
	snprintf(context, sizeof(context), "ocaml-probes %s", ocp_version());
	return memtrace_writer_open(ctx, fileno(profile_file_stream(file->file)), file->path, &info,
				    locate, file->names, &file->writer);
}

/* Remove the file, unless it is finished, and free FILE. Accepts NULL. */
static void memtrace_file_abandon(struct memtrace_file *file)
{
	if (!file)
		return;
	memtrace_writer_close(file->writer);
	profile_file_abandon(file->file);
	free(file);
}

/*
 * Begin the file PATH for a profile of PID with SPEC. If PATH is NULL, no file is wanted: set *OUT
 * to NULL. PATH and NAMES must exist as long as *OUT.
 */
static int memtrace_file_open(struct ocp_ctx *ctx, const char *path, pid_t pid,
			      const struct memprof_spec *spec, struct heap_names *names,
			      struct memtrace_file **out)
{
	struct memtrace_file *file = NULL;
	int err;

	*out = NULL;
	if (!path)
		return 0;
	file = calloc(1, sizeof(*file));
	if (!file)
		return ctx_no_memory(ctx);
	file->path = path;
	file->names = names;
	err = profile_file_open(ctx, path, &file->file);
	if (!err)
		err = open_writer(ctx, file, pid, spec->rate);
	if (err)
		memtrace_file_abandon(file);
	else
		*out = file;
	return err;
}

/* Write EVENT of the block NUMBER; see heap_block_number(). */
static int memtrace_file_put(struct memtrace_file *file, const struct memprof_event *event,
			     uint64_t number)
{
	return file ? memtrace_writer_put(file->writer, event, number,
					  (uint64_t)clock_ns(CLOCK_MONOTONIC))
		    : 0;
}

/* Flush buffered events to the file, at most once per second. */
static int memtrace_file_flush(struct memtrace_file *file)
{
	const int64_t now_ns = file ? clock_ns(CLOCK_MONOTONIC) : 0;

	if (!file || now_ns < file->flushed_ns + FLUSH_NS)
		return 0;
	file->flushed_ns = now_ns;
	return memtrace_writer_flush(file->writer);
}

static void say_missing(const struct memtrace_file *file, const struct memprof_losses *losses)
{
	const uint64_t left_out = memtrace_writer_left_out(file->writer);
	uint64_t lost = 0;

	for (int i = MEMPROF_ALLOC_MINOR; i < MEMPROF_KINDS; i++)
		lost += losses->events[i];
	if (lost)
		say("%s: %" PRIu64 " events were lost and are missing", file->path, lost);
	if (left_out)
		say("%s: %" PRIu64 " events are missing: their blocks are unknown", file->path,
		    left_out);
}

/* Complete the file and free FILE. Unless IS_QUIET, say which events are missing. */
static int memtrace_file_finish(struct memtrace_file *file, const struct memprof_losses *losses,
				bool is_quiet)
{
	int err = file ? memtrace_writer_flush(file->writer) : 0;

	if (file && !err) {
		err = profile_file_finish(file->file);
		file->file = NULL;
	}
	if (file && !err && !is_quiet)
		say_missing(file, losses);
	memtrace_file_abandon(file);
	return err;
}

/* ---- output: a table at the end, or JSON lines while events come ---------------------------- */

struct memprof_report {
	const struct heap *heap;
	struct heap_names *names;
	double rate;
	double seconds;
	struct memprof_losses losses;
	bool by_probes; /* the events came through eBPF */
	struct heap_sites_order order;
	bool lifetimes; /* print lifetimes, too */
};

/* The contents of the first line of the JSON output, after which there is a line for each event. */
struct memprof_json_head {
	int pid;
	double rate;
	uint32_t depth, ocaml;
	bool by_probes; /* the events come through eBPF, not through the ring */
	/* time from the request to the first start of the profile in a domain; -1: not started */
	int64_t after_ns;
};

enum { TOP_SITES = 25, MEMPROF_JSON_VERSION = 1 };

static const char *const event_names[MEMPROF_KINDS] = {
	[MEMPROF_ALLOC_MINOR] = "alloc_minor",
	[MEMPROF_ALLOC_MAJOR] = "alloc_major",
	[MEMPROF_PROMOTE] = "promote",
	[MEMPROF_DEALLOC_MINOR] = "dealloc_minor",
	[MEMPROF_DEALLOC_MAJOR] = "dealloc_major",
};

static uint64_t lost_events(const struct memprof_losses *losses)
{
	uint64_t sum = 0;

	for (int i = 0; i < MEMPROF_KINDS; i++)
		sum += losses->events[i];
	return sum;
}

/* ---- tables --------------------------------------------------------------------------------- */

static double share(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

/* Print what is missing in the report, and why. memprof_print_table() includes these lines. */
static void memprof_print_losses(const struct memprof_report *report, FILE *to)
{
	const struct memprof_losses *losses = &report->losses;
	const struct heap_totals totals = heap_totals(report->heap);

	if (lost_events(losses))
		fprintf(to,
			"%" PRIu64 " events lost, %s: allocations %" PRIu64 " with %" PRIu64
			" samples, promotions %" PRIu64 ", deallocations %" PRIu64 "\n",
			lost_events(losses),
			report->by_probes
				? "for which there was no room, or which could not be read"
				: "for which there was no room",
			losses->events[MEMPROF_ALLOC_MINOR] + losses->events[MEMPROF_ALLOC_MAJOR],
			losses->samples, losses->events[MEMPROF_PROMOTE],
			losses->events[MEMPROF_DEALLOC_MINOR] +
				losses->events[MEMPROF_DEALLOC_MAJOR]);
	if (losses->is_false)
		fprintf(to,
			"the program has damaged the counts of lost events: they are not known\n");
	if (losses->is_damaged)
		fprintf(to, "the program has damaged the ring of events: the rest is missing\n");
	else if (losses->is_cut)
		fprintf(to, "the program ended in the middle of an event\n");
	if (totals.left_out)
		fprintf(to, "%" PRIu64 " blocks were not followed: more than %d are alive\n",
			totals.left_out, HEAP_BLOCKS);
	if (totals.other_stacks)
		fprintf(to, "%" PRIu64 " blocks have no call stack: there are too many\n",
			totals.other_stacks);
	if (losses->forks)
		fprintf(to, "%" PRIu64 " forks: children are not profiled\n", losses->forks);
}

static void print_heap_totals(const struct memprof_report *report)
{
	const struct heap_totals totals = heap_totals(report->heap);
	const double words = (double)totals.samples / report->rate;

	printf("%.3f s, %" PRIu64 " blocks: %.0f words allocated, %.0f a second; "
	       "%" PRIu64 " blocks are alive: %.0f words, %.0f of them in the minor heap\n",
	       report->seconds, totals.blocks, words,
	       report->seconds > 0 ? words / report->seconds : 0, totals.live_blocks,
	       (double)totals.live_samples / report->rate,
	       (double)totals.live_minor_samples / report->rate);
	memprof_print_losses(report, stdout);
}

static void print_heap_site(const struct heap_site *site)
{
	const struct named_frame *frame = site->frame;

	print_text(frame->function);
	if (frame->file && frame->line) {
		printf("  ");
		print_text(frame->file);
		printf(":%" PRIu32, frame->line);
	}
	if (site->via) {
		printf("  via ");
		print_text(site->via->function);
	}
	putchar('\n');
}

static void print_sites(const struct memprof_report *report, const struct heap_site *sites,
			size_t n)
{
	const struct heap_totals totals = heap_totals(report->heap);

	printf("\n%7s %7s %14s %14s  %s\n", "ALLOC", "LIVE", "ALLOC WORDS", "LIVE WORDS", "SITE");
	for (size_t i = 0; i < n && i < TOP_SITES; i++) {
		const struct heap_stack *sum = &sites[i].sum;

		printf("%6.1f%% %6.1f%% %14.0f %14.0f  ", share(sum->samples, totals.samples),
		       share(sum->live_samples, totals.live_samples),
		       (double)sum->samples / report->rate,
		       (double)sum->live_samples / report->rate);
		print_heap_site(&sites[i]);
	}
	if (n > TOP_SITES)
		printf("  and %zu more\n", n - TOP_SITES);
}

static void print_lifetimes(const struct heap_site *sites, size_t n)
{
	static const char *const classes[LIFE_CLASSES] = { "0",	  "1",	  "2",	   "3-4",
							   "5-8", "9-16", "17-32", "33-" };

	printf("\nLIFETIMES: blocks freed in the minor heap, after N major collections; alive\n");
	printf("%7s", "MINOR");
	for (int i = 0; i < LIFE_CLASSES; i++)
		printf(" %6s", classes[i]);
	printf(" %7s %9s  %s\n", "ALIVE", "MEAN", "SITE");
	for (size_t i = 0; i < n && i < TOP_SITES; i++) {
		const struct heap_stack *sum = &sites[i].sum;
		const uint64_t dead = sum->samples - sum->live_samples;
		char time[TIME_BYTES];

		printf("%6.1f%%", share(sum->minor_deaths, sum->samples));
		for (int j = 0; j < LIFE_CLASSES; j++)
			printf(" %5.1f%%", share(sum->major_deaths[j], sum->samples));
		printf(" %6.1f%% %9s  ", share(sum->live_samples, sum->samples),
		       dead ? print_time(time, sum->life_ns / (double)dead) : "-");
		print_heap_site(&sites[i]);
	}
}

static int memprof_print_table(struct ocp_ctx *ctx, const struct memprof_report *report)
{
	struct heap_site *sites;
	size_t n;
	int err = heap_sites(ctx, report->heap, report->names, report->order, &sites, &n);

	if (err)
		return err;
	print_heap_totals(report);
	if (n)
		print_sites(report, sites, n);
	if (n && report->lifetimes)
		print_lifetimes(sites, n);
	free(sites);
	return 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void memprof_json_start(const struct memprof_json_head *head)
{
	printf("{\"event\":\"start\",\"version\":%d,\"pid\":%d,\"rate\":%.17g,\"callstack\":%" PRIu32
	       ",\"ocaml\":\"%u.%u.%u\",\"events\":\"%s\",\"after_ns\":%" PRId64 "}\n",
	       MEMPROF_JSON_VERSION, head->pid, head->rate, head->depth, head->ocaml / 10000,
	       head->ocaml / 100 % 100, head->ocaml % 100, head->by_probes ? "probes" : "ring",
	       head->after_ns);
}

static struct json_object *frame_json(const struct named_frame *frame)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "function", frame->function);
	if (frame->file && frame->line) {
		json_add_string(object, "file", frame->file);
		json_add_int(object, "line", frame->line);
	}
	if (frame->item)
		json_add_string(object, "item", frame->item);
	if (frame->is_inlined)
		json_add_bool(object, "inlined", true);
	return object;
}

/* Print the stack NUMBER. Call this before the first event that has the stack. */
static int memprof_json_stack(struct ocp_ctx *ctx, struct heap_names *names, size_t number,
			      const uint64_t *stack, uint32_t depth)
{
	const struct named_frame *const *frames;
	struct json_object *line, *list;
	size_t n, own;
	int err = heap_names_of(names, stack, depth, &frames, &n);

	if (err)
		return err;
	own = find_own_function(frames, n);
	line = json_object_new_object();
	list = json_object_new_array();
	if (!line || !list) {
		json_object_put(line);
		json_object_put(list);
		return ctx_no_memory(ctx);
	}
	json_add_string(line, "event", "stack");
	json_add_uint(line, "stack", number);
	json_add_uint(line, "site", own < n ? n - 1 - own : 0);
	json_object_object_add(line, "frames", list);
	for (size_t i = n; i-- > 0;)
		json_object_array_add(list, frame_json(frames[i]));
	json_print(line, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	return 0;
}

/* Print the source of an allocation. A number that is not known stands for itself. */
static void memprof_json_source(uint8_t source)
{
	static const char *const names[MEMPROF_SOURCES] = { [MEMPROF_NORMAL] = "normal",
							    [MEMPROF_MARSHAL] = "marshal",
							    [MEMPROF_CUSTOM] = "custom",
							    [MEMPROF_MAP_FILE] = "map_file" };

	if (source < MEMPROF_SOURCES)
		printf(",\"source\":\"%s\"", names[source]);
	else
		printf(",\"source\":\"source %u\"", (unsigned int)source);
}

/* Print an event. STACK is the number of the call stack; SIZE_MAX: unknown. */
static void memprof_json_event(const struct memprof_event *event, size_t stack)
{
	printf("{\"event\":\"%s\",\"block\":%" PRIu64 ",\"time_ns\":%" PRIu64 ",\"domain\":%" PRIu32
	       ",\"minor_collections\":%" PRIu32 ",\"major_collections\":%" PRIu32,
	       event_names[event->kind], event->id, event->time_ns, event->domain, event->minors,
	       event->majors);
	if (event->kind <= MEMPROF_ALLOC_MAJOR) {
		printf(",\"samples\":%" PRIu64 ",\"words\":%" PRIu64, event->n_samples,
		       event->size);
		memprof_json_source(event->source);
	}
	if (stack != SIZE_MAX)
		printf(",\"stack\":%zu", stack);
	puts("}");
}

static void memprof_json_end(const struct memprof_report *report)
{
	const struct memprof_losses *losses = &report->losses;
	const struct heap_totals totals = heap_totals(report->heap);

	printf("{\"event\":\"end\",\"seconds\":%.9f", report->seconds);
	printf(",\"lost\":{");
	for (int i = MEMPROF_ALLOC_MINOR; i < MEMPROF_KINDS; i++)
		printf("\"%s\":%" PRIu64 ",", event_names[i], losses->events[i]);
	printf("\"samples\":%" PRIu64 "},\"not_followed\":%" PRIu64 ",\"without_stack\":%" PRIu64
	       ",\"damaged\":%s,\"cut\":%s,\"forks\":%" PRIu64 "}\n",
	       losses->samples, totals.left_out, totals.other_stacks,
	       losses->is_damaged || losses->is_false ? "true" : "false",
	       losses->is_cut ? "true" : "false", losses->forks);
}

/* ---- the command ---------------------------------------------------------------------------- */

enum {
	USUAL_DEPTH = 128,
	/*
	 * Time between two looks at the ring. If there are too few processors, each look takes CPU
	 * time from the program.
	 */
	READ_NS = 20 * 1000 * 1000,
	/* the time between two looks while many events come, to keep space free in the ring */
	SOON_NS = 5 * 1000 * 1000,
	MANY_EVENTS = 2000,
	TURN_NS = 100 * 1000 * 1000,
	EVENTS_A_LOOK = 256, /* events between two looks at the clock */
	STOP_NS = 1000 * 1000 * 1000,
	GONE_NS = 500 * 1000 * 1000,
	REFRESH_NS = 1000 * 1000 * 1000,
};

struct memprof_options {
	struct memprof_spec spec;
	bool folded, by_live, by_leaf, lifetimes;
	const char *html, *pprof, *memtrace; /* files to write; NULL: none */
};

enum { TIMER_LOOK, TIMER_END, TIMER_REFRESH, N_TIMERS };

struct memprof_run {
	struct options *options;
	struct session *session;
	struct session_timer timers[N_TIMERS];
	const struct memprof_options *own;
	struct memprof_session *memprof;
	struct memprof_probes *probes; /* NULL: events come through the ring, not through eBPF */
	struct heap_names *names;
	struct heap *heap;
	struct memtrace_file *memtrace;
	size_t n_said; /* number of stacks printed as JSON */
	int64_t asked_ns, start_ns, end_ns;
	int64_t read_ns;	/* time until the next look at the ring */
	uint64_t start_time_ns; /* the time of the start, in nanoseconds since 1970 */
	struct memprof_answers answers;
	int err;
	bool has_said_sampling;
};

static void say_refusals(const struct memprof_run *r)
{
	for (size_t i = 0; i < r->answers.n_refused && !r->options->quiet; i++)
		say("no events of domain %u: %s", r->answers.refused[i], r->answers.refusal);
}

/* ---- options -------------------------------------------------------------------------------- */

static struct memprof_options *memprof_options_of(struct options *options)
{
	static struct memprof_options own = { .spec = { .rate = MEMPROF_USUAL_RATE,
							.depth = USUAL_DEPTH } };

	options->own = &own;
	return &own;
}

static int set_rate(const struct command *command, struct memprof_options *own, const char *value)
{
	if (!memprof_rate_read(value, &own->spec.rate))
		return say_usage(command, "--rate '%s': not a number from 1e-9 to 1", value);
	return EXIT_DONE;
}

static int set_depth(const struct command *command, struct memprof_options *own, const char *value)
{
	char *end;
	long depth;

	errno = 0;
	depth = strtol(value, &end, 10);
	if (errno || end == value || *end || depth < 0 || depth > MEMPROF_MAX_DEPTH)
		return say_usage(command, "--callstack '%s': not a number from 0 to %d", value,
				 MEMPROF_MAX_DEPTH);
	own->spec.depth = (uint32_t)depth;
	return EXIT_DONE;
}

static int set_events(const struct command *command, struct memprof_options *own, const char *value)
{
	own->spec.by_probes = strcmp(value, "probes") == 0;
	if (!own->spec.by_probes && strcmp(value, "ring") != 0)
		return say_usage(command, "--events '%s': not ring or probes", value);
	return EXIT_DONE;
}

static int set_memprof_option(const struct command *command, struct options *options,
			      const char *name, const char *value)
{
	struct memprof_options *own = memprof_options_of(options);

	if (strcmp(name, "rate") == 0)
		return set_rate(command, own, value);
	if (strcmp(name, "callstack") == 0)
		return set_depth(command, own, value);
	if (strcmp(name, "events") == 0)
		return set_events(command, own, value);
	if (strcmp(name, "html") == 0)
		return profile_file_set(command, name, value, &own->html);
	if (strcmp(name, "pprof") == 0)
		return profile_file_set(command, name, value, &own->pprof);
	if (strcmp(name, "memtrace") == 0)
		return profile_file_set(command, name, value, &own->memtrace);
	if (strcmp(name, "live") == 0)
		own->by_live = true;
	else if (strcmp(name, "leaf") == 0)
		own->by_leaf = true;
	else if (strcmp(name, "lifetimes") == 0)
		own->lifetimes = true;
	else
		own->folded = true;
	return EXIT_DONE;
}

/* Check that no file is written twice. */
static int check_memprof_files(const struct memprof_options *own)
{
	const struct {
		const char *flag, *path;
	} files[] = { { "--html", own->html },
		      { "--pprof", own->pprof },
		      { "--memtrace", own->memtrace } };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		for (size_t j = 0; j < i; j++)
			if (profile_file_is_same(files[i].path, files[j].path))
				return say_usage(&command_memprof,
						 "%s and %s name the same file: '%s'",
						 files[j].flag, files[i].flag, files[i].path);
	return EXIT_DONE;
}

static int check_options(const struct options *options, const struct memprof_options *own)
{
	if (!options->n_pids)
		return say_usage(&command_memprof, "-pid is required");
	if (own->folded && options->json)
		return say_usage(&command_memprof, "--folded and --json are mutually exclusive");
	if (own->lifetimes && (own->folded || options->json))
		return say_usage(&command_memprof, "--lifetimes: only for the table");
	if (own->by_leaf && (own->folded || options->json))
		return say_usage(&command_memprof, "--leaf: only for the table");
	return check_memprof_files(own);
}

/* ---- events --------------------------------------------------------------------------------- */

static int take_event(struct memprof_run *r, const struct memprof_event *event)
{
	size_t stack, n;
	int err = heap_enter(r->heap, event, &stack);

	memprof_answers_see(&r->answers, event->domain);
	if (!err)
		err = memtrace_file_put(r->memtrace, event, heap_block_number(r->heap));
	if (err || !r->options->json)
		return err;
	for (const struct heap_stack *stacks = heap_stacks(r->heap, &n); r->n_said < n && !err;
	     r->n_said++)
		err = memprof_json_stack(r->options->ctx, r->names, r->n_said,
					 stacks[r->n_said].frames, stacks[r->n_said].depth);
	if (!err)
		memprof_json_event(event, stack);
	return err;
}

static bool next_event(const struct memprof_run *r, struct memprof_event *event)
{
	return r->probes ? memprof_probes_next(r->probes, memprof_number(r->memprof), event)
			 : memprof_next(r->memprof, event);
}

/*
 * Take the events that have come. Stop after TURN_NS, since a program may write faster than the
 * tool reads. If ALL, take all events that have come before this call, however long it takes; leave
 * out later events.
 */
static int take_events(struct memprof_run *r, bool all)
{
	const int64_t until_ns = session_now_ns() + TURN_NS;
	struct memprof_event event;
	int err = 0, n = 0;

	if (all)
		memprof_finish(r->memprof);
	if (all && r->probes)
		memprof_probes_finish(r->probes);
	for (; !err && next_event(r, &event); n++) {
		err = take_event(r, &event);
		if (!all && n % EVENTS_A_LOOK == 0 && session_now_ns() > until_ns)
			break;
	}
	r->read_ns = n > MANY_EVENTS ? SOON_NS : READ_NS;
	return err ? err : memtrace_file_flush(r->memtrace);
}

static void take_answers(struct memprof_run *r)
{
	const int err =
		memprof_answers_take(r->options->ctx, r->options->pid, r->memprof, &r->answers);

	if (err)
		r->err = err;
	if (r->answers.started_ns)
		r->start_ns = r->answers.started_ns;
}

/* ---- the session ---------------------------------------------------------------------------- */

static int refused(struct memprof_run *r)
{
	return memprof_answers_refusal(r->options->ctx, r->options->pid, &r->answers);
}

static bool has_started(const struct memprof_run *r)
{
	return r->answers.started_ns != 0;
}

/* Wait for an answer of the program, but not long, and take the answers that have come. */
static void await_answer(struct memprof_run *r)
{
	struct pollfd answer = { .fd = memprof_fd(r->memprof), .events = POLLIN };

	poll(&answer, 1, 10);
	take_answers(r);
}

/*
 * Wait until the profile has started in a domain, but at most until MEMPROF_LATE_NS after the
 * request: a program that is blocked starts the profile only when it runs again.
 */
static void await_start(struct memprof_run *r)
{
	while (!has_started(r) && !r->err && !r->answers.is_closed) {
		await_answer(r);
		if (memprof_answers_refuse(&r->answers, session_now_ns()))
			r->err = refused(r);
		if (session_now_ns() >= r->asked_ns + MEMPROF_LATE_NS)
			break;
	}
}

/*
 * Say once that samples are taken. Sampling may begin late: a program that is blocked starts the
 * profile only when it runs again.
 */
static void say_sampling(struct memprof_run *r)
{
	if (r->has_said_sampling || r->options->quiet)
		return;
	r->has_said_sampling = true;
	say("sampling %g of the words that pid %d allocates%s", r->own->spec.rate,
	    (int)r->options->pid, r->options->for_ns ? "" : "; end with Ctrl-C");
}

static void say_event_source(struct memprof_run *r)
{
	if (r->options->quiet)
		return;
	if (r->probes)
		say("events: through eBPF (uprobes on %zu probes)",
		    memprof_probes_count(r->probes));
	else
		say("events: through the ring of the library");
	if (has_started(r))
		say_sampling(r);
	else if (!r->answers.is_closed)
		say("pid %d: waits, or runs no OCaml code: the profile starts when it continues",
		    (int)r->options->pid);
}

/*
 * Probe the new files of the program. End if the probes have ended, so that no more events will
 * come. Other errors of the refresh do not matter.
 */
static enum ending refresh_probes(void *data)
{
	struct memprof_run *r = data;

	if (memprof_probes_refresh(r->probes) != -ESTALE)
		return NOT_ENDED;
	say("%s: the profile ends", ocp_error(r->options->ctx));
	return ENDED_BY_TIME;
}

/* Take the events and answers that have come. Return ENDED_BY_ERROR if r->err was set. */
static enum ending take_ring(struct memprof_run *r)
{
	r->err = take_events(r, false);
	if (!r->err)
		take_answers(r);
	if (has_started(r))
		say_sampling(r);
	if (r->answers.refused_ns && !has_started(r) && !r->err)
		r->err = refused(r);
	return r->err ? ENDED_BY_ERROR : NOT_ENDED;
}

static enum ending look(void *data)
{
	struct memprof_run *r = data;
	const enum ending ending = take_ring(r);

	r->timers[TIMER_LOOK].period_ns = r->read_ns;
	if (ending != NOT_ENDED || !r->answers.is_closed)
		return ending;
	/* An ending process closes its files slightly before its end: wait for the end. */
	session_wait(r->session, session_now_ns() + GONE_NS);
	return ENDED_WITH_PROCESS;
}

static enum ending look_last(void *data)
{
	const enum ending ending = look(data);

	return ending == NOT_ENDED ? ENDED_BY_TIME : ending;
}

static enum ending take_samples(struct memprof_run *r)
{
	enum ending ending;

	r->timers[TIMER_LOOK] = session_pause(SOON_NS, look);
	r->timers[TIMER_END] = session_every(r->start_ns, r->options->for_ns, look_last);
	r->timers[TIMER_REFRESH] = session_pause(REFRESH_NS, refresh_probes);
	r->timers[TIMER_REFRESH].next_ns = r->timers[TIMER_LOOK].next_ns;
	ending = session_run(r->session, &(struct session_events){
						 .timers = r->timers,
						 .n_timers = r->probes ? N_TIMERS : TIMER_REFRESH,
						 .data = r,
					 });
	if (ending == ENDED_BY_SIGNAL || ending == ENDED_WITH_PROCESS)
		return take_ring(r) == ENDED_BY_ERROR ? ENDED_BY_ERROR : ending;
	return ending;
}

/*
 * Ask the program to stop the profile. The program may be blocked and not reply; the profile then
 * stops when the program runs again.
 */
static int stop(struct memprof_run *r)
{
	const int64_t until_ns = session_now_ns() + STOP_NS;
	int err = take_events(r, false);

	memprof_stop(r->memprof);
	while (!r->answers.has_stopped && !r->answers.is_closed && session_now_ns() < until_ns)
		await_answer(r);
	if (!r->answers.has_stopped && !r->answers.is_closed && !r->options->quiet)
		say("pid %d: waits: the profile stops when it continues", (int)r->options->pid);
	return err ? err : take_events(r, true);
}

/* ---- the report ----------------------------------------------------------------------------- */

static int write_html(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	return html_write(ctx, data, &(struct flame_form){ .title = "words" }, to);
}

static int write_blocks_pprof(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	return pprof_write(ctx, data, to);
}

static int write_profile(struct memprof_run *r)
{
	struct ocp_ctx *ctx = r->options->ctx;
	struct profile profile;
	int err;

	if (!r->own->html && !r->own->pprof && !r->own->folded)
		return 0;
	err = heap_profile_make(ctx, r->heap, r->names, r->own->spec.rate, r->own->by_live,
				&profile);
	if (err)
		return err;
	profile.start_ns = r->start_time_ns;
	profile.duration_ns = (uint64_t)(r->end_ns - r->start_ns);
	if (r->own->html)
		err = profile_file_write(ctx, r->own->html, write_html, &profile);
	if (r->own->folded && !err)
		folded_write(&profile, stdout);
	profile_free(&profile);
	/*
	 * A pprof file contains the allocated words and the live words: make the profile again, by
	 * allocated words.
	 */
	if (err || !r->own->pprof)
		return err;
	err = heap_profile_make(ctx, r->heap, r->names, r->own->spec.rate, false, &profile);
	if (err)
		return err;
	profile.start_ns = r->start_time_ns;
	profile.duration_ns = (uint64_t)(r->end_ns - r->start_ns);
	profile.is_live = r->own->by_live;
	err = profile_file_write(ctx, r->own->pprof, write_blocks_pprof, &profile);
	profile_free(&profile);
	return err;
}

static int report_heap(struct memprof_run *r)
{
	struct memprof_report report = {
		.heap = r->heap,
		.names = r->names,
		.rate = r->own->spec.rate,
		.seconds = (double)(r->end_ns - r->start_ns) / 1e9,
		.losses =
			memprof_losses(r->memprof, r->answers.is_closed && !r->answers.has_stopped),
		.by_probes = r->probes,
		.order = { .by_live = r->own->by_live, .by_leaf = r->own->by_leaf },
		.lifetimes = r->own->lifetimes,
	};
	int err = r->probes ? memprof_probes_add_losses(r->probes, &report.losses) : 0;

	if (err)
		return err;
	err = memtrace_file_finish(r->memtrace, &report.losses, r->options->quiet);
	r->memtrace = NULL;
	if (!err)
		err = write_profile(r);
	if (err)
		return err;
	if (r->options->json)
		memprof_json_end(&report);
	else if (!r->own->folded)
		err = memprof_print_table(r->options->ctx, &report);
	else if (!r->options->quiet)
		memprof_print_losses(&report, stderr);
	say_refusals(r);
	if (!err && !heap_totals(r->heap).blocks && !r->options->quiet)
		say(has_started(r) ? "no samples: the program has allocated too little at this rate"
				   : "no samples: the profile has not started");
	return err;
}

static int run_memprof_session(struct memprof_run *r)
{
	enum ending ending = ENDED_BY_ERROR;
	int err;

	await_start(r);
	if (!has_started(r))
		r->start_ns = session_now_ns();
	r->start_time_ns = (uint64_t)clock_ns(CLOCK_REALTIME);
	if (!r->err) {
		say_event_source(r);
		if (r->options->json)
			memprof_json_start(&(struct memprof_json_head){
				.pid = (int)r->options->pid,
				.rate = r->own->spec.rate,
				.depth = r->own->spec.depth,
				.ocaml = memprof_ocaml(r->memprof),
				.by_probes = r->probes,
				.after_ns = has_started(r) ? r->start_ns - r->asked_ns : -1 });
		ending = take_samples(r);
	}
	r->end_ns = session_now_ns();
	err = r->err;
	if (!err && ending == ENDED_BY_ERROR)
		return EXIT_FAILED;
	if (!err)
		err = stop(r);
	if (!err && ending == ENDED_WITH_PROCESS && !r->options->quiet)
		say(r->session->n_alive
			    ? "pid %d has executed another program, or has closed the session"
			    : "pid %d has ended",
		    (int)r->options->pid);
	if (!err)
		err = report_heap(r);
	return err ? say_error(r->options->ctx, err) : EXIT_DONE;
}

/*
 * Check that the program is linked with the library. If the program is not linked with the library
 * but runs native OCaml code, the hint of the error says how to sample allocation without the
 * library, or why this is not possible.
 */
static int check_linked(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec)
{
	int err = memprof_check(ctx, pid, spec);
	struct ocp_ctx *own;

	if (err != -ENODATA || process_need_native(ctx, pid) != 0)
		return err;
	err = memprof_check(ctx, pid, spec);
	own = ocp_ctx_new();
	if (own && allocation_check(own, pid))
		ctx_hint(
			ctx,
			"`ocaml-probes profile --alloc`, which needs no library, is not possible: %s",
			ocp_error(own));
	ocp_ctx_free(own);
	return err;
}

static int open_run(struct memprof_run *r)
{
	struct ocp_ctx *ctx = r->options->ctx;
	int err = profile_file_check(ctx, r->own->html);

	if (!err)
		err = profile_file_check(ctx, r->own->pprof);
	if (!err)
		err = check_linked(ctx, r->options->pid, &r->own->spec);
	if (!err)
		err = heap_new(ctx, &r->heap);
	/* Read the mappings before the request, since the program can end soon after it. */
	if (!err)
		err = heap_names_open(ctx, r->options->pid, &r->names);
	if (!err)
		err = memtrace_file_open(ctx, r->own->memtrace, r->options->pid, &r->own->spec,
					 r->names, &r->memtrace);
	r->asked_ns = session_now_ns();
	if (!err && r->own->spec.by_probes)
		err = memprof_probes_open(ctx, r->options->pid, r->own->spec.depth, &r->probes);
	if (!err)
		err = memprof_open(ctx, r->options->pid, &r->own->spec, &r->memprof);
	return err ? say_error(ctx, err) : EXIT_DONE;
}

static int run_heap_tracking(struct options *options)
{
	struct session session = { 0 };
	struct memprof_run r = { .options = options,
				 .own = memprof_options_of(options),
				 .session = &session };
	int code = check_options(options, r.own);

	if (code != EXIT_DONE)
		return code;
	code = session_open(&session, options->pids, options->n_pids);
	progress_begin(options, "reading");
	if (code == EXIT_DONE)
		code = open_run(&r);
	progress_end();
	if (code == EXIT_DONE)
		code = run_memprof_session(&r);
	memprof_close(r.memprof);
	memprof_probes_close(r.probes);
	memtrace_file_abandon(r.memtrace);
	session_close(&session);
	heap_names_close(r.names);
	heap_free(r.heap);
	return code;
}

const struct command command_memprof = {
	.name = "memprof",
	.help = &help_memprof,
	.takes_running = true,
	.run = run_heap_tracking,
	.set_own = set_memprof_option,
};
