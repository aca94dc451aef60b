// SPDX-License-Identifier: MIT
#include "unwind/kernel_symbols.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernel_symbol {
	uint64_t address;
	char *name;
};

struct kernel_symbols {
	struct kernel_symbol *list;
	size_t n, room;
};

static int add(struct ocp_ctx *ctx, struct kernel_symbols *symbols, uint64_t address,
	       const char *name)
{
	if (symbols->n == symbols->room) {
		const size_t room = symbols->room ? 2 * symbols->room : 1 << 16;
		void *list = reallocarray(symbols->list, room, sizeof(*symbols->list));

		if (!list)
			return ctx_no_memory(ctx);
		symbols->list = list;
		symbols->room = room;
	}
	symbols->list[symbols->n] = (struct kernel_symbol){ address, strdup(name) };
	if (!symbols->list[symbols->n].name)
		return ctx_no_memory(ctx);
	symbols->n++;
	return 0;
}

/* "ffffffff81000000 T _text", and for a module "\t[name]" behind it. */
static int read_line(struct ocp_ctx *ctx, struct kernel_symbols *symbols, char *line)
{
	char *end, *name;
	const uint64_t address = strtoull(line, &end, 16);

	if (!address || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	if (tolower(end[1]) != 't' && tolower(end[1]) != 'w')
		return 0;
	name = end + 3;
	name[strcspn(name, "\t \n")] = '\0';
	return add(ctx, symbols, address, name);
}

static int compare(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

int kernel_symbols_read(struct ocp_ctx *ctx, struct kernel_symbols **out)
{
	struct kernel_symbols *symbols = calloc(1, sizeof(*symbols));
	FILE *f = fopen("/proc/kallsyms", "re");
	char *line = NULL;
	size_t room = 0;
	int err = symbols ? 0 : ctx_no_memory(ctx);

	while (f && !err && getline(&line, &room, f) > 0)
		err = read_line(ctx, symbols, line);
	free(line);
	if (f)
		fclose(f);
	if (err) {
		kernel_symbols_free(symbols);
		return err;
	}
	if (symbols->n)
		qsort(symbols->list, symbols->n, sizeof(*symbols->list), compare);
	*out = symbols;
	return 0;
}

void kernel_symbols_free(struct kernel_symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->n; i++)
		free(symbols->list[i].name);
	free(symbols->list);
	free(symbols);
}

const char *kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address)
{
	size_t low = 0, high = symbols->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (symbols->list[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? symbols->list[low - 1].name : NULL;
}
