#!/usr/bin/env bash
# `--stack`: who calls what is counted, timed and printed, against the books of the program that is called.
#
# needs: fixtures ocaml
# smoke: test_counts_of_sites
# ocaml5: test_filters_and_processes
# takes: 100 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

STACKED=${STACKED:-$O/tests/ocaml/stacked} # by another compiler, perhaps

# Measure PROGRAM with FLAGS while it does ROUNDS rounds: what the tool prints in $TMP/out, the program's
# books in $TMP/books.
measure_stacks() { # PROGRAM ROUNDS FLAG...
	local program=$1 rounds=$2
	shift 2
	need_counting
	start_target "$program" "$rounds"
	await_line ready
	background "$TOOL" attach -pid "$TARGET" "$@" >"$TMP/out" 2>"$TMP/err"
	local measuring=$!
	wait_for 'grep -q "^ocaml-probes: \(counting\|measuring\) [0-9]" "$TMP/err" || ! kill -0 '$measuring
	tell go
	await_line "done" 30
	kill -INT $measuring
	wait $measuring || fail "status $?: $(<"$TMP/err")"
	grep '^[a-z_]* [0-9]*$' "$(output_of)" >"$TMP/books"
	eq "$(wc -l <"$TMP/books")" 9 "lines of the program's books"
}

# Check $TMP/out with Python: `total` is the last object, `hits` are the printed ones, `books` the
# program's, and names(FRAMES) the functions of a stack.
check_json() { # <PYTHON
	{
		cat <<'PY'
import collections, json, sys
objects = [json.loads(line) for line in open(sys.argv[1])]
books = dict((l.split()[0], int(l.split()[1])) for l in open(sys.argv[2]))
total, hits = objects[-1], [o for o in objects if o["type"] == "hit"]
CALLS = ["direct", "handled", "outer", "from_c", "from_qsort", "in_thread", "recursive"]
def names(frames):
    return [frame["function"] for frame in frames]
def sums(stacks):
    "Hits by the caller that the program's books know."
    found = collections.Counter()
    for frames, n in stacks:
        callers = [c for c in CALLS if "Stacked." + c in names(frames)]
        assert len(callers) == 1, frames
        found[callers[0]] += n
    return dict(found)
calls = {name: books[name] for name in CALLS}
def line_of(text):
    lines = [i + 1 for i, l in enumerate(open(sys.argv[3])) if text in l]
    assert len(lines) == 1, (text, lines)
    return lines[0]
def equal(a, b):
    assert a == b, (a, b)
PY
		cat
	} >"$TMP/check.py"
	holds python3 "$TMP/check.py" "$TMP/out" "$TMP/books" "$ROOT/tests/ocaml/stacked/stacked.ml" ||
		fail "$(head -c 4000 "$TMP/out")"
}

# Hits of PROBE by stack: each caller has its number, and no stack is cut off.
check_counts() { # PROBE
	check_json <<PY
stacks = [s for s in total["stacks"] if s["name"] == "$1"]
equal(len(stacks), len(total["stacks"]))
equal(sums((s["frames"], s["hits"]) for s in stacks), calls)
equal(sum(s["hits"] for s in stacks), total["probes"][0]["hits"])
equal(total["walks"]["walked"], sum(calls.values()))
equal([total["walks"][w] for w in ("truncated", "lost", "rows_full")], [0, 0, 0])
for s in stacks:
    frames = names(s["frames"])
    equal(frames[0], "Stacked.work")
    if "Stacked.in_thread" in frames:
        equal(frames[1:3], ["Stacked.in_thread", "Stacked.thread_body"])
        assert "caml_thread_start" in frames, frames
        continue
    # From the start of the program.
    equal(frames[-1], "_start")
    assert "caml_program" in frames and "Stacked.round" in frames, frames
# Those with most hits come first.
equal([s["hits"] for s in stacks], sorted((s["hits"] for s in stacks), reverse=True))
PY
}

