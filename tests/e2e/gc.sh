#!/usr/bin/env bash
# `gc`: the figures of the collector, against what the program itself says of them at the same moment.
# The compiler is the one in PATH; tools/matrix runs this with others.
#
# needs: fixtures ocaml
# ocaml5: all
# smoke: test_pie
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

has_domains() {
	[[ $(ocamlopt -version 2>/dev/null) = 5.* ]]
}

# OCaml 5.0 and 5.1 never compact: Gc.quick_stat says 0, and the runtime has no such figure.
has_compactions() {
	[[ $(ocamlopt -version 2>/dev/null) != 5.[01].* ]]
}

# Have the target do WORK, one of its words.
have_done() { # WORK...
	local word
	for word; do
		forget_output
		tell "$word"
		await_line finished 60
	done
}

# The figures that the tool reads of the target, as "NAME FIGURE" lines.
figures() {
	"$TOOL" gc -pid "$TARGET" --for 1ms --json >"$TMP/json"
	python3 - "$TMP/json" <<'PY'
import json, sys
top = json.loads(open(sys.argv[1]).readlines()[-1])
assert top["type"] == "total", top
for name, figure in top["gauges"].items():
    print(name, figure)
PY
}

# Have the target take its figures and wait; compare the tool's with them.
check_figures() { # WHAT
	forget_output
	tell stat
	await_line waiting
	figures | sort >"$TMP/tool"
	tell ''
	await_line end
	grep '^[a-z_]* [0-9]*$' "$(output_of)" | grep -v '^quick_' | sort >"$TMP/program"
	[[ $(wc -l <"$TMP/program") -eq 8 ]] || fail "the program said: $(cat "$(output_of)")"
	if ! has_compactions; then
		eq "$(figure compactions)" 0 "compactions"
		sed -i /^compactions/d "$TMP/program"
	fi
	eq "$(<"$TMP/tool")" "$(<"$TMP/program")" "figures of the tool, $1"
}

figure() { # NAME
	sed -n "s/^$1 //p" "$TMP/program"
}

check_program() { # FILE
	local before quick_minor quick_major
	start_target "$1"
	await_line ready
	check_figures "at the start"
	before=$(figure minor_words)
	have_done work
	check_figures "after work"
	[[ $(figure minor_words) -gt $((before + 1000000)) ]] || fail "it has not worked"
	[[ $(figure promoted_words) -gt 0 && $(figure minor_collections) -gt 0 ]] || fail "nothing was promoted"
	quick_minor=$(sed -n 's/^quick_minor_words //p' "$(output_of)")
	quick_major=$(sed -n 's/^quick_major_words //p' "$(output_of)")
	# OCaml 5 leaves out of Gc.quick_stat, but not of Gc.minor_words and Gc.counters, the minor
	# heap and what was allocated since the last slice. In OCaml 4, only its own result comes on
	# top: a block of 17 fields and 3 floats.
	if has_domains; then
		[[ $quick_minor -le $(figure minor_words) && $quick_major -le $(figure major_words) ]] ||
			fail "Gc.quick_stat exceeds the figures"
	else
		eq "$(($(figure minor_words) - quick_minor)) $quick_major" "24 $(figure major_words)" "Gc.quick_stat"
	fi
	have_done work major compact
	check_figures "after a compaction"
	[[ $(figure major_collections) -gt 0 ]] || fail "no major cycle"
	! has_compactions || [[ $(figure compactions) -gt 0 ]] || fail "no compaction"
	quit_target
}

test_pie() {
	compile_source pie gauges -ccopt -pie
	check_program "$TMP/pie"
}

test_not_pie() {
	compile_source fixed gauges -ccopt -no-pie
	check_program "$TMP/fixed"
}

test_stripped() {
	compile_source stripped gauges
	strip "$TMP/stripped"
	check_program "$TMP/stripped"
}

test_static() {
	compile_source static gauges -ccopt -static
	check_program "$TMP/static"
}

# OCaml 5: the figures of each domain, and sums that include domains that have ended.
check_domains() { # FILE
	local least
	start_target "$1"
	await_line waiting 60
	"$TOOL" gc -pid "$TARGET" --for 1ms --json >"$TMP/json"
	"$TOOL" gc -pid "$TARGET" --for 1ms >"$TMP/table"
	tell ''
	await_line end
	python3 - "$TMP/json" <<'PY' >"$TMP/tool"
import json, sys
top = json.loads(open(sys.argv[1]).read())
for domain in top["domains"]:
    print("domain", domain["domain"], *(f"{name} {domain[name]}" for name in ("minor_words", "promoted_words", "major_words")))
for name in ("promoted_words", "heap_words", "top_heap_words", "minor_collections", "major_collections"):
    print(name, top["gauges"][name])
assert top["gauges"]["heap_words"] >= sum(domain["heap_words"] for domain in top["domains"])
PY
	grep '^domain\|_words\|_collections' "$(output_of)" >"$TMP/book"
	# From OCaml 5.4 on, Gc.quick_stat leaves out the words of an ended domain until another domain uses its place.
	if [[ $(ocamlopt -version) = 5.[45]* ]]; then
		[[ $(sed -n 's/^promoted_words //p' "$TMP/tool") -ge $(sed -n 's/^promoted_words //p' "$TMP/book") ]] ||
			fail "promoted words: $(cat "$TMP/tool" "$TMP/book")"
		sed -i /^promoted_words/d "$TMP/tool" "$TMP/book"
	fi
	eq "$(sort "$TMP/tool")" "$(sort "$TMP/book")" "figures"
	eq "$(grep -c ^domain "$TMP/tool")" 4 "domains"
	# The sum of OCaml lacks what is in the minor heaps, which is little right after a collection.
	least=$(sed -n 's/^at least //p' "$(output_of)")
	python3 - "$TMP/json" "$least" <<'PY'
import json, sys
top = json.loads(open(sys.argv[1]).read())
least, domains = int(sys.argv[2]), sum(domain["minor_words"] for domain in top["domains"])
# The five domains do the same work; from OCaml 5.4 on, the sum of OCaml lacks the last one that ended.
lacks = 0 if top["ocaml"] < "5.4" else top["domains"][2]["minor_words"]
assert least + lacks - 10000 <= top["gauges"]["minor_words"] < least + lacks + 10000, (least, top)
assert least <= top["gauges"]["minor_words"], (least, top)
assert top["gauges"]["minor_words"] > domains + 1000000, "the domain that has ended is missing"
PY
	eq "$(grep -c '^ *[0-9]\+ \+[0-9]' "$TMP/table")" 4 "domains in the table: $(<"$TMP/table")"
	await_exit
}

