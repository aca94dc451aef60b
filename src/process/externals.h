/* SPDX-License-Identifier: MIT */
/* Probes of one file of a process that were inlined into another file. See externals.c. */
#ifndef PROCESS_EXTERNALS_H
#define PROCESS_EXTERNALS_H

#include "base/ctx.h"
#include "process/image.h"

/*
 * Add to each image of LIST the probes of other images that were inlined into its code. If an image
 * cannot be read, log a warning and add nothing to it. Then remove the images without probes from
 * LIST.
 */
int externals_add(struct ocp_ctx *ctx, struct image_list *list);

#endif
