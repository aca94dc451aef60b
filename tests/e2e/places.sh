#!/usr/bin/env bash
# Where in the source the probe of a site stands: what the tool says is compared with the source itself
# (check_places.py). The programs of the language suite are looked at by suite.sh.
#
# needs: fixtures link ocaml
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/link_lib.sh"
. "$(dirname "$0")/target_lib.sh"

# All sites of the target are where the sources have their probes.
expect_places() { # WHAT all|some SOURCE...
	local what=$1 n
	shift
	"$TOOL" info -pid "$TARGET" --sites --json >"$TMP/json"
	n=$(python3 "$ROOT/tests/e2e/check_places.py" "$@" <"$TMP/json")
	matches "$n" '^[1-9][0-9]*$' "$what"
}

# places.ml as a program that waits for a line before it ends.
waiting_source() {
	mkdir -p "$TMP/src"
	{
		cat "$ROOT/tests/ocaml/places.ml"
		printf 'module F (X : sig val v : int end) = struct\n'
		printf '  let[@inline always] f x =\n    if x > X.v then\n      [%%probe\n        "in_functor" (say "functor")];\n    x\nend\n'
		printf 'module A = F (struct let v = 1 end)\nmodule B = F (struct let v = 2 end)\n'
		printf 'let () = say "%%d" (A.f 1 + A.f 2 + B.f 3 + B.f 4); print_endline "ready"; ignore (read_line ())\n'
	} >"$TMP/src/places.ml"
}

# ---- what the post-linker records -------------------------------------------------------------

test_every_way_to_link() {
	local flags
	waiting_source
	for flags in '' '-ccopt -no-pie' '-ccopt -static' '-inline 1000' \
		'-ccopt -Wl,--gc-sections -function-sections'; do
		# shellcheck disable=SC2086 # several flags
		compile "$TMP/src/places.ml" $flags 2>/dev/null
		cp "$TMP/src/places" "$TMP/dormant"
		"$LINK" --strict "$TMP/src/places"
		cp "$TMP/src/places" "$TMP/stripped"
		strip "$TMP/stripped"
		for program in src/places stripped dormant; do
			start_target "$TMP/$program"
			await_line ready
			expect_places "$program ($flags)" all "$TMP/src/places.ml"
			# Inlined copies are sites of their own.
			[[ $(grep -o '"probe":"in_functor"' "$TMP/json" | wc -l) -gt 1 ]]
			quit_target
		done
	done
}

test_plugins() {
	local suffix
	for suffix in '' _plain; do
		start_target "$P/plugin_host$suffix" "$P/plugin$suffix.cmxs"
		await_line ready
		expect_places "plugin$suffix" all "$ROOT"/tests/ocaml/plugin/*.ml
		eq "$(grep -o '"source":"plugin.ml"' "$TMP/json" | wc -l)" 2
		quit_target
	done
	# A plugin that was stripped.
	cp "$P/plugin_host" "$P/plugin.cmxs" "$TMP"
	strip "$TMP/plugin.cmxs"
	start_target "$TMP/plugin_host" "$TMP/plugin.cmxs"
	await_line ready
	expect_places "stripped plugin" all "$ROOT"/tests/ocaml/plugin/*.ml
	quit_target
}

test_twice_and_copied() {
	waiting_source
	compile "$TMP/src/places.ml"
	"$LINK" "$TMP/src/places"
	cp "$TMP/src/places" "$TMP/once"
	"$LINK" --quiet "$TMP/src/places"
	cmp "$TMP/once" "$TMP/src/places"
	eq "$(readelf -SW "$TMP/once" | grep -c ' \.note\.ocaml-probes ')" 1
	objcopy "$TMP/once" "$TMP/copy"
	start_target "$TMP/copy"
	await_line ready
	expect_places "copied by objcopy" all "$TMP/src/places.ml"
}

# ---- where it is shown ------------------------------------------------------------------------

test_by_site() {
	need_counting
	start_target "$P/service"
	await_line "service: pid $TARGET, 4 workers, running until SIGTERM"
	"$TOOL" attach -pid "$TARGET" --count --by-site --for 100ms --json >"$TMP/json"
	matches "$(python3 "$ROOT/tests/e2e/check_places.py" all \
		"$ROOT/tests/ocaml/service/service.ml" <"$TMP/json")" '^[1-9][0-9]*$'
	"$TOOL" attach -pid "$TARGET" --count=request_done --by-site --for 100ms >"$TMP/table"
	local line name
	line=$(grep -n '\[%probe "request_done"' "$ROOT/tests/ocaml/service/service.ml" | cut -d: -f1)
	matches "$(<"$TMP/table")" "request_done +camlDune__exe__Service__worker_[0-9]+\+0x[0-9a-f]+ \(service.ml:$line\) "
	# As README.md shows it.
	for name in request_done cache_hit; do
		eq "$(sed -n "s/^ *$name .*(service.ml:\([0-9]*\)).*/\1/p" "$ROOT/README.md")" \
			"$(grep -n "\[%probe \"$name\"" "$ROOT/tests/ocaml/service/service.ml" | cut -d: -f1)" "$name"
	done
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
	matches "$(grep '^request_done ' "$TMP/table")" " v1 +camlDune[^ ]+ +service.ml:$line +id=8@"
	kill "$TARGET"
}

