// SPDX-License-Identifier: MIT
/*
 * The callbacks of Gc.Memprof write their events into a tool's ring, unless the tool reads them at
 * the probes. They never wait.
 */
#define CAML_INTERNALS
#include <caml/mlvalues.h>
#include <caml/version.h>
#if OCAML_VERSION >= 50000
#include <caml/domain.h>
#include <caml/gc_ctrl.h>
#include <caml/minor_gc.h>
#else
#include <caml/domain_state.h>
#endif
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memprof_state.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	AHEAD_LINES = 4,
	CHUNK = 8, /* slots of a call stack that are compared at a time */
};

/* The fields of the block that OCaml reads as type `told` (ocaml_probes_memprof.ml). */
enum told { TOLD_ID, TOLD_MINORS, TOLD_MAJORS, TOLD_DOMAIN, TOLD_FIELDS };

/*
 * The writer of one domain. Only the thread that runs OCaml code in the domain uses it. All members
 * except IS_WRITING hold what the writer's records in the session EPOCH have already said: the next
 * record contains only what differs.
 */
struct writer {
	uint64_t is_writing;
	uint64_t epoch, collections;
	/* The time of the last event if it was a promotion or a deallocation; otherwise 0. */
	uint64_t change_time;
	uint32_t domain;
	uint32_t depth; /* of the call stack of the last allocation */
	/*
	 * The raw backtrace of the last allocation, at the end of MEMPROF_MAX_DEPTH slots, with the
	 * outermost frame last. NULL before the first allocation.
	 */
	value *stack;
	header_t told_header;
	value told[TOLD_FIELDS];
} __attribute__((aligned(64)));

/*
 * A writer sets IS_WRITING before it reads RING. memprof_events_close() clears RING before it reads
 * IS_WRITING. So a late writer finds no ring, and memprof_events_close() waits for a writer that
 * has found the ring. membarrier(2) in memprof_events_close() enforces the order of the writer's
 * accesses; where the kernel lacks this call, a fence of the writer does. FORKS is the number of
 * threads that are counting a fork in the ring.
 */
static struct {
	struct memprof_ring *ring;
	uint64_t data, epoch;
	uint64_t allocations; /* the most bytes in use before an allocation */
	uint64_t next_id;
	uint64_t tail; /* a copy of the ring's tail, possibly old */
	uint64_t forks;
	bool needs_fence;
	bool by_probes; /* tools read the probes: write no events */
	bool in_ticks;	/* times are ticks: the tool trusts the time stamp counter */
	struct writer writers[MEMPROF_MAX_WRITERS];
} events = { .next_id = 1 };

void memprof_events_open(struct memprof_ring *ring, uint64_t data, uint64_t epoch, uint32_t flags)
{
	events.data = data;
	events.allocations = data - data / 4;
	events.by_probes = flags & MEMPROF_BY_PROBES;
	events.in_ticks = flags & MEMPROF_IN_TICKS;
	__atomic_store_n(&ring->session, epoch, __ATOMIC_RELEASE);
	events.tail = 0;
	events.needs_fence =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
	__atomic_store_n(&events.epoch, epoch, __ATOMIC_SEQ_CST);
	__atomic_store_n(&events.ring, ring, __ATOMIC_SEQ_CST);
}

void memprof_events_close(void)
{
	__atomic_store_n(&events.ring, NULL, __ATOMIC_SEQ_CST);
	if (!events.needs_fence)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	while (__atomic_load_n(&events.forks, __ATOMIC_SEQ_CST))
		usleep(100);
	for (size_t i = 0; i < MEMPROF_MAX_WRITERS; i++)
		while (__atomic_load_n(&events.writers[i].is_writing, __ATOMIC_SEQ_CST))
			usleep(100);
}

void memprof_events_forget(void)
{
	events.ring = NULL;
	events.forks = 0;
	for (size_t i = 0; i < MEMPROF_MAX_WRITERS; i++)
		if (events.writers[i].is_writing)
			events.writers[i].is_writing = 0;
}

void memprof_events_count_fork(void)
{
	struct memprof_ring *ring;

	__atomic_add_fetch(&events.forks, 1, __ATOMIC_SEQ_CST);
	ring = __atomic_load_n(&events.ring, __ATOMIC_SEQ_CST);
	if (ring)
		__atomic_add_fetch(&ring->forks, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&events.forks, 1, __ATOMIC_SEQ_CST);
}

/* ---- records --------------------------------------------------------------------------------- */

