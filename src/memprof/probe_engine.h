/* SPDX-License-Identifier: MIT */
/*
 * The engine of struct memprof_probes: loads and attaches bpf/memprof.bpf.c. A meter opens,
 * attaches and closes this engine like any other engine, but cannot read counts from it, since it
 * only produces records, which probes.c takes.
 */
#ifndef MEMPROF_PROBE_ENGINE_H
#define MEMPROF_PROBE_ENGINE_H

#include "measure/engine/engine.h"
#include "memprof.h"
#include "memprof/session.h"

extern const struct engine_ops probe_engine;

/* Limit call stacks to DEPTH frames. Call this after opening the engine and before attaching it. */
void probe_engine_set_depth(struct engine *engine, uint32_t depth);
/*
 * Declare that site NUMBER reports events of KIND. ARGS indexes the array given to
 * probe_engine_set_args().
 */
int probe_engine_set_site(struct engine *engine, uint32_t number, enum memprof_kind kind,
			  uint32_t args);
int probe_engine_set_args(struct engine *engine, const struct site_args *args, size_t n);

/*
 * Take the next record. Set *WORDS to the number of words in it after record->session. Return false
 * if no record is waiting.
 */
bool probe_engine_next(struct engine *engine, struct memprof_record *record, uint64_t *words);

/* From now on, take only the records that are in the buffer at this moment. */
void probe_engine_finish(struct engine *engine);

/* Set *LOSSES to the numbers of events that were lost before they reached the buffer. */
int probe_engine_losses(const struct engine *engine, struct memprof_probe_losses *losses);

#endif
