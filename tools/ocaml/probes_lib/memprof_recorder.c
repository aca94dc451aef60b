// SPDX-License-Identifier: MIT
#include "memprof_recorder.h"

#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	READ_MS = 5,
	TURN_NS = 20 * 1000 * 1000, /* how long the thread takes events while others may wait */
	EVENTS_A_LOOK = 256,	    /* events between two looks at the clock */
	STOP_NS = 1000 * 1000 * 1000,
	STACK_BYTES = 256 << 10,
	FIRST_EVENTS = 1024
};

struct recorder {
	struct ocp_ctx *ctx;
	struct recorder_spec spec;
	pid_t owner; /* the process to which the thread belongs */
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct memprof_session *session; /* only for the thread; NULL: closed */
	struct memprof_answers answers;
	struct heap_names *names;
	struct heap *heap;
	struct recorded_event *events;
	size_t n_events, room;
	uint64_t unread;
	int64_t asked_ns, end_ns; /* the request, and the end; end_ns is 0 until then */
	int64_t stop_ns;	  /* when the end was requested; 0: not requested */
	struct memprof_losses losses;
	char *why;		  /* the reason if the recorder has failed */
	bool is_dropped, is_over; /* is_over: the thread has ended */
};

/* The last error, as a message that the caller frees. */
static char *message(const struct recorder *r)
{
	return strdup(ocp_error(r->ctx));
}

static void recorder_free(struct recorder *r)
{
	memprof_close(r->session);
	heap_names_close(r->names);
	heap_free(r->heap);
	ocp_ctx_free(r->ctx);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->news);
	free(r->events);
	free(r->why);
	free(r);
}

/* ---- the thread: under the lock -------------------------------------------------------------- */

static int keep_event(struct recorder *r, const struct memprof_event *event, size_t stack)
{
	if (r->n_events >= (size_t)r->spec.max_events) {
		r->unread += r->spec.max_events != 0;
		return 0;
	}
	if (r->n_events == r->room) {
		const size_t room = r->room ? 2 * r->room : FIRST_EVENTS;
		void *events = reallocarray(r->events, room, sizeof(*r->events));

		if (!events)
			return ctx_no_memory(r->ctx);
		r->events = events;
		r->room = room;
	}
	r->events[r->n_events++] =
		(struct recorded_event){ .id = event->id,
					 .time_ns = event->time_ns,
					 .n_samples = event->n_samples,
					 .size = event->size,
					 .domain = event->domain,
					 .minors = event->minors,
					 .majors = event->majors,
					 .stack = stack == SIZE_MAX ? NO_STACK : (uint32_t)stack,
					 .kind = event->kind,
					 .source = event->source };
	return 0;
}

/*
 * Take the events that have come. Stop after TURN_NS, since a program may write faster than this
 * thread reads, and other threads wait for the lock. If ALL, take all events that have come before
 * this call, however long it takes; leave out later events.
 */
static int take_events(struct recorder *r, bool all)
{
	const int64_t until_ns = clock_ns(CLOCK_MONOTONIC) + TURN_NS;
	struct memprof_event event;
	size_t stack;
	int err = 0;

	if (all)
		memprof_finish(r->session);
	for (int n = 0; !err && memprof_next(r->session, &event); n++) {
		memprof_answers_see(&r->answers, event.domain);
		err = heap_enter(r->heap, &event, &stack);
		if (!err)
			err = keep_event(r, &event, stack);
		if (!all && n % EVENTS_A_LOOK == 0 && clock_ns(CLOCK_MONOTONIC) > until_ns)
			break;
	}
	return err;
}

/* Should the thread end? */
static bool is_at_end(const struct recorder *r, int64_t now_ns)
{
	return r->is_dropped || r->answers.is_closed || r->answers.has_stopped ||
	       (r->stop_ns && now_ns >= r->stop_ns + STOP_NS);
}

