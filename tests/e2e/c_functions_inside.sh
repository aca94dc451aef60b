#!/usr/bin/env bash
# Functions of C counted by jumps in the process (`--engine inside`), against the program's own books and against uprobes,
# and those that are refused, with the reason.
#
# needs: fixtures ocaml
# ocaml5: test_runtime
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

# ---- helpers ----------------------------------------------------------------------------------

# A program that counts the calls of its own functions: in threads that begin and end, in a signal handler that interrupts
# counted calls, in children of fork and vfork, and while a register is in use that calls of other functions may change.
build_program() { # [FLAG...]
	cat >"$TMP/program.c" <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, STORM = 200, CALLS = 20000, FORKS = 20 };

static _Atomic long n_work, n_handled, n_jumps, wrong;
static volatile long step = 1;

__attribute__((noinline)) long work(long x)
{
	return x * 3 + step;
}

__attribute__((noinline)) void handled(void)
{
	n_handled += step;
}

/* A part of it is elsewhere, and jumps back to the second instruction. */
long entered(long x);
__asm__(".globl entered\n"
	".type entered, @function\n"
	"entered:\n"
	"	push	%rbx\n"
	"entered_again:\n"
	"	mov	%rdi, %rbx\n"
	"	sub	$1, %rdi\n"
	"	jg	entered_cold\n"
	"	mov	%rbx, %rax\n"
	"	pop	%rbx\n"
	"	ret\n"
	".size entered, . - entered\n"
	".skip 200\n"
	".type entered_cold, @function\n"
	"entered_cold:\n"
	"	nop\n"
	"	jmp	entered_again\n"
	".size entered_cold, . - entered_cold\n");

/* A jump leads to its second instruction. */
void looping(int times);
__asm__(".globl looping\n"
	".type looping, @function\n"
	"looping:\n"
	"	xor	%eax, %eax\n"
	"1:	dec	%edi\n"
	"	jns	1b\n"
	"	ret\n"
	".size looping, . - looping\n");

/* Work, with a value in r11, as compilers may do if they know that work() does not use r11. */
static void work_with_r11(void)
{
	long r11 = 0x1122334455667788, x = 1;

	__asm__ volatile("sub	$128, %%rsp\n"
			 "mov	%0, %%r11\n"
			 "call	work\n"
			 "mov	%%r11, %0\n"
			 "add	$128, %%rsp\n"
			 : "+r"(r11), "+D"(x)
			 :
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	if (r11 != 0x1122334455667788)
		wrong++;
	n_work++;
}

static void on_alarm(int number)
{
	(void)number;
	handled();
	work_with_r11();
}

static void *run(void *calls)
{
	work(1);
	n_work++;
	for (long i = 1; i < (long)calls; i++)
		work_with_r11();
	return NULL;
}

static void run_threads(int n, long calls)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)calls))
			abort();
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* The books are those of the parent: a child of fork has its own, of which the parent knows. */
static void run_children(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		if (!child) {
			run((void *)CALLS);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		n_work += CALLS;
		child = vfork();
		if (!child) {
			work(1);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		n_work++;
	}
}

static int hear(void)
{
	char line[8];

	return read(0, line, sizeof(line)) > 0;
}

int main(void)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { 0 };

	signal(SIGPROF, on_alarm);
	puts("ready");
	fflush(stdout);
	if (!hear())
		return 1;
	setitimer(ITIMER_PROF, &often, NULL);
	/* The timer is looked at when the kernel's clock ticks in this process. */
	do
		run_threads(THREADS, CALLS * 20);
	while (!n_handled);
	for (int i = 0; i < STORM; i++)
		run_threads(THREADS, 10);
	setitimer(ITIMER_PROF, &never, NULL);
	run_children();
	printf("work %ld\nhandled %ld\nwrong %ld\nentered %ld\nend\n", n_work, n_handled, wrong, entered(5));
	fflush(stdout);
	return !hear();
}
C
	cc -O2 -fno-pie -no-pie -pthread "$@" "$TMP/program.c" -o "$TMP/program"
}

# "NAME HITS" of all probes, sorted.
counts() { # FILE
	python3 - "$1" <<-'PY' | LC_ALL=C sort
		import json, sys
		for probe in json.loads(open(sys.argv[1]).read().splitlines()[-1])["probes"]:
		    print(probe["name"], probe["hits"])
	PY
}

refuses() { # MESSAGE NAME
	check_error 4 "'c:$2': cannot be counted inside: $1" attach -pid "$TARGET" --engine inside --count="c:$2" --for 1ms
}

