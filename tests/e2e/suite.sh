#!/usr/bin/env bash
# The language suite: programs of which each is one situation that a probe can be in (tests/ocaml/suite,
# where suite.ml tells how a program states what it writes). With the compiler in PATH:
#
#   SUITE_OUT    where the programs are built (default: $O/tests/suite)
#   SUITE_FLAGS  ocamlopt's flags for all of the code (default: -g)
#   WHOLE=yes    all programs, instead of some
#   PROGRAMS     these
#   BARE=no      do not build and run them without probes, too
#   DORMANT=yes  do not post-link them: all of it is done to dormant probes
#
# needs: fixtures link ocaml
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/suite_lib.sh"

OUT=${SUITE_OUT:-$O/tests/suite}
SETTINGS=(BARE="${BARE:-yes}")
# Calls of C, computed arguments, long jumps, the end of the stack, vector registers, collections, another compilation
# unit, loops, what Dynlink loads, exceptions out of handlers, signal handlers, threads.
SOME='c_calls arguments big_functions deep_recursion floats gc_stress library loops plugins raising_handlers signals threads'
[[ -n ${PROGRAMS:-} || ${WHOLE:-no} != no ]] || PROGRAMS=$SOME
export PROGRAMS=${PROGRAMS:-}
TOGGLES=${TOGGLES:-300}
# OCaml 5 would let a recursion without end fill 1 GiB: as much stack as Linux gives OCaml 4.
export OCAMLRUNPARAM=l=1M
# A minor heap this small is collected all the time.
STRESS=l=1M,s=4k,v=0x400

# ---- helpers ----------------------------------------------------------------------------------

# What a program's source says that a round writes with handlers off, or on.
expected() { # on|off [SOURCE]
	awk -v on="$1" '
		$0 == "*)" { inside = 0 }
		inside && /^> / { if (on == "on") print; next }
		inside && /^[-+] / { if ((on == "on") == /^[+]/) print substr($0, 3); next }
		inside && /^# / { if (on == "off") sub(/[0-9]+$/, "0") }
		inside
		$0 == "(*expected" { inside = 1 }' "${2:-$SUITE/$PROGRAM.ml}"
}

# Run the function CHECK for every program, its name in PROGRAM, one a processor at a time.
each() { # CHECK
	need_suite
	xargs -P"$(nproc)" -I{} env PROGRAM={} bash "$0" --one "$1" <"$OUT/programs"
}

build_toggler() {
	gcc -D_GNU_SOURCE -Wall -Wextra -Werror -o "$TMP/toggler" "$ROOT/tests/library/toggler.c" \
		-I"$ROOT/include" "$O/libocaml_probes.a" $(pkg-config --libs libbpf libdw libelf) -lZydis
}

# ---- tests ------------------------------------------------------------------------------------

test_build() {
	local least=40
	holds build_suite
	[[ -z ${PROGRAMS:-} ]] || least=1
	[[ $(wc -l <"$OUT/programs") -ge $least ]] || fail "only $(wc -l <"$OUT/programs") programs"
}

check_off() {
	local plain=off
	[[ ${BARE:-yes} = no ]] || eq "$("$OUT/${PROGRAM}_bare")" "$(expected off)" "$PROGRAM without probes"
	[[ $(setting initially) != on ]] || plain=on
	eq "$("$OUT/$PROGRAM")" "$(expected "$plain")" "$PROGRAM"
}

test_off() {
	each check_off
}

# With handlers on from the start on. A plugin is not there yet: see check_toggled.
check_on() {
	[[ -z $(setting plugin) ]] || return 0
	eq "$("$TOOL" trace -prog "$OUT/$PROGRAM" -enable-all --wait)" "$(expected on)" "$PROGRAM"
	# The collector tells at the end that it took the parameters.
	eq "$(OCAMLRUNPARAM=$STRESS "$TOOL" trace -prog "$OUT/$PROGRAM" -enable-all --wait \
		2>"$TMP/$PROGRAM.stress")" "$(expected on)" "$PROGRAM, small heap"
	matches "$(<"$TMP/$PROGRAM.stress")" 'minor_collections: '
}

test_on() {
	each check_on
}

check_toggled() {
	local out
	out=$(OCAMLRUNPARAM=$STRESS "$TMP/toggler" "$TOGGLES" "$OUT/$PROGRAM" toggled \
		"$SUITE/$PROGRAM.ml" 2>"$TMP/$PROGRAM.toggled") ||
		fail "$PROGRAM, toggled: $out$(tail -n 30 "$TMP/$PROGRAM.toggled")"
	# The last round is one of those with handlers off.
	matches "$out" '^[1-9][0-9]* off, [0-9]+ on, [0-9]+ mixed$' "$PROGRAM"
	[[ -z $(setting plugin) || $out != *' off, 0 on, '* ]] || fail "$PROGRAM, never all on: $out"
	[[ $out != *' off, 0 on, 0 mixed' ]] || fail "$PROGRAM: no handler ran: $out"
}

test_toggled() {
	build_toggler
	each check_toggled
}

# Every site is where its source has the probe. The program waits for its input to end.
check_places() {
	local sources=("$SUITE/$PROGRAM.ml") other pid n
	for other in $(setting plugin) $(setting library); do
		sources+=("$SUITE/$other")
	done
	mkfifo "$TMP/$PROGRAM.in"
	"$OUT/$PROGRAM" toggled "$SUITE/$PROGRAM.ml" <>"$TMP/$PROGRAM.in" >"$TMP/$PROGRAM.out" 2>&1 &
	pid=$!
	wait_for "grep -q '^ready' '$TMP/$PROGRAM.out'" 60
	"$TOOL" info -pid "$pid" --sites --json >"$TMP/$PROGRAM.json"
	kill "$pid"
	wait "$pid" || :
	n=$(python3 "$ROOT/tests/e2e/check_places.py" some "${sources[@]}" <"$TMP/$PROGRAM.json")
	matches "$n" '^[1-9][0-9]*$' "$PROGRAM"
}

test_places() {
	each check_places
}

# The check within the programs can fail: rounds that differ from what the source says are noticed.
test_wrong_rounds_are_noticed() {
	need_suite
	local program=$OUT/loops source=$SUITE/loops.ml wrong
	[[ -e $program ]] || skip "the program loops was not built"
	"$program" toggled "$source" </dev/null >"$TMP/out"
	matches "$(<"$TMP/out")" '^ready.2 off, 0 on, 0 mixed$'
	for wrong in 's/^nested 65$/nested 66/' '/^found true$/d' 's/^found true$/&\nmore/' \
		's/^found true$/- found false\n+ maybe/'; do
		sed "$wrong" "$source" >"$TMP/wrong.ml"
		! "$program" toggled "$TMP/wrong.ml" </dev/null >"$TMP/out" 2>&1 || fail "$wrong: $(<"$TMP/out")"
	done
	# With handlers on, the first round is compared; the last is always wrong.
	for wrong in '/^> high: 52$/d' 's/^> high: 52$/> high: 53/' 's/^# inner 10$/# inner 9/' ''; do
		sed "$wrong" "$source" >"$TMP/wrong.ml"
		! "$TOOL" trace -prog "$program" -enable-all --wait -- toggled "$TMP/wrong.ml" \
			</dev/null >"$TMP/out" 2>&1 || fail "$wrong: $(<"$TMP/out")"
		if [[ -n $wrong ]]; then
			matches "$(<"$TMP/out")" 'this round is not allowed'
		else
			matches "$(<"$TMP/out")" 'with handlers off again'
		fi
	done
}

TEST_TIMEOUT=1200
run_tests "$@"
