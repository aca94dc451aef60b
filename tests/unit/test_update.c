// SPDX-License-Identifier: MIT
/*
 * Updates whose process or whose system calls change under their hands. The process is a child of
 * this test; the probes are in this executable, enough of them for two slices. At each step of an
 * update the test can act: the functions that an update calls are wrapped (tests.mk).
 *
 * A process with a seccomp filter is written to byte by byte, in slices. One without stores all by itself.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ocaml_probes.h"
#include "proc_self.h"
#include "process/gigatext.h"
#include "process/journal.h"
#include "tracee/patch.h"
#include "process/plan.h"
#include "inside/block.h"
#include "tracee/maps.h"
#include "tracee/tracee.h"

/* ---- the probes ----------------------------------------------------------------------------- */

/* FIRST_SLICE: update.c's number of writes, two a probe. */
enum { N = 1500, FIRST_SLICE = 1024, SPACING = 8 };
enum { ON = 0xe8, OFF = 0x3d, INT3 = 0xcc };

__asm__(".altmacro\n"
	".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.popsection\n"
	".macro update_probe n, semaphore\n"
	"update_site_\\n: nop\n .byte 0x3d\n .long update_handler - (update_site_\\n + 6)\n .nops 2\n"
	".pushsection .note.stapsdt, \"\", @note\n .balign 4\n"
	" .long 8, 2f - 1f, 3\n .asciz \"stapsdt\"\n"
	"1: .quad update_site_\\n, _.stapsdt.base, \\semaphore\n"
	" .asciz \"ocaml_1\", \"probe_\\n\", \"\"\n"
	"2: .balign 4\n.popsection\n"
	".endm\n"
	".macro update_counted n\n update_probe \\n, update_semaphores+4*\\n\n.endm\n"
	".pushsection .probes, \"aw\", @progbits\n.balign 4\n"
	"update_semaphores: .fill 1500, 4, 0\n.popsection\n"
	".pushsection .text\n"
	"update_handler: ret\n.balign 8\n"
	"update_sites:\n"
	".set update_i, 0\n"
	".rept 1500\n update_counted %update_i\n .set update_i, update_i + 1\n.endr\n"
	"ret\n.popsection\n"
	".noaltmacro\n");

extern const uint8_t update_sites[];
extern uint16_t update_semaphores[]; /* two halves a probe; the second one is OCaml's */

static uint64_t opcode_of(size_t probe)
{
	return (uint64_t)(uintptr_t)update_sites + probe * SPACING + 1;
}

static uint64_t counter_of(size_t probe)
{
	return (uint64_t)(uintptr_t)&update_semaphores[2 * probe + 1];
}

/* ---- what happens meanwhile ----------------------------------------------------------------- */

/* PLANNED: the plan is made, nothing else is done. */
enum moment {
	PLANNED,
	REFRESH_CODE,
	REFRESH_COUNTERS,
	STOP,
	APPLY,
	COMMIT,
	PROGRESS,
	CALLOC,
	SLEEP,
	N_MOMENTS
};

enum { EACH = 0 };

static struct test {
	struct ocp_ctx *ctx;
	struct ocp_process *proc;
	struct ocp_actions *actions;
	pid_t pid;
	int memory;
	char folder[64], log[1024];
	/* At call number `at` of this moment, from 1 on, this is done; what it returns fails the
	 * call. */
	int (*act[N_MOMENTS])(void);
	int at[N_MOMENTS], calls[N_MOMENTS];
	/* Of the plan: where the first and the last site is that it switches on. */
	uint64_t first, last;
	/* What PROGRESS was to say, of the last one BEGUN too; and whether any write of APPLY came
	 * late. */
	size_t done[8], begun;
	bool wrong_phase;
} t;

static int moment(enum moment m)
{
	t.calls[m]++;
	return t.act[m] && (t.at[m] == EACH || t.calls[m] == t.at[m]) ? t.act[m]() : 0;
}

static int failure(void)
{
	return ctx_error(t.ctx, -EIO, "made to fail");
}

