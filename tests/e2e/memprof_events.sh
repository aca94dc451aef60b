#!/usr/bin/env bash
# `memprof --events=probes`: the events come through eBPF, and equal those of the program's books. See
# memprof.sh for the ring.
#
# MEMPROF_EVENTS=1000000 compares so many events, and MEMPROF_KILLS=200 kills the tool so many times. With another
# compiler in PATH, the programs are built by that.
#
# needs: fixtures ocaml
# ocaml5: all
# not_on: 5.0.* 5.1.* 5.2.*
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/memprof_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

# A post-linked program of its own: nobody else's uprobes are on it.
start_subject() { # ARG...
	start_program subject "$@"
}

start_program() { # NAME ARG...
	need_counting
	need_program "$1"
	cp "$PROGRAM" "$TMP/$1"
	"$O/ocaml-probes-link" "$TMP/$1" >"$TMP/link" 2>&1 || fail "$(<"$TMP/link")"
	start_target "$TMP/$1" "${@:2}"
	await_line ready
}

through_probes() { # ARG...
	memprof --events=probes "$@"
}

THROUGH='ocaml-probes: events: through eBPF (uprobes on 5 probes)'

# All outputs of one run: the events are those of the books, and so are the sums of the files.
test_books() {
	local before
	before=$(date +%s%6N)
	start_subject books "$TMP/books" "${MEMPROF_EVENTS:-20000}"
	through_probes --rate 0.01 --json --memtrace "$TMP/trace" --pprof "$TMP/pprof" --html "$TMP/html" >"$TMP/events" 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	eq "$(head -n 1 "$TMP/err")" "$THROUGH"
	matches "$(head -n 1 "$TMP/events")" '"events":"probes"'
	compare_with_books events "$TMP/books" "$TMP/events"
	cat "$TMP/compared" >&2
	matches "$(<"$TMP/compared")" 'alloc_major [1-9].*alloc_minor [1-9].*dealloc_major [1-9].*dealloc_minor [1-9].*promote [1-9]'
	matches "$(<"$TMP/compared")" 'custom [1-9].*marshal [1-9].*normal [1-9][0-9]* [1-9][0-9]* lives'
	python3 "$ROOT/tests/e2e/memtrace_compare.py" "$TMP/trace" "$TMP/events" "$before" "$(date +%s%6N)" "$TMP/books" >&2
	finds 'Subject.books' "$TMP/html"
	gzip -t <"$TMP/pprof"
}

# What the table says, and what the books say, of the whole and of the lives of blocks.
test_table() {
	start_subject books "$TMP/books" 6000
	through_probes --rate 0.01 --live --lifetimes >"$TMP/out" 2>"$TMP/err"
	holds python3 - "$TMP/books" "$TMP/out" <<-'PY' || fail "$(<"$TMP/out")"
	import re, sys
	born, minor, samples, minor_deaths, live = {}, set(), 0, 0, 0
	for line in open(sys.argv[1]):
	    kind, block, _, _, *rest = line.split(" ", 7)
	    if kind.startswith("alloc"):
	        born[block] = int(rest[0])
	        samples += born[block]
	        if kind == "alloc_minor":
	            minor.add(block)
	    elif kind == "promote":
	        minor.discard(block)
	    else:
	        minor.discard(block)
	        minor_deaths += born.pop(block) if kind == "dealloc_minor" else 0 * born.pop(block)
	blocks = sum(line.startswith("alloc") for line in open(sys.argv[1]))
	out = open(sys.argv[2]).read()
	head = re.match(r"[0-9.]+ s, (\d+) blocks: (\d+) words allocated, .*; (\d+) blocks are alive: (\d+) words, (\d+) of them in the minor heap\n", out)
	expected = [blocks, 100 * samples, len(born), 100 * sum(born.values()), 100 * sum(born[b] for b in minor)]
	print(head.groups(), expected, file=sys.stderr)
	assert [int(n) for n in head.groups()] == expected and blocks > 1000 and len(born) > 100
	assert "LIFETIMES" in out and "Subject." in out
	assert minor_deaths > 0 and "lost" not in out
	PY
}

