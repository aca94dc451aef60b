// SPDX-License-Identifier: MIT
/*
 * walk_stopped PID: stacks of the threads of PID, which somebody else has stopped. Each line of the
 * standard input has the registers of one, in hexadecimal: rbx, rbp, r12, r13, r14, r15, rsp and
 * rip. For each it prints a line: why the stack ends (enum walk_end; 0: it is whole), and the
 * addresses of its frames, the innermost first: the instruction that runs, and return addresses.
 *
 * The tables are those of the walker, and so are the steps, bpf/walk_frame.bpf.h.
 */
#include <err.h>
#include <inttypes.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "elf/elf_file.h"
#include "process/mapped_files.h"
#include "look/maps.h"
#include "unwind/unwind_table.h"
#include "unwind/stack_walker.h"

enum { MAX_FILES = 64 };

/* A mapping of code. */
struct code {
	uint64_t start, end, bias;
	struct unwind_table *table;
};

static struct {
	pid_t pid;
	struct ocp_ctx *ctx;
	struct code codes[MAX_FILES];
	size_t n;
} target;

/* As the helper of the kernel does. */
static long bpf_probe_read_user(void *to, __u32 bytes, const void *from)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };

	return process_vm_readv(target.pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -1;
}

#undef __always_inline
#define __always_inline inline
#include "walk_frame.bpf.h"

/* ---- code ----------------------------------------------------------------------------------- */

static void read_code(const struct mapping *m, struct code *code)
{
	const int fd = m->inode ? maps_open_file(target.pid, m) : vdso_open(m);
	struct elf_file *elf;

	*code = (struct code){ .start = m->start, .end = m->end };
	if (fd < 0)
		err(1, "%s", m->path);
	if (elf_file_open(target.ctx, fd, m->path, &elf) != 0 ||
	    unwind_table_read(target.ctx, elf, &code->table) != 0)
		errx(1, "%s: %s", m->path, ocp_error(target.ctx));
	if (!mapped_files_bias(elf, m, &code->bias))
		errx(1, "%s: its code is in no segment", m->path);
	elf_file_close(elf);
	close(fd);
}

/* The code at ADDRESS; NULL: it is of no file. */
static const struct code *find_code(uint64_t address)
{
	const struct mapping *m;
	struct maps maps;

	for (size_t i = 0; i < target.n; i++)
		if (address - target.codes[i].start < target.codes[i].end - target.codes[i].start)
			return &target.codes[i];
	if (target.n == MAX_FILES || maps_read(target.ctx, target.pid, &maps) != 0)
		return NULL;
	m = maps_find(&maps, address);
	m = m && m->executable && *m->path ? m : NULL;
	if (m)
		read_code(m, &target.codes[target.n++]);
	maps_free(&maps);
	return m ? &target.codes[target.n - 1] : NULL;
}

/* The rule at ADDRESS; NULL: there is none. */
static const struct walk_rule *find_rule(uint64_t address)
{
	const struct code *code = find_code(address);

	return code ? &code->table->rules[unwind_table_find(code->table, address - code->bias)]
		    : NULL;
}

/* ---- stacks --------------------------------------------------------------------------------- */

static enum walk_end walk(struct walk_scratch *w, uint64_t *frames, size_t *n)
{
	const struct walk_rule *rule;
	enum walk_end end;

	for (*n = 0; *n < WALK_MAX_DEPTH;) {
		frames[(*n)++] = w->regs[WALK_RIP];
		rule = find_rule(w->regs[WALK_RIP] - w->is_caller);
		if (!rule)
			return WALK_NO_RULE;
		if (rule->flags & WALK_OUTERMOST)
			return WALK_COMPLETE;
		end = leave_frame_by(w, rule);
		if (end != WALK_COMPLETE)
			return end;
	}
	return WALK_TOO_DEEP;
}

static int read_registers(struct walk_scratch *w)
{
	memset(w, 0, sizeof(*w));
	for (size_t i = 0; i < WALK_REGISTERS; i++) {
		uint64_t value;

		if (scanf("%" SCNx64, &value) != 1)
			return 0;
		w->regs[i] = value;
	}
	return 1;
}

int main(int argc, char **argv)
{
	static struct walk_scratch scratch;
	static uint64_t frames[WALK_MAX_DEPTH];
	size_t n;

	if (argc != 2)
		errx(1, "usage: walk_stopped PID");
	target.pid = (pid_t)atoi(argv[1]);
	target.ctx = ocp_ctx_new();
	while (read_registers(&scratch)) {
		printf("%d", (int)walk(&scratch, frames, &n));
		for (size_t i = 0; i < n; i++)
			printf(" %" PRIx64, frames[i]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
