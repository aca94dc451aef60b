// SPDX-License-Identifier: MIT
/*
 * The table of the probes' places: read, and what becomes of one that lies. And what it costs to
 * ask the debug information.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/places.h"
#include "elfutils/libdw.h"
#include "fixture.h"
#include "note_bytes.h"
#include "unit.h"

enum { MAX_SITES = 64, FIRST_LINE = 10 };

struct entry {
	uint64_t va;
	uint32_t file, line, column;
} __attribute__((packed));

/* A descriptor that can be spoilt before it is put into a note. */
struct table {
	uint64_t base;
	uint32_t n, names_bytes;
	struct entry entries[MAX_SITES];
	char names[64];
	size_t desc_bytes; /* 0: as many as there are */
};

static const char names[] = "a.ml\0lib/b.ml";

static int compare_va(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->va > y->va) - (x->va < y->va);
}

/* Entries of all sites of the fixture: of a.ml and lib/b.ml by turns, on lines 10, 11 ... */
static void make_table(const struct fixture *fixture, struct table *table)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;

	memset(table, 0, sizeof(*table));
	assert_int_equal(fixture_open(fixture, ctx, &prog), 0);
	for (size_t i = 0; i < prog->n_sites; i++)
		if (prog->sites[i].has_code)
			table->entries[table->n++].va = prog->sites[i].va;
	assert_in_range(table->n, 10, MAX_SITES);
	qsort(table->entries, table->n, sizeof(table->entries[0]), compare_va);
	for (uint32_t i = 0; i < table->n; i++) {
		table->entries[i].file = i % 2 ? 5 : 0;
		table->entries[i].line = FIRST_LINE + i;
		table->entries[i].column = 2 * i;
	}
	table->base = fixture_section(fixture, ".stapsdt.base")->sh_addr;
	table->names_bytes = sizeof(names);
	memcpy(table->names, names, sizeof(names));
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

/* Call the section OLD .note.ocaml-probes, a note section with these bytes. */
static void replace_section(struct fixture *f, const char *old, const void *bytes, size_t n)
{
	Elf64_Shdr *strings = fixture_shdr(f, fixture_ehdr(f)->e_shstrndx), *section;
	size_t old_bytes = strings->sh_size, all = old_bytes + sizeof(PLACES_SECTION);
	char *text = malloc(all);
	uint64_t names_off, off;

	assert_non_null(text);
	memcpy(text, f->bytes + strings->sh_offset, old_bytes);
	memcpy(text + old_bytes, PLACES_SECTION, sizeof(PLACES_SECTION));
	names_off = fixture_append(f, text, all);
	off = fixture_append(f, bytes, n);
	free(text);
	section = fixture_section(f, old);
	section->sh_name = (uint32_t)old_bytes;
	section->sh_type = SHT_NOTE;
	section->sh_offset = off;
	section->sh_size = n;
	strings = fixture_shdr(f, fixture_ehdr(f)->e_shstrndx);
	strings->sh_offset = names_off;
	strings->sh_size = all;
}

static size_t descriptor(const struct table *table, size_t n_entries, uint8_t *desc)
{
	size_t n = 0;

	memcpy(desc, table, PLACES_HEAD_BYTES);
	n += PLACES_HEAD_BYTES;
	memcpy(desc + n, table->entries, n_entries * PLACES_ENTRY_BYTES);
	n += n_entries * PLACES_ENTRY_BYTES;
	memcpy(desc + n, table->names, sizeof(names));
	n += sizeof(names);
	return table->desc_bytes ? table->desc_bytes : n;
}

/* The fixture, with a table of N_ENTRIES entries. */
static void add_table(struct fixture *fixture, const struct table *table, size_t n_entries)
{
	struct note_bytes notes = { 0 };
	uint8_t desc[sizeof(*table)];

	put_note(&notes, "elsewhere", 1, "x", 1);
	put_note(&notes, PLACES_OWNER, PLACES_TYPE, desc, descriptor(table, n_entries, desc));
	replace_section(fixture, ".comment", notes.bytes, notes.n);
	note_bytes_free(&notes);
}

struct answers {
	struct ocp_ctx *ctx;
	struct ocp_program *prog;
	struct probe_place places[MAX_SITES];
	size_t n;
	char *names;
	char log[512];
};

static void take_log(void *data, enum ocp_log_level level, const char *line)
{
	struct answers *answers = data;

	if (level == OCP_LOG_WARN)
		snprintf(answers->log, sizeof(answers->log), "%s", line);
}

