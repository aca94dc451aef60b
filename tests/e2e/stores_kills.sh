#!/usr/bin/env bash
# The tool is killed at the system calls that it makes, while it attaches to count inside, reads, detaches, or
# switches many probes. The program notices nothing, and `doctor --fix` leaves it as it was.
#
#	KILLS=N		of each program and action, spread over the calls that change something; 4 without it
#
# needs: fixtures ocaml/hundred
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

KILLS=${KILLS:-4}
TEST_TIMEOUT=$((120 + KILLS * 5))
BINARIES=$O/tests/fixtures/binaries

# Registers and results are right, each thread gets on, and no memory is writable and executable.
check_running() {
	forget_output
	tell check
	await_line ok 60
	wait_for '! grep -q "^[^ ]* .wx" "/proc/$TARGET/maps"' 60
}

check_nothing_left() { # BEFORE WHERE
	local left
	"$TOOL" doctor -quiet -pid "$TARGET" --fix >"$TMP/doctor" 2>&1 || fail "doctor --fix, $2: $(<"$TMP/doctor")"
	"$TOOL" attach -quiet -pid "$TARGET" -disable-all
	eq "$(memory_of "$TARGET" | md5sum)" "$1" "text and semaphores, $2"
	left=$(grep ocaml-probes "/proc/$TARGET/maps" || :)
	# A thread may have been in a trampoline at the moment of the detach.
	[[ $left != *-probes-inside* ]] || clear_trampolines
	eq "${left/*-probes-inside*/}" "" "memory of ours, $2"
	eq "$(find "/proc/$TARGET/fd" -lname '*ocaml-probes*')" "" "descriptors of ours, $2"
}

clear_trampolines() {
	"$TOOL" attach -quiet -pid "$TARGET" --count --engine inside --for 1ms >"$TMP/out"
}

# The calls of three runs, of which the shortest is taken: a thread in a site makes the tool stop the process again, and a run
# with more stops than others ends with calls that no other run comes to.
list_fewest_calls() { # BEFORE PREPARE COMMAND...
	local run fewest=()
	for run in {1..3}; do
		$2
		list_calls "${@:3}"
		check_nothing_left "$1" "without a kill, run $run"
		[[ ${#fewest[@]} -gt 0 && ${#fewest[@]} -le ${#CALLS[@]} ]] || fewest=("${CALLS[@]}")
	done
	CALLS=("${fewest[@]}")
}

kill_everywhere() { # PREPARE ARG...
	local prepare=$1 before try attach=("$TOOL" attach -quiet -pid "$TARGET" "${@:2}") call
	before=$(memory_of "$TARGET" | md5sum)
	list_fewest_calls "$before" "$prepare" "${attach[@]}"
	for call in $(spread_calls "$KILLS"); do
		# Even so, the number of late calls differs.
		for try in {1..20}; do
			$prepare
			! kill_if_reached "$call" "${attach[@]}" || break
			check_nothing_left "$before" "without a kill at $call"
			[[ $try -lt 20 ]] || fail "no run came to $call"
		done
		check_running
		check_nothing_left "$before" "after a kill at $call of ${#CALLS[@]} calls"
	done
	quit_target
	eq "$TARGET_STATUS" 0 "status of the program"
}

start_checked() { # PROGRAM
	start_target "$(own_copy "$1")" 3
	await_line ready
}

test_counting() {
	start_checked "$BINARIES/checked"
	kill_everywhere : --count --engine inside --for 1ms
}

# With a compiler of version 5, its domains pass more sites than single writes are used for.
start_ocaml() {
	if [[ $(ocamlopt -version) = 5.* ]]; then
		[[ -e $TMP/suite/many_sites ]] ||
			PROGRAMS=many_sites BARE=no "$ROOT/tests/ocaml/suite/build" "$O" "$TMP/suite" >"$TMP/built" 2>&1 ||
			fail "$(<"$TMP/built")"
		start_checked "$TMP/suite/many_sites"
	else
		start_checked "$O/tests/ocaml/hundred"
	fi
}

test_counting_ocaml() {
	start_ocaml
	kill_everywhere : --count --engine inside --for 1ms
}

test_enabling() {
	start_checked "$BINARIES/checked"
	kill_everywhere : -enable-all
}

enable() {
	"$TOOL" attach -quiet -pid "$TARGET" -enable-all
}

test_switching_ocaml() {
	start_ocaml
	kill_everywhere : -enable-all
	start_ocaml
	kill_everywhere enable -disable-all
}

test_disabling() {
	start_checked "$BINARIES/checked"
	kill_everywhere enable -disable-all
}

# The program is stopped in the middle of its stores when the tool is killed. Nobody writes before it has got on.
test_stopped_meanwhile() {
	local before status=0
	start_checked "$BINARIES/checked"
	before=$(memory_of "$TARGET" | md5sum)
	"$KILL_AT" "$TMP/killed" "rwx:$TARGET:kill -STOP $TARGET; false" "$TOOL" attach -pid "$TARGET" -enable-all || status=$?
	eq "$status $(<"$TMP/killed")" "137 killed at rwx" "status of the tool, and where it was killed"
	await_stopped
	grep -q ' rwx' "/proc/$TARGET/maps" || fail "it is not in the middle"
	check_error 6 "still switches probes for a tool that was killed" doctor -pid "$TARGET" --fix
	check_error 6 "still switches probes for a tool that was killed" attach -pid "$TARGET" -enable-all
	kill -CONT "$TARGET"
	check_running
	check_nothing_left "$before" "after SIGCONT"
	quit_target
}

# Uprobes that are registered while the code is writable are put into it afterwards.
test_uprobes_that_come_meanwhile() {
	need_counting
	start_checked "$BINARIES/checked"
	export TARGET
	# shellcheck disable=SC2016 # the shell that kill_at starts expands it
	"$KILL_AT" "$TMP/killed" "rwx:$TARGET:"'
		env --default-signal=INT "$TOOL" attach --budget none -pid "$TARGET" --count --json >"$TMP/counts" 2>"$TMP/counting.err" &
		echo $! >"$TMP/counting"
		until grep -q "counting [0-9]* probes" "$TMP/counting.err"; do
			kill -0 $! && sleep 0.02 || exit 0
		done' "$TOOL" attach -pid "$TARGET" -enable-all
	check_running
	kill -INT "$(<"$TMP/counting")"
	wait_for '! kill -0 "$(<"$TMP/counting")" 2>/dev/null'
	eq "$(totals | awk '$2 > 0' | wc -l)" 300 "probes with hits: $(<"$TMP/counting.err")"
	quit_target
}

run_tests "$@"
