#!/usr/bin/env bash
# TRIGGERS of flight recorders, one after the other: none is lost, no file is torn.
#
# needs: fixtures ocaml
# takes: 20 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
TEST_TIMEOUT=$((300 + ${TRIGGERS:-100}))

test_triggers() {
	need_counting
	need_command protoc
	/usr/bin/python3 -c 'import google.protobuf' 2>/dev/null || skip "python3-protobuf is not installed"
	protoc --proto_path="$ROOT/tests/record" --python_out="$TMP" perfetto_published.proto
	/usr/bin/python3 -B "$ROOT/tests/e2e/record_soak.py" "$TMP" "$(own_copy "$O/tests/ocaml/reborn")" "${TRIGGERS:-100}" >"$TMP/said" 2>&1 ||
		fail "$(<"$TMP/said")"
	cat "$TMP/said"
	asserted
}

run_tests "$@"
