// SPDX-License-Identifier: MIT
/*
 * Stopping a process for a moment, and letting it run on.
 *
 * Each thread is traced separately. PTRACE_SEIZE makes it a tracee without stopping it, and
 * PTRACE_INTERRUPT asks it to stop. waitpid(2) then reports one of these cases:
 *
 *	1. PTRACE_EVENT_STOP, SIGTRAP	our interrupt
 *	2. PTRACE_EVENT_STOP, other	a group stop: the process was stopped (SIGSTOP, ^Z) already;
 *					it stays stopped after the detach
 *	3. no event, a signal		a signal was about to be delivered: the thread is stopped,
 *					and the detach passes the signal on
 *	4. exited or killed		one thread less
 *
 * New threads are found by reading /proc/PID/task again until a pass finds nothing new: a stopped
 * thread starts none.
 *
 * If the tracer dies at any point, the kernel detaches its tracees, which then continue
 * (ptrace(2)).
 *
 * ptrace ties a tracee to the one thread that seized it, and only a stopped tracee can be detached.
 * So each struct tracee starts a tracing thread, which makes all ptrace calls for it. When the
 * tracing thread ends, the kernel detaches every tracee, even one that could not be stopped.
 *
 * A thread in execve(2) waits until all other threads have ended and their tracer has taken their
 * status. PTRACE_SEIZE of the thread in execve(2) waits for the end of the exec: so the tracing
 * thread would wait for itself. Therefore the caller's thread takes the status of ended threads
 * while a SEIZE lasts long. After the exec, the thread that called execve(2) has the pid as its
 * tid.
 *
 * PTRACE_SEIZE fails with EPERM if the thread has another tracer, or is about to end. Another
 * instance of this tool holds a process for milliseconds only, so stop_all() tries again for a
 * while. Several instances may take turns: there is a limit for the turn of each tracer, and a
 * limit for all turns together. If this process did not run for a while, the other tracer perhaps
 * did not run either (a paused virtual machine): such a while adds LOOK_MS at most to the turn.
 *
 * On a busy machine a time limit alone proves nothing: the thread that has to stop, or the other
 * tracer, may not have had a CPU yet. While a thread waits for a CPU (state R), the longer limit
 * BUSY_TIMEOUT_MS applies.
 *
 * The comments below name the tests that cover a branch: tests of test_tracee (tests/unit), or of
 * the file whose name precedes the test (states.sh and eintr.sh, in tests/e2e).
 */
#include "change/stop/tracee.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "look/proc_file.h"
#include "change/stop/spawn.h"

enum {
	STOP_TIMEOUT_MS = 3000,	  /* limit of the time until all threads are stopped */
	BUSY_TIMEOUT_MS = 20000,  /* limit for a thread that waits for a CPU */
	TRACED_TIMEOUT_MS = 1000, /* limit of the time that one other tracer may take */
	TURNS_TIMEOUT_MS = 10000, /* limit of the time for all other tracers, one after another */
	LOOK_MS = 50,		  /* the time between two looks at a tracer that counts, at most */
	LOOK_CLOSER = 32,	  /* after this many polls, also read the state of the thread */
	SPINS = 16,		  /* polls before the first sleep: a stop takes microseconds */
	SLEEP_US = 20,
	MOST_SLEEP_US = 10000, /* longest sleep between two attempts to seize the threads */
	TIMER_SLACK_NS = 1000,
	LONG_SEIZE_MS = 20, /* a SEIZE that lasts longer may wait for an exec that waits for us */
	SYSCALL_STOP = SIGTRAP | 0x80,
};

struct thread {
	pid_t tid;
	int signal;   /* the signal at which it is stopped, passed on at the detach; 0: none */
	bool stopped; /* false: the thread was interrupted, but has not been seen to stop */
};

/* What the tracing thread can be requested to do. */
enum request {
	REQUEST_STOP,
	REQUEST_RUN_STOPPED,
	REQUEST_SPAWN,
	REQUEST_DETACH,
	REQUEST_KILL,
	REQUEST_END,
};

