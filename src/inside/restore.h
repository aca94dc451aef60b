/* SPDX-License-Identifier: MIT */
/* Restoring the sites of a block, in a stop. */
#ifndef INSIDE_RESTORE_H
#define INSIDE_RESTORE_H

#include <stddef.h>
#include "inside/held.h"
#include "inside/stop.h"

/*
 * Give the sites that are ours their displacement back, and the opcode that their gates ask for.
 * *N_FOREIGN: sites of another tool, which are left alone.
 */
int restore_sites(struct stop *stop, struct inside *inside, size_t *n_foreign);

#endif
