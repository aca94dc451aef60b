// SPDX-License-Identifier: MIT
/*
 * Finding the images of a process that belong to one program. An image belongs to a program if
 * device and inode of the open files are the same, as in find.c. The program may also be a copy of
 * the image, such as the file from which the image was installed; one of the two may be stripped. A
 * copy has the same probes at the same addresses, and the same notes; the notes of the image are
 * used.
 */
#include <errno.h>
#include <sys/stat.h>

#include "tracee/proc_file.h"
#include "process/process.h"

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
 * Return true if PROC executes the file of PROG. This also works if the file has no probes, and so
 * no image.
 */
static bool runs_file_of(const struct ocp_process *proc, const struct ocp_program *prog)
{
	struct stat exe, file;
	char path[PROC_PATH_BYTES];

	proc_path(path, proc->pid, "exe");
	return stat(path, &exe) == 0 && fstat(prog->fd, &file) == 0 && is_same_stat(&exe, &file);
}

/*
 * If IS_OF says that any images are PROG's, remove all other images from LIST. Return the number of
 * PROG's images.
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
