/* SPDX-License-Identifier: MIT */
/*
 * Finding the places of a probe's arguments at its site, from the code that the ppx has put into
 * the handler. See x86_args.c.
 */
#ifndef DORMANT_X86_ARGS_H
#define DORMANT_X86_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/x86_site.h"

enum {
	X86_MAX_ARGS = 32, /* the ppx allows no more */
	X86_MAX_THEN = 3,  /* reads of memory after the first one: ARG_MAX_THEN of bpf/args.h */
	X86_OPERAND_BYTES = 96,
};

struct x86_args_query {
	const struct x86_code *code;
	size_t start; /* of the handler */
	const struct x86_site
		*site; /* what it writes holds something else there than at the site */
	uint64_t site_va;
	bool is_fixed; /* the program runs at its link-time addresses */
	size_t n_args; /* at most X86_MAX_ARGS */
	/* Is VA the address of these arguments' marker, or of a word that will have it? */
	bool (*is_marker)(const void *data, uint64_t va);
	bool (*holds_marker)(const void *data, uint64_t va);
	/* Read the word of the program's data at VA. Returns false if there is none. */
	bool (*read_word)(const void *data, uint64_t va, uint64_t *word);
	const void *data;
};

struct x86_arg {
	char operand[X86_OPERAND_BYTES]; /* "": unknown */
	bool is_path;			 /* it reads memory more than once: not SystemTap's */
	size_t store_pos, store_bytes;	 /* the instruction that stores it; 0 bytes: none */
};

/* The note's text for an unknown operand: no OCaml value is 0. */
#define X86_NO_OPERAND "8@$0"

void x86_find_args(const struct x86_args_query *query, struct x86_arg *args);

#endif
