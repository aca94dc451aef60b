// SPDX-License-Identifier: MIT
/*
 * Whatever the owner of a process writes to the header of a block: either it is refused, or all
 * that readers take from the block lies within it. The block here has exactly its size, so that a
 * sanitizer sees a step beyond.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "change/inside/blocks.h"
#include "change/inside/groups.h"
#include "change/inside/layout.h"
#include "change/inside/block.h"
#include "change/inside/site_bytes.h"
#include "change/inside/templates.h"
#include "change/inside/totals.h"
#include "unit.h"

enum { N_SITES = 5, N_META = 77, NEAR = 0x400000, FAR = 0x50000000 };

/*
 * A header as the tool writes it: two parts, with N_PAIRS pairs and N_SHARDS shards; with one pair,
 * groups of hits and times, with two pairs, rings, too.
 */
static struct block_header make_header(size_t n_pairs, uint32_t n_shards)
{
	static const struct inside_site sites[N_SITES] = {
		{ .addr = NEAR }, { .addr = NEAR + 8 }, { .addr = NEAR + 16 },
		{ .addr = FAR },  { .addr = FAR + 8 },
	};
	static const uint64_t addrs[N_SITES] = { NEAR, NEAR + 8, NEAR + 16, FAR, FAR + 8 };
	const struct inside_spec spec = { .sites = sites,
					  .n_sites = N_SITES,
					  .n_pairs = n_pairs,
					  .n_groups = n_pairs == 1 ? 3 : 0,
					  .groups_times = n_pairs == 1,
					  .depth = n_pairs ? 4 : 0,
					  .max_threads = 8,
					  .event_bytes = n_pairs == 2 ? 1 << 20 : 0,
					  .event_args = 2,
					  .meta_bytes = N_META };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct layout_parts parts;
	struct block_header header;

	assert_int_equal(layout_divide(ctx, &spec, addrs, &parts), 0);
	assert_int_equal(layout_make(ctx, &spec, &parts, n_shards, &header), 0);
	assert_int_equal(layout_place(ctx, &(struct maps){ 0 }, &parts, &header), 0);
	header.magic = BLOCK_MAGIC;
	ocp_ctx_free(ctx);
	return header;
}

static struct block_site make_site(const struct block_header *h, size_t i)
{
	const size_t part = i >= 3, place = part ? i - 3 : i;

	return (struct block_site){
		.addr = (part ? FAR : NEAR) + 8 * place,
		.trampoline = h->parts[part].addr + layout_trampolines_off(h) +
			      templates_entry_off(h->n_shards) +
			      place * templates_site_bytes(h->n_shards, NULL, 0),
		.gate_addr = h->addr + h->gates_off + i * sizeof(uint16_t),
		.opcode = SITE_OFF,
		.gate = BLOCK_GATE_PRIVATE,
	};
}

static void add_count(void *data, const struct inside_times *times)
{
	*(uint64_t *)data += times->count;
}

/* Sum up all that readers take, so that nothing is left out. */
static uint64_t read_all(const struct block_header *h, const uint8_t *block)
{
	uint64_t *hits = calloc(h->n_sites, sizeof(*hits)), sum = 0;
	struct block_site *sites = calloc(h->n_sites, sizeof(*sites));

	assert_non_null(hits);
	assert_non_null(sites);
	totals_hits(h, block, hits);
	memcpy(sites, block + h->sites_off, h->n_sites * sizeof(*sites));
	sum += (uint64_t)block_check_sites(h, sites);
	for (uint32_t i = 0; i < h->n_sites; i++)
		sum += hits[i] + ((const uint16_t *)(block + h->gates_off))[i];
	for (uint32_t i = 0; i < h->n_pairs; i++) {
		struct inside_pair pair;

		totals_pair(h, block, i, &pair);
		sum += pair.count + gone_threads_starts(h, block, i);
	}
	for (uint32_t i = 0; i < h->n_groups; i++) {
		struct inside_group group = { .values = calloc(groups_n_entries(h->n_groups),
							       sizeof(*group.values)) };

		assert_non_null(group.values);
		groups_read(h, block, i, &group);
		sum += group.n + group.others;
		free(group.values);
		if (h->n_times)
			groups_read_times(h, block, i, 0, add_count, &sum);
	}
	for (uint64_t i = 0; i < h->meta_bytes; i++)
		sum += block[h->meta_off + i];
	free(hits);
	free(sites);
	return sum;
}

