// SPDX-License-Identifier: MIT
/*
 * Finding the processes of the machine that have OCaml probes.
 *
 * Each process maps dozens of files, and most processes map the same ones. So each file is read
 * once. A file is identified by device, inode and path: all three, since a stacked file system may
 * show the inodes of either layer. Only a process that has a file with probes is opened. A damaged
 * file counts as a file without probes, and so does a file that the ctx's file rules exclude or
 * defer.
 */
#include "process/scan.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "program/program.h"
#include "process/image.h"
#include "look/maps.h"
#include "look/proc_file.h"
#include "process/process.h"

/* What is known of a file that was read. */
struct seen_file {
	unsigned int dev_major, dev_minor;
	uint64_t inode;
	char *path;
	bool has_probes;
};

/* The state of a scan. The files seen are in a hash table with open addressing. */
struct process_scan {
	struct ocp_ctx *ctx;
	struct seen_file *slots;
	size_t n_slots, n_used; /* n_slots is a power of two */
	struct ocp_scan_summary *summary;
	const struct scan_finder *finder;
};

static size_t hash_file(const struct mapping *m)
{
	const uint64_t hash = hash_bytes(HASH_START ^ m->inode, m->path, strlen(m->path));

	return hash ^ (hash >> 32);
}

static struct seen_file *find_slot(const struct process_scan *scan, const struct mapping *m)
{
	for (size_t i = hash_file(m);; i++) {
		struct seen_file *slot = &scan->slots[i & (scan->n_slots - 1)];

		if (!slot->path ||
		    (slot->inode == m->inode && slot->dev_major == m->dev_major &&
		     slot->dev_minor == m->dev_minor && strcmp(slot->path, m->path) == 0))
			return slot;
	}
}

static int grow_slots(struct process_scan *scan)
{
	struct process_scan larger = *scan;

	if (2 * scan->n_used < scan->n_slots)
		return 0;
	larger.n_slots = scan->n_slots ? 2 * scan->n_slots : 1024;
	larger.slots = calloc(larger.n_slots, sizeof(*larger.slots));
	if (!larger.slots)
		return ctx_no_memory(scan->ctx);
	for (size_t i = 0; i < scan->n_slots; i++) {
		const struct seen_file *slot = &scan->slots[i];
		const struct mapping key = {
			.dev_major = slot->dev_major,
			.dev_minor = slot->dev_minor,
			.inode = slot->inode,
			.path = slot->path,
		};

		if (slot->path)
			*find_slot(&larger, &key) = *slot;
	}
	free(scan->slots);
	scan->slots = larger.slots;
	scan->n_slots = larger.n_slots;
	return 0;
}

/*
 * Open the file of M, a mapping of PID: by the mapping or, if that fails, as the executable of PID.
 * Returns -errno on failure.
 */
static int open_mapped_file(pid_t pid, const struct mapping *m)
{
	int fd = maps_open_file(pid, m), err = 0;
	struct stat st;

	if (fd >= 0)
		return fd;
	fd = proc_open_exe(pid);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) != 0)
		err = -errno;
	else if (st.st_ino != m->inode)
		err = -ENOENT;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static bool is_executable(pid_t pid, const struct mapping *m)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &st) == 0 && st.st_ino == m->inode;
}

/* Return true if ERR is a lack of resources, which says nothing about the file. */
static bool is_our_trouble(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -EIO;
}

/*
 * Return 1 if the file of M has probes, 0 if it has none or cannot be read, or a negative errno if
 * resources are lacking (see is_our_trouble()).
 */
static int has_probes(const struct process_scan *scan, pid_t pid, const struct mapping *m)
{
	const struct file_origin origin = { .name = m->path,
					    .pid = pid,
					    .is_library = !is_executable(pid, m) };
	struct ocp_program *prog;
	int fd = open_mapped_file(pid, m), verdict, err;

	if (fd < 0)
		return !is_our_trouble(fd) ? 0
					   : ctx_error(scan->ctx, fd, "pid %d: %s: %s", (int)pid,
						       m->path, strerror(-fd));
	verdict = file_rules_admit(scan->ctx, fd, &origin);
	if (verdict != FILE_UNKNOWN) {
		close(fd);
		return is_our_trouble(verdict) ? verdict : verdict == FILE_WITH_PROBES;
	}
	err = program_open_from(scan->ctx, fd, &origin, &prog);
	if (err)
		return is_our_trouble(err) ? err : 0;
	err = prog->n_probes > 0;
	ocp_program_free(prog);
	return err;
}

