/* SPDX-License-Identifier: MIT */
/* A profile in the format of pprof: profile.proto, compressed by gzip. */
#ifndef PROFILE_FORMATS_PPROF_WRITER_H
#define PROFILE_FORMATS_PPROF_WRITER_H

#include <stdio.h>
#include "profile/profile.h"

int pprof_write(struct ocp_ctx *ctx, const struct profile *profile, FILE *to);

#endif
