#!/usr/bin/env bash
# Counting inside a process in the situations that a process can be in. The books are those of the
# program, of the BPF engine and of bpftrace.
#
#   WHOLE=yes	all variants of the fixtures, instead of some
#   MOVES=4	so often are threads stopped and traced while they are moved between CPUs
#   MOVED=FILE	tests/ocaml/pairs/moved.ml, as tests/ocaml/pairs/build has made it with another compiler
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/inside_lib.sh"

WHOLE=${WHOLE:-no}
TEST_TIMEOUT=600

# ---- programs of all kinds --------------------------------------------------------------------

# Off, on, and off again: a site that was compiled as on stays on.
check_variant() { # VARIANT PROGRAM
	start_target "$(own_copy "$2")" --wait --threads 8
	await_line ready
	BEFORE=$(memory_of "$TARGET")
	count_inside
	order 'go 500'
	"$TOOL" attach -pid "$TARGET" -enable-all
	order 'go 500'
	"$TOOL" attach -pid "$TARGET" -disable-all
	order 'go 500'
	end_counting
	eq "$(totals)" "$(fixture_hits "$1" 12000 | sed 's/^ / /')" "$2: hits"
	check_clean
	check_unmapped
	forget_output
	quit_target
	eq "$TARGET_STATUS" 0 "$2: status"
	eq "$(sed -n 's/^\(.*\) handler=\([0-9]*\) hits=\([0-9]*\)$/\1 \2 \3/p' "$(output_of)" |
		awk '{ name = NF == 3 ? $1 : "" } $(NF - 1) != (name == "started_on" ? $NF : $NF / 3)')" "" "$2: handlers"
}

test_all_generations() {
	local variant suffixes=('')
	[[ $WHOLE = no ]] || suffixes=('' -nopie -stripped)
	for variant in v0 v0_single transitional transitional_single v1 v1_dot v2; do
		for suffix in "${suffixes[@]}"; do
			check_variant "$variant" "$O/tests/fixtures/$variant$suffix"
		done
	done
}

test_static_stripped_nopie() {
	check_variant v1 "$BINARIES/static"
	check_variant v1 "$BINARIES/static-pie"
	strip -o "$TMP/stripped-static" "$BINARIES/static"
	check_variant v1 "$TMP/stripped-static"
	check_variant v1 "$O/tests/fixtures/v1-nopie"
	check_variant v0 "$O/tests/fixtures/v0-stripped"
}

# The one semaphore of the oldest generation is raised by bpftrace: it must run no handler.
test_old_generation_and_bpftrace() {
	local program
	need_counting
	need_command bpftrace bpftool
	program=$(own_copy "$O/tests/fixtures/v0_single")
	start_target "$program" --wait --threads 2
	await_line ready
	count_inside
	background bpftrace --unsafe -p "$TARGET" -e "usdt:$program:ocaml:alone { @ = count(); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 2' 60
	kill -0 "$BPFTRACE" || fail "$(cat "$TMP/bpftrace")"
	order 'go 1000'
	kill -INT "$BPFTRACE"
	wait "$BPFTRACE"
	eq "$(sed -n 's/^@: //p' "$TMP/bpftrace")" 4000 "bpftrace's count"
	"$TOOL" attach -pid "$TARGET" -enable alone
	order 'go 1000'
	"$TOOL" attach -pid "$TARGET" -disable alone
	end_counting
	eq "$(totals)" "$(fixture_hits v0_single 4000)" "hits"
	quit_target
	matches "$(cat "$(output_of)")" 'alone handler=4000 hits=8000' "handlers that bpftrace has not run"
}

# Sites of one probe that disagree keep their own state, and so do their semaphores.
test_mixed_states() {
	start_inside inside_mixed
	count_inside
	order 'threads 2 1000'
	end_counting
	eq "$(totals)" "$(hits_of_rounds 2000)" "hits"
	check_bytes
	order report
	matches "$(cat "$(output_of)")" 'mixed handler=2000 hits=4000' "handlers: one of two sites is on"
	end_inside
}

# ---- exactness --------------------------------------------------------------------------------

