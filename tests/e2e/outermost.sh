#!/usr/bin/env bash
# attach and trace --outermost: of a recursion only the outermost call is counted and timed. The program
# tests/ocaml/calls/outermost.ml keeps books of its outermost calls. With the compiler in PATH.
#
# needs: fixtures ocaml
# ocaml5: test_books test_unknown_calls
# takes: 20 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

FUNCTIONS='fn:\(Outermost\.\(down\|even\|odd\|raises\|catches\|yields\|calls_back\)\|Versioned\.\(nests\|performs\|abandons\)\)'

build_outermost() { # FLAG...
	PROGRAMS=outermost "$CALLS/build" "$TMP/built" "$@" 2>"$TMP/warnings" || fail "$(<"$TMP/warnings")"
}

# Measure ROUNDS rounds: JSON in $TMP/out, the books in $TMP/books.
measure_rounds() { # ROUNDS FLAG...
	"$TOOL" trace -prog "$TMP/built/outermost" --count="$FUNCTIONS" --time "$FUNCTIONS" --outermost --json "${@:2}" -- "$1" 100 \
		<<<go >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	own_lines "$TMP/out" >"$TMP/books"
}

# Each function has as many calls as in the books, and a sum of times between those of the books. Calls that an exception has
# ended have no time: two of the five calls of raises.
check_books() { # ROUNDS
	holds python3 - "$TMP/out" "$TMP/books" "$1" <<'PY' || fail "$(<"$TMP/books") $(head -c 4000 "$TMP/out")"
import json, sys
top = [json.loads(line) for line in open(sys.argv[1]) if line.startswith('{"version":')][-1]
books = {}
for line in open(sys.argv[2]):
    if line.startswith(("call Outermost.", "call Versioned.")):
        _, name, n, least, most = line.split()
        books["fn:" + name] = int(n), int(least), int(most)
for unmeasured in "fn:Versioned.abandons:raised", "fn:Versioned.refused":
    books.pop(unmeasured, None)
rounds = int(sys.argv[3])
hits = {probe["name"]: probe["hits"] for probe in top["probes"]}
pairs = {pair["start"]: pair for pair in top["pairs"]}
print(hits, books)
assert len(books) in (7, 10) and hits == {name: n for name, (n, _, _) in books.items()}
assert set(pairs) == set(books)
for name, (n, least, most) in books.items():
    raised = {"fn:Outermost.raises": 2 * rounds, "fn:Versioned.abandons": n}.get(name, 0)
    print(name, pairs[name]["count"], pairs[name]["sum_ns"], least, most)
    assert pairs[name]["count"] == n - raised and pairs[name]["orphan_starts"] == raised, pairs[name]
    assert pairs[name]["orphan_stops"] == 0
    assert least <= pairs[name]["sum_ns"] <= most or n == raised, pairs[name]
assert top["losses"]["filtered"] == 40 * rounds + (15 if len(books) == 10 else 0), top["losses"]
assert hits["fn:Outermost.yields"] == 4 * rounds and hits["fn:Outermost.raises"] == 5 * rounds
PY
}

test_books() {
	need_counting
	build_outermost
	measure_rounds 20
	check_books 20
	! holds grep -q 'not counted' "$TMP/err" || fail "$(<"$TMP/err")"
}

# The table, and the number of all other calls.
test_table() {
	need_counting
	build_outermost
	"$TOOL" trace -prog "$TMP/built/outermost" --count=fn:Outermost.down --time fn:Outermost.down --outermost -- 3 100 <<<go >"$TMP/out" 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	holds grep -qx '15 hits left out by --outermost' "$TMP/out" || fail "$(<"$TMP/out")"
	holds grep -qE '^fn:Outermost.down +3 ' "$TMP/out" || fail "$(<"$TMP/out")"
}

# Every call counts without the option: 54 a round, and four in each of four threads.
test_without_the_option() {
	need_counting
	build_outermost
	"$TOOL" trace -prog "$TMP/built/outermost" --count="$FUNCTIONS" --json -- 3 100 <<<go >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	holds python3 - "$TMP/out" <<'PY' || fail "$(head -c 2000 "$TMP/out")"
import json, sys
top = [json.loads(line) for line in open(sys.argv[1]) if line.startswith('{"version":')][-1]
hits = {probe["name"].removeprefix("fn:Outermost."): probe["hits"] for probe in top["probes"] if "Outermost" in probe["name"]}
print(hits)
assert hits == {"down": 18, "even": 9, "odd": 9, "raises": 51, "catches": 15, "calls_back": 12, "yields": 48}
PY
}

# C code without unwind tables is between the calls: the stacks of the inner calls end there, so it is unknown whether these calls are
# outermost. They are not counted, and a warning has their number.
test_unknown_calls() {
	need_counting
	build_outermost -ccopt -fno-asynchronous-unwind-tables -ccopt -fno-unwind-tables
	measure_rounds 4
	check_books 4
	holds grep -qx 'ocaml-probes: warning: 12 calls are not counted: the stack lacks callers, so it is unknown whether the call is outermost' \
		"$TMP/err" || fail "$(<"$TMP/err")"
}

test_refusals() {
	local flag
	check_error 2 '--outermost needs --count or --time of functions \(fn:\), and nothing else$' attach -pid $$ --outermost --count=handle
	check_error 2 '--outermost needs --count or --time of functions \(fn:\), and nothing else$' attach -pid $$ --outermost --count=fn:A.f --time a,b
	check_error 2 '--outermost needs --count or --time of functions \(fn:\), and nothing else$' attach -pid $$ --outermost --time c:malloc
	for flag in --print=fn:A.f --stack "--filter=arg0 > 1" --by=arg0 --hist=arg0; do
		check_error 2 '--outermost excludes --print, --slower, --stack, --filter, --hist, --by$' attach -pid $$ --outermost \
			--count=fn:A.f "$flag"
	done
	check_error 2 '--outermost excludes --print, --slower, --stack, --filter, --hist, --by$' attach -pid $$ --outermost \
		--time fn:A.f --slower 1ms
	check_error 2 '--keep excludes --outermost: ' attach -pid $$ --outermost --count=fn:A.f --keep kept
	check_error 2 '--outermost.*inside|inside.*--outermost' attach -pid $$ --outermost --count=fn:A.f --engine inside
}

run_tests "$@"
