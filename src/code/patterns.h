/* SPDX-License-Identifier: MIT */
/*
 * Find the patterns of `match`, `function` and `try` in a line of OCaml. The compiler tests the
 * patterns of several cases together, and gives the code of these tests the place of one of the
 * patterns. So the number of times that this code runs is not the number of times that the case of
 * this pattern was chosen.
 */
#ifndef CODE_PATTERNS_H
#define CODE_PATTERNS_H

#include <stdbool.h>

/* A position `at` in a line, which begins at `text` and ends at `end`. */
struct pattern_reader {
	const char *text, *at, *end;
	bool is_first;
};

/*
 * Find the next pattern: columns *FROM to *TO - 1. Returns false if there is none. Patterns are
 * only found in lines that begin with "|" or "with".
 */
bool pattern_next(struct pattern_reader *reader, int *from, int *to);

#endif
