#!/usr/bin/env bash
# attach --assert: numbers are those of the program's own books, times those of the same run's JSON.
#
# variants: inside
# needs: fixtures ocaml/pairs
# smoke: test_numbers_of_the_books
# takes: 20 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Copies, of which no other test sees the uprobes.
PAIRS=${TMP:-}/pairs
[[ ${1:-} != --one ]] || cp "$O/tests/ocaml/pairs" "$PAIRS"
TIMED=(--time call_start,call_stop --time step_start,step_stop)

# Measure a whole run of `pairs`: the status in STATUS, the data in $TMP/counts, what is said in $TMP/err, the books in $TMP/books.
assert_run() { # ARG...
	need_counting
	start_target "$PAIRS" 2000 2
	await_line ready
	STATUS=0
	# shellcheck disable=SC2016,SC2154 # for the command; of lib.sh
	IN=${target_fd[$TARGET]} OUT=$(output_of) "$TOOL" attach "${ENGINE_FLAGS[@]}" --budget none "$TARGET" -q --json "$@" -- bash -c '
		echo go >&"$IN"; until grep -qx end "$OUT"; do sleep 0.02; done' >"$TMP/counts" 2>"$TMP/err" || STATUS=$?
	# The books have pairs of probes only.
	[[ " $* " == *" fn:"* ]] || compare_with_books pairs "$TMP/counts" "$(output_of)"
	quit_target
}

# The number KEY of the pair START of the totals.
number_of() { # START KEY
	jq -s "last.pairs[] | select(.start == \"$1\").$2" "$TMP/counts"
}

# The runs are equal: what one has counted is what the next one must count.
test_numbers_of_the_books() {
	local calls hits
	assert_run --count "${TIMED[@]}"
	eq "$STATUS/$(<"$TMP/err")" "0/" "without assertions"
	calls=$(number_of call_start count)
	hits=$(jq -s 'last.probes[] | select(.name == "stray_start").hits' "$TMP/counts")
	((calls > 0 && hits > 0)) || fail "$calls calls, $hits hits"
	assert_run --count "${TIMED[@]}" --assert "count(call_start,call_stop) == $calls" --assert "count(stray_start)>=$hits" \
		--assert "rate(stray_start) > 0" --assert "min(call_start, call_stop) <= 1h" --assert "p999(step_start,step_stop) < 1h"
	eq "$STATUS/$(<"$TMP/err")" "0/" "what holds"
}

test_what_fails() {
	local calls hits
	assert_run --count "${TIMED[@]}"
	calls=$(number_of call_start count)
	hits=$(jq -s 'last.probes[] | select(.name == "stray_start").hits' "$TMP/counts")
	assert_run --count "${TIMED[@]}" --assert "count(call_start,call_stop) < $calls" --assert "count(stray_start) == $((hits + 1))" \
		--assert "count(call_start,call_stop) <= $calls" --assert "max(call_start,call_stop) > 1h" --assert "mean(step_start,step_stop) > 2h"
	eq "$STATUS" 8 "status: $(<"$TMP/err")"
	eq "$(grep -c . "$TMP/err")" 4 "lines: $(<"$TMP/err")"
	eq "$(head -n 2 "$TMP/err")" "ocaml-probes: --assert 'count(call_start,call_stop) < $calls' fails: it is $calls
ocaml-probes: --assert 'count(stray_start) == $((hits + 1))' fails: it is $hits"
	# The value that is seen is that of the totals.
	eq "$(sed -nE "s/.*'max\(.*fails: it is ([0-9.e+]+)(ns|us|ms|s), of $calls calls/\1 \2/p" "$TMP/err" |
		awk '{ split("ns 1 us 1e3 ms 1e6 s 1e9", u); for (i = 1; i < 9; i += 2) if (u[i] == $2) printf "%.0f", $1 * u[i + 1] }')" \
		"$(number_of call_start max_ns)" "the maximum"
	matches "$(tail -n 1 "$TMP/err")" "'mean\(step_start,step_stop\) > 2h' fails: it is [0-9.]+(ns|us|ms|s), of $(number_of step_start count) calls$"
}

# A quantile is known within a bucket, of which both ends are named; the quantile of the JSON is between them.
test_a_quantile_is_a_range() {
	local low high p99 scale='{ split("ns 1 us 1e3 ms 1e6 s 1e9", u); for (i = 1; i < 9; i += 2) if (u[i] == $2) printf "%.0f", $1 * u[i + 1] }'
	assert_run "${TIMED[@]}" --assert "p99(call_start,call_stop) > 1h"
	eq "$STATUS" 8 "status: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" "'p99\(call_start,call_stop\) > 1h' fails: it is (from [0-9.]+[num]?s to )?[0-9.]+[num]?s, of [0-9]+ calls$"
	low=$(sed -nE 's/.*it is (from )?([0-9.]+)([num]?s).*/\2 \3/p' "$TMP/err" | awk "$scale")
	high=$(sed -nE 's/.* ([0-9.]+)([num]?s), of .*/\1 \2/p' "$TMP/err" | awk "$scale")
	p99=$(number_of call_start p99_ns)
	((low <= p99 && p99 <= high && high - low <= high / 8)) || fail "$low, $p99, $high: $(<"$TMP/err")"
}

