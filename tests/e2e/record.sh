#!/usr/bin/env bash
# `record`: traces in the format of Perfetto, read by tests/record/read_perfetto, which shares no code with their writer, against
# the books of the programs.
#
# needs: fixtures link ocaml
# ocaml5: test_fibres_that_move test_fibres_in_domains test_children test_pairs_by_thread test_pairs_by_key test_calls test_collector test_story test_what_has_not_ended test_what_has_not_ended_yet
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"
. "$(dirname "$0")/record_lib.sh"
. "$(dirname "$0")/link_lib.sh"
. "$(dirname "$0")/lwt_lib.sh"

# ---- pairs, calls, the collector --------------------------------------------------------------

# Nested pairs of three threads, with exceptions that skip stops.
test_pairs_by_thread() {
	start_target "$O/tests/ocaml/slow" 60 3
	await_line ready
	record_work --time enter,leave --print enter --key none --json
	check_totals
	check_trace <<-'PY'
		import re
		seen = 0
		slices = {}
		for thread, ns, args, depth in sql("select thread, ns, args, depth from slices where name = 'enter,leave'"):
		    args = json.loads(args)
		    assert args["id"] == args["id at leave"] and args["name"] == args["name at leave"] == f'call "{args["id"]}"', args
		    slices[args["id"]] = thread, ns, depth
		for line in books:
		    pair = re.match(r'pair (\d+) "(.*)" (\d+) within_ns=(\d+) around_ns=(\d+)', line)
		    if pair:
		        thread, ns, depth = slices.pop(int(pair[1]))
		        assert thread == int(pair[3]) and int(pair[4]) <= ns <= int(pair[5]), (line, thread, ns)
		        seen += 1
		assert seen > 100 and not slices, (seen, slices)
		# 60 calls of each thread, which are four deep.
		(instants,), = sql("select count(*) from instants where name = 'enter'")
		assert instants == totals["pairs"][0]["starts"] == 3 * 60 * 4, instants
	PY
}

# Requests of one thread that another one ends: they overlap, and have lanes of their own.
test_pairs_by_key() {
	start_target "$O/tests/ocaml/requests" 200
	await_line ready
	record_work --time request_start,request_stop --key id --print request_stop --json
	check_totals
	check_trace "$TARGET" <<-'PY'
		import collections
		pairs, = [int(line.split("=")[1]) for line in books if line.startswith("pairs=")]
		rows = sql("select track, thread, depth, args from slices where category = 'pair'")
		assert len(rows) == pairs > 100, (len(rows), pairs)
		for track, thread, depth, args in rows:
		    args = json.loads(args)
		    number = args["id"]
		    assert track == "request_start,request_stop" and thread is None and depth == 0, (track, thread, depth)
		    # The main thread begins requests, another one ends them.
		    assert args.pop("on thread") == int(words[0]) != args.pop("on thread at request_stop"), args
		    assert args == {"id": number, "meth": "POST" if number % 3 == 0 else "GET", "name": f"request {number}",
		                    "id at request_stop": number, "status at request_stop": 200, "name at request_stop": f"request {number}"}, args
		(lanes,), = sql("select count(*) from tracks where name = 'request_start,request_stop'")
		assert lanes > 1, lanes
		# A flow leads from the request to its start, in the main thread, and from there to the stop, in another thread.
		main, request = int(words[0]), "request_start,request_stop"
		flows = sql("select from_thread, from_name, to_thread, to_name, from_args, to_args from flows")
		assert all(json.loads(flow[-2])["id"] == json.loads(flow[-1])["id"] for flow in flows)
		(unended,), = sql("select count(*) from unended where name = ?", request)
		kinds = collections.Counter((a, b, c == main, d) for a, b, c, d, *_ in flows)
		assert kinds == {(None, request, True, "request_start"): pairs + unended, (main, "request_start", False, "request_stop"): pairs}, kinds
	PY
}

# 200 requests at a time in one thread: each has one slice, and flows from it to its own start and from there to its own stop.
test_flows_of_concurrent_requests() {
	build_served
	start_served 200
	record_work --time request_start,request_done --key rid --json --no-waits --hz 0
	check_totals
	check_trace "$TARGET" <<-'PY'
		line, = [line for line in books if line.startswith("key ")]
		book = {name: int(value) for name, value in (word.split("=") for word in line.split()[1:])}
		(count, total, least, most), = sql("select count(*), sum(ns), min(ns), max(ns) from slices where name = 'request_start,request_done'")
		assert count == book["count"] == 1000 and book["within_ns"] <= total <= book["around_ns"], (count, total, book)
		assert least <= book["shortest_ns"] and most >= book["longest_ns"], (least, most, book)
		chains = {}
		for from_thread, from_name, from_ns, from_args, to_thread, to_name, to_ns, to_args in sql(
		    "select from_thread, from_name, from_ns, from_args, to_thread, to_name, to_ns, to_args from flows order by from_ns"):
		    rid = json.loads(from_args)["rid"]
		    assert json.loads(to_args)["rid"] == rid and from_ns <= to_ns, (from_args, to_args)
		    chains.setdefault(rid, []).append((from_thread, from_name, to_thread, to_name))
		main = int(words[0])
		chain = [(None, "request_start,request_done", main, "request_start"), (main, "request_start", main, "request_done")]
		assert sorted(chains) == list(range(1000)) and all(found == chain for found in chains.values()), \
		    [(rid, found) for rid, found in chains.items() if found != chain][:3]
	PY
}