/* Is it refused? If not, it is read: all slots are marked as used. */
static bool is_refused(const struct block_header *h, uint64_t bytes)
{
	uint8_t *block;

	if (block_check(h, bytes) != 0)
		return true;
	assert_true(h->sites_off >= sizeof(*h) && h->sites_off <= h->gates_off &&
		    h->gates_off <= h->counters_off && h->counters_off <= h->pairs_off &&
		    h->pairs_off <= h->groups_off && h->groups_off <= h->meta_off &&
		    h->meta_off <= h->code_off && h->code_off <= h->bytes &&
		    h->meta_bytes <= h->code_off - h->meta_off && h->bytes <= bytes);
	block = malloc(h->bytes);
	assert_non_null(block);
	memset(block, 0xff, h->bytes);
	read_all(h, block);
	free(block);
	return false;
}

static const struct {
	const char *name;
	size_t at, bytes;
	bool is_free; /* any value is one that a tool can have written */
} fields[] = {
#define FIELD(name, is_free)                                                                       \
	{                                                                                          \
#name, offsetof(struct block_header, name),                                        \
			sizeof(((struct block_header *)NULL)->name), is_free                       \
	}
	FIELD(magic, false),
	FIELD(version, false),
	FIELD(header_bytes, false),
	FIELD(bytes, false),
	FIELD(addr, false),
	FIELD(code_off, false),
	FIELD(code_bytes, false),
	FIELD(sites_off, false),
	FIELD(gates_off, false),
	FIELD(counters_off, false),
	FIELD(pairs_off, false),
	FIELD(groups_off, false),
	FIELD(rings_off, false),
	FIELD(n_rings, false),
	FIELD(ring_slots, false),
	FIELD(slot_bytes, false),
	FIELD(meta_off, false),
	FIELD(meta_bytes, false),
	FIELD(n_sites, false),
	FIELD(n_pairs, false),
	FIELD(n_groups, false),
	FIELD(n_times, false),
	FIELD(n_shards, false),
	FIELD(n_threads, false),
	FIELD(depth, true),
	FIELD(maker, true),
	FIELD(shard_stride, false),
	FIELD(ns_per_tick, true),
	FIELD(start_ns, true),
	FIELD(start_ticks, true),
	FIELD(n_parts, false),
	FIELD(parts[0].addr, false),
	FIELD(parts[0].code_off, false),
	FIELD(parts[0].code_bytes, false),
	FIELD(parts[1].addr, true),
	FIELD(parts[1].code_off, false),
	FIELD(parts[1].code_bytes, false),
#undef FIELD
};
enum { N_FIELDS = sizeof(fields) / sizeof(fields[0]) };

static uint64_t get(const struct block_header *h, size_t field)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)h + fields[field].at, fields[field].bytes);
	return value;
}

static void try(const struct block_header *good, size_t field, uint64_t value)
{
	struct block_header bad = *good;

	memcpy((char *)&bad + fields[field].at, &value, fields[field].bytes);
	if (get(&bad, field) == get(good, field))
		return;
	if (!is_refused(&bad, UINT64_MAX) && !fields[field].is_free) {
		/* So few bytes of meta more or less have room in the same page. */
		if (strcmp(fields[field].name, "meta_bytes") != 0)
			fail_msg("%s: %llu is taken", fields[field].name,
				 (unsigned long long)value);
	}
}

static void walk(const struct block_header *good)
{
	static const uint64_t edges[] = {
		0,	    1,		2,	    7,		UINT16_MAX,
		INT32_MAX,  UINT32_MAX, INT64_MAX,  UINT64_MAX, UINT64_MAX - 7,
		1ull << 31, 1ull << 47, 1ull << 61, 1ull << 63, 1ull << 30
	};
	static const int64_t steps[] = { 1, 2, 4, 8, 32, 40, 64, 4096, 65536, 1 << 30 };

	for (size_t i = 0; i < N_FIELDS; i++) {
		for (size_t j = 0; j < sizeof(edges) / sizeof(edges[0]); j++)
			try(good, i, edges[j]);
		/* Each value of these is read, which takes long. */
		if (fields[i].is_free)
			continue;
		for (size_t j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
			try(good, i, get(good, i) + (uint64_t)steps[j]);
			try(good, i, get(good, i) - (uint64_t)steps[j]);
		}
		for (size_t j = 0; j < N_FIELDS; j++)
			try(good, i, get(good, j));
	}
}

TEST(every_field_is_checked)
{
	for (size_t n_pairs = 0; n_pairs < 3; n_pairs++)
		for (uint32_t n_shards = 1; n_shards < 4; n_shards += 2) {
			const struct block_header good = make_header(n_pairs, n_shards);

			assert_false(is_refused(&good, good.bytes));
			assert_true(is_refused(&good, good.bytes - 1));
			walk(&good);
		}
}

