// SPDX-License-Identifier: MIT
/* Functions of addresses, out of sound symbol tables and out of tables that lie. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/symbols.h"
#include "fixture.h"
#include "unit.h"

enum { MAX_ASKED = 64 };

/* What symbols_find says of a fixture's sites. */
struct asked {
	struct ocp_ctx *ctx;
	struct symbol_of list[MAX_ASKED];
	size_t n;
	char *names;
};

static int ask(const struct fixture *fixture, struct asked *asked)
{
	struct ocp_program *prog;
	int err;

	*asked = (struct asked){ .ctx = ocp_ctx_new() };
	assert_non_null(asked->ctx);
	assert_int_equal(fixture_open(fixture, asked->ctx, &prog), 0);
	for (size_t i = 0; i < prog->n_sites && asked->n < MAX_ASKED; i++)
		if (prog->sites[i].has_code)
			asked->list[asked->n++].va = prog->sites[i].va;
	err = symbols_find(asked->ctx, prog->elf, asked->list, asked->n, &asked->names);
	ocp_program_free(prog);
	return err;
}

static void asked_free(struct asked *asked)
{
	free(asked->names);
	ocp_ctx_free(asked->ctx);
}

static Elf64_Sym *symbol_of(const struct fixture *fixture, const char *name)
{
	const Elf64_Shdr *table = fixture_section(fixture, ".symtab");
	const char *strings =
		(const char *)fixture->bytes + fixture_section(fixture, ".strtab")->sh_offset;
	Elf64_Sym *symbols = (Elf64_Sym *)(fixture->bytes + table->sh_offset);

	for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++)
		if (strcmp(strings + symbols[i].st_name, name) == 0)
			return &symbols[i];
	fail_msg("the fixture has no symbol %s", name);
	return NULL;
}

static int load_fixture(void **state)
{
	static struct fixture fixture;

	fixture_load(&fixture, "v1");
	*state = &fixture;
	return 0;
}

static int free_fixture(void **state)
{
	fixture_free(*state);
	return 0;
}

EACH_TEST(load_fixture, free_fixture);

/* All are in fixture_round, or none has a name. */
static void expect_names(const struct fixture *fixture, bool named)
{
	uint64_t start = named ? symbol_of(fixture, "fixture_round")->st_value : 0;
	struct asked asked;

	assert_int_equal(ask(fixture, &asked), 0);
	assert_true(asked.n > 20);
	for (size_t i = 0; i < asked.n; i++) {
		if (!named) {
			assert_null(asked.list[i].name);
			continue;
		}
		assert_non_null(asked.list[i].name);
		assert_string_equal(asked.list[i].name, "fixture_round");
		assert_int_equal(asked.list[i].off, asked.list[i].va - start);
		assert_true(i == 0 || asked.list[i - 1].va <= asked.list[i].va);
	}
	asked_free(&asked);
}

static void expect_error(const struct fixture *fixture, const char *reason)
{
	struct asked asked;

	assert_int_equal(ask(fixture, &asked), -EBADMSG);
	if (!strstr(ocp_error(asked.ctx), reason))
		fail_msg("expected \"%s\", the error is: %s", reason, ocp_error(asked.ctx));
	for (size_t i = 0; i < asked.n; i++)
		assert_null(asked.list[i].name);
	assert_null(asked.names);
	asked_free(&asked);
}

TEST(sites_are_in_their_function)
{
	expect_names(*state, true);
}

TEST(stripped_files_have_no_names)
{
	struct fixture stripped;

	fixture_load(&stripped, "v1-stripped");
	expect_names(&stripped, false);
	fixture_free(&stripped);
}

TEST(without_a_size_there_is_no_function)
{
	symbol_of(*state, "fixture_round")->st_size = 0;
	expect_names(*state, false);
}

/* A function that spans everything, as a hostile file may say, is not preferred to a nearer one. */
TEST(the_nearest_function_is_taken)
{
	Elf64_Sym *wide = symbol_of(*state, "main");

	wide->st_value = 1;
	wide->st_size = UINT64_MAX - 1;
	expect_names(*state, true);
}

TEST(what_ends_before_is_not_taken)
{
	symbol_of(*state, "fixture_round")->st_size = 1;
	expect_names(*state, false);
}

TEST(names_outside_of_the_strings)
{
	struct fixture *f = *state;

	symbol_of(f, "fixture_round")->st_name = UINT32_MAX;
	expect_names(f, false);
	fixture_section(f, ".strtab")->sh_size = 0;
	expect_names(f, false);
}

/* The name runs to the end of the strings, without its NUL; or is longer than is believed. */
TEST(names_without_an_end)
{
	struct fixture *f = *state;
	char endless[10000];
	uint64_t off;

	memset(endless, 'x', sizeof(endless));
	off = fixture_append(f, endless, sizeof(endless));
	symbol_of(f, "fixture_round")->st_name = 1;
	fixture_section(f, ".strtab")->sh_offset = off;
	fixture_section(f, ".strtab")->sh_size = 100;
	expect_names(f, false);
	fixture_section(f, ".strtab")->sh_size = sizeof(endless);
	expect_names(f, false);
}

TEST(control_characters_are_hidden)
{
	struct fixture *f = *state;
	struct asked asked;

	memcpy(f->bytes + fixture_section(f, ".strtab")->sh_offset +
		       symbol_of(f, "fixture_round")->st_name,
	       "\033[2J", 4);
	assert_int_equal(ask(f, &asked), 0);
	assert_string_equal(asked.list[0].name, "?[2Jure_round");
	asked_free(&asked);
}

TEST(tables_outside_of_the_file)
{
	struct fixture *f = *state;
	Elf64_Shdr *table = fixture_section(f, ".symtab");

	table->sh_size = UINT64_C(1) << 30;
	expect_error(f, "reaches past the end of the file");
	table->sh_size = UINT64_MAX;
	expect_error(f, "symbol table claims");
	table->sh_size = 48;
	table->sh_offset = UINT64_MAX - 10;
	expect_error(f, "past the end of the file");
}

/*
 * Whatever the bytes of the tables are, nothing is read outside of them (the sanitizers look on).
 */
TEST(noise)
{
	struct fixture *f = *state;
	const Elf64_Shdr *table = fixture_section(f, ".symtab");
	unsigned int seed = 1;

	for (int round = 0; round < 200; round++) {
		struct asked asked;

		for (int i = 0; i < 500; i++)
			f->bytes[table->sh_offset + (size_t)rand_r(&seed) % table->sh_size] =
				(uint8_t)rand_r(&seed);
		ask(f, &asked);
		asked_free(&asked);
	}
}
