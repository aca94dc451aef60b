// SPDX-License-Identifier: MIT
/*
 * Read the frame tables. A table is an i64, the number of descriptors, followed by the descriptors.
 * There are three formats of descriptors.
 *
 * FRAMES_ABSOLUTE: OCaml 4.12 to 5.5 (runtime/caml/stack.h or frame_descriptors.h, and
 * asmcomp/emitaux.ml). Each descriptor is aligned to 8.
 *
 *	u64 return address
 *	u16 size of the frame; bit 0: has debug information, bit 1: has lengths of allocations
 *	u16 n, u16 live[n]
 *	u8 m, u8 lengths[m]		only if bit 1 is set
 *	u32 debug information		only if bit 0 is set, m times if bit 1 is set; aligned to 4
 *
 * A descriptor of size 0xffff marks the end of OCaml's part of the stack; its n is 0, and nothing
 * follows. In OxCaml, the size 0x7fff marks a large frame: 2 bytes without meaning follow, and then
 * the size, n and each live value, as u32.
 *
 * FRAMES_RELATIVE: OxCaml (runtime/caml/frame_descriptors.h, backend/emitaux.ml). An i32 takes the
 * place of the return address: the distance from the i32 to the return address. So a table needs
 * no relocations, and lies in a part of the file that is not writable.
 *
 * FRAMES_COMPACT: OxCaml since August 2026. Nothing is aligned, and the return addresses ascend. A
 * descriptor begins with 0 and a descriptor as in FRAMES_RELATIVE, or it is a short one:
 *
 *	uleb128 distance from the return address of the descriptor before
 *	u8 size of the frame in units of 16 bytes, times 4; bits 0 and 1 as above
 *	u8 live registers		only if bit 1 is set
 *	u8 m, u8 lengths[(m + 1) / 2]	only if bit 1 is set
 *	u8 live[]			a bit for each word of the frame
 *	i32 debug information		only if bit 0 is set, m times if bit 1 is set
 *
 * The u32 of the debug information is an offset from the address of the u32; 0: none. It leads to a
 * list of entries: the last entry is for the function itself, the entries before it are for
 * functions inlined into it:
 *
 *	u32 low, u32 high		bit 0 of low: another entry follows; bit 1: the call raises
 *
 * Bits 2 to 25 of low are the offset, from the entry, of a name. The other bits of the number high
 * << 32 | low are a place, written in one of two forms:
 *
 *	to 5.1	63-44 line, 43-36 first column, 35-26 last column, counted from the first line's
 *		start
 *	5.2 on	62-51 line, 50-48 lines after it, 47-42 first column, 41-35 last column, 34-26
 *		distance from the start of the first to that of the last line; if bit 63 is set:
 *		62-44 line, 43-26 lines after it
 *
 * A name begins with an i32: the offset of the file's name from this i32. If bit 63 is set, the
 * columns of the place come next: u16 first, u16 last, i32 last from the first line's start. The
 * text follows. The debug information beside FRAMES_COMPACT has other forms, which are not read.
 *
 * The tables of an executable are listed in caml_frametable, which ends with 0: first the table of
 * the code that ocamlopt makes when it links, then the tables of the units, then the table of the
 * runtime's assembler code. A plugin exports the table of each of its units for the runtime. In an
 * executable without symbols the list is recognised by its contents (frametable_scan()), if the
 * descriptors are FRAMES_ABSOLUTE.
 */
#include "code/frametable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "code/ocaml_name.h"
#include "elf/data_image.h"
#include "elf/symbols.h"

/* ---- frame descriptors ----------------------------------------------------------------------- */

enum frame_format { FRAMES_ABSOLUTE, FRAMES_RELATIVE, FRAMES_COMPACT, FRAME_FORMATS };

/* The size of the smallest descriptor of each format. */
static const uint64_t min_descriptor_bytes[FRAME_FORMATS] = { 16, 8, 3 };

/* A position in a part of the data. */
struct frame_cursor {
	const struct data_part *part;
	uint64_t at;
	enum frame_format format;
	uint64_t va; /* the return address of the descriptor that was read last */
	bool is_damaged;
};

