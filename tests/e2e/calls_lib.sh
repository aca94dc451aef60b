# shellcheck shell=bash
# What the scripts share that measure the functions of tests/ocaml/calls, a program that counts its own calls. After
# target_lib.sh.

CALLS=$ROOT/tests/ocaml/calls

# What a program prints beside the tool's JSON.
own_lines() { # FILE
	grep -v '^{"version":' "$1" || :
}

# The program's books say that each of its rounds, in all threads, was that of a program that nobody measures.
check_rounds() { # PROGRAM
	python3 - <("$1" 1 0) "$(output_of)" <<-'EOF'
		import sys
		one, all = ({l.split()[1]: int(l.split()[2]) for l in open(f) if l.startswith("call ")} for f in sys.argv[1:])
		rounds = all["one_round"]
		for name in "anonymous", "run", "Make", "Versioned.run_domains":
		    one.pop(name, 0), all.pop(name, 0)
		assert all == {name: n * rounds for name, n in one.items()}, (one, all)
		assert rounds > 10, rounds
	EOF
}

# Build `timed`, and set MEASURED to the options that time all of its functions with books.
build_timed() {
	local name
	PROGRAMS=timed "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	MEASURED=()
	for name in returns nests escapes jumps lands yields grows digs calls_back; do
		MEASURED+=(--time "fn:Timed.$name")
	done
	[[ $(ocamlopt -version) != 5.* ]] || MEASURED+=(--time fn:Versioned.performs --time fn:Versioned.abandons)
}

# Start COMMAND, which stops before OCaml code runs, until GATE is opened and closed.
start_at_gate() { # GATE COMMAND...
	rm -f "$1"
	mkfifo "$1"
	start_target env GATE="$1" LD_PRELOAD="$O/tests/fixtures/binaries/libgate.so" "${@:2}"
	wait_for "[[ \$(readlink /proc/$TARGET/exe) = '$(realpath "$2")' ]] && grep -q '^\(257\|0\) ' /proc/$TARGET/syscall"
}

# Start COMMAND, which stops before OCaml code runs, and measure to the end what the options MEASURED say: JSON in OUT. BY is
# the engine (default: inside).
start_measured() { # OUT COMMAND...
	local out=$1 gate=$1.gate
	shift
	start_at_gate "$gate" "$@"
	background "$TOOL" attach -pid "$TARGET" "${MEASURED[@]}" --engine "${BY:-inside}" --budget none --json >"$out" 2>"$out.err"
	COUNTING=$!
	wait_for "has_text '$out.err' '(counting|measuring) [0-9]+ probe' || has_ended $COUNTING"
	! has_ended "$COUNTING" || fail "$(<"$out.err")"
	: >"$gate"
}

# ... and count COUNTED, or all of its functions.
start_counted() { # OUT COMMAND...
	local MEASURED=(--count="${COUNTED:-fn:.*}")
	start_measured "$@"
}

# Kill COMMAND, which counts in the target `calls`, at N of its system calls. The program continues, and `doctor --fix` restores
# its code. After kills_lib.sh.
kill_while_calls_are_counted() { # N COMMAND...
	local call
	list_calls "${@:2}"
	for call in $(spread_calls "$1"); do
		kill_if_reached "$call" "${@:2}" || continue
		let_work 1
		"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/fixed" 2>&1 || fail "at $call: $(<"$TMP/fixed")"
		holds has_own_code
	done
	tell stop
	quit_target
	eq "$TARGET_STATUS" 0 "status"
	check_rounds "$TMP/built/calls"
}