static int ask(const struct fixture *fixture, struct answers *answers)
{
	memset(answers, 0, sizeof(*answers));
	answers->ctx = ocp_ctx_new();
	assert_non_null(answers->ctx);
	ocp_ctx_set_log(answers->ctx, take_log, answers, OCP_LOG_WARN);
	assert_int_equal(fixture_open(fixture, answers->ctx, &answers->prog), 0);
	for (size_t i = 0; i < answers->prog->n_sites; i++)
		if (answers->prog->sites[i].has_code)
			answers->places[answers->n++].site = &answers->prog->sites[i];
	return places_find(answers->prog, answers->places, answers->n, &answers->names);
}

static void answers_free(struct answers *answers)
{
	free(answers->names);
	ocp_program_free(answers->prog);
	ocp_ctx_free(answers->ctx);
}

static const struct entry *entry_of(const struct table *table, uint64_t va)
{
	for (size_t i = 0; i < table->n; i++)
		if (table->entries[i].va == va)
			return &table->entries[i];
	return NULL;
}

static int load_fixture(void **state)
{
	static struct fixture fixture;

	fixture_load(&fixture, "v1-stripped");
	*state = &fixture;
	return 0;
}

static int free_fixture(void **state)
{
	fixture_free(*state);
	return 0;
}

EACH_TEST(load_fixture, free_fixture);

/* What was noted before the program was moved by MOVED. */
static void expect_places(const struct fixture *fixture, const struct table *table, uint64_t moved)
{
	struct answers answers;

	assert_int_equal(ask(fixture, &answers), 0);
	assert_string_equal(answers.log, "");
	for (size_t i = 0; i < answers.n; i++) {
		const struct probe_place *place = &answers.places[i];
		const struct entry *entry = entry_of(table, place->site->va - moved);

		if (!entry) {
			assert_null(place->file);
			continue;
		}
		assert_non_null(place->file);
		assert_string_equal(place->file, table->names + entry->file);
		assert_int_equal(place->line, entry->line);
		assert_int_equal(place->column, entry->column);
	}
	answers_free(&answers);
}

TEST(every_site_has_its_place)
{
	struct table table;

	make_table(*state, &table);
	add_table(*state, &table, table.n);
	expect_places(*state, &table, 0);
}

TEST(a_site_that_is_not_in_the_table_has_none)
{
	struct table table;

	make_table(*state, &table);
	table.entries[3].va--;
	table.n--;
	add_table(*state, &table, table.n);
	expect_places(*state, &table, 0);
}

TEST(a_prelinked_file)
{
	enum { MOVED = 0x1000 };
	struct table table;

	make_table(*state, &table);
	table.base -= MOVED;
	for (size_t i = 0; i < table.n; i++)
		table.entries[i].va -= MOVED;
	add_table(*state, &table, table.n);
	expect_places(*state, &table, MOVED);
}

TEST(control_characters_are_hidden)
{
	struct answers answers;
	struct table table;

	make_table(*state, &table);
	table.names[1] = '\033';
	add_table(*state, &table, table.n);
	assert_int_equal(ask(*state, &answers), 0);
	for (size_t i = 0; i < answers.n; i++)
		assert_null(strchr(answers.places[i].file, '\033'));
	answers_free(&answers);
}

TEST(without_a_table_nothing_is_known)
{
	struct answers answers;

	assert_int_equal(ask(*state, &answers), 0);
	assert_string_equal(answers.log, "");
	for (size_t i = 0; i < answers.n; i++) {
		assert_null(answers.places[i].file);
		assert_int_equal(answers.places[i].line, 0);
	}
	answers_free(&answers);
}

/* ---- tables that lie ------------------------------------------------------------------------ */

static void expect_nothing(const struct fixture *fixture, const char *why)
{
	struct answers answers;

	assert_int_equal(ask(fixture, &answers), 0);
	if (!strstr(answers.log, why))
		fail_msg("expected \"%s\", the warning is: %s", why, answers.log);
	for (size_t i = 0; i < answers.n; i++)
		assert_null(answers.places[i].file);
	answers_free(&answers);
}

static void too_many(struct table *table)
{
	table->n++;
}

static void too_many_by_far(struct table *table)
{
	table->n = UINT32_MAX;
}

static void too_few(struct table *table)
{
	table->n--;
}

static void too_many_names(struct table *table)
{
	table->names_bytes = UINT32_MAX - 15;
}

static void too_short(struct table *table)
{
	table->desc_bytes = PLACES_HEAD_BYTES - 1;
}

static void no_end(struct table *table)
{
	table->names[sizeof(names) - 1] = 'x';
}

static void outside(struct table *table)
{
	table->entries[2].file = sizeof(names);
}

static void far_outside(struct table *table)
{
	table->entries[2].file = UINT32_MAX;
}

static void nameless(struct table *table)
{
	table->entries[2].file = sizeof(names) - 1;
}

static void line_0(struct table *table)
{
	table->entries[2].line = 0;
}

static void line_of_32_bits(struct table *table)
{
	table->entries[2].line = UINT32_MAX;
}

