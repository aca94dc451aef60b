#!/usr/bin/env bash
# Tools killed in the middle of an update: what doctor says of it is what the process has, and --fix
# undoes or completes it. What the process has is read without the tool.
#
# needs: fixtures ocaml
# takes: 80 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

TEST_TIMEOUT=1200
MANY=4000

truth() { # WHAT [ARG...]
	local what=$1
	shift
	"$O/tests/fixtures/binaries/truth" "$what" "$TARGET" "$TMP/places" "$@"
}

# A program with $MANY probes, each with a site. It has a seccomp filter, so that it is written to byte by
# byte: stores of its own would end by themselves (stores_kills.sh).
start_many() {
	gcc -std=gnu11 -D_GNU_SOURCE -O2 -pthread -fPIE -pie -fvisibility=hidden -DSITES=$MANY -DNAMES=$MANY \
		-o "$TMP/many" "$ROOT/tools/bench/sites.S" "$ROOT/tools/bench/toggle_target.c"
	start_target "$TMP/many" filtered
	await_exe "$TMP/many"
	wait_for '[[ $("$TOOL" info -pid "$TARGET" | wc -l) -eq $MANY ]]'
	# The second half of the semaphore is OCaml's.
	BIAS=$(bias_of "$TARGET")
	readelf -nW "$TMP/many" | awk '
		/Name: / { name = $2 }
		/Location: / { sub(",", "", $2); print name, $2, $NF }' |
		while read -r name site semaphore; do
			printf '%s 0x%x 0x%x\n' "$name" $((site + BIAS)) $((semaphore + BIAS + 2))
		done >"$TMP/places"
	eq "$(wc -l <"$TMP/places")" $MANY "sites"
}

# A fixture: several sites and counters a probe, sites without code, one probe on from the start.
start_fixture() { # VARIANT
	# A copy, so that nobody else's uprobes are in it.
	cp "$O/tests/fixtures/$1" "$TMP/fixture"
	start_target "$TMP/fixture" --wait
	await_line ready
	BIAS=$(bias_of "$TARGET")
	"$TMP/fixture" --expect | while read -r _ site _ semaphore _ name _; do
		[[ $site = 0x* || $site = 0 ]] || continue
		[[ $((site)) -eq 0 ]] || site=$((site + BIAS))
		[[ $name != args ]] || name=.
		printf '%s 0x%x 0x%x\n' "$name" "$site" $((semaphore + BIAS))
	done >"$TMP/places"
}

# Keep what the probes are now in BEFORE, and what ACTION makes of them in AFTER; they stay as they
# were, because OPPOSITE takes it back.
learn() { # ACTION OPPOSITE
	truth save "$TMP/before"
	"$TOOL" attach -pid "$TARGET" "$1"
	truth save "$TMP/after"
	"$TOOL" attach -pid "$TARGET" "$2"
	eq "$(truth tell "$TMP/before" "$TMP/after" | cut -d' ' -f2-)" "0 0" "what $2 leaves of $1"
}

# Doctor must say what is true. Sets CHANGED, DONE and HALF, and INTERRUPTED if there is something to
# be undone or completed.
check_report() {
	local status=0
	read -r CHANGED DONE HALF < <(truth tell "$TMP/before" "$TMP/after")
	INTERRUPTED=
	if [[ $HALF -gt 0 || ($DONE -gt 0 && $DONE -lt $CHANGED) ]]; then
		INTERRUPTED=1
	fi
	doctor || status=$?
	if [[ $INTERRUPTED ]]; then
		eq "$status" 1 "status of doctor"
		eq "$(sed -n 's/^\(an update .* after [0-9]*\), when pid .*/\1/p' "$TMP/doctor")" \
			"an update of $CHANGED probes was interrupted after $DONE" "what doctor says, $HALF are half done"
	else
		eq "$status$(<"$TMP/doctor")" 0 "status and findings, $DONE of $CHANGED are done"
	fi
}

