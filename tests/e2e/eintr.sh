#!/usr/bin/env bash
# System calls that fail again and again, by strace's fault injection: the tool ends by itself, and a
# target is switched as a whole or not at all. (futex(2) is left out: glibc aborts when a wake-up fails.)
#
# needs: fixtures ocaml
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

need_injection() {
	need_command strace
	strace -qq -o /dev/null -e trace=none true || skip "strace may not trace here"
}

# Run COMMAND with a fault, which must come to a call. Sets STATUS. It takes a second or two.
inject() { # FAULT COMMAND...
	STATUS=0
	timeout --kill-after=5 600 strace -f -qq -o "$TMP/injected" -e trace="${1%%:*}" --inject="$1" "${@:2}" \
		>"$TMP/out" 2>"$TMP/err" || STATUS=$?
	asserted
	[[ $STATUS -ne 124 && $STATUS -ne 137 ]] || fail "$1: ${*:2} does not end: $(<"$TMP/err")"
	[[ $STATUS -lt 128 ]] || fail "$1: ${*:2}: status $STATUS: $(<"$TMP/err")"
	grep -q '(INJECTED)' "$TMP/injected" || fail "$1: ${*:2}: it made no such call"
}

# Start a fixture, all of its probes off.
start_disabled() { # ARG...
	start_target "$(own_copy "$O/tests/fixtures/v1")" "$@"
	await_line ready
	"$TOOL" attach -pid "$TARGET" -force -disable-all
	eq "$(states)" disabled
}

states() {
	"$TOOL" info -pid "$TARGET" | awk '{ print $2 }' | sort -u | xargs
}