/* From now on calls are counted anew, and ACT is done at call number CALL of M and nothing else. */
static void at(enum moment m, int call, int (*act)(void))
{
	memset(t.act, 0, sizeof(t.act));
	memset(t.calls, 0, sizeof(t.calls));
	t.wrong_phase = false;
	t.act[m] = act;
	t.at[m] = call;
}

static void from_now_on(void)
{
	at(PLANNED, EACH, NULL);
}

#define WRAP(moment_, name, parameters, arguments)                                                 \
	int __real_##name parameters;                                                              \
	int __wrap_##name parameters;                                                              \
	int __wrap_##name parameters                                                               \
	{                                                                                          \
		const int err = moment(moment_);                                                   \
                                                                                                   \
		return err ? err : __real_##name arguments;                                        \
	}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-*) the linker's names */
WRAP(REFRESH_CODE, snapshot_refresh_code,
     (struct ocp_ctx * ctx, const struct memory *memory, const struct live *live,
      const size_t *probes, size_t n, struct snapshot *snapshot, bool *changed),
     (ctx, memory, live, probes, n, snapshot, changed))
WRAP(REFRESH_COUNTERS, snapshot_refresh_semaphores,
     (struct ocp_ctx * ctx, const struct memory *memory, const struct live *live,
      const size_t *probes, size_t n, struct snapshot *snapshot, bool *changed),
     (ctx, memory, live, probes, n, snapshot, changed))
WRAP(STOP, tracee_run_stopped, (struct tracee * tracee, int (*work)(void *arg), void *arg),
     (tracee, work, arg))
WRAP(COMMIT, journal_commit, (struct journal * journal, size_t done, size_t begun),
     (journal, done, begun))

/* Those of the thread that stops the process are others. */
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (gettid() == getpid())
		moment(SLEEP);
	return __real_nanosleep(time, left);
}

int __real_gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan);
int __wrap_gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan);
int __wrap_gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan)
{
	int err = __real_gigatext_check(ctx, pid, plan);

	t.first = 0;
	for (size_t i = 0; i < plan->n_writes; i++)
		if (plan->writes[i].phase == PATCH_SITES_ON) {
			t.last = plan->writes[i].addr;
			t.first = t.first ? t.first : t.last;
		}
	return err ? err : moment(PLANNED);
}

int __real_patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n);
int __wrap_patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n);
int __wrap_patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n)
{
	int err = moment(APPLY);

	for (size_t i = 0; i < n; i++)
		if (writes[i].phase != (writes[i].bytes == 2  ? PATCH_SEMAPHORES
					: writes[i].new == ON ? PATCH_SITES_ON
							      : PATCH_SITES_OFF))
			t.wrong_phase = true;
	return err ? err : __real_patcher_apply(patcher, writes, n);
}

int __real_journal_progress(struct journal *journal, size_t done, size_t begun);
int __wrap_journal_progress(struct journal *journal, size_t done, size_t begun);
int __wrap_journal_progress(struct journal *journal, size_t done, size_t begun)
{
	int err = moment(PROGRESS);

	if (t.calls[PROGRESS] > 0 && t.calls[PROGRESS] <= 8)
		t.done[t.calls[PROGRESS] - 1] = done;
	t.begun = begun;
	return err ? err : __real_journal_progress(journal, done, begun);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
	return moment(CALLOC) ? NULL : __real_calloc(n, bytes);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-*) */

/* ---- the process ---------------------------------------------------------------------------- */

static void poke(uint64_t addr, uint16_t value, size_t bytes)
{
	assert_int_equal(pwrite(t.memory, &value, bytes, (off_t)addr), bytes);
}

static unsigned int peek(uint64_t addr, size_t bytes)
{
	uint16_t value = 0;

	assert_int_equal(pread(t.memory, &value, bytes, (off_t)addr), bytes);
	return value;
}

