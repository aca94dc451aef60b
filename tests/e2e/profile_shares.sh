#!/usr/bin/env bash
# `profile`: the shares of the time, of waits and of allocation against the program's own books.
#
# long: statistics
# needs: fixtures ocaml/profiled ocaml/waits_for
# takes: 90 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

# Profile a program that gets samples enough also where others use the processors.
profile_preferred() { # PROGRAM WORK SECONDS FLAG...
	local priority=${PRIORITY:--10}
	renice -n "$priority" -p $$ >/dev/null
	profile_work "$@"
}

# The share of each function in the folded stacks must be within 2 points of that in the books, and
# nearly all stacks must be whole: from the start of the program to the function.
check_shares() {
	holds python3 - "$TMP/books" "$TMP/folded" <<'PY' || fail "$(head -c 3000 "$TMP/folded")"
import sys
books = dict((l.split()[0], int(l.split()[1])) for l in open(sys.argv[1]))
found, total, whole, n = dict.fromkeys(books, 0), 0, 0, 0
for line in open(sys.argv[2]):
    stack, value = line.rsplit(" ", 1)
    frames, value = stack.split(";"), int(value)
    n += 1
    if frames[0].startswith("[truncated"):
        total += value
        continue
    assert frames[0] == "_start", line
    total += value
    whole += value
    # The books leave out what the kernel does for others in between, which may be a tenth of a second.
    if "handle_softirqs_[k]" in frames:
        continue
    of = [name for name in books if "Profiled." + name in frames]
    assert len(of) <= 1, line
    for name in of:
        at = frames.index("Profiled." + name)
        assert frames[at - 1] == "Profiled.run", line
        found[name] += value
ok = whole >= 0.995 * total
for name, ns in books.items():
    expected, got = 100 * ns / sum(books.values()), 100 * found[name] / sum(found.values())
    print(f"{name}: {got:.2f} %, its books {expected:.2f} %")
    ok &= abs(got - expected) <= 2
print(f"{n} stacks, {whole} of {total} whole")
sys.exit(not ok)
PY
}

test_cpu() {
	profile_preferred "$PROFILED" cpu 2 --folded --hz 4999
	check_shares
}

# Without BPF. The bound is that of BPF.
test_cpu_by_ptrace() {
	profile_preferred "$PROFILED" cpu 4 --engine ptrace --folded --hz 997
	check_shares
}

test_waits_by_ptrace() {
	profile_preferred "$PROFILED" wait 2 --folded --off-cpu --engine ptrace --hz 997
	check_shares
}

# A program that runs for a tenth of a millisecond at a time and then sleeps: most samples are where it runs. A sampler that
# takes each thread in state R finds most of them where they have just been woken.
test_short_runs_by_ptrace() {
	need_command ocamlopt
	cat >"$TMP/bursts.ml" <<-'ML'
		let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
		let () =
		  print_endline "ready";
		  while true do
		    ignore (Sys.opaque_identity (fib 21));
		    Unix.sleepf 0.001
		  done
	ML
	(cd "$TMP" && ocamlopt -I +unix unix.cmxa bursts.ml -o bursts 2>bursts.err) || fail "$(<"$TMP/bursts.err")"
	start_target "$TMP/bursts"
	await_line ready
	for_ticks 40 "$TOOL" profile -pid "$TARGET" --engine ptrace --hz 997 --folded >"$TMP/folded" || fail "$(<"$TMP/err")"
	holds awk '{ n += $NF } /Bursts.fib/ { runs += $NF } END { print runs " of " n; exit !(n >= 20 && runs >= 0.6 * n) }' "$TMP/folded" ||
		fail "$(<"$TMP/folded")"
}

test_stripped() {
	strip -o "$TMP/profiled" "$PROFILED"
	profile_preferred "$TMP/profiled" cpu 2 --folded --hz 4999
	check_shares
}

test_off_cpu() {
	profile_preferred "$PROFILED" wait 2 --folded --off-cpu
	check_shares
}

# The waits of one thread, and the time when it was ready, make up the time of the profile, whether they begin before it or end
# after it.
test_time_of_waits() {
	profile_preferred "$PROFILED" wait 2 --off-cpu --json
	holds python3 - "$TMP/folded" <<'PY' || fail "$(head -c 2000 "$TMP/folded")"
import json, sys
top = json.load(open(sys.argv[1]))
all = top["ns"] + top["ready_ns"]
print(f"{all / top['duration_ns']:.4f} of the time")
assert abs(all / top["duration_ns"] - 1) < 0.02 and top["truncated"] == top["lost"] == 0
PY
}

