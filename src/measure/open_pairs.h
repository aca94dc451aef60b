/* SPDX-License-Identifier: MIT */
/*
 * The pairs and calls that have begun and not ended, of a meter with request.has_slower.
 *
 * A call that an exception ends has no exit, so the engine does not see its end (see
 * bpf/measure_frames.bpf.h). Such a call is recognised in two ways: by a later call that is open
 * and not deeper in the same stack; and by the stack of its thread, if the thread waits, or else by
 * the process's memory, where the return address of the call has been overwritten. What is left are
 * calls whose return addresses still lie in memory: in threads that run, and in fibres.
 */
#ifndef MEASURE_OPEN_PAIRS_H
#define MEASURE_OPEN_PAIRS_H

#include <stdint.h>
#include "ocaml_probes.h"

struct ended_calls;

/*
 * Find calls of METER that have no exit and have ended, for meter_take_open(). Call this while the
 * meter is attached: then a call whose return address has gone, but which is still open in the
 * engine, has had no exit. Returns 0 or a negative errno, with a message in the ctx.
 */
int meter_find_ended_calls(struct ocp_meter *meter);
void ended_calls_free(struct ended_calls *ended);

/*
 * Call FN(DATA, hit) for each pair and call that has begun and not ended: slow_pair_of(hit) returns
 * it. Inner calls come before the calls that they are in. Set *N_UNKEPT to the number of pairs and
 * calls that are not passed to FN, because there was no room to keep their starts. Returns 0 or a
 * negative errno, with a message in the ctx.
 */
int meter_take_open(struct ocp_meter *meter, ocp_hit_fn fn, void *data, uint64_t *n_unkept);

#endif
