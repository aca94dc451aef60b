#!/usr/bin/env bash
# [%probe] as people build it: the ppx, the ways to compile and link, the compiler-driver wrapper.
#
# needs: link ocaml fixtures
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/link_lib.sh"

# ---- the ppx ----------------------------------------------------------------------------------

ppx_says() { # SOURCE CHARACTERS MESSAGE
	printf '%s\n' "$1" >"$TMP/bad.ml"
	! compile "$TMP/bad.ml" -c >"$TMP/out" 2>&1 || fail "accepted: $1"
	matches "$(head -n1 "$TMP/out")" "File \"bad.ml\", line 1, characters $2:" "$1"
	eq "$(sed -n '/^Error: /,$p' "$TMP/out" | tr -s ' \n' ' ')" "Error: $3 " "$1"
}

test_ppx_errors() {
	local usage='[%probe "name" handler]'
	ppx_says 'let () = [%probe]' 9-17 "probe: expected $usage"
	ppx_says 'let () = [%probe 3]' 17-18 "probe: expected $usage"
	ppx_says 'let () = [%probe "a"]' 17-20 "probe: the handler is missing: $usage"
	ppx_says 'let () = [%probe "a" ~enabled_at_init:true]' 17-42 \
		"probe: the handler is missing: $usage"
	ppx_says 'let n = "a" let () = [%probe n ()]' 29-30 \
		"probe: the name must be a string literal: $usage"
	ppx_says 'let () = [%probe "a-b" ()]' 17-22 \
		"probe: '-' is not allowed in a probe's name, only A-Z a-z 0-9 _"
	ppx_says 'let () = [%probe "a" print_endline "x"]' 35-38 \
		"probe: more than one handler; put parentheses around the handler: $usage"
	ppx_says 'let () = [%probe "a" ~args:(1, 2) ~args:3 ()]' 40-41 "probe: ~args is given twice"
	ppx_says "let () = [%probe \"a\" ~args:($(seq -s, 33)) ()]" 27-118 \
		"probe: ~args takes 32 arguments at most"
	ppx_says 'let () = [%probe "a" ~args:(1, 2)]' 17-33 "probe: the handler is missing: $usage"
	ppx_says 'let () = [%probe "a" ?args:None ()]' 27-31 "probe: unknown label ?args"
	ppx_says 'let () = [%probe "a" () ~args:(1, x)]' 34-35 'Unbound value x'
	ppx_says 'let () = [%probe "a";; "b"]' 9-27 "probe: expected $usage"
	ppx_says 'let () = [%probe: int]' 9-22 "probe: expected $usage"
	ppx_says 'let () = [%probe let x = 1]' 9-27 "probe: expected $usage"
	ppx_says 'let () = [%probe "a" ~once:true ()]' 27-31 "probe: unknown label ~once"
	ppx_says 'let () = [%probe "a" ~enabled_at_init:1 ()]' 38-39 \
		"probe: ~enabled_at_init takes the literal true or false"
	ppx_says 'let () = [%probe "a" ~enabled_at_init:true ~enabled_at_init:true ()]' 60-64 \
		"probe: ~enabled_at_init is given twice"
	ppx_says 'let b = [%probe_is_enabled 1]' 27-28 'probe: expected [%probe_is_enabled "name"]'
	ppx_says 'let b = [%probe_is_enabled]' 8-27 'probe: expected [%probe_is_enabled "name"]'
	ppx_says 'let b = [%probe_is_enabled "a b"]' 27-32 \
		"probe: ' ' is not allowed in a probe's name, only A-Z a-z 0-9 _"
	ppx_says 'let () = [%probe "" ()]' 17-19 "probe: the name is empty"
	ppx_says 'let () = [%probe "" ~args:1 (print_endline "x")]' 17-19 "probe: the name is empty"
	ppx_says 'let b = [%probe_is_enabled ""]' 27-29 "probe: the name is empty"
	ppx_says "let () = [%probe \"$(printf 'x%.0s' {1..1001})\" ()]" 17-1020 \
		"probe: the name has more than 1000 characters"
	# A handler of another type is the type checker's to report.
	printf 'let () = [%%probe "a" 3]\n' >"$TMP/bad.ml"
	fails 2 compile "$TMP/bad.ml" -c
	matches "$(<"$TMP/stderr")" 'line 1, characters 21-22:.*type int.*expected.*type.*unit'
}

