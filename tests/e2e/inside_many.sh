#!/usr/bin/env bash
# Several processes at a time that count inside: the totals are the sums of the programs' own books, and one
# that ends, or cannot be counted, does not disturb the others.
#
# needs: fixtures ocaml
# uses: all-blocks
ENGINE=inside
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

BINARIES=$O/tests/fixtures/binaries
# One a test script, also for the bash that runs a test alone.
NAME=ocp_many_$PPID

# Start a copy of tests/ocaml/PROGRAM, and add it to PIDS. Its memory is taken down.
start_one() { # PROGRAM ARG...
	local program
	program=$(own_copy "$O/tests/ocaml/$1")
	shift
	start_target "$program" "$@"
	await_line ready
	PIDS+=("$TARGET")
	keep_memory
}

# The options that name PID...
named() { # PID...
	printf -- '-pid %d ' "$@"
}

# Measure PIDS.
measure() { # FLAG...
	# shellcheck disable=SC2046 # options and their values
	start_measuring $(named "${PIDS[@]}") --json "$@"
}

# The expected hits of all programs `counted` of PIDS.
expected_of_all() {
	local pid
	for pid in "${PIDS[@]}"; do
		sed -n 's/^\([A-Za-z0-9_]*\) handler=[0-9]* expected=\([0-9]*\).*/\1 \2/p' "$(output_of "$pid")"
	done | awk '!($1 in sum) { order[++n] = $1 } { sum[$1] += $2 } END { for (i = 1; i <= n; i++) print order[i], sum[order[i]] }'
}

tell_all() { # LINE
	local pid
	for pid in "${PIDS[@]}"; do
		tell "$1" "$pid"
	done
}

await_all() { # LINE
	local pid
	for pid in "${PIDS[@]}"; do
		await_line "$1" 60 "$pid"
	done
}

# Have a `reborn` pass its probes N times.
pass() { # N PID
	forget_output "$2"
	tell "go $1" "$2"
	await_line "passed $1" 60 "$2"
}

# "MEMBER VALUE" of the one pair in the last line of FILE.
pair_of() { # FILE MEMBER...
	tail -n 1 "$1" | python3 -c 'import json, sys
pair = json.load(sys.stdin)["pairs"][0]
for name in sys.argv[1:]: print(name, pair[name])' "${@:2}"
}

# Two programs, three processes, many threads; and the kernel beside.
test_totals_are_those_of_bpf() {
	local inside i
	need_bpf
	PIDS=()
	start_one counted 1000000000 4
	start_one counted 1000000000 2
	cp "$O/tests/ocaml/counted" "$TMP/other"
	start_target "$TMP/other" 1000000000 1
	await_line ready
	PIDS+=("$TARGET")
	keep_memory
	measure --count
	matches "$(<"$TMP/counting.err")" 'counting [0-9]+ probes \([0-9]+ sites\) of 3 processes'
	inside=$COUNTING
	mv "$TMP/counts" "$TMP/counts.inside"
	measure --count --engine bpf
	tell_all go
	for i in "${PIDS[@]}" "${PIDS[@]}"; do
		"$TOOL" attach -pid "$i" -enable in_loop
		"$TOOL" attach -pid "$i" -disable in_loop
	done
	eq "$(handler_runs)" "" "the loops must outlast the switching"
	tell_all stop
	await_all '# in_loop was seen.*'
	stop_measuring
	COUNTING=$inside stop_measuring
	eq "$(totals)" "$(expected_of_all)" "hits, by the kernel"
	mv "$TMP/counts.inside" "$TMP/counts"
	eq "$(totals)" "$(expected_of_all)" "hits, inside"
	check_clean "${PIDS[@]}"
}

# Sums of pairs, also of intervals; one of the processes ends before the others.
test_pairs_and_an_end() {
	local a b
	PIDS=()
	start_one reborn
	a=$TARGET
	start_one reborn
	b=$TARGET
	measure --count --time work,worked --interval 100ms
	pass 1000 "$a"
	pass 20 "$b"
	quit_target "$a"
	eq "$TARGET_STATUS" 0 "status of the first program"
	pass 4000 "$b"
	wait_for '[[ $(wc -l <"$TMP/counts") -ge 3 ]]'
	kill -0 "$COUNTING" || fail "it ended with the first process"
	quit_target "$b"
	wait "$COUNTING" || fail "status $?: $(<"$TMP/counting.err")"
	matches "$(<"$TMP/counting.err")" 'all 2 processes have ended'
	eq "$(totals)" "work 5020
worked 5020" "hits"
	eq "$(pair_of "$TMP/counts" count starts orphan_starts orphan_stops open)" "count 5020
starts 5020
orphan_starts 0
orphan_stops 0
open 0" "the pair"
	# Some processors step their time stamp counter each 10 ns: a pair between two steps takes no time.
	measured_that 't["engine"] == "inside"' 'sum(b["count"] for b in pair["buckets"]) == 5020' \
		'0 <= pair["min_ns"] * 5020 <= pair["sum_ns"] <= pair["max_ns"] * 5020' 'pair["sum_ns"] > 0' \
		'0 < sum(i["probes"][0]["hits"] for i in intervals) <= 5020'
}

