// SPDX-License-Identifier: MIT
/*
 * Code and other bytes are read through two windows, since the decoder goes through the code of a
 * file from its beginning to its end, and through its jump tables alike.
 */
#include "code/code_file.h"

#include <stdlib.h>

#include "code/code_flow.h"

enum { WINDOW_BYTES = 256 * 1024 };

struct window {
	uint8_t *bytes;
	size_t room, n;
	uint64_t va;
};

struct code_file {
	const struct elf_file *elf; /* NULL: of memory */
	const struct code_bytes *parts;
	size_t n_parts;
	const uint64_t *entries;
	size_t n_entries;
	struct window windows[2]; /* other bytes, code */
	struct code_flow *flow;
};

static struct code_file *new_file(const uint64_t *entries, size_t n)
{
	struct code_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->entries = entries;
	file->n_entries = n;
	file->flow = code_flow_new();
	if (!file->flow) {
		free(file);
		return NULL;
	}
	return file;
}

int code_file_open(struct ocp_ctx *ctx, const struct elf_file *elf, const uint64_t *entries,
		   size_t n, struct code_file **out)
{
	*out = new_file(entries, n);
	if (!*out)
		return ctx_no_memory(ctx);
	(*out)->elf = elf;
	return 0;
}

int code_file_open_memory(struct ocp_ctx *ctx, const struct code_bytes *parts, size_t n_parts,
			  const uint64_t *entries, size_t n, struct code_file **out)
{
	*out = new_file(entries, n);
	if (!*out)
		return ctx_no_memory(ctx);
	(*out)->parts = parts;
	(*out)->n_parts = n_parts;
	return 0;
}

void code_file_close(struct code_file *file)
{
	if (!file)
		return;
	free(file->windows[0].bytes);
	free(file->windows[1].bytes);
	code_flow_free(file->flow);
	free(file);
}

struct code_flow *code_file_flow(const struct code_file *file)
{
	return file->flow;
}

bool code_file_is_entry(const struct code_file *file, uint64_t va)
{
	size_t low = 0, high = file->n_entries;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (file->entries[middle] == va)
			return true;
		if (file->entries[middle] < va)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static bool holds(uint64_t part_va, uint64_t part_bytes, uint64_t va, size_t n)
{
	return va >= part_va && va - part_va <= part_bytes && n <= part_bytes - (va - part_va);
}

static int memory_bytes(const struct code_file *file, uint64_t va, size_t n, struct code_bytes *out)
{
	for (size_t i = 0; i < file->n_parts; i++) {
		const struct code_bytes *part = &file->parts[i];

		if (holds(part->va, part->n, va, n)) {
			*out = (struct code_bytes){ part->bytes + (va - part->va), n, va };
			return 0;
		}
	}
	return -ENODATA;
}

/* The segment whose bytes in the file hold N bytes at VA. */
static const struct elf_segment *find_segment(const struct elf_file *elf, bool is_code, uint64_t va,
					      size_t n)
{
	size_t n_segments;
	const struct elf_segment *segments = elf_file_segments(elf, &n_segments);

	for (size_t i = 0; i < n_segments; i++) {
		if (segments[i].readable && (!is_code || segments[i].executable) &&
		    holds(segments[i].va, segments[i].file_bytes, va, n))
			return &segments[i];
	}
	return NULL;
}

/* Let the window begin at VA and hold N bytes or more, of SEGMENT, which holds those. */
static int move_window(const struct elf_file *elf, struct window *window,
		       const struct elf_segment *segment, uint64_t va, size_t n)
{
	uint64_t rest = segment->file_bytes - (va - segment->va);
	size_t bytes = n > WINDOW_BYTES ? n : WINDOW_BYTES;
	uint8_t *room;
	int err;

	if (bytes > rest)
		bytes = (size_t)rest;
	window->n = 0;
	if (bytes > window->room) {
		room = realloc(window->bytes, bytes);
		if (!room)
			return -ENOMEM;
		window->bytes = room;
		window->room = bytes;
	}
	err = elf_file_read(elf, segment->off + (va - segment->va), window->bytes, bytes);
	if (err && bytes > n) {
		bytes = n; /* a file that ends before its segment */
		err = elf_file_read(elf, segment->off + (va - segment->va), window->bytes, bytes);
	}
	if (err)
		return -ENODATA;
	window->va = va;
	window->n = bytes;
	return 0;
}

int code_file_bytes(struct code_file *file, bool is_code, uint64_t va, size_t n,
		    struct code_bytes *out)
{
	struct window *window = &file->windows[is_code];
	const struct elf_segment *segment;
	int err;

	if (!file->elf)
		return memory_bytes(file, va, n, out);
	if (!holds(window->va, window->n, va, n)) {
		segment = find_segment(file->elf, is_code, va, n);
		if (!segment)
			return -ENODATA;
		err = move_window(file->elf, window, segment, va, n);
		if (err)
			return err;
	}
	*out = (struct code_bytes){ window->bytes + (va - window->va), n, va };
	return 0;
}
