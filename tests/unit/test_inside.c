// SPDX-License-Identifier: MIT
/*
 * Counting inside a process (src/change/inside): the oracle is the fixture's own books, and its
 * text before.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "change/inside/blocks.h"
#include "change/inside/inside.h"
#include "change/inside/remote.h"
#include "look/maps.h"
#include "look/memory.h"
#include "change/stop/tracee.h"
#include "counted_program.h"
#include "proc_self.h"
#include "swapped_file.h"
#include "unit.h"

enum { THREADS = COUNTED_THREADS };

static int try_attach(struct program *p, struct inside **inside)
{
	const struct iovec meta[] = { { "me", 2 }, { "ta", 3 } };
	const struct inside_spec spec = {
		.sites = p->sites, .n_sites = p->n, .meta = meta, .n_meta = 2, .meta_bytes = 5
	};

	return inside_attach(p->ctx, p->pid, &spec, inside);
}

static struct inside *attach(struct program *p)
{
	struct inside *inside;
	int err = try_attach(p, &inside);

	if (err)
		fail_msg("attach: %d: %s", err, ocp_error(p->ctx));
	return inside;
}

static void detach(struct program *p, struct inside *inside)
{
	if (inside_detach(inside) != 0)
		fail_msg("detach: %s", ocp_error(p->ctx));
}

static uint64_t sum_of(const struct program *p, const uint64_t *hits, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->names[i], name) == 0)
			sum += hits[i];
	return sum;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void count_exactly(const char *fixture)
{
	struct program p;
	struct inside *inside;
	struct inside_state state;
	uint64_t counted[MAX_SITES], hits, handler;

	counted_start(&p, fixture, "--wait");
	inside = attach(&p);
	assert_int_equal(inside_state(inside, &state), 0);
	assert_int_equal(state.n_patched, p.n);
	counted_go(&p, 20000);
	assert_int_equal(inside_read(inside, counted, NULL), 0);
	for (size_t i = 0; i < p.n; i++) {
		counted_books(&p, p.names[i], &hits, &handler);
		assert_int_equal(sum_of(&p, counted, p.names[i]), hits);
		assert_true(hits >= 20000UL * THREADS);
		/* Nobody enabled a handler but the compiler; it goes on running. */
		assert_int_equal(handler, strcmp(p.names[i], "started_on") == 0 ? hits : 0);
	}
	detach(&p, inside);
	counted_assert_original(&p);
	assert_true(counted_is_unmapped(&p));
	counted_go(&p, 10);
	assert_int_equal(inside_read(inside, counted, NULL), 0);
	counted_books(&p, "plain", &hits, &handler);
	assert_int_equal(sum_of(&p, counted, "plain"), hits - 10UL * THREADS);
	inside_close(inside);
	counted_end(&p);
}

TEST(counts_equal_the_books)
{
	count_exactly("v1");
	count_exactly("v1-nopie");
}

/*
 * The words of the block say whose handler runs, and how the sites are restored: also by a later
 * tool.
 */
TEST(private_gates_are_kept)
{
	for (int later = 0; later < 2; later++) {
		struct program p;
		struct inside *inside;
		uint64_t hits, handler;

		counted_start(&p, "v1", "--wait");
		for (size_t i = 0; i < p.n; i++)
			p.sites[i].semaphore = 0;
		inside = attach(&p);
		counted_go(&p, 100);
		counted_books(&p, "started_on", &hits, &handler);
		assert_true(handler && handler == hits);
		counted_books(&p, "plain", &hits, &handler);
		assert_true(hits && !handler);
		if (later) {
			inside_close(inside);
			assert_int_equal(inside_find(p.ctx, p.pid, &inside), 1);
		}
		detach(&p, inside);
		counted_assert_original(&p);
		inside_close(inside);
		counted_end(&p);
	}
}

