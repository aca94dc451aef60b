/* SPDX-License-Identifier: MIT */
/* The functions of an executable, a library or a plugin, from its symbols. */
#ifndef CODE_FUNCTIONS_H
#define CODE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str_regexp.h"
#include "elf/elf_file.h"

enum function_language {
	FUNCTION_OCAML,
	FUNCTION_C,
	/*
	 * Between both: what ocamlopt generates when it links (caml_applyN, caml_curryN,
	 * caml_program), and the runtime's assembler code (caml_call_gc, caml_c_call). Called like
	 * OCaml's functions, and like them they bear no return probe.
	 */
	FUNCTION_GLUE,
};

enum { ARITY_UNKNOWN = -128 };

struct function {
	/* As in the file; what is not printable ASCII is '?'. NULL in a file without symbols. */
	const char *symbol;
	/* OCaml: "Service.Cache.find", "List.map"; otherwise the symbol. */
	const char *name;
	const char *full_name; /* OCaml: "Stdlib.List.map"; ends with the name */
	/* OCaml: what the symbol alone tells: "Service.find". */
	const char *flat_name, *full_flat_name;
	const char *version; /* C: "GLIBC_2.29"; NULL: none */
	uint64_t va;	     /* link-time address */
	uint64_t bytes;	     /* of its code; all of it is in the file */
	/* The compiler's number, unique in its unit; 0: none. In a file without symbols, the address. */
	uint32_t stamp;
	uint16_t path_bytes;	/* OCaml: of the unit in the full names: "Stdlib.List" */
	uint16_t version_index; /* later versions have greater ones; 0: unknown */
	int8_t arity;		/* negative: takes one tuple of so many; ARITY_UNKNOWN */
	uint8_t language;	/* enum function_language */
	bool is_anonymous;	/* "Service.fun_1257" */
	bool is_initialiser;	/* "Service.entry": runs the top level of a compilation unit */
	bool is_chosen;		/* an IFUNC: the address is that of the code that chooses one */
	bool is_hidden;		/* not the version that programs are linked with */
	bool is_unique;		/* no other OCaml function has this name: it needs no stamp */
};

struct functions;
struct units;

/*
 * Read the functions that ELF defines. Without .symtab, which strip removes, .dynsym has all functions
 * of OCaml and of its runtime. Without .dynsym, as in static programs, .eh_frame and the frame tables
 * have many functions of OCaml: see bare_functions.h. -ENODATA: the file has none of that. -EBADMSG: a table is damaged or exceeds
 * the limits. A file without OCaml code is no error.
 */
int functions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct functions **out);
void functions_free(struct functions *functions);

/* All functions, sorted by va. Several may have the same va. */
const struct function *functions_list(const struct functions *functions, size_t *n);

/*
 * The addresses where functions begin, sorted, each once: for code_file_open. Parts that a C compiler put
 * elsewhere (NAME.cold) are not among them. They exist as long as FUNCTIONS.
 */
const uint64_t *functions_entries(const struct functions *functions, size_t *n);

/* Where the functions are from. A stripped file lacks the local functions of C. */
enum functions_source {
	FUNCTIONS_OF_SYMTAB,
	FUNCTIONS_OF_DYNSYM,
	FUNCTIONS_WITHOUT_SYMBOLS, /* OCaml's alone, those that have names in the frame tables */
};
enum functions_source functions_source(const struct functions *functions);

/* The compilation units. */
const struct units *functions_units(const struct functions *functions);

/* The number of OCaml functions. */
size_t functions_ocaml_count(const struct functions *functions);

/* Does the file have a runtime of OCaml? A bytecode interpreter has one, and no OCaml functions. */
bool functions_have_runtime(const struct functions *functions);

/* Has Flambda compiled some of the file? A function may then have a wrapper of its own name. */
bool functions_are_of_flambda(const struct functions *functions);

/*
 * Do the functions run on stacks of OCaml's own, as from OCaml 5 on? Their symbols tell ("camlM.f_1"; not
 * those of 5.0) or, without symbols, the frame tables.
 */
bool functions_have_ocaml_stacks(const struct functions *functions);

/*
 * -ENODATA, with a message that has NAME, unless there are OCaml functions.
 */
int functions_require_ocaml(struct ocp_ctx *ctx, const struct functions *functions,
			    const char *name);

/*
 * The OCaml functions called NAME: "List.map", "Stdlib.List.map", "Stdlib__List.map", each also with a
 * stamp ("List.map/94"). If there are none, those whose symbols have that name: "Service.find" for
 * "Service.Cache.find". Returns an array of *N pointers, which belongs to FUNCTIONS; NULL: none.
 */
const struct function *const *functions_find(const struct functions *functions, const char *name,
					     size_t *n);

/* All OCaml functions, sorted by name, then by stamp. */
const struct function *const *functions_by_name(const struct functions *functions, size_t *n);

/*
 * The function of C or glue with this symbol, or NULL. Of several versions "pow" is the one that
 * programs are linked with, or the last one if they are linked with none; "pow@GLIBC_2.2.5" is that one.
 */
const struct function *functions_find_c(const struct functions *functions, const char *symbol);

/* The functions of C or glue with this name, whatever their versions: *N pointers, or NULL. */
const struct function *const *functions_versions(const struct functions *functions,
						 const char *name, size_t *n);

/* The function whose code contains VA, or NULL. */
const struct function *functions_at(const struct functions *functions, uint64_t va);

/*
 * The name with which FUNCTION alone can be selected: "Service.find", or "Service.find/531" if the name
 * is not unique. (The initialiser of a unit has the stamp 0.) Written to TEXT.
 */
enum { FUNCTION_TEXT_BYTES = 1024 + 16 };
const char *function_text(const struct function *function, char text[FUNCTION_TEXT_BYTES]);

/* Does RE match the name, with or without its stamp, the whole name, or what the symbol alone tells? */
bool function_matches(const struct function *function, const struct str_regexp *re);

#endif
