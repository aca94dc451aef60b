// SPDX-License-Identifier: MIT
/*
 * Reads stapsdt notes, as <sys/sdt.h> and the OCaml compilers write them.
 *
 * An ELF note is a header of three 32-bit words (size of the owner's name, size of the descriptor,
 * type), then the owner's name and the descriptor, each padded to a multiple of 4 bytes. For owner
 * "stapsdt", type 3, the descriptor holds
 *
 *	u64 site	link-time address of the probe's nop; 0 if ocaml_2 left the site out
 *	u64 base	address of section .stapsdt.base when the note was written; if a prelinker
 *			has moved the section since, all addresses moved by the same amount
 *	u64 semaphore	link-time address of the probe's semaphore, 0 if it has none
 *	"provider\0" "name\0" "args\0"
 *
 * Source: SystemTap's UserSpaceProbeImplementation page and <sys/sdt.h>.
 */
#include "program/note.h"

#include <elf.h>
#include <string.h>

static const char STAPSDT_OWNER[] = "stapsdt";
enum { STAPSDT_TYPE = 3, NOTE_ALIGN = 4, ADDRESSES_BYTES = 3 * sizeof(uint64_t) };

void note_reader_init(struct note_reader *reader, const uint8_t *bytes, size_t n_bytes)
{
	*reader = (struct note_reader){ .bytes = bytes, .n_bytes = n_bytes };
}

static uint64_t padded(uint64_t bytes)
{
	return (bytes + NOTE_ALIGN - 1) & ~(uint64_t)(NOTE_ALIGN - 1);
}

static int reject_note(struct note_reader *reader, const char *why)
{
	reader->why = why;
	return -1;
}

/*
 * Return the string at *POS, and move *POS past it. Return NULL if the string has no NUL before
 * END.
 */
static const char *take_note_string(const char **pos, const char *end)
{
	const char *text = *pos;
	const char *nul = memchr(text, '\0', (size_t)(end - text));

	if (!nul)
		return NULL;
	*pos = nul + 1;
	return text;
}

static int parse_descriptor(struct note_reader *reader, const uint8_t *desc, size_t desc_bytes,
			    struct note *note)
{
	const char *pos = (const char *)desc + ADDRESSES_BYTES;
	const char *end = (const char *)desc + desc_bytes;
	uint64_t addresses[3];

	if (desc_bytes < ADDRESSES_BYTES)
		return reject_note(reader, "descriptor too short for three addresses");
	memcpy(addresses, desc, sizeof(addresses));
	note->site_va = addresses[0];
	note->base_va = addresses[1];
	note->semaphore_va = addresses[2];
	note->provider = take_note_string(&pos, end);
	note->name = note->provider ? take_note_string(&pos, end) : NULL;
	note->args = note->name ? take_note_string(&pos, end) : NULL;
	if (!note->args)
		return reject_note(reader, "descriptor ends within its strings");
	return 1;
}

/* Like note_next(), but for notes of any owner. */
static int note_next_raw(struct note_reader *reader, struct raw_note *raw)
{
	const uint8_t *at = reader->bytes + reader->pos;
	uint64_t left = reader->n_bytes - reader->pos, desc_off;
	Elf64_Nhdr head;

	if (reader->pos >= reader->n_bytes)
		return 0;
	if (left < sizeof(head))
		return reject_note(reader, "section ends within a note's header");
	memcpy(&head, at, sizeof(head));
	desc_off = sizeof(head) + padded(head.n_namesz);
	if (desc_off + head.n_descsz > left)
		return reject_note(reader, "note reaches past the end of its section");
	*raw = (struct raw_note){ .owner = at + sizeof(head),
				  .owner_bytes = head.n_namesz,
				  .desc = at + desc_off,
				  .desc_bytes = head.n_descsz,
				  .type = head.n_type,
				  .off = reader->pos };
	reader->pos += desc_off + padded(head.n_descsz);
	return 1;
}

/* Return true if RAW has the owner OWNER and the type TYPE. */
static bool note_is_of(const struct raw_note *raw, const char *owner, uint32_t type)
{
	return raw->type == type && raw->owner_bytes == strlen(owner) + 1 &&
	       memcmp(raw->owner, owner, raw->owner_bytes) == 0;
}

int note_next(struct note_reader *reader, struct note *note)
{
	struct raw_note raw;
	int more;

	while ((more = note_next_raw(reader, &raw)) > 0) {
		if (!note_is_of(&raw, STAPSDT_OWNER, STAPSDT_TYPE))
			continue;
		note->off = raw.off;
		more = parse_descriptor(reader, raw.desc, raw.desc_bytes, note);
		if (more < 0)
			reader->pos = raw.off;
		return more;
	}
	return more;
}

int note_find(const uint8_t *bytes, size_t n_bytes, const char *owner, uint32_t type,
	      struct raw_note *raw, const char **why)
{
	struct note_reader reader;
	int more;

	note_reader_init(&reader, bytes, n_bytes);
	while ((more = note_next_raw(&reader, raw)) > 0)
		if (note_is_of(raw, owner, type))
			return 1;
	*why = reader.why;
	return more;
}
