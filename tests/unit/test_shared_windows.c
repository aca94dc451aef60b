// SPDX-License-Identifier: MIT
/* Sites that are the same window: one of them counts for all. */
#include <errno.h>
#include <string.h>

#include "measure/engine/shared_windows.h"
#include "unit.h"

enum { N = 6 };

static const struct inside_role role;

/* Sites at ADDRS; site I has a role if ROLES has bit I. */
static void make_sites(struct inside_site sites[N], struct inside_number numbers[N],
		       const uint64_t addrs[N], unsigned int roles)
{
	for (uint32_t i = 0; i < N; i++) {
		sites[i] = (struct inside_site){ .addr = addrs[i], .n_window = 5 };
		numbers[i] = (struct inside_number){ .number = 10 + i, .site = i };
		if (roles & 1U << i) {
			sites[i].roles = &role;
			sites[i].n_roles = 1;
		}
	}
}

static int join(const uint64_t addrs[N], unsigned int roles, size_t *n, struct inside_site sites[N],
		struct inside_number numbers[N])
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	int err;

	*n = N;
	make_sites(sites, numbers, addrs, roles);
	err = shared_windows_join(ctx, sites, n, numbers);
	if (err)
		assert_non_null(
			strstr(ocp_error(ctx), "a line begins where a timed function ends"));
	ocp_ctx_free(ctx);
	return err;
}

TEST(sites_at_one_address_become_one)
{
	static const uint64_t addrs[N] = { 900, 100, 900, 500, 100, 900 };
	static const uint32_t expected[N] = { 0, 1, 0, 2, 1, 0 };
	static const uint64_t kept[] = { 900, 100, 500 };
	struct inside_site sites[N];
	struct inside_number numbers[N];
	size_t n;

	assert_int_equal(join(addrs, 1U << 5, &n, sites, numbers), 0);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sites[i].addr, kept[i]);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(numbers[i].site, expected[i]);
		assert_int_equal(numbers[i].number, 10 + i);
	}
	/* The roles of the last site at 900 are those of the first now. */
	assert_int_equal(sites[0].n_roles, 1);
	assert_ptr_equal(sites[0].roles, &role);
	assert_int_equal(sites[1].n_roles, 0);
}

TEST(sites_at_different_addresses_stay)
{
	static const uint64_t addrs[N] = { 6, 5, 4, 3, 2, 1 };
	struct inside_site sites[N];
	struct inside_number numbers[N];
	size_t n;

	assert_int_equal(join(addrs, 0x3f, &n, sites, numbers), 0);
	assert_int_equal(n, N);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(sites[i].addr, addrs[i]);
		assert_int_equal(numbers[i].site, i);
	}
}

TEST(roles_of_two_sites_are_refused)
{
	static const uint64_t addrs[N] = { 1, 2, 3, 4, 5, 2 };
	struct inside_site sites[N];
	struct inside_number numbers[N];
	size_t n;

	assert_int_equal(join(addrs, 0x22, &n, sites, numbers), -ENOTSUP);
	assert_int_equal(join(addrs, 0x20, &n, sites, numbers), 0);
}
