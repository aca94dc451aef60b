#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Lines of a source, counted by name and by `annotate`, against a program that counts its own lines, and
# against ocamlprof. With the compiler in PATH.
#
#   SUITE    the programs of the language suite whose lines are counted; all: each of them
#
# needs: fixtures ocaml
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

# OCaml 5 would let a recursion without end fill 1 GiB.
export OCAMLRUNPARAM=l=1M
LINES_OF=$ROOT/tests/ocaml/lines
SUITE=${SUITE:-closures deep_recursion guards iterators loops raising_handlers tail_calls try_with}

# ---- helpers ----------------------------------------------------------------------------------

build() { # FLAG...
	mkdir -p "$TMP/src"
	cp "$LINES_OF"/*.ml "$TMP/src"
	(cd "$TMP/src" && ocamlopt -w -a -g "$@" marks.ml lines.ml -o "$TMP/lines")
}

# Start `annotate` of PID in the background, its output in $TMP/annotated; return when it counts.
start_annotating() { # PID OPTION...
	local pid=$1
	shift
	: >"$TMP/annotating.err"
	background "$TOOL" annotate -pid "$pid" "$@" >"$TMP/annotated" 2>"$TMP/annotating.err"
	ANNOTATING=$!
	wait_for 'has_text "$TMP/annotating.err" "counting [0-9]* line" || ! kill -0 "$ANNOTATING"'
	kill -0 "$ANNOTATING" 2>/dev/null || fail "it does not count: $(<"$TMP/annotating.err")"
}

# Run the program of build(), annotated with these options from its beginning to its end.
annotate() { # ROUNDS OPTION...
	local rounds=$1
	shift
	start_target "$TMP/lines" "$rounds"
	await_line ready
	start_annotating "$TARGET" "$@"
	tell go
	finish_target
	wait "$ANNOTATING" || fail "status $?: $(<"$TMP/annotating.err")"
	eq "$TARGET_STATUS" 0 "status of the program"
	eq "$(cat "$(output_of)")" "$("$TMP/lines" "$rounds" <<<go)" "output"
}

# Both engines count what the program counts.
check_lines() { # FLAG...
	local compared engine
	need_counting
	need_command python3
	build "$@"
	for engine in bpf inside; do
		annotate 60 --engine "$engine" --json "$TMP/src/lines.ml"
		compare_with_books lines "$TMP/src/lines.ml" "$TMP/annotated" "$(output_of)"
		# Where OCaml 4 may meet the end of the stack, there is no jump.
		(($(<"$TMP/compared") >= 55)) || fail "$engine: only $(<"$TMP/compared") lines"
	done
}

# ---- exactness --------------------------------------------------------------------------------

test_lines() {
	check_lines
}

test_lines_not_position_independent() {
	check_lines -ccopt -no-pie
}

test_lines_not_inlined() {
	check_lines -inline 0
}

test_lines_function_sections() {
	check_lines -function-sections
}

# The profiler of the distribution, which instruments the source, says the same of every branch.
test_ocamlprof() {
	local compared
	need_counting
	need_command python3 ocamloptp ocamlprof
	build
	annotate 60 --json "$TMP/src/lines.ml"
	(
		cd "$TMP/src"
		ocamloptp -P a -w -a marks.ml lines.ml -o "$TMP/profiled"
		"$TMP/profiled" 60 <<<go >/dev/null
		ocamlprof lines.ml >"$TMP/prof"
	) 2>"$TMP/warnings" || fail "$(<"$TMP/warnings")"
	compare_with_books lines "$TMP/src/lines.ml" "$TMP/annotated" "$(output_of)" "$TMP/prof"
	compared=$(<"$TMP/compared")
	((${compared#* } >= 30)) || fail "compared with ocamlprof: only ${compared#* } lines"
}

# Programs whose lines are not executed equally often in each run, by the size of the stack or by the time; or that fork:
# children are counted inside.
VARYING="alarms at_exit deep_recursion domains finalisers gc_stress signals threads weak_pointers"

# A program of the language suite does the same with its lines counted inside, and each of them has the count of the kernel.
check_program() {
	local program=$TMP/suite/$PROGRAM expected=0 engine engines="bpf inside"
	[[ " $VARYING " != *" $PROGRAM "* ]] || engines=inside
	"$program" >"$TMP/$PROGRAM.expected" 2>&1 || expected=$?
	for engine in $engines; do
		BY=$engine COUNTED=line:$PROGRAM.ml start_counted "$TMP/$PROGRAM.$engine" "$program"
		finish_target
		wait "$COUNTING" || fail "$PROGRAM: $(<"$TMP/$PROGRAM.$engine.err")"
		eq "$(cat "$(output_of)")" "$(<"$TMP/$PROGRAM.expected")" "$PROGRAM"
		eq "$TARGET_STATUS" "$expected" "status of $PROGRAM"
	done
	[[ $engines = inside ]] ||
		python3 "$ROOT/tests/books" engines "$TMP/$PROGRAM.bpf" "$TMP/$PROGRAM.inside" >"$TMP/$PROGRAM.compared" ||
		fail "$PROGRAM: $(<"$TMP/$PROGRAM.compared")"
}

test_suite() {
	need_counting
	need_command python3
	[[ $SUITE = all ]] || export PROGRAMS=$SUITE
	BARE=no DORMANT=yes "$ROOT/tests/ocaml/suite/build" "$O" "$TMP/suite" -g >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	xargs -P"$(nproc)" -I{} env PROGRAM={} bash "$0" --one check_program <"$TMP/suite/programs"
}

# ---- the text ---------------------------------------------------------------------------------

# Behind the counts stands the source as it is; what has no code has no count.
test_text() {
	need_counting
	build
	annotate 7 "$TMP/src/lines.ml"
	eq "$(cut -c12- "$TMP/annotated")" "$(<"$TMP/src/lines.ml")" "source"
	eq "$(grep -n '^ *[0-9]* *\(here\|(here\).*n \* 3 + 1)$' "$TMP/annotated" | head -n 1)" "11:        4      (here __LINE__; n * 3 + 1)"
	eq "$(grep 'Branches, loops\|^ *type shape\|Inlined: ' "$TMP/annotated" | cut -c-11 | sort -u)" "           "
	eq "$(sed -n '/let never/,/here/p' "$TMP/annotated")" "\
        0  let never n =
        0    here __LINE__; n"
	grep -q '^ocaml-probes: [0-9.]* s; CPU overhead: ' "$TMP/annotating.err" || fail "$(<"$TMP/annotating.err")"
}

# A bare name is found where the program was compiled; a path that was moved by its end.
test_where_the_source_is() {
	need_counting
	build
	mkdir -p "$TMP/moved/src"
	cp "$TMP/src/lines.ml" "$TMP/moved/src"
	start_target "$TMP/lines" 3
	await_line ready
	(cd / && "$TOOL" annotate -q -pid "$TARGET" --for 10ms lines.ml) >"$TMP/bare"
	eq "$(cut -c12- "$TMP/bare")" "$(<"$TMP/src/lines.ml")" "source"
	"$TOOL" annotate -q -pid "$TARGET" --for 10ms "$TMP/moved/src/lines.ml" --json >"$TMP/moved.json"
	finds "\"file\":\"$TMP/src/lines.ml\",\"source\":\"$TMP/moved/src/lines.ml\"" "$TMP/moved.json" ||
		fail "$(<"$TMP/moved.json")"
}

# A source that is not the one that was compiled is not shown in silence.
test_other_source() {
	need_counting
	build
	start_target "$TMP/lines" 3
	await_line ready
	touch -d '+1 hour' "$TMP/src/lines.ml"
	"$TOOL" annotate -pid "$TARGET" --for 10ms "$TMP/src/lines.ml" 2>"$TMP/err" >"$TMP/out"
	finds "^ocaml-probes: warning: $TMP/src/lines.ml: is newer than $TMP/lines: its lines may have changed$" "$TMP/err" ||
		fail "$(<"$TMP/err")"
	sed -i 10q "$TMP/src/lines.ml"
	"$TOOL" annotate -pid "$TARGET" --for 10ms "$TMP/src/lines.ml" 2>"$TMP/err" >"$TMP/out"
	finds "^ocaml-probes: warning: $TMP/src/lines.ml: has 10 lines, but the program has code of its line [0-9]*$" "$TMP/err" ||
		fail "$(<"$TMP/err")"
	eq "$(wc -l <"$TMP/out")" 10 "lines"
}

# The budget ends it, and what was counted is printed.
test_budget() {
	local status=0
	need_counting
	build
	start_target "$TMP/lines" 100000000
	await_line ready
	tell go
	"$TOOL" annotate -pid "$TARGET" --budget 1% --json "$TMP/src/lines.ml" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 7 "status"
	finds 'measuring stopped: CPU overhead .* exceeds the budget of 1%' "$TMP/err" || fail "$(<"$TMP/err")"
	finds '"hits":[1-9]' "$TMP/out" || fail "$(<"$TMP/out")"
	kill "$TARGET"
}

# Lines of a plugin that the program has loaded.
test_plugin() {
	local folders=() engine first=18
	need_counting
	[[ ! -d $(ocamlopt -where)/dynlink ]] || folders=(-I +dynlink)
	echo 'let f : (int -> int) ref = ref succ' >"$TMP/api.ml"
	cat >"$TMP/plug.ml" <<-'EOF'
		let[@inline never] say s = print_string s let work n =
		  if n > 2 then
		    say "more "
		  else
		    say "less ";
		  n + 1
		let () = Api.f := work
	EOF
	cat >"$TMP/host.ml" <<-'EOF'
		let () = Dynlink.loadfile Sys.argv.(1); print_endline "ready"; ignore (read_line ());
		  for i = 1 to 9 do ignore (!Api.f i) done
	EOF
	(cd "$TMP" && ocamlopt -g -c api.ml && ocamlopt -g -shared plug.ml -o plug.cmxs &&
		ocamlopt -g -linkall "${folders[@]}" dynlink.cmxa api.cmx host.ml -o host)
	start_target "$TMP/host" "$TMP/plug.cmxs"
	await_line ready
	check_error 2 "'line:plug.ml:4': no code begins at this line of .*/plug.ml" attach -pid "$TARGET" --count=line:plug.ml:4
	for engine in bpf inside; do
		start_annotating "$TARGET" --engine "$engine" "$TMP/plug.ml"
		tell go
		finish_target
		wait "$ANNOTATING"
		eq "$(sed 's/ *\([0-9?]*\) .*/\1/' "$TMP/annotated" | xargs)" "$first 7 2 9 0" "$engine: $(<"$TMP/annotated")"
		first='?' # two instructions, one of them the first of the function
		[[ $engine = inside ]] || {
			start_target "$TMP/host" "$TMP/plug.cmxs"
			await_line ready
		}
	done
}

