// SPDX-License-Identifier: MIT
/*
 * Reads the counts from the maps of the BPF programs. The map `hits` is mapped into our memory.
 * Other maps are read by system calls, large ones in batches. From a per-CPU map we get a value for
 * each possible CPU, whether the CPU is online or not, and add up these values.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/search.h"
#include "measure/args/value.h"
#include "measure/engine/engine_bpf.h"
#include "kernel/pid_namespace.h"
#include "measure_slower.h"
#include "kernel/maps.h"
#include "unwind/stack_store.h"
#include "unwind/stack_walker.h"

/* ---- groups by value ------------------------------------------------------------------------ */
/*
 * Reads the groups of hits and the groups of times from the maps that bpf/measure_by.h describes. A
 * group is created before anything is counted in it, and is never removed. So we can first read the
 * list of groups, and then the times of these groups.
 */

static struct engine_group *append_group(struct engine_reading *reading,
					 const struct measure_by *value)
{
	struct engine_group *group = &reading->groups[reading->n_groups++];

	*group = (struct engine_group){ .value = *value };
	return group;
}

/*
 * Add to READING the group of VALUE, with the times in entry INDEX of by_times. If VALUE is NULL,
 * add the group of all values for which there was no room; INDEX is then the number of the pair.
 */
static int add_times(struct engine *engine, struct engine_reading *reading,
		     const struct measure_by *value, __u32 index, size_t *n_times)
{
	const struct measure_by others = { .what = index };
	struct measure_by_times *times = &reading->group_times[*n_times];
	struct engine_group *group;
	int err = bpf_map_lookup_elem(engine->object.by_times, &index, times);

	if (err)
		return bpf_support_explain(engine->ctx, err, "reading the groups");
	if (!times->count)
		return 0;
	(*n_times)++;
	group = append_group(reading, value ? value : &others);
	group->is_others = !value;
	group->times = times;
	group->hits = times->count;
	return 0;
}

static int read_times(struct engine *engine, struct engine_reading *reading,
		      const struct measure_by *values, const __u32 *indices, size_t n)
{
	size_t n_times = 0;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = add_times(engine, reading, &values[i], indices[i], &n_times);
	for (__u32 i = 0; !err && i < engine->n_pairs; i++)
		err = add_times(engine, reading, NULL, i, &n_times);
	return err;
}

/* The contents of a map, as read by read_map(). */
struct entries {
	void *keys, *values;
	size_t n;
};

static int read_map(struct engine *engine, int map, size_t key_bytes, size_t value_bytes,
		    size_t room, struct entries *entries)
{
	return map_read_all(engine->ctx, map, key_bytes, value_bytes, room ? room : 1,
			    &entries->keys, &entries->values, &entries->n);
}

static void free_entries(struct entries *entries)
{
	free(entries->keys);
	free(entries->values);
}

static void append_hit_groups(struct engine_reading *reading, const struct entries *groups,
			      const struct entries *others)
{
	const struct measure_by *values = groups->keys;
	const __u64 *hits = groups->values, *other_hits = others->values;

	/* Skip a group that was just created and has no hits yet. */
	for (size_t i = 0; i < groups->n; i++)
		if (hits[i])
			append_group(reading, &values[i])->hits = hits[i];
	for (__u32 probe = 0; probe < others->n; probe++) {
		const struct measure_by value = { .what = probe };
		struct engine_group *group;

		if (!other_hits[probe])
			continue;
		group = append_group(reading, &value);
		group->is_others = true;
		group->hits = other_hits[probe];
	}
}

/* Read the groups into READING. Return 0, -ENOMEM or the kernel's error. */
static int engine_bpf_read_groups(struct engine *engine, struct engine_reading *reading)
{
	const struct bpf_object *object = &engine->object;
	struct entries probes = { 0 }, others = { 0 }, pairs = { 0 };
	size_t n_times;
	int err = read_map(engine, object->by_hits, sizeof(struct measure_by), sizeof(__u64),
			   engine->by.max_hits, &probes);

	if (!err)
		err = read_map(engine, object->by_others, sizeof(__u32), sizeof(__u64),
			       engine->max_sites, &others);
	if (!err && engine->n_pairs)
		err = read_map(engine, object->by_pairs, sizeof(struct measure_by), sizeof(__u32),
			       engine->by.max_times, &pairs);
	n_times = pairs.n + engine->n_pairs;
	reading->groups = calloc(probes.n + others.n + n_times + 1, sizeof(*reading->groups));
	reading->group_times = calloc(n_times + 1, sizeof(*reading->group_times));
	if (!err && (!reading->groups || !reading->group_times))
		err = ctx_no_memory(engine->ctx);
	if (!err) {
		append_hit_groups(reading, &probes, &others);
		err = read_times(engine, reading, pairs.keys, pairs.values, pairs.n);
	}
	free_entries(&probes);
	free_entries(&others);
	free_entries(&pairs);
	return err;
}

