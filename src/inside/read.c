// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include "inside/gone_threads.h"
#include "inside/held.h"
#include "inside/site_bytes.h"
#include "inside/site_reader.h"
#include "inside/totals.h"

/*
 * Add to the orphans of PAIR the open starts of threads and processes that have ended. Add at most
 * as many as PAIR has open starts: a start that was made and orphaned after PAIR was read is not in
 * PAIR.
 */
static void add_gone(const struct inside *inside, uint32_t i, struct inside_pair *pair)
{
	const uint64_t ended =
		pair->count + pair->orphan_starts + pair->collisions + pair->not_keyed;
	const uint64_t open = pair->starts > ended ? pair->starts - ended : 0;
	uint64_t n;

	if (!inside->knows_gone || !open)
		return;
	n = gone_threads_starts(&inside->header, inside->block, i);
	pair->orphan_starts += n < open ? n : open;
}

int inside_read(struct inside *inside, uint64_t *hits, struct inside_pair *pairs)
{
	int err = inside_refresh(inside, pairs != NULL);

	if (err)
		return err;
	if (hits)
		totals_hits(&inside->header, inside->block, hits);
	for (uint32_t i = 0; pairs && i < inside->header.n_pairs; i++) {
		totals_pair(&inside->header, inside->block, i, &pairs[i]);
		add_gone(inside, i, &pairs[i]);
	}
	return 0;
}

/* Fill in the private gates: they are words of the block, which is mapped or copied here. */
static void take_private_gates(const struct inside *inside, struct site_bytes *bytes)
{
	const struct block_site *sites = inside_sites(inside);
	const uint16_t *gates = (const uint16_t *)(inside->block + inside->header.gates_off);

	for (size_t i = 0; i < inside->header.n_sites; i++)
		if (sites[i].gate == BLOCK_GATE_PRIVATE)
			bytes[i].gate = gates[i];
}

int inside_read_sites(struct inside *inside, struct site_bytes **bytes)
{
	const size_t n = inside->header.n_sites;
	const struct block_site *sites;
	int err;

	*bytes = NULL;
	err = inside_take_sites(inside);
	if (err)
		return err;
	sites = inside_sites(inside);
	if (inside->reader && !site_reader_is_for(inside->reader, sites, n)) {
		site_reader_free(inside->reader);
		inside->reader = NULL;
	}
	if (!inside->reader)
		err = site_reader_make(inside->ctx, inside->memory, sites, n, &inside->reader);
	if (!err)
		err = site_reader_read(inside->reader, inside->memory, bytes);
	if (!err)
		take_private_gates(inside, *bytes);
	return err;
}

int inside_state(struct inside *inside, struct inside_state *state)
{
	const struct block_site *sites;
	struct site_bytes *bytes;
	int err;

	*state = (struct inside_state){ 0 };
	err = inside_read_sites(inside, &bytes);
	if (err)
		return err;
	sites = inside_sites(inside);
	for (size_t i = 0; i < inside->header.n_sites; i++) {
		const enum site_now now = site_now(&sites[i], &bytes[i]);

		state->n_patched += now == SITE_NOW_COUNTS;
		state->n_switched += now == SITE_NOW_SWITCHED || now == SITE_NOW_CUT;
		state->n_foreign += now == SITE_NOW_FOREIGN;
	}
	return 0;
}

struct inside_state inside_state_found(const struct inside *inside)
{
	return inside->seen;
}
