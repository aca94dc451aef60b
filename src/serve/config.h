/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: an object in JSON; comments are allowed.
 *
 *	listen     "ADDRESS:PORT"
 *	hosts      ["NAME", "NAME:PORT", ...]   see hosts.h
 *	buckets    [0.001, 0.01, ...]   seconds, ascending
 *	label_pid  true | false
 *	textfile   "FILE"
 *	profile    true | false
 *	memprof    true | false | the samples per word, a number
 *	token_file "FILE"
 *	record     { "folder": "FOLDER", "last": "10s", "files": N, "disk_mb": N, "memory_mb": N }
 *	targets    [ TARGET, ... ]; default: every program with probes
 *
 * A TARGET is { "exe": "FILE" } or { "pid": N }, and may have these keys:
 *
 *	count      ["NAME", ...] or a string, as the value of --count; default: all probes
 *	time       [["START", "STOP"], "fn:FUNCTION", "gc:PHASE", ...]
 *	depth, key, filter     as the options --depth, --key and --filter
 *	by         the argument whose values split hits and times, as the option --by
 *	by_label   the name of the label for these values; default: the argument's name
 *	by_limit   how many values have separate samples; default: WATCH_LABEL_LIMIT
 *	budget     percent of a core
 *	engine     "bpf", "inside" or "auto"
 *	when       ["CONDITION", ...], as the option --when of `record`; requires "record"
 */
#ifndef SERVE_CONFIG_H
#define SERVE_CONFIG_H

#include <stdbool.h>
#include "base/ctx.h"
#include "measure/args/request.h"
#include "serve/buckets.h"
#include "watch/watch.h"

enum { RECORD_MOST_FILES = 1000, RECORD_MOST_MB = 65536 };
#define RECORD_LONGEST_NS (UINT64_C(3600) * 1000000000)

/* The flight recorders, see recorders.h. */
struct record_settings {
	const char *folder; /* for the files; NULL: nothing is recorded */
	const char *last;   /* as the option --last of `record`; NULL: not given */
	size_t files;	    /* the most recordings in the folder */
	size_t disk_mb;	    /* the most megabytes that they take */
	size_t memory_mb;   /* the events that a recorder keeps in memory */
};

/* The values of --when for one program. */
struct record_conditions {
	const char **list;
	size_t n;
};

/* The settings that can also be given as options. */
struct serve_settings {
	const char *listen, *textfile; /* NULL: not given */
	const char **hosts;	       /* names of this server, see hosts.h */
	size_t n_hosts;
	struct buckets buckets; /* buckets.n is 0: not given */
	bool label_pid, profile, memprof;
	double memprof_rate;	/* samples per word, with `memprof` */
	const char *token_file; /* NULL: choose a random token */
	struct record_settings record;
};

struct config {
	struct serve_settings settings;
	struct watch_spec *targets;
	size_t n_targets;
	struct measure_request *requests;     /* targets[i].request points to requests[i] */
	struct record_conditions *conditions; /* of each target */
	char **label_names; /* targets[i].label.name, if the file does not give it; or NULL */
	struct config_memory *memory; /* owns the strings, except those of the requests */
};

/*
 * Read the configuration FILE. If it is invalid, return -EINVAL with the message "FILE:LINE: KEY:
 * WHY". FILE must be a regular file or, if WAKE_FD is not -1, a nameless pipe such as a
 * shell's <(COMMAND). -ECANCELED if WAKE_FD becomes readable before the end of the pipe. The
 * caller frees *OUT with config_free().
 */
int config_read(struct ocp_ctx *ctx, const char *file, int wake_fd, struct config **out);
/* Like config_read(), for TEXT, the N bytes of FILE followed by a zero byte. */
int config_parse(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		 struct config **out);
/* Put "FILE:LINE: WHERE: " before the recorded error, which is about the value at WHERE. */
void config_blame(struct ocp_ctx *ctx, const struct config *config, const char *where);
/*
 * Like config_blame(), for ERR, an error about target number I. The WHERE of the prefix is the key
 * that the message names, or the key whose value the message quotes, or else "exe" or "pid". Errors
 * that the file does not cause (memory, privileges, unsupported operations) stay as they are.
 */
void config_blame_target(struct ocp_ctx *ctx, const struct config *config, size_t i, int err);
/* Free CONFIG, which may be NULL. */
void config_free(struct config *config);

#endif
