/* SPDX-License-Identifier: MIT */
/* The functions of the kernel, from /proc/kallsyms. */
#ifndef UNWIND_KERNEL_SYMBOLS_H
#define UNWIND_KERNEL_SYMBOLS_H

#include <stdint.h>
#include "base/ctx.h"

struct kernel_symbols;

/*
 * Read the symbols. Without CAP_SYSLOG the kernel hides the addresses, and no name will be found.
 */
int kernel_symbols_read(struct ocp_ctx *ctx, struct kernel_symbols **out);
void kernel_symbols_free(struct kernel_symbols *symbols);

/* Return the name of the function that contains ADDRESS; NULL if it is unknown. */
const char *kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address);

#endif
