#!/usr/bin/env bash
# `serve`: what it serves, in which formats, and that the numbers are right.
#
# needs: fixtures serve ocaml
# smoke: test_hits_are_exact
# takes: 70 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

# ---- numbers ----------------------------------------------------------------------------------

# After the program has stopped, every probe's hits are what the program says itself.
test_hits_are_exact() {
	need_counting
	COUNTED=$(own_copy "$COUNTED")
	start_target "$COUNTED" 20000 3
	await_line ready
	start_server -pid "$TARGET"
	tell go
	await_line '# in_loop was seen.*' 60
	eq "$(scraped_hits)" "$(expected_hits)" "hits"
	# As OpenMetrics, as JSON, and when the process has ended.
	eq "$(scraped_hits -H 'Accept: application/openmetrics-text')" "$(expected_hits)" "hits, OpenMetrics"
	eq "$(json_of api/v1/status '"\n".join("%s %d" % (p["probe"], p["hits"]) for p in it["targets"][0]["probes"])')" \
		"$(expected_hits)" "hits, JSON"
	tell quit
	finish_target
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 0$"'
	eq "$(scraped_hits)" "$(expected_hits)" "hits after its end"
	end_server
	eq "$SERVER_STATUS" 0 "status"
	eq "$(<"$TMP/serve.out")" "" "standard output"
}

# A filter that some probes have no argument for, and some one of another type: each is said once.
test_filter_that_does_not_fit_all() {
	local why="arg1 of probe 'number' is a string and is compared with a number"
	local requests
	need_counting
	requests=$(own_copy "$O/tests/ocaml/requests")
	start_target "$requests" 300
	await_line ready
	start_server --exe "$requests" --count=request_stop,number --filter 'arg1 > 199.5'
	tell go
	await_line end 60
	wait_for '[[ $(hits_of request_stop) -eq $(sed -n "s/^stops=//p" "$(output_of)") ]]'
	get metrics | finds 'ocaml_probes_lost_total{.*reason="filter_mismatches"} 300$' || fail "$(get metrics)"
	eq "$(json_of api/v1/status 'it["targets"][0]["losses"]["filter_mismatches"]')" 300
	eq "$(json_of api/v1/status 'it["targets"][0]["filter_mismatch"]')" "$why"
	sleep 2
	eq "$(grep -c "filter: $why" "$TMP/serve.err")" 1 "$(<"$TMP/serve.err")"
	end_server
	# Left out; no problem of what is left.
	start_server --exe "$requests" --filter 'arg2 == "x"'
	eq "$(scraped_hits | sort)" "request_start 0
request_stop 0"
	sleep 2
	eq "$(grep -c "warning: not measured: probe 'number': no arg2 for the filter" "$TMP/serve.err")" 1 \
		"$(<"$TMP/serve.err")"
	eq "$(json_of api/v1/status 'it["targets"][0]["problem"]')" None
	end_server
}

# Programs that come and go: totals never go back, and are the sum of all.
test_totals_over_restarts() {
	local round scraped=0 now
	need_counting
	cp "$V1" "$TMP/v1"
	start_server --exe "$TMP/v1"
	for round in 1 2 3; do
		start_target "$TMP/v1" --wait
		await_line ready
		wait_for 'get metrics | finds "^ocaml_probes_up{.*} 1$"'
		go 500
		now=$(hits_of plain)
		[[ $now -ge $scraped ]] || fail "from $scraped back to $now"
		scraped=$now
		quit_target
		now=$(hits_of plain)
		eq "$now" $((round * 500)) "hits after program $round"
	done
	# One that comes and goes between two ticks is not missed: the file is measured, not the process.
	start_target "$TMP/v1" --wait
	await_line ready
	go 7
	quit_target
	eq "$(hits_of plain)" 1507 "hits"
	get metrics | finds "^ocaml_probes_processes{exe=\"$TMP/v1\"} 0$" || wait_for \
		'get metrics | finds "^ocaml_probes_processes{.*} 0$"'
}

