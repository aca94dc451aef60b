#!/usr/bin/env bash
# Counts by probe, site, thread and process, and pairs, against the programs' own book-keeping.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Copies, of which no other test sees the uprobes.
OCAML=${TMP:-}/ocaml
[[ ${1:-} != --one ]] || { mkdir "$OCAML" && cp "$O"/tests/ocaml/{pairs,pairs_nopie,counted,skipping} "$OCAML"; }
# The matrix has one of each of its compilers.
SKIPPING=${SKIPPING:-$OCAML/skipping}
COMPARE=$(dirname "$0")/compare_pairs.py
ALL_PAIRS=(--time call_start,call_stop --time step_start,step_stop --time stray_start,stray_stop)

# Start `attach ARG...` on TARGET in the background; return when it measures. Sets MEASURING.
start_measuring() { # ARG...
	: >"$TMP/measuring.err"
	background "$TOOL" attach -pid "$TARGET" "$@" >"$TMP/measured" 2>"$TMP/measuring.err"
	MEASURING=$!
	wait_for 'grep -qE "(counting|measuring) [0-9]+ probes" "$TMP/measuring.err" ||
		! kill -0 "$MEASURING"'
	kill -0 "$MEASURING" 2>/dev/null || fail "it does not measure: $(cat "$TMP/measuring.err")"
}

stop_measuring() {
	kill -INT "$MEASURING"
	wait "$MEASURING" || fail "status $?: $(cat "$TMP/measuring.err")"
}

