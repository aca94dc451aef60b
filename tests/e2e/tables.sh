#!/usr/bin/env bash
# Which rows a table has, in which order, and the time of the day: --top, --sort, --all, --time-of-day.
#
# needs: fixtures ocaml/counted ocaml/loop ocaml/service
# smoke: test_zeros_are_hidden
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# `counted` goes 50 rounds: 150 hits of in_loop, and probes that are never hit.
start_counted() {
	need_counting
	start_target "$(own_copy "$O/tests/ocaml/counted")" 50 1
	await_line ready
}

# Count until the program has ended; what is said is in $TMP/out and $TMP/err.
count() { # FLAG...
	start_counted
	background "$TOOL" attach "$TARGET" "$@" >"$TMP/out" 2>"$TMP/err"
	COUNTING=$!
	wait_for 'grep -qE "(counting|measuring) [0-9]* probes?" "$TMP/err" || ! kill -0 "$COUNTING"'
	tell go
	tell quit
	finish_target
	wait "$COUNTING" || fail "status $?: $(<"$TMP/err")"
}

# "NAME HITS" of the rows of the table.
rows() {
	sed -nE 's/^([A-Za-z0-9_]+|\([0-9a-z ]+\)) +([0-9]+) +[0-9.]+$/\1 \2/p' "$TMP/out"
}

all_hits() {
	expected_hits | awk '{ n += $2 } END { print n }'
}

test_zeros_are_hidden() {
	local zeros
	count --count
	zeros=$(expected_hits | awk '$2 == 0' | wc -l)
	[[ $zeros -eq 1 ]] || fail "$zeros probes of the program are never hit"
	eq "$(rows)" "$(expected_hits | awk '$2 > 0'; echo "(all) $(all_hits)")" "rows"
	grep -qx "1 probe without hits is hidden; --all shows it" "$TMP/out" || fail "$(<"$TMP/out")"
	count --count --all
	eq "$(rows)" "$(expected_hits; echo "(all) $(all_hits)")" "rows, --all"
	! grep hidden "$TMP/out" || fail "$(<"$TMP/out")"
	# Programs read all of them.
	count --count --csv
	eq "$(awk -F, '$4 == "probe" { print $5, $11 }' "$TMP/out")" "$(expected_hits)" "csv"
	count --count --json
	eq "$(cp "$TMP/out" "$TMP/counts"; totals)" "$(expected_hits)" "json"
}

# Who names a probe wants to know.
test_a_named_zero_is_shown() {
	local zero
	count --count
	zero=$(expected_hits | awk '$2 == 0 { print $1; exit }')
	count --count in_loop,"$zero"
	eq "$(rows | sort)" "$({ expected_hits | grep -E "^(in_loop|$zero) "; echo "(all) $(expected_hits | sed -n 's/^in_loop //p')"; } | sort)"
	count --count "$zero"
	eq "$(rows)" "$zero 0" "the only row"
}

test_top_and_order() {
	local by_hits most
	count --count --top 2
	by_hits=$(expected_hits | sort -s -k2,2nr)
	most=$(head -n 2 <<<"$by_hits")
	eq "$(rows)" "$most
($(($(expected_hits | awk '$2 > 0' | wc -l) - 2)) others) $(($(all_hits) - $(awk '{ n += $2 } END { print n }' <<<"$most")))
(all) $(all_hits)" "the top"
	count --count --top 1 --sort name --all
	eq "$(rows | sed -n 1p)" "$(expected_hits | head -n 1)" "the first by name"
	count --count --sort hits --all
	eq "$(rows)" "$(expected_hits | sort -s -k2,2nr; echo "(all) $(all_hits)")" "by hits"
	count --count --sort name --all
	eq "$(rows)" "$(expected_hits; echo "(all) $(all_hits)")" "by name"
}

# Time both pairs of the service until it has worked for a while.
time_service() { # FLAG...
	background "$TOOL" attach --budget none "$TARGET" --key none --time request_done,request_start --time request_start,request_done "$@" \
		>"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" "measuring [0-9]* probes"'
	let_work 10
	kill -INT $!
	wait $!
}

