// SPDX-License-Identifier: MIT
/*
 * Read the functions of a file from .symtab, or from .dynsym if the file is stripped; without any
 * symbols, as bare_functions.h describes. ocamlopt links programs with -Wl,-E, so .dynsym has all
 * functions of OCaml and the global ones of the runtime.
 *
 * A function is OCaml's if its symbol begins with the name of one of the file's compilation units.
 * Any other function between the marks of a unit is glue: the code that ocamlopt makes when it
 * links (caml_startup) and the assembler part of the runtime (caml_system) have such marks, too.
 * All other functions are C.
 *
 * The file may be hostile. Memory is used only for functions that are really in the file: a table
 * of zeros, as in a sparse file, has none. Each OCaml function ends before the next function
 * begins. So OCaml functions share no code, and a caller that reads all of them reads the file at
 * most once.
 */
#include "code/functions.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "elf/symbols.h"
#include "code/arity.h"
#include "code/bare_functions.h"
#include "code/frametable.h"
#include "code/function_path.h"
#include "code/functions_table.h"
#include "code/ocaml_name.h"
#include "code/units.h"

enum {
	MAX_FUNCTIONS = 1 << 21, /* functions that are kept */
	MAX_STRINGS = 1 << 28,	 /* bytes of the symbols' names */
	MAX_NAMES = 1 << 28,	 /* bytes of OCaml's names */
	MAX_NAME_BYTES = 4096,	 /* symbols with longer names are left out */
};

/* ---- symbols -------------------------------------------------------------------------------- */

/* Return the name of SYM in the symbol table; NULL if it has no usable name. */
static const char *usable_symbol_name(const struct functions *f, const Elf64_Sym *sym)
{
	const char *name;

	if (sym->st_name == 0 || sym->st_name >= f->n_strings)
		return NULL;
	name = f->strings + sym->st_name;
	return *name && strnlen(name, MAX_NAME_BYTES) < MAX_NAME_BYTES ? name : NULL;
}

/* Set the version of FUNCTION, which was made from the symbol read last. */
static void set_version(const struct functions *f, struct function *function)
{
	const struct symbol_version version =
		symbol_versions_of(f->versions, f->n_taken ? f->n_taken - 1 : 0);

	if (version.name_off == 0 || version.name_off >= f->n_strings)
		return;
	function->version = f->strings + version.name_off;
	function->version_index = version.index;
	function->is_hidden = version.is_hidden;
}

static int add_defined_function(struct functions *f, const Elf64_Sym *sym, const char *symbol)
{
	const struct elf_segment *segment = elf_file_segment_of(f->elf, sym->st_value, 1);
	uint64_t room_here;
	struct function *new;

	if (!segment || !segment->executable || sym->st_value - segment->va >= segment->file_bytes)
		return 0;
	if (f->n == MAX_FUNCTIONS)
		return ctx_error(f->ctx, -EBADMSG, "%s: has more than %d functions",
				 elf_file_name(f->elf), MAX_FUNCTIONS);
	new = array_add(f->list, f->n);
	if (!new)
		return ctx_no_memory(f->ctx);
	room_here = segment->file_bytes - (sym->st_value - segment->va);
	*new = (struct function){
		.symbol = symbol,
		.va = sym->st_value,
		/* If the symbol has no size: 0 until set_ends(). */
		.bytes = sym->st_size < room_here ? sym->st_size : room_here,
		.arity = ARITY_UNKNOWN,
		.language = FUNCTION_C,
		.is_chosen = ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC,
	};
	set_version(f, &f->list[f->n - 1]);
	return 0;
}

/* Return true if SYMBOL is the name of a closure. Only Flambda gives closures names. */
static bool is_closure(const char *symbol)
{
	static const char suffix[] = "_closure";
	const size_t bytes = strlen(symbol), its = sizeof(suffix) - 1;

	return bytes > its && strncmp(symbol, "caml", 4) == 0 &&
	       strcmp(symbol + bytes - its, suffix) == 0;
}

static int take_function_symbol(void *data, const Elf64_Sym *sym)
{
	struct functions *f = data;
	const unsigned int type = ELF64_ST_TYPE(sym->st_info);
	const char *symbol;
	int found;

	f->n_taken++;
	if ((type != STT_NOTYPE && type != STT_FUNC && type != STT_GNU_IFUNC) ||
	    sym->st_shndx == SHN_UNDEF)
		return 0;
	symbol = usable_symbol_name(f, sym);
	if (!symbol)
		return 0;
	found = units_add(f->ctx, &f->units, symbol, sym->st_value);
	if (found == 0 && type == STT_NOTYPE && !f->is_flambda)
		f->is_flambda = is_closure(symbol);
	if (found != 0 || type == STT_NOTYPE)
		return found < 0 ? found : 0;
	f->has_runtime |= strcmp(symbol, "caml_main") == 0 || strcmp(symbol, "caml_startup") == 0;
	return add_defined_function(f, sym, symbol);
}

