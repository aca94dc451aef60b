/* SPDX-License-Identifier: MIT */
/* Memory files (memfd_create(2)) of other processes. */
#ifndef LOOK_MEMFD_FILE_H
#define LOOK_MEMFD_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Open the memfd to which the link PATH below /proc/PID leads, for ACCESS: O_RDONLY or O_RDWR. A
 * process can make the link lead to any file at any moment, even to a file that the process itself
 * cannot open. So all files but memfds are refused. Fills in *ST. Returns the descriptor, or
 * -errno; -EINVAL: the file is no memfd, or ACCESS is O_RDWR and the mode of the file does not let
 * other users write to it.
 */
int memfd_file_open(const char *path, int access, struct stat *st);

/* Return true if the memfd FD has all of SEALS. */
bool memfd_file_is_sealed(int fd, int seals);

#endif
