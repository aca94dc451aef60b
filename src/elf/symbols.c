// SPDX-License-Identifier: MIT
/*
 * Finding the symbols of a few addresses in a table that may be large or hostile.
 *
 * The table is read in pieces (symbol_table_each()). Only symbols that can be a result are kept:
 * functions that contain one of the addresses. So the memory depends on the request and not on the
 * file. The number of kept symbols is limited, since in a hostile file each symbol may span all
 * addresses. The kept symbols are sorted by address. For each requested address, at most
 * MAX_STEPS_BACK symbols that start at or below it are checked, the highest start first, until one
 * contains the address. A function of unknown size (from an assembler) contains no address.
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
#include "base/strbuf.h"

enum {
	PIECE_SYMBOLS = 4096,
	MAX_TABLE = 1 << 26, /* limit for the number of symbols; a table of this size has 1.5 GiB */
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

/*
 * Set *TABLE to the symbol table to use, and *STRINGS to its string table. Set *IS_STRIPPED to true
 * if the file has no .symtab, else to false. Return 1; 0 if the file has no symbol table; or a
 * negative errno.
 */
static int find_symbol_table(struct elf_file *elf, struct elf_section *table,
			     struct elf_section *strings, bool *is_stripped)
{
	int found = elf_file_find_section(elf, ".symtab", SHT_SYMTAB, table);

	*is_stripped = found == 0;
	if (found > 0)
		return elf_file_find_section(elf, ".strtab", SHT_STRTAB, strings);
	if (found == 0)
		found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, table);
	return found > 0 ? elf_file_find_section(elf, ".dynstr", SHT_STRTAB, strings) : found;
}

/* ---- the functions that contain addresses ---------------------------------------------------- */

