// SPDX-License-Identifier: MIT
#include "unwind/exact_frame.h"

#include <string.h>

/*
 * Return true if NAME, the name that was given to the compiler, means the file PATH: PATH is NAME,
 * or ends with NAME after a slash.
 */
static bool names_same_file(const char *path, const char *name)
{
	const size_t path_bytes = strlen(path), name_bytes = strlen(name);

	return name_bytes <= path_bytes && strcmp(path + path_bytes - name_bytes, name) == 0 &&
	       (name_bytes == path_bytes || path[path_bytes - name_bytes - 1] == '/');
}

/* Return the descriptors of the *N calls in FRAME's function, sorted by return address. */
static const struct frame_descr *calls_of(const struct exact_frame *frame, size_t *n)
{
	size_t n_list;
	const struct frame_descr *list = frametable_list(frame->table, &n_list);
	const size_t first = frametable_from(frame->table, frame->function->va + 1);
	const uint64_t end = frame->function->va + frame->function->bytes;

	*n = 0;
	while (first + *n < n_list && list[first + *n].va <= end)
		++*n;
	return list + first;
}

/*
 * Find the locations of the call DESCR, but leave out the inner ones before the first location on
 * the line of FRAME. Returns their number; 0 if no location is on that line.
 */
static size_t locations_on_line(const struct exact_frame *frame, const struct frame_descr *descr,
				struct frame_location *locations, size_t room)
{
	const size_t n = frametable_locations(frame->table, descr, locations, room);

	for (size_t i = 0; i < n; i++)
		if (locations[i].line == (uint32_t)frame->line.line &&
		    names_same_file(frame->line.file, locations[i].file)) {
			memmove(locations, locations + i, (n - i) * sizeof(*locations));
			return n - i;
		}
	return 0;
}

/*
 * Return true if A and B are the same functions, inlined at the same places. The columns of the
 * first, innermost location may differ.
 */
static bool are_same(const struct frame_location *a, size_t n_a, const struct frame_location *b,
		     size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (a[i].line != b[i].line || strcmp(a[i].function, b[i].function) != 0 ||
		    strcmp(a[i].file, b[i].file) != 0 ||
		    (i && (a[i].start_col != b[i].start_col || a[i].end_col != b[i].end_col)))
			return false;
	return true;
}

static uint64_t target(uint64_t next, const uint8_t *displacement)
{
	int32_t bytes;

	memcpy(&bytes, displacement, sizeof(bytes));
	return next + (uint64_t)(int64_t)bytes;
}

/*
 * Return the address of the handler if a probe begins at the instruction, else 0. A converted probe
 * is a nop and a test whose operand is the distance to the handler. A probe that is not converted
 * loads the address of its marker, compares a word there with 1, and jumps to the handler or around
 * it.
 */
static uint64_t handler_of(const struct exact_frame *frame)
{
	uint8_t code[17];
	uint64_t off;

	if (!elf_file_va_to_off(frame->elf, frame->va, &off) ||
	    elf_file_read(frame->elf, off, code, sizeof(code)) != 0)
		return 0;
	if (code[0] == 0x90 && (code[1] == 0x3d || code[1] == 0xe8))
		return target(frame->va + 6, code + 2);
	if ((code[0] & 0xf8) != 0x48 || (code[7] & 0xfe) != 0x48 || code[8] != 0x83 ||
	    (code[9] & 0xf8) != 0xf8 || code[10] != 1)
		return 0;
	if (code[11] == 0x74)
		return frame->va + 13 + (uint64_t)(int64_t)(int8_t)code[12];
	if (code[11] == 0x0f && code[12] == 0x84)
		return target(frame->va + 17, code + 13);
	return frame->va + 11;
}

/*
 * Return the index of the first of CALLS[0..N) whose return address is above VA; N if there is
 * none.
 */
static size_t call_behind(const struct frame_descr *calls, size_t n, uint64_t va)
{
	size_t i = 0;

	while (i < n && calls[i].va <= va)
		i++;
	return i;
}

/*
 * If a probe begins at the instruction, use the line of its handler, which stores the arguments and
 * has the line of the probe. Compilers do not give the instructions of the probe itself a line,
 * unless they are the first ones of a line.
 */
bool exact_frame_read(struct exact_frame *frame)
{
	const bool is_found = address_lines_find(frame->lines, frame->va, &frame->line);
	struct address_line line;
	size_t n_calls, next;
	const struct frame_descr *calls;

	frame->handler = frame->function ? handler_of(frame) : 0;
	if (!frame->handler || (is_found && frame->line.va == frame->va))
		return is_found;
	calls = calls_of(frame, &n_calls);
	next = call_behind(calls, n_calls, frame->handler);
	if (next < n_calls &&
	    address_lines_first(frame->lines, frame->handler, calls[next].va, &line))
		frame->line = line;
	return is_found;
}

size_t exact_frame_locations(const struct exact_frame *frame, struct frame_location *locations,
			     size_t room)
{
	struct frame_location others[FRAME_LOCATIONS_MAX];
	size_t n_calls, n = 0, n_others, next;
	const struct frame_descr *calls = calls_of(frame, &n_calls);
	bool agree = true;

	if (room > FRAME_LOCATIONS_MAX)
		room = FRAME_LOCATIONS_MAX;
	next = call_behind(calls, n_calls, frame->handler ? frame->handler : frame->va);
	if (frame->handler && next < n_calls)
		return locations_on_line(frame, &calls[next], locations, room);
	for (size_t i = 0; i < n_calls && agree; i++) {
		n_others = locations_on_line(frame, &calls[i], others, room);
		if (n && n_others)
			agree = are_same(locations, n, others, n_others);
		else if (n_others) {
			memcpy(locations, others, n_others * sizeof(*others));
			n = n_others;
		}
	}
	if (agree)
		return n;
	/*
	 * The function has several copies of the code of this line. The calls before and behind the
	 * instruction must be in the same copy.
	 */
	if (!next || next == n_calls)
		return 0;
	n = locations_on_line(frame, &calls[next - 1], locations, room);
	n_others = locations_on_line(frame, &calls[next], others, room);
	return are_same(locations, n, others, n_others) ? n : 0;
}

const char *exact_frame_file(const struct exact_frame *frame)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	size_t n_calls;
	const struct frame_descr *calls = calls_of(frame, &n_calls);

	for (size_t i = 0; i < n_calls; i++) {
		const size_t n = frametable_locations(frame->table, &calls[i], locations,
						      FRAME_LOCATIONS_MAX);

		for (size_t j = 0; j < n; j++)
			if (names_same_file(frame->line.file, locations[j].file))
				return locations[j].file;
	}
	return frame->line.file;
}
