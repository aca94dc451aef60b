#!/usr/bin/env bash
# `profile --engine ptrace`: samples without BPF and without privileges. profile_waits.sh has --off-cpu, profile_stacks.sh the
# stacks, profile_shares.sh the shares of time, the unit test thread_stop the stops.
#
# needs: fixtures ocaml/profiled
# takes: 20 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

AS_USER=(setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps=-all)

# The tool and the program where each user may execute them.
for_each_user() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$PROFILED" "$TMP"
	TOOL=$TMP/ocaml-probes
}

# A user profiles an own program. All stacks are whole, and the samples stand for no more CPU time than there was.
test_a_user_without_privileges() {
	for_each_user
	start_target "${AS_USER[@]}" "$TMP/profiled" cpu
	check_own_program "measuring: ocaml-probes lacks CAP_BPF and CAP_PERFMON" "${AS_USER[@]}"
}

# The target is `profiled cpu`, and the user of COMMAND owns it. WHY BPF is not available is a regular expression.
check_own_program() { # WHY COMMAND...
	local before
	await_line ready
	tell "run 1000"
	before=$(cut -d' ' -f1 "/proc/$TARGET/schedstat")
	for_ticks 50 "${@:2}" "$TOOL" profile -pid "$TARGET" --hz 997 --json >"$TMP/json" || fail "$(<"$TMP/err")"
	matches "$(head -n 1 "$TMP/err")" "^ocaml-probes: engine: ptrace, since BPF is not available: $1\$" "the reason"
	holds python3 - "$TMP/json" "$before" "$(cut -d' ' -f1 "/proc/$TARGET/schedstat")" <<'PY'
import json, sys
profile, before, after = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
assert profile["engine"] == "ptrace" and profile["truncated"] == 0 and profile["lost"] == 0, profile["losses"]
assert profile["samples"] >= 20 and 0 < profile["ns"] <= after - before, (profile["ns"], after - before)
assert profile["ns"] == sum(stack["ns"] for stack in profile["stacks"])
for stack in profile["stacks"]:
    assert stack["frames"][0]["function"] == "_start", stack
PY
	# The program runs on, and nobody traces it.
	eq "$(sed -n 's/^TracerPid:.//p' "/proc/$TARGET/status")" 0 "its tracer"
	let_work 10
}

# The user nobody in a user namespace, without capabilities. Of the system calls that docker's default seccomp filter refuses,
# these are refused which the tool might make: perf_event_open, fanotify_init, kcmp, bpf, userfaultfd, pidfd_getfd and
# process_madvise. The filter allows ptrace and process_vm_readv, as docker's does on kernels since 4.8.
test_a_container() {
	local as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	local filtered=(/usr/bin/python3 "$TMP/filter.py")
	need_command unshare nsenter
	for_each_user
	write_filter 298 300 312 321 323 438 440
	start_target "${as_nobody[@]}" unshare --user --map-current-user "${filtered[@]}" "$TMP/profiled" cpu
	wait_for '[[ /proc/$TARGET/exe -ef "$TMP/profiled" ]]'
	eq "$(sed -nE 's/^(CapEff|CapPrm|Seccomp|NoNewPrivs):.//p' "/proc/$TARGET/status" | xargs)" \
		"0000000000000000 0000000000000000 1 2" "its privileges"
	[[ $(readlink "/proc/$TARGET/ns/user") != $(readlink /proc/self/ns/user) ]] || fail "its user namespace"
	check_own_program 'measuring: .*' "${as_nobody[@]}" nsenter --target "$TARGET" --user --preserve-credentials "${filtered[@]}"
	kill "$TARGET"
	start_target "${as_nobody[@]}" unshare --user --map-current-user "${filtered[@]}" "$TMP/profiled" wait
	check_time_of_waits "${as_nobody[@]}" nsenter --target "$TARGET" --user --preserve-credentials "${filtered[@]}"
	finds '^ocaml-probes: engine: ptrace, since BPF is not available: ' "$TMP/err" || fail "$(<"$TMP/err")"
}

# Processes of another user are not sampled.
test_a_process_of_another_user() {
	local status=0
	for_each_user
	start_work "$PROFILED" cpu
	"${AS_USER[@]}" "$TOOL" profile -pid "$TARGET" --engine ptrace --for 100ms >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "3 ocaml-probes: pid $TARGET (profiled): belongs to uid 0, you are uid 12345" "the refusal"
	eq "$(<"$TMP/out")" "" "the output"
}

# A tool that is killed at any call leaves the program running, and not traced.
test_sigkill() {
	local call calls
	start_work "$PROFILED" cpu
	list_calls "$TOOL" profile -q -pid "$TARGET" --engine ptrace --hz 50 --for 200ms
	calls=$(spread_calls 12)
	for call in $calls; do
		kill_if_reached "$call" "$TOOL" profile -q -pid "$TARGET" --engine ptrace --hz 50 --for 200ms || continue
		wait_for "grep -q '^TracerPid:.0' /proc/$TARGET/status"
		let_work 2
	done
}

