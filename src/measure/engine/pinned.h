/* SPDX-License-Identifier: MIT */
/*
 * Maps and links that have names in bpffs. What a name stands for is anybody's who can write to its
 * folder: it is opened, and then must be what is wanted, before a byte is read through it.
 */
#ifndef MEASURE_PINNED_H
#define MEASURE_PINNED_H

#include <linux/bpf.h>

#include "base/ctx.h"

struct map_shape {
	__u32 type; /* enum bpf_map_type */
	__u32 key_bytes, value_bytes;
	__u32 flags;
	__u32 least_entries, most_entries;
	__u32 most_value_bytes; /* if it is not 0: of VALUE_BYTES or more */
};

/*
 * The map that is called PATH. Returns its descriptor, with what the kernel says of it in *INFO; or
 * a negative errno: -EBADMSG if PATH is no map, or a map of another shape.
 */
int pinned_map_open(struct ocp_ctx *ctx, const char *path, const struct map_shape *shape,
		    struct bpf_map_info *info);

/*
 * The link that is called PATH, of a program on uprobes or on a tracepoint. Returns its descriptor;
 * or -ENOENT if there is none, -EBADMSG if it is something else.
 */
int pinned_link_open(struct ocp_ctx *ctx, const char *path);

#endif
