/* SPDX-License-Identifier: MIT */
/*
 * The ring buffer with the records of hits and slow pairs, and the limit of records per second.
 *
 * The time of a record is taken after the room for the record is reserved. So if the reader does
 * not see the reservation of a record yet, the time of the record is later than the moment at which
 * the reader looked. The reader polls; it is not woken up.
 */
#ifndef MEASURE_RECORDS_BPF_H
#define MEASURE_RECORDS_BPF_H

#include "measure_core.bpf.h"

enum {
	WINDOW_TRIES = 8,
	NS_A_SECOND = 1000000000,
	NO_WAKEUP = 1, /* BPF_RB_NO_WAKEUP */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} prints SEC(".maps");

/* Upper half: the current second. Lower half: the number of records made in this second. */
volatile __u64 print_window;

/*
 * Return 1 if another record may be made in the second of NS. If many CPUs compete, some records
 * are refused although the limit is not reached.
 */
static __always_inline int is_within_limit(__u64 ns)
{
	const __u64 second = ns / NS_A_SECOND & 0xffffffff;

	for (int i = 0; i < WINDOW_TRIES; i++) {
		__u64 seen = print_window;

		if (seen >> 32 >= second)
			return (__sync_fetch_and_add(&print_window, 1) & 0xffffffff) <
			       config.print_limit;
		if (__sync_val_compare_and_swap(&print_window, seen, second << 32 | 1) == seen)
			return 1;
	}
	return 0;
}

#endif