# A line a thread of the target: its number, how long it has run and waited for a CPU, and the time. All in nanoseconds.
accounts() {
	local task
	for task in "/proc/$TARGET/task"/*; do
		echo "${task##*/} $(cut -d' ' -f1,2 "$task/schedstat") $(date +%s%N)"
	done
}

# Record waits for four seconds, and take the target's accounts at the beginning and at the end.
record_with_accounts() { # FLAG...
	background "$TOOL" profile -pid "$TARGET" --off-cpu --json "$@" >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" "sampling|recording"'
	accounts >"$TMP/before"
	sleep 4
	accounts >"$TMP/then"
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "$(<"$TMP/err")"
}

# Two threads work in turns on a CPU that they share with another program: how long they wait for the lock of the runtime,
# and for the CPU, is what the kernel's accounts say.
test_lock_and_ready() {
	local engine
	need_counting
	start_waits_for busy taskset -c 0
	background taskset -c 0 sh -c 'while :; do :; done'
	for engine in bpf "ptrace --hz 997"; do
		# shellcheck disable=SC2086
		record_with_accounts --by-thread --engine $engine
		holds python3 - "$TMP/json" "$TMP/before" "$TMP/then" <<'PY' || fail "$engine: $(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
before, then = ({line.split()[0]: list(map(int, line.split()[1:])) for line in open(path)} for path in sys.argv[2:])
workers = {str(s["tid"]) for s in top["stacks"] for f in s["frames"] if f["function"] == "Waits_for.in_turns"}
assert len(workers) == 2, workers
deltas = {tid: [b - a for a, b in zip(before[tid], then[tid])] for tid in then}
ready = 100 * sum(queued / of for _, queued, of in deltas.values())
lock = 100 * sum(1 - (ran + queued) / of for ran, queued, of in (deltas[tid] for tid in workers))
found_ready = 100 * top["ready_ns"] / top["duration_ns"]
found_lock = 100 * top["waits"]["runtime_lock"]["ns"] / top["duration_ns"]
print(f"ready {found_ready:.1f} % of the time, the kernel {ready:.1f} %; lock {found_lock:.1f} %, the kernel {lock:.1f} %")
assert abs(found_ready - ready) < 2 and abs(found_lock - lock) < 2 and ready > 10 and lock > 10
PY
	done
}

# A thread that sleeps for a tenth of a millisecond at a time, and then waits for a CPU that another program uses: this is no part
# of its waits.
test_ready_after_waits() {
	need_counting
	start_target taskset -c 0 "$O/tests/fixtures/binaries/waits" short
	await_line ready
	background taskset -c 0 nice -n -10 sh -c 'while :; do :; done'
	record_with_accounts
	holds python3 - "$TMP/json" "$TMP/before" "$TMP/then" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
before, then = (list(map(int, open(path).read().split()[1:])) for path in sys.argv[2:])
ran, queued, of = (b - a for a, b in zip(before, then))
waited, ready = 100 * (1 - (ran + queued) / of), 100 * queued / of
found, found_ready = (100 * top[name] / top["duration_ns"] for name in ("ns", "ready_ns"))
print(f"ready {found_ready:.1f} % of the time, the kernel {ready:.1f} %; waits {found:.1f} %, the kernel {waited:.1f} %")
assert abs(found_ready - ready) < 2 and abs(found - waited) < 2 < ready
PY
}

test_alloc() {
	profile_preferred "$PROFILED" alloc 2 --folded --alloc --hz 9999
	check_shares
}

# The collector runs for those that ask for it.
test_gc() {
	profile_preferred "$PROFILED" collect 2 --folded --gc --hz 4999
	check_shares
}

# Two profiles, of other rates of samples.
profile_one() { # NAME WORK SEVENTY TWENTY TEN FLAG...
	local name=$1 work=$2 program=$TMP/$1.program
	printf '#!/bin/sh\nexec %q "$1" %q %q %q\n' "$PROFILED" "$3" "$4" "$5" >"$program"
	chmod +x "$program"
	profile_preferred "$program" "$work" 2 --json "${@:6}"
	mv "$TMP/folded" "$TMP/$name.json"
	mv "$TMP/books" "$TMP/$name.books"
}

