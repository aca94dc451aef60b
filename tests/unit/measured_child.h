/* SPDX-License-Identifier: MIT */
/*
 * For tests of the measuring engine: sites in this executable, and children forked by the test that
 * run them when told. Sites and semaphores are where OCaml's would be as far as the kernel can
 * tell: a nop, the 5 bytes of a disabled site, a 16-bit counter in a writable segment.
 */
#ifndef TESTS_UNIT_MEASURED_CHILD_H
#define TESTS_UNIT_MEASURED_CHILD_H

#include <stdint.h>
#include <sys/types.h>
#include "measure/engine/engine_bpf.h"
#include "unit.h"

enum { N_MANY = 12000, NOP = 0x90, INT3 = 0xcc };

/* One site with a semaphore of its own; N_MANY sites with one semaphore; two without any. */
struct engine_site hot_site(void);
void many_sites(struct engine_site *sites);
/* The address of number I of the many. */
const volatile void *many_site(size_t i);
struct engine_site start_site(void);
struct engine_site stop_site(void);

/* Where ADDR of this executable is in its file. */
uint64_t file_off(const volatile void *addr);

extern volatile uint16_t hot_semaphore, many_semaphore;

enum what {
	RUN_HOT,
	RUN_MANY,
	RUN_UNTIL_KILLED,
	RUN_SCRIPT,
	FORK_AND_RUN_HOT,
	FORK_ELSEWHERE, /* the same in a new pid namespace, with one thread */
};

/* What a child is to do. The threads are new ones, and have ended when it is done. */
struct order {
	enum what what;
	unsigned int threads; /* RUN_HOT, RUN_SCRIPT */
	unsigned int times;
	/*
	 * "(" runs the start site, ")" the stop site; after a digit, from 0 on, both with the stack
	 * pointer of a function that was called by so many others. "!" waits for 2 ms.
	 */
	char script[80];
};

struct child {
	pid_t pid;
	int orders, done;
};

void child_start(struct child *child);
/* Tell it, without or with waiting until it is done. */
void child_order(struct child *child, struct order order);
void child_run(struct child *child, struct order order);
/* Kill it. */
void child_end(struct child *child);

/*
 * Wait until this process has one thread only. To the kernel a thread ends, which a measurement
 * sees, some time after it can be joined. False if that takes for ever.
 */
bool await_other_threads_end(void);

uint16_t child_peek(const struct child *child, const volatile void *addr, size_t n);
/*
 * Wait until N bytes are VALUE. They are at once, unless another process holds a link that we
 * closed. `bpftool link` in another test lists all links, and holds each of them for a moment.
 */
void child_await(const struct child *child, const volatile void *addr, size_t n, uint16_t value);
/* The same of the byte of its hot site's nop, and of its semaphore. */
void await_hot_site(const struct child *child, int nop, int semaphore);

/* A ctx that keeps its last warning; the test is skipped if it has not the right to measure. */
struct ocp_ctx *ctx_or_skip(void);
extern char last_warning[1024];

/* One process's SITES of this executable; PID must stay where it is. */
struct engine_file engine_file_of(const pid_t *pid, const struct engine_site *sites, size_t n);
struct engine_spec spec_of(const struct engine_file *file);
/*
 * Attach ENGINE for FILE alone. Wait while an earlier uprobe with another semaphore is at a site:
 * any program that looks at all links of the machine, as `doctor` of other tests does, keeps a
 * closed link open for a moment. The test fails if that fails.
 */
void await_attach(struct ocp_ctx *ctx, struct engine *engine, const struct engine_file *file);
/* Open and attach for FILE alone; OPTIONS may be NULL. The test fails if that fails. */
struct engine *attached(struct ocp_ctx *ctx, const struct engine_file *file,
			const struct engine_bpf_options *options);
void read_hits(struct engine *engine, uint64_t *hits);
uint64_t read_hot(struct engine *engine);
void sleep_ms(unsigned int ms);

#endif
