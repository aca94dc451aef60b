// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: a block inside of a process whose owner lies. The block is a good one, as the
 * tool writes it; the input changes it. There are two images of it, and each read of the process
 * sees the one or the other. So what was checked may differ from what is read later. header ->
 * check -> refresh -> totals, state, description.
 *
 *	byte 0		bit 0: the block is mapped here, and changes under the reader; bits 1-2:
 *			pairs
 *	bytes 1-8	which image each read sees
 *	then 12 bytes each: 1: image, size of the value (1, 2, 4, 8) and place: header, sites,
 *	pairs, meta; 1: unused; 2: offset there; 8: value
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "change/inside/blocks.h"
#include "change/inside/held.h"
#include "change/inside/layout.h"
#include "change/inside/block.h"
#include "change/inside/templates.h"
#include "measure/engine/inside_meta.h"
#include "measure/pin_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum {
	N_SITES = 3,
	ADDR = 0x10000000,
	SITES_ADDR = 0x400000,
	HEAD_BYTES = 9,
	EDIT_BYTES = 12,
	INODE = 7
};

static void require(int condition)
{
	if (!condition)
		abort();
}

/* ---- the memory of the process --------------------------------------------------------------- */

static struct process {
	struct block_header header; /* of the good block */
	uint8_t *images[2];
	uint64_t schedule;
	unsigned int n_reads;
	uint8_t *shared; /* our mapping of the block, which changes at each read */
} process;

struct memory {
	struct ocp_ctx *ctx;
};

static const uint8_t *next_image(void)
{
	const uint8_t *image = process.images[process.schedule >> (process.n_reads++ % 64) & 1];

	if (process.shared)
		memcpy(process.shared, image, process.header.bytes);
	return image;
}

/* Read as the kernel does: nothing outside of what is mapped. */
static int read_at(uint64_t addr, void *to, size_t bytes)
{
	const uint8_t *image = next_image();

	if (addr >= SITES_ADDR && addr < SITES_ADDR + 4096 && bytes <= 4096) {
		memset(to, 0x90, bytes);
		return 0;
	}
	if (addr < ADDR || addr - ADDR > process.header.bytes ||
	    bytes > process.header.bytes - (addr - ADDR))
		return -EFAULT;
	memcpy(to, image + (addr - ADDR), bytes);
	return 0;
}

int memory_open(struct ocp_ctx *ctx, pid_t pid, struct memory **out)
{
	(void)pid;
	*out = calloc(1, sizeof(**out));
	require(*out != NULL);
	(*out)->ctx = ctx;
	return 0;
}

void memory_close(struct memory *memory)
{
	free(memory);
}

pid_t memory_pid(const struct memory *memory)
{
	(void)memory;
	return getpid();
}

bool memory_is_alive(const struct memory *memory)
{
	(void)memory;
	return true;
}

int memory_check_alive(const struct memory *memory)
{
	(void)memory;
	return 0;
}

int memory_read(const struct memory *memory, struct memory_piece *pieces, size_t n, void *buf)
{
	(void)memory;
	(void)pieces;
	(void)n;
	(void)buf;
	return -EFAULT;
}

/* Each site is read by itself. */
int memory_plan_make(const struct memory *memory, struct memory_piece *pieces, size_t n,
		     struct memory_plan **out)
{
	(void)memory;
	(void)n;
	free(pieces);
	*out = NULL;
	return -EFAULT;
}

void memory_plan_free(struct memory_plan *plan)
{
	require(plan == NULL);
}

const struct memory_piece *memory_plan_pieces(const struct memory_plan *plan)
{
	require(plan == NULL);
	return NULL;
}

int memory_plan_read(const struct memory *memory, struct memory_plan *plan, void *buf)
{
	(void)memory;
	(void)plan;
	(void)buf;
	return -EFAULT;
}

int memory_read_in_order(const struct memory *memory, const struct iovec *remote, size_t n,
			 void *buf, size_t bytes)
{
	(void)memory;
	require(n == 1 && remote->iov_len == bytes);
	return read_at((uint64_t)(uintptr_t)remote->iov_base, buf, bytes);
}

