#!/usr/bin/env bash
# `record --engine inside`: events that the process writes itself, against the books of the programs.
#
# needs: fixtures ocaml
# ocaml5: test_pairs_by_thread test_pairs_by_key test_pairs_of_functions test_calls test_fibres_that_move test_fibres_in_domains test_collector test_what_has_not_ended test_nobody test_threads_that_end
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"
. "$(dirname "$0")/record_lib.sh"

NOBODY=65534
RECORD_FLAGS=(--engine inside --no-waits --hz 0)

# Each event is there or counted: of N hits of PROBE, with the arguments i, 1 to N.
check_all_counted() { # PROBE N
	check_trace "$@" <<-'PY'
		import re
		(lost, dropped), = [map(int, re.findall(r"(?:lost|dropped): (\d+)", name)) for name, in
		                    sql("select name from instants where track = 'ocaml-probes' and name like 'recorded by %'")]
		rows = [(ns, json.loads(args)["i"]) for ns, args in sql("select ns, args from instants where name = ? order by ns", words[0])]
		numbers = [number for _, number in rows]
		assert dropped == 0 and len(numbers) + lost == int(words[1]), (len(numbers), lost, dropped, words)
		wrong = [(a, b) for a, b in zip(rows, rows[1:]) if a[1] >= b[1] and a[0] != b[0]]
		assert len(set(numbers)) == len(numbers) and not wrong, (len(wrong), wrong[:5])
		hits, = [probe["hits"] for probe in totals["probes"] if probe["name"] == words[0]] or [int(words[1])]
		assert hits == int(words[1]) and totals["losses"]["prints_dropped"] == lost and totals["engine"] == "inside", totals
	PY
}

# ---- pairs, calls, the collector --------------------------------------------------------------

# Nested pairs of three threads, with exceptions that skip stops. Of the arguments, the ints are there.
test_pairs_by_thread() {
	start_target "$O/tests/ocaml/slow" 60 3
	await_line ready
	record_work --time enter,leave --print enter --key none --json --html "$TMP/page.html"
	check_totals
	check_trace <<-'PY'
		import re
		slices = {}
		for thread, begin, ns, args, depth in sql("select thread, begin_ns, ns, args, depth from slices where name = 'enter,leave'"):
		    args = json.loads(args)
		    assert args == {"id": args["id"], "name": "?", "id at leave": args["id"], "name at leave": "?"}, args
		    slices[args["id"]] = thread, ns, depth
		seen = 0
		for line in books:
		    pair = re.match(r'pair (\d+) "(.*)" (\d+) within_ns=(\d+) around_ns=(\d+)', line)
		    if pair:
		        thread, ns, depth = slices.pop(int(pair[1]))
		        assert thread == int(pair[3]) and int(pair[4]) <= ns <= int(pair[5]), (line, thread, ns)
		        seen += 1
		assert seen > 100 and not slices, (seen, slices)
		(instants,), = sql("select count(*) from instants where name = 'enter'")
		assert instants == totals["pairs"][0]["starts"] == 3 * 60 * 4, instants
	PY
	finds -x 'ocaml-probes: warning: arguments that are not ints are not recorded: the engine `inside` does not read the memory that they refer to' \
		"$TMP/err" || fail "$(<"$TMP/err")"
	holds "$ROOT/tests/record/read_page" "$TMP/page.html" "$TMP/page"
	holds "$ROOT/tests/record/same_traces" "$TMP/db" "$TMP/page"
}

# Requests of one thread that another one ends.
test_pairs_by_key() {
	start_target "$O/tests/ocaml/requests" 200
	await_line ready
	record_work --time request_start,request_stop --key id --print request_stop --json
	check_totals
	check_trace "$TARGET" <<-'PY'
		pairs, = [int(line.split("=")[1]) for line in books if line.startswith("pairs=")]
		rows = sql("select track, thread, depth, args from slices where category = 'pair'")
		assert len(rows) == pairs > 100, (len(rows), pairs)
		for track, thread, depth, args in rows:
		    args = json.loads(args)
		    number = args["id"]
		    assert track == "request_start,request_stop" and thread is None and depth == 0, (track, thread, depth)
		    assert args.pop("on thread") == int(words[0]) != args.pop("on thread at request_stop"), args
		    assert args == {"id": number, "meth": "?", "name": "?", "id at request_stop": number, "status at request_stop": 200,
		                    "name at request_stop": "?"}, args
		(instants,), = sql("select count(*) from instants where name = 'request_stop'")
		assert instants >= pairs, (instants, pairs)
	PY
}

