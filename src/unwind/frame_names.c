// SPDX-License-Identifier: MIT
#include "unwind/frame_names.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/ctx.h"
#include "base/sanitize.h"
#include "base/search.h"
#include "code/frametable.h"
#include "code/functions.h"
#include "code/ocaml_name.h"
#include "elf/debug_file.h"
#include "elf/eh_frame.h"
#include "elf/elf_file.h"
#include "elf/lines.h"

/* ---- symbols of the kernel ------------------------------------------------------------------- */

/* The functions of the kernel, from /proc/kallsyms. */

struct kernel_symbol {
	uint64_t address;
	char *name;
};

struct kernel_symbols {
	struct kernel_symbol *list;
	size_t n;
};

static int add_kernel_symbol(struct ocp_ctx *ctx, struct kernel_symbols *symbols, uint64_t address,
			     const char *name)
{
	struct kernel_symbol *new = array_add(symbols->list, symbols->n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = (struct kernel_symbol){ address, strdup(name) };
	if (new->name)
		return 0;
	symbols->n--;
	return ctx_no_memory(ctx);
}

/*
 * Add the symbol in a line such as "ffffffff81000000 T _text". For a function of a module,
 * "\t[module]" follows its name.
 */
static int read_kernel_symbol(struct ocp_ctx *ctx, struct kernel_symbols *symbols, char *line)
{
	char *end, *name;
	const uint64_t address = strtoull(line, &end, 16);

	if (!address || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	if (tolower(end[1]) != 't' && tolower(end[1]) != 'w')
		return 0;
	name = end + 3;
	name[strcspn(name, "\t \n")] = '\0';
	return add_kernel_symbol(ctx, symbols, address, name);
}

static int compare_kernel_symbols(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	return COMPARE(x->address, y->address);
}

static void kernel_symbols_free(struct kernel_symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->n; i++)
		free(symbols->list[i].name);
	free(symbols->list);
	free(symbols);
}

/*
 * Read the symbols. Without CAP_SYSLOG the kernel hides the addresses, and no name will be found.
 */
static int kernel_symbols_read(struct ocp_ctx *ctx, struct kernel_symbols **out)
{
	struct kernel_symbols *symbols = calloc(1, sizeof(*symbols));
	FILE *f = fopen("/proc/kallsyms", "re");
	char *line = NULL;
	size_t room = 0;
	int err = symbols ? 0 : ctx_no_memory(ctx);

	while (f && !err && getline(&line, &room, f) > 0)
		err = read_kernel_symbol(ctx, symbols, line);
	free(line);
	if (f)
		fclose(f);
	if (err) {
		kernel_symbols_free(symbols);
		return err;
	}
	if (symbols->n)
		qsort(symbols->list, symbols->n, sizeof(*symbols->list), compare_kernel_symbols);
	*out = symbols;
	return 0;
}

/* Return the name of the function that contains ADDRESS; NULL if no function is known there. */
static const char *kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address)
{
	const size_t next = SEARCH(i, symbols->n, symbols->list[i].address <= address);

	return next ? symbols->list[next - 1].name : NULL;
}

/* ---- instructions that are not calls --------------------------------------------------------- */

/*
 * Find the source line of an instruction that is not a call, and the OCaml functions into which its
 * code was inlined. Frame tables describe only calls. So the line table gives the line of the
 * instruction, and the frame table's entries for calls on the same line show which functions are
 * inlined at the instruction.
 */

/* An instruction, and the tables of its file. */
struct exact_frame {
	const struct elf_file *elf;
	const struct address_lines *lines;
	const struct frametable *table;
	/*
	 * The OCaml function that contains the instruction; NULL if the instruction is not OCaml
	 * code.
	 */
	const struct function *function;
	uint64_t va;
	/* Filled in by exact_frame_read(). */
	struct address_line line;
	/*
	 * the address of the handler of the probe that begins at the instruction; 0 if no probe
	 * begins there
	 */
	uint64_t handler;
};

/*
 * Return true if the path PATH equals NAME, a file name that was given to the compiler, or ends
 * with a slash and NAME.
 */
static bool names_same_file(const char *path, const char *name)
{
	const size_t path_bytes = strlen(path), name_bytes = strlen(name);

	return name_bytes <= path_bytes && strcmp(path + path_bytes - name_bytes, name) == 0 &&
	       (name_bytes == path_bytes || path[path_bytes - name_bytes - 1] == '/');
}

