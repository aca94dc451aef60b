#!/usr/bin/env bash
# Counting hits, by each engine: exact, next to handlers and toggling, and nothing is left behind.
#
# variants: inside
# needs: fixtures ocaml/counted ocaml/counted_nopie ocaml/loop
# ocaml5: all
# smoke: test_exact_pie test_toggling_while_counting
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

BINARIES=$O/tests/fixtures/binaries

# "HANDLER-RUNS HITS" of a fixture's probes, added up, at this moment.
report_of() {
	forget_output
	tell report
	await_line end
	awk -F'[= ]' '/handler=/ { runs += $3; hits += $5 } END { print runs, hits }' "$(output_of)"
}

# The counter's total must be the program's own book-keeping, probe by probe. ROUNDS=100000 are three million hits.
ROUNDS=${ROUNDS:-20000}
check_exact() { # PROGRAM
	start_target "$1" "$ROUNDS" 4
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable-all
	start_counting "$TARGET" --json
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	wait "$COUNTING" || fail "status $?: $(<"$TMP/counting.err")"
	finish_target
	eq "$(totals)" "$(handler_runs)" "hits counted and handlers' own counts"
	eq "$(totals | wc -l)" 8 "probes"
	(($(totals | awk '{ n += $2 } END { print n }') >= 30 * ROUNDS)) || fail "too few hits: $(totals)"
}

test_exact_pie() {
	need_counting
	check_exact "$O/tests/ocaml/counted"
}

test_exact_non_pie() {
	need_counting
	check_exact "$O/tests/ocaml/counted_nopie"
}

# Handlers off: every hit is counted and none of them runs.
test_counting_runs_no_handler() {
	need_counting
	start_target "$O/tests/ocaml/counted" 20000 4
	await_line ready
	start_counting "$TARGET" --json
	tell go
	await_line '# in_loop was seen enabled 0 times' 60
	tell quit
	wait "$COUNTING"
	finish_target
	eq "$(handler_runs | awk '{ n += $2 } END { print n }')" 0 "handlers' runs"
	eq "$(totals)" "$(expected_hits)" "hits"
}

# Toggles (TOGGLES=500: a thousand) by other instances while counting at full speed disturb neither; at the end text and
# semaphores are as they were, byte for byte.
test_toggling_while_counting() {
	local runs hits i toggles=${TOGGLES:-50}
	need_counting
	start_target "$O/tests/ocaml/counted" 1000000000 2
	await_line ready
	keep_memory
	start_counting "$TARGET" --json
	tell go
	for ((i = 0; i < toggles; i++)); do
		"$TOOL" attach -pid "$TARGET" -enable in_loop
		"$TOOL" attach -pid "$TARGET" -disable in_loop
	done
	eq "$(handler_runs)" "" "the loops must outlast the toggling; results so far"
	tell stop
	await_line '# in_loop was seen.*' 60
	stop_measuring
	check_clean
	eq "$(totals)" "$(expected_hits)" "hits"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
	runs=$(handler_runs | awk '$1 == "in_loop" { print $2 }')
	hits=$(expected_hits | awk '$1 == "in_loop" { print $2 }')
	((runs > 0)) || fail "the handler never ran"
	((runs < hits)) || fail "the handler ran at every hit, also while off: $runs"
	eq "$(handler_runs | awk '$1 != "in_loop" && $2 != 0')" "" "handlers that were never on"
}

