#!/usr/bin/env bash
# --hist of floats: boxed, in fields, on the stack, by name and by position, and mixed with ints, against
# the program's own books (tests/ocaml/floats.ml).
#
# needs: fixtures ocaml/floats ocaml/floats_plain
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

ROUNDS=600
TEST_TIMEOUT=$((180 + 30 * ${SEEDS:-1}))

# Uprobes are on a copy.
start_floats() { # [SUFFIX]
	need_counting
	cp "$O/tests/ocaml/floats${1:-}" "$TMP/floats"
	start_target "$TMP/floats" "$ROUNDS" "${SEED:-1}"
	await_line ready
}

# Are the histograms of PROBE in the outputs of IDs those of the books?
same_books() { # PROBE ID...
	local probe=$1
	shift
	compare_with_books floats "$(output_of)" "$probe" "${@/#/$TMP/out.}"
}

check_form() { # [SUFFIX]
	start_floats "${1:-}"
	measuring name --count=boxed --hist x --json
	measuring position --count=boxed --hist arg1 --json
	measuring field --count=field --hist total --json
	measuring field0 --count=field --hist arg0 --json
	measuring stored --count=stored --hist stored --json
	measuring mixed --count=mixed --hist it --json
	measuring ints --count=boxed --hist n --json
	go_measured
	same_books boxed name position
	eq "$(<"$TMP/compared")" "0 $ROUNDS 0"
	same_books field field field0
	eq "$(<"$TMP/compared")" "0 $ROUNDS 0"
	same_books stored stored
	eq "$(<"$TMP/compared")" "0 $ROUNDS 0"
	same_books mixed mixed
	eq "$(<"$TMP/compared")" "$((ROUNDS / 5 * 3)) $((ROUNDS / 5)) $((ROUNDS / 5))"
	eq "$(tail -n 1 "$TMP/out.ints" | python3 -c '
import json, sys
h = json.load(sys.stdin)["histograms"][0]
print(h["arg_name"], h["count"], h["sum"], h["not_int"], h.get("floats"))')" \
		"n $ROUNDS $((ROUNDS * (ROUNDS - 1) / 2)) 0 None"
}

test_books() { check_form; }
test_books_of_dormant_probes() { check_form _plain; }

# Not boxed: in the record, and on the stack.
test_places() {
	eq "$("$TOOL" list -prog "$O/tests/ocaml/floats" --args |
		awk '$1 == "field" || $1 == "stored" { sub(/%.*/, "", $7); sub(/^-?[0-9]+\(/, "(", $7); print $1, $5 }' | sort)" \
		"field total
stored stored"
}

# What measures it besides has a program of its own in the kernel.
test_with_other_options() {
	start_floats
	measuring filter --count=boxed --hist x --filter 'n >= 0' --json
	measuring by --count=boxed --by n --hist x --json
	measuring slower --count=boxed --time begun,ended --slower 100s --hist x --json
	measuring key --count=boxed --time begun,ended --key n --hist x --json
	measuring stack --count=boxed --stack=2 --hist x --json
	measuring print --count=boxed --print boxed --limit 1 --hist x --json
	measuring thread --count=boxed --by-thread --hist x --json
	go_measured
	same_books boxed filter by slower key stack print thread
	eq "$(<"$TMP/compared")" "0 $ROUNDS 0"
}

# The histograms of intervals add up to that of all, if an interval begins after the last hit.
test_intervals_add_up() {
	local before probe
	ROUNDS=5000 start_floats
	measuring boxed --count=boxed --hist x --interval 20ms --json
	measuring field --count=field --hist total --interval 20ms --json
	wait_for "[[ \$(wc -l <$TMP/out.boxed) -ge 2 && \$(wc -l <$TMP/out.field) -ge 2 ]]" 60
	tell go
	await_line end 60
	for probe in boxed field; do
		before=$(wc -l <"$TMP/out.$probe")
		wait_for "[[ \$(wc -l <$TMP/out.$probe) -ge $((before + 2)) ]]" 60
	done
	end_measurements
	same_books boxed boxed
	same_books field field
	holds python3 - "$TMP/out.boxed" "$TMP/out.field" <<-'EOF2'
		import json, math, sys
		from collections import Counter

		def check(path):
		    *spans, total = map(json.loads, open(path))
		    assert [span["type"] for span in spans] == ["interval"] * len(spans) and total["type"] == "total"
		    counts, buckets, sums = Counter(), Counter(), []
		    for histogram in (span["histograms"][0] for span in spans):
		        floats = histogram.get("floats")
		        assert floats or histogram["not_int"] == 0, histogram
		        if not floats:
		            continue
		        counts.update({name: floats[name] for name in ("count", "nan", "inf", "minus_inf")})
		        buckets.update({str(b["from"]): b["count"] for b in floats["buckets"]})
		        if not floats["count"]:
		            assert floats["sum"] == floats["mean"] == floats["min"] == floats["max"] == 0, floats
		            continue
		        sums.append(floats["sum"])
		        assert math.isclose(floats["mean"], floats["sum"] / floats["count"], rel_tol=1e-15), floats
		        # As far as the buckets tell.
		        first, last = floats["buckets"][0], floats["buckets"][-1]
		        below = math.inf if isinstance(last["below"], dict) else last["below"]
		        assert floats["min"] == first["from"] and last["from"] <= floats["max"] < below, floats
		        assert math.nextafter(floats["max"], below) == below, floats
		    floats = total["histograms"][0]["floats"]
		    assert dict(counts) == {name: floats[name] for name in counts}, (counts, floats)
		    assert dict(buckets) == {str(b["from"]): b["count"] for b in floats["buckets"]}, (buckets, floats)
		    # Each is rounded.
		    assert abs(math.fsum(sums) - floats["sum"]) <= 1e-15 * sum(map(abs, sums)), (sums, floats)

		for path in sys.argv[1:]:
		    check(path)
	EOF2
}

