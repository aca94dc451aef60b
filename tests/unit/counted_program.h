/* SPDX-License-Identifier: MIT */
/* A fixture that runs: its sites, its own books, and what its text was before. */
#ifndef TESTS_UNIT_COUNTED_PROGRAM_H
#define TESTS_UNIT_COUNTED_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/inside/inside.h"

enum { MAX_SITES = 64, NAME_BYTES = 256, COUNTED_THREADS = 8 };

struct program {
	pid_t pid;
	FILE *in, *out;
	struct ocp_ctx *ctx;
	size_t n;
	struct inside_site sites[MAX_SITES];
	char names[MAX_SITES][NAME_BYTES];
	uint8_t text[MAX_SITES][8]; /* as they were before */
	uint16_t semaphores[MAX_SITES];
};

/* Each of these fails the test if it cannot. WAIT: "--wait", or NULL: the threads run at once. */
void counted_start(struct program *p, const char *fixture, const char *wait);
/* Let the threads make so many rounds, to their end. */
void counted_go(struct program *p, long rounds);
/* The program's own books: hits and handler runs of NAME. */
void counted_books(struct program *p, const char *name, uint64_t *hits, uint64_t *handler);
void counted_end(struct program *p);

void counted_read(const struct program *p, uint64_t addr, void *buf, size_t bytes);
void counted_wait_for(struct program *p, const char *wanted);
void counted_assert_original(const struct program *p);
bool counted_is_unmapped(const struct program *p);

#endif
