#!/usr/bin/env bash
# `serve --memprof`: what is allocated and alive, over HTTP, in the metrics and on the page.
#
# needs: fixtures serve top unit-tests ocaml
# not_on: 5.0.* 5.1.* 5.2.*
# takes: 70 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"
. "$(dirname "$0")/memprof_lib.sh"

# Start a copy of its own of tests/ocaml/memprof/subject.ml: uprobes are in files. Sets TARGET and COPY.
start_copy() { # ARG...
	need_counting
	need_program subject
	COPY=$TMP/subject
	cp -n "$PROGRAM" "$COPY"
	start_target "$COPY" "$@"
	await_line ready
}

# Wait until Gc.Memprof runs in N processes, as the metrics say.
await_profiled() { # N
	wait_for "[[ \$(metric processes) = $1 ]]"
}

metric() { # NAME
	get metrics | sed -n "s/^ocaml_probes_memprof_$1{exe=\"[^\"]*subject\"} //p"
}

pid_of_memprof() {
	pgrep -P "$SERVER" -x probes-memprof
}

# The shares of most, some and few, in per cent, in the value AT of a file of pprof.
shares_of() { # FILE AT
	read_pprof "$1" "(lambda found: ' '.join('%.1f' % (100 * n / sum(found)) for n in found))(
		[value('Subject.' + n, $2) for n in ('most', 'some', 'few')])"
}

within_two() { # WHAT MOST SOME FEW
	awk -v most="$2" -v some="$3" -v few="$4" 'function off(a, b) { return a < b - 2 || a > b + 2 }
		BEGIN { exit off(most, 70) || off(some, 20) || off(few, 10) }' || fail "$*"
}

# A high rate, and a program that allocates little: what is sampled is all that counts.
test_shares() {
	local at begin took_us
	start_copy shares 0.005
	start_server --exe "$COPY" --memprof=0.5
	await_profiled 1
	# The minor heap has 262144 words: some are free.
	wait_for '(( $(metric allocated_words_total) > 600000 ))'
	eq "$(ask debug/pprof/heap)" 200 "$(said "$TMP/reply")"
	cp "$TMP/reply" "$TMP/heap"
	eq "$(read_pprof "$TMP/heap" 'types')" "[('alloc_objects', 'count'), ('alloc_space', 'bytes'), \
('inuse_objects', 'count'), ('inuse_space', 'bytes')]" "types"
	eq "$(read_pprof "$TMP/heap" 'it.strings[it.message.default_sample_type], it.type_name(it.message.period_type),
		it.message.period')" "('inuse_space', ('space', 'bytes'), 16)" "default, period"
	eq "$(read_pprof "$TMP/heap" 'value(None) == value(None, exe="'"$COPY"'", pid='"$TARGET"') > 0')" True "labels"
	eq "$(read_pprof "$TMP/heap" 'value(None, 0) > value(None, 2) > 0 and value(None, 1) > value(None, 3) > 0')" True "live"
	for at in 0 1 2 3; do
		# shellcheck disable=SC2046
		within_two "value $at" $(shares_of "$TMP/heap" $at)
	done
	# Bytes.create 79: ten words and a header.
	eq "$(read_pprof "$TMP/heap" '[round(value("Subject.most", at + 1) / value("Subject.most", at)) for at in (0, 2)]')" \
		"[88, 88]" "bytes of a block"
	read_pprof "$TMP/heap" '"\n".join(it.strings[c] for c in it.message.comment)' >"$TMP/comments"
	matches "$(<"$TMP/comments")" "^pid $TARGET: profiled since 20.*Z; blocks that were allocated before are not included$"
	begin=${EPOCHREALTIME/./}
	eq "$(ask "debug/pprof/heap?seconds=2")" 200 "$(said "$TMP/reply")"
	took_us=$((${EPOCHREALTIME/./} - begin))
	# shellcheck disable=SC2046
	within_two "allocated in 2 s" $(shares_of "$TMP/reply" 1)
	eq "$(read_pprof "$TMP/reply" "1.9e9 < it.message.duration_nanos < $took_us * 1e3")" True "duration"
	read_pprof "$TMP/reply" 'value(None, 1)' >"$TMP/delta"
	eq "$(ask debug/pprof/heap)" 200
	# All that it has allocated: more than before and in those two seconds.
	eq "$(read_pprof "$TMP/reply" "value(None, 1) >= $(read_pprof "$TMP/heap" 'value(None, 1)') + $(<"$TMP/delta") > 0")" True "sums"
	eq "$(ask "api/v1/heap?exe=$COPY")" 200 "$(said "$TMP/reply")"
	# shellcheck disable=SC2046
	within_two "sites" $(python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))
