// SPDX-License-Identifier: MIT
#include "elf/data_image.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "elf/relocations.h"

/* The limit for the size of all parts together. */
#define MAX_DATA_BYTES (UINT64_C(1) << 28)

static int read_part(struct ocp_ctx *ctx, struct elf_file *elf, const struct elf_segment *segment,
		     struct data_image *image, uint64_t *all_bytes)
{
	struct data_part *part = &image->parts[image->n_parts];

	if (image->n_parts == DATA_IMAGE_PARTS)
		return ctx_error(ctx, -EBADMSG, "%s: has more than %d segments of data",
				 elf_file_name(elf), DATA_IMAGE_PARTS);
	if (segment->file_bytes > MAX_DATA_BYTES - *all_bytes)
		return ctx_error(ctx, -EBADMSG,
				 "%s: has more than %" PRIu64 " bytes of data in the file",
				 elf_file_name(elf), MAX_DATA_BYTES);
	*all_bytes += segment->file_bytes;
	*part = (struct data_part){ .va = segment->va, .n = segment->file_bytes };
	part->bytes = malloc(part->n);
	if (!part->bytes)
		return ctx_no_memory(ctx);
	image->n_parts++;
	return elf_file_read(elf, segment->off, part->bytes, part->n);
}

static int relocate(void *data, const struct relocation *relocation)
{
	const struct data_part *part = data_image_part(data, relocation->place);
	uint64_t at;

	if (!part || relocation->symbol)
		return 0;
	at = relocation->place - part->va;
	if (part->n - at >= sizeof(relocation->va))
		memcpy(part->bytes + at, &relocation->va, sizeof(relocation->va));
	return 0;
}

int data_image_read(struct ocp_ctx *ctx, struct elf_file *elf, struct data_image *image)
{
	const struct elf_segment *segments;
	uint64_t all_bytes = 0;
	size_t n;
	int err = 0;

	*image = (struct data_image){ .n_parts = 0 };
	segments = elf_file_segments(elf, &n);
	for (size_t i = 0; !err && i < n; i++)
		if (segments[i].writable && segments[i].file_bytes)
			err = read_part(ctx, elf, &segments[i], image, &all_bytes);
	if (!err)
		err = relocations_each(elf, relocate, image);
	if (err)
		data_image_free(image);
	return err;
}

void data_image_free(struct data_image *image)
{
	for (size_t i = 0; i < image->n_parts; i++)
		free(image->parts[i].bytes);
	*image = (struct data_image){ .n_parts = 0 };
}

const struct data_part *data_image_part(const struct data_image *image, uint64_t va)
{
	for (size_t i = 0; i < image->n_parts; i++)
		if (va >= image->parts[i].va && va - image->parts[i].va < image->parts[i].n)
			return &image->parts[i];
	return NULL;
}
