// SPDX-License-Identifier: MIT
#include "watch/watch_rule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "measure/meter.h"
#include "process/scan.h"
#include "look/proc_file.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)
#define MS_NS	  ((int64_t)1000 * 1000)

enum {
	RETRY_S = 5,  /* how long to wait after a source or process could not be measured */
	SETTLE_S = 2, /* how long to wait for a file that is perhaps still being written */
	SCAN_S = 5,   /* time between two searches for new programs */
	/*
	 * How long a search waits for the examination of new files; FIRST_WAIT_MS is for the first
	 * search.
	 */
	WAIT_MS = 50,
	FIRST_WAIT_MS = 2000,
	/*
	 * How long a file that a search has found stays attached while no process runs it, so that
	 * its next process is measured from the first instruction. At most MAX_IDLE such files stay
	 * attached, since each takes 24 descriptors.
	 */
	IDLE_S = 60,
	MAX_IDLE = 8,
	/* With the engine `inside`: */
	/* Attempts, one per tick, for a process that may still be loading its libraries. */
	YOUNG_TRIES = 2,
	MAX_PROCESSES = 256, /* maximum per rule: each process takes about eight descriptors */
	MAX_OPENS = 16,	     /* maximum per tick */
};

/* ---- processes that cannot be measured inside ------------------------------------------------ */

static void drop_refused(struct watch_rule *rule, size_t i)
{
	free(rule->refused[i].why);
	rule->refused[i] = rule->refused[--rule->n_refused];
}

static void watch_inside_forget(struct watch_rule *rule)
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

/*
 * Return why a process of RULE cannot be measured. NULL: no process was refused YOUNG_TRIES times.
 */
static const char *first_refused(const struct watch_rule *rule)
{
	for (size_t i = 0; i < rule->n_refused; i++)
		if (rule->refused[i].tries >= YOUNG_TRIES)
			return rule->refused[i].why;
	return NULL;
}

/* ---- the engine ------------------------------------------------------------------------------ */

/*
 * Return true if everything that RULE requests can be measured inside, in each process separately.
 */
static bool fits_inside(const struct targets *targets, const struct watch_rule *rule)
{
	return !targets->by_process && !measure_request_watch_needs_bpf(rule->request);
}

/*
 * Set RULE's engine as SPEC requests. -EINVAL if SPEC requests the engine `inside`, but that engine
 * cannot measure SPEC.
 */
static int watch_rule_choose_engine(struct watch_rule *rule, const struct targets *targets,
				    const struct watch_spec *spec)
{
	const bool is_named = spec->pid || spec->exe;

	rule->engine = spec->engine;
	rule->is_inside = spec->engine == ENGINE_INSIDE;
	if (rule->is_inside && !is_named)
		return ctx_error(targets->ctx, -EINVAL,
				 "the engine `inside` is for programs that are named");
	if (rule->is_inside && targets->by_process)
		return ctx_error(targets->ctx, -EINVAL,
				 "the engine `inside` does not split counts by process");
	if ((spec->engine != ENGINE_AUTO && spec->engine != ENGINE_DEFAULT) || !is_named ||
	    !fits_inside(targets, rule) || !meter_lacks_bpf(targets->ctx))
		return 0;
	rule->is_inside = true;
	ctx_log(targets->ctx, OCP_LOG_INFO, "engine: inside, since BPF is not available: %s",
		ocp_error(targets->ctx));
	return 0;
}

/*
 * Handle the case that the engine `inside` has refused a process; WHY is the message. With
 * ENGINE_AUTO, if BPF is permitted, use BPF from now on and return true. Otherwise, return false.
 */
static bool watch_rule_falls_back(struct watch_rule *rule, struct ocp_ctx *ctx, const char *why)
{
	char *copy;

	if (rule->engine != ENGINE_AUTO || !rule->is_inside || rule->was_refused)
		return false;
	copy = strdup(why);
	rule->was_refused = true;
	rule->is_inside = ocp_meter_check(ctx) != 0;
	if (!rule->is_inside)
		ctx_log(ctx, OCP_LOG_WARN, "engine: bpf: %s", copy ? copy : "inside is refused");
	else
		ctx_error(ctx, -ENOTSUP, "%s", copy ? copy : "cannot count inside");
	free(copy);
	return !rule->is_inside;
}

