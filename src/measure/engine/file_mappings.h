/* SPDX-License-Identifier: MIT */
/* Where a process has mapped a file. */
#ifndef MEASURE_ENGINE_FILE_MAPPINGS_H
#define MEASURE_ENGINE_FILE_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "look/maps.h"

/* A file, and its mappings in a process. */
struct file_mappings {
	pid_t pid;
	struct stat stat;
	struct mapping *mappings;
	size_t n;
};

/*
 * Set the mappings of FILE, of which pid and stat are set, to those in MAPS. The caller frees
 * file->mappings. Returns 0 or -ENOMEM.
 */
int file_mappings_find(struct ocp_ctx *ctx, const struct maps *maps, struct file_mappings *file);

/*
 * Set *ADDR to the address at which the process has mapped the byte at OFF of FILE: in an
 * executable mapping if EXECUTABLE, otherwise in a writable one. Return the number of such
 * mappings.
 */
size_t file_mappings_address(const struct file_mappings *file, uint64_t off, bool executable,
			     uint64_t *addr);

#endif
