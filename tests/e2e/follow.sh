#!/usr/bin/env bash
# Which processes and files are measured: several, those to come, children, plugins, from the first
# instruction; and how it ends.
#
# needs: fixtures ocaml/bare_host ocaml/counted ocaml/forking ocaml/loop
# smoke: test_by_process
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

COUNTED=$O/tests/ocaml/counted
HOST=$O/tests/fixtures/binaries

# Run a `counted` from start to end. Sets TARGET.
run_counted() { # ITERATIONS
	start_target "$COUNTED" "$1" 2
	await_line ready
	tell go
	await_line '# in_loop was seen.*' 60
	quit_target
}

hits_of() { # PROBE
	totals | sed -n "s/^$1 //p"
}

test_several_processes() {
	local pids=() i
	need_counting
	for i in 1 2 3; do
		start_target "$COUNTED" $((i * 1000)) 2
		await_line ready
		pids+=("$TARGET")
	done
	start_measuring -pid "${pids[0]}" -pid "${pids[1]}" --count --json
	grep -q 'of 2 processes' "$TMP/counting.err"
	for i in 0 1 2; do
		tell go "${pids[i]}"
		await_line '# in_loop was seen.*' 60 "${pids[i]}"
	done
	stop_measuring
	eq "$(hits_of in_loop)" $((2 * (1000 + 2000))) "hits of the two"
	grep -q '"passed_over":[1-9]' "$TMP/counts" || fail "the third's were not passed over"
	start_measuring -pid "${pids[0]}" -pid "${pids[1]}" --count
	kill -KILL "${pids[0]}" "${pids[1]}"
	wait "$COUNTING"
	grep -q 'all 2 processes have ended' "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	eq "$(int3_count "${pids[2]}")" 0 "int3 in the third"
	eq "$(raised_semaphores "${pids[2]}")" 0 "semaphores in the third"
}

test_by_process() {
	local first
	need_counting
	start_target "$COUNTED" 1000 2
	await_line ready
	first=$TARGET
	start_measuring --exe "$COUNTED" --count=in_loop,tail --by-process --csv
	tell go "$first"
	await_line '# in_loop was seen.*' 60 "$first"
	quit_target "$first"
	run_counted 500
	stop_measuring
	eq "$(awk -F, '$4 == "probe" { print $5, $9, $11 }' "$TMP/counts" | sort)" \
		"$(printf 'in_loop %s 2000\nin_loop %s 1000\ntail %s 2000\ntail %s 1000\n' \
			"$first" "$TARGET" "$first" "$TARGET" | sort)"
}

# When one of the processes has ended its number may be a stranger's, who runs the same program.
test_a_number_that_is_used_again() {
	local first
	need_counting
	is_in_namespace || return 0
	start_target "$COUNTED" 1000 2
	await_line ready
	first=$TARGET
	start_target "$COUNTED" 1 2
	await_line ready
	start_measuring -pid "$first" -pid "$TARGET" --count --json
	tell go "$first"
	await_line '# in_loop was seen.*' 60 "$first"
	quit_target "$first"
	printf 'go\nquit\n' >"$TMP/orders"
	echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
	"$COUNTED" 500 2 <"$TMP/orders" >"$TMP/stranger" &
	eq $! "$first" "the stranger's pid"
	wait $!
	stop_measuring
	eq "$(hits_of in_loop)" 2000 "hits"
	grep -q '"passed_over":[1-9]' "$TMP/counts" || fail "the stranger's were not passed over"
}

# The program would take the number of one for that of another.
test_processes_of_two_pid_namespaces() {
	local first
	need_counting
	is_in_namespace || return 0
	start_target "$COUNTED" 1 2
	await_line ready
	first=$TARGET
	start_target unshare --pid --fork --kill-child "$COUNTED" 1 2
	await_line ready
	check_error 2 "process [0-9]+: is in another pid namespace" \
		attach -pid "$first" -pid "$(pgrep -P "$TARGET")" --count
	"$TOOL" attach -pid "$(pgrep -P "$TARGET")" --count --for 100ms >"$TMP/out"
}

# Nobody runs it yet; then several do, one after another and at once; a copy is another program.
test_processes_to_come() {
	need_counting
	cp "$COUNTED" "$TMP/copy"
	start_measuring --exe "$TMP/copy" --count --json
	COUNTED=$TMP/copy run_counted 1000
	COUNTED=$TMP/copy run_counted 2000
	run_counted 4000
	stop_measuring
	eq "$(hits_of in_loop)" $((2 * (1000 + 2000))) "hits"
	eq "$(hits_of in_functor)" $((2 * (1000 + 2000))) "hits"
}

