#!/usr/bin/env bash
# The fixtures do what the other tests take for granted: their sites work when a byte is switched by
# hand, their counts are right, and readelf finds what they say they contain.
#
# needs: fixtures
. "$(dirname "$0")/lib.sh"

fixtures=$(cd "$ROOT/tests/fixtures" && echo *.S)
fixtures=${fixtures//.S/}

# Write one byte into TARGET's memory at link-time address VA.
poke() { # VA OCTAL_BYTE
	local bias=0 start exe
	exe=$(readlink "/proc/$TARGET/exe")
	if readelf -h "$exe" | finds 'Type:.*DYN'; then
		start=$(grep -m1 -F "$exe" "/proc/$TARGET/maps")
		bias=0x${start%%-*}
	fi
	printf "\\$2" | dd of="/proc/$TARGET/mem" bs=1 seek=$((bias + $1)) conv=notrunc status=none
}

# The probes' names and counts, after ROUNDS more rounds.
run_rounds() { # ROUNDS
	forget_output
	tell "go $1"
	await_line 'done'
	tell report
	await_line end
	grep handler= "$(output_of)"
}

switch_every_site() { # FIXTURE
	local variant=$1 vas va before after
	start_target "$O/tests/fixtures/$variant" --wait
	await_line ready
	before=$(run_rounds 10)
	vas=$("$O/tests/fixtures/$variant" --expect | sed -n 's/^site \(0x[1-9a-f][0-9a-f]*\) .*/\1/p')
	for va in $vas; do
		poke $((va + 1)) 350 # 0xe8
	done
	after=$(run_rounds 10)
	paste -d' ' <(echo "$before") <(echo "$after")
	for va in $vas; do
		poke $((va + 1)) 75 # 0x3d
	done
	# All but the semaphore-only site of started_on, whose semaphore nobody wrote.
	eq "$(run_rounds 10 | sed '/^started_on/d; s/ hits=.*//')" \
		"$(sed '/^started_on/d; s/ hits=.*//' <<<"$after")" "handlers after"
	quit_target
	eq "$TARGET_STATUS" 0
}

# Every site off: handlers do not run; on: they run once a pass.
check_switching() { # FIXTURE
	local lines line b_handler b_hits a_handler a_hits
	local re='handler=([0-9]+) hits=([0-9]+) .*handler=([0-9]+) hits=([0-9]+)'
	lines=$(switch_every_site "$1")
	while read -r line; do
		matches "$line" "$re"
		b_handler=${BASH_REMATCH[1]} b_hits=${BASH_REMATCH[2]}
		a_handler=${BASH_REMATCH[3]} a_hits=${BASH_REMATCH[4]}
		case $line in
		without_site*) eq "$b_handler $a_handler" "0 0" "$line" ;;
		both*) eq "$b_handler $((a_handler - b_handler))" "0 10" "$line" ;; # of 20: the site
		started_on*)
			[[ $b_handler -gt 0 ]] || fail "compiled as enabled, never ran: $line"
			;;
		*) eq "$b_handler $a_handler" "0 $((a_hits - b_hits))" "$line" ;;
		esac
		[[ $b_hits -gt 0 && $a_hits -eq $((2 * b_hits)) ]] || fail "hits: $line"
	done <<<"$lines"
}

for fixture in $fixtures; do
	[[ $fixture != no_probes ]] || continue
	eval "test_switch_${fixture}() { check_switching $fixture; }"
	eval "test_switch_${fixture}_nopie() { check_switching $fixture-nopie; }"
done

test_gates_obey_their_semaphore() {
	local semaphore
	semaphore=$("$O/tests/fixtures/v2" --expect |
		sed -n 's/^site 0x0 semaphore \([^ ]*\) name without_site .*/\1/p')
	start_target "$O/tests/fixtures/v2" --wait
	await_line ready
	matches "$(run_rounds 10)" 'without_site handler=0 '
	poke "$semaphore" 1
	matches "$(run_rounds 10)" 'without_site handler=10 '
	poke "$semaphore" 0
	matches "$(run_rounds 10)" 'without_site handler=10 '
}

test_readelf_agrees() {
	local fixture variant
	for fixture in $fixtures; do
		for variant in "$fixture" "$fixture-nopie" "$fixture-stripped"; do
			"$O/tests/fixtures/$variant" --expect >"$TMP/expect"
			eq "$(readelf -nW "$O/tests/fixtures/$variant" |
				awk '/Provider:/ { ours = /ocaml/ }
					/Location:/ && ours { sub(",", "", $2); print $2 }' |
				sed 's/^0x0*/0x/; s/^0x$/0x0/' | sort)" \
				"$(sed -n 's/^site \([^ ]*\) .*/\1/p' "$TMP/expect" |
					sed 's/^0$/0x0/' | sort)" "sites of $variant"
		done
	done
}

test_layout_is_as_promised() {
	local expect neighbours
	expect=$("$O/tests/fixtures/v1" --expect)
	grep -q 'site 0x[0-9a-f]*[13579bdf] .* name odd ' <<<"$expect"
	grep -q 'site 0x[0-9a-f]*fff .* name straddling ' <<<"$expect"
	grep -q 'site 0x[0-9a-f]*ffd .* name straddling ' <<<"$expect"
	mapfile -t neighbours < <(sed -n 's/^site \([^ ]*\) .* name neighbour_.*/\1/p' <<<"$expect")
	eq "$((neighbours[1] - neighbours[0])) $((neighbours[2] - neighbours[1]))" "6 6" "distances"
	[[ $(readelf -SW "$O/tests/fixtures/v1-stripped") != *.symtab* ]] || fail "not stripped"
	[[ $(readelf -SW "$O/tests/fixtures/v1") = *.symtab* ]] || fail "stripped"
}

test_threads_and_endless_rounds() {
	start_target "$O/tests/fixtures/v1" --threads 4
	await_line ready
	wait_for '[[ $(ls "/proc/$TARGET/task" | wc -l) -eq 5 ]]'
	quit_target
	eq "$TARGET_STATUS" 0
	matches "$(cat "$(output_of)")" 'inlined handler=0 hits=[1-9]'
}

run_tests "$@"
