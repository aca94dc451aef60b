// SPDX-License-Identifier: MIT
#include "measure/args/arg_table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "measure/args/operand.h"
#include "program/arg_names.h"

void arg_table_free(struct arg_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->texts[i]);
	free(table->texts);
	free(table->by_text);
	free(table->entries);
	*table = (struct arg_table){ 0 };
}

static const char *text_of_number(const void *table, uint32_t number)
{
	return ((const struct arg_table *)table)->texts[number];
}

static bool enlarge_array(void **array, size_t n, size_t size)
{
	void *grown = realloc(*array, n * size);

	if (grown)
		*array = grown;
	return grown != NULL;
}

static int enlarge_table(struct ocp_ctx *ctx, struct arg_table *table)
{
	const size_t room = table->room * 2 + 16;

	if (table->n < table->room)
		return 0;
	if (!enlarge_array((void **)&table->entries, room, sizeof(*table->entries)) ||
	    !enlarge_array((void **)&table->texts, room, sizeof(char *)) ||
	    !enlarge_array((void **)&table->by_text, room, sizeof(*table->by_text)))
		return ctx_no_memory(ctx);
	table->room = room;
	return 0;
}

/*
 * For each name in ASKED, store a copy of the argument that has this name in NAMES: in the order of
 * ASKED, from index ARGS_MAX on.
 */
static void add_named(struct site_args *args, const char *names, const struct asked_names *asked)
{
	for (unsigned int i = 0; i < asked->n; i++) {
		const int at = arg_names_find(names, asked->names[i]);

		if (at >= 0 && (unsigned int)at < args->n)
			args->args[ARGS_MAX + i] = args->args[at];
	}
}

/*
 * Add an entry with TEXT at PLACE of by_text. The table then owns TEXT, unless an error is
 * returned.
 */
static int insert_text(struct ocp_ctx *ctx, struct arg_table *table, char *text,
		       const char *operands, size_t place)
{
	int err = enlarge_table(ctx, table);

	if (!err)
		err = operand_parse(ctx, operands, &table->entries[table->n]);
	if (err)
		return err;
	table->texts[table->n] = text;
	by_name_insert(table->by_text, table->n, place, (uint32_t)table->n);
	table->n++;
	return 0;
}

int arg_table_add(struct ocp_ctx *ctx, struct arg_table *table, const char *operands,
		  const char *names, const struct asked_names *asked, uint32_t *number)
{
	size_t place;
	char *text;
	bool found;
	int err = 0;

	if (asprintf(&text, "%s\n%s", operands, names) < 0)
		return ctx_no_memory(ctx);
	place = by_name_place(table->by_text, table->n, text_of_number, table, text, &found);
	if (!found)
		err = insert_text(ctx, table, text, operands, place);
	if (found || err)
		free(text);
	if (err)
		return err;
	*number = table->by_text[place];
	if (!found)
		add_named(&table->entries[*number], names, asked);
	return 0;
}

const char *arg_table_names(const struct arg_table *table, uint32_t number)
{
	return strchr(table->texts[number], '\n') + 1;
}
