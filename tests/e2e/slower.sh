#!/usr/bin/env bash
# Slow pairs (--slower): which, with what arguments, of which thread, against the program's own books
# (tests/ocaml/pairs/slow.ml).
#
# needs: fixtures ocaml
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

SLOW=$O/tests/ocaml/slow

# Nested pairs of three threads, with exceptions that skip stops.
test_books() {
	need_counting
	start_target "$SLOW" 60 3
	await_line ready
	measuring all --time enter,leave --slower 0 --limit 0 --json
	measuring keyed --time enter,leave --slower 0 --limit 0 --key id --json
	measuring slow --time enter,leave --slower 3ms --limit 0 --json --time-of-day --interval 50ms
	measuring filtered --time enter,leave --slower 3000us --limit 0 --json --key id --filter 'id < 300'
	measuring limited --time enter,leave --slower 0ms --limit 5 --json
	measuring text --time enter,leave --slower 3ms --limit 0
	go_measured
	compare_with_books slow "$TMP" "$(output_of)"
}

# The start is in one thread, the stop in another.
test_two_threads() {
	need_counting
	start_target "$O/tests/ocaml/requests" 60
	await_line ready
	background "$TOOL" attach --budget none -pid "$TARGET" --time request_start,request_stop --key id --slower 0 --json \
		>"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" "measuring 2 probes"'
	tell go
	await_line end
	kill -INT $!
	wait $!
	holds python3 - "$TMP/out" "$TARGET" "$(sed -n 's/^pairs=//p' "$(output_of)")" <<-'EOF2'
		import json, sys
		objects = [json.loads(line) for line in open(sys.argv[1])]
		events = [o for o in objects if o["type"] == "slow"]
		assert len(events) == int(sys.argv[3]), len(events)
		for e in events:
		    number = e["stopped"]["named"]["id"]
		    method = "POST" if number % 3 == 0 else "GET"
		    assert e["started"]["named"] == {"id": number, "meth": method, "name": f"request {number}"}, e
		    assert e["stopped"]["named"] == {"id": number, "status": 200, "name": f"request {number}"}, e
		    assert e["started"]["tid"] == int(sys.argv[2]) != e["tid"], e
	EOF2
}

# More starts than have room, and more pairs than the buffer has: what is lost is counted.
test_losses() {
	need_counting
	start_target "$O/tests/ocaml/requests" 20000
	await_line ready
	background "$TOOL" attach --budget none -pid "$TARGET" --time request_start,request_stop --key id --slower 0 --limit 0 \
		--json >"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" "measuring 2 probes"'
	kill -STOP $!
	tell go
	await_line end 60
	kill -CONT $!
	kill -INT $!
	wait $!
	holds python3 - "$TMP/out" "$(sed -n 's/^pairs=//p' "$(output_of)")" <<-'EOF2'
		import json, sys
		objects = [json.loads(line) for line in open(sys.argv[1])]
		events, total = [o for o in objects if o["type"] == "slow"], objects[-1]
		losses = total["losses"]
		assert total["slow"] == total["pairs"][0]["count"] == int(sys.argv[2]), total
		assert len(events) == total["slow_printed"] == total["slow"] - losses["slow_dropped"], losses
		assert losses["slow_dropped"] > 1000 and losses["slow_limited"] == 0, losses
		assert sum(e["started"] is None for e in events) == losses["slow_unkept"], losses
		for e in events:
		    number = e["stopped"]["named"]["id"]
		    assert not e["started"] or e["started"]["named"]["name"] == f"request {number}", e
	EOF2
}

# Every second start never stops: after 4096 of these, starts find no room for their arguments.
test_no_room_for_starts() {
	need_counting
	start_target "$O/tests/ocaml/requests" 10400
	await_line ready
	background "$TOOL" attach --budget none -pid "$TARGET" --time request_start,number --key arg0 --slower 0 --limit 0 --json \
		>"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" "measuring 2 probes"'
	tell go
	await_line end 60
	kill -INT $!
	wait $!
	holds python3 - "$TMP/out" <<-'EOF2'
		import json, sys
		objects = [json.loads(line) for line in open(sys.argv[1])]
		events, total = [o for o in objects if o["type"] == "slow"], objects[-1]
		losses = total["losses"]
		assert len(events) == total["slow"] == total["pairs"][0]["count"] == 5200, total
		lost = [e["stopped"]["named"]["n"] for e in events if not e["started"]]
		kept = [e["started"]["named"]["id"] for e in events if e["started"]]
		assert len(lost) == losses["slow_unkept"] and len(lost) + len(kept) == 5200, losses
		# The kernel has a spare entry for each processor.
		assert 8100 < min(lost) and max(kept) < 8192 + 2 * 600 and len(lost) > 500, (min(lost), max(kept), losses)
		assert losses["slow_dropped"] == losses["slow_limited"] == 0, losses
	EOF2
}

# Calls of functions: their arguments and their times, in deep recursion, after exceptions, in threads and fibres.
test_calls() {
	local timed=() name
	need_counting
	PROGRAMS=slow_calls "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	for name in works nests escapes digs yields; do
		timed+=(--time "fn:Slow_calls.$name")
	done
	[[ $(ocamlopt -version) != 5.* ]] || timed+=(--time fn:Versioned.performs)
	start_target "$TMP/built/slow_calls" 60
	await_line ready
	measuring all "${timed[@]}" --slower 0 --limit 0 --json
	measuring slow "${timed[@]}" --slower 3ms --limit 0 --json
	measuring filtered --time fn:Slow_calls.works --slower 0 --limit 0 --json --filter 'arg0 < 100'
	measuring text --time fn:Slow_calls.works --slower 3ms --limit 0
	go_measured
	compare_with_books slow_calls "$TMP" "$(output_of)"
}

test_wrong_input() {
	local t="attach -pid $$ --time a,b" value
	for value in x '' 10 -1ms nanms 1e99s 5ms5 25h; do
		check_error 2 "--slower '$value': not a time such as 500us, 10ms or 1.5s" $t "--slower=$value"
	done
	check_error 2 '--slower: given twice' $t --slower 1ms --slower 2ms
	check_error 2 '--slower requires --time$' attach -pid $$ --count=a --slower 1ms
	check_error 2 '--engine inside excludes --slower' attach -pid $$ --time fn:A.f --slower 1ms --engine inside
	check_error 2 '--slower and --stack are mutually exclusive' $t --slower 1ms --stack
	check_error 2 '--keep excludes --slower' $t --slower 1ms --keep x
	check_error 2 '--keep excludes --slower' $t --slower 1h --keep x
	check_error 2 '--csv excludes --slower; --json has slow pairs' $t --slower 1ms -csv
	check_error 2 '--limit requires --print or --slower' $t --limit 3
}

run_tests "$@"
