// SPDX-License-Identifier: MIT
/*
 * Before an object is used, its type is checked. BPF_OBJ_GET opens whatever has the name: a map, a
 * program or a link. BPF_OBJ_GET_INFO_BY_FD then fills in the structure for the type of the object,
 * but does not report the type. So fdinfo is read first: it has "map_type" for a map and
 * "link_type" for a link.
 */
#include "kernel/pinned.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Types of links, from linux/bpf.h. Older headers lack some of them. */
enum { LINK_RAW_TRACEPOINT = 1, LINK_PERF_EVENT = 7, LINK_UPROBE_MULTI = 12 };

bool pin_name_is_valid(const char *name)
{
	const size_t bytes = strlen(name);

	return bytes && bytes <= PIN_MAX_NAME_BYTES &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
		       bytes;
}

int pin_object(struct ocp_ctx *ctx, int fd, const char *path)
{
	int err = bpf_obj_pin(fd, path);

	return err ? ctx_error(ctx, err, "%s: %s", path, strerror(-err)) : 0;
}

/* Returns 1 if the fdinfo of FD has a line with the name FIELD, 0 if not, or a negative errno. */
static int has_field(int fd, const char *field)
{
	char path[64], line[256];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	/* Do not return -ENOENT: callers take it for a missing pinned meter. */
	if (!f)
		return errno == ENOENT ? -EIO : -errno;
	while (!found && fgets(line, sizeof(line), f))
		found = strncmp(line, field, strlen(field)) == 0;
	if (ferror(f))
		found = errno ? -errno : -EIO;
	fclose(f);
	return found;
}

/* Return how the map INFO differs from SHAPE, as part of a message, or NULL if they agree. */
static const char *fault_of(const struct bpf_map_info *info, const struct map_shape *shape)
{
	const __u32 most_bytes =
		shape->most_value_bytes ? shape->most_value_bytes : shape->value_bytes;

	if (info->type != shape->type)
		return "is a map of another type";
	if (info->key_size != shape->key_bytes)
		return "has keys of another size";
	if (info->value_size < shape->value_bytes || info->value_size > most_bytes)
		return "has values of another size";
	if (info->max_entries < shape->least_entries || info->max_entries > shape->most_entries)
		return "has another number of entries";
	return info->map_flags != shape->flags ? "has other flags" : NULL;
}

/*
 * Check that FD is a map of SHAPE, and fill in INFO. Return 0 or a negative errno, -EBADMSG for a
 * map of the wrong shape.
 */
static int check_map(struct ocp_ctx *ctx, const char *path, int fd, const struct map_shape *shape,
		     struct bpf_map_info *info)
{
	__u32 bytes = sizeof(*info);
	int found = has_field(fd, "map_type:");
	const char *fault;

	memset(info, 0, sizeof(*info));
	if (found <= 0)
		return found ? ctx_error(ctx, found, "%s: %s", path, strerror(-found))
			     : ctx_error(ctx, -EBADMSG, "%s: not a BPF map", path);
	if (bpf_map_get_info_by_fd(fd, info, &bytes))
		return ctx_error(ctx, -EBADMSG, "%s: %s", path, strerror(errno));
	fault = fault_of(info, shape);
	return fault ? ctx_error(ctx, -EBADMSG, "%s: %s than this version expects", path, fault)
		     : 0;
}

int pinned_map_open(struct ocp_ctx *ctx, const char *path, const struct map_shape *shape,
		    struct bpf_map_info *info)
{
	int fd = bpf_obj_get(path), err;

	if (fd < 0)
		return ctx_error(ctx, fd == -ENOENT ? -EBADMSG : fd, "%s: %s", path, strerror(-fd));
	err = check_map(ctx, path, fd, shape, info);
	if (err)
		close(fd);
	return err ? err : fd;
}

/* Return 1 if FD is a link of a type that this library makes, 0 if not, or a negative errno. */
static int is_link_of_ours(int fd)
{
	int found = has_field(fd, "link_type:");
	struct bpf_link_info info = { 0 };
	__u32 bytes = sizeof(info);

	if (found <= 0)
		return found;
	return bpf_link_get_info_by_fd(fd, &info, &bytes) == 0 &&
	       (info.type == LINK_RAW_TRACEPOINT || info.type == LINK_PERF_EVENT ||
		info.type == LINK_UPROBE_MULTI);
}

/* Check only the type of the link, not its program: only CAP_SYS_ADMIN may read the program. */
int pinned_link_open(struct ocp_ctx *ctx, const char *path)
{
	int fd = bpf_obj_get(path), found;

	if (fd == -ENOENT)
		return fd;
	if (fd < 0)
		return ctx_error(ctx, fd, "%s: %s", path, strerror(-fd));
	found = is_link_of_ours(fd);
	if (found > 0)
		return fd;
	close(fd);
	if (found < 0)
		return ctx_error(ctx, found, "%s: %s", path, strerror(-found));
	return ctx_error(ctx, -EBADMSG, "%s: not a link to uprobes or a tracepoint", path);
}
