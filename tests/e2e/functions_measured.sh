#!/usr/bin/env bash
# Functions counted and timed by name, against the programs' own books; and programs whose functions are
# measured do what they do otherwise. With the compiler in PATH:
#
#   CYCLES   how often to attach and detach (default: 30)
#   TIMED    how many times sixty functions of the compiler to time (default: 1)
#   SUITE    the programs of the language suite to run; all: each of them
#
# needs: fixtures ocaml
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

CYCLES=${CYCLES:-30}
TIMED=${TIMED:-1}
SUITE=${SUITE:-deep_recursion gc_stress raising_handlers signals tail_calls threads try_with}
VERSION=$(ocamlopt -version)
# A recursion without end hits a probe until the stack is full: 2 MiB suffice. OCaml 5 counts words.
STACK_KIB=2048
export OCAMLRUNPARAM=l=256k

# ---- helpers ----------------------------------------------------------------------------------

# Loops that begin at the first instruction of a function: a uprobe there would count their turns.
uncountable() {
	case $VERSION in
	5.*) echo leaf_while looping self_tail ;;
	esac
}

# ---- exactness --------------------------------------------------------------------------------

# All functions of a run of `calls` are counted, built with these flags.
check_counts() { # THREADS FLAG...
	local threads=$1
	shift
	need_counting
	need_command python3
	"$CALLS/build" "$TMP/built" "$@" 2>"$TMP/warnings"
	"$TOOL" trace --wait -prog "$TMP/built/calls" --count='fn:.*,c:calls_by_name' --json -- 20 "$threads" <<<go >"$TMP/out"
	own_lines "$TMP/out" >"$TMP/books"
	# shellcheck disable=SC2046 # words
	compare_with_books calls "$TMP/out" "$TMP/books" $(uncountable)
	(($(<"$TMP/compared") >= 50)) || fail "only $(<"$TMP/compared") functions"
}

# Flambda makes wrappers and copies of functions.
test_counts() {
	check_counts 4
	! ocamlopt -config | finds -x 'flambda: true' || check_counts 1 -O3 -unbox-closures -inline 0
}

test_counts_not_position_independent() {
	check_counts 1 -ccopt -no-pie
}

# The symbols for the dynamic linker are left.
test_counts_stripped() {
	check_counts 1 -ccopt -s
}

test_counts_static() {
	check_counts 1 -ccopt -static
}

test_counts_inline_0() {
	check_counts 1 -inline 0
}

# Functions that are named in one list, some with their stamps, and C functions of a library.
test_counts_by_name() {
	local names stamps
	need_counting
	need_command python3
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	stamps=$("$TOOL" functions -prog "$TMP/built/calls" 'Calls.same' --json |
		grep -o 'Calls.same/[0-9]*\|"stamp":[0-9]*' | grep -o '[0-9]*$' | sort -nu)
	eq "$(wc -w <<<"$stamps")" 2 "stamps: $stamps"
	names=$("$TMP/built/calls" 1 0 | sed -n "s/^call \\([a-z_(+!?)']*\\) .*/fn:Calls.\\1/p" |
		grep -v 'anonymous\|leaf_while\|looping\|self_tail' | paste -sd,)
	"$TOOL" trace --wait -prog "$TMP/built/calls" --count="$names,fn:Calls.same/${stamps%$'\n'*},fn:Calls.same/${stamps#*$'\n'}" \
		--json -- 20 1 <<<go >"$TMP/out"
	python3 - "$TMP/out" $stamps <<-'EOF'
		import json, sys
		lines = open(sys.argv[1]).read().splitlines()
		books = {l.split()[1]: int(l.split()[2]) for l in lines if l.startswith("call ")}
		hits = {p["name"].removeprefix("fn:Calls."): p["hits"] for p in json.loads(lines[-1])["probes"]}
		for i, stamp in enumerate(sys.argv[2:], 1):
		    books["same/" + stamp] = books[f"same.{i}"]
		wrong = {n: (h, books[n]) for n, h in hits.items() if h != books[n]}
		assert not wrong, wrong
		assert len(hits) >= 45, hits
	EOF
}

