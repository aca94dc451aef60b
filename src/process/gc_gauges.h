/* SPDX-License-Identifier: MIT */
/*
 * Read the figures that the garbage collector of a live OCaml process keeps, as Gc.quick_stat
 * returns them. They are read from the memory of the process, within microseconds, without
 * stopping it.
 */
#ifndef PROCESS_GC_GAUGES_H
#define PROCESS_GC_GAUGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "code/runtime.h"
#include "look/memory.h"

/*
 * The amount that a domain, or a program, has allocated, and the size of its heap; all in words.
 * The sums never exceed the true values and never decrease. They are exact while the program waits,
 * or runs C code. While OCaml code runs, `minor` lacks what was allocated since the code last
 * called the runtime: at most one minor heap in each domain.
 */
struct gc_words {
	double minor, promoted, major;
	uint64_t heap, top_heap;
};

struct gc_domain {
	int id;		    /* the number of the domain's slot, which a later domain can reuse */
	uint64_t unique_id; /* the number that Domain.self () returns in the domain */
	struct gc_words words;
};

struct gc_gauges {
	struct gc_words words; /* of the program, including domains that have ended */
	/* The numbers of minor collections, major cycles and compactions since the start. */
	uint64_t minor_collections, major_collections, compactions;
	bool has_compactions;	   /* false: the runtime does not compact (5.1) */
	bool lacks_ended_domains;  /* stripped file: the words of ended domains are missing */
	struct gc_domain *domains; /* the running domains, by slot; OCaml 5 */
	size_t n_domains;
};

struct gc_reader;

/*
 * Prepare to read the gauges of process PID. Returns -ENODATA if PID is not an OCaml program,
 * -EPROTONOSUPPORT if its runtime is not known, -ESRCH, -EPERM, ...
 */
int gc_reader_open(struct ocp_ctx *ctx, pid_t pid, struct gc_reader **out);
void gc_reader_free(struct gc_reader *reader);

const struct runtime *gc_reader_runtime(const struct gc_reader *reader);
const char *gc_reader_exe(const struct gc_reader *reader);

/*
 * Read the gauges. GAUGES->domains belongs to READER and is valid until the next successful read
 * with READER. Returns -ESRCH if the process has ended or runs another program now. Returns -EAGAIN
 * if the values changed during each of several reads, or if the runtime has not started yet.
 */
int gc_reader_read(struct gc_reader *reader, struct gc_gauges *gauges);

#endif
