#!/usr/bin/env bash
# `report`: what a program does right now. The program keeps books (tests/ocaml/reported.ml): the samples are its page faults, its
# large blocks and the hits of its probes, so they are compared by equality. The unit test own_functions has the libraries.
#
# needs: fixtures ocaml/reported ocaml/busy
# takes: 50 s
# smoke: test_books
# ocaml5: test_books test_books_without_bpf test_page_and_json
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

REPORTED=$O/tests/ocaml/reported
AS_USER=(setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps=-all)

# Report on the target while it serves N requests. --for is so long that nothing is left out: the budget is a share of it.
report_requests() { # N [COMMAND...] -- FLAG...
	local n=$1 command=()
	shift
	while [[ $1 != -- ]]; do
		command+=("$1")
		shift
	done
	background "${command[@]}" "$TOOL" report -pid "$TARGET" --for 10h "${@:2}" >"$TMP/out" 2>"$TMP/err"
	REPORT=$!
	wait_for 'has_text "$TMP/err" "measuring pid" || has_ended "$REPORT"'
	forget_output
	tell "run $n"
	await_line 'done'
	await_reading
	grep '^[a-z]* [0-9]*$' "$(output_of)" >"$TMP/books"
	kill -INT "$REPORT"
	wait "$REPORT" || fail "status $?: $(<"$TMP/err")"
}

start_reported() { # [COMMAND...]
	start_target "$@"
	await_line ready
	await_reading
}

# The JSON in $TMP/out agrees with the books: EXPRESSION... with `report` and `books`.
report_that() { # EXPRESSION...
	holds python3 - "$TMP/out" "$TMP/books" "$@" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
books = {name: int(n) for name, n in (line.split() for line in open(sys.argv[2]))}

def functions(kind):
    return [function["function"] for function in report[kind]["functions"]]

def samples(kind, name, member="samples"):
    return sum(f[member] for f in report[kind]["functions"] if f["function"] == name)

def hits(name):
    return sum(row["hits"] for row in report["probes"]["probes"] if row["probe"] == name)

for expression in sys.argv[3:]:
    assert eval(expression), (expression, json.dumps(report, indent=1)[:6000], books)
PY
}

# What is so with each engine.
check_probes_and_waits() {
	report_that 'report["version"] == 1 and report["pid"] == '"$TARGET" \
		'report["ocaml"] == "'"$(ocamlfind ocamlopt -version)"'"' 'report["threads"] >= 3' \
		'hits("request_start") == hits("request_done") == books["requests"] > 0' \
		'[p["count"] for p in report["probes"]["pairs"]] == [books["requests"]]' \
		'(report["probes"]["pairs"][0]["start"], report["probes"]["pairs"][0]["stop"]) == ("request_start", "request_done")' \
		'functions("wait")[0] == "Reported.sleeper"' \
		'report["wait"]["engine"] == "ptrace"' 'report["collector"]["allocated_words"] >= books["keeper"]' \
		'0 <= report["cost_s"] and report["cpu_s"] > 0'
}

# The functions that use the CPU, allocate and wait, and the probes: as in the books. All that keeper allocates is in fewer pages
# than hog touches. Of the large blocks, each 65536 words on a CPU are a sample. There are as many faults as new pages, and
# some more where the kernel has taken pages of the code meanwhile.
test_books() {
	need_counting
	start_reported "$REPORTED"
	report_requests 500 "${AT_FAULTS[@]}" -- --json
	check_asked 99
	report_that 'samples("cpu", "Reported.hog") == books["hog"] >= 8000' 'samples("cpu", "Reported.filler") == books["filler"] >= 500' \
		'books["pages"] == 8500' \
		'functions("cpu")[0] == "Reported.hog"' 'report["cpu"]["engine"] == "bpf"' \
		'functions("alloc")[0] == "Reported.keeper"' 'report["alloc"]["lost"] == report["cpu"]["lost"] == 0' \
		'abs(samples("alloc", "Reported.keeper", "words") - books["keeper"]) <= 2 * 65536 * '"$(possible_cpus | wc -l)" \
		'books["keeper"] == 500 * 20 * 301' \
		'not any(name.startswith("Array.") for name in functions("alloc"))' \
		'[f["item"] for f in report["alloc"]["functions"]][0] == "fn:Reported.keeper"' 'report["probes"]["engine"] == "bpf"' \
		'"no_bpf" not in report or report["no_bpf"] is None' 'report["wait"]["always_waiting"] >= 2'
	check_probes_and_waits
}

