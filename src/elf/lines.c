// SPDX-License-Identifier: MIT
/*
 * Source lines are read from the DWARF line tables, by libdw.
 *
 * The OCaml compilers that support probes write the source line of each operation before its code,
 * and a probe is an operation whose code starts with the site's nop. So a row of the table begins
 * at the address of the nop. If several rows begin there, because operations without code precede
 * the probe, the last of them is the probe's. If no row begins at the site, the line of the probe
 * is unknown: the row that covers the site belongs to the code before the site and is ignored.
 *
 * A program may have thousands of units and 100 000 sites. So the line program of each unit is run
 * at most once, and its rows are merged with the sites, both sorted by address.
 */
#include "elf/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ctx.h"
#include "base/search.h"
#include "base/strbuf.h"

/*
 * Open the debug information of the file of FD, called NAME. The caller closes the result with
 * dwarf_end(). Returns NULL, with a log message, if the debug information cannot be read, or if
 * parts of it are in another file (.gnu_debugaltlink): libdw would open the other file by a path
 * that the file of FD gives. That path may lead to a pipe, on which open(2) blocks, or to a device.
 */
static Dwarf *own_dwarf_begin(struct ocp_ctx *ctx, int fd, const char *name)
{
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	const char *other, *why = dwarf ? "parts of them are in another file" : dwarf_errmsg(-1);
	const void *id;

	if (dwarf && dwelf_dwarf_gnu_debugaltlink(dwarf, &other, &id) == 0)
		return dwarf;
	dwarf_end(dwarf);
	ctx_log(ctx, OCP_LOG_DEBUG, "%s: cannot read source lines: %s", name, why);
	return NULL;
}

/* ---- lines that begin at addresses ----------------------------------------------------------- */

struct line_finder {
	struct ocp_ctx *ctx;
	enum lines_rule rule;
	struct source_line *asked;
	size_t n;
	/* for each site, 1 + the offset of the file name in `text`; 0: unknown */
	size_t *offs;
	/* the file names; a name that equals the previous one is not repeated */
	struct strbuf text;
	const char *last; /* the name that was added last, in libdw's memory */
	size_t last_off;
};

