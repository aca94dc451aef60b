// SPDX-License-Identifier: MIT
#include "measure/engine/inside_place.h"

/* By enum arg_register: the number that the processor gives the register; -1 for rip. */
static const int numbers[ARG_REGISTERS] = {
	[ARG_RAX] = 0,	[ARG_RCX] = 1,	[ARG_RDX] = 2,	[ARG_RBX] = 3,	[ARG_RSP] = 4,
	[ARG_RBP] = 5,	[ARG_RSI] = 6,	[ARG_RDI] = 7,	[ARG_R8] = 8,	[ARG_R9] = 9,
	[ARG_R10] = 10, [ARG_R11] = 11, [ARG_R12] = 12, [ARG_R13] = 13, [ARG_R14] = 14,
	[ARG_R15] = 15, [ARG_RIP] = -1,
};

bool inside_place_of(const struct arg_spec *spec, struct inside_place *place)
{
	*place = (struct inside_place){ INSIDE_CONSTANT, spec->number };
	if (spec->type != ARG_VALUE || spec->size != 8)
		return false;
	switch (spec->kind) {
	case ARG_CONSTANT:
		return true;
	case ARG_REGISTER:
		if (spec->base >= ARG_REGISTERS || spec->base == ARG_RSP || spec->base == ARG_RIP)
			return false;
		*place = (struct inside_place){ INSIDE_REGISTER, numbers[spec->base] };
		return true;
	case ARG_MEMORY:
		place->kind = INSIDE_STACK;
		return spec->base == ARG_RSP && spec->index == ARG_NO_REGISTER && !spec->n_then &&
		       spec->number >= 0 && spec->number <= INSIDE_STACK_MAX;
	default:
		return false;
	}
}
