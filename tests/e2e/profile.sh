#!/usr/bin/env bash
# `profile`: the shares of the time against the program's own books, and what is printed of stacks.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

PROFILED=$O/tests/ocaml/profiled

# Start a program, which gets samples enough also where others use the processors.
start_first() { # PROGRAM ARG...
	start_target "$@"
	renice -n -10 -p "$TARGET" >/dev/null 2>&1 || :
}

# Start PROGRAM, and have it work so long that a profile ends before it.
start_work() { # PROGRAM cpu|wait
	start_first "$1" "$2"
	await_line ready
	tell "run 60"
}

# Profile the target while it works for some seconds, the folded form in $TMP/folded, its books in $TMP/books.
profile_work() { # PROGRAM WORK [FLAG...]
	local program=$1 work=$2
	shift 2
	need_counting
	start_first "$program" "$work"
	await_line ready
	background "$TOOL" profile -pid "$TARGET" --folded "$@" >"$TMP/folded" 2>"$TMP/err"
	wait_for 'grep -q "sampling\|recording" "$TMP/err"'
	tell "run 2"
	await_line "done" 30
	kill -INT $!
	wait $! || fail "status $?: $(cat "$TMP/err")"
	grep '^[a-z]* [0-9]*$' "$(output_of)" >"$TMP/books"
	eq "$(wc -l <"$TMP/books")" 3 "lines of the program's books"
}

# The share of each function in the folded stacks must be within 2 points of that in the books, and
# nearly all stacks must be whole: from the start of the program to the function.
check_shares() {
	python3 - "$TMP/books" "$TMP/folded" <<'PY' || fail "$(head -c 3000 "$TMP/folded")"
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
	profile_work "$PROFILED" cpu --hz 4999
	check_shares
}

test_off_cpu() {
	profile_work "$PROFILED" wait --off-cpu
	check_shares
	grep -q '_\[k\]' "$TMP/folded" || fail "no frame of the kernel"
}

# The waits of one thread make up the time of the profile, whether they begin before it or end after it.
check_waits() { # JSON THREADS WAITING
	python3 - "$@" <<'PY' || fail "$(head -c 2000 "$1")"
import json, sys
top, threads, waiting = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print(f"{top['always_waiting']} threads; {top['ns'] / top['duration_ns']:.4f} of the time of one")
assert top["always_waiting"] == waiting
assert abs(top["ns"] / top["duration_ns"] - threads) < 0.02 * threads
assert top["truncated"] == 0 and top["lost"] == 0
PY
}

test_threads_that_wait_already() {
	need_counting
	start_first "$PROFILED" wait
	await_line ready
	"$TOOL" profile -pid "$TARGET" --off-cpu --for 500ms --json >"$TMP/json" 2>"$TMP/err"
	check_waits "$TMP/json" 1 1
	python3 - "$TMP/json" <<'PY' || fail "$(cat "$TMP/json")"
import json, sys
(stack,) = json.load(open(sys.argv[1]))["stacks"]
names = [f["function"] for f in stack["frames"]]
assert names[0] == "_start" and names.index("Stdlib.input_line.scan") < names.index("read"), names
assert stack["frames"][-1]["kind"] == "kernel" and stack["samples"] == 1
PY
	# It waits for orders, then works and waits, then waits for orders.
	background "$TOOL" profile -pid "$TARGET" --off-cpu --json >"$TMP/json" 2>"$TMP/err"
	wait_for 'grep -q recording "$TMP/err"'
	sleep 0.3
	tell "run 0.5"
	await_line "done"
	sleep 0.3
	kill -INT $!
	wait $!
	check_waits "$TMP/json" 1 0
	grep -q '"Profiled.seventy"' "$TMP/json" || fail "no work"
}

test_many_threads_that_wait() {
	need_counting
	start_target /usr/bin/python3 -c '
import threading
for _ in range(20):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
input()'
	await_line ready
	"$TOOL" profile -pid "$TARGET" --off-cpu --for 500ms --json >"$TMP/json" 2>"$TMP/err"
	check_waits "$TMP/json" 21 21
	"$TOOL" profile -pid "$TARGET" --off-cpu --for 100ms 2>&1 | finds '^21 threads waited for all of the time$' ||
		fail "it does not say so"
}