# ---- line: as an item -------------------------------------------------------------------------

# Lines are counted, timed from one to another, printed, and kept, with the same numbers.
test_items() {
	local first last books name
	need_counting
	build
	first=$(grep -n 'here __LINE__; sum := !sum + i$' "$TMP/src/lines.ml" | cut -d: -f1)
	last=$(grep -n '(here __LINE__; sum := !sum - 1)' "$TMP/src/lines.ml" | cut -d: -f1)
	books=$("$TMP/lines" 9 <<<go | sed -n "s/^mark lines.ml:$first //p")
	((books > 0)) || fail "no books of line $first"
	"$TOOL" trace --wait -prog "$TMP/lines" --count="line:src/lines.ml:$first,line:lines.ml:$last,fn:Lines.fib" \
		--json -- 9 <<<go | sed 's,\\/,/,g' >"$TMP/out"
	for name in "line:src/lines.ml:$first" "line:lines.ml:$last" fn:Lines.fib; do
		finds "\"name\":\"$name\",\"hits\":[1-9]" "$TMP/out" || fail "$name: $(<"$TMP/out")"
	done
	finds "\"name\":\"line:src/lines.ml:$first\",\"hits\":$books," "$TMP/out" || fail "$books: $(<"$TMP/out")"
	"$TOOL" trace --wait -prog "$TMP/lines" --time "line:lines.ml:$first,line:lines.ml:$last" --json -- 9 <<<go >"$TMP/out"
	finds "\"starts\":$books," "$TMP/out" || fail "$(<"$TMP/out")"
	"$TOOL" trace -q --wait -prog "$TMP/lines" --print "line:lines.ml:$first" --limit 0 -- 9 <<<go >"$TMP/out"
	eq "$(grep -c "[0-9] lines line:lines.ml:$first$" "$TMP/out")" "$books" "printed"
}