/* All but one probe, if EXCEPT is one, are on (counted once), or off. */
static void check_all(bool on, size_t except)
{
	static uint8_t code[N * SPACING];
	static uint16_t counters[2 * N];

	assert_int_equal(pread(t.memory, code, sizeof(code), (off_t)(uintptr_t)update_sites),
			 sizeof(code));
	assert_int_equal(
		pread(t.memory, counters, sizeof(counters), (off_t)(uintptr_t)update_semaphores),
		sizeof(counters));
	for (size_t i = 0; i < N; i++) {
		if (i == except)
			continue;
		if (code[i * SPACING + 1] != (on ? ON : OFF))
			fail_msg("probe %zu: opcode %x", i, code[i * SPACING + 1]);
		if (counters[2 * i + 1] != on)
			fail_msg("probe %zu: counter %d", i, counters[2 * i + 1]);
	}
}

static size_t probe_at(uint64_t opcode)
{
	return (opcode - opcode_of(0)) / SPACING;
}

static int count_journals(void)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/ocaml-probes", t.folder);
	return count_entries(path);
}

static void keep_log(void *data, enum ocp_log_level level, const char *text)
{
	const size_t n = strlen(t.log);

	(void)level;
	(void)data;
	snprintf(t.log + n, sizeof(t.log) - n, "%s\n", text);
}

enum child {
	FILTERED, /* by a filter that allows all */
	FREE,
	NO_WRITABLE_CODE, /* mprotect(2) refuses it */
};

/* Linux 6.3 */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE		 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static void restrict_child(enum child child)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	const struct sock_fprog program = { 1, &allow };

	if (child == FILTERED && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
				  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0))
		_exit(1);
	if (child == NO_WRITABLE_CODE && prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
		_exit(1);
}

static int start_child(enum child child)
{
	char path[64];
	int ready[2];

	assert_int_equal(pipe(ready), 0);
	t = (struct test){ .ctx = ocp_ctx_new(), .folder = "/tmp/test_update.XXXXXX" };
	assert_non_null(mkdtemp(t.folder));
	setenv("XDG_RUNTIME_DIR", t.folder, 1);
	ocp_ctx_set_log(t.ctx, keep_log, NULL, OCP_LOG_INFO);
	t.pid = fork();
	if (t.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		restrict_child(child);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], path, 1), 0);
	close(ready[0]);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t.pid);
	t.memory = open(path, O_RDWR | O_CLOEXEC);
	assert_true(t.memory >= 0);
	assert_int_equal(ocp_process_open(t.ctx, t.pid, &t.proc), 0);
	assert_int_equal(ocp_process_probe_count(t.proc), N);
	t.actions = ocp_actions_new(t.ctx);
	assert_int_equal(ocp_actions_enable_all(t.actions), 0);
	return 0;
}

static int start(void **state)
{
	(void)state;
	return start_child(FILTERED);
}

static int start_free(void **state)
{
	(void)state;
	return start_child(FREE);
}

static int start_without_writable_code(void **state)
{
	(void)state;
	return start_child(NO_WRITABLE_CODE);
}

