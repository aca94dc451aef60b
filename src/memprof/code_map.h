/* SPDX-License-Identifier: MIT */
/* The files that a process has mapped. Converts its addresses to places in files. */
#ifndef MEMPROF_CODE_MAP_H
#define MEMPROF_CODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "unwind/stack_walker.h"

struct code_map;

/* Read the mappings of PID. Files that cannot be read are left out. */
int code_map_open(struct ocp_ctx *ctx, pid_t pid, struct code_map **out);
void code_map_close(struct code_map *map);

/*
 * Find the PLACE of ADDRESS in code or data. Returns false if it is unknown. If no known mapping
 * contains ADDRESS, read the mappings again, at most once a second and only while the process
 * exists.
 */
bool code_map_find(struct code_map *map, uint64_t address, struct walked_place *place);

#endif
