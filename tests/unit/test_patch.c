// SPDX-License-Identifier: MIT
/* Writing into a process (this one): everything, in the order of phases, or nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/patch.h"
#include "unit.h"

enum { N = 600, PAGE = 4096 }; /* enough for two threads */

static const uint64_t nowhere = 8; /* nothing is mapped there */

struct memory_of_sites {
	uint8_t sites_on[N], sites_off[N];
	uint16_t semaphores[N];
};

static struct memory_of_sites *memory;

static int set_up(void **state)
{
	(void)state;
	memory = calloc(1, sizeof(*memory));
	return memory == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

static struct patch_write write_to(const void *at, uint8_t bytes, enum patch_phase phase)
{
	return (struct patch_write){
		.addr = (uint64_t)(uintptr_t)at, .bytes = bytes, .phase = phase, .new = 1
	};
}

/* N writes of each phase, mixed as a plan has them. */
static size_t all_writes(struct patch_write *writes)
{
	size_t n = 0;

	for (size_t i = 0; i < N; i++) {
		writes[n++] = write_to(&memory->sites_off[i], 1, PATCH_SITES_OFF);
		writes[n++] = write_to(&memory->semaphores[i], 2, PATCH_SEMAPHORES);
		writes[n++] = write_to(&memory->sites_on[i], 1, PATCH_SITES_ON);
	}
	return n;
}

/* How many of them have been written. */
static size_t count_written(void)
{
	size_t n = 0;

	for (size_t i = 0; i < N; i++)
		n += memory->sites_on[i] + memory->sites_off[i] + memory->semaphores[i];
	return n;
}

static void all_is_written(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[3 * N];
	const size_t n = all_writes(writes);

	(void)state;
	assert_int_equal(patch_apply(ctx, getpid(), writes, n), 0);
	assert_int_equal(count_written(), n);
	ocp_ctx_free(ctx);
}

/* Each write in its turn is the one that fails. */
static void whatever_fails_nothing_is_written(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[3 * N];
	const size_t n = all_writes(writes);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		const uint64_t addr = writes[i].addr;

		writes[i].addr = nowhere;
		assert_int_equal(patch_apply(ctx, getpid(), writes, n), -EIO);
		assert_string_equal(strstr(ocp_error(ctx), "0x8: "),
				    "0x8: Input/output error; nothing was changed");
		if (count_written())
			fail_msg("write %zu failed, %zu are there", i, count_written());
		writes[i].addr = addr;
	}
	ocp_ctx_free(ctx);
}

/*
 * Where process_vm_writev may not write, as in memory that was made read-only, /proc/PID/mem may.
 */
static void semaphores_that_are_read_only(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[8];
	uint16_t *page = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	for (size_t first = 0; first < 2; first++) {
		/* The first is read-only; and then one amid the others. */
		for (size_t i = 0; i < 8; i++)
			writes[i] = write_to(i == first * 4 ? page + first : &memory->semaphores[i],
					     2, PATCH_SEMAPHORES);
		memset(memory, 0, sizeof(*memory));
		assert_int_equal(patch_apply(ctx, getpid(), writes, 8), 0);
		assert_int_equal(page[first], 1);
		assert_int_equal(count_written(), 7);
	}
	munmap(page, 2 * PAGE);
	ocp_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_is_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(whatever_fails_nothing_is_written, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(semaphores_that_are_read_only, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
