/* SPDX-License-Identifier: MIT */
/*
 * Have a stopped process write to many places itself, at the speed of memory: the process runs a
 * routine, which stays mapped only until it ends. own_stores_apply() and own_stores_sites() return
 *
 *	0		everything is written
 *	-ENOTSUP	with a message: the process cannot do it, and nothing was written
 *	-EAGAIN		as -ENOTSUP, but in another stop the process may be able to do it
 *	another error	some of the writes may be done. -ETIMEDOUT: the routine may still be running
 */
#ifndef CHANGE_INSIDE_OWN_STORES_H
#define CHANGE_INSIDE_OWN_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/stop/patch.h"

struct inside;
struct memory;
struct stop;
struct tracee;

/* Writes that a process is to carry out itself. */
struct own_stores;

/*
 * Prepare to have the process of MEMORY make stores. The process may run meanwhile. CTX, MEMORY,
 * TRACEE and PATCHER, all of the same process, must outlive *OUT. Returns -ENOTSUP, with a message,
 * if remote calls in the process are impossible.
 */
int own_stores_open(struct ocp_ctx *ctx, struct memory *memory, struct tracee *tracee,
		    struct patcher *patcher, struct own_stores **out);
void own_stores_close(struct own_stores *stores); /* STORES may be NULL */

/*
 * Prepare a list of the N WRITES, in the order of their phases, and forget the previous list. The
 * process may run meanwhile. A write of one byte must go to text, a write of two bytes to ordinary
 * data. WRITES must stay valid until the next call of this function. If N is 0, only forget the
 * previous list.
 */
int own_stores_prepare(struct own_stores *stores, const struct patch_write *writes, size_t n);

/*
 * Carry out WRITES. Call this in the work of tracee_run_stopped(). The `old` values are not
 * compared with the memory: the caller must have read them in this stop. After an error, *IS_UNSURE
 * is true if the process may still carry out the writes, or may have carried them out.
 */
int own_stores_apply(struct own_stores *stores, const struct patch_write *writes, size_t n,
		     bool *is_unsure);

/*
 * Wait until PID has finished the remote call or routine that a killed tool began in it. Then
 * remove what killed tools left: images of stores, descriptors and orphan blocks. Do all this only
 * if they left an image of stores or, if ALL is set, a descriptor or an orphan block; otherwise do
 * not touch the process. Return -EBUSY if the call or routine cannot end because something has
 * stopped the process.
 */
int inside_clear(struct ocp_ctx *ctx, pid_t pid, bool all);

/*
 * If at least this many sites are to be written, the process stores the bytes itself. The remote
 * calls that are needed for this take as long as STORES_MIN writes by the tool.
 */
enum { STORES_MIN = 64 };

enum stores_kind {
	/*
	 * For each block_site whose `store` is not 0: store the opcode 3d, then the displacement of
	 * the trampoline, then `store` as the opcode. Between any two of these stores, all sites
	 * hold valid instructions. The nop is not written: it belongs to uprobes.
	 */
	STORES_ATTACH,
	STORES_DETACH, /* as STORES_ATTACH, but store the original displacement */
	STORES_LIST,   /* the entries of a list, one after the other */
	N_STORES_KINDS,
};

/*
 * Write to the sites of the block of INSIDE whose `store` is not 0. KIND is STORES_ATTACH or
 * STORES_DETACH. Call this in the work of stop_run().
 */
int own_stores_sites(struct stop *stop, const struct inside *inside, enum stores_kind kind);

#endif
