/* SPDX-License-Identifier: MIT */
/* Restore the sites of a block, while the process is stopped. */
#ifndef INSIDE_RESTORE_H
#define INSIDE_RESTORE_H

#include <stddef.h>
#include "inside/held.h"
#include "inside/stop.h"

/*
 * Give our sites their original displacement back, and the opcode that their gates require: on if
 * the gate is not 0 and no other tool has switched the site off. Leave the sites of other tools
 * alone, and set *N_FOREIGN to their number.
 */
int restore_sites(struct stop *stop, struct inside *inside, size_t *n_foreign);

#endif
