// SPDX-License-Identifier: MIT
/*
 * Unwind tables, against a stack of our own: a program is stepped, instruction by instruction. Each call
 * pushes its return address onto our stack, each return takes it off, and so does whatever else moves
 * the stack pointer above it, as exceptions do. The stack that the table gives must be the same.
 *
 * The walk here follows the rules as bpf/walk.bpf.h does, in user space.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "unit.h"
#include "unwind/unwind_table.h"

enum { MAX_FRAMES = 4096, MAX_CODE = 16, BELOW = 256, STACK_BYTES = 1 << 12 };

/* A program that is stepped. It is static and not position-independent: one file, no load bias. */
struct stepped {
	pid_t pid;
	struct elf_file *elf;
	struct unwind_table *table;
	struct functions *functions;
	struct user_regs_struct regs;
	/* Our stack: return addresses, and where they are. */
	struct {
		uint64_t slot, address;
	} calls[MAX_FRAMES];
	size_t n;
	size_t n_steps, n_stacks, n_truncated;
	/* Copies of memory: of the code, and of the stack of this step. */
	uint8_t *code;
	uint64_t code_va, code_bytes;
	uint8_t stack[STACK_BYTES];
	uint64_t stack_bytes;
};

static uint64_t read_memory(const struct stepped *s, uint64_t at, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)at, bytes };
	const ssize_t n = process_vm_readv(s->pid, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (uint64_t)n;
}

/* The program has no deep recursion, so that most of the stack is within STACK_BYTES. */
static uint64_t read_word(const struct stepped *s, uint64_t at)
{
	const uint64_t off = at - (s->regs.rsp - BELOW);
	uint64_t word = 0;

	if (off < s->stack_bytes && s->stack_bytes - off >= sizeof(word))
		memcpy(&word, s->stack + off, sizeof(word));
	else
		assert_int_equal(read_memory(s, at, &word, sizeof(word)), sizeof(word));
	return word;
}

/* ---- the walk by rules ---------------------------------------------------------------------- */

static uint64_t find_cfa(const struct stepped *s, const struct walk_rule *rule,
			 const uint64_t regs[WALK_REGISTERS])
{
	uint64_t at = regs[rule->reg] + (uint64_t)(int64_t)rule->add[0];

	if (rule->cfa == WALK_CFA_LOAD || rule->cfa == WALK_CFA_LOAD_2)
		at = read_word(s, at) + (uint64_t)(int64_t)rule->add[1];
	if (rule->cfa == WALK_CFA_LOAD_2)
		at = read_word(s, at) + (uint64_t)(int64_t)rule->add[2];
	if (rule->cfa == WALK_CFA_PLT && (regs[WALK_RIP] & 15) >= (uint64_t)rule->add[1])
		at += 8;
	return at;
}

static void leave(const struct stepped *s, const struct walk_rule *rule,
		  uint64_t regs[WALK_REGISTERS])
{
	const uint64_t cfa = find_cfa(s, rule, regs);
	const uint64_t bases[] = { 0, cfa, regs[WALK_RSP], regs[WALK_RBP] };
	const uint64_t rip = read_word(s, bases[rule->rip_at] + (uint64_t)(int64_t)rule->rip_off);

	for (int i = 0; i < WALK_SAVED; i++)
		if (rule->at[i] != WALK_SAME && rule->at[i] != WALK_NOWHERE)
			regs[i] =
				read_word(s, bases[rule->at[i]] + (uint64_t)(int64_t)rule->off[i]);
	regs[WALK_RSP] = cfa;
	regs[WALK_RIP] = rip;
}

/* Compare the stack that the rules give with ours. False: it is truncated before its end. */
static bool compare_stacks(const struct stepped *s)
{
	const struct user_regs_struct *r = &s->regs;
	uint64_t regs[WALK_REGISTERS] = { r->rbx, r->rbp, r->r12, r->r13,
					  r->r14, r->r15, r->rsp, r->rip };
	const struct function *function;

	for (size_t i = 0; i < s->n; i++) {
		const uint64_t at = regs[WALK_RIP] - (i > 0);
		const struct walk_rule *rule = &s->table->rules[unwind_table_find(s->table, at)];

		if (rule->cfa == WALK_CFA_UNKNOWN)
			return false;
		leave(s, rule, regs);
		if (regs[WALK_RIP] == s->calls[s->n - 1 - i].address)
			continue;
		function = functions_at(s->functions, at);
		fail_msg("step %zu at 0x%llx: frame %zu, in %s+0x%llx, leads to 0x%llx, not 0x%llx",
			 s->n_steps, (unsigned long long)r->rip, i,
			 function ? function->symbol : "?",
			 (unsigned long long)(function ? at - function->va : at),
			 (unsigned long long)regs[WALK_RIP],
			 (unsigned long long)s->calls[s->n - 1 - i].address);
	}
	return true;
}

