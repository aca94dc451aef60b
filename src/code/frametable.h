/* SPDX-License-Identifier: MIT */
/*
 * The frame tables of an executable, a library or a plugin. They describe the stack frame of each
 * call for OCaml's collector, and the call's place in the source for Printexc. `strip` does not
 * remove them. They are read from the file, without a process. (OCaml 4.12 to 5.5, OxCaml.)
 */
#ifndef CODE_FRAMETABLE_H
#define CODE_FRAMETABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

/* The descriptor of a call, which is identified by its return address. */
struct frame_descr {
	uint64_t va; /* the return address, as linked */
	/* the address of the call's debug information (its place in the source); 0: none */
	uint64_t debuginfo_va;
	/*
	 * the index in frametable_tables() of the table that contains the descriptor; in an
	 * executable, table 0 is for the code that ocamlopt makes when it links
	 */
	uint32_t table;
	/*
	 * The size of the calling function's frame in bytes, including the return address; 0 at the
	 * end of a chunk.
	 */
	uint32_t frame_bytes : 30;
	/* OCaml's part of the stack ends here: the next caller is C */
	bool is_chunk_end : 1;
	bool collects : 1; /* a call of the collector, outside of the function's main path */
};

/*
 * A place in the source, as Printexc gives it. The texts have bounded length and end with 0, but
 * their bytes come from the file unchecked: print them with print_text or write_json_text.
 */
struct frame_location {
	const char *file;
	const char *function; /* "Service.Cache.find", "Service.iter.(fun)" */
	uint32_t line, end_line;
	uint32_t start_col, end_col; /* the first column is 0 */
	/* the end column, counted from the start of `line` instead of end_line */
	uint32_t end_char;
	/* `function` is inlined into the function of the next location */
	bool is_inlined;
	bool is_raise;
};

enum { FRAME_LOCATIONS_MAX = 256 };

struct frametable;

/*
 * Read the frame tables of ELF. Returns -ENODATA if ELF has no frame tables, -EBADMSG if they are
 * damaged or exceed the limits. *OUT does not refer to ELF.
 */
int frametable_read(struct ocp_ctx *ctx, struct elf_file *elf, struct frametable **out);
void frametable_free(struct frametable *table);

/* Return all descriptors, sorted by va. No two have the same va. */
const struct frame_descr *frametable_list(const struct frametable *table, size_t *n);

/* Return the addresses of the *N tables, in the order in which the file lists them. */
const uint64_t *frametable_tables(const struct frametable *table, size_t *n);

/*
 * Return the index of the first descriptor whose va is VA or more; the number of descriptors if
 * there is none.
 */
size_t frametable_from(const struct frametable *table, uint64_t va);

/* Return the descriptor of the return address VA, or NULL if the tables lack VA. */
const struct frame_descr *frametable_find(const struct frametable *table, uint64_t va);

/*
 * Write the locations of DESCR to LOCATIONS, at most ROOM: the innermost inlined function first,
 * the function that was compiled to this code last. Returns the number of locations; 0 if DESCR has
 * no debug information, or if that information is damaged or of the format that OxCaml has since
 * August 2026. The texts exist as long as TABLE.
 */
size_t frametable_locations(const struct frametable *table, const struct frame_descr *descr,
			    struct frame_location *locations, size_t room);

#endif
