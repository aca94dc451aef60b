#!/usr/bin/env bash
# Stacks of threads that are stopped at random instructions, against those that gdb sees. The program is one of
# random call trees (tests/ocaml/trees), which nobody measures.
#
#   STOPS  how many times it is stopped (default: 600); SEEDS in how many programs (default: 1)
#
# needs: ocaml fixtures unit-tests
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

STOPS=${STOPS:-600}
SEEDS=${SEEDS:-1}
TEST_TIMEOUT=$((600 + SEEDS * STOPS / 5))

# Run a program that gets SIGPROF each 1.3 ms of its CPU time, or at the next tick of the kernel. It ignores
# the signal; a tracer sees it all the same. Its id is in $TMP/pid.
start_with_timer() { # PROGRAM ARG...
	exec python3 -c '
import os, signal, sys
signal.signal(signal.SIGPROF, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_PROF, 0.0013, 0.0013)
print(os.getpid(), file=open(sys.argv[1], "w"))
os.execv(sys.argv[2], sys.argv[2:])' "$TMP/pid" "$@"
}

# Stop the program of SEED, and compare its stacks.
compare() { # SEED [effects]
	"$ROOT/tests/ocaml/trees/build" "$O" "$TMP/trees" "$@" >"$TMP/build.log" 2>&1 ||
		fail "no program: $(grep -v warning "$TMP/build.log")"
	yes | start_with_timer "$TMP/trees" "$TMP/none" 1000000000 "$1" 12 >"$TMP/out" &
	wait_for 'has_text "$TMP/out" ready'
	rm -f "$TMP/report"
	gdb -q -nx -batch -iex 'set debuginfod enabled off' \
		-ex "python ARGS = [$(<"$TMP/pid"), $STOPS, '$O/tests/profile/walk_stopped', '$TMP/report']" \
		-x "$ROOT/tests/e2e/gdb_stacks.py" >"$TMP/gdb" 2>&1 || fail "$(cat "$TMP/report" 2>/dev/null || tail "$TMP/gdb")"
	finds ' stacks, ' "$TMP/report" || fail "$(tail "$TMP/gdb")"
	cat "$TMP/report" >>"${STACKS_LOG:-/dev/null}"
}

test_stops() {
	local seed
	need_command gdb
	for ((seed = 1; seed <= SEEDS; seed++)); do
		compare "$seed"
	done
}

if [[ $(ocamlopt -version) = 5.* ]]; then
	test_stops_with_fibres() {
		local seed
		for ((seed = 1; seed <= SEEDS; seed++)); do
			compare "$seed" effects
		done
	}
fi

run_tests "$@"
