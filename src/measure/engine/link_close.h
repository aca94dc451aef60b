/* SPDX-License-Identifier: MIT */
/*
 * Closes links to uprobes so that no int3 is left in the measured process if the tool is killed
 * meanwhile.
 */
#ifndef MEASURE_LINK_CLOSE_H
#define MEASURE_LINK_CLOSE_H

#include <stddef.h>

/*
 * Close the descriptors FDS of N links. When this returns, the uprobes of these links are removed
 * and no hit is being handled, unless another process has descriptors of the links.
 */
void links_close(const int *fds, size_t n);

/* Close the descriptor FD of one link in the same way. */
void link_close(int fd);

#endif
