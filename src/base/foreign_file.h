/* SPDX-License-Identifier: MIT */
/*
 * Files that somebody else chose: links below /proc/PID, and paths that a process or its files name. What is
 * there may be a pipe, whose opening waits, a device, whose opening does something, or a file that is changed for
 * another one between two looks. So the file is found without being opened, looked at, and opened then.
 */
#ifndef BASE_FOREIGN_FILE_H
#define BASE_FOREIGN_FILE_H

#include <sys/stat.h>

/*
 * Find what is at PATH, and fill in *ST. Nothing is opened, and no file system is asked to wait for its server.
 * Returns a descriptor that can only be given to foreign_file_open(), or -errno.
 */
int foreign_file_find(const char *path, struct stat *st);

/* Open what FOUND refers to, a regular file, for ACCESS. Closes FOUND, also on failure. Returns -errno then. */
int foreign_file_open(int found, int access);

/*
 * Both, for reading. -ENOEXEC, as for any file that is no program: no regular file. INODE, unless 0: the number that it
 * must have, else -ENOENT.
 */
int foreign_file_read(const char *path, ino_t inode);

#endif
