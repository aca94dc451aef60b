# shellcheck shell=bash
# What the scripts of `memprof` share: programs with the library ocaml-probes.memprof, of
# tests/ocaml/memprof. After lib.sh.
SOURCES=$ROOT/tests/ocaml/memprof
LIBRARY=$ROOT/tools/ocaml
KEPT=$O/tests/memprof

version() {
	ocamlfind ocamlopt -version
}

# ocamlfind links the library by its name.
build_with_ocamlfind() { # NAME
	OCAMLPATH=$O/ocaml/lib:${OCAMLPATH:-} ocamlfind ocamlopt -thread -linkpkg -g \
		-package threads.posix,ocaml-probes.memprof "$1.ml" -o "$1"
}

# Other compilers have no ppxlib: Debian's makes the library's source, and all is compiled by hand.
copy_for_hand() { # FOLDER...: of the libraries whose files are needed beside the runtime and memprof
	local folder
	printf 'let () = Ppxlib.Driver.standalone ()\n' >ppx.ml
	PATH=/usr/bin:$PATH OCAMLPATH=$O/ocaml/lib OCAMLFIND_IGNORE_DUPS_IN=/usr/lib/ocaml/compiler-libs \
		ocamlfind ocamlopt -predicates ppx_driver -linkpkg -linkall -package ppxlib,ocaml-probes.ppx ppx.ml -o ppx
	rm ppx.cm* ppx.o
	for folder in "$@"; do
		cp "$LIBRARY/$folder"/*.{ml*,[ch]} .
	done
	cp "$LIBRARY"/runtime/*.ml* "$LIBRARY"/memprof/*.mli "$LIBRARY"/memprof/*.[ch] .
	./ppx --impl "$LIBRARY/memprof/ocaml_probes_memprof.ml" -o ocaml_probes_memprof.ml
}

compile_c() { # FILE...
	local unit
	for unit in "$@"; do
		ocamlopt -ccopt "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I$ROOT/src -I$ROOT/include -I$ROOT/bpf" -c "$unit"
	done
}

build_by_hand() { # NAME
	local libraries=(unix.cmxa)
	copy_for_hand
	compile_c memprof_*.c
	[[ $(version) = 4* ]] || libraries=(-I +unix "${libraries[@]}")
	ocamlopt -g -I +threads "${libraries[@]}" threads.cmxa ocaml_probes_runtime.ml{i,} \
		ocaml_probes_memprof.ml{i,} memprof_*.o "$1.ml" -o "$1"
}

build_program() { # NAME
	mkdir "$TMP/build"
	cd "$TMP/build"
	cp "$SOURCES/$1.ml" .
	if [[ $(type -P ocamlopt) = /usr/bin/* ]]; then
		build_with_ocamlfind "$1"
	else
		build_by_hand "$1"
	fi
	mv "$1" "$PROGRAM"
}

# The program NAME of SOURCES, built once for each compiler. Sets PROGRAM.
need_program() { # NAME
	local dir
	dir=$KEPT/$(dirname "$(ocamlfind ocamlopt -where)" | tr / _)
	PROGRAM=$dir/$1
	mkdir -p "$dir"
	# Another script may build it now.
	(
		flock 9
		[[ $PROGRAM -nt $SOURCES/$1.ml && $PROGRAM -nt $O/ocaml/installed ]] || build_program "$1"
	) 9>"$dir/lock"
}

start_subject() { # ARG...
	need_program subject
	start_target "$PROGRAM" "$@"
	await_line ready
}

memprof() { # ARG...
	# shellcheck disable=SC2153 # lib.sh sets it
	timeout 600 "$TOOL" memprof -pid "$TARGET" "$@"
}

# Profile the target until it has had a CPU for so many hundredths of a second. What is said is in $TMP/err.
memprof_for_ticks() { # TICKS ARG...
	for_ticks "$1" "$TOOL" memprof -pid "$TARGET" "${@:2}"
}

# Kill `memprof` with the FLAGs before N of its calls that change something. Each time, the profile is off afterwards, and the
# program's code is its own.
kill_at_calls() { # N FLAG...
	local call command=("$TOOL" memprof -pid "$TARGET" --for 30ms --rate 0.01 "${@:2}")
	list_calls "${command[@]}"
	for call in $(spread_calls "$1"); do
		kill_when_reached "$call" "${command[@]}"
		wait_for "[[ \$(status_of_target) = free ]]"
		wait_for has_own_code
	done
	printf '%s of %s calls\n' "$1" "${#CALLS[@]}" >&2
}

# Prints how many requests the program has done.
requests_of_target() {
	forget_output
	tell status
	await_line '[0-9]* [a-z]*'
	sed -n 's/^\([0-9]*\) \(free\|profiled\)$/\1/p' "$(output_of)"
}

# Return when the program has done N more requests.
await_requests() { # N
	local last
	last=$(($(requests_of_target) + $1))
	wait_for "[[ \$(requests_of_target) -ge $last ]]"
}

# Run memprof (COMMAND...) until the program has done N more requests. What is said is in $TMP/err.
for_requests() { # N COMMAND...
	: >"$TMP/err"
	background "${@:2}" 2>"$TMP/err"
	wait_for "has_text '$TMP/err' sampling"
	await_requests "$1"
	kill -INT $!
	wait $!
}

# What the program says of its profiles.
status_of_target() {
	forget_output
	tell status
	await_line '[0-9]* [a-z]*'
	grep -ox 'free\|profiled' <(cut -d' ' -f2 "$(output_of)")
}
