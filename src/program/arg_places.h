/* SPDX-License-Identifier: MIT */
/*
 * Recognises arguments that a note describes but BPF programs cannot read: unboxed floats in a
 * floating-point register. The text below explains this to users. The post-linker, the measurement
 * and generated scripts use it.
 */
#ifndef PROGRAM_ARG_PLACES_H
#define PROGRAM_ARG_PLACES_H

#include <stdbool.h>
#include <string.h>

#define ARG_FLOAT_REGISTER                                                                         \
	"in a floating-point register at the probe, which the kernel does not show"

/*
 * Return true if the operand of a note, N bytes at TEXT, is in a floating-point register, such as
 * 8f@%xmm1.
 */
static inline bool arg_is_in_float_register(const char *text, size_t n)
{
	return memmem(text, n, "@%xmm", strlen("@%xmm")) != NULL;
}

#endif