# Let strace trace the target. While the tool stops the target for a sample, strace fails (the manual says so): start it
# again.
trace_target() {
	while :; do
		background strace -qq -e trace=none -p "$TARGET" 2>"$TMP/strace"
		STRACE=$!
		wait_for "has_ended $STRACE || grep -q '^TracerPid:.$STRACE\$' /proc/$TARGET/status"
		has_ended "$STRACE" || return 0
	done
}

# A process that another process traces is refused. If the tracer comes later, samples are missed.
test_another_tracer() {
	local status=0
	need_command strace
	start_work "$PROFILED" cpu
	trace_target
	"$TOOL" profile -pid "$TARGET" --engine ptrace --for 300ms >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "6 ocaml-probes: pid $TARGET (profiled): is being traced by pid $STRACE (strace)" "the refusal"
	kill "$STRACE"
	wait_for "grep -q '^TracerPid:.0' /proc/$TARGET/status"
	background "$TOOL" profile -pid "$TARGET" --engine ptrace >"$TMP/out" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" sampling'
	let_work 30
	trace_target
	let_work 30
	kill "$STRACE"
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "$(<"$TMP/err")"
	finds 'Profiled\.spin' "$TMP/out" || fail "$(<"$TMP/out")"
	holds grep -q '^[0-9]* samples missed: a thread began to wait or ended before it was stopped, or had another tracer$' "$TMP/out"
}

# A program that is in system calls all the time: the samples are at the end of calls, and the table says so. A program that
# makes none has no such line.
test_many_system_calls() {
	start_target bash -c 'exec dd if=/dev/zero of=/dev/null bs=64M status=none'
	wait_for 'grep -q "^dd$" "/proc/$TARGET/comm"'
	let_work 2
	for_ticks 30 "$TOOL" profile -pid "$TARGET" --engine ptrace --hz 499 >"$TMP/out" || fail "$(<"$TMP/err")"
	holds grep -q '^[0-9]* samples are at the end of system calls: short calls may have too large a share, see --engine bpf$' \
		"$TMP/out" || fail "$(<"$TMP/out")"
	for_ticks 30 "$TOOL" profile -pid "$TARGET" --engine ptrace --hz 499 --json >"$TMP/json" || fail "$(<"$TMP/err")"
	holds python3 -c 'import json, sys; p = json.load(sys.stdin); assert p["samples"] / 10 < p["in_calls"] <= p["samples"], p' \
		<"$TMP/json"
	start_target bash -c 'echo ready; while :; do :; done'
	await_line ready
	for_ticks 30 "$TOOL" profile -pid "$TARGET" --engine ptrace --hz 499 >"$TMP/out" || fail "$(<"$TMP/err")"
	! holds grep -q 'system calls' "$TMP/out" || fail "$(<"$TMP/out")"
}

# A process has more threads than the tool may have descriptors: the last one is the one that runs.
test_many_threads() {
	start_target /usr/bin/python3 -c '
import threading
for _ in range(400):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
def busy():
    while True: pass
thread = threading.Thread(target=busy, daemon=True)
thread.start()
print("tid", thread.native_id)
print("ready", flush=True)
input()'
	await_line ready
	(
		ulimit -n 600
		for_ticks 30 "$TOOL" profile -pid "$TARGET" --engine ptrace --by-thread --json >"$TMP/json"
	) || fail "$(<"$TMP/err")"
	holds python3 - "$TMP/json" "$(sed -n 's/^tid //p' "$(output_of)")" <<'PY'
import json, sys
profile = json.load(open(sys.argv[1]))
most = profile["threads"][0]
assert most["tid"] == int(sys.argv[2]) and most["ns"] * 2 > profile["ns"] > 0, profile["threads"]
PY
}

test_exec() { check_exec --engine ptrace; }

expect_error() { # STATUS MESSAGE ARG...
	local status=0 expected=$1 message=$2
	shift 2
	"$TOOL" profile "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "$expected ocaml-probes: $message" "profile $*"
	eq "$(<"$TMP/out")" "" "output of profile $*"
}

test_errors() {
	expect_error 2 "profile: --engine 'inside': not bpf or ptrace" -pid 1 --engine inside
	expect_error 2 "profile: --engine ptrace excludes --alloc" -pid 1 --engine ptrace --alloc
	expect_error 2 "profile: --leaf: only for the table of --alloc" -pid 1 --leaf
	expect_error 2 "profile: --leaf: only for the table of --alloc" -pid 1 --alloc --leaf --folded
	expect_error 5 "pid 4194304: no such process" -pid 4194304 --engine ptrace
	cp "$PROFILED" "$TMP/nobody-runs-this"
	expect_error 5 "$TMP/nobody-runs-this: no process runs this file, and the engine ptrace samples only processes that run already" \
		--exe "$TMP/nobody-runs-this" --engine ptrace
}

run_tests "$@"