# The program counts its words by Gc.counters.
test_alloc() {
	profile_work "$PROFILED" alloc --alloc --hz 9999
	check_shares
	python3 - "$TMP/books" "$TMP/folded" <<'PY' || fail "the sums differ"
import sys
books = sum(int(l.split()[1]) for l in open(sys.argv[1]))
found = sum(int(l.rsplit(" ", 1)[1]) for l in open(sys.argv[2]))
print(f"{found} words, its books {books}")
sys.exit(abs(found - books) > books / 20)
PY
	grep -q ';caml_alloc_small_dispatch ' "$TMP/folded" || fail "no small blocks"
	grep -q ';caml_alloc_shr[a-z_]* ' "$TMP/folded" || fail "no large blocks"
}

# The collector runs for those that ask for it.
test_gc() {
	profile_work "$PROFILED" collect --gc --hz 4999
	check_shares
	! grep -v 'caml_[a-z_]*gc\|caml_alloc_small_dispatch\|caml_check_urgent_gc' "$TMP/folded" ||
		fail "stacks without the collector"
}

# Of stacks that differ in lines only, as the files have them, --folded prints the sum.
sum_stacks() {
	awk '{ n = $NF; sub(/ [0-9]+$/, ""); sum[$0] += n } END { for (stack in sum) print stack, sum[stack] }' | sort
}

# Both files have what --folded prints of the same samples.
test_files() {
	local status
	need_counting
	start_work "$PROFILED" cpu
	for_ticks 50 "$TOOL" profile -pid "$TARGET" --hz 997 --folded --html "$TMP/p.html" --pprof "$TMP/p.pb.gz" >"$TMP/folded"
	eq "$(tail -n +2 "$TMP/err")" "ocaml-probes: $TMP/p.html: written
ocaml-probes: $TMP/p.pb.gz: written" "messages"
	protoc --proto_path="$ROOT/tests/profile" --python_out="$TMP" profile.proto
	/usr/bin/python3 -B "$ROOT/tests/e2e/pprof_reader.py" "$TMP/p.pb.gz" 0 | sum_stacks >"$TMP/of_pprof"
	eq "$(cat "$TMP/of_pprof")" "$(sed 's/_\[k\]//g' "$TMP/folded" | sort)" "the stacks of pprof"
	grep -q 'Profiled.spin' "$TMP/p.html" || fail "the page has no function"
	# Before it takes samples.
	status=0
	"$TOOL" profile -pid "$TARGET" --html /nowhere/p.html >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(cat "$TMP/err")" "2 ocaml-probes: /nowhere/p.html: No such file or directory" "an error"
}

# strip leaves the global functions of OCaml, and what the collector and the unwinder need.
test_stripped() {
	strip -o "$TMP/profiled" "$PROFILED"
	profile_work "$TMP/profiled" cpu --hz 4999
	check_shares
}

test_table() {
	local start
	need_counting
	start_work "$PROFILED" cpu
	start=${EPOCHREALTIME/./}
	"$TOOL" profile -pid "$TARGET" --for 1s --hz 997 >"$TMP/table" 2>"$TMP/err"
	awk -v us=$((${EPOCHREALTIME/./} - start)) 'NR == 1 { exit !($1 >= 1 && $1 <= us / 1e6) }' "$TMP/table" ||
		fail "the time: $(head -n 1 "$TMP/table")"
	eq "$(cat "$TMP/err")" "ocaml-probes: sampling the CPU 997 times a second: pid $TARGET" "messages"
	grep -Eq '^[0-9]+\.[0-9]{3} s, [0-9]+ samples: .*s on the CPU, [0-9.]+% of a core$' "$TMP/table" ||
		fail "$(head -n 3 "$TMP/table")"
	grep -Eq '^ +[0-9.]+% +[0-9.]+%  Profiled\.fib$' "$TMP/table" || fail "no line of fib: $(cat "$TMP/table")"
	grep -Eq '^ +Profiled\.spin +.*profiled\.ml:21$' "$TMP/table" || fail "no frame of spin: $(cat "$TMP/table")"
}

