#!/usr/bin/env bash
# int3s that no uprobe has: the kernel leaves them if a tool is killed while it removes uprobes. The tools of this
# project do not (src/kernel/link_close.c); `doctor` names and removes those of other tools. Here the tests write the
# int3s; those of the kernel are in kernel_leaks.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/leaks_lib.sh"

# The kill comes when the kernel has removed the first of 10 000 uprobes.
test_a_kill_while_uprobes_are_removed() {
	need_counting
	local i
	start_many
	for i in {1..5}; do
		start_counting "$TARGET"
		eq "$(int3_count "$TARGET")" $MANY "uprobes"
		kill -INT "$COUNTING"
		until [[ $(read_bytes "$TARGET" "$FIRST" 1) != ' cc' ]]; do :; done
		kill -KILL "$COUNTING" 2>/dev/null || :
		wait "$COUNTING" || :
		wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
	done
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
}

# Write int3s at the sites of these lines, and at each ADDRESS: the kernel removes them as it does its own.
write_int3s() { # LINES [ADDRESS...]
	local address offset
	{
		sed -n "$1p" "$TMP/sites" | while read -r offset _; do
			echo "$((TEXT_BIAS + 0x$offset)) 0xcc"
		done
		for address in "${@:2}"; do echo "$address 0xcc"; done
	} | "$O/tests/fixtures/binaries/memory" "$TARGET" write
}

test_doctor_removes_leaks() { among_our_own doctor_removes_leaks; }

# What the kernel leaves: an int3 at each site, and one more in the semaphore of each of its sites.
doctor_removes_leaks() { doctor_removes write_leaks; }

write_leaks() { # LINES [without]
	LEAKED=$(sed -n "$1p" "$TMP/sites" | wc -l)
	write_int3s "$1"
	[[ -z ${2:-} ]] || return 0
	sed -n "$1p" "$TMP/sites" | python3 -c '
import collections, sys
raised = collections.Counter(int(line.split()[1], 16) + int(sys.argv[1]) for line in sys.stdin)
for address, value in raised.items():
    print(address, value & 0xff)
    print(address + 1, value >> 8)
' "$DATA_BIAS" | "$O/tests/fixtures/binaries/memory" "$TARGET" write
}

# Where main begins, which the program does not pass again.
main_of() {
	echo $((TEXT_BIAS + 0x$(nm "$TMP/many" | sed -n 's/ T main$//p')))
}

# What a link holds stays, and is not called a leak. A function is no other place than a site.
test_doctor_keeps_what_is_held() { among_our_own doctor_keeps_what_is_held; }

doctor_keeps_what_is_held() {
	local main before
	start_many
	main=$(main_of)
	before=$(read_bytes "$TARGET" "$main" 8)
	# Its ten sites come first.
	background "$TOOL" attach --budget none -pid "$TARGET" --count=library_module_function_0 >"$TMP/counts" 2>&1
	COUNTING=$!
	wait_for 'has_text "$TMP/counts" "counting 1 probe"'
	write_int3s 11,30 "$main"
	doctor 1
	eq "$(<"$TMP/doctor")" "note: uprobes or breakpoints are on 10 sites, which is no disagreement: pid $COUNTING (ocaml-probes) has 10
21 int3s in the code of $TMP/many, 20 at sites of probes, belong to no link of a uprobe ($LEFT_OVER)"
	doctor 0 --fix
	eq "$(tail -n 1 "$TMP/doctor")" "fixed: 21 int3s removed that a killed tool had left"
	eq "$(int3_count "$TARGET")" 10 "int3s of the tool that counts"
	eq "$(read_bytes "$TARGET" "$main" 8)" "$before" "main"
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
}

# Breakpoints of a debugger look the same, and are not removed.
test_doctor_keeps_breakpoints() { among_our_own doctor_keeps_breakpoints; }