/* Return the descriptors of the *N calls in FRAME's function, sorted by return address. */
static const struct frame_descr *calls_of(const struct exact_frame *frame, size_t *n)
{
	size_t n_list;
	const struct frame_descr *list = frametable_list(frame->table, &n_list);
	const size_t first = frametable_from(frame->table, frame->function->va + 1);
	const uint64_t end = frame->function->va + frame->function->bytes;

	*n = 0;
	while (first + *n < n_list && list[first + *n].va <= end)
		++*n;
	return list + first;
}

/*
 * Write to LOCATIONS the locations of the call DESCR, innermost first, without those before the
 * first location on the line of FRAME. Returns the number of locations; 0 if none is on that line.
 */
static size_t locations_on_line(const struct exact_frame *frame, const struct frame_descr *descr,
				struct frame_location *locations, size_t room)
{
	const size_t n = frametable_locations(frame->table, descr, locations, room);

	for (size_t i = 0; i < n; i++)
		if (locations[i].line == (uint32_t)frame->line.line &&
		    names_same_file(frame->line.file, locations[i].file)) {
			memmove(locations, locations + i, (n - i) * sizeof(*locations));
			return n - i;
		}
	return 0;
}

/*
 * Return true if the locations A and B are the same functions, inlined at the same places. The
 * columns of the first (innermost) location may differ.
 */
static bool are_same(const struct frame_location *a, size_t n_a, const struct frame_location *b,
		     size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (a[i].line != b[i].line || strcmp(a[i].function, b[i].function) != 0 ||
		    strcmp(a[i].file, b[i].file) != 0 ||
		    (i && (a[i].start_col != b[i].start_col || a[i].end_col != b[i].end_col)))
			return false;
	return true;
}

static uint64_t target(uint64_t next, const uint8_t *displacement)
{
	int32_t bytes;

	memcpy(&bytes, displacement, sizeof(bytes));
	return next + (uint64_t)(int64_t)bytes;
}

/*
 * Return the address of the handler if a probe begins at the instruction, else 0. A converted probe
 * is a nop and a cmp or call, whose operand is the distance to the handler. A probe that is not
 * converted loads the address of its marker, compares the loaded value with 1, and jumps to the
 * handler or past it.
 */
static uint64_t handler_of(const struct exact_frame *frame)
{
	uint8_t code[17];
	uint64_t off;

	if (!elf_file_va_to_off(frame->elf, frame->va, &off) ||
	    elf_file_read(frame->elf, off, code, sizeof(code)) != 0)
		return 0;
	if (code[0] == 0x90 && (code[1] == 0x3d || code[1] == 0xe8))
		return target(frame->va + 6, code + 2);
	if ((code[0] & 0xf8) != 0x48 || (code[7] & 0xfe) != 0x48 || code[8] != 0x83 ||
	    (code[9] & 0xf8) != 0xf8 || code[10] != 1)
		return 0;
	if (code[11] == 0x74)
		return frame->va + 13 + (uint64_t)(int64_t)(int8_t)code[12];
	if (code[11] == 0x0f && code[12] == 0x84)
		return target(frame->va + 17, code + 13);
	return frame->va + 11;
}

/*
 * Return the index of the first call in CALLS[0..N) that returns to an address above VA; N if there
 * is none.
 */
static size_t call_behind(const struct frame_descr *calls, size_t n, uint64_t va)
{
	size_t i = 0;

	while (i < n && calls[i].va <= va)
		i++;
	return i;
}

/*
 * Set `line` and `handler` of FRAME. Returns false if the line is not known. If a probe begins at
 * the instruction, use the line of the first code of the probe's handler: that code stores the
 * arguments and has the line of the probe. The instructions of the probe itself have the right line
 * only if a row of the line table begins there.
 */
static bool exact_frame_read(struct exact_frame *frame)
{
	const bool is_found = address_lines_find(frame->lines, frame->va, &frame->line);
	struct address_line line;
	size_t n_calls, next;
	const struct frame_descr *calls;

	frame->handler = frame->function ? handler_of(frame) : 0;
	if (!frame->handler || (is_found && frame->line.va == frame->va))
		return is_found;
	calls = calls_of(frame, &n_calls);
	next = call_behind(calls, n_calls, frame->handler);
	if (next < n_calls &&
	    address_lines_first(frame->lines, frame->handler, calls[next].va, &line))
		frame->line = line;
	return is_found;
}

/*
 * Write at most ROOM locations of FRAME to LOCATIONS, in the form of frametable_locations(). FRAME
 * must be in an OCaml function, and exact_frame_read() must have found its line. Returns the number
 * of locations. Returns 0 if no call of the function is on that line, or if it is unknown which of
 * several inlined copies of the line contains FRAME.
 */
