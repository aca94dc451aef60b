#!/usr/bin/env bash
# Every state that a process can be in when somebody switches its probes: it goes on as it would
# have, and what cannot be done has a sentence of its own.
#
#   TOGGLES  how often probes are switched on and off while signals come, and while programs are
#            executed (default: 50)
#
# needs: fixtures
# smoke: test_system_calls
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"
BINARIES=$O/tests/fixtures/binaries
TOGGLES=${TOGGLES:-50}
# These come meanwhile, some 0.6 ms apart.
SIGNALS=$((TOGGLES * 70))

start_states() { # MODE [OPERAND]
	start_target "$BINARIES/states" "$@"
	await_line ready
}

# Switch all probes of TARGET on and off again, TIMES times.
toggle() { # TIMES
	local i
	for ((i = 0; i < $1; i++)); do
		"$TOOL" attach -quiet -pid "$TARGET" -enable-all
		"$TOOL" attach -quiet -pid "$TARGET" -disable-all
	done
}

# The same, or as often as there is time for before TARGET ends by itself, where the tool is slow.
toggle_until_it_ends() { # TIMES
	local i action
	for ((i = 0; i < $1; i++)); do
		for action in enable disable; do
			"$TOOL" attach -quiet -pid "$TARGET" -$action-all 2>"$TMP/err" || {
				has_ended "$TARGET" || has_text "$TMP/err" 'is about to end' || fail "$(<"$TMP/err")"
				wait_for 'has_ended "$TARGET"'
				((i > 0)) || fail "it ends before it was switched on and off"
				return 0
			}
		done
	done
}

# As often, whatever becomes of it; $TMP/ends gets a line `STATUS SENTENCE` each. Nothing hangs.
try_to_toggle() { # TIMES
	local i status action
	for ((i = 0; i < $1; i++)); do
		for action in enable disable; do
			status=0
			timeout 600 "$TOOL" attach -quiet -pid "$TARGET" -$action-all 2>"$TMP/err" || status=$?
			echo "$status $(<"$TMP/err")"
		done
	done >"$TMP/ends"
}

state() {
	sed -n 's/^State:.\(.\).*/\1/p' "/proc/$TARGET/status"
}

# Not stopped, nor traced, in any thread.
# A call that waits is not cut short, nor begun anew: it takes what it would have taken. Only
# epoll_wait and sigtimedwait are ended by the kernel, with EINTR, whenever a process is stopped and
# goes on (signal(7), "Interruption of system calls ... by stop signals"). What was begun anew would take
# as long as the switching and 1.5 s, and where that is slow all is.
# On a machine that stands still for a while a call may be late: there are three tries.
test_system_calls() {
	local try
	for try in 1 2 3; do
		make_system_calls
		[[ -n $LATE ]] || return 0
	done
	fail "calls that took another time: $LATE"
}

# Sets LATE to what took another time.
make_system_calls() {
	local start late_ms
	start_states calls 1500
	start=$EPOCHREALTIME
	toggle_until_it_ends 30
	late_ms=$(((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}) / 3000))
	((late_ms > 700)) || late_ms=700
	finish_target
	eq "$TARGET_STATUS" 0 "status"
	eq "$(sed '/ready/d; s/ [0-9]*$//' "$(output_of)" | sort)" \
		"$(printf '%s\n' 'nanosleep 0 0' 'clock_nanosleep 0 0' 'read 1 0' 'poll 0 0' 'select 0 0' \
			'futex -1 110' 'waitpid 0 0' 'epoll_wait -1 4' 'sigtimedwait -1 4' | sort)" \
		"results"
	LATE=$(awk -v most=$((1500 + late_ms)) 'NF == 4 && $1 !~ /epoll_wait|sigtimedwait/ && ($4 < 1490 || $4 > most)' \
		"$(output_of)")
}

# Queued signals while probes are switched: each comes, and comes once.
test_signals() {
	local sender
	start_states signals $SIGNALS
	"$BINARIES/states" send "$TARGET" $SIGNALS &
	sender=$!
	toggle "$TOGGLES"
	wait "$sender"
	await_running
	kill -USR1 "$TARGET"
	finish_target
	eq "$TARGET_STATUS" 0 "status"
	matches "$(cat "$(output_of)")" 'lost=0 doubled=0 timer=(9[5-9]|100)'
}