# Every row has a field for every column.
test_csv() {
	need_counting
	start_target "$P/loop"
	await_line ready
	"$TOOL" attach -pid "$TARGET" --count=alpha --by-site --for 100ms --csv >"$TMP/csv"
	eq "$(head -n1 "$TMP/csv" | grep -o 'source,line,column,mismatched,comm$')" source,line,column,mismatched,comm
	matches "$(tail -n1 "$TMP/csv")" ",loop.ml,$(grep -n '\[%probe "alpha"' "$ROOT/tests/ocaml/loop.ml" | cut -d: -f1),[0-9]+,,\$"
	"$TOOL" attach -pid "$TARGET" --time alpha,beta --hist arg0 --count=gamma --for 100ms --csv >>"$TMP/csv" 2>/dev/null || :
	eq "$(awk -F, '{ print NF }' "$TMP/csv" | sort -u)" 34
}

test_doctor_names_the_place() {
	local site line
	start_target "$P/counted" 10 1
	await_line ready
	site=$("$TOOL" info -pid "$TARGET" --sites | awk '$1 == "in_try" { print $6; exit }')
	line=$(grep -n '\[%probe "in_try"' "$ROOT/tests/ocaml/counted.ml" | cut -d: -f1)
	printf '\x0f' | dd of="/proc/$TARGET/mem" bs=1 seek="$((site + 1))" conv=notrunc status=none
	"$TOOL" doctor -pid "$TARGET" >"$TMP/out" 2>&1 || :
	matches "$(<"$TMP/out")" "site $site \([^ ]*/counted, counted.ml:$line\): "
}

# ---- what is not certain ----------------------------------------------------------------------

# Converted before there were tables: the debug information has the lines of other code.
test_no_table_no_line() {
	waiting_source
	compile "$TMP/src/places.ml"
	"$LINK" "$TMP/src/places"
	objcopy --remove-section=.note.ocaml-probes "$TMP/src/places" "$TMP/old"
	start_target "$TMP/old"
	await_line ready
	"$TOOL" info -pid "$TARGET" --sites --json >"$TMP/json"
	eq "$(grep -o '"source":[^,]*,"line":[^,]*,"column":[^,]*' "$TMP/json" | sort -u)" \
		'"source":null,"line":null,"column":null'
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
	eq "$(awk '$1 == "matched" { print $12 }' "$TMP/table")" -
	matches "$(<"$TMP/table")" ' camlPlaces__matched_[0-9]+\+0x'
}

# A site as the forked compilers write it, with its place right before (`.loc`), after operations that
# leave no code; and sites that only code before or after them has a place for.
test_debug_information() {
	cat >"$TMP/forked.S" <<-'EOF'
		#define ABI "v1"
		#define PROVIDER "ocaml_1"
		#define SEMAPHORE_BYTES 4
		#include "probe.inc"
		NAME known, known
		NAME before, before
		NAME after, after
		SEMAPHORE known
		SEMAPHORE before
		SEMAPHORE after
		.macro FORKED id
		.Lsite\id: nop
		.byte 0x3d
		.long .Lcall\id - (.Lsite\id + 6)
		.pushsection .text.wrappers, "ax", @progbits
		.Lcall\id: ret
		.popsection
		NOTE PROVIDER, "\id", .Lsite\id, semaphore_\id, ""
		EXPECT \id, .Lsite\id, \id, ""
		.endm
		.file 1 "lib/store.ml"
		.file 2 "hashtbl.ml"
		ROUND_BEGIN
		.loc 2 110 1
		mov %rsp, %rax
		.loc 2 113 4
		.loc 1 15 6
		FORKED known
		.loc 2 200 3
		mov %rsp, %rax
		FORKED before
		.loc 2 201 3
		mov %rsp, %rax
		FORKED after
		mov %rsp, %rax
		.loc 1 999 3
		ROUND_END
	EOF
	gcc -c -I"$ROOT/tests/fixtures" -o "$TMP/forked.o" "$TMP/forked.S"
	gcc -std=gnu11 -O2 -pthread -D_GNU_SOURCE -fvisibility=hidden -o "$TMP/forked" "$TMP/forked.o" \
		"$ROOT/tests/fixtures/target.c"
	start_target "$TMP/forked"
	await_line ready
	"$TOOL" info -pid "$TARGET" --sites >"$TMP/table"
	eq "$(awk 'NR > 1 { print $1, $11 ~ /fixture_round\+0x/, $12 }' "$TMP/table")" \
		$'after 1 -\nbefore 1 -\nknown 1 lib/store.ml:15'
	"$TOOL" info -pid "$TARGET" --sites --json >"$TMP/json"
	eq "$(grep -o '"line":[0-9]*,"column":[0-9]*' "$TMP/json")" '"line":15,"column":6'
}

# ---- the names of files -----------------------------------------------------------------------

test_odd_and_long_paths() {
	local folder file='o dd:#%é.ml' i
	folder=$TMP/$(printf 'a%.0s' {1..120})/$(printf 'b%.0s' {1..150})
	mkdir -p "$folder"
	printf 'let () = [%%probe "odd" ()]; print_endline "ready"; ignore (read_line ())\n' >"$folder/$file"
	(cd "$TMP" && ocamlfind ocamlopt -w -24 -g -package ocaml-probes.ppx -linkpkg "$folder/$file" -o odd 2>/dev/null)
	cp "$TMP/odd" "$TMP/plain"
	"$LINK" --strict "$TMP/odd"
	for i in odd plain; do
		start_target "$TMP/$i"
		await_line ready
		eq "$("$TOOL" info -pid "$TARGET" --sites --json | python3 -c '
import json, sys
site, = json.load(sys.stdin)["sites"]
print(site["source"], site["line"], site["column"])')" "$folder/$file 1 9" "$i"
		quit_target
	done
	matches "$("$LINK" --check --verbose "$TMP/plain")" "$folder/$file:1:9: probe \"odd\" at "
}

run_tests "$@"
