// SPDX-License-Identifier: MIT
/*
 * Measure the processes of a file with the engine `inside`. The rule has a source for each process.
 * A forked child counts in the memory of its parent, and so with the parent's source, until it
 * executes a program. A process that executes the file again gets a new source.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/ctx.h"
#include "tracee/proc_file.h"
#include "watch/watch_rule.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

enum {
	RETRY_S = 5, /* how long to wait after a process could not be measured */
	/* Attempts, one per tick, for a process that may still be loading its libraries. */
	YOUNG_TRIES = 2,
	SETTLE_S = 2,	     /* how long to wait for a file that may still be being written */
	MAX_PROCESSES = 256, /* maximum per rule: each process takes about eight descriptors */
	MAX_OPENS = 16,	     /* maximum per tick */
};

/* ---- processes that cannot be measured ------------------------------------------------------ */

static void drop_refused(struct watch_rule *rule, size_t i)
{
	free(rule->refused[i].why);
	rule->refused[i] = rule->refused[--rule->n_refused];
}

void watch_inside_forget(struct watch_rule *rule)
{
	for (size_t i = 0; i < rule->n_refused; i++)
		free(rule->refused[i].why);
	free(rule->refused);
	rule->refused = NULL;
	rule->n_refused = 0;
}

static struct refused *find_refused(const struct watch_rule *rule, pid_t pid)
{
	for (size_t i = 0; i < rule->n_refused; i++)
		if (rule->refused[i].pid == pid)
			return &rule->refused[i];
	return NULL;
}

/*
 * Drop refused processes that have ended, including those whose pid belongs to another process now.
 */
static void drop_ended(struct watch_rule *rule)
{
	uint64_t start_time;

	for (size_t i = rule->n_refused; i-- > 0;)
		if (proc_start_time(rule->refused[i].pid, &start_time) != 0 ||
		    start_time != rule->refused[i].start_time)
			drop_refused(rule, i);
}

/* Record that PID cannot be measured. The error in CTX is the reason. */
static int note_refused_process(struct watch_rule *rule, struct ocp_ctx *ctx, pid_t pid,
				int64_t now_ns)
{
	struct refused *refused = find_refused(rule, pid);
	const char *hint = ocp_hint(ctx);
	char *why;

	if (asprintf(&why, "%s%s%s%s", ocp_error(ctx), hint ? " (" : "", hint ? hint : "",
		     hint ? ")" : "") < 0)
		return ctx_no_memory(ctx);
	if (!refused) {
		refused = array_add(rule->refused, rule->n_refused);
		if (!refused) {
			free(why);
			return ctx_no_memory(ctx);
		}
		*refused = (struct refused){ .pid = pid };
		proc_start_time(pid, &refused->start_time);
	}
	free(refused->why);
	refused->why = why;
	refused->tries++;
	refused->retry_ns = refused->tries < YOUNG_TRIES ? now_ns : now_ns + RETRY_S * SECOND_NS;
	return 0;
}

/* Return why a process of RULE cannot be measured, or NULL if all can be measured. */
static const char *first_refused(const struct watch_rule *rule)
{
	for (size_t i = 0; i < rule->n_refused; i++)
		if (rule->refused[i].tries >= YOUNG_TRIES)
			return rule->refused[i].why;
	return NULL;
}

/* ---- sources -------------------------------------------------------------------------------- */

/*
 * End sources of overwritten files, and sources whose process and children do not count any more.
 */
static int end_old(struct watch_rule *rule, int64_t now_ns)
{
	struct target *target = rule->target;
	int err = 0;

	for (size_t i = target->n_sources; !err && i-- > 0;) {
		const struct source *source = target->sources[i];

		if (source->owner != rule)
			continue;
		if (source->is_stale)
			rule->settle_ns = now_ns + SETTLE_S * SECOND_NS;
		else if (!source->has_left || source->n_children)
			continue;
		err = target_end_source(target, i);
	}
	return err;
}

static size_t count_own(const struct watch_rule *rule)
{
	size_t n = 0;

	for (size_t i = 0; i < rule->target->n_sources; i++)
		n += rule->target->sources[i]->owner == rule;
	return n;
}

/* Set *IS_CHILD to whether PID is a child that counts with a source of RULE. */
static int adopt(struct watch_rule *rule, pid_t pid, bool *is_child)
{
	struct target *target = rule->target;
	int err = 0;

	*is_child = false;
	for (size_t i = 0; !*is_child && i < target->n_sources; i++)
		*is_child = target->sources[i]->owner == rule &&
			    source_has_child(target->sources[i], pid);
	for (size_t i = 0; !err && !*is_child && i < target->n_sources; i++)
		if (target->sources[i]->owner == rule)
			err = source_adopt(target->sources[i], pid, is_child);
	return err;
}

