#!/usr/bin/env bash
# Arguments of probes: filters, keys, histograms, printed hits; what they say against what the program
# says of itself (tests/ocaml/requests.ml).
#
# needs: fixtures ocaml/compared ocaml/requests
# ocaml5: all
# smoke: test_filter
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

REQUESTS=$O/tests/ocaml/requests

start_requests() { # N
	need_counting
	start_target "$REQUESTS" "$1"
	await_line ready
}

# Measure N requests with FLAGs.
measure_requests() { # N FLAG...
	start_requests "$1"
	shift
	start_measuring "$@"
	tell go
	await_line end 60
	stop_measuring
}

# The number that the program says NAME is.
told() { # NAME
	sed -n "s/^$1=//p" "$(output_of)"
}

# What EXPRESSION is of `t`, the last object of $TMP/counts, and `hits`, those that were printed.
of_json() { # EXPRESSION
	python3 -c '
import json, sys
objects = [json.loads(line) for line in open(sys.argv[1])]
t, hits = objects[-1], [o for o in objects if o["type"] == "hit"]
print(eval(sys.argv[2]))' "$TMP/counts" "$1"
}

# ---- filters ------------------------------------------------------------------------------------

test_filter() {
	measure_requests 2000 --count=request_start --filter 'arg0 > 100 && arg1 == "GET"' --json
	eq "$(of_json 't["probes"][0]["hits"]')" "$(told gets_above_100)" "hits"
	eq "$(of_json 't["probes"][0]["hits"] + t["losses"]["filtered"]')" "$(told starts)" "all"
	# What was rejected has cost its time, too.
	of_json 't["cpu_overhead"] * t["span_s"] * 1e9 / t["cost_per_hit_ns"]' >"$TMP/cost"
	eq "$(printf '%.0f' "$(<"$TMP/cost")")" "$(told starts)" "hits that the cost line knows of"
}

test_filter_by_strings_and_thread() {
	measure_requests 2000 --count=request_start --by-thread --json \
		--filter '(arg1 ^= "PO" || arg2 == "request 1000") && !(arg0 < 500)'
	# 500 multiples of 3 from 501 on, every 30th twice; and 1000, which is begun twice.
	eq "$(of_json '[(p["hits"], p["pid"], p["comm"]) for p in t["probes"]]')" \
		"[($((500 + 50 + 2)), $TARGET, 'requests')]"
}

# A start that is filtered out does not count as a start, and its stop does not count as an orphan.
test_filter_of_pairs() {
	measure_requests 2000 --time request_start,request_stop --key arg0 --filter 'arg0 >= 1000' --json
	eq "$(of_json 't["pairs"][0]["count"], t["pairs"][0]["orphan_starts"], t["pairs"][0]["open"]')" \
		"(950, 100, 50)"
	eq "$(of_json 't["pairs"][0]["orphan_stops"]')" "$(told orphan_stops)" "orphan stops"
}

# Measure the filters of the table's lines FIRST to LAST, one tool each, while every value is passed once.
measure_comparisons() { # FIRST LAST
	local i pids=()
	for ((i = $1; i <= $2; i++)); do
		background "$TOOL" attach --budget none -pid "$TARGET" --count --filter "$(sed -n "${i}s/\t.*//p" "$TMP/table")" \
			--json >"$TMP/out.$i" 2>"$TMP/err.$i"
		pids+=($!)
	done
	wait_for "[[ \$(cat $TMP/err.* | grep -c 'counting 5 probes') -eq $2 ]]"
	forget_output
	tell go
	await_line end
	kill -INT "${pids[@]}"
	wait "${pids[@]}"
}

