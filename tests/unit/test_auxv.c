// SPDX-License-Identifier: MIT
/* The auxiliary vector of a process that makes an exec. */
#include <elf.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ctx.h"
#include "look/proc_file.h"
#include "unit.h"

/* Start a program that ends when *FD is closed. */
static pid_t start_cat(int *fd)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[0], 0);
		close(ends[0]);
		close(ends[1]);
		execlp("cat", "cat", NULL);
		_exit(127);
	}
	close(ends[0]);
	*fd = ends[1];
	return pid;
}

/* The vector is that of the old program, then that of the new one, and is never seen empty. */
TEST(an_exec_is_waited_for)
{
	for (int i = 0; i < 100; i++) {
		struct ocp_ctx *ctx = ocp_ctx_new();
		uint64_t entry = getauxval(AT_ENTRY);
		int fd, status;
		const pid_t pid = start_cat(&fd);

		while (entry == getauxval(AT_ENTRY)) {
			assert_int_equal(auxv_read(ctx, pid, AT_ENTRY, &entry), 0);
			assert_true(entry != 0);
		}
		close(fd);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		ocp_ctx_free(ctx);
	}
}
