#!/usr/bin/env bash
# Programs of an ordinary user write what they like into the ring of `memprof`, which root runs: the tool ends in time,
# says what it found, and is not harmed. Also with the sanitizers.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Run the tool TOOL on a program that is hostile in the way HOW.
profile_hostile() { # HOW ARG...
	local how=$1 status=0
	shift
	start_target setpriv --reuid=65534 --regid=65534 --clear-groups "$TMP/hostile_ring" "$how"
	await_line ready
	# For what hangs: all ends after the 300 ms.
	timeout -s KILL "$PATIENCE" "$TOOL" memprof -pid "$TARGET" --for 300ms "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	[[ $status -le 1 ]] || fail "status $status of $how: $(cat -v "$TMP/err")"
	! LC_ALL=C grep -aq $'[\x01-\x08\x0b-\x1f\x7f]' "$TMP/out" "$TMP/err" || fail "control characters: $(cat -v "$TMP/out" "$TMP/err")"
	! grep -qv '^\(ocaml-probes\|hint\): ' "$TMP/err" || fail "$how: $(<"$TMP/err")"
	SAID=$(<"$TMP/err")
	kill -KILL "$TARGET"
	STATUS=$status
}

check_all() {
	local how
	need_root
	need_command setpriv
	chmod 755 "$TMP" "${TMP%/*}"
	gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I "$ROOT/src" -o "$TMP/hostile_ring" \
		"$ROOT/tests/fixtures/hostile_ring.c"
	for how in random heads lengths long deep; do
		profile_hostile "$how"
		eq "$STATUS" 0 "status of $how: $SAID"
		grep -q 'the program has damaged the ring of events' "$TMP/out" || fail "$how: $(<"$TMP/out")"
	done
	# Counts that cannot be are not printed, in tables or in JSON.
	profile_hostile heads
	grep -q 'the program has damaged the counts of lost events: they are not known' "$TMP/out" || fail "$(<"$TMP/out")"
	! grep -Eq '[0-9]{16}' "$TMP/out" || fail "counts: $(<"$TMP/out")"
	profile_hostile heads --json
	! grep -Eq '"(promote|samples|forks|alloc_minor)":[0-9]{16}' "$TMP/out" || fail "counts: $(<"$TMP/out")"
	# A source that only a later OCaml has is a number, and no damage.
	profile_hostile sources --json
	eq "$STATUS" 0 "status of sources: $SAID"
	eq "$(sed -nE 's/.*"source":"([^"]*)".*/\1/p' "$TMP/out")" "$(printf '%s\n' normal marshal custom map_file; seq -f 'source %g' 4 255)"
	tail -n 1 "$TMP/out" | finds '"damaged":false'
	profile_hostile changing --live --lifetimes
	eq "$STATUS" 0 "status of changing words: $SAID"
	profile_hostile answers
	matches "$SAID" "pid $TARGET: " "what is said of wrong answers"
	profile_hostile silent
	matches "$SAID" "pid $TARGET: waits, or runs no OCaml code" "what is said of silence"
}

test_hostile_rings() {
	check_all
}

test_hostile_rings_sanitized() {
	TOOL=$O/asan/ocaml-probes
	check_all
}

run_tests "$@"
