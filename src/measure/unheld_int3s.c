// SPDX-License-Identifier: MIT
/*
 * An int3 is held if a tool still has the uprobe or breakpoint that put it there. To find the
 * holders of int3s, we read /proc/PID/fdinfo of all processes, and list all links of the machine,
 * which requires CAP_SYS_ADMIN. Three kinds of holders do not show where their int3s are:
 * debuggers, perf events without a link, and events of tracefs at the same offset of some file. If
 * there is such a holder, int3s without a known holder may belong to it, and unheld_int3s.doubt
 * names it.
 *
 * To remove an int3, we put a uprobe on it and remove the uprobe. This is safe even if the int3 is
 * held: the kernel counts the users of a uprobe, and restores the byte of the file only when the
 * last user goes, in all processes that map the file. Measured on Linux 6.18:
 *
 *   - A uprobe on an int3 that the kernel has leaked uses the kernel's old record of this place.
 *     Removing this uprobe restores the byte, and lowers the semaphore if the record has one.
 *   - Until the machine restarts, a record with a semaphore keeps it, and a record without one gets
 *     none. A uprobe that does not fit the record in this respect fails with EINVAL.
 *   - If there is an int3 already, attaching a uprobe with a semaphore does not raise the
 *     semaphore, but removing the uprobe lowers it. If the semaphore is 0, the removal fails, and
 *     the kernel leaks the int3 again. So a uprobe gets a semaphore only if this semaphore is
 *     raised.
 */
#include "measure/unheld_int3s.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/search.h"
#include "kernel/bpf_support.h"
#include "kernel/link.h"
#include "kernel/uprobe_link.h"
#include "process/holders.h"
#include "process/int3s.h"
#include "process/process.h"
#include "look/proc_file.h"

enum {
	MAX_READINGS = 20,
	BETWEEN_READINGS_NS = 200000000,
	LINKS_AT_ONCE = 64,
	MAX_ATTEMPTS = 64,
};

/* ---- holders -------------------------------------------------------------------------------- */

static void add_doubt(struct unheld_int3s *found, const char *text)
{
	const size_t used = strlen(found->doubt);

	snprintf(found->doubt + used, sizeof(found->doubt) - used, "%s%s", used ? ", " : "", text);
}

/*
 * Mark the int3s of the N links FDS as held. Then close these descriptors with links_close():
 * meanwhile, the other descriptors of a link may have been closed, so that ours is the last one.
 */
static int look_at_links(struct ocp_process *proc, struct holders *holders, const int *fds,
			 size_t n)
{
	int err = n ? holders_add_own(proc, holders, "a link") : 0;

	links_close(fds, n);
	return err;
}

/*
 * Mark the int3s of all links of the machine as held, including pinned links and links of processes
 * that we cannot see. If the links cannot be listed, add a doubt to FOUND.
 */
static int look_at_all_links(struct ocp_process *proc, struct holders *holders,
			     struct unheld_int3s *found)
{
	int fds[LINKS_AT_ONCE], err = 0, fd = 0;
	size_t n = 0;
	uint32_t id = 0;

	while (!err && (fd = link_open_next(&id)) >= 0) {
		fds[n++] = fd;
		if (n < LINKS_AT_ONCE)
			continue;
		err = look_at_links(proc, holders, fds, n);
		n = 0;
	}
	if (!err)
		err = look_at_links(proc, holders, fds, n);
	if (!err && fd != -ENOENT)
		add_doubt(found, "links that only CAP_SYS_ADMIN can list");
	return err;
}

static void doubt_holders(const struct holders *holders, struct unheld_int3s *found)
{
	char text[HOLDER_NAME_BYTES + 32];

	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *holder = &holders->list[i];

		if (!holder->may_hold)
			continue;
		snprintf(text, sizeof(text), "pid %d (%s)", (int)holder->pid, holder->name);
		add_doubt(found, text);
	}
}

static bool is_at_int3(const struct int3s *int3s, uint64_t offset)
{
	for (size_t i = 0; i < int3s->n; i++)
		if (int3s->list[i].offset == offset)
			return true;
	return false;
}

/*
 * Return true if the event of LINE may be at one of INT3S. A line is "p:GROUP/NAME PATH:0xOFFSET",
 * followed by "(0xREF_CTR_OFFSET)" and arguments if there are any: see trace_uprobe_show() in the
 * kernel. Compare only the offset, which never changes: PATH may name another file now.
 */
static bool event_may_hold(const char *line, const struct int3s *int3s)
{
	bool has_offset = false;

	for (const char *at = line; (at = strstr(at, ":0x")) != NULL; at++) {
		char *end;
		const uint64_t offset = strtoull(at + 1, &end, 16);

		if (!*end || strchr("\n (", *end)) {
			has_offset = true;
			if (is_at_int3(int3s, offset))
				return true;
		}
	}
	return !has_offset;
}

