// SPDX-License-Identifier: MIT
/*
 * /proc/PID/maps has the start address of each mapping, and the file offset that is mapped there.
 * The program headers give the link-time address of this offset. The load bias is the start address
 * minus the link-time address. Only the first executable mapping of each file is used: mprotect(2)
 * and patching may have split the mapping, but that does not change the bias.
 *
 * The executable is the file that holds the program's entry point (AT_ENTRY). Device and inode
 * cannot identify it: on some file systems (overlayfs, btrfs) /proc/PID/exe and maps show different
 * numbers for the same file. The executable is opened through /proc/PID/exe, which also works if
 * the file was deleted, was replaced or is in another mount namespace. Other files are opened
 * through map_files, which needs a privilege, or else by their path below the root directory of the
 * process; the inode found there must be the mapped one.
 */
#include "process/mapped_files.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "process/site_form.h"
#include "look/proc_file.h"

static bool is_same_mapped_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

bool mapped_files_is_first(const struct maps *maps, size_t i)
{
	const struct mapping *m = &maps->mappings[i];

	if (!m->executable || m->inode == 0 || m->path[0] != '/' || trampolines_are_in(m))
		return false;
	for (size_t j = i; j-- > 0;)
		if (maps->mappings[j].executable && is_same_mapped_file(&maps->mappings[j], m))
			return false;
	return true;
}

bool mapped_files_is_library(const struct mapped_files *files, size_t i)
{
	return mapped_files_is_first(&files->maps, i) &&
	       !is_same_mapped_file(&files->maps.mappings[i], files->exe);
}

int mapped_files_read(struct ocp_ctx *ctx, pid_t pid, struct mapped_files *files)
{
	uint64_t entry;
	int err;

	*files = (struct mapped_files){ .exe = NULL };
	err = auxv_read(ctx, pid, AT_ENTRY, &entry);
	if (!err)
		err = maps_read(ctx, pid, &files->maps);
	if (err)
		return err;
	files->exe = maps_find(&files->maps, entry);
	if (files->exe && files->exe->executable && files->exe->inode != 0)
		return 0;
	mapped_files_free(files);
	return ctx_error(ctx, -ESRCH,
			 "pid %d: no mapped file holds its entry point 0x%" PRIx64
			 " (ending, or not an ordinary program)",
			 (int)pid, entry);
}

void mapped_files_free(struct mapped_files *files)
{
	maps_free(&files->maps);
	files->exe = NULL;
}

/* ---- opening -------------------------------------------------------------------------------- */

int mapped_files_open_exe(struct ocp_ctx *ctx, pid_t pid, int *fd)
{
	*fd = proc_open_exe(pid);
	return *fd < 0 ? proc_why_no_access(ctx, pid, -*fd) : 0;
}

/*
 * Return true if M, whose file could not be read, is still mapped in PID. If it is not, the process
 * has unmapped it, has ended, or has made an exec.
 */
static bool is_still_mapped(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m)
{
	const struct mapping *now;
	struct maps maps;
	bool is_there;

	if (maps_read(ctx, pid, &maps) != 0)
		return false;
	now = maps_find(&maps, m->start);
	is_there = now && now->inode == m->inode;
	maps_free(&maps);
	return is_there;
}

int mapped_files_check_exec(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m, int err)
{
	if (err != -EBADMSG || is_still_mapped(ctx, pid, m))
		return err;
	return ctx_error(ctx, -ESRCH, "pid %d: has executed another program, or has ended",
			 (int)pid);
}

int mapped_files_open_library(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m)
{
	const int fd = maps_open_file(pid, m);

	if (fd >= 0)
		return fd;
	if (is_still_mapped(ctx, pid, m))
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: cannot read mapped file %s: %s", (int)pid,
			m->path, strerror(-fd));
	return fd;
}

/* ---- the load bias -------------------------------------------------------------------------- */

bool mapped_files_bias(const struct elf_file *elf, const struct mapping *m, uint64_t *bias)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	size_t n;
	const struct elf_segment *segments = elf_file_segments(elf, &n);

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *segment = &segments[i];
		const uint64_t first = segment->off & ~(page - 1);

		if (segment->executable && m->off >= first &&
		    m->off < segment->off + segment->file_bytes) {
			/*
			 * The bias may wrap around below 0. The sum of the bias and an address then
			 * wraps around again.
			 */
			*bias = m->start - (segment->va - segment->off + m->off);
			return true;
		}
	}
	return false;
}

int mapped_files_need_bias(struct ocp_ctx *ctx, const struct elf_file *elf, const struct mapping *m,
			   uint64_t *bias)
{
	if (mapped_files_bias(elf, m, bias))
		return 0;
	return ctx_error(ctx, -EBADMSG,
			 "%s: the executable mapping at 0x%" PRIx64
			 " belongs to no executable segment",
			 m->path, m->start);
}
