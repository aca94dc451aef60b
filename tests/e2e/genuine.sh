#!/usr/bin/env bash
# Executables of the forked compilers, imitated by tests/fixtures/binaries/genuine.S: arguments that
# their notes place wrongly, and semaphores that a linker has dropped.
#
# needs: fixtures
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

BINARIES=$O/tests/fixtures/binaries

start_genuine() { # PROGRAM
	start_target "$(own_copy "$1")"
	await_line ready
}

# Run ROUNDS and wait for the program's report.
go() { # ROUNDS
	forget_output
	tell "go $1"
	await_line end
}

# "NAME VALUE..." lines: what the handlers wrote down, and what was printed, of the last round.
handlers_got() { # NAME...
	local name
	for name; do
		sed -n "s/^\($name\) hits=[0-9]* runs=[1-9][0-9]*/\1/p" "$(output_of)"
	done
}

printed() { # NAME...
	local name
	for name; do
		sed -nE "s/^[0-9.]+ [0-9]+\/[0-9]+ [^ ]+ ($name( |$))/\1/p" "$TMP/counts" | tail -n 1
	done
}

# ---- arguments on the stack ---------------------------------------------------------------------

PROVED=(by_8 by_24 top fourteen sixteen framed plain)

# By 8 and by 24 too high, the first word of the frame, mixed with registers, up to 16 of them.
test_arguments_are_those_of_the_handler() {
	local program
	for program in genuine genuine_v0 genuine_dot; do
		start_genuine "$BINARIES/$program"
		start_measuring --print "$(IFS=,; echo "${PROVED[*]}")" --limit 0 -enable-all --for 1h
		go 2
		stop_measuring
		eq "$(grep -c . <<<"$(handlers_got "${PROVED[@]}")")" 7 "$program: handlers that ran"
		eq "$(printed "${PROVED[@]}")" "$(handlers_got "${PROVED[@]}")" "$program: arguments"
		eq "$(grep -c '?' "$TMP/counting.err" || :)" 0 "$program: warnings: $(<"$TMP/counting.err")"
		kill "$TARGET"
	done
}

test_what_is_not_proved_is_not_printed() {
	start_genuine "$BINARIES/genuine"
	start_measuring --print unclear,crossed --limit 0 -enable-all --for 1h
	go 2
	stop_measuring
	eq "$(handlers_got unclear crossed)" "unclear 1002 2 1005
crossed 1002 2 5"
	eq "$(printed unclear crossed)" "unclear ? 2 ?
crossed ? 2 ?"
	eq "$(sed -n "s/.*warning: \(probe '.*': ? is an argument .* not known\).*: /\1: /p" "$TMP/counting.err" | sort)" \
		"probe 'crossed': ? is an argument whose place is not known: the probe's note and its wrapper disagree
probe 'unclear': ? is an argument whose place is not known: the wrapper has unknown code" \
		"$(<"$TMP/counting.err")"
}

test_filters_and_histograms_read_the_same() {
	local program
	for program in genuine genuine_v0; do
		start_genuine "$BINARIES/$program"
		start_measuring --count=by_8,by_24 --filter 'arg0 == 1002 && arg2 == 1005' --hist arg2 --json
		go 3
		stop_measuring
		eq "$(totals)" "by_24 3
by_8 3" "$program: hits"
		eq "$(tail -n 1 "$TMP/counts" | grep -o '"sum":[0-9]*,' | xargs)" "sum:3015, sum:3015,"
		start_measuring --time by_8,by_24 --key arg0 --json
		go 3
		stop_measuring
		tail -n 1 "$TMP/counts" | grep -q '"count":3,' || fail "$program: pairs: $(<"$TMP/counts")"
		kill "$TARGET"
	done
}

test_what_is_not_proved_is_refused() {
	local t
	need_counting
	start_genuine "$BINARIES/genuine"
	t="attach -pid $TARGET"
	check_error 2 "'unclear': the place of arg0, for the filter, is not known in .*: the wrapper has unknown code" \
		$t --count=unclear --filter 'arg0 == 1'
	check_error 2 "'crossed': the place of arg2, for the histogram, is not known in .*: .* note and its wrapper disagree" \
		$t --count=crossed --hist arg2
	check_error 2 "'crossed': the place of arg0, for the key, is not known" \
		$t --time by_8,crossed --key arg0
	# Its other argument is known.
	start_measuring --count=unclear --filter 'arg1 == 2' --json
	go 2
	stop_measuring
	eq "$(totals)" "unclear 2"
}

