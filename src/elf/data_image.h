/* SPDX-License-Identifier: MIT */
/*
 * The writable data of a file as the dynamic linker leaves it, but without a load bias: the words
 * that the linker fills in hold link-time addresses. Words whose values depend on other files stay
 * as they are in the file.
 */
#ifndef ELF_DATA_IMAGE_H
#define ELF_DATA_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

enum { DATA_IMAGE_PARTS = 8 };

/* The data of one segment. */
struct data_part {
	uint64_t va;
	/* size of `bytes`: the part of the segment that is stored in the file (without .bss) */
	uint64_t n;
	uint8_t *bytes;
};

struct data_image {
	struct data_part parts[DATA_IMAGE_PARTS];
	size_t n_parts;
};

/*
 * Read the data of ELF. Returns -EBADMSG if it exceeds the limits. After an error *IMAGE is empty.
 */
int data_image_read(struct ocp_ctx *ctx, struct elf_file *elf, struct data_image *image);
void data_image_free(struct data_image *image);

/* Return the part that holds the byte at VA, or NULL. */
const struct data_part *data_image_part(const struct data_image *image, uint64_t va);

#endif
