// SPDX-License-Identifier: MIT
/*
 * ocamlopt -g has the assembler write DWARF line tables; libdw reads them. Tables of addresses
 * (.debug_aranges) lead to the compilation unit; where there are none the units are asked one by
 * one.
 */
#include "elf/lines.h"

#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

/* Names of files, each once in a row: most addresses of one file stand together. */
struct names {
	char *text;
	size_t bytes, room;
	const char *last; /* in libdw's memory */
	size_t last_off;
};

/* Where NAME is in the text, + 1; 0 when memory is short. */
static size_t add_name(struct names *names, const char *name)
{
	const size_t bytes = strlen(name) + 1;

	if (name == names->last)
		return names->last_off + 1;
	if (names->room - names->bytes < bytes) {
		const size_t room = 2 * names->room + bytes;
		char *text = realloc(names->text, room);

		if (!text)
			return 0;
		names->text = text;
		names->room = room;
	}
	memcpy(names->text + names->bytes, name, bytes);
	names->last = name;
	names->last_off = names->bytes;
	names->bytes += bytes;
	return names->last_off + 1;
}

static Dwarf_Die *find_unit(Dwarf *dwarf, uint64_t va, Dwarf_Die *unit)
{
	Dwarf_CU *cu = NULL;

	if (dwarf_addrdie(dwarf, va, unit))
		return unit;
	while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, unit, NULL) == 0)
		if (dwarf_haspc(unit, va) == 1)
			return unit;
	return NULL;
}

/* OFFS[i] is where the answer's name is, + 1; 0: not known. */
static int find_all(struct ocp_ctx *ctx, Dwarf *dwarf, struct line_of *asked, size_t n,
		    struct names *names, size_t *offs)
{
	for (size_t i = 0; i < n; i++) {
		Dwarf_Die memory;
		Dwarf_Die *unit = find_unit(dwarf, asked[i].va, &memory);
		Dwarf_Line *line = unit ? dwarf_getsrc_die(unit, asked[i].va) : NULL;
		const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;

		if (!file || dwarf_lineno(line, &asked[i].line) != 0 || !asked[i].line)
			continue;
		offs[i] = add_name(names, file);
		if (!offs[i])
			return ctx_no_memory(ctx);
	}
	return 0;
}

int lines_find(struct ocp_ctx *ctx, int fd, const char *name, struct line_of *asked, size_t n,
	       char **names)
{
	struct names found = { 0 };
	size_t *offs = calloc(n + 1, sizeof(*offs));
	Dwarf *dwarf;
	int err = 0;

	*names = NULL;
	if (!offs)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n; i++) {
		asked[i].file = NULL;
		asked[i].line = 0;
	}
	dwarf = dwarf_begin(fd, DWARF_C_READ);
	if (dwarf)
		err = find_all(ctx, dwarf, asked, n, &found, offs);
	else
		ctx_log(ctx, OCP_LOG_DEBUG, "%s: no source lines: %s", name, dwarf_errmsg(-1));
	for (size_t i = 0; !err && i < n; i++)
		if (offs[i])
			asked[i].file = found.text + offs[i] - 1;
	dwarf_end(dwarf);
	free(offs);
	if (err)
		free(found.text);
	else
		*names = found.text;
	return err;
}
