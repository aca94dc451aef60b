// SPDX-License-Identifier: MIT
/*
 * Find the list of frame tables (caml_frametable): a sequence of addresses in the data that ends
 * with 0. Each address must lead to something that looks like a table: a number of descriptors that
 * is not too large for the data, followed by an address in the code, unless the number is 0. Few
 * sequences pass this test. If one does, each of its tables is read completely, to be sure.
 */
#include "code/frametable_scan.h"

#include <stdlib.h>
#include <string.h>

#include "code/frame_descr.h"

enum { MAX_CODE_BYTES = 1 << 28, MIN_TABLES = 2 };

struct table_scan {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	const struct data_image *image;
	struct data_part code; /* the segment of the last return address */
	uint64_t left; /* how many tables and descriptors may still be read: limits the work */
};

static bool load_code(struct table_scan *scan, uint64_t va)
{
	const struct elf_segment *segment = elf_file_segment_of(scan->elf, va, 1);
	struct data_part code;

	if (scan->code.bytes && va >= scan->code.va && va - scan->code.va < scan->code.n)
		return true;
	if (!segment || !segment->executable || va - segment->va >= segment->file_bytes ||
	    segment->file_bytes > MAX_CODE_BYTES)
		return false;
	code = (struct data_part){ .va = segment->va,
				   .n = segment->file_bytes,
				   .bytes = malloc(segment->file_bytes) };
	if (!code.bytes || elf_file_read(scan->elf, segment->off, code.bytes, code.n)) {
		free(code.bytes);
		return false;
	}
	free(scan->code.bytes);
	scan->code = code;
	return true;
}

/*
 * Return true if the instruction before VA is a call: e8 with a distance, or ff /2 with an operand
 * of any length.
 */
static bool is_behind_call(struct table_scan *scan, uint64_t va)
{
	static const uint8_t call_bytes[] = { 2, 3, 4, 6, 7 };
	const uint8_t *end;
	uint64_t before;

	if (!load_code(scan, va))
		return false;
	before = va - scan->code.va;
	end = scan->code.bytes + before;
	if (before >= 5 && end[-5] == 0xe8)
		return true;
	for (size_t i = 0; i < sizeof(call_bytes); i++)
		if (before >= call_bytes[i] && end[-call_bytes[i]] == 0xff &&
		    (end[1 - call_bytes[i]] & 0x38) == 0x10)
			return true;
	return false;
}

static bool is_in_code(const struct table_scan *scan, uint64_t va)
{
	const struct elf_segment *segment = elf_file_segment_of(scan->elf, va, 1);

	return segment && segment->executable;
}

/* Return true if VA looks like the address of a table. */
static bool may_be_table(const struct table_scan *scan, uint64_t va)
{
	struct frame_cursor c = frame_cursor_at(scan->image, va);
	uint64_t n, first;

	if (!c.part || va % 8)
		return false;
	n = frame_get(&c, 8);
	if (c.is_damaged || n > (c.part->n - c.at) / MIN_DESCRIPTOR_BYTES)
		return false;
	if (n == 0)
		return true;
	first = frame_get(&c, 8);
	return !c.is_damaged && is_in_code(scan, first);
}

static bool spend(struct table_scan *scan)
{
	scan->left -= scan->left > 0;
	return scan->left > 0;
}

/*
 * Return true if VA is the address of a table all of whose descriptors are valid. Sets *HAS_END if
 * one of them is a chunk end.
 */
static bool is_table(struct table_scan *scan, uint64_t va, bool *has_end)
{
	struct frame_cursor c = frame_cursor_at(scan->image, va);

	if (!spend(scan))
		return false;
	for (uint64_t n = frame_get(&c, 8); n; n--) {
		const struct frame_descr descr = frame_get_descr(&c);

		if (c.is_damaged || !spend(scan) || !is_behind_call(scan, descr.va))
			return false;
		*has_end |= descr.is_chunk_end;
	}
	return true;
}

static uint64_t word_at(const struct data_part *part, uint64_t at)
{
	uint64_t word;

	memcpy(&word, part->bytes + at, sizeof(word));
	return word;
}

/* Return true if the words from AT to END are the list. The word at END is 0. */
static bool is_list(struct table_scan *scan, const struct data_part *part, uint64_t at,
		    uint64_t end)
{
	bool has_end = false;

	if (end - at < MIN_TABLES * sizeof(uint64_t))
		return false;
	for (; at < end; at += sizeof(uint64_t))
		if (!is_table(scan, word_at(part, at), &has_end))
			return false;
	return has_end;
}

static bool scan_part(struct table_scan *scan, const struct data_part *part, uint64_t *va)
{
	uint64_t start = -part->va & 7;

	for (uint64_t at = start; at + 8 <= part->n; at += 8) {
		const uint64_t word = word_at(part, at);

		if (word && may_be_table(scan, word))
			continue;
		/* Words before the list may look like addresses of tables, too. */
		for (; !word && start < at; start += 8)
			if (is_list(scan, part, start, at)) {
				*va = part->va + start;
				return true;
			}
		start = at + 8;
	}
	return false;
}

int frametable_scan(struct ocp_ctx *ctx, struct elf_file *elf, const struct data_image *image,
		    uint64_t *va)
{
	struct table_scan scan = { .ctx = ctx, .elf = elf, .image = image };
	bool is_found = false;

	for (size_t i = 0; i < image->n_parts; i++)
		scan.left += image->parts[i].n / MIN_DESCRIPTOR_BYTES;
	scan.left *= 2;
	for (size_t i = 0; i < image->n_parts && !is_found; i++)
		is_found = scan_part(&scan, &image->parts[i], va);
	free(scan.code.bytes);
	return is_found;
}
