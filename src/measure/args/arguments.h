/* SPDX-License-Identifier: MIT */
/*
 * What is asked for of the arguments of probes (filter, key, histogram, printing), and which probes
 * have it.
 */
#ifndef MEASURE_ARGUMENTS_H
#define MEASURE_ARGUMENTS_H

#include <linux/types.h>
#include <stdbool.h>
#include "args.h"
#include "measure/args/args_table.h"
#include "measure/args/filter.h"
#include "program/selection.h"
#include "measure/sites/site_table.h"

/* A probe without what is asked for. */
struct left_out {
	const char *how; /* static */
	char *why;
};

enum { MAX_HISTOGRAMS = 1024 }; /* of 8 KB a CPU */

struct arguments {
	struct ocp_ctx *ctx;
	struct site_table *sites;

	/* what was asked for */
	bool has_filter;
	struct filter filter;
	__u32 filter_args; /* bit N: argN is in it */
	int key_arg;	   /* -1: none */
	int hist_arg;	   /* -1: none */
	struct selection printed;
	uint64_t print_limit;
	size_t print_bytes; /* of the buffer; 0: as the limit needs */

	/* what that comes to */
	struct selection not_measured; /* probes that were left out */
	struct left_out *left_out;
	size_t n_left_out;
	struct args_table table;
	size_t n_histograms;   /* numbers given away */
	size_t histogram_room; /* the engine has so many */
};

/* Nothing is asked for. CTX and SITES are the caller's, and outlive ARGUMENTS. */
void arguments_init(struct arguments *arguments, struct ocp_ctx *ctx, struct site_table *sites);
void arguments_free(struct arguments *arguments);

/* Are the hits of the probe filtered? */
bool arguments_filter(const struct arguments *arguments, const struct measured_probe *probe);

/*
 * Number the arguments and histograms of all sites. Probes that do not have what is asked for are
 * taken out of the table; -EINVAL if no probe is left, or if one is part of a pair that needs it.
 */
int arguments_resolve(struct arguments *arguments);
/* Warn of those that were taken out. */
void arguments_tell_left_out(const struct arguments *arguments);
/* The N sites from FIRST on, of a file that was loaded later: a site is left out with a warning. */
int arguments_resolve_later(struct arguments *arguments, size_t first, size_t n);

#endif
