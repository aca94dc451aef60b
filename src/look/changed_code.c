// SPDX-License-Identifier: MIT
/*
 * The code of each function is read from the file and from the memory of the process, and compared.
 * Functions lie close together, so one read covers several of them. Nearly always the code in the
 * file and the code in memory are equal, or differ only in int3s.
 */
#include "look/changed_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "elf/elf_file.h"
#include "look/maps.h"
#include "look/memory.h"

enum {
	/* the most bytes that one read covers, unless a single function is larger */
	PIECE_BYTES = 1 << 20,
	GAP_BYTES = 4096, /* the largest gap between functions that are read at once */
	CALL = 0xe8,
	CALL_BYTES = 5,
};

/* The function that contains a site. */
struct function_range {
	uint64_t va, bytes;
	size_t site;
};

/* The byte of a site that changes when the probe of the site is switched. */
struct switched {
	uint64_t va;
	const struct site *site;
};

struct compare {
	struct ocp_ctx *ctx;
	pid_t pid;
	const struct ocp_program *prog;
	uint64_t bias;
	struct memory *memory;
	struct function_range *ranges; /* the functions that contain the sites, sorted by va */
	size_t n_ranges;
	struct switched *switched; /* sorted by va; NULL: not listed yet */
	size_t n_switched;
	struct maps maps; /* the mappings of the process; empty: not read yet */
	uint8_t *file_bytes, *memory_bytes;
	size_t room;
};

/* ---- differences that are allowed ----------------------------------------------------------- */

