/* SPDX-License-Identifier: MIT */
/*
 * Read the OCaml functions of a program file, or of all files that a process has mapped. The files
 * need not have probes.
 */
#ifndef PROCESS_CODE_IMAGES_H
#define PROCESS_CODE_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "code/functions.h"
#include "elf/elf_file.h"

struct code_image {
	int fd;
	struct elf_file *elf;
	struct functions *functions;
	char *path;    /* as the process sees it */
	uint64_t bias; /* load bias: add to a link-time address, modulo 2^64; 0 without a process */
	bool is_library;
};

struct code_images {
	struct code_image *images; /* the executable first, then the other files by address */
	size_t n;
	char *exe_path; /* the path of the process's executable; NULL: no process */
};

/* Read the file PATH as the only image. Returns -ENODATA if it has no OCaml functions. */
int code_images_open(struct ocp_ctx *ctx, const char *path, struct code_images *images);

/*
 * Read the files with OCaml functions that PID has mapped: its executable, libraries and plugins.
 * Returns -ENODATA if PID has mapped no such file. A library that cannot be read is left out with a
 * warning.
 */
int code_images_read(struct ocp_ctx *ctx, pid_t pid, struct code_images *images);

void code_images_free(struct code_images *images);

#endif
