// SPDX-License-Identifier: MIT
/*
 * Holders are the processes with uprobes on sites. They are found by their descriptors: the
 * descriptors of all processes are examined. Since Linux 6.16, /proc/PID/fdinfo shows, for a
 * descriptor of a BPF link, the file and the offsets of its uprobes, both of a link to many uprobes
 * (uprobe_multi) and of a link to a perf event (perf). It shows nothing about perf events without a
 * BPF link.
 *
 *	link_type:	uprobe_multi		link_type:	perf
 *	pid:	677				name:	/srv/bin/service
 *	path:	/srv/bin/service		offset:	0x5b9e9
 *	cookie	 offset	 ref_ctr_offset		event_type:	uprobe
 *	8589934592	 0x5b9e9	 0x120a48
 */
#include "process/holders.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/search.h"
#include "elf/elf_file.h"
#include "look/proc_file.h"
#include "process/process.h"

struct holder_search {
	struct ocp_process *proc;
	struct holders *holders;
	/* the process has perf events whose places the kernel does not show */
	bool has_silent_events;
	/* A cache: the arguments and the result of the most recent call of is_path_of(). */
	int fd;
	char path[PATH_MAX];
	bool is_same;
};

/* ---- one descriptor ------------------------------------------------------------------------- */

/* Return the value in LINE if LINE is "FIELD:\tVALUE", else NULL. */
static const char *field_value(const char *line, const char *field)
{
	const size_t n = strlen(field);

	return strncmp(line, field, n) == 0 && line[n] == ':'
		       ? line + n + 1 + strspn(line + n + 1, " \t")
		       : NULL;
}

void holders_parse(char *text, holder_offset_fn fn, void *data)
{
	const char *path = NULL, *type = "", *value, *event_offset = NULL;
	char *line;
	pid_t pid = 0;

	while ((line = strsep(&text, "\n"))) {
		unsigned long long offset;

		if ((value = field_value(line, "link_type")))
			type = value;
		else if ((value = field_value(line, "path")) || (value = field_value(line, "name")))
			path = value;
		else if ((value = field_value(line, "pid")))
			pid = (pid_t)strtol(value, NULL, 10);
		else if ((value = field_value(line, "offset")))
			event_offset = value;
		else if (path && strcmp(type, "uprobe_multi") == 0 &&
			 sscanf(line, "%*u %llx", &offset) == 1) /* NOLINT(cert-err34-c) */
			fn(data, path, pid, offset);
		else if (path && event_offset && (value = field_value(line, "event_type")) &&
			 strcmp(value, "uprobe") == 0)
			fn(data, path, pid, strtoull(event_offset, NULL, 0));
	}
}

/*
 * Return true if PATH, as the kernel shows it to the caller, is the file of PLACE. If the caller
 * has no file at PATH, because the file is in another mount namespace or was removed, compare PATH
 * with the path of PLACE instead.
 */
static bool is_file_of(const struct holder_place *place, const char *path)
{
	struct stat there, ours;

	if (stat(path, &there) != 0)
		return strcmp(path, place->path) == 0;
	return fstat(place->fd, &ours) == 0 && there.st_dev == ours.st_dev &&
	       there.st_ino == ours.st_ino;
}

static bool is_path_of(struct holder_search *s, const struct holder_place *place, const char *path)
{
	if (place->fd != s->fd || strcmp(path, s->path) != 0) {
		s->fd = place->fd;
		snprintf(s->path, sizeof(s->path), "%s", path);
		s->is_same = is_file_of(place, path);
	}
	return s->is_same;
}

/* Return the index of the first site at OFFSET or later. The sites are sorted by offset. */
static size_t first_at(const struct holders *holders, uint64_t offset)
{
	return SEARCH(i, holders->n_sites, holders->sites[i].offset < offset);
}

static void take_offset(void *data, const char *path, pid_t pid, uint64_t offset)
{
	struct holder_search *s = data;

	if (pid && pid != ocp_process_tgid(s->proc))
		return;
	for (size_t i = first_at(s->holders, offset); i < s->holders->n_sites; i++) {
		struct holder_place *site = &s->holders->sites[i];

		if (site->offset != offset)
			break;
		if (is_path_of(s, site, path))
			site->is_known = site->is_mine = true;
	}
}

