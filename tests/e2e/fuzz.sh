#!/usr/bin/env bash
# Short runs of the fuzzers, a minute in all; `make fuzz` is the long one.
. "$(dirname "$0")/lib.sh"

# For so many seconds; and on, where that was too short a time for so many runs.
fuzz() { # FUZZER SECONDS LEAST-RUNS
	local runs=0
	[[ -x $O/tests/fuzz/$1 ]] || skip "not built: clang lacks its fuzzer library"
	while [[ $runs -le $3 ]]; do
		"$ROOT/tests/fuzz/run" "$O" "$1" "$2" >"$TMP/log" 2>&1 || fail "$(grep -v NEW_FUNC "$TMP/log")"
		runs=$((runs + $(sed -n 's/^stat::number_of_executed_units: *//p' "$TMP/log")))
	done
}

test_fuzz_the_elf_reader() {
	fuzz fuzz_program 10 5000
}

test_fuzz_the_readers_of_proc() {
	fuzz fuzz_proc 5 20000
}

test_fuzz_the_post_linker() {
	fuzz fuzz_link 10 5000
}

test_fuzz_the_readers_of_arguments() {
	fuzz fuzz_args 10 20000
}

test_fuzz_the_code_of_functions() {
	fuzz fuzz_code 5 10000
}

test_fuzz_regular_expressions() {
	fuzz fuzz_regexp 5 20000
}

test_fuzz_the_server() {
	fuzz fuzz_serve 10 5000
}

test_fuzz_what_is_said_of_kept_meters() {
	fuzz fuzz_pin_meta 10 20000
}

test_fuzz_what_is_left_inside_of_a_process() {
	fuzz fuzz_inside_meta 5 10000
}

run_tests "$@"
