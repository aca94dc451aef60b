#!/usr/bin/env bash
# The page with a timeline: `record --html`. The same trace in Perfetto's format, read by tests/record/read_perfetto, has the same
# events. The page is used in a browser with traces that are made up.
#
# needs: fixtures ocaml/requests
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

DRIVER=$O/tests/record/write_trace
HERE=$ROOT/tests/e2e
READERS=$ROOT/tests/record
DEBIANS_PYTHON=/usr/bin/python3

need_browser() {
	need_command chromium-headless-shell chromedriver
	"$DEBIANS_PYTHON" -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
}

made() { # TRACE [ARG...]
	"$DEBIANS_PYTHON" -B "$HERE/made_traces.py" "$@"
}

# KEEP_SCREENSHOTS: a folder that gets the pictures that were taken, to be looked at.
on_page() { # TEST
	HOME=$TMP holds "$DEBIANS_PYTHON" -B "$HERE/record_page.py" "$DRIVER" "$1"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

# Two files with the same trace: STEM.pftrace and STEM.html. What they have is in STEM.same.
same() { # STEM
	rm -f "$1".{perfetto,page}
	holds "$READERS/read_perfetto" "$1.pftrace" "$1.perfetto"
	holds "$READERS/read_page" "$1.html" "$1.page"
	holds "$READERS/same_traces" "$1.perfetto" "$1.page" >"$1.same"
}

# What the page FILE says of the recording.
page_says() { # FILE MEMBER
	"$READERS/read_page" "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$2"
}

# ---- made-up traces -----------------------------------------------------------------------------

test_same_as_perfetto() {
	need_command protoc
	local trace form
	for trace in small hostile hung flows "many 2000"; do
		for form in pftrace html; do
			# shellcheck disable=SC2086 # words are meant
			made $trace | "$DRIVER" "$form" >"$TMP/made.$form"
		done
		same "$TMP/made"
		[[ $trace != small ]] || eq "$(head -3 "$TMP/made.same" | xargs)" "slices: 15 instants: 6 counters: 5" "events"
		[[ $trace != hung ]] || eq "$(head -4 "$TMP/made.same" | xargs)" "slices: 4 instants: 0 counters: 0 unended: 4" "events without an end"
		[[ $trace != flows ]] || eq "$(sed -n 5p "$TMP/made.same")" "flows: 9" "flows"
		[[ $trace != hostile ]] || eq "$(head -3 "$TMP/made.same" | xargs)" "slices: 17 instants: 12 counters: 6" "hostile events"
	done
	eq "$(page_says "$TMP/made.html" n)" 2000 "events of many"
}

# What a page has no room for is counted, as is what the trace had no room for.
test_what_is_missing() {
	made repeated 2000007 200000000 | "$DRIVER" html >"$TMP/large.html"
	eq "$(page_says "$TMP/large.html" n) $(page_says "$TMP/large.html" left_out)" "2000000 7" "of a large trace"
	made repeated 40000 1048576 | "$DRIVER" html >"$TMP/full.html"
	local n dropped
	n=$(page_says "$TMP/full.html" n)
	dropped=$(page_says "$TMP/full.html" dropped)
	eq "$((n + dropped)) $((dropped > 0))" "40000 1" "of a trace that was full"
	made small | "$DRIVER" html >"$TMP/small.html"
	eq "$(page_says "$TMP/small.html" lost)" 3 "events that were lost"
}

# Flows connect the events of each request, in the order of time, and nothing else.
test_flows() {
	need_command protoc
	made flows | "$DRIVER" pftrace >"$TMP/flows.pftrace"
	holds "$READERS/read_perfetto" "$TMP/flows.pftrace" "$TMP/flows"
	python3 - "$TMP/flows" >"$TMP/found" <<-'PY'
		import json, sqlite3, sys
		def event(name, thread, ns, args):
		    args = json.loads(args)
		    return f"{name}@{(ns - 12345678901234567) / 1000:g}/{thread}"
		for a in sqlite3.connect(sys.argv[1]).execute("select from_name, from_thread, from_ns, from_args, to_name, to_thread, to_ns, to_args from flows order by from_ns, to_ns, from_name"):
		    assert json.loads(a[3]).get("id") == json.loads(a[7]).get("id")
		    print(event(*a[:4]), event(*a[4:]))
	PY
	eq "$(<"$TMP/found")" "start,stop@10/None start@11/1
start@11/1 ask,answer@20/None
ask,answer@20/None ask@21/2
ask@21/2 answer@31/2
answer@31/2 stop@51/2
start,stop@70/None start@70/2
start@70/2 stop@80/1
start,stop@100/None start@101/1
start,stop@100/None middle@90000/2" "flows"
}

test_failing_to_write() {
	! made many 2000 | "$DRIVER" html 2>"$TMP/err" >/dev/full || fail "a full disk is no error"
	eq "$(<"$TMP/err")" "write_trace: cannot write the trace: No space left on device" "message"
}

# ---- in a browser -------------------------------------------------------------------------------

# What it shows, what is chosen with keys and with the pointer, the search.
test_page() {
	need_browser
	on_page used
}

# Arrows between the steps of a request, and what leads from one to the next.
test_page_flows() {
	need_browser
	on_page flows
}

test_page_zooms() {
	need_browser
	on_page zoomed
}

# Sizes and colours, rules of accessibility, hostile names.
test_page_looks() {
	need_browser
	on_page looks
}

test_page_of_500000_events() {
	need_browser
	on_page many
}

# ---- the command --------------------------------------------------------------------------------

# Start `record FLAG...` on TARGET in the background, and return when it records.
start_recording() { # FLAG...
	need_bpf
	: >"$TMP/recording.err"
	background "$TOOL" record -pid "$TARGET" --budget none "$@" 2>"$TMP/recording.err"
	RECORDING=$!
	wait_for 'has_text "$TMP/recording.err" "measuring [0-9]+ probes" || ! kill -0 "$RECORDING"'
	kill -0 "$RECORDING" 2>/dev/null || fail "it does not record: $(<"$TMP/recording.err")"
}

end_recording() {
	kill -INT "$RECORDING"
	wait "$RECORDING" || fail "status $?: $(<"$TMP/recording.err")"
}

# Both files of one run have the same events, and those that the program says that it had.
test_both_files_of_a_run() {
	need_command protoc
	start_target "$O/tests/ocaml/requests" 2000
	await_line ready
	start_recording --time request_start,request_stop --key arg0 --print request_start,request_stop,number \
		-o "$TMP/run.pftrace" --html "$TMP/run.html"
	tell go
	await_line end
	end_recording
	finds -Ex "ocaml-probes: $TMP/run.html: written: [0-9]+ events \([0-9]+ without an end\) of [0-9.]+ s, 0 dropped, 0 lost; a browser opens it" "$TMP/recording.err"
	same "$TMP/run"
	holds python3 - "$TMP/run.page" "$(output_of)" <<'PY'
import json, sqlite3, sys
page, output = sqlite3.connect(sys.argv[1]), open(sys.argv[2], encoding="utf-8", errors="replace").read()
books = {name: int(n) for name, _, n in (line.partition("=") for line in output.splitlines()) if n}
numbers = [json.loads(args) for args, in page.execute("select args from instants where name = 'number'")]
count = lambda table, name: page.execute(f"select count(*) from {table} where name = ?", (name,)).fetchone()[0]
values = [next(v for v in args.values() if isinstance(v, int)) for args in numbers]
found = {"starts": count("instants", "request_start"), "stops": count("instants", "request_stop"),
         "pairs": count("slices", "request_start,request_stop"), "sum": sum(values), "smallest": min(values),
         "largest": max(values), "negative": sum(value < 0 for value in values)}
print(found, books)
assert found == {name: books[name] for name in found}
PY
}

# The page alone; a file that exists is replaced.
test_page_alone() {
	start_target "$O/tests/ocaml/requests" 10
	await_line ready
	echo old >"$TMP/alone.html"
	start_recording --print number --html "$TMP/alone.html"
	tell go
	await_line end
	end_recording
	eq "$(grep -c 'written:' "$TMP/recording.err")" 1 "files"
	holds "$READERS/read_page" "$TMP/alone.html" "$TMP/alone.page"
	eq "$(python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("select count(*) from instants where category = ?", ("probe",)).fetchone()[0])' "$TMP/alone.page")" \
		10 "hits"
}

# A flight recorder numbers the files of both forms in the same way, and removes the oldest ones of both.
test_flight_recorder() {
	need_command protoc
	local n
	start_target "$O/tests/ocaml/requests" 100
	await_line ready
	start_recording --print number --last 60s --files 2 -o "$TMP/slow.pftrace" --html "$TMP/slow.html"
	tell go
	await_line end
	for n in 1 2 3; do
		kill -USR1 "$RECORDING"
		wait_for "has_text '$TMP/recording.err' 'slow-$n.html: written, since SIGUSR1'"
	done
	end_recording
	eq "$(find "$TMP" -maxdepth 1 -name 'slow*' -printf '%f\n' | sort | xargs)" \
		"slow-2.html slow-2.pftrace slow-3.html slow-3.pftrace" "files"
	same "$TMP/slow-3"
	eq "$(page_says "$TMP/slow-3.html" why)" SIGUSR1 "reason"
	eq "$(python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("select count(*) from instants where name = ?", ("number",)).fetchone()[0])' "$TMP/slow-3.page")" \
		100 "hits"
	# The next recorder begins behind all files that exist, in either form.
	rm "$TMP"/slow-*
	touch "$TMP/slow-1.html"
	start_recording --print number --last 60s -o "$TMP/slow.pftrace" --html "$TMP/slow.html"
	kill -USR1 "$RECORDING"
	wait_for "has_text '$TMP/recording.err' 'slow-2.html: written, since SIGUSR1'"
	end_recording
	eq "$(find "$TMP" -maxdepth 1 -name 'slow*' -printf '%f\n' | sort | xargs)" "slow-1.html slow-2.html slow-2.pftrace" "later files"
	[[ ! -s $TMP/slow-1.html ]] || fail "an existing file is replaced"
}

refused() { # STATUS MESSAGE FLAG...
	local status=0
	"$TOOL" record -pid "$TARGET" --print number --for 1s "${@:3}" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -1 "$TMP/err")" "$1 ocaml-probes: $2" "record ${*:3}"
	[[ ! -s $TMP/out ]] || fail "it printed $(<"$TMP/out")"
}

test_refusals() {
	need_bpf
	start_target "$O/tests/ocaml/requests" 1
	await_line ready
	mkdir "$TMP/folder"
	refused 2 "record: -o FILE or --html FILE is required"
	refused 2 "record: -o and --html name the same file" -o "$TMP/folder/x" --html "$TMP/folder/../folder/x"
	refused 2 "record: --html: given twice" --html "$TMP/x" --html "$TMP/y"
	refused 2 "record: --html: the name of the file is empty" --html ''
	refused 2 "$TMP/folder: Is a directory" --html "$TMP/folder"
	refused 2 "$TMP/none/x.html: No such file or directory" -o "$TMP/good" --html "$TMP/none/x.html"
	eq "$(find "$TMP" -newer "$TMP/folder" \( -name '*.html*' -o -name 'good*' -o -name x -o -name y \))" "" "files"
}

run_tests "$@"