# Other probes with the key between start and stop are steps of the same request; keys are used again by later requests.
test_flows_of_keys_that_are_used_again() {
	start_target "$O/tests/ocaml/skipping" 40 4 turns
	await_line ready
	record_work --time turn_start,turn_stop --key arg0 --print turn_start --json --no-waits --hz 0
	check_trace <<-'PY'
		(count,), = sql("select count(*) from slices where name = 'turn_start,turn_stop'")
		(unended,), = sql("select count(*) from unended where name = 'turn_start,turn_stop'")
		flows = sql("select from_name, to_name, from_args, to_args, to_ns - from_ns from flows")
		begun = [flow for flow in flows if flow[0] == "turn_start,turn_stop"]
		ended = [flow for flow in flows if flow[1] == "turn_stop"]
		assert len(begun) == count + unended and len(ended) == count > 300 and len(flows) == 2 * count + unended, (len(begun), len(ended), count, unended)
		assert all(json.loads(a)["id"] == json.loads(b)["id"] for _, _, a, b, _ in flows)
		assert all(to == "turn_start" and ns < 10_000_000 for _, to, _, _, ns in begun)
	PY
}

# Calls of functions, with recursion, exceptions and tail calls.
test_calls() {
	build_timed
	start_target "$TMP/built/timed" 40 300
	await_line ready
	start_recording -o "$TMP/trace" "${MEASURED[@]}" --json
	tell go
	wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	check_totals
	check_trace <<-'PY'
		rows = dict(sql("select name, count(*) from slices where category = 'function' group by name"))
		assert len(rows) > 8 and rows["Timed.returns"] >= 40 and rows["Timed.lands"] == 40, rows
		# A call is below the call that made it.
		(depth,), = sql("select max(depth) from slices where name = 'Timed.nests'")
		assert depth >= 2, depth
	PY
}

# Fibres that take turns within a pair go on in any of four domains (on OCaml 4: of four threads), and some skip their stops.
test_fibres_that_move() {
	start_target "$O/tests/ocaml/skipping" 40 4 turns
	await_line ready
	record_work --time turn_start,turn_stop --key arg0 --print turn_start --json --no-waits --hz 0
	check_totals
	check_trace <<-'PY'
		line, = [line for line in books if line.startswith("pair turn_start ")]
		book = {name: int(value) for name, value in (word.split("=") for word in line.split()[3:])}
		(count, total), = sql("select count(*), sum(ns) from slices where name = 'turn_start,turn_stop'")
		assert count == book["count"] > 300 and book["within_ns"] <= total <= book["around_ns"], (count, total, book)
		(unended,), = sql("select count(*) from unended where name = 'turn_start,turn_stop'")
		assert unended == book["open"] == totals["pairs"][0]["open"], (unended, book)
		(starts,), = sql("select count(*) from instants where name = 'turn_start'")
		assert starts == count + unended + book["orphan_starts"], (starts, count, unended, book)
		# Each start is in the thread that its slice names.
		threads = {(thread, ns): json.loads(args)["id"] for thread, ns, args in sql("select thread, ns, args from instants where name = 'turn_start'")}
		begun = [json.loads(args) for args, in sql("select args from slices where name = 'turn_start,turn_stop'")]
		assert {(args["on thread"], args["id"]) for args in begun} <= {(thread, number) for (thread, _), number in threads.items()}
	PY
}

# Four workers, on OCaml 5 every second one in a domain of its own, with four fibres each: exceptions skip stops.
test_fibres_in_domains() {
	start_target "$O/tests/ocaml/skipping" 10 4
	await_line ready
	record_work --time nest_start,nest_stop --time visit_start,visit_stop --key none --json --no-waits --hz 0
	check_totals
	check_trace <<-'PY'
		for pair in totals["pairs"]:
		    if not pair.get("stop"):
		        continue
		    name = f"{pair['start']},{pair['stop']}"
		    (count, threads), = sql("select count(*), count(distinct coalesce(thread, -1)) from slices where name = ?", name)
		    (unended,), = sql("select count(*) from unended where name = ?", name)
		    assert count == pair["count"] > 100 and threads == 4, (name, count, threads)
		    assert unended == pair["open"] and pair["starts"] == count + unended + pair["orphan_starts"], (pair, unended)
		    book, = [line for line in books if line.startswith(f"pair {pair['start']} ")]
		    hits, = [line for line in books if line.startswith(f"probe {pair['start']} ")]
		    assert pair["starts"] == int(hits.split("=")[1]), (pair, hits)
	PY
}

