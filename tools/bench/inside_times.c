// SPDX-License-Identifier: MIT
/*
 * inside_times PID READS: attach the engine `inside` (change/inside/inside.h) to all sites of PID,
 * read them READS times, and detach. Prints
 *
 *	ATTACH_MS READ_US STATE_US DETACH_MS
 *
 * without the reading of the executable: READ is one reading of all counters, STATE one of all
 * sites; their medians.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "change/inside/inside.h"
#include "ocaml_probes.h"
#include "process/process.h"

struct bench {
	struct ocp_ctx *ctx;
	struct ocp_process *proc;
	struct inside_site *sites;
	struct inside *inside;
	uint64_t *hits;
	int64_t *read_ns, *state_ns;
	int64_t attach_ns, detach_ns;
	size_t n, n_reads;
};

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t median(int64_t *times, size_t n)
{
	qsort(times, n, sizeof(*times), compare);
	return times[n / 2];
}

static int find_sites(struct bench *b)
{
	const struct live *live = &b->proc->live;

	b->n = live->n_sites;
	b->sites = calloc(b->n + 1, sizeof(*b->sites));
	b->hits = calloc(b->n + 1, sizeof(*b->hits));
	b->read_ns = calloc(b->n_reads, sizeof(*b->read_ns));
	b->state_ns = calloc(b->n_reads, sizeof(*b->state_ns));
	if (!b->sites || !b->hits || !b->read_ns || !b->state_ns)
		return ctx_no_memory(b->ctx);
	for (size_t i = 0; i < b->n; i++) {
		const struct live_probe *probe = &live->probes[live->sites[i].probe];
		const bool has_one = probe->n_semaphores == 1;

		b->sites[i] = (struct inside_site){
			.addr = live->sites[i].addr,
			.semaphore = has_one ? live->semaphores[probe->first_semaphore] : 0,
		};
	}
	return 0;
}

static int measure_reads(struct bench *b)
{
	struct inside_state state;
	int err = 0;

	for (size_t i = 0; !err && i < b->n_reads; i++) {
		const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
		int64_t read_ns;

		err = inside_read(b->inside, b->hits, NULL);
		read_ns = clock_ns(CLOCK_MONOTONIC);
		if (!err)
			err = inside_state(b->inside, &state);
		b->read_ns[i] = read_ns - start_ns;
		b->state_ns[i] = clock_ns(CLOCK_MONOTONIC) - read_ns;
		if (!err && state.n_patched != b->n)
			err = ctx_error(b->ctx, -1, "%zu of %zu sites count", state.n_patched,
					b->n);
	}
	return err;
}

static int measure(struct bench *b)
{
	const struct inside_spec spec = { .sites = b->sites, .n_sites = b->n };
	int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	int err = inside_attach(b->ctx, ocp_process_pid(b->proc), &spec, &b->inside);

	b->attach_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	if (!err)
		err = measure_reads(b);
	start_ns = clock_ns(CLOCK_MONOTONIC);
	if (!err)
		err = inside_detach(b->inside);
	b->detach_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	return err;
}

static int run(struct bench *b, pid_t pid)
{
	int err = ocp_process_open(b->ctx, pid, &b->proc);

	if (!err)
		err = find_sites(b);
	if (!err)
		err = measure(b);
	if (err)
		fprintf(stderr, "inside_times: %s\n", ocp_error(b->ctx));
	else
		printf("%.2f %.1f %.1f %.2f\n", (double)b->attach_ns / 1e6,
		       (double)median(b->read_ns, b->n_reads) / 1e3,
		       (double)median(b->state_ns, b->n_reads) / 1e3, (double)b->detach_ns / 1e6);
	inside_close(b->inside);
	ocp_process_free(b->proc);
	return err;
}

int main(int argc, char **argv)
{
	struct bench b = { .n_reads = argc == 3 ? strtoul(argv[2], NULL, 10) : 0 };
	int err;

	b.ctx = ocp_ctx_new();
	if (!b.ctx || !b.n_reads)
		return 2;
	err = run(&b, (pid_t)strtol(argv[1], NULL, 10));
	ocp_ctx_free(b.ctx);
	free(b.sites);
	free(b.hits);
	free(b.read_ns);
	free(b.state_ns);
	return err != 0;
}
