/* SPDX-License-Identifier: MIT */
/* The holes in the code of templates_code.c and templates_routines.h, which templates.c fills. */
#ifndef CHANGE_INSIDE_TEMPLATES_CODE_H
#define CHANGE_INSIDE_TEMPLATES_CODE_H

#include <stdint.h>

/*
 * The values for holes. A hole is the 32-bit displacement or immediate operand of an instruction.
 * Distances (the names with TO) are from the end of the instruction.
 *
 *	TO_COUNTER	the site's counter in the last shard
 *	TO_BLOCK_ADDR	block_header.addr, where the process keeps the address of the block
 *	COUNTER_OFF	offset of the site's counter in shard 0, from the block
 *	N_CPUS		the number of CPUs that have a shard: n_shards - 1
 *	SHARD_BYTES	from a counter to the site's counter in the next shard
 *	CPU_ID, RSEQ_CS	members of the thread's struct rseq, from the FS base
 *	TO_SEQUENCE	the struct rseq_cs of the trampoline
 *	TID		see struct templates_process
 *	TO_GATE		the two bytes of the gate
 *	TO_WRAPPER	the wrapper of the handler
 *	TO_PAIR		the area of a pair
 *	TO_START, TO_STOP, TO_KEY_START, TO_KEY_STOP	the routines
 *	TO_NS_PER_TICK	block_header.ns_per_tick
 *	SLOT_MASK	n_threads - 1
 *	SLOTS_OFF	pairs_slots_off()
 *	DEPTH		block_header.depth, times 65536
 *	MAY_CALL	may_call_kernel: 0 or 1
 *	TO_ROOM, TO_WINDOW_ROOM		the routines that check the stack
 *	TO_STACK_PAGE	pairs_shared.stack_page of the first pair
 *	TO_REST		the gate, or the copy of the window: the end of the trampoline
 *	TOTALS_MASK	pairs_n_totals() - 1
 *	N_BUCKETS	the number of buckets of a pair by key
 *	KEYS_OFF	the offset of the entries of a pair by key, from its area
 *	TO_PIDS		the cache of process ids
 *	TO_EVENT	the routine that writes an event
 *	POINT		inside_event.point
 *	ARG_OFF		offset of an argument from the event's slot
 *	TO_RINGS	the first ring
 *	TO_WITHOUT_STACK	rings_shared.without_stack, or group.others
 *	RING_HINT	the number of the CPU, or the thread's id, from the FS base
 *	RING_MASK	n_rings - 1
 *	RING_BYTES	rings_stride()
 *	RING_FULL	ring_slots - RINGS_SPARE
 *	RING_SLOT_MASK	ring_slots - 1
 *	RING_SLOT_BYTES	slot_bytes
 *	TRASH_OFF	offset of the slot behind the last one, from the ring
 *	FRAME_OFF	distance from rsp in a trampoline to the frame of the call
 *	TO_GROUP	a struct group
 *	TO_COUNT_GROUP	the routine that counts in a group
 *	N_GROUP_BUCKETS	groups_n_buckets()
 *	TO_FIND_TIMES	the routine that finds the struct value_times of a value
 *	OTHER_TIMES	the number of the struct value_times of values without room
 *	FIRST_TIMES	the number of the first struct value_times of a value
 *	N_TIMES		block_header.n_times
 *	TO_TIMES	the first struct value_times
 *	TO_TIMES_USED	groups_shared.times_used
 */
