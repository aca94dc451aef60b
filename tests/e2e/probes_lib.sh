#!/usr/bin/env bash
# Probes_lib, the control library for OCaml programs: tests/ocaml/probes_lib, from outside.
. "$(dirname "$0")/lib.sh"
PROGRAMS=$O/tests/ocaml/probes_lib
LOOP=$O/tests/ocaml/loop

# Run PROGRAM with a stdin that stays open, as loop wants it. What loop prints is left out.
run() { # PROGRAM [ARG...]
	[[ -p $TMP/stdin ]] || mkfifo "$TMP/stdin"
	"$@" <>"$TMP/stdin" >"$TMP/out" 2>"$TMP/err" || fail "status $?: $(cat "$TMP/out" "$TMP/err")"
	grep -v '^ready$' "$TMP/out"
}

# A program that was written for the library that existed before, with its dune file.
test_existing_program() {
	eq "$(run "$PROGRAMS/control" "$LOOP" "$O/tests/ocaml/loop_nopie" | xargs -d '\n' -n 3)" \
		"0:alpha 1:beta 2:gamma
alpha enabled beta enabled gamma enabled
alpha disabled beta disabled gamma disabled
exe: true the same again: \"Already attached\" another one: \"Cannot attach\"
start: \"Cannot start\" detach: \"detach failed: no pid\\n\" update: \"update failed: no pid\\n\"
states: \"cannot get probe states: no pid\\n\" alpha disabled beta disabled
gamma disabled alpha disabled beta disabled
gamma disabled alpha enabled beta enabled
gamma enabled alpha enabled beta enabled
gamma enabled alpha enabled beta enabled
gamma enabled alpha disabled beta disabled
gamma enabled killed killed"
}

check_errors() { # PROGRAM
	eq "$(run "$1" errors "$LOOP" "$O/tests/ocaml/counted")" "no such file: /nonexistent: No such file or directory
empty: the program's file has an empty name
NUL: file \"/bin/sh\\000x\": holds a NUL character
no ELF file: /etc/passwd: not an ELF file
unknown: probe 'alpa': no such probe in $LOOP
unknown in a pair: probe 'nothing': no such probe in $LOOP
NUL in a name: probe \"alpha\\000\": holds a NUL character
off already: probe 'alpha': is disabled already
both ways: probe 'beta': cannot be enabled and disabled at once
a pair of one: pair 'beta,beta': the same name twice, a pair is two probes
nothing was done: alpha=false beta=false gamma=false
nothing: fine
named twice: fine
once each: alpha=true beta=true gamma=false
off once: fine
no match: fine
sets leave alone: fine
by force: fine
by force at once: fine
in the end: alpha=false beta=false gamma=false
state of none: probe 'omega': no such probe in $LOOP
not a pid: pid 0: not a process id
not a pid: pid -1: not a process id
not a pid: pid LARGE: not a process id
no other process: pid PID ($LOOP): runs no probes of $O/tests/ocaml/counted
attach: pid PID ($LOOP): runs no probes of $O/tests/ocaml/counted
self at once: pid PID: a process cannot stop itself
states of self at once: pid PID: a process cannot trace itself
attach to self: pid PID: a process cannot trace itself
ended: pid PID: no such process
attach to none: pid PID: no such process"
}

test_errors() {
	check_errors "$PROGRAMS/tracer"
}

test_bytecode() {
	check_errors "$PROGRAMS/tracer_byte"
}

# Copies of the program, and one that was deleted.
test_copies() {
	cp "$LOOP" "$TMP/loop"
	strip -o "$TMP/copy" "$LOOP"
	eq "$(run "$PROGRAMS/tracer" copies "$TMP/loop" "$TMP/copy")" "a copy: alpha=true beta=true gamma=true
no copies: pid PID ($TMP/loop): runs no probes of $TMP/copy
deleted: alpha=true beta=true gamma=true"
}

