#!/usr/bin/env bash
# Short runs of the fuzzers; `make fuzz` is the long one.
. "$(dirname "$0")/lib.sh"

fuzz() { # FUZZER SECONDS LEAST-RUNS
	local runs
	[[ -x $O/tests/fuzz/$1 ]] || skip "not built: clang lacks its fuzzer library"
	"$ROOT/tests/fuzz/run" "$O" "$1" "$2" >"$TMP/log" 2>&1 || fail "$(cat "$TMP/log")"
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$TMP/log")
	[[ $runs -gt $3 ]] || fail "only ${runs:-no} runs: $(cat "$TMP/log")"
}

test_fuzz_the_elf_reader() {
	fuzz fuzz_program 30 5000
}

test_fuzz_the_readers_of_proc() {
	fuzz fuzz_proc 15 20000
}

test_fuzz_the_post_linker() {
	fuzz fuzz_link 15 5000
}

test_fuzz_the_readers_of_arguments() {
	fuzz fuzz_args 15 20000
}

run_tests "$@"
