// SPDX-License-Identifier: MIT
#include "measure/args/arg_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "measure/args/operand.h"

void arg_table_free(struct arg_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->texts[i]);
	free(table->texts);
	free(table->by_text);
	free(table->entries);
	*table = (struct arg_table){ 0 };
}

static const char *text_of(const void *table, uint32_t number)
{
	return ((const struct arg_table *)table)->texts[number];
}

static bool grow(void **array, size_t n, size_t size)
{
	void *grown = realloc(*array, n * size);

	if (grown)
		*array = grown;
	return grown != NULL;
}

static int make_room(struct ocp_ctx *ctx, struct arg_table *table)
{
	const size_t room = table->room * 2 + 16;

	if (table->n < table->room)
		return 0;
	if (!grow((void **)&table->entries, room, sizeof(*table->entries)) ||
	    !grow((void **)&table->texts, room, sizeof(char *)) ||
	    !grow((void **)&table->by_text, room, sizeof(*table->by_text)))
		return ctx_no_memory(ctx);
	table->room = room;
	return 0;
}

int arg_table_add(struct ocp_ctx *ctx, struct arg_table *table, const char *text, uint32_t *number)
{
	bool found;
	size_t place = by_name_place(table->by_text, table->n, text_of, table, text, &found);
	int err;

	if (found) {
		*number = table->by_text[place];
		return 0;
	}
	err = make_room(ctx, table);
	if (!err)
		err = operand_parse(ctx, text, &table->entries[table->n]);
	if (err)
		return err;
	table->texts[table->n] = strdup(text);
	if (!table->texts[table->n])
		return ctx_no_memory(ctx);
	by_name_insert(table->by_text, table->n, place, (uint32_t)table->n);
	*number = (uint32_t)table->n++;
	return 0;
}
