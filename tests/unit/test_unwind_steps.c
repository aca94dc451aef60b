// SPDX-License-Identifier: MIT
/*
 * Unwind tables, against stacks of our own: a program is stepped, instruction by instruction, and
 * shadow_stack.c keeps its calls. The stack that the tables give must be the same after each
 * step. The steps from a frame to its caller are those of bpf/walk_frame.bpf.h.
 *
 * Usage: test_unwind_steps [PROGRAM]. PROGRAM is static: one file, no load bias.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code/functions.h"
#include "elf/elf_file.h"
#include "shadow_stack.h"
#include "unit.h"
#include "unwind/unwind_table.h"

enum { MAX_CODE = 16, BELOW = 128, PIECE_BYTES = 1 << 12, PIECES = 8, MAX_THREADS = 8 };

struct thread {
	pid_t tid; /* 0: it has ended */
	struct user_regs_struct regs;
	struct shadow_thread shadow;
};

struct stepped {
	pid_t pid;
	struct elf_file *elf;
	struct unwind_table *table;
	struct functions *functions;
	struct shadow shadow;
	struct thread threads[MAX_THREADS];
	size_t n_threads;
	size_t n_steps, n_stacks, n_truncated, by_end[WALK_ENDS];
	struct walk_scratch walk;
	/* A copy of the code. */
	uint8_t *code;
	uint64_t code_va, code_bytes;
};

/* ---- memory --------------------------------------------------------------------------------- */

/* Copies of pieces of the stacks, as they are after the step. */
static struct {
	pid_t pid;
	size_t n, next;
	struct {
		uint64_t at, bytes;
		uint8_t memory[PIECE_BYTES];
	} pieces[PIECES];
} copies;

static uint64_t read_memory(pid_t pid, uint64_t at, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)at, bytes };
	const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (uint64_t)n;
}

static bool copy_from_pieces(void *to, uint64_t bytes, uint64_t from)
{
	for (size_t i = 0; i < copies.n; i++) {
		const uint64_t off = from - copies.pieces[i].at;

		if (off < copies.pieces[i].bytes && copies.pieces[i].bytes - off >= bytes) {
			memcpy(to, copies.pieces[i].memory + off, bytes);
			return true;
		}
	}
	return false;
}

/* As the helper of the kernel does. */
static long bpf_probe_read_user(void *to, __u32 bytes, const void *from)
{
	const uint64_t at = (uint64_t)from;
	const size_t i = copies.next;

	if (copy_from_pieces(to, bytes, at))
		return 0;
	copies.next = (i + 1) % PIECES;
	if (copies.n <= i)
		copies.n = i + 1;
	copies.pieces[i].at = at - BELOW;
	copies.pieces[i].bytes =
		read_memory(copies.pid, at - BELOW, copies.pieces[i].memory, PIECE_BYTES);
	if (copy_from_pieces(to, bytes, at))
		return 0;
	return read_memory(copies.pid, at, to, bytes) == bytes ? 0 : -EFAULT;
}

static uint64_t read_word(pid_t pid, uint64_t at)
{
	uint64_t word;

	assert_int_equal(read_memory(pid, at, &word, sizeof(word)), sizeof(word));
	return word;
}

/* ---- the walk by rules ---------------------------------------------------------------------- */

#undef __always_inline
#define __always_inline inline
#include "walk_frame.bpf.h"

static void begin_walk(struct walk_scratch *w, const struct user_regs_struct *r)
{
	const uint64_t regs[WALK_REGISTERS] = { r->rbx, r->rbp, r->r12, r->r13,
						r->r14, r->r15, r->rsp, r->rip };

	memcpy(w->regs, regs, sizeof(regs));
	w->is_caller = 0;
	w->lost = 0;
	w->calls_back = 0;
	w->roots = 0;
	w->parent = 0;
}

static void fail_at(const struct stepped *s, const struct thread *t, size_t i, uint64_t at)
{
	const struct function *function = functions_at(s->functions, at);

	fail_msg("step %zu at 0x%llx: frame %zu, in %s+0x%llx, leads to 0x%llx, not 0x%llx",
		 s->n_steps, (unsigned long long)t->regs.rip, i, function ? function->symbol : "?",
		 (unsigned long long)(function ? at - function->va : at),
		 (unsigned long long)s->walk.regs[WALK_RIP],
		 (unsigned long long)t->shadow.calls[t->shadow.n - 1 - i].address);
}

/*
 * Compare the stack that the rules give with ours. Returns an enum walk_end: why the first one is
 * shorter.
 */
