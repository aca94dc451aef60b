/* SPDX-License-Identifier: MIT */
/* What the decoder of functions reads of an executable. One thread at a time uses a code_file. */
#ifndef CODE_CODE_FILE_H
#define CODE_CODE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "elf/elf_file.h"

/* Bytes of a file, with the link-time address of the first one. */
struct code_bytes {
	const uint8_t *bytes;
	size_t n;
	uint64_t va;
};

struct code_file;

/*
 * ENTRIES[0..N), sorted, are the addresses where functions begin: a jump there from another function
 * is a tail call. Parts of a function that a compiler put elsewhere (NAME.cold) are not among them.
 * ELF and ENTRIES exist as long as the code_file.
 */
int code_file_open(struct ocp_ctx *ctx, const struct elf_file *elf, const uint64_t *entries,
		   size_t n, struct code_file **out);
/* The same of PARTS[0..N_PARTS), which exist as long as the code_file, in place of a file. */
int code_file_open_memory(struct ocp_ctx *ctx, const struct code_bytes *parts, size_t n_parts,
			  const uint64_t *entries, size_t n, struct code_file **out);
void code_file_close(struct code_file *file);

/*
 * Fill *OUT with the N bytes at VA, which are code or not. They stay until the next bytes of that
 * kind are asked for. -ENODATA if the file does not have them all; an error has no message.
 */
int code_file_bytes(struct code_file *file, bool is_code, uint64_t va, size_t n,
		    struct code_bytes *out);

bool code_file_is_entry(const struct code_file *file, uint64_t va);

/* Memory that code_function_decode uses again and again. */
struct code_flow;
struct code_flow *code_file_flow(const struct code_file *file);

#endif
