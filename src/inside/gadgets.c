// SPDX-License-Identifier: MIT
/*
 * Search the code of a process for the two gadgets. Every C library has both: signal handlers
 * return to the restorer, and `syscall; ret` ends its short system calls. The C library is searched
 * first, since it is never unmapped; then all other executable mappings of files, and the vdso. A
 * gadget may also be in the middle of other instructions.
 */
#include "inside/gadgets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "tracee/maps.h"

enum { CHUNK_BYTES = 1 << 17 };

static const uint8_t syscall_ret[] = { 0x0f, 0x05, 0xc3 };
static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

static bool read_code_bytes(pid_t pid, uint64_t addr, void *bytes, size_t n)
{
	const struct iovec local = { bytes, n }, remote = { (void *)(uintptr_t)addr, n };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

static void look_for(const uint8_t *what, size_t bytes, const uint8_t *in, size_t n, uint64_t addr,
		     uint64_t *found)
{
	const uint8_t *at = *found ? NULL : memmem(in, n, what, bytes);

	if (at)
		*found = addr + (uint64_t)(at - in);
}

static bool is_complete(const struct gadgets *gadgets)
{
	return gadgets->syscall_ret && gadgets->restorer;
}

/* Search the mapping M, in chunks that overlap by the size of the longer gadget. */
static void search(pid_t pid, const struct mapping *m, uint8_t *chunk, struct gadgets *gadgets)
{
	const uint64_t step = CHUNK_BYTES - sizeof(restorer);

	for (uint64_t addr = m->start; addr < m->end && !is_complete(gadgets); addr += step) {
		const size_t n =
			m->end - addr < CHUNK_BYTES ? (size_t)(m->end - addr) : CHUNK_BYTES;

		/* A page beyond the end of the file cannot be read. */
		if (!read_code_bytes(pid, addr, chunk, n))
			return;
		look_for(syscall_ret, sizeof(syscall_ret), chunk, n, addr, &gadgets->syscall_ret);
		look_for(restorer, sizeof(restorer), chunk, n, addr, &gadgets->restorer);
	}
}

static bool is_c_library(const struct mapping *m)
{
	const char *name = strrchr(m->path, '/');

	return name && (strncmp(name, "/libc.", 6) == 0 || strncmp(name, "/libc-", 6) == 0 ||
			strncmp(name, "/ld-musl-", 9) == 0);
}

static void search_all(pid_t pid, const struct maps *maps, bool c_library, uint8_t *chunk,
		       struct gadgets *gadgets)
{
	for (size_t i = 0; i < maps->n && !is_complete(gadgets); i++) {
		const struct mapping *m = &maps->mappings[i];
		const bool is_code = m->executable && m->readable && !m->writable;

		if (is_code && (m->inode || strcmp(m->path, "[vdso]") == 0) &&
		    is_c_library(m) == c_library)
			search(pid, m, chunk, gadgets);
	}
}

int gadgets_find(struct ocp_ctx *ctx, pid_t pid, struct gadgets *gadgets)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);
	struct maps maps;
	int err;

	*gadgets = (struct gadgets){ 0 };
	if (!chunk)
		return ctx_no_memory(ctx);
	err = maps_read(ctx, pid, &maps);
	if (!err) {
		search_all(pid, &maps, true, chunk, gadgets);
		search_all(pid, &maps, false, chunk, gadgets);
		maps_free(&maps);
	}
	free(chunk);
	if (!err && !is_complete(gadgets))
		err = ctx_error(ctx, -ENOTSUP,
				"pid %d: its code has no `%s`, which a call inside it needs",
				(int)pid, gadgets->restorer ? "syscall; ret" : "rt_sigreturn");
	return err;
}

bool gadgets_are_next(pid_t pid, pid_t tid)
{
	uint8_t next[sizeof(syscall_ret)], back[sizeof(restorer)];
	struct user_regs_struct regs;
	uint64_t to;

	return ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0 &&
	       read_code_bytes(pid, regs.rip, next, sizeof(next)) &&
	       memcmp(next, syscall_ret, sizeof(next)) == 0 &&
	       read_code_bytes(pid, regs.rsp, &to, sizeof(to)) &&
	       read_code_bytes(pid, to, back, sizeof(back)) &&
	       memcmp(back, restorer, sizeof(back)) == 0;
}

bool gadgets_are_there(pid_t pid, const struct gadgets *gadgets)
{
	uint8_t a[sizeof(syscall_ret)], b[sizeof(restorer)];

	return read_code_bytes(pid, gadgets->syscall_ret, a, sizeof(a)) &&
	       read_code_bytes(pid, gadgets->restorer, b, sizeof(b)) &&
	       memcmp(a, syscall_ret, sizeof(a)) == 0 && memcmp(b, restorer, sizeof(b)) == 0;
}
