/* SPDX-License-Identifier: MIT */
/* The directories of pinned meters in bpffs, one per name. */
#ifndef MEASURE_PIN_FOLDER_H
#define MEASURE_PIN_FOLDER_H

#include "base/ctx.h"

enum { PIN_PATH_BYTES = 128 };

/*
 * Write the path of the directory for NAME to FOLDER, which has room for PIN_PATH_BYTES. Return
 * -EINVAL if NAME is invalid.
 */
int pin_folder_of(struct ocp_ctx *ctx, const char *name, char *folder);

/*
 * Return -EEXIST if this process can see a directory for NAME, -EINVAL if NAME is invalid, else 0.
 */
int pin_check_name_free(struct ocp_ctx *ctx, const char *name);

/* Mount bpffs if it is not mounted and we have the privilege. */
int pin_need_bpffs(struct ocp_ctx *ctx);

/*
 * Check that FOLDER, the directory of the pinned meter NAME, exists, and that only root and we can
 * write to FOLDER and to the directories above it. Return 0, -ENOENT, -EACCES or -EPERM.
 */
int pin_check_folder(struct ocp_ctx *ctx, const char *name, const char *folder);

/*
 * List the names of all pinned meters that have directories. *NAMES and the strings are one block,
 * which the caller frees.
 */
int pin_list_folders(struct ocp_ctx *ctx, char ***names, size_t *n);

/* Set the error that NAME is in use. Return -EEXIST. */
int pin_is_taken(struct ocp_ctx *ctx, const char *name);

/*
 * Make the directory FOLDER for NAME. Return -EEXIST if NAME is in use, -EPERM as in
 * pin_check_folder().
 */
int pin_make_folder(struct ocp_ctx *ctx, const char *name, const char *folder);

/*
 * Remove all names in FOLDER, and FOLDER. A map or link without a name still exists while a process
 * has a descriptor of it.
 */
int pin_remove_names(struct ocp_ctx *ctx, const char *folder);

#endif
