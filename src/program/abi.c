// SPDX-License-Identifier: MIT
/*
 * Generations of the probe ABI.
 *
 *	provider		semaphore				read by [%probe_is_enabled]
 *	ocaml  (4.09-4.11 forks)	2 bytes, one a name and compilation unit	u16 at +0
 *	ocaml  (4.11.1 fork)	4 bytes, one a name			u16 at +2
 *	ocaml_1, ocaml.1	4 bytes, one a name			u16 at +2
 *	ocaml_2			4 bytes, one a name; the site may be 0	u16 at +2
 *
 * In the 4-byte form the first half belongs to tracers: the kernel raises it while a uprobe that
 * names it is attached (ref_ctr), and OCaml code never looks at it.
 *
 * The two generations that say `ocaml` are told apart by their semaphores' layout alone.
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
	 * Semaphores follow each other in .probes without gaps, except for dead duplicates, whose
	 * space is a multiple of one semaphore's: 4-byte ones are never 2 bytes apart nor out of
	 * step.
	 */
	for (size_t i = 1; i < s->n; i++)
		if ((s->va[i] - s->va[i - 1]) % 4 != 0)
			return SITE_ABI_V0;
	if (s->section_bytes == 0 || s->n == 0)
		return SITE_ABI_TRANSITIONAL;
	/* Does the last semaphore have room for 4 bytes, and the section for whole ones only? */
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
