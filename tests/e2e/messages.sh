#!/usr/bin/env bash
# Messages that name what to do: what was probably meant, what is missing, and what is in the way.
#
# needs: fixtures ocaml/loop
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

NOBODY=65534

start_loop() {
	start_target "$(own_copy "$O/tests/ocaml/loop")"
	await_line ready
}

# Like check_error, and the hint is HINT.
hinted() { # STATUS TEXT HINT ARG...
	local hint=$3
	check_error "$1" "$2" "${@:4}"
	eq "$(sed -n 's/^hint: //p' "$TMP/err")" "$hint" "hint of ${*:4}"
}

test_waiting_for_a_process() {
	local program
	need_counting
	program=$(own_copy "$O/tests/ocaml/loop")
	"$TOOL" attach --exe "$program" --count --for 50ms >"$TMP/out" 2>"$TMP/err"
	eq "$(<"$TMP/err")" "ocaml-probes: counting 3 probes ($(notes_of "$program" | wc -l) sites) of every process that runs it (none now; waiting)"
	start_loop
	"$TOOL" attach --exe "$program" --count --for 50ms >"$TMP/out" 2>"$TMP/err"
	eq "$(<"$TMP/err")" "ocaml-probes: counting 3 probes ($(notes_of "$program" | wc -l) sites) of every process that runs it"
}

test_patterns_for_names() {
	start_loop
	hinted 2 "'al\*': no such probe" "-enable-regexp 'al.*'" attach "$TARGET" -enable 'al*'
	hinted 2 "'alph\?': no such probe" "-disable-regexp 'alph.'" attach "$TARGET" -disable 'alph?'
	hinted 2 "'al.\*': no such probe" "-enable-regexp 'al.*'" attach "$TARGET" -enable-pair 'al.*,beta'
	hinted 2 "'a\*': no such probe" "-enable-regexp 'a.*'" trace -prog "$TMP/loop" -enable 'a*'
	# What the hint says works.
	"$TOOL" attach "$TARGET" -enable-regexp 'al.*'
	"$TOOL" info "$TARGET" | finds -x 'alpha enabled'
	hinted 2 "no such probe" "did you mean 'alpha'?" attach "$TARGET" -enable alhpa
	hinted 2 "no such probe" "" attach "$TARGET" -enable nothing_of_the_kind
}

test_alternation() {
	start_loop
	# shellcheck disable=SC2016 # a backquote is meant
	{
		hinted 2 "'x.\*\|b.*': matches no probe" 'alternation in Str'"'"'s syntax is `\|`' attach "$TARGET" -enable-regexp 'x.*|b.*'
		hinted 2 "matches no probe" 'alternation in Str'"'"'s syntax is `\|`' attach "$TARGET" --count='x.*|b.*'
		hinted 2 "matches no OCaml function" 'alternation in Str'"'"'s syntax is `\|`' functions "$TARGET" 'Xx.*|Zz.*'
		hinted 2 "matches no probe" "" attach "$TARGET" -enable-regexp 'x.*\|y.*'
	}
	"$TOOL" attach "$TARGET" -enable-regexp 'x.*\|b.*'
	"$TOOL" info "$TARGET" | finds -x 'beta enabled'
}

test_what_is_missing() {
	start_loop
	check_error 2 "--hist needs --count=NAME" attach "$TARGET" --hist arg0
	check_error 2 "--hist needs --count=NAME" trace -prog "$TMP/loop" --hist arg0
	check_error 2 "--keep needs --count=NAME or --time START,STOP" attach "$TARGET" --keep x
	check_error 2 "--key requires --time" attach "$TARGET" --key arg0
	check_error 2 "nothing to do" attach "$TARGET"
}

# The number is a process, unless there is a file of that name.
test_a_number_beside_diff() {
	start_loop
	check_error 2 "^ocaml-probes: $TMP/nosuch.json: No such file or directory\$" profile --diff "$TMP/nosuch.json" "$TARGET"
	check_error 2 "^ocaml-probes: profile: -pid or --exe is required\$" profile --diff "$TMP/nosuch.json"
	echo 'a 1' >"$TMP/$TARGET"
	echo 'a 1' >"$TMP/old"
	(cd "$TMP" && "$TOOL" profile --diff old "$TARGET") >"$TMP/out" 2>&1 || fail "$(<"$TMP/out")"
	rm "$TMP/$TARGET"
}

