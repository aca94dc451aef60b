/* SPDX-License-Identifier: MIT */
/*
 * Live sites: the sites of a process's images at their addresses in memory, grouped by name into
 * probes across all images. A snapshot holds their bytes at one moment.
 */
#ifndef PROCESS_PROBES_H
#define PROCESS_PROBES_H

#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"
#include "process/image.h"
#include "process/site_form.h"
#include "look/memory.h"

struct live_site {
	uint64_t addr; /* the address of the first byte of the site */
	const struct site *site;
	uint32_t image;
	uint32_t probe;	  /* the index of its probe in the array `probes` of struct live */
	uint32_t code_at; /* the offset of its bytes in the array `code` of struct snapshot */
};

struct live_probe {
	const char *name;
	size_t first_site, n_sites; /* the sites of the probe that have code */
	/* each semaphore once; none if the linker dropped them */
	size_t first_semaphore, n_semaphores;
};

struct live {
	const struct image_list *images;
	struct live_probe *probes; /* sorted by name */
	size_t n_probes;
	struct live_site *sites;
	size_t n_sites, n_code_bytes; /* n_code_bytes: the sum over all sites */
	/*
	 * The addresses of the counters that OCaml code reads. A probe has one counter in each
	 * image that contains the probe or, with the ABI v0, in each compilation unit.
	 */
	uint64_t *semaphores;
	size_t n_semaphores;
};

/* Make LIVE from the probes of IMAGES, which must outlive LIVE. */
int live_make(struct ocp_ctx *ctx, const struct image_list *images, struct live *live);
void live_free(struct live *live);

/* Return the index of the probe called NAME, or -1. */
ptrdiff_t live_find_probe(const struct live *live, const char *name);

/* The bytes of all sites and semaphores of LIVE, in the order of its arrays. */
struct snapshot {
	const struct live *live;
	uint8_t *code; /* each site has site->n_bytes bytes, at its code_at */
	uint16_t *semaphores;
	bool leads_out;			/* a site calls code outside of its program */
	struct trampolines trampolines; /* empty unless leads_out is set */
};

/*
 * Return the bytes of SITE in SNAPSHOT; snapshot_opcode() returns only the byte that switching
 * changes.
 */
static inline const uint8_t *snapshot_code(const struct snapshot *snapshot,
					   const struct live_site *site)
{
	return snapshot->code + site->code_at;
}

static inline uint8_t snapshot_opcode(const struct snapshot *snapshot, const struct live_site *site)
{
	return snapshot->code[site->code_at + site->site->opcode_at];
}

/* Read the bytes of all sites and semaphores of LIVE. LIVE must outlive SNAPSHOT. */
int snapshot_read(struct ocp_ctx *ctx, const struct memory *memory, const struct live *live,
		  struct snapshot *snapshot);
/* Return the form of SITE. A site that calls a trampoline is on only if the gate is not 0. */
enum site_form snapshot_form(const struct snapshot *snapshot, const struct live_site *site);
/*
 * Return the trampoline that SITE calls, or would call if its opcode were the one for on; NULL if
 * there is none.
 */
const struct trampoline *snapshot_trampoline(const struct snapshot *snapshot,
					     const struct live_site *site);

/*
 * Read the sites, or the semaphores, of PROBES[0..N) again, into the same snapshot. Set *CHANGED to
 * whether any of them has changed. The first byte of a site does not count, since a uprobe may have
 * been added or removed there.
 */
int snapshot_refresh_code(struct ocp_ctx *ctx, const struct memory *memory, const size_t *probes,
			  size_t n, struct snapshot *snapshot, bool *changed);
int snapshot_refresh_semaphores(struct ocp_ctx *ctx, const struct memory *memory,
				const size_t *probes, size_t n, struct snapshot *snapshot,
				bool *changed);
void snapshot_free(struct snapshot *snapshot);

/*
 * Return the counter of one probe: the highest of its semaphores. The counter of a probe without a
 * semaphore is 1 if all its sites are on, else 0.
 */
uint16_t snapshot_count(const struct snapshot *snapshot, size_t probe);

/* Return the state of one probe, which depends on its sites and its semaphores. */
enum ocp_state snapshot_state(const struct snapshot *snapshot, size_t probe);

#endif
