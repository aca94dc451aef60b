#!/usr/bin/env bash
# Functions measured by name, in programs without probes: by trace and kept meters, by `serve`, by `top`.
# The program counts its own calls.
#
# needs: fixtures serve ocaml
# uses: all-blocks
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

NAME=ocp_test_$PPID
UNPROBED=$O/tests/ocaml/unprobed
BOTH='fn:Unprobed.\(find\|risky\)'

# A copy of the program, so that nobody else's uprobes are on the file. Sets PROGRAM.
copy_program() {
	PROGRAM=$(own_copy "$UNPROBED")
}

start_program() {
	start_target "$PROGRAM"
	await_line ready
}

obey() { # LINE [PID]
	forget_output "${2:-$TARGET}"
	tell "$1" "${2:-$TARGET}"
	await_line 'done' 20 "${2:-$TARGET}"
}

# "NAME CALLS" lines of what the targets that have ended say, all together.
own_calls() {
	cat "$TMP"/target.*/out | sed -n 's/^\([a-z]*\) calls=/\1 /p' |
		awk '{ n[$1] += $2 } END { for (name in n) print name, n[name] }' | LC_ALL=C sort
}

calls_of() { # FUNCTION
	own_calls | sed -n "s/^$1 //p"
}

# A value in the last line of FILE, by a Python expression of `it`.
value_in() { # FILE EXPRESSION
	tail -n 1 "$1" | python3 -c 'import json, sys
it = json.load(sys.stdin)
probes = {p["name"]: p["hits"] for p in it["probes"]}
pairs = {p["start"]: p for p in it["pairs"]}
print(eval(sys.argv[1]))' "$2"
}

# ---- trace and attach ---------------------------------------------------------------------------

test_trace() {
	need_counting
	copy_program
	printf '%s\n' 'go 100' 'threads 30' quit |
		"$TOOL" trace -prog "$PROGRAM" --count="$BOTH" --time fn:Unprobed.work --time fn:Unprobed.risky --json \
			2>"$TMP/err" >"$TMP/out"
	eq "$(value_in "$TMP/out" probes)" "{'fn:Unprobed.find': 240, 'fn:Unprobed.risky': 160}" "hits"
	eq "$(grep -E '^(find|risky)' "$TMP/out")" "find calls=240
risky calls=160" "what the program says"
	eq "$(value_in "$TMP/out" '[(p["start"], p["stop"], p["count"], p["orphan_starts"], p["open"]) for p in it["pairs"]]')" \
		"[('fn:Unprobed.work', '', 3, 0, 0), ('fn:Unprobed.risky', '', 80, 80, 0)]" "pairs"
}

# The sums over sites, threads and processes are the program's; each row is where it happened.
test_splits() {
	local split
	need_counting
	copy_program
	for split in site thread process; do
		printf '%s\n' 'go 10' 'threads 20' 'fork 30' quit |
			"$TOOL" trace -prog "$PROGRAM" --count=fn:Unprobed.find --by-$split --children --csv 2>"$TMP/err" |
			grep '^total,.*,probe,' >"$TMP/$split"
	done
	matches "$(<"$TMP/site")" 'fn:Unprobed\.find,[^,]*/unprobed,0x[0-9a-f]+,camlUnprobed__find_[0-9]+,' "site"
	eq "$(cut -d, -f11 "$TMP/site")" 120 "hits of the one site"
	# Main thread, two threads, and the child's.
	eq "$(cut -d, -f11 "$TMP/thread" | sort -n | tr '\n' ' ')" "15 30 30 45 " "hits of threads"
	eq "$(cut -d, -f11 "$TMP/process" | sort -n | tr '\n' ' ')" "45 75 " "hits of processes"
}

