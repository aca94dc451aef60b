/* SPDX-License-Identifier: MIT */
/* Parses the sampling rate of a Gc.Memprof profile, as users write it. */
#ifndef MEMPROF_RATE_H
#define MEMPROF_RATE_H

#include <stdbool.h>

/* Limits and default, in samples per word. The default has no visible cost. */
#define MEMPROF_MIN_RATE   1e-9
#define MEMPROF_USUAL_RATE 1e-4

/* Prefix of the library's own probes. Counting these costs a trap for each event. */
#define MEMPROF_PROBES "memprof_"

/* Set *RATE from TEXT. Return false if TEXT is not a number from 1e-9 to 1. */
bool memprof_rate_read(const char *text, double *rate);

#endif
