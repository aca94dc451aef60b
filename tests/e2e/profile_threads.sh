#!/usr/bin/env bash
# Names of threads: `profile --by-thread` and printed hits against the books of a program whose threads have names
# (tests/ocaml/crew).
#
# needs: fixtures ocaml/crew
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

CREW=$O/tests/ocaml/crew

# A name that would control the terminal, add a line and a frame, and that the kernel cuts in the middle of a character.
HOSTILE=$'\e[2J;x\nmain 7\xcc\x80\xcc\x81\xcc\x82'
# Two threads of one name, and one that changes its name.
CREW_OF=(-- twin 400 -- twin 500 -- first 300 second 200 -- "$HOSTILE" 600)

# Start the crew at WORK, and run COMMAND..., which measures it, until the crew has ended its work. What the command prints
# is in $TMP/out, the books in $TMP/books.
measure_crew() { # WORK COMMAND...
	local work=$1
	shift
	need_counting
	start_target "$CREW" "$work" "${CREW_OF[@]}"
	await_line ready
	await_reading
	background "$@" -pid "$TARGET" >"$TMP/out" 2>"$TMP/err"
	MEASURE=$!
	wait_for 'has_text "$TMP/err" "sampling|recording|measuring|counting"'
	work_crew
	end_measure
}

work_crew() {
	tell go
	await_line 'done'
	await_reading
	sed -nE '/^[0-9]+ [0-9a-f]+ [0-9]+$/p' "$(output_of)" >"$TMP/books"
	eq "$(wc -l <"$TMP/books")" 5 "lines of the books"
}

end_measure() {
	kill -INT "$MEASURE"
	wait "$MEASURE" || fail "status $?: $(<"$TMP/err")"
}

# Run the Python script on standard input with what the books and the output have: `books` is {(tid, name): number}, in
# which a name is as JSON has it, and shown(name) as a terminal has it.
check_crew() { # ARG...
	{
		cat <<-'PY'
			import collections, json, sys
			books = {}
			for line in open(sys.argv[1]):
			    tid, name, number = line.split()
			    name = bytes.fromhex(name)[:15]
			    text = name.decode(errors="surrogateescape")
			    books[int(tid), "".join("?" if 0xdc80 <= ord(c) else c for c in text)] = int(number)
			def shown(name):
			    return "".join("?" if c < " " else c for c in name)
			def frame(tid, name):
			    return f"{shown(name)} ({tid})".replace(";", ":")
		PY
		cat
	} >"$TMP/check.py"
	holds "${PYTHON:-python3}" "$TMP/check.py" "$TMP/books" "$@" || fail "$(cat "$TMP/books"; head -c 3000 "$TMP/out" | cat -v)"
}

# The threads have ended when the profile is made. Each page that a thread has touched is a sample under the name that the
# thread had then.
test_cpu() {
	measure_crew touch "${AT_FAULTS[@]}" "$TOOL" profile --by-thread --json
	check_crew "$TMP/out" "$TARGET" <<-'PY'
		top, pid = json.load(open(sys.argv[2])), int(sys.argv[3])
		found, sums = collections.Counter(), collections.Counter()
		for stack in top["stacks"]:
		    assert stack["pid"] == pid, stack
		    assert all(f["kind"] != "thread" for f in stack["frames"]), stack
		    thread = stack["tid"], stack["comm"]
		    sums[thread] += stack["samples"]
		    if stack["frames"][-1]["function"] == "Crew.touch":
		        found[thread] += stack["samples"]
		assert found == books and len(books) == 5, (found, books)
		threads = {(t["tid"], t["comm"]): t["samples"] for t in top["threads"]}
		assert threads == sums and sum(sums.values()) == top["samples"], (threads, sums)
		values = [t["ns"] for t in top["threads"]]
		assert values == sorted(values, reverse=True) and sum(values) == top["ns"], values
	PY
}

test_folded() {
	measure_crew touch "${AT_FAULTS[@]}" "$TOOL" profile --by-thread --folded
	check_crew "$TMP/out" <<-'PY'
		found = collections.Counter()
		for line in open(sys.argv[2]):
		    stack, samples = line.rsplit(" ", 1)
		    frames = stack.split(";")
		    if frames[-1] == "Crew.touch":
		        found[frames[0]] += int(samples)
		assert found == {frame(*thread): number for thread, number in books.items()}, (found, books)
	PY
}

