#!/usr/bin/env bash
# `memprof`, with the library ocaml-probes.memprof in tests/ocaml/memprof.
#
# MEMPROF_EVENTS=1000000 compares so many events with the program's books, and MEMPROF_KILLS=500 kills the
# tool so many times. With another compiler in PATH, the programs are built by that.
#
# needs: fixtures asan ocaml
# ocaml5: test_books test_own_code test_times test_mapped_files test_leak test_killed_tool test_threads test_fork test_domains test_busy_domain
# not_on: 5.0.* 5.1.* 5.2.*
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/memprof_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

test_books() {
	local events=${MEMPROF_EVENTS:-20000}
	start_subject books "$TMP/books" "$events"
	"$TOOL" memprof -pid "$TARGET" --rate 0.01 --json --quiet >"$TMP/events" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	compare_with_books events "$TMP/books" "$TMP/events"
	cat "$TMP/compared" >&2
	# It compares something: all kinds, and all sources.
	matches "$(<"$TMP/compared")" 'alloc_major [1-9].*alloc_minor [1-9].*dealloc_major [1-9].*dealloc_minor [1-9].*promote [1-9]'
	matches "$(<"$TMP/compared")" 'custom [1-9].*marshal [1-9].*normal [1-9][0-9]* [1-9][0-9]* lives'
	# It finds what it looks for.
	sed '100s/ / 9/' "$TMP/books" >"$TMP/wrong"
	! (compare_with_books events "$TMP/wrong" "$TMP/events") 2>"$TMP/err" || fail "books that are wrong"
}

# CLOCK_REALTIME minus CLOCK_MONOTONIC, in nanoseconds.
offset_of_clocks() {
	python3 -c '
import time
def look():
    before, now, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, now - (before + after) // 2
print(min(look() for _ in range(50))[1])'
}

# Each block was allocated between the times that the program itself read before and after: within two
# microseconds, since these are rounded.
compare_times() { # OFFSET
	python3 - "$TMP/times" "$TMP/events" "$1" <<-'PY'
	import json, sys
	own = [tuple(map(int, line.split())) for line in open(sys.argv[1])]
	events = [line for line in map(json.loads, open(sys.argv[2])) if line["event"].startswith("alloc")]
	assert len(own) == len(events) > 1000, (len(own), len(events))
	before, distances = 0, []
	for (block, after), event in zip(own, events):
	    time = (event["time_ns"] + int(sys.argv[3])) / 1000
	    assert block == event["block"] and before - 2 <= time <= after + 2, (event, before, time, after)
	    distances.append(after - time)
	    before = after
	print(f"{len(events)} times, {sum(distances) / len(distances):.2f} us before the program's own", file=sys.stderr)
	PY
}

# What the tool asks the program for is in the flags of struct memprof_request.
check_times() { # FLAGS
	local offset try
	need_command strace
	for try in 1 2 3 4 5; do
		offset=$(offset_of_clocks)
		start_subject times "$TMP/times" 5000
		strace -o "$TMP/sent" -xx -e trace=sendmsg "$TOOL" memprof -pid "$TARGET" --rate 0.01 --json --quiet \
			>"$TMP/events" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		matches "$(<"$TMP/sent")" "iov_base=\"(\\\\x[0-9a-f]{2}){24}\\\\x0$1"
		# Someone may set the time.
		(($(offset_of_clocks) - offset < 1000 && offset - $(offset_of_clocks) < 1000)) || continue
		compare_times "$offset"
		# It finds what it looks for: three microseconds.
		! compare_times $((offset + 3000)) 2>/dev/null || fail "late times"
		return 0
	done
	fail "the time is set again and again"
}

# In ticks, if the kernel's clocks are made of these.
test_times() {
	local flags=2
	grep -q '^flags.* constant_tsc .* nonstop_tsc' /proc/cpuinfo || flags=0
	check_times "$flags"
}

# On a processor whose counter is no clock.
test_times_without_ticks() {
	need_root
	[[ -n ${APART:-} ]] || APART=1 exec unshare --mount --propagation private bash "$0" --one "${FUNCNAME[0]}"
	sed 's/ constant_tsc//' /proc/cpuinfo >"$TMP/cpuinfo"
	mount --bind "$TMP/cpuinfo" /proc/cpuinfo
	check_times 0
}