check_kept() { # ENGINE
	start_target "$TMP/lines" 5 wait
	await_line ready
	"$TOOL" attach -q -pid "$TARGET" --engine "$1" --count=line:lines.ml --keep "lines_$$" || fail "not kept"
	trap '"$TOOL" detach "lines_$$" >/dev/null 2>&1 || :' EXIT
	tell go
	await_line end
	"$TOOL" read "lines_$$" --json >"$TMP/out"
	"$TOOL" detach "lines_$$" >/dev/null
	tell end
	finish_target
	# Lines that begin with what is counted, not with a pattern.
	grep -n '^ *(*here __LINE__' "$TMP/src/lines.ml" | grep -v 'at most' | sed 's/:.*//; s/.*/^mark lines.ml:& /' >"$TMP/own"
	grep -f "$TMP/own" "$(output_of)" |
		sed -n 's/^mark \(lines.ml:[0-9]*\) \(.*\)/"name":"line:\1","hits":\2,/p' >"$TMP/books"
	(($(wc -l <"$TMP/books") > 30)) || fail "$(<"$TMP/books")"
	while read -r line; do
		finds -F "$line" "$TMP/out" || fail "$line: $(<"$TMP/out")"
	done <"$TMP/books"
}

test_kept() {
	need_counting
	build
	check_kept bpf
	check_kept inside
}

