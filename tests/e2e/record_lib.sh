# shellcheck shell=bash
# What the scripts that record targets share: recording, and reading traces.

# More flags for each recording: of the ENGINE, which alone is tested.
RECORD_FLAGS=()
[[ $ENGINE = bpf ]] || RECORD_FLAGS=(--engine "$ENGINE" --no-waits --hz 0)

# Record TARGET until stop_recording. What the tool prints is in $TMP/totals, what it says in $TMP/err.
start_recording() { # FLAG...
	need_counting
	need_command protoc python3
	: >"$TMP/err"
	background "$TOOL" record -pid "$TARGET" --budget none "${RECORD_FLAGS[@]}" "$@" >"$TMP/totals" 2>"$TMP/err"
	RECORDING=$!
	wait_for 'has_text "$TMP/err" "ocaml-probes: measuring [0-9]+ " || has_ended "$RECORDING"'
	! has_ended "$RECORDING" || fail "$(<"$TMP/err")"
}

stop_recording() {
	local status=0
	kill -INT "$RECORDING"
	wait "$RECORDING" || status=$?
	eq "$status" "${1:-0}" "status of record: $(<"$TMP/err")"
}

# Record TARGET while it works: from its line `ready` to its line `end`.
record_work() { # FLAG...
	start_recording -o "$TMP/trace" "$@"
	tell go
	await_line end 60
	stop_recording
	read_trace "$TMP/trace"
}

# Read a trace into the database $TMP/db.
read_trace() { # FILE
	rm -f "$TMP/db"
	"$ROOT/tests/record/read_perfetto" "$1" "$TMP/db" || fail "the trace is wrong: $(<"$TMP/err")"
}

# Run the Python text of stdin, in which `sql(QUERY, ARG...)` returns the rows of the trace, `totals` is what `record --json` has
# printed, and `books` the lines of the target.
check_trace() { # [ARG...]
	{
		cat <<'PY'
import json, sqlite3, sys
database, printed, output, *words = sys.argv[1:]
def sql(query, *args):
    return sqlite3.connect(database).execute(query, args).fetchall()
lines = [json.loads(line) for line in open(printed)]
totals = lines[-1] if lines else None
books = open(output).read().splitlines()
# The value of an argument that is a string: the engine inside reads ints only.
def text(value):
    return "?" if totals["engine"] == "inside" else value
PY
		cat
	} >"$TMP/check.py"
	holds python3 "$TMP/check.py" "$TMP/db" "$TMP/totals" "$(output_of)" "$@" || fail "$(<"$TMP/err")"
}

# Slices are as many, and take as long, as the tool has counted and timed in the same run.
check_totals() {
	check_trace <<-'PY'
		for pair in totals["pairs"]:
		    name = pair["start"].removeprefix("fn:") + ("," + pair["stop"] if pair.get("stop") else "")
		    (count, total, least, most), = sql("select count(*), sum(ns), min(ns), max(ns) from slices where name = ?", name)
		    assert count == pair["count"], (name, count, pair)
		    if count:
		        assert (total, least, most) == (pair["sum_ns"], pair["min_ns"], pair["max_ns"]), (name, total, least, most, pair)
	PY
}

# Slices without an end are those that the program says are open: no call that an exception has ended, no request that is done.
check_unended() {
	check_trace <<-'PY'
		import collections
		open_ones = collections.defaultdict(list)
		for line in books:
		    if line.startswith("open "):
		        name, number, tid, before, behind = line.split()[1:]
		        open_ones[name, None if "," in name and "request" in name else int(tid)].append((int(before), int(behind), int(number)))
		# The main thread was in the first call before the recording began.
		(key, calls), = [(key, calls) for key, calls in open_ones.items() if key[0] == "Unended.obeys"]
		calls.remove(min(calls))
		found = collections.defaultdict(list)
		for name, thread, begin, depth, args in sql("select name, thread, begin_ns, depth, args from unended"):
		    found[name, thread].append((begin, json.loads(args)))
		assert {key: len(list_) for key, list_ in found.items()} == {key: len(list_) for key, list_ in open_ones.items()}, (found, open_ones)
		for key, list_ in open_ones.items():
		    for (before, behind, number), (begin, args) in zip(sorted(list_), sorted(found[key], key=lambda one: one[0])):
		        assert before <= begin <= behind, (key, before, begin, behind)
		        assert args.pop("did not end") == "no end was seen in the recording", args
		        if "," in key[0]:
		            assert args["id"] == number, (key, args, number)
		        if key[1] is None:
		            assert "on thread" in args and "on thread at request_done" not in args, args
		assert sum(map(len, found.values())) == len(sql("select * from unended")) > 25, found
		# The tool counts pairs in the same way. It cannot tell which calls exceptions have ended.
		for pair in totals["pairs"] if totals else []:
		    if pair.get("stop"):
		        number = sum(len(list_) for (name, _), list_ in found.items() if name == f"{pair['start']},{pair['stop']}")
		        assert number == pair["open"], (number, pair)
	PY
}

UNENDED=(--time request_start,request_done --time enter,leave --time fn:Unended.descends --time fn:Unended.escapes --time fn:Unended.suspends
	--time fn:Unended.obeys)

# The sockets of flight recorders are in $TMP/run/ocaml-probes.
start_reborn() { # [PROGRAM]
	mkdir -p "$TMP/run"
	export XDG_RUNTIME_DIR=$TMP/run
	start_target "${1:-$O/tests/ocaml/reborn}"
	await_line ready
}

pass() { # N
	forget_output
	tell "go $1"
	await_line "passed $1"
}

query() { # SQL
	python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])' "$TMP/db" "$1"
}

# The number of hits of a probe in the trace that was read last, or in FILE.
count_of() { # NAME [FILE]
	[[ $# -lt 2 ]] || read_trace "$2"
	python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("select count(*) from instants where name = ?", sys.argv[2:]).fetchone()[0])' "$TMP/db" "$1"
}