test_text() {
	local line
	ROUNDS=40 start_floats
	measuring mixed --count=mixed --hist it
	measuring boxed --count=boxed --hist x
	measuring csv --count=boxed --hist x --csv
	measuring json --count=boxed --hist x --json
	go_measured
	grep -Eq '^mixed it: 24 ints, mean .*, sum -?[0-9]+; not an int: 16$' "$TMP/out.mixed" || fail "$(<"$TMP/out.mixed")"
	grep -Eq '^mixed it: 8 floats, mean \S+, min \S+, max \S+, sum \S+; not a number: 8$' "$TMP/out.mixed" ||
		fail "$(<"$TMP/out.mixed")"
	line='^boxed x: 36 floats, mean \S+, min \S+, max \S+, sum \S+; nan: 1, inf: 1, -inf: 2; not a number: 0$'
	grep -Eq "$line" "$TMP/out.boxed" || fail "$(<"$TMP/out.boxed")"
	! grep -q ' ints' "$TMP/out.boxed" || fail "ints: $(<"$TMP/out.boxed")"
	# Exact zeros have a line; empty lines are left out where there are many.
	grep -Eq '^ +0 +2 \|@+ +\|$' "$TMP/out.boxed" || fail "$(<"$TMP/out.boxed")"
	grep -qx '  \.\.\.' "$TMP/out.boxed" || fail "$(<"$TMP/out.boxed")"
	eq "$(sed -n 's/^ .* \([0-9]\+\) |.*|$/\1/p' "$TMP/out.boxed" | awk "{ n += \$1 } END { print n }")" 36 "in lines"
	# Other formats say the same.
	python3 - "$TMP" <<-'EOF2'
		import csv, json, sys
		rows = list(csv.DictReader(open(sys.argv[1] + "/out.csv")))
		floats = json.loads(open(sys.argv[1] + "/out.json").read())["histograms"][0]["floats"]
		number = lambda x: float(x["float"]) if isinstance(x, dict) else x
		row, = [r for r in rows if r["kind"] == "float_histogram"]
		assert [float(row[k]) for k in ("count", "sum", "min", "max")] == [
		    float(number(floats[k])) for k in ("count", "sum", "min", "max")], row
		assert (row["name"], row["arg"], row["not_int"]) == ("boxed", "1", ""), row
		buckets = [(float(r["min"]), float(r["max"]), int(r["count"])) for r in rows if r["kind"] == "float_bucket"]
		expected = [(number(b["from"]), number(b["below"]), b["count"]) for b in floats["buckets"]]
		inf = float("inf")
		assert buckets[0] == (-inf, -inf, 2) and buckets[-2] == (inf, inf, 1), buckets
		assert [str(x) for x in buckets[-1]] == ["nan", "nan", "1"], buckets
		assert buckets[1:-2] == expected, (buckets, expected)
		row, = [r for r in rows if r["kind"] == "histogram"]
		assert (row["count"], row["not_int"]) == ("0", "40"), row
	EOF2
}

# Another seed each time: SEEDS=1000 for a long run.
test_other_seeds() {
	local seed
	for ((seed = 2; seed < 2 + ${SEEDS:-1}; seed++)); do
		SEED=$seed start_floats
		measuring name --count=boxed --hist x --json
		go_measured
		same_books boxed name
		quit_target
	done
}

run_tests "$@"
