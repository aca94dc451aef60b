#!/usr/bin/env bash
# A program of a version of OCaml that the tool does not know: the version in its data is replaced. What the code of the runtime
# proves works, with the numbers of the books. All else is refused, for a reason.
#
# needs: fixtures ocaml
# ocaml5: all
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# 4.93.1 for 4.13.1, 5.9.0 for 5.3.0
VERSION=$(ocamlfind ocamlopt -version)
LATER=${VERSION%%.*}.9${VERSION#*.*[0-9]}

# These cases of features.sh pass with a program of the later version.
features_work() { # CASE...
	local case
	need_counting
	AS_VERSION=$LATER bash "$ROOT/tests/e2e/features.sh" "$@" >"$TMP/cases" 2>&1 || fail "$(<"$TMP/cases")"
	for case; do
		finds -x "ok - $case" "$TMP/cases" || fail "$(<"$TMP/cases")"
	done
}

# No version is needed.
test_probes_functions_and_stacks() {
	features_work test_info test_count_inside test_time_by_bpf test_count_of_functions_inside test_time_of_functions \
		test_time_of_functions_inside test_count_of_lines test_stack test_stack_through_c_within_a_fibre test_profile_cpu
}

# The memory of a program of OCaml 5 is read where its code reads it.
if is_ocaml_5; then
	test_the_collector() {
		features_work test_gc_figures test_profile_alloc
	}
fi

start_later() {
	need_counting
	"$ROOT/tests/ocaml/phases/build" "$TMP/built" 2>"$TMP/warnings" || fail "$(<"$TMP/warnings")"
	LC_ALL=C sed -i "s/$VERSION/$LATER/g" "$TMP/built/phases"
	start_target env OCAMLRUNPARAM=v=0x400 "$TMP/built/phases" 40 1
	await_line ready
}

# gc says once that the version is new. Pauses are proved by the events of the code, and cycles by nothing.
if is_ocaml_5; then
	test_pauses() {
		local engine minor
		for engine in bpf inside; do
			start_later
			background "$TOOL" gc -pid "$TARGET" --engine "$engine" --interval 20ms --json >"$TMP/counts" 2>"$TMP/err"
			wait_for '[[ -s $TMP/counts ]]'
			tell go
			await_line finished 60
			kill -INT $!
			wait $! || fail "status $?: $(<"$TMP/err")"
			quit_target
			minor=$(sed -n 's/^minor_collections: //p' "$(output_of)")
			eq "$(<"$TMP/err")" "ocaml-probes: OCaml $LATER is newer than 5.5, the newest version that was tested; its figures are where the code of \
its runtime reads them" "what gc says"
			holds test "$minor" -gt 30
			asserted
			python3 - "$TMP/counts" "$LATER" "$minor" <<-'PY'
				import json, sys
				t = [json.loads(line) for line in open(sys.argv[1])][-1]
				(minor,) = [pause for pause in t["pauses"] if pause["start"] == "gc:minor"]
				assert (t["ocaml"], minor["count"], minor["open"], t["counts"]) == (sys.argv[2], int(sys.argv[3]), 0, {}), t
			PY
		done
	}

	test_cycles() {
		start_later
		check_error 1 "^ocaml-probes: $TMP/built/phases: gc:major_cycle cannot be measured: it is not known in OCaml $LATER\$" \
			attach -pid "$TARGET" --count=gc:major_cycle
		quit_target
	}
else
	test_the_collector_is_refused() {
		local UNKNOWN="contains the runtime of OCaml $LATER, which is not known \\(known: 4\\.13, 4\\.14, 5\\)"
		start_later
		check_error 1 "^ocaml-probes: $TMP/built/phases: $UNKNOWN\$" gc -pid "$TARGET" --for 1ms
		check_error 1 "^ocaml-probes: $TMP/built/phases: $UNKNOWN\$" attach -pid "$TARGET" --count=gc:minor
		check_error 1 "^ocaml-probes: $TMP/built/phases: $UNKNOWN\$" profile -pid "$TARGET" --alloc --for 1ms
		quit_target
	}
fi

run_tests "$@"