bool memory_try_read(const struct memory *memory, uint64_t addr, void *buf, size_t bytes)
{
	(void)memory;
	return read_at(addr, buf, bytes) == 0;
}

/* ---- a good block ---------------------------------------------------------------------------- */

static const struct inside_role roles[] = { { .is_stop = false }, { .is_stop = true } };

static void make_header(uint32_t n_pairs, size_t text_bytes)
{
	struct block_header *h = &process.header;
	const uint64_t page = 4096;

	*h = (struct block_header){
		.magic = BLOCK_MAGIC,
		.version = BLOCK_VERSION,
		.header_bytes = sizeof(*h),
		.addr = ADDR,
		.meta_bytes =
			sizeof(struct inside_meta_head) + N_SITES * sizeof(uint32_t) + text_bytes,
		.n_sites = N_SITES,
		.n_pairs = n_pairs,
		.n_shards = 2,
		.n_threads = n_pairs ? PAIRS_WINDOW : 0,
		.depth = 4,
		.n_parts = 1,
	};
	layout_offsets(h);
	h->code_bytes = layout_trampolines_off(h) - h->code_off +
			N_SITES * templates_site_bytes(h->n_shards, roles, 2);
	h->code_bytes = (h->code_bytes + page - 1) / page * page;
	h->bytes = h->code_off + h->code_bytes;
	h->parts[0] = (struct block_part){ ADDR, h->code_off, h->code_bytes };
}

static void fill(uint8_t *image, const char *text, size_t text_bytes)
{
	const struct block_header *h = &process.header;
	struct block_site *sites = (struct block_site *)(void *)(image + h->sites_off);
	struct inside_number numbers[N_SITES] = { { 0, 0 }, { 1, 1 }, { 2, 2 } };
	struct inside_meta meta = { .name = "night",
				    .numbers = numbers,
				    .n_numbers = N_SITES,
				    .n_sites = N_SITES,
				    .text = (char *)(uintptr_t)text,
				    .text_bytes = text_bytes };
	struct inside_meta_head head;
	struct iovec pieces[INSIDE_META_PIECES];
	uint8_t *to = image + h->meta_off;

	memcpy(image, h, sizeof(*h));
	for (size_t i = 0; i < N_SITES; i++)
		sites[i] = (struct block_site){
			.addr = SITES_ADDR + 16 * i,
			.trampoline = ADDR + layout_trampolines_off(h) +
				      templates_entry_off(h->n_shards) +
				      i * templates_site_bytes(h->n_shards, roles, 2),
			.gate_addr = ADDR + h->gates_off + i * sizeof(uint16_t),
			.opcode = SITE_OFF,
			.gate = BLOCK_GATE_PRIVATE,
		};
	inside_meta_pieces(&meta, &head, pieces);
	for (size_t i = 0; i < INSIDE_META_PIECES; i++)
		to = mempcpy(to, pieces[i].iov_base, pieces[i].iov_len);
}

static void edit(const uint8_t *bytes)
{
	const struct block_header *h = &process.header;
	const uint64_t places[] = { 0, h->sites_off, h->pairs_off, h->meta_off };
	const uint64_t ends[] = { sizeof(*h), h->counters_off, h->meta_off,
				  h->meta_off + h->meta_bytes };
	const unsigned int place = bytes[0] >> 4 & 3;
	const size_t size = (size_t)1 << (bytes[0] >> 1 & 3);
	uint64_t room = ends[place] - places[place], value;
	uint16_t off;

	memcpy(&off, bytes + 2, sizeof(off));
	memcpy(&value, bytes + 4, sizeof(value));
	if (room < size)
		return;
	memcpy(process.images[bytes[0] & 1] + places[place] + off % (room - size + 1) / size * size,
	       &value, size);
}

/* ---- the reader ------------------------------------------------------------------------------ */

