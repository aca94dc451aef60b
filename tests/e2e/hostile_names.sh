#!/usr/bin/env bash
# Names that strangers choose: of processes, files, functions and terminals. None of them controls the terminal of
# the tool's user, adds a line, or makes a tool with privileges read another file.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

NOBODY=65534

# Escape sequences, newlines, C1 in UTF-8, and an override of the direction of text.
HOSTILE=$'\e]0;own\a\nINJECTED\xe2\x80\xae\xc2\x9b31m'

# Neither a character that controls a terminal, nor a line that a name has added.
check_plain() { # FILE WHAT
	! LC_ALL=C grep -aqP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]' "$1" ||
		fail "$2 has control characters: $(cat -v "$1")"
	! grep -aq '^INJECTED' "$1" || fail "$2 has a line of a name: $(cat -v "$1")"
}

# Run the tool, which must end with STATUS; $TMP/out and $TMP/err must be plain.
run_plain() { # STATUS ARG...
	local status=0 want=$1
	shift
	timeout 300 "$TOOL" "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" "$want" "status of $*: $(cat -v "$TMP/err")"
	check_plain "$TMP/out" "standard output of $*"
	check_plain "$TMP/err" "standard error of $*"
}

# A process whose file and name are hostile. Sets EXE.
start_hostile() {
	need_counting
	gcc -shared -fPIC -x c - -o "$TMP/name.so" <<-'C'
		#include <sys/prctl.h>
		__attribute__((constructor)) static void name(void)
		{
			prctl(PR_SET_NAME, "a\033]0;b\007\nINJECT", 0, 0, 0);
		}
	C
	mkdir "$TMP/$HOSTILE"
	EXE=$TMP/$HOSTILE/steady
	cp "$O/tests/fixtures/binaries/steady" "$EXE"
	start_target env LD_PRELOAD="$TMP/name.so" "$EXE" 100
	await_line ready
}

test_names_of_files_and_processes() {
	local split
	start_hostile
	run_plain 0 list
	grep -q "^ *$TARGET " "$TMP/out" || fail "it is not listed: $(<"$TMP/out")"
	run_plain 0 list -prog "$EXE"
	run_plain 2 list -prog "$EXE.nosuch"
	run_plain 0 info -pid "$TARGET"
	run_plain 0 doctor -pid "$TARGET"
	run_plain 2 attach -pid "$TARGET" -enable "$HOSTILE"
	run_plain 0 list --follow --for 300ms
	grep -q " $TARGET .*steady" "$TMP/out" || fail "it is not followed: $(<"$TMP/out")"
	for split in --by-site --by-thread --by-process; do
		run_plain 0 attach -pid "$TARGET" --count $split --for 300ms
		grep -q '^tick  ' "$TMP/out" || fail "no hits: $(cat "$TMP/out" "$TMP/err")"
	done
	grep -q "^tick *$TARGET a?]0;b??INJECT " "$TMP/out" || fail "no name: $(<"$TMP/out")"
	run_plain 0 attach -pid "$TARGET" --time work_start,work_stop --slower 1ns --limit 3 --for 300ms
	run_plain 0 top -pid "$TARGET" --batch 1
	run_plain 0 profile -pid "$TARGET" --off-cpu --for 300ms
	run_plain 0 report -pid "$TARGET" --for 300ms
	run_plain 0 bpftrace -pid "$TARGET" count tick
	grep -q '^# Counts .*INJECTED' "$TMP/out" || fail "the comment has another path: $(<"$TMP/out")"
	run_plain 1 gc -pid "$TARGET"
	run_plain 1 functions -pid "$TARGET"
	run_plain 1 memprof -pid "$TARGET"
	# JSON has the names as they are, in a line.
	"$TOOL" list --json >"$TMP/out" 2>"$TMP/err"
	eq "$(wc -l <"$TMP/out")" 1 "lines"
	python3 -c 'import json, sys
[path] = [p["exe"] for p in json.load(open(sys.argv[1]))["processes"] if p["pid"] == int(sys.argv[2])]
assert "\x1b]0;own\x07" in path and path.endswith("/steady")' "$TMP/out" "$TARGET" || fail "$(<"$TMP/out")"
}

# The names of probes are checked when the notes are read.
test_names_of_probes() {
	need_counting
	python3 - "$O/tests/fixtures/binaries/steady" "$TMP/named" <<-'END'
		import sys
		program = open(sys.argv[1], "rb").read()
		assert b"work_start\0" in program
		open(sys.argv[2], "wb").write(program.replace(b"work_start\0", b"wo\x1b[2J\nabc\0"))
	END
	chmod +x "$TMP/named"
	run_plain 1 list -prog "$TMP/named"
	grep -qF 'probe name is not [A-Za-z0-9_]*' "$TMP/err" || fail "$(<"$TMP/err")"
	start_target "$TMP/named" 100
	await_line ready
	run_plain 0 list
	run_plain 1 info -pid "$TARGET"
	run_plain 1 attach -pid "$TARGET" --count --for 100ms
}

# ---- terminals --------------------------------------------------------------------------------

