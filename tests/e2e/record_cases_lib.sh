# shellcheck shell=bash
# Cases of record.sh and record_inside.sh: what is recorded in the same way by the ENGINE of the script.

# Nested pairs of three threads, with exceptions that skip stops.
check_pairs_by_thread() {
	start_target "$O/tests/ocaml/slow" 60 3
	await_line ready
	record_work --time enter,leave --print enter --key none --json --html "$TMP/page.html"
	check_totals
	check_trace <<-'PY'
		import re
		seen = 0
		slices = {}
		for thread, ns, args, depth in sql("select thread, ns, args, depth from slices where name = 'enter,leave'"):
		    args = json.loads(args)
		    assert args["id"] == args["id at leave"] and args["name"] == args["name at leave"] == text(f'call "{args["id"]}"'), args
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
	holds "$ROOT/tests/record/read_page" "$TMP/page.html" "$TMP/page"
	holds "$ROOT/tests/record/same_traces" "$TMP/db" "$TMP/page"
}

# Requests of one thread that another one ends: they overlap, and have lanes of their own.
check_pairs_by_key() {
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
		    assert args == {"id": number, "meth": text("POST" if number % 3 == 0 else "GET"), "name": text(f"request {number}"),
		                    "id at request_stop": number, "status at request_stop": 200, "name at request_stop": text(f"request {number}")}, args
		(lanes,), = sql("select count(*) from tracks where name = 'request_start,request_stop'")
		assert lanes > 1, lanes
		# A flow leads from the request to its start, in the main thread, and from there to the stop, in another thread.
		main, request = int(words[0]), "request_start,request_stop"
		flows = sql("select from_thread, from_name, to_thread, to_name, from_args, to_args from flows")
		assert all(json.loads(flow[-2])["id"] == json.loads(flow[-1])["id"] for flow in flows)
		(unended,), = sql("select count(*) from unended where name = ?", request)
		# Requests that are begun twice can have both starts at one time: the clock has steps of some nanoseconds.
		twice = set(sql("select from_thread, from_name, to_thread, to_name, from_args, to_args from flows where from_name = to_name and from_ns = to_ns"))
		assert all(json.loads(flow[-1])["id"] % 10 == 0 for flow in twice), twice
		kinds = collections.Counter((a, b, c == main, d) for a, b, c, d, *_ in set(flows) - twice)
		assert kinds == {(None, request, True, "request_start"): pairs + unended, (main, "request_start", False, "request_stop"): pairs}, kinds
	PY
}

# Calls of a function by itself, 10 000 deep, are as many slices, each within the one of its caller.
check_deep_recursion() {
	cat >"$TMP/descent.ml" <<-'ML'
	let[@inline never] rec down n = if n = 0 then 0 else 1 + down (n - 1)
	let () =
	  print_endline "ready";
	  ignore (read_line ());
	  for _ = 1 to 3 do
	    print_endline (string_of_int (down 9_999))
	  done
	ML
	(cd "$TMP" && ocamlopt -g descent.ml -o descent) 2>"$TMP/ocamlopt.err" || fail "$(<"$TMP/ocamlopt.err")"
	start_target "$TMP/descent"
	await_line ready
	start_recording -o "$TMP/trace" --time fn:Descent.down --no-waits --hz 0 --json
	# All calls fit in the buffer: nothing is lost although the recorder gets no processor.
	kill -STOP "$RECORDING"
	tell go
	wait_for '(($(wc -l <"$(output_of)") == 4))'
	kill -CONT "$RECORDING"
	wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	check_trace <<-'PY'
		rows = sql("select depth, count(*) from slices where name = 'Descent.down' group by depth order by depth")
		assert rows == [(depth, 3) for depth in range(10_000)], (len(rows), rows[:3], rows[-3:])
		pair, = [pair for pair in totals["pairs"] if pair["start"] == "fn:Descent.down"]
		assert pair["count"] == pair["starts"] == 30_000 and pair["orphan_starts"] == 0, pair
	PY
}

# Calls of functions, with recursion, exceptions and tail calls.
check_calls() {
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
		assert totals["losses"]["prints_dropped"] == totals["losses"]["slow_dropped"] == 0, totals["losses"]
	PY
}

