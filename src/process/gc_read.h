/* SPDX-License-Identifier: MIT */
/* Declarations that gc_gauges.c and the gc_read*.c files share. */
#ifndef PROCESS_GC_READ_H
#define PROCESS_GC_READ_H

#include <limits.h>
#include <sys/uio.h>
#include "process/gc_gauges.h"

enum {
	STATE_BYTES = 512, /* bytes copied of a domain's structure: up to the last member used */
	COPIES = 3,	   /* copies of this structure, made one after the other */
};

struct gc_domains; /* of OCaml 5 */

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

/*
 * Try to read the gauges. Returns 1; 0 if the values changed meanwhile; or a negative errno. The
 * caller must check that the process still has the same address space.
 */
int gc_read_4(struct gc_reader *r, struct gc_gauges *gauges);
int gc_read_5(struct gc_reader *r, struct gc_gauges *gauges);

int gc_domains_new(struct gc_reader *r);
void gc_domains_free(struct gc_domains *domains);
/*
 * Call this after a successful read, so that the next read does not overwrite the domains just
 * found.
 */
void gc_domains_keep(struct gc_domains *domains);

/* Pieces of memory, to be read in this order. */
struct gc_pieces {
	struct iovec remote[IOV_MAX];
	size_t n, bytes;
};

void gc_pieces_empty(struct gc_pieces *pieces);
void gc_pieces_add(struct gc_pieces *pieces, uint64_t addr, size_t bytes);
int gc_pieces_read(const struct gc_reader *r, const struct gc_pieces *pieces, void *to);

int gc_read_one(const struct gc_reader *r, uint64_t addr, void *to, size_t bytes);

/* Return the member at OFFSET of a copied structure, as an integer or as a double. */
uint64_t gc_word_at(const uint8_t *copy, uint16_t offset);
double gc_double_at(const uint8_t *copy, uint16_t offset);

/*
 * Set *WORDS to the size of the used part of the minor heap, which is filled from its end
 * downwards. Return false if the values in COPY contradict each other: the minor heap is being
 * replaced.
 */
bool gc_young_words(const struct gc_reader *r, const uint8_t *copy, uint64_t *words);

/*
 * Set a message. gc_not_started() returns -EAGAIN and gc_not_plausible() returns -EBADMSG, but both
 * return -ESRCH if the process has ended.
 */
int gc_not_started(const struct gc_reader *r);
int gc_not_plausible(const struct gc_reader *r, const char *what);

#endif
