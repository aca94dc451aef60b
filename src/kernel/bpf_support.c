// SPDX-License-Identifier: MIT
/*
 * Counting needs uprobe_multi links (Linux 6.6), CAP_BPF and CAP_PERFMON. On kernels without these
 * links (from Linux 5.15 on), counting uses perf events instead, and needs CAP_SYS_ADMIN: see
 * perf_links.c. Counting does not need the kernel's BTF (the counting program reads no kernel
 * type), tracefs, bpffs, or a raised RLIMIT_MEMLOCK (since Linux 5.11, BPF memory is charged to the
 * cgroup).
 *
 * Features are tested by system calls, not by the version of the kernel, because distributions
 * backport features to older versions. The version is used only in error messages.
 *
 *   - The kernel never makes a link for the path "/". EBADF means that the kernel looked at the
 *     path, so it supports uprobe_multi. EINVAL means that it does not support uprobe_multi.
 *   - Before Linux 6.10 (and its stable backports), the pid of a link selected only one thread, the
 *     main thread. The commit that corrected this also made the kernel reject negative pids with
 *     EINVAL before it looks at the path. Earlier kernels look at the path first, and return EBADF.
 */
#include "kernel/bpf_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernel/link.h"

/*
 * The numbers of capabilities. linux/capability.h of Debian 12 has them, but its other names clash
 * with names in the header of libcap.
 */
enum { SYS_PTRACE_BIT = 19, SYS_ADMIN_BIT = 21, PERFMON_BIT = 38, BPF_BIT = 39 };

/*
 * Fields of /proc/self/status: what this process may do by bpf(), and which processes it may
 * inspect.
 */
struct privileges {
	unsigned long long effective;
	unsigned int fsuid, fsgid;
	int seccomp;
	bool has_ids, has_effective;
};

/*
 * Read the fourth of the ids in a line "Uid:" or "Gid:", the one for the file system. The four are:
 * real, effective, saved, file system.
 */
static bool read_fs_id(const char *line, unsigned int *id)
{
	return sscanf(line, "%*[^:]: %*u %*u %*u %u", id) == 1;
}

/*
 * Read the privileges of this process. Return 0 or a negative errno. A member whose field could not
 * be read is 0.
 */
static int read_privileges(struct privileges *privileges)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	int err = 0;

	memset(privileges, 0, sizeof(*privileges));
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "Uid:", 4) == 0)
			privileges->has_ids = read_fs_id(line, &privileges->fsuid);
		else if (strncmp(line, "Gid:", 4) == 0)
			privileges->has_ids &= read_fs_id(line, &privileges->fsgid);
		else if (strncmp(line, "CapEff:", 7) == 0)
			privileges->has_effective =
				sscanf(line + 7, "%llx", &privileges->effective) == 1;
		else if (strncmp(line, "Seccomp:", 8) == 0)
			privileges->seccomp = (int)strtol(line + 8, NULL, 10);
	}
	if (ferror(f))
		err = errno ? -errno : -EIO;
	fclose(f);
	return err;
}

int bpf_support_access(struct ocp_ctx *ctx, struct measure_config *config)
{
	struct privileges privileges;
	struct stat user_namespace;
	int err;

	err = read_privileges(&privileges);
	if (err)
		return ctx_error(ctx, err, "/proc/self/status: %s", strerror(-err));
	if (privileges.effective >> SYS_PTRACE_BIT & 1)
		return 0;
	if (!privileges.has_ids || !privileges.has_effective)
		return ctx_error(ctx, -EIO, "/proc/self/status: does not say who this process is");
	if (stat("/proc/self/ns/user", &user_namespace) != 0)
		return ctx_error(ctx, -errno, "/proc/self/ns/user: %s", strerror(errno));
	config->checks_access = true;
	config->uid = privileges.fsuid;
	config->gid = privileges.fsgid;
	config->userns_ino = user_namespace.st_ino;
	config->capabilities = privileges.effective;
	return 0;
}

/*
 * Return the names of the capabilities that EFFECTIVE lacks, or NULL if it lacks none.
 * CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON.
 */
static const char *missing_capabilities(unsigned long long effective)
{
	bool admin = effective >> SYS_ADMIN_BIT & 1;
	bool bpf = admin || (effective >> BPF_BIT & 1);
	bool perfmon = admin || (effective >> PERFMON_BIT & 1);

	if (bpf && perfmon)
		return NULL;
	return bpf ? "CAP_PERFMON" : perfmon ? "CAP_BPF" : "CAP_BPF and CAP_PERFMON";
}

static void hint_at_setcap(struct ocp_ctx *ctx)
{
	char path[400];
	struct statvfs fs;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		n = snprintf(path, sizeof(path), "PROGRAM");
	path[n] = '\0';
	if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID))
		ctx_hint(ctx,
			 "run it as root, or copy %s to a mount without nosuid (capabilities of "
			 "files have no effect here) and: sudo setcap cap_bpf,cap_perfmon=ep COPY",
			 path);
	else
		ctx_hint(ctx, "run it as root, or: sudo setcap cap_bpf,cap_perfmon=ep %s", path);
}

