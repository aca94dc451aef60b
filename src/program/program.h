/* SPDX-License-Identifier: MIT */
/*
 * Room program: the probes in a file.
 * In: an ELF file: notes, dormant sites, functions.
 * Out: probes by name; sites and semaphores with their addresses and arguments.
 * Callers: all rooms above that know probes.
 */
/*
 * The probes of one ELF file: notes are resolved to sites, and sites are grouped into probes by
 * name. All addresses are link-time addresses.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "base/file_rules.h"
#include "elf/elf_file.h"
#include "program/dormant/dormant.h"

/*
 * A site that a note describes has 6 bytes: nop, then cmp or call with a 4-byte operand (see
 * program.c).
 */
enum {
	SITE_BYTES = 6,
	SITE_OPCODE_OFF = 1, /* offset of the byte that enabling and disabling change */
	SITE_NOP = 0x90,
	SITE_INT3 = 0xcc, /* in place of the nop while a uprobe or breakpoint is on the site */
	SITE_OFF = 0x3d,  /* disabled: cmp $imm32,%eax */
	SITE_ON = 0xe8,	  /* enabled: call rel32 */
};

/* The generations of the probe ABI, distinguished by provider and layout of the semaphores. */
enum site_abi {
	SITE_ABI_V0, /* provider ocaml, 2-byte semaphores, one per name and unit */
	/* Provider ocaml, 4-byte semaphores, OCaml's counter in bytes 2 and 3. */
	SITE_ABI_TRANSITIONAL,
	SITE_ABI_V1, /* provider ocaml_1 or ocaml.1, semaphores as SITE_ABI_TRANSITIONAL */
	SITE_ABI_V2, /* provider ocaml_2: like SITE_ABI_V1, but a note may have no site */
	/* Probes without notes, in the form in which the ppx leaves them for the post-linker. */
	SITE_ABI_DORMANT,
	SITE_ABI_CODE, /* not a probe but an instruction in other code: see code_probes.h */
};

/*
 * What a hit of a SITE_ABI_CODE site means. A hit of any other site is always a hit of its probe.
 */
enum {
	SITE_COUNTS = 1 << 0, /* count the hit as a hit of the probe */
	SITE_BEGINS = 1 << 1, /* a timed call begins */
	SITE_ENDS = 1 << 2,   /* the timed call ends */
	/* keep the time of the timed call in progress: see SITE_IF_CONFIRMED */
	SITE_CONFIRMS = 1 << 3,
	/*
	 * Together with SITE_BEGINS or SITE_ENDS: discard the time of the call unless a
	 * SITE_CONFIRMS site was hit during the call.
	 */
	SITE_IF_CONFIRMED = 1 << 4,
};

/* The condition for a hit. A hit that does not meet the condition is ignored. */
enum site_condition {
	SITE_ALWAYS,
	/*
	 * SITE_ARGUMENT_N: argument N of a C function (1 is rdi ... 6 is r9) must differ from
	 * site->unless.
	 */
	SITE_ARGUMENT_1,
	SITE_ARGUMENT_6 = SITE_ARGUMENT_1 + 5,
	SITE_IF_TRUE, /* the function must not return 0 */
};

struct corrected_args;

