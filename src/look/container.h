/* SPDX-License-Identifier: MIT */
/*
 * The container that a process is in, found by the names of its cgroups: container runtimes put the
 * id of the container into these names, and Kubernetes puts the id of the pod into them.
 */
#ifndef LOOK_CONTAINER_H
#define LOOK_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

enum { CONTAINER_ID_BYTES = 64 };

struct container {
	/* the UID of the pod, or the id that podman has given the pod; "": unknown */
	char pod[CONTAINER_ID_BYTES + 1];
	char id[CONTAINER_ID_BYTES + 1]; /* the id of the container; "": unknown */
};

/* Parse TEXT, the contents of /proc/PID/cgroup, and fill in CONTAINER. */
void container_parse(const char *text, struct container *container);

/*
 * Find the container of process PID. If the caller is in the same container, *CONTAINER is empty:
 * the caller is then usually in a cgroup namespace that hides the name of the container. Returns
 * false if the cgroups of PID cannot be read.
 */
bool container_read(pid_t pid, struct container *container);

bool container_is_known(const struct container *container);
bool container_equal(const struct container *a, const struct container *b);

#endif
