// SPDX-License-Identifier: MIT
#include "profile/thread_sampler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/search.h"
#include "change/stop/thread_stop.h"
#include "look/memory.h"
#include "look/proc_file.h"
#include "unwind/stack_reader.h"

enum {
	NS_A_SECOND = 1000000000,
	TIMER_SLACK_NS = 1000, /* the default of 50 us would delay each look */
	/* how long a new thread may be unknown if an old one has ended at the same time */
	LIST_MS = 1000,
	TABLE_SLOTS = 2 * PROFILE_MAX_COUNTS, /* a power of 2 */
	MOST_FRAMES = 8 << 20,		      /* of all stored stacks together: 64 MiB */
	/*
	 * The files of at most this number of threads stay open. The files of further threads are
	 * opened at each look: a process may have more threads than the tool may have descriptors.
	 */
	KEPT_THREADS = 256,
};

/* What the scheduler has counted for a thread: the numbers of schedstat. */
struct thread_ran {
	uint64_t ns;	    /* CPU time; while the thread runs, it may lack up to 10 ms */
	uint64_t queued_ns; /* how long it has waited for a CPU; lacks the wait that lasts now */
	uint64_t n_slices;  /* how often the thread got a CPU */
};

/* The files of a thread, below /proc/PID/task/TID. For PROFILE_WAITS, FILE_STATE is `syscall`. */
enum thread_file { FILE_SCHEDSTAT, FILE_STATE, THREAD_FILES };

/* For PROFILE_WAITS: what was counted of the waits of a thread. */
struct thread_waits {
	int64_t counted_ns;	  /* the idle time of the thread when time was last counted */
	struct counted_stack *in; /* the stack of the last wait; NULL: it had no room */
	bool has_wait;		  /* the two members about the last wait are valid */
	uint64_t n_slices;	  /* of the thread during the last wait */
	uint64_t first_slices;	  /* of the thread when the profile began */
};

struct sampler_thread {
	pid_t tid;
	int fds[THREAD_FILES];	/* -1: not kept open */
	uint64_t sampled_ns;	/* the CPU time of the thread at its last sample */
	struct thread_ran seen; /* at the last look */
	bool was_running;	/* at the last look */
	/*
	 * How often the thread had waited when that was read last (voluntary_ctxt_switches,
	 * proc(5)); -1: not read yet. Each stop since then counts as a wait, too.
	 */
	int64_t n_waits;
	int64_t n_stops;
	bool is_new; /* it has started since the sampling began */
	struct thread_waits waits;
};

struct sampler_process {
	pid_t pid;
	struct memory *memory;
	const char *state_file; /* the name of FILE_STATE */
	int task_fd;		/* /proc/PID/task */
	nlink_t n_links;	/* of the directory: changes with the number of threads */
	int64_t listed_ms;	/* when the threads were listed */
	struct sampler_thread *threads;
	size_t n;
	bool is_gone; /* it has ended, or executes another program */
};

/* The samples of one stack in one thread under one name. */
struct counted_stack {
	uint64_t hash; /* of all members but n and ns */
	struct stored_stack *stack;
	uint32_t tgid, tid;
	char comm[THREAD_NAME_BYTES];
	uint64_t n, ns;
};

struct thread_sampler {
	struct ocp_ctx *ctx;
	unsigned int hz;
	bool by_thread;
	bool of_waits; /* PROFILE_WAITS */
	struct stack_walker *walker;
	struct stack_reader *reader;

	pthread_t thread;
	bool is_running;      /* `thread` has to be joined */
	pthread_mutex_t lock; /* for all members below, for the walker and for the reader */
	pthread_cond_t wake;
	bool ends;   /* a request to the thread */
	bool is_out; /* the thread has ended by itself: see thread_stop_run() */
	struct sampler_process *processes;
	size_t n_processes;
	size_t n_kept; /* threads whose files are kept open */
	struct counted_stack *counts;
	size_t n_counts, n_frames;
	uint32_t *slots; /* a hash table of `counts`: the index + 1, or 0 */
	struct stack_losses stack_losses;
	/* samples of threads that began to wait or ended before the stop, or had another tracer */
	uint64_t n_missed;
	uint64_t n_in_calls;  /* samples of threads that were stopped at the end of a system call */
	uint64_t counts_full; /* as in struct profile_losses */
	uint64_t stopped_ns;
};

