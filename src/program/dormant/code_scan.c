// SPDX-License-Identifier: MIT
/*
 * The scan tries each byte of the code as the start of an instruction, so it needs neither a
 * disassembler nor symbols. A false match is practically impossible: bytes in the middle of an
 * instruction would have to look like a load of exactly the address of a marker, and the comparison
 * and the jump of a dormant probe would have to follow. If code loads a marker's address but is not
 * the code of a dormant probe, a problem is reported.
 */
#include "program/dormant/code_scan.h"
#include "base/array.h"
#include "base/search.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits for hostile files. Each use takes a few hundred bytes of memory. */
enum { MAX_USES = 1 << 20, MAX_ARGS = 1 << 21 };

/* A word of the global offset table (GOT) that the dynamic linker fills with a marker's address. */
struct marker_slot {
	uint64_t va;
	struct marker *marker;
};

static int compare_slots(const void *a, const void *b)
{
	const struct marker_slot *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

static uint64_t external_value(const struct object *object, uint64_t slot_va)
{
	const struct object_external *external =
		object_find_external(object->externals, object->n_externals, slot_va);

	return external ? external->va : 0;
}

/*
 * Return the address that the dynamic linker will store for RELA; 0 if the address is unknown. If
 * this file defines the symbol of RELA, the symbol resolves to that definition: no other file has a
 * symbol of the same name, since the symbol of a marker contains the name of its compilation unit,
 * which is unique in a program.
 */
static uint64_t relocated_value(const struct object *object, const struct object_section *symbols,
				const Elf64_Rela *rela)
{
	uint64_t index = ELF64_R_SYM(rela->r_info);
	Elf64_Sym symbol;

	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_RELATIVE:
		return (uint64_t)rela->r_addend;
	case R_X86_64_GLOB_DAT:
		break;
	default:
		return 0;
	}
	if (!symbols || index >= symbols->n_bytes / sizeof(symbol))
		return 0;
	memcpy(&symbol, symbols->bytes + index * sizeof(symbol), sizeof(symbol));
	return symbol.st_shndx == SHN_UNDEF ? external_value(object, rela->r_offset)
					    : symbol.st_value;
}

static int add_slot(struct code_scan *scan, uint64_t va, struct marker *marker)
{
	struct marker_slot *new = array_add(scan->slots, scan->n_slots);

	if (!new)
		return ctx_no_memory(scan->object->ctx);
	*new = (struct marker_slot){ va, marker };
	return 0;
}

static int find_slots_in(struct code_scan *scan, const struct object_section *table)
{
	const struct object_section *symbols =
		object_section_at(scan->object, table->link, OBJECT_SYMBOLS);
	Elf64_Rela rela;

	for (size_t at = 0; table->n_bytes - at >= sizeof(rela); at += sizeof(rela)) {
		struct marker *marker;
		int err;

		memcpy(&rela, table->bytes + at, sizeof(rela));
		marker = marker_set_find(scan->set, relocated_value(scan->object, symbols, &rela));
		err = marker ? add_slot(scan, rela.r_offset, marker) : 0;
		if (err)
			return err;
	}
	return 0;
}

static int find_slots(struct code_scan *scan)
{
	int err = 0;

	for (size_t i = 0; i < scan->object->n_sections && !err; i++)
		if (scan->object->sections[i].kind == OBJECT_RELOCATIONS)
			err = find_slots_in(scan, &scan->object->sections[i]);
	if (scan->n_slots)
		qsort(scan->slots, scan->n_slots, sizeof(*scan->slots), compare_slots);
	return err;
}

/*
 * Return the marker whose address the word at VA will contain when the program runs; NULL if there
 * is none.
 */
static struct marker *marker_in_slot(const struct code_scan *scan, uint64_t va)
{
	const struct marker_slot key = { .va = va }, *slot = NULL;
	uint64_t word;

	if (scan->n_slots)
		slot = bsearch(&key, scan->slots, scan->n_slots, sizeof(key), compare_slots);
	if (slot)
		return slot->marker;
	/*
	 * If no relocation, or only a packed one (DT_RELR), applies to the word, the word in the
	 * file is the address itself.
	 */
	return object_read_data(scan->object, va, &word) ? marker_set_find(scan->set, word) : NULL;
}

