#!/usr/bin/env bash
# --filter with --engine inside: against the programs' own books, and against the kernel's filter in the same run. The events of
# `record`, too.
#
# needs: fixtures ocaml/requests ocaml/args ocaml/forking
# ocaml5: all
# smoke: test_filters_of_functions
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/record_lib.sh"

# One a test script, also for the bash that runs a test alone.
NAME=ocp_filters_$PPID
REQUESTS=$O/tests/ocaml/requests

# The value of a Python EXPRESSION of `t`, the last JSON object of FILE.
of_last() { # FILE EXPRESSION
	python3 -c '
import json, sys
t = json.loads(open(sys.argv[1]).read().splitlines()[-1])
print(eval(sys.argv[2]))' "$1" "$2"
}

# The number that the program says NAME is.
told() { # NAME
	sed -n "s/^$1=//p" "$(output_of)"
}

# What the engines `bpf` and `inside` have measured in one run, in $TMP/out.bpf and $TMP/out.inside, is the same, but for times.
same_by_both() {
	holds python3 - "$TMP/out.bpf" "$TMP/out.inside" <<-'EOF'
	import json, sys
	COUNTS = "start", "stop", "starts", "count", "orphan_starts", "orphan_stops", "open", "map_full", "not_keyed"
	def of(name):
	    t = json.loads(open(name).read().splitlines()[-1])
	    return ({p["name"]: p["hits"] for p in t["probes"]},
	            # A recording has phases of the collector, too: those that the engine can time.
	            sorted([str(pair.get(member)) for member in COUNTS] for pair in t.get("pairs", []) if not pair["start"].startswith("gc:")),
	            t["losses"]["filtered"], t["losses"]["filter_mismatches"])
	bpf, inside = map(of, sys.argv[1:])
	print(bpf, inside, sep="\n")
	assert bpf == inside
	EOF
}

# ---- probes -----------------------------------------------------------------------------------

start_requests() { # N
	need_counting
	start_target "$REQUESTS" "$1"
	await_line ready
}

test_filters_of_probes() {
	start_requests 2000
	measuring inside --json --engine inside --count=number --filter 'arg0 < 0'
	measuring bpf --json --count=number --filter 'arg0 < 0'
	go_measured
	eq "$(of_last "$TMP/out.inside" 't["probes"][0]["hits"], t["losses"]["filtered"], t["losses"]["filter_mismatches"]')" \
		"($(told negative), $((2000 - $(told negative))), 0)" "hits"
	same_by_both
	# What was rejected has cost its time, too.
	of_last "$TMP/out.inside" 't["cpu_overhead"] * t["span_s"] * 1e9 / t["cost_per_hit_ns"]' >"$TMP/cost"
	eq "$(printf '%.0f' "$(<"$TMP/cost")")" 2000 "hits that the cost line knows of"
}

# A filter is about the start of a pair: a start that is filtered out does not count, and its stop is no orphan.
test_filters_of_pairs() {
	local engine
	start_requests 2000
	for engine in bpf inside; do
		measuring "$engine" --json --engine "$engine" --count=request_start --time request_start,request_stop --key arg0 \
			--filter 'arg0 >= 1000'
	done
	go_measured
	same_by_both
	eq "$(of_last "$TMP/out.inside" '[t["pairs"][0][n] for n in ("count", "orphan_starts", "orphan_stops", "open")]')" \
		"[950, 100, $(told orphan_stops), 50]"
}

# By thread: many more starts are open than have room, and no stop is in their thread.
test_filters_by_thread() {
	local engine
	start_requests 2000
	for engine in bpf inside; do
		measuring "$engine" --json --engine "$engine" --time request_start,request_stop --key none --depth 8 \
			--filter '!(arg0 < 3 || arg0 > 1500)'
	done
	go_measured
	same_by_both
	eq "$(of_last "$TMP/out.inside" '[t["pairs"][0][n] for n in ("starts", "count", "orphan_stops", "open")]')" \
		"[$((1498 + 150)), 0, $(told stops), 0]"
}

# ---- functions --------------------------------------------------------------------------------

