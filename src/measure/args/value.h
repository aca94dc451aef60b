/* SPDX-License-Identifier: MIT */
/*
 * Reads the arguments of a hit from the record that bpf/args.bpf.h wrote, as trees of values, and
 * writes them as text. The types of OCaml values cannot always be seen in memory: an int may also
 * be a bool, a char or a constant constructor; records, tuples and arrays are all blocks of tag 0;
 * a block that looks like a list is taken for a list, even if it is (1, false).
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
	__u8 tag;	      /* the tag of a block */
	bool is_cut;	      /* some bytes or items were not recorded */
	unsigned int n_items; /* the number of recorded items */
	__s64 number;	      /* the value of an integer of any kind */
	double real;	      /* the value of a float */
	/* the bytes of a string, or the name of a custom value; not terminated by NUL */
	const char *bytes;
	size_t n_bytes;
	__u64 size; /* bytes of a string, words of a block, elements of floats; unknown for lists */
	const struct hit_record *record;
	unsigned int node;
};

/*
 * Return true if the N bytes at RECORD are a valid record. All other functions require a valid
 * record.
 */
bool value_record_is_sound(const struct hit_record *record, size_t n);

/* Return argument number ARG of RECORD. ARG must be less than record->n_args. */
struct value value_of_arg(const struct hit_record *record, unsigned int arg);

/* Return item number I of VALUE. I must be less than value->n_items. */
struct value value_item(const struct value *value, unsigned int i);

/*
 * Write VALUE, which is an argument of type TYPE, in the syntax of value_write_args(). VALUE must
 * not be a value with items, such as a block or list.
 */
void value_write(FILE *out, const struct value *value, enum ocp_arg_type type);

/*
 * Write REAL to TEXT, in the shortest form that reads back as REAL: 0.1, 50, nan, inf, -inf. Return
 * TEXT.
 */
enum { FLOAT_TEXT_BYTES = 40 };
const char *float_text(char text[FLOAT_TEXT_BYTES], double real);

/*
 * Write all arguments in OCaml syntax, with a space before each: 42, "abc", 3.14, 7L, (1, "x"),
 * tag3(1, 2), [1; 2], [|1.; 2.|], <closure>. Values that were cut end with "...". Characters that
 * are not printable are escaped. NAMES has the names and types of the arguments
 * (program/arg_names.h): id=42, ok=true, c='x'.
 */
void value_write_args(FILE *out, const struct hit_record *record, const char *names);

#endif
