/* SPDX-License-Identifier: MIT */
/* Which file is it to the kernel, and to BPF programs? See kernel_file.c. */
#ifndef MEASURE_KERNEL_FILE_H
#define MEASURE_KERNEL_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct kernel_file {
	uint64_t dev; /* as the kernel packs it: major << 20 | minor */
	uint64_t ino;
};

/* 0, or a negative errno. */
int kernel_file_find(const char *path, struct kernel_file *file);

/* May the open file FD be of a file system that shares its files' code with others of its kind? */
bool kernel_file_is_layered(int fd);

#endif