static void look_at_link(struct holder_search *s, pid_t pid, const char *fd)
{
	char name[PROC_PATH_BYTES / 2], *text;

	snprintf(name, sizeof(name), "fdinfo/%.20s", fd);
	if (proc_file_read(s->proc->ctx, pid, name, &text, NULL))
		return;
	holders_parse(text, take_offset, s);
	free(text);
}

/* ---- one process ---------------------------------------------------------------------------- */

static void look_at_descriptors(struct holder_search *s, pid_t pid)
{
	char folder[PROC_PATH_BYTES], path[PROC_PATH_BYTES + NAME_MAX + 2], to[64];
	struct dirent *entry;
	DIR *dir;

	proc_path(folder, pid, "fd");
	dir = opendir(folder);
	while (dir && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		/* The name of such a link is "bpf-link" up to Linux 5.8. */
		if (strcmp(to, "anon_inode:bpf_link") == 0 ||
		    strcmp(to, "anon_inode:bpf-link") == 0)
			look_at_link(s, pid, entry->d_name);
		else if (strcmp(to, "anon_inode:[perf_event]") == 0)
			s->has_silent_events = true;
	}
	if (dir)
		closedir(dir);
}

/*
 * Set the parent and the name of HOLDER, which is process PID. The name is the program's name in
 * the command line of PID or, if PID has no command line, the kernel's name for PID.
 */
static void describe_holder(struct ocp_ctx *ctx, pid_t pid, struct holder *holder)
{
	struct proc_status status;
	char *text;

	if (proc_status_read(ctx, pid, &status) == 0) {
		snprintf(holder->name, HOLDER_NAME_BYTES, "%s", status.name);
		holder->parent_pid = status.parent_pid;
	}
	if (proc_file_read(ctx, pid, "cmdline", &text, NULL) == 0) {
		if (*text)
			snprintf(holder->name, HOLDER_NAME_BYTES, "%s", base_name(text));
		free(text);
	}
}

static int add_holder(struct holder_search *s, pid_t pid, const char *name, bool may_hold)
{
	struct holders *holders = s->holders;
	struct holder *new = array_add(holders->list, holders->n);

	if (!new)
		return ctx_no_memory(s->proc->ctx);
	*new = (struct holder){ .pid = pid, .may_hold = may_hold };
	if (name)
		snprintf(new->name, sizeof(new->name), "%s", name);
	else
		describe_holder(s->proc->ctx, pid, new);
	for (size_t i = 0; !may_hold && i < holders->n_sites; i++)
		new->n_sites += holders->sites[i].is_mine;
	return 0;
}

/*
 * Look at the descriptors of PID, and add PID to the holders if it holds sites. NAME is the name
 * for PID. If NAME is NULL, find the name with describe_holder(), and add PID even if it is only
 * possible that PID holds sites.
 */
static int inspect_holder(struct holder_search *s, pid_t pid, const char *name)
{
	bool has_some = false;

	s->has_silent_events = false;
	for (size_t i = 0; i < s->holders->n_sites; i++)
		s->holders->sites[i].is_mine = false;
	look_at_descriptors(s, pid);
	for (size_t i = 0; i < s->holders->n_sites; i++)
		has_some |= s->holders->sites[i].is_mine;
	if (has_some)
		return add_holder(s, pid, name, false);
	return s->has_silent_events && !name ? add_holder(s, pid, NULL, true) : 0;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void count_unknown(struct holders *holders)
{
	holders->n_unknown = 0;
	for (size_t i = 0; i < holders->n_sites; i++)
		holders->n_unknown += !holders->sites[i].is_known;
}

static bool has_copies(const struct holders *holders, const struct holder *child)
{
	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *parent = &holders->list[i];

		if (parent->pid == child->parent_pid && parent->may_hold == child->may_hold &&
		    parent->n_sites >= child->n_sites)
			return true;
	}
	return false;
}

/*
 * Leave out children that only have copies of their parent's descriptors. This project's tools
 * start a child to close a link; for a moment, the child has copies of all descriptors of the tool.
 */