shares_of() { # COLUMN
	local function
	for function in most some few; do
		awk -v f="Subject.$function" -v column="$1" '$5 == f { sum += $column } END { printf "%d ", sum + 0.5 }' "$TMP/out"
	done
}

within() { # NUMBER EXPECTED DISTANCE
	asserted
	(($1 >= $2 - $3 && $1 <= $2 + $3)) || fail "$1 is not within $3 of $2: $(<"$TMP/out")"
}

test_shares() {
	local column most some few
	start_subject shares 0.0001
	# So many live blocks that 2 points are four standard deviations.
	memprof --rate 0.03 --for 3s >"$TMP/out"
	for column in 1 2; do
		read -r most some few <<<"$(shares_of $column)"
		within "$most" 70 2
		within "$some" 20 2
		within "$few" 10 2
	done
}

# `profile --alloc`, which needs no library, finds the same sites under the same names, with the same
# shares within 3 points.
test_like_profile_alloc() {
	need_counting
	need_program subject
	# Small minor heaps: profile --alloc takes a sample of each.
	start_target env OCAMLRUNPARAM=s=8k "$PROGRAM" kinds
	await_line ready
	memprof --rate 1e-3 --for 2s --folded --quiet >"$TMP/memprof"
	"$TOOL" profile --alloc --hz 9999 -pid "$TARGET" --for 2s --folded --quiet >"$TMP/profile"
	holds python3 - "$TMP/memprof" "$TMP/profile" <<-'PY' || fail "$(head -n 20 "$TMP/memprof" "$TMP/profile")"
	import collections, re, sys
	def shares(path):
	    words = collections.Counter()
	    for line in open(path):
	        stack, n = line.rsplit(" ", 1)
	        names = [name for name in stack.split(";") if re.match(r"[A-Z]\w*\.", name)]
	        words[names[-1]] += int(n)
	    total = sum(words.values())
	    return {name: 100 * n / total for name, n in words.items() if n >= total / 100}
	first, second = map(shares, sys.argv[1:])
	for name in sorted(first.keys() | second.keys()):
	    print(f"{name}: {first.get(name, 0):.1f} %, {second.get(name, 0):.1f} %", file=sys.stderr)
	assert first.keys() == second.keys() and len(first) >= 5
	assert all(abs(first[name] - second[name]) <= 3 for name in first)
	PY
}

# OCaml 5.4 says that the memory is that of a file; what comes behind is there on all versions.
test_mapped_files() {
	need_program mapped
	start_target "$PROGRAM" "$TMP/mapped"
	await_line ready
	background "$TOOL" memprof -pid "$TARGET" --rate 0.01 --json --for 1h >"$TMP/events" 2>"$TMP/err"
	PROFILE=$!
	# It starts when the program runs OCaml code.
	wait_for 'has_text "$TMP/err" "sampling|waits"'
	for _ in 1 2 3; do
		forget_output
		tell go
		await_line "done" 60
	done
	quit_target
	wait "$PROFILE" || fail "$(<"$TMP/err")"
	tail -n 1 "$TMP/events" | finds '"damaged":false'
	python3 - "$TMP/events" "$(version)" <<-'PY' || fail "$(tail -n 3 "$TMP/events")"
	import json, sys
	sources = [e["source"] for e in map(json.loads, open(sys.argv[1])) if e.get("event", "").startswith("alloc_")]
	places = [i for i, source in enumerate(sources) if source == "map_file"]
	assert len(sources) > 1500, len(sources)
	if tuple(map(int, sys.argv[2].split(".")[:2])) >= (5, 4):
	    assert len(places) >= 2 and len(sources) - places[0] > 1500, (places, len(sources))
	PY
}

test_leak() {
	start_subject leak
	memprof_for_ticks 50 --rate 1e-3 --live >"$TMP/out"
	matches "$(sed -n 4p "$TMP/out")" ' Subject\.leak  subject\.ml:[0-9]+$'
	# Most is allocated elsewhere.
	memprof_for_ticks 5 --rate 1e-3 >"$TMP/out"
	! sed -n 4p "$TMP/out" | finds Subject.leak || fail "$(<"$TMP/out")"
	quit_target
	eq "$TARGET_STATUS" 0
}