test_counters() {
	eq "$(run "$PROGRAMS/tracer" counters "$LOOP")" "started: alpha=false beta=true gamma=false
beta was on before: alpha=false beta=true gamma=false
all off: alpha=false beta=false gamma=false
by pairs: alpha=false beta=false gamma=true
not started: probe 'nothing': no such probe in $LOOP
no child is left"
}

test_predicates() {
	eq "$(run "$PROGRAMS/tracer" predicates "$LOOP")" "an exception: alpha=false beta=false gamma=false
all but beta: alpha=true beta=false gamma=true"
}

check_ptrace() { # PROGRAM
	cp "$LOOP" "$TMP/gone"
	eq "$(run "$1" ptrace "$LOOP")" "started: stopped=true
held: alpha=true beta=false gamma=true
some: gamma=true alpha=true gamma=true
still: stopped=true
detached: stopped=false
twice: detach failed: no pid

attached: stopped=true
by another thread: alpha=false beta=false gamma=false
child: detach failed: no pid

child: fine
after the child: stopped=true
afterwards: alpha=false beta=false gamma=false
forgotten: stopped=false
its status was kept
no program any more: $TMP/gone: cannot be run: No such file or directory
NUL in an argument: argument \"\\000\": holds a NUL character"
}

test_with_ptrace() {
	check_ptrace "$PROGRAMS/tracer"
}

check_raw_ptrace() { # PROGRAM
	: >"$TMP/not_a_program"
	eq "$(run "$1" raw "$TMP/not_a_program")" "started: stopped=true
collected: stopped=true true
status 7
status 8
twice: pid PID: not started by Raw_ptrace, or already detached
nothing: no program to start
no such program: /nonexistent: cannot be run: No such file or directory
no program: $TMP/not_a_program: cannot be run: Permission denied"
}

test_raw_ptrace() {
	check_raw_ptrace "$PROGRAMS/tracer"
}

# Memory that was freed is overwritten.
check_failures() { # PROGRAM
	cp "$LOOP" "$TMP/loop"
	eq "$(MALLOC_PERTURB_=165 run "$1" failures "$TMP/loop")" "0 probes, own: fine
attach: pid PID: a process cannot trace itself
0 probes, after attach: fine
atomically: pid PID: a process cannot trace itself
0 probes, after reading: fine
unknown: probe 'no_such_probe': $1 has no OCaml probes
0 probes, after an update: fine
attach: Already attached to PID
3 probes, after attach: fine
atomically: fine
3 probes, after reading: fine
unknown: probe 'no_such_probe': no such probe in $TMP/loop
3 probes, after an update: fine
held, unknown: probe 'no_such_probe': no such probe in $TMP/loop
start: Cannot start $TMP/loop, already attached to PID
trace: Cannot start $TMP/loop, already attached to PID
3 probes, still held: fine
detach: detach failed: no pid

3 probes, let go: fine
trace unknown: probe 'no_such_probe': no such probe in $TMP/loop
start another: $TMP/loop: cannot be run: No such file or directory
attach to none: pid PID: no such process
of none: pid PID: no such process
0 probes, own, in the end: fine"
}

test_failures_leave_all_in_order() {
	check_failures "$PROGRAMS/tracer"
}

check_many() { # PROGRAM
	eq "$(run "$1" many "$LOOP")" "afterwards: alpha=false beta=false gamma=false
files left open: false"
}

test_many_threads() {
	check_many "$PROGRAMS/tracer"
}

test_verbose() {
	eq "$(run "$PROGRAMS/tracer" verbose "$LOOP")" "states: alpha=true beta=true gamma=true"
	matches "$(<"$TMP/err")" '^probes_lib: pid [0-9]+: switched 3 probes: [0-9]+ writes, 0 stops$'
}

# The running process, position-independent or not, also where /proc knows it by another number.
check_self() { # SIZE CHILDREN COMMAND...
	local size=$1 children=$2
	shift 2
	eq "$(run "$@" "$size" "$children")" "names: cold hot once
 cold=false hot=false once=false
once: 1
handlers ran: true
all off: true
 cold=false hot=false once=false
 cold=false hot=false once=false
 cold=true hot=false once=false
children: $children
 cold=false hot=false once=false
 cold=true hot=true once=false
once false
hot true
probe 'colt': no such probe in $(realpath "${!#}")
exe: /proc/self/exe
pids: true
 cold=false hot=false once=false"
}

