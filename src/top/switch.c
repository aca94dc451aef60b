// SPDX-License-Identifier: MIT
/* Switch the handlers or the counter of the probe under the cursor. */
#include "base/array.h"
#include "top/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "top/text.h"

enum { FEW_NAMES = 5 };

static bool is_switch_of(const struct top_switch *a, const char *exe, const char *name)
{
	return strcmp(a->exe, exe) == 0 && strcmp(a->name, name) == 0;
}

static void free_switch(struct top_switch *what)
{
	free(what->exe);
	free(what->name);
	*what = (struct top_switch){ 0 };
}

static int set_switch(struct top_switch *to, const char *exe, const char *name, bool on)
{
	*to = (struct top_switch){ strdup(exe), strdup(name), on };
	if (to->exe && to->name)
		return 0;
	free_switch(to);
	return -ENOMEM;
}

void switch_free(struct top *top)
{
	free_switch(&top->asked);
	for (size_t i = 0; i < top->n_switched; i++)
		free_switch(&top->switched[i]);
	free(top->switched);
	top->switched = NULL;
	top->n_switched = 0;
}

/* ---- handlers left on ----------------------------------------------------------------------- */

static int remember_switch(struct top *top, const struct top_switch *what)
{
	struct top_switch *new;
	size_t i = 0;

	while (i < top->n_switched && !is_switch_of(&top->switched[i], what->exe, what->name))
		i++;
	if (what->on && i == top->n_switched) {
		new = array_add(top->switched, top->n_switched);
		if (!new)
			return -ENOMEM;
		if (set_switch(new, what->exe, what->name, true) != 0) {
			top->n_switched--;
			return -ENOMEM;
		}
	} else if (!what->on && i < top->n_switched) {
		free_switch(&top->switched[i]);
		top->switched[i] = top->switched[--top->n_switched];
	}
	return 0;
}

/*
 * Return true if the program of WHAT may still run. If all its processes have ended, no handlers
 * are left on.
 */
static bool is_left_on(const struct top *top, const struct top_switch *what)
{
	const ptrdiff_t t = watch_find_target(top->watch, what->exe);
	const struct watch_target *target = t < 0 ? NULL : watch_target(top->watch, (size_t)t);

	return target && (target->n_pids || !target->knows_pids);
}

void switch_say_left_on(const struct top *top)
{
	char names[1024] = "", name[256];
	size_t n = 0, bytes = 0;

	for (size_t i = 0; i < top->n_switched; i++) {
		if (!is_left_on(top, &top->switched[i]) || ++n > FEW_NAMES)
			continue;
		text_fit(name, sizeof(name), top->switched[i].name, 60, TEXT_CUT_END);
		bytes += (size_t)snprintf(names + bytes, sizeof(names) - bytes, "%s%s",
					  n > 1 ? ", " : "", name);
		text_fit(name, sizeof(name), text_base_name(top->switched[i].exe), 40,
			 TEXT_CUT_END);
		bytes += (size_t)snprintf(names + bytes, sizeof(names) - bytes, " (%s)", name);
	}
	if (n > FEW_NAMES)
		snprintf(names + bytes, sizeof(names) - bytes, " and %zu more", n - FEW_NAMES);
	if (n)
		say("top: handlers switched on here stay on: %s", names);
}

/* ---- switching ------------------------------------------------------------------------------ */

static void tell_error(struct top *top, const char *name)
{
	const char *hint = ocp_hint(top->ctx);

	top_message(top, "%s: %s%s%s%s", name, ocp_error(top->ctx), hint ? " (" : "",
		    hint ? hint : "", hint ? ")" : "");
}

/*
 * Show the result of a switch of probe NAME. If the display is frozen, update only the state of
 * this probe, not its numbers.
 */