static size_t exact_frame_locations(const struct exact_frame *frame,
				    struct frame_location *locations, size_t room)
{
	struct frame_location others[FRAME_LOCATIONS_MAX];
	size_t n_calls, n = 0, n_others, next;
	const struct frame_descr *calls = calls_of(frame, &n_calls);
	bool agree = true;

	if (room > FRAME_LOCATIONS_MAX)
		room = FRAME_LOCATIONS_MAX;
	next = call_behind(calls, n_calls, frame->handler ? frame->handler : frame->va);
	if (frame->handler && next < n_calls)
		return locations_on_line(frame, &calls[next], locations, room);
	for (size_t i = 0; i < n_calls && agree; i++) {
		n_others = locations_on_line(frame, &calls[i], others, room);
		if (n && n_others)
			agree = are_same(locations, n, others, n_others);
		else if (n_others) {
			memcpy(locations, others, n_others * sizeof(*others));
			n = n_others;
		}
	}
	if (agree)
		return n;
	/*
	 * The function has several copies of the code of this line. If the calls just before and
	 * just after the instruction are in the same copy, the instruction is in that copy, too.
	 */
	if (!next || next == n_calls)
		return 0;
	n = locations_on_line(frame, &calls[next - 1], locations, room);
	n_others = locations_on_line(frame, &calls[next], others, room);
	return are_same(locations, n, others, n_others) ? n : 0;
}

/*
 * Return the name of the source file of FRAME's line: the name in the frame table or, if the frame
 * table lacks the file, the name in the line table.
 */
static const char *exact_frame_file(const struct exact_frame *frame)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	size_t n_calls;
	const struct frame_descr *calls = calls_of(frame, &n_calls);

	for (size_t i = 0; i < n_calls; i++) {
		const size_t n = frametable_locations(frame->table, &calls[i], locations,
						      FRAME_LOCATIONS_MAX);

		for (size_t j = 0; j < n; j++)
			if (names_same_file(frame->line.file, locations[j].file))
				return locations[j].file;
	}
	return frame->line.file;
}

/* ---- names ----------------------------------------------------------------------------------- */

enum {
	MAX_INLINED = 64,
	FIRST_SLOTS = 4096,
	MAX_PATH_PART = 128,
	/*
	 * A limit for n_found, since frames that come from Gc.Memprof are chosen by the traced
	 * program, and there could be any number of them.
	 */
	MAX_FOUND = 1 << 20,
};

/* Constant frames, which need no allocation. */
static const struct named_frame unknown_frame = { .function = "[unknown]", .kind = FRAME_UNKNOWN };
static const struct named_frame other_frame = { .function = "[too many frames]",
						.kind = FRAME_UNKNOWN };

/* The bounds of a function. */
struct code_extent {
	uint64_t va, end;
};

/* The tables of one file in which the names of its code are found. */
struct file_names {
	const struct walked_file *file;
	/* all functions, including those without names; sorted by address */
	struct code_extent *extents;
	size_t n_extents;
	/* the functions; NULL if the file has none, or they cannot be read */
	struct functions *functions;
	/* the frame tables; NULL if the file has none, or they cannot be read */
	struct frametable *table;
	/* the calls that have debug information, sorted by its address; read when first needed */
	const struct frame_descr **by_debuginfo;
	size_t n_by_debuginfo;
	struct address_lines *lines;
	/* the separate debug file, opened when it is first needed; NULL if the file has none */
	struct debug_file *debug;
	bool has_sought_debug;
};

/* A frame, and its names. */
struct found_frame {
	const struct walked_file *file; /* NULL: a frame of the kernel */
	uint64_t address; /* for a file: a link-time address, perhaps with WALK_EXACT */
	struct named_frame *frames;
	size_t n;
};

struct frame_names {
	struct ocp_ctx *ctx;
	const struct stack_walker *walker;
	struct file_names *files;
	size_t n_files;
	struct kernel_symbols *kernel;
	struct found_frame *found; /* a hash table; n is 0 in free slots */
	size_t n_found, slots;
	/*
	 * The strings of named frames that this struct owns. Other strings of named frames are in
	 * the function table of a file or in the kernel's symbols, or are literals.
	 */
	char **texts;
	size_t n_texts;
};

/* ---- texts ---------------------------------------------------------------------------------- */

/* Return a printable copy of TEXT that NAMES owns; NULL if there is no memory. */
static const char *keep_text(struct frame_names *names, const char *text)
{
	char *copy = strdup(text);
	char **new = copy ? array_add(names->texts, names->n_texts) : NULL;

	if (!new) {
		free(copy);
		return NULL;
	}
	make_one_line(copy);
	*new = copy;
	return copy;
}

