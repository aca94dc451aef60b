// SPDX-License-Identifier: MIT
#include "profile/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/search.h"
#include "look/proc_file.h"

/* A process that is or was sampled. */
struct followed_process {
	pid_t pid;
	uint32_t tgid;
	uint64_t start_time;
	char *exe;
	bool is_sampled; /* false: the process cannot be sampled */
	bool has_left;	 /* the process must not be sampled any more */
	/* for PROFILE_WORDS: how many words the values of records already contain */
	double words;
};

/* What was counted for one stack in one thread since the recorder was opened. */
struct record {
	uint64_t stack;
	uint32_t tgid, tid;
	uint64_t n, sum, heaps;		   /* as in struct profile_sample */
	double value;			   /* never decreases */
	const struct stored_stack *walked; /* the stack in the newest reading */
};

struct recorder {
	struct ocp_ctx *ctx;
	struct profiler_spec spec;
	struct profiler *profiler;
	struct frame_names *names;
	struct followed_process followed[RECORDER_MAX_PROCESSES];
	size_t n_followed;
	struct profile_reading reading;
	struct record *records; /* sorted; one record for each sample of `reading` */
	size_t n_records;
	struct record_mark start;
	bool is_running, is_worn;
};

/* ---- open and close ------------------------------------------------------------------------- */

int recorder_open(struct ocp_ctx *ctx, enum profile_kind kind, unsigned int hz, bool by_ptrace,
		  struct recorder **out)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int err;

	*out = NULL;
	if (!r)
		return ctx_no_memory(ctx);
	r->ctx = ctx;
	r->spec = (struct profiler_spec){ .kind = kind,
					  .hz = hz,
					  .by_ptrace = by_ptrace,
					  .max_processes = RECORDER_MAX_PROCESSES };
	r->start.start_ns = (uint64_t)clock_ns(CLOCK_REALTIME);
	r->start.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
	err = profiler_open(ctx, &r->spec, &r->profiler);
	if (!err)
		err = frame_names_open(ctx, profiler_walker(r->profiler), &r->names);
	if (err)
		recorder_close(r);
	else
		*out = r;
	return err;
}

void recorder_close(struct recorder *r)
{
	if (!r)
		return;
	profile_reading_free(&r->reading);
	frame_names_close(r->names);
	profiler_close(r->profiler);
	for (size_t i = 0; i < r->n_followed; i++)
		free(r->followed[i].exe);
	free(r->records);
	free(r);
}

int recorder_start(struct recorder *r)
{
	int err = r->is_running ? 0 : profiler_start(r->profiler);

	if (err)
		profiler_pause(r->profiler);
	else
		r->is_running = true;
	return err;
}

void recorder_pause(struct recorder *r)
{
	profiler_pause(r->profiler);
	r->is_running = false;
}

int recorder_refresh(struct recorder *r)
{
	return profiler_refresh(r->profiler);
}

bool recorder_is_worn(const struct recorder *r)
{
	return r->is_worn;
}

/* ---- processes ------------------------------------------------------------------------------ */

static int add_sampled_process(struct recorder *r, const struct recorded_process *process)
{
	struct followed_process new = { .pid = process->pid, .exe = strdup(process->exe) };
	int err;

	if (!new.exe)
		return ctx_no_memory(r->ctx);
	err = proc_start_time(new.pid, &new.start_time);
	if (err) { /* the process has ended */
		free(new.exe);
		return 0;
	}
	err = profiler_process_id(r->profiler, new.pid, &new.tgid);
	if (!err)
		err = profiler_add_process(r->profiler, new.pid);
	if (err && err != -ESRCH)
		ctx_log(r->ctx, OCP_LOG_WARN, "pid %d: not profiled: %s", (int)new.pid,
			ocp_error(r->ctx));
	new.is_sampled = !err;
	r->followed[r->n_followed++] = new;
	return err == -ENOMEM ? err : 0;
}

/*
 * Return true if KNOWN is still the process that was added. Return false if the BPF programs have
 * forgotten KNOWN: they forget a process when it executes another program.
 */
static bool is_same_process(const struct recorder *r, const struct followed_process *known,
			    const struct recorded_process *process)
{
	uint64_t start_time;

	if (proc_start_time(process->pid, &start_time) != 0)
		return true; /* the process has ended: the next list will not contain it */
	return known->start_time == start_time && strcmp(known->exe, process->exe) == 0 &&
	       !known->has_left &&
	       (!known->is_sampled || profiler_has_process(r->profiler, known->tgid));
}

static int follow_one(struct recorder *r, const struct recorded_process *process)
{
	size_t i = 0;

	while (i < r->n_followed && r->followed[i].pid != process->pid)
		i++;
	if (i < r->n_followed) {
		r->is_worn |= !is_same_process(r, &r->followed[i], process);
		return 0;
	}
	if (r->n_followed < RECORDER_MAX_PROCESSES)
		return add_sampled_process(r, process);
	r->is_worn = true;
	return 0;
}