enum {
	MAX_KEPT = 1 << 20,  /* limit for the symbols that contain a requested address */
	MAX_STEPS_BACK = 16, /* limit for the symbols that are checked for one address */
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
	struct strbuf names;
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

/* Return the request with the lowest address that is not below VA; NULL if there is none. */
static const struct symbol_of *first_asked_from(const struct symbol_finder *f, uint64_t va)
{
	const size_t at = SEARCH(i, f->n_asked, f->asked[i].va < va);

	return at < f->n_asked ? &f->asked[at] : NULL;
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
	strbuf_add(&f->names, (const char *)bytes, length + 1);
	free(bytes);
	if (f->names.is_short)
		return ctx_no_memory(f->ctx);
	*at = f->names.n - (length + 1);
	/* Replace control characters, since the name may be written to a terminal. */
	for (unsigned char *c = (unsigned char *)f->names.bytes + *at; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			*c = '?';
	return 1;
}

/*
 * Of the kept symbols that contain VA, return the last one; NULL if there is none. NEXT is the
 * index of the first kept symbol above VA. Only the MAX_STEPS_BACK symbols before NEXT are
 * considered.
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
		 * f->names may be reallocated until the last name is read. So the pointer is not
		 * known yet: store the name's offset + 1 in its place. symbols_find() sets the
		 * pointers at the end.
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
	bool is_stripped;
	int err;

	*names = NULL;
	for (size_t i = 0; i < n; i++)
		asked[i].name = NULL;
	if (n == 0)
		return 0;
	qsort(asked, n, sizeof(*asked), compare_asked);
	err = find_symbol_table(elf, &table, &f.strings, &is_stripped);
	if (err > 0) {
		err = symbol_table_each(f.ctx, f.elf, &table, keep_symbol, &f);
		if (f.n_kept)
			qsort(f.kept, f.n_kept, sizeof(*f.kept), compare_kept_symbols);
		if (!err)
			err = answer(&f);
	}
	for (size_t i = 0; i < n; i++)
		if (asked[i].name)
			asked[i].name = err ? NULL : f.names.bytes + ((uintptr_t)asked[i].name - 1);
	free(f.kept);
	if (err)
		strbuf_free(&f.names);
	else
		*names = f.names.bytes;
	return err;
}

const struct symbol_of *symbols_answer(const struct symbol_of *asked, size_t n, uint64_t va)
{
	const struct symbol_of key = { .va = va };

	return bsearch(&key, asked, n, sizeof(*asked), compare_asked);
}

/* ---- symbols by name ------------------------------------------------------------------------- */

/*
 * Finding the symbols of a few names in a symbol table that may be large or hostile.
 *
 * First the string table is read, in pieces of fixed size, and all offsets at which it has one of
 * the names are recorded. A name may be the end of a longer string, since linkers merge strings
 * with equal ends. Then the symbols are read, in pieces; a symbol has one of the names if the
 * offset of its name was recorded.
 */

enum {
	PIECE_BYTES = 256 * 1024,
	MAX_PLACES = 1 << 14,
};

#define MAX_STRING_BYTES (UINT64_C(1) << 31)

/* A place in the string table where one of the requested names begins. */
struct requested_place {
	uint32_t off;
	uint32_t asked; /* index of the name in the finder's `asked` */
};

struct name_finder {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct named_symbol *asked;
	size_t n_asked;
	size_t *lengths;   /* the lengths of the names */
	bool is_last[256]; /* true for each byte with which a requested name ends */
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

/* Read BYTES bytes of the string table TABLE, from offset AT of the table on. */
static int read_string_piece(struct name_finder *f, const struct elf_section *table, uint64_t at,
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
		 * A name may begin in the previous piece. So read the end of that piece again: as
		 * many bytes as the longest name can have.
		 */
		const uint64_t from = at < NAMED_SYMBOL_BYTES ? 0 : at - NAMED_SYMBOL_BYTES;
		const uint64_t left = strings->bytes - at;
		const uint64_t end = at + (left < PIECE_BYTES ? left : PIECE_BYTES);
		uint8_t *bytes;

		err = read_string_piece(f, strings, from, end - from, &bytes);
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

static int match_symbol(void *data, const Elf64_Sym *symbol)
{
	struct name_finder *f = data;
	const struct requested_place key = { .off = symbol->st_name };
	const unsigned int type = ELF64_ST_TYPE(symbol->st_info);
	const bool is_local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;
	const struct requested_place *place;
	struct named_symbol *asked;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_name == 0 || type == STT_SECTION ||
	    type == STT_FILE)
		return 0;
	place = bsearch(&key, f->places, f->n_places, sizeof(key), compare_name_places);
	if (!place)
		return 0;
	asked = &f->asked[place->asked];
	/*
	 * In the table, local symbols come before global ones. So below, a global symbol replaces a
	 * local symbol of the same name.
	 */
	if (asked->is_defined && is_local) {
		asked->is_ambiguous |= asked->va != symbol->st_value;
		return 0;
	}
	asked->va = symbol->st_value;
	asked->bytes = symbol->st_size;
	asked->is_defined = true;
	asked->is_thread_local = type == STT_TLS;
	asked->is_ambiguous = false;
	return 0;
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
	const int found = err ? 0 : find_symbol_table(elf, &symbols, &strings, is_stripped);

	if (found < 0)
		err = found;
	if (found > 0) {
		err = find_name_places(&f, &strings);
		if (f.n_places)
			qsort(f.places, f.n_places, sizeof(*f.places), compare_name_places);
		if (!err && f.n_places)
			err = symbol_table_each(ctx, elf, &symbols, match_symbol, &f);
	}
	free(f.places);
	free(f.lengths);
	return err;
}

/* ---- dynamic symbols ------------------------------------------------------------------------- */

/*
 * Limit for the size of the tables that dynsym_find() reads. That function is used for dynamic
 * linkers, whose tables have only a few KiB.
 */
#define MAX_LINKER_TABLE_BYTES (UINT64_C(4) << 20)

static int walk(const uint8_t *symbols, uint64_t symbol_bytes, const char *strings,
		uint64_t string_bytes, dynsym_fn fn, void *data)
{
	Elf64_Sym symbol;
	int ended = 0;

	for (uint64_t at = 0; !ended && symbol_bytes - at >= sizeof(symbol); at += sizeof(symbol)) {
		memcpy(&symbol, symbols + at, sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= string_bytes ||
		    !memchr(strings + symbol.st_name, '\0', string_bytes - symbol.st_name))
			continue;
		ended = fn(data, strings + symbol.st_name, symbol.st_value);
	}
	return ended;
}

int dynsym_each(struct elf_file *elf, uint64_t limit, dynsym_fn fn, void *data)
{
	struct elf_section symbol_section, string_section;
	uint8_t *symbols = NULL, *strings = NULL;
	int found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, &symbol_section);
	int err;

	if (found > 0)
		found = elf_file_find_section(elf, ".dynstr", SHT_STRTAB, &string_section);
	if (found <= 0)
		return found;
	err = elf_file_read_section(elf, &symbol_section, limit, &symbols);
	if (!err)
		err = elf_file_read_section(elf, &string_section, limit, &strings);
	if (!err)
		err = walk(symbols, symbol_section.bytes, (const char *)strings,
			   string_section.bytes, fn, data);
	free(symbols);
	free(strings);
	return err;
}

struct wanted_symbol {
	const char *name;
	uint64_t *va;
};

static int take_wanted(void *data, const char *name, uint64_t va)
{
	const struct wanted_symbol *wanted = data;

	if (strcmp(name, wanted->name) != 0)
		return 0;
	*wanted->va = va;
	return 1;
}

int dynsym_find(struct elf_file *elf, const char *name, uint64_t *va)
{
	struct wanted_symbol wanted = { name, va };

	return dynsym_each(elf, MAX_LINKER_TABLE_BYTES, take_wanted, &wanted);
}

/* ---- versions of symbols --------------------------------------------------------------------- */

/*
 * .gnu.version has the number of each symbol's version. .gnu.version_d is a chain of definitions of
 * versions. Each definition has the number of the version and a chain of names, the first of which
 * is the name of the version (Linux Standard Base, "Symbol Versioning"). Damaged definitions are
 * ignored.
 */

enum {
	MAX_NUMBERS_BYTES = 1 << 26,
	MAX_DEFINITIONS_BYTES = 1 << 20,
	HIDDEN = 0x8000,
	N_INDEXES = 0x8000,
};

struct symbol_versions {
	uint16_t *numbers; /* the version number of each symbol */
	size_t n;
	uint32_t *names; /* for each version index, the offset of the version's name in .dynstr */
};

static void read_definitions(struct symbol_versions *versions, const uint8_t *bytes, uint64_t n)
{
	uint64_t at = 0;
	Elf64_Verdef definition;
	Elf64_Verdaux name;

	while (at <= n && n - at >= sizeof(definition)) {
		memcpy(&definition, bytes + at, sizeof(definition));
		if (!(definition.vd_flags & VER_FLG_BASE) && definition.vd_cnt &&
		    definition.vd_ndx < N_INDEXES && definition.vd_aux <= n - at &&
		    n - at - definition.vd_aux >= sizeof(name)) {
			memcpy(&name, bytes + at + definition.vd_aux, sizeof(name));
			versions->names[definition.vd_ndx] = name.vda_name;
		}
		if (!definition.vd_next)
			break;
		at += definition.vd_next;
	}
}

static int read_tables(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions *versions,
		       const struct elf_section *numbers, const struct elf_section *definitions)
{
	uint8_t *bytes = NULL;
	int err;

	versions->names = calloc(N_INDEXES, sizeof(*versions->names));
	if (!versions->names)
		return ctx_no_memory(ctx);
	err = elf_file_read_section(elf, numbers, MAX_NUMBERS_BYTES, &bytes);
	if (err)
		return err;
	versions->numbers = (uint16_t *)bytes;
	versions->n = numbers->bytes / sizeof(uint16_t);
	err = elf_file_read_section(elf, definitions, MAX_DEFINITIONS_BYTES, &bytes);
	if (err)
		return err;
	read_definitions(versions, bytes, definitions->bytes);
	free(bytes);
	return 0;
}

int symbol_versions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions **out)
{
	struct elf_section numbers, definitions;
	int found = elf_file_find_section(elf, ".gnu.version", SHT_GNU_versym, &numbers), err;

	*out = NULL;
	if (found > 0)
		found = elf_file_find_section(elf, ".gnu.version_d", SHT_GNU_verdef, &definitions);
	if (found <= 0)
		return found;
	*out = calloc(1, sizeof(**out));
	err = *out ? read_tables(ctx, elf, *out, &numbers, &definitions) : ctx_no_memory(ctx);
	if (err) {
		symbol_versions_free(*out);
		*out = NULL;
	}
	return err;
}

void symbol_versions_free(struct symbol_versions *versions)
{
	if (!versions)
		return;
	free(versions->numbers);
	free(versions->names);
	free(versions);
}

struct symbol_version symbol_versions_of(const struct symbol_versions *versions, size_t i)
{
	uint16_t number, index;

	if (!versions || i >= versions->n)
		return (struct symbol_version){ 0 };
	number = versions->numbers[i];
	index = number & (HIDDEN - 1);
	return (struct symbol_version){ .name_off = versions->names[index],
					.index = index,
					.is_hidden = number & HIDDEN };
}
