#!/usr/bin/env bash
# `serve` among people who do not mean well: who may switch probes, and what clients can do to it.
#
# needs: fixtures serve asan ocaml/counted
# takes: 140 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

misbehave() { # WHAT
	python3 "$ROOT/tests/e2e/serve_clients.py" "$PORT" "$1" "$SERVER" "$FRONT"
}

# The status of a POST to switch `plain`'s WHAT to ON, with all that is needed; ARGs go before.
post() { # WHAT ON [CURL-ARG...]
	local body='{"exe": "'$V1'", "pid": null, "probe": "plain", "what": "'$1'", "on": '$2'}'
	shift 2
	status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d "$body" "$@"
}

# ---- control ----------------------------------------------------------------------------------

test_switching() {
	need_counting
	start_v1
	start_server -pid "$TARGET" --control
	matches "$TOKEN" '^[0-9a-f]{64}$' "token"
	eq "$(json_of api/v1/status 'it["control"]')" True "control"
	go 10

	eq "$(post counter false)" 200 "status: $(<"$TMP/reply")"
	eq "$(<"$TMP/reply")" '{"changed":true,"processes":1}' "reply"
	eq "$(post counter false)" 200 "status"
	eq "$(<"$TMP/reply")" '{"changed":false,"processes":1}' "reply to the same"
	go 10
	eq "$(hits_of plain) $(hits_of odd)" "10 20" "hits while it was off"
	get metrics | finds '^ocaml_probes_counted{probe="plain",.*} 0$'
	eq "$(post counter true)" 200 "status"
	go 10
	eq "$(hits_of plain) $(hits_of odd)" "20 30" "hits when it was on again"

	eq "$("$TOOL" info -pid "$TARGET" | awk '$1 == "plain" { print $2 }')" disabled "state"
	eq "$(post handler true)" 200 "status"
	eq "$(<"$TMP/reply")" '{"changed":true,"processes":1}' "reply"
	eq "$("$TOOL" info -pid "$TARGET" | awk '$1 == "plain" { print $2 }')" enabled "state"
	wait_for '[[ $(json_of api/v1/status "[p[\"handler\"] for p in it[\"targets\"][0][\"probes\"] if p[\"probe\"] == \"plain\"][0]") = on ]]'
	eq "$(post handler true)" 200 "status"
	eq "$(<"$TMP/reply")" '{"changed":false,"processes":0}' "reply to the same"
	eq "$(post handler false)" 200 "status"
	eq "$("$TOOL" info -pid "$TARGET" | awk '$1 == "plain" { print $2 }')" disabled "state"

	# All of it is in the log: when, who, what, and what came of it.
	eq "$(grep -cE '^ocaml-probes: 20[0-9-]{8}T[0-9:]{8}Z 127\.0\.0\.1:[0-9]+: (counter|handlers) of plain in .*/v1 (on|off): (0 processes|1 process)$' \
		"$TMP/serve.err")" 6 "lines in the log: $(<"$TMP/serve.err")"
	! grep -q "$TOKEN" <(tail -n +2 "$TMP/serve.err") || fail "the token is in the log"
	quit_target
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 0$"'
	eq "$(post handler true)" 409 "status when there is no process"
}

