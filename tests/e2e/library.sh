#!/usr/bin/env bash
# The C library as its users have it: installed, found by pkg-config, from C and from C++.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

install_library() {
	make -C "$ROOT" --no-print-directory -s O="$O" PREFIX="$TMP/installed" install >"$TMP/install" 2>&1 ||
		fail "$(cat "$TMP/install")"
	export PKG_CONFIG_PATH=$TMP/installed/lib/pkgconfig LD_LIBRARY_PATH=$TMP/installed/lib
}

# Compile tests/library/NAME.c against it.
compile() { # NAME FLAG...
	local name=$1
	shift
	gcc -std=gnu11 -Wall -Wextra -Werror -o "$TMP/$name" "$ROOT/tests/library/$name.c" "$@" \
		$(pkg-config --cflags --libs ocaml_probes)
}

test_example() {
	install_library
	compile example
	start_target "$O/tests/ocaml/loop"
	await_line ready
	eq "$("$TMP/example" "$TARGET" '.*a$')" "alpha enabled
beta enabled
gamma enabled
alpha disabled
beta disabled
gamma disabled"
	eq "$("$TMP/example" "$TARGET" 'be')" "alpha disabled
beta enabled
gamma disabled
alpha disabled
beta disabled
gamma disabled"
	eq "$("$TMP/example" "$TARGET" 'nosuch' 2>&1 || :)" "example: regular expression 'nosuch': matches no probe of $O/tests/ocaml/loop"
}

test_static_library() {
	install_library
	gcc -o "$TMP/example" "$ROOT/tests/library/example.c" $(pkg-config --cflags ocaml_probes) \
		"$TMP/installed/lib/libocaml_probes.a" $(pkg-config --libs libbpf libelf)
	start_target "$O/tests/ocaml/loop"
	await_line ready
	eq "$("$TMP/example" "$TARGET" alpha | head -n 1)" "alpha enabled"
}

# The header and the example are C++ as well.
test_cxx() {
	install_library
	clang++ -x c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags ocaml_probes) \
		"$ROOT/tests/library/example.c"
}

test_phases() {
	install_library
	compile phases
	# loop needs a stdin that stays open.
	mkfifo "$TMP/in"
	exec {fd}<>"$TMP/in"
	"$TMP/phases" "$O/tests/ocaml/loop" <"$TMP/in" >"$TMP/out" || fail "$(cat "$TMP/out")"
	eq "$(grep -v '^ready\|handler=' "$TMP/out")" "spawned: t
predicate asked about all: 1
held: alpha=1 beta=1 gamma=1
released: 1
held: t, again: -22
dry run: alpha=1 beta=1 gamma=1
switched: alpha=0 beta=1 gamma=0
disabled twice: -34, with force: 0
in the end: alpha=0 beta=1 gamma=0
its status: 9"
}

# A program that switches itself, and a plugin it has loaded, 2000 times under four threads.
test_self() {
	local unit=("-I$ROOT/tests/fixtures" -DUNIT=self -DONLY=self_only
		"$ROOT/tests/fixtures/binaries/unit.S" "$ROOT/tests/fixtures/binaries/unit.c")
	install_library
	for variant in -pie -no-pie; do
		compile self "${unit[@]}" -pthread -ldl "$([[ $variant = -pie ]] && echo -fPIE || echo -fno-pie)" "$variant"
		"$TMP/self" "$O/tests/fixtures/binaries/plugin.so" >"$TMP/out" || fail "$(cat "$TMP/out")"
		eq "$(grep -v handler= "$TMP/out")" "own probes: 2
with the plugin's: 3
plugin_only 0
reused 0
self_only 0
atomically: -22"
		eq "$(awk -F'[= ]' '$3 > 0 && $3 < $5' "$TMP/out" | wc -l)" 4 "probes whose handlers ran at some hits: $(cat "$TMP/out")"
	done
}

# What is exported is what the header declares.
test_exported_symbols() {
	eq "$(nm -D --defined-only "$O/libocaml_probes.so" | awk '{ print $3 }' | sort)" \
		"$(grep -o '\bocp_[a-z_]*(' "$ROOT/include/ocaml_probes.h" | tr -d '(' | sort -u | comm -12 - <(
			grep -A3 '^OCP_API' "$ROOT/include/ocaml_probes.h" | grep -o '\bocp_[a-z_]*(' | tr -d '(' | sort -u))"
}

run_tests "$@"
