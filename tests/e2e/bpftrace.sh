#!/usr/bin/env bash
# bpftrace and the tool on the same probe, in either order: both count every hit.
#
# needs: fixtures ocaml/counted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

start() {
	need_counting
	need_command bpftrace bpftool
	start_target "$(own_copy "$O/tests/ocaml/counted")" 50000 2
	await_line ready
}

# bpftrace counts PROBE, which has one site; return when its program is there.
start_bpftrace() { # PROBE
	background bpftrace --unsafe -p "$TARGET" -e "$1 { @ = count(); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 1' 30
	kill -0 "$BPFTRACE" || fail "$(<"$TMP/bpftrace")"
}

# Both count the whole run.
check_both() {
	tell go
	await_line '# in_loop was seen.*' 60
	end_bpftrace
	tell quit
	wait "$COUNTING"
	finish_target
	eq "$TARGET_STATUS" 0 "status"
	eq "$(sed -n 's/^@: //p' "$TMP/bpftrace")" "$(expected_hits | sed -n 's/^in_loop //p')" "bpftrace's count"
	eq "$(totals)" "$(expected_hits)" "our counts"
}

usdt() {
	echo "usdt:$TMP/counted:ocaml_1:in_loop"
}

test_usdt_after_us() {
	start
	start_counting "$TARGET" --json
	start_bpftrace "$(usdt)"
	check_both
}

test_usdt_before_us() {
	start
	start_bpftrace "$(usdt)"
	start_counting "$TARGET" --json
	check_both
	eq "$(grep -c warning "$TMP/counting.err" || :)" 0 "warnings: usdt and we agree about the semaphore"
}

# bpftrace's uprobe: leaves the semaphore out; the kernel allows either on one site. We go without,
# there and only there, and say so. Debian's bpftrace takes an address that belongs to no symbol only,
# and then as a file offset, which this program's code has in common with its addresses.
test_uprobe_before_us() {
	local program site
	need_counting
	need_command bpftrace bpftool
	program=$(own_copy "$O/tests/fixtures/v1-stripped")
	site=$("$O/tests/fixtures/v1" --expect | sed -n 's/^site \(.*\) semaphore .* name plain .*/\1/p')
	start_target "$program" --wait --threads 2
	await_line ready
	start_bpftrace "uprobe:$program:$((site))"
	start_counting "$TARGET" --json
	tell 'go 50000'
	await_line 'done' 60
	end_bpftrace
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(sed -n 's/^@: //p' "$TMP/bpftrace")" 100000 "bpftrace's count"
	eq "$(totals)" "$(fixture_hits v1 100000)" "our counts"
	matches "$(<"$TMP/counting.err")" "warning: .*: 1 of [0-9]+ sites .*without raising"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

test_lists_our_probes() {
	need_command bpftrace
	eq "$(bpftrace -l "usdt:$O/tests/ocaml/counted:*" | sed 's/.*:ocaml_1://' | LC_ALL=C sort -u)" \
		"$("$TOOL" list -prog "$O/tests/ocaml/counted")"
}

run_tests "$@"
