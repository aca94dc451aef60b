#!/usr/bin/env bash
# Pairs in programs that run many requests in one thread (Lwt), against the program's own books
# (tests/ocaml/lwt): 2, 20 and 200 requests at a time; by thread, by key, by a key that nobody asked for, and
# by key and another argument.
#
# needs: fixtures link ocaml
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/link_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/lwt_lib.sh"

FOUND='matched by an argument of both probes: request_start,request_done by rid (--key none: by thread)'

# The pair number 0 of each $TMP/out.NAME has the times of the requests themselves.
check_keyed() { # BOOKS NAME...
	holds python3 - "$TMP" "$@" <<-'EOF'
		import json, sys
		def numbers(line):
		    return {name: int(value) for name, value in (field.split("=") for field in line.split() if "=" in field)}
		out, books, *names = sys.argv[1:]
		key, = (numbers(line) for line in books.splitlines() if line.startswith("key "))
		for name in names:
		    pair = json.loads(open(f"{out}/out.{name}").read().splitlines()[-1])["pairs"][0]
		    counts = [pair[n] for n in ("count", "starts", "orphan_starts", "orphan_stops", "open", "not_keyed", "mismatched")]
		    assert counts == [key["count"]] * 2 + [0] * 5, (name, counts)
		    assert key["within_ns"] <= pair["sum_ns"] <= key["around_ns"], (name, pair, key)
		    assert pair["min_ns"] <= key["shortest_ns"] and pair["max_ns"] >= key["longest_ns"], (name, pair, key)
	EOF
}

# By thread, the tool and the program pair the same starts and stops.
check_threads() { # BOOKS NAME...
	holds python3 - "$TMP" "$@" <<-'EOF'
		import json, sys
		out, books, *names = sys.argv[1:]
		line, = (line for line in books.splitlines() if line.startswith("thread "))
		for name in names:
		    pair = json.loads(open(f"{out}/out.{name}").read().splitlines()[-1])["pairs"][0]
		    seen = "thread " + " ".join(f"{n}={pair[n]}" for n in ("count", "mismatched", "orphan_starts", "orphan_stops", "open"))
		    assert seen == line, (name, seen, line)
	EOF
}

# Each route has its own times.
check_routes() { # BOOKS NAME...
	holds python3 - "$TMP" "$@" <<-'EOF'
		import json, sys
		out, books, *names = sys.argv[1:]
		routes = {}
		for line in books.splitlines():
		    if line.startswith("route "):
		        _, route, *fields = line.split()
		        routes[route] = {n: int(v) for n, v in (field.split("=") for field in fields)}
		for name in names:
		    total = json.loads(open(f"{out}/out.{name}").read().splitlines()[-1])
		    groups = {g["value"]: g for g in total["groups"] if "start" in g}
		    assert groups.keys() == {r for r in routes if routes[r]["count"]}, (name, groups)
		    for route, group in groups.items():
		        book = routes[route]
		        assert group["count"] == book["count"], (name, route, group, book)
		        assert book["within_ns"] <= group["sum_ns"] <= book["around_ns"], (name, route, group, book)
		        assert group["min_ns"] <= book["shortest_ns"] and group["max_ns"] >= book["longest_ns"], (name, route, group, book)
		        assert group["p99_ns"] <= 1.13 * group["max_ns"]
		    pair = total["pairs"][0]
		    assert sum(g["sum_ns"] for g in groups.values()) == pair["sum_ns"], (name, groups, pair)
	EOF
}

check_concurrent() { # CONCURRENT
	local pair=request_start,request_done books
	build_served
	start_served "$1"
	measuring found --json --time "$pair"
	measuring key --json --time "$pair" --key rid
	measuring texts --json --time query_start,query_done
	measuring slower --json --time "$pair" --slower 0 --limit 0
	measuring stack --json --time "$pair" --stack
	measuring routes --json --time "$pair" --key rid --by route
	measuring found_routes --json --time "$pair" --by route
	measuring thread --json --time "$pair" --key none
	measuring depth --json --time "$pair" --depth 32
	measuring thread_slower --json --time "$pair" --key none --slower 0 --limit 0
	measuring thread_routes --json --time "$pair" --key none --by route
	measuring thread_stack --json --time "$pair" --key none --stack
	measuring inside --json --time "$pair" --engine inside
	go_measured
	books=$(<"$(output_of)")
	check_keyed "$books" found key slower stack routes found_routes inside
	check_routes "$books" routes found_routes
	check_threads "$books" thread depth thread_slower thread_routes thread_stack
	eq "$(grep -c "$FOUND" "$TMP/err.found")" 1 "$(<"$TMP/err.found")"
	eq "$(grep -c "$FOUND" "$TMP/err.inside")" 1 "$(<"$TMP/err.inside")"
	matches "$(<"$TMP/err.texts")" 'matched by an argument of both probes: query_start,query_done by text '
	eq "$(cat "$TMP"/err.{key,thread} | grep -c "matched by" || :)" 0 "it was asked for"
	matches "$(<"$TMP/err.depth")" 'matched by thread, but .* contains Lwt, .* leave out --depth: both probes have rid'
	# A slow pair has the start and the stop of one request, by key.
	holds python3 - "$TMP" <<-'EOF'
		import json, sys
		def slow(name):
		    lines = map(json.loads, open(f"{sys.argv[1]}/out.{name}"))
		    return [(o["started"]["named"]["rid"], o["stopped"]["named"]["rid"]) for o in lines if o["type"] == "slow"]
		assert slow("slower") and all(a == b for a, b in slow("slower")), slow("slower")
	EOF
	quit_target
}

