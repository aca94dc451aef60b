// SPDX-License-Identifier: MIT
#include "watch/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "process/scan.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)
#define MS_NS	  ((int64_t)1000 * 1000)

enum {
	RETRY_S = 5,	     /* after a source could not be had */
	SETTLE_S = 2,	     /* for a file that is being written */
	SCAN_S = 5,	     /* how often new programs are looked for */
	SHORT_ID_BYTES = 12, /* as container runtimes show them */
	WAIT_MS = 50,	     /* for new files to be examined, */
	FIRST_WAIT_MS = 2000,
	/*
	 * How long a file that was found is measured without a process, so that the next one is
	 * measured from its first instruction on; and how many files are, each for 24 descriptors.
	 */
	IDLE_S = 60,
	MAX_IDLE = 8,
};

/* ---- targets -------------------------------------------------------------------------------- */

struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container)
{
	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		if (strcmp(target->exe, exe) == 0 && container_equal(&target->container, container))
			return target;
	}
	return NULL;
}

static bool has_title(const struct targets *targets, const char *title)
{
	for (size_t i = 0; i < targets->n; i++)
		if (strcmp(targets->list[i]->title, title) == 0)
			return true;
	return false;
}

/* EXE, with the first SHORT_ID_BYTES of CONTAINER's id, or with all of them if that is taken. */
static char *make_title(const struct targets *targets, const char *exe,
			const struct container *container)
{
	const char *id = *container->id ? container->id : container->pod;
	char *title;

	if (!container_is_known(container))
		return strdup(exe);
	if (asprintf(&title, "%s [%.*s]", exe, SHORT_ID_BYTES, id) < 0)
		return NULL;
	if (!has_title(targets, title))
		return title;
	free(title);
	return asprintf(&title, "%s [%s]", exe, id) < 0 ? NULL : title;
}

