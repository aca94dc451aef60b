#!/usr/bin/env bash
# --engine inside: counts and pairs against the program's own books, and next to the kernel's.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# The programs are copies, since the kernel's uprobes are on them, too.
start_copy() { # NAME ARG...
	local name=$1
	shift
	cp "$O/tests/ocaml/$name" "$TMP/$name"
	start_target "$TMP/$name" "$@"
	await_line ready
}

check_clean() { # BEFORE
	eq "$(memory_of "$TARGET")" "$1" "text and semaphores"
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

# Counted by both engines, and switched meanwhile.
test_counts() {
	local before i
	need_counting
	start_copy counted 1000000000 4
	before=$(memory_of "$TARGET")
	start_counting "$TARGET" --json --engine inside
	mv "$TMP/counts" "$TMP/counts.inside"
	inside=$COUNTING
	start_counting "$TARGET" --json
	matches "$("$TOOL" doctor -pid "$TARGET")" 'sites count inside of the process'
	tell go
	for ((i = 0; i < 20; i++)); do
		"$TOOL" attach -pid "$TARGET" -enable in_loop
		"$TOOL" attach -pid "$TARGET" -disable in_loop
	done
	eq "$(handler_runs)" "" "the loops must outlast the toggling"
	tell stop
	await_line '# in_loop was seen.*' 60
	kill -INT "$inside" "$COUNTING"
	wait "$inside"
	wait "$COUNTING"
	check_clean "$before"
	eq "$(totals)" "$(expected_hits)" "hits, by the kernel"
	mv "$TMP/counts.inside" "$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, inside"
	tell quit
	finish_target
	(($(handler_runs | awk '$1 == "in_loop" { print $2 }') > 0)) || fail "the handler never ran"
	eq "$(handler_runs | awk '$1 != "in_loop" && $2 != 0')" "" "handlers that were never on"
}

# The owner of a process needs no capabilities. The process ends while it is counted.
test_ordinary_user() {
	local as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	need_command setpriv
	need_root
	chmod 755 "$TMP"
	cp "$O/tests/ocaml/counted" "$TOOL" "$TMP"
	start_target "${as_user[@]}" "$TMP/counted" 100000 2
	await_line ready
	background env -u TMP "${as_user[@]}" "$TMP/ocaml-probes" attach -pid "$TARGET" --count --json \
		>"$TMP/counts" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'grep -q "counting [0-9]* probes" "$TMP/err" || ! kill -0 "$COUNTING"'
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	wait "$COUNTING" || fail "$(cat "$TMP/err")"
	finish_target
	matches "$(cat "$TMP/err")" 'engine: inside, since BPF is not available'
	eq "$(totals)" "$(expected_hits)" "hits"
}

test_pairs() {
	start_copy pairs 100000 4 32
	background "$TOOL" attach -pid "$TARGET" --json --engine inside --time call_start,call_stop >"$TMP/out" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'grep -q "measuring [0-9]* probes" "$TMP/err" || ! kill -0 "$COUNTING"'
	tell go
	await_line end 60
	tell quit
	finish_target
	wait "$COUNTING" || fail "$(cat "$TMP/err")"
	cat "$(output_of)" >"$TMP/books"
	python3 - "$TMP/out" "$TMP/books" <<-'EOF'
		import json, sys
		pair = json.loads(open(sys.argv[1]).read().splitlines()[-1])["pairs"][0]
		said = dict(l.split()[1:3] for l in open(sys.argv[2]) if l.startswith("probe"))
		hits = {name: int(value.split("=")[1]) for name, value in said.items()}
		assert pair["starts"] == hits["call_start"] > 10000, (pair["starts"], hits)
		assert pair["count"] + pair["orphan_stops"] == hits["call_stop"], (pair, hits)
		assert pair["starts"] == pair["count"] + pair["orphan_starts"], pair
		assert sum(b["count"] for b in pair["buckets"]) == pair["count"]
		assert pair["min_ns"] * pair["count"] <= pair["sum_ns"] <= pair["max_ns"] * pair["count"]
	EOF
}

# A killed tool leaves counting sites, which doctor restores.
test_killed_tool() {
	local before
	start_copy counted 1000 2
	before=$(memory_of "$TARGET")
	start_counting "$TARGET" --engine inside
	kill -KILL "$COUNTING"
	wait "$COUNTING" || :
	matches "$("$TOOL" doctor -pid "$TARGET")" 'sites count inside of the process'
	matches "$("$TOOL" doctor -pid "$TARGET" -fix)" 'fixed: [0-9]+ sites restored'
	check_clean "$before"
	kill "$TARGET"
	finish_target
}

test_refused() {
	local what
	start_copy counted 1000 2
	check_error 2 "--engine 'inward': not bpf, inside or auto" attach -pid "$TARGET" --count --engine inward
	check_error 2 '--engine needs --count or --time' attach -pid "$TARGET" --engine inside -enable-all
	for what in '--filter arg0>1' '--by-thread' '--stack' '--children' \
		'--hist arg0' '--by arg0' '--print in_loop'; do
		# shellcheck disable=SC2086 # an option and its value
		check_error 2 "--engine inside excludes ${what%% *}" attach -pid "$TARGET" --count=in_loop --engine inside $what
	done
	for what in '--key arg0' '--slower 1ms'; do
		# shellcheck disable=SC2086
		check_error 2 "excludes ${what%% *}" attach -pid "$TARGET" --time in_loop,alpha --engine inside $what
	done
	check_error 2 'excludes --keep with --by-process' attach -pid "$TARGET" --count --by-process --engine inside --keep x
	check_error 2 'excludes fn:' attach -pid "$TARGET" --count=fn:Counted.main --engine inside
	check_error 2 'excludes -exe' attach -exe "$TMP/counted" --count --engine inside
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
	kill "$TARGET"
	finish_target
}

run_tests "$@"
