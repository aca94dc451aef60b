// SPDX-License-Identifier: MIT
/*
 * The stubs of Probes_lib: the objects of the C library for OCaml.
 *
 * A tracer (an OCaml value, type t) holds the probes of one file and, between attach or start and
 * detach, one stopped process. Every operation opens the process again, because it may have loaded
 * the file in the meantime. Only the running process is kept, since its executable cannot move.
 *
 * All work is done without the runtime lock, so that other threads and domains continue. OCaml
 * values are copied before it is released; the error message and the results are copied after it is
 * acquired again. So the library never calls back into OCaml: regular expressions and predicates
 * have become sets of names when they arrive here. The mutex of a tracer separates its users. It is
 * locked after the runtime lock is released, and unlocked before that is acquired again, so that no
 * thread waits for both.
 *
 * After a fork, the child has no threads that hold a process, and the mutex may be locked. The
 * first use of the tracer in the child corrects this. A held process stays with the parent.
 */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/custom.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/threads.h>

#include <errno.h>
#include <limits.h>
#include <ocaml_probes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probes_lib_stubs.h"

struct tracer {
	struct ocp_ctx *ctx;
	struct ocp_program *prog;    /* NULL: any program (Raw_ptrace) */
	unsigned int restrict_flags; /* for ocp_process_restrict */
	pthread_mutex_t mutex;
	struct ocp_process *held;
	bool is_our_exe;
	struct ocp_process *self; /* our own process, if is_our_exe, once it was opened */
	atomic_int owner;	  /* the pid of the process in which this struct is valid */
};

static atomic_bool verbose;

/* ---- the value ------------------------------------------------------------------------------- */

#define Tracer_val(v) (*(struct tracer **)Data_custom_val(v))

static void tracer_free(struct tracer *t)
{
	ocp_process_free(t->held);
	ocp_process_free(t->self);
	ocp_program_free(t->prog);
	ocp_ctx_free(t->ctx);
	pthread_mutex_destroy(&t->mutex);
	free(t);
}

/* In a forked child, freeing the parent's objects would wait for threads that do not exist. */
static void finalize(value v)
{
	struct tracer *t = Tracer_val(v);

	if (t && atomic_load(&t->owner) == getpid())
		tracer_free(t);
}

static struct custom_operations tracer_operations = {
	.identifier = "ocaml-probes.tracer",
	.finalize = finalize,
	.compare = custom_compare_default,
	.hash = custom_hash_default,
	.serialize = custom_serialize_default,
	.deserialize = custom_deserialize_default,
	.compare_ext = custom_compare_ext_default,
	.fixed_length = custom_fixed_length_default,
};

/* The size of a tracer for the GC: a ctx, headers, and some hundred sites. */
enum { TRACER_BYTES = 16 * 1024 };

static struct tracer *tracer_new(void)
{
	struct tracer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ctx = ocp_ctx_new();
	if (!t->ctx) {
		free(t);
		return NULL;
	}
	pthread_mutex_init(&t->mutex, NULL);
	atomic_init(&t->owner, getpid());
	return t;
}

/* ---- in and out of the library --------------------------------------------------------------- */

/* May be called by threads of the library. */
static void log_line(void *data, enum ocp_log_level level, const char *line)
{
	(void)data;
	(void)level;
	fprintf(stderr, "probes_lib: %s\n", line);
}

/* The first caller that finds the parent's pid resets the tracer. Other domains wait for it. */
static void become_owner(struct tracer *t)
{
	const int me = getpid(), nobody = 0;
	int owner;

	while ((owner = atomic_load(&t->owner)) != me) {
		if (owner == nobody || !atomic_compare_exchange_strong(&t->owner, &owner, nobody)) {
			sched_yield();
			continue;
		}
		pthread_mutex_init(&t->mutex, NULL);
		t->held = t->self = NULL;
		atomic_store(&t->owner, me);
	}
}