# Fibres that take turns within a pair go on in any of four domains (on OCaml 4: of four threads), and some skip their stops.
check_fibres_that_move() {
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
check_fibres_in_domains() {
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

# Phases of the collector are recorded without a request.
check_collector() {
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
		    assert any(begin - slack <= b and e <= end + slack for b, e in pauses), (begin, end, pauses)
		assert sql("select count(*) from slices where category in ('wait', 'ready')") == [(0,)]
		assert {track for track, in sql("select distinct track from counters")} >= {"major heap (bytes)", "minor collections"}
		((smallest, largest),) = sql("select min(value), max(value) from counters where track = 'minor collections'")
		assert largest - smallest <= len(pauses), (smallest, largest, len(pauses))
	PY
}

# A reading counts the hits until a moment that lies between its own time and that of the next reading.
check_counters() {
	start_target "$O/tests/ocaml/steady"
	await_line ready
	start_recording -o "$TMP/trace" --print flood --json --no-waits --hz 0 --for 2s
	wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	check_trace "$TARGET" <<-'PY'
		(first,), = sql("select min(ns) from counters")
		rates = sql("select ns, value from counters where track = 'hits per second' order by ns")
		times = [first] + [ns for ns, _ in rates]
		counted = sum(rate * (ns - before) / 1e9 for before, (ns, rate) in zip(times, rates))
		def hits(since, until):
		    return sql("select count(*) from instants where name = 'flood' and ns > ? and ns <= ?", since, until)[0][0]
		least, most = hits(times[1], times[-1]), hits(first, 1 << 62)
		assert len(rates) > 2 and totals["losses"]["prints_dropped"] == 0, (rates, totals["losses"])
		assert 0 < least - 1 <= counted <= most + 1, (least, counted, most)
		runnable = [value for value, in sql("select value from counters where track = 'runnable threads'")]
		assert runnable and all(0 <= n <= 1 for n in runnable), runnable
	PY
}

check_what_has_not_ended() {
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

# Run `record WORD...` and return its status. What a command prints is in $TMP/said, the JSON of the tool in $TMP/totals.
record_command() { # INPUT WORD...
	local status=0
	printf "$1" | "$TOOL" record --budget none "${RECORD_FLAGS[@]}" "${@:2}" >"$TMP/all" 2>"$TMP/err" || status=$?
	grep -v '^{"version":' "$TMP/all" >"$TMP/said" || :
	grep '^{"version":' "$TMP/all" >"$TMP/totals" || :
	return "$status"
}

# A program is recorded from the first instruction of its code to its end.
check_program() {
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
		# The name of the program is known.
		assert {name for name, in db.execute("select name from tracks where parent is null and pid is not null and tid is null")} == {"requests"}
	PY
	# The only call of this function begins when the program begins.
	record_command 'quit\n' --time fn:Unended.obeys --json -o "$TMP/trace" -- "$O/tests/ocaml/unended" 1 || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	eq "$(query "select count(*) from slices where name = 'Unended.obeys'")" 1 "calls of obeys"
	finds '^ocaml-probes: .*/trace: written: ' "$TMP/err" || fail "$(<"$TMP/err")"
}

# The exit status is that of the program. A program that cannot be started or recorded does not run.
check_status_of_program() {
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
	# A program that runs longer than its recording continues.
	mkfifo "$TMP/input"
	exec 8<>"$TMP/input"
	"$TOOL" record --budget none "${RECORD_FLAGS[@]}" --print work --for 100ms -o "$TMP/trace" -- "$O/tests/ocaml/reborn" <&8 >"$TMP/said" 2>"$TMP/err" ||
		fail "status $?: $(<"$TMP/err")"
	pid=$(sed -n 's/^ocaml-probes: pid \([0-9]*\) continues to run$/\1/p' "$TMP/err")
	[[ $(readlink "/proc/$pid/exe") = */reborn ]] || fail "the program does not run: $(<"$TMP/err")"
	echo 'go 2' >&8
	wait_for 'has_line "$TMP/said" "passed 2"'
	echo quit >&8
	wait_for '[[ ! -e /proc/$pid/exe ]]'
	exec 8>&-
}

# A file for each time that the condition holds, with what happened before.
check_conditions() {
	start_reborn
	keep_memory
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
	wait_for '[[ $(memory_of "$TARGET") = "${MEMORY_BEFORE[$TARGET]}" ]]'
	check_clean
}

# What was planned when the recorder ends is written.
check_end_of_the_process() {
	start_reborn
	start_recording -o "$TMP/flight" --print work --when 'hit worked' --last 1h
	pass 7
	tell quit
	wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/flight-1"
	eq "$(count_of work) $(count_of worked)" "7 7" "hits"
}

# 200 requests at a time in one thread: each has one slice, and flows from it to its own start and from there to its own stop.
check_flows_of_concurrent_requests() {
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
check_flows_of_keys_that_are_used_again() {
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

# A flight recorder writes what is open when it writes the file. When it has ended, it stands in later files as what it was.
check_what_has_not_ended_yet() {
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

# What ended before the time of --last is left out.
check_last() {
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
check_other_conditions() {
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
	start_recording -o "$TMP/paused" --time gc:minor --when 'pause 1us' --when 'slower fn:Story.story 1us'
	tell go
	wait_for '[[ -e $TMP/paused-1 ]]'
	stop_recording
	read_trace "$TMP/paused-1"
	check_trace <<<'assert sql("select count(*) from slices where name = ?", "Story.story") == [(3,)]'
}