/* Read all strings. Bytes after the last NUL are ignored. */
static int read_strings(struct functions *f, const struct elf_section *section)
{
	uint8_t *bytes;
	int err = elf_file_read_section(f->elf, section, MAX_STRINGS, &bytes);

	if (err)
		return err;
	free(f->strings);
	f->strings = (char *)bytes;
	f->n_strings = section->bytes;
	while (f->n_strings && f->strings[f->n_strings - 1])
		f->n_strings--;
	/* Names may be written to a terminal: replace characters that are not printable ASCII. */
	for (size_t i = 0; i < f->n_strings; i++)
		if (f->strings[i] && (f->strings[i] <= ' ' || f->strings[i] >= 0x7f))
			f->strings[i] = '?'; /* char is signed: this includes all non-ASCII */
	return 0;
}

/* Read one of the two tables of symbols. A missing table is not an error. */
static int read_symbol_table(struct functions *f, const char *table_name, uint32_t type,
			     const char *strings_name)
{
	struct elf_section table, strings;
	int found = elf_file_find_section(f->elf, table_name, type, &table), err;

	if (found > 0)
		found = elf_file_find_section(f->elf, strings_name, SHT_STRTAB, &strings);
	if (found <= 0)
		return found;
	err = read_strings(f, &strings);
	if (!err && type == SHT_DYNSYM)
		err = symbol_versions_read(f->ctx, f->elf, &f->versions);
	f->n_taken = 0;
	if (!err)
		err = symbol_table_each(f->ctx, f->elf, &table, take_function_symbol, f);
	symbol_versions_free(f->versions);
	f->versions = NULL;
	return err;
}

/* ---- functions ------------------------------------------------------------------------------ */

static int compare_functions_by_place(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->va != y->va)
		return COMPARE(x->va, y->va);
	if (strcmp(x->symbol, y->symbol) != 0)
		return strcmp(x->symbol, y->symbol);
	return strcmp(x->version ? x->version : "", y->version ? y->version : "");
}

/* Sort by address. If a name is both local and global at one address, keep one function. */
static void sort_by_place(struct functions *f)
{
	size_t n = 0;

	if (f->n)
		qsort(f->list, f->n, sizeof(*f->list), compare_functions_by_place);
	for (size_t i = 0; i < f->n; i++)
		if (n == 0 || compare_functions_by_place(&f->list[n - 1], &f->list[i]) != 0)
			f->list[n++] = f->list[i];
	f->n = n;
}

static int keep_function_name(struct functions *f, const char *name, const char **kept)
{
	const size_t bytes = strlen(name) + 1;
	struct name_block *block = f->blocks;

	if (!block || FUNCTIONS_BLOCK_BYTES - block->used < bytes) {
		if (f->n_blocks == MAX_NAMES / FUNCTIONS_BLOCK_BYTES)
			return ctx_error(f->ctx, -EBADMSG,
					 "%s: names of functions take more than %d bytes",
					 elf_file_name(f->elf), MAX_NAMES);
		block = malloc(sizeof(*block));
		if (!block)
			return ctx_no_memory(f->ctx);
		block->next = f->blocks;
		block->used = 0;
		f->blocks = block;
		f->n_blocks++;
	}
	*kept = memcpy(block->bytes + block->used, name, bytes);
	block->used += bytes;
	return 0;
}

/*
 * Mark FUNCTION as OCaml's. Its full_name must be set; its name becomes the full_name without the
 * first SHORT_AT bytes.
 */
static void set_name(struct functions *f, struct function *function, const struct ocaml_name *name,
		     size_t short_at)
{
	function->language = FUNCTION_OCAML;
	function->name = function->full_name + short_at;
	function->full_flat_name = function->full_name;
	function->flat_name = function->name;
	function->path_bytes = (uint16_t)name->path_bytes;
	function->stamp = name->stamp;
	function->is_anonymous = name->kind == OCAML_ANONYMOUS;
	function->is_initialiser = name->kind == OCAML_INITIALISER;
	f->n_ocaml++;
}

/*
 * Split the symbol of FUNCTION into name and version. In .symtab a version is a part of the symbol:
 * "pow@@GLIBC_2.29", "pow@GLIBC_2.2.5".
 */
static int split_version(struct functions *f, struct function *function)
{
	const char *at = strchr(function->symbol, '@');
	char name[MAX_NAME_BYTES];
	int err;

	if (!at || at == function->symbol)
		return 0;
	function->is_hidden = at[1] != '@';
	function->version = at + (function->is_hidden ? 1 : 2);
	memcpy(name, function->symbol, (size_t)(at - function->symbol));
	name[at - function->symbol] = '\0';
	err = keep_function_name(f, name, &function->name);
	function->full_name = function->flat_name = function->full_flat_name = function->name;
	return err;
}