static int explain_no_permission(struct ocp_ctx *ctx)
{
	struct privileges privileges;
	const char *missing;

	read_privileges(&privileges);
	missing = missing_capabilities(privileges.effective);
	if (missing) {
		ctx_error(ctx, -EPERM, "measuring: ocaml-probes lacks %s", missing);
		hint_at_setcap(ctx);
		return -EPERM;
	}
	ctx_error(ctx, -EPERM,
		  "measuring: the kernel refuses bpf() although ocaml-probes has CAP_BPF and "
		  "CAP_PERFMON");
	ctx_hint(ctx, "%s",
		 privileges.seccomp ? "a seccomp filter is in force, as in most containers: "
				      "run ocaml-probes outside of it"
				    : "capabilities of a user namespace have no effect: use the "
				      "initial namespace, outside of any container");
	return -EPERM;
}

static bool lacks_capabilities(void)
{
	struct privileges privileges;

	read_privileges(&privileges);
	return missing_capabilities(privileges.effective) != NULL;
}

static int explain_old_kernel(struct ocp_ctx *ctx)
{
	struct utsname un = { 0 };
	unsigned int major = 0, minor = 0;

	uname(&un);
	if (sscanf(un.release, "%u.%u", &major, &minor) == 2 &&
	    (major > 5 || (major == 5 && minor >= 15)))
		return ctx_error(ctx, -EOPNOTSUPP,
				 "measuring: this kernel (Linux %s) was built without uprobes for "
				 "BPF (CONFIG_BPF_SYSCALL, CONFIG_UPROBE_EVENTS and "
				 "CONFIG_BPF_EVENTS are needed)",
				 un.release);
	return ctx_error(ctx, -EOPNOTSUPP,
			 "measuring: this kernel (Linux %s) is too old; Linux 5.15 or newer is "
			 "needed, 6.6 for fast attaching",
			 un.release);
}

int bpf_support_explain(struct ocp_ctx *ctx, int code, const char *doing)
{
	/* Without CAP_PERFMON, the verifier rejects the program's use of pointers with EINVAL. */
	if (code == -EINVAL && lacks_capabilities())
		return explain_no_permission(ctx);
	switch (code) {
	case -EPERM:
	case -EACCES:
		return explain_no_permission(ctx);
	case -ENOSYS:
	case -EOPNOTSUPP:
		return explain_old_kernel(ctx);
	case -ENOMEM:
		return ctx_error(ctx, code, "measuring: no memory for %s", doing);
	default:
		/*
		 * Do not return -EINVAL: to the library's callers, it means that their request is
		 * invalid.
		 */
		return ctx_error(ctx, code == -EINVAL ? -EIO : code, "measuring: %s: %s", doing,
				 strerror(-code));
	}
}

/*
 * Load a program that does nothing. Return its descriptor or a negative errno. Call bpf(2)
 * directly: libbpf's wrapper would raise RLIMIT_MEMLOCK, and print a message if it cannot.
 */
static int load_idle_program(enum bpf_attach_type attach_type)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	static const char license[] = "Dual MIT/GPL";
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_KPROBE,
		.expected_attach_type = attach_type,
		.insns = (uintptr_t)insns,
		.insn_cnt = sizeof(insns) / sizeof(insns[0]),
		.license = (uintptr_t)license,
		.prog_name = "ocp_idle",
	};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

/*
 * Return the errno with which the kernel rejects a link for the path "/" and PID: see the top of
 * this file.
 */
static int refusal_of_root_path(int prog_fd, pid_t pid)
{
	static const unsigned long offset;
	const struct uprobe_places root = { .path = "/", .offsets = &offset, .n = 1, .pid = pid };
	const int fd = link_uprobes(prog_fd, &root);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : -EINVAL;
}

/*
 * Test for uprobe_multi links. If the kernel has them, fill in SUPPORT and return 0. If it lacks
 * them, return -EINVAL: the kernel rejects an attach type that it does not know with EINVAL. Return
 * other errors of the kernel as they are.
 */
static int probe_multi(struct bpf_support *support)
{
	int fd = load_idle_program(ATTACH_UPROBE_MULTI), err;

	if (fd < 0)
		return fd;
	err = refusal_of_root_path(fd, 0);
	if (err != -EBADF) {
		close(fd);
		return err;
	}
	support->idle_prog_fd = fd;
	support->has_uprobe_multi = true;
	support->pid_filter_is_sound = refusal_of_root_path(fd, -1) == -EINVAL;
	return 0;
}

int bpf_support_probe(struct ocp_ctx *ctx, struct bpf_support *support)
{
	int err = probe_multi(support), fd;

	if (err && err != -EINVAL)
		return bpf_support_explain(ctx, err, "loading a BPF program");
	if (!err)
		return 0;
	/* Perf events filter by process on all kernels. */
	fd = load_idle_program(0);
	if (fd == -EINVAL)
		return explain_old_kernel(ctx);
	if (fd < 0)
		return bpf_support_explain(ctx, fd, "loading a BPF program");
	support->idle_prog_fd = fd;
	support->has_uprobe_multi = false;
	support->pid_filter_is_sound = true;
	return 0;
}
