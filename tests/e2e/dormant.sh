#!/usr/bin/env bash
# Programs that were built with probes and never post-linked: switched where they run, by one byte a
# site, counted, and left as they were. Their memory is read without the tool.
#
# needs: fixtures link ocaml
# smoke: test_counting_is_exact
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

P=$O/tests/ocaml

# "0xADDRESS" in memory of the counters of every marker of FILE's sites and queries, loaded at BIAS.
counters_of() { # FILE BIAS
	local line off segment
	segment=$(readelf -lW "$1" | awk '$1 == "LOAD" && $7 == "RW" { print $2, $3 }')
	LC_ALL=C grep -obUaP '\x00\x00\x00\x00P1:([0-9]+i?|E):' "$1" | while IFS=: read -r off line; do
		# shellcheck disable=SC2086 # two words
		set -- "$1" "$2" $segment
		[[ $off -ge $(($3)) ]] && printf '0x%x\n' $((off - $3 + $4 + $2))
	done
}

# The bytes of PID's code and counters.
dormant_memory() { # PID
	local exe first last rest counters=$TMP/counters-$1
	exe=$(readlink "/proc/$1/exe")
	grep -F "$exe" "/proc/$1/maps" | grep ' r-xp ' | while IFS='- ' read -r first last rest; do
		dd if="/proc/$1/mem" iflag=skip_bytes,count_bytes skip=$((0x$first)) \
			count=$((0x$last - 0x$first)) bs=64K status=none
	done | md5sum
	[[ -e $counters ]] || counters_of "$exe" "$(bias_of "$1")" | sed 's/$/ 4/' >"$counters"
	"$O/tests/fixtures/binaries/memory" "$1" <"$counters"
}

# Counters that are not 0.
raised_counters() { # PID
	dormant_memory "$1" | grep -c ' 0[1-9]' || :
}

start_counted() { # VARIANT ITERATIONS THREADS
	start_target "$P/counted_$1" "$2" "$3"
	await_line ready
}

run_counted() {
	tell go
	await_line '# in_loop was seen .*' 60
}

# Did every handler run at each hit?
check_handlers() { # WHAT
	eq "$(handler_runs)" "$(expected_hits)" "$1: handlers' runs"
}

test_same_probes_as_when_post_linked() {
	local program
	for program in args counted loop places queries; do
		eq "$("$TOOL" list -prog "$P/${program}_plain")" "$("$TOOL" list -prog "$P/$program")" "$program"
	done
	"$O/ocaml-probes-link" -q -o "$TMP/counted" "$P/counted_plain"
	start_counted plain 1 1
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/sites"
	eq "$(awk '$10 == "dormant" && $2 != "absent" { print $7 }' "$TMP/sites" | sort)" \
		"$(notes_of "$TMP/counted" | sed 's/ .*//; s/^0x0*/0x/' | sort)" "sites"
	matches "$(grep '^raising ' "$TMP/sites")" '^raising +off +4[0-9a-f] +[78][45] +- .* dormant +camlCounted__raiser_[0-9]+\+0x'
	matches "$("$TOOL" info -pid "$TARGET" --sites --json)" '"nop":"0x48","opcode":"0x75"'
	eq "$("$TOOL" list | awk -v pid="$TARGET" '$1 == pid { print $2, $3 }')" "8 0" "list"
}

# Site and operands are those that the post-linker notes: what is at the site is there in both forms.
test_arguments() {
	local program
	{
		echo 'let () = print_endline "ready"; ignore (input_line stdin)'
		cat "$ROOT/tests/ocaml/args.ml"
	} >"$TMP/plain.ml"
	(cd "$TMP" && OCAMLPATH=$O/ocaml/lib:${OCAMLPATH:-} ocamlfind ocamlopt -linkpkg \
		-package ocaml-probes.ppx plain.ml -o plain)
	"$O/ocaml-probes-link" -q -o "$TMP/linked" "$TMP/plain" 2>/dev/null
	for program in plain linked; do
		start_target "$TMP/$program"
		await_line ready
		"$TOOL" info -pid "$TARGET" --sites --json | grep -o '"args":"[^"]*"\|"linked":"[^"]*"' >"$TMP/$program.args"
	done
	[[ $(grep -c '"args":"-\?8' "$TMP/linked.args") -gt 8 ]] || fail "$(<"$TMP/linked.args")"
	eq "$(<"$TMP/plain.args")" "$(<"$TMP/linked.args")" "sites and arguments"
}

