#!/usr/bin/env bash
# Any local process can map what looks like the memory of counters inside, and lie in it. Root's tool reads it: it
# must neither crash, nor run for long. The modes are those of tests/fixtures/hostile/hostile_block.c.
#
#   TIMES    how often each command meets a block that changes meanwhile (default: 1)
#
# uses: all-blocks
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hostile_lib.sh"
TIMES=${TIMES:-1}

# All commands that read blocks, some times if what the process says changes.
try_all() { # MODE [TIMES]
	local tool i
	for tool in "$TOOL" "$O/asan/ocaml-probes"; do
		for ((i = 0; i < ${2:-1}; i++)); do
			start_hostile hostile_block "$1"
			ends_soon "$tool" list --kept
			ends_soon "$tool" doctor -pid "$TARGET"
			ends_soon "$tool" doctor
			ends_soon "$tool" read -pid "$TARGET"
			ends_soon "$tool" read night
			ends_soon "$tool" attach -pid "$TARGET" --engine inside --count --for 0.05s
			ends_soon "$tool" doctor -pid "$TARGET" -fix
			ends_soon "$tool" detach night
			ends_soon "$tool" detach -pid "$TARGET"
			kill -0 "$TARGET" || fail "$1: the process has ended: $(cat "$(output_of)")"
			kill -KILL "$TARGET"
			wait "$TARGET" || :
		done
	done
}

# Is a block with the lie MODE refused, in a sentence?
says_damaged() { # MODE
	start_hostile hostile_block "$1"
	ends_soon "$TOOL" read -pid "$TARGET"
	eq "$STATUS" 1 "status"
	matches "$(<"$TMP/err")" "^ocaml-probes: pid $TARGET: the memory of its counters is damaged: it cannot be read"
}

test_offset_above_the_block() {
	try_all pairs_off_high
	says_damaged pairs_off_high
}

test_offset_below_the_sites() {
	try_all pairs_off_low
	says_damaged pairs_off_low
}

test_millions_of_sites_that_are_not_there() {
	try_all sparse
	says_damaged sparse
}

test_sites_on_pages_that_cannot_be_read() {
	try_all dense
}

test_huge_description() {
	try_all huge_meta
	says_damaged huge_meta
}

test_header_that_changes() {
	try_all flip "$TIMES"
}

test_sites_that_change() {
	try_all flip_sites "$TIMES"
}

test_file_that_shrinks() {
	try_all cut "$TIMES"
}

test_block_that_comes_and_goes() {
	try_all come_and_go "$TIMES"
}

test_thousands_of_blocks() {
	try_all many_blocks
}

test_thousands_of_long_names() {
	try_all long_names
}

# A detach of a name ends, though the process counts again under this name each time.
test_block_that_comes_again() {
	try_all count_again
	start_hostile hostile_block count_again
	ends_soon "$TOOL" detach night
}

# Several processes that nobody has named share what is read for them: those beyond are told.
test_all_processes_of_others_together() {
	for _ in 1 2 3; do
		start_hostile hostile_block dense
	done
	ends_soon "$TOOL" list --kept
	matches "$(<"$TMP/err")" 'the memory of its counters is too large to be read unless the process is named'
}

run_tests "$@"
