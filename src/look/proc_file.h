/* SPDX-License-Identifier: MIT */
/* Reading the files below /proc/PID, and explaining their errors. */
#ifndef LOOK_PROC_FILE_H
#define LOOK_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

enum { PROC_PATH_BYTES = 96 };

/*
 * Set PATH to the path of the file NAME below /proc/PID. NAME must be short. If PID is the calling
 * process, the path is below /proc/self: if /proc belongs to another pid namespace, our pid may
 * denote another process there.
 */
void proc_path(char path[PROC_PATH_BYTES], pid_t pid, const char *name);

/*
 * Read all of /proc/PID/NAME into *TEXT (NUL-terminated, freed by the caller). Set *BYTES to the
 * length of the text, unless BYTES is NULL. Returns -EFBIG if the file has more than 16 MiB; no
 * such file of a real process is that large.
 */
int proc_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text, size_t *bytes);

/* Open the executable of PID for reading. Returns -errno, without a message. */
int proc_open_exe(pid_t pid);

/*
 * Return true if this user may inspect PID (PTRACE_MODE_READ_FSCREDS, ptrace(2)), or if PID has
 * ended. Otherwise return false, with errno EACCES or EPERM.
 */
bool proc_may_inspect(pid_t pid);

/*
 * Like proc_file_read(), for a file that shows memory: maps, smaps, auxv. Linux 6.13 and later let
 * CAP_PERFMON read such files of any process. If our executable has the file capability
 * CAP_PERFMON, it must not pass their contents on to a user who may not inspect the process. So
 * this function also requires the access that ptrace(2) calls PTRACE_MODE_READ_FSCREDS.
 */
int proc_memory_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text,
			  size_t *bytes);

/* The contents of /proc/PID/status. */
struct proc_status {
	char name[64];
	char state;	  /* 'R', 'S', 'D', 'T', 't', 'Z', 'X', ... */
	pid_t tgid;	  /* the process that the thread belongs to */
	pid_t ns_pid;	  /* the id of the thread in its own pid namespace */
	pid_t parent_pid; /* 0: the process has no parent, or one outside of our pid namespace */
	pid_t tracer_pid; /* 0: not traced */
	uid_t real_uid, effective_uid;
	unsigned long threads; /* of the process; includes exited threads that are not reaped */
};

/*
 * Parse TEXT, the contents of /proc/PID/status. If a field is missing, its member becomes 0, or '?'
 * for the state.
 */
void proc_status_parse(const char *text, struct proc_status *status);

/* Read the status of thread PID. Returns -ESRCH if there is no such thread. */
int proc_status_read(struct ocp_ctx *ctx, pid_t pid, struct proc_status *status);

/*
 * Return true if TEXT, the contents of /proc/PID/task/TID/stat, is that of a thread that runs, or
 * waits for a CPU.
 */
bool proc_stat_is_runnable(const char *text);

/* Where a thread that waits has left its stack. */
struct proc_wait_place {
	uint64_t rsp, rip;
};

/*
 * Parse TEXT, the contents of /proc/PID/task/TID/syscall. Return false if the thread ran, or waited
 * for a CPU.
 */
bool proc_wait_place_parse(const char *text, struct proc_wait_place *place);

/*
 * Get the start time of process PID, in clock ticks since boot. The pid and the start time together
 * identify a process. Returns -ESRCH, without a message, if the process does not exist or is a
 * zombie.
 */
int proc_start_time(pid_t pid, uint64_t *start_time);

/* Return true if PID is a kernel thread. This needs no permission. */
bool is_kernel_thread(pid_t pid);

/*
 * Return true if PID has memory: kernel threads, zombies and missing processes do not. This needs
 * no permission.
 */
bool proc_has_memory(pid_t pid);

/* The auxiliary vector that the kernel gave a process: getauxval(3), /proc/PID/auxv. */

/*
 * Set *VALUE to the value of TYPE (AT_...) in the auxiliary vector of process PID; 0 if the vector
 * lacks TYPE. If the process is in the middle of an exec, wait for the new vector.
 */
int auxv_read(struct ocp_ctx *ctx, pid_t pid, uint64_t type, uint64_t *value);

/*
 * Return the value of TYPE in the auxiliary vector at BYTES, the contents of /proc/PID/auxv,
 * N_BYTES long; 0 if TYPE is missing.
 */
uint64_t auxv_find(const char *bytes, size_t n_bytes, uint64_t type);

/*
 * Explain why an access to process PID failed with the errno ERR: the process does not exist, is a
 * zombie, belongs to another user, is protected from tracing, is traced already, ... Records the
 * message and returns the library's error code.
 */
int proc_why_no_access(struct ocp_ctx *ctx, pid_t pid, int err);

#endif
