#!/usr/bin/env bash
# Stacks at probes, frame by frame, against what Printexc tells the handlers of random programs.
#
#   STACKS  how many of them (default: 2000 a program); SEEDS how many programs (default: 1)
#
# needs: fixtures
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

TEST_TIMEOUT=$((600 + ${SEEDS:-1} * ${STACKS:-2000} / 20))

build() { # SEED [effects] [FLAG...]
	"$ROOT/tests/ocaml/trees/build" "$O" "$TMP/trees" "$@" >"$TMP/build.log" 2>&1 ||
		fail "no program: $(grep -v warning "$TMP/build.log")"
}

# Let the program grow its trees, and wait for the tool each time.
grow() {
	local line hits=0
	tell go
	while ((1)); do
		wait_for "grep -Eq '^(hits|done) ' '$(output_of)'" 60
		line=$(tail -n 1 "$(output_of)")
		hits=${line#* }
		wait_for "[[ \$(wc -l <'$TMP/hits') -ge $hits ]]" 60
		forget_output
		tell more
		[[ $line != done* ]] || return 0
	done
}

# Trees of the program $TMP/trees, as deep as DEEPEST.
compare() { # DEEPEST [--fibres]
	need_counting
	start_target "$TMP/trees" "$TMP/stacks" "${STACKS:-2000}" 7 "$1"
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable here
	background "$TOOL" attach --budget none -pid "$TARGET" --print here --stack=127 --json --limit 1000000 \
		>"$TMP/hits" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" "measuring 1 probe"'
	forget_output
	grow
	wait $! || fail "$(<"$TMP/err")"
	compare_with_books stacks "$TMP/hits" "$TMP/stacks" --inlined "${@:2}"
	tail -n 1 "$TMP/compared" | tee -a "${STACKS_LOG:-/dev/null}"
}

flags=()
! ocamlopt -config | grep -q '^flambda: true' || flags=(-O3)

test_random_trees() {
	local seed
	for ((seed = 1; seed <= ${SEEDS:-1}; seed++)); do
		build "$seed" "${flags[@]}"
		compare 12
	done
}

# Programs that were not post-linked, and fewer functions that are inlined.
test_dormant() {
	build 1001 "${flags[@]}" -cc gcc -inline 0
	compare 12
}

# Handlers of effects and domains, where the compiler knows them.
if [[ $(ocamlopt -version) = 5.* ]]; then
	test_fibres() {
		local seed
		for ((seed = 1; seed <= ${SEEDS:-1}; seed++)); do
			build "$seed" effects "${flags[@]}"
			compare 12 --fibres
		done
	}
fi

run_tests "$@"