TEST(a_later_tool_finds_it)
{
	struct program p;
	struct inside *inside, *again;
	uint64_t counted[MAX_SITES], hits, handler;
	size_t bytes;

	counted_start(&p, "v1", "--wait");
	assert_int_equal(inside_find(p.ctx, p.pid, &inside), 0);
	inside_close(attach(&p));
	counted_go(&p, 1000);
	assert_int_equal(inside_find(p.ctx, p.pid, &inside), 1);
	assert_string_equal(inside_meta(inside, &bytes), "meta");
	assert_int_equal(bytes, 5);
	assert_int_equal(inside_attach(p.ctx, p.pid,
				       &(struct inside_spec){ .sites = p.sites, .n_sites = p.n },
				       &again),
			 -EBUSY);
	assert_int_equal(inside_read(inside, counted, NULL), 0);
	counted_books(&p, "inlined", &hits, &handler);
	assert_int_equal(sum_of(&p, counted, "inlined"), hits);
	detach(&p, inside);
	counted_assert_original(&p);
	assert_true(counted_is_unmapped(&p));
	inside_close(inside);
	counted_end(&p);
}

static struct mapping stack_of(const struct program *p)
{
	struct mapping stack = { 0 };
	struct maps maps;

	assert_int_equal(maps_read(p->ctx, p->pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++)
		if (strcmp(maps.mappings[i].path, "[stack]") == 0)
			stack = maps.mappings[i];
	maps_free(&maps);
	assert_true(stack.end > stack.start);
	return stack;
}

static void write_at(const struct program *p, uint64_t addr, const void *bytes, size_t n)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)p->pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, (off_t)addr), n);
	close(fd);
}

/* Where the trampoline of the first site is, which counts. */
static uint64_t trampoline_of(const struct program *p)
{
	int32_t displacement;

	counted_read(p, p->sites[0].addr + 2, &displacement, sizeof(displacement));
	return p->sites[0].addr + 6 + (uint64_t)(int64_t)displacement;
}

/*
 * Blocks stay while a word of a stack points to them. Then a tool is killed that has written one
 * byte of a displacement: the same one for all blocks, as these begin at pages. The block of that
 * tool is found.
 */
TEST(the_newest_block_is_found)
{
	enum { BLOCKS = 3 };
	struct program p;
	uint64_t stack_end;

	counted_start(&p, "v1", "--wait");
	/* There is the name of the program, which it does not read. */
	stack_end = stack_of(&p).end;
	for (uint64_t i = 1; i <= BLOCKS; i++) {
		uint8_t cut[6];
		struct inside *inside = attach(&p);
		const uint64_t trampoline = trampoline_of(&p);

		counted_read(&p, p.sites[1].addr, cut, sizeof(cut));
		assert_int_not_equal(cut[2], p.text[1][2]);
		cut[1] = 0x3d;
		memcpy(cut + 3, p.text[1] + 3, 3);
		write_at(&p, p.sites[1].addr, cut, sizeof(cut));
		write_at(&p, stack_end - 8 * i, &trampoline, sizeof(trampoline));
		inside_close(inside);
		assert_int_equal(inside_find(p.ctx, p.pid, &inside), 1);
		detach(&p, inside);
		counted_assert_original(&p);
		assert_false(counted_is_unmapped(&p));
		inside_close(inside);
	}
	counted_end(&p);
}

/* Threads run without end through the sites meanwhile. */
TEST(attach_and_detach_under_load)
{
	const int cycles = getenv("WHOLE") ? 500 : 20;
	struct program p;

	counted_start(&p, "v1", NULL);
	for (int i = 0; i < cycles; i++) {
		struct inside *inside = attach(&p);

		detach(&p, inside);
		inside_close(inside);
		counted_assert_original(&p);
	}
	counted_end(&p);
}

