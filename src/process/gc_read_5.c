// SPDX-License-Identifier: MIT
/*
 * Read the figures of OCaml 5. An array of slots points to the structures of the domains, one for
 * each domain. Neither the array nor the structures are ever freed. A domain that ends adds its
 * figures to the common figures of all ended domains. The common figures are copied before and
 * after the domains' own, and must be equal. See gc_gauges.c.
 */
#include "process/gc_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECES_PER_DOMAIN = COPIES + 1,
	FEW_PIECES = 8,
	MAX_SLOTS = (IOV_MAX - FEW_PIECES) / PIECES_PER_DOMAIN,
};

/*
 * struct heap_stats of OCaml 5 (runtime/caml/gc_stats.h). In a heap, the heap's owner precedes it.
 */
struct heap_stats {
	int64_t pool_words, pool_max_words, pool_live_words, pool_live_blocks, pool_frag_words;
	int64_t large_words, large_max_words, large_blocks;
};

struct heap_copy {
	uint64_t owner;
	struct heap_stats stats;
};

/* struct alloc_stats of OCaml 5. */
struct alloc_stats {
	uint64_t minor_words, promoted_words, major_words, forced_major_collections;
};

/* The start of struct dom_internal of OCaml 5 (runtime/domain.c): a slot for a domain. */
struct slot_copy {
	int32_t id;
	int32_t padding;
	uint64_t state;
};

/* The figures that all domains of OCaml 5 share. */
struct shared_copy {
	struct alloc_stats ended_words;
	struct heap_stats ended_heap;
	uint64_t minor_collections, major_collections, compactions;
};

struct domain_copy {
	uint8_t states[COPIES][STATE_BYTES];
	struct heap_copy heap;
};

/* A copy that a second system call makes. */
struct later_copy {
	uint8_t state[STATE_BYTES];
};

struct gc_domains {
	uint64_t table; /* the array of slots; 0: not found yet */
	uint64_t slot_bytes;
	uint64_t *states; /* addresses of the domain structures of the slots used so far */
	uint64_t *heaps;
	size_t n_slots;
	struct domain_copy *copies;
	struct later_copy *later; /* one for each slot; after the last one, the shared figures */
	struct gc_domain *kept;	  /* the domains of the last successful read */
	struct gc_domain *trial;  /* the domains of the next read, until it has succeeded */
};

/* ---- finding the domains --------------------------------------------------------------------- */

/*
 * Return true if STATE is the address of the structure of the domain in slot ID, with a heap whose
 * owner is STATE.
 */
static bool is_domain(const struct gc_reader *r, uint64_t state, int id)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	uint8_t copy[STATE_BYTES];
	uint64_t heap, owner;

	if (!state || state % 8 || gc_read_one(r, state, copy, sizeof(copy)) != 0 ||
	    (int)gc_word_at(copy, layout->id) != id)
		return false;
	heap = gc_word_at(copy, layout->shared_heap);
	return heap && gc_read_one(r, heap + layout->heap_owner, &owner, sizeof(owner)) == 0 &&
	       owner == state;
}

/*
 * Return true if there is an array of slots at TABLE, and find the size of a slot. The first domain
 * never ends, so slot 0 must have a domain. Each slot contains its number, which shows the size of
 * slots, unless there is only one slot.
 */
static bool is_table(struct gc_reader *r, uint64_t table)
{
	/*
	 * The sizes of a slot: in 5.3; and in 5.1 and 5.2, whose condition variables refer to their
	 * mutex.
	 */
	static const uint16_t sizes[] = { 264, 280 };
	struct slot_copy slot;

	if (!table || table % 8 || gc_read_one(r, table, &slot, sizeof(slot)) != 0 ||
	    slot.id != 0 || !is_domain(r, slot.state, 0))
		return false;
	r->domains->slot_bytes = sizes[0];
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bool fits = true;

		for (int id = 1; fits && id < 4; id++)
			fits = gc_read_one(r, table + (uint64_t)id * sizes[i], &slot,
					   sizeof(slot)) == 0 &&
			       slot.id == id && slot.padding == 0;
		if (fits)
			r->domains->slot_bytes = sizes[i];
	}
	return true;
}

/*
 * Find the array of slots, from the variable that is the array itself (5.1, 5.2) or a pointer to it
 * (5.3). Ignore errors of single reads: for a stripped file, some candidates are other variables.
 */
static int find_slot_array(struct gc_reader *r)
{
	const struct runtime_places *places = &r->runtime.places;
	uint64_t pointer;

	for (size_t i = 0; i < places->n_domains; i++) {
		const uint64_t at = places->domains[i] + r->bias;

		if (gc_read_one(r, at, &pointer, sizeof(pointer)) == 0 && is_table(r, pointer))
			r->domains->table = pointer;
		else if (is_table(r, at))
			r->domains->table = at;
		if (r->domains->table)
			return 0;
	}
	return gc_not_started(r);
}