/* Add NAME to f->text. Return 1 + the offset of NAME in f->text, or 0 if out of memory. */
static size_t add_file_name(struct line_finder *f, const char *name)
{
	const size_t bytes = strlen(name) + 1;

	if (name == f->last)
		return f->last_off + 1;
	strbuf_add(&f->text, name, bytes);
	if (f->text.is_short)
		return 0;
	f->last_off = f->text.n - bytes;
	/* Replace control characters, since the name may be written to a terminal. */
	for (unsigned char *c = (unsigned char *)f->text.bytes + f->last_off; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			*c = '?';
	f->last = name;
	return f->last_off + 1;
}

/* Return the index of the first site at or above VA. */
static size_t first_from(const struct line_finder *f, uint64_t va)
{
	return SEARCH(i, f->n, f->asked[i].va < va);
}

/* Return true if one of the address ranges of UNIT contains a site, or if UNIT has no ranges. */
static bool may_hold_a_site(const struct line_finder *f, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	bool says = false;

	while ((at = dwarf_ranges(unit, at, &base, &start, &end)) > 0) {
		size_t i = first_from(f, start);

		if (i < f->n && f->asked[i].va < end)
			return true;
		says = true;
	}
	return !says;
}

/*
 * Use ROW, which begins at site number I, as the result for this site. If several rows begin at the
 * site, f->rule says whether to use the first or the last of these rows.
 */
static int take_site_row(struct line_finder *f, size_t i, Dwarf_Line *row)
{
	struct source_line *answer = &f->asked[i];
	bool is_statement = false, is_end = true;
	const char *file;
	int line = 0, column = 0;

	if (dwarf_lineendsequence(row, &is_end) != 0 || is_end ||
	    (f->rule == LINES_FIRST && f->offs[i]))
		return 0;
	f->offs[i] = 0;
	file = dwarf_linesrc(row, NULL, NULL);
	if (!file || dwarf_linebeginstatement(row, &is_statement) != 0 || !is_statement ||
	    dwarf_lineno(row, &line) != 0 || line <= 0 || dwarf_linecol(row, &column) != 0)
		return 0;
	answer->line = line;
	answer->column = column > 0 ? column : 0;
	f->offs[i] = add_file_name(f, file);
	return f->offs[i] ? 0 : ctx_no_memory(f->ctx);
}

/*
 * Take the rows of UNIT that begin at sites. libdw sorts the rows by address; rows of the same
 * address stay in the order of the line table.
 */
static int join_unit(struct line_finder *f, Dwarf_Die *unit)
{
	Dwarf_Lines *rows;
	size_t n_rows, i = 0;
	Dwarf_Addr va;
	int err = 0;

	if (dwarf_getsrclines(unit, &rows, &n_rows) != 0)
		return 0;
	for (size_t at = 0; at < n_rows && !err; at++) {
		Dwarf_Line *row = dwarf_onesrcline(rows, at);

		if (dwarf_lineaddr(row, &va) != 0)
			continue;
		if (at == 0)
			i = first_from(f, va);
		while (i < f->n && f->asked[i].va < va)
			i++;
		if (i == f->n)
			break;
		if (f->asked[i].va == va)
			err = take_site_row(f, i, row);
	}
	return err;
}

static int join_units(struct line_finder *f, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	int err = 0;

	while (!err && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0)
		if (may_hold_a_site(f, &unit))
			err = join_unit(f, &unit);
	return err;
}

int lines_find(struct ocp_ctx *ctx, int fd, const char *name, enum lines_rule rule,
	       struct source_line *asked, size_t n, char **names)
{
	struct line_finder f = { .ctx = ctx, .rule = rule, .asked = asked, .n = n };
	Dwarf *dwarf;
	int err = 0;

	*names = NULL;
	f.offs = calloc(n + 1, sizeof(*f.offs));
	if (!f.offs)
		return ctx_no_memory(ctx);
	dwarf = own_dwarf_begin(ctx, fd, name);
	if (dwarf)
		err = join_units(&f, dwarf);
	for (size_t i = 0; i < n; i++) {
		bool known = !err && f.offs[i];

		asked[i].file = known ? f.text.bytes + f.offs[i] - 1 : NULL;
		asked[i].line = known ? asked[i].line : 0;
		asked[i].column = known ? asked[i].column : 0;
	}
	dwarf_end(dwarf);
	free(f.offs);
	if (err)
		strbuf_free(&f.text);
	else
		*names = f.text.bytes;
	return err;
}

/* ---- all rows ------------------------------------------------------------------------------- */

static const char *string_of(Dwarf_Die *unit, unsigned int attribute)
{
	Dwarf_Attribute found;

	return dwarf_attr(unit, attribute, &found) ? dwarf_formstring(&found) : NULL;
}

/*
 * Fill ROW from row number AT. Return false if this row cannot be read, or if it only marks the end
 * of code.
 */
static bool read_row(Dwarf_Lines *rows, size_t at, struct line_row *row)
{
	Dwarf_Line *it = dwarf_onesrcline(rows, at);
	bool is_end = true;
	Dwarf_Addr va;

	if (!it || dwarf_lineaddr(it, &va) != 0 || dwarf_lineendsequence(it, &is_end) != 0 ||
	    is_end)
		return false;
	row->va = va;
	row->file = dwarf_linesrc(it, NULL, NULL);
	row->line = row->column = 0;
	if (!row->file || dwarf_linebeginstatement(it, &row->is_statement) != 0 ||
	    dwarf_lineno(it, &row->line) != 0 || dwarf_linecol(it, &row->column) != 0)
		return false;
	if (row->line < 0 || row->column < 0)
		row->line = row->column = 0;
	return true;
}

static int each_of_unit(Dwarf_Die *unit, size_t number, line_row_fn take, void *data)
{
	struct line_row row = {
		.unit = number,
		.unit_file = string_of(unit, DW_AT_name),
		.folder = string_of(unit, DW_AT_comp_dir),
	};
	Dwarf_Lines *rows;
	size_t n_rows;
	int err = 0;

	if (dwarf_getsrclines(unit, &rows, &n_rows) != 0)
		return 0;
	for (size_t at = 0; !err && at < n_rows; at++)
		if (read_row(rows, at, &row))
			err = take(data, &row);
	return err;
}

int lines_each(struct ocp_ctx *ctx, int fd, const char *name, line_row_fn take, void *data)
{
	Dwarf *dwarf = own_dwarf_begin(ctx, fd, name);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	int err = 0;

	if (!dwarf)
		return 0;
	for (size_t n = 0; !err && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0;
	     n++)
		err = each_of_unit(&unit, n, take, data);
	dwarf_end(dwarf);
	return err;
}

/* ---- the line of any address ----------------------------------------------------------------- */

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