/* Find the language and the names of FUNCTION. */
static int name_function(struct functions *f, struct function *function)
{
	const struct unit *unit = units_of_symbol(&f->units, function->symbol);
	struct ocaml_name name = { .kind = OCAML_NAMED };
	int err;

	function->name = function->full_name = function->symbol;
	function->flat_name = function->full_flat_name = function->symbol;
	if ((f->units.n && !unit) ||
	    !ocaml_name_decode(function->symbol, unit ? unit->symbol : NULL, &name)) {
		if (units_at(&f->units, function->va))
			function->language = FUNCTION_GLUE;
		return split_version(f, function);
	}
	err = keep_function_name(f, name.text, &function->full_name);
	if (!err)
		set_name(f, function, &name, unit && unit->keeps_prefix ? 0 : name.short_at);
	return err;
}

/*
 * End each function of unknown size where the next function begins. End OCaml functions there at
 * the latest, even if their symbols have a greater size.
 */
static void set_ends(struct functions *f)
{
	uint64_t next_va = UINT64_MAX;

	for (size_t i = f->n; i-- > 0;) {
		struct function *function = &f->list[i];
		const struct elf_segment *segment = elf_file_segment_of(f->elf, function->va, 1);
		uint64_t end = segment->va + segment->file_bytes;

		if (i + 1 < f->n && f->list[i + 1].va != function->va)
			next_va = f->list[i + 1].va;
		if (next_va < end)
			end = next_va;
		if (!function->bytes ||
		    (function->language == FUNCTION_OCAML && function->bytes > end - function->va))
			function->bytes = end - function->va;
	}
}

/* ---- paths ---------------------------------------------------------------------------------- */

static int add_path(struct functions *f, const struct frametable *table, struct function *function)
{
	const ptrdiff_t short_at = function->name - function->full_name;
	char name[OCAML_NAME_BYTES];
	int err;

	if (function->language != FUNCTION_OCAML || function->is_anonymous ||
	    function->is_initialiser || !function_path_find(table, function, name) ||
	    strcmp(name, function->full_name) == 0)
		return 0;
	err = keep_function_name(f, name, &function->full_name);
	if (!err)
		function->name = function->full_name + short_at;
	return err;
}

/*
 * Add to the name of each function the modules and functions of its file that contain it. Symbols
 * do not show them. The collector's frame tables show them for all functions that call or allocate.
 * Without frame tables, names stay as in the symbols.
 */
static int add_paths(struct functions *f)
{
	struct frametable *table;
	int err = frametable_read(f->ctx, f->elf, &table);

	if (err == -ENOMEM)
		return err;
	if (err) {
		ctx_log(f->ctx, OCP_LOG_DEBUG, "%s", ocp_error(f->ctx));
		return 0;
	}
	for (size_t i = 0; !err && i < f->n; i++)
		err = add_path(f, table, &f->list[i]);
	frametable_free(table);
	return err;
}

/* ---- order by name -------------------------------------------------------------------------- */

/* Compare the names of X and Y or, if FLAT, their flat names. */
static int compare_two(const struct function *x, const struct function *y, bool flat)
{
	int order = flat ? strcmp(x->flat_name, y->flat_name) : strcmp(x->name, y->name);

	if (order == 0)
		order = flat ? strcmp(x->full_flat_name, y->full_flat_name)
			     : strcmp(x->full_name, y->full_name);
	if (order == 0)
		order = COMPARE(x->stamp, y->stamp);
	return order ? order : COMPARE(x->va, y->va);
}

static int compare_functions_by_name(const void *a, const void *b)
{
	return compare_two(*(const struct function *const *)a, *(const struct function *const *)b,
			   false);
}

static int compare_flat_names(const void *a, const void *b)
{
	return compare_two(*(const struct function *const *)a, *(const struct function *const *)b,
			   true);
}

static bool have_one_name(const struct function *a, const struct function *b)
{
	return strcmp(a->name, b->name) == 0;
}