int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out)
{
	struct target **grown;
	char *title;
	int err;

	*out = targets_find(targets, exe, container);
	if (*out)
		return 0;
	grown = realloc(targets->list, (targets->n + 1) * sizeof(void *));
	if (!grown)
		return ctx_no_memory(targets->ctx);
	targets->list = grown;
	title = make_title(targets, exe, container);
	err = title ? target_new(targets->ctx, exe, title, container, out)
		    : ctx_no_memory(targets->ctx);
	if (!err)
		targets->list[targets->n++] = *out;
	free(title);
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
	free(entry->hidden.pids);
	if (entry->foreign_file >= 0)
		close(entry->foreign_file);
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

/*
 * The executable of a process in another mount namespace is followed by itself: what its path leads
 * to for us is another program.
 */
static int keep_foreign_file(struct ocp_ctx *ctx, struct entry *entry, pid_t pid)
{
	char path[64];
	struct stat ours, its;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (stat("/proc/self/ns/mnt", &ours) != 0 || stat(path, &its) != 0 ||
	    (ours.st_dev == its.st_dev && ours.st_ino == its.st_ino))
		return 0;
	if (stat(entry->exe, &ours) == 0 && ours.st_dev == entry->first->dev &&
	    ours.st_ino == entry->first->ino)
		return 0;
	entry->foreign_file = fcntl(entry->first->file, F_DUPFD_CLOEXEC, 0);
	return entry->foreign_file < 0
		       ? ctx_error(ctx, -errno, "%s: %s", entry->exe, strerror(errno))
		       : 0;
}

/* The container that a path through a process, /proc/PID/root/..., leads into. */
static void find_container_of_path(const char *path, struct container *container)
{
	int pid, end = 0;

	if (sscanf(path, "/proc/%d/root/%n", &pid, &end) == 1 && end && pid > 0)
		container_read(pid, container);
}

static int name_executable(struct ocp_ctx *ctx, struct entry *entry, const struct watch_spec *spec)
{
	entry->exe =
		spec->pid ? strdup(ocp_process_exe(entry->first->proc)) : absolute_path(spec->exe);
	if (!entry->exe)
		return ctx_no_memory(ctx);
	if (!spec->pid) {
		find_container_of_path(entry->exe, &entry->container);
		return 0;
	}
	strip_deleted(entry->exe);
	container_read(spec->pid, &entry->container);
	return keep_foreign_file(ctx, entry, spec->pid);
}

int entry_new(struct targets *targets, const struct watch_spec *spec, struct entry **out)
{
	struct ocp_ctx *ctx = targets->ctx;
	struct entry *entry = calloc(1, sizeof(*entry));
	int err = 0;

	if (!entry)
		return ctx_no_memory(ctx);
	entry->foreign_file = -1;
	entry->pid = spec->pid;
	entry->measure = measure_options_copy(spec->measure);
	if (!entry->measure)
		err = ctx_no_memory(ctx);
	if (!err && !spec->pid && !spec->exe)
		err = ocp_meter_check(ctx);
	else if (!err) {
		err = source_open(ctx, spec->exe, spec->pid, entry->measure, targets->by_process,
				  &targets->known, &entry->first);
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

static int stat_executable(const struct entry *entry, struct stat *st)
{
	return entry->foreign_file >= 0 ? fstat(entry->foreign_file, st) : stat(entry->exe, st);
}

bool entry_has_file_of(const struct entry *entry, const struct entry *other)
{
	struct stat its, others;

	if (strcmp(entry->exe, other->exe) == 0 &&
	    container_equal(&entry->container, &other->container))
		return true;
	return stat_executable(entry, &its) == 0 && stat_executable(other, &others) == 0 &&
	       its.st_dev == others.st_dev && its.st_ino == others.st_ino;
}

/* Attach SOURCE, which is freed if that fails, and give it to TARGET. */
static int start_source(struct entry *entry, struct target *target, struct source *source)
{
	int err;

	source->owner = entry;
	if (!entry->exe)
		source->container = target->container;
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
static int open_source(struct entry *entry, struct targets *targets, struct target *target,
		       const char *path, pid_t pid, int64_t now_ns)
{
	struct source *source;
	int err;

	if (now_ns < entry->retry_ns || target->is_over_budget)
		return 0;
	err = source_open(target->ctx, path, pid, entry->measure, targets->by_process,
			  &targets->known, &source);
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

static bool has_given_up(const struct target *target, const struct stat *st)
{
	for (size_t i = 0; i < target->n_given_up; i++)
		if (target->given_up[i].dev == st->st_dev && target->given_up[i].ino == st->st_ino)
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
	return open_source(entry, targets, target, entry->exe, 0, now_ns);
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

static bool is_in_container_of(const struct entry *entry, pid_t pid)
{
	struct container container;

	return !container_is_known(&entry->container) ||
	       (container_read(pid, &container) && container_equal(&container, &entry->container));
}

/* A process that runs the executable and that no other entry has. */
static int find_follower(struct entry *entry, struct targets *targets, pid_t *pid)
{
	const char *slash = strrchr(entry->exe, '/'), *base = slash ? slash + 1 : entry->exe;
	struct found_processes found;
	struct stat file;
	int err;

	*pid = 0;
	if (stat_executable(entry, &file) != 0)
		return errno == ENOENT ? 0
				       : ctx_error(targets->ctx, -errno, "%s: %s", entry->exe,
						   strerror(errno));
	err = find_processes(targets->ctx, &file, base, &targets->known, &found);
	if (!err)
		find_tell_hidden(targets->ctx, &entry->hidden, &found, base);
	for (size_t i = 0; !err && !*pid && i < found.n; i++)
		if (!is_watched(entry->target, found.pids[i]) &&
		    is_in_container_of(entry, found.pids[i]))
			*pid = found.pids[i];
	found_processes_free(&found);
	return err;
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
		ctx_log(target->ctx, OCP_LOG_INFO, "%s: pid %d has ended", target->title,
			(int)target->sources[own]->pid);
		err = target_end_source(target, (size_t)own);
	}
	if (!err && now_ns < entry->retry_ns)
		return 0;
	if (!err)
		err = find_follower(entry, targets, &pid);
	if (err || !pid)
		return note_problem(entry, target, err, now_ns);
	return open_source(entry, targets, target, NULL, pid, now_ns);
}

/* ---- looking for programs ------------------------------------------------------------------- */

struct search {
	struct entry *entry;
	struct targets *targets;
	int64_t now_ns;
};

/* Is the file somebody's already, be it under another name? */
static bool is_taken(const struct search *search, const struct stat *st)
{
	for (size_t i = 0; i < search->targets->n; i++) {
		const struct target *target = search->targets->list[i];

		if (has_source_of(target, search->entry, st) || has_given_up(target, st))
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

/* The container that PID and all others are in that run its file, ST, called EXE. */
static int find_container(struct targets *targets, const char *exe, const struct stat *st,
			  pid_t pid, struct container *container)
{
	const char *slash = strrchr(exe, '/');
	struct found_processes found;
	struct container its;
	int err;

	if (!container_read(pid, container) || !container_is_known(container))
		return 0;
	err = find_processes(targets->ctx, st, slash ? slash + 1 : exe, &targets->known, &found);
	for (size_t i = 0; !err && i < found.n; i++)
		if (container_read(found.pids[i], &its) && !container_equal(&its, container))
			*container = (struct container){ 0 };
	found_processes_free(&found);
	return err;
}

/* A file that is new, ST, is measured at PATH. */
static int add_file(struct search *search, const char *exe, const char *path, const struct stat *st,
		    pid_t pid)
{
	struct container container;
	struct target *target;
	int err = find_container(search->targets, exe, st, pid, &container);

	if (!err)
		err = targets_get(search->targets, exe, &container, &target);
	if (err)
		return err;
	target->is_discovered = true;
	search->entry->retry_ns = 0;
	return open_source(search->entry, search->targets, target, path, 0, search->now_ns);
}

static int add_found(void *data, struct ocp_process *proc)
{
	struct search *search = data;
	char path[32], *exe = strdup(ocp_process_exe(proc));
	const pid_t pid = ocp_process_pid(proc);
	struct stat st;
	int err = exe ? 0 : ctx_no_memory(search->targets->ctx);

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (!err && stat(path, &st) == 0 && !is_taken(search, &st)) {
		strip_deleted(exe);
		err = add_file(search, exe, path, &st, pid);
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

/* Of the files without a process, the one that has been so longest; *N: how many there are. */
static struct target *find_idle(const struct entry *entry, const struct targets *targets,
				size_t *at, size_t *n)
{
	struct target *found = NULL;
	int64_t since_ns = INT64_MAX;

	*n = 0;
	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		for (size_t j = 0; j < target->n_sources; j++) {
			const struct source *source = target->sources[j];

			if (source->owner != entry || !source->idle_since_ns)
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

static int end_idle(const struct entry *entry, const struct targets *targets)
{
	struct target *target;
	size_t at = 0, n;
	int err = 0;

	while (!err && (target = find_idle(entry, targets, &at, &n)) && n > MAX_IDLE)
		err = target_end_source(target, at);
	return err;
}

/*
 * What was overwritten is looked for anew, and so is a file that a process of another container has
 * begun to run: it is nobody's in particular from then on.
 */
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
				entry->settle_ns = now_ns + SETTLE_S * SECOND_NS;
			else if (source->is_mixed)
				entry->retry_ns = 0;
			else if (!is_forgotten(source, now_ns))
				continue;
			err = target_end_source(target, j);
		}
	}
	return err ? err : end_idle(entry, targets);
}

/*
 * Files that are new are examined by another process, which mostly takes some ms. Those that take
 * longer, and what they belong to, are found later; at first more of them are waited for.
 */
static int search_programs(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	struct search search = { entry, targets, now_ns };
	const struct scan_finder finder = { is_news, add_found, &search };
	const int64_t deadline_ns =
		clock_ns(CLOCK_MONOTONIC) + MS_NS * (entry->has_searched ? WAIT_MS : FIRST_WAIT_MS);
	struct ocp_scan_summary summary;
	int64_t left_ns;
	int err;

	entry->has_searched = true;
	do {
		err = scan_processes(targets->ctx, &finder, &summary);
		left_ns = deadline_ns - clock_ns(CLOCK_MONOTONIC);
	} while (!err &&
		 verdicts_settle(targets->verdicts, left_ns > 0 ? (int)(left_ns / MS_NS) : 0));
	return err;
}

static int follow_all(struct entry *entry, struct targets *targets, int64_t now_ns)
{
	int err;

	if (verdicts_settle(targets->verdicts, 0))
		entry->retry_ns = 0;
	err = end_old(entry, targets, now_ns);
	if (err || now_ns < entry->retry_ns || now_ns < entry->settle_ns)
		return err;
	err = search_programs(entry, targets, now_ns);
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
