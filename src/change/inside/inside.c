// SPDX-License-Identifier: MIT
#include "change/inside/inside.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/array.h"
#include "change/inside/block.h"
#include "change/inside/blocks.h"
#include "change/inside/groups.h"
#include "change/inside/held.h"
#include "change/inside/records.h"
#include "change/inside/site_bytes.h"
#include "change/inside/totals.h"
#include "look/memfd_file.h"
#include "look/proc_file.h"

struct inside *inside_new(struct ocp_ctx *ctx, pid_t pid)
{
	struct inside *inside = calloc(1, sizeof(*inside));

	if (!inside)
		return NULL;
	inside->ctx = ctx;
	inside->pid = pid;
	inside->knows_gone = gone_threads_are_known(pid);
	return inside;
}

void inside_close(struct inside *inside)
{
	if (!inside)
		return;
	if (inside->block)
		munmap(inside->block, inside->header.bytes);
	memory_close(inside->memory);
	site_reader_free(inside->reader);
	records_free(inside->records);
	free(inside->sites);
	free(inside);
}

const void *inside_meta(const struct inside *inside, size_t *bytes)
{
	*bytes = inside->header.meta_bytes;
	return inside->block + inside->header.meta_off;
}

size_t inside_n_sites(const struct inside *inside)
{
	return inside->header.n_sites;
}

size_t inside_n_pairs(const struct inside *inside)
{
	return inside->header.n_pairs;
}

int64_t inside_start_ns(const struct inside *inside)
{
	return inside->header.start_ns;
}

pid_t inside_maker(const struct inside *inside)
{
	return (pid_t)inside->header.maker;
}

/* ---- a copy --------------------------------------------------------------------------------- */

static int copy_part(struct inside *inside, uint64_t off, uint64_t bytes)
{
	return block_copy(inside->memory, &inside->header, off, bytes, inside->block + off);
}

/* Return how many starts of PAIR are open, whether or not their threads still exist. */
static uint64_t n_open(const struct inside_pair *pair)
{
	const uint64_t ended =
		pair->count + pair->orphan_starts + pair->collisions + pair->not_keyed;

	return pair->starts > ended ? pair->starts - ended : 0;
}

/* Return true if pair number PAIR, whose totals were copied, has open starts. */
static bool has_open_starts(const struct inside *inside, uint32_t pair)
{
	struct inside_pair totals;

	totals_pair(&inside->header, inside->block, pair, &totals);
	return n_open(&totals);
}

/*
 * Copy one pair. Skip slots that no thread has used, and open starts if there are none: reading
 * them would make the kernel allocate memory for them.
 */
static int copy_pair(struct inside *inside, uint32_t pair)
{
	const struct block_header *header = &inside->header;
	const uint64_t off = pairs_area_off(header, pair);
	const uint64_t slots_off = off + pairs_slots_off(header->n_threads);
	const struct pairs_shared *shared = (const struct pairs_shared *)(inside->block + off);
	int err = copy_part(inside, off, slots_off - off);

	for (uint32_t i = 0; !err && i < pairs_n_in_area(header); i++)
		if (shared->used[i / 64] >> (i % 64) & 1)
			err = copy_part(inside, slots_off + i * sizeof(struct pairs_slot),
					sizeof(struct pairs_slot));
	if (!err && shared->is_keyed && has_open_starts(inside, pair))
		err = copy_part(inside, slots_off + pairs_keys_off(header->n_threads),
				pairs_n_keys(header->n_threads) * sizeof(struct pairs_keyed_start));
	return err;
}

/*
 * Copy the meta bytes of the block into inside->block. No tool changes these bytes after the block
 * was made.
 */
static int copy_meta(struct inside *inside)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t start = (uintptr_t)(inside->block + inside->header.meta_off);

	/* Use huge pages: each page fault takes microseconds under a hypervisor. */
	madvise((void *)(start & -page), inside->header.meta_bytes, MADV_HUGEPAGE);
	return copy_part(inside, inside->header.meta_off, inside->header.meta_bytes);
}

int inside_refresh(struct inside *inside, bool with_pairs)
{
	const struct block_header *header = &inside->header;
	int err = 0;

	if (inside->is_shared || inside->is_detached)
		return 0;
	/* Copy gates and counters only: the header and the sites in inside->block are not used. */
	err = copy_part(inside, header->gates_off, header->pairs_off - header->gates_off);
	for (uint32_t i = 0; with_pairs && !err && i < header->n_pairs; i++)
		err = copy_pair(inside, i);
	return err ? err : memory_check_alive(inside->memory);
}

