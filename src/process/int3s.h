/* SPDX-License-Identifier: MIT */
/* The int3s in the code of a process: of uprobes, debuggers and killed tools. */
#ifndef PROCESS_INT3S_H
#define PROCESS_INT3S_H

#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

struct int3 {
	uint64_t addr;
	uint64_t offset; /* in the file */
	size_t file;	 /* index in int3s.files */
	/* The offset of the semaphore for tracers in the file, if it is raised; else 0. */
	uint64_t ref_ctr_off;
};

struct int3_file {
	int fd;
	char *path; /* as the process sees it */
};

struct int3s {
	struct int3 *list; /* by address */
	size_t n;
	struct int3_file *files;
	size_t n_files;
};

/*
 * Find the int3s in the private mappings of code of PROC whose files have another byte there: in probes,
 * functions, and anywhere else. SITES are those of PROC. An int3 on the byte of a probe that is
 * switched, or in code that was replaced, is left out. The caller frees INT3S, also after an error.
 */
int int3s_read(struct ocp_process *proc, const struct ocp_sites *sites, struct int3s *int3s);
void int3s_free(struct int3s *int3s);

#endif
