#!/usr/bin/env bash
# What counts inside of a process without its tool: kept, or left by one that was killed. It is found by
# /proc alone. And which engine --engine auto takes.
#
# needs: fixtures asan ocaml/counted ocaml/unprobed
# uses: all-blocks
# smoke: test_ordinary_user
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

# One a test script, also for the bash that runs a test alone.
NAME=ocp_inside_$PPID
KILLS=${KILLS:-8}

# The programs are copies, since the kernel's uprobes are on some of them, too.
start_copy() { # NAME ARG...
	local name=$1
	shift
	cp "$O/tests/ocaml/$name" "$TMP/$name"
	start_target "$TMP/$name" "$@"
	await_line ready
}

keep() { # FLAG...
	"$TOOL" attach -pid "$TARGET" --engine inside --keep "$NAME" "$@" 2>"$TMP/keep.err" || fail "$(<"$TMP/keep.err")"
}

check_restored() { # BEFORE
	eq "$(memory_of "$TARGET")" "$1" "text and semaphores"
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

# The value of MEMBER in the last line of $TMP/json.
member() { # MEMBER
	tail -n 1 "$TMP/json" | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# The owner needs no capabilities, and no BPF file system. Others are refused.
test_ordinary_user() {
	local as_user=(env -u TMP setpriv --clear-groups --bounding-set=-all --inh-caps=-all)
	local owner=("${as_user[@]}" --reuid=65534 --regid=65534 "$TMP/ocaml-probes")
	local other=("${as_user[@]}" --reuid=60123 --regid=60123 "$TMP/ocaml-probes")
	local command status
	need_root
	need_command setpriv
	chmod 755 "$TMP"
	cp "$O/tests/ocaml/counted" "$TOOL" "$TMP"
	start_target "${as_user[@]}" --reuid=65534 --regid=65534 "$TMP/counted" 100000 2
	await_line ready
	"${owner[@]}" attach -pid "$TARGET" --count --engine auto --keep "$NAME" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'engine: inside, since BPF is not available: .*lacks CAP_BPF'
	tell go
	await_line '# in_loop was seen.*' 60
	for command in read detach; do
		status=0
		"${other[@]}" $command -pid "$TARGET" >"$TMP/out" 2>"$TMP/err" || status=$?
		eq "$status" 3 "status: $(<"$TMP/err")"
		matches "$(<"$TMP/err")" "belongs to uid 65534, you are uid 60123"
		status=0
		"${other[@]}" $command "$NAME" >"$TMP/out" 2>"$TMP/err" || status=$?
		[[ $status -eq 2 || $status -eq 3 ]] || fail "status $status: $(<"$TMP/err")"
		matches "$(<"$TMP/err")" "hint: .*only its owner finds it"
	done
	# What root keeps in the kernel cannot be listed, and that is said.
	[[ -d /sys/fs/bpf/ocaml-probes ]] || mkdir -m 700 /sys/fs/bpf/ocaml-probes
	"${owner[@]}" list --kept 2>"$TMP/err" | finds "^$NAME "
	eq "$(<"$TMP/err")" \
		"ocaml-probes: warning: measurements in the kernel are not listed: /sys/fs/bpf/ocaml-probes: Permission denied"
	"${owner[@]}" read "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, read"
	# Root finds it, too.
	"$TOOL" read "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, read by root"
	"${owner[@]}" detach "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, detached"
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

# A killed tool has given no name.
test_killed_tool() {
	local before
	start_copy counted 1000000000 2
	before=$(memory_of "$TARGET")
	start_counting "$TARGET" --engine inside --json
	tell go
	let_run all
	check_error 6 "pid $TARGET: is being counted by the tool with pid $COUNTING" detach -pid "$TARGET"
	kill -KILL "$COUNTING"
	wait "$COUNTING" || :
	let_run all
	tell stop
	await_line '# in_loop was seen.*' 60
	"$TOOL" read -pid "$TARGET" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, read"
	"$TOOL" detach -pid "$TARGET" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, detached"
	check_restored "$before"
	check_error 2 "pid $TARGET: nothing is counted inside of it" read -pid "$TARGET"
}

detach_kept() {
	"$TOOL" detach "$NAME" >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
}

# Killed in each phase of the attach: whatever it has left is read, taken away or repaired.
test_killed_in_between() {
	local before call keep kept=''
	start_copy counted 1000 2
	before=$(memory_of "$TARGET")
	keep=("$TOOL" attach -pid "$TARGET" --count --engine inside --keep "$NAME")
	list_calls "${keep[@]}"
	"$TOOL" detach "$NAME" >"$TMP/out"
	for call in $(spread_calls "$KILLS"); do
		RESTORE=detach_kept kill_when_reached "$call" "${keep[@]}"
		await_running
		if "$TOOL" read "$NAME" --json >"$TMP/counts" 2>"$TMP/err"; then
			kept+=y
			"$TOOL" detach "$NAME" >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		else
			kept+=n
			matches "$(<"$TMP/err")" 'no kept measurement of this name'
			"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/out"
		fi
		check_restored "$before"
	done
	# From some call on it is kept.
	matches "$kept" '^n+y+$' "kept or not, by the call"
	keep --count
	"$TOOL" detach "$NAME" >"$TMP/out"
	tell go
	await_line '# in_loop was seen.*' 60
}

# Children share the counters; the totals are those of all, whoever has ended.
test_forked_children() {
	start_copy forking 5 1000
	keep --count
	tell go
	await_line 'done'
	"$TOOL" read "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "work 6000" "hits of all"
	tell again
	await_line 'done again'
	"$TOOL" detach "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "work 12000" "hits of all"
	quit_target
}

# The process has ended, its child goes on: it is found, and ended, by the child.
test_orphans() {
	local parent child
	start_copy forking 1 4000000000000000000
	parent=$TARGET
	keep --count
	tell go
	wait_for 'child=$(pgrep -P "$parent")'
	child=$(pgrep -P "$parent")
	wait_for '"$TOOL" read "$NAME" 2>&1 >"$TMP/out" | finds "those of pid $parent and of 1 process that it has forked"'
	kill -KILL "$parent"
	finish_target
	"$TOOL" read "$NAME" --json >"$TMP/counts" 2>"$TMP/err"
	matches "$(<"$TMP/err")" "pid $parent no longer counts; .* 1 process that it has forked"
	"$TOOL" list --kept 2>"$TMP/err" | finds "^$NAME .* 1 of 2 processes alive, pid $parent, "
	first=$(totals)
	wait_for '"$TOOL" read -q -pid '"$child"' --json >"$TMP/counts"; [[ $(totals) != "$first" ]]'
	"$TOOL" detach "$NAME" >"$TMP/out" 2>"$TMP/err"
	eq "$("$TOOL" doctor -pid "$child")" "" "doctor"
	check_error 2 'no kept measurement of this name' read "$NAME"
	kill -KILL "$child"
}

test_the_process_has_ended() {
	start_copy counted 10 1
	keep --count
	tell go
	await_line '# in_loop was seen.*' 60
	quit_target
	check_error 2 "'$NAME': no kept measurement of this name" read "$NAME"
	matches "$(<"$TMP/err")" 'hint: counting inside of a process ends with the process'
	check_error 5 "pid $TARGET: no such process" read -pid "$TARGET"
}

# BPF's meters and those inside of processes: a name is given once.
test_one_name_space() {
	need_bpf
	trap '[[ ! -e /sys/fs/bpf/ocaml-probes/$NAME ]] || "$TOOL" detach "$NAME" >/dev/null 2>&1' EXIT
	start_copy counted 10 1
	keep --count
	check_error 1 "a kept measurement of this name exists" attach -pid "$TARGET" -q --count --keep "$NAME"
	check_error 1 "a kept measurement of this name exists" attach -pid "$TARGET" -q --count --engine inside --keep "$NAME"
	"$TOOL" detach "$NAME" >"$TMP/out"
	"$TOOL" attach -pid "$TARGET" -q --count --keep "$NAME"
	check_error 1 "a kept measurement of this name exists" attach -pid "$TARGET" -q --count --engine inside --keep "$NAME"
	eq "$("$TOOL" list --kept 2>"$TMP/err" | grep -c "^$NAME ")" 1 "meters of this name"
	"$TOOL" detach "$NAME" >"$TMP/out"
}

# ---- a hostile process ------------------------------------------------------------------------

# Replace the first FROM in what describes the counters by TO, of equal length.
edit_meta() { # FROM TO
	python3 - "$TARGET" "$1" "$2" <<-'EOF'
		import struct, sys
		pid, old, new = sys.argv[1], sys.argv[2].encode("latin-1"), sys.argv[3].encode("latin-1")
		old, new = (text.decode("unicode_escape").encode("latin-1") for text in (old, new))
		assert len(old) == len(new), (old, new)
		line = next(line for line in open(f"/proc/{pid}/maps") if "memfd:ocaml-probes-inside" in line)
		start = int(line.split("-")[0], 16)
		with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
		    memory.seek(start)
		    # struct block_header of src/change/inside/block.h
		    meta_off, meta_bytes = struct.unpack_from("<2Q", memory.read(256), 96)
		    memory.seek(start + meta_off)
		    meta = memory.read(meta_bytes)
		    assert meta[:8] == b"ocInMeta", meta[:80]
		    at = meta.index(old)
		    memory.seek(start + meta_off + at)
		    memory.write(new)
	EOF
}

# Replace the 32-bit number OLD at OFFSET of the block by NEW.
edit_block() { # OFFSET OLD NEW
	python3 - "$TARGET" "$@" <<-'EOF'
		import struct, sys
		pid, (at, old, new) = sys.argv[1], map(int, sys.argv[2:])
		line = next(line for line in open(f"/proc/{pid}/maps") if "memfd:ocaml-probes-inside" in line)
		with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
		    memory.seek(int(line.split("-")[0], 16) + at)
		    assert struct.unpack("<I", memory.read(4))[0] == old
		    memory.seek(int(line.split("-")[0], 16) + at)
		    memory.write(struct.pack("<I", new))
	EOF
}

# It is refused in a line that says WHY, and can be ended without being read.
damaged() { # FROM TO STATUS WHY
	local before
	before=$(memory_of "$TARGET")
	keep --count --time outer,tail
	edit_meta "$1" "$2"
	check_error 1 "$3" read -pid "$TARGET"
	"$TOOL" list --kept >"$TMP/out" 2>"$TMP/err"
	"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/out"
	check_restored "$before"
	keep --count --time outer,tail
	edit_meta "$1" "$2"
	if [[ $3 = *damaged ]]; then
		"$TOOL" detach -pid "$TARGET" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		matches "$(<"$TMP/err")" 'was incomplete: removed'
	else
		check_error 1 "$3" detach -pid "$TARGET"
		"$TOOL" doctor -pid "$TARGET" -fix >"$TMP/out"
	fi
	check_restored "$before"
}

test_damaged_meta() {
	start_copy counted 10 1
	TOOL=$O/asan/ocaml-probes
	[[ -x $TOOL ]] || TOOL=$O/ocaml-probes
	damaged ocInMeta ocInMetb 'pid [0-9]*: the description of its counters is damaged'
	damaged 'ocInMeta\x02' 'ocInMeta\x03' 'is of another version of ocaml-probes'
	damaged 'ocaml-probes-kept 2' 'ocaml-probes-kept 3' 'is of another version of ocaml-probes'
	damaged 'pair 0 =outer =tail' 'pair 2 =outer =tail' 'damaged'
	damaged '\nsplit 0' '\nsplit 2' 'damaged'
	damaged 'pair 0 =outer =tail' 'paiR 0 =outer =tail' 'damaged'
	damaged 'probe 1 =in_loop' 'probe 1 =in_\0oop' 'damaged'
	damaged 'probe 1 =in_loop' 'probe 1 =in\nloop' 'damaged'
	damaged "\\npid $TARGET" "\\npid $(tr 0-9 x <<<"$TARGET")" 'damaged'
}

# The code that another version has left is called by the sites: nobody removes it.
test_of_another_version() {
	local command version
	version=$(sed -n 's/.*BLOCK_VERSION = \([0-9]*\),.*/\1/p' "$ROOT/src/change/inside/block.h")
	start_copy counted 100000 2
	keep --count
	edit_block 8 "$version" $((version + 1))
	for command in read detach; do
		check_error 1 'is counted inside by another version of ocaml-probes' $command -pid "$TARGET"
	done
	check_error 1 'is counted inside by another version of ocaml-probes' attach -pid "$TARGET" --count --engine inside
	tell go
	await_line '# in_loop was seen.*' 60
	edit_block 8 $((version + 1)) "$version"
	"$TOOL" detach "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits"
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

# What would control the terminal is shown as '?'; a name that nobody can give is no name.
test_text_is_plain() {
	start_copy counted 10 1
	keep --count
	edit_meta 'probe 1 =in_loop' 'probe 1 =in%1bop'
	"$TOOL" read "$NAME" --all >"$TMP/out"
	finds '^in?op ' "$TMP/out"
	! finds "$(printf '\033')" "$TMP/out" || fail "a control character was printed"
	edit_meta "$NAME" "$(tr -c '\n' / <<<"$NAME")"
	check_error 2 'no kept measurement' read "$NAME"
	check_error 1 'damaged' read -pid "$TARGET"
}

# ---- auto -------------------------------------------------------------------------------------

auto() { # FLAG...
	"$TOOL" attach -pid "$TARGET" --engine auto --json --for 50ms "$@" >"$TMP/json" 2>"$TMP/err" || fail "$(<"$TMP/err")"
}

# The rate decides, or the budget, or what only BPF can do.
test_auto() {
	need_bpf
	start_copy counted 1000000000 2
	auto --count
	eq "$(member engine)" bpf "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'engine: bpf, since 0 hits/s take 0.00% of a core with BPF, within the budget of 5%'
	tell go
	let_run all
	# Other tests must not take the CPUs from it while `auto` looks.
	# shellcheck disable=SC2046 # words
	renice -n -10 -p $(ls "/proc/$TARGET/task") >/dev/null
	auto --count
	eq "$(member engine)" inside "$(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'engine: inside, since [0-9]+ hits/s take [0-9.]+% of a core with BPF, more than the budget of 5%'
	matches "$(member engine_reason)" '^[0-9]+ hits/s take .* more than the budget of 5%$'
	auto --count --budget 99999%
	eq "$(member engine)" bpf "$(<"$TMP/err")"
	auto --count --by-thread
	matches "$(<"$TMP/err")" 'engine: bpf, since inside excludes --by-thread'
	auto --count=c:caml_main
	matches "$(<"$TMP/err")" 'engine: bpf, since inside would replace the first instructions of c:'
	auto --time c:caml_main
	matches "$(<"$TMP/err")" 'engine: bpf, since inside excludes note:, times of c:'
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
	check_error 2 "probe 'nosuch': no such probe" attach -pid "$TARGET" --count=nosuch --engine auto
}

# Hits that take little of a core, but much of the CPU time of the program: measuring by BPF would end at its limit. The number of
# calls in two milliseconds is raised until they take more than 1% of a core.
test_auto_knows_the_limit() {
	local n reason=''
	need_bpf
	for ((n = 10; n <= 640; n *= 2)); do
		start_target "$O/tests/ocaml/unprobed"
		await_exe "$O/tests/ocaml/unprobed"
		renice -n -10 "$TARGET" >/dev/null
		# shellcheck disable=SC2154 # start_target() sets it
		background yes "go $n" >&"${target_fd[$TARGET]}"
		await_line 'done'
		auto --count=fn:Unprobed.find
		reason=$(member engine_reason)
		[[ $reason = *"within the budget"* ]] || break
		kill "$TARGET"
	done
	matches "$reason" "^[0-9]+ hits/s take [0-9]+% of the program's CPU time with BPF, more than the limit of 20%$"
	eq "$(member engine)" inside "$(<"$TMP/err")"
	finds -F "engine: inside, since $reason" "$TMP/err"
	auto --count=fn:Unprobed.find --budget none
	matches "$(member engine_reason)" 'within the budget of 5%$'
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

# No hit is counted twice, or by none, when `auto` has looked.
test_auto_is_exact() {
	need_bpf
	start_copy counted 100000 2
	start_counting "$TARGET" --json --engine auto
	tell go
	await_line '# in_loop was seen.*' 60
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(totals)" "$(expected_hits)" "hits"
}

# The budget of the engine inside: its hits cost something, too.
test_budget() {
	local status=0
	start_copy counted 1000000000 2
	tell go
	"$TOOL" attach -pid "$TARGET" --count --engine inside --budget 0.000001% --for 1h >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 7 "status: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'exceeds the budget'
	matches "$(tail -n 1 "$TMP/out")" '^CPU overhead: [0-9]+ hits/s x [0-9.]+ ns per hit = '
}

test_wrong_use() {
	start_copy counted 10 1
	check_error 2 'invalid name' attach -pid "$TARGET" --count --engine inside --keep a/b
	check_error 2 'excludes --for' attach -pid "$TARGET" --count --engine inside --keep x --for 1s
	check_error 2 'one name, or -pid, is required' read
	check_error 2 '-pid and a name are mutually exclusive' detach x -pid "$TARGET"
	check_error 2 "'0': not a process id" read -pid 0
	check_error 2 'given twice' detach -pid 1 -pid "$TARGET"
	check_error 2 "no kept measurement of this name" read "$TARGET"
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

run_tests "$@"
