// SPDX-License-Identifier: MIT
/*
 * The public functions for a live process. Its images and sites are found once, when it is opened.
 * change/switch/update.c switches its probes.
 */
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "look/proc_file.h"
#include "change/stop/tracee.h"

int ocp_process_open(struct ocp_ctx *ctx, pid_t pid, struct ocp_process **out)
{
	struct ocp_process *proc;
	int err;

	*out = NULL;
	if (pid <= 0)
		return ctx_error(ctx, -EINVAL, "pid %d: not a process id", (int)pid);
	proc = calloc(1, sizeof(*proc));
	if (!proc)
		return ctx_no_memory(ctx);
	proc->ctx = ctx;
	proc->pid = pid;
	proc->is_self = pid == getpid();
	err = memory_open(ctx, pid, &proc->memory);
	if (!err)
		err = image_list_read(ctx, pid, &proc->images);
	if (!err)
		err = live_make(ctx, &proc->images, &proc->live);
	if (err) {
		ocp_process_free(proc);
		return err;
	}
	container_read(pid, &proc->container);
	*out = proc;
	return 0;
}

void ocp_process_free(struct ocp_process *proc)
{
	if (!proc)
		return;
	ocp_process_release(proc);
	live_free(&proc->live);
	image_list_free(&proc->images);
	memory_close(proc->memory);
	free(proc);
}

pid_t ocp_process_pid(const struct ocp_process *proc)
{
	return proc->pid;
}

pid_t ocp_process_tgid(const struct ocp_process *proc)
{
	struct proc_status status;

	/*
	 * For our own process, do not read /proc: it may belong to another pid namespace, in which
	 * our id denotes another process.
	 */
	if (proc->is_self || proc_status_read(proc->ctx, proc->pid, &status) != 0 || !status.tgid)
		return proc->pid;
	return status.tgid;
}

const char *ocp_process_exe(const struct ocp_process *proc)
{
	return proc->images.exe_path;
}

const char *ocp_process_container(const struct ocp_process *proc)
{
	return *proc->container.id ? proc->container.id : NULL;
}

const char *ocp_process_pod(const struct ocp_process *proc)
{
	return *proc->container.pod ? proc->container.pod : NULL;
}

pid_t ocp_process_ns_pid(const struct ocp_process *proc)
{
	struct proc_status status;

	if (proc_status_read(proc->ctx, proc->pid, &status) != 0 || !status.ns_pid)
		return proc->pid;
	return status.ns_pid;
}

size_t ocp_process_probe_count(const struct ocp_process *proc)
{
	return proc->live.n_probes;
}

const char *ocp_process_probe_name(const struct ocp_process *proc, size_t probe)
{
	return proc->live.probes[probe].name;
}

size_t ocp_process_probe_sites(const struct ocp_process *proc, size_t probe)
{
	return proc->live.probes[probe].n_sites;
}

static int read_states(struct ocp_process *proc, enum ocp_state *states)
{
	struct snapshot snapshot;
	int err = snapshot_read(proc->ctx, proc->memory, &proc->live, &snapshot);

	if (err)
		return err;
	for (size_t i = 0; i < proc->live.n_probes; i++)
		states[i] = snapshot_state(&snapshot, i);
	snapshot_free(&snapshot);
	return 0;
}

int ocp_process_read_states(struct ocp_process *proc, unsigned int flags, enum ocp_state *states)
{
	bool hold = (flags & OCP_ATOMICALLY) && !proc->held;
	int err = hold ? ocp_process_hold(proc) : 0;

	if (!err)
		err = read_states(proc, states);
	if (hold)
		ocp_process_release(proc);
	return err;
}

int ocp_process_hold(struct ocp_process *proc)
{
	int err;

	if (proc->held)
		return ctx_error(proc->ctx, -EINVAL, "pid %d: is already held", (int)proc->pid);
	err = tracee_open(proc->ctx, proc->pid, &proc->held);
	if (!err)
		err = tracee_stop(proc->held);
	if (err) {
		tracee_close(proc->held);
		proc->held = NULL;
	}
	return err;
}

void ocp_process_release(struct ocp_process *proc)
{
	tracee_close(proc->held);
	proc->held = NULL;
}

