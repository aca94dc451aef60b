#!/usr/bin/env bash
# Meters that are kept open for long, by the library: probes are switched while they are measured,
# processes come and go, files are overwritten.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

HOST=$O/tests/fixtures/binaries

# Start tests/library/meters.c, which obeys `ask`.
start_meters() {
	need_counting
	gcc -std=gnu11 -Wall -Wextra -Werror -I"$ROOT/include" -o "$TMP/meters" \
		"$ROOT/tests/library/meters.c" "$O/libocaml_probes.a" $(pkg-config --libs libbpf libdw libelf)
	coproc METERS { exec "$TMP/meters" 2>&1; }
	# Those of the coprocess are closed in subshells.
	exec {meters_in}>&"${METERS[1]}" {meters_out}<&"${METERS[0]}"
}

# What it answers to LINE, but for "ok".
ask() { # LINE
	local answer
	printf '%s\n' "$1" >&"$meters_in"
	while read -r answer <&"$meters_out"; do
		[[ $answer != ok ]] || return 0
		printf '%s\n' "$answer"
		[[ ! $answer =~ ^-[0-9] ]] || return 0
	done
	fail "meters has ended"
}

# All of LINES must be answered by "ok" alone.
order() { # LINE...
	local line
	for line; do
		eq "$(ask "$line")" "" "$line"
	done
}

# A host that has run all its probes N times more.
go() { # N [PID]
	forget_output "${2:-$TARGET}"
	tell "go $1" "${2:-$TARGET}"
	await_line 'done' 20 "${2:-$TARGET}"
}

# "NAME HITS" lines of what it says of itself, all units together.
own_books() {
	forget_output
	tell report
	await_line end
	sed -n 's|^.*/\([a-z_]*\) .*hits=\([0-9]*\)$|\1 \2|p' "$(output_of)" |
		awk '{ hits[$1] += $2 } END { for (name in hits) print name, hits[name] }' | LC_ALL=C sort
}

books_of() { # NAME
	own_books | sed -n "s/^$1 //p"
}

hits_of() { # NAME
	ask read | sed -n "s/^$1 //p"
}

test_switch() {
	local probe before
	start_meters
	start_target "$HOST/host"
	await_line ready
	order "pid $TARGET" all open
	eq "$(ask "is host_only")" on
	order "off reused" attach
	eq "$(ask "is reused")" off
	go 1000
	eq "$(hits_of reused)" 0 "hits of a probe that was off from the beginning"
	eq "$(ask read | grep -v '^reused ')" "$(own_books | grep -v '^reused ')"
	before=$(books_of reused)
	order "on reused"
	go 1000
	eq "$(hits_of reused)" $(($(books_of reused) - before)) "hits since it was switched on"

	# Off and on while it runs: all others lose nothing.
	forget_output
	tell 'go 300000'
	for probe in host_only linked_only reused host_only host_only; do
		order "off $probe" "off $probe"
		eq "$(ask "is $probe")" off
		order "on $probe"
	done
	order 'off reused'
	before=$(hits_of reused)
	await_line 'done' 30
	eq "$(hits_of reused)" "$before" "hits of one that is off"
	order detach
	eq "$(hits_of reused)" "$before" "hits of one that is off"
	[[ $(ask read | wc -l) -ge 3 ]] || fail "$(ask read)"
}

# One probe at a time is switched; what the others count is what the program says.
test_others_are_exact() {
	local i
	start_meters
	start_target "$HOST/host"
	await_line ready
	order "pid $TARGET" all open attach
	forget_output
	tell 'go 500000'
	i=0
	while ! grep -qx 'done' "$(output_of)"; do
		order "off reused" "on reused"
		i=$((i + 1))
	done
	[[ $i -ge 3 ]] || fail "only switched $i times"
	eq "$(ask read | grep -v '^reused ')" "$(own_books | grep -v '^reused ')"
}

test_what_cannot_be_switched() {
	start_meters
	start_target "$HOST/host"
	await_line ready
	order "pid $TARGET" "count linked_only" "time host_only reused"
	eq "$(ask "off linked_only")" "-22 measuring: not opened yet"
	order open attach
	eq "$(ask "off host_only")" "-22 probe 'host_only': it begins or ends a pair, which needs it"
	eq "$(ask "off reused")" "-22 probe 'reused': it begins or ends a pair, which needs it"
	eq "$(ask "off other")" "-2 probe 'other': is not measured"
	eq "$(ask "is other")" off
	order "off linked_only"
	go 1000
	eq "$(ask read)" "linked_only 0
host_only,reused 2000"
	order "pid $TARGET" "print linked_only" "count host_only" open attach
	eq "$(ask "off linked_only")" "-22 probe 'linked_only': it is printed; only counters can be switched"
	order "off host_only"
}

# A file that is loaded later respects what is off, and what its own probes are.
test_switch_and_plugins() {
	start_meters
	start_target "$HOST/host"
	await_line ready
	order "pid $TARGET" all open attach "off reused"
	forget_output
	tell "load $HOST/plugin.so"
	await_line 'done'
	order refresh
	go 1000
	eq "$(hits_of reused)" 0
	eq "$(hits_of plugin_only)" "$(books_of plugin_only)"
	[[ $(books_of plugin_only) -gt 0 ]] || fail "it was not run"
	order "on reused"
	go 1000
	eq "$(hits_of reused)" $(($(books_of reused) / 2)) "hits in the second half"
	order "off host_only" "off linked_only" "off plugin_only" "off reused"
	eq "$(int3_count "$TARGET")" 0 "int3 left"
	eq "$(raised_semaphores "$TARGET")" 0 "semaphores left"
}

run_tests "$@"
