// SPDX-License-Identifier: MIT
/*
 * Read the functions of a file from .symtab, or from .dynsym if the file is stripped. If the file
 * has no symbols at all, read the functions from other sections (see below). ocamlopt links
 * programs with -Wl,-E, so .dynsym has all functions of OCaml and the global ones of the runtime.
 *
 * A function is OCaml's if its symbol begins with the name of one of the file's compilation units.
 * Any other function between the marks of a unit is glue: the code that ocamlopt makes when it
 * links (caml_startup) and the assembler part of the runtime (caml_system) have such marks, too.
 * All other functions are taken to be C.
 *
 * The file may be hostile. Memory is used only for functions whose code is in the file: a symbol
 * table of zeros, as in a sparse file, contains no function. Each OCaml function ends before the
 * next function begins. So OCaml functions share no code, and a caller that reads all of them reads
 * the file at most once.
 */
#include "code/functions.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "code/arity.h"
#include "code/frametable.h"
#include "code/ocaml_name.h"
#include "code/program_kind.h"
#include "code/units.h"
#include "elf/eh_frame.h"
#include "elf/elf_file.h"
#include "elf/symbols.h"

/* ---- paths of functions ---------------------------------------------------------------------- */

/*
 * Set NAME to the name of FUNCTION, whose symbol is known, preceded by the modules and functions
 * that contain FUNCTION. Returns false if no call in FUNCTION has debug information that names
 * these modules and functions.
 */
static bool function_path_find(const struct frametable *table, const struct function *function,
			       char name[OCAML_NAME_BYTES])
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	char longer[OCAML_NAME_BYTES];
	size_t n, n_descrs;
	int best = 0, found;
	const struct frame_descr *list = frametable_list(table, &n_descrs);

	for (size_t i = frametable_from(table, function->va + 1);
	     best < 2 && i < n_descrs && list[i].va - function->va <= function->bytes; i++) {
		n = frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);
		if (!n || locations[n - 1].is_inlined)
			continue;
		found = ocaml_name_add_path(function->full_name, function->path_bytes,
					    locations[n - 1].function, longer);
		if (found > best) {
			best = found;
			memcpy(name, longer, strlen(longer) + 1);
		}
	}
	return best > 0;
}

/*
 * Set PATH to the common start of the paths of all calls in the code at VA, which has BYTES_OF_CODE
 * bytes. Returns false if the paths have no common start.
 */
static bool function_path_common(const struct frametable *table, uint64_t va,
				 uint64_t bytes_of_code, char path[OCAML_NAME_BYTES])
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	size_t n_descrs, bytes = 0;
	const struct frame_descr *list = frametable_list(table, &n_descrs);

	path[0] = '\0';
	for (size_t i = frametable_from(table, va + 1);
	     i < n_descrs && list[i].va - va <= bytes_of_code; i++) {
		const size_t n =
			frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);
		const char *function = n ? locations[n - 1].function : "";

		if (n == 0 || locations[n - 1].is_inlined)
			continue;
		if (bytes) {
			bytes = ocaml_name_common_path(path, bytes, function);
			path[bytes] = '\0';
		} else {
			bytes = strlen(function);
			if (bytes >= OCAML_NAME_BYTES)
				return false;
			memcpy(path, function, bytes + 1);
		}
		if (!bytes)
			return false;
	}
	return bytes > 0;
}

/* ---- functions without symbols --------------------------------------------------------------- */

/*
 * Find the functions in .eh_frame, and name them by the debug information of the calls in their
 * code. The name of a function is the common start of the paths of these calls. For example, calls
 * in List.iter have the path "Stdlib__List.iter" or, where the compiler has inlined a local
 * function, "Stdlib__List.iter.(fun)". Only an initialiser, the code that runs the top level of a
 * unit, has calls with the paths of several functions. Initialisers are recognised by their caller:
 * the code that ocamlopt makes when it links. The frame table of that code is the first one. From
 * OCaml 5.4 on, the path of a function that coerces a functor is only the unit.
 */