/*
 * Return -EBADMSG if PATH is a program whose end is missing: the kernel would start this program,
 * and a signal would kill it when it touches the missing part. Otherwise return 0: the kernel
 * itself reports all other defects of a file.
 */
static int check_complete(struct ocp_ctx *ctx, const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err;
	struct elf_file *elf;

	if (fd < 0)
		return 0;
	err = elf_file_open(ctx, fd, path, &elf);
	if (!err) {
		err = elf_file_check_complete(elf);
		elf_file_close(elf);
	}
	close(fd);
	if (err != -EBADMSG)
		return 0;
	ctx_hint(ctx, "the file is truncated, or is being written");
	return err;
}

int ocp_process_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[],
		      struct ocp_process **out)
{
	struct tracee *tracee;
	int err = check_complete(ctx, path);

	*out = NULL;
	if (!err)
		err = tracee_spawn(ctx, path, argv, &tracee);
	if (err)
		return err;
	err = ocp_process_open(ctx, tracee_pid(tracee), out);
	if (err)
		tracee_kill(tracee);
	else
		(*out)->held = tracee;
	return err;
}

/* ---- restrictions ---------------------------------------------------------------------------- */

/*
 * Finding those images of a process that belong to one program. An image belongs to a program if
 * the open files of both have the same device and inode, as in look/find.c. The program may also be
 * a copy of the image, such as the file from which the image was installed; one of the two may be
 * stripped. A copy has the same probes at the same addresses, and the same notes. The notes of the
 * image are the ones that are used.
 */

static bool is_same_stat(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool has_same_file(const struct ocp_program *a, const struct ocp_program *b)
{
	struct stat x, y;

	return fstat(a->fd, &x) == 0 && fstat(b->fd, &y) == 0 && is_same_stat(&x, &y);
}

static bool is_copy(const struct ocp_program *a, const struct ocp_program *b)
{
	if (a->n_probes != b->n_probes || a->n_sites != b->n_sites)
		return false;
	for (size_t i = 0; i < a->n_sites; i++)
		if (!program_has_same_site(a, &a->sites[i], b, &b->sites[i]))
			return false;
	return true;
}

/*
 * Return true if PROC executes the file of PROG. Unlike a comparison with images, this also works
 * if the file has no probes, because such a file has no image.
 */
static bool runs_file_of(const struct ocp_process *proc, const struct ocp_program *prog)
{
	struct stat exe, file;
	char path[PROC_PATH_BYTES];

	proc_path(path, proc->pid, "exe");
	return stat(path, &exe) == 0 && fstat(prog->fd, &file) == 0 && is_same_stat(&exe, &file);
}

/*
 * IS_OF decides whether an image is PROG's. If any image is, remove all other images from LIST.
 * Return the number of PROG's images.
 */
static size_t keep_images(struct image_list *list, const struct ocp_program *prog,
			  bool (*is_of)(const struct ocp_program *a, const struct ocp_program *b))
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++)
		kept += is_of(list->images[i].prog, prog);
	if (!kept)
		return 0;
	kept = 0;
	for (size_t i = 0; i < list->n; i++) {
		struct image image = list->images[i];

		if (is_of(image.prog, prog))
			list->images[kept++] = image;
		else
			image_free(&image);
	}
	return list->n = kept;
}

int ocp_process_restrict(struct ocp_process *proc, const struct ocp_program *prog,
			 unsigned int flags)
{
	size_t kept = keep_images(&proc->images, prog, has_same_file);

	if (!kept && prog->n_probes && !(flags & OCP_NO_COPIES))
		kept = keep_images(&proc->images, prog, is_copy);
	if (!kept && !(prog->n_probes == 0 && runs_file_of(proc, prog)))
		return ctx_error(proc->ctx, -ESRCH, "pid %d (%s): runs no probes of %s",
				 (int)proc->pid, proc->images.exe_path, elf_file_name(prog->elf));
	if (!kept)
		image_list_empty(&proc->images);
	proc->images.is_restricted = true;
	live_free(&proc->live);
	return live_make(proc->ctx, &proc->images, &proc->live);
}