# A process with a seccomp filter, one with dormant probes, one without probes: told, and the others are counted.
test_some_cannot_be_counted() {
	local good filtered dormant bare
	PIDS=()
	start_one reborn
	good=$TARGET
	start_target "$(own_copy "$BINARIES/inside")"
	await_line ready
	filtered=$TARGET
	keep_memory
	tell filter
	await_line 'done'
	PIDS+=("$filtered")
	start_one loop_plain
	dormant=$TARGET
	start_one bare_host
	bare=$TARGET
	measure --count
	grep -qE "pid $filtered: .*seccomp filter.*: it is not counted$" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	grep -qE "pid $dormant: [0-9]+ sites are dormant, .*: it is not counted$" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	grep -qE "pid $bare: has no probe yet .*: it is not counted$" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	matches "$(<"$TMP/counting.err")" 'of 1 of 4 processes'
	pass 321 "$good"
	stop_measuring
	eq "$(totals | grep work)" "work 321
worked 321" "hits"
	check_clean "$good" "$filtered"
	# None of them.
	PIDS=("$filtered" "$dormant")
	# shellcheck disable=SC2046
	"$TOOL" attach $(named "${PIDS[@]}") --count --engine inside >"$TMP/out" 2>"$TMP/err" && fail "it counted"
	eq "$?" 4 "status: $(<"$TMP/err")"
	matches "$(tail -n 1 "$TMP/err")" 'none of the 2 processes can be counted'
	check_clean "$filtered"
}

# A file that one of them has been counted in, and another one loads later, is told of.
test_a_file_that_comes_later() {
	local host plugin first second
	host=$(own_copy "$O/tests/ocaml/bare_host")
	plugin=$(own_copy "$O/tests/ocaml/plugin.cmxs")
	start_target "$host"
	await_line ready
	first=$TARGET
	tell "load $plugin"
	await_line loaded
	start_target env LD_PRELOAD="$BINARIES/libearly.so" "$host"
	await_line ready
	second=$TARGET
	PIDS=("$first" "$second")
	measure --count
	tell "load $plugin" "$second"
	await_line loaded 60 "$second"
	wait_for 'grep -q "pid $second: has loaded $plugin later: the engine .inside. does not count it there" "$TMP/counting.err"'
	forget_output "$first"
	tell 'go 1000' "$first"
	await_line 'done' 60 "$first"
	tell 'go 1000' "$second"
	await_line 'done' 60 "$second"
	stop_measuring
	eq "$(totals | grep plugin_only)" "plugin_only 1000" "hits"
	eq "$(grep -c "has loaded" "$TMP/counting.err")" 1 "warnings"
}

# A debugger holds one of them at the end: the others are restored, and all totals are told.
test_one_is_held() {
	local a b
	need_command gdb
	PIDS=()
	start_one reborn
	a=$TARGET
	start_one reborn
	b=$TARGET
	measure --count
	pass 70 "$a"
	pass 7 "$b"
	gdb -q -nx -batch -p "$a" -ex 'shell touch "$TMP/held"' -ex 'shell sleep 1000' >"$TMP/gdb" 2>&1 &
	wait_for '[[ -e $TMP/held ]]'
	stop_measuring
	eq "$(totals)" "work 77
worked 77" "hits"
	matches "$(<"$TMP/counting.err")" "pid $a.*; its counters still run: ocaml-probes doctor -pid $a --fix"
	check_clean "$b"
	pkill -KILL -P "$!" || :
	kill -KILL "$!" || :
	wait "$!" || :
	wait_for '"$TOOL" doctor -pid '"$a"' -fix >"$TMP/out" 2>&1'
	check_clean "$a"
}

# One process in a hundred executes something else, one is counted by another tool.
test_others_are_busy() {
	local a b first
	PIDS=()
	start_one reborn
	a=$TARGET
	start_one reborn
	b=$TARGET
	start_counting "$a" --engine inside --json
	first=$COUNTING
	mv "$TMP/counts" "$TMP/counts.first"
	measure --count
	matches "$(<"$TMP/counting.err")" "pid $a: is already counted inside .*: it is not counted"
	pass 5 "$a"
	pass 60 "$b"
	stop_measuring
	eq "$(totals)" "work 60
worked 60" "hits"
	kill -INT "$first"
	wait "$first"
	mv "$TMP/counts.first" "$TMP/counts"
	eq "$(totals)" "work 5
worked 5" "hits of the first tool"
	check_clean "$a" "$b"
}

