/* SPDX-License-Identifier: MIT */
#ifndef ELF_OWN_DWARF_H
#define ELF_OWN_DWARF_H

#include <elfutils/libdw.h>

#include "base/ctx.h"

/*
 * Open the debug information of the file of FD, called NAME. The caller closes it with dwarf_end().
 * Returns NULL, with a log message, if the debug information cannot be read, or if parts of it are
 * in another file (.gnu_debugaltlink): libdw would open the other file by a path that the file of
 * FD gives. That path may lead to a pipe, on which open(2) blocks, or to a device.
 */
Dwarf *own_dwarf_begin(struct ocp_ctx *ctx, int fd, const char *name);

#endif