/* Find slots that have come into use. The runtime uses slots in order, and reuses them. */
static int find_slots(struct gc_reader *r)
{
	struct gc_domains *d = r->domains;

	while (d->n_slots < MAX_SLOTS) {
		const uint64_t at = d->table + d->n_slots * d->slot_bytes;
		struct slot_copy slot;
		int32_t id;

		/* Behind the last slot there may be other data, or unmapped memory. */
		if (gc_read_one(r, at, &slot, sizeof(slot)) != 0 || slot.id != (int)d->n_slots ||
		    slot.padding || !slot.state || slot.state % 8 ||
		    gc_read_one(r, slot.state + r->runtime.layout.id, &id, sizeof(id)) != 0 ||
		    id != slot.id)
			return memory_check_alive(r->memory);
		d->states[d->n_slots++] = slot.state;
	}
	return ctx_error(r->ctx, -E2BIG, "pid %d (%s): has more than %d domains", (int)r->pid,
			 r->exe, MAX_SLOTS - 1);
}

/* ---- the figures --------------------------------------------------------------------------- */

/* Add the variable at VA. If its address is unknown (0), add the state of a domain as a filler. */
static void add_variable(const struct gc_reader *r, struct gc_pieces *pieces, uint64_t va,
			 size_t bytes)
{
	gc_pieces_add(pieces, va ? va + r->bias : r->domains->states[0], bytes);
}

static void add_shared(const struct gc_reader *r, struct gc_pieces *pieces)
{
	const struct runtime_places *places = &r->runtime.places;

	add_variable(r, pieces, places->orphaned_words, sizeof(struct alloc_stats));
	add_variable(r, pieces, places->orphaned_heap, sizeof(struct heap_stats));
	add_variable(r, pieces, places->minor_collections, 8);
	add_variable(r, pieces, places->major_collections, 8);
	add_variable(r, pieces, places->compactions, 8);
}

static void remove_unknown(const struct gc_reader *r, struct shared_copy *shared)
{
	const struct runtime_places *places = &r->runtime.places;

	if (!places->orphaned_words)
		shared->ended_words = (struct alloc_stats){ 0 };
	if (!places->orphaned_heap)
		shared->ended_heap = (struct heap_stats){ 0 };
	if (!places->compactions)
		shared->compactions = 0;
}

/* Copy the figures that all domains share, and the pointer to the heap of each slot. */
static int copy_before(const struct gc_reader *r, struct shared_copy *shared)
{
	uint64_t buf[sizeof(*shared) / 8 + MAX_SLOTS];
	struct gc_pieces pieces;
	int err;

	gc_pieces_empty(&pieces);
	add_shared(r, &pieces);
	for (size_t i = 0; i < r->domains->n_slots; i++)
		gc_pieces_add(&pieces, r->domains->states[i] + r->runtime.layout.shared_heap, 8);
	err = gc_pieces_read(r, &pieces, buf);
	if (err)
		return err;
	memcpy(shared, buf, sizeof(*shared));
	memcpy(r->domains->heaps, buf + sizeof(*shared) / 8,
	       r->domains->n_slots * sizeof(*r->domains->heaps));
	remove_unknown(r, shared);
	return 0;
}

/*
 * Copy the domains' structures and heaps. An ended domain has no heap: copy its structure instead.
 */
static int copy_domains(const struct gc_reader *r)
{
	struct gc_pieces pieces;

	gc_pieces_empty(&pieces);
	for (size_t i = 0; i < r->domains->n_slots; i++) {
		for (int j = 0; j < COPIES; j++)
			gc_pieces_add(&pieces, r->domains->states[i], STATE_BYTES);
		gc_pieces_add(&pieces,
			      r->domains->heaps[i]
				      ? r->domains->heaps[i] + r->runtime.layout.heap_owner
				      : r->domains->states[i],
			      sizeof(struct heap_copy));
	}
	return gc_pieces_read(r, &pieces, r->domains->copies);
}

/* Copy the domains' structures once more, and then the figures that they share. */
static int copy_after(const struct gc_reader *r, struct shared_copy *shared)
{
	struct gc_pieces pieces;
	int err;

	gc_pieces_empty(&pieces);
	for (size_t i = 0; i < r->domains->n_slots; i++)
		gc_pieces_add(&pieces, r->domains->states[i], STATE_BYTES);
	add_shared(r, &pieces);
	err = gc_pieces_read(r, &pieces, r->domains->later);
	if (err)
		return err;
	memcpy(shared, &r->domains->later[r->domains->n_slots], sizeof(*shared));
	remove_unknown(r, shared);
	return 0;
}

