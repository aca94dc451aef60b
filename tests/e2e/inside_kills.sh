#!/usr/bin/env bash
# The tool is killed (SIGKILL) at its system calls, one after the other, while it counts inside. The
# programs go on, with the registers that they had; `doctor --fix` restores each byte, and is itself killed
# at times.
#
#   KILLS=40	so many in each program, spread over all system calls from the first to the last one
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

KILLS=${KILLS:-40}
BINARIES=$O/tests/fixtures/binaries
CHECKS=0
# A run takes a second or two on a machine that has much to do.
TEST_TIMEOUT=$((300 + 3 * KILLS))

# The stops of COMMAND at the beginning and end of its system calls.
stops_of() { # COMMAND...
	"$BINARIES/kill_at" 0 "$@" 2>&1 >/dev/null | tail -n 1
}

# Kill COMMAND at its stop number N. Its status must be 0 if it had ended.
killed_at() { # N COMMAND...
	local status=0
	timeout 120 "$BINARIES/kill_at" "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	[[ $status = 137 || $status = 0 ]] || fail "killed at $1: status $status: $(cat "$TMP/err")"
	[[ $status = 137 ]]
}

# After each kill CHECK tells that the program goes on.
kill_everywhere() { # CHECK
	local check=$1 n=1 kills=0 fix_kills=0 ends=0 rounds=1 stops fix_stops step before
	local tool=("$TOOL" attach -pid "$TARGET" --count --json --engine inside --interval 2ms --for 10ms)
	local fix=("$TOOL" doctor -pid "$TARGET" -fix)
	before=$(memory_of "$TARGET")
	stops=$(stops_of "${tool[@]}")
	fix_stops=$(stops_of "${fix[@]}")
	((stops > 100 && fix_stops > 100)) || fail "only $stops and $fix_stops stops"
	step=$((stops / KILLS + 1))
	while ((kills + fix_kills < KILLS)); do
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
		"${fix[@]}" >"$TMP/fixed" || fail "at $n: doctor --fix: $(cat "$TMP/fixed")"
		eq "$(memory_of "$TARGET")" "$before" "after a kill at $n of $stops: text and semaphores"
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
	echo "# $(readlink "/proc/$TARGET/exe"): $kills kills of attach, $fix_kills of doctor $1" >>"${KILLS_LOG:-/dev/null}"
}

# ---- a C program that checks its registers ----------------------------------------------------

hits() {
	read_bytes "$TARGET" "$HITS" 8
}

check_fixture() { # WHAT
	local before
	before=$(hits)
	wait_for '[[ $(hits) != "$before" ]] || ! kill -0 "$TARGET"' 60
	kill -0 "$TARGET" 2>/dev/null || fail "the program ended after $1: $(tail "$(output_of)")"
	((++CHECKS % 25 != 0)) || let_run each
}

test_fixture() {
	cp "$BINARIES/inside" "$TMP"
	start_target "$TMP/inside"
	await_line ready
	tell 'run 3'
	await_line 'done'
	HITS=$(($(bias_of "$TARGET") + 0x$(nm "$TMP/inside" | awk '$3 == "hits_hot" { print $1 }')))
	kill_everywhere check_fixture
	let_run each
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- a program and a plugin, each with a part of the block ------------------------------------

check_host() { # WHAT
	tell go
	ROUNDS=$((ROUNDS + 1))
	wait_for '[[ $(grep -c "^host=" "$(output_of)") -eq $ROUNDS ]] || ! kill -0 "$TARGET"' 60
	kill -0 "$TARGET" 2>/dev/null || fail "the program ended after $1: $(tail "$(output_of)")"
}

test_plugin() {
	cp "$O/tests/ocaml/plugin_host" "$O/tests/ocaml/plugin.cmxs" "$TMP"
	start_target "$TMP/plugin_host" "$TMP/plugin.cmxs"
	await_line ready
	ROUNDS=0
	kill_everywhere check_host
	"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/fixed"
	! grep 'memfd:ocaml-probes' "/proc/$TARGET/maps" || fail "still mapped"
	eq "$(tail -n 1 "$(output_of)")" 'host=0 plugin=0' "handlers"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- OCaml programs that check what they compute ----------------------------------------------

check_ocaml() { # WHAT
	kill -0 "$TARGET" 2>/dev/null || fail "the program ended after $1: $(tail "$(output_of)")"
	((++CHECKS % 10 != 0)) || let_run all
}

# Of the language suite: rounds that must be what the source says.
check_program() { # PROGRAM
	OCAMLRUNPARAM=l=1M,s=4k start_target "$TMP/suite/$1" toggled "$ROOT/tests/ocaml/suite/$1.ml"
	await_line ready 60
	kill_everywhere check_ocaml
	let_run all
	tell stop
	finish_target
	eq "$TARGET_STATUS" 0 "status of $1: $(tail "$(output_of)")"
	matches "$(tail -n 1 "$(output_of)")" '^[1-9][0-9]* off, 0 on, 0 mixed$' "rounds of $1"
}

test_ocaml_programs() {
	local programs=threads program
	[[ $(ocamlopt -version) != 5.* ]] || programs='threads domains effects'
	PROGRAMS=$programs BARE=no "$ROOT/tests/ocaml/suite/build" "$O" "$TMP/suite" >"$TMP/built" 2>&1 || fail "$(cat "$TMP/built")"
	for program in $programs; do
		check_program "$program"
	done
}

run_tests "$@"