# Names at the edges, and a file whose name would break the marker.
test_odd_names() {
	local long file="$TMP/o dd:#@%.ml"
	long=$(printf 'x%.0s' {1..1000})
	cat >"$file" <<-EOF
		let n = ref 0
		let () = [%probe "_" (incr n)]; [%probe "$long" (incr n)]; [%probe "0" (incr n)]
		let () = print_int !n; if [%probe_is_enabled "typo"] then exit 1
	EOF
	(cd "$TMP" && ocamlfind ocamlopt -w -24 -package ocaml-probes.ppx -linkpkg "$(basename "$file")" -o odd)
	"$LINK" --strict "$TMP/odd" 2>"$TMP/err"
	# An editor can open the file that a warning names.
	eq "$(head -n1 "$TMP/err")" 'File "o dd:#@%.ml", line 3:'
	eq "$(readelf -n "$TMP/odd" | grep -c 'Provider: ocaml_1')" 3
	matches "$("$LINK" --help; readelf -n "$TMP/odd")" "Name: $long"
	switch_on "$TMP/odd"
	eq "$("$TMP/odd")" 3
}

# ---- ways to compile and link -----------------------------------------------------------------

test_ways_to_compile() {
	local off on flags
	off=$("$P/places_bare")
	on=$(with_handlers "$P/places")
	cp "$ROOT/tests/ocaml/places.ml" "$TMP"
	while read -r flags; do
		rm -f "$TMP/places"
		# shellcheck disable=SC2086 # several flags
		OCAML_PROBES_LINK_FLAGS=--strict compile "$TMP/places.ml" -cc ocaml-probes-cc $flags \
			2>"$TMP/warnings"
		eq "$("$TMP/places")" "$off" "$flags"
		eq "$(with_handlers "$TMP/places")" "$on" "$flags"
	done <<-'EOF'
		-inline 0
		-inline 1000 -unsafe
		-O3 -unboxed-types
		-opaque -function-sections
		-function-sections -ccopt -Wl,--gc-sections
		-noassert -principal -rectypes
		-ccopt -static
		-ccopt -static -ccopt -s
		-ccopt -s
		-runtime-variant _pic
		-ccopt -fuse-ld=gold
		-ccopt -Wl,-z,noseparate-code -ccopt -Wl,-z,norelro
		-ccopt -Wl,--build-id=none -ccopt -Wl,-q
	EOF
	# Without -g.
	(cd "$TMP" && OCAML_PROBES_LINK_FLAGS=--strict ocamlfind ocamlopt -package ocaml-probes.ppx \
		-linkpkg -cc ocaml-probes-cc places.ml -o places)
	eq "$(with_handlers "$TMP/places")" "$on" "without -g"
}

# ocamlopt -shared, by the wrapper: Dynlink loads the plugin; host and plugin have their own.
test_plugin() {
	eq "$(notes "$P/plugin.cmxs" | cut -d' ' -f1 | sort)" $'plugin_only\nreused'
	eq "$(readelf -hW "$P/plugin.cmxs" | grep -c 'DYN (Shared object')" 1
	matches "$(readelf -sW "$P/plugin.cmxs")" ' 4 OBJECT +WEAK +HIDDEN +[0-9]+ caml_probes_semaphore_reused'
	cp "$P/plugin_host" "$P/plugin.cmxs" "$TMP"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=0 plugin=0'
	switch_on "$TMP/plugin.cmxs"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=0 plugin=2'
	switch_on "$TMP/plugin_host"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=1 plugin=2'
	# By hand, without the wrapper; stripped; with arguments, whose marker is in the GOT.
	sed 's/"reused"/"reused" ~args:(Plugin_api.in_plugin, 3)/' "$ROOT/tests/ocaml/plugin/plugin.ml" \
		>"$TMP/plugin.ml"
	(cd "$TMP" && ocamlfind ocamlopt -shared -I "$P/obj/plugin" -package ocaml-probes.ppx plugin.ml \
		-o plugin.cmxs)
	strip "$TMP/plugin.cmxs"
	"$LINK" "$TMP/plugin.cmxs" 2>"$TMP/stderr"
	matches "$(args_of "$TMP/plugin.cmxs")" ' 8@\$7$'
	switch_on "$TMP/plugin.cmxs"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=1 plugin=2'
}