# Inside, by the BPF engine and by the real bpftrace, all at a time.
test_three_tools_agree() {
	local inside bpf i rounds=$((8 * 2500 + 3 * 1000 + 400))
	need_counting
	need_command bpftrace bpftool
	start_inside
	count_inside
	inside=$COUNTING
	background "$TOOL" attach -exe "$TMP/inside" --count --json >"$TMP/bpf" 2>"$TMP/bpf.err"
	bpf=$!
	wait_for 'grep -q "counting [0-9]* probes" "$TMP/bpf.err"' 60
	background bpftrace --unsafe -e "usdt:$TMP/inside:ocaml_1:* { @[probe] = count(); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 5' 60
	kill -0 "$BPFTRACE" || fail "$(cat "$TMP/bpftrace")"
	forget_output
	tell 'threads 8 2500'
	for ((i = 0; i < 10; i++)); do
		"$TOOL" attach -pid "$TARGET" -enable hot,end
		"$TOOL" attach -pid "$TARGET" -disable hot,end
	done
	await_line 'done' 300
	order 'fork 3 1000'
	order 'storm 400'
	kill -INT "$BPFTRACE" "$bpf"
	wait "$BPFTRACE"
	wait "$bpf"
	COUNTING=$inside end_counting
	eq "$(totals)" "$(hits_of_rounds $rounds)" "hits, inside"
	mv "$TMP/bpf" "$TMP/counts"
	eq "$(totals)" "$(hits_of_rounds $rounds)" "hits, by the BPF engine"
	eq "$(sed -n 's/^@\[usdt:.*:\([a-z]*\)\]: /\1 /p' "$TMP/bpftrace" | LC_ALL=C sort)" \
		"$(hits_of_rounds $rounds)" "hits, by bpftrace: $(cat "$TMP/bpftrace")"
	check_bytes
	end_inside
}

# The program's own books: orphans, nesting, recursion deeper than what is kept, exceptions.
test_orphans() {
	start_target "$(own_copy "$O/tests/ocaml/pairs")" 60000 8 32
	await_line ready
	measure_inside --count --time call_start,call_stop --time step_start,step_stop --time stray_start,stray_stop
	tell go
	await_line end 120
	tell quit
	finish_target
	wait "$COUNTING" || fail "$(cat "$TMP/counting.err")"
	python3 "$ROOT/tests/e2e/compare_pairs.py" "$TMP/counts" "$(output_of)" counts >"$TMP/compared" ||
		fail "$(cat "$TMP/compared")"
}

# Thousands of threads that live for one pair.
test_thread_storm() {
	local n=3000
	[[ $WHOLE = no ]] || n=30000
	start_inside
	measure_inside --count --time begin,end
	order "storm $n"
	end_counting
	eq "$(totals)" "$(hits_of_rounds $n)" "hits"
	check_pairs "$n"
	check_bytes
	end_inside
}