static int end(void **state)
{
	char command[100];

	(void)state;
	ocp_actions_free(t.actions);
	ocp_process_free(t.proc);
	ocp_ctx_free(t.ctx);
	close(t.memory);
	kill(t.pid, SIGKILL);
	waitpid(t.pid, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", t.folder);
	return system(command); /* NOLINT(cert-env33-c): our own path */
}

static int update(unsigned int flags)
{
	return ocp_process_update(t.proc, t.actions, flags);
}

/* From now on all probes are to be enabled, or disabled. */
static void ask_for(bool enable)
{
	ocp_actions_free(t.actions);
	t.actions = ocp_actions_new(t.ctx);
	assert_int_equal(
		enable ? ocp_actions_enable_all(t.actions) : ocp_actions_disable_all(t.actions), 0);
}

/* All probes are on: switch them off, so that the next case can begin. */
static void switch_off(void)
{
	from_now_on();
	ask_for(false);
	assert_int_equal(update(0), 0);
	check_all(false, N);
	ask_for(true);
}

/* ---- the process changes -------------------------------------------------------------------- */

enum { HALF = 7 };

static int break_first(void)
{
	poke(t.first, INT3, 1);
	return 0;
}

static int break_last(void)
{
	poke(t.last, INT3, 1);
	return 0;
}

static int break_half_switched(void)
{
	poke(opcode_of(HALF), INT3, 1);
	return 0;
}

/* Somebody has put something into a site: it stays, and nothing is switched. */
static void code_that_changes_is_left_alone(void **state)
{
	static const struct {
		enum moment moment;
		int (*act)(void);
	} cases[] = {
		{ PLANNED, break_first }, /* a probe that is switched first */
		{ PLANNED, break_last },  /* one of a later slice */
		{ STOP, break_half_switched },
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		uint64_t broken;

		/* As when a tool was killed in the middle: others may switch the code alone. */
		if (i == 2)
			poke(opcode_of(HALF), ON, 1);
		at(cases[i].moment, EACH, cases[i].act);
		assert_int_equal(update(0), -EILSEQ);
		broken = i == 0 ? t.first : i == 1 ? t.last : opcode_of(HALF);
		assert_int_equal(peek(broken, 1), INT3);
		check_all(false, probe_at(broken));
		assert_int_equal(count_journals(), 0);
		poke(broken, OFF, 1);
	}
}

static int raise_counter(void)
{
	const uint64_t counter = counter_of(probe_at(t.first));

	poke(t.first, ON, 1);
	poke(counter, (uint16_t)(peek(counter, 2) + 5), 2);
	return 0;
}

/* Somebody else enables a probe: both are counted, and the journal says what was before the stop.
 */
static void counters_that_change_are_counted_on(void **state)
{
	static const enum moment moments[] = { PLANNED, STOP };

	(void)state;
	for (int i = 0; i < 2; i++) {
		at(moments[i], 1, raise_counter);
		assert_int_equal(update(0), 0);
		assert_int_equal(peek(counter_of(probe_at(t.first)), 2), 6);
		check_all(true, probe_at(t.first));
		/* Two slices, and a stop in vain where it came after the record. */
		assert_int_equal(t.calls[STOP], moments[i] == STOP ? 3 : 2);
		assert_int_equal(t.calls[COMMIT], moments[i] == STOP ? 2 : 1);
		assert_int_equal(count_journals(), 0);
		poke(counter_of(probe_at(t.first)), 1, 2);
		switch_off();
	}
}

/* Before each stop: the tenth time the update goes on all the same. */
static void counters_that_never_rest(void **state)
{
	(void)state;
	at(STOP, EACH, raise_counter);
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[STOP], 10 + 1);
	assert_int_equal(peek(counter_of(probe_at(t.first)), 2), 10 * 5 + 1 + 5);
	check_all(true, probe_at(t.first));
}

static void undisturbed_updates_write_one_journal(void **state)
{
	const int n_threads = count_threads();
	const int n_fds = count_entries("/proc/self/fd");

	(void)state;
	from_now_on();
	assert_int_equal(update(0), 0);
	check_all(true, N);
	assert_false(t.wrong_phase);
	assert_int_equal(t.calls[APPLY], 2);
	assert_int_equal(t.calls[COMMIT], 1);
	assert_int_equal(t.calls[PROGRESS], 1);
	assert_int_equal(t.done[0], FIRST_SLICE);
	assert_int_equal(t.begun, N);
	assert_int_equal(count_journals(), 0);
	/* The process runs between the stops; nothing of ours is left. */
	assert_int_equal(t.calls[SLEEP], 1);
	await_threads(n_threads);
	assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}

static void flags_say_when_it_stops(void **state)
{
	(void)state;
	from_now_on();
	assert_int_equal(update(OCP_DRY_RUN), 0);
	assert_int_equal(t.calls[PLANNED], 1);
	assert_int_equal(t.calls[STOP] + t.calls[APPLY], 0);
	check_all(false, N);
	assert_int_equal(update(OCP_ATOMICALLY), 0);
	assert_int_equal(t.calls[STOP], 1);
	check_all(true, N);
	switch_off();
	ask_for(false);
	from_now_on();
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[STOP] + t.calls[COMMIT], 0);
	ask_for(true);
	assert_int_equal(ocp_process_hold(t.proc), 0);
	assert_int_equal(update(0), 0);
	ocp_process_release(t.proc);
	assert_int_equal(t.calls[STOP], 0);
	check_all(true, N);
}

