#!/usr/bin/env bash
# Counting inside for long, on a machine that has much to do: random attaches, kills of the tool, switches,
# forks, storms of threads, signals, stops, and uprobes of bpftrace on sites and entries of functions. The programs check their registers and
# what they compute.
#
#   SECONDS_=4	so long
#   SEED=...	the same choices again
#
# needs: fixtures ocaml/counted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

SECONDS_=${SECONDS_:-4}
SEED=${SEED:-$$}
BINARIES=$O/tests/fixtures/binaries
TEST_TIMEOUT=$((SECONDS_ + 600))

declare -A before outputs
STEP=0 ORDERS=0 WHAT='' CHECKED='' COUNTED='' CALLED=''

# ---- programs ---------------------------------------------------------------------------------

start_programs() {
	local pid
	cp "$BINARIES/inside" "$O/tests/ocaml/counted" "$TMP"
	start_target "$TMP/inside"
	await_line ready
	CHECKED=$TARGET
	order 'run 3'
	await_orders
	start_target "$TMP/counted" 1000000000000 3
	await_line ready
	tell go
	COUNTED=$TARGET
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	start_target "$TMP/built/calls" 0 4
	await_line ready
	tell go
	CALLED=$TARGET
	for pid in "$CHECKED" "$COUNTED" "$CALLED"; do
		before[$pid]=$(memory_of "$pid")
	done
}

# The first program obeys, in its time.
order() { # LINE
	tell "$1" "$CHECKED"
	ORDERS=$((ORDERS + 1))
}

await_orders() {
	wait_for '[[ $(grep -cx "done" "$(output_of "$CHECKED")") -ge ORDERS ]] || ! kill -0 "$CHECKED"' 300
	check_alive
}

check_alive() {
	local pid
	for pid in $CHECKED $COUNTED $CALLED; do
		kill -0 "$pid" 2>/dev/null || die "$pid has ended: $(tail "$(output_of "$pid")")"
	done
}

die() { # TEXT
	fail "step $STEP of SEED=$SEED, $WHAT: $1"
}

# ---- what happens while the tool counts -------------------------------------------------------

nothing() { :; }

switches() {
	local i
	[[ $TARGET != "$CALLED" ]] || return 0
	for ((i = RANDOM % 6; i >= 0; i--)); do
		"$TOOL" attach -quiet -pid "$TARGET" -enable-all || die "cannot enable"
		"$TOOL" attach -quiet -pid "$TARGET" -disable-all || die "cannot disable"
	done
}

stops() {
	local i
	for ((i = RANDOM % 6; i >= 0; i--)); do
		kill -STOP "$TARGET"
		await_stopped
		kill -CONT "$TARGET"
	done
}

storms() {
	order "storm $((RANDOM % 300 + 1))"
}

forks() {
	order "fork $((RANDOM % 4 + 1)) $((RANDOM % 2000))"
}

signals() {
	order "alarm $((RANDOM % 2000 + 200))"
}

no_signals() {
	order 'alarm 0'
}

# Run bpftrace for SECONDS. It misses a signal that comes while it starts. A killed one can leave events in tracefs.
trace_for() { # SECONDS ARG...
	local pid
	background bpftrace --unsafe "${@:2}" >"$TMP/bpftrace" 2>&1
	pid=$!
	(
		sleep "$1"
		until has_ended "$pid"; do
			kill -INT "$pid" 2>/dev/null || :
			sleep 1
		done
	) &
	BPFTRACES+=("$pid" $!)
}

# bpftrace's uprobes come, and may be gone before or after the end of counting.
uprobes() {
	local exe
	[[ $TARGET != "$CALLED" ]] || return 0
	exe=$(readlink "/proc/$TARGET/exe")
	trace_for "$((RANDOM % 3 + 1))" -p "$TARGET" -e "usdt:$exe:ocaml_1:* { @ = count(); }"
}

# Uprobes on the entries of functions that have a window by then, or get one later.
uprobes_on_functions() {
	trace_for "$((RANDOM % 3 + 1))" -p "$CALLED" -e "uprobe:$TMP/built/calls:camlCalls__* { @ = count(); }"
}

