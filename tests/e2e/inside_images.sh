#!/usr/bin/env bash
# Counting inside a process whose images lie further apart than one jump reaches.
#
# needs: fixtures ocaml
# uses: all-blocks
ENGINE=inside
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/inside_lib.sh"

TEST_TIMEOUT=600
# One a test script, also for the bash that runs a test alone.
KEPT=ocp_images_$PPID

# A plugin lies further from its program than one jump reaches. `round` passes the probes of both.
start_plugin_host() {
	cp "$O/tests/ocaml/plugin_host" "$O/tests/ocaml/plugin.cmxs" "$TMP"
	start_target "$TMP/plugin_host" "$TMP/plugin.cmxs"
	await_line ready
	keep_memory
	ROUNDS=0
}

rounds() { # N
	local i
	for ((i = 0; i < $1; i++)); do
		tell go
	done
	ROUNDS=$((ROUNDS + $1))
	wait_for '[[ $(grep -c "^host=" "$(output_of)") -eq $ROUNDS ]]' 60
}

handled() {
	tail -n 1 "$(output_of)"
}

# The data of the counters, once near each image.
check_parts() { # N
	eq "$(grep -c 'rw-s 00000000 .*memfd:ocaml-probes-inside' "/proc/$TARGET/maps")" "$1" "parts: $(<"/proc/$TARGET/maps")"
}

# "FILE PROBE HITS" of each site.
hits_by_image() {
	tail -n 1 "$TMP/counts" | sed -nE 's/"name"/\n&/g; p' |
		sed -nE 's:^"name"\:"([a-z_]+)","hits"\:([0-9]+),.*"exe"\:"[^"]*/([a-z_.]+)".*:\3 \1 \2:p'
}

# What happened in each pair.
pairs_of_totals() {
	tail -n 1 | python3 -c '
import json, sys
for pair in json.load(sys.stdin)["pairs"]:
    print(*(f"{name}:{pair[name]}" for name in ("count", "starts", "orphan_starts", "orphan_stops")))'
}

# What nobody counts is as it was: also the plugin, whose notes memory_of does not read.
check_nothing_left() {
	check_clean
	check_unmapped
	eq "$("$TOOL" info -pid "$TARGET" --sites --json | grep -c '"inside":true' || :)" 0 "sites that count"
}

