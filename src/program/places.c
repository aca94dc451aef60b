// SPDX-License-Identifier: MIT
/*
 * The source line of a probe comes from one of three places:
 *
 * For a dormant site: the site's marker (dormant/marker.c).
 *
 * For a site that the post-linker has converted: the post-linker's table. It is in section
 * .note.ocaml-probes, which is not loaded, in a note of owner "ocaml-probes" and type 0x100. The
 * descriptor of the note is
 *
 *	u64 base	address of section .stapsdt.base, as in the notes of the sites
 *	u32 n		number of entries
 *	u32 bytes	of names
 *	n times:
 *		u64 site	link-time address, as in the site's note; ascending
 *		u32 file	offset of the file's name in the names
 *		u32 line	from 1
 *		u32 column	from 0, in bytes
 *	the names	strings, each ends with a 0
 *
 * Numbers are little-endian, and there is no padding. If any part of the table is damaged, the
 * whole table is ignored.
 *
 * For a site of the forked compilers: the debug information, if a row of the line table begins at
 * the site (elf/lines.c). For sites that the post-linker has converted, the debug information would
 * be wrong: at these sites the rows of the line table belong to the code before the probe. So the
 * debug information is not used for a file with markers. If a converted file has no table, an old
 * post-linker has converted the file, and the lines are unknown.
 */
#include "program/places.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "program/dormant/marker.h"
#include "elf/lines.h"
#include "program/note.h"

/* Limit for the size of the table; 100 000 sites take 2 MB. */
#define MAX_TABLE_BYTES (UINT64_C(256) << 20)

struct place_table {
	uint64_t base_va;
	uint32_t n, names_bytes;
	const uint8_t *entries;
	char *names;
};

struct place_entry {
	uint64_t va;
	uint32_t file, line, column;
};

_Static_assert(offsetof(struct place_entry, column) + sizeof(uint32_t) == PLACES_ENTRY_BYTES,
	       "an entry as in the file");

static struct place_entry entry_at(const struct place_table *table, size_t i)
{
	struct place_entry entry = { 0 };

	memcpy(&entry, table->entries + i * PLACES_ENTRY_BYTES, PLACES_ENTRY_BYTES);
	return entry;
}

/* Parse the table in the descriptor. Return NULL, or text that says why the table is damaged. */
static const char *parse_place_table(uint8_t *desc, size_t desc_bytes, struct place_table *table)
{
	uint64_t last = 0;

	if (desc_bytes < PLACES_HEAD_BYTES)
		return "too short";
	memcpy(&table->base_va, desc, sizeof(uint64_t));
	memcpy(&table->n, desc + 8, sizeof(uint32_t));
	memcpy(&table->names_bytes, desc + 12, sizeof(uint32_t));
	desc_bytes -= PLACES_HEAD_BYTES;
	if (table->n > desc_bytes / PLACES_ENTRY_BYTES ||
	    table->names_bytes != desc_bytes - (size_t)table->n * PLACES_ENTRY_BYTES)
		return "its size is not that of its entries and names";
	table->entries = desc + PLACES_HEAD_BYTES;
	table->names = (char *)table->entries + (size_t)table->n * PLACES_ENTRY_BYTES;
	if (table->n && (!table->names_bytes || table->names[table->names_bytes - 1]))
		return "the names are not terminated";
	for (size_t i = 0; i < table->n; i++) {
		const struct place_entry entry = entry_at(table, i);

		if (entry.va < last)
			return "the sites are not sorted";
		if (entry.file >= table->names_bytes || !table->names[entry.file])
			return "a file has no name";
		if (entry.line == 0 || entry.line > INT_MAX || entry.column > INT_MAX)
			return "a line or column is out of range";
		last = entry.va;
	}
	/* Replace control characters, since the names may be written to a terminal. */
	for (size_t i = 0; i < table->names_bytes; i++)
		if (table->names[i] &&
		    ((unsigned char)table->names[i] < ' ' || table->names[i] == 0x7f))
			table->names[i] = '?';
	return NULL;
}

/*
 * Find the table among the notes. Return 1 if it was found, 0 if not. If the table is damaged,
 * return -1 and set *WHY to the reason.
 */
static int find_place_table(const uint8_t *bytes, size_t n_bytes, struct place_table *table,
			    const char **why)
{
	struct raw_note raw;
	const int found = note_find(bytes, n_bytes, PLACES_OWNER, PLACES_TYPE, &raw, why);

	if (found <= 0)
		return found;
	*why = parse_place_table((uint8_t *)raw.desc, raw.desc_bytes, table);
	return *why ? -1 : 1;
}

