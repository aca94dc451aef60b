#!/usr/bin/env bash
# `list`: the processes of the machine that have OCaml probes.
#
# needs: fixtures ocaml/unprobed ocaml/loop
# smoke: test_a_file test_follow_into_a_pipe
# variants: asan
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# "PROBES ENABLED EXE" of process PID in the list.
listed() { # PID
	"$TOOL" list 2>/dev/null | awk -v pid="$1" '$1 == pid { print $2, $3, $4 }'
}

test_processes() {
	local v1 v0
	start_target "$O/tests/fixtures/v1" --wait
	v1=$TARGET
	start_target "$O/tests/fixtures/v0" --wait
	v0=$TARGET
	await_line ready 20 "$v1"
	await_line ready 20 "$v0"
	start_zombie true
	eq "$("$TOOL" list 2>"$TMP/err" | head -n 1)" "    PID PROBES ENABLED EXE" "header"
	eq "$(listed "$v1")" "10 1 $O/tests/fixtures/v1"
	eq "$(listed "$v0")" "3 1 $O/tests/fixtures/v0"
	eq "$(listed $$)$(listed "$ZOMBIE")$(listed 2)" "" "processes without probes"
	"$TOOL" attach -pid "$v0" -enable-all
	eq "$(listed "$v0")" "3 3 $O/tests/fixtures/v0"
	"$TOOL" list --json >"$TMP/json"
	eq "$(python3 - "$TMP/json" "$v0" "$v1" <<'PY'
import json, sys
top = json.load(open(sys.argv[1]))
for p in top["processes"]:
    if str(p["pid"]) in sys.argv[2:]:
        print(p["probes"], p["enabled"], p["exe"])
PY
)" "10 1 $O/tests/fixtures/v1
3 3 $O/tests/fixtures/v0" "JSON"
	"$TOOL" attach -pid "$v0" -disable-all
}

test_a_deleted_binary() {
	cp "$O/tests/fixtures/v2" "$TMP/prog"
	start_target "$TMP/prog" --wait
	await_line ready
	rm "$TMP/prog"
	eq "$(listed "$TARGET")" "4 1 $TMP/prog"
	matches "$("$TOOL" list 2>/dev/null)" "$TMP/prog \(deleted\)"
}

# Somebody else sees only what is theirs, and is told how much they do not see.
test_as_another_user() {
	local tool=$TMP/ocaml-probes
	need_root
	need_command setpriv
	# Elsewhere are processes of the same other user.
	is_in_namespace || return 0
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$TOOL" "$tool"
	cp "$O/tests/fixtures/v1" "$TMP/prog"
	start_target "$TMP/prog" --wait
	await_line ready
	setpriv --reuid 65534 --regid 65534 --clear-groups "$tool" list >"$TMP/out" 2>"$TMP/err"
	eq "$(grep -c "^ *$TARGET " "$TMP/out" || :)" 0 "somebody else's process"
	matches "$(<"$TMP/err")" "^ocaml-probes: [1-9][0-9]* process(es)? cannot be inspected"
	eq "$(wc -l <"$TMP/err")" 1 "lines on standard error"
}

test_a_file() {
	eq "$("$TOOL" list -prog "$O/tests/fixtures/v2" | xargs)" "both started_on with_site without_site"
}

# A million notes, of a file that belongs to an ordinary user: root's tool leaves the process out, says so in one line,
# and needs neither the time nor the memory that reading the notes takes.
test_huge_file_of_another_user() {
	need_root
	need_command setpriv
	among_our_own huge_file_of_another_user
}

