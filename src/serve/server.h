/* SPDX-License-Identifier: MIT */
/* The server: a watch, what asks about it over HTTP, and the textfile. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "cli/cli.h"
#include "serve/buckets.h"

/* What the command line asked for. */
struct serve_options {
	const char *listen, *config, *textfile; /* NULL: not given */
	const char **hosts;			/* see hosts.h */
	size_t n_hosts;
	struct buckets buckets; /* n 0: not given */
	bool label_pid, control;
};

/* Serve until SIGINT or SIGTERM; returns an exit code. */
int serve(const struct options *options);

#endif
