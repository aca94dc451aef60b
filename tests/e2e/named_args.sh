#!/usr/bin/env bash
# Arguments with names: how they get into programs and plugins, and what filters, keys, histograms, printed
# hits and bpftrace make of them, against the programs' own books (tests/ocaml/named). On another compiler:
# PATH=BIN:$PATH. NAMED is where the programs of this compiler are, or will be built.
#
# needs: fixtures link ocaml
# ocaml5: test_names_are_carried test_without_names test_names_cost_nothing test_program test_stripped test_dormant test_plugin test_dormant_plugin test_arguments_without_a_place test_fibres
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/bpftrace_lib.sh"
. "$(dirname "$0")/link_lib.sh"

NAMED=${NAMED:-$O/tests/named-$(ocamlopt -version)}
[[ -e $NAMED/done && $NAMED/done -nt $ROOT/tests/ocaml/named/named.ml && $NAMED/done -nt $O/ocaml-probes-link && $NAMED/done -nt $O/ocaml/installed ]] || {
	"$ROOT/tests/ocaml/named/build" "$O" "$NAMED" 2>"$NAMED.log" && touch "$NAMED/done"
} || exit
ORDERS=70

# The arguments of the probe NAME as `list --args` tells them, a line a site: NAME:TYPE ...
names_in() { # FILE NAME
	"$TOOL" list -prog "$1" --args | awk -v probe="$2" '
		$1 == probe { line[$2 $3] = line[$2 $3] " " $5 ":" $6; if (!($2 $3 in n)) order[++sites] = $2 $3; n[$2 $3] = 1 }
		END { for (i = 1; i <= sites; i++) print substr(line[order[i]], 2) }'
}

# In each form of program, stripped of all that strip takes, and in plugins.
test_names_are_carried() {
	local file form
	strip --strip-all -o "$TMP/stripped" "$NAMED/named"
	strip --strip-all -o "$TMP/stripped_plain" "$NAMED/named_plain"
	strip --strip-unneeded -o "$TMP/stripped.cmxs" "$NAMED/named.cmxs"
	for file in "$NAMED"/named{,_plain}{,.cmxs} "$TMP"/stripped{,_plain,.cmxs}; do
		eq "$(names_in "$file" order)" "id:- customer:- price:float rush:bool grade:char amount:-
amount:float grade:char id:- customer:string rush:bool price:- -:string same_id:-" "$file"
		eq "$(names_in "$file" answered)" "size:- rid:- text:-" "$file"
		form=$("$TOOL" list -prog "$file" --args --json | python3 -c '
import json, sys
probes = json.load(sys.stdin)["probes"]
site = probes[0]["arguments"][0]
print(probes[0]["name"], site["source"], site["line"] > 0, [a["name"] for a in site["args"]])')
		eq "$form" "answered named.ml True ['size', 'rid', 'text']" "$file"
	done
	# Where they are: every argument that has a place.
	eq "$("$TOOL" list -prog "$NAMED/named" --args | awk '$NF == "-" { print $1, $5 }')" "computed length"
	fails 2 "$TOOL" list --args
	matches "$(<"$TMP/stderr")" "--args needs -prog"
}

# Programs of an older post-linker have no table, and a damaged one is ignored; positions work all the same.
test_without_names() {
	local section=.note.ocaml-probes.args file bytes
	objcopy --remove-section "$section" "$NAMED/named" "$TMP/old"
	objcopy -O binary --only-section="$section" --set-section-flags "$section=alloc" "$NAMED/named" "$TMP/table"
	bytes=$(stat -c %s "$TMP/table")
	# The last byte of the strings; a name with a letter that none has; an offset outside; half of it.
	for file in unterminated letter offset cut; do
		cp "$TMP/table" "$TMP/bytes"
		case $file in
		unterminated) poke "$TMP/bytes" $((bytes - bytes % 4 - 4)) 41 41 41 41 ;;
		letter) sed -i 's/id,customer/i!,customer/' "$TMP/bytes" ;;
		offset) poke "$TMP/bytes" $((12 + 16 + 16 + 8)) ff ff ff 7f ;;
		cut) truncate -s $((bytes / 2)) "$TMP/bytes" ;;
		esac
		objcopy --update-section "$section=$TMP/bytes" "$NAMED/named" "$TMP/$file" 2>/dev/null
	done
	for file in old unterminated letter offset cut; do
		"$TOOL" list -prog "$TMP/$file" --args >"$TMP/out" 2>"$TMP/err"
		eq "$(awk '$1 == "begun" { print $4, $5, $6, $7 }' "$TMP/out" | xargs)" "arg0 - - %rax arg1 - - %rbx" "$file"
		# Of what only the table has, the note knows no place.
		eq "$(awk '$1 == "order" && $4 == "arg1" { print $7 }' "$TMP/out" | xargs)" "%rbx -" "$file"
		[[ $file = old ]] || matches "$(<"$TMP/err")" "cannot read names of arguments: section $section is damaged: "
		[[ $file != old ]] || eq "$(<"$TMP/err")" "" "$file"
	done
	need_counting
	start_target "$TMP/old" 20
	await_line ready
	check_error 2 "probe 'begun': no argument 'rid' for the filter: its arguments have no names in $TMP/old, only positions" \
		attach -pid "$TARGET" --count=begun --filter 'rid > 3'
	background "$TOOL" attach --budget none -pid "$TARGET" --json --count=begun --filter 'arg0 >= 15' >"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" "counting 1 probe"'
	tell go
	await_line end
	kill -INT $!
	wait $!
	eq "$(python3 -c 'import json, sys; print(json.loads(sys.stdin.read().splitlines()[-1])["probes"][0]["hits"])' <"$TMP/out")" 5
}

