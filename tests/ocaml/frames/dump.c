// SPDX-License-Identifier: MIT
/*
 * dump FILE: the frame tables of FILE, a line a descriptor:
 *
 *	ADDRESS FRAME-BYTES [end] [| FUNCTION FILE LINE-LINE COLUMN-COLUMN [inlined] [raise]]...
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "code/frametable.h"

static void print(const struct frametable *table, const struct frame_descr *descr)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	const size_t n = frametable_locations(table, descr, locations, FRAME_LOCATIONS_MAX);

	printf("%" PRIx64 " %u%s", descr->va, descr->frame_bytes, descr->is_chunk_end ? " end" : "");
	for (size_t i = 0; i < n; i++)
		printf(" | %s %s %u-%u %u-%u%s%s", locations[i].function, locations[i].file,
		       locations[i].line, locations[i].end_line, locations[i].start_col,
		       locations[i].end_col, locations[i].is_inlined ? " inlined" : "",
		       locations[i].is_raise ? " raise" : "");
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	const struct frame_descr *list;
	struct frametable *table = NULL;
	struct elf_file *elf = NULL;
	size_t n;
	int err = fd < 0 ? -EBADF : elf_file_open(ctx, fd, argv[1], &elf);

	if (!err)
		err = frametable_read(ctx, elf, &table);
	if (err) {
		fprintf(stderr, "dump: %s\n", fd < 0 ? "no file" : ocp_error(ctx));
		return 1;
	}
	list = frametable_list(table, &n);
	for (size_t i = 0; i < n; i++)
		print(table, &list[i]);
	frametable_free(table);
	elf_file_close(elf);
	ocp_ctx_free(ctx);
	close(fd);
	return 0;
}
