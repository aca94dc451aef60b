/* SPDX-License-Identifier: MIT */
/*
 * Finds and removes int3s without a uprobe: a killed tool leaves them because of a kernel defect
 * (kernel/link_close.c).
 */
#ifndef MEASURE_UNHELD_INT3S_H
#define MEASURE_UNHELD_INT3S_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { DOUBT_BYTES = 256 };

struct unheld_int3s {
	size_t n;	/* int3s without a known holder */
	size_t n_sites; /* of `n`: int3s at sites of probes */
	/*
	 * A text that names what may hold these int3s although no holder was found. "" if nothing
	 * may hold them: then a killed tool has left them.
	 */
	char doubt[DOUBT_BYTES];
};

/*
 * Find the int3s of PROC without a known holder. Since other tools attach and detach, read until
 * two readings in a row are the same.
 */
int unheld_int3s_find(struct ocp_process *proc, struct unheld_int3s *found);

/*
 * Attach a uprobe to each int3 of PROC without a known holder, and detach it. The kernel then
 * removes the int3 and lowers the semaphore, unless another uprobe is there. LEFT gets the int3s
 * that remain. Return -EBUSY if a debugger traces the process: the kernel would remove the
 * debugger's breakpoints, too.
 */
int unheld_int3s_remove(struct ocp_process *proc, size_t *n_removed, struct unheld_int3s *left);

#endif
