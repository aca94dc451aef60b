/* SPDX-License-Identifier: MIT */
/*
 * What a file is for a tracer of native OCaml code: some, OCaml's bytecode with its interpreter, or a
 * program of another language. Messages about the three have one text each, whatever was asked.
 */
#ifndef CODE_PROGRAM_KIND_H
#define CODE_PROGRAM_KIND_H

#include "elf/elf_file.h"

enum program_kind {
	PROGRAM_NATIVE,
	PROGRAM_BYTECODE, /* ocamlrun, or a program that was linked with -custom or -output-complete-exe */
	PROGRAM_FOREIGN, /* no OCaml */
};

/*
 * Find the kind of ELF: an executable, a library or a plugin. Symbols tell, and, in an executable that
 * lacks them, the frame tables, which strip leaves. -EBADMSG if the symbol tables are damaged.
 */
int program_kind_read(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind);

/* The same by the symbols alone, with little memory: for libraries, which export their runtime's. */
int program_kind_read_library(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind);

/*
 * 0 if KIND is PROGRAM_NATIVE. Otherwise -ENODATA, with a message about WHO ("pid 7 (/bin/x)", or a path)
 * and a hint.
 */
int program_kind_need_native(struct ocp_ctx *ctx, enum program_kind kind, const char *who);

#endif