# Each of the checks alone refuses, and nothing is switched.
test_refusals() {
	local other name
	need_counting
	start_v1
	start_server -pid "$TARGET" --control
	eq "$(status_of api/v1/switch -H 'Content-Type: application/json' -d '{}')" 401 "no token"
	for other in '' x "${TOKEN%?}" "${TOKEN}0" "${TOKEN%?}$([[ $TOKEN = *0 ]] && echo 1 || echo 0)" "${TOKEN^^}x"; do
		eq "$(post handler true -H "Authorization: Bearer $other")" 401 "two headers"
		eq "$(status_of api/v1/switch -H "Authorization: Bearer $other" -H 'Content-Type: application/json' -d '{}')" 401 "token '$other'"
	done
	eq "$(status_of api/v1/switch -H "Authorization: Basic $TOKEN" -H 'Content-Type: application/json' -d '{}')" 401 "another scheme"
	eq "$(status_of "api/v1/switch?token=$TOKEN" -H 'Content-Type: application/json' -d '{}')" 401 "token elsewhere"
	for other in http://evil.example null "https://127.0.0.1:$PORT" "http://127.0.0.1:1" "http://127.0.0.1" "http://127.0.0.1:$PORT.evil.example"; do
		eq "$(post handler true -H "Origin: $other")" 403 "Origin $other"
	done
	for other in evil.example "evil.example:$PORT" 127.0.0.1 "127.0.0.1:1" "127.0.0.1:$PORT.evil.example" "localhost" ""; do
		for name in '' metrics api/v1/status healthz; do
			matches "$(status_of "$name" -H "Host: $other")" '^(421|400)$' "Host '$other' of /$name"
		done
		matches "$(post handler true -H "Host: $other")" '^(421|400)$' "Host '$other'"
	done
	# A target with a host of its own has none from Host.
	for other in "evil.example:$PORT" 127.0.0.1 "127.0.0.1:1" "127.0.0.1:$PORT.evil.example" "127.0.0.1:$PORT@evil.example" "127.0.0.1%3a$PORT"; do
		for name in metrics api/v1/switch; do
			matches "$(status_of '' --request-target "http://$other/$name")" '^(421|400)$' "http://$other/$name"
		done
		matches "$(post handler true --request-target "http://$other/api/v1/switch")" '^(421|400)$' "http://$other"
	done
	eq "$(post handler true --request-target "${URL}api/v1/switch" -H "Origin: http://evil.example:$PORT" -H "Host: evil.example:$PORT")" 403 "another Origin, with its Host"
	eq "$(curl -s --http1.0 -H Host: -o /dev/null -w '%{http_code}' "$URL")" 421 "HTTP/1.0 without Host"
	for other in text/plain application/x-www-form-urlencoded application/jsonx 'multipart/form-data; boundary=x' ''; do
		eq "$(status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H "Content-Type:${other:+ $other}" -d '{}')" 415 "Content-Type $other"
	done
	eq "$(post handler true -H 'Content-Type: text/plain')" 415 "two of them"
	head -c 70000 /dev/zero | tr '\0' ' ' >"$TMP/big"
	eq "$(post handler true -d "@$TMP/big")" 413 "a big body"
	# A client that is still sending gets the reply, too: no reset of the connection overtakes it.
	python3 - "$PORT" "$TOKEN" <<-'END' || fail "refusals while a body comes"
		import socket, sys, time
		port, token = int(sys.argv[1]), sys.argv[2]
		# With a length or in chunks; more than a megabyte is answered before it is sent, or not at all.
		for path, n, chunked, headers, want in (
		        ("api/v1/switch", 70000, False, f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n", b"413"),
		        ("api/v1/switch", 60000, False, "", b"401"), ("nothing", 300000, False, "", b"404"),
		        ("nothing", 300000, True, "", b"404"), ("metrics", 900000, False, "", b"405"),
		        ("nothing", 2000000, False, "", b"404"), ("nothing", 2000000, True, "", b""),
		        ("nothing", 5, False, "Expect: 100-continue\r\n", b"404")):
		    early = n > 1 << 20 or "Expect" in headers
		    with socket.create_connection(("127.0.0.1", port), timeout=300) as s:
		        s.sendall(f"POST /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}".encode() +
		                  (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % n))
		        got = b""
		        try:
		            for part in [b" " * (n // 5)] * 5 if chunked or not early else []:
		                s.sendall(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
		                time.sleep(0.05)
		            s.sendall(b"0\r\n\r\n" if chunked else b"")
		            while b"\r\n\r\n" not in got and (more := s.recv(65536)):
		                got += more
		        except (ConnectionResetError, BrokenPipeError):
		            if want:
		                raise
		        assert got[9:12] == want, (path, n, chunked, want, got)
	END
	# And none of these was needed for:
	eq "$(post handler false -H "Host: localhost:$PORT" -H "Origin: http://localhost:$PORT")" 200 "as localhost"
	eq "$(post handler false --request-target "http://localhost:$PORT/api/v1/switch" -H "Host: evil.example" -H "Origin: http://localhost:$PORT")" 200 "as localhost, by a proxy"
	eq "$(post handler false -H "Origin: http://127.0.0.1:$PORT" -H 'Sec-Fetch-Site: same-origin')" 200 "as a page"
	eq "$(status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json; charset=utf-8' -d '{}')" 400 "with a charset"
	eq "$("$TOOL" info -pid "$TARGET" | awk '$1 == "plain" { print $2 }')" disabled "state"
	[[ $(grep -c 'switch refused' "$TMP/serve.err") -gt 5 ]] || fail "$(<"$TMP/serve.err")"
}

test_orders_that_are_none() {
	local body status
	need_counting
	start_v1
	start_server -pid "$TARGET" --control
	while IFS='|' read -r status body; do
		eq "$(status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
			-d "${body//EXE/\"exe\": \"$V1\"}")" "$status" "$body: $(<"$TMP/reply")"
		python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))
assert sorted(it) == ["error", "hint"] and it["error"]' "$TMP/reply" || fail "$(<"$TMP/reply")"
	done <<-'END'
		400|
		400|x
		400|[]
		400|null
		400|{}
		400|{EXE, "probe": "plain", "what": "handler"}
		400|{EXE, "probe": "plain", "what": "handler", "on": 1}
		400|{EXE, "probe": "plain", "what": "handler", "on": "true"}
		400|{EXE, "probe": "plain", "what": "both", "on": true}
		400|{EXE, "probe": "plain", "what": "handler", "on": true, "more": 1}
		400|{EXE, "probe": "plain", "what": "handler", "on": true, "pid": 1}
		400|{EXE, "probe": null, "what": "handler", "on": true}
		400|{EXE, "probe": ["plain"], "what": "handler", "on": true}
		400|{"exe": 1, "probe": "plain", "what": "handler", "on": true}
		400|{EXE, "probe": "plain", "what": "handler", "on": true} {}
		404|{"exe": "/nosuch", "probe": "plain", "what": "handler", "on": true}
		404|{EXE, "probe": "nosuch\n", "what": "handler", "on": true}
	END
	# Nothing of a client's goes to the log as it is.
	eq "$(grep -c '' "$TMP/serve.err")" "$(grep -c '^ocaml-probes: ' "$TMP/serve.err")" "lines of the log"
}

# A counter that a pair needs stays.
test_counters_of_pairs() {
	need_counting
	start_v1
	start_server -pid "$TARGET" --time plain,odd --control
	eq "$(post counter false)" 409 "status"
	grep -q 'pair' "$TMP/reply" || fail "$(<"$TMP/reply")"
}

# ---- the process that speaks HTTP ---------------------------------------------------------------

# It has no rights, and nothing but its sockets; the other one has no port.
test_front_gives_up_everything() {
	need_counting
	start_v1
	start_server -pid "$TARGET" --control --textfile "$TMP/probes.prom"
	go 5
	eq "$(hits_of plain)" 5 "hits"
	for process in "$FRONT" "$(pgrep -P "$SERVER" -x probes-http)"; do
		eq "$(awk '/^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Threads):/ { print $2 }' "/proc/$process/status" | xargs)" \
			"1 $(printf '0000000000000000 %.0s' {1..5})1 2" "threads, capabilities, no new privileges, filter"
	done
	eq "$(find "/proc/$FRONT/fd" -type l -printf '%l\n' | sed "s/:\[[0-9]*\]$//; s|^$TMP/serve.err|log|" | LC_ALL=C sort | uniq -c | xargs)" \
		"2 /dev/null 1 anon_inode:[eventpoll] 1 log 2 socket" "what it has open"
	eq "$(ss -Hltn "sport = :$PORT" | wc -l)" 1 "ports"
	eq "$(find "/proc/$SERVER/fd" -lname "$(readlink "/proc/$FRONT/fd/"* | grep -m 1 socket:)" | wc -l)" 0 "the port in the other process"
	# The token is in the memory of one alone.
	python3 - "$SERVER" "$FRONT" "$TOKEN" <<-'END' || fail "where the token is"
		import sys
		def has(pid, token):
		    with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb") as mem:
		        for line in maps:
		            first, last = (int(at, 16) for at in line.split()[0].split("-"))
		            if line.split()[1].startswith("rw"):
		                mem.seek(first)
		                if token in mem.read(last - first):
		                    return True
		    return False
		token = sys.argv[3].encode()
		assert has(sys.argv[1], token) and not has(sys.argv[2], token)
	END
	end_server
	eq "$SERVER_STATUS" 0 "status"
	has_ended "$FRONT" || fail "it is still there"
}

# Neither is there without the other.
test_one_of_the_two_ends() {
	local old
	need_counting
	start_v1
	start_server -pid "$TARGET"
	kill -SEGV "$FRONT"
	SERVER_STATUS=0
	wait "$SERVER" || SERVER_STATUS=$?
	eq "$SERVER_STATUS" 1 "status"
	grep -q 'the HTTP process was killed by signal 11' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
	wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
	for signal in KILL TERM INT; do
		start_server -pid "$TARGET"
		old=$FRONT
		end_server "$signal"
		wait_for 'has_ended '"$old"
		eq "$(ss -Hltn "sport = :$PORT" | wc -l)" 0 "ports after $signal"
	done
	# Also of one that does not look.
	start_server -pid "$TARGET"
	kill -STOP "$FRONT"
	end_server KILL
	wait_for 'has_ended '"$FRONT"
	# A signal to both, as of Ctrl-C: clients that are being answered get all of the reply.
	start_server -pid "$TARGET"
	kill -INT "$FRONT" "$SERVER"
	SERVER_STATUS=0
	wait "$SERVER" || SERVER_STATUS=$?
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	# It does not end by itself: it is ended.
	start_server -pid "$TARGET"
	kill -STOP "$FRONT"
	end_server
	eq "$SERVER_STATUS" 1 "status"
	grep -q 'the HTTP process was killed by signal 9' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
}

# The body of the reply at PATH, its headers in $TMP/headers.
reply_of() { # PATH [CURL-ARG...]
	get "$1" -D "$TMP/headers" -o "$TMP/body" "${@:2}" && cat "$TMP/body"
}

# Known data are served while the other process measures, and say that they are.
test_known_data_while_measuring() {
	local path
	need_counting
	NEW=()
	start_v1
	start_server -pid "$TARGET" --control
	go 7
	for path in metrics api/v1/status api/v1/history; do
		get "$path" >"$TMP/known.${path##*/}"
	done
	go 5
	kill -STOP "$SERVER"
	wait_for 'grep -q "^State:.T" "/proc/$SERVER/status"'
	# The answers that have been given, byte by byte, as often as they are asked for.
	for path in metrics api/v1/status api/v1/history metrics; do
		reply_of "$path" >"$TMP/again"
		cmp "$TMP/known.${path##*/}" "$TMP/again" || fail "$path"
		grep -qix $'Age: [0-9]*\r' "$TMP/headers" || fail "no age: $(<"$TMP/headers")"
	done
	eq "$(hits_of plain)" 7 "hits that are known"
	# What nobody has asked for yet: these wait for it, and keep nobody waiting.
	{ status_of api/v1/history/pairs -D "$TMP/headers.pairs" >"$TMP/first.pairs"; } &
	{ status_of metrics -D "$TMP/headers.open" -H "Accept: application/openmetrics-text" >"$TMP/first.open"; } &
	while [[ ! -s $TMP/first.pairs || ! -s $TMP/first.open ]]; do
		eq "$(get healthz --max-time 4)" ok "health"
	done
	for path in pairs open; do
		eq "$(<"$TMP/first.$path")" 503 "$path"
		grep -qix $'Retry-After: 1\r' "$TMP/headers.$path" || fail "$(<"$TMP/headers.$path")"
	done
	# Who insists on numbers of this moment waits, and is not in the way.
	for i in {1..3}; do
		{ get metrics -H 'Cache-Control: max-age=0, no-cache' >"$TMP/new.$i"; } &
	done
	eq "$(get healthz)" ok "health"
	[[ $(get '') = *'<html'* ]] || fail "no page"
	# Those who switch wait, however many they are; the others do not wait for them.
	for i in {1..12}; do
		{ post handler true >"$TMP/status.$i"; } &
	done
	wait_for '[[ $(cat "$TMP"/status.* | grep -o 503 | wc -l) -eq 4 ]]'
	eq "$(hits_of plain)" 7 "hits that are known"
	eq "$(get healthz)" ok "health"
	kill -CONT "$SERVER"
	wait_for '[[ $(cat "$TMP"/status.* | grep -o 200 | wc -l) -eq 8 ]]'
	eq "$("$TOOL" info -pid "$TARGET" | awk '$1 == "plain" { print $2 }')" enabled "state"
	for i in {1..3}; do
		wait_for 'finds "^ocaml_probes_hits_total{probe=\"plain\",.*} 12\$" "$TMP/new.'"$i"'"'
	done
	wait_for '[[ $(hits_of plain) -eq 12 ]]'
	reply_of metrics >"$TMP/again"
	! grep -qi '^Age:' "$TMP/headers" || fail "age of a fresh answer: $(<"$TMP/headers")"
	[[ $(get api/v1/history/pairs) = '{'* ]] || fail "no history"
	# The server ends while one waits, which gets an answer; one that has gone leaves nothing.
	kill -STOP "$SERVER"
	{ post handler false >"$TMP/last"; } &
	{ post handler false --max-time 1 >"$TMP/gone" 2>&1 || :; } &
	wait_for '[[ -s $TMP/gone ]]'
	kill -KILL "$SERVER"
	wait_for '[[ $(<"$TMP/last") = 000 || $(<"$TMP/last") = 503 ]]'
	wait_for 'has_ended '"$FRONT"
}

# ---- programs of strangers ----------------------------------------------------------------------

# Run PROGRAM as somebody without rights.
start_stranger() { # PROGRAM
	start_target setpriv --reuid=65534 --regid=65534 --clear-groups "$1" --wait
	await_line ready
}

# A copy of V1 with N sites as $TMP/NAME.
make_big() { # NAME N
	python3 "$ROOT/tests/e2e/many_notes.py" "$V1" "$2" "$TMP/$1"
	chmod 755 "$TMP/$1"
}

# Start another program, and wait until it has been found: what ran before has been seen by then.
await_search() { # NAME
	cp "$V1" "$TMP/$1"
	start_target "$TMP/$1" --wait
	await_line ready
	wait_for 'get metrics | finds -x "ocaml_probes_up{exe=\"$TMP/'"$1"'\"} 1"'
}

hits_in() { # NAME
	get metrics | sed -n "s|^ocaml_probes_hits_total{probe=\"plain\",exe=\"$TMP/$1\"} ||p"
}

test_programs_with_too_many_sites() {
	need_counting
	need_command unshare setpriv objcopy
	unshare --pid --fork --mount-proc bash "$0" --one too_many_sites
}

# All others are measured as ever, and what cannot be is said once.
too_many_sites() {
	local good stranger
	chmod 711 "$TMP" "${TMP%/*}"
	cp "$V1" "$TMP/good"
	make_big big 1000000
	make_big most 20000
	start_target "$TMP/good" --wait
	await_line ready
	good=$TARGET
	start_stranger "$TMP/big"
	stranger=$TARGET
	start_stranger "$TMP/big"
	start_server
	go 10 "$good"
	eq "$(hits_in good)" 10 "hits"
	await_search second
	go 20 "$TARGET"
	eq "$(hits_in second)" 20 "hits of a program that came later"
	# One that comes later, and a second name of the same file.
	cp "$TMP/big" "$TMP/late"
	ln "$TMP/late" "$TMP/later"
	start_stranger "$TMP/late"
	start_stranger "$TMP/later"
	start_stranger "$TMP/most"
	await_search third
	await_search fourth
	go 10 "$good"
	eq "$(hits_in good)" 20 "hits"
	eq "$(get metrics | grep -c '^ocaml_probes_hits_total{.*/most"} 0$')" 20000 "sites that are not too many"
	eq "$(get metrics | grep -cE '^ocaml_probes_up.*/(big|late|later)"')" 0 "programs that are left out"
	eq "$(grep -c 'skipped: ' "$TMP/serve.err")" 2 "files that are reported: $(<"$TMP/serve.err")"
	eq "$(grep -cE "^ocaml-probes: warning: pid [0-9]+: skipped: $TMP/(big|later?): 68000000 bytes of probe notes, more than the 10240000 of 20000 sites; use --exe FILE to measure it\$" \
		"$TMP/serve.err")" 2 "what is reported: $(<"$TMP/serve.err")"
	# It is one of the two that run the file, where it does.
	readlink "/proc/$(sed -n 's/.*pid \([0-9]*\): .*\/big:.*/\1/p' "$TMP/serve.err")/exe" | grep -qx "$TMP/big" || fail "not its pid"
	[[ $(awk '/^VmHWM:/ { print $2 }' "/proc/$SERVER/status") -lt 204800 ]] ||
		fail "memory: $(grep VmHWM "/proc/$SERVER/status")"
	# None examines for ever. (The programs that this test runs are examined, too.)
	wait_for '! pgrep -P "$SERVER" -x probes-examiner >/dev/null'
	# Another state of the file is another file.
	kill -KILL "$stranger"
	kill -KILL $(pgrep -x big)
	wait_for '! pgrep -x big >/dev/null'
	make_big other 20001
	cat "$TMP/other" >"$TMP/big"
	start_stranger "$TMP/big"
	wait_for 'grep -q "skipped: .*/big: 20001 probe sites, more than 20000;" "$TMP/serve.err"'
	# What is named is measured, however much it is.
	end_server
	start_server -exe "$TMP/big"
	eq "$(get metrics | grep -c '^ocaml_probes_hits_total{.*/big"} 0$')" 20001 "probes"
	! grep -q 'skipped: ' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
}