# The shares of the three functions in both profiles must be within 2 points of the books.
check_diff() {
	holds python3 - "$TMP" <<'PY' || fail "$(head -c 2000 "$TMP/new.json")"
import json, sys
def books(name):
    of = dict((l.split()[0], int(l.split()[1])) for l in open(f"{sys.argv[1]}/{name}.books"))
    return {f"Profiled.{name}": 100 * value / sum(of.values()) for name, value in of.items()}
diff, old, new = json.load(open(f"{sys.argv[1]}/new.json")), books("old"), books("new")
found = {f["function"]: f["total"] for f in diff["functions"] if f["function"] in old}
assert len(found) == 3
# Of the time in the three functions: the program also waits for its orders.
sums = {side: sum(f[side] for f in found.values()) for side in ("old", "new")}
for name, f in found.items():
    got = {side: 100 * f[side] / sums[side] for side in sums}
    print(f"{name}: {got['old']:.2f} and {got['new']:.2f} %, its books {old[name]:.2f} and {new[name]:.2f} %")
    assert abs(got["old"] - old[name]) <= 2 and abs(got["new"] - new[name]) <= 2
PY
}

test_diff_of_the_cpu() {
	profile_one old cpu 7 2 1 --hz 4999
	profile_one new cpu 3 2 5 --hz 1999 --diff "$TMP/old.json"
	check_diff
}

test_diff_of_waits() {
	profile_one old wait 7 2 1 --off-cpu
	profile_one new wait 2 2 6 --off-cpu --diff "$TMP/old.json"
	check_diff
}

# Hundredths of a second.
cpu_time_of() { # PID
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# A process that ends is read a second before, perhaps: its last minor heaps count as much as the others.
test_end_of_a_process_that_allocates() {
	local before
	need_counting
	start_target "$PROFILED" large
	await_line ready
	tell "run 60"
	background "$TOOL" profile -pid "$TARGET" --alloc --json >"$TMP/json" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" sampling'
	before=$(cpu_time_of "$TARGET")
	wait_for "(( \$(cpu_time_of $TARGET) > $before + 170 ))" 60
	kill -9 "$TARGET"
	wait $! || fail "status $?: $(<"$TMP/err")"
	holds python3 - "$TMP/json" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
large = sum(s["words"] for s in top["stacks"] if s["frames"][-1]["function"].startswith("caml_alloc_shr"))
print(f"{100 * large / top['words']:.1f} % in large blocks")
assert abs(100 * large / top["words"] - 100 / 3) < 3
PY
}

# Each large block costs a trap: these end first. The small ones go on to the end, and the words of both are known.
test_budget_of_large_blocks() {
	local status=0 before
	need_counting
	start_work "$PROFILED" large
	before=$(ticks_of)
	background "$TOOL" profile -pid "$TARGET" --alloc --budget 2% --json --html "$TMP/p.html" >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" "large blocks: sampling stopped" || ! kill -0 "$PROFILE"'
	# A quarter as much work again, and more, of which the large blocks are missing.
	let_work $((($(ticks_of) - before) / 4 + 20))
	kill -INT "$PROFILE"
	wait "$PROFILE" || status=$?
	eq "$status" 7 "status"
	grep -Eq '^ocaml-probes: large blocks: sampling stopped after [0-9.]+ s, later ones are missing: CPU overhead [0-9.]+% exceeds the budget of 2%$' \
		"$TMP/err" || fail "$(<"$TMP/err")"
	! grep 'profiling stopped' "$TMP/err" || fail "all of it has ended"
	python3 - "$TMP/json" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
def words(name):
    return sum(s["words"] for s in top["stacks"] if s["frames"][-1]["function"].startswith(name))
small, large = words("caml_alloc_small_dispatch"), words("caml_alloc_shr")
seconds, large_seconds = top["duration_ns"] / 1e9, top["large_blocks_ns"] / 1e9
print(f"{small} words in {seconds} s, {large} in {large_seconds} s")
assert 0.1 < large_seconds < seconds
# The program allocates twice as many words in small blocks; those in large ones in four fifths of its time at most.
assert 0 < large < 0.45 * small
PY
	grep -q '"large_ns":[1-9]' "$TMP/p.html" || fail "the page does not say so"
	"$TOOL" profile --diff "$TMP/json" "$TMP/json" | finds 'large blocks only of the first [0-9.]* s' || fail "--diff does not say so"
}

run_tests "$@"
