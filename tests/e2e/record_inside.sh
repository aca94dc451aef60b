#!/usr/bin/env bash
# `record --engine inside`: events that the process writes itself, against the books of the programs.
#
# needs: fixtures link ocaml
# ocaml5: test_functions_without_arguments test_pairs_by_thread test_pairs_by_key test_pairs_of_functions test_calls test_deep_recursion test_fibres_that_move test_fibres_in_domains test_collector test_what_has_not_ended test_what_has_not_ended_yet test_nobody test_threads_that_end
# takes: 100 s
ENGINE=inside
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"
. "$(dirname "$0")/record_lib.sh"
. "$(dirname "$0")/record_cases_lib.sh"
. "$(dirname "$0")/link_lib.sh"
. "$(dirname "$0")/lwt_lib.sh"

NOBODY=65534

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

# Of the arguments, the ints are there.
test_pairs_by_thread() {
	check_pairs_by_thread
	finds -x 'ocaml-probes: warning: arguments that are not ints are not recorded: the engine `inside` does not read the memory that they refer to' \
		"$TMP/err" || fail "$(<"$TMP/err")"
}

test_pairs_by_key() { check_pairs_by_key; }
test_flows_of_concurrent_requests() { check_flows_of_concurrent_requests; }
test_flows_of_keys_that_are_used_again() { check_flows_of_keys_that_are_used_again; }
test_calls() { check_calls; }
test_deep_recursion() { check_deep_recursion; }

# Each int is there, however many arguments there are, in whatever places: those that the kernel has recorded of another run.
test_arguments() {
	local engine
	for engine in bpf inside; do
		RECORD_FLAGS=(--engine "$engine" --no-waits --hz 0)
		start_at_gate "$TMP/gate" "$O/tests/ocaml/args"
		start_recording -o "$TMP/trace_$engine" --when 'hit many_iiiiiiiiiiiiiii if arg14 = 19' --when 'hit loop_iif if arg1 = 6' --last 1h
		: >"$TMP/gate"
		wait "$RECORDING" || fail "status $?: $(<"$TMP/err")"
		finds -x 'ocaml-probes: 1 file written; a condition held 2 times' "$TMP/err" || fail "$(<"$TMP/err")"
		read_trace "$TMP/trace_$engine-1"
		mv "$TMP/db" "$TMP/db.$engine"
	done
	holds python3 - "$TMP/db.bpf" "$TMP/db.inside" <<-'PY' || fail "$(<"$TMP/err")"
		import json, sqlite3, sys
		def hits(name):
		    return [(probe, list(json.loads(args).values())) for probe, args in sqlite3.connect(name).execute(
		        "select name, args from instants where category = 'probe' order by ns, rowid")]
		by_kernel, inside = map(hits, sys.argv[1:])
		# The ints of two of the probes are in a record and in a closure, where the engine does not look.
		def ints(hits):
		    return [(probe, [value for kind, value in zip(probe.rpartition("_")[2], args) if kind == "i"]) for probe, args in hits
		            if probe not in ("fields_rifs", "closure_iisi")]
		wanted = ints(by_kernel)
		assert ints(inside) == wanted, (wanted, inside)
		assert [args for probe, args in inside if probe == "closure_iisi"] == [["?", "?", "?", 7]], inside
		assert ("many_iiiiiiiiiiiiiii", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 3, 7, 11, 15, 19]) in wanted and len(wanted) > 15, wanted
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

# A function is recorded without its arguments if no jump fits where they are in registers. One line says so.
test_functions_without_arguments() {
	local status=0 lacks=0
	mkdir "$TMP/built"
	cat >"$TMP/built/few.ml" <<-'ML'
	type t = { mutable a : int; mutable b : int; mutable c : int }
	let[@inline never] grow t n = t.c <- t.c + n + Sys.opaque_identity 0
	(* Its first instructions save its arguments on the stack, and then load other values into their registers. *)
	let[@inline never] adds t n =
	  let p = t.b in
	  if p >= t.c then grow t 1;
	  t.a <- n; t.b <- p + Sys.opaque_identity 1
	let[@inline never] takes x y z =
	  let sum = ref 0 in
	  for i = x to y do sum := !sum + Sys.opaque_identity i done;
	  !sum + z
	let () =
	  print_endline "ready"; ignore (input_line stdin);
	  let t = { a = 0; b = 0; c = 5 } in
	  for i = 1 to 40 do adds t i; ignore (Sys.opaque_identity (takes i (2 * i) 7)) done;
	  print_endline "end"; ignore (try input_line stdin with End_of_file -> "")
	ML
	(cd "$TMP/built" && ocamlopt -g few.ml -o few) >"$TMP/warnings" 2>&1 || fail "$(<"$TMP/warnings")"
	start_target "$TMP/built/few"
	await_line ready
	record_work --time fn:Few.adds --time fn:Few.takes --print fn:Few.adds --json
	! has_text "$TMP/err" 'measured without .* arguments' || lacks=1
	finds -x 'ocaml-probes: warning: .*/few: 1 function is measured without its arguments, since a jump does not fit where these are in registers; the first one is fn:Few.adds' \
		"$TMP/err" || ((!lacks)) || fail "$(<"$TMP/err")"
	[[ $(ocamlopt -version) != 4.14.1 ]] || eq "$lacks" 1 "a function without arguments"
	check_totals
	check_trace "$lacks" <<-'PY'
		def args_of(table, name):
		    return [list(json.loads(args).values()) for args, in sql(f"select args from {table} where name = ?", name)]
		adds = [[] if words[0] == "1" else ["?", i] for i in range(1, 41)]
		assert args_of("slices", "Few.adds") == args_of("instants", "fn:Few.adds") == adds, args_of("slices", "Few.adds")
		assert args_of("slices", "Few.takes") == [[i, 2 * i, 7] for i in range(1, 41)], args_of("slices", "Few.takes")
	PY
	((lacks)) || return 0
	# A filter needs the argument.
	"$TOOL" record -pid "$TARGET" "${RECORD_FLAGS[@]}" --time fn:Few.adds --filter 'arg1 > 3' -o "$TMP/none" -quiet >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 4 "status: $(<"$TMP/err")"
	finds -Fx "ocaml-probes: 'fn:Few.adds': cannot be counted inside: a jump does not fit where its arguments are in registers" "$TMP/err" ||
		fail "$(<"$TMP/err")"
}

