// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include "inside/gone_threads.h"
#include "inside/held.h"
#include "inside/site_bytes.h"
#include "inside/totals.h"

/* A start that began and was orphaned since the totals were read is not in them. */
static void add_gone(const struct inside *inside, uint32_t i, struct inside_pair *pair)
{
	const uint64_t ended = pair->count + pair->orphan_starts + pair->collisions;
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

int inside_state(struct inside *inside, struct inside_state *state)
{
	const struct block_site *sites = inside_sites(inside);
	struct site_bytes *bytes;
	int err;

	*state = (struct inside_state){ 0 };
	err = site_bytes_read(inside->ctx, inside->memory, sites, inside->header.n_sites, &bytes);
	if (err)
		return err;
	for (size_t i = 0; i < inside->header.n_sites; i++) {
		const enum site_now now = site_now(&sites[i], &bytes[i]);

		state->n_patched += now == SITE_NOW_COUNTS;
		state->n_switched += now == SITE_NOW_SWITCHED || now == SITE_NOW_CUT;
		state->n_foreign += now == SITE_NOW_FOREIGN;
	}
	free(bytes);
	return 0;
}
