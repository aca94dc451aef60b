/* SPDX-License-Identifier: MIT */
/* The server: a watch, the HTTP process in front of it, and the textfile. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "cli/cli.h"
#include "serve/buckets.h"

/* The options of the command line. */
struct serve_options {
	const char *listen, *config, *textfile; /* NULL: not given */
	const char **hosts;			/* see hosts.h */
	size_t n_hosts;
	struct buckets buckets; /* n 0: not given */
	const char *token_file; /* NULL: choose a token */
	bool label_pid, control, profile, memprof;
	double memprof_rate; /* with memprof */
};

/* Serve until SIGINT or SIGTERM; returns an exit code. */
int serve(const struct options *options);

#endif
