/* SPDX-License-Identifier: MIT */
/* Writes a profile in the format of pprof: profile.proto, compressed by gzip. */
#ifndef PROFILE_FORMATS_PPROF_WRITER_H
#define PROFILE_FORMATS_PPROF_WRITER_H

#include <stdio.h>
#include "profile/profile.h"
#include "profile/recorder.h"

/*
 * Write the N profiles of LIST, which must be of the same kind and interval, as one profile. If an
 * element of LIST has a process (exe is not NULL), its samples get the labels `exe` and `pid`.
 */
int pprof_write_all(struct ocp_ctx *ctx, const struct process_profile *list, size_t n, FILE *to);
int pprof_write(struct ocp_ctx *ctx, const struct profile *profile, FILE *to);

#endif
