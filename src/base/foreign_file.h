/* SPDX-License-Identifier: MIT */
/*
 * Files that somebody else chose: links below /proc/PID, and paths that a process or its files
 * name. Such a path may lead to a pipe, on which open(2) blocks; to a device, on which open(2) has
 * effects; or to a file that is replaced between two system calls. So first find the file without
 * opening it, then check what was found, and only then open the same file.
 */
#ifndef BASE_FOREIGN_FILE_H
#define BASE_FOREIGN_FILE_H

#include <sys/stat.h>

/*
 * Find the file at PATH and fill *ST, without opening the file, and without waiting for the server
 * of its file system. Returns a descriptor that can only be passed to foreign_file_open() or
 * closed, or -errno.
 */
int foreign_file_find(const char *path, struct stat *st);

/*
 * Open for ACCESS the file to which FOUND, a descriptor from foreign_file_find(), refers. The
 * caller must have checked that the file is a regular one. Closes FOUND. Returns a descriptor or
 * -errno.
 */
int foreign_file_open(int found, int access);

/*
 * Find the file at PATH and open it for reading. Returns a descriptor or -errno: -ENOEXEC (the
 * error for any file that is not a program) if the file is not a regular one; -ENOENT if INODE is
 * not 0 and the inode number of the file is not INODE.
 */
int foreign_file_read(const char *path, ino_t inode);

#endif