# Pairs of functions: by thread, where exceptions skip stops, and by an argument.
test_pairs_of_functions() {
	local how flags
	PROGRAMS=paired "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	for how in by_thread by_key; do
		flags=(--key none --time fn:Paired.enters,fn:Paired.leaves --time fn:Paired.opens,fn:Paired.closes)
		[[ $how = by_thread ]] || flags=(--key arg0 --time fn:Paired.takes,fn:Paired.gives)
		start_target "$TMP/built/paired" 20 2 50
		await_line ready
		start_recording -o "$TMP/trace" "${flags[@]}" --json
		tell go
		wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
		read_trace "$TMP/trace"
		compare_with_books function_pairs "$how" "$TMP/totals" "$(output_of)"
		check_trace <<-'PY'
			for pair in (pair for pair in totals["pairs"] if pair["stop"]):
			    name = pair["start"].removeprefix("fn:") + "," + pair["stop"]
			    (count, ns), = sql("select count(*), sum(ns) from slices where name = ?", name)
			    assert (count, ns) == (pair["count"], pair["sum_ns"]) and count >= 40, (pair, count, ns)
			assert totals["engine"] == "inside" and totals["losses"]["prints_dropped"] == 0, totals
		PY
	done
}

# Calls of functions, with recursion, exceptions and tail calls: as the engine bpf counts them.
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
		(depth,), = sql("select max(depth) from slices where name = 'Timed.nests'")
		assert depth >= 2, depth
		assert totals["losses"]["prints_dropped"] == 0, totals["losses"]
	PY
}

test_fibres_that_move() {
	start_target "$O/tests/ocaml/skipping" 40 4 turns
	await_line ready
	record_work --time turn_start,turn_stop --key arg0 --print turn_start --json
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
	PY
}

test_fibres_in_domains() {
	start_target "$O/tests/ocaml/skipping" 10 4
	await_line ready
	record_work --time nest_start,nest_stop --time visit_start,visit_stop --key none --json
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
		    hits, = [line for line in books if line.startswith(f"probe {pair['start']} ")]
		    assert pair["starts"] == int(hits.split("=")[1]), (pair, hits)
	PY
}

# Each collection that the program makes is in a phase of the trace.
test_collector() {
	start_target "$O/tests/ocaml/story" 20
	await_line ready
	record_work --json
	check_totals
	check_trace <<-'PY'
		steps = [line.split() for line in books]
		collected = [(int(begin), int(end)) for what, begin, end in (s for s in steps if len(s) == 3) if what == "collect"]
		pauses = sql("select begin_ns, begin_ns + ns from slices where name = 'gc:minor'")
		assert len(collected) == 20
		for begin, end in collected:
		    assert any(begin <= b and e <= end for b, e in pauses), (begin, end, pauses)
	PY
}

test_what_has_not_ended() {
	start_target "$O/tests/ocaml/unended" 4
	await_line ready
	start_recording -o "$TMP/trace" "${UNENDED[@]}" --json
	tell begin
	await_line end
	stop_recording
	read_trace "$TMP/trace"
	check_unended
}

# ---- threads and processes --------------------------------------------------------------------

# Threads that end one after the other, most of them long before their events are read.
test_threads_that_end() {
	local crew=() i
	for ((i = 1; i <= 200; i++)); do
		crew+=(-- "thread $i" "$i")
	done
	start_target "$O/tests/ocaml/crew" step "${crew[@]}"
	await_line ready
	start_recording -o "$TMP/trace" --print step --json
	tell go
	await_line "done"
	stop_recording
	read_trace "$TMP/trace"
	check_trace "$TARGET" <<-'PY'
		seen = dict(sql("select thread, count(*) from instants where name = 'step' group by 1"))
		wanted = {}
		for tid, name, count in (line.split() for line in books if len(line.split()) == 3):
		    wanted[int(tid)] = wanted.get(int(tid), 0) + int(count)
		assert seen == wanted and len(seen) == 200, (seen, wanted)
		# A thread has its name, or is said not to be known.
		names = {bytes.fromhex(name).decode() for _, name, _ in (line.split() for line in books if len(line.split()) == 3)}
		tracks = {track for track, in sql("select distinct track from instants where name = 'step'")}
		assert tracks <= names | {"(has ended)", "crew"}, tracks - names
		assert {pid for pid, in sql("select distinct pid from instants where name = 'step'")} == {int(words[0])}
	PY
}

# Forked children write to the same rings.
test_children() {
	start_target "$O/tests/ocaml/forking" 5 200
	await_line ready
	start_recording -o "$TMP/trace" --print work --json
	tell go
	await_line "done"
	tell again
	await_line "done again"
	stop_recording
	read_trace "$TMP/trace"
	check_trace "$TARGET" <<-'PY'
		hits = dict(sql("select thread, count(*) from instants where name = 'work' group by 1"))
		assert hits.pop(int(words[0])) == 400 and sorted(hits.values()) == 10 * [200], hits
	PY
}