/* OCaml values must not be used from here to leave(). */
static void enter(struct tracer *t)
{
	become_owner(t);
	caml_release_runtime_system();
	pthread_mutex_lock(&t->mutex);
	ocp_ctx_set_log(t->ctx, atomic_load(&verbose) ? log_line : NULL, NULL, OCP_LOG_DEBUG);
}

/* The error of an operation, with a message of ours or of the library. */
struct failure {
	int err;
	char *why;
};

static struct failure library_failure(const struct tracer *t, int err)
{
	return (struct failure){ .err = err, .why = err ? strdup(ocp_error(t->ctx)) : NULL };
}

static struct failure failure(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static struct failure failure(const char *fmt, ...)
{
	struct failure f = { .err = -EINVAL };
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&f.why, fmt, args) < 0)
		f.why = NULL;
	va_end(args);
	return f;
}

static void leave(struct tracer *t)
{
	pthread_mutex_unlock(&t->mutex);
	caml_acquire_runtime_system();
}

void probes_lib_raise(char *why)
{
	value v_why;

	if (!why)
		caml_raise_out_of_memory();
	v_why = caml_copy_string(why);
	free(why);
	caml_raise_with_arg(*caml_named_value("Probes_lib.Error"), v_why);
}

/* Raise F if it is an error. Call it after leave(), when everything else is freed. */
static void raise_failure(struct failure f)
{
	if (f.err)
		probes_lib_raise(f.why);
}

/* ---- copies of OCaml values ------------------------------------------------------------------ */

static void free_strings(char **strings)
{
	for (size_t i = 0; strings && strings[i]; i++)
		free(strings[i]);
	free(strings);
}

/* Copy a string array and end it with NULL. Returns NULL if memory is short. */
static char **copy_strings(value v, size_t *n)
{
	char **copy = calloc(Wosize_val(v) + 1, sizeof(*copy));

	*n = Wosize_val(v);
	for (size_t i = 0; copy && i < *n; i++) {
		copy[i] = strdup(String_val(Field(v, i)));
		if (!copy[i]) {
			free_strings(copy);
			return NULL;
		}
	}
	return copy;
}

/* A step of an update, as probes_lib.ml describes it. */
enum step_kind { STEP_ALL, STEP_NAME, STEP_PAIR, STEP_SET };

struct step {
	enum step_kind kind;
	bool enable;
	char **names; /* of a set: sorted */
	size_t n;
};

struct steps {
	struct step *list;
	size_t n;
};

static void free_steps(struct steps *steps)
{
	for (size_t i = 0; steps->list && i < steps->n; i++)
		free_strings(steps->list[i].names);
	free(steps->list);
}

static void copy_steps(value v, struct steps *steps)
{
	bool ok;

	steps->n = Wosize_val(v);
	steps->list = calloc(steps->n + 1, sizeof(*steps->list));
	ok = steps->list;
	for (size_t i = 0; ok && i < steps->n; i++) {
		value v_step = Field(v, i);
		struct step *step = &steps->list[i];

		step->kind = (enum step_kind)Int_val(Field(v_step, 0));
		step->enable = Bool_val(Field(v_step, 1));
		step->names = copy_strings(Field(v_step, 2), &step->n);
		ok = step->names;
	}
	if (ok)
		return;
	free_steps(steps);
	caml_raise_out_of_memory();
}

/* ---- what the operations are made of, to be called between enter and leave ------------------- */

static int compare_name(const void *key, const void *name)
{
	return strcmp(key, *(char *const *)name);
}

static bool is_in_set(void *data, const char *name)
{
	const struct step *step = data;

	return bsearch(name, step->names, step->n, sizeof(*step->names), compare_name) != NULL;
}

static int add_step(struct ocp_actions *a, struct step *step)
{
	char **names = step->names;

	switch (step->kind) {
	case STEP_ALL:
		return step->enable ? ocp_actions_enable_all(a) : ocp_actions_disable_all(a);
	case STEP_NAME:
		return step->enable ? ocp_actions_enable(a, names[0])
				    : ocp_actions_disable(a, names[0]);
	case STEP_PAIR:
		return step->enable ? ocp_actions_enable_pair(a, names[0], names[1])
				    : ocp_actions_disable_pair(a, names[0], names[1]);
	case STEP_SET:
		return step->enable ? ocp_actions_enable_if(a, is_in_set, step)
				    : ocp_actions_disable_if(a, is_in_set, step);
	}
	return -EINVAL;
}

