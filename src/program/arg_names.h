/* SPDX-License-Identifier: MIT */
/*
 * The names and types of a probe's arguments, as a text such as "id,customer:string,price:float".
 * See arg_names.c.
 */
#ifndef PROGRAM_ARG_NAMES_H
#define PROGRAM_ARG_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum {
	ARG_NAME_MAX = OCP_ARG_NAME_BYTES - 1,
	ARG_NAMES_MAX = 32, /* arguments in a text; the ppx allows no more */
};

/* One argument. */
struct arg_name {
	const char *name; /* not terminated */
	size_t n_bytes;	  /* of the name; 0: it has none */
	enum ocp_arg_type type;
};

/* Is TEXT of N bytes such a text? The empty one is. */
bool arg_names_are_sound(const char *text, size_t n);

/* Is it the name of an argument? arg0, arg1 ... are not: they are positions. */
bool arg_name_is_sound(const char *name, size_t n);

/*
 * Take the next argument from *TEXT, a sound text that ends with NUL. Returns false at the end, and
 * sets *ARG to one without name and type.
 */
bool arg_names_next(const char **text, struct arg_name *arg);

/* The argument number ARG of TEXT; one without name and type if TEXT does not have it. */
struct arg_name arg_names_get(const char *text, size_t arg);

/* Return the number of the argument called NAME (ends with a 0), or -1 if there is none. */
int arg_names_find(const char *text, const char *name);
#endif
