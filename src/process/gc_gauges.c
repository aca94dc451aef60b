// SPDX-License-Identifier: MIT
/*
 * Reading the collector's figures while the program goes on.
 *
 * One process_vm_readv(2) copies the same structures several times, one after the other. The kernel
 * copies in the given order. The sums have two parts: one that the collector adds to now and then,
 * and one that starts again at zero then (the used part of the minor heap; the words allocated since
 * the last slice). If the first part is equal before and after the second part was copied, the two
 * belong together. Some time passes between the two stores of the collector, up to a few hundred
 * nanoseconds if they wait for memory that we read. It is seen in another way: OCaml 4 sets a flag
 * during minor collections; and the second part of major words must not decrease until another call
 * copies it once more. A read that fails is repeated.
 *
 * While OCaml code runs, the pointer into the minor heap is in a register, and memory has the value
 * of the code's last call of the runtime. So minor_words may lack what was allocated since.
 *
 * OCaml 5 has a structure for each domain, in an array of slots. Neither the array nor the
 * structures are ever freed. A domain that ends adds its figures to those of all domains that have
 * ended; they are copied before and after the others, and must be equal.
 */
#include "process/gc_gauges.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process/image.h"

enum {
	STATE_BYTES = 512, /* room for the structure of a domain, up to the last member used */
	MAX_READS = 64,	   /* until the values hold still, */
	QUICK_READS = 32,  /* without waiting, */
	WAIT_NS = 1000000, /* with waiting, as the program may have been interrupted */
	COPIES = 3,
	PIECES_PER_DOMAIN = COPIES + 1,
	FEW_PIECES = 8,
	MAX_SLOTS = (IOV_MAX - FEW_PIECES) / PIECES_PER_DOMAIN,
};

/* struct heap_stats of OCaml 5 (runtime/caml/gc_stats.h), and what precedes it in a heap. */
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

/* What all domains of OCaml 5 share. */
struct shared_copy {
	struct alloc_stats ended_words;
	struct heap_stats ended_heap;
	uint64_t minor_collections, major_collections, compactions;
};

struct domain_copy {
	uint8_t states[COPIES][STATE_BYTES];
	struct heap_copy heap;
};

struct later_copy {
	uint8_t state[STATE_BYTES];
};

struct gc_reader {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory;
	struct runtime runtime;
	uint64_t bias;
	char *exe;
	struct gc_words last; /* the sums of the last read */
	uint64_t caml_state;  /* OCaml 4: the pointer; 0: not read yet. The runtime sets it once. */
	/* OCaml 5 */
	uint64_t table; /* the array of slots; 0: not found yet */
	uint64_t slot_bytes;
	uint64_t *states; /* of the slots that have been used */
	uint64_t *heaps;
	size_t n_slots;
	struct domain_copy *copies;
	struct later_copy *later;  /* of another call */
	struct gc_domain *domains; /* of the last read */
	struct gc_domain *trial;   /* of the next one, until it has succeeded */
};

/* ---- pieces of memory ----------------------------------------------------------------------- */

struct pieces {
	struct iovec remote[IOV_MAX];
	size_t n, bytes;
};

static void add_piece(struct pieces *pieces, uint64_t addr, size_t bytes)
{
	pieces->remote[pieces->n++] = (struct iovec){ (void *)(uintptr_t)addr, bytes };
	pieces->bytes += bytes;
}

static int read_pieces(const struct gc_reader *r, const struct pieces *pieces, void *to)
{
	return memory_read_in_order(r->memory, pieces->remote, pieces->n, to, pieces->bytes);
}

static int read_one(const struct gc_reader *r, uint64_t addr, void *to, size_t bytes)
{
	const struct iovec remote = { (void *)(uintptr_t)addr, bytes };

	return memory_read_in_order(r->memory, &remote, 1, to, bytes);
}

static uint64_t word_at(const uint8_t *copy, uint16_t offset)
{
	uint64_t word;

	memcpy(&word, copy + offset, sizeof(word));
	return word;
}

static double double_at(const uint8_t *copy, uint16_t offset)
{
	double value;

	memcpy(&value, copy + offset, sizeof(value));
	return value;
}