/* The time in nanoseconds or in ticks, as the tool has requested. */
static __always_inline uint64_t time_now(void)
{
	struct timespec now;

	if (events.in_ticks)
		return __builtin_ia32_rdtsc();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The numbers of collections so far. 0 on runtimes without Gc.Memprof, which have no events. */
static uint64_t collections(void)
{
#if OCAML_VERSION >= 50300
	return (uint32_t)atomic_load(&caml_minor_collections_count) |
	       (uint64_t)caml_major_cycles_completed << 32;
#elif OCAML_VERSION >= 50000
	return 0;
#else
	return (uint32_t)Caml_state_field(stat_minor_collections) |
	       (uint64_t)Caml_state_field(stat_major_collections) << 32;
#endif
}

static uint32_t domain(void)
{
#if OCAML_VERSION >= 50300
	return (uint32_t)Caml_state->unique_id;
#else
	return 0;
#endif
}

static struct writer *own_writer(void)
{
#if OCAML_VERSION >= 50000
	return &events.writers[(size_t)Caml_state->id % MEMPROF_MAX_WRITERS];
#else
	return events.writers;
#endif
}

/* Return ID and the other arguments of the probes, in a block outside of OCaml's heap. */
static __always_inline value tell(struct writer *writer, intnat id, uint64_t at)
{
	_Static_assert(offsetof(struct writer, told) ==
			       offsetof(struct writer, told_header) + sizeof(header_t),
		       "a block begins behind its header");
	writer->told_header = Caml_out_of_heap_header(TOLD_FIELDS, 0);
	writer->told[TOLD_ID] = Val_long(id);
	writer->told[TOLD_MINORS] = Val_long((uint32_t)at);
	writer->told[TOLD_MAJORS] = Val_long(at >> 32);
	writer->told[TOLD_DOMAIN] = Val_long(domain());
	return (value)writer->told;
}

static unsigned int number_of(const struct writer *writer)
{
	return (unsigned int)(writer - events.writers);
}

/* Is the caller's domain the only one, so that no other thread can be writing events? */
static bool is_alone(void)
{
#if OCAML_VERSION >= 50000
	return atomic_load_explicit(&caml_num_domains_running, memory_order_relaxed) == 1;
#else
	return true;
#endif
}

/* Return the ring for events of EPOCH, or NULL. The ring stays mapped until leave(). */
static __always_inline struct memprof_ring *enter(struct writer *writer, value epoch)
{
	struct memprof_ring *ring;

	__atomic_store_n(&writer->is_writing, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (events.needs_fence)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ring = __atomic_load_n(&events.ring, __ATOMIC_SEQ_CST);
	if (!ring || __atomic_load_n(&events.epoch, __ATOMIC_RELAXED) != (uint64_t)Long_val(epoch))
		return NULL;
	return ring;
}

/*
 * enter() and leave() use no locked instruction: it would wait until the reader's processor has
 * released the cache line.
 */
static void leave(struct writer *writer)
{
	__atomic_store_n(&writer->is_writing, 0, __ATOMIC_RELEASE);
}

static uint64_t new_id(void)
{
	if (!is_alone())
		return __atomic_fetch_add(&events.next_id, 1, __ATOMIC_RELAXED);
	return events.next_id++;
}

/* Move HEAD from *FROM to TO. If another writer has moved HEAD, set *FROM to its new place. */
static __always_inline bool move_head(struct memprof_ring *ring, uint64_t *from, uint64_t to)
{
	if (!is_alone())
		return __atomic_compare_exchange_n(&ring->head, from, to, true, __ATOMIC_ACQ_REL,
						   __ATOMIC_RELAXED);
	__atomic_store_n(&ring->head, to, __ATOMIC_RELEASE);
	return true;
}

/*
 * Is there room for BYTES below LIMIT? The tool can write any value to the ring's tail. It moves
 * the tail often, so the tail is read only if the copy shows too little room.
 */
static __always_inline bool has_room(const struct memprof_ring *ring, uint64_t head, uint64_t bytes,
				     uint64_t limit)
{
	uint64_t used = head - __atomic_load_n(&events.tail, __ATOMIC_RELAXED);

	if (used <= limit && used + bytes <= limit)
		return true;
	__atomic_store_n(&events.tail, __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELAXED);
	used = head - __atomic_load_n(&events.tail, __ATOMIC_RELAXED);
	return used <= limit && used + bytes <= limit;
}

/* Prefetch the place of the next records, which the reader's processor may have written last. */
static __always_inline void prefetch_next(const uint64_t *at, uint64_t offset)
{
	for (uint64_t i = 1; i <= AHEAD_LINES; i++)
		__builtin_prefetch((const char *)at + (offset & ~UINT64_C(63)) + 64 * i, 1);
}

/* Publish a record: its first word, which is written last, marks it as complete. */
static __always_inline void finish(uint64_t *record, struct memprof_head head)
{
	__atomic_store_n(record, memprof_pack(head), __ATOMIC_RELEASE);
}

/*
 * Reserve room for a record of WORDS; NULL if there is none. The last quarter of the ring is for
 * promotions and deallocations: blocks whose end is not known would look like leaks.
 */
static __always_inline uint64_t *reserve(struct memprof_ring *ring, uint64_t words,
					 bool is_allocation)
{
	const uint64_t data = events.data, bytes = 8 * words,
		       limit = is_allocation ? events.allocations : data;
	uint64_t *const at = (uint64_t *)((char *)ring + MEMPROF_RING_BYTES);
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED), offset, padding;

	do {
		offset = head & (data - 1) & ~UINT64_C(7);
		padding = data - offset < bytes ? data - offset : 0;
		if (!has_room(ring, head, padding + bytes, limit))
			return NULL;
	} while (!move_head(ring, &head, head + padding + bytes));
	prefetch_next(at, (offset + padding + bytes) & (data - 1));
	if (!padding)
		return &at[offset / 8];
	finish(&at[offset / 8], (struct memprof_head){ .kind = MEMPROF_PADDING,
						       .words = (unsigned int)padding / 8 });
	return at;
}

static void lose(struct memprof_ring *ring, enum memprof_kind kind, uint64_t n_samples)
{
	__atomic_add_fetch(&ring->lost[kind], 1, __ATOMIC_RELAXED);
	if (n_samples)
		__atomic_add_fetch(&ring->lost_samples, n_samples, __ATOMIC_RELAXED);
}

/* ---- the contents of a record ---------------------------------------------------------------- */

/*
 * Does the next record need a context, because the collections so far (AT), the session or the
 * domain differ from those of the last record?
 */
static __always_inline bool needs_context(const struct writer *writer, uint64_t at)
{
	return writer->collections != at || writer->epoch != events.epoch ||
	       writer->domain != domain();
}

/* Put ID and, if FLAGS say so, the context into RECORD. Return the place of the next word. */
static __always_inline uint64_t *begin(struct writer *writer, uint64_t *record, unsigned int flags,
				       uint64_t id, uint64_t at)
{
	record[1] = id;
	record += MEMPROF_LEAST_WORDS;
	if (!(flags & MEMPROF_HAS_CONTEXT))
		return record;
	if (writer->epoch != events.epoch)
		writer->depth = 0;
	writer->epoch = events.epoch;
	writer->collections = record[0] = at;
	writer->domain = domain();
	record[1] = writer->domain;
	return record + MEMPROF_CONTEXT_WORDS;
}

/* ---- allocations ----------------------------------------------------------------------------- */

/*
 * Return the frame of SLOT of a raw backtrace. A slot is a frame descriptor, which begins with the
 * return address, or debuginfo.
 */
static uint64_t frame_of(value slot)
{
	const uintnat address = (uintnat)slot & ~(uintnat)3;

	if ((uintnat)slot & 2)
		return address | MEMPROF_DEBUGINFO;
	return *(const uintnat *)address;
}

/* Are CHUNK slots at A and B equal? Compares two slots per register of 16 bytes (SSE2). */
static __always_inline bool is_same_chunk(const value *a, const value *b)
{
	typedef value pair __attribute__((vector_size(16), aligned(8), may_alias));
	const pair *x = (const pair *)a, *y = (const pair *)b;
	const pair differ = (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]);

	return !(differ[0] | differ[1]);
}

