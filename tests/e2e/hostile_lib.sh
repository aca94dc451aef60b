# shellcheck shell=bash
# Programs of an ordinary user that lie to root's tool. For scripts that have lib.sh.

HOSTILE=$O/tests/fixtures/hostile

# The fixture NAME as an ordinary user.
start_hostile() { # NAME MODE
	need_root
	need_command setpriv
	chmod 755 "$TMP"
	start_target setpriv --reuid=65534 --regid=65534 --clear-groups "$(own_copy "$HOSTILE/$1")" "$2"
	await_line ready
}

# The tool, with as much CPU time as two seconds are: so a machine that is slow or busy does not matter. What waits
# without an end is ended, too, after a time in which no machine takes so long. It ends with a status that
# the man page has, and with a sentence if this is not 0. Sets STATUS; the output is in $TMP/out and $TMP/err.
ends_soon() { # TOOL ARG...
	local seconds=2
	asserted
	STATUS=0
	# The sanitizers make a reading of much text ten times slower.
	[[ $1 != */asan/* ]] || seconds=20
	(
		ulimit -t $seconds
		exec timeout -s KILL "$PATIENCE" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null
	) || STATUS=$?
	[[ $STATUS -le 6 ]] || fail "$*: status $STATUS: $(head -c 3000 "$TMP/err")"
	! grep -qE 'Sanitizer|runtime error|smashing' "$TMP/err" || fail "$*: $(head -c 3000 "$TMP/err")"
	# The findings of doctor are its output.
	[[ $STATUS -eq 0 || -s $TMP/out ]] || grep -q '^ocaml-probes: .' "$TMP/err" || fail "$*: status $STATUS without a sentence"
}