static int not_started(const struct gc_reader *r)
{
	return ctx_error(r->ctx, -EAGAIN, "pid %d (%s): its OCaml runtime has not started yet",
			 (int)r->pid, r->exe);
}

static int not_plausible(const struct gc_reader *r, const char *what)
{
	return ctx_error(r->ctx, -EBADMSG,
			 "pid %d (%s): %s, so its memory is not laid out as in OCaml %s",
			 (int)r->pid, r->exe, what, r->runtime.version);
}

/*
 * The words in the used part of the minor heap, which is used from its end. Returns false if the
 * copy makes no sense: the minor heap is being replaced.
 */
static bool young_words(const struct gc_reader *r, const uint8_t *copy, uint64_t *words)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	const uint64_t start = word_at(copy, layout->young_start);
	const uint64_t end = word_at(copy, layout->young_end);
	const uint64_t at = word_at(copy, layout->young_ptr);

	*words = (end - at) / 8;
	return start <= at && at <= end && (end - at) % 8 == 0;
}

/* ---- OCaml 4 -------------------------------------------------------------------------------- */

struct copy_4 {
	uint64_t allocated_words; /* copied before the state */
	uint8_t state[STATE_BYTES];
};

struct read_4 {
	uint64_t caml_state;
	struct copy_4 copies[COPIES];
	struct copy_4 later; /* of another call */
};

static void add_copy_4(const struct gc_reader *r, struct pieces *pieces)
{
	add_piece(pieces, r->runtime.places.allocated_words + r->bias, 8);
	add_piece(pieces, r->caml_state, STATE_BYTES);
}

static int copy_4(const struct gc_reader *r, struct read_4 *to)
{
	struct pieces pieces;
	int err;

	pieces.n = pieces.bytes = 0;
	add_piece(&pieces, r->runtime.places.caml_state + r->bias, sizeof(to->caml_state));
	for (size_t i = 0; i < COPIES; i++)
		add_copy_4(r, &pieces);
	err = read_pieces(r, &pieces, to);
	if (err)
		return err;
	pieces.n = pieces.bytes = 0;
	add_copy_4(r, &pieces);
	return read_pieces(r, &pieces, &to->later);
}

/* Sums are doubles, and whole numbers. */
static bool is_sum(double value)
{
	return value >= 0 && value < 0x1p63 && floor(value) == value;
}

/*
 * Do the copies belong together? The used part of the minor heap is that of the copy in the middle,
 * and so are the words allocated since the last slice.
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
	    double_at(last, layout->major_words) !=
		    double_at(read->later.state, layout->major_words) ||
	    read->copies[1].allocated_words > read->copies[2].allocated_words ||
	    read->copies[1].allocated_words > read->later.allocated_words ||
	    !young_words(r, middle, &young))
		return false;
	for (size_t i = 0; i < COPIES; i++)
		collects |= word_at(read->copies[i].state, layout->in_minor_collection) != 0;
	*gauges = (struct gc_gauges){
		.words = { .minor = double_at(middle, layout->minor_words) +
				    (collects ? 0 : (double)young),
			   .promoted = double_at(middle, layout->promoted_words),
			   .major = double_at(middle, layout->major_words) +
				    (double)read->copies[1].allocated_words,
			   .heap = word_at(middle, layout->heap_words),
			   .top_heap = word_at(middle, layout->top_heap_words) },
		.minor_collections = word_at(middle, layout->minor_collections),
		.major_collections = word_at(middle, layout->major_collections),
		.compactions = word_at(middle, layout->compactions),
		.has_compactions = true,
	};
	return true;
}

/* Returns 1, 0 if the values changed meanwhile, or a negative errno. */
static int try_4(struct gc_reader *r, struct gc_gauges *gauges)
{
	struct read_4 read;
	int err = 0;

	if (!r->caml_state)
		err = read_one(r, r->runtime.places.caml_state + r->bias, &r->caml_state,
			       sizeof(r->caml_state));
	if (!err && !r->caml_state)
		return not_started(r);
	if (!err)
		err = copy_4(r, &read);
	if (err)
		return err;
	if (read.caml_state != r->caml_state || !is_consistent_4(r, &read, gauges))
		return 0;
	if (!is_sum(gauges->words.minor) || !is_sum(gauges->words.promoted) ||
	    !is_sum(gauges->words.major))
		return not_plausible(r, "the sums of its collector are no numbers");
	/* The heap has grown, and its largest size is about to be noted. */
	return gauges->words.heap <= gauges->words.top_heap;
}