/* ---- the sites ------------------------------------------------------------------------------ */

/* Report that the block is damaged. Return -EBADMSG, with a message. */
static int report_damaged(struct ocp_ctx *ctx, pid_t pid)
{
	return ctx_error(ctx, -EBADMSG,
			 "pid %d: the memory of its counters is damaged: it cannot be read",
			 (int)pid);
}

static struct block_site *shared_sites(const struct inside *inside)
{
	return (struct block_site *)(inside->block + inside->header.sites_off);
}

/*
 * Read is_patched of all sites of a block that this tool made. Other tools change nothing else in
 * the sites of such a block.
 */
static void take_patched(struct inside *inside)
{
	for (size_t i = 0; i < inside->header.n_sites; i++)
		inside->sites[i].is_patched = shared_sites(inside)[i].is_patched;
}

/*
 * Read inside->sites again from the block. Return 0, -EBADMSG with a message if the block describes
 * invalid sites, -ENOMEM, or an error of block_copy_sites().
 */
static int take_sites(struct inside *inside)
{
	const struct block_header *header = &inside->header;
	int err;

	if (inside->is_detached)
		return 0;
	if (inside->is_made) {
		take_patched(inside);
		return 0;
	}
	if (!inside->sites)
		inside->sites = malloc(header->n_sites * sizeof(*inside->sites));
	if (!inside->sites)
		return ctx_no_memory(inside->ctx);
	err = block_copy_sites(inside->memory, header, inside->is_shared ? inside->block : NULL,
			       inside->sites);
	return err == -EBADMSG ? report_damaged(inside->ctx, inside->pid) : err;
}

void inside_put_sites(const struct inside *inside)
{
	memcpy(shared_sites(inside), inside->sites,
	       inside->header.n_sites * sizeof(*inside->sites));
}

/* ---- totals and states ---------------------------------------------------------------------- */

/*
 * Add to the orphan starts of PAIR the open starts whose thread or process has ended. Add at most
 * as many as PAIR has open starts: starts that were made after PAIR was read are not in PAIR.
 */
static void add_gone(const struct inside *inside, uint32_t i, struct inside_pair *pair)
{
	const uint64_t open = n_open(pair);
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

void inside_read_filtered(const struct inside *inside, struct inside_filtered *filtered)
{
	totals_filtered(&inside->header, inside->block, filtered);
}

void inside_read_group(const struct inside *inside, uint32_t number, struct inside_group *group)
{
	groups_read(&inside->header, inside->block, number, group);
}

size_t inside_group_room(const struct inside *inside)
{
	return groups_n_entries(inside->header.n_groups);
}

void inside_read_times(const struct inside *inside, uint32_t number, uint32_t pair,
		       inside_times_fn fn, void *data)
{
	groups_read_times(&inside->header, inside->block, number, pair, fn, data);
}

size_t inside_times_room(const struct inside *inside)
{
	return inside->header.n_times;
}

/* Fill in the private gates, which are words of inside->block. */
static void take_private_gates(const struct inside *inside, struct site_bytes *bytes)
{
	const struct block_site *sites = inside->sites;
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
	err = take_sites(inside);
	if (err)
		return err;
	sites = inside->sites;
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
	sites = inside->sites;
	for (size_t i = 0; i < inside->header.n_sites; i++) {
		const enum site_now now = site_now(&sites[i], &bytes[i]);

		state->n_patched += now == SITE_NOW_COUNTS;
		state->n_windows += now == SITE_NOW_COUNTS && is_window(&inside->sites[i]);
		state->n_switched += now == SITE_NOW_SWITCHED || now == SITE_NOW_CUT;
		state->n_foreign += now == SITE_NOW_FOREIGN;
	}
	return 0;
}

struct inside_state inside_state_found(const struct inside *inside)
{
	return inside->seen;
}

/* ---- events ---------------------------------------------------------------------------------- */

int inside_take_records(struct inside *inside, uint32_t n_points, bool all, inside_record_fn fn,
			void *data)
{
	int err;

	if (!inside->records)
		inside->records = records_new(&inside->header, inside->block);
	if (!inside->records)
		return ctx_no_memory(inside->ctx);
	err = records_take(inside->records, n_points, all, fn, data);
	if (err == -EBADMSG)
		return ctx_error(inside->ctx, err,
				 "pid %d: the memory of its events is damaged: it cannot be read",
				 (int)inside->pid);
	return err ? ctx_no_memory(inside->ctx) : 0;
}

bool inside_read_word(const struct inside *inside, uint64_t addr, uint64_t *word)
{
	return memory_try_read(inside->memory, addr, word, sizeof(*word));
}

uint64_t inside_records_lost(const struct inside *inside)
{
	return inside->records ? records_lost(inside->records) : 0;
}

uint64_t inside_records_damaged(const struct inside *inside)
{
	return inside->records ? records_damaged(inside->records) : 0;
}

/* ---- finding a block ------------------------------------------------------------------------ */

enum { FIND_TRIES = 10 };

/*
 * Map the memfd of BLOCK, which needs CAP_CHECKPOINT_RESTORE. Return false if that is not possible.
 * If the file shrank, an access would end this tool with SIGBUS, so the file must have the seal
 * that prevents shrinking. Inode, seals and size are checked on the opened file: in its own mount
 * namespace, the process may have mapped any file under a path that looks like the memfd's.
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
	/* Copy the sites first: if a site is invalid, return before any counter is read. */
	err = take_sites(inside);
	if (!err)
		err = copy_meta(inside);
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
		return ctx_error(
			ctx, -E2BIG,
			"pid %d: the memory of its counters is too large to be read unless "
			"the process is named",
			(int)pid);
	room->sites -= header->n_sites;
	room->bytes -= bytes;
	return 0;
}

