// SPDX-License-Identifier: MIT
/*
 * Section .note.ocaml-probes.args, which is not loaded, has a note of owner "ocaml-probes" and type
 * 0x101. The descriptor of the note is a table:
 *
 *	u64 base	address of section .stapsdt.base, as in the notes of the sites
 *	u32 n		number of entries
 *	u32 bytes	of strings
 *	n times:
 *		u64 site	link-time address, as in the site's note; ascending
 *		u32 names	offset of the names and types in the strings: see arg_names.c
 *		u32 operands	offset of the operands in the strings; "": as in the site's note
 *	the strings	each ends with a 0
 *
 * Numbers are little-endian, and there is no padding. The table contains the operands of a site if
 * one of these operands is in our own syntax (dormant/x86_args.c). If any part of the table is
 * damaged, the whole table is ignored: the arguments then have no names, and their places are taken
 * from the notes.
 */
#include "program/arg_notes.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "program/arg_names.h"
#include "program/note.h"
#include "program/wrapper_args.h"

#define MAX_TABLE_BYTES (UINT64_C(256) << 20)
/*
 * Limit for the average size of an entry with its strings. It applies if the number of sites is
 * limited.
 */
#define TABLE_BYTES_A_SITE 1024

struct arg_notes_table {
	uint64_t base_va;
	uint32_t n, n_strings; /* number of entries; size of the strings in bytes */
	const uint8_t *entries;
	const char *strings;
};

struct arg_notes_entry {
	uint64_t va;
	uint32_t names, operands;
};

_Static_assert(sizeof(struct arg_notes_entry) == ARG_NOTES_ENTRY_BYTES, "an entry as in the file");

static struct arg_notes_entry entry_at(const struct arg_notes_table *table, size_t i)
{
	struct arg_notes_entry entry;

	memcpy(&entry, table->entries + i * ARG_NOTES_ENTRY_BYTES, sizeof(entry));
	return entry;
}

/*
 * Return true if TEXT has only characters that occur in operands. Operands are parsed later
 * (measure/args/operand.c), but may be printed before they are parsed.
 */
static bool has_operand_chars(const char *text)
{
	return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789 @$%()-")] == '\0';
}

static const char *check_entry(const struct arg_notes_table *table,
			       const struct arg_notes_entry *entry)
{
	const char *names;

	if (entry->names >= table->n_strings || entry->operands >= table->n_strings)
		return "a string is outside";
	names = table->strings + entry->names;
	if (!arg_names_are_sound(names, strlen(names)))
		return "names of arguments are malformed";
	if (!has_operand_chars(table->strings + entry->operands))
		return "operands are malformed";
	return NULL;
}

/* Parse the table in the descriptor. Return NULL, or text that says why the table is damaged. */
static const char *parse_arg_notes(const uint8_t *desc, size_t desc_bytes,
				   struct arg_notes_table *table)
{
	const char *why = NULL;
	uint64_t last = 0;

	if (desc_bytes < ARG_NOTES_HEAD_BYTES)
		return "too short";
	memcpy(&table->base_va, desc, sizeof(uint64_t));
	memcpy(&table->n, desc + 8, sizeof(uint32_t));
	memcpy(&table->n_strings, desc + 12, sizeof(uint32_t));
	desc_bytes -= ARG_NOTES_HEAD_BYTES;
	if (table->n > desc_bytes / ARG_NOTES_ENTRY_BYTES ||
	    table->n_strings != desc_bytes - (size_t)table->n * ARG_NOTES_ENTRY_BYTES)
		return "its size is not that of its entries and strings";
	table->entries = desc + ARG_NOTES_HEAD_BYTES;
	table->strings = (const char *)table->entries + (size_t)table->n * ARG_NOTES_ENTRY_BYTES;
	if (table->n && (!table->n_strings || table->strings[table->n_strings - 1]))
		return "the strings are not terminated";
	for (size_t i = 0; i < table->n && !why; i++) {
		const struct arg_notes_entry entry = entry_at(table, i);

		why = entry.va < last ? "the sites are not sorted" : check_entry(table, &entry);
		last = entry.va;
	}
	return why;
}