TEST(a_foreign_switch_is_seen)
{
	struct program p;
	struct inside *inside;
	struct inside_state seen;
	char path[64];
	FILE *mem;

	counted_start(&p, "v1", "--wait");
	inside = attach(&p);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)p.pid);
	mem = fopen(path, "r+e");
	assert_non_null(mem);
	fseek(mem, (long)p.sites[0].addr + 1, SEEK_SET);
	fputc(0x3d, mem);
	fclose(mem);
	assert_int_equal(inside_state(inside, &seen), 0);
	assert_int_equal(seen.n_switched, 1);
	assert_int_equal(seen.n_patched, p.n - 1);
	detach(&p, inside);
	counted_assert_original(&p);
	inside_close(inside);
	counted_end(&p);
}

/* ---- kills ---------------------------------------------------------------------------------- */

/*
 * Attach, read and detach in a child that is killed at its system call number STOPS. True: it ended
 * first.
 */
static bool work_until_killed(struct program *p, long stops)
{
	int status = 0;
	pid_t tool = fork(), got;

	if (tool == 0) {
		struct inside *inside;
		uint64_t counted[MAX_SITES];

		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		inside = attach(p);
		inside_read(inside, counted, NULL);
		detach(p, inside);
		_exit(0);
	}
	assert_int_equal(waitpid(tool, &status, 0), tool);
	ptrace(PTRACE_SETOPTIONS, tool, NULL,
	       (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
	ptrace(PTRACE_SYSCALL, tool, NULL, NULL);
	while ((got = waitpid(-1, &status, __WALL)) > 0) {
		if (got == p->pid)
			fail_msg(
				"the program ended after %ld system calls of the tool: status 0x%x",
				stops, (unsigned int)status);
		if (got == tool && !WIFSTOPPED(status))
			break;
		if (!WIFSTOPPED(status))
			continue;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) && --stops == 0)
			kill(tool, SIGKILL);
		else
			ptrace(PTRACE_SYSCALL, got, NULL, NULL);
	}
	return WIFEXITED(status);
}

/*
 * The process may still be carrying out the munmap of the tool that was killed: then the block is
 * gone now.
 */
static void detach_unless_gone(struct program *p, struct inside *inside)
{
	struct inside *again;
	const int err = inside_detach(inside);

	if (!err)
		return;
	if (err != -ESRCH)
		fail_msg("detach: %s", ocp_error(p->ctx));
	assert_int_equal(inside_find(p->ctx, p->pid, &again), 0);
}

TEST(a_killed_tool_does_no_harm)
{
	const long step = getenv("WHOLE") ? 1 : 61;
	struct program p;
	struct inside *inside;
	long stops = 1, kills = 0;

	counted_start(&p, "v1", NULL);
	while (!work_until_killed(&p, stops)) {
		int found = inside_find(p.ctx, p.pid, &inside);

		if (found < 0)
			fail_msg("find: %s", ocp_error(p.ctx));
		if (found)
			detach_unless_gone(&p, inside);
		inside_close(inside);
		counted_assert_original(&p);
		kills++;
		stops += step;
	}
	counted_assert_original(&p);
	assert_true(kills > 5);
	print_message("%ld kills\n", kills);
	/* What was orphaned goes with the next attach. */
	for (int i = 0; i == 0 || (i < 50 && !counted_is_unmapped(&p)); i++) {
		/* A thread that waits for a CPU in a trampoline keeps the block of this detach. */
		inside = attach(&p);
		detach(&p, inside);
		inside_close(inside);
	}
	assert_true(counted_is_unmapped(&p));
	counted_end(&p);
}

/* ---- a call that is under way ---------------------------------------------------------------- */

static pid_t late_pid; /* the tool is killed before this process makes the munmap */

/* The process stops before its next instruction, as if it had to wait for a CPU. */
WRAP(int, tracee_step, (struct tracee * tracee, pid_t tid, enum thread_step to), (tracee, tid, to))
{
	struct user_regs_struct regs;

	if (late_pid && ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0 && regs.rax == SYS_munmap) {
		kill(late_pid, SIGSTOP);
		raise(SIGKILL);
	}
	return __real_tracee_step(tracee, tid, to);
}

