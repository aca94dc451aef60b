#!/usr/bin/env bash
# `--count --by` and `--time --by` with --engine inside: hits and times by the value of an int argument, against the programs'
# own books and against the BPF engine.
#
#   KILLS    at how many system calls to kill the tool (default: 10)
#
# needs: fixtures serve ocaml
# ocaml5: test_functions test_function_times test_calls test_times test_stack_overflow test_values_that_are_not_ints test_serve
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"
. "$(dirname "$0")/kills_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"
. "$(dirname "$0")/routes_lib.sh"

start_requests() { # REQUESTS
	cp "$O/tests/ocaml/requests" "$TMP/requests.new"
	mv "$TMP/requests.new" "$TMP/requests"
	start_target "$TMP/requests" "$1"
	await_line ready
}

# What a new process does for so many requests is measured with these options: OUT is what the tool prints.
measure_requests() { # OUT REQUESTS FLAG...
	start_requests "$2"
	start_measuring "${@:3}"
	tell go
	await_line 'negative=.*' 60
	stop_measuring
	cp "$TMP/counts" "$1"
	quit_target
}

build_grouped() {
	PROGRAMS=grouped "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
}

# Count calls of functions in the ENGINE, by the argument ARG, in four threads and two domains.
check_functions() { # ENGINE ARG NAMES FLAG...
	local BY=$1 MEASURED=("--count=$3" --by "$2" "${@:4}")
	start_measured "$TMP/out" "$TMP/built/grouped" 2000 4 2
	await_line ready
	tell go
	await_line end 60
	quit_target
	wait "$COUNTING" || fail "$(<"$TMP/out.err")"
	eq "$TARGET_STATUS" 0 "status"
	compare_with_books function_groups "$1" "$TMP/out" "$(output_of)" "${@:4}"
}

# Recursions and exceptions, many values, and values that are no ints, with both engines; a filter counts some of them.
test_functions() {
	local engine
	need_counting
	need_command python3
	build_grouped
	for engine in inside bpf; do
		check_functions "$engine" arg0 fn:Grouped.pick,fn:Grouped.some,fn:Grouped.deep
		check_functions "$engine" arg1 fn:Grouped.second
	done
	check_functions inside arg0 fn:Grouped.pick,fn:Grouped.deep --filter 'arg0 > 2'
}

# Probes with positive and negative ints: the groups are those of the kernel.
test_probes() {
	local engine
	need_counting
	need_command python3
	for engine in inside bpf; do
		measure_requests "$TMP/by.$engine" 300 --json --count=request_start,request_stop --by id --engine "$engine"
	done
	compare_with_books same_groups "$TMP/by.inside" "$TMP/by.bpf" request_start 330
	for engine in inside bpf; do
		measure_requests "$TMP/by.$engine" 300 --json --count=number --by arg0 --filter 'arg0 >= -30' --engine "$engine"
	done
	# 150 even numbers, and -3 to -27
	compare_with_books same_groups "$TMP/by.inside" "$TMP/by.bpf" number 155
}

# Of each value, all hits are known or none is; the sum is that of all hits.
test_more_values_than_room() {
	need_command python3
	measure_requests "$TMP/out" 60000 --json --count=number --by arg0 --engine inside
	compare_with_books most_groups "$TMP/out" number 60000 30000 32768
}

# Of pairs, by key and by thread, nested and with orphans: starts, sites that start one and stop another, filters.
test_times() {
	local engine
	need_counting
	need_command python3
	check_times 285 --time request_start,request_stop --by id
	check_times 275 --time request_start,request_stop --by id --filter 'id > 10'
	check_times "300 299" --time request_start,number --time number,request_start --by arg0 --key none --count=number
	check_times "144 289" --time number,request_start --time request_start,number --by arg0 --key none --filter 'arg0 > 10'
	for engine in inside bpf; do
		measure_requests "$TMP/by.$engine" 300 --json --time request_start,request_stop --by id --interval 1ms --engine "$engine"
	done
	compare_with_books same_times "$TMP/by.inside" "$TMP/by.bpf" 285
	holds python3 - "$TMP/by.inside" <<-'PY'
	import collections, json, sys
	*intervals, total = map(json.loads, open(sys.argv[1]))
	parts = collections.Counter(g["value"] for t in intervals for g in t["groups"] for _ in range(g["count"]))
	assert intervals and parts <= collections.Counter({g["value"]: g["count"] for g in total["groups"]}), parts
	PY
}

