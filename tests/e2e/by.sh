#!/usr/bin/env bash
# --by: counts and times by the value of an argument, against the program's own books (tests/ocaml/named).
#
# needs: fixtures ocaml
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/calls_lib.sh"

NAMED=${NAMED:-$O/tests/named-$(ocamlopt -version)}
[[ -e $NAMED/done && $NAMED/done -nt $ROOT/tests/ocaml/named/named.ml && $NAMED/done -nt $O/ocaml-probes-link && $NAMED/done -nt $O/ocaml/installed ]] || {
	"$ROOT/tests/ocaml/named/build" "$O" "$NAMED" 2>"$NAMED.log" && touch "$NAMED/done"
} || exit

# Uprobes are on a copy.
start_named() { # ORDERS
	need_counting
	cp "$NAMED/named" "$TMP/named"
	start_target "$TMP/named" "$1"
	await_line ready
}

test_books() {
	local arg
	start_named 70
	for arg in id customer price rush grade amount; do
		measuring "count.$arg" --json --count=order --by "$arg"
	done
	for arg in id customer grade price; do
		measuring "time.$arg" --json --time order,begun --by "$arg"
	done
	measuring nested --json --time begun,answered
	measuring nested_by --json --time begun,answered --by rid
	measuring both --json --count=begun,answered --by rid
	measuring filter --json --count=order --by customer --filter 'id >= 30'
	measuring mixed --json --count=order --by arg1
	measuring interval --json --count=order --by customer --interval 20ms
	go_measured
	compare_with_books by "$TMP" "$(output_of)"
	quit_target
}

# rid identifies a request, and size does not: an engine that cannot read rid takes no other key.
test_no_lesser_key() {
	local attach=("$TOOL" attach -pid)
	start_named 5
	attach+=("$TARGET" --time begun,answered --for 10ms)
	"${attach[@]}" --engine bpf >"$TMP/out" 2>"$TMP/err"
	matches "$(<"$TMP/err")" 'matched by an argument of both probes: begun,answered by rid '
	"${attach[@]}" --engine inside >"$TMP/out" 2>"$TMP/err"
	finds -x 'ocaml-probes: warning: begun,answered: matched by thread, since the engine `inside` cannot match by rid, which both probes have: use --engine bpf' \
		"$TMP/err" || fail "$(<"$TMP/err")"
	! has_text "$TMP/err" 'matched by an argument' || fail "$(<"$TMP/err")"
}

# Tables have the top 20, or as many as are asked for, and the rest in sum; CSV has all groups.
test_tables() {
	local out
	start_named 70
	measuring counts --count=order --by id
	measuring top --count=order --by customer --top 3
	measuring names --count=order --by id --sort name --top 2
	measuring times --time order,begun --by id
	measuring csv --csv --count=order --time order,begun --by customer
	measuring rush --count=order --by rush
	go_measured
	out=$(sed -n '/^order by id/,/^CPU/p' "$TMP/out.counts")
	eq "$(awk '$1 ~ /^[0-9]+$/ && $2 == 1' <<<"$out" | wc -l)" 20 "rows"
	matches "$out" $'\nothers \\(50 values\\) +50 '
	out=$(sed -n '/^order by customer/,/^CPU/p' "$TMP/out.top")
	eq "$(awk '$1 ~ /^"/ { print $2 }' <<<"$out" | xargs)" "18 18 17" "the top: $out"
	matches "$out" $'\nothers \\(1 value\\) +17 '
	eq "$(sed -n '/^order by id/,/^CPU/p' "$TMP/out.names" | awk 'NR > 2 && !/^CPU/ { print $1, $2, $3 }')" \
		$'0 1 '"$(awk '/^order by id/ { getline; getline; print $3 }' "$TMP/out.names")"$'\n1 1 '"$(
			awk '/^order by id/ { getline; getline; getline; print $3 }' "$TMP/out.names")"$'\nothers (68 values)' "by name"
	matches "$(<"$TMP/out.rush")" $'\ntrue +24 .*\nfalse +46 |\nfalse +46 .*\ntrue +24 '
	out=$(sed -n '/^order,begun by id/,/^CPU/p' "$TMP/out.times")
	eq "$(awk '$1 ~ /^[0-9]+$/ && $2 == 1' <<<"$out" | wc -l)" 20 "rows of times"
	matches "$out" $'\nothers \\(50 values\\) +50 '
	python3 - "$TMP/out.csv" <<-'EOF2'
		import csv, sys
		rows = list(csv.DictReader(open(sys.argv[1])))
		assert all(None not in row and None not in row.values() for row in rows), rows
		counts = {r["args"]: int(r["count"]) for r in rows if r["kind"] == "group" and r["name"] == "order"}
		assert counts == {'"x"': 18, '"cu"': 18, '"customer"': 17, '""': 17}, counts
		times = [r for r in rows if r["kind"] == "group" and r["name"] == "order begun"]
		pair, = (r for r in rows if r["kind"] == "pair")
		assert {r["args"]: int(r["count"]) for r in times} == counts, times
		assert sum(int(r["sum_ns"]) for r in times) == int(pair["sum_ns"]), times
		assert max(int(r["max_ns"]) for r in times) == int(pair["max_ns"]), times
	EOF2
	quit_target
}