/* Two fields that agree with each other, as an attacker would choose them. */
TEST(offsets_of_nothing_are_checked)
{
	struct block_header bad = make_header(0, 1);

	bad.pairs_off = bad.sites_off - 4096;
	assert_int_equal(block_check(&bad, UINT64_MAX), -EBADMSG);
	bad.pairs_off = bad.meta_off = bad.code_off;
	bad.meta_bytes = 0;
	assert_int_equal(block_check(&bad, UINT64_MAX), -EBADMSG);
	bad = make_header(1, 1);
	bad.depth = PAIRS_DEPTH + 1;
	assert_int_equal(block_check(&bad, UINT64_MAX), -EBADMSG);
	bad.depth = 0;
	assert_int_equal(block_check(&bad, UINT64_MAX), -EBADMSG);
}

/* All offsets follow from the counts: a block that claims what it has no code for is refused. */
TEST(counts_are_bounded)
{
	static const uint32_t counts[] = {
		1000, 1000000, LAYOUT_MAX_SITES, LAYOUT_MAX_SITES + 1, 15000000, UINT32_MAX
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct block_header bad = make_header(0, 1);
		const uint64_t code = bad.bytes - bad.code_off;

		bad.n_sites = counts[i];
		layout_offsets(&bad);
		bad.bytes = bad.code_off + code;
		bad.parts[0].code_off = bad.code_off;
		bad.parts[1].code_off = bad.code_off + bad.parts[0].code_bytes;
		assert_int_equal(block_check(&bad, UINT64_MAX), -EBADMSG);
	}
}

/* The number of times is that of the pairs, even if all offsets fit another one. */
TEST(times_are_those_of_the_pairs)
{
	const struct block_header good = make_header(1, 1);

	for (int more = -1; more <= 1; more++) {
		struct block_header header = good;
		const uint64_t code = header.bytes - header.code_off;

		header.n_times += (uint32_t)more;
		layout_offsets(&header);
		header.bytes = header.code_off + code;
		header.parts[0].code_off = header.code_off;
		header.parts[1].code_off = header.code_off + header.parts[0].code_bytes;
		header.parts[1].addr += header.code_off;
		assert_int_equal(block_check(&header, UINT64_MAX), more ? -EBADMSG : 0);
	}
}

TEST(every_field_of_a_site_is_checked)
{
	const struct block_header h = make_header(1, 3);
	struct block_site sites[N_SITES];

	for (size_t i = 0; i < N_SITES; i++)
		sites[i] = make_site(&h, i);
	assert_int_equal(block_check_sites(&h, sites), 0);
#define BAD(i, member, value)                                                                      \
	sites[i].member = (value);                                                                 \
	assert_int_equal(block_check_sites(&h, sites), -EBADMSG);                                  \
	sites[i] = make_site(&h, i)
	BAD(0, addr, 0);
	BAD(0, addr, UINT64_MAX);
	BAD(0, addr, UINT64_C(1) << 47);
	BAD(0, addr, NEAR + (UINT64_C(1) << 33));
	BAD(1, trampoline, 0);
	BAD(1, trampoline, sites[0].trampoline);
	BAD(1, trampoline, sites[0].trampoline + 1);
	BAD(1, trampoline, UINT64_MAX);
	BAD(0, trampoline, h.parts[0].addr);
	BAD(2, trampoline, h.parts[0].addr + h.code_off + h.parts[0].code_bytes - 1);
	BAD(4, trampoline, h.parts[1].addr + h.code_off + h.parts[1].code_bytes);
	BAD(1, gate_addr, 0);
	BAD(1, gate_addr, sites[0].gate_addr);
	BAD(1, gate, BLOCK_GATE_NONE);
	BAD(1, gate, BLOCK_GATE_NONE + 1);
	BAD(1, opcode, 0xcc);
	BAD(1, is_patched, BLOCK_PATCHED + 1);
#undef BAD
	sites[1].gate = BLOCK_GATE_SEMAPHORE;
	assert_int_equal(block_check_sites(&h, sites), 0);
	sites[1].gate_addr = 0;
	assert_int_equal(block_check_sites(&h, sites), -EBADMSG);
	sites[1].gate_addr = UINT64_MAX;
	assert_int_equal(block_check_sites(&h, sites), -EBADMSG);
	/* A window has no gate, and any first byte. */
	sites[1] = make_site(&h, 1);
	sites[1].gate = BLOCK_GATE_NONE;
	sites[1].gate_addr = 0;
	sites[1].opcode = 0x48;
	assert_int_equal(block_check_sites(&h, sites), 0);
}