/* ---- rules ---------------------------------------------------------------------------------- */

void watch_rule_free(struct watch_rule *rule)
{
	if (!rule)
		return;
	source_free(rule->first);
	measure_request_drop(rule->request);
	watch_inside_forget(rule);
	free(rule->hidden.pids);
	if (rule->foreign_file >= 0)
		close(rule->foreign_file);
	free((char *)rule->label.name);
	free(rule->exe);
	free(rule);
}

/* Remove the suffix " (deleted)", which /proc adds to the path of a replaced file. */
static void strip_deleted(char *path)
{
	static const char deleted[] = " (deleted)";
	const size_t bytes = strlen(path), its = sizeof(deleted) - 1;

	if (bytes > its && strcmp(path + bytes - its, deleted) == 0)
		path[bytes - its] = '\0';
}

/*
 * Return PATH as an absolute path, which the caller frees. Do not resolve symbolic links: a
 * deployment with `ln -sfn release-2 current` changes where a link leads, but the name of the
 * target must stay the same.
 */
static char *absolute_path(const char *path)
{
	char *cwd, *absolute = NULL;

	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	if (path[0] == '/')
		return strdup(path);
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return realpath(path, NULL);
	if (asprintf(&absolute, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path) < 0)
		absolute = NULL;
	free(cwd);
	return absolute;
}

/*
 * If process PID is in another mount namespace, and the path of its executable names another file
 * in our namespace, keep the executable open.
 */
static int keep_foreign_file(struct ocp_ctx *ctx, struct watch_rule *rule, pid_t pid)
{
	char path[64];
	struct stat ours, its;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (stat("/proc/self/ns/mnt", &ours) != 0 || stat(path, &its) != 0 ||
	    (ours.st_dev == its.st_dev && ours.st_ino == its.st_ino))
		return 0;
	if (stat(rule->exe, &ours) == 0 && ours.st_dev == rule->first->dev &&
	    ours.st_ino == rule->first->ino)
		return 0;
	rule->foreign_file = fcntl(rule->first->file, F_DUPFD_CLOEXEC, 0);
	return rule->foreign_file < 0 ? ctx_error(ctx, -errno, "%s: %s", rule->exe, strerror(errno))
				      : 0;
}

/*
 * If PATH leads through the root directory of a process (/proc/PID/root/...), set *CONTAINER to the
 * container of that process.
 */
static void find_container_of_path(const char *path, struct container *container)
{
	int pid, end = 0;

	if (sscanf(path, "/proc/%d/root/%n", &pid, &end) == 1 && end && pid > 0)
		container_read(pid, container);
}

static int name_executable(struct ocp_ctx *ctx, struct watch_rule *rule,
			   const struct watch_spec *spec)
{
	rule->exe =
		spec->pid ? strdup(ocp_process_exe(rule->first->proc)) : absolute_path(spec->exe);
	if (!rule->exe)
		return ctx_no_memory(ctx);
	if (!spec->pid) {
		find_container_of_path(rule->exe, &rule->container);
		return 0;
	}
	strip_deleted(rule->exe);
	container_read(spec->pid, &rule->container);
	return keep_foreign_file(ctx, rule, spec->pid);
}

/*
 * Check that the file can be opened. For counting inside, this is enough: each process of the file
 * gets a source when it is found.
 */
static int check_file(struct ocp_ctx *ctx, const char *path)
{
	struct ocp_program *program;
	int err = ocp_program_open(ctx, path, &program);

	if (!err)
		ocp_program_free(program);
	return err;
}

/* Open a source of RULE for process PID or, if PID is 0, for the file at PATH. */
static int open_process_or_file(const struct watch_rule *rule, struct targets *targets,
				const char *path, pid_t pid, struct source **out)
{
	const struct watch_spec spec = { .exe = path,
					 .pid = pid,
					 .request = rule->request,
					 .engine = rule->is_inside ? ENGINE_INSIDE : ENGINE_BPF };

	return source_open(targets->ctx, &spec, targets->by_process, &targets->known, out);
}

