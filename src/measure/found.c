// SPDX-License-Identifier: MIT
#include "measure/found.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "change/inside/inside.h"
#include "measure/engine/engine_inside.h"
#include "measure/engine/inside_meta.h"
#include "measure/meter.h"
#include "measure/pin_meta.h"
#include "look/proc_file.h"

/* The counters of the engine `inside` that were found in a process. */
struct found_counters {
	pid_t pid;
	struct inside *inside;
	struct inside_meta meta;
};

static void found_free(struct found_counters *found)
{
	inside_close(found->inside);
	inside_meta_free(&found->meta);
	*found = (struct found_counters){ 0 };
}

/* ---- one process ---------------------------------------------------------------------------- */

static int is_damaged(struct ocp_ctx *ctx, pid_t pid, int err)
{
	if (err != -EBADMSG && err != -EPROTO)
		return err;
	ctx_error(ctx, err, "pid %d: the description of its counters is %s", (int)pid,
		  err == -EBADMSG ? "damaged" : "of another version of ocaml-probes");
	ctx_hint(ctx, "ocaml-probes doctor -pid %d --fix ends the measurement; its totals are lost",
		 (int)pid);
	return err;
}

/*
 * Set FOUND to the counters in PID. Return 1 if PID counts inside, 0 if not, or a negative errno;
 * the caller frees FOUND in any case. A process whose block remains, but whose sites are all
 * restored, no longer counts. If the meta bytes are damaged (-EBADMSG) or of another version
 * (-EPROTO), all members of FOUND except `meta` are set.
 */
static int look_within(struct ocp_ctx *ctx, pid_t pid, struct inside_room *room,
		       struct found_counters *found)
{
	struct inside_state state;
	const void *meta;
	size_t bytes;
	int err;

	*found = (struct found_counters){ .pid = pid };
	err = inside_find_within(ctx, pid, room, &found->inside);
	if (err <= 0)
		return err;
	state = inside_state_found(found->inside);
	if (!(state.n_patched + state.n_switched)) {
		found_free(found);
		return 0;
	}
	meta = inside_meta(found->inside, &bytes);
	err = inside_meta_read(ctx, meta, bytes, inside_n_sites(found->inside), &found->meta);
	if (err) {
		inside_meta_free(&found->meta);
		return is_damaged(ctx, pid, err);
	}
	return 1;
}

static int look_in_process(struct ocp_ctx *ctx, pid_t pid, struct found_counters *found)
{
	return look_within(ctx, pid, NULL, found);
}

/*
 * Return true if A and B are the same block of memory. A process and its forked children share a
 * block. A block is identified by the time of the attach and its number of sites.
 */
static bool is_same_block(const struct inside *a, const struct inside *b)
{
	return inside_start_ns(a) == inside_start_ns(b) && inside_n_sites(a) == inside_n_sites(b);
}

/*
 * Return true if A and B belong to the same meter: they share a block, or the same tool has left
 * the same name and text in both processes.
 */
static bool is_same_meter(const struct found_counters *a, const struct found_counters *b)
{
	return is_same_block(a->inside, b->inside) ||
	       (inside_maker(a->inside) == inside_maker(b->inside) &&
		strcmp(a->meta.name, b->meta.name) == 0 &&
		a->meta.text_bytes == b->meta.text_bytes &&
		memcmp(a->meta.text, b->meta.text, a->meta.text_bytes) == 0);
}

/* ---- all processes -------------------------------------------------------------------------- */

/*
 * Return true if PID belongs to another user. Other users can make blocks of any size in their
 * processes, so for_each() limits the time and memory that we spend on them. The owner of /proc/PID
 * is not always the user of the process: it is root for a process that is not dumpable.
 */
static bool is_foreign(struct ocp_ctx *ctx, pid_t pid)
{
	struct proc_status status;

	return proc_status_read(ctx, pid, &status) != 0 || status.real_uid != geteuid() ||
	       status.effective_uid != geteuid();
}

/*
 * Call FN(DATA, found) for each process that counts inside and can be inspected, until FN returns a
 * value other than 0. If FN keeps the contents of FOUND, it must set FOUND to zeros. From the
 * processes of other users, at most INSIDE_ROOM_SITES sites and INSIDE_ROOM_BYTES bytes are read in
 * total; a warning names each process that is skipped because of these limits.
 */