static int look(struct recorder *r, bool *is_end)
{
	const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	/* Take answers before events: events written before an answer are then not missed. */
	int err = memprof_answers_take(r->ctx, (pid_t)r->spec.pid, r->session, &r->answers);

	*is_end = is_at_end(r, now_ns);
	if (!err)
		err = take_events(r, *is_end);
	if (!err && memprof_answers_refuse(&r->answers, now_ns))
		err = memprof_answers_refusal(r->ctx, (pid_t)r->spec.pid, &r->answers);
	*is_end |= err != 0;
	r->losses = memprof_losses(r->session,
				   *is_end && r->answers.is_closed && !r->answers.has_stopped);
	return err;
}

/* Returns true if the thread should end. */
static bool step(struct recorder *r, bool *has_asked)
{
	bool is_end;
	int err;

	pthread_mutex_lock(&r->lock);
	if (r->stop_ns && !*has_asked)
		memprof_stop(r->session);
	*has_asked = r->stop_ns != 0;
	err = look(r, &is_end);
	if (err)
		r->why = message(r);
	if (is_end) {
		memprof_close(r->session);
		r->session = NULL;
		r->end_ns = clock_ns(CLOCK_MONOTONIC);
	}
	pthread_cond_broadcast(&r->news);
	pthread_mutex_unlock(&r->lock);
	return is_end;
}

/* ---- the thread ------------------------------------------------------------------------------ */

struct start {
	struct recorder *recorder;
	sem_t is_ready;
	bool has_own_files;
};

/*
 * Give the thread a separate table of descriptors, which has only the session's socket. Otherwise a
 * child of the program would keep the socket open, and the profile would not end with this process.
 */
static bool take_files(int socket)
{
	if (syscall(SYS_close_range, socket + 1, ~0U, CLOSE_RANGE_UNSHARE) != 0)
		return false;
	if (socket)
		syscall(SYS_close_range, 0, socket - 1, 0);
	return true;
}

static void *run(void *data)
{
	struct start *start = data;
	struct recorder *r = start->recorder;
	const int socket = memprof_fd(r->session);
	bool has_asked = false, is_dropped;

	prctl(PR_SET_NAME, "ocaml-probes");
	start->has_own_files = take_files(socket);
	sem_post(&start->is_ready);
	do {
		struct pollfd answer = { .fd = socket, .events = POLLIN };

		poll(&answer, 1, READ_MS);
	} while (!step(r, &has_asked));
	pthread_mutex_lock(&r->lock);
	is_dropped = r->is_dropped;
	r->is_over = true;
	pthread_mutex_unlock(&r->lock);
	if (is_dropped)
		recorder_free(r);
	return NULL;
}

/* Start the thread with all signals blocked: the program's own threads handle signals. */
static int start_thread(struct recorder *r)
{
	const int socket = memprof_fd(r->session);
	struct start start = { .recorder = r };
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int err = pthread_attr_init(&attributes);

	if (err)
		return ctx_error(r->ctx, -err, "cannot start a thread: %s", strerror(err));
	sem_init(&start.is_ready, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attributes, run, &start);
	while (!err && sem_wait(&start.is_ready) != 0)
		continue;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	sem_destroy(&start.is_ready);
	if (err)
		return ctx_error(r->ctx, -err, "cannot start a thread: %s", strerror(err));
	if (start.has_own_files)
		close(socket);
	return 0;
}

/* ---- for the stubs --------------------------------------------------------------------------- */

static int check(struct ocp_ctx *ctx, const struct recorder_spec *spec)
{
	if (spec->pid <= 0 || spec->pid > INT_MAX)
		return ctx_error(ctx, -EINVAL, "pid %ld: not a process id", spec->pid);
	if (!(spec->rate >= MEMPROF_MIN_RATE && spec->rate <= 1))
		return ctx_error(ctx, -EINVAL, "rate %g: not a number from %g to 1", spec->rate,
				 MEMPROF_MIN_RATE);
	if (spec->depth < 0 || spec->depth > MEMPROF_MAX_DEPTH)
		return ctx_error(ctx, -EINVAL, "callstack_size %ld: not a number from 0 to %d",
				 spec->depth, MEMPROF_MAX_DEPTH);
	if (spec->max_events < 0 || spec->max_events > RECORDER_MAX_EVENTS)
		return ctx_error(ctx, -EINVAL, "events %ld: not a number from 0 to %d",
				 spec->max_events, RECORDER_MAX_EVENTS);
	return 0;
}

