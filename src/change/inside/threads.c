// SPDX-License-Identifier: MIT
/*
 * Examine the threads of a stopped process. threads_may_use() finds out whether a thread may return
 * to a trampoline. If a signal handler has interrupted a trampoline, only the signal frame has the
 * trampoline's address. The frame is on the stack of the handler, above the handler's stack
 * pointer. So all words are examined from the stack pointer to the end of the mapping of the stack,
 * and the 128 bytes below the stack pointer (the red zone).
 *
 * The handler may have been interrupted by another handler, which runs on the alternate stack
 * (sigaltstack(2)). So the stacks to which signal frames lead are examined in the same way.
 *
 * threads_are_in_windows() looks for signal frames only: a return address is never inside of a
 * window.
 */
#include "change/inside/threads.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>
#include "base/search.h"
#include "look/proc_file.h"
#include "program/program.h"

enum {
	RED_ZONE_BYTES = 128,
	CHUNK_BYTES = 256 * 1024,
	MAX_STACK_BYTES = 64 << 20, /* a larger mapping is not a C stack */
	HANDLER_BYTES = 1 << 20,    /* how much of the stack a signal handler may use */
	RSEQ_CS_OFF = 8,
	MAX_STACKS = 16,
	/*
	 * The distance in words from sp to cs: sp, ip, flags and cs are neighbours in struct
	 * sigcontext_64 (asm/sigcontext.h).
	 */
	FRAME_SP_TO_CS = 3,
	FRAME_IP_TO_CS = 2,
};

/*
 * cs, gs, fs and ss in a signal frame, as the kernel writes them: __USER_CS, 0, 0, __USER_DS of
 * arch/x86.
 */
static const uint64_t frame_cs = UINT64_C(0x002b000000000033);

/*
 * Return the address of the thread's struct rseq, and set *SIGNATURE; 0 if the thread has
 * registered none, or if this is not known.
 */
static uint64_t rseq_addr(pid_t tid, uint32_t *signature)
{
	struct __ptrace_rseq_configuration rseq = { 0 };

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(rseq), &rseq) <= 0)
		return 0;
	*signature = rseq.signature;
	return rseq.rseq_abi_pointer;
}

/*
 * Return 1 if the word at THREADS_TID_OFF is the id of the thread, -1 if it is not, or 0 for a
 * thread that is just beginning or ending.
 */
static int look_for_tid(struct ocp_ctx *ctx, const struct memory *memory, pid_t tid,
			uint64_t fs_base)
{
	struct proc_status status;
	uint32_t kept;

	if (!fs_base || !memory_try_read(memory, fs_base + THREADS_TID_OFF, &kept, sizeof(kept)))
		return -1;
	if (!kept)
		return 0;
	return proc_status_read(ctx, tid, &status) == 0 && (uint32_t)status.ns_pid == kept ? 1 : -1;
}

void threads_examine(struct ocp_ctx *ctx, const struct tracee *tracee, const struct memory *memory,
		     struct templates_process *process)
{
	bool tid_is_sure = true, rseq_is_sure = true, is_seen = false;
	int64_t rseq_off = 0;

	for (size_t i = 0; i < tracee_n_threads(tracee); i++) {
		struct user_regs_struct regs;
		int signal, found;
		const pid_t tid = tracee_tid(tracee, i, &signal);
		uint32_t signature;
		uint64_t rseq;

		if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0)
			continue; /* the thread has just been killed */
		found = look_for_tid(ctx, memory, tid, regs.fs_base);
		tid_is_sure = tid_is_sure && found >= 0;
		is_seen = is_seen || found > 0;
		rseq = rseq_addr(tid, &signature);
		if (!rseq)
			continue; /* a thread that is just beginning has no struct rseq yet */
		if (!regs.fs_base || signature != TEMPLATES_RSEQ_SIGNATURE ||
		    (rseq_off && rseq_off != (int64_t)(rseq - regs.fs_base)))
			rseq_is_sure = false;
		rseq_off = (int64_t)(rseq - regs.fs_base);
	}
	*process = (struct templates_process){ .may_call_kernel = true };
	if (tid_is_sure && is_seen)
		process->tid_off = THREADS_TID_OFF;
	if (rseq_is_sure && rseq_off == (int32_t)rseq_off)
		process->rseq_off = (int32_t)rseq_off;
}