/* Fill DOMAIN with the figures of slot I. Returns false if its copies do not belong together. */
static bool take_domain(const struct gc_reader *r, size_t i, struct gc_domain *domain)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	const struct domain_copy *copy = &r->domains->copies[i];
	const uint8_t *first = copy->states[0], *middle = copy->states[1], *last = copy->states[2];
	const uint8_t *later = r->domains->later[i].state;
	const uint64_t allocated = gc_word_at(middle, layout->allocated_words);
	uint64_t young;

	if (memcmp(first + layout->minor_words, last + layout->minor_words, 24) != 0 ||
	    gc_word_at(first, layout->unique_id) != gc_word_at(last, layout->unique_id) ||
	    gc_word_at(first, layout->shared_heap) != r->domains->heaps[i] ||
	    gc_word_at(last, layout->shared_heap) != r->domains->heaps[i] ||
	    (r->domains->heaps[i] && copy->heap.owner != r->domains->states[i]) ||
	    gc_word_at(last, layout->major_words) != gc_word_at(later, layout->major_words) ||
	    allocated > gc_word_at(last, layout->allocated_words) ||
	    allocated > gc_word_at(later, layout->allocated_words) ||
	    !gc_young_words(r, middle, &young))
		return false;
	*domain = (struct gc_domain){
		.id = (int)i,
		.unique_id = (uint32_t)gc_word_at(middle, layout->unique_id),
		.words = { .minor = (double)gc_word_at(middle, layout->minor_words),
			   .promoted = (double)gc_word_at(middle, layout->promoted_words),
			   .major = (double)gc_word_at(middle, layout->major_words) },
	};
	if (!r->domains->heaps[i])
		return true;
	domain->words.minor += (double)young;
	domain->words.major += (double)allocated;
	domain->words.heap = (uint64_t)(copy->heap.stats.pool_words + copy->heap.stats.large_words);
	domain->words.top_heap =
		(uint64_t)(copy->heap.stats.pool_max_words + copy->heap.stats.large_max_words);
	return true;
}

static void add_words(struct gc_words *sum, const struct gc_words *words)
{
	sum->minor += words->minor;
	sum->promoted += words->promoted;
	sum->major += words->major;
	sum->heap += words->heap;
	sum->top_heap += words->top_heap;
}

/* Fill in the figures of all domains. Return 1, or 0 if the copies do not belong together. */
static int take_domains(const struct gc_reader *r, struct gc_gauges *gauges)
{
	uint64_t last_id = 0;

	for (size_t i = 0; i < r->domains->n_slots; i++) {
		struct gc_domain *domain = &r->domains->trial[gauges->n_domains];

		if (!take_domain(r, i, domain))
			return 0;
		/* A domain that is ending can still have figures after its heap was freed. */
		add_words(&gauges->words, &domain->words);
		last_id = domain->unique_id > last_id ? domain->unique_id : last_id;
		gauges->n_domains += r->domains->heaps[i] != 0;
	}
	gauges->lacks_ended_domains =
		last_id + 1 != gauges->n_domains &&
		(!r->runtime.places.orphaned_words || !r->runtime.places.orphaned_heap);
	gauges->domains = r->domains->trial;
	return 1;
}

int gc_read_5(struct gc_reader *r, struct gc_gauges *gauges)
{
	struct shared_copy before, after;
	int err = r->domains->table ? 0 : find_slot_array(r);

	if (!err)
		err = find_slots(r);
	if (!err)
		err = copy_before(r, &before);
	if (!err)
		err = copy_domains(r);
	/* EFAULT: a domain has ended meanwhile, and its heap was freed. Try again. */
	if (err == -EFAULT)
		return 0;
	if (!err)
		err = copy_after(r, &after);
	if (err)
		return err;
	if (memcmp(&before, &after, sizeof(before)) != 0)
		return 0;
	*gauges = (struct gc_gauges){
		.words = { .minor = (double)after.ended_words.minor_words,
			   .promoted = (double)after.ended_words.promoted_words,
			   .major = (double)after.ended_words.major_words,
			   .heap = (uint64_t)(after.ended_heap.pool_words +
					      after.ended_heap.large_words),
			   .top_heap = (uint64_t)(after.ended_heap.pool_max_words +
						  after.ended_heap.large_max_words) },
		.minor_collections = after.minor_collections,
		.major_collections = after.major_collections,
		.compactions = after.compactions,
		.has_compactions = r->runtime.places.compactions != 0,
	};
	return take_domains(r, gauges);
}

/* ---- making and freeing --------------------------------------------------------------------- */

int gc_domains_new(struct gc_reader *r)
{
	struct gc_domains *d = calloc(1, sizeof(*d));

	r->domains = d;
	if (!d)
		return ctx_no_memory(r->ctx);
	d->states = calloc(MAX_SLOTS, sizeof(*d->states));
	d->heaps = calloc(MAX_SLOTS, sizeof(*d->heaps));
	d->copies = calloc(MAX_SLOTS, sizeof(*d->copies));
	/* The shared figures follow the last domain. */
	d->later = calloc(MAX_SLOTS + 1, sizeof(*d->later));
	d->kept = calloc(MAX_SLOTS, sizeof(*d->kept));
	d->trial = calloc(MAX_SLOTS, sizeof(*d->trial));
	return d->states && d->heaps && d->copies && d->later && d->kept && d->trial
		       ? 0
		       : ctx_no_memory(r->ctx);
}

void gc_domains_free(struct gc_domains *d)
{
	if (!d)
		return;
	free(d->states);
	free(d->heaps);
	free(d->copies);
	free(d->later);
	free(d->kept);
	free(d->trial);
	free(d);
}

void gc_domains_keep(struct gc_domains *d)
{
	struct gc_domain *kept = d->trial;

	d->trial = d->kept;
	d->kept = kept;
}
