// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/plural.h"
#include "base/sanitize.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "code/runtime.h"
#include "ocaml_probes.h"
#include "look/container.h"
#include "look/find.h"
#include "look/proc_events.h"
#include "process/process_kind.h"
#include "program/program.h"
#include "tool/json.h"
#include "tool/list_args.h"
#include "look/exit_status.h"
#include "look/proc_file.h"
#include "watch/verdicts.h"

/* ---- --follow ------------------------------------------------------------------------------- */

/*
 * `list --follow`: print when OCaml programs start and end. For root, the kernel reports when a
 * process executes a file, forks or ends. For other users all processes are listed ten times per
 * second, or less often if that would take more than a twentieth of the time. For root they are
 * listed from time to time, in case the kernel has lost events. A process that is new, or has
 * executed another file, is examined at once. A process that runs an OCaml program gets a pidfd,
 * which reports the end of the process.
 */

/* ---- which files are OCaml programs --------------------------------------------------------- */

/* A cache of the examined executables. Each file is read once. */
struct follow_files {
	struct verdicts *verdicts; /* results of examining files of other users */
	struct follow_file *list;
	size_t n;
};

/*
 * What is known about an executable. is_one is true if it is an OCaml program: it contains OCaml's
 * native runtime or OCaml probes.
 */
struct follow_program {
	dev_t dev;
	ino_t ino;
	bool is_one;
	char ocaml[32]; /* the OCaml version; "": unknown */
	size_t n_probes;
};

/*
 * An examined file. Its size and the time of its last change are also compared, since the inode
 * alone does not identify the contents: files are replaced and rewritten.
 */
struct follow_file {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec changed;
	struct follow_program program;
};

/* A machine usually runs few executables, but a build runs thousands of new ones. */
enum { MAX_FILES = 4096 };

static bool is_of(const struct follow_file *file, const struct stat *st)
{
	return file->dev == st->st_dev && file->ino == st->st_ino && file->bytes == st->st_size &&
	       file->changed.tv_sec == st->st_ctim.tv_sec &&
	       file->changed.tv_nsec == st->st_ctim.tv_nsec;
}

/* Open the file of FD and take ownership of FD. Wait until the file has been examined. */
static int open_program(struct ocp_ctx *ctx, struct verdicts *verdicts, int fd, pid_t pid,
			const char *name, struct ocp_program **prog)
{
	const struct file_origin origin = { .name = name, .pid = pid };
	int again, err;

	do {
		again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		err = again < 0 ? -errno : program_open_from(ctx, again, &origin, prog);
	} while (err == -EAGAIN && verdicts_await(verdicts, VERDICTS_WAIT_MS));
	close(fd);
	return err;
}

/*
 * Read the file of FD and take ownership of FD. Treat a damaged file as a program that is not
 * OCaml. Return -EAGAIN, with a warning, if the file could not be examined in time.
 */
static int read_followed_program(struct ocp_ctx *ctx, struct verdicts *verdicts, int fd, pid_t pid,
				 struct follow_program *program)
{
	char path[PROC_PATH_BYTES], name[PATH_MAX] = "";
	struct ocp_program *prog = NULL;
	struct runtime runtime;
	int err;

	proc_path(path, pid, "exe");
	if (readlink(path, name, sizeof(name) - 1) <= 0)
		snprintf(name, sizeof(name), "%s", path);
	err = open_program(ctx, verdicts, fd, pid, name, &prog);
	if (err == -EAGAIN) {
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: left out: %s could not be examined in time",
			(int)pid, name);
		return err;
	}
	if (err || !prog)
		return err == -ENOMEM ? err : 0;
	program->n_probes = ocp_program_probe_count(prog);
	err = runtime_recognise(ctx, prog->elf, &runtime);
	ocp_program_free(prog);
	if (err == -ENOMEM)
		return err;
	/* A runtime with unknown structures is still an OCaml runtime. */
	program->is_one = program->n_probes || !err || err == -EPROTONOSUPPORT;
	if (!err || err == -EPROTONOSUPPORT)
		snprintf(program->ocaml, sizeof(program->ocaml), "%s", runtime.version);
	return 0;
}

/* Add a file. If the list is full, replace the oldest entry. */
static int remember_file(struct ocp_ctx *ctx, struct follow_files *files,
			 const struct follow_file *file)
{
	if (!files->list)
		files->list = calloc(MAX_FILES, sizeof(*files->list));
	if (!files->list)
		return ctx_no_memory(ctx);
	files->list[files->n++ % MAX_FILES] = *file;
	return 0;
}

