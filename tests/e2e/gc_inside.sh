#!/usr/bin/env bash
# The collector's pauses, measured by jumps in the process (`--engine inside`): without privileges, while the program
# collects, with kills, and beside uprobes. gc_phases.sh has the numbers (variant `inside`). With the compiler in PATH:
#
#   CYCLES   how often to attach and detach (default: 12)
#   KILLS    at how many system calls to kill the tool (default: 12)
#
# needs: fixtures
# ocaml5: all
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

CYCLES=${CYCLES:-12}
PHASES=$ROOT/tests/ocaml/phases
AS_USER=(setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps=-all)
MEASURED=(--time gc:minor --time gc:major_slice --count=gc:major_cycle)
! is_ocaml_5 || MEASURED+=(--time gc:stw)

build() {
	need_command python3
	"$PHASES/build" "$TMP/built" 2>"$TMP/warnings" || fail "$(<"$TMP/warnings")"
}

# A program that collects until it is killed, in four domains (OCaml 4: threads).
start_busy() {
	start_target "$TMP/built/phases" 1000000000 4
	await_line ready
	tell go
}

# The busy program goes on: it collects.
check_busy() {
	minor_collections >"$TMP/before"
	wait_for '(($(minor_collections) > $(<"$TMP/before") + 10))'
}

minor_collections() {
	"$TOOL" gc -q -pid "$TARGET" --engine bpf --for 1ms --json | tail -n 1 |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["gauges"]["minor_collections"])'
}

measure_inside() { # FLAG...
	"$TOOL" attach --budget none -q -pid "$TARGET" "${MEASURED[@]}" --engine inside --json "$@"
}

# ---- users ------------------------------------------------------------------------------------

# The tool and the program where each user may execute them.
for_each_user() {
	need_root
	need_command setpriv
	chmod 711 "$(dirname "$TMP")" "$TMP"
	chmod -R a+rX "$TMP/built"
	cp "$TOOL" "$TMP/ocaml-probes"
}

# What NAME, a total that the runtime has printed at the end, is.
runtime_total() { # NAME
	sed -n "s/^$1: //p" "$(output_of)"
}

# COMMAND of the user measures to the end of the user's program: all minor collections, and the line about the engine.
check_as_user() { # COMMAND FLAG...
	start_target "${AS_USER[@]}" env OCAMLRUNPARAM=v=0x400 "$TMP/built/phases" 60 1
	await_line ready
	# OCaml 5.1 collects when it starts.
	minor_collections >"$TMP/before"
	background "${AS_USER[@]}" "$TMP/ocaml-probes" "$@" -pid "$TARGET" --json >"$TMP/counts" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'grep -q memfd:ocaml-probes-inside /proc/$TARGET/maps || has_ended $COUNTING'
	wait_for '[[ $(sed -n "s/^TracerPid:.//p" "/proc/$TARGET/status") = 0 ]] || has_ended $COUNTING'
	wait_for 'has_text "$TMP/err" "measuring [0-9]+ probe|^ocaml-probes: engine: " || has_ended $COUNTING'
	tell go
	await_line finished 60
	quit_target
	wait "$COUNTING" || fail "$(<"$TMP/err")"
	matches "$(head -n 1 "$TMP/err")" '^ocaml-probes: engine: inside, since BPF is not available: measuring: ocaml-probes lacks CAP_BPF' "the reason"
	holds python3 - "$TMP/counts" "$(($(runtime_total minor_collections) - $(<"$TMP/before")))" <<'PY'
import json, sys
total = json.loads(open(sys.argv[1]).read().splitlines()[-1])
minor = next(pair for pair in total.get("pairs") or total["pauses"] if pair["start"] == "gc:minor")
print(sys.argv[2], minor)
assert minor["count"] == minor["starts"] == int(sys.argv[2]) > 20, minor
assert 0 < minor["min_ns"] <= minor["max_ns"] <= minor["sum_ns"], minor
assert "domains" not in minor and not minor["open"] and not minor["orphan_stops"], minor
PY
}