/* A single probe is switched or not: only a promise to undo it is written down. */
static void one_probe_needs_no_journal(void **state)
{
	struct ocp_undo *undo;

	(void)state;
	ocp_actions_free(t.actions);
	t.actions = ocp_actions_new(t.ctx);
	assert_int_equal(ocp_actions_enable(t.actions, "probe_7"), 0);
	from_now_on();
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[COMMIT], 0);
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	assert_int_equal(t.calls[COMMIT], 1);
	assert_int_equal(count_journals(), 1);
	assert_int_equal(peek(counter_of(7), 2), 2);
	assert_int_equal(ocp_undo_run(undo), 0);
	ocp_undo_free(undo);
	assert_int_equal(count_journals(), 0);
	assert_int_equal(peek(counter_of(7), 2), 1);
	check_all(false, 7);
}

static void a_process_switches_itself_without_stopping(void **state)
{
	struct ocp_process *self;

	(void)state;
	assert_int_equal(ocp_process_open(t.ctx, getpid(), &self), 0);
	assert_int_equal(ocp_process_update(self, t.actions, OCP_ATOMICALLY), -EINVAL);
	assert_non_null(strstr(ocp_error(t.ctx), "a process cannot stop itself"));
	from_now_on();
	assert_int_equal(ocp_process_update(self, t.actions, 0), 0);
	assert_int_equal(t.calls[STOP] + t.calls[COMMIT], 0);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(((const volatile uint8_t *)update_sites)[i * SPACING + 1], ON);
	ask_for(false);
	assert_int_equal(ocp_process_update(self, t.actions, 0), 0);
	ocp_process_free(self);
}

/* ---- undoing -------------------------------------------------------------------------------- */

static int check_order(void)
{
	/* The last slice is undone first. */
	assert_int_equal(peek(t.first, 1), ON);
	assert_int_equal(peek(t.last, 1), t.calls[APPLY] == 1 ? ON : OFF);
	return 0;
}

static void slices_are_undone_last_first(void **state)
{
	struct ocp_undo *undo;

	(void)state;
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	check_all(true, N);
	assert_int_equal(count_journals(), 1);
	at(APPLY, EACH, check_order);
	assert_int_equal(ocp_undo_run(undo), 0);
	assert_int_equal(t.calls[APPLY], 2);
	assert_false(t.wrong_phase);
	/* Nobody else has changed anything: what was written is taken back as it is. */
	assert_int_equal(t.calls[REFRESH_CODE] + t.calls[REFRESH_COUNTERS], 0);
	/* On record before it is done: nothing of the slice, nor of those after it, is sure any
	 * more. */
	assert_int_equal(t.calls[PROGRESS], 2);
	assert_int_equal(t.done[0], FIRST_SLICE);
	assert_int_equal(t.done[1], 0);
	assert_int_equal(t.begun, FIRST_SLICE);
	check_all(false, N);
	assert_int_equal(count_journals(), 0);
	ocp_undo_free(undo);
}

static void undoing_leaves_alone_what_others_did(void **state)
{
	struct ocp_undo *undo;
	uint64_t first_counter, last_counter;

	(void)state;
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	first_counter = counter_of(probe_at(t.first));
	last_counter = counter_of(N - 1);
	poke(first_counter, 0, 2);
	poke(t.first, OFF, 1);
	poke(last_counter, 2, 2);
	assert_int_equal(ocp_undo_run(undo), 0);
	ocp_undo_free(undo);
	assert_int_equal(peek(last_counter, 2), 1);
	assert_int_equal(peek(opcode_of(N - 1), 1), ON);
	check_all(false, N - 1);
	assert_int_equal(count_journals(), 0);
}

/* ---- something fails ------------------------------------------------------------------------ */

/* Each call in its turn. */
static void whatever_fails_nothing_is_switched(void **state)
{
	static const enum moment moments[] = { REFRESH_CODE, REFRESH_COUNTERS, STOP, APPLY };

	(void)state;
	for (int i = 0; i < 4; i++)
		for (int call = 1;; call++) {
			at(moments[i], call, failure);
			if (update(0) == 0) {
				assert_true(call > 2 && t.calls[moments[i]] == call - 1);
				check_all(true, N);
				switch_off();
				break;
			}
			assert_string_equal(ocp_error(t.ctx), "made to fail");
			check_all(false, N);
			assert_int_equal(count_journals(), 0);
			if (call > 20)
				fail_msg("moment %d fails for ever", moments[i]);
		}
}