static int for_each(struct ocp_ctx *ctx, int (*fn)(void *data, struct found_counters *found),
		    void *data)
{
	/* receives the messages about processes that are skipped */
	struct ocp_ctx *scratch = ocp_ctx_new();
	struct inside_room room = { INSIDE_ROOM_SITES, INSIDE_ROOM_BYTES };
	pid_t *pids;
	size_t n;
	int err;

	if (!scratch)
		return ctx_no_memory(ctx);
	err = inside_find_processes(ctx, &pids, &n);
	for (size_t i = 0; !err && i < n; i++) {
		const pid_t pid = pids[i];
		struct found_counters found;
		const int seen =
			look_within(scratch, pid, is_foreign(scratch, pid) ? &room : NULL, &found);

		if (seen == 1)
			err = fn(data, &found);
		else if (seen == -E2BIG)
			ctx_log(ctx, OCP_LOG_WARN, "%s", ocp_error(scratch));
		found_free(&found);
	}
	free(pids);
	ocp_ctx_free(scratch);
	return err;
}

struct counter_search {
	struct ocp_ctx *ctx;
	const char *name;
	struct found_counters first; /* the ctx of first.inside has been freed */
	/* a process with a different meter of this name; 0: there is none */
	pid_t another;
};

static int take_named(void *data, struct found_counters *found)
{
	struct counter_search *search = data;

	if (strcmp(found->meta.name, search->name) != 0)
		return 0;
	if (!search->first.pid) {
		search->first = *found;
		*found = (struct found_counters){ 0 };
	} else if (!is_same_meter(&search->first, found)) {
		search->another = found->pid;
	}
	return 0;
}

/*
 * Set *PID to a process that has the meter NAME, or to 0. Return -EEXIST if different meters have
 * this name.
 */
static int find_name(struct ocp_ctx *ctx, const char *name, pid_t *pid)
{
	struct counter_search search = { .ctx = ctx, .name = name };
	int err = for_each(ctx, take_named, &search);

	*pid = search.first.pid;
	if (!err && search.another) {
		err = ctx_error(ctx, -EEXIST, "'%s': pid %d and pid %d have a meter of this name",
				name, (int)search.first.pid, (int)search.another);
		ctx_hint(ctx, "choose one: -pid %d", (int)search.first.pid);
	}
	found_free(&search.first);
	return err;
}

int found_check_name_free(struct ocp_ctx *ctx, const char *name)
{
	pid_t pid;
	int err = find_name(ctx, name, &pid);

	if (err == -EEXIST || (!err && pid))
		return pin_is_taken(ctx, name);
	return err;
}

/* ---- a meter -------------------------------------------------------------------------------- */

/* The processes of a meter, one per block: of the processes that share a block, one is a member. */
struct members {
	struct ocp_meter *meter;
	const struct found_counters *first;
	struct member {
		pid_t pid;
		int64_t start_ns;
		size_t n_sites;
	} * list;
	size_t n;
};

static bool is_known(const struct members *members, const struct inside *inside)
{
	for (size_t i = 0; i < members->n; i++)
		if (members->list[i].start_ns == inside_start_ns(inside) &&
		    members->list[i].n_sites == inside_n_sites(inside))
			return true;
	return false;
}

static int add_member(struct members *members, const struct found_counters *found)
{
	struct member *new = array_add(members->list, members->n);

	if (!new)
		return ctx_no_memory(members->meter->ctx);
	*new = (struct member){ .pid = found->pid,
				.start_ns = inside_start_ns(found->inside),
				.n_sites = inside_n_sites(found->inside) };
	return 0;
}

static int add_counted_pid(struct ocp_meter *meter, pid_t pid)
{
	pid_t *new;

	for (size_t i = 0; i < meter->n_asked; i++)
		if (meter->pids[i] == pid) {
			meter->n_alive++;
			return 0;
		}
	new = array_add(meter->pids, meter->n_pids);
	if (!new)
		return ctx_no_memory(meter->ctx);
	*new = pid;
	return 0;
}