static int update(struct tracer *t, struct ocp_process *proc, struct steps *steps,
		  unsigned int flags)
{
	struct ocp_actions *actions = ocp_actions_new(t->ctx);
	int err = actions ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < steps->n; i++)
		err = add_step(actions, &steps->list[i]);
	if (!err)
		err = ocp_process_update(proc, actions, flags);
	ocp_actions_free(actions);
	return err;
}

/* Open process PID and restrict it to PROG. */
static int open_process(struct tracer *t, pid_t pid, struct ocp_process **out)
{
	int err = ocp_process_open(t->ctx, pid, out);

	if (!err)
		err = ocp_process_restrict(*out, t->prog, t->restrict_flags);
	if (err) {
		ocp_process_free(*out);
		*out = NULL;
	}
	return err;
}

enum { MAX_TRIES = 1000 };

/* Kill a process that was started and must not run. */
static void kill_process(struct ocp_process *proc)
{
	pid_t pid = ocp_process_pid(proc);
	int tries = 0;

	kill(pid, SIGKILL);
	ocp_process_free(proc);
	/*
	 * ECHILD: its end was noticed at the release. EINTR is retried a limited number of times.
	 */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR && ++tries < MAX_TRIES)
		;
}

static int spawn(struct tracer *t, char **argv, struct ocp_process **out)
{
	int err = ocp_process_spawn(t->ctx, argv[0], argv, out);

	if (err || !t->prog)
		return err;
	err = ocp_process_restrict(*out, t->prog, t->restrict_flags);
	if (err) {
		kill_process(*out);
		*out = NULL;
	}
	return err;
}

/* The process of an operation: the held one, or one given by its pid. */
struct target {
	bool is_held;
	long pid;
	const char *what; /* for the message if no process is held */
	struct ocp_process *proc;
};

static struct failure find_target(struct tracer *t, struct target *target)
{
	pid_t held = t->held ? ocp_process_pid(t->held) : 0;

	if (target->is_held && !held)
		return failure("%s: no pid\n", target->what);
	/* The library's message, for a pid that does not fit into its type. */
	if (!target->is_held && (target->pid <= 0 || target->pid > INT_MAX))
		return failure("pid %ld: not a process id", target->pid);
	if (target->is_held || target->pid == held) {
		target->proc = t->held;
		return (struct failure){ 0 };
	}
	if (t->self && target->pid == getpid()) {
		target->proc = t->self;
		return (struct failure){ 0 };
	}
	return library_failure(t, open_process(t, (pid_t)target->pid, &target->proc));
}

/* If FAILED, the next operation opens the process again. */
static void forget_target(struct tracer *t, const struct target *target, bool failed)
{
	if (!target->proc || target->proc == t->held)
		return;
	if (t->is_our_exe && target->pid == getpid() && !failed) {
		t->self = target->proc;
		return;
	}
	if (target->proc == t->self)
		t->self = NULL;
	ocp_process_free(target->proc);
}

/* ---- the stubs ------------------------------------------------------------------------------- */

STUB probes_lib_set_verbose(value v_verbose);
STUB probes_lib_set_verbose(value v_verbose)
{
	atomic_store(&verbose, Bool_val(v_verbose));
	return Val_unit;
}

