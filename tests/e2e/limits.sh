#!/usr/bin/env bash
# Where something runs out: processes, space, and standard descriptors. A command then ends with a sentence and a
# documented status, leaves nothing in the target, and leaves no part of a file.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

start_steady() {
	need_counting
	EXE=$(own_copy "$O/tests/fixtures/binaries/steady")
	start_target "$EXE" 100
	await_line ready
	BEFORE=$(memory_of "$TARGET")
}

# What the target's memory held before is there again.
check_untouched() { # WHAT
	eq "$(memory_of "$TARGET")" "$BEFORE" "the target after $1"
}

# ---- processes --------------------------------------------------------------------------------

test_no_more_processes() {
	need_counting
	need_command unshare
	unshare --mount --propagation private bash "$0" --one no_more_processes
}

# Make a group of processes, in a mount of this test's own. Sets GROUP.
make_group() {
	local mounted=$TMP/groups
	mkdir "$mounted"
	if ! mount -t cgroup -o pids none "$mounted" 2>"$TMP/mount"; then
		mount -t cgroup2 none "$mounted"
		echo +pids >"$mounted/cgroup.subtree_control"
	fi
	GROUP=$mounted/ocaml-probes-test-$$
	mkdir "$GROUP"
	trap 'kill -KILL $(<"$GROUP/cgroup.procs") 2>/dev/null || :; until rmdir "$GROUP"; do sleep 0.1; done' EXIT
}

# Run the tool where there may be N processes and threads, of which it is one. It must end with STATUS and say TEXT.
limited() { # N STATUS TEXT ARG...
	local status=0 n=$1 want=$2 text=$3
	shift 3
	echo "$n" >"$GROUP/pids.max"
	(
		echo "$BASHPID" >"$GROUP/cgroup.procs"
		exec "$TOOL" "$@" >"$TMP/out" 2>"$TMP/err"
	) || status=$?
	eq "$status" "$want" "status of $*: $(<"$TMP/err")"
	grep -qE -- "^ocaml-probes: $text\$" "$TMP/err" || fail "$* said: $(<"$TMP/err")"
	wait_for '[[ ! -s $GROUP/cgroup.procs ]]'
	check_untouched "$*"
}

no_more_processes() {
	local again='Resource temporarily unavailable'
	start_steady
	make_group
	limited 1 1 "cannot start a thread: $again" attach -pid "$TARGET" -enable-all
	limited 1 1 "cannot start a thread: $again" attach -pid "$TARGET" --count --engine inside --for 1s
	limited 1 1 "cannot start a thread: $again" trace -prog "$EXE" -enable-all -- 100 1
	limited 2 1 "$EXE: fork: $again" trace -prog "$EXE" -enable-all -- 100 1
	limited 1 1 "/bin/true: $again" attach -pid "$TARGET" --count -- /bin/true
	limited 1 1 "fork: $again" serve -pid "$TARGET" --listen 127.0.0.1:0
	limited 1 1 "fork: $again" serve --listen 127.0.0.1:0
	limited 2 1 "fork: $again" serve -pid "$TARGET" --listen 127.0.0.1:0 --profile
	limited 1 1 "$TMP/probes.prom: $again" serve -pid "$TARGET" --textfile "$TMP/probes.prom"
	[[ ! -e $TMP/probes.prom ]] || fail "a file is there"
	limited 1 0 "warning: new programs cannot be examined: fork: $again" top --batch 1
	# What needs no other process works.
	limited 1 0 "warning: the cost of measuring is not known: .*no memory or thread for it" \
		attach -pid "$TARGET" --count --for 300ms
	grep -qE '^tick +[1-9]' "$TMP/out" || fail "no hits: $(<"$TMP/out")"
	limited 1 0 ".*waits.*" profile -pid "$TARGET" --off-cpu --for 300ms
}

# ---- space ------------------------------------------------------------------------------------

test_full_disk() {
	need_counting
	need_command unshare
	unshare --mount --propagation private bash "$0" --one full_disk
}

# The tool must fail, say TEXT, and leave in the full folder what was there.
check_full() { # TEXT ARG...
	local status=0 text=$1
	shift
	"$TOOL" "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 1 "status of $*: $(<"$TMP/err")"
	grep -qE -- "^ocaml-probes: $text: No space left on device\$" "$TMP/err" || fail "$* said: $(<"$TMP/err")"
	eq "$(find "$SMALL" -type f -printf '%f ')" "$THERE" "files after $*"
	check_untouched "$*"
}

