#!/usr/bin/env bash
# Each feature on one program with its own books, tests/ocaml/features: three domains (threads on OCaml 4), fibres, calls of
# OCaml from C within fibres, exceptions. A feature works, which means that its numbers are those of the books, or it is
# refused on the compilers that REFUSALS names.
#
# Each case adds the row of its feature to the file FEATURES_TABLE: "FEATURE<TAB>works", "FEATURE<TAB>refused: SENTENCE" or
# "FEATURE<TAB>FAILED". tests/features makes one table of the files of all compilers.
#
# needs: fixtures ocaml serve
# long: compilers
# takes: 120 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/bpftrace_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

AT_FAULTS=(LD_PRELOAD="$O/tests/fixtures/binaries/libfaults.so" ASKED="$TMP/asked")

# COMPILER STATUS FEATURE: SENTENCE. The compiler is a pattern, and the sentence a regular expression.
REFUSALS='5.[012].* 4 memprof --events ring: .*pid [0-9]+: OCaml 5\.0 to 5\.2 have no Gc\.Memprof; .*
5.[012].* 4 memprof --events probes: .*pid [0-9]+: OCaml 5\.0 to 5\.2 have no Gc\.Memprof; .*'

# ---- helpers ----------------------------------------------------------------------------------

# The environment can have AS_VERSION, the version of OCaml that the program names (later_version.sh).
# All cases of a run use one program, in the copy of $O/tests that tests/isolate makes.
# FEATURE is the row of this case.
start_features() { # FEATURE
	local built=$O/tests/features
	FEATURE=$1
	row FAILED
	need_counting
	[[ -e $built/features ]] || "$ROOT/tests/ocaml/features/build" "$O" "$built" >"$TMP/built" 2>&1 || fail "$(<"$TMP/built")"
	cp "$built/features" "$TMP/features"
	[[ -z ${AS_VERSION:-} ]] || LC_ALL=C sed -i "s/$(ocamlfind ocamlopt -version)/$AS_VERSION/g" "$TMP/features"
	start_target "$TMP/features"
	await_line ready
}

# Give the program an order. Its books of this order are in $TMP/books.
order() { # ORDER...
	forget_output
	tell "$*"
	await_line end 60
	cp "$(output_of)" "$TMP/books"
}

# A figure of the program's books: WORD NAME KEY.
book() { # WORD NAME KEY
	sed -nE "s/^$1 $2 (.* )?$3=([0-9]+)( .*)?$/\2/p" "$TMP/books"
}

# The last row of a feature is the one that counts.
row() { # RESULT
	printf '%s\t%s\n' "$FEATURE" "$1" >>"${FEATURES_TABLE:-$TMP/table}"
}

works() {
	row works
}

# What REFUSALS says of the feature on this compiler, as "STATUS SENTENCE".
refusal() {
	local version pattern status rest
	version=$(ocamlfind ocamlopt -version)
	while read -r pattern status rest; do
		# shellcheck disable=SC2053 # a pattern is meant
		[[ $version != $pattern || $rest != "$FEATURE: "* ]] || echo "$status ${rest#"$FEATURE: "}"
	done <<<"$REFUSALS"
}

# If the feature is to be refused on this compiler, check that the tool refuses ARGs so.
is_refused() { # ARG...
	local status sentence
	read -r status sentence < <(refusal) || return 1
	check_error "$status" "^ocaml-probes: $sentence\$" "$@"
	row "refused: $(sed -n '1s/^ocaml-probes: //p' "$TMP/err" | sed -E 's/pid [0-9]+/pid PID/')"
}

# Measure the target by `attach --json FLAG...` while it obeys ORDER.
measure() { # ORDER FLAG...
	start_measuring --json "${@:2}"
	order "$1"
	stop_measuring
}

# What `measured_that` says of the books of the program.
holds_of_books() { # EXPRESSION...
	measured_that "$TMP/books" -- 'not any(t["losses"].values())' "$@"
}

