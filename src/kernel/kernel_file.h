/* SPDX-License-Identifier: MIT */
/* The identity of a file in the kernel, for BPF programs. See kernel_file.c. */
#ifndef KERNEL_FILE_H
#define KERNEL_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kernel_file {
	uint64_t dev; /* in the format of kernel_file_dev() */
	uint64_t ino;
};

/* Convert DEV, a device number of stat(2), to the kernel's format: MKDEV in linux/kdev_t.h. */
uint64_t kernel_file_dev(dev_t dev);
/* Find the identity of the file PATH in the kernel. Return 0 or a negative errno. */
int kernel_file_find(const char *path, struct kernel_file *file);

/* Return true if the file FD is on overlayfs. Then files of other overlays can share its code. */
bool kernel_file_is_layered(int fd);

/*
 * Find the identity of the file that is mapped when FD is mapped: on overlayfs, the file in the
 * layer below. Return 0 or a negative errno.
 */
int kernel_file_find_mapped(int fd, struct kernel_file *file);

#endif