# A program with books: functions with ints, with values that may be anything, that recur, and that exceptions end; in threads.
build_filtered() {
	mkdir "$TMP/built"
	cat >"$TMP/built/filtered.ml" <<-'ML'
	let fibs = ref 0 and large_fibs = ref 0 and ints = ref 0 and large_ints = ref 0 and mixes = ref 0 and blocks = ref 0 and positives = ref 0
	let picks = ref 0 and high_picks = ref 0 and picked = ref 0 and raises = ref 0 and low_raises = ref 0 and high_returns = ref 0
	let[@inline never] rec fib n =
	  incr fibs; if n > 10 then incr large_fibs;
	  if n < 2 then n else fib (n - 1) + fib (n - 2)
	let[@inline never] mixed (x : Obj.t) y =
	  incr mixes;
	  if Obj.is_int x then begin incr ints;
	    if (Obj.obj x : int) > 10 then incr large_ints; if (Obj.obj x : int) > 2 then incr positives end else incr blocks;
	  Sys.opaque_identity y
	let[@inline never] pick a b c d =
	  incr picks; if a > 2 then incr high_picks;
	  if b = -7 || (c >= 1_000_000_000_000 && a <> 3) then incr picked;
	  a + b + c + d
	let[@inline never] raises_at n =
	  incr raises; if n <= 10 then incr low_raises;
	  if n mod 3 = 0 then raise Exit;
	  if n > 10 then incr high_returns;
	  n
	let work () =
	  for i = 1 to 300 do
	    if i <= 60 then ignore (fib (i mod 13));
	    ignore (mixed (if i mod 3 = 0 then Obj.repr (string_of_int i) else Obj.repr (i - 150)) i);
	    ignore (pick (i mod 5) (if i mod 4 = 0 then -7 else i) (i * 7_000_000_000) i);
	    (try ignore (raises_at (i mod 20)) with Exit -> ());
	    if i mod 50 = 0 then Thread.yield ()
	  done
	let () =
	  let n = int_of_string Sys.argv.(1) in
	  print_endline "ready"; ignore (input_line stdin);
	  List.iter Thread.join (List.init n (fun _ -> Thread.create work ()));
	  List.iter (fun (name, n) -> Printf.printf "%s=%d\n" name !n)
	    [ "fibs", fibs; "large_fibs", large_fibs; "ints", ints; "large_ints", large_ints; "blocks", blocks; "positives", positives;
	      "picks", picks; "high_picks", high_picks; "picked", picked; "raises", raises; "low_raises", low_raises; "high_returns", high_returns ];
	  print_endline "end"; ignore (try input_line stdin with End_of_file -> "")
	ML
	(cd "$TMP/built" && ocamlopt -g -I +unix -I +threads unix.cmxa threads.cmxa filtered.ml -o filtered) >"$TMP/warnings" 2>&1 ||
		fail "$(<"$TMP/warnings")"
}

start_filtered() { # THREADS
	[[ -d $TMP/built ]] || build_filtered
	need_counting
	start_target "$TMP/built/filtered" "$1"
	await_line ready
}

# Each engine measures a run of its own: a uprobe and a window are never in one function of a process.
by_both() { # THREADS FLAG...
	local engine
	for engine in bpf inside; do
		start_filtered "$1"
		background "$TOOL" attach -pid "$TARGET" --budget none --json --engine "$engine" "${@:2}" >"$TMP/out.$engine" 2>"$TMP/err.$engine"
		measurements=($!)
		wait_for 'has_text "$TMP/err.$engine" "ing [0-9]+ probe" || has_ended "${measurements[0]}"'
		! has_ended "${measurements[0]}" || fail "$(<"$TMP/err.$engine")"
		tell go
		await_line end 60
		end_measurements
	done
	same_by_both
}

test_filters_of_functions() {
	by_both 4 --count=fn:Filtered.pick --filter 'arg1 == -7 || (arg2 >= 1000000000000 && arg0 != 3)'
	eq "$(of_last "$TMP/out.inside" 't["probes"][0]["hits"], t["losses"]["filtered"]')" \
		"($(told picked), $(($(told picks) - $(told picked))))"
}

