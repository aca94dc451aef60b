/* SPDX-License-Identifier: MIT */
/*
 * The packets of a memtrace file, version 2. A packet is a header and a sequence of events. All numbers are
 * little-endian, all texts end with 0, and nothing is aligned. See src/trace.ml of memtrace.
 *
 *	header	u32 magic, u32 bits of the packet, u64 time of the first event, u64 of the last one, u32 0,
 *		u16 version, u64 process, u16 bucket, u16 its successor, u64 its code (see memtrace_stacks.h),
 *		u64 number of the first block that is allocated in the packet, u64 of the next packet's
 *	event	u32 low 25 bits of the time, kind << 25; what the kind has
 *
 * Times are microseconds since 1970.
 */
#ifndef MEMPROF_MEMTRACE_PACKET_H
#define MEMPROF_MEMTRACE_PACKET_H

#include <stddef.h>
#include <stdint.h>

enum {
	MEMTRACE_MAGIC = (int)0xc1fc1fc1,
	MEMTRACE_VERSION = 2,
	MEMTRACE_HEADER_BYTES = 66,
	MEMTRACE_EVENT_BYTES = 4, /* the part that all events have */
	/* The library memtrace reads no longer packets. */
	MEMTRACE_PACKET_BYTES = 1 << 15,
	/* The longest form of a varying number. */
	MEMTRACE_VARYING_BYTES = 9,
	/* Of a packet, in microseconds. The low 25 bits, which are 33 s, must tell the time of each event. */
	MEMTRACE_MAX_SPAN = 30 * 1000 * 1000,
};

enum memtrace_event {
	MEMTRACE_INFO,
	MEMTRACE_LOCATION,
	MEMTRACE_ALLOC,
	MEMTRACE_PROMOTE,
	MEMTRACE_COLLECT,
	/* One sample of a minor block: with the number of its words, which are at most 16. */
	MEMTRACE_SHORT_ALLOC = 100,
	MEMTRACE_SHORT_WORDS = 16,
};

/* What the reader's cache holds at the start of the packet, for the reader to compare. */
struct memtrace_check {
	uint16_t bucket, next;
	uint64_t code;
};

#define MEMTRACE_NO_CHECK ((struct memtrace_check){ .bucket = 0xffff })

struct memtrace_packet {
	size_t n; /* bytes; MEMTRACE_HEADER_BYTES: no events */
	uint64_t pid;
	uint64_t first_us, last_us;
	uint64_t first_block, next_block;
	struct memtrace_check check;
	uint8_t bytes[MEMTRACE_PACKET_BYTES];
};

/* Make PACKET empty: the time of its events, and the numbers of its blocks, begin with these. */
void memtrace_packet_begin(struct memtrace_packet *packet, uint64_t us, uint64_t block,
			   struct memtrace_check check);

/* Fill the header in. The packet is its first N bytes. */
void memtrace_packet_end(struct memtrace_packet *packet);

size_t memtrace_packet_room(const struct memtrace_packet *packet);

/* For all of these there is room. An event begins with its time, which is not before the last one's. */
void memtrace_put_event(struct memtrace_packet *packet, unsigned int kind, uint64_t us);
/* The low BYTES bytes of VALUE. */
void memtrace_put(struct memtrace_packet *packet, uint64_t value, size_t bytes);
/* A number that is usually small. */
void memtrace_put_varying(struct memtrace_packet *packet, uint64_t value);
/* A text: the first BYTES bytes of TEXT, which has no 0 there, and END. */
void memtrace_put_text(struct memtrace_packet *packet, const char *text, size_t bytes,
		       const char *end);

#endif