# Exact while threads switch within calls, stacks grow, exceptions and tail calls end calls; with OCaml 5
# while fibres take turns and go on in other domains.
test_times() {
	local MEASURED=()
	need_counting
	need_command python3
	build_timed
	"$TOOL" trace --wait -prog "$TMP/built/timed" "${MEASURED[@]}" --json -- 40 3000 <<<go >"$TMP/out"
	own_lines "$TMP/out" >"$TMP/books"
	compare_with_books times "$TMP/out" "$TMP/books"
	eq "$(<"$TMP/compared")" $((${#MEASURED[@]} / 2)) "functions"
}

# A pattern times each function that matches; those that cannot be timed are left out, with one line.
test_times_of_a_pattern() {
	local MEASURED=() patterns=(--time 'fn:Timed\..*')
	need_counting
	need_command python3
	build_timed
	[[ $VERSION != 5.* ]] || patterns+=(--time 'fn:Versioned\.[pa][a-z]*s$')
	"$TOOL" trace --wait -prog "$TMP/built/timed" "${patterns[@]}" --json -- 40 3000 <<<go \
		>"$TMP/out" 2>"$TMP/err"
	own_lines "$TMP/out" >"$TMP/books"
	compare_with_books times_of_a_pattern "$TMP/out" "$TMP/books" $((${#MEASURED[@]} / 2))
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	"$TOOL" trace --wait -prog "$TMP/built/calls" --time 'fn:Calls\..*' --json -- 20 1 <<<go >"$TMP/out" 2>"$TMP/err"
	"$TOOL" functions -prog "$TMP/built/calls" '^Calls\.' --json >"$TMP/functions"
	holds python3 - "$TMP/out" "$TMP/functions" "$TMP/err" <<-'EOF'
		import json, re, sys
		lines = open(sys.argv[1]).read().splitlines()
		books = {"fn:Calls." + l.split()[1]: int(l.split()[2]) for l in lines if l.startswith("call ")}
		timed = {p["start"]: p for p in json.loads(lines[-1])["pairs"]}
		known = {"fn:" + f["name"] for f in json.load(open(sys.argv[2]))["functions"]}
		wrong = {n: (p["starts"], books[n]) for n, p in timed.items() if n in books and p["starts"] != books[n]}
		assert not wrong, wrong
		assert len(timed.keys() & books.keys()) > 40, timed.keys()
		said = re.findall(r"calls: (\d+) functions that match cannot be measured; the first one is (\S+): cannot be \w+: ",
		    open(sys.argv[3]).read())
		left_out = known - timed.keys()
		assert len(said) == 1 and int(said[0][0]) >= len(left_out) > 0 and said[0][1] in left_out, (said, left_out)
	EOF
}

# Hundreds of functions of a program, each with its row; more than the limit are refused.
test_times_of_many() {
	local compiler
	need_counting
	compiler=$(own_copy "$(realpath "$(type -P ocamlopt.opt)")")
	cd "$TMP"
	cp "$CALLS/books.ml" .
	"$TOOL" trace -q --wait -prog "$compiler" --time 'fn:Cmmgen\..*' --count='fn:Cmmgen\..*' --json -- -c books.ml >counts
	holds python3 - counts <<-'EOF'
		import json, sys
		total = json.loads(open(sys.argv[1]).read().splitlines()[-1])
		hits = {p["name"]: p["hits"] for p in total["probes"]}
		pairs = {p["start"]: p for p in total["pairs"]}
		assert len(pairs) > 64 and hits.keys() == pairs.keys(), (len(pairs), len(hits))
		wrong = [(n, hits[n], p) for n, p in pairs.items() if hits[n] != p["starts"] or p["starts"] != p["count"] + p["orphan_starts"] + p["open"]]
		assert not wrong, wrong
		assert sum(p["count"] for p in pairs.values()) > 50
	EOF
}

# ---- costs ------------------------------------------------------------------------------------

# Before places that are single-stepped are measured, it is said how many there are: as many as `functions`
# calls expensive, and all exits of a function that returns.
test_estimate() {
	local names='fib\|constant\|leaf\|plain' dear
	need_counting
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	estimate() { # OPTION...
		"$TOOL" trace --wait -prog "$TMP/built/calls" "$@" -- 1 1 <<<go >"$TMP/out" 2>"$TMP/err"
		sed -n 's/^ocaml-probes: \(.*single-stepped.*\)$/\1/p' "$TMP/err"
	}
	dear=$("$TOOL" functions -prog "$TMP/built/calls" "Calls\.\($names\)\$" | grep -c ' expensive ')
	((dear >= 1 && dear < 4)) || fail "$dear of 4 functions are expensive"
	estimate --count="fn:Calls.\($names\)\$" >"$TMP/said"
	grep -qE "^$dear of 4 places are single-stepped: [0-9.]+ us per hit, others [0-9.]+ us$" "$TMP/said" ||
		fail "$(<"$TMP/err")"
	# It comes first, and both costs are measured: the single-stepped one is several times the other.
	finds 'single-stepped' <<<"$(head -n 1 "$TMP/err")" || fail "$(<"$TMP/err")"
	awk '{ exit !($(NF - 5) > 3 * $(NF - 1) && $(NF - 1) > 0) }' "$TMP/said" || fail "$(<"$TMP/said")"
	eq "$(estimate --count=fn:Calls.fib)" "" "a function that is cheap"
	eq "$(estimate -q --count=fn:Calls.constant)" "" "with -q"
	estimate --count=fn:Calls.constant >"$TMP/said"
	grep -q '^the place is single-stepped: ' "$TMP/said" || fail "$(<"$TMP/err")"
}

# ---- nothing else changes ---------------------------------------------------------------------

# Measured from the middle of its calls to the middle of others, again and again, also by a tool that is
# killed: the program does what it does otherwise.
test_attached_and_detached() {
	local i counted=0 timed=0
	need_counting
	need_command python3
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	start_target "$TMP/built/calls" 0 4
	await_line ready
	tell go
	for ((i = 0; i < CYCLES; i += 3)); do
		"$TOOL" attach --budget none -q -pid "$TARGET" --count='fn:.*' --for 30ms --json >"$TMP/counts"
		! finds '"hits":[1-9]' "$TMP/counts" || counted=$((counted + 1))
		"$TOOL" attach --budget none -q -pid "$TARGET" --time fn:Calls.fib --time fn:Calls.frames --time fn:Calls.even \
			--for 30ms --json >"$TMP/counts"
		! finds '"starts":[1-9]' "$TMP/counts" || timed=$((timed + 1))
		background "$TOOL" attach --budget none -pid "$TARGET" --count='fn:.*' >"$TMP/counts" 2>"$TMP/counting.err"
		COUNTING=$!
		wait_for 'has_text "$TMP/counting.err" "counting [0-9]* probes"'
		kill -KILL "$COUNTING"
		wait "$COUNTING" 2>/dev/null || :
	done
	tell stop
	quit_target
	eq "$TARGET_STATUS" 0 "status"
	check_rounds "$TMP/built/calls"
	# On a busy machine the program may have no processor for a while.
	((counted >= CYCLES / 6 && timed >= CYCLES / 6)) || fail "of $CYCLES cycles, $counted counted and $timed timed"
}

# At most 60 functions of PROGRAM, its own.
own_functions() { # PROGRAM
	local module=${1##*/}
	"$TOOL" functions -prog "$1" "${module^}\\." --json |
		python3 -c 'import json, sys
print(*sorted({f["name"] for f in json.load(sys.stdin)["functions"]})[:60], sep="\n")'
}

# Run PROGRAM with these functions timed, but for those that the tool refuses to time.
# Its output is in $TMP/PROGRAM.out. Returns its status.
run_timed() { # PROGRAM NAMES [-- ARG...]
	local program=$1 out=$TMP/${1##*/} names=$2 options refused status
	shift 2
	while :; do
		mapfile -t options < <(sed 's/^/--time=fn:/' <<<"$names")
		status=0
		"$TOOL" trace -q --wait -prog "$program" "${options[@]}" --json "$@" >"$out.out" 2>"$out.err" || status=$?
		refused=$(sed -n "s/^ocaml-probes: 'fn:\(.*\)': cannot be [a-z]*: .*/\1/p" "$out.err" | head -n 1)
		[[ -n $refused ]] || return "$status"
		names=$(grep -vxF -- "$refused" <<<"$names")
	done
}

# A program of the language suite does the same with all functions counted, with all of its lines, and with
# its own functions timed.
check_program() {
	local program=$TMP/suite/$PROGRAM status=0 expected=0
	ulimit -Ss $STACK_KIB
	"$program" >"$TMP/$PROGRAM.expected" 2>&1 || expected=$?
	"$TOOL" trace -q --wait -prog "$program" --count='fn:.*' --json >"$TMP/$PROGRAM.out" 2>"$TMP/$PROGRAM.err" || status=$?
	eq "$(cat "$TMP/$PROGRAM.err"; own_lines "$TMP/$PROGRAM.out")" "$(<"$TMP/$PROGRAM.expected")" "$PROGRAM, counted"
	eq "$status" "$expected" "status of $PROGRAM, counted"
	finds '"hits":[1-9]' "$TMP/$PROGRAM.out"
	status=0
	"$TOOL" trace -q --wait -prog "$program" --count="line:$PROGRAM.ml" --json >"$TMP/$PROGRAM.out" 2>"$TMP/$PROGRAM.err" ||
		status=$?
	eq "$(cat "$TMP/$PROGRAM.err"; own_lines "$TMP/$PROGRAM.out")" "$(<"$TMP/$PROGRAM.expected")" "$PROGRAM, lines"
	eq "$status" "$expected" "status of $PROGRAM, lines"
	finds '"hits":[1-9]' "$TMP/$PROGRAM.out"
	status=0
	run_timed "$program" "$(own_functions "$program")" || status=$?
	eq "$(cat "$TMP/$PROGRAM.err"; own_lines "$TMP/$PROGRAM.out")" "$(<"$TMP/$PROGRAM.expected")" "$PROGRAM, timed"
	eq "$status" "$expected" "status of $PROGRAM, timed"
	finds '"starts":[1-9]' "$TMP/$PROGRAM.out"
}

test_suite() {
	need_counting
	[[ $SUITE = all ]] || export PROGRAMS=$SUITE
	BARE=no DORMANT=yes "$ROOT/tests/ocaml/suite/build" "$O" "$TMP/suite" >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
	xargs -P"$(nproc)" -I{} env PROGRAM={} bash "$0" --one check_program <"$TMP/suite/programs"
}

# The compiler compiles a file while all of its functions are counted, and while sixty at a time are timed.
test_compiler() {
	local compiler i=0
	need_counting
	# A copy: others compile meanwhile.
	compiler=$(own_copy "$(realpath "$(type -P ocamlopt.opt)")")
	mkdir "$TMP/plain" "$TMP/measured"
	cp "$CALLS/books.ml" "$TMP/plain"
	cp "$CALLS/books.ml" "$TMP/measured"
	cd "$TMP/plain"
	"$compiler" -c books.ml
	cd "$TMP/measured"
	"$TOOL" trace --wait -prog "$compiler" --count='fn:.*' --json -- -c books.ml >"$TMP/counts"
	finds '"name":"fn:Emit.fundecl","hits":[1-9]' "$TMP/counts"
	diff -r "$TMP/plain" "$TMP/measured"
	# Those that are called come first.
	python3 - "$TMP/counts" >"$TMP/names" <<-'EOF'
		import json, sys
		probes = json.loads(open(sys.argv[1]).read().splitlines()[-1])["probes"]
		for probe in sorted(probes, key=lambda probe: (-min(probe["hits"], 1), probe["name"])):
		    print(probe["name"].removeprefix("fn:"))
	EOF
	for ((i = 1; i <= 60 * TIMED; i += 60)); do
		sed -n "$i,$((i + 59))p" "$TMP/names" >"$TMP/sixty"
		[[ -s $TMP/sixty ]] || break
		rm -f books.cm* books.o
		run_timed "$compiler" "$(<"$TMP/sixty")" -- -c books.ml || fail "$(<"$TMP/ocamlopt.opt.err")"
		((i > 1)) || finds '"starts":[1-9]' "$TMP/ocamlopt.opt.out"
		diff -r "$TMP/plain" "$TMP/measured"
	done
}

# A project that dune builds, and that ocamlfind links.
make_project() {
	mkdir project project/lib
	cat >project/main.ml <<-'ML'
		let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
		let () = Printf.printf "%d %s\n" (fib 20) (Project.Words.of_int 3)
	ML
	echo 'let of_int n = String.concat " " (List.init n string_of_int)' >project/lib/words.ml
	echo '(lang dune 2.9)' >project/dune-project
	echo '(library (name project))' >project/lib/dune
	echo '(executable (name main) (libraries project))' >project/dune
}

# What a build has made, but for its journals.
files_of() { # FOLDER
	(cd "$1" && find . -type f ! -name 'log' ! -name '.db' ! -name '.digest-db' ! -name '.filesystem-clock' \
		-exec sha256sum {} + | sort -k2)
}

# dune and ocamlfind make the same files while all of their functions are counted.
test_builds() {
	local dune find
	need_counting
	need_command dune ocamlfind
	dune=$(own_copy "$(realpath "$(type -P dune)")")
	find=$(own_copy "$(realpath "$(type -P ocamlfind)")")
	export DUNE_CACHE=disabled HOME=$TMP
	cd "$TMP"
	make_project
	"$dune" build --root project ./main.exe
	mv project plain && make_project
	"$TOOL" trace --wait -prog "$dune" --count='fn:.*' --json -- build --root project ./main.exe >counts 2>err ||
		fail "$(<err)"
	finds '"hits":[1-9]' counts
	eq "$(files_of project)" "$(files_of plain)" "what dune made"
	eq "$(project/_build/default/main.exe)" "6765 0 1 2" "its program"

	mv project/lib/words.ml words.ml
	"$find" ocamlopt -linkpkg words.ml -o words
	mkdir plain_words && mv words words.cm* words.o plain_words
	"$TOOL" trace --wait -prog "$find" --count='fn:.*' --json -- \
		ocamlopt -linkpkg words.ml -o words >counts 2>err || fail "$(<err)"
	finds '"hits":[1-9]' counts
	mkdir counted_words && mv words words.cm* words.o counted_words
	eq "$(files_of counted_words)" "$(files_of plain_words)" "what ocamlfind made"
}

# ---- what cannot be measured ------------------------------------------------------------------

# What the program says when it calls its functions.
check_calls() { # PID RESULTS
	forget_output "$1"
	tell call "$1"
	await_line '.* other .*' 20 "$1"
	eq "$(cat "$(output_of "$1")")" "$2" "results"
}

changes_code() { # [PID]
	tell change "$@"
	await_line changed 20 "$@"
}

# A function that the process has changed in memory, where the kernel would run the instructions of the file:
# it is refused or left out, at the start and when another process comes, and does what it does otherwise.
test_changed_in_memory() {
	local first later how changed='victim 42 other 120'
	need_counting
	PROGRAMS=patched "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	start_target "$TMP/built/patched" && first=$TARGET
	await_line ready
	check_calls "$first" 'victim 41 other 120'
	changes_code "$first"
	for how in --count --print --time; do
		check_error 1 "'fn:Patched.victim': cannot be measured: pid $first has changed its code in memory$" \
			attach -pid "$first" "$how=fn:Patched.victim" --for 1s
	done
	check_calls "$first" "$changed"
	background "$TOOL" attach --budget none -pid "$first" --count='fn:Patched\..*' --json >"$TMP/counts" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'has_text "$TMP/err" "counting [0-9]* probes"'
	matches "$(<"$TMP/err")" "built/patched: pid $first has changed the code of 1 function in memory: left out, the first one is fn:Patched.victim"
	check_calls "$first" "$changed"
	kill -INT "$COUNTING"
	wait "$COUNTING"
	matches "$(<"$TMP/counts")" '"name":"fn:Patched.other","hits":1[,}]'
	tell quit "$first"

	# A program whose code nobody has changed, and one of its processes that does.
	start_target "$TMP/built/patched" && first=$TARGET
	await_line ready
	background "$TOOL" attach --budget none --exe "$TMP/built/patched" --count='fn:Patched\..*' --json >"$TMP/counts" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'has_text "$TMP/err" "counting [0-9]* probes"'
	check_calls "$first" 'victim 41 other 120'
	kill -STOP "$COUNTING"
	start_target "$TMP/built/patched" && later=$TARGET
	changes_code "$later"
	kill -CONT "$COUNTING"
	wait_for 'grep -q "pid $later has changed the code of 1 function in memory" "$TMP/err"'
	check_calls "$later" "$changed"
	check_calls "$first" 'victim 41 other 120'
	kill -INT "$COUNTING"
	wait "$COUNTING"
	matches "$(<"$TMP/counts")" '"name":"fn:Patched.other","hits":3[,}]'
	matches "$(<"$TMP/counts")" '"name":"fn:Patched.victim","hits":1[,}]'
}

# What tracers and handlers that are switched on change is no difference.
test_handlers_on_and_others_count() {
	need_counting
	start_target "$(own_copy "$O/tests/ocaml/loop")"
	await_line ready
	"$TOOL" attach -pid "$TARGET" -enable-all
	start_counting "$TARGET"
	measure_until '"fn:Loop\.[a-z_]*","hits":[1-9]' --count='fn:.*'
	! grep 'has changed' "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
}

test_bad_input() {
	local program=$TMP/built/calls
	need_counting
	"$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	refused() { # STATUS TEXT ARG...
		check_error "$1" "$2" trace -q --wait -prog "$program" "${@:3}" -- 1 0
	}
	refused 2 "'fn:Calls.plian': no such function in .*/calls" --count=fn:Calls.plian
	grep -q "did you mean 'fn:Calls.plain'" "$TMP/err" || fail "$(<"$TMP/err")"
	refused 2 "'fn:Calls.plian': no such function in .*/calls" --time fn:Calls.plian
	refused 2 "'fn:Calls.same/1': no such function in" --count=fn:Calls.same/1
	refused 2 "'c:calls_by_nam': no such function in" --count=c:calls_by_nam
	grep -q "did you mean 'c:calls_by_name'" "$TMP/err" || fail "$(<"$TMP/err")"
	refused 2 "'c:libc.so.6:mallox': no such function in .*/libc.so.6$" --count=c:libc.so.6:mallox
	grep -q "did you mean 'c:libc.so.6:malloc'" "$TMP/err" || fail "$(<"$TMP/err")"
	refused 2 "'c:libcc.so:malloc': pid [0-9]+ has not loaded a file called libcc.so$" --count=c:libcc.so:malloc
	refused 2 "'c:libcc.so:malloc': pid [0-9]+ has not loaded a file called libcc.so$" --time=c:libcc.so:malloc
	refused 2 "'Nothing.*': matches no function of .*/calls$" --count='fn:Nothing\..*'
	refused 2 "'Nothing.*': matches no function of .*/calls$" --time='fn:Nothing\..*'
	refused 2 "'fn:Calls.*': timed twice" --time 'fn:Calls\..*' --time 'fn:Calls\..*'
	refused 2 "regular expression 'Calls\.\[': " --time='fn:Calls.['
	refused 2 "calls: the patterns match [0-9]{4} functions: at most 512 pairs and functions can be timed$" --time='fn:.*'
	finds -x 'hint: `attach --engine inside` times them' "$TMP/err"
	refused 2 "'fn:Calls.plain': matches a pattern, and is also part of a pair of functions" \
		--time fn:Calls.plain,fn:Calls.fib --time 'fn:Calls\.p.*'
	refused 2 "'fn:Calls.plain': named twice" --count=fn:Calls.plain,fn:Calls.plain
	refused 2 "'fn:Calls.plain': timed twice" --time fn:Calls.plain --time fn:Calls.plain
	refused 2 "regular expression 'Calls\.\[': " --count='fn:Calls.['
	program=/bin/true
	refused 1 "/bin/true.*OCaml" --count=fn:Calls.plain
	refused 1 "/bin/true.*OCaml" --count='fn:.*'
	refused 1 "/bin/true.*OCaml" --time fn:Calls.plain
}

TEST_TIMEOUT=$((600 + 3 * CYCLES + 10 * TIMED))
run_tests "$@"
