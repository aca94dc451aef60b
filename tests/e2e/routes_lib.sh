# shellcheck shell=bash
# What the scripts share that measure tests/ocaml/routes. After lib.sh. Sets ROUTES to the folder of the program, which is
# built once for each compiler.
ROUTES=$O/tests/routes-$(ocamlopt -version)

build_routes() {
	[[ -e $ROUTES/done && $ROUTES/done -nt $ROOT/tests/ocaml/routes/routes.ml && $ROUTES/done -nt $O/ocaml-probes-link &&
		$ROUTES/done -nt $O/ocaml/installed ]] && return
	"$ROOT/tests/ocaml/routes/build" "$O" "$ROUTES" 2>"$ROUTES.log" && touch "$ROUTES/done"
}

# Another script may build it now.
(flock 9 && build_routes) 9>"$ROUTES.lock" || exit