# An ordinary user, with a program of his: without a choice of the engine, and with auto.
test_nobody() {
	local flags
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	mkdir -m 777 "$TMP/nobody"
	cp "$TOOL" "$O/tests/ocaml/reborn" "$TMP"
	as_nobody=(setpriv "--reuid=$NOBODY" "--regid=$NOBODY" --clear-groups --bounding-set=-all --inh-caps=-all)
	start_target "${as_nobody[@]}" "$TMP/reborn"
	await_line ready
	for flags in "" "--engine auto"; do
		# shellcheck disable=SC2086 # words
		background "${as_nobody[@]}" "$TMP/ocaml-probes" record -pid "$TARGET" --budget none $flags --print work --time work,worked --json \
			-o "$TMP/nobody/trace" >"$TMP/totals" 2>"$TMP/err"
		RECORDING=$!
		wait_for 'has_text "$TMP/err" "ocaml-probes: measuring [0-9]+ " || has_ended "$RECORDING"'
		! has_ended "$RECORDING" || fail "$(<"$TMP/err")"
		pass 7
		stop_recording
		read_trace "$TMP/nobody/trace"
		eq "$(count_of work) $(query 'select count(*) from slices where name = "work,worked"')" "7 7" "hits and pairs"
		check_totals
		finds '^ocaml-probes: engine: inside, since BPF is not available: ' "$TMP/err" || fail "$(<"$TMP/err")"
		finds '^ocaml-probes: waits and CPU samples are not recorded: ' "$TMP/err" || fail "$(<"$TMP/err")"
	done
}

# ---- losses -----------------------------------------------------------------------------------

# A tool that gets no time: the program goes on, and each event that has no room is counted.
test_losses() {
	start_target "$O/tests/ocaml/crew" step -- a 400000
	await_line ready
	start_recording -o "$TMP/trace" --print step --json
	kill -STOP "$RECORDING"
	tell go
	await_line "done" 60
	kill -CONT "$RECORDING"
	stop_recording
	read_trace "$TMP/trace"
	check_all_counted step 400000
	check_trace <<-'PY'
		assert totals["losses"]["prints_dropped"] > 10000, totals["losses"]
	PY
}

# A million events, while the tool reads them: none is lost, or each is counted.
test_many_events() {
	start_target "$O/tests/ocaml/crew" step -- a 1000000
	await_line ready
	start_recording -o "$TMP/trace" --print step --json --memory 512MB
	tell go
	await_line "done" 60
	stop_recording
	read_trace "$TMP/trace"
	check_all_counted step 1000000
}

# Overwrite the rings of TARGET, as it could do itself: HOW is a line of Python in which `put(OFFSET, BYTES)` writes to the first
# ring; the slots begin at SLOTS.
overwrite_rings() { # HOW
	python3 - "$TARGET" "$1" <<-'PY' || fail "cannot overwrite"
		import os, re, struct, sys
		pid, how = sys.argv[1:]
		start, = [int(line.split("-")[0], 16) for line in open(f"/proc/{pid}/maps") if "memfd:ocaml-probes-inside" in line and " rw-s 00000000 " in line]
		memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
		header = os.pread(memory, 256, start)
		rings, = struct.unpack_from("=Q", header, 88)
		n_rings, n_slots, slot_bytes = struct.unpack_from("=III", header, 136)
		assert n_rings and n_slots >= 4096 and slot_bytes in (32, 48, 64), (n_rings, n_slots, slot_bytes)
		stride = 128 + ((n_slots + 1) * slot_bytes + 63) // 64 * 64
		SLOTS = 128
		for i in range(n_rings):
		    def put(offset, data):
		        os.pwrite(memory, data, start + rings + 64 + i * stride + offset)
		    def get(offset):
		        return struct.unpack("=Q", os.pread(memory, 8, start + rings + 64 + i * stride + offset))[0]
		    exec(how)
	PY
}