/* ---- samples -------------------------------------------------------------------------------- */

static uint64_t hash_sample(const struct counted_stack *key, const struct walk_walked *walked)
{
	uint64_t hash = hash_bytes(HASH_START, key->comm, sizeof(key->comm));

	hash = hash_word(hash, (uint64_t)key->tgid << 32 | key->tid);
	hash = hash_word(hash, walked->end);
	for (uint32_t i = 0; i < walked->n; i++)
		hash = hash_word(hash, walked->frames[i]);
	return hash;
}

static bool is_sample(const struct counted_stack *count, const struct counted_stack *key,
		      const struct walk_walked *walked)
{
	return count->hash == key->hash && count->tgid == key->tgid && count->tid == key->tid &&
	       memcmp(count->comm, key->comm, sizeof(key->comm)) == 0 &&
	       count->stack->end == (enum walk_end)walked->end && count->stack->n == walked->n &&
	       memcmp(count->stack->frames, walked->frames, walked->n * sizeof(uint64_t)) == 0;
}

static struct stored_stack *copy_stack(const struct walk_walked *walked, uint64_t key)
{
	const size_t bytes = walked->n * sizeof(uint64_t);
	struct stored_stack *stack = malloc(sizeof(*stack) + bytes);

	if (!stack)
		return NULL;
	*stack = (struct stored_stack){ .key = key,
					.end = (enum walk_end)walked->end,
					.n = walked->n,
					.frames = (const uint64_t *)(stack + 1) };
	memcpy(stack + 1, walked->frames, bytes);
	return stack;
}

/*
 * Count NS nanoseconds for WALKED, the stack of the thread in KEY. Return the count, which is valid
 * until the sampler is closed. If the tables are full, count a loss, and return NULL.
 */
static struct counted_stack *count_sample(struct thread_sampler *s, struct counted_stack *key,
					  const struct walk_walked *walked, uint64_t ns)
{
	struct counted_stack *count;
	size_t slot;

	s->stack_losses.ended[walked->end]++;
	key->hash = hash_sample(key, walked);
	slot = key->hash % TABLE_SLOTS;
	while (s->slots[slot] && !is_sample(&s->counts[s->slots[slot] - 1], key, walked))
		slot = (slot + 1) % TABLE_SLOTS;
	if (!s->slots[slot]) {
		if (s->n_counts == PROFILE_MAX_COUNTS) {
			s->counts_full++;
			return NULL;
		}
		key->stack = s->n_frames + walked->n <= MOST_FRAMES
				     ? copy_stack(walked, s->n_counts + 1)
				     : NULL;
		if (!key->stack) {
			s->stack_losses.full++;
			return NULL;
		}
		s->n_frames += walked->n;
		s->counts[s->n_counts++] = *key;
		s->slots[slot] = (uint32_t)s->n_counts;
	}
	count = &s->counts[s->slots[slot] - 1];
	count->n++;
	count->ns += ns;
	return count;
}

/* ---- one thread of a process ---------------------------------------------------------------- */

static int open_of_thread(const struct sampler_process *process, pid_t tid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", (int)tid, name);
	return openat(process->task_fd, path, O_RDONLY | O_CLOEXEC);
}

static int open_thread_file(const struct sampler_process *process, pid_t tid, enum thread_file file)
{
	return open_of_thread(process, tid,
			      file == FILE_SCHEDSTAT ? "schedstat" : process->state_file);
}

/*
 * Read FILE of THREAD, which is small, to TEXT, and end it with a zero byte. Return false if the
 * thread has ended.
 */
