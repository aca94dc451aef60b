#!/usr/bin/env bash
# `profile`: samples against the program's own books, and what is printed of stacks. profile_shares.sh has the shares of time.
#
# needs: fixtures unit-tests ocaml/deep ocaml/profiled ocaml/stepped
# smoke: test_table
# takes: 320 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

test_cpu() {
	profile_work "$PROFILED" touch 2 "${AT_FAULTS[@]}" --folded --hz 4999
	check_touched
	check_asked 4999
}

# How often the thread of PID has begun to wait, by the kernel's books.
waits_of() { # PID
	sed -n 's/^voluntary_ctxt_switches:.//p' "/proc/$1/status"
}

# The target waits, for its orders and in its functions. Each of its waits is there, by the kernel's books, with no more
# time than the program's books have.
test_off_cpu() {
	local before
	need_counting
	start_target "$PROFILED" wait
	await_line ready
	await_reading
	before=$(waits_of "$TARGET")
	background "$TOOL" profile -pid "$TARGET" --off-cpu --json >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" recording'
	run_books 1
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "status $?: $(<"$TMP/err")"
	# It waited already when the profile began.
	holds python3 - "$TMP/json" "$TMP/books" $(($(waits_of "$TARGET") - before + 1)) <<'PY' || fail "$(head -c 3000 "$TMP/json")"
import collections, json, sys
top = json.load(open(sys.argv[1]))
books = {name: int(ns) for name, ns in (line.split() for line in open(sys.argv[2]))}
samples, ns, kernel = collections.Counter(), collections.Counter(), False
for stack in top["stacks"]:
    names = [f["function"] for f in stack["frames"]]
    assert names[0] == "_start", names
    kernel |= stack["frames"][-1]["kind"] == "kernel"
    for name in books:
        if "Profiled." + name in names:
            assert names[names.index("Profiled." + name) - 1] == "Profiled.run", names
            samples[name] += stack["samples"]
            ns[name] += stack["ns"]
print(dict(samples), dict(ns), books, top["samples"], sys.argv[3])
assert top["samples"] == int(sys.argv[3]) and top["lost"] == top["truncated"] == 0 and kernel
assert all(0 < ns[name] <= books[name] for name in books)
PY
	eq "$(grep -o '"always_waiting":[0-9]*' "$TMP/json")" '"always_waiting":0' "threads that waited the whole time"
}

# Threads that wait for all of the time of the profile.
check_waits() { # JSON THREADS
	holds python3 - "$@" <<'PY' || fail "$(head -c 2000 "$1")"
import json, sys
top, threads = json.load(open(sys.argv[1])), int(sys.argv[2])
print(f"{top['always_waiting']} threads; {top['ns']} ns in {top['duration_ns']} ns")
assert top["always_waiting"] == top["samples"] == threads
assert top["ns"] == threads * top["duration_ns"]
assert top["truncated"] == 0 and top["lost"] == 0
PY
}

test_threads_that_wait_already() {
	need_counting
	start_target "$PROFILED" wait
	await_line ready
	await_reading
	"$TOOL" profile -pid "$TARGET" --off-cpu --for 500ms --json >"$TMP/json" 2>"$TMP/err"
	check_waits "$TMP/json" 1
	python3 - "$TMP/json" <<'PY' || fail "$(<"$TMP/json")"
import json, sys
(stack,) = json.load(open(sys.argv[1]))["stacks"]
names = [f["function"] for f in stack["frames"]]
assert names[0] == "_start" and names.index("Stdlib.input_line.scan") < names.index("read"), names
assert stack["frames"][-1]["kind"] == "kernel" and stack["samples"] == 1
PY
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
	check_waits "$TMP/json" 21
	"$TOOL" profile -pid "$TARGET" --off-cpu --for 100ms 2>&1 | finds '^21 threads waited the whole time$' ||
		fail "it does not say so"
}

# The target does what it is told while it waits before and after: of its words in small blocks each is there. Those in large
# blocks are counted by 65536 on a CPU; what is left of these belongs to no stack. Its reading and printing take a few more.
check_words() { # JSON WORDS
	holds python3 - "$1" "$2" "$(possible_cpus | wc -l)" <<'PY' || fail "$(head -c 2000 "$1")"
import json, sys
top, books, cpus = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print(f"{top['words']} words, its books {books}")
assert books - (cpus << 16) <= top["words"] <= books + 20000
assert top["words"] == sum(s["words"] for s in top["stacks"]) and top["lost"] == 0 and "unsure_words" not in top
names = {f["function"] for s in top["stacks"] for f in s["frames"]}
assert "caml_alloc_small_dispatch" in names and any(name.startswith("caml_alloc_shr") for name in names), names
PY
}

