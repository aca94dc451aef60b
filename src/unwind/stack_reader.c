// SPDX-License-Identifier: MIT
#include "unwind/stack_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Pages of the memory of a process. A stack of 1024 frames seldom has more than 64 KiB. */
enum { PAGE_BYTES = 4096, PAGES = 16 };

struct page_copy {
	uint64_t at;
	uint8_t bytes[PAGE_BYTES];
};

/* The rule of a place in a file: places on stacks repeat, and a search takes longer than a step. */
struct cached_rule {
	uint64_t place; /* a frame without WALK_EXACT; 0: the entry is unused */
	const struct walk_rule *rule;
};

struct stack_reader {
	struct walk_scratch scratch; /* the first member: see read_walked() */
	struct stack_walker *walker;
	const struct memory *memory;
	/* Copies of pages of `memory`. They are valid for one walk. */
	struct page_copy *pages;
	size_t n_pages;		   /* how many of `pages` are in use */
	size_t next;		   /* the page that the next copy replaces */
	struct cached_rule *cache; /* WALK_CACHE entries */
	uint64_t *pointers;	   /* see stack_reader_pointers() */
};

/* ---- memory --------------------------------------------------------------------------------- */

/* Return the copy of the page at AT, or NULL if the page cannot be read. */
static const struct page_copy *find_page(struct stack_reader *reader, uint64_t at)
{
	struct page_copy *page;

	for (size_t i = 0; i < reader->n_pages; i++)
		if (reader->pages[i].at == at)
			return &reader->pages[i];
	page = &reader->pages[reader->next];
	page->at = 1; /* no page, if the read fails */
	if (reader->n_pages == reader->next)
		reader->n_pages++;
	reader->next = (reader->next + 1) % PAGES;
	if (!memory_try_read(reader->memory, at, page->bytes, sizeof(page->bytes)))
		return NULL;
	page->at = at;
	return page;
}

/* Copy BYTES bytes at AT of the process to TO. Return nonzero if they cannot be read. */
static int read_walked(struct walk_scratch *scratch, void *to, size_t bytes, uint64_t at)
{
	struct stack_reader *reader = (struct stack_reader *)scratch;
	uint8_t *next = to;

	while (bytes) {
		const uint64_t off = at % PAGE_BYTES;
		const size_t part = bytes < PAGE_BYTES - off ? bytes : PAGE_BYTES - off;
		const struct page_copy *page = find_page(reader, at - off);

		if (!page)
			return -EFAULT;
		memcpy(next, page->bytes + off, part);
		next += part;
		at += part;
		bytes -= part;
	}
	return 0;
}

/* ---- the walk ------------------------------------------------------------------------------- */

#define WALK_READ(s, to, bytes, at) read_walked(s, to, bytes, at)
#undef __always_inline
#define __always_inline inline
#include "walk_frame.bpf.h"

