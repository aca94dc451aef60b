/* SPDX-License-Identifier: MIT */
/* Which generation of the probe ABI a note belongs to: see abi.c. */
#ifndef ELF_ABI_H
#define ELF_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

/*
 * The generation that notes of PROVIDER belong to. Returns false for the providers of other
 * languages. Provider `ocaml` stands for two generations: *ABI is then SITE_ABI_V0, and
 * abi_tell_v0_apart decides.
 */
bool abi_of_provider(const char *provider, enum site_abi *abi);

/* What provider `ocaml`'s semaphores look like in one file. */
struct abi_semaphores {
	uint64_t *va; /* the distinct addresses, sorted */
	size_t n;
	bool several_per_name; /* some name has more than one */
	uint64_t section_va;   /* section .probes; 0 bytes if there is none */
	uint64_t section_bytes;
};

/* Decide between SITE_ABI_V0 and SITE_ABI_TRANSITIONAL. */
enum site_abi abi_tell_v0_apart(const struct abi_semaphores *semaphores);

/* Bytes that one semaphore of this generation occupies. */
uint64_t abi_semaphore_bytes(enum site_abi abi);

/* Offset of the counter that OCaml code reads and that switching writes, in the semaphore. */
uint64_t abi_ocaml_counter_off(enum site_abi abi);

/* The semaphore has a first half that belongs to tracers. */
bool abi_has_tracer_counter(enum site_abi abi);

#endif
