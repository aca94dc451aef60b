#!/usr/bin/env bash
# int3s that no uprobe has: the kernel leaves them if a tool is killed while it removes uprobes. The tools of this
# project do not (src/measure/engine/link_close.c); `doctor` names and removes those of other tools.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

MANY=10000
WRAPPER=()

# A program with 10 000 sites that it never passes. $TMP/sites has the places of its sites as leak_uprobes wants
# them. TEXT_BIAS and DATA_BIAS are the differences of addresses and offsets in the file.
start_many() {
	gcc -std=gnu11 -D_GNU_SOURCE -O2 -pthread -fPIE -pie -fvisibility=hidden -DSITES=$MANY -DNAMES=1000 \
		-o "$TMP/many" "$ROOT/tools/bench/sites.S" "$ROOT/tools/bench/toggle_target.c"
	start_target "${WRAPPER[@]}" "$TMP/many"
	await_exe "$TMP/many"
	wait_for '[[ $("$TOOL" info -pid "$TARGET" | wc -l) -eq 1000 ]]'
	TEXT_BIAS=$(difference r-xp)
	DATA_BIAS=$(difference rw-p)
	"$TOOL" info -pid "$TARGET" --sites --json | python3 -c '
import json, sys
text, data = (int(arg, 0) for arg in sys.argv[1:])
for site in json.load(sys.stdin)["sites"]:
    print("%x %x" % (int(site["address"], 0) - text, int(site["tracer_semaphore_address"], 0) - data))
' "$TEXT_BIAS" "$DATA_BIAS" >"$TMP/sites"
	eq "$(wc -l <"$TMP/sites")" $MANY "sites"
	FIRST=$((TEXT_BIAS + 0x$(head -n 1 "$TMP/sites" | cut -d' ' -f1)))
	BEFORE=$(memory_of "$TARGET")
}

# Address minus offset in the first mapping of $TMP/many with PROTECTION.
difference() { # PROTECTION
	local range protection offset rest
	while read -r range protection offset rest; do
		[[ $protection = "$1" && $rest = *"$TMP/many" ]] || continue
		printf '%d\n' $((0x${range%-*} - 0x$offset))
		return
	done <"/proc/$TARGET/maps"
	return 1
}

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

# Leave int3s at the sites of the lines LINES of $TMP/sites, with or without raised semaphores. Sets LEAKED to
# their number.
leak() { # LINES [without]
	sed -n "$1p" "$TMP/sites" | if [[ ${2:-} ]]; then sed 's/ .*/ 0/'; else cat; fi >"$TMP/leak"
	"$O/tests/fixtures/binaries/leak_uprobes" "$TARGET" "$TMP/many" "$TEXT_BIAS" <"$TMP/leak" >"$TMP/leaked"
	LEAKED=$(cut -d' ' -f2 "$TMP/leaked")
	[[ $LEAKED -gt 0 ]]
}

# Run the doctor; its status must be STATUS. What it prints goes to $TMP/doctor.
doctor() { # STATUS [FLAG...]
	local status=0 want=$1
	shift
	"$TOOL" doctor -pid "$TARGET" "$@" >"$TMP/doctor" 2>"$TMP/doctor.err" || status=$?
	eq "$status" "$want" "status of doctor $*: $(cat "$TMP/doctor" "$TMP/doctor.err")"
}

# Run a function of this script among processes of our own: the perf events of others are not seen.
among_our_own() { # FUNCTION
	need_counting
	need_command unshare
	unshare --pid --fork --mount-proc --kill-child bash "$0" --one "$1"
}

LEFT_OVER='left by a killed tool, through a defect of the kernel; each hit is a trap'

test_doctor_removes_leaks() { among_our_own doctor_removes_leaks; }

doctor_removes_leaks() {
	local kind
	start_many
	doctor 0
	eq "$(cat "$TMP/doctor")" "" "before"
	# Each half has a kind of its own: the kernel remembers it for each place.
	for kind in '1,5000' '5001,$ without'; do
		# shellcheck disable=SC2086 # two words
		leak $kind
		doctor 1
		eq "$(cat "$TMP/doctor")" "$LEAKED int3s in the code, $LEAKED at sites of probes, belong to no link of a uprobe ($LEFT_OVER)" "$kind"
		eq "$(int3_count "$TARGET")" "$LEAKED" "looking changed them"
		doctor 0 --fix
		eq "$(tail -n 1 "$TMP/doctor")" "fixed: $LEAKED int3s removed that a killed tool had left" "$kind"
		eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores, $kind"
		doctor 0
		eq "$(cat "$TMP/doctor")" "" "after --fix"
	done
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
	wait_for 'grep -q "counting 1 probe" "$TMP/counts"'
	write_int3s 11,30 "$main"
	doctor 1
	eq "$(cat "$TMP/doctor")" "note: uprobes or breakpoints are on 10 sites, which is no disagreement: pid $COUNTING (ocaml-probes) has 10
21 int3s in the code, 20 at sites of probes, belong to no link of a uprobe ($LEFT_OVER)"
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
	matches "$(cat "$TMP/doctor")" '^note: [0-9]+ int3s? in the code, 0 at sites of probes, belongs? to no link of a uprobe \(left by a killed tool, or of: pid [0-9]+ \(gdb\); --fix removes what nobody holds\)$'
	doctor 0 --fix
	matches "$(tail -n 1 "$TMP/doctor")" "^left: [0-9]+ int3s?: process $TARGET: it is being traced by pid [0-9]+, whose breakpoints are int3s, too$"
	eq "$(read_bytes "$TARGET" "$main" 1)" ' cc' "the breakpoint"
	kill %?gdb
}

# The doctor says what it lacks, and does not assert what it cannot know.
test_doctor_without_capabilities() {
	need_counting
	need_command setpriv
	WRAPPER=(setpriv --bounding-set=-all --inh-caps=-all)
	start_many
	TOOL=$TMP/doctor_without
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${WRAPPER[*]}" "$O/ocaml-probes" >"$TOOL"
	chmod +x "$TOOL"
	write_int3s 1,3
	doctor 0
	matches "$(tail -n 1 "$TMP/doctor")" '^note: 3 int3s in the code, .* \(left by a killed tool, or of: .*links that only CAP_SYS_ADMIN can list.*; --fix removes what nobody holds\)$'
	doctor 0 --fix
	eq "$(tail -n 1 "$TMP/doctor")" "left: 3 int3s: measuring: ocaml-probes lacks CAP_BPF and CAP_PERFMON"
	TOOL=$O/ocaml-probes
	doctor 0 --fix --json
	python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["unheld"]["int3s"] == report["fixed"]["int3s"] == 3, report
assert report["left_unheld"]["int3s"] == 0, report
' "$TMP/doctor"
	eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores"
}

run_tests "$@"
