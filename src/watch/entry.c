// SPDX-License-Identifier: MIT
#include "watch/entry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

enum {
	RETRY_S = 5,  /* after a source could not be had */
	SETTLE_S = 2, /* for a file that is being written */
	SCAN_S = 5,   /* how often new programs are looked for */
	IDLE_S = 600, /* how long a file that was found is measured without a process */
};

/* ---- targets -------------------------------------------------------------------------------- */

int targets_get(struct targets *targets, const char *exe, struct target **out)
{
	struct target **grown;
	int err;

	for (size_t i = 0; i < targets->n; i++) {
		if (strcmp(targets->list[i]->exe, exe) != 0)
			continue;
		*out = targets->list[i];
		return 0;
	}
	grown = realloc(targets->list, (targets->n + 1) * sizeof(void *));
	if (!grown)
		return ctx_no_memory(targets->ctx);
	targets->list = grown;
	err = target_new(targets->ctx, exe, out);
	if (!err)
		targets->list[targets->n++] = *out;
	return err;
}

void targets_remove(struct targets *targets, size_t number)
{
	target_free(targets->list[number]);
	memmove(targets->list + number, targets->list + number + 1,
		(--targets->n - number) * sizeof(void *));
}

/* ---- entries -------------------------------------------------------------------------------- */

void entry_free(struct entry *entry)
{
	if (!entry)
		return;
	source_free(entry->first);
	measure_options_free_copy(entry->measure);
	free(entry->exe);
	free(entry);
}

/* The path of a file that was replaced, as /proc has it, without what the kernel adds. */
static void strip_deleted(char *path)
{
	static const char deleted[] = " (deleted)";
	const size_t bytes = strlen(path), its = sizeof(deleted) - 1;

	if (bytes > its && strcmp(path + bytes - its, deleted) == 0)
		path[bytes - its] = '\0';
}

/*
 * PATH from the root on. Links on the way stay as they are: where they lead to may change, as when
 * a service is deployed by `ln -sfn release-2 current`, and its name shall not.
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

static int name_executable(struct ocp_ctx *ctx, struct entry *entry, const struct watch_spec *spec)
{
	if (spec->pid) {
		entry->exe = strdup(ocp_process_exe(entry->first->proc));
		if (entry->exe)
			strip_deleted(entry->exe);
	} else {
		entry->exe = absolute_path(spec->exe);
	}
	return entry->exe ? 0 : ctx_no_memory(ctx);
}

int entry_new(struct ocp_ctx *ctx, const struct watch_spec *spec, bool by_process,
	      struct entry **out)
{
	struct entry *entry = calloc(1, sizeof(*entry));
	int err = 0;

	if (!entry)
		return ctx_no_memory(ctx);
	entry->pid = spec->pid;
	entry->measure = measure_options_copy(spec->measure);
	if (!entry->measure)
		err = ctx_no_memory(ctx);
	if (!err && !spec->pid && !spec->exe)
		err = ocp_meter_check(ctx);
	else if (!err) {
		err = source_open(ctx, spec->exe, spec->pid, entry->measure, by_process,
				  &entry->first);
		if (!err)
			err = name_executable(ctx, entry, spec);
	}
	if (err) {
		entry_free(entry);
		return err;
	}
	*out = entry;
	return 0;
}

bool entry_is_for(const struct entry *entry, const struct watch_spec *spec)
{
	char *exe;
	bool is_it;

	if (entry->pid != spec->pid || !measure_options_equal(entry->measure, spec->measure))
		return false;
	if (spec->pid || !spec->exe || !entry->exe)
		return spec->pid || (!spec->exe && !entry->exe);
	exe = absolute_path(spec->exe);
	is_it = exe && strcmp(entry->exe, exe) == 0;
	free(exe);
	return is_it;
}

bool entry_has_file_of(const struct entry *entry, const struct entry *other)
{
	struct stat its, others;

	if (strcmp(entry->exe, other->exe) == 0)
		return true;
	return stat(entry->exe, &its) == 0 && stat(other->exe, &others) == 0 &&
	       its.st_dev == others.st_dev && its.st_ino == others.st_ino;
}

/* Attach SOURCE, which is freed if that fails, and give it to TARGET. */
static int start_source(struct entry *entry, struct target *target, struct source *source)
{
	int err;

	source->owner = entry;
	/* It need not have all the probes that others of the target have. */
	for (size_t i = 0; i < target->view.n_probes; i++)
		if (target->probe_records[i]->is_off)
			ocp_meter_switch(source->meter, target->probes[i].name, false);
	err = source_attach(source);
	if (!err)
		err = target_add_source(target, source);
	if (err)
		source_free(source);
	return err;
}

int entry_start(struct entry *entry)
{
	struct source *source = entry->first;

	entry->first = NULL;
	return start_source(entry, entry->target, source);
}

/* ---- following ------------------------------------------------------------------------------ */

/* Whether it is one for the user, after ERR. */
static int note_problem(struct entry *entry, struct target *target, int err, int64_t now_ns)
{
	if (err == 0 || err == -ENOMEM)
		return err;
	entry->retry_ns = now_ns + RETRY_S * SECOND_NS;
	return target_set_problem(target, ocp_error(target->ctx));
}

/* One more source for TARGET. */
static int open_source(struct entry *entry, struct target *target, const char *path, pid_t pid,
		       bool by_process, int64_t now_ns)
{
	struct source *source;
	int err;

	if (now_ns < entry->retry_ns || target->is_over_budget)
		return 0;
	err = source_open(target->ctx, path, pid, entry->measure, by_process, &source);
	if (!err)
		err = start_source(entry, target, source);
	if (!err)
		return target_set_problem(target, NULL);
	return note_problem(entry, target, err, now_ns);
}

