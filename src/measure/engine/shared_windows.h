/* SPDX-License-Identifier: MIT */
/*
 * Windows that several sites of the engine share: those of lines that are executed together, and of
 * the function whose first lines they are.
 */
#ifndef MEASURE_SHARED_WINDOWS_H
#define MEASURE_SHARED_WINDOWS_H

#include <stddef.h>
#include "base/ctx.h"
#include "change/inside/inside.h"
#include "measure/engine/inside_meta.h"

/*
 * Keep one of the SITES[0..*N_SITES) at each address, with the roles of the others, and set
 * *N_SITES to how many are left. Set NUMBERS[i].site to the index of the site that counts for what
 * was site i. Returns -ENOTSUP with a message if sites differ that are at the same address, or
 * -ENOMEM.
 */
int shared_windows_join(struct ocp_ctx *ctx, struct inside_site *sites, size_t *n_sites,
			struct inside_number *numbers);

#endif
