// SPDX-License-Identifier: MIT
/*
 * Read the bytes of a file through two windows, one for code and one for other bytes. The size of a
 * window doubles each time it moves. So if the caller needs only one function, little is read. If
 * the caller reads many functions, in any order, the window soon contains all of them.
 */
#include "code/code_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "code/code_flow.h"

enum { FIRST_WINDOW_BYTES = 64 * 1024, LARGEST_WINDOW_BYTES = 32 * 1024 * 1024 };

struct byte_window {
	uint8_t *bytes;
	size_t room, n;
	size_t wanted; /* the size of the window after its next move, in bytes */
	uint64_t va;
};

struct code_file {
	const struct elf_file *elf; /* NULL if the bytes are in `parts` */
	const struct code_bytes *parts;
	size_t n_parts;
	const uint64_t *entries;
	size_t n_entries;
	struct byte_window windows[2]; /* [0]: for bytes that need not be code, [1]: for code */
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

int code_file_function(struct code_file *file, uint64_t va, size_t n, struct code_bytes *out)
{
	const size_t next = SEARCH(i, file->n_entries, file->entries[i] <= va);
	const uint64_t end = va + n;
	uint64_t gap = 0;
	int err;

	if (next < file->n_entries && file->entries[next] > end)
		gap = file->entries[next] - end;
	if (gap > CODE_GAP_BYTES)
		gap = CODE_GAP_BYTES;
	err = gap ? code_file_bytes(file, true, va, n + gap, out) : -ENODATA;
	if (err == -ENODATA)
		return code_file_bytes(file, true, va, n, out);
	out->n = n;
	out->n_gap = gap;
	return err;
}

bool code_file_is_entry(const struct code_file *file, uint64_t va)
{
	const size_t at = SEARCH(i, file->n_entries, file->entries[i] < va);

	return at < file->n_entries && file->entries[at] == va;
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
			*out = (struct code_bytes){ .bytes = part->bytes + (va - part->va),
						    .n = n,
						    .va = va };
			return 0;
		}
	}
	return -ENODATA;
}

/*
 * Return the segment that contains the N bytes at VA. If IS_CODE, the segment must be executable.
 * Return NULL if there is no such segment, or if the file does not store all of the bytes.
 */
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

/* Make room for BYTES in WINDOW, and read them from file offset OFF. */
static int read_window(const struct elf_file *elf, struct byte_window *window, uint64_t off,
		       size_t bytes)
{
	window->n = 0;
	if (bytes > window->room) {
		/* The old bytes of the window are not needed any more. */
		free(window->bytes);
		window->bytes = malloc(bytes);
		window->room = window->bytes ? bytes : 0;
		if (!window->bytes)
			return -ENOMEM;
	}
	if (elf_file_read(elf, off, window->bytes, bytes))
		return -ENODATA;
	window->n = bytes;
	return 0;
}

/* Fill WINDOW with the N bytes at VA, which are in SEGMENT, and with more bytes around them. */
static int move_window(const struct elf_file *elf, struct byte_window *window,
		       const struct elf_segment *segment, uint64_t va, size_t n)
{
	const size_t wanted = window->wanted ? window->wanted : FIRST_WINDOW_BYTES;
	const uint64_t distance = va - segment->va;
	const uint64_t before = distance % wanted, rest = segment->file_bytes - (distance - before);
	size_t bytes = before + n > wanted ? (size_t)before + n : wanted;
	int err;

	if (bytes > rest)
		bytes = (size_t)rest;
	if (wanted < LARGEST_WINDOW_BYTES)
		window->wanted = 2 * wanted;
	window->va = va - before;
	err = read_window(elf, window, segment->off + (distance - before), bytes);
	if (err == -ENODATA) {
		/* The file ends before the end of the segment: read only the N bytes at VA. */
		window->va = va;
		err = read_window(elf, window, segment->off + distance, n);
	}
	return err;
}

int code_file_bytes(struct code_file *file, bool is_code, uint64_t va, size_t n,
		    struct code_bytes *out)
{
	struct byte_window *window = &file->windows[is_code];
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
	*out = (struct code_bytes){ .bytes = window->bytes + (va - window->va), .n = n, .va = va };
	return 0;
}

/* ---- jumps from other functions ------------------------------------------------------------- */

enum { SEARCHED_BYTES = 1 << 20, OPCODE_BYTES = 2 };

/*
 * Return true if the bytes before AT can be those of a jump, a call or a lea that end with a
 * distance at AT.
 */
static bool may_have_distance(const uint8_t *at)
{
	enum { CALL = 0xe8, JMP = 0xe9, TWO_BYTES = 0x0f, JCC = 0x80, LEA = 0x8d, RIP = 0x05 };

	return at[-1] == CALL || at[-1] == JMP || (at[-2] == TWO_BYTES && (at[-1] & 0xf0) == JCC) ||
	       (at[-2] == LEA && (at[-1] & 0xc7) == RIP);
}

/* Arguments: see code_file_find_jump(). */
static bool has_jump(const struct code_bytes *code, uint64_t va, size_t n, uint64_t start,
		     uint64_t end)
{
	int32_t distance;

	for (size_t i = OPCODE_BYTES; i + sizeof(distance) <= code->n; i++) {
		const uint64_t next = code->va + i + sizeof(distance);

		memcpy(&distance, code->bytes + i, sizeof(distance));
		if (next + (uint64_t)(int64_t)distance - start < end - start &&
		    next - va - 1 >= n && may_have_distance(code->bytes + i))
			return true;
	}
	return false;
}

int code_file_find_jump(struct code_file *file, uint64_t va, size_t n, uint64_t start, uint64_t end,
			bool *is)
{
	size_t n_segments;
	const struct elf_segment *segments = elf_file_segments(file->elf, &n_segments);
	int err = 0;

	*is = false;
	for (size_t i = 0; !err && i < n_segments; i++) {
		const struct elf_segment *segment = &segments[i];
		uint64_t off = 0, bytes;
		struct code_bytes code;

		/* The pieces overlap: each jump is in one of them as a whole. */
		for (; segment->executable && off < segment->file_bytes; off += SEARCHED_BYTES) {
			bytes = segment->file_bytes - off;
			if (bytes > SEARCHED_BYTES + OPCODE_BYTES + sizeof(int32_t))
				bytes = SEARCHED_BYTES + OPCODE_BYTES + sizeof(int32_t);
			err = code_file_bytes(file, true, segment->va + off, bytes, &code);
			if (err)
				break;
			if (has_jump(&code, va, n, start, end)) {
				*is = true;
				return 0;
			}
		}
	}
	/* Code that cannot be read may jump anywhere. */
	*is = err == -ENODATA;
	return err == -ENODATA ? 0 : err;
}
