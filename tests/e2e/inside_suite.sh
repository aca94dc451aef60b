#!/usr/bin/env bash
# The language suite (tests/ocaml/suite) while it is counted inside: each program compares every round with
# what its source says, and both engines count the same hits. With the compiler in PATH:
#
#   WHOLE=yes    all programs of the suite, instead of some
#   PROGRAMS     these
#   SUITE_OUT    where the programs are built (default: $O/tests/suite_inside)
#   SUITE_FLAGS  ocamlopt's flags for all of the code (default: -g)
#   SUITE_LOG    a file for a line a program: the rounds that it made
#
# needs: fixtures ocaml
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/suite_lib.sh"

OUT=${SUITE_OUT:-$O/tests/suite_inside}
SETTINGS=(BARE=no)
SOME='plugins raising_handlers signals threads'
[[ -n ${PROGRAMS:-} || ${WHOLE:-no} != no ]] || PROGRAMS=$SOME
export PROGRAMS=${PROGRAMS:-}
# As in suite.sh: a stack as Linux gives OCaml 4, and a minor heap that is collected all the time.
export OCAMLRUNPARAM=l=1M,s=4k

test_build() { holds build_suite; }

# Run the function CHECK for every program, its name in PROGRAM, one a processor at a time.
each() { # CHECK
	need_counting
	need_suite
	xargs -P"$(nproc)" -I{} env PROGRAM={} bash "$0" --one "$1" <"$OUT/programs"
}

# Rounds until something can be read from its stdin. It ends with status 0 if all rounds were as its
# source says, the last one as with all handlers off.
start_program() {
	mkdir "$TMP/$PROGRAM"
	start_target "$OUT/$PROGRAM" toggled "$SUITE/$PROGRAM.ml"
	await_line ready 60
	BEFORE=$(memory_of "$TARGET")
	if [[ -n $(setting initially) ]]; then
		"$TOOL" attach -pid "$TARGET" -disable-all
	fi
}

# "ROUNDS off, ROUNDS on, ROUNDS mixed" must match RE.
end_program() { # RE
	tell stop
	finish_target
	eq "$TARGET_STATUS" 0 "$PROGRAM: status: $(tail -n 30 "$(output_of)")"
	matches "$(tail -n 1 "$(output_of)")" "$1" "$PROGRAM"
	echo "$PROGRAM: $(tail -n 1 "$(output_of)")" >>"${SUITE_LOG:-/dev/null}"
}

# Children count inside with their parent.
count_by() { # ENGINE
	local children=()
	[[ $1 = inside ]] || children=(--children)
	background "$TOOL" attach --budget none -pid "$TARGET" --count --json --engine "$1" "${children[@]}" >"$TMP/$PROGRAM/$1" 2>"$TMP/$PROGRAM/$1.err"
	COUNTING=$!
	wait_for "has_text '$TMP/$PROGRAM/$1.err' 'counting [0-9]* probes?' || ! kill -0 $COUNTING" 60
	kill -0 "$COUNTING" 2>/dev/null || not_counted "$1"
}

not_counted() { # ENGINE
	grep -q 'cannot be called into now: no thread has room on its stack' "$TMP/$PROGRAM/$1.err" ||
		fail "$PROGRAM: it does not count: $(<"$TMP/$PROGRAM/$1.err")"
	cat "$TMP/$PROGRAM/$1.err" >&2
	return 1
}

# Stop the program, and count inside. On a busy machine a timer is always due, and a stop comes when its handler begins:
# on the alternate stack of OCaml 5, nothing can be called.
count_stopped() {
	local tries=0
	stop_between_sites
	until count_by inside; do
		((++tries < 200)) || fail "$PROGRAM: always in a signal handler"
		kill -CONT "$TARGET"
		let_it_run
		stop_between_sites
	done
}

# Stop the program where no thread is within a site.
stop_between_sites() {
	local tries=0
	"$TOOL" info -pid "$TARGET" --sites --json | grep -o '"address":"0x[0-9a-f]*"' | grep -o '0x[0-9a-f]*' |
		while read -r site; do printf '0x%x\n' $((site + 1)); done >"$TMP/$PROGRAM/within"
	while ((++tries < 1000)); do
		kill -STOP "$TARGET"
		await_stopped
		/usr/bin/python3 "$ROOT/tests/e2e/within_sites.py" "$TARGET" "$TMP/$PROGRAM/within" || return 0
		kill -CONT "$TARGET"
	done
	fail "$PROGRAM: always within a site"
}

