#!/usr/bin/env bash
# The OCaml package as its users get it: documentation, and what opam makes of it.
#
# takes: 70 s
. "$(dirname "$0")/lib.sh"
PACKAGE=$ROOT/tools/ocaml

interfaces() {
	find "$PACKAGE"/*/ -maxdepth 1 -name '*.mli'
}

test_every_item_is_documented() {
	local report
	cp "$ROOT/tests/ocaml/undocumented.ml" "$TMP"
	cd "$TMP"
	OCAMLFIND_IGNORE_DUPS_IN="$(ocamlfind ocamlc -where)/compiler-libs" ocamlfind ocamlopt -linkpkg \
		-package compiler-libs.common undocumented.ml -o undocumented
	# It finds what it looks for.
	printf 'val f : int\ntype t = A of int (** a *)\n(** t *)\n' >some.mli
	matches "$(./undocumented some.mli)" '^File "some.mli", line 1.*: f' "a value without a comment"
	# shellcheck disable=SC2046 # words
	report=$(cd "$PACKAGE" && "$TMP/undocumented" */*.mli)
	matches "$report" '^[0-9]{2,} items$'
}

has_ocamldoc() {
	ocamldoc -version >/dev/null 2>&1
}

test_ocamldoc() {
	mkdir "$TMP/doc" "$TMP/lib"
	find "$O/ocaml/lib/ocaml-probes" -name '*.cmi' -exec cp -t "$TMP/lib" {} +
	# shellcheck disable=SC2046 # words
	ocamldoc -html -charset utf-8 -d "$TMP/doc" -I "$TMP/lib" $(interfaces) >"$TMP/log" 2>&1
	eq "$(<"$TMP/log")" "" "what ocamldoc says"
	matches "$(<"$TMP/doc/Probes_lib.html")" 'id="VALtrace_existing_process"'
	matches "$(<"$TMP/doc/Probes_lib.Self.Dynlink.html")" 'id="VALupdate"'
	matches "$(<"$TMP/doc/Probes_lib.Memprof.Self.html")" 'id="VALstart"'
}
# The compilers that tools/matrix/compilers builds from source lack it.
only_if test_ocamldoc has_ocamldoc

# dune writes the opam file from dune-project: what is in the repository is what it writes.
test_opam_file() {
	local dir
	need_command opam rsync
	rsync -rL --exclude=_build "$PACKAGE/" "$TMP/ocaml"
	for dir in src include bpf; do
		[[ ! -L $TMP/ocaml/$dir ]] || fail "$dir is still a link"
	done
	rm "$TMP/ocaml/ocaml-probes.opam"
	dune build --root "$TMP/ocaml" --display quiet --no-print-directory ocaml-probes.opam
	eq "$(<"$TMP/ocaml/ocaml-probes.opam")" "$(<"$PACKAGE/ocaml-probes.opam")"
	eq "$(OPAMROOT=$TMP/none OPAMROOTISOK=1 opam lint --strict --short "$PACKAGE/ocaml-probes.opam" 2>&1)" ""
	# It finds what it looks for.
	grep -v '^homepage' "$PACKAGE/ocaml-probes.opam" >"$TMP/ocaml-probes.opam"
	eq "$(OPAMROOT=$TMP/none OPAMROOTISOK=1 opam lint --strict --short "$TMP/ocaml-probes.opam" 2>&1)" 35
}

# A package of a repository that stands for what the system has installed.
system_package() { # NAME VERSION
	mkdir -p "$TMP/repository/packages/$1/$1.$2"
	printf 'opam-version: "2.0"\nmaintainer: "the test"\nsynopsis: "installed by the system"\n' \
		>"$TMP/repository/packages/$1/$1.$2/opam"
}

# `opam install .`, without the net: compiler, dune and ppxlib are the system's.
test_opam_install() {
	need_command opam rsync
	export OPAMROOT=$TMP/root OPAMYES=1 OPAMCOLOR=never OPAMROOTISOK=1 HOME=$TMP
	unset OCAMLPATH
	mkdir "$TMP/repository"
	echo 'opam-version: "2.0"' >"$TMP/repository/repo"
	system_package ocaml "$(ocamlfind ocamlopt -version)"
	system_package dune "$(dune --version)"
	system_package ppxlib "$(ocamlfind query -format %v ppxlib)"
	opam init --bare --disable-sandboxing --no-setup --kind local default "$TMP/repository" >"$TMP/log" 2>&1
	opam switch create test --empty >>"$TMP/log" 2>&1
	cd "$PACKAGE"
	opam install . --switch test >>"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"

	# What it has installed builds a program that switches itself.
	cp "$ROOT/tests/ocaml/probes_lib/self.ml" "$TMP"
	cd "$TMP"
	export OCAMLPATH=$OPAMROOT/test/lib PATH=$OPAMROOT/test/bin:$PATH
	eq "$(type -P ocaml-probes-cc ocaml-probes-link | xargs)" \
		"$OPAMROOT/test/bin/ocaml-probes-cc $OPAMROOT/test/bin/ocaml-probes-link"
	ocamlfind ocamlopt -thread -linkpkg -package threads.posix,ocaml-probes.ppx,ocaml-probes.probes_lib \
		-cc ocaml-probes-cc self.ml -o self
	eq "$(./self 2 2 | head -n 4 | xargs)" \
		"names: cold hot once cold=false hot=false once=false once: 1 handlers ran: true"
	cd "$PACKAGE"
	opam remove ocaml-probes --switch test >>"$TMP/log" 2>&1
	eq "$(find "$OPAMROOT/test/bin" "$OPAMROOT/test/lib/ocaml-probes" -type f 2>/dev/null)" ""
}

run_tests "$@"