int recorder_follow(struct recorder *r, const struct recorded_process *list, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < r->n_followed; i++) {
		struct followed_process *known = &r->followed[i];
		size_t at = 0;

		while (at < n &&
		       (list[at].pid != known->pid || strcmp(list[at].exe, known->exe) != 0))
			at++;
		if (at < n || known->has_left)
			continue;
		known->has_left = true;
		if (known->is_sampled)
			profiler_forget_process(r->profiler, known->tgid);
	}
	for (size_t i = 0; i < n && !err; i++)
		err = follow_one(r, &list[i]);
	return err;
}

static struct followed_process *find_followed(struct recorder *r, uint32_t tgid)
{
	for (size_t i = 0; i < r->n_followed; i++)
		if (r->followed[i].tgid == tgid && r->followed[i].is_sampled)
			return &r->followed[i];
	return NULL;
}

/* ---- readings ------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid > y->tgid ? 1 : -1;
	if (x->stack != y->stack)
		return x->stack > y->stack ? 1 : -1;
	return COMPARE(x->tid, y->tid);
}

static const struct record *find_record(const struct record *list, size_t n,
					const struct record *key)
{
	return n ? bsearch(key, list, n, sizeof(*key), by_key) : NULL;
}

/*
 * RECORDS[0..N) are all records of one process. Their samples stand for a number of minor heaps.
 * Return by how much this number has grown since the last reading.
 */
static uint64_t new_heaps(const struct recorder *r, const struct record *records, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct record *old = find_record(r->records, r->n_records, &records[i]);

		sum += records[i].heaps - (old ? old->heaps : 0);
	}
	return sum;
}

/*
 * RECORDS[0..N) are all records of one process. Set their values: the values of the previous
 * reading, plus what is new in this reading. The words allocated since the last sample of a minor
 * heap are divided among the new samples of minor heaps. If there is no new sample, the words are
 * left for a later reading.
 */
static void weigh_process(struct recorder *r, struct record *records, size_t n)
{
	struct followed_process *process = find_followed(r, records->tgid);
	const uint64_t heaps =
		r->spec.kind == PROFILE_WORDS && process ? new_heaps(r, records, n) : 0;
	double each = 0;

	if (heaps) {
		const double words = profiler_minor_words(r->profiler, records->tgid);

		each = (words - process->words) / (double)heaps;
		process->words = words;
	}
	for (size_t i = 0; i < n; i++) {
		const struct record *old = find_record(r->records, r->n_records, &records[i]);
		const uint64_t new = records[i].n - (old ? old->n : 0);

		records[i].value = old ? old->value : 0;
		if (r->spec.kind == PROFILE_CPU && !r->spec.by_ptrace)
			records[i].value += (double)new *(1e9 / r->spec.hz);
		else
			records[i].value +=
				(double)(records[i].sum - (old ? old->sum : 0)) +
				(double)(records[i].heaps - (old ? old->heaps : 0)) * each;
	}
}

/* Replace the records of R by records made from READING. */
static int use_reading(struct recorder *r, const struct profile_reading *reading)
{
	struct record *list = calloc(reading->n + 1, sizeof(*list));

	if (!list)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < reading->n; i++) {
		const struct profile_sample *s = &reading->samples[i];

		list[i] = (struct record){ .stack = s->stack->key,
					   .tgid = s->tgid,
					   .tid = s->tid,
					   .n = s->n,
					   .sum = s->sum,
					   .heaps = s->heaps,
					   .walked = s->stack };
	}
	qsort(list, reading->n, sizeof(*list), by_key);
	for (size_t i = 0, end; i < reading->n; i = end) {
		for (end = i + 1; end < reading->n && list[end].tgid == list[i].tgid;)
			end++;
		weigh_process(r, list + i, end - i);
	}
	free(r->records);
	r->records = list;
	r->n_records = reading->n;
	return 0;
}

static int collect_reading(struct recorder *r)
{
	struct profile_reading reading;
	int err = profiler_refresh(r->profiler);

	if (!err)
		err = profiler_read(r->profiler, &reading);
	if (err)
		return err;
	err = use_reading(r, &reading);
	if (err) {
		profile_reading_free(&reading);
		return err;
	}
	profile_reading_free(&r->reading);
	r->reading = reading;
	r->is_worn |= reading.n > PROFILE_MAX_COUNTS / 2 ||
		      (reading.stacks && stack_store_size(reading.stacks) > STACKS_MAX / 2);
	return 0;
}

