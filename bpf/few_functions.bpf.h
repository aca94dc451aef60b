/* SPDX-License-Identifier: MIT */
/*
 * bpftool's light skeletons load at most 32 functions of an object (the Makefile checks this). In
 * measure_stacks the walker needs some of them, in measure_by the groups, and in measure_slower the slow
 * pairs. So small functions of measuring are within their callers there. Elsewhere they are functions,
 * which the verifier follows once.
 */
#ifndef FEW_FUNCTIONS_BPF_H
#define FEW_FUNCTIONS_BPF_H

#if defined(MEASURE_STACKS) || defined(MEASURE_BY) || defined(MEASURE_SLOWER)
#define __within_stacks __always_inline
#else
#define __within_stacks __noinline
#endif

#endif
