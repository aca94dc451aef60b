/* SPDX-License-Identifier: MIT */
/*
 * Dormant probes: those of the ppx that the post-linker has not converted, with the same
 * information as in a note. See dormant.c.
 */
#ifndef DORMANT_DORMANT_H
#define DORMANT_DORMANT_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "program/dormant/object.h"
#include "elf/elf_file.h"

/* A site; or, with n_bytes 0, a query whether the probe is enabled. */
struct dormant_site {
	uint64_t va;
	uint64_t counter_va; /* of the 16-bit counter */
	const char *name;    /* strings and code live as long as struct dormant */
	const char *args;    /* operands at the site */
	/* Names and types of the arguments, not checked: see program/arg_names.h. "": unknown. */
	const char *arg_names;
	const char *file;    /* of the source, as given to the compiler; NULL: unknown */
	int line, column;    /* from 1, from 0 */
	const uint8_t *code; /* n_bytes of it, as in the file */
	uint8_t n_bytes;
	uint8_t opcode_at; /* offset of the byte whose lowest bit switches it */
};

struct dormant {
	struct dormant_site *sites;
	size_t n_sites;
	size_t n_left_out; /* sites that cannot be switched, and the reason for one of them */
	const char *why_left_out;
	uint64_t left_out_va;
	void *bytes;
};

/*
 * Find the dormant probes of ELF. For a file without any, such as nearly all files, this takes one
 * read of its writable data.
 */
int dormant_read(struct ocp_ctx *ctx, struct elf_file *elf, struct dormant *dormant);
/*
 * Find in OBJECT the probes whose markers are its externals: probes of other files that were
 * inlined. Their counters are in the other files; their addresses are relative to the bias of this
 * file.
 */
int dormant_read_external(const struct object *object, struct dormant *dormant);
void dormant_free(struct dormant *dormant);

#endif