static int start(struct recorder *r)
{
	const struct memprof_spec memprof = { .rate = r->spec.rate,
					      .depth = (uint32_t)r->spec.depth };
	int err = check(r->ctx, &r->spec);

	if (!err)
		err = heap_new(r->ctx, &r->heap);
	/* Read the map before the request: the program can end soon after the request. */
	if (!err)
		err = heap_names_open(r->ctx, (pid_t)r->spec.pid, &r->names);
	r->asked_ns = clock_ns(CLOCK_MONOTONIC);
	if (!err)
		err = memprof_open(r->ctx, (pid_t)r->spec.pid, &memprof, &r->session);
	return err ? err : start_thread(r);
}

static void init_news(struct recorder *r)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&r->news, &attributes);
	pthread_condattr_destroy(&attributes);
}

char *recorder_open(const struct recorder_spec *spec, struct recorder **out)
{
	struct recorder *r = calloc(1, sizeof(*r));
	char *why = NULL;

	*out = NULL;
	if (!r)
		return strdup("out of memory");
	r->spec = *spec;
	r->owner = getpid();
	pthread_mutex_init(&r->lock, NULL);
	init_news(r);
	r->ctx = ocp_ctx_new();
	if (!r->ctx) {
		why = strdup("out of memory");
	} else if (start(r) != 0) {
		why = message(r);
	} else {
		*out = r;
		return NULL;
	}
	recorder_free(r);
	return why;
}

/*
 * Does R belong to this process? A forked child has no thread, and the lock may be taken: the child
 * leaves the memory alone.
 */
static bool is_ours(const struct recorder *r)
{
	return r->owner == getpid();
}

static char *not_ours(void)
{
	return strdup("a child after fork has no profile of its parent");
}

void recorder_drop(struct recorder *r)
{
	bool is_over;

	if (!r || !is_ours(r))
		return;
	pthread_mutex_lock(&r->lock);
	is_over = r->is_over;
	r->is_dropped = true;
	pthread_mutex_unlock(&r->lock);
	if (is_over)
		recorder_free(r);
}

static enum recorder_state state_of(const struct recorder *r, int64_t in_domain)
{
	const struct memprof_answers *a = &r->answers;
	const bool runs =
		a->started_ns && (in_domain < 0 || memprof_answers_started(a, (uint32_t)in_domain));

	if (r->why)
		return RECORDER_FAILED;
	if (r->end_ns)
		return a->is_closed && !a->has_stopped ? RECORDER_ENDED : RECORDER_STOPPED;
	if (runs || r->stop_ns)
		return RECORDER_RUNNING;
	if (clock_ns(CLOCK_MONOTONIC) < r->asked_ns + MEMPROF_LATE_NS)
		return RECORDER_WAITING;
	return a->started_ns ? RECORDER_RUNNING : RECORDER_LATE;
}

enum recorder_state recorder_await(struct recorder *r, int64_t in_domain, int ms, char **why)
{
	const int64_t until_ns = clock_ns(CLOCK_MONOTONIC) + (int64_t)ms * 1000000;
	const struct timespec until = { .tv_sec = until_ns / 1000000000,
					.tv_nsec = until_ns % 1000000000 };
	enum recorder_state state;

	*why = NULL;
	if (!is_ours(r)) {
		*why = not_ours();
		return RECORDER_FAILED;
	}
	pthread_mutex_lock(&r->lock);
	state = state_of(r, in_domain);
	if (ms && (state == RECORDER_WAITING || (state == RECORDER_RUNNING && r->stop_ns))) {
		pthread_cond_timedwait(&r->news, &r->lock, &until);
		state = state_of(r, in_domain);
	}
	if (r->why)
		*why = strdup(r->why);
	pthread_mutex_unlock(&r->lock);
	return state;
}

void recorder_stop(struct recorder *r)
{
	if (!is_ours(r))
		return;
	pthread_mutex_lock(&r->lock);
	if (!r->stop_ns)
		r->stop_ns = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&r->lock);
}

struct recorded_event *recorder_take(struct recorder *r, size_t *n, char **why)
{
	struct recorded_event *events = NULL;

