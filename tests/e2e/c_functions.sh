#!/usr/bin/env bash
# Functions of C by name: the versions of a symbol, and IFUNCs, whose code the dynamic linker chooses in each process.
# The books are what the programs say that they have called.
#
# needs: fixtures
# ocaml5: test_static
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# ---- helpers ----------------------------------------------------------------------------------

# A program that calls functions of the C library when it is told to, and no others meanwhile. What it
# writes and reads is by system calls.
build_caller() { # [FLAG...]
	cat >"$TMP/caller.c" <<'C'
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { POW = 1001, OLD_POW = 17, SIN = 2002, MEMMOVE = 3003, STRLEN = 4004 };

#ifndef STATIC
double old_pow(double x, double y);
__asm__(".symver old_pow,pow@GLIBC_2.2.5");
#else
#define old_pow pow
#endif

static double (*volatile call_pow)(double, double) = pow;
static double (*volatile call_old_pow)(double, double) = old_pow;
static double (*volatile call_sin)(double) = sin;
static void *(*volatile call_memmove)(void *, const void *, size_t) = memmove;
static size_t (*volatile call_strlen)(const char *) = strlen;

static int hear(void)
{
	char line[8];

	return read(0, line, sizeof(line)) > 0;
}

int main(void)
{
	char buffer[64] = "some text";
	volatile double sum = 0;

	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (hear()) {
		for (int i = 0; i < POW; i++)
			sum += call_pow(1.0 + i, 0.5);
		for (int i = 0; i < OLD_POW; i++)
			sum += call_old_pow(1.0 + i, 0.5);
		for (int i = 0; i < SIN; i++)
			sum += call_sin(i);
		for (int i = 0; i < MEMMOVE; i++)
			call_memmove(buffer + 1, buffer, (size_t)i % 40);
		for (int i = 0; i < STRLEN; i++)
			sum += (double)call_strlen("abc");
		if (write(1, "end\n", 4) != 4)
			return 1;
	}
	return 0;
}
C
	cc -O1 -fno-builtin "$@" "$TMP/caller.c" -o "$TMP/caller" -lm
}

# "NAME HITS" of all probes or "NAME COUNT" of all pairs, sorted.
measured() {
	python3 - "$TMP/counts" <<'PY'
import json, sys
last = json.loads(open(sys.argv[1]).read().splitlines()[-1])
for probe in last.get("probes", []):
    print(probe["name"], probe["hits"])
for pair in last.get("pairs", []):
    print(pair["start"], pair["count"])
PY
}

# ---- tests ------------------------------------------------------------------------------------

test_counts() {
	need_command python3
	build_caller
	own_c_library
	start_target env LD_LIBRARY_PATH="$TMP/lib" "$TMP/caller"
	await_line ready
	start_measuring --json \
		--count=c:libm.so.6:pow,c:libm.so.6:pow@@GLIBC_2.29,c:libm.so.6:pow@GLIBC_2.2.5,c:libm.so.6:sin,c:libc.so.6:memmove,c:libc.so.6:strlen
	tell go
	await_line end
	stop_measuring
	eq "$(measured | LC_ALL=C sort)" "c:libc.so.6:memmove 3003
c:libc.so.6:strlen 4004
c:libm.so.6:pow 1001
c:libm.so.6:pow@@GLIBC_2.29 1001
c:libm.so.6:pow@GLIBC_2.2.5 17
c:libm.so.6:sin 2002" "counts"
	# What both names can be is said.
	finds "warning: 'c:libc.so.6:memmove': includes calls of memcpy, which has the same code" "$TMP/counting.err"
	! finds "includes calls of sin" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
}

# The function that the IFUNC chose in a process can differ from that in another one.
test_counts_of_what_each_process_has_chosen() {
	local first tunables=glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX2_Usable,-AVX2,-AVX512VL,-ERMS
	need_command python3
	build_caller
	own_c_library
	start_target env LD_LIBRARY_PATH="$TMP/lib" "$TMP/caller"
	await_line ready
	first=$TARGET
	start_target env LD_LIBRARY_PATH="$TMP/lib" GLIBC_TUNABLES=$tunables "$TMP/caller"
	await_line ready
	start_measuring --exe "$TMP/caller" --json --count=c:libm.so.6:sin,c:libc.so.6:memmove,c:libc.so.6:strlen
	tell go
	await_line end
	tell go "$first"
	await_line end 10 "$first"
	stop_measuring
	eq "$(measured | LC_ALL=C sort)" "c:libc.so.6:memmove 6006
c:libc.so.6:strlen 8008
c:libm.so.6:sin 4004" "counts of two processes"
}

