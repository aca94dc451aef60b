#!/usr/bin/env bash
# `list`: the processes of the machine that have OCaml probes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# "PROBES ENABLED EXE" of process PID in the list.
listed() { # PID
	"$TOOL" list 2>/dev/null | awk -v pid="$1" '$1 == pid { print $2, $3, $4 }'
}

test_processes() {
	local v1 v0 zombie
	start_target "$O/tests/fixtures/v1" --wait
	v1=$TARGET
	start_target "$O/tests/fixtures/v0" --wait
	v0=$TARGET
	await_line ready 20 "$v1"
	await_line ready 20 "$v0"
	# A shell might wait for it before it becomes something else.
	python3 -c 'import os, time
print(os.fork() or os._exit(0), flush=True)
time.sleep(1000)' >"$TMP/zombie" &
	wait_for '[[ -s $TMP/zombie ]]'
	zombie=$(cat "$TMP/zombie")
	wait_for 'grep -q "State:.Z" "/proc/'"$zombie"'/status"'
	eq "$("$TOOL" list 2>"$TMP/err" | head -n 1)" "    PID PROBES ENABLED EXE" "header"
	eq "$(listed "$v1")" "10 1 $O/tests/fixtures/v1"
	eq "$(listed "$v0")" "3 1 $O/tests/fixtures/v0"
	eq "$(listed $$)$(listed "$zombie")$(listed 2)" "" "processes without probes"
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
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$TOOL" "$tool"
	cp "$O/tests/fixtures/v1" "$TMP/prog"
	start_target "$TMP/prog" --wait
	await_line ready
	setpriv --reuid 65534 --regid 65534 --clear-groups "$tool" list >"$TMP/out" 2>"$TMP/err"
	eq "$(grep -c "^ *$TARGET " "$TMP/out" || :)" 0 "somebody else's process"
	matches "$(cat "$TMP/err")" "^ocaml-probes: [1-9][0-9]* process(es)? cannot be inspected"
	eq "$(wc -l <"$TMP/err")" 1 "lines on standard error"
}

test_a_file() {
	eq "$("$TOOL" list -prog "$O/tests/fixtures/v2" | xargs)" "both started_on with_site without_site"
}

run_tests "$@"