# A user without privileges: probes are counted inside, the CPU is sampled by ptrace, allocation is not sampled, and the report says
# why. The threads were stopped for this, and may not wait again yet when the samples of waits begin: then they have not waited
# for the whole time. The program runs on, without the tool's code at the sites.
test_books_without_bpf() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$REPORTED" "$TMP"
	TOOL=$TMP/ocaml-probes
	start_reported env -u TMP "${AS_USER[@]}" "$TMP/reported"
	report_requests 500 "${AS_USER[@]}" -- --json
	check_probes_and_waits
	report_that '"lacks CAP_BPF and CAP_PERFMON" in report["no_bpf"]' '"lacks CAP_BPF" in report["alloc"]["why"]' \
		'report["alloc"]["functions"] == []' 'report["cpu"]["engine"] == "ptrace"' 'report["probes"]["engine"] == "inside"'
	# The short form, and the program by its file.
	"${AS_USER[@]}" "$TOOL" "$TARGET" --for 10ms >"$TMP/short" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(head -n 1 "$TMP/short")" "^$TMP/reported: pid $TARGET, OCaml $(ocamlfind ocamlopt -version), "
	finds "^without BPF: .*lacks CAP_BPF" "$TMP/short"
	"${AS_USER[@]}" "$TOOL" report --exe "$TMP/reported" --for 10ms >"$TMP/long" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(head -n 1 "$TMP/long")" "$(head -n 1 "$TMP/short")" "by file"
	eq "$("${AS_USER[@]}" "$TOOL" info --sites -pid "$TARGET" | grep -c inside || :)" 0 "sites that count inside"
	eq "$(sed -n 's/^TracerPid:.//p' "/proc/$TARGET/status")" 0 "its tracer"
}

# The commands in the text are ones that the tool accepts, each line or block has one, and no line is wider than the screen.
test_text() {
	local line verb rest
	need_counting
	start_reported "$REPORTED"
	report_requests 100 --
	matches "$(head -n 1 "$TMP/out")" "^$REPORTED: pid $TARGET, OCaml $(ocamlfind ocamlopt -version), .*threads"
	finds '^heap: .* allocated ' "$TMP/out"
	finds '^waiting: .* ocaml-probes profile [0-9]* --off-cpu$' "$TMP/out"
	finds '^  *[0-9.]*%  Reported\.sleeper$' "$TMP/out"
	finds -E '^  for I/O and events \([0-9]+%\)(, |$)' "$TMP/out"
	finds '^probes: 2, 200 hits, ' "$TMP/out"
	finds '^  *[0-9.]*/s  request_start,request_done: p50 ' "$TMP/out"
	eq "$(awk 'length > 80' "$TMP/out" | grep -v "^$REPORTED" || :)" "" "lines of more than 80 columns"
	# What is no row of a block has a command, or is continued by a line that has.
	eq "$(grep -v '^ ' "$TMP/out" | grep -c . || :)" "$(($(grep -c 'ocaml-probes ' "$TMP/out") + 1))" "lines with commands"
	grep -o 'ocaml-probes .*$' "$TMP/out" | sort -u >"$TMP/commands"
	while read -r line; do
		read -r _ verb rest <<<"$line"
		[[ $verb =~ ^(info|functions)$ ]] || rest="$rest --for 1ms"
		# shellcheck disable=SC2086 # words of a command
		"$TOOL" "$verb" $rest >"$TMP/deeper" 2>&1 || fail "$line: status $?: $(<"$TMP/deeper")"
		asserted
	done <"$TMP/commands"
}