static int look_for_members(void *data, struct found_counters *found)
{
	struct members *members = data;
	int err;

	if (!is_same_meter(found, members->first))
		return 0;
	err = is_known(members, found->inside) ? 0 : add_member(members, found);
	return err ? err : add_counted_pid(members->meter, found->pid);
}

/*
 * Return true if METER, which was made from the description in FOUND, fits the counters of FOUND.
 * This must be checked, because anyone who can write to the memory of the process can change the
 * description.
 */
static bool fits(const struct ocp_meter *meter, const struct found_counters *found)
{
	const int64_t start_ns = inside_start_ns(found->inside);

	for (size_t i = 0; i < found->meta.n_numbers; i++)
		if (found->meta.numbers[i].number >= meter->table.n_sites)
			return false;
	return !meter->program_name && meter->n_pids && meter->request.split <= OCP_BY_SITE &&
	       meter->request.n_pairs == inside_n_pairs(found->inside) && start_ns >= 0 &&
	       start_ns <= clock_ns(CLOCK_MONOTONIC);
}

/* Mark the probes that belong to pairs, because a hit of such a probe costs more. */
static void mark_paired(struct ocp_meter *meter)
{
	for (size_t i = 0; i < 2 * meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i / 2];
		const ptrdiff_t probe = site_table_find(
			&meter->table, i % 2 ? request_pair_stop(pair) : pair->start.text);

		if (probe >= 0)
			meter->table.probes[probe].n_roles = 1;
	}
}

/* Fill METER from the description in FOUND. */
static int restore_meter(struct ocp_meter *meter, const struct found_counters *found)
{
	char *text = malloc(found->meta.text_bytes); /* the parser overwrites its text */
	int err;

	if (!text)
		return ctx_no_memory(meter->ctx);
	memcpy(text, found->meta.text, found->meta.text_bytes);
	err = site_table_keep(&meter->table, text);
	if (!err)
		err = pin_meta_parse_untrusted(meter, text);
	if (!err && !fits(meter, found))
		err = -EBADMSG;
	if (!err)
		mark_paired(meter);
	meter->start_ns = inside_start_ns(found->inside);
	meter->n_asked = meter->n_pids;
	return is_damaged(meter->ctx, found->pid, err);
}

/* Add the counters of FOUND to the engine of METER. The engine then owns them. */
static int add_found(struct ocp_meter *meter, struct found_counters *found)
{
	struct inside *inside = found->inside;
	struct inside_number *numbers = found->meta.numbers;

	if (inside_start_ns(inside) < meter->start_ns)
		meter->start_ns = inside_start_ns(inside);
	found->inside = NULL;
	found->meta.numbers = NULL;
	return engine_inside_add_found(meter->engine, found->pid, inside, numbers,
				       found->meta.n_numbers);
}

/*
 * Add the counters of the MEMBERS to METER. Leave out a process that has ended since it was found.
 */
static int add_members(struct ocp_meter *meter, const struct members *members)
{
	int err = engine_inside_new_found(meter->ctx, &meter->engine);

	for (size_t i = 0; !err && i < members->n; i++) {
		struct found_counters found;

		err = look_in_process(meter->ctx, members->list[i].pid, &found);
		if (err > 0)
			err = is_same_meter(&found, members->first) && fits(meter, &found)
				      ? add_found(meter, &found)
				      : 0;
		if (err == -ESRCH)
			err = 0;
		found_free(&found);
	}
	return err;
}

static int make_meter(struct ocp_ctx *ctx, const struct found_counters *found,
		      struct ocp_meter **out)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	struct members members = { .meter = meter, .first = found };
	int err;

	if (!meter)
		return -ENOMEM;
	meter_use_inside(meter);
	err = restore_meter(meter, found);
	if (!err)
		err = add_member(&members, found);
	if (!err)
		err = for_each(ctx, look_for_members, &members);
	if (!err)
		err = add_members(meter, &members);
	if (!err && !engine_inside_n_processes(meter->engine))
		err = ctx_error(ctx, -ESRCH, "pid %d: has ended", (int)found->pid);
	free(members.list);
	meter->is_attached = meter->is_pinned = meter->is_found = !err;
	if (err)
		ocp_meter_free(meter);
	else
		*out = meter;
	return err;
}

