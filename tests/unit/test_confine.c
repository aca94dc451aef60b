/* SPDX-License-Identifier: MIT */
/* What a child process drops before it reads untrusted files. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/capability.h>
#include "base/confine.h"
#include "unit.h"

/* Is a capability in the bounding set, from which a program that is executed could gain it? */
static bool any_is_left(void)
{
	int is_there;

	for (unsigned long cap = 0; (is_there = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) >= 0; cap++)
		if (is_there)
			return true;
	return false;
}

/* The status of a process that drops its capabilities, DROPPED before the others. */
static int drop_all(unsigned long dropped)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct ocp_ctx *ctx = ocp_ctx_new();

		if (!ctx || prctl(PR_CAPBSET_DROP, dropped, 0, 0, 0) != 0)
			_exit(2);
		_exit(confine_drop_capabilities(ctx) != 0 || any_is_left() ||
		      prctl(PR_GET_DUMPABLE) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(capabilities_that_are_gone_do_not_keep_others)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(drop_all(CAP_CHOWN), 0);
	assert_int_equal(drop_all(CAP_SYS_PTRACE), 0);
}