# Ints, floats, int64s and strings, each with literals of all kinds, against OCaml's own verdicts.
test_comparisons_as_ocaml_has_them() {
	local n i most=20
	need_counting
	"$O/tests/ocaml/compared" table >"$TMP/table"
	n=$(wc -l <"$TMP/table")
	[[ $n -gt 150 ]] || fail "$n comparisons"
	start_target "$O/tests/ocaml/compared"
	await_line ready
	for ((i = 1; i <= n; i += most)); do
		measure_comparisons "$i" $((i + most - 1 < n ? i + most - 1 : n))
	done
	python3 - "$TMP" >"$TMP/measured" <<-'EOF'
		import json, sys
		for i, line in enumerate(open(sys.argv[1] + "/table"), 1):
		    total = json.loads(open(f"{sys.argv[1]}/out.{i}").read().splitlines()[-1])
		    hits = {p["name"]: p["hits"] for p in total["probes"]}
		    print(line.split("\t")[0], " ".join(str(hits[name]) for name in ("int", "float", "int64", "string", "block")),
		          total["losses"]["filter_mismatches"], sep="\t")
	EOF
	holds diff "$TMP/table" "$TMP/measured" || fail "counts differ from the program's"
}

# A filter of the wrong type says so, in every form of output.
test_filter_of_another_type() {
	local why="arg1 of probe 'number' is a string and is compared with a number"
	measure_requests 50 --count=number --filter 'arg1 > 50'
	grep -Eq '^number +0 ' "$TMP/counts" || fail "$(<"$TMP/counts")"
	grep -qxF "50 hits rejected by the filter" "$TMP/counts" || fail "$(<"$TMP/counts")"
	grep -qxF "50 hits with an argument of another type than the filter's: $why" "$TMP/counts" ||
		fail "$(<"$TMP/counts")"
	quit_target
	measure_requests 50 --count=number --filter 'arg1 > 50' --json
	eq "$(of_json 't["losses"]["filtered"], t["losses"]["filter_mismatches"]')" "(50, 50)"
	eq "$(of_json 't["losses"]["filter_mismatch"]')" "$why"
	quit_target
	# What is behind a `!` is true, and is counted all the same.
	measure_requests 50 --count=number --filter '!(arg0 == "a")' --csv
	eq "$(awk -F, '{ print NF }' "$TMP/counts" | sort -u)" 34 "columns"
	eq "$(awk -F, '$4 == "probe" { print $5, $11 }' "$TMP/counts")" "number 50"
	eq "$(awk -F, '$4 == "lost" { print $5, $11, $29 }' "$TMP/counts")" \
		"filter_mismatches 50 arg0 of probe 'number' is an int and is compared with a string"
	quit_target
	measure_requests 50 --count=number --filter 'arg0 > 0.5 && arg1 != "x"' --json
	eq "$(of_json 't["losses"]["filter_mismatches"], "filter_mismatch" in t["losses"]')" "(0, False)"
}

# ---- keys ---------------------------------------------------------------------------------------

check_pairs() {
	eq "$(of_json 't["pairs"][0]["count"]')" "$(told pairs)" "pairs"
	eq "$(of_json 't["pairs"][0]["starts"]')" "$(told starts)" "starts"
	eq "$(of_json 't["pairs"][0]["orphan_stops"]')" "$(told orphan_stops)" "orphan stops"
	eq "$(of_json 'sum(b["count"] for b in t["pairs"][0]["buckets"])')" "$(told pairs)" "buckets"
	eq "$(of_json '[t["pairs"][0][n] for n in ("map_full", "not_keyed")]')" \
		"[0, 0]"
}

test_keys_cross_threads() {
	local key
	for key in arg0 arg2; do
		measure_requests 5000 --time request_start,request_stop --key "$key" --json
		check_pairs
		eq "$(of_json 't["pairs"][0]["orphan_starts"]')" "$(told orphan_starts)" "orphan starts"
		eq "$(of_json 't["pairs"][0]["open"]')" "$(told open)" "open"
		quit_target
	done
	# By thread there is not one pair.
	measure_requests 1000 --time request_start,request_stop --key none --json
	eq "$(of_json 't["pairs"][0]["count"]')" 0 "pairs by thread"
}