/* ---- stacks --------------------------------------------------------------------------------- */
/* The stacks of hits: prepares the walks in processes, and reads the counts by stack. */

/*
 * Add the executable of the measured program to the walker. PATH names an open descriptor
 * (/proc/self/fd/N).
 */
static int add_program_file(struct engine *engine, const char *path)
{
	const struct walk_inode inode = { engine->config.exe_dev, engine->config.exe_ino };
	char name[PATH_MAX];
	struct stat by_name, st;
	const ssize_t n = readlink(path, name, sizeof(name) - 1);

	/*
	 * The file name is shown for functions without symbols: use the real path if the file still
	 * has it.
	 */
	if (n > 0) {
		name[n] = '\0';
		if (stat(name, &by_name) == 0 && stat(path, &st) == 0 &&
		    by_name.st_dev == st.st_dev && by_name.st_ino == st.st_ino)
			path = name;
	}
	return stack_walker_add_file(engine->walker, path, &inode);
}

int engine_bpf_open_stacks(struct engine *engine, const char *exe)
{
	const struct walk_maps maps = {
		.tables = engine->object.walk_tables,
		.rules = engine->object.walk_rules,
		.processes = engine->object.walk_processes,
		.files = engine->object.walk_files,
		.news = engine->object.walk_news,
	};

	int err = stack_walker_open(engine->ctx, &maps, &engine->walker);

	return err || !exe ? err : add_program_file(engine, exe);
}

int engine_bpf_walk(struct engine *engine, pid_t pid)
{
	const struct pid_namespace ns = { engine->config.pidns_dev, engine->config.pidns_ino };
	uint32_t id;
	int err = pid_namespace_id(engine->ctx, &ns, pid, &id);

	return err ? err : stack_walker_add_process(engine->walker, pid, id);
}

/*
 * Refresh the walker. Then add the newcomers to it: processes whose stacks were walked although
 * they had not been added. This makes their walks faster. Do not add a newcomer whose id in the BPF
 * programs' pid namespace differs from its id in ours.
 */
int engine_bpf_refresh_stacks(struct engine *engine)
{
	const struct pid_namespace ns = { engine->config.pidns_dev, engine->config.pidns_ino };
	const uint32_t *newcomers;
	size_t n;
	int err = stack_walker_refresh(engine->walker);

	newcomers = stack_walker_newcomers(engine->walker, &n);
	for (size_t i = 0; i < n && !err; i++) {
		uint32_t id;

		if (pid_namespace_id(engine->ctx, &ns, (pid_t)newcomers[i], &id) == 0 &&
		    id == newcomers[i])
			stack_walker_add_process(engine->walker, (pid_t)id, id);
	}
	return err;
}

struct stack_walker *engine_bpf_walker(struct engine *engine)
{
	return engine->walker;
}

static int read_costs(struct engine *engine, struct measure_walk_costs *sum)
{
	int err = map_sum_counters(engine->object.walk_costs, sum, sizeof(*sum) / sizeof(sum->ns));

	return err ? bpf_support_explain(engine->ctx, err, "reading the stacks") : 0;
}

/*
 * Set *NS to the time spent on walking stacks, for engine_reading.walk_ns, or to 0 if the engine
 * walks no stacks.
 */
static int engine_bpf_read_walk_ns(struct engine *engine, uint64_t *ns)
{
	struct measure_walk_costs costs = { 0 };
	int err = engine->walker ? read_costs(engine, &costs) : 0;

	*ns = costs.ns;
	return err;
}

static struct engine_stack stack_of(const struct stack_store *store,
				    const struct measure_stack_key *key,
				    const struct measure_stack_count *count)
{
	return (struct engine_stack){
		.stack = key->stack == MEASURE_STACK_LOST ? NULL
							  : stack_store_find(store, key->stack),
		.number = key->what & ~(uint32_t)MEASURE_STACK_PAIR,
		.is_pair = key->what & MEASURE_STACK_PAIR,
		.count = *count,
	};
}

