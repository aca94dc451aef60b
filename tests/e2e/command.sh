#!/usr/bin/env bash
# attach ... -- COMMAND: it is measured while the command runs, and the command's end is the tool's.
#
# needs: fixtures ocaml/counted ocaml/loop
# smoke: test_exact_while_the_command_runs
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

start_loop() {
	need_counting
	start_target "$(own_copy "$O/tests/ocaml/loop")"
	await_line ready
}

# Run the tool; its status is in STATUS, what it prints in $TMP/out and $TMP/err.
attach() { # ARG...
	STATUS=0
	"$TOOL" attach "$@" >"$TMP/out" 2>"$TMP/err" || STATUS=$?
}

# All that the program does at the command's word is counted, the first hit and the last.
test_exact_while_the_command_runs() {
	need_counting
	start_target "$(own_copy "$O/tests/ocaml/counted")" 5000 2
	await_line ready
	# shellcheck disable=SC2016,SC2154 # for the command; of lib.sh
	IN=${target_fd[$TARGET]} OUT=$(output_of) attach --budget none "$TARGET" --count --json -- bash -c '
		echo go >&"$IN"
		until grep -q "^# in_loop was seen" "$OUT"; do sleep 0.02; done'
	eq "$STATUS" 0 "status: $(<"$TMP/err")"
	quit_target
	cp "$TMP/out" "$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits"
}

# The command finds all probes attached, and gets the tool's input, output and arguments.
test_it_starts_when_all_is_attached() {
	start_loop
	# shellcheck disable=SC2016
	echo input | PID=$TARGET "$TOOL" attach --budget none "$TARGET" --count -- bash -c '
		printf "<%s>" "$0" "$@"; echo; cat; "$TOOL" info "$PID" --sites | grep -c int3; echo error >&2' \
		'a b' '' -- -pid >"$TMP/out" 2>"$TMP/err"
	eq "$(head -n 3 "$TMP/out")" "<a b><><--><-pid>
input
$("$TOOL" info "$TARGET" --sites | sed 1d | wc -l)" "what the command prints"
	eq "$(sed -n 4p "$TMP/out" | cut -c1-6)" "total," "the totals come after it"
	grep -qx error "$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(int3_count "$TARGET")" 0 "int3 left"
}

test_its_end_is_the_tools() {
	start_loop
	attach --budget none "$TARGET" --count -- sh -c 'exit 7'
	eq "$STATUS/$(head -c 6 "$TMP/out")" "7/total," "a status"
	attach "$TARGET" --count -- true
	eq "$STATUS" 0 "no status"
	# shellcheck disable=SC2016
	attach "$TARGET" --count -- sh -c 'kill -TERM $$'
	eq "$STATUS/$(head -c 6 "$TMP/out")" "143/total," "a signal"
	attach "$TARGET" --count -- nosuchcommand
	eq "$STATUS $(tail -n 1 "$TMP/err")" "127 ocaml-probes: nosuchcommand: No such file or directory"
	eq "$(<"$TMP/out")" "" "totals of a command that did not run"
	attach "$TARGET" --count -- /etc/passwd
	eq "$STATUS $(tail -n 1 "$TMP/err")" "126 ocaml-probes: /etc/passwd: Permission denied"
	eq "$(int3_count "$TARGET")" 0 "int3 left"
}

