/* SPDX-License-Identifier: MIT */
/*
 * The container that a process is in, read from the names of its cgroups: container runtimes put
 * the id of the container into them, and Kubernetes puts the id of the pod into them.
 */
#ifndef LOOK_CONTAINER_H
#define LOOK_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

enum { CONTAINER_ID_BYTES = 64 };

struct container {
	char pod[CONTAINER_ID_BYTES +
		 1];			 /* the pod's UID, or podman's id of the pod; "": unknown */
	char id[CONTAINER_ID_BYTES + 1]; /* "": unknown */
};

/* Parse TEXT, the contents of /proc/PID/cgroup. */
void container_parse(const char *text, struct container *container);

/*
 * Find the container of process PID. If the caller is in the same container, *CONTAINER is empty: a
 * container usually has its own cgroup namespace, in which the name of the container is not
 * visible. Returns false if the cgroups of PID cannot be read.
 */
bool container_read(pid_t pid, struct container *container);

bool container_is_known(const struct container *container);
bool container_equal(const struct container *a, const struct container *b);

#endif