static int add_use(struct code_scan *scan, struct use **use)
{
	struct ocp_ctx *ctx = scan->object->ctx;

	if (scan->n_uses == MAX_USES)
		return ctx_error(ctx, -EBADMSG, "more sites than the limit of %d", MAX_USES);
	*use = array_add(scan->uses, scan->n_uses);
	if (!*use)
		return ctx_no_memory(ctx);
	memset(*use, 0, sizeof(**use));
	return 0;
}

static int scan_code_section(struct code_scan *scan, const struct object_section *section)
{
	const struct x86_code code = { section->bytes, section->n_bytes, section->va };
	size_t end_of_last = 0;

	for (size_t pos = 0; pos + X86_LOAD_BYTES <= code.n_bytes; pos++) {
		struct marker *marker;
		struct x86_load load;
		struct use *use;
		int err;

		if (!x86_may_be_load(code.bytes + pos) || !x86_decode_load(&code, pos, &load))
			continue;
		marker = load.form == X86_LOAD_GOT ? marker_in_slot(scan, load.va)
						   : marker_set_find(scan->set, load.va);
		if (!marker)
			continue;
		err = add_use(scan, &use);
		if (err)
			return err;
		marker->is_loaded = true;
		use->code = code;
		use->pos = pos;
		use->load = load;
		use->marker = marker;
		if (marker->kind == MARKER_FOREIGN)
			use->why_not = "a newer ppx wrote it in an unsupported form";
		else if (marker->kind == MARKER_SITE)
			use->why_not = x86_match_site(&code, pos, &load, &use->site);
		if (!use->why_not && pos < end_of_last)
			use->why_not = "it overlaps another one";
		if (!use->why_not)
			end_of_last = pos + (marker->kind == MARKER_SITE ? use->site.n_bytes
									 : X86_LOAD_BYTES);
	}
	return 0;
}

static int compare_uses(const void *a, const void *b)
{
	const struct use *x = a, *y = b;
	uint64_t x_va = x->code.va + x->pos, y_va = y->code.va + y->pos;

	return COMPARE(x_va, y_va);
}

/* ---- arguments ---------------------------------------------------------------------------- */

/* The site whose arguments are searched for. */
struct args_search {
	const struct code_scan *scan;
	const struct marker *site;
};

static bool is_args_marker(const struct args_search *search, const struct marker *marker)
{
	return marker && marker->kind == MARKER_ARGS && marker_same_place(marker, search->site);
}

static bool is_args_marker_at(const void *data, uint64_t va)
{
	const struct args_search *search = data;

	return is_args_marker(search, marker_set_find(search->scan->set, va));
}

static bool holds_marker(const void *data, uint64_t va)
{
	const struct args_search *search = data;

	return is_args_marker(search, marker_in_slot(search->scan, va));
}

static bool read_word(const void *data, uint64_t va, uint64_t *word)
{
	const struct args_search *search = data;

	return object_read_data(search->scan->object, va, word);
}

static int find_args(const struct code_scan *scan, struct use *use)
{
	const struct args_search search = { scan, use->marker };
	const struct x86_args_query query = {
		.code = &use->code,
		.start = x86_site_handler(&use->site),
		.site = &use->site,
		.site_va = use->code.va + use->pos,
		.is_fixed = scan->object->is_fixed,
		.n_args = use->marker->n_args,
		.is_marker = is_args_marker_at,
		.holds_marker = holds_marker,
		.read_word = read_word,
		.data = &search,
	};

	use->args = calloc(query.n_args, sizeof(*use->args));
	if (!use->args)
		return ctx_no_memory(scan->object->ctx);
	x86_find_args(&query, use->args);
	return 0;
}

/* ---- what has no code --------------------------------------------------------------------- */

static void refer_to(const struct code_scan *scan, uint64_t va)
{
	struct marker *marker = marker_set_find(scan->set, va);

	if (marker)
		marker->is_referenced = true;
}

