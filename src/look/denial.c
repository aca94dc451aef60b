// SPDX-License-Identifier: MIT
/*
 * The kernel returns EPERM for every refusal, whatever the reason, so this file finds the reason.
 * The rules are those of ptrace(2), "Ptrace access mode checking". The kernel compares the users of
 * the two processes. If the users differ, or the process to trace is not dumpable, the tracer needs
 * CAP_SYS_PTRACE in the user namespace of the process to trace. In all cases the security modules
 * can refuse, too.
 */
#include "look/denial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>

enum { YAMA_NO_ATTACH = 3 }; /* value of ptrace_scope; see Documentation/admin-guide/LSM/Yama.rst */

/* Read the first line of PATH into TEXT. TEXT becomes "" if the file is empty or cannot be read. */
static void read_first_line(const char *path, char *text, size_t bytes)
{
	FILE *f = fopen(path, "re");

	text[0] = '\0';
	if (f && !fgets(text, (int)bytes, f))
		text[0] = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
}

/*
 * Return the number after FIELD in /proc/self/status, written in base BASE; 0 if FIELD is missing.
 */
static unsigned long long own_status(const char *field, int base)
{
	const size_t n = strlen(field);
	unsigned long long value = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, n) == 0 && line[n] == ':')
			value = strtoull(line + n + 1, NULL, base);
	if (f)
		fclose(f);
	return value;
}

/*
 * Return true if this process is in a user namespace other than the initial one. The initial one
 * maps all ids to themselves; another namespace that also does this is taken for the initial one.
 */
static bool in_user_namespace(void)
{
	unsigned long long inside = 0, outside = 0, n = 0;
	char line[128];

	read_first_line("/proc/self/uid_map", line, sizeof(line));
	/* NOLINTNEXTLINE(cert-err34-c): the kernel writes three numbers */
	return sscanf(line, "%llu %llu %llu", &inside, &outside, &n) == 3 &&
	       (inside || outside || n != 4294967295);
}

void denial_read(struct denial *denial, char *modules, size_t bytes)
{
	char scope[16];

	read_first_line("/sys/kernel/security/lsm", modules, bytes);
	read_first_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
	denial->security_modules = modules;
	denial->yama_scope = (int)strtol(scope, NULL, 10);
	denial->our_real_uid = getuid();
	denial->our_uid = geteuid();
	denial->has_capability = own_status("CapEff", 16) >> CAP_SYS_PTRACE & 1;
	denial->has_no_new_privileges = own_status("NoNewPrivs", 10);
	denial->in_user_namespace = in_user_namespace();
}

const char *denial_remedy(const struct denial *d)
{
	if (d->our_uid == 0)
		return "with CAP_SYS_PTRACE, which this root lacks (in a container: --cap-add "
		       "SYS_PTRACE)";
	if (d->has_no_new_privileges)
		return "with CAP_SYS_PTRACE, from another session: no_new_privs is set in this "
		       "one, so sudo has no effect";
	return "with CAP_SYS_PTRACE (e.g. sudo)";
}

/* Explain why the kernel refuses the access although this process has CAP_SYS_PTRACE. */
static int explain_in_spite(struct ocp_ctx *ctx, const struct denial *d)
{
	if (d->in_user_namespace) {
		ctx_error(ctx, -EPERM,
			  "pid %d (%s): CAP_SYS_PTRACE of this user namespace does not reach it",
			  (int)d->pid, d->name);
		ctx_hint(ctx, "run outside of the user namespace (of the rootless container)");
		return -EPERM;
	}
	ctx_error(ctx, -EPERM,
		  "pid %d (%s): may not be traced, despite CAP_SYS_PTRACE: perhaps a tracer in "
		  "another pid namespace holds it, or a security module%s%s%s or a seccomp filter "
		  "forbids it",
		  (int)d->pid, d->name, *d->security_modules ? " (" : "", d->security_modules,
		  *d->security_modules ? ")" : "");
	ctx_hint(ctx, "run outside of the pid namespace, where TracerPid in /proc/PID/status names "
		      "a tracer; `dmesg` has what a module denied");
	return -EPERM;
}

int denial_explain(struct ocp_ctx *ctx, const struct denial *d)
{
	if (d->yama_scope >= YAMA_NO_ATTACH) {
		ctx_error(ctx, -EPERM,
			  "pid %d (%s): Yama forbids all tracing, even by root (ptrace_scope %d)",
			  (int)d->pid, d->name, d->yama_scope);
		ctx_hint(ctx, "only a reboot lifts that; look for kernel.yama.ptrace_scope in "
			      "/etc/sysctl.conf and /etc/sysctl.d");
		return -EPERM;
	}
	if (d->has_capability)
		return explain_in_spite(ctx, d);
	/*
	 * The same user started the process to trace, but its program is setuid: its effective uid
	 * is another user's.
	 */
	if (d->our_uid != 0 && d->real_uid == d->our_real_uid && d->effective_uid != d->our_uid) {
		ctx_error(ctx, -EPERM, "pid %d (%s): runs as uid %u (setuid), you are uid %u",
			  (int)d->pid, d->name, d->effective_uid, d->our_uid);
		ctx_hint(ctx, "run %s", denial_remedy(d));
		return -EPERM;
	}
	if (d->our_uid != 0 && d->real_uid != d->our_real_uid) {
		ctx_error(ctx, -EPERM, "pid %d (%s): belongs to uid %u, you are uid %u",
			  (int)d->pid, d->name, d->real_uid, d->our_uid);
		ctx_hint(ctx, "run as that user, or %s", denial_remedy(d));
		return -EPERM;
	}
	if (d->yama_scope > 0) {
		ctx_error(ctx, -EPERM, "pid %d (%s): Yama forbids tracing it (ptrace_scope %d)",
			  (int)d->pid, d->name, d->yama_scope);
		ctx_hint(ctx, "run %s, or set kernel.yama.ptrace_scope to 0", denial_remedy(d));
		return -EPERM;
	}
	ctx_error(ctx, -EPERM, "pid %d (%s): may not be traced (not dumpable, or more privileged)",
		  (int)d->pid, d->name);
	ctx_hint(ctx, "run %s", denial_remedy(d));
	return -EPERM;
}
