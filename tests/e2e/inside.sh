#!/usr/bin/env bash
# Counting inside a process in the situations that a process can be in. The books are those of the
# program, of the BPF engine and of bpftrace. What both engines can do is in count.sh, measure.sh and keep.sh.
#
#   WHOLE=yes	the program ends at each fifth of the system calls of the tool, instead of some; more threads
#   MOVES=4	so often are threads stopped and traced while they are moved between CPUs
#   MOVED=FILE	tests/ocaml/pairs/moved.ml, as tests/ocaml/pairs/build has made it with another compiler
#
# needs: fixtures ocaml
# takes: 30 s
ENGINE=inside
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/inside_lib.sh"

WHOLE=${WHOLE:-no}
TEST_TIMEOUT=600

# ---- programs of all kinds --------------------------------------------------------------------

# The one semaphore of the oldest generation is raised by bpftrace: it must run no handler.
test_old_generation_and_bpftrace() {
	local program
	need_bpf
	need_command bpftrace bpftool
	program=$(own_copy "$O/tests/fixtures/v0_single")
	start_target "$program" --wait --threads 2
	await_line ready
	start_measuring --count --json
	background bpftrace --unsafe -p "$TARGET" -e "usdt:$program:ocaml:alone { @ = count(); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 2' 60
	kill -0 "$BPFTRACE" || fail "$(<"$TMP/bpftrace")"
	order 'go 1000'
	end_bpftrace
	eq "$(sed -n 's/^@: //p' "$TMP/bpftrace")" 4000 "bpftrace's count"
	"$TOOL" attach -pid "$TARGET" -enable alone
	order 'go 1000'
	"$TOOL" attach -pid "$TARGET" -disable alone
	stop_measuring
	eq "$(totals)" "$(fixture_hits v0_single 4000)" "hits"
	quit_target
	matches "$(cat "$(output_of)")" 'alone handler=4000 hits=8000' "handlers that bpftrace has not run"
}

# Sites of one probe that disagree keep their own state, and so do their semaphores.
test_mixed_states() {
	start_inside inside_mixed
	start_measuring --count --json
	order 'threads 2 1000'
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds 2000)" "hits"
	check_gone
	order report
	matches "$(cat "$(output_of)")" 'mixed handler=2000 hits=4000' "handlers: one of two sites is on"
	end_inside
}

# ---- exactness --------------------------------------------------------------------------------

# Inside, by the BPF engine and by the real bpftrace, all at a time.
test_three_tools_agree() {
	local inside bpf i rounds=$((8 * 2500 + 3 * 1000 + 400))
	need_bpf
	need_command bpftrace bpftool
	start_inside
	start_measuring --count --json
	inside=$COUNTING
	background "$TOOL" attach --budget none -exe "$TMP/inside" --count --json >"$TMP/bpf" 2>"$TMP/bpf.err"
	bpf=$!
	wait_for 'has_text "$TMP/bpf.err" "counting [0-9]* probes"' 60
	background bpftrace --unsafe -e "usdt:$TMP/inside:ocaml_1:* { @[probe] = count(); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 5' 60
	kill -0 "$BPFTRACE" || fail "$(<"$TMP/bpftrace")"
	forget_output
	tell 'threads 8 2500'
	for ((i = 0; i < 10; i++)); do
		"$TOOL" attach -pid "$TARGET" -enable hot,end
		"$TOOL" attach -pid "$TARGET" -disable hot,end
	done
	await_line 'done' 300
	order 'fork 3 1000'
	order 'storm 400'
	end_bpftrace
	kill -INT "$bpf"
	wait "$bpf"
	COUNTING=$inside stop_measuring
	eq "$(totals)" "$(hits_of_rounds $rounds)" "hits, inside"
	mv "$TMP/bpf" "$TMP/counts"
	eq "$(totals)" "$(hits_of_rounds $rounds)" "hits, by the BPF engine"
	eq "$(sed -n 's/^@\[usdt:.*:\([a-z]*\)\]: /\1 /p' "$TMP/bpftrace" | LC_ALL=C sort)" \
		"$(hits_of_rounds $rounds)" "hits, by bpftrace: $(<"$TMP/bpftrace")"
	check_gone
	end_inside
}

# Thousands of threads that live for one pair.
test_thread_storm() {
	local n=3000
	[[ $WHOLE = no ]] || n=30000
	start_inside
	start_measuring --json --count --time begin,end
	order "storm $n"
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds $n)" "hits"
	check_pairs "$n"
	check_gone
	end_inside
}

