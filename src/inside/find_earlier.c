// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "inside/blocks.h"
#include "inside/held.h"
#include "tracee/memfd_file.h"
#include "tracee/proc_file.h"

enum { FIND_TRIES = 10 };

/*
 * Map the memfd of BLOCK, which needs CAP_CHECKPOINT_RESTORE. Return false if that is not possible.
 * If the file shrank, an access would end us with SIGBUS, so the file must have the seal that
 * prevents shrinking. Inode, seals and size are checked on the opened file: in its mount namespace,
 * the process may have mapped any file that has the path of a memfd.
 */
static bool map_shared(struct inside *inside, const struct block_found *block)
{
	char name[64], path[PROC_PATH_BYTES];
	struct stat st;
	void *map;
	int fd;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, block->start, block->end);
	proc_path(path, inside->pid, name);
	fd = memfd_file_open(path, O_RDWR, &st);
	if (fd < 0)
		return false;
	if (st.st_ino != block->inode || !memfd_file_is_sealed(fd, F_SEAL_SHRINK | F_SEAL_SEAL) ||
	    fstat(fd, &st) != 0 || (uint64_t)st.st_size < block->header.bytes) {
		close(fd);
		return false;
	}
	map = mmap(NULL, block->header.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return false;
	inside->block = map;
	inside->is_shared = true;
	return true;
}

static int map_copy(struct inside *inside)
{
	void *map = mmap(NULL, inside->header.bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int err;

	if (map == MAP_FAILED)
		return ctx_no_memory(inside->ctx);
	inside->block = map;
	/* Copy the sites first: a bad site ends the copy before all counters are read. */
	err = inside_take_sites(inside);
	if (!err)
		err = inside_copy_meta(inside);
	if (!err)
		err = inside_refresh(inside, false);
	if (err || inside_is_in(inside, inside->pid))
		return err;
	return ctx_error(inside->ctx, -EFAULT, "pid %d: the memory of its counters changes",
			 (int)inside->pid);
}

/*
 * Reduce ROOM by what a search may read of a block: header, sites, gates, counters and meta. Return
 * -E2BIG with a message if ROOM does not suffice. (Counters are only read if the block cannot be
 * mapped.)
 */
static int take_room(struct ocp_ctx *ctx, pid_t pid, const struct block_header *header,
		     struct inside_room *room)
{
	const uint64_t bytes = header->pairs_off + header->meta_bytes;

	if (!room)
		return 0;
	if (header->n_sites > room->sites || bytes > room->bytes)
		return ctx_error(ctx, -E2BIG,
				 "pid %d: what counts inside of it is too large to be read unless "
				 "the process is named",
				 (int)pid);
	room->sites -= header->n_sites;
	room->bytes -= bytes;
	return 0;
}

/*
 * Set *OUT to the newest block that counts, or to the newest block if none counts. Return 1, or 0
 * if there is no block. More than one block may seem to count: if a killed tool has written only a
 * part of a site's displacement, the bytes of the site may fit several blocks. The newest of them
 * is the right one, since all sites of the older blocks had been restored when it was made.
 */
static int choose_block(struct ocp_ctx *ctx, pid_t pid, const struct block_found *blocks, size_t n,
			struct inside_room *room, struct inside **out)
{
	for (size_t i = 0; i < n; i++) {
		struct inside *inside;
		bool counts;
		int err;

		if (!blocks[i].is_complete)
			continue;
		err = take_room(ctx, pid, &blocks[i].header, room);
		if (err)
			return err;
		inside = inside_new(ctx, pid);
		if (!inside)
			return ctx_no_memory(ctx);
		inside->header = blocks[i].header;
		err = memory_open(ctx, pid, &inside->memory);
		if (!err && !map_shared(inside, &blocks[i]))
			err = map_copy(inside);
		if (!err)
			err = inside_state(inside, &inside->seen);
		counts = !err && inside->seen.n_patched + inside->seen.n_switched;
		if (err || (*out && !counts)) {
			inside_close(inside);
			if (err)
				return err;
			continue;
		}
		inside_close(*out);
		*out = inside;
		if (counts)
			break;
	}
	return *out != NULL;
}

/*
 * Fail if a block is damaged or of another version. Such a block is neither read nor removed, since
 * sites may call it.
 */
static int check_versions(struct ocp_ctx *ctx, pid_t pid, const struct block_found *blocks,
			  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (blocks[i].is_damaged)
			return ctx_error(ctx, -EBADMSG,
					 "pid %d: the memory of its counters is damaged: it cannot "
					 "be read",
					 (int)pid);
		else if (!blocks[i].is_gone && !blocks[i].is_complete && !blocks[i].is_orphan)
			return ctx_error(ctx, -EPROTO,
					 "pid %d: is counted inside by another version of "
					 "ocaml-probes: use that version to end it",
					 (int)pid);
	return 0;
}

static int find_once(struct ocp_ctx *ctx, pid_t pid, struct inside_room *room, struct inside **out)
{
	struct block_found *blocks = NULL;
	struct memory *memory;
	struct maps maps = { 0 };
	size_t n = 0;
	int err;

	*out = NULL;
	err = memory_open(ctx, pid, &memory);
	if (!err)
		err = maps_read(ctx, pid, &maps);
	if (!err)
		err = blocks_find(ctx, memory, &maps, &blocks, &n);
	if (!err)
		err = check_versions(ctx, pid, blocks, n);
	if (!err)
		err = choose_block(ctx, pid, blocks, n, room, out);
	if (err < 0) {
		inside_close(*out);
		*out = NULL;
	}
	free(blocks);
	maps_free(&maps);
	memory_close(memory);
	return err;
}

/*
 * Try again after -EFAULT: another tool has removed a block while it was read, and there may be a
 * new one by now. Also after -EBADMSG: for the same reason, or because another tool is changing the
 * gate of a site, which takes two steps.
 */
int inside_find_within(struct ocp_ctx *ctx, pid_t pid, struct inside_room *room,
		       struct inside **out)
{
	int err = find_once(ctx, pid, room, out);

	for (int i = 1; (err == -EFAULT || err == -EBADMSG) && i < FIND_TRIES; i++)
		err = find_once(ctx, pid, room, out);
	return err;
}

int inside_find(struct ocp_ctx *ctx, pid_t pid, struct inside **out)
{
	return inside_find_within(ctx, pid, NULL, out);
}