/* ---- OCaml 5: finding the domains ----------------------------------------------------------- */

/* Is STATE the structure of the domain in slot ID, with a heap that belongs to it? */
static bool is_domain(const struct gc_reader *r, uint64_t state, int id)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	uint8_t copy[STATE_BYTES];
	uint64_t heap, owner;

	if (!state || state % 8 || read_one(r, state, copy, sizeof(copy)) != 0 ||
	    (int)word_at(copy, layout->id) != id)
		return false;
	heap = word_at(copy, layout->shared_heap);
	return heap && read_one(r, heap + layout->heap_owner, &owner, sizeof(owner)) == 0 &&
	       owner == state;
}

/*
 * Is there an array of slots at TABLE? The first domain never ends. The number of each slot is in
 * it, which tells the size of slots, unless there is one slot only.
 */
static bool is_table(struct gc_reader *r, uint64_t table)
{
	/* One slot in 5.3, and in 5.1 and 5.2, where condition variables refer to their mutex. */
	static const uint16_t sizes[] = { 264, 280 };
	struct slot_copy slot;

	if (!table || table % 8 || read_one(r, table, &slot, sizeof(slot)) != 0 || slot.id != 0 ||
	    !is_domain(r, slot.state, 0))
		return false;
	r->slot_bytes = sizes[0];
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bool fits = true;

		for (int id = 1; fits && id < 4; id++)
			fits = read_one(r, table + (uint64_t)id * sizes[i], &slot, sizeof(slot)) ==
				       0 &&
			       slot.id == id && slot.padding == 0;
		if (fits)
			r->slot_bytes = sizes[i];
	}
	return true;
}

/*
 * The array itself (5.1, 5.2), or a pointer to it (5.3). Errors of single reads do not matter: a
 * stripped file offers variables of other kinds.
 */
static int find_table(struct gc_reader *r)
{
	const struct runtime_places *places = &r->runtime.places;
	uint64_t pointer;

	for (size_t i = 0; i < places->n_domains; i++) {
		const uint64_t at = places->domains[i] + r->bias;

		if (read_one(r, at, &pointer, sizeof(pointer)) == 0 && is_table(r, pointer))
			r->table = pointer;
		else if (is_table(r, at))
			r->table = at;
		if (r->table)
			return 0;
	}
	if (!memory_is_alive(r->memory))
		return read_one(r, places->domains[0] + r->bias, &pointer, sizeof(pointer));
	return not_started(r);
}

/* Slots are used in order, and used again: look whether the next one is in use now. */
static int find_slots(struct gc_reader *r)
{
	while (r->n_slots < MAX_SLOTS) {
		const uint64_t at = r->table + r->n_slots * r->slot_bytes;
		struct slot_copy slot;

		/* There may be nothing behind the last slot. */
		if (read_one(r, at, &slot, sizeof(slot)) != 0 || slot.id != (int)r->n_slots ||
		    slot.padding || !slot.state || slot.state % 8)
			return memory_is_alive(r->memory) ? 0 : read_one(r, at, &slot, 1);
		r->states[r->n_slots++] = slot.state;
	}
	return ctx_error(r->ctx, -E2BIG, "pid %d (%s): has more than %d domains", (int)r->pid,
			 r->exe, MAX_SLOTS - 1);
}

/* ---- OCaml 5: the figures ------------------------------------------------------------------- */

static void add_counter(struct pieces *pieces, const struct gc_reader *r, uint64_t va)
{
	/* A counter that does not exist: something readable in its place. */
	add_piece(pieces, (va ? va : r->runtime.places.minor_collections) + r->bias, 8);
}

