/* SPDX-License-Identifier: MIT */
/*
 * Find the int3s that uprobes, debuggers and killed tools have written into the code of a process.
 */
#ifndef PROCESS_INT3S_H
#define PROCESS_INT3S_H

#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

struct int3 {
	uint64_t addr;
	uint64_t offset; /* of the int3 in the file */
	size_t file;	 /* index in int3s.files */
	/*
	 * If the int3 is on a site whose tracers' semaphore is raised: the offset of this semaphore
	 * in the file. Otherwise 0.
	 */
	uint64_t ref_ctr_off;
};

struct int3_file {
	int fd;
	char *path; /* as the process sees it */
};

struct int3s {
	struct int3 *list; /* sorted by address */
	size_t n;
	struct int3_file *files;
	size_t n_files;
};

/*
 * Find the int3s in the private code mappings of PROC where the file has another byte: in probes,
 * functions, and anywhere else. SITES are the sites of PROC. Inside a site, only an int3 on the
 * first byte counts. Outside of sites, an int3 counts only if the bytes beside it are as in the
 * file, or are int3s, too: otherwise the code was replaced. The caller frees INT3S, also after an
 * error.
 */
int int3s_read(struct ocp_process *proc, const struct ocp_sites *sites, struct int3s *int3s);
void int3s_free(struct int3s *int3s);

#endif
