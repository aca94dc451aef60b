// SPDX-License-Identifier: MIT
/*
 * Reading the collector's figures while the program runs.
 *
 * One process_vm_readv(2) copies the same structures several times, one after the other. The kernel
 * copies in the given order. Each figure that is a sum has two parts. The second part (the used
 * part of the minor heap; the words allocated since the last slice) grows all the time. Now and
 * then the collector adds the second part to the first, and resets the second to zero. If the first
 * part is equal before and after the second part was copied, the two copies belong together.
 *
 * But the collector's two stores are not simultaneous: up to a few hundred nanoseconds pass between
 * them if they wait for memory that we read. A read between the two stores is noticed in other
 * ways: OCaml 4 sets a flag during minor collections, and the second part of the major words must
 * not be lower when another system call copies it once more. If the copies do not belong together,
 * everything is read again.
 *
 * While OCaml code runs, the pointer into the minor heap is in a register, and memory has the value
 * that it had when the code last called the runtime. So minor_words may lack what was allocated
 * since that call.
 */
#include "process/gc_gauges.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "process/image.h"

/* ---- words of the process -------------------------------------------------------------------- */

/* Definitions that the readers for OCaml 4 and for OCaml 5 share. */

enum {
	/* bytes copied of a domain's structure: up to the last member that is read */
	STATE_BYTES = 512,
	COPIES = 3, /* how often the structure is copied, one copy after the other */
};

struct gc_domains; /* the domains of OCaml 5 */

struct gc_reader {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory;
	struct runtime runtime;
	uint64_t bias;
	char *exe;
	struct gc_words last; /* the sums of the last read */
	uint64_t caml_state;  /* OCaml 4: the value of Caml_state, set once; 0: not read yet */
	struct gc_domains *domains; /* OCaml 5; otherwise NULL */
};

/* Pieces of memory, to be read in the order of the array. */
struct gc_pieces {
	struct iovec remote[IOV_MAX];
	size_t n, bytes;
};

static void gc_pieces_empty(struct gc_pieces *pieces)
{
	pieces->n = pieces->bytes = 0;
}

static void gc_pieces_add(struct gc_pieces *pieces, uint64_t addr, size_t bytes)
{
	pieces->remote[pieces->n++] = (struct iovec){ (void *)(uintptr_t)addr, bytes };
	pieces->bytes += bytes;
}

static int gc_pieces_read(const struct gc_reader *r, const struct gc_pieces *pieces, void *to)
{
	return memory_read_in_order(r->memory, pieces->remote, pieces->n, to, pieces->bytes);
}

static int gc_read_one(const struct gc_reader *r, uint64_t addr, void *to, size_t bytes)
{
	const struct iovec remote = { (void *)(uintptr_t)addr, bytes };

	return memory_read_in_order(r->memory, &remote, 1, to, bytes);
}

/* Return the member at OFFSET of a copied structure, as an integer or as a double. */
static uint64_t gc_word_at(const uint8_t *copy, uint16_t offset)
{
	uint64_t word;

	memcpy(&word, copy + offset, sizeof(word));
	return word;
}

static double gc_double_at(const uint8_t *copy, uint16_t offset)
{
	double value;

	memcpy(&value, copy + offset, sizeof(value));
	return value;
}

/*
 * Record a message, and return its error code. gc_not_started() returns -EAGAIN and
 * gc_not_plausible() returns -EBADMSG, but both return -ESRCH if the process has ended.
 */
static int gc_not_started(const struct gc_reader *r)
{
	const int err = memory_check_alive(r->memory);

	if (err)
		return err;
	return ctx_error(r->ctx, -EAGAIN, "pid %d (%s): its OCaml runtime has not started yet",
			 (int)r->pid, r->exe);
}

static int gc_not_plausible(const struct gc_reader *r, const char *what)
{
	const int err = memory_check_alive(r->memory);

	if (err)
		return err;
	return ctx_error(r->ctx, -EBADMSG,
			 "pid %d (%s): %s, so its memory is not laid out as in OCaml %s",
			 (int)r->pid, r->exe, what, r->runtime.version);
}

/*
 * Set *WORDS to the size of the used part of the minor heap, which is filled from its end
 * downwards. Return false if the values in COPY contradict each other, because the collector is
 * just replacing the minor heap.
 */
