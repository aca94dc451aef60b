#!/usr/bin/env bash
# The C is formatted, and the linters have no complaint.
. "$(dirname "$0")/lib.sh"

test_lint() {
	need_command git clang-format clang-tidy cppcheck
	cd "$ROOT"
	git rev-parse --git-dir >/dev/null 2>&1 || skip "not a git clone"
	# The analyser is three times as fast if it gives up on a function after a third of the paths that
	# it follows by default, and make check has ten minutes. `make lint` follows them all.
	make --no-print-directory O="$O" lint \
		TIDY_FLAGS="$(printf -- '--extra-arg=%s ' -Xclang -analyzer-config -Xclang max-nodes=75000)"
}

TEST_TIMEOUT=600
run_tests "$@"
