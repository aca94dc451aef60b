#!/usr/bin/env bash
# `serve --profile`: profiles over HTTP, against the books of the program; who gets them, and what goes wrong.
#
# needs: fixtures serve unit-tests ocaml/counted ocaml/profiled
# takes: 170 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"

# Start a copy of PROFILED of its own, which does what it is told. Sets TARGET and PROGRAM.
start_profiled() { # cpu|touch|alloc [NAME [SEVENTY TWENTY TEN]]
	PROGRAM=$TMP/${2:-profiled}
	cp -n "$PROFILED" "$PROGRAM"
	start_target "$PROGRAM" "$1" "${@:3}"
	await_line ready
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

# A server whose profiles end when the test says so, however long that takes: it is later then. Its samples are taken at page
# faults.
start_server_with_clock() { # ARG...
	prepare_clock
	export "${AT_FAULTS[1]}"
	LD_PRELOAD=$TMP/later.so:${AT_FAULTS[0]#*=} start_server "$@"
}

# The page faults of the books, also as nanoseconds at HZ samples a second, are those of each function in the profile FILE.
check_touched_pages() { # FILE HZ [PID]
	eq "$(read_pprof "$1" "'\n'.join(name + ' %d' % value(*of, at_end='Profiled.touch'${3:+, pid=$3})
		for name in ('seventy', 'ten', 'twenty') for of in [('Profiled.' + name, 0), ('Profiled.' + name,)])")" \
		"$(sort "$TMP/books" | python3 -c 'import sys
for name, n in map(str.split, sys.stdin):
    print(f"{name} {n}\n{name} {int(n) * 10**9 // int(sys.argv[1])}")' "$2")" "the page faults of $1"
}

# ---- profiles ---------------------------------------------------------------------------------

test_cpu() {
	local begin
	need_counting
	start_profiled touch
	start_server_with_clock --exe "$PROGRAM" --profile
	ask_later "debug/pprof/profile?seconds=200&hz=4999" "$TMP/p"
	await_sampling
	run_books 2
	# The server goes on meanwhile.
	eq "$(json_of api/v1/status 'it["profile"], len(it["targets"])')" "(True, 1)" "status"
	get metrics | finds -x 'ocaml_profiles_served_total{kind="cpu"} 0' || fail "metrics"
	later 200
	wait "$ASKED"
	eq "$(<"$TMP/p.status")" 200 "$(said "$TMP/p")"
	check_touched_pages "$TMP/p" 4999
	# When it started, it tried whether the kernel would let it.
	sed -i '/^cpu_clock 99 /d' "$TMP/asked"
	check_asked 4999
	eq "$(read_pprof "$TMP/p" 'types')" "[('samples', 'count'), ('cpu', 'nanoseconds')]" "types"
	eq "$(read_pprof "$TMP/p" 'value(None) == value(None, exe="'"$PROGRAM"'", pid='"$TARGET"')')" True "labels"
	eq "$(get metrics | sed -n 's/^ocaml_profile_samples_total{kind="cpu"} //p')" \
		"$(read_pprof "$TMP/p" 'value(None, 0)')" "samples in the metrics"
	get metrics | finds -x 'ocaml_profiles_served_total{kind="cpu"} 1' || fail "metrics"
	# How long one takes, by a clock that is right.
	begin=${EPOCHREALTIME/./}
	eq "$(ask "debug/pprof/profile?seconds=2&hz=99")" 200 "$(said "$TMP/reply")"
	eq "$(read_pprof "$TMP/reply" "2e9 <= it.message.duration_nanos < $((${EPOCHREALTIME/./} - begin)) * 1e3")" True "duration"
}

# For a time, and of all the time since the first request: the latter never go back, and differ by the books.
test_allocs() {
	local books
	need_counting
	start_profiled alloc
	await_reading
	start_server_with_clock --exe "$PROGRAM" --profile
	eq "$(ask debug/pprof/allocs)" 200 "$(said "$TMP/reply")"
	await_sampling
	eq "$(read_pprof "$TMP/reply" 'value(None), types')" "(0, [('samples', 'count'), ('alloc_space', 'bytes')])" "at first"
	ask_later "debug/pprof/allocs?seconds=200" "$TMP/delta"
	await_sampling
	run_books 1
	books=$(sed -n 's/^all: //p' "$(output_of)")
	later 200
	wait "$ASKED"
	eq "$(<"$TMP/delta.status")" 200 "$(said "$TMP/delta")"
	eq "$(ask debug/pprof/allocs)" 200 "$(said "$TMP/reply")"
	cp "$TMP/reply" "$TMP/first"
	eq "$(read_pprof "$TMP/first" 'value(None)')" "$(read_pprof "$TMP/delta" 'value(None)')" "the same words"
	# As check_words in profile.sh: nothing but what is left of 65536 words on a CPU is missing.
	eq "$(read_pprof "$TMP/first" "$books - ($(possible_cpus | wc -l) << 16) <= value(None) / 8 <= $books + 20000")" True \
		"$books words: $(read_pprof "$TMP/first" 'value(None) / 8')"
	run_books 1
	eq "$(ask debug/pprof/allocs)" 200
	eq "$(read_pprof "$TMP/reply" "value(None) > $(read_pprof "$TMP/first" 'value(None)')")" True "it grows"
}

# Profiles that overlap have all samples of their time: what one takes, the others have too, and none twice.
test_concurrent() {
	local i pids=() short
	need_counting
	start_profiled touch
	start_server_with_clock --exe "$PROGRAM" --profile
	for i in 1 2 3; do
		ask_later "debug/pprof/profile?seconds=200&hz=997" "$TMP/p$i"
		pids+=("$ASKED")
	done
	ask_later "debug/pprof/profile?seconds=100&hz=997&pid=$TARGET" "$TMP/p4"
	short=$ASKED
	await_begun "$TMP"/p1 "$TMP"/p2 "$TMP"/p3 "$TMP"/p4
	run_books 1
	later 100
	wait "$short"
	check_touched_pages "$TMP/p4" 997
	# The program works again, for the others only.
	mv "$TMP/books" "$TMP/books.before"
	run_books 2
	later 200
	wait "${pids[@]}"
	sort "$TMP/books" "$TMP/books.before" | awk '{ sum[$1] += $2 } END { for (name in sum) print name, sum[name] }' >"$TMP/both"
	mv "$TMP/both" "$TMP/books"
	for i in 1 2 3; do
		check_touched_pages "$TMP/p$i" 997
	done
}

test_two_programs() {
	local first first_exe
	need_counting
	start_profiled touch one
	first=$TARGET first_exe=$PROGRAM
	start_profiled touch two
	echo '{ "listen": "127.0.0.1:0", "targets": [ { "exe": "'"$first_exe"'" }, { "exe": "'"$PROGRAM"'" } ] }' >"$TMP/config"
	start_server_with_clock --config "$TMP/config" --profile
	ask_later "debug/pprof/profile?seconds=100&hz=499&exe=$first_exe" "$TMP/of_one"
	ask_later "debug/pprof/profile?seconds=100&hz=499&pid=$TARGET" "$TMP/of_two"
	ask_later "debug/pprof/profile?seconds=100&hz=499" "$TMP/of_both"
	await_begun "$TMP"/of_one "$TMP"/of_two "$TMP"/of_both
	TARGET=$first run_books 1
	mv "$TMP/books" "$TMP/books.first"
	run_books 2
	later 100
	wait "$ASKED"
	wait_for '[[ -s $TMP/of_one.status && -s $TMP/of_two.status ]]'
	check_touched_pages "$TMP/of_two" 499 "$TARGET"
	check_touched_pages "$TMP/of_both" 499 "$TARGET"
	cp "$TMP/books.first" "$TMP/books"
	check_touched_pages "$TMP/of_one" 499 "$first"
	check_touched_pages "$TMP/of_both" 499 "$first"
	eq "$(read_pprof "$TMP/of_one" 'value(None, pid='"$TARGET"')') $(read_pprof "$TMP/of_two" 'value(None, pid='"$first"')')" "0 0" \
		"the other one"
	get debug/pprof/ >"$TMP/index"
	eq "$(sed -n '/^Programs:$/,$p' "$TMP/index" | tail -n +2 | sort)" \
		"$(printf '%s\n' "$first_exe $first" "$PROGRAM $TARGET" | sort)" "the index"
}

# The process ends, and another one starts, while the profile is taken.
test_come_and_go() {
	local first
	need_counting
	start_profiled touch
	first=$TARGET
	start_server_with_clock --exe "$PROGRAM" --profile
	ask_later "debug/pprof/profile?seconds=200&hz=499" "$TMP/p"
	await_sampling
	run_books 2
	mv "$TMP/books" "$TMP/books.first"
	kill -9 "$first"
	start_profiled touch
	# The kernel knows it from its exec on, its functions are known when it is found.
	wait_for 'get debug/pprof/ | finds -x "$PROGRAM $TARGET"'
	run_books 1
	later 200
	wait "$ASKED"
	eq "$(<"$TMP/p.status")" 200 "$(said "$TMP/p")"
	check_touched_pages "$TMP/p" 499 "$TARGET"
	cp "$TMP/books.first" "$TMP/books"
	check_touched_pages "$TMP/p" 499 "$first"
	# No process is no error.
	kill -9 "$TARGET"
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 0$"'
	eq "$(ask "debug/pprof/profile?seconds=1")" 200
	eq "$(read_pprof "$TMP/reply" 'value(None), types[1]')" "(0, ('cpu', 'nanoseconds'))" "empty"
}

# The profiler keeps no descriptor of a process that has ended: neither links nor its memory.
test_ended_processes_are_closed() {
	local before links i comer
	need_counting
	start_profiled alloc
	start_server --exe "$PROGRAM" --profile
	eq "$(ask debug/pprof/allocs)" 200 "$(said "$TMP/reply")"
	await_sampling
	before=$(profiler_descriptors)
	links=$(sampling_links)
	for i in 1 2 3; do
		start_target "$PROGRAM" alloc
		comer=$TARGET
		await_line ready
		wait_for '[[ $(sampling_links) -gt $links ]]'
		kill -9 "$comer"
		wait_for 'has_ended "$comer"'
	done
	wait_for '[[ $(profiler_descriptors) -eq $before ]]'
	eq "$(sampling_links)" "$links" "links"
	eq "$(ask debug/pprof/allocs)" 200 "$(said "$TMP/reply")"
}

profiler_descriptors() {
	find "/proc/$(pgrep -P "$SERVER" -x probes-profiler)/fd" -type l | wc -l
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
	finds '"error":"16 profiles, the maximum, are already being taken"' <"$(grep -lx 429 "$TMP"/p*.status | sed 's/.status$//')" ||
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
	grep -q 'profile refused: missing or wrong token$' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	# Switching is another option.
	eq "$(status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{}')" 403
	end_server
	eq "$SERVER_STATUS" 0 "status"
	start_server --exe "$PROGRAM"
	eq "$TOKEN" "" "token"
	eq "$(status_of "debug/pprof/profile")" 404
	eq "$(<"$TMP/reply")" '{"error":"profiling is disabled","hint":"start it with --profile"}'
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
	eq "$status $(head -n 1 "$TMP/err")" "2 ocaml-probes: serve: --token-file requires --control, --profile, --memprof or --record"
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
	grep -q "token: $1$" "$TMP/err" || fail "$(<"$TMP/err")"
}

# ---- without BPF ------------------------------------------------------------------------------

# Ask for a profile of CPU time. It has whole stacks with FUNCTION, and no more time than the target has used since BEFORE, in
# nanoseconds.
check_profile_by_ptrace() { # FUNCTION
	local before
	before=$(cut -d' ' -f1 "/proc/$TARGET/schedstat")
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
	eq "$(read_pprof "$TMP/reply" "0 < value('$1') <= value('_start') == value(None) <= \
		$(($(cut -d' ' -f1 "/proc/$TARGET/schedstat") - before))")" True "the time: $(read_pprof "$TMP/reply" "value('$1'), value(None)")"
	eq "$(read_pprof "$TMP/reply" 'types, value(None) == value(None, exe="'"$PROGRAM"'", pid='"$TARGET"')')" \
		"([('samples', 'count'), ('cpu', 'nanoseconds')], True)" "types and labels"
}

# Where the kernel refuses perf events, as in containers, the server says so once, and takes profiles of the CPU time by ptrace.
# What a program does between two profiles is in none of them.
test_without_perf_events() {
	need_counting
	start_profiled cpu
	tell "run 1000000"
	# A filter as containers have it: perf_event_open.
	write_filter 298
	printf '#!/bin/sh\nexec python3 %q %q "$@"\n' "$TMP/filter.py" "$TOOL" >"$TMP/filtered"
	chmod +x "$TMP/filtered"
	TOOL=$TMP/filtered start_server --exe "$PROGRAM" --profile
	matches "$(grep 'profiles of CPU time' "$TMP/serve.err")" \
		'^ocaml-probes: profiles of CPU time: by ptrace, since BPF is not available: measuring: the kernel refuses [^;]*$'
	check_profile_by_ptrace Profiled.spin
	let_work 50
	check_profile_by_ptrace Profiled.spin
	get metrics | finds -x 'ocaml_profiles_served_total{kind="cpu"} 2' || fail "metrics"
	eq "$(sed -n 's/^TracerPid:.//p' "/proc/$TARGET/status")" 0 "its tracer"
}

# A user without privileges: the probes are counted inside the process, and the CPU time is sampled by ptrace. Profiles of
# allocations need BPF.
test_a_user_without_privileges() {
	local user=(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	need_command setpriv
	need_root
	chmod 755 "${TMP%/*}" "$TMP"
	cp "$O/ocaml-probes" "$O/ocaml-probes-serve" "$O/tests/ocaml/loop" "$TMP"
	PROGRAM=$TMP/loop
	start_target "${user[@]}" "$PROGRAM" busy
	await_line ready
	printf '#!/bin/sh\nexec %s %q "$@"\n' "${user[*]}" "$TMP/ocaml-probes" >"$TMP/as_user"
	chmod +x "$TMP/as_user"
	TOOL=$TMP/as_user start_server --exe "$PROGRAM" --profile
	wait_for 'get metrics | finds "^ocaml_probes_hits_total.*alpha"'
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
	eq "$(read_pprof "$TMP/reply" "value(None) > 0 and value(None) == value(None, pid=$TARGET)")" True "samples"
	eq "$(ask "debug/pprof/allocs")" 503 "$(said "$TMP/reply")"
	finds '"error":"measuring: ocaml-probes lacks CAP_BPF and CAP_PERFMON"' <"$TMP/reply" || fail "$(<"$TMP/reply")"
}

# ---- parameters -------------------------------------------------------------------------------

expect_refusal() { # STATUS ERROR QUERY [PATH]
	eq "$(ask "${4:-debug/pprof/profile}?$3")" "$1" "$3: $(said "$TMP/reply")"
	finds "\"error\":\"$2\"" <"$TMP/reply" || fail "$3: $(<"$TMP/reply")"
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
	eq "$(<"$TMP/p.status") $(<"$TMP/p")" '503 {"error":"the profiling process ended","hint":null}'
	eq "$(ask "debug/pprof/profile?seconds=1")" 200 "$(said "$TMP/reply")"
	get metrics | finds -x 'ocaml_profiles_failed_total{kind="cpu"} 1' || fail "metrics"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

# ---- the page ---------------------------------------------------------------------------------

# KEEP_SCREENSHOTS: as in web.sh.
test_page() {
	need_counting
	need_command chromium-headless-shell chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
	start_profiled touch
	HOME=$TMP holds /usr/bin/python3 -B "$ROOT/tests/e2e/serve_profile_page.py" "$PROGRAM" "$TARGET" "${AT_FAULTS[0]#*=}" ||
		fail "serve said: $(<"$TMP/serve.err")"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

run_tests "$@"
