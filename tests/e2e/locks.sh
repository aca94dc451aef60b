#!/usr/bin/env bash
# `profile --off-cpu` says which threads ended the waits for locks, and in which stacks: tests/ocaml/locks holds locks for known
# times, and keeps books. profile_waits.sh tests the kinds of waits.
#
# needs: ocaml/locks
# ocaml5: all
# takes: 15 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/profile_lib.sh"

# Profile the target while it obeys ORDER, then do the rest of the orders, the last of which does not end. $TMP/books has its
# books, $TMP/out the output.
profile_locks() { # ORDER [FLAG...]
	need_counting
	start_target ${PINNED:-} "$O/tests/ocaml/locks"
	await_line ready
	background "$TOOL" profile -pid "$TARGET" --off-cpu "${@:2}" >"$TMP/out" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" "recording|sampling"'
	tell "$1"
	await_line 'done'
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "status $?: $(<"$TMP/err")"
	grep '^[a-z]* Locks' "$(output_of)" >"$TMP/books" || :
}

# The numbers of waits are those of the books, and each sum of their times is between the sums of the books. The lock of the
# runtime also has short waits for the mutex that is a part of it: only those for its condition are in the books.
check_releases() { # KIND
	holds python3 - "$TMP/out" "$TMP/books" "$1" <<'PY' || fail "$(<"$TMP/books") $(head -c 4000 "$TMP/out")"
import json, sys
top, kind = json.load(open(sys.argv[1])), sys.argv[3]
books = [line.split() for line in open(sys.argv[2])]
assert len(books) == 4 and top["losses"]["releases_full"] == top["lost"] == 0, books
releases = [r for r in top["releases"] if r["wait"] == kind]
for thread, function, n, least, most in books:
    of = [r for r in releases if function in [f["function"] for f in r["frames"]]]
    assert {r["comm"] for r in releases if r["tid"] in {o["tid"] for o in of}} <= {"left", "right"}
    of = [r for r in of if r["comm"] == thread]
    if kind == "runtime_lock":
        of = [r for r in of if any("pthread_cond_signal" in f["function"] for f in r["frames"])]
    ns = sum(r["ns"] for r in of)
    print(thread, function, sum(r["samples"] for r in of), ns, least, most)
    assert sum(r["samples"] for r in of) == int(n) and int(least) <= ns <= int(most), of
    assert all(r["frames"][r["site"]]["function"].startswith("Locks.") for r in of)
    assert not any(f["kind"] in ("kernel", "truncated") for r in of for f in r["frames"])
for name in ("mutex", "runtime_lock"):
    sums, of = top["waits"][name], [r for r in top["releases"] if r["wait"] == name]
    for unit in ("samples", "ns"):
        assert sums[unit] == sum(r[unit] for r in of) + sums["not_released"][unit] + sums["by_unknown"][unit], name
if kind == "mutex":
    assert sum(r["samples"] for r in releases) == sum(int(book[2]) for book in books)
    assert top["waits"]["mutex"]["by_unknown"] == top["waits"]["mutex"]["not_released"] == {"samples": 0, "ns": 0}
PY
}

test_mutex() {
	profile_locks mutex --json
	check_releases mutex
}

test_lock_of_runtime() {
	profile_locks runtime --json
	check_releases runtime_lock
}

# Interrupts end the waits, mostly while the other thread of the process runs, since there is one processor: that thread released
# nothing.
test_unknown_thread() {
	PINNED="taskset -c 0" profile_locks time_out --json
	holds python3 - "$TMP/out" <<'PY' || fail "$(head -c 4000 "$TMP/out")"
import json, sys
top = json.load(open(sys.argv[1]))
mutex = top["waits"]["mutex"]
assert mutex["samples"] == mutex["by_unknown"]["samples"] == 5 and mutex["ns"] == mutex["by_unknown"]["ns"] > 0, mutex
assert not [r for r in top["releases"] if r["wait"] == "mutex"]
PY
	PINNED="taskset -c 0" profile_locks time_out
	eq "$(sed -n '/ a mutex$/,/^$/p' "$TMP/out" | sed -n 's/.* \([0-9]*\)    released by an \(.*\)/\1 \2/p')" "5 unknown thread" \
		"rows: $(<"$TMP/out")"
}

test_wait_that_has_not_ended() {
	profile_locks stay --json
	holds python3 - "$TMP/out" <<'PY' || fail "$(head -c 4000 "$TMP/out")"
import json, sys
top = json.load(open(sys.argv[1]))
mutex = top["waits"]["mutex"]
assert mutex["samples"] == mutex["not_released"]["samples"] == 1 and mutex["ns"] == mutex["not_released"]["ns"] > 0, mutex
assert mutex["by_unknown"] == {"samples": 0, "ns": 0}
PY
	profile_locks stay
	holds grep -qE '^ +[0-9.]+% +[^ ]+ +1    not released before the end$' "$TMP/out" || fail "$(<"$TMP/out")"
}

# The thread, the function and the stack in the table.
test_table() {
	profile_locks mutex
	eq "$(sed -n 's/.* \([0-9]*\)    \(released by .*\)/\1 \2/p' "$TMP/out" | grep 'Locks.hold_mutex$' | sed 's/([0-9]*)/(TID)/' | sort)" \
		"10 released by left (TID) in Locks.hold_mutex
8 released by right (TID) in Locks.hold_mutex" "rows: $(<"$TMP/out")"
	sed -n '/^STACKS THAT RELEASED A MUTEX/,$p' "$TMP/out" >"$TMP/stacks"
	holds grep -qE '% (left|right) \([0-9]+\)$' "$TMP/stacks" || fail "no thread: $(<"$TMP/out")"
	holds grep -qE '^ +Locks\.mutex_long +locks\.ml:[0-9]+$' "$TMP/stacks" || fail "no function: $(<"$TMP/out")"
}

# Who has not asked pays nothing: these outputs do not record it, and without BPF it is not known.
test_without_releases() {
	profile_locks mutex --engine ptrace --json
	! holds grep -qE 'releases|by_unknown' "$TMP/out" || fail "$(<"$TMP/out")"
	profile_locks mutex --folded
	! holds grep -qE 'Locks\.mutex_(briefly|long).*unlock' "$TMP/out" || fail "$(<"$TMP/out")"
}

run_tests "$@"
