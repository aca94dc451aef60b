/* SPDX-License-Identifier: MIT */
/*
 * Room program/dormant: probes that have no note yet.
 * In: the code and the markers of a program that was built with the ppx.
 * Out: the sites, with the same information as in notes.
 * Callers: program, and the post-linker, which writes notes for the sites.
 */
/*
 * Dormant probes: probes of the ppx that the post-linker has not converted. What a note would say
 * about such a probe is read from the probe's code and marker. See dormant.c.
 */
#ifndef DORMANT_DORMANT_H
#define DORMANT_DORMANT_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "program/dormant/object.h"
#include "elf/elf_file.h"

/* A site. If n_bytes is 0: a query ([%probe_is_enabled]), which has a counter but no site. */
struct dormant_site {
	uint64_t va;
	uint64_t counter_va; /* address of the 16-bit counter */
	/* the name of the probe; strings and code exist as long as struct dormant */
	const char *name;
	const char *args; /* operands at the site */
	/*
	 * The names and types of the arguments, not checked: see program/arg_names.h; "" if they
	 * are unknown.
	 */
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
	const char *why_left_out; /* why the first of these sites cannot be enabled */
	uint64_t left_out_va;	  /* the address of the first of these sites */
	void *bytes;
};

/*
 * Find the dormant probes of ELF. Nearly all files have none; for such a file, this only reads the
 * writable data once.
 */
int dormant_read(struct ocp_ctx *ctx, struct elf_file *elf, struct dormant *dormant);
/*
 * Find the probes of other files that were inlined into the code of OBJECT. OBJECT's externals must
 * contain the markers of these probes. The counters of these probes are in the other files, too;
 * the addresses of the counters are given relative to the load bias of OBJECT's file.
 */
int dormant_read_external(const struct object *object, struct dormant *dormant);
void dormant_free(struct dormant *dormant);

#endif
