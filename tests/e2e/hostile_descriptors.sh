#!/usr/bin/env bash
# Programs of another user that let root's tool come to files that it was not meant for: through descriptors that change
# while it works, and through names that look like those of memory (tests/fixtures/binaries/hostile.c).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"

USER_ID=65534
AS_USER=(env -u TMP setpriv "--reuid=$USER_ID" "--regid=$USER_ID" --clear-groups --bounding-set=-all --inh-caps=-all)

# The victim has 4 MB, as much as any of the memory that the tool makes.
make_victim() { # MODE
	VICTIM=$TMP/victim
	yes 'what root has written' | head -c 4M >"$VICTIM" || :
	chmod "$1" "$VICTIM"
	touch -d '2001-02-03 04:05:06' "$VICTIM"
	chmod 711 "$TMP/.." "$TMP"
	cp "$VICTIM" "$TMP/before"
	STATUS=$(stat -c '%s bytes, written %y, %h links, mode %a' "$VICTIM")
}

check_victim() { # WHEN
	eq "$(stat -c '%s bytes, written %y, %h links, mode %a' "$VICTIM")" "$STATUS" "the file, $1"
	cmp "$VICTIM" "$TMP/before" || fail "the file has changed, $1"
}

start_hostile() { # [FOLDER]
	need_root
	need_command setpriv
	start_target "${AS_USER[@]}" "$(own_copy "$O/tests/fixtures/binaries/hostile")" "$VICTIM" "$@"
	await_line ready
}

order() { # LINE
	forget_output
	tell "$1"
	await_line 'done'
}

# It ends before long, by itself, and says why if it fails. Sets STATUS_OF_TOOL; what is said is in $TMP/err.
ends() { # ARG...
	STATUS_OF_TOOL=0
	timeout -k 5 60 "$TOOL" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || STATUS_OF_TOOL=$?
	[[ $STATUS_OF_TOOL -lt 9 ]] || fail "status $STATUS_OF_TOOL of $*: $(<"$TMP/err")"
	# The findings of doctor are its output.
	[[ $STATUS_OF_TOOL -eq 0 || -s $TMP/out ]] || grep -q '^ocaml-probes: ' "$TMP/err" || fail "$* says nothing: $(<"$TMP/err")"
}

# Run the tool while descriptors change, until it has seen that twice. SWITCH among the ARGs enables and disables all
# probes by turns.
until_refused() { # ARG...
	local refused=0 i ways=(-enable-all -disable-all)
	for ((i = 0; refused < 2; i++)); do
		((i < 300)) || fail "no change of a descriptor came in time, in $i runs of $*"
		ends "${@/#SWITCH/${ways[i % 2]}}"
		! grep -qE 'another process|in the process: Bad file descriptor' "$TMP/err" || refused=$((refused + 1))
		check_victim "run $i of $*: $(<"$TMP/err")"
	done
	printf '%s of %s runs: %s\n' "$refused" "$i" "$*" >&2
}

swapped_descriptors() {
	local before swaps
	# Found by its path alone: root alone may open it.
	make_victim 600
	start_hostile
	! "${AS_USER[@]}" cat "$VICTIM" >/dev/null 2>&1 || fail "the user may read the file"
	before=$(memory_of "$TARGET" | sha256sum)
	order swap
	# With luck it has a CPU at the moments that matter.
	renice -n -15 -p "$(pgrep -P "$TARGET")" >/dev/null
	until_refused attach -pid "$TARGET" --count --engine inside --for 1ms
	eq "$(memory_of "$TARGET" | sha256sum)" "$before" "text and semaphores"
	# What the program cannot store by itself is written by the tool.
	until_refused attach -pid "$TARGET" SWITCH -force --verbose
	ends attach -pid "$TARGET" -disable-all -force
	eq "$(memory_of "$TARGET" | sha256sum)" "$before" "text and semaphores"
	order swaps
	swaps=$(sed -n 's/^swaps //p' "$(output_of)")
	printf '%s descriptors were changed\n' "$swaps" >&2
	[[ $swaps -ge 4 ]] || fail "only $swaps descriptors were changed"
	quit_target
	eq "$TARGET_STATUS" 0 "status of the program"
}

