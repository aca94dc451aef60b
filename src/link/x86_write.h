/* SPDX-License-Identifier: MIT */
/* Change machine code, so that a dormant probe becomes a probe site. See x86_write.c. */
#ifndef LINK_X86_WRITE_H
#define LINK_X86_WRITE_H

#include "program/dormant/x86_site.h"

/*
 * x86_redirect_load() changes the load at POS so that it loads the address VA. x86_can_redirect()
 * returns true if this is possible: VA is within reach of the instruction.
 */
bool x86_can_redirect(const struct x86_code *code, size_t pos, const struct x86_load *load,
		      uint64_t va);
void x86_redirect_load(const struct x86_code *code, size_t pos, const struct x86_load *load,
		       uint64_t va);

/* Overwrite the N_BYTES bytes at POS, which must be whole instructions, with nops. */
void x86_write_nops(const struct x86_code *code, size_t pos, size_t n_bytes);

/*
 * Overwrite the dormant probe SITE with a probe site of the ABI, which starts enabled or disabled.
 */
void x86_write_site(const struct x86_code *code, const struct x86_site *site, bool is_enabled);

#endif