live = {n: sum(s["live_words"] for s in it["sites"] if s["function"] == "Subject." + n) for n in ("most", "some", "few")}
assert it["sites"][0]["function"] == "Subject.most" and it["sites"][0]["file"] == "subject.ml", it
assert it["losses"] == {"allocations": 0, "words": 0, "frees": 0, "not_followed": 0}, it
assert it["processes"][0]["state"] == "running" and it["live_words"] >= sum(live.values()), it
print(*(100 * n / sum(live.values()) for n in live.values()))' "$TMP/reply")
	(($(metric live_words) > 20000 && $(metric allocated_words_total) > $(metric live_words)))
	eq "$(metric lost_events_total)" 0
	# To count the library's own probes would cost a trap for each event.
	eq "$(get metrics | grep -c '^ocaml_probes_counted{probe="memprof_.*} 0$')" 5 "probes that are not counted"
	eq "$(get metrics | grep -c '^ocaml_profiles_served_total{kind="heap"} 3$')" 1 "served"
}

# It changes the state of the program: who may not switch may not start it.
test_access() {
	local path
	start_copy leak
	start_server --exe "$COPY" --profile
	for path in debug/pprof/heap api/v1/heap; do
		eq "$(status_of "$path")" 401 "no token"
		eq "$(ask "$path" -H 'Origin: http://example.org')" 403 "foreign Origin"
		eq "$(ask "$path" -X POST -d '')" 405 "POST"
		eq "$(ask "$path")" 403 "without --control"
		finds '"error":"Gc.Memprof does not run, and requests may not start it","hint":"start the server with --memprof' \
			<"$TMP/reply" || fail "$(<"$TMP/reply")"
	done
	eq "$(status_of_target)" free
	end_server
	start_server --exe "$COPY" --profile --control
	eq "$(status_of debug/pprof/heap)" 401 "no token"
	eq "$(ask api/v1/heap)" 403 "looking starts nothing"
	eq "$(json_of api/v1/status 'it["memprof"]')" False "status"
	eq "$(status_of_target)" free
	! pid_of_memprof || fail "it runs"
	eq "$(ask debug/pprof/heap)" 200 "$(said "$TMP/reply")"
	await_profiled 1
	grep -q ' 127.0.0.1:[0-9]*: heap profile: started in all measured programs$' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	eq "$(json_of api/v1/status 'it["memprof"]')" True "status"
	eq "$(status_of_target)" profiled
	end_server
	eq "$SERVER_STATUS" 0
	wait_for '[[ $(status_of_target) = free ]]'
	start_server --exe "$COPY"
	eq "$(status_of debug/pprof/heap)" 404
	finds '"hint":"start it with --memprof"' <"$TMP/reply" || fail "$(<"$TMP/reply")"
}

# What the options say can be in the configuration, too.
test_keys_of_the_configuration() {
	local change
	start_copy shares 0.005
	printf '%s\n' 0123456789abcdefABCDEF-secret-secret >"$TMP/token"
	chmod 600 "$TMP/token"
	write_config() { # MEMPROF PROFILE [TOKEN-FILE]
		printf '{ "listen": "127.0.0.1:0",\n"memprof": %s,\n"profile": %s,\n"token_file": "%s",\n"targets": [{ "exe": "%s" }] }\n' \
			"$1" "$2" "${3:-$TMP/token}" "$COPY" >"$TMP/config"
	}
	write_config 0.25 true
	start_server --config "$TMP/config"
	eq "$TOKEN" "" "a token that is printed"
	TOKEN=0123456789abcdefABCDEF-secret-secret
	await_profiled 1
	eq "$(ask api/v1/heap)" 200 "$(said "$TMP/reply")"
	eq "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["rate"])' "$TMP/reply")" 0.25 "rate"
	eq "$(ask debug/pprof/heap)" 200 "$(said "$TMP/reply")"
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
	eq "$(status_of "debug/pprof/profile?seconds=1")" 401 "without the token"
	eq "$(json_of api/v1/status 'it["profile"], it["memprof"]')" "(True, True)" "status"
	for change in 'memprof 2 0.5 true' 'memprof 2 true true' 'memprof 2 false true' 'profile 3 0.25 false' 'token_file 4 0.25 true /nowhere'; do
		# shellcheck disable=SC2086 # words
		set -- $change
		write_config "$3" "$4" "${5:-}"
		kill -HUP "$SERVER"
		wait_for "has_text '$TMP/serve.err' 'config:$2: $1: cannot change without a restart'"
		: >"$TMP/serve.err"
	done
	write_config 0.25 true
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "configuration reloaded, 1 target"'
	eq "$(metric processes)" 1 "profiled processes"
	end_server
	eq "$SERVER_STATUS" 0
	# An option has precedence.
	write_config false false
	start_server --config "$TMP/config" --memprof=0.125
	TOKEN=0123456789abcdefABCDEF-secret-secret
	await_profiled 1
	eq "$(ask api/v1/heap)" 200 "$(said "$TMP/reply")"
	eq "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["rate"])' "$TMP/reply")" 0.125 "rate of the option"
}