# More values than there is room for: the first ones have groups, and none of the others is lost.
test_more_values_than_room() {
	start_named 17000
	measuring hits --json --count=order --by id
	measuring times --json --time order,begun --by id
	measuring table --count=order --by id --top 2
	go_measured
	python3 - "$TMP" <<-'EOF2'
		import json, sys
		def last(name):
		    return json.loads(open(f"{sys.argv[1]}/out.{name}").read().splitlines()[-1])
		for name, count, room in ("hits", "hits", 16384), ("times", "count", 4096):
		    total = last(name)
		    groups = total["groups"]
		    known = {g["value"]: g[count] for g in groups if "others" not in g}
		    assert known == {n: 1 for n in range(room)}, (name, len(known))
		    others, = (g for g in groups if "others" in g)
		    assert others[count] == 17000 - room, others
		pair = last("times")["pairs"][0]
		assert pair["count"] == 17000
		assert sum(g["sum_ns"] for g in last("times")["groups"]) == pair["sum_ns"]
		assert last("hits")["probes"][0]["hits"] == 17000
	EOF2
	matches "$(<"$TMP/out.table")" $'\nothers \\(16382 values, and those without room\\) +16998 '
	quit_target
}

test_messages() {
	local t option
	start_named 5
	t="attach -pid $TARGET"
	check_error 2 "probe 'order': no argument 'custumer' for the groups: it has .*; did you mean 'customer'\?" \
		$t --count=order --by custumer
	check_error 2 "probe 'answered': no argument 'price' for the groups: it has size, rid, text in [^;]*$" \
		$t --time answered,order --by price
	check_error 2 "probe 'begun': no arg7 for the groups: it has 2 arguments" $t --count=begun --by arg7
	check_error 2 "scaled \(named.ml:[0-9]*\): arg0 \(scaled\) is in a floating-point register" $t --count=scaled --by arg0
	check_error 2 'argument 5: arg0, arg1, ..., or its name is expected' $t --count=order --by 5
	check_error 2 "attach: --by needs --count=NAME or --time" $t --print order --by id
	check_error 2 "attach: --by and --stack are mutually exclusive" $t --count=order --stack --by id
	for option in --by-site --by-thread --by-process; do
		check_error 2 "attach: --by excludes --by-site, --by-thread and --by-process" $t --count=order $option --by id
	done
	for option in --count=c:malloc --time=gc:minor --count=line:named.ml:1 --count=note:x; do
		check_error 2 "attach: --by needs arguments; c:, gc:, line: and note: have no arguments" \
			$t $option --by arg0
	done
	check_error 2 "probe 'fn:Named.entry': no arg0 for the groups: how many arguments it has is not known" $t --time fn:Named.entry --by arg0
	check_error 2 "attach: --keep excludes --by" $t --count=order --by id --keep by_test
	check_error 2 "attach: --by: given twice" $t --count=order --by id --by price
	# A probe without the argument is counted as a whole.
	measuring some --json --count=order,begun --by customer
	go_measured
	matches "$(<"$TMP/err.some")" "counted without groups: probe 'begun': no argument 'customer' for the groups"
	eq "$(python3 -c '
import json, sys
total = json.loads(open(sys.argv[1]).read().splitlines()[-1])
print([(p["name"], p["hits"]) for p in total["probes"]], {g["name"] for g in total["groups"]})' "$TMP/out.some")" \
		"[('begun', 5), ('order', 5)] {'order'}"
	quit_target
}

# A record is a group of its own, with the reason, also for whole programs.
test_values_that_are_none() {
	need_counting
	cp "$O/tests/ocaml/args" "$TMP/args"
	"$TOOL" attach --budget none --exe "$TMP/args" --json --count=fields_rifs --by arg0 -- "$TMP/args" >"$TMP/out" 2>"$TMP/err"
	eq "$(tail -n 1 "$TMP/out" | python3 -c '
import json, sys
print([(g["value"], g["why"], g["hits"]) for g in json.load(sys.stdin)["groups"]])')" "[(None, 'neither a number nor a string', 2)]"
	"$TOOL" attach --budget none --exe "$TMP/args" --count=fields_rifs --by arg0 -- "$TMP/args" >"$TMP/out" 2>"$TMP/err"
	matches "$(<"$TMP/out")" $'\n\\? \\(neither a number nor a string\\) +2 '
}

# Calls of functions: recursive ones, and those that exceptions end.
test_calls() {
	need_counting
	PROGRAMS=slow_calls "$CALLS/build" "$TMP/built" 2>"$TMP/warnings"
	start_target "$TMP/built/slow_calls" 60
	await_line ready
	measuring works --json --time fn:Slow_calls.works --by arg0
	measuring nests --json --time fn:Slow_calls.nests --by arg1
	measuring escapes --json --time fn:Slow_calls.escapes --by arg2
	measuring digs --json --time fn:Slow_calls.digs --by arg1
	measuring yields --json --time 'fn:Slow_calls.yi.*' --by arg0
	measuring counts --json --count=fn:Slow_calls.escapes,fn:Slow_calls.nests --by arg2
	measuring hist --json --count=fn:Slow_calls.works --hist arg0
	go_measured
	compare_with_books calls_by "$TMP" "$(output_of)"
}

run_tests "$@"