/*
 * Examine the executable of process PID. Returns -ESRCH if the process has ended, -EAGAIN if there
 * was no time to read the file, or -ENOMEM. Treat a file that cannot be read as a program that is
 * not OCaml.
 */
static int follow_files_look(struct ocp_ctx *ctx, struct follow_files *files, pid_t pid,
			     struct follow_program *program)
{
	struct follow_file file;
	struct stat st;
	const int fd = proc_open_exe(pid);
	int err;

	*program = (struct follow_program){ 0 };
	if (fd < 0)
		return fd == -ENOENT || fd == -ESRCH ? -ESRCH : 0;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return -ESRCH;
	}
	for (size_t i = 0; i < files->n && i < MAX_FILES; i++) {
		if (!is_of(&files->list[i], &st))
			continue;
		close(fd);
		*program = files->list[i].program;
		return 0;
	}
	*program = (struct follow_program){ .dev = st.st_dev, .ino = st.st_ino };
	err = read_followed_program(ctx, files->verdicts, fd, pid, program);
	if (err)
		return err;
	file = (struct follow_file){ .dev = st.st_dev,
				     .ino = st.st_ino,
				     .bytes = st.st_size,
				     .changed = st.st_ctim,
				     .program = *program };
	return remember_file(ctx, files, &file);
}

static int follow_files_open(struct ocp_ctx *ctx, struct follow_files *files)
{
	*files = (struct follow_files){ .verdicts = verdicts_new(ctx) };
	if (!files->verdicts)
		return -ENOMEM;
	verdicts_set_strangers(files->verdicts);
	return 0;
}

static void follow_files_free(struct follow_files *files)
{
	verdicts_free(files->verdicts);
	free(files->list);
	*files = (struct follow_files){ 0 };
}

/* ---- the follower --------------------------------------------------------------------------- */

enum {
	ROUND_NS = 100 * 1000 * 1000,
	ROUND_WITH_EVENTS_MS = 5000,
	/*
	 * A new child is examined this long after its fork: if it executes another file at all, it
	 * usually does so soon.
	 */
	CHILD_NS = 50 * 1000 * 1000,
	MAX_CHILDREN = 256,
	PAUSE_PER_ROUND = 20, /* pause between rounds, as a multiple of the round's duration */
};

/* A process that runs an OCaml program. */
struct ocaml_process {
	pid_t pid;
	int pidfd;
	char *exe;
	struct follow_program program;
	struct container container;
	/* the kernel has reported the end of the first thread, and with it `status` */
	bool has_status;
	int status;
};

/* A new child of a followed process. */
struct new_child {
	pid_t pid;
	int64_t look_ns;
};

/* A process that was examined, and the file that it ran then. */
struct looked_at {
	pid_t pid;
	dev_t dev;
	ino_t ino;
};

enum { TIMER_ROUND, TIMER_CHILD, TIMER_END, N_TIMERS };

