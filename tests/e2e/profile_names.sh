#!/usr/bin/env bash
# Names and lines in profiles: of plugins, and of the instructions that run.
#
# needs: fixtures
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Profile the host for some seconds as JSON, COMMAND... being done meanwhile.
profile_host() { # COMMAND...
	background "$TOOL" profile -pid "$TARGET" --hz 1999 --json >"$TMP/json" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" sampling'
	"$@"
	kill -INT $!
	wait $! || fail "status $?: $(<"$TMP/err")"
}

run_for() { # SECONDS
	forget_output
	tell "run $1"
	await_line "done" 30
}

load() {
	tell "load $TMP/plugged.cmxs"
	await_line loaded
}

load_and_run() {
	run_for 0.2
	load
	run_for 0.8
}

# The plugin's functions have their names, files and lines, on whole stacks; the innermost lines are of
# both loops.
check_plugin() {
	holds python3 - "$TMP/json" <<'PY' || fail "$(head -c 3000 "$TMP/json")"
import collections, json, sys
top = json.load(open(sys.argv[1]))
lines, whole, n = collections.Counter(), 0, 0
calls = [("Host", "host.ml", 20), ("Host.obey", "host.ml", 12), ("Plugged.(fun)", "plugged.ml", 19),
         ("Plugged.start", "plugged.ml", 17)]
for stack in top["stacks"]:
    frames = [f for f in stack["frames"] if f["kind"] != "kernel"]
    names = [f["function"] for f in frames]
    if "Plugged.Inner.spin" not in names:
        continue
    n += stack["samples"]
    at = names.index("Plugged.Inner.spin")
    if names[0] == "_start" and [(f["function"], f["file"], f["line"]) for f in frames[at - 4:at]] == calls:
        whole += stack["samples"]
    last = frames[at]
    assert last["file"].endswith("plugged.ml") and last["kind"] == "ocaml", last
    lines["turn" if "Plugged.Inner.turn" in names else last["line"]] += stack["samples"]
    if names[-1] == "Plugged.Inner.turn":
        assert (frames[-1]["file"], frames[-1]["line"], last["line"]) == ("plugged.ml", 4, 12), frames
print(n, whole, dict(lines), top["losses"])
first, second = lines[8] + lines[9], lines[11] + lines[12] + lines["turn"]
assert n > 400 and whole >= 0.995 * n, (n, whole)
assert first + second >= 0.99 * n and min(first, second) > 0.1 * n, lines
PY
}

test_plugin() {
	need_counting
	build_plugged
	start_target "$TMP/host"
	await_line ready
	load
	profile_host run_for 0.8
	check_plugin
}

test_plugin_that_is_loaded_meanwhile() {
	need_counting
	build_plugged
	start_target "$TMP/host"
	await_line ready
	profile_host load_and_run
	check_plugin
}

run_tests "$@"