/*
 * Find the table among the notes. Return 1 if it was found, 0 if not. If the table is damaged,
 * return -1 and set *WHY to the reason.
 */
static int find_arg_notes(const uint8_t *bytes, size_t n_bytes, struct arg_notes_table *table,
			  const char **why)
{
	struct raw_note raw;
	const int found = note_find(bytes, n_bytes, ARG_NOTES_OWNER, ARG_NOTES_TYPE, &raw, why);

	if (found <= 0)
		return found;
	*why = parse_arg_notes(raw.desc, raw.desc_bytes, table);
	return *why ? -1 : 1;
}

/* Find the entry of a site. VA is the address of the site before the prelink correction. */
static bool find_entry(const struct arg_notes_table *table, uint64_t va,
		       struct arg_notes_entry *entry)
{
	const size_t at = SEARCH(i, table->n, entry_at(table, i).va < va);

	if (at == table->n)
		return false;
	*entry = entry_at(table, at);
	return entry->va == va;
}

static size_t count_operands(const char *text)
{
	size_t n = 0;

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		text += strcspn(text, " ");
		n++;
	}
	return n;
}

/* Replace the operands of SITE, which were read from its note, by OPERANDS. */
static int replace_operands(struct ocp_program *prog, struct site *site, const char *operands)
{
	struct corrected_args *args = malloc(sizeof(*args) + strlen(operands) + 1);

	if (!args)
		return ctx_no_memory(prog->ctx);
	*args = (struct corrected_args){ .note = site->args };
	memcpy(args->text, operands, strlen(operands) + 1);
	site->corrected = args;
	site->args = args->text;
	return 0;
}

static int apply_arg_notes(struct ocp_program *prog, const struct arg_notes_table *table,
			   uint64_t base_va)
{
	const uint64_t moved = base_va && table->base_va ? base_va - table->base_va : 0;
	int err = 0;

	for (size_t i = 0; i < prog->n_sites && !err; i++) {
		struct site *site = &prog->sites[i];
		struct arg_notes_entry entry;
		const char *operands;

		if (!site->has_code || !find_entry(table, site->va - moved, &entry))
			continue;
		site->arg_names = table->strings + entry.names;
		operands = table->strings + entry.operands;
		/*
		 * Ignore the table's operands if the note has a different number of operands: the
		 * table then belongs to other notes.
		 */
		if (*operands && !site->corrected &&
		    count_operands(operands) == count_operands(site->args))
			err = replace_operands(prog, site, operands);
	}
	return err;
}

static void warn(struct ocp_program *prog, const char *why)
{
	ctx_log(prog->ctx, OCP_LOG_WARN,
		"%s: cannot read names of arguments: section " ARG_NOTES_SECTION " is damaged: %s",
		elf_file_name(prog->elf), why);
}

int arg_notes_read(struct ocp_program *prog, uint64_t base_va)
{
	const uint64_t max =
		prog->max_sites ? (uint64_t)prog->max_sites * TABLE_BYTES_A_SITE : MAX_TABLE_BYTES;
	struct elf_section section;
	const char *why = NULL;
	struct arg_notes_table table;
	int found = elf_file_find_section(prog->elf, ARG_NOTES_SECTION, SHT_NOTE, &section);

	if (found <= 0)
		return found;
	if (section.bytes > max) {
		warn(prog, "too large");
		return 0;
	}
	found = elf_file_read_section(prog->elf, &section, max, &prog->arg_note_bytes);
	if (found == -EBADMSG) {
		warn(prog, ocp_error(prog->ctx));
		return 0;
	}
	if (found < 0)
		return found;
	found = find_arg_notes(prog->arg_note_bytes, section.bytes, &table, &why);
	if (found < 0)
		warn(prog, why);
	return found > 0 ? apply_arg_notes(prog, &table, base_va) : 0;
}
