/* SPDX-License-Identifier: MIT */
/* The names of what is kept: a folder of bpffs each. */
#ifndef MEASURE_KEPT_FOLDER_H
#define MEASURE_KEPT_FOLDER_H

#include "base/ctx.h"

enum { PIN_PATH_BYTES = 128 };

/*
 * The path of what is kept as NAME into FOLDER, which has PIN_PATH_BYTES. -EINVAL: no such name.
 */
int pin_folder_of(struct ocp_ctx *ctx, const char *name, char *folder);

/* Mount bpffs if it is not, and we may. */
int pin_need_bpffs(struct ocp_ctx *ctx);

/*
 * Is FOLDER, of what is kept as NAME, there, and can nobody but root and us write to it or to those
 * above it? -ENOENT, -EACCES, -EPERM: no.
 */
int pin_check_folder(struct ocp_ctx *ctx, const char *name, const char *folder);

/* -EEXIST if something is kept as NAME, -EPERM as above. */
int pin_make_folder(struct ocp_ctx *ctx, const char *name, const char *folder);

/* Forget all names in FOLDER, and itself. What they stood for goes with its last descriptor. */
int pin_remove_names(struct ocp_ctx *ctx, const char *folder);

#endif
