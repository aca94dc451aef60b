#!/usr/bin/env bash
# `functions`: the OCaml functions of programs without probes. What the programs have stands in comments
# of their sources: (*= NAME ARITY *) on the line of each function.
#
# needs: fixtures ocaml
# smoke: test_table
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# A program of dune's, one of its modules, and a module of a library that dune has wrapped, as their
# files are called.
write_sources() {
	cat >"$TMP/mylib__Util.ml" <<-'ML'
		let half x = String.length (string_of_int x) / 2 (*= Mylib.Util.half 1 *)
	ML
	cat >"$TMP/dune__exe__Service.ml" <<-'ML'
		module Inner = struct
		  let twice f x = f (f x) (*= Service.Inner.twice 2 *)
		end
		module Counter (X : sig val step : int end) = struct (*= Service.Counter 1 *)
		  let total = ref 0
		  let next () = (*= Service.next null *)
		    total := !total + X.step; !total
		end
		module One = Counter (struct let step = 1 end)
		let ( @@@ ) a b = (a * 10) + b (*= Service.(@@@) 2 *)
		let ( let*! ) x f = f (x + 1) (*= Service.(let*!) 2 *)
		let swap (a, b) = (b, a) (*= Service.swap -2 *)
		let three (a, b, c) = a + b + c (*= Service.three -3 *)
		let rec even n = n = 0 || odd (n - 1) (*= Service.even 1 *)
		and odd n = n <> 0 && even (n - 1) (*= Service.odd 1 *)
		let add a b = a + b (*= Service.add 2 *)
		let seven a b c d e f g = a + b + c + d + e + f + g (*= Service.seven 7 *)
		let find x = x + 1 (*= Service.find 1 *)
		let find x = find x * 2 (*= Service.find 1 *)
		let foo__Bar x = x - 1 (*= Service.foo__Bar 1 *)
		let prime' x = x + 3 (*= Service.prime' 1 *)
		let _hidden x = x (*= Service._hidden 1 *)
		let entry x = x + 2 (*= Service.entry 1 *)
		let closures n = (*= Service.closures 1 *)
		  let add_n x = x + n in (*= Service.add_n null *)
		  [ add_n 1; add_n 2 ]
		let table = [ (fun x -> x) ] (*= Service.fun 1 *)
		let raising = function [] -> raise Not_found | x :: _ -> x (*= Service.raising 1 *)
		module Late = struct
		  let raising x = [ Array.length x ] (*= Service.Late.raising 1 *)
		  module Deep (X : sig val step : int end) = struct (*= Service.Late.Deep 1 *)
		    let ( %% ) a b = [ a; b + X.step ] (*= Service.Late.Deep.(%%) null *)
		    let walk n = (*= Service.Late.Deep.walk null *)
		      let rec go x = if x = 0 then [] else x :: go (x - X.step) in (*= Service.Late.Deep.walk.go null *)
		      go n
		  end
		end
	ML
	cat >"$TMP/dune__exe__Main.ml" <<-'ML'
		module Util = Mylib__Util
		let rec wait () = (*= Main.wait 1 *)
		  match input_line stdin with _ -> wait () | exception End_of_file -> ()
		let () =
		  Array.iter Dynlink.loadfile (Array.sub Sys.argv 1 (Array.length Sys.argv - 1));
		  print_endline "ready";
		  if Util.half 4 = 0 then wait ()
	ML
	cat >"$TMP/plugin.ml" <<-'ML'
		let plugged (x, y) = x + y (*= Plugin.plugged -2 *)
		let () = assert (String.length (string_of_int (Sys.opaque_identity plugged (1, 2))) = 1)
	ML
}

# main: with all modules, and what FLAG says.
build() { # OUTPUT [FLAG...]
	local output=$1
	shift
	(cd "$TMP" && ocamlfind ocamlopt -g -inline 0 -linkall -linkpkg -package dynlink "$@" \
		mylib__Util.ml dune__exe__Service.ml dune__exe__Main.ml -o "$output" 2>>"$TMP/warnings") ||
		fail "$(<"$TMP/warnings")"
}