bool threads_are_inside(const struct tracee *tracee, const uint64_t *addrs, size_t n)
{
	for (size_t i = 0; i < tracee_n_threads(tracee); i++) {
		struct user_regs_struct regs;
		size_t next; /* index of the first site after rip */
		int signal;

		if (ptrace(PTRACE_GETREGS, tracee_tid(tracee, i, &signal), NULL, &regs) != 0)
			continue;
		next = SEARCH(j, n, addrs[j] <= regs.rip);
		if (next && regs.rip - addrs[next - 1] > 1 && regs.rip - addrs[next - 1] < 6)
			return true;
	}
	return false;
}

/* Return true if IP is behind the first byte of the jump of one of the N windows at ADDRS. */
static bool is_in_window(uint64_t ip, const uint64_t *addrs, size_t n)
{
	const size_t next = SEARCH(i, n, addrs[i] < ip); /* index of the first one at or after IP */

	return next && ip - addrs[next - 1] < SITE_BYTES;
}

static bool has_word(const uint64_t *words, size_t n, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < n; i++)
		if (words[i] - start < end - start)
			return true;
	return false;
}

/*
 * The stacks of one thread: first the stack that the thread runs on, then the stacks to which
 * signal frames lead.
 */
struct stacks {
	const struct memory *memory;
	const struct maps *maps;
	uint64_t start, end; /* the range of the code whose addresses are looked for */
	/* look for signal frames with an ip in one of these windows instead */
	const uint64_t *windows;
	size_t n_windows;
	uint64_t *chunk;
	uint64_t sp[MAX_STACKS];
	size_t n;
};

/*
 * Add the stack with the stack pointer SP, unless it was added before. Return false if there are
 * too many stacks.
 */
static bool add_thread_stack(struct stacks *stacks, uint64_t sp)
{
	const struct mapping *m = maps_find(stacks->maps, sp);

	for (size_t i = 0; i < stacks->n; i++)
		if (stacks->sp[i] <= sp && maps_find(stacks->maps, stacks->sp[i]) == m)
			return true;
	if (stacks->n == MAX_STACKS)
		return false;
	stacks->sp[stacks->n++] = sp;
	return true;
}

/*
 * Find the signal frames in the first N words of the chunk, and add the stacks to which they lead.
 * If a word only looks like part of a signal frame, a needless stack is added, which does no harm.
 * Return false if there are too many stacks, or if the thread returns into a window.
 */
static bool follow_frames(struct stacks *stacks, size_t n)
{
	for (size_t i = FRAME_SP_TO_CS; i < n; i++)
		if (stacks->chunk[i] == frame_cs &&
		    (is_in_window(stacks->chunk[i - FRAME_IP_TO_CS], stacks->windows,
				  stacks->n_windows) ||
		     !add_thread_stack(stacks, stacks->chunk[i - FRAME_SP_TO_CS])))
			return false;
	return true;
}

/*
 * Read the BYTES bytes at ADDR to the chunk. If they reach a guard page, read up to this page,
 * where the stack of another thread begins: madvise(2), MADV_GUARD_INSTALL, makes guard pages that
 * /proc/PID/maps does not show. The C library does so since version 2.42. Return the number of
 * bytes read.
 */
static size_t read_stack(struct stacks *stacks, uint64_t addr, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n = 0;

	if (memory_try_read(stacks->memory, addr, stacks->chunk, bytes))
		return bytes;
	while (n < bytes) {
		const size_t left = bytes - n, to_page = page - (addr + n) % page;
		const size_t part = left < to_page ? left : to_page;

		if (!memory_try_read(stacks->memory, addr + n, (uint8_t *)stacks->chunk + n, part))
			break;
		n += part;
	}
	return n;
}