/* ---- steps ---------------------------------------------------------------------------------- */

enum transfer { NO_TRANSFER, CALL, RETURN };

/* What the instruction at rip does, by its opcode behind the prefixes. */
static enum transfer transfer_of(const struct stepped *s)
{
	uint8_t copy[MAX_CODE];
	const uint8_t *code = s->code + (s->regs.rip - s->code_va);
	size_t i = 0;

	if (s->regs.rip - s->code_va >= s->code_bytes) { /* of the vDSO */
		assert_int_equal(read_memory(s, s->regs.rip, copy, sizeof(copy)), sizeof(copy));
		code = copy;
	}
	while (i < 4 && (code[i] == 0x66 || code[i] == 0xf2 || code[i] == 0xf3 || code[i] == 0x3e))
		i++;
	if ((code[i] & 0xf0) == 0x40)
		i++;
	if (code[i] == 0xe8 || (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2))
		return CALL;
	return code[i] == 0xc3 || code[i] == 0xc2 ? RETURN : NO_TRANSFER;
}

/* Make one step. False: the program has ended. */
static bool step(struct stepped *s)
{
	const enum transfer transfer = transfer_of(s);
	const uint64_t rsp = s->regs.rsp;
	int status;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL), 0);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return false;
	}
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs), 0);
	s->stack_bytes = read_memory(s, s->regs.rsp - BELOW, s->stack, sizeof(s->stack));
	s->n_steps++;
	if (transfer == RETURN && s->n && s->calls[s->n - 1].slot == rsp)
		s->n--;
	/*
	 * What is below the stack pointer is gone, but for a return address that was popped: caml_c_call
	 * keeps it, and then pushes it again.
	 */
	while (s->n && s->calls[s->n - 1].slot + 8 < s->regs.rsp)
		s->n--;
	if (transfer == CALL && s->regs.rsp == rsp - 8) {
		while (s->n && s->calls[s->n - 1].slot <= s->regs.rsp)
			s->n--;
		assert_true(s->n < MAX_FRAMES);
		s->calls[s->n].slot = s->regs.rsp;
		s->calls[s->n++].address = read_word(s, s->regs.rsp);
	}
	return true;
}

static uint64_t address_of(const struct stepped *s, const char *name)
{
	const struct function *function = functions_find_c(s->functions, name);

	assert_non_null(function);
	return function->va;
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
	s->code_bytes = read_memory(s, s->code_va, s->code, segments->file_bytes);
	assert_int_equal(s->code_bytes, segments->file_bytes);
}

/* Let the program run up to `main`. */
static void run_to_main(struct stepped *s)
{
	const uint64_t va = address_of(s, "main");
	const long code = ptrace(PTRACE_PEEKTEXT, s->pid, (void *)va, NULL);
	int status;

	ptrace(PTRACE_POKETEXT, s->pid, (void *)va, (void *)((code & ~0xffL) | 0xcc));
	ptrace(PTRACE_CONT, s->pid, NULL, NULL);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	ptrace(PTRACE_POKETEXT, s->pid, (void *)va, (void *)code);
	assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs), 0);
	s->regs.rip = va;
	assert_int_equal(ptrace(PTRACE_SETREGS, s->pid, NULL, &s->regs), 0);
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
	ptrace(PTRACE_SETOPTIONS, s->pid, NULL, PTRACE_O_EXITKILL);
}

static void test_steps(void **state)
{
	const char *program = *state;
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct stepped *s = calloc(1, sizeof(*s));
	const int fd = open(program, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && s && ctx);
	assert_int_equal(elf_file_open(ctx, fd, program, &s->elf), 0);
	assert_int_equal(functions_read(ctx, s->elf, &s->functions), 0);
	assert_int_equal(unwind_table_read(ctx, s->elf, &s->table), 0);
	assert_true(s->table->n_corrected > 0);
	start(s, program);
	copy_code(s);
	run_to_main(s);
	do {
		s->n_stacks++;
		s->n_truncated += !compare_stacks(s);
	} while (step(s));
	print_message("%zu steps, %zu stacks, %zu truncated\n", s->n_steps, s->n_stacks,
		      s->n_truncated);
	assert_true(s->n_stacks > 50000);
	/* Only in the few instructions that raise an exception, and their calls. */
	assert_true(s->n_truncated * 20 < s->n_stacks);
	unwind_table_free(s->table);
	functions_free(s->functions);
	elf_file_close(s->elf);
	close(fd);
	free(s->code);
	free(s);
	ocp_ctx_free(ctx);
}

int main(int argc, char **argv)
{
	static char program[] = "build/tests/ocaml/stepped";
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(test_steps, argc > 1 ? argv[1] : program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
