/* SPDX-License-Identifier: MIT */
/* Probes of one file of a process that were inlined into another file. See externals.c. */
#ifndef PROCESS_EXTERNALS_H
#define PROCESS_EXTERNALS_H

#include "base/ctx.h"
#include "process/image.h"

/*
 * Add to each image of LIST the probes of the other images that were inlined into its code. An
 * image that cannot be read is left out, with a warning in the log.
 */
int externals_add(struct ocp_ctx *ctx, struct image_list *list);

#endif