# The program counts its words by Gc.counters.
test_alloc() {
	profile_work "$PROFILED" alloc 0.5 --alloc --hz 9999 --json
	check_words "$TMP/folded" "$(sed -n 's/^all: //p' "$(output_of)")"
}

# Of the samples of the CPU, those of the collector: both profiles have the same page faults.
test_gc() {
	local cpu
	need_counting
	start_target "$PROFILED" grow
	await_line ready
	await_reading
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --folded --cpu >"$TMP/cpu" 2>"$TMP/cpu.err"
	cpu=$!
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --folded --gc >"$TMP/gc" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/cpu.err" sampling && has_text "$TMP/err" sampling'
	run_books 1
	kill -INT "$cpu" "$PROFILE"
	wait "$cpu" && wait "$PROFILE" || fail "$(cat "$TMP/cpu.err" "$TMP/err")"
	grep ';caml_\(alloc_small_dispatch\|gc_dispatch\|check_urgent_gc\|garbage_collection\|gc_full_major\|poll_gc_work\)' \
		"$TMP/cpu" | sort >"$TMP/collector" || :
	holds test -s "$TMP/collector" || fail "the collector had no page faults: $(<"$TMP/cpu")"
	eq "$(sort "$TMP/gc")" "$(<"$TMP/collector")" "the samples of the collector"
	[[ $(wc -l <"$TMP/cpu") -gt $(wc -l <"$TMP/gc") ]] || fail "all of it is the collector"
}

# The line that `profile` and `gc` print at their end, by the folded stacks in FILE.
collector_line() { # FILE
	python3 - "$1" <<'PY'
import re, sys
MINOR = re.compile(r"caml_(empty_minor_heap(s_once|_promote)?|stw_empty_minor_heap|minor_collection|gc_minor)$")
MAJOR = re.compile(r"(caml_)?major_collection_slice$|caml_(finish_major_cycle|compact_heap(_maybe)?|gc_(compaction|full_major|major|major_slice))$")
OTHER = re.compile(r"caml_(alloc_small_dispatch|check_urgent_gc|gc_dispatch|garbage_collection|handle_incoming_interrupts|poll_gc_work)$|stw_handler$")
time = {"minor": 0, "major": 0, "other": 0, "": 0}
for line in open(sys.argv[1]):
    stack, _, value = line.rpartition(" ")
    frames = stack.split(";")[::-1]
    kind = next(("minor" if MINOR.match(f) else "major" for f in frames if MINOR.match(f) or MAJOR.match(f)), "")
    time[kind or ("other" if any(map(OTHER.match, frames)) else "")] += int(value)
share = {kind: 100 * value / sum(time.values()) for kind, value in time.items()}
assert share["minor"] > 0 and share["major"] > 0, share
others = f", other {share['other']:.1f}" if share["other"] >= 0.05 else ""
print(f"the collector takes {100 - share['']:.1f}% of this program's CPU time (minor {share['minor']:.1f}, major {share['major']:.1f}{others})")
PY
}