struct follower {
	struct options *options;
	struct find_memory memory;
	struct follow_files files;
	struct ocaml_process *followed; /* the processes that run OCaml programs, unsorted */
	size_t n_followed;
	/* the processes that were examined, in ascending order of the pids */
	struct looked_at *looked_at;
	size_t n_looked_at;
	bool is_first_round;
	int events; /* descriptor of the kernel's process events; negative: none */
	struct new_child children[MAX_CHILDREN];
	size_t n_children;
	struct session_timer timers[N_TIMERS];
	int err;
	int write_error; /* errno of the first event that could not be written */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* How a process has ended. */
struct ending_of {
	bool runs_another; /* the process still runs, but has executed another file */
	bool is_known;
	int status; /* the status of the process, as waitpid(2) encodes it */
};

static void write_event_json(const char *event, const struct ocaml_process *process,
			     const struct ending_of *ending)
{
	struct json_object *top = json_object_new_object();
	const int64_t now_ms = clock_ns(CLOCK_REALTIME) / 1000000;
	char now[32];

	json_add_int(top, "version", 1);
	json_add_string(top, "event", event);
	snprintf(now, sizeof(now), "%" PRId64 ".%03d", now_ms / 1000, (int)(now_ms % 1000));
	json_object_object_add(top, "time", json_object_new_double_s((double)now_ms / 1e3, now));
	json_add_int(top, "pid", process->pid);
	json_add_filled_string(top, "ocaml", process->program.ocaml);
	json_add_uint(top, "probes", process->program.n_probes);
	json_add_string(top, "exe", process->exe);
	json_add_filled_string(top, "pod_uid", process->container.pod);
	json_add_filled_string(top, "container_id", process->container.id);
	if (ending) {
		const bool has_exited = ending->is_known && WIFEXITED(ending->status);
		const bool was_killed = ending->is_known && WIFSIGNALED(ending->status);

		json_add_known_int(top, "exit_status", has_exited, WEXITSTATUS(ending->status));
		json_add_known_int(top, "signal", was_killed, WTERMSIG(ending->status));
		json_add_bool(top, "exec", ending->runs_another);
	}
	json_print(top, JSON_C_TO_STRING_PLAIN);
}

static void write_ending(const struct ending_of *ending)
{
	if (ending->runs_another)
		fputs(": executed another file", stdout);
	else if (ending->is_known && WIFEXITED(ending->status))
		printf(": exit status %d", WEXITSTATUS(ending->status));
	else if (ending->is_known && WIFSIGNALED(ending->status))
		printf(": killed by signal %d (SIG%s)", WTERMSIG(ending->status),
		       sigabbrev_np(WTERMSIG(ending->status)) ?: "?");
}

static void write_line(const char *event, const struct ocaml_process *process,
		       const struct ending_of *ending)
{
	const time_t now = time(NULL);
	char clock[16] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	printf("%-8s %-8s %7d %-12s %6zu ", clock, event, (int)process->pid,
	       *process->program.ocaml ? process->program.ocaml : "-", process->program.n_probes);
	print_text(process->exe);
	if (*process->container.id)
		printf(" [container %.12s]", process->container.id);
	if (ending)
		write_ending(ending);
	putchar('\n');
}

/* Write an event and flush it, so that a pipe gets each line at once. */
static void write_event(struct follower *f, const char *event, const struct ocaml_process *process,
			const struct ending_of *ending)
{
	if (f->options->json)
		write_event_json(event, process, ending);
	else
		write_line(event, process, ending);
	if (fflush(stdout) != 0 && !f->write_error)
		f->write_error = errno;
}

/* ---- processes that end --------------------------------------------------------------------- */

static void remove_followed(struct follower *f, size_t i)
{
	close(f->followed[i].pidfd);
	free(f->followed[i].exe);
	f->followed[i] = f->followed[--f->n_followed];
}

/* Forget that PID was examined: another process may get the same id, and run the same file. */
static void forget_look(struct follower *f, pid_t pid)
{
	for (size_t i = 0; i < f->n_looked_at; i++)
		if (f->looked_at[i].pid == pid)
			f->looked_at[i].ino = 0;
}

static void end(struct follower *f, size_t i, bool runs_another)
{
	const struct ocaml_process *process = &f->followed[i];
	struct ending_of ending = { .runs_another = runs_another };

	if (!runs_another)
		ending.is_known = exit_status_read(process->pidfd, process->pid, &ending.status);
	if (!runs_another && !ending.is_known && process->has_status) {
		ending.is_known = true;
		ending.status = process->status;
	}
	write_event(f, "ended", process, &ending);
	forget_look(f, process->pid);
	remove_followed(f, i);
}

static void end_those_that_ended(struct follower *f)
{
	for (size_t i = f->n_followed; i-- > 0;) {
		struct pollfd fd = { f->followed[i].pidfd, POLLIN, 0 };

		if (poll(&fd, 1, 0) > 0)
			end(f, i, false);
	}
}

/* ---- processes that start ------------------------------------------------------------------- */

/*
 * Set *EXE to the path of the executable; the caller frees it. Return -ESRCH if the process no
 * longer runs PROGRAM.
 */
static int read_exe_path(struct ocp_ctx *ctx, pid_t pid, const struct follow_program *program,
			 char **exe)
{
	char path[PROC_PATH_BYTES], target[PATH_MAX];
	struct stat st;
	ssize_t n;

	proc_path(path, pid, "exe");
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 || stat(path, &st) != 0 || st.st_dev != program->dev || st.st_ino != program->ino)
		return -ESRCH;
	target[n] = '\0';
	*exe = strdup(target);
	return *exe ? 0 : ctx_no_memory(ctx);
}

/*
 * Add PROCESS, whose program must be set, to the followed processes: open its pidfd, and read its
 * path and container. remove_followed() frees them.
 */
