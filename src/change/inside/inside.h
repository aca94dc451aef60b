/* SPDX-License-Identifier: MIT */
/*
 * Room change/inside: counters and trampolines in the memory of a process.
 * In: a pid, sites and their gates.
 * Out: a block in the process, which counts without the tool; the totals in the block.
 * Callers: the engine `inside`; change/switch and process, for sites that call a trampoline.
 */
/*
 * Counting and timing inside a process: sites call trampolines, which count and then run the
 * handler if it is switched on. This needs only the right to ptrace the process.
 *
 * All functions return 0, or a negative errno with a message in the ctx, unless stated otherwise.
 */
#ifndef CHANGE_INSIDE_INSIDE_H
#define CHANGE_INSIDE_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include "base/ctx.h"

enum inside_place_kind {
	/* `number` is the processor's number of the register: rax is 0, r15 is 15; not rsp. */
	INSIDE_REGISTER,
	INSIDE_STACK, /* `number` is the offset from the rsp at the site, 0 to INSIDE_STACK_MAX */
	INSIDE_CONSTANT, /* `number` is the value */
	/*
	 * The key is the frame of a call: the rsp at the entry of the function. `number` is the
	 * distance from the rsp at the window up to the frame, 0 to INSIDE_STACK_MAX.
	 */
	INSIDE_FRAME,
	/* ... for code that runs on the stacks of OCaml 5, which move */
	INSIDE_FIBER_FRAME,
	/* an argument of an event only: the address of the current stack of OCaml 5 */
	INSIDE_FIBER,
	/* ... behind an argument INSIDE_FIBER: the parent of this stack */
	INSIDE_FIBER_PARENT,
};

enum { INSIDE_STACK_MAX = 1 << 16 };

/*
 * Where the key is at a site. The key is an argument, which is an OCaml value of 8 bytes, or the
 * frame of a call.
 */
struct inside_place {
	enum inside_place_kind kind;
	int64_t number;
};

enum { INSIDE_EVENT_ARGS = 16 };

/* What a hit of a site writes to a ring of events: see rings.h. */
struct inside_event {
	uint32_t point; /* a number of the caller */
	/*
	 * If the site has a filter: a hit that the filter rejects writes the same event, with this
	 * number instead. Unless has_rejected is set, it writes none.
	 */
	uint32_t rejected_point;
	bool has_rejected;
	/*
	 * The frame that the record has: INSIDE_FRAME or INSIDE_FIBER_FRAME. At a site, `number` 0
	 * stands for the stack pointer.
	 */
	struct inside_place frame;
	/* values of 64 bits; not INSIDE_FIBER_FRAME */
	struct inside_place args[INSIDE_EVENT_ARGS];
	uint32_t n_args; /* at most inside_spec.event_args */
};

/*
 * What a hit of a site does, besides being counted. `event`, if not NULL: it writes an event, and
 * has no other role. has_group: the hit is counted in group number GROUP, by the int at `key`; a
 * site has at most one such role. Otherwise it starts or stops pair number PAIR. If one role
 * of a pair is keyed, all roles of this pair must be keyed.
 */
struct inside_role {
	uint32_t pair, group;
	bool has_group;
	bool is_stop;
	bool is_keyed;
	/*
	 * At a window without keeps_r11, if not is_keyed: the pair is matched by thread, and the
	 * frame of the call takes the place of the stack pointer. The frame is `key`.
	 */
	bool is_framed;
	/*
	 * The times of the pair are grouped: all roles of the pair, and of no other pair, have this
	 * GROUP. Of a start, `value` is the place of the int; of a stop, it is not used.
	 */
	bool is_grouped;
	struct inside_place value;
	/* where the key is at the site, if is_keyed or has_group; INSIDE_FRAME if is_framed */
	struct inside_place key;
	const struct inside_event *event;
};

/*
 * A filter in postfix form: a comparison pushes its result; && and || replace the two newest
 * results by one, and ! the newest one.
 */
enum { INSIDE_FILTER_OPS = 32 };

