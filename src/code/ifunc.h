/* SPDX-License-Identifier: MIT */
/*
 * An IFUNC, such as memmove of libc: its symbol is that of a function which is called once in a process,
 * and which chooses what the calls of memmove execute, by the processor's features.
 */
#ifndef CODE_IFUNC_H
#define CODE_IFUNC_H

#include <stddef.h>
#include <stdint.h>
#include "code/code_file.h"
#include "code/functions.h"
#include "elf/elf_file.h"

/* The functions of a file, also those that have no symbols. */
struct ifuncs;

int ifuncs_read(struct ocp_ctx *ctx, struct elf_file *elf, struct ifuncs **out);
void ifuncs_free(struct ifuncs *ifuncs);

/* One of the functions that may be chosen. */
struct ifunc_choice {
	uint64_t va, bytes;
};

/* No IFUNC of glibc chooses among more than sixteen. */
enum { IFUNC_CHOICES = 64 };

/*
 * All that FUNCTION, which is_chosen, may choose, each once: LIST[0..*N). *N is 0 if its code does not
 * tell, as where the kernel's vDSO has what it chooses. FILE is of the same file.
 */
int ifuncs_choices(struct ocp_ctx *ctx, const struct ifuncs *ifuncs, struct code_file *file,
		   const struct function *function, struct ifunc_choice list[IFUNC_CHOICES],
		   size_t *n);

#endif
