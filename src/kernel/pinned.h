/* SPDX-License-Identifier: MIT */
/*
 * Gives names in bpffs to maps and links, and opens them by name. A user who can write to the
 * directory can put another object in the place of a map or link. So each object is checked after
 * it was opened, before anything is read from it.
 */
#ifndef KERNEL_PINNED_H
#define KERNEL_PINNED_H

#include <linux/bpf.h>
#include <stdbool.h>

#include "base/ctx.h"

enum { PIN_MAX_NAME_BYTES = 64 };

/* Return true if NAME can be the name of a pinned meter. */
bool pin_name_is_valid(const char *name);

/* Give the map or link with the descriptor FD the name PATH. Return 0 or a negative errno. */
int pin_object(struct ocp_ctx *ctx, int fd, const char *path);

struct map_shape {
	__u32 type; /* one of enum bpf_map_type */
	__u32 key_bytes, value_bytes;
	__u32 flags;
	__u32 least_entries, most_entries;
	/* if not 0: the size of values may be from value_bytes to this number */
	__u32 most_value_bytes;
};

/*
 * Open the map PATH, and set *INFO. Return the map's descriptor or a negative errno: -EBADMSG if
 * PATH does not exist, or is not a map of SHAPE.
 */
int pinned_map_open(struct ocp_ctx *ctx, const char *path, const struct map_shape *shape,
		    struct bpf_map_info *info);

/*
 * Open PATH, the link of a program to uprobes or to a tracepoint. Return the descriptor of the link
 * or a negative errno: -ENOENT if PATH does not exist, -EBADMSG if PATH is anything else.
 */
int pinned_link_open(struct ocp_ctx *ctx, const char *path);

#endif
