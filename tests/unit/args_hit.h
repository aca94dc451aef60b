/* SPDX-License-Identifier: MIT */
/*
 * Hits of a site with arguments of the test's choice: a uprobe on a nop of the test program itself,
 * reached with every register set, runs tests/bpf/args_test.bpf.c.
 */
#ifndef TESTS_UNIT_ARGS_HIT_H
#define TESTS_UNIT_ARGS_HIT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../bpf/args_test.h"

/* What the next hit is to see, and what the last one left. */
extern struct args_hit {
	uint64_t registers[ARG_RIP];
	struct filter filter;
	struct hit_record record;
	char *text; /* what value_write_args makes of it */
} args_hit;

/* For cmocka_run_group_tests. Without the right to load BPF programs hit_or_skip skips. */
/* The site, in this executable. */
extern const char args_hit_nop[];

int args_hit_set_up(void **state);
int args_hit_tear_down(void **state);
void hit_or_skip(void);

/* Hit the site. All return the text. */
const char *hit_args(const struct site_args *args);
const char *hit(const char *operands);
const char *hit_value(uint64_t value); /* the only argument, in %rax */

/* What the BPF program made of argument 0 and the filter. */
const struct args_test_results *hit_results(void);

/* A hit's verdict on a filter. */
bool hit_matches(const char *operands, const char *filter);

#endif