# The times of calls that match; an exception ends some of the others.
test_filters_of_calls() {
	by_both 4 --time fn:Filtered.fib --time fn:Filtered.raises_at --count=fn:Filtered.fib --count=fn:Filtered.raises_at --filter 'arg0 > 10'
	eq "$(of_last "$TMP/out.inside" 'sorted((p["name"], p["hits"]) for p in t["probes"])')" \
		"[('fn:Filtered.fib', $(told large_fibs)), ('fn:Filtered.raises_at', $(($(told raises) - $(told low_raises))))]"
	eq "$(of_last "$TMP/out.inside" '[(p["starts"], p["count"] + p["orphan_starts"] + p["open"]) for p in t["pairs"]]')" \
		"[($(told large_fibs), $(told large_fibs)), ($(($(told raises) - $(told low_raises))), $(($(told raises) - $(told low_raises))))]"
	eq "$(of_last "$TMP/out.inside" '[p["count"] for p in t["pairs"]]')" "[$(told large_fibs), $(told high_returns)]"
}

# An argument that is not an int has no answer: the comparison is false, and the output says so.
test_filters_of_other_values() {
	by_both 2 --count=fn:Filtered.mixed --filter 'arg0 > 10'
	eq "$(of_last "$TMP/out.inside" 't["probes"][0]["hits"], t["losses"]["filter_mismatches"]')" "($(told large_ints), $(told blocks))"
	eq "$(of_last "$TMP/out.inside" 't["losses"]["filter_mismatch"]')" \
		"arg0 of probe 'fn:Filtered.mixed' is not an int and is compared with a number"
}

# ---- other measurements -----------------------------------------------------------------------

# Kept: the numbers are read without the tool that made the filter, while they grow and at the end.
test_filters_kept() {
	local as_user=(env -u TMP setpriv --clear-groups --bounding-set=-all --inh-caps=-all --reuid=65534 --regid=65534) said
	build_filtered
	need_root
	need_command setpriv
	chmod 755 "${TMP%/*}" "$TMP" "$TMP/built"
	cp "$TOOL" "$TMP"
	start_target "${as_user[@]}" "$TMP/built/filtered" 3
	await_line ready
	# Without a capability, this is the engine that measures.
	"${as_user[@]}" "$TMP/ocaml-probes" attach -pid "$TARGET" --engine auto --keep "$NAME" --count=fn:Filtered.pick --count=fn:Filtered.mixed \
		--filter 'arg0 > 2' --budget none 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'engine: inside, since BPF is not available'
	"${as_user[@]}" "$TMP/ocaml-probes" read "$NAME" --json >"$TMP/before"
	eq "$(of_last "$TMP/before" '[p["hits"] for p in t["probes"]], t["losses"]["filtered"]')" "([0, 0], 0)"
	tell go
	await_line end 60
	said=$("${as_user[@]}" "$TMP/ocaml-probes" detach "$NAME")
	matches "$said" "fn:Filtered.pick +$(told high_picks) "
	matches "$said" "fn:Filtered.mixed +$(told positives) "
	matches "$said" "(^|[^0-9])$((1800 - $(told high_picks) - $(told positives))) hits rejected by the filter"
	matches "$said" "$(told blocks) hits with an argument of another type than the filter.s: .* is not an int"
}

# Several processes, of which one forks: the children count into the numbers of their parent.
test_filters_of_processes() {
	local pids=() i
	build_filtered
	for i in 1 2 3; do
		start_filtered "$i"
		pids+=("$TARGET")
	done
	background "$TOOL" attach -pid "${pids[0]}" -pid "${pids[1]}" -pid "${pids[2]}" --engine inside --budget none --json \
		--count=fn:Filtered.pick --by-process --filter 'arg1 != -7' >"$TMP/out" 2>"$TMP/err"
	measurements=($!)
	wait_for 'has_text "$TMP/err" "counting 1 probe"'
	for i in 0 1 2; do
		tell go "${pids[i]}"
		await_line end 60 "${pids[i]}"
	done
	end_measurements
	eq "$(of_last "$TMP/out" 'sorted(p["hits"] for p in t["probes"]), t["losses"]["filtered"]')" "([225, 450, 675], 450)"
}

