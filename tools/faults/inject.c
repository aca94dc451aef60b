// SPDX-License-Identifier: MIT
/*
 * inject LOG record PROGRAM [ARG...]
 * inject LOG SYSCALL:N[+]:ERRNO PROGRAM [ARG...]
 *
 * Run PROGRAM. `record` writes a line per system call into LOG: its name and, after a tab, its
 * object (a path, the file of a descriptor, a request). The other form makes the Nth call of that
 * name (from 1) fail with the errno (a number), and with `+` also all later ones: the kernel does
 * not carry out these calls. LOG then has a line for each call that failed: `injected`, a tab, and
 * the call's object, because another run may make the calls in another order.
 *
 * A seccomp filter passes the calls to this program (seccomp_unotify(2)). strace(1) is not
 * suitable: it would also trace the children of PROGRAM, which PROGRAM itself traces. The calls of
 * PROGRAM's threads are counted from the end of the dynamic linker's work on: from the first
 * munmap(2), of the linker's cache. Processes that PROGRAM starts inherit the filter, so their
 * calls need an answer as long as one of them lives: after the end of PROGRAM, a child of this
 * program answers.
 *
 * The status is PROGRAM's, 128 + N if a signal N killed it, 125 for a failure of this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

enum { FAILED = 125, PATH_BYTES = 256 };

/* The kind of the first argument of a call. */
enum about { NOTHING, FD, PATH, FD_PATH, PTRACE, BPF };

static const struct call {
	const char *name;
	int nr;
	enum about about;
} calls[] = {
#define CALL(name, about)                                                                          \
	{                                                                                          \
#name, SYS_##name, about                                                           \
	}
	CALL(access, PATH),
	CALL(bpf, BPF),
	CALL(chmod, PATH),
	CALL(chown, PATH),
	CALL(clock_nanosleep, NOTHING),
	CALL(clone, NOTHING),
	CALL(clone3, NOTHING),
	CALL(copy_file_range, FD),
	CALL(dup, FD),
	CALL(dup3, FD),
	CALL(epoll_create1, NOTHING),
	CALL(epoll_ctl, FD),
	CALL(epoll_wait, FD),
	CALL(eventfd2, NOTHING),
	CALL(execve, PATH),
	CALL(faccessat, FD_PATH),
	CALL(faccessat2, FD_PATH),
	CALL(fallocate, FD),
	CALL(fchmod, FD),
	CALL(fchmodat, FD_PATH),
	CALL(fchown, FD),
	CALL(fcntl, FD),
	CALL(fdatasync, FD),
	CALL(flock, FD),
	CALL(fstat, FD),
	CALL(fsync, FD),
	CALL(ftruncate, FD),
	CALL(futex, NOTHING),
	CALL(getdents64, FD),
	CALL(getrandom, NOTHING),
	CALL(getxattr, PATH),
	CALL(fgetxattr, FD),
	CALL(fsetxattr, FD),
	CALL(flistxattr, FD),
	CALL(inotify_init1, NOTHING),
	CALL(ioctl, FD),
	CALL(kill, NOTHING),
	CALL(link, PATH),
	CALL(linkat, FD_PATH),
	CALL(lseek, FD),
	CALL(lstat, PATH),
	CALL(madvise, NOTHING),
	CALL(mkdir, PATH),
	CALL(mkdirat, FD_PATH),
	CALL(mmap, NOTHING),
	CALL(mprotect, NOTHING),
	CALL(mremap, NOTHING),
	CALL(munmap, NOTHING),
	CALL(newfstatat, FD_PATH),
	CALL(open, PATH),
	CALL(openat, FD_PATH),
	CALL(perf_event_open, NOTHING),
	CALL(pidfd_open, NOTHING),
	CALL(pipe2, NOTHING),
	CALL(poll, NOTHING),
	CALL(ppoll, NOTHING),
	CALL(prctl, NOTHING),
	CALL(pread64, FD),
	CALL(preadv, FD),
	CALL(prlimit64, NOTHING),
	CALL(process_vm_readv, NOTHING),
	CALL(process_vm_writev, NOTHING),
	CALL(ptrace, PTRACE),
	CALL(pwrite64, FD),
	CALL(pwritev, FD),
	CALL(read, FD),
	CALL(readlink, PATH),
	CALL(readlinkat, FD_PATH),
	CALL(rename, PATH),
	CALL(renameat, FD_PATH),
	CALL(renameat2, FD_PATH),
	CALL(rmdir, PATH),
	CALL(sched_setaffinity, NOTHING),
	CALL(sendfile, FD),
	CALL(signalfd4, NOTHING),
	CALL(stat, PATH),
	CALL(statfs, PATH),
	CALL(fstatfs, FD),
	CALL(statx, FD_PATH),
	CALL(symlink, PATH),
	CALL(tgkill, NOTHING),
	CALL(timerfd_create, NOTHING),
	CALL(timerfd_settime, FD),
	CALL(unlink, PATH),
	CALL(unlinkat, FD_PATH),
	CALL(utimensat, FD_PATH),
	CALL(vfork, NOTHING),
	CALL(wait4, NOTHING),
	CALL(waitid, NOTHING),
	CALL(write, FD),
	CALL(writev, FD),
#undef CALL
};

