#!/usr/bin/env bash
# `serve` and `top` with --engine inside: hits by the program's own books, over processes that come, fork,
# execute and end; and what is left when the tool ends.
#
# needs: fixtures serve top ocaml
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

# ---- programs ---------------------------------------------------------------------------------

# tests/ocaml/reborn, in $TMP.
start_reborn() { # [COMMAND...]
	REBORN=$(own_copy "$O/tests/ocaml/reborn")
	start_target "$@" "$REBORN"
	await_line ready
}

# Have a target pass its probes N times.
pass() { # N [PID]
	forget_output "${2:-$TARGET}"
	tell "go $1" "${2:-$TARGET}"
	await_line "passed $1" 60 "${2:-$TARGET}"
}

# A user without capabilities, who has copies of the programs.
AS_USER=(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
be_ordinary() {
	need_command setpriv
	need_root
	# The directory of the tests is closed to others.
	chmod 755 "${TMP%/*}" "$TMP"
	cp "$O/ocaml-probes" "$O/ocaml-probes-serve" "$O/ocaml-probes-top" "$TMP"
}

# Does FILE say MEMBER in the status, by a Python expression of a target `it`?
of_target() { # EXPRESSION
	json_of api/v1/status "(lambda it: ($1))(it['targets'][0])"
}

await_processes() { # PID...
	wait_for '[[ $(of_target "it[\"processes\"]") = "['"$(printf '%s, ' "$@" | sed 's/, $//')"']" ]]'
}

await_up() { # 0|1
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} '"$1"'$"'
}

counts_inside() { # [PID]
	[[ $("$TOOL" doctor -pid "${1:-$TARGET}") = *"sites counted inside the process"* ]]
}

# ---- numbers ----------------------------------------------------------------------------------

test_serve_for_an_ordinary_user() {
	be_ordinary
	# A name of its own: processes of others that have the same name are told of.
	cp "$O/tests/ocaml/counted" "$TMP/counted_for_us"
	start_target "${AS_USER[@]}" "$TMP/counted_for_us" 100000 2
	await_line ready
	: >"$TMP/serve.err"
	background env -u TMP "${AS_USER[@]}" "$TMP/ocaml-probes" serve --listen 127.0.0.1:0 -pid "$TARGET" \
		>"$TMP/serve.out" 2>"$TMP/serve.err"
	SERVER=$!
	wait_for 'has_text "$TMP/serve.err" " serving http" || ! kill -0 "$SERVER"'
	URL=$(sed -n 's/.* serving \(http[^#]*\).*/\1/p' "$TMP/serve.err")
	[[ -n $URL ]] || fail "$(<"$TMP/serve.err")"
	tell go
	await_line '# in_loop was seen.*' 60
	eq "$(scraped_hits)" "$(expected_hits)" "hits"
	eq "$(get metrics | grep '^ocaml_probes_engine')" "ocaml_probes_engine{exe=\"$TMP/counted_for_us\",engine=\"inside\"} 1" "engine"
	eq "$(of_target 'it["engine"], it["problem"]')" "('inside', None)" "engine and problem"
	# In nanoseconds: less than a trap takes.
	wait_for '[[ $(get metrics | awk "/^ocaml_probes_cost_per_hit_seconds/ { print (\$2 > 0 && \$2 < 1e-7) }") = 1 ]]'
	eq "$(get metrics | awk '/^ocaml_probes_cpu_overhead_seconds_total/ { print ($2 > 0) }')" 1 "overhead"
	tell quit
	finish_target
	await_up 0
	eq "$(scraped_hits)" "$(expected_hits)" "hits after its end"
	end_server
	eq "$SERVER_STATUS $(grep -vc ' serving ' "$TMP/serve.err")" "0 0" "status and messages: $(<"$TMP/serve.err")"
}