# The histogram is cumulative, monotone, and agrees with count and sum.
test_pairs() {
	need_counting
	start_v1
	start_server -pid "$TARGET" --time plain,odd --buckets 0.000000001,0.0001,1,10
	go 1000
	get metrics | grep '^ocaml_probes_pair' | sed 's/exe="[^"]*"/exe/' >"$TMP/pairs"
	eq "$(sed -n 's/.*_bucket{.*le="\(.*\)"} .*/\1/p' "$TMP/pairs" | tr '\n' ' ')" "1e-09 0.0001 1.0 10.0 +Inf " "bounds"
	eq "$(sed -n 's/.*le="1e-09"} //p;s/.*le="+Inf"} //p;s/.*_count{.*} //p' "$TMP/pairs" | tr '\n' ' ')" "0 1000 1000 " "counts"
	awk '/_bucket/ { if ($2 < last) exit 1; last = $2 }' "$TMP/pairs" || fail "$(<"$TMP/pairs")"
	eq "$(sed -n 's/.*_orphans_total{.*,side="\(.*\)"} /\1 /p;s/.*_open{.*} /open /p' "$TMP/pairs")" "start 0
stop 0
open 0" "orphans"
	eq "$(json_of api/v1/status 'it["targets"][0]["pairs"][0]["sum_ns"]')" \
		"$(sed -n 's/.*_sum{.*} //p' "$TMP/pairs" | tr -d . | sed 's/^0*//')" "sum"
	wait_for '[[ $(json_of api/v1/history "sum(sum(c) for c in it[\"targets\"][0][\"pairs\"][0][\"columns\"] if c)") = 1000 ]]'
	json_of api/v1/history '[len(set(len(c) for c in p["columns"] if c)) == 1 and len(p["bounds_ns"]) == len([c for c in p["columns"] if c][0]) + 1
		for p in it["targets"][0]["pairs"]]' | finds -x '\[True\]' || fail "the shape of history"
	eq "$(json_of api/v1/history/pairs '"probes" in it["targets"][0], len(it["targets"][0]["pairs"])')" \
		"(False, 1)" "pairs alone"
	# In columns of 15 seconds, without the probes that were not hit.
	wait_for '[[ $(json_of api/v1/history/15m "sum(sum(c) for c in it[\"targets\"][0][\"pairs\"][0][\"columns\"] if c)") = 1000 ]]'
	eq "$(json_of api/v1/history/15m 'it["interval"], [p["probe"] for p in it["targets"][0]["probes"]]')" \
		"$(json_of api/v1/status '15, [p["probe"] for p in it["targets"][0]["probes"] if p["hits"]]')" "the last 15 minutes"
}

# Among processes of our own, since those of other tests are to be left alone.
test_every_program() {
	need_counting
	need_command unshare
	unshare --pid --fork --mount-proc bash "$0" --one every_program
}

every_program() {
	cp "$V1" "$TMP/one"
	start_target "$TMP/one" --wait
	await_line ready
	start_server
	go 100
	eq "$(get metrics | sed -n "s|^ocaml_probes_hits_total{probe=\"plain\",exe=\"$TMP/one\"} ||p")" 100 "hits"
	cp "$V1" "$TMP/two"
	start_target "$TMP/two" --wait
	await_line ready
	wait_for 'get metrics | finds -x "ocaml_probes_up{exe=\"$TMP/two\"} 1"'
	go 50
	eq "$(get metrics | sed -n "s|^ocaml_probes_hits_total{probe=\"plain\",exe=\"$TMP/two\"} ||p")" 50 "hits"
	end_server
	echo '{ "listen": "127.0.0.1:0" }' >"$TMP/config"
	start_server --config "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'grep -q "config: configuration reloaded, every program with probes$" "$TMP/serve.err"'
}

# Each program has a budget of its own, which is said at the start and in the status.
test_budget_of_every_program() {
	need_counting
	need_command unshare
	unshare --pid --fork --mount-proc bash "$0" --one budget_of_every_program
}

