/* SPDX-License-Identifier: MIT */
/* Output of `memprof`: a table at the end, or JSON lines while events come. */
#ifndef TOOL_MEMPROF_OUTPUT_H
#define TOOL_MEMPROF_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include "memprof/heap_profile.h"

struct memprof_report {
	const struct heap *heap;
	struct heap_names *names;
	double rate;
	double seconds;
	struct memprof_losses losses;
	bool by_probes; /* the events came through eBPF */
	bool by_live;	/* sort sites by live words instead of allocated words */
	bool lifetimes; /* print lifetimes, too */
};

/* Print what is missing in the report, and why. memprof_print_table() prints the same lines. */
void memprof_print_losses(const struct memprof_report *report, FILE *to);
int memprof_print_table(struct ocp_ctx *ctx, const struct memprof_report *report);

/* JSON, a line for each event. */
struct memprof_json_head {
	int pid;
	double rate;
	uint32_t depth, ocaml;
	bool by_probes;	  /* events come through eBPF */
	int64_t after_ns; /* from the request to the start in a domain; -1: not started */
};

void memprof_json_start(const struct memprof_json_head *head);
/* Print the stack NUMBER. Call this before the first event that has the stack. */
int memprof_json_stack(struct ocp_ctx *ctx, struct heap_names *names, size_t number,
		       const uint64_t *frames, uint32_t depth);
/* Print an event. STACK is the number of the call stack; SIZE_MAX: unknown. */
void memprof_json_event(const struct memprof_event *event, size_t stack);
void memprof_json_end(const struct memprof_report *report);

#endif