static int add_followed(struct follower *f, struct ocaml_process *process)
{
	struct ocaml_process *new;
	int err;

	process->pidfd = pidfd_open(process->pid, 0);
	if (process->pidfd < 0)
		return -ESRCH;
	err = read_exe_path(f->options->ctx, process->pid, &process->program, &process->exe);
	new = err ? NULL : array_add(f->followed, f->n_followed);
	if (!new) {
		free(process->exe);
		close(process->pidfd);
		return err ? err : ctx_no_memory(f->options->ctx);
	}
	if (!container_read(process->pid, &process->container))
		process->container = (struct container){ 0 };
	*new = *process;
	return 0;
}

/* Examine a process that is new, or runs another file than before. Only -ENOMEM is an error. */
static int examine_known_process(struct follower *f, const struct known_process *known)
{
	struct ocaml_process process = { .pid = known->pid };
	int err = follow_files_look(f->options->ctx, &f->files, known->pid, &process.program);

	if (!err && process.program.is_one) {
		err = add_followed(f, &process);
		if (!err)
			write_event(f, f->is_first_round ? "running" : "started",
				    &f->followed[f->n_followed - 1], NULL);
	}
	return err == -ENOMEM ? err : 0;
}

static struct ocaml_process *find_followed(const struct follower *f, pid_t pid)
{
	for (size_t i = 0; i < f->n_followed; i++)
		if (f->followed[i].pid == pid)
			return &f->followed[i];
	return NULL;
}

/*
 * Examine PROCESS, a process of the current round, unless it runs the same file as before. BEFORE
 * says which file the process ran when it was last examined; NULL: this is not known.
 */
static int follow_process(struct follower *f, const struct known_process *process,
			  const struct looked_at *before)
{
	const bool is_same = before && before->dev == process->dev && before->ino == process->ino;
	struct ocaml_process *followed = is_same ? NULL : find_followed(f, process->pid);

	if (is_same || process->hidden[0])
		return 0;
	if (followed && (!process->dev || (followed->program.dev == process->dev &&
					   followed->program.ino == process->ino)))
		return 0;
	if (followed)
		end(f, (size_t)(followed - f->followed), true);
	return process->dev ? examine_known_process(f, process) : 0;
}

static int follow_processes(struct follower *f)
{
	struct looked_at *now = calloc(f->memory.n + 1, sizeof(*now));
	size_t before = 0;
	int err = now ? 0 : ctx_no_memory(f->options->ctx);

	for (size_t i = 0; !err && i < f->memory.n; i++) {
		const struct known_process *process = &f->memory.processes[i];
		bool is_known;

		while (before < f->n_looked_at && f->looked_at[before].pid < process->pid)
			before++;
		is_known = before < f->n_looked_at && f->looked_at[before].pid == process->pid;
		err = follow_process(f, process, is_known ? &f->looked_at[before] : NULL);
		now[i] = (struct looked_at){ process->pid, process->dev, process->ino };
	}
	if (err) {
		free(now);
		return err;
	}
	free(f->looked_at);
	f->looked_at = now;
	f->n_looked_at = f->memory.n;
	return 0;
}

/* ---- the rounds ----------------------------------------------------------------------------- */

static void say_hidden(const struct follower *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->memory.n; i++)
		n += f->memory.processes[i].hidden[0] != '\0';
	if (f->options->quiet)
		return;
	if (n)
		say("%zu process%s cannot be inspected (other users', or protected); such processes "
		    "are left out",
		    n, plural_es(n));
	if (!f->memory.sees_all)
		say("/proc hides the processes of other users: they are left out");
}

static int follow_all(struct follower *f)
{
	int err;

	end_those_that_ended(f);
	find_memory_expire(&f->memory);
	err = find_memory_list(f->options->ctx, &f->memory);
	if (!err)
		err = follow_processes(f);
	if (!err && f->is_first_round)
		say_hidden(f);
	f->is_first_round = false;
	return err;
}

/* ---- events of the kernel ------------------------------------------------------------------- */

/* Examine process PID, unless it is followed already and still runs the same file. */
static int follow_pid(struct follower *f, pid_t pid)
{
	struct known_process process = { .pid = pid };
	char path[PROC_PATH_BYTES];
	struct stat st;

	proc_path(path, pid, "exe");
	if (stat(path, &st) != 0)
		return 0;
	process.dev = st.st_dev;
	process.ino = st.st_ino;
	return follow_process(f, &process, NULL);
}

/*
 * Note a new child if its parent is a followed process. If the array is full, the next round finds
 * the child.
 */
static void add_child(struct follower *f, const struct proc_event_seen *event)
{
	if (f->n_children < MAX_CHILDREN && find_followed(f, event->parent))
		f->children[f->n_children++] =
			(struct new_child){ event->pid, session_now_ns() + CHILD_NS };
}

