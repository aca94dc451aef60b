// SPDX-License-Identifier: MIT
#include "base/search.h"
#include "measure/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "args.h"
#include "measure/meter.h"
#include "unwind/stack_store.h"

/* ---- processes ------------------------------------------------------------------------------ */

int meter_walk_processes(struct ocp_meter *meter)
{
	const bool walks = measure_request_walks(&meter->request);

	for (size_t i = 0; walks && i < meter->n_processes; i++) {
		struct measured_process *process = &meter->processes[i];
		int err;

		if (process->is_walked)
			continue;
		err = meter->ops->walk(meter->engine, process->pid);
		if (err == -ENOMEM)
			return err;
		/*
		 * The process has ended, or we are not permitted to inspect it. In both cases its
		 * hits do not count.
		 */
		if (err)
			ctx_log(meter->ctx, OCP_LOG_DEBUG, "%s", ocp_error(meter->ctx));
		process->is_walked = !err;
	}
	return walks ? meter->ops->refresh_stacks(meter->engine) : 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

static int append_frames(struct ocp_meter *meter, struct named_frames *frames,
			 const struct named_frame *added, size_t n)
{
	void *list = reallocarray(frames->list, frames->n + n + 1, sizeof(void *));

	if (!list)
		return ctx_no_memory(meter->ctx);
	frames->list = list;
	for (size_t i = 0; i < n; i++)
		frames->list[frames->n++] = &added[i];
	return 0;
}

/* Return true if FRAME is at SITE, and the source position of the probe is known. */
static bool is_at(const struct ocp_meter *meter, uint64_t frame, const struct measured_site *site)
{
	const struct measured_file *file;
	struct walked_place place;
	struct stat st;

	if (site->file == NO_FILE || !site->source || !(frame & WALK_EXACT) ||
	    !stack_walker_locate(meter->ops->walker(meter->engine), frame, &place) ||
	    place.va != site->va)
		return false;
	file = &meter->table.files[site->file];
	return fstat(place.file->fd, &st) == 0 && st.st_dev == file->dev && st.st_ino == file->ino;
}

/*
 * Return the site at which FRAME is. Return NULL if FRAME is at no site, or if the source position
 * of the site's probe is unknown.
 */
static const struct measured_site *find_site(const struct ocp_meter *meter, uint64_t frame)
{
	for (size_t i = 0; i < meter->table.n_sites; i++) {
		const struct measured_site *site = &meter->table.sites[i];

		if (site->va == (uint32_t)frame && is_at(meter, frame, site))
			return site;
	}
	return NULL;
}

/*
 * Set *FRAME to a frame for SITE. FROM is the frame of the code at SITE; the new frame is a copy of
 * FROM with the source position of the probe.
 */
static int make_site_frame(struct ocp_meter *meter, const struct measured_site *site,
			   const struct named_frame *from, const struct named_frame **frame)
{
	const size_t number = (size_t)(site - meter->table.sites);
	const size_t n = meter->table.n_sites;

	if (number >= meter->n_site_frames) {
		void *grown = reallocarray(meter->site_frames, n, sizeof(void *));

		if (!grown)
			return ctx_no_memory(meter->ctx);
		meter->site_frames = grown;
		memset(meter->site_frames + meter->n_site_frames, 0,
		       (n - meter->n_site_frames) * sizeof(void *));
		meter->n_site_frames = n;
	}
	if (!meter->site_frames[number]) {
		struct named_frame *made = malloc(sizeof(*made));

		if (!made)
			return ctx_no_memory(meter->ctx);
		*made = *from;
		made->file = site->source;
		made->line = (uint32_t)site->line;
		meter->site_frames[number] = made;
	}
	*frame = meter->site_frames[number];
	return 0;
}

void meter_stacks_free(struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->n_site_frames; i++)
		free(meter->site_frames[i]);
	free(meter->site_frames);
	frame_names_close(meter->frame_names);
}

static const struct named_frame lost_stack = { .function = "[truncated: no room for the stack]",
					       .kind = FRAME_TRUNCATED },
				cut_stack = {
					.function = "[truncated: more frames than were asked for]",
					.kind = FRAME_TRUNCATED
				};

/*
 * Name the frames of STACK, the stack of a hit of SITE. SITE is NULL if the source position of the
 * probe is unknown. The caller frees frames->list, also on failure.
 */
static int name_stack(struct ocp_meter *meter, const struct stored_stack *stack,
		      const struct measured_site *site, struct named_frames *frames)
{
	int err = 0;

	*frames = (struct named_frames){ 0 };
	if (!stack)
		return append_frames(meter, frames, &lost_stack, 1);
	if (!meter->frame_names)
		err = frame_names_open(meter->ctx, meter->ops->walker(meter->engine),
				       &meter->frame_names);
	for (uint32_t i = 0; i < stack->n && !err; i++) {
		const struct named_frame *named;
		size_t n;

		err = frame_names_find(meter->frame_names, stack->frames[i], &named, &n);
		if (!err)
			err = append_frames(meter, frames, named, n);
	}
	if (!err && site && frames->n)
		err = make_site_frame(meter, site, frames->list[0], &frames->list[0]);
	if (!err && stack->end == WALK_TOO_DEEP && meter->request.stack_depth < MAX_STACK_DEPTH) {
		err = append_frames(meter, frames, &cut_stack, 1);
	} else if (!err && stack->end != WALK_COMPLETE) {
		stack_walker_tell_end(frame_names_walker(meter->frame_names), stack);
		err = append_frames(meter, frames, frame_names_of_end(stack->end), 1);
	}
	return err;
}

