// SPDX-License-Identifier: MIT
/*
 * Finding the symbols of a few names in a symbol table that may be large or hostile.
 *
 * First the string table is read, in pieces of fixed size, and all offsets at which it has one of
 * the names are recorded. A name may be the end of a longer string, since linkers merge strings
 * with equal ends. Then the symbols are read, in pieces; a symbol has one of the names if the
 * offset of its name was recorded.
 */
#include "elf/named_symbols.h"
#include "base/array.h"
#include "base/search.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE_SYMBOLS = 4096,
	PIECE_BYTES = 256 * 1024,
	MAX_TABLE = 1 << 26, /* symbols: a table of 1.5 GiB */
	MAX_PLACES = 1 << 14,
};

#define MAX_STRING_BYTES (UINT64_C(1) << 31)

/* A place in the string table at which one of the requested names is. */
struct requested_place {
	uint32_t off;
	uint32_t asked; /* index of the name in the finder's `asked` */
};

struct name_finder {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct named_symbol *asked;
	size_t n_asked;
	size_t *lengths;   /* of the names */
	bool is_last[256]; /* is this byte the last one of a requested name? */
	struct requested_place *places;
	size_t n_places;
};

static int add_requested_place(struct name_finder *f, uint64_t off, size_t asked)
{
	struct requested_place *new;

	if (f->n_places == MAX_PLACES)
		return ctx_error(f->ctx, -EBADMSG, "%s: string table repeats '%s' too often",
				 elf_file_name(f->elf), f->asked[asked].name);
	new = array_add(f->places, f->n_places);
	if (!new)
		return ctx_no_memory(f->ctx);
	*new = (struct requested_place){ (uint32_t)off, (uint32_t)asked };
	return 0;
}

/*
 * BYTES[0..END) ends with a string whose terminating zero byte is at offset OFF of the table.
 * Record a place for each requested name that this string ends with.
 */
static int take_string_end(struct name_finder *f, const uint8_t *bytes, size_t end, uint64_t off)
{
	int err = 0;

	if (end == 0 || !f->is_last[bytes[end - 1]])
		return 0;
	for (size_t i = 0; !err && i < f->n_asked; i++)
		if (f->lengths[i] <= end &&
		    memcmp(bytes + end - f->lengths[i], f->asked[i].name, f->lengths[i]) == 0)
			err = add_requested_place(f, off - f->lengths[i], i);
	return err;
}

/* Read BYTES bytes of TABLE, from offset AT of the table on. */
static int read_piece(struct name_finder *f, const struct elf_section *table, uint64_t at,
		      uint64_t bytes, uint8_t **to)
{
	struct elf_section piece = *table;

	*to = NULL;
	if (at > UINT64_MAX - table->off)
		return ctx_error(f->ctx, -EBADMSG, "%s: symbol table is outside of the file",
				 elf_file_name(f->elf));
	piece.off = table->off + at;
	piece.bytes = bytes;
	return elf_file_read_section(f->elf, &piece, bytes, to);
}

static int find_name_places(struct name_finder *f, const struct elf_section *strings)
{
	int err = 0;

	if (strings->bytes > MAX_STRING_BYTES)
		return ctx_error(f->ctx, -EBADMSG, "%s: string table claims %" PRIu64 " bytes",
				 elf_file_name(f->elf), strings->bytes);
	for (uint64_t at = 0; !err && at < strings->bytes; at += PIECE_BYTES) {
		/*
		 * A name may begin in the previous piece, so read the last bytes of that piece
		 * again, as many as the longest name can have.
		 */
		const uint64_t from = at < NAMED_SYMBOL_BYTES ? 0 : at - NAMED_SYMBOL_BYTES;
		const uint64_t left = strings->bytes - at;
		const uint64_t end = at + (left < PIECE_BYTES ? left : PIECE_BYTES);
		uint8_t *bytes;

		err = read_piece(f, strings, from, end - from, &bytes);
		for (uint64_t i = at - from; !err && i < end - from; i++) {
			const uint8_t *nul = memchr(bytes + i, '\0', end - from - i);

			if (!nul)
				break;
			i = (uint64_t)(nul - bytes);
			err = take_string_end(f, bytes, i, from + i);
		}
		free(bytes);
	}
	return err;
}

