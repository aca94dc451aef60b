/* SPDX-License-Identifier: MIT */
/*
 * Refuse writes to code on 1 GiB pages, unless the user allows them: see ocp_ctx_allow_gigatext().
 */
#ifndef PROCESS_GIGATEXT_H
#define PROCESS_GIGATEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "process/plan.h"

/*
 * Return -EOVERFLOW if PLAN writes to code of PID on 1 GiB pages and CTX does not allow that; else
 * 0.
 */
int gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan);

/*
 * Return true if one of the 1-byte writes in WRITES[0..N) is on a 1 GiB page, according to TEXT in
 * the format of /proc/PID/smaps. Then *ADDR is the address of such a write.
 */
bool gigatext_in_smaps(const char *text, const struct patch_write *writes, size_t n,
		       uint64_t *addr);

#endif