enum {
	CHUNK_END = 0xffff,
	LARGE_FRAME = 0x7fff,
	HAS_DEBUG = 1,
	HAS_LENGTHS = 2,
	FLAGS = HAS_DEBUG | HAS_LENGTHS,
	SHORT_UNIT_BYTES = 16,
	MAX_FRAME_BYTES = (1 << 30) - 1,
};

/* Return a cursor at VA. The part of the cursor is NULL if IMAGE does not contain VA. */
static struct frame_cursor frame_cursor_at(const struct data_image *image, uint64_t va)
{
	struct frame_cursor c = { .part = data_image_part(image, va) };

	if (c.part)
		c.at = va - c.part->va;
	return c;
}

/*
 * Read BYTES bytes, at most 8, as a number. If they are past the end of the data, set is_damaged
 * and return 0.
 */
static uint64_t frame_get(struct frame_cursor *c, size_t bytes)
{
	uint64_t value = 0;

	if (c->at > c->part->n || bytes > c->part->n - c->at) {
		c->is_damaged = true;
		return 0;
	}
	memcpy(&value, c->part->bytes + c->at, bytes);
	c->at += bytes;
	return value;
}

static void align(struct frame_cursor *c, uint64_t to)
{
	if (c->format != FRAMES_COMPACT)
		c->at += -(c->part->va + c->at) & (to - 1);
}

/* Read an i32, the distance from its own address to the return address. */
static uint64_t get_relative(struct frame_cursor *c)
{
	const uint64_t va = c->part->va + c->at;

	return va + (uint64_t)(int64_t)(int32_t)frame_get(c, 4);
}

/*
 * Read N offsets of debug information. Return the address to which the first offset other than 0
 * leads: Printexc shows the debug information at this address. Return 0 if all offsets are 0, or if
 * the debug information has a form that is not read.
 */
static uint64_t get_debuginfo(struct frame_cursor *c, uint64_t n)
{
	uint64_t found = 0;

	if (c->format == FRAMES_COMPACT) {
		c->at += 4 * n;
		return 0;
	}
	align(c, 4);
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t at = c->at, offset = frame_get(c, 4);

		if (found || !offset)
			continue;
		if (offset >= c->part->n - at)
			c->is_damaged = true;
		found = c->part->va + at + offset;
	}
	return found;
}

static void get_short_descr(struct frame_cursor *c, struct frame_descr *descr)
{
	uint64_t distance = 0, byte = 0x80, size, n_places = 1;

	for (int shift = 0; byte & 0x80 && shift < 64 && !c->is_damaged; shift += 7) {
		byte = frame_get(c, 1);
		distance |= (byte & 0x7f) << shift;
	}
	descr->va = c->va + distance;
	size = frame_get(c, 1);
	descr->frame_bytes = (uint32_t)(size / (FLAGS + 1) * SHORT_UNIT_BYTES);
	c->is_damaged |= byte & 0x80 || !distance || !descr->frame_bytes;
	descr->collects = size & HAS_LENGTHS;
	if (descr->collects) {
		c->at++;
		n_places = frame_get(c, 1);
		c->at += (n_places + 1) / 2;
	}
	c->at += (descr->frame_bytes / 8 + 7) / 8;
	if (size & HAS_DEBUG)
		descr->debuginfo_va = get_debuginfo(c, n_places);
}

static void get_full_descr(struct frame_cursor *c, struct frame_descr *descr)
{
	uint64_t size, n_live, n_places = 1, bytes = 2;

	descr->va = c->format == FRAMES_ABSOLUTE ? frame_get(c, 8) : get_relative(c);
	size = frame_get(c, 2);
	if (size == CHUNK_END) {
		descr->is_chunk_end = true;
		c->is_damaged |= frame_get(c, 2) != 0;
		return;
	}
	if (size == LARGE_FRAME) {
		bytes = 4;
		c->at += 2;
		size = frame_get(c, 4);
		c->is_damaged |= size > MAX_FRAME_BYTES;
	}
	n_live = frame_get(c, bytes);
	descr->frame_bytes = size & MAX_FRAME_BYTES & ~FLAGS;
	c->is_damaged |= c->format != FRAMES_ABSOLUTE && !descr->frame_bytes;
	descr->collects = size & HAS_LENGTHS;
	c->at += bytes * n_live;
	if (descr->collects) {
		n_places = frame_get(c, 1);
		c->at += n_places;
	}
	if (size & HAS_DEBUG)
		descr->debuginfo_va = get_debuginfo(c, n_places);
}