static int copy_shared(const struct gc_reader *r, struct shared_copy *to)
{
	const struct runtime_places *places = &r->runtime.places;
	struct pieces pieces;
	uint8_t *at = (uint8_t *)&to->ended_words;
	int err = 0;

	*to = (struct shared_copy){ 0 };
	pieces.n = pieces.bytes = 0;
	add_counter(&pieces, r, places->minor_collections);
	add_counter(&pieces, r, places->major_collections);
	add_counter(&pieces, r, places->compactions);
	err = read_pieces(r, &pieces, &to->minor_collections);
	if (!err && places->orphaned_words)
		err = read_one(r, places->orphaned_words + r->bias, at, sizeof(to->ended_words));
	if (!err && places->orphaned_heap)
		err = read_one(r, places->orphaned_heap + r->bias, &to->ended_heap,
			       sizeof(to->ended_heap));
	return err;
}

static int read_heaps(const struct gc_reader *r)
{
	struct pieces pieces;

	pieces.n = pieces.bytes = 0;
	for (size_t i = 0; i < r->n_slots; i++)
		add_piece(&pieces, r->states[i] + r->runtime.layout.shared_heap, 8);
	return read_pieces(r, &pieces, r->heaps);
}

/* Where a domain has ended, its structure takes the place of its heap. */
static int copy_domains(const struct gc_reader *r)
{
	struct pieces pieces;

	pieces.n = pieces.bytes = 0;
	for (size_t i = 0; i < r->n_slots; i++) {
		for (int j = 0; j < COPIES; j++)
			add_piece(&pieces, r->states[i], STATE_BYTES);
		add_piece(&pieces,
			  r->heaps[i] ? r->heaps[i] + r->runtime.layout.heap_owner : r->states[i],
			  sizeof(struct heap_copy));
	}
	return read_pieces(r, &pieces, r->copies);
}

static int copy_domains_later(const struct gc_reader *r)
{
	struct pieces pieces;

	pieces.n = pieces.bytes = 0;
	for (size_t i = 0; i < r->n_slots; i++)
		add_piece(&pieces, r->states[i], STATE_BYTES);
	return read_pieces(r, &pieces, r->later);
}

/* The figures of slot I; false if its copies do not belong together. */
static bool take_domain(const struct gc_reader *r, size_t i, struct gc_domain *domain)
{
	const struct runtime_layout *layout = &r->runtime.layout;
	const struct domain_copy *copy = &r->copies[i];
	const uint8_t *first = copy->states[0], *middle = copy->states[1], *last = copy->states[2];
	const uint8_t *later = r->later[i].state;
	const uint64_t allocated = word_at(middle, layout->allocated_words);
	uint64_t young;

	if (memcmp(first + layout->minor_words, last + layout->minor_words, 24) != 0 ||
	    word_at(first, layout->unique_id) != word_at(last, layout->unique_id) ||
	    word_at(first, layout->shared_heap) != r->heaps[i] ||
	    word_at(last, layout->shared_heap) != r->heaps[i] ||
	    (r->heaps[i] && copy->heap.owner != r->states[i]) ||
	    word_at(last, layout->major_words) != word_at(later, layout->major_words) ||
	    allocated > word_at(last, layout->allocated_words) ||
	    allocated > word_at(later, layout->allocated_words) || !young_words(r, middle, &young))
		return false;
	*domain = (struct gc_domain){
		.id = (int)i,
		.unique_id = (uint32_t)word_at(middle, layout->unique_id),
		.words = { .minor = (double)word_at(middle, layout->minor_words),
			   .promoted = (double)word_at(middle, layout->promoted_words),
			   .major = (double)word_at(middle, layout->major_words) },
	};
	if (!r->heaps[i])
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

/* Returns 1, 0 if the copies do not belong together. */
static int take_domains(const struct gc_reader *r, struct gc_gauges *gauges)
{
	uint64_t last_id = 0;

	for (size_t i = 0; i < r->n_slots; i++) {
		struct gc_domain *domain = &r->trial[gauges->n_domains];

		if (!take_domain(r, i, domain))
			return 0;
		/* Between the two, domains that end have figures without a heap. */
		add_words(&gauges->words, &domain->words);
		last_id = domain->unique_id > last_id ? domain->unique_id : last_id;
		gauges->n_domains += r->heaps[i] != 0;
	}
	gauges->lacks_ended_domains =
		last_id + 1 != gauges->n_domains &&
		(!r->runtime.places.orphaned_words || !r->runtime.places.orphaned_heap);
	gauges->domains = r->trial;
	return 1;
}

static int try_5(struct gc_reader *r, struct gc_gauges *gauges)
{
	struct shared_copy before, after;
	int err = r->table ? 0 : find_table(r);

	if (!err)
		err = find_slots(r);
	if (!err)
		err = copy_shared(r, &before);
	if (!err)
		err = read_heaps(r);
	if (!err)
		err = copy_domains(r);
	/* A domain has ended, and its heap was freed. */
	if (err == -EFAULT)
		return 0;
	if (!err)
		err = copy_domains_later(r);
	if (!err)
		err = copy_shared(r, &after);
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
		.compactions = r->runtime.places.compactions ? after.compactions : 0,
		.has_compactions = r->runtime.places.compactions != 0,
	};
	return take_domains(r, gauges);
}

