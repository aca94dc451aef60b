// SPDX-License-Identifier: MIT
/*
 * A frame table (OCaml's runtime/caml/stack.h, asmcomp/emitaux.ml, 4.12 to 5.3):
 *
 *	i64 number of descriptors, each of them aligned to 8:
 *	  u64 return address
 *	  u16 size of the frame; bit 0: has debug information, bit 1: has lengths of allocations
 *	  u16 n, u16 live[n]
 *	  u8 m, u8 lengths[m]		with bit 1
 *	  i32 debug information		with bit 0; with bit 1 too, m of them; aligned to 4
 *
 * Debug information is at an offset from its own place; 0: none. It is a list, of which the last entry
 * is of the function itself and those before are of functions inlined into it:
 *
 *	u32 low, u32 high		bit 0 of low: another entry follows
 *
 * Bits 2 to 25 of low are the offset, from the entry, of a name, which begins with the offset of the
 * file's name, from there.
 *
 * Return addresses are relocated words in many files, and are not needed here: all functions of a unit are
 * of one source file. (A #line directive can name others; such a unit is left out.)
 */
#include "code/unit_files.h"

#include <stdlib.h>
#include <string.h>

#include "code/units.h"

enum {
	MAX_SEGMENT_BYTES = 1 << 28,
	MAX_INLINED = 1000, /* frames of one place */
	MAX_PATH_BYTES = 4096,
	HAS_DEBUG = 1,
	HAS_LENGTHS = 2,
};

struct unit_files {
	const struct units *units;
	char **files; /* by unit */
};

/* The bytes of a segment, and where in them we are. */
struct table {
	const uint8_t *bytes;
	size_t n, at;
	bool is_damaged;
};

static uint64_t get(struct table *table, size_t bytes)
{
	uint64_t value = 0;

	if (table->at > table->n || bytes > table->n - table->at) {
		table->is_damaged = true;
		return 0;
	}
	memcpy(&value, table->bytes + table->at, bytes);
	table->at += bytes;
	return value;
}

/* The segment begins at a multiple of 8. */
static void align(struct table *table, size_t to)
{
	table->at = (table->at + to - 1) & ~(to - 1);
}

/* Where an offset from AT leads. */
static size_t follow(struct table *table, size_t at, int64_t offset)
{
	const int64_t to = (int64_t)at + offset;

	if (to < 0 || (uint64_t)to >= table->n)
		table->is_damaged = true;
	return table->is_damaged ? 0 : (size_t)to;
}

static uint32_t get_u32_at(struct table *table, size_t at)
{
	struct table there = { table->bytes, table->n, at, table->is_damaged };
	const uint32_t value = (uint32_t)get(&there, 4);

	table->is_damaged = there.is_damaged;
	return value;
}

/* The file that the debug information at AT names for the function itself; NULL: damaged. */
static const char *file_of(struct table *table, size_t at)
{
	uint32_t low = get_u32_at(table, at);
	size_t name;

	for (int i = 0; (low & 1) && i < MAX_INLINED && !table->is_damaged; i++) {
		at += 8;
		low = get_u32_at(table, at);
	}
	name = follow(table, at, low & 0x3fffffc);
	name = follow(table, name, (int32_t)get_u32_at(table, name));
	if (table->is_damaged || (low & 1) ||
	    strnlen((const char *)table->bytes + name, table->n - name) >=
		    (table->n - name < MAX_PATH_BYTES ? table->n - name : MAX_PATH_BYTES)) {
		table->is_damaged = true;
		return NULL;
	}
	return (const char *)table->bytes + name;
}

/* Read the debug information of N places. Returns false if the unit has more than one file. */
static bool read_debug(struct table *table, size_t n, const char **file)
{
	align(table, 4);
	for (size_t i = 0; i < n && !table->is_damaged; i++) {
		const size_t at = table->at;
		const int32_t offset = (int32_t)get(table, 4);
		const char *its_file;

		if (!offset)
			continue;
		its_file = file_of(table, follow(table, at, offset));
		if (table->is_damaged || (*file && strcmp(*file, its_file) != 0))
			return false;
		*file = its_file;
	}
	return true;
}

