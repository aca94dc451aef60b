/* SPDX-License-Identifier: MIT */
/*
 * Find the instructions at which a function, a phase of the collector, a source line or a note is
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

/* What to measure besides the number of calls. */
struct code_needs {
	bool time; /* time of calls: sites at the exits are needed */
	/*
	 * arguments: the site must be the first instruction, or a window where the registers of the
	 * arguments have not changed
	 */
	bool args;
	bool may_lack_args; /* of windows: without arguments is better than not at all */
	/*
	 * of a function: calls begin or end pairs, or are grouped, so rsp at the entry is needed,
	 * and a window must have room on the stack
	 */
	bool stack;
	bool bounds; /* for a phase: use only first instructions and returns of functions */
	bool window; /* for a function or a line: its sites are windows (code/window.h) */
};

/* A growing list of sites. The caller frees `sites`; code_sites_close() frees everything else. */
struct code_sites {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct ifuncs *ifuncs; /* NULL until they are needed */
	struct code_file *file;
	uint64_t *entries;
	size_t n_entries;
	bool has_ocaml_stacks;
	/*
	 * why measure_frames.bpf.h cannot tell frames on the stacks of OCaml 5 from each other, as
	 * the end of a message; NULL if it can
	 */
	const char *no_frames;
	bool lacks_args;    /* the function that was added last is measured without its arguments */
	bool has_c_library; /* the file is the C library or the loader, or contains one of them */
	struct site *sites;
	size_t n;
};

/* Open an empty list of sites. ELF and its FUNCTIONS must outlive SITES. */
int code_sites_open(struct ocp_ctx *ctx, struct elf_file *elf, const struct functions *functions,
		    struct code_sites *sites);
void code_sites_close(struct code_sites *sites);

/*
 * Append the sites of FUNCTION, as sites of probe number PROBE, and set *WHY to NULL. If FUNCTION
 * cannot be measured, append nothing, set *WHY to the reason ("cannot be timed: ..."), and return
 * 0. The caller frees *WHY.
 */
int code_sites_add_function(struct code_sites *sites, const struct function *function,
			    uint32_t probe, const struct code_needs *needs, char **why);

/*
 * FUNCTION is an IFUNC of ALL. Search ALL for an IFUNC that has a different name but can choose the
 * same code. The search begins after *AFTER, or at the start of ALL if *AFTER is NULL. Set *AFTER
 * to the IFUNC that was found, or to NULL if there is none.
 */
int code_sites_sharing(struct code_sites *sites, const struct functions *all,
		       const struct function *function, const struct function **after);

/*
 * If FUNCTION does nothing but jump to other code, set *VA to the target of the jump. Otherwise, or
 * if FUNCTION cannot be decoded, set *VA to 0.
 */
int code_sites_only_jump(struct code_sites *sites, const struct function *function, uint64_t *va);

/*
 * Find the first bytes of FUNCTION, at offset *AT or behind it, that could be a jump to other code:
 * set *TO to this code, and *AT to the offset from which to search for the next one. The bytes are
 * not decoded: they may be in the middle of an instruction. Return false if there are none.
 */
bool code_sites_next_jump(struct code_sites *sites, const struct function *function, size_t *at,
			  uint64_t *to);

/*
 * Append the sites of the phase at PLACE, for which gc_phase_check() must have returned 0. *WHY: as
 * for code_sites_add_function().
 */
int code_sites_add_phase(struct code_sites *sites, const struct gc_phase_place *place,
			 uint32_t probe, const struct code_needs *needs, char **why);

/*
 * Append the site of a note: the nop at VA. SEMAPHORE_VA is the address of the note's semaphore; 0
 * if the note has none. *WHY: as for code_sites_add_function().
 */
int code_sites_add_note(struct code_sites *sites, uint64_t va, uint64_t semaphore_va,
			uint32_t probe, const struct code_needs *needs, char **why);

/*
 * Append the site of the line at PLACE, which has a window if NEEDS demands one. *WHY: as for
 * code_sites_add_function().
 */
int code_sites_add_line(struct code_sites *sites, const struct line_place *place, uint32_t probe,
			const struct code_needs *needs, char **why);

#endif