# A program that only waits is called idle, and the report is silent about what it does not do. The runtime's thread that ticks
# runs for some microseconds 20 times a second: a sample may be of it.
test_idle() {
	need_counting
	start_reported "$REPORTED" idle
	"$TOOL" report "$TARGET" --for 500ms >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/out")" 'CPU: 0\.[0-9]% of a core in [0-9.]+ s: the program is idle, [0-9]+ threads waited the whole time'
	finds '^collections: none in [0-9.]* s ' "$TMP/out"
	finds '^heap: .*, unchanged; allocated 0 B/s ' "$TMP/out"
	finds -E '^CPU time: (no thread ran at the time of a sample|[0-9] samples?, too few for exact shares) ' "$TMP/out"
	finds '^allocation: no minor heap ran out, and no large blocks were allocated$' "$TMP/out"
	finds '^probes: 2, 0 hits ' "$TMP/out"
	! finds 'pairs\|collector:' "$TMP/out" || fail "$(<"$TMP/out")"
}

# A program that does nothing but pass a probe: counting ends when its part of the budget is used up, and the rate is that of the
# time until then.
test_budget() {
	need_counting
	start_target "$O/tests/ocaml/busy" hits
	wait_for 'has_text "$(output_of)" "rate "'
	"$TOOL" report "$TARGET" --for 500ms >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	finds '^probes: 3, .*, at least [0-9.]*/s in the first [0-9.]* s' "$TMP/out"
	finds '^  *[0-9.]*/s  hit$' "$TMP/out"
	! finds 'cost the program 0\.00%' "$TMP/out" || fail "$(<"$TMP/out")"
}

need_browser() {
	need_command chromium-headless-shell chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
}