enum inside_filter_kind { INSIDE_COMPARE, INSIDE_AND, INSIDE_OR, INSIDE_NOT };
enum inside_comparison { INSIDE_EQ, INSIDE_NE, INSIDE_LT, INSIDE_LE, INSIDE_GT, INSIDE_GE };

struct inside_filter_op {
	uint8_t kind; /* enum inside_filter_kind */
	/* If `kind` is INSIDE_COMPARE: the int at `place` is compared with `number`. */
	uint8_t comparison;	   /* enum inside_comparison */
	uint8_t arg;		   /* for inside_filtered.arg: a number of the caller */
	struct inside_place place; /* a register, a constant or, of a probe, on the stack */
	int64_t number;
};

struct inside_filter {
	size_t n_ops; /* at least 1 */
	struct inside_filter_op ops[INSIDE_FILTER_OPS];
};

struct inside_site {
	/* the address, in the process, of the first byte of the site, the nop, or of the window */
	uint64_t addr;
	/*
	 * The address of the two bytes of the semaphore that OCaml reads. 0 if there is no
	 * semaphore, or if it cannot be the gate, because tracers raise it too (provider `ocaml`).
	 */
	uint64_t semaphore;
	const struct inside_role *roles;
	size_t n_roles;
	/*
	 * Only hits that match are counted, and begin pairs. Stops do not depend on the filter.
	 * NULL: all hits match. A window with a filter has no n_before, and does not keep r11. For
	 * events, see inside_event.rejected_point.
	 */
	const struct inside_filter *filter;
	/*
	 * If the site is a window of a function (code/window.h): its bytes in the file. The first
	 * six bytes of memory are on one page. Such a site has no semaphore. A window with roles
	 * must have TEMPLATES_STACK_BYTES of the stack below its rsp (unless the stack ends with a
	 * page that is not mapped), and no red zone.
	 */
	const uint8_t *window;
	size_t n_window;
	/*
	 * The roles are played behind the first n_before bytes of the window: whole instructions
	 * that do not jump.
	 */
	size_t n_before;
	/*
	 * The site is a window of C code, where the program may use r11. With roles, such code must
	 * need more of the stack for the calls that it makes than the roles need: it would fault
	 * there, too.
	 */
	bool keeps_r11;
};

struct tracee;

struct inside_spec {
	/*
	 * The process if tracee_spawn() has started it, and it has not been released: it stays
	 * stopped. Otherwise NULL.
	 */
	struct tracee *held;
	const struct inside_site *sites;
	size_t n_sites;
	size_t n_pairs;
	/* The number of groups, of hits or times, by a value; at most n_sites + n_pairs. */
	size_t n_groups;
	bool groups_times;  /* there is a pair whose times are grouped */
	unsigned int depth; /* the number of starts that one thread can have open in one pair */
	size_t max_threads; /* the number of threads that can time pairs at the same time */
	/*
	 * If sites write events: about the size of all rings, and the largest number of arguments
	 * of an event. 0: no site writes events.
	 */
	size_t event_bytes;
	uint32_t event_args;
	/* Opaque data that the block keeps for inside_find(), in pieces. */
	const struct iovec *meta;
	size_t n_meta, meta_bytes; /* n_meta: the number of pieces; meta_bytes: their total size */
};

/*
 * The totals of a pair, as in ocp_pair. COLLISIONS counts the starts for whose thread or key
 * there was no slot, NOT_KEYED the starts whose argument is not an int. STARTS includes the starts
 * of COLLISIONS and of NOT_KEYED; the stops that belong to these starts are counted as orphans.
 */
struct inside_pair {
	uint64_t starts, count, sum_ns, min_ns, max_ns; /* min_ns: 0 if count is 0 */
	uint64_t orphan_starts, orphan_stops, collisions, not_keyed;
	uint64_t buckets[496]; /* a histogram: measure_bucket_of() of bpf/measure.h */
};

struct inside_value {
	int64_t value;
	uint64_t hits;
};

/*
 * A group of hits: those of the N different VALUES, in any order. OTHERS are hits whose value found
 * no room, NOT_INTS those whose argument is not an int. The process can write to all these numbers:
 * a value may even be there twice.
 */