# Measure the same with both engines. NUMBERS are those of the groups of each pair.
check_times() { # NUMBERS FLAG...
	local engine
	for engine in inside bpf; do
		measure_requests "$TMP/by.$engine" 300 --json "${@:2}" --engine "$engine"
	done
	# shellcheck disable=SC2086 # several numbers
	compare_with_books same_times "$TMP/by.inside" "$TMP/by.bpf" $1
}

# Of all values, the first 4096 have times, as in the kernel.
test_more_times_than_room() {
	local engine
	need_counting
	need_command python3
	for engine in inside bpf; do
		measure_requests "$TMP/by.$engine" 17000 --json --time request_start,number --by arg0 --key none --engine "$engine"
	done
	compare_with_books same_times "$TMP/by.inside" "$TMP/by.bpf" 4097
}

# Calls of functions with any values, in threads and domains.
test_function_times() {
	local BY MEASURED=(--time fn:Grouped.pick --time fn:Grouped.some --by arg0)
	need_counting
	need_command python3
	build_grouped
	for BY in inside bpf; do
		start_measured "$TMP/out" "$TMP/built/grouped" 2000 4 2
		await_line ready
		tell go
		await_line end 60
		quit_target
		wait "$COUNTING" || fail "$(<"$TMP/out.err")"
		eq "$TARGET_STATUS" 0 "status"
		compare_with_books function_times "$BY" "$TMP/out" "$(output_of)"
	done
}

# Recursions, calls that exceptions end, other threads and fibres in a call: each time is within the books' limits.
test_calls() {
	local of
	need_command python3
	PROGRAMS=slow_calls "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	for of in works:arg0 escapes:arg2 digs:arg1 yields:arg0; do
		start_target "$TMP/built/slow_calls" 60
		await_line ready
		start_measuring --json --time "fn:Slow_calls.${of%:*}" --by "${of#*:}" --engine inside
		tell go
		await_line end 60
		stop_measuring
		compare_with_books call_groups "${of%:*}" "$TMP/counts" "$(output_of)"
		quit_target
	done
}

# Tables and CSV are those of the other engine.
test_outputs() {
	local out
	measure_requests "$TMP/out" 70 --count=number --by arg0 --top 3 --engine inside
	out=$(<"$TMP/out")
	matches "$out" $'\nnumber by arg0\narg0 +hits +hits/s\n'
	matches "$out" $'\nothers \\(67 values\\) +67 '
	measure_requests "$TMP/out" 70 --csv --count=request_start --by id --engine inside
	eq "$(python3 -c '
import csv, sys
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["kind"] == "group"]
print({int(r["args"]): int(r["count"]) for r in rows} == {n: 1 if n % 10 else 2 for n in range(70)})' "$TMP/out")" True "CSV"
	measure_requests "$TMP/out" 70 --time request_start,number --by arg0 --key none --top 3 --engine inside
	out=$(<"$TMP/out")
	matches "$out" $'\nrequest_start,number by arg0\narg0 +count +mean +'
	matches "$out" $'\nothers \\(67 values\\) +67 '
	measure_requests "$TMP/out" 70 --csv --time request_start,number --by arg0 --key none --engine inside
	eq "$(python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
groups = [r for r in rows if r["kind"] == "group"]
pair, = (r for r in rows if r["kind"] == "pair")
print({int(r["args"]): int(r["count"]) for r in groups} == {n: 1 for n in range(70)},
      sum(int(r["sum_ns"]) for r in groups) == int(pair["sum_ns"]))' "$TMP/out")" "True True" "CSV of times"
}

