/* SPDX-License-Identifier: MIT */
/*
 * For tests of the watch: fixtures whose rounds pass three sites once each (with_site, both,
 * started_on), in copies of their own; and what is seen of them.
 */
#ifndef TESTS_UNIT_WATCHED_PROGRAM_H
#define TESTS_UNIT_WATCHED_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include "unit.h"
#include "watch/watch.h"

/* Of the three; and of the pair from with_site to started_on as well. */
extern const struct measure_request count_all, time_too;

/* ---- programs ------------------------------------------------------------------------------- */

extern char program[64]; /* a copy of the fixture v2, while a test runs */

int set_up_program(void **state);
int tear_down_program(void **state);
/* Another generation of it, by rename. */
void copy_program(const char *to);

struct running {
	pid_t pid;
	FILE *in, *out;
};

struct running start(const char *path);
void go(struct running *running, unsigned int rounds);
/* It must end well. */
void quit(struct running *running);
/* All of these. */
void run(const char *path, unsigned int rounds);

/* ---- what is watched ------------------------------------------------------------------------ */

struct watching {
	struct ocp_ctx *ctx;
	struct watch *watch;
};

struct watching watch_it(const struct watch_spec *specs, size_t n, bool by_process);
void end(struct watching *w);
void tick(struct watching *w);
/* The first target, and its probe NAME, which it must have. */
const struct watch_target *the_target(struct watching *w);
const struct watch_probe *probe_called(struct watching *w, const char *name);
/* The hits of with_site now, after those of the others, which are hit as often, were compared. */
uint64_t hits_now(struct watching *w);
/*
 * Wait until it is known what a hit costs: a thread measures it, which opens files for that and
 * closes them at its end. With a tick.
 */
void await_costs(struct watching *w);
/* Of this process. */
size_t count_descriptors(void);

#endif