/* Make a tracer for the file PATH, or for no file if PATH is empty. */
STUB probes_lib_open(value v_path, value v_check_prog, value v_allow_gigatext);
STUB probes_lib_open(value v_path, value v_check_prog, value v_allow_gigatext)
{
	CAMLparam1(v_path);
	CAMLlocal1(v_tracer);
	struct failure f = { 0 };
	struct tracer *t;
	char *path;

	v_tracer = caml_alloc_custom_mem(&tracer_operations, sizeof(void *), TRACER_BYTES);
	Tracer_val(v_tracer) = NULL;
	t = tracer_new();
	if (!t)
		caml_raise_out_of_memory();
	Tracer_val(v_tracer) = t;
	t->restrict_flags = Bool_val(v_check_prog) ? OCP_NO_COPIES : 0;
	ocp_ctx_allow_gigatext(t->ctx, Bool_val(v_allow_gigatext));
	path = caml_stat_strdup(String_val(v_path));
	t->is_our_exe = strcmp(path, "/proc/self/exe") == 0;
	enter(t);
	if (*path)
		f = library_failure(t, ocp_program_open(t->ctx, path, &t->prog));
	leave(t);
	caml_stat_free(path);
	raise_failure(f);
	CAMLreturn(v_tracer);
}

STUB probes_lib_allow_gigatext(value v_tracer, value v_allow);
STUB probes_lib_allow_gigatext(value v_tracer, value v_allow)
{
	CAMLparam1(v_tracer);
	struct tracer *t = Tracer_val(v_tracer);
	bool allow = Bool_val(v_allow);

	enter(t);
	ocp_ctx_allow_gigatext(t->ctx, allow);
	leave(t);
	CAMLreturn(Val_unit);
}

/* The names of the probes, sorted. They never change: no lock is needed. */
STUB probes_lib_names(value v_tracer);
STUB probes_lib_names(value v_tracer)
{
	CAMLparam1(v_tracer);
	CAMLlocal1(v_names);
	const struct ocp_program *prog = Tracer_val(v_tracer)->prog;
	size_t n = ocp_program_probe_count(prog);

	v_names = n ? caml_alloc(n, 0) : Atom(0);
	for (size_t i = 0; i < n; i++)
		Store_field(v_names, i, caml_copy_string(ocp_program_probe_name(prog, i)));
	CAMLreturn(v_names);
}

static struct failure read_states(struct tracer *t, struct target *target, unsigned int flags,
				  enum ocp_state *states)
{
	struct failure f = find_target(t, target);

	if (!f.err)
		f = library_failure(t, ocp_process_read_states(target->proc, flags, states));
	forget_target(t, target, f.err);
	return f;
}

/* Whether each probe is on, or partly on, in the order of the names. */
STUB probes_lib_states(value v_tracer, value v_held, value v_pid, value v_atomically);
STUB probes_lib_states(value v_tracer, value v_held, value v_pid, value v_atomically)
{
	CAMLparam1(v_tracer);
	CAMLlocal1(v_states);
	struct tracer *t = Tracer_val(v_tracer);
	struct target target = { .is_held = Bool_val(v_held),
				 .pid = Long_val(v_pid),
				 .what = "cannot get probe states" };
	unsigned int flags = Bool_val(v_atomically) ? OCP_ATOMICALLY : 0;
	size_t n = ocp_program_probe_count(t->prog);
	enum ocp_state *states = calloc(n + 1, sizeof(*states));
	struct failure f;

	if (!states)
		caml_raise_out_of_memory();
	enter(t);
	f = read_states(t, &target, flags, states);
	leave(t);
	if (!f.err) {
		v_states = n ? caml_alloc(n, 0) : Atom(0);
		for (size_t i = 0; i < n; i++)
			Store_field(v_states, i, Val_bool(states[i] != OCP_DISABLED));
	}
	free(states);
	raise_failure(f);
	CAMLreturn(v_states);
}

STUB probes_lib_update(value v_tracer, value v_held, value v_pid, value v_flags, value v_steps);
STUB probes_lib_update(value v_tracer, value v_held, value v_pid, value v_flags, value v_steps)
{
	CAMLparam2(v_tracer, v_steps);
	struct tracer *t = Tracer_val(v_tracer);
	struct target target = { .is_held = Bool_val(v_held),
				 .pid = Long_val(v_pid),
				 .what = "update failed" };
	unsigned int flags = (unsigned int)Int_val(v_flags);
	struct steps steps;
	struct failure f;

	copy_steps(v_steps, &steps);
	enter(t);
	f = find_target(t, &target);
	if (!f.err)
		f = library_failure(t, update(t, target.proc, &steps, flags));
	forget_target(t, &target, f.err);
	leave(t);
	free_steps(&steps);
	raise_failure(f);
	CAMLreturn(Val_unit);
}

