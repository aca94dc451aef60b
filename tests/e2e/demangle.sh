#!/usr/bin/env bash
# The names of OCaml functions: those that ocp_demangle() gives all symbols of the compiler's programs, against other
# witnesses (tests/books/names.py, tests/ocaml/frames/dump), and structured names in the tool.
#
# ocaml5: all
# takes: 90
. "$(dirname "$0")/lib.sh"

# A filter, as c++filt, that is linked with the shared library.
build_filter() {
	gcc -std=gnu11 -Wall -Wextra -Werror -I"$ROOT/include" -o "$TMP/demangle" "$ROOT/tests/library/demangle.c" \
		"$O/libocaml_probes.so"
	export LD_LIBRARY_PATH=$O
}

demangled() { # FILE
	compare_with_books demangled "$TMP/demangle" "$O/tests/frames_dump" "$1"
}

test_all_symbols_of_the_compiler() {
	local program functions=0 calls=0 f c
	build_filter
	for program in ocamlopt.opt ocamlc.opt ocamlobjinfo.opt; do
		demangled "$(readlink -f "$(command -v "$program")")"
		read -r f c <"$TMP/compared"
		functions=$((functions + f)) calls=$((calls + c))
	done
	[[ $functions -ge 25000 && $calls -ge 75000 ]] || fail "few: $functions functions, $calls calls"
}

# What the compiler's own programs have few of, and local symbols.
test_rare_names() {
	build_filter
	cat >"$TMP/mylib__Rare.ml" <<-'ML'
		let ( .%() ) a i = Array.get a (i + 1)
		let ( .%[]<- ) a i x = Array.set a (i + 1) x
		let ( let*! ) x f = f (x + 1)
		let ( and* ) a b = (a + 1, b)
		let ( |> ) x f = f (x + 1)
		let prime' x = x + 1
		let foo__bar x = x + 2
		let _hidden x = x + 3
		let entry x = x + 4
		let digits_1_2 x = x + 5
		module Make (X : sig val step : int end) = struct
		  let next x = x + X.step
		end
		let optional ?(by = 1) x = x + by
	ML
	(cd "$TMP" && ocamlopt -g -inline 0 -linkall mylib__Rare.ml -o rare 2>warnings) || fail "$(<"$TMP/warnings")"
	demangled "$TMP/rare"
	nm "$TMP/rare" | sed -n 's/.* [Tt] //p' | "$TMP/demangle" | sed -n '/fun_/!s/^Mylib\.Rare\.//p' | sort -u >"$TMP/names"
	eq "$(paste -sd' ' "$TMP/names")" \
		"(.%()) (.%[]<-) (and*) (let*!) (|>) Make _hidden digits_1_2 entry foo__bar next optional optional_inner prime'"
}

# A program whose symbols are replaced by structured names: two of the earlier form.
build_structured() {
	cat >"$TMP/service.ml" <<-'ML'
		module Cache = struct
		  let find x = List.mem (x + 1) [ 1; 5; 9 ]
		end
		let ( >>= ) x f = if f (string_of_int x) then x else x + 1
		let all n = List.map (fun x -> if Cache.find x then x else x >>= fun s -> s = "7") (List.init n succ)
		let pick x = string_of_int (x + 1)
		let () =
		  let n = List.length (all 10) in
		  print_endline (pick (Sys.opaque_identity n))
	ML
	(
		cd "$TMP"
		ocamlopt -g -inline 0 -c service.ml
		nm service.o | sed -nE 's/.* [Tt] (camlService(__|\.)(.*)_([0-9]+))$/\1 \3 \4/p' | while read -r symbol name stamp; do
			case $name in
			find) echo "$symbol _CamlU7ServiceM5CacheF4findD2_D${stamp}_" ;;
			'$3e$3e$3d') echo "$symbol _CamlU7ServiceFu8A3e3e3d_D3_D${stamp}_" ;;
			fun) echo "$symbol _CamlU7ServiceF3allL0_D4_D${stamp}_" ;;
			all) echo "$symbol _CamlU7ServiceF5all_0_${stamp}_code" ;;
			pick) echo "$symbol _CamlU7ServiceF6pick_1_${stamp}_code" ;;
			esac
		done >names
		objcopy --redefine-syms=names service.o
		ocamlopt -g service.cmx -o service
	)
}

test_structured_names_in_the_tool() {
	build_structured
	[[ $(wc -l <"$TMP/names") -ge 6 ]] || fail "$(<"$TMP/names")"
	"$TOOL" functions -prog "$TMP/service" --json 'Service\.' >"$TMP/json"
	python3 -c '
import json, re, sys
for f in json.load(sys.stdin)["functions"]:
    if f["stamp"]:
        assert re.search(r"(\d+)(_code|_)$", f["symbol"])[1] == str(f["stamp"]), f
        print(f["name"].replace("fun_%d" % f["stamp"], "fun"), f["file"].split("/")[-1], f["line"])' \
		<"$TMP/json" | sort -u >"$TMP/functions"
	eq "$(<"$TMP/functions")" "Service.(>>=) service.ml 4
Service.Cache.find service.ml 2
Service.all service.ml 5
Service.all.(fun) service.ml 5
Service.all.fun service.ml 5
Service.pick service.ml 6"
	# Names that are shown can be asked for.
	"$TOOL" trace --wait -prog "$TMP/service" --json --count='fn:Service.Cache.find,fn:Service.(>>=),fn:Service.pick' >"$TMP/out"
	eq "$(sed -n 's/^{/{/p' "$TMP/out" | python3 -c '
import json, sys
for p in json.loads(sys.stdin.read().splitlines()[-1])["probes"]:
    print(p["name"], p["hits"])' | sort)" "fn:Service.(>>=) 8
fn:Service.Cache.find 10
fn:Service.pick 1"
}

run_tests "$@"
