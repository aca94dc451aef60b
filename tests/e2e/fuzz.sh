#!/usr/bin/env bash
# The fuzzers on their seeds and a number of mutations, which are the same in each run; `make fuzz` looks for others.
#
# takes: 10
. "$(dirname "$0")/lib.sh"

fuzz() { # FUZZER RUNS
	[[ -x $O/asan/tests/fuzz/$1 ]] || fail "make check has not built $O/asan yet"
	"$ROOT/tests/fuzz/run" "$O" "$1" "--runs=$2" >"$TMP/log" 2>&1 || fail "$(grep -v NEW_FUNC "$TMP/log")"
	eq "$(sed -n 's/^stat::number_of_executed_units: *//p' "$TMP/log")" "$2"
}

test_fuzz_the_elf_reader() {
	fuzz fuzz_program 3000
}

test_fuzz_the_readers_of_proc() {
	fuzz fuzz_proc 20000
}

test_fuzz_the_post_linker() {
	fuzz fuzz_link 3000
}

test_fuzz_the_readers_of_arguments() {
	fuzz fuzz_args 20000
}

test_fuzz_the_code_of_functions() {
	fuzz fuzz_code 5000
}

test_fuzz_regular_expressions() {
	fuzz fuzz_regexp 10000
}

test_fuzz_the_names_of_functions() {
	fuzz fuzz_names 50000
}

test_fuzz_the_server() {
	fuzz fuzz_serve 5000
}

test_fuzz_what_is_said_of_kept_meters() {
	fuzz fuzz_pin_meta 10000
}

test_fuzz_what_is_left_inside_of_a_process() {
	fuzz fuzz_inside_meta 10000
}

test_fuzz_blocks_that_change() {
	fuzz fuzz_block 20000
}

run_tests "$@"