test_fibres_that_move() { check_fibres_that_move; }
test_fibres_in_domains() { check_fibres_in_domains; }
test_collector() { check_collector; }
test_counters() { check_counters; }
test_what_has_not_ended() { check_what_has_not_ended; }
test_what_has_not_ended_yet() { check_what_has_not_ended_yet; }

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

# ---- programs ---------------------------------------------------------------------------------

test_program() { check_program; }
test_status_of_program() { check_status_of_program; }

# Where no thread is known at the first instruction, nothing is recorded, and the program does not run.
test_static_program() {
	local status=0
	mkdir "$TMP/built"
	echo 'let () = print_endline "ran"' >"$TMP/built/static.ml"
	(cd "$TMP/built" && ocamlopt -ccopt -static static.ml -o static) >"$TMP/warnings" 2>&1 || fail "$(<"$TMP/warnings")"
	record_command '' --time fn:Stdlib.print_endline -o "$TMP/trace" -- "$TMP/built/static" || status=$?
	eq "$status $(<"$TMP/said")" "4 " "status: $(<"$TMP/err")"
	finds -Fx "ocaml-probes: '$TMP/built/static': is linked statically, and cannot be counted inside from its start" "$TMP/err" ||
		fail "$(<"$TMP/err")"
	[[ ! -e $TMP/trace ]] || fail "a trace"
}

# How many processes run the program $TMP/requests?
runs_of_program() {
	local exe n=0
	for exe in /proc/[0-9]*/exe; do
		[[ ! $exe -ef "$TMP/requests" ]] || n=$((n + 1))
	done
	echo "$n"
}

# The tool is killed at a system call: the program is killed with it, or runs to its end. None stays stopped, and no file is torn.
test_kills_with_a_program() {
	local kill_at=$O/tests/fixtures/binaries/kill_at tool stops n kills=0
	cp "$O/tests/ocaml/requests" "$TMP/requests"
	tool=("$TOOL" record "${RECORD_FLAGS[@]}" --budget none -o "$TMP/trace" -- "$TMP/requests" 50)
	printf 'go\n\n' >"$TMP/input"
	"$kill_at" "$TMP/stops" stops "${tool[@]}" <"$TMP/input" >/dev/null 2>&1
	stops=$(<"$TMP/stops")
	((stops > 100)) || fail "only $stops stops"
	rm "$TMP/trace"
	for ((n = 1; n < stops; n += stops / 25 + 1)); do
		timeout 120 "$kill_at" "$TMP/killed" "stop:$n" "${tool[@]}" <"$TMP/input" >"$TMP/out" 2>"$TMP/err" || kills=$((kills + 1))
		wait_for '(($(runs_of_program) == 0))' 30
		[[ ! -e $TMP/trace ]] || read_trace "$TMP/trace"
		rm -f "$TMP/trace"
	done
	((kills > 12)) || fail "only $kills kills"
	eq "$(runs_of_program)" 0 "processes"
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

# So many EVENTS that rings are full many times, while the tool reads them: none is lost, or each is counted.
test_many_events() {
	local events=${EVENTS:-200000}
	start_target "$O/tests/ocaml/crew" step -- a "$events"
	await_line ready
	start_recording -o "$TMP/trace" --print step --json --memory 512MB
	tell go
	await_line "done" 60
	stop_recording
	read_trace "$TMP/trace"
	check_all_counted step "$events"
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

test_conditions() { check_conditions; }
test_other_conditions() { check_other_conditions; }
test_last() { check_last; }
test_end_of_the_process() { check_end_of_the_process; }

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
	check_refusal "ocaml-probes: record: --engine inside excludes --children" "$TARGET" --engine inside --children --print work -o "$TMP/trace"
	check_clean
	[[ ! -e $TMP/trace ]] || fail "a trace"
}

run_tests "$@"