/*
 * Return how many of the DEPTH slots that end before END, counted from the outermost, equal the
 * outermost slots of the last allocation.
 */
static uint64_t count_kept(const struct writer *writer, const value *end, uint64_t depth)
{
	const uint64_t most = writer->depth < depth ? writer->depth : depth;
	const value *last = writer->stack + MEMPROF_MAX_DEPTH;
	uint64_t n = 0;

	if (writer->epoch != events.epoch)
		return 0;
	while (n + CHUNK <= most && is_same_chunk(end - n - CHUNK, last - n - CHUNK))
		n += CHUNK;
	while (n < most && end[-1 - (intnat)n] == last[-1 - (intnat)n])
		n++;
	return n;
}

/*
 * Write the FRESH innermost frames of the DEPTH slots at STACK to FRAMES, and keep all slots for
 * the next comparison.
 */
static void write_frames(struct writer *writer, const value *stack, uint64_t depth, uint64_t fresh,
			 uint64_t *frames)
{
	value *last;

	for (uint64_t i = 0; i < fresh; i++)
		frames[i] = frame_of(stack[i]);
	if (!writer->stack)
		writer->stack = malloc(MEMPROF_MAX_DEPTH * sizeof(*writer->stack));
	if (!writer->stack)
		return;
	last = writer->stack + MEMPROF_MAX_DEPTH - depth;
	for (uint64_t i = 0; i < fresh; i++)
		last[i] = stack[i];
	writer->depth = (uint32_t)depth;
}

