// SPDX-License-Identifier: MIT
#include "watch/examiner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/interrupted.h"
#include "base/search.h"
#include "code/runtime.h"
#include "program/dormant/external.h"
#include "program/dormant/object.h"
#include "program/program.h"

/* The result for one file, in shared memory. The child writes `why` before it sets `state`. */
struct shared_result {
	atomic_int state;
	char why[sizeof(((struct exam_result *)NULL)->why)];
};

struct examiner {
	pid_t pid; /* 0: already reaped */
	int pidfd;
	struct shared_result *results;
	size_t n, bytes;
	struct exam_limits limits;
	size_t at; /* index of the file that is being read */
	int64_t since_ms;
	bool is_late; /* killed for taking too long */
};

/* ---- the child ------------------------------------------------------------------------------ */

static void set_result(struct shared_result *result, enum exam_state state, const char *why)
{
	snprintf(result->why, sizeof(result->why), "%s", why);
	atomic_store(&result->state, state);
}

/*
 * Limit the memory of the child to MIB MiB more than it uses now. Most of the memory in use now is
 * shared with the parent.
 */
static void limit_memory(unsigned int mib)
{
#ifndef __SANITIZE_ADDRESS__ /* no limit with the sanitizer, which maps terabytes */
	struct rlimit limit;
	unsigned long pages;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		_exit(EXIT_FAILURE);
	fclose(f);
	limit.rlim_cur =
		pages * (unsigned long)sysconf(_SC_PAGESIZE) + (unsigned long)mib * 1024 * 1024;
	limit.rlim_max = limit.rlim_cur;
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		_exit(EXIT_FAILURE);
#else
	(void)mib;
#endif
}

/* Restart the timer for the next file. The timer's signal, SIGPROF, ends the process. */
static void limit_time(unsigned int cpu_ms, size_t n)
{
	const struct itimerval timer = { .it_value = { cpu_ms / 1000, cpu_ms % 1000 * 1000L } };
	/* In case the timer fails: a limit on the CPU time for all N files together. */
	const rlim_t seconds = (n + 1) * (cpu_ms / 1000 + 1);
	const struct rlimit limit = { seconds, seconds };

	setitimer(ITIMER_PROF, &timer, NULL);
	setrlimit(RLIMIT_CPU, &limit);
}

static int compare_fds(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return COMPARE(*x, *y);
}

static int keep_files(struct ocp_ctx *ctx, const struct exam_file *files, size_t n)
{
	int *kept = malloc(n * sizeof(*kept)), err;

	if (!kept)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n; i++)
		kept[i] = files[i].fd;
	qsort(kept, n, sizeof(*kept), compare_fds);
	err = confine_close_files(ctx, kept, n);
	free(kept);
	return err;
}

