/* SPDX-License-Identifier: MIT */
/*
 * Links: a link makes the kernel run a BPF program at certain events. A link exists until its last
 * descriptor is closed. links_close() closes links in such a way that no int3 is left in the
 * measured process even if the tool is killed meanwhile (link_close.c).
 */
#ifndef KERNEL_LINK_H
#define KERNEL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Places in a file for uprobes, as parallel arrays of N entries. */
struct uprobe_places {
	const char *path;
	const unsigned long *offsets; /* file offsets of instructions */
	/*
	 * File offsets of the semaphores. An entry of 0: this place has no semaphore. NULL: no
	 * place has a semaphore.
	 */
	const unsigned long *ref_ctrs;
	const uint64_t *cookies; /* the cookies of the hits; NULL: all are 0 */
	size_t n;
	pid_t pid;	/* the process to measure; 0: all processes */
	bool is_return; /* make return probes: uprobes at the return of a function */
};

/*
 * Run the program PROG at all PLACES, by one uprobe_multi link. Return the descriptor of the link,
 * or a negative errno.
 */
int link_uprobes(int prog, const struct uprobe_places *places);

/*
 * Run the program PROG at the raw tracepoint NAME. Return the descriptor of the link, or a negative
 * errno.
 */
int link_tracepoint(int prog, const char *name);

/*
 * Run the program PROG with COOKIE at each event of EVENT, a descriptor from perf_event(). Close
 * EVENT in any case; the link keeps the event alive. Return the descriptor of the link, or a
 * negative errno.
 */
int link_perf_event(int prog, int event, uint64_t cookie);

/*
 * Find the link with the lowest id greater than *ID, among all links of the machine, open it, and
 * set *ID to its id. Return the descriptor, -ENOENT if there is no such link, or another negative
 * errno, such as -EPERM without CAP_SYS_ADMIN. Close the descriptor by links_close(): by then, it
 * may be the last descriptor of the link.
 */
int link_open_next(uint32_t *id);

/*
 * Close FDS, the descriptors of N links. When this returns, the uprobes of these links are removed
 * and no hit is being handled, unless another process has descriptors of the links.
 */
void links_close(const int *fds, size_t n);

/* Close FD, the descriptor of one link, as links_close() does. */
void link_close(int fd);

#endif
