/* SPDX-License-Identifier: MIT */
/*
 * The bytes of an executable, for the decoder of functions. A code_file may be used by one thread
 * at a time only.
 */
#ifndef CODE_CODE_FILE_H
#define CODE_CODE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "elf/elf_file.h"

/* Bytes of a file, and the link-time address of the first byte. */
struct code_bytes {
	const uint8_t *bytes;
	size_t n;
	uint64_t va;
	/*
	 * How many bytes of the gap to the next function follow, if these are the bytes of a
	 * function: see code_file_function(). Otherwise 0.
	 */
	size_t n_gap;
};

struct code_file;

/*
 * Open ELF. ENTRIES[0..N), sorted, are the addresses where functions begin: a jump from another
 * function to an entry is a tail call. ENTRIES must not contain parts of functions that a compiler
 * put elsewhere (NAME.cold). ELF and ENTRIES must exist as long as the code_file.
 */
int code_file_open(struct ocp_ctx *ctx, const struct elf_file *elf, const uint64_t *entries,
		   size_t n, struct code_file **out);
/*
 * Like code_file_open(), but for code in memory, PARTS[0..N_PARTS), instead of a file. PARTS must
 * exist as long as the code_file.
 */
int code_file_open_memory(struct ocp_ctx *ctx, const struct code_bytes *parts, size_t n_parts,
			  const uint64_t *entries, size_t n, struct code_file **out);
void code_file_close(struct code_file *file);

/*
 * Let *OUT point to the N bytes at VA. If IS_CODE, the bytes must be in an executable segment. The
 * bytes stay valid until the next call with the same IS_CODE. Returns -ENODATA if the file does not
 * store all of the bytes, or -ENOMEM. Errors have no message.
 */
int code_file_bytes(struct code_file *file, bool is_code, uint64_t va, size_t n,
		    struct code_bytes *out);

/*
 * Like code_file_bytes() for the code of the function at VA, which has N bytes, and for the gap
 * between it and the next entry, but for at most CODE_GAP_BYTES of the gap.
 */
enum { CODE_GAP_BYTES = 15 };
int code_file_function(struct code_file *file, uint64_t va, size_t n, struct code_bytes *out);

bool code_file_is_entry(const struct code_file *file, uint64_t va);

/*
 * Set *IS to true if the code of FILE, outside of the N bytes at VA, may have a jump, call or lea
 * to an address in [START, END): the bytes of one, which may have another meaning. Short jumps are
 * not looked for: compilers use them within a function only. Reads all code of the file. Returns 0
 * or -ENOMEM, without a message.
 */
int code_file_find_jump(struct code_file *file, uint64_t va, size_t n, uint64_t start, uint64_t end,
			bool *is);

/*
 * Return the working memory of the decoder. All calls of code_function_decode() for FILE use the
 * same memory.
 */
struct code_flow;
struct code_flow *code_file_flow(const struct code_file *file);

#endif
