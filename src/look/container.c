// SPDX-License-Identifier: MIT
/*
 * A line of /proc/PID/cgroup is HIERARCHY:CONTROLLERS:PATH. In cgroup v2 there is one line, with
 * hierarchy 0 and no controllers; in v1 there is one line per hierarchy. The known paths are:
 *
 *	Kubernetes, systemd driver	/kubepods.slice/kubepods-burstable.slice/
 *		kubepods-burstable-podUID.slice/cri-containerd-ID.scope, crio-ID.scope,
 *		docker-ID.scope
 *	Kubernetes, cgroupfs driver	/kubepods/burstable/podUID/ID, .../podUID/crio-ID
 *	containerd with both drivers	/system.slice/containerd.service/
 *		kubepods-burstable-podUID.slice:cri-containerd:ID
 *	Docker				/system.slice/docker-ID.scope, /docker/ID
 *	Podman				/machine.slice/libpod-ID.scope/container,
 *		/machine.slice/machine-libpod_pod_PODID.slice/libpod-ID.scope
 *
 * So a path is divided at each '/' and ':', and the parts are parsed one by one. An ID is 64
 * hexadecimal digits. A UID is 8-4-4-4-12 hexadecimal digits (systemd's names have '_' for '-') or,
 * for a pod that is defined by a file, 32 digits. The parts before the pod and the ID vary. A
 * reader in a cgroup namespace, such as a process in a container, sees
 * /../../kubepods-burstable-podUID.slice/..., and sees /../ID for another container of its own pod.
 *
 * The outermost container counts, because processes in a container can choose the names of cgroups
 * below that of the container.
 */
#include "look/container.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "look/proc_file.h"

enum {
	FILE_POD_BYTES = 32, /* the UID of a pod that is defined by a file: a hash of the file */
	POD_BYTES = 36,	     /* any other pod's UID */
	FILE_BYTES = 16384,  /* about 14 lines, each with a path of less than 4096 bytes */
};

/* A part of a text; not NUL-terminated. */
struct span {
	const char *text;
	size_t n;
};

static bool ends_with(struct span span, const char *end)
{
	const size_t n = strlen(end);

	return span.n >= n && memcmp(span.text + span.n - n, end, n) == 0;
}

static struct span without_end(struct span span, const char *end)
{
	if (ends_with(span, end))
		span.n -= strlen(end);
	return span;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool all_hex(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && is_hex(text[i]))
		i++;
	return i == n;
}

/* Return true if TEXT starts with 8-4-4-4-12 hexadecimal digits, separated by '-' or by '_'. */
static bool is_uid(const char *text)
{
	for (size_t i = 0; i < POD_BYTES; i++) {
		const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? text[i] != text[8] || (text[i] != '-' && text[i] != '_')
			    : !is_hex(text[i]))
			return false;
	}
	return true;
}

/*
 * Return true if SPAN ends with PREFIX and N more bytes, and PREFIX is at the start of SPAN or
 * after a '-'. In this case set *AT to the start of the N bytes.
 */
static bool has_tail(struct span span, const char *prefix, size_t n, const char **at)
{
	const size_t own = strlen(prefix) + n;
	const char *start;

	if (span.n < own)
		return false;
	start = span.text + span.n - own;
	*at = start + strlen(prefix);
	return memcmp(start, prefix, strlen(prefix)) == 0 &&
	       (start == span.text || start[-1] == '-');
}

static bool take_pod(struct span part, char *pod)
{
	const struct span name = without_end(part, ".slice");
	const char *at;
	size_t n;

	if (has_tail(name, "pod", POD_BYTES, &at) && is_uid(at))
		n = POD_BYTES;
	else if (has_tail(name, "pod", FILE_POD_BYTES, &at) && all_hex(at, FILE_POD_BYTES))
		n = FILE_POD_BYTES;
	else if (has_tail(name, "libpod_pod_", CONTAINER_ID_BYTES, &at) &&
		 all_hex(at, CONTAINER_ID_BYTES))
		n = CONTAINER_ID_BYTES;
	else
		return false;
	for (size_t i = 0; i < n; i++)
		pod[i] = (char)(at[i] == '_' ? '-' : at[i]);
	pod[n] = '\0';
	return true;
}

/*
 * If PART is ID or RUNTIME-ID, with or without ".scope" at the end, copy ID to *ID and return true.
 * Return false for the monitor of a container (conmon-ID), which is not a container.
 */
static bool take_id(struct span part, char *id)
{
	struct span name = without_end(part, ".scope");
	const char *at;

	if (!has_tail(name, "", CONTAINER_ID_BYTES, &at) || !all_hex(at, CONTAINER_ID_BYTES))
		return false;
	name.n -= CONTAINER_ID_BYTES;
	if (ends_with(name, "conmon-"))
		return false;
	memcpy(id, at, CONTAINER_ID_BYTES);
	id[CONTAINER_ID_BYTES] = '\0';
	return true;
}

/* Find the outermost container in PATH, and the innermost pod above this container. */
static void parse_path(struct span path, struct container *container)
{
	*container = (struct container){ 0 };
	while (path.n && !*container->id) {
		struct span part = path;

		part.n = 0;
		while (part.n < path.n && part.text[part.n] != '/' && part.text[part.n] != ':')
			part.n++;
		if (!take_pod(part, container->pod))
			take_id(part, container->id);
		part.n += part.n < path.n;
		path.text += part.n;
		path.n -= part.n;
	}
}

/* Return the path in LINE, a line of /proc/PID/cgroup: the part after the second ':'. */
static struct span path_of(struct span line)
{
	for (int i = 0; i < 2; i++) {
		const char *colon = memchr(line.text, ':', line.n);

		if (!colon)
			return (struct span){ line.text, 0 };
		line.n -= (size_t)(colon + 1 - line.text);
		line.text = colon + 1;
	}
	/* The kernel adds " (deleted)" to the path of a cgroup that was removed. */
	return without_end(line, " (deleted)");
}

void container_parse(const char *text, struct container *container)
{
	struct container found;

	*container = (struct container){ 0 };
	while (*text && !*container->id) {
		const struct span line = { text, strcspn(text, "\n") };

		parse_path(path_of(line), &found);
		if (*found.id || !*container->pod)
			*container = found;
		text += line.n + (text[line.n] == '\n');
	}
}

static bool read_container(pid_t pid, struct container *container)
{
	char path[PROC_PATH_BYTES], text[FILE_BYTES];
	size_t n = 0;
	ssize_t got;
	int fd;

	*container = (struct container){ 0 };
	proc_path(path, pid, "cgroup");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	text[n] = '\0';
	if (got < 0)
		return false;
	container_parse(text, container);
	return true;
}

bool container_read(pid_t pid, struct container *container)
{
	struct container own;

	if (!read_container(pid, container))
		return false;
	if (container_is_known(container) && read_container(getpid(), &own) &&
	    container_equal(container, &own))
		*container = (struct container){ 0 };
	return true;
}

bool container_is_known(const struct container *container)
{
	return *container->id || *container->pod;
}

bool container_equal(const struct container *a, const struct container *b)
{
	return strcmp(a->id, b->id) == 0 && strcmp(a->pod, b->pod) == 0;
}
