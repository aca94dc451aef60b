// SPDX-License-Identifier: MIT
#include "serve/recorders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "program/item.h"

enum {
	LINE_BYTES = 512,
	FIRST_WAIT_MS = 1000, /* until a recorder that has ended is started again; then doubled */
	LONGEST_WAIT_MS = 60000,
	GOOD_MS = 60000, /* a recorder that has run as long is started again after FIRST_WAIT_MS */
	END_MS = 5000,	 /* how long recorders may take to write what is planned, at the end */
	STEM_BYTES = 80,
	NAME_BYTES = 64,
};

struct flight {
	char *exe;
	pid_t pid;
	char stem[STEM_BYTES], name[NAME_BYTES];
	char **argv; /* ends with NULL */
	size_t n_argv;
	pid_t child;   /* 0: not running */
	int output_fd; /* what it prints; -1: not running */
	int64_t started_ms, start_again_ms, wait_ms;
	char line[LINE_BYTES]; /* the line that it is printing */
	size_t n_line;
	char problem[LINE_BYTES]; /* the last error; "": none */
	char last[LINE_BYTES];	  /* the last message that it has printed */
	bool is_repeated;	  /* the message before it was the same */
	bool is_wanted;
};

struct recorders {
	struct ocp_ctx *ctx;
	const struct record_settings *is;
	int epoll_fd;
	struct flight **list;
	size_t n;
	size_t n_ever; /* numbers the names */
};

int recorders_new(struct ocp_ctx *ctx, const struct record_settings *is, int epoll_fd,
		  struct recorders **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ctx_no_memory(ctx);
	**out = (struct recorders){ .ctx = ctx, .is = is, .epoll_fd = epoll_fd };
	return 0;
}

/* ---- the command line of a recorder --------------------------------------------------------- */

/* Add the words A and B (NULL: only A) to the command line. Sets *IS_SHORT if memory is short. */
static void add_argv(struct flight *r, bool *is_short, const char *a, const char *b)
{
	const char *words[] = { a, b };

	for (int i = 0; i < 2 && words[i]; i++) {
		char *copy = strdup(words[i]);
		char **slot = copy ? array_add(r->argv, r->n_argv) : NULL;

		if (slot)
			*slot = copy;
		else
			free(copy);
		*is_short |= !slot;
	}
}

__attribute__((format(printf, 4, 5))) static void
add_option(struct flight *r, bool *is_short, const char *option, const char *fmt, ...)
{
	char value[PATH_MAX + STEM_BYTES + 32];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	add_argv(r, is_short, option, value);
}

/* Add what the request times, as the values of --time. */
static void add_times(struct flight *r, bool *is_short, const struct measure_request *request)
{
	for (size_t i = 0; i < request->n_pairs; i++) {
		const struct request_pair *pair = &request->pairs[i];
		char *text = NULL;

		if (request_pair_is_calls(pair))
			add_argv(r, is_short, "--time", pair->start.text);
		else if (asprintf(&text, "%s,%s", pair->start.text, pair->stop.text) < 0)
			*is_short = true;
		else
			add_argv(r, is_short, "--time", text);
		free(text);
	}
	if (request->key && request->n_pairs)
		add_argv(r, is_short, "--key", request->key);
}

/* Make the command line of R, up to what depends on the recorder: its name and its files. */
static bool make_argv(const struct recorders *all, struct flight *r,
		      const struct recorded_program *program)
{
	const struct record_settings *is = all->is;
	bool is_short = false;

	add_argv(r, &is_short, "ocaml-probes", "record");
	if (program->exe)
		add_argv(r, &is_short, "--exe", program->exe);
	else
		add_option(r, &is_short, "--pid", "%d", (int)program->pid);
	add_times(r, &is_short, program->request);
	/* Without a process, the recorder cannot find out what to record. */
	if (program->exe && !program->request->n_pairs && !program->conditions->n)
		add_argv(r, &is_short, "--print", ".*");
	if (program->request->budget > 0)
		add_option(r, &is_short, "--budget", "%g%%", 100 * program->request->budget);
	for (size_t i = 0; i < program->conditions->n; i++)
		add_argv(r, &is_short, "--when", program->conditions->list[i]);
	add_argv(r, &is_short, "--last", is->last ? is->last : "10s");
	add_option(r, &is_short, "--files", "%zu", is->files);
	add_option(r, &is_short, "--disk", "%zuMB", is->disk_mb);
	add_option(r, &is_short, "--memory", "%zuMB", is->memory_mb);
	return !is_short;
}

static bool is_same_argv(const struct flight *a, const struct flight *b)
{
	/* The words of make_argv() are the first ones of each. */
	for (size_t i = 0; i < b->n_argv; i++)
		if (i >= a->n_argv || strcmp(a->argv[i], b->argv[i]) != 0)
			return false;
	return true;
}

