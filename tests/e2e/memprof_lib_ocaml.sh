#!/usr/bin/env bash
# Probes_lib.Memprof: the programs of tests/ocaml/memprof/sessions, and subject.ml above them.
#
# MEMPROF_EVENTS=1000000 compares so many events with the program's books, MEMPROF_TURNS=500 starts and
# stops so many sessions.
#
# ocaml5: test_domains
# not_on: 5.0.* 5.1.* 5.2.*
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/memprof_lib.sh"
KEPT=$O/tests/memprof_sessions
NOBODY=65534

with_ocamlfind() { # PACKAGES SOURCE...
	OCAMLPATH=$O/ocaml/lib:${OCAMLPATH:-} ocamlfind ocamlopt -thread -linkpkg -g -package "threads.posix,$1" "${@:2}"
}

build_all_with_ocamlfind() {
	with_ocamlfind ocaml-probes.memprof subject.ml -o subject
	with_ocamlfind ocaml-probes.probes_lib shown.ml control.ml -o control
	with_ocamlfind ocaml-probes.probes_lib,ocaml-probes.memprof shown.ml subject.ml self.ml -o self
	! is_ocaml_5 ||
		with_ocamlfind ocaml-probes.probes_lib,ocaml-probes.memprof domains.ml -o domains
}

