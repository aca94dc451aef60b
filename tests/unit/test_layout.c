// SPDX-License-Identifier: MIT
/* Which files the post-linker can add bytes to: made-up program headers. */
#include <errno.h>
#include <string.h>

#include "link/layout.h"
#include "unit.h"

enum { N_BYTES = 0x3000 };

/* Code, and writable data with some .bss at the end of the file. */
static void make_image(struct ocp_ctx *ctx, Elf64_Phdr segments[2], struct image *image)
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
	*image = (struct image){
		.ctx = ctx, .n_bytes = N_BYTES, .segments = segments, .n_segments = 2
	};
}

static void the_last_segment_has_to_be_writable(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct layout_room room;
	Elf64_Phdr segments[2];
	struct image image;

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_segment_has_to_be_writable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
