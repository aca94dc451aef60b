#!/usr/bin/env bash
# The tool is killed (SIGKILL) at its system calls, one after the other, while it counts inside. The
# programs go on, with the registers that they had; `doctor --fix` restores each byte, and is itself killed
# at times.
#
#   KILLS=N	so many in each program (default: 20, or 5 to 8 with pairs, or with several processes),
#		spread over all system calls from the first to the last one
#
# needs: fixtures ocaml
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

BINARIES=$O/tests/fixtures/binaries
CHECKS=0
# What the tool counts: PIDS, and the pairs of these flags; or what it records.
PIDS=() PAIRS=() RECORDED=()
# Not empty: the program waits between the kills, so no thread is in the code of a block, which must not stay mapped.
WAITS=
# A run takes a second or two on a machine that has much to do.
TEST_TIMEOUT=$((300 + 6 * ${KILLS:-40}))

# The stops of COMMAND at the beginning and end of its system calls.
stops_of() { # COMMAND...
	"$BINARIES/kill_at" "$TMP/stops" stops "$@" >/dev/null 2>&1
	cat "$TMP/stops"
}

# Kill COMMAND at its stop number N. Its status must be 0 if it had ended.
killed_at() { # N COMMAND...
	local status=0
	timeout 120 "$BINARIES/kill_at" "$TMP/killed" "stop:$1" "${@:2}" >"$TMP/out" 2>"$TMP/err" || status=$?
	matches "$status $(<"$TMP/killed")" "^(137 killed at stop:$1|0 ended 0)$" "$(<"$TMP/err")"
	[[ $status = 137 ]]
}

memory_of_all() {
	local pid
	for pid in "${PIDS[@]}"; do
		memory_of "$pid"
	done
}

fix_all() { # WHAT
	local pid
	for pid in "${PIDS[@]}"; do
		"$TOOL" doctor -pid "$pid" -fix >"$TMP/fixed" || fail "$1: doctor --fix of $pid: $(<"$TMP/fixed")"
		[[ ! $WAITS ]] || ! grep 'memfd:ocaml-probes' "/proc/$pid/maps" || fail "$1: still mapped"
	done
}

