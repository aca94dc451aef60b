/* SPDX-License-Identifier: MIT */
/* The library that the kernel maps into each process; clock_gettime() and others run in it. */
#ifndef UNWIND_VDSO_H
#define UNWIND_VDSO_H

#include "tracee/maps.h"

/*
 * A descriptor of a copy of the vDSO, if M, of any process, is its mapping. The copy is made from our
 * own, which the same kernel has mapped. -errno: M is not the vDSO, or not the same one.
 */
int vdso_open(const struct mapping *m);

#endif