/*
 * Read the next descriptor. Set is_damaged if the descriptor reaches past the data or is
 * impossible.
 */
static struct frame_descr frame_get_descr(struct frame_cursor *c)
{
	struct frame_descr descr = { 0 };

	if (c->format == FRAMES_COMPACT && c->at < c->part->n && c->part->bytes[c->at]) {
		get_short_descr(c, &descr);
	} else {
		c->at += c->format == FRAMES_COMPACT;
		get_full_descr(c, &descr);
	}
	align(c, 8);
	c->is_damaged |= c->at > c->part->n;
	c->va = descr.va;
	return descr;
}

/* ---- tables without symbols ------------------------------------------------------------------ */

/*
 * Find the list of frame tables (caml_frametable): a sequence of addresses in the data that ends
 * with 0. Each address must lead to something that looks like a table: a number of descriptors that
 * is not too large for the data, followed by an address in the code, unless the number is 0. Few
 * sequences pass this test. To be sure, each table of a sequence that passes is then read
 * completely.
 */

enum { MAX_CODE_BYTES = 1 << 28, MIN_TABLES = 2 };

struct table_scan {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	const struct data_image *image;
	/* the code of the segment that contained the most recent return address */
	struct data_part code;
	uint64_t left; /* how many tables and descriptors may still be read */
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

enum { CALL_ROOM = 7 };

/*
 * Return true if the last of the N bytes before END may be a call: e8 with a distance, or ff /2
 * with an operand of any length.
 */
static bool ends_with_call(const uint8_t *end, uint64_t n)
{
	static const uint8_t call_bytes[] = { 2, 3, 4, 6, CALL_ROOM };

	if (n >= 5 && end[-5] == 0xe8)
		return true;
	for (size_t i = 0; i < sizeof(call_bytes); i++)
		if (n >= call_bytes[i] && end[-call_bytes[i]] == 0xff &&
		    (end[1 - call_bytes[i]] & 0x38) == 0x10)
			return true;
	return false;
}

static bool is_behind_call(struct table_scan *scan, uint64_t va)
{
	return load_code(scan, va) &&
	       ends_with_call(scan->code.bytes + (va - scan->code.va), va - scan->code.va);
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
	if (c.is_damaged || n > (c.part->n - c.at) / min_descriptor_bytes[FRAMES_ABSOLUTE])
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
 * Return true if VA is the address of a table all of whose descriptors are valid. Set *HAS_END to
 * true if one of the descriptors is a chunk end.
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

/*
 * Return true if the words from AT to END (exclusive) are the list of frame tables. The caller has
 * checked that the word at END is 0.
 */
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
		/* Try each start: words before the list may look like addresses of tables, too. */
		for (; !word && start < at; start += 8)
			if (is_list(scan, part, start, at)) {
				*va = part->va + start;
				return true;
			}
		start = at + 8;
	}
	return false;
}

/*
 * Find the list of frame tables in IMAGE, the data of ELF. Returns 1 and sets *VA to the list's
 * address, or 0 if IMAGE has no list. A list is only accepted if each return address in its tables
 * follows a call instruction, and if at least one frame is a chunk end, where C has called OCaml:
 * the runtime of each program has such a frame.
 */
static int frametable_scan(struct ocp_ctx *ctx, struct elf_file *elf,
			   const struct data_image *image, uint64_t *va)
{
	struct table_scan scan = { .ctx = ctx, .elf = elf, .image = image };
	bool is_found = false;

	for (size_t i = 0; i < image->n_parts; i++)
		scan.left += image->parts[i].n / min_descriptor_bytes[FRAMES_ABSOLUTE];
	scan.left *= 2;
	for (size_t i = 0; i < image->n_parts && !is_found; i++)
		is_found = scan_part(&scan, &image->parts[i], va);
	free(scan.code.bytes);
	return is_found;
}

