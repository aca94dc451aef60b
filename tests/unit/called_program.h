/* SPDX-License-Identifier: MIT */
/* Programs that notice whether a call in them has changed anything, for test_remote.c. */
#ifndef TESTS_UNIT_CALLED_PROGRAM_H
#define TESTS_UNIT_CALLED_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum called_kind {
	CALLED_REGISTERS, /* compares 15 registers, the vector registers and the red zone */
	CALLED_NANOSLEEP,
	CALLED_READ,
	CALLED_FUTEX,
	CALLED_PAUSED,	/* in sigsuspend(2) */
	CALLED_THREADS, /* in one process but for the last: two that compare, short ones */
	N_CALLED_KINDS,
};

/* The books of the program itself, in shared memory. */
struct called_books {
	atomic_ulong rounds; /* of all threads */
	atomic_ulong by_kind[N_CALLED_KINDS];
	atomic_ulong signals;	 /* SIGRTMIN */
	atomic_ulong eintrs;	 /* system calls that ended with EINTR */
	atomic_int wrong_result; /* the first errno that a program never sees */
	atomic_int wrong_registers;
	atomic_bool is_ready;
};

struct called {
	enum called_kind kind;
	pid_t pid;
	int wake_fd; /* one byte ends one read(2) of the program */
	struct called_books *books;
};

struct called called_start(enum called_kind kind);

/* Wait until the program has made N more rounds, awake it if it waits. False: it does not go on. */
bool called_goes_on(struct called *called, unsigned long n);

void called_end(struct called *called);

/* Changes all registers, then makes the harmless system call: for remote_run(). */
void called_routine(void);

#endif
