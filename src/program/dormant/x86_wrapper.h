/* SPDX-License-Identifier: MIT */
/*
 * Where the arguments of a probe are at its site, read from the wrapper that an enabled site calls.
 * See x86_wrapper.c.
 */
#ifndef DORMANT_X86_WRAPPER_H
#define DORMANT_X86_WRAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/x86_site.h"

/* The most parameters of a handler that are followed. */
enum { X86_WRAPPER_PARAMS = 64 };

enum x86_place_kind {
	X86_PLACE_UNKNOWN = 0,
	X86_PLACE_REGISTER, /* general register `reg` */
	X86_PLACE_STACK,    /* the word at `off` from the stack pointer */
	X86_PLACE_CONSTANT,
};

/* What a parameter of the handler is, in the registers and stack of the moment at the site. */
struct x86_place {
	enum x86_place_kind kind;
	unsigned int reg;
	int64_t off;
};

/*
 * Follow the wrapper at POS of CODE up to its call of the handler, which has N parameters, all of
 * them integers or OCaml values. Returns NULL and fills PLACES, or a phrase that says why nothing
 * is known of any of them. Whatever CODE is, no byte outside of it is read, and the walk ends.
 */
const char *x86_find_params(const struct x86_code *code, size_t pos, size_t n,
			    struct x86_place *places);

#endif
