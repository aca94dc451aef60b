# shellcheck shell=bash
# The Lwt service of tests/ocaml/lwt. Sourced after link_lib.sh and target_lib.sh.

# served in $TMP. Lwt was built by the distribution's compiler.
build_served() { # FLAG...
	ocamlfind query lwt.unix >/dev/null 2>&1 || skip "liblwt-ocaml-dev is missing"
	cp "$ROOT"/tests/ocaml/lwt/* "$TMP"
	(cd "$TMP" && PATH=/usr/bin:$PATH ocamlfind ocamlopt -thread -g -package lwt.unix,ocaml-probes.ppx -linkpkg \
		-cc ocaml-probes-cc "$@" served_stubs.c served.ml -o served 2>"$TMP/build.err") || fail "$(<"$TMP/build.err")"
}

# CONCURRENT requests at a time, in 5 rounds.
start_served() { # CONCURRENT
	need_counting
	start_target "$TMP/served" "$1" 5
	await_line ready
}