static bool gc_young_words(const struct gc_reader *r, const uint8_t *copy, uint64_t *words)
{
	const uint16_t *facts = r->runtime.facts.at;
	const uint64_t start = gc_word_at(copy, facts[FACT_YOUNG_START]);
	const uint64_t end = gc_word_at(copy, facts[FACT_YOUNG_END]);
	const uint64_t at = gc_word_at(copy, facts[FACT_YOUNG_PTR]);

	*words = (end - at) / 8;
	return start <= at && at <= end && (end - at) % 8 == 0;
}

/* ---- OCaml 4 --------------------------------------------------------------------------------- */

/*
 * Offsets in the state of the domain (runtime/caml/domain_state.tbl) of OCaml 4.13 and 4.14. The
 * members from STATE_MINOR_COLLECTIONS on follow the three sums of words (runtime.h).
 */
enum {
	STATE_IN_MINOR_COLLECTION = 88,
	STATE_MINOR_COLLECTIONS = 320,
	STATE_MAJOR_COLLECTIONS = 328,
	STATE_HEAP_WORDS = 336,
	STATE_TOP_HEAP_WORDS = 344,
	STATE_COMPACTIONS = 352,
};

/*
 * Read the figures of OCaml 4: from one structure, to which Caml_state points, and from
 * caml_allocated_words. The top of this file describes the method.
 */

struct copy_4 {
	uint64_t allocated_words; /* copied before the copies of the state */
	uint8_t state[STATE_BYTES];
};

struct read_4 {
	uint64_t caml_state;
	struct copy_4 copies[COPIES];
	struct copy_4 later; /* a copy that a second system call makes */
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

/*
 * Return true if VALUE can be a sum of words: the sums are stored as doubles, and are whole
 * numbers.
 */
static bool is_sum(double value)
{
	return value >= 0 && value < 0x1p63 && (double)(uint64_t)value == value;
}

/*
 * If the copies in READ belong together, fill GAUGES and return true. The used part of the minor
 * heap and the words allocated since the last slice are taken from the middle copy.
 */
static bool is_consistent_4(const struct gc_reader *r, const struct read_4 *read,
			    struct gc_gauges *gauges)
{
	const uint16_t *facts = r->runtime.facts.at;
	const uint8_t *first = read->copies[0].state, *middle = read->copies[1].state;
	const uint8_t *last = read->copies[2].state;
	const size_t bytes = (size_t)STATE_COMPACTIONS + 8 - facts[FACT_MINOR_WORDS];
	uint64_t young;
	bool collects = false;

	if (memcmp(first + facts[FACT_MINOR_WORDS], last + facts[FACT_MINOR_WORDS], bytes) != 0 ||
	    gc_double_at(last, facts[FACT_MAJOR_WORDS]) !=
		    gc_double_at(read->later.state, facts[FACT_MAJOR_WORDS]) ||
	    read->copies[1].allocated_words > read->copies[2].allocated_words ||
	    read->copies[1].allocated_words > read->later.allocated_words ||
	    !gc_young_words(r, middle, &young))
		return false;
	for (size_t i = 0; i < COPIES; i++)
		collects |= gc_word_at(read->copies[i].state, STATE_IN_MINOR_COLLECTION) != 0;
	*gauges = (struct gc_gauges){
		.words = { .minor = gc_double_at(middle, facts[FACT_MINOR_WORDS]) +
				    (collects ? 0 : (double)young),
			   .promoted = gc_double_at(middle, facts[FACT_PROMOTED_WORDS]),
			   .major = gc_double_at(middle, facts[FACT_MAJOR_WORDS]) +
				    (double)read->copies[1].allocated_words,
			   .heap = gc_word_at(middle, STATE_HEAP_WORDS),
			   .top_heap = gc_word_at(middle, STATE_TOP_HEAP_WORDS) },
		.minor_collections = gc_word_at(middle, STATE_MINOR_COLLECTIONS),
		.major_collections = gc_word_at(middle, STATE_MAJOR_COLLECTIONS),
		.compactions = gc_word_at(middle, STATE_COMPACTIONS),
		.has_compactions = true,
	};
	return true;
}

/*
 * Try to read the gauges once. Returns 1 on success; 0 if the values changed during the read; or a
 * negative errno. The caller must check that the process still has the same address space.
 */
static int gc_read_4(struct gc_reader *r, struct gc_gauges *gauges)
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
		return gc_not_plausible(r, "the sums of its collector are not numbers");
	/*
	 * Return 0 if the heap has just grown, and the runtime has not yet updated the largest
	 * size.
	 */
	return gauges->words.heap <= gauges->words.top_heap;
}

