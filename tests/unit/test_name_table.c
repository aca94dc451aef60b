// SPDX-License-Identifier: MIT
/* The numbers of names: each name has one, and the table grows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "program/name_table.h"
#include "unit.h"

enum { N = 5000, ROUNDS = 3, NAME_BYTES = 32 };

struct names {
	char text[N + 1][NAME_BYTES];
};

/* The last one is empty. */
static struct names *make_names(void)
{
	struct names *names = calloc(1, sizeof(*names));

	assert_non_null(names);
	for (int i = 0; i < N; i++)
		snprintf(names->text[i], NAME_BYTES, "%.*sprobe_%d", i % 9, "longword", i);
	return names;
}

static uint32_t number_of(struct name_table *table, struct ocp_program *prog, const char *name)
{
	uint32_t number = UINT32_MAX;

	assert_int_equal(name_table_number(table, prog, name, strlen(name), &number), 0);
	return number;
}

/* In each round the names are the same, at other addresses. */
TEST(each_name_has_one_number)
{
	struct ocp_program prog = { .ctx = ocp_ctx_new() };
	struct name_table table = { 0 };
	struct names *rounds[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		rounds[r] = make_names();
		for (uint32_t i = 0; i <= N; i++)
			assert_int_equal(number_of(&table, &prog, rounds[r]->text[i]), i);
	}
	assert_int_equal(prog.n_probes, N + 1);
	for (uint32_t i = 0; i <= N; i++)
		assert_ptr_equal(prog.probes[i].name, rounds[0]->text[i]);
	name_table_free(&table);
	for (int r = 0; r < ROUNDS; r++)
		free(rounds[r]);
	free(prog.probes);
	ocp_ctx_free(prog.ctx);
}

/* Probes that the program has already keep their numbers, and what is known of them. */
TEST(earlier_probes_are_known)
{
	struct ocp_program prog = { .ctx = ocp_ctx_new() };
	struct name_table table = { 0 };
	struct names *names = make_names();

	for (uint32_t i = 0; i < N / 2; i++) {
		struct probe *new = array_add(prog.probes, prog.n_probes);

		assert_non_null(new);
		*new = (struct probe){ .name = names->text[i], .n_sites = i };
	}
	for (uint32_t i = N; i-- > N / 2;)
		assert_int_equal(number_of(&table, &prog, names->text[i]), N / 2 + (N - 1 - i));
	for (uint32_t i = 0; i < N / 2; i++) {
		assert_int_equal(number_of(&table, &prog, names->text[i]), i);
		assert_int_equal(prog.probes[i].n_sites, i);
	}
	assert_int_equal(prog.n_probes, N);
	name_table_free(&table);
	free(names);
	free(prog.probes);
	ocp_ctx_free(prog.ctx);
}
