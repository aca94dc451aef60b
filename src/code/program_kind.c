// SPDX-License-Identifier: MIT
#include "code/program_kind.h"

#include <errno.h>

#include "code/frametable.h"
#include "elf/symbols.h"

/*
 * Find the kind of a file without symbols from its frame tables. If the tables are damaged, assume
 * native OCaml code.
 */
static enum program_kind kind_of_nameless(struct ocp_ctx *ctx, struct elf_file *elf)
{
	struct frametable *table = NULL;
	const int err = frametable_read(ctx, elf, &table);

	frametable_free(table);
	return err == -ENODATA ? PROGRAM_FOREIGN : PROGRAM_NATIVE;
}

static int read_names(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind,
		      bool *is_stripped)
{
	enum { BYTECODE, FRAMETABLE, PLUGIN, N_NAMES };
	struct named_symbol names[N_NAMES] = {
		/* OCaml 5.4 renamed the interpreter, caml_interprete. */
		[BYTECODE] = { .name = "caml_startup_code" },
		[FRAMETABLE] = { .name = "caml_frametable" },
		[PLUGIN] = { .name = "caml_plugin_header" },
	};
	const int err = named_symbols_find(ctx, elf, names, N_NAMES, is_stripped);

	if (err)
		return err;
	if (names[BYTECODE].is_defined)
		*kind = PROGRAM_BYTECODE;
	else if (names[FRAMETABLE].is_defined || names[PLUGIN].is_defined)
		*kind = PROGRAM_NATIVE;
	else
		*kind = PROGRAM_FOREIGN;
	return 0;
}

int program_kind_read(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind)
{
	bool is_stripped;
	const int err = read_names(ctx, elf, kind, &is_stripped);

	if (!err && *kind == PROGRAM_FOREIGN && is_stripped)
		*kind = kind_of_nameless(ctx, elf);
	return err;
}

int program_kind_read_library(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind)
{
	bool is_stripped;

	return read_names(ctx, elf, kind, &is_stripped);
}

int program_kind_need_native(struct ocp_ctx *ctx, enum program_kind kind, const char *who)
{
	switch (kind) {
	case PROGRAM_NATIVE:
		return 0;
	case PROGRAM_BYTECODE:
		ctx_set_error(ctx, "%s: runs OCaml bytecode, not native code", who);
		ctx_hint(ctx, ELF_NO_BYTECODE_HINT);
		return -ENODATA;
	case PROGRAM_FOREIGN:
		break;
	}
	return ctx_error(ctx, -ENODATA, "%s: not an OCaml program: it contains no OCaml runtime",
			 who);
}