# Undo or complete it, and look at every byte.
check_fix() { # undo|complete|''
	"$TOOL" doctor -pid "$TARGET" "--fix${1:+=$1}" >"$TMP/fixed" || fail "doctor --fix: $(tail "$TMP/fixed")"
	read -r CHANGED DONE HALF < <(truth tell "$TMP/before" "$TMP/after")
	if [[ $1 = complete ]]; then
		eq "$DONE of $CHANGED" "$CHANGED of $CHANGED" "probes that are on after --fix=complete"
	else
		eq "$DONE+$HALF" 0+0 "probes that differ from before after --fix"
	fi
	eq "$(ls "$XDG_RUNTIME_DIR/ocaml-probes")" "" "journals"
	doctor || fail "doctor after --fix: $(head "$TMP/doctor")"
}

# What doctor finds, but for the uprobes of somebody who measures the whole machine meanwhile.
doctor() { # [FLAG...]
	local status=0
	"$TOOL" doctor -pid "$TARGET" "$@" >"$TMP/doctor" || status=$?
	sed -i '/^note: /d' "$TMP/doctor"
	return $status
}

make_runtime() {
	export XDG_RUNTIME_DIR=$TMP/run
	mkdir -m700 "$TMP/run"
}

# Of an update in slices. Many numbers depend on the size of the slices, which depends on the machine: these do not. The first
# pwrite64 may be that of the journal.
MOMENTS=(openat:1 renameat:1 ptrace_seize:1 ptrace_interrupt:1 pwrite64:1 pwrite64:10 pwrite64:500
	process_vm_writev:1 after:process_vm_writev:1 ptrace_detach:1 after:ptrace_detach:1
	ptrace_seize:2 ptrace_interrupt:2 pwrite64:1500 process_vm_writev:2 ptrace_seize:3
	pwrite64:2500 pwrite64:3000 pwrite64:3500 pwrite64:$MANY unlinkat:1 after:unlinkat:1)

test_killed_in_each_phase() {
	local moment interrupted=0 without='' hows=(undo complete '')
	make_runtime
	start_many
	learn -enable-all -disable-all
	for moment in "${MOMENTS[@]}"; do
		kill_at "$moment" "$TOOL" attach -pid "$TARGET" -enable-all
		await_running
		check_report
		if [[ $INTERRUPTED ]]; then
			matches "$(head -1 "$TMP/doctor")" ", when pid [1-9][0-9]* was killed \\("
			check_fix "${hows[interrupted++ % 3]}"
		else
			without+=" $moment"
		fi
		"$TOOL" attach -pid "$TARGET" -disable-all
		check_fix undo
	done
	eq "$without" " openat:1 renameat:1 ptrace_seize:1 ptrace_interrupt:1 pwrite64:1 unlinkat:1 after:unlinkat:1" \
		"kills before and after the work"
}

# Killed at the calls that change anything: at the first of each run of one kind, and some of the others.
kill_at_calls() { # ACTION OPPOSITE
	local call i=0 is attach=("$TOOL" attach -pid "$TARGET")
	list_calls "${attach[@]}" "$1"
	"${attach[@]}" "$2"
	for call in $(choose_calls 5); do
		kill_at "$call" "${attach[@]}" "$1"
		check_report
		is=middle
		if [[ ! $INTERRUPTED ]]; then
			[[ $DONE -eq 0 ]] && is=before || is=after
		fi
		eq "$is" "$(progress_at "$call")" "what a kill at $call leaves, $DONE of $CHANGED are done, $HALF half"
		if ((i++ % 2)) && [[ $INTERRUPTED ]]; then
			check_fix complete
			"${attach[@]}" "$2"
		elif [[ $is != after ]]; then
			check_fix undo
		else
			"${attach[@]}" "$2"
		fi
		rm -f "$XDG_RUNTIME_DIR"/ocaml-probes/.[1-9]*
		eq "$(truth tell "$TMP/before" "$TMP/after" | cut -d' ' -f2-)" "0 0" "what is left of call $call"
	done
}