# The sites are in the program's own code, with the function of the standard library that allocates for it. All words are
# in the table, whatever the sites are.
test_own_code() {
	start_subject kinds
	memprof_for_ticks 20 --rate 1e-2 >"$TMP/own"
	finds ' Subject\.reversed  subject\.ml:[0-9]*  via List\.rev_append$' "$TMP/own" || fail "$(<"$TMP/own")"
	finds ' Subject\.pairs  subject\.ml:[0-9]*$' "$TMP/own" || fail "$(<"$TMP/own")"
	eq "$(grep -c '  List\..*  list\.ml' "$TMP/own" || :)" 0 "sites in the library"
	memprof_for_ticks 20 --rate 1e-2 --leaf --lifetimes >"$TMP/leaf"
	eq "$(grep -c ' List\.rev_append  list\.ml:[0-9]*$' "$TMP/leaf")" 2 "rows of the innermost frame"
	eq "$(grep -c ' via ' "$TMP/leaf" || :)" 0 "rows with via"
	memprof_for_ticks 20 --rate 1e-2 --json >"$TMP/json"
	holds python3 - "$TMP/json" <<-'PY' || fail "$(grep -m 3 '"stack",' "$TMP/json")"
	import json, sys
	stacks = [line for line in map(json.loads, open(sys.argv[1])) if line["event"] == "stack"]
	found = {(s["frames"][0]["function"], s["frames"][s["site"]]["function"]) for s in stacks}
	assert ("List.rev_append", "Subject.reversed") in found and ("Subject.pairs", "Subject.pairs") in found, found
	assert not any(site.startswith("List.") for _, site in found), found
	PY
}

# The same of `profile --alloc`: small minor heaps, and a sample of each.
test_own_code_of_profiles() {
	local flag
	need_counting
	need_program subject
	start_target env OCAMLRUNPARAM=s=8k "$PROGRAM" kinds
	await_line ready
	for flag in "" --leaf --json; do
		# shellcheck disable=SC2086 # no flag is no argument
		for_ticks 50 "$TOOL" profile --alloc --hz 9999 -pid "$TARGET" $flag >"$TMP/out$flag"
	done
	finds '^ *[1-9][0-9.]*% *[0-9.]*%  Subject\.reversed  via List\.rev_append$' "$TMP/out" || fail "$(<"$TMP/out")"
	finds '^ *[1-9][0-9.]*% *[0-9.]*%  Subject\.pairs$' "$TMP/out" || fail "$(<"$TMP/out")"
	finds '^   0\.0% *[0-9.]*%  List\.rev_append$' "$TMP/out" || fail "$(<"$TMP/out")"
	eq "$(sed '/^STACKS/q' "$TMP/out" | grep -cE '  (_start|main|caml_main|caml_start_program|\[libc.*)$' || :)" 0 "rows of entries"
	finds '^ *[1-9][0-9.]*% *[0-9.]*%  List\.rev_append$' "$TMP/out--leaf" || fail "$(<"$TMP/out--leaf")"
	eq "$(grep -c ' via ' "$TMP/out--leaf" || :)" 0 "rows with via"
	holds python3 - "$TMP/out--json" <<-'PY' || fail "$(head -c 2000 "$TMP/out--json")"
	import json, sys
	found = set()
	for stack in json.load(open(sys.argv[1]))["stacks"]:
	    site, leaf = (stack["frames"][stack.get(key, stack["site"])] for key in ("site", "via"))
	    assert site["kind"] == leaf["kind"] == "ocaml", stack
	    found.add((leaf["function"], site["function"], "via" in stack))
	assert ("List.rev_append", "Subject.reversed", True) in found and ("Subject.pairs", "Subject.pairs", False) in found, found
	assert not any(site.startswith("List.") for _, site, _ in found), found
	PY
}