the_tool_is_killed() {
	# At any moment of what it does, mostly.
	sleep "0.0$((RANDOM % 100 + 100))"
	kill -KILL "$TOOL_PID" 2>/dev/null || :
	IS_KILLED=yes
}

a_second_tool() {
	"$TOOL" attach -pid "$TARGET" --count --json --engine inside --for 1ms >"$TMP/second" 2>&1 || :
}

# Functions that another tool has changed are not counted; if these are all, or those that are timed, the tool says so.
is_left_to_others() { # STATUS
	[[ $1 = [14] ]] && finds -E 'another tool has a uprobe on, or has changed, the code|other code in memory than in their file' "$TMP/err"
}

# ---- steps ------------------------------------------------------------------------------------

HAPPENINGS=(nothing switches stops storms forks signals no_signals uprobes uprobes_on_functions the_tool_is_killed
	the_tool_is_killed a_second_tool)

step() {
	local status=0 happening flags=(--count)
	STEP=$((STEP + 1)) IS_KILLED=no
	TARGET=$CHECKED
	((RANDOM % 3)) || TARGET=$COUNTED
	if ((RANDOM % 3 == 0)); then
		TARGET=$CALLED
		flags=(--budget none --count='fn:Calls.*,c:calls_hit,c:calls_by_name')
		((RANDOM % 2)) || flags+=(--time fn:Calls.fib --time fn:Calls.frames --time fn:Calls.tail_many)
	elif [[ $TARGET = "$CHECKED" ]]; then
		((RANDOM % 2)) || flags=(--count --time begin,end)
	fi
	WHAT="$TARGET ${flags[*]}"
	"$TOOL" attach -pid "$TARGET" "${flags[@]}" --json --engine inside --for "$((RANDOM % 200 + 1))ms" \
		>"$TMP/out" 2>"$TMP/err" &
	TOOL_PID=$!
	for happening in "${HAPPENINGS[RANDOM % ${#HAPPENINGS[@]}]}" "${HAPPENINGS[RANDOM % ${#HAPPENINGS[@]}]}"; do
		WHAT+=", $happening"
		echo "$STEP: $WHAT" >&2
		$happening
	done
	wait "$TOOL_PID" || status=$?
	if [[ $IS_KILLED = yes && $status = 137 ]]; then
		"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/doctor" 2>&1 || die "doctor: $(<"$TMP/doctor")"
	else
		[[ $status = 0 ]] || [[ $status = 6 && $WHAT = *a_second_tool* ]] || is_left_to_others "$status" ||
			die "status $status: $(<"$TMP/err")"
	fi
	# A uprobe is an int3 in the place of the nop, and raises the half of the semaphore that tracers have.
	eq "$(memory_of "$TARGET" | sed "s/^ cc/ 90/; s:/ .. ..:/ 00 00:")" "${before[$TARGET]}" \
		"step $STEP of SEED=$SEED, $WHAT: text and semaphores"
	has_own_code uprobes || die "the code has changed"
	check_alive
}

test_soak() {
	local end happened
	need_counting
	need_command bpftrace
	RANDOM=$((SEED % 32768))
	BPFTRACES=()
	start_programs
	end=$((SECONDS + SECONDS_))
	while ((SECONDS < end)); do
		step
		if ((STEP % 20 == 0)); then
			await_orders
			let_run each "$CHECKED"
			let_run all "$COUNTED"
		fi
	done
	# Without any, `wait` would wait for the programs, too.
	((${#BPFTRACES[@]} == 0)) || wait "${BPFTRACES[@]}" || :
	await_orders
	order 'alarm 0'
	await_orders
	forget_output "$CHECKED"
	quit_target "$CHECKED"
	eq "$TARGET_STATUS" 0 "status: $(tail "$(output_of "$CHECKED")")"
	TARGET=$COUNTED
	tell stop
	await_line '# in_loop was seen.*' 60
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
	TARGET=$CALLED
	wait_for has_own_code
	tell stop
	quit_target
	eq "$TARGET_STATUS" 0 "status"
	check_rounds "$TMP/built/calls"
	echo "# $STEP steps in $SECONDS_ s" | tee -a "${SOAK_LOG:-/dev/null}"
}

run_tests "$@"
