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
 * The WRITES in the order of their phases. The caller has read the `old` values. Single bytes are text, two
 * bytes are ordinary data.
 */
int own_stores_writes(struct stop *stop, const struct patch_write *writes, size_t n);

#endif