test_outputs() {
	start_subject leak
	memprof_for_ticks 5 --rate 1e-2 --lifetimes --html "$TMP/out.html" --pprof "$TMP/out.pb.gz" >"$TMP/out"
	matches "$(<"$TMP/out")" 'LIFETIMES'
	finds 'Subject.leak' "$TMP/out.html"
	gzip -dc "$TMP/out.pb.gz" >"$TMP/out.pb"
	eq "$(grep -ao 'alloc_objects\|alloc_space\|inuse_objects\|inuse_space' "$TMP/out.pb" | xargs)" \
		"alloc_objects alloc_space inuse_objects inuse_space"
	memprof_for_ticks 5 --rate 1e-2 --folded --live >"$TMP/folded"
	matches "$(<"$TMP/folded")" ';Subject\.answer_while(\.loop)?;Subject\.request;Subject\.leak [0-9]+'
	eq "$(status_of_target)" free
}

test_usage() {
	start_subject leak
	matches "$(memprof --rate 0 2>&1)" "--rate '0': not a number from 1e-9 to 1"
	matches "$(memprof --rate nan 2>&1)" "--rate 'nan': not a number"
	matches "$(memprof --callstack 1025 2>&1)" "--callstack '1025': not a number from 0 to 1024"
	matches "$(memprof --folded --json 2>&1)" 'mutually exclusive'
	matches "$(memprof --leaf --json 2>&1)" '--leaf: only for the table'
	matches "$(memprof --leaf --folded 2>&1)" '--leaf: only for the table'
	matches "$(memprof --html "$TMP/none/x" 2>&1)" 'No such file'
	eq "$(status_of_target)" free
}

test_not_linked() {
	local status=0 without=(setpriv --bounding-set=-all --inh-caps=-all)
	need_command setpriv
	start_target "${without[@]}" "$O/tests/ocaml/steady"
	await_line ready
	"${without[@]}" "$TOOL" memprof -pid "$TARGET" >"$TMP/out" 2>&1 || status=$?
	eq "$status" 1
	matches "$(<"$TMP/out")" "is not linked with ocaml-probes.memprof"
	matches "$(<"$TMP/out")" 'hint: `ocaml-probes profile --alloc`, which needs no library, is not possible: .*CAP_BPF'
	need_bpf
	status=0
	start_target "$O/tests/ocaml/loop"
	await_line ready
	memprof >"$TMP/out" 2>&1 || status=$?
	eq "$status" 1
	matches "$(<"$TMP/out")" "hint: .ocaml-probes profile --alloc -pid $TARGET. needs no library"
}

# OCaml 5.0 to 5.2 have the module, which refuses to start. What the library says of such a program, a
# program says here which has only that: a signpost.
signpost() { # LIBRARY-VERSION OCAML-VERSION
	start_target python3 -c '
import fcntl, os, struct, sys
fd = os.memfd_create("ocaml-probes.memprof", os.MFD_ALLOW_SEALING)
os.write(fd, struct.pack("<QIIIIQ", 0x31706d656d70636f, int(sys.argv[1]), os.getpid(), int(sys.argv[2]), 0, 1))
fcntl.fcntl(fd, 1033, 0xf)  # F_ADD_SEALS
print("ready", flush=True)
sys.stdin.readline()' "$@"
	await_line ready
}

expect_error() { # STATUS MESSAGE
	local status=0
	memprof --for 100ms >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(head -n 1 "$TMP/err")" "$1 ocaml-probes: pid $TARGET$2"
	[[ ! -s $TMP/out ]] || fail "$(<"$TMP/out")"
}

test_versions() {
	local ocaml version
	version=$(sed -n 's/^\tMEMPROF_VERSION = \([0-9]*\),.*/\1/p' "$ROOT/src/memprof/ring.h")
	for ocaml in 50000 50101 50200; do
		signpost "$version" $ocaml
		expect_error 4 ": OCaml 5.0 to 5.2 have no Gc.Memprof; 4.13, 4.14, 5.3 and later have it"
		quit_target
	done
	for ocaml in 41301 41401 50300 50400; do
		signpost "$version" $ocaml
		expect_error 1 ": has closed the socket of ocaml-probes.memprof; try again"
		quit_target
	done
	# Another protocol: a newer program, and an older one.
	signpost $((version + 1)) 41301
	expect_error 1 ": its ocaml-probes.memprof speaks version $((version + 1)) of the protocol, this tool speaks version $version"
	finds "^hint: use the tool that came with the program's library$" "$TMP/err"
	quit_target
	signpost $((version - 1)) 41301
	expect_error 1 ": its ocaml-probes.memprof speaks version $((version - 1)) of the protocol, this tool speaks version $version"
	finds '^hint: build the program again with the library of this tool$' "$TMP/err"
}