/* As event_may_hold(), for all lines of F, the file `uprobe_events` of tracefs. */
static bool events_may_hold(FILE *f, const struct int3s *int3s)
{
	bool may_hold = false;
	size_t room = 0;
	char *line = NULL;

	while (!may_hold && getline(&line, &room, f) > 0)
		may_hold = event_may_hold(line, int3s);
	free(line);
	return may_hold || ferror(f);
}

/*
 * Add a doubt to FOUND if an event of tracefs, which no process needs to hold, may be at one of
 * INT3S, or if we are not permitted to read the list of these events. If tracefs is not mounted,
 * there are no such events.
 */
static void doubt_tracefs(const struct int3s *int3s, struct unheld_int3s *found)
{
	static const char *const paths[] = { "/sys/kernel/tracing/uprobe_events",
					     "/sys/kernel/debug/tracing/uprobe_events" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		FILE *f = fopen(paths[i], "re");
		const bool may_hold = f ? events_may_hold(f, int3s) : errno == EACCES;

		if (f)
			fclose(f);
		if (may_hold) {
			add_doubt(found, "events of tracefs (uprobe_events)");
			return;
		}
	}
}

/*
 * Remove the int3s with a known holder from INT3S. Write to found->doubt what may hold the int3s
 * that remain.
 */
static int keep_unheld(struct ocp_process *proc, struct int3s *int3s, struct unheld_int3s *found)
{
	struct holder_place *places = calloc(int3s->n + 1, sizeof(*places));
	bool *is_known = calloc(int3s->n + 1, sizeof(*is_known));
	struct holders holders = { 0 };
	int err = places && is_known ? 0 : ctx_no_memory(proc->ctx);
	size_t n = 0;

	for (size_t i = 0; !err && i < int3s->n; i++) {
		const struct int3_file *file = &int3s->files[int3s->list[i].file];

		places[i] = (struct holder_place){ .fd = file->fd,
						   .path = file->path,
						   .offset = int3s->list[i].offset };
	}
	if (!err)
		err = holders_find_at(proc, places, int3s->n, &holders);
	if (!err)
		err = look_at_all_links(proc, &holders, found);
	if (!err) {
		doubt_holders(&holders, found);
		holders_known(&holders, is_known);
		for (size_t i = 0; i < int3s->n; i++)
			if (!is_known[i])
				int3s->list[n++] = int3s->list[i];
		int3s->n = n;
		doubt_tracefs(int3s, found);
	}
	holders_free(&holders);
	free(places);
	free(is_known);
	return err;
}

static size_t count_at_sites(const struct int3s *int3s, const struct ocp_sites *sites)
{
	size_t n = 0;

	for (size_t i = 0; i < ocp_sites_count(sites); i++) {
		const struct ocp_site *site = ocp_sites_get(sites, i);
		const size_t next = SEARCH(j, int3s->n, int3s->list[j].addr < site->addr);

		n += site->has_code && next < int3s->n && int3s->list[next].addr == site->addr;
	}
	return n;
}

static void name_files(const struct int3s *int3s, struct unheld_int3s *found)
{
	if (int3s->n)
		snprintf(found->file, sizeof(found->file), "%s",
			 int3s->files[int3s->list[0].file].path);
	for (size_t i = 1; i < int3s->n; i++)
		found->has_more_files |= int3s->list[i].file != int3s->list[0].file;
}

/*
 * Set INT3S to the int3s of PROC without a known holder, by a single reading. The caller frees
 * INT3S, also after an error.
 */
static int read_unheld_once(struct ocp_process *proc, struct int3s *int3s,
			    struct unheld_int3s *found)
{
	struct ocp_sites *sites = NULL;
	int err = ocp_sites_read(proc, 0, &sites);

	*found = (struct unheld_int3s){ 0 };
	*int3s = (struct int3s){ 0 };
	if (!err)
		err = int3s_read(proc, sites, int3s);
	if (!err && int3s->n)
		err = keep_unheld(proc, int3s, found);
	if (!err) {
		found->n = int3s->n;
		found->n_sites = count_at_sites(int3s, sites);
		name_files(int3s, found);
	}
	ocp_sites_free(sites);
	return err;
}

static bool are_same_int3s(const struct int3s *a, const struct int3s *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i].addr != b->list[i].addr ||
		    a->list[i].ref_ctr_off != b->list[i].ref_ctr_off)
			return false;
	return true;
}

/*
 * Like read_unheld_once(), but read until two successive readings are the same. The caller frees
 * INT3S, also after an error.
 */