/* ---- OCaml 5 --------------------------------------------------------------------------------- */

/*
 * Read the figures of OCaml 5. An array of slots points to the structures of the domains, one
 * structure for each domain. Neither the array nor the structures are ever freed. A domain that
 * ends adds its figures to the common figures of all ended domains. So the common figures are
 * copied before and after the figures of the running domains, and both copies must be equal. The
 * top of this file describes the method.
 */

enum {
	PIECES_PER_DOMAIN = COPIES + 1,
	FEW_PIECES = 8,
	MAX_SLOTS = (IOV_MAX - FEW_PIECES) / PIECES_PER_DOMAIN,
};

/*
 * struct heap_stats of OCaml 5 (runtime/caml/gc_stats.h). In the structure of a heap, it follows
 * the word for the heap's owner.
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

/*
 * The start of struct dom_internal of OCaml 5 (runtime/domain.c), which is a slot of the array. The
 * pointer to the domain's structure is words[0]; from 5.4 on, words[1], after the thread.
 */
enum { SLOT_WORDS = 3 };

struct slot_copy {
	int32_t id;
	int32_t padding;
	uint64_t words[SLOT_WORDS];
};

/* A copy of the figures that all domains of OCaml 5 share. */
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
	uint64_t table;	     /* address of the array of slots; 0: not found yet */
	uint64_t slot_bytes; /* 0: the array has one slot */
	size_t state_word;   /* the index in slot_copy.words of the pointer to the structure */
	/* the addresses of the domains' structures, one for each slot used so far */
	uint64_t *states;
	uint64_t *heaps;
	size_t n_slots;
	struct domain_copy *copies;
	struct later_copy *later; /* one for each slot, then one for the shared figures */
	struct gc_domain *kept;	  /* the domains as of the most recent successful read */
	/* receives the domains during a read, until the read has succeeded */
	struct gc_domain *trial;
};

/* ---- finding the domains --------------------------------------------------------------------- */

/*
 * Return true if STATE is the address of the structure of the domain in slot ID, with a heap whose
 * owner is STATE.
 */
static bool is_domain(const struct gc_reader *r, uint64_t state, int id)
{
	const uint16_t *facts = r->runtime.facts.at;
	uint8_t copy[STATE_BYTES];
	uint64_t heap, owner;

	if (!state || state % 8 || gc_read_one(r, state, copy, sizeof(copy)) != 0 ||
	    (int)gc_word_at(copy, facts[FACT_ID]) != id)
		return false;
	heap = gc_word_at(copy, facts[FACT_SHARED_HEAP]);
	return heap && gc_read_one(r, heap + facts[FACT_HEAP_OWNER], &owner, sizeof(owner)) == 0 &&
	       owner == state;
}

/* Copy slot ID of the array at TABLE, if it has slots of BYTES bytes. Return false if not. */
static bool read_slot(const struct gc_reader *r, uint64_t table, uint64_t bytes, int id,
		      struct slot_copy *slot)
{
	return gc_read_one(r, table + (uint64_t)id * bytes, slot, sizeof(*slot)) == 0 &&
	       slot->id == id && slot->padding == 0;
}

/*
 * Return true if the first N slots after slot 0 have BYTES bytes each: a slot contains its number,
 * and a pointer to a domain or, if the slot was never used, NULL.
 */
static bool has_slots(const struct gc_reader *r, uint64_t table, uint64_t bytes, int n)
{
	struct slot_copy slot;
	uint64_t state;
	int id;

	for (int i = 1; i <= n; i++) {
		if (!read_slot(r, table, bytes, i, &slot))
			return false;
		state = slot.words[r->domains->state_word];
		if (state &&
		    (state % 8 ||
		     gc_read_one(r, state + r->runtime.facts.at[FACT_ID], &id, sizeof(id)) != 0 ||
		     id != i))
			return false;
	}
	return true;
}

/*
 * Find the size of a slot from the places of the numbers 1, 2 and 3. An array with fewer slots has
 * only the first of these numbers (OCAMLRUNPARAM=d=2).
 */
static void find_slot_size(struct gc_reader *r, uint64_t table)
{
	enum { MIN_BYTES = 64, MAX_BYTES = 1024 };

	for (int n = 3; n > 0; n--)
		for (uint64_t bytes = MIN_BYTES; bytes <= MAX_BYTES; bytes += 8)
			if (has_slots(r, table, bytes, n)) {
				r->domains->slot_bytes = bytes;
				return;
			}
}

