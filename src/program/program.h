/* SPDX-License-Identifier: MIT */
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
#include "program/dormant/dormant.h"
#include "elf/elf_file.h"

/* A noted site is 6 bytes: nop, then cmp or call with a 4-byte displacement (see program.c). */
enum {
	SITE_BYTES = 6,
	SITE_OPCODE_OFF = 1, /* the byte that is switched */
	SITE_NOP = 0x90,
	SITE_INT3 = 0xcc, /* replaces the nop while a uprobe or breakpoint is on it */
	SITE_OFF = 0x3d,  /* cmp $imm32,%eax */
	SITE_ON = 0xe8,	  /* call rel32 */
};

/* The generations of the ABI; provider and semaphore layout distinguish them. */
enum site_abi {
	SITE_ABI_V0,	       /* provider ocaml, 2-byte semaphores, one per name and unit */
	SITE_ABI_TRANSITIONAL, /* provider ocaml, 4-byte semaphores, OCaml's half at +2 */
	SITE_ABI_V1,	       /* provider ocaml_1 or ocaml.1, as above */
	SITE_ABI_V2,	       /* provider ocaml_2: as v1, the site may be missing */
	SITE_ABI_DORMANT,      /* no notes: probes as the ppx leaves them to the post-linker */
	SITE_ABI_CODE, /* an instruction of a function instead of a probe: see code_probes.h */
};

/* What a hit of a site of SITE_ABI_CODE means. All hits of other sites count. */
enum {
	SITE_COUNTS = 1 << 0,	/* it is a hit of the probe */
	SITE_BEGINS = 1 << 1,	/* a call begins */
	SITE_ENDS = 1 << 2,	/* the call ends */
	SITE_CONFIRMS = 1 << 3, /* the active call is to be timed */
	/* With SITE_BEGINS and SITE_ENDS: the call is timed only if it was confirmed. */
	SITE_IF_CONFIRMED = 1 << 4,
};

/* The condition that a hit must meet. Hits that do not meet it mean nothing. */
enum site_condition {
	SITE_ALWAYS,
	/* This argument of a C function (1: rdi ... 6: r9) must differ from `unless`. */
	SITE_ARGUMENT_1,
	SITE_ARGUMENT_6 = SITE_ARGUMENT_1 + 5,
	SITE_IF_TRUE, /* the function must not return 0 */
};

struct corrected_args;

/* One resolved note, or one dormant probe. */
struct site {
	uint64_t va; /* the address of the first byte; only valid if has_code */
	/* OCaml's 16-bit counter, which switching writes; 0 if the linker has dropped it. */
	uint64_t semaphore_va;
	/* The tracers' 16-bit counter (the kernel's ref_ctr); 0 if there is none. */
	uint64_t tracer_semaphore_va;
	const char *provider;
	const char *args;      /* the operands of the arguments: as in the note, or corrected */
	const char *arg_names; /* the names of these arguments: see arg_names.h; "": unknown */
	uint64_t note_off;     /* in the file, for messages */
	uint32_t probe;	       /* index of the site's probe */
	enum site_abi abi : 8;
	bool has_code;
	/*
	 * Inlined from another file, which has the counter: semaphore_va is then the address of
	 * the counter in one process, minus the bias of this file (see program_add_external).
	 */
	bool is_external;
	uint8_t n_bytes;	       /* of code */
	uint8_t opcode_at;	       /* the byte that is switched */
	uint8_t off_opcode, on_opcode; /* the two values of that byte */
	uint8_t events;		       /* of SITE_ABI_CODE: SITE_COUNTS and so on */
	bool is_return;	   /* of SITE_ABI_CODE: a return probe of the function that begins here */
	uint8_t condition; /* enum site_condition */
	uint32_t unless;
	bool is_stepped; /* of SITE_ABI_CODE: the kernel single-steps it, ten times slower */
	/* Of SITE_ABI_CODE: in a thread, the function's calls do not nest, and every call ends. */
	bool is_flat;
	bool is_on_ocaml_stack; /* of SITE_ABI_CODE: OCaml 5 runs it on a stack of its own */
	int32_t frame_depth;	/* of SITE_ABI_CODE: rsp at the function's entry minus rsp here */
	/* Of SITE_ABI_CODE: the function's first instruction if it counts these calls; else 0. */
	uint64_t entry_va;
	const struct dormant_site *dormant; /* NULL: the site has a note */
	struct corrected_args *corrected;   /* owns a corrected `args`; NULL: as in the note */
};

/* Is a hit of SITE a hit of its probe? */
static inline bool site_counts(const struct site *site)
{
	return site->abi != SITE_ABI_CODE || (site->events & SITE_COUNTS);
}

/* All sites of one name: sites[first_site .. first_site + n_sites). */
struct probe {
	const char *name;
	size_t first_site;
	size_t n_sites;
};

/* Probes by name, and their sites by probe. */
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
	bool is_library;	 /* its struct file_origin */
	size_t max_sites;	 /* the limit; 0: none */
	uint8_t *note_bytes;	 /* the strings point into these */
	uint8_t *arg_note_bytes; /* the names of arguments point into these */
	struct dormant dormant;	 /* strings may also point into this */
	struct dormant external;
	struct site *sites; /* by probe, then by address */
	size_t n_sites;
	struct probe *probes; /* by name */
	size_t n_probes;
};

/*
 * Read the probes of the open file FD. FD now belongs to the program, also after an error, and is
 * closed with it. NAME is for messages.
 */
int program_open_fd(struct ocp_ctx *ctx, int fd, const char *name, struct ocp_program **out);
/*
 * Like program_open_fd, for a file of ORIGIN. Under the ctx's file rules: -EAGAIN if the
 * file may not be read yet, -EFBIG if it exceeds the limits.
 */
int program_open_from(struct ocp_ctx *ctx, int fd, const struct file_origin *origin,
		      struct ocp_program **out);

/*
 * The number of uses of PROBE in the source that the compiler left without a site. They read the
 * semaphore, and no uprobe can be attached to them.
 */
size_t program_uses_without_site(const struct ocp_program *prog, const struct probe *probe);

/*
 * Add to PROG, which is an image of one process, the dormant probes of other files that were
 * inlined into it. EXTERNAL now belongs to PROG, also after an error.
 */
int program_add_external(struct ocp_program *prog, const struct dormant *external);

/* The probes of the file. */
struct probe_set program_probe_set(const struct ocp_program *prog);

/* Return the index of the probe called NAME, or -1. */
ptrdiff_t program_find_probe(const struct ocp_program *prog, const char *name);

/* Do the sites X of A and Y of B have the same probe name, address, counters and form? */
bool program_has_same_site(const struct ocp_program *a, const struct site *x,
			   const struct ocp_program *b, const struct site *y);

#endif
