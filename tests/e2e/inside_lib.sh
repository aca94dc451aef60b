# shellcheck shell=bash
# Counting inside the fixture `inside`, and what is checked then. For scripts that have lib.sh, with ENGINE=inside, and
# target_lib.sh.

BINARIES=$O/tests/fixtures/binaries

# The fixture `inside`, which checks its registers. It is a copy, since uprobes are on it, too.
start_inside() { # [FIXTURE]
	start_target "$(own_copy "$BINARIES/${1:-inside}")"
	await_line ready
	keep_memory
}

order() { # LINE
	forget_output
	tell "$1"
	wait_for '! kill -0 "$TARGET" || grep -qx done "$(output_of)"' 120
	kill -0 "$TARGET" 2>/dev/null || fail "the program has ended, $1: $(cat "$(output_of)")"
}

is_mapped() {
	grep -q 'memfd:ocaml-probes-inside' "/proc/$TARGET/maps"
}

check_unmapped() {
	! is_mapped || fail "still mapped: $(grep memfd "/proc/$TARGET/maps")"
}

# "NAME HITS" of the fixture `inside` after so many rounds.
hits_of_rounds() { # ROUNDS
	printf '%s %d\n' begin "$1" end "$1" hot "$1" mixed $((2 * $1))
}

# The pair begin, end was passed N times, and nothing else happened.
check_pairs() { # N
	eq "$(tail -n 1 "$TMP/counts" | sed 's:"buckets".*::' | grep -oE '"(count|starts|orphan_starts|orphan_stops|map_full|open)":[0-9]+' | sort | xargs)" \
		"count:$1 map_full:0 open:0 orphan_starts:0 orphan_stops:0 starts:$1" "pairs"
}

# It ends as it should: no register has changed, and no signal was lost.
end_inside() {
	quit_target
	eq "$TARGET_STATUS" 0 "status of the program"
}

# Nothing of the counting is left.
check_gone() {
	check_bytes
	check_unmapped
}

poke() { # ADDRESS BYTE
	"$BINARIES/memory" "$TARGET" write <<<"$1 $2"
}