# What is open when the process ends is an orphan.
test_keys_end_with_their_process() {
	start_requests 3000
	start_measuring --time request_start,request_stop --key arg0 --json
	tell go
	await_line end 60
	tell quit
	wait "$COUNTING"
	finish_target
	check_pairs
	eq "$(of_json 't["pairs"][0]["orphan_starts"]')" "$(($(told orphan_starts) + $(told open)))"
	eq "$(of_json 't["pairs"][0]["open"]')" 0 "open"
}

# Ids of another type have no partner, and are counted as such.
test_key_that_is_none() {
	measure_requests 100 --time request_start,number --key arg1 --json
	eq "$(of_json 't["pairs"][0]["count"], t["pairs"][0]["orphan_stops"], t["pairs"][0]["open"]')" \
		"(0, 100, 2)"
}

# ---- histograms ---------------------------------------------------------------------------------

test_histogram() {
	measure_requests 3000 --count=number --hist arg0 --json
	eq "$(of_json 't["histograms"][0]["name"], t["histograms"][0]["arg"]')" "('number', 0)"
	eq "$(of_json 't["histograms"][0]["count"]')" 3000 "count"
	eq "$(of_json 't["histograms"][0]["sum"]')" "$(told sum)" "sum"
	eq "$(of_json 't["histograms"][0]["min"]')" "$(told smallest)" "min"
	eq "$(of_json 't["histograms"][0]["max"]')" "$(told largest)" "max"
	eq "$(of_json 't["histograms"][0]["not_int"]')" 0 "not int"
	eq "$(of_json 'sum(b["count"] for b in t["histograms"][0]["buckets"])')" 3000 "all buckets"
	eq "$(of_json 'sum(b["count"] for b in t["histograms"][0]["buckets"] if b["below"] <= 0)')" \
		"$(told negative)" "buckets below 0"
	# Every number is in its bucket, and a bucket is an eighth of an octave wide at most.
	eq "$(of_json '[b for b in t["histograms"][0]["buckets"] if b["count"] != sum(
		b["from"] <= (n if n % 2 == 0 else -3 * n) < b["below"] for n in range(3000))]')" "[]"
	eq "$(of_json '[b for b in t["histograms"][0]["buckets"]
		if b["below"] - b["from"] > max(1, abs(b["from"]) / 8, abs(b["below"]) / 8)]')" "[]"
}

test_histogram_as_text_and_csv() {
	measure_requests 40 --count=number,request_stop --hist arg1
	grep -Eq '^request_stop status: 43 ints, mean 234.884, min 200, max 500, sum 10100; not an int: 0$' "$TMP/counts" ||
		fail "$(<"$TMP/counts")"
	grep -Eq '^number text: 0 ints; not an int: 40$' "$TMP/counts" || fail "$(<"$TMP/counts")"
	grep -Eq '^ +192 \.\. 207 +38 \|@{40}\|$' "$TMP/counts" || fail "$(<"$TMP/counts")"
	grep -Eq '^ +480 \.\. 511 +5 \|@+ +\|$' "$TMP/counts" || fail "$(<"$TMP/counts")"
	quit_target
	measure_requests 40 --count=request_stop --hist arg1 --csv
	eq "$(awk -F, '{ print NF }' "$TMP/counts" | sort -u)" 34 "columns"
	eq "$(awk -F, '$4 == "histogram" { print $5, $11, $24, $25, $26, $27, $28 }' "$TMP/counts")" \
		"request_stop 43 1 10100 200 500 0"
	eq "$(awk -F, '$4 == "bucket" { print $11, $26, $27 }' "$TMP/counts")" "38 192 207
5 480 511"
}

