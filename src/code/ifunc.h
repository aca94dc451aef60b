/* SPDX-License-Identifier: MIT */
/*
 * An IFUNC, such as memmove of libc. Its symbol is the address of a resolver: a function that is
 * called once in each process. The resolver examines the features of the processor, and chooses the
 * function that calls of memmove execute.
 */
#ifndef CODE_IFUNC_H
#define CODE_IFUNC_H

#include <stddef.h>
#include <stdint.h>
#include "code/code_file.h"
#include "code/functions.h"
#include "elf/elf_file.h"

/* The functions of a file, including functions without symbols. */
struct ifuncs;

int ifuncs_read(struct ocp_ctx *ctx, struct elf_file *elf, struct ifuncs **out);
void ifuncs_free(struct ifuncs *ifuncs);

/* One of the functions that may be chosen. */
struct ifunc_choice {
	uint64_t va, bytes;
};

/* Limit for the choices of one IFUNC. The IFUNCs of glibc have at most sixteen. */
enum { IFUNC_CHOICES = 64 };

/*
 * Set LIST[0..*N) to the functions that FUNCTION, an IFUNC (is_chosen), may choose, each once. *N
 * is 0 if the code of FUNCTION does not show which functions these are, for example because they
 * are in the kernel's vDSO. IFUNCS and FILE must be of the same file as FUNCTION.
 */
int ifuncs_choices(struct ocp_ctx *ctx, const struct ifuncs *ifuncs, struct code_file *file,
		   const struct function *function, struct ifunc_choice list[IFUNC_CHOICES],
		   size_t *n);

#endif