static bool read_thread_file(const struct sampler_process *process,
			     const struct sampler_thread *thread, enum thread_file file, char *text,
			     size_t room)
{
	const int kept = thread->fds[file];
	const int fd = kept >= 0 ? kept : open_thread_file(process, thread->tid, file);
	const ssize_t n = fd < 0 ? -1 : pread(fd, text, room - 1, 0);

	if (fd >= 0 && kept < 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* Return false if THREAD has ended. */
static bool read_ran(const struct sampler_process *process, const struct sampler_thread *thread,
		     struct thread_ran *ran)
{
	char text[128], *end;

	if (!read_thread_file(process, thread, FILE_SCHEDSTAT, text, sizeof(text)))
		return false;
	ran->ns = strtoull(text, &end, 10);
	ran->queued_ns = strtoull(end, &end, 10);
	ran->n_slices = strtoull(end, NULL, 10);
	return true;
}

/* Return true if THREAD runs now, or waits for a CPU. */
static bool is_running_now(const struct sampler_process *process,
			   const struct sampler_thread *thread)
{
	char text[512];

	return read_thread_file(process, thread, FILE_STATE, text, sizeof(text)) &&
	       proc_stat_is_runnable(text);
}

struct walk_job {
	struct thread_sampler *sampler;
	const struct sampler_process *process;
	struct sampler_thread *thread;
	struct thread_ran ran;		  /* at the stop */
	const struct walk_walked *walked; /* NULL: there is no sample */
};

/*
 * Return true if the stop has interrupted a wait in the kernel: the system call has returned EINTR,
 * or is about to be restarted. The thread ran when the sampler looked, but began to wait before it
 * was stopped. Its stack does not show where it ran.
 */
static bool is_waiting(const struct user_regs_struct *regs)
{
	enum { RESTART_FIRST = 512, RESTART_LAST = 516 }; /* include/linux/errno.h of the kernel */
	const int64_t result = (int64_t)regs->rax;

	return (int64_t)regs->orig_rax >= 0 &&
	       (result == -EINTR || (result <= -RESTART_FIRST && result >= -RESTART_LAST));
}

/*
 * Return true if THREAD, which is stopped now, has waited since its last stop, or if this is
 * unknown.
 */
static bool has_waited(const struct sampler_process *process, struct sampler_thread *thread)
{
	static const char name[] = "\nvoluntary_ctxt_switches:";
	const int fd = open_of_thread(process, thread->tid, "status");
	const int64_t known = thread->n_waits < 0 ? -1 : thread->n_waits + thread->n_stops;
	char text[4096];
	ssize_t n = -1;
	char *line;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n < 0 ? 0 : n] = '\0';
	line = strstr(text, name);
	thread->n_waits = line ? strtoll(line + strlen(name), NULL, 10) : -1;
	/* The present stop is in n_waits. sample_thread() adds it to n_stops. */
	thread->n_stops = -1;
	return known < 0 || thread->n_waits != known + 1;
}

/*
 * Return true if the thread of JOB, stopped with the registers REGS, ran at the look. The state R
 * includes threads that wait for a CPU. If the thread has not got a CPU since the look, it was on
 * one. Otherwise it was either preempted, perhaps by the sampler itself, which needs a CPU, too:
 * then it is stopped in the code that it ran, or it works in a system call and has not waited since
 * its last stop. Or it had just been woken, and returns from the system call in which it has
 * waited: then it did not run.
 */
static bool has_run(const struct walk_job *job, const struct user_regs_struct *regs)
{
	return job->ran.n_slices == job->thread->seen.n_slices || (int64_t)regs->orig_rax < 0 ||
	       !has_waited(job->process, job->thread);
}

static void walk_stopped(const struct user_regs_struct *regs, void *arg)
{
	struct walk_job *job = arg;

	if (is_waiting(regs)) {
		job->sampler->n_missed++;
		return;
	}
	if (!read_ran(job->process, job->thread, &job->ran) || !has_run(job, regs))
		return;
	job->sampler->n_in_calls += (int64_t)regs->orig_rax >= 0;
	job->walked = stack_reader_walk(job->sampler->reader, job->process->memory,
					(uint32_t)job->process->pid, regs);
}

static void read_comm(const struct sampler_process *process, pid_t tid,
		      char comm[THREAD_NAME_BYTES])
{
	char raw[THREAD_NAME_BYTES + 1] = "";
	ssize_t n;
	int fd;

	fd = open_of_thread(process, tid, "comm");
	if (fd < 0)
		return;
	n = read(fd, raw, sizeof(raw) - 1);
	close(fd);
	/* The kernel adds a newline. */
	raw[n > 0 ? n - 1 : 0] = '\0';
	thread_name_copy(comm, raw);
}

/* Stop THREAD, which runs, and count a sample. Return an error of thread_stop_run(). */
static int sample_thread(struct thread_sampler *s, struct sampler_process *process,
			 struct sampler_thread *thread)
{
	struct counted_stack key = { .tgid = (uint32_t)process->pid, .tid = (uint32_t)thread->tid };
	struct walk_job job = { .sampler = s, .process = process, .thread = thread };
	const int err =
		thread_stop_run(process->pid, thread->tid, walk_stopped, &job, &s->stopped_ns);

	thread->n_stops++;
	if (err)
		s->n_missed++;
	if (err || !job.walked)
		return err;
	/* After an exec, the registers are those of another program. */
	if (!memory_is_alive(process->memory)) {
		process->is_gone = true;
		return 0;
	}
	if (s->by_thread)
		read_comm(process, thread->tid, key.comm);
	count_sample(s, &key, job.walked, job.ran.ns - thread->sampled_ns);
	thread->sampled_ns = job.ran.ns;
	return 0;
}

/* ---- waits ---------------------------------------------------------------------------------- */

/*
 * Return how long a thread with the numbers RAN had neither run nor waited for a CPU at NOW_NS,
 * plus a constant. This is exact while the thread waits.
 */
static int64_t idle_time(const struct thread_ran *ran, int64_t now_ns)
{
	return now_ns - (int64_t)ran->ns - (int64_t)ran->queued_ns;
}

/* Count the idle time up to IDLE_NS for the wait of WAITS. */
static void count_idle_time(struct thread_waits *waits, int64_t idle_ns)
{
	if (waits->in)
		waits->in->ns += (uint64_t)(idle_ns - waits->counted_ns);
	waits->counted_ns = idle_ns;
}

/* Set *PLACE to where THREAD waits. Return false if it runs, waits for a CPU, or has ended. */
static bool read_wait_place(const struct sampler_process *process,
			    const struct sampler_thread *thread, struct proc_wait_place *place)
{
	char text[256];

	return read_thread_file(process, thread, FILE_STATE, text, sizeof(text)) &&
	       proc_wait_place_parse(text, place);
}

/*
 * Walk the stack of THREAD, which is not stopped. RAN are its numbers before. If THREAD waits and
 * has not got a CPU since then, set RAN to its numbers during the wait, and return the stack.
 * Otherwise return NULL.
 */
static const struct walk_walked *walk_wait(struct thread_sampler *s,
					   const struct sampler_process *process,
					   const struct sampler_thread *thread,
					   struct thread_ran *ran)
{
	const struct walk_walked *walked;
	struct proc_wait_place place;
	struct thread_ran after;

	if (!read_wait_place(process, thread, &place))
		return NULL;
	walked = stack_reader_walk_waiting(s->reader, process->memory, (uint32_t)process->pid,
					   place.rsp, place.rip);
	if (!read_ran(process, thread, &after) || after.n_slices != ran->n_slices)
		return NULL;
	*ran = after;
	return walked;
}

/* THREAD has got a CPU since the last look. If it waits now, count a new wait. */
static void begin_wait(struct thread_sampler *s, struct sampler_process *process,
		       struct sampler_thread *thread, struct thread_ran *ran, int64_t now_ns)
{
	struct counted_stack key = { .tgid = (uint32_t)process->pid, .tid = (uint32_t)thread->tid };
	const struct walk_walked *walked = walk_wait(s, process, thread, ran);
	struct thread_waits *waits = &thread->waits;
	int64_t idle;

	if (!walked)
		return;
	/* After an exec, the stack is that of another program. */
	if (!memory_is_alive(process->memory)) {
		process->is_gone = true;
		return;
	}
	if (s->by_thread)
		read_comm(process, thread->tid, key.comm);
	idle = idle_time(ran, now_ns ? now_ns : clock_ns(CLOCK_MONOTONIC));
	/* At the last look, the thread waited for a CPU: this time was counted for the old wait. */
	if (idle < waits->counted_ns)
		count_idle_time(waits, idle);
	waits->in = count_sample(s, &key, walked, 0);
	waits->n_slices = ran->n_slices;
	waits->has_wait = true;
	count_idle_time(waits, idle);
}

/*
 * Look whether THREAD, which has the numbers RAN, waits. A thread that has got no CPU since its
 * stack was walked has the same stack. END_NS: the time of the end of the profile, 0 before.
 */
static void look_for_wait(struct thread_sampler *s, struct sampler_process *process,
			  struct sampler_thread *thread, struct thread_ran *ran, int64_t end_ns)
{
	struct proc_wait_place place;

	if (!thread->waits.has_wait || thread->waits.n_slices != ran->n_slices)
		begin_wait(s, process, thread, ran, end_ns);
	else if (!end_ns)
		count_idle_time(&thread->waits, idle_time(ran, clock_ns(CLOCK_MONOTONIC)));
	/* A thread that waits for a CPU has the same numbers. Later looks correct this, if any. */
	else if (read_wait_place(process, thread, &place))
		count_idle_time(&thread->waits, idle_time(ran, end_ns));
}

/* ---- the threads of a process --------------------------------------------------------------- */

static void close_thread(struct thread_sampler *s, struct sampler_process *process, size_t i)
{
	struct sampler_thread *thread = &process->threads[i];

	s->n_kept -= thread->fds[0] >= 0;
	for (size_t f = 0; f < THREAD_FILES; f++)
		if (thread->fds[f] >= 0)
			close(thread->fds[f]);
	*thread = process->threads[--process->n];
}

static void close_threads(struct thread_sampler *s, struct sampler_process *process)
{
	while (process->n)
		close_thread(s, process, process->n - 1);
}

/* Keep the files of THREAD open, both or none. */
static void keep_files(struct thread_sampler *s, const struct sampler_process *process,
		       struct sampler_thread *thread)
{
	if (s->n_kept == KEPT_THREADS)
		return;
	thread->fds[FILE_SCHEDSTAT] = open_thread_file(process, thread->tid, FILE_SCHEDSTAT);
	thread->fds[FILE_STATE] = open_thread_file(process, thread->tid, FILE_STATE);
	if (thread->fds[FILE_SCHEDSTAT] >= 0 && thread->fds[FILE_STATE] >= 0) {
		s->n_kept++;
		return;
	}
	for (size_t f = 0; f < THREAD_FILES; f++) {
		if (thread->fds[f] >= 0)
			close(thread->fds[f]);
		thread->fds[f] = -1;
	}
}

/* IS_NEW: the thread has started since the sampling began, so all its CPU time counts. */
static void add_sampler_thread(struct thread_sampler *s, struct sampler_process *process, pid_t tid,
			       bool is_new)
{
	struct sampler_thread thread = { .tid = tid, .fds = { -1, -1 }, .n_waits = -1 };
	struct sampler_thread *added;

	if (!read_ran(process, &thread, &thread.seen))
		return;
	thread.is_new = is_new;
	thread.waits.first_slices = thread.seen.n_slices;
	thread.waits.counted_ns = idle_time(&thread.seen, clock_ns(CLOCK_MONOTONIC));
	thread.sampled_ns = is_new ? 0 : thread.seen.ns;
	added = array_add(process->threads, process->n);
	if (!added)
		return;
	keep_files(s, process, &thread);
	*added = thread;
}

static bool has_thread(const struct sampler_process *process, pid_t tid)
{
	for (size_t i = 0; i < process->n; i++)
		if (process->threads[i].tid == tid)
			return true;
	return false;
}

/* Add the threads of PROCESS that are not in its list. */
static void list_threads(struct thread_sampler *s, struct sampler_process *process, bool are_new)
{
	const int fd = openat(process->task_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && !has_thread(process, tid))
			add_sampler_thread(s, process, tid, are_new);
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

/* List the threads if their number has changed, and once in LIST_MS. */
static void update_threads(struct thread_sampler *s, struct sampler_process *process)
{
	const int64_t now_ms = clock_ms();
	struct stat st;

	if (fstat(process->task_fd, &st) != 0)
		return;
	if (st.st_nlink == process->n_links && now_ms - process->listed_ms < LIST_MS)
		return;
	process->n_links = st.st_nlink;
	process->listed_ms = now_ms;
	list_threads(s, process, true);
}

/*
 * Set thread->seen to RAN, and return true if THREAD runs now, or waits for a CPU. A thread that
 * did not run at the last look and has got no CPU since then waits: its state need not be read.
 */
static bool look_at(const struct sampler_process *process, struct sampler_thread *thread,
		    const struct thread_ran *ran)
{
	const bool may_run = thread->was_running || ran->ns != thread->seen.ns ||
			     ran->n_slices != thread->seen.n_slices;

	thread->seen = *ran;
	thread->was_running = may_run && is_running_now(process, thread);
	return thread->was_running;
}

/*
 * Sample the threads of PROCESS that run or, for PROFILE_WAITS, that wait. END_NS: see
 * look_for_wait(). Return -ETIMEDOUT if a thread has not stopped.
 */
static int sample_process(struct thread_sampler *s, struct sampler_process *process, int64_t end_ns)
{
	update_threads(s, process);
	for (size_t i = process->n; i-- > 0 && !process->is_gone;) {
		struct sampler_thread *thread = &process->threads[i];
		struct thread_ran ran;

		if (!read_ran(process, thread, &ran))
			close_thread(s, process, i);
		else if (s->of_waits)
			look_for_wait(s, process, thread, &ran, end_ns);
		else if (look_at(process, thread, &ran) &&
			 sample_thread(s, process, thread) == -ETIMEDOUT)
			return -ETIMEDOUT;
	}
	if (!process->n && !memory_is_alive(process->memory))
		process->is_gone = true;
	return 0;
}

/* ---- the thread that samples ---------------------------------------------------------------- */

static struct timespec time_of(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NS_A_SECOND, .tv_nsec = ns % NS_A_SECOND };
}

static int sample_all(struct thread_sampler *s, int64_t end_ns)
{
	int err = 0;

	for (size_t i = 0; i < s->n_processes && !err; i++)
		if (s->processes[i].is_gone)
			close_threads(s, &s->processes[i]);
		else
			err = sample_process(s, &s->processes[i], end_ns);
	return err;
}

/*
 * One look falls into each interval of 1/hz seconds, at a random time: so the looks do not keep
 * step with a program that does something at a fixed rate.
 */
static void *sampler_main(void *arg)
{
	struct thread_sampler *s = arg;
	const int64_t interval_ns = NS_A_SECOND / (int64_t)s->hz;
	unsigned int seed = (unsigned int)getpid();
	int64_t start_ns = clock_ns(CLOCK_MONOTONIC);

	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	pthread_mutex_lock(&s->lock);
	while (!s->ends && !s->is_out) {
		const double share = rand_r(&seed) / ((double)RAND_MAX + 1);
		const struct timespec until =
			time_of(start_ns + (int64_t)(share * (double)interval_ns));
		int64_t late_ns;

		while (!s->ends && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
			;
		/* After -ETIMEDOUT, this thread has to end: see thread_stop_run(). */
		s->is_out = !s->ends && sample_all(s, 0) != 0;
		start_ns += interval_ns;
		late_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
		if (late_ns > interval_ns)
			start_ns += late_ns / interval_ns * interval_ns;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int start_thread(struct thread_sampler *s)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&s->thread, NULL, sampler_main, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	s->is_running = !err;
	return err ? ctx_error(s->ctx, -err, "cannot start a thread: %s", strerror(err)) : 0;
}

int thread_sampler_start(struct thread_sampler *s, uint64_t *start_ns)
{
	int64_t now_ns;

	for (size_t i = 0; i < s->n_processes; i++) {
		/* What threads have done since the last stop does not count. */
		close_threads(s, &s->processes[i]);
		list_threads(s, &s->processes[i], false);
	}
	s->ends = false;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	*start_ns = (uint64_t)now_ns;
	for (size_t i = 0; i < s->n_processes; i++)
		for (size_t j = 0; j < s->processes[i].n; j++) {
			struct sampler_thread *thread = &s->processes[i].threads[j];

			thread->waits.counted_ns = idle_time(&thread->seen, now_ns);
		}
	return start_thread(s);
}

void thread_sampler_stop(struct thread_sampler *s, uint64_t *stop_ns)
{
	if (!s->is_running)
		return;
	pthread_mutex_lock(&s->lock);
	s->ends = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	s->is_running = false;
	*stop_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
	if (s->of_waits)
		sample_all(s, (int64_t)*stop_ns);
}

int thread_sampler_refresh(struct thread_sampler *s)
{
	bool is_out;
	int err;

	pthread_mutex_lock(&s->lock);
	err = stack_walker_refresh(s->walker);
	is_out = s->is_out;
	pthread_mutex_unlock(&s->lock);
	if (err || !is_out || !s->is_running)
		return err;
	pthread_join(s->thread, NULL);
	s->is_out = false;
	return start_thread(s);
}

uint64_t thread_sampler_stopped_ns(struct thread_sampler *s)
{
	uint64_t ns;

	pthread_mutex_lock(&s->lock);
	ns = s->stopped_ns;
	pthread_mutex_unlock(&s->lock);
	return ns;
}

/* ---- read ----------------------------------------------------------------------------------- */

static bool is_idle_thread(const struct sampler_thread *thread)
{
	return !thread->is_new && thread->waits.has_wait &&
	       thread->waits.n_slices == thread->waits.first_slices;
}

static int compare_sample_threads(const void *a, const void *b)
{
	const struct profile_sample *x = a, *y = b;
	int order = COMPARE(x->tgid, y->tgid);

	return order ? order : COMPARE(x->tid, y->tid);
}

/*
 * Count the threads of PROCESS that have been in one wait for the whole time, and mark their
 * samples. The samples in READING are sorted by thread.
 */
static void mark_idle(const struct sampler_process *process, struct profile_reading *reading)
{
	for (size_t i = 0; i < process->n && !process->is_gone; i++) {
		const struct profile_sample key = { .tgid = (uint32_t)process->pid,
						    .tid = (uint32_t)process->threads[i].tid };
		struct profile_sample *list = reading->samples;
		size_t at;

		if (!is_idle_thread(&process->threads[i]))
			continue;
		reading->n_always_waiting++;
		at = SEARCH(j, reading->n, compare_sample_threads(&list[j], &key) < 0);
		for (; at < reading->n && compare_sample_threads(&list[at], &key) == 0; at++)
			list[at].is_idle = true;
	}
}

int thread_sampler_read(struct thread_sampler *s, struct profile_reading *reading)
{
	pthread_mutex_lock(&s->lock);
	reading->samples = calloc(s->n_counts + 1, sizeof(*reading->samples));
	for (size_t i = 0; reading->samples && i < s->n_counts; i++) {
		const struct counted_stack *count = &s->counts[i];
		struct profile_sample *sample = &reading->samples[reading->n++];

		*sample = (struct profile_sample){ .stack = count->stack,
						   .tgid = count->tgid,
						   .tid = count->tid,
						   .n = count->n,
						   .sum = count->ns,
						   .value = count->ns };
		memcpy(sample->comm, count->comm, sizeof(sample->comm));
	}
	reading->stack_losses = s->stack_losses;
	reading->losses =
		(struct profile_losses){ .counts_full = s->counts_full, .run_ns = s->stopped_ns };
	reading->n_missed = s->n_missed;
	reading->n_in_calls = s->n_in_calls;
	reading->n_processes = s->n_processes;
	if (s->of_waits && reading->samples) {
		qsort(reading->samples, reading->n, sizeof(*reading->samples),
		      compare_sample_threads);
		for (size_t i = 0; i < s->n_processes; i++)
			mark_idle(&s->processes[i], reading);
	}
	pthread_mutex_unlock(&s->lock);
	return reading->samples ? 0 : ctx_no_memory(s->ctx);
}

const struct stack_walker *thread_sampler_walker(const struct thread_sampler *s)
{
	return s->walker;
}

/* ---- open and close ------------------------------------------------------------------------- */

static int add_process(struct thread_sampler *s, pid_t pid)
{
	struct sampler_process process = { .pid = pid, .task_fd = -1 }, *added;
	char path[PROC_PATH_BYTES];
	struct proc_status status;
	int err = proc_status_read(s->ctx, pid, &status);

	process.state_file = s->of_waits ? "syscall" : "stat";
	if (!err && status.tracer_pid && !s->of_waits)
		err = proc_why_no_access(s->ctx, pid, EPERM);
	if (!err)
		err = memory_open(s->ctx, pid, &process.memory);
	if (err)
		return err;
	proc_path(path, pid, "schedstat");
	if (access(path, R_OK) != 0)
		err = ctx_error(s->ctx, -ENOTSUP, "%s: %s: the CPU time of threads is not known",
				path, strerror(errno));
	proc_path(path, pid, "syscall");
	if (!err && s->of_waits && access(path, R_OK) != 0)
		err = ctx_error(s->ctx, -ENOTSUP, "%s: %s: it is not known where threads wait",
				path, strerror(errno));
	proc_path(path, pid, "task");
	if (!err) {
		process.task_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process.task_fd < 0)
			err = proc_why_no_access(s->ctx, pid, errno);
	}
	if (!err)
		err = stack_walker_add_process(s->walker, pid, (uint32_t)pid);
	added = err ? NULL : array_add(s->processes, s->n_processes);
	if (added) {
		*added = process;
		if (s->is_running)
			list_threads(s, added, false);
		return 0;
	}
	if (process.task_fd >= 0)
		close(process.task_fd);
	memory_close(process.memory);
	return err ? err : ctx_no_memory(s->ctx);
}

int thread_sampler_add_process(struct thread_sampler *s, pid_t pid)
{
	int err;

	pthread_mutex_lock(&s->lock);
	err = add_process(s, pid);
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* Return the process PID that is sampled, or NULL. */
static struct sampler_process *find_process(struct thread_sampler *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].pid == pid && !s->processes[i].is_gone &&
		    memory_is_alive(s->processes[i].memory))
			return &s->processes[i];
	return NULL;
}

bool thread_sampler_has_process(struct thread_sampler *s, pid_t pid)
{
	bool is_found;

	pthread_mutex_lock(&s->lock);
	is_found = find_process(s, pid);
	pthread_mutex_unlock(&s->lock);
	return is_found;
}

void thread_sampler_forget_process(struct thread_sampler *s, pid_t pid)
{
	struct sampler_process *process;

	pthread_mutex_lock(&s->lock);
	process = find_process(s, pid);
	if (process)
		process->is_gone = true;
	pthread_mutex_unlock(&s->lock);
}

static void open_lock(struct thread_sampler *s)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
}

