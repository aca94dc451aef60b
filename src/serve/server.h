/* SPDX-License-Identifier: MIT */
/*
 * Room serve: the server ocaml-probes-serve.
 * In: a configuration, and HTTP requests, which are not trusted.
 * Out: metrics, JSON, pages, switched probes, profiles.
 * Callers: none, since it is a program.
 */
/* The server: a watch, the HTTP process in front of it, and the textfile. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "cli/cli.h"
#include "serve/config.h"

/* The values of the options that only `serve` has. */
struct serve_options {
	struct serve_settings settings; /* take precedence over the configuration */
	const char *config;		/* the configuration file; NULL: not given */
	bool control;
	struct record_conditions conditions; /* of the programs that the options name */
};

/* Serve until SIGINT or SIGTERM. Return an exit code. */
int serve(const struct options *options);

#endif
