/* SPDX-License-Identifier: MIT */
/*
 * bpftool's light skeletons load at most 32 functions of an object (the Makefile checks this).
 * measure_stacks needs some of these 32 for the walker, measure_by for the groups, and
 * measure_slower for the slow pairs. So these objects inline the functions that are declared
 * __within_stacks. The other objects do not inline them, for the reasons given in args.bpf.h.
 */
#ifndef FEW_FUNCTIONS_BPF_H
#define FEW_FUNCTIONS_BPF_H

#if defined(MEASURE_STACKS) || defined(MEASURE_BY) || defined(MEASURE_SLOWER)
#define __within_stacks __always_inline
#else
#define __within_stacks __noinline
#endif

#endif