static void drop_children(struct holders *holders)
{
	size_t n = 0;

	for (size_t i = 0; i < holders->n; i++)
		holders->list[i].is_copy = has_copies(holders, &holders->list[i]);
	for (size_t i = 0; i < holders->n; i++)
		if (!holders->list[i].is_copy)
			holders->list[n++] = holders->list[i];
	holders->n = n;
}

static int compare_held_places(const void *a, const void *b)
{
	const struct holder_place *x = a, *y = b;

	return COMPARE(x->offset, y->offset);
}

static int collect_places(struct ocp_process *proc, const struct holder_place *places, size_t n,
			  struct holders *holders)
{
	holders->sites = calloc(n + 1, sizeof(*holders->sites));
	if (!holders->sites)
		return ctx_no_memory(proc->ctx);
	for (size_t i = 0; i < n; i++) {
		holders->sites[i] = places[i];
		holders->sites[i].number = i;
	}
	holders->n_sites = n;
	qsort(holders->sites, n, sizeof(*holders->sites), compare_held_places);
	return 0;
}

/* List the places of the sites with an int3. The caller frees *PLACES. */
static int list_sites(struct ocp_process *proc, const struct ocp_sites *sites,
		      struct holder_place **places, size_t *n_places, size_t *n_probes)
{
	const size_t n = ocp_sites_count(sites);
	size_t last = SIZE_MAX;

	*n_places = *n_probes = 0;
	*places = calloc(n + 1, sizeof(**places));
	if (!*places)
		return ctx_no_memory(proc->ctx);
	for (size_t i = 0; i < n; i++) {
		const struct ocp_site *site = ocp_sites_get(sites, i);
		const struct image *image = &proc->images.images[site->image_index];
		struct holder_place *place = &(*places)[*n_places];

		if (!site->has_int3)
			continue;
		*place = (struct holder_place){ .fd = image->prog->fd, .path = image->path };
		if (!elf_file_va_to_off(image->prog->elf, site->va, &place->offset))
			place->offset = UINT64_MAX;
		++*n_places;
		*n_probes += site->probe != last;
		last = site->probe;
	}
	return 0;
}

static int look_at_all(struct holder_search *s)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	while (dir && !err && (entry = readdir(dir))) {
		const long pid = strtol(entry->d_name, NULL, 10);

		if (pid > 0 && pid <= INT_MAX && pid != getpid())
			err = inspect_holder(s, (pid_t)pid, NULL);
	}
	if (dir)
		closedir(dir);
	return err;
}

int holders_find_at(struct ocp_process *proc, const struct holder_place *places, size_t n,
		    struct holders *holders)
{
	struct holder_search search = { .proc = proc, .holders = holders, .fd = -1 };
	struct proc_status status;
	int err;

	*holders = (struct holders){ 0 };
	err = collect_places(proc, places, n, holders);
	if (err || !holders->n_sites)
		return err;
	err = look_at_all(&search);
	drop_children(holders);
	/*
	 * A debugger's breakpoints are in no BPF link, so the process that traces PROC may hold
	 * sites, too.
	 */
	if (!err && proc_status_read(proc->ctx, proc->pid, &status) == 0 && status.tracer_pid)
		err = add_holder(&search, status.tracer_pid, NULL, true);
	count_unknown(holders);
	return err;
}

int holders_find(struct ocp_process *proc, const struct ocp_sites *sites, struct holders *holders)
{
	struct holder_place *places;
	size_t n, n_probes;
	int err;

	*holders = (struct holders){ 0 };
	err = list_sites(proc, sites, &places, &n, &n_probes);
	if (!err)
		err = holders_find_at(proc, places, n, holders);
	holders->n_probes = n_probes;
	free(places);
	return err;
}

void holders_known(const struct holders *holders, bool *is_known)
{
	for (size_t i = 0; i < holders->n_sites; i++)
		is_known[holders->sites[i].number] = holders->sites[i].is_known;
}

int holders_add_own(struct ocp_process *proc, struct holders *holders, const char *name)
{
	struct holder_search search = { .proc = proc, .holders = holders, .fd = -1 };
	int err = inspect_holder(&search, getpid(), name);

	count_unknown(holders);
	return err;
}

void holders_free(struct holders *holders)
{
	free(holders->list);
	free(holders->sites);
	*holders = (struct holders){ 0 };
}
