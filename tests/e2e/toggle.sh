#!/usr/bin/env bash
# Switching handlers of live processes: what is on runs, what is off does not, every byte that was
# not asked for stays, and mistakes change nothing.
#
# needs: fixtures ocaml/busy ocaml/counted ocaml/loop
# smoke: test_info_and_switching test_all_or_nothing
# variants: asan
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

states() { # PID
	"$TOOL" info -pid "$1" | paste -sd' '
}

start_loop() { # [VARIANT [ARG]]
	start_target "$O/tests/ocaml/loop${1:-}" "${@:2}"
	await_line ready
}

test_info_and_switching() {
	local variant
	for variant in '' _nopie; do
		start_loop "$variant"
		eq "$(states "$TARGET")" "alpha disabled beta disabled gamma disabled"
		"$TOOL" attach -pid "$TARGET" -enable beta,alpha
		eq "$(states "$TARGET")" "alpha enabled beta enabled gamma disabled"
		let_run all
		"$TOOL" attach --pid "$TARGET" --disable alpha --enable gamma
		eq "$(states "$TARGET")" "alpha disabled beta enabled gamma enabled"
		let_run all
		"$TOOL" attach -pid="$TARGET" -disable-all
		eq "$(states "$TARGET")" "alpha disabled beta disabled gamma disabled"
		tell quit
		finish_target
		eq "$TARGET_STATUS" 0 "status"
		eq "$(handler_runs | awk '$2 > 0 { print $1 }' | xargs)" "alpha beta gamma" "handlers that ran"
	done
}

# BEGIN or END an operation: the handlers have run that often.
operation() { # LINE BEGINS ENDS WHAT
	forget_output
	tell "$1"
	wait_for '[[ -s $(output_of) ]]'
	eq "$(cat "$(output_of)")" "begins $2 ends $3" "$4"
}

# What the manual says of an operation that is under way.
test_pairs_and_operations() {
	start_target "$O/tests/ocaml/busy" told
	await_line ready
	operation begin 0 0 "off"
	"$TOOL" attach -pid "$TARGET" -enable-pair begins,ends
	operation end 0 1 "enabled meanwhile: it is only seen to end"
	operation begin 1 1 "on"
	operation end 1 2 "on"
	operation begin 2 2 "on"
	"$TOOL" attach -pid "$TARGET" -disable-pair begins,ends
	operation end 2 2 "disabled meanwhile: it is only seen to begin"
	"$TOOL" attach -pid "$TARGET" -enable-pair begins,ends
	operation begin 3 2 "on"
	"$TOOL" attach -pid "$TARGET" -disable begins
	operation end 3 3 "the start alone is disabled: it is seen to end"
	operation begin 3 3 "the next one is not seen to begin"
	"$TOOL" attach -pid "$TARGET" -disable ends
	eq "$(states "$TARGET")" "begins disabled ends disabled hit disabled"
}

test_handlers_run_only_when_asked_for() {
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable gamma
	let_run all
	tell quit
	finish_target
	eq "$(handler_runs | awk '$2 > 0 { print $1 }' | xargs)" "gamma" "handlers that ran"
}

test_semaphores_count() {
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable alpha
	"$TOOL" attach -pid "$TARGET" -enable alpha
	"$TOOL" attach -pid "$TARGET" -disable alpha
	eq "$(states "$TARGET")" "alpha enabled beta disabled gamma disabled" "on twice, off once"
	"$TOOL" attach -pid "$TARGET" -disable alpha
	eq "$(states "$TARGET")" "alpha disabled beta disabled gamma disabled"
	check_error 1 "'alpha': is disabled already" attach -pid "$TARGET" -disable alpha
}

