// SPDX-License-Identifier: MIT
/*
 * Read the figures of OCaml 4: from one structure, to which Caml_state points, and from
 * caml_allocated_words. See gc_gauges.c.
 */
#include "process/gc_read.h"

#include <string.h>

struct copy_4 {
	uint64_t allocated_words; /* copied before the state */
	uint8_t state[STATE_BYTES];
};

struct read_4 {
	uint64_t caml_state;
	struct copy_4 copies[COPIES];
	struct copy_4 later; /* made by a second system call */
};

static void add_copy_4(const struct gc_reader *r, struct gc_pieces *pieces)
{
	gc_pieces_add(pieces, r->runtime.places.allocated_words + r->bias, 8);
	gc_pieces_add(pieces, r->caml_state, STATE_BYTES);
}

static int copy_4(const struct gc_reader *r, struct read_4 *to)
{
	struct gc_pieces pieces;
	int err;

	gc_pieces_empty(&pieces);
	gc_pieces_add(&pieces, r->runtime.places.caml_state + r->bias, sizeof(to->caml_state));
	for (size_t i = 0; i < COPIES; i++)
		add_copy_4(r, &pieces);
	err = gc_pieces_read(r, &pieces, to);
	if (err)
		return err;
	gc_pieces_empty(&pieces);
	add_copy_4(r, &pieces);
	return gc_pieces_read(r, &pieces, &to->later);
}

/* Return true if VALUE can be a sum. Sums are stored as doubles, and are whole numbers. */
static bool is_sum(double value)
{
	return value >= 0 && value < 0x1p63 && (double)(uint64_t)value == value;
}

/*
 * If the copies belong together, fill GAUGES and return true. The used part of the minor heap and
 * the words allocated since the last slice are those of the middle copy.
 */
static bool is_consistent_4(const struct gc_reader *r, const struct read_4 *read,
			    struct gc_gauges *gauges)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	const uint8_t *first = read->copies[0].state, *middle = read->copies[1].state;
	const uint8_t *last = read->copies[2].state;
	const size_t bytes = (size_t)layout->compactions + 8 - layout->minor_words;
	uint64_t young;
	bool collects = false;

	if (memcmp(first + layout->minor_words, last + layout->minor_words, bytes) != 0 ||
	    gc_double_at(last, layout->major_words) !=
		    gc_double_at(read->later.state, layout->major_words) ||
	    read->copies[1].allocated_words > read->copies[2].allocated_words ||
	    read->copies[1].allocated_words > read->later.allocated_words ||
	    !gc_young_words(r, middle, &young))
		return false;
	for (size_t i = 0; i < COPIES; i++)
		collects |= gc_word_at(read->copies[i].state, layout->in_minor_collection) != 0;
	*gauges = (struct gc_gauges){
		.words = { .minor = gc_double_at(middle, layout->minor_words) +
				    (collects ? 0 : (double)young),
			   .promoted = gc_double_at(middle, layout->promoted_words),
			   .major = gc_double_at(middle, layout->major_words) +
				    (double)read->copies[1].allocated_words,
			   .heap = gc_word_at(middle, layout->heap_words),
			   .top_heap = gc_word_at(middle, layout->top_heap_words) },
		.minor_collections = gc_word_at(middle, layout->minor_collections),
		.major_collections = gc_word_at(middle, layout->major_collections),
		.compactions = gc_word_at(middle, layout->compactions),
		.has_compactions = true,
	};
	return true;
}

int gc_read_4(struct gc_reader *r, struct gc_gauges *gauges)
{
	struct read_4 read;
	int err = 0;

	if (!r->caml_state)
		err = gc_read_one(r, r->runtime.places.caml_state + r->bias, &r->caml_state,
				  sizeof(r->caml_state));
	if (!err && !r->caml_state)
		return gc_not_started(r);
	if (!err)
		err = copy_4(r, &read);
	if (err)
		return err;
	if (read.caml_state != r->caml_state || !is_consistent_4(r, &read, gauges))
		return 0;
	if (!is_sum(gauges->words.minor) || !is_sum(gauges->words.promoted) ||
	    !is_sum(gauges->words.major))
		return gc_not_plausible(r, "the sums of its collector are no numbers");
	/*
	 * Return 0 if the heap has just grown and the runtime has not yet updated the largest size.
	 */
	return gauges->words.heap <= gauges->words.top_heap;
}
