/* SPDX-License-Identifier: MIT */
/*
 * The numbers that the code in templates_code.c and templates_routines.h uses: above all offsets in
 * the structs of a block. Only templates_code.c includes this file.
 */
#ifndef CHANGE_INSIDE_TEMPLATES_NUMBERS_H
#define CHANGE_INSIDE_TEMPLATES_NUMBERS_H

#include <assert.h>
#include <linux/rseq.h>
#include <stddef.h>
#include "change/inside/block.h"
#include "change/inside/groups.h"
#include "change/inside/rings.h"
#include "change/inside/templates.h"
#include "change/inside/templates_code.h"
#include "code/runtime_facts.h"

#define NUMBER(name, value) ".set " #name ", " #value "\n"

/* Check the layout, which the assembler gets as numbers. */
static_assert(
	offsetof(struct pairs_slot, tid) == 0 && offsetof(struct pairs_slot, n) == 4 &&
		offsetof(struct pairs_slot, next) == 6 &&
		offsetof(struct pairs_slot, starts) == 8 &&
		offsetof(struct pairs_slot, sum_ns) == 16 &&
		offsetof(struct pairs_slot, min_ns_not) == 24 &&
		offsetof(struct pairs_slot, max_ns) == 32 &&
		offsetof(struct pairs_slot, orphan_starts) == 40 &&
		offsetof(struct pairs_slot, ring) == 64 &&
		offsetof(struct pairs_slot, buckets) == 576 &&
		offsetof(struct pairs_slot, times) == 4544 && sizeof(struct pairs_slot) == 4672 &&
		sizeof(struct pairs_start) == 16 && offsetof(struct pairs_start, ticks) == 0 &&
		offsetof(struct pairs_start, sp) == 8 &&
		offsetof(struct pairs_shared, orphan_stops) == 0 &&
		offsetof(struct pairs_shared, collisions) == 8 &&
		offsetof(struct pairs_shared, stack_page) == 16 &&
		offsetof(struct pairs_shared, not_keyed) == 24 &&
		offsetof(struct pairs_shared, used) == 64 && PAIRS_DEPTH == 32 &&
		offsetof(struct pairs_keyed_start, pid) == 0 &&
		offsetof(struct pairs_keyed_start, was_used) == 4 &&
		offsetof(struct pairs_keyed_start, key) == 8 &&
		offsetof(struct pairs_keyed_start, ticks) == 16 &&
		offsetof(struct pairs_keyed_start, times) == 24 &&
		offsetof(struct pairs_keyed_start, owner) == 28 &&
		sizeof(struct pairs_keyed_start) == 32 && PAIRS_BUCKET_KEYS == 16 &&
		PAIRS_PIDS == 64 && (int)KERNEL_CURRENT_STACK == 40 &&
		(int)KERNEL_STACK_HANDLER == 16 && (int)KERNEL_STACK_ID == 48 &&
		TEMPLATES_KEY_BYTES == 10 && PAIRS_WINDOW == 16 && TEMPLATES_STACK_BYTES <= 128 &&
		offsetof(struct event_ring, head) == 0 && offsetof(struct event_ring, lost) == 8 &&
		offsetof(struct event_ring, tail) == 64 && sizeof(struct event_ring) == 128 &&
		offsetof(struct event_slot, sequence) == 0 &&
		offsetof(struct event_slot, ticks) == 8 && offsetof(struct event_slot, tid) == 16 &&
		offsetof(struct event_slot, point) == 20 &&
		offsetof(struct event_slot, frame) == 24 &&
		offsetof(struct event_slot, args) == 32 && offsetof(struct group, others) == 0 &&
		offsetof(struct group, not_ints) == 8 && sizeof(struct group) == 64 &&
		offsetof(struct group_entry, value) == 0 &&
		offsetof(struct group_entry, hits) == 8 &&
		offsetof(struct group_entry, times) == 8 && sizeof(struct group_entry) == 16 &&
		offsetof(struct value_times, sum_ns) == 0 &&
		offsetof(struct value_times, min_ns_not) == 8 &&
		offsetof(struct value_times, max_ns) == 16 &&
		offsetof(struct value_times, buckets) == 64 && sizeof(struct value_times) == 4032 &&
		GROUPS_NOT_INT == 2 && GROUPS_MOST_TIMES == 4096 && GROUPS_BUCKET_VALUES == 16 &&
		sizeof(struct rseq_cs) == 32 && TEMPLATES_RSEQ_SIGNATURE == 0x53053053,
	"the numbers below");

