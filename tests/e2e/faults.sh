#!/usr/bin/env bash
# Each system call fails once (tools/faults): a selection of what `make faults` does.
#
# takes: 50 s
. "$(dirname "$0")/lib.sh"
TEST_TIMEOUT=1200

faults() { # SCENARIO...
	need_root
	holds "$ROOT/tools/faults/run" "$O" --select "$@"
}

test_switching() {
	faults enable disable pair for
}

test_repairing() {
	faults fix
}

test_measuring() {
	faults count time print
}

test_keeping() {
	faults keep read detach
}

test_tracing() {
	faults trace
}

test_linking() {
	faults link
}

test_looking() {
	faults list list-prog info sites
}

# A run that injects nothing is no success.
test_unknown_scenario() {
	need_root
	! holds "$ROOT/tools/faults/run" "$O" --select nosuch >"$TMP/out" || fail "$(<"$TMP/out")"
}

run_tests "$@"
