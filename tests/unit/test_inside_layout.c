// SPDX-License-Identifier: MIT
/*
 * How sites are divided among the parts of a block, and where the parts are put: made-up addresses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "change/inside/layout.h"
#include "change/inside/blocks.h"
#include "unit.h"

#define GIB (UINT64_C(1) << 30)

enum { MAX_SITES = 32, SEMAPHORE_OFF = 1 << 20 };

/* What a call reaches. */
static const uint64_t reach = UINT64_C(1) << 31;

struct test {
	struct ocp_ctx *ctx;
	struct inside_site sites[MAX_SITES];
	uint64_t addrs[MAX_SITES];
	struct inside_spec spec;
	struct layout_parts parts;
};

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int divide(struct test *t, const uint64_t *addrs, size_t n)
{
	t->spec = (struct inside_spec){ .sites = t->sites, .n_sites = n };
	for (size_t i = 0; i < n; i++) {
		t->sites[i] = (struct inside_site){ .addr = addrs[i],
						    .semaphore = addrs[i] + SEMAPHORE_OFF };
		t->addrs[i] = addrs[i];
	}
	qsort(t->addrs, n, sizeof(*t->addrs), compare);
	return layout_divide(t->ctx, &t->spec, t->addrs, &t->parts);
}

static void set_up(struct test *t)
{
	memset(t, 0, sizeof(*t));
	t->ctx = ocp_ctx_new();
	assert_non_null(t->ctx);
}

/* In whatever order the sites are. */
TEST(what_is_near_is_one_part)
{
	static const uint64_t addrs[] = { 0x7f0000001000, 0x555500001000,	0x7f0000000000,
					  0x555500000000, 0x7f0000000000 + GIB, 0x400000 };
	static const size_t parts[] = { 2, 1, 2, 1, 2, 0 };
	struct test t;

	set_up(&t);
	assert_int_equal(divide(&t, addrs, 1), 0);
	assert_int_equal(t.parts.n, 1);
	assert_int_equal(divide(&t, addrs, 6), 0);
	assert_int_equal(t.parts.n, 3);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(layout_part_of(&t.parts, addrs[i]), parts[i]);
	assert_int_equal(t.parts.parts[1].low, 0x555500000000);
	assert_int_equal(t.parts.parts[1].high, 0x555500001000 + SEMAPHORE_OFF);
	ocp_ctx_free(t.ctx);
}

TEST(too_many_parts_are_refused)
{
	uint64_t addrs[BLOCK_MAX_PARTS + 1];
	struct test t;

	set_up(&t);
	for (size_t i = 0; i <= BLOCK_MAX_PARTS; i++)
		addrs[i] = (i + 1) * 4 * GIB;
	assert_int_equal(divide(&t, addrs, BLOCK_MAX_PARTS), 0);
	assert_int_equal(t.parts.n, BLOCK_MAX_PARTS);
	assert_int_equal(divide(&t, addrs, BLOCK_MAX_PARTS + 1), -ENOTSUP);
	assert_non_null(strstr(ocp_error(t.ctx), "further apart than one jump reaches"));
	ocp_ctx_free(t.ctx);
}

TEST(semaphores_are_in_reach)
{
	const uint64_t addr = 0x555500000000;
	struct test t;

	set_up(&t);
	assert_int_equal(divide(&t, &addr, 1), 0);
	t.sites[0].semaphore = addr + 3 * GIB;
	assert_int_equal(layout_divide(t.ctx, &t.spec, t.addrs, &t.parts), -ENOTSUP);
	assert_non_null(strstr(ocp_error(t.ctx), "further from their semaphores"));
	t.sites[0].semaphore = 0;
	assert_int_equal(layout_divide(t.ctx, &t.spec, t.addrs, &t.parts), 0);
	ocp_ctx_free(t.ctx);
}

static bool is_near(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) < reach;
}

/* The code of PART reaches its sites, their semaphores and all data. */
static void check_part(const struct test *t, const struct block_header *header, size_t part)
{
	const struct block_part *p = &header->parts[part];
	const uint64_t ends[] = { p->addr, p->addr + header->code_off + p->code_bytes };

	for (size_t i = 0; i < t->spec.n_sites; i++)
		for (size_t e = 0; e < 2 && layout_part_of(&t->parts, t->addrs[i]) == part; e++) {
			assert_true(is_near(ends[e], t->addrs[i]));
			assert_true(is_near(ends[e], t->addrs[i] + SEMAPHORE_OFF));
		}
}

static bool overlap(uint64_t start, uint64_t end, uint64_t other_start, uint64_t other_end)
{
	return start < other_end && other_start < end;
}

static void check_places(const struct test *t, const struct maps *maps,
			 const struct block_header *header)
{
	for (size_t i = 0; i < header->n_parts; i++) {
		const struct block_part *p = &header->parts[i];
		const uint64_t bytes = header->code_off + p->code_bytes;

		assert_int_equal(p->addr % 4096, 0);
		check_part(t, header, i);
		for (size_t m = 0; m < maps->n; m++)
			assert_false(overlap(p->addr, p->addr + bytes, maps->mappings[m].start,
					     maps->mappings[m].end));
		for (size_t j = 0; j < i; j++)
			assert_false(overlap(p->addr, p->addr + bytes, header->parts[j].addr,
					     header->parts[j].addr + header->code_off +
						     header->parts[j].code_bytes));
	}
}