test_intervals() {
	local lines reader
	need_counting
	copy_program
	start_program
	background "$TOOL" attach --budget none -pid "$TARGET" --count=fn:Unprobed.find --time fn:Unprobed.work --interval 100ms --json \
		2>"$TMP/err" >"$TMP/out"
	reader=$!
	wait_for '[[ -s $TMP/out ]]'
	obey 'go 100'
	obey 'go 50'
	lines=$(grep -c . "$TMP/out")
	wait_for '[[ $(grep -c . "$TMP/out") -ge lines+2 ]]'
	quit_target
	wait "$reader"
	eq "$(python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
for kind in "interval", "total":
    ours = [it for it in lines if it["type"] == kind]
    print(kind, sum(it["probes"][0]["hits"] for it in ours), sum(it["pairs"][0]["count"] for it in ours))' "$TMP/out")" \
		"interval 225 2
total 225 2" "hits and calls"
	eq "$(calls_of find)" 225
}

test_exe() {
	local reader
	need_counting
	copy_program
	start_program
	background "$TOOL" attach --budget none --exe "$PROGRAM" --count=fn:Unprobed.find --csv 2>"$TMP/err" >"$TMP/out"
	wait_for 'has_text "$TMP/err" "counting"'
	reader=$!
	obey 'go 100'
	start_program
	obey 'go 10'
	kill -INT "$reader"
	wait "$reader" || eq "$?" 130 "status after Ctrl-C"
	eq "$(sed -n 's/^total,.*,probe,fn:Unprobed.find,,,,,,\([0-9]*\),.*/\1/p' "$TMP/out")" 165 "hits"
}

