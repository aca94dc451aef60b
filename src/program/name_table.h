/* SPDX-License-Identifier: MIT */
/*
 * A hash table from the names of a program's probes to their numbers, used while the sites are
 * collected.
 */
#ifndef PROGRAM_NAME_TABLE_H
#define PROGRAM_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "program/program.h"

/*
 * Uses open addressing. A slot contains the number of a probe + 1; an empty slot contains 0.
 * Initialise the struct with zeros.
 */
struct name_table {
	uint32_t *slots;
	size_t n_slots;
};

/*
 * Set *NUMBER to the number of the probe called NAME, which has LENGTH bytes. If the name is new,
 * append a probe with this name to prog->probes; the probe's name is the pointer NAME itself, not a
 * copy. Return 0 or -ENOMEM.
 */
int name_table_number(struct name_table *table, struct ocp_program *prog, const char *name,
		      size_t length, uint32_t *number);
void name_table_free(struct name_table *table);

#endif
