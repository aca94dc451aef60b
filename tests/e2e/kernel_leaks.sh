#!/usr/bin/env bash
# int3s that the kernel itself leaves. Not in `make check`: the kernel keeps a record of each leaked uprobe, and the record names
# the file by the address of its inode, without a reference. When the file is gone, another file can get this
# address, and the kernel finds the record for its uprobes: it refuses them, or writes the wrong bytes back.
# long: kills
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/leaks_lib.sh"

# Leave int3s at the sites of the lines LINES of $TMP/sites, with or without raised semaphores. Sets LEAKED to
# their number.
leak() { # LINES [without]
	sed -n "$1p" "$TMP/sites" | if [[ ${2:-} ]]; then sed 's/ .*/ 0/'; else cat; fi >"$TMP/leak"
	"$O/tests/fixtures/binaries/leak_uprobes" "$TARGET" "$TMP/many" "$TEXT_BIAS" <"$TMP/leak" >"$TMP/leaked"
	LEAKED=$(cut -d' ' -f2 "$TMP/leaked")
	[[ $LEAKED -gt 0 ]]
}

# A process outlives the test, and holds the file for as long as the records exist: until the machine restarts.
test_doctor_removes_leaks() {
	build_many
	env -i setsid sleep infinity <"$TMP/many" >/dev/null 2>&1 &
	among_our_own doctor_removes_leaks
}

doctor_removes_leaks() { doctor_removes leak; }

run_tests "$@"