# A program that forks: with --children, hits and calls are on the tracks of the process that made them.
test_children() {
	start_target "$O/tests/ocaml/forking" 5 200
	await_line ready
	start_recording -o "$TMP/trace" --children --print work --time fn:Forking.pass --json --no-waits --hz 0
	tell go
	await_line "done"
	tell again
	await_line "done again"
	stop_recording
	read_trace "$TMP/trace"
	check_totals
	check_trace "$TARGET" <<-'PY'
		hits = dict(sql("select pid, count(*) from instants where name = 'work' group by 1"))
		parent = int(words[0])
		# The parent has passed twice, and forked five children each time.
		assert hits.pop(parent) == 400 and list(hits.values()) == [200] * 10, hits
		calls = dict(sql("select pid, count(*) from slices where name = 'Forking.pass' group by 1"))
		assert calls.pop(parent) == 2 and calls == dict.fromkeys(hits, 1), calls
		# Each hit is in a call of its own process.
		(within,), = sql("select count(*) from instants i join slices s on s.name = 'Forking.pass' and s.pid = i.pid and s.thread = i.thread "
		                 "and i.ns between s.begin_ns and s.begin_ns + s.ns where i.name = 'work'")
		assert within == 400 + 2000, within
		processes = dict(sql("select pid, name from tracks where parent is null and pid is not null and tid is null"))
		assert len(processes) == 11 and processes[parent] == "forking", processes
	PY
}

# Phases of the collector are recorded without a request.
test_collector() {
	start_target "$O/tests/ocaml/story" 20
	await_line ready
	record_work --json --no-waits --hz 0
	check_totals
	check_trace <<-'PY'
		steps = [line.split() for line in books]
		collected = [(int(begin), int(end)) for what, begin, end in (s for s in steps if len(s) == 3) if what == "collect"]
		pauses = sql("select begin_ns, begin_ns + ns from slices where name = 'gc:minor'")
		assert len(collected) == 20
		for begin, end in collected:
		    assert any(begin <= b and e <= end for b, e in pauses), (begin, end, pauses)
		assert sql("select count(*) from slices where category in ('wait', 'ready')") == [(0,)]
		assert {track for track, in sql("select distinct track from counters")} >= {"major heap (bytes)", "minor collections"}
		((smallest, largest),) = sql("select min(value), max(value) from counters where track = 'minor collections'")
		assert largest - smallest <= len(pauses), (smallest, largest, len(pauses))
	PY
}

# ---- what has not ended -----------------------------------------------------------------------

test_what_has_not_ended() {
	start_target "$O/tests/ocaml/unended" 4
	await_line ready
	start_recording -o "$TMP/trace" --html "$TMP/page.html" "${UNENDED[@]}" --json
	tell begin
	await_line end
	stop_recording
	read_trace "$TMP/trace"
	check_unended
	holds "$ROOT/tests/record/read_page" "$TMP/page.html" "$TMP/page"
	holds "$ROOT/tests/record/same_traces" "$TMP/db" "$TMP/page"
	finds -Ex "ocaml-probes: $TMP/trace: written: [0-9]+ events \($(query 'select count(*) from unended') without an end\) of .*" "$TMP/err" ||
		fail "$(<"$TMP/err")"
}

# A flight recorder writes what is open when it writes the file. When it has ended, it stands in later files as what it was.
test_what_has_not_ended_yet() {
	start_target "$O/tests/ocaml/unended" 3
	await_line ready
	start_recording -o "$TMP/flight" --last 1h "${UNENDED[@]}"
	tell begin
	await_line end
	kill -USR1 "$RECORDING"
	wait_for '[[ -e $TMP/flight-1 ]]'
	read_trace "$TMP/flight-1"
	check_unended
	tell finish
	await_line finished
	kill -USR1 "$RECORDING"
	wait_for '[[ -e $TMP/flight-2 ]]'
	stop_recording
	read_trace "$TMP/flight-2"
	# Two of the calls in which the main thread is, and no other one. Fibres of OCaml 5 leave calls that exceptions have ended, as the
	# manual says.
	check_trace "$(ocamlopt -version)" <<-'PY'
		unended = dict(sql("select name, count(*) from unended group by 1"))
		if words[0].startswith("5."):
		    unended.pop("Unended.escapes", None)
		assert unended == {"Unended.obeys": 2}, sql("select * from unended")
		ended = dict(sql("select name, count(*) from slices where category in ('pair', 'function') group by 1"))
		open_ones = [line.split()[1] for line in books if line.startswith("open ")]
		# 20 requests were done before; the fibres before the last one have ended on OCaml 4.
		assert ended["request_start,request_done"] == 20 + open_ones.count("request_start,request_done") == 30, ended
		assert ended["enter,leave"] == open_ones.count("enter,leave"), ended
		assert ended["Unended.descends"] == open_ones.count("Unended.descends"), ended
		assert ended["Unended.suspends"] == 3 * 3, ended
	PY
}