# `top` and `serve` measure processes as they come, each with the filter.
test_filters_in_top() {
	build_filtered
	start_filtered 2
	background "$TOOL" top --batch 1000 -pid "$TARGET" --engine inside --count=fn:Filtered.pick --filter 'arg1 != -7' >"$TMP/out" 2>"$TMP/err"
	measurements=($!)
	wait_for 'grep -q "^screen 2/" "$TMP/out" || has_ended "${measurements[0]}"'
	! has_ended "${measurements[0]}" || fail "$(<"$TMP/err")"
	tell go
	await_line end 60
	wait_for '[[ $(awk "\$7 == \"fn:Filtered.pick\" { print \$2 }" "$TMP/out" | tail -n 1) = 450 ]]'
	eq "$(<"$TMP/err")" "" "said"
	kill -TERM "${measurements[0]}"
	wait "${measurements[0]}" || fail "status $?: $(<"$TMP/err")"
	measurements=()
}

# ---- recordings -------------------------------------------------------------------------------

# Record a run by each engine. Both have the same numbers, and the same events with the same ints: the engine inside reads no others.
recorded_by_both() { # START ARG... -- FLAG...
	local engine start=()
	while [[ $1 != -- ]]; do
		start+=("$1")
		shift
	done
	for engine in bpf inside; do
		"${start[@]}"
		RECORD_FLAGS=(--engine "$engine" --no-waits --hz 0)
		record_work --json "${@:2}"
		check_totals
		mv "$TMP/db" "$TMP/db.$engine"
		mv "$TMP/totals" "$TMP/out.$engine"
		mv "$TMP/err" "$TMP/err.$engine"
	done
	same_by_both
	holds python3 - "$TMP/db.bpf" "$TMP/db.inside" <<-'EOF' || fail "$(<"$TMP/err.inside")"
	import collections, json, sqlite3, sys
	def events(name):
	    rows = sqlite3.connect(name).execute(
	        "select 'instant', name, args from instants where category = 'probe' union all select category, name, args from slices "
	        "where category in ('pair', 'function') union all select 'unended', name, args from unended where category != 'gc'").fetchall()
	    return [(kind, name, {k: v for k, v in json.loads(args).items() if not k.startswith("on thread")}) for kind, name, args in rows]
	bpf, inside = map(events, sys.argv[1:])
	unread = {(kind, name, key) for kind, name, args in inside for key, value in args.items() if value == "?"}
	def sums(rows):
	    return collections.Counter((kind, name, tuple((k, v) for k, v in args.items() if (kind, name, k) not in unread)) for kind, name, args in rows)
	assert sums(bpf) == sums(inside), (sums(bpf) - sums(inside), sums(inside) - sums(bpf))
	print(len(bpf), "events")
	EOF
}

test_recorded_hits_and_pairs() {
	recorded_by_both start_requests 600 -- --print request_start --print request_stop --filter 'arg0 >= 100 && arg0 != 301'
	eq "$(of_last "$TMP/out.inside" 't["losses"]["filtered"]')" "$(($(told starts) + $(told stops) - $(python3 - "$TMP/db.inside" <<-'EOF'
		import sqlite3, sys
		print(sqlite3.connect(sys.argv[1]).execute("select count(*) from instants where category = 'probe'").fetchone()[0])
	EOF
	)))" "hits that are not there"
	# The stops of the starts that are filtered out are no orphans.
	recorded_by_both start_requests 600 -- --print request_start --time request_start,request_stop --key arg0 --filter 'arg0 >= 100'
	eq "$(of_last "$TMP/out.inside" 't["pairs"][0]["orphan_stops"]')" "$(told orphan_stops)" "orphans"
	# By thread, more starts are open than have room.
	recorded_by_both start_requests 600 -- --time request_start,request_stop --key none --depth 8 --filter '!(arg0 < 3 || arg0 > 400)'
	eq "$(of_last "$TMP/out.inside" '[t["pairs"][0][n] for n in ("count", "orphan_stops")]')" "[0, $(told stops)]" "orphans by thread"
}

