/* SPDX-License-Identifier: MIT */
/*
 * The machine code that evaluates a filter at the beginning of a trampoline. It jumps to one of two
 * places, and changes the flags and one register: rax of a site, which it saves on the stack, or
 * r11 of a window, where no value is in it.
 *
 * The rules are those of bpf/filter.bpf.h. A comparison with a value that is not an int has no
 * answer, and counts as false. If such a comparison could change the result, the hit is counted in
 * struct block_mismatches.
 */
#ifndef CHANGE_INSIDE_FILTER_CODE_H
#define CHANGE_INSIDE_FILTER_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "change/inside/inside.h"

/* The code to make. All addresses are those in the process. */
struct filter_code {
	const struct inside_filter *filter;
	bool is_window;
	uint32_t number;	    /* of the site: see struct block_mismatches */
	uint64_t addr;		    /* of the code */
	uint64_t matched, rejected; /* where execution continues */
	uint64_t mismatches;	    /* a struct block_mismatches */
};

/* The code has at most this size. */
enum { FILTER_CODE_MAX_BYTES = 8192 };

/*
 * Return the size of the code, which depends only on the filter and on is_window. If CODE is not
 * NULL, also write the code to it, and set *IS_SOUND to false if an argument is at a place that
 * cannot be read, or if a distance is too long.
 */
size_t filter_code_make(const struct filter_code *what, uint8_t *code, bool *is_sound);

#endif
