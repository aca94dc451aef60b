// SPDX-License-Identifier: MIT
/*
 * The callbacks of Gc.Memprof write their events into a tool's ring, unless the tool reads them at the
 * probes. They never wait.
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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memprof_state.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	MAX_DOMAINS = 4096, /* of OCaml 5.3 */
	AHEAD_LINES = 4,
};

/* Of one domain, and only used by the thread that runs OCaml code in it. */
struct writer {
	uint64_t is_writing;
	/* Of the last event, if that was a promotion or deallocation: the collections so far, and the time. */
	uint64_t collections, time_ns;
} __attribute__((aligned(64)));

/*
 * IS_WRITING is set before RING is read, and RING is set before IS_WRITING is read: whoever comes late
 * finds no ring, and who has found it is waited for. The order of the former is the work of membarrier(2) in
 * the latter, or of a fence where the kernel has no such call. FORKS: threads that count a fork there.
 */
static struct {
	struct memprof_ring *ring;
	uint64_t data, epoch;
	uint64_t next_id;
	uint64_t tail; /* of the ring, as it was at some time */
	uint64_t forks;
	bool needs_fence;
	bool by_probes; /* events are not written */
	struct writer writers[MAX_DOMAINS];
} events = { .next_id = 1 };

void memprof_events_open(struct memprof_ring *ring, uint64_t data, uint64_t epoch, bool by_probes)
{
	events.data = data;
	events.by_probes = by_probes;
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
	for (size_t i = 0; i < MAX_DOMAINS; i++)
		while (__atomic_load_n(&events.writers[i].is_writing, __ATOMIC_SEQ_CST))
			usleep(100);
}

