/* SPDX-License-Identifier: MIT */
/* The files below /proc/PID, and what their errors mean to a person. */
#ifndef PROCESS_PROC_FILE_H
#define PROCESS_PROC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

enum { PROC_PATH_BYTES = 96 };

/*
 * The path of NAME, which is short, below /proc/PID. One's own is /proc/self: where /proc is of
 * another pid namespace, our number is somebody else there.
 */
void proc_path(char path[PROC_PATH_BYTES], pid_t pid, const char *name);

/*
 * Read /proc/PID/NAME whole into *TEXT (NUL-terminated, freed by the caller), its length into
 * *BYTES if that is not NULL.
 */
int proc_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text, size_t *bytes);

/* What /proc/PID/status says. */
struct proc_status {
	char name[64];
	char state;	  /* 'R', 'S', 'D', 'T', 't', 'Z', 'X', ... */
	pid_t tgid;	  /* the process that it is a thread of */
	pid_t ns_pid;	  /* its id in its own pid namespace */
	pid_t tracer_pid; /* 0: nobody traces it */
	uid_t real_uid, effective_uid;
	unsigned long threads; /* a process's that have not been reaped */
};

/* What the text of such a file says; what it does not say is '?' for the state and 0 otherwise. */
void proc_status_parse(const char *text, struct proc_status *status);

/* -ESRCH if there is no such thread. */
int proc_status_read(struct ocp_ctx *ctx, pid_t pid, struct proc_status *status);

/*
 * When process PID was started, in clock ticks since boot: with the pid, what tells processes
 * apart. -ESRCH, without a sentence, if there is no such process or only its zombie.
 */
int proc_start_time(pid_t pid, uint64_t *start_time);

/*
 * Say why process PID could not be reached, from the errno ERR that an access to it gave: it does
 * not exist, is a zombie, belongs to somebody else, may not be traced, is traced already, ...
 * Records the sentence and returns the library's code for it.
 */
int proc_why_no_access(struct ocp_ctx *ctx, pid_t pid, int err);

#endif
