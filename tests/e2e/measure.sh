#!/usr/bin/env bash
# Counts by probe, site, thread and process, and pairs, against the programs' own book-keeping, by each engine.
#
# variants: inside
# needs: fixtures ocaml
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Copies, of which no other test sees the uprobes.
OCAML=${TMP:-}/ocaml
[[ ${1:-} != --one ]] || { mkdir "$OCAML" && cp "$O"/tests/ocaml/{pairs,pairs_nopie,counted,skipping} "$OCAML"; }
# The matrix has one of each of its compilers.
SKIPPING=${SKIPPING:-$OCAML/skipping}
ALL_PAIRS=(--time call_start,call_stop --time step_start,step_stop --time stray_start,stray_stop)

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
	compare_with_books pairs "$TMP/counts" "$(output_of)" ${WHAT:-}
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- exactness ----------------------------------------------------------------------------------

# HITS=10000000 takes a minute.
test_hits_of_many_threads() {
	check_pairs "$OCAML/pairs" "${HITS:-400000}" 8 32 --count "${ALL_PAIRS[@]}"
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
	check_pairs "$SKIPPING" 2000 4 32 --count --time nest_start,nest_stop --time lone_start,lone_stop \
		--time pass_start,pass_stop --time visit_start,visit_stop
	measured_that 'all(pair["starts"] > 10000 for pair in pairs)' \
		'[pair["orphan_starts"] / pair["starts"] > 0.05 for pair in pairs] == [True, True, True, False]'
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
	cp "$(output_of)" "$TMP/books"
	measured_that "$TMP/books" -- \
		'[pair["starts"] for pair in pairs] == [said["probe"][name]["hits"] for name in ("call_start", "call_start", "step_start")]' \
		'[pair["count"] for pair in pairs[:2]] == [said["probe"][name]["hits"] for name in ("call_stop", "step_stop")]' \
		'pairs[1]["orphan_starts"] == pairs[1]["starts"] - pairs[1]["count"]' \
		'pairs[2]["count"] + pairs[2]["orphan_stops"] == said["probe"]["call_stop"]["hits"]'
}

# ---- splits -------------------------------------------------------------------------------------

test_by_site() {
	local line
	need_counting
	need_command python3
	start_target "$OCAML/counted" 20000 4
	await_line ready
	start_measuring --json --count --by-site
	tell go
	await_line '# in_loop was seen.*' 60
	stop_measuring
	# `inlined` has a site in each of two functions, which take turns, and one in its own, which nobody calls.
	line=$(grep -n 'probe "tail"' "$ROOT/tests/ocaml/counted.ml" | cut -d: -f1)
	measured_that 'sorted((p["function"].rsplit("_", 1)[0], p["hits"]) for p in probes if p["name"] == "inlined") == [
			("camlCounted__even", 40000), ("camlCounted__inlined_probe", 0), ("camlCounted__odd", 40000)]' \
		'[(p["hits"], p["function"].rsplit("_", 1)[0], p["file"].split("/")[-1], p["line"], p["exe"].split("/")[-1])
			for p in probes if p["name"] == "tail"] == [(80000, "camlCounted__tail_probe", "counted.ml", '"$line"', "counted")]' \
		'all(p["function_offset"] >= 0 and p["address"] > 0 for p in probes)'
	# All together are what the probes have.
	measured_that "hits == {$(expected_hits | sed 's/\(.*\) /"\1": /' | paste -sd,)}"
}

test_by_thread() {
	check_pairs "$OCAML/pairs" 200000 8 32 --count --by-thread
}

# The hits of each process are what that says itself.
check_processes() { # PID...
	local pid books=''
	for pid; do
		books+="$pid: $(sed -n 's/^probe .* hits=//p' "$(output_of "$pid")" | paste -sd+), "
	done
	measured_that "hits_by('pid') == {$books}"
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
	start_measuring --exe "$OCAML/pairs" --count --by-process --json
	start_target "$OCAML/pairs" 30000 2 && later=$TARGET
	await_line ready
	for TARGET in $first $second $later $stranger; do tell go && await_line end 60; done
	stop_measuring
	check_processes $first $second $later
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
	start_measuring -pid "$first" -pid "$second" --count --by-process --json
	for TARGET in $first $second $stranger; do tell go && await_line end 60; done
	stop_measuring
	check_processes $first $second
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
	compare_with_books intervals "$TMP/counts"
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
	matches "$(<"$TMP/counts")" 'orphan starts 18, orphan stops 20, map full 0'
	matches "$(<"$TMP/counts")" ', open 0
note: stray_start,stray_stop: 20% of its starts have no stop; usual causes: an exception skips the stop \(use Fun.protect ~finally\), or it is in another thread \(use --key argN\)
 '
	matches "$(<"$TMP/counts")" 'call_start +[0-9]+ '
	matches "$(<"$TMP/counts")" 'an empty pair measures ([0-9]+ns|[0-9.]+us) here'
	matches "$(<"$TMP/counts")" 'CPU overhead: [0-9]+ hits/s x [0-9.]+ ns per hit = [0-9.]+% of a core'
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

# What the engine excludes: splits by thread, keys, programs; and what is asked of no engine.
not_in inside test_by_thread test_pairs_while_counts_are_by_thread test_skipped_stops_by_key test_every_process_of_a_program test_wrong_use

run_tests "$@"