# "NAME ARITY FILE:LINE" of each function, as the sources say.
told() { # FILE...
	(cd "$TMP" && grep -n '(\*=' /dev/null "$@") |
		sed -E 's/^([^:]*):([0-9]*):.*\(\*= ([^ ]*) ([^ ]*) \*\)$/\3 \4 \1:\2/' | sort
}

# The same from JSON, with anonymous functions without their number, and no initialisers.
listed() { # FILE [OPTION...]
	local file=$1
	shift
	"$TOOL" functions -prog "$file" --json "$@" '\(Service\|Main\|Mylib\|Plugin\)\.' | python3 -c '
import json, re, sys
for f in json.load(sys.stdin)["functions"]:
    if f["stamp"] != 0:
        source = f["file"].split("/")[-1] + (":%d" % f["line"] if f["line"] else "")
        print(re.sub(r"\.fun_\d+$", ".fun", f["name"]), json.dumps(f["arity"]), source)
' | sort
}

without_lines() {
	sed 's/:[0-9]*$//'
}

# Flambda makes other functions of these sources: it removes some, copies some, and gives some two entries.
is_closure_compiler() {
	[[ $(ocamlfind ocamlopt -config-var flambda) = false ]]
}

test_names_arity_and_lines() {
	write_sources
	build main
	eq "$(listed "$TMP/main")" "$(told dune__exe__Service.ml dune__exe__Main.ml mylib__Util.ml)" "functions"
}
only_if test_names_arity_and_lines is_closure_compiler

# Each symbol, once.
test_symbols() {
	write_sources
	build main
	eq "$("$TOOL" functions -prog "$TMP/main" --json | python3 -c '
import json, sys
for f in json.load(sys.stdin)["functions"]:
    print(f["address"][2:].zfill(16), f["symbol"])' | sort)" \
		"$(nm "$TMP/main" | sed -nE 's/^(\S+) [Tt] (caml[A-Z].*)/\1 \2/p' |
			grep -vE '(__|\.)code_(begin|end)$' | sort)" "symbols"
}

# However it is linked, functions are the same; without debug information only the file is known.
test_ways_of_linking() {
	local expected
	write_sources
	build main
	expected=$(listed "$TMP/main")
	build fixed -ccopt -no-pie
	eq "$(listed "$TMP/fixed")" "$expected" "not position-independent"
	build static -ccopt -static
	eq "$(listed "$TMP/static")" "$expected" "static"
	strip -o "$TMP/stripped" "$TMP/main"
	eq "$(listed "$TMP/stripped")" "$(without_lines <<<"$expected")" "stripped"
	strip -o "$TMP/fixed-stripped" "$TMP/fixed"
	eq "$(listed "$TMP/fixed-stripped")" "$(without_lines <<<"$expected")" \
		"stripped, and not position-independent"
	strip -o "$TMP/static-stripped" "$TMP/static"
	listed "$TMP/static-stripped" >"$TMP/bare"
	# Without any symbol those have a name that call or allocate: that of the innermost function of which
	# all of it may be a part (all that Late.Deep.walk allocates is its go). One argument is known.
	eq "$(<"$TMP/bare")" "Main.wait 1 dune__exe__Main.ml
Mylib.Util.half 1 mylib__Util.ml
Service.Counter 1 dune__exe__Service.ml
Service.Inner.twice null dune__exe__Service.ml
Service.Late.Deep 1 dune__exe__Service.ml
Service.Late.Deep.(%%) null dune__exe__Service.ml
Service.Late.Deep.walk.go null dune__exe__Service.ml
Service.Late.Deep.walk.go null dune__exe__Service.ml
Service.Late.raising 1 dune__exe__Service.ml
Service.closures 1 dune__exe__Service.ml
Service.find 1 dune__exe__Service.ml
Service.raising 1 dune__exe__Service.ml
Service.swap null dune__exe__Service.ml" "static, and stripped"
	"$TOOL" functions -prog "$TMP/static" --json >"$TMP/json"
	"$TOOL" functions -prog "$TMP/static-stripped" --json >"$TMP/bare-json"
	objdump -d --no-show-raw-insn "$TMP/static" | sed -n 's/^ *\([0-9a-f]*\):.*call \+\([^ ].*\)$/\1 \2/p' >"$TMP/calls"
	python3 - "$TMP/json" "$TMP/bare-json" "$TMP/calls" <<-'PY' || fail "names or bounds differ"
		import bisect, json, re, sys
		full, bare = ({f["address"]: f for f in json.load(open(name))["functions"]} for name in sys.argv[1:3])
		for address, function in bare.items():
		    assert address in full, f"{function['name']}: no OCaml function"
		    assert function["bytes"] == full[address]["bytes"], f"{function['name']}: bytes differ"
		    files = [f["file"].split("/")[-1] for f in (function, full[address]) if f["file"]]
		    # The initialiser of Config in the packs of OCaml 5.1 has a path, but no file, in both.
		    has_file = function["file"] and len(set(files)) == 1 or not files and function["name"] == "Config.entry"
		    assert function["symbol"] is None and has_file, (function, full[address])
		    names = [re.sub(r"fun_\d+$", "fun", f["name"]) for f in (function, full[address])]
		    # Debug information leaves packs out.
		    is_same = ("." + names[1]).endswith("." + names[0])
		    assert is_same or full[address]["stamp"] != 0 and names[0].split(".")[0] in names[1].split("."), names
		# Those are there that call OCaml functions, and none that calls nothing. (Some in the packs of the
		# distribution, and the object in Dynarray, have no debug information.)
		starts, callees = sorted(int(address, 16) for address in full), {}
		for at, callee in (line.split(maxsplit=1) for line in open(sys.argv[3])):
		    start = starts[bisect.bisect(starts, int(at, 16)) - 1]
		    if start <= int(at, 16) < start + full[hex(start)]["bytes"]:
		        callees.setdefault(hex(start), []).append(callee)
		calling = {address for address, names in callees.items() if any(re.search("<caml[A-Z]", name) for name in names)}
		left_out = [full[address]["name"] for address in calling - bare.keys()]
		assert [name for name in left_out if not name.startswith(("Dynlink_compilerlibs.", "Dynarray.fun_"))] == [], left_out
		assert len(calling) > 900 and bare.keys() <= callees.keys(), bare.keys() - callees.keys()
	PY
}
only_if test_ways_of_linking is_closure_compiler

