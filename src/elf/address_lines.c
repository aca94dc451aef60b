// SPDX-License-Identifier: MIT
#include "elf/address_lines.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "elf/own_dwarf.h"

/* A range of the code of a unit. */
struct unit_range {
	uint64_t start, end;
	Dwarf_Off unit; /* offset of the unit's entry in the debug information */
};

struct address_lines {
	Dwarf *dwarf;
	struct unit_range *ranges; /* sorted by start */
	size_t n;
};

static int add_range(struct ocp_ctx *ctx, struct address_lines *lines, uint64_t start, uint64_t end,
		     Dwarf_Die *unit)
{
	struct unit_range *new = array_add(lines->ranges, lines->n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = (struct unit_range){ start, end, dwarf_dieoffset(unit) };
	return 0;
}

static int read_units(struct ocp_ctx *ctx, struct address_lines *lines)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	int err = 0;

	while (!err && dwarf_get_units(lines->dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0) {
		Dwarf_Addr base, start, end;
		ptrdiff_t at = 0;

		while (!err && (at = dwarf_ranges(&unit, at, &base, &start, &end)) > 0)
			err = add_range(ctx, lines, start, end, &unit);
	}
	return err;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	return COMPARE(x->start, y->start);
}

int address_lines_open(struct ocp_ctx *ctx, int fd, const char *name, struct address_lines **out)
{
	struct address_lines *lines = calloc(1, sizeof(*lines));
	int err = 0;

	*out = lines;
	if (!lines)
		return ctx_no_memory(ctx);
	lines->dwarf = own_dwarf_begin(ctx, fd, name);
	if (lines->dwarf)
		err = read_units(ctx, lines);
	if (lines->n)
		qsort(lines->ranges, lines->n, sizeof(*lines->ranges), compare_ranges);
	return err;
}

void address_lines_close(struct address_lines *lines)
{
	if (!lines)
		return;
	dwarf_end(lines->dwarf);
	free(lines->ranges);
	free(lines);
}

static const struct unit_range *range_of(const struct address_lines *lines, uint64_t va)
{
	const size_t next = SEARCH(i, lines->n, lines->ranges[i].start <= va);

	return next && va < lines->ranges[next - 1].end ? &lines->ranges[next - 1] : NULL;
}

/* Copy ROW to FOUND. Returns false if ROW has no source line. */
static bool copy_row(Dwarf_Line *row, struct address_line *found)
{
	Dwarf_Addr va;

	if (!row || dwarf_lineaddr(row, &va) != 0 || dwarf_lineno(row, &found->line) != 0 ||
	    found->line <= 0)
		return false;
	found->va = va;
	found->file = dwarf_linesrc(row, NULL, NULL);
	return found->file != NULL;
}

static bool unit_of(const struct address_lines *lines, uint64_t va, Dwarf_Die *unit)
{
	const struct unit_range *range = range_of(lines, va);

	return range && dwarf_offdie(lines->dwarf, range->unit, unit);
}

bool address_lines_find(const struct address_lines *lines, uint64_t va, struct address_line *found)
{
	Dwarf_Die unit;

	*found = (struct address_line){ 0 };
	return unit_of(lines, va, &unit) && copy_row(dwarf_getsrc_die(&unit, va), found);
}

bool address_lines_first(const struct address_lines *lines, uint64_t from, uint64_t end,
			 struct address_line *found)
{
	Dwarf_Lines *rows;
	Dwarf_Die unit;
	size_t n;

	*found = (struct address_line){ 0 };
	if (!unit_of(lines, from, &unit) || dwarf_getsrclines(&unit, &rows, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (copy_row(dwarf_onesrcline(rows, i), found) && found->va >= from)
			return found->va < end;
	return false;
}