test_values_that_are_not_ints() {
	start_target "$(own_copy "$ROUTES/routes")"
	await_line ready
	start_measuring --json --count=anything --by route --engine inside
	tell numbers
	await_line 'done'
	stop_measuring
	eq "$(tail -n 1 "$TMP/counts" | python3 -c '
import json, sys
print(sorted((str(g["value"]), g.get("why"), g["hits"]) for g in json.load(sys.stdin)["groups"]))')" "[('5', None, 1), ('None', 'not an int', 5)]" "groups"
	start_measuring --count=anything --by route --engine inside
	forget_output
	tell numbers
	await_line 'done'
	stop_measuring
	matches "$(<"$TMP/counts")" $'\n\\? \\(not an int\\) +5 '
	quit_target
}

# Recursions without end: each hit is in a group or, at the end of the stack, among the others.
test_stack_overflow() {
	local MEASURED=(--count=fn:Overflow.deeper --by arg0)
	need_command python3
	mkdir "$TMP/built"
	cat >"$TMP/built/overflow.ml" <<-'ML'
	let calls = ref 0
	let[@inline never] rec deeper n = incr calls; 1 + Sys.opaque_identity (deeper n)
	let () =
	  let overflows = ref 0 in
	  for i = 1 to 50 do
	    try ignore (deeper (i mod 2)) with Stack_overflow -> incr overflows
	  done;
	  Printf.printf "%d %d\n" !overflows !calls
	ML
	(cd "$TMP/built" && ocamlopt -g overflow.ml -o overflow)
	ulimit -Ss 2048
	OCAMLRUNPARAM=l=1M start_measured "$TMP/out" "$TMP/built/overflow"
	finish_target
	wait "$COUNTING" || fail "$(<"$TMP/out.err")"
	eq "$TARGET_STATUS" 0 "status"
	holds python3 - "$TMP/out" "$(output_of)" <<-'PY'
	import json, sys
	result = json.loads(open(sys.argv[1]).read().splitlines()[-1])
	overflows, calls = map(int, open(sys.argv[2]).read().split())
	probe, = result["probes"]
	groups = {g.get("value", "others"): g["hits"] for g in result["groups"]}
	print(overflows, calls, probe, groups)
	assert overflows == 50 and probe["hits"] - calls in range(51) and calls > 50 * 1000
	assert sum(groups.values()) == probe["hits"] and groups.pop("others", 0) <= 50 * 8
	assert set(groups) == {0, 1} and min(groups.values()) > 25 * 1000
	PY
}

# The groups of several processes are joined, and so are their times.
test_several_processes() {
	local first
	start_requests 30
	first=$TARGET
	start_target "$TMP/requests" 50
	await_line ready
	start_measuring --json --count=number --time request_start,number --key none --by arg0 --engine inside -pid "$first" -pid "$TARGET"
	tell go
	await_line 'negative=.*' 60
	quit_target
	TARGET=$first
	tell go
	await_line 'negative=.*' 60
	stop_measuring
	eq "$(tail -n 1 "$TMP/counts" | python3 -c '
import json, sys
t = json.load(sys.stdin)
groups = {g["value"]: g["hits"] for g in t["groups"] if "hits" in g}
times = [g for g in t["groups"] if "hits" not in g]
pair, = t["pairs"]
print(groups == {-3 * n if n % 2 else n: 2 if n < 30 else 1 for n in range(50)},
      {g["value"]: g["count"] for g in times} == {n: 2 if n < 30 else 1 for n in range(50)},
      sum(g["sum_ns"] for g in times) == pair["sum_ns"], max(g["max_ns"] for g in times) == pair["max_ns"],
      min(g["min_ns"] for g in times) == pair["min_ns"])')" "True True True True True" "groups"
	quit_target
}

# The tool is killed at its system calls, one after the other: the program continues, and `doctor --fix` restores its code.
test_kills() {
	local tool flags
	PROGRAMS=calls "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	for flags in --count=fn:Calls.fib,fn:Calls.frames --time=fn:Calls.fib; do
		start_target "$TMP/built/calls" 0 2
		await_line ready
		tell go
		tool=("$TOOL" attach -q --budget none -pid "$TARGET" "$flags" --by arg0 --engine inside --for 10ms)
		kill_while_calls_are_counted "${KILLS:-10}" "${tool[@]}"
	done
}

