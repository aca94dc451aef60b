#!/usr/bin/env bash
# `ocaml-probes bpftrace` for functions and phases of the collector: what it prints is run as it stands, by
# the distribution's bpftrace, and finds what the programs' own books say.
#
# needs: fixtures ocaml/loop
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/bpftrace_lib.sh"

CALLS=$ROOT/tests/ocaml/calls
PHASES=$ROOT/tests/ocaml/phases

build() { # FOLDER FLAG...
	need_counting
	need_command bpftrace bpftool
	"$1/build" "$TMP/built" "${@:2}" 2>"$TMP/warnings" || fail "$(<"$TMP/warnings")"
}

# "fn:NAME HITS" of what `count` found.
found_hits() {
	sed -nE 's/^@\[([^]]*)\]: ([0-9]+)$/\1 \2/p' "$TMP/bpftrace" | LC_ALL=C sort
}

# The same of our own totals.
our_hits() { # FILE
	sed 's/"name"/\n&/g' "$1" | sed -nE 's/^"name":"([^"]*)","hits":([0-9]+).*/\1 \2/p' | LC_ALL=C sort
}

# The same of the books of MODULE's functions called NAMES.
booked_hits() { # MODULE NAMES
	sed -nE "s/^call (($1\\.)?($2)) ([0-9]+).*/fn:$1.\\3 \\4/p" "$(output_of)" | LC_ALL=C sort
}

# The value of @NAME.
found() { # NAME
	sed -n "s/^@$1: //p" "$TMP/bpftrace"
}

# Count with the printed command and with `attach` at once. Recursion, tail calls, exceptions, threads,
# functions of one name, functions that return at once. Another process of the file does the same.
check_counts() { # THREADS FLAG...
	local names='fib|odd|frames|tail_caller|many|same|plain|leaf_branch' threads=$1 other
	shift
	build "$CALLS" "$@"
	start_target "$TMP/built/calls" 20 "$threads"
	await_line ready
	other=$TARGET
	start_target "$TMP/built/calls" 20 "$threads"
	await_line ready
	start_printed -pid "$TARGET" count "fn:Calls\.\(${names//|/\\|}\)\$"
	start_counting "$TARGET" --json --count="fn:Calls\.\(${names//|/\\|}\)\$"
	tell go "$other"
	wait "$other"
	tell go
	finish_target
	stop_printed
	wait "$COUNTING"
	eq "$(found_hits | wc -l)" 8 "functions: $(<"$TMP/bpftrace")"
	eq "$(found_hits)" "$(booked_hits Calls "$names")" "hits"
	eq "$(our_hits "$TMP/counts")" "$(booked_hits Calls "$names")" "our hits"
}

# Debian's bpftrace reaches only the first instructions of functions, and the command says so.
test_counts() {
	check_counts 4
	grep -q "^# [0-9]* places: the first instruction of the function" "$TMP/command"
	eq "$(grep -c 'check instructions' "$TMP/command" || :)" 0 "places that it cannot reach"
}

# Here it reaches all places: those of `attach`.
test_counts_not_position_independent() {
	check_counts 1 -ccopt -no-pie
	eq "$(grep -c 'the first instruction' "$TMP/command" || :)" 0 "first instructions"
}

test_counts_of_a_program() {
	build "$CALLS"
	start_printed -prog "$TMP/built/calls" count fn:Calls.fib
	start_target "$TMP/built/calls" 20 1
	await_line ready
	tell go
	finish_target
	stop_printed
	eq "$(found_hits)" "$(booked_hits Calls fib)" "hits"
}

# A library's C function, in a program without symbols of its own.
test_count_of_c() {
	build "$CALLS"
	own_c_library
	start_target env LD_LIBRARY_PATH="$TMP/lib" "$TMP/built/calls" 20 1
	await_line ready
	start_printed -pid "$TARGET" count c:calls_by_name,c:libc.so.6:malloc
	start_counting "$TARGET" --json --count=c:calls_by_name,c:libc.so.6:malloc
	tell go
	finish_target
	stop_printed
	wait "$COUNTING"
	eq "$(found_hits)" "$(our_hits "$TMP/counts")" "hits"
	eq "$(found_hits | wc -l)" 2 "functions"
}

