#!/usr/bin/env bash
# `trace --engine inside`: a program is counted inside from its first instruction, against its own books.
#
# needs: fixtures
# ocaml5: all
# smoke: test_from_the_first_call
# takes: 15 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

BINARIES=$O/tests/fixtures/binaries
KILLS=${KILLS:-25}

# A program whose modules work while they are initialised, in threads, too; it ends with status 3.
build_begun() { # FLAG...
	mkdir -p "$TMP/built"
	cat >"$TMP/built/begun.ml" <<-'ML'
	let calls = ref 0 and large = ref 0
	let[@inline never] rec fib n =
	  incr calls; if n > 5 then incr large;
	  if n < 2 then n else fib (n - 1) + fib (n - 2)
	let first = fib 15
	let () =
	  List.iter Thread.join (List.init 3 (fun i -> Thread.create (fun () -> ignore (fib (10 + i))) ()));
	  Printf.printf "%d %d\n" !calls !large;
	  exit 3
	ML
	(cd "$TMP/built" && ocamlopt -g -I +unix -I +threads unix.cmxa threads.cmxa begun.ml "$@" -o begun) >"$TMP/warnings" 2>&1 ||
		fail "$(<"$TMP/warnings")"
}

# Trace the program. Its own line is in $TMP/books, what was measured in $TMP/counts.
trace_begun() { # FLAG...
	local status=0
	"${AS[@]}" "${TRACER:-$TOOL}" trace -prog "$TMP/built/begun" --wait --budget none --json -o "$TMP/counts" "$@" \
		>"$TMP/books" 2>"$TMP/err" || status=$?
	eq "$status" 3 "status: $(<"$TMP/err")"
}

# ---- exactness --------------------------------------------------------------------------------

test_from_the_first_call() {
	local calls large engine
	build_begun
	for engine in inside bpf; do
		trace_begun --engine "$engine" --count=fn:Begun.fib --time fn:Begun.fib
		read -r calls large <"$TMP/books"
		measured_that "[p['hits'] for p in t['probes']] == [$calls]" \
			"[(p['starts'], p['count'], p['open']) for p in t['pairs']] == [($calls, $calls, 0)]"
		trace_begun --engine "$engine" --count=fn:Begun.fib --filter 'arg0 > 5'
		measured_that "[p['hits'] for p in t['probes']] == [$large]" "t['losses']['filtered'] == $((calls - large))"
	done
}

test_not_position_independent() {
	build_begun -ccopt -no-pie
	trace_begun --engine inside --count=fn:Begun.fib
	measured_that "[p['hits'] for p in t['probes']] == [$(cut -d' ' -f1 "$TMP/books")]"
}

# Constructors of shared libraries pass probes before the program begins.
test_constructors() {
	"$TOOL" trace -prog "$BINARIES/early" --engine inside --count --wait --json -o "$TMP/counts" >"$TMP/run" 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	eq "$(sed 's/handler=.* hits=/hits=/' "$TMP/run")" "early/early_only hits=2
early/reused hits=2
end"
	measured_that "sorted((p['name'], p['hits']) for p in t['probes']) == [('early_only', 2), ('reused', 2)]"
}

# A handler that is switched on runs, and its hits count.
test_with_actions() {
	"$TOOL" trace -prog "$BINARIES/early" --engine inside -enable reused --count=reused --wait --json -o "$TMP/counts" \
		>"$TMP/run" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	finds 'early/reused handler=2 hits=2' "$TMP/run"
	measured_that "[p['hits'] for p in t['probes']] == [2]"
}

# ---- who may, and what is refused --------------------------------------------------------------

test_ordinary_user() {
	local AS=(env -u TMP setpriv --clear-groups --bounding-set=-all --inh-caps=-all --reuid=65534 --regid=65534) TRACER=$TMP/ocaml-probes
	need_root
	need_command setpriv
	build_begun
	cp "$TOOL" "$TRACER"
	chmod 755 "${TMP%/*}" "$TMP/built"
	chmod 777 "$TMP"
	trace_begun --count=fn:Begun.fib
	matches "$(<"$TMP/err")" 'engine: inside, since BPF is not available'
	measured_that "[p['hits'] for p in t['probes']] == [$(cut -d' ' -f1 "$TMP/books")]"
}

test_refused() {
	build_begun -ccopt -static
	check_error 4 "begun': is linked statically, and cannot be counted inside from its start" \
		trace -prog "$TMP/built/begun" --engine inside --count=fn:Begun.fib
	check_error 2 '--engine inside excludes --print' trace -prog "$TMP/built/begun" --engine inside --print fn:Begun.fib
	# Nothing of it is left.
	eq "$(runs_begun)" 0 "processes"
	build_begun
	"$TOOL" trace -prog "$TMP/built/begun" --engine auto --count=fn:Begun.fib >"$TMP/books" 2>"$TMP/err"
	matches "$(<"$TMP/err")" 'engine: bpf, since the hits of a program that has not begun are not known'
}

# ---- kills --------------------------------------------------------------------------------------

# How many processes run the program?
runs_begun() {
	local exe n=0
	for exe in /proc/[0-9]*/exe; do
		[[ ! $exe -ef "$TMP/built/begun" ]] || n=$((n + 1))
	done
	echo "$n"
}

# The tool is killed at a system call: the program is killed with it, or runs to its end. None stays stopped.
test_kills() {
	local tool stops n kills=0
	build_begun
	tool=("$TOOL" trace -prog "$TMP/built/begun" --engine inside --count=fn:Begun.fib --budget none)
	"$BINARIES/kill_at" "$TMP/stops" stops "${tool[@]}" >/dev/null 2>&1
	stops=$(<"$TMP/stops")
	((stops > 100)) || fail "only $stops stops"
	for ((n = 1; n < stops; n += stops / KILLS + 1)); do
		timeout 120 "$BINARIES/kill_at" "$TMP/killed" "stop:$n" "${tool[@]}" >"$TMP/out" 2>"$TMP/err" || kills=$((kills + 1))
		wait_for '(($(runs_begun) == 0))' 30
	done
	((kills > KILLS / 2)) || fail "only $kills kills"
	eq "$(runs_begun)" 0 "processes"
}

run_tests "$@"