# Names and types are data: not a byte of the code differs without them, and no relocation.
test_names_cost_nothing() {
	local form
	"$O/ocaml/lib/ocaml-probes/ppx/ppx.exe" "$ROOT/tests/ocaml/named/named.ml" -o "$TMP/with.ml"
	# As many bytes of padding: the compiler makes names of places in the source.
	python3 - "$TMP/with.ml" "$TMP/without.ml" <<-'EOF'
		import re, sys
		text = open(sys.argv[1]).read()
		bare, n = re.subn(r"#1\([\w:,']*\)", lambda match: "#1" + "=" * (len(match[0]) - 2), text)
		assert n == 14, n
		open(sys.argv[2], "w").write(bare)
	EOF
	for form in with without; do
		mkdir "$TMP/$form"
		cp "$TMP/$form.ml" "$TMP/$form/named.ml"
		(
			cd "$TMP/$form"
			ocamlopt -w -a -g -I "$NAMED" -c named.ml
			objcopy -O binary --only-section=.text named.o text
			objdump -r -j .text named.o >relocations
			strings -n 20 named.o >texts
		)
	done
	[[ -s $TMP/with/text ]]
	cmp "$TMP/with/text" "$TMP/without/text"
	cmp "$TMP/with/relocations" "$TMP/without/relocations"
	holds grep -q 'answered@.*#1(size,rid,text)$' "$TMP/with/texts"
	! grep 'answered@.*rid' "$TMP/without/texts" || fail "the names are still there"
}

# ---- measuring ----------------------------------------------------------------------------------

# Start the program in the FORM of a file: named, named_plain, stripped, plugin, plugin_plain.
start_named() { # FORM
	need_counting
	case $1 in
	plugin) start_target "$NAMED/host" "$ORDERS" "$NAMED/named.cmxs" ;;
	plugin_plain) start_target "$NAMED/host" "$ORDERS" "$NAMED/named_plain.cmxs" ;;
	stripped)
		strip --strip-all -o "$TMP/stripped_named" "$NAMED/named"
		start_target "$TMP/stripped_named" "$ORDERS"
		;;
	*) start_target "$NAMED/$1" "$ORDERS" ;;
	esac
	await_line ready
}