# A value of the status of program EXE, by a Python expression of `it`.
status_of_program() { # EXE EXPRESSION
	get api/v1/status | python3 -c 'import json, sys
it = [t for t in json.load(sys.stdin)["targets"] if t["exe"] == sys.argv[1]][0]
print(eval(sys.argv[2]))' "$1" "$2"
}

# Of program EXE: as many counters are off as its problem says, the busiest first. "alpha" and "beta"
# have as many hits as each other, "gamma" has an eighth of these.
has_its_busiest_off() { # EXE
	status_of_program "$1" '(lambda off, problem: (len(off) == int(problem.split("(")[1][0])
		and ("gamma" not in off or len(off) == 3)) or (off, problem))(
		sorted(p["probe"] for p in it["probes"] if not p["counted"]), it["problem"])'
}

budget_of_every_program() {
	local problem
	cp "$V1" "$TMP/quiet"
	cp "$O/tests/ocaml/loop" "$TMP/busy"
	start_target "$TMP/busy" busy
	await_line ready
	start_target "$TMP/quiet" --wait
	await_line ready
	start_server
	grep -qx 'ocaml-probes: every program with probes, budget 5% of a core each; the busiest counters are switched off above it' \
		"$TMP/serve.err" || fail "said: $(<"$TMP/serve.err")"
	eq "$(status_of_program "$TMP/quiet" 'it["cost"]["budget"]')" 0.05 "budget"
	wait_for '[[ $(status_of_program "$TMP/busy" "it[\"problem\"]") = *"exceeds the budget of 5%" ]]'
	problem=$(status_of_program "$TMP/busy" 'it["problem"]')
	matches "$problem" '^busiest counters switched off \([123]\): CPU overhead [0-9]+% exceeds the budget of 5%$'
	eq "$(has_its_busiest_off "$TMP/busy")" True "the counters that are off"
	# It is nobody else's budget.
	go 100
	eq "$(get metrics | sed -n "s|^ocaml_probes_hits_total{probe=\"plain\",exe=\"$TMP/quiet\"} ||p")" 100 "hits"
	eq "$(status_of_program "$TMP/quiet" 'it["problem"]')" None "problem of the other"
	end_server
	matches "$(<"$TMP/serve.err")" "warning: $TMP/busy: busiest counters switched off"
	# A program that is named has none unless it is given one.
	start_server --exe "$TMP/quiet"
	eq "$(status_of_program "$TMP/quiet" 'it["cost"]["budget"]')" None "budget"
	eq "$(grep -c budget "$TMP/serve.err" || :)" 0 "said: $(<"$TMP/serve.err")"
	end_server
	start_server --exe "$TMP/quiet" --budget 2.5%
	eq "$(status_of_program "$TMP/quiet" 'it["cost"]["budget"]')" 0.025 "budget"
	grep -q 'the programs named, budget 2.5% of a core each' "$TMP/serve.err" || fail "said: $(<"$TMP/serve.err")"
	end_server
}

test_hits_by_process() {
	local first second
	need_counting
	cp "$V1" "$TMP/v1"
	start_target "$TMP/v1" --wait
	await_line ready
	first=$TARGET
	start_target "$TMP/v1" --wait
	await_line ready
	second=$TARGET
	start_server --exe "$TMP/v1" --label-pid
	go 10 "$first"
	go 20 "$second"
	eq "$(get metrics | sed -n 's|^ocaml_probes_hits_total{probe="plain",exe=".*",pid="\(.*\)"} |\1 |p' | sort -n)" \
		"$(printf '%s 10\n%s 20\n' "$first" "$second" | sort -n)" "hits"
	[[ $(get metrics | grep -c 'pid="') -gt 0 ]]
	eq "$(get metrics | grep 'pid="' | grep -vc ^ocaml_probes_hits_total || :)" 0 "other metrics with a pid"
	eq "$(json_of api/v1/status 'sorted((r["pid"], r["hits"]) for r in it["targets"][0]["rows"] if r["probe"] == "plain")')" \
		"$(printf '%s\n' "($first, 10)" "($second, 20)" | sort -n -t'(' -k2 | paste -sd, | sed 's/),(/), (/;s/.*/[&]/')" "rows"
}