static int open_target_inside(struct watch_rule *rule, struct targets *targets, pid_t pid,
			      int64_t now_ns)
{
	struct ocp_ctx *ctx = targets->ctx;
	struct refused *refused;
	int err;

	if (count_own(rule) >= MAX_PROCESSES)
		err = ctx_error(
			ctx, -E2BIG,
			"pid %d: not measured: at most %d processes of a program count inside",
			(int)pid, MAX_PROCESSES);
	else
		err = watch_rule_open(rule, targets, rule->target, NULL, pid);
	/* The process has ended in the meantime. */
	if (err == -ESRCH)
		return 0;
	if (err && err != -ENOMEM)
		return note_refused_process(rule, ctx, pid, now_ns);
	refused = find_refused(rule, pid);
	if (!err && refused)
		drop_refused(rule, (size_t)(refused - rule->refused));
	return err;
}

/* Measure PID, unless it is measured already. *N_OPENED counts the attempts of this tick. */
static int measure_inside(struct watch_rule *rule, struct targets *targets, pid_t pid,
			  int64_t now_ns, size_t *n_opened)
{
	const struct refused *refused = find_refused(rule, pid);
	bool is_child = false;
	int err;

	if (watch_rule_is_watched(rule->target, pid) || !watch_rule_is_in_container(rule, pid))
		return 0;
	err = adopt(rule, pid, &is_child);
	if (err || is_child || *n_opened >= MAX_OPENS || (refused && now_ns < refused->retry_ns))
		return err;
	++*n_opened;
	return open_target_inside(rule, targets, pid, now_ns);
}

/* Measure all processes that run FILE. */
static int take_all(struct watch_rule *rule, struct targets *targets, const struct stat *file,
		    int64_t now_ns, size_t *n_opened)
{
	const char *slash = strrchr(rule->exe, '/'), *base = slash ? slash + 1 : rule->exe;
	struct found_processes found;
	int err = find_processes(targets->ctx, file, base, &targets->known, &found);

	if (!err)
		find_warn_of_hidden(targets->ctx, &rule->hidden, &found, base);
	for (size_t i = 0; !err && i < found.n; i++)
		err = measure_inside(rule, targets, found.pids[i], now_ns, n_opened);
	found_processes_free(&found);
	return err;
}

/*
 * Measure new processes of files that were at the path before: a process of an old file may fork,
 * and may execute the old file again.
 */
static int take_generations(struct watch_rule *rule, struct targets *targets,
			    const struct stat *now, int64_t now_ns, size_t *n_opened)
{
	struct target *target = rule->target;
	const size_t n = target->n_sources;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		const struct source *source = target->sources[i];
		const struct stat file = { .st_dev = source->dev, .st_ino = source->ino };
		bool is_known = source->owner != rule ||
				(file.st_dev == now->st_dev && file.st_ino == now->st_ino);

		for (size_t j = 0; !is_known && j < i; j++)
			is_known = target->sources[j]->owner == rule &&
				   target->sources[j]->dev == file.st_dev &&
				   target->sources[j]->ino == file.st_ino;
		if (!is_known)
			err = take_all(rule, targets, &file, now_ns, n_opened);
	}
	return err;
}

int watch_inside_tell_outgrown(const struct watch_rule *rule)
{
	struct target *target = rule->target;

	for (size_t i = 0; i < target->n_sources; i++) {
		const struct source *source = target->sources[i];

		if (source->owner != rule || !source->is_outgrown)
			continue;
		ctx_error(target->ctx, -ENOTSUP,
			  "pid %d: has loaded files with probes, which are not counted inside",
			  (int)source->pid);
		return target_set_problem(target, ocp_error(target->ctx));
	}
	return target_set_problem(target, NULL);
}

int watch_inside_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	struct stat file = { 0 };
	const int missing = stat(rule->exe, &file) != 0 ? errno : 0;
	size_t n_opened = 0;
	const char *why;
	int err = 0;

	drop_ended(rule);
	if (!missing && now_ns >= rule->settle_ns)
		err = take_all(rule, targets, &file, now_ns, &n_opened);
	if (!err)
		err = take_generations(rule, targets, &file, now_ns, &n_opened);
	/*
	 * End old sources only now: take_all() may just have found a child that counts with the
	 * source of an ended process.
	 */
	if (!err)
		err = end_old(rule, now_ns);
	if (err)
		return err == -ENOMEM ? err
				      : target_set_problem(rule->target, ocp_error(targets->ctx));
	why = first_refused(rule);
	if (why && watch_rule_falls_back(rule, targets->ctx, why)) {
		watch_inside_forget(rule);
		err = target_end_sources(rule->target, rule, target_end_source);
		return err ? err : watch_rule_follow(rule, targets, now_ns);
	}
	if (missing && !count_own(rule))
		return watch_rule_tell_missing(rule, missing);
	return why ? target_set_problem(rule->target, why) : watch_inside_tell_outgrown(rule);
}