# A process that is stopped stays so, and one that is told to go on meanwhile goes on.
test_stopped_and_continued() {
	start_states threads 4
	kill -STOP "$TARGET"
	await_stopped
	toggle 5
	await_stopped
	"$TOOL" attach -pid "$TARGET" -enable-all
	kill -CONT "$TARGET"
	toggle 20
	await_running
	kill -0 "$TARGET"
}

test_64_threads_and_newborn_ones() {
	start_states threads 64
	toggle 20
	await_running
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "reused disabled states_only disabled"
	kill -0 "$TARGET"
}

# The parent of a vfork child cannot be stopped until the child ends or becomes another program.
test_vfork() {
	start_states vfork 1
	toggle 30
	await_running
	start_states vfork 300
	toggle 2
	await_running
	start_states vfork 20000
	check_error 6 "does not stop" attach -pid "$TARGET" -enable-all
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "reused disabled states_only disabled"
	await_running
}

# Two programs become each other every 2 ms. The target itself looks for bytes that changed and are
# no site's.
test_in_exec() {
	start_states exec "$BINARIES/states_shifted"
	try_to_toggle "$TOGGLES"
	kill -0 "$TARGET" || fail "the target ended: $(tail -1 "$(output_of)")"
	await_running
	eq "$(cut -d' ' -f1 "$TMP/ends" | sort -u | tr -d '015\n')" "" \
		"unexpected ends: $(sort "$TMP/ends" | uniq -c)"
	grep -q '^0 ' "$TMP/ends" || fail "never switched: $(sort "$TMP/ends" | uniq -c)"
	eq "$(grep -vE '^(0|1 .*is disabled already|5 .*(pid [0-9]+).*)' "$TMP/ends")" "" "sentences"
	kill -KILL "$TARGET"
}

# Whatever is done to a process that is about to end, it ends; the tool says that it has.
test_dying() {
	local i status
	for ((i = 0; i < 60; i++)); do
		"$BINARIES/states" brief >"$TMP/out" &
		TARGET=$!
		sleep "0.00$((i % 6))"
		try_to_toggle 1
		eq "$(grep -vE '^0 $|^5 .*pid [0-9]+' "$TMP/ends")" "" "ends"
		status=0
		wait "$TARGET" || status=$?
		eq "$status" 0 "status of the target"
	done
}

test_the_first_thread_has_ended() {
	local first thread
	start_states leader
	first=$TARGET
	wait_for '[[ $(state) = Z ]]'
	check_error 5 "the main thread has exited; the other threads cannot be reached through this pid" attach -pid "$TARGET" -enable-all
	thread=$(find "/proc/$first/task" -mindepth 1 -maxdepth 1 ! -name "$first" -printf %f)
	"$TOOL" attach -pid "$thread" -enable-all
	eq "$("$TOOL" info -pid "$thread" | xargs)" "reused enabled states_only enabled"
	"$TOOL" attach -pid "$thread" -disable-all
	await_running
	kill -KILL "$first"
}

test_not_dumpable() {
	need_root
	need_command setpriv
	start_states undumpable
	toggle 2
	await_running
	chmod 755 "$TMP" "$(dirname "$TMP")"
	start_target setpriv --reuid 65534 --clear-groups "$BINARIES/states" undumpable
	await_line ready
	local status=0
	setpriv --reuid 65534 --clear-groups --inh-caps -all --bounding-set -all \
		"$TOOL" attach -pid "$TARGET" -enable-all 2>"$TMP/err" || status=$?
	eq "$status" 3 "status: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" "pid $TARGET \(states\): "
}

# The sites and semaphores of `host` and of its library.
memory_of_host() { # PID
	memory_of "$1"
	notes_of "$TMP/liblinked.so" | bytes_at "$1" "0x$(grep -m1 liblinked.so "/proc/$1/maps" | cut -d- -f1)"
}

# Killed at each call that changes something, in a program with a library: the target is let go, and after
# `doctor --fix` all probes are on or all off.
test_killed_anywhere() {
	# Others put uprobes onto these.
	cp "$BINARIES"/{host,liblinked.so} "$TMP"
	start_target "$TMP/host"
	await_line ready
	check_killed_updates memory_of_host -enable-all -disable-all
	"$TOOL" attach -quiet -pid "$TARGET" -enable-all
	check_killed_updates memory_of_host -disable-all -enable-all
	tell 'go 1'
	await_line 'done'
}

run_tests "$@"