# The table, with the numbers of functions that have one name.
test_table() {
	write_sources
	build main
	"$TOOL" functions -prog "$TMP/main" 'Service\.\(entry\|find\|swap\|next\)' >"$TMP/table"
	eq "$(sed -E 's/\/[1-9][0-9]*/\/N/; s/(cheap|expensive) +(yes|no)/COST/; s/ INSIDE//' "$TMP/table" | awk '{ print $1, $2, $3, $4 }')" \
		"FUNCTION ARITY COST SOURCE
Service.entry/0 - COST dune__exe__Service.ml
Service.entry/N 1 COST $TMP/dune__exe__Service.ml:23
Service.find/N 1 COST $TMP/dune__exe__Service.ml:18
Service.find/N 1 COST $TMP/dune__exe__Service.ml:19
Service.next - COST $TMP/dune__exe__Service.ml:6
Service.swap (2) COST $TMP/dune__exe__Service.ml:12"
	# One of them can be named.
	eq "$(nm "$TMP/main" | sed -nE 's/.* camlDune__exe__Service(__|\.)find_([0-9]+)$/Service.find\/\2/p' | sort)" \
		"$(grep -o 'Service.find/[0-9]*' "$TMP/table" | sort)" "numbers"
	# Whole names are names, too.
	eq "$("$TOOL" functions -prog "$TMP/main" 'Stdlib\.List\.map$')" \
		"$("$TOOL" functions -prog "$TMP/main" 'List\.map$')"
	eq "$("$TOOL" functions -prog "$TMP/main" 'List\.map$' | awk 'END { print NR, $1, $2 }')" "2 List.map 2"
}
only_if test_table is_closure_compiler