test_top_for_an_ordinary_user() {
	be_ordinary
	start_reborn "${AS_USER[@]}"
	background env -u TMP "${AS_USER[@]}" "$TMP/ocaml-probes" top --batch 1000 -pid "$TARGET" \
		--time work,worked >"$TMP/out" 2>"$TMP/err"
	TOP=$!
	wait_for 'grep -q "^screen 2/" "$TMP/out" || ! kill -0 "$TOP"'
	kill -0 "$TOP" || fail "$(<"$TMP/err")"
	pass 4321
	wait_for '[[ $(awk "\$7 == \"work\" { print \$2, \$5 }" "$TMP/out" | tail -n 1) = "4321 pair" ]]'
	kill -TERM "$TOP"
	wait "$TOP" || fail "status $?: $(<"$TMP/err")"
	eq "$(<"$TMP/err")" "" "said"
	eq "$(awk '$1 == "engine" { getline; print }' "$TMP/out" | uniq | xargs)" "inside 1" "engine"
	eq "$(awk '$9 == "work,worked" { print $5, $6, ($2 > 0 && $3 >= $2 && $4 >= $3) }' "$TMP/out" | tail -n 1)" "0 0 1" \
		"the pair: open, orphans, times"
	quit_target
	eq "$TARGET_STATUS" 0 "status of the program"
}

# A program whose processes start, fork, execute and end: no pass is missed, and no total goes back.
test_processes_come_and_go() {
	local first second child
	need_root
	start_reborn
	first=$TARGET
	keep_memory "$first"
	start_server --engine inside --exe "$REBORN" --time work,worked
	await_processes "$first"
	pass 1000
	start_reborn
	second=$TARGET
	await_processes $(printf '%s\n' "$first" "$second" | sort -n)
	pass 200
	# The child counts on without a gap, for some ticks: it shares the memory of its parent, which ends.
	forget_output
	tell fork
	await_line 'child [0-9]*'
	child=$(sed -n 's/^child //p' "$(output_of)")
	pass 150000030
	finish_target
	await_processes $(printf '%s\n' "$first" "$child" | sort -n)
	pass 4 "$second"
	# Executed again: it is measured anew, and its totals stay.
	forget_output "$first"
	tell exec "$first"
	await_line ready 20 "$first"
	wait_for 'counts_inside '"$first"
	await_processes $(printf '%s\n' "$first" "$child" | sort -n)
	pass 50000 "$first"
	eq "$(scraped_hits)" "work 150051234
worked 150051234" "hits"
	tell quit "$second"
	tell quit "$first"
	await_up 0
	eq "$(scraped_hits)" "work 150051234
worked 150051234" "hits after the end"
	eq "$(of_target '[it["pairs"][0][n] for n in ("count", "orphan_starts", "orphan_stops", "open")]')" \
		"[150051234, 0, 0, 0]" "the pair"
	# And one that comes later.
	start_reborn
	await_processes "$TARGET"
	pass 6
	eq "$(hits_of work)" 150051240 "hits"
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	MEMORY_BEFORE[$TARGET]=${MEMORY_BEFORE[$first]}
	check_clean
}

# Children that run at the same time as their parent, and end before it.
test_forked_children() {
	local forking
	need_root
	forking=$(own_copy "$O/tests/ocaml/forking")
	start_target "$forking" 5 1000
	await_line ready
	start_server --engine inside --exe "$forking"
	await_processes "$TARGET"
	tell go
	await_line 'done' 60
	eq "$(hits_of work)" 6000 "hits"
	tell go
	await_line 'done again' 60
	eq "$(hits_of work)" 12000 "hits"
	end_server
	quit_target
}

# With -pid, the next process of the program is measured when the first has ended.
test_a_successor() {
	need_root
	start_reborn
	start_server --engine inside -pid "$TARGET"
	pass 100
	forget_output
	tell exec
	await_line ready
	wait_for counts_inside
	pass 20
	start_reborn
	tell quit "$(of_target 'it["processes"][0]')"
	await_processes "$TARGET"
	pass 3
	eq "$(hits_of work)" 123 "hits"
	end_server
}

