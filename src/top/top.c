// SPDX-License-Identifier: MIT
#include "top/top.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "top/text.h"

void top_message(struct top *top, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(top->message, sizeof(top->message), fmt, ap);
	va_end(ap);
}

int top_open(struct top *top, const struct options *options)
{
	const struct watch_spec spec = {
		.exe = options->exe,
		.pid = options->pid,
		.engine = options->engine,
		.request = &options->request,
	};
	const struct top_options *own = options->own;
	int err;

	top->ctx = options->ctx;
	top->budget = options->request.budget;
	top->has_all = !options->exe && !options->pid;
	top->is_utf8 = text_is_utf8();
	top->watch = watch_new(options->ctx, false);
	err = top->watch ? watch_set(top->watch, &spec, 1) : -ENOMEM;
	if (!err && own->memprof)
		err = heap_view_open(options->ctx, own->memprof_rate, own->by_leaf, &top->heap);
	if (!err)
		err = top_show(top);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

void top_close(struct top *top)
{
	view_free(&top->view);
	heap_view_close(top->heap);
	top->heap = NULL;
	watch_free(top->watch);
	top->watch = NULL;
}

/* Show a message for each program whose last process has exited, or that runs again. */
static void tell_changes(struct top *top, const struct view_snapshot *was,
			 const struct view_snapshot *is)
{
	for (size_t i = 0; i < is->n_targets; i++) {
		const struct seen_target *now = &is->targets[i];
		const struct seen_target *before = view_snapshot_find_target(was, now->exe);

		if (!before ? was->n_targets && now->is_up : now->is_up && !before->is_up)
			top_message(top, "%s: running, measured", now->name);
		else if (before && before->is_up && !now->is_up && !now->knows_pids)
			top_message(top, "%s: no longer measured", now->name);
		else if (before && before->is_up && !now->is_up)
			top_message(top, "%s: exited; its next process will be measured",
				    now->name);
	}
}

int top_show(struct top *top)
{
	struct view_snapshot *seen;

	if (top->is_paused)
		return 0;
	seen = view_snapshot_take(top->watch);
	if (!seen)
		return -ENOMEM;
	if (top->shown_ticks)
		tell_changes(top, top->view.seen, seen);
	top->shown_ticks = top->n_ticks;
	return view_show(&top->view, seen) == 0 ? heap_view_show(top->heap) : -ENOMEM;
}

int top_tick(struct top *top)
{
	int err = watch_tick(top->watch);

	top->n_ticks++;
	if (!err)
		err = heap_view_follow(top->heap, top->watch);
	return err ? err : top_show(top);
}

int top_pause(struct top *top, bool pause)
{
	if (!pause) {
		top->is_paused = false;
		top_message(top, "display resumed");
		return top_show(top);
	}
	top->is_paused = true;
	top_message(top, "display frozen, counting continues; space resumes");
	return view_snapshot_copy_history(top->view.seen, top->watch);
}
