/* SPDX-License-Identifier: MIT */
/* Memory that a stopped process makes for us. */
#ifndef INSIDE_MEMFD_H
#define INSIDE_MEMFD_H

#include "inside/stop.h"

/* Have the process make a memfd with this NAME, which is short; *FD is its descriptor. */
int memfd_make(struct stop *stop, const char *name, int *fd);

/* Open descriptor FD of the process here, for reading and writing. -errno with a message. */
int memfd_open(const struct stop *stop, int fd);

#endif
