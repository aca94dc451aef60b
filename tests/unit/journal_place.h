/* SPDX-License-Identifier: MIT */
/* For tests of journals: a directory of their own, processes, and tools that are gone. */
#ifndef TESTS_UNIT_JOURNAL_PLACE_H
#define TESTS_UNIT_JOURNAL_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "unit.h"

struct journal_place {
	struct ocp_ctx *ctx;
	char runtime[64], dir[100];
	char warnings[4096];
	int n_warnings;
};

/* For EACH_TEST: each test has its own place, in *state. */
int journal_place_make(void **state);
int journal_place_remove(void **state);

/* A child that waits to be killed. */
pid_t start_sleeper(void);
void end_sleeper(pid_t pid);

/* Write a journal of N entries about PROCESS, and leave it. */
void write_some_journal(struct ocp_ctx *ctx, pid_t process, bool applied, size_t n);
/* A tool that does so and is gone. Returns its pid. */
pid_t journal_of_killed_tool(struct ocp_ctx *ctx, pid_t process, bool applied, size_t n);
/* The file NAME among the journals. */
void put_journal(const struct journal_place *place, const char *name, const char *text);

#endif