static void unordered(struct table *table)
{
	table->entries[2].va = table->entries[8].va;
}

TEST(a_table_that_lies_is_not_believed)
{
	static const struct {
		void (*spoil)(struct table *table);
		const char *why;
	} lies[] = {
		{ too_many, "its size is not that of its entries" },
		{ too_many_by_far, "its size is not that of its entries" },
		{ too_few, "its size is not that of its entries" },
		{ too_many_names, "its size is not that of its entries" },
		{ too_short, "too short" },
		{ no_end, "the names are not terminated" },
		{ outside, "a file has no name" },
		{ far_outside, "a file has no name" },
		{ nameless, "a file has no name" },
		{ line_0, "a line or column is out of range" },
		{ line_of_32_bits, "a line or column is out of range" },
		{ unordered, "the sites are not sorted" },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct fixture fixture;
		struct table table;
		size_t n;

		fixture_load(&fixture, "v1-stripped");
		make_table(&fixture, &table);
		n = table.n;
		lies[i].spoil(&table);
		add_table(&fixture, &table, n);
		expect_nothing(&fixture, lies[i].why);
		fixture_free(&fixture);
	}
}

TEST(notes_that_lie)
{
	static const uint32_t words[][3] = { { 13, 0x7fffffff, PLACES_TYPE },
					     { 0xfffffff0, 16, PLACES_TYPE } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct fixture fixture;

		fixture_load(&fixture, "v1-stripped");
		replace_section(&fixture, ".comment", words[i], sizeof(words[i]));
		expect_nothing(&fixture, "note reaches past the end of its section");
		fixture_section(&fixture, PLACES_SECTION)->sh_size = UINT64_C(1) << 40;
		expect_nothing(&fixture, "cannot read source lines");
		fixture_free(&fixture);
	}
}

/* Whatever the bytes are, nothing is read outside of them (the sanitizers look on). */
TEST(noise)
{
	struct fixture *f = *state;
	struct table table;
	const Elf64_Shdr *section;
	unsigned int seed = 1;

	make_table(f, &table);
	add_table(f, &table, table.n);
	section = fixture_section(f, PLACES_SECTION);
	for (int round = 0; round < 2000; round++) {
		struct answers answers;
		size_t at = (size_t)rand_r(&seed) % section->sh_size;
		uint8_t old = f->bytes[section->sh_offset + at];

		f->bytes[section->sh_offset + at] = (uint8_t)rand_r(&seed);
		assert_int_equal(ask(f, &answers), 0);
		for (size_t i = 0; i < answers.n; i++)
			assert_true(!answers.places[i].file || *answers.places[i].file);
		answers_free(&answers);
		f->bytes[section->sh_offset + at] = old;
	}
}

/*
 * ---- what the debug information costs ---------------------------------------------------------
 * 
 * Calls of libdw that run a line program, or look for a unit: the linker leads them here.
 */

static size_t n_programs, n_searches, n_units;

WRAP(int, dwarf_getsrclines, (Dwarf_Die * unit, Dwarf_Lines **rows, size_t *n), (unit, rows, n))
{
	n_programs++;
	return __real_dwarf_getsrclines(unit, rows, n);
}

WRAP(Dwarf_Line *, dwarf_getsrc_die, (Dwarf_Die * unit, Dwarf_Addr va), (unit, va))
{
	n_searches++;
	return __real_dwarf_getsrc_die(unit, va);
}

WRAP(Dwarf_Die *, dwarf_addrdie, (Dwarf * dwarf, Dwarf_Addr va, Dwarf_Die *unit), (dwarf, va, unit))
{
	n_searches++;
	return __real_dwarf_addrdie(dwarf, va, unit);
}

WRAP(int, dwarf_get_units,
     (Dwarf * dwarf, Dwarf_CU *cu, Dwarf_CU **next, Dwarf_Half *version, uint8_t *type,
      Dwarf_Die *unit, Dwarf_Die *sub),
     (dwarf, cu, next, version, type, unit, sub))
{
	n_units++;
	return __real_dwarf_get_units(dwarf, cu, next, version, type, unit, sub);
}

/* Two units, of which one has all the sites, each with a row of its own. */
TEST_WITH(a_line_program_is_run_once, NULL, NULL)
{
	struct fixture fixture;
	struct answers answers;

	fixture_load(&fixture, "v1");
	n_programs = n_searches = n_units = 0;
	assert_int_equal(ask(&fixture, &answers), 0);
	assert_in_range(answers.n, 20, MAX_SITES);
	assert_int_equal(n_programs, 1);
	assert_int_equal(n_searches, 0);
	assert_in_range(n_units, 2, 3);
	answers_free(&answers);
	fixture_free(&fixture);
}
