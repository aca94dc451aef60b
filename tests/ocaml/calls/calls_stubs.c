// SPDX-License-Identifier: MIT
/* The books of calls.ml, the clock, and calls of OCaml from C. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <caml/callback.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>

enum { MAX_NAMES = 128 };

static struct {
	const char *name; /* a constant of the program: it does not move */
	uint64_t calls, inner_ns, outer_ns;
} books[MAX_NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

value calls_hit(value name);
value calls_inner(value name, value ns);
value calls_outer(value name, value ns);
value calls_print(value unit);
value calls_clock(value unit);
value calls_burn(value us);
value calls_call(value f, value x);
value calls_change(value f);
value calls_gettid(value unit);
int calls_by_name(int x);

static void note(const char *name, uint64_t calls, uint64_t inner_ns, uint64_t outer_ns)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < MAX_NAMES - 1 && books[i].name && strcmp(books[i].name, name) != 0)
		i++;
	books[i].name = name;
	books[i].calls += calls;
	books[i].inner_ns += inner_ns;
	books[i].outer_ns += outer_ns;
	pthread_mutex_unlock(&lock);
}

value calls_hit(value name)
{
	note(String_val(name), 1, 0, 0);
	return Val_unit;
}

/*
 * A time between the first and the last instruction of a call; one that the caller took around it.
 */
value calls_inner(value name, value ns)
{
	note(String_val(name), 0, (uint64_t)Long_val(ns), 0);
	return Val_unit;
}

value calls_outer(value name, value ns)
{
	note(String_val(name), 0, 0, (uint64_t)Long_val(ns));
	return Val_unit;
}

/* Print "call NAME CALLS INNER-NS OUTER-NS" for each name. */
value calls_print(value unit)
{
	for (size_t i = 0; i < MAX_NAMES && books[i].name; i++)
		printf("call %s %ju %ju %ju\n", books[i].name, (uintmax_t)books[i].calls,
		       (uintmax_t)books[i].inner_ns, (uintmax_t)books[i].outer_ns);
	fflush(stdout);
	return unit;
}

static uint64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

value calls_clock(value unit)
{
	(void)unit;
	return Val_long(clock_of(CLOCK_MONOTONIC));
}

value calls_gettid(value unit)
{
	(void)unit;
	return Val_long(gettid());
}

/* Use the processor for so many microseconds. */
value calls_burn(value us)
{
	const uint64_t end = clock_of(CLOCK_MONOTONIC) + (uint64_t)Long_val(us) * 1000;

	while (clock_of(CLOCK_MONOTONIC) < end)
		;
	return Val_unit;
}

/*
 * A function of C that the program's users may count, of enough bytes for a jump; the compiler
 * keeps its calls.
 */
__attribute__((noinline)) int calls_by_name(int x)
{
	static volatile int one = 1;

	return x + one;
}

value calls_call(value f, value x)
{
	CAMLparam2(f, x);

	note("c:calls_by_name", 1, 0, 0);
	calls_by_name(1);
	CAMLreturn(caml_callback(f, x));
}

static void protect(uint8_t *code, int protection)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (mprotect((void *)((uintptr_t)code & ~(page - 1)), 2 * page, protection))
		caml_failwith("mprotect");
}

/*
 * Make F, which adds 1, add 2: the code of OCaml's integers adds 2 times as much. An int3 in the
 * place of the first byte stays.
 */
value calls_change(value f)
{
	uint8_t *code = *(uint8_t **)f;

	if (code[1] != 0x83 || code[2] != 0xc0 || code[3] != 2)
		caml_failwith("calls_change");
	protect(code, PROT_READ | PROT_WRITE | PROT_EXEC);
	code[3] = 4;
	protect(code, PROT_READ | PROT_EXEC);
	return Val_unit;
}