told() { # NAME
	sed -n "s/^$1=//p" "$(output_of)"
}

# All that names are for, at once, in one FORM.
check_form() { # FORM
	local i filter
	start_named "$1"
	i=0
	while read -r filter; do
		measuring $((++i)) --json --count=order --filter "$filter"
	done < <(sed -n 's/^    *( *\("[a-z(].*"\), *$/\1/p; s/^    *( *\("[a-z(].*"\), fun.*/\1/p' \
		"$ROOT/tests/ocaml/named/named.ml" | sed 's/^"//; s/"$//; s/\\"/"/g')
	eq "$i" 10 "filters"
	measuring key --json --time begun,answered --key rid
	measuring hist --json --count=order --hist id
	measuring price --json --count=order --hist price
	measuring print --json --print order --limit 0
	go_measured
	compare_with_books named "$TMP" "$(output_of)"
	matches "$(tail -n 1 "$TMP/out.key")" '"empty_pair_ns":[1-9]'
	quit_target
}

test_program() { check_form named; }
test_stripped() { check_form stripped; }
test_dormant() { check_form named_plain; }
test_plugin() { check_form plugin; }
test_dormant_plugin() { check_form plugin_plain; }

# What cannot be read is told with the place in the source, and with a remedy that works.
test_arguments_without_a_place() {
	local t line
	line=$(grep -n '%probe "computed"' "$ROOT/tests/ocaml/named/named.ml" | cut -d: -f1)
	start_named named
	t="attach -pid $TARGET"
	check_error 2 "computed \(named.ml:$line\): arg1 \(length\) is not in a register or memory at the probe; \
let length = Sys.opaque_identity \(...\) before the probe keeps it" $t --count=computed --filter 'length > 3'
	check_error 2 "computed \(named.ml:$line\): arg1 \(length\) is not in a register or memory at the probe" \
		$t --time begun,computed --key arg1
	check_error 2 "scaled \(named.ml:$((line + 1))\): arg0 \(scaled\) is in a floating-point register at the probe, \
which the kernel does not show; let scaled = Sys.opaque_identity" $t --count=scaled --filter 'arg0 > 3'
	check_error 2 "probe 'order': arg3 \(customer\) is of type string in .*, and the filter compares it with a number" \
		$t --count=order --filter 'customer > 5'
	check_error 2 "probe 'order': arg3 \(customer\) is of type string in .*, and a histogram is of numbers" \
		$t --count=order --hist customer --for 100ms
	check_error 2 "probe 'computed': no argument 'lenght' for the filter: it has id, length in" \
		$t --count=computed --filter 'lenght = 5'
	check_error 2 "no argument 'rid' for the key: it has length, boxed in" $t --time begun,kept --key rid
	measuring kept --json --print kept --filter 'length > 1 && boxed > 400.' --limit 0
	go_measured
	eq "$(python3 -c '
import json, sys
print([h["named"] for h in map(json.loads, open(sys.argv[1])) if h["type"] == "hit"])' "$TMP/out.kept")" \
		"[{'length': 8, 'boxed': 403}, {'length': 2, 'boxed': 422.5}, {'length': 8, 'boxed': 429}, {'length': 2, 'boxed': 448.5}]"
	quit_target
}

# OCaml 5: the two probes of a request are hit on a stack that was moved in between.
test_fibres() {
	local form
	[[ $(ocamlopt -version) = 5.* ]] || { check_no_effects; return; }
	for form in fibres fibres_plain; do
		need_counting
		start_target "$NAMED/$form" 40
		await_line ready
		measuring ended --json --time fibre_begun,fibre_ended --key rid
		measuring left --json --time fibre_begun,fibre_left --key customer
		measuring print --json --print fibre_left --limit 0
		go_measured
		holds python3 - "$TMP" <<-'EOF'
			import json, sys
			def objects(name):
			    return [json.loads(line) for line in open(f"{sys.argv[1]}/out.{name}")]
			for name in "ended", "left":
			    pair = objects(name)[-1]["pairs"][0]
			    seen = [pair[key] for key in ("count", "starts", "orphan_starts", "orphan_stops", "open", "not_keyed")]
			    assert seen == [40, 40, 0, 0, 0, 0], (name, seen)
			hits = [o["named"] for o in objects("print") if o["type"] == "hit"]
			expected = [{"customer": str(n), "rid": n} for n in range(1, 41)]
			assert sorted(hits, key=lambda hit: hit["rid"]) == expected, hits
		EOF
		quit_target
	done
}