huge_file_of_another_user() {
	local command status limit='' tool=$TOOL
	chmod 711 "$(dirname "$TMP")" "$TMP"
	python3 "$ROOT/tests/e2e/many_notes.py" "$O/tests/fixtures/v1" 1000000 "$TMP/huge"
	chown 65534 "$TMP/huge"
	start_target setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/huge" --wait
	await_line ready
	# The sanitizer maps terabytes.
	[[ $tool = */asan/* ]] || limit=--as=268435456
	printf '#!/bin/sh\nexec prlimit --cpu=5 %s %q "$@"\n' "$limit" "$tool" >"$TMP/limited"
	chmod 755 "$TMP/limited"
	for command in list "list --json" "list --follow --for 1ms" "info -pid $TARGET"; do
		status=0
		# shellcheck disable=SC2086 # it has options
		"$TMP/limited" $command >"$TMP/out" 2>"$TMP/err" || status=$?
		eq "$status" "$([[ $command = info* ]] && echo 1 || echo 0)" "status of $command: $(<"$TMP/err")"
		eq "$(grep -c "^ocaml-probes: warning: pid $TARGET: skipped: $TMP/huge: reading it takes more than " "$TMP/err")" 1 \
			"$command: $(<"$TMP/err")"
		eq "$(grep -c "[^0-9]${TARGET}[^0-9]" "$TMP/out" || :)" 0 "$(<"$TMP/out")"
		[[ $command != info* ]] || grep -qx "ocaml-probes: .*$TMP/huge: exceeds the limits" "$TMP/err" || fail "$(<"$TMP/err")"
	done
}

# An ordinary file of another user is read.
test_file_of_another_user() {
	need_root
	need_command setpriv
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$O/tests/fixtures/v0" "$TMP/prog"
	chown 65534 "$TMP/prog"
	start_target setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/prog" --wait
	await_line ready
	eq "$(listed "$TARGET")" "3 1 $TMP/prog"
	eq "$("$TOOL" info -pid "$TARGET" | wc -l)" 3 "probes"
	"$TOOL" list --follow --for 1ms >"$TMP/out"
	grep -q " running *$TARGET .* 3 $TMP/prog$" "$TMP/out" || fail "$(<"$TMP/out")"
}

# ---- programs that start and end ----------------------------------------------------------------

# Follow in the background, and return when the programs that run are listed. Sets FOLLOWING.
start_following() { # PROGRAM-THAT-RUNS [OPTION...]
	local pid=$1
	shift
	background "$TOOL" list --follow "$@" >"$TMP/events" 2>"$TMP/events.err"
	FOLLOWING=$!
	wait_for "grep -q '[: ]${pid}[, ]' '$TMP/events'"
}

stop_following() {
	local status=0
	kill -INT "$FOLLOWING"
	wait "$FOLLOWING" || status=$?
	eq "$status" 0 "status: $(<"$TMP/events.err")"
}

# "EVENT PROBES EXE..." of process PID.
events_of() { # PID
	awk -v pid="$1" '$3 == pid { event = $2; for (i = 0; i < 4; i++) sub(/^[^ ]+ +/, ""); print event, $0 }' "$TMP/events"
}

await_event() { # EVENT PID
	wait_for "grep -q '^[0-9:]* $1 *$2 ' '$TMP/events'"
}

test_follow() {
	local unprobed=$O/tests/ocaml/unprobed probed=$O/tests/fixtures/v2 version old new other
	version=$(ocamlopt -version)
	start_target "$unprobed"
	old=$TARGET
	await_exe "$unprobed"
	start_following "$old"
	start_target "$probed" --wait
	new=$TARGET
	await_event started "$new"
	start_target bash -c "read -r _; exec $unprobed"
	other=$TARGET
	tell '' "$other"
	await_event started "$other"
	quit_target "$old"
	await_event ended "$old"
	kill -USR1 "$other"
	await_event ended "$other"
	kill "$new"
	await_event ended "$new"
	stop_following
	eq "$(events_of "$old")" "running 0 $unprobed
ended 0 $unprobed: exit status 0" "the one that ran"
	eq "$(events_of "$new")" "started $("$TOOL" list -prog "$probed" | wc -l) $probed
ended $("$TOOL" list -prog "$probed" | wc -l) $probed: killed by signal 15 (SIGTERM)" "one with probes"
	eq "$(events_of "$other")" "started 0 $unprobed
ended 0 $unprobed: killed by signal 10 (SIGUSR1)" "one that a shell executed"
	eq "$(awk -v pid="$old" '$3 == pid { print $4 }' "$TMP/events" | sort -u)" "$version" "version"
	eq "$(awk -v pid="$new" '$3 == pid { print $4 }' "$TMP/events" | sort -u)" - "version of a program in C"
	eq "$(events_of $$)" "" "no program in OCaml"
}

# How many events of the program `life` have TEXT. JSON has \/ for each slash.
events_of_life() { # TEXT
	tr -d '\\' <"$TMP/events" | grep -F "$TMP/life" | grep -c -- "$1" || :
}

await_events_of_life() { # N TEXT
	wait_for "[[ \$(events_of_life '$2') -eq $1 ]]"
}

# The same as JSON objects; a program that executes another one has ended.
test_follow_json() {
	compile_life
	start_target sleep 1000
	start_target "$TMP/life" sleep
	start_following "$TARGET" --json
	"$TMP/life" exit "$TMP/first" &
	await_events_of_life 1 '"started"'
	touch "$TMP/first"
	await_events_of_life 1 '"ended"'
	start_target "$TMP/life" exec "$TMP/second"
	await_events_of_life 2 '"started"'
	touch "$TMP/second"
	await_exe /bin/sleep
	await_events_of_life 1 '"exec":true'
	"$TMP/life" fork "$TMP/third" &
	await_events_of_life 4 '"started"'
	touch "$TMP/third.child"
	await_events_of_life 1 '"exit_status":4'
	touch "$TMP/third"
	await_events_of_life 2 '"exit_status":3'
	stop_following
	python3 - "$TMP/events" "$TMP/life" "$(ocamlopt -version)" <<'PY'
import json, sys, time
events = [json.loads(line) for line in open(sys.argv[1])]
ours = [event for event in events if event["exe"] == sys.argv[2]]
assert [event["event"] for event in ours] == ["running", "started", "ended", "started", "ended"] + 2 * ["started"] + 2 * ["ended"], ours
assert all(event["ocaml"] == sys.argv[3] and event["probes"] == 0 and event["version"] == 1 for event in ours), ours
assert all(abs(event["time"] - time.time()) < 60 for event in ours), ours
ended = [(event["exit_status"], event["signal"], event["exec"]) for event in ours if event["event"] == "ended"]
assert ended == [(3, None, False), (None, None, True), (4, None, False), (3, None, False)], ended
assert ours[1]["pid"] == ours[2]["pid"] != ours[3]["pid"] == ours[4]["pid"], ours
assert {ours[5]["pid"], ours[6]["pid"]} == {ours[7]["pid"], ours[8]["pid"]}, ours
PY
}

compile_life() {
	cat >"$TMP/life.ml" <<-'ML'
	let () =
	  let rec await path = if not (Sys.file_exists path) then (Unix.sleepf 0.01; await path) in
	  if Sys.argv.(1) = "sleep" then Unix.sleepf 1000.;
	  if Sys.argv.(1) = "fork" && Unix.fork () = 0 then (await (Sys.argv.(2) ^ ".child"); exit 4);
	  await Sys.argv.(2);
	  if Sys.argv.(1) = "exec" then Unix.execv "/bin/sleep" [| "sleep"; "1000" |] else exit 3
	ML
	(cd "$TMP" && ocamlopt -I +unix unix.cmxa life.ml -o life) 2>"$TMP/ocamlopt.err" || fail "$(<"$TMP/ocamlopt.err")"
}

# The reader of a pipe gets each line when it is written, and may go away.
test_follow_into_a_pipe() {
	start_target "$O/tests/ocaml/unprobed"
	await_exe "$O/tests/ocaml/unprobed"
	{ "$TOOL" list --follow -q || :; } | head -n 1 >"$TMP/header"
	eq "$(<"$TMP/header")" "TIME     EVENT        PID OCAML        PROBES EXE" "header"
	check_error 2 "for needs --follow" list --for 1s
	"$TOOL" list --follow --for 10ms >"$TMP/some" 2>/dev/null
	matches "$(<"$TMP/some")" "running +$TARGET "
	check_error 2 "follow and --kept are mutually exclusive" list --follow --kept
	check_error 2 "follow and -prog are mutually exclusive" list --follow -prog "$TOOL"
}

# Somebody else's programs are left out, which is said once.
test_follow_as_another_user() {
	local tool=$TMP/ocaml-probes
	need_root
	need_command setpriv
	# Elsewhere are processes of the same other user.
	is_in_namespace || return 0
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$TOOL" "$tool"
	cp "$O/tests/ocaml/unprobed" "$TMP/prog"
	chmod 755 "$TMP/prog"
	start_target "$TMP/prog"
	await_exe "$TMP/prog"
	start_target setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/prog"
	await_exe "$TMP/prog"
	TOOL="setpriv --reuid 65534 --regid 65534 --clear-groups $tool"
	# shellcheck disable=SC2086 # it is a command with options
	background $TOOL list --follow >"$TMP/events" 2>"$TMP/events.err"
	FOLLOWING=$!
	wait_for "grep -q ' $TARGET ' '$TMP/events'"
	stop_following
	eq "$(grep -c " $TMP/prog" "$TMP/events")" 1 "programs: $(<"$TMP/events")"
	matches "$(<"$TMP/events.err")" "^ocaml-probes: [1-9][0-9]* process(es)? cannot be inspected"
	eq "$(wc -l <"$TMP/events.err")" 1 "lines on standard error"
}

run_tests "$@"
