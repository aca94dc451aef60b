// SPDX-License-Identifier: MIT
/*
 * What /proc/PID/status says of seccomp and of shadow stacks, and what is refused for it. The
 * kernel writes these lines in arch_proc_pid_thread_features() and task_seccomp(); here they are
 * made up, as this processor may have no shadow stacks.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change/inside/remote.h"
#include "look/proc_file.h"

static const char *made_up; /* NULL: what the kernel says */

WRAP(int, proc_file_read,
     (struct ocp_ctx * ctx, pid_t pid, const char *name, char **text, size_t *n),
     (ctx, pid, name, text, n))
{
	if (!made_up || strcmp(name, "status") != 0)
		return __real_proc_file_read(ctx, pid, name, text, n);
	*text = strdup(made_up);
	if (n)
		*n = strlen(made_up);
	return 0;
}

/* WHY: what the message says; NULL: nothing is refused. */
static void check(const char *status, const char *why)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct remote_plan *plan = NULL;
	int err;

	made_up = status;
	err = remote_plan_make(ctx, getpid(), &plan);
	made_up = NULL;
	assert_int_equal(err, why ? -ENOTSUP : 0);
	if (why) {
		assert_null(plan);
		assert_non_null(strstr(ocp_error(ctx), why));
		assert_null(strchr(ocp_error(ctx), '\n'));
	}
	remote_plan_free(plan);
	ocp_ctx_free(ctx);
}

TEST(shadow_stacks_are_refused)
{
	check("Name:\tx\nSeccomp:\t0\nx86_Thread_features:\tshstk \nx86_Thread_features_locked:\tshstk wrss \n",
	      "shadow stack");
	check("Name:\tx\nSeccomp:\t0\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n",
	      "shadow stack");
	check("Name:\tx\nSeccomp:\t0\nx86_Thread_features:\t\nx86_Thread_features_locked:\t\n",
	      NULL);
	/* Locked as off: glibc does so for programs that are not marked. */
	check("Name:\tx\nSeccomp:\t0\nx86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss \n",
	      NULL);
	/* A kernel without shadow stacks. */
	check("Name:\tx\nSeccomp:\t0\n", NULL);
	/* A name is not a field. */
	check("Name:\tx86_Thread_features:shstk\nSeccomp:\t0\n", NULL);
}

TEST(filters_are_refused)
{
	check("Name:\tx\nSeccomp:\t1\nSeccomp_filters:\t0\n", "seccomp filter");
	check("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n", "seccomp filter");
	check("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n", NULL);
}