test_killed_at_chosen_calls() {
	local fixture
	make_runtime
	for fixture in v0 transitional v1 v2; do
		start_fixture "$fixture"
		learn -enable-all -disable-all
		kill_at_calls -enable-all -disable-all
		"$TOOL" attach -pid "$TARGET" -enable-all
		learn -disable-all -enable-all
		kill_at_calls -disable-all -enable-all
		quit_target
	done
}

# Interrupt an update in its middle: its first slices are done, and the last one is not begun, by its journal.
interrupt() {
	kill_at "pwrite64:$((MANY / 2))" "$TOOL" attach -pid "$TARGET" -enable-all
	read -r CHANGED DONE HALF < <(truth tell "$TMP/before" "$TMP/after")
	((DONE > 0 && DONE < MANY)) || fail "$DONE of $CHANGED are done"
	! grep -aq "^progress.*\(0000000000\|$MANY\)" "$XDG_RUNTIME_DIR"/ocaml-probes/[1-9]* || fail "all slices, or none"
}

# What others switch between the kill and the doctor stays, whichever way it is fixed.
test_others_after_the_kill() {
	local first last
	make_runtime
	start_many
	learn -enable-all -disable-all
	first=$("$TOOL" info -pid "$TARGET" | sed -n '1s/ .*//p')
	last=$("$TOOL" info -pid "$TARGET" | sed -n '$s/ .*//p')
	interrupt
	"$TOOL" attach -pid "$TARGET" -enable "$first,$last"
	! doctor || fail "nothing disagrees"
	grep -q "^an update of $MANY probes was interrupted after $DONE," "$TMP/doctor" || fail "$DONE done, $HALF half: $(head -1 "$TMP/doctor")"
	"$TOOL" doctor -pid "$TARGET" --fix --json >"$TMP/fixed"
	python3 - "$TMP/fixed" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
first = j["findings"][0]
assert (first["kind"], first["probe"], first["repairable"]) == ("interrupted-update", None, True), first
assert j["left"] == [] and j["fixed"]["undone"] > 1000 and j["fixed"]["completed"] == 0, j["fixed"]
PY
	eq "$("$TOOL" info -pid "$TARGET" | grep enabled | xargs)" "$first enabled $last enabled" "what others switched"
	"$TOOL" attach -pid "$TARGET" -disable "$first,$last"
	interrupt
	"$TOOL" attach -pid "$TARGET" -enable "$first,$last"
	"$TOOL" doctor -pid "$TARGET" --fix=complete >"$TMP/fixed"
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$("$TOOL" info -pid "$TARGET" | grep enabled | xargs)" "$first enabled $last enabled" "what others switched"
	"$TOOL" attach -pid "$TARGET" -disable "$first,$last"
	eq "$(truth tell "$TMP/before" "$TMP/after")" "$MANY 0 0" "what is left"
}

# Two at once, of which one is killed: what the other has done is not undone. Only of the slice that
# was begun can its doings be taken for those of the one that was killed.
test_two_at_once() {
	local other i how want finished begun
	make_runtime
	start_many
	learn -enable-all -disable-all
	for i in {0..11}; do
		# It is traced, too, and so about as fast.
		"$KILL_AT" "$TMP/stops" stops "$TOOL" attach -pid "$TARGET" -enable-all &
		other=$!
		# Sites that the other has switched are not written again; semaphores are.
		kill_at "after:process_vm_writev:$((i % 3 + 1))" "$TOOL" attach -pid "$TARGET" -enable-all
		wait "$other"
		! doctor || fail "nothing is interrupted"
		matches "$(wc -l <"$TMP/doctor") $(<"$TMP/doctor")" "^1 an update of $MANY probes was interrupted after [0-9]+, when pid [0-9]+ was killed"
		read -r finished begun < <(sed -n 's/^progress 0*\([0-9]\+\) 0*\([0-9]\+\)$/\1 \2/p' "$TMP/run/ocaml-probes"/[1-9]*)
		how=undo want=1
		((i % 2)) || how=complete want=2
		"$TOOL" doctor -pid "$TARGET" --fix=$how >"$TMP/fixed"
		[[ $(truth other_than $want) -le $((begun - finished)) ]] ||
			fail "$how: counters other than $want: $(truth other_than $want), in doubt are $((begun - finished))"
		eq "$(ls "$TMP/run/ocaml-probes")" "" "journals"
		while [[ $(truth other_than 0) != 0 ]]; do
			"$TOOL" attach -pid "$TARGET" -disable-all
		done
	done
}

