// SPDX-License-Identifier: MIT
#include "kernel/pid_namespace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel/kernel_file.h"

/* The inode number of the initial pid namespace: PROC_PID_INIT_INO in linux/proc_ns.h. */
#define INITIAL_PIDNS_INODE 0xeffffffcU

int pid_namespace_choose(struct ocp_ctx *ctx, pid_t pid, struct pid_namespace *ns)
{
	char path[64];
	struct stat st;

	*ns = (struct pid_namespace){ 0 };
	if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INITIAL_PIDNS_INODE)
		return 0;
	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	else
		snprintf(path, sizeof(path), "/proc/self/ns/pid");
	if (stat(path, &st))
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	ns->dev = kernel_file_dev(st.st_dev);
	ns->ino = st.st_ino;
	return 0;
}

/* Set *OWN to the id of process PID in its own pid namespace, the innermost one that it is in. */
static int read_own_pid(struct ocp_ctx *ctx, pid_t pid, __u32 *own)
{
	char path[64], line[256];
	FILE *f;
	int err = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6) == 0) {
			*own = (__u32)strtoul(strrchr(line, '\t') + 1, NULL, 10);
			err = 0;
			break;
		}
	}
	if (f)
		fclose(f);
	return err ? ctx_error(ctx, err, "process %d: it ended", (int)pid) : 0;
}

int pid_namespace_id(struct ocp_ctx *ctx, const struct pid_namespace *ns, pid_t pid, __u32 *id)
{
	char path[64];
	struct stat st;

	*id = (__u32)pid;
	if (!ns->ino)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &st))
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	if (st.st_ino != ns->ino)
		return ctx_error(ctx, -EINVAL,
				 "process %d: is in another pid namespace than the first one; "
				 "measure it by itself",
				 (int)pid);
	return read_own_pid(ctx, pid, id);
}
