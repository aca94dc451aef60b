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
	ARG_NAMES_MAX = 32, /* the largest number of arguments in a text; the ppx allows no more */
};

/* The name and the type of one argument. */
struct arg_name {
	const char *name; /* not terminated */
	size_t n_bytes;	  /* length of `name`; 0 if the argument has no name */
	enum ocp_arg_type type;
};

/*
 * Return true if the N bytes at TEXT are a well-formed text of names and types. The empty text is
 * well-formed.
 */
bool arg_names_are_sound(const char *text, size_t n);

/*
 * Return true if NAME, of N bytes, may be the name of an argument. arg0, arg1 ... are not allowed,
 * since they stand for positions.
 */
bool arg_name_is_sound(const char *name, size_t n);

/*
 * *TEXT points into a well-formed text that ends with NUL. Set *ARG to the next argument, and move
 * *TEXT past this argument. At the end of the text, set *ARG to an argument without name and type,
 * and return false.
 */
bool arg_names_next(const char **text, struct arg_name *arg);

/*
 * Return argument number ARG of TEXT, counted from 0. If TEXT has no argument with this number,
 * return an argument without name and type.
 */
struct arg_name arg_names_get(const char *text, size_t arg);

/*
 * Return the number, from 0, of the argument called NAME (terminated); -1 if TEXT has no such
 * argument.
 */
int arg_names_find(const char *text, const char *name);
#endif