test_self() {
	check_self 30 30 "$PROGRAMS/self"
}

test_self_nopie() {
	check_self 30 30 "$PROGRAMS/self_nopie"
}

test_self_in_a_pid_namespace() {
	need_root
	check_self 30 30 unshare --pid --fork "$PROGRAMS/self"
}

# Nothing but what it needs: no C library of ours, no libbpf, no libelf to be found at run time.
test_self_contained() {
	local needed="libc.so libm.so"
	# The runtime of OCaml 5.1 compresses marshalled values.
	[[ $(ocamlfind ocamlopt -version) != 5.1.* ]] || needed+=" libzstd.so"
	eq "$(ldd "$PROGRAMS/self" | grep -oE '\blib[a-z_]+\.so' | sort -u | xargs)" "$needed"
}

test_dynlink() {
	local host=$PROGRAMS/dynlink_host plugin=$PROGRAMS/plugin.cmxs
	eq "$(run "$host" "$plugin")" "pid PID ($host): runs no probes of $plugin
loaded: host=0 plugin=0
plugin on: host=0 plugin=2
plugin: plugin_only=true reused=true
some: reused=true
host: reused=false
host's reused, plugin_only: host=1 plugin=1
probe 'plugin_only': no such probe in $host
probe 'host_only': no such probe in $plugin
all off: host=0 plugin=0
from outside: plugin_only=true reused=true
plugin on: host=0 plugin=2
host: reused=false"
}

# The C parts under the sanitizers. OCaml's runtime keeps its signal stack to itself, and frees none.
test_sanitizers() {
	local sanitize=-fsanitize=address,undefined program
	export OCAMLPATH=$O/ocaml/lib PATH=$O:$PATH OCAML_PROBES_CC="clang -Wl,-E"
	export ASAN_OPTIONS=use_sigaltstack=0 LSAN_OPTIONS="suppressions=$TMP/leaks print_suppressions=0"
	# LeakSanitizer does not search the heap of OCaml 5 for pointers. At its end, the program finalises the heap.
	! is_ocaml_5 || export OCAMLRUNPARAM=c
	# 5.1 does not finalise it.
	[[ $(ocamlfind ocamlopt -version) != 5.1.* ]] || ASAN_OPTIONS+=:detect_leaks=0
	echo 'leak:caml_setup_stack_overflow_detection' >"$TMP/leaks"
	[[ -e $O/asan/internal.a ]] || fail "make check has not built $O/asan yet"
	cp "$ROOT"/tools/ocaml/probes_lib/*.{ml,mli,c,h} "$ROOT"/tests/ocaml/probes_lib/{tracer,self}.ml "$TMP"
	cd "$TMP"
	clang -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -g $sanitize -fno-sanitize-recover=undefined \
		-I"$ROOT/include" -I"$ROOT/src" -I"$ROOT/bpf" -I"$(ocamlfind ocamlc -where)" -c ./*.c
	for program in tracer self; do
		ocamlfind ocamlopt -thread -linkpkg -g -package threads.posix,str,ocaml-probes.ppx \
			-cc ocaml-probes-cc probes_lib.mli probes_lib.ml $program.ml probes_lib_stubs.o \
			probes_lib_memprof_stubs.o memprof_recorder.o memprof_names.o "$O/asan/internal.a" -ccopt $sanitize -o $program
	done
	check_errors "$TMP/tracer"
	check_failures "$TMP/tracer"
	check_ptrace "$TMP/tracer"
	check_raw_ptrace "$TMP/tracer"
	check_many "$TMP/tracer"
	# The allocator of the sanitizer is not usable after a fork while another thread is in it.
	check_self 3 0 "$TMP/self"
}

run_tests "$@"
