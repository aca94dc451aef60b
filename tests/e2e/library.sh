#!/usr/bin/env bash
# The C library as its users have it: installed, found by pkg-config, from C and from C++.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

install_library() {
	make -C "$ROOT" --no-print-directory -s O="$O" PREFIX="$TMP/installed" install >"$TMP/install" 2>&1 ||
		fail "$(<"$TMP/install")"
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
		"$TMP/installed/lib/libocaml_probes.a" $(pkg-config --libs $(pkg-config --print-requires-private ocaml_probes)) \
		$(sed -n 's/^Libs.private: //p' "$TMP/installed/lib/pkgconfig/ocaml_probes.pc")
	start_target "$O/tests/ocaml/loop"
	await_line ready
	eq "$("$TMP/example" "$TARGET" alpha | head -n 1)" "alpha enabled"
}

# The header and the example are C++ as well.
test_cxx() {
	install_library
	holds clang++ -x c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags ocaml_probes) \
		"$ROOT/tests/library/example.c"
}

test_phases() {
	install_library
	compile phases
	# loop needs a stdin that stays open.
	mkfifo "$TMP/in"
	exec {fd}<>"$TMP/in"
	"$TMP/phases" "$O/tests/ocaml/loop" <"$TMP/in" >"$TMP/out" || fail "$(<"$TMP/out")"
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
		"$TMP/self" "$O/tests/fixtures/binaries/plugin.so" >"$TMP/out" || fail "$(<"$TMP/out")"
		eq "$(grep -v handler= "$TMP/out")" "own probes: 2
with the plugin's: 3
plugin_only 0
reused 0
self_only 0
atomically: -22"
		eq "$(awk -F'[= ]' '$3 > 0 && $3 < $5' "$TMP/out" | wc -l)" 4 "probes whose handlers ran at some hits: $(<"$TMP/out")"
	done
}

# Of a process that has mapped three files with probes, some of the same name, one at a time.
test_restrict() {
	local binaries=$O/tests/fixtures/binaries
	install_library
	compile restrict
	start_target "$binaries/host"
	await_line ready
	tell "load $binaries/plugin.so"
	await_line 'done'
	eq "$("$TMP/restrict" "$TARGET" "$binaries/host" enable reused)" "host_only 2 disabled
reused 2 enabled"
	eq "$("$TMP/restrict" "$TARGET" "$binaries/plugin.so")" "plugin_only 2 disabled
reused 2 disabled"
	eq "$("$TMP/restrict" "$TARGET" "$binaries/plugin.so" enable host_only)" \
		"-2 probe 'host_only': no such probe in $binaries/plugin.so"
	eq "$("$TOOL" info -pid "$TARGET" | grep reused)" "reused mixed"
	eq "$("$TMP/restrict" "$TARGET" "$binaries/host" disable reused | tail -n 1)" "reused 2 disabled"

	# A copy, by any name, of one of them; no other file.
	strip -o "$TMP/copy" "$binaries/plugin.so"
	eq "$("$TMP/restrict" "$TARGET" "$TMP/copy" | head -n 1)" "plugin_only 2 disabled"
	eq "$("$TMP/restrict" "$TARGET" "$TMP/copy" --no-copies)" \
		"-3 pid $TARGET ($binaries/host): runs no probes of $TMP/copy"
	eq "$("$TMP/restrict" "$TARGET" "$O/tests/ocaml/loop")" \
		"-3 pid $TARGET ($binaries/host): runs no probes of $O/tests/ocaml/loop"
	eq "$("$TMP/restrict" "$TARGET" "$(type -P gcc)")" \
		"-3 pid $TARGET ($binaries/host): runs no probes of $(type -P gcc)"

	# A file that was replaced is what it was to those who run it.
	cp "$binaries/host" "$TMP/renamed"
	start_target env LD_LIBRARY_PATH="$binaries" "$TMP/renamed"
	await_line ready
	mv "$TMP/renamed" "$TMP/other"
	eq "$("$TMP/restrict" "$TARGET" "/proc/$TARGET/exe" --no-copies | xargs)" "host_only 2 disabled reused 2 disabled"

	# No probes at all is no mistake.
	start_target cat
	wait_for '[[ $(<"/proc/$TARGET/comm") = cat ]]'
	eq "$("$TMP/restrict" "$TARGET" "/proc/$TARGET/exe")" ""
}

# Both libraries export what the headers declare, and nothing else.
test_exported_symbols() {
	local public
	public=$(grep -oh '\bocp_[a-z_]*(' "$ROOT"/include/*.h | tr -d '(' | sort -u | comm -12 - <(
			grep -hA3 '^OCP_API' "$ROOT"/include/*.h | grep -o '\bocp_[a-z_]*(' | tr -d '(' | sort -u))
	eq "$(nm -D --defined-only "$O/libocaml_probes.so" | awk '{ print $3 }' | sort)" "$public" "shared"
	eq "$(nm --extern-only --defined-only "$O/libocaml_probes.a" | awk 'NF == 3 { print $3 }' | sort)" \
		"$public" "static"
}

# What the library exports is on the list of its SOVERSION, and nothing else. A name that is gone since a
# release needs another SOVERSION.
test_exported_symbols_are_listed() {
	local soname
	soname=$(readelf -d "$O/libocaml_probes.so" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
	eq "$(sed -n 's/^ \(.*\)@Base .*/\1/p' "$ROOT/tools/debian/libocaml-probes${soname##*.}.symbols")" \
		"$(nm -D --defined-only "$O/libocaml_probes.so" | awk '{ print $3 }' | LC_ALL=C sort)"
}

# The versions of all kinds of packages are one.
run_tests "$@"