# A user counts the lines of an own process, without a privilege.
test_a_user() {
	local engine as_user=(setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps=-all)
	need_root
	need_command python3 setpriv
	build
	chmod 711 "$(dirname "$TMP")" "$TMP"
	chmod -R a+rX "$TMP/src" "$TMP/lines"
	cp "$TOOL" "$TMP/ocaml-probes"
	for engine in inside auto; do
		start_target "${as_user[@]}" "$TMP/lines" 20
		await_line ready
		: >"$TMP/annotating.err"
		background "${as_user[@]}" "$TMP/ocaml-probes" annotate -pid "$TARGET" --engine "$engine" --json "$TMP/src/lines.ml" \
			>"$TMP/annotated" 2>"$TMP/annotating.err"
		ANNOTATING=$!
		wait_for 'has_text "$TMP/annotating.err" "counting [0-9]* line" || ! kill -0 "$ANNOTATING"'
		tell go
		finish_target
		wait "$ANNOTATING" || fail "status $?: $(<"$TMP/annotating.err")"
		compare_with_books lines "$TMP/src/lines.ml" "$TMP/annotated" "$(output_of)"
	done
}

# ---- wrong input ------------------------------------------------------------------------------

test_wrong_lines() {
	local expected message status words
	need_counting
	build
	cp "$TMP/lines" "$TMP/stripped"
	strip --strip-debug "$TMP/stripped"
	start_target "$TMP/lines" 3
	await_line ready
	while IFS='|' read -r words expected message; do
		status=0
		# shellcheck disable=SC2086 # several words
		"$TOOL" $words >"$TMP/out" 2>&1 || status=$?
		eq "$status $(<"$TMP/out")" "$expected ocaml-probes: ${message//;hint/$'\nhint'}" "$words"
	done <<-EOT
		attach -pid $TARGET --count=line:lines.ml:5|2|'line:lines.ml:5': no code begins at this line of $TMP/src/lines.ml;hint: the nearest lines that have code are 4 and 6
		attach -pid $TARGET --count=line:lines.ml:99999999999|2|'line:lines.ml:99999999999': no code begins at this line of $TMP/src/lines.ml;hint: the nearest line that has code is 205
		attach -pid $TARGET --count=line:line.ml:5|2|'line:line.ml:5': $TMP/lines has no code of a source file of this name;hint: did you mean 'line:lines.ml:5'?
		attach -pid $TARGET --count=line:lib/lines.ml:5|2|'line:lib/lines.ml:5': $TMP/lines has no code of a source file of this name;hint: did you mean 'line:lines.ml:5'?
		attach -pid $TARGET --time line:lines.ml:9|2|'line:lines.ml:9': a line has no duration; name a pair of lines
		attach -pid $TARGET --time line:lines.ml,line:lines.ml:9|2|'line:lines.ml': not one line, such as line:lines.ml:4
		attach -pid $TARGET --count=line:lines.ml:9,line:lines.ml:9|2|'line:lines.ml:9': named twice
		attach -pid $TARGET --count=line:lines.ml:9 --filter arg0>1|2|probe 'line:lines.ml:9': no arg0 for the filter: it has 0 arguments in $TMP/lines
		annotate -pid $TARGET|2|annotate: a source file is required;hint: ocaml-probes help annotate
		annotate lines.ml|2|annotate: -pid is required;hint: ocaml-probes help annotate
		annotate -pid $TARGET a.ml b.ml|2|annotate: 'b.ml': one source file is enough;hint: ocaml-probes help annotate
		annotate -pid $TARGET line.ml|2|'line.ml': $TMP/lines has no code of a source file of this name;hint: did you mean 'lines.ml'?
		annotate -pid $TARGET $TMP/no/lines.ml|2|$TMP/no/lines.ml: No such file or directory
	EOT
	status=0
	"$TOOL" trace --wait -prog "$TMP/stripped" --count=line:lines.ml:9 -- 1 <<<go >"$TMP/out" 2>&1 || status=$?
	eq "$status $(<"$TMP/out")" "1 ocaml-probes: 'line:lines.ml:9': $TMP/stripped was compiled with -g, then stripped: it has no line table
hint: run the unstripped program; functions (fn:NAME) need no line table" \
		"without debug information"
}

