#!/usr/bin/env bash
# `serve --profile`: profiles over HTTP, against the books of the program; who gets them, and what goes wrong.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"

PROFILED=$O/tests/ocaml/profiled

# Start a copy of PROFILED of its own, which does what it is told. Sets TARGET and PROGRAM.
start_profiled() { # cpu|alloc [NAME [SEVENTY TWENTY TEN]]
	PROGRAM=$TMP/${2:-profiled}
	cp -n "$PROFILED" "$PROGRAM"
	start_target "$PROGRAM" "$1" "${@:3}"
	await_line ready
}

# Let the target have a CPU whenever it can run. The CPU time of a program that shares its CPU with many others, each
# of which runs for microseconds, is up to 7 % less than any samples by time tell, perf's too: the others often begin
# to run just after a sample.
prefer_target() {
	renice -n -20 -p "$TARGET" >/dev/null
}

# The links by which the profiling process takes samples.
sampling_links() {
	local fd n=0
	for fd in "/proc/$(pgrep -P "$SERVER" -x probes-profiler)"/fdinfo/*; do
		! grep -q '^link_type:.*\(perf\|uprobe_multi\)' "$fd" 2>/dev/null || n=$((n + 1))
	done
	echo "$n"
}

# It takes samples, and waits for more to do (system call 7, poll).
await_sampling() {
	wait_for '[[ $(sampling_links) -gt 0 ]] && grep -q "^7 " "/proc/$(pgrep -P "$SERVER" -x probes-profiler)/syscall"'
}

# A server whose profiles end when the test says so, however long that takes: it is later then.
start_server_with_clock() { # ARG...
	prepare_clock
	LD_PRELOAD=$TMP/later.so start_server "$@"
}

# The program worked for some seconds while the profile FILE was taken: the shares must be those of its books.
# The books leave out what the kernel did for others in between (profiled.ml), which may be a tenth of a second.
check_shares() { # FILE
	local books
	await_line "done" 30
	books=$(sed -n 's/^\([a-z]*\) \([0-9]*\)$/"\1": \2,/p' "$(output_of)")
	read_pprof "$1" "(lambda books, found: [
		print(n, 100 * found[n] / sum(found.values()), 100 * books[n] / sum(books.values())) for n in books] and
		all(abs(found[n] / sum(found.values()) - books[n] / sum(books.values())) <= 0.02 for n in books))(
		{$books}, {n: value('Profiled.' + n, without='handle_softirqs') for n in ('seventy', 'twenty', 'ten')})" >"$TMP/shares"
	eq "$(tail -n 1 "$TMP/shares")" True "$(cat "$TMP/shares")"
}

sum_of_books() {
	awk '/^[a-z]+ [0-9]+$/ { n += $2 } END { print n }' "$(output_of)"
}

# ---- profiles ---------------------------------------------------------------------------------

test_cpu() {
	local begin ticks_before books had
	need_counting
	start_profiled cpu
	prefer_target
	start_server_with_clock --exe "$PROGRAM" --profile
	ask_later "debug/pprof/profile?seconds=200&hz=4999" "$TMP/p"
	await_sampling
	ticks_before=$(($(ticks) + $(stolen)))
	tell "run 2"
	# The server goes on meanwhile.
	eq "$(json_of api/v1/status 'it["profile"], len(it["targets"])')" "(True, 1)" "status"
	get metrics | finds -x 'ocaml_profiles_served_total{kind="cpu"} 0' || fail "metrics"
	await_line "done"
	books=$(sum_of_books)
	had=$((($(ticks) + $(stolen) - ticks_before) * 10000000))
	later 200
	wait "$ASKED"
	eq "$(cat "$TMP/p.status")" 200 "$(said "$TMP/p")"
	check_shares "$TMP/p"
	eq "$(read_pprof "$TMP/p" 'types')" "[('samples', 'count'), ('cpu', 'nanoseconds')]" "types"
	eq "$(read_pprof "$TMP/p" 'value(None) == value(None, exe="'"$PROGRAM"'", pid='"$TARGET"')')" True "labels"
	# Samples have all that the program had of a CPU, which is more than its books have.
	read_pprof "$TMP/p" "value('Profiled.run') / $books, value('Profiled.run') / $had" | tr -d '(,)' >"$TMP/part"
	awk '{ exit !($1 > 0.95 && $2 < 1.05) }' "$TMP/part" || fail "of all time: $(cat "$TMP/part")"
	eq "$(get metrics | sed -n 's/^ocaml_profile_samples_total{kind="cpu"} //p')" \
		"$(read_pprof "$TMP/p" 'value(None, 0)')" "samples in the metrics"
	get metrics | finds -x 'ocaml_profiles_served_total{kind="cpu"} 1' || fail "metrics"
	# How long one takes, by a clock that is right.
	begin=${EPOCHREALTIME/./}
	eq "$(ask "debug/pprof/profile?seconds=2&hz=99")" 200 "$(said "$TMP/reply")"
	eq "$(read_pprof "$TMP/reply" "1.9e9 < it.message.duration_nanos < $((${EPOCHREALTIME/./} - begin)) * 1e3")" True "duration"
}

# For a time, and of all the time since the first request: the latter never go back, and differ by the books.
test_allocs() {
	need_counting
	# Many minor heaps run out before another function works: not each is sampled.
	start_profiled alloc profiled 2800000 800000 400000
	start_server_with_clock --exe "$PROGRAM" --profile
	eq "$(ask debug/pprof/allocs)" 200 "$(said "$TMP/reply")"
	await_sampling
	eq "$(read_pprof "$TMP/reply" 'value(None), types')" "(0, [('samples', 'count'), ('alloc_space', 'bytes')])" "at first"
	ask_later "debug/pprof/allocs?seconds=200" "$TMP/delta"
	await_sampling
	tell "run 1"
	await_line "done"
	later 200
	wait "$ASKED"
	eq "$(cat "$TMP/delta.status")" 200 "$(said "$TMP/delta")"
	check_shares "$TMP/delta"
	eq "$(ask debug/pprof/allocs)" 200 "$(said "$TMP/reply")"
	cp "$TMP/reply" "$TMP/first"
	check_shares "$TMP/first"
	eq "$(read_pprof "$TMP/first" 'value(None)')" "$(read_pprof "$TMP/delta" 'value(None)')" "the same words"
	# In words, and its books too: within 5 %.
	eq "$(read_pprof "$TMP/first" "0.95 < value(None) / 8 / $(sum_of_books) < 1.05")" True "the sum"
	forget_output
	tell "run 1"
	await_line "done" 30
	eq "$(ask debug/pprof/allocs)" 200
	eq "$(read_pprof "$TMP/reply" 'value(None)' | cut -c -12)" \
		"$(python3 -c "print(max(int('$(read_pprof "$TMP/reply" 'value(None)')'), int('$(read_pprof "$TMP/first" 'value(None)')') + 1))" |
			cut -c -12)" "it grows"
}

# Profiles that overlap have all samples of their time: what one takes, the others have too, and none twice.
test_concurrent() {
	local i pids=() before ticks stolen_before with_stolen
	need_counting
	start_profiled cpu
	prefer_target
	start_server --exe "$PROGRAM" --profile
	tell "run 60"
	eq "$(ask "debug/pprof/profile?seconds=1&hz=997")" 200 "$(said "$TMP/reply")" # it has the tables now
	before=$(ticks)
	stolen_before=$(stolen)
	for i in 1 2 3; do
		ask_later "debug/pprof/profile?seconds=6&hz=997" "$TMP/p$i"
		pids+=("$ASKED")
	done
	ask_later "debug/pprof/profile?seconds=2&hz=997&pid=$TARGET" "$TMP/p4"
	wait "$ASKED" "${pids[@]}"
	ticks=$(($(ticks) - before))
	with_stolen=$((ticks + $(stolen) - stolen_before))
	for i in 1 2 3 4; do
		eq "$(cat "$TMP/p$i.status")" 200 "$(said "$TMP/p$i")"
		read_pprof "$TMP/p$i" "value(None) / ($ticks * 1e7), value(None) / ($with_stolen * 1e7)" | tr -d '(,)' >"$TMP/part$i"
	done
	awk '{ if (FILENAME ~ /part4/ ? $1 < 0.1 || $2 > 0.6 : $1 < 0.7 || $2 > 1.05) exit 1 }' "$TMP"/part? ||
		fail "of all time: $(cat "$TMP"/part?)"
}

# The time that the target has had a CPU, in hundredths of a second.
ticks() {
	cpu_ticks "$TARGET" | awk '{ n += $2 } END { print n }'
}

# The time that a host has taken from this machine, likewise: samples have it, and the books have not.
stolen() {
	awk '/^cpu / { print $9 }' /proc/stat
}

test_two_programs() {
	local first first_exe
	need_counting
	start_profiled cpu one
	first=$TARGET first_exe=$PROGRAM
	start_profiled cpu two
	echo '{ "listen": "127.0.0.1:0", "targets": [ { "exe": "'"$first_exe"'" }, { "exe": "'"$PROGRAM"'" } ] }' >"$TMP/config"
	start_server --config "$TMP/config" --profile
	tell "run 60" "$first"
	tell "run 60"
	ask_later "debug/pprof/profile?seconds=2&hz=499&exe=$first_exe" "$TMP/of_one"
	eq "$(ask "debug/pprof/profile?seconds=2&hz=499")" 200 "$(said "$TMP/reply")"
	wait "$ASKED"
	eq "$(read_pprof "$TMP/reply" 'value("Profiled.fib", exe="'"$first_exe"'", pid='"$first"') > 5e7,
		value("Profiled.fib", exe="'"$PROGRAM"'", pid='"$TARGET"') > 5e7')" "(True, True)" "both"
	eq "$(read_pprof "$TMP/of_one" 'value("Profiled.fib", pid='"$first"') > 5e7, value(None, pid='"$TARGET"')')" "(True, 0)" \
		"only one"
	eq "$(ask "debug/pprof/profile?seconds=1&pid=$TARGET")" 200
	eq "$(read_pprof "$TMP/reply" 'value(None, pid='"$TARGET"') > 5e7, value(None, pid='"$first"')')" "(True, 0)" "by pid"
	get debug/pprof/ >"$TMP/index"
	eq "$(sed -n '/^Programs:$/,$p' "$TMP/index" | tail -n +2 | sort)" \
		"$(printf '%s\n' "$first_exe $first" "$PROGRAM $TARGET" | sort)" "the index"
}

# The process ends, and another one starts, while the profile is taken.
test_come_and_go() {
	local first
	need_counting
	start_profiled cpu
	first=$TARGET
	start_server_with_clock --exe "$PROGRAM" --profile
	ask_later "debug/pprof/profile?seconds=200&hz=499" "$TMP/p"
	tell "run 60"
	await_sampling
	let_work 100
	kill -9 "$first"
	start_profiled cpu
	tell "run 60"
	# It is found within a second, and works for two.
	let_work 200
	later 200
	wait "$ASKED"
	eq "$(cat "$TMP/p.status")" 200 "$(said "$TMP/p")"
	eq "$(read_pprof "$TMP/p" 'value("Profiled.fib", pid='"$first"') > 5e7, value("Profiled.fib", pid='"$TARGET"') > 5e7')" \
		"(True, True)" "the first and the second"
	# No process is no error.
	kill -9 "$TARGET"
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 0$"'
	eq "$(ask "debug/pprof/profile?seconds=1")" 200
	eq "$(read_pprof "$TMP/reply" 'value(None), types[1]')" "(0, ('cpu', 'nanoseconds'))" "empty"
}

# Nothing is sampled for a client that has gone, and its place is free.
test_client_gone() {
	local i
	need_counting
	start_profiled cpu
	start_server --exe "$PROGRAM" --profile
	for i in {1..17}; do
		ask_later "debug/pprof/profile?seconds=300" "$TMP/p$i"
	done
	wait_for 'grep -qx 429 "$TMP"/p*.status'
	finds '"error":"16 profiles are being taken; no more at one time"' <"$(grep -lx 429 "$TMP"/p*.status | sed 's/.status$//')" ||
		fail "the reason"
	await_sampling
	# shellcheck disable=SC2046
	kill $(jobs -p | grep -vx "$SERVER\|$TARGET") 2>/dev/null || true
	wait_for '[[ $(sampling_links) -eq 0 ]]'
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
}

# ---- access -----------------------------------------------------------------------------------

test_access() {
	local path
	need_counting
	start_profiled cpu
	start_server --exe "$PROGRAM" --profile
	matches "$TOKEN" '^[0-9a-f]{64}$' "token"
	for path in "debug/pprof/profile?seconds=1" "debug/pprof/allocs" "api/v1/profile?kind=cpu&seconds=1"; do
		eq "$(status_of "$path")" 401 "no token"
		eq "$(status_of "$path" -H 'Authorization: Bearer x')" 401 "wrong token"
		eq "$(ask "$path" -H 'Origin: http://example.org')" 403 "foreign Origin"
		eq "$(ask "$path" -H 'Host: example.org')" 421 "foreign Host"
		eq "$(ask "$path" -H "Host: 127.0.0.2:$PORT")" 421 "another address"
		eq "$(ask "$path" -X POST -d '')" 405 "POST"
		eq "$(ask "$path" -I)" 405 "HEAD"
		eq "$(ask "$path" -H "Origin: http://127.0.0.1:$PORT")" 200 "our own Origin: $(said "$TMP/reply")"
	done
	grep -q 'profile refused: missing or wrong token$' "$TMP/serve.err" || fail "$(cat "$TMP/serve.err")"
	# Switching is another option.
	eq "$(status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{}')" 403
	end_server
	eq "$SERVER_STATUS" 0 "status"
	start_server --exe "$PROGRAM"
	eq "$TOKEN" "" "token"
	eq "$(status_of "debug/pprof/profile")" 404
	eq "$(cat "$TMP/reply")" '{"error":"profiling is disabled","hint":"start it with --profile"}'
	eq "$(status_of "debug/pprof/")" 404
	eq "$(json_of api/v1/status 'it["profile"]')" False "status"
	! get metrics | finds '^ocaml_profile' || fail "metrics of profiles"
}

test_token_file() {
	local status
	need_counting
	start_profiled cpu
	printf '%s\n' "0123456789abcdefABCDEF-secret-secret" >"$TMP/token"
	chmod 600 "$TMP/token"
	start_server --exe "$PROGRAM" --profile --token-file "$TMP/token"
	! grep -q secret "$TMP/serve.err" || fail "it prints the token"
	TOKEN=0123456789abcdefABCDEF-secret-secret
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
	TOKEN=${TOKEN%t}
	eq "$(ask "debug/pprof/profile?seconds=1")" 401 "another token"
	end_server
	refuse_token "other users can read or write it" 644 0123456789abcdefABCDEF0123456789
	refuse_token "a token has 32 to 128 characters" 600 short
	refuse_token "not one line of printable characters without spaces" 600 "0123456789abcdef 0123456789abcdef"
	status=0
	"$TOOL" serve --exe "$PROGRAM" --token-file "$TMP/token" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "2 ocaml-probes: serve: -token-file requires -control, -profile or -memprof"
	status=0
	"$TOOL" serve --exe "$PROGRAM" --profile --listen 0.0.0.0:0 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "2 ocaml-probes: --profile: 0.0.0.0:0: not a loopback address, so other machines could \
profile programs"
}

refuse_token() { # WHY MODE TEXT
	local status=0
	printf '%s\n' "$3" >"$TMP/token"
	chmod "$2" "$TMP/token"
	timeout 300 "$TOOL" serve --exe "$PROGRAM" --profile --listen 127.0.0.1:0 --token-file "$TMP/token" 2>"$TMP/err" || status=$?
	[[ $status -ne 0 && $status -ne 124 ]] || fail "status $status"
	grep -q "token: $1$" "$TMP/err" || fail "$(cat "$TMP/err")"
}

# Where the CPU cannot be sampled, the server says so once, and goes on with what it can do.
test_privileges() {
	local why
	need_counting
	start_profiled cpu
	# A filter as containers have it: perf_event_open (298) fails with EPERM.
	printf '%s\n' 'import ctypes, os, struct, sys' \
		'code = [(0x20, 0, 0, 0), (0x15, 0, 1, 298), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]' \
		'bytes = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))' \
		'prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(bytes)))' \
		'assert ctypes.CDLL(None).prctl(22, 2, prog) == 0' \
		'os.execv(sys.argv[1], sys.argv[1:])' >"$TMP/filter.py"
	printf '#!/bin/sh\nexec python3 %q %q "$@"\n' "$TMP/filter.py" "$TOOL" >"$TMP/filtered"
	chmod +x "$TMP/filtered"
	TOOL=$TMP/filtered start_server --exe "$PROGRAM" --profile
	why=$(sed -n 's/^ocaml-probes: profiles cannot be taken: //p' "$TMP/serve.err")
	matches "$why" '^measuring: the kernel refuses .*; a seccomp filter is in force' "$(cat "$TMP/serve.err")"
	why=${why%%; *}
	eq "$(ask "debug/pprof/profile?seconds=1")" 503 "$(said "$TMP/reply")"
	finds "{\"error\":\"$why\",\"hint\":\"a seccomp filter" <"$TMP/reply" || fail "$(cat "$TMP/reply")"
	eq "$(ask debug/pprof/allocs)" 503 "$(said "$TMP/reply")"
	get debug/pprof/ | finds -x "Profiles cannot be taken: $why" || fail "the index"
	get metrics | finds '^ocaml_probes_up' || fail "no metrics"
}

# ---- parameters -------------------------------------------------------------------------------

expect_refusal() { # STATUS ERROR QUERY [PATH]
	eq "$(ask "${4:-debug/pprof/profile}?$3")" "$1" "$3: $(said "$TMP/reply")"
	finds "\"error\":\"$2\"" <"$TMP/reply" || fail "$3: $(cat "$TMP/reply")"
}

test_parameters() {
	local bad
	need_counting
	start_profiled cpu
	start_server --exe "$PROGRAM" --profile
	for bad in 0 -1 1e9 abc 301 1.5 '' 99999999999999999999 %2B5; do
		expect_refusal 400 "seconds '.*': not a whole number from 1 to 300" "seconds=$bad"
		expect_refusal 400 "seconds '.*': not a whole number from 1 to 300" "seconds=$bad" debug/pprof/allocs
	done
	expect_refusal 400 "seconds '2': given twice" "seconds=1&seconds=2"
	expect_refusal 400 "hz '10001': not a whole number from 1 to 10000" "hz=10001"
	expect_refusal 400 "second '5': no such parameter: there are seconds, hz, exe and pid" "second=5"
	expect_refusal 400 "hz '': only for CPU time" "hz=5" debug/pprof/allocs
	expect_refusal 400 "kind 'x': not cpu or alloc" "kind=x" api/v1/profile
	expect_refusal 404 "exe: no such program is watched" "exe=/bin/bash&seconds=1"
	expect_refusal 404 "pid: no such process of a watched program" "pid=1&seconds=1"
	eq "$(ask "debug/pprof/profile?seconds=1&debug=0")" 200
	eq "$(ask "debug/pprof/delta_heap")" 404
}

# The process that takes the profiles is killed: those who wait hear of it, the next one gets a profile.
test_profiler_dies() {
	need_counting
	start_profiled cpu
	start_server --exe "$PROGRAM" --profile
	ask_later "debug/pprof/profile?seconds=60" "$TMP/p"
	await_sampling
	kill -9 "$(pgrep -P "$SERVER" -x probes-profiler)"
	wait "$ASKED"
	eq "$(cat "$TMP/p.status") $(cat "$TMP/p")" '503 {"error":"the profiling process ended","hint":null}'
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
	get metrics | finds -x 'ocaml_profiles_failed_total{kind="cpu"} 1' || fail "metrics"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

# ---- the page ---------------------------------------------------------------------------------

# KEEP_SCREENSHOTS: as in web.sh.
test_page() {
	need_counting
	need_command chromium chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
	start_profiled cpu
	HOME=$TMP /usr/bin/python3 -B "$ROOT/tests/e2e/serve_profile_page.py" "$PROGRAM" "$TARGET" ||
		fail "serve said: $(cat "$TMP/serve.err")"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

run_tests "$@"
