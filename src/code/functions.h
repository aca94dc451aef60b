/* SPDX-License-Identifier: MIT */
/*
 * Room code: the code of an OCaml program.
 * In: an ELF file.
 * Out: functions and their names, instructions, frame tables, parts of the runtime.
 * Callers: program, process, unwind and the rooms above them.
 */
/*
 * The functions of an executable, a library or a plugin, from its symbols or, without symbols, from
 * its frame tables.
 */
#ifndef CODE_FUNCTIONS_H
#define CODE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str_regexp.h"
#include "code/ocaml_name.h"
#include "elf/elf_file.h"

enum function_language {
	FUNCTION_OCAML,
	FUNCTION_C,
	/*
	 * Neither OCaml nor C: the code that ocamlopt generates when it links (caml_applyN,
	 * caml_curryN, caml_program), and the runtime's assembler code (caml_call_gc, caml_c_call).
	 * Such code is called like OCaml functions; like OCaml functions, it must not have a return
	 * probe.
	 */
	FUNCTION_GLUE,
};

enum { ARITY_UNKNOWN = -128 };

struct function {
	/*
	 * The symbol as in the file, with '?' for all but printable ASCII. NULL in a file without
	 * symbols.
	 */
	const char *symbol;
	/* OCaml: "Service.Cache.find", "List.map"; otherwise the symbol. */
	const char *name;
	const char *full_name; /* OCaml: "Stdlib.List.map"; ends with the name */
	/*
	 * OCaml: the names according to the symbol alone: "Service.find" for "Service.Cache.find",
	 * "Service.fun_1257" for "Service.find.(fun)".
	 */
	const char *flat_name, *full_flat_name;
	const char *version; /* C: "GLIBC_2.29"; NULL: none */
	uint64_t va;	     /* link-time address */
	uint64_t bytes;	     /* the size of the code, all of which is in the file */
	/*
	 * The number that the compiler gave the function, unique in the compilation unit; 0: none.
	 * In a file without symbols, the lower 32 bits of the address.
	 */
	uint32_t stamp;
	/* OCaml: length of the unit's path in the full names: "Stdlib.List" */
	uint16_t path_bytes;
	uint16_t version_index; /* greater for later versions; 0: unknown */
	/*
	 * the number of arguments; -N if the function takes one tuple of N elements; or
	 * ARITY_UNKNOWN
	 */
	int8_t arity;
	uint8_t language;    /* enum function_language */
	bool is_anonymous;   /* "Service.find.(fun)", "Service.cache#find", "Service.fun_1257" */
	bool is_initialiser; /* "Service.entry": runs the top level of a compilation unit */
	bool is_chosen;	     /* an IFUNC: va is the address of the resolver, see ifunc.h */
	bool is_hidden;	     /* programs are not linked with this version */
	bool is_unique;	     /* the only OCaml function of this name: the stamp is not needed */
};

struct functions;
struct units;

/*
 * Read the functions that ELF defines. Without .symtab, which strip removes, .dynsym has all
 * functions of OCaml and the global functions of its runtime. Without .dynsym, as in static
 * programs, .eh_frame and the frame tables have many functions of OCaml. Returns -ENODATA if the
 * file lacks all of these, -EBADMSG if a table is damaged or exceeds the limits. Returns 0 for a
 * file with symbols but without OCaml code.
 */
int functions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct functions **out);
void functions_free(struct functions *functions);

/* Return all functions, sorted by va. Several may have the same va. */
const struct function *functions_list(const struct functions *functions, size_t *n);

/*
 * Return the addresses where functions begin, sorted, each once: for code_file_open. The addresses
 * do not include parts of functions that a C compiler put elsewhere (NAME.cold). The array exists
 * as long as FUNCTIONS.
 */
const uint64_t *functions_entries(const struct functions *functions, size_t *n);

/* The table from which the functions were read. A stripped file lacks the local functions of C. */
enum functions_source {
	FUNCTIONS_OF_SYMTAB,
	FUNCTIONS_OF_DYNSYM,
	FUNCTIONS_WITHOUT_SYMBOLS, /* only OCaml functions that have names in the frame tables */
};
enum functions_source functions_source(const struct functions *functions);

/* Return the compilation units. */
const struct units *functions_units(const struct functions *functions);

/* Return the number of OCaml functions. */
size_t functions_ocaml_count(const struct functions *functions);

/*
 * Return true if the file has an OCaml runtime. A bytecode interpreter has one, but no OCaml
 * functions.
 */
bool functions_have_runtime(const struct functions *functions);

/*
 * Return true if Flambda, an optimiser of ocamlopt, compiled code of the file. A function can then
 * have a wrapper with the same name.
 */
bool functions_are_of_flambda(const struct functions *functions);

/*
 * Return true if the functions run on OCaml's own stacks, as in OCaml 5. The symbols show this by a
 * dot ("camlM.f_1"); OCaml 5.0 has no such dot, so the result is false for 5.0. Without symbols,
 * the frame tables show it.
 */
bool functions_have_ocaml_stacks(const struct functions *functions);

/*
 * Return 0 if there are OCaml functions. Otherwise record an error message that begins with NAME,
 * and return -ENODATA.
 */
int functions_require_ocaml(struct ocp_ctx *ctx, const struct functions *functions,
			    const char *name);

/*
 * Find the OCaml functions called NAME: "List.map", "Stdlib.List.map", "Stdlib__List.map", each
 * also with a stamp ("List.map/94"). If there are none, find the functions whose flat name is NAME:
 * "Service.find" for "Service.Cache.find". Returns an array of *N pointers, which belongs to
 * FUNCTIONS; NULL if there is no such function.
 */
const struct function *const *functions_find(const struct functions *functions, const char *name,
					     size_t *n);

/* Like functions_find(), but without the flat names. */
const struct function *const *functions_find_exact(const struct functions *functions,
						   const char *name, size_t *n);

/* Return all OCaml functions, sorted by name, then by stamp. */
const struct function *const *functions_by_name(const struct functions *functions, size_t *n);

/*
 * Return the function of C or glue whose symbol is SYMBOL, or NULL without one. If a function has
 * several versions, "pow" means the version with which programs are linked, or the latest version
 * if programs are linked with none of them; "pow@GLIBC_2.2.5" means the version GLIBC_2.2.5.
 */
const struct function *functions_find_c(const struct functions *functions, const char *symbol);

/* Return the functions of C or glue with this name, in all versions: *N pointers, or NULL. */
const struct function *const *functions_versions(const struct functions *functions,
						 const char *name, size_t *n);

/* Return the function whose code contains VA, or NULL if no function does. */
const struct function *functions_at(const struct functions *functions, uint64_t va);

/*
 * Write to TEXT the name that selects only FUNCTION: "Service.find", or "Service.find/531" if the
 * name is not unique. (The initialiser of a unit has the stamp 0.) Returns TEXT.
 */
enum { FUNCTION_TEXT_BYTES = 1024 + 16 };
const char *function_text(const struct function *function, char text[FUNCTION_TEXT_BYTES]);

/*
 * Return true if RE matches the name, the name with its stamp, the full name or the flat name of
 * FUNCTION.
 */
bool function_matches(const struct function *function, const struct str_regexp *re);

#endif
