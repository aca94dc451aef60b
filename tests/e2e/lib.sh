# shellcheck shell=bash
# What the scripts in tests/e2e share. A script is
#
#	. "$(dirname "$0")/lib.sh"
#	test_something() { ...; eq "$actual" "$expected" "what was compared"; }
#	run_tests "$@"
#
# and `bash tests/e2e/x.sh [test_something...]` runs it by hand. The script runs in namespaces of its own
# (tests/isolate). Each test is a bash process of its own with errexit: the first command that fails ends it. It
# has a fresh directory $TMP; when it ends, everything it started is killed. O is the build directory, ROOT the
# source's, TOOL the tool. A test that made no assertion has failed: eq, matches, finds and holds count theirs.
#
# The comment at the top of a script may hold these lines, which tests/run reads:
#
#	# alone: REASON       nothing runs beside it
#	# uses: NAME...       no two scripts that use the same NAME run at once
#	# needs: TARGET...    what `make try` builds for it: tool asan ocaml fixtures ... (tests/tests.mk); default: all
#	# smoke: CASE...      cases of `make quick`
#	# variants: NAME...   it runs again in these environments (VARIANTS in tests/run), in which VARIANT is NAME
#	# long: PART          no part of `make check`, but of this part of tests/long
#
# A script that takes longer sets TEST_TIMEOUT (seconds a test) before run_tests. This and PATIENCE are for what
# hangs: a machine that is slow, or has other things to do, must not come to them.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[[ -n ${ISOLATED:-} ]] || exec "$ROOT/tests/isolate" bash "$0" "$@"
# Each case sources this file again, and tests/isolate may have found O before: that takes a process.
[[ -n ${REAL_O:-} && ${O:-} = "$REAL_O" ]] || O=$(realpath -- "${O:-$ROOT/build}")
REAL_O=$O
TOOL=${TOOL:-$O/ocaml-probes}
VARIANT=${VARIANT:-}
# The engine that counts: see target_lib.sh.
ENGINE=${ENGINE:-bpf}
TEST_TIMEOUT=600
PATIENCE=${PATIENCE:-150}
export ROOT O REAL_O TOOL VARIANT ENGINE

# The tests must not depend on the environment of the user that runs them: the language, the sort order,
# and the shell of script(1) and tmux are always the same, those of a machine that sets none of these.
export SHELL=/bin/sh
unset LANG LANGUAGE "${!LC_@}" TERM NO_COLOR GREP_OPTIONS POSIXLY_CORRECT CDPATH TMUX

# ---- saying how it went -----------------------------------------------------------------------

fail() {
	printf '%s\n' "$*" >&2
	exit 1
}

skip() { # REASON
	printf '%s\n' "$*" >"$SKIP_FILE"
	exit 77
}

# Count an assertion. This is no failure where the file cannot be written: for another user, or in another root.
asserted() {
	{ printf . >>"${ASSERTIONS:-/dev/null}"; } 2>/dev/null || :
}

# Run a command that fails if what it checks is not so, as `cmp` or `grep -q`. Its status is that of this function.
holds() { # COMMAND...
	asserted
	"$@"
}

eq() { # ACTUAL EXPECTED [WHAT]
	asserted
	[[ $1 = "$2" ]] || fail "${3:-values} differ (< expected, > actual):
$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$1") || :)"
}

# Does TEXT match the extended regular expression RE?
matches() { # TEXT RE [WHAT]
	asserted
	[[ $1 =~ $2 ]] || fail "${3:-text} does not match $2:
$1"
}

# grep -q for pipes: it reads all of its input, so that the writer does not fail.
finds() { # GREP-ARG...
	asserted
	[[ $(grep -c "$@") -gt 0 ]]
}

# Run a function of this script among processes of its own: it sees none of other tests, nor the perf events of others.
among_our_own() { # FUNCTION
	need_counting
	need_command unshare
	holds unshare --mount --propagation private --pid --fork --mount-proc --kill-child bash "$0" --one "$1"
}

# Is what the tool says what a program says of itself? A COMPARISON is a function of tests/books. What it returns is in
# $TMP/compared.
compare_with_books() { # COMPARISON ARG...
	asserted
	python3 "$ROOT/tests/books" "$@" >"$TMP/compared" || fail "$(<"$TMP/compared")"
}

# Does each Python EXPRESSION hold of what was measured, $TMP/counts? See `that` in tests/books/counts.py.
measured_that() { # [BOOKS --] EXPRESSION...
	compare_with_books that "$TMP/counts" "$@"
}

need_command() { # COMMAND...
	local command
	for command; do
		type -P "$command" >/dev/null || skip "$command is not installed"
	done
}

need_root() {
	[[ $EUID -eq 0 ]] || skip "needs root"
}

is_ocaml_5() {
	[[ $(ocamlopt -version 2>/dev/null) = 5.* ]]
}

# The test NAME, which is defined above, applies where CONDITION holds: elsewhere it is not listed.
only_if() { # NAME CONDITION...
	"${@:2}" || unset -f "$1"
}

