// SPDX-License-Identifier: MIT
/*
 * Why a process may not be traced, for each obstacle, most of which this machine does not have; and
 * the kernel's text about the links of other processes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ctx.h"
#include "look/denial.h"
#include "look/proc_file.h"
#include "process/holders.h"
#include "unit.h"

static const struct denial root = {
	.pid = 42,
	.name = "svc",
	.real_uid = 1000,
	.effective_uid = 1000,
	.has_capability = true,
	.security_modules = "",
};

static struct denial user(void)
{
	struct denial d = root;

	d.has_capability = false;
	d.our_real_uid = d.our_uid = 1000;
	return d;
}

static void assert_says(const struct denial *d, const char *error, const char *hint)
{
	struct ocp_ctx *ctx = ocp_ctx_new();

	assert_non_null(ctx);
	assert_int_equal(denial_explain(ctx, d), -EPERM);
	if (!strstr(ocp_error(ctx), error) || !strstr(ocp_hint(ctx), hint))
		fail_msg("%s\nhint: %s", ocp_error(ctx), ocp_hint(ctx));
	ocp_ctx_free(ctx);
}

TEST(users_are_told_the_obstacle)
{
	struct denial d = user();

	assert_says(&d, "may not be traced (not dumpable, or more privileged)",
		    "run with CAP_SYS_PTRACE (e.g. sudo)");
	d.yama_scope = 1;
	assert_says(&d, "Yama forbids tracing it (ptrace_scope 1)",
		    "sudo), or set kernel.yama.ptrace_scope to 0");
	d.has_no_new_privileges = true;
	assert_says(&d, "ptrace_scope 1", "no_new_privs is set in this one, so sudo has no effect");
	d.effective_uid = 0;
	assert_says(&d, "pid 42 (svc): runs as uid 0 (setuid), you are uid 1000",
		    "run with CAP_SYS_PTRACE");
	d = user();
	d.real_uid = 7;
	assert_says(&d, "belongs to uid 7, you are uid 1000", "run as that user, or with CAP");
	d.yama_scope = 3;
	assert_says(&d, "Yama forbids all tracing, even by root (ptrace_scope 3)", "only a reboot");
}

TEST(root_is_not_sent_to_sudo)
{
	struct denial d = root;

	assert_says(&d,
		    "despite CAP_SYS_PTRACE: perhaps a tracer in another pid namespace holds "
		    "it, or a security module or a seccomp filter forbids it",
		    "TracerPid");
	d.security_modules = "lockdown,yama,apparmor";
	assert_says(&d, "or a security module (lockdown,yama,apparmor) or a seccomp", "dmesg");
	d.in_user_namespace = true;
	assert_says(&d, "CAP_SYS_PTRACE of this user namespace does not reach it", "outside of");
	d.yama_scope = 3;
	assert_says(&d, "Yama forbids all tracing", "only a reboot");
	d = root;
	d.has_capability = false;
	assert_says(&d, "may not be traced", "which this root lacks (in a container: --cap-add");
	d.yama_scope = 1;
	assert_says(&d, "ptrace_scope 1", "which this root lacks");
}

TEST(kernel_threads_are_known)
{
	assert_true(is_kernel_thread(2));
	assert_false(is_kernel_thread(1));
	assert_false(is_kernel_thread(4194304));
}

struct found {
	char path[64];
	pid_t pid;
	uint64_t offsets[4];
	size_t n;
};

static void take(void *data, const char *path, pid_t pid, uint64_t offset)
{
	struct found *found = data;

	snprintf(found->path, sizeof(found->path), "%s", path);
	found->pid = pid;
	assert_true(found->n < 4);
	found->offsets[found->n++] = offset;
}

static struct found parse(const char *text)
{
	struct found found = { 0 };
	char *copy = strdup(text);

	assert_non_null(copy);
	holders_parse(copy, take, &found);
	free(copy);
	return found;
}

/* Its only thread has ended: there is no other one to give the id of. */
TEST(zombies_have_ended)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_why_no_access(ctx, pid, ESRCH), -ESRCH);
	assert_non_null(strstr(ocp_error(ctx), "has ended (a zombie)"));
	assert_null(ocp_hint(ctx));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ocp_ctx_free(ctx);
}

TEST(links_tell_their_offsets)
{
	struct found found = parse("pos:\t0\nflags:\t02000000\nmnt_id:\t17\nino:\t18\n"
				   "link_type:\tuprobe_multi\nlink_id:\t3825\nprog_id:\t15302\n"
				   "uprobe_cnt:\t2\npid:\t677\npath:\t/tmp/a b/svc\n"
				   "cookie\t offset\t ref_ctr_offset\n"
				   "8589934592\t 0x5b9e9\t 0x120a48\n8589934593\t 0x5c082\t 0x0\n");

	assert_string_equal(found.path, "/tmp/a b/svc");
	assert_int_equal(found.pid, 677);
	assert_int_equal(found.n, 2);
	assert_int_equal(found.offsets[0], 0x5b9e9);
	assert_int_equal(found.offsets[1], 0x5c082);
	found = parse("link_type:\tperf\nlink_id:\t9\nname:\t/srv/x\noffset:\t0x1234\n"
		      "ref_ctr_offset:\t0x0\nevent_type:\tuprobe\ncookie:\t0\n");
	assert_string_equal(found.path, "/srv/x");
	assert_int_equal(found.n, 1);
	assert_int_equal(found.offsets[0], 0x1234);
	assert_int_equal(found.pid, 0);
	/* Other kinds, older kernels, and nothing. */
	assert_int_equal(
		parse("link_type:\tperf\nname:\tsys_read\noffset:\t0x0\nevent_type:\tkprobe\n").n,
		0);
	assert_int_equal(parse("link_type:\tkprobe_multi\npath:\t/x\n1\t 0x2\t 0x3\n").n, 0);
	assert_int_equal(parse("link_type:\tuprobe_multi\nlink_id:\t3825\n").n, 0);
	assert_int_equal(parse("").n, 0);
}
