#!/usr/bin/env bash
# `record`: traces in the format of Perfetto, read by tests/record/read_perfetto, which shares no code with their writer, against
# the books of the programs.
#
# needs: fixtures link ocaml
# ocaml5: test_fibres_that_move test_fibres_in_domains test_children test_pairs_by_thread test_pairs_by_key test_calls test_deep_recursion test_collector test_story test_what_has_not_ended test_what_has_not_ended_yet
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"
. "$(dirname "$0")/record_lib.sh"
. "$(dirname "$0")/record_cases_lib.sh"
. "$(dirname "$0")/link_lib.sh"
. "$(dirname "$0")/lwt_lib.sh"

# ---- pairs, calls, the collector --------------------------------------------------------------

test_pairs_by_thread() { check_pairs_by_thread; }
test_pairs_by_key() { check_pairs_by_key; }
test_flows_of_concurrent_requests() { check_flows_of_concurrent_requests; }
test_flows_of_keys_that_are_used_again() { check_flows_of_keys_that_are_used_again; }
test_calls() { check_calls; }
test_deep_recursion() { check_deep_recursion; }
test_fibres_that_move() { check_fibres_that_move; }
test_fibres_in_domains() { check_fibres_in_domains; }

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

test_collector() { check_collector; }
test_counters() { check_counters; }

# ---- what has not ended -----------------------------------------------------------------------

test_what_has_not_ended() { check_what_has_not_ended; }
test_what_has_not_ended_yet() { check_what_has_not_ended_yet; }

# ---- commands ---------------------------------------------------------------------------------

test_program() {
	check_program
	# The waits are those of the program.
	record_command 'go\n\n' -o "$TMP/trace" -- "$O/tests/ocaml/requests" 200 || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	(($(query "select count(*) from slices where category = 'wait'"))) || fail "no waits"
}

test_status_of_program() { check_status_of_program; }

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
		assert {value for value, in sql("select value from counters where track = 'runnable threads'")} == {0}
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

test_conditions() { check_conditions; }
test_last() { check_last; }
test_other_conditions() { check_other_conditions; }

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

test_end_of_the_process() { check_end_of_the_process; }

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
	check_error 2 "record: --when 'slower work,worked 3': '3' is not a time above 0, such as" "$pid" -o "$TMP/trace" --when 'slower work,worked 3'
	check_error 2 "record: --when 'slower work,worked 0ms': '0ms' is not a time above 0, such as" "$pid" -o "$TMP/trace" --when 'slower work,worked 0ms'
	check_error 2 "record: --when 'pause 0s': '0s' is not a time above 0, such as" "$pid" -o "$TMP/trace" --when 'pause 0s'
	check_error 2 '^ocaml-probes: -: a file is needed, not standard output' "$pid" -o - --print work
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
	start_target "$O/tests/ocaml/unprobed"
	await_exe "$O/tests/ocaml/unprobed"
	check_error 2 "record: --key requires --time: no names of probes suggest a pair" "$TARGET" --for 10ms --key rid -o "$TMP/trace"
	check_error 2 "record: --filter: the program has no probes; --time and --print can name functions" "$TARGET" --for 10ms --filter "rid > 3" -o "$TMP/trace"
	check_error 2 "probe 'work': it has 0 arguments, and no arg3$" "$pid" -o "$TMP/trace" --when 'hit work if arg3 = 1'
	check_error 2 "probe 'work': it has no argument 'rid'" "$pid" -o "$TMP/trace" --when 'hit work if rid = 1'
	check_error 2 "probe 'nothing': no such probe" "$pid" -o "$TMP/trace" --print nothing
	check_error 2 "$TMP/no/trace: No such file or directory" "$pid" -o "$TMP/no/trace" --for 10ms
	[[ ! -e $TMP/trace ]] || fail "a file was written"
}

run_tests "$@"