enum { N_CALLS = sizeof(calls) / sizeof(calls[0]) };

/* The request; call is NULL for `record`. */
struct order {
	FILE *log;
	const struct call *call;
	unsigned long nth;
	bool fails_on;
	int error;
	bool has_begun;
	unsigned long seen;
	pid_t pid;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	_exit(FAILED);
}

static const struct call *find_call(const char *name, size_t bytes, int nr)
{
	for (size_t i = 0; i < N_CALLS; i++)
		if (name ? strlen(calls[i].name) == bytes && !strncmp(calls[i].name, name, bytes)
			 : calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

/* ---- the filter ------------------------------------------------------------------------------ */

/*
 * All calls of the table, or ONE, munmap, and execve, at which PROGRAM waits until we have the
 * descriptor that hands out the calls: it is returned.
 */
static int install_filter(const struct call *one)
{
	struct sock_filter code[2 * N_CALLS + 2];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_CALLS; i++) {
		if (one && one != &calls[i] && calls[i].nr != SYS_munmap &&
		    calls[i].nr != SYS_execve)
			continue;
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (unsigned int)calls[i].nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER |
				    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
			    &program);
}

/* ---- the object of a call -------------------------------------------------------------------- */

static void read_string(pid_t tid, unsigned long long addr, char *text)
{
	char path[PATH_BYTES];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Do not read beyond the page, which may be the last. */
	if (fd >= 0) {
		size_t bytes = 4096 - addr % 4096;

		n = pread(fd, text, bytes < PATH_BYTES ? bytes : PATH_BYTES - 1, (off_t)addr);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

static void read_fd(pid_t tid, long long fd, char *text)
{
	char path[PATH_BYTES];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, (int)fd);
	n = readlink(path, text, PATH_BYTES - 1);
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0 && fd <= 2)
		snprintf(text, PATH_BYTES, "%s",
			 (const char *[]){ "stdin", "stdout", "stderr" }[fd]);
}

static void describe(const struct seccomp_notif *notif, const struct call *call, char *text)
{
	const __u64 *args = notif->data.args;
	pid_t tid = (pid_t)notif->pid;

	text[0] = '\0';
	switch (call->about) {
	case FD:
		read_fd(tid, (long long)args[0], text);
		break;
	case PATH:
		read_string(tid, args[0], text);
		break;
	case FD_PATH:
		read_string(tid, args[1], text);
		if (!text[0])
			read_fd(tid, (long long)args[0], text);
		else if (call->nr == SYS_openat && (args[2] & O_CREAT))
			strncat(text, " (new)", PATH_BYTES - strlen(text) - 1);
		break;
	case PTRACE:
	case BPF:
		snprintf(text, PATH_BYTES, "request %llu", (unsigned long long)args[0]);
		break;
	case NOTHING:
		break;
	}
}

/* ---- answering ------------------------------------------------------------------------------- */

/* Is TID a thread of PID? */
static bool is_ours(pid_t tid, pid_t pid)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return access(path, F_OK) == 0;
}