/* A thread that PTRACE_SEIZE refused, and the errno. */
struct refusal {
	pid_t tid;
	int err;
};

struct tracee {
	struct ocp_ctx *ctx;
	pid_t pid;
	bool dies_with_us; /* the process was seized with PTRACE_O_EXITKILL */
	bool is_child; /* the process is our child: its exit status is left to the caller's wait */
	struct thread *threads;
	size_t n;
	struct refusal refused; /* the latest refusal of PTRACE_SEIZE */

	/* The program to start; `path` is NULL if the process existed before. */
	const char *path;
	char *const *argv;

	/* The tracing thread, and what it shares with the caller's thread. */
	pthread_t tracer;
	bool is_running;
	sigset_t caller_mask; /* the signal mask of the caller's thread */
	enum request request;
	/* what to do while the process is stopped, for REQUEST_RUN_STOPPED */
	int (*work)(void *arg);
	void *work_arg;
	sem_t asked, done;
	int outcome;
	pthread_mutex_t busy; /* locked while the tracing thread works, except during a SEIZE */
};

/* ---- statuses ------------------------------------------------------------------------------- */

/*
 * The parent of a process gets the exit status only after the tracer has taken it, so the tracing
 * thread takes it. An exception is a child of this process: its exit status belongs to the program
 * that uses the library (test_tracee: status_of_a_child_is_kept).
 *
 * waitid(2) reports the stops of a tracee whether or not WSTOPPED is given. So si_code decides
 * whether the tracee has ended.
 */

/*
 * Return 1 if TID has ended, 0 if not, or -1 with errno. Does not take the status of TID, so that
 * another call still can.
 */
static int peek_ended(pid_t tid)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
		return -1;
	return info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED;
}

/*
 * Do the same as waitpid(2) with WNOHANG. With KEEP_EXIT, do not take the exit status of TID, a
 * child of this process: *STATUS is then 0, and the caller's own wait still finds the exit status.
 */
static pid_t wait_status(pid_t tid, bool keep_exit, int *status)
{
	siginfo_t info = { 0 };
	int ended;

	*status = 0;
	if (!keep_exit)
		return waitpid(tid, status, __WALL | WNOHANG);
	if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL) != 0)
		return -1;
	if (info.si_pid) {
		*status = info.si_status << 8 | 0x7f; /* a stop, encoded as waitpid(2) does */
		return tid;
	}
	ended = peek_ended(tid);
	return ended > 0 ? tid : ended;
}

/*
 * Take the status of the tracee TID if TID has ended. Do not take a stop: wait_status() must still
 * report it.
 */
static void wait_reap_ended(pid_t tid)
{
	siginfo_t info;

	if (peek_ended(tid) == 1)
		waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL);
}

/* ---- stopping ------------------------------------------------------------------------------- */

static void sleep_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static struct thread *find_thread(struct tracee *tracee, pid_t tid)
{
	for (size_t i = 0; i < tracee->n; i++)
		if (tracee->threads[i].tid == tid)
			return &tracee->threads[i];
	return NULL;
}

static int add_thread(struct tracee *tracee, pid_t tid)
{
	struct thread *new = array_add(tracee->threads, tracee->n);

	if (!new)
		return ctx_no_memory(tracee->ctx);
	*new = (struct thread){ .tid = tid };
	return 0;
}

static void remove_thread(struct tracee *tracee, struct thread *thread)
{
	*thread = tracee->threads[--tracee->n];
}

static bool thread_has_ended(struct tracee *tracee, pid_t tid)
{
	struct proc_status status;

	int err = proc_status_read(tracee->ctx, tid, &status);

	/* If the state cannot be read, the thread may still run. */
	return err == -ESRCH || (!err && (status.state == 'Z' || status.state == 'X'));
}