# Every int from the smallest to the largest has its line, and there are no others.
test_histogram_across_0_as_text() {
	measure_requests 4 --count=number --hist arg0
	eq "$(sed -n 's/^ *\(-\?[0-9]\+\)  .* \([0-9]\+\) |.*|$/\1=\2/p' "$TMP/counts" | xargs)" \
		"-9=1 -8=0 -7=0 -6=0 -5=0 -4=0 -3=1 -2=0 -1=0 0=1 1=0 2=1"
	eq "$(grep -c ' |.*|$' "$TMP/counts")" 12 "lines"
}

# ---- printed hits -------------------------------------------------------------------------------

# Every byte is printable and the program's text is there, escaped.
check_harmless() {
	eq "$(LC_ALL=C grep -c '[^ -~]' "$TMP/counts" || :)" 0 "lines with other than printable characters"
}

test_print() {
	local line='^[0-9]+\.[0-9]{6} [0-9]+/[0-9]+ requests '
	measure_requests 200 --print number,request_stop --limit 0 --count
	check_harmless
	eq "$(grep -Ec "${line}request_stop " "$TMP/counts")" "$(told stops)" "stops"
	eq "$(grep -Ec "${line}number " "$TMP/counts")" 200 "numbers"
	# One value, and not the character of that code behind it.
	grep -qF ' number n=88 text="' "$TMP/counts" || fail "$(grep ' number n=88' "$TMP/counts")"
	grep -Eq "^[0-9.]+ $TARGET/[0-9]+ requests request_stop id=199 status=200 name=\"request 199\"$" "$TMP/counts" ||
		fail "$(<"$TMP/counts")"
	grep -qF 'number n=-597 text="\027]0;199\007\r\127\155[2J\194\15531m\226\128\174"' "$TMP/counts" ||
		fail "$(grep number "$TMP/counts" | tail -3)"
	grep -E "$line" "$TMP/counts" | sort -c -s -n || fail "not in the order of time"
	grep -q "^$((200 + $(told stops))) hits printed, 0 suppressed by --limit, 0 dropped (buffer full)$" \
		"$TMP/counts" || fail "$(tail -3 "$TMP/counts")"
	# Next to the table of all probes.
	grep -Eq "^request_start +$(told starts) " "$TMP/counts" || fail "$(tail -9 "$TMP/counts")"
}

test_print_as_json() {
	measure_requests 300 --print 'num.*' --filter 'arg0 < -800' --limit 0 --json
	check_harmless
	# -3 * 267 = -801.
	eq "$(of_json '[h["args"][0] for h in hits]')" \
		"$(python3 -c 'print([-3 * n for n in range(267, 300, 2)])')"
	eq "$(of_json 'set(h["probe"] + str(h["pid"]) for h in hits)')" "{'number$TARGET'}"
	# The text is not UTF-8: byte for byte.
	eq "$(of_json 'bytes.fromhex(hits[0]["args"][1]["hex"])')" \
		"$(python3 -c 'print(b"\x1b]0;267\x07\r\x7f\x9b[2J\xc2\x9b31m\xe2\x80\xae")')"
	eq "$(of_json 't["printed"] - len(hits)')" 0 "printed"
	eq "$(of_json 'sorted(h["time_s"] for h in hits) == [h["time_s"] for h in hits]')" True "order"
}

test_print_as_csv() {
	measure_requests 50 --print request_stop --limit 0 --csv
	eq "$(head -1 "$TMP/counts" | cut -d, -f1,29)" "type,args"
	python3 -c '
import csv, sys
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["type"] == "hit"]
print(len(rows), rows[0]["name"], rows[0]["args"])' "$TMP/counts" >"$TMP/rows"
	eq "$(<"$TMP/rows")" "$(told stops) request_stop id=0 status=200 name=\"request 0\""
}