test_counts_of_sites() {
	measure_stacks "$STACKED" 200 --count=leaf --stack --json
	check_counts leaf
	check_json <<'PY'
# The frames of some callers, one by one, with their lines.
def stack_of(name):
    stacks = [s["frames"] for s in total["stacks"] if "Stacked." + name in names(s["frames"])]
    assert len(stacks) == 1 or name == "from_qsort", stacks # qsort has several calls
    return [(f["function"], f.get("line"), f.get("inlined", False)) for f in stacks[0]]
work = ("Stacked.work", line_of('[%probe "leaf"'), False)
equal(stack_of("handled")[:4], [
    work,
    ("Stacked.raising", line_of("if work x > 0 then raise Stop"), False),
    ("Stacked.handled", line_of("try raising x + 1"), False),
    ("Stacked.round", line_of("handled i"), False)])
equal(stack_of("outer")[:4], [
    work,
    ("Stacked.inlined", line_of("inlined x = work x + 1"), True),
    ("Stacked.outer", line_of("  inlined x + 1"), False),
    ("Stacked.round", line_of("outer i"), False)])
# A call at the end of a function leaves no frame.
equal([f[:2] for f in stack_of("recursive")[:22]],
      [work[:2]] + [("Stacked.recursive", line_of("else recursive (n - 1) + 1"))] * 20 +
      [("Stacked.round", line_of("recursive 20"))])
# Through C of the runtime, of the program and of the C library.
from_c = [f[0] for f in stack_of("from_c")]
assert from_c[1] == "Stacked.called_from_c", from_c
assert from_c.index("caml_start_program") < from_c.index("stacked_call_back") < from_c.index("Stacked.from_c"), from_c
qsort = [f[0] for f in stack_of("from_qsort")]
assert qsort.index("compare") < qsort.index("stacked_call_by_qsort") < qsort.index("Stacked.from_qsort"), qsort
between = qsort[qsort.index("compare") + 1:qsort.index("stacked_call_by_qsort")]
assert any("libc" in f or "sort" in f for f in between), qsort
kinds = {f["function"]: f["kind"] for s in total["stacks"] for f in s["frames"]}
equal((kinds["Stacked.work"], kinds["stacked_call_back"]), ("ocaml", "c"))
PY
}

test_counts_of_dormant_sites() {
	measure_stacks "${STACKED}_plain" 50 --count=leaf --stack --json
	check_counts leaf
}

test_counts_of_functions() {
	measure_stacks "$STACKED" 50 --count=fn:Stacked.work --stack --json
	check_counts fn:Stacked.work
}

test_counts_of_lines() {
	local line
	line=$(grep -n 'opaque_identity (x + 1)' "$ROOT/tests/ocaml/stacked/stacked.ml" | cut -d: -f1)
	measure_stacks "$STACKED" 50 --count="line:stacked.ml:$line" --stack --json
	check_counts "line:stacked.ml:$line"
}

# A function of C that only one function calls, and a phase of the collector.
test_counts_of_c_and_the_collector() {
	measure_stacks "$STACKED" 3000 --budget none --count=c:stacked_call_back,gc:minor --stack --json
	check_json <<'PY'
of_c = [s for s in total["stacks"] if s["name"] == "c:stacked_call_back"]
equal(sum(s["hits"] for s in of_c), books["from_c"])
for s in of_c:
    frames = names(s["frames"])
    equal(frames[0], "stacked_call_back")
    assert frames.index("Stacked.from_c") < frames.index("Stacked.round"), frames
of_gc = [s for s in total["stacks"] if s["name"] == "gc:minor"]
counted = [p["hits"] for p in total["probes"] if p["name"] == "gc:minor"][0]
assert counted > 0, "the collector did not run"
equal(sum(s["hits"] for s in of_gc), counted)
for s in of_gc:
    assert any(n.startswith("Stacked.") for n in names(s["frames"])), s
PY
}

# Slow calls show who makes them. The stack is that of the end.
check_times() { # START STOP
	check_json <<PY
pair = total["pairs"][0]
stacks = [s for s in total["stacks"] if "start" in s]
equal([(s["start"], s["stop"]) for s in stacks], [("$1", "$2")] * len(stacks))
found = {}
for s in stacks:
    caller = [c for c in ("slow", "fast") if "Stacked." + c in names(s["frames"])]
    equal(len(caller), 1)
    assert caller[0] not in found, s
    found[caller[0]] = s
equal({c: s["count"] for c, s in found.items()}, {c: books[c] for c in ("slow", "fast")})
equal(sum(s["sum_ns"] for s in stacks), pair["sum_ns"])
equal(max(s["max_ns"] for s in stacks), pair["max_ns"])
assert found["slow"]["sum_ns"] >= 5e6 * books["slow"], found["slow"]
assert found["slow"]["max_ns"] >= 5e6
# By their sum.
equal([s["sum_ns"] for s in stacks], sorted((s["sum_ns"] for s in stacks), reverse=True))
PY
}

