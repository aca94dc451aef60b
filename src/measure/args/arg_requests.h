/* SPDX-License-Identifier: MIT */
/*
 * The parts of a request that need arguments of probes: filter, key, histogram, groups, printed
 * hits, slow pairs. arg_requests_resolve() finds out which probes have the necessary arguments, and
 * leaves out the other probes.
 */
#ifndef MEASURE_ARG_REQUESTS_H
#define MEASURE_ARG_REQUESTS_H

#include <linux/types.h>
#include <stdbool.h>
#include "args.h"
#include "measure/args/filter.h"
#include "measure/args/request.h"
#include "program/selection.h"
#include "measure/sites/site_table.h"

/*
 * The parsed arguments of sites. Sites whose arguments have the same operands and names share an
 * entry: a program with 100 000 sites has a few hundred entries.
 */
struct arg_table {
	struct site_args *entries; /* by entry number; the numbers never change */
	char **texts;		   /* by entry number: operands, a newline, names */
	uint32_t *by_text;	   /* the numbers of all entries, sorted by texts[number] */
	size_t n, room;
};

/* Return the argument names of entry NUMBER. The string is valid as long as the table. */
const char *arg_table_names(const struct arg_table *table, uint32_t number);

/* A probe without an argument that the request needs. */
struct left_out {
	const char *how; /* the consequence, such as "not counted"; a static string */
	char *why;
};

enum { MAX_HISTOGRAMS = 1024 }; /* a histogram takes 24 KB per CPU */

struct arg_requests {
	struct ocp_ctx *ctx;
	struct site_table *sites;
	const struct measure_request *request;

	/* the arguments in the request, parsed */
	bool has_filter;
	struct filter filter;
	struct asked_names asked; /* names of arguments in filter, key, histogram and groups */
	/* In the following members, an argument has the number that filter_parse() gives it. */
	__u32 filter_args; /* bit N: the filter uses the argument N */
	int key_arg;	   /* the argument that is the key of all pairs; -1: no key */
	bool has_pairs;	   /* at least one pair has a key or a compared argument */
	int hist_arg;	   /* the argument of the histograms; -1: none */
	int by_arg;	   /* the argument by which hits and times are grouped; -1: no groups */
	struct selection printed;

	/* the results of arg_requests_resolve() */
	struct selection not_measured; /* probes that were left out */
	struct left_out *left_out;
	size_t n_left_out;
	struct arg_table table;
	size_t n_histograms;   /* the number of histograms in use */
	size_t histogram_room; /* how many histograms the engine has room for */
};

/*
 * Initialise REQUESTS; no arguments are requested yet. CTX, SITES and REQUEST belong to the caller
 * and must outlive REQUESTS.
 */
void arg_requests_init(struct arg_requests *requests, struct ocp_ctx *ctx, struct site_table *sites,
		       const struct measure_request *request);
void arg_requests_free(struct arg_requests *requests);

/* Return true if the filter applies to the hits of PROBE. */
bool arg_requests_filter(const struct arg_requests *requests, const struct measured_probe *probe);

/*
 * Number the arguments and histograms of all sites. Remove the probes that lack a requested
 * argument from the table; a probe that lacks only the argument of the histogram or of the groups
 * remains, without histogram or groups. Return -EINVAL if no probe is left, or if a probe lacks an
 * argument that a pair needs.
 */
int arg_requests_resolve(struct arg_requests *requests);
/*
 * Log why probes were removed or are counted only in part: one warning for each of the first
 * probes, then one with the number of the remaining probes.
 */
void arg_requests_tell_left_out(const struct arg_requests *requests);
/*
 * Like arg_requests_resolve(), but only for the N sites from number FIRST on, which are in a file
 * that was loaded later. Leave out a site that lacks a requested argument, but not the other sites
 * of its probe.
 */
int arg_requests_resolve_later(struct arg_requests *requests, size_t first, size_t n);

/* Return true if pairs that begin at PROBE are grouped by the value of an argument. */
bool arg_requests_group_pairs(const struct arg_requests *requests,
			      const struct measured_probe *probe);

/* Return the name by which argument ARG was requested; NULL if it was requested by its position. */
const char *arg_requests_name(const struct arg_requests *requests, unsigned int arg);
/*
 * Return the declared type of the requested argument ARG at a site whose arguments have the names
 * NAMES.
 */
enum ocp_arg_type arg_requests_type(const struct arg_requests *requests, unsigned int arg,
				    const char *names);
/*
 * PROBE must have a histogram. Return the position of the histogram's argument at the sites of
 * PROBE, and set NAME to the argument's name, or to "" if it has none.
 */
unsigned int arg_requests_position(const struct arg_requests *requests,
				   const struct measured_probe *probe,
				   char name[OCP_ARG_NAME_BYTES]);

#endif