# Every hit is printed, above the limit, or has found no room.
test_limit() {
	measure_requests 20000 --print 'request_.*' --count=request_start,request_stop --limit 50 --json
	eq "$(of_json 'sum(p["hits"] for p in t["probes"])')" "$(($(told starts) + $(told stops)))" "hits"
	eq "$(of_json 'len(hits) + t["losses"]["prints_dropped"] + t["losses"]["prints_limited"]')" \
		"$(($(told starts) + $(told stops)))" "hits accounted for"
	# No second has more than 50; it is not known when seconds begin.
	eq "$(of_json '50 <= len(hits) <= 50 * (int(t["span_s"]) + 2)')" True "$(of_json 'len(hits), t["span_s"]')"
	eq "$(of_json 't["losses"]["prints_limited"] > 0')" True "limited"
}

# The reader stands still: hits find no room, and are counted.
test_reader_that_is_too_slow() {
	start_requests 40000
	start_measuring --print 'request_.*' --count=request_start,request_stop --limit 0 --json
	kill -STOP "$COUNTING"
	tell go
	await_line end 60
	kill -CONT "$COUNTING"
	stop_measuring
	eq "$(of_json 't["losses"]["prints_dropped"] > 0')" True "dropped"
	eq "$(of_json 'len(hits) + t["losses"]["prints_dropped"]')" \
		"$(($(told starts) + $(told stops)))" "hits accounted for"
}

test_closed_pipe() {
	local status=0
	start_requests 3000
	{
		"$TOOL" attach --budget none -pid "$TARGET" --print number --limit 0 2>"$TMP/err" || status=$?
		echo "$status" >"$TMP/status"
	} | {
		wait_for 'has_text "$TMP/err" "measuring 1 probe "'
		tell go
		head -n 3
	} >"$TMP/out"
	eq "$(wc -l <"$TMP/out")" 3 "lines"
	# By SIGPIPE, after having detached.
	eq "$(<"$TMP/status")" 141 "status: $(<"$TMP/err")"
	eq "$(int3_count "$TARGET")" 0 "int3 left"
	await_line end 60
}

test_trace_from_the_first_instruction() {
	need_counting
	"$TOOL" trace -prog "$REQUESTS" --print request_start --limit 0 --filter 'arg0 == 0' -- 5 \
		<<<'go' >"$TMP/out" 2>"$TMP/err"
	eq "$(grep -c 'request_start id=0 meth="POST" name="request 0"' "$TMP/out")" 2 "$(cat "$TMP/out" "$TMP/err")"
}

# With handlers switched on by the same command, every process of a program, also later ones.
test_together_with_actions_and_programs() {
	need_counting
	start_measuring --exe "$REQUESTS" --print request_stop --filter 'arg0 = 1' --limit 0
	start_target "$REQUESTS" 10
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable-all --count=number --filter 'arg0 = 2' --for 300ms >"$TMP/count" &
	tell go
	await_line end
	wait $!
	stop_measuring
	eq "$(grep -c "$TARGET/.* request_stop id=1 status=200 name=\"request 1\"" "$TMP/counts")" 1 "$(<"$TMP/counts")"
}

# What is loaded later is printed, too. Each probe has two sites, the last in three files.
test_files_loaded_later() {
	local binaries=$O/tests/fixtures/binaries
	need_counting
	start_target "$binaries/host"
	await_line ready
	start_measuring --print '.*_only' --count=reused --limit 0
	tell "load $binaries/plugin.so"
	await_line 'done'
	wait_for 'has_text "$TMP/counting.err" "more sites?, of newly loaded files"'
	forget_output
	tell 'go 3'
	await_line 'done'
	stop_measuring
	eq "$(grep -c ' plugin_only' "$TMP/counts")" "$(grep -c ' host_only' "$TMP/counts")" "$(<"$TMP/counts")"
	eq "$(grep -c ' plugin_only' "$TMP/counts")" 6 "$(<"$TMP/counts")"
	grep -Eq '^reused +18 ' "$TMP/counts" || fail "$(<"$TMP/counts")"
}