static int open_first(struct targets *targets, const struct watch_spec *spec,
		      struct watch_rule *rule)
{
	if (rule->is_inside && !spec->pid)
		return check_file(targets->ctx, spec->exe);
	return open_process_or_file(rule, targets, spec->exe, spec->pid, &rule->first);
}

static bool is_waited_for(const struct watch_spec *spec)
{
	struct stat st;

	return spec->may_be_missing && !spec->pid && stat(spec->exe, &st) != 0 && errno == ENOENT;
}

/* Copy the label of SPEC. -EINVAL if hits cannot be split as SPEC demands. */
static int take_label(struct watch_rule *rule, const struct targets *targets,
		      const struct watch_spec *spec)
{
	if (!spec->request->by)
		return 0;
	if (targets->by_process)
		return ctx_error(targets->ctx, -EINVAL,
				 "hits are split by the value of an argument or by process "
				 "(label_pid), not by both");
	rule->label.limit = spec->label.limit;
	rule->label.name = strdup(spec->label.name);
	return rule->label.name ? 0 : ctx_no_memory(targets->ctx);
}

static bool is_label_equal(const struct watch_rule *rule, const struct watch_spec *spec)
{
	if (!rule->label.name || !spec->request->by)
		return !rule->label.name && !spec->request->by;
	return rule->label.limit == spec->label.limit &&
	       strcmp(rule->label.name, spec->label.name) == 0;
}

int watch_rule_new(struct targets *targets, const struct watch_spec *spec, struct watch_rule **out)
{
	struct ocp_ctx *ctx = targets->ctx;
	struct watch_rule *rule = calloc(1, sizeof(*rule));
	int err;

	if (!rule)
		return ctx_no_memory(ctx);
	rule->foreign_file = -1;
	rule->pid = spec->pid;
	rule->request = measure_request_copy(spec->request);
	err = rule->request ? take_label(rule, targets, spec) : ctx_no_memory(ctx);
	if (!err)
		err = watch_rule_choose_engine(rule, targets, spec);
	if (!err && !spec->pid && !spec->exe) {
		err = measure_request_has_code(rule->request)
			      ? ctx_error(ctx, -EINVAL,
					  "functions of unnamed programs are not read")
			      : ocp_meter_check(ctx);
	} else if (!err) {
		err = is_waited_for(spec) ? 0 : open_first(targets, spec, rule);
		if (!err)
			err = name_executable(ctx, rule, spec);
	}
	if (err) {
		watch_rule_free(rule);
		return err;
	}
	*out = rule;
	return 0;
}

bool watch_rule_is_for(const struct watch_rule *rule, const struct watch_spec *spec)
{
	char *exe;
	bool is_it;

	if (rule->pid != spec->pid || rule->engine != spec->engine ||
	    !measure_request_equal(rule->request, spec->request) || !is_label_equal(rule, spec))
		return false;
	if (spec->pid || !spec->exe || !rule->exe)
		return spec->pid || (!spec->exe && !rule->exe);
	exe = absolute_path(spec->exe);
	is_it = exe && strcmp(rule->exe, exe) == 0;
	free(exe);
	return is_it;
}

static int stat_executable(const struct watch_rule *rule, struct stat *st)
{
	return rule->foreign_file >= 0 ? fstat(rule->foreign_file, st) : stat(rule->exe, st);
}

bool watch_rule_has_file_of(const struct watch_rule *rule, const struct watch_rule *other)
{
	struct stat its, others;

	if (strcmp(rule->exe, other->exe) == 0 &&
	    container_equal(&rule->container, &other->container))
		return true;
	return stat_executable(rule, &its) == 0 && stat_executable(other, &others) == 0 &&
	       its.st_dev == others.st_dev && its.st_ino == others.st_ino;
}

