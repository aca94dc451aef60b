/* SPDX-License-Identifier: MIT */
/*
 * The files that a process has mapped. Converts addresses in the process to places in these files.
 */
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
 * Set *PLACE to the place of ADDRESS in code or data of a file. Return false if it is unknown. If
 * no known mapping contains ADDRESS, read the mappings again, but at most once a second and only
 * while the process exists.
 */
bool code_map_find(struct code_map *map, uint64_t address, struct walked_place *place);

#endif