doctor_keeps_breakpoints() {
	need_command gdb
	local main
	start_many
	main=$(main_of)
	gdb -q -nx -batch -p "$TARGET" -ex "break *$main" -ex 'continue' >"$TMP/gdb" 2>&1 &
	wait_for '[[ $(read_bytes "$TARGET" "'"$main"'" 1) = " cc" ]]'
	doctor 0
	matches "$(<"$TMP/doctor")" '^note: [0-9]+ int3s? in the code of [^ ]+( and of other files)?, 0 at sites of probes, belongs? to no link of a uprobe \(left by a killed tool, or of: pid [0-9]+ \(gdb\); --fix removes those that nobody holds\)$'
	doctor 0 --fix
	matches "$(tail -n 1 "$TMP/doctor")" "^left: [0-9]+ int3s?: process $TARGET: it is being traced by pid [0-9]+, whose breakpoints are int3s, too$"
	eq "$(read_bytes "$TARGET" "$main" 1)" ' cc' "the breakpoint"
	kill %?gdb
}

test_doctor_and_events_of_tracefs() { among_our_own doctor_and_events_of_tracefs; }

# An event of tracefs shows no process that holds it. It may hold an int3 at its own offset, and no other.
doctor_and_events_of_tracefs() {
	local offsets
	[[ -e /sys/kernel/tracing/uprobe_events ]] || mount -t tracefs none /sys/kernel/tracing
	start_many
	mapfile -t offsets < <(cut -d' ' -f1 "$TMP/sites")
	write_int3s 1,3
	trap remove_event EXIT
	add_event "${offsets[3]}"
	doctor 1
	eq "$(<"$TMP/doctor")" "3 int3s in the code of $TMP/many, 3 at sites of probes, belong to no link of a uprobe ($LEFT_OVER)"
	remove_event
	add_event "${offsets[2]} a=%ax"
	doctor 0
	eq "$(tail -n 1 "$TMP/doctor")" "note: 3 int3s in the code of $TMP/many, 3 at sites of probes, belong to no link of a uprobe \
(left by a killed tool, or of: events of tracefs (uprobe_events); --fix removes those that nobody holds)"
	doctor 0 --fix
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
}

# The events of tracefs are those of the machine: the name is of this test.
add_event() { # OFFSET [ARGUMENT]
	EVENT=ocaml_probes/at_$(stat -c %i "$TMP")
	echo "p:$EVENT $TMP/many:0x$1" >>/sys/kernel/tracing/uprobe_events
}

remove_event() { echo "-:$EVENT" >>/sys/kernel/tracing/uprobe_events; }

test_doctor_without_capabilities() { among_our_own doctor_without_capabilities; }

# The doctor says what it lacks, and does not assert what it cannot know.
doctor_without_capabilities() {
	need_counting
	need_command setpriv
	WRAPPER=(setpriv --bounding-set=-all --inh-caps=-all)
	start_many
	TOOL=$TMP/doctor_without
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${WRAPPER[*]}" "$O/ocaml-probes" >"$TOOL"
	chmod +x "$TOOL"
	write_int3s 1,3
	doctor 0
	matches "$(tail -n 1 "$TMP/doctor")" '^note: 3 int3s in the code of [^ ]*/many, .* \(left by a killed tool, or of: .*links that only CAP_SYS_ADMIN can list.*; --fix removes those that nobody holds\)$'
	doctor 0 --fix
	eq "$(tail -n 1 "$TMP/doctor")" "left: 3 int3s: measuring: ocaml-probes lacks CAP_BPF and CAP_PERFMON"
	TOOL=$O/ocaml-probes
	doctor 0 --fix --json
	python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["unheld"]["int3s"] == report["fixed"]["int3s"] == 3, report
assert report["unheld"]["file"] == sys.argv[2] and report["left_unheld"]["file"] is None, report
assert report["left_unheld"]["int3s"] == 0, report
' "$TMP/doctor" "$TMP/many"
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
}

run_tests "$@"
