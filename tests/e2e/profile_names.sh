#!/usr/bin/env bash
# Names and lines in profiles: of plugins, of the instructions that run, and of C functions in separate debug files.
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

# ---- separate debug files -----------------------------------------------------------------------

# A program that waits in a function of a library, which has lost its symbol: $TMP/libwaits.so, whose symbols are in
# $TMP/libwaits.debug. Sets BUILD_ID.
start_stripped() {
	printf '%s\n' '#include <unistd.h>' 'static __attribute__((noinline)) int hidden(int x) {' '	return pause() + x;' '}' \
		'int shown(int x) { return hidden(x) * 2; }' >"$TMP/waits.c"
	echo 'int shown(int); int main(void) { return shown(1) + 1; }' >"$TMP/main.c"
	(cd "$TMP" && gcc -g -O1 -shared -fPIC -Wl,--build-id -o libwaits.so waits.c &&
		objcopy --only-keep-debug libwaits.so libwaits.debug && strip libwaits.so &&
		gcc -o main main.c -L. -lwaits -Wl,-rpath,"$TMP")
	BUILD_ID=$(readelf -n "$TMP/libwaits.so" | sed -n 's/.*Build ID: //p')
	start_target "$TMP/main"
	wait_for 'grep -q "^34 " "/proc/$TARGET/syscall"'
}

# What the profile calls the function without a symbol, and its line.
name_of_hidden() {
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 10ms --json >"$TMP/json" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	python3 - "$TMP/json" <<'PY'
import json, sys
[stack] = json.load(open(sys.argv[1]))["stacks"]
names = [f["function"] for f in stack["frames"]]
[frame] = stack["frames"][names.index("shown") + 1:names.index("pause")]
print(frame["function"], frame["kind"], frame.get("file"), frame.get("line"))
PY
}

test_debug_files() {
	local debug
	start_stripped
	matches "$(name_of_hidden)" '^\[libwaits.so\+0x[0-9a-f]+\] unknown None None$'
	# By the build-id, in a folder of this test's own.
	mkdir -p /usr/lib/debug
	mount -t tmpfs tmpfs /usr/lib/debug
	debug=/usr/lib/debug/.build-id/${BUILD_ID:0:2}/${BUILD_ID:2}.debug
	mkdir -p "${debug%/*}"
	cp "$TMP/libwaits.debug" "$debug"
	eq "$(name_of_hidden)" "hidden c $TMP/waits.c 3"
	# The file of another library is not taken for it, nor one that is none.
	gcc -g -shared -fPIC -Wl,--build-id -o "$TMP/other.so" -x c /dev/null
	objcopy --only-keep-debug "$TMP/other.so" "$debug"
	matches "$(name_of_hidden)" '^\[libwaits.so'
	head -c 300 "$TMP/libwaits.debug" >"$debug"
	matches "$(name_of_hidden)" '^\[libwaits.so'
	rm "$debug"
	mkfifo "$debug"
	matches "$(name_of_hidden)" '^\[libwaits.so'
	rm "$debug"
	# From a server.
	mkdir -p "$TMP/server/buildid/$BUILD_ID"
	cp "$TMP/libwaits.debug" "$TMP/server/buildid/$BUILD_ID/debuginfo"
	export DEBUGINFOD_URLS=file://$TMP/server/
	eq "$(name_of_hidden)" "hidden c $TMP/waits.c 3"
	export DEBUGINFOD_URLS=file:///nonexistent/ DEBUGINFOD_CACHE_PATH=$TMP/cache
	matches "$(name_of_hidden)" '^\[libwaits.so'
}

run_tests "$@"
