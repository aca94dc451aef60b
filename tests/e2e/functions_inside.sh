#!/usr/bin/env bash
# Functions counted by jumps in the process (`--engine inside`), against the programs' own books and against uprobes; and
# programs whose functions are counted do what they do otherwise. With the compiler in PATH:
#
#   CYCLES   how often to attach and detach (default: 12)
#   KILLS    at how many system calls to kill the tool (default: 12)
#   SUITE    the programs of the language suite to run; all: each of them
#
# needs: fixtures ocaml
# ocaml5: test_counts test_times test_pairs test_stack_overflow test_attached_and_detached test_kills test_suite test_both_engines
# takes: 90 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

CYCLES=${CYCLES:-12}
SUITE=${SUITE:-deep_recursion signals tail_calls threads try_with}
# OCaml 5 would let a recursion without end fill 1 GiB.
export OCAMLRUNPARAM=l=1M

# Functions of `calls` that recur, that exceptions end, and that end by tail calls.
TIMED=(--time fn:Calls.fib --time fn:Calls.frames --time fn:Calls.tail_many --time fn:Calls.one_round)

# ---- helpers ----------------------------------------------------------------------------------

# The names of the functions of PROGRAM that cannot be counted inside: a function of the name has no window.
without_window() { # PROGRAM PATTERN
	"$TOOL" functions -prog "$1" "$2" --json |
		python3 -c 'import json, sys
print(*sorted({f["name"] for f in json.load(sys.stdin)["functions"] if f["no_inside"]}), sep="\n")'
}

build_calls() { # FLAG...
	"$CALLS/build" "$TMP/built" "$@" 2>"$TMP/warnings"
}

start_calls() { # ROUNDS THREADS
	start_target "$TMP/built/calls" "$@"
	await_line ready
}

# ---- exactness --------------------------------------------------------------------------------

# All functions of a run of `calls` are counted, built with these flags.
check_counts() { # THREADS FLAG...
	local threads=$1 names
	shift
	need_command python3
	build_calls "$@"
	names=$(without_window "$TMP/built/calls" '^Calls\.' | sed 's/^Calls\.//')
	COUNTED='fn:.*,c:calls_by_name' start_counted "$TMP/out" "$TMP/built/calls" 20 "$threads"
	await_line ready
	tell go
	finish_target
	wait "$COUNTING" || fail "$(<"$TMP/out.err")"
	cp "$(output_of)" "$TMP/books"
	# shellcheck disable=SC2086 # words
	compare_with_books calls "$TMP/out" "$TMP/books" $names
	(($(<"$TMP/compared") >= 40)) || fail "only $(<"$TMP/compared") functions"
}

test_counts() {
	check_counts 1
	check_counts 4
}

test_counts_not_position_independent() {
	check_counts 1 -ccopt -no-pie
}

test_counts_inline_0() {
	check_counts 1 -inline 0
}