# ---- clients ----------------------------------------------------------------------------------

test_slow_clients() {
	need_counting
	start_v1
	start_server -pid "$TARGET"
	misbehave slow
	wait_for '[[ $(ls -l "/proc/$FRONT/fd" | grep -c socket:) -eq 2 ]]'
	go 5
	eq "$(hits_of plain)" 5 "hits"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

test_floods() {
	need_counting
	start_v1
	start_server -pid "$TARGET"
	end_server
	# With few descriptors, so that there is soon no room.
	prlimit --nofile=800:800 --pid $$
	start_server -pid "$TARGET"
	prlimit --nofile=4096 --pid $$ 2>/dev/null || :
	misbehave floods
	misbehave readers
	go 5
	eq "$(hits_of plain)" 5 "hits"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

# A program with 10 000 probes: megabytes an answer.
test_crowds() {
	local lines
	need_counting
	gcc -std=gnu11 -D_GNU_SOURCE -O2 -pthread -fPIE -pie -fvisibility=hidden -DSITES=10000 -DNAMES=10000 \
		-o "$TMP/many" "$ROOT/tools/bench/sites.S" "$ROOT/tools/bench/toggle_target.c"
	start_target "$TMP/many"
	await_exe "$TMP/many"
	start_server -pid "$TARGET"
	lines=$(get metrics | grep -c '^ocaml_probes_hits_total')
	eq "$lines" 10000 "probes"
	misbehave crowd
	eq "$(get metrics | grep -c '^ocaml_probes_hits_total')" 10000 "probes"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

# What the server's two processes have open, a line a kind.
open_files() {
	{ find "/proc/$SERVER/fd" "/proc/$FRONT/fd" -type l -printf '%l\n' 2>/dev/null || :; } | sed 's/:\[.*//' | sort | uniq -c
}

# What it opens to measure, and later for good: it knows what a hit costs, the thread that has found
# it out has ended, and it has looked into the process.
await_rest() {
	wait_for '[[ $(ls "/proc/$SERVER/task" | wc -l) -eq 1 &&
		$(json_of api/v1/status "it[\"targets\"][0][\"probes\"][0][\"handler\"]") = o* ]]'
	wait_for '[[ $(ls -l "/proc/$FRONT/fd" | grep -c socket:) -eq 2 ]]'
}

# With the sanitizers: no request does harm, nothing leaks, no descriptor is left open.
test_malformed() {
	local before after
	need_counting
	TOOL=$O/asan/ocaml-probes
	start_v1
	printf '{ "listen": "127.0.0.1:0", "targets": [{ "pid": %s, "time": [["plain", "odd"]] }] }' "$TARGET" >"$TMP/config"
	start_server --config "$TMP/config" --textfile "$TMP/probes.prom" --listen 127.0.0.1:0 --control
	get metrics >/dev/null
	await_rest
	before=$(open_files)
	misbehave malformed
	go 5
	for path in '' metrics api/v1/status api/v1/history; do
		get "$path" -o /dev/null
		get "$path" -o /dev/null -H 'Accept: application/openmetrics-text'
	done
	post handler true >"$TMP/status"
	post handler false >>"$TMP/status"
	post handler 1 >>"$TMP/status"
	eq "$(<"$TMP/status")" 200200400 "statuses: $(<"$TMP/serve.err")"
	sed -i 's/\]\]/], ["odd", "plain"]]/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "configuration reloaded"'
	echo nonsense >"$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "reload failed; keeping the old configuration"'
	eq "$(hits_of plain)" 5 "hits"
	# The server opens files of /proc each time that it looks at the process.
	for _ in {1..200}; do
		after=$(open_files)
		[[ $after != "$before" ]] || break
		sleep 0.1
	done
	eq "$after" "$before" "open files"
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	! grep -q 'Sanitizer\|runtime error' "$TMP/serve.err" || fail "$(<"$TMP/serve.err")"
}

run_tests "$@"