static int read_counts(struct engine *engine, struct measure_stack_key **keys,
		       struct measure_stack_count **counts, size_t *n)
{
	void *its_keys, *values;
	int err = map_read_all(engine->ctx, engine->object.stack_counts, sizeof(**keys),
			       sizeof(**counts), MEASURE_MAX_STACK_COUNTS, &its_keys, &values, n);

	*keys = its_keys;
	*counts = values;
	return err;
}

int engine_bpf_read_stacks(struct engine *engine, struct engine_stacks *stacks)
{
	const struct stack_maps maps = { engine->object.stacks, engine->object.stack_losses };
	struct measure_stack_key *keys;
	struct measure_stack_count *counts;
	size_t n;
	int err;

	*stacks = (struct engine_stacks){ 0 };
	/* Read the counts before the stacks: a stack is stored before it is counted. */
	err = read_counts(engine, &keys, &counts, &n);
	if (!err)
		err = stack_store_read(engine->ctx, &maps, &stacks->store);
	if (!err)
		stacks->list = calloc(n + 1, sizeof(*stacks->list));
	if (!err && !stacks->list)
		err = ctx_no_memory(engine->ctx);
	for (size_t i = 0; !err && i < n; i++)
		stacks->list[stacks->n++] = stack_of(stacks->store, &keys[i], &counts[i]);
	if (!err)
		err = stack_losses_read(engine->ctx, &maps, &stacks->losses);
	if (!err)
		err = read_costs(engine, &stacks->costs);
	free(keys);
	free(counts);
	return err;
}

/* ---- the ring buffer ------------------------------------------------------------------------ */
/*
 * Reads the ring buffer of printed hits in place. libbpf's reader prints errors to stderr, and
 * cannot look at a record without consuming it. The kernel maps the data twice in a row, so that
 * every record is contiguous.
 *
 * Order. In the buffer, records are in the order of their reservation, but we pass them on in the
 * order of their times. These two orders differ if a task is interrupted, for any length of time,
 * after it has reserved a record and before it reads the time of the record. But a record's time is
 * always later than its reservation. So each call of print_ring_take() remembers a time T (mark_ns)
 * and then the position P (mark) up to which records are reserved: all records from P on are newer
 * than T. Once all records before the P of the previous call are complete, no further record up to
 * that call's T can appear. The current call then sorts all records up to that T and passes them
 * on.
 *
 * The buffer can only be consumed from its beginning. So a record that was passed on stays in the
 * buffer while a record before it was not passed on. The next call recognises such a record by its
 * position and time (seen, seen_ns), and does not pass it on again.
 */

/*
 * An upper bound of the time until other processors see a reservation; the real time is much
 * shorter.
 */
enum { SETTLED_NS = 1000 * 1000 };

/* A record to pass on. */
struct found_record {
	const struct hit_record *record;
};

struct print_ring {
	unsigned long *consumer; /* the consumer's position in bytes; positions only increase */
	const unsigned long *producer;
	const char *data;
	void *producer_page;
	size_t page, bytes, record_bytes;
	unsigned long mark; /* end of the reserved records at the previous call */
	uint64_t mark_ns;   /* a time: all records from `mark` on are newer */
	uint64_t passed_ns; /* a time: all records up to it were passed on */
	unsigned long seen; /* the previous call has considered all records before this position */
	/* records before `seen` were passed on if they are not newer than this */
	uint64_t seen_ns;
	struct found_record *batch;
	size_t n;
	struct slow_record whole; /* see whole_form() */
};

int print_ring_open(int map_fd, size_t bytes, unsigned int depth, struct print_ring **out)
{
	struct print_ring *ring = calloc(1, sizeof(*ring));
	void *at;
	int err;

	if (!ring)
		return -ENOMEM;
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ring->bytes = bytes;
	ring->record_bytes = depth ? measure_stack_record_bytes(depth) : sizeof(struct hit_record);
	at = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (at != MAP_FAILED) {
		ring->consumer = at;
		at = mmap(NULL, ring->page + 2 * bytes, PROT_READ, MAP_SHARED, map_fd,
			  (off_t)ring->page);
	}
	if (at == MAP_FAILED) {
		err = -errno;
		print_ring_close(ring);
		return err;
	}
	ring->producer_page = at;
	ring->producer = at;
	ring->data = (const char *)at + ring->page;
	*out = ring;
	return 0;
}