# The tests NAME..., which are defined above, do not apply to a VARIANT (`plain`: where the script runs without one):
# they are not listed for it. tests/run reads the line, too.
not_in() { # VARIANT NAME...
	[[ ${VARIANT:-plain} != "$1" ]] || unset -f "${@:2}"
}

# ---- processes --------------------------------------------------------------------------------

# Sleep, without a process that does: several tests wait at a time, and each looks often.
pause() { # SECONDS
	read -rt "$1" <>"$NEVER_WRITTEN" || :
}

# Evaluate CONDITION until it holds, for PATIENCE seconds, or SECONDS if these are more; and some times more after
# that, in case that nothing has run meanwhile.
wait_for() { # CONDITION [SECONDS]
	local seconds=$((${2:-0} > PATIENCE ? ${2:-0} : PATIENCE)) until_s tries=0 last_tries=50
	until_s=$((EPOCHSECONDS + seconds))
	until eval "$1"; do
		((EPOCHSECONDS < until_s || last_tries-- > 0)) || fail "waited $seconds s in vain for: $1"
		# What has not come in half a second may take longer.
		pause 0.0$((tries++ < 25 ? 2 : 6))
	done
}

# Run COMMAND in the background, its pid in $!. Unlike a plain `&`, Ctrl-C's signal reaches it.
background() { # COMMAND...
	env --default-signal=INT,QUIT "$@" &
}

declare -A target_fd target_out

# Start PROGRAM as a target: stdin is a pipe that `tell` writes to, stdout and stderr go to a file.
# Sets TARGET to its pid, which the other functions take by default.
start_target() { # PROGRAM [ARG...]
	local dir fd
	dir=$(mktemp -d "$TMP/target.XXXXXX")
	mkfifo "$dir/in"
	exec {fd}<>"$dir/in"
	env --default-signal=INT,QUIT "$@" <"$dir/in" >>"$dir/out" 2>&1 {fd}>&- &
	TARGET=$!
	target_fd[$TARGET]=$fd
	target_out[$TARGET]=$dir/out
}

# The file that holds what a target has written.
output_of() { # [PID]
	printf '%s\n' "${target_out[${1:-$TARGET}]}"
}

# A copy of FILE in $TMP, of which no other test sees the uprobes.
own_copy() { # FILE
	[[ -e $TMP/${1##*/} ]] || cp "$1" "$TMP/"
	printf '%s\n' "$TMP/${1##*/}"
}

# Copies of the C library and of libm in $TMP/lib, of which no other test sees the uprobes: without a pid, a uprobe on
# malloc is in every process of the machine. A program uses them by LD_LIBRARY_PATH.
own_c_library() {
	mkdir "$TMP/lib"
	cp /lib/x86_64-linux-gnu/{libc,libm}.so.6 "$TMP/lib"
}

# Empty that file, so that the next await_line sees new lines only.
forget_output() { # [PID]
	: >"$(output_of "$@")"
}

tell() { # LINE [PID]
	printf '%s\n' "$1" >&"${target_fd[${2:-$TARGET}]}"
}

# Does FILE have a line that matches the extended regular expression RE as a whole? No process is started: waits look often.
has_line() { # FILE RE
	local lines line
	[[ -e $1 ]] || return 1
	mapfile -t lines <"$1"
	for line in "${lines[@]}"; do
		[[ ! $line =~ ^($2)$ ]] || return 0
	done
	return 1
}

# Set TEXT to what FILE contains: nothing if it does not exist. No process is started: waits look often.
read_text() { # FILE
	TEXT=''
	{ read -rd '' TEXT <"$1" || :; } 2>/dev/null
}

# Does a part of FILE's text match the extended regular expression RE?
has_text() { # FILE RE
	local TEXT
	read_text "$1"
	[[ $TEXT =~ $2 ]]
}

# Wait until a target has written a line that matches the extended regular expression LINE.
await_line() { # LINE [SECONDS [PID]]
	wait_for "has_line '${target_out[${3:-$TARGET}]}' '$1'" "${2:-0}"
}

# Wait until a target runs FILE, and is no longer the shell that will execute it. For those that say
# nothing.
await_exe() { # FILE [PID]
	wait_for "[[ /proc/${2:-$TARGET}/exe -ef $(printf %q "$1") ]]"
}

# Has PID ended? It may stay a zombie if the first process does not reap orphans.
has_ended() { # PID
	! has_text "/proc/$1/status" $'\nState:.[^ZX]'
}

# Do pgrep and pgrep -f find PID by NAME's first letters? The kernel keeps 15 characters of it.
check_process_name() { # PID NAME
	eq "$(tr '\0' '\n' <"/proc/$1/cmdline" | head -n 1)" "$2" "argv[0]"
	eq "$(<"/proc/$1/comm")" "${2:0:15}" "comm"
	pgrep ocaml-probes | finds -x "$1"
	pgrep -f ocaml-probes | finds -x "$1"
}

# Tell a target to quit and wait for it. Sets TARGET_STATUS.
quit_target() { # [PID]
	local pid=${1:-$TARGET}
	tell quit "$pid"
	TARGET_STATUS=0
	wait "$pid" || TARGET_STATUS=$?
}

# ---- the runner -------------------------------------------------------------------------------

run_one() { # NAME
	set -eEuo pipefail
	shopt -s inherit_errexit
	trap 'printf "line %s: status %s: %s\n" "$LINENO" "$?" "$BASH_COMMAND" >&2' ERR
	"$1"
}

# What the processes of a hung case wait for: the tail of the log names neither them nor the system call.
describe_group() { # PGID
	local pid
	ps -o pid,ppid,stat,wchan:24,args --no-headers -p "$(pgrep -d, -g "$1")"
	for pid in $(pgrep -g "$1"); do
		printf '%s: %s\n' "$pid" "$(tr '\n' ' ' 2>/dev/null <"/proc/$pid/stack" || :)"
	done
}

# Describe and end the process group PGID, which has had its TEST_TIMEOUT seconds.
end_when_hung() { # PGID
	pause "$TEST_TIMEOUT"
	describe_group "$1" >"$HUNG_FILE" 2>&1
	kill -TERM -- "-$1"
	pause 5
	kill -KILL -- "-$1"
}

report_one() { # NAME STATUS LOG
	case $2 in
	0)
		[[ -s $ASSERTIONS ]] || { printf 'not ok - %s\n# it made no assertion\n' "$1"; return 1; }
		printf 'ok - %s\n' "$1"
		;;
	77) printf 'ok - %s # SKIP %s\n' "$1" "$(<"$SKIP_FILE")" ;;
	*)
		printf 'not ok - %s\n' "$1"
		[[ ! -e $HUNG_FILE ]] || printf '# did not end within %s s; its processes then:\n' "$TEST_TIMEOUT"
		{ [[ ! -e $HUNG_FILE ]] || cat "$HUNG_FILE"; tail -n 100 "$3"; } | sed 's/^/# /'
		return 1
		;;
	esac
}

