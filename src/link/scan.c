// SPDX-License-Identifier: MIT
/*
 * The scan looks at every byte of the code as if an instruction started there, so it needs neither
 * a disassembler nor symbols. That a byte inside of another instruction looks like a load, points
 * exactly at a marker and is followed by the comparison and the jump of a dormant probe is beyond
 * chance. What loads a marker and does not match is put down as a failure.
 */
#include "link/scan.h"

#include <stdlib.h>
#include <string.h>

/* A word of the GOT that the dynamic linker fills with a marker's address. */
struct slot {
	uint64_t va;
	struct marker *marker;
};

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->va < y->va ? -1 : x->va > y->va;
}

/*
 * The address that the dynamic linker will store for RELA, or 0. Symbols resolve to the definition
 * in this file: a marker's symbol bears the name of its compilation unit, which is unique in a
 * program.
 */
static uint64_t relocated_value(const struct image *image, const Elf64_Shdr *table,
				const Elf64_Rela *rela)
{
	const Elf64_Shdr *symbols;
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
	if (table->sh_link >= image->n_sections)
		return 0;
	symbols = &image->sections[table->sh_link];
	if (symbols->sh_type != SHT_DYNSYM || index >= symbols->sh_size / sizeof(symbol))
		return 0;
	memcpy(&symbol, image->bytes + symbols->sh_offset + index * sizeof(symbol), sizeof(symbol));
	return symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value;
}

static int add_slot(struct scan *scan, uint64_t va, struct marker *marker)
{
	if (scan->n_slots == scan->slots_room) {
		size_t more = scan->slots_room ? scan->slots_room * 2 : 256;
		struct slot *slots = reallocarray(scan->slots, more, sizeof(*slots));

		if (!slots)
			return ctx_no_memory(scan->image->ctx);
		scan->slots = slots;
		scan->slots_room = more;
	}
	scan->slots[scan->n_slots++] = (struct slot){ va, marker };
	return 0;
}

static int find_slots(struct scan *scan)
{
	const struct image *image = scan->image;

	for (size_t i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *table = &image->sections[i];
		const uint8_t *bytes;
		Elf64_Rela rela;

		/* Of other types, the offset of NOBITS was not checked: it means nothing. */
		if (table->sh_type != SHT_RELA || !(table->sh_flags & SHF_ALLOC))
			continue;
		bytes = image->bytes + table->sh_offset;
		for (size_t at = 0; table->sh_size - at >= sizeof(rela); at += sizeof(rela)) {
			struct marker *marker;
			int err;

			memcpy(&rela, bytes + at, sizeof(rela));
			marker = marker_set_find(scan->set, relocated_value(image, table, &rela));
			err = marker ? add_slot(scan, rela.r_offset, marker) : 0;
			if (err)
				return err;
		}
	}
	if (scan->n_slots)
		qsort(scan->slots, scan->n_slots, sizeof(*scan->slots), compare_slots);
	return 0;
}

/* What the word at VA holds when the program runs, if that is a marker's address. */
static struct marker *marker_in_slot(const struct scan *scan, uint64_t va)
{
	const struct slot key = { .va = va }, *slot = NULL;
	uint64_t word;

	if (scan->n_slots)
		slot = bsearch(&key, scan->slots, scan->n_slots, sizeof(key), compare_slots);
	if (slot)
		return slot->marker;
	/* Without a relocation, or with a packed one (DT_RELR), the file has the word itself. */
	return image_read_data(scan->image, va, &word) ? marker_set_find(scan->set, word) : NULL;
}

static struct use *add_use(struct scan *scan)
{
	if (scan->n_uses == scan->uses_room) {
		size_t more = scan->uses_room ? scan->uses_room * 2 : 256;
		struct use *uses = reallocarray(scan->uses, more, sizeof(*uses));

		if (!uses)
			return NULL;
		scan->uses = uses;
		scan->uses_room = more;
	}
	return memset(&scan->uses[scan->n_uses++], 0, sizeof(struct use));
}