/* ---- the names of the files ----------------------------------------------------------------- */

static bool is_stem_used(const struct recorders *all, const char *stem)
{
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->list[i]->stem, stem) == 0)
			return true;
	return false;
}

/*
 * Set r->stem to the name of the program, with only letters, digits, '_' and '.', and unlike those
 * of the other recorders.
 */
static void choose_stem(const struct recorders *all, struct flight *r)
{
	char name[STEM_BYTES - 16];

	if (r->exe)
		snprintf(name, sizeof(name), "%s", base_name(r->exe));
	else
		snprintf(name, sizeof(name), "pid%d", (int)r->pid);
	for (char *c = name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", *c))
			*c = '_';
	if (*name == '.')
		*name = '_';
	snprintf(r->stem, sizeof(r->stem), "%s", name);
	for (int i = 2; is_stem_used(all, r->stem); i++)
		snprintf(r->stem, sizeof(r->stem), "%s.%d", name, i);
}

/* ---- processes ------------------------------------------------------------------------------ */

/* Set PATH to the program ocaml-probes, which is in the directory of this program. */
static bool find_tool(char path[PATH_MAX])
{
	const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash || slash - path + sizeof("/ocaml-probes") > PATH_MAX)
		return false;
	snprintf(slash, sizeof("/ocaml-probes"), "/ocaml-probes");
	return true;
}

/* In the child: become the recorder. When the server ends, it writes what is planned and ends. */
static void be_recorder(const struct flight *r, const char *tool, pid_t parent, int output_fd)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == 0 && getppid() == parent && null >= 0 &&
	    dup2(null, 0) == 0 && dup2(output_fd, 1) == 1 && dup2(output_fd, 2) == 2 &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		execv(tool, r->argv);
	dprintf(output_fd, "%s: %s\n", tool, strerror(errno));
	_exit(EXIT_FAILED);
}

static void start_again_later(struct flight *r)
{
	const int64_t now_ms = clock_ms();

	r->wait_ms =
		now_ms - r->started_ms >= GOOD_MS || !r->wait_ms ? FIRST_WAIT_MS : 2 * r->wait_ms;
	if (r->wait_ms > LONGEST_WAIT_MS)
		r->wait_ms = LONGEST_WAIT_MS;
	r->start_again_ms = now_ms + r->wait_ms;
}

static void start_recorder(struct recorders *all, struct flight *r)
{
	struct epoll_event event = { .events = EPOLLIN };
	const pid_t parent = getpid();
	char tool[PATH_MAX];
	int fds[2];

	r->started_ms = clock_ms();
	if (!find_tool(tool) || pipe2(fds, O_CLOEXEC) != 0) {
		start_again_later(r);
		return;
	}
	fflush(NULL);
	r->child = fork();
	if (r->child == 0)
		be_recorder(r, tool, parent, fds[1]);
	close(fds[1]);
	if (r->child < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0 ||
	    epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, fds[0], &event) != 0) {
		if (r->child > 0)
			kill(r->child, SIGTERM);
		else
			r->child = 0;
		snprintf(r->problem, sizeof(r->problem), "%s", strerror(errno));
		close(fds[0]);
		start_again_later(r);
		return;
	}
	r->output_fd = fds[0];
	r->n_line = 0;
}

/*
 * A line of a recorder. Print it, unless it is the same message as the one before, or its hint.
 * Lines contain names from other processes: say() makes them one line.
 */
static void take_line(struct flight *r)
{
	static const char prefix[] = "ocaml-probes: ";
	const char *line = r->line;
	bool is_message;

	r->line[r->n_line] = '\0';
	r->n_line = 0;
	is_message = strncmp(line, prefix, sizeof(prefix) - 1) == 0;
	line += is_message ? sizeof(prefix) - 1 : 0;
	if (is_message && strncmp(line, "measuring ", strlen("measuring ")) == 0) {
		r->problem[0] = '\0';
		return;
	}
	if (is_message) {
		r->is_repeated = strcmp(line, r->last) == 0;
		snprintf(r->last, sizeof(r->last), "%s", line);
	}
	if (*line && !r->is_repeated)
		say("record %s: %s", r->stem, line);
}