# Run `COMMAND ARG...` of the tool in the background while the target obeys ORDER. It has begun when its standard error has a
# line with BEGUN. Its output is in $TMP/out.
during() { # ORDER BEGUN [NAME=VALUE...] COMMAND ARG...
	local it=$1 begun=$2 environment=() running
	shift 2
	while [[ $1 = *=* ]]; do
		environment+=("$1")
		shift
	done
	background "${environment[@]}" "$TOOL" "$1" -pid "$TARGET" "${@:2}" >"$TMP/out" 2>"$TMP/err"
	running=$!
	wait_for 'grep -q "'"$begun"'" "$TMP/err" || has_ended '"$running"
	has_ended "$running" || order "$it"
	kill -INT "$running" 2>/dev/null || :
	wait "$running" || fail "status $?: $(<"$TMP/err")"
}

# Check $TMP/out by Python: `objects` and `t`, the last one; `said`, the books; names(FRAMES).
check_out() { # <PYTHON
	{
		cat <<'PY'
import collections, json, sys
sys.path.insert(0, sys.argv[3])
sys.dont_write_bytecode = True
from said import figures
objects = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
t, said = objects[-1], figures(sys.argv[2])
def names(frames):
    return [frame["function"] for frame in frames]
def same(a, b):
    assert a == b, (a, b)
CALLERS = {name: numbers["hits"] for name, numbers in said["caller"].items() if numbers["hits"]}
def is_whole(frames):
    "From the start of the program, of a thread or of a domain."
    all_of = names(frames)
    return all_of[-1] == "_start" and "Features.serve" in all_of or \
        "Features.worker" in all_of and ("caml_thread_start" in all_of or "[domain]" in all_of)
def check_stacks(stacks):
    "Hits by their caller, on whole stacks."
    found = collections.Counter()
    for frames, hits in stacks:
        assert is_whole(frames), frames
        same(names(frames)[0], "Features.leaf")
        (caller,) = [name for name in said["caller"] if "Features." + name in names(frames)]
        assert ("features_call_back" in names(frames)) == ("c" in caller.split("_")), frames
        found[caller] += hits
    same(dict(found), CALLERS)
PY
		cat
	} >"$TMP/check.py"
	holds python3 "$TMP/check.py" "$TMP/out" "$TMP/books" "$ROOT/tests/books" || fail "$(head -c 4000 "$TMP/out")"
}

# The line of features.ml that has a comment with this NAME.
line_of() { # NAME
	grep -n "(\* line: $1 \*)" "$ROOT/tests/ocaml/features/features.ml" | cut -d: -f1
}

# ---- probes -----------------------------------------------------------------------------------

test_list() {
	start_features list
	eq "$("$TOOL" list 2>/dev/null | awk -v pid="$TARGET" '$1 == pid { print $2, $3, $4 }')" "8 0 $TMP/features" "list"
	works
}

test_info() {
	start_features info
	eq "$("$TOOL" info -pid "$TARGET" | grep -v ^memprof_)" "enter disabled
leaf disabled
leave disabled" "info"
	works
}

test_switch() {
	start_features switch
	keep_memory
	order go 50
	eq "$(book probe leaf handled)" 0 "handlers, off"
	"$TOOL" attach -pid "$TARGET" -enable leaf
	eq "$("$TOOL" info -pid "$TARGET" | grep leaf)" "leaf enabled" "info"
	order go 50
	eq "$(book probe leaf handled)" "$(book probe leaf hits)" "handlers, on"
	holds test "$(book probe leaf handled)" -eq 3000
	"$TOOL" attach -pid "$TARGET" -disable leaf
	order go 50
	eq "$(book probe leaf handled)" 0 "handlers, off again"
	check_clean
	works
}

check_counts() { # ENGINE
	start_features "count, engine $1"
	measure "go 100" --engine "$1" --count=leaf,enter,leave
	holds_of_books 'hits == {name: of["hits"] for name, of in said["probe"].items()}' 'hits["leaf"] == 6000'
	works
}

test_count_by_bpf() {
	check_counts bpf
}

test_count_inside() {
	check_counts inside
}

# Matched by id, and by thread; every tenth start has no stop.
check_times() { # ENGINE
	local key
	start_features "time, engine $1"
	for key in id none; do
		measure "go 100" --engine "$1" --time enter,leave --key "$key"
		holds_of_books 'pair["count"] == said["pair"]["enter"]["count"] == 270' \
			'pair["orphan_starts"] + pair["open"] == said["pair"]["enter"]["skipped"] == 30' 'pair["orphan_stops"] == 0' \
			'said["pair"]["enter"]["within_ns"] <= pair["sum_ns"] <= said["pair"]["enter"]["around_ns"]'
	done
	works
}