void print_ring_close(struct print_ring *ring)
{
	if (!ring)
		return;
	if (ring->consumer)
		munmap(ring->consumer, ring->page);
	if (ring->producer_page)
		munmap(ring->producer_page, ring->page + 2 * ring->bytes);
	free(ring->batch);
	free(ring);
}

static int add_to_batch(struct print_ring *ring, const struct hit_record *record)
{
	struct found_record *new = array_add(ring->batch, ring->n);

	if (!new)
		return -ENOMEM;
	new->record = record;
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	const struct hit_record *x = ((const struct found_record *)a)->record,
				*y = ((const struct found_record *)b)->record;

	if (x->ts_ns != y->ts_ns)
		return COMPARE(x->ts_ns, y->ts_ns);
	/* Records with equal times keep the order of the buffer. */
	return COMPARE(x, y);
}

static uint32_t header_at(const struct print_ring *ring, unsigned long at)
{
	const char *header = ring->data + (at & (ring->bytes - 1));

	return __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);
}

static unsigned long next_of(unsigned long at, uint32_t header)
{
	const uint32_t n = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

	return at + ((BPF_RINGBUF_HDR_SZ + n + 7) & ~7UL);
}

/* Return the end of the complete records at the beginning of the buffer. */
static unsigned long find_end(const struct print_ring *ring, unsigned long produced)
{
	unsigned long at = *ring->consumer;
	uint32_t header;

	for (; at < produced; at = next_of(at, header)) {
		header = header_at(ring, at);
		if (header & BPF_RINGBUF_BUSY_BIT)
			break;
	}
	return at;
}

/* Return true if the N bytes of RECORD are enough for its kind. */
static bool is_whole(const struct print_ring *ring, const struct hit_record *record, size_t n)
{
	if (n < sizeof(struct slow_short))
		return false;
	switch (record->kind) {
	case RECORD_SLOW_SHORT:
		return true;
	case RECORD_SLOW:
		return n >= sizeof(struct slow_record);
	default:
		return n >= ring->record_bytes;
	}
}

/*
 * Return RECORD, or the whole form of a short record. The whole form is valid until the next call.
 * Returns NULL if a short record has more arguments than it has room for.
 */
static const struct hit_record *whole_form(struct print_ring *ring, const struct hit_record *record)
{
	const size_t head = HIT_HEAD_WORDS * sizeof(uint64_t);
	struct slow_record *whole = &ring->whole;
	const struct slow_short *slow;

	if (record->kind != RECORD_SLOW_SHORT)
		return record;
	slow = (const struct slow_short *)(const void *)record;
	memcpy(&whole->stop, slow->stop, head);
	memcpy(&whole->start, slow->start, head);
	memcpy(whole->start.nodes, slow->nodes, sizeof(slow->nodes));
	whole->stop.kind = RECORD_SLOW;
	whole->ns = slow->ns;
	whole->pair = slow->pair;
	whole->has_start = slow->has_start;
	if (whole->stop.n_nodes ||
	    (whole->has_start && (whole->start.n_nodes > SLOW_SHORT_NODES || whole->start.n_text)))
		return NULL;
	return &whole->stop;
}

/*
 * Return true if the arguments of RECORD are valid and, for a slow pair, the arguments of its
 * start.
 */
static bool is_valid(const struct hit_record *record)
{
	const struct slow_record *slow;

	if (!value_record_is_sound(record, sizeof(*record)))
		return false;
	if (record->kind != RECORD_SLOW)
		return true;
	slow = (const struct slow_record *)record;
	return !slow->has_start || value_record_is_sound(&slow->start, sizeof(slow->start));
}

/*
 * Collect the records before position END that are not newer than UNTIL_NS and have not been passed
 * on. Set *KEEP to the position of the first record that must stay in the buffer.
 */
static int collect_records(struct print_ring *ring, unsigned long end, uint64_t until_ns,
			   unsigned long *keep)
{
	unsigned long at = *ring->consumer;
	bool keeps = false;
	int err = 0;

	ring->n = 0;
	*keep = at;
	while (!err && at < end) {
		const uint32_t header = header_at(ring, at);
		const unsigned long next = next_of(at, header);
		const struct hit_record *record =
			(const void *)(ring->data + (at & (ring->bytes - 1)) + BPF_RINGBUF_HDR_SZ);
		const bool is_sound = !(header & BPF_RINGBUF_DISCARD_BIT) &&
				      is_whole(ring, record, next - at - BPF_RINGBUF_HDR_SZ);

		if (is_sound && record->ts_ns > until_ns)
			keeps = true;
		else if (is_sound && !(at < ring->seen && record->ts_ns <= ring->seen_ns))
			err = add_to_batch(ring, record);
		at = next;
		if (!keeps)
			*keep = at;
	}
	return err;
}

