// SPDX-License-Identifier: MIT
/*
 * Closes links in such a way that one SIGKILL, at any moment, leaves no int3 behind.
 *
 * The kernel removes the uprobes of a link in the task that closes the last descriptor of the link.
 * If a fatal signal is pending for this task, the kernel cannot access the pages of the measured
 * process. It gives up with EINTR, prints "failed to unregister, leaking uprobe", and leaves the
 * int3 and the raised semaphore in the process for the rest of its life. On Linux 6.18, this
 * happened at 38 of 40 SIGKILLs during a close of 10 000 sites.
 *
 * No fatal signal is pending in a task that exits: the kernel clears the SIGKILL that it handles,
 * and a dying process receives no more signals. So we fork a child process, which gets copies of
 * the descriptors. The child dies, and by dying closes the last copies:
 *
 *   - The child closes all descriptors except those of the links and a pipe, and waits.
 *   - The tool closes its descriptors of the links, which are not the last ones, and releases the
 *     child by a byte in the pipe.
 *   - The child sends SIGKILL to itself. (If another process sent the SIGKILL while the child calls
 *     _exit(), before the kernel marks the child as dying, the signal could stay pending.)
 *
 * If the tool is killed, the child reads the end of the pipe, and kills itself. The tool and the
 * child are both dying then, so it does not matter which of them closes the last descriptor. A leak
 * needs two kills: first of the child, then of the tool.
 *
 * The exit signal of the child is 0: programs that use the library get no SIGCHLD, and their wait()
 * does not return the child. Other threads may hold locks when the child is forked, so the child
 * only makes system calls.
 *
 * Test: uprobe_leaks.sh: test_a_kill_while_uprobes_are_removed.
 */
#include "kernel/link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/search.h"

static int compare_fds(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return COMPARE(x, y);
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void close_from_to(unsigned int first, unsigned int last)
{
	if (first <= last)
		syscall(SYS_close_range, first, last, 0);
}

/*
 * Run the child: close all descriptors except the N descriptors in KEPT, which is sorted. Then wait
 * until a byte or the end of the pipe can be read from RELEASE, and die.
 */
__attribute__((noreturn)) static void hold_links(const int *kept, size_t n, int release)
{
	unsigned int next = 0;
	char byte;

	for (size_t i = 0; i < n; i++) {
		if (kept[i] > 0)
			close_from_to(next, (unsigned int)kept[i] - 1);
		next = (unsigned int)kept[i] + 1;
	}
	close_from_to(next, UINT_MAX);
	while (read(release, &byte, 1) < 0 && errno == EINTR)
		;
	kill(getpid(), SIGKILL);
	_exit(0); /* only process 1 of a pid namespace gets here: it survives its own SIGKILL */
}

/*
 * Start the child, which holds the descriptors FDS of N links and waits for a byte from the pipe
 * RELEASE. Return the child's pid, or -1.
 */
static pid_t start_holder(const int *fds, size_t n, const int release[2])
{
	int *kept = calloc(n + 1, sizeof(*kept));
	pid_t pid;

	if (!kept)
		return -1;
	memcpy(kept, fds, n * sizeof(*kept));
	kept[n] = release[0];
	qsort(kept, n + 1, sizeof(*kept), compare_fds);
	pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (pid == 0)
		hold_links(kept, n + 1, release[0]);
	free(kept);
	return pid;
}

void links_close(const int *fds, size_t n)
{
	int release[2];
	pid_t pid;

	if (!n)
		return;
	/* If no pipe can be made, close the links in this process, without a child. */
	if (pipe2(release, O_CLOEXEC)) {
		close_all(fds, n);
		return;
	}
	pid = start_holder(fds, n, release);
	close_all(fds, n);
	/*
	 * Write a byte instead of only closing the pipe: another thread may have forked a process
	 * that keeps the pipe open. The read end is still open in this process, so write(2) causes
	 * no SIGPIPE even if the child was killed.
	 */
	if (write(release[1], "", 1) < 0)
		errno = 0;
	close(release[1]);
	close(release[0]);
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

void link_close(int fd)
{
	links_close(&fd, 1);
}
