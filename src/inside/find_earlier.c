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
#include "tracee/proc_file.h"

enum { FIND_TRIES = 10 };

/*
 * Map the memfd itself. It needs CAP_CHECKPOINT_RESTORE. A file that can shrink could make us fail with
 * SIGBUS: the seal says that it cannot.
 */
static bool map_shared(struct inside *inside, const struct block_found *block)
{
	char name[64], path[PROC_PATH_BYTES];
	struct stat st;
	void *map;
	int fd;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, block->start, block->end);
	proc_path(path, inside->pid, name);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || st.st_ino != block->inode ||
	    (uint64_t)st.st_size < block->header.bytes ||
	    (fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_SEAL)) !=
		    (F_SEAL_SHRINK | F_SEAL_SEAL)) {
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
	err = inside_refresh(inside, true);
	if (err || inside_is_in(inside, inside->pid))
		return err;
	return ctx_error(inside->ctx, -EFAULT, "pid %d: the memory of its counters changes",
			 (int)inside->pid);
}

/*
 * Of several blocks: the newest one that counts. The others wait for their removal: all their sites had been
 * restored when the newest one came. Of a site whose displacement a killed tool has written in part, the bytes
 * may fit more than one block.
 */
static int choose(struct ocp_ctx *ctx, pid_t pid, const struct block_found *blocks, size_t n,
		  struct inside **out)
{
	for (size_t i = 0; i < n; i++) {
		struct inside *inside;
		struct inside_state state = { 0 };
		int err;

		if (!blocks[i].is_complete)
			continue;
		inside = inside_new(ctx, pid);
		if (!inside)
			return ctx_no_memory(ctx);
		inside->header = blocks[i].header;
		err = memory_open(ctx, pid, &inside->memory);
		if (!err && !map_shared(inside, &blocks[i]))
			err = map_copy(inside);
		if (!err)
			err = inside_state(inside, &state);
		if (err || (*out && !(state.n_patched + state.n_switched))) {
			inside_close(inside);
			if (err)
				return err;
			continue;
		}
		inside_close(*out);
		*out = inside;
		if (state.n_patched + state.n_switched)
			break;
	}
	return *out != NULL;
}

/* A block of another version is neither read nor removed. Its sites may call it. */
static int check_versions(struct ocp_ctx *ctx, pid_t pid, const struct block_found *blocks,
			  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!blocks[i].is_gone && !blocks[i].is_complete && !blocks[i].is_orphan)
			return ctx_error(ctx, -EPROTO,
					 "pid %d: is counted inside by another version of "
					 "ocaml-probes: use that version to end it",
					 (int)pid);
	return 0;
}

static int find_once(struct ocp_ctx *ctx, pid_t pid, struct inside **out)
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
		err = choose(ctx, pid, blocks, n, out);
	if (err < 0) {
		inside_close(*out);
		*out = NULL;
	}
	free(blocks);
	maps_free(&maps);
	memory_close(memory);
	return err;
}

/* -EFAULT: another tool has removed a block while it was read. There may be another one by now. */
int inside_find(struct ocp_ctx *ctx, pid_t pid, struct inside **out)
{
	int err = find_once(ctx, pid, out);

	for (int i = 1; err == -EFAULT && i < FIND_TRIES; i++)
		err = find_once(ctx, pid, out);
	return err;
}