# One function a run, by frame: recursion, and calls that an exception ends. The times are between those that
# the program took inside of the calls and around them.
check_times() { # NAME
	local calls inner outer raised other
	start_target "$TMP/built/timed" 40 1000
	await_line ready
	other=$TARGET
	start_target "$TMP/built/timed" 40 1000
	await_line ready
	start_printed -pid "$TARGET" time "fn:Timed.$1"
	tell go "$other"
	wait "$other"
	tell go
	finish_target
	stop_printed
	read -r calls inner outer < <(sed -n "s/^call Timed.$1 //p" "$(output_of)")
	raised=$(sed -n "s/^call Timed.$1:raised \\([0-9]*\\).*/\\1/p" "$(output_of)")
	eq "$(found pairs)" "$((calls - ${raised:-0}))" "calls of $1"
	eq "$(found orphan_stops)" 0 "exits without an entry"
	if ((outer > 0)); then
		(($(found sum_ns) >= inner && $(found sum_ns) <= outer)) ||
			fail "$1: $(found sum_ns) ns, expected $inner to $outer"
	fi
}

test_times() {
	local name
	PROGRAMS=timed build "$CALLS" -ccopt -no-pie
	for name in nests escapes digs; do
		check_times "$name"
	done
}

test_time_of_c() {
	PROGRAMS=timed build "$CALLS"
	start_target "$TMP/built/timed" 40 1000
	await_line ready
	start_printed -pid "$TARGET" time c:calls_burn
	start_counting "$TARGET" --json --count=c:calls_burn
	tell go
	finish_target
	stop_printed
	wait "$COUNTING"
	eq "c:calls_burn $(found pairs)" "$(our_hits "$TMP/counts")" "calls"
	eq "$(found orphan_starts) $(found orphan_stops)" "0 0" "orphans"
}

# The pauses of the collector, and what is no pause: a call that finds nothing to do.
test_phases() {
	[[ $(ocamlopt -version) != 5.* ]] || skip "the totals are those of OCaml 4"
	build "$PHASES"
	check_phase time gc:minor minor_collections
	check_phase time gc:major_slice
	check_phase count gc:major_cycle major_collections
}

check_phase() { # MODE PHASE [NAME-OF-THE-TOTAL]
	local expected
	start_target env OCAMLRUNPARAM=v=0x451 "$TMP/built/phases" 50 2
	await_line ready
	start_printed -pid "$TARGET" "$1" "$2"
	start_counting "$TARGET" --json --count="$2"
	tell go
	await_line finished 60
	stop_printed
	kill -INT "$COUNTING"
	wait "$COUNTING"
	quit_target
	expected=$(sed -n "s/^${3:-none}: //p" "$(output_of)")
	[[ $# -eq 3 ]] || expected=$(grep -c '^ordered work = ' "$(output_of)")
	eq "$(our_hits "$TMP/counts")" "$2 $expected" "our pauses"
	eq "$({ found pairs; found_hits | cut -d' ' -f2; } | grep .)" "$expected" "pauses"
}

test_args() {
	build "$CALLS"
	start_target "$TMP/built/calls" 1 1
	await_line ready
	start_printed -pid "$TARGET" args fn:Calls.fib
	tell go
	# bpftrace does not read what is left when its process has ended.
	wait_for '[[ $(grep -c "fn:Calls.fib arg0=" "$TMP/bpftrace") -ge 6 ]]'
	finish_target
	stop_printed
	# The calls of fib 6, in their order.
	eq "$(sed -nE 's/^.* fn:Calls.fib arg0=//p' "$TMP/bpftrace" | head -n 6 | xargs)" "6 4 2 0 1 3" "arguments"
}

test_wrong_use() {
	build "$CALLS"
	start_target "$O/tests/ocaml/loop"
	await_line ready
	check_error 2 "'alpha,fn:Loop.x': probes and functions cannot be in one script" bpftrace -pid "$TARGET" count alpha,fn:Loop.x
	check_error 2 "'fn:Loop.nothing': no such function in" bpftrace -pid "$TARGET" count fn:Loop.nothing
	check_error 2 "'fn:Calls.fob': no such function in" bpftrace -prog "$TMP/built/calls" time fn:Calls.fob
	grep -q "^hint: did you mean 'fn:Calls.fib'" "$TMP/err"
	check_error 2 "'fn:Calls.\*': is a pattern; only" bpftrace -prog "$TMP/built/calls" time 'fn:Calls.*'
	check_error 2 "'gc:minr': no such phase" bpftrace -prog "$TMP/built/calls" time gc:minr
	check_error 4 "'gc:major_cycle': cannot be timed" bpftrace -prog "$TMP/built/calls" time gc:major_cycle
	check_error 2 "not two probes START,STOP" bpftrace -prog "$TMP/built/calls" time fn:Calls.fib,fn:Calls.odd,fn:Calls.even
}

run_tests "$@"
