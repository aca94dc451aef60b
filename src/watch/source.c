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

#include "base/clock.h"
#include "base/ctx.h"
#include "measure/meter.h"

/* The cost of a hit takes this long to measure. */
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

static int open_process(struct source *source, pid_t pid)
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

static int open_file(struct source *source, const char *path)
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

int source_open(struct ocp_ctx *ctx, const char *path, pid_t pid,
		const struct measure_request *request, bool by_process, struct find_memory *known,
		struct source **out)
{
	struct source *source = calloc(1, sizeof(*source));
	int err;

	if (!source)
		return ctx_no_memory(ctx);
	*source = (struct source){ .ctx = ctx, .pidfd = -1, .file = -1 };
	source->meter = ocp_meter_new(ctx);
	err = source->meter ? 0 : -ENOMEM;
	if (!err)
		err = pid ? open_process(source, pid) : open_file(source, path);
	if (!err)
		err = measure_request_apply(request, source->meter);
	if (!err && by_process)
		ocp_meter_split(source->meter, OCP_BY_PROCESS);
	if (!err) {
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

/* Is one of the N new PIDS in another container than SOURCE? */
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

/* Copy the processes that the meter found last. */
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
		source->n_pids = !source_has_ended(source) && n;
	return 0;
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

int source_attach(struct source *source)
{
	int err;

	if (source->attached_ns)
		return 0;
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
	free(source);
}

int source_refresh(struct source *source, size_t *n_sites)
{
	int err = ocp_meter_refresh(source->meter, n_sites), its_err;

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
		ctx_log(source->ctx, OCP_LOG_INFO, "%s", ocp_error(source->ctx));
	else
		source->costs = costs;
	if (source->sample)
		source->cost_per_hit_ns =
			ocp_sample_cost_per_hit_ns(source->sample, &source->costs);
}