# Two capabilities suffice.
test_privileges() {
	need_counting
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$REQUESTS" "$TMP"
	touch "$TMP/counts"
	start_target setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
		--inh-caps=-all "$TMP/requests" 30
	await_line ready
	background setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+bpf,+perfmon \
		--ambient-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon \
		"$TMP/ocaml-probes" attach --budget none -pid "$TARGET" --time request_start,request_stop --key arg2 \
		--count=number --hist arg0 --filter 'arg0 >= 0' --print request_start --limit 0 --json \
		>"$TMP/counts" 2>"$TMP/counting.err"
	COUNTING=$!
	wait_for 'has_text "$TMP/counting.err" "measuring [0-9]* probes?" || ! kill -0 "$COUNTING"'
	tell go
	await_line end
	stop_measuring
	eq "$(of_json 'len(hits)')" "$(told starts)" "printed"
	eq "$(of_json 't["pairs"][0]["count"], t["histograms"][0]["count"]')" "($(told pairs), 15)"
}

# ---- what cannot be -----------------------------------------------------------------------------

test_wrong_use() {
	local v1=$O/tests/fixtures/v1 t
	start_target "$REQUESTS" 10
	await_line ready
	t="attach -pid $TARGET"
	check_error 2 "filter arg0 >: column 7: a number" $t --count=number --filter 'arg0 >'
	check_error 2 "filter arg0 .= 3: column 9: .= .starts with. is followed" $t --count=number --filter 'arg0 ^= 3'
	check_error 2 "filter 1foo == 1: column 1" $t --print number --filter '1foo == 1'
	check_error 2 "probe 'number': no argument 'foo' for the filter: it has n, text in $REQUESTS" \
		$t --print number --filter 'foo == 1'
	check_error 2 "require --count, --time or --print" $t -enable number --filter 'arg0 == 1'
	check_error 2 "'number': no arg2 for the filter: it has 2 arguments in /" \
		$t --count=number --filter 'arg2 == 1'
	check_error 2 "'number': no arg3 for the filter: it has 2 arguments in /" \
		$t --count --filter 'arg3 == 1'
	grep -qx "hint: none of the 3 probes has suitable arguments" "$TMP/err" || fail "$(<"$TMP/err")"
	check_error 2 "'number': no arg2 for the filter" \
		$t --count --time number,request_stop --filter 'arg2 == 1'
	check_error 2 "'number': no arg2 for the key" $t --count --time request_start,number --key arg2
	check_error 2 "'number': no arg3 for the histogram" $t --count --hist arg3
	grep -qx "hint: none of the 3 probes has suitable arguments" "$TMP/err" || fail "$(<"$TMP/err")"
	check_error 2 "no arg5 for the key: it has 3 arguments" \
		$t --time request_start,request_stop --key arg5
	check_error 2 "no arg3 for the histogram" $t --count=request_stop --hist arg3
	check_error 2 "argument arg16: the last" $t --count=number --hist arg16
	check_error 2 "arg0, arg1, ..., or its name is expected" $t --count=number --hist 0
	check_error 2 "--key requires --time" $t --count --key arg0
	check_error 2 "--depth and --key" $t --time request_start,request_stop --depth 2 --key arg0
	check_error 2 "--hist needs --count=NAME" $t --time request_start,request_stop --hist arg0
	check_error 2 "--limit requires --print" $t --count --limit 5
	check_error 2 "not a number of hits" $t --print number --limit -5
	check_error 2 "--filter: given twice" $t --count --filter 'arg0 == 1' --filter 'arg0 == 1'
	check_error 2 "probe 'numbre': no such probe" $t --print numbre
	check_error 2 "matches no probe" $t --print 'x.*'
	check_error 2 "--keep excludes --print and --hist" $t --count=number --hist arg0 --keep x
	eq "$(int3_count "$TARGET")" 0 "int3"
	start_target "$v1" --wait
	await_line ready
	check_error 2 "'plain': no arg0 for the filter: it has 0 arguments" \
		attach -pid "$TARGET" --count=plain --filter 'arg0 == 1'
}

