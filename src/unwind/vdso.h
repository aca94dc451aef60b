/* SPDX-License-Identifier: MIT */
/* The vDSO: the library that the kernel maps into each process, with clock_gettime() and others. */
#ifndef UNWIND_VDSO_H
#define UNWIND_VDSO_H

#include "tracee/maps.h"

/*
 * If M, a mapping of any process, is the vDSO, return a descriptor of a copy of the vDSO. The copy
 * is made from our own vDSO, which the same kernel has mapped. Returns -ENOENT if M is not the vDSO
 * or has another size than our own, or another -errno.
 */
int vdso_open(const struct mapping *m);

#endif
