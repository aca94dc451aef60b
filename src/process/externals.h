/* SPDX-License-Identifier: MIT */
/* Probes of one file of a process that were inlined into another one. See externals.c. */
#ifndef PROCESS_EXTERNALS_H
#define PROCESS_EXTERNALS_H

#include "base/ctx.h"
#include "process/image.h"

/*
 * Add to each image of LIST the probes of the other ones that its code has in it. What cannot be
 * read is left out, with a warning in the log.
 */
int externals_add(struct ocp_ctx *ctx, struct image_list *list);

#endif