/*
 * Return true if there is an array of slots at TABLE, and find the size of a slot. The first domain
 * never ends, so slot 0 must have a domain.
 */
static bool is_table(struct gc_reader *r, uint64_t table)
{
	struct gc_domains *d = r->domains;
	struct slot_copy slot;

	if (!table || table % 8 || !read_slot(r, table, 0, 0, &slot))
		return false;
	d->state_word = 0;
	while (d->state_word < SLOT_WORDS && !is_domain(r, slot.words[d->state_word], 0))
		d->state_word++;
	if (d->state_word == SLOT_WORDS)
		return false;
	find_slot_size(r, table);
	return true;
}

/*
 * Find the array of slots, from the variable that is the array itself (5.1, 5.2) or a pointer to
 * the array (5.3). Ignore errors of single reads: in a stripped file, some candidates for the
 * variable are other variables.
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

/*
 * Set *STATE to the address of the structure of the domain in slot ID; NULL if the slot was never
 * used. Behind the last slot, there may be other data or unmapped memory: check the contents.
 * Return false if the slot and the structure have different numbers of the domain, because the
 * domain is just starting.
 */
static bool find_state(const struct gc_reader *r, int id, uint64_t *state)
{
	const struct gc_domains *d = r->domains;
	const uint16_t *facts = r->runtime.facts.at;
	uint64_t unique_id, slot_unique_id;
	struct slot_copy slot;
	uint8_t copy[STATE_BYTES];

	*state = 0;
	if ((id && !d->slot_bytes) || !read_slot(r, d->table, d->slot_bytes, id, &slot) ||
	    !slot.words[d->state_word] || slot.words[d->state_word] % 8 ||
	    gc_read_one(r, slot.words[d->state_word], copy, sizeof(copy)) != 0 ||
	    (int)gc_word_at(copy, facts[FACT_ID]) != id)
		return true;
	*state = slot.words[d->state_word];
	unique_id = gc_word_at(copy, facts[FACT_UNIQUE_ID]);
	return gc_read_one(r, d->table + (uint64_t)id * d->slot_bytes + facts[FACT_SLOT_UNIQUE_ID],
			   &slot_unique_id, sizeof(slot_unique_id)) == 0 &&
	       unique_id == slot_unique_id;
}

/*
 * Find the slots that have come into use since the last call. The runtime uses slots in order, and
 * reuses the slots of ended domains. Returns -EAGAIN, without a message, if a domain is starting.
 */
static int find_slots(struct gc_reader *r)
{
	struct gc_domains *d = r->domains;
	uint64_t state;

	while (d->n_slots < MAX_SLOTS) {
		if (!find_state(r, (int)d->n_slots, &state))
			return -EAGAIN;
		if (!state)
			return memory_check_alive(r->memory);
		d->states[d->n_slots++] = state;
	}
	return ctx_error(r->ctx, -E2BIG, "pid %d (%s): has more than %d domains", (int)r->pid,
			 r->exe, MAX_SLOTS - 1);
}

/* ---- the figures --------------------------------------------------------------------------- */

/*
 * Add the variable at link-time address VA to PIECES. If VA is 0, because the address is unknown,
 * add the state of a domain instead, so that the number of pieces stays the same.
 */
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

/* Copy the figures that all domains share, and for each slot the pointer to its heap. */
static int copy_before(const struct gc_reader *r, struct shared_copy *shared)
{
	uint64_t buf[sizeof(*shared) / 8 + MAX_SLOTS];
	struct gc_pieces pieces;
	int err;

	gc_pieces_empty(&pieces);
	add_shared(r, &pieces);
	for (size_t i = 0; i < r->domains->n_slots; i++)
		gc_pieces_add(&pieces,
			      r->domains->states[i] + r->runtime.facts.at[FACT_SHARED_HEAP], 8);
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
				      ? r->domains->heaps[i] + r->runtime.facts.at[FACT_HEAP_OWNER]
				      : r->domains->states[i],
			      sizeof(struct heap_copy));
	}
	return gc_pieces_read(r, &pieces, r->domains->copies);
}

/* Copy the structures of the domains once more, and then the figures that all domains share. */
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

/*
 * Fill DOMAIN with the figures of slot I. Returns false if the copies of the slot do not belong
 * together.
 */
