# shellcheck shell=bash
# Kills at chosen system calls (tests/fixtures/binaries/kill_at.c). A kill that misses its call fails the test.
KILL_AT=$O/tests/fixtures/binaries/kill_at
declare -A PLACES

# Remove what killed tools have left of unfinished journals: the next tool removes those that are a minute old, by one
# more call.
forget_unfinished_journals() {
	local unfinished=(/run/ocaml-probes/.[0-9]*)
	[[ ! -e ${unfinished[0]} ]] || rm -f "${unfinished[@]}"
}

# Set CALLS to the calls NAME:K of COMMAND that change something, in their order.
list_calls() { # COMMAND...
	local i
	forget_unfinished_journals
	"$KILL_AT" "$TMP/calls" list "$@" >"$TMP/killed.out" 2>&1 || fail "status $? of $*: $(<"$TMP/killed.out")"
	mapfile -t CALLS <"$TMP/calls"
	FIRST_WRITE='' LAST_WRITE='' PLACES=()
	for i in "${!CALLS[@]}"; do
		PLACES[${CALLS[i]}]=$i
		[[ ${CALLS[i]} != pwrite64:* && ${CALLS[i]} != process_vm_writev:* ]] ||
			FIRST_WRITE=${FIRST_WRITE:-$i} LAST_WRITE=$i
	done
}

# Has a tool that is killed at CALL written nothing to the process ("before"), all ("after"), or a part ("middle")?
progress_at() { # CALL
	local at=${PLACES[$1]:-${#CALLS[@]}}
	if ((at <= FIRST_WRITE)); then
		echo before
	elif ((at <= LAST_WRITE)); then
		echo middle
	else
		echo after
	fi
}

# What the calls of `attach` are for, in their order.
phases() {
	printf '%s\n' "${CALLS[@]%:*}" | sed 's/^\(mkdir\|openat\|write\|renameat\|unlinkat\)$/journal/
		s/^ptrace_\(seize\|interrupt\)$/stop/; s/^ptrace_detach$/let_go/
		s/^pwrite64$/sites/; s/^process_vm_writev$/semaphores/' | uniq | xargs
}

# Of CALLS, those that begin a run of one name, and each STEP-th of the others. The last: after all of them.
choose_calls() { # STEP
	local i
	for i in "${!CALLS[@]}"; do
		((i == 0 || i % $1 == 0)) || [[ ${CALLS[i]%:*} != "${CALLS[i - 1]%:*}" ]] || continue
		echo "${CALLS[i]}"
	done
	echo "after:${CALLS[-1]}"
}

# N of CALLS, evenly spread from the first to the last.
spread_calls() { # N
	local i n=$(($1 < ${#CALLS[@]} ? $1 : ${#CALLS[@]}))
	for ((i = 0; i < n; i++)); do
		echo "${CALLS[n > 1 ? i * (${#CALLS[@]} - 1) / (n - 1) : 0]}"
	done
}

# Kill COMMAND before CALL, or after it if CALL is after:NAME:K.
kill_at() { # CALL COMMAND...
	local status=0 place="before $1"
	[[ $1 != after:* ]] || place="after ${1#after:}"
	forget_unfinished_journals
	"$KILL_AT" "$TMP/killed" "$@" >"$TMP/killed.out" 2>&1 || status=$?
	eq "$status $(<"$TMP/killed")" "137 killed $place" "the kill of ${*:2}: $(<"$TMP/killed.out")"
}

# The same, but the tool may end before it comes to CALL: false.
kill_if_reached() { # CALL COMMAND...
	local status=0
	forget_unfinished_journals
	"$KILL_AT" "$TMP/killed" "$@" >"$TMP/killed.out" 2>&1 || status=$?
	[[ "$status $(<"$TMP/killed")" != "0 ended 0" ]] || return 1
	eq "$status $(<"$TMP/killed")" "137 killed before $1" "the kill of ${*:2}: $(<"$TMP/killed.out")"
}

# The same in as many runs as it takes: the number of late calls differs between runs. RESTORE comes after a run that ended.
kill_when_reached() { # CALL COMMAND...
	local try
	for try in {1..20}; do
		! kill_if_reached "$@" || return 0
		"${RESTORE:-true}"
	done
	fail "no run came to $1"
}

# The target can run: nobody has stopped or traces it.
await_running() {
	wait_for 'can_run "$TARGET"'
}

# Is no thread of PID stopped or traced?
can_run() { # PID
	local file
	for file in "/proc/$1"/task/*/status; do
		! has_text "$file" $'\n(State:.[tT]|TracerPid:.[1-9])' || return 1
	done
}

# Kill `attach FLAG` at each of its calls that change something, and after the last one. READ reads the sites and
# semaphores, OPPOSITE takes all back. `doctor --fix` leaves what was before, or, if all had been written, after.
check_killed_updates() { # READ FLAG OPPOSITE
	local read=$1 attach=("$TOOL" attach -quiet -pid "$TARGET") before after call now is
	before=$("$read" "$TARGET")
	list_calls "${attach[@]}" "$2"
	after=$("$read" "$TARGET")
	[[ $before != "$after" ]] || fail "$2 changes nothing"
	"${attach[@]}" "$3"
	eq "$("$read" "$TARGET")" "$before" "after $3"
	for call in "${CALLS[@]}" "after:${CALLS[-1]}"; do
		kill_at "$call" "${attach[@]}" "$2"
		await_running
		now=$("$read" "$TARGET")
		case $now in
		"$before") is=before ;;
		"$after") is=after ;;
		*) is=middle ;;
		esac
		eq "$is" "$(progress_at "$call")" "what a kill at $call leaves"
		"$TOOL" doctor -quiet -pid "$TARGET" --fix >"$TMP/fixed" || fail "doctor --fix, $call: $(<"$TMP/fixed")"
		if [[ $is = after ]]; then
			eq "$("$read" "$TARGET")" "$after" "after a kill at $call and doctor --fix"
			"${attach[@]}" "$3"
		else
			eq "$("$read" "$TARGET")" "$before" "after a kill at $call and doctor --fix"
		fi
	done
}