# The name that the symbol alone tells goes on to be one, unless a function has that name in full.
test_both_names() {
	local name symbols
	write_sources
	build main
	start_target "$TMP/main"
	await_line ready
	while read -r name symbols; do
		"$TOOL" attach -pid "$TARGET" --count="fn:$name" --by-site --all --for 10ms >"$TMP/out" 2>&1 ||
			fail "$name: $(<"$TMP/out")"
		eq "$(sed -nE 's/.* camlDune__exe__Service(__|\.)([^ ]*)_[0-9]+[ +].*/\2/p' "$TMP/out" | sort | xargs)" \
			"$symbols" "$name"
	done <<-'END'
		Service.Late.Deep.walk walk
		Service.walk walk
		Dune__exe__Service.Late.Deep.walk walk
		Dune__exe.Service.walk walk
		Service.Late.Deep.walk.go go
		Service.Late.raising raising
		Service.raising raising
		Service.find find find
		Service.Late.Deep.(%%) $25$25
		Service.(%%) $25$25
		Service\.Late\.\(Deep\.wal[k]\|r.*\) go raising walk
	END
	"$TOOL" attach -pid "$TARGET" --count=fn:Service.raising --by-site --for 10ms >"$TMP/out"
	grep -q "$(nm "$TMP/main" | sed -nE 's/.* (camlDune__exe__Service(__|\.)raising_[0-9]+)$/\1/p' | sort -V | head -n 1)" \
		"$TMP/out" || fail "not the first: $(<"$TMP/out")"
	eq "$("$TOOL" functions -prog "$TMP/main" 'Service\.walk' | awk 'END { print NR, $1 }')" "2 Service.Late.Deep.walk"
}
only_if test_both_names is_closure_compiler

# What a program does not have is said in one sentence.
test_names_that_are_not_there() {
	local item message
	write_sources
	build static -ccopt -static
	build main
	strip "$TMP/static"
	strip -o "$TMP/stripped" "$TMP/main"
	while IFS='|' read -r item message; do
		start_target "$TMP/${item%% *}"
		await_line ready
		"$TOOL" attach -pid "$TARGET" --count="${item#* }" --for 10ms >"$TMP/out" 2>&1 && fail "$item is there"
		eq "$(sed "s|$TMP/||g" "$TMP/out")" "ocaml-probes: ${message//;/$'\n'}" "$item"
	done <<-'END'
		main fn:Service.Late.risking|'fn:Service.Late.risking': no such function in main;hint: did you mean 'fn:Service.Late.raising'?
		main fn:Service.odt|'fn:Service.odt': no such function in main;hint: did you mean 'fn:Service.odd' or 'fn:Service.add'?
		main fn:Elsewhere.Of.the.walk|'fn:Elsewhere.Of.the.walk': no such function in main;hint: did you mean 'fn:Service.Late.Deep.walk'?
		main fn:Nothing.of.the.kind|'fn:Nothing.of.the.kind': no such function in main;hint: `ocaml-probes functions` lists them
		main c:nothing_of_the_kind|'c:nothing_of_the_kind': no such function in main;hint: `nm` lists them, and c:LIBRARY:NAME names those of libraries
		stripped c:nothing_of_the_kind|'c:nothing_of_the_kind': no such function in stripped;hint: it is stripped: only its global functions of C have names
		static c:malloc|'c:malloc': static has no symbols, so its functions of C have no names
		static fn:Service.Late.riasing|'fn:Service.Late.riasing': no such function in static;hint: did you mean 'fn:Service.Late.raising'?
		static gc:minor|static: has no symbols, so its OCaml runtime and the collector's phases cannot be recognised
	END
}

# A program that nobody prepared: Debian's compiler, stripped.
test_a_program_of_the_distribution() {
	local program=/usr/bin/ocamlopt.opt
	[[ -x $program ]] || fail "$program is not there"
	eq "$("$TOOL" functions -prog "$program" --json | python3 -c '
import json, sys
for f in json.load(sys.stdin)["functions"]:
    print(f["symbol"])' | sort)" \
		"$(nm -D "$program" | sed -nE 's/^\S+ T (caml[A-Z].*)/\1/p' | grep -vE '(__|\.)code_(begin|end)$' | sort)" \
		"symbols"
	# Of the interface stdlib.mli and list.mli.
	eq "$("$TOOL" functions -prog "$program" '\(List\.\(map2\|fold_left2\|rev\|length\)\|Stdlib\.(\^)\|Printf\.sprintf\)$' |
		awk '{ print $1, $2 }')" "FUNCTION ARITY
