#!/usr/bin/env bash
# The README is held against reality: each example is run as it stands there and must print what stands
# there, but for the numbers; each snippet must compile; tables must add up. readme.py knows how.
#
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/namespace_lib.sh"

# The compiler finds the ppx and the post-linker as after an installation.
export OCAMLPATH=$O/ocaml/lib PATH=$O:$ROOT/tools/ocaml:$PATH

readme() { # CASE
	holds python3 "$ROOT/tests/e2e/readme.py" "$ROOT/README.md" "$@"
}

test_examples() { holds in_namespaces python3 "$ROOT/tests/e2e/readme.py" "$ROOT/README.md" examples; }
test_top() { holds in_namespaces python3 "$ROOT/tests/e2e/readme.py" "$ROOT/README.md" top; }
test_serve() { holds in_namespaces python3 "$ROOT/tests/e2e/readme.py" "$ROOT/README.md" serve; }
test_configuration() { holds in_namespaces python3 "$ROOT/tests/e2e/readme.py" "$ROOT/README.md" configuration; }
test_tables_add_up() { readme tables; }
test_quoted_probe() { readme probe; }

# The two ways to build that the README shows, word for word.
test_builds() { readme builds; }
test_ocaml_snippet() { readme snippet; }
test_flame_graph_of_a_leak() { readme leak; }
test_timeline_of_a_slow_request() {
	need_counting
	need_command protoc
	readme slow_request
}
test_lwt() {
	need_counting
	ocamlfind query lwt_ppx lwt.unix >/dev/null 2>&1 || skip "liblwt-ocaml-dev is missing"
	readme lwt
}

# What it is there for: wrong examples are found.
test_wrong_examples_are_found() {
	need_counting
	wrong() { # WHAT SED-SCRIPT CASE
		sed "$2" "$ROOT/README.md" >"$TMP/README.md"
		! cmp -s "$ROOT/README.md" "$TMP/README.md" || fail "$1: nothing was changed"
		! holds in_namespaces env PATIENCE=20 python3 "$ROOT/tests/e2e/readme.py" "$TMP/README.md" "$3" >"$TMP/log" 2>&1 ||
			fail "$1 is not noticed: $(<"$TMP/log")"
	}
	wrong "a probe that is not there" 's/^    cache_evict disabled/&\n    cache_lost disabled/' examples
	wrong "a wrong source line" 's/(service.ml:98)/(service.ml:95)/' examples
	wrong "a sum" 's/^    (all)  *\([0-9]*\)  /&1/' tables
	wrong "a column" 's/^      pair  *pairs.s/&  p42/' top
	wrong "a metric" 's/^    ocaml_probes_hits_total/    ocaml_probes_hit_total/' serve
	wrong "a key that the start does not have" 's/^`--key rid` matches/`--key page` matches/' lwt
	wrong "a key of the configuration" 's/"targets": \[/"tragets": [/' configuration
}

run_tests "$@"
