#!/usr/bin/env bash
# Our regular expressions hold what they promise: to be those of OCaml's Str.
. "$(dirname "$0")/lib.sh"

OURS=("$O/asan/tests/unit/unit-tests" --program=str_regexp)

build_oracle() {
	need_command ocamlfind
	[[ -x ${OURS[0]} ]] || skip "the unit tests are not built"
	cp "$ROOT/tests/ocaml/str_oracle.ml" "$TMP"
	(cd "$TMP" && ocamlfind ocamlopt -package str -linkpkg str_oracle.ml -o oracle)
}

test_the_table_is_what_str_does() {
	build_oracle
	"${OURS[@]}" --table >"$TMP/table"
	cut -f1,2 "$TMP/table" | "$TMP/oracle" match >"$TMP/str"
	holds cmp "$TMP/table" "$TMP/str" || fail "$(diff -a "$TMP/table" "$TMP/str")"
}

test_random_patterns() {
	build_oracle
	"$TMP/oracle" random 200000 >"$TMP/str"
	cut -f1,2 "$TMP/str" | "${OURS[@]}" --match >"$TMP/ours"
	holds cmp "$TMP/str" "$TMP/ours" || fail "$(diff -a "$TMP/str" "$TMP/ours" | head -40)"
	# They are of use only if many match, and many do not.
	[[ $(grep -c 'yes$' "$TMP/str") -gt 20000 && $(grep -c 'no$' "$TMP/str") -gt 20000 ]] ||
		fail "too few verdicts of a kind"
}

run_tests "$@"