struct inside_group {
	uint64_t others, not_ints;
	struct inside_value *values; /* of the caller, with inside_group_room() elements */
	size_t n;
};

/*
 * The times of the pairs that began with one value. is_others: of all values without room. Else
 * is_int: VALUE is the value; if not, it was no int.
 */
struct inside_times {
	bool is_others, is_int;
	int64_t value;
	/* min_ns_not: the complement of the smallest time */
	uint64_t count, sum_ns, min_ns_not, max_ns;
	uint64_t buckets[496]; /* as in struct inside_pair */
};

typedef void (*inside_times_fn)(void *data, const struct inside_times *times);

/*
 * Hits of sites with filters. MISMATCHES counts the hits for which the filter would have needed an
 * int, but the argument was something else: such a comparison is false.
 */
struct inside_filtered {
	uint64_t rejected, mismatches;
	/*
	 * If mismatches is not 0: the site and inside_filter_op.arg of one of these hits. The
	 * process can write to these numbers: they may be anything below 2^22 and 2^8.
	 */
	uint32_t site, arg;
};

/* The numbers of sites in each state. */
struct inside_state {
	size_t n_patched; /* sites that count */
	size_t n_windows; /* how many of them are windows of functions */
	/*
	 * Sites that another tool has switched off: their opcode is 0x3d, so their hits are not
	 * counted.
	 */
	size_t n_switched;
	size_t n_foreign; /* sites whose code is neither ours nor the original one */
};

/* A process whose sites count inside, or counted inside before a detach. */
struct inside;

/*
 * Check that hits can be counted inside PID and, if TIMES is set, that pairs can be timed inside
 * PID. If not, return -ENOTSUP with a message. Changes nothing in PID.
 */
int inside_check(struct ocp_ctx *ctx, pid_t pid, bool times);
/* Return -EBUSY with a message if PID is already counted inside. */
int inside_check_not_counted(struct ocp_ctx *ctx, pid_t pid);

/*
 * Make PID count inside. Everything is verified before the first site is written. On failure the
 * changes are undone; new memory that cannot be removed yet stays mapped until the next attach or
 * detach. Returns -EBUSY if PID is already counted inside.
 */
int inside_attach(struct ocp_ctx *ctx, pid_t pid, const struct inside_spec *spec,
		  struct inside **out);

/*
 * Find the block that an earlier attach left in PID. PID is not stopped. Return 1 if there is one,
 * 0 if there is none, -EPROTO if another version of this library has left one, -EBADMSG if the
 * block is damaged.
 */
int inside_find(struct ocp_ctx *ctx, pid_t pid, struct inside **out);

/*
 * A budget for reading processes that the user has not named. Such processes may belong to other
 * users, who can make blocks of any size and in any number. Each block that a search reads reduces
 * the budget.
 */
struct inside_room {
	uint64_t sites, bytes;
};

/* Enough for several large programs. To read this many sites and bytes takes about a second. */
enum { INSIDE_ROOM_SITES = 500000, INSIDE_ROOM_BYTES = 256 << 20 };

/*
 * Like inside_find(), but with the budget ROOM; NULL: no limit. Returns -E2BIG if ROOM does not
 * suffice.
 */
int inside_find_within(struct ocp_ctx *ctx, pid_t pid, struct inside_room *room,
		       struct inside **out);

/*
 * Find, through /proc alone, the processes that have a block and that this process may inspect. Set
 * *PIDS to an array of their *N pids, in ascending order. The caller frees *PIDS, also after an
 * error.
 */
int inside_find_processes(struct ocp_ctx *ctx, pid_t **pids, size_t *n);

/*
 * Return the bytes of inside_spec.meta that the attach stored in the block. The bytes are valid
 * until inside_close(). The process can write to them at any moment: copy them, and check the copy.
 */
const void *inside_meta(const struct inside *inside, size_t *bytes);
size_t inside_n_sites(const struct inside *inside);
size_t inside_n_pairs(const struct inside *inside);
int64_t inside_start_ns(const struct inside *inside);