static int show_switched(struct top *top, const char *exe, const char *name)
{
	const ptrdiff_t t = watch_find_target(top->watch, exe);
	const struct watch_target *target;
	struct seen_probe *seen;
	ptrdiff_t i;

	if (!top->is_paused)
		return top_show(top);
	seen = view_snapshot_find_probe(top->view.seen, exe, name);
	target = t < 0 ? NULL : watch_target(top->watch, (size_t)t);
	i = target ? watch_find_probe(target, name) : -1;
	if (!seen || i < 0)
		return 0;
	seen->handler = target->probes[i].handler;
	seen->n_enabled = target->probes[i].n_enabled;
	seen->is_counted = target->probes[i].is_counted;
	return 0;
}

static int do_switch(struct top *top, const struct top_switch *what)
{
	const ptrdiff_t target = watch_find_target(top->watch, what->exe);
	size_t n = 0;
	int err;

	if (target < 0) {
		top_message(top, "%s: its program is no longer watched", what->name);
		return 0;
	}
	err = watch_switch_handler(top->watch, (size_t)target, what->name, what->on, &n);
	if (err == -ENOMEM)
		return err;
	if (err)
		tell_error(top, what->name);
	else
		top_message(top, "%s: handlers switched %s in %zu process%s", what->name,
			    what->on ? "on" : "off", n, n == 1 ? "" : "es");
	if (n && remember_switch(top, what) != 0)
		return -ENOMEM;
	return show_switched(top, what->exe, what->name);
}

int switch_handler(struct top *top)
{
	const struct seen_probe *probe = view_hold(&top->view);
	const struct seen_target *target;
	bool on;
	int err;

	if (!probe)
		return 0;
	if (probe->handler == WATCH_HANDLER_NONE) {
		top_message(top, "%s: not a probe: it has a counter, but no handlers", probe->name);
		return 0;
	}
	target = &top->view.seen->targets[probe->target];
	if (probe->handler == WATCH_HANDLER_UNKNOWN) {
		top_message(top, "%s: %s", probe->name,
			    target->n_pids
				    ? "its processes have not been read yet, or cannot be read"
			    : target->knows_pids ? "no process runs"
						 : "its processes are unknown");
		return 0;
	}
	on = probe->handler != WATCH_HANDLER_ON;
	free_switch(&top->asked);
	err = set_switch(&top->asked, target->exe, probe->name, on);
	if (err)
		return err;
	top->mode = MODE_CONFIRM;
	snprintf(top->question, sizeof(top->question),
		 "switch the handlers of %s %s: %zu site%s in %zu process%s? (y/n)", probe->name,
		 on ? "on" : "off", probe->n_sites, probe->n_sites == 1 ? "" : "s", target->n_pids,
		 target->n_pids == 1 ? "" : "es");
	return 0;
}

int switch_answered(struct top *top, bool yes)
{
	int err = 0;

	top->mode = MODE_NORMAL;
	if (yes)
		err = do_switch(top, &top->asked);
	else
		top_message(top, "%s: not changed", top->asked.name);
	free_switch(&top->asked);
	return err;
}

int switch_counter(struct top *top)
{
	const struct seen_probe *probe = view_hold(&top->view);
	struct top_switch what;
	ptrdiff_t target;
	int err;

	if (!probe)
		return 0;
	if (!top->view.seen->targets[probe->target].is_up) {
		top_message(top, "%s: no process is measured", probe->name);
		return 0;
	}
	err = set_switch(&what, top->view.seen->targets[probe->target].exe, probe->name,
			 !probe->is_counted);
	if (err)
		return err;
	target = watch_find_target(top->watch, what.exe);
	if (target < 0) {
		top_message(top, "%s: its program is no longer watched", what.name);
		free_switch(&what);
		return 0;
	}
	err = watch_switch_counter(top->watch, (size_t)target, what.name, what.on);
	if (err)
		tell_error(top, what.name);
	else
		top_message(top, "%s: %s", what.name,
			    what.on ? "counter switched on" : "counter switched off");
	err = err == -ENOMEM ? err : show_switched(top, what.exe, what.name);
	free_switch(&what);
	return err;
}
