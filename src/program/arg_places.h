/* SPDX-License-Identifier: MIT */
/*
 * Recognises arguments that are described by a note but cannot be read by BPF programs: unboxed
 * floats in a floating-point register. The text below explains this to users; the post-linker, the
 * measurement and generated scripts all use the text.
 */
#ifndef PROGRAM_ARG_PLACES_H
#define PROGRAM_ARG_PLACES_H

#include <stdbool.h>
#include <string.h>

#define ARG_FLOAT_REGISTER                                                                         \
	"in a floating-point register at the probe, which the kernel does not show"

/*
 * Return true if the operand of a note, N bytes at TEXT, is in a floating-point register: 8f@%xmm1.
 */
static inline bool arg_is_in_float_register(const char *text, size_t n)
{
	return memmem(text, n, "@%xmm", strlen("@%xmm")) != NULL;
}

#endif