# A program without probes is measured when it has loaded some. Those of later files are a problem.
test_files_that_come_later() {
	local host plugin
	need_root
	host=$(own_copy "$O/tests/ocaml/bare_host")
	plugin=$(own_copy "$O/tests/ocaml/plugin.cmxs")
	start_target "$host"
	await_line ready
	check_error 4 "pid $TARGET: has no probe yet that the engine .inside. can count" serve -q --listen 127.0.0.1:0 --engine inside -pid "$TARGET"
	start_server --engine inside --exe "$host"
	wait_for '[[ $(of_target "it[\"problem\"]") = *"no probe yet"* ]]'
	tell "load $plugin"
	await_line loaded
	await_processes "$TARGET"
	eq "$(of_target 'it["problem"]')" None "problem"
	tell 'go 1000'
	await_line 'done'
	eq "$(scraped_hits)" "plugin_only 1000
reused 1000" "hits"
	end_server
	quit_target
	start_target env LD_PRELOAD="$O/tests/fixtures/binaries/libearly.so" "$host"
	await_line ready
	start_server --engine inside -pid "$TARGET"
	eq "$(of_target 'it["problem"], [p["probe"] for p in it["probes"]]')" "(None, ['early_only', 'reused'])" "problem, probes"
	tell "load $plugin"
	await_line loaded
	wait_for '[[ $(of_target "it[\"problem\"]") = "pid '"$TARGET"': has loaded files with probes, which are not counted inside" ]]'
	tell 'go 1000'
	await_line 'done'
	eq "$(scraped_hits | awk '$1 == "plugin_only"')" "plugin_only 0" "hits"
	eq "$(of_target '[p["counted"] for p in it["probes"] if p["probe"] == "plugin_only"]')" "[False]" "counted"
	end_server
}

# ---- handlers ---------------------------------------------------------------------------------

post() { # WHAT PROBE ON
	status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
		-d '{"exe": "'"$COUNTED"'", "pid": null, "probe": "'"$2"'", "what": "'"$1"'", "on": '"$3"'}'
}

# Handlers are switched while the program counts; they run, and no hit is lost.
test_switching() {
	local i
	need_root
	COUNTED=$(own_copy "$COUNTED")
	start_target "$COUNTED" 1000000000 4
	await_line ready
	keep_memory
	start_server --engine inside -pid "$TARGET" --control
	tell go
	for ((i = 0; i < 5; i++)); do
		eq "$(post handler in_loop true)" 200 "$(<"$TMP/reply")"
		wait_for '[[ $(of_target "{p[\"probe\"]: p[\"handler\"] for p in it[\"probes\"]}[\"in_loop\"]") = on ]]'
		eq "$(post handler in_loop false)" 200 "$(<"$TMP/reply")"
		wait_for '[[ $(of_target "{p[\"probe\"]: p[\"handler\"] for p in it[\"probes\"]}[\"in_loop\"]") = off ]]'
	done
	eq "$(handler_runs)" "" "the loops must outlast the switching"
	matches "$(post counter in_loop false)" '^[45]' "status"
	matches "$(<"$TMP/reply")" 'cannot switch single counters'
	tell stop
	await_line '# in_loop was seen.*' 60
	eq "$(scraped_hits)" "$(expected_hits)" "hits"
	(($(handler_runs | awk '$1 == "in_loop" { print $2 }') > 0)) || fail "the handler never ran"
	end_server
	check_clean
	tell quit
	finish_target
}

# ---- the end ----------------------------------------------------------------------------------

test_nothing_stays() {
	local first
	need_root
	start_reborn
	first=$TARGET
	start_reborn
	keep_memory "$first" "$TARGET"
	start_server --engine inside -pid "$first" -pid "$TARGET"
	counts_inside "$first" && counts_inside
	end_server
	eq "$SERVER_STATUS" 0 "status"
	check_clean "$first"
	check_clean
	# A reader that has enough, and a signal, end `top`.
	{ "$TOOL" top -pid "$TARGET" --engine inside --batch 1000 2>"$TMP/err" || :; } | head -n 1 >"$TMP/out"
	finds '^screen 1/1000 ' <"$TMP/out" || fail "$(<"$TMP/err")"
	check_clean
	background "$TOOL" top -pid "$TARGET" --engine inside --batch 1000 >"$TMP/out" 2>"$TMP/err"
	wait_for 'grep -q "^screen 1/" "$TMP/out"'
	counts_inside
	kill -TERM $!
	wait $! || fail "status $?"
	check_clean
}