static uint32_t compare_stacks(struct stepped *s, const struct thread *t)
{
	struct walk_scratch *w = &s->walk;
	uint32_t end;

	begin_walk(w, &t->regs);
	for (size_t i = 0; i < t->shadow.n; i++) {
		const uint64_t at = w->regs[WALK_RIP] - w->is_caller;
		const struct walk_rule *rule = &s->table->rules[unwind_table_find(s->table, at)];

		if (rule->flags & WALK_OUTERMOST)
			fail_at(s, t, i, at);
		end = leave_frame_by(w, rule);
		if (end != WALK_COMPLETE)
			return end;
		if (w->regs[WALK_RIP] != t->shadow.calls[t->shadow.n - 1 - i].address)
			fail_at(s, t, i, at);
	}
	return WALK_COMPLETE;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* What the instruction at RIP does, by its opcode behind the prefixes. */
static enum transfer transfer_of(const struct stepped *s, uint64_t rip)
{
	uint8_t bytes[MAX_CODE];
	const uint8_t *code = s->code + (rip - s->code_va);
	size_t i = 0;

	if (rip - s->code_va >= s->code_bytes) { /* of the vDSO */
		assert_int_equal(read_memory(s->pid, rip, bytes, sizeof(bytes)), sizeof(bytes));
		code = bytes;
	}
	while (i < 4 && (code[i] == 0x66 || code[i] == 0xf2 || code[i] == 0xf3 || code[i] == 0x3e))
		i++;
	if ((code[i] & 0xf0) == 0x40)
		i++;
	if (code[i] == 0xe8 || (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2))
		return CALL;
	return code[i] == 0xc3 || code[i] == 0xc2 ? RETURN : NO_TRANSFER;
}

/* The thread whose id is TID; a new one if there is none. */
static struct thread *find_thread(struct stepped *s, pid_t tid)
{
	struct thread *t = s->threads;

	while (t < s->threads + s->n_threads && t->tid != tid)
		t++;
	if (t < s->threads + s->n_threads)
		return t;
	assert_true(s->n_threads < MAX_THREADS);
	s->n_threads++;
	memset(t, 0, sizeof(*t));
	t->tid = tid;
	return t;
}

/*
 * Stacks may end where an exception has left the stack, where a callback begins that hides the
 * parent of its fibre, and in the code of the C compiler that has no call frame information.
 */
static bool may_end_at(const struct stepped *s, uint64_t at)
{
	static const char *const names[] = { "caml_raise_exn", "caml_raise_exception",
					     "caml_runstack",  "__do_global_dtors_aux",
					     "frame_dummy",    "_init",
					     "_fini" };
	const struct function *function = functions_at(s->functions, at);

	for (size_t i = 0; function && i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(function->symbol, names[i]) == 0)
			return true;
	return false;
}

static void compare(struct stepped *s, const struct thread *t)
{
	uint32_t end;

	copies.pid = s->pid;
	copies.n = copies.next = 0;
	end = compare_stacks(s, t);
	if (end != WALK_COMPLETE && s->walk.is_caller && !may_end_at(s, s->walk.regs[WALK_RIP] - 1))
		fail_at(s, t, 0, s->walk.regs[WALK_RIP] - 1);
	s->n_stacks++;
	s->n_truncated += end != WALK_COMPLETE;
	s->by_end[end]++;
}

/* T has stopped after an instruction, or it is new and has not run yet. */
static void stopped(struct stepped *s, struct thread *t)
{
	const struct user_regs_struct before = t->regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, t->tid, NULL, &t->regs), 0);
	if (before.rip) {
		s->n_steps++;
		shadow_step(&s->shadow, &t->shadow, &before, &t->regs, transfer_of(s, before.rip));
		compare(s, t);
	}
}

/* Step all threads until the program ends. */
static void step_all(struct stepped *s)
{
	int status;
	pid_t tid;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL), 0);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		struct thread *t = find_thread(s, tid);

		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			t->tid = 0;
			continue;
		}
		assert_true(WIFSTOPPED(status));
		if (status >> 8 != (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
			assert_true(WSTOPSIG(status) == SIGTRAP || !t->regs.rip);
			stopped(s, t);
		}
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL), 0);
	}
}

/* ---- the program ---------------------------------------------------------------------------- */

static struct shadow_range range_of(const struct stepped *s, const char *name)
{
	const struct function *function = functions_find_c(s->functions, name);

	if (!function)
		return (struct shadow_range){ 0 };
	return (struct shadow_range){ function->va, function->va + function->bytes };
}

static void find_code(struct stepped *s)
{
	s->shadow.read_word = read_word;
	s->shadow.pid = s->pid;
	s->shadow.perform = range_of(s, "caml_perform");
	if (!s->shadow.perform.low) /* OCaml 4 */
		return;
	s->shadow.reperform = range_of(s, "caml_reperform");
	s->shadow.runstack = range_of(s, "caml_runstack");
	s->shadow.start_program = range_of(s, "caml_start_program");
	s->shadow.realloc = range_of(s, "caml_try_realloc_stack");
	assert_true(s->shadow.reperform.low && s->shadow.runstack.low &&
		    s->shadow.start_program.low && s->shadow.realloc.low);
}