# -o FILE: standard output has what the command writes and nothing else, and FILE has the data, in each format.
test_output_in_a_file() {
	local format end name hits
	need_counting
	for format in '' --json --csv; do
		start_target "$(own_copy "$O/tests/ocaml/counted")" 50 2
		await_line ready
		# shellcheck disable=SC2016,SC2086,SC2154 # for the command; words; of lib.sh
		IN=${target_fd[$TARGET]} OUT=$(output_of) attach --budget none "$TARGET" --count --all $format -o "$TMP/counts" -- \
			bash -c 'echo go >&"$IN"; until grep -q "^# in_loop was seen" "$OUT"; do sleep 0.02; done; echo done'
		eq "$STATUS/$(<"$TMP/out")" "0/done" "standard output with $format: $(<"$TMP/err")"
		finds -Fx "ocaml-probes: $TMP/counts: written" "$TMP/err"
		quit_target
		expected_hits >"$TMP/books"
		while read -r name hits; do
			case $format in
			--json) has_text "$TMP/counts" "\"name\":\"$name\",\"hits\":${hits}[,}]" ;;
			--csv) has_text "$TMP/counts" ",$name,([^"$'\n'"]*,)?$hits," ;;
			*) has_text "$TMP/counts" $'\n'"$name +$hits " ;;
			esac || fail "$name $hits: $(<"$TMP/counts")"
		done <"$TMP/books"
	done
	start_target "$TMP/counted" 50 2
	await_line ready
	# An interrupted command: what was counted until then is in the file.
	# shellcheck disable=SC2016
	attach --budget none "$TARGET" --count -o "$TMP/counts" -q -- sh -c 'kill -TERM $$'
	eq "$STATUS/$(<"$TMP/out")/$(head -c 6 "$TMP/counts")" "143//total," "a command that a signal ends"
	eq "$(<"$TMP/err")" "" "what -q says"
	for end in "$TMP"/*.tmp; do
		[[ ! -e $end ]] || fail "left: $end"
	done
}

# A FILE that cannot be created is refused before the command starts, and before the process is touched.
test_output_that_cannot_be_written() {
	local before
	start_loop
	before=$(memory_of "$TARGET")
	echo old >"$TMP/old"
	mkfifo "$TMP/fifo"
	refused() { # STATUS TEXT FILE
		check_error "$1" "$2" attach "$TARGET" -enable alpha --count -o "$3" -- touch "$TMP/started"
	}
	refused 2 "^ocaml-probes: $TMP/nosuch/out: No such file or directory$" "$TMP/nosuch/out"
	refused 2 "^ocaml-probes: $TMP: Is a directory$" "$TMP"
	refused 2 "^ocaml-probes: $TMP/fifo: not a regular file$" "$TMP/fifo"
	refused 2 "^ocaml-probes: -: a file is needed, not standard output \(\./- is the file of this name\)$" -
	refused 2 "^ocaml-probes: attach: -o: the name of the file is empty" ""
	check_error 2 "^ocaml-probes: attach: -o: given twice" attach "$TARGET" --count -o "$TMP/a" -o "$TMP/b"
	check_error 2 "^ocaml-probes: attach: -o '$TMP/a': requires --count" attach "$TARGET" -enable alpha -o "$TMP/a"
	check_error 2 "^ocaml-probes: attach: --keep excludes -o" attach "$TARGET" --count --keep it -o "$TMP/a"
	# Other errors leave the old file as it was, and no other.
	check_error 2 "'nosuch': no such probe" attach "$TARGET" --count=nosuch -o "$TMP/old" -- touch "$TMP/started"
	eq "$(cd "$TMP" && ls -- *old* started a b 2>/dev/null)" "old" "files"
	eq "$(<"$TMP/old")" "old"
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

# Signals for the tool reach the command, and the tool waits for its end.
test_signals_are_passed_on() {
	local signal pid status
	start_loop
	for signal in TERM INT HUP QUIT USR1 USR2; do
		: >"$TMP/said"
		# shellcheck disable=SC2016
		background "$TOOL" attach --budget none "$TARGET" --count -q -- env --default-signal bash -c \
			'trap "echo got; exit 5" "$0"; echo ready; while :; do sleep 0.02; done' "$signal" >"$TMP/said" 2>&1
		pid=$!
		wait_for 'grep -qx ready "$TMP/said"'
		kill -"$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		eq "$status $(sed -n 2p "$TMP/said") $(sed -n 3p "$TMP/said" | cut -c1-6)" "5 got total," "SIG$signal"
	done
	# A command that is stopped is waited for.
	# shellcheck disable=SC2016
	attach "$TARGET" --count -q -- bash -c '(while ! grep -q "^State:.T" /proc/$$/status; do sleep 0.02; done; kill -CONT $$) & kill -STOP $$; exit 6'
	eq "$STATUS" 6 "status of a command that was stopped"
}

# A terminal's Ctrl-C reaches both: the command gets it once, and the totals are printed.
test_ctrl_c() {
	need_command strace
	start_loop
	cat >"$TMP/press.py" <<'END'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b""
while True:
    try:
        part = os.read(fd, 4096)
    except OSError:
        break
    if b"ready" in seen + part and b"ready" not in seen:
        os.write(fd, b"\x03")
    seen += part
print(seen.decode().replace("\r", ""), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
	# Two signals of a kind may become one on their way, so look at what the tool sends.
	# shellcheck disable=SC2016
	python3 "$TMP/press.py" strace -qq -e trace=kill -e signal=none -o "$TMP/strace" "$TOOL" attach "$TARGET" --count -- \
		bash -c 'trap "((n++))" INT; echo ready; for i in {1..20}; do sleep 0.02; done; echo "INT: $n"; exit 8' >"$TMP/out"
	eq "$(<"$TMP/strace")" "" "signals that the tool has sent"
	grep -q 'INT: 1$' "$TMP/out" || fail "$(<"$TMP/out")"
	eq "$(grep -c '^total, ' "$TMP/out") $(tail -n 1 "$TMP/out" | xargs)" "1 8" "$(<"$TMP/out")"
}

# The tool's own errors are told as well; the command runs to its end.
test_what_ends_before_the_command() {
	start_loop
	OUT=$TMP/out attach "$TARGET" --count --budget 0.000001% -- sh -c 'until grep -q "^CPU overhead" "$OUT"; do sleep 0.05; done; echo end'
	eq "$STATUS $(tail -n 1 "$TMP/out")" "7 end" "over budget"
	attach "$TARGET" --count --budget 0.000001% -- sh -c 'sleep 0.5; exit 9'
	eq "$STATUS" 9 "over budget, and the command fails"
	# shellcheck disable=SC2016
	PID=$TARGET attach --budget none "$TARGET" --count=gamma -- bash -c '
		# How often the tool has waited: it waits again when it has seen the end of the target.
		waits() { sed -n "s/^voluntary_ctxt_switches:.//p" "/proc/$PPID/status"; }
		kill -STOP "$PPID"
		until grep -q "^State:.T" "/proc/$PPID/status"; do sleep 0.02; done
		before=$(waits)
		kill "$PID"
		while kill -0 "$PID" 2>/dev/null && ! grep -qs "^State:.Z" /proc/$PID/status; do sleep 0.02; done
		kill -CONT "$PPID"
		until [[ $(waits) -gt $before ]]; do sleep 0.02; done
		echo end; exit 3'
	eq "$STATUS $(head -n 1 "$TMP/out")" "3 end" "the target has ended"
	grep -qx "ocaml-probes: pid $TARGET has ended" "$TMP/err" || fail "$(<"$TMP/err")"
	grep -q '^gamma ' "$TMP/out" || fail "$(<"$TMP/out")"
}

# Handlers are on while the command runs.
test_handlers() {
	local before
	start_loop
	before=$(memory_of "$TARGET")
	PID=$TARGET attach "$TARGET" -enable alpha,gamma -- bash -c '"$TOOL" info "$PID"; exit 4'
	eq "$STATUS $(xargs <"$TMP/out")" "4 alpha enabled beta disabled gamma enabled"
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

test_mistakes() {
	start_loop
	check_error 2 "nothing to do" attach "$TARGET" -- touch "$TMP/touched"
	check_error 2 "--for and a command are mutually exclusive" attach "$TARGET" --count --for 1s -- touch "$TMP/touched"
	check_error 2 "--keep and a command are mutually exclusive" attach "$TARGET" --count --keep x -- touch "$TMP/touched"
	check_error 2 "no such probe" attach "$TARGET" --count=nosuch -- touch "$TMP/touched"
	check_error 2 "'touch': unexpected" info "$TARGET" -- touch "$TMP/touched"
	[[ ! -e $TMP/touched ]] || fail "the command has run"
}

run_tests "$@"
