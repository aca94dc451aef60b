/* SPDX-License-Identifier: MIT */
/*
 * Have a stopped process write to many places itself: it runs a routine of stores.h, which is
 * mapped only until its end. own_stores_sites() and own_stores_list() return
 *
 *	0		everything is written
 *	-ENOTSUP	with a message: the process cannot do it, and nothing was written
 *	-EAGAIN		the same, but another stop may help
 *	another error	some of it may be written. -ETIMEDOUT: the routine may still be running
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

/*
 * Write to the sites of the block of INSIDE whose `store` is not 0: STORES_ATTACH or STORES_DETACH.
 */
int own_stores_sites(struct stop *stop, const struct inside *inside, enum stores_kind kind);

/*
 * Prepare a list of WRITES, in the order of their phases. The process may run meanwhile. A write of
 * one byte must go to text, a write of two bytes to ordinary data. WRITES must outlive the list.
 */
struct own_list;
int own_list_make(struct ocp_ctx *ctx, const struct patch_write *writes, size_t n,
		  struct own_list **out);
void own_list_free(struct own_list *list);
bool own_list_is_of(const struct own_list *list, const struct patch_write *writes, size_t n);

/*
 * Carry out LIST. The `old` values are not compared: the caller must have read them in this stop.
 */
int own_stores_list(struct stop *stop, const struct own_list *list);

#endif