bpf_links() { # PID
	readlink "/proc/$1"/fd/* | grep -c bpf_link || :
}

# All of these have the same page faults.
test_share_of_the_collector() {
	local line pids=()
	need_counting
	start_target "$PROFILED" grow
	await_line ready
	await_reading
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --folded --cpu >"$TMP/folded" 2>"$TMP/folded.err"
	pids+=($!)
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" >"$TMP/cpu" 2>"$TMP/cpu.err"
	pids+=($!)
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --gc >"$TMP/gc" 2>"$TMP/gc.err"
	pids+=($!)
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --json >"$TMP/json" 2>"$TMP/json.err"
	pids+=($!)
	background "${AT_FAULTS[@]}" "$TOOL" gc -pid "$TARGET" >"$TMP/figures" 2>"$TMP/err"
	pids+=($!)
	wait_for '[[ $(cat "$TMP"/*.err | grep -c sampling) -eq 4 ]]'
	# `gc` says nothing: it has the links of a profile, and those of the pauses.
	wait_for "(($(bpf_links "${pids[0]}") < \$(bpf_links ${pids[4]})))"
	run_books 1
	kill -INT "${pids[@]}"
	wait "${pids[@]}" || fail "$(cat "$TMP"/*.err "$TMP/err")"
	line=$(collector_line "$TMP/folded")
	eq "$(tail -n 1 "$TMP/cpu")" "$line" "profile"
	eq "$(tail -n 1 "$TMP/figures")" "$line" "gc"
	matches "$(head -n 1 "$TMP/gc")" " in the collector, [0-9.]+% of a core, $(sed 's/.*takes \(.*\) of this.*/\1/' <<<"$line") of the program's CPU time\$"
	eq "$(python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))["collector"]
print(*("%.1f" % (100 * it[name] / it["cpu_ns"]) for name in ("collector_ns", "minor_ns", "major_ns")))' "$TMP/json")" \
		"$(sed -E 's/.*takes ([0-9.]+)%.*minor ([0-9.]+), major ([0-9.]+).*/\1 \2 \3/' <<<"$line")" "JSON"
}

# A program whose functions have no names: what is the collector is not known, and nothing is said.
test_share_of_a_collector_without_names() {
	need_counting
	start_target bash -c 'while :; do :; done'
	await_exe "$(type -P bash)"
	for_ticks 5 "$TOOL" profile -pid "$TARGET" --hz 997 >"$TMP/cpu"
	eq "$(grep -c 'the collector' "$TMP/cpu" || :)" 0 "no line"
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
	eq "$(<"$TMP/of_pprof")" "$(sed 's/_\[k\]//g' "$TMP/folded" | sort)" "the stacks of pprof"
	grep -q 'Profiled.spin' "$TMP/p.html" || fail "the page has no function"
	# Before it takes samples.
	status=0
	"$TOOL" profile -pid "$TARGET" --html /nowhere/p.html >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(<"$TMP/err")" "2 ocaml-probes: /nowhere/p.html: No such file or directory" "an error"
}

# strip leaves the global functions of OCaml, and what the collector and the unwinder need.
test_stripped() {
	strip -o "$TMP/profiled" "$PROFILED"
	profile_work "$TMP/profiled" touch 2 "${AT_FAULTS[@]}" --folded
	check_touched
}

test_table() {
	local start
	need_counting
	start_work "$PROFILED" cpu
	start=${EPOCHREALTIME/./}
	"$TOOL" profile -pid "$TARGET" --for 1s --hz 997 >"$TMP/table" 2>"$TMP/err"
	awk -v us=$((${EPOCHREALTIME/./} - start)) 'NR == 1 { exit !($1 >= 1 && $1 <= us / 1e6) }' "$TMP/table" ||
		fail "the time: $(head -n 1 "$TMP/table")"
	eq "$(<"$TMP/err")" "ocaml-probes: sampling the CPU 997 times a second: pid $TARGET" "messages"
	grep -Eq '^[0-9]+\.[0-9]{3} s, [0-9]+ samples: .*s on the CPU, [0-9.]+% of a core$' "$TMP/table" ||
		fail "$(head -n 3 "$TMP/table")"
	grep -Eq '^ +[0-9.]+% +[0-9.]+%  Profiled\.fib$' "$TMP/table" || fail "no line of fib: $(<"$TMP/table")"
	grep -Eq '^ +Profiled\.spin +.*profiled\.ml:21$' "$TMP/table" || fail "no frame of spin: $(<"$TMP/table")"
}

