// SPDX-License-Identifier: MIT
#include "serve/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* ---- system calls --------------------------------------------------------------------------- */

#define AT_ARCH	  offsetof(struct seccomp_data, arch)
#define AT_NUMBER offsetof(struct seccomp_data, nr)
/*
 * The offset of the lower 32 bits of argument I of the system call. The filter compares only these
 * 32 bits.
 */
#define AT_ARG(i) (offsetof(struct seccomp_data, args) + (i) * sizeof(uint64_t))

#define LOAD(at)	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define RETURN(value)	    BPF_STMT(BPF_RET | BPF_K, (value))
#define DENY		    RETURN(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW		    RETURN(SECCOMP_RET_ALLOW)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
/* Allow the system call NAME. */
#define CALL(name) UNLESS(SYS_##name, 1), ALLOW
/*
 * Allow the system call NAME unless its third argument, the protection of the memory, has
 * PROT_EXEC.
 */
#define CALL_NOT_EXEC(name)                                                                        \
	UNLESS(SYS_##name, 4), LOAD(AT_ARG(2)),                                                    \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), DENY, ALLOW

int sandbox_filter_syscalls(struct ocp_ctx *ctx)
{
	struct sock_filter filter[] = {
		LOAD(AT_ARCH),
		UNLESS(AUDIT_ARCH_X86_64, 1),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		/*
		 * System calls of the x32 ABI are denied: their numbers have a bit set that no
		 * allowed number has.
		 */
		LOAD(AT_NUMBER),
		CALL(accept4),
		CALL(recvfrom),
		CALL(recvmsg),
		CALL(sendto),
		CALL(sendmsg),
		CALL(shutdown),
		CALL(getsockname),
		CALL(getpeername),
		/* Allow setsockopt for TCP options only, such as TCP_NODELAY and TCP_CORK. */
		UNLESS(SYS_setsockopt, 4),
		LOAD(AT_ARG(1)),
		UNLESS(IPPROTO_TCP, 1),
		ALLOW,
		DENY,
		CALL(read),
		CALL(pread64),
		CALL(write),
		CALL(writev),
		CALL(close),
		CALL(fstat),
		CALL(epoll_ctl),
		CALL(epoll_wait),
		CALL(epoll_pwait),
		CALL(poll),
		CALL(ppoll),
		CALL(restart_syscall),
		CALL(futex),
		CALL(clock_gettime),
		CALL(gettimeofday),
		CALL(time),
		CALL(getrandom),
		CALL(getpid),
		CALL(gettid),
		CALL(brk),
		CALL(munmap),
		CALL(mremap),
		CALL(madvise),
		CALL_NOT_EXEC(mmap),
		CALL_NOT_EXEC(mprotect),
		CALL(rt_sigprocmask),
		CALL(rt_sigreturn),
		CALL(exit),
		CALL(exit_group),
		DENY,
	};
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
		return ctx_error(ctx, -errno, "prctl(PR_SET_SECCOMP): %s", strerror(errno));
	return 0;
}
