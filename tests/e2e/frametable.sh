#!/usr/bin/env bash
# The frame tables of programs, by tests/ocaml/frames/dump, against other witnesses: tests/books/frames.py.
#
# ocaml5: all
. "$(dirname "$0")/lib.sh"

# Programs of the first compiler in the PATH (tools/matrix/check has others there).
build() { # OUTPUT [FLAG...]
	local output=$1
	shift
	mkdir -p "$TMP/frames"
	cp "$ROOT"/tests/ocaml/frames/frames* "$TMP/frames"
	(cd "$TMP/frames" && ocamlopt -g -inline 100 "$@" frames_stubs.c frames.ml -o "../$output" 2>>"$TMP/warnings") ||
		fail "frames.ml does not build"
}

compare() { # WHAT FILE [OUTPUT]
	compare_with_books "$1" "$O/tests/frames_dump" "${@:2}"
}

all_witnesses() { # FILE
	compare tables "$1"
	compare line_numbers "$1"
	"$1" >"$TMP/output" || fail "$1 does not run"
	compare backtraces "$1" "$TMP/output"
	[[ $(<"$TMP/compared") -ge 25 ]] || fail "few backtraces: $(<"$TMP/compared")"
}

test_position_independent() {
	build main
	all_witnesses "$TMP/main"
	# A program of this test has what is easily wrong: inlined functions, far places, several lines.
	"$O/tests/frames_dump" "$TMP/main" | grep Frames >"$TMP/rows"
	grep -q ' inlined | ' "$TMP/rows" || fail "nothing is inlined"
	grep -q 'Frames.Make.Inner.(@@@) frames.ml ' "$TMP/rows" || fail "no functor"
	grep -q 'Frames.far_right frames.ml [0-9-]* 98-' "$TMP/rows" || fail "no far column"
	grep -q 'Frames.far_below far_below.ml \(600001\|524287\)-' "$TMP/rows" || fail "no far line"
	strip -o "$TMP/stripped" "$TMP/main"
	"$O/tests/frames_dump" "$TMP/main" >"$TMP/rows"
	"$O/tests/frames_dump" "$TMP/stripped" >"$TMP/stripped-rows"
	holds cmp "$TMP/rows" "$TMP/stripped-rows" || fail "stripped, it has others"
}

test_not_position_independent() {
	build fixed -ccopt -no-pie
	all_witnesses "$TMP/fixed"
}

test_static() {
	build static -ccopt -static
	all_witnesses "$TMP/static"
	# Without any symbol the list of the tables is found by what it looks like.
	strip -o "$TMP/stripped" "$TMP/static"
	eq "$(nm "$TMP/stripped" 2>&1 | grep -v 'no symbols')" "" "symbols"
	"$O/tests/frames_dump" "$TMP/static" >"$TMP/rows"
	"$O/tests/frames_dump" "$TMP/stripped" >"$TMP/stripped-rows"
	cmp "$TMP/rows" "$TMP/stripped-rows" || fail "stripped, it has others"
}

# A plugin has no list of its tables, but exports them.
test_plugin() {
	build main
	cp "$TMP/frames/frames.ml" "$TMP/frames/other.ml"
	(cd "$TMP/frames" && ocamlopt -shared -g -inline 100 frames.ml other.ml -o ../plugin.cmxs) ||
		fail "no plugin"
	compare tables "$TMP/plugin.cmxs"
	compare line_numbers "$TMP/plugin.cmxs"
}

# A program that nobody prepared, and files without tables.
test_others() {
	compare tables "$(readlink -f "$(command -v ocamlopt.opt)")"
	eq "$("$O/tests/frames_dump" /bin/true 2>&1)" "dump: /bin/true: has no OCaml frame tables"
}

run_tests "$@"