# ---- commands ---------------------------------------------------------------------------------

# Run `record WORD...` and return its status. What a command prints is in $TMP/said, the JSON of the tool in $TMP/totals.
record_command() { # INPUT WORD...
	local status=0
	printf "$1" | "$TOOL" record --budget none "${@:2}" >"$TMP/all" 2>"$TMP/err" || status=$?
	grep -v '^{"version":' "$TMP/all" >"$TMP/said" || :
	grep '^{"version":' "$TMP/all" >"$TMP/totals" || :
	return "$status"
}

# A program is recorded from the first instruction of its code to its end.
test_program() {
	need_counting
	need_command protoc python3
	record_command 'go\n\n' --time request_start,request_stop --key id --print request_start --json -o "$TMP/trace" --html "$TMP/page.html" \
		-- "$O/tests/ocaml/requests" 200 || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	holds python3 - "$TMP/db" "$TMP/said" "$TMP/totals" <<-'PY' || fail "$(<"$TMP/err")"
		import json, sqlite3, sys
		db = sqlite3.connect(sys.argv[1])
		books = dict(line.strip().split("=") for line in open(sys.argv[2], errors="replace") if line.count("=") == 1)
		(pairs, total), = db.execute("select count(*), sum(ns) from slices where name = 'request_start,request_stop'")
		(starts,), = db.execute("select count(*) from instants where name = 'request_start'")
		assert pairs == int(books["pairs"]) > 100 and starts == int(books["starts"]), (pairs, starts, books)
		pair, = [pair for pair in json.loads(open(sys.argv[3]).read())["pairs"] if pair["start"] == "request_start"]
		assert (pairs, total) == (pair["count"], pair["sum_ns"]), (pairs, total, pair)
		# The waits are those of this program, whose name is known.
		assert {name for name, in db.execute("select name from tracks where parent is null and pid is not null and tid is null")} == {"requests"}
		assert db.execute("select count(*) from slices where category = 'wait'").fetchone()[0]
	PY
	# The only call of this function begins when the program begins.
	record_command 'quit\n' --time fn:Unended.obeys --json -o "$TMP/trace" -- "$O/tests/ocaml/unended" 1 || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	eq "$(query "select count(*) from slices where name = 'Unended.obeys'")" 1 "calls of obeys"
	finds '^ocaml-probes: .*/trace: written: ' "$TMP/err" || fail "$(<"$TMP/err")"
}

# The exit status is that of the program. A program that cannot be started or recorded does not run.
test_status_of_program() {
	local status=0 pid
	need_counting
	# With a command beside it, the process is recorded while the command runs.
	start_reborn
	record_command '' -pid "$TARGET" --print work -o "$TMP/trace" -- bash -c "exec 7>/proc/$TARGET/fd/0; echo go 4 >&7
		until grep -qx 'passed 4' '$(output_of)'; do sleep 0.02; done; exit 3" || status=$?
	eq "$status" 3 "status of a command that fails: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	eq "$(count_of work)" 4 "hits while the command ran"
	# A program that fails, and one that a signal kills.
	status=0
	record_command '' --time fn:Unended.obeys -o "$TMP/trace" -- "$O/tests/ocaml/unended" || status=$?
	eq "$status" 2 "status of a program that fails: $(<"$TMP/err")"
	status=0
	record_command '' -o "$TMP/trace" -- "$TMP/no_program" || status=$?
	eq "$status $(head -1 "$TMP/err")" "2 ocaml-probes: $TMP/no_program: cannot be run: No such file or directory" "no program"
	status=0
	record_command '' -o "$TMP/trace" -- no-such-program-at-all || status=$?
	eq "$status $(head -1 "$TMP/err")" "127 ocaml-probes: no-such-program-at-all: No such file or directory" "no program in PATH"
	status=0
	record_command 'go 1\n' --print nothing -o "$TMP/trace" -- "$O/tests/ocaml/reborn" || status=$?
	eq "$status $(<"$TMP/said")" "2 " "the program did not run: $(<"$TMP/err")"
	# A program that runs longer than it is recorded goes on.
	mkfifo "$TMP/input"
	exec 8<>"$TMP/input"
	"$TOOL" record --budget none --print work --for 100ms -o "$TMP/trace" -- "$O/tests/ocaml/reborn" <&8 >"$TMP/said" 2>"$TMP/err" ||
		fail "status $?: $(<"$TMP/err")"
	pid=$(sed -n 's/^ocaml-probes: pid \([0-9]*\) continues to run$/\1/p' "$TMP/err")
	[[ $(readlink "/proc/$pid/exe") = */reborn ]] || fail "the program does not run: $(<"$TMP/err")"
	echo 'go 2' >&8
	wait_for 'has_line "$TMP/said" "passed 2"'
	echo quit >&8
	wait_for '[[ ! -e /proc/$pid/exe ]]'
	exec 8>&-
}

