// SPDX-License-Identifier: MIT
/*
 * inside_attach() stops the process twice, for a short time each. Everything slow is done while the
 * process runs.
 *
 *	running	read the sites, find the gadgets that remote calls need
 *	stop A	examine the threads, choose the addresses; call in the process: memfd_create,
 *		mmap twice for each part of the block, close
 *	running	fill the block through our own mapping; the magic number comes last
 *	stop B	check that the sites are unchanged, and write them
 *
 * A tool that is killed before it writes the magic number leaves an orphan, which the next attach
 * or detach removes. A tool that is killed later leaves a block that inside_find() finds; the bytes
 * of each site then say whether the site calls the block. No thread can be in the code before the
 * first site is written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/populate.h"
#include "change/inside/blocks.h"
#include "change/inside/build.h"
#include "change/inside/held.h"
#include "change/inside/layout.h"
#include "change/inside/own_stores.h"
#include "change/inside/site_bytes.h"
#include "change/inside/stop.h"
#include "change/inside/threads.h"
#include "kernel/ticks.h"

/* ---- detaching ------------------------------------------------------------------------------ */

/*
 * Detaching: restore the sites of a process, and remove its block.
 *
 * The bytes of a site decide whether it is restored, since a forked child shares the block but has
 * its own copy of the sites. What the block records of a site (is_patched) only shows whether a
 * killed tool had begun to write the site.
 */

/*
 * A thread that is in the code of a block leaves it as soon as it runs, which can take long on a
 * busy machine. The waits are doubled up to the longest one: 1.2 s in all.
 */
enum {
	REMOVE_TRIES = 24,
	FIRST_REMOVE_US = 1000,
	LONGEST_REMOVE_US = 64000,
};

/*
 * Return the opcode with which to restore a site: the one for on if its gate is not 0, otherwise
 * the one for off. There is an exception: another tool that switches a site off lowers the site's
 * semaphore, but does not know private gates. So a site that was switched off and has a private
 * gate stays off. But if a detach has begun, note_plan() has set the gate to the wanted state, and
 * the gate decides.
 */
static uint8_t ours_wanted(const struct block_site *site, const struct site_bytes *bytes,
			   enum site_now now)
{
	if (now == SITE_NOW_SWITCHED && site->gate == BLOCK_GATE_PRIVATE &&
	    site->is_patched == BLOCK_PATCHED)
		return SITE_OFF;
	return bytes->gate ? SITE_ON : SITE_OFF;
}

/* Return the opcode with which to restore SITE, or 0 if SITE is to be left alone. */
static uint8_t wanted_opcode(const struct block_site *site, const struct site_bytes *bytes)
{
	const enum site_now now = site_now(site, bytes);
	const uint8_t opcode = ours_wanted(site, bytes, now);

	if (is_window(site))
		return now == SITE_NOW_COUNTS;
	if (now == SITE_NOW_FOREIGN)
		return 0;
	/*
	 * The displacement is the original one already. So nothing is written, unless a tool was
	 * killed between the write of the displacement and the write of the opcode.
	 */
	if (now == SITE_NOW_ORIGINAL &&
	    (site->is_patched != BLOCK_PATCHING || opcode == bytes->code[1]))
		return 0;
	return opcode;
}

/*
 * Record in the block what restore_sites() is about to do, so that another tool can complete it:
 * which sites are restored (to the opcode `store`), and the new values of their private gates. If
 * PATCHED is BLOCK_UNPATCHED, restore_sites() has done all this: delete the record.
 */