static bool stack_may_use(struct stacks *stacks, uint64_t sp)
{
	const struct mapping *m = maps_find(stacks->maps, sp);
	const uint64_t overlap = FRAME_SP_TO_CS * sizeof(uint64_t);
	uint64_t addr = (sp - RED_ZONE_BYTES) & ~UINT64_C(7), end;

	if (!m || (m->end - sp > MAX_STACK_BYTES && !stacks->n_windows))
		return true;
	end = stacks->n_windows && m->end - sp > HANDLER_BYTES ? sp + HANDLER_BYTES : m->end;
	if (addr < m->start)
		addr = m->start;
	while (addr < end) {
		const size_t bytes = end - addr < CHUNK_BYTES ? end - addr : CHUNK_BYTES;
		const size_t read = read_stack(stacks, addr, bytes);
		const size_t n = read / sizeof(uint64_t);

		if (!read || has_word(stacks->chunk, n, stacks->start, stacks->end) ||
		    !follow_frames(stacks, n))
			return true;
		if (read < bytes)
			return false;
		addr += bytes < CHUNK_BYTES ? bytes : bytes - overlap;
	}
	return false;
}

/* Like stack_may_use(), for the stack with the stack pointer SP and those that it leads to. */
static bool stacks_may_use(struct stacks *stacks, uint64_t sp)
{
	stacks->sp[0] = sp;
	stacks->n = 1;
	for (size_t i = 0; i < stacks->n; i++)
		if (stack_may_use(stacks, stacks->sp[i]))
			return true;
	return false;
}

static bool thread_may_use(struct stacks *stacks, pid_t tid)
{
	const uint64_t start = stacks->start, end = stacks->end;
	uint32_t signature;
	const uint64_t rseq = rseq_addr(tid, &signature);
	struct user_regs_struct regs;
	uint64_t cs = 0;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0)
		return true;
	if (rseq && (!memory_try_read(stacks->memory, rseq + RSEQ_CS_OFF, &cs, sizeof(cs)) ||
		     cs - start < end - start))
		return true;
	return has_word((const uint64_t *)&regs, sizeof(regs) / sizeof(uint64_t), start, end) ||
	       stacks_may_use(stacks, regs.rsp);
}

static bool thread_is_in_window(struct stacks *stacks, pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0)
		return false; /* the thread has just been killed */
	return is_in_window(regs.rip, stacks->windows, stacks->n_windows) ||
	       stacks_may_use(stacks, regs.rsp);
}

/* Return true if CHECK returns true for at least one thread, or if memory is short. */
static bool any_thread(const struct tracee *tracee, struct stacks *stacks,
		       bool (*check)(struct stacks *stacks, pid_t tid))
{
	bool any;

	stacks->chunk = malloc(CHUNK_BYTES);
	any = !stacks->chunk;
	for (size_t i = 0; !any && i < tracee_n_threads(tracee); i++) {
		int signal;

		any = check(stacks, tracee_tid(tracee, i, &signal));
	}
	free(stacks->chunk);
	return any;
}

bool threads_are_in_windows(const struct tracee *tracee, const struct memory *memory,
			    const struct maps *maps, const uint64_t *addrs, size_t n)
{
	struct stacks stacks = { .memory = memory, .maps = maps, .windows = addrs, .n_windows = n };

	return any_thread(tracee, &stacks, thread_is_in_window);
}

bool threads_may_use(const struct tracee *tracee, const struct memory *memory,
		     const struct maps *maps, uint64_t start, uint64_t end)
{
	struct stacks stacks = { .memory = memory, .maps = maps, .start = start, .end = end };

	return any_thread(tracee, &stacks, thread_may_use);
}