# ---- waits ------------------------------------------------------------------------------------

# What a thread does is on its track, within the times that the thread has read.
test_story() {
	start_target "$O/tests/ocaml/story" 20
	await_line ready
	record_work --time compute_start,compute_done --hz 999
	check_trace "$TARGET" <<-'PY'
		main = int(words[0])
		steps = [line.split() for line in books]
		steps = [(s[0], int(s[1]), int(s[2])) for s in steps if len(s) == 3]
		assert [step[0] for step in steps] == ["lock", "compute", "collect", "sleep", "write"] * 20
		names = {"lock": "waits: a mutex", "compute": "compute_start,compute_done", "collect": "gc:minor",
		         "sleep": "waits: a time or signal", "write": "waits: I/O and events"}
		rounds = 0
		for what, begin, end in steps:
		    rows = sql("select ns, args from slices where name = ? and begin_ns >= ? and begin_ns + ns <= ? and thread is ?",
		               names[what], begin, end, None if what == "compute" else main)
		    assert rows, (what, begin, end)
		    if what == "sleep":
		        assert max(ns for ns, _ in rows) > 1_500_000, rows
		    if what in ("lock", "sleep", "write"):
		        assert any("Story.within" in json.loads(args)["stack"] for _, args in rows), rows
		    if what == "compute":
		        rounds += 1
		        assert [json.loads(args)["round"] for _, args in rows] == [rounds], rows
		# A thread runs between its waits, and a sample is no part of a wait.
		waits = sql("select begin_ns, begin_ns + ns from slices where thread = ? and category in ('wait', 'ready') order by 1", main)
		assert all(before[1] <= after[0] for before, after in zip(waits, waits[1:]))
		samples = sql("select ns, args from instants where category = 'cpu' and track like ?", f"%({main})")
		assert samples and any("Story.compute" in json.loads(args)["stack"] for _, args in samples), samples
		assert not [ns for ns, _ in samples if any(begin < ns < end for begin, end in waits)]
	PY
}

# A thread that waits for the whole time has one wait, from the beginning to the end.
test_waits_without_an_end() {
	start_target "$O/tests/ocaml/reborn"
	await_line ready
	wait_for '[[ $(cut -d" " -f1 "/proc/$TARGET/syscall") = 0 ]]'
	start_recording -o "$TMP/trace" --print work --hz 0
	stop_recording
	read_trace "$TMP/trace"
	check_trace "$TARGET" <<-'PY'
		(name, begin, ns, args), = sql("select name, begin_ns, ns, args from slices where thread = ?", int(words[0]))
		counters = [ns for ns, in sql("select ns from counters")]
		assert name == "waits: I/O and events" and "Reborn.obey" in json.loads(args)["stack"], (name, args)
		assert begin <= min(counters) and max(counters) <= begin + ns, (begin, ns, counters)
	PY
}

# Waits that cost more than the limit are no longer recorded, and the files say so.
test_limit_of_waits() {
	start_target "$O/tests/ocaml/crew" wait -- sleeper 1000
	await_line ready
	need_counting
	need_command protoc python3
	background "$TOOL" record -pid "$TARGET" --print step --budget 0.0001% --hz 0 -o "$TMP/trace" --html "$TMP/page.html" \
		>"$TMP/totals" 2>"$TMP/err"
	RECORDING=$!
	wait_for 'has_text "$TMP/err" "ocaml-probes: measuring [0-9]+ " || has_ended "$RECORDING"'
	while ! has_text "$TMP/err" 'waits are missing after'; do
		! has_ended "$RECORDING" || fail "$(<"$TMP/err")"
		forget_output
		tell go
		await_line "done"
	done
	stop_recording
	read_trace "$TMP/trace"
	check_trace <<-'PY'
		(said,), = sql("select name from instants where track = 'ocaml-probes'")
		assert "; waits are missing after " in said and ", the limit is 0.0001%; lost: 0 " in said, said
	PY
	finds '"gaps":"waits are missing after ' "$TMP/page.html"
}

