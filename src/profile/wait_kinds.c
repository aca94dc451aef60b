// SPDX-License-Identifier: MIT
#include "profile/wait_kinds.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct wait_rule {
	const char *function; /* a name that ends with '*' stands for all names that begin so */
	enum wait_kind kind;
};

/*
 * Functions of the runtime and its libraries that wait for one thing only, however they do so: the
 * lock of the runtime is made of a mutex and a condition, for example. The names with "unix_" and
 * "caml_unix_" are those before and since OCaml 5.0.
 */
static const struct wait_rule of_runtime[] = {
	{ "exc_page_fault", WAIT_MEMORY }, /* of the kernel: in any function */
	{ "caml_leave_blocking_section*", WAIT_RUNTIME_LOCK },
	{ "caml_thread_leave_blocking_section", WAIT_RUNTIME_LOCK },
	{ "caml_thread_yield", WAIT_RUNTIME_LOCK },
	{ "st_thread_yield", WAIT_RUNTIME_LOCK },
	{ "thread_yield", WAIT_RUNTIME_LOCK }, /* OCaml 5 */
	{ "st_masterlock_acquire", WAIT_RUNTIME_LOCK },
	{ "caml_acquire_domain_lock", WAIT_RUNTIME_LOCK },
	{ "caml_mutex_lock", WAIT_MUTEX },
	{ "caml_ml_mutex_lock", WAIT_MUTEX },
	{ "caml_condition_wait", WAIT_CONDITION },
	{ "caml_ml_condition_wait", WAIT_CONDITION },
	{ "caml_thread_join", WAIT_END },
	{ "caml_ml_domain_join", WAIT_END },
	{ "Thread.join", WAIT_END },
	{ "Domain.join", WAIT_END },
	{ "unix_wait*", WAIT_END },
	{ "caml_unix_wait*", WAIT_END },
	{ "Thread.delay", WAIT_SLEEP },
	{ "unix_sleep", WAIT_SLEEP },
	{ "caml_unix_sleep", WAIT_SLEEP },
	{ "caml_wait_signal", WAIT_SLEEP },
	{ "caml_try_run_on_all_domains*", WAIT_DOMAINS },
	{ "caml_global_barrier*", WAIT_DOMAINS },
	{ "caml_handle_incoming_interrupts", WAIT_DOMAINS },
	{ "caml_stw_empty_minor_heap*", WAIT_DOMAINS },
	{ "caml_empty_minor_heap*", WAIT_DOMAINS },
	{ "stw_handler", WAIT_DOMAINS },
	{ "caml_thread_tick", WAIT_RUNTIME_THREAD },
	{ "backup_thread_func", WAIT_RUNTIME_THREAD },
};

/* Functions of the C library and of the kernel; they count only if no rule above fits. */
static const struct wait_rule of_system[] = {
	{ "pthread_mutex_*", WAIT_MUTEX },
	{ "__pthread_mutex_*", WAIT_MUTEX },
	{ "pthread_rwlock_*", WAIT_MUTEX },
	{ "__lll_lock_wait*", WAIT_MUTEX },
	{ "pthread_cond_*", WAIT_CONDITION },
	{ "__pthread_cond_*", WAIT_CONDITION },
	{ "sem_*wait", WAIT_CONDITION },
	{ "pthread_join", WAIT_END },
	{ "__pthread_clockjoin_ex", WAIT_END },
	{ "pthread_timedjoin_np", WAIT_END },
	{ "wait4", WAIT_END },
	{ "__wait4", WAIT_END },
	{ "waitid", WAIT_END },
	{ "waitpid", WAIT_END },
	{ "do_wait", WAIT_END },
	{ "nanosleep", WAIT_SLEEP },
	{ "clock_nanosleep", WAIT_SLEEP },
	{ "usleep", WAIT_SLEEP },
	{ "hrtimer_nanosleep", WAIT_SLEEP },
	{ "do_nanosleep", WAIT_SLEEP },
	{ "pause", WAIT_SLEEP },
	{ "sigsuspend", WAIT_SLEEP },
	{ "sigtimedwait", WAIT_SLEEP },
	{ "sigwait*", WAIT_SLEEP },
	{ "do_sigtimedwait*", WAIT_SLEEP },
	{ "read", WAIT_INPUT },
	{ "__read*", WAIT_INPUT },
	{ "readv", WAIT_INPUT },
	{ "pread*", WAIT_INPUT },
	{ "write", WAIT_INPUT },
	{ "__write*", WAIT_INPUT },
	{ "writev", WAIT_INPUT },
	{ "pwrite*", WAIT_INPUT },
	{ "poll", WAIT_INPUT },
	{ "__poll*", WAIT_INPUT },
	{ "ppoll", WAIT_INPUT },
	{ "select", WAIT_INPUT },
	{ "__select*", WAIT_INPUT },
	{ "pselect", WAIT_INPUT },
	{ "epoll_*wait*", WAIT_INPUT },
	{ "recv*", WAIT_INPUT },
	{ "__recv*", WAIT_INPUT },
	{ "send*", WAIT_INPUT },
	{ "__send*", WAIT_INPUT },
	{ "accept*", WAIT_INPUT },
	{ "connect", WAIT_INPUT },
	{ "__connect*", WAIT_INPUT },
	{ "fsync", WAIT_INPUT },
	{ "fdatasync", WAIT_INPUT },
	{ "flock", WAIT_INPUT },
	{ "open", WAIT_INPUT },
	{ "open64", WAIT_INPUT },
	{ "openat*", WAIT_INPUT },
	{ "io_schedule*", WAIT_INPUT },
	{ "vfs_read*", WAIT_INPUT },
	{ "vfs_write*", WAIT_INPUT },
	{ "vfs_fsync*", WAIT_INPUT },
	{ "do_epoll_wait", WAIT_INPUT },
	{ "ep_poll", WAIT_INPUT },
	{ "do_select", WAIT_INPUT },
	{ "do_poll*", WAIT_INPUT },
	{ "do_sys_poll", WAIT_INPUT },
	{ "sock_*", WAIT_INPUT },
	{ "inet_*", WAIT_INPUT },
	{ "unix_stream_*", WAIT_INPUT },
	{ "unix_accept", WAIT_INPUT },
	{ "do_fcntl", WAIT_INPUT },
	{ "do_sys_open*", WAIT_INPUT },
};