test_a_user_attaches() {
	build
	for_each_user
	check_as_user attach --time gc:minor --time gc:major_slice
	check_as_user attach --engine auto --time gc:minor --count=gc:major_cycle
}

test_a_user_asks_gc() {
	build
	for_each_user
	check_as_user gc
	check_as_user gc --engine auto
}

# Of a process of another user, there is no figure; of an own process that someone traces, there are no pauses.
test_what_a_user_may_not() {
	local status=0
	need_command strace
	build
	for_each_user
	start_target "${AS_USER[@]}" "$TMP/built/phases" 1 1
	await_line ready
	background strace -o "$TMP/calls" -p "$TARGET" 2>"$TMP/strace"
	wait_for 'has_text "$TMP/strace" attached'
	"${AS_USER[@]}" "$TMP/ocaml-probes" gc -pid "$TARGET" --engine inside --for 1ms >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(wc -l <"$TMP/err")" "0 1" "status and lines: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" "^ocaml-probes: pauses are not measured: pid $TARGET.*traced by"
	! finds PAUSES "$TMP/out" || fail "it shows pauses"
	"${AS_USER[@]}" "$TMP/ocaml-probes" gc -pid "$TARGET" --engine bpf --for 1ms >"$TMP/out" 2>"$TMP/err"
	matches "$(<"$TMP/err")" "^ocaml-probes: pauses are not measured: measuring: ocaml-probes lacks CAP_BPF"
	kill $!
}

# ---- nothing else changes ---------------------------------------------------------------------

# Again and again, from the middle of pauses to the middle of others, in four domains.
test_attached_and_detached() {
	local i counted=0
	build
	start_busy
	for ((i = 0; i < CYCLES; i++)); do
		measure_inside --for 20ms >"$TMP/counts" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		! finds '"start":"gc:minor","stop":"","count":[1-9]' "$TMP/counts" || counted=$((counted + 1))
		holds has_own_code
	done
	# On a busy machine the program may have no processor for a while.
	((counted)) || fail "no pause was measured in $CYCLES times 20 ms"
	check_busy
	kill "$TARGET"
}

# The tool is killed at its system calls, one after the other: the program goes on, `doctor --fix` restores its code.
test_kills() {
	local call tool
	build
	start_busy
	tool=("$TOOL" attach -q --budget none -pid "$TARGET" "${MEASURED[@]}" --engine inside --for 10ms)
	list_calls "${tool[@]}"
	for call in $(spread_calls "${KILLS:-12}"); do
		kill_if_reached "$call" "${tool[@]}" || continue
		let_work 1
		"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/fixed" 2>&1 || fail "at $call: $(<"$TMP/fixed")"
		holds has_own_code
	done
	check_busy
	kill "$TARGET"
}

# `gc` is killed: the program goes on and counts, doctor says so, and ends it.
test_gc_is_killed() {
	build
	start_busy
	background "$TOOL" gc -pid "$TARGET" --engine inside --interval 10ms >"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/out" "gc:minor"'
	kill -KILL $!
	wait $! 2>/dev/null || :
	check_busy
	! has_own_code || fail "nothing counts"
	"$TOOL" doctor -pid "$TARGET" >"$TMP/doctor" 2>&1 || :
	matches "$(<"$TMP/doctor")" 'counted inside the process' "what doctor says"
	"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/doctor" 2>&1 || fail "$(<"$TMP/doctor")"
	holds has_own_code
	check_busy
	kill "$TARGET"
}

# Nobody reads what `gc` prints any more, as with `| head`: it undoes what it has done before SIGPIPE ends it.
test_closed_pipe() {
	build
	start_busy
	{ "$TOOL" gc -pid "$TARGET" --engine inside --interval 10ms 2>"$TMP/err" || echo $? >"$TMP/status"; } | head -n 1 >"$TMP/out"
	eq "$(<"$TMP/status")" $((128 + 13)) "status"
	holds test -s "$TMP/out"
	holds has_own_code
	check_busy
	kill "$TARGET"
}