static void without_memory_all_or_nothing_is_switched(void **state)
{
	(void)state;
	for (int call = 1;; call++) {
		int err, calls;

		at(CALLOC, call, failure);
		err = update(0);
		calls = t.calls[CALLOC];
		check_all(err == 0, N);
		assert_int_equal(count_journals(), 0);
		if (!err)
			switch_off();
		if (calls < call)
			break;
	}
}

static void updates_go_on_without_a_journal(void **state)
{
	static const enum moment moments[] = { COMMIT, PROGRESS };
	struct ocp_undo *undo;

	(void)state;
	for (int i = 0; i < 2; i++) {
		t.log[0] = '\0';
		at(moments[i], EACH, failure);
		assert_int_equal(update(0), 0);
		assert_int_equal(t.calls[moments[i]], 1);
		assert_non_null(strstr(t.log, "no undo journal: doctor cannot undo this"));
		assert_int_equal(count_journals(), 0);
		check_all(true, N);
		switch_off();
		/* Without a journal there is no promise. */
		at(moments[i], EACH, failure);
		assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), -EIO);
		assert_null(undo);
		check_all(false, N);
		assert_int_equal(count_journals(), 0);
	}
}

static int fail_from_the_second_on(void)
{
	return t.calls[APPLY] > 1 ? failure() : 0;
}

static void make_all_off(void)
{
	from_now_on();
	ask_for(false);
	assert_int_equal(update(OCP_FORCE), 0);
	ask_for(true);
	check_all(false, N);
}

/* What could not be undone stays on record, none of it sure to be done, and is told. */
static void what_cannot_be_undone_stays_on_record(void **state)
{
	struct ocp_undo *undo;

	(void)state;
	at(APPLY, EACH, fail_from_the_second_on);
	assert_int_equal(update(0), -EIO);
	assert_string_equal(ocp_error(t.ctx),
			    "made to fail; 1024 probes switched before could not be restored");
	assert_int_equal(t.done[t.calls[PROGRESS] - 1], 0);
	assert_int_equal(t.begun, FIRST_SLICE);
	assert_int_equal(count_journals(), 1);
	make_all_off();
	assert_int_equal(count_journals(), 1);
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	at(APPLY, EACH, failure);
	assert_int_equal(ocp_undo_run(undo), -EIO);
	assert_non_null(strstr(ocp_error(t.ctx), "1500 probes could not be switched back"));
	assert_int_equal(t.done[t.calls[PROGRESS] - 1], 0);
	assert_int_equal(t.begun, N);
	ocp_undo_free(undo);
	assert_int_equal(count_journals(), 2);
}

/* ---- stores by the process itself ----------------------------------------------------------- */