/* ---- the reader ----------------------------------------------------------------------------- */

/*
 * Have sums decreased? Then a store of the collector is missing, or a domain was about to end and
 * its figures were in no place for a moment.
 */
static bool has_decreased(const struct gc_reader *r, const struct gc_gauges *gauges)
{
	return !gauges->lacks_ended_domains &&
	       (gauges->words.promoted < r->last.promoted || gauges->words.major < r->last.major);
}

int gc_reader_read(struct gc_reader *r, struct gc_gauges *gauges)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };
	int done = 0;

	for (int i = 0; i < MAX_READS && done == 0; i++) {
		if (i >= QUICK_READS)
			nanosleep(&wait, NULL);
		done = r->runtime.layout.has_domains ? try_5(r, gauges) : try_4(r, gauges);
		if (done > 0 && has_decreased(r, gauges) && i + 1 < MAX_READS)
			done = 0;
	}
	if (done < 0)
		return done;
	if (done == 0)
		return ctx_error(r->ctx, -EAGAIN,
				 "pid %d (%s): the figures of its collector changed during each of "
				 "%d attempts to read them",
				 (int)r->pid, r->exe, MAX_READS);
	/* The last read may have seen more of the minor heap, as above. Both are lower bounds. */
	if (gauges->words.minor < r->last.minor && !gauges->lacks_ended_domains)
		gauges->words.minor = r->last.minor;
	if (!gauges->lacks_ended_domains)
		r->last = gauges->words;
	r->trial = r->domains;
	r->domains = gauges->domains;
	return 0;
}

static int check_places(const struct gc_reader *r)
{
	const struct runtime_places *places = &r->runtime.places;
	const bool is_complete = r->runtime.layout.has_domains
					 ? places->n_domains && places->minor_collections &&
						   places->major_collections
					 : places->caml_state && places->allocated_words;

	if (is_complete)
		return 0;
	return ctx_error(r->ctx, -ENODATA,
			 "%s: does not tell where its runtime keeps its figures%s", r->exe,
			 r->runtime.is_stripped ? " (it is stripped)" : "");
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
	return err ? err : check_places(r);
}

static int allocate(struct gc_reader *r)
{
	if (!r->runtime.layout.has_domains)
		return 0;
	r->states = calloc(MAX_SLOTS, sizeof(*r->states));
	r->heaps = calloc(MAX_SLOTS, sizeof(*r->heaps));
	r->copies = calloc(MAX_SLOTS, sizeof(*r->copies));
	r->later = calloc(MAX_SLOTS, sizeof(*r->later));
	r->domains = calloc(MAX_SLOTS, sizeof(*r->domains));
	r->trial = calloc(MAX_SLOTS, sizeof(*r->trial));
	return r->states && r->heaps && r->copies && r->later && r->domains && r->trial
		       ? 0
		       : ctx_no_memory(r->ctx);
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
	if (!err)
		err = allocate(r);
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
	free(r->states);
	free(r->heaps);
	free(r->copies);
	free(r->later);
	free(r->domains);
	free(r->trial);
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
