// SPDX-License-Identifier: MIT
/*
 * Read and switch the states of handlers. Each process is opened once, which includes reading its
 * mappings and notes; later ticks read only its states. A new process is not opened at its first
 * tick but at the next one, since many processes exit soon after their start. At most
 * MAX_LOOKED_INTO processes are open.
 */
#include "watch/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "program/item.h"

enum {
	MAX_LOOKED_INTO = 64,
	MAX_OPENS = 8,	/* maximum number of processes to open in one tick */
	REST_TICKS = 30 /* ticks before an unreadable process is tried again */
};

static void close_process(struct looked_into *process)
{
	ocp_process_free(process->proc);
	free(process->states);
	process->proc = NULL;
	process->states = NULL;
}

void handlers_free(struct handlers *handlers)
{
	for (size_t i = 0; i < handlers->n; i++)
		close_process(&handlers->processes[i]);
	free(handlers->processes);
	*handlers = (struct handlers){ 0 };
}

void handlers_forget(struct handlers *handlers)
{
	for (size_t i = 0; i < handlers->n; i++)
		close_process(&handlers->processes[i]);
}

static int open_looked_into(struct ocp_ctx *ctx, struct looked_into *process)
{
	int err = ocp_process_open(ctx, process->pid, &process->proc);

	if (err)
		return err;
	process->states =
		calloc(ocp_process_probe_count(process->proc) + 1, sizeof(*process->states));
	if (!process->states) {
		close_process(process);
		return ctx_no_memory(ctx);
	}
	return 0;
}

/* Replace the list of processes by PIDS. Keep the data of processes that remain. */
static int take_over(struct ocp_ctx *ctx, struct handlers *handlers, const pid_t *pids, size_t n)
{
	struct looked_into *now = calloc(n + 1, sizeof(*now));
	size_t old = 0;

	if (!now)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n; i++) {
		for (; old < handlers->n && handlers->processes[old].pid < pids[i]; old++)
			close_process(&handlers->processes[old]);
		if (old < handlers->n && handlers->processes[old].pid == pids[i])
			now[i] = handlers->processes[old++];
		else
			now[i] = (struct looked_into){ .pid = pids[i], .rest = 1 };
	}
	for (; old < handlers->n; old++)
		close_process(&handlers->processes[old]);
	free(handlers->processes);
	handlers->processes = now;
	handlers->n = n;
	return 0;
}

int handlers_follow(struct ocp_ctx *ctx, struct handlers *handlers, const pid_t *pids, size_t n)
{
	size_t n_opened = 0, n_open = 0;
	int err = take_over(ctx, handlers, pids, n);

	for (size_t i = 0; !err && i < handlers->n; i++)
		n_open += handlers->processes[i].proc != NULL;
	for (size_t i = 0; !err && i < handlers->n; i++) {
		struct looked_into *process = &handlers->processes[i];

		if (process->proc || n_open >= MAX_LOOKED_INTO || n_opened == MAX_OPENS)
			continue;
		if (process->rest) {
			process->rest--;
			continue;
		}
		n_opened++;
		err = open_looked_into(ctx, process);
		if (!err)
			n_open++;
		else
			process->rest = err == -EAGAIN ? 1 : REST_TICKS;
		err = err == -ENOMEM ? err : 0;
	}
	return err;
}

/* ---- states --------------------------------------------------------------------------------- */

/*
 * Return KNOWN, the common state in the processes so far, combined with STATE, the state in one
 * more process.
 */
static enum watch_handler merge_state(enum watch_handler known, enum ocp_state state)
{
	const enum watch_handler now = state == OCP_ENABLED    ? WATCH_HANDLER_ON
				       : state == OCP_DISABLED ? WATCH_HANDLER_OFF
							       : WATCH_HANDLER_MIXED;

	return known == WATCH_HANDLER_UNKNOWN || known == now ? now : WATCH_HANDLER_MIXED;
}

/* Add the states in PROCESS to PROBES. Both lists are sorted by name. */
static void add_states(const struct looked_into *process, struct watch_probe *probes,
		       size_t n_probes)
{
	const size_t n = ocp_process_probe_count(process->proc);
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const char *name = ocp_process_probe_name(process->proc, i);
		int order = -1;

		while (at < n_probes && (order = strcmp(probes[at].name, name)) < 0)
			at++;
		if (at == n_probes || order != 0)
			continue;
		probes[at].handler = merge_state(probes[at].handler, process->states[i]);
		probes[at].n_enabled += process->states[i] != OCP_DISABLED;
	}
}

void handlers_read(struct handlers *handlers, struct watch_probe *probes, size_t n_probes)
{
	for (size_t i = 0; i < n_probes; i++) {
		probes[i].handler =
			item_is_code(probes[i].name) ? WATCH_HANDLER_NONE : WATCH_HANDLER_UNKNOWN;
		probes[i].n_enabled = 0;
	}
	for (size_t i = 0; i < handlers->n; i++) {
		struct looked_into *process = &handlers->processes[i];

		if (!process->proc)
			continue;
		/*
		 * If this fails, the process has exited or executed another file, and the next tick
		 * drops it.
		 */
		if (ocp_process_read_states(process->proc, 0, process->states) != 0)
			close_process(process);
		else
			add_states(process, probes, n_probes);
	}
}

/* ---- switching ------------------------------------------------------------------------------ */

/*
 * Return true if PROBE needs no change in PROCESS: its handlers are switched already, or PROCESS
 * has no such probe.
 */
static bool is_done(const struct looked_into *process, const char *probe, bool on)
{
	for (size_t i = 0; i < ocp_process_probe_count(process->proc); i++)
		if (strcmp(ocp_process_probe_name(process->proc, i), probe) == 0)
			return process->states[i] == (on ? OCP_ENABLED : OCP_DISABLED);
	return true;
}

static int switch_one(struct ocp_ctx *ctx, struct looked_into *process, const char *probe, bool on,
		      size_t *n)
{
	struct ocp_actions *actions;
	int err = process->proc ? 0 : open_looked_into(ctx, process);

	if (!err)
		err = ocp_process_read_states(process->proc, 0, process->states);
	if (err || is_done(process, probe, on))
		return err;
	actions = ocp_actions_new(ctx);
	if (!actions)
		return -ENOMEM;
	err = on ? ocp_actions_enable(actions, probe) : ocp_actions_disable(actions, probe);
	if (!err)
		err = ocp_process_update(process->proc, actions, 0);
	ocp_actions_free(actions);
	if (!err)
		++*n;
	return err;
}

int handlers_switch(struct ocp_ctx *ctx, struct handlers *handlers, const char *probe, bool on,
		    size_t *n)
{
	char *why = NULL;
	int first_err = 0;
	size_t n_open = 0;

	*n = 0;
	for (size_t i = 0; i < handlers->n; i++)
		n_open += handlers->processes[i].proc != NULL;
	for (size_t i = 0; i < handlers->n; i++) {
		struct looked_into *process = &handlers->processes[i];
		const bool was_open = process->proc != NULL;
		int err = switch_one(ctx, process, probe, on, n);

		/* Limit the number of open processes, since each takes descriptors. */
		if (!was_open && n_open >= MAX_LOOKED_INTO)
			close_process(process);
		else
			n_open += !was_open && process->proc;
		if (!err || first_err)
			continue;
		first_err = err;
		why = strdup(ocp_error(ctx));
	}
	if (first_err && why)
		ctx_error(ctx, first_err, "%s", why);
	free(why);
	return first_err;
}
