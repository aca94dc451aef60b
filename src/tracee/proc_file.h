/* SPDX-License-Identifier: MIT */
/* Reading the files below /proc/PID, and explaining their errors. */
#ifndef TRACEE_PROC_FILE_H
#define TRACEE_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

enum { PROC_PATH_BYTES = 96 };

/*
 * The path of NAME, which is short, below /proc/PID. For the calling process it is /proc/self: in
 * the /proc of another pid namespace our pid may be that of another process.
 */
void proc_path(char path[PROC_PATH_BYTES], pid_t pid, const char *name);

/*
 * Read /proc/PID/NAME whole into *TEXT (NUL-terminated, freed by the caller), its length into
 * *BYTES if that is not NULL. -EFBIG: it is far too long.
 */
int proc_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text, size_t *bytes);

/* Open the executable of PID for reading. Returns -errno, without a message. */
int proc_open_exe(pid_t pid);

/*
 * May this user inspect PID (PTRACE_MODE_READ_FSCREDS, ptrace(2))? False with errno EACCES or EPERM. True for a process
 * that has ended.
 */
bool proc_may_inspect(pid_t pid);

/*
 * The same of a file that shows memory: maps, smaps, auxv. Linux 6.13 and later let CAP_PERFMON read these files of
 * any process. A tool that has it as a file capability must not pass them on to a user who may not inspect the
 * process, so this function also asks for the access that ptrace(2) calls PTRACE_MODE_READ_FSCREDS.
 */
int proc_memory_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text,
			  size_t *bytes);

/* What /proc/PID/status says. */
struct proc_status {
	char name[64];
	char state;	  /* 'R', 'S', 'D', 'T', 't', 'Z', 'X', ... */
	pid_t tgid;	  /* the thread's process */
	pid_t ns_pid;	  /* its id in its own pid namespace */
	pid_t parent_pid; /* 0: outside of our pid namespace */
	pid_t tracer_pid; /* 0: not traced */
	uid_t real_uid, effective_uid;
	unsigned long threads; /* of the process, without those that have been reaped */
};

/* Parse the text of such a file. A missing field is '?' for the state and 0 otherwise. */
void proc_status_parse(const char *text, struct proc_status *status);

/* -ESRCH if there is no such thread. */
int proc_status_read(struct ocp_ctx *ctx, pid_t pid, struct proc_status *status);

/*
 * The start time of process PID, in clock ticks since boot. Together with the pid it identifies a
 * process. -ESRCH, without a message, if the process does not exist or is a zombie.
 */
int proc_start_time(pid_t pid, uint64_t *start_time);

/* Is PID a kernel thread? Any process may ask. */
bool is_kernel_thread(pid_t pid);

/* False of kernel threads, zombies and processes that do not exist. Any process may ask. */
bool proc_has_memory(pid_t pid);

/*
 * Explain why an access to process PID failed with the errno ERR: the process does not exist, is a
 * zombie, belongs to another user, may not be traced, is traced already, ... Records the message
 * and returns the library's error code.
 */
int proc_why_no_access(struct ocp_ctx *ctx, pid_t pid, int err);

#endif