/* Examine the new children whose time has come. The array is sorted by this time. */
static int follow_children(struct follower *f)
{
	const int64_t now_ns = session_now_ns();
	size_t n = 0;
	int err = 0;

	while (!err && n < f->n_children && f->children[n].look_ns <= now_ns)
		err = follow_pid(f, f->children[n++].pid);
	memmove(f->children, f->children + n, (f->n_children - n) * sizeof(*f->children));
	f->n_children -= n;
	return err;
}

static void note_ending(const struct follower *f, const struct proc_event_seen *event)
{
	struct ocaml_process *process = find_followed(f, event->pid);

	if (process && event->has_status) {
		process->has_status = true;
		process->status = event->status;
	}
}

/* Handle the kernel's events. Set *LOST to whether the kernel has lost some events. */
static int follow_events(struct follower *f, bool *lost)
{
	int err = 0;

	*lost = false;
	while (!err) {
		const struct proc_event_seen event = proc_events_take(f->events);

		if (event.kind == PROC_EVENT_NO_MORE)
			break;
		*lost |= event.kind == PROC_EVENT_LOST;
		if (event.kind == PROC_EVENT_FORKED)
			add_child(f, &event);
		if (event.kind == PROC_EVENT_ENDED)
			note_ending(f, &event);
		if (event.kind == PROC_EVENT_EXECUTED) {
			/*
			 * First report the processes that have ended: the id of this process may be
			 * the reused id of one of them.
			 */
			end_those_that_ended(f);
			err = follow_pid(f, event.pid);
		}
	}
	end_those_that_ended(f);
	return err ? err : follow_children(f);
}

/* ---- the session ---------------------------------------------------------------------------- */

/*
 * List all processes once, and report what has changed. If the kernel reports no events, the pause
 * until the next round depends on the duration of this one.
 */
static enum ending follow_round(void *data)
{
	struct follower *f = data;
	const int64_t begin_ns = session_now_ns();
	struct session_timer *timer = &f->timers[TIMER_ROUND];

	f->err = follow_all(f);
	if (f->err)
		return ENDED_BY_ERROR;
	if (f->write_error) {
		say("standard output: %s", strerror(f->write_error));
		return ENDED_BY_ERROR;
	}
	timer->period_ns = PAUSE_PER_ROUND * (session_now_ns() - begin_ns);
	if (timer->period_ns < ROUND_NS)
		timer->period_ns = ROUND_NS;
	if (f->events >= 0)
		timer->period_ns = (int64_t)ROUND_WITH_EVENTS_MS * 1000000;
	return NOT_ENDED;
}

/* Called when the time of --for is over: make a last round, and end. */
static enum ending follow_last_round(void *data)
{
	const enum ending ending = follow_round(data);

	return ending == NOT_ENDED ? ENDED_BY_TIME : ending;
}

static enum ending take_kernel_events(void *data)
{
	struct follower *f = data;
	bool lost;

	f->err = follow_events(f, &lost);
	if (lost)
		f->timers[TIMER_ROUND].next_ns = session_now_ns();
	f->timers[TIMER_CHILD].next_ns = f->n_children ? f->children[0].look_ns : INT64_MAX;
	return f->err ? ENDED_BY_ERROR : NOT_ENDED;
}

static enum ending on_kernel_events(void *data, short revents)
{
	(void)revents;
	return take_kernel_events(data);
}

/* End when the reader of the output has gone, which poll(2) reports as POLLERR. */
static enum ending on_output(void *data, short revents)
{
	(void)data;
	return revents & POLLERR ? ENDED_BY_SIGNAL : NOT_ENDED;
}

static int follow_until_end(struct follower *f, struct session *session)
{
	const struct session_fd fds[] = { { f->events, POLLIN, on_kernel_events },
					  { STDOUT_FILENO, 0, on_output } };

	if (!f->options->json)
		puts("TIME     EVENT        PID OCAML        PROBES EXE");
	if (flush_stdout(EXIT_DONE) != EXIT_DONE)
		return EXIT_FAILED;
	f->timers[TIMER_ROUND] = session_pause(0, follow_round);
	f->timers[TIMER_CHILD] =
		(struct session_timer){ .next_ns = INT64_MAX, .fire = take_kernel_events };
	f->timers[TIMER_END] =
		session_every(session_now_ns(), f->options->for_ns, follow_last_round);
	if (session_run(session, &(struct session_events){
					 .fds = fds,
					 .n_fds = f->events >= 0 ? 2 : 0,
					 .timers = f->timers,
					 .n_timers = N_TIMERS,
					 .data = f,
				 }) != ENDED_BY_ERROR)
		return EXIT_DONE;
	return f->err ? say_error(f->options->ctx, f->err) : EXIT_FAILED;
}

