/*
 * What locks.ml cannot do in OCaml. Functions without "Blocking" keep the lock of the runtime.
 */
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

value locks_now(value unit)
{
	(void)unit;
	return Val_long(clock_of(CLOCK_MONOTONIC));
}

/* Name the thread, and return its id. */
value locks_name(value name)
{
	prctl(PR_SET_NAME, String_val(name), 0, 0, 0);
	return Val_long(syscall(SYS_gettid));
}

/*
 * Return the number of the system call in which thread TID waits, or -1 if it runs. Set *ARGUMENT
 * to the first argument of the call.
 */
static long call_of(long tid, unsigned long *argument)
{
	char path[64], text[256];
	char *end;
	ssize_t n;
	long call;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", tid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	call = strtol(text, &end, 10);
	if (end == text)
		return -1;
	*argument = strtoul(end, NULL, 16);
	return call;
}

value locks_reads(value tid)
{
	unsigned long argument;

	return Val_bool(call_of(Long_val(tid), &argument) == SYS_read);
}

/* Does thread TID wait for MUTEX of OCaml? A mutex is a block with a pointer to one of C. */
value locks_waits_for(value tid, value mutex)
{
	unsigned long argument;

	return Val_bool(call_of(Long_val(tid), &argument) == SYS_futex &&
			argument == (unsigned long)Field(mutex, 1));
}

value locks_wake(value fd)
{
	return Val_bool(write(Int_val(fd), "x", 1) == 1);
}

/* Wait until thread TID waits for a futex, and NS more. Return when it was seen to wait. */
value locks_hold(value tid, value ns)
{
	const struct timespec hold = { 0, Long_val(ns) };
	unsigned long argument;
	long seen;

	while (call_of(Long_val(tid), &argument) != SYS_futex)
		;
	seen = clock_of(CLOCK_MONOTONIC);
	nanosleep(&hold, NULL);
	return Val_long(seen);
}

/*
 * Wait 10 ms for MUTEX, which nobody releases. Some C libraries have no name for the function that
 * does so, thus this one has the name of such a function. A wait is no tail call, so the function
 * stays on the stack.
 */
__attribute__((noinline)) int pthread_mutex_time_out(pthread_mutex_t *mutex)
{
	const long end = clock_of(CLOCK_REALTIME) + 10000000;
	const struct timespec until = { end / 1000000000, end % 1000000000 };
	volatile int err = pthread_mutex_timedlock(mutex, &until);

	return err;
}

/* Blocking: wait N times for a mutex. */
value locks_time_out(value n)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	long left = Long_val(n);

	caml_enter_blocking_section();
	pthread_mutex_lock(&mutex);
	for (; left > 0; left--)
		pthread_mutex_time_out(&mutex);
	caml_leave_blocking_section();
	return Val_unit;
}