/* ---- frame tables ---------------------------------------------------------------------------- */

enum {
	MAX_TABLES = 1 << 17,
	MAX_DYNSYM_BYTES = 1 << 28,
	MAX_TEXT_BYTES = 4096,
	VOTES = 4096,
	TRIED_TABLES = 16,
	TRIED_CALLS = 4,
};

struct frametable {
	struct data_image image;
	struct frame_descr *list;
	size_t n;
	uint64_t *tables; /* the addresses of the tables, in the order of their list */
	size_t n_tables;
	enum frame_format format;
	/* source places have the format of OCaml 5.2 and later, with the line of the end */
	bool has_end_lines;
};

struct frametable_reader {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct frametable *table;
	uint64_t n_descriptors;
	/* the segment that contained the most recent return address */
	const struct elf_segment *code;
};

/* ---- the tables ----------------------------------------------------------------------------- */

static int add_table(struct frametable_reader *r, uint64_t va)
{
	uint64_t *new;

	if (r->table->n_tables == MAX_TABLES)
		return ctx_error(r->ctx, -EBADMSG, "%s: has more than %d frame tables",
				 elf_file_name(r->elf), MAX_TABLES);
	new = array_add(r->table->tables, r->table->n_tables);
	if (!new)
		return ctx_no_memory(r->ctx);
	*new = va;
	return 0;
}

/* Add all tables of the list at VA. */
static int list_tables(struct frametable_reader *r, uint64_t va)
{
	const struct data_part *part = data_image_part(&r->table->image, va);
	uint64_t table_va;
	int err = 0;

	for (uint64_t at = part ? va - part->va : 0; part && !err; at += sizeof(table_va)) {
		if (part->n - at < sizeof(table_va))
			part = NULL;
		else
			memcpy(&table_va, part->bytes + at, sizeof(table_va));
		if (part && table_va)
			err = add_table(r, table_va);
		else if (part)
			return 0;
	}
	return err ? err
		   : ctx_error(r->ctx, -EBADMSG,
			       "%s: caml_frametable at 0x%" PRIx64
			       " is not terminated in the file's data",
			       elf_file_name(r->elf), va);
}

static int take_mark(void *data, const char *name, uint64_t va)
{
	size_t bytes;

	return ocaml_name_is_mark(name, "frametable", &bytes) ? add_table(data, va) : 0;
}

