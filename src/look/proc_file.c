// SPDX-License-Identifier: MIT
#include "look/proc_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/foreign_file.h"
#include "base/interrupted.h"
#include "look/denial.h"

enum {
	FIRST_READ_BYTES = 16384,
	/*
	 * The owner of a process can make the maps of the process long: up to 65 530 mappings, each
	 * with a path of 4 KiB. The maps of an ordinary process take a few MiB.
	 */
	MAX_READ_BYTES = 16 << 20,
	/* For /proc/PID/stat, see proc_pid_stat(5). */
	STAT_BYTES = 1024,
	STATE_FIELD = 3,
	FLAGS_FIELD = 9,
	START_TIME_FIELD = 22,
	PF_KTHREAD = 0x00200000, /* include/linux/sched.h */
};

static int read_to_end(struct ocp_ctx *ctx, int fd, char **text, size_t *bytes)
{
	size_t room = FIRST_READ_BYTES, used = 0;
	struct interruptions interruptions = { 0 };
	char *buf = malloc(room);

	while (buf) {
		ssize_t n = read(fd, buf + used, room - used - 1);

		if (n < 0 && is_interrupted(&interruptions))
			continue;
		if (n < 0) {
			n = -errno;
			free(buf);
			return (int)n;
		}
		if (n == 0) {
			buf[used] = '\0';
			*text = buf;
			if (bytes)
				*bytes = used;
			return 0;
		}
		used += (size_t)n;
		if (used > MAX_READ_BYTES) {
			free(buf);
			return -EFBIG;
		}
		if (room - used < FIRST_READ_BYTES / 2) {
			char *larger = realloc(buf, room * 2);

			if (!larger)
				free(buf);
			buf = larger;
			room *= 2;
		}
	}
	return ctx_no_memory(ctx);
}

void proc_path(char path[PROC_PATH_BYTES], pid_t pid, const char *name)
{
	if (pid == getpid())
		snprintf(path, PROC_PATH_BYTES, "/proc/self/%s", name);
	else
		snprintf(path, PROC_PATH_BYTES, "/proc/%d/%s", (int)pid, name);
}

int proc_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text, size_t *bytes)
{
	char path[PROC_PATH_BYTES];
	int fd, err;

	*text = NULL;
	proc_path(path, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return proc_why_no_access(ctx, pid, errno);
	err = read_to_end(ctx, fd, text, bytes);
	close(fd);
	if (err == -EFBIG)
		return ctx_error(ctx, err, "%s: is larger than %d MiB, and is not read", path,
				 MAX_READ_BYTES >> 20);
	return err ? proc_why_no_access(ctx, pid, -err) : 0;
}

int proc_open_exe(pid_t pid)
{
	char path[PROC_PATH_BYTES];

	proc_path(path, pid, "exe");
	return foreign_file_read(path, 0);
}

/*
 * Read the link to the executable: for this read the kernel checks ptrace access to PID, and
 * nothing else.
 */
bool proc_may_inspect(pid_t pid)
{
	char path[PROC_PATH_BYTES], first;

	proc_path(path, pid, "exe");
	return readlink(path, &first, 1) >= 0 || (errno != EACCES && errno != EPERM);
}

static int check_access(struct ocp_ctx *ctx, pid_t pid)
{
	return proc_may_inspect(pid) ? 0 : proc_why_no_access(ctx, pid, errno);
}

int proc_memory_file_read(struct ocp_ctx *ctx, pid_t pid, const char *name, char **text,
			  size_t *bytes)
{
	int err = check_access(ctx, pid);

	*text = NULL;
	if (!err)
		err = proc_file_read(ctx, pid, name, text, bytes);
	/* Check again: the process may have executed a program that this user must not see. */
	if (!err)
		err = check_access(ctx, pid);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

/*
 * Read /proc/PID/stat, which needs no permission, into TEXT. Return the address of field 3, the
 * state; NULL on failure.
 */
static const char *read_stat(pid_t pid, char text[STAT_BYTES])
{
	char path[PROC_PATH_BYTES];
	const char *at;
	ssize_t n;
	int fd;

	proc_path(path, pid, "stat");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	n = read(fd, text, STAT_BYTES - 1);
	close(fd);
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	/* Field 2 is a name in parentheses, with any characters. */
	at = strrchr(text, ')');
	return at && at[1] == ' ' ? at + 2 : NULL;
}

/*
 * Return the address of field number WANTED of /proc/PID/stat, or NULL if there are fewer fields.
 * STATE is the address of field 3, as returned by read_stat(), or NULL.
 */
static const char *stat_field(const char *state, int wanted)
{
	for (int field = STATE_FIELD; state && field < wanted; field++) {
		state = strchr(state, ' ');
		state = state ? state + 1 : NULL;
	}
	return state;
}

bool is_kernel_thread(pid_t pid)
{
	char text[STAT_BYTES];
	const char *flags = stat_field(read_stat(pid, text), FLAGS_FIELD);

	return flags && strtoul(flags, NULL, 10) & PF_KTHREAD;
}

bool proc_has_memory(pid_t pid)
{
	char path[PROC_PATH_BYTES], first = '0';
	int fd;

	proc_path(path, pid, "statm");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, &first, 1) != 1)
		first = '0';
	close(fd);
	return first != '0';
}

