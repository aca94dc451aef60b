// SPDX-License-Identifier: MIT
/*
 * Find the arity of each function in its closure in the data of the file. A closure contains a
 * pointer to the function and an info word with the arity (OCaml's runtime/caml/mlvalues.h,
 * "Closinfo"):
 *
 *	arity 1:    function, info
 *	otherwise:  caml_curryN or caml_tuplifyN, info, function
 *
 *	info: arity << 56 | words to the environment << 1 | 1
 *
 * In OxCaml, bit 55 of `info` marks the last function of a set of closures. The names of
 * caml_curryN and caml_tuplifyN have a suffix there if the result is not a value ("_R" and letters)
 * or the last arguments are local ("L" and a number). Without N, the name is that of a function
 * whose arguments are not all values. Their registers differ, so this arity stays unknown.
 *
 * The arity in `info` is -N if the function takes one tuple of N elements. A function has no
 * closure in the data if it is only called directly, or if its closures are made while the program
 * runs.
 *
 * In files with relocations (PIE, libraries) the relocations show which words of the data are
 * pointers to functions; the words themselves may be 0. In other files, each word of the data is
 * compared with the addresses of the functions.
 */
#include "code/arity.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "elf/data_image.h"

enum {
	PIECE_WORDS = 1 << 17,
	WINDOW_BYTES = 1 << 20,
	MAX_POINTERS = 1 << 24,
	MAX_ARITY = 126,
	ARITY_CONTRADICTORY = ARITY_UNKNOWN + 1,
	SHT_RELR_TYPE = 19, /* SHT_RELR is not in every elf.h */
};

/*
 * Limit for the data that is read from each segment, since a sparse file may be huge. The data
 * beyond the limit is ignored.
 */
#define MAX_DATA_BYTES (UINT64_C(1) << 30)

/* A function whose address is searched for in the data. */
struct goal {
	uint64_t va;
	/* the index of the function in `list`; NO_FUNCTION for caml_curryN and caml_tuplifyN */
	uint32_t function;
	int8_t generated; /* N if the function is caml_curryN, -N if it is caml_tuplifyN */
};

#define NO_FUNCTION UINT32_MAX

struct pointer {
	uint64_t place; /* the address of the word */
	uint32_t function;
	int8_t generated;
};

struct arity_reader {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct function *list;
	struct goal *goals;
	size_t n_goals;
	struct pointer *pointers;
	size_t n;
};

/* ---- goals ---------------------------------------------------------------------------------- */

/* Return true if TEXT is a suffix of OxCaml, or empty: "", "_RF", "L1", "_RFL1". */
static bool is_curry_suffix(const char *text)
{
	if (strncmp(text, "_R", 2) == 0)
		text += 1 + strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	else if (*text == 'L' && text[1] >= '0' && text[1] <= '9')
		text++;
	text += strspn(text, "0123456789");
	return !*text;
}

/* Return N for caml_curryN, -N for caml_tuplifyN, 0 for any other SYMBOL. */
static int generated_arity(const char *symbol)
{
	static const char curry[] = "caml_curry", tuplify[] = "caml_tuplify";
	const bool is_curry = strncmp(symbol, curry, strlen(curry)) == 0;
	char *end;
	long n;

	if (!is_curry && strncmp(symbol, tuplify, strlen(tuplify)) != 0)
		return 0;
	symbol += is_curry ? strlen(curry) : strlen(tuplify);
	if (*symbol < '1' || *symbol > '9')
		return 0;
	n = strtol(symbol, &end, 10);
	if (!is_curry_suffix(end) || n < 2 || n > MAX_ARITY)
		return 0;
	return (int)(is_curry ? n : -n);
}

static int list_goals(struct arity_reader *r, size_t n)
{
	r->goals = calloc(n + 1, sizeof(*r->goals));
	if (!r->goals)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < n; i++) {
		struct goal goal = { .va = r->list[i].va, .function = NO_FUNCTION };

		if (r->list[i].language == FUNCTION_OCAML)
			goal.function = (uint32_t)i;
		else
			goal.generated = (int8_t)generated_arity(r->list[i].symbol);
		if (goal.function != NO_FUNCTION || goal.generated)
			r->goals[r->n_goals++] = goal;
	}
	return 0;
}

static const struct goal *goal_at(const struct arity_reader *r, uint64_t va)
{
	const size_t at = SEARCH(i, r->n_goals, r->goals[i].va < va);

	return at < r->n_goals && r->goals[at].va == va ? &r->goals[at] : NULL;
}

/* ---- pointers ------------------------------------------------------------------------------- */

static int add_pointer(struct arity_reader *r, uint64_t place, uint32_t function, int generated)
{
	struct pointer *new;

	if (r->n == MAX_POINTERS)
		return ctx_error(r->ctx, -EBADMSG, "%s: has more than %d pointers to functions",
				 elf_file_name(r->elf), MAX_POINTERS);
	new = array_add(r->pointers, r->n);
	if (!new)
		return ctx_no_memory(r->ctx);
	*new = (struct pointer){ place, function, (int8_t)generated };
	return 0;
}

static int add_if_goal(struct arity_reader *r, uint64_t place, uint64_t va)
{
	const struct goal *goal = goal_at(r, va);

	return goal ? add_pointer(r, place, goal->function, goal->generated) : 0;
}

/*
 * Add the pointer that RELOCATION stores, if this pointer is the address of a goal. In plugins and
 * libraries, the relocation of a pointer to caml_curryN contains the symbol instead of an address,
 * because the program may also define caml_curryN.
 */