static int note_plan(struct stop *stop, struct inside *inside, enum block_patched patched)
{
	const struct block_header *header = &inside->header;
	struct block_site *sites = inside->sites;
	uint16_t *gates = (uint16_t *)(inside->block + header->gates_off);
	int err = 0;

	for (size_t i = 0; i < header->n_sites; i++) {
		if (!sites[i].store)
			continue;
		if (sites[i].gate == BLOCK_GATE_PRIVATE)
			gates[i] = sites[i].store == SITE_ON;
		sites[i].is_patched = (uint8_t)patched;
		if (patched == BLOCK_UNPATCHED)
			sites[i].store = 0;
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

/* Return true if a site of INSIDE is a window. */
static bool has_windows(const struct inside *inside)
{
	for (size_t i = 0; i < inside->header.n_sites; i++)
		if (is_window(&inside->sites[i]))
			return true;
	return false;
}

/*
 * Write to those sites of INSIDE whose `store` is not 0; N_CHANGED is the number of such sites.
 * BYTES are the present bytes of all sites. If there are many sites, the process writes to them
 * itself: it reads `store` in the block, so INSIDE must have a mapping of the block that the
 * process shares.
 */
static int write_sites(struct stop *stop, const struct inside *inside,
		       const struct site_bytes *bytes, size_t n_changed, enum stores_kind kind)
{
	int err = -ENOTSUP;

	/* The routines of own_stores.h do not write windows. */
	if (n_changed >= STORES_MIN && inside->is_shared && !has_windows(inside))
		err = own_stores_sites(stop, inside, kind);
	if (err != -ENOTSUP && err != -EAGAIN)
		return err;
	return site_bytes_write(stop->ctx, stop->patcher, inside->sites, bytes,
				site_reader_order(inside->reader), inside->header.n_sites,
				kind == STORES_ATTACH);
}

/*
 * Give our sites their original displacement back, and the opcode that their gates require: on if
 * the gate is not 0 and no other tool has switched the site off. Leave the sites of other tools
 * alone, and set *N_FOREIGN to their number.
 */
static int restore_sites(struct stop *stop, struct inside *inside, size_t *n_foreign)
{
	struct site_bytes *bytes = NULL;
	size_t n_wanted = 0;
	int err = inside_refresh(inside, false);

	*n_foreign = 0;
	if (!err)
		err = inside_read_sites(inside, &bytes);
	for (size_t i = 0; !err && i < inside->header.n_sites; i++) {
		struct block_site *site = &inside->sites[i];

		site->store = wanted_opcode(site, &bytes[i]);
		n_wanted += site->store != 0;
		*n_foreign += site_now(site, &bytes[i]) == SITE_NOW_FOREIGN;
	}
	if (!err && n_wanted) {
		err = note_plan(stop, inside, BLOCK_PATCHING);
		if (!err)
			err = write_sites(stop, inside, bytes, n_wanted, STORES_DETACH);
		if (!err)
			err = note_plan(stop, inside, BLOCK_UNPATCHED);
	}
	return err;
}

/* Return true if the process still has the block of INSIDE mapped. */
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
	/* the block could be removed later: no other tool uses a site */
	bool is_in_use;
};

/*
 * Restore the sites. Then remove the block, unless another tool uses a site or a thread may be in
 * the block's code. It is not an error if the block cannot be removed: the next attach or detach
 * tries again.
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
				 "pid %d: is no longer counted inside: another tool ended the "
				 "counting, or the process runs another program",
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
		detach->is_in_use = stop_unmap_block(stop, &inside->header) == -EAGAIN;
	if (stop->plan)
		stop_remove_orphans(stop);
	return 0;
}

/*
 * Try once more to remove the block, some time after its sites were restored: by now, threads that
 * were in its code have probably left it. Return -EAGAIN if a thread may still be in its code.
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

/* Stop the process for WORK once in a while, as long as WORK returns -EAGAIN. */
static void remove_later(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg)
{
	useconds_t wait_us = FIRST_REMOVE_US;

	for (int i = 0; i < REMOVE_TRIES; i++) {
		usleep(wait_us);
		if (stop_run(stop, work, arg) != -EAGAIN)
			break;
		if (wait_us < LONGEST_REMOVE_US)
			wait_us *= 2;
	}
}

int inside_detach(struct inside *inside)
{
	struct detach detach = { .inside = inside };
	struct stop stop;
	int err;

	if (inside->is_detached)
		return 0;
	err = stop_open(inside->ctx, inside->pid, NULL, &stop);
	if (err)
		return err;
	/*
	 * Do the slow work before the stop: sort the addresses, and allocate the memory for the
	 * bytes.
	 */
	inside_read_sites(inside, &(struct site_bytes *){ NULL });
	/*
	 * If remote calls cannot be planned, the sites are still restored, but the memory is not
	 * removed.
	 */
	if (remote_plan_make(inside->ctx, inside->pid, &stop.plan) != 0)
		stop.plan = NULL;
	err = stop_run(&stop, detach_stopped, &detach);
	if (!err && detach.is_in_use && stop.plan)
		remove_later(&stop, remove_stopped, inside);
	stop_close(&stop);
	if (!err)
		inside->is_detached = true;
	return err;
}

/* ---- attaching ------------------------------------------------------------------------------ */

enum { TRIES = 20, RETRY_US = 2000 };

struct attach {
	struct inside *inside;
	struct build build;
	struct stop stop;
	const uint64_t *addrs; /* the addresses of the sites, ascending */
	bool has_windows;
	/*
	 * Two possible layouts: [0] for a process without struct rseq, [1] for a process with it.
	 * Stop A finds out which one is right.
	 */
	struct block_header layouts[2];
	dev_t dev;   /* the device of the memfd */
	ino_t inode; /* the inode of the memfd; 0: there is no memfd yet */
	uint64_t ns_per_tick;
};

/* ---- running: before stop A ----------------------------------------------------------------- */

int inside_check(struct ocp_ctx *ctx, pid_t pid, bool times)
{
	struct remote_plan *plan = NULL;
	uint64_t ns_per_tick;
	int err = remote_plan_make(ctx, pid, &plan);

	remote_plan_free(plan);
	if (!err && times)
		err = ticks_ns_per_tick(ctx, &ns_per_tick);
	return err;
}

int inside_check_not_counted(struct ocp_ctx *ctx, pid_t pid)
{
	struct inside_state state;
	struct inside *inside;
	int found = inside_find(ctx, pid, &inside);

	if (found <= 0)
		return found;
	state = inside_state_found(inside);
	inside_close(inside);
	if (!(state.n_patched + state.n_switched))
		return 0;
	ctx_error(ctx, -EBUSY, "pid %d: is already counted inside", (int)pid);
	ctx_hint(
		ctx,
		"if the counting tool was killed, end its counting: ocaml-probes doctor -pid %d --fix",
		(int)pid);
	return -EBUSY;
}

/*
 * Make both layouts before stop A. If the layout with shards is too large, do not fail yet: if the
 * process turns out to have struct rseq, choose_layout() makes this layout again, and reports the
 * error.
 */
static int prepare_layouts(struct attach *attach)
{
	const struct inside_spec *spec = attach->build.spec;
	const uint32_t n_shards = layout_n_shards(spec->n_sites);
	int err = layout_divide(attach->inside->ctx, spec, attach->addrs, &attach->build.parts);

	if (err)
		return err;
	layout_make(attach->inside->ctx, spec, &attach->build.parts, n_shards, &attach->layouts[1]);
	return layout_make(attach->inside->ctx, spec, &attach->build.parts, 1, &attach->layouts[0]);
}

static int choose_layout(const struct attach *attach, struct block_header *header)
{
	const bool has_shards = attach->build.process.rseq_off != 0;
	const struct block_header *layout = &attach->layouts[has_shards];
	const size_t n_sites = attach->build.spec->n_sites;

	if (layout->bytes)
		*header = *layout;
	return layout->bytes
		       ? 0
		       : layout_make(attach->inside->ctx, attach->build.spec, &attach->build.parts,
				     has_shards ? layout_n_shards(n_sites) : 1, header);
}

static int prepare_block(struct attach *attach)
{
	const struct inside_spec *spec = attach->build.spec;
	struct ocp_ctx *ctx = attach->inside->ctx;
	struct maps maps;
	int err = maps_read(ctx, attach->inside->pid, &maps);

	if (err)
		return err;
	err = build_sites(attach->inside, spec, &maps);
	if (!err)
		attach->addrs = site_reader_addrs(attach->inside->reader);
	for (size_t i = 0; i < spec->n_sites; i++)
		attach->has_windows |= spec->sites[i].window != NULL;
	for (size_t i = 1; !err && i < spec->n_sites; i++)
		if (attach->addrs[i] - attach->addrs[i - 1] <
		    (attach->has_windows ? PATCH_JUMP_BYTES : SITE_BYTES))
			err = ctx_error(ctx, -EINVAL, "two sites overlap");
	if (!err)
		err = prepare_layouts(attach);
	maps_free(&maps);
	return err;
}

/* ---- stop A --------------------------------------------------------------------------------- */

static int map_here(struct attach *attach, const struct memfd *memfd)
{
	struct inside *inside = attach->inside;
	void *map = mmap(NULL, inside->header.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			 memfd->ours, 0);

	if (map == MAP_FAILED)
		return ctx_error(inside->ctx, -errno, "memory for the counters: %s",
				 strerror(errno));
	inside->block = map;
	inside->is_shared = inside->is_made = true;
	attach->dev = memfd->dev;
	attach->inode = memfd->ino;
	return 0;
}

static int map_at(struct stop *stop, uint64_t addr, uint64_t bytes, int prot, int fd, uint64_t off)
{
	const uint64_t args[6] = { addr,	   bytes,
				   (uint64_t)prot, MAP_SHARED | MAP_FIXED_NOREPLACE,
				   (uint64_t)fd,   off };
	uint64_t got;
	int err = stop_call(stop, "mmap", SYS_mmap, args, &got);

	/* Linux before 4.17 ignores MAP_FIXED_NOREPLACE and may map at another address. */
	if (!err && got != addr) {
		stop_unmap(stop, got, got + bytes);
		err = ctx_error(stop->ctx, -ENOTSUP,
				"pid %d: mmap in the process chose another address",
				(int)stop->pid);
	}
	return err;
}

static int map_part(struct stop *stop, const struct block_header *header,
		    const struct block_part *part, int fd)
{
	const uint64_t code = part->addr + header->code_off;
	int err = map_at(stop, part->addr, header->code_off, PROT_READ | PROT_WRITE, fd, 0);

	if (err)
		return err;
	err = map_at(stop, code, part->code_bytes, PROT_READ | PROT_EXEC, fd, part->code_off);
	if (err)
		stop_unmap(stop, part->addr, code);
	return err;
}

/* Map all parts. On failure, unmap those that were mapped. */
static int map_parts(struct stop *stop, const struct block_header *header, int fd)
{
	struct block_header mapped = *header;
	int err = 0;

	for (mapped.n_parts = 0; !err && mapped.n_parts < header->n_parts; mapped.n_parts += !err)
		err = map_part(stop, header, &header->parts[mapped.n_parts], fd);
	if (err)
		stop_unmap_block(stop, &mapped);
	return err;
}

/* Return true if MAPS contain all parts of the block, mapped from our memfd. */
static bool has_parts(const struct attach *attach, const struct maps *maps)
{
	const struct block_header *header = &attach->inside->header;
	bool has = blocks_has(maps, header, attach->inode);

	for (uint64_t i = 0; has && i < header->n_parts; i++) {
		const uint64_t addr = header->parts[i].addr;

		has = memfd_is_at(maps, addr, attach->dev, attach->inode) &&
		      memfd_is_at(maps, addr + header->code_off, attach->dev, attach->inode);
	}
	return has;
}

/*
 * Check that the process has mapped our memfd. At the moment of the mmap the descriptor may have
 * referred to another file: see struct memfd.
 */
static int check_parts(struct attach *attach)
{
	struct stop *stop = &attach->stop;
	struct maps maps;
	int err = maps_read(stop->ctx, stop->pid, &maps);

	if (!err && !has_parts(attach, &maps))
		err = ctx_error(stop->ctx, -EBUSY,
				"pid %d: has mapped another file: another process changes its "
				"descriptors",
				(int)stop->pid);
	maps_free(&maps);
	if (err)
		stop_unmap_block(stop, &attach->inside->header);
	return err;
}

static int map_block(struct attach *attach)
{
	const struct block_header *header = &attach->inside->header;
	struct stop *stop = &attach->stop;
	struct memfd memfd;
	int err, close_err;

	err = memfd_make(stop, BLOCK_NAME, header->bytes, &memfd);
	if (err)
		return err;
	err = map_here(attach, &memfd);
	if (!err)
		err = map_parts(stop, header, memfd.theirs);
	if (!err)
		err = check_parts(attach);
	close_err = memfd_close(stop, &memfd);
	return err ? err : close_err;
}

/*
 * Remove the blocks that a detach had to leave, and the blocks of tools that were killed before
 * they wrote a site, or after they had restored all sites. Check again that no site calls a block,
 * and fail if one does: another tool may have attached after do_attach() made this check, and the
 * block of that tool must stay even if no thread is in its code. Set *IS_IN_USE if a block stays,
 * because a thread may be in its code.
 */
static int remove_old(struct stop *stop, bool *is_in_use)
{
	struct block_found *blocks;
	size_t n;
	int err = blocks_find(stop->ctx, stop->memory, &stop->maps, &blocks, &n);

	*is_in_use = false;
	if (err)
		return err;
	if (n)
		err = inside_check_not_counted(stop->ctx, stop->pid);
	/*
	 * Find all blocks that threads may use. Do this before the first remote call, because it
	 * changes the registers of a thread. With n_parts = 0, stop_unmap_block() leaves such a
	 * block mapped.
	 */
	for (size_t i = 0; i < n && !err; i++)
		if (blocks[i].is_complete && stop_may_use(stop, &blocks[i].header)) {
			blocks[i].header.n_parts = 0;
			*is_in_use = true;
		}
	for (size_t i = 0; i < n && !err; i++)
		if (blocks[i].is_complete)
			err = stop_unmap_block(stop, &blocks[i].header);
	free(blocks);
	if (!err)
		stop_remove_orphans(stop);
	return err;
}

static int remove_old_stopped(struct stop *stop, void *arg)
{
	bool is_in_use;
	int err = remove_old(stop, &is_in_use);

	(void)arg;
	return !err && is_in_use ? -EAGAIN : err;
}

int inside_remove_old(struct ocp_ctx *ctx, pid_t pid)
{
	struct inside *inside;
	struct stop stop;
	int found = inside_find(ctx, pid, &inside), err;

	if (found <= 0)
		return found;
	inside_close(inside);
	err = stop_open(ctx, pid, NULL, &stop);
	if (err)
		return err;
	/* If remote calls cannot be planned, the blocks stay mapped. */
	if (remote_plan_make(ctx, pid, &stop.plan) == 0)
		err = stop_run(&stop, remove_old_stopped, NULL);
	else
		stop.plan = NULL;
	if (err == -EAGAIN)
		remove_later(&stop, remove_old_stopped, NULL);
	stop_close(&stop);
	/* -EBUSY: a tool has begun to count in the process. -EAGAIN: see detach_stopped(). */
	return err == -EBUSY || err == -EAGAIN ? 0 : err;
}

static int stop_a(struct stop *stop, void *arg)
{
	struct attach *attach = arg;
	const struct inside_spec *spec = attach->build.spec;
	struct templates_process *process = &attach->build.process;
	struct block_header *header = &attach->inside->header;
	bool is_in_use;
	int err;

	threads_examine(stop->ctx, stop->tracee, stop->memory, process);
	if ((spec->n_pairs || spec->event_bytes) && !process->tid_off)
		return ctx_error(
			stop->ctx, -ENOTSUP,
			"pid %d: its C library keeps thread ids at an unknown place: %s inside",
			(int)stop->pid,
			spec->n_pairs ? "pairs cannot be timed" : "events cannot be recorded");
	err = choose_layout(attach, header);
	if (!err)
		err = layout_place(stop->ctx, &stop->maps, &attach->build.parts, header);
	if (!err)
		err = remove_old(stop, &is_in_use);
	return err ? err : map_block(attach);
}

/* ---- stop B --------------------------------------------------------------------------------- */

/*
 * Update site I from BYTES, its present code and gate. Another tool may have switched the site
 * since it was read first; everything else must be unchanged.
 */
static int take_current(struct attach *attach, size_t i, const struct site_bytes *bytes)
{
	struct inside *inside = attach->inside;
	struct block_site *site = &inside->sites[i];
	uint16_t *gate = (uint16_t *)(inside->block + inside->header.gates_off) + i;

	if (site_now(site, bytes) != SITE_NOW_ORIGINAL)
		return ctx_error(inside->ctx, -EBUSY,
				 "pid %d: another tool changes its sites at the same time",
				 (int)inside->pid);
	site->is_patched = BLOCK_PATCHING;
	site->store = SITE_ON;
	if (is_window(site))
		return 0;
	site->opcode = bytes->code[1];
	if (site->gate == BLOCK_GATE_PRIVATE)
		*gate = site->opcode == SITE_ON;
	else if (!bytes->gate != (site->opcode == SITE_OFF))
		return build_private_gate(inside, &attach->build, i);
	return 0;
}

static int stop_b(struct stop *stop, void *arg)
{
	struct attach *attach = arg;
	struct inside *inside = attach->inside;
	const struct block_header *header = &inside->header;
	struct block_site *sites = inside->sites;
	struct site_bytes *bytes = NULL;
	int err;

	if (!has_parts(attach, &stop->maps)) {
		attach->inode = 0;
		return ctx_error(stop->ctx, -EBUSY,
				 "pid %d: another tool, or the process, has removed the memory of "
				 "the counters",
				 (int)stop->pid);
	}
	if (attach->has_windows ? threads_are_in_windows(stop->tracee, stop->memory, &stop->maps,
							 attach->addrs, header->n_sites)
				: threads_are_inside(stop->tracee, attach->addrs, header->n_sites))
		return ctx_error(stop->ctx, -EAGAIN, "pid %d: a thread is inside a site",
				 (int)stop->pid);
	/*
	 * The process may have changed the sites in its block. This tool reads its own copy of the
	 * sites, but the stores routine reads those in the block: both must be equal.
	 */
	if (memcmp(inside->block + header->sites_off, sites, header->n_sites * sizeof(*sites)) != 0)
		return ctx_error(stop->ctx, -EBUSY, "pid %d: changes the memory of its counters",
				 (int)stop->pid);
	err = site_reader_read(inside->reader, inside->memory, &bytes);
	for (size_t i = 0; !err && i < header->n_sites; i++)
		err = take_current(attach, i, &bytes[i]);
	inside_put_sites(inside);
	if (!err)
		err = write_sites(stop, inside, bytes, header->n_sites, STORES_ATTACH);
	for (size_t i = 0; !err && i < header->n_sites; i++) {
		sites[i].is_patched = BLOCK_PATCHED;
		sites[i].store = 0;
	}
	inside_put_sites(inside);
	return err;
}

/*
 * Undo a failed attach: restore the sites and remove the block. The block stays if another tool has
 * changed a site. Returns -EAGAIN if a thread may be in the block's code.
 */
static int stop_undo(struct stop *stop, void *arg)
{
	struct attach *attach = arg;
	const struct block_header *header = &attach->inside->header;
	size_t n_foreign;
	int err;

	if (!has_parts(attach, &stop->maps))
		return 0;
	if (attach->inside->header.magic) {
		if (stop_may_use(stop, header))
			return -EAGAIN;
		err = restore_sites(stop, attach->inside, &n_foreign);
		if (err || n_foreign)
			return err;
	}
	return stop_unmap_block(stop, header);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/*
 * Run WORK in a stop. WORK returns -EAGAIN if no thread could be used for remote calls, or a thread
 * was inside a site: in this case, run WORK again in a later stop.
 */
static int run_again(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg)
{
	int err = stop_run(stop, work, arg);

	for (int i = 1; err == -EAGAIN && i < TRIES; i++) {
		usleep(RETRY_US);
		err = stop_run(stop, work, arg);
	}
	return err;
}

static void publish(struct attach *attach)
{
	struct inside *inside = attach->inside;
	struct block_header *header = &inside->header;
	struct block_header *there = (struct block_header *)inside->block;

	header->ns_per_tick = attach->ns_per_tick;
	header->start_ns = clock_ns(CLOCK_MONOTONIC);
	header->start_ticks = ticks_now();
	*there = *header;
	header->magic = BLOCK_MAGIC;
	__atomic_store_n(&there->magic, header->magic, __ATOMIC_RELEASE);
}

static int do_attach(struct attach *attach)
{
	struct inside *inside = attach->inside;
	int err = inside_check_not_counted(inside->ctx, inside->pid);

	if (!err)
		err = stop_open(inside->ctx, inside->pid, attach->build.spec->held, &attach->stop);
	if (!err)
		err = remote_plan_make(inside->ctx, inside->pid, &attach->stop.plan);
	if (!err && (attach->build.spec->n_pairs || attach->build.spec->event_bytes))
		err = ticks_ns_per_tick(inside->ctx, &attach->ns_per_tick);
	if (!err)
		err = prepare_block(attach);
	if (!err)
		err = run_again(&attach->stop, stop_a, attach);
	inside->header.ns_per_tick = attach->ns_per_tick;
	if (!err)
		err = build_block(attach->inside, &attach->build);
	if (!err)
		publish(attach);
	return err ? err : run_again(&attach->stop, stop_b, attach);
}

int inside_attach(struct ocp_ctx *ctx, pid_t pid, const struct inside_spec *spec,
		  struct inside **out)
{
	struct attach attach = { .build.spec = spec };
	int err, gone;

	*out = NULL;
	attach.inside = inside_new(ctx, pid);
	if (!attach.inside)
		return ctx_no_memory(ctx);
	err = memory_open(ctx, pid, &attach.inside->memory);
	if (!err)
		err = do_attach(&attach);
	/* If the process has ended, report this: the errors that its end causes are misleading. */
	gone = err && attach.stop.memory ? stop_check_alive(&attach.stop) : 0;
	err = gone ? gone : err;
	if (err && attach.inode && attach.inside->block) {
		char *message = strdup(ocp_error(ctx));

		run_again(&attach.stop, stop_undo, &attach);
		ctx_error(ctx, err, "%s", message ? message : "cannot count inside");
		free(message);
	}
	stop_close(&attach.stop);
	if (err)
		inside_close(attach.inside);
	else
		*out = attach.inside;
	return err;
}