static int add_code_extent(void *data, uint64_t va, uint64_t bytes)
{
	struct file_names *of = data;
	struct code_extent *new = array_add(of->extents, of->n_extents);

	if (!new)
		return -ENOMEM;
	*new = (struct code_extent){ va, va + bytes };
	return 0;
}

/* Return the bounds of the function that contains VA; NULL if no such function is known. */
static const struct code_extent *extent_of(const struct file_names *of, uint64_t va)
{
	const size_t next = SEARCH(i, of->n_extents, of->extents[i].va <= va);

	return next && va < of->extents[next - 1].end ? &of->extents[next - 1] : NULL;
}

/*
 * Return the function at VA; NULL if it is unknown. By the symbols alone, a function whose symbol
 * has no size reaches up to the next symbol. But code without symbols, such as the procedure
 * linkage table, may lie between the two symbols. Return NULL for that code.
 */
static const struct function *function_at(const struct file_names *of, uint64_t va)
{
	const struct function *function = of->functions ? functions_at(of->functions, va) : NULL;
	const struct code_extent *extent = function ? extent_of(of, va) : NULL;

	return extent && extent->va > function->va ? NULL : function;
}

/*
 * Return the name of PLACE, whose function has no symbol: "[libfoo.so+0x1234]", where 0x1234 is the
 * start of the function.
 */
static const char *name_place(struct frame_names *names, const struct file_names *of,
			      const struct walked_place *place, uint64_t inside)
{
	const char *base = base_name(place->file->path);
	const struct code_extent *extent = extent_of(of, inside);
	char text[MAX_PATH_PART + 32];

	if (*base == '[') /* already in brackets: "[vdso]" */
		snprintf(text, sizeof(text), "%.*s", MAX_PATH_PART, base);
	else
		snprintf(text, sizeof(text), "[%.*s+0x%" PRIx64 "]", MAX_PATH_PART, base,
			 extent ? extent->va : inside);
	return keep_text(names, text);
}

/* ---- functions of OCaml --------------------------------------------------------------------- */

/*
 * A frame has the name by which `fn:` finds its function. A function that is in the file has its
 * name there. A function that was inlined has the path in the debug information, which is also the
 * name of the function in the file, if the file has it. Only in an initialiser, the path says more
 * than the name: it contains the definition that the initialiser runs.
 */

size_t named_frame_item_bytes(const struct named_frame *frame)
{
	const size_t all = frame->item ? strlen(frame->item) : 0, bytes = strlen(frame->function);

	if (all > 3 + bytes && strncmp(frame->item + 3, frame->function, bytes) == 0 &&
	    frame->item[3 + bytes] == '/')
		return 3 + bytes;
	return all;
}

/* Set FRAME's item to NAME, with "fn:". Returns 0 or -ENOMEM. */
static int set_item(struct frame_names *names, const char *name, struct named_frame *frame)
{
	char item[FUNCTION_TEXT_BYTES + 4];

	snprintf(item, sizeof(item), "fn:%s", name);
	frame->item = keep_text(names, item);
	return frame->item ? 0 : ctx_no_memory(names->ctx);
}

static int set_item_of(struct frame_names *names, const struct function *function,
		       struct named_frame *frame)
{
	char text[FUNCTION_TEXT_BYTES];

	return set_item(names, function_text(function, text), frame);
}

/* Return true if FULL_NAME is that of a function of OCaml's standard library. */
static bool is_of_stdlib(const char *full_name)
{
	static const char unit[] = "Stdlib";
	const size_t bytes = sizeof(unit) - 1;

	return strncmp(full_name, unit, bytes) == 0 &&
	       (!full_name[bytes] || full_name[bytes] == '.');
}

/*
 * Name FRAME after PATH, the path of a function in OCaml's debug information. FUNCTION contains the
 * code of FRAME; NULL: unknown, or FRAME's function is inlined.
 */
static int name_ocaml(struct frame_names *names, const struct file_names *of, const char *path,
		      const struct function *function, struct named_frame *frame)
{
	const struct function *const *found = NULL;
	char name[OCAML_NAME_BYTES];
	size_t n, short_at;

	if (function && !function->is_initialiser) {
		frame->function = function->name;
		frame->is_stdlib = is_of_stdlib(function->full_name);
		return set_item_of(names, function, frame);
	}
	if (!ocaml_name_of_debuginfo(path, name, &short_at)) {
		frame->function = keep_text(names, path);
	} else {
		frame->is_stdlib = is_of_stdlib(name);
		if (of->functions && !function)
			found = functions_find_exact(of->functions, name, &n);
	}
	if (found)
		frame->function = found[0]->name;
	else if (!frame->function)
		frame->function = keep_text(names, name + short_at);
	if (!frame->function)
		return ctx_no_memory(names->ctx);
	if (!function && !found)
		return 0;
	return function || n == 1 ? set_item_of(names, function ? function : found[0], frame)
				  : set_item(names, found[0]->name, frame);
}

