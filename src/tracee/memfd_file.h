/* SPDX-License-Identifier: MIT */
/* Memory files (memfd_create(2)) of other processes. */
#ifndef TRACEE_MEMFD_FILE_H
#define TRACEE_MEMFD_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Open what the link PATH below /proc/PID leads to, if it is a memfd, for ACCESS: O_RDONLY or O_RDWR. A process can let
 * the link lead to any file, at any moment, and to files that it cannot open itself: anything else is not opened. Fills
 * in *ST. Returns -errno; -EINVAL: no memfd, or one that others may not write to.
 */
int memfd_file_open(const char *path, int access, struct stat *st);

/* Has FD, a memfd, all these SEALS? */
bool memfd_file_is_sealed(int fd, int seals);

#endif