test_leak() {
	local child
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" --events=probes --rate 0.01 --live >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	tell fork
	await_line 'child [0-9]*'
	child=$(sed -n 's/^child //p' "$(output_of)")
	# They leak more than the minor heap holds, of which a part is live until the next collection.
	await_requests 2200
	kill -INT $!
	wait $!
	matches "$(sed -n 2p "$TMP/out")" '1 forks: children are not profiled'
	matches "$(sed -n 5p "$TMP/out")" ' Subject\.leak  subject\.ml:[0-9]+$'
	memprof_for_ticks 5 --events=probes --rate 0.01 --folded >"$TMP/out"
	matches "$(<"$TMP/out")" ';Subject\.request;Subject\.leak [0-9]+'
	memprof_for_ticks 5 --events=probes --rate 0.01 --callstack 1 --json >"$TMP/out"
	finds '"frames":\[{"function":"Subject.leak"[^}]*}\]}' "$TMP/out"
	# The ring is what it was.
	memprof_for_ticks 5 --rate 0.01 --live >"$TMP/out"
	finds 'ocaml-probes: events: through the ring of the library' "$TMP/err"
	finds Subject.leak "$TMP/out"
	eq "$(status_of_target)" free
	kill "$child" 2>/dev/null || :
	quit_target
	eq "$TARGET_STATUS" 0
}

# The tool does not run while the program allocates: what has no room is counted, and nothing else is missing.
test_losses() {
	local stopped
	start_subject deep 900 5000
	background "$TOOL" memprof -pid "$TARGET" --events=probes --rate 1 --callstack 1024 --json >"$TMP/out" 2>"$TMP/err"
	stopped=$!
	wait_for "has_text '$TMP/err' sampling"
	kill -STOP "$stopped"
	tell go
	await_line 'done' 60
	kill -CONT "$stopped"
	wait "$stopped"
	holds python3 - "$TMP/out" "$(output_of)" <<-'PY' || fail "$(tail -n 1 "$TMP/out"; cat "$(output_of)")"
	import collections, json, sys
	events = [json.loads(line) for line in open(sys.argv[1])]
	found = collections.Counter(event["event"] for event in events)
	lost = events[-1]["lost"]
	told = dict(line.split() for line in open(sys.argv[2]) if line.startswith(("alloc", "promote", "dealloc")))
	for kind in ("alloc_minor", "alloc_major", "promote", "dealloc_minor", "dealloc_major"):
	    print(kind, told.get(kind, 0), found[kind], lost[kind], file=sys.stderr)
	    assert int(told.get(kind, 0)) == found[kind] + lost[kind]
	assert lost["alloc_minor"] > 500 and found["alloc_minor"] > 500 and lost["samples"] >= lost["alloc_minor"]
	# The deepest stacks are whole.
	frames = [event["frames"] for event in events if event["event"] == "stack"]
	assert max(map(len, frames)) > 900
	PY
}

# However the tool ends: the profile is off afterwards, and the uprobes are gone.
test_killed_tool() {
	local i
	start_subject checked
	for i in 0.05 0.15 0.3 0.6; do
		background "$TOOL" memprof -pid "$TARGET" --events=probes --rate 0.01 >"$TMP/first" 2>&1
		sleep "$i"
		kill -KILL $!
		wait_for "[[ \$(status_of_target) = free ]]"
	done
	background "$TOOL" memprof -pid "$TARGET" --events=probes --rate 0.01 >"$TMP/first" 2>&1
	wait_for "has_text '$TMP/first' sampling"
	eq "$(status_of_target)" profiled
	matches "$(through_probes --for 1s 2>&1)" 'another tool profiles it'
	kill -KILL $!
	wait_for "[[ \$(status_of_target) = free ]]"
	through_probes --for 200ms --rate 0.01 >"$TMP/out" 2>&1
	finds Subject "$TMP/out"
	quit_target
	eq "$TARGET_STATUS" 0
}

# Killed in its system calls. The program's results are right after each.
test_killed_at_its_calls() {
	start_subject checked
	kill_at_calls "${MEMPROF_KILLS:-8}" --events=probes
	through_probes --for 200ms --rate 0.01 >"$TMP/out" 2>&1
	finds Subject "$TMP/out"
	quit_target
	eq "$TARGET_STATUS" 0 "the program: $(cat "$(output_of)")"
}

