#!/usr/bin/env bash
# kill -9 of a flight recorder, and of the program that it records, while files are written: KILLS of them.
#
# needs: fixtures ocaml
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
TEST_TIMEOUT=$((300 + 6 * ${KILLS:-12}))

test_kills() {
	need_counting
	need_command protoc python3
	python3 -B "$ROOT/tests/e2e/record_kills.py" "$ROOT/tests/record" "$(own_copy "$O/tests/ocaml/reborn")" "${KILLS:-12}" "${SEED:-$RANDOM}" \
		>"$TMP/said" 2>&1 || fail "$(<"$TMP/said")"
	cat "$TMP/said"
	asserted
	[[ -z $(find "$TMP/files" -name "*.tmp") ]] || fail "$(ls "$TMP/files")"
}

run_tests "$@"
