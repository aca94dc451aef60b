// SPDX-License-Identifier: MIT
/*
 * stack_room_find() knows these C stacks:
 *
 *	the first thread	the mapping [stack], which the kernel grows on a write below it
 *	other threads		an anonymous mapping of a megabyte or more with a guard below it,
 *				which holds the thread's own data (fs) above the stack pointer, as
 *				with every C library. A coroutine's stack in the heap does not.
 *
 * The stacks of OCaml 5 fibers are small and in the heap. While a thread runs OCaml code on such a
 * stack, its C stack ends at Caml_state->c_stack: C functions are called there. Caml_state is in
 * r14; fiber_c_stack() checks its contents, in case r14 holds something else.
 */
#include "inside/stack_room.h"

#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	RED_ZONE = 512, /* the ABI says 128 */
	/*
	 * More than stack_guard_gap of mm/mmap.c (256 pages): the kernel lets no stack grow closer
	 * than that to the mapping below it.
	 */
	GAP_BYTES = 2 << 20,
	THREAD_STACK_BYTES = 1 << 20,
	THREAD_ROOM_BYTES = 64 * 1024,

	/* Words of Caml_state: domain_state.tbl of OCaml 5.0 to 5.3. */
	YOUNG_START = 2,
	YOUNG_END = 3,
	FIRST_CURRENT_STACK = 4, /* 5.0 */
	LAST_CURRENT_STACK = 5,
	C_STACK_AFTER = 3, /* words from current_stack to c_stack */
	CAML_STATE_WORDS = LAST_CURRENT_STACK + C_STACK_AFTER + 1,
	HANDLER = 2, /* word of struct stack_info: the upper end of the stack */
};

static bool is_guard(const struct mapping *m)
{
	return !m->readable && !m->writable && !m->executable;
}

static bool is_thread_stack(const struct maps *maps, const struct mapping *m, uint64_t sp,
			    uint64_t fs_base)
{
	return m->inode == 0 && m->path[0] != '/' && strcmp(m->path, "[heap]") != 0 &&
	       m->writable && m->end - m->start >= THREAD_STACK_BYTES && sp < fs_base &&
	       fs_base < m->end && m > maps->mappings && is_guard(m - 1) && m[-1].end == m->start &&
	       sp - m->start >= THREAD_ROOM_BYTES;
}

/*
 * Return true if the kernel can grow M, the first thread's stack, until it begins BYTES below SP.
 * The kernel applies the stack limit of the process that writes. We write first, the traced process
 * later: so both limits apply.
 */
static bool can_grow(pid_t pid, const struct maps *maps, const struct mapping *m, uint64_t sp,
		     uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = (sp - bytes) & ~(page - 1);
	struct rlimit ours, its;

	if (getrlimit(RLIMIT_STACK, &ours) != 0 || prlimit(pid, RLIMIT_STACK, NULL, &its) != 0)
		return false;
	if (m->end - start > ours.rlim_cur || m->end - start > its.rlim_cur)
		return false;
	return m == maps->mappings || start > m[-1].end + GAP_BYTES;
}

static uint64_t room_below(pid_t pid, const struct maps *maps, uint64_t sp, uint64_t fs_base)
{
	enum { BYTES = STACK_ROOM_BYTES + RED_ZONE };
	const struct mapping *m = maps_find(maps, sp);
	bool has_room;

	if (!m)
		return 0;
	has_room = sp - m->start >= BYTES;
	if (strcmp(m->path, "[stack]") == 0)
		has_room = has_room || can_grow(pid, maps, m, sp, BYTES);
	else
		has_room = has_room && is_thread_stack(maps, m, sp, fs_base);
	return has_room ? sp - RED_ZONE : 0;
}

static bool read_words(pid_t pid, uint64_t addr, uint64_t *words, size_t n)
{
	const struct iovec local = { words, n * sizeof(*words) },
			   remote = { (void *)(uintptr_t)addr, n * sizeof(*words) };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)remote.iov_len;
}

/*
 * Return Caml_state->c_stack if the thread runs OCaml 5 code on a fiber's stack; otherwise 0. The
 * checks rule out that r14 holds something else.
 */
static uint64_t fiber_c_stack(pid_t pid, const struct user_regs_struct *regs)
{
	uint64_t state[CAML_STATE_WORDS], stack[HANDLER + 1], of_link;

	if (!read_words(pid, regs->r14, state, CAML_STATE_WORDS) ||
	    regs->r15 < state[YOUNG_START] || regs->r15 > state[YOUNG_END])
		return 0;
	for (int i = FIRST_CURRENT_STACK; i <= LAST_CURRENT_STACK; i++) {
		const uint64_t c_stack = state[i + C_STACK_AFTER];

		if (regs->rsp > state[i] && read_words(pid, state[i], stack, HANDLER + 1) &&
		    regs->rsp < stack[HANDLER] && read_words(pid, c_stack, &of_link, 1) &&
		    of_link == state[i])
			return c_stack;
	}
	return 0;
}

uint64_t stack_room_find(pid_t pid, const struct maps *maps, const struct user_regs_struct *regs)
{
	uint64_t top = room_below(pid, maps, regs->rsp, regs->fs_base), c_stack;

	if (top)
		return top;
	c_stack = fiber_c_stack(pid, regs);
	return c_stack ? room_below(pid, maps, c_stack, regs->fs_base) : 0;
}