# OCaml code in a shared object that a C program uses.
test_shared_object() {
	cat >"$TMP/l.ml" <<-'EOF'
		let f x = [%probe "in_object" ~args:x (Printf.printf "handler %d\n%!" x)]; x + 1
		let () = Callback.register "f" f
	EOF
	cat >"$TMP/stub.c" <<-'EOF'
		#include <caml/callback.h>
		int start(char **argv, int x)
		{
			caml_startup(argv);
			return Int_val(caml_callback(*caml_named_value("f"), Val_int(x)));
		}
	EOF
	cat >"$TMP/main.c" <<-'EOF'
		int start(char **argv, int x);
		int main(int argc, char **argv) { return start(argv, argc) == 2 ? 0 : 1; }
	EOF
	cd "$TMP"
	ocamlfind ocamlopt -output-obj -runtime-variant _pic -cc ocaml-probes-cc \
		-package ocaml-probes.ppx -linkpkg l.ml stub.c -o libl.so
	eq "$(notes libl.so | cut -d' ' -f1)" in_object
	cc -o main main.c ./libl.so
	eq "$(./main)" ""
	switch_on libl.so
	eq "$(./main)" "handler 1"
}

# ---- how people build -------------------------------------------------------------------------

test_dune_profiles() {
	local profile
	for profile in dev release; do
		cp -r "$ROOT/tests/ocaml/service" "$TMP/$profile"
		(cd "$TMP/$profile" && dune build --root . --profile "$profile" --no-print-directory \
			./service.exe)
		eq "$(notes "$TMP/$profile/_build/default/service.exe" | cut -d' ' -f1 | sort)" \
			$'cache_evict\ncache_hit\ncache_miss\ngc_minor\nqueue_full\nrequest_done\nrequest_start' \
			"$profile"
	done
}

test_service() {
	cp "$P/service" "$TMP/service"
	start_target "$TMP/service" 2
	await_line 'service: pid [0-9]*, 2 workers, running until SIGTERM'
	kill -TERM "$TARGET"
	wait "$TARGET"
	eq "$(wc -l <"$(output_of)")" 2
	switch_on "$TMP/service"
	start_target "$TMP/service" 2
	wait_for "has_text '$(output_of)' 'queue: full' && has_text '$(output_of)' 'gc: ' &&
		grep -q 'is done' '$(output_of)' && grep -q 'cache: full' '$(output_of)' &&
		grep -q 'is there' '$(output_of)' && grep -q 'is missing' '$(output_of)'" 20
	kill -TERM "$TARGET"
	wait "$TARGET"
}

# The library's own build knows nothing of probes beyond the ppx.
test_library() {
	mkdir "$TMP/lib"
	cat >"$TMP/lib/l.ml" <<-'EOF'
		let n = ref 0
		let[@inline always] f x = [%probe "in_library" (incr n)]; x + 1
	EOF
	printf 'let () = ignore (L.f 1 + L.f 2); print_int !L.n\n' >"$TMP/lib/m.ml"
	cd "$TMP/lib" || exit
	ocamlfind ocamlopt -package ocaml-probes.ppx -a l.ml -o l.cmxa
	ocamlfind ocamlopt -cc ocaml-probes-cc -package ocaml-probes.runtime -linkpkg l.cmxa m.ml -o m
	eq "$(notes m | cut -d' ' -f1 | uniq -c | sed 's/^ *//')" "3 in_library"
	switch_on m
	eq "$(./m)" 2
}