# KEEP_SCREENSHOTS: a folder that gets the pictures that were taken, to be looked at.
on_page() { # TEST
	HOME=$TMP holds /usr/bin/python3 -B "$ROOT/tests/e2e/report_page.py" "$TMP/page.html" "$TMP/out" "$1"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

# The page has the lines of the text of the same report, and shows them, readable on screens of all sizes.
test_page() {
	need_counting
	need_browser
	start_reported "$REPORTED"
	report_requests 500 "${AT_FAULTS[@]}" -- --html "$TMP/page.html"
	eq "$(<"$TMP/err")" "ocaml-probes: measuring pid $TARGET for 36000.0 s
ocaml-probes: $TMP/page.html: written" "what it says"
	on_page used
}

# The numbers of the page are those of the JSON of the same report.
test_page_and_json() {
	need_counting
	start_reported "$REPORTED"
	report_requests 500 "${AT_FAULTS[@]}" -- --json --html "$TMP/page.html"
	page_that_is_json
}

page_that_is_json() {
	holds python3 - "$TMP/out" "$TMP/page.html" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
page = json.loads(open(sys.argv[2]).read().split('id="data">')[1].split("</script>")[0])
lines = {line["topic"]: line for line in page["lines"]}
assert len(lines) == len(page["lines"]), page
assert (page["pid"], page["exe"], page["span_s"]) == (report["pid"], report["exe"], report["span_s"]), page
assert f"OCaml {report['ocaml']}" in lines["program"]["text"] and f"{report['threads']} threads" in lines["program"]["text"], lines
assert lines["cpu_use"]["text"].startswith(f"{100 * report['cpu_cores']:.1f}% of a core in {report['span_s']:.1f} s"), lines
assert lines["cost"]["text"].endswith(f" {100 * report['cost_s'] / report['span_s']:.2f}% of a core"), lines

for kind, unit in ("cpu", "ns"), ("alloc", "words"), ("wait", "ns"):
    part, rows = report[kind], [row for row in lines[kind]["rows"] if row["number"] is not None]
    if "why" in part:
        assert lines[kind]["text"] == "not sampled: " + part["why"] and rows == [], lines[kind]
        continue
    whole = part[unit]
    wanted = [(f["function"], f[unit]) for f in part["functions"][:5]]
    others = part["functions"][5:]
    if others:
        wanted.append((f"({len(others)} other function{'s' * (len(others) > 1)} of the program)", sum(f[unit] for f in others)))
    if part[f"other_{unit}"]:
        wanted.append(("(in no function of the program)", part[f"other_{unit}"]))
    assert [row["text"] for row in rows] == [name for name, _ in wanted], (rows, wanted)
    for row, (_, value) in zip(rows, wanted):
        assert abs(row["share"] - value / whole) < 1e-9 and row["number"] == f"{100 * row['share']:.1f}%", (row, value, whole)
    for row, function in zip(rows, part["functions"][:5]):
        assert row["command"] == f"ocaml-probes attach {report['pid']} --count={function['item']}", (row, function)

probes, span = report["probes"], report["probes"]["span_s"]
rate = lambda n: f"{n / span:.{1 if n / span < 99.95 else 0}f}/s"
hits = sorted(((p["probe"], p["hits"]) for p in probes["probes"] if p["hits"]), key=lambda p: (-p[1], p[0]))
assert lines["probes"]["text"].startswith(f"{probes['n']}, {probes['hits']} hits, "), lines["probes"]
assert [(r["text"], r["number"]) for r in lines["probes"]["rows"]] == [(name, rate(n)) for name, n in hits], (lines, hits)
[pair], [row] = probes["pairs"], lines["pairs"]["rows"]
assert row["text"].startswith(f"{pair['start']},{pair['stop']}: p50 ") and row["number"] == rate(pair["count"]), (row, pair)
assert row["command"] == f"ocaml-probes attach {report['pid']} --time={pair['start']},{pair['stop']}", row
assert ("no_bpf" in lines and lines["no_bpf"]["text"]) == (report.get("no_bpf") or False), (lines, report)
heap = 8 * report["collector"]["heap_words"] / 1000
unit, heap = ("MB", heap / 1000) if heap >= 999.5 else ("kB", heap)
assert lines["heap"]["text"].startswith(f"{heap:.{1 if heap < 99.95 else 0}f} {unit}"), (lines["heap"], heap)
PY
}

test_page_without_bpf() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$REPORTED" "$TMP"
	mkdir "$TMP/user"
	chown 12345 "$TMP/user"
	TOOL=$TMP/ocaml-probes
	start_reported env -u TMP "${AS_USER[@]}" "$TMP/reported"
	report_requests 500 "${AS_USER[@]}" -- --json --html "$TMP/user/page.html"
	mv "$TMP/user/page.html" "$TMP/page.html"
	page_that_is_json
	finds '"topic":"no_bpf","label":"without BPF","text":"[^"]*lacks CAP_BPF and CAP_PERFMON' "$TMP/page.html"
}

# The names of a program and of its functions are text, and no HTML; in commands they are words of a shell.
test_hostile_names_on_the_page() {
	local symbol
	need_counting
	need_browser
	mkdir -p "$TMP/"$'</script><b>\n\e]0;own\a'
	EXE="$TMP/"$'</script><b>\n\e]0;own\a/<img src>'
	symbol=$(nm "$REPORTED" | grep -o 'camlReported__hog_.*$')
	objcopy --redefine-sym "$symbol"="camlReported__</script><b>&'\$(id)" "$REPORTED" "$EXE"
	start_reported "$EXE"
	report_requests 500 "${AT_FAULTS[@]}" -- --html "$TMP/page.html"
	HOSTILE="Reported.(</script><b>&'\$(id))" on_page hostile
	finds -F "ocaml-probes attach $TARGET --count='fn:Reported.(\\u003c/script\\u003e\\u003cb\\u003e\\u0026'\\\\''\$(id))'" "$TMP/page.html"
}