	*n = 0;
	*why = NULL;
	if (!is_ours(r)) {
		*why = not_ours();
		return NULL;
	}
	pthread_mutex_lock(&r->lock);
	if (r->why) {
		*why = strdup(r->why);
	} else {
		events = r->events;
		*n = r->n_events;
		r->events = NULL;
		r->n_events = r->room = 0;
	}
	pthread_mutex_unlock(&r->lock);
	return events;
}

/* The frames of STACK, the innermost first. NULL on failure, with a message in the ctx. */
static const struct named_frame **frames_of(struct recorder *r, const struct heap_stack *stack,
					    size_t *n)
{
	const struct named_frame *const *frames;
	const struct named_frame **copy;

	if (heap_names_of(r->names, stack->frames, stack->depth, &frames, n) != 0)
		return NULL;
	copy = calloc(*n, sizeof(struct named_frame *));
	if (!copy)
		ctx_no_memory(r->ctx);
	for (size_t i = 0; copy && i < *n; i++)
		copy[i] = frames[*n - 1 - i];
	return copy;
}

const struct named_frame **recorder_frames(struct recorder *r, size_t number, size_t *n, char **why)
{
	const struct named_frame **copy = NULL;
	const struct heap_stack *stacks;
	size_t n_stacks;

	*n = 0;
	*why = NULL;
	if (!is_ours(r)) {
		*why = not_ours();
		return NULL;
	}
	pthread_mutex_lock(&r->lock);
	stacks = heap_stacks(r->heap, &n_stacks);
	if (number < n_stacks) {
		copy = frames_of(r, &stacks[number], n);
		*why = copy ? NULL : message(r);
	}
	pthread_mutex_unlock(&r->lock);
	return copy;
}

/* ---- reports --------------------------------------------------------------------------------- */

static struct recorder_summary summary_of(const struct recorder *r)
{
	const int64_t end_ns = r->end_ns ? r->end_ns : clock_ns(CLOCK_MONOTONIC);
	const struct memprof_answers *a = &r->answers;
	struct recorder_summary summary = {
		.seconds = a->started_ns ? (double)(end_ns - a->started_ns) / 1e9 : 0,
		.losses = r->losses,
		.unread = r->unread,
		.left_out = heap_totals(r->heap).left_out,
		.has_stopped = a->has_stopped || a->is_closed,
		.n_refused = a->n_refused,
	};

	_Static_assert(sizeof(summary.refused) == sizeof(a->refused), "as many as there are");
	memcpy(summary.refused, a->refused, sizeof(summary.refused));
	return summary;
}

struct recorder_summary recorder_summary(struct recorder *r)
{
	struct recorder_summary summary;

	if (!is_ours(r))
		return (struct recorder_summary){ 0 };
	pthread_mutex_lock(&r->lock);
	summary = summary_of(r);
	pthread_mutex_unlock(&r->lock);
	return summary;
}

static int report(struct recorder *r, bool by_live, struct recorder_report *report)
{
	const struct heap_sites_order order = { .by_live = by_live, .by_leaf = true };
	const struct heap_stack *stacks = heap_stacks(r->heap, &report->n_stacks);
	int err = heap_sites(r->ctx, r->heap, r->names, order, &report->sites, &report->n_sites);

	if (err)
		return err;
	report->stacks = calloc(report->n_stacks + 1, sizeof(*stacks));
	if (!report->stacks) {
		free(report->sites);
		return ctx_no_memory(r->ctx);
	}
	if (report->n_stacks)
		memcpy(report->stacks, stacks, report->n_stacks * sizeof(*stacks));
	report->summary = summary_of(r);
	return 0;
}

char *recorder_report(struct recorder *r, bool by_live, struct recorder_report *to)
{
	char *why = NULL;

	*to = (struct recorder_report){ 0 };
	if (!is_ours(r))
		return not_ours();
	pthread_mutex_lock(&r->lock);
	if (r->why)
		why = strdup(r->why);
	else if (report(r, by_live, to) != 0)
		why = message(r);
	pthread_mutex_unlock(&r->lock);
	return why;
}
