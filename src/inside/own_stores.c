// SPDX-License-Identifier: MIT
/*
 * Make a process write to many places by a routine of stores.h. The tool has the process map memory
 * for the image of the routine, fills this memory, and points the registers of a thread to the
 * routine. From then on, the process carries out the routine even if the tool is killed. If the
 * tool is killed earlier, an unused mapping or descriptor is left, which stop_remove_orphans()
 * removes.
 *
 * While the routine of a killed tool is running, no other tool may write: stop_run() waits for its
 * end. Two cases are not covered, because the other threads continue when the tool is killed. A
 * thread may unmap a plugin in the very microseconds in which the routine stores to its sites. A
 * thread may fork: the child gets writable text, and sites as they are at that moment.
 */
#include "inside/own_stores.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include "inside/blocks.h"
#include "inside/memfd.h"
#include "tracee/maps.h"

/* ---- what is written to --------------------------------------------------------------------- */

/* The mappings whose text is to be written. */
struct text {
	const struct stop *stop;
	bool *marks; /* for each mapping: it is in `ranges` */
	/* the mapping found last: a cache, since the next address is mostly in it too */
	const struct mapping *latest;
	struct stores_range *ranges;
	size_t n;
};

static int text_begin(struct stop *stop, struct text *text)
{
	*text = (struct text){
		.stop = stop,
		.marks = calloc(stop->maps.n + 1, sizeof(*text->marks)),
		.ranges = calloc(stop->maps.n + 1, sizeof(*text->ranges)),
	};
	return text->marks && text->ranges ? 0 : ctx_no_memory(stop->ctx);
}

static void text_end(struct text *text)
{
	free(text->marks);
	free(text->ranges);
}

static const struct mapping *mapping_at(struct text *text, uint64_t addr)
{
	if (!text->latest || addr < text->latest->start || addr >= text->latest->end)
		text->latest = maps_find(&text->stop->maps, addr);
	return text->latest;
}

static int no_stores(const struct stop *stop, uint64_t addr, const char *why)
{
	return ctx_error(stop->ctx, -ENOTSUP, "pid %d: 0x%" PRIx64 " %s", (int)stop->pid, addr,
			 why);
}

/*
 * Add the mapping of ADDR to the ranges. A shared mapping is refused: the stores would change its
 * file.
 */
static int add_code_range(struct text *text, uint64_t addr)
{
	const struct mapping *m = mapping_at(text, addr);

	if (!m || !m->readable || !m->executable || m->writable || m->shared)
		return no_stores(text->stop, addr, "is no ordinary code");
	if (!text->marks[m - text->stop->maps.mappings]) {
		text->marks[m - text->stop->maps.mappings] = true;
		text->ranges[text->n++] = (struct stores_range){ m->start, m->end - m->start };
	}
	return 0;
}

static int check_data(struct text *text, uint64_t addr)
{
	const struct mapping *m = mapping_at(text, addr);

	if (!m || !m->readable || !m->writable || addr + 2 > m->end)
		return no_stores(text->stop, addr, "is no ordinary data");
	return 0;
}

/* ---- carrying it out ------------------------------------------------------------------------ */

static int fill(const struct stop *stop, int ours, const struct stores *stores, uint64_t addr)
{
	const size_t head_bytes = stores_head_bytes(stores), bytes = stores_image_bytes(stores);
	uint8_t *head = malloc(head_bytes);
	const struct iovec parts[] = {
		{ head, head_bytes },
		{ (void *)stores->entries, bytes - head_bytes },
	};
	ssize_t n;

	if (!head)
		return ctx_no_memory(stop->ctx);
	stores_write_head(stores, addr, head);
	n = pwritev(ours, parts, stores->entries ? 2 : 1, 0);
	free(head);
	if (n == (ssize_t)bytes)
		return 0;
	return ctx_error(stop->ctx, n < 0 ? -errno : -ENOSPC, "pid %d: memory for its stores: %s",
			 (int)stop->pid, n < 0 ? strerror(errno) : "no room");
}

/*
 * Check that the memfd was mapped at ADDR. At the moment of the mmap, the descriptor may have
 * referred to another file: see memfd.h.
 */
static int check_image(const struct stop *stop, const struct memfd *memfd, uint64_t addr)
{
	struct maps maps;
	int err = maps_read(stop->ctx, stop->pid, &maps);

	if (!err && !memfd_is_at(&maps, addr, memfd->dev, memfd->ino))
		err = no_stores(stop, addr, "is another file: another process changes descriptors");
	maps_free(&maps);
	return err;
}

static int map_image(struct stop *stop, const struct memfd *memfd, const struct stores *stores,
		     uint64_t *addr)
{
	const size_t bytes = stores_image_bytes(stores);
	const uint64_t args[6] = {
		0, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, (uint64_t)memfd->theirs, 0
	};
	int err = stop_call(stop, "mmap", SYS_mmap, args, addr);

	if (err)
		return err;
	err = check_image(stop, memfd, *addr);
	if (!err)
		err = fill(stop, memfd->ours, stores, *addr);
	if (err)
		stop_unmap(stop, *addr, *addr + bytes);
	return err;
}

