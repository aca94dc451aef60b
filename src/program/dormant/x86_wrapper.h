/* SPDX-License-Identifier: MIT */
/*
 * Finds the places of a probe's arguments at its site, from the wrapper that an enabled site calls.
 * See x86_wrapper.c.
 */
#ifndef DORMANT_X86_WRAPPER_H
#define DORMANT_X86_WRAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/x86_site.h"

/* The largest supported number of parameters of a handler. */
enum { X86_WRAPPER_PARAMS = 64 };

enum x86_place_kind {
	X86_PLACE_UNKNOWN = 0,
	X86_PLACE_REGISTER, /* general register `reg` */
	X86_PLACE_STACK,    /* the word at offset `off` from the stack pointer */
	X86_PLACE_CONSTANT,
};

/* Where a parameter of the handler is at the site: in a register or on the stack. */
struct x86_place {
	enum x86_place_kind kind;
	unsigned int reg;
	int64_t off;
};

/*
 * Follow the wrapper at POS of CODE up to its call of the handler, which has N parameters, all of
 * them integers or OCaml values. Fill PLACES with the places of the parameters, and return NULL. If
 * the places are unknown, return a phrase that says why. CODE may contain any bytes: this function
 * always terminates, and reads nothing outside CODE.
 */
const char *x86_find_params(const struct x86_code *code, size_t pos, size_t n,
			    struct x86_place *places);

#endif