/*
 * Handle the case that the thread that was just seized cannot be interrupted. Either it has ended,
 * which the wait will show, or it has made an exec: it is now the only thread, and its tid is the
 * pid. Test: exec_while_threads_are_seized.
 */
static void interrupt_renamed(struct tracee *tracee)
{
	struct thread *leader = find_thread(tracee, tracee->pid);
	unsigned long message;

	if (leader && leader->stopped &&
	    ptrace(PTRACE_GETEVENTMSG, tracee->pid, NULL, &message) == 0)
		return; /* there was no exec: the main thread is still the one from before */
	if (ptrace(PTRACE_INTERRUPT, tracee->pid, NULL, NULL) != 0)
		return;
	if (leader)
		*leader = (struct thread){ .tid = tracee->pid };
	else
		tracee->threads[tracee->n - 1].tid = tracee->pid;
}

/*
 * Seize the thread TID and interrupt it. Returns 1 if this was done, 0 if the thread has ended,
 * -EAGAIN if it has another tracer at the moment or is about to end.
 */
static int seize(struct tracee *tracee, pid_t tid)
{
	int err;

	/*
	 * Make room in the list first: a seized thread that is not in the list could not be
	 * detached.
	 */
	err = add_thread(tracee, tid);
	if (err)
		return err;
	pthread_mutex_unlock(&tracee->busy);
	err = ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0 ? 0 : errno;
	pthread_mutex_lock(&tracee->busy);
	if (!err) {
		if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
			interrupt_renamed(tracee);
		return 1;
	}
	tracee->n--;
	/* Test: states.sh: test_dying. */
	if (thread_has_ended(tracee, tid))
		return 0;
	tracee->refused = (struct refusal){ tid, err };
	/*
	 * EPERM: this process has the privilege, because it could open the memory of the process
	 * before. So the thread has another tracer or is about to end (another_tracer_is_named).
	 * ESRCH although the thread exists: during an exec, its id was not in use for a moment
	 * (eintr.sh: test_a_thread_that_seems_to_have_ended).
	 */
	if (err == EPERM || err == ESRCH)
		return -EAGAIN;
	return proc_why_no_access(tracee->ctx, tracee->pid, err);
}

/* Record STATUS, which waitpid(2) has reported. Return true if the thread has ended. */
static bool note_status(struct thread *thread, int status)
{
	/* Case 4. Tests: killed_while_held; states.sh: test_dying. */
	if (!WIFSTOPPED(status))
		return true;
	/*
	 * Cases 1 and 2. The kernel remembers the group stop of case 2, so a detach is all that
	 * either case needs. Tests: all_threads_stop_and_run_again, stopped_process_stays_stopped.
	 */
	thread->stopped = true;
	/*
	 * Case 3. Our interrupt is still pending; the kernel drops it at the detach. The kernel
	 * also keeps the siginfo of the signal, because the detach passes on the same signal
	 * number. Tests: signals_are_delivered_once, stop_signals_keep_their_meaning.
	 */
	if (status >> 16 == 0)
		thread->signal = WSTOPSIG(status);
	return false;
}

/*
 * Return true if it is time to give up waiting for TID, after WAITED_MS. The limit is TIMEOUT_MS,
 * or BUSY_TIMEOUT_MS while TID waits for a CPU. Test: a_short_trace_is_waited_for.
 */
static bool is_too_late(struct tracee *tracee, pid_t tid, int64_t waited_ms, int timeout_ms)
{
	struct proc_status status;

	if (waited_ms <= timeout_ms)
		return false;
	return waited_ms > BUSY_TIMEOUT_MS || proc_status_read(tracee->ctx, tid, &status) != 0 ||
	       status.state != 'R';
}

static int does_not_stop(struct tracee *tracee, pid_t tid, int64_t start_ms)
{
	struct proc_status status;

	proc_status_read(tracee->ctx, tid, &status);
	return ctx_error(tracee->ctx, -ETIMEDOUT,
			 "pid %d (%s): thread %d does not stop (state %c) after %d ms",
			 (int)tracee->pid, status.name, (int)tid, status.state,
			 (int)(clock_ms() - start_ms));
}

