/* SPDX-License-Identifier: MIT */
/* What the stubs of Probes_lib have in common. */
#ifndef PROBES_LIB_STUBS_H
#define PROBES_LIB_STUBS_H

#include <caml/mlvalues.h>

/* All other symbols that are linked into the library are hidden. */
#define STUB __attribute__((visibility("default"))) value

/* Raise Probes_lib.Error with the message WHY, which is freed. NULL: memory is short. */
void probes_lib_raise(char *why) __attribute__((noreturn));

#endif