test_usage() {
	check_error 2 "--memprof requires -pid, --exe or --config" serve --memprof
	check_error 2 "-memprof '2': not a number from 1e-9 to 1" serve --memprof=2 --exe /bin/true
	check_error 2 "--memprof: 0.0.0.0:0: not a loopback address" serve --memprof --exe /bin/true --listen 0.0.0.0:0
	echo '{ "listen": "127.0.0.1:0" }' >"$TMP/config"
	check_error 2 "config: targets: not given: --memprof is for programs that are named" serve --memprof --config "$TMP/config"
	check_error 2 "--memprof requires -pid or --exe" top --memprof
	start_copy leak
	start_server --exe "$COPY" --memprof
	eq "$(ask "debug/pprof/heap?seconds=0")" 400
	eq "$(ask "debug/pprof/heap?pid=1")" 404
	eq "$(ask "api/v1/heap?seconds=5")" 400
	eq "$(ask "api/v1/heap?leaf=2")" 400
	eq "$(ask "debug/pprof/heap?leaf=1")" 400
	eq "$(ask debug/pprof/profile)" 404 "only the heap"
	finds '^/debug/pprof/heap ' <<<"$(get debug/pprof/)" || fail "the index"
}

# Sites are in the program's own code, or the innermost frames.
test_own_code() {
	start_copy kinds
	start_server --exe "$COPY" --memprof=0.001
	await_profiled 1
	wait_for 'ask "api/v1/heap" >/dev/null && finds "\"function\":\"Subject.reversed\"" "$TMP/reply"'
	eq "$(ask "api/v1/heap?leaf=0")" 200 "$(said "$TMP/reply")"
	cp "$TMP/reply" "$TMP/own"
	eq "$(ask "api/v1/heap?leaf=1")" 200 "$(said "$TMP/reply")"
	holds python3 - "$TMP/own" "$TMP/reply" <<-'PY' || fail "$(cat "$TMP/own" "$TMP/reply")"
	import json, sys
	own, leaf = ({(s["function"], s["file"], s["via"]) for s in json.load(open(path))["sites"]} for path in sys.argv[1:])
	assert ("Subject.reversed", "subject.ml", "List.rev_append") in own and ("Subject.pairs", "subject.ml", None) in own, own
	assert not any(file == "list.ml" for _, file, _ in own), own
	assert ("List.rev_append", "list.ml", None) in leaf and not any(via for _, _, via in leaf), leaf
	PY
}

# Processes that come, execute another program, and end.
test_processes() {
	local first second
	start_copy leak
	first=$TARGET
	start_copy leak
	second=$TARGET
	start_server --exe "$COPY" --memprof=0.01
	await_profiled 2
	wait_for 'ask debug/pprof/heap >/dev/null &&
		[[ $(read_pprof "$TMP/reply" "all(value(\"Subject.leak\", pid=pid) > 0 for pid in ('"$first, $second"'))") = True ]]'
	eq "$(ask debug/pprof/heap)" 200 "$(said "$TMP/reply")"
	eq "$(read_pprof "$TMP/reply" "[value('Subject.leak', pid=pid) > 0 for pid in ($first, $second)]")" "[True, True]" "both"
	eq "$(ask "debug/pprof/heap?pid=$first")" 200
	eq "$(read_pprof "$TMP/reply" "[value(None, 1, pid=pid) > 0 for pid in ($first, $second)]")" "[True, False]" "one"
	# It takes its numbers with it.
	kill -KILL "$first"
	await_profiled 1
	eq "$(ask debug/pprof/heap)" 200
	eq "$(read_pprof "$TMP/reply" "[value(None, 1, pid=pid) > 0 for pid in ($first, $second)]")" "[False, True]" "the other"
	tell exec "$second"
	wait_for '[[ $(grep -cx ready "$(output_of)") = 2 ]]'
	await_profiled 1
	wait_for 'ask "debug/pprof/heap?pid=$TARGET" >/dev/null &&
		[[ $(read_pprof "$TMP/reply" "value(\"Subject.leak\") > 0") = True ]]'
	start_copy leak
	await_profiled 2
	eq "$(status_of_target)" profiled
	kill -KILL "$TARGET" "$second"
	await_profiled 0
	eq "$(ask debug/pprof/heap)" 200
	eq "$(read_pprof "$TMP/reply" 'value(None, 1), len(types)')" "(0, 4)" "none is left"
	eq "$(metric live_words)" 0
	(($(metric allocated_words_total) > 0))
}

