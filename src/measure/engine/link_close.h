/* SPDX-License-Identifier: MIT */
/* Closes links to uprobes. A kill meanwhile leaves no int3 in the measured process. */
#ifndef MEASURE_LINK_CLOSE_H
#define MEASURE_LINK_CLOSE_H

#include <stddef.h>

/*
 * Close the descriptors FDS of N links. If no other process has descriptors of these links, their
 * uprobes are removed, and no hit is being handled, when this returns.
 */
void links_close(const int *fds, size_t n);

/* The same for one link. */
void link_close(int fd);

#endif