# The sums of the members agree, and the stacks are those of the program.
test_json() {
	need_counting
	start_work "$PROFILED" cpu
	for_ticks 40 "$TOOL" profile -pid "$TARGET" --hz 997 --json >"$TMP/json"
	python3 - "$TMP/json" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
assert top["profile"] == "cpu" and top["hz"] == 997, top
assert top["samples"] == sum(s["samples"] for s in top["stacks"]) > 50, top["samples"]
assert top["ns"] == sum(s["ns"] for s in top["stacks"]) == top["samples"] * (10**9 // 997)
assert top["lost"] == 0 and all(n == 0 for n in top["losses"].values())
frames = [f for s in top["stacks"] for f in s["frames"]]
spin = [f for f in frames if f["function"] == "Profiled.spin" and "line" in f]
assert spin and all(f["kind"] == "ocaml" and f["file"].endswith("profiled.ml") for f in spin)
assert any(f["kind"] == "c" and f["function"] == "caml_main" for f in frames)
PY
}

test_all_processes_of_a_file() {
	local mine first
	need_counting
	mine=$(own_copy "$PROFILED")
	start_work "$mine" cpu
	first=$TARGET
	start_work "$mine" cpu
	"$TOOL" profile --exe "$mine" --for 300ms --json >"$TMP/json" 2>"$TMP/err"
	eq "$(cat "$TMP/err")" "ocaml-probes: sampling the CPU 99 times a second: 2 processes that run it now, and all later ones" "messages"
	grep -q '"processes":2,' "$TMP/json" || fail "$(head -c 300 "$TMP/json")"
	[[ -e /proc/$first ]] || fail "the first one has ended"
}

test_the_process_ends() {
	local status=0
	need_counting
	start_work "$PROFILED" cpu
	background "$TOOL" profile -pid "$TARGET" --folded >"$TMP/folded" 2>"$TMP/err"
	wait_for 'grep -q sampling "$TMP/err"'
	let_work 30
	kill -9 "$TARGET"
	wait $! || status=$?
	eq "$status $(tail -n 1 "$TMP/err")" "0 ocaml-probes: pid $TARGET has ended" "the end"
	grep -q 'Profiled.spin' "$TMP/folded" || fail "no samples: $(cat "$TMP/folded")"
}

# Another program that the process executes may be one whose stacks the user must not see.
test_exec() {
	need_counting
	start_target bash -c 'read -r; exec "$0" cpu' "$PROFILED"
	background "$TOOL" profile -pid "$TARGET" --folded --hz 997 >"$TMP/folded" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'grep -q sampling "$TMP/err"'
	tell ''
	await_line ready
	tell "run 60"
	let_work 100
	kill -INT "$PROFILE" 2>/dev/null || :
	wait "$PROFILE" || fail "$(cat "$TMP/err")"
	! grep -q 'Profiled\.' "$TMP/folded" || fail "it goes on after the exec: $(cat "$TMP/folded")"
}

# In a container the tool and the program have other process ids than in the kernel's first namespace.
test_pid_namespace() {
	need_counting
	unshare --pid --fork --mount-proc --kill-child bash -c '
		coproc program { exec "$1" cpu; }
		read -r -u "${program[0]}"
		echo "run 60" >&"${program[1]}"
		"$0" profile -q -pid "$program_PID" --for 500ms --hz 997 --folded' "$TOOL" "$PROFILED" \
		>"$TMP/folded" 2>"$TMP/err" || fail "$(cat "$TMP/err")"
	grep -q 'Profiled.spin;Profiled.fib' "$TMP/folded" || fail "$(cat "$TMP/err" "$TMP/folded")"
	unshare --pid --fork --mount-proc --kill-child bash -c '
		coproc program { exec "$1" wait; }
		read -r -u "${program[0]}"
		"$0" profile -q -pid "$program_PID" --for 300ms --off-cpu --folded || exit
		echo >&"${program[1]}"' "$TOOL" "$PROFILED" \
		>"$TMP/folded" 2>"$TMP/err" || fail "$(cat "$TMP/err")"
	grep -q '^_start;.*;caml_read_fd;read' "$TMP/folded" || fail "waits: $(cat "$TMP/err" "$TMP/folded")"
}

# The frames of most stacks below DEPTH calls, and the outermost one.
frames_of_deep() { # DEPTH
	start_target "$O/tests/ocaml/deep" "$1"
	await_line ready
	for_ticks 30 "$TOOL" profile -pid "$TARGET" --hz 499 --folded >"$TMP/folded" || fail "status $?"
	awk '{ n = split($0, frames, ";"); count[n " " frames[1]] += $NF }
		END { for (i in count) if (count[i] > count[most]) most = i; print most }' "$TMP/folded"
}

# 1000 calls of one function are 1000 frames; the program has as many others in all depths.
test_deep_stacks() {
	local few first
	need_counting
	read -r few first < <(frames_of_deep 10)
	eq "$first" _start "the outermost frame"
	eq "$(frames_of_deep 1000)" "$((few + 990)) _start" "a thousand calls"
	eq "$(frames_of_deep 3000)" "1025 [truncated: deeper than 1024 frames]" "too many calls"
	eq "$(grep -c '^\[truncated: deeper than 1024 frames\];Deep\.call;' "$TMP/folded")" \
		"$(wc -l <"$TMP/folded")" "stacks of too many calls"
}

# What --budget allows goes on; what it does not is stopped, and says so.
test_budget() {
	local status=0
	need_counting
	start_work "$PROFILED" cpu
	"$TOOL" profile -pid "$TARGET" --for 500ms --budget 90% >"$TMP/out" 2>"$TMP/err" || fail "status $?"
	eq "$(wc -l <"$TMP/err")" 1 "messages: $(cat "$TMP/err")"
	"$TOOL" profile -pid "$TARGET" --for 20s --hz 9999 --budget 0.1% >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 7 "status"
	matches "$(tail -n 1 "$TMP/err")" \
		'^ocaml-probes: profiling stopped: CPU overhead [0-9.]+% exceeds the budget of 0.1%$'
	grep -q Profiled.spin "$TMP/out" || fail "$(cat "$TMP/out")"
}

# Each large block costs a trap: these end first. The small ones go on to the end, and the words of both are known.
test_budget_of_large_blocks() {
	local status=0 before
	need_counting
	start_work "$PROFILED" large
	background "$TOOL" profile -pid "$TARGET" --alloc --budget 2% --json --html "$TMP/p.html" >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'grep -q "sampling\|recording" "$TMP/err"'
	before=$(ticks_of)
	wait_for 'grep -q "large blocks: sampling stopped" "$TMP/err" || ! kill -0 "$PROFILE"'
	# Twice as much work again, of which the large blocks are missing.
	let_work $((2 * ($(ticks_of) - before) + 20))
	kill -INT "$PROFILE"
	wait "$PROFILE" || status=$?
	eq "$status" 7 "status"
	grep -Eq '^ocaml-probes: large blocks: sampling stopped after [0-9.]+ s, later ones are missing: CPU overhead [0-9.]+% exceeds the budget of 2%$' \
		"$TMP/err" || fail "$(cat "$TMP/err")"
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
# The program allocates twice as many words in small blocks; those in large ones only in the beginning.
assert 0 < large < 0.45 * small
PY
	grep -q '"large_ns":[1-9]' "$TMP/p.html" || fail "the page does not say so"
	"$TOOL" profile --diff "$TMP/json" "$TMP/json" | finds 'large blocks only of the first [0-9.]* s' || fail "--diff does not say so"
}

# The tool is held up while it attaches to large blocks, after small ones, and when it detaches: neither kind is
# sampled for longer than the other, and a third of the words are in large blocks all the same.
test_held_up() {
	local attach detach i
	need_counting
	need_command strace
	start_work "$PROFILED" large
	strace -y -o "$TMP/calls" -e trace=bpf,close "$TOOL" profile -pid "$TARGET" --alloc --for 100ms --quiet >"$TMP/out"
	attach=$(grep '^bpf(' "$TMP/calls" | grep -n BPF_LINK_CREATE | tail -n 1 | cut -d: -f1)
	detach=$(grep '^close(' "$TMP/calls" | grep -n 'bpf_link>' | cut -d: -f1 | sed -n '1p;$p' | xargs | tr ' ' .)
	for i in 1 2 3 4 5; do
		strace -y -o "$TMP/calls" -e trace=bpf,close -e "inject=bpf:delay_enter=1s:when=$attach" \
			-e "inject=close:delay_exit=300ms:when=${detach/./..}" \
			"$TOOL" profile -pid "$TARGET" --alloc --for 1s --json --quiet >"$TMP/json"
		# The number of calls before may differ now and then.
		! grep 'BPF_LINK_CREATE.*DELAYED' "$TMP/calls" || ! grep 'bpf_link>.*DELAYED' "$TMP/calls" || break
	done
	grep -q 'BPF_LINK_CREATE.*DELAYED' "$TMP/calls" || fail "nothing was delayed: $(tail -n 20 "$TMP/calls")"
	python3 - "$TMP/json" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
words = {name: sum(s["words"] for s in top["stacks"] if s["frames"][-1]["function"].startswith(name))
         for name in ("caml_alloc_small_dispatch", "caml_alloc_shr")}
share = 100 * words["caml_alloc_shr"] / top["words"]
print(f"{words}: {share:.1f} % in large blocks; lost {top['lost']}")
assert abs(share - 100 / 3) < 3 and top["lost"] == 0 and "unsure_words" not in top
PY
	# Between its reading of the words and the first sample it cannot tell, and says so.
	start_work "$PROFILED" large
	strace -o "$TMP/calls" -e trace=bpf -e "inject=bpf:delay_enter=1s:when=$((attach + 1))" \
		"$TOOL" profile -pid "$TARGET" --alloc --for 500ms >"$TMP/out" 2>"$TMP/err"
	finds '^the words of small blocks may be wrong by [1-9][0-9]*: this process waited for a processor$' "$TMP/out"
}

# No minor heap runs out: two thirds of the words have no sample.
test_small_blocks_without_samples() {
	local form
	need_counting
	for form in --json --all --folded; do
		start_first env OCAMLRUNPARAM=s=32M "$PROFILED" large
		await_line ready
		background "$TOOL" profile -pid "$TARGET" --alloc ${form/--all/} >"$TMP/out$form" 2>"$TMP/err"
		wait_for 'grep -q sampling "$TMP/err"'
		tell "run 0.05" # a third of the minor heap, on a fast machine
		await_line "done" 60
		kill -INT $!
		wait $! || fail "status $?: $(cat "$TMP/err")"
	done
	finds '^ocaml-probes: [1-9][0-9]* words of small blocks are missing: no minor heap ran out$' "$TMP/err"
	finds '^[1-9][0-9]* words of small blocks are missing: no minor heap ran out$' "$TMP/out--all"
	python3 - "$TMP/out--json" <<'PY' || fail "$(head -c 2000 "$TMP/out--json")"
import json, sys
top = json.load(open(sys.argv[1]))
print(f"{top['missing_words']} words are missing, {top['words']} are there")
assert abs(top["missing_words"] / top["words"] - 2) < 0.3
PY
}

# Hundredths of a second.
cpu_time_of() { # PID
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# A process that ends is read a second before, perhaps: its last minor heaps count as much as the others.
test_end_of_a_process_that_allocates() {
	local before
	need_counting
	start_work "$PROFILED" large
	background "$TOOL" profile -pid "$TARGET" --alloc --json >"$TMP/json" 2>"$TMP/err"
	wait_for 'grep -q sampling "$TMP/err"'
	before=$(cpu_time_of "$TARGET")
	wait_for "(( \$(cpu_time_of $TARGET) > $before + 170 ))" 60
	kill -9 "$TARGET"
	wait $! || fail "status $?: $(cat "$TMP/err")"
	python3 - "$TMP/json" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
large = sum(s["words"] for s in top["stacks"] if s["frames"][-1]["function"].startswith("caml_alloc_shr"))
print(f"{100 * large / top['words']:.1f} % in large blocks")
assert abs(100 * large / top["words"] - 100 / 3) < 3
PY
}

expect_error() { # STATUS MESSAGE [FLAG...]
	local status=0 expected=$1 message=$2
	shift 2
	"$TOOL" profile "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "$expected ocaml-probes: $message" "profile $*"
	[[ ! -s $TMP/out ]] || fail "output: $(cat "$TMP/out")"
}

test_errors() {
	expect_error 2 "profile: -pid or --exe is required"
	expect_error 2 "profile: -pid and --exe are mutually exclusive" -pid 1 --exe /bin/true
	expect_error 2 "profile: --hz '0': not a number from 1 to 10000" -pid 1 --hz 0
	expect_error 2 "profile: --hz 'x': not a number from 1 to 10000" -pid 1 --hz x
	expect_error 2 "profile: --hz: not for --off-cpu" -pid 1 --off-cpu --hz 10
	expect_error 2 "profile: --cpu and --off-cpu are mutually exclusive" -pid 1 --cpu --off-cpu
	expect_error 2 "profile: --folded and --json are mutually exclusive" -pid 1 --folded --json
	expect_error 2 "profile: --budget '0': not a share of a core, such as 5%" -pid 1 --budget 0
	need_counting
	expect_error 5 "pid 4194304: no such process" -pid 4194304
	expect_error 2 "/nowhere: No such file or directory" --exe /nowhere
}

# CAP_BPF and CAP_PERFMON suffice for the user's own processes, and not for those of others.
test_privileges() {
	need_counting
	start_work "$PROFILED" cpu
	local status=0
	setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps -all --ambient-caps -all \
		"$TOOL" profile -pid "$TARGET" --for 100ms >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 3 "status without privileges: $(cat "$TMP/err")"
}

run_tests "$@"