/* Set *STACK to the stack of RECORD and return STACK, or NULL if RECORD has no stack. */
static const struct stored_stack *stack_of_record(const struct print_ring *ring,
						  const struct hit_record *record,
						  struct stored_stack *stack)
{
	const struct measure_stack_record *walked = (const void *)record;

	if (record->kind != RECORD_HIT || ring->record_bytes == sizeof(*record) ||
	    walked->end >= WALK_ENDS || measure_stack_record_bytes(walked->n) > ring->record_bytes)
		return NULL;
	*stack = (struct stored_stack){ .end = (enum walk_end)walked->end,
					.n = walked->n,
					.frames = (const uint64_t *)walked->frames };
	return stack;
}

int print_ring_take(struct print_ring *ring, bool all, engine_print_fn fn, void *data)
{
	const uint64_t now_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC) - SETTLED_NS;
	const unsigned long produced = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	const unsigned long end = find_end(ring, produced);
	/*
	 * If more than half of the buffer is in use, pass on everything, even if the order may be
	 * wrong.
	 */
	const bool is_short = produced - *ring->consumer > ring->bytes / 2;
	struct stored_stack stack;
	const uint64_t until_ns = all || is_short ? UINT64_MAX : ring->mark_ns;
	unsigned long keep;
	int err;

	if (!all && !is_short && end < ring->mark)
		return 0;
	err = collect_records(ring, end, until_ns, &keep);
	if (err)
		return err;
	if (ring->n)
		qsort(ring->batch, ring->n, sizeof(*ring->batch), compare_times);
	for (size_t i = 0; i < ring->n; i++) {
		const struct hit_record *record = whole_form(ring, ring->batch[i].record);

		if (record && is_valid(record))
			fn(data, record, stack_of_record(ring, record, &stack));
	}
	if (end >= ring->mark)
		ring->passed_ns = ring->mark_ns;
	ring->mark = produced;
	ring->mark_ns = now_ns;
	ring->seen = end;
	ring->seen_ns = until_ns;
	__atomic_store_n(ring->consumer, keep, __ATOMIC_RELEASE);
	return 0;
}

int64_t print_ring_until(const struct print_ring *ring)
{
	return (int64_t)ring->passed_ns;
}

/* ---- counts --------------------------------------------------------------------------------- */

/* How many entries to read per system call; the buffers have this size. */
enum { KEYS_A_BATCH = 1024 };

_Static_assert(sizeof(((struct engine_histogram *)0)->below_0) ==
		       sizeof(((struct measure_histogram *)0)->below_0),
	       "one histogram");
_Static_assert(sizeof(((struct domain_pair *)0)->buckets) ==
		       sizeof(((struct measure_pair *)0)->buckets),
	       "one histogram");

static int report_read_error(struct engine *engine, int err)
{
	return ctx_error(engine->ctx, err, "measuring: reading the maps: %s", strerror(-err));
}

int engine_bpf_map_hits(struct engine *engine)
{
	struct bpf_map_info info = { 0 };
	__u32 bytes = sizeof(info);
	int err = bpf_map_get_info_by_fd(engine->object.hits, &info, &bytes);
	void *hits;

	if (err)
		return report_read_error(engine, err);
	engine->hits_stride = info.max_entries / engine->n_cpus;
	engine->hits_bytes = info.max_entries * sizeof(*engine->hits);
	hits = mmap(NULL, engine->hits_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		    engine->object.hits, 0);
	if (hits == MAP_FAILED)
		return report_read_error(engine, -errno);
	engine->hits = hits;
	return 0;
}

void engine_bpf_unmap_hits(struct engine *engine)
{
	if (engine->hits)
		munmap((void *)engine->hits, engine->hits_bytes);
	engine->hits = NULL;
}

static void read_hits(const struct engine *engine, uint64_t *hits)
{
	memset(hits, 0, engine->n_sites * sizeof(*hits));
	for (size_t cpu = 0; cpu < engine->n_cpus; cpu++)
		for (size_t i = 0; i < engine->n_sites; i++)
			hits[i] += engine->hits[cpu * engine->hits_stride + i];
}