# The program's own books: workers in threads, domains and children, which are moved from CPU to CPU, interrupted by
# timers, stopped, traced and stepped all the time.
test_moved_and_interrupted() {
	local i processes mover
	need_command gdb
	start_target "$(own_copy "${MOVED:-$O/tests/ocaml/moved}")" 3
	await_line ready
	BEFORE=$(memory_of "$TARGET")
	measure_inside --count --time one,two
	tell go
	await_line 'running .*' 60
	read -ra processes < <(sed -n 's/^running //p' "$(output_of)")
	python3 "$ROOT/tests/e2e/move_threads.py" "${processes[@]}" 2>"$TMP/mover" &
	mover=$!
	for ((i = 0; i < ${MOVES:-4}; i++)); do
		disturb "${processes[@]}"
	done
	kill "$mover" || fail "$(cat "$TMP/mover")"
	tell stop
	await_line end 120
	end_counting
	eq "$(totals)" "$(sed -n 's/^\([a-z]*\) expected=/\1 /p' "$(output_of)")" "hits"
	check_pairs "$(sed -n 's/^one expected=//p' "$(output_of)")"
	check_bytes
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

disturb() { # PID...
	local pid
	for pid; do
		kill -STOP "$pid"
		kill -CONT "$pid"
	done
	let_run all "$1"
	timeout 60 gdb -q -nx -batch -p "$1" >"$TMP/gdb" 2>&1 || fail "$(cat "$TMP/gdb")"
	# A worker, which waits for nothing.
	timeout 60 gdb -q -nx -batch -p "$3" -ex 'stepi 100' >"$TMP/gdb" 2>&1 || fail "$(cat "$TMP/gdb")"
	let_run all "$1"
}

# ---- processes --------------------------------------------------------------------------------

have_child() {
	forget_output
	tell child
	await_line 'child [0-9]*'
	CHILD=$(sed -n 's/^child \([0-9]*\)$/\1/p' "$(output_of)")
	wait_for 'grep -q "^State:.T" "/proc/$CHILD/status"'
}

# Let the child make rounds, and set ROUNDS to how many these were.
let_child_run() {
	kill -CONT "$CHILD"
	let_run all "$CHILD"
	kill -TERM "$CHILD"
	await_line 'child has ended' 60
	ROUNDS=$(sed -n 's/^hot handler=[0-9]* hits=\([0-9]*\)$/\1/p' "$(output_of)" | tail -n 1)
	((ROUNDS > 0)) || fail "the child made no round"
}

# A child counts in the memory of its parent. `doctor --fix` of a child leaves the parent as it is.
test_forked_children() {
	start_inside
	count_inside
	have_child
	order 'threads 2 1000'
	let_child_run
	have_child
	matches "$("$TOOL" doctor -pid "$CHILD" -fix)" 'fixed: 5 sites restored'
	eq "$(memory_of "$CHILD")" "$BEFORE" "text and semaphores of the child"
	"$TOOL" doctor -pid "$TARGET" | finds 'sites count inside'
	counted_rounds=$ROUNDS
	let_child_run
	order 'threads 1 1000'
	end_counting
	eq "$(totals)" "$(hits_of_rounds $((3000 + counted_rounds)))" "hits"
	check_bytes
	end_inside
}

# A child is a process with a pid, and can be counted without its parent, from a stop to its end.
test_child_by_its_pid() {
	start_inside
	have_child
	COUNTED=$CHILD count_inside
	order 'threads 2 1000'
	let_child_run
	wait "$COUNTING" || fail "$(cat "$TMP/counting.err")"
	eq "$(totals)" "$(hits_of_rounds "$ROUNDS")" "hits"
	check_bytes
	end_inside
}

# The parent ends: its children are restored, too.
test_parent_ends_first() {
	start_inside
	count_inside
	have_child
	order 'threads 2 1000'
	end_inside
	wait "$COUNTING" || fail "$(cat "$TMP/counting.err")"
	eq "$(totals)" "$(hits_of_rounds 2000)" "hits"
	eq "$(memory_of "$CHILD")" "$BEFORE" "text and semaphores of the child"
	let_child_run
}

test_stopped() {
	start_inside
	order 'run 2'
	kill -STOP "$TARGET"
	await_stopped
	count_inside --interval 100ms
	await_stopped
	wait_for '[[ $(wc -l <"$TMP/counts") -ge 2 ]]'
	kill -CONT "$TARGET"
	let_run each
	kill -STOP "$TARGET"
	await_stopped
	end_counting
	await_stopped
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
	kill -CONT "$TARGET"
	let_run each
	forget_output
	end_inside
	# What it did after the end of counting is not in the totals.
	(($(totals | sed -n 's/^hot //p') > 0)) || fail "nothing was counted"
}

# Its memory is another one: what was counted before is told.
test_exec() {
	start_inside
	count_inside
	order 'threads 2 1000'
	forget_output
	tell exec
	await_line ready
	end_counting
	matches "$(cat "$TMP/counting.err")" 'it runs another program'
	eq "$(totals)" "$(hits_of_rounds 2000)" "hits"
	BEFORE=$(memory_of "$TARGET")
	count_inside
	order 'threads 1 1000'
	end_counting
	eq "$(totals)" "$(hits_of_rounds 1000)" "hits of the new program"
	check_bytes
	end_inside
}

# The program is killed at one system call of the tool after the other.
test_target_ends_in_each_phase() {
	local n status step=150
	[[ $WHOLE = no ]] || step=5
	for ((n = 1; ; n += step)); do
		start_target "$(own_copy "$BINARIES/inside")"
		await_line ready
		order 'run 2'
		status=0
		timeout 60 "$BINARIES/kill_at" -p "$TARGET" "$n" "$TOOL" attach -pid "$TARGET" --count --json \
			--engine inside --for 20ms >"$TMP/out" 2>"$TMP/err" || status=$?
		[[ $status = [05] ]] || fail "ended at $n: status $status: $(cat "$TMP/err")"
		has_ended "$TARGET" || break
		wait "$TARGET" || :
	done
	((n > 3 * step)) || fail "only $n stops"
	echo "# killed at $((n / step)) stops"
	kill "$TARGET"
}

test_pid_namespace() {
	local outer
	need_command unshare
	own_copy "$BINARIES/inside" >/dev/null
	start_target unshare --pid --fork --kill-child "$TMP/inside"
	await_line ready
	outer=$TARGET
	COUNTED=$(pgrep -P "$outer")
	BEFORE=$(memory_of "$COUNTED")
	measure_inside --count --time begin,end
	order 'threads 4 1000'
	end_counting
	eq "$(totals)" "$(hits_of_rounds 4000)" "hits"
	check_pairs 4000
	eq "$(memory_of "$COUNTED")" "$BEFORE" "text and semaphores"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# A function recurses into the end of the stack in each round. The fault must be one of OCaml code, from which
# OCaml 4 goes on, not one of a trampoline; at a start, and at a stop.
test_stack_overflow() {
	local pair suite=$ROOT/tests/ocaml/suite
	PROGRAMS=deep_recursion BARE=no "$suite/build" "$O" "$TMP/suite" >"$TMP/built" 2>&1 || fail "$(cat "$TMP/built")"
	for pair in endless,deep deep,endless; do
		OCAMLRUNPARAM=l=1M start_target "$TMP/suite/deep_recursion" toggled "$suite/deep_recursion.ml"
		await_line ready
		measure_inside --time "$pair"
		# It ends the round, and makes another one.
		tell stop
		finish_target
		eq "$TARGET_STATUS" 0 "$pair: status: $(cat "$(output_of)")"
		wait "$COUNTING" || matches $? 5
	done
}

# ---- signals ----------------------------------------------------------------------------------

# A handler has interrupted a trampoline, and returns into it after the end of counting.
check_frame() { # HOW
	start_inside
	order 'run 1'
	count_inside
	order "catch $1"
	end_counting
	eq "$(memory_of "$TARGET")" "$BEFORE" "$1: text and semaphores"
	is_mapped || fail "$1: a signal frame points to memory that is not mapped"
	order release
	let_run each
	# What is left goes with a later attach or detach.
	for ((i = 0; i < 50; i++)); do
		count_inside
		end_counting
		is_mapped || break
	done
	check_bytes
	forget_output
	end_inside
}

test_signal_frames() {
	check_frame plain
	check_frame alt
	check_frame nested
}

# ---- others who do things to the process ------------------------------------------------------

test_foreign_switch_is_told() {
	local hot
	start_inside
	hot=$(($(readelf -nW "$TMP/inside" | awk '/Name: hot/ { wanted = 1 }
		/Location: / && wanted { sub(",", "", $2); print $2; exit }') + $(bias_of "$TARGET")))
	count_inside
	order 'threads 1 100'
	poke $((hot + 1)) 0x3d
	order 'threads 1 10'
	poke $((hot + 1)) 0xe8
	order 'threads 1 1000'
	poke $((hot + 1)) 0x3d
	end_counting
	eq "$(totals)" "$(hits_of_rounds 1110 | sed 's/^hot .*/hot 1100/')" "hits"
	matches "$(cat "$TMP/counting.err")" '1 of 5 sites are not counted now, because another program has changed' "warning"
	check_bytes
	end_inside
}

# Nothing has been touched.
check_untouched() {
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
	check_unmapped
	order 'threads 1 100'
}

test_refused() {
	need_command setpriv gdb
	start_inside
	order filter
	check_error 4 'seccomp filter' attach -pid "$TARGET" --count --engine inside --for 10ms
	check_untouched
	end_inside

	start_inside
	gdb -q -nx -batch -p "$TARGET" -ex 'shell while [ ! -e "$TMP/go-on" ]; do sleep 0.1; done' >"$TMP/gdb" 2>&1 &
	GDB=$!
	wait_for '! grep -q "TracerPid:.0$" "/proc/$TARGET/status"'
	check_error 6 'is being traced by pid' attach -pid "$TARGET" --count --engine inside --for 10ms
	touch "$TMP/go-on"
	wait "$GDB" || :
	check_untouched

	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$TMP/tool"
	TOOL=$TMP/as_nobody
	printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "%s" "$@"\n' \
		"$TMP/tool" >"$TOOL"
	chmod 755 "$TOOL"
	check_error 3 'pid [0-9]+' attach -pid "$TARGET" --count --engine inside --for 10ms
	check_untouched
	end_inside
}

# Take the end of a tool, of which there are two at a time.
note_end() { # STATUS ERRORS
	case $1 in
	0) counted=$((counted + 1)) ;;
	6)
		matches "$(cat "$2")" 'counts inside already|another tool'
		refused=$((refused + 1))
		;;
	*) fail "status $1: $(cat "$2")" ;;
	esac
}

# One of them counts and the other one is refused, or they count one after the other.
test_two_tools_at_once() {
	local i first status counted=0 refused=0
	start_inside
	order 'run 2'
	for ((i = 0; i < 400 && (i < 30 || !counted || !refused); i++)); do
		"$TOOL" attach -pid "$TARGET" --count --json --engine inside --for 1ms >"$TMP/first" 2>"$TMP/first.err" &
		first=$!
		status=0
		"$TOOL" attach -pid "$TARGET" --count --json --engine inside --for 1ms >"$TMP/second" 2>"$TMP/second.err" || status=$?
		note_end "$status" "$TMP/second.err"
		status=0
		wait "$first" || status=$?
		note_end "$status" "$TMP/first.err"
		kill -0 "$TARGET" 2>/dev/null || fail "the program has ended"
	done
	((counted && refused)) || fail "$counted counted, $refused refused"
	check_bytes
	forget_output
	end_inside
}

# Handlers are switched while tools begin and end to count: a switch never fails.
test_switched_by_others() {
	local i switching
	start_inside
	order 'run 2'
	(while [[ ! -e $TMP/ended ]]; do
		"$TOOL" attach -quiet -pid "$TARGET" -enable-all
		"$TOOL" attach -quiet -pid "$TARGET" -disable-all
	done) 2>"$TMP/switching.err" &
	switching=$!
	for ((i = 0; i < 40; i++)); do
		"$TOOL" attach -pid "$TARGET" --count --json --engine inside --for 1ms >"$TMP/out" 2>"$TMP/err" || fail "$(cat "$TMP/err")"
	done
	touch "$TMP/ended"
	wait "$switching" || fail "$(cat "$TMP/switching.err")"
	check_bytes
	forget_output
	end_inside
}

# gdb holds the process when counting ends: the tool says so, and doctor completes it.
test_traced_at_the_end() {
	local status=0
	need_command gdb
	start_inside
	count_inside
	order 'threads 2 1000'
	gdb -q -nx -batch -p "$TARGET" -ex 'shell while [ ! -e "$TMP/go-on" ]; do sleep 0.1; done' >"$TMP/gdb" 2>&1 &
	GDB=$!
	wait_for '! grep -q "TracerPid:.0$" "/proc/$TARGET/status"'
	kill -INT "$COUNTING"
	wait "$COUNTING" || status=$?
	matches "$(cat "$TMP/counting.err")" 'is being traced by pid'
	touch "$TMP/go-on"
	wait "$GDB" || :
	"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/doctor"
	order 'threads 2 1000'
	check_bytes
	end_inside
}

run_tests "$@"
