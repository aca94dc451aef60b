// SPDX-License-Identifier: MIT
/*
 * Finding the symbols of a few addresses in a table that may be large or hostile.
 *
 * The table is read in pieces (symbol_table.c). Only symbols that can be a result are kept:
 * functions that contain one of the addresses. So the memory depends on the request and not on the
 * file. The number of kept symbols is limited, since in a hostile file each symbol may span
 * everything. The symbols are sorted by address. Then, for each address, the symbols that start at
 * or below it are searched, the last one first and only a few, until one contains the address. A
 * function of unknown size (from an assembler) contains no address.
 *
 * A stripped file still has .dynsym. The string tables of .symtab and .dynsym are found by name.
 * They are not loaded: only the names of results are read.
 */
#include "elf/symbols.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "elf/asked.h"
#include "elf/symbol_table.h"

enum {
	MAX_KEPT = 1 << 20,  /* symbols that contain a requested address */
	MAX_STEPS_BACK = 16, /* symbols to skip from an address back to its function */
	MAX_NAME_BYTES = 4096,
};

struct symbol {
	uint64_t va, bytes;
	uint32_t name_off;
};

struct symbol_finder {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct symbol_of *asked;
	size_t n_asked;
	struct elf_section strings;
	struct symbol *kept;
	size_t n_kept;
	char *names;
	size_t names_bytes, names_room;
};

static int compare_asked(const void *a, const void *b)
{
	const struct symbol_of *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

static int compare_kept_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->va != y->va)
		return COMPARE(x->va, y->va);
	if (x->bytes != y->bytes)
		return COMPARE(x->bytes, y->bytes);
	return COMPARE(y->name_off, x->name_off);
}

static bool holds(const struct symbol *symbol, uint64_t va)
{
	return va >= symbol->va && va - symbol->va < symbol->bytes;
}

/* Return the first requested address that is not below VA, or NULL. */
static const struct symbol_of *first_asked_from(const struct symbol_finder *f, uint64_t va)
{
	const size_t i = asked_from(f->asked, f->n_asked, sizeof(*f->asked), va);

	return i < f->n_asked ? &f->asked[i] : NULL;
}

static int keep_symbol(void *data, const Elf64_Sym *sym)
{
	struct symbol_finder *f = data;
	const struct symbol symbol = { sym->st_value, sym->st_size, sym->st_name };
	unsigned int type = ELF64_ST_TYPE(sym->st_info);
	const struct symbol_of *next;
	struct symbol *new;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF ||
	    sym->st_name == 0)
		return 0;
	next = first_asked_from(f, symbol.va);
	if (!next || !holds(&symbol, next->va))
		return 0;
	if (f->n_kept == MAX_KEPT)
		return ctx_error(f->ctx, -EBADMSG, "%s: more than %d symbols overlap",
				 elf_file_name(f->elf), MAX_KEPT);
	new = array_add(f->kept, f->n_kept);
	if (!new)
		return ctx_no_memory(f->ctx);
	*new = symbol;
	return 0;
}

/*
 * Find the symbol table to use and its strings. Returns 1, 0 for a file without a symbol table, or
 * a negative errno.
 */
static int find_symbol_table(struct symbol_finder *f, struct elf_section *table)
{
	int found = elf_file_find_section(f->elf, ".symtab", SHT_SYMTAB, table);

	if (found > 0)
		return elf_file_find_section(f->elf, ".strtab", SHT_STRTAB, &f->strings);
	if (found == 0)
		found = elf_file_find_section(f->elf, ".dynsym", SHT_DYNSYM, table);
	return found > 0 ? elf_file_find_section(f->elf, ".dynstr", SHT_STRTAB, &f->strings)
			 : found;
}

/*
 * Append the name at NAME_OFF of the string table to f->names, and set *AT to its offset in
 * f->names. Return 1; 0 if there is no valid name; or a negative errno.
 */