static int find_tables(struct frametable_reader *r)
{
	struct named_symbol list = { .name = "caml_frametable" };
	bool is_stripped;
	int err = named_symbols_find(r->ctx, r->elf, &list, 1, &is_stripped);

	if (err)
		return err;
	if (list.is_defined)
		return list_tables(r, list.va);
	err = dynsym_each(r->elf, MAX_DYNSYM_BYTES, take_mark, r);
	if (!err && !r->table->n_tables) {
		err = frametable_scan(r->ctx, r->elf, &r->table->image, &list.va);
		if (err > 0)
			return list_tables(r, list.va);
	}
	if (!err && !r->table->n_tables)
		err = ctx_error(r->ctx, -ENODATA, "%s: has no OCaml frame tables",
				elf_file_name(r->elf));
	return err;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static bool is_code(struct frametable_reader *r, uint64_t va)
{
	if (!r->code || va - r->code->va >= r->code->mem_bytes)
		r->code = elf_file_segment_of(r->elf, va, 1);
	return r->code && r->code->executable;
}

static int damaged(const struct frametable_reader *r, uint64_t table_va, const char *why)
{
	return ctx_error(r->ctx, -EBADMSG, "%s: frame table at 0x%" PRIx64 ": %s",
			 elf_file_name(r->elf), table_va, why);
}

/*
 * Read the parts of the file that contain the tables. The tables of OxCaml are not in the writable
 * data.
 */
static int load_tables(struct frametable_reader *r)
{
	struct frametable *table = r->table;
	int err = 0;

	for (size_t i = 0; i < table->n_tables && !err; i++)
		if (!data_image_part(&table->image, table->tables[i]))
			err = data_image_add(r->ctx, r->elf, &table->image, table->tables[i]);
	return err;
}

/* Return a cursor at the number of descriptors of table I. */
static struct frame_cursor cursor_of(const struct frametable *table, size_t i)
{
	struct frame_cursor c = frame_cursor_at(&table->image, table->tables[i]);

	c.format = table->format;
	return c;
}

/* Return true if the instruction before VA may be a call. */
static bool is_behind_some_call(struct frametable_reader *r, uint64_t va)
{
	uint8_t code[CALL_ROOM];
	uint64_t off;

	return elf_file_va_to_off(r->elf, va - CALL_ROOM, &off) &&
	       elf_file_read(r->elf, off, code, CALL_ROOM) == 0 &&
	       ends_with_call(code + CALL_ROOM, CALL_ROOM);
}

/* What was seen of the tables in a format. */
struct format_trial {
	size_t n_tables;  /* tables with descriptors */
	size_t n_checked; /* return addresses whose preceding instruction was read */
	size_t n_calls;	  /* return addresses of these that follow a call */
};

/* Return true if all descriptors of table I are valid in the format of the tables. */
static bool table_fits(struct frametable_reader *r, size_t i, struct format_trial *trial)
{
	struct frame_cursor c = cursor_of(r->table, i);
	const uint64_t n = c.part ? frame_get(&c, 8) : 0;

	trial->n_tables += n > 0;
	for (uint64_t left = n; left; left--) {
		const struct frame_descr descr = frame_get_descr(&c);

		if (c.is_damaged || !is_code(r, descr.va))
			return false;
		if (n - left < TRIED_CALLS) {
			trial->n_checked++;
			trial->n_calls += is_behind_some_call(r, descr.va);
		}
	}
	return true;
}

/*
 * Find the format of the tables: all descriptors of the first tables are valid in this format, and
 * most return addresses follow a call. (The call of a probe that is off is not in the file.) In
 * another format, a return address would be outside of the code after a few descriptors. If no
 * format fits, the tables are damaged: FRAMES_ABSOLUTE then gives the reason.
 */
static void find_format(struct frametable_reader *r)
{
	struct frametable *table = r->table;

	for (int format = FRAMES_ABSOLUTE; format < FRAME_FORMATS; format++) {
		struct format_trial trial = { 0 };
		bool is_right = true;

		table->format = (enum frame_format)format;
		for (size_t i = 0; i < table->n_tables && is_right; i++)
			is_right = trial.n_tables == TRIED_TABLES || table_fits(r, i, &trial);
		if (is_right && trial.n_calls >= trial.n_checked / 2)
			return;
	}
	table->format = FRAMES_ABSOLUTE;
}

/*
 * Count the descriptors of all tables. Refuse a file whose tables claim more than its data can
 * contain.
 */
static int count_descriptors(struct frametable_reader *r)
{
	uint64_t room = 0;

	for (size_t i = 0; i < r->table->image.n_parts; i++)
		room += r->table->image.parts[i].n / min_descriptor_bytes[r->table->format];
	for (size_t i = 0; i < r->table->n_tables; i++) {
		struct frame_cursor c = cursor_of(r->table, i);
		const uint64_t n = c.part ? frame_get(&c, 8) : 0;

		if (!c.part || c.is_damaged ||
		    (r->table->format != FRAMES_COMPACT && r->table->tables[i] % 8))
			return damaged(r, r->table->tables[i], "is not in the file's data");
		if (n > room - r->n_descriptors)
			return damaged(r, r->table->tables[i],
				       "claims more descriptors than the file has room for");
		r->n_descriptors += n;
	}
	return 0;
}

/*
 * Reverse LIST if its addresses descend: compilers write a unit's descriptors in ascending or in
 * descending order.
 */
static void put_in_order(struct frame_descr *list, size_t n)
{
	if (n < 2 || list[0].va < list[n - 1].va)
		return;
	for (size_t i = 0; i < n / 2; i++) {
		const struct frame_descr descr = list[i];

		list[i] = list[n - 1 - i];
		list[n - 1 - i] = descr;
	}
}

static int read_frame_table(struct frametable_reader *r, uint32_t number)
{
	struct frametable *table = r->table;
	const uint64_t table_va = table->tables[number];
	struct frame_cursor c = cursor_of(table, number);
	const size_t first = table->n;

	for (uint64_t left = frame_get(&c, 8); left; left--) {
		const struct frame_descr descr = frame_get_descr(&c);

		if (c.is_damaged)
			return damaged(r, table_va, "is damaged, or reaches past the file's data");
		if (!is_code(r, descr.va))
			return damaged(r, table_va, "has a return address outside of the code");
		table->list[table->n] = descr;
		table->list[table->n++].table = number;
	}
	put_in_order(table->list + first, table->n - first);
	return 0;
}

static int compare_descriptors(const void *a, const void *b)
{
	const struct frame_descr *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

static void sort_descriptors(struct frametable *table)
{
	bool is_sorted = true;
	size_t n = 0;

	for (size_t i = 1; i < table->n && is_sorted; i++)
		is_sorted = table->list[i - 1].va < table->list[i].va;
	if (is_sorted)
		return;
	qsort(table->list, table->n, sizeof(*table->list), compare_descriptors);
	for (size_t i = 0; i < table->n; i++)
		if (n == 0 || table->list[n - 1].va != table->list[i].va)
			table->list[n++] = table->list[i];
	table->n = n;
}

/* ---- places in the source ------------------------------------------------------------------- */

/*
 * Read the entry of debug information at VA as one number. Returns false if the entry is not in the
 * data.
 */
static bool get_entry(const struct frametable *table, uint64_t va, uint64_t *entry)
{
	struct frame_cursor c = frame_cursor_at(&table->image, va);

	if (!c.part)
		return false;
	*entry = frame_get(&c, 8);
	return !c.is_damaged;
}

static uint32_t bits(uint64_t entry, int high, int low)
{
	return (uint32_t)(entry >> low & ((UINT64_C(1) << (high - low + 1)) - 1));
}

/*
 * Return true if ENTRY is a valid place in the format of OCaml 5.1 and earlier. In a valid place
 * the last column is not before the first one.
 */
static bool is_old_place(uint64_t entry)
{
	return bits(entry, 63, 44) && bits(entry, 43, 36) <= bits(entry, 35, 26);
}

/*
 * Return true if ENTRY is a valid place in the format of OCaml 5.2 and later. In a valid place on
 * one line, the columns are in order.
 */
static bool is_new_place(uint64_t entry)
{
	if (entry >> 63)
		return bits(entry, 62, 44) != 0;
	return bits(entry, 62, 51) &&
	       (bits(entry, 50, 48) ||
		(!bits(entry, 34, 26) && bits(entry, 47, 42) <= bits(entry, 41, 35)));
}

/*
 * Return true if the places have the format of OCaml 5.2 and later. A place that is read in the
 * wrong format nearly always has an impossible line or impossible columns.
 */
static bool have_end_lines(const struct frametable *table)
{
	size_t n_old = 0, n_new = 0, votes = 0;
	uint64_t entry;

	for (size_t i = 0; i < table->n && votes < VOTES; i++) {
		if (!table->list[i].debuginfo_va ||
		    !get_entry(table, table->list[i].debuginfo_va, &entry))
			continue;
		n_old += is_old_place(entry);
		n_new += is_new_place(entry);
		votes++;
	}
	return n_new > n_old;
}

/* Return the text at the cursor C; NULL if the text does not end in the data, or is too long. */
static const char *get_text(const struct frame_cursor *c)
{
	uint64_t most = MAX_TEXT_BYTES;

	if (c->is_damaged || c->at >= c->part->n)
		return NULL;
	if (most > c->part->n - c->at)
		most = c->part->n - c->at;
	return memchr(c->part->bytes + c->at, '\0', most) ? (const char *)c->part->bytes + c->at
							  : NULL;
}

static void get_place(const struct frametable *table, uint64_t entry, struct frame_cursor *c,
		      struct frame_location *location)
{
	if (!table->has_end_lines) {
		location->line = location->end_line = bits(entry, 63, 44);
		location->start_col = bits(entry, 43, 36);
		location->end_col = location->end_char = bits(entry, 35, 26);
	} else if (entry >> 63) {
		location->line = bits(entry, 62, 44);
		location->end_line = location->line + bits(entry, 43, 26);
		location->start_col = (uint32_t)frame_get(c, 2);
		location->end_col = (uint32_t)frame_get(c, 2);
		location->end_char = (uint32_t)frame_get(c, 4);
	} else {
		location->line = bits(entry, 62, 51);
		location->end_line = location->line + bits(entry, 50, 48);
		location->start_col = bits(entry, 47, 42);
		location->end_col = bits(entry, 41, 35);
		location->end_char = location->end_col + bits(entry, 34, 26);
	}
}

/* Decode ENTRY, the entry of debug information at VA. Returns false if the entry is damaged. */
static bool get_location(const struct frametable *table, uint64_t va, uint64_t entry,
			 struct frame_location *location)
{
	struct frame_cursor c = frame_cursor_at(&table->image, va), file;
	int32_t to_file;

	c.at += entry & 0x3fffffc;
	file = c;
	to_file = (int32_t)frame_get(&c, 4);
	*location = (struct frame_location){ .is_inlined = entry & 1, .is_raise = entry >> 1 & 1 };
	get_place(table, entry, &c, location);
	location->function = get_text(&c);
	if (to_file < 0 && (uint64_t) - (int64_t)to_file > file.at)
		return false;
	file.at += (uint64_t)(int64_t)to_file;
	location->file = get_text(&file);
	return location->function && location->file;
}

size_t frametable_locations(const struct frametable *table, const struct frame_descr *descr,
			    struct frame_location *locations, size_t room)
{
	uint64_t va = descr->debuginfo_va, entry;
	size_t n = 0;

	for (bool has_more = va != 0; has_more && n < room; va += sizeof(entry)) {
		if (!get_entry(table, va, &entry) || !get_location(table, va, entry, &locations[n]))
			return 0;
		has_more = locations[n++].is_inlined;
	}
	return n;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int read_frame_tables(struct frametable_reader *r)
{
	struct frametable *table = r->table;
	int err = data_image_read(r->ctx, r->elf, &table->image);

	if (!err)
		err = find_tables(r);
	if (!err)
		err = load_tables(r);
	if (!err) {
		find_format(r);
		err = count_descriptors(r);
	}
	if (err)
		return err;
	table->list = calloc(r->n_descriptors + 1, sizeof(*table->list));
	if (!table->list)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; !err && i < r->table->n_tables; i++)
		err = read_frame_table(r, (uint32_t)i);
	if (err)
		return err;
	sort_descriptors(table);
	table->has_end_lines = have_end_lines(table);
	return 0;
}

int frametable_read(struct ocp_ctx *ctx, struct elf_file *elf, struct frametable **out)
{
	struct frametable_reader r = { .ctx = ctx,
				       .elf = elf,
				       .table = calloc(1, sizeof(*r.table)) };
	int err = r.table ? read_frame_tables(&r) : ctx_no_memory(ctx);

	if (err) {
		frametable_free(r.table);
		r.table = NULL;
	}
	*out = r.table;
	return err;
}

void frametable_free(struct frametable *table)
{
	if (!table)
		return;
	data_image_free(&table->image);
	free(table->tables);
	free(table->list);
	free(table);
}

const struct frame_descr *frametable_list(const struct frametable *table, size_t *n)
{
	*n = table->n;
	return table->list;
}

const uint64_t *frametable_tables(const struct frametable *table, size_t *n)
{
	*n = table->n_tables;
	return table->tables;
}

size_t frametable_from(const struct frametable *table, uint64_t va)
{
	return SEARCH(i, table->n, table->list[i].va < va);
}

const struct frame_descr *frametable_find(const struct frametable *table, uint64_t va)
{
	const size_t at = frametable_from(table, va);

	return at < table->n && table->list[at].va == va ? &table->list[at] : NULL;
}