# Run COMMAND in a terminal, with the environment of NAME=VALUE words alone, until it has drawn the screen of
# the view or has ended. What it has written goes to $TMP/screen, its status to $TMP/status.
in_terminal() { # [NAME=VALUE...] -- COMMAND...
	timeout 300 python3 - "$TMP" "$@" <<-'END'
		import os, pty, signal, sys
		folder, words = sys.argv[1], sys.argv[2:]
		at = words.index("--")
		pid, terminal = pty.fork()
		if pid == 0:
		    os.execve(words[at + 1], words[at + 1:], dict(w.split("=", 1) for w in words[:at]))
		screen = b""
		while b"ocaml-probes top" not in screen:
		    try:
		        part = os.read(terminal, 65536)
		    except OSError:
		        break
		    if not part:
		        break
		    screen += part
		if b"ocaml-probes top" in screen:
		    os.kill(pid, signal.SIGTERM)
		    try:
		        while os.read(terminal, 65536):
		            pass
		    except OSError:
		        pass
		status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
		open(folder + "/screen", "wb").write(screen)
		open(folder + "/status", "w").write("%d\n" % status)
	END
}

start_steady() { # COMMAND...
	need_counting
	chmod 755 "$TMP" "${TMP%/*}"
	cp "$O/tests/fixtures/binaries/steady" "$O/ocaml-probes-top" "$TMP"
	start_target "$@" "$TMP/steady" 100
	await_line ready
}

check_refused() { # TEXT [NAME=VALUE...]
	in_terminal "${@:2}" -- "$TMP/ocaml-probes-top" -pid "$TARGET"
	eq "$(<"$TMP/status")" 2 "status of ${*:2}: $(cat -v "$TMP/screen")"
	tr -d '\r' <"$TMP/screen" >"$TMP/text"
	check_plain "$TMP/text" "what is said of ${*:2}"
	grep -qF "ocaml-probes: top: $1" "$TMP/text" || fail "$(cat -v "$TMP/screen")"
}

check_drawn() { # [NAME=VALUE...]
	in_terminal "$@" -- "$TMP/ocaml-probes-top" -pid "$TARGET"
	eq "$(<"$TMP/status")" 0 "status of $*: $(cat -v "$TMP/screen")"
}

test_terminals() {
	start_steady
	check_refused 'TERM is not set' HOME=/
	check_refused 'TERM is not set' TERM=
	check_refused 'unknown terminal type: TERM is xterm-../../x' TERM=xterm-../../x
	check_refused 'unknown terminal type: TERM is /etc/passwd' TERM=/etc/passwd
	check_refused 'unknown terminal type: TERM is ?]0;own??INJECTED??31m' TERM="$HOSTILE"
	check_refused 'unknown terminal type: TERM is xxxxxx' TERM="$(head -c 100000 /dev/zero | tr '\0' x)"
	check_drawn TERM=xterm COLUMNS=-5 LINES=-1
	check_drawn TERM=xterm COLUMNS="$HOSTILE" LINES=x
	# It would have 900 million characters.
	check_refused 'this terminal is too large: 30000x30000, more than 2000x500' TERM=xterm COLUMNS=30000 LINES=30000
	check_refused 'this terminal is too large: 80x501, more than 2000x500' TERM=xterm COLUMNS=80 LINES=501
	check_drawn TERM=xterm COLUMNS=2000 LINES=500
}

# With file capabilities, only the system's descriptions of terminals are read.
test_descriptions_of_terminals() {
	local user=(setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups)
	need_command setcap setpriv infocmp tic
	start_steady "${user[@]}"
	mkdir -p "$TMP/home/.terminfo"
	infocmp -1 xterm | sed 's/^xterm.*|.*,$/mine|my own,/' >"$TMP/mine"
	tic -o "$TMP/home/.terminfo" "$TMP/mine"
	user+=("$TMP/ocaml-probes-top" -pid "$TARGET" --engine inside)
	for where in TERMINFO="$TMP/home/.terminfo" TERMINFO_DIRS="$TMP/home/.terminfo" HOME="$TMP/home"; do
		# Without capabilities a user reads what he likes.
		setcap -q -r "$TMP/ocaml-probes-top" 2>/dev/null || :
		in_terminal PATH="$PATH" TERM=mine "$where" -- "$(type -P setpriv)" "${user[@]:1}"
		grep -aq 'ocaml-probes top' "$TMP/screen" || fail "$where is not read: $(cat -v "$TMP/screen")"
		setcap cap_bpf,cap_perfmon=ep "$TMP/ocaml-probes-top"
		in_terminal PATH="$PATH" TERM=mine "$where" -- "$(type -P setpriv)" "${user[@]:1}"
		grep -aq 'unknown terminal type: TERM is mine' "$TMP/screen" || fail "$where: $(cat -v "$TMP/screen")"
		eq "$(<"$TMP/status")" 2 "status with $where"
	done
	in_terminal PATH="$PATH" TERM=xterm HOME="$TMP/home" -- "$(type -P setpriv)" "${user[@]:1}"
	eq "$(<"$TMP/status")" 0 "status with the system's: $(cat -v "$TMP/screen")"
}

run_tests "$@"
