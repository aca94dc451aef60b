#!/usr/bin/env bash
# The C is formatted, and the linters have no complaint.
. "$(dirname "$0")/lib.sh"

test_lint() {
	need_command git clang-format clang-tidy cppcheck shellcheck mandoc
	cd "$ROOT"
	git rev-parse --git-dir >/dev/null 2>&1 || skip "not a git clone"
	make --no-print-directory O="$O" lint TIDY=shallow
}

test_order_of_folders() {
	"$ROOT/tests/folders" >"$TMP/out" || fail "$(cat "$TMP/out")"

	# Each rule is seen to hold.
	mkdir "$TMP/root"
	cp -r "$ROOT/src" "$TMP/root"
	echo '#include "measure/meter.h"' >>"$TMP/root/src/elf/lines.c"
	echo '#include "cli/cli.h"' >>"$TMP/root/src/watch/target.c"
	mkdir "$TMP/root/src/extra"
	touch "$TMP/root/src/extra/more.c"
	! "$ROOT/tests/folders" "$TMP/root" >"$TMP/out" || fail "a file includes one above it"
	matches "$(cat "$TMP/out")" '/elf/lines.c:[0-9]+: elf is not above measure'
	matches "$(cat "$TMP/out")" '/watch/target.c:[0-9]+: watch is not above cli'
	matches "$(cat "$TMP/out")" "folder 'extra' has no row"
}

# On what the others leave of the processors.
TEST_TIMEOUT=3000
run_tests "$@"
