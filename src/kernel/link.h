/* SPDX-License-Identifier: MIT */
/*
 * Links, by which the kernel runs BPF programs. A link exists until the last descriptor of it is
 * closed. Links are closed in such a way that no int3 is left in the measured process if the tool
 * is killed meanwhile (link_close.c).
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
	/* File offsets of semaphores; an entry of 0: no semaphore; NULL: no semaphores. */
	const unsigned long *ref_ctrs;
	const uint64_t *cookies; /* NULL: all are 0 */
	size_t n;
	pid_t pid;	/* the process to measure; 0: all */
	bool is_return; /* the uprobes are return probes */
};

/*
 * Run the program PROG at all PLACES, by one uprobe_multi link. Return the descriptor of the link,
 * or a negative errno.
 */
int link_uprobes(int prog, const struct uprobe_places *places);

/* Run PROG at the raw tracepoint NAME. Return the descriptor of the link, or a negative errno. */
int link_tracepoint(int prog, const char *name);

/*
 * Run PROG with COOKIE at each event of EVENT, a descriptor from perf_event(). Close EVENT; the
 * link keeps the event. Return the descriptor of the link, or a negative errno.
 */
int link_perf_event(int prog, int event, uint64_t cookie);

/*
 * Open the first link of the machine whose id is greater than *ID, and set *ID to its id. Return
 * its descriptor, -ENOENT if there is none, or another negative errno: only CAP_SYS_ADMIN may list
 * links. Close the descriptor by links_close(): it may have become the last one of its link.
 */
int link_open_next(uint32_t *id);

/*
 * Close the descriptors FDS of N links. When this returns, the uprobes of these links are removed
 * and no hit is being handled, unless another process has descriptors of the links.
 */
void links_close(const int *fds, size_t n);

/* Close the descriptor FD of one link in the same way. */
void link_close(int fd);

#endif
