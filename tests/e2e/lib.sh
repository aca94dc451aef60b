# shellcheck shell=bash
# What the scripts in tests/e2e share. A script is
#
#	. "$(dirname "$0")/lib.sh"
#	test_something() { ...; eq "$actual" "$expected" "what was compared"; }
#	run_tests "$@"
#
# and `bash tests/e2e/x.sh [test_something...]` runs it by hand. Each test is a bash process of its
# own with errexit: the first command that fails ends it. It has a fresh directory $TMP; when it ends,
# everything it started is killed. O is the build directory, ROOT the source's, TOOL the tool.
#
# A script that takes longer sets TEST_TIMEOUT (seconds a test) before run_tests. This and PATIENCE are for what
# hangs: a machine that is slow, or has other things to do, must not come to them.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
O=$(realpath -- "${O:-$ROOT/build}")
TOOL=${TOOL:-$O/ocaml-probes}
TEST_TIMEOUT=600
PATIENCE=${PATIENCE:-150}
export ROOT O TOOL

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

eq() { # ACTUAL EXPECTED [WHAT]
	[[ $1 = "$2" ]] || fail "${3:-values} differ (< expected, > actual):
$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$1") || :)"
}

# Does TEXT match the extended regular expression RE?
matches() { # TEXT RE [WHAT]
	[[ $1 =~ $2 ]] || fail "${3:-text} does not match $2:
$1"
}

# grep -q for pipes: it reads all of its input, so that the writer does not fail.
finds() { # GREP-ARG...
	[[ $(grep -c "$@") -gt 0 ]]
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

# Empty that file, so that the next await_line sees new lines only.
forget_output() { # [PID]
	: >"$(output_of "$@")"
}

tell() { # LINE [PID]
	printf '%s\n' "$1" >&"${target_fd[${2:-$TARGET}]}"
}

# Wait until a target has written a line that matches the basic regular expression LINE.
await_line() { # LINE [SECONDS [PID]]
	wait_for "grep -qx -- '$1' '$(output_of "${3:-$TARGET}")'" "${2:-0}"
}

# Wait until a target runs FILE, and is no longer the shell that will execute it. For those that say
# nothing.
await_exe() { # FILE [PID]
	wait_for "[[ /proc/${2:-$TARGET}/exe -ef $(printf %q "$1") ]]"
}

# Has PID ended? It may stay a zombie if the first process does not reap orphans.
has_ended() { # PID
	! grep -qs '^State:.[^ZX]' "/proc/$1/status"
}

# Do pgrep and pgrep -f find PID by NAME's first letters? The kernel keeps 15 characters of it.
check_process_name() { # PID NAME
	eq "$(tr '\0' '\n' <"/proc/$1/cmdline" | head -n 1)" "$2" "argv[0]"
	eq "$(cat "/proc/$1/comm")" "${2:0:15}" "comm"
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

report_one() { # NAME STATUS LOG
	case $2 in
	0) printf 'ok - %s\n' "$1" ;;
	77) printf 'ok - %s # SKIP %s\n' "$1" "$(cat "$SKIP_FILE")" ;;
	*)
		printf 'not ok - %s\n' "$1"
		[[ $2 -ne 124 && $2 -ne 137 ]] || printf '# did not end within %s s\n' "$TEST_TIMEOUT"
		tail -n 100 "$3" | sed 's/^/# /'
		return 1
		;;
	esac
}

run_tests() { # [NAME...]
	local base group='' name status result=0
	if [[ ${1:-} = --one ]]; then
		run_one "$2"
		return
	fi
	# In the order of their definition.
	[[ $# -gt 0 ]] || mapfile -t < <(shopt -s extdebug
		for name in $(compgen -A function test_); do declare -F "$name"; done |
			sort -k2n | cut -d' ' -f1)
	[[ $# -gt 0 ]] || set -- "${MAPFILE[@]}"
	printf '1..%s\n' $#
	base=$(mktemp -d)
	export NEVER_WRITTEN=$base/never-written
	mkfifo "$NEVER_WRITTEN"
	# shellcheck disable=SC2064 # base is known now
	trap "rm -rf '$base'"'; [[ -z $group ]] || kill -KILL -- "-$group" 2>/dev/null' EXIT
	trap 'exit 130' INT TERM
	for name; do
		export TMP=$base/$name SKIP_FILE=$base/skip-reason
		mkdir "$TMP"
		status=0
		env --default-signal=INT,QUIT timeout --kill-after=5 "$TEST_TIMEOUT" \
			bash "$0" --one "$name" >"$base/log" 2>&1 </dev/null &
		group=$!
		wait "$group" || status=$?
		kill -KILL -- "-$group" 2>/dev/null || :
		group=
		report_one "$name" "$status" "$base/log" || result=1
		rm -rf "$TMP"
	done
	return "$result"
}
