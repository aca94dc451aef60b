#!/usr/bin/env bash
# `profile --cpu` of programs that this project did not write, against perf, which samples the same runs.
#
# needs: fixtures
# ocaml5: all
# long: statistics
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# The compiler itself, linked from Debian's packages: with symbols, which Debian's own has not.
build_compiler() {
	ocamlopt -I +compiler-libs ocamlcommon.cmxa ocamloptcomp.cmxa optmain.cmx -o "$TMP/compiler" 2>"$TMP/err" ||
		fail "no compiler: $(<"$TMP/err")"
}

# A source of N functions that call each other.
write_source() { # N
	local i
	echo "type t = A | B of int | C of t * string | D of { x : int; y : float }"
	echo "let f0 (_ : t) n = n"
	for ((i = 1; i <= $1; i++)); do
		cat <<-SOURCE
			let rec f$i (x : t) n = match x with
			  | A -> n + $i
			  | B k when k > n -> f$i (C (x, "s")) (k - n) + List.length (List.map (fun z -> z * k + n) [ 1; k; n ])
			  | C (A, s) -> String.length s + Hashtbl.hash (s, n) | C (y, _) -> f$((i - 1)) y (n + 1)
			  | D { x; y } -> if y > float n then x else (try f$i A x with Not_found | Exit -> x lxor n) | B _ -> 2
		SOURCE
	done
}

test_compiler() {
	local compiler perf profile
	need_counting
	need_command perf
	build_compiler
	write_source 200 >"$TMP/source.ml"
	# It waits where it reads its source, until it is told.
	cat >"$TMP/wait" <<-WAIT
		#!/bin/sh
		: >"$TMP/waits"
		read -r _ <"$TMP/go"
		cat "\$1"
	WAIT
	chmod +x "$TMP/wait"
	mkfifo "$TMP/go"
	background "$TMP/compiler" -pp "$TMP/wait" -c "$TMP/source.ml"
	compiler=$!
	wait_for '[[ -e $TMP/waits ]]'
	background perf record -q -e cpu-clock -F 9999 --no-inherit -p "$compiler" -o "$TMP/perf.data" \
		>"$TMP/perf.out" 2>&1
	perf=$!
	background "$TOOL" profile -pid "$compiler" --hz 9999 --json >"$TMP/json" 2>"$TMP/err"
	profile=$!
	wait_for 'has_text "$TMP/err" sampling'
	# perf says nothing when it has begun: it waits for events then (system call 7, poll).
	wait_for "ls -l /proc/$perf/fd | grep -q 'anon_inode:\[perf_event\]' && grep -q '^7 ' /proc/$perf/syscall"
	echo go >"$TMP/go"
	wait "$compiler" || fail "the compiler failed"
	wait "$profile" || fail "$(<"$TMP/err")"
	wait "$perf" || fail "perf: $(<"$TMP/perf.out")"
	compare_shares
}

# What perf has recorded, of processes called so, with the profile.
compare_shares() { # [COMM]
	perf script -i "$TMP/perf.data" ${1:+--comms "$1"} -F ip,sym,dso --no-demangle >"$TMP/samples" 2>"$TMP/perf.out" ||
		fail "$(<"$TMP/perf.out")"
	compare_with_books shares "$TMP/samples" "$TMP/json"
	cat "$TMP/compared"
}

# A library of modules, each of which uses the one before.
write_project() { # MODULES
	local i
	mkdir "$TMP/project"
	cd "$TMP/project"
	echo '(lang dune 2.0)' >dune-project
	echo '(library (name many) (wrapped false))' >dune
	for ((i = 1; i <= $1; i++)); do
		write_source 3 >"m$i.ml"
		((i == 1)) || echo "let before = M$((i - 1)).f1" >>"m$i.ml"
	done
}

# dune itself: one build, and some more that find nothing to do.
test_dune() {
	local profile
	need_counting
	need_command perf dune
	write_project 8
	cp "$(type -P dune)" "$TMP/dune" # others run dune as well
	cat >build.sh <<-'BUILD'
		for _ in {1..75}; do
			DUNE_CACHE=disabled "$TMP/dune" build --root . --display quiet @default || exit
		done
	BUILD
	background "$TOOL" profile --exe "$TMP/dune" --hz 9999 --json >"$TMP/json" 2>"$TMP/err"
	profile=$!
	wait_for 'has_text "$TMP/err" sampling'
	perf record -q -e cpu-clock -F 9999 -o "$TMP/perf.data" bash build.sh >"$TMP/perf.out" 2>&1 ||
		fail "$(<"$TMP/perf.out")"
	kill -INT "$profile"
	wait "$profile" || fail "$(<"$TMP/err")"
	compare_shares dune
}

run_tests "$@"