/* No code of the process can be written, and no memory of ours is mapped. */
static void check_memory(void)
{
	struct maps maps;

	assert_int_equal(maps_read(t.ctx, t.pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++) {
		assert_false(maps.mappings[i].writable && maps.mappings[i].executable);
		assert_null(strstr(maps.mappings[i].path, STORES_NAME));
	}
	maps_free(&maps);
}

static void many_probes_are_switched_in_one_stop(void **state)
{
	const int n_threads = count_threads();
	const int n_fds = count_entries("/proc/self/fd");
	char theirs[64];
	int n_theirs;

	(void)state;
	snprintf(theirs, sizeof(theirs), "/proc/%d/fd", (int)t.pid);
	n_theirs = count_entries(theirs);
	for (int round = 0; round < 20; round++) {
		ask_for(round % 2 == 0);
		from_now_on();
		assert_int_equal(update(0), 0);
		check_all(round % 2 == 0, N);
		assert_int_equal(t.calls[APPLY], 0);
		assert_int_equal(t.calls[STOP], 1);
		assert_int_equal(t.calls[COMMIT], 1);
		check_memory();
		assert_int_equal(count_journals(), 0);
	}
	await_threads(n_threads);
	assert_int_equal(count_entries("/proc/self/fd"), n_fds);
	assert_int_equal(count_entries(theirs), n_theirs);
}

static void many_probes_are_undone_in_one_stop(void **state)
{
	struct ocp_undo *undo;

	(void)state;
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	check_all(true, N);
	from_now_on();
	assert_int_equal(ocp_undo_run(undo), 0);
	assert_int_equal(t.calls[STOP], 1);
	assert_int_equal(t.calls[APPLY], 0);
	ocp_undo_free(undo);
	check_all(false, N);
	check_memory();
	assert_int_equal(count_journals(), 0);
}

/* A counter of another size, and an order of phases that the kernel's half of the semaphore survives. */
static void own_stores_write_two_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++) {
		poke(counter_of(i) - 2, 0xabcd, 2);
		poke(counter_of(i), 0x00ff, 2);
		poke(opcode_of(i), ON, 1);
	}
	/* The sites of half of the probes disagree. */
	for (size_t i = 0; i < N; i += 2)
		poke(opcode_of(i), OFF, 1);
	poke(counter_of(0), 0xfffe, 2);
	from_now_on();
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[APPLY], 0);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(peek(counter_of(i) - 2, 2), 0xabcd);
		assert_int_equal(peek(counter_of(i), 2), i ? 0x100 : 0xffff);
		assert_int_equal(peek(opcode_of(i), 1), ON);
		assert_int_equal(peek(opcode_of(i) - 1, 1), 0x90);
	}
	check_memory();
}

/* What cannot be stored is written byte by byte, in slices; nothing was written before. */
static void without_writable_code_it_is_written_byte_by_byte(void **state)
{
	(void)state;
	from_now_on();
	assert_int_equal(update(0), 0);
	check_all(true, N);
	assert_int_equal(t.calls[APPLY], 2);
	assert_int_equal(t.calls[STOP], 1 + 2);
	assert_int_equal(t.done[t.calls[PROGRESS] - 1], FIRST_SLICE);
	assert_non_null(strstr(t.log, "mprotect in the process: Permission denied; "
				      "writing byte by byte"));
	check_memory();
	switch_off();
	assert_int_equal(update(OCP_ATOMICALLY), 0);
	check_all(true, N);
	assert_int_equal(count_journals(), 0);
}

static void with_a_filter_it_is_written_byte_by_byte(void **state)
{
	(void)state;
	from_now_on();
	assert_int_equal(update(0), 0);
	check_all(true, N);
	assert_int_equal(t.calls[STOP], 2);
	assert_non_null(strstr(t.log, "it has a seccomp filter, which could kill it for a system "
				      "call of ours; writing byte by byte"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
#define TEST_FREE(name)                                                                            \
	{                                                                                          \
		"free_" #name, name, start_free, end, NULL                                         \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(code_that_changes_is_left_alone),
		TEST(counters_that_change_are_counted_on),
		TEST(counters_that_never_rest),
		TEST(undisturbed_updates_write_one_journal),
		TEST(flags_say_when_it_stops),
		TEST(one_probe_needs_no_journal),
		TEST(a_process_switches_itself_without_stopping),
		TEST(slices_are_undone_last_first),
		TEST(undoing_leaves_alone_what_others_did),
		TEST(whatever_fails_nothing_is_switched),
		TEST(without_memory_all_or_nothing_is_switched),
		TEST(updates_go_on_without_a_journal),
		TEST(what_cannot_be_undone_stays_on_record),
		TEST(with_a_filter_it_is_written_byte_by_byte),
		TEST_FREE(many_probes_are_switched_in_one_stop),
		TEST_FREE(many_probes_are_undone_in_one_stop),
		TEST_FREE(own_stores_write_two_bytes),
		TEST_FREE(code_that_changes_is_left_alone),
		TEST_FREE(flags_say_when_it_stops),
		TEST_FREE(undoing_leaves_alone_what_others_did),
		TEST_FREE(without_memory_all_or_nothing_is_switched),
		cmocka_unit_test_setup_teardown(without_writable_code_it_is_written_byte_by_byte,
						start_without_writable_code, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
