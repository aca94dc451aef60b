#!/usr/bin/env bash
# Stacks of `profile` through libraries of C++ that throw and catch, and callbacks from these, in programs
# of all kinds; where they go from a fibre to its parent, and where a domain begins. The compiler is that
# of PATH.
#
# needs: fixtures
# ocaml5: all
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
		foreign.ml -cclib -lstdc++ -o "$TMP/foreign" 2>"$TMP/build.err" || fail "$(<"$TMP/build.err")"
	nm -C --defined-only "$TMP/foreign" | sort >"$TMP/symbols"
}

# Profile $TMP/foreign, the folded form in $TMP/folded.
profile_foreign() { # [FLAG...]
	need_counting
	start_target "$TMP/foreign"
	await_line ready
	"$TOOL" profile -pid "$TARGET" --for 1s --hz 4999 "$@" --folded >"$TMP/folded" 2>"$TMP/err" || fail "$(<"$TMP/err")"
}

# All whole stacks are right: C++ is between `work` and `inside`. With MARKED and OCaml 5, a domain and two fibres are
# above. A stack is cut only where it must be.
check_foreign() { # KIND [MARKED]
	holds python3 - "$TMP/folded" "$TMP/symbols" "$(ocamlopt -version | cut -d. -f1)" "$@" <<'PY' || fail "$1: $(head -c 3000 "$TMP/folded")"
import bisect, re, sys
path, symbols, major, kind, marked = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], len(sys.argv) > 5
NO_RULES = re.compile(r"caml_raise\w*|foreign_guarded|_Unwind_\w+|__cxa_\w+|__gxx_personality_v0|_init|\[lib(gcc_s|stdc\+\+)\S+\]")
functions = [(int(line.split()[0], 16), line.split()[2]) for line in open(symbols) if line.split()[1] in "tTwW"]


# For a few instructions of caml_callback_exn, and what it calls before OCaml code, the parent of a fibre is in a register.
# Some code of C has no call frame information: what raises or unwinds, and entries of a PLT (those before _init's).
def may_be_cut(frames):
    names = [name_of(frame) for frame in frames[1:] if not frame.endswith("_[k]")]
    callbacks = [i for i, name in enumerate(names) if name.startswith("caml_callback")]
    if "cannot be read" in frames[0]:
        return callbacks and not any(re.match(r"[A-Z]\w*\.", name) for name in names[callbacks[-1]:])
    return NO_RULES.fullmatch(names[-1])


def name_of(frame):
    place = re.fullmatch(r"\[foreign\+0x([0-9a-f]+)\]", frame)
    return functions[bisect.bisect(functions, (int(place[1], 16), "~")) - 1][1] if place else frame


total = whole = inside = 0
for line in open(path):
    stack, value = line.rsplit(" ", 1)
    frames, value = stack.split(";"), int(value)
    if "input_line" in stack:
        continue
    total += value
    if frames[0].startswith("[truncated"):
        assert may_be_cut(frames), line
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
print(f"{kind}: {whole} of {total} whole, {inside} inside")
sys.exit(not (total >= 50 and inside >= 0.5 * total))
PY
}

test_marks() {
	build_foreign
	profile_foreign
	check_foreign plain marked
}

# Without BPF, the tool walks the stacks itself.
test_marks_by_ptrace() {
	build_foreign
	profile_foreign --engine ptrace
	check_foreign "by ptrace" marked
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
