#!/usr/bin/env bash
# `profile`: the shares of the time against the program's own books, and what is printed of stacks.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

PROFILED=$O/tests/ocaml/profiled

# Start PROGRAM, and have it work so long that a profile ends before it.
start_work() { # PROGRAM cpu|wait
	start_target "$1" "$2"
	await_line ready
	tell "run 60"
}

# Profile the target while it works for some seconds, the folded form in $TMP/folded, its books in $TMP/books.
profile_work() { # PROGRAM cpu|wait [FLAG...]
	local program=$1 work=$2
	shift 2
	need_counting
	start_target "$program" "$work"
	await_line ready
	background "$TOOL" profile -pid "$TARGET" --folded "$@" >"$TMP/folded" 2>"$TMP/err"
	wait_for 'grep -q "sampling\|recording" "$TMP/err"'
	tell "run 3"
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

# The program counts its words by Gc.counters.
test_alloc() {
	profile_work "$PROFILED" alloc --alloc
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

# The collector runs for those that allocate.
test_gc() {
	profile_work "$PROFILED" alloc --gc --hz 4999
	check_shares
	! grep -v 'caml_[a-z_]*gc\|caml_alloc_small_dispatch\|caml_check_urgent_gc' "$TMP/folded" ||
		fail "stacks without the collector"
}

# Both files have what --folded prints of the same samples.
test_files() {
	local status
	need_counting
	start_work "$PROFILED" cpu
	"$TOOL" profile -pid "$TARGET" --for 1s --hz 997 --folded --html "$TMP/p.html" --pprof "$TMP/p.pb.gz" \
		>"$TMP/folded" 2>"$TMP/err"
	eq "$(tail -n +2 "$TMP/err")" "ocaml-probes: $TMP/p.html: written
ocaml-probes: $TMP/p.pb.gz: written" "messages"
	protoc --proto_path="$ROOT/tests/profile" --python_out="$TMP" profile.proto
	/usr/bin/python3 -B "$ROOT/tests/e2e/pprof_reader.py" "$TMP/p.pb.gz" 0 | sort >"$TMP/of_pprof"
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
	need_counting
	start_work "$PROFILED" cpu
	"$TOOL" profile -pid "$TARGET" --for 1s --hz 997 >"$TMP/table" 2>"$TMP/err"
	eq "$(cat "$TMP/err")" "ocaml-probes: sampling the CPU 997 times a second: pid $TARGET" "messages"
	grep -Eq '^1\.[0-9]{3} s, [0-9]+ samples: .*s on the CPU, [0-9.]+% of a core$' "$TMP/table" ||
		fail "$(head -n 3 "$TMP/table")"
	grep -Eq '^ +[0-9.]+% +[0-9.]+%  Profiled\.fib$' "$TMP/table" || fail "no line of fib: $(cat "$TMP/table")"
	grep -Eq '^ +Profiled\.spin +.*profiled\.ml:11$' "$TMP/table" || fail "no frame of spin: $(cat "$TMP/table")"
}

# The sums of the members agree, and the stacks are those of the program.
test_json() {
	need_counting
	start_work "$PROFILED" cpu
	"$TOOL" profile -pid "$TARGET" --for 500ms --hz 997 --json >"$TMP/json" 2>/dev/null
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
	eq "$(cat "$TMP/err")" "ocaml-probes: sampling the CPU 99 times a second: 2 processes" "messages"
	[[ -e /proc/$first ]] || fail "the first one has ended"
}

test_the_process_ends() {
	local status=0
	need_counting
	start_work "$PROFILED" cpu
	background "$TOOL" profile -pid "$TARGET" --folded >"$TMP/folded" 2>"$TMP/err"
	wait_for 'grep -q sampling "$TMP/err"'
	sleep 0.3
	kill -9 "$TARGET"
	wait $! || status=$?
	eq "$status $(tail -n 1 "$TMP/err")" "0 ocaml-probes: pid $TARGET has ended" "the end"
	grep -q 'Profiled.spin' "$TMP/folded" || fail "no samples: $(cat "$TMP/folded")"
}

# Another program that the process executes may be one whose stacks the user must not see.
test_exec() {
	need_counting
	start_target bash -c 'read -r; exec "$0" cpu' "$PROFILED"
	background "$TOOL" profile -pid "$TARGET" --for 2s --folded --hz 997 >"$TMP/folded" 2>"$TMP/err"
	wait_for 'grep -q sampling "$TMP/err"'
	tell ''
	await_line ready
	tell "run 60"
	wait $! || fail "$(cat "$TMP/err")"
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
	expect_error 2 "profile: --hz: only for --cpu and --gc" -pid 1 --off-cpu --hz 10
	expect_error 2 "profile: --cpu and --off-cpu are mutually exclusive" -pid 1 --cpu --off-cpu
	expect_error 2 "profile: --folded and --json are mutually exclusive" -pid 1 --folded --json
	need_counting
	expect_error 5 "pid 4194304: no such process" -pid 4194304
	expect_error 5 "/bin/false: no process runs it" --exe /bin/false
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