/* Follow until a signal, or for options->for_ns. Returns an exit code. */
static int list_follow(struct options *options)
{
	/* Open the events before the first round, so that no process is missed in between. */
	struct follower f = { .options = options,
			      .is_first_round = true,
			      .events = proc_events_open() };
	struct session session;
	int code = session_open(&session, NULL, 0);

	if (code == EXIT_DONE && follow_files_open(options->ctx, &f.files))
		code = say_error(options->ctx, -ENOMEM);
	if (code == EXIT_DONE)
		code = follow_until_end(&f, &session);
	session_close(&session);
	while (f.n_followed)
		remove_followed(&f, f.n_followed - 1);
	if (f.events >= 0)
		close(f.events);
	free(f.followed);
	free(f.looked_at);
	follow_files_free(&f.files);
	find_memory_free(&f.memory);
	return code;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Print the probes of PROG as JSON. ARGS: the sites with their arguments, or NULL. Frees ARGS. */
static void print_program_json(const char *path, const struct ocp_program *prog,
			       struct json_object *args)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array();

	json_add_int(top, "version", 1);
	json_add_string(top, "prog", path);
	for (size_t i = 0; i < ocp_program_probe_count(prog); i++) {
		struct json_object *probe = json_object_new_object();

		json_add_string(probe, "name", ocp_program_probe_name(prog, i));
		json_add_uint(probe, "sites", ocp_program_probe_sites(prog, i));
		if (args)
			json_object_object_add(probe, "arguments",
					       json_object_get(json_object_array_get_idx(args, i)));
		json_object_array_add(probes, probe);
	}
	json_object_object_add(top, "probes", probes);
	json_print(top, JSON_C_TO_STRING_PLAIN);
	json_object_put(args);
}

/* Print the names of the probes or, with --args, their arguments. Returns an exit code. */
static int print_program(struct options *options, const struct ocp_program *prog)
{
	const bool has_args = options->own;
	struct json_object *args = NULL;

	if (has_args && !options->json)
		return list_args_print(options, prog);
	if (has_args) {
		args = list_args_json(prog);
		if (!args)
			return say_error(options->ctx, -EIO);
	}
	if (options->json)
		print_program_json(options->prog, prog, args);
	else
		for (size_t i = 0; i < ocp_program_probe_count(prog); i++)
			puts(ocp_program_probe_name(prog, i));
	return EXIT_DONE;
}

/*
 * Say why no probes are listed. A plugin may have sites whose probe names are in the program that
 * loads it.
 */
static void explain_none(const struct options *options, const struct ocp_program *prog)
{
	size_t n;

	if (program_count_host_sites(prog, &n) || n == 0) {
		say("%s: has no OCaml probes", options->prog);
		say_functions_hint(options);
		return;
	}
	say("%s: has no OCaml probes of its own, but %zu site%s of probes of the program that loads it",
	    options->prog, n, plural(n));
	fputs("hint: `ocaml-probes info -pid PID` shows them in a process that has loaded it\n",
	      stderr);
}

static int list_program(struct options *options)
{
	struct ocp_program *prog;
	int err, status;

	progress_begin(options, "reading");
	err = ocp_program_open(options->ctx, options->prog, &prog);
	progress_end();
	if (err)
		return say_error(options->ctx, err);
	if (ocp_program_probe_count(prog) == 0)
		err = program_file_need_native(options->ctx, options->prog);
	status = err ? say_error(options->ctx, err) : print_program(options, prog);
	if (!err && ocp_program_probe_count(prog) == 0 && !options->quiet)
		explain_none(options, prog);
	ocp_program_free(prog);
	return status;
}

/*
 * Collects the listed processes. Processes whose files are still being examined are found by a
 * later scan.
 */
struct listed_processes {
	FILE *text; /* collects the lines of the list; NULL: the list is JSON */
	struct json_object *array;
};

static void add_container(struct json_object *to, const struct ocp_process *proc)
{
	json_add_string(to, "pod_uid", ocp_process_pod(proc));
	json_add_string(to, "container_id", ocp_process_container(proc));
	json_add_int(to, "ns_pid", ocp_process_ns_pid(proc));
}