# ---- the flight recorder ----------------------------------------------------------------------

# A file for each time that the condition holds, with what happened before.
test_conditions() {
	start_reborn
	start_recording -o "$TMP/flight.pftrace" --print work --when 'hit worked' --last 1h --files 1 --no-waits --hz 0
	pass 3
	wait_for '[[ -e $TMP/flight-1.pftrace ]]'
	read_trace "$TMP/flight-1.pftrace"
	eq "$(count_of work) $(count_of worked)" "3 3" "hits of the first file"
	pass 2
	wait_for '[[ -e $TMP/flight-2.pftrace && ! -e $TMP/flight-1.pftrace ]]'
	read_trace "$TMP/flight-2.pftrace"
	eq "$(count_of work) $(count_of worked)" "5 5" "hits of the second file"
	stop_recording
	finds '^ocaml-probes: .*/flight-2.pftrace: written, since hit worked$' <"$TMP/err" || fail "$(<"$TMP/err")"
	finds '^ocaml-probes: 2 files written; a condition held 5 times$' <"$TMP/err" || fail "$(<"$TMP/err")"
	[[ ! -e $TMP/flight.pftrace ]] || fail "a flight recorder writes numbered files only"
}

# What ended before the time of --last is left out.
test_last() {
	start_reborn
	start_recording -o "$TMP/flight" --print work --when 'hit worked' --last 1ms --no-waits --hz 0
	pass 3
	wait_for '[[ -e $TMP/flight-1 ]]'
	pass 1
	wait_for '[[ -e $TMP/flight-2 ]]'
	stop_recording
	read_trace "$TMP/flight-2"
	eq "$(count_of work) $(count_of worked)" "1 1" "hits of the second file"
	# The files of an earlier recorder stay.
	start_recording -o "$TMP/flight" --when 'hit worked' --no-waits --hz 0 --files 1
	pass 4
	wait_for '[[ -e $TMP/flight-3 ]]'
	stop_recording
	read_trace "$TMP/flight-3"
	eq "$(count_of worked)" 4 "hits of the third file"
	[[ -e $TMP/flight-1 && -e $TMP/flight-2 ]] || fail "files of an earlier recorder were removed"
	# Also if the first ones are no longer there.
	rm "$TMP/flight-1" "$TMP/flight-2"
	start_recording -o "$TMP/flight" --when 'hit worked' --no-waits --hz 0
	pass 5
	wait_for '[[ -e $TMP/flight-4 ]]'
	stop_recording
	read_trace "$TMP/flight-3"
	eq "$(count_of worked)" 4 "hits of the third file"
}

# A pair that takes long, a pause of the collector, and a signal.
test_other_conditions() {
	start_target "$O/tests/ocaml/story" 3
	await_line ready
	start_recording -o "$TMP/slow" --when 'slower compute_start,compute_done 1us' --when 'slower compute_start,compute_done 100s'
	tell go
	await_line end
	wait_for '[[ -e $TMP/slow-1 ]]'
	stop_recording
	read_trace "$TMP/slow-1"
	check_trace <<<'assert sql("select count(*) from slices where category = ?", "pair") == [(3,)]'
	finds ': 1 file written; a condition held 3 times$' <"$TMP/err" || fail "$(<"$TMP/err")"
	start_recording -o "$TMP/pause" --when 'pause 100s' --last 1h --no-waits
	kill -USR1 "$RECORDING"
	wait_for '[[ -e $TMP/pause-1 ]]'
	stop_recording
	finds ': .*/pause-1: written, since SIGUSR1$' <"$TMP/err" || fail "$(<"$TMP/err")"
	read_trace "$TMP/pause-1"
	start_target "$O/tests/ocaml/story" 3
	await_line ready
	start_recording -o "$TMP/paused" --time gc:minor --when 'pause 1us' --when 'slower fn:Story.compute 1us'
	tell go
	wait_for '[[ -e $TMP/paused-1 ]]'
	stop_recording
	read_trace "$TMP/paused-1"
	check_trace <<<'assert sql("select count(*) from slices where name = ?", "Story.compute") == [(3,)]'
}

