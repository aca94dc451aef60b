#!/usr/bin/env bash
# A short run of the fuzzer; `make fuzz` is the long one.
. "$(dirname "$0")/lib.sh"

test_fuzz_the_elf_reader() {
	[[ -x $O/tests/fuzz/fuzz_program ]] || skip "not built: clang lacks its fuzzer library"
	"$ROOT/tests/fuzz/run" "$O" 20 >"$TMP/log" 2>&1 || fail "$(cat "$TMP/log")"
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$TMP/log")
	[[ $runs -gt 5000 ]] || fail "only ${runs:-no} runs: $(cat "$TMP/log")"
}

run_tests "$@"
