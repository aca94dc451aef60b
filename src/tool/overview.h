/* SPDX-License-Identifier: MIT */
/* What `report` measures and prints: what a program does right now. */
#ifndef TOOL_OVERVIEW_H
#define TOOL_OVERVIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "cli/cli.h"
#include "code/runtime.h"
#include "process/gc_gauges.h"
#include "profile/own_functions.h"

enum { OVERVIEW_WHY_BYTES = 400, N_OVERVIEW_PROFILES = PROFILE_WORDS + 1 };

/* Why a part of the report is missing. "": the part was measured. */
struct overview_why {
	char text[OVERVIEW_WHY_BYTES];
};

/* A profile, and the functions of the program in it. */
struct overview_profile {
	struct overview_why why;
	struct profile profile;
	struct own_functions own;
	/* Sampling has ended early, since it had used up its part of the budget. */
	bool is_over_budget;
};

/* The figures of the collector at the start and at the end. */
struct overview_gauges {
	struct overview_why why;
	const struct runtime *runtime; /* NULL if `why` is set */
	struct gc_gauges first, now;   /* only `now` has domains */
	int64_t span_ns;	       /* between `first` and `now` */
	uint64_t least_heap, most_heap;
};

struct overview_probes {
	struct overview_why why;
	size_t n; /* the number of probes of the program; 0: nothing is counted */
	const struct ocp_sample *sample;
	const char *engine; /* "bpf" or "inside" */
	bool is_over_budget;
	struct ocp_costs costs; /* all 0 if they are not known */
	/*
	 * Counting took much of the program's CPU time, so the program was slower than it is
	 * otherwise: its rates are higher.
	 */
	bool is_slowed;
	/* pairs were found, but are not timed, for this reason */
	struct overview_why pairs_why;
};

struct overview {
	pid_t pid;
	const char *exe;
	unsigned long threads;	    /* when they were counted last */
	int64_t wall_ns;	    /* the start of the report, since 1970 */
	int64_t span_ns;	    /* how long the CPU time was measured */
	int64_t cpu_ns;		    /* the CPU time of the process in this time; -1: not known */
	double cost_ns;		    /* what measuring has cost the process */
	struct overview_why no_bpf; /* why BPF is not permitted; "": it is */
	bool has_memprof;	    /* the program is linked with ocaml-probes.memprof */
	struct overview_gauges gauges;
	struct overview_profile profiles[N_OVERVIEW_PROFILES]; /* by enum profile_kind */
	struct overview_probes probes;
};

struct overview_meters;

/*
 * The phases of a report; call each once. overview_open() prepares to measure the process that
 * OPTIONS name. overview_start() begins. overview_check(), many times a second, keeps each part
 * within its budget, and reads the collector's figures. overview_stop() ends the measurement.
 * overview_read() fills in OVERVIEW, which is valid until overview_close(), to be called in all
 * cases. overview_open() returns 0, or a negative errno with a message in the ctx of OPTIONS; it is
 * not an error if a part of the report cannot be measured.
 */
int overview_open(struct options *options, struct overview_meters **out);
void overview_start(struct overview_meters *meters);
void overview_check(struct overview_meters *meters);
void overview_stop(struct overview_meters *meters);
void overview_read(struct overview_meters *meters, struct overview *overview);
void overview_close(struct overview_meters *meters);

static inline double overview_seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

/* Return how many of N events in NS nanoseconds there were in a second. */
static inline double overview_per_second(double n, int64_t ns)
{
	return ns > 0 ? n / overview_seconds(ns) : 0;
}

/* Return how many cores the program has used on average; 0 if its CPU time is not known. */
static inline double overview_cpu_cores(const struct overview *o)
{
	return o->cpu_ns < 0 ? 0 : overview_per_second(overview_seconds(o->cpu_ns), o->span_ns);
}

/* Return the words that were allocated. Minor and major words both have the promoted ones. */
static inline double overview_allocated_words(const struct overview_gauges *gauges)
{
	const struct gc_words *now = &gauges->now.words, *first = &gauges->first.words;

	return now->minor - first->minor + now->major - first->major -
	       (now->promoted - first->promoted);
}

/*
 * Print OVERVIEW as text, of 80 columns if names are not too long, or as a JSON object.
 * overview_print_text() returns 0 or -ENOMEM with a message, and then prints nothing.
 */
int overview_print_text(struct ocp_ctx *ctx, const struct overview *overview);
void overview_print_json(const struct overview *overview);
/* Write OVERVIEW to TO as a page that needs no other file. Return 0 or an error with a message. */
int overview_write_page(struct ocp_ctx *ctx, const struct overview *overview, FILE *to);

#endif