/* List one process with probes. A process that exits meanwhile is skipped. */
static int list_process(void *data, struct ocp_process *proc)
{
	size_t n = ocp_process_probe_count(proc), enabled = 0;
	enum ocp_state *states = calloc(n + 1, sizeof(*states));
	const struct listed_processes *list = data;
	struct json_object *to;
	int err;

	if (!states)
		return -ENOMEM;
	err = ocp_process_read_states(proc, 0, states);
	for (size_t i = 0; !err && i < n; i++)
		enabled += states[i] != OCP_DISABLED;
	free(states);
	if (err)
		return 0;
	if (list->text) {
		fprintf(list->text, "%7d %6zu %7zu ", (int)ocp_process_pid(proc), n, enabled);
		put_one_line(list->text, ocp_process_exe(proc));
		if (ocp_process_container(proc))
			fprintf(list->text, " [container %.12s, pid %d there]",
				ocp_process_container(proc), (int)ocp_process_ns_pid(proc));
		putc('\n', list->text);
		return 0;
	}
	to = json_object_new_object();
	json_add_int(to, "pid", ocp_process_pid(proc));
	json_add_uint(to, "probes", n);
	json_add_uint(to, "enabled", enabled);
	json_add_string(to, "exe", ocp_process_exe(proc));
	add_container(to, proc);
	json_object_array_add(list->array, to);
	return 0;
}

/* Empty LIST, then scan all processes into it. Text is collected in *BYTES. */
static int scan_into(struct options *options, struct listed_processes *list, char **bytes,
		     struct ocp_scan_summary *summary)
{
	size_t n;
	int err;

	free(*bytes);
	*bytes = NULL;
	json_object_put(list->array);
	list->array = json_object_new_array();
	list->text = options->json ? NULL : open_memstream(bytes, &n);
	if (!list->array || (!options->json && !list->text))
		return -ENOMEM;
	err = ocp_scan(options->ctx, list_process, list, summary);
	if (list->text && fclose(list->text) != 0 && !err)
		err = -ENOMEM;
	return err;
}

/*
 * Scan all processes into LIST. An examiner process reads the files of other users first, because
 * this process may be root and a hostile file could take its time and memory. When the examiner has
 * new results, scan again with them. Wait at most VERDICTS_WAIT_MS for results.
 */
static int scan_examined(struct options *options, struct listed_processes *list, char **bytes,
			 struct ocp_scan_summary *summary)
{
	struct verdicts *verdicts = verdicts_new(options->ctx);
	const int64_t until_ns = session_now_ns() + VERDICTS_WAIT_MS * INT64_C(1000000);
	size_t n_pending;
	int64_t left_ns;
	int err;

	if (!verdicts)
		return -ENOMEM;
	verdicts_set_strangers(verdicts);
	do {
		err = scan_into(options, list, bytes, summary);
		left_ns = until_ns - session_now_ns();
	} while (!err && left_ns > 0 && verdicts_await(verdicts, (int)(left_ns / 1000000)));
	n_pending = verdicts_pending(verdicts);
	if (!err && n_pending)
		say("%zu file%s of other users could not be examined in time: such processes are "
		    "left out",
		    n_pending, plural(n_pending));
	verdicts_free(verdicts);
	return err;
}

static int list_processes(struct options *options)
{
	struct listed_processes list = { 0 };
	struct ocp_scan_summary summary;
	char *text = NULL;
	int err;

	progress_begin(options, "looking at processes");
	err = scan_examined(options, &list, &text, &summary);
	progress_end();
	if (!err && !options->json) {
		puts("    PID PROBES ENABLED EXE");
		fputs(text, stdout);
	} else if (!err) {
		struct json_object *top = json_object_new_object();

		json_add_int(top, "version", 1);
		json_object_object_add(top, "processes", json_object_get(list.array));
		json_add_uint(top, "denied", summary.denied);
		json_print(top, JSON_C_TO_STRING_PLAIN);
	}
	json_object_put(list.array);
	free(text);
	if (err)
		return say_error(options->ctx, err);
	if (summary.denied && !options->quiet)
		say("%zu process%s cannot be inspected (other users', or protected)",
		    summary.denied, plural_es(summary.denied));
	return EXIT_DONE;
}

/* ---- kept meters ---------------------------------------------------------------------------- */

/* Count the processes of METER that still run. */
static size_t count_alive(const struct ocp_meter *meter)
{
	size_t n = 0;

	for (size_t i = 0; i < ocp_meter_process_count(meter); i++)
		n += kill(ocp_meter_process(meter, i), 0) == 0 || errno == EPERM;
	return n;
}

