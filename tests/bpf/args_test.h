/* SPDX-License-Identifier: MIT */
/* What args_test.bpf.c and test_args_bpf.c share. */
#ifndef ARGS_TEST_H
#define ARGS_TEST_H

#include "args.h"

struct args_test {
	struct site_args args;
	struct filter filter;
};

struct args_test_results {
	__u64 n_hits;
	__u64 word;
	__s64 number; /* the int, or the bits of the float */
	__u64 key;
	__u32 read_ok, key_ok, matches;
	__u32 number_type; /* enum filter_type */
	__u32 mismatch;	   /* filter_mismatch() */
};

#endif
