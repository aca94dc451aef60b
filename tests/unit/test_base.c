// SPDX-License-Identifier: MIT
/* What all rooms share: arrays that grow, binary search, hashes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/search.h"
#include "unit.h"

TEST(arrays_keep_their_elements_when_they_grow)
{
	uint64_t *list = NULL, *new;
	size_t n = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		new = array_add(list, n);
		assert_non_null(new);
		assert_ptr_equal(new, &list[i]);
		assert_int_equal(n, i + 1);
		*new = i *i;
	}
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(list[i], i * i);
	free(list);
}

/* The sanitizer notices each write behind the end of an array. */
TEST(arrays_have_the_slots_that_their_length_says)
{
	for (size_t removed = 0; removed <= 40; removed++) {
		char *list = NULL, *new;
		size_t n = 0;

		for (int round = 0; round < 3; round++) {
			while (n < 40) {
				new = array_add(list, n);
				assert_non_null(new);
				*new = (char)(n - 1);
			}
			n -= removed;
			for (size_t i = 0; i < n; i++)
				assert_int_equal(list[i], i);
		}
		free(list);
	}
}

TEST(search_finds_the_first_that_is_not_before)
{
	int list[20];

	for (size_t n = 0; n <= 20; n++) {
		for (size_t i = 0; i < n; i++)
			list[i] = (int)(i / 3) * 2;
		for (int key = -1; key <= 15; key++) {
			size_t from = 0, after = 0;

			while (from < n && list[from] < key)
				from++;
			while (after < n && list[after] <= key)
				after++;
			assert_int_equal(SEARCH(i, n, list[i] < key), from);
			assert_int_equal(SEARCH(i, n, list[i] <= key), after);
		}
	}
}

TEST(comparison_is_that_of_numbers)
{
	assert_int_equal(COMPARE(1, 2), -1);
	assert_int_equal(COMPARE(2, 2), 0);
	assert_int_equal(COMPARE(3, 2), 1);
	assert_int_equal(COMPARE(UINT64_MAX, UINT64_C(1)), 1);
	assert_int_equal(COMPARE(INT64_MIN, INT64_MAX), -1);
}

/* The values are those of the authors' page on FNV, for FNV-1a with 64 bits. */
TEST(hashes_are_those_of_fnv_1a)
{
	const uint64_t foo = hash_bytes(HASH_START, "foo", 3);

	assert_true(hash_bytes(HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(hash_bytes(HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(hash_bytes(HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
	assert_true(hash_bytes(foo, "bar", 3) == UINT64_C(0x85944171f73967e8));
}

/*
 * Names often differ in the last byte of a word alone, and the low bits of the hash choose the
 * slot.
 */
TEST(hashes_of_words_tell_names_apart)
{
	bool seen[256] = { false };
	size_t n = 0;

	for (uint64_t last = 0; last < 256; last++)
		seen[hash_word(hash_word(HASH_START, last << 56), 0) & 255] = true;
	for (size_t i = 0; i < 256; i++)
		n += seen[i];
	assert_true(n > 128);
}
