/* SPDX-License-Identifier: MIT */
/*
 * Finds the places of a probe's arguments at its site, from the code that the ppx has put into the
 * branch of the handler. See x86_args.c.
 */
#ifndef DORMANT_X86_ARGS_H
#define DORMANT_X86_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/x86_site.h"

enum {
	X86_MAX_ARGS = 32, /* the most arguments of a probe; the ppx allows no more */
	/*
	 * The largest number of reads of memory after the first one, as ARG_MAX_THEN of bpf/args.h.
	 */
	X86_MAX_THEN = 3,
	X86_OPERAND_BYTES = 96,
};

struct x86_args_query {
	const struct x86_code *code;
	size_t start; /* offset of the handler in `code` */
	/*
	 * The site. Its code writes registers and stack slots, so at the handler these have other
	 * values than at the start of the site.
	 */
	const struct x86_site *site;
	uint64_t site_va;
	bool is_fixed; /* the program runs at its link-time addresses */
	size_t n_args; /* at most X86_MAX_ARGS */
	/*
	 * is_marker: return true if VA is the address of the marker for these arguments.
	 * holds_marker: return true if VA is the address of a word that will contain the marker's
	 * address.
	 */
	bool (*is_marker)(const void *data, uint64_t va);
	bool (*holds_marker)(const void *data, uint64_t va);
	/*
	 * Read the word at VA of the program's writable data. Return false if the program has no
	 * such data at VA.
	 */
	bool (*read_word)(const void *data, uint64_t va, uint64_t *word);
	const void *data;
};

struct x86_arg {
	char operand[X86_OPERAND_BYTES]; /* "" if the place of the argument is unknown */
	/* the operand reads memory more than once, which SystemTap's syntax cannot express */
	bool is_path;
	/* The instruction that stores the argument. store_bytes is 0 if it was not found. */
	size_t store_pos, store_bytes;
};

/*
 * The text of an unknown operand in a note. No OCaml value is 0, so readers cannot take this
 * operand for a value.
 */
#define X86_NO_OPERAND "8@$0"

void x86_find_args(const struct x86_args_query *query, struct x86_arg *args);

#endif
