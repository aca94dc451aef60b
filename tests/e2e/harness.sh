#!/usr/bin/env bash
# The test runner itself: every way a test can end is counted, and seen in the status.
#
# needs: fixtures
# smoke: test_the_plan_is_known test_the_queue
. "$(dirname "$0")/lib.sh"
unset CI ORDER WORKERS

# Run tests/run on a program of made-up unit tests whose source is stdin. Sets status and lines.
run_fake() {
	local program=$TMP/build/tests/unit/unit-tests
	mkdir -p "${program%/*}"
	cat >"$program.fake"
	printf '#!/bin/sh\n[ "$1" != --list ] || exec echo fake/a\nexec "$0.fake" "$@"\n' >"$program"
	chmod +x "$program" "$program.fake"
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
	eq "$lines" $'ok unit-tests/a\nskip unit-tests/b: no reason given\n1 passed, 0 failed, 1 skipped'
	eq "$status" 0
}

test_failure_shows_its_output() {
	run_fake <<-'END'
		#!/bin/sh
		printf '1..2\nbecause\nnot ok 1 - a\n# why\nnoise\nok 2 - b\nnoise\n'
		exit 1
	END
	eq "$lines" $'FAIL unit-tests/a\n    because\n    # why\nok unit-tests/b\n1 passed, 1 failed, 0 skipped'
	eq "$status" 1
}

test_crash_counts_as_failure() {
	run_fake <<-'END'
		#!/bin/bash
		printf '1..2\nok 1 - a\n'
		kill -SEGV $$
	END
	matches "$lines" 'FAIL unit-tests: status 139 after 1 of 2 cases'
	matches "$lines" '1 passed, 1 failed, 0 skipped$'
	eq "$status" 1
}

test_bad_status_counts_as_failure() {
	run_fake <<-'END'
		#!/bin/sh
		printf '1..1\nok 1 - a\n'
		exit 23
	END
	matches "$lines" 'FAIL unit-tests: status 23, but no case failed'
	eq "$status" 1
}

test_hang_counts_as_failure() {
	local limit=1
	run_fake <<-'END'
		#!/bin/sh
		printf '1..1\nok 1 - a\n'
		sleep 1000
	END
	matches "$lines" 'FAIL unit-tests: timed out after 1 s'
	eq "$status" 1
}

test_silence_is_no_success() {
	run_fake <<-'END'
		#!/bin/true
	END
	matches "$lines" 'FAIL unit-tests: status 0 after 0 of 0 cases'
	eq "$status" 1
	status=0
	"$ROOT/tests/run" "$TMP/build" no-such-test >"$TMP/out" || status=$?
	eq "$status" 1
}

test_a_skip_in_ci_is_a_failure() {
	export CI=true
	run_fake <<-'END'
		#!/bin/sh
		printf '1..2\nok 1 - a\nok 2 - b # SKIP no time\n'
	END
	eq "$lines" $'ok unit-tests/a\nFAIL unit-tests/b: skipped: no time\n1 passed, 1 failed, 0 skipped'
	eq "$status" 1
}

# Run tests/run with the arguments in a copy of itself that has only the made-up scripts in $TMP/tests/e2e. Lines that say
# what a program took, as on a busy machine, are not in lines.
run_copy() { # [NAME...]
	mkdir -p "$TMP/tests/e2e" "$TMP/build/tests"
	cp "$ROOT/tests/run" "$ROOT/tests/isolate" "$TMP/tests"
	cp "$ROOT/tests/e2e/lib.sh" "$TMP/tests/e2e"
	status=0
	lines=$("$TMP/tests/run" "$TMP/build" "$@" 2>&1) || status=$?
	lines=$(sed -E '/^# [^ ]+ took [0-9]+ s,/d' <<<"$lines")
}

# The script NAME whose text is stdin.
make_script() { # NAME
	mkdir -p "$TMP/tests/e2e"
	{ printf '#!/usr/bin/env bash\n'; cat; } >"$TMP/tests/e2e/$1.sh"
}

# A script of a part of tests/long is run when it is named, and by that part alone.
test_long_scripts_are_not_in_the_check() {
	make_script short <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		run_tests "$@"
	END
	make_script long <<-'END'
		# What takes long.
		#
		# long: soak
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		run_tests "$@"
	END
	run_copy
	eq "$(grep /test_a <<<"$lines")" "ok short/test_a"
	run_copy long
	eq "$status $lines" $'0 ok long/test_a\n1 passed, 0 failed, 0 skipped'
}

