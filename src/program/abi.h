/* SPDX-License-Identifier: MIT */
/* The generation of the probe ABI that a note belongs to: see abi.c. */
#ifndef PROGRAM_ABI_H
#define PROGRAM_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

/*
 * The generation of notes of PROVIDER. Returns false for the providers of other languages. Two
 * generations have provider `ocaml`: *ABI is then SITE_ABI_V0, and abi_tell_v0_apart decides.
 */
bool abi_of_provider(const char *provider, enum site_abi *abi);

/* The semaphores of provider `ocaml` in one file. */
struct abi_semaphores {
	uint64_t *va; /* the distinct addresses, sorted */
	size_t n;
	bool several_per_name; /* there is a name with more than one */
	uint64_t section_va;   /* section .probes; 0 bytes if there is none */
	uint64_t section_bytes;
};

/* Decide between SITE_ABI_V0 and SITE_ABI_TRANSITIONAL. */
enum site_abi abi_tell_v0_apart(const struct abi_semaphores *semaphores);

/* Bytes that one semaphore of this generation occupies. */
uint64_t abi_semaphore_bytes(enum site_abi abi);

/* Offset in the semaphore of the counter that OCaml code reads and that switching writes. */
uint64_t abi_ocaml_counter_off(enum site_abi abi);

/* Does the first half of the semaphore belong to tracers? */
bool abi_has_tracer_counter(enum site_abi abi);

#endif