# A repair that is killed can be repeated, and the other way round.
test_killed_while_it_repairs() {
	local moment i=0
	make_runtime
	start_many
	learn -enable-all -disable-all
	for moment in ptrace_seize:1 pwrite64:1 pwrite64:300 pwrite64:900 process_vm_writev:1 after:process_vm_writev:1 pwrite64:1900; do
		interrupt
		kill_at "$moment" "$TOOL" doctor -pid "$TARGET" --fix
		check_report
		eq "$INTERRUPTED" 1 "interrupted, after a kill at $moment"
		if ((i++ % 2)); then
			check_fix complete
			"$TOOL" attach -pid "$TARGET" -disable-all
		else
			check_fix undo
		fi
		eq "$(truth tell "$TMP/before" "$TMP/after")" "$MANY 0 0" "what is left"
	done
}

# Where no journal can be written the update is done, and -verbose says so.
test_no_journal() {
	local dir=/tmp/ocaml-probes-65530 as_user=(setpriv --reuid 65530 --regid 65530 --clear-groups)
	need_root
	need_command setpriv
	unset XDG_RUNTIME_DIR
	rm -rf "$dir"
	touch "$dir"
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$TOOL" "$TMP/tool"
	cp "$O/tests/fixtures/v1" "$TMP/prog"
	start_target "${as_user[@]}" "$TMP/prog" --wait
	await_line ready
	"${as_user[@]}" "$TMP/tool" attach -pid "$TARGET" -enable-all >"$TMP/out" 2>&1
	eq "$(<"$TMP/out")" "" "what it says"
	[[ $("$TOOL" info -pid "$TARGET") != *disabled* ]] || fail "not all on"
	"${as_user[@]}" "$TMP/tool" attach -pid "$TARGET" -disable-all -verbose >"$TMP/out" 2>&1
	matches "$(<"$TMP/out")" "no undo journal: doctor cannot undo this if the tool is killed: $dir"
	rm "$dir"
}

test_nothing_is_left_behind() {
	make_runtime
	start_fixture v0
	"$TOOL" attach -pid "$TARGET" -enable-all
	"$TOOL" attach -pid "$TARGET" -disable-all -atomically
	"$TOOL" attach -pid "$TARGET" -enable-all -force
	check_fails 2 attach -pid "$TARGET" -enable everywhere,nosuch
	eq "$(ls -A "$TMP/run/ocaml-probes")" "" "journals"
	# Nothing but folders and files of our own.
	eq "$(stat -c %a "$TMP/run/ocaml-probes")" 700 "rights"
}

check_fails() { # STATUS ARG...
	local status=0 want=$1
	shift
	"$TOOL" "$@" 2>"$TMP/err" || status=$?
	eq "$status" "$want" "status of $*"
}

test_mistakes() {
	start_fixture v1
	check_error 2 "-fix 'both': not undo or complete" doctor -pid "$TARGET" --fix=both
	check_error 2 "-fix '': not undo or complete" doctor -pid "$TARGET" --fix=
	check_error 2 "mutually exclusive" doctor -pid "$TARGET" --fix=undo --fix=complete
	check_error 2 "mutually exclusive" doctor -pid "$TARGET" --fix=complete --fix
	"$TOOL" doctor -pid "$TARGET" --fix=complete
	"$TOOL" doctor -pid "$TARGET" -fix=undo
}

run_tests "$@"
