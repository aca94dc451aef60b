#!/usr/bin/env bash
# `profile --diff`: two profiles of known samples, made-up files with exact numbers, and files that are wrong.
#
# needs: fixtures ocaml/profiled
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

# Profile the program while it does the work of these shares, its books in $TMP/NAME.books, what is printed in $TMP/NAME.json.
profile_shares() { # NAME SEVENTY TWENTY TEN [FLAG...]
	local name=$1 program=$TMP/$1.program
	printf '#!/bin/sh\nexec %q "$1" %q %q %q\n' "$PROFILED" "$2" "$3" "$4" >"$program"
	chmod +x "$program"
	profile_work "$program" touch 2 "${AT_FAULTS[@]}" --json "${@:5}"
	mv "$TMP/folded" "$TMP/$name.json"
	mv "$TMP/books" "$TMP/$name.books"
}

# Other rates of samples make no difference: a sample, here a page fault, stands for the time between two of its rate.
test_known_samples() {
	need_counting
	profile_shares old 7 2 1 --hz 4999
	profile_shares new 3 2 5 --hz 1999 --diff "$TMP/old.json"
	holds python3 - "$TMP" <<'PY' || fail "$(head -c 2000 "$TMP/new.json")"
import json, sys
def books(name, hz):
    lines = [line.split() for line in open(f"{sys.argv[1]}/{name}.books")]
    return {f"Profiled.{name}": int(n) * (10**9 // hz) for name, n in lines}
diff, old, new = json.load(open(f"{sys.argv[1]}/new.json")), books("old", 4999), books("new", 1999)
first = json.load(open(f"{sys.argv[1]}/old.json"))
assert diff["old"] == {k: first[k] for k in diff["old"]}, diff["old"]
scale = diff["new"]["duration_ns"] / diff["old"]["duration_ns"]
# The first faults of libraries, which are below no function of the books or below one: they are in other stacks.
touch = [s for s in diff["stacks"] if s["frames"][-1]["function"] == "Profiled.touch"]
found = {name: {side: sum(s[side] for s in touch if name in [f["function"] for f in s["frames"]]) for side in ("old", "new")}
         for name in old}
print(found, old, new)
assert found == {name: {"old": old[name], "new": new[name]} for name in old}
for f in diff["functions"]:
    f = f["total"]
    assert abs(f["points"] - (f["new_percent"] - f["old_percent"])) < 0.0002
    assert abs(f["change"] - (f["new"] - scale * f["old"])) <= 1
order = [abs(f["self"]["points"]) for f in diff["functions"]]
assert order == sorted(order, reverse=True)
order = [abs(s["points"]) for s in diff["stacks"]]
assert order == sorted(order, reverse=True) and abs(sum(s["points"] for s in diff["stacks"])) < 0.1
PY
}

# STACK is "kind:function;kind:function", the outermost one first.
made() { # KIND DURATION_NS HZ "SAMPLES VALUE STACK"...
	python3 - "$@" <<'PY'
import json, sys
kind, duration, hz, *stacks = sys.argv[1:]
unit = "words" if kind == "alloc" else "ns"
top = {"version": 1, "profile": kind, "hz": int(hz), "duration_ns": int(duration), "truncated": 0, "lost": 0, "stacks": []}
for stack in stacks:
    samples, value, frames = stack.split(" ", 2)
    frames = [dict(zip(("kind", "function"), frame.split(":", 1))) for frame in frames.split(";")]
    top["stacks"].append({"samples": int(samples), unit: int(value), "frames": frames})
top[unit] = sum(s[unit] for s in top["stacks"])
print(json.dumps(top))
PY
}

make_two() {
	made cpu 1000000000 100 "50 500000000 c:main;ocaml:A.f" "30 300000000 c:main;ocaml:A.f;kernel:work" \
		"20 200000000 truncated:[truncated: x];ocaml:A.g" >"$TMP/old.json"
	made cpu 2000000000 10 "5 500000000 c:main;ocaml:A.f" "4 400000000 c:main;c:work" \
		"1 100000000 truncated:[truncated: x];ocaml:A.g" >"$TMP/new.json"
}

diff_of() { # FILE...
	"$TOOL" profile --diff "$@" 2>"$TMP/err" || fail "status $?: $(<"$TMP/err")"
}

# The old one is of half the time. A function of the kernel is another one than that of its name in the program.
test_table() {
	make_two
	eq "$(diff_of "$TMP/old.json" "$TMP/new.json")" "\
old: 1.000 s, 100 samples, 1.00s, 20.0% of them lack callers
new: 2.000 s, 10 samples, 1.00s, 10.0% of them lack callers

    OLD     NEW    DIFF    TOTAL         TIME  FUNCTION
   0.0%   40.0%   +40.0    +40.0       +400ms  work
  30.0%    0.0%   -30.0    -30.0       -600ms  work [kernel]
  20.0%   10.0%   -10.0~   -10.0~      -300ms  A.g
  50.0%   50.0%    +0.0~   -30.0       -500ms  A.f
   0.0%    0.0%    +0.0~   -10.0~        +0ns  [truncated: x]
   0.0%    0.0%    +0.0~   +10.0~        +0ns  main

STACKS
   0.0%   40.0%   +40.0  work
                          main
  30.0%    0.0%   -30.0  work
                          A.f
                          main
  50.0%   50.0%    +0.0~ A.f
                          main

STACKS THAT LACK CALLERS
  20.0%   10.0%   -10.0~ A.g
                          [truncated: x]

~ is within the sampling error, at 95%"
}

# flamegraph.pl reads it: the samples of the old one would be 10 for the rate of the new one, and 20 in its time.
test_folded() {
	make_two
	eq "$(diff_of "$TMP/old.json" "$TMP/new.json" --folded)" "\
main;work 0 4
main;A.f;work_[k] 6 0
[truncated: x];A.g 4 1
main;A.f 10 5"
	printf '%s\n' "main;A.f 50" "main;A.f;work_[k] 30" "[truncated: x];A.g 20" >"$TMP/old.folded"
	# Neither time nor rate is known: the sums are made equal.
	eq "$(diff_of "$TMP/old.folded" "$TMP/new.json" --folded)" "\
main;work 0 4
main;A.f;work_[k] 3 0
[truncated: x];A.g 2 1
main;A.f 5 5"
	eq "$(diff_of "$TMP/old.folded" "$TMP/new.json" | sed -n '/OLD/,/^$/p')" "\
    OLD     NEW    DIFF    TOTAL         TIME  FUNCTION
   0.0%   40.0%   +40.0    +40.0            -  work
  30.0%    0.0%   -30.0    -30.0            -  work [kernel]
  20.0%   10.0%   -10.0~   -10.0~           -  A.g
  50.0%   50.0%    +0.0~   -30.0            -  A.f
   0.0%    0.0%    +0.0~   -10.0~           -  [truncated: x]
   0.0%    0.0%    +0.0~   +10.0~           -  main"
}

# The error is that of the manual page, computed here by itself.
test_sampling_error() {
	make_two
	made alloc 1000000000 0 "1 100 ocaml:A.f" "100 1000 ocaml:A.g" "10 10000 ocaml:A.h" >"$TMP/old-words.json"
	made alloc 1000000000 0 "90 9000 ocaml:A.f" "50 500 ocaml:A.g" "1 1000 ocaml:A.h" >"$TMP/new-words.json"
	diff_of "$TMP/old.json" "$TMP/new.json" --json >"$TMP/cpu"
	diff_of "$TMP/old-words.json" "$TMP/new-words.json" --alloc --json >"$TMP/words"
	holds python3 - "$TMP" <<'PY' || fail "$(<"$TMP/words")"
import json, math, sys
def samples(name):
    stacks = [(s["samples"], s.get("ns", s.get("words"))) for s in json.load(open(f"{sys.argv[1]}/{name}.json"))["stacks"]]
    return sum(v for _, v in stacks) ** 2 / sum(v * v / n for n, v in stacks)
for kind, n, m in ("cpu", 100, 10), ("words", samples("old-words"), samples("new-words")):
    diff = json.load(open(f"{sys.argv[1]}/{kind}"))
    changes = [f[part] for f in diff["functions"] for part in ("self", "total")] + diff["stacks"]
    for c in changes:
        p, q = (n * c["old_percent"] / 100 + 1) / (n + 2), (m * c["new_percent"] / 100 + 1) / (m + 2)
        error = 196 * math.sqrt(p * (1 - p) / (n + 2) + q * (1 - q) / (m + 2))
        assert abs(c["error_points"] - error) < 0.001, (c, error)
        assert c["within_error"] == (abs(c["points"]) <= error), c
    assert {c["within_error"] for c in changes} == {True, False}, kind
PY
	# The folded form of waits has no number of samples.
	echo "main;A.f 100" >"$TMP/waits.folded"
	eq "$(diff_of "$TMP/waits.folded" "$TMP/waits.folded" --off-cpu --json | jq -c '.functions[0].self | [.error_points, .within_error]')" \
		"[null,null]" "waits"
	matches "$(diff_of "$TMP/waits.folded" "$TMP/waits.folded" --off-cpu)" "the sampling error is not known"
}

# Growth is DIFF minus the error: 40 - 28.0 points of `work` in the first case.
test_fail_above() {
	local growth
	make_two
	compare() { # STATUS ARG...
		local status=0
		"$TOOL" profile --diff "${@:2}" >"$TMP/out" 2>"$TMP/err" || status=$?
		eq "$status" "$1" "status of ${*:2}: $(<"$TMP/err")"
		finds FUNCTION "$TMP/out"
	}
	growth=$(diff_of "$TMP/old.json" "$TMP/new.json" --json | jq '.functions[] | select(.function == "work" and .kind == "c").self | .points - .error_points')
	compare 8 "$TMP/old.json" "$TMP/new.json" --fail-above "$(jq -n "$growth - 0.01")"
	matches "$(<"$TMP/err")" "^ocaml-probes: --fail-above 1[12][.0-9]*: 1 function has grown by more beyond the sampling error: work \\(0\\.0% to 40\\.0%: \\+40\\.0, error 2[78]\\.[0-9]\\)$"
	compare 0 "$TMP/old.json" "$TMP/new.json" --fail-above "$(jq -n "$growth + 0.01")"
	eq "$(<"$TMP/err")" "" "what passes"
	# What shrinks does not fail, and a profile is equal to itself.
	made cpu 1000000000 1000 "500 500000000 ocaml:A.f" "500 500000000 ocaml:A.g" >"$TMP/half.json"
	made cpu 1000000000 1000 "900 900000000 ocaml:A.f" "100 100000000 ocaml:A.g" >"$TMP/more.json"
	compare 0 "$TMP/half.json" "$TMP/half.json" --fail-above 0
	compare 8 "$TMP/half.json" "$TMP/more.json" --fail-above 20%
	matches "$(<"$TMP/err")" "sampling error: A\\.f \\(50\\.0% to 90\\.0%: \\+40\\.0, error 3\\.6\\)$"
	compare 8 "$TMP/more.json" "$TMP/half.json" --fail-above 20
	matches "$(<"$TMP/err")" "sampling error: A\\.g "
	# The worst three of five, the worst first.
	made cpu 1000000000 1000 "600 600000000 ocaml:A.f" "100 100000000 ocaml:B.a" "130 130000000 ocaml:B.b" \
		"110 110000000 ocaml:B.c" "60 60000000 ocaml:B.d" >"$TMP/five.json"
	compare 8 "$TMP/half.json" "$TMP/five.json" --fail-above 1
	matches "$(<"$TMP/err")" "5 functions have grown .* error: B\\.b .*, B\\.c .*, B\\.a .*, \\.\\.\\.$"
}

# The new profile is that of a process.
test_fail_above_of_a_process() {
	local pid status=0
	need_counting
	made cpu 1000000000 1000 "1000 1000000000 ocaml:A.f" >"$TMP/other.json"
	start_target "$PROFILED" touch
	await_line ready
	await_reading
	background "${AT_FAULTS[@]}" "$TOOL" profile -pid "$TARGET" --diff "$TMP/other.json" --fail-above 5 >"$TMP/out" 2>"$TMP/err"
	pid=$!
	wait_for 'has_text "$TMP/err" "sampling"'
	run_books 1
	kill -INT "$pid"
	wait "$pid" || status=$?
	eq "$status" 8 "status: $(<"$TMP/err")"
	matches "$(tail -n 1 "$TMP/err")" "^ocaml-probes: --fail-above 5: [0-9]+ functions? ha(s|ve) grown .* error: Profiled\\.[^ ]* \\(0\\.0% to "
	finds FUNCTION "$TMP/out"
}

test_fail_above_usage() {
	make_two
	local old=$TMP/old.json new=$TMP/new.json
	for points in x '' -1 101 nan 5x; do
		check_error 2 "--fail-above '$points': not a number of points from 0 to 100" profile --diff "$old" "$new" --fail-above "$points"
	done
	check_error 2 '--fail-above: given twice' profile --diff "$old" "$new" --fail-above 1 --fail-above 2
	check_error 2 '--fail-above needs --diff' profile -pid 1 --fail-above 1
	echo "main;A.f 100" >"$TMP/waits.folded"
	check_error 2 '--fail-above: nothing is decided: the number of samples is not known' \
		profile --off-cpu --diff "$TMP/waits.folded" "$TMP/waits.folded" --fail-above 1
}

# What the tool prints is what it reads.
test_reads_what_it_writes() {
	local kind
	profile_work "$PROFILED" touch 1 "${AT_FAULTS[@]}" --json
	for kind in --json --folded; do
		"$TOOL" profile --diff "$TMP/folded" "$TMP/folded" "$kind" >"$TMP/out" || fail "$kind"
	done
	holds grep -q 'Profiled.book;Profiled.touch' "$TMP/out" || fail "$(head -n 3 "$TMP/out")"
	awk '$(NF - 1) != $NF { exit 1 }' "$TMP/out" || fail "not equal to itself: $(head "$TMP/out")"
}

# The values of the page are those of the files.
test_page() {
	make_two
	diff_of "$TMP/old.json" "$TMP/new.json" --html "$TMP/diff.html" -q >/dev/null
	holds python3 - "$TMP/diff.html" <<'PY' || fail "$(grep -A 20 'id="data"' "$TMP/diff.html" | head -c 2000)"
import json, sys
data = json.loads(open(sys.argv[1]).read().split('id="data">')[1].split("</script>")[0])
names = lambda stack: ";".join(data["frames"][i][0] for i in stack[2:])
rows = {(names(s), data["frames"][s[-1]][1]): (s[0], s[1], old) for s, old in zip(data["stacks"], data["old"], strict=True)}
assert rows == {("main;work", "c"): (4, 4 * 10**8, 0), ("main;A.f;work", "kernel"): (0, 0, 3 * 10**8),
                ("[truncated: x];A.g", "ocaml"): (1, 10**8, 2 * 10**8), ("main;A.f", "ocaml"): (5, 5 * 10**8, 5 * 10**8)}, rows
functions = {(data["frames"][f[0]][0], data["frames"][f[0]][1]): f[1:] for f in data["functions"]}
assert functions["A.f", "ocaml"] == [5 * 10**8, 5 * 10**8, 5 * 10**8, 8 * 10**8], functions
assert data["samples"] == [100, 10], data["samples"]
PY
}

make_two_of_lwt() {
	made cpu 1000000000 100 "50 500000000 ocaml:Lwt_main.run;ocaml:Lwt.bind;ocaml:A.f" \
		"30 300000000 ocaml:Lwt_main.run;ocaml:Lwt.catch;ocaml:A.f;ocaml:Lwt.wakeup;ocaml:A.g" \
		"20 200000000 ocaml:Eio.run;ocaml:A.g;ocaml:A.g" >"$TMP/old.json"
	made cpu 1000000000 100 "20 200000000 ocaml:Lwt_main.run;ocaml:Lwt.map;ocaml:A.f" \
		"80 800000000 ocaml:Lwt_main.run;ocaml:A.f;ocaml:Lwt.wakeup;ocaml:Lwt.iter;ocaml:A.g" >"$TMP/new.json"
}

# In the table, functions of a library in a row are one, unless --unfold is given. The folded form and the JSON have all.
test_folded_libraries() {
	make_two_of_lwt
	diff_of "$TMP/old.json" "$TMP/new.json" >"$TMP/table"
	finds -E '^ +50\.0% +80\.0% +\+30\.0[ ~] +\+30\.0[ ~] .* A\.g$' "$TMP/table"
	finds -E '^ +0\.0% +0\.0% +\+0\.0[ ~] +\+20\.0[ ~] .* \[Lwt\]$' "$TMP/table"
	finds -E '^ +0\.0% +0\.0% +\+0\.0[ ~] +-20\.0[ ~] .* \[Eio\]$' "$TMP/table"
	finds -x 'functions of a library in a row are one here: \[Lwt\], \[Eio\]; --unfold shows them' "$TMP/table"
	finds -E '^ +30\.0% +80\.0% +\+50\.0[ ~] +A\.g$' "$TMP/table"
	! finds 'Lwt\.\|Lwt_main\|Eio\.' "$TMP/table" || fail "$(<"$TMP/table")"
	diff_of "$TMP/old.json" "$TMP/new.json" --unfold >"$TMP/table"
	finds -E '^ +0\.0% +0\.0% +\+0\.0[ ~] +\+80\.0[ ~] .* Lwt\.iter$' "$TMP/table"
	! finds '\[Lwt\]\|\[Eio\]' "$TMP/table" || fail "$(<"$TMP/table")"
	diff_of "$TMP/old.json" "$TMP/new.json" --folded >"$TMP/folded"
	finds -x 'Lwt_main.run;A.f;Lwt.wakeup;Lwt.iter;A.g 0 80' "$TMP/folded"
	diff_of "$TMP/old.json" "$TMP/new.json" --json >"$TMP/json"
	finds '"function":"Lwt.iter"' "$TMP/json"
	! finds '\[Lwt\]' "$TMP/json" || fail "$(<"$TMP/json")"
	check_error 2 'profile: --unfold: only for the table and for --html$' profile --diff "$TMP/old.json" "$TMP/new.json" --unfold --json
}

# The page has both: all frames, and the folded ones. What is of a function of the program is the same in both.
test_folded_libraries_on_the_page() {
	local flag
	make_two_of_lwt
	for flag in -q --unfold; do
		diff_of "$TMP/old.json" "$TMP/new.json" --html "$TMP/diff.html" "$flag" >"$TMP/table"
		holds python3 - "$TMP/diff.html" "$flag" <<'PY' || fail "$(grep -A 20 'id="data"' "$TMP/diff.html" | head -c 3000)"
import json, sys
data = json.loads(open(sys.argv[1]).read().split('id="data">')[1].split("</script>")[0])
assert data["profile"].get("unfolded", False) == (sys.argv[2] == "--unfold"), data["profile"]
name = lambda number: data["frames"][number][0]

def stacks(graph):
    rows = [(";".join(map(name, s[2:])), s[1], old) for s, old in zip(graph["stacks"], graph["old"], strict=True)]
    assert len(set(rows)) == len(rows), rows
    return set(rows)

def own(graph):
    return {name(f[0]): f[1:] for f in graph["functions"] if name(f[0]).startswith("A.")}

s = 10**8
assert stacks(data) == {("Lwt_main.run;Lwt.bind;A.f", 0, 5 * s), ("Lwt_main.run;Lwt.catch;A.f;Lwt.wakeup;A.g", 0, 3 * s),
                        ("Eio.run;A.g;A.g", 0, 2 * s), ("Lwt_main.run;Lwt.map;A.f", 2 * s, 0),
                        ("Lwt_main.run;A.f;Lwt.wakeup;Lwt.iter;A.g", 8 * s, 0)}, data
assert stacks(data["folded"]) == {("[Lwt];A.f", 2 * s, 5 * s), ("[Lwt];A.f;[Lwt];A.g", 8 * s, 3 * s), ("[Eio];A.g", 0, 2 * s)}, data
assert own(data) == own(data["folded"]) == {"A.f": [2 * s, 10 * s, 5 * s, 8 * s], "A.g": [8 * s, 8 * s, 5 * s, 5 * s]}, data
assert sorted(data["folded"]["libraries"].split(", ")) == ["[Eio]", "[Lwt]"], data["folded"]
PY
	done
}

# What is within the sampling error is grey in the graph and in the list, and says so.
test_noise_on_the_page() {
	need_command chromium-headless-shell chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
	make_two
	diff_of "$TMP/old.json" "$TMP/new.json" --html "$TMP/diff.html" -q >/dev/null
	HOME=$TMP PYTHONPATH=$ROOT/tests/e2e holds /usr/bin/python3 -B - "$TMP/diff.html" <<'PY'
import sys
from web_lib import Page, equal
page = Page(None, "file://" + sys.argv[1], "ready", ["--force-prefers-reduced-motion"])
boxes = {name: (fill, title) for name, fill, title in page.js("""
    return [...document.querySelectorAll("#graph g.frame")].map((g) =>
        [g.__data__.data.name, g.querySelector("rect").getAttribute("fill"), g.querySelector("title").textContent]);""")}
equal({name: boxes[name][0] for name in ("work", "A.f", "A.g")},
      {"work": "var(--more-2)", "A.f": "var(--less-2)", "A.g": "var(--all-0)"}, "colours")
equal({name: "within the sampling error" in boxes[name][1] for name in ("work", "A.f", "A.g")},
      {"work": False, "A.f": False, "A.g": True}, "titles")
rows = page.js("""
    return [...document.querySelectorAll("#functions tr:has(th button)")].map((row) =>
        [row.querySelector("th").textContent, row.querySelector("th").className, row.querySelector(".noise")?.textContent ?? ""]);""")
marked = {(name, kind.split()[-1]): noise != "" for name, kind, noise in rows}
equal({key: marked[key] for key in (("work", "c"), ("A.g", "ocaml"), ("A.f", "ocaml"))},
      {("work", "c"): False, ("A.g", "ocaml"): True, ("A.f", "ocaml"): True}, f"the list: {rows}")
page.driver.quit()
PY
}

# The file must be refused with STATUS 2 and this sentence, whether it is the old or the new one.
refuses() { # MESSAGE CONTENT
	printf '%b' "$2" >"$TMP/bad"
	check_error 2 "^ocaml-probes: $TMP/bad$1\$" profile --diff "$TMP/bad" "$TMP/new.json"
	check_error 2 "^ocaml-probes: $TMP/bad$1\$" profile --diff "$TMP/new.json" "$TMP/bad"
}

test_bad_files() {
	make_two
	local json huge=18446744073709551615
	json=$(<"$TMP/new.json")
	refuses ': is empty: no samples' ''
	refuses ': is empty: no samples' '\n \n'
	refuses ':2: not FUNCTION;...;FUNCTION NUMBER' 'a;b 3\nnothing\n'
	refuses ':1: not FUNCTION;...;FUNCTION NUMBER' 'a;b -3\n'
	refuses ':1: not FUNCTION;...;FUNCTION NUMBER' ' 3\n'
	refuses ':3: a function without a name' 'a 1\nb 2\na;;b 3\n'
	refuses ':1: the number is too large' "a 1$huge\n"
	refuses ':2: the sum of all values is too large' "a $huge\nb 1\n"
	refuses ': not a profile: contains a zero byte' 'a;b\0 3\n'
	refuses ':2: the JSON has no end' '{ "version": 1,\n'
	refuses ':3: no JSON: .*' '{ "version": 1,\n"profile": "cpu",\n]}'
	refuses ':1: text after the JSON' '{} x'
	refuses ': not what `profile --json` prints: "profile" names no kind of profile' '{}'
	refuses ': the profile has no member "version"' '{"profile": "cpu"}'
	refuses ': of version 7, which this tool does not know' '{"profile": "cpu", "version": 7}'
	refuses ': "ns" of stack 2 is not a whole number of 0 or more' "${json/400000000/-4}"
	refuses ': "ns" is not the sum of the stacks' "${json/400000000/400000001}"
	refuses ': stack 2 has a frame without a function or a kind' "${json/\"function\": \"work\"/\"function\": 5}"
	refuses ': stack 2 has a frame without a function or a kind' "${json/\"function\": \"work\"/\"function\": \"w\\\\u0000\"}"
	refuses ': stack 1 has a frame without a function or a kind' "${json/\"kind\": \"c\"/\"kind\": \"d\"}"
	check_error 2 'nowhere: No such file or directory' profile --diff "$TMP/nowhere" "$TMP/new.json"
	check_error 2 "$TMP: not a regular file" profile --diff "$TMP" "$TMP/new.json"
	mkfifo "$TMP/fifo"
	check_error 2 'fifo: not a regular file' profile --diff "$TMP/fifo" "$TMP/new.json"
}

test_kinds() {
	make_two
	made wait 1000000000 0 "1 1 c:main" >"$TMP/wait.json"
	check_error 2 'wait.json: a profile of waits \(--off-cpu\) cannot be compared with one of CPU time \(--cpu\)$' \
		profile --diff "$TMP/wait.json" "$TMP/new.json"
	check_error 2 'new.json: not a profile of --alloc$' profile --alloc --diff "$TMP/new.json" "$TMP/new.json"
	need_counting
	start_target "$PROFILED" cpu
	await_line ready
	check_error 2 'wait.json: a profile of waits' profile -pid "$TARGET" --for 1s --diff "$TMP/wait.json"
	check_error 2 'old.json: a profile of CPU time \(--cpu\) cannot be compared with one of the collector \(--gc\)$' \
		profile -pid "$TARGET" --for 1s --gc --diff "$TMP/old.json"
}

test_usage() {
	make_two
	local old=$TMP/old.json new=$TMP/new.json
	check_error 2 "'x': unexpected" profile x
	check_error 2 "'z': unexpected" profile --diff x y z
	check_error 2 '-pid: not where two files are compared' profile -pid 1 --diff "$old" "$new"
	check_error 2 '--for: not where two files are compared' profile --diff "$old" "$new" --for 1s
	check_error 2 '--diff: given twice' profile --diff "$old" --diff "$old" "$new"
	check_error 2 '--html names a file that --diff reads' profile --diff "$old" "$new" --html "$new"
	check_error 2 '--html names a file that --diff reads' profile --diff "$old" -pid 1 --html "$TMP/../${TMP##*/}/old.json"
	check_error 2 '-pid or --exe is required' profile --diff "$old"
}

run_tests "$@"