/* Attach SOURCE, and add it to TARGET. After an error, SOURCE has been freed. */
static int start_source(struct watch_rule *rule, struct target *target, struct source *source)
{
	int err;

	source->owner = rule;
	rule->last_pid = source->pid;
	if (!rule->exe)
		source->container = target->container;
	/*
	 * Switch off the counters that are off in TARGET. This fails for probes that SOURCE lacks,
	 * which does no harm.
	 */
	for (size_t i = 0; i < target->view.n_probes; i++)
		if (target->probe_records[i]->is_off)
			ocp_meter_switch(source->meter, target->probes[i].name, false);
	err = source_attach(source);
	if (!err)
		err = target_add_source(target, source);
	if (err) {
		source_free(source);
	} else if (!target->has_told_matching) {
		source_tell_matching(source, target->title);
		target->has_told_matching = true;
	}
	return err;
}

int watch_rule_start(struct watch_rule *rule)
{
	struct source *source = rule->first;

	rule->first = NULL;
	return start_source(rule, rule->target, source);
}

/* ---- following ------------------------------------------------------------------------------ */

/*
 * If ERR is an error other than -ENOMEM, make it the target's problem, and retry later. Return 0 or
 * -ENOMEM.
 */
static int note_problem(struct watch_rule *rule, struct target *target, int err, int64_t now_ns)
{
	if (err == 0 || err == -ENOMEM)
		return err;
	rule->retry_ns = now_ns + RETRY_S * SECOND_NS;
	return target_set_problem(target, ocp_error(target->ctx));
}

/* Open a source for process PID or, if PID is 0, for the file at PATH, and add it to TARGET. */
static int watch_rule_open(struct watch_rule *rule, struct targets *targets, struct target *target,
			   const char *path, pid_t pid)
{
	struct source *source;
	int err = open_process_or_file(rule, targets, path, pid, &source);

	return err ? err : start_source(rule, target, source);
}

/*
 * Open another source for TARGET. Do nothing if it is too early for a retry, or if measuring TARGET
 * was ended because of the budget.
 */
static int open_source(struct watch_rule *rule, struct targets *targets, struct target *target,
		       const char *path, pid_t pid, int64_t now_ns)
{
	int err;

	if (now_ns < rule->retry_ns || target->is_over_budget)
		return 0;
	err = watch_rule_open(rule, targets, target, path, pid);
	if (err && err != -ENOMEM &&
	    watch_rule_falls_back(rule, target->ctx, ocp_error(target->ctx)))
		err = watch_rule_open(rule, targets, target, path, pid);
	if (!err)
		return target_set_problem(target, NULL);
	return note_problem(rule, target, err, now_ns);
}

static bool has_source_of(const struct target *target, const void *owner, const struct stat *st)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->owner == owner && target->sources[i]->dev == st->st_dev &&
		    target->sources[i]->ino == st->st_ino)
			return true;
	return false;
}

static bool has_given_up(const struct target *target, const struct stat *st)
{
	for (size_t i = 0; i < target->n_given_up; i++)
		if (target->given_up[i].dev == st->st_dev && target->given_up[i].ino == st->st_ino)
			return true;
	return false;
}

/*
 * End the sources of files that have been replaced at the path, when no process runs them any more.
 * End the sources of overwritten files at once.
 */
static int end_old_generations(struct watch_rule *rule, struct target *target,
			       const struct stat *now, int64_t now_ns)
{
	int err = 0;

	for (size_t i = target->n_sources; !err && i-- > 0;) {
		const struct source *source = target->sources[i];

		if (source->owner != rule)
			continue;
		if (source->is_stale)
			rule->retry_ns = now_ns + SETTLE_S * SECOND_NS;
		else if (source->n_pids || !source->knows_pids ||
			 (now && source->dev == now->st_dev && source->ino == now->st_ino))
			continue;
		err = target_end_source(target, i);
	}
	return err;
}

/* Make it the target's problem that the executable cannot be found. WHY is the errno. */
static int watch_rule_tell_missing(struct watch_rule *rule, int why)
{
	return target_set_problem(rule->target,
				  why == ENOENT ? "does not exist; waiting for it" : strerror(why));
}

/*
 * If RULE has no source for the file that is at the path now, open one. End the sources of old
 * files.
 */
