/* SPDX-License-Identifier: MIT */
/*
 * The writable data of a file as the dynamic linker leaves it, but without a load bias: the words
 * that the linker fills in hold link-time addresses. Words whose values depend on other files keep
 * the value that is in the file. Segments that are not writable can be added.
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
 * Read the writable data of ELF. Returns -EBADMSG if the data exceed the limits. After an error
 * *IMAGE is empty.
 */
int data_image_read(struct ocp_ctx *ctx, struct elf_file *elf, struct data_image *image);

/*
 * Add the segment of ELF that contains VA to IMAGE, as it is in the file. Add nothing if the file
 * has no bytes for VA. Returns -EBADMSG if the data then exceed the limits.
 */
int data_image_add(struct ocp_ctx *ctx, struct elf_file *elf, struct data_image *image,
		   uint64_t va);
void data_image_free(struct data_image *image);

/* Return the part that holds the byte at VA; NULL if no part does. */
const struct data_part *data_image_part(const struct data_image *image, uint64_t va);

/* ---- relocations ----------------------------------------------------------------------------- */

/*
 * The words of a file that the dynamic linker fills in (.rela.dyn). In the file itself these words
 * may be 0. Compact relocations (RELR) are not included: their words already have the link-time
 * address in the file.
 */

struct relocation {
	uint64_t place;	    /* the link-time address of the word */
	uint64_t va;	    /* the link-time address that the word will hold; 0 if symbol is set */
	const char *symbol; /* the name of a symbol that another file defines, or NULL */
	int64_t addend;	    /* to be added to the address of `symbol` */
};

/* Return 0 to continue; any other value ends the walk and becomes its result. */
typedef int (*relocation_fn)(void *data, const struct relocation *relocation);

/*
 * Call FN(DATA, relocation) for each relocation of type R_X86_64_RELATIVE or R_X86_64_64. Returns
 * 0, what FN returned, or a negative errno. A file without relocations is not an error.
 */
int relocations_each(struct elf_file *elf, relocation_fn fn, void *data);

#endif
