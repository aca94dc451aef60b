#!/usr/bin/env bash
# `serve --record`: a flight recorder for each program, its recordings over HTTP, and their limits.
#
# needs: fixtures serve ocaml
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/record_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"

start_program() {
	need_counting
	need_command protoc python3 curl
	PROGRAM=$(own_copy "$O/tests/ocaml/reborn")
	start_reborn "$PROGRAM"
}

# A value in the list of recordings, by a Python expression of `it`.
listed() { # EXPRESSION
	eq "$(ask api/v1/recordings)" 200 "$(<"$TMP/reply")" >&2
	python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$TMP/reply" "$1"
}

await_recorder() { # [N]
	wait_for '[[ $(listed "sum(r[\"running\"] for r in it[\"recorders\"])") = '"${1:-1}"' && -n $(find "$TMP/run" -type s) ]]'
	# It is attached when it has taken the first request.
	wait_for '[[ $(dump) = 200 ]]'
}

dump() { # [RECORDER]
	ask api/v1/recordings/dump -H 'Content-Type: application/json' -d "{\"recorder\": \"${1:-reborn}\"}"
}

recorder_pids() {
	pgrep -P "$SERVER" -x ocaml-probes
}

# On request: what happened up to it. The trace and the page are those that the recorder has written.
test_dump() {
	local path name
	start_program
	start_server --exe "$PROGRAM" --record "$TMP/recordings"
	await_recorder
	eq "$(stat -c %a "$TMP/recordings")" 700 "mode of the directory"
	pass 3
	eq "$(dump)" 200 "$(<"$TMP/reply")"
	name=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["files"][0].removesuffix(".pftrace"))' "$TMP/reply")
	eq "$(<"$TMP/reply")" "{\"files\":[\"$name.pftrace\",\"$name.html\"]}" "reply"
	eq "$(listed '[it["recordings"][0]["name"], it["recordings"][0]["trace_bytes"], it["recordings"][0]["page_bytes"]]')" \
		"['$name', $(stat -c %s "$TMP/recordings/$name.pftrace"), $(stat -c %s "$TMP/recordings/$name.html")]" "the newest recording"
	eq "$(listed '[(r["name"], r["exe"], r["pid"], r["problem"]) for r in it["recorders"]]')" "[('reborn', '$PROGRAM', None, None)]" "recorders"
	eq "$(ask "api/v1/recording?name=$name.pftrace")" 200 "$(said "$TMP/reply")"
	holds cmp "$TMP/reply" "$TMP/recordings/$name.pftrace"
	eq "$(count_of work "$TMP/reply") $(count_of worked "$TMP/recordings/$name.pftrace")" "3 3" "hits"
	eq "$(ask "api/v1/recording?name=$name.html")" 200 "$(said "$TMP/reply")"
	holds cmp "$TMP/reply" "$TMP/recordings/$name.html"
	# A page is opened by a ticket, which is good for one time.
	eq "$(ask api/v1/recordings/open -H 'Content-Type: application/json' -d "{\"name\": \"$name.html\"}")" 200 "$(<"$TMP/reply")"
	path=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["path"])' "$TMP/reply")
	eq "$(status_of "$path" -D "$TMP/head")" 200 "$(said "$TMP/reply")"
	holds cmp "$TMP/reply" "$TMP/recordings/$name.html"
	finds -i '^content-security-policy: sandbox allow-scripts allow-forms; frame-ancestors .none.' "$TMP/head" || fail "$(<"$TMP/head")"
	finds -i '^content-type: text/html; charset=utf-8' "$TMP/head" || fail "$(<"$TMP/head")"
	eq "$(status_of "$path")" 403 "the second time"
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	pass 2
}

# A condition, of the command line and of the configuration; a reload changes the conditions, and leaves other recorders alone.
test_conditions() {
	local other second recorder
	start_program
	start_server --exe "$PROGRAM" --record "$TMP/recordings" --when 'hit worked'
	await_recorder
	pass 4
	wait_for '[[ $(listed "len(it[\"recordings\"])") = 2 ]]'
	eq "$(count_of worked "$TMP/recordings/$(listed 'it["recordings"][0]["name"]').pftrace")" 4 "hits"
	end_server
	rm -r "$TMP/recordings"
	other=$(own_copy "$O/tests/ocaml/requests")
	cat >"$TMP/config" <<-END
		{ "listen": "127.0.0.1:0", "record": { "folder": "$TMP/recordings", "last": "1h", "files": 5 }, "targets": [
		  { "exe": "$PROGRAM", "when": ["hit work"] }, { "exe": "$other", "time": [["request_start", "request_stop"]], "key": "id" } ] }
	END
	start_server --config "$TMP/config"
	await_recorder 2
	wait_for '[[ $(dump requests) = 200 ]]'
	second=$(listed 'len(it["recordings"])')
	pass 1
	wait_for '[[ $(listed "len(it[\"recordings\"])") -gt '"$second"' ]]'
	recorder=$(recorder_pids | while read -r pid; do ! finds -z requests "/proc/$pid/cmdline" || echo "$pid"; done)
	sed -i 's/hit work"/pause 100s"/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "configuration reloaded, 2 targets"'
	wait_for '[[ $(dump) = 200 ]]'
	finds -x "$recorder" <(recorder_pids) || fail "the recorder of the other program has ended"
	finds -z 'pause 100s' <(cat $(recorder_pids | sed 's,.*,/proc/&/cmdline,')) || fail "the new condition is not there"
	# What cannot change.
	sed -i 's/"files": 5/"files": 6/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "$TMP/config:1: record: cannot change without a restart"'
	end_server
}