List.fold_left2 4
List.length 1
List.map2 3
List.rev 1
Printf.sprintf 1
Stdlib.(^) 2"
}

test_plugins_and_processes() {
	local status=0
	write_sources
	build main
	(cd "$TMP" && ocamlfind ocamlopt -shared -g plugin.ml -o plugin.cmxs)
	eq "$(listed "$TMP/plugin.cmxs")" "$(told plugin.ml)" "a plugin"
	strip "$TMP/plugin.cmxs"
	eq "$(listed "$TMP/plugin.cmxs")" "$(told plugin.ml | without_lines)" "a plugin, stripped"
	start_target "$TMP/main" "$TMP/plugin.cmxs"
	await_line ready
	"$TOOL" functions -pid "$TARGET" '\(Service\.add$\|Plugin\.plugged\)' >"$TMP/table"
	eq "$(awk '{ print $1, $2, $NF }' "$TMP/table")" "FUNCTION ARITY FILE
Plugin.plugged (2) $TMP/plugin.cmxs
Service.add 2 $TMP/main"
	eq "$("$TOOL" functions -pid "$TARGET" --json 'Plugin\.plugged' | python3 -c '
import json, sys
top = json.load(sys.stdin)
print(top["version"], top["pid"], top["exe"], [(f["name"], f["arity"], f["image"]) for f in top["functions"]])
')" "1 $TARGET $TMP/main [('Plugin.plugged', -2, '$TMP/plugin.cmxs')]" "JSON"
	rm "$TMP/main"
	eq "$("$TOOL" functions -pid "$TARGET" 'Service\.add$' | awk 'END { print $1 }')" "Service.add" "a deleted file"
	"$TOOL" functions -pid $$ >"$TMP/out" 2>&1 || status=$?
	matches "$status $(<"$TMP/out")" \
		"^1 ocaml-probes: pid $$ \(.*bash\): not an OCaml program: it contains no OCaml runtime$"
}
only_if test_plugins_and_processes is_closure_compiler

test_bad_input() {
	local words expected message status
	write_sources
	build main
	while IFS='|' read -r words expected message; do
		status=0
		# shellcheck disable=SC2086 # words
		"$TOOL" functions $words >"$TMP/out" 2>&1 || status=$?
		eq "$status $(<"$TMP/out")" "$expected ocaml-probes: ${message//;/$'\n'}" "functions $words"
	done <<-END
		-prog $TMP/main Servise.find|2|regular expression 'Servise.find': matches no OCaml function of $TMP/main;hint: did you mean 'Service.find'?
		-prog $TMP/main Xyz|2|regular expression 'Xyz': matches no OCaml function of $TMP/main
		-prog $TMP/main x[|2|regular expression 'x[': [ without its ]
		-prog $TMP/main a b|2|functions: 'b': one regular expression is enough;hint: ocaml-probes help functions
		-prog $TMP/main -pid 1|2|functions: -pid and -prog are mutually exclusive;hint: ocaml-probes help functions
		x|2|functions: -pid or -prog is required;hint: ocaml-probes help functions
		-prog /bin/bash|1|/bin/bash: not an OCaml program: it contains no OCaml runtime
		-prog $(type -P ocamlrun)|1|$(type -P ocamlrun): runs OCaml bytecode, not native code;hint: compile the program to native code: ocamlopt, or dune's mode \`exe\`
		-prog $TMP/plugin.ml|1|$TMP/plugin.ml: not an ELF file
		-prog $TMP/none|2|$TMP/none: No such file or directory
		-pid 4194304|5|pid 4194304: no such process
	END
}

test_completion() {
	write_sources
	build main
	eq "$("$TOOL" complete functions -prog "$TMP/main" Service.f | cut -f1 | sort | xargs)" \
		"$("$TOOL" functions -prog "$TMP/main" 'Service\.f' | awk 'NR > 1 { sub("/.*", "", $1); print $1 }' |
			sort -u | xargs)" "functions"
	eq "$("$TOOL" complete functions -prog "$TMP/main" Mylib.U | cut -f1 | xargs)" "Mylib.Util.entry Mylib.Util.half"
	eq "$("$TOOL" complete functions -prog /bin/bash S)" "" "no OCaml"
}

run_tests "$@"
