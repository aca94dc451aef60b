/* SPDX-License-Identifier: MIT */
/*
 * The kind of a file, for a tracer of native OCaml code: native OCaml code, OCaml's bytecode with
 * its interpreter, or a program of another language. All commands report a kind with the same
 * message.
 */
#ifndef CODE_PROGRAM_KIND_H
#define CODE_PROGRAM_KIND_H

#include "elf/elf_file.h"

enum program_kind {
	PROGRAM_NATIVE,
	PROGRAM_BYTECODE, /* ocamlrun, or a program linked with -custom or -output-complete-exe */
	PROGRAM_FOREIGN,  /* no OCaml */
};

/*
 * Find the kind of ELF (an executable, a library or a plugin) from its symbols. Without symbols,
 * use the frame tables, which strip leaves. Returns -EBADMSG if the symbol tables are damaged.
 */
int program_kind_read(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind);

/*
 * Find the kind of ELF from its symbols alone, with little memory. This is for libraries, which
 * export the symbols of the runtime that they contain.
 */
int program_kind_read_library(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind);

/*
 * Return 0 if KIND is PROGRAM_NATIVE. Otherwise record a message about WHO ("pid 7 (/bin/x)", or a
 * path), with a hint for bytecode, and return -ENODATA.
 */
int program_kind_need_native(struct ocp_ctx *ctx, enum program_kind kind, const char *who);

#endif