static int read_name(struct symbol_finder *f, uint32_t name_off, size_t *at)
{
	struct elf_section piece = f->strings;
	uint64_t left = name_off < piece.bytes ? piece.bytes - name_off : 0;
	uint8_t *bytes;
	size_t length;
	int err;

	if (piece.off > UINT64_MAX - name_off || left == 0)
		return 0;
	piece.off += name_off;
	piece.bytes = left < MAX_NAME_BYTES ? left : MAX_NAME_BYTES;
	err = elf_file_read_section(f->elf, &piece, MAX_NAME_BYTES, &bytes);
	if (err)
		return err;
	length = strnlen((const char *)bytes, piece.bytes);
	if (length == 0 || length == piece.bytes) {
		free(bytes);
		return 0;
	}
	if (f->names_room - f->names_bytes <= length) {
		size_t room = 2 * f->names_room + MAX_NAME_BYTES;
		char *larger = realloc(f->names, room);

		if (!larger) {
			free(bytes);
			return ctx_no_memory(f->ctx);
		}
		f->names = larger;
		f->names_room = room;
	}
	*at = f->names_bytes;
	memcpy(f->names + *at, bytes, length + 1);
	/* The name may be written to a terminal. */
	for (unsigned char *c = (unsigned char *)f->names + *at; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			*c = '?';
	f->names_bytes += length + 1;
	free(bytes);
	return 1;
}

/*
 * Return the last kept symbol that contains VA, or NULL. NEXT is the index of the first kept symbol
 * above VA; only the last MAX_STEPS_BACK symbols before NEXT are considered.
 */
static const struct symbol *symbol_before(const struct symbol_finder *f, size_t next, uint64_t va)
{
	for (size_t back = 1; back <= next && back <= MAX_STEPS_BACK; back++)
		if (holds(&f->kept[next - back], va))
			return &f->kept[next - back];
	return NULL;
}

static int answer(struct symbol_finder *f)
{
	const struct symbol *last = NULL;
	size_t next = 0, last_at = 0;
	int named = 0;

	for (size_t i = 0; i < f->n_asked; i++) {
		struct symbol_of *asked = &f->asked[i];
		const struct symbol *symbol;

		while (next < f->n_kept && f->kept[next].va <= asked->va)
			next++;
		symbol = symbol_before(f, next, asked->va);
		if (!symbol)
			continue;
		if (symbol != last)
			named = read_name(f, symbol->name_off, &last_at);
		if (named < 0)
			return named;
		last = symbol;
		if (!named)
			continue;
		/*
		 * The names may move until the last one is read, so store the offset + 1 for now.
		 */
		asked->name = (const char *)(uintptr_t)(last_at + 1);
		asked->off = asked->va - symbol->va;
	}
	return 0;
}

int symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_of *asked, size_t n,
		 char **names)
{
	struct symbol_finder f = { .ctx = ctx, .elf = elf, .asked = asked, .n_asked = n };
	struct elf_section table;
	int err;

	*names = NULL;
	for (size_t i = 0; i < n; i++)
		asked[i].name = NULL;
	if (n == 0)
		return 0;
	qsort(asked, n, sizeof(*asked), compare_asked);
	err = find_symbol_table(&f, &table);
	if (err > 0) {
		err = symbol_table_each(f.ctx, f.elf, &table, keep_symbol, &f);
		if (f.n_kept)
			qsort(f.kept, f.n_kept, sizeof(*f.kept), compare_kept_symbols);
		if (!err)
			err = answer(&f);
	}
	for (size_t i = 0; i < n; i++)
		if (asked[i].name)
			asked[i].name = err ? NULL : f.names + ((uintptr_t)asked[i].name - 1);
	free(f.kept);
	if (err)
		free(f.names);
	else
		*names = f.names;
	return err;
}

const struct symbol_of *symbols_answer(const struct symbol_of *asked, size_t n, uint64_t va)
{
	const struct symbol_of key = { .va = va };

	return bsearch(&key, asked, n, sizeof(*asked), compare_asked);
}
