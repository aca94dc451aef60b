/* SPDX-License-Identifier: MIT */
/*
 * bpftool's light skeletons load at most 32 functions of an object (the Makefile checks this).
 * measure_stacks needs some of these 32 for the walker, measure_by for the groups, and
 * measure_slower for the slow pairs. So these objects inline small functions of measuring. The
 * other objects do not inline them, since the verifier follows a function only once unless it is
 * inlined.
 */
#ifndef FEW_FUNCTIONS_BPF_H
#define FEW_FUNCTIONS_BPF_H

#if defined(MEASURE_STACKS) || defined(MEASURE_BY) || defined(MEASURE_SLOWER)
#define __within_stacks __always_inline
#else
#define __within_stacks __noinline
#endif

#endif
