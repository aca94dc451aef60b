/* SPDX-License-Identifier: MIT */
/*
 * The symbol of an OCaml function, and the name that people write for it.
 *
 *	camlService__find_531 (4.x), camlService.find_531 (5.1 on)	Service.find	stamp 531
 *	camlDune__exe__Service__find_531				Service.find
 *	camlStdlib__List__map_94					List.map
 *	camlMylib__Service__find_531					Mylib.Service.find
 *	camlStdlib__$40_197						Stdlib.(@)
 *	camlService__fun_1257						Service.fun_1257, anonymous
 *	camlService__entry						Service.entry, initialiser
 *
 * OxCaml (-name-mangling-scheme structured) writes the whole path to the function:
 *
 *	_CamlU7ServiceM5CacheF4findD2_D531_	Service.Cache.find	stamp 531
 *	_CamlU7ServiceF4findL0_D3_D1257_	Service.find.fun_1257, anonymous, stamp 1257
 *	_CamlU7ServiceIU3LibF3mapD1_D7_		Service.(specialization_of).Lib.map	stamp 7
 */
#ifndef CODE_OCAML_NAME_H
#define CODE_OCAML_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OCAML_NAME_BYTES = 1024 };

enum ocaml_name_kind {
	OCAML_NAMED,
	OCAML_ANONYMOUS,
	OCAML_INITIALISER, /* runs the top level of its compilation unit */
};

struct ocaml_name {
	/*
	 * The full name: "Stdlib.List.map", "Dune__exe.Service.find". The short name that people
	 * write omits the first SHORT_AT bytes.
	 */
	char text[OCAML_NAME_BYTES];
	size_t short_at;
	size_t path_bytes; /* length of the unit's path in the text: "Stdlib.List" */
	uint32_t stamp;	   /* the compiler's number, unique in the compilation unit; 0: none */
	enum ocaml_name_kind kind;
};

/*
 * Decode SYMBOL. UNIT is the symbol of the compilation unit of SYMBOL ("camlMylib__Service"). UNIT
 * is NULL if the unit is unknown: the unit's name then ends after the last module name in SYMBOL.
 * Structured names contain their unit, so UNIT is ignored. Returns false if SYMBOL is not the
 * symbol of an OCaml function, or if its name is too long.
 */
bool ocaml_name_decode(const char *symbol, const char *unit, struct ocaml_name *name);

/*
 * If SYMBOL is a structured name, set UNIT to the symbol of its compilation unit, with which the
 * unit's marks begin, and return true.
 */
bool ocaml_name_unit(const char *symbol, char unit[OCAML_NAME_BYTES]);

/*
 * Insert into TEXT, the name of a function, the modules and functions of its file that contain the
 * function; write the result to LONGER. The first PATH_BYTES of TEXT are the unit's path. PATH is
 * the path in the debug information of a call in the function: "Dune__exe__Service.Cache.find" or
 * "Dune__exe__Service.Cache.find.(fun)". Returns 2 if PATH is the path of the function itself; 1 if
 * it is the path of a function inside the function, as in the second example; 0, without a valid
 * LONGER, if PATH does not contain the function, or is not safe to print.
 */
int ocaml_name_add_path(const char *text, size_t path_bytes, const char *path,
			char longer[OCAML_NAME_BYTES]);

/*
 * Write to LONGER the name of an anonymous function or a method: "Service.find.(fun)",
 * "Service.cache#find". TEXT and PATH_BYTES are as in ocaml_name_add_path(). PATH is the common
 * start of the paths of all calls in the function. The name ends with the last "(fun)" or method of
 * PATH: what follows is a function inside. If PATH has neither, it is the path of what contains the
 * function, and "(fun)" is added. Returns false if PATH is of another unit, or is unsafe to print.
 */
bool ocaml_name_of_anonymous(const char *text, size_t path_bytes, const char *path,
			     char longer[OCAML_NAME_BYTES]);

/* Return true if IDENTIFIER is that of a method or anonymous function with optional arguments. */
bool ocaml_name_is_anonymous_inner(const char *identifier);

/*
 * Set NAME to the name of a function of which only its PATH and KIND are known. Use STAMP in place
 * of the compiler's number, which is unknown. Returns false if PATH is not the path of a function
 * of this kind, or is not safe to print.
 */
bool ocaml_name_of_path(const char *path, enum ocaml_name_kind kind, uint32_t stamp,
			struct ocaml_name *name);

/*
 * Return the length of the common start of PATH[0..BYTES) and OTHER, in whole parts (names between
 * dots).
 */
size_t ocaml_name_common_path(const char *path, size_t bytes, const char *other);

/*
 * Return true if SYMBOL is a mark of a compilation unit: the mark before its code (SUFFIX is
 * "code_begin"), after its code ("code_end"), or at its frame table ("frametable"). If so, set
 * *BYTES to the length of the unit's symbol, with which the mark begins.
 */
bool ocaml_name_is_mark(const char *symbol, const char *suffix, size_t *bytes);

/*
 * Convert TEXT, a name that a user typed, to the form in struct ocaml_name: "Mylib__Service.find"
 * becomes "Mylib.Service.find", and "Stdlib.@" becomes "Stdlib.(@)". Move a stamp ("/531") from the
 * end of TEXT to *STAMP; *STAMP is -1 without a stamp. Returns false if TEXT is too long for a
 * name.
 */
bool ocaml_name_normalise(const char *text, char name[OCAML_NAME_BYTES], int64_t *stamp);

/*
 * Convert PATH, a path in debug information, to the form in struct ocaml_name. The path
 * "Mylib__Service", which is that of a unit's top level, becomes "Mylib.Service". Set *SHORT_AT to
 * the length of the prefix that the short name omits. Returns false if PATH is too long for a name.
 */
bool ocaml_name_of_debuginfo(const char *path, char name[OCAML_NAME_BYTES], size_t *short_at);

/*
 * Return the length of the prefix ("Stdlib.") of the full name TEXT that the short name omits; 0 if
 * it omits nothing.
 */
size_t ocaml_name_short_at(const char *text);

#endif
