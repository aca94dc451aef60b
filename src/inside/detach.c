// SPDX-License-Identifier: MIT
/*
 * Detaching: restore the sites of a process, and remove its block.
 *
 * The bytes of a site decide whether it is restored, since a forked child shares the block but has
 * its own copy of the sites. What the block records of a site (is_patched) only shows whether a
 * killed tool had begun to write the site.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "inside/blocks.h"
#include "inside/held.h"
#include "inside/own_stores.h"
#include "inside/restore.h"
#include "inside/site_bytes.h"
#include "inside/stop.h"

enum {
	REMOVE_TRIES = 10,
	REMOVE_RETRY_US = 1000,
};

/*
 * Return the opcode with which to restore a site: on if its gate is not 0, otherwise off.
 * Exception: a foreign tool that switches a site off also lowers its semaphore, but does not know a
 * private gate. So a site with a private gate that was switched off stays off, unless a detach has
 * begun: it has recorded the opcode in the gate (note_plan()).
 */
static uint8_t ours_wanted(const struct block_site *site, const struct site_bytes *bytes,
			   enum site_now now)
{
	if (now == SITE_NOW_SWITCHED && site->gate == BLOCK_GATE_PRIVATE &&
	    site->is_patched == BLOCK_PATCHED)
		return SITE_OFF;
	return bytes->gate ? SITE_ON : SITE_OFF;
}

/* Return the opcode to restore SITE with, or 0 to leave SITE alone. */
static uint8_t wanted_opcode(const struct block_site *site, const struct site_bytes *bytes)
{
	const enum site_now now = site_now(site, bytes);
	const uint8_t opcode = ours_wanted(site, bytes, now);

	if (now == SITE_NOW_FOREIGN)
		return 0;
	/*
	 * The displacement is restored. The opcode may not be, if a tool was killed between these
	 * two writes.
	 */
	if (now == SITE_NOW_ORIGINAL &&
	    (site->is_patched != BLOCK_PATCHING || opcode == bytes->code[1]))
		return 0;
	return opcode;
}

/*
 * Record the plan in the block, so that another tool can complete it: which sites are restored, and
 * the new values of their private gates.
 */
static int note_plan(struct stop *stop, struct inside *inside, const uint8_t *wanted,
		     enum block_patched patched)
{
	const struct block_header *header = &inside->header;
	struct block_site *sites = inside_sites(inside);
	uint16_t *gates = (uint16_t *)(inside->block + header->gates_off);
	int err = 0;

	for (size_t i = 0; i < header->n_sites; i++) {
		if (!wanted[i])
			continue;
		if (sites[i].gate == BLOCK_GATE_PRIVATE)
			gates[i] = wanted[i] == SITE_ON;
		sites[i].is_patched = (uint8_t)patched;
	}
	inside_put_sites(inside);
	if (!inside->is_shared)
		err = patcher_write_unused(stop->patcher, header->addr + header->gates_off, gates,
					   header->n_sites * sizeof(*gates));
	if (!inside->is_shared && !err)
		err = patcher_write_unused(stop->patcher, header->addr + header->sites_off, sites,
					   header->n_sites * sizeof(*sites));
	return err ? ctx_error(stop->ctx, err, "pid %d: cannot write to the counters",
			       (int)stop->pid)
		   : 0;
}

/*
 * Have the process itself write to the sites. Return -ENOTSUP if the process cannot do this; in
 * this case nothing was written.
 */
static int store_back(struct stop *stop, const struct inside *inside, const uint8_t *wanted)
{
	const struct block_header *header = &inside->header;
	struct block_site *sites = inside_sites(inside);
	int err;

	if (!inside->is_shared)
		return -ENOTSUP;
	for (size_t i = 0; i < header->n_sites; i++)
		sites[i].store = wanted[i];
	inside_put_sites(inside);
	err = own_stores_sites(stop, inside, STORES_DETACH);
	for (size_t i = 0; i < header->n_sites; i++)
		sites[i].store = 0;
	inside_put_sites(inside);
	return err;
}

static int write_back(struct stop *stop, const struct inside *inside,
		      const struct site_bytes *bytes, const uint8_t *wanted, size_t n_wanted)
{
	const struct block_site *sites = inside_sites(inside);
	struct site_change *changes;
	size_t n = 0;
	int err = n_wanted < STORES_MIN ? -ENOTSUP : store_back(stop, inside, wanted);

	if (err != -ENOTSUP && err != -EAGAIN)
		return err;
	changes = calloc(n_wanted, sizeof(*changes));
	if (!changes)
		return ctx_no_memory(stop->ctx);
	for (size_t i = 0; i < inside->header.n_sites; i++)
		if (wanted[i])
			site_change_set(&changes[n++], &sites[i], &bytes[i], wanted[i],
					sites[i].displacement);
	err = site_changes_write(stop->ctx, stop->patcher, changes, n);
	free(changes);
	return err;
}