build_all_by_hand() {
	local memprof="ocaml_probes_runtime.ml ocaml_probes_memprof.ml memprof_stubs.o memprof_events.o memprof_server.o"
	local lib="probes_lib.ml probes_lib_stubs.o probes_lib_memprof_stubs.o memprof_recorder.o memprof_names.o $O/internal.a"
	local flags=(-g -I +threads unix.cmxa str.cmxa threads.cmxa)
	copy_for_hand probes_lib
	compile_c ./*.c
	[[ $(version) = 4* ]] || flags=(-I +unix -I +str "${flags[@]}")
	ocamlopt "${flags[@]}" -c ocaml_probes_runtime.mli ocaml_probes_memprof.mli probes_lib.mli
	# shellcheck disable=SC2086 # words
	ocamlopt "${flags[@]}" $memprof subject.ml -o subject
	# shellcheck disable=SC2086
	ocamlopt "${flags[@]}" $lib shown.ml control.ml -o control
	# shellcheck disable=SC2086
	ocamlopt "${flags[@]}" $lib $memprof shown.ml subject.ml self.ml -o self
	if [[ $(version) = 5* ]]; then
		# shellcheck disable=SC2086
		ocamlopt "${flags[@]}" $lib $memprof domains.ml -o domains
	fi
}

# All programs, built once for each compiler. Sets PROGRAMS.
need_programs() {
	PROGRAMS=$KEPT/$(dirname "$(ocamlfind ocamlopt -where)" | tr / _)
	mkdir -p "$PROGRAMS"
	[[ ! $PROGRAMS/self -nt $O/ocaml/installed ||
		-n $(find "$SOURCES" -name '*.ml' -newer "$PROGRAMS/self") ]] || return 0
	mkdir "$TMP/build"
	cd "$TMP/build"
	cp "$SOURCES"/subject.ml "$SOURCES"/sessions/*.ml .
	if [[ $(type -P ocamlopt) = /usr/bin/* ]]; then
		build_all_with_ocamlfind
	else
		build_all_by_hand
	fi
	[[ $(version) = 4* ]] || mv domains "$PROGRAMS"
	mv subject control self "$PROGRAMS"
	cd "$TMP"
}

start_subject() { # ARG...
	need_programs
	start_target "$PROGRAMS/subject" "$@"
	await_line ready
}

control() { # MODE [PID]
	timeout 600 "$PROGRAMS/control" "$1" "${2:-$TARGET}"
}

self() { # MODE [ARG...]
	need_programs
	timeout 600 "$PROGRAMS/self" part "$@" | sed 1d
}

# Books, and events of a session.
compare() { # BOOKS EVENTS
	compare_with_books events "$1" "$2"
	cat "$TMP/compared" >&2
	matches "$(<"$TMP/compared")" 'alloc_major [1-9].*alloc_minor [1-9].*dealloc_major [1-9].*dealloc_minor [1-9].*promote [1-9]'
	matches "$(<"$TMP/compared")" 'custom [1-9].*marshal [1-9].*normal [1-9]'
}

# The reports are those of the events: see shown.ml.
test_books() {
	start_subject books "$TMP/books" "${MEMPROF_EVENTS:-20000}"
	control events >"$TMP/events" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" '^[1-9][0-9]{3,} events, [1-9][0-9]* sites, [1-9][0-9]* stacks$'
	compare "$TMP/books" "$TMP/events"
}

test_books_of_self() {
	self books "$TMP/books" "${MEMPROF_EVENTS:-20000}" >"$TMP/events" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" '^[1-9][0-9]{3,} events, [1-9][0-9]* sites, [1-9][0-9]* stacks$'
	compare "$TMP/books" "$TMP/events"
}

# The same frames as the command's.
test_names() {
	start_subject leak
	control leak | sort -u >"$TMP/ours"
	timeout 600 "$TOOL" memprof -pid "$TARGET" --rate 0.01 --for 500ms --json 2>/dev/null |
		grep '"frames":\[{"function":"Subject.leak"' | head -n 1 |
		grep -o '{"function":"[^}]*}' | sed 's/,"inlined":true//; s/,"item":"[^"]*"//' | sort -u >"$TMP/theirs"
	finds Subject.leak "$TMP/ours"
	eq "$(<"$TMP/ours")" "$(<"$TMP/theirs")"
	eq "$(status_of_target)" free
}

test_errors() {
	start_subject leak
	eq "$(control errors | sed "s/pid $TARGET/pid TARGET/; s/pid [0-9]* (control)/pid OWN/; s/: pid [0-9]*: is not/: pid OWN: is not/")" \
		"rate 0: rate 0: not a number from 1e-09 to 1
rate nan: rate nan: not a number from 1e-09 to 1
rate 2: rate 2: not a number from 1e-09 to 1
rate below: rate 1e-10: not a number from 1e-09 to 1
no depth: callstack_size -1: not a number from 0 to 1024
depth: callstack_size 1025: not a number from 0 to 1024
large depth: callstack_size 4611686018427387903: not a number from 0 to 1024
events: events -1: not a number from 0 to 10000000
pid 0: pid 0: not a process id
large pid: pid 4611686018427387903: not a process id
no process: pid 4194303: no such process
own: pid OWN: is not linked with ocaml-probes.memprof
read: read: the session keeps no events: see ~events
second: pid TARGET: another tool profiles it
again: fine
10 kept, others unread: true"
	eq "$(status_of_target)" free
}

test_own_profile_is_left_alone() {
	start_subject own
	await_line 'own [1-9][0-9]*'
	matches "$(control start)" 'start: pid [0-9]+: no profile was started: .*already started'
	quit_target
	eq "$TARGET_STATUS" 0
}

# A session that is collected ends its profile.
test_forgotten_session() {
	start_subject leak
	background "$PROGRAMS/control" forgotten "$TARGET" >"$TMP/out" 2>&1
	wait_for "has_text '$TMP/out' collected"
	holds wait_for "[[ \$(status_of_target) = free ]]"
	kill $!
}

# A child that goes on does not keep the profile of its parent.
test_fork() {
	start_subject leak
	background "$PROGRAMS/control" fork "$TARGET" >"$TMP/out" 2>&1
	wait $!
	wait_for '[[ $(status_of_target) = free ]]'
	eq "$(<"$TMP/out")" "$(printf '%s: a child after fork has no profile of its parent\n' state report read stop)"
}

# The program waits while the profile is asked for, and another one while it is to stop.
test_waiting_programs() {
	start_subject blocked
	eq "$(control waits)" "waiting
still on: false
stopped"
	tell go
	eq "$(status_of_target)" free
	start_subject leak
	eq "$(control stopped)" "running
still on: true
stopped"
	wait_for "[[ \$(status_of_target) = free ]]"
}

# An ordinary user without capabilities profiles itself, and nobody else's program.
test_ordinary_user() {
	local nobody=(setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --bounding-set=-all --inh-caps=-all)
	need_root
	need_command setpriv
	start_subject leak
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$PROGRAMS/self" "$PROGRAMS/control" "$TMP"
	eq "$("${nobody[@]}" "$TMP/self" part turns 2 | sed 1,2d | head -n 1 | cut -d: -f2)" " another tool profiles it"
	matches "$("${nobody[@]}" "$TMP/control" start "$TARGET")" "start: pid $TARGET \(subject\): belongs to uid 0, you are uid $NOBODY"
	eq "$(status_of_target)" free
}

test_turns() {
	eq "$(self turns "${MEMPROF_TURNS:-30}" | sed 's/pid [0-9]*/pid PID/')" "running
pid PID: another tool profiles it
stopped
pid PID: no profile was started: Gc.Memprof.start: already started.
done"
}

