/* SPDX-License-Identifier: MIT */
/*
 * The executable that is being worked on, wholly in memory, and how it gets back to disk. Every
 * offset and size in its headers has been checked when image_read returns 0.
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

struct image {
	struct ocp_ctx *ctx;
	struct stat stat; /* of the file it was read from */
	uint8_t *bytes;
	size_t n_bytes;
	/* Copies: the tables in `bytes` may stand at any alignment. */
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

/* -ENOEXEC: no x86-64 ELF executable. -EBADMSG: one whose headers lie. */
int image_read(struct ocp_ctx *ctx, const char *path, struct image *image);
void image_free(struct image *image);

/* The first section of this name, or NULL. */
const Elf64_Shdr *image_find_section(const struct image *image, const char *name);

/* The image as the search for dormant probes sees it; the sections' bytes are the image's. */
int image_object(const struct image *image, struct object *object);

/* The index of .symtab, whose entries and names can be relied upon; 0: there is none. */
size_t image_find_symbols(const struct image *image);

/*
 * The function symbols, sorted by address; *SYMBOLS is to be freed. A stripped file has none.
 */
int image_read_functions(const struct image *image, struct image_symbol **symbols, size_t *n);
/* The name of the function around VA, or NULL. */
const char *image_function_at(const struct image_symbol *symbols, size_t n, uint64_t va);

/*
 * Put the image's bytes at PATH, in one step: whoever opens PATH sees the old file or the new one.
 * Mode and, where the rights suffice, owner are those of the file that was read. A symbolic link
 * stays, its target is replaced.
 */
int image_write(const struct image *image, const char *path);

#endif