# ---- programs ---------------------------------------------------------------------------------

# A program without probes, which loads a plugin that has two.
test_no_probes_yet() {
	local bare plugin
	need_counting
	bare=$(own_copy "$O/tests/ocaml/bare_host")
	plugin=$(own_copy "$O/tests/ocaml/plugin.cmxs")
	start_target "$bare"
	await_line ready
	start_server --exe "$bare" --time plugin_only,reused
	eq "$(grep -c "warning: $bare: no probes yet" "$TMP/serve.err")" 1 "said: $(<"$TMP/serve.err")"
	eq "$(get metrics | grep '^ocaml_probes_up')" "ocaml_probes_up{exe=\"$bare\"} 1" "up"
	eq "$(json_of api/v1/status 'it["targets"][0]["probes"], it["targets"][0]["problem"]')" "([], None)" "status"
	tell "load $plugin"
	await_line loaded
	wait_for '[[ $(scraped_hits) = "plugin_only 0
reused 0" ]]'
	tell "go 1000"
	await_line 'done'
	eq "$(scraped_hits)" "plugin_only 1000
reused 1000" "hits"
	eq "$(json_of api/v1/status 'it["targets"][0]["pairs"][0]["count"]')" 1000 "pairs"
	end_server
}

test_is_found_by_name() {
	need_counting
	need_command pgrep
	start_v1
	start_server -pid "$TARGET"
	check_process_name "$SERVER" ocaml-probes-serve
	end_server
	# What it says goes on to begin with the name of the command.
	check_error 2 "^ocaml-probes: serve: '-nosuch': no such option" serve -nosuch
	grep -qx 'hint: ocaml-probes help serve' "$TMP/err" || fail "said: $(<"$TMP/err")"
	eq "$("$TOOL" help serve)" "$("$TOOL-serve" --help)" "help"
}

as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "$O/ocaml-probes" "$@"
}

test_mistakes() {
	local text
	need_counting
	start_v1
	set -- serve -pid "$TARGET"
	for text in '' 9464 :9464 localhost example.org:80 127.0.0.1:http 127.0.0.1:65536 127.0.0.1:-1 ::1:9464 '[::1]' 1.2.3:x 127.0.0.1: '[127.0.0.1]:x'; do
		check_error 2 "'$(sed 's/[][]/\\&/g' <<<"$text")'" "$@" --listen "$text"
	done
	check_error 1 'Cannot assign requested address' "$@" --listen 192.0.2.1:0
	check_error 2 'given twice' "$@" --listen 127.0.0.1:0 --listen 127.0.0.1:0
	check_error 2 'mutually exclusive' "$@" --exe "$V1"
	check_error 2 'mutually exclusive' "$@" --config "$TMP/x"
	check_error 2 'excludes measuring options' serve --config "$TMP/x" --count
	check_error 2 'No such file' serve --config "$TMP/x"
	check_error 2 "Is a directory" serve --config "$TMP"
	check_error 2 'not a loopback address' "$@" --control --listen 0.0.0.0:0
	check_error 2 'requires --listen' "$@" --control --textfile "$TMP/x"
	check_error 2 'requires --textfile' "$@" --interval 1s
	check_error 2 "host '': not NAME or NAME:PORT" "$@" --host ''
	check_error 2 "host 'http://x/': not NAME or NAME:PORT" "$@" --host http://x/
	check_error 2 "host 'x:0': not a port" "$@" --host x:0
	check_error 2 'host requires --listen' "$@" --host x --textfile "$TMP/x"
	check_error 2 'bounds must ascend' "$@" --buckets 1,1
	check_error 2 'depth requires' "$@" --depth 3
	check_error 2 "'extra'" "$@" extra
	check_error 2 'no such option' "$@" --by-site
	check_error 2 'No such file' "$@" --textfile "$TMP/nosuch/x" --listen 127.0.0.1:0
	mkfifo "$TMP/fifo"
	ln -s fifo "$TMP/link"
	check_error 2 'fifo: not a regular file' "$@" --textfile "$TMP/fifo"
	check_error 2 'link: not a regular file' "$@" --textfile "$TMP/link"
	[[ -p $TMP/fifo && -L $TMP/link ]] || fail "replaced: $(ls -l "$TMP")"
	check_error 2 'nosuch' "$@" --listen 127.0.0.1:0 --count=nosuch
	check_error 5 'no such process' serve -pid 999999999 --listen 127.0.0.1:0
	need_command setpriv
	TOOL=as_nobody check_error 3 'lacks CAP_BPF and CAP_PERFMON' serve --listen 127.0.0.1:0
	matches "$("$TOOL" help serve)" 'usage: ocaml-probes serve'
}

