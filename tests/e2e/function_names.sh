#!/usr/bin/env bash
# One name for one function: what stacks, profiles and `functions` print is accepted as `fn:NAME`, and `fn:FILE:LINE` names
# the function that has the line. What the program has stands in comments of its source: (*= NAME BOOK *) on the first
# line of a function that has code; the program counts its calls under BOOK.
#
# needs: fixtures ocaml
# smoke: test_counts
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

write_source() {
	cat >"$TMP/names.ml" <<-'ML'
		let books = Hashtbl.create 16
		let hit name = match Hashtbl.find books name with n -> incr n | exception Not_found -> Hashtbl.add books name (ref 1)
		let spot x = hit "spot"; Sys.opaque_identity x (*= Names.spot spot *)
		let locked f = (*= Names.locked locked *)
		  hit "locked";
		  1 + f 1
		class counter start = object (self)
		  val mutable n = start
		  method next = hit "next"; n <- spot (n + 1); n (*= Names.counter#next next *)
		  method add ?(by = 1) () =
		    hit "add"; (*= Names.counter#add add *)
		    let rec go k = (*= Names.counter#add.go go *)
		      hit "go"; if k = 0 then 1 + spot n else 1 + go (k - 1) in
		    1 + go by
		  method each =
		    hit "each"; (*= Names.counter#each each *)
		    1 + List.fold_left
		      (fun sum x -> hit "each.fun"; sum + spot x + n) (*= Names.counter#each.(fun) each.fun *)
		      0 [ 1; 2; 3 ]
		  method both = hit "both"; self#next + self#each (*= Names.counter#both both *)
		end
		module Make (S : sig val step : int end) = struct
		  let walk l = (*= Names.Make.walk walk *)
		    hit "walk";
		    1 + List.fold_left
		      (fun sum x -> hit "walk.fun"; sum + spot x + S.step) (*= Names.Make.walk.(fun) walk.fun *)
		      0 l
		  module Deep = struct
		    let ( %% ) a b = hit "%%"; S.step + spot (a + b) (*= Names.Make.Deep.(%%) %% *)
		  end
		end
		module One = Make (struct let step = 1 end)
		let ( >>= ) x f = (*= Names.(>>=) >>= *)
		  hit ">>=";
		  1 + f (x + 1)
		let two () = (*= Names.two two *)
		  hit "two";
		  locked
		    (fun x -> hit "two.first"; 1 + spot x) (*= Names.two.(fun) two.first *)
		  + locked
		    (fun x -> hit "two.second"; 2 + spot x) (*= Names.two.(fun) two.second *)
		let nested () = (*= Names.nested nested *)
		  hit "nested";
		  1 + (1 >>=
		    fun x -> (*= Names.nested.(fun) nested.outer *)
		      hit "nested.outer";
		      1 + locked
		        (fun y -> hit "nested.inner"; 1 + spot (x + y))) (*= Names.nested.(fun) nested.inner *)
		let table = (*= Names.table.(fun) - *)
		  [|
		    (fun x -> hit "table.first"; 1 + spot x); (*= Names.table.(fun) table.first *)
		    (fun x -> hit "table.second"; 2 + spot x); (*= Names.table.(fun) table.second *)
		  |]
		let same_line x = locked (fun y -> 1 + spot (x + y))
		let reduced x = hit "reduced"; x |> (fun y -> 1 + spot y) (*= Names.reduced reduced *)
		let started = hit "started"; 1 + spot 0
		let () =
		  (* 1 (a line without code) *)
		  let c = new counter 3 in
		  for i = 1 to 10 do
		    ignore (c#both + c#add () + c#add ~by:i ());
		    ignore (One.walk [ 1; i ] + One.Deep.(1 %% 2) + two () + nested () + same_line 1 + reduced i);
		    if i > 3 then ignore (Array.map (fun f -> f 1) table)
		  done;
		  Hashtbl.iter (fun name n -> Printf.printf "book %s %d\n" name !n) books
	ML
	sed -i '/Names.table.(fun) - /s/ (\*=.*//' "$TMP/names.ml"
}

build() { # [FLAG...]
	write_source
	(cd "$TMP" && ocamlfind ocamlopt -w -a -g -inline 0 "$@" names.ml -o names 2>"$TMP/warnings") ||
		fail "$(<"$TMP/warnings")"
}

# "LINE NAME BOOK" of each marked function.
marks() {
	sed -nE 's/.*\(\*= (\S+) (\S+) \*\).*/\1 \2/;T;=;p' "$TMP/names.ml" | paste -d' ' - -
}

# Flambda makes other functions of these sources.
is_closure_compiler() {
	[[ $(ocamlfind ocamlopt -config-var flambda) = false ]]
}

# The marked functions are listed, under these names. (The code of a method begins without a line.)
test_names_are_listed() {
	build
	"$TOOL" functions -prog "$TMP/names" --json 'Names\.' >"$TMP/json"
	marks >"$TMP/marks"
	holds python3 - "$TMP/json" "$TMP/marks" <<-'PY' || fail "$(<"$TMP/json")"
		import collections, json, sys
		listed = [(f["line"], f["name"]) for f in json.load(open(sys.argv[1]))["functions"]]
		marked = [(int(line), name) for line, name, _ in map(str.split, open(sys.argv[2]))]
		missing = [mark for mark in marked if mark not in listed and ("#" not in mark[1] or (None, mark[1]) not in listed)]
		assert not missing and len(marked) >= 20, (missing, listed)
	PY
	# The name with a number is that of one function, and the symbol's name stays one.
	eq "$("$TOOL" functions -prog "$TMP/names" 'Names\.two' | awk 'NR > 1 { sub("[0-9]+$", "N", $1); print $1 }' | xargs)" \
		"Names.two Names.two.(fun)/N Names.two.(fun)/N" "the table"
}
only_if test_names_are_listed is_closure_compiler

# Each item that `functions` prints names the function with this address; a name names all functions that have it.
test_round_trip() {
	build
	"$TOOL" functions -prog "$TMP/names" --json >"$TMP/json"
	holds python3 - "$TOOL" "$TMP/names" "$TMP/json" <<-'PY' || fail "$(tail -n 5 "$TMP/said" 2>/dev/null)"
		import collections, json, re, subprocess, sys
		tool, program = sys.argv[1:3]
		functions = [f for f in json.load(open(sys.argv[3]))["functions"] if f["cost"] != "impossible"]

		def ask(items):
		    """{item: addresses}; the value of an item that is refused for another reason than its name is None."""
		    run = subprocess.run([tool, "bpftrace", "-prog", program, "count", ",".join(items)], capture_output=True, text=True)
		    if run.returncode and len(items) > 1:
		        middle = len(items) // 2
		        return {**ask(items[:middle]), **ask(items[middle:])}
		    if run.returncode:
		        assert "no such" not in run.stderr and "regular" not in run.stderr and "inlined" not in run.stderr, run.stderr
		        return {items[0]: None}
		    found, pending = {}, []
		    for line in run.stdout.splitlines():
		        pending += [int(address, 16) for address in re.findall(r"^uprobe:.*:0x([0-9a-f]+)", line)]
		        named = re.search(r'@\["(fn:.*?)"\] = count', line)
		        if named:
		            found.setdefault(named[1].replace("'\\''", "'"), []).extend(pending)
		            pending = []
		    assert found.keys() == set(items), set(items) ^ found.keys()
		    return found

		def ask_all(items):
		    items = sorted(items)
		    return {k: v for i in range(0, len(items), 100) for k, v in ask(items[i:i + 100]).items()}

		def holder(address):
		    return [f for f in functions if int(f["address"], 16) <= address < int(f["address"], 16) + f["bytes"]]

		by_item = {f["item"]: f for f in functions}
		assert len(by_item) == len(functions), "two functions have one item"
		n = 0
		for item, addresses in ask_all(by_item).items():
		    if addresses is not None:
		        n += 1
		        assert [f["item"] for a in addresses for f in holder(a)] == [item], (item, addresses)
		by_name = collections.defaultdict(set)
		for f in functions:
		    by_name["fn:" + f["name"]].add(f["item"])
		own = {item: items for item, items in by_name.items() if item.startswith("fn:Names.")}
		for item, addresses in ask_all(own).items():
		    if addresses is not None:
		        assert {f["item"] for a in addresses for f in holder(a)} == own[item], (item, addresses)
		assert n > 0.9 * len(functions) > 300 and len(own) >= 20, (n, len(functions), len(own))
	PY
}

# By name, and by line: the numbers are those of the books.
test_counts() {
	local items
	need_bpf
	build
	items=$(marks | awk '{ print "fn:" $2; print "fn:names.ml:" $1 }' | sort -u | paste -sd,),fn:Names,fn:Names.started
	"$TOOL" trace --wait -prog "$TMP/names" --count="$items" --json >"$TMP/out"
	marks >"$TMP/marks"
	holds python3 - "$TMP/out" "$TMP/marks" <<-'PY' || fail "$(<"$TMP/out")"
		import collections, json, sys
		lines = open(sys.argv[1]).read().splitlines()
		books = {line.split()[1]: int(line.split()[2]) for line in lines if line.startswith("book ")}
		# The top level of the file, and a definition there, run once.
		expected = collections.Counter({"fn:Names": 1, "fn:Names.started": books["started"]})
		for line, name, book in (mark.split() for mark in open(sys.argv[2])):
		    expected["fn:" + name] += books[book]
		    expected["fn:names.ml:" + line] += books[book]
		hits = {p["name"]: p["hits"] for p in json.loads(lines[-1])["probes"]}
		wrong = {name: (hits.get(name), n) for name, n in expected.items() if hits.get(name) != n}
		assert not wrong and min(expected.values()) > 0 and len(expected) > 35, wrong
		assert books["two.first"] == 10 and books["table.first"] == 7 and books["go"] == 10 * 2 + 65, books
	PY
}
only_if test_counts is_closure_compiler

# The frames of stacks have the names of `functions`, and items.
test_stacks() {
	need_bpf
	build
	"$TOOL" functions -prog "$TMP/names" --json >"$TMP/json"
	"$TOOL" trace --wait -prog "$TMP/names" --count=fn:Names.spot --stack --json >"$TMP/out"
	marks >"$TMP/marks"
	holds python3 - "$TMP/out" "$TMP/json" "$TMP/marks" <<-'PY' || fail "$(tail -c 3000 "$TMP/out")"
		import json, sys
		lines = [line for line in open(sys.argv[1]) if line.startswith("{")]
		items = {f["item"]: f for f in json.load(open(sys.argv[2]))["functions"]}
		names = {f["name"] for f in items.values()}
		marked = {mark.split()[1] for mark in open(sys.argv[3])}
		seen, n = set(), 0
		for stack in json.loads(lines[-1])["stacks"]:
		    for frame in stack["frames"]:
		        if frame["kind"] != "ocaml":
		            assert "item" not in frame, frame
		            continue
		        n += 1
		        found = items[frame["item"]]
		        if found["name"].endswith(".entry"):
		            assert frame["function"] in ("Names", "Names.started", "Std_exit"), frame
		            seen.add(frame["function"])
		        else:
		            assert frame["function"] == found["name"] and frame["function"] in names, (frame, found)
		            seen.add(frame["function"])
		assert marked | {"Names", "Names.started"} <= seen | {"Names.spot"}, marked - seen
		assert n > 50, n
	PY
}
only_if test_stacks is_closure_compiler

# What names no function, or several, is told in a sentence, with a hint.
test_messages() {
	local item expected program
	build
	strip -o "$TMP/stripped" "$TMP/names"
	line() { grep -nF -- "$1" "$TMP/names.ml" | head -n 1 | cut -d: -f1; }
	while IFS='|' read -r program item expected; do
		"$TOOL" bpftrace -prog "$TMP/$program" count "$item" >"$TMP/out" 2>&1 && fail "$item is there"
		eq "$(sed -E "s|$TMP/||g; s|/[1-9][0-9]*'|/N'|g" "$TMP/out")" "ocaml-probes: ${expected//@/$'\n'}" "$item"
	done <<-END
		names|fn:Names.tow.(fun)|'fn:Names.tow.(fun)': no such function in names@hint: did you mean 'fn:Names.two.(fun)'?
		names|fn:Names.counter#nxt|'fn:Names.counter#nxt': no such function in names@hint: did you mean 'fn:Names.counter#next'?
		names|fn:names.ml:$(line 'let same_line')|'fn:names.ml:$(line 'let same_line')': 2 functions begin at line $(line 'let same_line')@hint: name one of them: 'fn:Names.same_line' or 'fn:Names.same_line.(fun)'
		names|fn:names.ml:$(line 'without code')|'fn:names.ml:$(line 'without code')': no code begins at this line of names.ml@hint: the nearest lines that have code are $(line 'let started') and $(line 'new counter')
		names|fn:nams.ml:3|'fn:nams.ml:3': names has no code of a source file of this name@hint: did you mean 'fn:names.ml:3'?
		names|fn:other/names.ml:3|'fn:other/names.ml:3': names has no code of a source file of this name@hint: did you mean 'fn:names.ml:3'?
		names|fn:Names.reduced.(fun)|'fn:Names.reduced.(fun)': names has its code only where it was inlined@hint: its lines can be counted: 'line:names.ml:$(line 'let reduced')'
		names|fn:Names.strated|'fn:Names.strated': no such function in names@hint: \`ocaml-probes functions\` lists them
		stripped|fn:Names.two.(fn)|'fn:Names.two.(fn)': no such function in stripped@hint: did you mean 'fn:Names.two.(fun)'?
		stripped|fn:names.ml:3|'fn:names.ml:3': stripped was compiled with -g, then stripped: it has no line table@hint: run the unstripped program; functions (fn:NAME) need no line table
	END
}
only_if test_messages is_closure_compiler

# Names of a stripped program are the same; only lines are unknown.
test_stripped() {
	build
	strip -o "$TMP/stripped" "$TMP/names"
	names_of() { "$TOOL" functions -prog "$1" --json | python3 -c '
import json, sys
for f in json.load(sys.stdin)["functions"]:
    print(f["address"], f["item"])'; }
	names_of "$TMP/names" >"$TMP/listed"
	finds 'fn:Names.nested.(fun)/[0-9]*$' "$TMP/listed"
	eq "$(names_of "$TMP/stripped")" "$(<"$TMP/listed")" "names"
}

run_tests "$@"