# The oldest recordings go, also those of earlier servers; other files stay. Files of killed recorders go, too.
test_limits() {
	local i
	start_program
	mkdir -m 700 "$TMP/recordings"
	for i in {1..9}; do
		echo "$i" >"$TMP/recordings/reborn-$i.pftrace"
		touch -d "2020-01-0$i" "$TMP/recordings/reborn-$i.pftrace"
	done
	echo other >"$TMP/recordings/notes.txt"
	echo half >"$TMP/recordings/reborn-3.html.999999.tmp"
	cat >"$TMP/config" <<-END
		{ "listen": "127.0.0.1:0", "record": { "folder": "$TMP/recordings", "files": 4, "disk_mb": 1 },
		  "targets": [{ "exe": "$PROGRAM", "budget": 10000 }] }
	END
	start_server --config "$TMP/config"
	await_recorder
	wait_for '[[ $(listed "len(it[\"recordings\"])") = 4 ]]'
	eq "$(listed '[r["name"] for r in it["recordings"][1:]]')" "['reborn-9', 'reborn-8', 'reborn-7']" "what stays"
	eq "$(cd "$TMP/recordings" && ls)" "notes.txt
$(listed 'it["recordings"][0]["name"]').html
$(listed 'it["recordings"][0]["name"]').pftrace
reborn-7.pftrace
reborn-8.pftrace
reborn-9.pftrace" "files"
	# The newest one stays even if it is larger than the limit.
	head -c 2M /dev/zero >"$TMP/recordings/large"
	mv "$TMP/recordings/large" "$TMP/recordings/reborn-99.pftrace"
	wait_for '[[ $(listed "[r[\"name\"] for r in it[\"recordings\"]]") = "['\''reborn-99'\'']" ]]'
	end_server
}

# A recorder that is killed is started again; the list says what has happened. The program is not harmed.
test_recorder_that_ends() {
	start_program
	start_server --exe "$PROGRAM" --record "$TMP/recordings"
	await_recorder
	# The client of a recorder that does not react does not wait for ever.
	kill -STOP "$(recorder_pids)"
	eq "$(dump)" 503 "$(<"$TMP/reply")"
	finds 'the recorder has not written a file within 30 seconds' "$TMP/reply" || fail "$(<"$TMP/reply")"
	kill -KILL "$(recorder_pids)"
	wait_for '[[ $(listed "it[\"recorders\"][0][\"problem\"]") = "the recorder was killed by signal 9" ]]'
	wait_for '[[ $(dump) = 200 ]]'
	pass 5
	eq "$(dump)" 200 "$(<"$TMP/reply")"
	eq "$(count_of work "$TMP/recordings/$(listed 'it["recordings"][0]["name"]').pftrace")" 5 "hits"
	# The recorder ends with the server, however that ends.
	local recorder
	recorder=$(recorder_pids)
	end_server KILL
	wait_for '! kill -0 '"$recorder"
	pass 1
}

# The reason why nothing can be recorded.
test_problem() {
	start_program
	start_server --exe "$PROGRAM" --record "$TMP/recordings" --when 'hit nothing'
	wait_for "[[ \$(listed 'it[\"recorders\"][0][\"problem\"]') = *'nothing'*'no such probe'* ]]"
	eq "$(dump)" 503 "$(<"$TMP/reply")"
	finds 'no such probe' "$TMP/reply" || fail "$(<"$TMP/reply")"
	wait_for 'has_text "$TMP/serve.err" "record reborn: .*no such probe"'
	end_server
}

