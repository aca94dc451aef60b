// SPDX-License-Identifier: MIT
/* Bounds of the served histograms, and what of the kernel's counts is below them. */
#include <stdlib.h>
#include <string.h>

#include "ocaml_probes.h"
#include "serve/buckets.h"
#include "unit.h"

static bool is_edge(uint64_t ns)
{
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		if (ocp_bucket_start(i) == ns)
			return true;
	return false;
}

TEST(the_default_is_edges_near_round_numbers)
{
	static const double round[] = { 1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4,
					5e-4, 1e-3,   2.5e-3, 5e-3, 1e-2,   2.5e-2, 5e-2, 0.1,
					0.25, 0.5,    1,      2.5,  5,	    10 };
	struct buckets buckets;

	buckets_set_default(&buckets);
	assert_int_equal(buckets.n, sizeof(round) / sizeof(round[0]));
	for (size_t i = 0; i < buckets.n; i++) {
		const double ratio = (double)buckets.bounds_ns[i] / (round[i] * 1e9);

		assert_true(is_edge(buckets.bounds_ns[i]));
		assert_true(ratio > 0.93 && ratio < 1.07);
		assert_true(strtod(buckets.labels[i], NULL) == (double)buckets.bounds_ns[i] / 1e9);
	}
}

TEST(labels_are_canonical)
{
	static const char *const expected[] = { "1e-09",  "1.5e-05",	 "0.0001", "0.001",
						"0.0025", "1.0",	 "2.5",	   "10.0",
						"60.0",	  "1000000000.0" };
	struct buckets buckets = { 0 };

	assert_null(buckets_parse(&buckets, "1e-9,0.000015,0.0001,0.001,2.5e-3,1,2.5,10,60,1e9"));
	assert_int_equal(buckets.n, 10);
	for (size_t i = 0; i < buckets.n; i++)
		assert_string_equal(buckets.labels[i], expected[i]);
}

TEST(lists_that_are_none)
{
	static const char *const lists[] = {
		"",  ",",  "1,",  ",1",	 "1,,2", "a",	  "1,x", "1 2",	 "2,1",		  "1,1",
		"0", "-1", "nan", "inf", "1e10", "1e-10", "1;2", "0.1s", "1,1.0000000001"
	};
	struct buckets buckets = { 0 };
	char long_list[MAX_BUCKETS * 5 + 16] = "";

	assert_null(buckets_parse(&buckets, "7"));
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (!buckets_parse(&buckets, lists[i]))
			fail_msg("'%s' was taken", lists[i]);
	for (size_t i = 1; i <= MAX_BUCKETS; i++)
		snprintf(long_list + strlen(long_list), 8, "%s%zu", i > 1 ? "," : "", i);
	assert_null(buckets_parse(&buckets, long_list));
	strcat(long_list, ",999");
	assert_non_null(buckets_parse(&buckets, long_list));
	/* What was there stays. */
	assert_int_equal(buckets.n, MAX_BUCKETS);
}

TEST(edges_are_exact)
{
	uint64_t kernel[OCP_BUCKETS], counts[MAX_BUCKETS];
	struct buckets buckets;

	buckets_set_default(&buckets);
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		kernel[i] = i * i + 1;
	buckets_cumulate(&buckets, kernel, counts);
	for (size_t b = 0; b < buckets.n; b++) {
		uint64_t below = 0;

		for (size_t i = 0; ocp_bucket_start(i) < buckets.bounds_ns[b]; i++)
			below += kernel[i];
		assert_int_equal(counts[b], below);
	}
}

TEST(a_cut_bucket_gives_its_part_rounded_down)
{
	uint64_t kernel[OCP_BUCKETS] = { 0 }, counts[MAX_BUCKETS];
	struct buckets buckets = { 0 };
	size_t cut = 0;

	while (ocp_bucket_start(cut) != 1024) /* to 1152 */
		cut++;
	kernel[0] = 5;
	kernel[cut] = 10;
	assert_null(buckets_parse(&buckets, "1e-6,1.024e-6,1.036e-6,1.088e-6,1.151e-6,1.152e-6"));
	buckets_cumulate(&buckets, kernel, counts);
	assert_int_equal(counts[0], 5);
	assert_int_equal(counts[1], 5);
	assert_int_equal(counts[2], 5);	 /* 10 * 12 / 128 = 0.94 */
	assert_int_equal(counts[3], 10); /* half */
	assert_int_equal(counts[4], 14); /* 10 * 127 / 128 = 9.9 */
	assert_int_equal(counts[5], 15);
	/* No product overflows. */
	kernel[0] = 0;
	kernel[cut] = UINT64_MAX;
	buckets_cumulate(&buckets, kernel, counts);
	assert_true(counts[3] == UINT64_MAX / 2);
}

/* Whatever the bounds and however the counts grow. */
TEST(they_never_go_back)
{
	uint64_t kernel[OCP_BUCKETS] = { 0 }, counts[MAX_BUCKETS], before[MAX_BUCKETS] = { 0 };
	struct buckets buckets = { 0 };
	double bound = 1e-9;

	srand(6);
	while (buckets.n < MAX_BUCKETS && bound < 1e9) {
		assert_null(buckets_add(&buckets, bound));
		bound = bound * (1.01 + rand() / (double)RAND_MAX * 0.4) + 1e-9;
	}
	for (size_t round = 0; round < 200; round++) {
		uint64_t total = 0;

		for (size_t i = 0; i < OCP_BUCKETS; i++) {
			kernel[i] += (uint64_t)(rand() % 3);
			total += kernel[i];
		}
		buckets_cumulate(&buckets, kernel, counts);
		for (size_t b = 0; b < buckets.n; b++) {
			assert_true(counts[b] >= before[b]);
			assert_true(b == 0 || counts[b] >= counts[b - 1]);
		}
		assert_true(counts[buckets.n - 1] <= total);
		memcpy(before, counts, sizeof(before));
	}
}