test_swapped_descriptors() {
	swapped_descriptors
}

test_swapped_descriptors_sanitized() {
	TOOL=$O/asan/ocaml-probes
	swapped_descriptors
}

# A folder of the user, where the program has another root.
start_hostile_in_folder() {
	make_victim 644
	mkdir -m 700 "$TMP/root"
	chown "$USER_ID" "$TMP/root"
	start_hostile "$TMP/root"
}

# The memory of counters is a private copy, mapped from a file of root: the tool must not write to that.
forged_memory() {
	local before
	start_hostile_in_folder
	before=$(memory_of "$TARGET" | sha256sum)
	"$TOOL" attach -pid "$TARGET" --count --engine inside --keep "hostile_$$" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	order forge
	eq "$(grep forged "$(output_of)")" 'forged 2' "mappings"
	ends read -pid "$TARGET"
	check_victim "read"
	ends doctor -pid "$TARGET"
	check_victim "doctor"
	ends detach -pid "$TARGET"
	check_victim "detach: $(<"$TMP/err")"
	ends doctor -pid "$TARGET" --fix
	check_victim "doctor --fix: $(<"$TMP/err")"
	eq "$(memory_of "$TARGET" | sha256sum)" "$before" "text and semaphores"
	quit_target
	eq "$TARGET_STATUS" 0 "status of the program"
}

test_forged_memory() {
	forged_memory
}

test_forged_memory_sanitized() {
	TOOL=$O/asan/ocaml-probes
	forged_memory
}

NOT_LINKED='is not linked with ocaml-probes.memprof'

# A pipe that nobody writes to is called like the signpost.
pipe_as_signpost() {
	start_hostile_in_folder
	matches "$(ls -l "/proc/$TARGET/fd")" '/memfd:ocaml-probes\.memprof ' "descriptors"
	ends memprof -pid "$TARGET" --for 1s
	eq "$STATUS_OF_TOOL" 1 "status"
	matches "$(<"$TMP/err")" 'not an OCaml program'
	# `top` asks at once.
	mkfifo "$TMP/keys"
	exec {keys}<>"$TMP/keys"
	env -u TMP TERM=xterm script -qfc "stty rows 30 cols 150; exec $TOOL top -pid $TARGET --memprof" "$TMP/screen" \
		<"$TMP/keys" >/dev/null 2>&1 &
	wait_for "grep -aq '$NOT_LINKED' '$TMP/screen'"
	printf q >&"$keys"
	wait $!
	start_server -pid "$TARGET" --memprof
	# shellcheck disable=SC2016 # evaluated later
	wait_for '[[ $(ask debug/pprof/heap) = 501 ]]'
	matches "$(<"$TMP/reply")" "$NOT_LINKED"
	end_server
	eq "$SERVER_STATUS" 0 "status of serve"
}

test_pipe_as_signpost() {
	pipe_as_signpost
}

test_pipe_as_signpost_sanitized() {
	TOOL=$O/asan/ocaml-probes
	pipe_as_signpost
}

# Lines of the source are looked up in a file that says that a part of them is in a pipe.
test_lines_in_a_pipe() {
	need_command objcopy
	make_victim 600
	cp "$O/tests/fixtures/binaries/lines_elsewhere" "$TMP/hostile"
	mkfifo -m 644 "$TMP/pipe"
	printf '%s\0%020d' "$TMP/pipe" 0 >"$TMP/link"
	objcopy --add-section .gnu_debugaltlink="$TMP/link" "$TMP/hostile"
	start_target "${AS_USER[@]}" "$TMP/hostile" "$VICTIM"
	await_line ready
	ends attach -pid "$TARGET" --count --by-site --engine inside --for 1ms
	eq "$STATUS_OF_TOOL" 0 "status: $(<"$TMP/err")"
	quit_target
	eq "$TARGET_STATUS" 0 "status of the program"
}

run_tests "$@"