# The pair that takes longer comes first, whichever was given first.
test_pairs_by_time() {
	local slow=request_start,request_done order column
	need_counting
	start_target "$(own_copy "$O/tests/ocaml/service")"
	wait_for 'finds -wx "request_start disabled" < <("$TOOL" info "$TARGET" 2>&1)'
	for order in p99,7 sum,10; do
		column=${order#*,}
		time_service --sort "${order%,*}"
		eq "$(awk '/^request_/ && NF == 10 { print $1 }' "$TMP/out" | sort)" "request_done,request_start
$slow" "pairs"
		# In microseconds, the larger one first.
		awk -v column="$column" 'function us(t) { return t ~ /ns$/ ? t / 1000 : t ~ /us$/ ? t + 0 : t ~ /ms$/ ? t * 1000 : t * 1000000 }
			/^request_/ && NF == 10 { p[++n] = us($column) } END { exit !(n == 2 && p[1] >= p[2]) }' "$TMP/out" ||
			fail "$(<"$TMP/out")"
	done
	time_service --top 1
	eq "$(grep -c '^(1 other pair)$' "$TMP/out")/$(grep -c ': orphan starts ' "$TMP/out")" 1/1 "$(<"$TMP/out")"
}

test_of_kept_meters() {
	local name=ocp_test_$PPID
	need_counting
	trap '"$TOOL" detach "'"$name"'" >/dev/null 2>&1 || :' EXIT
	start_counted
	"$TOOL" attach "$TARGET" --count --keep "$name" -q
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	finish_target
	"$TOOL" read "$name" --top 1 >"$TMP/out"
	eq "$(rows | sed -n 1p)" "$(expected_hits | sort -s -k2,2nr | head -n 1)" "read --top 1"
	"$TOOL" detach "$name" --all --sort hits >"$TMP/out"
	eq "$(rows)" "$(expected_hits | sort -s -k2,2nr; echo "(all) $(all_hits)")" "detach --all"
}

# The clock is date's: a hit is printed between two readings of it.
test_time_of_day() {
	local before after
	need_counting
	start_target "$(own_copy "$O/tests/ocaml/loop")"
	await_line ready
	export TZ=Asia/Kolkata
	before=$(date +%s%N)
	"$TOOL" attach --budget none "$TARGET" --print alpha --limit 2 --time-of-day --interval 100ms --for 2s -q >"$TMP/out"
	"$TOOL" attach --budget none "$TARGET" --print alpha --limit 2 --time-of-day --for 1s -q --json >"$TMP/json"
	"$TOOL" attach --budget none "$TARGET" --print alpha --count --limit 2 --time-of-day --for 1s -q --csv >"$TMP/csv"
	after=$(date +%s%N)
	{
		# Half past: the offset of the zone is that of the texts.
		grep -oE '^[0-9:]{8}\.[0-9]{6} [0-9]+/[0-9]+ loop alpha' "$TMP/out" | sed 's/ .*//'
		sed -nE 's/^([0-9:]{8}\.[0-9]{3})  (total, )?[0-9.]+ s$/\1/p' "$TMP/out"
	} | while read -r text; do date -d "$(date -d "@${before:0:10}" +%F) $text" +%s%N; done >"$TMP/times"
	[[ $(wc -l <"$TMP/times") -ge 5 ]] || fail "$(<"$TMP/out")"
	grep -o '"time":"[^"]*"' "$TMP/json" | cut -d'"' -f4 | while read -r text; do date -d "$text" +%s%N; done >>"$TMP/times"
	sed 1d "$TMP/csv" | sed 's/.*,//' | while read -r text; do date -d "$text" +%s%N; done >>"$TMP/times"
	[[ $(wc -l <"$TMP/times") -ge 11 ]] || fail "$(cat "$TMP/json" "$TMP/csv")"
	# Texts are cut, to a millisecond; at midnight the local ones are of another day.
	awk -v before="$before" -v after="$after" '{ t = $1 + 86400e9 * ($1 < before - 43200e9) }
		t < before - 1e6 || t > after { print; bad = 1 } END { exit bad }' "$TMP/times" ||
		fail "not between $before and $after"
	eq "$(awk -F, 'NR == 1 { n = NF; print $NF } NF != n' "$TMP/csv")" time "columns"
	eq "$("$TOOL" attach "$TARGET" --print alpha --limit 1 --for 50ms -q --csv | head -n 1)" \
		"$(head -n 1 "$TMP/csv" | sed 's/,time$//')" "columns without it"
}

test_mistakes() {
	start_counted
	check_error 2 "--top '0': not a number of rows" attach "$TARGET" --count --top 0
	check_error 2 "--top '-1': not a number of rows" attach "$TARGET" --count --top -1
	check_error 2 "--sort 'size': not hits, name, p99 or sum" attach "$TARGET" --count --sort size
	check_error 2 "--top and --sort are for tables" attach "$TARGET" --count --top 3 --json
	check_error 2 "--top and --sort are for tables" read x --sort name --csv
	check_error 2 "--top and --sort need --count or --time" attach "$TARGET" --print in_loop --top 3
	check_error 2 "--sort p99 needs --time" attach "$TARGET" --count --sort p99
	check_error 2 "--sort sum needs --time" attach "$TARGET" --count --sort sum
	check_error 2 "--all needs --count" attach "$TARGET" --print in_loop --all
	check_error 2 "--time-of-day needs --interval, --print or --slower" attach "$TARGET" --count --time-of-day
	check_error 2 "--keep excludes --top" attach "$TARGET" --count --keep x --top 3
}

run_tests "$@"