/* Return the mapping that holds ADDRESS, or NULL. */
static const struct walk_mapping *find_code(const struct walk_process *image, uint64_t address)
{
	uint32_t low = 0, high = image->n;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (image->mappings[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < image->mappings[low - 1].end ? &image->mappings[low - 1] : NULL;
}

/* The rule of a place never changes, so cached rules stay valid. */
static const struct walk_rule *rule_at(struct stack_reader *reader, uint32_t table, uint32_t va)
{
	const uint64_t place = walk_frame_in_file(table, va);
	struct cached_rule *cached = &reader->cache[hash_word(HASH_START, place) % WALK_CACHE];

	if (cached->place != place) {
		cached->place = place;
		cached->rule = stack_walker_rule(reader->walker, table, va);
	}
	return cached->rule;
}

/* Return true if RULE finds a register of the caller by rbp, whose value is unknown. */
static bool needs_lost_rbp(const struct walk_scratch *s, const struct walk_rule *rule)
{
	bool uses_rbp = rule->rip_at == WALK_AT_RBP;

	for (uint32_t i = 0; i < WALK_SAVED; i++)
		uses_rbp |= rule->at[i] == WALK_AT_RBP;
	return uses_rbp && (s->lost >> WALK_RBP & 1);
}

/*
 * Add the current frame to the stack, and step to its caller. Returns WALK_COMPLETE if there is a
 * caller; otherwise sets *IS_LAST. The result is the reason why the stack ends, an enum walk_end.
 */
static uint32_t step_to_caller(struct stack_reader *reader, struct walk_process *image,
			       bool *is_last)
{
	struct walk_scratch *s = &reader->scratch;
	const uint64_t rip = s->regs[WALK_RIP], inside = rip - (s->is_caller ? 1 : 0);
	const struct walk_mapping *mapping = find_code(image, inside);
	const struct walk_rule *rule = NULL;
	uint64_t va;
	bool is_in_file;

	*is_last = true;
	if (!mapping) {
		image->n_unmapped++;
		return image->n == WALK_MAPPINGS ? WALK_FULL : WALK_NO_MAPPING;
	}
	if (s->stack.n == WALK_MAX_DEPTH)
		return WALK_TOO_DEEP;
	va = rip - mapping->bias;
	is_in_file = mapping->table != WALK_NO_TABLE && !(va >> 32);
	reader->pointers[s->stack.n] = s->regs[WALK_RSP];
	s->stack.frames[s->stack.n++] =
		(is_in_file ? walk_frame_in_file(mapping->table, (uint32_t)va) : rip) |
		(s->is_caller ? 0 : WALK_EXACT);
	if (is_in_file)
		rule = rule_at(reader, mapping->table, (uint32_t)(inside - mapping->bias));
	if (!rule)
		return WALK_NO_RULE;
	if (rule->flags & WALK_OUTERMOST)
		return WALK_COMPLETE;
	if (needs_lost_rbp(s, rule))
		return WALK_NO_REGISTER;
	*is_last = false;
	return leave_frame_by(s, rule);
}

/* LOST: as in struct walk_scratch. */
static void begin_at(struct walk_scratch *s, const struct user_regs_struct *regs, uint32_t lost)
{
	const uint64_t first[WALK_REGISTERS] = {
		[WALK_RBX] = regs->rbx, [WALK_RBP] = regs->rbp, [WALK_R12] = regs->r12,
		[WALK_R13] = regs->r13, [WALK_R14] = regs->r14, [WALK_R15] = regs->r15,
		[WALK_RSP] = regs->rsp, [WALK_RIP] = regs->rip,
	};

	memcpy(s->regs, first, sizeof(first));
	s->is_caller = 0;
	s->lost = lost;
	s->calls_back = 0;
	s->roots = 0;
	s->parent = 0;
	s->window_at = 0;
	s->stack.n = 0;
	s->stack.n_kernel = 0;
}

/* Walk the stack that begins at the registers in reader->scratch. */
static const struct walk_walked *walk_from_here(struct stack_reader *reader,
						const struct memory *memory, uint32_t tgid)
{
	struct walk_process *image = stack_walker_image(reader->walker, tgid);
	struct walk_walked *stack = &reader->scratch.stack;
	bool is_last = !image;

	reader->memory = memory;
	reader->n_pages = reader->next = 0;
	stack->end = image ? WALK_COMPLETE : WALK_NO_MAPPING;
	while (!is_last && stack->end == WALK_COMPLETE)
		stack->end = step_to_caller(reader, image, &is_last);
	return stack;
}

const struct walk_walked *stack_reader_walk(struct stack_reader *reader,
					    const struct memory *memory, uint32_t tgid,
					    const struct user_regs_struct *regs)
{
	begin_at(&reader->scratch, regs, 0);
	return walk_from_here(reader, memory, tgid);
}

const struct walk_walked *stack_reader_walk_waiting(struct stack_reader *reader,
						    const struct memory *memory, uint32_t tgid,
						    uint64_t rsp, uint64_t rip)
{
	const struct user_regs_struct known = { .rsp = rsp, .rip = rip };

	begin_at(&reader->scratch, &known, (1U << WALK_SAVED) - 1);
	return walk_from_here(reader, memory, tgid);
}

const uint64_t *stack_reader_pointers(const struct stack_reader *reader)
{
	return reader->pointers;
}

/* ---- open and close ------------------------------------------------------------------------- */

int stack_reader_open(struct ocp_ctx *ctx, struct stack_walker *walker, struct stack_reader **out)
{
	struct stack_reader *reader = calloc(1, sizeof(*reader));

	*out = NULL;
	if (reader)
		reader->pages = calloc(PAGES, sizeof(*reader->pages));
	if (reader)
		reader->cache = calloc(WALK_CACHE, sizeof(*reader->cache));
	if (reader)
		reader->pointers = calloc(WALK_MAX_DEPTH, sizeof(*reader->pointers));
	if (!reader || !reader->pages || !reader->cache || !reader->pointers) {
		stack_reader_close(reader);
		return ctx_no_memory(ctx);
	}
	reader->walker = walker;
	*out = reader;
	return 0;
}

void stack_reader_close(struct stack_reader *reader)
{
	if (!reader)
		return;
	free(reader->pages);
	free(reader->cache);
	free(reader->pointers);
	free(reader);
}