/*
 * Do the same as waitpid(2) with WNOHANG, but keep the exit status of a child of this process.
 * Test: status_of_a_child_is_kept.
 */
static pid_t take_status(const struct tracee *tracee, pid_t tid, int *status)
{
	return wait_status(tid, tracee->is_child && tid == tracee->pid, status);
}

enum poll_result { POLL_STOPPED, POLL_GONE, POLL_WAIT, POLL_LOST };

/*
 * Poll one thread. If PATIENT, also read the state of the thread, which costs more than waitpid(2).
 */
static enum poll_result poll_thread(struct tracee *tracee, struct thread *thread, bool patient)
{
	int status;
	pid_t got;

	if (thread->stopped)
		return POLL_STOPPED;
	got = take_status(tracee, thread->tid, &status);
	if (got == thread->tid)
		return note_status(thread, status) ? POLL_GONE : POLL_STOPPED;
	if (got < 0 && errno != EINTR) {
		int err = errno;

		/* reap_ended() has taken the status before. states.sh: test_in_exec. */
		if (thread_has_ended(tracee, thread->tid))
			return POLL_GONE;
		/*
		 * waitpid(2) has failed although the thread exists: it is unknown whether the
		 * thread is stopped.
		 */
		errno = err;
		return POLL_LOST;
	}
	/*
	 * The kernel reports the end of the main thread only when all other threads have ended. So
	 * also read the state of the thread. Test: states.sh: test_the_first_thread_has_ended.
	 */
	return patient && thread_has_ended(tracee, thread->tid) ? POLL_GONE : POLL_WAIT;
}

/* Wait until every thread of the list is stopped or gone. */
static int wait_all(struct tracee *tracee, int64_t start_ms)
{
	size_t i = 0, polls = 0;
	pid_t tid;

	while (i < tracee->n) {
		bool patient = polls % LOOK_CLOSER == LOOK_CLOSER - 1;

		switch (poll_thread(tracee, &tracee->threads[i], patient)) {
		case POLL_STOPPED:
			i++;
			break;
		case POLL_GONE:
			remove_thread(tracee, &tracee->threads[i]);
			break;
		case POLL_LOST:
			return ctx_error(tracee->ctx, -errno,
					 "pid %d: cannot wait for thread %d to stop: %s",
					 (int)tracee->pid, (int)tracee->threads[i].tid,
					 strerror(errno));
		case POLL_WAIT:
			/* Tests: thread_that_does_not_stop; states.sh: test_vfork. */
			tid = tracee->threads[i].tid;
			if (is_too_late(tracee, tid, clock_ms() - start_ms, STOP_TIMEOUT_MS))
				return does_not_stop(tracee, tid, start_ms);
			/* No sched_yield(2): on a busy machine it takes whole time slices. */
			if (++polls > SPINS)
				sleep_us(SLEEP_US);
			break;
		}
	}
	return 0;
}

/*
 * Seize the threads in /proc/PID/task that are not seized yet. Returns their number, or a negative
 * errno.
 * Tests: threads_being_born_do_not_escape; states.sh: test_64_threads_and_newborn_ones.
 */
static int seize_new(struct tracee *tracee)
{
	struct dirent *entry;
	char path[64];
	int found = 0, err;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)tracee->pid);
	dir = opendir(path);
	if (!dir)
		return proc_why_no_access(tracee->ctx, tracee->pid, errno);
	/*
	 * Do not take an error of readdir(3) for the end of the list: the threads missing from the
	 * list would run while code is changed.
	 */
	while ((errno = 0, entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		int got;

		if (tid <= 0 || find_thread(tracee, tid))
			continue;
		got = seize(tracee, tid);
		if (got < 0) {
			found = got;
			break;
		}
		found += got;
	}
	err = errno;
	closedir(dir);
	if (!entry && err)
		return err == ENOENT || err == ESRCH
			       ? proc_why_no_access(tracee->ctx, tracee->pid, err)
			       : ctx_error(tracee->ctx, -err, "%s: %s", path, strerror(err));
	return found;
}