# A shared library counts in processes that run the program, and in no others.
test_libraries_of_a_program() {
	local other
	need_counting
	mkdir "$TMP/dir"
	cp "$HOST"/host "$TMP/dir/other"
	start_target "$HOST/host"
	await_line ready
	other=$TARGET
	LD_LIBRARY_PATH=$HOST start_target "$TMP/dir/other"
	await_line ready
	start_measuring --exe "$HOST/host" --count --json
	tell 'go 100' "$other"
	await_line 'done' 20 "$other"
	tell 'go 1000'
	await_line 'done'
	stop_measuring
	eq "$(hits_of linked_only)" "$(hits_of host_only)" "hits of library and host"
	[[ $(hits_of linked_only) -gt 0 ]] || fail "none"
	grep -q '"passed_over":[1-9]' "$TMP/counts" || fail "the other's were not passed over"
}

# Children by fork are counted with their parent, and only with --children.
test_forked_children() {
	local plain
	need_counting
	start_target "$O/tests/ocaml/forking" 5 1000
	await_line ready
	start_measuring -pid "$TARGET" --count --json
	tell go
	await_line 'done' 20
	stop_measuring
	plain=$(hits_of work)
	start_measuring -pid "$TARGET" --children --count --json
	tell go
	await_line 'done again' 20
	stop_measuring
	eq "$plain $(hits_of work)" "1000 6000" "hits without and with children"
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# Their numbers are others there.
test_forked_children_in_a_pid_namespace() {
	need_counting
	unshare --pid --fork --mount-proc bash "${BASH_SOURCE[0]}" test_forked_children
}

test_a_plugin_that_comes_later() {
	need_counting
	start_target "$HOST/host"
	await_line ready
	start_measuring -pid "$TARGET" --count --json
	tell "load $HOST/plugin.so"
	await_line 'done'
	wait_for 'has_text "$TMP/counting.err" "newly loaded files"'
	tell 'go 100'
	wait_for '[[ $(grep -c "^done" "$(output_of)") -eq 2 ]]'
	stop_measuring
	eq "$(hits_of plugin_only)" "$(hits_of linked_only)" "hits of plugin and library"
	[[ $(hits_of plugin_only) -gt 0 ]] || fail "none"
}

test_from_the_first_instruction() {
	need_counting
	echo go | "$TOOL" trace -prog "$COUNTED" --count --json -- 1000 2 >"$TMP/all" 2>"$TMP/err"
	grep '^{' "$TMP/all" >"$TMP/counts"
	eq "$(totals)" "$(sed -n 's/^\([A-Za-z0-9_]*\) handler=[0-9]* expected=\([0-9]*\).*/\1 \2/p' "$TMP/all")" "hits"
	# With handlers on, and the program's status.
	echo go | "$TOOL" trace -prog "$COUNTED" -enable-all --wait --count --json -- 1000 2 >"$TMP/all" 2>"$TMP/err"
	grep '^{' "$TMP/all" >"$TMP/counts"
	eq "$(totals)" "$(sed -n 's/^\([A-Za-z0-9_]*\) handler=\([0-9]*\) .*/\1 \2/p' "$TMP/all")" "hits and handlers' runs"
	check_error 2 "no such probe" trace -prog "$COUNTED" --count=nosuch -- 1 1
}

# ---- programs without probes that load some -----------------------------------------------------

# The program without probes, and a plugin that has two; copies, of which no other test sees the
# uprobes.
start_bare_host() {
	need_counting
	BARE=$(own_copy "$O/tests/ocaml/bare_host")
	PLUGIN=$(own_copy "$O/tests/ocaml/plugin.cmxs")
	start_target "$BARE"
	await_line ready
}

# Load the plugin; return when that has been noticed, and SITES of it are measured.
load_plugin() { # SITES
	tell "load $PLUGIN"
	await_line loaded
	wait_for 'grep -q " '"$1"' more sites\?, of newly loaded files" "$TMP/counting.err"'
}

rounds() { # N
	forget_output # the last rounds were done as well
	tell "go $1"
	await_line 'done'
}

test_no_probes_yet() {
	start_bare_host
	start_measuring -pid "$TARGET" --count --time plugin_only,reused --json
	eq "$(grep -c 'no probes yet' "$TMP/counting.err")" 1 "said: $(<"$TMP/counting.err")"
	rounds 100
	load_plugin 2
	rounds 1000
	stop_measuring
	eq "$(totals)" "plugin_only 1000
reused 1000" "hits"
	matches "$(tail -n 1 "$TMP/counts")" '"start":"plugin_only","stop":"reused","count":1000,.*"orphan_starts":0,"orphan_stops":0'
}

test_no_probe_of_that_name_yet() {
	start_bare_host
	start_measuring --exe "$BARE" --count=reused,later --json
	grep -q "$BARE: no probe 'reused' yet" "$TMP/counting.err" || fail "said: $(<"$TMP/counting.err")"
	grep -q "$BARE: no probe 'later' yet" "$TMP/counting.err" || fail "said: $(<"$TMP/counting.err")"
	load_plugin 1
	rounds 1000
	stop_measuring
	eq "$(totals)" "reused 1000" "hits"
	# Where there are probes an unknown name is a mistake.
	check_error 2 "probe 'reusde': no such probe" attach -pid "$TARGET" --count=reusde
	grep -qx "hint: did you mean 'reused'?" "$TMP/err"
}

test_no_probes_yet_in_a_new_program() {
	need_counting
	mkfifo "$TMP/in"
	exec {to}<>"$TMP/in"
	"$TOOL" trace -prog "$O/tests/ocaml/bare_host" --wait --count --json <"$TMP/in" >"$TMP/all" \
		2>"$TMP/counting.err" &
	wait_for 'grep -qx ready "$TMP/all"'
	eq "$(grep -c 'no probes yet' "$TMP/counting.err")" 1 "said: $(<"$TMP/counting.err")"
	echo "load $O/tests/ocaml/plugin.cmxs" >&"$to"
	wait_for 'has_text "$TMP/counting.err" " 2 more sites, of newly loaded files"'
	echo "go 1000" >&"$to"
	echo quit >&"$to"
	wait $!
	grep '^{' "$TMP/all" >"$TMP/counts"
	eq "$(totals)" "plugin_only 1000
reused 1000" "hits"
}

# What is kept is not looked after: it would measure nothing for ever.
test_no_probes_yet_cannot_be_kept() {
	start_bare_host
	"$TOOL" attach -pid "$TARGET" --count --keep "bare$$" >"$TMP/out" 2>"$TMP/err" && fail "kept"
	matches "$(<"$TMP/err")" "'bare$$': $BARE has no probes yet, and a pinned meter does not measure files that are loaded later"
	eq "$(<"$TMP/out")" "" "standard output"
}

# Such a program never has any.
test_no_loader() {
	need_counting
	need_command gcc
	printf '#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); return getchar() < 0; }\n' \
		>"$TMP/static.c"
	gcc -static -o "$TMP/static" "$TMP/static.c"
	start_target "$TMP/static"
	await_line ready
	check_error 2 'can load none: it is statically linked' attach -pid "$TARGET" --count
	check_error 2 'can load none: it is statically linked' attach --exe "$TMP/static" --count=alpha
	check_error 2 'can load none: it is statically linked' trace -prog "$TMP/static" --count
	# The loader, started by itself, has none of its own either, and loads all the same.
	start_target "$(ldd "$O/tests/ocaml/bare_host" | sed -n 's|^.*\(/[^ ]*/ld-linux[^ ]*\).*|\1|p')" "$O/tests/ocaml/bare_host"
	await_line ready
	start_measuring -pid "$TARGET" --count
	stop_measuring
}

test_budget() {
	local status=0
	need_counting
	start_target "$O/tests/ocaml/loop" busy
	await_line ready
	"$TOOL" attach -pid "$TARGET" --count --budget 1% --for 60s >"$TMP/counts" 2>"$TMP/err" || status=$?
	eq "$status" 7 "status"
	grep -q 'exceeds the budget of 1%' "$TMP/err" || fail "$(<"$TMP/err")"
	# Long before the time is over; how long before is a matter of `make bench`.
	matches "$(head -1 "$TMP/counts")" '^total, [0-9.]+ s$'
	awk 'NR == 1 { exit !($2 < 60) }' "$TMP/counts" || fail "$(<"$TMP/counts")"
	eq "$(int3_count "$TARGET")" 0 "int3 left"
	"$TOOL" attach -pid "$TARGET" --count=gamma --budget 100000% --for 300ms >"$TMP/counts"
	grep -q '^CPU overhead: [0-9]* hits/s x [0-9]* ns per hit = ' "$TMP/counts" || fail "$(<"$TMP/counts")"
}

# Whatever the form, the same numbers.
test_forms_agree() {
	need_counting
	start_target "$COUNTED" 1000 2
	await_line ready
	start_measuring -pid "$TARGET" --count --csv
	tell go
	await_line '# in_loop was seen.*' 60
	stop_measuring
	eq "$(awk -F, 'NR == 1 { fields = NF } NF != fields' "$TMP/counts")" "" "rows with another number of fields"
	eq "$(awk -F, '$4 == "probe" { print $5, $11 }' "$TMP/counts")" "$(expected_hits)" "hits, csv"
}

run_tests "$@"