static bool has_source_of(const struct target *target, const void *owner, const struct stat *st)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->owner == owner && target->sources[i]->dev == st->st_dev &&
		    target->sources[i]->ino == st->st_ino)
			return true;
	return false;
}

/*
 * Sources of files that are no longer at the path end with the last process that runs them; those
 * of files that were overwritten, at once.
 */
static int end_old_generations(struct entry *entry, struct target *target, const struct stat *now,
			       int64_t now_ns)
{
	int err = 0;

	for (size_t i = target->n_sources; !err && i-- > 0;) {
		const struct source *source = target->sources[i];

		if (source->owner != entry)
			continue;
		if (source->is_stale)
			entry->retry_ns = now_ns + SETTLE_S * SECOND_NS;
		else if (source->n_pids || !source->knows_pids ||
			 (now && source->dev == now->st_dev && source->ino == now->st_ino))
			continue;
		err = target_end_source(target, i);
	}
	return err;
}

/* The file at the path may be another one today. */
static int follow_file(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	struct target *target = entry->target;
	struct stat st;
	int err;

	if (stat(entry->exe, &st) != 0) {
		err = end_old_generations(entry, target, NULL, now_ns);
		if (err || target->n_sources)
			return err;
		ctx_error(target->ctx, -errno, "%s: %s", entry->exe, strerror(errno));
		return target_set_problem(target, ocp_error(target->ctx));
	}
	err = end_old_generations(entry, target, &st, now_ns);
	if (err || has_source_of(target, entry, &st))
		return err;
	return open_source(entry, target, entry->exe, 0, targets->by_process, now_ns);
}

static ptrdiff_t find_own_source(const struct entry *entry)
{
	for (size_t i = 0; i < entry->target->n_sources; i++)
		if (entry->target->sources[i]->owner == entry)
			return (ptrdiff_t)i;
	return -1;
}

static bool is_watched(const struct target *target, pid_t pid)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->pid == pid)
			return true;
	return false;
}

/* A process that runs the executable and that no other entry has. */
static int find_follower(struct entry *entry, pid_t *pid)
{
	pid_t *pids = NULL;
	size_t n = 0;
	int err = ocp_find_processes(entry->target->ctx, entry->exe, &pids, &n);

	*pid = 0;
	for (size_t i = 0; !err && !*pid && i < n; i++)
		if (!is_watched(entry->target, pids[i]))
			*pid = pids[i];
	free(pids);
	return err == -ESRCH || err == -ENOENT ? 0 : err;
}

/* When its process has ended another one of the same executable takes its place. */
static int follow_process(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	struct target *target = entry->target;
	ptrdiff_t own = find_own_source(entry);
	pid_t pid = 0;
	int err = 0;

	if (own >= 0 && !source_has_ended(target->sources[own]))
		return 0;
	if (own >= 0) {
		ctx_log(target->ctx, OCP_LOG_INFO, "%s: pid %d has ended", entry->exe,
			(int)target->sources[own]->pid);
		err = target_end_source(target, (size_t)own);
	}
	if (!err)
		err = find_follower(entry, &pid);
	if (err || !pid)
		return note_problem(entry, target, err, now_ns);
	return open_source(entry, target, NULL, pid, targets->by_process, now_ns);
}

/* ---- looking for programs ------------------------------------------------------------------- */

struct search {
	struct entry *entry;
	struct targets *targets;
	int64_t now_ns;
};

static int add_found(void *data, struct ocp_process *proc)
{
	struct search *search = data;
	char path[32], *exe = strdup(ocp_process_exe(proc));
	struct target *target;
	struct stat st;
	int err = exe ? 0 : ctx_no_memory(search->targets->ctx);

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)ocp_process_pid(proc));
	if (!err && stat(path, &st) == 0) {
		strip_deleted(exe);
		err = targets_get(search->targets, exe, &target);
		if (!err)
			target->is_discovered = true;
		if (!err && !has_source_of(target, search->entry, &st)) {
			search->entry->retry_ns = 0;
			err = open_source(search->entry, target, path, 0,
					  search->targets->by_process, search->now_ns);
		}
	}
	free(exe);
	return err;
}

/*
 * Will nobody run SOURCE's file again? It was replaced or removed, or nobody has for long. Its path
 * may be one of another mount namespace, and says nothing.
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

/* What was overwritten is looked for anew. */
static int end_old(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	int err = 0;

	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		for (size_t j = target->n_sources; !err && j-- > 0;) {
			struct source *source = target->sources[j];

			if (source->owner != entry)
				continue;
			if (source->is_stale)
				entry->retry_ns = now_ns + SETTLE_S * SECOND_NS;
			else if (!is_forgotten(source, now_ns))
				continue;
			err = target_end_source(target, j);
		}
	}
	return err;
}

static int follow_all(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	struct search search = { entry, targets, now_ns };
	struct ocp_scan_summary summary;
	int err = end_old(entry, targets, now_ns);

	if (err || now_ns < entry->retry_ns)
		return err;
	err = ocp_scan(targets->ctx, add_found, &search, &summary);
	entry->retry_ns = now_ns + SCAN_S * SECOND_NS;
	if (err && err != -ENOMEM)
		ctx_log(targets->ctx, OCP_LOG_WARN, "%s", ocp_error(targets->ctx));
	return err == -ENOMEM ? err : 0;
}

int entry_follow(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	if (!entry->exe)
		return follow_all(entry, targets, now_ns);
	return entry->pid ? follow_process(entry, targets, now_ns)
			  : follow_file(entry, targets, now_ns);
}