# A program that overwrites its rings: records that cannot be are counted, and numbers that cannot be end the recording.
test_hostile_rings() {
	local status=0 how
	start_reborn
	keep_memory
	start_recording -o "$TMP/trace" --print work --json
	kill -STOP "$RECORDING"
	pass 100
	# All points, or threads, are wrong; of the sequences that nobody has written, all records are missing.
	overwrite_rings 'for slot in range(100): put(SLOTS + slot * slot_bytes + (20 if slot % 2 else 16), struct.pack("=I", 0xffffffff))'
	kill -CONT "$RECORDING"
	stop_recording
	read_trace "$TMP/trace"
	finds -x 'ocaml-probes: warning: events are lost: the process has overwritten their memory' "$TMP/err" || fail "$(<"$TMP/err")"
	check_trace <<-'PY'
		(seen,), = sql("select count(*) from instants where name = 'work'")
		assert seen == 0 and totals["losses"]["prints_dropped"] == 100, (seen, totals["losses"])
	PY
	for how in 'put(0, struct.pack("=Q", 1 << 60))' 'put(0, struct.pack("=Q", get(0) + n_slots + 1))'; do
		start_recording -o "$TMP/none" --print work --json
		pass 3
		overwrite_rings "$how"
		status=0
		wait "$RECORDING" || status=$?
		eq "$status" 1 "status: $(<"$TMP/err")"
		finds -x "ocaml-probes: pid $TARGET: the memory of its events is damaged: it cannot be read" "$TMP/err" || fail "$(<"$TMP/err")"
		[[ ! -e $TMP/none ]] || fail "a trace"
		check_clean
		pass 3
	done
	# Noise, at any time: the tool ends as usual, or with the error. Then the rings are unmapped, perhaps in the middle of this.
	for how in 1 2 3 4 5 6; do
		start_recording -o "$TMP/noise" --print work --time work,worked --key none --json
		pass 50
		overwrite_rings 'import contextlib, random
with contextlib.suppress(OSError): [put(random.randrange(2 * stride if n_rings > 1 and not i else stride), os.urandom(8)) for _ in range(2000)]'
		pass 50
		kill -INT "$RECORDING" || :
		status=0
		wait "$RECORDING" || status=$?
		# It can have ended by the error when the signal comes.
		((status <= 1 || status == 130)) || fail "status $status: $(<"$TMP/err")"
		! finds -v '^\(ocaml-probes\|hint\): ' "$TMP/err" || fail "$(<"$TMP/err")"
		check_clean
	done
}

# ---- the tool is killed -----------------------------------------------------------------------

# A killed recorder leaves a program that works, and that doctor repairs.
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
	# More than the rings have room for.
	pass 300000
	"$TOOL" doctor -pid "$TARGET" | finds -E '^note: 2 sites and [0-9]+ functions or lines counted inside the process' || fail "doctor"
	"$TOOL" read -pid "$TARGET" --json >"$TMP/read" || fail "read: $(<"$TMP/read")"
	"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/fixed" || fail "$(<"$TMP/fixed")"
	eq "$(memory_of "$TARGET")" "${MEMORY_BEFORE[$TARGET]}" "memory"
	! grep -q memfd:ocaml-probes "/proc/$TARGET/maps" || fail "the rings are still there"
	check_clean
	pass 4
	start_recording -o "$TMP/trace" --print work
	pass 6
	stop_recording
	read_trace "$TMP/trace"
	eq "$(count_of work)" 6 "hits afterwards"
}

# ---- a flight recorder, and mistakes ----------------------------------------------------------

test_conditions() {
	start_reborn
	keep_memory
	start_recording -o "$TMP/flight.pftrace" --print work --when 'hit worked' --when 'slower work,worked 1us' --last 1h --files 1
	pass 3
	wait_for '[[ -e $TMP/flight-1.pftrace ]]'
	read_trace "$TMP/flight-1.pftrace"
	eq "$(count_of work)" 3 "hits of the first file"
	pass 2
	wait_for '[[ -e $TMP/flight-2.pftrace && ! -e $TMP/flight-1.pftrace ]]'
	read_trace "$TMP/flight-2.pftrace"
	eq "$(count_of work)" 5 "hits of the second file"
	stop_recording
	check_clean
}

test_end_of_the_process() {
	start_reborn
	start_recording -o "$TMP/trace" --print work --json
	pass 7
	tell quit
	wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
	read_trace "$TMP/trace"
	eq "$(count_of work)" 7 "hits"
}

check_refusal() { # TEXT FLAG...
	local status=0 text=$1
	shift
	"$TOOL" record "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 2 "status of record $*: $(<"$TMP/err")"
	finds -Fx "$text" <"$TMP/err" || fail "record $*: $(<"$TMP/err")"
}

test_mistakes() {
	start_reborn
	keep_memory
	check_refusal "ocaml-probes: record: --engine inside excludes --exe: it records processes of -pid" --exe /bin/true --engine inside --print work -o "$TMP/trace"
	check_refusal "ocaml-probes: record: --engine inside excludes a program that the tool starts: it records processes of -pid" \
		--engine inside --print work -o "$TMP/trace" -- "$O/tests/ocaml/reborn"
	check_refusal "ocaml-probes: record: --engine inside excludes --children" "$TARGET" --engine inside --children --print work -o "$TMP/trace"
	check_clean
	[[ ! -e $TMP/trace ]] || fail "a trace"
}

run_tests "$@"
