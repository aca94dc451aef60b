/* SPDX-License-Identifier: MIT */
/*
 * For tests of the measuring engine where it reads arguments. The sites are this process's own, and
 * their arguments what the two functions are called with.
 */
#ifndef TESTS_UNIT_MEASURED_ARGS_H
#define TESTS_UNIT_MEASURED_ARGS_H

#include <stdint.h>
#include <sys/types.h>
#include "measure/args/filter.h"
#include "measured_child.h"

void args_start(uint64_t arg0, uint64_t arg1);
void args_stop(uint64_t arg0, uint64_t arg1);
/* The same with a lower stack pointer. */
void args_start_below(uint64_t arg0, uint64_t arg1);
void args_stop_below(uint64_t arg0, uint64_t arg1);

enum { START, STOP, N_SITES, N_THREADS = 4, SMALL_RING = 1 << 16 };

struct measured {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct engine_site sites[N_SITES];
	struct engine_role roles[N_SITES];
	struct engine_file file;
	struct engine_spec spec;
	struct site_args args;
	struct filter filter;
	struct engine *engine;
	struct ocp_pair pair;
	uint64_t buckets[1][OCP_BUCKETS];
	struct engine_histogram histogram;
	struct engine_floats floats;
	struct measure_losses losses;
	uint64_t hits[N_SITES];
	/* what was printed */
	uint64_t n_printed, last_ns, n_out_of_order;
	char text[4096];
};

/* Both sites, with two arguments each; what is done at them is up to the test. */
void measured_prepare(struct measured *m);
/* The same, and they are a pair, matched by thread. */
void measured_prepare_pair(struct measured *m);
/* The pair is matched by the argument ARG of both, or by thread, and ARG is compared. */
void measured_set_key(struct measured *m, unsigned int arg);
void measured_compare(struct measured *m, unsigned int arg);
/* At the start site. */
void measured_set_filter(struct measured *m, const char *text);

void measured_attach(struct measured *m);
void measured_read(struct measured *m);
void measured_detach(struct measured *m); /* and read */
void measured_finish(struct measured *m);

#endif