test_the_plan_is_known() {
	make_script good <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		test_b() { eq 1 1; }
		run_tests "$@"
	END
	make_script last <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		run_tests "$@" || exit
	END
	make_script empty <<-'END'
		. "$(dirname "$0")/lib.sh"
		run_tests "$@"
	END
	make_script lost <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		test_b() { eq 1 1; }
		unset -f test_b
		run_tests "$@"
	END
	make_script same <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 2; }
		test_a() { eq 1 1; }
		run_tests "$@"
	END
	make_script idle <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() { true; }
		run_tests "$@"
	END
	run_copy good
	eq "$lines" $'ok good/test_a\nok good/test_b\n2 passed, 0 failed, 0 skipped'
	eq "$status" 0
	run_copy good/b
	eq "$lines" $'ok good/test_b\n1 passed, 0 failed, 0 skipped'
	run_copy good empty last lost same idle none
	eq "$(grep '^FAIL' <<<"$lines" | sort)" "FAIL empty: status 0 after 0 of 0 cases
FAIL idle/test_a
FAIL last: its last line is not run_tests \"\$@\"
FAIL lost: did not run test_b
FAIL none: no such test
FAIL same: two cases have the name test_a"
	# Each failure is named beside the result, too, with its reason.
	eq "$(sed -n 's/^# failed: /FAIL /p' <<<"$lines" | sort)" "$(grep '^FAIL' <<<"$lines" | sort)"
	eq "$(grep -A 1 -x '# failed: idle/test_a' <<<"$lines" | tail -n 1)" '#     # it made no assertion'
	eq "$status" 1
}

# A script runs again in other environments, without the cases that do not apply there.
test_variants() {
	unset TOOL
	make_script engines <<-'END'
		# needs: tool
		# variants: inside
		. "$(dirname "$0")/lib.sh"
		test_a() { eq "$ENGINE" bpf; }
		test_b() { eq "$ENGINE" inside; }
		test_c() { eq "$VARIANT $ENGINE $TOOL" "inside inside $O/ocaml-probes"; }
		test_d() { eq 1 1; }
		not_in inside test_a
		not_in plain test_b test_c
		run_tests "$@"
	END
	make_script sanitized <<-'END'
		# needs: fixtures
		# variants: asan
		. "$(dirname "$0")/lib.sh"
		test_a() { eq "$TOOL" "$O/${VARIANT:+asan/}ocaml-probes"; }
		run_tests "$@"
	END
	make_script unknown <<-'END'
		# variants: outside
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		not_in inside test_b
		run_tests "$@"
	END
	WORKERS=1 run_copy engines
	eq "$lines" $'ok engines/test_a\nok engines/test_d\nok inside/engines/test_b\nok inside/engines/test_c\nok inside/engines/test_d\n5 passed, 0 failed, 0 skipped'
	run_copy inside/engines/c engines/test_a
	eq "$(sort <<<"$lines")" $'2 passed, 0 failed, 0 skipped\nok engines/test_a\nok inside/engines/test_c'
	run_copy inside/engines/a
	eq "$lines" $'FAIL inside/engines/a: no such test\n0 passed, 1 failed, 0 skipped'
	# One that is not built does not run.
	run_copy sanitized
	eq "$lines" $'ok sanitized/test_a\n1 passed, 0 failed, 0 skipped'
	mkdir "$TMP/build/asan"
	install /dev/null "$TMP/build/asan/ocaml-probes"
	WORKERS=1 run_copy sanitized
	eq "$lines" $'ok sanitized/test_a\nok asan/sanitized/test_a\n2 passed, 0 failed, 0 skipped'
	eq "$("$TMP/tests/run" --needs sanitized)/$("$TMP/tests/run" --needs asan/sanitized)" "fixtures/asan fixtures"
	run_copy unknown
	matches "$lines" '^FAIL unknown: no such variant: outside'
	sed -i 's/outside/inside/' "$TMP/tests/e2e/unknown.sh"
	run_copy unknown
	matches "$lines" '^FAIL unknown: no such case: test_b'
}

# A script that cannot work on a compiler is not listed for it.
test_a_script_is_not_on_a_compiler() {
	make_script some <<-'END'
		# needs: ocaml
		# not_on: 5.1.* 5.2.*
		. "$(dirname "$0")/lib.sh"
		test_a() { eq 1 1; }
		run_tests "$@"
	END
	run_copy some
	eq "$lines" $'ok some/test_a\n1 passed, 0 failed, 0 skipped'
	eq "$(COMPILER=5.3.0 "$TMP/tests/run" --needs some)" ocaml
	eq "$(COMPILER=5.1.4 "$TMP/tests/run" --needs some 2>&1 || echo "status $?")" $'tests/run: some: no such test\nstatus 1'
}