static void detach_thread(const struct tracee *tracee, struct thread *thread)
{
	int status;

	/* The thread may have stopped after the wait was given up. */
	if (!thread->stopped && take_status(tracee, thread->tid, &status) == thread->tid &&
	    note_status(thread, status))
		return;
	if (ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)(uintptr_t)thread->signal) != 0)
		/*
		 * The thread was killed while it was stopped: take its status. Test:
		 * killed_while_held.
		 */
		take_status(tracee, thread->tid, &status);
}

static void detach_all(struct tracee *tracee)
{
	for (size_t i = 0; i < tracee->n; i++)
		detach_thread(tracee, &tracee->threads[i]);
	tracee->n = 0;
}

/* Return the pid of the process's other tracer; 0 if it is no longer traced. */
static pid_t other_tracer(struct tracee *tracee)
{
	struct proc_status status;

	return proc_status_read(tracee->ctx, tracee->pid, &status) == 0 ? status.tracer_pid : 0;
}

/* The wait until other tracers have finished. */
struct tracer_wait {
	int64_t start_ms;
	int64_t looked_ms; /* when `tracer` was seen most recently */
	int64_t turn_ms;   /* how long `tracer` has been seen */
	pid_t tracer;	   /* 0: none */
};

/*
 * Return true if the wait has lasted too long. Tests: tracers_that_take_turns_are_waited_for,
 * time_without_a_look_does_not_count.
 */
static bool waits_too_long(struct tracee *tracee, struct tracer_wait *wait)
{
	const pid_t tracer = other_tracer(tracee);
	const int64_t now_ms = clock_ms(), since_ms = now_ms - wait->looked_ms;

	wait->turn_ms += since_ms < LOOK_MS ? since_ms : LOOK_MS;
	wait->looked_ms = now_ms;
	if (tracer != wait->tracer) {
		wait->tracer = tracer;
		wait->turn_ms = 0;
	}
	return is_too_late(tracee, tracer, wait->turn_ms, TRACED_TIMEOUT_MS) ||
	       now_ms - wait->start_ms > TURNS_TIMEOUT_MS;
}

static int explain_refusal(struct tracee *tracee)
{
	const struct refusal *refused = &tracee->refused;
	struct proc_status status;

	if (refused->err != ESRCH)
		return proc_why_no_access(tracee->ctx, tracee->pid, EPERM);
	proc_status_read(tracee->ctx, refused->tid, &status);
	return ctx_error(tracee->ctx, -ETIMEDOUT,
			 "pid %d (%s): thread %d (state %c) cannot be traced: %s", (int)tracee->pid,
			 status.name, (int)refused->tid, status.state, strerror(refused->err));
}

/* Return how long to wait, in microseconds, after an attempt that failed and took ATTEMPT_NS. */
static long pause_after(int64_t attempt_ns)
{
	const int64_t us = SLEEP_US + 2 * attempt_ns / 1000;

	return us < MOST_SLEEP_US ? (long)us : MOST_SLEEP_US;
}

static int stop_all(struct tracee *tracee)
{
	int64_t start_ms = clock_ms();
	struct tracer_wait wait = { .start_ms = start_ms, .looked_ms = start_ms };
	bool is_last_try = false;
	int found, err;

	do {
		const int64_t attempt_ns = clock_ns(CLOCK_MONOTONIC);

		found = seize_new(tracee);
		if (found < 0 && found != -EAGAIN)
			return found;
		err = wait_all(tracee, start_ms);
		if (err)
			return err;
		if (found == -EAGAIN) {
			/*
			 * Try once more after the limit: the other tracer may just have detached.
			 */
			if (is_last_try)
				return explain_refusal(tracee);
			is_last_try = waits_too_long(tracee, &wait);
			/*
			 * Detach all threads while waiting: the other tracer may want to seize
			 * them, and needs more time for this than our attempt has taken.
			 */
			detach_all(tracee);
			sleep_us(pause_after(clock_ns(CLOCK_MONOTONIC) - attempt_ns));
			start_ms = clock_ms();
		}
	} while (found != 0);
	if (tracee->n == 0)
		return ctx_error(tracee->ctx, -ESRCH, "pid %d: has ended", (int)tracee->pid);
	return 0;
}