# Calls, some of which exceptions end; an argument that is no int.
test_recorded_calls() {
	recorded_by_both start_filtered 4 -- --time fn:Filtered.fib --time fn:Filtered.raises_at --filter 'arg0 > 10'
	eq "$(of_last "$TMP/out.inside" '[p["count"] for p in t["pairs"] if p["start"].startswith("fn:")]')" "[$(told large_fibs), $(told high_returns)]"
	recorded_by_both start_filtered 2 -- --time fn:Filtered.mixed --filter 'arg0 > 10'
	eq "$(of_last "$TMP/out.inside" 't["losses"]["filter_mismatches"]')" "$(told blocks)" "values that are no ints"
}

# A flight recorder decides as by BPF: how often a condition held.
conditions_hold() { # START ARG... -- FLAG...
	local engine held=() start=()
	while [[ $1 != -- ]]; do
		start+=("$1")
		shift
	done
	for engine in bpf inside; do
		"${start[@]}"
		RECORD_FLAGS=(--engine "$engine" --no-waits --hz 0)
		start_recording -o "$TMP/flight.$engine" --last 1h "${@:2}"
		tell go
		await_line end 60
		stop_recording
		held+=("$(sed -n 's/.*1 file written; a condition held \([0-9]*\) times/\1/p' "$TMP/err")")
	done
	((held[1] > 50)) || fail "held: ${held[*]}"
	eq "${held[1]}" "${held[0]}" "how often a condition held"
}

test_recorded_conditions() {
	conditions_hold start_requests 300 -- --when 'hit request_start if id > 100 && (id < 150 || id >= 290)' \
		--when 'hit request_stop if status >= 200 && id = 7' --when 'hit request_start if id < -3'
	! finds "warning: --when" "$TMP/err" || fail "$(<"$TMP/err")"
	conditions_hold start_filtered 2 -- --when 'hit fn:Filtered.pick if arg1 == -7 && arg0 > 1' --when 'hit fn:Filtered.mixed if arg0 > 10'
}

# ---- what is refused --------------------------------------------------------------------------

test_refused() {
	start_requests 10
	check_error 4 "probe 'request_start': the filter compares arg1 with a string, and the engine .inside. compares ints" \
		attach -pid "$TARGET" --count=request_start --filter 'arg1 == "GET"' --engine inside
	check_error 4 "probe 'request_start': the filter compares arg1 with a string" \
		attach -pid "$TARGET" --count=request_start --filter 'arg0 > 3 && !(arg1 ^= "G")' --engine inside
	check_error 2 "no arg7 for the filter: it has 3 arguments" \
		attach -pid "$TARGET" --count=request_start --filter 'arg7 == 1' --engine inside
	check_error 4 "probe 'request_start': the filter compares arg1 with a string, and the engine .inside. compares ints" \
		record -pid "$TARGET" --print request_start --filter 'arg1 == "GET"' --engine inside -o "$TMP/trace" -quiet
	[[ ! -e $TMP/trace ]] || fail "a trace"
	"$TOOL" attach -pid "$TARGET" --count=request_start --filter 'arg1 == "GET"' --engine auto --for 10ms >"$TMP/out" 2>"$TMP/err"
	matches "$(<"$TMP/err")" 'engine: bpf, since inside is not possible: .*the filter compares arg1 with a string'
	# The field of a record is neither in a register nor on the stack. The program stops before OCaml code runs.
	mkfifo "$TMP/gate"
	start_target env GATE="$TMP/gate" LD_PRELOAD="$O/tests/fixtures/binaries/libgate.so" "$O/tests/ocaml/args"
	await_exe "$O/tests/ocaml/args"
	check_error 4 "probe 'fields_rifs': the engine .inside. cannot read arg1, which is neither in a register nor on the stack" \
		attach -pid "$TARGET" --count=fields_rifs --filter 'arg1 > 1' --engine inside
}

run_tests "$@"
