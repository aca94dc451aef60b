/* SPDX-License-Identifier: MIT */
/* The generation of the probe ABI that a note belongs to: see abi.c. */
#ifndef PROGRAM_ABI_H
#define PROGRAM_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

/*
 * Set *ABI to the generation of probes whose notes have PROVIDER. Return false if PROVIDER does not
 * belong to OCaml. Two generations have provider `ocaml`. For this provider, set *ABI to
 * SITE_ABI_V0; abi_tell_v0_apart() decides between the two generations.
 */
bool abi_of_provider(const char *provider, enum site_abi *abi);

/* The semaphores of provider `ocaml` in one file. */
struct abi_semaphores {
	uint64_t *va; /* the distinct addresses, sorted */
	size_t n;
	bool several_per_name; /* there is a probe name with more than one semaphore */
	/* address of section .probes; if the section is missing, section_bytes is 0 */
	uint64_t section_va;
	uint64_t section_bytes;
};

/*
 * Decide from the layout of SEMAPHORES whether provider `ocaml` means SITE_ABI_V0 or
 * SITE_ABI_TRANSITIONAL.
 */
enum site_abi abi_tell_v0_apart(const struct abi_semaphores *semaphores);

/* Return the number of bytes that one semaphore of this generation occupies. */
uint64_t abi_semaphore_bytes(enum site_abi abi);

/*
 * Return the offset, from the start of a semaphore, of the counter that OCaml code reads and that
 * enabling and disabling a probe write.
 */
uint64_t abi_ocaml_counter_off(enum site_abi abi);

/* Return true if the first half of each semaphore belongs to tracers. */
bool abi_has_tracer_counter(enum site_abi abi);

#endif