void engine_bpf_take_hits(struct engine *engine, size_t first, size_t n, uint64_t *hits)
{
	memset(hits, 0, n * sizeof(*hits));
	for (size_t cpu = 0; cpu < engine->n_cpus; cpu++) {
		volatile __u64 *its = engine->hits + cpu * engine->hits_stride + first;

		for (size_t i = 0; i < n; i++) {
			hits[i] += its[i];
			its[i] = 0;
		}
	}
}

/* Add PART to SUM, and the histogram of PART to BUCKETS. */
static void add_pair_part(struct ocp_pair *sum, uint64_t *buckets, const struct measure_pair *part)
{
	uint64_t min_ns = ~part->min_ns_not;

	if (part->count && (!sum->count || min_ns < sum->min_ns))
		sum->min_ns = min_ns;
	if (part->max_ns > sum->max_ns)
		sum->max_ns = part->max_ns;
	sum->starts += part->starts;
	sum->count += part->count;
	sum->sum_ns += part->sum_ns;
	sum->orphan_starts += part->orphan_starts;
	sum->orphan_stops += part->orphan_stops;
	sum->map_full += part->map_full;
	sum->not_keyed += part->not_keyed;
	sum->mismatched += part->mismatched;
	for (size_t i = 0; i < MEASURE_BUCKETS; i++)
		buckets[i] += part->buckets[i];
}