struct bare_functions {
	/* the addresses of all functions, including C functions; sorted, each once */
	uint64_t *entries;
	size_t n_entries;
	bool has_ocaml_stacks; /* the program is OCaml 5 */
};

/*
 * Called for a function, its NAME and its PATH. The stamp of NAME is the function's address, cut to
 * 32 bits. If the callback returns a value other than 0, bare_functions_read() stops and returns
 * that value.
 */
typedef int (*bare_function_fn)(void *data, uint64_t va, uint64_t bytes,
				const struct ocaml_name *name, const char *path);

enum {
	MAX_FUNCTIONS = 1 << 21, /* limit for the number of functions */
	/* the opcode of a call, after which there is a distance of 4 bytes */
	CALL = 0xe8,
};

struct function_extent {
	uint64_t va, bytes;
	bool is_initialiser;
};

struct bare_function_reader {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct frametable *table;
	struct function_extent *list;
	size_t n;
};

/* ---- bounds --------------------------------------------------------------------------------- */

static int add_function_extent(void *data, uint64_t va, uint64_t bytes)
{
	struct bare_function_reader *r = data;
	const struct elf_segment *segment = elf_file_segment_of(r->elf, va, bytes);
	struct function_extent *new;

	if (!segment || !segment->executable || va - segment->va > segment->file_bytes ||
	    bytes > segment->file_bytes - (va - segment->va))
		return 0;
	if (r->n == MAX_FUNCTIONS)
		return ctx_error(r->ctx, -EBADMSG, "%s: has more than %d functions",
				 elf_file_name(r->elf), MAX_FUNCTIONS);
	new = array_add(r->list, r->n);
	if (!new)
		return ctx_no_memory(r->ctx);
	*new = (struct function_extent){ .va = va, .bytes = bytes };
	return 0;
}