static int compare_name_places(const void *a, const void *b)
{
	const struct requested_place *x = a, *y = b;

	return COMPARE(x->off, y->off);
}

static void match_symbol(struct name_finder *f, const Elf64_Sym *symbol)
{
	const struct requested_place key = { .off = symbol->st_name };
	const unsigned int type = ELF64_ST_TYPE(symbol->st_info);
	const bool is_local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;
	const struct requested_place *place;
	struct named_symbol *asked;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_name == 0 || type == STT_SECTION ||
	    type == STT_FILE)
		return;
	place = bsearch(&key, f->places, f->n_places, sizeof(key), compare_name_places);
	if (!place)
		return;
	asked = &f->asked[place->asked];
	/*
	 * Local symbols precede global ones in the table, so a global symbol replaces them below.
	 */
	if (asked->is_defined && is_local) {
		asked->is_ambiguous |= asked->va != symbol->st_value;
		return;
	}
	asked->va = symbol->st_value;
	asked->bytes = symbol->st_size;
	asked->is_defined = true;
	asked->is_thread_local = type == STT_TLS;
	asked->is_ambiguous = false;
}

static int match_symbols(struct name_finder *f, const struct elf_section *table)
{
	const uint64_t n = table->bytes / sizeof(Elf64_Sym);
	int err = 0;

	if (n > MAX_TABLE)
		return ctx_error(f->ctx, -EBADMSG, "%s: symbol table claims %" PRIu64 " symbols",
				 elf_file_name(f->elf), n);
	for (uint64_t at = 0; !err && at < n; at += PIECE_SYMBOLS) {
		const uint64_t here = n - at < PIECE_SYMBOLS ? n - at : PIECE_SYMBOLS;
		uint8_t *bytes;

		err = read_piece(f, table, at * sizeof(Elf64_Sym), here * sizeof(Elf64_Sym),
				 &bytes);
		for (uint64_t i = 0; !err && i < here; i++) {
			Elf64_Sym symbol;

			memcpy(&symbol, bytes + i * sizeof(symbol), sizeof(symbol));
			match_symbol(f, &symbol);
		}
		free(bytes);
	}
	return err;
}

/*
 * Find the symbol table to use. Return 1, 0 if the file has no symbol table, or a negative errno.
 */
static int find_tables(struct elf_file *elf, struct elf_section *symbols,
		       struct elf_section *strings, bool *is_stripped)
{
	int found = elf_file_find_section(elf, ".symtab", SHT_SYMTAB, symbols);

	*is_stripped = found == 0;
	if (found > 0)
		return elf_file_find_section(elf, ".strtab", SHT_STRTAB, strings);
	if (found == 0)
		found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, symbols);
	return found > 0 ? elf_file_find_section(elf, ".dynstr", SHT_STRTAB, strings) : found;
}

static int prepare_names(struct name_finder *f)
{
	f->lengths = calloc(f->n_asked + 1, sizeof(*f->lengths));
	if (!f->lengths)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; i < f->n_asked; i++) {
		struct named_symbol *asked = &f->asked[i];

		*asked = (struct named_symbol){ .name = asked->name };
		f->lengths[i] = strlen(asked->name);
		if (f->lengths[i] == 0 || f->lengths[i] > NAMED_SYMBOL_BYTES)
			return ctx_error(f->ctx, -EINVAL, "'%s': not the name of a symbol",
					 asked->name);
		f->is_last[(uint8_t)asked->name[f->lengths[i] - 1]] = true;
	}
	return 0;
}

int named_symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct named_symbol *asked,
		       size_t n, bool *is_stripped)
{
	struct name_finder f = { .ctx = ctx, .elf = elf, .asked = asked, .n_asked = n };
	struct elf_section symbols, strings;
	int err = prepare_names(&f);
	const int found = err ? 0 : find_tables(elf, &symbols, &strings, is_stripped);

	if (found < 0)
		err = found;
	if (found > 0) {
		err = find_name_places(&f, &strings);
		if (f.n_places)
			qsort(f.places, f.n_places, sizeof(*f.places), compare_name_places);
		if (!err && f.n_places)
			err = match_symbols(&f, &symbols);
	}
	free(f.places);
	free(f.lengths);
	return err;
}