static int read_settled(struct ocp_process *proc, struct int3s *int3s, struct unheld_int3s *found)
{
	const struct timespec pause = { .tv_nsec = BETWEEN_READINGS_NS };
	struct int3s before = { 0 };
	int err = read_unheld_once(proc, int3s, found);

	for (int i = 1; !err && int3s->n && i < MAX_READINGS; i++) {
		bool is_settled;

		before = *int3s;
		nanosleep(&pause, NULL);
		err = read_unheld_once(proc, int3s, found);
		is_settled = !err && are_same_int3s(&before, int3s);
		int3s_free(&before);
		if (is_settled)
			break;
	}
	return err;
}

int unheld_int3s_find(struct ocp_process *proc, struct unheld_int3s *found)
{
	struct int3s int3s;
	int err = read_settled(proc, &int3s, found);

	int3s_free(&int3s);
	return err;
}

/* ---- removal -------------------------------------------------------------------------------- */

struct removal {
	struct ocp_process *proc;
	int prog_fd;
	const char *path, *name;
	struct uprobe *uprobes;
	unsigned int attempts_left;
};

/*
 * Attach uprobes to the places with the numbers from FIRST up to, but not including, END, and
 * detach them. If the kernel refuses to attach, do this for each half of the places.
 */
static void touch(struct removal *r, size_t first, size_t end)
{
	const struct uprobe_link_spec spec = {
		.prog_fd = r->prog_fd,
		.idle_prog_fd = r->prog_fd,
		.path = r->path,
		.name = r->name,
		.uprobes = r->uprobes + first,
		.n = end - first,
		.pid = ocp_process_tgid(r->proc),
	};
	const size_t middle = first + (end - first) / 2;
	int fd;

	if (!r->attempts_left)
		return;
	r->attempts_left--;
	if (uprobe_link_create(r->proc->ctx, &spec, &fd) == 0) {
		link_close(fd);
	} else if (end - first > 1) {
		touch(r, first, middle);
		touch(r, middle, end);
	}
}

/* Attach uprobes to the int3s LIST[0..N) of FILE and detach them, by calling touch(). */
static int touch_file(struct ocp_process *proc, int prog_fd, const struct int3_file *file,
		      const struct int3 *list, size_t n)
{
	char path[PROC_PATH_BYTES], name[PROC_PATH_BYTES / 2];
	struct removal r = {
		.proc = proc,
		.prog_fd = prog_fd,
		.path = path,
		.name = file->path,
		.uprobes = calloc(n, sizeof(*r.uprobes)),
		.attempts_left = MAX_ATTEMPTS,
	};
	int err = r.uprobes ? 0 : ctx_no_memory(proc->ctx);

	snprintf(name, sizeof(name), "fd/%d", file->fd);
	proc_path(path, getpid(), name);
	for (size_t i = 0; !err && i < n; i++)
		r.uprobes[i] = (struct uprobe){ .off = list[i].offset,
						.ref_ctr_off = list[i].ref_ctr_off };
	if (!err)
		touch(&r, 0, n);
	free(r.uprobes);
	return err;
}

static int touch_all(struct ocp_process *proc, const struct int3s *int3s)
{
	struct bpf_support support;
	int err = bpf_support_probe(proc->ctx, &support);

	if (err)
		return err;
	if (!support.has_uprobe_multi)
		err = ctx_error(proc->ctx, -EOPNOTSUPP,
				"this kernel has no uprobe_multi links (Linux 6.6)");
	for (size_t i = 0, n; !err && i < int3s->n; i += n) {
		const size_t file = int3s->list[i].file;

		for (n = 1; i + n < int3s->n && int3s->list[i + n].file == file;)
			n++;
		err = touch_file(proc, support.idle_prog_fd, &int3s->files[file], &int3s->list[i],
				 n);
	}
	close(support.idle_prog_fd);
	return err;
}

static int check_untraced(struct ocp_process *proc)
{
	struct proc_status status;
	int err = proc_status_read(proc->ctx, proc->pid, &status);

	if (!err && status.tracer_pid)
		err = ctx_error(
			proc->ctx, -EBUSY,
			"process %d: it is being traced by pid %d, whose breakpoints are int3s, "
			"too",
			(int)proc->pid, (int)status.tracer_pid);
	return err;
}

int unheld_int3s_remove(struct ocp_process *proc, size_t *n_removed, struct unheld_int3s *left)
{
	struct int3s int3s;
	struct unheld_int3s found;
	int err = read_settled(proc, &int3s, &found);

	*n_removed = 0;
	*left = found;
	if (!err && int3s.n)
		err = check_untraced(proc);
	if (!err && int3s.n)
		err = touch_all(proc, &int3s);
	int3s_free(&int3s);
	if (!err && found.n) {
		err = unheld_int3s_find(proc, left);
		*n_removed = left->n < found.n ? found.n - left->n : 0;
	}
	return err;
}
