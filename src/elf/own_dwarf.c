// SPDX-License-Identifier: MIT
#include "elf/own_dwarf.h"

#include <elfutils/libdwelf.h>

Dwarf *own_dwarf_begin(struct ocp_ctx *ctx, int fd, const char *name)
{
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	const char *other, *why = dwarf ? "parts of them are in another file" : dwarf_errmsg(-1);
	const void *id;

	if (dwarf && dwelf_dwarf_gnu_debugaltlink(dwarf, &other, &id) == 0)
		return dwarf;
	dwarf_end(dwarf);
	ctx_log(ctx, OCP_LOG_DEBUG, "%s: cannot read source lines: %s", name, why);
	return NULL;
}