# Each writes when it begins and ends. It waits until TOGETHER of them have begun (default: 1).
make_scripts_that_wait() { # NAME...
	local name
	for name; do
		make_script "$name" <<-END
			# ${name%%_*}: it
			. "\$(dirname "\$0")/lib.sh"
			test_a() {
				echo "+$name" >>"\$O/log"
				wait_for '[[ \$(grep -c "^+" "\$O/log") -ge \${TOGETHER:-1} ]]'
				pause 0.3
				echo "-$name" >>"\$O/log"
				eq 1 1
			}
			run_tests "\$@"
		END
	done
}

test_the_queue() {
	local order
	make_scripts_that_wait uses_one uses_two alone_one
	# A script with the tag `alone` has nothing beside it, and two that use the same are not beside each other.
	WORKERS=4 run_copy
	eq "$status" 0 "$lines"
	eq "$(head -n 2 "$TMP/build/log" | xargs)" "+alone_one -alone_one"
	eq "$(sed -n 's/^+//p' "$TMP/build/log" | sort | xargs)" "alone_one uses_one uses_two"
	eq "$(sed -n '3,6s/_.*//p' "$TMP/build/log" | xargs)" "+uses -uses +uses -uses"
	# Others are.
	make_scripts_that_wait b_one b_two
	rm "$TMP/build/log"
	WORKERS=2 TOGETHER=2 run_copy b_one b_two
	eq "$(cut -c1 "$TMP/build/log" | xargs)" "+ + - -"
	# The longest is the first.
	printf 'b_two\t3\nb_one\t2\n' >"$TMP/build/test-times"
	for order in longest reverse; do
		rm "$TMP/build/log"
		ORDER=$order WORKERS=1 run_copy 'b_*'
		xargs <"$TMP/build/log"
	done >"$TMP/orders"
	eq "$(<"$TMP/orders")" "+b_two -b_two +b_one -b_one
+b_one -b_one +b_two -b_two"
}

# What a test leaves does not reach the next one, or the machine.
test_scripts_are_apart() {
	need_root
	make_script left <<-'END'
		. "$(dirname "$0")/lib.sh"
		test_a() {
			local folder
			for folder in /tmp /run /dev/shm /sys/fs/bpf "$HOME" "$O/tests"; do
				[[ ! -e $folder/left ]] || fail "$folder is not empty"
				mkdir "$folder/left"
			done
			[[ $(type -p python3) -ef /usr/bin/python3 ]] || fail "python3 is $(type -p python3)"
			eq "$(<"$O/tests/program")" "old"
			echo new >"$O/tests/program"
			[[ -n ${TEST_PROGRAM:-} ]] || return 0
			setsid sleep 1000 &
			wait_for '(($(ps -o sid= "$!") == $!))'
		}
		run_tests "$@"
	END
	mkdir -p "$TMP/build/tests"
	echo old >"$TMP/build/tests/program"
	run_copy left
	eq "$lines" $'ok left/test_a\n# left left processes behind: sleep\n1 passed, 0 failed, 0 skipped'
	# By hand, too.
	eq "$(env -u ISOLATED -u TEST_PROGRAM O="$TMP/build" bash "$TMP/tests/e2e/left.sh")" $'1..1\nok - test_a'
	eq "$(cd "$TMP/build" && find tests; cat "$TMP/build/tests/program")" $'tests\ntests/program\nold'
}

test_lines_are_waited_for() {
	run_fake_script <<-'END'
		test_line() {
			printf 'ready\nsum 12' >"$TMP/said"
			holds has_line "$TMP/said" ready
			holds has_line "$TMP/said" 'sum [0-9]+'
			! holds has_line "$TMP/said" sum
			! holds has_line "$TMP/said" 'ready|sum'
			! holds has_line "$TMP/unsaid" ready
		}
	END
	eq "$lines" $'1..1\nok - test_line'
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
		test_good() { ! false; if false; then :; fi; eq 1 1; }
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
	matches "$lines" '# *[0-9]+ +[0-9]+ S[^ ]* +[^ ]+ +sleep 1000'
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
			eq "$(echo "$TARGET" | tee "$O/left-behind")" "$TARGET"
		}
		test_interrupt() {
			background sh -c 'trap "exit 9" INT; echo ready; while :; do sleep 0.01; done' >"$TMP/out"
			wait_for 'has_text "$TMP/out" ready'
			kill -INT $!
			local status=0
			wait $! || status=$?
			eq "$status" 9
		}
	END
	eq "$lines" $'1..3\nok - test_talk\nok - test_leave\nok - test_interrupt'
	wait_for 'has_ended "$(<"$TMP/left-behind")"'
}

run_tests "$@"