test_time_by_bpf() {
	check_times bpf
}

test_time_inside() {
	check_times inside
}

test_print() {
	start_features print
	start_measuring --print leaf --limit 0
	order go 20
	stop_measuring
	eq "$(sed -nE 's/.* leaf i=([0-9]+)$/\1/p' "$TMP/counts" | awk '{ n++; sum += $1 } END { print n, sum }')" \
		"$(book probe leaf hits) $(book probe leaf sum)" "hits, and the sum of their arguments"
	works
}

# ---- stacks, functions and lines --------------------------------------------------------------

test_stack() {
	start_features --stack
	measure "go 50" --count=leaf --stack
	cp "$TMP/counts" "$TMP/out"
	check_out <<'PY'
check_stacks((s["frames"], s["hits"]) for s in t["stacks"])
same(t["walks"]["walked"], said["probe"]["leaf"]["hits"])
same([t["walks"][w] for w in ("truncated", "lost", "rows_full")], [0, 0, 0])
PY
	works
}

test_stack_through_c_within_a_fibre() {
	start_features "--stack, C within a fibre: 400 of 400"
	measure "nested 400" --print leaf --limit 0 --stack
	cp "$TMP/counts" "$TMP/out"
	FIBRES=$(is_ocaml_5 && echo 400 || echo 0) check_out <<'PY'
import os
hits = [o["stack"] for o in objects if o["type"] == "hit"]
check_stacks((frames, 1) for frames in hits)
same([len(hits), CALLERS], [400, {"c_in_fibre": 400}])
same(sum("[fibre]" in names(frames) for frames in hits), int(os.environ["FIBRES"]))
same([t["walks"][w] for w in ("walked", "truncated", "lost")], [400, 0, 0])
PY
	works
}

test_functions() {
	start_features functions
	"$TOOL" functions -pid "$TARGET" 'Features\.leaf$' >"$TMP/out"
	matches "$(tail -n 1 "$TMP/out")" "^Features\.leaf +2 +[a-z]+ +.*/features\.ml:$(grep -n 'let\[@inline never\] leaf' \
		"$ROOT/tests/ocaml/features/features.ml" | cut -d: -f1)\$"
	works
}

check_count_of_functions() { # ENGINE
	start_features "fn:, count, engine $1"
	measure "go 50" --engine "$1" --count=fn:Features.direct,fn:Features.pass,fn:Features.raised,fn:Features.c_in_fibre
	holds_of_books 'hits["fn:Features.direct"] == said["caller"]["direct"]["hits"] == 300' \
		'hits["fn:Features.pass"] == said["probe"]["enter"]["hits"]' \
		'hits["fn:Features.raised"] == said["caller"]["raised"]["hits"]' \
		'hits["fn:Features.c_in_fibre"] == said["caller"]["c_in_fibre"]["hits"]'
	works
}

test_count_of_functions() {
	check_count_of_functions bpf
}

test_count_of_functions_inside() {
	check_count_of_functions inside
}

# A call that an exception leaves has no time.
check_time_of_functions() { # ENGINE
	start_features "fn:, time, engine $1"
	measure "go 100" --engine "$1" --time fn:Features.pass
	holds_of_books 'pair["count"] == said["pair"]["enter"]["count"] == 270' \
		'pair["orphan_starts"] + pair["open"] == said["pair"]["enter"]["skipped"] == 30' \
		'said["call"]["pass"]["within_ns"] <= pair["sum_ns"] <= said["call"]["pass"]["around_ns"]'
	works
}

test_time_of_functions() {
	check_time_of_functions bpf
}

test_time_of_functions_inside() {
	check_time_of_functions inside
}

check_count_of_c() { # ENGINE
	start_features "c:, engine $1"
	measure "doze 20" --engine "$1" --count=c:features_doze
	holds_of_books 'hits["c:features_doze"] == 60'
	works
}

test_count_of_c() {
	check_count_of_c bpf
}

test_count_of_c_inside() {
	check_count_of_c inside
}

