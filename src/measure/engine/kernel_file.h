/* SPDX-License-Identifier: MIT */
/* Which file is it to the kernel, and to BPF programs? See kernel_file.c. */
#ifndef MEASURE_KERNEL_FILE_H
#define MEASURE_KERNEL_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kernel_file {
	uint64_t dev; /* see kernel_file_dev */
	uint64_t ino;
};

/* DEV, of stat(2), as the kernel packs it inside: MKDEV in linux/kdev_t.h. */
uint64_t kernel_file_dev(dev_t dev);
/* 0, or a negative errno. */
int kernel_file_find(const char *path, struct kernel_file *file);

/* May the open file FD be of a file system that shares its files' code with others of its kind? */
bool kernel_file_is_layered(int fd);

#endif