# As functions_measured/test_times: frames that recur, that exceptions and tail calls end, in threads that take turns; with
# OCaml 5 on stacks that move, and in fibres that take turns and go on in other domains.
test_times() {
	local MEASURED=()
	need_command python3
	build_timed
	start_measured "$TMP/out" "$TMP/built/timed" 40 3000
	await_line ready
	tell go
	finish_target
	wait "$COUNTING" || fail "$(<"$TMP/out.err")"
	cp "$(output_of)" "$TMP/books"
	compare_with_books times "$TMP/out" "$TMP/books"
	eq "$(<"$TMP/compared")" $((${#MEASURED[@]} / 2)) "functions"
}

# Pairs of functions in four threads, by both engines: by thread, where exceptions skip stops and functions at other depths of
# the stack end what others began; and by an argument.
check_pairs() { # ENGINE
	local BY=$1 MEASURED=(--key none --time fn:Paired.enters,fn:Paired.leaves --time fn:Paired.opens,fn:Paired.closes
		--count=fn:Paired.closes --time fn:Paired.deeper)
	start_measured "$TMP/out.$1" "$TMP/built/paired" 20 4 50
	await_line ready
	tell go
	finish_target
	wait "$COUNTING" || fail "$(<"$TMP/out.$1.err")"
	compare_with_books function_pairs by_thread "$TMP/out.$1" "$(output_of)"
	MEASURED=(--key arg0 --time fn:Paired.takes,fn:Paired.gives)
	start_measured "$TMP/out.$1" "$TMP/built/paired" 20 4 50
	await_line ready
	tell go
	finish_target
	wait "$COUNTING" || fail "$(<"$TMP/out.$1.err")"
	compare_with_books function_pairs by_key "$TMP/out.$1" "$(output_of)"
}

test_pairs() {
	need_counting
	need_command python3
	PROGRAMS=paired "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	check_pairs inside
	check_pairs bpf
}

# From a probe to a function, and from a function to a probe.
check_pairs_with_probes() { # ENGINE
	local BY=$1 MEASURED=(--key none --time number,fn:Requests.put --time fn:Requests.put,number)
	start_measured "$TMP/out" "$TMP/requests" 500
	await_line ready
	tell go
	await_line 'negative=.*'
	quit_target
	wait "$COUNTING" || fail "$(<"$TMP/out.err")"
	compare_with_books function_pairs with_probes "$TMP/out" "$(output_of)"
}

test_pairs_with_probes() {
	need_counting
	need_command python3
	cp "$O/tests/ocaml/requests" "$TMP/requests"
	check_pairs_with_probes inside
	check_pairs_with_probes bpf
}

# Recursions without end, whose calls are counted and timed: Stack_overflow stays an exception, again and again.
test_stack_overflow() {
	local MEASURED=(--count='fn:Overflow.*,line:overflow.ml' --time fn:Overflow.deeper)
	need_command python3
	mkdir "$TMP/built"
	cat >"$TMP/built/overflow.ml" <<-'ML'
	let calls = ref 0
	let leaves = ref 0
	let[@inline never] rec deeper n = incr calls; 1 + Sys.opaque_identity (deeper (n + 1))
	(* The stack ends at a call: of [leaf], or of the function itself. *)
	let[@inline never] leaf x = leaves := !leaves + x
	let[@inline never] rec calls_first x = leaf x; 1 + Sys.opaque_identity (calls_first x)
	let () =
	  let overflows = ref 0 in
	  for _ = 1 to 50 do
	    try ignore (deeper 0) with Stack_overflow -> incr overflows
	  done;
	  Printf.printf "%d %d\n" !overflows !calls;
	  for _ = 1 to 50 do
	    try ignore (calls_first 1) with Stack_overflow -> incr overflows
	  done;
	  Printf.printf "%d %d\n" !overflows !leaves
	ML
	(cd "$TMP/built" && ocamlopt -g overflow.ml -o overflow)
	ulimit -Ss 2048
	start_measured "$TMP/out" "$TMP/built/overflow"
	finish_target
	wait "$COUNTING" || fail "$(<"$TMP/out.err")"
	eq "$TARGET_STATUS" 0 "status"
	holds python3 - "$TMP/out" "$(output_of)" <<-'PY'
	import json, sys
	result = json.loads(open(sys.argv[1]).read().splitlines()[-1])
	overflows, calls, all_overflows, leaves = map(int, open(sys.argv[2]).read().split())
	counts = {probe["name"]: probe["hits"] for probe in result["probes"]}
	hits, timed = counts["fn:Overflow.deeper"], result["pairs"][0]
	print(overflows, calls, hits, timed, counts)
	# OCaml 5 raises at the beginning of the last call, which has been counted.
	assert overflows == 50 and hits - calls in (0, 50) and calls > 50 * 10000
	# Only the last calls have no stack left to be timed on.
	assert hits - 50 * 8 <= timed["starts"] <= hits and timed["count"] == 0
	assert all_overflows == 100 and leaves > 50 * 10000
	assert counts["fn:Overflow.leaf"] - leaves in range(51)
	assert counts["fn:Overflow.calls_first"] - leaves in range(51)
	PY
}

# The compiler compiles a file: each count is that of uprobes, and the files are those of a run that nobody counts. When each
# function is timed, its starts are its hits, and each start has an end. With -S and an interface, the compiler makes no temporary files. Their names are random: zeros before a number take more calls.
test_compiler() {
	local compiler
	need_counting
	compiler=$(own_copy "$(realpath "$(type -P ocamlopt.opt)")")
	mkdir "$TMP/plain"
	cp "$CALLS/books.ml" "$TMP/plain"
	cd "$TMP/plain"
	"$compiler" -i books.ml >books.mli
	"$compiler" -c books.mli
	cp -r "$TMP/plain" "$TMP/inside"
	cp -r "$TMP/plain" "$TMP/traced"
	cp -r "$TMP/plain" "$TMP/timed"
	"$compiler" -S -c books.ml
	cd "$TMP/traced"
	"$TOOL" trace --wait -prog "$compiler" --count='fn:.*' --json -- -S -c books.ml >"$TMP/traced.json" 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	cd "$TMP/inside"
	start_counted "$TMP/inside.json" "$compiler" -S -c books.ml
	finish_target
	eq "$TARGET_STATUS" 0 "status of the compiler"
	wait "$COUNTING" || fail "$(<"$TMP/inside.json.err")"
	diff -r "$TMP/plain" "$TMP/inside"
	cd "$TMP/timed"
	"$TOOL" trace --wait -prog "$compiler" --engine inside --time='fn:.*' --json -- -S -c books.ml >"$TMP/timed.json" 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	diff -r "$TMP/plain" "$TMP/timed"
	holds python3 - "$TMP/inside.json" "$TMP/timed.json" <<-'PY'
	import json, sys
	inside, timed = (json.loads(open(f).read().splitlines()[-1]) for f in sys.argv[1:])
	hits, pairs = {p["name"]: p["hits"] for p in inside["probes"]}, timed["pairs"]
	wrong = {p["start"]: (p["starts"], hits[p["start"]]) for p in pairs if p["starts"] != hits.get(p["start"], p["starts"])}
	assert not wrong, wrong
	# A call ends, or an exception ends it, or too many calls of its function are open, or the program ends.
	wrong = [p for p in pairs if p["count"] + p["orphan_starts"] + p["map_full"] + p["open"] != p["starts"] or p["orphan_stops"]]
	assert not wrong, wrong[0]
	called = [p for p in pairs if p["count"]]
	full = sum(p["map_full"] for p in pairs)
	print(len(pairs), len(called), full)
	assert len(pairs) > 10000 and len(called) > 1000 and full * 100 < sum(p["starts"] for p in pairs)
	PY
	holds python3 - "$TMP/inside.json" "$TMP/traced.json" <<-'PY'
	import json, sys
	inside, traced = ({p["name"]: p["hits"] for p in json.loads(open(f).read().splitlines()[-1])["probes"]} for f in sys.argv[1:])
	wrong = {name: (n, traced[name]) for name, n in inside.items() if n != traced[name]}
	assert not wrong, wrong
	called = [name for name, n in traced.items() if n]
	counted = [name for name in called if name in inside]
	print(len(inside), len(traced), len(called), len(counted))
	assert len(inside) * 100 > len(traced) * 87 and len(counted) > 1000
	PY
}

# The kernel's engine cannot time so many functions.
test_more_than_bpf_can_time() {
	build_calls
	start_calls 20 1
	"$TOOL" attach -pid "$TARGET" --engine auto --time='fn:.*' --json >"$TMP/out" 2>"$TMP/err" &
	wait_for 'has_text "$TMP/err" "measuring [0-9]+ probes"'
	tell go
	finish_target
	wait $! || fail "$(<"$TMP/err")"
	finds -E 'engine: inside, since BPF times at most 512 of the [0-9]{4} functions$' "$TMP/err"
	finds '"start":"fn:Calls.fib","stop":"","count":[1-9]' "$TMP/out"
}

# ---- nothing else changes ---------------------------------------------------------------------

# Again and again, from the middle of calls to the middle of others, in four threads; some calls are timed.
test_attached_and_detached() {
	local i counted=0 timed=0
	build_calls
	start_calls 0 4
	tell go
	for ((i = 0; i < CYCLES; i++)); do
		"$TOOL" attach --budget none -q -pid "$TARGET" --count='fn:.*,c:calls_hit,c:calls_by_name' "${TIMED[@]}" --engine inside \
			--for 20ms --json >"$TMP/counts" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		! finds '"hits":[1-9]' "$TMP/counts" || counted=$((counted + 1))
		! finds '"start":"fn:Calls.fib","stop":"","count":[1-9]' "$TMP/counts" || timed=$((timed + 1))
	done
	holds has_own_code
	tell stop
	quit_target
	eq "$TARGET_STATUS" 0 "status"
	check_rounds "$TMP/built/calls"
	# On a busy machine the program may have no processor for a while.
	((counted >= CYCLES / 2 && timed >= CYCLES / 2)) || fail "$counted and $timed of $CYCLES"
}

# The tool is killed at its system calls, one after the other: the program continues, and `doctor --fix` restores its code.
test_kills() {
	local tool
	build_calls
	start_calls 0 2
	tell go
	tool=("$TOOL" attach -q --budget none -pid "$TARGET" --count='fn:Calls.*,c:calls_hit,c:calls_by_name' "${TIMED[@]}"
		--engine inside --for 10ms)
	kill_while_calls_are_counted "${KILLS:-12}" "${tool[@]}"
}

# A program of the language suite does the same with what MEASURED says.
check_same() { # WHAT
	local program=$TMP/suite/$PROGRAM out=$TMP/$PROGRAM.$1.json
	start_measured "$out" "$program"
	finish_target
	wait "$COUNTING" || fail "$PROGRAM, $1: $(<"$out.err")"
	eq "$(cat "$(output_of)")" "$(<"$TMP/$PROGRAM.expected")" "$PROGRAM, $1"
	eq "$TARGET_STATUS" "$EXPECTED" "status of $PROGRAM, $1"
}

# ... with all functions counted and, besides, those of its own module and of Stdlib timed.
check_program() {
	EXPECTED=0
	"$TMP/suite/$PROGRAM" >"$TMP/$PROGRAM.expected" 2>&1 || EXPECTED=$?
	MEASURED=(--count='fn:.*')
	check_same counted
	finds '"hits":[1-9]' "$TMP/$PROGRAM.counted.json"
	MEASURED+=(--time "fn:${PROGRAM^}\\..*" --time 'fn:Stdlib\.[a-z].*')
	check_same timed
	finds '"starts":[1-9]' "$TMP/$PROGRAM.timed.json"
}

test_suite() {
	[[ $SUITE = all ]] || export PROGRAMS=$SUITE
	BARE=no DORMANT=yes "$ROOT/tests/ocaml/suite/build" "$O" "$TMP/suite" >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	xargs -P"$(nproc)" -I{} env PROGRAM={} bash "$0" --one check_program <"$TMP/suite/programs"
}

# ---- others -----------------------------------------------------------------------------------

count_in_background() { # ENGINE
	background "$TOOL" attach -pid "$TARGET" --count='fn:Calls.*' --engine "$1" --budget none --json >"$TMP/$1.json" 2>"$TMP/$1.err"
	COUNTING=$!
	wait_for "has_text '$TMP/$1.err' 'counting [0-9]* probes' || has_ended $COUNTING"
}

# Uprobes on functions, then jumps, and the other way round: functions whose code is not that of the file are left out, and
# named; the program goes on.
test_both_engines() {
	local bpf inside left status=0
	need_counting
	build_calls
	start_calls 0 2
	tell go
	count_in_background bpf
	bpf=$COUNTING
	count_in_background inside
	inside=$COUNTING
	grep -q "counting [0-9]* probes" "$TMP/inside.err" || fail "$(<"$TMP/inside.err")"
	holds grep -qE "pid $TARGET: [0-9]+ functions? (is|are) not counted: another tool has a uprobe on" "$TMP/inside.err"
	kill -INT "$bpf" && wait "$bpf"
	let_work 2
	count_in_background bpf
	holds grep -qE "pid $TARGET has changed the code of [0-9]+ functions in memory: left out" "$TMP/bpf.err"
	kill -INT "$COUNTING" && wait "$COUNTING"
	# They are no rows without hits.
	left=$(sed -n 's/.*left out, the first one is //p' "$TMP/bpf.err")
	! finds -F "\"name\":\"$left\"" "$TMP/bpf.json" || fail "$left is a row"
	left=$(sed 's/[^A-Za-z0-9_.:]/[&]/g' <<<"$left")
	"$TOOL" attach -pid "$TARGET" --count="$left\$" --for 1s >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(<"$TMP/out")" "1 " "status and output"
	finds 'calls: all functions that match have other code in memory than in their file: perhaps they are counted inside$' "$TMP/err"
	kill -INT "$inside" && wait "$inside"
	holds has_own_code
	tell stop
	quit_target
	eq "$TARGET_STATUS" 0 "status"
	check_rounds "$TMP/built/calls"
}

# A function whose exits have uprobes: it is not timed inside, not even by halves, until they are gone.
test_times_beside_uprobes() {
	need_counting
	build_calls
	start_calls 0 2
	tell go
	start_measuring --json --time fn:Calls.fib --engine bpf
	expect_error 4 'pid [0-9]*: cannot be counted inside: another tool has a uprobe on, or has changed, the code that a jump' \
		--time fn:Calls.fib --for 1s
	stop_measuring
	measure_until '"start":"fn:Calls.fib","stop":"","count":[1-9]' --time fn:Calls.fib --engine inside
	holds has_own_code
	tell stop
	quit_target
	check_rounds "$TMP/built/calls"
}

# Counters that are kept: a later tool reads them, and restores the code.
test_kept() {
	build_calls
	start_calls 0 2
	"$TOOL" attach -q -pid "$TARGET" --count=fn:Calls.fib --engine inside --keep "calls-$$" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	tell go
	wait_for '"$TOOL" read "calls-$$" --json | grep -q "\"hits\":[1-9]"'
	"$TOOL" doctor -pid "$TARGET" >"$TMP/doctor" 2>&1
	holds grep -q '^note: 1 function or line counted inside the process' "$TMP/doctor"
	"$TOOL" detach "calls-$$" >"$TMP/out"
	holds grep -q '^fn:Calls.fib ' "$TMP/out"
	holds has_own_code
	tell stop
	quit_target
	check_rounds "$TMP/built/calls"
}

expect_error() { # STATUS MESSAGE ARG...
	local status=0
	"$TOOL" attach -pid "$TARGET" --engine inside "${@:3}" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" "$1" "status of ${*:3}"
	matches "$(head -n 1 "$TMP/err")" "$2" "${*:3}"
	eq "$(<"$TMP/out")" "" "output"
}

test_errors() {
	local name
	build_calls
	start_calls 0 1
	expect_error 2 'excludes note:, times of c: and pairs of lines or phases' --count=note:a:b
	for name in line:calls.ml:10,line:calls.ml:20 fn:Calls.fib,line:calls.ml:20 c:malloc c:malloc,fn:Calls.fib gc:minor,gc:major_slice; do
		expect_error 2 'excludes note:, times of c: and pairs of lines or phases' --time "$name"
	done
	expect_error 2 "'fn:Calls.fibs'" --count=fn:Calls.fibs
	expect_error 4 "^ocaml-probes: 'fn:Calls.constant': cannot be timed inside: its code is too short" --time fn:Calls.constant
	name=$(without_window "$TMP/built/calls" '^Calls\.' | grep -v fun_ | head -n 1)
	[[ -n $name ]] || fail "each function has a window"
	expect_error 4 "^ocaml-probes: 'fn:$name': cannot be counted inside: a jump" --count="fn:$name"
	holds has_own_code
}

TEST_TIMEOUT=$((300 + 3 * CYCLES))
run_tests "$@"
