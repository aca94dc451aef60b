// SPDX-License-Identifier: MIT
#include "unwind/kernel_symbols.h"
#include "base/array.h"
#include "base/search.h"

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
	size_t n;
};

static int add_kernel_symbol(struct ocp_ctx *ctx, struct kernel_symbols *symbols, uint64_t address,
			     const char *name)
{
	struct kernel_symbol *new = array_add(symbols->list, symbols->n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = (struct kernel_symbol){ address, strdup(name) };
	if (new->name)
		return 0;
	symbols->n--;
	return ctx_no_memory(ctx);
}

/* Read a line "ffffffff81000000 T _text"; functions of modules have "\t[name]" behind it. */
static int read_kernel_symbol(struct ocp_ctx *ctx, struct kernel_symbols *symbols, char *line)
{
	char *end, *name;
	const uint64_t address = strtoull(line, &end, 16);

	if (!address || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	if (tolower(end[1]) != 't' && tolower(end[1]) != 'w')
		return 0;
	name = end + 3;
	name[strcspn(name, "\t \n")] = '\0';
	return add_kernel_symbol(ctx, symbols, address, name);
}

static int compare_kernel_symbols(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	return COMPARE(x->address, y->address);
}

int kernel_symbols_read(struct ocp_ctx *ctx, struct kernel_symbols **out)
{
	struct kernel_symbols *symbols = calloc(1, sizeof(*symbols));
	FILE *f = fopen("/proc/kallsyms", "re");
	char *line = NULL;
	size_t room = 0;
	int err = symbols ? 0 : ctx_no_memory(ctx);

	while (f && !err && getline(&line, &room, f) > 0)
		err = read_kernel_symbol(ctx, symbols, line);
	free(line);
	if (f)
		fclose(f);
	if (err) {
		kernel_symbols_free(symbols);
		return err;
	}
	if (symbols->n)
		qsort(symbols->list, symbols->n, sizeof(*symbols->list), compare_kernel_symbols);
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
	const size_t next = SEARCH(i, symbols->n, symbols->list[i].address <= address);

	return next ? symbols->list[next - 1].name : NULL;
}
