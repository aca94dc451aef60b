/* SPDX-License-Identifier: MIT */
/* The files from which a process runs code, found by its mappings, and their load biases. */
#ifndef PROCESS_MAPPED_FILES_H
#define PROCESS_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "elf/elf_file.h"
#include "look/maps.h"

struct mapped_files {
	struct maps maps;
	const struct mapping *exe; /* the mapping that holds the entry point */
};

/*
 * Read the mappings of PID, and find its executable. Returns -ESRCH if no mapped file holds the
 * entry point. Free FILES with mapped_files_free().
 */
int mapped_files_read(struct ocp_ctx *ctx, pid_t pid, struct mapped_files *files);
void mapped_files_free(struct mapped_files *files);

/*
 * Return true if mapping I is the first executable mapping of a file other than the program's
 * executable.
 */
bool mapped_files_is_library(const struct mapped_files *files, size_t i);

/* Return true if mapping I is the first executable mapping of its file. */
bool mapped_files_is_first(const struct maps *maps, size_t i);

/* Open the executable of PID for reading. */
int mapped_files_open_exe(struct ocp_ctx *ctx, pid_t pid, int *fd);

/*
 * Correct ERR, the result of reading the executable of PID, which was mapped at M. If ERR is
 * -EBADMSG and M is no longer mapped, the process has executed another program or has ended: return
 * -ESRCH with a message. Otherwise return ERR.
 */
int mapped_files_check_exec(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m, int err);

/*
 * Open the file of M, a mapping of PID. If the file cannot be read, return a negative errno, and
 * log a warning unless M was unmapped meanwhile.
 */
int mapped_files_open_library(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m);

/*
 * Set *BIAS to the load bias of the file ELF, whose code is mapped at M: add it to a link-time
 * address, modulo 2^64. Returns false if M belongs to no executable segment.
 */
bool mapped_files_bias(const struct elf_file *elf, const struct mapping *m, uint64_t *bias);

/* Do the same as mapped_files_bias(), but return 0, or -EBADMSG with a message. */
int mapped_files_need_bias(struct ocp_ctx *ctx, const struct elf_file *elf, const struct mapping *m,
			   uint64_t *bias);

#endif
