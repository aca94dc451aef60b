// SPDX-License-Identifier: MIT
/*
 * Stubs of the functions that src/unwind/frame_names.c calls for libdw, .eh_frame and BPF's walker.
 * Probes_lib does not link these parts: the frames of Gc.Memprof are OCaml calls, whose names and
 * lines are in the frame tables and symbols.
 */
#include "elf/lines.h"
#include "elf/eh_frame.h"
#include "unwind/stack_walker.h"

int address_lines_open(struct ocp_ctx *ctx, int fd, const char *name, struct address_lines **out)
{
	(void)ctx;
	(void)fd;
	(void)name;
	*out = NULL;
	return 0;
}

void address_lines_close(struct address_lines *lines)
{
	(void)lines;
}

bool address_lines_find(const struct address_lines *lines, uint64_t va, struct address_line *found)
{
	(void)lines;
	(void)va;
	(void)found;
	return false;
}

bool address_lines_first(const struct address_lines *lines, uint64_t from, uint64_t end,
			 struct address_line *found)
{
	(void)lines;
	(void)from;
	(void)end;
	(void)found;
	return false;
}

int eh_frame_each_function(struct ocp_ctx *ctx, struct elf_file *elf, eh_frame_function_fn fn,
			   void *data)
{
	(void)ctx;
	(void)elf;
	(void)fn;
	(void)data;
	return 0;
}

bool stack_walker_locate(const struct stack_walker *walker, uint64_t frame,
			 struct walked_place *place)
{
	(void)walker;
	(void)frame;
	(void)place;
	return false;
}