static bool take_domain(const struct gc_reader *r, size_t i, struct gc_domain *domain)
{
	const uint16_t *facts = r->runtime.facts.at;
	const struct domain_copy *copy = &r->domains->copies[i];
	const uint8_t *first = copy->states[0], *middle = copy->states[1], *last = copy->states[2];
	const uint8_t *later = r->domains->later[i].state;
	const uint64_t allocated = gc_word_at(middle, facts[FACT_ALLOCATED_WORDS]);
	uint64_t young;

	if (memcmp(first + facts[FACT_MINOR_WORDS], last + facts[FACT_MINOR_WORDS], 24) != 0 ||
	    gc_word_at(first, facts[FACT_UNIQUE_ID]) != gc_word_at(last, facts[FACT_UNIQUE_ID]) ||
	    gc_word_at(first, facts[FACT_SHARED_HEAP]) != r->domains->heaps[i] ||
	    gc_word_at(last, facts[FACT_SHARED_HEAP]) != r->domains->heaps[i] ||
	    (r->domains->heaps[i] && copy->heap.owner != r->domains->states[i]) ||
	    gc_word_at(last, facts[FACT_MAJOR_WORDS]) !=
		    gc_word_at(later, facts[FACT_MAJOR_WORDS]) ||
	    allocated > gc_word_at(last, facts[FACT_ALLOCATED_WORDS]) ||
	    allocated > gc_word_at(later, facts[FACT_ALLOCATED_WORDS]) ||
	    !gc_young_words(r, middle, &young))
		return false;
	*domain = (struct gc_domain){
		.id = (int)i,
		.unique_id = (uint32_t)gc_word_at(middle, facts[FACT_UNIQUE_ID]),
		.words = { .minor = (double)gc_word_at(middle, facts[FACT_MINOR_WORDS]),
			   .promoted = (double)gc_word_at(middle, facts[FACT_PROMOTED_WORDS]),
			   .major = (double)gc_word_at(middle, facts[FACT_MAJOR_WORDS]) },
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
		/*
		 * A domain that is ending can still have figures after its heap was freed: add
		 * them.
		 */
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

static int gc_read_5(struct gc_reader *r, struct gc_gauges *gauges)
{
	struct shared_copy before, after;
	int err = r->domains->table ? 0 : find_slot_array(r);

	if (err)
		return err;
	err = find_slots(r);
	if (err == -EAGAIN)
		return 0;
	if (!err)
		err = copy_before(r, &before);
	if (!err)
		err = copy_domains(r);
	/* EFAULT: a domain has ended meanwhile, and its heap was unmapped. Try again. */
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

static int gc_domains_new(struct gc_reader *r)
{
	struct gc_domains *d = calloc(1, sizeof(*d));

	r->domains = d;
	if (!d)
		return ctx_no_memory(r->ctx);
	d->states = calloc(MAX_SLOTS, sizeof(*d->states));
	d->heaps = calloc(MAX_SLOTS, sizeof(*d->heaps));
	d->copies = calloc(MAX_SLOTS, sizeof(*d->copies));
	/* One more than slots: the shared figures come after the last domain. */
	d->later = calloc(MAX_SLOTS + 1, sizeof(*d->later));
	d->kept = calloc(MAX_SLOTS, sizeof(*d->kept));
	d->trial = calloc(MAX_SLOTS, sizeof(*d->trial));
	return d->states && d->heaps && d->copies && d->later && d->kept && d->trial
		       ? 0
		       : ctx_no_memory(r->ctx);
}

static void gc_domains_free(struct gc_domains *d)
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

/*
 * Keep the domains of the read that has just succeeded, so that the next read does not overwrite
 * them.
 */
static void gc_domains_keep(struct gc_domains *d)
{
	struct gc_domain *kept = d->trial;

	d->trial = d->kept;
	d->kept = kept;
}

/* ---- gauges ---------------------------------------------------------------------------------- */

enum {
	MAX_READS = 64,	  /* attempts to read consistent values */
	QUICK_READS = 32, /* the number of attempts that follow each other without waiting */
	/* the wait before each later attempt: the program may have been preempted */
	WAIT_NS = 1000000,
};

/*
 * Return true if a sum has decreased since the last read. Then the read was between two stores of
 * the collector, or a domain was about to end and its figures were in no structure for a moment.
 */
static bool has_decreased(const struct gc_reader *r, const struct gc_gauges *gauges)
{
	return !gauges->lacks_ended_domains &&
	       (gauges->words.promoted < r->last.promoted || gauges->words.major < r->last.major);
}

int gc_reader_read(struct gc_reader *r, struct gc_gauges *gauges)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };
	int done = 0, err;

	for (int i = 0; i < MAX_READS && done == 0; i++) {
		if (i >= QUICK_READS)
			nanosleep(&wait, NULL);
		done = r->runtime.has_domains ? gc_read_5(r, gauges) : gc_read_4(r, gauges);
		if (done > 0 && has_decreased(r, gauges) && i + 1 < MAX_READS)
			done = 0;
	}
	if (done >= 0)
		err = memory_check_alive(r->memory);
	else
		err = done;
	if (err)
		return err;
	if (done == 0)
		return ctx_error(r->ctx, -EAGAIN,
				 "pid %d (%s): the figures of its collector changed during each of "
				 "%d attempts to read them",
				 (int)r->pid, r->exe, MAX_READS);
	/*
	 * The last successful read may have seen more of the minor heap. Both values are lower
	 * bounds: keep the higher one.
	 */
	if (gauges->words.minor < r->last.minor && !gauges->lacks_ended_domains)
		gauges->words.minor = r->last.minor;
	if (!gauges->lacks_ended_domains)
		r->last = gauges->words;
	if (r->domains)
		gc_domains_keep(r->domains);
	return 0;
}

static int check_places(const struct gc_reader *r)
{
	const struct runtime_places *places = &r->runtime.places;
	const bool is_complete = r->runtime.has_domains
					 ? places->n_domains && places->minor_collections &&
						   places->major_collections
					 : places->caml_state && places->allocated_words;

	if (is_complete)
		return 0;
	return ctx_error(r->ctx, -ENODATA, "%s: the place of its collector's figures is unknown%s",
			 r->exe, r->runtime.is_stripped ? " (it is stripped)" : "");
}

/* Return 0 if all offsets are known that gc_read_5() uses, and lie in the copies. */
static int check_facts(const struct gc_reader *r)
{
	static const enum runtime_fact needed[] = {
		FACT_YOUNG_PTR,	      FACT_YOUNG_START, FACT_YOUNG_END,	  FACT_MINOR_WORDS,
		FACT_PROMOTED_WORDS,  FACT_MAJOR_WORDS, FACT_SHARED_HEAP, FACT_ID,
		FACT_ALLOCATED_WORDS, FACT_UNIQUE_ID,	FACT_HEAP_OWNER,  FACT_SLOT_UNIQUE_ID,
	};
	enum { N_NEEDED = sizeof(needed) / sizeof(needed[0]) };
	const uint16_t *facts = r->runtime.facts.at;

	for (size_t i = 0; i < N_NEEDED; i++)
		if (needed[i] != FACT_HEAP_OWNER && facts[needed[i]] > STATE_BYTES - 8)
			return ctx_error(r->ctx, -EPROTONOSUPPORT,
					 "%s: the state of a domain of OCaml %s has more than %d "
					 "bytes",
					 r->exe, r->runtime.version, STATE_BYTES);
	return runtime_facts_need(r->ctx, &r->runtime.facts, r->exe, needed, N_NEEDED,
				  "the figures of its collector cannot be read");
}

static int recognise(struct gc_reader *r)
{
	struct image_exe exe;
	int err = image_exe_open(r->ctx, r->pid, &exe);

	if (err)
		return err;
	err = runtime_recognise(r->ctx, exe.elf, &r->runtime);
	r->bias = exe.bias;
	r->exe = exe.path;
	exe.path = NULL;
	image_exe_close(&exe);
	if (!err && r->runtime.has_domains)
		err = check_facts(r);
	return err ? err : check_places(r);
}

int gc_reader_open(struct ocp_ctx *ctx, pid_t pid, struct gc_reader **out)
{
	struct gc_reader *r = calloc(1, sizeof(*r));
	int err;

	*out = NULL;
	if (!r)
		return ctx_no_memory(ctx);
	*r = (struct gc_reader){ .ctx = ctx, .pid = pid };
	err = memory_open(ctx, pid, &r->memory);
	if (!err)
		err = recognise(r);
	if (!err && r->runtime.has_domains)
		err = gc_domains_new(r);
	if (err) {
		gc_reader_free(r);
		return err;
	}
	*out = r;
	return 0;
}

void gc_reader_free(struct gc_reader *r)
{
	if (!r)
		return;
	memory_close(r->memory);
	free(r->exe);
	gc_domains_free(r->domains);
	free(r);
}

const struct runtime *gc_reader_runtime(const struct gc_reader *r)
{
	return &r->runtime;
}

const char *gc_reader_exe(const struct gc_reader *r)
{
	return r->exe;
}