/* Lay out a block for the sites, and place it among N MAPPINGS. */
static int place(struct test *t, struct mapping *mappings, size_t n, struct block_header *header)
{
	const struct maps maps = { .mappings = mappings, .n = n };
	int err = layout_make(t->ctx, &t->spec, &t->parts, 4, header);

	assert_int_equal(err, 0);
	header->magic = BLOCK_MAGIC;
	err = layout_place(t->ctx, &maps, &t->parts, header);
	if (!err) {
		assert_int_equal(block_check(header, header->bytes), 0);
		check_places(t, &maps, header);
	}
	return err;
}

TEST(each_part_is_near_its_sites)
{
	static const uint64_t addrs[] = { 0x555555555000, 0x555555556000, 0x7ffff7c00000 };
	struct mapping mappings[] = {
		{ .start = 0x555555554000, .end = 0x555555655000 },
		{ .start = 0x555555700000, .end = 0x555556000000 },
		{ .start = 0x7ffff7c00000, .end = 0x7ffff7ffe000 },
		{ .start = 0x7ffffffdd000, .end = 0x7ffffffff000 },
	};
	struct block_header header;
	struct test t;

	set_up(&t);
	assert_int_equal(divide(&t, addrs, 3), 0);
	assert_int_equal(place(&t, mappings, 4, &header), 0);
	assert_int_equal(header.n_parts, 2);
	assert_int_equal(header.addr, header.parts[0].addr);
	assert_true(header.parts[0].code_bytes >= header.parts[1].code_bytes);
	ocp_ctx_free(t.ctx);
}

/* Between two images there is one hole that both reach, and nothing else is free. */
TEST(two_parts_share_a_hole)
{
	static const uint64_t addrs[] = { 0x10000000000, 0x10000000000 + 3 * GIB / 2 };
	struct mapping mappings[] = {
		{ .start = 0x10000000000 - 4 * GIB, .end = 0x10000000000 + GIB },
		{ .start = 0x10000000000 + GIB + 0x40000, .end = 0x10000000000 + 8 * GIB },
	};
	struct block_header header;
	struct test t;

	set_up(&t);
	assert_int_equal(divide(&t, addrs, 2), 0);
	assert_int_equal(t.parts.n, 2);
	assert_int_equal(place(&t, mappings, 2, &header), 0);
	/* No room. */
	mappings[1].start -= 0x3f000;
	assert_int_equal(place(&t, mappings, 2, &header), -ENOTSUP);
	assert_non_null(strstr(ocp_error(t.ctx), "of free addresses near the sites"));
	ocp_ctx_free(t.ctx);
}

/* Random places of up to six images in the address space. */
TEST(places_never_overlap)
{
	srandom(18);
	for (int round = 0; round < 2000; round++) {
		struct mapping mappings[6] = { 0 };
		uint64_t addrs[6], at = 0x10000000;
		const size_t n = 1 + (size_t)random() % 6;
		struct block_header header;
		struct test t;

		set_up(&t);
		for (size_t i = 0; i < n; i++) {
			at += ((uint64_t)random() % 5000 * 0x1000) << (random() % 8);
			addrs[i] = at;
			mappings[i] = (struct mapping){ .start = at, .end = at + 0x200000 };
			at += 0x200000 + (uint64_t)random() % 64 * 0x1000;
		}
		assert_int_equal(divide(&t, addrs, n), 0);
		assert_int_equal(place(&t, mappings, n, &header), 0);
		ocp_ctx_free(t.ctx);
	}
}

/* Each pair has slots for many threads, or for the fewest if there are many pairs. */
TEST(many_pairs_share_the_memory)
{
	static const uint64_t addrs[] = { 0x555555555000, 0x555555556000 };
	static const struct {
		size_t n_pairs;
		uint32_t n_slots;
		bool are_keyed;
	} cases[] = { { 1, 2048, false },	    { 100, 2048, false },
		      { 512, 256, false },	    { 12288, PAIRS_WINDOW, false },
		      { 190, 2048, true },	    { 512, 512, true },
		      { 24000, PAIRS_WINDOW, true } };
	struct inside_role role = { .pair = 0 };
	struct block_header header;
	uint64_t code_bytes = 0;
	struct test t;

	set_up(&t);
	assert_int_equal(divide(&t, addrs, 2), 0);
	t.spec.depth = 1;
	t.spec.max_threads = 1024;
	t.sites[1].roles = &role;
	t.sites[1].n_roles = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		role.is_keyed = cases[i].are_keyed;
		t.spec.n_pairs = cases[i].n_pairs;
		assert_int_equal(layout_make(t.ctx, &t.spec, &t.parts, 4, &header), 0);
		assert_int_equal(header.n_threads, cases[i].n_slots);
		assert_int_equal(header.pairs_are_keyed, cases[i].are_keyed);
		assert_true(header.bytes <= LAYOUT_MAX_BYTES);
		if (i)
			assert_int_equal(header.parts[0].code_bytes, code_bytes);
		code_bytes = header.parts[0].code_bytes;
	}
	t.spec.n_pairs = LAYOUT_MAX_BYTES / pairs_stride(&header) + 1;
	assert_int_equal(layout_make(t.ctx, &t.spec, &t.parts, 4, &header), -E2BIG);
	ocp_ctx_free(t.ctx);
}