# The program's own books: workers in threads, domains and children, which are moved from CPU to CPU, interrupted by
# timers, stopped, traced and stepped all the time.
test_moved_and_interrupted() {
	local i processes mover
	need_command gdb
	start_target "$(own_copy "${MOVED:-$O/tests/ocaml/moved}")" 3
	await_line ready
	keep_memory
	start_measuring --json --count --time one,two
	tell go
	await_line 'running .*' 60
	read -ra processes < <(sed -n 's/^running //p' "$(output_of)")
	python3 "$ROOT/tests/e2e/move_threads.py" "${processes[@]}" 2>"$TMP/mover" &
	mover=$!
	for ((i = 0; i < ${MOVES:-4}; i++)); do
		disturb "${processes[@]}"
	done
	kill "$mover" || fail "$(<"$TMP/mover")"
	tell stop
	await_line end 120
	stop_measuring
	eq "$(totals)" "$(sed -n 's/^\([a-z]*\) expected=/\1 /p' "$(output_of)")" "hits"
	check_pairs "$(sed -n 's/^one expected=//p' "$(output_of)")"
	check_gone
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
	timeout 60 gdb -q -nx -batch -p "$1" >"$TMP/gdb" 2>&1 || fail "$(<"$TMP/gdb")"
	# A worker, which waits for nothing.
	timeout 60 gdb -q -nx -batch -p "$3" -ex 'stepi 100' >"$TMP/gdb" 2>&1 || fail "$(<"$TMP/gdb")"
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
	start_measuring --count --json
	have_child
	order 'threads 2 1000'
	let_child_run
	have_child
	matches "$("$TOOL" doctor -pid "$CHILD" -fix)" 'fixed: 5 sites restored'
	eq "$(memory_of "$CHILD")" "${MEMORY_BEFORE[$TARGET]}" "text and semaphores of the child"
	"$TOOL" doctor -pid "$TARGET" | finds 'sites counted inside'
	counted_rounds=$ROUNDS
	let_child_run
	order 'threads 1 1000'
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds $((3000 + counted_rounds)))" "hits"
	check_gone
	end_inside
}

# A child is a process with a pid, and can be counted without its parent, from a stop to its end.
test_child_by_its_pid() {
	start_inside
	have_child
	start_measuring -pid "$CHILD" --count --json
	order 'threads 2 1000'
	let_child_run
	wait "$COUNTING" || fail "$(<"$TMP/counting.err")"
	eq "$(totals)" "$(hits_of_rounds "$ROUNDS")" "hits"
	check_gone
	end_inside
}

# The parent ends: its children are restored, too.
test_parent_ends_first() {
	start_inside
	start_measuring --count --json
	have_child
	order 'threads 2 1000'
	end_inside
	wait "$COUNTING" || fail "$(<"$TMP/counting.err")"
	eq "$(totals)" "$(hits_of_rounds 2000)" "hits"
	eq "$(memory_of "$CHILD")" "${MEMORY_BEFORE[$TARGET]}" "text and semaphores of the child"
	let_child_run
}

test_stopped() {
	start_inside
	order 'run 2'
	kill -STOP "$TARGET"
	await_stopped
	start_measuring --count --json --interval 100ms
	await_stopped
	wait_for '[[ $(wc -l <"$TMP/counts") -ge 2 ]]'
	kill -CONT "$TARGET"
	let_run each
	kill -STOP "$TARGET"
	await_stopped
	stop_measuring
	await_stopped
	check_bytes
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
	start_measuring --count --json
	order 'threads 2 1000'
	forget_output
	tell exec
	await_line ready
	stop_measuring
	matches "$(<"$TMP/counting.err")" 'the process runs another program'
	eq "$(totals)" "$(hits_of_rounds 2000)" "hits"
	keep_memory
	start_measuring --count --json
	order 'threads 1 1000'
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds 1000)" "hits of the new program"
	check_gone
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
		timeout 60 "$BINARIES/kill_at" -p "$TARGET" "$TMP/killed" "stop:$n" "$TOOL" attach --budget none -pid "$TARGET" --count --json \
			--engine inside --for 20ms >"$TMP/out" 2>"$TMP/err" || status=$?
		matches "$status" '^[05]$' "status of the tool, the target ended at $n: $(<"$TMP/err")"
		has_ended "$TARGET" || break
		wait "$TARGET" || :
	done
	((n > 3 * step)) || fail "only $n stops"
	echo "# killed at $((n / step)) stops"
	kill "$TARGET"
}

test_pid_namespace() {
	local outer inner
	need_command unshare
	own_copy "$BINARIES/inside" >/dev/null
	start_target unshare --pid --fork --kill-child "$TMP/inside"
	await_line ready
	outer=$TARGET
	inner=$(pgrep -P "$outer")
	keep_memory "$inner"
	start_measuring -pid "$inner" --json --count --time begin,end
	order 'threads 4 1000'
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds 4000)" "hits"
	check_pairs 4000
	check_bytes "$inner"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# A function recurses into the end of the stack in each round. The fault must be one of OCaml code, from which