test_times() {
	need_command python3
	build_caller
	own_c_library
	start_target env LD_LIBRARY_PATH="$TMP/lib" "$TMP/caller"
	await_line ready
	start_measuring --json --time c:libm.so.6:pow --time c:libm.so.6:sin --time c:libc.so.6:memmove --time c:libc.so.6:strlen
	tell go
	await_line end
	stop_measuring
	eq "$(measured | LC_ALL=C sort)" "c:libc.so.6:memmove 3003
c:libc.so.6:strlen 4004
c:libm.so.6:pow 1001
c:libm.so.6:sin 2002" "pairs"
}

# The functions of a static program have symbols, and constants instead of distances to them.
test_static() {
	local how
	need_command python3
	for how in -static-pie "-static -no-pie"; do
		# shellcheck disable=SC2086 # they are words
		build_caller -DSTATIC $how
		start_target "$TMP/caller"
		await_line ready
		start_measuring --json --count=c:pow,c:sin,c:memmove,c:strlen
		tell go
		await_line end
		stop_measuring
		eq "$(measured | LC_ALL=C sort)" "c:memmove 3003
c:pow 1018
c:sin 2002
c:strlen 4004" "counts of $how"
	done
}

# OCaml calls these without a stub between.
test_external_of_ocaml() {
	need_command python3
	cat >"$TMP/external.ml" <<'ML'
let () =
  print_endline "ready";
  ignore (read_line ());
  let sum = ref 0. in
  for i = 1 to 555 do sum := !sum +. sin (float i) done;
  for i = 1 to 666 do sum := !sum +. (float i ** 0.5) done;
  ignore (Sys.opaque_identity !sum);
  print_endline "end";
  ignore (read_line ())
ML
	(cd "$TMP" && ocamlopt -o external external.ml)
	start_target "$TMP/external"
	await_line ready
	start_measuring --json --count=c:libm.so.6:pow,c:libm.so.6:sin
	tell go
	await_line end
	stop_measuring
	eq "$(measured | LC_ALL=C sort)" "c:libm.so.6:pow 666
c:libm.so.6:sin 555" "counts"
}

# What cannot be known is refused in the same words, counted or timed: the kernel's vDSO has the code of time().
# Each of the engines measures all of them. bpftrace would take one of them by its symbol.
test_static_functions_of_one_name() {
	local what
	need_command python3
	for what in a:2 b:3; do
		cat >"$TMP/${what%:*}.c" <<-C
		#include <caml/mlvalues.h>
		static __attribute__((noinline)) long times(long x) { __asm__ volatile(""); return ${what#*:} * x; }
		value in_${what%:*}(value v) { return Val_long(times(Long_val(v))); }
		C
	done
	cat >"$TMP/both.ml" <<-'ML'
	external in_a : int -> int = "in_a"
	external in_b : int -> int = "in_b"
	let () =
	  print_endline "ready";
	  ignore (read_line ());
	  for i = 1 to 5 do ignore (Sys.opaque_identity (in_a i)) done;
	  for i = 1 to 7 do ignore (Sys.opaque_identity (in_b i)) done;
	  print_endline "called";
	  ignore (read_line ())
	ML
	(cd "$TMP" && ocamlopt -o both a.c b.c both.ml)
	for what in 'bpf --count=c:times' 'bpf --time c:times' 'inside --count=c:times'; do
		start_target "$TMP/both"
		await_line ready
		# shellcheck disable=SC2086 # words
		start_measuring --json --engine $what
		tell go
		await_line called
		stop_measuring
		quit_target
		eq "$(measured | awk '{ n += $2 } END { print $1, n }')" "c:times 12" "$what"
	done
	start_target "$TMP/both"
	await_line ready
	check_error 4 "'c:times': bpftrace finds code by its symbol, and several functions are called times" bpftrace count -pid "$TARGET" c:times
	tell go
	quit_target
}

test_refusals() {
	local what
	build_caller
	own_c_library
	start_target env LD_LIBRARY_PATH="$TMP/lib" "$TMP/caller"
	await_line ready
	for what in --count= --time=; do
		check_error 4 "'c:libc.so.6:time': cannot be (counted|timed): it is an IFUNC, and its code does not show which function it chooses" \
			attach -pid "$TARGET" --for 50ms ${what}c:libc.so.6:time
	done
	check_error 2 "'c:libm.so.6:pow@GLIBC_9': no such function in .*libm.so.6" attach -pid "$TARGET" --for 50ms --count=c:libm.so.6:pow@GLIBC_9
	finds 'hint: it has the versions GLIBC_2.2.5, GLIBC_2.29' "$TMP/err"
}

run_tests "$@"