test_without_the_library() {
	need_counting
	COPY=$(own_copy "$O/tests/ocaml/steady")
	start_target "$COPY"
	await_line ready
	start_server --exe "$COPY" --memprof
	wait_for '[[ $(ask debug/pprof/heap) = 501 ]]'
	eq "$(<"$TMP/reply")" "{\"error\":\"pid $TARGET: is not linked with ocaml-probes.memprof\",\"hint\":\"/debug/pprof/allocs \
and \`ocaml-probes profile --alloc\` need no library\"}"
	eq "$(ask api/v1/heap)" 200
	finds '"state":"none","since":null,"problem":"pid [0-9]*: is not linked' <"$TMP/reply" || fail "$(<"$TMP/reply")"
}

test_own_profile_is_left_alone() {
	local before
	start_copy own
	await_line 'own [1-9][0-9]*'
	start_server --exe "$COPY" --memprof
	wait_for '[[ $(ask debug/pprof/heap) = 503 ]]'
	finds '"hint":"the program itself runs a profile, which is not disturbed"' <"$TMP/reply" || fail "$(<"$TMP/reply")"
	forget_output
	await_line 'own [1-9][0-9]*'
	before=$(sed -n 's/^own //p' "$(output_of)" | head -n 1)
	wait_for "(( \$(sed -n 's/^own //p' '$(output_of)' | tail -n 1) > $before + 100 ))"
	quit_target
	eq "$TARGET_STATUS" 0
}

# However it ends; and if only its reader ends, the next request starts another.
test_ends() {
	local how
	start_copy leak
	for how in KILL TERM; do
		start_server --exe "$COPY" --memprof
		await_profiled 1
		eq "$(status_of_target)" profiled
		if [[ $how = KILL ]]; then
			kill -KILL "$(pid_of_memprof)"
			wait_for '[[ $(status_of_target) = free ]]'
			eq "$(ask debug/pprof/heap)" 200 "$(said "$TMP/reply")"
			await_profiled 1
		fi
		end_server "$how"
		wait_for '[[ $(status_of_target) = free ]]'
	done
	quit_target
	eq "$TARGET_STATUS" 0
}

# Its reader stands still: the program goes on, and what has no room is counted.
test_losses() {
	start_copy shares 0
	start_server --exe "$COPY" --memprof=0.3
	await_profiled 1
	kill -STOP "$(pid_of_memprof)"
	let_work 80
	kill -CONT "$(pid_of_memprof)"
	wait_for '(( $(metric lost_events_total) > 0 ))'
	eq "$(ask debug/pprof/heap)" 200
	read_pprof "$TMP/reply" '"\n".join(it.strings[c] for c in it.message.comment)' >"$TMP/comments"
	matches "$(<"$TMP/comments")" 'pid [0-9]*: [1-9][0-9]* allocations were lost, with [1-9][0-9]* samples'
	eq "$(ask api/v1/heap)" 200
	finds '"losses":{"allocations":[1-9]' <"$TMP/reply" || fail "$(said "$TMP/reply")"
}

# The same values in the file of `memprof`; --live says which one readers show first.
test_files_of_memprof() {
	local live
	start_copy shares 0.005
	for live in "" --live; do
		# shellcheck disable=SC2086 # it may be no word
		memprof --rate 0.1 --for 500ms --quiet --pprof "$TMP/file" $live >/dev/null
		eq "$(read_pprof "$TMP/file" "[t for t, _ in types], it.message.period, it.strings[it.message.default_sample_type]")" \
			"(['alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space'], 80, '$([[ $live ]] && echo inuse || echo alloc)_space')" "$live"
		gzip -dc "$TMP/file" | protoc --decode perftools.profiles.Profile --proto_path="$ROOT/tests/profile" profile.proto >"$TMP/text"
		eq "$(grep -c '^sample_type {' "$TMP/text")" 4 "protoc"
	done
}

# KEEP_SCREENSHOTS: as in web.sh.
test_page() {
	need_command chromium-headless-shell chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
	start_copy shares 0.005
	cp "$COPY" "$TMP/kinds"
	start_target "$TMP/kinds" kinds
	await_line ready
	HOME=$TMP holds /usr/bin/python3 -B "$ROOT/tests/e2e/serve_heap_page.py" "$COPY" "$TMP/kinds" || fail "serve said: $(<"$TMP/serve.err")"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

run_tests "$@"
