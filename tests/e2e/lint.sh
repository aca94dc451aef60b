#!/usr/bin/env bash
# The C is formatted, and the linters have no complaint.
. "$(dirname "$0")/lib.sh"

test_lint() {
	need_command git clang-format clang-tidy cppcheck
	cd "$ROOT"
	git rev-parse --git-dir >/dev/null 2>&1 || skip "not a git clone"
	make --no-print-directory O="$O" lint
}

# On what the others leave of the processors.
TEST_TIMEOUT=1700
run_tests "$@"
