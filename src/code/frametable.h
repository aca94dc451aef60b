/* SPDX-License-Identifier: MIT */
/*
 * The frame tables of an executable, a library or a plugin: what OCaml's collector knows of the stack
 * frame behind each call, and what Printexc knows of its place in the source. They stay when a program is
 * stripped. Read from the file alone. (OCaml 4.12 to 5.3.)
 */
#ifndef CODE_FRAMETABLE_H
#define CODE_FRAMETABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

/* What is known of a call, found by its return address. */
struct frame_descr {
	uint64_t va;	       /* the return address, as linked */
	uint64_t debuginfo_va; /* of the place in the source; 0: none */
	uint32_t table; /* the number of the table, in the order of their list; 0: linker's code */
	/* Of the frame of the caller, with the address to which that returns; 0 at the end of a chunk. */
	uint16_t frame_bytes;
	bool is_chunk_end; /* OCaml's part of the stack ends here: C is the caller */
	bool collects;	   /* the call is one of the collector, out of the function's way */
};

/*
 * A place in the source, as Printexc gives it. The texts are bounded and end with 0, but are the bytes
 * of the file: print_text and write_json_text print them.
 */
struct frame_location {
	const char *file;
	const char *function; /* "Service.Cache.find", "Service.iter.(fun)" */
	uint32_t line, end_line;
	uint32_t start_col, end_col; /* the first column is 0 */
	uint32_t end_char;	     /* end_col, counted from the start of the first line */
	bool is_inlined;	     /* the function is inlined into that of the next location */
	bool is_raise;
};

enum { FRAME_LOCATIONS_MAX = 256 };

struct frametable;

/*
 * Read the tables of ELF. -ENODATA if it has none, -EBADMSG if they are damaged or exceed the limits. ELF
 * is not needed any more after it.
 */
int frametable_read(struct ocp_ctx *ctx, struct elf_file *elf, struct frametable **out);
void frametable_free(struct frametable *table);

/* All descriptors, sorted by va, each va once. */
const struct frame_descr *frametable_list(const struct frametable *table, size_t *n);

/* The addresses of the *N tables, in the order of their list. */
const uint64_t *frametable_tables(const struct frametable *table, size_t *n);

/* The number of the first descriptor whose va is not below VA; the number of all: none. */
size_t frametable_from(const struct frametable *table, uint64_t va);

/* The descriptor of the return address VA, or NULL. */
const struct frame_descr *frametable_find(const struct frametable *table, uint64_t va);

/*
 * The locations of DESCR: the innermost function first, the one that was compiled to this code last. At
 * most ROOM of them go to LOCATIONS. Returns their number; 0: it has none, or they are damaged. The
 * texts exist as long as TABLE.
 */
size_t frametable_locations(const struct frametable *table, const struct frame_descr *descr,
			    struct frame_location *locations, size_t room);

#endif
