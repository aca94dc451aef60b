/* SPDX-License-Identifier: MIT */
/*
 * Memory that a stopped process makes for us. A process that is not stopped can share the
 * descriptors of the stopped one (CLONE_FILES), and can put another file in place of the memfd at
 * any moment. So both the file that is opened here and the file that the process has mapped are
 * checked.
 */
#ifndef INSIDE_MEMFD_H
#define INSIDE_MEMFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "inside/stop.h"

struct memfd {
	int theirs; /* the descriptor in the process */
	int ours;
	dev_t dev;
	ino_t ino;
};

/*
 * Have the process make a memfd named NAME, which must fit into remote_scratch(), and open it here
 * for reading and writing. The memfd is new, has BYTES bytes, and cannot shrink: accesses to a
 * mapping of it never fault. On failure, no descriptor stays open.
 */
int memfd_make(struct stop *stop, const char *name, size_t bytes, struct memfd *memfd);

/* Have the process close its descriptor, and close ours. */
int memfd_close(struct stop *stop, struct memfd *memfd);

/* Return true if the memfd DEV, INO is mapped at ADDR in MAPS. */
bool memfd_is_at(const struct maps *maps, uint64_t addr, dev_t dev, ino_t ino);

#endif