# A user without capabilities, and his own program.
test_ordinary_user() {
	local as_user=(env -u TMP setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	need_root
	need_command setpriv
	need_program subject
	chmod 755 "$TMP" "$(dirname "$TMP")"
	mkdir -m 777 "$TMP/user"
	cp "$PROGRAM" "$TOOL" "$TMP"
	start_target "${as_user[@]}" "$TMP/subject" leak
	await_line ready
	as_user+=("$TMP/ocaml-probes" memprof)
	# They leak more than the minor heap holds, of which a part is live until the next collection.
	for_requests 2200 "${as_user[@]}" -pid "$TARGET" --rate 0.01 --live --lifetimes --html "$TMP/user/html" \
		--pprof "$TMP/user/pprof" >"$TMP/out"
	matches "$(sed -n 4p "$TMP/out")" ' Subject\.leak  subject\.ml:[0-9]+$'
	finds Subject.leak "$TMP/user/html"
	gzip -t <"$TMP/user/pprof"
	for_requests 100 "${as_user[@]}" -pid "$TARGET" --rate 0.01 --folded >"$TMP/out"
	finds ';Subject.leak [0-9]*$' "$TMP/out"
	for_requests 100 "${as_user[@]}" -pid "$TARGET" --rate 0.01 --json >"$TMP/out"
	finds '"function":"Subject.leak"' "$TMP/out"
	eq "$(status_of_target)" free
	quit_target
	# Others are none of his business.
	start_target "$PROGRAM" leak
	await_line ready
	memprof() { "${as_user[@]}" -pid "$TARGET" "$@"; }
	expect_error 3 " (subject): belongs to uid 0, you are uid 65534"
}

# As with ptrace_scope 1 of Yama: pidfd_getfd fails, and the message has the reason and what helps.
test_yama() {
	need_root
	need_command setpriv strace
	[[ -n ${APART:-} ]] || APART=1 exec unshare --mount --propagation private bash "$0" --one "${FUNCNAME[0]}"
	need_program subject
	mount -t tmpfs -o mode=755 tmpfs /proc/sys/kernel
	mkdir /proc/sys/kernel/yama
	echo 1 >/proc/sys/kernel/yama/ptrace_scope
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$PROGRAM" "$TOOL" "$TMP"
	local as_user=(env -u TMP setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	start_target "${as_user[@]}" "$TMP/subject" leak
	await_line ready
	memprof() {
		"${as_user[@]}" strace -qq -o /dev/null -e trace=pidfd_getfd -e inject=pidfd_getfd:error=EPERM \
			"$TMP/ocaml-probes" memprof -pid "$TARGET" "$@"
	}
	expect_error 3 " (subject): Yama forbids tracing it (ptrace_scope 1)"
	matches "$(<"$TMP/err")" 'with CAP_SYS_PTRACE .*ptrace_scope to 0'
	unset -f memprof
}

# With the sanitizers.
test_sanitizers() {
	TOOL=$O/asan/ocaml-probes
	[[ -x $TOOL ]] || fail "make check has not built $TOOL yet"
	start_subject leak
	memprof --rate 0.01 --for 300ms --live --lifetimes --html "$TMP/html" --pprof "$TMP/pprof" >"$TMP/out"
	finds ' Subject\.leak  ' "$TMP/out"
	memprof --rate 0.01 --for 200ms --json >"$TMP/out"
	matches "$(tail -n 1 "$TMP/out")" '"event":"end"'
}

test_own_profile_is_left_alone() {
	local status=0 before
	start_subject own
	await_line 'own [1-9][0-9]*'
	memprof --for 5s >"$TMP/out" 2>&1 || status=$?
	eq "$status" 6
	matches "$(<"$TMP/out")" 'no profile was started: .*already started'
	matches "$(<"$TMP/out")" 'itself runs a profile, which is not disturbed'
	forget_output
	await_line 'own [1-9][0-9]*'
	before=$(sed -n 's/^own //p' "$(output_of)" | head -n 1)
	wait_for "(( \$(sed -n 's/^own //p' '$(output_of)' | tail -n 1) > $before + 100 ))"
	# Its own stop succeeds.
	quit_target
	eq "$TARGET_STATUS" 0
}

replaces_profiles() {
	[[ $(printf '5.5\n%s\n' "$(ocamlopt -version 2>/dev/null)" | sort -V | head -n 1) = 5.5 ]]
}

refuses_second_profiles() {
	! replaces_profiles
}

# The program's own start is refused while ours runs. It may stop ours, and start one of its own, which is
# left alone when the tool ends.
test_program_that_stops_ours() {
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" --rate 0.01 >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	tell start
	await_line refused
	let_work 3
	tell stop
	await_line stopped
	check_own_profile
}
only_if test_program_that_stops_ours refuses_second_profiles

# From OCaml 5.5 on, the program's own start replaces our profile. The tool then ends, and leaves it alone.
test_program_that_replaces_ours() {
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" --rate 0.01 >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	let_work 3
	check_own_profile
}
only_if test_program_that_replaces_ours replaces_profiles

# The program starts a profile of its own, and then the tool ends. The program's profile runs until the program stops it.
check_own_profile() {
	local before
	tell start
	await_line started
	kill -INT $!
	wait $!
	matches "$(<"$TMP/out")" 'Subject\.leak'
	before=$(own_samples)
	wait_for "(( \$(own_samples) > $before + 100 ))"
	forget_output
	tell stop
	await_line stopped
	eq "$(status_of_target)" free
}

own_samples() {
	forget_output
	tell count
	await_line 'own [0-9]*'
	sed -n 's/^own //p' "$(output_of)"
}

test_two_tools() {
	local status=0
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" >"$TMP/first" 2>&1
	wait_for "has_text '$TMP/first' sampling"
	memprof --for 1s >"$TMP/out" 2>&1 || status=$?
	eq "$status" 6
	matches "$(<"$TMP/out")" 'another tool profiles it'
	eq "$(status_of_target)" profiled
}

# Each way to end: the profile is off afterwards, and the next one works.
test_killed_tool() {
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" >"$TMP/first" 2>&1
	wait_for "has_text '$TMP/first' sampling"
	eq "$(status_of_target)" profiled
	kill -KILL $!
	wait_for '[[ $(status_of_target) = free ]]'
	memprof --for 100ms --rate 0.01 >"$TMP/out"
	quit_target
	eq "$TARGET_STATUS" 0
}

# The program's results are right after each, and the next profile works.
test_killed_at_its_calls() {
	start_subject checked
	kill_at_calls "${MEMPROF_KILLS:-25}"
	memprof --for 100ms --rate 0.01 >"$TMP/out"
	matches "$(<"$TMP/out")" 'Subject'
	quit_target
	eq "$TARGET_STATUS" 0 "the program: $(cat "$(output_of)")"
}

# The program goes on, and what has no room is counted.
test_stopped_tool() {
	local tool
	start_subject shares 0
	background "$TOOL" memprof -pid "$TARGET" --rate 0.3 --for 4s >"$TMP/out" 2>"$TMP/err"
	tool=$!
	wait_for "has_text '$TMP/err' sampling"
	kill -STOP "$tool"
	let_work 30
	kill -CONT "$tool"
	wait "$tool"
	matches "$(<"$TMP/out")" '[1-9][0-9]* events lost'
	memprof --for 500ms --rate 0.001 >"$TMP/out"
	! finds lost "$TMP/out" || fail "$(<"$TMP/out")"
}

# Of the program that hardly allocates: "WORDS COLLECTIONS" now, and those when a block was sampled first since
# this was asked last, or "never".
progress() { # now|first
	forget_output
	tell progress
	await_line 'now .* first .*'
	sed -n "s/^now \(.*\) first \(.*\)/now \1\nfirst \2/p" "$(output_of)" | sed -n "s/^$1 //p"
}

# The start does not wait for a collection: that would come after a whole minor heap, which has 262144 words.
# How long it takes is a matter of `make bench`.
test_rare_allocation() {
	local i words collections first_words first_collections
	start_subject rare
	for i in 1 2 3; do
		rm -f "$TMP/err"
		read -r words collections <<<"$(progress now)"
		background "$TOOL" memprof -pid "$TARGET" --rate 1 >"$TMP/out" 2>"$TMP/err"
		wait_for "has_text '$TMP/err' sampling"
		sleep 0.05
		kill -INT $!
		wait $! || fail "status $? $(cat "$TMP/out" "$TMP/err")"
		read -r first_words first_collections <<<"$(progress first)"
		printf 'started after %s words\n' $((first_words - words)) >&2
		eq "$first_collections" "$collections" "collections"
		((words < first_words && first_words < words + 262144 / 10)) ||
			fail "the start took $((first_words - words)) words"
	done
}

test_blocked_program() {
	start_subject blocked
	background "$TOOL" memprof -pid "$TARGET" --rate 0.01 >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' 'starts when it continues'"
	tell go
	let_work 5
	kill -INT $!
	wait $!
	matches "$(<"$TMP/out")" 'Subject'
	quit_target
}

# A loop without allocation has poll points, in all versions that have Memprof: the profile starts before the program
# leaves the loop. A tool that got no CPU until then tells nothing, so there are some tries. How long the start takes
# is a matter of `make bench`.
test_busy_program() {
	local in_loop='' try
	start_subject spinning
	for ((try = 0; try < 5 && !in_loop; try++)); do
		forget_output
		await_line spinning
		background "$TOOL" memprof -pid "$TARGET" --rate 0.01 --json >"$TMP/out" 2>"$TMP/err"
		wait_for "has_text '$TMP/err' sampling"
		[[ $(tail -n 1 "$(output_of)") != spinning ]] || in_loop=1
		holds wait_for "grep -qs Subject.leak '$TMP/out'"
		kill -INT $!
		wait $!
	done
	((in_loop)) || fail "it starts behind the loop: $(head -n 1 "$TMP/out")"
}

test_threads() {
	start_subject threads
	memprof_for_ticks 5 --rate 0.01 >"$TMP/out"
	matches "$(<"$TMP/out")" 'Subject.leak'
	quit_target
	eq "$TARGET_STATUS" 0
}

test_fork() {
	local child parent
	start_subject leak
	parent=$TARGET
	background "$TOOL" memprof -pid "$parent" --rate 0.01 >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	tell fork
	await_line 'child [0-9]*'
	child=$(sed -n 's/^child //p' "$(output_of)")
	let_work 3
	kill -INT $!
	wait $!
	matches "$(<"$TMP/out")" '1 forks: children are not profiled'
	# The child can be profiled by itself.
	TARGET=$child memprof_for_ticks 3 --rate 0.01 >"$TMP/child"
	matches "$(<"$TMP/child")" 'Subject.leak'
	TARGET=$parent
	eq "$(status_of_target)" free
}

test_daemon_that_closes_all() {
	local daemon
	start_subject daemon
	await_line 'daemon [0-9]*'
	daemon=$(sed -n 's/^daemon //p' "$(output_of)")
	wait_for "TARGET=$daemon memprof --for 100ms >'$TMP/out' 2>&1"
	TARGET=$daemon memprof_for_ticks 3 --rate 0.01 >"$TMP/out"
	matches "$(<"$TMP/out")" 'Subject.leak'
	kill "$daemon"
}

test_exec() {
	start_subject leak
	background "$TOOL" memprof -pid "$TARGET" --rate 0.01 >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	let_work 3
	tell exec
	wait $!
	matches "$(<"$TMP/err")" 'has executed another program'
	matches "$(<"$TMP/out")" 'Subject.leak'
	eq "$(status_of_target)" free
}

test_end_of_the_program() {
	start_subject leak
	background timeout 600 "$TOOL" memprof -pid "$TARGET" --rate 0.01 >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	let_work 3
	kill -KILL "$TARGET"
	wait $!
	matches "$(<"$TMP/err")" 'has ended'
	matches "$(<"$TMP/out")" 'Subject.leak'
}

test_domains() {
	need_program domains
	start_target "$PROGRAM"
	await_line ready
	local i
	for i in 1 2; do
		memprof --for 4s --rate 0.001 --json >"$TMP/out" 2>"$TMP/err"
		eq "$(grep -v 'sampling\|events: through the ring of the library$' "$TMP/err" || :)" ""
		# The main domain, two old ones, and many young ones.
		grep -o '"domain":[0-9]*,' "$TMP/out" | sort -u >"$TMP/domains"
		(($(wc -l <"$TMP/domains") > 10)) || fail "$(head "$TMP/out")"
		eq "$(sed -n 's/.*:\([012]\),$/\1/p' "$TMP/domains" | xargs)" "0 1 2"
		forget_output
		wait_for 'tell status; grep -qx free "$(output_of)"'
	done
	quit_target
	eq "$TARGET_STATUS" 0
}
only_if test_domains is_ocaml_5

# A domain that hardly allocates starts while another is busy without allocation, and takes all
# signals; one that waits starts when it continues.
test_busy_domain() {
	local rare
	need_program domains
	start_target "$PROGRAM" apart
	await_line 'domains .*'
	background "$TOOL" memprof -pid "$TARGET" --rate 1 --json >"$TMP/out" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	rare=$(sed -n 's/^domains \([0-9]*\) .*/\1/p' "$(output_of)")
	wait_for "grep -q '\"domain\":$rare,' '$TMP/out'"
	python3 -c 'import time; print(time.monotonic_ns())' >"$TMP/go"
	tell go
	wait_for "grep -q '\"domain\":3,' '$TMP/out'"
	kill -INT $!
	wait $!
	eq "$(grep -v 'sampling\|events: through the ring of the library$' "$TMP/err")" ""
	# shellcheck disable=SC2046 # these are words
	holds python3 - "$TMP/out" $(<"$TMP/go") $(sed -n 's/^domains //p' "$(output_of)") <<-'PY' || fail "$(head -n 30 "$TMP/out")"
	import json, sys
	first = {}
	for line in open(sys.argv[1]):
	    event = json.loads(line)
	    if event["event"].startswith("alloc"):
	        first.setdefault(event["domain"], event["time_ns"])
	go, rare, busy, waiting = map(int, sys.argv[2:])
	start = min(first.values())
	# The busy one may not have allocated yet.
	print(f"rare {first[rare] - start} ns, waiting {first[waiting] - go} ns", file=sys.stderr)
	assert first[rare] < go < first[waiting]
	PY
	tell quit
}
only_if test_busy_domain is_ocaml_5

# ---- a program that writes made-up events for ever -------------------------------------------------

start_endless() {
	start_target "$O/tests/fixtures/binaries/endless_stacks"
	await_line ready
}

# The deadline ends the profile: of what the program writes after it, the tool takes no more than the ring holds.
test_endless_events() {
	local taken
	start_endless
	memprof --for 100ms >"$TMP/out" 2>"$TMP/err" || fail "status $?: $(<"$TMP/err")"
	matches "$(<"$TMP/out")" ' blocks: [0-9]+ words allocated'
	wait_for 'grep -q "^taken" "$(output_of)"'
	read -r _ taken _ _ < <(grep '^taken' "$(output_of)")
	[[ $taken -gt 0 && $taken -le 16777216 ]] || fail "bytes after the stop: $(cat "$(output_of)")"
}

# Blocks and call stacks have limits, and what exceeds them is counted.
test_endless_stacks() {
	local format tool peak
	for format in "" --folded --json; do
		start_endless
		# shellcheck disable=SC2086 # no format is no argument
		background "$TOOL" memprof -pid "$TARGET" $format >"$TMP/out" 2>"$TMP/err"
		tool=$!
		await_line written
		peak=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$tool/status")
		kill -INT "$tool"
		wait "$tool" || fail "status $?: $(<"$TMP/err")"
		if [[ $format = --json ]]; then
			tail -n 1 "$TMP/out" | finds '"not_followed":[1-9][0-9]*,"without_stack":[1-9]' || fail "$(tail -n 1 "$TMP/out")"
		else
			[[ -z $format ]] || cp "$TMP/err" "$TMP/out"
			grep -qE '^[0-9]+ blocks were not followed: more than 524288 are alive$' "$TMP/out" || fail "$(<"$TMP/out")"
			grep -qE '^[0-9]+ blocks have no call stack: there are too many$' "$TMP/out" || fail "$(<"$TMP/out")"
		fi
		[[ $peak -lt 400 ]] || fail "$peak MB"
		kill "$TARGET"
	done
}

[[ -z ${MEMPROF_EVENTS:-}${MEMPROF_KILLS:-} ]] || TEST_TIMEOUT=1800
run_tests "$@"