static int take_relocation(void *data, const struct relocation *relocation)
{
	struct arity_reader *r = data;
	int generated;

	if (!relocation->symbol)
		return add_if_goal(r, relocation->place, relocation->va);
	generated = relocation->addend ? 0 : generated_arity(relocation->symbol);
	return generated ? add_pointer(r, relocation->place, NO_FUNCTION, generated) : 0;
}

/* Add a pointer for each aligned word of SEGMENT that is the address of a goal. */
static int scan_segment(struct arity_reader *r, const struct elf_segment *segment)
{
	const uint64_t skip = -segment->va & 7;
	uint64_t left = segment->file_bytes > skip ? (segment->file_bytes - skip) / 8 : 0;
	uint64_t at = skip, *words;
	int err = 0;

	if (left > MAX_DATA_BYTES / 8)
		left = MAX_DATA_BYTES / 8;
	words = malloc(PIECE_WORDS * sizeof(*words));
	if (!words)
		return ctx_no_memory(r->ctx);
	while (!err && left) {
		const size_t here = left < PIECE_WORDS ? left : PIECE_WORDS;

		err = elf_file_read(r->elf, segment->off + at, words, here * sizeof(*words));
		for (size_t i = 0; !err && i < here; i++)
			err = add_if_goal(r, segment->va + at + i * 8, words[i]);
		at += here * 8;
		left -= here;
	}
	free(words);
	return err;
}

static int compare_pointer_places(const void *a, const void *b)
{
	const struct pointer *x = a, *y = b;

	return COMPARE(x->place, y->place);
}

static int is_relr(void *data, const struct elf_section *section)
{
	(void)data;
	return section->type == SHT_RELR_TYPE;
}

static int find_pointers(struct arity_reader *r)
{
	const struct elf_segment *segments;
	int err = relocations_each(r->elf, take_relocation, r);
	bool is_sorted = true;
	size_t n;

	/* With compact relocations (RELR), the words themselves contain the pointers. */
	if (!err && (!elf_file_is_relocatable(r->elf) ||
		     elf_file_each_section(r->elf, is_relr, NULL) > 0)) {
		segments = elf_file_segments(r->elf, &n);
		for (size_t i = 0; !err && i < n; i++)
			if (segments[i].writable)
				err = scan_segment(r, &segments[i]);
	}
	for (size_t i = 1; i < r->n && is_sorted; i++)
		is_sorted = r->pointers[i - 1].place <= r->pointers[i].place;
	if (!is_sorted)
		qsort(r->pointers, r->n, sizeof(*r->pointers), compare_pointer_places);
	return err;
}

/* ---- closures ------------------------------------------------------------------------------- */

/* The part of a segment that was read most recently. */
struct segment_window {
	uint64_t va;
	size_t bytes;
	uint8_t *data;
};

/* Read the arity from the info word at VA. Return false if there is no valid info word at VA. */
static bool read_info(struct arity_reader *r, struct segment_window *window, uint64_t va,
		      int *arity)
{
	const struct elf_segment *segment;
	uint64_t info;

	if (va < window->va || va - window->va + sizeof(info) > window->bytes) {
		segment = elf_file_segment_of(r->elf, va, sizeof(info));
		if (!segment || va - segment->va + sizeof(info) > segment->file_bytes)
			return false;
		window->va = va;
		window->bytes = segment->file_bytes - (va - segment->va);
		if (window->bytes > WINDOW_BYTES)
			window->bytes = WINDOW_BYTES;
		if (elf_file_read(r->elf, segment->off + (va - segment->va), window->data,
				  window->bytes)) {
			window->bytes = 0;
			return false;
		}
	}
	memcpy(&info, window->data + (va - window->va), sizeof(info));
	*arity = (int)((int64_t)info >> 56);
	/* A valid info word is odd, and the environment of its closure begins shortly after it. */
	return (info & 1) && (info << 9 >> 10) >= 2 && (info << 9 >> 10) < (1 << 24);
}

static void set_arity(struct function *function, int arity)
{
	if (function->arity == ARITY_UNKNOWN)
		function->arity = (int8_t)arity;
	else if (function->arity != arity)
		function->arity = ARITY_CONTRADICTORY;
}

static int read_closures(struct arity_reader *r)
{
	struct segment_window window = { .data = malloc(WINDOW_BYTES) };

	if (!window.data)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < r->n; i++) {
		const struct pointer *pointer = &r->pointers[i];
		const struct pointer *before = i ? &r->pointers[i - 1] : NULL;
		int arity;

		if (pointer->function == NO_FUNCTION)
			continue;
		if (before && before->generated && before->place == pointer->place - 16) {
			if (read_info(r, &window, pointer->place - 8, &arity) &&
			    arity == before->generated)
				set_arity(&r->list[pointer->function], arity);
		} else if (read_info(r, &window, pointer->place + 8, &arity) && arity == 1) {
			set_arity(&r->list[pointer->function], 1);
		}
	}
	free(window.data);
	return 0;
}

int arity_read(struct ocp_ctx *ctx, struct elf_file *elf, struct function *list, size_t n)
{
	struct arity_reader r = { .ctx = ctx, .elf = elf, .list = list };
	int err = list_goals(&r, n);

	if (!err)
		err = find_pointers(&r);
	if (!err)
		err = read_closures(&r);
	for (size_t i = 0; i < n; i++)
		if (list[i].arity == ARITY_CONTRADICTORY)
			list[i].arity = ARITY_UNKNOWN;
	free(r.pointers);
	free(r.goals);
	return err;
}