test_sites_say_where_and_why() {
	start_genuine "$BINARIES/genuine"
	"$TOOL" info -pid "$TARGET" --sites --json >"$TMP/json"
	python3 - "$TMP/json" >"$TMP/found" <<'PY'
import json, sys
for s in json.load(open(sys.argv[1]))["sites"]:
    print(s["probe"], s["args"], "/", s["args_fault"])
PY
	eq "$(grep -E '^(by_|framed|crossed|unclear)' "$TMP/found")" \
		"by_24 8@16(%rsp) 8@%rbx 8@40(%rsp) / None
by_8 8@16(%rsp) 8@%rbx 8@40(%rsp) / None
crossed 8@? 8@%rbx 8@? / the probe's note and its wrapper disagree
framed 8@%rdx 8@88(%rsp) 8@%r10 8@96(%rsp) / None
unclear 8@? 8@%rbx 8@? / the wrapper has unknown code"
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table" 2>"$TMP/err"
	grep -Eq '^unclear .* 8@\? 8@%rbx 8@\? ' "$TMP/table" || fail "$(<"$TMP/table")"
	eq "$(<"$TMP/err")" \
		"ocaml-probes: probe 'crossed': ? is an argument whose place is not known: the probe's note and its wrapper disagree
ocaml-probes: probe 'unclear': ? is an argument whose place is not known: the wrapper has unknown code"
	eq "$("$TOOL" info -pid "$TARGET" --sites -quiet 2>&1 >/dev/null)" "" "with -quiet"
}

# Wrappers outside of the code, without end, in a circle, cut off.
test_hostile_wrappers() {
	local name
	start_genuine "$BINARIES/genuine_loose"
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table" 2>"$TMP/err"
	for name in outside nowhere endless circular cut; do
		grep -Eq "^$name .* 8@\? 8@%rbx " "$TMP/table" || fail "$name: $(<"$TMP/table")"
	done
	# The other probes are not affected.
	grep -Eq '^by_8 .* 8@16\(%rsp\) 8@%rbx 8@40\(%rsp\) ' "$TMP/table" || fail "$(<"$TMP/table")"
	"$TOOL" attach -pid "$TARGET" -enable by_8
	go 1
	eq "$(handlers_got by_8)" "by_8 1002 2 1005"
}

test_bpftrace_reads_the_same() {
	local program
	"$TOOL" bpftrace -prog "$BINARIES/genuine" args by_8,unclear >"$TMP/out"
	# shellcheck disable=SC2016 # bpftrace's variables
	grep -qF '$a0 = (uint64)*(uint64 *)(reg("sp") + 16);' "$TMP/out" || fail "$(<"$TMP/out")"
	# shellcheck disable=SC2016
	grep -qF '$a1 = (uint64)arg1;' "$TMP/out" || fail "$(<"$TMP/out")"
	eq "$(grep '^# unclear' "$TMP/out")" \
		"# unclear: arg0 is left out where its place is not known: the wrapper has unknown code.
# unclear: arg2 is left out where its place is not known: the wrapper has unknown code."
	for program in genuine genuine_v0; do
		"$TOOL" bpftrace -prog "$BINARIES/$program" args unclear >"$TMP/out"
		# shellcheck disable=SC2016
		eq "$(grep -o '\$a[0-9]* = ' "$TMP/out" | sort -u | xargs)" '$a1 =' "$program: arguments of unclear"
	done
}

# ---- uses without a site ------------------------------------------------------------------------

# Of `both` and `started_on` one use each has a site, and one asks the semaphore.
HALF="probe 'both': 1 of its 2 uses have no site; probe 'started_on': 1 of its 2 uses have no site; \
their hits are not counted"

start_v2() {
	start_target "$(own_copy "$O/tests/fixtures/v2")" --wait
	await_line ready
}