# The same with several domains, old ones and some that come and go, or with several threads in OCaml 4. The status
# is that of all.
test_killed_with_domains() {
	if [[ $(version) = 5* ]]; then
		start_program domains checked
	else
		start_subject checked_threads
	fi
	kill_at_calls "${MEMPROF_KILLS:-6}" --events=probes
	through_probes --for 300ms --rate 0.01 --json >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	finds '\.checked_request"' "$TMP/out"
	if [[ $(version) = 5* ]]; then
		# The main domain and the old ones.
		eq "$(sed -n 's/.*"domain":\([012]\),.*/\1/p' "$TMP/out" | sort -u | tail -n 2 | xargs)" "1 2"
	fi
	eq "$(status_of_target)" free
	quit_target
	eq "$TARGET_STATUS" 0 "the program: $(cat "$(output_of)")"
}

expect_error() { # STATUS MESSAGE ARG...
	local status=0
	memprof --for 100ms "${@:3}" >"$TMP/out" 2>"$TMP/err" || status=$?
	matches "$status $(head -n 1 "$TMP/err")" "^$1 ocaml-probes: $2"
	[[ ! -s $TMP/out ]] || fail "$(<"$TMP/out")"
}

test_usage() {
	start_subject leak
	expect_error 2 "memprof: --events 'pipe': not ring or probes" --events=pipe
	expect_error 2 "memprof: --html and --memtrace name the same file: '$TMP/x'" --html "$TMP/x" --memtrace "$TMP/x"
	expect_error 2 "memprof: --pprof and --memtrace name the same file: '$TMP/../${TMP##*/}/x'" \
		--pprof "$TMP/x" --memtrace "$TMP/../${TMP##*/}/x"
	expect_error 2 "memprof: --html: given twice" --html "$TMP/x" --html "$TMP/y"
	expect_error 2 "memprof: --pprof: the name of the file is empty" --pprof ''
	[[ ! -e $TMP/x ]] || fail "a file was written"
	eq "$(status_of_target)" free
}

# A library without the feature has the ring only. It is played by a signpost without features.
test_older_library() {
	local version
	version=$(sed -n 's/^\tMEMPROF_VERSION = \([0-9]*\),.*/\1/p' "$ROOT/src/memprof/ring.h")
	need_counting
	start_target python3 -c '
import fcntl, os, struct, sys
fd = os.memfd_create("ocaml-probes.memprof", os.MFD_ALLOW_SEALING)
os.write(fd, struct.pack("<QIIIIQ", 0x31706d656d70636f, int(sys.argv[1]), os.getpid(), 41301, 0, 1))
fcntl.fcntl(fd, 1033, 0xf)  # F_ADD_SEALS
print("ready", flush=True)
sys.stdin.readline()' "$version"
	await_line ready
	expect_error 1 "pid $TARGET: its ocaml-probes.memprof is older than this tool: its events come through the ring only" \
		--events=probes
	finds 'hint: .*--events=ring' "$TMP/err"
	# The tool would use the ring.
	expect_error 1 "pid $TARGET: has closed the socket of ocaml-probes.memprof; try again"
}

# A user without capabilities, and his own program.
test_ordinary_user() {
	local as_user=(env -u TMP setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	need_root
	need_command setpriv
	need_program subject
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$PROGRAM" "$TMP/subject"
	cp "$TOOL" "$TMP"
	start_target "${as_user[@]}" "$TMP/subject" leak
	await_line ready
	memprof() {
		timeout 600 "${as_user[@]}" "$TMP/ocaml-probes" memprof -pid "$TARGET" "$@"
	}
	expect_error 3 "measuring: ocaml-probes lacks CAP_BPF and CAP_PERFMON" --events=probes
	finds 'hint: run it as root' "$TMP/err"
	eq "$(status_of_target)" free
	memprof --rate 0.01 --for 300ms >"$TMP/out" 2>"$TMP/err"
	finds Subject.leak "$TMP/out"
	unset -f memprof
}

test_domains() {
	start_program domains
	through_probes --for 2s --rate 0.001 --json >"$TMP/out" 2>"$TMP/err"
	eq "$(sed -n 's/.*"domain":\([012]\),.*/\1/p' "$TMP/out" | sort -u | xargs)" "0 1 2"
	(($(sed -n 's/.*"domain":\([0-9]*\).*/\1/p' "$TMP/out" | sort -u | wc -l) > 4)) || fail "$(head "$TMP/out")"
	tell status
	await_line free
	quit_target
	eq "$TARGET_STATUS" 0
}
only_if test_domains is_ocaml_5

[[ -z ${MEMPROF_EVENTS:-}${MEMPROF_KILLS:-} ]] || TEST_TIMEOUT=1800
run_tests "$@"
