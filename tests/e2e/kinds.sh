#!/usr/bin/env bash
# Native programs without probes, OCaml's bytecode, and programs that are not OCaml's: each command says
# which of the three it is, and what to do.
#
# needs: fixtures ocaml/bare_host ocaml/plugin.cmxs
# smoke: test_bytecode
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

HINT="compile the program to native code: ocamlopt, or dune's mode \`exe\`"

# A program that allocates and waits, as each kind of executable.
build_kinds() {
	cat >"$TMP/waits.ml" <<-'ML'
		let rec work n = if n = 0 then [] else n :: work (n - 1)
		let () = print_endline "ready"
		let () = while true do ignore (Sys.opaque_identity (work 1000)); Unix.sleepf 0.01 done
	ML
	(
		cd "$TMP"
		ocamlfind ocamlopt -g -package unix -linkpkg waits.ml -o native
		ocamlfind ocamlc -g -package unix -linkpkg waits.ml -o script
		ocamlfind ocamlc -g -custom -package unix -linkpkg waits.ml -o custom
	) >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	strip -o "$TMP/stripped" "$TMP/native"
}

# A refusal: one line with the process and what it is, a hint or none, status 1 and no table.
refused() { # WHAT HINT ARG...
	local what=$1 hint=$2
	shift 2
	check_error 1 "^ocaml-probes: .*$what\$" "$@"
	eq "$(sed -n 's/^hint: //p' "$TMP/err")" "$hint" "hint of $*"
}

# All commands that need native OCaml code, on process PID, which runs EXE.
all_refused() { # WHAT HINT PID EXE
	local what=$1 hint=$2 who="pid $3 \($4\): "
	refused "$who$what" "$hint" info "$3"
	refused "$who$what" "$hint" info "$3" --sites
	refused "$who$what" "$hint" info "$3" --json
	refused "$who$what" "$hint" functions "$3"
	refused "$who$what" "$hint" annotate "$3" waits.ml --for 10ms
	refused "$who$what" "$hint" memprof "$3" --for 10ms
	refused "$what" "$hint" gc "$3" --for 10ms
	if is_root; then
		refused "$who$what" "$hint" attach "$3" --count --for 10ms
		refused "$who$what" "$hint" attach "$3" --count=name --for 10ms --json
		refused "$who$what" "$hint" attach "$3" --time start,stop --for 10ms --csv
		refused "$who$what" "$hint" attach "$3" --print=name --for 10ms
		refused "$what" "$hint" attach --exe "$4" --count --for 10ms
		refused "$what" "$hint" attach "$3" --count=gc:minor --for 10ms
		refused "$who$what" "$hint" profile "$3" --gc --for 10ms
		refused "$what" "$hint" profile "$3" --alloc --for 10ms
	fi
}

is_root() {
	[[ $(id -u) == 0 ]]
}

# What is profiled is the interpreter.
check_cpu_profile() { # WHAT PID
	local status=0
	is_root || return 0
	"$TOOL" profile "$2" --for 10ms --hz 1 >"$TMP/out" 2>"$TMP/err" || status=$?
	matches "$(<"$TMP/err")" "ocaml-probes: warning: pid $2 \(.*\): $1; the functions are those of C"
	# A sample is a matter of chance.
	eq "$status" "$(grep -c 'no samples' "$TMP/err" || :)" "status with and without samples"
}

test_bytecode() {
	local what='runs OCaml bytecode, not native code' run
	build_kinds
	run=$(realpath "$(type -P ocamlrun)")
	start_target "$TMP/script"
	await_line ready
	all_refused "$what" "$HINT" "$TARGET" "$run"
	check_cpu_profile "$what" "$TARGET"
	start_target ocamlrun "$TMP/script"
	await_line ready
	all_refused "$what" "$HINT" "$TARGET" "$run"
	start_target "$TMP/custom"
	await_line ready
	all_refused "$what" "$HINT" "$TARGET" "$TMP/custom"
}

test_files_of_bytecode() {
	local command
	build_kinds
	for command in list functions; do
		refused "$TMP/script: OCaml bytecode, not an ELF file with native code" "$HINT" "$command" -prog "$TMP/script"
		refused "$TMP/custom: runs OCaml bytecode, not native code" "$HINT" "$command" -prog "$TMP/custom"
	done
	refused "$TMP/custom: runs OCaml bytecode, not native code" "$HINT" list -prog "$TMP/custom" --args
	refused "$TMP/custom: runs OCaml bytecode, not native code" "$HINT" list -prog "$TMP/custom" --json
	if is_root; then
		refused "\($TMP/custom\): runs OCaml bytecode, not native code" "$HINT" trace -prog "$TMP/custom" --count
	fi
	# What ends as bytecode does, and is too short for a number of the format.
	printf '#!/bin/sh\nCaml1999X' >"$TMP/text"
	refused "$TMP/text: not an ELF file( .*)?" "" list -prog "$TMP/text"
}

test_not_ocaml() {
	local what='not an OCaml program: it contains no OCaml runtime' status=0
	start_target sleep 1000
	await_exe "$(type -P sleep)"
	all_refused "$what" "" "$TARGET" "$(readlink "/proc/$TARGET/exe")"
	check_cpu_profile "$what" "$TARGET"
	refused "/bin/ls: $what" "" list -prog /bin/ls
	refused "/bin/ls: $what" "" list -prog /bin/ls --json
	refused "/bin/ls: $what" "" functions -prog /bin/ls
	is_root || return 0
	# It might have loaded a file with probes.
	"$TOOL" trace -prog "$(type -P true)" --count >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(<"$TMP/out")" "1 "
	eq "$(tail -n 1 "$TMP/err")" "ocaml-probes: $(type -P true): not an OCaml program, and it has loaded no file with probes"
}