test_uses_without_site_are_told_when_counting() {
	start_v2
	start_measuring --count --json --interval 200ms
	tell 'go 100'
	await_line 'done'
	stop_measuring
	eq "$(totals | grep both)" "both 100" "hits of one of two"
	eq "$(grep -c "warning: $HALF\$" "$TMP/counting.err")" 1 "$(<"$TMP/counting.err")"
	tail -n 1 "$TMP/counts" | grep -qF '"uses_without_site":[{"name":"both","uses":2,"without_site":1},' ||
		fail "$(tail -n 1 "$TMP/counts")"
	# Only of what is measured.
	start_measuring --count=with_site --json
	stop_measuring
	eq "$(grep -c 'no site' "$TMP/counting.err" || :)" 0 "$(<"$TMP/counting.err")"
	tail -n 1 "$TMP/counts" | grep -qF '"uses_without_site":[],' || fail "$(tail -n 1 "$TMP/counts")"
}

test_uses_without_site_are_told_when_timing() {
	start_v2
	start_measuring --time with_site,both
	stop_measuring
	eq "$(grep -c "warning: probe 'both': 1 of its 2 uses have no site; their hits are not counted\$" \
		"$TMP/counting.err")" 1 "$(<"$TMP/counting.err")"
}

test_uses_without_site_are_told_by_bpftrace() {
	"$TOOL" bpftrace -prog "$O/tests/fixtures/v2" count both >"$TMP/out"
	holds grep -qx "# 'both': 1 of its 2 uses have no site; they are not traced." "$TMP/out" ||
		fail "$(<"$TMP/out")"
}

# ---- semaphores that the linker has dropped -----------------------------------------------------

# Imitations of such programs; and the same made by those linkers that are here.
lost_programs() {
	local linker
	printf '%s\n' "$BINARIES/genuine_lost" "$BINARIES/genuine_lost_v0"
	for linker in gold lld; do
		type -P "ld.$linker" >/dev/null || continue
		[[ -e $TMP/by_$linker ]] ||
			gcc -O2 -fPIE -pie -fuse-ld="$linker" -Wl,--gc-sections -o "$TMP/by_$linker" \
				"$ROOT/tests/fixtures/binaries/genuine.S" "$ROOT/tests/fixtures/binaries/genuine.c"
		printf '%s\n' "$TMP/by_$linker"
	done
}

states() {
	"$TOOL" info -pid "$TARGET" | cut -d' ' -f2 | sort -u | xargs
}

runs_of() { # NAME
	sed -n "s/^$1 .*runs=\([0-9]*\).*/\1/p" "$(output_of)"
}

test_lost_semaphores_are_done_without() {
	local program
	for program in $(lost_programs); do
		start_genuine "$program"
		eq "$("$TOOL" list -prog "$program" | wc -l)" 10 "$program: probes"
		eq "$(states)" disabled "$program: at first"
		"$TOOL" attach -pid "$TARGET" -enable-all 2>"$TMP/said"
		eq "$(states)" enabled "$program: when on"
		go 2
		eq "$(runs_of twice) $(runs_of by_8)" "4 2" "$program: runs"
		# There is nothing to count in: twice on is on.
		"$TOOL" attach -pid "$TARGET" -enable by_8
		"$TOOL" attach -pid "$TARGET" -disable by_8
		go 1
		eq "$(runs_of twice) $(runs_of by_8)" "6 2" "$program: runs after one disable"
		check_error 1 "'by_8': is disabled already" attach -pid "$TARGET" -disable by_8,twice
		"$TOOL" attach -pid "$TARGET" -force -disable by_8
		"$TOOL" attach -pid "$TARGET" -disable-all
		eq "$(states)" disabled "$program: in the end"
		go 1
		eq "$(runs_of twice)" 6 "$program: runs when off"
		eq "$(<"$TMP/said")" "" "$program: said"
		kill "$TARGET"
	done
}

test_lost_semaphores_are_told() {
	local program
	for program in $(lost_programs); do
		start_genuine "$program"
		"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
		eq "$(awk 'NR > 1 { print $8, $9 }' "$TMP/table" | sort -u)" "- -" "$program: semaphores"
		"$TOOL" info -pid "$TARGET" --sites --json >"$TMP/json"
		eq "$(grep -o '"[a-z_]*semaphore[a-z_]*":[^,]*' "$TMP/json" | sort -u | xargs)" \
			"semaphore:null semaphore_address:null tracer_semaphore:null tracer_semaphore_address:null"
		"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/doctor"
		eq "$(cut -d'(' -f1 "$TMP/doctor")" \
			"note: by_24: it and 9 other probes have no semaphore " "$program: doctor"
		"$TOOL" doctor -pid "$TARGET" --json >"$TMP/doctor"
		grep -q '"kind":"no-semaphore","probe":"by_24","disagreement":false,"repairable":false,' \
			"$TMP/doctor" || fail "$(<"$TMP/doctor")"
		kill "$TARGET"
	done
}

