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
	uint64_t offset; /* the offset of the int3 in the file */
	size_t file;	 /* the index of the file in int3s.files */
	/*
	 * If the int3 is on a site whose tracers' semaphore is raised: the file offset of this
	 * semaphore. Otherwise 0.
	 */
	uint64_t ref_ctr_off;
};

struct int3_file {
	int fd;
	char *path; /* the path of the file as the process sees it */
};

struct int3s {
	struct int3 *list; /* sorted by address */
	size_t n;
	struct int3_file *files;
	size_t n_files;
};

/*
 * Find the int3s in the private code mappings of PROC: the bytes 0xcc where the file has another
 * byte, in probes, functions, and anywhere else. SITES are the sites of PROC. Inside a site, only
 * an int3 on the first byte counts. Outside of sites, a byte 0xcc counts only if each byte beside
 * it is as in the file, or is an int3, too; otherwise the code was replaced. The caller frees
 * INT3S, also after an error.
 */
int int3s_read(struct ocp_process *proc, const struct ocp_sites *sites, struct int3s *int3s);
void int3s_free(struct int3s *int3s);

#endif
