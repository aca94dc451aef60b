// SPDX-License-Identifier: MIT
#include "updated_process.h"
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

#include "proc_self.h"
#include "change/switch/journal.h"
#include "change/switch/plan.h"
#include "change/stop/patch.h"
#include "process/site_form.h"
#include "change/stop/tracee.h"

/* ---- the probes ----------------------------------------------------------------------------- */

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
	".globl update_sites\n.hidden update_sites\n"
	"update_sites:\n"
	".set update_i, 0\n"
	".rept 1500\n update_counted %update_i\n .set update_i, update_i + 1\n.endr\n"
	"ret\n.popsection\n"
	".noaltmacro\n");

uint64_t opcode_of(size_t probe)
{
	return (uint64_t)(uintptr_t)update_sites + probe * SPACING + 1;
}

uint64_t counter_of(size_t probe)
{
	return (uint64_t)(uintptr_t)&update_semaphores[2 * probe + 1];
}

/* ---- what happens meanwhile ----------------------------------------------------------------- */

struct test t;

static int moment(enum moment m)
{
	t.calls[m]++;
	return t.act[m] && (t.at[m] == EACH || t.calls[m] == t.at[m]) ? t.act[m]() : 0;
}

int failure(void)
{
	return ctx_error(t.ctx, -EIO, "made to fail");
}

void at(enum moment m, int call, int (*act)(void))
{
	memset(t.act, 0, sizeof(t.act));
	memset(t.calls, 0, sizeof(t.calls));
	t.wrong_phase = false;
	t.act[m] = act;
	t.at[m] = call;
}

void from_now_on(void)
{
	at(PLANNED, EACH, NULL);
}

#define MOMENT(moment_, name, parameters, arguments)                                               \
	WRAP_LATER(int, name, parameters, arguments)                                               \
	{                                                                                          \
		const int err = moment(moment_);                                                   \
                                                                                                   \
		return err ? err : __real_##name arguments;                                        \
	}

MOMENT(REFRESH_CODE, snapshot_refresh_code,
       (struct ocp_ctx * ctx, const struct memory *memory, const size_t *probes, size_t n,
	struct snapshot *snapshot, bool *changed),
       (ctx, memory, probes, n, snapshot, changed))
MOMENT(REFRESH_COUNTERS, snapshot_refresh_semaphores,
       (struct ocp_ctx * ctx, const struct memory *memory, const size_t *probes, size_t n,
	struct snapshot *snapshot, bool *changed),
       (ctx, memory, probes, n, snapshot, changed))
MOMENT(TRAMPOLINES, trampolines_read,
       (struct ocp_ctx * ctx, const struct memory *memory, struct trampolines *found),
       (ctx, memory, found))
MOMENT(STOP, tracee_run_stopped, (struct tracee * tracee, int (*work)(void *arg), void *arg),
       (tracee, work, arg))
MOMENT(COMMIT, journal_commit, (struct journal * journal, size_t done, size_t begun),
       (journal, done, begun))

/* Those of the thread that stops the process are others. */
WRAP_LATER(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
{
	if (gettid() == getpid())
		moment(SLEEP);
	return __real_nanosleep(time, left);
}

WRAP_LATER(int, gigatext_check, (struct ocp_ctx * ctx, pid_t pid, const struct plan *plan),
	   (ctx, pid, plan))
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

WRAP_LATER(int, patcher_apply,
	   (struct patcher * patcher, const struct patch_write *writes, size_t n),
	   (patcher, writes, n))
{
	int err = moment(APPLY);

	for (size_t i = 0; i < n; i++)
		if (writes[i].phase != (writes[i].bytes == 2  ? PATCH_SEMAPHORES
					: writes[i].new == ON ? PATCH_SITES_ON
							      : PATCH_SITES_OFF))
			t.wrong_phase = true;
	return err ? err : __real_patcher_apply(patcher, writes, n);
}

WRAP_LATER(int, journal_progress, (struct journal * journal, size_t done, size_t begun),
	   (journal, done, begun))
{
	int err = moment(PROGRESS);

	if (t.calls[PROGRESS] > 0 && t.calls[PROGRESS] <= 8)
		t.done[t.calls[PROGRESS] - 1] = done;
	t.begun = begun;
	return err ? err : __real_journal_progress(journal, done, begun);
}

WRAP_LATER(void *, calloc, (size_t n, size_t bytes), (n, bytes))
{
	return moment(CALLOC) ? NULL : __real_calloc(n, bytes);
}

static void begin_moments(void)
{
	wrap_now(snapshot_refresh_code);
	wrap_now(snapshot_refresh_semaphores);
	wrap_now(trampolines_read);
	wrap_now(tracee_run_stopped);
	wrap_now(journal_commit);
	wrap_now(nanosleep);
	wrap_now(gigatext_check);
	wrap_now(patcher_apply);
	wrap_now(journal_progress);
	wrap_now(calloc);
}

/* ---- the process ---------------------------------------------------------------------------- */

void poke(uint64_t addr, uint16_t value, size_t bytes)
{
	assert_int_equal(pwrite(t.memory, &value, bytes, (off_t)addr), bytes);
}

unsigned int peek(uint64_t addr, size_t bytes)
{
	uint16_t value = 0;

	assert_int_equal(pread(t.memory, &value, bytes, (off_t)addr), bytes);
	return value;
}

void check_all(bool on, size_t except)
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

size_t probe_at(uint64_t opcode)
{
	return (opcode - opcode_of(0)) / SPACING;
}

int count_journals(void)
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

int start_child(enum child child)
{
	char path[64];
	int ready[2];

	begin_moments();
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

int end_update(void **state)
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

int update(unsigned int flags)
{
	return ocp_process_update(t.proc, t.actions, flags);
}

void ask_for(bool enable)
{
	ocp_actions_free(t.actions);
	t.actions = ocp_actions_new(t.ctx);
	assert_int_equal(
		enable ? ocp_actions_enable_all(t.actions) : ocp_actions_disable_all(t.actions), 0);
}

void switch_off(void)
{
	from_now_on();
	ask_for(false);
	assert_int_equal(update(0), 0);
	check_all(false, N);
	ask_for(true);
}
