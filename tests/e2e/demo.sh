#!/usr/bin/env bash
# The demo does what it says, with and without the privileges for counting.
#
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# The leak is the first line of what stays alive, and is in the flame graph.
check_leak() { # OUTPUT PAGE
	matches "$(grep -A 1 ' LIVE WORDS  SITE$' "$1" | tail -n 1)" ' Service\.Cache\.add  service\.ml:[0-9]+$'
	[[ -z ${2:-} ]] || finds 'Service.Cache.add' "$2"
}

# The timeline has a request as slow as the condition says.
check_slow_request() {
	local file
	file=$(sed -n 's/^(ui.perfetto.dev opens \(.*\), and sends it nowhere)$/\1/p' "$TMP/out")
	"$ROOT/tests/record/read_perfetto" "$file" "$TMP/db"
	finds -x "(the timeline of a slow request is in ${file%.pftrace}.html: a browser opens it)" "$TMP/out"
	"$ROOT/tests/record/read_page" "${file%.pftrace}.html" "$TMP/page"
	holds python3 -c 'import sqlite3, sys
assert sqlite3.connect(sys.argv[1]).execute("select max(ns) from slices where category = ?", ["pair"]).fetchone()[0] >= 100_000' "$TMP/db"
}

test_demo() {
	need_counting
	rm -f "$O/leak.html"
	"$ROOT/tools/demo" "$O" >"$TMP/out" 2>"$TMP/err" || fail "$(cat "$TMP/out" "$TMP/err")"
	matches "$(grep -m 1 -A 1 '^\$ ' "$TMP/out")" "^\\$ ocaml-probes report -pid [0-9]+
$O/tests/ocaml/service: pid [0-9]+, OCaml "
	grep -qx 'request_start disabled' "$TMP/out"
	grep -q 'request [0-9]* for [0-9]* is done' "$TMP/out"
	(($(awk '$1 == "request_done" && NF == 3 { print $2 }' "$TMP/out") > 100)) || fail "$(<"$TMP/out")"
	check_leak "$TMP/out" "$O/leak.html"
	check_slow_request
	eq "$(tail -n 1 "$TMP/out")" "Done: listed, switched on, counted, timed, switched off, while the program ran."
	# Of ours: other lanes may have the name on a command line of theirs.
	eq "$(pgrep -g 0 -f "^$O/tests/ocaml/(service|leaking)" || :)" "" "services left"
}

test_demo_without_privileges() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	mkdir -p "$TMP/build/tests/ocaml" "$TMP/tools"
	cp "$O/ocaml-probes" "$TMP/build"
	cp "$O"/tests/ocaml/{service,leaking} "$TMP/build/tests/ocaml"
	cp "$ROOT/tools/demo" "$TMP/tools"
	env -u TMP setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all \
		"$TMP/tools/demo" "$TMP/build" >"$TMP/out" 2>"$TMP/err" || fail "$(cat "$TMP/out" "$TMP/err")"
	matches "$(<"$TMP/err")" "engine: inside, since BPF is not available: .*lacks CAP_BPF and CAP_PERFMON"
	(($(awk '$1 == "request_done" && NF == 3 { print $2 }' "$TMP/out") > 100)) || fail "$(<"$TMP/out")"
	matches "$(<"$TMP/out")" "only the kernel reads arguments"
	check_leak "$TMP/out"
	eq "$(tail -n 1 "$TMP/out")" \
		"Done: listed, switched on, counted, timed, switched off, while the program ran."
}

run_tests "$@"