# Measure a whole run of `pairs`, or `skipping`, and compare.
check_pairs() { # PROGRAM HITS THREADS DEPTH|turns ARG...
	local program=$1 hits=$2 threads=$3 depth=$4
	shift 4
	need_counting
	need_command python3
	start_target "$program" "$hits" "$threads" "$depth"
	await_line ready
	start_measuring --json "$@"
	tell go
	await_line end 120
	stop_measuring
	# shellcheck disable=SC2086 # none or one
	python3 "$COMPARE" "$TMP/measured" "$(output_of)" ${WHAT:-} || fail "$(cat "$(output_of)")"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- exactness ----------------------------------------------------------------------------------

test_ten_million_hits() {
	check_pairs "$OCAML/pairs" 10000000 8 32 --count "${ALL_PAIRS[@]}"
}

test_not_position_independent() {
	check_pairs "$OCAML/pairs_nopie" 400000 8 32 --count "${ALL_PAIRS[@]}"
}

# Deeper than what is remembered: the oldest starts are dropped, and their stops find none.
test_lesser_depth() {
	check_pairs "$OCAML/pairs" 200000 8 6 "${ALL_PAIRS[@]}" --depth 6
}

# A start takes the place of the one before, which becomes an orphan.
test_depth_of_one() {
	check_pairs "$OCAML/pairs" 200000 8 1 "${ALL_PAIRS[@]}" --depth 1
}

test_pairs_while_counts_are_by_thread() {
	check_pairs "$OCAML/pairs" 200000 8 32 --count --by-thread "${ALL_PAIRS[@]}"
}

# Handlers on meanwhile: they do nothing, but the sites are calls, which take their time.
test_handlers_on() {
	WHAT=counts check_pairs "$OCAML/pairs" 200000 4 32 --count "${ALL_PAIRS[@]}" -enable-all
}

# Exceptions skip the stops of a tenth of the pairs, also of nested ones, and hundreds of one thread before
# any other: counts and times are those of the program all the same.
test_skipped_stops() {
	check_pairs "$SKIPPING" 8000 4 32 --count --time nest_start,nest_stop --time lone_start,lone_stop \
		--time pass_start,pass_stop --time visit_start,visit_stop
	python3 - "$TMP/measured" <<-'EOF'
		import json, sys
		pairs = json.loads(open(sys.argv[1]).read().splitlines()[-1])["pairs"]
		for pair, low, high in zip(pairs, (0.08, 0.08, 0.07, 0), (0.12, 0.12, 0.12, 0)):
		    assert pair["starts"] > 50000, pair["starts"]
		    assert low <= pair["orphan_starts"] / pair["starts"] <= high, (pair["start"], pair["orphan_starts"])
		EOF
}

# Fibres that take turns within a pair and go on in other domains, some skipping their stops: by key.
test_skipped_stops_by_key() {
	check_pairs "$SKIPPING" 10000 2 turns --count --time turn_start,turn_stop --key arg0
}

# One probe may start several pairs.
test_probe_in_several_pairs() {
	need_counting
	need_command python3
	start_target "$OCAML/pairs" 100000 4 32
	await_line ready
	start_measuring --json --time call_start,call_stop --time call_start,step_stop \
		--time step_start,call_stop
	tell go
	await_line end 60
	stop_measuring
	# Each step is in a call of its own: a thread's starts of calls and stops of steps alternate but
	# for those that escape, which have no step.
	python3 - "$TMP/measured" "$(output_of)" <<-'EOF'
		import json, sys
		pairs = json.loads(open(sys.argv[1]).read().splitlines()[-1])["pairs"]
		said = dict(l.split()[1:3] for l in open(sys.argv[2]) if l.startswith("probe"))
		hits = {name: int(value.split("=")[1]) for name, value in said.items()}
		calls, steps, cross = hits["call_stop"], hits["step_stop"], hits["call_start"] - hits["step_stop"]
		assert pairs[0]["count"] == calls, (pairs[0]["count"], calls)
		assert pairs[1]["count"] == steps, (pairs[1]["count"], steps)
		assert pairs[1]["starts"] == hits["call_start"]
		assert pairs[1]["orphan_starts"] == cross, (pairs[1], cross)
		assert pairs[2]["starts"] == hits["step_start"]
		assert pairs[2]["count"] + pairs[2]["orphan_stops"] == calls, (pairs[2], calls)
	EOF
}

# ---- splits -------------------------------------------------------------------------------------

test_by_site() {
	need_counting
	need_command python3
	start_target "$OCAML/counted" 20000 4
	await_line ready
	start_measuring --json --count --by-site
	tell go
	await_line '# in_loop was seen.*' 60
	stop_measuring
	# `inlined` has a site in each of two functions, which take turns, and one in its own, which nobody calls.
	python3 - "$TMP/measured" <<-'EOF' >"$TMP/rows"
		import json, sys
		for row in json.loads(open(sys.argv[1]).read().splitlines()[-1])["probes"]:
		    if row["name"] in ("inlined", "in_functor", "tail"):
		        place = f"{row['file'].split('/')[-1]}:{row['line']}" if row["file"] else "-"
		        print(row["name"], row["hits"], row["function"].rsplit("_", 1)[0], place,
		              row["exe"].split("/")[-1], row["function_offset"] >= 0 and row["address"] > 0)
	EOF
	LC_ALL=C sort "$TMP/rows" >"$TMP/sorted"
	eq "$(awk '$1 == "inlined" { print $2, $3, $5 }' "$TMP/sorted")" \
		"0 camlCounted__inlined_probe counted
40000 camlCounted__even counted
40000 camlCounted__odd counted"
	eq "$(awk '$1 == "tail" { print $2, $3, $4, $6 }' "$TMP/sorted")" \
		"80000 camlCounted__tail_probe counted.ml:$(grep -n 'probe "tail"' "$ROOT/tests/ocaml/counted.ml" | cut -d: -f1) True"
	eq "$(awk '$1 == "in_functor" { n += $2 } END { print n }' "$TMP/sorted")" 80000
	# All together are what the probes have.
	python3 - "$TMP/measured" <<-'EOF' | LC_ALL=C sort >"$TMP/sums"
		import json, sys, collections
		sums = collections.Counter()
		for row in json.loads(open(sys.argv[1]).read().splitlines()[-1])["probes"]:
		    sums[row["name"]] += row["hits"]
		for name, hits in sums.items():
		    print(name, hits)
	EOF
	eq "$(cat "$TMP/sums")" "$(expected_hits)" "sums of sites"
}

test_by_thread() {
	check_pairs "$OCAML/pairs" 200000 8 32 --count --by-thread
}

# "PID HITS" by process of TMP/measured.
hits_by_process() {
	python3 - "$TMP/measured" <<-'EOF' | sort
		import json, sys, collections
		sums = collections.Counter()
		for row in json.loads(open(sys.argv[1]).read().splitlines()[-1])["probes"]:
		    sums[row["pid"]] += row["hits"]
		for pid, hits in sums.items():
		    print(pid, hits)
	EOF
}

# What a target of `pairs` says it hit: "PID HITS".
said_by() { # PID
	echo "$1 $(sed -n 's/^probe .* hits=//p' "$(output_of "$1")" | paste -sd+ | bc)"
}

# All processes of a program, also one that starts later, and not those of a copy of it.
test_every_process_of_a_program() {
	local first second later stranger
	need_counting
	need_command python3
	cp "$OCAML/pairs" "$TMP/pairs"
	start_target "$OCAML/pairs" 50000 2 && first=$TARGET
	start_target "$OCAML/pairs" 80000 2 && second=$TARGET
	start_target "$TMP/pairs" 50000 2 && stranger=$TARGET
	for TARGET in $first $second $stranger; do await_line ready; done
	background "$TOOL" attach --exe "$OCAML/pairs" --count --by-process --json >"$TMP/measured" \
		2>"$TMP/measuring.err"
	MEASURING=$!
	wait_for 'grep -q "counting 6 probes" "$TMP/measuring.err"'
	start_target "$OCAML/pairs" 30000 2 && later=$TARGET
	await_line ready
	for TARGET in $first $second $later $stranger; do tell go && await_line end 60; done
	stop_measuring
	eq "$(hits_by_process)" "$(for pid in $first $second $later; do said_by "$pid"; done | sort)"
}

# Named processes only, although others run the same file.
test_some_processes() {
	local first second stranger
	need_counting
	need_command python3
	cp "$OCAML/pairs" "$TMP/pairs"
	start_target "$OCAML/pairs" 50000 2 && first=$TARGET
	start_target "$OCAML/pairs" 80000 2 && second=$TARGET
	start_target "$OCAML/pairs" 50000 2 && stranger=$TARGET
	for TARGET in $first $second $stranger; do await_line ready; done
	TARGET=$first
	start_measuring -pid "$second" --count --by-process --json
	for TARGET in $first $second $stranger; do tell go && await_line end 60; done
	stop_measuring
	eq "$(hits_by_process)" "$(for pid in $first $second; do said_by "$pid"; done | sort)"
}

# ---- outputs ------------------------------------------------------------------------------------

# Of counts, pairs and buckets intervals add up to the total.
test_intervals_add_up() {
	need_counting
	need_command python3
	start_target "$OCAML/pairs" 400000 4
	await_line ready
	start_measuring --count "${ALL_PAIRS[@]}" --json --interval 20ms
	tell go
	await_line end 60
	sleep 0.2
	stop_measuring
	python3 - "$TMP/measured" <<-'EOF'
		import json, sys
		*parts, total = [json.loads(line) for line in open(sys.argv[1])]
		assert total["type"] == "total" and len(parts) >= 4, len(parts)
		assert all(p["type"] == "interval" and p["version"] == 4 for p in parts)
		for i, probe in enumerate(total["probes"]):
		    assert sum(p["probes"][i]["hits"] for p in parts) == probe["hits"], probe
		    assert sum(p["probes"][i]["hits"] > 0 for p in parts) > 1 or "stray" in probe["name"]
		for i, pair in enumerate(total["pairs"]):
		    for figure in "count", "sum_ns", "orphan_starts", "orphan_stops":
		        assert sum(p["pairs"][i][figure] for p in parts) == pair[figure], (figure, pair)
		    buckets = {}
		    for p in parts:
		        for b in p["pairs"][i]["buckets"]:
		            buckets[b["from_ns"]] = buckets.get(b["from_ns"], 0) + b["count"]
		            assert b["below_ns"] <= b["from_ns"] * 9 / 8 or b["from_ns"] < 16, b
		    assert buckets == {b["from_ns"]: b["count"] for b in pair["buckets"]}, buckets
	EOF
}

# A table for people has every loss counter and the floor, also where they are 0.
test_table() {
	need_counting
	start_target "$OCAML/pairs" 50000 2
	await_line ready
	start_measuring --time stray_start,stray_stop --count
	tell go
	await_line end 60
	stop_measuring
	matches "$(cat "$TMP/measured")" 'orphan starts 18, orphan stops 20, map full 0'
	matches "$(cat "$TMP/measured")" ', open 0
note: stray_start,stray_stop: 20% of its starts have no stop; usual causes: an exception skips it \(use Fun.protect ~finally\), or it is in another thread \(use --key argN\)
 '
	matches "$(cat "$TMP/measured")" 'call_start +[0-9]+ '
	matches "$(cat "$TMP/measured")" 'an empty pair measures ([0-9]+ns|[0-9.]+us) here'
	matches "$(cat "$TMP/measured")" 'CPU overhead: [0-9]+ hits/s x [0-9]+ ns per hit = [0-9.]+% of a core'
}

# ---- wrong use: an error before anything is attached --------------------------------------------

test_wrong_use() {
	start_target "$OCAML/pairs" 1000
	await_line ready
	attach_error 2 "equal|same|differ" --time call_start,call_start
	attach_error 2 "not two names" --time call_start
	attach_error 2 "not two names" --time call_start,call_stop,step_start
	attach_error 2 "probe 'nothing': no such probe" --time nothing,call_stop
	attach_error 2 "probe 'nothing': no such probe" --time call_start,nothing
	attach_error 2 "probe 'call_stat': no such probe" --count=call_stat
	grep -q "^hint: did you mean 'call_start'" "$TMP/err"
	attach_error 2 "matches no probe" --count='zz.'
	attach_error 2 "regular expression" --count='['
	attach_error 2 "depth" --time call_start,call_stop --depth 0
	attach_error 2 "depth" --time call_start,call_stop --depth 33
	attach_error 2 "depth" --time call_start,call_stop --depth 1x
	attach_error 2 "mutually exclusive" --count --by-site --by-thread
	attach_error 2 "budget" --count --budget 0
	attach_error 2 "" --by-site
	attach_error 2 "" --depth 3
	eq "$(int3_count "$TARGET")" 0 "int3"
}

attach_error() { # STATUS TEXT ARG...
	local status=$1 text=$2
	shift 2
	check_error "$status" "$text" attach -pid "$TARGET" "$@" --for 100ms
}

run_tests "$@"