int found_open_pid(struct ocp_ctx *ctx, pid_t pid, struct ocp_meter **out)
{
	struct found_counters found;
	int err = look_in_process(ctx, pid, &found);

	*out = NULL;
	if (!err)
		err = ctx_error(ctx, -ENOENT, "pid %d: nothing is counted inside of it", (int)pid);
	else if (err > 0)
		err = make_meter(ctx, &found, out);
	found_free(&found);
	return err;
}

int found_open_name(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out)
{
	pid_t pid;
	int err = find_name(ctx, name, &pid);

	*out = NULL;
	if (!err && !pid)
		err = -ENOENT;
	return err ? err : found_open_pid(ctx, pid, out);
}

static int remove_from(struct ocp_ctx *ctx, pid_t pid)
{
	struct inside *inside = NULL;
	int err = inside_find(ctx, pid, &inside);

	if (!err)
		return ctx_error(ctx, -ENOENT, "pid %d: nothing is counted inside of it", (int)pid);
	if (err > 0)
		err = inside_detach(inside);
	inside_close(inside);
	return err;
}

/*
 * The processes that have the meter NAME. find_name() has checked that all of these processes
 * belong to the same meter.
 */
struct named_processes {
	struct ocp_ctx *ctx;
	const char *name;
	pid_t *pids;
	size_t n;
};

static int add_named(void *data, struct found_counters *found)
{
	struct named_processes *named = data;
	pid_t *new;

	if (strcmp(found->meta.name, named->name) != 0)
		return 0;
	new = array_add(named->pids, named->n);
	if (!new)
		return ctx_no_memory(named->ctx);
	*new = found->pid;
	return 0;
}

/*
 * End the counters in each of the processes. Skip a process that has ended, or whose counters
 * another tool has ended.
 */
static int remove_from_all(struct ocp_ctx *ctx, const struct named_processes *named)
{
	int err = 0;

	for (size_t i = 0; !err && i < named->n; i++) {
		err = remove_from(ctx, named->pids[i]);
		if (err == -ENOENT || err == -ESRCH)
			err = 0;
	}
	return err;
}

/*
 * End the meter NAME in all of its processes. A process may fork while this happens, so repeat it
 * until no process has the meter. The number of rounds is limited: a process can make a new block
 * each time.
 */
static int remove_named(struct ocp_ctx *ctx, const char *name)
{
	enum { MAX_ROUNDS = 4 };
	pid_t pid;
	int err = find_name(ctx, name, &pid);

	for (int i = 0; !err && pid && i < MAX_ROUNDS; i++) {
		struct named_processes named = { .ctx = ctx, .name = name };

		err = for_each(ctx, add_named, &named);
		if (!err)
			err = remove_from_all(ctx, &named);
		free(named.pids);
		/*
		 * If find_name() fails with -EEXIST, different meters have this name now. Only one
		 * meter had it before, and this meter was ended, so the others are new, and this is
		 * success.
		 */
		if (!err && find_name(ctx, name, &pid) != 0)
			return 0;
	}
	if (!err && pid)
		err = ctx_error(ctx, -EBUSY,
				"'%s': pid %d is counted again each time its counting is ended",
				name, (int)pid);
	return err;
}

int found_remove(struct ocp_ctx *ctx, const char *name, pid_t pid)
{
	return name ? remove_named(ctx, name) : remove_from(ctx, pid);
}

/*
 * Return how long the machine has slept: CLOCK_BOOTTIME, unlike CLOCK_MONOTONIC, also runs while it
 * sleeps. The result is never too short. It is too long by the time between two readings of clocks,
 * so read them again if that was long.
 */
static int64_t sleep_ns(void)
{
	enum { TRIES = 10, LONG_NS = 100000 };
	int64_t before_ns, boot_ns, tries = TRIES;

	do {
		before_ns = clock_ns(CLOCK_MONOTONIC);
		boot_ns = clock_ns(CLOCK_BOOTTIME);
	} while (clock_ns(CLOCK_MONOTONIC) - before_ns > LONG_NS && --tries);
	return boot_ns - before_ns;
}

/*
 * Return true if PID certainly started after the time NS of CLOCK_MONOTONIC. The kernel gives the
 * start time of a process in CLOCK_BOOTTIME, in ticks that have ended.
 */