/* ---- files ---------------------------------------------------------------------------------- */

static int open_file_names(struct frame_names *names, const struct walked_file *file,
			   struct file_names **out)
{
	struct file_names *of;
	int err;

	for (size_t i = 0; i < names->n_files; i++) {
		if (names->files[i].file == file) {
			*out = &names->files[i];
			return 0;
		}
	}
	of = array_add(names->files, names->n_files);
	if (!of)
		return ctx_no_memory(names->ctx);
	*of = (struct file_names){ .file = file };
	*out = of;
	err = functions_read(names->ctx, file->elf, &of->functions);
	if (err != -ENOMEM &&
	    eh_frame_each_function(names->ctx, file->elf, add_code_extent, of) == -ENOMEM)
		err = ctx_no_memory(names->ctx);
	if (err != -ENOMEM)
		err = frametable_read(names->ctx, file->elf, &of->table);
	if (err != -ENOMEM)
		err = address_lines_open(names->ctx, file->fd, file->path, &of->lines);
	return err == -ENOMEM ? err : 0;
}

/* ---- frames --------------------------------------------------------------------------------- */

/*
 * Set FRAMES[0..N) to the names and places of LOCATIONS[0..N), which are in the code of FUNCTION;
 * NULL: unknown.
 */
static int name_locations(struct frame_names *names, const struct file_names *of,
			  const struct function *function, const struct frame_location *locations,
			  size_t n, struct named_frame *frames)
{
	int err = 0;

	if (function && function->language != FUNCTION_OCAML)
		function = NULL;
	for (size_t i = 0; !err && i < n; i++) {
		frames[i] = (struct named_frame){ .kind = FRAME_OCAML,
						  .file = keep_text(names, locations[i].file),
						  .line = locations[i].line,
						  .start_char = locations[i].start_col,
						  .end_char = locations[i].end_char,
						  .is_inlined = i + 1 < n };
		if (!frames[i].file)
			return ctx_no_memory(names->ctx);
		err = name_ocaml(names, of, locations[i].function,
				 locations[i].is_inlined ? NULL : function, &frames[i]);
	}
	return err;
}

static int compare_debuginfo(const void *a, const void *b)
{
	const struct frame_descr *x = *(const struct frame_descr *const *)a;
	const struct frame_descr *y = *(const struct frame_descr *const *)b;

	return COMPARE(x->debuginfo_va, y->debuginfo_va);
}

static int sort_by_debuginfo(struct ocp_ctx *ctx, struct file_names *of)
{
	size_t n;
	const struct frame_descr *list = frametable_list(of->table, &n);

	of->by_debuginfo = calloc(n + 1, sizeof(struct frame_descr *));
	if (!of->by_debuginfo)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n; i++)
		if (list[i].debuginfo_va)
			of->by_debuginfo[of->n_by_debuginfo++] = &list[i];
	qsort(of->by_debuginfo, of->n_by_debuginfo, sizeof(struct frame_descr *),
	      compare_debuginfo);
	return 0;
}

/*
 * Set *FUNCTION to the function that contains the calls whose debug information is at VA; NULL if
 * no function or several functions have such calls.
 */
static int find_function_of_debuginfo(struct ocp_ctx *ctx, struct file_names *of, uint64_t va,
				      const struct function **function)
{
	const struct function *other;
	size_t i;

	*function = NULL;
	if (!of->by_debuginfo && sort_by_debuginfo(ctx, of))
		return -ENOMEM;
	for (i = SEARCH(k, of->n_by_debuginfo, of->by_debuginfo[k]->debuginfo_va < va);
	     i < of->n_by_debuginfo && of->by_debuginfo[i]->debuginfo_va == va; i++) {
		other = function_at(of, of->by_debuginfo[i]->va - 1);
		if (*function && *function != other) {
			*function = NULL;
			return 0;
		}
		*function = other;
	}
	return 0;
}

/*
 * Name the frames of PLACE. Its va is the address of debug information in a frame table, not of
 * code. If there is no debug information at that address, return one unknown frame.
 */
