// SPDX-License-Identifier: MIT
/* Programs that cannot be started, by a child whose system calls are interrupted for ever. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "ocaml_probes.h"

static bool is_interrupted_for_ever;

WRAP(int, execv, (const char *path, char *const argv[]), (path, argv))
{
	(void)path;
	(void)argv;
	errno = ELIBBAD;
	return -1;
}

WRAP(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
{
	/* What is as long as what the child says of its exec, from a pipe. */
	if (!is_interrupted_for_ever || n != sizeof(int))
		return __real_write(fd, from, n);
	errno = EINTR;
	return -1;
}

static int start(struct ocp_ctx *ctx)
{
	char *argv[] = { (char *)"v1", NULL };
	struct ocp_process *proc;

	return ocp_process_spawn(ctx, fixture_path("v1"), argv, &proc);
}

/* It ends by itself: a test that hangs is killed. */
TEST(a_child_that_cannot_say_why)
{
	struct ocp_ctx *ctx = ocp_ctx_new();

	alarm(60);
	assert_int_equal(start(ctx), -ELIBBAD);
	assert_non_null(strstr(ocp_error(ctx), "cannot be run: "));
	is_interrupted_for_ever = true;
	assert_int_equal(start(ctx), -ESRCH);
	assert_non_null(strstr(ocp_error(ctx), "was killed before it started"));
	alarm(0);
	errno = 0;
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	ocp_ctx_free(ctx);
}