/* Do the same as has_probes(), but remember the result, so that each file is read only once. */
static int look_at_file(struct process_scan *scan, pid_t pid, const struct mapping *m)
{
	struct seen_file *slot;
	int found = grow_slots(scan);

	if (found)
		return found;
	slot = find_slot(scan, m);
	if (slot->path)
		return slot->has_probes;
	found = has_probes(scan, pid, m);
	if (found < 0)
		return found;
	*slot = (struct seen_file){
		.dev_major = m->dev_major,
		.dev_minor = m->dev_minor,
		.inode = m->inode,
		.path = strdup(m->path),
		.has_probes = found,
	};
	if (!slot->path)
		return ctx_no_memory(scan->ctx);
	scan->n_used++;
	return slot->has_probes;
}

/*
 * Return 1 if a file from which PID runs code has probes, 0 if no such file has probes, or a
 * negative errno.
 */
static int look_at_process(struct process_scan *scan, pid_t pid)
{
	struct maps maps;
	int found = maps_read(scan->ctx, pid, &maps);

	for (size_t i = 0; found == 0 && i < maps.n; i++) {
		const struct mapping *m = &maps.mappings[i];

		if (m->executable && m->inode != 0 && m->path[0] == '/')
			found = look_at_file(scan, pid, m);
	}
	maps_free(&maps);
	return found;
}

/*
 * Count PID as a process that could not be inspected because of ERR. Return 0, or -ENOMEM, which
 * ends the scan.
 */
static int count_failure(const struct process_scan *scan, pid_t pid, int err)
{
	switch (err) {
	case -ENOMEM:
		return err;
	case -ESRCH:
	case -EAGAIN: /* a later scan will find the process */
	case -EFBIG:
		break;
	case -EPERM:
	case -EACCES:
	case -EBUSY:
		scan->summary->denied += proc_has_memory(pid);
		break;
	default:
		scan->summary->failed++;
		ctx_log(scan->ctx, OCP_LOG_WARN, "left out: %s", ocp_error(scan->ctx));
		break;
	}
	return 0;
}

static int scan_process(struct process_scan *scan, pid_t pid)
{
	struct ocp_process *proc = NULL;
	int found = look_at_process(scan, pid), err;

	if (found <= 0)
		return found ? count_failure(scan, pid, found) : 0;
	if (scan->finder->wants && !scan->finder->wants(scan->finder->data, pid))
		return 0;
	err = ocp_process_open(scan->ctx, pid, &proc);
	if (err)
		return count_failure(scan, pid, err);
	if (ocp_process_probe_count(proc))
		err = scan->finder->found(scan->finder->data, proc);
	ocp_process_free(proc);
	return err;
}

/* Return the pid of the entry NAME of /proc, or 0 if the entry is not a process. */
static pid_t pid_of(const char *name)
{
	char *end;
	long pid;

	if (*name < '1' || *name > '9')
		return 0;
	pid = strtol(name, &end, 10);
	return *end || pid > INT_MAX ? 0 : (pid_t)pid;
}

int scan_processes(struct ocp_ctx *ctx, const struct scan_finder *finder,
		   struct ocp_scan_summary *summary)
{
	struct process_scan scan = { .ctx = ctx, .summary = summary, .finder = finder };
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	*summary = (struct ocp_scan_summary){ 0 };
	if (!dir)
		return ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	while (!err && (errno = 0, entry = readdir(dir))) {
		pid_t pid = pid_of(entry->d_name);

		if (pid && pid != getpid())
			err = scan_process(&scan, pid);
	}
	if (!err && errno)
		err = ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	closedir(dir);
	for (size_t i = 0; i < scan.n_slots; i++)
		free(scan.slots[i].path);
	free(scan.slots);
	return err;
}

int ocp_scan(struct ocp_ctx *ctx, ocp_scan_fn fn, void *data, struct ocp_scan_summary *summary)
{
	return scan_processes(ctx, &(const struct scan_finder){ .found = fn, .data = data },
			      summary);
}