# ---- configuration ----------------------------------------------------------------------------

test_configuration() {
	need_counting
	start_v1
	cat >"$TMP/config" <<-END
		// two probes of one program
		{
			"listen": "127.0.0.1:0",
			"buckets": [0.001, 1],
			"targets": [{ "pid": $TARGET, "count": ["plain"], "time": [["neighbour_a", "neighbour_b"]] }]
		}
	END
	start_server --config "$TMP/config"
	go 100
	eq "$(scraped_hits)" "neighbour_a 200
neighbour_b 100
plain 100" "hits"
	eq "$(get metrics | grep -c _bucket)" 3 "buckets"

	# A wrong file changes nothing, and says why in a line.
	sed -i 's/"plain"/"nosuch"/; s/0.001, 1/0.5/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "reload failed; keeping the old configuration"'
	grep -q nosuch "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	sed -i 's/"nosuch"/3/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for "grep -q 'config:5: targets.0..count.0.: not a string' '$TMP/serve.err'"
	sed -i 's/\[3\]/["plain"]/; s/127.0.0.1:0/127.0.0.1:1/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "listen: cannot change"'
	go 10
	eq "$(hits_of plain)" 110 "hits after wrong files"
	eq "$(get metrics | grep -c _bucket)" 3 "buckets after wrong files"

	# A right one: what is unchanged goes on, and there is one more.
	start_v1
	COUNTED=$(own_copy "$COUNTED")
	cat >"$TMP/config" <<-END
		{ "listen": "127.0.0.1:0", "buckets": [0.001, 1, 2],
		  "targets": [{ "pid": $(pgrep -P $$ -f -- "$V1 --wait" | head -n 1), "count": ["plain"], "time": [["neighbour_a", "neighbour_b"]] },
		              { "exe": "$COUNTED", "count": "in_.*" }] }
	END
	kill -HUP "$SERVER"
	wait_for 'grep -q "config: configuration reloaded, 2 targets$" "$TMP/serve.err"'
	eq "$(hits_of plain)" 110 "hits after a right file"
	eq "$(get metrics | grep -c _bucket)" 4 "buckets after a right file"
	start_target "$COUNTED" 10 1
	await_line ready
	wait_for "get metrics | finds -x 'ocaml_probes_up{exe=\"$COUNTED\"} 1'"
	tell go
	await_line '# in_loop was seen.*' 60
	eq "$(hits_of in_loop)" 10 "hits of the new target"
	eq "$(get metrics | grep -c 'hits_total.*probe="outer"' || :)" 0 "probes that were not asked for"
	printf '{ "listen": "127.0.0.1:0", "targets": [{ "exe": "%s" }] }' "$COUNTED" >"$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'grep -q "config: configuration reloaded, 1 target$" "$TMP/serve.err"'
}

in_time() {
	timeout -s KILL 300 "$O/ocaml-probes" "$@"
}

