// SPDX-License-Identifier: MIT
/*
 * One note per site, in the format that src/program/note.c reads. Other notes of the program (of
 * libc, C++ or Python runtimes, C stubs) keep their order and come first. The new notes follow,
 * sorted by address as a linker would collect them.
 */
#include "link/notes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "program/note.h"

static const char section_name[] = ".note.stapsdt";
static const char owner[] = "stapsdt";
static const char provider[] = "ocaml_1";

enum {
	NOTE_TYPE = 3,
	NOTE_ALIGN = 4,
};

static const Elf64_Shdr *find_section(const struct linked_file *image)
{
	const Elf64_Shdr *section = image_find_section(image, section_name);

	return section && section->sh_type == SHT_NOTE ? section : NULL;
}

int notes_find_ocaml(const struct linked_file *image, bool *found)
{
	const Elf64_Shdr *section = find_section(image);
	struct note_reader reader;
	struct note note;
	int more;

	*found = false;
	if (!section && image_find_section(image, section_name))
		return ctx_error(image->ctx, -EBADMSG, "damaged: section %s is not a note section",
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

/* An output buffer, which is large enough: its size was computed before. */
struct output {
	uint8_t *bytes;
	size_t n;
};

static void put_note_bytes(struct output *out, const void *bytes, size_t n)
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
	return 3 * sizeof(uint64_t) + sizeof(provider) + (size_t)draft->marker->name_bytes + 1 +
	       strlen(draft->args) + 1;
}

static void put_note(struct output *out, const struct note_draft *draft, uint64_t base_va)
{
	const Elf64_Nhdr head = { sizeof(owner), (Elf64_Word)descriptor_bytes(draft), NOTE_TYPE };
	const uint64_t addresses[] = { draft->site_va, base_va, draft->semaphore_va };

	put_note_bytes(out, &head, sizeof(head));
	put_note_bytes(out, owner, sizeof(owner));
	put_note_bytes(out, addresses, sizeof(addresses));
	put_note_bytes(out, provider, sizeof(provider));
	put_note_bytes(out, draft->marker->name, (size_t)draft->marker->name_bytes);
	put_note_bytes(out, "", 1);
	put_note_bytes(out, draft->args, strlen(draft->args) + 1);
	put_padding(out, NOTE_ALIGN);
}

int notes_build(const struct linked_file *image, const struct note_draft *drafts, size_t n,
		uint64_t base_va, struct layout_section *section, uint8_t **bytes)
{
	const Elf64_Shdr *old = find_section(image);
	struct output out = { NULL, 0 };
	size_t room = (old ? old->sh_size : 0) + NOTE_ALIGN;

	for (size_t i = 0; i < n; i++)
		room += sizeof(Elf64_Nhdr) + sizeof(owner) + descriptor_bytes(&drafts[i]) +
			NOTE_ALIGN;
	out.bytes = malloc(room);
	if (!out.bytes)
		return ctx_no_memory(image->ctx);
	if (old)
		put_note_bytes(&out, image->bytes + old->sh_offset, old->sh_size);
	put_padding(&out, NOTE_ALIGN);
	for (size_t i = 0; i < n; i++)
		put_note(&out, &drafts[i], base_va);
	*bytes = out.bytes;
	*section = (struct layout_section){
		.name = section_name,
		.header = { .sh_type = SHT_NOTE, .sh_addralign = NOTE_ALIGN, .sh_size = out.n },
		.bytes = out.bytes,
		.replaces = old ? (size_t)(old - image->sections) : 0,
	};
	return 0;
}