# ---- tests ------------------------------------------------------------------------------------

check_program() { # FLAG...
	build_program "$@"
	start_target "$TMP/program"
	await_line ready
	start_measuring --engine inside --budget none --json --count=c:work,c:handled
	tell go
	await_line end 60
	kill -INT "$COUNTING"
	wait "$COUNTING" || fail "$(<"$TMP/counting.err")"
	finds -x 'wrong 0' "$(output_of)"
	finds -x 'handled [1-9][0-9]*' "$(output_of)"
	eq "$(counts "$TMP/counts")" "$(sed -n 's/^\(work\|handled\) /c:&/p' "$(output_of)" | LC_ALL=C sort)" "counts"
	finds "pid $TARGET: counts 2 functions of C inside: until this ends, a uprobe .* would crash the process" "$TMP/counting.err"
	holds has_own_code
	tell end
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

test_counts() {
	check_program
	# Debian's compilers leave out endbr64; those of others do not.
	check_program -fcf-protection=full
}

# The functions of the runtime, in two runs of a program: one by each engine.
test_runtime() {
	local engine name names=c:caml_alloc_string
	need_counting
	cat >"$TMP/allocating.ml" <<-'ML'
		let () =
		  for i = 1 to 2000 do
		    ignore (Sys.opaque_identity (Array.make 1000 i));
		    ignore (Sys.opaque_identity (String.make 30 'x'));
		    ignore (Sys.opaque_identity (List.init 100 string_of_int))
		  done
	ML
	(cd "$TMP" && ocamlopt allocating.ml -o allocating)
	nm "$TMP/allocating" >"$TMP/symbols"
	for name in caml_alloc_shr caml_garbage_collection caml_alloc_small_dispatch caml_empty_minor_heap caml_format_int \
		caml_minor_collection caml_empty_minor_heaps_once caml_alloc_initialized_string caml_major_collection_slice; do
		! finds " T $name\$" "$TMP/symbols" || names+=,c:$name
	done
	for engine in bpf inside; do
		BY=$engine COUNTED=$names start_counted "$TMP/out" "$TMP/allocating"
		finish_target
		wait "$COUNTING" || fail "$(<"$TMP/out.err")"
		counts "$TMP/out" >"$TMP/$engine"
	done
	eq "$(<"$TMP/inside")" "$(<"$TMP/bpf")" "counts"
	finds -x 'c:caml_format_int 200000' "$TMP/inside"
	(($(grep -c ' [1-9]' "$TMP/inside") >= 5)) || fail "$(<"$TMP/inside")"
}

test_refusals() {
	build_program
	start_target "$TMP/program"
	await_line ready
	refuses 'the C library and the loader also run where a thread cannot count; --engine bpf counts it' libc.so.6:malloc
	refuses 'the C library and the loader also run where a thread cannot count' ld-linux-x86-64.so.2:__tls_get_addr
	refuses 'it is an IFUNC' libc.so.6:memmove
	refuses 'a jump of other code may lead into it' entered
	refuses 'a jump does not fit' looping
	holds has_own_code
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	start_target "$TMP/built/calls" 0 1
	await_line ready
	refuses 'it is not compiled C code' caml_c_call
}

# In a static program, the runtime can be told from the C library by its names.
test_static() {
	build_program -static
	start_target "$TMP/program"
	await_line ready
	refuses 'the C library and the loader also run where a thread cannot count' work
	refuses 'the C library and the loader also run where a thread cannot count' malloc
}

# A uprobe is at the entry already, or the jump is: the second engine refuses, and says why.
test_both_engines() {
	need_counting
	build_program
	start_target "$TMP/program"
	await_line ready
	start_measuring --engine bpf --json --count=c:work
	check_error 4 "pid $TARGET: cannot be counted inside: another tool has a uprobe on, or has changed, the code" \
		attach -pid "$TARGET" --engine inside --count=c:work
	kill -INT "$COUNTING" && wait "$COUNTING"
	start_measuring --engine inside --json --count=c:work
	check_error 1 "'c:work': cannot be measured: pid $TARGET has changed its code in memory" \
		attach -pid "$TARGET" --engine bpf --count=c:work
	kill -INT "$COUNTING" && wait "$COUNTING"
	holds has_own_code
	# auto leaves the entries to uprobes.
	"$TOOL" attach -pid "$TARGET" --engine auto --count=c:work --for 1ms >"$TMP/out" 2>"$TMP/err"
	finds 'engine: bpf, since inside would replace the first instructions of c:' "$TMP/err"
}

run_tests "$@"
