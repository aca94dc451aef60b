#!/usr/bin/env bash
# `memprof --memtrace`: the file, read by memtrace_reader.py.
#
# MEMPROF_EVENTS=1000000 compares so many events with the program's books. WHOLE=yes changes every byte of a
# file, which takes some minutes.
#
# needs: fixtures ocaml
# ocaml5: test_domains
# not_on: 5.0.* 5.1.* 5.2.*
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/memprof_lib.sh"
[[ -z ${MEMPROF_EVENTS:-}${WHOLE:-} ]] || TEST_TIMEOUT=1800

reader() { # [--cut] FILE
	python3 "$ROOT/tests/e2e/memtrace_reader.py" "$@"
}

compare() { # BEFORE [BOOKS]
	python3 "$ROOT/tests/e2e/memtrace_compare.py" "$TMP/trace" "$TMP/events" "$1" "$(now)" "${@:2}" >"$TMP/compared" &&
		cat "$TMP/compared" >&2
}

now() {
	date +%s%6N
}

test_books() {
	local before
	before=$(now)
	start_subject books "$TMP/books" "${MEMPROF_EVENTS:-20000}"
	memprof --rate 0.01 --json --quiet --memtrace "$TMP/trace" >"$TMP/events" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	compare "$before" "$TMP/books"
	# All kinds, and all sources.
	matches "$(<"$TMP/compared")" 'alloc [1-9].* collect [1-9].* promote [1-9]'
	matches "$(<"$TMP/compared")" 'minor [1-9].* major [1-9].* external [1-9]'
	reader "$TMP/trace" >"$TMP/lines"
	matches "$(head -n 1 "$TMP/lines")" \
		"\"rate\": 0.01, \"word_bits\": 64, \"executable\": \"${PROGRAM//+/.}\", \"host\": \"$(hostname)\", .*\"pid\": $TARGET, \"context\": \"ocaml-probes [0-9.]+\""
	# It finds what it looks for.
	sed '0,/:[0-9]*-/s//&7/' "$TMP/books" >"$TMP/wrong"
	! compare "$before" "$TMP/wrong" 2>"$TMP/err" || fail "books that are wrong"
	sed '/"promote"/s/"time_ns":[0-9]/&7/' "$TMP/events" >"$TMP/wrong" && mv "$TMP/wrong" "$TMP/events"
	! compare "$before" 2>"$TMP/err" || fail "events that are wrong"
}

# A stack without a frame has one that says so.
test_no_stacks() {
	local before
	before=$(now)
	start_subject leak
	memprof --rate 0.01 --callstack 0 --for 300ms --json --memtrace "$TMP/trace" >"$TMP/events" 2>"$TMP/err"
	compare "$before"
	reader "$TMP/trace" >"$TMP/lines"
	matches "$(sed -n 2p "$TMP/lines")" '"stack": \[\[\["\[no OCaml code\]", "<unknown>", 0, 0, 0\]\]\]'
}

# The threads of several domains enter events: their times are put in order.
test_domains() {
	local before
	before=$(now)
	need_program domains
	start_target "$PROGRAM"
	await_line ready
	memprof --for 1s --rate 0.001 --json --memtrace "$TMP/trace" >"$TMP/events" 2>"$TMP/err"
	compare "$before"
	holds test "$(sed -n 's/.*"domain":\([0-9]*\).*/\1/p' "$TMP/events" | sort -u | wc -l)" -gt 3
}
only_if test_domains is_ocaml_5

test_reader() {
	start_subject leak
	memprof --rate 2e-5 --for 2500ms --memtrace "$TMP/trace" >"$TMP/out"
	python3 "$ROOT/tests/e2e/memtrace_faults.py" ${WHOLE:+--all} "$TMP/trace" >"$TMP/faults"
	cat "$TMP/faults" >&2
	matches "$(<"$TMP/faults")" '^([4-9]|[1-9][0-9]+) packets, ([4-9][0-9][0-9]|[0-9]{4,}) changes$'
}

# Hundredths of a second.
cpu_time_of() { # PID
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# The ring is full while the tool is stopped.
test_lost_events() {
	local tool before
	start_subject shares 0
	background "$TOOL" memprof -pid "$TARGET" --rate 0.004 --for 500ms --memtrace "$TMP/trace" >"$TMP/out" 2>"$TMP/err"
	tool=$!
	wait_for "has_text '$TMP/err' sampling"
	kill -STOP "$tool"
	before=$(cpu_time_of "$TARGET")
	wait_for "(( \$(cpu_time_of $TARGET) > $before + 120 ))" 60
	kill -CONT "$tool"
	wait "$tool"
	matches "$(<"$TMP/out")" '[1-9][0-9]* events lost'
	matches "$(<"$TMP/err")" "$TMP/trace: [1-9][0-9]* events were lost and are missing"
	reader --count "$TMP/trace" >"$TMP/counts"
	matches "$(<"$TMP/counts")" '^alloc [0-9]{4,}, collect [0-9]{4,}, promote '
}

# What had been written stands in another file, and is sound up to the last packet.
test_killed_tool() {
	local tool
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" --rate 0.01 --memtrace "$TMP/trace" >"$TMP/out" 2>"$TMP/err"
	tool=$!
	wait_for "[[ -e $TMP/trace.$tool.tmp && \$(stat -c %s '$TMP/trace.$tool.tmp') -gt 100000 ]]"
	kill -KILL "$tool"
	reader --cut "$TMP/trace.$tool.tmp" >"$TMP/lines"
	finds Subject.leak "$TMP/lines"
	[[ ! -e $TMP/trace ]]
	wait_for "[[ \$(status_of_target) = free ]]"
}

# A file that is there stays as it is, and the program runs on as before.
test_full_disk() {
	local status=0
	start_subject leak
	mkdir "$TMP/small"
	unshare --mount --propagation private bash -c '
		mount -t tmpfs -o size=64k none "$1" && echo old >"$1/trace" || exit 99
		timeout 600 "$2" memprof -pid "$3" --rate 0.1 --for 30s --quiet --memtrace "$1/trace" || status=$?
		ls "$1" && cat "$1/trace"
		exit "${status:-0}"' - "$TMP/small" "$TOOL" "$TARGET" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 1
	eq "$(<"$TMP/err")" "ocaml-probes: $TMP/small/trace: No space left on device"
	eq "$(<"$TMP/out")" "trace
old"
	wait_for "[[ \$(status_of_target) = free ]]"
	quit_target
	eq "$TARGET_STATUS" 0
}

refuses() { # STATUS FILE REASON
	local status=0
	memprof --memtrace "$2" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" "$1"
	eq "$(<"$TMP/err")" "ocaml-probes: $2: $3"
}

# Before the program is touched.
test_not_writable() {
	start_subject leak
	refuses 2 "$TMP/none/trace" "No such file or directory"
	refuses 2 /dev/full "not a regular file"
	refuses 2 "$TMP" "Is a directory"
	eq "$(status_of_target)" free
	# Nothing is left when the profile is refused.
	start_target sleep 100
	await_exe "$(type -P sleep)"
	! memprof --memtrace "$TMP/trace" 2>"$TMP/err" || fail "a profile of sleep"
	eq "$(compgen -G "$TMP/trace*" || :)" ""
}

run_tests "$@"