static int confine(struct ocp_ctx *ctx, pid_t parent, const struct exam_file *files, size_t n,
		   const struct exam_limits *limits)
{
	sigset_t prof;
	int err = keep_files(ctx, files, n);

	if (!err)
		err = confine_drop_capabilities(ctx);
	prctl(PR_SET_NAME, "probes-examiner");
	/*
	 * Do this after dropping capabilities: the kernel clears this setting when credentials
	 * change.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	signal(SIGPROF, SIG_DFL);
	sigemptyset(&prof);
	sigaddset(&prof, SIGPROF);
	sigprocmask(SIG_UNBLOCK, &prof, NULL);
	limit_memory(limits->memory_mib);
	return err;
}

const char *exam_reason(const char *error, const struct file_origin *origin)
{
	const size_t n = strlen(origin->name);

	return strncmp(error, origin->name, n) == 0 && strncmp(error + n, ": ", 2) == 0
		       ? error + n + 2
		       : error;
}

/*
 * Set *MAY to whether PROG, a library, may have probes that other files define. If so, read its
 * list of references to other files, so that the limits apply to this reading, too.
 */
static int read_externals(struct ocp_ctx *ctx, const struct ocp_program *prog, bool *may)
{
	struct object_external *externals = NULL;
	struct object object;
	size_t n;
	int err = external_may_be_in(ctx, prog->elf, may);

	if (err || !*may)
		return err;
	err = object_read(ctx, prog->elf, &object);
	if (err)
		return err;
	err = external_list(&object, &externals, &n);
	free(externals);
	object_free(&object);
	return err;
}

static int find_probes_of_file(struct ocp_ctx *ctx, const struct exam_file *file, bool all_runtimes,
			       bool *has_probes)
{
	struct ocp_program *prog;
	struct runtime runtime;
	bool may = false;
	int err = program_open_from(ctx, file->fd, &file->origin, &prog);

	*has_probes = false;
	if (err)
		return err;
	if (file->origin.is_library)
		err = read_externals(ctx, prog, &may);
	*has_probes = ocp_program_probe_count(prog) || may;
	/*
	 * The watch later recognises the runtime of programs with probes, to read the figures of
	 * the garbage collector. So recognise it here, too. The result does not matter, only
	 * whether the limits suffice.
	 */
	if (!err && (*has_probes || all_runtimes) && !file->origin.is_library &&
	    runtime_recognise(ctx, prog->elf, &runtime) == -ENOMEM)
		err = -ENOMEM;
	ocp_program_free(prog);
	return err == -ENOMEM || err == -EFBIG ? err : 0;
}

static void examine_file(struct ocp_ctx *ctx, const struct exam_file *file,
			 const struct exam_limits *limits, struct shared_result *result)
{
	char why[sizeof(result->why)];
	bool has_probes;
	int err;

	atomic_store(&result->state, EXAM_BEGUN);
	err = find_probes_of_file(ctx, file, limits->all_runtimes, &has_probes);
	if (err == -EFBIG) {
		set_result(result, EXAM_EXCEEDS, exam_reason(ocp_error(ctx), &file->origin));
	} else if (err == -ENOMEM) {
		snprintf(why, sizeof(why), "reading it takes more than %u MiB of memory",
			 limits->memory_mib);
		set_result(result, EXAM_EXCEEDS, why);
	} else {
		/* Other faults of the file do no harm, and are reported elsewhere. */
		set_result(result, has_probes ? EXAM_WITH_PROBES : EXAM_WITHOUT_PROBES, "");
	}
}

static void be_examiner(pid_t parent, const struct exam_file *files, size_t n,
			const struct file_rules *rules, const struct exam_limits *limits,
			struct shared_result *results)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct file_rules its = { .max_sites = rules->max_sites,
					.max_library_sites = rules->max_library_sites };

	if (!ctx || confine(ctx, parent, files, n, limits) != 0)
		_exit(EXIT_FAILURE);
	file_rules_set(ctx, &its);
	for (size_t i = 0; i < n; i++) {
		limit_time(limits->cpu_ms, n);
		examine_file(ctx, &files[i], limits, &results[i]);
	}
	_exit(EXIT_SUCCESS);
}

/* ---- the parent ----------------------------------------------------------------------------- */

int examiner_start(struct ocp_ctx *ctx, const struct exam_file *files, size_t n,
		   const struct file_rules *rules, const struct exam_limits *limits,
		   struct examiner **out)
{
	struct examiner *examiner = calloc(1, sizeof(*examiner));
	const pid_t parent = getpid();
	int err = 0;

	if (!examiner)
		return ctx_no_memory(ctx);
	*examiner =
		(struct examiner){ .pidfd = -1, .n = n, .limits = *limits, .since_ms = clock_ms() };
	examiner->bytes = n * sizeof(*examiner->results);
	examiner->results = mmap(NULL, examiner->bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (examiner->results == MAP_FAILED) {
		free(examiner);
		return ctx_no_memory(ctx);
	}
	fflush(NULL);
	examiner->pid = fork();
	if (examiner->pid == 0)
		be_examiner(parent, files, n, rules, limits, examiner->results);
	if (examiner->pid < 0) {
		err = ctx_error(ctx, -errno, "fork: %s", strerror(errno));
		examiner->pid = 0;
		examiner_free(examiner);
		return err;
	}
	examiner->pidfd = pidfd_open(examiner->pid, 0);
	*out = examiner;
	return 0;
}

static enum exam_state state_of(const struct examiner *examiner, size_t file)
{
	const int state = atomic_load(&examiner->results[file].state);