// clang-format off
asm(NUMBER(N_AND_NEXT, 4)
    NUMBER(NEXT, 6)
    NUMBER(STARTS, 8)
    NUMBER(SUM_NS, 16)
    NUMBER(MIN_NS_NOT, 24)
    NUMBER(MAX_NS, 32)
    NUMBER(ORPHAN_STARTS, 40)
    NUMBER(RING_TICKS, 64)
    NUMBER(RING_SP, 72)
    NUMBER(BUCKETS, 576)
    NUMBER(STARTED_TIMES, 4544)
    NUMBER(SLOT_BYTES, 4672)
    NUMBER(ORPHAN_STOPS, 0)
    NUMBER(COLLISIONS, 8)
    NUMBER(USED, 64)
    NUMBER(DEPTH_MASK, 31)
    NUMBER(WINDOW, 16)
    NUMBER(ONE_MORE, 0x10001)	/* what to add to N_AND_NEXT for one more open start */
    NUMBER(SP, 64)		/* distance from rsp in a routine to rsp at the site: see enter */
    NUMBER(NOW, 8)		/* offset from rsp in a routine of the time that enter_stop saved */
    NUMBER(STACK_PAGE, 16)
    NUMBER(NOT_KEYED, 24)
    NUMBER(WAS_USED, 4)
    NUMBER(KEY, 8)
    NUMBER(KEY_TICKS, 16)
    NUMBER(KEY_TIMES, 24)
    NUMBER(OWNER, 28)
    /* offset from rsp, in the routines by key, of the number that `by` has found */
    NUMBER(PUSHED_TIMES, 16)
    NUMBER(KEYED_BYTES, 32)
    NUMBER(BUCKET_LOG2, 9)
    /* the bits of an entry's offset that say where the entry is in its bucket */
    NUMBER(IN_BUCKET, 0x1e0)
    NUMBER(BUCKET_BYTES, 512)
    NUMBER(PIDS_MASK, 63)
    NUMBER(KEY_NOW, 24) /* like NOW, in the routines by key, which save two more registers */
    NUMBER(KEY_BYTES, 10)
    /* if none of these bits is set in rsp, the code may use the page below */
    NUMBER(IN_LOW_PART, 0xf80)
    NUMBER(PAGE_MASK, -4096)
    NUMBER(SIGSET_BYTES, 8)
    NUMBER(RING_HEAD, 0)
    NUMBER(RING_LOST, 8)
    NUMBER(RING_TAIL, 64)
    NUMBER(RING_HEAD_BYTES, 128)
    NUMBER(EVENT_TICKS, 8)
    NUMBER(EVENT_TID, 16)
    NUMBER(EVENT_POINT, 20)
    NUMBER(EVENT_FRAME, 24)
    NUMBER(GROUP_OTHERS, 0)
    NUMBER(GROUP_NOT_INTS, 8)
    NUMBER(GROUP_BYTES, 64)
    NUMBER(GROUP_HITS, 8)
    NUMBER(GROUP_TIMES, 8)
    NUMBER(GROUP_ENTRY_BYTES, 16)
    NUMBER(GROUP_BUCKET_VALUES, 16)
    NUMBER(GROUP_BUCKET_LOG2, 8)	/* of the size of a bucket */
    NUMBER(TIMES_SUM_NS, 0)
    NUMBER(TIMES_MIN_NS_NOT, 8)
    NUMBER(TIMES_MAX_NS, 16)
    NUMBER(TIMES_BUCKETS, 64)
    NUMBER(TIMES_BYTES, 4032)
    NUMBER(NOT_INT, 2)
    NUMBER(MOST_TIMES, 4096)
    /* see KERNEL_CURRENT_STACK in code/runtime_facts.h, and bpf/measure_frames.bpf.h */
    NUMBER(CURRENT_STACK, 40)
    NUMBER(STACK_HANDLER, 16)
    NUMBER(STACK_ID, 48)
    NUMBER(SYS_GETPID, 39)
    NUMBER(SYS_RT_SIGPENDING, 127)
    NUMBER(SYS_TKILL, 200)
    NUMBER(ESRCH, 3)
    NUMBER(RSEQ_CS_BYTES, 32)
    NUMBER(RSEQ_SIGNATURE, 0x53053053)
    NUMBER(HOLE, 0x11223344)	/* has 32 bits, like the value that replaces it */
    TEMPLATE_HOLES(NUMBER));
// clang-format on

#endif
