/* SPDX-License-Identifier: MIT */
/*
 * The loop of a command that runs until a time limit, a terminating signal, or the end of processes
 * or of a command. From session_open() on, signals are read from descriptors, so that no signal
 * ends the tool after it has made a temporary change and before it has undone the change.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum ending {
	NOT_ENDED,
	ENDED_BY_TIME,
	ENDED_BY_SIGNAL,
	ENDED_WITH_PROCESS,
	ENDED_WITH_COMMAND,
	ENDED_BY_ERROR
};

/*
 * The command of `attach ... -- COMMAND`, which runs while probes are measured. The command has the
 * input, output, signal mask and process group of the tool, so signals from a terminal reach the
 * tool and the command.
 */
struct workload {
	const char *name;
	pid_t pid;   /* 0: no command was forked */
	int pidfd;   /* readable when the command has ended */
	int channel; /* connects the tool with the child that waits for workload_start() */
	bool has_started, has_ended;
	int status; /* as from waitpid(2), if has_ended */
};

enum { SESSION_MAX_FDS = 2 };

struct session {
	/*
	 * in this order: one for the signals, one for each process, one for the command if there is
	 * one, and those of the events of session_run()
	 */
	struct pollfd *fds;
	size_t n_fds; /* number of descriptors of the signals and the processes */
	size_t n_alive;
	struct workload *workload; /* NULL: there is no command */
	int signal;		   /* the last signal that was read; 0: none */
	bool has_sigpipe;
	sigset_t signals, mask_before;
	int64_t woke_ns; /* the time that session_run() has compared with the timers */
	int err;	 /* the error code, if the session was ENDED_BY_ERROR */
};

/*
 * Open a session. Unless N is 0, the session ends when the N processes PIDS have ended. Returns
 * EXIT_DONE, or another code after printing the error. Call session_close() also after an error.
 */
int session_open(struct session *session, const pid_t *pids, size_t n);
void session_close(struct session *session);

/*
 * Let the session also read the N SIGNALS, except those that the tool ignores. Returns the same as
 * session_open().
 */
int session_add_signals(struct session *session, const int *signals, size_t n);
/* Return the number of the next signal that has arrived, or 0 if no signal has arrived. */
int session_take_signal(struct session *session);

/* Return the time of CLOCK_MONOTONIC. */
int64_t session_now_ns(void);

/*
 * Wait until UNTIL_NS (INT64_MAX: forever). Returns NOT_ENDED, or the first event that ended the
 * session.
 */
enum ending session_wait(struct session *session, int64_t until_ns);

/*
 * A recurring event. Unless is_pause is set, the times are on a grid of period_ns, so that delays
 * do not add up.
 */
struct session_timer {
	int64_t next_ns;   /* when the event is due next; INT64_MAX: never */
	int64_t period_ns; /* the time between two events; 0: there is only one event */
	/* each period begins when `fire` has returned, so the times are not on a grid */
	bool is_pause;
	/*
	 * Called when the event is due. Returns NOT_ENDED, or how the session ends. NULL: the
	 * session ends, because its time is over.
	 */
	enum ending (*fire)(void *data);
};

/* Return a timer that is due every PERIOD_NS after START_NS. PERIOD_NS of 0: never. */
struct session_timer session_every(int64_t start_ns, int64_t period_ns,
				   enum ending (*fire)(void *data));
/*
 * Return a timer that is due PERIOD_NS from now, and then each time PERIOD_NS after `fire` has
 * returned.
 */
struct session_timer session_pause(int64_t period_ns, enum ending (*fire)(void *data));

/* A descriptor to wait for. `fire` is called when one of EVENTS or an error occurs, see poll(2). */
struct session_fd {
	int fd; /* negative: none */
	short events;
	enum ending (*fire)(void *data, short revents);
};

/*
 * The events that a command handles. If several have occurred, first those of `fds` and then those
 * of `timers` are handled, in the order of the arrays. `data` is passed to each `fire`.
 */
struct session_events {
	const struct session_fd *fds; /* at most SESSION_MAX_FDS */
	size_t n_fds;
	struct session_timer *timers;
	size_t n_timers;
	void *data;
};

/* Wait and handle EVENTS until the session ends. Returns how it has ended. */
enum ending session_run(struct session *session, const struct session_events *events);

/* ---- a command ------------------------------------------------------------------------------ */

/* Signals that are forwarded to a program that the tool waits for; SIGCHLD is not among them. */
enum { N_FORWARDED = 8 };
extern const int forwarded_signals[N_FORWARDED];

/* Exit codes of the tool if the command cannot be started, as those of a shell. */
enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/*
 * Fork a process for the command ARGV, to be started with workload_start(). Until then, the process
 * ends if the tool ends or closes WORKLOAD. From now on, the session ends when the command has
 * ended, not when the processes have ended. Signals other than SIGPIPE do not end the session, but
 * are passed on to the command. WORKLOAD must outlive the session. Returns the same as
 * session_open().
 */
int session_hold_workload(struct session *session, struct workload *workload, char *const *argv);
/*
 * Like session_hold_workload(), for a program that already runs as PID, a child of this process.
 * The program is not changed.
 */
int session_adopt_workload(struct session *session, struct workload *workload, pid_t pid);
/* Wait for the end of the command, if one was started. */
void session_await_workload(struct session *session);

/*
 * Start the held command. Returns EXIT_DONE. If there is no such command, prints the error and
 * returns 127; if the command cannot be executed, prints the error and returns 126.
 */
int workload_start(struct workload *workload);

/* Free WORKLOAD. A command that was not started ends. */
void workload_close(struct workload *workload);

/*
 * End like a program whose status from waitpid(2) is STATUS: return the exit status of the program
 * or, if a signal has killed the program, let the same signal kill this process, without a core
 * file.
 */
int end_like(int status);

/*
 * Return the exit code of the tool that has run WORKLOAD, if there was a command: if the command
 * has failed, end like the command; otherwise return CODE.
 */
int workload_exit_code(const struct workload *workload, int code);

#endif
