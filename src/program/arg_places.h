/* SPDX-License-Identifier: MIT */
/*
 * Arguments that the notes place and the kernel cannot read: floats that are not boxed and in a
 * register. A BPF program sees no floating-point registers. One explanation, for the post-linker,
 * the measuring and scripts.
 */
#ifndef PROGRAM_ARG_PLACES_H
#define PROGRAM_ARG_PLACES_H

#include <stdbool.h>
#include <string.h>

#define ARG_FLOAT_REGISTER                                                                         \
	"in a floating-point register at the probe, which the kernel does not show"

/* Of an operand of a note, N bytes at TEXT: 8f@%xmm1. */
static inline bool arg_is_in_float_register(const char *text, size_t n)
{
	return memmem(text, n, "@%xmm", strlen("@%xmm")) != NULL;
}

#endif