TEST(a_munmap_that_comes_late_removes_nothing_else)
{
	struct program p;
	struct inside *inside;
	int status;
	pid_t tool;

	counted_start(&p, "v1", "--wait");
	tool = fork();
	if (tool == 0) {
		inside = attach(&p);
		late_pid = p.pid;
		detach(&p, inside);
		_exit(1);
	}
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(try_attach(&p, &inside), -EBUSY);
	kill(p.pid, SIGCONT);
	inside = attach(&p);
	assert_true(inside_is_in(inside, p.pid));
	detach(&p, inside);
	inside_close(inside);
	counted_assert_original(&p);
	counted_end(&p);
}

/*
 * From this read of the maps on they are empty, as those of a process whose main thread has ended.
 * After this one another tool has begun to count. 0: never.
 */
static int first_empty, first_counted, n_reads;
static struct program *counted_program;
static struct inside *counted_meanwhile;

WRAP(int, proc_memory_file_read,
     (struct ocp_ctx * ctx, pid_t pid, const char *name, char **text, size_t *n),
     (ctx, pid, name, text, n))
{
	int err = __real_proc_memory_file_read(ctx, pid, name, text, n);

	if (err || strcmp(name, "maps") != 0)
		return err;
	n_reads++;
	if (first_empty && n_reads >= first_empty)
		(*text)[0] = '\0';
	if (n_reads == first_counted) {
		first_counted = 0;
		counted_meanwhile = attach(counted_program);
	}
	return 0;
}

static int n_unmapped; /* calls of munmap in processes */

WRAP(int, remote_syscall,
     (struct remote * remote, long number, const uint64_t args[6], int64_t *result),
     (remote, number, args, result))
{
	n_unmapped += number == SYS_munmap;
	return swapped_file_call(__real_remote_syscall, remote, number, args, result);
}

/* A second time, somebody else's memory could lie there. */
TEST(the_block_is_unmapped_once)
{
	struct program p;
	struct inside *inside;

	counted_start(&p, "v1", "--wait");
	inside = attach(&p);
	n_unmapped = 0;
	detach(&p, inside);
	inside_close(inside);
	assert_int_equal(n_unmapped, 1);
	assert_true(counted_is_unmapped(&p));
	counted_end(&p);
}

/* The data and the code are mapped, one after the other. Then all is as before. */
TEST(another_file_in_place_of_the_block)
{
	static const struct {
		enum swap_moment moment;
		int call;
	} swaps[] = { { SWAP_AFTER_CREATE, 1 }, { SWAP_BEFORE_MAP, 1 }, { SWAP_BEFORE_MAP, 2 } };
	struct program p;
	struct inside *inside;
	char fds[64];
	int n_fds;

	swapped_file_make();
	counted_start(&p, "v1", "--wait");
	snprintf(fds, sizeof(fds), "/proc/%d/fd", (int)p.pid);
	n_fds = count_entries(fds);
	for (size_t i = 0; i < sizeof(swaps) / sizeof(swaps[0]); i++) {
		const struct inside_spec spec = { .sites = p.sites, .n_sites = p.n };

		swapped_file_at(swaps[i].moment, swaps[i].call);
		assert_int_equal(inside_attach(p.ctx, p.pid, &spec, &inside), -EBUSY);
		assert_non_null(strstr(ocp_error(p.ctx), "another process"));
		assert_int_equal(swapped_file_swaps(), 1);
		swapped_file_assert_untouched(p.pid);
		counted_assert_original(&p);
		assert_true(counted_is_unmapped(&p));
		assert_int_equal(count_entries(fds), n_fds);
	}
	swapped_file_at(SWAP_NEVER, 0);
	inside = attach(&p);
	detach(&p, inside);
	inside_close(inside);
	counted_assert_original(&p);
	counted_end(&p);
	swapped_file_remove();
}