#define TEMPLATE_HOLES(X)                                                                          \
	X(TO_COUNTER, 0)                                                                           \
	X(TO_BLOCK_ADDR, 1)                                                                        \
	X(COUNTER_OFF, 2)                                                                          \
	X(N_CPUS, 3)                                                                               \
	X(SHARD_BYTES, 4)                                                                          \
	X(CPU_ID, 5)                                                                               \
	X(TID, 6)                                                                                  \
	X(TO_GATE, 7)                                                                              \
	X(TO_WRAPPER, 8)                                                                           \
	X(TO_PAIR, 9)                                                                              \
	X(TO_START, 10)                                                                            \
	X(TO_STOP, 11)                                                                             \
	X(TO_NS_PER_TICK, 12)                                                                      \
	X(SLOT_MASK, 13)                                                                           \
	X(SLOTS_OFF, 14)                                                                           \
	X(DEPTH, 15)                                                                               \
	X(MAY_CALL, 16)                                                                            \
	X(TO_ROOM, 17)                                                                             \
	X(TO_STACK_PAGE, 18)                                                                       \
	X(TO_REST, 19)                                                                             \
	X(RSEQ_CS, 20)                                                                             \
	X(TO_SEQUENCE, 21)                                                                         \
	X(TO_KEY_START, 22)                                                                        \
	X(TO_KEY_STOP, 23)                                                                         \
	X(N_BUCKETS, 24)                                                                           \
	X(KEYS_OFF, 25)                                                                            \
	X(TO_PIDS, 26)                                                                             \
	X(TO_WINDOW_ROOM, 27)                                                                      \
	X(TOTALS_MASK, 28)                                                                         \
	X(TO_EVENT, 29)                                                                            \
	X(POINT, 30)                                                                               \
	X(ARG_OFF, 31)                                                                             \
	X(TO_RINGS, 32)                                                                            \
	X(TO_WITHOUT_STACK, 33)                                                                    \
	X(RING_HINT, 34)                                                                           \
	X(RING_MASK, 35)                                                                           \
	X(RING_BYTES, 36)                                                                          \
	X(RING_FULL, 37)                                                                           \
	X(RING_SLOT_MASK, 38)                                                                      \
	X(RING_SLOT_BYTES, 39)                                                                     \
	X(TRASH_OFF, 40)                                                                           \
	X(FRAME_OFF, 41)                                                                           \
	X(TO_GROUP, 42)                                                                            \
	X(TO_COUNT_GROUP, 43)                                                                      \
	X(N_GROUP_BUCKETS, 44)                                                                     \
	X(TO_FIND_TIMES, 45)                                                                       \
	X(OTHER_TIMES, 46)                                                                         \
	X(FIRST_TIMES, 47)                                                                         \
	X(N_TIMES, 48)                                                                             \
	X(TO_TIMES, 49)                                                                            \
	X(TO_TIMES_USED, 50)

#define TEMPLATE_HOLE(name, number) HOLE_##name = (number),
enum { TEMPLATE_HOLES(TEMPLATE_HOLE) N_HOLES };
#undef TEMPLATE_HOLE

struct template_hole {
	uint32_t off;	/* offset of the hole's four bytes from templates_text */
	uint16_t value; /* HOLE_... */
	uint16_t after; /* number of the instruction's bytes after the hole */
};

/* In ascending order of `off`; the end is at templates_holes_end. */
extern const struct template_hole templates_holes[], templates_holes_end[];

/* Size of the code that loads the key into rsi. */
enum { TEMPLATES_KEY_BYTES = 10 };

/*
 * The templates. Each ends where the next one begins. The names that begin with count_cpu_,
 * window_cpu_, key_start_, key_stop_, group_, by_ or event_ are places in these templates.
 */
extern const uint8_t templates_text[], templates_count[], templates_count_cpu[],
	templates_count_cpu_moved[], templates_count_cpu_entry[], templates_count_cpu_sequence[],
	templates_count_cpu_sequence_end[], templates_window_cpu[], templates_window_cpu_moved[],
	templates_window_cpu_entry[], templates_window_cpu_sequence[],
	templates_window_cpu_sequence_end[], templates_gate[], templates_room[],
	templates_window_room[], templates_event_room[], templates_window_event_room[],
	templates_window_gap[], templates_enter[], templates_enter_stop[], templates_start[],
	templates_stop[], templates_frame_start[], templates_frame_stop[], templates_key_start[],
	templates_key_start_load[], templates_key_stop[], templates_key_stop_load[],
	templates_event[], templates_event_load[], templates_arg[], templates_arg_load[],
	templates_commit[], templates_group[], templates_group_load[], templates_by[],
	templates_by_load[], templates_leave[], templates_window_leave[], templates_routine_start[],
	templates_routine_reject[], templates_routine_frame_start[],
	templates_routine_frame_reject[], templates_routine_by_start[],
	templates_routine_by_frame_start[], templates_routine_stop[],
	templates_routine_frame_stop[], templates_routine_by_stop[],
	templates_routine_by_frame_stop[], templates_routine_key_start[],
	templates_routine_by_key_start[], templates_routine_key_reject[],
	templates_routine_fiber_start[], templates_routine_call_start[],
	templates_routine_by_fiber_start[], templates_routine_by_call_start[],
	templates_routine_fiber_reject[], templates_routine_call_reject[],
	templates_routine_key_stop[], templates_routine_by_key_stop[],
	templates_routine_fiber_stop[], templates_routine_call_stop[],
	templates_routine_by_fiber_stop[], templates_routine_by_call_stop[],
	templates_routine_fiber_event[], templates_routine_event[], templates_routine_group[],
	templates_routine_no_group[], templates_routine_times[], templates_routine_room[],
	templates_routine_window_room[], templates_end[];

#endif