test_times_of_pairs() {
	measure_stacks "$STACKED" 200 --time begin,end --stack --json
	check_times begin end
	check_json <<'PY'
for s in total["stacks"]:
    equal(s["frames"][0]["function"], "Stacked.timed")
    equal(s["frames"][0]["line"], line_of('[%probe "end"'))
PY
}

test_times_of_calls() {
	measure_stacks "$STACKED" 200 --time fn:Stacked.timed --stack --json
	check_times fn:Stacked.timed ""
}

# A return probe: the function is gone, and its caller is the innermost frame.
test_times_of_c() {
	measure_stacks "$STACKED" 50 --time c:stacked_call_back --count=leaf --stack --json
	check_json <<'PY'
stacks = [s for s in total["stacks"] if "start" in s]
equal(sum(s["count"] for s in stacks), books["from_c"])
for s in stacks:
    frames = [n for n in names(s["frames"]) if n != "caml_c_call"]
    equal(frames[:2], ["Stacked.from_c", "Stacked.round"])
    assert s["frames"][-1]["function"] == "_start", s
    from_c = [f for f in s["frames"] if f["function"] == "Stacked.from_c"][0]
    equal(from_c["line"], line_of("call_back called_from_c x"))
# Below an active call of the function its return address is not that of its caller.
leaf = [s for s in total["stacks"] if s.get("name") == "leaf"]
equal(sums((s["frames"], s["hits"]) for s in leaf), calls)
PY
}

test_printed_hits() {
	measure_stacks "$STACKED" 50 --print leaf --limit 0 --stack --json
	check_json <<'PY'
equal(len(hits), sum(calls.values()))
equal(sums((h["stack"], 1) for h in hits), calls)
for h in hits:
    assert names(h["stack"])[-1] in ("_start", "clone", "__clone") or "caml_thread_start" in names(h["stack"]), h
equal(total["walks"]["walked"], len(hits))
PY
}

test_tables() {
	measure_stacks "$STACKED" 50 --count=leaf --time begin,end --stack
	matches "$(<"$TMP/out")" "stacks of leaf"
	matches "$(<"$TMP/out")" "stacks at the end of begin,end"
	grep -qE '^  350 hits, 26\.9%$' "$TMP/out" || fail "$(<"$TMP/out")"
	grep -qE '^        Stacked\.inlined \(stacked\.ml:[0-9]+\) \(inlined\)$' "$TMP/out" ||
		fail "$(<"$TMP/out")"
	grep -qE '^  [0-9.]+ms, [0-9.]+%: 1 time, mean [0-9.]+ms, max [0-9.]+ms$' "$TMP/out" ||
		fail "$(<"$TMP/out")"
	grep -qE '^[0-9]+ stacks walked, 0 truncated, 0 without room, 0 in no row \(map full\)$' \
		"$TMP/out" || fail "$(<"$TMP/out")"
}

test_printed_tables() {
	measure_stacks "$STACKED" 5 --print leaf --filter 'arg0 == 0' --stack
	grep -A2 '^[0-9.]* [0-9]*/[0-9]* stacked leaf x=0$' "$TMP/out" >"$TMP/hits" || fail "$(<"$TMP/out")"
	eq "$(grep -c ' leaf x=0$' "$TMP/hits")" 25 "hits"
	eq "$(grep -cE '^        Stacked\.work \(stacked\.ml:[0-9]+\)$' "$TMP/hits")" 25 "innermost frames"
}