check_count_of_lines() { # ENGINE
	local leaf pass
	start_features "line:, engine $1"
	leaf=line:features.ml:$(line_of leaf)
	pass=line:features.ml:$(line_of pass)
	measure "go 50" --engine "$1" --count="$leaf,$pass"
	holds_of_books "hits['$leaf'] == said['probe']['leaf']['hits'] == 3000" "hits['$pass'] == said['probe']['enter']['hits']"
	works
}

test_count_of_lines() {
	check_count_of_lines bpf
}

test_count_of_lines_inside() {
	check_count_of_lines inside
}

check_annotate() { # ENGINE
	start_features "annotate, engine $1"
	during "go 20" "counting [0-9]* line" annotate --engine "$1" --budget 100000% --json "$ROOT/tests/ocaml/features/features.ml"
	LEAF=$(line_of leaf) PASS=$(line_of pass) check_out <<'PY'
import os
hits = {line["line"]: line["hits"] for line in t["lines"]}
same(hits[int(os.environ["LEAF"])], said["probe"]["leaf"]["hits"])
same(hits[int(os.environ["PASS"])], said["probe"]["enter"]["hits"])
PY
	works
}

test_annotate() {
	check_annotate bpf
}

test_annotate_inside() {
	check_annotate inside
}

# ---- the collector ----------------------------------------------------------------------------

test_gc_figures() {
	start_features "gc, figures"
	order collect 2
	forget_output
	tell stat
	await_line waiting
	"$TOOL" gc -pid "$TARGET" --for 1ms --json >"$TMP/out"
	tell ''
	await_line end
	cp "$(output_of)" "$TMP/books"
	VERSION=$(ocamlfind ocamlopt -version) check_out <<'PY'
import os
books = dict(line.split() for line in open(sys.argv[2]) if len(line.split()) == 2)
same(len(books), 8)
# OCaml 5.0 and 5.1 do not compact, and have no such figure.
if os.environ["VERSION"].startswith(("5.0.", "5.1.")):
    same(books.pop("compactions"), "0")
same(t["gauges"], {name: int(n) for name, n in books.items()} | {name: n for name, n in t["gauges"].items() if name not in books})
PY
	works
}

check_gc_pauses() { # ENGINE
	start_features "gc, pauses, engine $1"
	background "$TOOL" gc -pid "$TARGET" --engine "$1" --interval 50ms --json >"$TMP/out" 2>"$TMP/counting.err"
	COUNTING=$!
	wait_for '[[ -s $TMP/out ]] || has_ended "$COUNTING"'
	order collect 3
	stop_measuring
	check_out <<'PY'
(minor,) = [pause for pause in t["pauses"] if pause["start"] == "gc:minor"]
same(minor["count"], said["collections"]["minor"]["each"])
same(t["counts"]["gc:major_cycle"], said["collections"]["major"]["n"])
assert minor["count"] >= 30 and minor["sum_ns"] > 0
PY
	works
}

test_gc_pauses() {
	check_gc_pauses bpf
}

test_gc_pauses_inside() {
	check_gc_pauses inside
}

check_gc_phases() { # ENGINE
	start_features "gc:, engine $1"
	measure "collect 3" --engine "$1" --count=gc:major_cycle --time gc:minor
	holds_of_books 'pair["count"] == said["collections"]["minor"]["each"]' 'pair["orphan_stops"] == pair["open"] == 0' \
		'hits["gc:major_cycle"] == said["collections"]["major"]["n"] >= 3'
	works
}

test_gc_phases() {
	check_gc_phases bpf
}

test_gc_phases_inside() {
	check_gc_phases inside
}

# ---- profiles ---------------------------------------------------------------------------------

# Samples are page faults, of which the program knows the number.
test_profile_cpu() {
	start_features "profile --cpu"
	during "touch 1000" sampling "${AT_FAULTS[@]}" profile --cpu --json --hz 4999
	check_out <<'PY'
found = [0, 0]
for stack in t["stacks"]:
    inner_first = stack["frames"][::-1]
    if inner_first[0]["function"] == "Features.touch":
        assert is_whole(inner_first), names(inner_first)
        found["Features.touch_all" in names(inner_first)] += stack["samples"]
same(sum(found), said["pages"]["touch"]["hits"])
assert sum(found) >= 3000, found
PY
	works
}