test_compiler_driver() {
	cp "$ROOT/tests/ocaml/queries.ml" "$TMP"
	# A failing link keeps its status and message.
	fails 2 compile "$TMP/queries.ml" -cc ocaml-probes-cc -ccopt -lno_such_library
	matches "$(<"$TMP/stderr")" 'cannot find -lno_such_library'
	# Without post-linker the link fails, for its output would not be what was asked for.
	OCAML_PROBES_LINK=$TMP/none fails 2 compile "$TMP/queries.ml" -cc ocaml-probes-cc
	matches "$(<"$TMP/stderr")" 'ocaml-probes-cc: cannot find ocaml-probes-link; set OCAML_PROBES_LINK'
	OCAML_PROBES_CC="cc -DUNUSED" compile "$TMP/queries.ml" -cc ocaml-probes-cc
	eq "$(notes "$TMP/queries" | wc -l)" 3
	# What is no final link is passed through.
	cat >"$TMP/stub.c" <<<'int stub(void) { return 0; }'
	(cd "$TMP" && ocamlfind ocamlopt -cc ocaml-probes-cc -c stub.c &&
		ocaml-probes-cc -shared -o stub.so stub.o && ocaml-probes-cc --version >/dev/null)
	eq "$(readelf -SW "$TMP/stub.so" | grep -c stapsdt || :)" 0
	# The distribution's link flags survive -cc.
	compile "$TMP/queries.ml"
	readelf -dW "$TMP/queries" | grep -E 'FLAGS|BIND_NOW' | sed 's/^ 0x[0-9a-f]* //' >"$TMP/without"
	compile "$TMP/queries.ml" -cc ocaml-probes-cc
	readelf -dW "$TMP/queries" | grep -E 'FLAGS|BIND_NOW' | sed 's/^ 0x[0-9a-f]* //' >"$TMP/with"
	cmp "$TMP/without" "$TMP/with"
	OCAML_PROBES_LINK_FLAGS='--strict --no-such' fails 2 compile "$TMP/queries.ml" -cc ocaml-probes-cc
}

# The recipes of the README, word for word.
test_readme_recipes() {
	cat >"$TMP/service.ml" <<-'EOF'
		let n = ref 0
		let () = [%probe "recipe" ~args:(!n) (incr n)]; Printf.printf "%d\n" !n
	EOF
	mkdir "$TMP/dune" "$TMP/make"
	cp "$TMP/service.ml" "$TMP/dune"
	cp "$TMP/service.ml" "$TMP/make"
	sed -n 's/^    //; /^(executable$/,/^ (link_flags/p' "$ROOT/README.md" >"$TMP/dune/dune"
	eq "$(wc -l <"$TMP/dune/dune")" 4
	echo '(lang dune 2.9)' >"$TMP/dune/dune-project"
	# The wrapper needs nothing that a sandbox would hide, and a cached link is the converted one.
	for profile in dev release; do
		(cd "$TMP/dune" && rm -rf _build && XDG_CACHE_HOME=$TMP/cache DUNE_CACHE=enabled \
			DUNE_SANDBOX=symlink dune build --root . --profile "$profile" ./service.exe 2>&1)
		eq "$(notes "$TMP/dune/_build/default/service.exe" | cut -d' ' -f1)" recipe "$profile"
	done
	(cd "$TMP/make" && eval "$(sed -n 's/^    \(ocamlfind ocamlopt .*service.ml -o service\)$/\1/p' \
		"$ROOT/README.md")")
	eq "$(notes "$TMP/make/service" | cut -d' ' -f1)" recipe
	eq "$(with_handlers "$TMP/make/service")" 1
}

# Somebody's -ppx duplicates code with its locations, or nests a probe in itself by inlining.
test_same_place_twice() {
	cat >"$TMP/x.ml" <<-'EOF'
		# 1 "same.ml"
		let n = ref 0 let f () = [%probe "p" (incr n)]
		# 1 "same.ml"
		let n = n     let g () = [%probe "p" (incr n)]
		let () = f (); g (); print_int !n
	EOF
	compile "$TMP/x.ml"
	matches "$("$LINK" --verbose "$TMP/x")" 'same.ml:1:25: .*same.ml:1:25#2: '
	switch_on "$TMP/x"
	eq "$("$TMP/x")" 2
}

run_tests "$@"