full_disk() {
	local free
	start_steady
	SMALL=$TMP/small
	mkdir "$SMALL"
	mount -t tmpfs -o size=16k tmpfs "$SMALL"
	echo old >"$SMALL/old.html"
	THERE='old.html fill '
	# A page is more than all of it, and some of it may fit.
	for free in 0 8192; do
		head -c $((12288 - free)) /dev/zero >"$SMALL/fill"
		THERE=$(find "$SMALL" -type f -printf '%f ')
		check_full "$SMALL/new.html: cannot write the profile" profile -pid "$TARGET" --for 50ms --html "$SMALL/new.html"
		check_full "$SMALL/old.html: cannot write the profile" profile -pid "$TARGET" --for 50ms --html "$SMALL/old.html"
		check_full "$SMALL/old.html: cannot write the report" report -pid "$TARGET" --for 50ms --html "$SMALL/old.html"
		finds '^this report has cost ' "$TMP/out"
		eq "$(<"$SMALL/old.html")" old "the old file"
	done
	head -c 12288 /dev/zero >"$SMALL/fill"
	check_full "$SMALL/new.pb.gz: cannot write the profile" profile -pid "$TARGET" --for 50ms --pprof "$SMALL/new.pb.gz"
	check_full "$SMALL/probes.prom" serve -pid "$TARGET" --textfile "$SMALL/probes.prom"
	# What is to be undone needs a journal.
	export XDG_RUNTIME_DIR=$SMALL
	check_full "$SMALL/ocaml-probes/[0-9.]*: cannot write the undo journal" attach -pid "$TARGET" -enable-all --for 1s
	full_while_serving
}

# A file that is there stays whole, and the next one comes when there is room.
full_while_serving() {
	rm "$SMALL/old.html"
	: >"$SMALL/fill"
	start_server -pid "$TARGET" --textfile "$SMALL/probes.prom" --interval 100ms --listen 127.0.0.1:0
	wait_for 'finds "^ocaml_probes_up.* 1$" "$SMALL/probes.prom"'
	wait_for 'head -c 16384 /dev/zero >"$SMALL/fill" 2>/dev/null
		grep -q "$SMALL/probes.prom: No space left on device" "$TMP/serve.err"'
	[[ -z $(tail -c 1 "$SMALL/probes.prom") ]] || fail "not whole: $(<"$SMALL/probes.prom")"
	finds '^ocaml_probes_up.* 1$' "$SMALL/probes.prom"
	cp "$SMALL/probes.prom" "$TMP/held"
	: >"$SMALL/fill"
	wait_for '! cmp -s "$SMALL/probes.prom" "$TMP/held"'
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
	check_untouched serve
}

# ---- standard descriptors ---------------------------------------------------------------------

# Each command ends by itself when nothing can be written, and says why.
test_full_output() {
	local command status
	start_steady
	while read -r command; do
		status=0
		# shellcheck disable=SC2086 # words
		timeout 300 "$TOOL" $command >/dev/full 2>"$TMP/err" || status=$?
		eq "$status" 1 "status of $command: $(<"$TMP/err")"
		eq "$(tail -n 1 "$TMP/err")" "ocaml-probes: standard output: No space left on device" "$command"
		check_untouched "$command"
	done <<-END
		help
		version
		list
		list --follow
		list --follow --json
		info -pid $TARGET
		list -prog $EXE
		attach -pid $TARGET --count --for 100ms
		attach -pid $TARGET --count --for 100ms --json
		attach -pid $TARGET --count --interval 100ms
		attach -pid $TARGET --print tick
		top -pid $TARGET --batch 1000000
		bpftrace -pid $TARGET count tick
	END
}

# Where standard descriptors are closed, no other file takes their numbers: messages would go there.
test_closed_descriptors() {
	local command
	start_steady
	need_command strace
	for command in "attach -pid $TARGET -enable nosuch" "attach -pid $TARGET --count --for 100ms" "info -pid $TARGET" \
		"serve -pid $TARGET --listen nosuch" "top -pid $TARGET --batch 1"; do
		# shellcheck disable=SC2086 # words
		python3 -c 'import os, sys
for fd in range(3):
    os.close(fd)
os.execv(sys.argv[1], sys.argv[1:])' "$(type -P strace)" -e trace='%desc,write' -o "$TMP/trace" "$TOOL" $command || :
		# From the first line of a program on: before, the linker loads its libraries.
		sed -n '/"\/dev\/null", .*= 2$/,$p' "$TMP/trace" >"$TMP/later"
		grep -qE '^write\([12], .*= -1 EBADF' "$TMP/later" || fail "$command wrote nothing: $(<"$TMP/trace")"
		! grep -E '^write\([012], .*= [0-9]+$' "$TMP/later" || fail "$command wrote to another file"
		check_untouched "$command"
	done
	exec {err}>"$TMP/err"
	! "$TOOL" info -pid "$TARGET" >&- 2>&"$err" || fail "it succeeded"
	eq "$(<"$TMP/err")" "ocaml-probes: standard output: Bad file descriptor"
}

run_tests "$@"