static int make_image(struct stop *stop, const struct stores *stores, uint64_t *addr)
{
	const size_t bytes = stores_image_bytes(stores);
	struct memfd memfd;
	int close_err, err = memfd_make(stop, STORES_NAME, bytes, &memfd);

	if (err)
		return err;
	err = map_image(stop, &memfd, stores, addr);
	close_err = memfd_close(stop, &memfd);
	if (!err && close_err && close_err != -ETIMEDOUT && close_err != -ESRCH)
		stop_unmap(stop, *addr, *addr + bytes);
	return err ? err : close_err;
}

/*
 * Warn about text that is still writable, according to the maps: if one of the mprotect steps for a
 * text has failed, the text may be read-only nevertheless.
 */
static void check_closed(const struct stop *stop, const struct stores *stores)
{
	struct maps maps;

	if (maps_read(stop->ctx, stop->pid, &maps) != 0)
		return;
	for (size_t i = 0; i < stores->n_text; i++) {
		const struct mapping *m = maps_find(&maps, stores->text[i].start);

		if (m && m->writable)
			ctx_log(stop->ctx, OCP_LOG_WARN,
				"pid %d: its code at 0x%" PRIx64 " stays writable", (int)stop->pid,
				m->start);
	}
	maps_free(&maps);
}

static int run_store_block(struct stop *stop, struct stores *stores, const struct text *text)
{
	uint64_t addr = 0, result = 0;
	int err;

	stores->text = text->ranges;
	stores->n_text = text->n;
	err = make_image(stop, stores, &addr);
	if (err == -ETIMEDOUT || err == -ESRCH || err == -EAGAIN)
		return err;
	if (err)
		return -ENOTSUP;
	err = remote_run(stop->remote, addr + stores_code_off(stores), addr, &result);
	if (err)
		return err;
	if (stores_close_error(result))
		check_closed(stop, stores);
	if (!stores_open_error(result))
		return 0;
	return ctx_error(stop->ctx, -ENOTSUP, "pid %d: mprotect in the process: %s", (int)stop->pid,
			 strerror(-stores_open_error(result)));
}

int own_stores_sites(struct stop *stop, const struct inside *inside, enum stores_kind kind)
{
	const struct block_header *header = &inside->header;
	const struct block_site *sites = inside_sites(inside);
	struct stores stores = {
		.kind = kind,
		.sites = header->addr + header->sites_off,
		.n = header->n_sites,
	};
	struct text text;
	int err = text_begin(stop, &text);

	/* A site can span two mappings: add the mappings of its first and of its last byte. */
	for (size_t i = 0; !err && i < header->n_sites; i++)
		for (uint64_t off = 0; !err && sites[i].store && off <= 5; off += 5)
			err = add_code_range(&text, sites[i].addr + off);
	if (!err)
		err = run_store_block(stop, &stores, &text);
	text_end(&text);
	return err;
}

/* ---- lists ---------------------------------------------------------------------------------- */

struct own_list {
	const struct patch_write *writes;
	size_t n;
	uint64_t entries[];
};

int own_list_make(struct ocp_ctx *ctx, const struct patch_write *writes, size_t n,
		  struct own_list **out)
{
	struct own_list *list = malloc(sizeof(*list) + n * sizeof(list->entries[0]));
	size_t to = 0;

	*out = list;
	if (!list)
		return ctx_no_memory(ctx);
	list->writes = writes;
	list->n = n;
	for (int phase = 0; phase < N_PATCH_PHASES; phase++)
		for (size_t i = 0; i < n; i++)
			if (writes[i].phase == phase)
				list->entries[to++] = stores_entry(writes[i].addr, writes[i].new,
								   writes[i].bytes);
	return 0;
}

void own_list_free(struct own_list *list)
{
	free(list);
}

bool own_list_is_of(const struct own_list *list, const struct patch_write *writes, size_t n)
{
	return list && list->writes == writes && list->n == n;
}

int own_stores_list(struct stop *stop, const struct own_list *list)
{
	struct stores stores = { .kind = STORES_LIST, .entries = list->entries, .n = list->n };
	struct text text;
	int err = text_begin(stop, &text);

	for (size_t i = 0; !err && i < list->n; i++) {
		const struct patch_write *w = &list->writes[i];

		err = w->bytes == 1 ? add_code_range(&text, w->addr) : check_data(&text, w->addr);
		if (!err && !stores_entry(w->addr, w->new, w->bytes))
			err = no_stores(stop, w->addr, "is too high an address");
	}
	err = err ? -ENOTSUP : run_store_block(stop, &stores, &text);
	text_end(&text);
	return err;
}