# The sums of the members agree, and the stacks are those of the program.
test_json() {
	profile_work "$PROFILED" touch 1 "${AT_FAULTS[@]}" --json --hz 997
	holds python3 - "$TMP/folded" <<'PY' || fail "$(head -c 2000 "$TMP/folded")"
import json, sys
top = json.load(open(sys.argv[1]))
assert top["profile"] == "cpu" and top["hz"] == 997, top
assert top["samples"] == sum(s["samples"] for s in top["stacks"]) >= 1000, top["samples"]
assert top["ns"] == sum(s["ns"] for s in top["stacks"]) == top["samples"] * (10**9 // 997)
assert top["lost"] == 0 and all(n == 0 for n in top["losses"].values())
frames = [f for s in top["stacks"] for f in s["frames"]]
touch = [f for f in frames if f["function"] == "Profiled.touch" and "line" in f]
assert touch and all(f["kind"] == "ocaml" and f["file"].endswith("profiled.ml") for f in touch)
assert any(f["kind"] == "c" and f["function"] == "caml_main" for f in frames)
PY
	check_asked 997
}

test_all_processes_of_a_file() {
	local mine first
	need_counting
	mine=$(own_copy "$PROFILED")
	start_work "$mine" cpu
	first=$TARGET
	start_work "$mine" cpu
	"$TOOL" profile --exe "$mine" --for 300ms --json >"$TMP/json" 2>"$TMP/err"
	eq "$(<"$TMP/err")" "ocaml-probes: sampling the CPU 99 times a second: 2 processes that run it now, and all later ones" "messages"
	grep -q '"processes":2,' "$TMP/json" || fail "$(head -c 300 "$TMP/json")"
	[[ -e /proc/$first ]] || fail "the first one has ended"
}

test_the_process_ends() {
	local status=0
	need_counting
	start_work "$PROFILED" cpu
	background "$TOOL" profile -pid "$TARGET" --folded >"$TMP/folded" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" sampling'
	let_work 30
	kill -9 "$TARGET"
	wait $! || status=$?
	eq "$status $(tail -n 1 "$TMP/err")" "0 ocaml-probes: pid $TARGET has ended" "the end"
	grep -q 'Profiled.spin' "$TMP/folded" || fail "no samples: $(<"$TMP/folded")"
}

test_exec() {
	need_counting
	check_exec
}

# In a container the tool and the program have other process ids than in the kernel's first namespace.
test_pid_namespace() {
	need_counting
	unshare --pid --fork --mount-proc --kill-child bash -c '
		coproc program { exec "$1" cpu; }
		read -r -u "${program[0]}"
		echo "run 60" >&"${program[1]}"
		"$0" profile -q -pid "$program_PID" --for 500ms --hz 997 --folded' "$TOOL" "$PROFILED" \
		>"$TMP/folded" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	grep -q 'Profiled.spin;Profiled.fib' "$TMP/folded" || fail "$(cat "$TMP/err" "$TMP/folded")"
	unshare --pid --fork --mount-proc --kill-child bash -c '
		coproc program { exec "$1" wait; }
		read -r -u "${program[0]}"
		"$0" profile -q -pid "$program_PID" --for 300ms --off-cpu --folded || exit
		echo >&"${program[1]}"' "$TOOL" "$PROFILED" \
		>"$TMP/folded" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	holds grep -q '^_start;.*;caml_read_fd;read' "$TMP/folded" || fail "waits: $(cat "$TMP/err" "$TMP/folded")"
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
	eq "$(wc -l <"$TMP/err")" 1 "messages: $(<"$TMP/err")"
	"$TOOL" profile -pid "$TARGET" --hz 9999 --budget 0.000001% >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 7 "status"
	matches "$(tail -n 1 "$TMP/err")" \
		'^ocaml-probes: profiling stopped: CPU overhead [0-9.]+% exceeds the budget of [0-9.e-]+%$'
	grep -q Profiled.spin "$TMP/out" || fail "$(<"$TMP/out")"
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
	holds python3 - "$TMP/json" "$(possible_cpus | wc -l)" <<'PY' || fail "$(head -c 2000 "$TMP/json")"
import json, sys
top = json.load(open(sys.argv[1]))
words = {name: sum(s["words"] for s in top["stacks"] if s["frames"][-1]["function"].startswith(name))
         for name in ("caml_alloc_small_dispatch", "caml_alloc_shr")}
small, large = words.values()
print(f"{words}; lost {top['lost']}, unsure {top.get('unsure_words')}")
# For 603 words in small blocks it has 301 in large ones. What is left of 65536 words on a CPU belongs to no stack. How many
# words it allocates while the tool reads them depends on when the tool has a processor: the profile says so, from 1 % on.
unsure = max(top.get("unsure_words", 0), top["words"] / 100)
assert -(int(sys.argv[2]) << 16) - unsure <= large - 301 / 603 * small <= unsure + 1000 and top["lost"] == 0
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
		start_target env OCAMLRUNPARAM=s=32M "$PROFILED" large
		await_line ready
		await_reading
		background "$TOOL" profile -pid "$TARGET" --alloc ${form/--all/} >"$TMP/out$form" 2>"$TMP/err"
		wait_for 'has_text "$TMP/err" sampling'
		tell "run 0.05" # a third of the minor heap, on a fast machine
		await_line "done" 60
		await_reading
		kill -INT $!
		wait $! || fail "status $?: $(<"$TMP/err")"
	done
	finds '^ocaml-probes: [1-9][0-9]* words of small blocks are missing: no minor heap ran out$' "$TMP/err"
	finds '^[1-9][0-9]* words of small blocks are missing: no minor heap ran out$' "$TMP/out--all"
	holds python3 - "$TMP/out--json" "$(possible_cpus | wc -l)" <<'PY' || fail "$(head -c 2000 "$TMP/out--json")"
import json, sys
top, cpus = json.load(open(sys.argv[1])), int(sys.argv[2])
missing, large = top["missing_words"], top["words"]
print(f"{missing} words are missing, {large} are there")
# 603 words in small blocks for 301 in large ones, of which up to 65536 on a CPU belong to no stack. Its books and its reading
# take small blocks, at most 1 % here.
assert large <= 301 / 603 * missing <= 1.01 * large + (cpus << 16) + 10000
PY
}

expect_error() { # STATUS MESSAGE [FLAG...]
	local status=0 expected=$1 message=$2
	shift 2
	"$TOOL" profile "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "$expected ocaml-probes: $message" "profile $*"
	[[ ! -s $TMP/out ]] || fail "output: $(<"$TMP/out")"
}

test_errors() {
	expect_error 2 "profile: -pid or --exe is required"
	expect_error 2 "profile: -pid and --exe are mutually exclusive" -pid 1 --exe /bin/true
	expect_error 2 "profile: --hz '0': not a number from 1 to 10000" -pid 1 --hz 0
	expect_error 2 "profile: --hz 'x': not a number from 1 to 10000" -pid 1 --hz x
	expect_error 2 "profile: --hz: not for --off-cpu by BPF" -pid 1 --off-cpu --hz 10
	expect_error 2 "profile: --cpu and --off-cpu are mutually exclusive" -pid 1 --cpu --off-cpu
	expect_error 2 "profile: --folded and --json are mutually exclusive" -pid 1 --folded --json
	expect_error 2 "profile: --budget '0': neither a share of a core, such as 5%, nor none" -pid 1 --budget 0
	need_counting
	expect_error 5 "pid 4194304: no such process" -pid 4194304
	expect_error 2 "/nowhere: No such file or directory" --exe /nowhere
}

# CAP_BPF and CAP_PERFMON suffice for the user's own processes. Of those of others no function is named.
test_privileges() {
	local status capability as_user=(setpriv --reuid 12345 --regid 12345 --clear-groups)
	local lacks=("CAP_BPF and CAP_PERFMON" CAP_PERFMON CAP_BPF) capabilities=(-all -all,+bpf -all,+perfmon)
	local two=-all,+bpf,+perfmon
	need_counting
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$PROFILED" "$TMP"
	TOOL=$TMP/ocaml-probes
	start_target "${as_user[@]}" "$TMP/profiled" cpu
	await_line ready
	tell "run 60"
	for capability in 0 1 2; do
		status=0
		"${as_user[@]}" --inh-caps "${capabilities[capability]}" --ambient-caps "${capabilities[capability]}" \
			"$TOOL" profile -pid "$TARGET" --engine bpf --for 100ms >"$TMP/out" 2>"$TMP/err" || status=$?
		eq "$status $(head -n 1 "$TMP/err")" "3 ocaml-probes: measuring: ocaml-probes lacks ${lacks[capability]}" "with ${capabilities[capability]}"
		eq "$(<"$TMP/out")" "" "output with ${capabilities[capability]}"
	done
	as_user+=(--inh-caps "$two" --ambient-caps "$two" --bounding-set "$two")
	for_ticks 30 "${as_user[@]}" "$TOOL" profile -pid "$TARGET" --hz 997 --folded >"$TMP/folded"
	eq "$(<"$TMP/err")" "ocaml-probes: sampling the CPU 997 times a second: pid $TARGET; end with Ctrl-C" "messages"
	finds 'Profiled\.fib' "$TMP/folded" || fail "$(<"$TMP/folded")"
	# A process that the user may not inspect is not sampled: privileges.sh.
}

run_tests "$@"
