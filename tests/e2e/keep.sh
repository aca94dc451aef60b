# Meters that are kept: they go on without the tool, are read, listed, and taken away.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# One a test script, also for the bash that runs a test alone.
NAME=ocp_test_$PPID
FOLDER=/sys/fs/bpf/ocaml-probes/$NAME

# What a failing test left would go on for ever.
take_away_later() {
	trap '[[ ! -e $FOLDER ]] || "$TOOL" detach "$NAME" >/dev/null 2>&1' EXIT
}

keep() { # FLAG...
	take_away_later
	"$TOOL" attach -pid "$TARGET" --keep "$NAME" "$@" 2>"$TMP/keep.err"
}

number() { # NAME_OF_MEMBER, of the last line of $TMP/json
	tail -n 1 "$TMP/json" | grep -o "\"$1\":[0-9]*" | head -1 | cut -d: -f2
}

# Everything that the program did from --keep to detach, and nothing else, is in the totals.
test_exact_from_keep_to_detach() {
	need_counting
	start_target "$O/tests/ocaml/counted" 50000 2
	await_line ready
	keep --count
	tell go
	await_line '# in_loop was seen.*' 60
	"$TOOL" read "$NAME" --json >"$TMP/counts"
	tell quit
	finish_target
	eq "$(totals)" "$(expected_hits)" "hits, read"
	"$TOOL" detach "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, after the program's end"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

test_it_goes_on_and_leaves_nothing() {
	local first second
	need_counting
	start_target "$O/tests/ocaml/loop"
	await_line ready
	keep --count --time alpha,beta
	grep -q "ocaml-probes read $NAME" "$TMP/keep.err"
	[[ $(int3_count "$TARGET") -gt 0 ]] || fail "no int3 while kept"
	"$TOOL" read "$NAME" --json >"$TMP/json"
	first=$(number hits)
	wait_for '"$TOOL" read "$NAME" --json >"$TMP/json"; [[ $(number hits) -gt '"$first"' ]]'
	"$TOOL" list --kept >"$TMP/list"
	grep -q "^$NAME .* 1 of 1 processes alive, pid $TARGET\$" "$TMP/list" || fail "$(cat "$TMP/list")"
	"$TOOL" list --kept --json >"$TMP/json"
	grep -q "\"name\":\"$NAME\".*\"pids\":\[$TARGET\]" "$TMP/json" || fail "$(cat "$TMP/json")"
	"$TOOL" detach --csv "$NAME" >"$TMP/csv"
	grep -q '^total,.*,pair,alpha beta,' "$TMP/csv" || fail "$(cat "$TMP/csv")"
	eq "$(int3_count "$TARGET")" 0 "int3 left"
	eq "$(raised_semaphores "$TARGET")" 0 "semaphores left"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# Sites with their functions and lines survive the way through the kernel.
test_sites_are_named() {
	need_counting
	start_target "$O/tests/ocaml/counted" 1000 1
	await_line ready
	keep --count --by-site
	"$TOOL" detach "$NAME" >"$TMP/out"
	grep -Eq '^in_loop +camlCounted__[a-z_0-9]+\+0x[0-9a-f]+ \(counted\.ml:[0-9]+\)' "$TMP/out" ||
		fail "$(cat "$TMP/out")"
}

# Killed at any moment while it makes the names: what is there can be taken away.
test_killed_in_between() {
	local i
	need_counting
	start_target "$O/tests/ocaml/loop"
	await_line ready
	take_away_later
	for ((i = 0; i < 20; i++)); do
		background "$TOOL" attach -pid "$TARGET" --count --keep "$NAME" 2>/dev/null
		sleep "0.0$((20 + i * 3))"
		kill -KILL $! 2>/dev/null || :
		wait $! || :
		[[ ! -e $FOLDER ]] || "$TOOL" detach "$NAME" >"$TMP/out" 2>"$TMP/err" || fail "$(cat "$TMP/err")"
		[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
	done
	wait_for '[[ $(int3_count "$TARGET") -eq 0 && $(raised_semaphores "$TARGET") -eq 0 ]]' 2
	let_run all
}

# The documented layout: the map `hits` is what others can read.
test_others_can_read_the_maps() {
	need_counting
	need_command bpftool
	start_target "$O/tests/ocaml/counted" 100 1
	await_line ready
	keep --count=in_loop
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	finish_target
	"$TOOL" detach "$NAME" --json >"$TMP/json" &&
		eq "$(number hits)" "$(expected_hits | sed -n 's/^in_loop //p')"
	start_target "$O/tests/ocaml/counted" 100 1
	await_line ready
	keep --count=in_loop
	tell go
	await_line '# in_loop was seen.*' 60
	# Entry CPU * stride + site; the stride is the entries / possible CPUs.
	bpftool -j map dump pinned "$FOLDER/hits" | python3 -c 'import json, sys
slots = [entry["formatted"]["value"] for entry in json.load(sys.stdin)]
cpus = int(open("/sys/devices/system/cpu/possible").read().split("-")[-1]) + 1
print(sum(slots[cpu * (len(slots) // cpus)] for cpu in range(cpus)))' >"$TMP/map"
	eq "$(cat "$TMP/map")" \
		"$("$TOOL" read "$NAME" --json | grep -o '"hits":[0-9]*' | head -1 | cut -d: -f2)" "sum over the CPUs: $(cat "$TMP/map")"
}

test_wrong_use() {
	start_target "$O/tests/ocaml/loop"
	await_line ready
	check_error 2 "not a name" attach -pid "$TARGET" --count --keep a/b
	check_error 2 "nothing is printed" attach -pid "$TARGET" --count --keep x --for 1s
	check_error 2 "goes with --count" attach -pid "$TARGET" -enable alpha --keep x
	check_error 2 "one name" read
	check_error 2 "one name" detach a b
	check_error 2 "not a name" read ..
	check_error 2 "nothing of that name" read "no_such_$$"
	check_error 2 "nothing of that name" detach "no_such_$$"
	check_error 2 "one of them" list --kept -prog "$O/tests/ocaml/loop"
	eq "$(int3_count "$TARGET")" 0 "int3"
	need_counting
	keep --count
	check_error 1 "is kept already" attach -pid "$TARGET" -q --count --keep "$NAME"
	"$TOOL" detach "$NAME" >"$TMP/out"
}

run_tests "$@"