# Kept, they are one meter, whichever is named.
test_keep() {
	local a b where
	PIDS=()
	start_one reborn
	a=$TARGET
	start_one reborn
	b=$TARGET
	# shellcheck disable=SC2046
	"$TOOL" attach $(named "${PIDS[@]}") --engine inside --count --time work,worked --keep "$NAME" 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	pass 1000 "$a"
	pass 234 "$b"
	for where in "$NAME" "-pid $a" "-pid $b"; do
		# shellcheck disable=SC2086
		"$TOOL" read $where --json >"$TMP/counts" 2>"$TMP/err"
		eq "$(totals)" "work 1234
worked 1234" "hits, read $where"
		eq "$(pair_of "$TMP/counts" count)" "count 1234" "pairs, read $where"
		eq "$(<"$TMP/err")" "" "said"
	done
	"$TOOL" list --kept 2>"$TMP/err" | finds "^$NAME .*2 of 2 processes alive, pid $a, \.\.\.\$"
	check_error 1 "a kept measurement of this name exists" attach -pid "$b" -q --count --engine inside --keep "$NAME"
	# The counters of a process end with it.
	quit_target "$a"
	"$TOOL" read "$NAME" --json >"$TMP/counts" 2>"$TMP/err"
	matches "$(<"$TMP/err")" '1 of 2 processes still count'
	eq "$(totals)" "work 234
worked 234" "hits of the other"
	"$TOOL" detach "$NAME" --json >"$TMP/counts" 2>"$TMP/err"
	eq "$(totals)" "work 234
worked 234" "hits, detached"
	check_clean "$b"
	check_error 2 "no kept measurement of this name" read "$NAME"
}

test_keep_is_ended_in_all() {
	PIDS=()
	start_one reborn
	start_one reborn
	# shellcheck disable=SC2046
	"$TOOL" attach $(named "${PIDS[@]}") -q --engine inside --count --keep "$NAME"
	pass 3 "${PIDS[0]}"
	pass 4 "${PIDS[1]}"
	"$TOOL" detach -pid "${PIDS[1]}" --json >"$TMP/counts"
	eq "$(totals)" "work 7
worked 7" "hits"
	check_clean "${PIDS[@]}"
}

# A killed tool has given no name: its processes are one meter all the same.
test_killed_tool() {
	PIDS=()
	start_one reborn
	start_one reborn
	measure --count
	pass 30 "${PIDS[0]}"
	kill -KILL "$COUNTING"
	wait "$COUNTING" || :
	pass 12 "${PIDS[1]}"
	"$TOOL" read -pid "${PIDS[1]}" --json >"$TMP/counts"
	eq "$(totals)" "work 42
worked 42" "hits"
	"$TOOL" detach -pid "${PIDS[0]}" --json >"$TMP/counts"
	eq "$(totals)" "work 42
worked 42" "hits, detached"
	check_clean "${PIDS[@]}"
}

# The time since the start of the machine, in hundredths of a second, as the start times of processes have it.
uptime_ticks() {
	local seconds
	read -r seconds _ </proc/uptime
	echo $((10#${seconds/./}))
}

# A tool was killed, and another one has its number now: the counters are nobody's.
test_a_number_that_is_used_again() {
	local killed counted
	need_root
	is_in_namespace || return 0
	PIDS=()
	start_one reborn
	start_counting "$TARGET" --engine inside
	counted=$(uptime_ticks)
	killed=$COUNTING
	pass 9 "$TARGET"
	check_error 6 "is being counted by the tool with pid $killed" detach -pid "$TARGET"
	kill -KILL "$killed"
	wait "$killed" || :
	cp "$(command -v sleep)" "$TMP/ocaml-probes-new"
	# Whoever starts in the same tick as the counting may be the tool that began it.
	wait_for '(($(uptime_ticks) > counted + 1))'
	echo $((killed - 1)) >/proc/sys/kernel/ns_last_pid
	"$TMP/ocaml-probes-new" 1000 &
	eq $! "$killed" "the pid of the new tool"
	await_exe "$TMP/ocaml-probes-new" "$killed"
	"$TOOL" detach -pid "$TARGET" --json >"$TMP/counts" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(totals)" "work 9
worked 9" "hits"
	check_clean "$TARGET"
	kill "$killed"
}

# `auto` takes several processes, too; and with a command, whose hits it cannot see before.
test_auto() {
	local a b
	need_bpf
	PIDS=()
	start_one reborn
	a=$TARGET
	start_one reborn
	b=$TARGET
	measure --count --engine auto
	matches "$(<"$TMP/counting.err")" 'engine: bpf, since 0 hits/s take 0.00% of a core with BPF'
	pass 2 "$a"
	pass 3 "$b"
	stop_measuring
	eq "$(totals)" "work 5
worked 5" "hits"
	# shellcheck disable=SC2046
	"$TOOL" attach --budget none $(named "${PIDS[@]}") --count --engine auto --json -- bash -c "echo go 1000 >'$(readlink "/proc/$a/fd/0")'
		until grep -q 'passed 1000' '$(output_of "$a")'; do sleep 0.01; done" >"$TMP/counts" 2>"$TMP/err"
	matches "$(<"$TMP/err")" "engine: inside, since the hits that 'bash' will cause are not known yet"
	eq "$(totals)" "work 1000
worked 1000" "hits"
	# One of them cannot be counted inside.
	start_one loop_plain
	measure --count --engine auto
	matches "$(<"$TMP/counting.err")" "engine: bpf, since inside is not possible: pid $TARGET: [0-9]+ sites are dormant"
	stop_measuring
}

run_tests "$@"