static int follow_file(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	struct target *target = rule->target;
	struct stat st;
	int err;

	if (stat(rule->exe, &st) != 0) {
		const int why = errno;

		err = end_old_generations(rule, target, NULL, now_ns);
		return err || target->n_sources ? err : watch_rule_tell_missing(rule, why);
	}
	err = end_old_generations(rule, target, &st, now_ns);
	if (err || has_source_of(target, rule, &st))
		return err;
	return open_source(rule, targets, target, rule->exe, 0, now_ns);
}

static ptrdiff_t find_own_source(const struct watch_rule *rule)
{
	for (size_t i = 0; i < rule->target->n_sources; i++)
		if (rule->target->sources[i]->owner == rule)
			return (ptrdiff_t)i;
	return -1;
}

/* Return true if a source of TARGET measures the process PID. */
static bool watch_rule_is_watched(const struct target *target, pid_t pid)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->pid == pid && !target->sources[i]->has_left)
			return true;
	return false;
}

static bool watch_rule_is_in_container(const struct watch_rule *rule, pid_t pid)
{
	struct container container;

	return !container_is_known(&rule->container) ||
	       (container_read(pid, &container) && container_equal(&container, &rule->container));
}

/*
 * Set *PID to a process that runs the executable and that no rule measures; 0: there is none. If
 * several are found, prefer the process with the pid LAST.
 */
static int find_follower(struct watch_rule *rule, struct targets *targets, pid_t last, pid_t *pid)
{
	const char *base = base_name(rule->exe);
	struct found_processes found;
	struct stat file;
	int err;

	*pid = 0;
	if (stat_executable(rule, &file) != 0)
		return errno == ENOENT ? 0
				       : ctx_error(targets->ctx, -errno, "%s: %s", rule->exe,
						   strerror(errno));
	err = find_processes(targets->ctx, &file, base, &targets->known, &found);
	if (!err)
		find_warn_of_hidden(targets->ctx, &rule->hidden, &found, base);
	for (size_t i = 0; !err && i < found.n; i++)
		if ((!*pid || found.pids[i] == last) &&
		    !watch_rule_is_watched(rule->target, found.pids[i]) &&
		    watch_rule_is_in_container(rule, found.pids[i]))
			*pid = found.pids[i];
	found_processes_free(&found);
	return err;
}

/*
 * Return true if SOURCE must end: its process has exited, or no longer counts inside. After an
 * exec, counting inside needs a new source.
 */
static bool needs_end(const struct source *source)
{
	return source_has_ended(source) || source->has_left;
}

/*
 * If a process has loaded files that are not measured, make this the target's problem; otherwise
 * clear the problem. Return -ENOMEM or 0.
 */
static int watch_inside_tell_outgrown(const struct watch_rule *rule)
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

/* After the process has exited, measure another process of the same executable. */
static int follow_process(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	struct target *target = rule->target;
	ptrdiff_t own = find_own_source(rule);
	pid_t pid = 0;
	int err = 0;

	if (own >= 0 && !needs_end(target->sources[own]))
		return rule->is_inside ? watch_inside_tell_outgrown(rule) : 0;
	if (own >= 0) {
		if (source_has_ended(target->sources[own]))
			ctx_log(target->ctx, OCP_LOG_INFO, "%s: pid %d has ended", target->title,
				(int)target->sources[own]->pid);
		err = target_end_source(target, (size_t)own);
	}
	if (!err && now_ns < rule->retry_ns)
		return 0;
	if (!err)
		err = find_follower(rule, targets, rule->is_inside ? rule->last_pid : 0, &pid);
	if (err || !pid)
		return note_problem(rule, target, err, now_ns);
	return open_source(rule, targets, target, NULL, pid, now_ns);
}

/* ---- measuring inside ------------------------------------------------------------------------ */

/*
 * Measure the processes of a file with the engine `inside`. The rule has a source for each process.
 * A forked child counts in the memory of its parent, and so with the parent's source, until it
 * executes a program. A process that executes the file again gets a new source.
 */

/*
 * End sources of overwritten files, and sources whose process and children do not count any more.
 */