/* Return the errno with which this call must fail, or 0. */
static int judge(struct order *order, const struct seccomp_notif *notif)
{
	const struct call *call = find_call(NULL, 0, notif->data.nr);
	char text[PATH_BYTES];

	if (!call || !is_ours((pid_t)notif->pid, order->pid))
		return 0;
	if (!order->has_begun) {
		order->has_begun = call->nr == SYS_munmap;
		return 0;
	}
	if (!order->call) {
		describe(notif, call, text);
		fprintf(order->log, "%s\t%s\n", call->name, text);
		return 0;
	}
	if (call != order->call || ++order->seen < order->nth ||
	    (order->seen > order->nth && !order->fails_on))
		return 0;
	describe(notif, call, text);
	fprintf(order->log, "injected\t%s\n", text);
	return order->error;
}

/* Answer the next call. Returns false if no process is left that could make one. */
static bool answer(struct order *order, int listener)
{
	struct seccomp_notif notif = { 0 };
	struct seccomp_notif_resp response = { 0 };

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notif) != 0)
		return errno == ENOENT || errno == EINTR || errno == EAGAIN;
	response.id = notif.id;
	response.error = order ? -judge(order, &notif) : 0;
	if (!response.error)
		response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	/* This fails if the caller was killed in the meantime. */
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
	return true;
}

static bool serve(struct order *order, int listener, int pidfd)
{
	struct pollfd fds[2] = { { .fd = listener, .events = POLLIN },
				 { .fd = pidfd, .events = POLLIN } };

	for (;;) {
		if (poll(fds, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			die("poll");
		}
		if ((fds[0].revents & POLLIN) && !answer(order, listener))
			return false;
		if (fds[0].revents & POLLHUP)
			return false;
		if (!(fds[0].revents & POLLIN) && (fds[1].revents & POLLIN))
			return true;
	}
}

/* Continue to answer the processes that PROGRAM has left running. */
static void serve_on(int listener)
{
	if (fork() != 0)
		return;
	/* A reader of the output waits for PROGRAM to close it, not for this process. */
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	setsid();
	serve(NULL, listener, -1);
	_exit(0);
}

static void parse_order(struct order *order, const char *log, const char *what)
{
	const char *colon = strchr(what, ':');
	char *end;

	order->log = fopen(log, "we");
	if (!order->log)
		die(log);
	if (!colon)
		return;
	order->call = find_call(what, (size_t)(colon - what), 0);
	order->nth = strtoul(colon + 1, &end, 10);
	order->fails_on = *end == '+';
	end += order->fails_on;
	if (!order->call || sscanf(end, ":%d", &order->error) != 1) {
		fprintf(stderr, "inject: %s: unknown\n", what);
		_exit(FAILED);
	}
}

int main(int argc, char **argv)
{
	struct order order = { 0 };
	volatile int *shared;
	int status, pidfd, listener;

	if (argc < 4) {
		fputs("usage: inject LOG record|SYSCALL:N[+]:ERRNO PROGRAM [ARG...]\n", stderr);
		return FAILED;
	}
	parse_order(&order, argv[1], argv[2]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap");
	*shared = -1;
	order.pid = fork();
	if (order.pid < 0)
		die("fork");
	if (order.pid == 0) {
		if (geteuid() != 0)
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		listener = install_filter(order.call);
		/* From here on the parent answers the calls, once it has read the descriptor. */
		*shared = listener < 0 ? -2 - errno : listener;
		if (listener >= 0)
			execv(argv[3], argv + 3);
		_exit(FAILED);
	}
	while (*shared == -1)
		usleep(100);
	if (*shared < -1) {
		errno = -2 - *shared;
		die("seccomp");
	}
	pidfd = (int)syscall(SYS_pidfd_open, order.pid, 0);
	listener = (int)syscall(SYS_pidfd_getfd, pidfd, *shared, 0);
	if (pidfd < 0 || listener < 0)
		die("pidfd_getfd");
	fcntl(listener, F_SETFD, FD_CLOEXEC);
	if (serve(&order, listener, pidfd))
		serve_on(listener);
	fclose(order.log);
	if (waitpid(order.pid, &status, 0) != order.pid)
		die("waitpid");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
