/* SPDX-License-Identifier: MIT */
/*
 * Events of processes that fork, execute a file, or end, from the kernel's process connector. Needs
 * CAP_NET_ADMIN, and the initial user and pid namespaces.
 */
#ifndef LOOK_PROC_EVENTS_H
#define LOOK_PROC_EVENTS_H

#include <stdbool.h>
#include <sys/types.h>

enum proc_event_kind {
	PROC_EVENT_NO_MORE,  /* no event is waiting */
	PROC_EVENT_EXECUTED, /* PID has executed a file */
	PROC_EVENT_FORKED,   /* PARENT has forked the process PID */
	PROC_EVENT_ENDED,    /* a thread of PID has ended, perhaps the last one */
	PROC_EVENT_LOST,     /* some events did not fit into the buffer */
};

struct proc_event_seen {
	enum proc_event_kind kind;
	pid_t pid, parent;
	bool has_status; /* `status` is set, because the main thread of PID has ended */
	/*
	 * the status of the main thread, as encoded by waitpid(2); this is the status of PID if the
	 * main thread was the last thread to end
	 */
	int status;
};

/* Return a descriptor that polls as readable when there are events, or a negative errno. */
int proc_events_open(void);
/* Take the next event from the descriptor FD, without waiting. */
struct proc_event_seen proc_events_take(int fd);

#endif