static void print_kept(const char *name, const struct ocp_meter *meter,
		       const struct ocp_sample *sample)
{
	const size_t n = ocp_meter_process_count(meter);

	printf("%-16s %9.0f %6zu %8zu %14" PRIu64 " ", name,
	       (double)ocp_sample_time_ns(sample) / 1e9, ocp_meter_probe_count(meter),
	       ocp_meter_site_count(meter), ocp_sample_all_hits(sample));
	if (ocp_meter_program(meter))
		print_text(ocp_meter_program(meter));
	else
		printf("%zu of %zu processes alive, pid %d%s", count_alive(meter), n,
		       (int)ocp_meter_process(meter, 0), n > 1 ? ", ..." : "");
	putchar('\n');
}

static struct json_object *kept_json(const char *name, const struct ocp_meter *meter,
				     const struct ocp_sample *sample)
{
	struct json_object *to = json_object_new_object(), *pids = json_object_new_array();

	json_add_string(to, "name", name);
	json_add_double(to, "elapsed_s", (double)ocp_sample_time_ns(sample) / 1e9);
	json_add_uint(to, "probes", ocp_meter_probe_count(meter));
	json_add_uint(to, "sites", ocp_meter_site_count(meter));
	json_add_uint(to, "hits", ocp_sample_all_hits(sample));
	if (ocp_meter_program(meter))
		json_add_string(to, "program", ocp_meter_program(meter));
	for (size_t i = 0; i < ocp_meter_process_count(meter); i++)
		json_object_array_add(pids, json_object_new_int(ocp_meter_process(meter, i)));
	json_object_object_add(to, "pids", pids);
	return to;
}

/* List one kept meter. If the meter cannot be read, say so and continue. */
static void list_one_kept(const struct options *options, const char *name,
			  struct json_object *array)
{
	struct ocp_sample *sample = NULL;
	struct ocp_meter *meter;
	int err = ocp_pinned_open(options->ctx, name, &meter);

	if (!err)
		err = ocp_meter_read(meter, &sample);
	if (err) {
		say_error_of(name, options->ctx, err);
		if (err == -EBADMSG)
			fprintf(stderr, "hint: ocaml-probes detach %s\n", name);
	} else if (options->json) {
		json_object_array_add(array, kept_json(name, meter, sample));
	} else {
		print_kept(name, meter, sample);
	}
	ocp_sample_free(sample);
	ocp_meter_free(meter);
}

static int list_kept(struct options *options)
{
	struct json_object *array = json_object_new_array(), *top;
	char **names;
	size_t n;
	int err = ocp_pinned_list(options->ctx, &names, &n);

	if (err) {
		json_object_put(array);
		return say_error(options->ctx, err);
	}
	if (!options->json)
		printf("%-16s %9s %6s %8s %14s %s\n", "NAME", "SECONDS", "PROBES", "SITES", "HITS",
		       "OF");
	for (size_t i = 0; i < n; i++)
		list_one_kept(options, names[i], array);
	free(names);
	if (options->json) {
		top = json_object_new_object();
		json_add_int(top, "version", 1);
		json_object_object_add(top, "kept", json_object_get(array));
		json_print(top, JSON_C_TO_STRING_PLAIN);
	}
	json_object_put(array);
	return EXIT_DONE;
}

/* Set the command's own option; --args is the only one. */
static int set_list_option(const struct command *command, struct options *options, const char *name,
			   const char *value)
{
	static bool yes = true;

	(void)command;
	(void)name;
	(void)value;
	options->own = &yes;
	return EXIT_DONE;
}

static int run_list(struct options *options)
{
	if (options->own && !options->prog)
		return say_usage(&command_list, "--args needs -prog");
	if (options->kept && options->prog)
		return say_usage(&command_list, "--kept and -prog are mutually exclusive");
	if (options->follow && (options->kept || options->prog))
		return say_usage(&command_list, "--follow and %s are mutually exclusive",
				 options->kept ? "--kept" : "-prog");
	if (options->for_ns && !options->follow)
		return say_usage(&command_list, "--for needs --follow");
	if (options->follow)
		return list_follow(options);
	if (options->kept)
		return list_kept(options);
	return options->prog ? list_program(options) : list_processes(options);
}

const struct command command_list = {
	.name = "list",
	.help = &help_list,
	.takes_file = true,
	.run = run_list,
	.set_own = set_list_option,
};