test_profile_off_cpu() {
	start_features "profile --off-cpu"
	during "doze 100" recording profile --off-cpu --json
	check_out <<'PY'
samples = ns = 0
for stack in t["stacks"]:
    if "features_doze" in names(stack["frames"]):
        assert is_whole(stack["frames"][::-1]), stack
        samples, ns = samples + stack["samples"], ns + stack["ns"]
same(samples, 300)
assert 300 * 2000000 <= ns <= said["wait"]["doze"]["ns"], (ns, said)
same([t["lost"], t["truncated"]], [0, 0])
PY
	works
}

# Of the words in large blocks at most 65536 on each CPU belong to no stack; reading orders and printing take a few more.
test_profile_alloc() {
	start_features "profile --alloc"
	during "words 2000000" sampling profile --alloc --json --hz 9999
	CPUS=$(getconf _NPROCESSORS_CONF) check_out <<'PY'
import os
books = said["words"]["all"]["n"]
assert books - (int(os.environ["CPUS"]) << 16) <= t["words"] <= books + 20000, (t["words"], books)
same([t["words"], t["lost"]], [sum(s["words"] for s in t["stacks"]), 0])
for stack in t["stacks"]:
    assert is_whole(stack["frames"][::-1]), stack
assert books >= 24000000 and "Features.allocate" in names(max(t["stacks"], key=lambda s: s["words"])["frames"])
PY
	works
}

# The samples, which are page faults, of the function for which the collector runs.
test_profile_gc() {
	start_features "profile --gc"
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --cpu --folded >"$TMP/cpu" 2>"$TMP/cpu.err"
	local cpu=$!
	wait_for 'has_text "$TMP/cpu.err" sampling'
	during "grow 2000000" sampling "${AT_FAULTS[@]}" profile --gc --folded
	kill -INT "$cpu"
	wait "$cpu" || fail "$(<"$TMP/cpu.err")"
	grep 'Features\.grow;.*caml_\(alloc_small_dispatch\|gc_dispatch\|check_urgent_gc\|garbage_collection\|poll_gc_work\)' \
		"$TMP/cpu" | sort >"$TMP/collector" || :
	holds test -s "$TMP/collector" || fail "the collector had no page faults: $(<"$TMP/cpu")"
	eq "$(grep 'Features\.grow;' "$TMP/out" | sort)" "$(<"$TMP/collector")" "samples of the collector"
	works
}

# Each word is sampled: all blocks are there, with their words and headers.
check_memprof() { # EVENTS
	start_features "memprof --events $1"
	! is_refused memprof -pid "$TARGET" --rate 1 --json --events "$1" --for 1s || return 0
	during "allocate 500" "profiling\|events" memprof --rate 1 --json --events "$1"
	check_out <<'PY'
frames = {o["stack"]: names(o["frames"]) for o in objects if o["event"] == "stack"}
blocks = [o for o in objects if o["event"].startswith("alloc_") and frames[o["stack"]][0] == "Features.allocate"]
same(len(blocks), 3 * 500)
same({(o["words"], o["samples"]) for o in blocks}, {(3, 4)})
assert all("Features.worker" in frames[o["stack"]] or "Features.serve" in frames[o["stack"]] for o in blocks)
same([n for n in t["lost"].values() if n], [])
PY
	works
}

test_memprof_by_ring() {
	check_memprof ring
}

test_memprof_by_probes() {
	check_memprof probes
}

# ---- record and report ------------------------------------------------------------------------

# The slices of the trace are the pairs and calls of the books, and its instants the hits.
test_record() {
	need_command protoc
	start_features record
	during "go 100" "measuring [0-9]* probe" record --budget none -o "$TMP/trace" --print leaf --time enter,leave --key id \
		--time fn:Features.pass
	holds "$ROOT/tests/record/read_perfetto" "$TMP/trace" "$TMP/db"
	TRACE=$TMP/db check_trace
	works
}