# Counted and toggled (SWITCHES times), the handler stands still while it is off.
test_handler_runs_only_while_on() {
	local i first second settled names switches=${SWITCHES:-8}
	need_counting
	start_target "$(own_copy "$O/tests/fixtures/v1")" --threads 2
	await_line ready
	# All but those that are on from the start.
	names=$("$TOOL" info -pid "$TARGET" | sed -n 's/ disabled$//p' | paste -sd,)
	"$TOOL" attach -pid "$TARGET" -disable-all
	start_counting "$TARGET" --json
	for ((i = 0; i < switches; i++)); do
		first=$(report_of)
		"$TOOL" attach -pid "$TARGET" -enable "$names"
		let_run each
		"$TOOL" attach -pid "$TARGET" -disable "$names"
		second=$(report_of)
		[[ ${first%% *} != "${second%% *}" ]] || fail "no handler ran while on"
		let_run each
		# Each of the two threads may have been inside of a handler when it was switched off;
		# once these have ended, none runs.
		settled=$(report_of)
		((${settled%% *} - ${second%% *} <= 2)) || fail "handlers ran while off: $second, $settled"
		let_run each
		first=$(report_of)
		eq "${first%% *}" "${settled%% *}" "handlers' runs, off"
		[[ ${first##* } != "${second##* }" ]] || fail "the target stands still"
	done
	stop_measuring
}

test_sigkill_leaves_nothing() {
	need_counting
	start_target "$O/tests/ocaml/loop" busy
	await_line ready
	start_counting "$TARGET"
	[[ $(int3_count "$TARGET") -gt 0 ]] || fail "no int3 while counting"
	[[ $(raised_semaphores "$TARGET") -gt 0 ]] || fail "no semaphore raised while counting"
	kill -KILL "$COUNTING"
	wait_for '[[ $(int3_count "$TARGET") -eq 0 && $(raised_semaphores "$TARGET") -eq 0 ]]' 1
	let_run all
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# Is what COMMAND counted the hits of the time it was told, and of no more than it took?
check_time() { # MILLISECONDS COMMAND...
	local least=$1 start span
	shift
	start=$(date +%s%N)
	"$@" >"$TMP/for"
	matches "$(head -1 "$TMP/for")" '^total, [0-9]+\.[0-9]+ s$'
	span=$(sed -n '1s/^total, \(.*\) s$/\1/p' "$TMP/for")
	awk -v span="$span" -v least="$least" -v ns=$(($(date +%s%N) - start)) \
		'BEGIN { exit !(span >= least / 1e3 && span < ns / 1e9) }' || fail "counted for $span s"
}

test_ends_by_time_signal_and_process() {
	need_counting
	start_target "$O/tests/ocaml/loop"
	await_line ready
	check_time 300 "$TOOL" attach "${ENGINE_FLAGS[@]}" -pid "$TARGET" --count --for 300ms
	for signal in INT TERM HUP; do
		start_counting "$TARGET" --all
		kill -"$signal" "$COUNTING"
		wait "$COUNTING"
		eq "$(awk '$1 == "alpha" { print NF }' "$TMP/counts")" 3 "columns after SIG$signal"
		eq "$(int3_count "$TARGET")" 0 "int3 left after SIG$signal"
		eq "$(raised_semaphores "$TARGET")" 0 "semaphores left after SIG$signal"
	done
	start_counting "$TARGET"
	kill -KILL "$TARGET"
	wait "$COUNTING"
	grep -q "pid $TARGET has ended" "$TMP/counting.err"
	matches "$(head -1 "$TMP/counts")" '^total, '
}

test_intervals_add_up() {
	local try
	need_counting
	start_target "$O/tests/ocaml/loop"
	await_line ready
	# As long as these are, a tool that is kept from running for a while misses none. Where the whole machine stands still
	# for a second, it does: it has three tries.
	for try in 1 2 3; do
		"$TOOL" attach --budget none "${ENGINE_FLAGS[@]}" -pid "$TARGET" --count --for 3500ms --interval 1s --json >"$TMP/json"
		[[ $(wc -l <"$TMP/json") -ne 4 ]] || break
	done
	eq "$(wc -l <"$TMP/json")" 4 "objects"
	eq "$(grep -o '"version":4,"type":"[a-z]*"' "$TMP/json" | cut -d'"' -f6 | xargs)" \
		"interval interval interval total"
	# None before its time.
	eq "$(grep -o '"elapsed_s":[0-9.]*' "$TMP/json" | awk -F: '{ print ($2 >= (NR < 4 ? NR : 3.5)) }' | xargs)" \
		"1 1 1 1" "elapsed"
	# Of each probe: what the intervals add up to, and the total.
	grep -o '"type":"[a-z]*"\|"name":"[a-z]*","hits":[0-9]*' "$TMP/json" | tr -d '"' | tr ',' ':' |
		awk -F: '$1 == "type" { total = $2 == "total"; next }
			{ if (total) all[$2] = $4; else part[$2] += $4 }
			END { for (n in all) print n, (part[n] > 0 && part[n] <= all[n])
			      d = all["alpha"] - all["beta"]; print "same time", (d >= -2 && d <= 2) }' |
		sort >"$TMP/sums"
	eq "$(<"$TMP/sums")" "alpha 1
beta 1
gamma 1
same time 1"
}

# Off, on, and off again: a site that was compiled as on stays on.
check_fixture() { # FIXTURE PROGRAM
	local what
	start_target "$2" --wait --threads 2
	await_line ready
	keep_memory
	start_counting "$TARGET" --json
	for what in '' enable disable; do
		[[ -z $what ]] || "$TOOL" attach -pid "$TARGET" "-$what-all"
		forget_output
		tell 'go 200'
		await_line 'done'
	done
	stop_measuring
	eq "$(totals)" "$(fixture_hits "$1" 1200)" "$2: hits"
	check_clean
	forget_output
	quit_target
	eq "$TARGET_STATUS" 0 "$2: status"
	eq "$(sed -n 's/^\(.*\) handler=\([0-9]*\) hits=\([0-9]*\)$/\1 \2 \3/p' "$(output_of)" |
		awk '{ name = NF == 3 ? $1 : "" } $(NF - 1) != (name == "started_on" ? $NF : $NF / 3)')" "" "$2: handlers"
}

# The fixtures: every generation of the ABI, several sites a name, sites astride pages.
test_every_abi() {
	local fixture variant
	need_counting
	for fixture in v0 v0_single transitional transitional_single v1 v1_dot v2; do
		for variant in "$fixture" "$fixture-nopie" "$fixture-stripped"; do
			check_fixture "$fixture" "$(own_copy "$O/tests/fixtures/$variant")"
		done
	done
}

test_static() {
	need_counting
	check_fixture v1 "$(own_copy "$BINARIES/static")"
	check_fixture v1 "$(own_copy "$BINARIES/static-pie")"
	strip -o "$TMP/stripped-static" "$BINARIES/static"
	check_fixture v1 "$TMP/stripped-static"
}

# A process whose first thread has ended is named by another one. The kernel's own filter would find
# no memory of it.
test_the_first_thread_has_ended() {
	local first thread flags
	need_counting
	start_target "$(own_copy "$BINARIES/states")" leader
	first=$TARGET
	wait_for 'grep -q "^State:.Z" "/proc/$TARGET/status"'
	thread=$(find "/proc/$first/task" -mindepth 1 -maxdepth 1 ! -name "$first" -printf %f)
	for flags in --count '--count --children' '--time reused,states_only' '--count --by-site'; do
		# shellcheck disable=SC2086 # several words
		"$TOOL" attach -pid "$thread" $flags --json --for 0.3s >"$TMP/json"
		tail -n 1 "$TMP/json" | finds -E '"(hits|starts)":[1-9]' || fail "$flags: $(<"$TMP/json")"
	done
	"$TOOL" attach -pid "$thread" --count --by-process --json --for 0.3s >"$TMP/json"
	tail -n 1 "$TMP/json" | finds "\"hits\":[1-9][0-9]*,.*\"pid\":$first," || fail "$(<"$TMP/json")"
	start_counting "$thread" --json
	kill -KILL "$first"
	wait "$COUNTING"
	grep -q 'has ended' "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	[[ $(totals | wc -l) -eq 2 ]] || fail "no totals: $(<"$TMP/counts")"
}

# A living process by any of its threads.
test_named_by_another_thread() {
	local thread
	need_counting
	start_target "$(own_copy "$O/tests/fixtures/v1")" --threads 2
	await_line ready
	thread=$(find "/proc/$TARGET/task" -mindepth 1 -maxdepth 1 ! -name "$TARGET" -printf '%f\n' | head -n 1)
	"$TOOL" attach "${ENGINE_FLAGS[@]}" -pid "$thread" --count --by-process --json --for 0.3s >"$TMP/json"
	tail -n 1 "$TMP/json" | finds "\"hits\":[1-9][0-9]*,.*\"pid\":$TARGET," || fail "$(<"$TMP/json")"
}

test_wrong_use() {
	start_target "$O/tests/ocaml/loop"
	await_line ready
	check_error 2 "not a time" attach -pid "$TARGET" --count --for 3x
	check_error 2 "not a time" attach -pid "$TARGET" --count --for -1
	check_error 2 "not a time" attach -pid "$TARGET" --count --interval nan
	check_error 2 "'alpha': named twice" attach -pid "$TARGET" --count=alpha,beta,alpha
	check_error 2 "require --count" attach -pid "$TARGET" -enable alpha --interval 3s
	check_error 5 "no such process" attach -pid 4194304 --count
}

# What counts inside stays in the process when the tool is killed (inside_keep.sh).
not_in inside test_sigkill_leaves_nothing
# The engine looks for a living first thread.
not_in inside test_the_first_thread_has_ended
# Nothing of it is asked of an engine.
not_in inside test_wrong_use

run_tests "$@"
