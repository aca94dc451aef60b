#!/usr/bin/env bash
# Stacks of `profile` through libraries of C++ that throw and catch, and callbacks from these, in programs
# of all kinds; where they go from a fibre to its parent, and where a domain begins. The compiler is that
# of PATH.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Build foreign.ml as $TMP/foreign.
build_foreign() { # FLAG...
	local major
	need_command ocamlopt g++
	major=$(ocamlopt -version | cut -d. -f1)
	mkdir -p "$TMP/source"
	cp "$ROOT"/tests/ocaml/foreign/* "$TMP/source"
	cd "$TMP/source"
	cp "marks_$major.ml" marks.ml
	g++ -c -O1 -g -fPIC -I"$(ocamlopt -where)" foreign_stubs.cpp
	ocamlopt -I +unix -I +threads -g "$@" unix.cmxa threads.cmxa foreign_stubs.o marks.ml \
		foreign.ml -cclib -lstdc++ -o "$TMP/foreign" 2>"$TMP/build.err" || fail "$(cat "$TMP/build.err")"
}

# Profile $TMP/foreign, the folded form in $TMP/folded.
profile_foreign() {
	need_counting
	start_target "$TMP/foreign"
	await_line ready
	"$TOOL" profile -pid "$TARGET" --for 1s --hz 4999 --folded >"$TMP/folded" 2>"$TMP/err" || fail "$(cat "$TMP/err")"
}

# Nearly all stacks are whole, and all of those are right: C++ is between `work` and `inside`. With MARKED and
# OCaml 5, a domain and two fibres are above.
check_foreign() { # KIND [MARKED]
	python3 - "$TMP/folded" "$(ocamlopt -version | cut -d. -f1)" "$@" <<'PY' || fail "$1: $(head -c 3000 "$TMP/folded")"
import re, sys
path, major, kind, marked = sys.argv[1], int(sys.argv[2]), sys.argv[3], len(sys.argv) > 4
total = whole = inside = 0
for line in open(path):
    stack, value = line.rsplit(" ", 1)
    frames, value = stack.split(";"), int(value)
    if "input_line" in stack:
        continue
    total += value
    if frames[0].startswith("[truncated"):
        continue
    whole += value
    if "Foreign.inside" not in frames:
        continue
    inside += value
    start, end = frames.index("Foreign.work"), frames.index("Foreign.inside")
    assert frames[end - 1] == "Foreign.work.(fun)", line
    between = frames[start + 1:end]
    callback = [f for f in between if f == "caml_callback_exn" or f.startswith("[foreign+")]
    assert callback, line
    if marked:
        assert "foreign_guarded" in between and sum("descend" in f for f in between) >= 1, line
    if marked and major >= 5:
        above = frames[:start]
        assert "[domain]" in above and above.count("[fibre]") == 2, line
        inner = len(above) - 1 - above[::-1].index("[fibre]")
        outer = above.index("[fibre]")
        assert above.index("[domain]") < outer < above.index("foreign_guarded") < inner, line
        assert above[outer - 1].startswith("Marks.") and above[inner - 1].startswith("Marks."), line
    elif marked:
        assert "[fibre]" not in frames and "[domain]" not in frames, line
for line in open(path):
    if line.startswith("[truncated"):
        print(line[-400:], end="")
print(f"{kind}: {whole} of {total} whole, {inside} inside")
sys.exit(not (total >= 50 and whole >= 0.995 * total and inside >= 0.5 * total))
PY
}

test_marks() {
	build_foreign
	profile_foreign
	check_foreign plain marked
}

test_not_pie() {
	build_foreign -ccopt -no-pie
	profile_foreign
	check_foreign "not PIE" marked
}

test_static() {
	build_foreign -ccopt -static
	profile_foreign
	check_foreign static marked
}

test_stripped() {
	build_foreign
	strip "$TMP/foreign"
	profile_foreign
	check_foreign stripped
}

test_static_and_stripped() {
	build_foreign -ccopt -static
	strip "$TMP/foreign"
	profile_foreign
	check_foreign "static, stripped"
}

run_tests "$@"