static void copy_code(struct stepped *s)
{
	size_t n;
	const struct elf_segment *segments = elf_file_segments(s->elf, &n);

	while (n && !segments->executable) {
		segments++;
		n--;
	}
	assert_true(n > 0);
	s->code_va = segments->va;
	s->code = malloc(segments->file_bytes + MAX_CODE);
	assert_non_null(s->code);
	s->code_bytes = read_memory(s->pid, s->code_va, s->code, segments->file_bytes);
	assert_int_equal(s->code_bytes, segments->file_bytes);
}

/* Let the program run up to `main`. */
static void run_to_main(struct stepped *s)
{
	const uint64_t va = range_of(s, "main").low;
	const long code = ptrace(PTRACE_PEEKTEXT, s->pid, (void *)va, NULL);
	struct thread *t = find_thread(s, s->pid);
	int status;

	assert_true(va != 0);
	ptrace(PTRACE_POKETEXT, s->pid, (void *)va, (void *)((code & ~0xffL) | 0xcc));
	ptrace(PTRACE_CONT, s->pid, NULL, NULL);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	ptrace(PTRACE_POKETEXT, s->pid, (void *)va, (void *)code);
	assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, NULL, &t->regs), 0);
	t->regs.rip = va;
	assert_int_equal(ptrace(PTRACE_SETREGS, s->pid, NULL, &t->regs), 0);
}

/* Both processes on one CPU: a step then needs no other one to wake. */
static void stay_on_one_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

static void start(struct stepped *s, const char *program)
{
	char *const argv[] = { (char *)program, NULL };
	int status;

	stay_on_one_cpu();
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(program, argv);
		_exit(127);
	}
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, s->pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE);
}

static void report(const struct stepped *s)
{
	const struct shadow *h = &s->shadow;

	print_message("%zu steps, %zu stacks, %zu truncated (no rule %zu, unreadable %zu)\n",
		      s->n_steps, s->n_stacks, s->n_truncated, s->by_end[WALK_NO_RULE],
		      s->by_end[WALK_UNREADABLE]);
	assert_true(s->n_stacks > 50000);
	/* Only in the few instructions that raise an exception, and their calls. */
	assert_true(s->n_truncated * 200 < s->n_stacks);
	if (!h->perform.low)
		return;
	print_message("%zu threads, %zu switches, performed %zu, appended %zu, resumed %zu, grown "
		      "%zu\n",
		      s->n_threads, h->n_switches, h->n_performed, h->n_appended, h->n_resumed,
		      h->n_grown);
	assert_true(h->n_performed > 10 && h->n_appended && h->n_resumed > 10 && h->n_grown &&
		    s->n_threads > 1);
}

/* The parent in a block of this header and these words, to which a local root points. */
static uint64_t parent_in(uint64_t header, uint64_t stack, uint64_t last)
{
	const uint64_t block[] = { header, stack, last }, root = (uint64_t)&block[1];

	copies.pid = getpid();
	copies.n = copies.next = 0;
	return load_parent(NULL, (uint64_t)&root);
}

/* Continuations of OCaml 5.1 have one field, those of later versions two. */
TEST(parents_in_continuations)
{
	enum { ONE = 1 << SIZE_SHIFT, TWO = 2 << SIZE_SHIFT, THREE = 3 << SIZE_SHIFT };
	uint64_t moved[] = { ONE | CONT_TAG, 0x7001 };

	assert_int_equal(parent_in(ONE | CONT_TAG, 0x5001, 12345), 0x5000);
	assert_int_equal(parent_in(TWO | CONT_TAG, 0x5001, 1), 0x5000);
	assert_int_equal(parent_in(TWO | CONT_TAG, 0x5001, 3), 0);
	assert_int_equal(parent_in(THREE | CONT_TAG, 0x5001, 1), 0);
	assert_int_equal(parent_in(ONE | 244, 0x5001, 1), 0);
	assert_int_equal(parent_in(ONE | CONT_TAG, 0x5000, 1), 0);
	assert_int_equal(parent_in(ONE | CONT_TAG, NULL_STACK, 1), 0);
	/* The collector has moved the block. */
	assert_int_equal(parent_in(0, (uint64_t)&moved[1], 1), 0x7000);
	assert_int_equal(parent_in(0, 8, 1), 0);
}

TEST(test_steps)
{
	const char *program = getenv("STEPPED") ? getenv("STEPPED") : "build/tests/ocaml/stepped";
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct stepped *s = calloc(1, sizeof(*s));
	const int fd = open(program, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && s && ctx);
	assert_int_equal(elf_file_open(ctx, fd, program, &s->elf), 0);
	assert_int_equal(functions_read(ctx, s->elf, &s->functions), 0);
	assert_int_equal(unwind_table_read(ctx, s->elf, &s->table), 0);
	assert_true(s->table->n_corrected > 0);
	start(s, program);
	find_code(s);
	copy_code(s);
	run_to_main(s);
	step_all(s);
	report(s);
	shadow_free(&s->shadow);
	unwind_table_free(s->table);
	functions_free(s->functions);
	elf_file_close(s->elf);
	close(fd);
	free(s->code);
	free(s);
	ocp_ctx_free(ctx);
}