# A killed server leaves processes that count for nobody. The next one takes them over, if it counts no less.
test_killed_server() {
	local first
	need_root
	start_reborn
	first=$TARGET
	start_reborn
	keep_memory "$first" "$TARGET"
	start_server --engine inside --exe "$REBORN" --time work,worked
	await_processes $(printf '%s\n' "$first" "$TARGET" | sort -n)
	pass 1000 "$first"
	end_server KILL 2>/dev/null
	pass 2000 "$first"
	counts_inside "$first" && counts_inside
	# Another request is no reason to lose what was counted.
	check_error 6 "pid $first: is already counted inside" serve --listen 127.0.0.1:0 --engine inside -pid "$first"
	grep -q "doctor -pid $first --fix" "$TMP/err" || fail "$(<"$TMP/err")"
	start_server --engine inside --exe "$REBORN" --time work,worked
	await_processes $(printf '%s\n' "$first" "$TARGET" | sort -n)
	grep -q "pid $first: was counted inside for pid [0-9]*, which has been killed" "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	eq "$(grep -c 'which has been killed: the counting is ended, and its totals are lost' "$TMP/serve.err")" 2 "lines of the log"
	eq "$(of_target 'it["problem"]')" None "problem"
	pass 10 "$first"
	pass 5
	eq "$(hits_of work)" 15 "hits"
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	check_clean "$first"
	check_clean
}

# What is kept, or counted by a tool that lives, or for something else, is not taken.
test_others_are_not_taken_over() {
	local first
	need_root
	start_reborn
	first=$TARGET
	start_reborn
	keep_memory "$first" "$TARGET"
	"$TOOL" attach -pid "$first" -q --count --engine inside --keep "ocp_watch_$PPID"
	start_counting "$TARGET" --engine inside --json
	start_server --engine inside --exe "$REBORN"
	wait_for '[[ $(of_target "it[\"problem\"]") = "pid '"$first"': is already counted inside"*"doctor -pid '"$first"' --fix"* ]]'
	pass 7 "$first"
	pass 8
	"$TOOL" detach "ocp_watch_$PPID" --json >"$TMP/kept"
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(totals)" "work 8
worked 8" "hits of the other tool"
	mv "$TMP/kept" "$TMP/counts"
	eq "$(totals)" "work 7
worked 7" "hits of the kept meter"
	# They are measured when they are free.
	await_processes $(printf '%s\n' "$first" "$TARGET" | sort -n)
	wait_for '[[ $(of_target "it[\"problem\"]") = None ]]'
	pass 5
	eq "$(hits_of work)" 5 "hits"
	end_server
	check_clean "$first"
	check_clean
}

# A debugger holds the process at the end: the server ends all the same, and says what is left.
test_held_by_another_tracer() {
	need_root
	need_command gdb
	start_reborn
	keep_memory
	start_server --engine inside --exe "$REBORN"
	await_processes "$TARGET"
	gdb -q -nx -batch -p "$TARGET" -ex 'shell touch "$TMP/held"' -ex 'shell sleep 1000' >"$TMP/gdb" 2>&1 &
	wait_for '[[ -e $TMP/held ]]'
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	matches "$(<"$TMP/serve.err")" "pid $TARGET .*: is being traced by pid .*; its counters still run: ocaml-probes doctor -pid $TARGET --fix"
	pkill -KILL -P "$!" || :
	kill -KILL "$!" || :
	wait "$!" || :
	wait_for '"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/out" 2>&1'
	check_clean
}

# ---- which engine -----------------------------------------------------------------------------

test_auto() {
	be_ordinary
	start_reborn "${AS_USER[@]}"
	: >"$TMP/serve.err"
	background env -u TMP "${AS_USER[@]}" "$TMP/ocaml-probes" serve -verbose --listen 127.0.0.1:0 --engine auto \
		--exe "$REBORN" >"$TMP/serve.out" 2>"$TMP/serve.err"
	SERVER=$!
	wait_for 'has_text "$TMP/serve.err" " serving http" || ! kill -0 "$SERVER"'
	URL=$(sed -n 's/.* serving \(http[^#]*\).*/\1/p' "$TMP/serve.err")
	[[ -n $URL ]] || fail "$(<"$TMP/serve.err")"
	matches "$(<"$TMP/serve.err")" 'engine: inside, since BPF is not available: '
	eq "$(of_target 'it["engine"]')" inside "engine"
	await_processes "$TARGET"
	pass 11
	eq "$(hits_of work)" 11 "hits"
	end_server
	# Where BPF is permitted, also for processes of others.
	need_counting
	start_server --engine auto --exe "$REBORN"
	eq "$(of_target 'it["engine"]')" bpf "engine"
	pass 11
	eq "$(hits_of work)" 11 "hits"
	end_server
}

