/* SPDX-License-Identifier: MIT */
/*
 * The container that a process is in. Container runtimes put the container's id, and Kubernetes the
 * pod's, into the names of the cgroups that they make.
 */
#ifndef PROCESS_CONTAINER_H
#define PROCESS_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

enum { CONTAINER_ID_BYTES = 64 };

struct container {
	char pod[CONTAINER_ID_BYTES + 1]; /* the pod's UID, or podman's id of it; "": not known */
	char id[CONTAINER_ID_BYTES + 1];  /* "": not known */
};

/* What TEXT, that of a file /proc/PID/cgroup, says. */
void container_parse(const char *text, struct container *container);

/*
 * The container of process PID. One that is also ours is none: in a cgroup namespace of its own,
 * which is the usual case, it is not visible either. False if the cgroups of PID cannot be read.
 */
bool container_read(pid_t pid, struct container *container);

bool container_is_known(const struct container *container);
bool container_equal(const struct container *a, const struct container *b);

#endif
