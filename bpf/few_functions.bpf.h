/* SPDX-License-Identifier: MIT */
/*
 * bpftool's light skeletons load at most 32 functions of an object (the Makefile checks this). The
 * objects measure_stacks, measure_by and measure_slower have additional functions (for the walker,
 * the groups and the slow pairs), and would exceed this limit. So in these three objects, functions
 * that are declared __within_stacks are inlined. In the other objects they are not inlined, because
 * the verifier has less to follow then.
 */
#ifndef FEW_FUNCTIONS_BPF_H
#define FEW_FUNCTIONS_BPF_H

#if defined(MEASURE_STACKS) || defined(MEASURE_BY) || defined(MEASURE_SLOWER)
#define __within_stacks __always_inline
#else
#define __within_stacks __noinline
#endif

#endif