static bool is_every_marker_loaded(const struct marker_set *set)
{
	for (size_t i = 0; i < set->n_markers; i++)
		if (!set->markers[i].is_loaded)
			return false;
	return true;
}

void code_scan_find_references(const struct code_scan *scan)
{
	if (is_every_marker_loaded(scan->set))
		return;
	for (size_t i = 0; i < scan->n_slots; i++)
		scan->slots[i].marker->is_referenced = true;
	for (size_t i = 0; i < scan->object->n_sections; i++) {
		const struct object_section *section = &scan->object->sections[i];
		bool is_code = section->kind == OBJECT_CODE;
		uint64_t word;
		int32_t half;

		if (!is_code && section->kind != OBJECT_DATA)
			continue;
		for (size_t at = 0; is_code && section->n_bytes - at >= sizeof(half); at++) {
			memcpy(&half, section->bytes + at, sizeof(half));
			refer_to(scan, section->va + at + sizeof(half) + (uint64_t)half);
			refer_to(scan, (uint64_t)half);
		}
		for (size_t at = 0; !is_code && section->n_bytes - at >= sizeof(word);
		     at += sizeof(word)) {
			memcpy(&word, section->bytes + at, sizeof(word));
			refer_to(scan, word);
		}
	}
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int find_all_args(struct code_scan *scan)
{
	size_t n_args = 0;
	int err = 0;

	for (size_t i = 0; i < scan->n_uses && !err; i++) {
		struct use *use = &scan->uses[i];

		if (!use_is_site(use) || !use->marker->n_args)
			continue;
		n_args += use->marker->n_args;
		err = n_args <= MAX_ARGS
			      ? find_args(scan, use)
			      : ctx_error(scan->object->ctx, -EBADMSG,
					  "more arguments than the limit of %d", MAX_ARGS);
	}
	return err;
}

int code_scan_read(const struct object *object, const struct marker_set *set,
		   struct code_scan *scan)
{
	int err;

	*scan = (struct code_scan){ .object = object, .set = set };
	err = find_slots(scan);
	for (size_t i = 0; i < object->n_sections && !err; i++)
		if (object->sections[i].kind == OBJECT_CODE)
			err = scan_code_section(scan, &object->sections[i]);
	if (scan->n_uses)
		qsort(scan->uses, scan->n_uses, sizeof(*scan->uses), compare_uses);
	if (!err)
		err = find_all_args(scan);
	if (err)
		code_scan_free(scan);
	return err;
}

void code_scan_free(struct code_scan *scan)
{
	for (size_t i = 0; i < scan->n_uses; i++)
		free(scan->uses[i].args);
	free(scan->uses);
	free(scan->slots);
	memset(scan, 0, sizeof(*scan));
}

void code_scan_find_probes(const struct code_scan *scan, struct marker_set *set)
{
	for (size_t i = 0; i < scan->n_uses; i++) {
		const struct use *use = &scan->uses[i];
		struct marker_probe *probe = &set->probes[use->marker->probe];

		if (!use_is_site(use))
			continue;
		if (!probe->marker || use->marker->va < probe->marker->va)
			probe->marker = use->marker;
		if (use->marker->enabled_at_init)
			probe->enabled_at_init = true;
		else
			probe->disabled_at_init = true;
	}
}

bool use_has_paths(const struct use *use)
{
	for (size_t i = 0; use->args && i < use->marker->n_args; i++)
		if (use->args[i].is_path)
			return true;
	return false;
}

char *use_args_text(const struct use *use, enum use_args which)
{
	size_t n = use->args ? use->marker->n_args : 0;
	char *text = malloc(n * X86_OPERAND_BYTES + 1), *end = text;

	if (!text)
		return NULL;
	*end = '\0';
	for (size_t i = 0; i < n; i++) {
		const struct x86_arg *arg = &use->args[i];
		const bool is_known = arg->operand[0] && (which == USE_ARGS_ALL || !arg->is_path);

		end += snprintf(end, X86_OPERAND_BYTES + 1, "%s%s", i ? " " : "",
				is_known ? arg->operand : X86_NO_OPERAND);
	}
	return text;
}
