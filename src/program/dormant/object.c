// SPDX-License-Identifier: MIT
#include "program/dormant/object.h"
#include "base/array.h"
#include "base/search.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * The limit for the total size of all sections. The largest programs have about 100 MB of code and
 * data.
 */
#define MAX_BYTES (UINT64_C(512) << 20)

enum { MAX_SECTIONS = 1 << 14 };

static bool is_kind(const struct elf_section *section, enum object_kind *kind)
{
	uint64_t rights = section->flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_TLS);

	switch (section->type) {
	case SHT_PROGBITS:
		*kind = section->flags & SHF_EXECINSTR ? OBJECT_CODE : OBJECT_DATA;
		return *kind == OBJECT_CODE ? rights & SHF_ALLOC
					    : rights == (SHF_ALLOC | SHF_WRITE);
	case SHT_RELA:
		*kind = OBJECT_RELOCATIONS;
		return rights & SHF_ALLOC;
	case SHT_DYNSYM:
		*kind = OBJECT_SYMBOLS;
		return true;
	case SHT_STRTAB:
		*kind = OBJECT_STRINGS;
		return rights & SHF_ALLOC;
	default:
		return false;
	}
}

static bool is_loaded(const struct elf_section *section, const struct elf_segment *segments,
		      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *segment = &segments[i];
		uint64_t at = section->off - segment->off;

		if (section->off < segment->off || at > segment->file_bytes ||
		    section->bytes > segment->file_bytes - at)
			continue;
		return segment->readable && (segment->writable || !(section->flags & SHF_WRITE)) &&
		       (segment->executable || !(section->flags & SHF_EXECINSTR)) &&
		       section->va - segment->va == at;
	}
	return false;
}

int object_add(struct object *object, const struct elf_section *section,
	       const struct elf_segment *segments, size_t n_segments)
{
	struct object_section *new;
	enum object_kind kind;

	if (!section->bytes || !is_kind(section, &kind))
		return 0;
	if ((kind == OBJECT_CODE || kind == OBJECT_DATA) &&
	    !is_loaded(section, segments, n_segments))
		return 0;
	new = array_add(object->sections, object->n_sections);
	if (!new)
		return ctx_no_memory(object->ctx);
	*new = (struct object_section){
		.kind = kind,
		.index = section->index,
		.link = section->link,
		.off = section->off,
		.va = section->va,
		.n_bytes = section->bytes,
	};
	return 0;
}

static int compare_sections(const void *a, const void *b)
{
	const struct object_section *x = a, *y = b;

	if (x->kind != y->kind)
		return COMPARE(x->kind, y->kind);
	return COMPARE(x->va, y->va);
}

void object_sort(struct object *object)
{
	if (object->n_sections)
		qsort(object->sections, object->n_sections, sizeof(*object->sections),
		      compare_sections);
}

struct reading {
	struct object *object;
	struct elf_file *elf;
	const struct elf_segment *segments;
	size_t n_segments;
	uint64_t n_bytes;
};

static int read_section(void *data, const struct elf_section *section)
{
	struct reading *reading = data;
	struct object *object = reading->object;
	size_t n_before = object->n_sections;
	int err;

	if (n_before == MAX_SECTIONS)
		return ctx_error(object->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64
				 ": more sections of code and data than the limit of %d",
				 elf_file_name(reading->elf), section->off, MAX_SECTIONS);
	err = object_add(object, section, reading->segments, reading->n_segments);
	if (err || object->n_sections == n_before)
		return err;
	err = elf_file_read_section(reading->elf, section, MAX_BYTES - reading->n_bytes,
				    &object->sections[n_before].bytes);
	reading->n_bytes += section->bytes;
	return err;
}

int object_read(struct ocp_ctx *ctx, struct elf_file *elf, struct object *object)
{
	struct reading reading = { .object = object, .elf = elf };
	int err;

	*object = (struct object){
		.ctx = ctx,
		.is_fixed = !elf_file_is_relocatable(elf),
		.owns_bytes = true,
	};
	reading.segments = elf_file_segments(elf, &reading.n_segments);
	err = elf_file_each_section(elf, read_section, &reading);
	if (err)
		object_free(object);
	else
		object_sort(object);
	return err;
}

void object_free(struct object *object)
{
	for (size_t i = 0; object->owns_bytes && i < object->n_sections; i++)
		free(object->sections[i].bytes);
	free(object->sections);
	*object = (struct object){ 0 };
}

const struct object_section *object_section_at(const struct object *object, uint32_t index,
					       enum object_kind kind)
{
	for (size_t i = 0; i < object->n_sections; i++)
		if (object->sections[i].index == index && object->sections[i].kind == kind)
			return &object->sections[i];
	return NULL;
}

/*
 * Return true if SECTION comes before all data sections that begin above VA. (Sections are sorted
 * by kind, then by address.)
 */
static bool begins_by(const struct object_section *section, uint64_t va)
{
	return section->kind < OBJECT_DATA || (section->kind == OBJECT_DATA && section->va <= va);
}

bool object_read_data(const struct object *object, uint64_t va, uint64_t *word)
{
	const struct object_section *section;
	const size_t after = SEARCH(i, object->n_sections, begins_by(&object->sections[i], va));
	uint64_t at;

	if (after == 0)
		return false;
	section = &object->sections[after - 1];
	at = va - section->va;
	if (section->kind != OBJECT_DATA || at >= section->n_bytes ||
	    section->n_bytes - at < sizeof(*word))
		return false;
	memcpy(word, section->bytes + at, sizeof(*word));
	return true;
}

static int compare_externals(const void *slot_va, const void *external)
{
	uint64_t x = *(const uint64_t *)slot_va,
		 y = ((const struct object_external *)external)->slot_va;

	return COMPARE(x, y);
}

const struct object_external *object_find_external(const struct object_external *list, size_t n,
						   uint64_t slot_va)
{
	return n ? bsearch(&slot_va, list, n, sizeof(*list), compare_externals) : NULL;
}
