/* SPDX-License-Identifier: MIT */
/*
 * Find the instructions where a function, a phase of the collector, or a line of the source is
 * measured.
 */
#ifndef PROGRAM_CODE_SITES_H
#define PROGRAM_CODE_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "code/functions.h"
#include "code/gc_phases.h"
#include "code/line_places.h"
#include "program/program.h"

/* What to measure of a function, besides its calls. */
struct code_needs {
	bool time;   /* its exits */
	bool args;   /* its arguments: its site must be the first instruction */
	bool bounds; /* of a phase: only first instructions and returns of functions */
};

/* A list of sites that grows. The caller frees `sites`. */
struct code_sites {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct ifuncs *ifuncs; /* NULL: not read yet */
	struct code_file *file;
	uint64_t *entries;
	size_t n_entries;
	bool has_ocaml_stacks;
	struct site *sites;
	size_t n;
};

/* ELF and its FUNCTIONS must outlive SITES. */
int code_sites_open(struct ocp_ctx *ctx, struct elf_file *elf, const struct functions *functions,
		    struct code_sites *sites);
void code_sites_close(struct code_sites *sites);

/*
 * Append the sites of FUNCTION, which belong to probe number PROBE. If FUNCTION cannot be measured,
 * append nothing and set *WHY to the reason: "cannot be timed: ...". The caller frees *WHY.
 */
int code_sites_add_function(struct code_sites *sites, const struct function *function,
			    uint32_t probe, const struct code_needs *needs, char **why);

/*
 * The first IFUNC after FUNCTION, an IFUNC of ALL, that can choose the same code under another
 * name; NULL: none. FUNCTION is found in ALL. Start with AFTER NULL, then the last answer.
 */
int code_sites_sharing(struct code_sites *sites, const struct functions *all,
		       const struct function *function, const struct function **after);

/* Where FUNCTION jumps to, if it does nothing else; 0: it does more, or cannot be decoded. */
int code_sites_only_jump(struct code_sites *sites, const struct function *function, uint64_t *va);

/* Append the sites of the phase at PLACE, which gc_phase_check() accepts. *WHY: as above. */
int code_sites_add_phase(struct code_sites *sites, const struct gc_phase_place *place,
			 uint32_t probe, const struct code_needs *needs, char **why);

/* Append the nop at VA of a note, whose semaphore is at SEMAPHORE_VA (0: none). *WHY: as above. */
int code_sites_add_note(struct code_sites *sites, uint64_t va, uint64_t semaphore_va,
			uint32_t probe, const struct code_needs *needs, char **why);

/* Append the site of the line at PLACE. *WHY: as above. */
int code_sites_add_line(struct code_sites *sites, const struct line_place *place, uint32_t probe,
			char **why);

#endif