# Nothing is waited for with the signals blocked, and a running server waits for nothing.
test_configuration_that_blocks() {
	need_counting
	start_v1
	printf '{ "listen": "127.0.0.1:0", "targets": [{ "pid": %s }] }' "$TARGET" >"$TMP/config"
	mkfifo "$TMP/fifo"
	TOOL=in_time check_error 2 'fifo: not a regular file' serve --config "$TMP/fifo"
	TOOL=in_time check_error 2 'zero: not a regular file' serve --config /dev/zero

	# What a shell gives in the place of a file comes when it comes,
	start_server --config <(sleep 0.3; cat "$TMP/config")
	go 10
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "a pipe cannot be read again"'
	eq "$(hits_of plain)" 10 "hits"
	end_server
	# or never.
	background "$TOOL" serve --config <(exec sleep 60) 2>"$TMP/serve.err"
	SERVER=$!
	wait_for 'ls -l "/proc/$SERVER/fd" 2>/dev/null | finds signalfd'
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	eq "$(<"$TMP/serve.err")" "" "what it said"

	start_server --config "$TMP/config"
	mv "$TMP/fifo" "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "reload failed; keeping the old configuration"'
	grep -q 'config: not a regular file' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	eq "$(get healthz)" ok "healthz"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

# ---- textfile ---------------------------------------------------------------------------------

test_textfile() {
	need_counting
	start_v1
	mkdir "$TMP/collector"
	umask 077
	background "$TOOL" serve -pid "$TARGET" --textfile "$TMP/collector/probes.prom" --interval 5ms 2>"$TMP/serve.err"
	SERVER=$!
	wait_for '[[ -e $TMP/collector/probes.prom ]]'
	eq "$(stat -c %a "$TMP/collector/probes.prom")" 644 "mode"
	# No port is open.
	eq "$(find "/proc/$SERVER/fd" -lname 'socket:*' | wc -l)" 0 "sockets"
	# It is whole whenever it is looked at, and it is a new one now and then.
	python3 - "$TMP/collector" <<-'END'
		import os, sys, time
		folder = sys.argv[1]
		start, inodes = time.monotonic(), set()
		while time.monotonic() < start + 1 or len(inodes) < 2 and time.monotonic() < start + 20:
		    with open(folder + "/probes.prom", "rb") as file:
		        inodes.add(os.fstat(file.fileno()).st_ino)
		        text = file.read()
		    assert text.startswith(b"# HELP ocaml_probes_build_info") and text.endswith(b"\n"), text
		    assert b"\n# TYPE ocaml_probes_cost_per_hit_seconds" in text and text.count(b"# TYPE") == 29, text
		    others = [name for name in os.listdir(folder) if name.endswith(".prom") and name != "probes.prom"]
		    assert not others, others
		assert len(inodes) > 1, "written once"
	END
	go 25
	wait_for 'grep -q "^ocaml_probes_hits_total{probe=\"plain\".*} 25$" "$TMP/collector/probes.prom"'
	# It cannot be written for a while: said once; it goes on.
	mv "$TMP/collector" "$TMP/elsewhere"
	wait_for 'has_text "$TMP/serve.err" "No such file"'
	sleep 0.3
	mkdir "$TMP/collector"
	wait_for 'has_text "$TMP/serve.err" "writing succeeded again" && [[ -e $TMP/collector/probes.prom ]]'
	eq "$(grep -c . "$TMP/serve.err")" 2 "lines: $(<"$TMP/serve.err")"
	end_server
	eq "$SERVER_STATUS" 0 "status"
	eq "$(ls -A "$TMP/collector")" probes.prom "left over"
	# With a port as well.
	start_server -pid "$TARGET" --textfile "$TMP/both.prom" --listen 127.0.0.1:0
	eq "$(find "/proc/$SERVER/fd" -lname 'socket:*' | wc -l)" 1 "sockets"
	go 1
	eq "$(hits_of plain)" 1 "hits"
	wait_for 'grep -q "^ocaml_probes_hits_total{probe=\"plain\".*} 1$" "$TMP/both.prom"'
}

# In a folder for all somebody else's link leads nowhere; our own, and root's, do.
test_textfile_in_a_shared_folder() {
	local place plant_trap
	need_counting
	need_root
	need_command setpriv
	start_v1
	mkdir -m 1777 "$TMP/shared"
	mkdir "$TMP/secret"
	chmod 755 "$TMP" "$(dirname "$TMP")"
	echo precious >"$TMP/secret/file"
	cd "$TMP" || exit
	setpriv --reuid=65534 --regid=65534 --clear-groups ln -s "$TMP/secret/file" shared/file
	setpriv --reuid=65534 --regid=65534 --clear-groups ln -s ../secret/new shared/new
	setpriv --reuid=65534 --regid=65534 --clear-groups ln -s "$TMP/secret" shared/folder
	ln -s shared/file twice
	for place in shared/file shared/new "$TMP/shared/folder/file" shared/folder/other shared/./folder/../secret/file twice; do
		check_error 2 "$place: '(file|new|folder)' is a symbolic link of another user \(uid 65534\)" serve -pid "$TARGET" --textfile "$place"
	done
	eq "$(ls secret) $(<secret/file)" "file precious" "what is not ours to write"
	eq "$(find shared -type l | wc -l)" 3 "links"

	# One that comes later is not followed either, and goes on when it has gone.
	background "$TOOL" serve -pid "$TARGET" --textfile "$TMP/shared/probes" --interval 5ms 2>"$TMP/serve.err"
	SERVER=$!
	wait_for '[[ -s $TMP/shared/probes ]]'
	# A write that has begun replaces the link by the file; the next one meets it.
	plant_trap='[[ -L $TMP/shared/probes ]] || {
		ln -s secret/file "$TMP/trap" && chown -h 65534:65534 "$TMP/trap" && mv -T "$TMP/trap" "$TMP/shared/probes"; }'
	wait_for 'eval "$plant_trap"; has_text "$TMP/serve.err" "is a symbolic link of another user"'
	[[ -L shared/probes ]] || fail "the link was replaced"
	rm shared/probes
	wait_for 'has_text "$TMP/serve.err" "writing succeeded again" && [[ -s shared/probes ]]'
	end_server
	eq "$(<secret/file)" precious "what is not ours to write"

	# Our own are followed, to the end, and stay.
	mkdir here
	ln -s "$TMP/here" to_folder
	ln -s to_folder/one one
	for place in one to_folder/two "$TMP/to_folder//../here/./three"; do
		background "$TOOL" serve -pid "$TARGET" --textfile "$place" 2>"$TMP/serve.err"
		SERVER=$!
		wait_for '[[ -s here/${place##*[/_]} ]]'
		end_server
	done
	eq "$(ls -A here | xargs)" "one three two" "files"
	[[ -L one && -L to_folder ]] || fail "a link was replaced"
	ln -s loop loop
	check_error 1 'loop: Too many levels' serve -pid "$TARGET" --textfile loop
	check_error 2 'here/: not a regular file' serve -pid "$TARGET" --textfile here/
	check_error 1 'one/x: Not a directory' serve -pid "$TARGET" --textfile one/x
}