bool tracee_dies_with_us(const struct tracee *tracee)
{
	return tracee->dies_with_us;
}

pid_t tracee_pid(const struct tracee *tracee)
{
	return tracee->pid;
}

/* ---- the thread that traces ----------------------------------------------------------------- */

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0 && errno == EINTR)
		;
}

static int spawn(struct tracee *tracee)
{
	struct spawn spawn = {
		.ctx = tracee->ctx,
		.path = tracee->path,
		.argv = tracee->argv,
		.mask = tracee->caller_mask,
	};
	int err = add_thread(tracee, 0);

	/*
	 * The program inherits the timer slack of this thread. So this thread uses the default
	 * slack while it starts the program. Test: spawned_program_keeps_the_timer_slack.
	 */
	prctl(PR_SET_TIMERSLACK, 0);
	if (!err)
		err = spawn_stopped(&spawn);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	if (err) {
		tracee->n = 0;
		return err;
	}
	tracee->pid = spawn.pid;
	tracee->is_child = tracee->dies_with_us = true;
	tracee->threads[0] = (struct thread){ .tid = spawn.pid, .stopped = true };
	return 0;
}

/* Return true if the process was started stopped, and has not been released. */
static bool is_spawned(const struct tracee *tracee)
{
	return tracee->dies_with_us && tracee->n;
}

static int run_stopped(struct tracee *tracee)
{
	int err;

	if (is_spawned(tracee))
		return tracee->work(tracee->work_arg);
	err = stop_all(tracee);
	if (!err)
		err = tracee->work(tracee->work_arg);
	detach_all(tracee);
	return err;
}

static void *tracer_main(void *arg)
{
	struct tracee *tracee = arg;

	/* The default timer slack of 50 us would triple the duration of the short sleeps. */
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	for (;;) {
		wait_for(&tracee->asked);
		pthread_mutex_lock(&tracee->busy);
		switch (tracee->request) {
		case REQUEST_STOP:
			tracee->outcome = stop_all(tracee);
			break;
		case REQUEST_RUN_STOPPED:
			tracee->outcome = run_stopped(tracee);
			break;
		case REQUEST_SPAWN:
			tracee->outcome = spawn(tracee);
			break;
		case REQUEST_DETACH:
			detach_all(tracee);
			break;
		case REQUEST_KILL:
			spawn_kill(tracee->pid);
			tracee->n = 0;
			break;
		case REQUEST_END:
			detach_all(tracee);
			pthread_mutex_unlock(&tracee->busy);
			return NULL;
		}
		pthread_mutex_unlock(&tracee->busy);
		sem_post(&tracee->done);
	}
}