test_handlers_run_at_each_hit() {
	local variant before
	strip -o "$TMP/stripped" "$P/counted_plain"
	for variant in "$P/counted_plain" "$P/counted_plain_nopie" "$TMP/stripped"; do
		start_target "$variant" 20000 3
		await_line ready
		before=$(dormant_memory "$TARGET")
		eq "$(raised_counters "$TARGET")" 0 "$variant: counters"
		"$TOOL" attach -pid "$TARGET" -enable-all
		eq "$("$TOOL" info -pid "$TARGET" | awk '{ print $2 }' | sort -u)" enabled "$variant: states"
		# A counter for each of the 8 names, and the query's.
		eq "$(raised_counters "$TARGET")" 9 "$variant: counters"
		run_counted
		check_handlers "$variant"
		grep -qx '# in_loop was seen enabled 60000 times' "$(output_of)" || fail "$variant: is_enabled"
		"$TOOL" attach -pid "$TARGET" -disable-all
		eq "$(dormant_memory "$TARGET")" "$before" "$variant: code and counters"
		tell quit
		finish_target
		eq "$TARGET_STATUS" 0 "$variant: status"
	done
}

# Every place that ocamlopt shapes code for, from the first instruction on. The program outlives the tool, and `cat`
# ends with the program.
test_trace() {
	local program
	for program in places args; do
		"$TOOL" trace -prog "$P/$program" -enable-all 2>&1 | cat >"$TMP/linked"
		"$TOOL" trace -prog "$P/${program}_plain" -enable-all 2>&1 | cat >"$TMP/dormant"
		"$P/${program}_plain" >"$TMP/off" 2>&1
		[[ $(wc -l <"$TMP/linked") -gt $(wc -l <"$TMP/off") ]] || fail "$program: no handler ran"
		eq "$(<"$TMP/dormant")" "$(<"$TMP/linked")" "$program"
	done
	eq "$("$TOOL" trace -prog "$P/queries_plain" -enable switched | grep switched)" \
		$'switched true\nswitched true\nswitched handler=11 expected=11' "queries"
	eq "$("$P/queries_plain" | grep switched)" \
		$'switched false\nswitched false\nswitched handler=0 expected=11' "queries, off"
}

test_only_what_was_asked_for() {
	local before
	start_target "$P/loop_plain"
	await_line ready
	before=$(dormant_memory "$TARGET")
	"$TOOL" attach -pid "$TARGET" -enable gamma
	"$TOOL" attach -pid "$TARGET" -enable gamma
	"$TOOL" attach -pid "$TARGET" -disable gamma
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "alpha disabled beta disabled gamma enabled"
	check_error 1 "'alpha': is disabled already" attach -pid "$TARGET" -disable alpha,gamma
	check_error 2 "'nosuch': no such probe" attach -pid "$TARGET" -enable alpha,nosuch
	"$TOOL" attach -pid "$TARGET" -disable gamma
	eq "$(dormant_memory "$TARGET")" "$before" "code and counters"
	tell quit
	finish_target
	eq "$(handler_runs | awk '$2 > 0 { print $1 }')" gamma "handlers that ran"
}

# Updates by four tools (TOGGLES=125: a thousand) while two threads go through the sites at full speed.
test_toggled_by_four_tools() {
	local before
	start_target "$P/loop_plain" busy
	await_line ready
	before=$(dormant_memory "$TARGET")
	toggle_by_four "${TOGGLES:-20}"
	eq "$(dormant_memory "$TARGET")" "$before" "code and counters"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
	eq "$(handler_runs | awk '$2 > 0' | wc -l)" 3 "handlers that ran"
}

