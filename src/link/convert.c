// SPDX-License-Identifier: MIT
/*
 * The conversion of an executable, in steps that each finish before the next begins:
 *
 *	markers		what probes are there (marker.c)
 *	scan		every instruction that loads a marker's address, checked with the code
 *around it (x86_site.c); what does not match is put down as a failure
 *	semaphores	one marker of each name, one whose site can be converted, lends its bytes
 *	report		every failure is told; with --strict, the end
 *	apply		the first change to a byte: sites, queries, initial semaphores, notes
 *
 * The scan looks at every byte of the code as if an instruction started there, so it needs neither
 *a disassembler nor symbols. That a byte inside of another instruction looks like a load, points
 * exactly at a marker and is followed by the comparison and the jump of a dormant probe is beyond
 * chance.
 */
#include "link/convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "link/marker.h"
#include "link/notes.h"
#include "link/x86_site.h"

enum { SEMAPHORE_OCAML_OFF = 2 };

/* A word of the GOT that the dynamic linker fills with a marker's address. */
struct slot {
	uint64_t va;
	struct marker *marker;
};

/* An instruction that loads a marker's address. */
struct use {
	struct x86_code code; /* the section it stands in */
	size_t pos;
	struct x86_load load;
	struct marker *marker;
	struct x86_site site; /* of a MARKER_SITE */
	const char *why_not;  /* it cannot be converted; NULL: it can */
};

struct conversion {
	struct image *image;
	const struct convert_options *options;
	struct convert_result *result;
	struct marker_set set;
	struct slot *slots; /* by address */
	size_t n_slots, slots_room;
	struct use *uses; /* by address */
	size_t n_uses, uses_room;
	struct image_symbol *functions;
	size_t n_functions;
};

/* ---- scan --------------------------------------------------------------------------------- */

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

static int add_slot(struct conversion *conv, uint64_t va, struct marker *marker)
{
	if (conv->n_slots == conv->slots_room) {
		size_t more = conv->slots_room ? conv->slots_room * 2 : 256;
		struct slot *slots = reallocarray(conv->slots, more, sizeof(*slots));

		if (!slots)
			return ctx_no_memory(conv->image->ctx);
		conv->slots = slots;
		conv->slots_room = more;
	}
	conv->slots[conv->n_slots++] = (struct slot){ va, marker };
	return 0;
}

static int find_slots(struct conversion *conv)
{
	const struct image *image = conv->image;

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
			marker = marker_set_find(&conv->set, relocated_value(image, table, &rela));
			err = marker ? add_slot(conv, rela.r_offset, marker) : 0;
			if (err)
				return err;
		}
	}
	if (conv->n_slots)
		qsort(conv->slots, conv->n_slots, sizeof(*conv->slots), compare_slots);
	return 0;
}

/* What the word at VA holds when the program runs, if that is a marker's address. */
static struct marker *marker_in_slot(const struct conversion *conv, uint64_t va)
{
	const struct slot key = { .va = va }, *slot = NULL;
	const struct image *image = conv->image;

	if (conv->n_slots)
		slot = bsearch(&key, conv->slots, conv->n_slots, sizeof(key), compare_slots);
	if (slot)
		return slot->marker;
	/* Without a relocation, or with a packed one (DT_RELR), the file has the word itself. */
	for (size_t i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *section = &image->sections[i];
		uint64_t word;

		if (!image_section_is_data(section) || va < section->sh_addr ||
		    va - section->sh_addr >= section->sh_size)
			continue;
		if (section->sh_size - (va - section->sh_addr) < sizeof(word))
			return NULL;
		memcpy(&word, image->bytes + section->sh_offset + (va - section->sh_addr),
		       sizeof(word));
		return marker_set_find(&conv->set, word);
	}
	return NULL;
}

static struct use *add_use(struct conversion *conv)
{
	if (conv->n_uses == conv->uses_room) {
		size_t more = conv->uses_room ? conv->uses_room * 2 : 256;
		struct use *uses = reallocarray(conv->uses, more, sizeof(*uses));

		if (!uses)
			return NULL;
		conv->uses = uses;
		conv->uses_room = more;
	}
	return memset(&conv->uses[conv->n_uses++], 0, sizeof(struct use));
}