# What is in the way of the new file and cannot be removed is said.
test_textfile_that_cannot_be_replaced() {
	need_counting
	start_v1
	mkdir -p "$TMP/collector/.probes.prom.new"
	check_error 1 'probes.prom: cannot remove .probes.prom.new beside it: Is a directory' \
		serve -pid "$TARGET" --textfile "$TMP/collector/probes.prom"
	rmdir "$TMP/collector/.probes.prom.new"
	echo old >"$TMP/collector/.probes.prom.new"
	background "$TOOL" serve -pid "$TARGET" --textfile "$TMP/collector/probes.prom" 2>"$TMP/serve.err"
	SERVER=$!
	wait_for '[[ -s $TMP/collector/probes.prom ]]'
	end_server
	eq "$(ls -A "$TMP/collector")" probes.prom "left over"

	# Its name cannot be removed after a failure.
	need_command strace
	: >"$TMP/strace"
	strace -f -qq -o "$TMP/strace" -e 'trace=/^(rename|unlink)' -e 'inject=/^rename:error=EIO' -e 'inject=/^unlink:error=EROFS' \
		"$TOOL" serve -pid "$TARGET" --textfile "$TMP/collector/probes.prom" 2>"$TMP/serve.err" || :
	finds 'probes.prom: Input/output error; and cannot remove .probes.prom.new beside it: Read-only' "$TMP/serve.err" ||
		fail "$(<"$TMP/serve.err")"
}