static struct failure attach(struct tracer *t, long pid)
{
	struct target target = { .pid = pid };
	pid_t held = t->held ? ocp_process_pid(t->held) : 0;
	struct failure f;

	if (held && pid == held)
		return failure("Already attached to %ld", pid);
	if (held)
		return failure("Cannot attach to %ld, already attached to %d", pid, (int)held);
	f = find_target(t, &target);
	if (!f.err)
		f = library_failure(t, ocp_process_hold(target.proc));
	if (f.err) {
		forget_target(t, &target, true);
		return f;
	}
	/* There must be one owner: if the process was kept in `self`, it is now in `held`. */
	if (target.proc == t->self)
		t->self = NULL;
	t->held = target.proc;
	return f;
}

STUB probes_lib_attach(value v_tracer, value v_pid);
STUB probes_lib_attach(value v_tracer, value v_pid)
{
	CAMLparam1(v_tracer);
	struct tracer *t = Tracer_val(v_tracer);
	long pid = Long_val(v_pid);
	struct failure f;

	enter(t);
	f = attach(t, pid);
	leave(t);
	raise_failure(f);
	CAMLreturn(Val_unit);
}

/*
 * Start ARGV and hold it. If there are STEPS, which only enable, switch its probes and resume it.
 */
static struct failure start(struct tracer *t, char **argv, struct steps *steps, pid_t *pid)
{
	struct ocp_process *proc = NULL;
	int err;

	if (t->held)
		return failure("Cannot start %s, already attached to %d", argv[0],
			       (int)ocp_process_pid(t->held));
	err = spawn(t, argv, &proc);
	if (err)
		return library_failure(t, err);
	*pid = ocp_process_pid(proc);
	if (!steps) {
		t->held = proc;
		return (struct failure){ 0 };
	}
	err = update(t, proc, steps, OCP_FORCE);
	if (err) {
		struct failure f = library_failure(t, err);

		kill_process(proc);
		return f;
	}
	ocp_process_free(proc);
	return (struct failure){ 0 };
}

static value start_stub(struct tracer *t, value v_argv, struct steps *steps)
{
	struct failure f;
	pid_t pid = 0;
	size_t n;
	char **argv = copy_strings(v_argv, &n);

	if (!argv) {
		if (steps)
			free_steps(steps);
		caml_raise_out_of_memory();
	}
	enter(t);
	f = start(t, argv, steps, &pid);
	leave(t);
	free_strings(argv);
	if (steps)
		free_steps(steps);
	raise_failure(f);
	return Val_long(pid);
}

STUB probes_lib_start(value v_tracer, value v_argv);
STUB probes_lib_start(value v_tracer, value v_argv)
{
	CAMLparam1(v_tracer);
	CAMLreturn(start_stub(Tracer_val(v_tracer), v_argv, NULL));
}

STUB probes_lib_trace(value v_tracer, value v_argv, value v_steps);
STUB probes_lib_trace(value v_tracer, value v_argv, value v_steps)
{
	CAMLparam2(v_tracer, v_argv);
	struct steps steps;

	copy_steps(v_steps, &steps);
	CAMLreturn(start_stub(Tracer_val(v_tracer), v_argv, &steps));
}

STUB probes_lib_detach(value v_tracer);
STUB probes_lib_detach(value v_tracer)
{
	CAMLparam1(v_tracer);
	struct tracer *t = Tracer_val(v_tracer);
	struct failure f = { 0 };

	enter(t);
	if (!t->held)
		f = failure("detach failed: no pid\n");
	ocp_process_free(t->held);
	t->held = NULL;
	leave(t);
	raise_failure(f);
	CAMLreturn(Val_unit);
}