# The number of frames, and what is said of the rest.
test_depth() {
	measure_stacks "$STACKED" 20 --count=leaf --stack=3 --json
	check_json <<'PY'
for s in total["stacks"]:
    frames = [f for f in s["frames"] if f["kind"] != "truncated" and not f.get("inlined")]
    equal(len(frames), 3)
    equal(s["frames"][-1], {"function": "[truncated: more frames than were asked for]", "kind": "truncated"})
equal(total["walks"]["truncated"], total["walks"]["walked"])
equal(sum(s["hits"] for s in total["stacks"]), sum(calls.values()))
PY
}

# By argument, and in every process of a program, started before or afterwards.
test_filters_and_processes() {
	local program pid
	measure_stacks "$STACKED" 50 --count=leaf --filter 'arg0 == 0' --stack --json
	check_json <<'PY'
equal(sum(s["hits"] for s in total["stacks"]), books["recursive"])
equal(total["walks"]["walked"], books["recursive"])
PY
	program=$(own_copy "$STACKED")
	start_target "$program" 50
	local first=$TARGET
	await_line ready
	background "$TOOL" attach --budget none --exe "$program" --count=leaf --stack --json >"$TMP/out" 2>"$TMP/err"
	local measuring=$!
	wait_for 'has_text "$TMP/err" "counting"'
	start_target "$program" 50
	for pid in "$TARGET" $first; do
		await_line ready 20 "$pid"
		tell go "$pid"
		await_line "done" 30 "$pid"
	done
	kill -INT $measuring
	wait $measuring || fail "status $?: $(<"$TMP/err")"
	check_json <<'PY'
equal(sums((s["frames"], s["hits"]) for s in total["stacks"]), {c: 2 * n for c, n in calls.items()})
equal(total["walks"]["truncated"], 0)
PY
}

test_started_by_the_tool() {
	need_counting
	(echo go; sleep 1) | "$TOOL" trace -prog "$STACKED" --count=leaf --stack --json -- 50 >"$TMP/both" 2>"$TMP/err" ||
		fail "status $?: $(<"$TMP/err")"
	grep '^[a-z_]* [0-9]*$' "$TMP/both" >"$TMP/books"
	grep '^{' "$TMP/both" >"$TMP/out"
	check_counts leaf
}

test_intervals() {
	measure_stacks "$STACKED" 200 --count=leaf --stack --interval 20ms --json
	check_json <<'PY'
assert len(objects) > 1
for o in objects[:-1]:
    assert o["type"] == "interval" and "stacks" not in o, o
equal(sum(o["probes"][0]["hits"] for o in objects[:-1]) <= sum(calls.values()), True)
equal(sums((s["frames"], s["hits"]) for s in total["stacks"]), calls)
PY
}

# The walks are a part of the cost, so the budget knows them.
test_budget() {
	need_counting
	start_target "$STACKED" 100000
	await_line ready
	background "$TOOL" attach -pid "$TARGET" --count=leaf --stack --budget 0.5% >"$TMP/out" 2>"$TMP/err"
	local measuring=$! status=0
	wait_for 'has_text "$TMP/err" counting'
	tell go
	wait $measuring || status=$?
	eq "$status" 7 "status"
	matches "$(<"$TMP/err")" "exceeds the budget of 0.5%"
	kill "$TARGET"
}

# The command is refused with status 2 and a message.
refused() { # MESSAGE FLAG...
	local message=$1 status=0
	shift
	timeout 300 "$TOOL" attach -pid "$TARGET" "$@" >/dev/null 2>"$TMP/err" || status=$?
	eq "$status" 2 "status of $*"
	matches "$(head -n 1 "$TMP/err")" "^ocaml-probes: attach: $message"
}

test_wrong_input() {
	need_counting
	start_target "$STACKED" 1
	await_line ready
	refused "--stack requires --count, --time or --print" -enable leaf --stack
	refused "--stack '0': not a number of frames from 1 to" --count --stack=0
	refused "--stack 'x': not a number of frames from 1 to" --count --stack=x
	refused "--stack '99999': not a number of frames from 1 to" --count --stack=99999
	refused "--stack excludes --by-thread and --by-process" --count --stack --by-thread
	refused "--stack excludes --by-thread and --by-process" --count --stack --by-process
	refused "--keep excludes --stack" --count --stack --keep night
	refused "--csv excludes --stack" --count --stack --csv
}

run_tests "$@"