/*
 * Return the value of FIELD in TEXT: the text after "FIELD:" and white space, up to the end of the
 * line; NULL if FIELD is missing.
 */
static const char *status_field(const char *text, const char *field)
{
	size_t bytes = strlen(field);

	for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL)
		if (strncmp(text, field, bytes) == 0 && text[bytes] == ':')
			return text + bytes + 1 + strspn(text + bytes + 1, " \t");
	return NULL;
}

/*
 * IDS are the ids of a thread in each pid namespace, from ours to the thread's own, separated by
 * white space. Return the last id.
 */
static pid_t innermost_pid(const char *ids)
{
	const char *line_end = ids + strcspn(ids, "\n");
	pid_t pid = 0;
	char *end;

	for (const char *at = ids; at < line_end; at = end) {
		const long id = strtol(at, &end, 10);

		if (end == at || end > line_end)
			break;
		pid = (pid_t)id;
	}
	return pid;
}

void proc_status_parse(const char *text, struct proc_status *status)
{
	const char *name = status_field(text, "Name"), *state = status_field(text, "State");
	const char *tracer = status_field(text, "TracerPid"), *uid = status_field(text, "Uid");
	const char *threads = status_field(text, "Threads"), *tgid = status_field(text, "Tgid");
	const char *ns_pid = status_field(text, "NSpid"), *parent = status_field(text, "PPid");

	*status = (struct proc_status){ 0 };
	if (name)
		snprintf(status->name, sizeof(status->name), "%.*s", (int)strcspn(name, "\n"),
			 name);
	status->state = '?';
	if (state && *state && *state != '\n')
		status->state = *state;
	if (tgid)
		status->tgid = (pid_t)strtol(tgid, NULL, 10);
	if (parent)
		status->parent_pid = (pid_t)strtol(parent, NULL, 10);
	if (tracer)
		status->tracer_pid = (pid_t)strtol(tracer, NULL, 10);
	if (uid) {
		char *end;

		status->real_uid = (uid_t)strtoul(uid, &end, 10);
		status->effective_uid = (uid_t)strtoul(end, NULL, 10);
	}
	if (ns_pid)
		status->ns_pid = innermost_pid(ns_pid);
	if (threads)
		status->threads = strtoul(threads, NULL, 10);
}

/*
 * This function must not use proc_file_read(): proc_file_read() calls proc_why_no_access(), which
 * calls this function.
 */
bool proc_stat_is_runnable(const char *text)
{
	/* "TID (NAME) STATE ...": the name may contain any character. */
	const char *end = strrchr(text, ')');

	return end && end[1] == ' ' && end[2] == 'R';
}

bool proc_wait_place_parse(const char *text, struct proc_wait_place *place)
{
	/* "running", "NUMBER ARGUMENT... RSP RIP" or, outside of a system call, "-1 RSP RIP" */
	const char *rip = strrchr(text, ' '), *rsp = rip;

	while (rsp && rsp > text && rsp[-1] != ' ')
		rsp--;
	if (!rip || rsp == text)
		return false;
	place->rsp = strtoull(rsp, NULL, 16);
	place->rip = strtoull(rip, NULL, 16);
	return true;
}

int proc_status_read(struct ocp_ctx *ctx, pid_t pid, struct proc_status *status)
{
	char path[PROC_PATH_BYTES], *text = NULL;
	int fd, err;

	*status = (struct proc_status){ 0 };
	proc_path(path, pid, "status");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = fd < 0 ? -errno : read_to_end(ctx, fd, &text, NULL);
	if (fd >= 0)
		close(fd);
	if (err == -ENOENT || err == -ESRCH)
		return ctx_error(ctx, -ESRCH, "pid %d: no such process", (int)pid);
	if (err)
		return ctx_error(ctx, err, "%s: %s", path, strerror(-err));
	proc_status_parse(text, status);
	free(text);
	return 0;
}