# Switch with a fault: all is as before, with a line that says why, or as it was to be.
check_switch() { # FAULT
	local action=enable before=disabled after=enabled
	[[ $(states) = disabled ]] || action=disable before=enabled after=disabled
	inject "$1" "$TOOL" attach -pid "$TARGET" "-$action-all"
	if [[ $STATUS -eq 0 ]]; then
		eq "$(states)" "$after" "$1: states"
	else
		eq "$(states)" "$before" "$1: states after: $(<"$TMP/err")"
		grep -q 'ocaml-probes: ' "$TMP/err" || fail "$1: nothing was said: $(<"$TMP/err")"
	fi
	! grep -qE '^State:.[Tt]|^TracerPid:.[1-9]' /proc/"$TARGET"/task/*/status || fail "$1: left stopped"
}

# Calls that are interrupted for ever. The first reads are those of the dynamic linker.
test_endless_eintr() {
	local fault state
	need_injection
	start_disabled --threads 2
	for fault in read:error=EINTR:when=2+ read:error=EINTR:when=20+ pread64:error=EINTR:when=8+ \
		pread64:error=EINTR:when=20+ pwrite64:error=EINTR:when=3..1002 \
		process_vm_readv:error=EINTR process_vm_writev:error=EINTR wait4:error=EINTR waitid:error=EINTR \
		openat:error=EINTR:when=8+ getdents64:error=EINTR ptrace:error=EINTR \
		write:error=EINTR; do
		check_switch "$fault"
	done
	# In both directions: what has been written by another call is undone.
	for state in disabled enabled; do
		[[ $(states) = "$state" ]] || "$TOOL" attach -pid "$TARGET" "-${state%d}-all"
		eq "$(states)" "$state"
		check_switch pwrite64:error=EINTR
		[[ $STATUS -ne 0 ]] || fail "it has written"
	done
	quit_target
}

# Starting a program: it is run with its probes enabled, or not at all. strace would trace the program, which the tool
# wants to trace: tools/faults/inject does not.
test_endless_eintr_at_the_start() {
	local fault program status
	program=$(own_copy "$O/tests/fixtures/v1")
	for fault in wait4:1 wait4:2 ptrace:1 ptrace:5 read:1 read:10 pread64:1 pread64:30 process_vm_readv:1 \
		pwrite64:1 pwrite64:20 process_vm_writev:1 write:1; do
		status=0
		printf 'go 10\nquit\n' | timeout --kill-after=5 600 "$O/faults/inject" "$TMP/injected" "$fault+:4" \
			"$TOOL" trace -enable-all -prog "$program" -- --wait >"$TMP/out" 2>"$TMP/err" || status=$?
		finds $'^injected\t' "$TMP/injected" || fail "$fault: it made no such call"
		# The program outlives the tool.
		wait_for '! pgrep -g 0 -x v1 >/dev/null'
		if [[ $status -eq 0 ]]; then
			eq "$(awk -F'[= ]' '/handler=/ && $3 != $5' "$TMP/out")" "" "$fault: handlers that did not run at each hit"
			finds '^plain handler=10 hits=10$' "$TMP/out"
		else
			eq "$status $(<"$TMP/out")" "1 " "$fault: status, and what the program wrote"
		fi
	done
}

# Waiting for the end of --for.
test_endless_eintr_while_waiting() {
	need_injection
	start_disabled
	inject ppoll:error=EINTR "$TOOL" attach -pid "$TARGET" -enable-all --for 1h
	[[ $STATUS -ne 0 ]] || fail "it waited"
	grep -q 'waiting: Interrupted' "$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(states)" disabled "switched back"
	quit_target
}

# A signal that says that it is there and cannot be read: it ends the waiting all the same.
test_endless_eintr_at_the_signal() {
	local tracer tool
	need_injection
	start_disabled
	background strace -qq -o "$TMP/calls" -P 'anon_inode:[signalfd]' -e trace=read --inject=read:error=EINTR \
		"$TOOL" attach -pid "$TARGET" -enable-all --for 1h >"$TMP/out" 2>"$TMP/err"
	tracer=$!
	wait_for '[[ $(states) = enabled ]]'
	tool=$(pgrep -P "$tracer")
	kill -INT "$tool"
	wait_for 'has_ended "$tool"' 60
	[[ $(grep -c EINTR "$TMP/calls") -ge 1000 ]] || fail "$(grep -c EINTR "$TMP/calls") interruptions: $(tail -n 3 "$TMP/calls")"
	eq "$(states)" disabled "switched back"
	quit_target
}

# The live view ends, and says why.
test_endless_eintr_in_the_view() {
	local status=0
	need_injection
	need_command script
	start_target "$(own_copy "$O/tests/fixtures/v1")"
	await_line ready
	TERM=xterm timeout --kill-after=5 600 script -qec "strace -qq -f -o '$TMP/calls' -e trace=poll,ppoll \
		--inject=poll,ppoll:error=EINTR '$TOOL' top -pid $TARGET" /dev/null </dev/null >"$TMP/out" 2>&1 || status=$?
	[[ $status -ne 0 && $status -lt 124 ]] || fail "status $status: $(<"$TMP/out")"
	holds grep -aq 'Interrupted system call' "$TMP/out" || fail "$(<"$TMP/out")"
	[[ $(grep -c EINTR "$TMP/calls") -ge 1000 ]] || fail "$(grep -c EINTR "$TMP/calls") interruptions"
	quit_target
}

# The post-linker writes all or nothing.
test_endless_eintr_while_linking() {
	local fault
	need_injection
	gcc -nostdlib -static -o "$TMP/before" "$ROOT/tests/fixtures/binaries/dormant.S"
	for fault in read:error=EINTR:when=2+ pwrite64:error=EINTR \
		ftruncate:error=EINTR close:error=EINTR:when=3+ rename:error=EINTR fchmod:error=EINTR; do
		cp "$TMP/before" "$TMP/program"
		inject "$fault" "$O/ocaml-probes-link" "$TMP/program"
		[[ $STATUS -eq 0 ]] || cmp "$TMP/program" "$TMP/before"
		eq "$(find "$TMP" -name 'program?*')" "" "$fault: files left"
	done
}

# A thread that cannot be seized, once or always, and is there all the same.
test_a_thread_that_seems_to_have_ended() {
	local when
	need_injection
	start_disabled
	for when in 1 2 3; do
		check_switch "ptrace:error=ESRCH:when=$when"
		eq "$STATUS" 0 "ESRCH once, at call $when: $(<"$TMP/err")"
	done
	check_switch ptrace:error=ESRCH
	[[ $STATUS -ne 0 && $STATUS -ne 5 ]] || fail "status $STATUS: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" "pid $TARGET \(v1\): thread $TARGET \(state .\) cannot be traced: No such process"
	quit_target
}

# The order that lets a program ask its semaphore: handlers are on before it is raised, and off after it
# was lowered. "s" is a byte of a site, "c" are counters.
test_order_of_writes() {
	local action
	need_command strace
	start_disabled
	for action in enable disable; do
		strace -f -qq -o "$TMP/calls" -e trace=pwrite64,process_vm_writev "$TOOL" attach -pid "$TARGET" "-$action-all"
		sed -n 's/^.*pwrite64([0-9]*, ".*", 1, .*/s/p;s/^.*process_vm_writev(.*/c/p' "$TMP/calls" | uniq | xargs \
			>"$TMP/$action"
	done
	eq "$(<"$TMP/enable")" "s c"
	eq "$(<"$TMP/disable")" "c s"
	quit_target
}

run_tests "$@"
