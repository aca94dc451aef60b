#!/usr/bin/env bash
# `trace`: the probes are on before the program's first instruction.
#
# needs: fixtures ocaml/counted ocaml/loop ocaml/places ocaml/plugin_host
# smoke: test_all_probes_from_the_start test_wait_gives_the_exit_status
# variants: asan
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Start with the given actions; the program's output is in $TMP/run.
trace_counted() { # VARIANT ACTION...
	local variant=$1
	shift
	mkfifo "$TMP/in"
	exec {in_fd}<>"$TMP/in"
	"$TOOL" trace -prog "$O/tests/ocaml/counted$variant" "$@" -- 1000 2 <"$TMP/in" >"$TMP/run"
	printf 'go\nquit\n' >&"$in_fd"
	wait_for 'grep -q "^# in_loop was seen" "$TMP/run"' 20
	rm "$TMP/in"
}

test_all_probes_from_the_start() {
	local variant
	for variant in '' _nopie; do
		trace_counted "$variant" -enable-all
		eq "$(sed -n 's/ handler=\([0-9]*\).*/ \1/p' "$TMP/run")" \
			"$(sed -n 's/ handler=.*expected=\([0-9]*\)/ \1/p' "$TMP/run")" "handlers' runs"
	done
}

test_one_probe_and_no_disabling() {
	trace_counted '' -enable tail -disable in_loop
	eq "$(sed -n 's/ handler=\([0-9]*\) .*/ \1/p' "$TMP/run" | awk '$2 != 0')" "tail 2000"
}

# Probes in the initialisers of modules, which run before anybody could attach.
test_initialisers() {
	"$TOOL" trace -prog "$O/tests/ocaml/places" -enable-all >"$TMP/run"
	holds wait_for 'grep -qx toplevel "$TMP/run"'
}

test_what_cannot_be_started() {
	check_error 2 "No such file" trace -prog "$TMP/nosuch" -enable-all
	check_error 2 "no such probe" trace -prog "$O/tests/ocaml/counted" -enable nosuch
	check_error 2 "has no OCaml probes" trace -prog /bin/true -enable x
	check_error 2 "nothing to do" trace -prog /bin/true
	check_error 2 "-prog is required" trace -enable-all
	check_error 2 "after --" trace -prog /bin/true -enable-all x
	echo 'not a program' >"$TMP/text"
	check_error 1 "Permission denied" trace -prog "$TMP/text" -enable-all
	chmod +x "$TMP/text"
	check_error 1 "Exec format error" trace -prog "$TMP/text" -enable-all
	check_error 1 "Permission denied" trace -prog "$TMP" -enable-all
	# Of a program that is refused not one instruction has run.
	"$TOOL" trace -prog "$O/tests/ocaml/counted" -enable nosuch -- 1 1 >"$TMP/out" 2>&1 </dev/null || :
	eq "$(grep -c ready "$TMP/out" || :)" 0 "output of the refused program"
}

# A file that was cut off anywhere is not started.
test_damaged_files() {
	local file=$O/tests/ocaml/counted bytes n segments
	bytes=$(stat -c %s "$file")
	for n in 0 10 63 64 100 500 900 1000 4096 20000 100000 $((bytes / 2)) $((bytes * 3 / 4)) $((bytes - 1)); do
		head -c "$n" "$file" >"$TMP/cut"
		chmod +x "$TMP/cut"
		check_error 1 "^ocaml-probes: $TMP/cut: (cannot be run: Exec format error|.* past the end of the file)\$" \
			trace -prog "$TMP/cut" -enable-all -- 1 1
		check_error 1 "^ocaml-probes: $TMP/cut: " trace -prog "$TMP/cut" --count -- 1 1
	done
	# One without section headers, of which the kernel knows the segments only.
	segments=0
	while read -r _ n _ _ bytes _; do
		((n + bytes <= segments)) || segments=$((n + bytes))
	done < <(readelf -lW "$file" | grep LOAD)
	cp "$file" "$TMP/cut"
	printf '\0\0\0\0\0\0\0\0' | dd of="$TMP/cut" bs=1 seek=40 conv=notrunc status=none
	printf '\0\0\0\0' | dd of="$TMP/cut" bs=1 seek=60 conv=notrunc status=none
	truncate -s "$segments" "$TMP/cut"
	"$TOOL" trace -prog "$TMP/cut" -enable-all --wait -- 1 1 <<<go >"$TMP/out"
	grep -qx ready "$TMP/out" || fail "the whole file: $(<"$TMP/out")"
	for n in 1000 100000 $((segments - 1)); do
		truncate -s "$n" "$TMP/cut"
		check_error 1 "^ocaml-probes: $TMP/cut: ends after $n bytes, but its segments reach to $segments\$" \
			trace -prog "$TMP/cut" -enable-all -- 1 1
	done
}

# That there are no probes is said on a terminal, and with -verbose, and to no script.
test_programs_without_probes() {
	local command
	need_command script
	start_target sleep 1000
	await_exe "$(type -P sleep)"
	for command in "attach -pid $TARGET -enable-all" "attach -pid $TARGET -disable-all" \
		"trace -prog /bin/true -enable-all --wait"; do
		# shellcheck disable=SC2086 # words
		eq "$("$TOOL" $command 2>&1)" "" "what $command says to a script"
		# shellcheck disable=SC2086
		matches "$("$TOOL" $command -verbose 2>&1)" "pid [0-9]+ \(/[^ ]*\): has no OCaml probes" "$command -verbose"
		matches "$(script -qec "$TOOL $command" /dev/null)" "pid [0-9]+ \(/[^ ]*\): has no OCaml probes" "$command on a terminal"
		eq "$(script -qec "$TOOL $command -quiet" /dev/null)" "" "$command -quiet on a terminal"
	done
}

