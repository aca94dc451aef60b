// SPDX-License-Identifier: MIT
#include "watch/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/search.h"
#include "measure/found.h"
#include "measure/meter.h"
#include "look/proc_file.h"

/* How long source_ask_costs() waits after the attach: measuring the cost of a hit takes time. */
enum { COSTS_NS = 500 * 1000 * 1000 };

static int identify(struct source *source, const char *path)
{
	struct stat st;

	source->file = open(path, O_PATH | O_CLOEXEC);
	if (source->file < 0 || fstat(source->file, &st) != 0)
		return ctx_error(source->ctx, -errno, "%s: %s", path, strerror(errno));
	source->dev = st.st_dev;
	source->ino = st.st_ino;
	return 0;
}

static int open_process_source(struct source *source, pid_t pid)
{
	int err = ocp_process_open(source->ctx, pid, &source->proc);
	char path[32];

	if (err)
		return err;
	source->pid = ocp_process_tgid(source->proc);
	source->pidfd = pidfd_open(source->pid, 0);
	if (source->pidfd < 0)
		return ctx_error(source->ctx, -errno, "pid %d: %s", (int)pid, strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	err = identify(source, path);
	return err ? err : ocp_meter_add_process(source->meter, source->proc);
}

static int open_file_source(struct source *source, const char *path)
{
	struct stat now;
	int err = identify(source, path);

	if (!err)
		err = ocp_meter_add_program(source->meter, path);
	if (err)
		return err;
	if (stat(path, &now) != 0 || now.st_dev != source->dev || now.st_ino != source->ino)
		return ctx_error(source->ctx, -ESTALE, "%s: replaced while it was being opened",
				 path);
	return 0;
}

/* Return -EPERM if PID belongs to another user. */
static int check_user(struct ocp_ctx *ctx, pid_t pid)
{
	struct proc_status status;
	int err = proc_status_read(ctx, pid, &status);

	if (err || (status.real_uid == geteuid() && status.effective_uid == geteuid()))
		return err;
	ctx_error(ctx, -EPERM,
		  "pid %d: belongs to uid %u: uid %u can count inside its own processes only",
		  (int)pid, status.real_uid, geteuid());
	ctx_hint(ctx, "the engine `bpf` measures the processes of all users");
	return -EPERM;
}

static int use_inside(struct source *source, pid_t pid)
{
	source->is_inside = true;
	meter_use_inside(source->meter);
	return check_user(source->ctx, pid);
}

int source_open(struct ocp_ctx *ctx, const struct watch_spec *spec, bool by_process,
		struct find_memory *known, struct source **out)
{
	const bool is_inside = spec->engine == ENGINE_INSIDE;
	struct source *source = calloc(1, sizeof(*source));
	int err;

	if (!source)
		return ctx_no_memory(ctx);
	*source = (struct source){ .ctx = ctx, .pidfd = -1, .file = -1 };
	source->meter = ocp_meter_new(ctx);
	err = source->meter ? 0 : -ENOMEM;
	if (!err && is_inside)
		err = use_inside(source, spec->pid);
	if (!err)
		err = spec->pid ? open_process_source(source, spec->pid)
				: open_file_source(source, spec->exe);
	if (!err)
		err = measure_request_apply(spec->request, source->meter);
	if (!err && by_process)
		ocp_meter_split(source->meter, OCP_BY_PROCESS);
	if (!err) {
		if (!is_inside)
			find_memory_expire(known);
		meter_share_known(source->meter, known);
		err = ocp_meter_open(source->meter);
	}
	if (err) {
		source_free(source);
		return err;
	}
	*out = source;
	return 0;
}

bool source_has_ended(const struct source *source)
{
	struct pollfd fd = { source->pidfd, POLLIN, 0 };

	return source->pidfd >= 0 && poll(&fd, 1, 0) > 0;
}

/*
 * Return true if a process in PIDS that SOURCE does not know yet is in another container than
 * SOURCE.
 */
static bool has_stranger(const struct source *source, const pid_t *pids, size_t n)
{
	struct container container;
	size_t known = 0;

	for (size_t i = 0; i < n; i++) {
		while (known < source->n_pids && source->pids[known] < pids[i])
			known++;
		if (known < source->n_pids && source->pids[known] == pids[i])
			continue;
		if (container_read(pids[i], &container) &&
		    !container_equal(&container, &source->container))
			return true;
	}
	return false;
}

static int compare_source_pids(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return COMPARE(x, y);
}

bool source_has_child(const struct source *source, pid_t pid)
{
	return source->n_children && bsearch(&pid, source->children, source->n_children,
					     sizeof(pid), compare_source_pids);
}

int source_adopt(struct source *source, pid_t pid, bool *is_child)
{
	pid_t *new;

	*is_child = source->is_inside && meter_counts_in(source->meter, pid);
	if (!*is_child)
		return 0;
	new = array_add(source->children, source->n_children);
	if (!new)
		return ctx_no_memory(source->ctx);
	*new = pid;
	qsort(source->children, source->n_children, sizeof(*new), compare_source_pids);
	return 0;
}

/* Find out whether the process still counts inside, and which of its children do. */
static void look_inside(struct source *source)
{
	size_t n = 0;

	source->has_left |=
		source_has_ended(source) || !meter_counts_in(source->meter, source->pid);
	for (size_t i = 0; i < source->n_children; i++)
		if (meter_counts_in(source->meter, source->children[i]))
			source->children[n++] = source->children[i];
	source->n_children = n;
}

/* Add the children to the list of processes. */
static int take_children(struct source *source)
{
	pid_t *grown =
		reallocarray(source->pids, source->n_pids + source->n_children + 1, sizeof(*grown));

	if (!grown)
		return ctx_no_memory(source->ctx);
	source->pids = grown;
	for (size_t i = 0; i < source->n_children; i++)
		grown[source->n_pids++] = source->children[i];
	qsort(grown, source->n_pids, sizeof(*grown), compare_source_pids);
	return 0;
}

/* Replace the list of processes by a copy of the newest list of the meter. */
static int take_processes(struct source *source)
{
	pid_t *pids;
	size_t n;
	bool complete;
	int err = ocp_meter_processes(source->meter, &pids, &n, &complete);

	if (err)
		return err;
	if (container_is_known(&source->container) && has_stranger(source, pids, n))
		source->is_mixed = true;
	free(source->pids);
	source->pids = pids;
	source->n_pids = n;
	source->knows_pids = complete;
	if (source->proc)
		source->n_pids = !source_has_ended(source) && !source->has_left && n;
	return source->is_inside ? take_children(source) : 0;
}

void source_tell_estimate(struct source *source)
{
	const char *program = ocp_meter_program(source->meter);
	struct ocp_estimate estimate;
	char text[OCP_ESTIMATE_BYTES];

	if (ocp_meter_estimate(source->meter, &estimate) != 0 ||
	    !ocp_estimate_text(&estimate, text))
		return;
	if (program)
		ctx_log(source->ctx, OCP_LOG_WARN, "%s: %s", program, text);
	else
		ctx_log(source->ctx, OCP_LOG_WARN, "pid %d: %s", (int)source->pid, text);
}

void source_tell_matching(const struct source *source, const char *title)
{
	char *keys = meter_keys_text(source->meter), *threads = meter_threads_text(source->meter);

	if (keys)
		ctx_log(source->ctx, OCP_LOG_WARN, "%s: %s", title, keys);
	if (threads)
		ctx_log(source->ctx, OCP_LOG_WARN, "%s: %s", title, threads);
	free(keys);
	free(threads);
}

int source_attach(struct source *source)
{
	int err;

	if (source->attached_ns)
		return 0;
	err = ocp_meter_attach(source->meter);
	if (err == -EBUSY && source->is_inside && found_take_over(source->meter))
		err = ocp_meter_attach(source->meter);
	if (err)
		return err;
	source->attached_ns = clock_ns(CLOCK_MONOTONIC);
	err = take_processes(source);
	return err ? err : source_read(source);
}

void source_free(struct source *source)
{
	if (!source)
		return;
	ocp_sample_free(source->sample);
	ocp_meter_free(source->meter);
	ocp_process_free(source->proc);
	if (source->pidfd >= 0)
		close(source->pidfd);
	if (source->file >= 0)
		close(source->file);
	free(source->pids);
	free(source->children);
	free(source);
}

int source_refresh(struct source *source, size_t *n_sites)
{
	int err, its_err;

	*n_sites = 0;
	if (source->is_inside)
		look_inside(source);
	/* The process has ended or runs another program, which is not measured. */
	if (source->has_left)
		return take_processes(source);
	err = ocp_meter_refresh(source->meter, n_sites);
	source->is_outgrown = source->meter->has_passed_over;
	source->is_stale = err == -ESTALE;
	its_err = err == -ENOMEM ? err : take_processes(source);
	return err ? err : its_err;
}

int source_read(struct source *source)
{
	struct ocp_sample *sample;
	int err = ocp_meter_read(source->meter, &sample);

	if (err)
		return err;
	ocp_sample_free(source->sample);
	source->sample = sample;
	source->hits = ocp_sample_all_hits(sample);
	source->cost_per_hit_ns = ocp_sample_cost_per_hit_ns(sample, &source->costs);
	return 0;
}

int source_end(struct source *source)
{
	int err = ocp_meter_detach(source->meter);

	/*
	 * The detach fails if a debugger holds the process, which then continues to count. The
	 * counts until now are known. source_free() tries to detach again, and reports a failure.
	 */
	if (err != -ENOMEM && source->is_inside)
		err = 0;
	return err ? err : source_read(source);
}

void source_ask_costs(struct source *source, int64_t now_ns)
{
	struct ocp_costs costs;
	int err;

	if (source->asked_costs || now_ns - source->attached_ns < COSTS_NS)
		return;
	err = ocp_meter_costs_now(source->meter, &costs);
	if (err == -EAGAIN)
		return;
	source->asked_costs = true;
	if (err)
		ctx_log(source->ctx, OCP_LOG_WARN,
			"CPU overhead is unknown, and budgets are not enforced: %s",
			ocp_error(source->ctx));
	else
		source->costs = costs;
	if (source->sample)
		source->cost_per_hit_ns =
			ocp_sample_cost_per_hit_ns(source->sample, &source->costs);
}