# Two sources of one name are not added up.
test_ambiguous() {
	local status=0
	need_counting
	mkdir -p "$TMP/one" "$TMP/two"
	echo 'let[@inline never] f n = print_int n' >"$TMP/one/same.ml"
	sed 's/f n/g n/' "$TMP/one/same.ml" >"$TMP/two/same.ml"
	echo 'let () = print_endline "ready"; ignore (read_line ()); One.Same.f 1; Two.Same.g 2' >"$TMP/main.ml"
	(
		cd "$TMP/one" && ocamlopt -g -c -for-pack One same.ml && ocamlopt -g -pack same.cmx -o ../one.cmx
		cd "$TMP/two" && ocamlopt -g -c -for-pack Two same.ml && ocamlopt -g -pack same.cmx -o ../two.cmx
		cd "$TMP" && ocamlopt -g one.cmx two.cmx main.ml -o main
	)
	"$TOOL" trace -q --wait -prog "$TMP/main" --count=line:same.ml:1 -- <<<go >"$TMP/out" 2>&1 || status=$?
	eq "$status $(tail -n 1 "$TMP/out")" \
		"2 ocaml-probes: 'line:same.ml': several files have this name: $TMP/one/same.ml, $TMP/two/same.ml"
	"$TOOL" trace -q --wait -prog "$TMP/main" --count=line:two/same.ml:1 --json -- <<<go | sed 's,\\/,/,g' >"$TMP/out"
	finds '"name":"line:two/same.ml:1","hits":1,' "$TMP/out" || fail "$(<"$TMP/out")"
}

run_tests "$@"
