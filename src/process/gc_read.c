// SPDX-License-Identifier: MIT
#include "process/gc_read.h"

#include <errno.h>
#include <string.h>

void gc_pieces_empty(struct gc_pieces *pieces)
{
	pieces->n = pieces->bytes = 0;
}

void gc_pieces_add(struct gc_pieces *pieces, uint64_t addr, size_t bytes)
{
	pieces->remote[pieces->n++] = (struct iovec){ (void *)(uintptr_t)addr, bytes };
	pieces->bytes += bytes;
}

int gc_pieces_read(const struct gc_reader *r, const struct gc_pieces *pieces, void *to)
{
	return memory_read_in_order(r->memory, pieces->remote, pieces->n, to, pieces->bytes);
}

int gc_read_one(const struct gc_reader *r, uint64_t addr, void *to, size_t bytes)
{
	const struct iovec remote = { (void *)(uintptr_t)addr, bytes };

	return memory_read_in_order(r->memory, &remote, 1, to, bytes);
}

uint64_t gc_word_at(const uint8_t *copy, uint16_t offset)
{
	uint64_t word;

	memcpy(&word, copy + offset, sizeof(word));
	return word;
}

double gc_double_at(const uint8_t *copy, uint16_t offset)
{
	double value;

	memcpy(&value, copy + offset, sizeof(value));
	return value;
}

int gc_not_started(const struct gc_reader *r)
{
	const int err = memory_check_alive(r->memory);

	if (err)
		return err;
	return ctx_error(r->ctx, -EAGAIN, "pid %d (%s): its OCaml runtime has not started yet",
			 (int)r->pid, r->exe);
}

int gc_not_plausible(const struct gc_reader *r, const char *what)
{
	const int err = memory_check_alive(r->memory);

	if (err)
		return err;
	return ctx_error(r->ctx, -EBADMSG,
			 "pid %d (%s): %s, so its memory is not laid out as in OCaml %s",
			 (int)r->pid, r->exe, what, r->runtime.version);
}

bool gc_young_words(const struct gc_reader *r, const uint8_t *copy, uint64_t *words)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	const uint64_t start = gc_word_at(copy, layout->young_start);
	const uint64_t end = gc_word_at(copy, layout->young_end);
	const uint64_t at = gc_word_at(copy, layout->young_ptr);

	*words = (end - at) / 8;
	return start <= at && at <= end && (end - at) % 8 == 0;
}
