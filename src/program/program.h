/* SPDX-License-Identifier: MIT */
/*
 * The probes of one ELF file: notes resolved to sites (prelink corrected, checked against the
 * program headers), sites grouped into probes by name. Still link-time addresses: no process.
 */
#ifndef ELF_PROGRAM_H
#define ELF_PROGRAM_H

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
	SITE_INT3 = 0xcc, /* the nop while somebody's uprobe or breakpoint is on it */
	SITE_OFF = 0x3d,  /* cmp $imm32,%eax */
	SITE_ON = 0xe8,	  /* call rel32 */
};

/* The generations of the ABI, told apart by provider and semaphore layout. */
enum site_abi {
	SITE_ABI_V0,	       /* provider ocaml, 2-byte semaphores, one a name and unit */
	SITE_ABI_TRANSITIONAL, /* provider ocaml, 4-byte semaphores, OCaml's half at +2 */
	SITE_ABI_V1,	       /* provider ocaml_1 or ocaml.1, as above */
	SITE_ABI_V2,	       /* provider ocaml_2: as v1, the site may be missing */
	SITE_ABI_DORMANT,      /* no notes: what the ppx leaves to the post-linker */
};

struct corrected_args;

/* One note, resolved; or a dormant probe. */
struct site {
	uint64_t va; /* of its first byte; meaningless unless has_code */
	/* Of OCaml's 16-bit counter, which switching writes; 0 if the linker has dropped it. */
	uint64_t semaphore_va;
	/* Of the 16-bit counter that belongs to tracers (kernel ref_ctr), 0 where there is none. */
	uint64_t tracer_semaphore_va;
	const char *provider;
	const char *args;  /* operands: the note's, or corrected */
	uint64_t note_off; /* in the file, for messages */
	uint32_t probe;	   /* index of the probe it belongs to */
	enum site_abi abi : 8;
	bool has_code;
	/*
	 * Inlined from another file, which has its counter: semaphore_va is where that is in one
	 * process, seen from here (see program_add_external).
	 */
	bool is_external;
	uint8_t n_bytes;		    /* of code */
	uint8_t opcode_at;		    /* the byte that is switched */
	uint8_t off_opcode, on_opcode;	    /* its two values */
	const struct dormant_site *dormant; /* what it was found as; NULL: it was noted */
	struct corrected_args *corrected;   /* what `args` is then; NULL: it is the note's */
};

/* All sites of one name: sites[first_site .. first_site + n_sites). */
struct probe {
	const char *name;
	size_t first_site;
	size_t n_sites;
};

struct ocp_program {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	int fd;
	bool is_library;	/* where it came from */
	size_t max_sites;	/* that it may have; 0: any number */
	uint8_t *note_bytes;	/* what the strings point into */
	struct dormant dormant; /* or this */
	struct dormant external;
	struct site *sites; /* by probe, then by address */
	size_t n_sites;
	struct probe *probes; /* by name */
	size_t n_probes;
};

/*
 * Read the probes of the open file FD (taken over: closed with the program, also on error). NAME
 * is for messages.
 */
int program_open_fd(struct ocp_ctx *ctx, int fd, const char *name, struct ocp_program **out);
/*
 * Likewise, of a file of ORIGIN. By the ctx's file rules it is -EAGAIN if it may not be read yet,
 * and -EFBIG if it exceeds the limits.
 */
int program_open_from(struct ocp_ctx *ctx, int fd, const struct file_origin *origin,
		      struct ocp_program **out);

/*
 * Uses of PROBE in the source that the compiler left without a site: they ask the semaphore, and
 * nothing can be attached to them.
 */
size_t program_uses_without_site(const struct ocp_program *prog, const struct probe *probe);

/*
 * Add to PROG, the file of one process's image, the dormant probes of other files that were inlined
 * into it. EXTERNAL is PROG's from then on, also on error.
 */
int program_add_external(struct ocp_program *prog, const struct dormant *external);

/* The index of the probe called NAME, or -1. */
ptrdiff_t program_find_probe(const struct ocp_program *prog, const char *name);

/* Does A place X, a site of its own, as B places Y: the same probe, address, counters and form? */
bool program_has_same_site(const struct ocp_program *a, const struct site *x,
			   const struct ocp_program *b, const struct site *y);

#endif