static void read_output(struct flight *r)
{
	char bytes[4096];
	ssize_t n;

	while (r->output_fd >= 0 && (n = read(r->output_fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (bytes[i] == '\n')
				take_line(r);
			else if (r->n_line + 1 < sizeof(r->line))
				r->line[r->n_line++] = bytes[i];
		}
}

/* The recorder has ended with STATUS. */
static void forget_child(struct flight *r, int status)
{
	read_output(r);
	if (r->n_line)
		take_line(r);
	close(r->output_fd);
	r->output_fd = -1;
	r->child = 0;
	if (WIFSIGNALED(status))
		snprintf(r->problem, sizeof(r->problem), "the recorder was killed by signal %d",
			 WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(r->problem, sizeof(r->problem), "%s",
			 *r->last ? r->last : "the recorder failed");
	start_again_later(r);
}

static void free_recorder(struct flight *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_argv; i++)
		free(r->argv[i]);
	free(r->argv);
	free(r->exe);
	free(r);
}

/* Ask the recorders that are not wanted to end, wait for their end, and forget them. */
static void end_unwanted(struct recorders *all)
{
	const int64_t until_ms = clock_ms() + END_MS;
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		if (!all->list[i]->is_wanted && all->list[i]->child)
			kill(all->list[i]->child, SIGTERM);
	for (size_t i = 0; i < all->n; i++) {
		struct flight *r = all->list[i];
		int status;

		while (!r->is_wanted && r->child) {
			if (waitpid(r->child, &status, WNOHANG) != 0) {
				forget_child(r, status);
				break;
			}
			read_output(r);
			if (clock_ms() >= until_ms)
				kill(r->child, SIGKILL);
			poll(NULL, 0, 5);
		}
		if (r->is_wanted)
			all->list[n++] = r;
		else
			free_recorder(r);
	}
	all->n = n;
}

void recorders_free(struct recorders *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		all->list[i]->is_wanted = false;
	end_unwanted(all);
	free(all->list);
	free(all);
}

static struct flight *new_recorder(const struct recorders *all,
				   const struct recorded_program *program)
{
	struct flight *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->pid = program->pid;
	r->output_fd = -1;
	r->is_wanted = true;
	r->exe = program->exe ? strdup(program->exe) : NULL;
	if ((!program->exe || r->exe) && make_argv(all, r, program))
		return r;
	free_recorder(r);
	return NULL;
}

/* Give the new recorder R a name and files, and add it to ALL, which then owns it. */
static bool add_recorder(struct recorders *all, struct flight *r)
{
	struct flight **slot;
	bool is_short = false;
	char **end;

	choose_stem(all, r);
	snprintf(r->name, sizeof(r->name), "serve-%d-%zu", (int)getpid(), ++all->n_ever);
	add_argv(r, &is_short, "--name", r->name);
	add_option(r, &is_short, "-o", "%s/%s.pftrace", all->is->folder, r->stem);
	add_option(r, &is_short, "--html", "%s/%s.html", all->is->folder, r->stem);
	end = is_short ? NULL : array_add(r->argv, r->n_argv);
	if (!end)
		return false;
	*end = NULL;
	r->n_argv--; /* the NULL is not one of the words */
	slot = array_add(all->list, all->n);
	if (slot)
		*slot = r;
	return slot;
}

static struct flight *find_recorder(const struct recorders *all, const struct flight *like)
{
	for (size_t i = 0; i < all->n; i++)
		if (!all->list[i]->is_wanted && is_same_argv(all->list[i], like))
			return all->list[i];
	return NULL;
}

int recorders_set(struct recorders *all, const struct recorded_program *programs, size_t n)
{
	struct flight **made = calloc(n + 1, sizeof(struct flight *));
	bool is_short = !made;

	for (size_t i = 0; i < n && !is_short; i++)
		is_short = !(made[i] = new_recorder(all, &programs[i]));
	for (size_t i = 0; i < all->n && !is_short; i++)
		all->list[i]->is_wanted = false;
	for (size_t i = 0; i < n && !is_short; i++) {
		struct flight *found = find_recorder(all, made[i]);

		if (!found)
			continue;
		found->is_wanted = true;
		free_recorder(made[i]);
		made[i] = NULL;
	}
	if (!is_short)
		end_unwanted(all);
	for (size_t i = 0; made && i < n; i++) {
		if (made[i] && !is_short && add_recorder(all, made[i]))
			start_recorder(all, made[i]);
		else if (made[i]) {
			is_short = true;
			free_recorder(made[i]);
		}
	}
	free(made);
	return is_short ? ctx_no_memory(all->ctx) : 0;
}

void recorders_tick(struct recorders *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct flight *r = all->list[i];
		int status;

		read_output(r);
		if (r->child && waitpid(r->child, &status, WNOHANG) == r->child)
			forget_child(r, status);
		if (!r->child && clock_ms() >= r->start_again_ms)
			start_recorder(all, r);
	}
}

size_t recorders_count(const struct recorders *all)
{
	return all->n;
}

struct recorder_state recorders_at(const struct recorders *all, size_t i)
{
	const struct flight *r = all->list[i];

	return (struct recorder_state){
		.exe = r->exe,
		.pid = r->pid,
		.stem = r->stem,
		.name = r->name,
		.is_running = r->child,
		.problem = *r->problem ? r->problem : NULL,
	};
}