static int name_debuginfo(struct frame_names *names, const struct walked_place *place,
			  struct named_frame *frames, size_t *n)
{
	const struct frame_descr descr = { .debuginfo_va = place->va };
	struct frame_location locations[MAX_INLINED];
	const struct function *function = NULL;
	struct file_names *of;
	int err = open_file_names(names, place->file, &of);

	if (err)
		return err;
	*n = of->table ? frametable_locations(of->table, &descr, locations, MAX_INLINED) : 0;
	if (*n)
		err = find_function_of_debuginfo(names->ctx, of, place->va, &function);
	if (!err)
		err = name_locations(names, of, function, locations, *n, frames);
	if (err || *n)
		return err;
	frames[0] = unknown_frame;
	*n = 1;
	return 0;
}

/*
 * Name FRAME after FUNCTION, where it has no place in the frame table. An initialiser has the name
 * of its unit.
 */
static int name_function(struct frame_names *names, const struct function *function,
			 struct named_frame *frame)
{
	char unit[OCAML_NAME_BYTES];

	frame->function = function->name;
	frame->is_stdlib = is_of_stdlib(function->full_name);
	if (function->is_initialiser) {
		snprintf(unit, sizeof(unit), "%.*s",
			 (int)(function->path_bytes - (function->name - function->full_name)),
			 function->name);
		frame->function = keep_text(names, unit);
	}
	return frame->function ? set_item_of(names, function, frame) : ctx_no_memory(names->ctx);
}

/*
 * Return the name of a C function. Two functions of OCaml 5's runtime get special names:
 * caml_runstack, whose frame is between a fibre and its parent, and domain_thread_func, which
 * starts a domain.
 */
static const char *name_c_function(const struct file_names *of, const struct function *function)
{
	if (of->table && strcmp(function->name, "caml_runstack") == 0)
		return "[fibre]";
	if (of->table && strcmp(function->name, "domain_thread_func") == 0)
		return "[domain]";
	return function->name;
}

/*
 * Name the frames of an instruction whose line is known. Set *N to 0 if the calls of the
 * instruction's function do not show which functions are inlined at the instruction.
 */
static int name_exact(struct frame_names *names, const struct file_names *of,
		      const struct exact_frame *exact, struct named_frame *frames, size_t *n)
{
	struct frame_location locations[MAX_INLINED];

	*n = exact_frame_locations(exact, locations, MAX_INLINED);
	return name_locations(names, of, exact->function, locations, *n, frames);
}

/*
 * VA is in code whose function has no symbol in the file. Set *NAME to its name in the separate
 * debug file; NULL: none.
 */
static int find_in_debug_file(struct frame_names *names, struct file_names *of, uint64_t va,
			      const char **name)
{
	char *found = NULL;
	int err = 0;

	*name = NULL;
	if (!of->has_sought_debug)
		err = debug_file_open(names->ctx, of->file->elf, &of->debug);
	of->has_sought_debug = true;
	if (err || !of->debug)
		return err;
	err = debug_file_function(of->debug, va, &found);
	if (found) {
		*name = keep_text(names, found);
		err = *name ? 0 : ctx_no_memory(names->ctx);
		free(found);
	}
	return err;
}

/*
 * Name a frame of a function without a symbol: by the separate debug file, or by its address.
 * INSIDE is an address in the frame's instruction.
 */
static int name_without_symbol(struct frame_names *names, struct file_names *of,
			       const struct walked_place *place, uint64_t inside,
			       struct named_frame *frame)
{
	struct address_line line;
	int err = find_in_debug_file(names, of, inside, &frame->function);

	if (err)
		return err;
	frame->kind = frame->function ? FRAME_C : FRAME_UNKNOWN;
	if (!frame->function)
		frame->function = name_place(names, of, place, inside);
	if ((of->lines && address_lines_find(of->lines, inside, &line)) ||
	    (of->debug && address_lines_find(debug_file_lines(of->debug), inside, &line))) {
		frame->line = (uint32_t)line.line;
		frame->file = keep_text(names, line.file);
	}
	return frame->function && (frame->file || !frame->line) ? 0 : ctx_no_memory(names->ctx);
}

/*
 * Name a frame without a place in the frame table. INSIDE is an address in the frame's instruction.
 * IS_LISTED means that the frame table contains the call, but without a place, since OCaml's
 * compiler did not know the place. Then do not use the line table for OCaml code: the line table
 * would give the line of other code.
 */
