#!/usr/bin/env bash
# The guides, pages of section 7, are held against reality: their commands are run in their order and must print what
# the pages show, and what the text says of the values must be so. guides.py knows how.
#
# The pages show samples and times, so the tests are statistics.
#
# long: statistics
# takes: 80 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/namespace_lib.sh"

# The compiler finds the ppx and the post-linker as after an installation.
export OCAMLPATH=$O/ocaml/lib PATH=$O:$ROOT/tools/ocaml:$PATH

guide() { # NAME [PAGES]
	need_command mandoc dune setpriv
	holds in_namespaces python3 "$ROOT/tests/e2e/guides.py" "${2:-$O/man}" "$1"
}

test_memory() { guide memory; }
test_collector() { guide collector; }
test_waiting() { guide waiting; }
test_containers() { guide containers; }
test_lwt() {
	ocamlfind query lwt.unix >/dev/null 2>&1 || skip "liblwt-ocaml-dev is missing"
	guide lwt
}

# What it is there for: wrong guides are found.
test_wrong_guides_are_found() {
	wrong() { # WHAT SED-SCRIPT GUIDE REASON
		rm -rf "$TMP/man"
		mkdir "$TMP/man"
		sed "$2" "$O/man/ocaml-probes-$3.7" >"$TMP/man/ocaml-probes-$3.7"
		! cmp -s "$O/man/ocaml-probes-$3.7" "$TMP/man/ocaml-probes-$3.7" || fail "$1: nothing was changed"
		! guide "$3" "$TMP/man" >"$TMP/log" 2>&1 || fail "$1 is not noticed"
		finds "$4" "$TMP/log" || fail "$1: another reason: $(<"$TMP/log")"
	}
	wrong "another output" 's/^waiting: /wailing: /' waiting '^wailing: '
	wrong "an option that is not there" 's/^\$ ocaml-probes report -pid 4242/& --shortly/' waiting "'--shortly': no such option"
	ocamlfind query lwt.unix >/dev/null 2>&1 || return 0
	wrong "another source" 's/customer = 7 then/customer = 8 then/' lwt 'it shows another file than hello.ml'
}

run_tests "$@"