static int compare_switched(const void *a, const void *b)
{
	const struct switched *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

static int find_switched(struct compare *c)
{
	const struct ocp_program *prog = c->prog;

	c->switched = calloc(prog->n_sites + 1, sizeof(*c->switched));
	if (!c->switched)
		return ctx_no_memory(c->ctx);
	for (size_t i = 0; i < prog->n_sites; i++)
		if (prog->sites[i].has_code)
			c->switched[c->n_switched++] =
				(struct switched){ prog->sites[i].va + prog->sites[i].opcode_at,
						   &prog->sites[i] };
	qsort(c->switched, c->n_switched, sizeof(*c->switched), compare_switched);
	return 0;
}

/* Return true if VA is the opcode of a probe's site, and BYTE is the opcode for on or off. */
static bool is_switched(const struct compare *c, uint64_t va, uint8_t byte)
{
	const struct switched key = { .va = va };
	const struct switched *found =
		bsearch(&key, c->switched, c->n_switched, sizeof(key), compare_switched);

	return found && (byte == found->site->on_opcode || byte == found->site->off_opcode);
}

/*
 * Return true if memory has, at VA, a call of the kernel's trampoline for uprobes where the file
 * has a nop.
 */
static bool is_trampoline_call(const struct compare *c, uint64_t va, const uint8_t *in_file,
			       const uint8_t *in_memory, size_t n)
{
	static const uint8_t nop[CALL_BYTES] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	const struct mapping *m;
	int32_t displacement;

	if (n < CALL_BYTES || in_memory[0] != CALL || memcmp(in_file, nop, sizeof(nop)) != 0)
		return false;
	memcpy(&displacement, in_memory + 1, sizeof(displacement));
	m = maps_find(&c->maps, c->bias + va + CALL_BYTES + (uint64_t)(int64_t)displacement);
	return m && strcmp(m->path, "[uprobes-trampoline]") == 0;
}

static bool is_changed(const struct compare *c, const struct function_range *range,
		       const uint8_t *in_file, const uint8_t *in_memory)
{
	for (uint64_t i = 0; i < range->bytes; i++) {
		if (in_memory[i] == in_file[i] || in_memory[i] == SITE_INT3 ||
		    is_switched(c, range->va + i, in_memory[i]))
			continue;
		if (!is_trampoline_call(c, range->va + i, in_file + i, in_memory + i,
					range->bytes - i))
			return true;
		i += CALL_BYTES - 1;
	}
	return false;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/*
 * List the switched bytes and read the maps, unless this was done before. The checks for allowed
 * differences need the list and the maps.
 */
static int learn_allowed(struct compare *c)
{
	int err = 0;

	if (c->switched)
		return 0;
	err = find_switched(c);
	return err ? err : maps_read(c->ctx, c->pid, &c->maps);
}

static int make_buffers(struct compare *c, size_t bytes)
{
	if (bytes <= c->room)
		return 0;
	free(c->file_bytes);
	free(c->memory_bytes);
	c->file_bytes = malloc(bytes);
	c->memory_bytes = malloc(bytes);
	c->room = c->file_bytes && c->memory_bytes ? bytes : 0;
	return c->room ? 0 : ctx_no_memory(c->ctx);
}

/* Read BYTES bytes at VA both from the file and from memory. */
static int read_both(struct compare *c, uint64_t va, size_t bytes)
{
	const struct iovec remote = { (void *)(uintptr_t)(c->bias + va), bytes };
	uint64_t off;
	int err = make_buffers(c, bytes);

	if (!err && !elf_file_va_to_off(c->prog->elf, va, &off))
		err = ctx_error(c->ctx, -EBADMSG, "%s: a function is not in the file",
				elf_file_name(c->prog->elf));
	if (!err)
		err = elf_file_read(c->prog->elf, off, c->file_bytes, bytes);
	return err ? err : memory_read_in_order(c->memory, &remote, 1, c->memory_bytes, bytes);
}

/*
 * Return how many ranges, from index FIRST on, one read can cover. *BYTES is set to the number of
 * bytes to read.
 */
static size_t ranges_at_once(const struct compare *c, size_t first, size_t *bytes)
{
	const uint64_t start = c->ranges[first].va;
	const struct elf_segment *segment = elf_file_segment_of(c->prog->elf, start, 1);
	uint64_t end = start + c->ranges[first].bytes;
	size_t i = first + 1;

	for (; i < c->n_ranges; i++) {
		const struct function_range *range = &c->ranges[i];
		const uint64_t new_end =
			range->va + range->bytes > end ? range->va + range->bytes : end;

		if (range->va > end + GAP_BYTES || new_end - start > PIECE_BYTES ||
		    elf_file_segment_of(c->prog->elf, range->va, 1) != segment)
			break;
		end = new_end;
	}
	*bytes = end - start;
	return i - first;
}

static int compare_all(struct compare *c, bool *changed, size_t *n)
{
	int err = 0;

	for (size_t first = 0, n_ranges; !err && first < c->n_ranges; first += n_ranges) {
		const uint64_t start = c->ranges[first].va;
		size_t bytes;

		n_ranges = ranges_at_once(c, first, &bytes);
		err = read_both(c, start, bytes);
		if (err || memcmp(c->file_bytes, c->memory_bytes, bytes) == 0)
			continue;
		err = learn_allowed(c);
		for (size_t i = first; !err && i < first + n_ranges; i++) {
			const struct function_range *range = &c->ranges[i];
			const uint64_t at = range->va - start;

			if (!is_changed(c, range, c->file_bytes + at, c->memory_bytes + at))
				continue;
			changed[range->site] = true;
			++*n;
		}
	}
	return err ? err : memory_check_alive(c->memory);
}

/* ---- all ------------------------------------------------------------------------------------ */

static int compare_ranges(const void *a, const void *b)
{
	const struct function_range *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

static int list_ranges(struct compare *c, const struct code_probes *code)
{
	const struct probe_set set = code_probes_set(code);

	c->ranges = calloc(set.n_sites + 1, sizeof(*c->ranges));
	if (!c->ranges)
		return ctx_no_memory(c->ctx);
	c->n_ranges = set.n_sites;
	for (size_t i = 0; i < set.n_sites; i++) {
		struct function_range *range = &c->ranges[i];

		range->site = i;
		code_probes_extent(code, i, &range->va, &range->bytes);
	}
	qsort(c->ranges, c->n_ranges, sizeof(*c->ranges), compare_ranges);
	return 0;
}

int changed_code_find(struct ocp_ctx *ctx, pid_t pid, const struct ocp_program *prog, uint64_t bias,
		      const struct code_probes *code, bool *changed, size_t *n)
{
	struct compare c = { .ctx = ctx, .pid = pid, .prog = prog, .bias = bias };
	int err = memory_open(ctx, pid, &c.memory);

	*n = 0;
	if (!err)
		err = list_ranges(&c, code);
	if (!err)
		err = compare_all(&c, changed, n);
	memory_close(c.memory);
	maps_free(&c.maps);
	free(c.ranges);
	free(c.switched);
	free(c.file_bytes);
	free(c.memory_bytes);
	return err;
}