/* Read one descriptor. Returns false if the unit has more than one file. */
static bool read_descriptor(struct table *table, const char **file)
{
	size_t n_places = 1;
	uint64_t size;

	get(table, 8);
	size = get(table, 2);
	table->at += 2 * get(table, 2);
	if (size == 0xffff) { /* the bottom of a stack of OCaml, in assembler code */
		align(table, 8);
		return true;
	}
	if (size & HAS_LENGTHS) {
		n_places = get(table, 1);
		table->at += n_places;
	}
	if ((size & HAS_DEBUG) && !read_debug(table, n_places, file))
		return false;
	align(table, 8);
	return true;
}

/* The file of the unit whose table is at offset AT; NULL: unknown. */
static const char *read_unit(const uint8_t *bytes, size_t n, size_t at)
{
	struct table table = { .bytes = bytes, .n = n, .at = at };
	const uint64_t n_descriptors = get(&table, 8);
	const char *file = NULL;

	for (uint64_t i = 0; i < n_descriptors && !table.is_damaged; i++)
		if (!read_descriptor(&table, &file))
			return NULL;
	return table.is_damaged ? NULL : file;
}

/* A name may be written to a terminal. */
static char *copy_name(const char *name)
{
	char *copy = *name ? strdup(name) : NULL;

	for (unsigned char *c = (unsigned char *)copy; c && *c; c++)
		if (*c < ' ' || *c >= 0x7f)
			*c = '?';
	return copy;
}

static int read_segment(struct ocp_ctx *ctx, struct elf_file *elf,
			const struct elf_segment *segment, struct unit_files *files)
{
	uint8_t *bytes = malloc(segment->file_bytes);
	int err = bytes ? 0 : ctx_no_memory(ctx);

	if (!err)
		err = elf_file_read(elf, segment->off, bytes, segment->file_bytes);
	for (size_t i = 0; !err && i < files->units->n; i++) {
		const uint64_t va = files->units->units[i].frametable_va;
		const char *file;

		if (va < segment->va || va - segment->va >= segment->file_bytes || va % 8 != 0 ||
		    files->files[i])
			continue;
		file = read_unit(bytes, segment->file_bytes, va - segment->va);
		if (file)
			files->files[i] = copy_name(file);
	}
	free(bytes);
	return err;
}

int unit_files_read(struct ocp_ctx *ctx, struct elf_file *elf, const struct functions *functions,
		    struct unit_files **out)
{
	struct unit_files *files = calloc(1, sizeof(*files));
	const struct elf_segment *segments;
	size_t n;
	int err = 0;

	*out = files;
	if (!files)
		return ctx_no_memory(ctx);
	files->units = functions_units(functions);
	files->files = calloc(files->units->n + 1, sizeof(*files->files));
	if (!files->files)
		err = ctx_no_memory(ctx);
	segments = elf_file_segments(elf, &n);
	for (size_t i = 0; !err && i < n; i++)
		if (segments[i].writable && (segments[i].va & 7) == 0 && segments[i].file_bytes &&
		    segments[i].file_bytes <= MAX_SEGMENT_BYTES)
			err = read_segment(ctx, elf, &segments[i], files);
	if (err) {
		unit_files_free(files);
		*out = NULL;
	}
	return err;
}

void unit_files_free(struct unit_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; files->files && i < files->units->n; i++)
		free(files->files[i]);
	free(files->files);
	free(files);
}

const char *unit_files_of(const struct unit_files *files, const struct function *function)
{
	const struct unit *unit =
		function->symbol ? units_of_symbol(files->units, function->symbol) : NULL;

	return unit ? files->files[unit - files->units->units] : NULL;
}