# What a killed tool has left is read without groups, and removed.
test_left_counters() {
	start_requests 20
	start_measuring --json --count=number --by arg0 --engine inside
	kill -KILL "$COUNTING"
	wait "$COUNTING" 2>"$TMP/killed" || :
	tell go
	await_line 'negative=.*' 60
	matches "$("$TOOL" read -pid "$TARGET")" $'\nnumber +20 '
	"$TOOL" detach -pid "$TARGET" >"$TMP/out"
	matches "$(<"$TMP/out")" $'\nnumber +20 '
	holds has_own_code
	quit_target
}

# A label of the metrics, as with the other engine; what is not an int is `other`.
test_serve() {
	need_module prometheus_client
	cp "$ROUTES/routes" "$TMP/routes"
	start_target "$TMP/routes"
	await_line ready
	printf '{ "listen": "127.0.0.1:0", "targets": [{ "exe": "%s", "count": ["number", "anything"], "by": "route", "engine": "inside" }] }\n' \
		"$TMP/routes" >"$TMP/config"
	start_server --config "$TMP/config"
	wait_for 'get metrics | grep -q "^ocaml_probes_hits_total{probe=\"number\""'
	tell numbers
	await_line 'done'
	wait_for 'get metrics | grep -q "^ocaml_probes_hits_total{probe=\"number\".*route=\"0\"} 1$"'
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{probe=\("[a-z]*"\).*route=\(.*\)}/\1 \2/p' | LC_ALL=C sort)" \
		'"anything" "5" 1
"anything" "other" 5
"number" "-3" 1
"number" "-4611686018427387904" 1
"number" "0" 1
"number" "4611686018427387903" 1
"number" "5" 2
"number" "other" 0' "hits"
	end_server
	holds has_own_code
	quit_target
}

# ... and of times: of each value, a histogram.
test_serve_times() {
	need_module prometheus_client
	cp "$ROUTES/routes" "$TMP/routes"
	start_target "$TMP/routes"
	await_line ready
	printf '{ "listen": "127.0.0.1:0", "targets": [{ "exe": "%s", "time": [["request_started", "request_done"]], "by": "rid", "engine": "inside" }] }\n' \
		"$TMP/routes" >"$TMP/config"
	start_server --config "$TMP/config"
	wait_for 'get metrics | grep -q "^ocaml_probes_pair_duration_seconds_count"'
	tell 'go 3 2'
	await_line 'done'
	wait_for 'get metrics | grep -q "^ocaml_probes_pair_duration_seconds_count{.*rid=\"3\"} 1$"'
	eq "$(get metrics | sed -n 's/^ocaml_probes_pair_duration_seconds_count{.*rid=\(.*\)}/\1/p' | LC_ALL=C sort)" \
		'"1" 1
"2" 1
"3" 1
"other" 0' "counts"
	end_server
	holds has_own_code
	quit_target
}

test_messages() {
	local t
	start_requests 5
	t="attach -pid $TARGET --engine inside"
	check_error 2 "probe 'number': no argument 'id' for the groups" $t --time number,request_stop --by id
	check_error 2 "probe 'request_start': no argument 'idd' for the groups" $t --count=request_start --by idd
	check_error 2 "attach: --keep excludes --by" $t --count=number --by arg0 --keep by_test
	holds has_own_code
	tell go
	await_line 'negative=.*'
	quit_target
	start_target "$(own_copy "$ROUTES/routes")"
	await_line ready
	check_error 4 "^ocaml-probes: probe 'request_started': route is a string, and the engine .inside. groups by ints$" \
		attach -pid "$TARGET" --engine inside --count=request_started --by route
	check_error 4 "^ocaml-probes: probe 'request_started': route is a string, and the engine .inside. groups by ints$" \
		attach -pid "$TARGET" --engine inside --time request_started,request_done --by route
	holds has_own_code
	quit_target
}

TEST_TIMEOUT=300
run_tests "$@"
