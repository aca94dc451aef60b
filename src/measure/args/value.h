/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a hit, from the record that bpf/args.bpf.h made of them: as a tree to walk, and
 * as text. What OCaml's memory does not tell is not told here either: an int may be a bool, a char
 * or a constant constructor; a record, a tuple and an array are all blocks of tag 0; a list is
 * what looks like one, (1, false) too.
 */
#ifndef MEASURE_VALUE_H
#define MEASURE_VALUE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "args.h"
#include "ocaml_probes_measure.h"

struct value {
	enum ocp_value_kind kind;
	__u8 tag;	      /* of a block */
	bool is_cut;	      /* the record does not have all bytes or items */
	unsigned int n_items; /* as many as the record has */
	__s64 number;	      /* of the integers */
	double real;	      /* of a float */
	const char *bytes;    /* of a string, no NUL behind them */
	size_t n_bytes;
	__u64 size; /* bytes of a string, words of a block, elements of floats; of a list unknown */
	const struct hit_record *record;
	unsigned int node;
};

/*
 * Are N bytes at RECORD a record in which every part is where it belongs? All the other functions
 * presuppose that.
 */
bool value_record_is_sound(const struct hit_record *record, size_t n);

/* Argument ARG, less than record->n_args. */
struct value value_of_arg(const struct hit_record *record, unsigned int arg);

/* Item I, less than VALUE->n_items. */
struct value value_item(const struct value *value, unsigned int i);

/*
 * Write all arguments as OCaml would, a space before each: 42, "abc", 3.14, 7L, (1, "x"),
 * tag3(1, 2), [1; 2], [|1.; 2.|], <closure>. What is cut ends with "...". Nothing but printable
 * characters is written.
 */
void value_write_args(FILE *out, const struct hit_record *record);

#endif