int restore_sites(struct stop *stop, struct inside *inside, size_t *n_foreign)
{
	const size_t n = inside->header.n_sites;
	struct site_bytes *bytes = NULL;
	uint8_t *wanted = calloc(n + 1, 1);
	size_t n_wanted = 0;
	int err = wanted ? inside_refresh(inside, false) : ctx_no_memory(stop->ctx);

	*n_foreign = 0;
	if (!err)
		err = inside_read_sites(inside, &bytes);
	for (size_t i = 0; !err && i < n; i++) {
		const struct block_site *site = &inside_sites(inside)[i];

		wanted[i] = wanted_opcode(site, &bytes[i]);
		n_wanted += wanted[i] != 0;
		*n_foreign += site_now(site, &bytes[i]) == SITE_NOW_FOREIGN;
	}
	if (!err && n_wanted) {
		err = note_plan(stop, inside, wanted, BLOCK_PATCHING);
		if (!err)
			err = write_back(stop, inside, bytes, wanted, n_wanted);
		if (!err)
			err = note_plan(stop, inside, wanted, BLOCK_UNPATCHED);
	}
	free(wanted);
	return err;
}

/* Return true if the block of INSIDE is still mapped in the process. */
static bool is_there(const struct stop *stop, const struct inside *inside)
{
	struct block_found *blocks;
	bool found = false;
	size_t n;

	if (blocks_find(stop->ctx, stop->memory, &stop->maps, &blocks, &n) != 0)
		return false;
	for (size_t i = 0; i < n && !found; i++)
		found = blocks[i].is_complete &&
			memcmp(&blocks[i].header, &inside->header, sizeof(inside->header)) == 0;
	free(blocks);
	return found;
}

struct detach {
	struct inside *inside;
	bool is_in_use; /* a thread may be in the block's code, and no other tool uses a site */
};

/*
 * Restore the sites. Then remove the block, unless another tool uses a site or a thread may be in
 * the block's code. A block that cannot be removed is no error: the next attach or detach tries
 * again.
 */
static int detach_stopped(struct stop *stop, void *arg)
{
	struct detach *detach = arg;
	struct inside *inside = detach->inside;
	size_t n_foreign;
	bool may_use;
	int err;

	if (!is_there(stop, inside))
		return ctx_error(stop->ctx, -ESRCH,
				 "pid %d: does not count inside any more: another tool has ended "
				 "it, or it runs another program",
				 (int)stop->pid);
	may_use = stop_may_use(stop, &inside->header);
	err = restore_sites(stop, inside, &n_foreign);
	if (err)
		return err;
	/* The counts are final now: copy them. */
	err = inside_refresh(inside, true);
	if (err)
		return err;
	detach->is_in_use = may_use && !n_foreign;
	if (n_foreign || may_use)
		ctx_log(stop->ctx, OCP_LOG_INFO,
			"pid %d: the memory of the counters stays mapped for now: %s",
			(int)stop->pid,
			n_foreign ? "another tool uses a site" : "a thread may be in its code");
	else if (stop->plan)
		stop_unmap_block(stop, &inside->header);
	if (stop->plan)
		stop_remove_orphans(stop);
	return 0;
}

/*
 * Try once more to remove the block, some time after its sites were restored: by now, threads that
 * were in its code have mostly left it. Return -EAGAIN if a thread may still be there.
 */
static int remove_stopped(struct stop *stop, void *arg)
{
	struct inside *inside = arg;

	if (!is_there(stop, inside))
		return 0;
	if (stop_may_use(stop, &inside->header))
		return -EAGAIN;
	inside_refresh(inside, true);
	return stop_unmap_block(stop, &inside->header);
}

int inside_detach(struct inside *inside)
{
	struct detach detach = { .inside = inside };
	struct stop stop;
	int err;

	if (inside->is_detached)
		return 0;
	err = stop_open(inside->ctx, inside->pid, &stop);
	if (err)
		return err;
	/*
	 * Do the slow work before the stop: sort the addresses, and allocate the memory for the
	 * bytes.
	 */
	inside_read_sites(inside, &(struct site_bytes *){ NULL });
	/*
	 * Without a plan for remote calls, the sites are restored, but the memory cannot be
	 * removed.
	 */
	if (remote_plan_make(inside->ctx, inside->pid, &stop.plan) != 0)
		stop.plan = NULL;
	err = stop_run(&stop, detach_stopped, &detach);
	for (int i = 0; !err && detach.is_in_use && stop.plan && i < REMOVE_TRIES; i++) {
		usleep(REMOVE_RETRY_US);
		if (stop_run(&stop, remove_stopped, inside) != -EAGAIN)
			break;
	}
	stop_close(&stop);
	if (!err)
		inside->is_detached = true;
	return err;
}
