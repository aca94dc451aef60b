// SPDX-License-Identifier: MIT
#include "memprof/heap_sites.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/search.h"
#include "elf/elf_file.h"
#include "process/mapped_files.h"
#include "unwind/own_frames.h"
#include "look/maps.h"

/* ---- mapped files ---------------------------------------------------------------------------- */

enum { REREAD_NS = 1000 * 1000 * 1000 };

struct mapped_code {
	struct walked_file file;
	char *path;
	unsigned int dev_major, dev_minor;
	uint64_t inode;
	uint64_t bias;
	uint64_t start, end; /* the range that contains all mappings of this file */
};

struct code_map {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct mapped_code **files;
	size_t n;
	int64_t read_ns;
};

static void free_file(struct mapped_code *file)
{
	elf_file_close(file->file.elf);
	if (file->file.fd >= 0)
		close(file->file.fd);
	free(file->path);
	free(file);
}

static struct mapped_code *find_mapped_code(const struct code_map *map, const struct mapping *m)
{
	for (size_t i = 0; i < map->n; i++) {
		struct mapped_code *file = map->files[i];

		if (file->inode == m->inode && file->dev_major == m->dev_major &&
		    file->dev_minor == m->dev_minor)
			return file;
	}
	return NULL;
}

/* Open the file that M maps. Return NULL if it cannot be read. */
static struct mapped_code *open_mapped_code(struct code_map *map, const struct mapping *m)
{
	struct mapped_code *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	*file = (struct mapped_code){ .file.fd = maps_open_file(map->pid, m),
				      .path = strdup(m->path),
				      .dev_major = m->dev_major,
				      .dev_minor = m->dev_minor,
				      .inode = m->inode,
				      .start = m->start,
				      .end = m->end };
	file->file.path = file->path;
	if (file->file.fd < 0 || !file->path ||
	    elf_file_open(map->ctx, file->file.fd, file->path, &file->file.elf) ||
	    !mapped_files_bias(file->file.elf, m, &file->bias)) {
		free_file(file);
		return NULL;
	}
	return file;
}

static int add_code(struct code_map *map, const struct mapping *m)
{
	struct mapped_code *file, **new;

	if (!m->executable || !m->inode || find_mapped_code(map, m))
		return 0;
	file = open_mapped_code(map, m);
	if (!file)
		return 0;
	new = array_add(map->files, map->n);
	if (!new) {
		free_file(file);
		return ctx_no_memory(map->ctx);
	}
	*new = file;
	return 0;
}

static int read_mappings(struct code_map *map)
{
	struct maps maps;
	int err = maps_read(map->ctx, map->pid, &maps);

	map->read_ns = clock_ns(CLOCK_MONOTONIC);
	if (err)
		return err;
	for (size_t i = 0; i < maps.n && !err; i++)
		err = add_code(map, &maps.mappings[i]);
	for (size_t i = 0; i < maps.n; i++) {
		const struct mapping *m = &maps.mappings[i];
		struct mapped_code *file = m->inode ? find_mapped_code(map, m) : NULL;

		if (file && m->start < file->start)
			file->start = m->start;
		if (file && m->end > file->end)
			file->end = m->end;
	}
	maps_free(&maps);
	return err;
}

static bool find_mapped_place(const struct code_map *map, uint64_t address,
			      struct walked_place *place)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct mapped_code *file = map->files[i];

		if (address >= file->start && address < file->end) {
			*place = (struct walked_place){ &file->file, address - file->bias };
			return true;
		}
	}
	return false;
}

/*
 * Set *PLACE to the place in a file that ADDRESS, an address of code or data, corresponds to.
 * Return false if this place is unknown. If no known mapping contains ADDRESS, read the mappings
 * again, but at most once a second.
 */
static bool code_map_find(struct code_map *map, uint64_t address, struct walked_place *place)
{
	if (find_mapped_place(map, address, place))
		return true;
	if (clock_ns(CLOCK_MONOTONIC) < map->read_ns + REREAD_NS)
		return false;
	return read_mappings(map) == 0 && find_mapped_place(map, address, place);
}

struct heap_names {
	struct ocp_ctx *ctx;
	struct code_map map;
	struct frame_names *names;
	/* the frames that heap_names_of() has returned most recently */
	const struct named_frame **frames;
	size_t n;
};

/*
 * ---- names of frames --------------------------------------------------------------------------
 */

/*
 * The frame for an empty call stack: C code allocated the block, and no OCaml code had called this
 * C code.
 */
static const struct named_frame no_frame = { .function = "[no OCaml code]", .kind = FRAME_UNKNOWN };

int heap_names_open(struct ocp_ctx *ctx, pid_t pid, struct heap_names **out)
{
	struct heap_names *names = calloc(1, sizeof(*names));
	int err;

	*out = names;
	if (!names)
		return ctx_no_memory(ctx);
	names->ctx = ctx;
	names->map.ctx = ctx;
	names->map.pid = pid;
	err = read_mappings(&names->map);
	if (!err)
		err = frame_names_open(ctx, NULL, &names->names);
	if (err) {
		heap_names_close(names);
		*out = NULL;
	}
	return err;
}

void heap_names_close(struct heap_names *names)
{
	if (!names)
		return;
	frame_names_close(names->names);
	for (size_t i = 0; i < names->map.n; i++)
		free_file(names->map.files[i]);
	free(names->map.files);
	free(names->frames);
	free(names);
}

