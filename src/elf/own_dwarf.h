/* SPDX-License-Identifier: MIT */
#ifndef ELF_OWN_DWARF_H
#define ELF_OWN_DWARF_H

#include <elfutils/libdw.h>

#include "base/ctx.h"

/*
 * The debugging information of the file of FD, called NAME, which dwarf_end() closes. NULL, with a message in the log:
 * it cannot be read, or parts of it are in another file (.gnu_debugaltlink). libdw would open that file by the path in
 * this one, which may be a pipe, whose opening waits, or a device.
 */
Dwarf *own_dwarf_begin(struct ocp_ctx *ctx, int fd, const char *name);

#endif