static int sort_by_name(struct functions *f)
{
	size_t n_ocaml = 0, n_others = 0;

	f->by_name = calloc(f->n_ocaml + 1, sizeof(const struct function *));
	f->by_flat_name = calloc(f->n_ocaml + 1, sizeof(const struct function *));
	f->by_symbol = calloc(f->n - f->n_ocaml + 1, sizeof(const struct function *));
	if (!f->by_name || !f->by_flat_name || !f->by_symbol)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; i < f->n; i++) {
		f->list[i].is_unique = true;
		if (f->list[i].language == FUNCTION_OCAML)
			f->by_name[n_ocaml++] = &f->list[i];
		else
			f->by_symbol[n_others++] = &f->list[i];
	}
	for (size_t i = 0; i < n_ocaml; i++)
		if (f->by_name[i]->name != f->by_name[i]->flat_name)
			f->by_flat_name[f->n_flat++] = f->by_name[i];
	if (n_ocaml)
		qsort(f->by_name, n_ocaml, sizeof(const struct function *),
		      compare_functions_by_name);
	if (f->n_flat)
		qsort(f->by_flat_name, f->n_flat, sizeof(const struct function *),
		      compare_flat_names);
	if (n_others)
		qsort(f->by_symbol, n_others, sizeof(const struct function *),
		      compare_functions_by_name);
	for (size_t i = 1; i < n_ocaml; i++)
		if (have_one_name(f->by_name[i - 1], f->by_name[i]))
			f->list[f->by_name[i - 1] - f->list].is_unique =
				f->list[f->by_name[i] - f->list].is_unique = false;
	return 0;
}

/* Return true if FUNCTION is a part of another function that a C compiler put elsewhere. */
static bool is_part(const struct function *function)
{
	const char *dot = function->language == FUNCTION_C ? strchr(function->symbol, '.') : NULL;

	return dot && (strncmp(dot, ".cold", 5) == 0 || strstr(dot, ".cold."));
}

static int list_entries(struct functions *f)
{
	f->entries = calloc(f->n + 1, sizeof(*f->entries));
	if (!f->entries)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; i < f->n; i++)
		if (!is_part(&f->list[i]) &&
		    (f->n_entries == 0 || f->entries[f->n_entries - 1] != f->list[i].va))
			f->entries[f->n_entries++] = f->list[i].va;
	return 0;
}

/* ---- files without symbols ------------------------------------------------------------------ */

static int add_bare(void *data, uint64_t va, uint64_t bytes, const struct ocaml_name *name)
{
	struct functions *f = data;
	struct function *function;
	int err = add_defined_function(f, &(Elf64_Sym){ .st_value = va, .st_size = bytes }, NULL);

	if (err)
		return err;
	function = &f->list[f->n - 1];
	err = keep_function_name(f, name->text, &function->full_name);
	if (err)
		return err;
	set_name(f, function, name, name->short_at);
	return 0;
}

static int read_bare(struct functions *f)
{
	struct bare_functions bare;
	int err = bare_functions_read(f->ctx, f->elf, add_bare, f, &bare);

	f->entries = bare.entries;
	f->n_entries = bare.n_entries;
	f->has_ocaml_stacks = bare.has_ocaml_stacks;
	if (err == -ENODATA)
		return ctx_error(f->ctx, -ENODATA,
				 "%s: not an OCaml program, and no function has a symbol",
				 elf_file_name(f->elf));
	if (!err && !f->n_ocaml)
		err = ctx_error(f->ctx, -ENODATA,
				"%s: a stripped OCaml program, compiled without -g: no function "
				"has a name",
				elf_file_name(f->elf));
	f->has_runtime = !err;
	return err ? err : units_finish(f->ctx, &f->units);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int read_named(struct functions *f)
{
	int err = units_finish(f->ctx, &f->units);

	sort_by_place(f);
	for (size_t i = 0; !err && i < f->n; i++)
		err = name_function(f, &f->list[i]);
	if (!err)
		set_ends(f);
	if (!err && f->n_ocaml)
		err = add_paths(f);
	return err ? err : list_entries(f);
}

static int read_functions(struct functions *f)
{
	int err = read_symbol_table(f, ".symtab", SHT_SYMTAB, ".strtab");

	if (!err && f->n == 0) {
		f->source = FUNCTIONS_OF_DYNSYM;
		err = read_symbol_table(f, ".dynsym", SHT_DYNSYM, ".dynstr");
	}
	if (!err && f->n == 0)
		f->source = FUNCTIONS_WITHOUT_SYMBOLS;
	if (!err)
		err = f->n ? read_named(f) : read_bare(f);
	if (!err && f->n_ocaml)
		err = arity_read(f->ctx, f->elf, f->list, f->n);
	return err ? err : sort_by_name(f);
}

int functions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct functions **out)
{
	struct functions *f = calloc(1, sizeof(*f));
	int err;

	*out = NULL;
	if (!f)
		return ctx_no_memory(ctx);
	f->ctx = ctx;
	f->elf = elf;
	err = read_functions(f);
	f->elf = NULL;
	if (err)
		functions_free(f);
	else
		*out = f;
	return err;
}

void functions_free(struct functions *functions)
{
	struct name_block *next;

	if (!functions)
		return;
	for (struct name_block *block = functions->blocks; block; block = next) {
		next = block->next;
		free(block);
	}
	units_free(&functions->units);
	free(functions->entries);
	free(functions->by_symbol);
	free(functions->by_flat_name);
	free(functions->by_name);
	free(functions->list);
	free(functions->strings);
	free(functions);
}