# A call is open when the tool ends, and its end is seen by whoever reads the kept meter later.
test_keep() {
	need_counting
	trap '[[ ! -e /sys/fs/bpf/ocaml-probes/$NAME ]] || "$TOOL" detach "$NAME" >/dev/null 2>&1' EXIT
	copy_program
	start_program
	"$TOOL" attach -pid "$TARGET" --keep "$NAME" --count=fn:Unprobed.find --time fn:Unprobed.held --time fn:Unprobed.work \
		2>"$TMP/err"
	tell hold
	await_line held
	"$TOOL" read "$NAME" --json >"$TMP/out"
	eq "$(value_in "$TMP/out" '[(p["start"], p["stop"], p["count"], p["open"]) for p in it["pairs"]]')" \
		"[('fn:Unprobed.held', '', 0, 1), ('fn:Unprobed.work', '', 0, 0)]" "pairs while it is held"
	obey 'go 20'
	"$TOOL" read "$NAME" --json >"$TMP/out"
	eq "$(value_in "$TMP/out" 'pairs["fn:Unprobed.held"]["count"], pairs["fn:Unprobed.held"]["open"], probes')" \
		"(1, 0, {'fn:Unprobed.find': 30})" "when it was released"
	tell hold
	await_line held
	"$TOOL" detach "$NAME" --csv >"$TMP/out"
	grep -q '^total,.*,pair,fn:Unprobed.held,,,,,,1,.*,0,0,0,1,' "$TMP/out" || fail "$(<"$TMP/out")"
	eq "$("$TOOL" list --kept 2>/dev/null | grep -c "^$NAME " || :)" 0 "kept meters"
	obey 'go 10'
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- serve --------------------------------------------------------------------------------------

# The sum of the samples of METRIC that have all LABEL="VALUE" pairs.
metric() { # METRIC [LABEL="VALUE"...]
	get metrics | awk -v metric="$1" -v labels="$(printf '%s\n' "${@:2}")" '
		BEGIN { n_labels = split(labels, label, "\n") }
		{
			split($0, parts, /[{ ]/)
			for (i = 1; i <= n_labels; i++)
				if (label[i] != "" && !index($0, label[i])) next
			if (parts[1] == metric) sum += $NF
		}
		END { print sum + 0 }'
}

await_metric() { # VALUE METRIC [LABEL="VALUE"...]
	local tries=400
	asserted
	until [[ $(metric "${@:2}") = "$1" ]]; do
		((tries-- > 0)) || fail "${*:2} is $(metric "${@:2}"), not $1: $(<"$TMP/serve.err")"
		pause 0.05
	done
}

FIND='probe="fn:Unprobed.find"'

# Processes that run already, and those that start later. Pairs of functions have no label `stop`.
test_serve_exe() {
	local first
	need_counting
	copy_program
	start_program
	first=$TARGET
	start_server --exe "$PROGRAM" --count=fn:Unprobed.find --time fn:Unprobed.work --time fn:Unprobed.risky --label-pid
	obey 'go 100'
	start_program
	obey 'go 40'
	await_metric 2 ocaml_probes_processes
	await_metric 150 ocaml_probes_hits_total "$FIND" "pid=\"$first\""
	await_metric 60 ocaml_probes_hits_total "$FIND" "pid=\"$TARGET\""
	eq "$(metric ocaml_probes_pair_duration_seconds_count 'start="fn:Unprobed.work"')" 2 "calls of work"
	eq "$(metric ocaml_probes_pair_duration_seconds_count 'start="fn:Unprobed.risky"')" 70 "calls of risky"
	get metrics -o "$TMP/text"
	eq "$(grep -c 'stop="' "$TMP/text" || :)" 0 "labels called stop"
	eq "$(grep -c '^ocaml_probes_enabled{' "$TMP/text" || :)" 0 "states of handlers, which functions lack"
	eq "$(json_of api/v1/status '[(p["start"], p["stop"]) for p in it["targets"][0]["pairs"]]')" \
		"[('fn:Unprobed.work', ''), ('fn:Unprobed.risky', '')]" "pairs in the status"
	eq "$(json_of api/v1/history/pairs '[(p["start"], p["stop"]) for p in it["targets"][0]["pairs"]]')" \
		"[('fn:Unprobed.work', ''), ('fn:Unprobed.risky', '')]" "pairs in the history"
	eq "$(json_of api/v1/status 'sorted({p["handler"] for p in it["targets"][0]["probes"]})')" "['none']" "handlers"
	end_server
	eq "$SERVER_STATUS" 0 "status of serve"
}

# What Prometheus takes: pairs of functions beside pairs of probes in one family.
test_formats() {
	local exe now
	need_counting
	need_command promtool
	/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null || skip "python3 has no prometheus_client"
	exe=$(own_copy "$O/tests/ocaml/steady")
	start_server --exe "$exe" --count=fn:Steady.hit_beat --time fn:Steady.work --time work_start,work_stop
	get metrics >"$TMP/text"
	get metrics -H 'Accept: application/openmetrics-text;version=1.0.0' >"$TMP/open"
	promtool check metrics <"$TMP/text" || fail "promtool refuses the metrics"
	eq "$(/usr/bin/python3 - "$TMP/open" <<-'END'
		import sys
		from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
		for family in parse(open(sys.argv[1]).read()):
		    for s in family.samples:
		        if s.name == "ocaml_probes_pair_duration_seconds_count":
		            print(*(f"{k}={v}" for k, v in sorted(s.labels.items()) if k != "exe"))
		END
	)" "start=fn:Steady.work
start=work_start stop=work_stop" "pairs"
	now=$(date +%s)
	sed "/^#/!s/\$/ $now/" "$TMP/open" >"$TMP/stamped"
	promtool tsdb create-blocks-from openmetrics "$TMP/stamped" "$TMP/blocks" >"$TMP/promtool" 2>&1 ||
		fail "$(<"$TMP/promtool")"
}

# Other code at the same path: the functions have other addresses. Both generations count, also while the
# old one still runs.
test_serve_replaced() {
	local old
	need_counting
	copy_program
	start_server --exe "$PROGRAM" --count=fn:Unprobed.find --time fn:Unprobed.work
	start_program
	old=$TARGET
	obey 'go 100'
	cp "$O/tests/ocaml/unprobed_nopie" "$TMP/new"
	mv "$TMP/new" "$PROGRAM"
	start_program
	await_metric 2 ocaml_probes_processes
	obey 'go 20'
	obey 'go 40' "$old"
	quit_target "$old"
	quit_target
	await_metric "$(calls_of find)" ocaml_probes_hits_total "$FIND"
	await_metric "$(calls_of work)" ocaml_probes_pair_duration_seconds_count
	eq "$(calls_of find)" 240
	# Written over in place: the uprobes go, and are put into the new code.
	cat "$UNPROBED" >"$PROGRAM"
	wait_for 'has_text "$TMP/serve.err" "overwritten in place"'
	wait_for '[[ $(json_of api/v1/status "it[\"targets\"][0][\"problem\"]") = None ]]'
	start_program
	obey 'go 10'
	await_metric 255 ocaml_probes_hits_total "$FIND"
}

test_serve_pid_restarted() {
	local first
	need_counting
	copy_program
	start_program
	first=$TARGET
	start_server -pid "$TARGET" --count="$BOTH"
	obey 'go 100'
	quit_target
	start_program
	wait_for '[[ $(json_of api/v1/status "it[\"targets\"][0][\"processes\"]") = "[$TARGET]" ]]'
	obey 'go 10'
	await_metric 165 ocaml_probes_hits_total "$FIND"
	await_metric 110 ocaml_probes_hits_total 'probe="fn:Unprobed.risky"'
}

write_config() { # MEMBERS
	printf '{ "listen": "127.0.0.1:0", "targets": [ { "exe": "%s", %s } ] }\n' "$PROGRAM" "$1" >"$TMP/config"
}

reload() { # WHAT-IT-SAYS
	: >"$TMP/serve.err"
	kill -HUP "$SERVER"
	wait_for 'grep -q "'"$1"'" "$TMP/serve.err"'
}

# Probes and functions of one program, of which a list has some of each.
test_probes_too() {
	local exe
	need_counting
	exe=$(own_copy "$O/tests/ocaml/steady")
	start_target "$exe"
	await_line ready
	start_server --exe "$exe" --count=beat,fn:Steady.hit_beat,flood --time fn:Steady.work --time work_start,work_stop
	wait_for '[[ $(metric ocaml_probes_pair_duration_seconds_count "start=\"fn:Steady.work\"") -ge 5 ]]'
	kill "$TARGET"
	finish_target
	# Between two scrapes nothing changes any more.
	get metrics -o "$TMP/text"
	get() { cat "$TMP/text"; }
	[[ $(metric ocaml_probes_hits_total 'probe="beat"') -ge 30 ]]
	eq "$(metric ocaml_probes_hits_total 'probe="fn:Steady.hit_beat"')" "$(metric ocaml_probes_hits_total 'probe="beat"')" \
		"calls of the function with the probe"
	eq "$(metric ocaml_probes_hits_total 'probe="flood"')" "$((10 * $(metric ocaml_probes_hits_total 'probe="beat"')))" "flood"
	eq "$(metric ocaml_probes_pair_duration_seconds_count 'start="fn:Steady.work"')" \
		"$(metric ocaml_probes_pair_duration_seconds_count 'start="work_start"')" "times of the function and of the pair"
}

# A reload changes the functions; one that names an unknown function changes nothing.
test_config() {
	need_counting
	copy_program
	start_program
	write_config '"count": ["fn:Unprobed.find"]'
	start_server --config "$TMP/config"
	obey 'go 100'
	await_metric 150 ocaml_probes_hits_total
	write_config '"count": ["fn:Unprobed.fnid"]'
	reload 'reload failed; keeping the old'
	grep -q "fn:Unprobed.fnid': no such function in .*/unprobed" "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	holds grep -q "did you mean 'fn:Unprobed.find'" "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	obey 'go 10'
	await_metric 165 ocaml_probes_hits_total
	write_config '"count": "fn:Unprobed.risky", "time": ["fn:Unprobed.work", "c:caml_unix_sleep"]'
	sed -i 's/"c:caml_unix_sleep"/"c:unix_sleep"/' "$TMP/config"
	reload 'configuration reloaded'
	obey 'go 10'
	await_metric 10 ocaml_probes_hits_total 'probe="fn:Unprobed.risky"'
	await_metric 1 ocaml_probes_pair_duration_seconds_count 'start="fn:Unprobed.work"'
	await_metric 1 ocaml_probes_pair_duration_seconds_count 'start="c:unix_sleep"'
	await_metric 165 ocaml_probes_hits_total "$FIND"
}

# Functions of a plugin that is loaded later.
test_plugin() {
	local host
	need_counting
	cp "$O/tests/ocaml/bare_host" "$O/tests/ocaml/plugin.cmxs" "$TMP"
	start_target "$TMP/bare_host"
	await_line ready
	start_server --exe "$TMP/bare_host" '--count=fn:\(Bare_host.obey.*\|Plugin.round\)'
	tell "load $TMP/plugin.cmxs"
	await_line loaded
	wait_for '[[ $(json_of api/v1/status "[p[\"sites\"] for p in it[\"targets\"][0][\"probes\"] if p[\"probe\"] == \"fn:Plugin.round\"]") = "[1]" ]]'
	obey 'go 100'
	await_metric 100 ocaml_probes_hits_total 'probe="fn:Plugin.round"'
}

# A function has a counter, but no handlers.
test_switches() {
	need_counting
	copy_program
	start_program
	start_server --control --exe "$PROGRAM" --count=fn:Unprobed.find --time fn:Unprobed.work
	eq "$(switch fn:Unprobed.find handler true)" 409 "handlers of a function: $(<"$TMP/reply")"
	grep -q "'fn:Unprobed.find' is not a probe: it has a counter, but no handlers" "$TMP/reply" || fail "$(<"$TMP/reply")"
	eq "$(switch fn:Unprobed.find counter false)" 200 "counter: $(<"$TMP/reply")"
	obey 'go 100'
	eq "$(switch fn:Unprobed.find counter true)" 200 "counter: $(<"$TMP/reply")"
	obey 'go 10'
	await_metric 15 ocaml_probes_hits_total "$FIND"
	eq "$(switch fn:Unprobed.work counter false)" 409 "counter of a timed function: $(<"$TMP/reply")"
}

switch() { # PROBE WHAT ON
	status_of api/v1/switch -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
		--data "{\"exe\":\"$PROGRAM\",\"probe\":\"$1\",\"what\":\"$2\",\"on\":$3}"
}

# ---- the engine inside --------------------------------------------------------------------------

# Processes that run already, that start later and that are forked, by the configuration; and a server that was killed.
test_serve_inside() {
	local first killed
	copy_program
	start_program
	first=$TARGET
	write_config '"count": ["fn:Unprobed.find", "fn:Unprobed.risky"], "time": ["fn:Unprobed.work"], "engine": "inside"'
	start_server --config "$TMP/config"
	obey 'go 100'
	start_program
	await_metric 2 ocaml_probes_processes
	obey 'go 40'
	obey 'fork 10' "$first"
	obey 'threads 20'
	await_metric 285 ocaml_probes_hits_total "$FIND"
	await_metric 190 ocaml_probes_hits_total 'probe="fn:Unprobed.risky"'
	await_metric 5 ocaml_probes_pair_duration_seconds_count 'start="fn:Unprobed.work"'
	await_metric 1 ocaml_probes_engine 'engine="inside"'
	killed=$SERVER
	kill -KILL "$SERVER"
	wait "$SERVER" 2>/dev/null || :
	obey 'go 1000'
	# The counting of the killed one ends, and begins anew.
	start_server --config "$TMP/config"
	await_metric 2 ocaml_probes_processes
	holds grep -q "pid $TARGET: was counted inside for pid $killed, which has been killed" "$TMP/serve.err"
	obey 'go 20'
	obey 'go 10' "$first"
	await_metric 45 ocaml_probes_hits_total "$FIND"
	end_server
	holds has_own_code
	TARGET=$first holds has_own_code
	quit_target
	quit_target "$first"
	eq "$(calls_of find)" 1815 "calls, without those of the child"
}

test_top_inside() {
	local top
	copy_program
	start_program
	background "$TOOL" top --batch 1000 -pid "$TARGET" --engine inside --count="$BOTH" >"$TMP/out" 2>"$TMP/err"
	top=$!
	wait_for 'grep -q "^screen 2/" "$TMP/out" || has_ended '"$top"
	obey 'go 100'
	wait_for '[[ $(awk "\$7 == \"fn:Unprobed.find\" { print \$2 }" "$TMP/out" | tail -n 1) = 150 ]]'
	wait_for '[[ $(awk "\$7 == \"fn:Unprobed.risky\" { print \$2 }" "$TMP/out" | tail -n 1) = 100 ]]'
	kill -TERM "$top"
	wait "$top" || fail "status $?: $(<"$TMP/err")"
	eq "$(awk '$1 == "engine" { getline; print }' "$TMP/out" | uniq | xargs)" "inside 1" "engine"
	holds has_own_code
}

test_inside_refuses() {
	local command
	copy_program
	start_program
	for command in serve top; do
		check_error 2 '--engine inside excludes c:' "$command" --engine inside -pid "$TARGET" --count=c:unix_sleep
		check_error 2 '--engine inside excludes note:' "$command" --engine inside -pid "$TARGET" --time c:unix_sleep
	done
	write_config '"time": ["c:unix_sleep"], "engine": "inside"'
	check_error 2 "targets\[0\]: the engine 'inside' excludes note:, times of c: and pairs of lines or phases" serve --config "$TMP/config"
	holds has_own_code
}

# ---- whose code is read -------------------------------------------------------------------------

# Any user can start a program. Its functions are read if somebody names it.
test_unnamed_programs_are_refused() {
	local command
	need_counting
	for command in serve top; do
		check_error 2 'fn:, c:, gc: and line: require -pid or --exe' "$command" --count=fn:Unprobed.find
		check_error 2 'fn:, c:, gc: and line: require -pid or --exe' "$command" --time c:malloc
	done
}

# A library with an "OCaml" function, of which the process can have any number.
make_library() { # NAME OWNER
	cat >"$TMP/$1.c" <<-END
		void caml$1__code_begin(void) {}
		void caml$1__f_1(void) {}
		void caml$1__code_end(void) {}
	END
	gcc -shared -fPIC -o "$TMP/$1.so" "$TMP/$1.c"
	chown "$2" "$TMP/$1.so"
}

functions_seen() {
	json_of api/v1/status '" ".join(p["probe"] for p in it["targets"][0]["probes"])'
}

# Whoever may execute the program can make it map a library, whose code a monitor does not read.
test_libraries_of_strangers() {
	need_counting
	copy_program
	make_library Evil 65534
	make_library Fine 0
	start_server --exe "$PROGRAM" '--count=fn:\(Unprobed.find\|Evil.*\|Fine.*\)'
	start_target env LD_PRELOAD="$TMP/Evil.so:$TMP/Fine.so" "$PROGRAM"
	await_line ready
	wait_for 'grep -q "pid $TARGET: .*/Evil.so belongs to user 65534: its functions are not measured" "$TMP/serve.err"'
	obey 'go 10'
	await_metric 15 ocaml_probes_hits_total "$FIND"
	wait_for '[[ $(functions_seen) = *fn:Fine.f* ]]'
	eq "$(functions_seen)" "fn:Fine.f fn:Unprobed.find" "functions"
	# It is said once, and holds until the file changes.
	start_target env LD_PRELOAD="$TMP/Evil.so" "$PROGRAM"
	await_line ready
	await_metric 2 ocaml_probes_processes
	chown 0 "$TMP/Evil.so"
	start_target env LD_PRELOAD="$TMP/Evil.so" "$PROGRAM"
	await_line ready
	wait_for '[[ $(functions_seen) = *fn:Evil.f* ]]'
	eq "$(grep -c 'belongs to user' "$TMP/serve.err")" 1 "warnings"
}

# A library whose symbols are damaged does not keep the program from being measured.
test_damaged_library() {
	need_counting
	copy_program
	make_library Bad 0
	python3 - "$TMP/Bad.so" <<-'END'
		import struct, sys
		data = bytearray(open(sys.argv[1], "rb").read())
		table, = struct.unpack_from("<Q", data, 40)
		size, count = struct.unpack_from("<HH", data, 58)
		for at in range(table, table + count * size, size):
		    if struct.unpack_from("<I", data, at + 4)[0] == 2: # .symtab
		        struct.pack_into("<Q", data, at + 32, 1 << 40)
		open(sys.argv[1], "wb").write(data)
	END
	start_target env LD_PRELOAD="$TMP/Bad.so" "$PROGRAM"
	await_line ready
	start_server --exe "$PROGRAM" '--count=fn:\(Unprobed.find\|Bad.*\)'
	holds grep -q 'Bad.so: .*: its functions are not measured' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	obey 'go 10'
	await_metric 15 ocaml_probes_hits_total "$FIND"
}

run_tests "$@"