# After each kill CHECK tells that the programs go on. That is at N of STOPS.
kill_everywhere() { # CHECK KILLS
	local check=$1 wanted=${KILLS:-$2} n=1 kills=0 fix_kills=0 ends=0 rounds=1 stops fix_stops step before tool fix
	tool=("$TOOL" attach "${PIDS[@]/#/--pid=}" --count "${PAIRS[@]}" --json --engine inside --interval 2ms --for 10ms)
	((${#RECORDED[@]} == 0)) ||
		tool=("$TOOL" record "${PIDS[@]/#/--pid=}" "${RECORDED[@]}" --engine inside --no-waits --hz 0 --memory 4MB --for 50ms -o "$TMP/trace")
	fix=("$TOOL" doctor -pid "${PIDS[0]}" -fix)
	before=$(memory_of_all)
	"${tool[@]}" >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	stops=$(stops_of "${tool[@]}")
	fix_stops=$(stops_of "${fix[@]}")
	((stops > 100 && fix_stops > 100)) || fail "only $stops and $fix_stops stops"
	step=$((stops / wanted + 1))
	while ((kills + fix_kills < wanted)); do
		if killed_at "$n" "${tool[@]}"; then
			kills=$((kills + 1)) ends=0
		else
			ends=$((ends + 1))
		fi
		"$check" "a kill at $n of $stops"
		if ((kills % 8 == 0)) && killed_at $((1 + kills * 7 % fix_stops)) "${fix[@]}"; then
			fix_kills=$((fix_kills + 1))
			"$check" "a kill of doctor at $((1 + kills * 7 % fix_stops)) of $fix_stops"
		fi
		fix_all "at $n"
		eq "$(memory_of_all)" "$before" "after a kill at $n of $stops: text and semaphores"
		n=$((n + step))
		# How often it waits, and so how many stops there are, depends on the machine.
		if ((ends == 3)); then
			rounds=$((rounds + 1)) ends=0
			n=$rounds
		fi
		((kills % 100 != 0 || kills == 0)) || tell_kills "so far"
	done
	tell_kills "in all"
}

tell_kills() { # WHEN
	local pid names=()
	for pid in "${PIDS[@]}"; do
		names+=("$(readlink "/proc/$pid/exe")")
	done
	echo "# ${names[*]##*/} ${PAIRS[*]} ${RECORDED[*]}: $kills kills of attach, $fix_kills of doctor $1" >>"${KILLS_LOG:-/dev/null}"
}

check_alive() { # PID WHAT
	kill -0 "$1" 2>/dev/null || fail "$1 ended after $2: $(tail "$(output_of "$1")")"
}

# The pair of PAIRS is made all the time.
check_pairs_are_made() {
	local tool counted
	tool=("$TOOL" attach "${PIDS[@]/#/--pid=}" "${PAIRS[@]}" --json --engine inside --for 300ms)
	"${tool[@]}" >"$TMP/pairs" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	counted=$(tail -n 1 "$TMP/pairs" | grep -o '"count":[0-9]*' | head -n 1)
	((${counted#*:} > 100)) || fail "pairs: $counted in 300 ms"
}

# ---- a C program that checks its registers ----------------------------------------------------

# Its threads make rounds all the time.
start_fixture() { # THREADS
	start_target "$(own_copy "$BINARIES/inside")"
	await_line ready
	tell "run $1"
	await_line 'done'
	PIDS+=("$TARGET")
	HITS=0x$(nm "$TMP/inside" | awk '$3 == "hits_hot" { print $1 }')
}

hits() { # PID
	read_bytes "$1" $(($(bias_of "$1") + HITS)) 8
}

check_one_fixture() { # PID WHAT
	local before
	before=$(hits "$1")
	wait_for "[[ \$(hits $1) != '$before' ]] || ! kill -0 $1" 60
	check_alive "$@"
}

check_fixture() { # WHAT
	check_one_fixture "$TARGET" "$1"
	((++CHECKS % 10 != 0)) || let_run each
}

end_fixture() { # PID
	let_run each "$1"
	quit_target "$1"
	eq "$TARGET_STATUS" 0 "status of $1"
}

test_fixture() {
	start_fixture 3
	kill_everywhere check_fixture 20
	end_fixture "$TARGET"
}

test_fixture_with_pairs() {
	start_fixture 3
	PAIRS=(--time begin,end --time end,begin)
	kill_everywhere check_fixture 8
	check_pairs_are_made
	end_fixture "$TARGET"
}

check_both_fixtures() { # WHAT
	check_one_fixture "${PIDS[0]}" "$1"
	check_one_fixture "${PIDS[1]}" "$1"
}

# The events of two processes are recorded: their threads hit the probes all the time.
test_fixture_recorded() {
	start_fixture 2
	start_fixture 1
	RECORDED=(--print begin,end,hot --time begin,end)
	kill_everywhere check_both_fixtures 5
	end_fixture "${PIDS[0]}"
	end_fixture "${PIDS[1]}"
}

# ---- a program and a plugin, each with a part of the block ------------------------------------

check_host() { # WHAT
	tell go
	ROUNDS=$((ROUNDS + 1))
	wait_for '[[ $(grep -c "^host=" "$(output_of)") -eq $ROUNDS ]] || ! kill -0 "$TARGET"' 60
	check_alive "$TARGET" "$1"
}

test_plugin() {
	cp "$O/tests/ocaml/plugin_host" "$O/tests/ocaml/plugin.cmxs" "$TMP"
	start_target "$TMP/plugin_host" "$TMP/plugin.cmxs"
	await_line ready
	PIDS=("$TARGET") ROUNDS=0 WAITS=yes
	kill_everywhere check_host 20
	eq "$(tail -n 1 "$(output_of)")" 'host=0 plugin=0' "handlers"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- OCaml programs that check what they compute ----------------------------------------------

# Of the language suite, by the ocamlopt in PATH.
build_programs() { # NAME...
	PROGRAMS=$* BARE=no "$ROOT/tests/ocaml/suite/build" "$O" "$TMP/suite" >"$TMP/built" 2>&1 || fail "$(<"$TMP/built")"
}

start_program() { # NAME
	OCAMLRUNPARAM=l=1M,s=4k start_target "$TMP/suite/$1" toggled "$ROOT/tests/ocaml/suite/$1.ml"
	await_line ready 60
	PIDS+=("$TARGET")
}

check_ocaml() { # WHAT
	check_alive "$TARGET" "$1"
	((++CHECKS % 10 != 0)) || let_run all
}

# Its rounds must be what the source says.
end_program() {
	let_run all
	tell stop
	finish_target
	eq "$TARGET_STATUS" 0 "status: $(tail "$(output_of)")"
	matches "$(tail -n 1 "$(output_of)")" '^[1-9][0-9]* off, 0 on, 0 mixed$' "rounds"
}

test_ocaml_programs() {
	local programs=threads program
	! is_ocaml_5 || programs='threads domains effects'
	# shellcheck disable=SC2086 # names are words
	build_programs $programs
	for program in $programs; do
		PIDS=()
		start_program "$program"
		kill_everywhere check_ocaml 20
		end_program
	done
}

# The pairs begin and end in threads that live for some milliseconds.
test_ocaml_program_with_pairs() {
	local program=threads
	PAIRS=(--time producing,holding_the_lock --time consumed,waiting)
	if is_ocaml_5; then
		program=domains
		PAIRS=(--time counted,allocates --time allocates,counted)
	fi
	build_programs "$program"
	start_program "$program"
	kill_everywhere check_ocaml 8
	check_pairs_are_made
	end_program
}

# The events of probes and calls of functions, in threads that live for some milliseconds.
test_ocaml_program_recorded() {
	local program=threads functions='fn:Threads\..*'
	RECORDED=(--print producing,holding_the_lock,consumed,waiting)
	if is_ocaml_5; then
		program=domains functions='fn:Domains\..*'
		RECORDED=(--print counted,allocates)
	fi
	RECORDED+=(--time "$functions")
	build_programs "$program"
	start_program "$program"
	kill_everywhere check_ocaml 8
	end_program
}

# ---- several processes at a time --------------------------------------------------------------

check_several() { # WHAT
	check_one_fixture "${PIDS[0]}" "$1"
	check_one_fixture "${PIDS[1]}" "$1"
	check_ocaml "$1"
}

test_several_processes() {
	local program=threads
	! is_ocaml_5 || program=domains
	build_programs "$program"
	start_fixture 1
	start_fixture 1
	start_program "$program"
	kill_everywhere check_several 8
	end_program
	end_fixture "${PIDS[0]}"
	end_fixture "${PIDS[1]}"
}

run_tests "$@"