test_table() {
	measure_crew touch "${AT_FAULTS[@]}" "$TOOL" profile --by-thread
	! LC_ALL=C grep -aqP '[\x00-\x09\x0b-\x1f\x7f]' "$TMP/out" || fail "not plain: $(cat -v "$TMP/out")"
	check_crew "$TMP/out" "$TARGET" <<-'PY'
		lines = open(sys.argv[2]).read().split("\n")
		at = lines.index("  SHARE    SAMPLES      PID  THREAD")
		rows = {}
		for line in lines[at + 1:lines.index("", at)]:
		    share, samples, pid, name = line.split(maxsplit=3)
		    assert pid == sys.argv[3], line
		    rows[name] = int(samples)
		for (tid, name), number in books.items():
		    name = f"{shown(name)} ({tid})"
		    assert rows[name] >= number, (name, rows)
		    # Its functions are listed below its name, and its stack has its name.
		    at = lines.index(name)
		    assert lines[at + 1] == "   SELF   TOTAL  FUNCTION" and lines[at + 2].endswith("  Crew.touch"), lines[at:at + 3]
		    assert any(line.endswith("% " + name) for line in lines[lines.index("STACKS"):]), name
	PY
}

# The threads sleep at the same time. Each wait is there, by the books of the kernel.
test_off_cpu() {
	local tid
	need_counting
	start_target "$CREW" wait -- a 30 -- b 60 -- b 10
	await_line ready
	sed -nE '/^[0-9]+ [0-9a-f]+ 0$/p' "$(output_of)" | while read -r tid name _; do
		await_thread "$tid"
		echo "$tid $name $(waits_of_thread "$tid")"
	done >"$TMP/before"
	background "$TOOL" profile --by-thread --off-cpu --json -pid "$TARGET" >"$TMP/out" 2>"$TMP/err"
	MEASURE=$!
	wait_for 'has_text "$TMP/err" recording'
	tell go
	await_line 'done'
	# A thread that waits already when the profile begins has one more.
	while read -r tid name before; do
		await_thread "$tid"
		echo "$tid $name $(($(waits_of_thread "$tid") - before + 1))"
	done <"$TMP/before" >"$TMP/books"
	end_measure
	check_crew "$TMP/out" <<-'PY'
		top = json.load(open(sys.argv[2]))
		found = {(t["tid"], t["comm"]): t["samples"] for t in top["threads"] if (t["tid"], t["comm"]) in books}
		assert found == books and len(books) == 3, (top["threads"], books)
		assert sorted(books.values())[0] > 10 and sorted(books.values())[-1] > 60, books
	PY
}

# The thread waits for an order (system call 0, read).
await_thread() { # TID
	wait_for "grep -q '^0 ' /proc/$TARGET/task/$1/syscall"
}

# How often the thread has begun to wait, by the kernel's books.
waits_of_thread() { # TID
	sed -n 's/^voluntary_ctxt_switches:.//p' "/proc/$TARGET/task/$1/status"
}

# There is a sample each time half of a minor heap has been allocated, and none before. The collector may empty the minor
# heap earlier: then a sample is missing.
test_alloc() {
	CREW_OF=(-- twin 4000 -- twin 5000 -- first 3000 second 2000 -- "$HOSTILE" 6000)
	measure_crew alloc "$TOOL" profile --by-thread --alloc --hz 9999 --json
	check_crew "$TMP/out" <<-'PY'
		top, half = json.load(open(sys.argv[2])), 128 * 1024
		found = collections.Counter()
		for stack in top["stacks"]:
		    if any(f["function"] == "Crew.alloc" for f in stack["frames"]):
		        found[stack["tid"], stack["comm"]] += stack["samples"]
		assert found.keys() == books.keys(), (found, books)
		assert all(0.9 * words / half <= found[thread] <= words / half + 1 for thread, words in books.items()), (found, books)
		assert top["words"] == sum(t["words"] for t in top["threads"]) == sum(s["words"] for s in top["stacks"])
	PY
}

# Of the page faults of each thread, those in the collector.
test_gc() {
	CREW_OF=(-- twin 40 -- twin 50 -- first 30 second 20 -- "$HOSTILE" 60)
	need_counting
	start_target "$CREW" grow "${CREW_OF[@]}"
	await_line ready
	await_reading
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --by-thread --folded >"$TMP/cpu" 2>"$TMP/cpu.err"
	CPU=$!
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --by-thread --folded --gc >"$TMP/out" 2>"$TMP/err"
	MEASURE=$!
	wait_for 'has_text "$TMP/cpu.err" sampling && has_text "$TMP/err" sampling'
	work_crew
	end_measure
	kill -INT "$CPU"
	wait "$CPU" || fail "$(<"$TMP/cpu.err")"
	check_crew "$TMP/out" "$TMP/cpu" <<-'PY'
		collector = ("caml_alloc_small_dispatch", "caml_gc_dispatch", "caml_check_urgent_gc", "caml_garbage_collection",
		             "caml_gc_full_major", "caml_poll_gc_work")
		def lines(path):
		    return sorted(open(path).read().splitlines())
		wanted = [line for line in lines(sys.argv[3]) if any(";" + name in line for name in collector)]
		assert lines(sys.argv[2]) == wanted, (lines(sys.argv[2]), wanted)
		threads = {line.split(";")[0] for line in wanted}
		assert threads >= {frame(*thread) for thread in books}, threads
	PY
}