void memprof_events_forget(void)
{
	events.ring = NULL;
	events.forks = 0;
	for (size_t i = 0; i < MAX_DOMAINS; i++)
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

/* ---- records ---------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Runtimes that have no Gc.Memprof have no events. */
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

/* For the probes: the same as an int of OCaml. */
EXPORT value ocaml_probes_memprof_collections(value unit)
{
	(void)unit;
	return Val_long(collections() & INT64_MAX >> 1);
}

static uint32_t domain(void)
{
#if OCAML_VERSION >= 50300
	return (uint32_t)Caml_state->unique_id;
#else
	return 0;
#endif
}

EXPORT value ocaml_probes_memprof_domain(value unit)
{
	(void)unit;
	return Val_long(domain());
}

static struct writer *own_writer(void)
{
#if OCAML_VERSION >= 50000
	return &events.writers[(size_t)Caml_state->id % MAX_DOMAINS];
#else
	return events.writers;
#endif
}

/* Is no other thread in this file now, writing? The caller's domain may be the only one. */
static bool is_alone(void)
{
#if OCAML_VERSION >= 50000
	return atomic_load_explicit(&caml_num_domains_running, memory_order_relaxed) == 1;
#else
	return true;
#endif
}

/* The ring for events of EPOCH, or NULL. Until leave() it exists. */
static struct memprof_ring *enter(struct writer *writer, value epoch)
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

/* No locked instruction, there and here: it would wait until the reader's processor has given memory away. */
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

/* Move HEAD from *FROM to TO. If another writer has moved it, *FROM is where it is now. */
static bool move_head(struct memprof_ring *ring, uint64_t *from, uint64_t to)
{
	if (!is_alone())
		return __atomic_compare_exchange_n(&ring->head, from, to, true, __ATOMIC_ACQ_REL,
						   __ATOMIC_RELAXED);
	__atomic_store_n(&ring->head, to, __ATOMIC_RELEASE);
	return true;
}

/* The tool can write anything there. It moves its tail often, so that is looked at when it matters. */
static bool has_room(const struct memprof_ring *ring, uint64_t head, uint64_t bytes, uint64_t limit)
{
	uint64_t used = head - __atomic_load_n(&events.tail, __ATOMIC_RELAXED);

	if (used <= limit && used + bytes <= limit)
		return true;
	__atomic_store_n(&events.tail, __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELAXED);
	used = head - __atomic_load_n(&events.tail, __ATOMIC_RELAXED);
	return used <= limit && used + bytes <= limit;
}

/* The next records come where the reader's processor has written last. */
static void prefetch_next(const uint64_t *at, uint64_t offset)
{
	for (uint64_t i = 1; i <= AHEAD_LINES; i++)
		__builtin_prefetch((const char *)at + (offset & ~UINT64_C(63)) + 64 * i, 1);
}

/*
 * Room for a record of WORDS, or NULL. The last quarter of the ring is for promotions and deallocations:
 * blocks whose end is not known would look like leaks.
 */
static uint64_t *reserve(struct memprof_ring *ring, uint64_t words, bool is_allocation)
{
	const uint64_t data = events.data, bytes = 8 * words,
		       limit = is_allocation ? data - data / 4 : data;
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
	__atomic_store_n(&at[offset / 8], memprof_head(MEMPROF_PADDING, padding / 8, 0),
			 __ATOMIC_RELEASE);
	return at;
}

static void lose(struct memprof_ring *ring, enum memprof_kind kind, uint64_t n_samples)
{
	__atomic_add_fetch(&ring->lost[kind], 1, __ATOMIC_RELAXED);
	if (n_samples)
		__atomic_add_fetch(&ring->lost_samples, n_samples, __ATOMIC_RELAXED);
}

/* The events after a collection have one time: reading the clock costs as much as the rest. */
static uint64_t time_of(struct writer *writer, enum memprof_kind kind, uint64_t at)
{
	if (kind > MEMPROF_ALLOC_MAJOR && writer->time_ns && writer->collections == at)
		return writer->time_ns;
	writer->collections = at;
	writer->time_ns = 0;
	if (kind <= MEMPROF_ALLOC_MAJOR)
		return now_ns();
	writer->time_ns = now_ns();
	return writer->time_ns;
}

static uint64_t *begin(struct memprof_ring *ring, struct writer *writer, enum memprof_kind kind,
		       uint64_t words, uint64_t id)
{
	uint64_t *record = reserve(ring, words, kind <= MEMPROF_ALLOC_MAJOR);

	if (record) {
		const uint64_t at = collections();

		record[MEMPROF_TIME] = time_of(writer, kind, at);
		record[MEMPROF_ID] = id;
		record[MEMPROF_COLLECTIONS] = at;
	}
	return record;
}

static void finish(uint64_t *record, enum memprof_kind kind, uint64_t words)
{
	__atomic_store_n(&record[MEMPROF_HEAD], memprof_head(kind, words, domain()),
			 __ATOMIC_RELEASE);
}

/* ---- allocations ------------------------------------------------------------------------------ */

/* SLOT of a raw backtrace: a frame descriptor, which begins with the return address, or debuginfo. */
static uint64_t frame_of(value slot)
{
	const uintnat address = (uintnat)slot & ~(uintnat)3;

	if ((uintnat)slot & 2)
		return address | MEMPROF_DEBUGINFO;
	return *(const uintnat *)address;
}

static intnat write_allocation(struct memprof_ring *ring, struct writer *writer,
			       enum memprof_kind kind, value info)
{
	const value stack = Field(info, 3);
	const uint64_t n_samples = (uint64_t)Long_val(Field(info, 0)), all = Wosize_val(stack),
		       depth = all < MEMPROF_MAX_DEPTH ? all : MEMPROF_MAX_DEPTH,
		       words = MEMPROF_STACK + depth, id = new_id();
	uint64_t *record;

	if (events.by_probes)
		return (intnat)id;
	record = begin(ring, writer, kind, words, id);
	if (!record) {
		lose(ring, kind, n_samples);
		return 0;
	}
	record[MEMPROF_SAMPLES] = n_samples;
	record[MEMPROF_SIZE] = (uint64_t)Long_val(Field(info, 1));
	record[MEMPROF_SOURCE] = (uint64_t)Long_val(Field(info, 2)) | depth << 8;
	for (uint64_t i = 0; i < depth; i++)
		record[MEMPROF_STACK + i] = frame_of(Field(stack, i));
	finish(record, kind, words);
	return (intnat)id;
}

/*
 * INFO is a Gc.Memprof.allocation. The result is the block's number, 0 if the event is lost, or -1 if
 * the session has ended.
 */
EXPORT value ocaml_probes_memprof_allocate(value epoch, value kind, value info)
{
	struct writer *writer = own_writer();
	struct memprof_ring *ring = enter(writer, epoch);
	intnat id = -1;

	if (ring)
		id = write_allocation(ring, writer, (enum memprof_kind)Int_val(kind), info);
	leave(writer);
	return Val_long(id);
}

static void write_change(struct memprof_ring *ring, struct writer *writer, enum memprof_kind kind,
			 uint64_t id)
{
	uint64_t *record = begin(ring, writer, kind, MEMPROF_WORDS, id);

	if (record)
		finish(record, kind, MEMPROF_WORDS);
	else
		lose(ring, kind, 0);
}

/*
 * Something has happened to the block ID. The result is that of ocaml_probes_memprof_collections, or -1 if
 * the session has ended.
 */
EXPORT value ocaml_probes_memprof_change(value epoch, value kind, value id)
{
	struct writer *writer = own_writer();
	struct memprof_ring *ring = enter(writer, epoch);

	if (ring && !events.by_probes)
		write_change(ring, writer, (enum memprof_kind)Int_val(kind),
			     (uint64_t)Long_val(id));
	leave(writer);
	return ring ? ocaml_probes_memprof_collections(Val_unit) : Val_long(-1);
}
