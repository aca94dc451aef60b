/* SPDX-License-Identifier: MIT */
/*
 * Read an executable into memory, and write it to disk after it was changed there. image_read()
 * checks every offset and size in the headers.
 */
#ifndef LINK_IMAGE_H
#define LINK_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "base/ctx.h"
#include "program/dormant/object.h"

struct linked_file {
	struct ocp_ctx *ctx;
	struct stat stat; /* stat(2) of the file from which the image was read */
	uint8_t *bytes;
	size_t n_bytes;
	/* Aligned copies of the header and the tables: in `bytes` they may be unaligned. */
	Elf64_Ehdr header;
	Elf64_Phdr *segments;
	size_t n_segments;
	Elf64_Shdr *sections;
	size_t n_sections;
};

/* A function symbol; `name` points into the image and is terminated. */
struct image_symbol {
	uint64_t va;
	uint64_t bytes;
	const char *name;
};

/*
 * Read PATH. Returns -ENOEXEC if the file is not an x86-64 ELF executable, -EBADMSG if its headers
 * are inconsistent.
 */
int image_read(struct ocp_ctx *ctx, const char *path, struct linked_file *image);
void image_release(struct linked_file *image);

/* Return the first section called NAME; NULL if there is none. */
const Elf64_Shdr *image_find_section(const struct linked_file *image, const char *name);

/*
 * Make *OBJECT, the input of the search for dormant probes. *OBJECT points into the bytes of IMAGE.
 */
int image_object(const struct linked_file *image, struct object *object);

/* Return the index of .symtab if its entries and names are well-formed, else 0. */
size_t image_find_symbols(const struct linked_file *image);

/*
 * Read the function symbols, sorted by address. The caller frees *SYMBOLS. *N is 0 for a stripped
 * file.
 */
int image_read_functions(const struct linked_file *image, struct image_symbol **symbols, size_t *n);
/* Return the name of the function that contains VA; NULL if no symbol contains VA. */
const char *image_function_at(const struct image_symbol *symbols, size_t n, uint64_t va);

/*
 * Replace the file PATH by the image atomically. The new file gets the mode and, if permitted, the
 * owner of the file that was read. If PATH is a symbolic link, its target is replaced.
 */
int image_write(const struct linked_file *image, const char *path);

#endif
