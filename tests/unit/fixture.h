/* SPDX-License-Identifier: MIT */
/* The fixtures as bytes: to be opened as they are, or spoilt first. */
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

struct fixture {
	uint8_t *bytes;
	size_t n;
};

/* Where the fixture NAME is: in the folder tests/fixtures of the build folder $O. */
const char *fixture_path(const char *name);

/* Read the fixture NAME; its bytes may be changed. Ends the test if it cannot. */
void fixture_load(struct fixture *fixture, const char *name);
void fixture_free(struct fixture *fixture);

/* Its headers, in its bytes. */
Elf64_Ehdr *fixture_ehdr(const struct fixture *fixture);
Elf64_Phdr *fixture_phdr(const struct fixture *fixture, size_t index);
Elf64_Shdr *fixture_shdr(const struct fixture *fixture, size_t index);
Elf64_Shdr *fixture_section(const struct fixture *fixture, const char *name);

/* The addresses in note number INDEX of an OCaml provider; notes are aligned to 4 bytes. */
struct fixture_note {
	uint64_t site, base, semaphore;
	char provider[];
} __attribute__((packed, aligned(4)));
struct fixture_note *fixture_note(const struct fixture *fixture, size_t index);

/* Append bytes at the end of the file; returns their offset. Pointers into it become stale. */
uint64_t fixture_append(struct fixture *fixture, const void *bytes, size_t n);

/* Load the fixture v1 with N notes of OCaml's in the place of its own; returns their bytes. */
size_t fixture_load_noted(struct fixture *fixture, size_t n);

/* A descriptor of a nameless file that holds these bytes. */
int fixture_fd(const struct fixture *fixture);

/* program_open_fd on these bytes, under the name "spoilt". */
int fixture_open(const struct fixture *fixture, struct ocp_ctx *ctx, struct ocp_program **out);

#endif