int meter_name_hit(struct ocp_meter *meter, const struct ocp_hit *hit, struct named_frames *frames)
{
	const struct stored_stack *stack = hit->stack;
	const struct hit_record *record = hit->record;
	const struct measured_site *site = &meter->table.sites[record->site];

	*frames = (struct named_frames){ 0 };
	if (!stack)
		return 0;
	return name_stack(meter, stack,
			  stack->n && is_at(meter, stack->frames[0], site) ? site : NULL, frames);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int compare_texts(const char *a, const char *b)
{
	if (a == b)
		return 0;
	return !a ? -1 : !b ? 1 : strcmp(a, b);
}

static int compare_frames(const struct named_frame *a, const struct named_frame *b)
{
	int order = a == b ? 0 : strcmp(a->function, b->function);

	if (a == b)
		return 0;
	if (!order)
		order = compare_texts(a->file, b->file);
	if (!order)
		order = COMPARE(a->line, b->line);
	if (!order)
		order = (int)a->kind - (int)b->kind;
	return order ? order : a->is_inlined - b->is_inlined;
}

/* Compare rows by probe, then by pair. */
static int compare_subjects(const struct stack_row *x, const struct stack_row *y)
{
	int order = !x->probe - !y->probe;

	if (!order)
		order = compare_texts(x->probe, y->probe);
	return order ? order : COMPARE(x->pair, y->pair);
}

/* Compare rows by probe or pair, then by frames. */
static int compare_stack_rows(const void *a, const void *b)
{
	const struct stack_row *x = a, *y = b;
	int order = compare_subjects(x, y);

	for (size_t i = 0; !order && i < x->frames.n && i < y->frames.n; i++)
		order = compare_frames(x->frames.list[i], y->frames.list[i]);
	return order ? order : COMPARE(x->frames.n, y->frames.n);
}

/* Compare rows in the order of struct stack_rows. */
static int by_weight(const void *a, const void *b)
{
	const struct stack_row *x = a, *y = b;
	int order = compare_subjects(x, y);

	if (!order)
		order = COMPARE(y->sum_ns, x->sum_ns);
	if (!order)
		order = COMPARE(y->n, x->n);
	return order ? order : compare_stack_rows(a, b);
}

/*
 * Merge rows of the same probe or pair whose frames look the same, for example rows of two calls in
 * the same line, or of two sites of a probe. Sort ROWS in the order of struct stack_rows.
 */
static void merge_equal_rows(struct stack_rows *rows)
{
	size_t n = 0;

	if (!rows->n)
		return;
	qsort(rows->list, rows->n, sizeof(*rows->list), compare_stack_rows);
	for (size_t i = 0; i < rows->n; i++) {
		struct stack_row *row = &rows->list[i], *last = n ? &rows->list[n - 1] : NULL;

		if (!last || compare_stack_rows(last, row)) {
			rows->list[n++] = *row;
			continue;
		}
		last->n += row->n;
		last->sum_ns += row->sum_ns;
		last->max_ns = row->max_ns > last->max_ns ? row->max_ns : last->max_ns;
		free(row->frames.list);
	}
	rows->n = n;
	qsort(rows->list, n, sizeof(*rows->list), by_weight);
}

static int add_row(struct ocp_meter *meter, const struct engine_stack *from,
		   struct stack_rows *rows)
{
	struct stack_row *row = &rows->list[rows->n];
	const struct measured_site *site = NULL;

	if (from->number >= (from->is_pair ? meter->request.n_pairs : meter->table.n_probes))
		return 0;
	rows->n++;
	*row = (struct stack_row){ .n = from->count.n,
				   .sum_ns = from->count.sum_ns,
				   .max_ns = from->count.max_ns };
	if (from->is_pair)
		row->pair = from->number;
	else
		row->probe = meter->table.probes[from->number].name;
	if (!from->stack)
		rows->lost += row->n;
	if (from->stack && from->stack->n)
		site = find_site(meter, from->stack->frames[0]);
	return name_stack(meter, from->stack, site, &row->frames);
}

int meter_read_stacks(struct ocp_meter *meter, struct stack_rows *rows)
{
	struct engine_stacks stacks = { 0 };
	int err = meter->ops->read_stacks(meter->engine, &stacks);

	*rows = (struct stack_rows){ .list = calloc(stacks.n + 1, sizeof(*rows->list)) };
	if (!err && !rows->list)
		err = ctx_no_memory(meter->ctx);
	rows->walks = stacks.costs.walks;
	rows->not_counted = stacks.costs.counts_full;
	rows->unknown_calls = stacks.costs.unknown_calls;
	for (int end = 0; end < WALK_ENDS; end++)
		rows->truncated += end == WALK_COMPLETE ? 0 : stacks.losses.ended[end];
	for (size_t i = 0; i < stacks.n && !err; i++)
		err = add_row(meter, &stacks.list[i], rows);
	if (!err)
		merge_equal_rows(rows);
	free(stacks.list);
	stack_store_free(stacks.store);
	return err;
}

void stack_rows_free(struct stack_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->list[i].frames.list);
	free(rows->list);
	*rows = (struct stack_rows){ 0 };
}