# How many BPF links there are on FILE.
links_on() { # FILE
	bpftool -j link show | grep -o "\"path\":\"$1\"" | wc -l
}

# Killed at any moment, nothing is left over: no links, programs or maps, no files.
test_killed() {
	local round
	need_counting
	need_command bpftool
	cp "$V1" "$TMP/v1"
	start_target "$TMP/v1" --wait
	await_line ready
	mkdir "$TMP/collector"
	for round in 1 4 7; do
		start_server -pid "$TARGET" --textfile "$TMP/collector/probes.prom" --interval 1ms --listen 127.0.0.1:0
		[[ $(links_on "$TMP/v1") -gt 0 ]] || fail "no links: $(bpftool link show)"
		sleep "0.0$round"
		end_server KILL
		# What it had begun to write comes to its end without it.
		wait_for '[[ $(ls -A "$TMP/collector") == probes.prom ]]'
		wait_for '[[ $(links_on "$TMP/v1") -eq 0 && $(int3_count "$TARGET") -eq 0 ]]'
	done
	go 10
	quit_target
	eq "$TARGET_STATUS" 0 "the program's status"
}

# Killed while the new textfile has a name and not yet its place: it gets there, and no other name
# is left. strace -D is no parent, so that the server is the one we know. It holds up who renames
# until it is killed itself.
test_killed_in_the_middle() {
	local strace
	need_counting
	need_command strace
	start_target "$V1" --wait
	await_line ready
	mkdir "$TMP/collector"
	background strace -D -f -qq -o "$TMP/strace" -e 'trace=/^rename' -e 'inject=/^rename:delay_enter=100s' \
		"$TOOL" serve -pid "$TARGET" --textfile "$TMP/collector/probes.prom" --interval 1ms
	SERVER=$!
	wait_for '[[ $(ls -A "$TMP/collector") == .probes.prom.new ]]'
	strace=$(sed -n 's/^TracerPid:.//p' "/proc/$SERVER/status")
	end_server KILL
	eq "$SERVER_STATUS" 137 "status"
	eq "$(ls -A "$TMP/collector")" .probes.prom.new "files while it is renamed"
	kill -KILL "$strace"
	wait_for '[[ $(ls -A "$TMP/collector") == probes.prom ]]'
	grep -q "^ocaml_probes_hits_total" "$TMP/collector/probes.prom" || fail "no metrics"
}

# Of `both` and `started_on` one use each has a site, and one asks the semaphore.
test_uses_without_site() {
	local v2
	v2=$(own_copy "$O/tests/fixtures/v2")
	start_target "$v2" --wait
	await_line ready
	start_server --exe "$v2" --control
	wait_for 'grep -q "warning: probe .both.: 1 of its 2 uses have no site; .*their hits are not counted$" "$TMP/serve.err"'
	go 100
	wait_for '[[ $(hits_of both) = 100 ]]'
	eq "$(get metrics | sed -n 's/^ocaml_probes_uses_without_site{probe="\([a-z_]*\)",.*} /\1 /p')" "both 1
started_on 1
without_site 1" "metrics"
	eq "$(json_of api/v1/status '[(p["probe"], p.get("uses_without_site", 0)) for p in it["targets"][0]["probes"]]')" \
		"[('both', 1), ('started_on', 1), ('with_site', 0), ('without_site', 1)]" "status"
	end_server
	eq "$(grep -c 'have no site' "$TMP/serve.err")" 1 "warnings"
}

run_tests "$@"
