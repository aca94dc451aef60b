// SPDX-License-Identifier: MIT
/*
 * Generations of the probe ABI.
 *
 *	provider			semaphore			[%probe_is_enabled] reads
 *	ocaml (4.09-4.11 forks)		2 bytes, one per name and unit	u16 at +0
 *	ocaml (4.11.1 fork)		4 bytes, one per name		u16 at +2
 *	ocaml_1, ocaml.1		4 bytes, one per name		u16 at +2
 *	ocaml_2 (may have no site)	4 bytes, one per name		u16 at +2
 *
 * The first half of a 4-byte semaphore belongs to tracers: the kernel keeps this half incremented
 * while a uprobe that was registered with its address (ref_ctr) is attached. OCaml code never reads
 * this half.
 *
 * Only the layout of the semaphores distinguishes the two generations with provider `ocaml`.
 */
#include "program/abi.h"

#include <string.h>

bool abi_of_provider(const char *provider, enum site_abi *abi)
{
	static const struct {
		const char *provider;
		enum site_abi abi;
	} known[] = {
		{ "ocaml", SITE_ABI_V0 },
		{ "ocaml_1", SITE_ABI_V1 },
		{ "ocaml.1", SITE_ABI_V1 },
		{ "ocaml_2", SITE_ABI_V2 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(provider, known[i].provider) == 0) {
			*abi = known[i].abi;
			return true;
		}
	}
	return false;
}

enum site_abi abi_tell_v0_apart(const struct abi_semaphores *s)
{
	if (s->several_per_name)
		return SITE_ABI_V0;
	/*
	 * Semaphores follow each other in .probes. Where the linker dropped a duplicate, there is a
	 * gap whose size is a multiple of the size of a semaphore. So the distances of 4-byte
	 * semaphores are multiples of 4.
	 */
	for (size_t i = 1; i < s->n; i++)
		if ((s->va[i] - s->va[i - 1]) % 4 != 0)
			return SITE_ABI_V0;
	if (s->section_bytes == 0 || s->n == 0)
		return SITE_ABI_TRANSITIONAL;
	/*
	 * If the semaphores have 4 bytes, the last one ends within the section, and the size of the
	 * section is a multiple of 4.
	 */
	if (s->section_bytes % 4 != 0 || s->va[s->n - 1] + 4 > s->section_va + s->section_bytes)
		return SITE_ABI_V0;
	return SITE_ABI_TRANSITIONAL;
}

uint64_t abi_semaphore_bytes(enum site_abi abi)
{
	return abi == SITE_ABI_V0 ? 2 : 4;
}

uint64_t abi_ocaml_counter_off(enum site_abi abi)
{
	return abi == SITE_ABI_V0 ? 0 : 2;
}

bool abi_has_tracer_counter(enum site_abi abi)
{
	return abi != SITE_ABI_V0;
}