test_times_that_are_too_long() {
	start_loop
	check_error 2 "--for '9999h': longer than 366 days" attach "$TARGET" --count -for 9999h
	check_error 2 "--for '9999h': longer than 366 days" attach "$TARGET" --count --for 9999h
	check_error 2 "--for '1us': not a time such as 500ms, 3s, 2m or 1h \(at least 1ms\)" attach "$TARGET" --count --for 1us
}

# A function of a library is counted under the name that the hint has.
test_functions_of_libraries() {
	local library name
	need_counting
	cat >"$TMP/calls.ml" <<-'ML'
		let () = print_endline "ready"
		let () =
		  while true do
		    ignore (input_line stdin);
		    for _ = 1 to 10 do ignore (try Unix.lstat "/" with Unix.Unix_error _ -> exit 1) done;
		    print_endline "done"
		  done
	ML
	(cd "$TMP" && ocamlfind ocamlopt -g -package unix -linkpkg calls.ml -o calls) >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	start_target "$TMP/calls"
	await_line ready
	for name in malloc lstat; do
		hinted 2 "'c:$name': no such function in $TMP/calls" "did you mean 'c:libc.so.6:$name'?" attach "$TARGET" --count="c:$name" --for 10ms
		hinted 2 "'c:$name': no such function in $TMP/calls" "did you mean 'c:libc.so.6:$name'?" attach --exe "$TMP/calls" --count="c:$name" --for 10ms
	done
	# shellcheck disable=SC2016 # a backquote is meant
	hinted 2 "'c:no_such_thing': no such function in" '`nm` lists them, and c:LIBRARY:NAME names those of libraries' \
		attach "$TARGET" --count=c:no_such_thing --for 10ms
	library=$(sed -n "s/^hint: did you mean '\(.*\)'?/\1/p" <<<"$("$TOOL" attach "$TARGET" --count=c:lstat --for 10ms 2>&1)")
	start_measuring --count="$library" --json
	tell more
	await_line 'done'
	stop_measuring
	finds '"name":"c:libc.so.6:lstat","hits":10,' "$TMP/counts"
}

# With -g and stripped: the frame tables tell. Without -g there is nothing to strip.
test_why_there_are_no_lines() {
	local name
	need_counting
	cat >"$TMP/waits.ml" <<-'ML'
		let () = print_endline "ready"
		let () = while true do Unix.sleep 1000 done
	ML
	(cd "$TMP" && ocamlfind ocamlopt -g -package unix -linkpkg waits.ml -o stripped && strip stripped) >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	start_target "$TMP/stripped"
	await_line ready
	hinted 1 "^ocaml-probes: $TMP/stripped was compiled with -g, then stripped: it has no line table\$" \
		"run the unstripped program; functions (fn:NAME) need no line table" annotate "$TARGET" waits.ml --for 10ms
	hinted 1 "^ocaml-probes: 'line:waits.ml:1': $TMP/stripped was compiled with -g, then stripped: it has no line table\$" \
		"run the unstripped program; functions (fn:NAME) need no line table" attach "$TARGET" --count=line:waits.ml:1 --for 10ms
}

# ---- what is in the way -------------------------------------------------------------------------

test_a_kernel_thread() {
	need_root
	hinted 5 "pid 2 \(kthreadd\): is a kernel thread, which has no program" "" info 2
}