/*
 * Set *OUT to the newest block that counts. If no block counts, set *OUT to the newest block.
 * Return 1; if the process has no block, return 0. A tool that was killed while it wrote the
 * displacement of a site leaves a mixture of old and new bytes, which may be a displacement to
 * another block. Then several blocks seem to count, and the newest one is right: a tool makes a
 * block only after all sites of the older blocks have been restored.
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
 * Fail if a block is damaged or of another version. Do not read or remove such a block: sites may
 * call it.
 */
static int check_versions(struct ocp_ctx *ctx, pid_t pid, const struct block_found *blocks,
			  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (blocks[i].is_damaged)
			return report_damaged(ctx, pid);
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
 * new block by now. Try again also after -EBADMSG, which can have the same reason, or another one:
 * another tool is changing the gate of a site, which takes two steps.
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

/*
 * Return true if PID has the block mapped: the block was made for PID, or for a process from which
 * PID was forked.
 */

bool inside_is_in(const struct inside *inside, pid_t pid)
{
	struct block_header header = { 0 };
	struct memory *memory;
	bool is_in;

	if (memory_open(inside->ctx, pid, &memory) != 0)
		return false;
	is_in = memory_try_read(memory, inside->header.addr, &header, sizeof(header)) &&
		memory_is_alive(memory) && memcmp(&header, &inside->header, sizeof(header)) == 0;
	memory_close(memory);
	return is_in;
}

/* ---- processes that have a block ------------------------------------------------------------ */

/* The limit of what is read of the maps of a process: see proc_file.c. */
enum { MAX_MAPS_BYTES = 16 << 20 };

/*
 * Return true if LINE, of LENGTH bytes, ends with the path of a block. Newlines in paths are
 * escaped.
 */
static bool is_of_block(const char *line, size_t length)
{
	static const char end[] = " " BLOCK_PATH "\n";

	return length >= strlen(end) && strcmp(line + length - strlen(end), end) == 0;
}

/* Return true if PID has a block. Return false also if PID has ended or may not be inspected. */
static bool has_block(pid_t pid)
{
	char path[PROC_PATH_BYTES], *line = NULL;
	size_t room = 0, used = 0;
	bool found = false;
	ssize_t n;
	FILE *file;

	proc_path(path, pid, "maps");
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && used < MAX_MAPS_BYTES && (n = getline(&line, &room, file)) > 0) {
		found = is_of_block(line, (size_t)n);
		used += (size_t)n;
	}
	free(line);
	fclose(file);
	/*
	 * With CAP_PERFMON, this tool can open the maps of any process, so check the right to
	 * inspect PID, too.
	 */
	return found && proc_may_inspect(pid);
}

int inside_find_processes(struct ocp_ctx *ctx, pid_t **pids, size_t *n)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int err = 0;

	*pids = NULL;
	*n = 0;
	if (!proc)
		return ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	while (!err && (errno = 0, entry = readdir(proc))) {
		pid_t pid, *new;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (!has_block(pid))
			continue;
		new = array_add(*pids, *n);
		if (new)
			*new = pid;
		else
			err = ctx_no_memory(ctx);
	}
	if (!err && errno)
		err = ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	closedir(proc);
	return err;
}
