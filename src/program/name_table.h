/* SPDX-License-Identifier: MIT */
/* The numbers of a program's probes by name, while its sites are collected. */
#ifndef PROGRAM_NAME_TABLE_H
#define PROGRAM_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "program/program.h"

/* Open addressing; the values are numbers + 1. Zeros: no name has been looked up yet. */
struct name_table {
	uint32_t *slots;
	size_t n_slots;
};

/*
 * *NUMBER is that of the probe called NAME, which has LENGTH bytes. A new name becomes the last one
 * of prog->probes, and points to NAME. Returns 0 or -ENOMEM.
 */
int name_table_number(struct name_table *table, struct ocp_program *prog, const char *name,
		      size_t length, uint32_t *number);
void name_table_free(struct name_table *table);

#endif