# `make coverage` sets PROFILES: the counters of each case have a folder of their own there.
begin_coverage() { # NAME
	[[ -n ${PROFILES:-} ]] || return 0
	PROFILE=$PROFILES/e2e/${0##*/}:$1
	mkdir -p "$PROFILE"
	chmod 1777 "$PROFILE"
	export LLVM_PROFILE_FILE=$PROFILE/%c%m.profraw
	PROFILE_BEGAN=${EPOCHREALTIME/./}
}

end_coverage() {
	[[ -z ${PROFILES:-} ]] || echo $(((${EPOCHREALTIME/./} - PROFILE_BEGAN) / 1000000 + 1)) >"$PROFILE/seconds"
}

run_tests() { # [NAME...]
	local base group='' watcher='' name status result=0 outer=${ASSERTIONS:-/dev/null}
	if [[ ${1:-} = --one ]]; then
		run_one "$2"
		return
	fi
	# In the order of their definition, or in another ORDER (tests/run).
	[[ $# -gt 0 ]] || mapfile -t < <(shopt -s extdebug
		for name in $(compgen -A function test_); do declare -F "$name"; done | sort -k2n | cut -d' ' -f1 |
			case ${ORDER:-} in
			reverse) tac ;;
			shuffle:*) shuf --random-source=<(yes "$ORDER") ;;
			*) cat ;;
			esac)
	[[ $# -gt 0 ]] || set -- "${MAPFILE[@]}"
	printf '1..%s\n' $#
	base=$(mktemp -d)
	export NEVER_WRITTEN=$base/never-written
	HUNG_FILE=$base/hung
	mkfifo "$NEVER_WRITTEN"
	# shellcheck disable=SC2064 # base is known now
	trap "rm -rf '$base'"'; [[ -z $group ]] || kill -KILL -- "-$group" "$watcher" 2>/dev/null' EXIT
	trap 'exit 130' INT TERM
	for name; do
		export TMP=$base/$name SKIP_FILE=$base/skip-reason ASSERTIONS=$base/assertions
		mkdir "$TMP"
		: >"$ASSERTIONS"
		begin_coverage "$name"
		status=0
		[[ ! -e $HUNG_FILE ]] || rm "$HUNG_FILE"
		env --default-signal=INT,QUIT setsid bash "$0" --one "$name" >"$base/log" 2>&1 </dev/null &
		group=$!
		end_when_hung "$group" 2>/dev/null &
		watcher=$!
		wait "$group" || status=$?
		kill -KILL "$watcher"
		wait "$watcher" 2>/dev/null || :
		kill -KILL -- "-$group" 2>/dev/null || :
		group=
		end_coverage
		report_one "$name" "$status" "$base/log" || result=1
		# A test may run this script again, in other namespaces.
		read_text "$ASSERTIONS"
		printf %s "$TEXT" >>"$outer"
		rm -rf "$TMP"
	done
	return "$result"
}