# What was not called has no times; its number is 0.
test_no_calls() {
	start_target "$PAIRS" 2000 2
	need_counting
	await_line ready
	STATUS=0
	"$TOOL" attach "${ENGINE_FLAGS[@]}" "$TARGET" -q --count --time call_start,call_stop --assert 'p99(call_start,call_stop) < 1h' \
		--assert 'count(call_start,call_stop) == 0' --assert 'count(call_start) == 0' --assert 'rate(call_stop) < 1/s' \
		--assert 'min(call_start,call_stop) < 1h' --for 50ms >"$TMP/out" 2>"$TMP/err" || STATUS=$?
	eq "$STATUS/$(<"$TMP/err")" "8/ocaml-probes: --assert 'p99(call_start,call_stop) < 1h' fails: no calls
ocaml-probes: --assert 'min(call_start,call_stop) < 1h' fails: no calls"
	finds '^total, ' "$TMP/out"
}

# Functions have the names with which they are measured. Each of the two threads ends three kinds of pairs.
test_functions() {
	assert_run "${TIMED[@]}" --count --count='fn:Pairs.end_t.*' --time fn:Pairs.end_thread --assert 'count(fn:Pairs.end_thread) == 6' \
		--assert 'max(fn:Pairs.end_thread) < 1h' --assert 'count(fn:Pairs.end_thread) > 6'
	eq "$STATUS/$(<"$TMP/err")" "8/ocaml-probes: --assert 'count(fn:Pairs.end_thread) > 6' fails: it is 6"
	# Without --count, they are the calls that were timed.
	assert_run "${TIMED[@]}" --time fn:Pairs.end_thread --assert 'count(fn:Pairs.end_thread) == 6' --assert 'count(fn:Pairs.end_thread) < 6'
	eq "$STATUS/$(<"$TMP/err")" "8/ocaml-probes: --assert 'count(fn:Pairs.end_thread) < 6' fails: it is 6"
}

# The status of the command comes first.
test_a_command_that_fails() {
	start_target "$PAIRS" 2000 2
	need_counting
	await_line ready
	STATUS=0
	"$TOOL" attach "${ENGINE_FLAGS[@]}" "$TARGET" -q --count --assert 'count(call_start) == 1' -- sh -c 'exit 7' >"$TMP/out" 2>"$TMP/err" || STATUS=$?
	eq "$STATUS/$(<"$TMP/err")" "7/ocaml-probes: --assert 'count(call_start) == 1' fails: it is 0"
}

# What is wrong is refused before anything is changed, also by an engine that would try first.
test_wrong_assertions() {
	local before engine
	start_target "$PAIRS" 2000 2
	need_counting
	await_line ready
	before=$(memory_of "$TARGET")
	refused() { # TEXT ASSERTION ARG...
		check_error 2 "$1" attach "$TARGET" -enable call_start "${@:3}" --assert "$2" -- touch "$TMP/started"
	}
	refused "^ocaml-probes: attach: --assert 'p98\(x\) < 5ms': not one of the functions count, rate, mean, min, max, p50, p90, p99 and p999$" \
		'p98(x) < 5ms' --count
	refused "--assert 'p99\(a,b\) < 5': the bound is not a time with its unit" 'p99(a,b) < 5' --count
	refused "--assert '': not FUNCTION\(NAME\) OPERATOR BOUND" '' --count
	refused "--assert 'p99\(call_start,call_stop\) < 5ms': no --time measures 'call_start,call_stop'" 'p99(call_start,call_stop) < 5ms' --count
	refused "no --time measures 'call_stop,call_start'" 'p99(call_stop,call_start) < 5ms' --time call_start,call_stop
	refused "neither --count nor --time measures 'call_start'" 'count(call_start) == 5' --time call_start,call_stop
	check_error 2 "neither --count nor --time measures 'call_start'" attach "$TARGET" --assert 'count(call_start) == 5'
	check_error 2 "--keep excludes --assert 'count\(call_start\) == 5'" attach "$TARGET" --count --keep it --assert 'count(call_start) == 5'
	for engine in bpf inside auto; do
		refused "^ocaml-probes: --assert 'count\(nosuch\) == 5': 'nosuch' is not counted$" 'count(nosuch) == 5' --count --engine "$engine"
		refused "'step_stop' is not counted$" 'count(step_stop) == 5' --count=call_start,call_stop --engine "$engine"
	done
	check_error 2 "'nosuch' is not counted$" attach "$TARGET" --count --engine auto --assert 'count(nosuch) == 5' --for 50ms
	[[ ! -e $TMP/started ]] || fail "the command was started"
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

run_tests "$@"