static intnat write_allocation(struct memprof_ring *ring, struct writer *writer,
			       enum memprof_kind kind, value info, uint64_t at)
{
	const value *stack = (const value *)Field(info, 3); /* Field() of OCaml 5 is volatile */
	const uint64_t n_samples = (uint64_t)Long_val(Field(info, 0)),
		       all = Wosize_val(Field(info, 3)),
		       depth = all < MEMPROF_MAX_DEPTH ? all : MEMPROF_MAX_DEPTH, id = new_id(),
		       kept = count_kept(writer, stack + depth, depth);
	const bool context = needs_context(writer, at);
	const unsigned int flags = MEMPROF_HAS_TIME | (context ? MEMPROF_HAS_CONTEXT : 0);
	const uint64_t words =
		MEMPROF_ALLOC_WORDS + (context ? MEMPROF_CONTEXT_WORDS : 0) + depth - kept;
	uint64_t *record, *next;

	if (events.by_probes)
		return (intnat)id;
	record = reserve(ring, words, true);
	if (!record) {
		lose(ring, kind, n_samples);
		return 0;
	}
	next = begin(writer, record, flags, id, at);
	next[0] = time_now();
	next[1] = n_samples;
	next[2] = (uint64_t)Long_val(Field(info, 1)) | (uint64_t)Long_val(Field(info, 2))
							       << MEMPROF_SOURCE_SHIFT;
	write_frames(writer, stack, depth, depth - kept, next + 3);
	writer->change_time = 0;
	finish(record, (struct memprof_head){ .kind = kind,
					      .flags = flags,
					      .words = (unsigned int)words,
					      .writer = number_of(writer),
					      .kept = (unsigned int)kept });
	return (intnat)id;
}

/*
 * INFO is a Gc.Memprof.allocation. The returned id is the block's number, 0 if the event is lost,
 * or -1 if the session has ended.
 */
EXPORT value ocaml_probes_memprof_allocate(value epoch, value kind, value info)
{
	struct writer *writer = own_writer();
	struct memprof_ring *ring = enter(writer, epoch);
	const uint64_t at = collections();
	intnat id = -1;

	if (ring)
		id = write_allocation(ring, writer, (enum memprof_kind)Int_val(kind), info, at);
	leave(writer);
	return tell(writer, id, at);
}

/*
 * The promotions and deallocations after a collection share one time, because reading the clock
 * costs as much as the rest of an event.
 */
static void write_change(struct memprof_ring *ring, struct writer *writer, enum memprof_kind kind,
			 uint64_t id, uint64_t at)
{
	const bool context = needs_context(writer, at), time = context || !writer->change_time;
	const unsigned int flags =
		(context ? MEMPROF_HAS_CONTEXT : 0) | (time ? MEMPROF_HAS_TIME : 0);
	const uint64_t words = MEMPROF_LEAST_WORDS + (context ? MEMPROF_CONTEXT_WORDS : 0) + time;
	uint64_t *record = reserve(ring, words, false), *next;

	if (!record) {
		lose(ring, kind, 0);
		return;
	}
	next = begin(writer, record, flags, id, at);
	if (time)
		next[0] = writer->change_time = time_now();
	finish(record, (struct memprof_head){ .kind = kind,
					      .flags = flags,
					      .words = (unsigned int)words,
					      .writer = number_of(writer) });
}

/*
 * Record that the block ID was promoted or freed, as KIND says. The returned id is ID, or -1 if the
 * session has ended.
 */
EXPORT value ocaml_probes_memprof_change(value epoch, value kind, value id)
{
	struct writer *writer = own_writer();
	struct memprof_ring *ring = enter(writer, epoch);
	const uint64_t at = collections();

	if (ring && !events.by_probes)
		write_change(ring, writer, (enum memprof_kind)Int_val(kind), (uint64_t)Long_val(id),
			     at);
	leave(writer);
	return tell(writer, ring ? Long_val(id) : -1, at);
}