# A process of the program ends while the tool looks at it.
test_not_ocaml_and_ended() {
	local status=0
	is_root || return 0
	need_command strace
	cp "$(type -P sleep)" "$TMP/pause"
	start_target "$TMP/pause" 1000
	await_exe "$TMP/pause"
	strace -f -o "$TMP/calls" -P "/proc/$TARGET/maps" -e trace=openat -e inject=openat:error=ESRCH \
		"$TOOL" attach --exe "$TMP/pause" --count --for 10ms >"$TMP/out" 2>"$TMP/err" || status=$?
	has_text "$TMP/calls" INJECTED || fail "no maps were opened: $(<"$TMP/calls")"
	eq "$status $(<"$TMP/err")" "1 ocaml-probes: $TMP/pause: not an OCaml program: it contains no OCaml runtime"
}

# The first process of several is named, unless one of them is native.
test_several_processes() {
	local sleeper
	need_counting
	build_kinds
	start_target sleep 1000
	sleeper=$TARGET
	await_exe "$(type -P sleep)"
	start_target "$TMP/custom"
	await_line ready
	refused "pid $sleeper \(.*/sleep\): not an OCaml program: it contains no OCaml runtime" "" \
		attach "$sleeper" "$TARGET" --count --for 10ms
	refused "pid $TARGET \($TMP/custom\): runs OCaml bytecode, not native code" "$HINT" \
		attach "$TARGET" "$sleeper" --count --for 10ms
	start_target "$TMP/native"
	await_line ready
	"$TOOL" attach "$sleeper" "$TARGET" --count --for 10ms >"$TMP/out" 2>"$TMP/err"
	finds 'no probes yet' "$TMP/err"
}

# Those have no probes, but functions; a stripped one, too.
test_native_programs_without_probes() {
	local kind
	for kind in native stripped; do
		build_kinds
		start_target "$TMP/$kind"
		await_line ready
		eq "$("$TOOL" info "$TARGET" 2>"$TMP/err")" ""
		eq "$(<"$TMP/err")" "ocaml-probes: pid $TARGET ($TMP/$kind): has no OCaml probes
hint: \`ocaml-probes functions -pid $TARGET\` lists what \`attach --count=fn:NAME\` counts without probes"
		eq "$("$TOOL" info "$TARGET" --quiet 2>&1)" "" "what --quiet leaves"
		eq "$("$TOOL" list -prog "$TMP/$kind" 2>"$TMP/err")" ""
		eq "$(<"$TMP/err")" "ocaml-probes: $TMP/$kind: has no OCaml probes
hint: \`ocaml-probes functions -prog $TMP/$kind\` lists what \`attach --count=fn:NAME\` counts without probes"
		"$TOOL" functions "$TARGET" 'Waits\.' >"$TMP/out"
		finds '^Waits\.work ' "$TMP/out"
		is_root || continue
		"$TOOL" attach "$TARGET" --count --for 10ms >"$TMP/out" 2>"$TMP/err"
		finds "$TMP/$kind: no probes yet: .*; functions need no probes (fn:NAME)\$" "$TMP/err"
		measure_until '"name":"fn:Waits.work","hits":[1-9]' --count=fn:Waits.work
	done
}

# A plugin is OCaml's, though the runtime is in another file.
test_plugins() {
	eq "$("$TOOL" list -prog "$O/tests/ocaml/plugin.cmxs")" "plugin_only
reused"
	build_kinds
	(cd "$TMP" && ocamlfind ocamlopt -shared -package unix waits.ml -o waits.cmxs) >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	"$TOOL" list -prog "$TMP/waits.cmxs" >"$TMP/out" 2>"$TMP/err"
	finds "waits.cmxs: has no OCaml probes" "$TMP/err"
	strip "$TMP/waits.cmxs"
	"$TOOL" list -prog "$TMP/waits.cmxs" >"$TMP/out" 2>"$TMP/err"
	finds "waits.cmxs: has no OCaml probes" "$TMP/err"
}

# A program in C that has loaded a library in OCaml, with the runtime in it, is an OCaml program.
test_a_library_in_a_program_of_c() {
	cat >"$TMP/inner.ml" <<-'ML'
		let () = Callback.register "inner" (fun x -> x + 1)
	ML
	cat >"$TMP/begin.c" <<-'C'
		#include <caml/callback.h>
		void begin_inner(char **args)
		{
			caml_startup(args);
		}
	C
	cat >"$TMP/outer.c" <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		#include <unistd.h>
		int main(int n, char **args)
		{
			void *library = dlopen(args[1], RTLD_NOW);
			void (*start)(char **) = library ? (void (*)(char **))dlsym(library, "begin_inner") : NULL;

			if (!start)
				return puts(dlerror()), 1;
			start(args);
			puts("ready");
			fflush(stdout);
			for (;;)
				pause();
		}
	C
	(
		cd "$TMP"
		ocamlfind ocamlopt -output-obj -runtime-variant _pic inner.ml begin.c -o inner.so
		cc outer.c -o outer -ldl
	) >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	strip "$TMP/inner.so"
	start_target "$TMP/outer" "$TMP/inner.so"
	await_line ready
	eq "$("$TOOL" info "$TARGET" 2>"$TMP/err")" ""
	finds 'has no OCaml probes' "$TMP/err"
	is_root || return 0
	"$TOOL" attach "$TARGET" --count --for 10ms >"$TMP/out" 2>"$TMP/err"
	finds 'no probes yet' "$TMP/err"
}

run_tests "$@"
