/* SPDX-License-Identifier: MIT */
/* The machine code of a dormant probe, as ocamlopt emits it. See x86_site.c. */
#ifndef DORMANT_X86_SITE_H
#define DORMANT_X86_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of machine code, and the link-time address of its first byte. */
struct x86_code {
	uint8_t *bytes;
	size_t n_bytes;
	uint64_t va;
};

enum x86_load_form {
	X86_LOAD_LEA,	    /* lea D(%rip),%R */
	X86_LOAD_GOT,	    /* mov D(%rip),%R */
	X86_LOAD_IMMEDIATE, /* mov $A,%R */
};

enum {
	X86_LOAD_BYTES = 7,
	X86_SITE_SLOTS = 4,
};

/* An instruction that may load the address of a marker. */
struct x86_load {
	enum x86_load_form form;
	unsigned int reg;
	/* the address that is loaded; for X86_LOAD_GOT, the GOT slot with the address to load */
	uint64_t va;
};

/*
 * Return true if the first three of BYTES may begin a load in one of these forms. This is a cheap
 * test for the scan of all code.
 */
static inline bool x86_may_be_load(const uint8_t *bytes)
{
	/*
	 * REX.W, then lea or mov with an operand relative to %rip, or mov of a sign-extended imm32.
	 */
	return (bytes[0] & 0xf8) == 0x48 &&
	       (((bytes[1] == 0x8d || bytes[1] == 0x8b) && (bytes[2] & 0xc7) == 0x05) ||
		(bytes[1] == 0xc7 && (bytes[2] & 0xf8) == 0xc0));
}

/* Decode the instruction at POS. Return false if it has none of the three forms. */
bool x86_decode_load(const struct x86_code *code, size_t pos, struct x86_load *load);

/* A dormant probe that was checked completely. */
struct x86_site {
	size_t pos;	/* offset of the load in the section */
	size_t n_bytes; /* size, from the load to the end of the conditional jump */
	/*
	 * The register that is loaded with the marker's address. No code after the jump uses this
	 * value of the register.
	 */
	unsigned int reg;
	bool is_inverted; /* the jump leads to the handler, not past it */
	bool is_near;	  /* the jump has a 32-bit displacement */
	int64_t jump;	  /* displacement of the jump, from the end of the site */
	/*
	 * What the site's code writes: registers as a bit mask, and stack slots as offsets from
	 * rsp.
	 */
	unsigned int written;
	int64_t slots[X86_SITE_SLOTS];
	size_t n_slots;
};

/*
 * Check whether the code that begins with LOAD at POS is a dormant probe. If so, fill *SITE and
 * return NULL. Otherwise return the reason why the code is not a dormant probe.
 */
const char *x86_match_site(const struct x86_code *code, size_t pos, const struct x86_load *load,
			   struct x86_site *site);

/* Return the offset of SITE's handler in the section. */
size_t x86_site_handler(const struct x86_site *site);

/*
 * Return the offset, from the start of SITE, of the byte that enabling and disabling change. This
 * byte is 0x74 or 0x75 or, in the near form, 0x84 or 0x85.
 */
size_t x86_site_opcode_at(const struct x86_site *site);

#endif