static int compare_extents(const void *a, const void *b)
{
	const struct function_extent *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

/* Sort the functions, keep one at each address, and end each function where the next one begins. */
static void sort_extents(struct bare_function_reader *r)
{
	size_t n = 0;

	if (r->n)
		qsort(r->list, r->n, sizeof(*r->list), compare_extents);
	for (size_t i = 0; i < r->n; i++)
		if (n == 0 || r->list[n - 1].va != r->list[i].va)
			r->list[n++] = r->list[i];
	r->n = n;
	for (size_t i = 1; i < r->n; i++)
		if (r->list[i - 1].bytes > r->list[i].va - r->list[i - 1].va)
			r->list[i - 1].bytes = r->list[i].va - r->list[i - 1].va;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* VA is the return address of a call. Mark the called function as an initialiser. */
static void mark_called(struct bare_function_reader *r, uint64_t va)
{
	struct function_extent key = { 0 }, *called;
	uint8_t code[5];
	int32_t distance;
	uint64_t off;

	if (!elf_file_va_to_off(r->elf, va - sizeof(code), &off) ||
	    elf_file_read(r->elf, off, code, sizeof(code)) || code[0] != CALL)
		return;
	memcpy(&distance, code + 1, sizeof(distance));
	key.va = va + (uint64_t)(int64_t)distance;
	called = r->n ? bsearch(&key, r->list, r->n, sizeof(key), compare_extents) : NULL;
	if (called)
		called->is_initialiser = true;
}

static void mark_initialisers(struct bare_function_reader *r)
{
	size_t n;
	const struct frame_descr *list = frametable_list(r->table, &n);

	for (size_t i = 0; i < n; i++)
		if (list[i].table == 0)
			mark_called(r, list[i].va);
}

static int name_extent(struct bare_function_reader *r, const struct function_extent *extent,
		       bare_function_fn fn, void *data)
{
	const uint32_t stamp = (uint32_t)extent->va;
	enum ocaml_name_kind kind = OCAML_NAMED;
	char path[OCAML_NAME_BYTES];
	struct ocaml_name name = { .stamp = stamp };
	size_t n;

	if (!function_path_common(r->table, extent->va, extent->bytes, path))
		return 0;
	n = strlen(path);
	if (extent->is_initialiser)
		kind = OCAML_INITIALISER;
	else if (!strchr(path, '.') || (n > 5 && strcmp(path + n - 5, "(fun)") == 0))
		kind = OCAML_ANONYMOUS;
	return ocaml_name_of_path(path, kind, stamp, &name)
		       ? fn(data, extent->va, extent->bytes, &name, path)
		       : 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/*
 * Return true if the program is OCaml 5. In OCaml 4, one frame descriptor of the runtime's
 * assembler code is a chunk end. In OCaml 5 a second descriptor, for fibres, is a chunk end.
 */
static bool has_ocaml_stacks(const struct frametable *table)
{
	size_t n, n_ends = 0;
	const struct frame_descr *list = frametable_list(table, &n);

	for (size_t i = 0; i < n; i++)
		n_ends += list[i].is_chunk_end;
	return n_ends > 1;
}

static int list_bare_entries(const struct bare_function_reader *r, struct bare_functions *functions)
{
	functions->entries = calloc(r->n + 1, sizeof(*functions->entries));
	if (!functions->entries)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < r->n; i++)
		functions->entries[functions->n_entries++] = r->list[i].va;
	return 0;
}

/*
 * Call FN(DATA, ...) for each function of ELF that has a name, in the order of addresses. Fill
 * *FUNCTIONS; the caller frees its entries, also after an error. Returns -ENODATA if the file has
 * no frame tables.
 */
static int bare_functions_read(struct ocp_ctx *ctx, struct elf_file *elf, bare_function_fn fn,
			       void *data, struct bare_functions *functions)
{
	struct bare_function_reader r = { .ctx = ctx, .elf = elf };
	int err = frametable_read(ctx, elf, &r.table);

	*functions = (struct bare_functions){ 0 };
	if (!err)
		err = eh_frame_each_function(ctx, elf, add_function_extent, &r);
	if (!err) {
		sort_extents(&r);
		mark_initialisers(&r);
		functions->has_ocaml_stacks = has_ocaml_stacks(r.table);
		err = list_bare_entries(&r, functions);
	}
	for (size_t i = 0; !err && i < r.n; i++)
		err = name_extent(&r, &r.list[i], fn, data);
	frametable_free(r.table);
	free(r.list);
	return err;
}

/* ---- functions ------------------------------------------------------------------------------- */

enum { FUNCTIONS_BLOCK_BYTES = 1 << 16 };

/* A block of memory for names. The names in a block follow each other. */
struct name_block {
	struct name_block *next;
	size_t used;
	char bytes[FUNCTIONS_BLOCK_BYTES];
};

struct functions {
	struct ocp_ctx *ctx;
	struct elf_file *elf; /* set only while the file is read */
	char *strings;
	size_t n_strings;
	/* the versions of the symbols in .dynsym; set only while .dynsym is read */
	struct symbol_versions *versions;
	size_t n_taken; /* symbols read so far */
	struct function *list;
	size_t n;
	const struct function **by_name; /* the OCaml functions, sorted by name */
	size_t n_ocaml;
	/* the functions of by_name whose flat_name differs from their name, sorted by flat_name */
	const struct function **by_flat_name;
	size_t n_flat;
	const struct function **by_symbol; /* the functions of C and glue, sorted by name */
	uint64_t *entries;
	size_t n_entries;
	struct units units;
	struct name_block *blocks;
	size_t n_blocks;
	enum functions_source source;
	bool has_runtime, is_flambda;
	bool has_ocaml_stacks; /* only set for a file without symbols: the program is OCaml 5 */
};

enum {
	MAX_STRINGS = 1 << 28, /* limit for the bytes of the symbols' names */
	MAX_NAMES = 1 << 28,   /* limit for the bytes of the names of OCaml functions */
	MAX_NAME_BYTES = 4096, /* symbols with longer names are left out */
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

/* Set the version of FUNCTION, which was made from the symbol that was read most recently. */
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
		/* if the symbol has no size, this is 0 until set_ends() is called */
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
	/* OCaml 5.5 gives the symbol of a frame table the type STT_OBJECT. */
	const bool is_label = type == STT_NOTYPE || type == STT_OBJECT;
	const char *symbol;
	int found;

	f->n_taken++;
	if ((!is_label && type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF)
		return 0;
	symbol = usable_symbol_name(f, sym);
	if (!symbol)
		return 0;
	found = units_add(f->ctx, &f->units, symbol, sym->st_value);
	if (found == 0 && is_label && !f->is_flambda)
		f->is_flambda = is_closure(symbol);
	if (found != 0 || is_label)
		return found < 0 ? found : 0;
	f->has_runtime |= strcmp(symbol, "caml_main") == 0 || strcmp(symbol, "caml_startup") == 0;
	return add_defined_function(f, sym, symbol);
}

/* Read all strings of SECTION. Bytes after the last NUL are ignored. */
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
			/* char is signed, so bytes beyond ASCII are below ' ' */
			f->strings[i] = '?';
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

/*
 * Sort the functions by address. If a local and a global symbol of the same name have the same
 * address, keep only one function.
 */
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
 * Mark FUNCTION as OCaml's. Its full_name must be set. Set its name to the full_name without the
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

/* Set the language and the names of FUNCTION. */
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
 * End each function of unknown size where the next function begins. End each OCaml function at the
 * beginning of the next function at the latest, even if the symbol has a greater size.
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

/* Set the full name of FUNCTION to FULL_NAME; the name omits the same start as before. */
static int set_full_name(struct functions *f, struct function *function, const char *full_name)
{
	const ptrdiff_t short_at = function->name - function->full_name;
	int err;

	if (strcmp(full_name, function->full_name) == 0)
		return 0;
	err = keep_function_name(f, full_name, &function->full_name);
	if (!err)
		function->name = function->full_name + short_at;
	return err;
}

/* Set NAME to the name of FUNCTION with its path. Returns false if the path is unknown. */
static bool find_name_with_path(const struct frametable *table, const struct function *function,
				char name[OCAML_NAME_BYTES])
{
	const char *identifier = function->full_name + function->path_bytes + 1;
	char path[OCAML_NAME_BYTES];

	if (!function->is_anonymous && function_path_find(table, function, name))
		return true;
	return (function->is_anonymous || ocaml_name_is_anonymous_inner(identifier)) &&
	       function_path_common(table, function->va, function->bytes, path) &&
	       ocaml_name_of_anonymous(function->full_name, function->path_bytes, path, name);
}

static int add_path(struct functions *f, const struct frametable *table, struct function *function)
{
	char name[OCAML_NAME_BYTES];

	if (function->language != FUNCTION_OCAML || function->is_initialiser ||
	    !find_name_with_path(table, function, name))
		return 0;
	return set_full_name(f, function, name);
}

/*
 * Add to the name of each function the modules and functions of its file in which it is defined,
 * and name the anonymous ones by what contains them. Symbols do not contain these names. The
 * collector's frame tables contain them, for all functions that call or allocate. Without frame
 * tables, names stay as in the symbols.
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

/* Return true if FUNCTION is a part that a C compiler has split off from another function. */
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

static int add_bare(void *data, uint64_t va, uint64_t bytes, const struct ocaml_name *name,
		    const char *path)
{
	struct functions *f = data;
	struct function *function;
	char longer[OCAML_NAME_BYTES];
	int err = add_defined_function(f, &(Elf64_Sym){ .st_value = va, .st_size = bytes }, NULL);

	if (err)
		return err;
	function = &f->list[f->n - 1];
	err = keep_function_name(f, name->text, &function->full_name);
	if (err)
		return err;
	set_name(f, function, name, name->short_at);
	return function->is_anonymous &&
			       ocaml_name_of_anonymous(name->text, name->path_bytes, path, longer)
		       ? set_full_name(f, function, longer)
		       : 0;
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

/* ---- searching functions --------------------------------------------------------------------- */

/* Search the functions of a file: by name, by address, by kind. */

/*
 * functions_at() goes back from an address, and checks at most this many functions. The function
 * that contains the address need not be the last one that begins before the address, since
 * functions can be nested.
 */
enum { MAX_STEPS_BACK = 16 };

const struct function *functions_list(const struct functions *functions, size_t *n)
{
	*n = functions->n;
	return functions->list;
}

const uint64_t *functions_entries(const struct functions *functions, size_t *n)
{
	*n = functions->n_entries;
	return functions->entries;
}

enum functions_source functions_source(const struct functions *functions)
{
	return functions->source;
}

const struct units *functions_units(const struct functions *functions)
{
	return &functions->units;
}

size_t functions_ocaml_count(const struct functions *functions)
{
	return functions->n_ocaml;
}

bool functions_have_runtime(const struct functions *functions)
{
	return functions->has_runtime;
}

bool functions_have_ocaml_stacks(const struct functions *functions)
{
	const struct function *function = functions->n_ocaml ? functions->by_name[0] : NULL;

	return function && function->symbol ? strchr(function->symbol, '.') != NULL
					    : functions->has_ocaml_stacks;
}

bool functions_are_of_flambda(const struct functions *functions)
{
	return functions->is_flambda;
}

int functions_require_ocaml(struct ocp_ctx *ctx, const struct functions *functions,
			    const char *name)
{
	if (functions->n_ocaml)
		return 0;
	if (functions_find_c(functions, "caml_startup_code"))
		return program_kind_need_native(ctx, PROGRAM_BYTECODE, name);
	if (functions->has_runtime)
		return ctx_error(ctx, -ENODATA, "%s: has OCaml's runtime, but no native OCaml code",
				 name);
	return program_kind_need_native(ctx, PROGRAM_FOREIGN, name);
}

const struct function *const *functions_by_name(const struct functions *functions, size_t *n)
{
	*n = functions->n_ocaml;
	return functions->by_name;
}

static const char *name_in(const struct function *function, bool flat)
{
	return flat ? function->flat_name : function->name;
}

/* Return the index of the first function in NAMES[0..N) whose name is not before NAME. */
static size_t first_named(const struct function *const *names, size_t n, const char *name,
			  bool flat)
{
	return SEARCH(i, n, strcmp(name_in(names[i], flat), name) < 0);
}

/* A requested name. */
struct requested_name {
	const char *name, *full_name; /* full_name is NULL if the function may have any full name */
	int64_t stamp;		      /* negative if the function may have any stamp */
	bool flat;
};

static bool is_asked(const struct function *function, const struct requested_name *asked)
{
	const char *full_name = asked->flat ? function->full_flat_name : function->full_name;

	return (!asked->full_name || strcmp(full_name, asked->full_name) == 0) &&
	       (asked->stamp < 0 || function->stamp == asked->stamp);
}

static const struct function *const *
find_requested_functions(const struct functions *f, const struct requested_name *asked, size_t *n)
{
	const struct function *const *names = asked->flat ? f->by_flat_name : f->by_name;
	const size_t n_names = asked->flat ? f->n_flat : f->n_ocaml;
	size_t first = first_named(names, n_names, asked->name, asked->flat), last = first, end;

	while (last < n_names && strcmp(name_in(names[last], asked->flat), asked->name) == 0)
		last++;
	while (first < last && !is_asked(names[first], asked))
		first++;
	for (end = first; end < last && is_asked(names[end], asked); end++)
		;
	*n = end - first;
	return *n ? names + first : NULL;
}

/* Find the functions whose names or, if FLAT, whose flat names are NAME. */
static const struct function *const *find_by_name(const struct functions *functions,
						  const char *name, bool flat, size_t *n)
{
	const struct function *const *found;
	struct requested_name asked = { .flat = flat };
	char text[OCAML_NAME_BYTES];

	*n = 0;
	if (!ocaml_name_normalise(name, text, &asked.stamp))
		return NULL;
	asked.name = text;
	found = find_requested_functions(functions, &asked, n);
	if (found)
		return found;
	asked.name = text + ocaml_name_short_at(text);
	asked.full_name = text;
	return find_requested_functions(functions, &asked, n);
}

const struct function *const *functions_find_exact(const struct functions *functions,
						   const char *name, size_t *n)
{
	return find_by_name(functions, name, false, n);
}

const struct function *const *functions_find(const struct functions *functions, const char *name,
					     size_t *n)
{
	const struct function *const *found = find_by_name(functions, name, false, n);

	return found ? found : find_by_name(functions, name, true, n);
}

const struct function *const *functions_versions(const struct functions *functions,
						 const char *name, size_t *n)
{
	const struct function *const *all = functions->by_symbol;
	const size_t n_all = functions->n - functions->n_ocaml;
	const size_t first = first_named(all, n_all, name, false);
	size_t end = first;

	while (end < n_all && strcmp(all[end]->name, name) == 0)
		end++;
	*n = end - first;
	return *n ? all + first : NULL;
}

/*
 * A and B are versions of the same name. Return true if the name without a version means A. The
 * name without a version means the version that programs are linked with (which is not hidden; a
 * function without a version is never hidden) or, if both versions are hidden, the later one.
 */
static bool is_preferred(const struct function *a, const struct function *b)
{
	if (a->is_hidden != b->is_hidden)
		return b->is_hidden;
	return a->is_hidden && a->version_index > b->version_index;
}

static const struct function *find_version(const struct functions *functions, const char *symbol,
					   const char *at)
{
	const char *version = at + (at[1] == '@' ? 2 : 1);
	char name[FUNCTION_TEXT_BYTES];
	const struct function *const *found;
	size_t n;

	if ((size_t)(at - symbol) >= sizeof(name))
		return NULL;
	memcpy(name, symbol, (size_t)(at - symbol));
	name[at - symbol] = '\0';
	found = functions_versions(functions, name, &n);
	for (size_t i = 0; found && i < n; i++)
		if (found[i]->version && strcmp(found[i]->version, version) == 0)
			return found[i];
	return NULL;
}

const struct function *functions_find_c(const struct functions *functions, const char *symbol)
{
	const struct function *const *found, *best = NULL;
	const char *at = strchr(symbol, '@');
	size_t n;

	if (at)
		return find_version(functions, symbol, at);
	found = functions_versions(functions, symbol, &n);
	for (size_t i = 0; found && i < n; i++)
		if (!best || is_preferred(found[i], best))
			best = found[i];
	return best;
}

const struct function *functions_at(const struct functions *functions, uint64_t va)
{
	const struct function *list = functions->list;
	const size_t next = SEARCH(i, functions->n, list[i].va <= va);

	for (size_t back = 1; back <= next && back <= MAX_STEPS_BACK; back++)
		if (va - list[next - back].va < list[next - back].bytes)
			return &list[next - back];
	return NULL;
}

const char *function_text(const struct function *function, char text[FUNCTION_TEXT_BYTES])
{
	if (function->is_unique)
		snprintf(text, FUNCTION_TEXT_BYTES, "%s", function->name);
	else
		snprintf(text, FUNCTION_TEXT_BYTES, "%s/%" PRIu32, function->name, function->stamp);
	return text;
}

bool function_matches(const struct function *function, const struct str_regexp *re)
{
	char text[FUNCTION_TEXT_BYTES];

	if (str_regexp_match(re, function->name))
		return true;
	if (function->full_name != function->name && str_regexp_match(re, function->full_name))
		return true;
	if (function->flat_name != function->name && str_regexp_match(re, function->flat_name))
		return true;
	snprintf(text, sizeof(text), "%s/%" PRIu32, function->name, function->stamp);
	return str_regexp_match(re, text);
}