/*
 * Fill in the places of ASKED from TABLE. ASKED and TABLE are both sorted by address. MOVED is the
 * prelink correction of the addresses in TABLE.
 */
static void fill_places(const struct place_table *table, uint64_t moved,
			struct probe_place *const *asked, size_t n)
{
	for (size_t i = 0, at = 0; i < n; i++) {
		struct place_entry entry = { 0 };

		while (at < table->n &&
		       (entry = entry_at(table, at)).va + moved < asked[i]->site->va)
			at++;
		if (at == table->n)
			return;
		if (entry.va + moved != asked[i]->site->va)
			continue;
		asked[i]->file = table->names + entry.file;
		asked[i]->line = (int)entry.line;
		asked[i]->column = (int)entry.column;
	}
}

/*
 * Fill in the places of ASKED from the post-linker's table. Return 1 if the file has the section of
 * the table, even if the table is damaged; 0 if it has no such section; or a negative errno. *BYTES
 * contains the file names; the caller frees *BYTES.
 */
static int ask_table(const struct ocp_program *prog, struct probe_place *const *asked, size_t n,
		     uint8_t **bytes)
{
	struct elf_section section, base;
	const char *why = NULL;
	struct place_table table;
	int found = elf_file_find_section(prog->elf, PLACES_SECTION, SHT_NOTE, &section),
	    base_found;

	if (found <= 0)
		return found;
	base_found = elf_file_find_section(prog->elf, ".stapsdt.base", SHT_PROGBITS, &base);
	found = base_found < 0 ? base_found
			       : elf_file_read_section(prog->elf, &section, MAX_TABLE_BYTES, bytes);
	if (found == -EBADMSG) {
		ctx_log(prog->ctx, OCP_LOG_WARN, "cannot read source lines: %s",
			ocp_error(prog->ctx));
		return 1;
	}
	if (found < 0)
		return found;
	found = find_place_table(*bytes, section.bytes, &table, &why);
	if (found > 0)
		fill_places(&table, base_found && table.base_va ? base.va - table.base_va : 0,
			    asked, n);
	else if (found < 0)
		ctx_log(prog->ctx, OCP_LOG_WARN,
			"%s: cannot read source lines: section " PLACES_SECTION " is damaged: %s",
			elf_file_name(prog->elf), why);
	return 1;
}

static int ask_debug_information(const struct ocp_program *prog, struct probe_place *const *asked,
				 size_t n, char **names)
{
	struct source_line *lines;
	bool has_markers;
	int err = marker_may_be_in(prog->ctx, prog->elf, &has_markers);

	if (err || has_markers)
		return err;
	lines = calloc(n + 1, sizeof(*lines));
	if (!lines)
		return ctx_no_memory(prog->ctx);
	for (size_t i = 0; i < n; i++)
		lines[i].va = asked[i]->site->va;
	err = lines_find(prog->ctx, prog->fd, elf_file_name(prog->elf), LINES_LAST, lines, n,
			 names);
	for (size_t i = 0; i < n; i++) {
		asked[i]->file = lines[i].file;
		asked[i]->line = lines[i].line;
		asked[i]->column = lines[i].column;
	}
	free(lines);
	return err;
}

static int compare_va(const void *a, const void *b)
{
	const struct probe_place *x = *(struct probe_place *const *)a,
				 *y = *(struct probe_place *const *)b;

	return COMPARE(x->site->va, y->site->va);
}

static int find_places_in_file(const struct ocp_program *prog, struct probe_place *const *asked,
			       size_t n, char **names)
{
	uint8_t *bytes = NULL;
	int found = ask_table(prog, asked, n, &bytes);

	*names = (char *)bytes;
	return found ? (found < 0 ? found : 0) : ask_debug_information(prog, asked, n, names);
}

int places_find(const struct ocp_program *prog, struct probe_place *asked, size_t n, char **names)
{
	struct probe_place **by_va = calloc(n + 1, sizeof(struct probe_place *));
	size_t n_open = 0;
	int err = 0;

	*names = NULL;
	if (!by_va)
		return ctx_no_memory(prog->ctx);
	for (size_t i = 0; i < n; i++) {
		const struct dormant_site *dormant = asked[i].site->dormant;

		asked[i].file = dormant ? dormant->file : NULL;
		asked[i].line = dormant ? dormant->line : 0;
		asked[i].column = dormant ? dormant->column : 0;
		if (!dormant)
			by_va[n_open++] = &asked[i];
	}
	if (n_open) {
		qsort(by_va, n_open, sizeof(struct probe_place *), compare_va);
		err = find_places_in_file(prog, by_va, n_open, names);
	}
	free(by_va);
	if (err) {
		free(*names);
		*names = NULL;
	}
	return err;
}