# A file that cannot be written is refused before the measurement, and a file that is there is kept.
test_page_is_refused() {
	need_root
	start_reported "$REPORTED" idle
	refused 2 "/nowhere/page.html: No such file or directory" -pid "$TARGET" --html /nowhere/page.html
	refused 2 "report: --html: given twice" -pid "$TARGET" --html "$TMP/a" --html "$TMP/b"
	refused 2 "report: --html: the name of the file is empty" -pid "$TARGET" --html ''
	mkfifo "$TMP/fifo"
	refused 2 "$TMP/fifo: not a regular file" -pid "$TARGET" --html "$TMP/fifo"
	refused 2 "$TMP: Is a directory" -pid "$TARGET" --html "$TMP"
	echo old >"$TMP/old.html"
	refused 5 "pid 99999999: no such process" -pid 99999999 --html "$TMP/old.html"
	eq "$(<"$TMP/old.html") $(find "$TMP" -name '*.tmp' | wc -l)" "old 0" "the files"
}

refused() { # STATUS MESSAGE FLAG...
	local status=0
	"$TOOL" report "${@:3}" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "$1 ocaml-probes: $2" "report ${*:3}"
	eq "$(<"$TMP/out")" "" "the output"
}

test_refused() {
	need_root
	refused 2 "report: -pid or --exe is required"
	refused 5 "pid 99999999: no such process" -pid 99999999
	start_target bash -c 'read -r'
	await_reading
	refused "$(status_of info)" "$(message_of info)" -pid "$TARGET"
	matches "$(<"$TMP/err")" "not an OCaml program"
	start_reported "$REPORTED" idle
	kill -KILL "$TARGET"
	wait "$TARGET" 2>/dev/null || :
	refused 5 "pid $TARGET: no such process" -pid "$TARGET"
	TARGET=$(pgrep -o kthreadd || :)
	[[ -z $TARGET ]] || refused "$(status_of info)" "$(message_of info)" -pid "$TARGET"
}

# How COMMAND refuses the target.
status_of() { # COMMAND
	local status=0
	"$TOOL" "$1" -pid "$TARGET" >"$TMP/other" 2>&1 || status=$?
	echo "$status"
}

message_of() { # COMMAND
	"$TOOL" "$1" -pid "$TARGET" 2>&1 | sed -n '1s/^ocaml-probes: //p' || :
}

# The process ends while it is measured: what was measured until then is reported.
test_end_of_the_process() {
	need_counting
	start_reported "$REPORTED"
	background "$TOOL" report -pid "$TARGET" --for 10h --json >"$TMP/out" 2>"$TMP/err"
	REPORT=$!
	wait_for 'has_text "$TMP/err" "measuring pid"'
	tell 'run 100'
	await_line 'done'
	kill -KILL "$TARGET"
	wait "$TARGET" 2>/dev/null || :
	wait "$REPORT" || fail "status $?: $(<"$TMP/err")"
	finds "^ocaml-probes: pid $TARGET has ended\$" "$TMP/err"
	: >"$TMP/books"
	report_that 'hits("request_start") == 100' 'functions("alloc")[0] == "Reported.keeper"'
}

# A tool that is killed while it measures leaves the program running, with and without BPF.
test_sigkill() {
	local command
	need_counting
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$REPORTED" "$TMP"
	TOOL=$TMP/ocaml-probes
	for command in 'env' "${AS_USER[*]}"; do
		# shellcheck disable=SC2086 # words of a command
		start_reported env -u TMP $command "$TMP/reported"
		# shellcheck disable=SC2086
		background $command "$TOOL" report -pid "$TARGET" --for 10h >"$TMP/out" 2>"$TMP/err"
		REPORT=$!
		wait_for 'has_text "$TMP/err" "measuring pid"'
		kill -KILL "$REPORT"
		wait "$REPORT" 2>/dev/null || :
		forget_output
		tell 'run 500'
		await_line 'done'
		finds '^requests 500$' "$(output_of)"
		eq "$(sed -n 's/^TracerPid:.//p' "/proc/$TARGET/status")" 0 "its tracer"
		"$TOOL" doctor --fix -pid "$TARGET" >"$TMP/doctor" 2>&1 || fail "$(<"$TMP/doctor")"
		tell 'run 100'
		await_line 'requests 600'
	done
}

run_tests "$@"