static int scan_section(struct conversion *conv, const Elf64_Shdr *section)
{
	const struct x86_code code = { conv->image->bytes + section->sh_offset, section->sh_size,
				       section->sh_addr };
	size_t end_of_last = 0;

	for (size_t pos = 0; pos + X86_LOAD_BYTES <= code.n_bytes; pos++) {
		struct marker *marker;
		struct x86_load load;
		struct use *use;

		if (!x86_may_be_load(code.bytes + pos) || !x86_decode_load(&code, pos, &load))
			continue;
		marker = load.form == X86_LOAD_GOT ? marker_in_slot(conv, load.va)
						   : marker_set_find(&conv->set, load.va);
		if (!marker)
			continue;
		use = add_use(conv);
		if (!use)
			return ctx_no_memory(conv->image->ctx);
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

static int scan(struct conversion *conv)
{
	const struct image *image = conv->image;
	int err = find_slots(conv);

	for (size_t i = 1; i < image->n_sections && !err; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (image_section_is_code(section) && image_section_is_loaded(image, section))
			err = scan_section(conv, section);
	}
	if (conv->n_uses)
		qsort(conv->uses, conv->n_uses, sizeof(*conv->uses), compare_uses);
	return err;
}

/* ---- semaphores --------------------------------------------------------------------------- */

static bool is_site(const struct use *use)
{
	return use->marker->kind == MARKER_SITE && !use->why_not;
}

static struct marker_probe *probe_of(const struct conversion *conv, const struct use *use)
{
	return &conv->set.probes[use->marker->probe];
}

static void choose_semaphores(struct conversion *conv)
{
	for (size_t i = 0; i < conv->n_uses; i++) {
		const struct use *use = &conv->uses[i];
		struct marker_probe *probe = probe_of(conv, use);

		if (!is_site(use))
			continue;
		conv->result->n_sites++;
		if (!probe->semaphore)
			conv->result->n_probes++;
		if (!probe->semaphore || use->marker->va < probe->semaphore->va)
			probe->semaphore = use->marker;
		if (use->marker->enabled_at_init)
			probe->enabled_at_init = true;
		else
			probe->disabled_at_init = true;
	}
}

/* A query keeps reading its own marker's bytes, always 0, if its name has no site. */
static void check_queries(struct conversion *conv)
{
	for (size_t i = 0; i < conv->n_uses; i++) {
		struct use *use = &conv->uses[i];
		const struct marker *semaphore = probe_of(conv, use)->semaphore;

		if (use->marker->kind == MARKER_IS_ENABLED && !use->why_not && semaphore &&
		    !x86_can_redirect(&use->code, use->pos, &use->load, semaphore->va))
			use->why_not = "the semaphore is too far away";
	}
}

/* ---- report ------------------------------------------------------------------------------- */

static void log_use(const struct conversion *conv, enum ocp_log_level level, const struct use *use,
		    const char *what)
{
	uint64_t va = use->code.va + use->pos;
	const char *function = image_function_at(conv->functions, conv->n_functions, va);
	const struct marker *marker = use->marker;

	ctx_log(conv->image->ctx, level, "%.*s: %s \"%.*s\" at %#llx in %s: %s",
		marker->where_bytes, marker->where,
		marker->kind == MARKER_IS_ENABLED ? "probe_is_enabled" : "probe",
		marker->name_bytes, marker->name, (unsigned long long)va,
		function ? function : "a function without symbol", what);
}

static void log_marker(const struct conversion *conv, const struct marker *marker, const char *what)
{
	ctx_log(conv->image->ctx, OCP_LOG_WARN, "%.*s: probe \"%.*s\" %s", marker->where_bytes,
		marker->where, marker->name_bytes, marker->name, what);
}

static void report_failures(struct conversion *conv)
{
	struct convert_result *result = conv->result;
	const Elf64_Shdr *section;

	for (size_t i = 0; i < conv->n_uses; i++) {
		const struct use *use = &conv->uses[i];
		char text[256];

		if (!use->why_not)
			continue;
		result->n_failures++;
		snprintf(text, sizeof(text), "stays dormant: %s", use->why_not);
		log_use(conv, OCP_LOG_WARN, use, text);
	}
	for (size_t i = 0; i < conv->set.n_markers; i++) {
		const struct marker *marker = &conv->set.markers[i];
		struct marker_probe *probe = &conv->set.probes[marker->probe];

		if (!marker->is_loaded) {
			result->n_failures++;
			log_marker(conv, marker,
				   "stays dormant: no instruction loads its marker in a known way");
		}
		if (marker == probe->semaphore && probe->enabled_at_init &&
		    probe->disabled_at_init) {
			result->n_failures++;
			log_marker(
				conv, marker,
				"is ~enabled_at_init:true in some places only: all start enabled");
		}
	}
	/* Tracers compute a semaphore's file offset from where the section called .probes stands.
	 */
	section = image_find_section(conv->image, ".probes");
	for (size_t i = 0; i < conv->set.n_probes; i++) {
		const struct marker *semaphore = conv->set.probes[i].semaphore;

		if (!semaphore || (section && section->sh_addr - section->sh_offset ==
						      semaphore->va - semaphore->off))
			continue;
		result->n_failures++;
		log_marker(
			conv, semaphore,
			"has its semaphore where bpftrace does not find it: no section .probes in "
			"that segment (is ocaml-probes.runtime linked?)");
		break;
	}
}

/* ---- apply -------------------------------------------------------------------------------- */

static int apply(struct conversion *conv)
{
	struct note_draft *drafts = calloc(conv->result->n_sites, sizeof(*drafts));
	struct image *image = conv->image;
	size_t n_drafts = 0;
	int err;

	if (!drafts)
		return ctx_no_memory(image->ctx);
	for (size_t i = 0; i < conv->n_uses; i++) {
		const struct use *use = &conv->uses[i];
		const struct marker_probe *probe = probe_of(conv, use);

		if (use->marker->kind == MARKER_IS_ENABLED && !use->why_not && probe->semaphore) {
			x86_redirect_load(&use->code, use->pos, &use->load, probe->semaphore->va);
			conv->result->n_queries++;
		}
		if (!is_site(use))
			continue;
		x86_write_site(&use->code, &use->site, probe->enabled_at_init);
		drafts[n_drafts++] = (struct note_draft){ .site_va = use->code.va + use->pos,
							  .semaphore_va = probe->semaphore->va,
							  .name = use->marker->name,
							  .name_bytes = use->marker->name_bytes };
		if (conv->options->show_all)
			log_use(conv, OCP_LOG_INFO, use,
				conv->options->check ? "can be converted" : "converted");
	}
	for (size_t i = 0; i < conv->set.n_probes; i++) {
		const struct marker_probe *probe = &conv->set.probes[i];
		const uint16_t one = 1;

		if (probe->semaphore && probe->enabled_at_init)
			memcpy(image->bytes + probe->semaphore->off + SEMAPHORE_OCAML_OFF, &one,
			       sizeof(one));
	}
	err = notes_append(image, drafts, n_drafts);
	free(drafts);
	return err;
}

int convert(struct image *image, const struct convert_options *options,
	    struct convert_result *result)
{
	struct conversion conv = { .image = image, .options = options, .result = result };
	int err;

	memset(result, 0, sizeof(*result));
	err = notes_find_ocaml(image, &result->was_converted);
	if (err || result->was_converted)
		return err;
	err = marker_set_read(image, &conv.set);
	if (err)
		return err;
	result->n_markers = conv.set.n_markers;
	if (!conv.set.n_markers)
		goto out;
	err = scan(&conv);
	if (!err)
		err = image_read_functions(image, &conv.functions, &conv.n_functions);
	if (err)
		goto out;
	choose_semaphores(&conv);
	check_queries(&conv);
	report_failures(&conv);
	if (result->n_failures && options->strict)
		err = ctx_error(image->ctx, -EILSEQ, "%zu probe(s) cannot be converted, see above",
				result->n_failures);
	else if (result->n_sites)
		err = apply(&conv);
out:
	free(conv.slots);
	free(conv.uses);
	free(conv.functions);
	marker_set_free(&conv.set);
	return err;
}