# Only hits that a filter accepts hold the condition: as many as those whose recorded arguments satisfy it.
test_condition_with_filter() {
	start_target "$O/tests/ocaml/requests" 60
	await_line ready
	start_recording -o "$TMP/flight" --print 'request_start' --when 'hit request_start if meth = "POST" && (id > 10 || name ^= "request 3")' \
		--when 'hit request_start if id < 0' --last 1h --no-waits --hz 0
	tell go
	await_line end
	wait_for '[[ -e $TMP/flight-1 ]]'
	stop_recording
	read_trace "$TMP/flight-1"
	check_trace "$(<"$TMP/err")" <<-'PY'
		import re
		hits = [json.loads(args) for args, in sql("select args from instants where name = 'request_start'")]
		wanted = [hit for hit in hits if hit["meth"] == "POST" and (hit["id"] > 10 or hit["name"].startswith("request 3"))]
		held = int(re.search(r"1 file written; a condition held (\d+) times", words[0])[1])
		assert held == len(wanted) > 10 and len(wanted) < len(hits) / 2, (held, len(wanted), len(hits))
		assert any(hit["id"] == 3 for hit in wanted) and "warning: --when" not in words[0], words[0]
		assert sql("select count(*) from instants where name like '%since%' or name like '%hit request_start if meth%'") == [(1,)]
	PY
	# A comparison with a literal of another type has no answer. This is said once.
	start_target "$O/tests/ocaml/requests" 20
	await_line ready
	start_recording -o "$TMP/other" --when 'hit request_start if meth > 5' --no-waits --hz 0
	tell go
	await_line end
	stop_recording
	eq "$(grep -c "^ocaml-probes: warning: --when 'hit request_start if meth > 5': an argument of a hit has another type" "$TMP/err")" 1 "warnings"
	finds '^ocaml-probes: 0 files written; a condition held 0 times$' <"$TMP/err" || fail "$(<"$TMP/err")"
}

# What was planned when the recorder ends is written.
test_end_of_the_process() {
	start_reborn
	start_recording -o "$TMP/flight" --print work --when 'hit worked' --last 1h
	pass 7
	tell quit
	wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/flight-1"
	eq "$(count_of work) $(count_of worked)" "7 7" "hits"
}

# Two processes of a program, which is named by its file.
test_all_processes() {
	local first program
	need_counting
	program=$(own_copy "$O/tests/ocaml/reborn")
	start_target "$program"
	await_line ready
	first=$TARGET
	start_target "$program"
	await_line ready
	background "$TOOL" record --exe "$program" --budget none --print work -o "$TMP/trace" --hz 0 >"$TMP/totals" 2>"$TMP/err"
	RECORDING=$!
	wait_for 'has_text "$TMP/err" "of every process that runs it" || has_ended "$RECORDING"'
	pass 3
	tell "go 5" "$first"
	await_line "passed 5" 60 "$first"
	stop_recording
	read_trace "$TMP/trace"
	check_trace "$first" "$TARGET" <<-'PY'
		hits = dict(sql("select pid, count(*) from instants where name = 'work' group by 1"))
		assert hits == {int(words[0]): 5, int(words[1]): 3}, hits
		assert {name for name, in sql("select name from tracks where parent is null and pid is not null and tid is null")} == {"reborn"}
		(waits,), = sql("select count(distinct pid) from slices where category = 'wait'")
		assert waits == 2, waits
	PY
}

# A killed recorder leaves whole files, and a program that works.
test_kill() {
	start_reborn
	keep_memory
	start_recording -o "$TMP/flight" --print work --when 'hit worked' --last 1h
	pass 5
	wait_for '[[ -e $TMP/flight-1 ]]'
	kill -KILL "$RECORDING"
	wait "$RECORDING" || :
	read_trace "$TMP/flight-1"
	eq "$(count_of work)" 5 "hits"
	# The kernel takes the uprobes away when the tool has ended.
	wait_for '[[ $(memory_of "$TARGET") = "${MEMORY_BEFORE[$TARGET]}" ]]'
	check_clean
	pass 4
}

# ---- limits and errors ------------------------------------------------------------------------

# The oldest events are dropped and counted when the memory is full.
test_memory() {
	start_target "$O/tests/ocaml/requests" 20000
	await_line ready
	start_recording -o "$TMP/trace" --time request_start,request_stop --key id --print 'request_start' --memory 1MB --no-waits --hz 0
	tell go
	await_line end 120
	stop_recording
	read_trace "$TMP/trace"
	holds python3 - "$TMP/db" "$TMP/err" <<-'PY' || fail "$(<"$TMP/err")"
		import re, sqlite3, sys
		db = sqlite3.connect(sys.argv[1])
		written, dropped, lost = map(int, re.search(r"written: (\d+) events \(1000 without an end\) of [0-9.]+ s, (\d+) dropped, (\d+) lost", open(sys.argv[2]).read()).groups())
		there = sum(db.execute(f"select count(*) from {table}").fetchone()[0] for table in ("slices", "instants", "counters", "unended"))
		# Two instants tell of the recording itself and of its end.
		assert there == written + 2 > 1000 and dropped > 0, (there, written, dropped, lost)
		(said,), = db.execute("select name from instants where track = 'ocaml-probes' and name like 'recorded by %'")
		assert f"lost: {lost} " in said and f"dropped: {dropped} " in said, said
		# The newest events are the ones that are there.
		(first, last), = db.execute("select min(json_extract(args, '$.id')), max(json_extract(args, '$.id')) from slices where category = 'pair'")
		assert first > 0 and (lost or last > 19900), (first, last)
	PY
}

