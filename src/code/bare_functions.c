// SPDX-License-Identifier: MIT
/*
 * Find the functions in .eh_frame, and name them by the debug information of the calls in their
 * code. The name of a function is the common start of the paths of these calls. Calls in List.iter
 * have the path "Stdlib__List.iter" or, where the compiler has inlined a local function,
 * "Stdlib__List.iter.(fun)". Only an initialiser, the code that runs the top level of a unit, has
 * calls with the paths of several functions. Initialisers are recognised because the code that
 * ocamlopt makes when it links calls them. The frame table of that code is the first one.
 */
#include "code/bare_functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "code/frametable.h"
#include "code/function_path.h"
#include "elf/eh_frame.h"

enum {
	MAX_FUNCTIONS = 1 << 21,
	CALL = 0xe8, /* with a distance of 4 bytes */
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

/* Mark the function that is called by the call before the return address VA as an initialiser. */
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
	else if (n > 5 && strcmp(path + n - 5, "(fun)") == 0)
		kind = OCAML_ANONYMOUS;
	return ocaml_name_of_path(path, kind, stamp, &name)
		       ? fn(data, extent->va, extent->bytes, &name)
		       : 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/*
 * Return true if the program is OCaml 5. In OCaml 4, one frame descriptor of the runtime's
 * assembler code is a chunk end. In OCaml 5 there is a second one, for fibres.
 */
static bool has_ocaml_stacks(const struct frametable *table)
{
	size_t n, n_ends = 0;
	const struct frame_descr *list = frametable_list(table, &n);

	for (size_t i = 0; i < n; i++)
		n_ends += list[i].is_chunk_end;
	return n_ends > 1;
}

static int list_entries(const struct bare_function_reader *r, struct bare_functions *functions)
{
	functions->entries = calloc(r->n + 1, sizeof(*functions->entries));
	if (!functions->entries)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < r->n; i++)
		functions->entries[functions->n_entries++] = r->list[i].va;
	return 0;
}

int bare_functions_read(struct ocp_ctx *ctx, struct elf_file *elf, bare_function_fn fn, void *data,
			struct bare_functions *functions)
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
		err = list_entries(&r, functions);
	}
	for (size_t i = 0; !err && i < r.n; i++)
		err = name_extent(&r, &r.list[i], fn, data);
	frametable_free(r.table);
	free(r.list);
	return err;
}