int recorder_mark(struct recorder *r, struct record_mark *mark)
{
	int err = collect_reading(r);

	if (err)
		return err;
	*mark = (struct record_mark){ .records = calloc(r->n_records + 1, sizeof(struct record)),
				      .n = r->n_records,
				      .losses = r->reading.losses,
				      .stack_losses = r->reading.stack_losses,
				      .start_ns = (uint64_t)clock_ns(CLOCK_REALTIME),
				      .monotonic_ns = clock_ns(CLOCK_MONOTONIC) };
	if (!mark->records)
		return ctx_no_memory(r->ctx);
	memcpy(mark->records, r->records, r->n_records * sizeof(struct record));
	return 0;
}

void record_mark_free(struct record_mark *mark)
{
	free(mark->records);
	*mark = (struct record_mark){ 0 };
}

/* ---- profiles ------------------------------------------------------------------------------- */

bool record_filter_has(const struct record_filter *filter, const char *exe, pid_t pid)
{
	return (!filter->exe || strcmp(filter->exe, exe) == 0) &&
	       (!filter->pid || filter->pid == pid);
}

/* Set the losses of PART to those that happened since MARK. */
static void set_losses(const struct recorder *r, const struct record_mark *mark,
		       struct profile_reading *part)
{
	struct profile_losses *losses = &part->losses;
	struct stack_losses *of_stacks = &part->stack_losses;

	*losses = r->reading.losses;
	losses->counts_full -= mark->losses.counts_full;
	losses->waits_full -= mark->losses.waits_full;
	losses->large_hits -= mark->losses.large_hits;
	*of_stacks = r->reading.stack_losses;
	of_stacks->full -= mark->stack_losses.full;
	of_stacks->collisions -= mark->stack_losses.collisions;
	for (int end = 0; end < WALK_ENDS; end++)
		of_stacks->ended[end] -= mark->stack_losses.ended[end];
}

/* Append to PART a sample with the increase of RECORD since MARK. */
static void add_since(const struct record *record, const struct record_mark *mark,
		      struct profile_reading *part)
{
	const struct record *old = find_record(mark->records, mark->n, record);
	const uint64_t n = record->n - (old ? old->n : 0);
	const double value = record->value - (old ? old->value : 0);

	if (n)
		part->samples[part->n++] = (struct profile_sample){ .stack = record->walked,
								    .tgid = record->tgid,
								    .tid = record->tid,
								    .n = n,
								    .value = (uint64_t)value };
}

struct profile_parts {
	struct recorder *r;
	const struct record_mark *mark;
	struct profile_reading part; /* samples of the profile that is being made */
	struct process_profile *list;
	size_t n;
};

/* Make a profile from the samples collected in `part`, and empty `part`. */
static int end_part(struct profile_parts *t, const char *exe, pid_t pid)
{
	struct process_profile *made = &t->list[t->n];
	int err = profile_make(t->r->ctx, &t->part, t->r->names, &t->r->spec, &made->profile);

	t->part.n = 0;
	t->part.losses = (struct profile_losses){ 0 };
	t->part.stack_losses = (struct stack_losses){ 0 };
	if (err)
		return err;
	made->profile.start_ns = t->mark->start_ns;
	made->profile.duration_ns = (uint64_t)(clock_ns(CLOCK_MONOTONIC) - t->mark->monotonic_ns);
	made->exe = exe;
	made->pid = pid;
	t->n++;
	return 0;
}

static int take_parts(struct profile_parts *t, const struct record_filter *filter, bool is_one)
{
	struct recorder *r = t->r;
	int err = 0;

	for (size_t i = 0, end; i < r->n_records && !err; i = end) {
		const struct followed_process *process = find_followed(r, r->records[i].tgid);
		const bool is_wanted =
			process && record_filter_has(filter, process->exe, process->pid);

		for (end = i; end < r->n_records && r->records[end].tgid == r->records[i].tgid;
		     end++)
			if (is_wanted)
				add_since(&r->records[end], t->mark, &t->part);
		if (is_wanted && !is_one && t->part.n)
			err = end_part(t, process->exe, process->pid);
	}
	if (!err && (is_one || !t->n))
		err = end_part(t, NULL, 0);
	return err;
}

int recorder_take(struct recorder *r, const struct record_mark *mark,
		  const struct record_filter *filter, bool is_one, struct process_profile **list,
		  size_t *n)
{
	struct profile_parts t = { .r = r, .mark = mark->start_ns ? mark : &r->start };
	int err = collect_reading(r);

	*list = NULL;
	*n = 0;
	if (err)
		return err;
	t.part.samples = calloc(r->n_records + 1, sizeof(*t.part.samples));
	t.list = calloc(RECORDER_MAX_PROCESSES + 1, sizeof(*t.list));
	set_losses(r, t.mark, &t.part);
	err = t.part.samples && t.list ? take_parts(&t, filter, is_one) : ctx_no_memory(r->ctx);
	free(t.part.samples);
	if (err) {
		process_profiles_free(t.list, t.n);
		return err;
	}
	*list = t.list;
	*n = t.n;
	return 0;
}

void process_profiles_free(struct process_profile *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		profile_free(&list[i].profile);
	free(list);
}