/* One resolved note, or one dormant probe. */
struct site {
	uint64_t va; /* address of the first byte; valid only if has_code */
	/*
	 * Address of the 16-bit counter that OCaml code reads and that enabling and disabling
	 * write; 0 if the linker has dropped the counter.
	 */
	uint64_t semaphore_va;
	/* Address of the 16-bit counter for tracers (the kernel's ref_ctr); 0 if there is none. */
	uint64_t tracer_semaphore_va;
	const char *provider;
	const char *args; /* the operands of the arguments: those of the note, or corrected ones */
	/* The names and types of the arguments (see arg_names.h); "" if they are unknown. */
	const char *arg_names;
	uint64_t note_off; /* offset of the note in the file, for messages */
	uint32_t probe;	   /* index of the site's probe */
	enum site_abi abi : 8;
	bool has_code;
	/*
	 * The code of the site was inlined from another file. The counter is in that other file:
	 * semaphore_va is then the counter's address in one process, minus the load bias of this
	 * file (see program_add_external()).
	 */
	bool is_external;
	uint8_t n_bytes;   /* size of the site's code */
	uint8_t opcode_at; /* offset in the site of the byte that enabling and disabling change */
	/* values of that byte while the site is disabled, and while it is enabled */
	uint8_t off_opcode, on_opcode;
	uint8_t events;	   /* for SITE_ABI_CODE: flags such as SITE_COUNTS */
	bool is_return;	   /* for SITE_ABI_CODE: a return probe of the function that begins at va */
	uint8_t condition; /* enum site_condition */
	uint32_t unless;
	/*
	 * For SITE_ABI_CODE: the kernel single-steps the instruction under a uprobe, so a hit takes
	 * ten times as long as a hit of an emulated instruction.
	 */
	bool is_stepped;
	/*
	 * For SITE_ABI_CODE: in each thread, the function's calls do not nest, and every call ends.
	 */
	bool is_flat;
	/* for SITE_ABI_CODE: the code runs on one of the fiber stacks of OCaml 5 */
	bool is_on_ocaml_stack;
	int32_t frame_depth; /* for SITE_ABI_CODE: rsp at the function's entry minus rsp here */
	/* for SITE_ABI_CODE, if calls of a function begin here: the code of the function */
	uint64_t function_va, function_bytes;
	/*
	 * For SITE_ABI_CODE: address of the function's first instruction, if a uprobe there is hit
	 * by the same calls as a uprobe on this site; otherwise 0.
	 */
	uint64_t entry_va;
	/*
	 * For SITE_ABI_CODE: if the site is a window (code/window.h), its N_WINDOW bytes; freed by
	 * code_probes_free(). Otherwise NULL. N_BEFORE: see struct code_window.
	 */
	uint8_t *window;
	uint8_t n_window, n_before;
	bool keeps_r11;			    /* ... of C code, where r11 may be in use */
	bool is_c_entry;		    /* ... at the entry of a function of C */
	bool is_shared;			    /* ... of a line; other sites may be the same window */
	const struct dormant_site *dormant; /* the dormant probe; NULL if the site has a note */
	/* Owns `args` if the operands were corrected; NULL if `args` is in the note. */
	struct corrected_args *corrected;
};

/* Return true if a hit of SITE is a hit of its probe. */
static inline bool site_counts(const struct site *site)
{
	return site->abi != SITE_ABI_CODE || (site->events & SITE_COUNTS);
}

/* A probe: all sites with one name. They are sites[first_site .. first_site + n_sites). */
struct probe {
	const char *name;
	size_t first_site;
	size_t n_sites;
};

/* Probes sorted by name, and their sites sorted by probe. */
struct probe_set {
	const struct probe *probes;
	size_t n_probes;
	const struct site *sites;
	size_t n_sites;
};

struct ocp_program {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	int fd;
	bool is_library;  /* see struct file_origin */
	size_t max_sites; /* limit for the number of sites; 0: no limit */
	/* contents of the note section; strings point into them */
	uint8_t *note_bytes;
	uint8_t *arg_note_bytes; /* the names of arguments point into these bytes */
	/* the dormant probes; the strings of their sites point into this struct */
	struct dormant dormant;
	struct dormant external;
	struct site *sites; /* sorted by probe, then by address */
	size_t n_sites;
	struct probe *probes; /* sorted by name */
	size_t n_probes;
};

/*
 * Read the probes of the open file FD. FD then belongs to the program, and is closed together with
 * the program. After an error, FD is closed at once. NAME is for messages.
 */
int program_open_fd(struct ocp_ctx *ctx, int fd, const char *name, struct ocp_program **out);
/*
 * Like program_open_fd(), but for a file from ORIGIN. If CTX has rules for files, return -EAGAIN if
 * the file must not be read yet, and -EFBIG if it exceeds the limits.
 */
int program_open_from(struct ocp_ctx *ctx, int fd, const struct file_origin *origin,
		      struct ocp_program **out);

/*
 * Return the number of uses of PROBE in the source for which the compiler emitted no site. No
 * uprobe can be attached for these uses, which only read the semaphore.
 */
size_t program_uses_without_site(const struct ocp_program *prog, const struct probe *probe);

/*
 * EXTERNAL are the dormant probes of other files that were inlined into PROG. Add them to PROG.
 * PROG must be the program of one process only. EXTERNAL then belongs to PROG, even after an error.
 */
int program_add_external(struct ocp_program *prog, const struct dormant *external);

/* Return the probes of the file. */
struct probe_set program_probe_set(const struct ocp_program *prog);

/* Return the index of the probe called NAME; -1 if there is none. */
ptrdiff_t program_find_probe(const struct ocp_program *prog, const char *name);

/*
 * Return true if site X of A and site Y of B have the same probe name, address, counters and ABI.
 */
bool program_has_same_site(const struct ocp_program *a, const struct site *x,
			   const struct ocp_program *b, const struct site *y);

/* Set *N to the number of sites in PROG's code whose probes belong to PROG's host program. */
int program_count_host_sites(const struct ocp_program *prog, size_t *n);

#endif
