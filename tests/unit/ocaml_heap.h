/* SPDX-License-Identifier: MIT */
/* OCaml values as the runtime lays them out, in the test's own memory. */
#ifndef TESTS_UNIT_OCAML_HEAP_H
#define TESTS_UNIT_OCAML_HEAP_H

#include <stddef.h>
#include <stdint.h>

enum {
	LAZY = 246,
	CLOSURE,
	OBJECT,
	INFIX,
	FORWARD,
	ABSTRACT,
	STRING,
	DOUBLE,
	DOUBLE_ARRAY,
	CUSTOM,
};

/* A block of zeros, which are no values yet; its words, the header is word -1. */
uint64_t of_block(unsigned int tag, size_t words);
uint64_t *words_of(uint64_t value);

/* N values of 64 bits follow. */
uint64_t of_fields(unsigned int tag, size_t n, ...);

uint64_t of_int(int64_t n);
uint64_t of_bytes(const char *bytes, size_t n);
uint64_t of_string(const char *text);
uint64_t of_double(double number);
uint64_t of_custom(const char *identifier, uint64_t payload);
uint64_t of_list(size_t n); /* [1; ... n] */

/* An address where nothing can be read; a block of which only the header can. */
uint64_t of_nowhere(void);
uint64_t of_header_only(unsigned int tag, size_t words);

#endif
