// SPDX-License-Identifier: MIT
#include "process/process_kind.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "process/image.h"
#include "process/mapped_files.h"

typedef int (*kind_reader)(struct ocp_ctx *ctx, struct elf_file *elf, enum program_kind *kind);

/* Return the kind of the file of FD, or UNKNOWN if the file cannot be read. Closes FD. */
static enum program_kind kind_of_fd(struct ocp_ctx *ctx, int fd, const char *path, kind_reader read,
				    enum program_kind unknown)
{
	enum program_kind kind = unknown;
	struct elf_file *elf;

	if (fd < 0)
		return unknown;
	if (elf_file_open(ctx, fd, path, &elf) == 0) {
		if (read(ctx, elf, &kind))
			kind = unknown;
		elf_file_close(elf);
	}
	close(fd);
	return kind;
}

/*
 * A program in C may have loaded a library in OCaml. Return the kind of the first library of PID
 * that is not foreign (written in another language than OCaml), PROGRAM_FOREIGN if all are
 * foreign, or UNKNOWN if PID cannot be read.
 */
static enum program_kind kind_of_libraries(struct ocp_ctx *ctx, pid_t pid,
					   enum program_kind unknown)
{
	enum program_kind kind = PROGRAM_FOREIGN;
	struct mapped_files files;

	if (mapped_files_read(ctx, pid, &files))
		return unknown;
	for (size_t i = 0; kind == PROGRAM_FOREIGN && i < files.maps.n; i++)
		if (mapped_files_is_library(&files, i))
			kind = kind_of_fd(ctx, maps_open_file(pid, &files.maps.mappings[i]),
					  files.maps.mappings[i].path, program_kind_read_library,
					  PROGRAM_FOREIGN);
	mapped_files_free(&files);
	return kind;
}

static enum program_kind kind_of_process(struct ocp_ctx *ctx, pid_t pid, enum program_kind unknown,
					 char *who, size_t bytes)
{
	enum program_kind kind = unknown;
	struct image_exe exe;

	snprintf(who, bytes, "pid %d", (int)pid);
	if (image_exe_open(ctx, pid, &exe))
		return unknown;
	snprintf(who, bytes, "pid %d (%s)", (int)pid, exe.path);
	if (program_kind_read(ctx, exe.elf, &kind))
		kind = unknown;
	image_exe_close(&exe);
	return kind == PROGRAM_FOREIGN ? kind_of_libraries(ctx, pid, unknown) : kind;
}

enum program_kind process_kind(struct ocp_ctx *ctx, pid_t pid, enum program_kind unknown)
{
	char who[PATH_MAX + 32];

	return kind_of_process(ctx, pid, unknown, who, sizeof(who));
}

int process_need_native(struct ocp_ctx *ctx, pid_t pid)
{
	char who[PATH_MAX + 32];
	const enum program_kind kind = kind_of_process(ctx, pid, PROGRAM_NATIVE, who, sizeof(who));

	return program_kind_need_native(ctx, kind, who);
}

int program_file_need_native(struct ocp_ctx *ctx, const char *file)
{
	const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	const enum program_kind kind = kind_of_fd(ctx, fd, file, program_kind_read, PROGRAM_NATIVE);

	return program_kind_need_native(ctx, kind, file);
}
