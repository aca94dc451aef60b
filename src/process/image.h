/* SPDX-License-Identifier: MIT */
/* Find the ELF files with probes that a process has mapped, and their load addresses. */
#ifndef PROCESS_IMAGE_H
#define PROCESS_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "program/program.h"

struct image {
	struct ocp_program *prog;
	uint64_t bias; /* the load bias: add it to a link-time address, modulo 2^64 */
	char *path;    /* the path of the file as the process sees it */
};

struct image_list {
	struct image *images; /* the executable first, then the other files by address */
	size_t n;
	char *exe_path;	    /* the path of the executable, even if it has no probes */
	bool is_restricted; /* contains only the images of one program: see process.c */
};

/*
 * Find the images of PID that have OCaml probes. If the executable is unreadable or damaged, return
 * an error. If another file is unreadable or damaged, leave it out with a warning. Returns -EAGAIN
 * if the file rules of CTX defer the reading of a file.
 */
int image_list_read(struct ocp_ctx *ctx, pid_t pid, struct image_list *list);
void image_list_free(struct image_list *list);

/* Return a name of LIST for messages: its executable, or the program that LIST is restricted to. */
const char *image_list_name(const struct image_list *list);

/* The file that a process executes, open for reading. */
struct image_exe {
	int fd;
	struct elf_file *elf;
	uint64_t bias;
	char *path; /* the path of the file as the process sees it */
};

/* Open the executable of PID, even if it has no probes. */
int image_exe_open(struct ocp_ctx *ctx, pid_t pid, struct image_exe *exe);
void image_exe_close(struct image_exe *exe);

/* Free IMAGE, which the caller has removed from its list. */
void image_free(struct image *image);
/* Free all images, and keep the other members of LIST. */
void image_list_empty(struct image_list *list);

/* Return true if FD is the file that PID executes. */
bool image_is_exe(pid_t pid, int fd);

#endif
