#!/usr/bin/env bash
# The test runner itself: every way a test can end is counted, and seen in the status.
. "$(dirname "$0")/lib.sh"

# Run tests/run on one made-up unit test whose source is stdin. Sets status and lines.
run_fake() {
	mkdir -p "$TMP/build/tests/unit"
	cat >"$TMP/build/tests/unit/test_fake"
	chmod +x "$TMP/build/tests/unit/test_fake"
	status=0
	lines=$(UNIT_TIMEOUT=${limit:-60} "$ROOT/tests/run" "$TMP/build" fake) || status=$?
}

# The same for a made-up script on top of lib.sh, copied to where lib.sh is expected.
run_fake_script() {
	{ echo ". '$ROOT/tests/e2e/lib.sh'"; cat; echo 'run_tests "$@"'; } >"$TMP/script.sh"
	status=0
	lines=$(O="$TMP" bash "$TMP/script.sh") || status=$?
}

test_cases_are_counted() {
	run_fake <<-'END'
		#!/bin/sh
		printf '\t1..2\nok 1 - a\nnot ok 2 # SKIP b\n# ok - summary\n'
	END
	eq "$lines" $'ok test_fake/a\nskip test_fake/b: no reason given\n1 passed, 0 failed, 1 skipped'
	eq "$status" 0
}

test_failure_shows_its_output() {
	run_fake <<-'END'
		#!/bin/sh
		printf '1..2\nbecause\nnot ok 1 - a\n# why\nnoise\nok 2 - b\nnoise\n'
		exit 1
	END
	eq "$lines" $'FAIL test_fake/a\n    because\n    # why\nok test_fake/b\n1 passed, 1 failed, 0 skipped'
	eq "$status" 1
}

test_crash_counts_as_failure() {
	run_fake <<-'END'
		#!/bin/bash
		printf '1..2\nok 1 - a\n'
		kill -SEGV $$
	END
	matches "$lines" 'FAIL test_fake: status 139 after 1 of 2 cases'
	matches "$lines" '1 passed, 1 failed, 0 skipped$'
	eq "$status" 1
}

test_bad_status_counts_as_failure() {
	run_fake <<-'END'
		#!/bin/sh
		printf '1..1\nok 1 - a\n'
		exit 23
	END
	matches "$lines" 'FAIL test_fake: status 23, but no case failed'
	eq "$status" 1
}

test_hang_counts_as_failure() {
	local limit=1
	run_fake <<-'END'
		#!/bin/sh
		printf '1..1\nok 1 - a\n'
		sleep 1000
	END
	matches "$lines" 'FAIL test_fake: timed out after 1 s'
	eq "$status" 1
}

test_silence_is_no_success() {
	run_fake <<-'END'
		#!/bin/true
	END
	matches "$lines" 'FAIL test_fake: status 0 after 0 of 0 cases'
	eq "$status" 1
	status=0
	"$ROOT/tests/run" "$TMP/build" no-such-test >"$TMP/out" || status=$?
	eq "$status" 1
}

test_any_failing_command_fails_the_test() {
	run_fake_script <<-'END'
		test_false() { false; echo "not reached"; }
		test_in_function() { helper; echo "not reached"; }
		helper() { ls /nonexistent; echo "not reached"; }
		test_in_substitution() { local x; x=$(fail "deep"); echo "not reached"; }
		test_deep_in_substitution() { local x; x=$(false; echo "y"); echo "not reached"; }
		test_in_pipe() { false | cat; echo "not reached"; }
		test_unset_variable() { echo "$no_such_variable"; }
		test_good() { ! false; if false; then :; fi; }
	END
	eq "$(grep -c '^not ok' <<<"$lines")" 6
	eq "$(grep '^ok' <<<"$lines")" 'ok - test_good'
	! grep -q 'not reached$' <<<"$lines" || fail "errexit is not in effect: $lines"
	eq "$status" 1
}

test_skip_and_assertions() {
	run_fake_script <<-'END'
		test_skip() { skip "no $reason"; }
		test_eq() { eq 1 2 "sums"; }
		test_matches() { matches abc '^b'; }
		reason=time
	END
	matches "$lines" 'ok - test_skip # SKIP no time'
	matches "$lines" 'sums differ'
	matches "$lines" 'not ok - test_matches'
	eq "$status" 1
}

test_a_test_that_hangs() {
	run_fake_script <<-'END'
		test_hang() { sleep 1000; }
		TEST_TIMEOUT=1
	END
	matches "$lines" 'not ok - test_hang'
	matches "$lines" 'did not end within 1 s'
	eq "$status" 1
}

test_targets_talk_and_die_with_the_test() {
	run_fake_script <<-'END'
		test_talk() {
			start_target sh -c 'echo ready; read x; echo "got $x"; read x; exit 5'
			await_line ready
			tell hello
			await_line 'got hello'
			quit_target
			eq "$TARGET_STATUS" 5
		}
		test_leave() {
			start_target sleep 1000
			echo "$TARGET" >"$O/left-behind"
		}
		test_interrupt() {
			background sh -c 'trap "exit 9" INT; echo ready; while :; do sleep 0.01; done' >"$TMP/out"
			wait_for 'grep -q ready "$TMP/out"'
			kill -INT $!
			local status=0
			wait $! || status=$?
			eq "$status" 9
		}
	END
	eq "$lines" $'1..3\nok - test_talk\nok - test_leave\nok - test_interrupt'
	wait_for 'has_ended "$(cat "$TMP/left-behind")"'
}

run_tests "$@"
