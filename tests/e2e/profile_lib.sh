# shellcheck shell=bash
# What the scripts that test `profile` share: the program whose time is known, and samples that are counted. After
# target_lib.sh.
#
# How many samples a clock takes in a function is a matter of chance, and of what else the machine does: such cases are
# in profile_shares.sh, and their bounds are statistics. Elsewhere the samples are taken at page faults
# (tests/fixtures/binaries/faults.c), of which the program knows each.

PROFILED=$O/tests/ocaml/profiled
# For `env`, and so for `background`: what it starts takes a sample at each page fault, and $TMP/asked has what it asked for.
AT_FAULTS=(LD_PRELOAD="$O/tests/fixtures/binaries/libfaults.so" ASKED="$TMP/asked")

# Tell the target to work, and wait until it waits for the next order. What it says of its work is in $TMP/books.
run_books() { # SECONDS
	forget_output
	tell "run $1"
	await_line 'done'
	await_reading
	grep '^[a-z]* [0-9]*$' "$(output_of)" >"$TMP/books"
	eq "$(wc -l <"$TMP/books")" 3 "lines of the program's books"
}

# The target waits for an order (system call 0, read).
await_reading() { # [PID]
	wait_for "grep -q '^0 ' /proc/${1:-$TARGET}/syscall"
}

# tests/ocaml/waits_for.ml has nine threads that wait for something, and the thread that makes threads take turns, which wakes up
# 20 times a second.
WAITING=9

# The threads that wait, as lines: the number, and how often it has got a CPU.
waiting_threads() {
	local task
	for task in "/proc/$TARGET/task"/*; do
		[[ $(cut -d' ' -f3 "$task/stat") != S ]] || echo "${task##*/} $(cut -d' ' -f3 "$task/schedstat")"
	done
}

# All nine wait, and have not got a CPU for longer than the other thread sleeps.
nine_wait() {
	local before
	before=$(waiting_threads)
	sleep 0.06
	(($(comm -12 <(sort <<<"$before") <(waiting_threads | sort) | wc -l) == WAITING))
}

# Start it, and with `busy` the two threads that work in turns, too.
start_waits_for() { # [busy [COMMAND...]]
	start_target "${@:2}" "$O/tests/ocaml/waits_for"
	await_line ready
	wait_for nine_wait
	[[ ${1:-} = busy ]] || return 0
	tell turn
	wait_for '(($(ls "/proc/$TARGET/task" | wc -l) == WAITING + 3))'
	await_reading
}

# Profile the target while it works, the folded form in $TMP/folded, its books in $TMP/books. With AT_FAULTS... as first
# FLAGs, a sample is a page fault.
profile_work() { # PROGRAM WORK SECONDS [NAME=VALUE...] [FLAG...]
	local program=$1 work=$2 seconds=$3 environment=()
	shift 3
	while [[ ${1:-} = *=* ]]; do
		environment+=("$1")
		shift
	done
	need_counting
	start_target "$program" "$work"
	await_line ready
	await_reading
	background "${environment[@]}" "$TOOL" profile -pid "$TARGET" "$@" >"$TMP/folded" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" "sampling|recording"'
	run_books "$seconds"
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "status $?: $(<"$TMP/err")"
}

# The page faults of each function in the folded stacks are those of the books, each on a whole stack: from the start of the
# program to the function.
check_touched() {
	holds python3 - "$TMP/books" "$TMP/folded" <<'PY' || fail "$(head -c 3000 "$TMP/folded")"
import collections, sys
books = {name: int(n) for name, n in (line.split() for line in open(sys.argv[1]))}
found = collections.Counter()
for line in open(sys.argv[2]):
    stack, value = line.rsplit(" ", 1)
    frames = stack.split(";")
    assert frames[0] == "_start", line
    if frames[-1] == "Profiled.touch":
        run, name, book = frames[-4:-1]
        assert run == "Profiled.run" and book == "Profiled.book", line
        found[name.removeprefix("Profiled.")] += int(value)
print(dict(found), books)
assert found == books and sum(books.values()) >= 1000
PY
}

# It asked for HZ samples a second of each CPU.
check_asked() { # HZ
	eq "$(sort -u "$TMP/asked")" "$(possible_cpus | sed "s/^/cpu_clock $1 /" | sort)" "events that were asked for"
}