static int end_old_inside(struct watch_rule *rule, int64_t now_ns)
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
	/* -ESRCH: the process has ended in the meantime. */
	if (err == -ESRCH)
		return 0;
	if (err && err != -ENOMEM)
		return note_refused_process(rule, ctx, pid, now_ns);
	refused = find_refused(rule, pid);
	if (!err && refused)
		drop_refused(rule, (size_t)(refused - rule->refused));
	return err;
}

/*
 * Measure PID, unless it is measured already. *N_OPENED is the number of attempts to open a source
 * in this tick.
 */
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
	const char *base = base_name(rule->exe);
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

/*
 * Measure the processes of a file inside, with one source for each process: open sources for new
 * processes, and end sources that are no longer needed. Return -ENOMEM or 0.
 */
static int watch_inside_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
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
		err = end_old_inside(rule, now_ns);
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

/* ---- looking for programs ------------------------------------------------------------------- */

struct program_search {
	struct watch_rule *rule;
	struct targets *targets;
	int64_t now_ns;
};

/* Return true if the file is measured already, perhaps under another name, or has been given up. */
static bool is_taken(const struct program_search *search, const struct stat *st)
{
	for (size_t i = 0; i < search->targets->n; i++) {
		const struct target *target = search->targets->list[i];

		if (has_source_of(target, search->rule, st) || has_given_up(target, st))
			return true;
	}
	return false;
}

static bool is_news(void *data, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &st) == 0 && !is_taken(data, &st);
}

/*
 * Set *CONTAINER to the container of all processes that run the file ST, called EXE; PID is one of
 * them. If these processes are in several containers, set all members of *CONTAINER to "".
 */
static int find_container(struct targets *targets, const char *exe, const struct stat *st,
			  pid_t pid, struct container *container)
{
	struct found_processes found;
	struct container its;
	int err;

	if (!container_read(pid, container) || !container_is_known(container))
		return 0;
	err = find_processes(targets->ctx, st, base_name(exe), &targets->known, &found);
	for (size_t i = 0; !err && i < found.n; i++)
		if (container_read(found.pids[i], &its) && !container_equal(&its, container))
			*container = (struct container){ 0 };
	found_processes_free(&found);
	return err;
}

/* Measure the new file ST at PATH, which process PID runs. */
static int measure_new_file(struct program_search *search, const char *exe, const char *path,
			    const struct stat *st, pid_t pid)
{
	struct container container;
	struct target *target;
	int err = find_container(search->targets, exe, st, pid, &container);

	if (!err)
		err = targets_get(search->targets, exe, &container, &target);
	if (err)
		return err;
	target->is_discovered = true;
	search->rule->retry_ns = 0;
	return open_source(search->rule, search->targets, target, path, 0, search->now_ns);
}

static int add_found(void *data, struct ocp_process *proc)
{
	struct program_search *search = data;
	char path[32], *exe = strdup(ocp_process_exe(proc));
	const pid_t pid = ocp_process_pid(proc);
	struct stat st;
	int err = exe ? 0 : ctx_no_memory(search->targets->ctx);

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (!err && stat(path, &st) == 0 && !is_taken(search, &st)) {
		strip_deleted(exe);
		err = measure_new_file(search, exe, path, &st, pid);
	}
	free(exe);
	return err;
}

/*
 * Return true if SOURCE's file can be forgotten: it has no process, and it was deleted, or had no
 * process for long. The path is not looked up, since it may belong to another mount namespace.
 */
static bool is_forgotten(struct source *source, int64_t now_ns)
{
	struct stat st;

	if (source->n_pids || !source->knows_pids) {
		source->idle_since_ns = 0;
		return false;
	}
	if (!source->idle_since_ns)
		source->idle_since_ns = now_ns;
	return (fstat(source->file, &st) == 0 && st.st_nlink == 0) ||
	       now_ns - source->idle_since_ns > IDLE_S * SECOND_NS;
}

/*
 * Find the source of RULE that has been without a process for longest: return its target, and set
 * *AT to its index. Set *N to the number of sources without a process.
 */
