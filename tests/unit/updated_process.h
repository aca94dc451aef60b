/* SPDX-License-Identifier: MIT */
/*
 * A child of the test with many probes, whose updates change under their hands. At each step of an
 * update the test can act: the functions that an update calls are wrapped (tests.mk).
 */
#ifndef TESTS_UNIT_UPDATED_PROCESS_H
#define TESTS_UNIT_UPDATED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ocaml_probes.h"

/* FIRST_SLICE: update.c's number of writes, two a probe. */
enum { N = 1500, FIRST_SLICE = 1024, SPACING = 8 };
enum { ON = 0xe8, OFF = 0x3d, INT3 = 0xcc };
extern const uint8_t update_sites[];
extern uint16_t update_semaphores[]; /* two halves a probe; the second one is OCaml's */

uint64_t opcode_of(size_t probe);
uint64_t counter_of(size_t probe);

/* PLANNED: the plan is made, nothing else is done. */
enum moment {
	PLANNED,
	REFRESH_CODE,
	REFRESH_COUNTERS,
	TRAMPOLINES,
	STOP,
	APPLY,
	COMMIT,
	PROGRESS,
	CALLOC,
	SLEEP,
	N_MOMENTS
};

enum { EACH = 0 };

extern struct test {
	struct ocp_ctx *ctx;
	struct ocp_process *proc;
	struct ocp_actions *actions;
	pid_t pid;
	int memory;
	char folder[64], log[1024];
	/* At call number `at` of this moment, from 1 on, this is done; what it returns fails the
	 * call. */
	int (*act[N_MOMENTS])(void);
	int at[N_MOMENTS], calls[N_MOMENTS];
	/* Of the plan: where the first and the last site is that it switches on. */
	uint64_t first, last;
	/* What PROGRESS was to say, of the last one BEGUN too; and whether any write of APPLY came
	 * late. */
	size_t done[8], begun;
	bool wrong_phase;
	/* Of a tool that counts inside. */
	uint8_t lead;
	struct inside *inside;
} t;

/* From now on calls are counted anew, and ACT is done at call number CALL of M and nothing else. */
void at(enum moment m, int call, int (*act)(void));
void from_now_on(void);

/* An act that lets the call fail. */
int failure(void);

/* The memory of the process. */
void poke(uint64_t addr, uint16_t value, size_t bytes);
unsigned int peek(uint64_t addr, size_t bytes);

/* All but one probe, if EXCEPT is one, are on (counted once), or off. */
void check_all(bool on, size_t except);
size_t probe_at(uint64_t opcode);
int count_journals(void);

enum child {
	FILTERED, /* by a filter that allows all */
	FREE,
	NO_WRITABLE_CODE, /* mprotect(2) refuses it */
};

/* Set-up and end of a test. */
int start_child(enum child child);
int end_update(void **state);

int update(unsigned int flags);

/* From now on all probes are to be enabled, or disabled. */
void ask_for(bool enable);

/* All probes are on: switch them off, so that the next case can begin. */
void switch_off(void);

#endif