# A probe that does not have the argument is left out, by name, and what is left is measured.
test_probes_without_the_argument() {
	local why="probe 'number': no arg2 for the filter: it has 2 arguments in $REQUESTS"
	measure_requests 60 --count --filter 'arg2 ^= "request 5"' --json
	eq "$(grep -c "warning: not measured: $why$" "$TMP/counting.err")" 1 "$(<"$TMP/counting.err")"
	grep -q "counting 2 probes (2 sites)" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	# 5 and 50 to 59; 50 is begun twice. Of all starts and stops, and of nothing else, there is a verdict.
	eq "$(of_json '[p["name"] for p in t["probes"]]')" "['request_start', 'request_stop']"
	eq "$(of_json 't["probes"][0]["hits"]')" 12
	eq "$(of_json 'sum(p["hits"] for p in t["probes"]) + t["losses"]["filtered"]')" \
		$(($(told starts) + $(told stops))) "hits"
	quit_target
	# Also of those that are named, and printed; each by its sites.
	measure_requests 60 --count=number,request_stop --print 'number\|request_start' --by-site \
		--filter 'arg2 == "request 50"' --json
	eq "$(grep -c "warning: not measured: $why$" "$TMP/counting.err")" 1 "$(<"$TMP/counting.err")"
	eq "$(of_json '[(p["name"], p["hits"]) for p in t["probes"]]')" "[('request_stop', 1)]"
	eq "$(of_json '[h["probe"] for h in hits]')" "['request_start', 'request_start']"
	quit_target
	# What ends a pair goes on doing so.
	measure_requests 60 --count --time request_start,number --filter 'arg2 ^= "request"' --json
	eq "$(grep -c "warning: not counted: $why$" "$TMP/counting.err")" 1 "$(<"$TMP/counting.err")"
	eq "$(of_json '[p["name"] for p in t["probes"]]')" "['request_start', 'request_stop']"
	eq "$(of_json 't["pairs"][0]["count"]')" 60 "pairs"
	quit_target
	# Its hits are exact without a histogram, too.
	measure_requests 60 --count --hist arg2 --json
	grep -q "warning: counted without a histogram: probe 'number': no arg2" "$TMP/counting.err" ||
		fail "$(<"$TMP/counting.err")"
	eq "$(of_json '[p["hits"] for p in t["probes"]][0], [h["name"] for h in t["histograms"]]')" \
		"(60, ['request_start', 'request_stop'])"
}

# The sites of one probe have different arguments; some operands cannot be read or are malformed.
test_hostile_operands() {
	local fixture=$TMP/fixture
	need_counting
	sed 's/8@%rax 8@%rbx/x@%rax 8@%rbx/; s/8@$5 8@(%rsp)/8@sy 8@(%rsp)/' "$O/tests/fixtures/values" >"$fixture"
	chmod +x "$fixture"
	start_target "$fixture" --wait
	await_line ready
	check_error 2 "'ints': $fixture.*x@%rax" attach -pid "$TARGET" --print ints
	check_error 2 "'differing': no arg1 for the filter: it has 1 argument " \
		attach -pid "$TARGET" --count=differing --filter 'arg1 == 15'
	check_error 2 "'places': arg1 is in a place that cannot be read, in $fixture .'8@sy'." \
		attach -pid "$TARGET" --count=places --filter 'arg1 == 15'
	# What is not asked for does not matter.
	start_measuring --count --print places --limit 0
	tell 'go 2'
	await_line 'done'
	stop_measuring
	eq "$(grep -c ' places .* ? 4 -2 3 7 8 9 10 11 12 -1 -2 ' "$TMP/counts")" 2 "$(<"$TMP/counts")"
	grep -Eq '^ints +2 ' "$TMP/counts" || fail "$(<"$TMP/counts")"
}

# The verifier takes seconds for a filter with strings, of a CPU that it may have to share.
run_tests "$@"