	/* Check the value, since a malicious file may have taken over the child. */
	return state >= EXAM_NOT_BEGUN && state <= EXAM_EXCEEDS ? (enum exam_state)state
								: EXAM_EXCEEDS;
}

/* Record why the child has ended, as the result of the file that it was reading then. */
static void say_why(struct examiner *examiner, int status)
{
	size_t at = 0;
	char *why;

	while (at < examiner->n && state_of(examiner, at) > EXAM_BEGUN)
		at++;
	if (at == examiner->n)
		return;
	why = examiner->results[at].why;
	if (examiner->is_late)
		snprintf(why, sizeof(examiner->results->why), "reading it takes more than %u ms",
			 examiner->limits.wall_ms);
	else if (WIFSIGNALED(status) &&
		 (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGXCPU))
		snprintf(why, sizeof(examiner->results->why),
			 "reading it takes more than %u ms of CPU time", examiner->limits.cpu_ms);
	else if (WIFSIGNALED(status))
		snprintf(why, sizeof(examiner->results->why), "its reader was killed by signal %d",
			 WTERMSIG(status));
	else
		snprintf(why, sizeof(examiner->results->why), "its reader exited with status %d",
			 WEXITSTATUS(status));
	atomic_store(&examiner->results[at].state, EXAM_EXCEEDS);
}

/* Kill the child if it takes too long for one file. The time counts from the start of each file. */
static void kill_late(struct examiner *examiner)
{
	size_t at = examiner->at;

	while (at < examiner->n && state_of(examiner, at) > EXAM_BEGUN)
		at++;
	if (at != examiner->at)
		examiner->since_ms = clock_ms();
	examiner->at = at;
	if (examiner->is_late || clock_ms() - examiner->since_ms < examiner->limits.wall_ms)
		return;
	examiner->is_late = true;
	kill(examiner->pid, SIGKILL);
}

bool examiner_has_ended(struct examiner *examiner, int wait_ms)
{
	struct pollfd end = { .fd = examiner->pidfd, .events = POLLIN };
	const int64_t late_ms = examiner->since_ms + examiner->limits.wall_ms - clock_ms();
	int status = 0;
	pid_t pid;

	if (!examiner->pid)
		return true;
	/* Wake when the child is late: kill_late() then ends it. */
	if (!examiner->is_late && late_ms < wait_ms)
		wait_ms = late_ms > 0 ? (int)late_ms : 0;
	if (wait_ms > 0)
		poll(&end, 1, wait_ms);
	pid = waitpid(examiner->pid, &status, WNOHANG);
	if (pid == 0 || (pid < 0 && errno == EINTR)) {
		kill_late(examiner);
		return false;
	}
	examiner->pid = 0;
	say_why(examiner, pid < 0 ? 0 : status);
	return true;
}

struct exam_result examiner_result(const struct examiner *examiner, size_t file)
{
	struct exam_result result = { .state = state_of(examiner, file) };

	memcpy(result.why, examiner->results[file].why, sizeof(result.why));
	result.why[sizeof(result.why) - 1] = '\0';
	return result;
}

void examiner_free(struct examiner *examiner)
{
	struct interruptions interruptions = { 0 };

	if (!examiner)
		return;
	if (examiner->pid) {
		kill(examiner->pid, SIGKILL);
		while (waitpid(examiner->pid, NULL, 0) < 0 && is_interrupted(&interruptions))
			;
	}
	if (examiner->pidfd >= 0)
		close(examiner->pidfd);
	munmap(examiner->results, examiner->bytes);
	free(examiner);
}