# The kernel's counting exceeds the budget: it goes on inside, and no counter is switched off.
test_auto_keeps_the_budget() {
	local loop hits
	need_counting
	loop=$(own_copy "$O/tests/ocaml/loop")
	start_target "$loop" busy
	await_line ready
	start_server --engine auto -pid "$TARGET" --budget 1%
	hits=$(hits_of alpha)
	wait_for '[[ $(of_target "it[\"engine\"]") = inside ]]'
	matches "$(<"$TMP/serve.err")" 'exceeds the budget of 1%: counted inside from now on'
	eq "$(int3_count "$TARGET")" 0 "uprobes"
	(($(hits_of alpha) > hits)) || fail "from $hits back to $(hits_of alpha)"
	eq "$(of_target 'it["problem"], [p["probe"] for p in it["probes"] if not p["counted"]]')" "(None, [])" "problem, counters off"
	end_server
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
	# Where that is not possible, the kernel goes on, and switches counters off.
	start_target "$(own_copy "$O/tests/ocaml/loop_plain")" busy
	await_line ready
	start_server --engine auto -pid "$TARGET" --budget 1%
	wait_for '[[ $(of_target "it[\"problem\"]") = *"exceeds the budget of 1%"* ]]'
	eq "$(of_target 'it["engine"]')" bpf "engine"
	matches "$(<"$TMP/serve.err")" 'engine: bpf: .*dormant'
	end_server
}

test_refused() {
	local plain other
	need_root
	need_command setpriv
	chmod 755 "$TMP"
	start_reborn "${AS_USER[@]}"
	other=$TARGET
	for what in 'serve --listen 127.0.0.1:0' 'top --batch 1'; do
		# shellcheck disable=SC2086 # a command and its option
		check_error 3 "pid $other: belongs to uid 65534: uid 0 can count inside its own processes only" $what --engine inside -pid "$other"
		# shellcheck disable=SC2086
		check_error 2 '--engine inside requires -pid or --exe' $what --engine inside
		# shellcheck disable=SC2086
		check_error 2 "--engine 'x': not bpf, inside or auto" $what --engine x -pid "$other"
		# shellcheck disable=SC2086
		check_error 2 '--engine inside excludes --budget' $what --engine inside -pid "$other" --budget 5%
		# shellcheck disable=SC2086
		check_error 2 '--engine inside excludes c:' $what --engine inside -pid "$other" --count=c:caml_main
	done
	check_error 2 '--engine inside excludes --label-pid' serve --engine inside -pid "$other" --label-pid
	check_error 2 '-config excludes measuring options' serve --config x --engine inside
	plain=$(own_copy "$O/tests/ocaml/loop_plain")
	start_target "$plain"
	await_line ready
	check_error 4 "pid $TARGET: [0-9]+ sites are dormant, which the engine .inside. cannot count" serve -q --listen 127.0.0.1:0 --engine inside -pid "$TARGET"
	# Of a program that is named by its file, the problem; those of our own are measured.
	start_server --engine inside --exe "$REBORN"
	wait_for '[[ $(of_target "it[\"problem\"]") = "pid '"$other"': belongs to uid 65534"* ]]'
	eq "$(of_target 'it["up"], it["processes"], it["engine"]')" "(False, [], 'inside')" "up, processes, engine"
	start_reborn
	await_processes "$TARGET"
	pass 7
	pass 7000 "$other"
	eq "$(hits_of work)" 7 "hits"
	end_server
	eq "$("$TOOL" doctor -pid "$other")" "" "doctor"
}

# The engine of a target can change with the configuration: totals go on.
test_configuration() {
	need_counting
	start_reborn
	write_config() { # ENGINE
		printf '{ "listen": "127.0.0.1:0", "targets": [{ "exe": "%s", "engine": "%s" }] }\n' "$REBORN" "$1" >"$TMP/config"
	}
	write_config inside
	start_server --config "$TMP/config"
	await_processes "$TARGET"
	pass 10
	write_config bpf
	kill -HUP "$SERVER"
	wait_for '[[ $(of_target "it[\"engine\"]") = bpf ]]'
	pass 200
	write_config inside
	kill -HUP "$SERVER"
	wait_for '[[ $(of_target "it[\"engine\"]") = inside ]]'
	await_processes "$TARGET"
	pass 3000
	eq "$(hits_of work)" 3210 "hits"
	end_server
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

run_tests "$@"
