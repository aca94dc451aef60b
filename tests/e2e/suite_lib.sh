# shellcheck shell=bash
# What the scripts about the language suite share. A script sets OUT, where the programs are built, and SETTINGS, which say how
# (tests/ocaml/suite/build).

SUITE=$ROOT/tests/ocaml/suite

build_suite() {
	# shellcheck disable=SC2086 # flags are words
	env "${SETTINGS[@]}" "$SUITE/build" "$O" "$OUT" ${SUITE_FLAGS:-}
}

# Whichever test of the script is the first.
need_suite() {
	[[ -e $OUT/programs ]] || build_suite
}

# "(*suite: KEY VALUE *)" in the source of PROGRAM.
setting() { # KEY
	sed -n "s/^(\*suite: $1 \(.*\) \*)$/\1/p" "$SUITE/$PROGRAM.ml"
}