# An older compiler has no effects, and continuations are closures: test_program has these.
check_no_effects() {
	! holds ocamlopt -i - <<<'open Effect' >/dev/null 2>&1
}

# ---- Lwt ----------------------------------------------------------------------------------------

# Converted, and dormant.
build_lwt() {
	local form
	ocamlfind query lwt_ppx lwt.unix >/dev/null 2>&1 || skip "liblwt-ocaml-dev is missing"
	cp "$ROOT/tests/ocaml/named/orders_lwt.ml" "$TMP"
	for form in lwt lwt_plain; do
		# Lwt was built by the distribution's compiler.
		(cd "$TMP" && PATH=/usr/bin:$PATH ocamlfind ocamlopt -thread -g -package lwt.unix,lwt_ppx,ocaml-probes.ppx -linkpkg \
			$([[ $form = lwt_plain ]] || echo -cc ocaml-probes-cc) orders_lwt.ml -o "$form")
	done
}

# Requests wait for each other in one thread; what identifies them is in the closures of continuations.
test_lwt() {
	local form
	need_counting
	build_lwt
	eq "$("$TOOL" list -prog "$TMP/lwt" --args | awk '$NF == "-"')" "" "arguments without a place"
	for form in lwt lwt_plain; do
		start_target "$TMP/$form" 50
		await_line ready
		measuring rid --json --time request,finished --key rid
		measuring customer --json --time request,response --key customer
		measuring filter --json --count=response --filter 'rid >= 1040 && customer ^= "2"'
		measuring print --json --print 'response' --limit 0
		go_measured
		python3 - "$TMP" "$(told sum)" <<-'EOF'
			import json, sys
			def objects(name):
			    return [json.loads(line) for line in open(f"{sys.argv[1]}/out.{name}")]
			for name in "rid", "customer":
			    pair = objects(name)[-1]["pairs"][0]
			    seen = [pair[key] for key in ("count", "starts", "orphan_starts", "orphan_stops", "open", "not_keyed")]
			    assert seen == [50, 50, 0, 0, 0, 0], (name, seen)
			hits = [o["named"] for o in objects("print") if o["type"] == "hit"]
			assert sum(hit["rid"] - 1000 for hit in hits) == int(sys.argv[2]), hits
			for hit in hits:
			    customer = str(7 * (hit["rid"] - 1000))
			    assert hit == {"size": len(customer) + 1, "rid": hit["rid"], "customer": customer, "text": customer + "!"}
			# 280, 287, 294.
			assert objects("filter")[-1]["probes"][0]["hits"] == 3
		EOF
		quit_target
	done
}

# bpftrace prints the names, and reads what a continuation has captured.
test_bpftrace() {
	need_counting
	need_command bpftrace bpftool
	build_lwt
	start_target "$TMP/lwt" 50
	await_line ready
	start_printed -pid "$TARGET" args response
	grep -q 'reg("sp").*reg\|\*(uint64 \*)(\*(uint64 \*)' "$TMP/command" || fail "nothing is nested: $(<"$TMP/command")"
	tell go
	await_line end
	wait_for '[[ $(grep -c " response " "$TMP/bpftrace") -eq 50 ]]' 60
	quit_target
	stop_printed
	eq "$(sed -n 's/.* response .*size=\([0-9]*\) rid=\([0-9]*\) .*/\2/p' "$TMP/bpftrace" | sort -n | xargs)" \
		"$(seq 1000 1049 | xargs)" "$(head -5 "$TMP/bpftrace")"
}

run_tests "$@"