static bool started_after(pid_t pid, int64_t ns)
{
	const int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
	uint64_t ticks;

	return proc_start_time(pid, &ticks) == 0 && (int64_t)ticks * tick_ns > ns + sleep_ns();
}

/*
 * Return the pid of the tool that made the counters of FOUND if this tool is still running, else 0.
 */
static pid_t living_maker(struct ocp_ctx *ctx, const struct found_counters *found)
{
	static const char tool[] = "ocaml-probes";
	const pid_t maker = inside_maker(found->inside);
	struct proc_status status = { 0 };

	if (maker <= 0 || proc_status_read(ctx, maker, &status) != 0 ||
	    strncmp(status.name, tool, strlen(tool)) != 0 || status.state == 'Z' ||
	    started_after(maker, inside_start_ns(found->inside)))
		return 0;
	return maker;
}

pid_t found_living_tool(struct ocp_ctx *ctx, pid_t pid)
{
	struct found_counters found;
	pid_t maker = 0;

	if (look_in_process(ctx, pid, &found) == 1 && !found.meta.name[0])
		maker = living_maker(ctx, &found);
	found_free(&found);
	return maker;
}

/*
 * Return true if PID has counters without a name, if the tool that left them has ended, and if they
 * count nothing that TEXT does not request. Set *MAKER to that tool.
 */
static bool is_left_over(struct ocp_ctx *ctx, pid_t pid, const char *text, pid_t *maker)
{
	struct found_counters found;
	bool is_one = look_in_process(ctx, pid, &found) == 1 && !found.meta.name[0] &&
		      !living_maker(ctx, &found) && pin_meta_is_part(found.meta.text, text);

	if (is_one)
		*maker = inside_maker(found.inside);
	found_free(&found);
	return is_one;
}

/*
 * End the counters that a killed tool has left in METER's process. Return -EBUSY if the counters in
 * the process are not left over: see is_left_over(). Errors go to SCRATCH, so that METER's ctx
 * keeps its message.
 */
static int end_left_over(struct ocp_meter *meter, const char *text, struct ocp_ctx *scratch)
{
	const pid_t pid = meter->pids[0];
	struct ocp_meter *old = NULL;
	pid_t maker;
	int err;

	if (!is_left_over(scratch, pid, text, &maker))
		return -EBUSY;
	err = found_open_pid(scratch, pid, &old);
	if (!err)
		err = ocp_meter_detach(old);
	ocp_meter_free(old);
	if (!err)
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"pid %d: was counted inside for pid %d, which has been killed: the counting is "
			"ended, and its totals are lost",
			(int)pid, (int)maker);
	return err;
}

bool found_take_over(struct ocp_meter *meter)
{
	struct ocp_ctx *scratch = ocp_ctx_new();
	char *text = NULL;
	bool is_ended = scratch && meter->n_pids == 1 && meter_text(meter, &text) == 0 &&
			end_left_over(meter, text, scratch) == 0;

	free(text);
	ocp_ctx_free(scratch);
	return is_ended;
}

/* ---- names ---------------------------------------------------------------------------------- */

struct meter_names {
	struct ocp_ctx *ctx;
	char (*list)[INSIDE_META_NAME_BYTES];
	size_t n;
};

static int add_meter_name(void *data, struct found_counters *found)
{
	struct meter_names *names = data;
	char(*new)[INSIDE_META_NAME_BYTES];

	if (!found->meta.name[0])
		return 0;
	new = array_add(names->list, names->n);
	if (!new)
		return ctx_no_memory(names->ctx);
	memcpy(*new, found->meta.name, sizeof(*new));
	return 0;
}

int found_list_names(struct ocp_ctx *ctx, char ***list, size_t *n)
{
	struct meter_names names = { .ctx = ctx };
	int err = for_each(ctx, add_meter_name, &names);
	char *text;

	*n = 0;
	*list = err ? NULL : calloc(names.n + 1, sizeof(**list) + sizeof(*names.list));
	if (!err && !*list)
		err = ctx_no_memory(ctx);
	text = *list ? (char *)(*list + names.n + 1) : NULL;
	for (size_t i = 0; !err && i < names.n; i++) {
		(*list)[(*n)++] = text;
		text = stpcpy(text, names.list[i]) + 1;
	}
	free(names.list);
	return err;
}
