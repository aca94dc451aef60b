/* SPDX-License-Identifier: MIT */
/* Memory files (memfd_create(2)) of other processes. */
#ifndef TRACEE_MEMFD_FILE_H
#define TRACEE_MEMFD_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Open the memfd to which the link PATH below /proc/PID leads, for ACCESS: O_RDONLY or O_RDWR. A
 * process can let the link lead to any file, at any moment, also to one that the process itself
 * cannot open: nothing but a memfd is opened. Fills in *ST. Returns the descriptor, or -errno;
 * -EINVAL: no memfd, or one that others may not write to.
 */
int memfd_file_open(const char *path, int access, struct stat *st);

/* Does the memfd FD have all these SEALS? */
bool memfd_file_is_sealed(int fd, int seals);

#endif
