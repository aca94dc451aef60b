#!/usr/bin/env bash
# What a site, a semaphore and a tracer leave to be seen: `info --sites`; what disagrees: `doctor`; and
# that --fix puts back every byte. The faults are written, and the bytes read, without the tool.
#
# needs: fixtures inject ocaml/loop
# smoke: test_sites_as_the_fixtures_say test_sites_on_without_semaphore
# variants: asan
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

FIXTURES='v0 v0_single transitional transitional_single v1 v1_dot v2'

start_fixture() { # VARIANT
	start_target "$(own_copy "$O/tests/fixtures/$1")" --wait
	await_line ready
	BIAS=$(bias_of "$TARGET")
}

# "0xSITE 0xSEMAPHORE" in memory of the sites with code of probe NAME (default: all) of FIXTURE.
expected_sites() { # FIXTURE [NAME]
	"$O/tests/fixtures/$1" --expect | while read -r _ site _ semaphore _ name _; do
		[[ $site = 0x* && $((site)) -ne 0 && ${2:-$name} = "$name" ]] || continue
		printf '0x%x 0x%x\n' $((site + BIAS)) $((semaphore + BIAS))
	done
}

# "0xSITE OPCODE" of those of FIXTURE.
opcodes_of() { # FIXTURE
	local sites
	sites=$(expected_sites "$1" | cut -d' ' -f1)
	paste -d '' <(echo "$sites") <(for site in $sites; do echo "$((site + 1)) 1"; done |
		"$O/tests/fixtures/binaries/memory" "$TARGET")
}

# Write the lines "ADDRESS BYTE".
poke_all() {
	"$O/tests/fixtures/binaries/memory" "$TARGET" write
}

poke() { # ADDRESS BYTE
	poke_all <<<"$1 $2"
}

# Run the doctor; its status must be STATUS. What it prints goes to $TMP/doctor.
doctor() { # STATUS [FLAG...]
	local status=0 want=$1
	shift
	"$TOOL" doctor -pid "$TARGET" "$@" >"$TMP/doctor" 2>"$TMP/doctor.err" || status=$?
	eq "$status" "$want" "status of doctor $*: $(cat "$TMP/doctor" "$TMP/doctor.err")"
}

# Does the doctor print nothing? Waited for after an end of uprobes: a doctor of another test opens all links of the
# machine, and the uprobes of a link last until it has closed this one again.
finds_nothing() {
	doctor 0
	[[ ! -s $TMP/doctor ]]
}

# Does a line that the doctor printed match RE?
says() { # RE
	grep -qE -- "$1" "$TMP/doctor" || fail "no line matches $1:
$(<"$TMP/doctor")"
}

json_valid() { # FILE
	python3 -c 'import json,sys; [json.loads(line) for line in open(sys.argv[1])]' "$1"
}

test_sites_as_the_fixtures_say() {
	local fixture variant
	for fixture in $FIXTURES; do
		for variant in "$fixture" "$fixture-stripped"; do
			start_fixture "$variant"
			"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
			"$TOOL" info -pid "$TARGET" --sites --json >"$TMP/json"
			python3 - "$TMP/json" <<'PY' >"$TMP/found"
import json, sys
for s in json.load(open(sys.argv[1]))["sites"]:
    print(s["linked"] or "0", s["probe"] or "-", s["args"] or "-", s["abi"])
PY
			"$O/tests/fixtures/$fixture" --expect |
				sed -n -e 's/^abi //p' -e 's/^site \(.*\) semaphore [^ ]* name \(.*\) args \(.*\)$/\1|\2|\3/p' |
				awk -F'|' 'NR == 1 { abi = $0; next } { print $1 == "0x0" ? 0 : $1, $2 == "" ? "-" : $2, $3 == "" ? "-" : $3, abi }' >"$TMP/want"
			eq "$(sort "$TMP/found")" "$(sort "$TMP/want")" "$variant: sites"
			eq "$(wc -l <"$TMP/table")" $(($(wc -l <"$TMP/want") + 1)) "$variant: lines"
			matches "$(head -n 1 "$TMP/table")" '^PROBE +STATE +NOP +OPCODE ' "header"
			[[ $variant = *-stripped ]] || matches "$(<"$TMP/json")" '"symbol":"fixture_round\+0x' "symbol"
			quit_target
		done
	done
}