test_2_requests() {
	check_concurrent 2
}

test_20_requests() {
	check_concurrent 20
}

test_200_requests() {
	check_concurrent 200
}

# What attach says.
said() { # FLAG...
	"$TOOL" attach -pid "$TARGET" "$@" --for 1ms 2>"$TMP/said" >"$TMP/measured"
	cat "$TMP/said"
}

# Of several arguments: an id, an int, one of unknown type, a string; and no bool.
test_choice() {
	local pair found
	build_served
	start_served 2
	while read -r pair found; do
		eq "$(said --time "${pair}_start,${pair}_done" | sed -n 's/.*matched by an argument of both probes: .* by \([a-z_]*\) .*/\1/p')" \
			"$found" "$pair"
	done <<-'EOF'
		ids user_id
		ints n
		any rest
		texts text
		bools
	EOF
	matches "$(said --time bools_start,bools_done)" 'warning: bools_start,bools_done: matched by thread, but '
	# Each pair has a key of its own, and another key is for all.
	matches "$(said --time ids_start,ids_done --time ints_start,ints_done --time bools_start,bools_done)" \
		'ids_start,ids_done by user_id; ints_start,ints_done by n \(--key none'
	eq "$(said --time ids_start,ids_done --time ints_start,ints_done --key rest | grep -c "matched by" || :)" 0
	quit_target
}

# Inside, ints are keys.
test_keys_inside() {
	local pair=request_start,request_done
	build_served
	start_served 20
	check_error 4 "probe 'query_start': text is a string, and the engine .inside. matches by ints" \
		attach -pid "$TARGET" --time query_start,query_done --key text --engine inside
	check_error 2 "no argument 'rid' for the key: it has text" attach -pid "$TARGET" --time query_start,query_done --key rid --engine inside
	matches "$(said --engine inside --time query_start,query_done)" \
		'warning: query_start,query_done: matched by thread, since the engine `inside` cannot match by text, which both probes have: use --engine bpf'
	matches "$(said --engine inside --time other_start,other_done)" \
		'matched by thread, but .*: give both probes an argument of the same name, an int, or use --key argN'
	matches "$(said --engine auto --time query_start,query_done --key text)" 'engine: bpf, since inside is not possible: .*text is a string'
	measuring key --json --time "$pair" --key rid --engine inside
	go_measured
	check_keyed "$(<"$(output_of)")" key
	quit_target
}

# By thread, and a key that is no int: nothing is matched by it, and the output says so.
test_threads_inside() {
	local pair=request_start,request_done
	build_served
	start_served 20
	measuring thread --json --time "$pair" --key none --engine inside
	go_measured
	eq "$(python3 -c '
import json, sys
pair = json.loads(open(sys.argv[1]).read().splitlines()[-1])["pairs"][0]
print(*(f"{n}={pair[n]}" for n in ("count", "orphan_starts", "orphan_stops", "open")))' "$TMP/out.thread")" \
		"$(sed -n 's/^thread //p' "$(output_of)" | sed 's/ mismatched=[0-9]*//')"
	quit_target
}

# Without a name in common, a warning names the library and the remedy.
check_warning() {
	local said
	start_served 2
	eq "$(said --time other_start,other_done | sed -n 's/.*contains/contains/p')" \
		"contains Lwt, which runs many requests in one thread: give both probes an argument of the same name, or use --key argN"
	said=$(said --time other_start,other_done --time request_start,other_done --time query_start,query_done)
	matches "$said" 'warning: other_start,other_done and 1 more pair: matched by thread, but '
	matches "$said" 'matched by an argument of both probes: query_start,query_done by text '
	eq "$(said --time other_start,other_done --key none | grep -c "matched by" || :)" 0
	eq "$(said -quiet --time other_start,other_done)" ""
	quit_target
}

# With all symbols; with those that plugins need; and without any.
test_warning() {
	build_served
	check_warning
	strip --strip-all "$TMP/served"
	check_warning
	build_served -ccopt -static
	strip --strip-all "$TMP/served"
	eq "$(readelf -SW "$TMP/served" | grep -cE "dynsym|symtab" || :)" 0 "symbols"
	check_warning
}

book() { # NAME
	sed -n "s/^thread .*$1=\([0-9]*\).*/\1/p" "$(output_of)"
}