# Without the token, from another page, with names of other files: nothing.
test_refusals() {
	local name path
	start_program
	start_server --exe "$PROGRAM" --record "$TMP/recordings"
	await_recorder
	name=$(listed 'it["recordings"][0]["name"]')
	for path in recordings "recording?name=$name.pftrace"; do
		eq "$(status_of "api/v1/$path")" 401 "$path without the token"
		eq "$(ask "api/v1/$path" -H 'Origin: http://evil.example')" 403 "$path from another page"
	done
	for path in dump open; do
		eq "$(status_of "api/v1/recordings/$path" -H 'Content-Type: application/json' -d '{}')" 401 "$path without the token"
		eq "$(ask "api/v1/recordings/$path" -d '{}')" 415 "$path without its type"
		eq "$(ask "api/v1/recordings/$path" -H 'Content-Type: application/json' -d '{"name": "a", "recorder": "b"}')" 400 "$path with more"
		eq "$(ask "api/v1/recordings/$path" -H 'Content-Type: application/json' -d '[1]')" 400 "$path without an object"
		eq "$(ask "api/v1/recordings/$path")" 405 "$path by GET"
	done
	eq "$(dump other)" 404 "another recorder"
	ln -s /etc/passwd "$TMP/recordings/link-1.pftrace"
	mkfifo "$TMP/recordings/fifo-1.pftrace"
	mkdir "$TMP/recordings/folder-1.pftrace"
	echo secret >"$TMP/secret-1.pftrace"
	for path in '' name= name=../secret-1.pftrace "name=$TMP/secret-1.pftrace" name=link-1.pftrace name=fifo-1.pftrace name=folder-1.pftrace \
		"name=$name" "name=$name.pftrace.1.tmp" name=-1.pftrace name=a-0.pftrace 'name=a/../../secret-1.pftrace'; do
		matches "$(ask "api/v1/recording?$path")" '^40[04]$' "$path"
	done
	eq "$(listed '[r["name"] for r in it["recordings"] if not r["name"].startswith("reborn")]')" "[]" "what is listed"
	# A ticket opens pages only.
	eq "$(ask api/v1/recordings/open -H 'Content-Type: application/json' -d "{\"name\": \"$name.pftrace\"}")" 200 "$(<"$TMP/reply")"
	path=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["path"])' "$TMP/reply")
	eq "$(status_of "$path")" 404 "a trace as a page"
	for path in '' ticket= ticket=0 "ticket=$(printf '0%.0s' {1..32})"; do
		eq "$(status_of "recordings/page?$path")" 403 "$path"
	done
	end_server
	start_server --exe "$PROGRAM" --profile
	eq "$(ask api/v1/recordings)" 404 "$(<"$TMP/reply")"
	finds '"error":"nothing is recorded","hint":"start it with --record"' "$TMP/reply" || fail "$(<"$TMP/reply")"
	end_server
}

# The recordings on the page: listed, opened, downloaded and ordered, by the keyboard alone.
test_page() {
	start_program
	need_command chromium-headless-shell chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
	HOME=$TMP holds /usr/bin/python3 -B "$ROOT/tests/e2e/serve_record_page.py" "$PROGRAM" "/proc/$TARGET/fd/0" "$(output_of)" "$TMP/recordings" ||
		fail "serve said: $(<"$TMP/serve.err")"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

check_error() { # STATUS TEXT ARG...
	local status=0 want=$1 text=$2
	shift 2
	"$TOOL" serve --listen 127.0.0.1:0 "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" "$want" "status of serve $*: $(<"$TMP/err")"
	finds "$text" "$TMP/err" || fail "serve $*: $(<"$TMP/err")"
}

check_config() { # TEXT JSON
	printf '%s\n' "$2" >"$TMP/config"
	check_error 2 "$1" --config "$TMP/config"
}

test_mistakes() {
	start_program
	check_error 2 '^ocaml-probes: serve: --record requires -pid, --exe or --config$' --record "$TMP/recordings"
	check_error 2 '^ocaml-probes: serve: --when requires --record$' --exe "$PROGRAM" --when 'hit work'
	check_error 2 "^ocaml-probes: serve: --record '': not a directory$" --exe "$PROGRAM" --record ''
	check_error 2 "serve: --when 'hit': not 'slower START,STOP TIME'" --exe "$PROGRAM" --record "$TMP/recordings" --when hit
	check_error 2 "^ocaml-probes: $TMP/no/recordings: No such file or directory$" --exe "$PROGRAM" --record "$TMP/no/recordings"
	mkdir -m 777 "$TMP/open"
	chmod 777 "$TMP/open"
	check_error 3 "^ocaml-probes: $TMP/open: other users can write to it$" --exe "$PROGRAM" --record "$TMP/open"
	check_config "config:1: targets\[0\].when: requires 'record'" "{ \"targets\": [{ \"exe\": \"$PROGRAM\", \"when\": [\"hit work\"] }] }"
	check_config "config:1: targets\[0\].when\[0\]: not 'slower" "{ \"record\": { \"folder\": \"/x\" }, \"targets\": [{ \"exe\": \"$PROGRAM\", \"when\": [\"hot work\"] }] }"
	check_config "config:1: record: 'folder' is required" "{ \"record\": {}, \"targets\": [{ \"exe\": \"$PROGRAM\" }] }"
	check_config "config: targets: not given: 'record' is for programs that are named" "{ \"record\": { \"folder\": \"$TMP/recordings\" } }"
	check_config "config:1: record.last: '2h': not a time" "{ \"record\": { \"folder\": \"/x\", \"last\": \"2h\" } }"
	echo "{ \"record\": { \"folder\": \"$TMP/open\" }, \"targets\": [{ \"exe\": \"$PROGRAM\" }] }" >"$TMP/config"
	check_error 3 "config:1: record.folder: $TMP/open: other users can write to it" --config "$TMP/config"
	echo '{ "targets": [] }' >"$TMP/config"
	check_error 2 '^ocaml-probes: serve: --config excludes --when; set it in the file$' --config "$TMP/config" --when 'hit work' --record "$TMP/recordings"
	[[ ! -e $TMP/recordings ]] || fail "a directory was made"
}

run_tests "$@"