static int append_named_frame(struct heap_names *names, const struct named_frame *frame)
{
	const struct named_frame **new = array_add(names->frames, names->n);

	if (!new)
		return ctx_no_memory(names->ctx);
	*new = frame;
	return 0;
}

static int push_frame(struct heap_names *names, uint64_t frame)
{
	const uint64_t address = frame & ~MEMPROF_DEBUGINFO;
	struct walked_place place = { 0 };
	const struct named_frame *frames;
	size_t n;
	int err;

	if (!code_map_find(&names->map, address, &place))
		place = (struct walked_place){ .va = address };
	err = frame_names_find_place(names->names, &place,
				     frame & MEMPROF_DEBUGINFO ? FRAME_DEBUGINFO : FRAME_RETURN,
				     &frames, &n);
	for (size_t i = err ? 0 : n; i-- > 0 && !err;)
		err = append_named_frame(names, &frames[i]);
	return err;
}

int heap_names_of(struct heap_names *names, const uint64_t *stack, uint32_t depth,
		  const struct named_frame *const **frames, size_t *n)
{
	int err = 0;

	names->n = 0;
	for (uint32_t i = depth; i-- > 0 && !err;)
		err = push_frame(names, stack[i]);
	if (!err && !names->n)
		err = append_named_frame(names, &no_frame);
	*frames = names->frames;
	*n = names->n;
	return err;
}

/* ---- by sites -------------------------------------------------------------------------------- */

static int compare_frames(const struct named_frame *a, const struct named_frame *b)
{
	int order = strcmp(a->function, b->function);

	if (!order)
		order = strcmp(a->file ? a->file : "", b->file ? b->file : "");
	return order ? order : COMPARE(a->line, b->line);
}

static int by_place(const void *a, const void *b)
{
	const struct heap_site *x = a, *y = b;
	int order = compare_frames(x->frame, y->frame);

	return order ? order
		     : strcmp(x->via ? x->via->function : "", y->via ? y->via->function : "");
}

static int by_number(uint64_t x, uint64_t y, const struct heap_site *a, const struct heap_site *b)
{
	return x == y ? by_place(a, b) : x > y ? -1 : 1;
}

static int by_samples(const void *a, const void *b)
{
	const struct heap_site *x = a, *y = b;

	return by_number(x->sum.samples, y->sum.samples, x, y);
}

static int by_live_samples(const void *a, const void *b)
{
	const struct heap_site *x = a, *y = b;

	return x->sum.live_samples == y->sum.live_samples
		       ? by_samples(a, b)
		       : by_number(x->sum.live_samples, y->sum.live_samples, x, y);
}

static void add_sums(struct heap_stack *to, const struct heap_stack *from)
{
	to->samples += from->samples;
	to->live_samples += from->live_samples;
	to->blocks += from->blocks;
	to->live_blocks += from->live_blocks;
	to->objects += from->objects;
	to->live_objects += from->live_objects;
	to->major_samples += from->major_samples;
	to->promoted_samples += from->promoted_samples;
	to->minor_deaths += from->minor_deaths;
	to->life_ns += from->life_ns;
	for (int i = 0; i < LIFE_CLASSES; i++)
		to->major_deaths[i] += from->major_deaths[i];
}

void heap_sites_merge(struct heap_site *list, size_t *n, bool by_live)
{
	size_t merged = 0;

	if (!*n)
		return;
	qsort(list, *n, sizeof(*list), by_place);
	for (size_t i = 0; i < *n; i++)
		if (merged && by_place(&list[merged - 1], &list[i]) == 0)
			add_sums(&list[merged - 1].sum, &list[i].sum);
		else
			list[merged++] = list[i];
	*n = merged;
	qsort(list, merged, sizeof(*list), by_live ? by_live_samples : by_samples);
}

/*
 * Set `frame` and `via` of SITE for the call stack of site->sum. Names only the frames up to the
 * innermost own function.
 */
static int find_heap_site(struct heap_names *names, bool by_leaf, struct heap_site *site)
{
	const struct heap_stack *stack = &site->sum;
	const struct named_frame *const *frames;
	const struct named_frame *leaf = NULL;
	size_t n, own;
	uint32_t i = 0;

	do {
		/* The innermost frame is the first element of stack->frames. */
		int err = heap_names_of(names, stack->frames + i, stack->depth > 0, &frames, &n);

		if (err)
			return err;
		if (!leaf)
			leaf = frames[n - 1];
		own = by_leaf ? n : find_own_function(frames, n);
	} while (!by_leaf && own == n && ++i < stack->depth);
	site->frame = own < n ? frames[own] : leaf;
	site->via = site->frame != leaf ? leaf : NULL;
	return 0;
}

int heap_sites(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
	       struct heap_sites_order order, struct heap_site **sites, size_t *n)
{
	size_t n_stacks;
	const struct heap_stack *stacks = heap_stacks(heap, &n_stacks);
	struct heap_site *list = calloc(n_stacks + 1, sizeof(*list));

	*sites = list;
	*n = 0;
	if (!list)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n_stacks; i++) {
		int err;

		list[i] = (struct heap_site){ .sum = stacks[i] };
		err = find_heap_site(names, order.by_leaf, &list[i]);
		if (err) {
			free(list);
			return err;
		}
	}
	*n = n_stacks;
	heap_sites_merge(list, n, order.by_live);
	return 0;
}
