/* SPDX-License-Identifier: MIT */
/*
 * Finds and removes int3s that no uprobe needs any more. Because of a defect of the kernel
 * (kernel/link_close.c), a killed tool can leave such int3s.
 */
#ifndef MEASURE_UNHELD_INT3S_H
#define MEASURE_UNHELD_INT3S_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { DOUBT_BYTES = 256 };

struct unheld_int3s {
	size_t n;	/* int3s without a known holder */
	size_t n_sites; /* how many of `n` are at sites of probes */
	/* the path of the file with the first int3, as the process sees it; perhaps shortened */
	char file[DOUBT_BYTES];
	bool has_more_files;
	/*
	 * A text that names what may hold these int3s although no holder was found. If it is "",
	 * nothing holds the int3s, and a killed tool has left them.
	 */
	char doubt[DOUBT_BYTES];
};

/*
 * Find the int3s of PROC without a known holder. Read until two successive readings are the same,
 * because other tools may attach and detach meanwhile.
 */
int unheld_int3s_find(struct ocp_process *proc, struct unheld_int3s *found);

/*
 * Attach a uprobe to each int3 of PROC without a known holder, and detach the uprobe. The kernel
 * then removes the int3 and lowers the semaphore, unless another uprobe is at this place. Set LEFT
 * to the int3s that remain. Return -EBUSY if a debugger traces the process, because the kernel
 * would also remove the debugger's breakpoints.
 */
int unheld_int3s_remove(struct ocp_process *proc, size_t *n_removed, struct unheld_int3s *left);

#endif