static int start_tracer(struct tracee *tracee)
{
	sigset_t all;
	int err;

	/*
	 * Block all signals, so that the caller's signal handlers never run in the tracing thread.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &tracee->caller_mask);
	err = pthread_create(&tracee->tracer, NULL, tracer_main, tracee);
	pthread_sigmask(SIG_SETMASK, &tracee->caller_mask, NULL);
	if (err)
		return ctx_error(tracee->ctx, -err, "cannot start a thread: %s", strerror(err));
	tracee->is_running = true;
	return 0;
}

static void end_tracer(struct tracee *tracee)
{
	if (!tracee->is_running)
		return;
	tracee->request = REQUEST_END;
	sem_post(&tracee->asked);
	pthread_join(tracee->tracer, NULL);
	tracee->is_running = false;
	tracee->n = 0;
}

/*
 * While the tracing thread is in a SEIZE, take the status of threads that have ended, so that an
 * exec can proceed. Leave the status of the main thread, which may be our caller's child; an exec
 * does not wait for it. Tests: exec_while_threads_are_seized; states.sh: test_in_exec.
 */
static void reap_ended(struct tracee *tracee)
{
	if (pthread_mutex_trylock(&tracee->busy) != 0)
		return;
	for (size_t i = 0; i < tracee->n; i++)
		if (tracee->threads[i].tid != tracee->pid)
			wait_reap_ended(tracee->threads[i].tid);
	pthread_mutex_unlock(&tracee->busy);
}

static void wait_until_done(struct tracee *tracee)
{
	for (;;) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LONG_SEIZE_MS * 1000000L;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		if (sem_clockwait(&tracee->done, CLOCK_MONOTONIC, &until) == 0)
			return;
		if (errno == ETIMEDOUT)
			reap_ended(tracee);
	}
}

/*
 * Make the tracing thread carry out REQUEST, and wait for the result. If the request fails, end the
 * tracing thread: the kernel then detaches all tracees, even one that does not stop. Test:
 * thread_that_does_not_stop.
 */
static int request_and_wait(struct tracee *tracee, enum request request)
{
	int err = tracee->is_running ? 0 : start_tracer(tracee);

	if (err)
		return err;
	tracee->outcome = 0;
	tracee->request = request;
	sem_post(&tracee->asked);
	wait_until_done(tracee);
	err = tracee->outcome;
	if (err && !(request == REQUEST_RUN_STOPPED && is_spawned(tracee)))
		end_tracer(tracee);
	return err;
}

int tracee_open(struct ocp_ctx *ctx, pid_t pid, struct tracee **out)
{
	struct tracee *tracee = calloc(1, sizeof(*tracee));
	siginfo_t info;

	*out = tracee;
	if (!tracee)
		return ctx_no_memory(ctx);
	tracee->ctx = ctx;
	tracee->pid = pid;
	tracee->is_child = pid && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
	sem_init(&tracee->asked, 0, 0);
	sem_init(&tracee->done, 0, 0);
	pthread_mutex_init(&tracee->busy, NULL);
	return 0;
}

static int check_not_self(const struct tracee *tracee)
{
	if (tracee->pid != getpid())
		return 0;
	return ctx_error(tracee->ctx, -EINVAL, "pid %d: a process cannot trace itself",
			 (int)tracee->pid);
}

int tracee_stop(struct tracee *tracee)
{
	int err = check_not_self(tracee);

	return err ? err : request_and_wait(tracee, REQUEST_STOP);
}

int tracee_run_stopped(struct tracee *tracee, int (*work)(void *arg), void *arg)
{
	int err = check_not_self(tracee);

	tracee->work = work;
	tracee->work_arg = arg;
	return err ? err : request_and_wait(tracee, REQUEST_RUN_STOPPED);
}

void tracee_release(struct tracee *tracee)
{
	if (tracee->is_running)
		request_and_wait(tracee, REQUEST_DETACH);
}

void tracee_close(struct tracee *tracee)
{
	if (!tracee)
		return;
	end_tracer(tracee);
	sem_destroy(&tracee->asked);
	sem_destroy(&tracee->done);
	pthread_mutex_destroy(&tracee->busy);
	free(tracee->threads);
	free(tracee);
}

int tracee_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[], struct tracee **out)
{
	struct tracee *tracee;
	int err = tracee_open(ctx, 0, &tracee);

	*out = NULL;
	if (err)
		return err;
	tracee->path = path;
	tracee->argv = argv;
	err = request_and_wait(tracee, REQUEST_SPAWN);
	if (err) {
		tracee_close(tracee);
		return err;
	}
	*out = tracee;
	return 0;
}