# serve and top find the key, too, and say so once; they show what is mismatched by thread.
test_watching() {
	local pair=request_start,request_done
	build_served
	start_served 20
	start_server -pid "$TARGET" --time "$pair"
	eq "$(grep -c "$FOUND" "$TMP/serve.err")" 1 "$(<"$TMP/serve.err")"
	end_server
	start_server -pid "$TARGET" --time "$pair" --key none
	eq "$(grep -c "matched by" "$TMP/serve.err" || :)" 0 "$(<"$TMP/serve.err")"
	background env -u TERM "$TOOL" top -pid "$TARGET" --time "$pair" --key none --batch 600 >"$TMP/top.out" 2>"$TMP/top.err"
	wait_for 'grep -q "$pair" "$TMP/top.out"'
	tell go
	await_line end 60
	wait_for '[[ $(get metrics | sed -n "s/^ocaml_probes_pair_mismatched_total{.*} //p") = "$(book mismatched)" ]]'
	get api/v1/status >"$TMP/status"
	eq "$(python3 -c '
import json, sys
(target,) = json.load(open(sys.argv[1]))["targets"]
print(target["pairs"][0]["mismatched"], "times are wrong" in target["pairs"][0]["note"])' "$TMP/status")" "$(book mismatched) True"
	wait_for '[[ $(awk "\$9 == \"$pair\" { print \$7 }" "$TMP/top.out" | tail -n 1) = "$(book mismatched)" ]]'
	end_server
	quit_target
}

# The table and CSV.
test_outputs() {
	local pair=request_start,request_done
	build_served
	start_served 20
	measuring table --time "$pair" --key none
	measuring csv --csv --time "$pair" --key none
	go_measured
	eq "$(sed -n "s/^$pair: mismatched //p" "$TMP/out.table")" "$(book mismatched)"
	matches "$(<"$TMP/out.table")" "note: $pair: 100% of its times are wrong: they begin with one request"
	eq "$(python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert all(None not in row and None not in row.values() for row in rows), rows
print(*(row["mismatched"] for row in rows if row["kind"] == "pair"))' "$TMP/out.csv")" "$(book mismatched)"
	quit_target
}

# The page has the folded graph, too, and shows it first without --unfold; pprof and the folded form have all.
check_page() {
	local flag
	for flag in -q --unfold; do
		"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 10ms --folded --html "$TMP/page.html" --pprof "$TMP/pprof" \
			"$flag" >"$TMP/folded" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		finds 'Lwt_main\.run' "$TMP/folded"
		eq "$(grep -c '\[Lwt\]' "$TMP/folded" || :)" 0 "$(<"$TMP/folded")"
		eq "$(zcat "$TMP/pprof" | grep -ac '\[Lwt\]' || :)" 0 "pprof"
		holds python3 - "$TMP/page.html" "$flag" <<'PY'
import json, sys
data = json.loads(open(sys.argv[1]).read().split('id="data">')[1].split("</script>")[0])
names = lambda graph: {data["frames"][number][0] for stack in graph["stacks"] for number in stack[2:]}
assert data["profile"].get("unfolded", False) == (sys.argv[2] == "--unfold"), data["profile"]
assert data["folded"]["libraries"] == "[Lwt]", data["folded"]
assert "Lwt_main.run" in names(data) and "[Lwt]" not in names(data), data
assert "[Lwt]" in names(data["folded"]) and "Lwt_main.run" not in names(data["folded"]), data
PY
	done
}

# The functions of Lwt are one row, and one frame of a stack; --unfold shows each.
test_folded() {
	ocamlfind query lwt.unix >/dev/null 2>&1 || skip "liblwt-ocaml-dev is missing"
	cat >"$TMP/sleeper.ml" <<-'ML'
		let[@inline never] serve () = Lwt_main.run (Lwt_unix.sleep 3600.); ignore (Sys.opaque_identity 1)
		let () = serve ()
	ML
	(cd "$TMP" && ocamlfind ocamlopt -thread -g -package lwt.unix -linkpkg sleeper.ml -o sleeper 2>build.err) ||
		fail "$(<"$TMP/build.err")"
	start_target "$TMP/sleeper"
	wait_for "grep -q '^232 ' /proc/$TARGET/syscall"
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 10ms >"$TMP/folded" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	"$TOOL" profile -pid "$TARGET" --off-cpu --engine ptrace --for 10ms --unfold >"$TMP/unfolded" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(grep -c '^   0.0%  100.0%  \[Lwt\]$' "$TMP/folded")" 1 "$(<"$TMP/folded")"
	eq "$(grep -cE '^ +\[Lwt\]$' "$TMP/folded")" 1 "the frame: $(<"$TMP/folded")"
	finds -x 'functions of a library in a row are one here: \[Lwt\]; --unfold shows them' "$TMP/folded"
	eq "$(grep -c 'Lwt_main\.' "$TMP/folded" || :)" 0 "$(<"$TMP/folded")"
	eq "$(grep -c '\[Lwt\]' "$TMP/unfolded" || :)" 0 "$(<"$TMP/unfolded")"
	finds 'Lwt_main.run' "$TMP/unfolded"
	check_error 2 'profile: --unfold: only for the table and for --html$' profile -pid "$TARGET" --unfold --json
	check_page
}

run_tests "$@"