# Counters that are kept: a later tool reads them, and restores the code.
test_kept() {
	build
	start_busy
	"$TOOL" attach -q -pid "$TARGET" "${MEASURED[@]}" --engine inside --keep "gc-$$" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	wait_for '"$TOOL" read "gc-$$" --json | grep -q "\"start\":\"gc:minor\",\"stop\":\"\",\"count\":[1-9]"'
	"$TOOL" detach "gc-$$" >"$TMP/out"
	finds "^gc:minor " "$TMP/out"
	holds has_own_code
	check_busy
	kill "$TARGET"
}

# ---- others -----------------------------------------------------------------------------------

# Measure MEASURED by ENGINE in the background, until there is a pause of PHASE: $TMP/ENGINE.json, $TMP/ENGINE.err.
measure_until_pause() { # ENGINE PHASE
	background "$TOOL" attach -pid "$TARGET" --engine "$1" --budget none --interval 20ms --json "${MEASURED[@]}" \
		>"$TMP/$1.json" 2>"$TMP/$1.err"
	COUNTING=$!
	wait_for "has_text '$TMP/$1.json' '\"start\":\"$2\",\"stop\":\"\",\"count\":[1-9]' || has_ended $COUNTING"
	! has_ended "$COUNTING" || fail "$(<"$TMP/$1.err")"
}

end_measuring() { # PID
	kill -INT "$1"
	wait "$1" || fail "status $?"
}

# Uprobes first: the jumps keep off them, and both measure. They go in each order. Then jumps first: no uprobe is put there.
test_both_engines() {
	local status=0 all=("${MEASURED[@]}") bpf last
	need_counting
	build
	start_busy
	for last in inside bpf; do
		MEASURED=(--time gc:minor)
		measure_until_pause bpf gc:minor
		bpf=$COUNTING
		MEASURED=("${all[@]}")
		measure_until_pause inside gc:minor
		if [[ $last = bpf ]]; then
			end_measuring "$COUNTING"
			end_measuring "$bpf"
		else
			end_measuring "$bpf"
			check_busy
			end_measuring "$COUNTING"
		fi
		holds has_own_code
	done
	MEASURED=(--time gc:minor)
	measure_until_pause inside gc:minor
	"$TOOL" attach -pid "$TARGET" --time gc:minor --for 1s >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(<"$TMP/out")" "1 " "status and output"
	matches "$(<"$TMP/err")" "'gc:minor': cannot be measured: pid $TARGET has changed its code in memory"
	end_measuring "$COUNTING"
	holds has_own_code
	check_busy
	kill "$TARGET"
}

expect_error() { # STATUS MESSAGE ARG...
	check_error "$1" "$2" attach -pid "$TARGET" --engine inside "${@:3}"
	eq "$(wc -l <"$TMP/err")" 1 "lines, without a hint"
}

test_errors() {
	build
	start_target "$TMP/built/phases" 1 1
	await_line ready
	expect_error 4 "^ocaml-probes: 'gc:major_cycle': cannot be timed: it has no duration\$" --time gc:major_cycle
	if ! is_ocaml_5; then
		expect_error 4 "^ocaml-probes: 'gc:compact': cannot be timed inside: a jump does not fit where each of its pauses begins and ends\$" \
			--time gc:compact
		"$TOOL" gc -pid "$TARGET" --engine inside --for 1ms >"$TMP/out" 2>"$TMP/err"
		matches "$(<"$TMP/err")" "^ocaml-probes: 'gc:compact': cannot be timed inside: a jump does not fit [a-z ]*\$"
		matches "$(grep '^gc:compact' "$TMP/out")" '^gc:compact +0$' "the row of gc:compact"
	fi
	holds has_own_code
	quit_target
}

TEST_TIMEOUT=$((60 + 3 * CYCLES))
run_tests "$@"
