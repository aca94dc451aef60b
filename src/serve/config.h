/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: an object in JSON, with comments.
 *
 *	listen     "ADDRESS:PORT"
 *	hosts      ["NAME", "NAME:PORT", ...]   see hosts.h
 *	buckets    [0.001, 0.01, ...]   seconds, ascending
 *	label_pid  true | false
 *	textfile   "FILE"
 *	targets    [ TARGET, ... ]; without it, every program with probes on the machine
 *
 * and a TARGET is { "exe": "FILE" } or { "pid": N }, with any of
 *
 *	count      ["NAME", ...] or what --count= takes; without it, all probes
 *	time       [["START", "STOP"], ...]
 *	depth, key, filter     as the options of that name
 *	budget     percent of a core
 */
#ifndef SERVE_CONFIG_H
#define SERVE_CONFIG_H

#include <stdbool.h>
#include "base/ctx.h"
#include "measure/request.h"
#include "serve/buckets.h"

struct config_target {
	const char *exe; /* or NULL, and */
	pid_t pid;
	struct measure_request request;
};

struct config {
	const char *listen, *textfile; /* NULL: not given */
	const char **hosts;
	size_t n_hosts;
	struct buckets buckets; /* n 0: not given */
	bool label_pid;
	struct config_target *targets;
	size_t n_targets;
	struct config_memory *memory; /* of the strings */
};

/*
 * -EINVAL with a sentence "FILE:LINE: KEY: WHY" if something in FILE is not as it should be. A pipe
 * is read only if WAKE_FD is not -1, see config_file_read.
 */
int config_read(struct ocp_ctx *ctx, const char *file, int wake_fd, struct config **out);
/* The same of TEXT, N bytes and a zero byte behind them, which is what FILE has. */
int config_parse(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		 struct config **out);
/* Takes NULL. */
void config_free(struct config *config);

#endif