# Write $TMP/filter.py COMMAND...: run COMMAND with a filter as containers have it: the system calls of these NUMBERs fail with
# EPERM.
write_filter() { # NUMBER...
	printf '%s\n' 'import ctypes, os, struct, sys' \
		"numbers = [$(printf '%s,' "$@")]" \
		'tests = [(0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]' \
		'code = [(0x20, 0, 0, 0), *tests, (6, 0, 0, 0x7fff0000), (6, 0, 0, 0x50001)]' \
		'bytes = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))' \
		'prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(bytes)))' \
		'libc = ctypes.CDLL(None)' \
		'assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, prog) == 0' \
		'os.execv(sys.argv[1], sys.argv[1:])' >"$TMP/filter.py"
}

possible_cpus() {
	tr , '\n' </sys/devices/system/cpu/possible | sed 's/^\([0-9]*\)$/\1-\1/; s/-/ /' | xargs -n 2 seq
}

# Start PROGRAM, and have it work until the end of the test, however long the tool takes to start.
start_work() { # PROGRAM cpu|wait
	start_target "$1" "$2"
	await_line ready
	tell "run 1000000"
}

# Another program that the process executes may be one whose stacks the user must not see.
check_exec() { # FLAG...
	start_target bash -c 'read -r; for ((i = 0; i < 200000; i++)); do :; done; exec "$0" cpu' "$PROFILED"
	# The target begins as env(1), which executes bash.
	wait_for '[[ /proc/$TARGET/exe -ef /bin/bash ]]'
	await_reading
	background "$TOOL" profile -pid "$TARGET" "$@" --folded --hz 997 >"$TMP/folded" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" sampling'
	tell ''
	await_line ready
	tell "run 60"
	let_work 100
	kill -INT "$PROFILE" 2>/dev/null || :
	wait "$PROFILE" || fail "$(<"$TMP/err")"
	holds test -s "$TMP/folded"
	! holds grep -q 'Profiled\.' "$TMP/folded" || fail "it goes on after the exec: $(<"$TMP/folded")"
}

# Profile the waits of the target, `profiled wait`, by the engine ptrace while it works. It waits for orders at the beginning
# and at the end, so its books of the scheduler are exact then: the time of the profile, without the time for which the thread has run
# and waited for a CPU, is the sum of its waits. COMMAND... runs the tool.
check_time_of_waits() { # COMMAND...
	local before
	await_line ready
	await_reading
	before=$(<"/proc/$TARGET/schedstat")
	background "$@" "$TOOL" profile -pid "$TARGET" --off-cpu ${WAITS_BY:-} --json >"$TMP/json" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" sampling || has_ended "$PROFILE"'
	run_books 0.5
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "status $?: $(<"$TMP/err")"
	holds python3 - "$TMP/json" "$TMP/books" "$before $(<"/proc/$TARGET/schedstat")" <<'PY' || fail "$(head -c 3000 "$TMP/json")"
import collections, json, sys
top = json.load(open(sys.argv[1]))
books = {name: int(ns) for name, ns in (line.split() for line in open(sys.argv[2]))}
ran, queued, slices, ran_then, queued_then, slices_then = map(int, sys.argv[3].split())
assert top["engine"] == "ptrace" and top["profile"] == "wait" and top["lost"] == top["truncated"] == 0
found = collections.Counter()
for stack in top["stacks"]:
    names = [f["function"] for f in stack["frames"]]
    assert names[0] == "_start" and stack["frames"][-1]["kind"] == "c", names
    of = [name for name in books if "Profiled." + name in names]
    if of:
        assert names[names.index("Profiled." + of[0]) - 1] == "Profiled.run" and names[-1] == "select", names
    found[of[0] if of else None] += stack["ns"]
print(dict(found), books, top["samples"])
assert "seventy" in found, found
# It waits once more than it gets a CPU.
assert top["samples"] <= slices_then - slices + 1 and top["always_waiting"] == 0
assert top["ns"] == sum(found.values()) == top["duration_ns"] - (ran_then - ran) - (queued_then - queued)
assert top["ready_ns"] == queued_then - queued
PY
}