# How often each probe was hit.
hits_by() { # ENGINE
	tail -n 1 "$TMP/$PROGRAM/$1" | grep -o '"name":"[^"]*","hits":[0-9]*' | sort
}

but_those_of() { # PROBE
	grep -v "^\"name\":\"$1\"," || :
}

# "(*suite: overflows PROBE *)": in each round, a site of PROBE meets the end of the stack once. With OCaml 4 its call
# faults there: the nop in front of it, which BPF counts, has been passed, and inside nothing is counted.
check_overflows() {
	local probe more rounds=0
	probe=$(setting overflows)
	[[ -n $probe ]] || return 0
	[[ $(ocamlopt -version) = 5.* ]] || rounds=$(tail -n 1 "$(output_of)" | sed -E 's/ [a-z]+,?/ +/g; s/\+$//')
	more=$(($(hits_of bpf "$probe") - $(hits_of inside "$probe")))
	((0 <= more && more <= rounds)) || fail "$PROGRAM: $probe: BPF counts $more more in $((rounds)) rounds"
}

hits_of() { # ENGINE PROBE
	hits_by "$1" | sed -n "s/^\"name\":\"$2\",\"hits\"://p"
}

# Let the program run: most need CPU time, and some sleep mostly. Where a round overflows the stack, that takes a second
# with BPF, and handlers that were on within it only would not be seen.
has_run() { # TICKS SWITCHES
	local ticks switches enough=4
	[[ -z $(setting overflows) ]] || enough=100
	read -r ticks switches < <(activity)
	((ticks - $1 >= enough || switches - $2 >= 20))
}

activity() {
	local ticks switches
	ticks=$(sed 's/.*) //' "/proc/$TARGET/stat" | awk '{ print $12 + $13 }')
	# Threads end meanwhile.
	switches=$( (cat "/proc/$TARGET/task"/*/status 2>/dev/null || :) | awk '/^voluntary/ { n += $2 } END { print n }')
	echo "$ticks $switches"
}

let_it_run() {
	local before
	before=$(activity)
	wait_for "has_run $before" 60
}

# Begin and end to count again and again, and switch nothing: each round is as if nobody were there.
check_alone() {
	local i
	start_program
	for ((i = 0; i < 5; i++)); do
		count_by inside
		let_it_run
		kill -INT "$COUNTING"
		wait "$COUNTING" || fail "$PROGRAM: $(<"$TMP/$PROGRAM/inside.err")"
		[[ -n $(hits_by inside) ]] || fail "$PROGRAM: nothing was counted"
	done
	[[ -n $(setting initially) ]] || eq "$(memory_of "$TARGET")" "$BEFORE" "$PROGRAM: text and semaphores"
	if [[ -n $(setting initially) ]]; then
		end_program '^[0-9]+ off, [0-9]+ on, [0-9]+ mixed$'
	else
		end_program '^[1-9][0-9]* off, 0 on, 0 mixed$'
	fi
}

# Both engines count while handlers are switched. They begin and end while the program is stopped.
check_switched() {
	local i inside bpf
	start_program
	count_stopped
	inside=$COUNTING
	count_by bpf
	bpf=$COUNTING
	kill -CONT "$TARGET"
	let_it_run
	for ((i = 0; i < 4; i++)); do
		"$TOOL" attach -pid "$TARGET" -enable-all
		let_it_run
		"$TOOL" attach -pid "$TARGET" -disable-all
		let_it_run
	done
	stop_between_sites
	kill -INT "$inside" "$bpf"
	wait "$inside" || fail "$PROGRAM: $(<"$TMP/$PROGRAM/inside.err")"
	wait "$bpf" || fail "$PROGRAM: $(<"$TMP/$PROGRAM/bpf.err")"
	[[ -n $(setting initially) ]] || eq "$(memory_of "$TARGET")" "$BEFORE" "$PROGRAM: text and semaphores"
	kill -CONT "$TARGET"
	[[ -n $(hits_by bpf) ]] || fail "$PROGRAM: nothing was counted"
	end_program '^[1-9][0-9]* off, ([1-9][0-9]* on, [0-9]+|[0-9]+ on, [1-9][0-9]*) mixed$'
	check_overflows
	eq "$(hits_by inside | but_those_of "$(setting overflows)")" "$(hits_by bpf | but_those_of "$(setting overflows)")" \
		"$PROGRAM: hits by both engines"
}

test_nothing_changes() {
	each check_alone
}

test_both_engines_while_switched() {
	each check_switched
}

TEST_TIMEOUT=900
run_tests "$@"
