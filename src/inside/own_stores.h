/* SPDX-License-Identifier: MIT */
/*
 * The process itself writes to many places, in a stop: by a routine of stores.h, which is mapped into it for
 * that moment. All functions return
 *
 *	0		all is written
 *	-ENOTSUP	with a message: the process cannot do it, and nothing was written
 *	-EAGAIN		the same, and after another stop it might
 *	another error	what is written is not known. -ETIMEDOUT: the routine may still be under way
 */
#ifndef INSIDE_OWN_STORES_H
#define INSIDE_OWN_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "inside/held.h"
#include "inside/stop.h"
#include "inside/stores.h"
#include "tracee/patch.h"

/* To the sites of the block of INSIDE whose `store` is not 0: STORES_ATTACH or STORES_DETACH. */
int own_stores_sites(struct stop *stop, const struct inside *inside, enum stores_kind kind);

/*
 * WRITES in the order of their phases, made ready while the process runs. Single bytes are text, two bytes are
 * ordinary data. The writes must outlive the list.
 */
struct own_list;
int own_list_make(struct ocp_ctx *ctx, const struct patch_write *writes, size_t n,
		  struct own_list **out);
void own_list_free(struct own_list *list);
bool own_list_is_of(const struct own_list *list, const struct patch_write *writes, size_t n);

/* The caller has read the `old` values in this stop. */
int own_stores_list(struct stop *stop, const struct own_list *list);

#endif