TEST(a_process_that_ends_is_no_other_error)
{
	struct program p;
	struct inside *inside = NULL;
	int err;

	counted_start(&p, "v1", NULL);
	for (first_empty = 1; !inside; first_empty++) {
		const struct inside_spec spec = { .sites = p.sites, .n_sites = p.n };

		n_reads = 0;
		err = inside_attach(p.ctx, p.pid, &spec, &inside);
		if (err && err != -ESRCH)
			fail_msg("read %d: %d: %s", first_empty, err, ocp_error(p.ctx));
		if (err)
			counted_assert_original(&p);
	}
	assert_true(first_empty > 4);
	first_empty = 0;
	detach(&p, inside);
	inside_close(inside);
	counted_assert_original(&p);
	counted_end(&p);
}

/* Those before the first stop. */
TEST(another_tool_begins_meanwhile)
{
	enum { READS = 3 };
	struct program p;
	struct inside *inside;

	counted_start(&p, "v1", "--wait");
	counted_program = &p;
	for (int read = 1; read <= READS; read++) {
		const struct inside_spec spec = { .sites = p.sites, .n_sites = p.n };
		int err;

		n_reads = 0;
		first_counted = read;
		err = inside_attach(p.ctx, p.pid, &spec, &inside);
		if (err != -EBUSY)
			fail_msg("read %d: %d: %s", read, err, ocp_error(p.ctx));
		assert_int_equal(first_counted, 0);
		detach(&p, counted_meanwhile);
		inside_close(counted_meanwhile);
		counted_assert_original(&p);
	}
	counted_end(&p);
}

/* ---- a block that goes while it is looked for ------------------------------------------------ */

enum moment { NEVER, BEFORE_HEADER, AFTER_HEADER };

/* Another tool ends the counting at that moment, and may begin again. */
static struct {
	enum moment moment;
	bool begins_again;
	struct program *p;
	struct inside *inside;
} other;

static void other_tool(enum moment moment)
{
	if (other.moment != moment)
		return;
	other.moment = NEVER;
	detach(other.p, other.inside);
	inside_close(other.inside);
	other.inside = other.begins_again ? attach(other.p) : NULL;
}

WRAP(int, memory_read_in_order,
     (const struct memory *memory, const struct iovec *remote, size_t n, void *buf, size_t bytes),
     (memory, remote, n, buf, bytes))
{
	int err;

	other_tool(BEFORE_HEADER);
	err = __real_memory_read_in_order(memory, remote, n, buf, bytes);
	other_tool(AFTER_HEADER);
	return err;
}

/* What is found then: nothing, or what counts at the end. */
static void find_meanwhile(struct program *p, enum moment moment, bool begins_again)
{
	struct inside_state state;
	struct inside *found;
	int err;

	other.p = p;
	other.inside = attach(p);
	other.begins_again = begins_again;
	other.moment = moment;
	err = inside_find(p->ctx, p->pid, &found);
	assert_int_equal(other.moment, NEVER);
	if (err < 0)
		fail_msg("moment %d: %d: %s", (int)moment, err, ocp_error(p->ctx));
	assert_int_equal(err, found != NULL);
	assert_true(begins_again || !found);
	assert_true(found || !begins_again || moment == BEFORE_HEADER);
	if (found) {
		assert_int_equal(inside_state(found, &state), 0);
		assert_int_equal(state.n_patched, p->n);
		inside_close(found);
	}
	if (other.inside)
		detach(p, other.inside);
	inside_close(other.inside);
	counted_assert_original(p);
}

TEST(a_block_goes_while_it_is_looked_for)
{
	struct program p;

	counted_start(&p, "v1", "--wait");
	for (int again = 0; again < 2; again++) {
		find_meanwhile(&p, BEFORE_HEADER, again);
		find_meanwhile(&p, AFTER_HEADER, again);
	}
	counted_end(&p);
}
