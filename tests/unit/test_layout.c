// SPDX-License-Identifier: MIT
/* Which files the post-linker can add bytes to, and how many: made-up headers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/layout.h"
#include "unit.h"

enum { N_BYTES = 0x3000 };

/* Code, and writable data with some .bss at the end of the file. */
static void make_image(struct ocp_ctx *ctx, Elf64_Phdr segments[2], struct linked_file *image)
{
	segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				    .p_flags = PF_R | PF_X,
				    .p_vaddr = 0x400000,
				    .p_filesz = 0x1000,
				    .p_memsz = 0x1000 };
	segments[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				    .p_flags = PF_R | PF_W,
				    .p_offset = 0x1000,
				    .p_vaddr = 0x402000,
				    .p_filesz = 0x1000,
				    .p_memsz = 0x1800 };
	*image = (struct linked_file){
		.ctx = ctx, .n_bytes = N_BYTES, .segments = segments, .n_segments = 2
	};
}

TEST(the_last_segment_has_to_be_writable)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct layout_room room;
	Elf64_Phdr segments[2];
	struct linked_file image;

	make_image(ctx, segments, &image);
	assert_int_equal(layout_find_room(&image, &room), 0);
	assert_int_equal(room.segment, 1);
	assert_int_equal(room.end_off, 0x2000);
	for (unsigned int flags = 0; flags < 8; flags++) {
		segments[1].p_flags = flags;
		if ((flags & PF_R) && (flags & PF_W)) {
			assert_int_equal(layout_find_room(&image, &room), 0);
			continue;
		}
		assert_true(layout_find_room(&image, &room) < 0);
		assert_non_null(strstr(ocp_error(ctx), "the last segment is not writable"));
	}
	image.n_segments = 0;
	assert_true(layout_find_room(&image, &room) < 0);
	assert_non_null(strstr(ocp_error(ctx), "the last segment is not writable"));
	ocp_ctx_free(ctx);
}

/* ---- new files ------------------------------------------------------------------------------ */

enum { NAMES_OFF = 0x2000, TABLE_OFF = 0x2800 };
enum { BSS = 1, FAR, WIDE, NAMES, N_SECTIONS };

/*
 * The same with sections: .bss, two that do not fit between the data and the room behind it, as no
 * linker makes them, and the names.
 */
static void make_file(struct ocp_ctx *ctx, Elf64_Phdr segments[2], struct linked_file *image)
{
	const Elf64_Shdr bss = { .sh_type = SHT_NOBITS,
				 .sh_flags = SHF_ALLOC | SHF_WRITE,
				 .sh_addr = 0x403000,
				 .sh_size = 0x800 };

	make_image(ctx, segments, image);
	image->bytes = calloc(1, N_BYTES);
	image->sections = calloc(N_SECTIONS, sizeof(Elf64_Shdr));
	assert_true(image->bytes && image->sections);
	image->n_sections = N_SECTIONS;
	image->header.e_phoff = sizeof(Elf64_Ehdr);
	image->header.e_shoff = TABLE_OFF;
	image->header.e_shstrndx = NAMES;
	image->sections[BSS] = image->sections[FAR] = image->sections[WIDE] = bss;
	image->sections[FAR].sh_addr = 0x500000;
	image->sections[WIDE].sh_size = 0x801;
	image->sections[NAMES] =
		(Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = NAMES_OFF, .sh_size = 1 };
}

/* Add a section of N_ADDED bytes that is not loaded. */
static int add_section(struct linked_file *image, size_t n_added)
{
	uint8_t *added = calloc(1, n_added);
	const struct layout_section section = {
		.name = ".added",
		.header = { .sh_type = SHT_PROGBITS, .sh_size = n_added, .sh_addralign = 1 },
		.bytes = added,
	};
	struct layout_room room;
	int err;

	assert_non_null(added);
	assert_int_equal(layout_find_room(image, &room), 0);
	err = layout_apply(image, &room, &section, 1);
	free(added);
	return err;
}

static void free_file(struct linked_file *image)
{
	free(image->bytes);
	free(image->sections);
}

/* Of sections that lie, too, no byte is said to be in the file that is not there. */
TEST(only_what_fits_gets_bytes)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	Elf64_Phdr segments[2];
	struct linked_file image;

	make_file(ctx, segments, &image);
	assert_int_equal(add_section(&image, 16), 0);
	assert_int_equal(image.n_sections, N_SECTIONS + 1);
	assert_int_equal(image.sections[BSS].sh_type, SHT_PROGBITS);
	assert_int_equal(image.sections[BSS].sh_offset, 0x2000);
	assert_int_equal(image.sections[FAR].sh_type, SHT_NOBITS);
	assert_int_equal(image.sections[WIDE].sh_type, SHT_NOBITS);
	free_file(&image);
	ocp_ctx_free(ctx);
}

/* As far as it may, and not a word further; the .bss that goes into it does not count. */
TEST(files_grow_so_far)
{
	enum { LIMIT = 16 * N_BYTES + (1 << 20) + 0x800, SOME = 800, WORD = 8 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	Elf64_Phdr segments[2];
	struct linked_file image;
	size_t n_most;

	make_file(ctx, segments, &image);
	assert_int_equal(add_section(&image, SOME), 0);
	n_most = SOME + LIMIT - image.n_bytes;
	free_file(&image);
	make_file(ctx, segments, &image);
	assert_int_equal(add_section(&image, n_most + WORD), -EBADMSG);
	assert_non_null(strstr(ocp_error(ctx), "more than 16 times"));
	assert_int_equal(image.n_bytes, N_BYTES);
	assert_int_equal(add_section(&image, n_most), 0);
	assert_int_equal(image.n_bytes, LIMIT);
	free_file(&image);
	ocp_ctx_free(ctx);
}
