/* SPDX-License-Identifier: MIT */
/* The form of the bytes at a site: on, off, or a defect. */
#ifndef PROCESS_SITE_FORM_H
#define PROCESS_SITE_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "program/program.h"
#include "look/maps.h"
#include "look/memory.h"

enum site_form {
	SITE_FORM_OFF,
	SITE_FORM_ON,
	SITE_FORM_BREAKPOINT, /* an int3 is in the place of the byte that is switched */
	SITE_FORM_NO_NOP,
	SITE_FORM_CHANGED, /* a dormant site whose bytes differ from those in the file */
	SITE_FORM_OPCODE,  /* the opcode is neither the one for on nor the one for off */
	SITE_FORM_WRAPPER, /* the call leads outside of the program's code */
};

/* Return the form of CODE, the site->n_bytes bytes that were read at SITE of ELF. */
enum site_form site_form(const struct elf_file *elf, const struct site *site, const uint8_t *code);

static inline bool site_form_is_sound(enum site_form form)
{
	return form == SITE_FORM_OFF || form == SITE_FORM_ON;
}

/*
 * Write CODE in the form " 90 3d ..." to TEXT, for a message, and return TEXT. Long code is cut
 * off.
 */
enum { SITE_CODE_SHOWN = 24, SITE_CODE_TEXT_BYTES = 3 * SITE_CODE_SHOWN + 1 };
const char *site_code_text(const uint8_t *code, size_t n_bytes, char text[SITE_CODE_TEXT_BYTES]);

/* Return, for a message, what is wrong with a site whose form is FORM. */
const char *site_form_fault(enum site_form form);

/* ---- trampolines ----------------------------------------------------------------------------- */

/*
 * The sites of a process that call trampolines, because their hits are counted inside the process.
 * These sites are listed in the blocks (change/inside/block.h) that tools have put into the
 * process.
 *
 * A trampoline counts the hit, and runs the handler if its gate is not 0. So the gate says whether
 * such a site is on, and switching the site writes the gate. The process is not trusted: the
 * contents of its blocks are checked.
 */

struct trampoline {
	uint64_t site;	    /* the address of the site's first byte */
	uint64_t addr;	    /* the address of the trampoline */
	uint64_t gate_addr; /* the address of the two bytes of the gate */
	/* the gate is two bytes in the block; false: it is an OCaml semaphore */
	bool has_private_gate;
	uint16_t gate; /* the value of a private gate */
};

struct trampolines {
	struct trampoline *list; /* sorted by the addresses of the sites */
	size_t n;
};

/*
 * Read the trampolines of the process of MEMORY. A block is left out if it is damaged, is of
 * another version, or describes a site that cannot exist.
 */
int trampolines_read(struct ocp_ctx *ctx, const struct memory *memory, struct trampolines *found);
void trampolines_free(struct trampolines *trampolines);

/*
 * Return true if M is a mapping of a block or of stores (change/inside/block.h), and so not of an
 * ELF file.
 */
bool trampolines_are_in(const struct mapping *m);
/*
 * Set *MAPPED to whether process PID has a mapping of a block or of stores. This does not mean that
 * a site of the process calls the block already.
 */
int trampolines_are_mapped(struct ocp_ctx *ctx, pid_t pid, bool *mapped);

bool trampolines_equal(const struct trampolines *a, const struct trampolines *b);

/*
 * Return the trampoline that SITE calls, or would call if its opcode were the one for on; NULL if
 * there is none. CODE are the bytes of SITE, which is at ADDR.
 */
const struct trampoline *trampolines_find(const struct trampolines *trampolines,
					  const struct site *site, uint64_t addr,
					  const uint8_t *code);

/*
 * Return the form of a site with a trampoline: SITE_FORM_ON if the site calls the trampoline and
 * the trampoline runs the handler. GATE is the value of the trampoline's gate. A site with the
 * opcode for off is off, and its hits are not counted.
 */
enum site_form trampoline_site_form(const struct site *site, const uint8_t *code, uint16_t gate);

#endif
