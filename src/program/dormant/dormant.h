/* SPDX-License-Identifier: MIT */
/*
 * Room program/dormant: probes that have no note yet.
 * In: the code and the markers of a program that was built with the ppx.
 * Out: the sites, with the same information as in notes.
 * Callers: program, and the post-linker, which writes notes for the sites.
 */
/*
 * Dormant probes: probes of the ppx that the post-linker has not converted. The same information as
 * in a note is read from their code and markers. See dormant.c.
 */
#ifndef DORMANT_DORMANT_H
#define DORMANT_DORMANT_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "program/dormant/object.h"
#include "elf/elf_file.h"

/* A site or, if n_bytes is 0, a [%probe_is_enabled], which has no site. */
struct dormant_site {
	uint64_t va;
	uint64_t counter_va; /* address of the 16-bit counter */
	const char *name;    /* strings and code live as long as struct dormant */
	const char *args;    /* operands at the site */
	/* Names and types of the arguments, not checked: see program/arg_names.h. "": unknown. */
	const char *arg_names;
	const char *file;    /* path of the source, as given to the compiler; NULL: unknown */
	int line, column;    /* the line counts from 1, the column from 0 */
	const uint8_t *code; /* n_bytes of code, as in the file */
	uint8_t n_bytes;
	uint8_t opcode_at; /* offset of the byte whose lowest bit enables or disables the site */
};

struct dormant {
	struct dormant_site *sites;
	size_t n_sites;
	size_t n_left_out;	  /* number of sites that cannot be enabled */
	const char *why_left_out; /* why the first of them cannot be enabled */
	uint64_t left_out_va;	  /* the address of the first of them */
	void *bytes;
};

/*
 * Find the dormant probes of ELF. If the file has none, like nearly all files, this only reads the
 * writable data of the file once.
 */
int dormant_read(struct ocp_ctx *ctx, struct elf_file *elf, struct dormant *dormant);
/*
 * Find the probes of other files that were inlined into the code of OBJECT. The markers of these
 * probes are among OBJECT's externals. The counters of these probes are in the other files; their
 * addresses are given relative to the load bias of this file.
 */
int dormant_read_external(const struct object *object, struct dormant *dormant);
void dormant_free(struct dormant *dormant);

#endif
