// SPDX-License-Identifier: MIT
#include "elf/symbol_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE_SYMBOLS = 4096,
	MAX_TABLE = 1 << 26, /* symbols: a table of 1.5 GiB */
};

int symbol_table_each(struct ocp_ctx *ctx, struct elf_file *elf, const struct elf_section *table,
		      symbol_fn fn, void *data)
{
	const uint64_t n = table->bytes / sizeof(Elf64_Sym);
	int err = 0;

	if (n > MAX_TABLE)
		return ctx_error(ctx, -EBADMSG, "%s: symbol table claims %" PRIu64 " symbols",
				 elf_file_name(elf), n);
	for (uint64_t at = 0; !err && at < n; at += PIECE_SYMBOLS) {
		const uint64_t here = n - at < PIECE_SYMBOLS ? n - at : PIECE_SYMBOLS;
		struct elf_section piece = *table;
		uint8_t *bytes;

		if (at * sizeof(Elf64_Sym) > UINT64_MAX - table->off)
			return ctx_error(ctx, -EBADMSG, "%s: symbol table is outside of the file",
					 elf_file_name(elf));
		piece.off = table->off + at * sizeof(Elf64_Sym);
		piece.bytes = here * sizeof(Elf64_Sym);
		err = elf_file_read_section(elf, &piece, piece.bytes, &bytes);
		for (uint64_t i = 0; !err && i < here; i++) {
			Elf64_Sym symbol;

			memcpy(&symbol, bytes + i * sizeof(symbol), sizeof(symbol));
			err = fn(data, &symbol);
		}
		free(bytes);
	}
	return err;
}