test_all_or_nothing() {
	local before
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable beta
	before=$(memory_of "$TARGET")
	check_error 2 "'nosuch': no such probe" attach -pid "$TARGET" -enable alpha,nosuch,gamma
	check_error 1 "'gamma': is disabled already" attach -pid "$TARGET" -disable beta,gamma
	check_error 2 "'alpha': named twice" attach -pid "$TARGET" -enable alpha -enable alpha
	check_error 2 "enabled and disabled" attach -pid "$TARGET" -enable alpha -disable alpha
	check_error 2 "cannot be combined" attach -pid "$TARGET" -enable alpha -enable-all
	check_error 2 "cannot be combined" attach -pid "$TARGET" -disable-all -disable beta
	check_error 2 "unexpected" attach -pid "$TARGET" -enable alpha beta
	check_error 2 "no such option" attach -pid "$TARGET" -enabel alpha
	check_error 2 "requires a value" attach -pid "$TARGET" -enable
	check_error 2 "nothing to do" attach -pid "$TARGET"
	check_error 2 "no such option" info -pid "$TARGET" -enable alpha
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

# Every generation of the ABI, with sites astride pages and 6 bytes apart, probes on from the start,
# semaphore-only probes, foreign notes: on, all handlers run at each hit; off again, all is as before.
test_every_abi() {
	local fixture variant before
	for fixture in v0 v0_single transitional transitional_single v1 v1_dot v2; do
		for variant in "$fixture" "$fixture-nopie" "$fixture-stripped"; do
			start_target "$O/tests/fixtures/$variant" --wait
			await_line ready
			before=$(memory_of "$TARGET")
			"$TOOL" attach -pid "$TARGET" -enable-all
			run_100_rounds
			eq "$(awk -F'[= ]' '/handler=/ && $3 != $5' "$(output_of)")" "" \
				"$variant: handlers that did not run at each hit"
			[[ $("$TOOL" info -pid "$TARGET") != *disabled* ]] || fail "$variant: not all on"
			"$TOOL" attach -pid "$TARGET" -disable-all
			eq "$(memory_of "$TARGET")" "$before" "$variant: text and semaphores"
			quit_target
			eq "$TARGET_STATUS" 0 "$variant: status"
		done
	done
}

run_100_rounds() {
	tell 'go 100'
	await_line 'done'
	forget_output
	tell report
	await_line end
}

# Several instances at once on one process: in the end all their work adds up to nothing.
test_instances_at_once() {
	local before
	start_loop '' busy
	before=$(memory_of "$TARGET")
	toggle_by_four 25
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# The tool killed in each phase: the target runs on, and switching off once repairs what was half done.
test_sigkill_of_the_tool() {
	local before call attach
	start_loop '' busy
	before=$(memory_of "$TARGET")
	attach=("$TOOL" attach -pid "$TARGET")
	list_calls "${attach[@]}" -enable-all
	eq "$(phases)" "journal stop sites semaphores let_go journal" "phases"
	"${attach[@]}" -disable-all
	for call in "${CALLS[@]}" "after:${CALLS[-1]}"; do
		kill_at "$call" "${attach[@]}" -enable-all
		await_running
		"${attach[@]}" -disable-all
		eq "$(states "$TARGET")" "alpha disabled beta disabled gamma disabled" "after a kill at $call"
		eq "$(memory_of "$TARGET")" "$before" "text and semaphores after a kill at $call"
	done
	let_run all
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

test_stopped_process_stays_stopped() {
	start_loop
	kill -STOP "$TARGET"
	await_stopped
	"$TOOL" attach -pid "$TARGET" -enable alpha
	# Let go, each thread runs just as far as to its stop.
	await_stopped
	eq "$(states "$TARGET")" "alpha enabled beta disabled gamma disabled"
	kill -CONT "$TARGET"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

test_traced_by_somebody_else() {
	local before
	need_command gdb
	start_loop
	before=$(memory_of "$TARGET")
	gdb -q -nx -batch -p "$TARGET" -ex 'shell sleep 1000' >"$TMP/gdb" 2>&1 &
	wait_for '! grep -q "TracerPid:.0$" "/proc/$TARGET/status"'
	check_error 6 "being traced by pid [0-9]+ \(gdb\)" attach -pid "$TARGET" -enable alpha
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	kill %?gdb
}

test_what_cannot_be_attached() {
	local command
	check_error 5 "no such process" attach -pid 4194304 -enable a
	check_error 5 "kernel thread" attach -pid 2 -enable a
	check_error 2 "not a process id" attach -pid 0 -enable a
	check_error 2 "not a process id" attach -pid 12x -enable a
	check_error 2 "has no OCaml probes" attach -pid $$ -enable a
	check_error 2 "given twice" attach -pid 1 -pid 1 -enable a
	start_zombie true
	check_error 5 "zombie" attach -pid "$ZOMBIE" -enable a
	for command in profile "profile --off-cpu" "profile --engine ptrace" memprof gc record\ -o\ x report; do
		# shellcheck disable=SC2086 # a command and its flag
		check_error 5 "^ocaml-probes: pid $ZOMBIE \\(true\\): has ended \\(a zombie\\)" $command -pid "$ZOMBIE"
	done
	eq "$("$TOOL" info -pid $$ 2>"$TMP/said" || :)" "" "info of a program without probes"
	matches "$(<"$TMP/said")" "^ocaml-probes: pid $$ .*: not an OCaml program"
}

# Somebody switches one probe meanwhile: what was off already and left so is not switched on by undoing.
test_undo_after_somebody_switched() {
	local tool
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable alpha
	"$TOOL" attach -pid "$TARGET" -disable-all --for 1h &
	tool=$!
	wait_for '[[ $(states "$TARGET") = "alpha disabled beta disabled gamma disabled" ]]'
	# It waits for its end (system call 271, ppoll).
	wait_for 'grep -q "^271 " "/proc/'"$tool"'/syscall"'
	"$TOOL" attach -pid "$TARGET" -enable alpha
	kill -TERM "$tool"
	wait "$tool"
	eq "$(states "$TARGET")" "alpha enabled beta disabled gamma disabled" "after the undo"
	"$TOOL" attach -pid "$TARGET" -disable alpha
	"$TOOL" attach -pid "$TARGET" -disable alpha
	eq "$(states "$TARGET")" "alpha disabled beta disabled gamma disabled" "both users are gone"
}

# --for: on now, and exactly as before at the end, by time, by signal, or with the process.
test_for_a_time() {
	local before signal start
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable gamma
	before=$(memory_of "$TARGET")
	# Too short a time to be looked at in between: it says when it has switched them.
	start=$(date +%s%N)
	"$TOOL" attach -pid "$TARGET" -enable alpha,gamma --for 300ms -v 2>"$TMP/err"
	(($(date +%s%N) - start >= 300000000)) || fail "it did not wait"
	matches "$(<"$TMP/err")" "^ocaml-probes: pid $TARGET: switched 2 probes: [0-9]+ writes"
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores after the time"
	for signal in INT TERM HUP; do
		background "$TOOL" attach -pid "$TARGET" -enable-all --for 1h
		wait_for '[[ $(states "$TARGET") = "alpha enabled beta enabled gamma enabled" ]]'
		kill -"$signal" $!
		wait $!
		eq "$(memory_of "$TARGET")" "$before" "text and semaphores after SIG$signal"
	done
	"$TOOL" attach -pid "$TARGET" -enable-all --for 1h &
	wait_for '[[ $(states "$TARGET") = "alpha enabled beta enabled gamma enabled" ]]'
	tell quit
	finish_target
	wait $!
	eq "$TARGET_STATUS" 0 "status"
}

# A reader that goes away ends it like any other signal.
test_for_a_time_into_a_closed_pipe() {
	local before
	need_counting
	start_loop
	before=$(memory_of "$TARGET")
	("$TOOL" attach --budget none -pid "$TARGET" -enable alpha --count --for 1m --interval 100ms 2>"$TMP/err" || :) | head -n 1 >/dev/null
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	eq "$(grep -v counting "$TMP/err" || :)" "" "what it said"
}

# What somebody else switched meanwhile stays.
test_for_a_time_among_others() {
	start_loop
	background "$TOOL" attach -pid "$TARGET" -enable alpha,beta --for 1h
	wait_for '[[ $(states "$TARGET") = "alpha enabled beta enabled gamma disabled" ]]'
	"$TOOL" attach -pid "$TARGET" -enable beta
	kill -INT $!
	wait $!
	eq "$(states "$TARGET")" "alpha disabled beta enabled gamma disabled"
	"$TOOL" attach -pid "$TARGET" -disable beta
	eq "$(states "$TARGET")" "alpha disabled beta disabled gamma disabled"
}

# Killed, the tool cannot undo; doctor sees it and does.
test_for_a_time_and_sigkill() {
	local before status=0
	start_loop
	before=$(memory_of "$TARGET")
	background "$TOOL" attach -pid "$TARGET" -enable alpha,gamma --for 1h
	wait_for '[[ $(states "$TARGET") = "alpha enabled beta disabled gamma enabled" ]]'
	kill -KILL $!
	wait $! || :
	eq "$(states "$TARGET")" "alpha enabled beta disabled gamma enabled" "left on"
	"$TOOL" doctor -pid "$TARGET" >"$TMP/out" || status=$?
	eq "$status" 1 "doctor's status"
	matches "$(<"$TMP/out")" "alpha.*killed"
	"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/out"
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	"$TOOL" doctor -pid "$TARGET"
}

# A tool that nobody can hear says so.
test_output_that_gets_lost() {
	local status=0
	start_loop
	"$TOOL" info -pid "$TARGET" >/dev/full 2>"$TMP/err" || status=$?
	eq "$status" 1 "status"
	matches "$(<"$TMP/err")" "standard output: No space left"
}

test_a_replaced_binary() {
	cp "$O/tests/ocaml/loop" "$TMP/prog"
	start_target "$TMP/prog"
	await_line ready
	rm "$TMP/prog"
	cp "$O/tests/ocaml/counted" "$TMP/prog"
	"$TOOL" attach -pid "$TARGET" -enable alpha
	eq "$(states "$TARGET")" "alpha enabled beta disabled gamma disabled"
}

# A tool with sanitizers starts eight times slower: the long tests run these cases (tests/parts.py, builds).
not_in asan test_every_abi test_instances_at_once test_sigkill_of_the_tool

run_tests "$@"