/*
 * Return the process id of the tool that attached, in the tool's pid namespace. The tool may have
 * ended.
 */
pid_t inside_maker(const struct inside *inside);

/*
 * Read the totals. HITS has room for all sites, PAIRS for all pairs; either may be NULL. This still
 * works after the process has ended if INSIDE comes from inside_attach(). It makes no system call
 * per site, and does not stop the process.
 */
int inside_read(struct inside *inside, uint64_t *hits, struct inside_pair *pairs);
/* Set *FILTERED to what inside_read() read most recently. */
void inside_read_filtered(const struct inside *inside, struct inside_filtered *filtered);
/*
 * Read the totals of group number NUMBER of a process that inside_attach() has attached. A hit is
 * in the group a moment after it is counted.
 */
void inside_read_group(const struct inside *inside, uint32_t number, struct inside_group *group);
/* Return the largest number of values of a group. */
size_t inside_group_room(const struct inside *inside);
/*
 * Call FN(DATA, times) for the times of each value in group number NUMBER, which has the times of
 * PAIR. All groups together have at most inside_times_room() of them, unless the process has
 * written to the groups. Like inside_read_group(), this needs inside_attach().
 */
void inside_read_times(const struct inside *inside, uint32_t number, uint32_t pair,
		       inside_times_fn fn, void *data);
size_t inside_times_room(const struct inside *inside);
int inside_state(struct inside *inside, struct inside_state *state);
/* Return the numbers of sites in each state, as inside_find() found them. */
struct inside_state inside_state_found(const struct inside *inside);
/*
 * Return true if process PID has the block of INSIDE mapped: PID is the process that counts, or a
 * child forked from it. Return false after an exec, and after a detach that removed the memory.
 */
bool inside_is_in(const struct inside *inside, pid_t pid);

/* Set *WORD to the word at ADDR of the process. Return false if it cannot be read. */
bool inside_read_word(const struct inside *inside, uint64_t addr, uint64_t *word);

/* A record of a ring, which has been checked: `point` and `tid` are in their ranges. */
struct inside_record {
	uint64_t ticks; /* the value of the time stamp counter */
	uint32_t tid;	/* as the C library of the process keeps it */
	uint32_t point; /* of struct inside_event */
	uint64_t frame; /* of struct inside_event, without the 1 that its kind may add */
	uint64_t args[INSIDE_EVENT_ARGS];
};

typedef void (*inside_record_fn)(void *data, const struct inside_record *record);

/*
 * Pass the events of the process that INSIDE has attached to FN, each once, in the order of their
 * times. Unless ALL, leave the newest ones for the next call: then each event of a thread is passed
 * behind its earlier ones, and so is what another thread did because of them. This still works
 * after a detach and after the end of the process. N_POINTS is the number of points. Returns 0;
 * -ENOMEM; or -EBADMSG, with a message, if the process has overwritten the rings.
 */
int inside_take_records(struct inside *inside, uint32_t n_points, bool all, inside_record_fn fn,
			void *data);
/*
 * Return the number of hits whose event is missing: their ring was full, the thread's stack had no
 * room, or the record was damaged. After the last inside_take_records(), which passed ALL, this
 * includes records that were begun and not finished.
 */
uint64_t inside_records_lost(const struct inside *inside);
/* Return how many of them were damaged: they were overwritten with what cannot be an event. */
uint64_t inside_records_damaged(const struct inside *inside);

/*
 * Restore the original code of the sites; a site is switched on if its gate is not 0 and no other
 * tool has switched it off. Remove the memory if no thread can be in its code; otherwise it stays
 * until the next attach or detach. The totals can still be read afterwards.
 */
int inside_detach(struct inside *inside);

/*
 * Remove the blocks of PID that no site calls: a killed tool has left them, or a thread was in
 * their code when the sites were restored. A block in whose code a thread stays for long, and the
 * blocks of a process that is counted inside, stay mapped; this is not an error.
 */
int inside_remove_old(struct ocp_ctx *ctx, pid_t pid);

/* Free INSIDE, which may be NULL. Without a detach the process continues to count. */
void inside_close(struct inside *inside);

#endif