test_plugins() {
	start_plugin_host
	start_measuring --json --count --by-site --time reused,plugin_only
	check_parts 2
	check_error 6 'is already counted inside' attach -pid "$TARGET" --count --engine inside --for 10ms
	rounds 20
	eq "$(handled)" 'host=0 plugin=0' "handlers"
	"$TOOL" attach -pid "$TARGET" -enable plugin_only
	rounds 20
	"$TOOL" attach -pid "$TARGET" -disable plugin_only -enable reused
	rounds 20
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$(handled)" 'host=20 plugin=40' "handlers"
	stop_measuring
	eq "$(hits_by_image)" "plugin.cmxs plugin_only 60
plugin_host reused 60
plugin.cmxs reused 60" "hits"
	# Each stop, in the plugin, ends the start that the program has just made. Those of the plugin stay open: 32 do.
	eq "$(pairs_of_totals <"$TMP/counts")" 'count:60 starts:120 orphan_starts:28 orphan_stops:0' "pairs"
	check_nothing_left
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# Pairs that begin in one image and end in another one are those of the BPF engine.
test_pairs_of_two_images() {
	local pairs=(--time reused,plugin_only --time plugin_only,reused) inside
	need_bpf
	start_plugin_host
	start_measuring --json "${pairs[@]}"
	inside=$COUNTING
	: >"$TMP/bpf.err"
	background "$TOOL" attach -pid "$TARGET" --json "${pairs[@]}" >"$TMP/bpf" 2>"$TMP/bpf.err"
	wait_for 'has_text "$TMP/bpf.err" "measuring"' 60
	rounds 25
	kill -INT $!
	wait $!
	COUNTING=$inside stop_measuring
	eq "$(pairs_of_totals <"$TMP/counts")" "$(pairs_of_totals <"$TMP/bpf")" "pairs"
	matches "$(pairs_of_totals <"$TMP/counts" | head -n 1)" '^count:25 '
	check_nothing_left
}

# A site that disagrees with its semaphore has a gate in the data, which the code of each part sees.
test_gates_of_a_plugin() {
	local site
	start_plugin_host
	site=$("$TOOL" info -pid "$TARGET" --sites --json | python3 -c '
import json, sys
print(next(site["address"] for site in json.load(sys.stdin)["sites"] if site["probe"] == "plugin_only"))')
	poke $((site + 1)) 0xe8
	rounds 5
	eq "$(handled)" 'host=0 plugin=5' "handlers before"
	start_measuring --count --json
	rounds 5
	stop_measuring
	eq "$(totals)" "plugin_only 5
reused 10" "hits"
	rounds 5
	eq "$(handled)" 'host=0 plugin=15' "handlers"
	poke $((site + 1)) 0x3d
	check_nothing_left
}

# What one tool has begun is found, read and ended by others, and after a tool that was killed.
test_plugins_kept_and_killed() {
	start_plugin_host
	"$TOOL" attach -pid "$TARGET" --engine inside --keep "$KEPT" --count 2>"$TMP/err" || fail "$(<"$TMP/err")"
	rounds 10
	"$TOOL" list --kept 2>"$TMP/err" | finds "^$KEPT .*pid $TARGET\$"
	"$TOOL" read "$KEPT" --json >"$TMP/counts"
	eq "$(totals)" "plugin_only 10
reused 20" "hits, read"
	rounds 10
	"$TOOL" detach "$KEPT" --json >"$TMP/counts"
	eq "$(totals)" "plugin_only 20
reused 40" "hits, detached"
	check_nothing_left

	start_measuring --count --json
	rounds 10
	kill -KILL "$COUNTING"
	wait "$COUNTING" || :
	rounds 10
	"$TOOL" read -pid "$TARGET" --json >"$TMP/counts"
	eq "$(totals)" "plugin_only 20
reused 40" "hits, read -pid"
	"$TOOL" detach -pid "$TARGET" >"$TMP/out"
	check_nothing_left

	start_measuring --count --json
	kill -KILL "$COUNTING"
	wait "$COUNTING" || :
	"$TOOL" doctor -pid "$TARGET" | finds '3 sites counted inside the process'
	matches "$("$TOOL" doctor -pid "$TARGET" -fix)" 'fixed: 3 sites restored'
	check_nothing_left
	rounds 5
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- a program and a library that check their registers: what happens in the second part ------------

# The fixture `inside` with libfar.so. A round passes the probes of both.
load_far() {
	local maps=/proc/$TARGET/maps
	own_copy "$BINARIES/libfar.so" >/dev/null
	order "load $TMP/libfar.so"
	FAR_BIAS=0x$(grep -m1 -F libfar.so "$maps" | cut -d- -f1)
	((FAR_BIAS - $(bias_of "$TARGET") > 1 << 31)) || fail "one jump reaches the library: $(<"$maps")"
	BEFORE=$(memory_of_both "$TARGET")
}

memory_of_both() { # PID
	memory_of "$1"
	notes_of "$TMP/libfar.so" | bytes_at "$1" "$FAR_BIAS"
}

check_restored() { # PID
	eq "$(memory_of_both "$1")" "$BEFORE" "text and semaphores of $1"
}

# The hits of all reports that the program has written, as "NAME HITS"; SIGN says which are taken off, one after the other.
books() { # SIGN...
	sed -nE 's:^(far/)?([a-z]+) handler=[0-9]+ hits=([0-9]+)$:\1 \2 \3:p' "$(output_of)" | awk -v signs="$*" '
		BEGIN { split(signs, sign, " ") }
		NF == 2 && $1 == "begin" { n++ }
		{ sum[$(NF - 1)] += (sign[n] == "-" ? -1 : 1) * $NF }
		END { for (name in sum) print name, sum[name] }' | sort
}

# At a moment in a trampoline, one of the hits may be in one of the books, and not in the other.
check_but_one() { # BOOKS OFF
	[[ $1 =~ ^begin\ [1-9] ]] || fail "books: $1"
	paste -d' ' <(totals) <(printf '%s\n' "$1") | awk -v off="$2" '
		$1 != $3 || ($2 != $4 && $2 - $4 != off) { bad = 1 }
		$2 != $4 { n++ }
		END { exit bad || n > 1 || NR != 4 }' ||
		fail "hits (inside, in the books): $(paste -d' ' <(totals) <(printf '%s\n' "$1"))"
}

report() {
	tell report
	wait_for '[[ $(grep -c "^far/mixed" "$(output_of)") -eq '"$1"' ]]' 60
}

# Its child, which is stopped in the handler, is CHILD.
catch_and_fork() {
	order 'run 1'
	order 'catch fork'
	CHILD=$(sed -n 's/^child \([0-9]*\)$/\1/p' "$(output_of)")
	wait_for 'grep -q "^State:.T" "/proc/$CHILD/status"'
	grep -q 'memfd:ocaml-probes-inside' "/proc/$CHILD/maps" || fail "the child has no block"
}

end_child() {
	kill -CONT "$CHILD"
	let_run all "$CHILD"
	kill -TERM "$CHILD"
	await_line 'child has ended' 60
}

test_far_is_exact() {
	local rounds=$((4 * 3000 + 3 * 1000 + 200))
	start_inside
	load_far
	start_measuring --json --count --time begin,end
	check_parts 2
	order 'alarm 300'
	order 'threads 4 3000'
	order 'fork 3 1000'
	order 'storm 200'
	order 'alarm 0'
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds $((2 * rounds)))" "hits"
	check_pairs $((2 * rounds))
	check_restored "$TARGET"
	check_unmapped
	order report
	# Children have books of their own.
	eq "$(books)" "$(hits_of_rounds $((2 * (rounds - 3 * 1000))))" "books"
	end_inside
}

# A signal has interrupted the second part, its handler forks, and counting ends: parent and child are restored, and both
# return into what is mapped.
test_frames_of_a_parent_and_its_child() {
	local pid
	start_inside
	load_far
	start_measuring --json --count --time begin,end
	catch_and_fork
	stop_measuring
	for pid in "$TARGET" "$CHILD"; do
		check_restored "$pid"
		grep -q 'memfd:ocaml-probes-inside' "/proc/$pid/maps" || fail "a signal frame of $pid points to memory that is not mapped"
	done
	report 1
	check_but_one "$(books)" 1
	order release
	let_run each
	end_child
	check_restored "$TARGET"
	forget_output
	end_inside
}

# Both count on, and end, and then counting ends. What was counted before the fork is in the books of both.
test_fork_in_the_second_part() {
	start_inside
	load_far
	start_measuring --count --json
	catch_and_fork
	report 1
	tell release
	end_child
	tell halt
	report 3
	stop_measuring
	check_but_one "$(books - + +)" -1
	check_restored "$TARGET"
	check_unmapped
	forget_output
	end_inside
}

# Another thread executes the program again.
test_exec_in_the_second_part() {
	start_inside
	load_far
	start_measuring --count --json
	order 'run 1'
	order 'catch plain'
	order report
	books >"$TMP/books"
	forget_output
	tell exec
	await_line ready
	stop_measuring
	matches "$(<"$TMP/counting.err")" 'the process runs another program'
	check_but_one "$(<"$TMP/books")" 1
	check_unmapped
	load_far
	start_measuring --count --json
	order 'threads 2 1000'
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds 4000)" "hits of the new program"
	check_restored "$TARGET"
	check_unmapped
	end_inside
}

run_tests "$@"
