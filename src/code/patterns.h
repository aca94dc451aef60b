/* SPDX-License-Identifier: MIT */
/*
 * Where the patterns of `match`, `function` and `try` stand in a line of OCaml. The compiler tests patterns
 * of several cases together, and gives the code one of them: it does not tell how often a case was chosen.
 */
#ifndef CODE_PATTERNS_H
#define CODE_PATTERNS_H

#include <stdbool.h>

/* A place in the line TEXT..END. */
struct pattern_reader {
	const char *text, *at, *end;
	bool is_first;
};

/*
 * Find the next pattern: columns *FROM to *TO, its end excluded. Only lines that begin with "|" or "with"
 * have patterns here.
 */
bool pattern_next(struct pattern_reader *reader, int *from, int *to);

#endif
