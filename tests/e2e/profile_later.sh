#!/usr/bin/env bash
# `profile`: processes that start, and code that is loaded, while the samples are taken.
#
# needs: fixtures ocaml/profiled
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# Profile in the background, the folded form in $TMP/folded.
start_profile() { # FLAG...
	background "$TOOL" profile --folded "$@" >"$TMP/folded" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" "sampling|recording"'
}

end_profile() {
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "status $?: $(<"$TMP/err")"
}

# At least N samples have a stack like PATTERN.
check_samples() { # N PATTERN
	holds awk -v n="$1" -v pattern="$2" '$0 ~ pattern { sum += $NF } END { print sum + 0; exit sum < n }' "$TMP/folded" ||
		fail "fewer than $1 samples like $2: $(cat "$TMP/err" "$TMP/folded")"
}

# The mapping of new code is found at once; only its unwind table is not there yet.
check_reasons() {
	! grep 'truncated: [^a]' "$TMP/folded" || fail "another reason"
}

# The first process waits for all the time, so that each sample is of another one: both are gone before
# the tool reads mappings again.
test_processes() {
	local mine
	need_counting
	mine=$(own_copy "$O/tests/ocaml/profiled")
	start_target "$mine" cpu
	await_line ready
	start_profile --exe "$mine" --hz 1999
	echo "run 0.3" | "$mine" cpu >"$TMP/out"
	echo "run 0.3" | "$mine" cpu >"$TMP/out"
	end_profile
	check_samples 200 '^_start;.*;Profiled\.run;.*;Profiled\.spin;Profiled\.fib'
	! grep 'Profiled\.' "$TMP/folded" | grep -v '^_start;' || fail "stacks without their start"
}

# A process that ends while its mappings are read is none of the file's: the others are profiled.
test_one_ends_meanwhile() {
	local mine first status=0
	need_counting
	need_command strace
	strace -qq -o /dev/null -e trace=none true || skip "strace may not trace here"
	mine=$(own_copy "$O/tests/ocaml/profiled")
	start_target "$mine" cpu
	await_line ready
	first=$TARGET
	start_target "$mine" cpu
	await_line ready
	strace -f -qq -o "$TMP/injected" -P "/proc/$first/maps" -e trace=openat --inject=openat:error=ESRCH \
		"$TOOL" profile --exe "$mine" --for 100ms >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 0 "status: $(<"$TMP/err")"
	finds '(INJECTED)' "$TMP/injected"
	finds "sampling the CPU 99 times a second: 1 process" "$TMP/err"
}

# Does a profile walk the stacks of process PID?
is_profiled() { # PID
	local key
	printf -v key '"key":["0x%02x","0x%02x","0x%02x","0x%02x"]' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24))
	bpftool -j map dump name walk_processes 2>/dev/null | finds -F "$key"
}

# It waits for the first process, and goes on when it has ended.
test_none_runs_yet() {
	local mine
	need_counting
	mine=$(own_copy "$O/tests/ocaml/profiled")
	background "$TOOL" profile --json --exe "$mine" --hz 997 >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" sampling'
	eq "$(<"$TMP/err")" "ocaml-probes: sampling the CPU 997 times a second: 0 processes that run it now, and all later ones; end with Ctrl-C"
	for _ in 1 2 3; do
		echo "run 0.2" | "$mine" cpu >"$TMP/out"
	done
	# One that does nothing: it is profiled, without samples that would tell. It lives until the tool has seen it.
	start_target "$mine" cpu
	await_line ready
	wait_for "is_profiled $TARGET"
	kill -KILL "$TARGET"
	end_profile
	eq "$(grep -o '"processes":[0-9]*' "$TMP/json")" '"processes":4' "processes"
	grep -q '"Profiled.spin"' "$TMP/json" || fail "$(head -c 1000 "$TMP/json")"
}

# Its uprobes are there soon after its start. What it allocates in the moment before its end is not counted.
test_allocation() {
	local mine
	need_counting
	mine=$(own_copy "$O/tests/ocaml/profiled")
	start_profile --exe "$mine" --alloc
	start_target "$mine" alloc
	await_line ready
	wait_for '! has_own_code'
	tell "run 0.5"
	await_line "done"
	end_profile
	grep '^[a-z]* [0-9]*$' "$(output_of)" >"$TMP/books"
	python3 - "$TMP/books" "$TMP/folded" <<'PY' || fail "$(cat "$TMP/err" "$TMP/folded")"
import sys
books = sum(int(l.split()[1]) for l in open(sys.argv[1]))
found = sum(int(l.rsplit(" ", 1)[1]) for l in open(sys.argv[2]))
print(f"{found} words, its books {books}")
sys.exit(abs(found - books) > books / 20)
PY
	eq "$(tail -n +2 "$TMP/err")" "" "warnings"
}

# A process that executes another program is not followed, nor is one of another file.
test_other_programs() {
	local mine
	need_counting
	mine=$(own_copy "$O/tests/ocaml/profiled")
	start_target "$mine" cpu
	await_line ready
	start_profile --exe "$mine" --hz 997
	echo "run 0.3" | "$O/tests/ocaml/profiled" cpu >"$TMP/out"
	end_profile
	eq "$(<"$TMP/folded")" "" "samples of another program"
}

test_plugin() {
	need_counting
	build_plugged
	start_target "$TMP/host"
	await_line ready
	start_profile -pid "$TARGET" --hz 997
	tell "load $TMP/plugged.cmxs"
	await_line loaded
	tell "run 1"
	await_line "done" 30
	end_profile
	check_samples 200 '^_start;.*;Host\.obey;Plugged\.\(fun\);Plugged\.start;Plugged\.Inner\.spin'
	check_reasons
}

# Python loads a library that it is told to load.
test_library() {
	need_counting
	start_target /usr/bin/python3 -c '
import ctypes
print("ready", flush=True)
input()
compress = ctypes.CDLL("libbz2.so.1.0").BZ2_bzBuffToBuffCompress
data, room = bytes(range(256)) * 4096, ctypes.create_string_buffer(1 << 21)
while True:
    compress(room, ctypes.byref(ctypes.c_uint(1 << 21)), data, len(data), 9, 0, 0)'
	await_line ready
	start_profile -pid "$TARGET" --hz 997
	tell ""
	let_work 200
	end_profile
	check_samples 100 '^_start;.*;BZ2_bzBuffToBuffCompress;'
	check_reasons
}

run_tests "$@"
