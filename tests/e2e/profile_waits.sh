#!/usr/bin/env bash
# `profile --off-cpu --engine ptrace`: where threads wait, without BPF and without stopping them. profile_shares.sh has the
# shares of time, profile_ptrace.sh what a user without privileges gets.
#
# needs: fixtures ocaml/profiled ocaml/waits_for
# ocaml5: test_kinds
# takes: 20 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

# The threads of tests/fixtures/binaries/waits.c, and the numbers of the calls in which they wait.
declare -A CALL_OF=([waits]=0 [in_epoll]=232 [in_poll]=7 [in_sleep]=230 [in_signal]=128 [in_event]=0 [in_mutex]=202 [in_frame]=230)

start_waits() {
	start_target "$O/tests/fixtures/binaries/waits"
	await_line ready
	wait_for all_wait
}

all_wait() {
	local task n=0
	for task in "/proc/$TARGET/task"/*; do
		[[ $(cut -d' ' -f1 "$task/syscall") = "${CALL_OF[$(<"$task/comm")]:-none}" ]] || return 1
		n=$((n + 1))
	done
	[[ $n = "${#CALL_OF[@]}" ]]
}

# Eight threads wait for the whole time. None of them gets a CPU: a thread that is stopped would, and its call would return, or
# be restarted.
test_threads_that_wait() {
	local before
	start_waits
	before=$(cat "/proc/$TARGET/task"/*/schedstat)
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --hz 499 --by-thread --for 300ms --json --html "$TMP/p.html" \
		--pprof "$TMP/p.pb.gz" >"$TMP/json" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(cat "/proc/$TARGET/task"/*/schedstat)" "$before" "what the threads have run"
	holds python3 - "$TMP/json" <<'PY' || fail "$(head -c 3000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
assert top["engine"] == "ptrace" and top["profile"] == "wait" and "in_calls" not in top, top
assert top["always_waiting"] == top["samples"] == len(top["threads"]) == 8 and top["lost"] == 0, top
assert top["ns"] == 8 * top["duration_ns"] and all(thread["ns"] == top["duration_ns"] for thread in top["threads"])
expected = {
    "waits": ["_start", "main", "read"],
    "in_epoll": ["in_epoll", "epoll_wait"],
    "in_poll": ["in_poll", "poll"],
    "in_sleep": ["in_sleep", "nanosleep"],
    "in_signal": ["in_signal", "sigtimedwait"],
    "in_event": ["in_event", "read"],
    "in_mutex": ["in_mutex", "pthread_mutex_lock"],
    "in_frame": ["[truncated: a register is not known]", "in_frame", "fill", "nanosleep"],
}
for stack in top["stacks"]:
    names = [f["function"] for f in stack["frames"]]
    assert stack["wait"] == {"in_sleep": "sleep", "in_frame": "sleep", "in_signal": "sleep", "in_mutex": "mutex"}.get(stack["comm"], "io"), stack
    at = [names.index(name) for name in expected.pop(stack["comm"])]
    # Only the function that needs a frame pointer lacks its callers.
    assert at == sorted(at) and all(f["kind"] != "kernel" for f in stack["frames"]), names
assert not expected and top["truncated"] == 1
assert {kind: of["samples"] for kind, of in top["waits"].items() if of["samples"]} == {"io": 4, "sleep": 3, "mutex": 1}
assert sum(of["ns"] for of in top["waits"].values()) == top["ns"]
PY
	grep -q '"in_epoll' "$TMP/p.html" || fail "the page has no function"
	protoc --proto_path="$ROOT/tests/profile" --python_out="$TMP" profile.proto
	/usr/bin/python3 -B "$ROOT/tests/e2e/pprof_reader.py" "$TMP/p.pb.gz" 1 >"$TMP/of_pprof"
	holds python3 - "$TMP/json" "$TMP/of_pprof" <<'PY' || fail "$(<"$TMP/of_pprof")"
import json, sys
assert json.load(open(sys.argv[1]))["ns"] == sum(int(line.rsplit(" ", 1)[1]) for line in open(sys.argv[2]))
PY
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 100ms 2>&1 | finds '^8 threads waited the whole time$' ||
		fail "it does not say so"
}

# The stacks are those of BPF, without the frames in the kernel, except of the thread whose frame pointer is not known.
test_stacks_of_bpf() {
	local engine
	need_counting
	start_waits
	for engine in bpf ptrace; do
		"$TOOL" profile -pid "$TARGET" --off-cpu --engine "$engine" --by-thread --for 100ms --folded >"$TMP/$engine" 2>"$TMP/err" ||
			fail "$(<"$TMP/err")"
		sed -E 's/ [0-9]+$//; s/(;[^;]*_\[k\])+$//; /^in_frame/d' "$TMP/$engine" | sort >"$TMP/$engine.stacks"
	done
	eq "$(<"$TMP/ptrace.stacks")" "$(<"$TMP/bpf.stacks")" "the stacks"
	eq "$(wc -l <"$TMP/ptrace.stacks")" 7 "stacks"
}

# Waits of a tenth of a millisecond: many end while their stack is read. These are dropped, and each other stack is whole.
test_short_waits() {
	start_target "$O/tests/fixtures/binaries/waits" short
	await_line ready
	for_ticks 40 "$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --hz 9999 --json >"$TMP/json" || fail "$(<"$TMP/err")"
	holds python3 - "$TMP/json" <<'PY' || fail "$(head -c 3000 "$TMP/json")"
import json, sys
top, depths = json.load(open(sys.argv[1])), set()
assert top["lost"] == top["truncated"] == top["always_waiting"] == 0 < top["samples"]
assert top["ns"] <= top["duration_ns"]
for stack in top["stacks"]:
    names = [f["function"] for f in stack["frames"]]
    assert names[0] == "_start" and names[-2:] == ["nanosleep", "clock_nanosleep"], names
    depths.add((names.count("near"), names.count("deep")))
print(depths, top["samples"])
assert depths == {(1, 0), (0, 50)}
PY
}

declare -A KIND_OF=([in_mutex]=mutex [in_condition]=condition [in_read]=io [in_select]=io [in_delay]=sleep [in_signal]=sleep
	[in_join]=end [in_waitpid]=end [in_input]=io)


# What a thread waits for, by both engines: of threads that wait for the whole time, and of two that work in turns.
test_kinds() {
	local engine name
	start_waits_for busy
	for engine in bpf ptrace; do
		[[ $engine = ptrace ]] || need_counting
		"$TOOL" profile -pid "$TARGET" --off-cpu --engine "$engine" --idle --for 1s --json >"$TMP/json" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		for name in "${!KIND_OF[@]}"; do echo "$name ${KIND_OF[$name]}"; done >"$TMP/kinds"
		holds python3 - "$TMP/json" "$TMP/kinds" <<'PY' || fail "$engine: $(head -c 3000 "$TMP/json")"
import collections, json, sys
top, kinds = json.load(open(sys.argv[1])), dict(line.split() for line in open(sys.argv[2]))
found, sums = collections.defaultdict(set), collections.Counter()
for stack in top["stacks"]:
    names = [f["function"] for f in stack["frames"]]
    sums[stack["wait"]] += stack["ns"]
    for name in (name for name in names if name.startswith("Waits_for.in_")):
        found[name.removeprefix("Waits_for.")].add(stack["wait"])
    if "caml_thread_tick" in names:
        assert stack["wait"] == "runtime_thread", names
assert found.pop("in_turns") == {"runtime_lock"}, found
assert found == {name: {kind} for name, kind in kinds.items()}, found
assert {kind: of["ns"] for kind, of in top["waits"].items() if of["ns"]} == sums
PY
	done
}

# The sums of the kinds in the table, longest first; and how long threads were ready without a CPU.
test_table_of_kinds() {
	start_waits_for
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 300ms >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/out")" $'\nready, but without a CPU: [0-9.]+ ?[a-z]+ in all threads, in none of the waits\n'
	eq "$(sed -n '/FOR$/,/^$/s/^ *\([0-9.]*%\) .*[^0-9]\([0-9]*\)  \([a-zI].*\)/\2 \3/p' "$TMP/out" | grep -v runtime | sort -r)" "3 I/O and events
2 the end of a thread or process
2 a time or signal
1 a mutex
1 a condition" "kinds: $(<"$TMP/out")"
}

# Threads that wait for the whole time are left out, unless the runtime's own threads are the only others.
test_idle_threads() {
	local engine what
	for engine in bpf ptrace; do
		[[ $engine = ptrace ]] || need_counting
		for what in "" busy; do
			start_waits_for $what
			"$TOOL" profile -pid "$TARGET" --off-cpu --engine "$engine" --for 1s --json >"$TMP/json" 2>"$TMP/err" ||
				fail "$(<"$TMP/err")"
			holds python3 - "$TMP/json" "$what" "${#KIND_OF[@]}" <<'PY' || fail "$engine $what: $(head -c 3000 "$TMP/json")"
import json, sys
top, what, n = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
found = {f["function"] for stack in top["stacks"] for f in stack["frames"] if f["function"].startswith("Waits_for.in_")}
assert top["always_waiting"] == n and top["lacks_idle"] == (what == "busy"), top
assert found == {"Waits_for.in_turns"} if what else len(found) == n, found
assert top["ns"] == sum(stack["ns"] for stack in top["stacks"])
PY
		done
	done
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 100ms 2>&1 |
		finds -E '^[0-9]+ threads waited the whole time, left out here: --idle shows them$' || fail "it does not say so"
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 100ms --idle 2>&1 |
		finds -E '^[0-9]+ threads waited the whole time$' || fail "it does not say so"
	check_error 2 'profile: --idle: only for --off-cpu$' profile -pid "$TARGET" --idle
}

test_time_of_waits() {
	start_target "$PROFILED" wait
	WAITS_BY="--engine ptrace" check_time_of_waits env
}

# How often the tool's thread that looks at the target has waited for its next look.
looks() {
	local task
	for task in "/proc/$PROFILE/task"/*; do
		[[ $task = */"$PROFILE" ]] || sed -n 's/^voluntary_ctxt_switches:.//p' "$task/status"
	done
}

# Another program that the process executes may be one whose stacks the user must not see: its waits do not count.
test_exec() {
	local before
	start_target bash -c 'read -r; exec "$0" wait' "$PROFILED"
	wait_for '[[ /proc/$TARGET/exe -ef /bin/bash ]]'
	await_reading
	background "$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --by-thread --json >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" sampling'
	before=$(looks)
	wait_for "(( \$(looks) >= $before + 2 ))"
	tell ''
	await_line ready
	run_books 0.5
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "$(<"$TMP/err")"
	holds python3 - "$TMP/json" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
assert {thread["comm"] for thread in top["threads"]} == {"bash"} and 0 < top["ns"] < top["duration_ns"]
PY
}

run_tests "$@"
