// SPDX-License-Identifier: MIT
/* The generations of the ABI: providers, and the two that share one. */
#include "program/abi.h"
#include "unit.h"

TEST(providers_name_generations)
{
	static const char *const foreign[] = { "",	   "libc",    "ocaml1", "ocaml_3", "ocaml_",
					       "ocaml_1 ", "OCAML_1", "xocaml", "ocaml.2" };
	enum site_abi abi;

	assert_true(abi_of_provider("ocaml", &abi));
	assert_int_equal(abi, SITE_ABI_V0);
	assert_true(abi_of_provider("ocaml_1", &abi));
	assert_int_equal(abi, SITE_ABI_V1);
	assert_true(abi_of_provider("ocaml.1", &abi));
	assert_int_equal(abi, SITE_ABI_V1);
	assert_true(abi_of_provider("ocaml_2", &abi));
	assert_int_equal(abi, SITE_ABI_V2);
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		assert_false(abi_of_provider(foreign[i], &abi));
}

TEST(halves_of_a_semaphore)
{
	assert_int_equal(abi_semaphore_bytes(SITE_ABI_V0), 2);
	assert_int_equal(abi_ocaml_counter_off(SITE_ABI_V0), 0);
	assert_false(abi_has_tracer_counter(SITE_ABI_V0));
	for (int abi = SITE_ABI_TRANSITIONAL; abi <= SITE_ABI_V2; abi++) {
		assert_int_equal(abi_semaphore_bytes(abi), 4);
		assert_int_equal(abi_ocaml_counter_off(abi), 2);
		assert_true(abi_has_tracer_counter(abi));
	}
}

TEST(provider_ocaml_is_told_apart_by_its_semaphores)
{
	static uint64_t one[] = { 0x1002 };
	static uint64_t two_apart[] = { 0x1002, 0x1004 };
	static uint64_t six_apart[] = { 0x1002, 0x1008 };
	static uint64_t four_apart[] = { 0x1002, 0x1006, 0x100a };
	static uint64_t eight_apart[] = { 0x1002, 0x100a };
	const struct {
		struct abi_semaphores semaphores;
		enum site_abi expected;
	} cases[] = {
		/* one semaphore: the section's size decides */
		{ { one, 1, false, 0x1002, 2 }, SITE_ABI_V0 },
		{ { one, 1, false, 0x1002, 4 }, SITE_ABI_TRANSITIONAL },
		{ { one, 1, false, 0x1000, 4 }, SITE_ABI_V0 }, /* no room for 4 bytes */
		{ { one, 1, false, 0, 0 }, SITE_ABI_TRANSITIONAL },
		/* several: their distances decide */
		{ { two_apart, 2, false, 0x1002, 4 }, SITE_ABI_V0 },
		{ { six_apart, 2, false, 0x1002, 8 }, SITE_ABI_V0 },
		{ { four_apart, 3, false, 0x1002, 12 }, SITE_ABI_TRANSITIONAL },
		{ { four_apart, 3, false, 0x1002, 10 }, SITE_ABI_V0 },
		{ { four_apart, 3, false, 0x1002, 20 }, SITE_ABI_TRANSITIONAL },
		{ { four_apart, 3, false, 0, 0 }, SITE_ABI_TRANSITIONAL },
		{ { eight_apart, 2, false, 0x1002, 12 }, SITE_ABI_TRANSITIONAL },
		/* several for one name: v0, whatever the distances */
		{ { four_apart, 3, true, 0x1002, 12 }, SITE_ABI_V0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (abi_tell_v0_apart(&cases[i].semaphores) != cases[i].expected)
			fail_msg("case %zu is taken for the wrong generation", i);
}