test_sites_of_an_ocaml_program() {
	start_target "$O/tests/ocaml/loop"
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable beta
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
	matches "$(grep '^beta ' "$TMP/table")" '^beta +on +90 +e8 +- +0x[0-9a-f]+ +0x[0-9a-f]+ +1@0x[0-9a-f]+ +0@0x[0-9a-f]+ +v1 +caml[A-Za-z0-9_.]+\+0x'
	matches "$(grep '^alpha ' "$TMP/table")" '^alpha +off +90 +3d '
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "alpha disabled beta enabled gamma disabled" "plain info"
}

test_nothing_wrong() {
	local fixture before
	for fixture in $FIXTURES; do
		start_fixture "$fixture"
		before=$(memory_of "$TARGET")
		doctor 0
		eq "$(<"$TMP/doctor")" "" "$fixture: findings"
		"$TOOL" attach -pid "$TARGET" -enable-all
		doctor 0 --fix
		eq "$(<"$TMP/doctor")" "" "$fixture: findings when on"
		"$TOOL" attach -pid "$TARGET" -disable-all
		eq "$(memory_of "$TARGET")" "$before" "$fixture: text and semaphores"
		quit_target
	done
}

# A killed enable: one site on at a time, of each probe that is off.
test_sites_on_without_semaphore() {
	local fixture variant before site opcode
	for fixture in $FIXTURES; do
		for variant in "$fixture" "$fixture-nopie"; do
			start_fixture "$variant"
			before=$(memory_of "$TARGET")
			while read -r site opcode; do
				[[ $opcode != 3d ]] || echo "$((site + 1)) 0xe8"
			done < <(opcodes_of "$variant") | poke_all
			[[ $(memory_of "$TARGET") != "$before" ]] || fail "$variant: nothing was spoilt"
			doctor 1
			says 'sites are on, but its semaphore is 0 \(a tool was killed'
			[[ $(memory_of "$TARGET") != "$before" ]] || fail "$variant: looking repaired it"
			doctor 1 --json
			json_valid "$TMP/doctor"
			says '"kind":"sites-on".*"repairable":true'
			doctor 0 --fix
			says '^fixed: [1-9][0-9]* probes?: 0 sites switched on, [1-9][0-9]* off, 0 semaphores'
			eq "$(memory_of "$TARGET")" "$before" "$variant: text and semaphores"
			quit_target
			eq "$TARGET_STATUS" 0 "$variant: status"
		done
	done
}

# The other way round: a semaphore says on, so all becomes on; and one disable ends it.
test_sites_off_with_semaphore() {
	local fixture before semaphore on
	for fixture in $FIXTURES; do
		start_fixture "$fixture"
		before=$(memory_of "$TARGET")
		"$TOOL" attach -pid "$TARGET" -enable-all
		on=$(memory_of "$TARGET")
		"$TOOL" attach -pid "$TARGET" -disable-all
		while read -r _ semaphore; do
			echo "$semaphore 1"
			[[ $fixture != v0 ]] || break # one of three
		done < <(expected_sites "$fixture" | grep -v "$(started_on_semaphore "$fixture")") | poke_all
		doctor 1
		says 'sites are off, but its semaphore is 1'
		[[ $fixture != v0 ]] || says 'out of step: the lowest is 0, the highest 1'
		doctor 0 --fix --json
		json_valid "$TMP/doctor"
		says '"left":\[\]'
		[[ $("$TOOL" info -pid "$TARGET") != *mixed* ]] || fail "$fixture: still mixed"
		"$TOOL" info -pid "$TARGET" | sed -n 's/ enabled$//p' | while read -r name; do
			[[ $name = started_on ]] || "$TOOL" attach -pid "$TARGET" -disable "$name"
		done
		[[ $on != "$before" ]]
		[[ $fixture = v1* || $fixture = v2 ]] || eq "$(memory_of "$TARGET")" "$before" "$fixture: text and semaphores"
		quit_target
	done
}

# A pattern for the semaphore of the probe that is on from the start; one that matches nothing else.
started_on_semaphore() { # FIXTURE
	expected_sites "$1" started_on | awk '{ print " " $2 "$"; exit } END { if (!NR) print "none" }'
}