static int read_pairs(struct engine *engine, const struct engine_reading *reading)
{
	struct measure_pair *parts = calloc(engine->n_cpus, sizeof(*parts));
	int err = 0;

	if (!parts)
		return ctx_no_memory(engine->ctx);
	for (__u32 pair = 0; !err && pair < engine->n_pairs; pair++) {
		err = bpf_map_lookup_elem(engine->object.pair_stats, &pair, parts);
		reading->pairs[pair] = (struct ocp_pair){ 0 };
		memset(reading->pair_buckets[pair], 0, sizeof(reading->pair_buckets[pair]));
		for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++)
			add_pair_part(&reading->pairs[pair], reading->pair_buckets[pair],
				      &parts[cpu]);
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

/* Return the signed number of 128 bits that consists of HALVES, the lower half first. */
static __int128 signed_128(const __u64 halves[2])
{
	return (__int128)((unsigned __int128)halves[1] << 64 | halves[0]);
}

static void add_histogram(struct engine_histogram *sum, const struct measure_histogram *part)
{
	const int64_t min = (int64_t)measure_ordered(~part->min_not),
		      max = (int64_t)measure_ordered(part->max);

	if (part->count && (!sum->count || min < sum->min))
		sum->min = min;
	if (part->count && (!sum->count || max > sum->max))
		sum->max = max;
	sum->count += part->count;
	sum->not_number += part->not_number;
	sum->sum += signed_128(part->sum);
	for (size_t i = 0; i < MEASURE_BUCKETS; i++) {
		sum->buckets[i] += part->buckets[i];
		sum->below_0[i] += part->below_0[i];
	}
}

static int read_histograms(struct engine *engine, struct engine_histogram *histograms)
{
	struct measure_histogram *parts = calloc(engine->n_cpus, sizeof(*parts));
	int err = 0;

	if (!parts)
		return ctx_no_memory(engine->ctx);
	for (__u32 i = 0; !err && i < engine->n_histograms; i++) {
		err = bpf_map_lookup_elem(engine->object.histograms, &i, parts);
		memset(&histograms[i], 0, sizeof(histograms[i]));
		for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++)
			add_histogram(&histograms[i], &parts[cpu]);
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

static void add_floats(struct engine_floats *sum, const struct measure_floats *part)
{
	sum->count += part->count;
	sum->nan += part->nan;
	sum->inf += part->inf;
	sum->minus_inf += part->minus_inf;
	if (part->max > sum->max)
		sum->max = part->max;
	if (part->min_not > sum->min_not)
		sum->min_not = part->min_not;
	for (size_t i = 0; i < MEASURE_FLOAT_GROUPS; i++)
		sum->sums[i] += signed_128(part->sums[i]);
	for (size_t i = 0; i < MEASURE_FLOAT_BUCKETS; i++)
		sum->buckets[i] += part->buckets[i];
}

static int read_floats(struct engine *engine, struct engine_floats *floats)
{
	struct measure_floats *parts;
	int err = 0;

	memset(floats, 0, engine->n_histograms * sizeof(*floats));
	if (!*engine->object.has_floats)
		return 0;
	parts = calloc(engine->n_cpus, sizeof(*parts));
	if (!parts)
		return ctx_no_memory(engine->ctx);
	for (__u32 i = 0; !err && i < engine->n_histograms; i++) {
		err = bpf_map_lookup_elem(engine->object.float_histograms, &i, parts);
		for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++)
			add_floats(&floats[i], &parts[cpu]);
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

/* Make room for KEYS_A_BATCH more entries; the array grows by half. */
static int enlarge_reading(struct engine *engine, struct engine_reading *reading, size_t *room)
{
	struct engine_keyed *keyed;

	if (reading->n_keyed + KEYS_A_BATCH <= *room)
		return 0;
	*room = *room + *room / 2 + KEYS_A_BATCH;
	keyed = realloc(reading->keyed, *room * sizeof(*keyed));
	if (!keyed)
		return ctx_no_memory(engine->ctx);
	reading->keyed = keyed;
	return 0;
}

static void add_keyed(struct engine_reading *reading, const struct measure_key *key,
		      const struct measure_keyed *value)
{
	struct engine_keyed *keyed = &reading->keyed[reading->n_keyed++];

	*keyed = (struct engine_keyed){ .id = key->id,
					.tgid = value->tgid,
					.probe_index = key->probe_index,
					.hits = value->hits };
	memcpy(keyed->comm, value->comm, sizeof(keyed->comm));
	keyed->comm[sizeof(keyed->comm) - 1] = '\0';
}

/*
 * Read all entries of `keyed`. Reading in batches finds all of them, because nobody deletes entries
 * meanwhile.
 */
static int read_keyed(struct engine *engine, struct engine_reading *reading)
{
	struct measure_key *keys = calloc(KEYS_A_BATCH, sizeof(*keys));
	struct measure_keyed *values = calloc(KEYS_A_BATCH, sizeof(*values));
	__u32 cursor = 0, n;
	size_t room = 0;
	bool first = true;
	int err = keys && values ? 0 : ctx_no_memory(engine->ctx), end = 0;

	while (!err && !end) {
		n = KEYS_A_BATCH;
		end = bpf_map_lookup_batch(engine->object.keyed, first ? NULL : &cursor, &cursor,
					   keys, values, &n, NULL);
		first = false;
		if (end && end != -ENOENT)
			err = report_read_error(engine, end);
		if (!err)
			err = enlarge_reading(engine, reading, &room);
		for (__u32 i = 0; !err && i < n; i++)
			add_keyed(reading, &keys[i], &values[i]);
	}
	free(keys);
	free(values);
	return err;
}

/*
 * Read all entries of domain_pairs. BPF programs may add entries meanwhile, but do not delete any.
 */
static int read_domain_pairs(struct engine *engine, struct engine_reading *reading)
{
	const int map = engine->object.domain_pairs;
	struct measure_domain_key key, *before = NULL;
	struct measure_pair *part = malloc(sizeof(*part));
	int err = part ? 0 : ctx_no_memory(engine->ctx);

	while (!err && bpf_map_get_next_key(map, before, &key) == 0) {
		struct domain_pair *new;

		before = &key;
		err = bpf_map_lookup_elem(map, &key, part);
		if (err) {
			err = report_read_error(engine, err);
			break;
		}
		new = array_add(reading->domain_pairs.list, reading->domain_pairs.n);
		if (!new) {
			err = ctx_no_memory(engine->ctx);
			break;
		}
		*new = (struct domain_pair){ .pair = key.pair, .domain = key.domain };
		add_pair_part(&new->times, new->buckets, part);
	}
	free(part);
	return err;
}

static int read_losses(struct engine *engine, struct measure_losses *sum)
{
	struct measure_losses *parts = calloc(engine->n_cpus, sizeof(*parts));
	__u32 zero = 0;
	int err;

	if (!parts)
		return ctx_no_memory(engine->ctx);
	err = bpf_map_lookup_elem(engine->object.losses, &zero, parts);
	*sum = (struct measure_losses){ 0 };
	for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++) {
		sum->passed_over += parts[cpu].passed_over;
		sum->rows_full += parts[cpu].rows_full;
		sum->children_full += parts[cpu].children_full;
		sum->filtered += parts[cpu].filtered;
		sum->prints_dropped += parts[cpu].prints_dropped;
		sum->prints_limited += parts[cpu].prints_limited;
		sum->slow += parts[cpu].slow;
		sum->slow_limited += parts[cpu].slow_limited;
		sum->slow_dropped += parts[cpu].slow_dropped;
		sum->slow_unkept += parts[cpu].slow_unkept;
		sum->filter_mismatches += parts[cpu].filter_mismatches;
		if (parts[cpu].last_mismatch)
			sum->last_mismatch = parts[cpu].last_mismatch;
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

/* Return true if the process ids that the BPF programs use are those in our /proc. */
static bool knows_ids(const struct engine *engine)
{
	struct stat st;

	return !engine->config.pidns_ino ||
	       (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == engine->config.pidns_ino);
}

/* Read the hits of each process. If a process has ended, delete its entry to make room. */
static int read_processes(struct engine *engine, struct engine_reading *reading)
{
	const int map = engine->object.process_hits;
	__u32 key, ended, *before = NULL;
	struct engine_process *new;
	bool has_ended = false;
	int err = 0;

	while (!err && bpf_map_get_next_key(map, before, &key) == 0) {
		__u64 hits = 0;

		before = &key;
		if (has_ended)
			bpf_map_delete_elem(map, &ended);
		has_ended = kill((pid_t)key, 0) != 0 && errno == ESRCH;
		ended = key;
		if (bpf_map_lookup_elem(map, &key, &hits) != 0)
			continue;
		new = array_add(reading->processes, reading->n_processes);
		if (new)
			*new = (struct engine_process){ key, hits };
		else
			err = ctx_no_memory(engine->ctx);
	}
	if (has_ended)
		bpf_map_delete_elem(map, &ended);
	return err;
}

static int read_only_hits(struct engine *engine, struct engine_reading *reading)
{
	int err;

	read_hits(engine, reading->hits);
	err = read_losses(engine, &reading->losses);
	if (!err)
		err = engine_bpf_read_walk_ns(engine, &reading->walk_ns);
	if (!err && engine->config.counts_processes && knows_ids(engine))
		err = read_processes(engine, reading);
	return err;
}

int engine_bpf_read(struct engine *engine, struct engine_reading *reading)
{
	int err = 0;

	if (reading->only_hits)
		return read_only_hits(engine, reading);

	read_hits(engine, reading->hits);
	reading->keyed = NULL;
	reading->n_keyed = 0;
	reading->domain_pairs = (struct domain_pairs){ 0 };
	reading->groups = NULL;
	reading->group_times = NULL;
	reading->n_groups = 0;
	if (engine->n_pairs)
		err = read_pairs(engine, reading);
	if (!err && engine->n_histograms)
		err = read_histograms(engine, reading->histograms);
	if (!err && engine->n_histograms && reading->floats)
		err = read_floats(engine, reading->floats);
	if (!err && engine->config.keyed_by != MEASURE_UNKEYED)
		err = read_keyed(engine, reading);
	if (!err && engine->config.domain_id && engine->object.domain_pairs >= 0)
		err = read_domain_pairs(engine, reading);
	if (!err && engine->by.is_on)
		err = engine_bpf_read_groups(engine, reading);
	if (!err)
		err = read_losses(engine, &reading->losses);
	if (!err)
		err = engine_bpf_read_walk_ns(engine, &reading->walk_ns);
	if (err) {
		free(reading->keyed);
		free(reading->domain_pairs.list);
		free(reading->groups);
		free(reading->group_times);
		reading->groups = NULL;
		reading->group_times = NULL;
		reading->keyed = NULL;
		reading->domain_pairs = (struct domain_pairs){ 0 };
	}
	return err;
}

int engine_bpf_forget(struct engine *engine, engine_ended_fn has_ended, void *data,
		      struct engine_keyed **dropped, size_t *n)
{
	struct engine_reading reading = { 0 };
	int err;

	*dropped = NULL;
	*n = 0;
	if (engine->config.keyed_by == MEASURE_UNKEYED || !knows_ids(engine))
		return 0;
	err = read_keyed(engine, &reading);
	for (size_t i = 0; !err && i < reading.n_keyed; i++) {
		struct engine_keyed *row = &reading.keyed[i];
		const struct measure_key key = { .id = row->id, .probe_index = row->probe_index };
		struct measure_keyed value;

		if (!has_ended(data, row->id, row->tgid))
			continue;
		/*
		 * The thread or process has ended, but may have made hits after the entry was read:
		 * read it again.
		 */
		err = bpf_map_lookup_and_delete_elem(engine->object.keyed, &key, &value);
		if (err) {
			err = report_read_error(engine, err);
			break;
		}
		row->hits = value.hits;
		reading.keyed[(*n)++] = *row;
	}
	*dropped = reading.keyed;
	return err;
}