static int name_code(struct frame_names *names, struct file_names *of,
		     const struct walked_place *place, uint64_t inside, bool is_listed,
		     struct named_frame *frames, size_t *n)
{
	const struct function *function = function_at(of, inside);
	const bool is_ocaml = function && function->language == FUNCTION_OCAML;
	struct exact_frame exact = { .elf = place->file->elf,
				     .lines = of->lines,
				     .table = of->table,
				     .function = is_ocaml && of->table ? function : NULL,
				     .va = inside };
	bool has_line;
	int err = 0;

	frames[0] = (struct named_frame){ .kind = is_ocaml ? FRAME_OCAML : FRAME_C };
	*n = 1;
	if (!function)
		return name_without_symbol(names, of, place, inside, &frames[0]);
	has_line = of->lines && !(is_ocaml && is_listed) && exact_frame_read(&exact);
	if (has_line && exact.function) {
		err = name_exact(names, of, &exact, frames, n);
		if (err || *n)
			return err;
		*n = 1;
		frames[0] = (struct named_frame){ .kind = FRAME_OCAML };
		exact.line.file = exact_frame_file(&exact);
	}
	if (is_ocaml)
		err = name_function(names, function, &frames[0]);
	else
		frames[0].function = name_c_function(of, function);
	if (has_line) {
		frames[0].file = keep_text(names, exact.line.file);
		frames[0].line = (uint32_t)exact.line.line;
	}
	return !err && frames[0].function && (!has_line || frames[0].file)
		       ? 0
		       : ctx_no_memory(names->ctx);
}

static int name_in_file(struct frame_names *names, const struct walked_place *place, bool is_exact,
			struct named_frame *frames, size_t *n)
{
	struct frame_location locations[MAX_INLINED];
	const struct frame_descr *descr = NULL;
	struct file_names *of;
	int err = open_file_names(names, place->file, &of);

	if (err)
		return err;
	if (of->table && !is_exact)
		descr = frametable_find(of->table, place->va);
	if (descr && descr->is_chunk_end)
		descr = NULL;
	if (descr && descr->debuginfo_va) {
		*n = frametable_locations(of->table, descr, locations, MAX_INLINED);
		err = name_locations(names, of, function_at(of, place->va - 1), locations, *n,
				     frames);
		if (err || *n)
			return err;
	}
	return name_code(names, of, place, is_exact ? place->va : place->va - 1, descr != NULL,
			 frames, n);
}

/* ---- named frames --------------------------------------------------------------------------- */

static size_t frame_slot_of(const struct frame_names *names, const struct walked_file *file,
			    uint64_t address)
{
	const uint64_t mixed = (address ^ (uintptr_t)file) * UINT64_C(0x9e3779b97f4a7c15);
	size_t slot = (size_t)(mixed >> 32) % names->slots;

	while (names->found[slot].n &&
	       (names->found[slot].file != file || names->found[slot].address != address))
		slot = (slot + 1) % names->slots;
	return slot;
}

static int make_room_for_frame(struct frame_names *names)
{
	struct found_frame *old = names->found;
	const size_t n_old = names->slots;

	if (2 * names->n_found < names->slots)
		return 0;
	names->slots = names->slots ? 2 * names->slots : FIRST_SLOTS;
	names->found = calloc(names->slots, sizeof(*names->found));
	if (!names->found) {
		names->found = old;
		names->slots = n_old;
		return ctx_no_memory(names->ctx);
	}
	for (size_t i = 0; i < n_old; i++)
		if (old[i].n)
			names->found[frame_slot_of(names, old[i].file, old[i].address)] = old[i];
	free(old);
	return 0;
}

/* Keep a copy of FRAMES[0..N) in the free slot SLOT. */
static int keep_frames(struct frame_names *names, size_t slot, const struct walked_file *file,
		       uint64_t address, const struct named_frame *frames, size_t n)
{
	struct found_frame *found = &names->found[slot];

	found->frames = calloc(n, sizeof(*frames));
	if (!found->frames)
		return ctx_no_memory(names->ctx);
	memcpy(found->frames, frames, n * sizeof(*frames));
	found->file = file;
	found->address = address;
	found->n = n;
	names->n_found++;
	return 0;
}

/* Name ADDRESS, which is in the file of PLACE and was not named before. Keep its frames in SLOT. */
static int name_new(struct frame_names *names, const struct walked_place *place,
		    enum frame_place what, size_t slot, uint64_t address)
{
	struct named_frame named[MAX_INLINED] = { 0 };
	size_t n = 1;
	int err = 0;

	if (what == FRAME_DEBUGINFO)
		err = name_debuginfo(names, place, named, &n);
	else
		err = name_in_file(names, place, what == FRAME_EXACT, named, &n);
	return err ? err : keep_frames(names, slot, place->file, address, named, n);
}