/* Return true if NAME is PATTERN, in which each '*' stands for any text. */
static bool matches_pattern(const char *name, const char *pattern)
{
	for (; *pattern != '*'; name++, pattern++)
		if (*name != *pattern)
			return false;
		else if (!*name)
			return true;
	if (!*++pattern)
		return true;
	for (; *name; name++)
		if (matches_pattern(name, pattern))
			return true;
	return false;
}

/*
 * Set *KIND to the kind of the rule for the innermost function in STACK for which there is one.
 * Functions of OCaml have rules only if HAS_OCAML.
 */
static bool find_wait_rule(const struct named_stack *stack, const struct wait_rule *rules, size_t n,
			   bool has_ocaml, enum wait_kind *kind)
{
	for (size_t i = stack->n; i-- > profile_stack_first(stack);) {
		const struct named_frame *frame = stack->frames[i];

		if (frame->kind == FRAME_OCAML && !has_ocaml)
			continue;
		for (size_t j = 0; j < n; j++) {
			if (matches_pattern(frame->function, rules[j].function)) {
				*kind = rules[j].kind;
				return true;
			}
		}
	}
	return false;
}

enum wait_kind wait_kind_of(const struct named_stack *stack)
{
	enum wait_kind kind = WAIT_OTHER;

	if (!find_wait_rule(stack, of_runtime, sizeof(of_runtime) / sizeof(*of_runtime), true,
			    &kind))
		find_wait_rule(stack, of_system, sizeof(of_system) / sizeof(*of_system), false,
			       &kind);
	return kind;
}

void wait_kinds_sum(const struct profile *profile, struct wait_sum sums[N_WAIT_KINDS])
{
	memset(sums, 0, N_WAIT_KINDS * sizeof(*sums));
	for (size_t i = 0; i < profile->n; i++) {
		struct wait_sum *sum = &sums[wait_kind_of(&profile->stacks[i])];

		sum->samples += profile->stacks[i].samples;
		sum->ns += profile->stacks[i].value;
	}
}

enum wait_kind wait_kinds_longest(const struct wait_sum sums[N_WAIT_KINDS])
{
	size_t longest = 0;

	for (size_t i = 1; i < N_WAIT_KINDS; i++)
		if (sums[i].ns > sums[longest].ns)
			longest = i;
	return (enum wait_kind)longest;
}

struct wait_kind_names {
	const char *text, *name;
};

static const struct wait_kind_names wait_kind_names[N_WAIT_KINDS] = {
	[WAIT_RUNTIME_LOCK] = { "the lock of the runtime", "runtime_lock" },
	[WAIT_MUTEX] = { "a mutex", "mutex" },
	[WAIT_CONDITION] = { "a condition", "condition" },
	[WAIT_END] = { "the end of a thread or process", "end" },
	[WAIT_INPUT] = { "I/O and events", "io" },
	[WAIT_SLEEP] = { "a time or signal", "sleep" },
	[WAIT_DOMAINS] = { "other domains (collector)", "domains" },
	[WAIT_MEMORY] = { "a page of memory", "memory" },
	[WAIT_RUNTIME_THREAD] = { "work for a thread of the runtime", "runtime_thread" },
	[WAIT_OTHER] = { "something else", "other" },
};

const char *wait_kind_text(enum wait_kind kind)
{
	return wait_kind_names[kind].text;
}

const char *wait_kind_name(enum wait_kind kind)
{
	return wait_kind_names[kind].name;
}