# Stacks of threads that are not split are as before: no name, and one stack for all threads.
test_profile_without_it() {
	measure_crew touch "${AT_FAULTS[@]}" "$TOOL" profile --json
	check_crew "$TMP/out" <<-'PY'
		top = json.load(open(sys.argv[2]))
		assert "threads" not in top and all("tid" not in s and "comm" not in s for s in top["stacks"])
		touched = [s["samples"] for s in top["stacks"] if s["frames"][-1]["function"] == "Crew.touch"]
		assert touched == [sum(books.values())], touched
	PY
}

# The name is that at the hit.
test_printed_hits() {
	measure_crew step "$TOOL" attach --budget none --print step --limit 0 --json
	check_crew "$TMP/out" <<-'PY'
		hits = [json.loads(line) for line in open(sys.argv[2])]
		found = collections.Counter((h["tid"], h["comm"]) for h in hits if h["type"] == "hit")
		assert found == books, (found, books)
	PY
	measure_crew step "$TOOL" attach --budget none --print step --limit 0 --csv
	check_crew "$TMP/out" <<-'PY'
		import csv
		rows = [r for r in csv.DictReader(open(sys.argv[2], newline="")) if r["type"] == "hit"]
		found = collections.Counter((int(r["tid"]), r["comm"]) for r in rows)
		assert found == books, (found, books)
	PY
	measure_crew step "$TOOL" attach --budget none --print step --limit 0
	! LC_ALL=C grep -aqP '[\x00-\x09\x0b-\x1f\x7f]' "$TMP/out" || fail "not plain: $(cat -v "$TMP/out")"
	check_crew "$TMP/out" "$TARGET" <<-'PY'
		import re
		found = collections.Counter(m[1] for m in map(re.compile(r"[0-9.]+ (.*) step i=[0-9]+$").match, open(sys.argv[2])) if m)
		assert found == {f"{sys.argv[3]}/{tid} {shown(name)}": n for (tid, name), n in books.items()}, (found, books)
	PY
}

# A row of counts is a thread, under its last name; a process has the name of its main thread.
test_counts_by_thread() {
	measure_crew step "$TOOL" attach --budget none --count=step --by-thread --json
	check_crew "$TMP/out" <<-'PY'
		total = [json.loads(line) for line in open(sys.argv[2])][-1]
		sums, names = collections.Counter(), {}
		for (tid, name), number in books.items():
		    sums[tid] += number
		    names[tid] = name
		found = {(r["tid"], r["comm"]): r["hits"] for r in total["probes"]}
		assert found == {(tid, names[tid]): number for tid, number in sums.items()}, (found, books)
	PY
	measure_crew step "$TOOL" attach --budget none --count=step --by-process --json
	check_crew "$TMP/out" <<-'PY'
		(row,) = [json.loads(line) for line in open(sys.argv[2])][-1]["probes"]
		assert row["comm"] == "crew" and row["hits"] == sum(books.values()), row
	PY
}

test_pprof_labels() {
	measure_crew touch "${AT_FAULTS[@]}" "$TOOL" profile --by-thread --json --pprof "$TMP/out.pb.gz"
	need_command protoc gzip
	protoc --proto_path="$ROOT/tests/profile" --python_out="$TMP" profile.proto
	PYTHON=/usr/bin/python3 check_crew "$TMP/out.pb.gz" "$ROOT/tests/e2e" <<-'PY'
		import os
		os.environ["TMP"] = os.path.dirname(sys.argv[2])
		sys.path.insert(0, sys.argv[3])
		sys.dont_write_bytecode = True
		from pprof_reader import Pprof
		read = Pprof(sys.argv[2])
		found = collections.Counter()
		for sample in read.message.sample:
		    labels = {read.strings[l.key]: read.strings[l.str] if l.str else l.num for l in sample.label}
		    frames = read.frames(sample)
		    assert "(" not in frames[0][0], frames
		    if frames[-1][0] == "Crew.touch":
		        found[labels["tid"], labels["thread"]] += sample.value[0]
		assert found == books, (found, books)
	PY
}

test_usage() {
	check_error 2 '--by-thread and --diff are mutually exclusive' profile -pid $$ --by-thread --diff "$TMP/none"
}

run_tests "$@"
