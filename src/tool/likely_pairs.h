/* SPDX-License-Identifier: MIT */
/* Pairs of probes that the names of the probes suggest, for a report of an unknown program. */
#ifndef TOOL_LIKELY_PAIRS_H
#define TOOL_LIKELY_PAIRS_H

#include "measure/args/request.h"
#include "ocaml_probes.h"

/*
 * Add to REQUEST the pairs that the names of the probes of PROC suggest, such as
 * request_start,request_done. Returns 0 or -ENOMEM.
 */
int likely_pairs_add(const struct ocp_process *proc, struct measure_request *request);

#endif