/* Return true if TRACER, a thread id from TracerPid, is a thread of this process. */
static bool is_our_thread(pid_t tracer)
{
	char path[PROC_PATH_BYTES];

	snprintf(path, sizeof(path), "/proc/self/task/%d", (int)tracer);
	return tracer && access(path, F_OK) == 0;
}

static int why_not_permitted(struct ocp_ctx *ctx, pid_t pid, const struct proc_status *status)
{
	char modules[256];
	struct denial denial = {
		.pid = pid,
		.name = status->name,
		.real_uid = status->real_uid,
		.effective_uid = status->effective_uid,
	};

	if (status->tracer_pid) {
		struct proc_status tracer;
		bool known = proc_status_read(ctx, status->tracer_pid, &tracer) == 0;

		ctx_error(ctx, -EBUSY, "pid %d (%s): is being traced by pid %d (%s)", (int)pid,
			  status->name, (int)status->tracer_pid, known ? tracer.name : "?");
		ctx_hint(ctx, "let that tracer finish, or detach it");
		return -EBUSY;
	}
	denial_read(&denial, modules, sizeof(modules));
	return denial_explain(ctx, &denial);
}

int proc_why_no_access(struct ocp_ctx *ctx, pid_t pid, int err)
{
	struct proc_status status;

	int failed = proc_status_read(ctx, pid, &status);

	if (failed)
		return failed;
	if (status.state == 'Z' && status.threads > 1) {
		ctx_error(ctx, -ESRCH,
			  "pid %d (%s): the main thread has exited; the other threads cannot be "
			  "reached through this pid",
			  (int)pid, status.name);
		ctx_hint(ctx, "give the id of another of its threads (/proc/%d/task)", (int)pid);
		return -ESRCH;
	}
	if (status.state == 'Z' || status.state == 'X')
		return ctx_error(ctx, -ESRCH, "pid %d (%s): has ended (a zombie)", (int)pid,
				 status.name);
	if (is_kernel_thread(pid))
		return ctx_error(ctx, -ESRCH,
				 "pid %d (%s): is a kernel thread, which has no program", (int)pid,
				 status.name);
	/*
	 * If the tracer is a thread of this process, the tracer is not the reason for the refusal.
	 */
	if ((err == EPERM || err == EACCES) && !is_our_thread(status.tracer_pid))
		return why_not_permitted(ctx, pid, &status);
	if (err == ENOENT || err == ESRCH)
		return ctx_error(ctx, -ESRCH,
				 "pid %d (%s): has no memory of its own: it is about to end",
				 (int)pid, status.name);
	return ctx_error(ctx, -err, "pid %d (%s): %s", (int)pid, status.name, strerror(err));
}

int proc_start_time(pid_t pid, uint64_t *start_time)
{
	char text[STAT_BYTES];
	const char *at = read_stat(pid, text);

	if (!at || *at == 'Z' || *at == 'X')
		return -ESRCH;
	at = stat_field(at, START_TIME_FIELD);
	if (!at)
		return -ESRCH;
	*start_time = strtoull(at, NULL, 10);
	return 0;
}

uint64_t auxv_find(const char *bytes, size_t n_bytes, uint64_t type)
{
	Elf64_auxv_t aux;

	for (size_t at = 0; at + sizeof(aux) <= n_bytes; at += sizeof(aux)) {
		memcpy(&aux, bytes + at, sizeof(aux));
		if (aux.a_type == AT_NULL)
			break;
		if (aux.a_type == type)
			return aux.a_un.a_val;
	}
	return 0;
}

/* Return true if the vector in BYTES ends where it begins. */
static bool is_empty_auxv(const char *bytes, size_t n_bytes)
{
	uint64_t type = AT_NULL;

	if (n_bytes >= sizeof(type))
		memcpy(&type, bytes, sizeof(type));
	return n_bytes && type == AT_NULL;
}

int auxv_read(struct ocp_ctx *ctx, pid_t pid, uint64_t type, uint64_t *value)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	size_t n_bytes = 0;
	char *bytes = NULL;
	int err = proc_memory_file_read(ctx, pid, "auxv", &bytes, &n_bytes);

	*value = 0;
	/* The kernel fills the vector at the end of an exec. */
	while (!err && is_empty_auxv(bytes, n_bytes) && ctx_may_wait_for_exec(ctx)) {
		free(bytes);
		bytes = NULL;
		nanosleep(&ms, NULL);
		err = proc_memory_file_read(ctx, pid, "auxv", &bytes, &n_bytes);
	}
	if (err)
		return err;
	*value = auxv_find(bytes, n_bytes, type);
	free(bytes);
	return 0;
}