static struct target *find_idle(const struct watch_rule *rule, const struct targets *targets,
				size_t *at, size_t *n)
{
	struct target *found = NULL;
	int64_t since_ns = INT64_MAX;

	*n = 0;
	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		for (size_t j = 0; j < target->n_sources; j++) {
			const struct source *source = target->sources[j];

			if (source->owner != rule || !source->idle_since_ns)
				continue;
			++*n;
			if (source->idle_since_ns >= since_ns)
				continue;
			since_ns = source->idle_since_ns;
			found = target;
			*at = j;
		}
	}
	return found;
}

static int end_idle(const struct watch_rule *rule, const struct targets *targets)
{
	struct target *target;
	size_t at = 0, n;
	int err = 0;

	while (!err && (target = find_idle(rule, targets, &at, &n)) && n > MAX_IDLE)
		err = target_end_source(target, at);
	return err;
}

/*
 * End the sources of overwritten files, and of files that now also run in another container. The
 * next search finds all these files again, and gives a file that runs in several containers a
 * target without a container.
 */
static int end_old(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	int err = 0;

	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		for (size_t j = target->n_sources; !err && j-- > 0;) {
			struct source *source = target->sources[j];

			if (source->owner != rule)
				continue;
			if (source->is_stale)
				rule->settle_ns = now_ns + SETTLE_S * SECOND_NS;
			else if (source->is_mixed)
				rule->retry_ns = 0;
			else if (!is_forgotten(source, now_ns))
				continue;
			err = target_end_source(target, j);
		}
	}
	return err ? err : end_idle(rule, targets);
}

/*
 * Search for new programs. The examiner (a child process) reads new files first, usually within
 * milliseconds. Wait for the examiner at most WAIT_MS (in the first search FIRST_WAIT_MS), and add
 * the files that have been examined by then. A later search adds the other files.
 */
static int search_programs(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	struct program_search search = { rule, targets, now_ns };
	const struct scan_finder finder = { is_news, add_found, &search };
	const int64_t deadline_ns =
		clock_ns(CLOCK_MONOTONIC) + MS_NS * (rule->has_searched ? WAIT_MS : FIRST_WAIT_MS);
	struct ocp_scan_summary summary;
	int64_t left_ns;
	int err;

	rule->has_searched = true;
	do {
		err = scan_processes(targets->ctx, &finder, &summary);
		left_ns = deadline_ns - clock_ns(CLOCK_MONOTONIC);
	} while (!err &&
		 verdicts_settle(targets->verdicts, left_ns > 0 ? (int)(left_ns / MS_NS) : 0));
	return err;
}

static int follow_all(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	int err;

	if (verdicts_settle(targets->verdicts, 0))
		rule->retry_ns = 0;
	err = end_old(rule, targets, now_ns);
	if (err || now_ns < rule->retry_ns || now_ns < rule->settle_ns)
		return err;
	err = search_programs(rule, targets, now_ns);
	rule->retry_ns = now_ns + SCAN_S * SECOND_NS;
	if (err && err != -ENOMEM)
		ctx_log(targets->ctx, OCP_LOG_WARN, "%s", ocp_error(targets->ctx));
	return err == -ENOMEM ? err : 0;
}

int watch_rule_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns)
{
	if (!rule->exe)
		return follow_all(rule, targets, now_ns);
	if (rule->pid)
		return follow_process(rule, targets, now_ns);
	return rule->is_inside ? watch_inside_follow(rule, targets, now_ns)
			       : follow_file(rule, targets, now_ns);
}

bool watch_rule_move_inside(struct watch_rule *rule, struct targets *targets, const char *why,
			    int *err)
{
	if (rule->engine != ENGINE_AUTO || rule->is_inside || rule->was_refused || !rule->exe ||
	    !fits_inside(targets, rule))
		return false;
	ctx_log(targets->ctx, OCP_LOG_WARN, "%s: %s: counted inside from now on",
		rule->target->title, why);
	rule->is_inside = true;
	rule->retry_ns = 0;
	*err = target_end_sources(rule->target, rule, target_end_source);
	if (!*err)
		*err = watch_rule_follow(rule, targets, clock_ns(CLOCK_MONOTONIC));
	return true;
}