test_threads() {
	eq "$(self threads)" Subject.leak
}

test_domains() {
	need_programs
	eq "$(timeout 600 "$PROGRAMS/domains")" "here: true, domains: 3, still on: false
here: true, domains: 3, still on: false
here: true, domains: 1, still on: false"
}
only_if test_domains is_ocaml_5

# Containers refuse pidfd_getfd.
test_self_without_pidfd_getfd() {
	need_command strace
	need_programs
	strace -f -qq -o "$TMP/calls" -e signal=none -e trace=pidfd_getfd -e inject=pidfd_getfd:error=EPERM \
		timeout 600 "$PROGRAMS/self" part turns 1 >"$TMP/out"
	eq "$(tail -n 1 "$TMP/out")" "done"
	eq "$(<"$TMP/calls")" ""
}

is_debians_ocaml() {
	[[ $(type -P ocamlopt) = /usr/bin/* ]]
}

# The C parts under the sanitizers. OCaml's runtime keeps its signal stack to itself, and frees none.
# A program that writes events faster than a session can read them: with hardly any CPU left for the reader, it is stopped all
# the same.
test_slow_reader() {
	need_programs
	start_subject leak
	background taskset -c 0 sh -c 'while :; do :; done'
	eq "$(nice -n 19 timeout 300 taskset -c 0 "$PROGRAMS/control" busy "$TARGET" 2>&1)" "stopped, unread: true"
}

test_sanitizers() {
	local sanitize=-fsanitize=address,undefined cc=(-cc "clang -Wl,-E")
	local objects=(probes_lib_stubs.o probes_lib_memprof_stubs.o memprof_recorder.o memprof_names.o "$O/asan/internal.a")
	export ASAN_OPTIONS=use_sigaltstack=0 LSAN_OPTIONS="suppressions=$TMP/leaks print_suppressions=0"
	# LeakSanitizer does not search the heap of OCaml 5 for pointers. At its end, the program finalises the heap.
	! is_ocaml_5 || export OCAMLRUNPARAM=c
	echo 'leak:caml_setup_stack_overflow_detection' >"$TMP/leaks"
	[[ -e $O/asan/internal.a ]] || fail "make check has not built $O/asan yet"
	start_subject leak
	PROGRAMS=$TMP/sanitized
	mkdir "$PROGRAMS"
	cd "$PROGRAMS"
	cp "$LIBRARY"/probes_lib/*.{ml,mli,c,h} "$SOURCES"/subject.ml "$SOURCES"/sessions/*.ml .
	clang -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -g $sanitize -fno-sanitize-recover=undefined \
		-I"$ROOT/include" -I"$ROOT/src" -I"$ROOT/bpf" -I"$(ocamlfind ocamlc -where)" -c ./*.c
	with_ocamlfind str "${cc[@]}" probes_lib.mli probes_lib.ml shown.ml control.ml "${objects[@]}" -ccopt $sanitize -o control
	with_ocamlfind str,ocaml-probes.memprof "${cc[@]}" probes_lib.mli probes_lib.ml shown.ml subject.ml self.ml \
		"${objects[@]}" -ccopt $sanitize -o self
	matches "$(control errors 2>&1)" 'again: fine.10 kept, others unread: true$'
	matches "$(timeout 600 ./self part turns 3 2>&1)" 'done$'
	eq "$(timeout 600 ./self part threads 2>&1 | sed 1d)" Subject.leak
	timeout 600 ./self part books "$TMP/books" 3000 >"$TMP/events" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" '^[1-9][0-9]{3,} events, [1-9][0-9]* sites, [1-9][0-9]* stacks$'
}
# ocamlfind knows Debian's compiler only.
only_if test_sanitizers is_debians_ocaml

run_tests "$@"
