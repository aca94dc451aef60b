/* SPDX-License-Identifier: MIT */
/* The server: a watch, the HTTP process in front of it, and the textfile. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "cli/cli.h"
#include "serve/buckets.h"

/* The values of the options that only `serve` has. */
struct serve_options {
	const char *listen, *config, *textfile; /* NULL: not given */
	const char **hosts;			/* names given by --host, see hosts.h */
	size_t n_hosts;
	struct buckets buckets; /* buckets.n is 0 if the option is not given */
	const char *token_file; /* NULL: choose a random token */
	bool label_pid, control, profile, memprof;
	double memprof_rate; /* samples per word, with `memprof` */
};

/* Serve until SIGINT or SIGTERM. Return an exit code. */
int serve(const struct options *options);

#endif
