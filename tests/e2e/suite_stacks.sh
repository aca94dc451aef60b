#!/usr/bin/env bash
# Stacks at probes, frame by frame, against what Printexc tells the handlers of the language suite: its
# own probes, and one at the beginning of each function (tests/ocaml/recorded).
#
#   WHOLE=yes    all programs of the suite, instead of some
#   PROGRAMS     these
#   SUITE_FLAGS  ocamlopt's flags for all of the code (default: -g)
#
# needs: fixtures link ocaml
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/suite_lib.sh"

OUT=${SUITE_OUT:-$O/tests/suite_stacks}
SETTINGS=(BARE=no RECORDED=yes)
MAJOR=$(ocamlopt -version | cut -d. -f1)
SOME='c_calls closures finalisers functors objects signals threads try_with'
[[ $MAJOR -lt 5 ]] || SOME+=' effects_in_handlers'
[[ -n ${PROGRAMS:-} || ${WHOLE:-no} != no ]] || PROGRAMS=$SOME
export PROGRAMS=${PROGRAMS:-}

test_build() { holds build_suite; }

print_flags=(--print here --stack --limit 0 --filter 'arg0 >= 0' --json)

# From the start of the program NAME to its end.
run_measured() { # NAME
	RECORD_FILE=$TMP/$1.stacks "$TOOL" trace -prog "$OUT/$1" "${print_flags[@]}" >"$TMP/$1.hits" 2>"$TMP/$1.err"
}

# The probes of a plugin are measured soon after it has been loaded: only then the program records.
run_with_plugin() { # NAME
	local measuring status=0
	RECORD_WAITS=yes RECORD_FILE=$TMP/$1.stacks start_target "$OUT/$1" toggled "$SUITE/$1.ml"
	wait_for "grep -q '\.cmxs' /proc/$TARGET/maps"
	background "$TOOL" attach -pid "$TARGET" "${print_flags[@]}" >"$TMP/$1.hits" 2>"$TMP/$1.err"
	measuring=$!
	wait_for "has_text '$TMP/$1.err' 'measuring 1 probe'"
	kill -USR2 "$TARGET"
	wait_for "[[ \$(wc -l <'$TMP/$1.stacks') -ge 200 ]]"
	grep -q "^[0-9]*|[^|]*|plug" "$TMP/$1.stacks" || return
	tell stop
	wait $measuring || status=$?
	return "$status"
}

# Stacks end in a module's initialiser, or where a thread or a domain begins.
check_stacks() { # NAME
	local flags=() run=run_measured
	[[ $MAJOR -lt 5 ]] || flags=(--fibres)
	! grep -q '^(\*suite: plugin' "$SUITE/$1.ml" || run=run_with_plugin
	$run "$1" &&
		holds python3 "$ROOT/tests/books" stacks "$TMP/$1.hits" "$TMP/$1.stacks" "${flags[@]}" \
			--outermost "${1^}" Std_exit 'Thread.create.(fun)' Domain.spawn.body >"$TMP/$1.compared"
}

test_stacks() {
	local name failed=0
	need_suite
	need_counting
	while read -r name; do
		check_stacks "$name" || failed=$((failed + 1))
		printf '%s: ' "$name"
		cat "$TMP/$name.compared" || cat "$TMP/$name.err"
	done <"$OUT/programs" >"$TMP/compared"
	cat "$TMP/compared" >>"${STACKS_LOG:-/dev/null}"
	[[ $failed -eq 0 ]] || fail "$failed programs: $(<"$TMP/compared")"
}

TEST_TIMEOUT=1200
run_tests "$@"