# Anywhere in the middle of it: a handler that raises, nested handlers, one that is inlined.
test_toggled_while_it_counts_for_itself() {
	start_counted plain 3000000 3
	tell go
	while ! grep -q '^# in_loop' "$(output_of)"; do
		"$TOOL" attach -pid "$TARGET" -enable-all
		"$TOOL" attach -pid "$TARGET" -disable-all
	done
	eq "$(awk -F'[= ]' '$1 != "#" && $3 > $5' "$(output_of)")" "" "more runs than hits"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

test_counting_is_exact() {
	local variant before
	need_counting
	for variant in plain plain_nopie; do
		start_counted "$variant" 1000 2
		before=$(dormant_memory "$TARGET")
		start_counting "$TARGET" --json
		grep -q 'not post-linked' "$TMP/counting.err" || fail "it does not say that it is slow"
		run_counted
		kill -INT "$COUNTING"
		wait "$COUNTING" || :
		eq "$(totals)" "$(expected_hits | sed 's/^nested .*/nested 0/' | sort)" "$variant: hits"
		eq "$(handler_runs | awk '$2 > 0')" "" "$variant: handlers that ran"
		wait_for '[[ $(dormant_memory "$TARGET") = "$before" ]]' || fail "$variant: code and counters"
		tell quit
		finish_target
	done
}

# Handlers switched by others while uprobes are on: nothing is lost, whatever the order.
test_counting_and_switching() {
	local before
	need_counting
	start_counted plain 4000 2
	before=$(dormant_memory "$TARGET")
	"$TOOL" attach -pid "$TARGET" -enable in_try,outer
	start_counting "$TARGET" --json
	"$TOOL" attach -pid "$TARGET" -enable-all
	"$TOOL" attach -pid "$TARGET" -disable in_try
	run_counted
	check_handlers on
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/sites"
	eq "$(awk '$2 == "on" { print $3, $5 }' "$TMP/sites" | sort -u)" "cc int3" "sites"
	"$TOOL" doctor -pid "$TARGET"
	kill -INT "$COUNTING"
	wait "$COUNTING" || :
	eq "$(totals)" "$(expected_hits | sort)" "hits"
	wait_for '! "$TOOL" info -pid "$TARGET" --sites | finds int3'
	"$TOOL" attach -pid "$TARGET" -disable in_try,outer
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$(dormant_memory "$TARGET")" "$before" "code and counters"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

test_switched_while_counted() {
	local before
	need_counting
	start_counted plain 1000000000 2
	before=$(dormant_memory "$TARGET")
	start_counting "$TARGET" --json
	tell go
	for _ in {1..20}; do
		"$TOOL" attach -pid "$TARGET" -enable in_loop,inlined,tail,raising
		"$TOOL" attach -pid "$TARGET" -disable in_loop,inlined,tail,raising
	done
	eq "$(handler_runs)" "" "the loops must outlast the toggling; results so far"
	tell stop
	await_line '# in_loop was seen .*' 60
	kill -INT "$COUNTING"
	wait "$COUNTING" || :
	eq "$(totals)" "$(expected_hits | sed 's/^nested .*/nested 0/' | sort)" "hits"
	wait_for '[[ $(dormant_memory "$TARGET") = "$before" ]]'
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# The tool killed in each phase: the target runs on, doctor finds what is half done and repairs it.
test_sigkill_and_doctor() {
	local before i
	start_target "$P/loop_plain" busy
	await_line ready
	before=$(dormant_memory "$TARGET")
	check_killed_updates dormant_memory -enable-all -disable-all
	eq "$(phases)" "journal stop sites semaphores let_go journal" "phases"
	let_run all
	# What was to be undone later is undone.
	background "$TOOL" attach -pid "$TARGET" -enable alpha --for 1h
	i=$!
	wait_for '"$TOOL" info -pid "$TARGET" | finds "alpha enabled"'
	kill -KILL "$i"
	wait "$i" || :
	"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/doctor" || :
	grep -q alpha "$TMP/doctor" || fail "doctor said: $(<"$TMP/doctor")"
	eq "$(dormant_memory "$TARGET")" "$before" "code and counters"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# Sites on without a counter, counters without sites: the doctor knows this form too.
test_doctor_repairs() {
	local before address
	start_target "$P/loop_plain"
	await_line ready
	before=$(dormant_memory "$TARGET")
	address=$("$TOOL" info -pid "$TARGET" --sites | awk '$1 == "alpha" { print $6 }')
	eq "$(read_bytes "$TARGET" $((address + 11)) 1)" " 75"
	printf '\x74' | dd of="/proc/$TARGET/mem" bs=1 seek=$((address + 11)) conv=notrunc status=none
	"$TOOL" doctor -pid "$TARGET" >"$TMP/doctor" && fail "nothing found"
	grep -q 'alpha.*1 of 1 sites are on, but its semaphore is 0' "$TMP/doctor" || fail "$(<"$TMP/doctor")"
	"$TOOL" doctor -pid "$TARGET" --fix >/dev/null || :
	eq "$(dormant_memory "$TARGET")" "$before" "code and counters"
}

# Somebody has patched the code: it is not touched, nor anything else.
test_code_that_is_not_the_file_s() {
	local before address offset
	start_target "$P/loop_plain"
	await_line ready
	address=$("$TOOL" info -pid "$TARGET" --sites | awk '$1 == "alpha" { print $6 }')
	for offset in 3 12; do
		before=$(read_bytes "$TARGET" $((address + offset)) 1)
		kill -STOP "$TARGET"
		await_stopped
		printf '\x01' | dd of="/proc/$TARGET/mem" bs=1 seek=$((address + offset)) conv=notrunc status=none
		check_error 1 "probe 'alpha': site .*differs from the code in the program's file: 48 8d " \
			attach -pid "$TARGET" -enable-all
		eq "$("$TOOL" info -pid "$TARGET" | grep -c enabled)" 0 "enabled probes"
		eq "$("$TOOL" info -pid "$TARGET" --sites | awk '$1 == "alpha" { print $2 }')" damaged
		printf "\\x${before# }" | dd of="/proc/$TARGET/mem" bs=1 seek=$((address + offset)) conv=notrunc status=none
		kill -CONT "$TARGET"
	done
	"$TOOL" attach -pid "$TARGET" -enable-all
}

test_plugin() {
	local before
	eq "$("$TOOL" list -prog "$P/plugin_plain.cmxs" | xargs)" "plugin_only reused"
	start_target "$P/plugin_host_plain" "$P/plugin_plain.cmxs"
	await_line ready
	before=$(dormant_memory "$TARGET")
	"$TOOL" attach -pid "$TARGET" -enable reused
	tell go
	await_line 'host=1 plugin=1'
	"$TOOL" attach -pid "$TARGET" -enable plugin_only -disable reused
	tell go
	await_line 'host=1 plugin=2'
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$(dormant_memory "$TARGET")" "$before" "code and counters"
	tell go
	await_line 'host=1 plugin=2'
	# A converted plugin in a host that is not.
	start_target "$P/plugin_host_plain" "$P/plugin.cmxs"
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable reused
	eq "$("$TOOL" info -pid "$TARGET" --sites | awk '$1 == "reused" { print $2, $10 }' | sort)" \
		$'on dormant\non v1'
	tell go
	await_line 'host=1 plugin=1'
}

# Print the hits of PROGRAM to a file of its name, as the tool does with these FLAGs.
print_hits() { # PROGRAM FLAG...
	local program=$1
	start_target "$P/$program" 60
	await_line ready
	background "$TOOL" attach --budget none -pid "$TARGET" --print 'request_.*' --limit 0 --filter 'arg0 > 40' "${@:2}" \
		>"$TMP/$program.out" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'has_text "$TMP/err" "ing 2 probes"'
	tell go
	await_line end 20
	kill -INT "$COUNTING"
	wait "$COUNTING"
}

# Arguments are read where the load is, as at a nop. All hits are single-stepped there, and none at a nop, also those that the
# filter rejects; the cost that is told is that of a hit of this kind (tools/bench compares the two).
test_arguments_of_hits() {
	local program
	need_counting
	for program in requests requests_plain; do
		print_hits "$program"
		sed -n 's/.* \(request_st[a-z]* .*\)/\1/p' "$TMP/$program.out" | sort >"$TMP/$program"
	done
	[[ $(wc -l <"$TMP/requests") -gt 30 ]] || fail "$(<"$TMP/requests.out")"
	eq "$(<"$TMP/requests_plain")" "$(<"$TMP/requests")" "hits"
	for program in requests requests_plain; do
		print_hits "$program" --json
	done
	eq "$(stepped_hits requests)" "0 of 131" "single-stepped hits at nops"
	eq "$(stepped_hits requests_plain)" "131 of 131" "single-stepped hits of dormant sites"
}

stepped_hits() { # PROGRAM
	tail -n 1 "$TMP/$1.out" | python3 -c 'import json, sys
top = json.loads(sys.stdin.read())
print(top["stepped_hits"], "of", top["losses"]["filtered"] + top["printed"])'
}

# What is no OCaml program, or has no probes, is not searched; and says so as before.
test_others_are_not_searched() {
	eq "$("$TOOL" list -prog "$P/loop_bare" 2>&1)" "ocaml-probes: $P/loop_bare: has no OCaml probes
hint: \`ocaml-probes functions -prog $P/loop_bare\` lists what \`attach --count=fn:NAME\` counts without probes"
	need_command strace
	# `list` also looks whether it is an OCaml program.
	! strace -o "$TMP/strace" -e trace=pread64 "$TOOL" bpftrace -prog /bin/bash count alpha 2>"$TMP/err" || fail "it has probes"
	finds 'has no OCaml probes' "$TMP/err"
	[[ $(awk '{ sum += $NF } END { print sum }' "$TMP/strace") -lt 131072 ]] ||
		fail "it reads much: $(<"$TMP/strace")"
}

# Some of the language suite, where code and handlers do not leave each other alone; all of it, on any
# compiler: DORMANT=yes SUITE_OUT=DIR tests/e2e/suite.sh
test_language_suite() {
	DORMANT=yes BARE=no SUITE_OUT=$TMP/suite TOGGLES=100 \
		PROGRAMS='big_functions gc_stress live_values nested_probes plugins raising_handlers signals toplevel' \
		bash "$ROOT/tests/e2e/suite.sh" test_build test_on test_toggled >"$TMP/log" 2>&1 ||
		fail "$(<"$TMP/log")"
}

run_tests "$@"