check_trace() {
	echo '{}' >"$TMP/out"
	check_out <<'PY'
import os, sqlite3
sql = lambda query: sqlite3.connect(os.environ["TRACE"]).execute(query).fetchall()
slices = {name: rest for name, *rest in sql("select name, count(*), sum(ns) from slices where category in ('pair', 'function') group by 1")}
for name, books in ("enter,leave", said["pair"]["enter"]), ("Features.pass", said["call"]["pass"]):
    count, ns = slices.pop(name)
    same(count, 270)
    assert books["within_ns"] <= ns <= books["around_ns"], (name, ns, books)
same(slices, {})
same(said["pair"]["enter"]["count"], 270)
args = [json.loads(args)["i"] for args, in sql("select args from instants where name = 'leaf'")]
same([len(args), sum(args)], [said["probe"]["leaf"]["hits"], said["probe"]["leaf"]["sum"]])
same(len(args), 6000)
PY
}

# Hits of one order, CPU samples, which are page faults, of another one.
test_report() {
	local probes='hits = {p["probe"]: p["hits"] for p in t["probes"]["probes"]}
same({name: hits.get(name, 0) for name in said["probe"]}, {name: of["hits"] for name, of in said["probe"].items()})
same(hits["leaf"], 6000)'
	local faults='(touch,) = [f["samples"] for f in t["cpu"]["functions"] if f["function"] == "Features.touch"]
same([touch, t["cpu"]["lost"]], [said["pages"]["touch"]["hits"], 0])
assert touch >= 3000, touch'
	start_features report
	during "go 100" "measuring pid" report --for 10h --json
	check_out <<<"$probes"
	during "touch 1000" "measuring pid" "${AT_FAULTS[@]}" report --for 10h --json
	check_out <<<"$faults"
	works
}

# ---- other tools, doctor and serve ------------------------------------------------------------

test_bpftrace_count() {
	need_command bpftrace bpftool
	start_features "bpftrace, count"
	start_printed -pid "$TARGET" count leaf,enter
	order go 50
	stop_printed
	eq "$(sed -nE 's/^@\[(usdt:.*:)?([^:]*)\]: ([0-9]+)$/\2 \3/p' "$TMP/bpftrace" | sort | xargs)" \
		"enter $(book probe enter hits) leaf $(book probe leaf hits)" "hits"
	works
}

test_bpftrace_args() {
	need_command bpftrace bpftool
	start_features "bpftrace, args"
	start_printed -pid "$TARGET" args leaf
	order go 3
	stop_printed
	eq "$(sed -nE 's/.* leaf i=([0-9]+).*/\1/p' "$TMP/bpftrace" | awk '{ n++; sum += $1 } END { print n, sum }')" \
		"$(book probe leaf hits) $(book probe leaf sum)" "hits and arguments: $(head -n 5 "$TMP/bpftrace")"
	works
}

# In each thread; every tenth start has no stop.
test_bpftrace_time() {
	local sum
	need_command bpftrace bpftool
	start_features "bpftrace, time"
	start_printed -pid "$TARGET" time enter,leave
	order go 100
	stop_printed
	eq "$(sed -n 's/^@pairs: //p' "$TMP/bpftrace")" "$(book pair enter count)" "pairs"
	sum=$(sed -n 's/^@sum_ns: //p' "$TMP/bpftrace")
	holds test "$sum" -ge "$(book pair enter within_ns)"
	holds test "$sum" -le "$(book pair enter around_ns)"
	works
}

# A tool that is killed leaves its counters inside; doctor names and removes them.
test_doctor() {
	local status=0
	start_features doctor
	keep_memory
	check_clean
	start_measuring --engine inside --count=leaf --json
	kill -KILL "$COUNTING"
	wait "$COUNTING" || :
	"$TOOL" doctor -pid "$TARGET" >"$TMP/out" || status=$?
	matches "$status $(<"$TMP/out")" "^0 note: .*counters|^0 .*inside"
	"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/out" || fail "status $?: $(<"$TMP/out")"
	check_clean
	measure "go 10" --count=leaf --engine bpf
	holds_of_books 'hits["leaf"] == said["probe"]["leaf"]["hits"] == 600'
	works
}

test_serve() {
	start_features serve
	start_server -pid "$TARGET" --count=leaf --time enter,leave --budget none
	order go 100
	eq "$(hits_of leaf)" "$(book probe leaf hits)" "hits"
	eq "$(json_of api/v1/status 'it["targets"][0]["pairs"][0]["count"]')" "$(book pair enter count)" "pairs"
	end_server
	eq "$SERVER_STATUS" 0 "status"
	works
}

run_tests "$@"