test_what_cannot_be_repaired() {
	local before first second
	start_fixture v1
	before=$(memory_of "$TARGET")
	read -r first _ < <(expected_sites v1 plain)
	read -r second _ < <(expected_sites v1 odd)
	poke $((first + 1)) 0xcc  # a debugger's breakpoint
	poke $((second + 1)) 0xe8 # and a killed tool
	doctor 1
	says "^plain: site $first .*: a breakpoint is on the byte to be switched: 90 cc"
	doctor 1 --fix
	says '^fixed: 1 probe: 0 sites switched on, 1 off'
	says "^left: plain: site $first"
	eq "$(grep -c '^left: odd' "$TMP/doctor" || :)" 0 "what was repairable"
	eq "$(read_bytes "$TARGET" $((first + 1)) 1)" ' cc' "the debugger's byte"
	matches "$("$TOOL" info -pid "$TARGET" --sites | grep '^plain ')" '^plain +damaged +90 +cc '
	poke $((first + 1)) 0x90
	doctor 1
	says '^plain: .*neither a disabled nor an enabled probe'
	poke $((first + 1)) 0x3d
	doctor 0
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

test_a_leaked_tracer_semaphore() {
	local semaphore
	start_fixture v1
	read -r _ semaphore < <(expected_sites v1 plain)
	poke $((semaphore - 2)) 0x01
	doctor 1 --fix
	says "^plain: the tracers' semaphore at 0x[0-9a-f]+ is 1, but no site has an int3 .*restart"
	eq "$(read_bytes "$TARGET" $((semaphore - 2)) 2)" ' 01 00' "the tracers' semaphore, left alone"
}

test_gdb_attached() {
	need_command gdb
	among_our_own gdb_attached
}

gdb_attached() {
	local site
	start_fixture v1
	read -r site _ < <(expected_sites v1 plain)
	gdb -q -nx -batch -p "$TARGET" -ex "break *$((site))" -ex 'continue' >"$TMP/gdb" 2>&1 &
	wait_for '[[ $(read_bytes "$TARGET" "'"$site"'" 1) = " cc" ]]' 20
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table" 2>"$TMP/err"
	matches "$(grep '^plain ' "$TMP/table")" '^plain +off +cc +3d +int3 '
	matches "$(<"$TMP/err")" 'is being traced by pid [0-9]+ \(gdb\)'
	matches "$("$TOOL" info -pid "$TARGET" --json)" '"tracer":\{"pid":[0-9]+,"name":"gdb"\}'
	doctor 0
	says '^note: uprobes or breakpoints are on 1 site of 1 probe, which is no disagreement: 1 of an unknown program, perhaps pid [0-9]+ \(gdb\)$'
	read -r site _ < <(expected_sites v1 odd)
	poke $((site + 1)) 0xe8
	doctor 6 --fix
	matches "$(<"$TMP/doctor.err")" 'being traced by pid [0-9]+ \(gdb\)'
	kill %?gdb
}

# The tool closes a link of its own after half a second (the cost of a hit is known), by a child that has copies of
# its descriptors until it closes them.
test_a_child_is_no_holder() { among_our_own a_child_is_no_holder; }

a_child_is_no_holder() {
	local program sites pid tool=$TOOL
	need_command strace
	program=$(own_copy "$O/tests/ocaml/loop")
	start_target "$program"
	await_line ready
	sites=$("$TOOL" info "$TARGET" --sites | sed 1d | wc -l)
	printf '#!/bin/sh\nexec strace -f -qq -o "%s" -e trace=close_range -e inject=close_range:delay_enter=600000000 "%s" "$@"\n' \
		"$TMP/close_range" "$tool" >"$TMP/slow"
	chmod +x "$TMP/slow"
	background "$TMP/slow" attach --budget none -pid "$TARGET" --count >"$TMP/counts" 2>&1
	wait_for '[[ -s $TMP/close_range ]]'
	pid=$(pgrep -f "^$tool attach" | sort -n | head -n 1)
	wait_for '[[ $(pgrep -f "^'"$tool"' attach" | wc -l) -eq 2 ]]'
	doctor 0
	eq "$(<"$TMP/doctor")" "note: uprobes or breakpoints are on $sites sites of 3 probes, which is no disagreement: pid $pid (ocaml-probes) has $sites"
	pkill -KILL -f "^$tool attach"
}

# One line names all holders: a tool that runs, and a meter that is kept.
test_holders() { among_our_own holders; }

holders() {
	local name program pid sites first other
	# No other test has it.
	name=ocp_test_$(basename "$(dirname "$TMP")" | tr -dc A-Za-z0-9)
	trap '"$TOOL" detach "'"$name"'" >/dev/null 2>&1 || :' EXIT
	program=$(own_copy "$O/tests/ocaml/loop")
	start_target "$program"
	await_line ready
	sites=$("$TOOL" info "$TARGET" --sites | sed 1d | wc -l)
	doctor 0
	eq "$(<"$TMP/doctor")" "" "without a holder"
	start_counting "$TARGET"
	pid=$COUNTING
	doctor 0
	eq "$(<"$TMP/doctor")" "note: uprobes or breakpoints are on $sites sites of 3 probes, which is no disagreement: pid $pid (ocaml-probes) has $sites"
	doctor 0 --json
	json_valid "$TMP/doctor"
	says "\"holders\":\\[\\{\"pid\":$pid,\"name\":\"ocaml-probes\",\"sites\":$sites,\"certain\":true\\}\\]"
	# A holder of another process of the same program is none.
	first=$TARGET
	start_target "$program"
	await_line ready
	doctor 0
	eq "$(<"$TMP/doctor")" "" "the other process"
	"$TOOL" attach --exe "$program" --count=alpha,gamma --keep "$name" -q
	doctor 0
	eq "$(<"$TMP/doctor")" "note: uprobes or breakpoints are on 2 sites of 2 probes, which is no disagreement: the kept meter '$name' has 2"
	TARGET=$first
	doctor 0
	eq "$(<"$TMP/doctor")" "note: uprobes or breakpoints are on $sites sites of 3 probes, which is no disagreement: pid $pid (ocaml-probes) has $sites, the kept meter '$name' has 2"
	# Nor is one of the same bytes in another file of the same name.
	mkdir "$TMP/elsewhere"
	cp "$program" "$TMP/elsewhere"
	background "$TOOL" attach --budget none --exe "$TMP/elsewhere/loop" --count >"$TMP/elsewhere/counts" 2>&1
	other=$!
	wait_for 'has_text "$TMP/elsewhere/counts" "counting [0-9]* probes"'
	doctor 0
	eq "$(<"$TMP/doctor")" "note: uprobes or breakpoints are on $sites sites of 3 probes, which is no disagreement: pid $pid (ocaml-probes) has $sites, the kept meter '$name' has 2"
	kill -INT "$pid" "$other"
	wait "$pid" "$other"
	"$TOOL" detach "$name" >/dev/null
	wait_for finds_nothing
}

test_bpftrace_attached() {
	need_command bpftrace bpftool
	among_our_own bpftrace_attached
}

bpftrace_attached() {
	start_fixture v1
	background bpftrace -p "$TARGET" -e "usdt:$TMP/v1:ocaml_1:plain { @ = count(); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 1' 30
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
	matches "$(grep '^plain ' "$TMP/table")" '^plain +off +cc +3d +int3 .* 0@0x[0-9a-f]+ +1@0x'
	doctor 0 --json
	json_valid "$TMP/doctor"
	says '"kind":"held-sites","probe":"plain","disagreement":false'
	doctor 0
	says "^note: uprobes or breakpoints are on 1 site of 1 probe, which is no disagreement: (pid $BPFTRACE \(bpftrace\) has 1|1 of an unknown program, perhaps .*pid $BPFTRACE \(bpftrace\).*)$"
	end_bpftrace
	wait_for finds_nothing
}

# The tool killed in each phase: one --fix makes all agree.
test_sigkill_of_the_tool() {
	start_target "$O/tests/ocaml/loop" busy
	await_line ready
	check_killed_updates memory_of -enable-all -disable-all
	eq "$(phases)" "journal stop sites semaphores let_go journal" "phases"
	"$TOOL" attach -pid "$TARGET" -enable-all
	check_killed_updates memory_of -disable-all -enable-all
	eq "$(phases)" "journal stop semaphores sites let_go journal" "phases"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# The repair itself is killed in each phase: the next one does what is left.
test_sigkill_of_the_repair() {
	local before call attach fix
	start_target "$O/tests/ocaml/loop" busy
	await_line ready
	before=$(memory_of "$TARGET")
	attach=("$TOOL" attach -pid "$TARGET" -enable-all)
	fix=("$TOOL" doctor -quiet -pid "$TARGET" --fix)
	kill_at process_vm_writev:1 "${attach[@]}"
	list_calls "${fix[@]}"
	for call in "${CALLS[@]}" "after:${CALLS[-1]}"; do
		kill_at process_vm_writev:1 "${attach[@]}"
		[[ $(memory_of "$TARGET") != "$before" ]] || fail "nothing to repair"
		kill_at "$call" "${fix[@]}"
		await_running
		doctor 0 --fix
		eq "$(memory_of "$TARGET")" "$before" "after a kill of the repair at $call"
	done
	matches " $(phases) " ' sites '
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# A journal as `attach --for` leaves it when it is killed: written by hand here.
journal() { # TOOL-PID TOOL-START DONE LINE...
	local dir=$TMP/run/ocaml-probes start
	(umask 077 && mkdir -p "$dir")
	start=$(start_of "$TARGET")
	{
		echo "ocaml-probes journal 3"
		echo "boot $(</proc/sys/kernel/random/boot_id)"
		echo "pid-namespace $(readlink /proc/self/ns/pid | tr -dc 0-9)"
		echo "process $TARGET $start"
		echo "program 0"
		echo "tool $1 $2"
		echo promise
		printf 'progress %010d %010d\n' "$3" $(($# - 3))
		printf '%s\n' "${@:4}" end
	} >"$dir/$TARGET.$start.$1"
}

start_of() { # PID
	sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20
}

test_what_a_killed_tool_left_on() {
	local before
	export XDG_RUNTIME_DIR=$TMP/run
	start_fixture v0
	before=$(memory_of "$TARGET")
	"$TOOL" attach -pid "$TARGET" -enable everywhere,once
	journal 4194303 1 2 'enable everywhere 0 1' 'enable nosuch 0 1'
	doctor 1
	says '^everywhere: left on by ocaml-probes pid 4194303, which was killed: to be disabled'
	eq "$(wc -l <"$TMP/doctor")" 1 "lines"
	doctor 0 --fix
	says '^fixed: 1 probe: 0 sites switched on, 4 off, 3 semaphores set, 1 action'
	eq "$(ls "$TMP/run/ocaml-probes")" "" "journals"
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "everywhere disabled once enabled started_on enabled" "states"
	"$TOOL" attach -pid "$TARGET" -disable once
	# Announced, but killed before the deed.
	journal 4194303 1 0 'enable once 0 1' 'disable started_on 1 0'
	doctor 0 --fix
	eq "$(<"$TMP/doctor")$(ls "$TMP/run/ocaml-probes")" "" "findings, journals"
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	# Its tool lives.
	journal $$ "$(start_of $$)" 1 'disable once 1 0'
	doctor 0 --fix
	[[ -e $TMP/run/ocaml-probes/$TARGET.$(start_of "$TARGET").$$ ]] || fail "the journal of a living tool is gone"
	# Damaged journals are left out.
	journal 4194303 1 1 'enable on;ce 0 1'
	doctor 0 --fix
	matches "$(<"$TMP/doctor.err")" 'warning: .*is damaged'
	chmod 755 "$TMP/run/ocaml-probes"
	doctor 0
	matches "$(<"$TMP/doctor.err")" 'warning: .*is not used'
	chmod 700 "$TMP/run/ocaml-probes"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
	# The journals of a process that has ended are deleted.
	rm "$TMP/run/ocaml-probes/$TARGET".*.4194303
	start_fixture v1
	doctor 0
	eq "$(ls "$TMP/run/ocaml-probes")" "" "journals of a process that is gone"
}

# The same for real: `attach --for`, killed while it waits.
test_a_killed_attach_for() {
	local before tool
	export XDG_RUNTIME_DIR=$TMP/run
	mkdir -m700 "$TMP/run"
	start_target "$O/tests/ocaml/loop"
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable beta
	before=$(memory_of "$TARGET")
	background "$TOOL" attach -pid "$TARGET" -enable alpha,beta --for 1h 2>"$TMP/for"
	tool=$!
	wait_for '[[ $("$TOOL" info -pid "$TARGET") = *"alpha enabled"* ]]'
	wait_for 'grep -qx "progress 0000000002 0000000002" "$TMP"/run/ocaml-probes/*'
	doctor 0
	kill -KILL "$tool"
	wait "$tool" || :
	doctor 1
	says "^alpha: left on by ocaml-probes pid $tool, which was killed"
	says "^beta: left on by ocaml-probes pid $tool, which was killed"
	doctor 0 --fix
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	eq "$(ls "$TMP/run/ocaml-probes")" "" "journals"
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "alpha disabled beta enabled gamma disabled" "states"
}

# `attach --for` cannot switch a probe back at its end: it says so, and `doctor --fix` does it.
test_an_undo_that_fails() {
	local before last status=0
	export XDG_RUNTIME_DIR=$TMP/run
	mkdir -m700 "$TMP/run"
	start_target "$O/tests/ocaml/loop"
	await_line ready
	before=$(memory_of "$TARGET")
	"$O/faults/inject" "$TMP/calls" record "$TOOL" attach -pid "$TARGET" -enable alpha,beta --for 10ms
	eq "$(memory_of "$TARGET")" "$before" "memory without a fault"
	last=$(grep -c '^pwrite64.*/mem' "$TMP/calls")
	eq "$((last % 2))" 0 "writes: as many to switch as to undo"
	# The first write of the undo fails with EIO.
	"$O/faults/inject" "$TMP/log" "pwrite64:$(grep '^pwrite64' "$TMP/calls" | grep -n /mem | sed -n "$((last / 2 + 1))s/:.*//p"):5" \
		"$TOOL" attach -pid "$TARGET" -enable alpha,beta --for 10ms 2>"$TMP/err" || status=$?
	finds $'^injected\t.*/mem$' "$TMP/log"
	eq "$status" 1 "status"
	matches "$(head -n 1 "$TMP/err")" "^ocaml-probes: warning: cannot undo: pid $TARGET: cannot write at 0x[0-9a-f]+: Input/output error"
	eq "$(sed 1d "$TMP/err")" "ocaml-probes: pid $TARGET: 2 probes could not be switched back
hint: run \`ocaml-probes doctor -pid $TARGET --fix\` to switch back the rest from the undo journal"
	[[ $(memory_of "$TARGET") != "$before" ]]
	doctor 0 --fix
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	eq "$(ls "$TMP/run/ocaml-probes")" "" "journals"
}

# What another user's tool left on: root looks into that user's directory, but believes it about that
# user's processes only.
test_root_finds_another_users_journal() {
	local tool dir=/tmp/ocaml-probes-65532 as_user=(setpriv --reuid 65532 --regid 65532 --clear-groups)
	need_root
	need_command setpriv
	unset XDG_RUNTIME_DIR
	[[ ! -e $dir ]] || rm -r "$dir"
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$TOOL" "$TMP/tool"
	cp "$O/tests/fixtures/v1" "$TMP/prog"
	start_target "${as_user[@]}" "$TMP/prog" --wait
	await_line ready
	background "${as_user[@]}" "$TMP/tool" attach -pid "$TARGET" -enable plain --for 1h 2>"$TMP/for"
	tool=$!
	wait_for 'grep -qsx "progress 0000000001 0000000001" '"$dir"'/* || ! kill -0 '"$tool"
	if ! kill -KILL "$tool" 2>/dev/null; then
		grep -q 'Yama\|/run/user' "$TMP/for" && skip "$(<"$TMP/for")"
		fail "$(<"$TMP/for")"
	fi
	wait "$tool" || :
	# About somebody else's process it is not asked.
	start_other_and_claim "$dir"
	doctor 1
	says "^plain: left on by ocaml-probes pid $tool, which was killed"
	doctor 0 --fix
	matches "$("$TOOL" info -pid "$TARGET")" "plain disabled"
	rm -r "$dir"
}

# A journal in the user's directory DIR that claims something about a process of root's.
start_other_and_claim() { # DIR
	local mine=$TARGET other
	start_target "$O/tests/fixtures/v1" --wait
	await_line ready
	other=$TARGET
	"$TOOL" attach -pid "$other" -enable plain
	sed "s/^process .*/process $other $(start_of "$other")/" "$1/$mine".* >"$1/$other.1.1"
	grep -q "^process $other " "$1/$other.1.1" || fail "$(<"$1/$other.1.1")"
	chown 65532:65532 "$1/$other.1.1"
	doctor 0
	eq "$(<"$TMP/doctor")" "" "what a user says about root's process"
	TARGET=$mine
	rm "$1/$other.1.1"
}

test_mistakes() {
	check_error 2 "pid is required" doctor
	check_error 2 "no such option" doctor -pid 1 --sites
	check_error 5 "no such process" doctor -pid 4194304
	check_error 2 "no such option" info -pid 1 --fix
	TARGET=$$
	doctor 0
	matches "$(<"$TMP/doctor.err")" "has no OCaml probes"
}

# A tool with sanitizers starts eight times slower: the long tests run these cases (tests/parts.py, builds).
not_in asan test_sites_off_with_semaphore test_sigkill_of_the_tool test_sigkill_of_the_repair test_gdb_attached test_bpftrace_attached

run_tests "$@"