static int find_named(struct frame_names *names, const struct walked_place *place,
		      enum frame_place what, uint64_t address, const struct named_frame **frames,
		      size_t *n)
{
	size_t slot;
	int err = place->file ? make_room_for_frame(names) : 0;

	*frames = &unknown_frame;
	*n = 1;
	if (err || !place->file)
		return err;
	slot = frame_slot_of(names, place->file, address);
	if (!names->found[slot].n && names->n_found == MAX_FOUND) {
		*frames = &other_frame;
		return 0;
	}
	if (!names->found[slot].n)
		err = name_new(names, place, what, slot, address);
	*frames = names->found[slot].frames;
	*n = names->found[slot].n;
	return err;
}

int frame_names_find(struct frame_names *names, uint64_t frame, const struct named_frame **frames,
		     size_t *n)
{
	struct walked_place place = { 0 };
	const bool is_known = stack_walker_locate(names->walker, frame, &place);
	const uint64_t address = is_known ? place.va | (frame & WALK_EXACT) : frame;

	if (!is_known)
		place.file = NULL;
	return find_named(names, &place, frame & WALK_EXACT ? FRAME_EXACT : FRAME_RETURN, address,
			  frames, n);
}

int frame_names_find_place(struct frame_names *names, const struct walked_place *place,
			   enum frame_place what, const struct named_frame **frames, size_t *n)
{
	return find_named(names, place, what,
			  what == FRAME_EXACT ? place->va | WALK_EXACT : place->va, frames, n);
}

int frame_names_find_kernel(struct frame_names *names, uint64_t address,
			    const struct named_frame **frame)
{
	struct named_frame named = { .kind = FRAME_KERNEL };
	size_t slot;
	int err = make_room_for_frame(names);

	if (!err && !names->kernel)
		err = kernel_symbols_read(names->ctx, &names->kernel);
	if (err)
		return err;
	slot = frame_slot_of(names, NULL, address);
	if (!names->found[slot].n) {
		named.function = kernel_symbols_find(names->kernel, address);
		if (!named.function)
			named.function = "[kernel]";
		err = keep_frames(names, slot, NULL, address, &named, 1);
		if (err)
			return err;
	}
	*frame = names->found[slot].frames;
	return 0;
}

#define TRUNCATED(why)                                                                             \
	{                                                                                          \
		.function = "[truncated: " why "]", .kind = FRAME_TRUNCATED                        \
	}

const struct stack_walker *frame_names_walker(const struct frame_names *names)
{
	return names->walker;
}

const struct named_frame *frame_names_of_end(enum walk_end end)
{
	static const struct named_frame ends[WALK_ENDS] = {
		[WALK_COMPLETE] = TRUNCATED("nothing is missing"),
		[WALK_TOO_DEEP] = TRUNCATED("deeper than 1024 frames"),
		[WALK_NO_MAPPING] = TRUNCATED("code of no file"),
		[WALK_NEW_FILE] = TRUNCATED("a file that has just been loaded"),
		[WALK_NO_RULE] = TRUNCATED("no unwind rule"),
		[WALK_UNREADABLE] = TRUNCATED("the stack cannot be read"),
		[WALK_NO_REGISTER] = TRUNCATED("a register is not known"),
		[WALK_NO_PROGRESS] = TRUNCATED("the frames are in no order"),
		[WALK_BUSY] = TRUNCATED("too many walks at one time"),
		[WALK_FULL] = TRUNCATED("more than 512 mappings of code"),
	};

	return &ends[end < WALK_ENDS ? end : WALK_NO_RULE];
}

/* ---- open and close ------------------------------------------------------------------------- */

int frame_names_open(struct ocp_ctx *ctx, const struct stack_walker *walker,
		     struct frame_names **out)
{
	struct frame_names *names = calloc(1, sizeof(*names));

	*out = names;
	if (!names)
		return ctx_no_memory(ctx);
	names->ctx = ctx;
	names->walker = walker;
	return 0;
}

void frame_names_close(struct frame_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->slots; i++)
		free(names->found[i].frames);
	for (size_t i = 0; i < names->n_texts; i++)
		free(names->texts[i]);
	for (size_t i = 0; i < names->n_files; i++) {
		free(names->files[i].extents);
		free(names->files[i].by_debuginfo);
		functions_free(names->files[i].functions);
		frametable_free(names->files[i].table);
		address_lines_close(names->files[i].lines);
		debug_file_close(names->files[i].debug);
	}
	kernel_symbols_free(names->kernel);
	free(names->found);
	free(names->texts);
	free(names->files);
	free(names);
}
