// SPDX-License-Identifier: MIT
#include "measure/args/args_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "measure/args/operand.h"

void args_table_free(struct args_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->texts[i]);
	free(table->texts);
	free(table->by_text);
	free(table->entries);
	*table = (struct args_table){ 0 };
}

/* Where TEXT is in by_text, or should be. */
static size_t place_of(const struct args_table *table, const char *text, bool *found)
{
	size_t low = 0, high = table->n;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(table->texts[table->by_text[middle]], text);

		if (order == 0)
			*found = true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool grow(void **array, size_t n, size_t size)
{
	void *grown = realloc(*array, n * size);

	if (grown)
		*array = grown;
	return grown != NULL;
}

static int make_room(struct ocp_ctx *ctx, struct args_table *table)
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

int args_table_add(struct ocp_ctx *ctx, struct args_table *table, const char *text,
		   uint32_t *number)
{
	bool found;
	size_t place = place_of(table, text, &found);
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
	memmove(table->by_text + place + 1, table->by_text + place,
		(table->n - place) * sizeof(*table->by_text));
	table->by_text[place] = (uint32_t)table->n;
	*number = (uint32_t)table->n++;
	return 0;
}
