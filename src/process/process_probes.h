/* SPDX-License-Identifier: MIT */
/*
 * Live sites: the sites of a process's images at their addresses in memory, grouped into probes by
 * name across all images; and a snapshot of what their bytes were at one moment.
 */
#ifndef PROCESS_LIVE_H
#define PROCESS_LIVE_H

#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"
#include "process/image.h"
#include "process/memory.h"

struct live_site {
	uint64_t addr; /* of its first byte */
	const struct site *site;
	uint32_t image;
	uint32_t code_at; /* where a snapshot has its bytes */
};

/* One counter that OCaml code reads; a name has one an image, or (v0) one a compilation unit. */
struct live_semaphore {
	uint64_t addr;
};

struct live_probe {
	const char *name;
	size_t first_site, n_sites;	      /* those that have code */
	size_t first_semaphore, n_semaphores; /* distinct ones; 0 if the linker dropped them */
};

struct live {
	struct live_probe *probes; /* by name */
	size_t n_probes;
	struct live_site *sites;
	size_t n_sites, n_code_bytes; /* of all sites together */
	struct live_semaphore *semaphores;
	size_t n_semaphores;
};

int live_make(struct ocp_ctx *ctx, const struct image_list *images, struct live *live);
void live_free(struct live *live);

/* The index of the probe called NAME, or -1. */
ptrdiff_t live_find_probe(const struct live *live, const char *name);

/* The bytes of all sites and semaphores, in the order of the arrays in struct live. */
struct snapshot {
	uint8_t *code; /* of each site site->n_bytes, from its code_at on */
	uint16_t *semaphores;
};

/* What the snapshot has of SITE, and of its byte that is switched. */
static inline const uint8_t *snapshot_code(const struct snapshot *snapshot,
					   const struct live_site *site)
{
	return snapshot->code + site->code_at;
}

static inline uint8_t snapshot_opcode(const struct snapshot *snapshot, const struct live_site *site)
{
	return snapshot->code[site->code_at + site->site->opcode_at];
}

int snapshot_read(struct ocp_ctx *ctx, const struct memory *memory, const struct live *live,
		  struct snapshot *snapshot);
/*
 * Read the sites, or the semaphores, of PROBES[0..N) again, into the same snapshot. *CHANGED says
 * whether any of them is different from before; somebody's uprobe coming or going on the first
 * byte is no difference.
 */
int snapshot_refresh_code(struct ocp_ctx *ctx, const struct memory *memory, const struct live *live,
			  const size_t *probes, size_t n, struct snapshot *snapshot, bool *changed);
int snapshot_refresh_semaphores(struct ocp_ctx *ctx, const struct memory *memory,
				const struct live *live, const size_t *probes, size_t n,
				struct snapshot *snapshot, bool *changed);
void snapshot_free(struct snapshot *snapshot);

/*
 * The counter of one probe; of several semaphores the highest. A probe without one counts 1 if all
 * its sites are on, else 0.
 */
uint16_t snapshot_count(const struct live *live, const struct snapshot *snapshot, size_t probe);

/* The state of one probe by its sites' opcodes and its semaphores together. */
enum ocp_state snapshot_state(const struct live *live, const struct snapshot *snapshot,
			      size_t probe);

#endif
