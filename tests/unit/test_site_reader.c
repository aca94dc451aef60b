// SPDX-License-Identifier: MIT
/* Reading the same sites again and again: here those of our own memory, which we know. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "change/inside/site_bytes.h"
#include "unit.h"

enum { PAGE = 4096, PAGES = 100, N = 3000, STRIDE = 120, GATES = 50 };

struct area {
	struct ocp_ctx *ctx;
	struct memory *memory;
	uint8_t *code; /* N sites, STRIDE bytes from one to the next */
	uint16_t gates[GATES];
	struct block_site sites[N];
};

/*
 * The sites are in an order that is none, every seventh has a private gate, and up to three
 * neighbours have one semaphore.
 */
static int set_up(void **state)
{
	static struct area area;

	area.ctx = ocp_ctx_new();
	assert_int_equal(memory_open(area.ctx, getpid(), &area.memory), 0);
	area.code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	assert_true(area.code != MAP_FAILED);
	for (size_t i = 0; i < PAGES * PAGE; i++)
		area.code[i] = (uint8_t)random();
	for (size_t i = 0; i < GATES; i++)
		area.gates[i] = (uint16_t)random();
	for (size_t i = 0; i < N; i++) {
		const bool is_private = i % 7 == 0;

		area.sites[i] = (struct block_site){
			.addr = (uintptr_t)area.code + i * 1009 % N * STRIDE,
			.gate = is_private ? BLOCK_GATE_PRIVATE : BLOCK_GATE_SEMAPHORE,
			.gate_addr = (uintptr_t)&area.gates[i / 3 % GATES],
		};
	}
	*state = &area;
	return 0;
}

static int tear_down(void **state)
{
	struct area *area = *state;

	munmap(area->code, PAGES * PAGE);
	memory_close(area->memory);
	ocp_ctx_free(area->ctx);
	return 0;
}

EACH_TEST(set_up, tear_down);

static struct site_reader *make(struct area *area)
{
	struct site_reader *reader;

	assert_int_equal(site_reader_make(area->ctx, area->memory, area->sites, N, &reader), 0);
	return reader;
}

static struct site_bytes *read_all(struct area *area, struct site_reader *reader)
{
	struct site_bytes *bytes;

	assert_int_equal(site_reader_read(reader, area->memory, &bytes), 0);
	return bytes;
}

static uint16_t gate_of(const struct block_site *site)
{
	return site->gate == BLOCK_GATE_PRIVATE ? 0 : *(uint16_t *)(uintptr_t)site->gate_addr;
}

/* The numbers of the sites are in the order of the addresses, each of them once. */
static void check_order(const struct area *area, const struct site_reader *reader)
{
	bool seen[N] = { false };

	for (size_t i = 0; i < N; i++) {
		const uint32_t number = site_reader_order(reader)[i];

		assert_true(number < N && !seen[number]);
		seen[number] = true;
		assert_int_equal(area->sites[number].addr, site_reader_addrs(reader)[i]);
	}
}

TEST(sites_are_what_they_are_now)
{
	struct area *area = *state;
	struct site_reader *reader = make(area);

	for (int round = 0; round < 2; round++) {
		const struct site_bytes *bytes = read_all(area, reader);

		for (size_t i = 0; i < N; i++) {
			assert_memory_equal(bytes[i].code,
					    (const void *)(uintptr_t)area->sites[i].addr,
					    SITE_BYTES);
			assert_int_equal(bytes[i].gate, gate_of(&area->sites[i]));
		}
		for (size_t i = 0; i < PAGES * PAGE; i++)
			area->code[i] ^= 0xff;
		for (size_t i = 0; i < GATES; i++)
			area->gates[i] ^= 1;
	}
	for (size_t i = 0; i < N; i++)
		assert_int_equal(site_reader_addrs(reader)[i], (uintptr_t)area->code + i * STRIDE);
	check_order(area, reader);
	site_reader_free(reader);
}

/* A process can write to its block. */
TEST(other_sites_are_noticed)
{
	struct area *area = *state;
	struct site_reader *reader = make(area);

	assert_true(site_reader_is_for(reader, area->sites, N));
	assert_false(site_reader_is_for(reader, area->sites, N - 1));
	area->sites[N - 1].addr++;
	assert_false(site_reader_is_for(reader, area->sites, N));
	area->sites[N - 1].addr--;
	assert_true(site_reader_is_for(reader, area->sites, N));
	area->sites[1].gate_addr += sizeof(uint16_t);
	assert_false(site_reader_is_for(reader, area->sites, N));
	/* A gate that has become a word of the block is not read. */
	area->sites[1].gate = BLOCK_GATE_PRIVATE;
	assert_true(site_reader_is_for(reader, area->sites, N));
	site_reader_free(reader);
}

/* The plugin of a site has been unloaded; another site has an address that is none. */
TEST(a_missing_site_reads_as_zeros)
{
	static const uint8_t zeros[SITE_BYTES];
	struct area *area = *state;
	const struct site_bytes *bytes;
	struct site_reader *reader;

	for (int has_end = 1; has_end >= 0; has_end--) {
		if (!has_end)
			area->sites[0].addr = UINT64_MAX - 1;
		reader = make(area);
		read_all(area, reader);
		if (has_end)
			munmap(area->code + 50 * PAGE, PAGE);
		bytes = read_all(area, reader);
		for (size_t i = 0; i < N; i++) {
			const uint64_t off = area->sites[i].addr - (uintptr_t)area->code;
			const bool is_there = off < PAGES * PAGE &&
					      (off + SITE_BYTES <= 50 * PAGE || off >= 51 * PAGE);

			assert_memory_equal(bytes[i].code,
					    is_there ? (const void *)(uintptr_t)area->sites[i].addr
						     : zeros,
					    SITE_BYTES);
			assert_int_equal(bytes[i].gate, gate_of(&area->sites[i]));
		}
		for (size_t i = 1; i < N; i++)
			assert_true(site_reader_addrs(reader)[i - 1] <=
				    site_reader_addrs(reader)[i]);
		check_order(area, reader);
		site_reader_free(reader);
	}
}
