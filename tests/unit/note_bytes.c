// SPDX-License-Identifier: MIT
#include "note_bytes.h"

#include <stdlib.h>
#include <string.h>

static void put(struct note_bytes *out, const void *bytes, size_t n)
{
	size_t padding = -n % 4;

	if (out->n + n + padding > out->room) {
		out->room = 2 * (out->n + n + padding);
		out->bytes = realloc(out->bytes, out->room);
	}
	if (!out->bytes)
		abort();
	if (n)
		memcpy(out->bytes + out->n, bytes, n);
	memset(out->bytes + out->n + n, 0, padding);
	out->n += n + padding;
}

size_t put_note(struct note_bytes *out, const char *owner, uint32_t type, const void *desc,
		size_t desc_bytes)
{
	uint32_t head[3] = { (uint32_t)strlen(owner) + 1, (uint32_t)desc_bytes, type };
	size_t off = out->n;

	put(out, head, sizeof(head));
	put(out, owner, head[0]);
	put(out, desc, desc_bytes);
	return off;
}

size_t put_stapsdt(struct note_bytes *out, const struct note_spec *spec)
{
	const char *strings[3] = { spec->provider, spec->name, spec->args };
	uint64_t addresses[3] = { spec->site, spec->base, spec->semaphore };
	size_t n = sizeof(addresses);
	uint8_t desc[4096];

	memcpy(desc, addresses, sizeof(addresses));
	for (int i = 0; i < 3; i++) {
		const char *text = strings[i] ? strings[i] : "";
		size_t bytes = strlen(text) + 1;

		if (bytes > sizeof(desc) - n)
			abort();
		memcpy(desc + n, text, bytes);
		n += bytes;
	}
	return put_note(out, "stapsdt", 3, desc, n);
}

void set_note_word(struct note_bytes *notes, size_t off, enum note_word word, uint32_t value)
{
	memcpy(notes->bytes + off + word, &value, sizeof(value));
}

void note_bytes_free(struct note_bytes *notes)
{
	free(notes->bytes);
	*notes = (struct note_bytes){ 0 };
}