# OCaml 4 goes on, not one of a trampoline; at a start, and at a stop.
test_stack_overflow() {
	local pair suite=$ROOT/tests/ocaml/suite
	PROGRAMS=deep_recursion BARE=no "$suite/build" "$O" "$TMP/suite" >"$TMP/built" 2>&1 || fail "$(<"$TMP/built")"
	for pair in endless,deep deep,endless; do
		OCAMLRUNPARAM=l=1M start_target "$TMP/suite/deep_recursion" toggled "$suite/deep_recursion.ml"
		await_line ready
		start_measuring --json --time "$pair"
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
	start_measuring --count --json
	order "catch $1"
	stop_measuring
	check_bytes
	is_mapped || fail "$1: a signal frame points to memory that is not mapped"
	order release
	let_run each
	# What is left goes with a later attach or detach.
	for ((i = 0; i < 50; i++)); do
		start_measuring --count --json
		stop_measuring
		is_mapped || break
	done
	check_gone
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
	start_measuring --count --json
	order 'threads 1 100'
	poke $((hot + 1)) 0x3d
	order 'threads 1 10'
	poke $((hot + 1)) 0xe8
	order 'threads 1 1000'
	poke $((hot + 1)) 0x3d
	stop_measuring
	eq "$(totals)" "$(hits_of_rounds 1110 | sed 's/^hot .*/hot 1100/')" "hits"
	matches "$(<"$TMP/counting.err")" '1 of 5 sites are not counted now, because another program has changed' "warning"
	check_gone
	end_inside
}

# Nothing has been touched.
check_untouched() {
	check_bytes
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
		matches "$(<"$2")" 'is already counted inside|another tool'
		refused=$((refused + 1))
		;;
	*) fail "status $1: $(<"$2")" ;;
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
	check_gone
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
		"$TOOL" attach -pid "$TARGET" --count --json --engine inside --for 1ms >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	done
	touch "$TMP/ended"
	wait "$switching" || fail "$(<"$TMP/switching.err")"
	check_gone
	forget_output
	end_inside
}

# gdb holds the process when counting ends: the tool says so, and doctor completes it.
test_traced_at_the_end() {
	local status=0
	need_command gdb
	start_inside
	start_measuring --count --json
	order 'threads 2 1000'
	gdb -q -nx -batch -p "$TARGET" -ex 'shell while [ ! -e "$TMP/go-on" ]; do sleep 0.1; done' >"$TMP/gdb" 2>&1 &
	GDB=$!
	wait_for '! grep -q "TracerPid:.0$" "/proc/$TARGET/status"'
	kill -INT "$COUNTING"
	wait "$COUNTING" || status=$?
	matches "$(<"$TMP/counting.err")" 'is being traced by pid'
	touch "$TMP/go-on"
	wait "$GDB" || :
	"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/doctor"
	order 'threads 2 1000'
	check_gone
	end_inside
}

# ---- what may be asked, and by whom -----------------------------------------------------------

# The owner of a process needs no capabilities. The process ends while it is counted.
test_ordinary_user() {
	local as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	need_command setpriv
	need_root
	chmod 755 "$TMP"
	cp "$O/tests/ocaml/counted" "$TOOL" "$TMP"
	start_target "${as_user[@]}" "$TMP/counted" 100000 2
	await_line ready
	background env -u TMP "${as_user[@]}" "$TMP/ocaml-probes" attach --budget none -pid "$TARGET" --count --json \
		>"$TMP/counts" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'has_text "$TMP/err" "counting [0-9]* probes" || ! kill -0 "$COUNTING"'
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	wait "$COUNTING" || fail "$(<"$TMP/err")"
	finish_target
	matches "$(<"$TMP/err")" 'engine: inside, since BPF is not available'
	eq "$(totals)" "$(expected_hits)" "hits"
}

test_wrong_use() {
	local what
	start_target "$(own_copy "$O/tests/ocaml/counted")" 1000 2
	await_line ready
	check_error 2 "--engine 'inward': not bpf, inside or auto" attach -pid "$TARGET" --count --engine inward
	check_error 2 '--engine needs --count or --time' attach -pid "$TARGET" --engine inside -enable-all
	for what in '--by-thread' '--stack' '--children' \
		'--hist arg0' '--print in_loop'; do
		# shellcheck disable=SC2086 # an option and its value
		check_error 2 "--engine inside excludes ${what%% *}" attach -pid "$TARGET" --count=in_loop --engine inside $what
	done
	check_error 2 'excludes --slower' attach -pid "$TARGET" --time in_loop,alpha --engine inside --slower 1ms
	check_error 2 'excludes --keep with --by-process' attach -pid "$TARGET" --count --by-process --engine inside --keep x
	check_error 2 'excludes note:' attach -pid "$TARGET" --count=note:a:b --engine inside
	check_error 2 'excludes --exe' attach -exe "$TMP/counted" --count --engine inside
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
	kill "$TARGET"
	finish_target
}

run_tests "$@"