static void read_meta(struct ocp_ctx *ctx, const struct inside *inside)
{
	struct inside_meta meta;
	size_t bytes;
	const void *from = inside_meta(inside, &bytes);

	if (inside_meta_read(ctx, from, bytes, inside_n_sites(inside), &meta) == 0) {
		struct ocp_meter *meter = ocp_meter_new(ctx);

		require(meter && site_table_keep(&meter->table, meta.text) == 0);
		pin_meta_parse_untrusted(meter, meta.text);
		meta.text = NULL;
		ocp_meter_free(meter);
	}
	inside_meta_free(&meta);
}

static void read_block(struct ocp_ctx *ctx, struct inside *inside)
{
	uint64_t *hits = malloc(inside->header.n_sites * sizeof(*hits));
	struct inside_pair *pairs = malloc((inside->header.n_pairs + 1) * sizeof(*pairs));
	struct inside_state state;

	require(hits && pairs);
	for (int i = 0; i < 2; i++) {
		if (inside_refresh(inside, true) == 0)
			inside_state(inside, &state);
		next_image();
		inside_read(inside, hits, pairs);
		next_image();
		read_meta(ctx, inside);
		inside_is_in(inside, getpid());
	}
	free(hits);
	free(pairs);
}

/* What the reader holds has exactly its size, between pages that nobody may touch. */
static uint8_t *map_guarded(size_t bytes)
{
	uint8_t *at = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(at != MAP_FAILED &&
		mmap(at + 4096, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + 4096);
	return at + 4096;
}

static void find(struct ocp_ctx *ctx, bool is_shared)
{
	const struct block_header *h = &process.header;
	struct mapping mappings[] = {
		{ .start = ADDR, .end = ADDR + h->code_off, .inode = INODE, .path = BLOCK_PATH },
		{ .start = ADDR + h->code_off,
		  .end = ADDR + h->bytes,
		  .off = h->code_off,
		  .inode = INODE,
		  .path = BLOCK_PATH },
	};
	const struct maps maps = { .mappings = mappings, .n = 2 };
	struct inside *inside = inside_new(ctx, getpid());
	struct block_found *blocks;
	size_t n;

	require(inside && memory_open(ctx, getpid(), &inside->memory) == 0);
	require(blocks_find(ctx, inside->memory, &maps, &blocks, &n) == 0 && n == 1);
	if (blocks->is_complete) {
		inside->header = blocks->header;
		require(inside->header.bytes <= h->bytes);
		inside->block = map_guarded(inside->header.bytes);
		inside->is_shared = is_shared;
		process.shared = is_shared ? inside->block : NULL;
		next_image();
		read_block(ctx, inside);
		process.shared = NULL;
		munmap(inside->block - 4096, 4096);
		munmap(inside->block + inside->header.bytes, 4096);
	}
	free(blocks);
	inside_close(inside);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const char text[] =
		"ocaml-probes-kept 2 1\nstart 0\nsplit 0\ncost 1.0 2.0\npid 7\nprobe 1 =a\n"
		"file =/x\nsite 0 0 4a0 1f 12 3 =f =a.ml\n";
	struct ocp_ctx *ctx;

	if (n < HEAD_BYTES)
		return 0;
	ctx = ocp_ctx_new();
	require(ctx != NULL);
	make_header(bytes[0] >> 1 & 3, sizeof(text));
	memcpy(&process.schedule, bytes + 1, sizeof(process.schedule));
	process.n_reads = 0;
	for (int i = 0; i < 2; i++) {
		process.images[i] = calloc(1, process.header.bytes);
		require(process.images[i] != NULL);
		fill(process.images[i], text, sizeof(text));
	}
	for (size_t at = HEAD_BYTES; at + EDIT_BYTES <= n; at += EDIT_BYTES)
		edit(bytes + at);
	find(ctx, bytes[0] & 1);
	for (int i = 0; i < 2; i++)
		free(process.images[i]);
	ocp_ctx_free(ctx);
	return 0;
}