test_lost_semaphores_and_counting() {
	local program
	for program in $(lost_programs); do
		start_genuine "$program"
		start_measuring --count --json
		go 300
		stop_measuring
		eq "$(totals | sort -u -k2)" "by_24 300
twice 600" "$program: hits"
		eq "$(totals | wc -l)" 10 "$program: probes"
		kill "$TARGET"
	done
}

test_lost_semaphores_and_trace() {
	local program
	for program in $(lost_programs); do
		"$TOOL" trace -prog "$program" -enable twice,top >"$TMP/out" <<<'go 3'
		wait_for 'grep -qx end "$TMP/out"'
		eq "$(grep -E '^(twice|top|by_8) ' "$TMP/out")" "by_8 hits=3 runs=0 0 0 0
top hits=3 runs=3 1000
twice hits=6 runs=6 5" "$program"
	done
}

# Some sites are on: nobody says that they should be, and they are switched off.
test_lost_semaphores_and_disagreement() {
	local program site
	for program in $(lost_programs); do
		start_genuine "$program"
		site=$("$TOOL" info -pid "$TARGET" --sites | awk '$1 == "twice" { print $6; exit }')
		printf '\350' | dd of="/proc/$TARGET/mem" bs=1 seek=$((site + 1)) conv=notrunc status=none
		matches "$("$TOOL" info -pid "$TARGET")" 'twice mixed'
		"$TOOL" doctor -pid "$TARGET" >"$TMP/doctor" && fail "$program: all is well"
		grep -q '^twice: 1 of 2 sites are on, and it has no semaphore to say which are right (' \
			"$TMP/doctor" || fail "$(<"$TMP/doctor")"
		"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/doctor"
		grep -q '^fixed: 1 probe: 0 sites switched on, 1 off, 0 semaphores set' "$TMP/doctor" ||
			fail "$(<"$TMP/doctor")"
		eq "$(states)" disabled "$program"
		# Enabling and disabling do as well.
		printf '\350' | dd of="/proc/$TARGET/mem" bs=1 seek=$((site + 1)) conv=notrunc status=none
		"$TOOL" attach -pid "$TARGET" -enable twice
		matches "$("$TOOL" info -pid "$TARGET")" 'twice enabled'
		kill "$TARGET"
	done
}

test_lost_semaphores_and_journals() {
	local program
	export XDG_RUNTIME_DIR=$TMP/runtime
	mkdir -p "$XDG_RUNTIME_DIR"
	for program in $(lost_programs); do
		start_genuine "$program"
		"$TOOL" attach -pid "$TARGET" -enable top
		"$TOOL" attach -pid "$TARGET" -enable-all --for 200ms
		eq "$("$TOOL" info -pid "$TARGET" | grep -v ' disabled')" "top enabled" "$program: --for"
		background "$TOOL" attach -pid "$TARGET" -enable twice -disable top --for 1h
		wait_for '"$TOOL" info -pid "$TARGET" | grep -q "twice enabled"'
		wait_for 'grep -qs "^progress 0000000002 0000000002" "$XDG_RUNTIME_DIR"/ocaml-probes/*'
		kill -KILL $!
		wait $! || :
		"$TOOL" doctor -pid "$TARGET" >"$TMP/doctor" && fail "$program: all is well"
		grep -q '^twice: left on by ocaml-probes' "$TMP/doctor" || fail "$(<"$TMP/doctor")"
		grep -q '^top: left off by ocaml-probes' "$TMP/doctor" || fail "$(<"$TMP/doctor")"
		"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/doctor"
		eq "$("$TOOL" info -pid "$TARGET" | grep -v ' disabled')" "top enabled" "$program: --fix"
		kill "$TARGET"
	done
}

run_tests "$@"