int thread_sampler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec,
			struct thread_sampler **out)
{
	struct thread_sampler *s = calloc(1, sizeof(*s));
	int err = 0;

	*out = NULL;
	if (!s)
		return ctx_no_memory(ctx);
	s->ctx = ctx;
	s->hz = spec->hz;
	s->by_thread = spec->by_thread;
	s->of_waits = spec->kind == PROFILE_WAITS;
	open_lock(s);
	s->slots = calloc(TABLE_SLOTS, sizeof(*s->slots));
	s->counts = calloc(PROFILE_MAX_COUNTS, sizeof(*s->counts));
	if (!s->slots || !s->counts)
		err = ctx_no_memory(ctx);
	if (!err)
		err = stack_walker_open(ctx, NULL, &s->walker);
	if (!err)
		err = stack_reader_open(ctx, s->walker, &s->reader);
	if (err)
		thread_sampler_close(s);
	else
		*out = s;
	return err;
}

void thread_sampler_close(struct thread_sampler *s)
{
	uint64_t stop_ns;

	if (!s)
		return;
	thread_sampler_stop(s, &stop_ns);
	for (size_t i = 0; i < s->n_processes; i++) {
		struct sampler_process *process = &s->processes[i];

		close_threads(s, process);
		free(process->threads);
		close(process->task_fd);
		memory_close(process->memory);
	}
	for (size_t i = 0; s->counts && i < s->n_counts; i++)
		free(s->counts[i].stack);
	stack_reader_close(s->reader);
	stack_walker_close(s->walker);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s->processes);
	free(s->counts);
	free(s->slots);
	free(s);
}