# --wait: the program's exit status is the tool's, by exit and by signal.
test_wait_gives_the_exit_status() {
	local status
	status=0
	printf 'go\nquit\n' | "$TOOL" trace -prog "$O/tests/ocaml/counted" -enable-all --wait -- 10 1 >"$TMP/run" || status=$?
	eq "$status" 0
	grep -qx "tail handler=10 expected=10" "$TMP/run"
	status=0
	"$TOOL" trace -prog "$O/tests/ocaml/counted" -enable-all --wait -- nonsense 2>/dev/null || status=$?
	eq "$status" 2 "status of an uncaught OCaml exception"
}

# -o FILE: standard output has what the program writes and nothing else, and FILE has the data, in each format.
test_output_in_a_file() {
	local format
	need_bpf
	for format in '' --json --csv; do
		# shellcheck disable=SC2086 # words
		printf 'go\nquit\n' | "$TOOL" trace -prog "$(own_copy "$O/tests/ocaml/counted")" --count --print tail --limit 0 $format \
			-o "$TMP/counts" --wait -- 20 1 >"$TMP/run" 2>"$TMP/err"
		[[ $(grep -vcE '^(ready|#.*|[a-z_0-9]+ handler=[0-9]+ expected=[0-9]+.*)$' "$TMP/run") = 0 ]] ||
			fail "standard output: $(<"$TMP/run")"
		grep -qx "tail handler=0 expected=20" "$TMP/run" || fail "the program's output: $(<"$TMP/run")"
		eq "$(grep -cw tail "$TMP/counts")" "$((20 + 1))" "printed hits and the total with '$format'"
	done
	eq "$(sed -n 's/.*: written$/written/p' "$TMP/err")" "written" "$(<"$TMP/err")"
}

# The program is not started if FILE cannot be created.
test_output_that_cannot_be_written() {
	need_bpf
	check_error 2 "^ocaml-probes: $TMP/nosuch/out: No such file or directory$" \
		trace -prog "$(type -P touch)" --count -o "$TMP/nosuch/out" -- "$TMP/started"
	check_error 2 "^ocaml-probes: trace: -o '$TMP/out': requires --count" trace -prog "$O/tests/ocaml/counted" -enable-all -o "$TMP/out"
	echo old >"$TMP/old"
	check_error 2 "no such probe" trace -prog "$O/tests/ocaml/counted" --count=nosuch -o "$TMP/old" -- 1 1
	eq "$(cd "$TMP" && ls -- *old* started 2>/dev/null)/$(<"$TMP/old")" "old/old" "files"
}

# Signals sent to the tool reach the program; a signal that kills it ends the tool in the same way.
test_wait_forwards_signals() {
	local status child
	for signal in TERM KILL; do
		rm -f "$TMP/run"
		mkfifo "$TMP/in.$signal"
		exec {fd}<>"$TMP/in.$signal"
		env --default-signal=INT,QUIT "$TOOL" trace -prog "$O/tests/ocaml/loop" -enable alpha --wait \
			<"$TMP/in.$signal" >"$TMP/run" &
		TRACE=$!
		wait_for 'grep -qsx ready "$TMP/run"'
		child=$(pgrep -P "$TRACE")
		status=0
		if [[ $signal = TERM ]]; then kill -TERM "$TRACE"; else kill -KILL "$child"; fi
		wait "$TRACE" || status=$?
		# loop ends by itself at SIGTERM.
		eq "$status" "$([[ $signal = TERM ]] && echo 0 || echo 137)" "status after SIG$signal"
		! kill -0 "$child" 2>/dev/null || fail "the program lives on"
	done
}

# Also those that come before the tool has heard that the program runs.
test_wait_forwards_early_signals() {
	local status=0
	need_command strace
	mkfifo "$TMP/in"
	exec {fd}<>"$TMP/in"
	# -D: the tool is the process that we know. It stands still between the start and the waiting.
	# The sanitizer that looks for leaks cannot, in a process that is traced.
	ASAN_OPTIONS=detect_leaks=0 background strace -D -qq -o "$TMP/strace" -e trace=signalfd4 -e inject=signalfd4:delay_enter=2s \
		"$TOOL" trace -prog "$O/tests/ocaml/loop" -enable alpha --wait <"$TMP/in" >"$TMP/run"
	TRACE=$!
	wait_for 'grep -qsx ready "$TMP/run"'
	kill -TERM "$TRACE"
	wait "$TRACE" || status=$?
	eq "$status" 0 "status"
	grep -q '^alpha handler=' "$TMP/run" || fail "the program was not told"
}

# Constructors of shared libraries run before anything of the program itself.
test_constructors_of_shared_libraries() {
	"$TOOL" trace -prog "$O/tests/fixtures/binaries/early" -enable-all --wait >"$TMP/run"
	eq "$(sed 's/handler=\([0-9]*\) hits=\1$/all/' "$TMP/run")" "early/early_only all
early/reused all
end"
	"$TOOL" trace -prog "$O/tests/fixtures/binaries/early" -enable reused --wait >"$TMP/run"
	eq "$(<"$TMP/run")" "early/early_only handler=0 hits=2
early/reused handler=2 hits=2
end"
	check_error 2 "no such probe" trace -prog "$O/tests/fixtures/binaries/early" -enable reuse
}

run_tests "$@"