static int scan_section(struct scan *scan, const Elf64_Shdr *section)
{
	const struct x86_code code = { scan->image->bytes + section->sh_offset, section->sh_size,
				       section->sh_addr };
	size_t end_of_last = 0;

	for (size_t pos = 0; pos + X86_LOAD_BYTES <= code.n_bytes; pos++) {
		struct marker *marker;
		struct x86_load load;
		struct use *use;

		if (!x86_may_be_load(code.bytes + pos) || !x86_decode_load(&code, pos, &load))
			continue;
		marker = load.form == X86_LOAD_GOT ? marker_in_slot(scan, load.va)
						   : marker_set_find(scan->set, load.va);
		if (!marker)
			continue;
		use = add_use(scan);
		if (!use)
			return ctx_no_memory(scan->image->ctx);
		marker->is_loaded = true;
		use->code = code;
		use->pos = pos;
		use->load = load;
		use->marker = marker;
		if (marker->kind == MARKER_FOREIGN)
			use->why_not =
				"a newer ppx wrote it, this post-linker does not know the form";
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

	return x_va < y_va ? -1 : x_va > y_va;
}

/* ---- arguments ---------------------------------------------------------------------------- */

/* Whose arguments are looked for. */
struct args_search {
	const struct scan *scan;
	const struct marker *site;
};

static bool is_args_marker(const struct args_search *search, const struct marker *marker)
{
	return marker && marker->kind == MARKER_ARGS && marker_same_place(marker, search->site);
}

static bool is_marker(const void *data, uint64_t va)
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

	return image_read_data(search->scan->image, va, word);
}

static int find_args(const struct scan *scan, struct use *use)
{
	const struct args_search search = { scan, use->marker };
	const struct x86_args_query query = {
		.code = &use->code,
		.start = x86_site_handler(&use->site),
		.site = &use->site,
		.site_va = use->code.va + use->pos,
		.is_fixed = scan->image->header.e_type == ET_EXEC,
		.n_args = use->marker->n_args,
		.is_marker = is_marker,
		.holds_marker = holds_marker,
		.read_word = read_word,
		.data = &search,
	};

	use->args = calloc(query.n_args, sizeof(*use->args));
	if (!use->args)
		return ctx_no_memory(scan->image->ctx);
	x86_find_args(&query, use->args);
	return 0;
}

/* ---- what has no code --------------------------------------------------------------------- */

static void refer_to(const struct scan *scan, uint64_t va)
{
	struct marker *marker = marker_set_find(scan->set, va);

	if (marker)
		marker->is_referenced = true;
}

/*
 * A marker that no instruction was seen to load: is there anything at all that could be its
 * address? If not, the compiler has kept the string of code that it left out.
 */
static void find_references(const struct scan *scan)
{
	const struct image *image = scan->image;

	for (size_t i = 0; i < scan->n_slots; i++)
		scan->slots[i].marker->is_referenced = true;
	for (size_t i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *section = &image->sections[i];
		const uint8_t *bytes = image->bytes + section->sh_offset;
		bool is_code = image_section_is_code(section);
		uint64_t word;
		int32_t half;

		if (!is_code && !image_section_is_data(section))
			continue;
		for (size_t at = 0; is_code && section->sh_size - at >= sizeof(half); at++) {
			memcpy(&half, bytes + at, sizeof(half));
			refer_to(scan, section->sh_addr + at + sizeof(half) + (uint64_t)half);
			refer_to(scan, (uint64_t)half);
		}
		for (size_t at = 0; !is_code && section->sh_size - at >= sizeof(word);
		     at += sizeof(word)) {
			memcpy(&word, bytes + at, sizeof(word));
			refer_to(scan, word);
		}
	}
}

static bool is_every_marker_loaded(const struct marker_set *set)
{
	for (size_t i = 0; i < set->n_markers; i++)
		if (!set->markers[i].is_loaded)
			return false;
	return true;
}

/* ---- all of it ---------------------------------------------------------------------------- */

int scan_image(const struct image *image, const struct marker_set *set, struct scan *scan)
{
	int err;

	*scan = (struct scan){ .image = image, .set = set };
	err = find_slots(scan);
	for (size_t i = 1; i < image->n_sections && !err; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (image_section_is_code(section) && image_section_is_loaded(image, section))
			err = scan_section(scan, section);
	}
	if (scan->n_uses)
		qsort(scan->uses, scan->n_uses, sizeof(*scan->uses), compare_uses);
	for (size_t i = 0; i < scan->n_uses && !err; i++) {
		struct use *use = &scan->uses[i];

		if (!use->why_not && use->marker->kind == MARKER_SITE && use->marker->n_args)
			err = find_args(scan, use);
	}
	if (!err && !is_every_marker_loaded(set))
		find_references(scan);
	if (err)
		scan_free(scan);
	return err;
}

void scan_free(struct scan *scan)
{
	for (size_t i = 0; i < scan->n_uses; i++)
		free(scan->uses[i].args);
	free(scan->uses);
	free(scan->slots);
	memset(scan, 0, sizeof(*scan));
}