# The tracer's pid is 0 where its pid namespace is not seen.
test_a_tracer_in_another_pid_namespace() {
	local outer='' file
	need_root
	need_command gdb
	start_loop
	gdb -q -nx -batch -p "$TARGET" -ex 'shell sleep 1000' >"$TMP/gdb" 2>&1 &
	wait_for '! grep -q "TracerPid:.0$" "/proc/'"$TARGET"'/status"'
	check_error 6 "is being traced by pid [0-9]+ \(gdb\)" attach "$TARGET" -enable alpha
	# shellcheck disable=SC2016
	TARGET_START=$TMP/loop unshare --pid --fork --mount-proc bash -c '
		"$TARGET_START" >"$TMP/inner" < <(exec sleep 1000) & inner=$!
		until grep -qx ready "$TMP/inner"; do sleep 0.02; done
		echo "$inner" >"$TMP/pid"
		until [[ -e $TMP/traced ]]; do sleep 0.02; done
		"$TOOL" attach "$inner" -enable alpha; echo "$?" >"$TMP/status"' >"$TMP/out" 2>"$TMP/err" &
	wait_for '[[ -s $TMP/pid ]]'
	for file in /proc/[0-9]*/status; do
		[[ ! ${file%/status}/exe -ef $TMP/loop ]] || ! grep -qs "^NSpid:.*[[:space:]]$(<"$TMP/pid")\$" "$file" ||
			outer=$(basename "${file%/status}")
	done
	gdb -q -nx -batch -p "$outer" -ex 'shell sleep 1000' >"$TMP/gdb2" 2>&1 &
	wait_for '! grep -q "TracerPid:.0$" "/proc/'"$outer"'/status"'
	: >"$TMP/traced"
	wait_for '[[ -s $TMP/status ]]'
	eq "$(<"$TMP/status")" 3 "status: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'may not be traced, despite CAP_SYS_PTRACE: perhaps a tracer in another pid namespace holds it, or a security module'
	matches "$(<"$TMP/err")" 'hint: run outside of the pid namespace, where TracerPid'
	[[ $(<"$TMP/err") != *sudo* ]] || fail "$(<"$TMP/err")"
}

test_root_without_the_capability() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	own_copy "$O/tests/ocaml/loop" >/dev/null
	start_target setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups "$TMP/loop"
	await_line ready
	setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$TOOL" info "$TARGET" >"$TMP/out" 2>"$TMP/err" &&
		fail "root without CAP_SYS_PTRACE: $(<"$TMP/out")"
	eq "$(sed -n 's/^hint: //p' "$TMP/err")" \
		"run with CAP_SYS_PTRACE, which this root lacks (in a container: --cap-add SYS_PTRACE)" "$(<"$TMP/err")"
}

# sudo cannot help where no program gains privileges.
test_no_new_privileges() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$TMP"
	start_loop
	as_nobody=(setpriv "--reuid=$NOBODY" "--regid=$NOBODY" --clear-groups --bounding-set=-all --inh-caps=-all)
	"${as_nobody[@]}" "$TMP/ocaml-probes" info "$TARGET" 2>"$TMP/err" && fail "nobody may look"
	eq "$(<"$TMP/err")" "ocaml-probes: pid $TARGET (loop): belongs to uid 0, you are uid $NOBODY
hint: run as that user, or with CAP_SYS_PTRACE (e.g. sudo)"
	"${as_nobody[@]}" --no-new-privs "$TMP/ocaml-probes" info "$TARGET" 2>"$TMP/err" && fail "nobody may look"
	eq "$(sed -n 's/^hint: //p' "$TMP/err")" \
		"run as that user, or with CAP_SYS_PTRACE, from another session: no_new_privs is set in this one, so sudo has no effect"
}

# ---- what is not read ---------------------------------------------------------------------------

# An operand of a fixture's note, of as many characters, and why it is not printed.
check_question_mark() { # OPERAND OTHER WHY
	local fixture=$TMP/fixture
	sed "s/$1/$2/" "$O/tests/fixtures/values" >"$fixture"
	! cmp -s "$O/tests/fixtures/values" "$fixture" || fail "nothing was changed"
	chmod +x "$fixture"
	start_target "$fixture" --wait
	await_line ready
	background "$TOOL" attach --budget none "$TARGET" --print places --limit 0 >"$TMP/out" 2>"$TMP/err"
	MEASURING=$!
	wait_for 'has_text "$TMP/err" "measuring 1 probe"'
	tell 'go 2'
	await_line 'done'
	kill -INT "$MEASURING"
	wait "$MEASURING"
	eq "$(grep -c ' places .* ? ' "$TMP/out")" 2 "$(<"$TMP/out")"
	eq "$(sed 1d "$TMP/err")" "ocaml-probes: places: ? is arg$(grep -m1 ' places ' "$TMP/out" |
		awk '{ for (i = 5; i <= NF; i++) if ($i == "?") print i - 5 }'), $3"
	tell quit
}

test_why_a_question_mark() {
	need_counting
	check_question_mark '8@$5 8@(%rsp)' '8@sy 8@(%rsp)' "whose place cannot be read (8@sy)"
	rm "$TMP/fixture"
	check_question_mark '8@%rax 8@$5 8@(%rsp)' '8@%rax 8@$5 8f@%xmm1' \
		"which is in a floating-point register at the probe, which the kernel does not show (8f@%xmm1)"
}

run_tests "$@"
