// SPDX-License-Identifier: MIT
/*
 * .note.stapsdt is not loaded, so it can stand anywhere in the file, and the simplest place that
 * disturbs nothing is behind everything else. What the linker laid out keeps its offset: only the
 * section header table is written anew after the notes (and after a name table that has one name
 * more, if there was no such section), and e_shoff then points there. The old tables become dead
 * bytes, a few kilobytes that strip or objcopy would squeeze out.
 */
#include "link/notes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "elf/note.h"

static const char section_name[] = ".note.stapsdt";
static const char owner[] = "stapsdt";
static const char provider[] = "ocaml_1";

enum {
	NOTE_TYPE = 3,
	NOTE_ALIGN = 4,
	TABLE_ALIGN = 8,
	MAX_SECTIONS = SHN_LORESERVE - 1,
};

static const Elf64_Shdr *find_section(const struct image *image)
{
	const Elf64_Shdr *section = image_find_section(image, section_name);

	return section && section->sh_type == SHT_NOTE ? section : NULL;
}

int notes_find_ocaml(const struct image *image, bool *found)
{
	const Elf64_Shdr *section = find_section(image);
	struct note_reader reader;
	struct note note;
	int more;

	*found = false;
	if (!section && image_find_section(image, section_name))
		return ctx_error(image->ctx, -EBADMSG, "damaged: section %s holds no notes",
				 section_name);
	if (!section)
		return 0;
	note_reader_init(&reader, image->bytes + section->sh_offset, section->sh_size);
	while ((more = note_next(&reader, &note)) > 0)
		if (strncmp(note.provider, "ocaml", strlen("ocaml")) == 0)
			*found = true;
	if (more < 0)
		return ctx_error(image->ctx, -EBADMSG, "damaged: note at offset %#zx: %s",
				 (size_t)section->sh_offset + reader.pos, reader.why);
	return 0;
}

/* A buffer whose room was computed beforehand. */
struct output {
	uint8_t *bytes;
	size_t n;
};

static void put(struct output *out, const void *bytes, size_t n)
{
	memcpy(out->bytes + out->n, bytes, n);
	out->n += n;
}

static void put_padding(struct output *out, size_t align)
{
	while (out->n % align)
		out->bytes[out->n++] = 0;
}

static size_t descriptor_bytes(const struct note_draft *draft)
{
	return 3 * sizeof(uint64_t) + sizeof(provider) + (size_t)draft->name_bytes + 1 + 1;
}

static void put_note(struct output *out, const struct note_draft *draft, uint64_t base_va)
{
	const Elf64_Nhdr head = { sizeof(owner), (Elf64_Word)descriptor_bytes(draft), NOTE_TYPE };
	const uint64_t addresses[] = { draft->site_va, base_va, draft->semaphore_va };

	put(out, &head, sizeof(head));
	put(out, owner, sizeof(owner));
	put(out, addresses, sizeof(addresses));
	put(out, provider, sizeof(provider));
	put(out, draft->name, (size_t)draft->name_bytes);
	put(out, "\0", 2); /* the name's end, no arguments */
	put_padding(out, NOTE_ALIGN);
}

int notes_append(struct image *image, const struct note_draft *drafts, size_t n)
{
	const Elf64_Shdr *base = image_find_section(image, ".stapsdt.base");
	uint64_t base_va = base ? base->sh_addr : 0;
	const Elf64_Shdr *old = find_section(image);
	size_t index = old ? (size_t)(old - image->sections) : image->n_sections;
	size_t n_sections = image->n_sections + !old;
	Elf64_Shdr *names = &image->sections[image->header.e_shstrndx];
	struct output out = { NULL, image->n_bytes };
	Elf64_Shdr section = { .sh_type = SHT_NOTE, .sh_addralign = NOTE_ALIGN };
	Elf64_Shdr *sections;
	size_t room;

	if (n_sections > MAX_SECTIONS)
		return ctx_error(image->ctx, -EOPNOTSUPP, "has too many sections (%zu)",
				 image->n_sections);
	room = image->n_bytes + (old ? old->sh_size : 0) + names->sh_size + sizeof(section_name) +
	       n_sections * sizeof(section) + NOTE_ALIGN + TABLE_ALIGN;
	for (size_t i = 0; i < n; i++)
		room += sizeof(Elf64_Nhdr) + sizeof(owner) + descriptor_bytes(&drafts[i]) +
			NOTE_ALIGN;
	sections = reallocarray(image->sections, n_sections, sizeof(*sections));
	if (!sections)
		return ctx_no_memory(image->ctx);
	image->sections = sections;
	names = &sections[image->header.e_shstrndx];
	/* The drafts' names point into the old bytes, which therefore live on until the end. */
	out.bytes = malloc(room);
	if (!out.bytes)
		return ctx_no_memory(image->ctx);
	memcpy(out.bytes, image->bytes, image->n_bytes);

	if (old) {
		section = sections[index];
		section.sh_addralign = NOTE_ALIGN;
	}
	put_padding(&out, NOTE_ALIGN);
	section.sh_offset = out.n;
	if (old)
		put(&out, image->bytes + sections[index].sh_offset, sections[index].sh_size);
	for (size_t i = 0; i < n; i++)
		put_note(&out, &drafts[i], base_va);
	section.sh_size = out.n - section.sh_offset;
	if (!old) {
		size_t names_off = out.n;

		put(&out, image->bytes + names->sh_offset, names->sh_size);
		section.sh_name = (Elf64_Word)names->sh_size;
		put(&out, section_name, sizeof(section_name));
		names->sh_offset = names_off;
		names->sh_size = out.n - names_off;
	}
	sections[index] = section;

	put_padding(&out, TABLE_ALIGN);
	image->header.e_shoff = out.n;
	image->header.e_shnum = (Elf64_Half)n_sections;
	put(&out, sections, n_sections * sizeof(*sections));
	memcpy(out.bytes, &image->header, sizeof(image->header));
	free(image->bytes);
	image->bytes = out.bytes;
	image->n_bytes = out.n;
	image->n_sections = n_sections;
	return 0;
}