# Names of threads that are no UTF-8, and such that end a string.
test_hostile_names() {
	start_target "$O/tests/ocaml/crew" step -- $'quote"\\\xff' 5 -- $'\xe2\x82' 3
	await_line ready
	start_recording -o "$TMP/trace" --print step
	tell go
	await_line "done"
	stop_recording
	read_trace "$TMP/trace"
	check_trace <<-'PY'
		assert dict(sql("select track, count(*) from instants where name = 'step' group by 1")) == {'quote"\\?': 5, "??": 3}, \
		    sql("select track, count(*) from instants where name = 'step' group by 1")
	PY
}

check_error() { # STATUS TEXT FLAG...
	local status=0 want=$1 text=$2
	shift 2
	"$TOOL" record "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" "$want" "status of record $*: $(<"$TMP/err")"
	finds "$text" <"$TMP/err" || fail "record $*: $(<"$TMP/err")"
}

test_mistakes() {
	local pid
	start_reborn
	pid=$TARGET
	check_error 2 '^ocaml-probes: record: -pid, --exe or -- COMMAND is required$' -o "$TMP/trace"
	check_error 2 '^ocaml-probes: record: --exe and a command are mutually exclusive$' --exe /bin/true -o "$TMP/trace" -- true
	check_error 2 "record: --for and a command are mutually exclusive: recording the processes ends when 'true' has ended" "$pid" --for 1s -o "$TMP/trace" -- true
	check_error 2 '^ocaml-probes: record: -o FILE or --html FILE is required$' "$pid"
	check_error 2 "^ocaml-probes: record: --when 'slow 3ms': not 'slower START,STOP TIME'" "$pid" -o "$TMP/trace" --when 'slow 3ms'
	check_error 2 "record: --when 'slower work,worked 3': not" "$pid" -o "$TMP/trace" --when 'slower work,worked 3'
	check_error 2 "record: --when 'pause': not" "$pid" -o "$TMP/trace" --when 'pause'
	check_error 2 "record: --when 'hit wor.*': not" "$pid" -o "$TMP/trace" --when 'hit wor.*'
	check_error 2 "record: --when 'hit work,worked': not" "$pid" -o "$TMP/trace" --when 'hit work,worked'
	check_error 2 "record: --when 'hit work unless x': not" "$pid" -o "$TMP/trace" --when 'hit work unless x'
	check_error 2 "record: --when 'hit work if': not" "$pid" -o "$TMP/trace" --when 'hit work if'
	check_error 2 "record: --when 'hit work if arg0 >': filter arg0 >: column 7: a number or a string" "$pid" -o "$TMP/trace" --when 'hit work if arg0 >'
	check_error 2 "record: --when 'slower fn:Reborn.* 1s': not" "$pid" -o "$TMP/trace" --when 'slower fn:Reborn.* 1s'
	check_error 2 "record: --when 'slower work 1s': not" "$pid" -o "$TMP/trace" --when 'slower work 1s'
	check_error 2 "record: --last '2h': not a time such as 500ms or 10s" "$pid" -o "$TMP/trace" --last 2h
	check_error 2 "record: --memory '10': not a size from 1MB to 64GB" "$pid" -o "$TMP/trace" --memory 10
	check_error 2 "record: --files '0': not a number from 1 to 10000" "$pid" -o "$TMP/trace" --last 1s --files 0
	check_error 2 'record: --files needs --when or --last' "$pid" -o "$TMP/trace" --files 3
	check_error 2 "record: --hz '-1': not a number" "$pid" -o "$TMP/trace" --hz=-1
	need_counting
	check_error 2 "probe 'work': it has 0 arguments, and no arg3$" "$pid" -o "$TMP/trace" --when 'hit work if arg3 = 1'
	check_error 2 "probe 'work': it has no argument 'rid'" "$pid" -o "$TMP/trace" --when 'hit work if rid = 1'
	check_error 2 "probe 'nothing': no such probe" "$pid" -o "$TMP/trace" --print nothing
	check_error 2 "$TMP/no/trace: No such file or directory" "$pid" -o "$TMP/no/trace" --for 10ms
	[[ ! -e $TMP/trace ]] || fail "a file was written"
}

run_tests "$@"