await_exit() {
	wait "$TARGET" || fail "the program ended with status $?"
}

if has_domains; then
	test_domains() {
		compile_source domains gauges_domains
		check_domains "$TMP/domains"
		strip "$TMP/domains"
		check_domains "$TMP/domains"
	}
fi

# What is read while the program works never decreases, and its end is no error.
test_while_it_works() {
	local status=0
	compile_source busy gauges
	start_target "$TMP/busy"
	await_line ready
	tell go
	await_line going
	background "$TOOL" gc -pid "$TARGET" --interval 1ms --json >"$TMP/json" 2>"$TMP/err"
	wait_for '[[ $(wc -l <"$TMP/json") -gt 100 ]]'
	let_work 50
	kill -INT $!
	wait $! || fail "$(<"$TMP/err")"
	python3 - "$TMP/json" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) > 100, len(lines)
assert [line["type"] for line in lines] == ["interval"] * (len(lines) - 1) + ["total"]
rising = ["minor_words", "promoted_words", "major_words", "minor_collections", "major_collections", "top_heap_words"]
for name in rising:
    series = [line["gauges"][name] for line in lines]
    assert series == sorted(series), (name, series)
total = lines[-1]
assert total["gauges"]["minor_words"] > lines[0]["gauges"]["minor_words"] + 1000000, lines
assert total["gauges"]["promoted_words"] <= total["gauges"]["major_words"], total
assert total["gauges"]["heap_words"] <= total["gauges"]["top_heap_words"], total
assert total["per_second"]["minor_words"] > 1000000, total
for line in lines:
    # No more than the kernel has given to the program.
    assert 0 < line["gauges"]["heap_words"] < 1 << 30, line
PY
	background "$TOOL" gc -pid "$TARGET" --interval 50ms >"$TMP/table" 2>"$TMP/err"
	wait_for '[[ -s $TMP/table ]]'
	kill "$TARGET"
	wait $! || status=$?
	eq "$status" 0 "status at the end of the program: $(<"$TMP/err")"
	eq "$(<"$TMP/err")" "ocaml-probes: pid $TARGET has ended" "what it says"
	matches "$(<"$TMP/table")" "minor words +[0-9]{6,} +[0-9]+ +[0-9]+" "the last figures"
}

test_refusals() {
	local dead
	sleep 100 &
	# It has executed sleep, and sleeps.
	wait_for "grep -qx 'Name:.sleep' /proc/$!/status && grep -q '^State:.S' /proc/$!/status"
	check_error 1 "contains no OCaml runtime" gc -pid $!
	kill $!
	true &
	dead=$!
	wait "$dead"
	check_error 5 "pid $dead: no such process" gc -pid "$dead"
	check_error 2 "pid is required" gc
}

# The figures of the program before it executed another one; they are no figures of that.
test_an_exec() {
	local status=0
	compile_source exec gauges
	start_target bash -c "exec $TMP/exec"
	await_line ready
	check_figures "after an exec"
	background "$TOOL" gc -pid "$TARGET" --interval 10ms --json >"$TMP/json" 2>"$TMP/err"
	wait_for '[[ -s $TMP/json ]]'
	tell exec
	wait $! || status=$?
	eq "$status" 5 "status: $(<"$TMP/err")"
	eq "$(<"$TMP/err")" "ocaml-probes: pid $TARGET: has ended, or runs another program now" "what it says"
	matches "$(tail -n 1 "$TMP/json")" '"type":"total"'
	check_error 1 "/sleep: not an OCaml program: it contains no OCaml runtime" gc -pid "$TARGET"
	kill "$TARGET"
}

test_another_user() {
	need_root
	need_command setpriv
	compile_source mine gauges
	chmod 711 "$(dirname "$TMP")" "$TMP"
	cp "$TOOL" "$TMP/ocaml-probes"
	start_target "$TMP/mine"
	await_line ready
	! setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/ocaml-probes" gc -pid "$TARGET" >"$TMP/out" 2>"$TMP/err" ||
		fail "another user may read it"
	eq "$(<"$TMP/out")" "" "standard output"
	matches "$(head -n 1 "$TMP/err")" "pid $TARGET \(mine\): belongs to uid 0, you are uid 65534"
	eq "$(wc -l <"$TMP/err")" 2 "lines"
	quit_target
}

run_tests "$@"