void tracee_kill(struct tracee *tracee)
{
	if (tracee)
		request_and_wait(tracee, REQUEST_KILL);
	tracee_close(tracee);
}

/* ---- one thread ----------------------------------------------------------------------------- */

/*
 * Letting one thread of a stopped process run for a moment.
 *
 * A thread that was stopped at a signal is resumed with this signal. The caller of tracee_step()
 * has blocked all signals of the thread, so the kernel makes this signal pending again, with its
 * siginfo (ptrace_signal() of kernel/signal.c). SIGSTOP cannot be blocked. If SIGSTOP arrives while
 * the thread runs, it is passed on, and the process enters the group stop. The kernel remembers the
 * group stop, and the thread is resumed once more.
 */

size_t tracee_n_threads(const struct tracee *tracee)
{
	return tracee->n;
}

pid_t tracee_tid(const struct tracee *tracee, size_t i, int *signal)
{
	*signal = tracee->threads[i].signal;
	return tracee->threads[i].tid;
}

static int report_ended(const struct tracee *tracee)
{
	return ctx_error(tracee->ctx, -ESRCH, "pid %d: has ended", (int)tracee->pid);
}

/*
 * Wait for the next stop of THREAD. *STATUS is set as by waitpid(2). Return 0, -ESRCH if the thread
 * has ended, or -ETIMEDOUT.
 */
static int wait_for_stop(struct tracee *tracee, struct thread *thread, int *status)
{
	const int64_t start_ms = clock_ms();

	for (unsigned int polls = 0;; polls++) {
		const pid_t got = take_status(tracee, thread->tid, status);

		if (got == thread->tid) {
			thread->stopped = WIFSTOPPED(*status);
			return thread->stopped ? 0 : report_ended(tracee);
		}
		if (got < 0 && errno != EINTR)
			return report_ended(tracee);
		if (polls < SPINS)
			continue;
		/*
		 * Read the state of the thread: if it is the main thread, waitpid(2) reports its
		 * end only after all other threads have ended, but all others are stopped now.
		 */
		if (polls % LOOK_CLOSER == 0 && thread_has_ended(tracee, thread->tid))
			return report_ended(tracee);
		if (is_too_late(tracee, thread->tid, clock_ms() - start_ms, STOP_TIMEOUT_MS))
			return ctx_error(tracee->ctx, -ETIMEDOUT,
					 "pid %d: thread %d does not finish a system call in %d ms",
					 (int)tracee->pid, (int)thread->tid,
					 (int)(clock_ms() - start_ms));
		sleep_us(SLEEP_US);
	}
}

static int resume(const struct tracee *tracee, struct thread *thread, enum thread_step step)
{
	const int signal = thread->signal;

	if (ptrace(step == STEP_TO_EVENT_STOP ? PTRACE_CONT : PTRACE_SYSCALL, thread->tid, NULL,
		   (void *)(intptr_t)signal) != 0)
		return report_ended(tracee);
	thread->signal = 0;
	thread->stopped = false;
	return 0;
}

int tracee_step(struct tracee *tracee, pid_t tid, enum thread_step step)
{
	const uintptr_t options =
		PTRACE_O_TRACESYSGOOD | (tracee->dies_with_us ? PTRACE_O_EXITKILL : 0);
	struct thread *thread = find_thread(tracee, tid);
	int status, err;

	if (!thread || ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)options) != 0 ||
	    (step == STEP_TO_EVENT_STOP && ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0))
		return report_ended(tracee);
	for (;;) {
		err = resume(tracee, thread, step);
		if (!err)
			err = wait_for_stop(tracee, thread, &status);
		if (err)
			return err;
		if (status >> 16 == 0 && WSTOPSIG(status) != SYSCALL_STOP)
			thread->signal = WSTOPSIG(status);
		else if (step == (status >> 16 ? STEP_TO_EVENT_STOP : STEP_TO_SYSCALL_STOP))
			return 0;
	}
}
