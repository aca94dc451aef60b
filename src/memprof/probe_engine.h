/* SPDX-License-Identifier: MIT */
/*
 * The engine of struct memprof_probes: bpf/memprof.bpf.c, loaded and attached. A meter opens, attaches and
 * closes it as it does with others; it cannot be read, since it counts nothing. Its records are for
 * probes.c.
 */
#ifndef MEMPROF_PROBE_ENGINE_H
#define MEMPROF_PROBE_ENGINE_H

#include "measure/engine/engine.h"
#include "memprof.h"
#include "memprof/session.h"

extern const struct engine_ops probe_engine;

/* After the open, before the attach: call stacks have at most DEPTH frames. */
void probe_engine_set_depth(struct engine *engine, uint32_t depth);
/* Site NUMBER has events of KIND, with the arguments ARGS of those that probe_engine_set_args sets. */
int probe_engine_set_site(struct engine *engine, uint32_t number, enum memprof_kind kind,
			  uint32_t args);
int probe_engine_set_args(struct engine *engine, const struct site_args *args, size_t n);

/*
 * Take the next record. *WORDS is the number of words after its session. Returns false if no record waits.
 */
bool probe_engine_next(struct engine *engine, struct memprof_record *record, uint64_t *words);

/* From now on, take only the records that wait at this moment. */
void probe_engine_finish(struct engine *engine);

/* The events that have not come into the buffer so far. */
int probe_engine_losses(const struct engine *engine, struct memprof_probe_losses *losses);

#endif
