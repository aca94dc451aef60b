#!/usr/bin/env bash
# Meters that are kept open for long, by the library: probes are switched while they are measured,
# processes come and go, files are overwritten.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

HOST=$O/tests/fixtures/binaries

# Start tests/library/meters.c, which obeys `ask`, behind COMMAND.
start_meters() { # [COMMAND...]
	need_counting
	gcc -std=gnu11 -Wall -Wextra -Werror -I"$ROOT/include" -o "$TMP/meters" \
		"$ROOT/tests/library/meters.c" "$O/libocaml_probes.a" $(pkg-config --libs libbpf libdw libelf) -lZydis
	coproc METERS { exec "$@" "$TMP/meters" 2>&1; }
	# shellcheck disable=SC2153 # bash sets it, and forgets it with the coprocess
	meters_pid=$METERS_PID
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
	order "off reused" attach
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
	# As often as it takes to have switched it three times in the middle.
	for ((i = 0; i < 3; )); do
		forget_output
		tell 'go 100000'
		while ! grep -qx 'done' "$(output_of)"; do
			order "off reused" "on reused"
			grep -qx 'done' "$(output_of)" || i=$((i + 1))
		done
	done
	eq "$(ask read | grep -v '^reused ')" "$(own_books | grep -v '^reused ')"
}

test_what_cannot_be_switched() {
	start_meters
	start_target "$HOST/host"
	await_line ready
	order "pid $TARGET" "count linked_only" "time host_only reused"
	eq "$(ask "off linked_only")" "-22 measuring: not opened yet"
	order open attach
	eq "$(ask "off host_only")" "-22 probe 'host_only': it is part of a pair and cannot be switched"
	eq "$(ask "off reused")" "-22 probe 'reused': it is part of a pair and cannot be switched"
	eq "$(ask "off other")" "-2 probe 'other': is not measured"
	order "off linked_only"
	go 1000
	eq "$(ask read)" "linked_only 0
host_only,reused 2000"
	order "pid $TARGET" "print linked_only" "count host_only" open attach
	eq "$(ask "off linked_only")" "-22 probe 'linked_only': it is printed; only counters can be switched"
	order "off host_only"
}

# A copy of the host of our own, which others that measure do not know, of a name that no other
# process has. Sets APP.
copy_host() {
	APP=$TMP/metered$$
	export LD_LIBRARY_PATH=$HOST
	cp "$HOST/host" "$APP"
}

# A file that is loaded later respects what is off, and what its own probes are.
test_switch_and_plugins() {
	start_meters
	copy_host
	start_target "$APP"
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

# Make $TMP/large.so, a plugin of which two fill the room for what comes later.
make_large_plugin() {
	sed 's/^ROUND_END$/.rept 2500\nPROBE ONLY, ONLY\n.endr\nROUND_END/' \
		"$ROOT/tests/fixtures/binaries/unit.S" >"$TMP/large.S"
	gcc -O2 -fvisibility=hidden -D_GNU_SOURCE -DUNIT=plugin -DONLY=plugin_only -fPIC -shared \
		-I"$ROOT/tests/fixtures" -o "$TMP/large.so" \
		"$TMP/large.S" "$ROOT/tests/fixtures/binaries/unit.c"
}

descriptors_of_meters() {
	find "/proc/$meters_pid/fd" -mindepth 1 | wc -l
}

# A host that runs a copy of the large plugin once; the copy is gone when it has it. Sets TARGET.
run_private_copy() {
	start_target "$APP"
	await_line ready
	cp "$TMP/large.so" "$TMP/private.so"
	forget_output
	tell "load $TMP/private.so"
	await_line 'done'
	rm "$TMP/private.so"
	order refresh
	go 1
}

# What was counted in files that nobody can run any more stays, and they cost nothing.
test_private_copies_of_plugins() {
	local i after_first
	start_meters
	copy_host
	make_large_plugin
	order "exe $APP" all open attach refresh
	for i in 1 2 3 4; do
		run_private_copy
		# It is in use, however often it is looked at.
		order refresh refresh refresh
		go 1
		eq "$(hits_of plugin_only)" $((i * 2 * 2502)) "hits, copy $i"
		eq "$(hits_of reused)" $((i * 2 * 6)) "hits of all units, copy $i"
		quit_target
		order refresh refresh refresh
		eq "$(hits_of plugin_only)" $((i * 2 * 2502)) "hits when copy $i was given up"
		[[ $i -ne 1 ]] || after_first=$(descriptors_of_meters)
	done
	eq "$(descriptors_of_meters)" "$after_first" "descriptors"
	eq "$(ask sum)" "$((4 * 2 * (2 + 2 + 2502 + 6))) $((4 * 2 * (2 + 2 + 2502 + 6))) 4"
}

# Rows of sites stay what they are, and others come behind them.
test_private_copies_by_site() {
	local i books=
	start_meters
	copy_host
	order "exe $APP" all "by site" open attach
	for i in 10 20; do
		start_target "$APP"
		await_line ready
		cp "$HOST/plugin.so" "$TMP/private.so"
		tell "load $TMP/private.so"
		await_line 'done'
		rm "$TMP/private.so"
		order refresh
		go "$i"
		quit_target
		order refresh refresh refresh
		books+="plugin_only $i"$'\n'"plugin_only $i"$'\n'
		eq "$(ask read | grep plugin_only)" "${books%?}"
	done
}

# Who reads what is kept later finds the counts of those that were given up before.
test_private_copies_and_keeping() {
	KEPT=meters$$
	start_meters
	copy_host
	make_large_plugin
	order "exe $APP" all open attach
	run_private_copy
	quit_target
	order refresh refresh refresh
	start_target "$APP"
	await_line ready
	tell "load $HOST/plugin.so"
	await_line 'done'
	order refresh "keep $KEPT"
	trap '"$TOOL" detach "$KEPT" >/dev/null' EXIT
	go 10
	"$TOOL" read "$KEPT" --json >"$TMP/counts"
	eq "$(totals)" "host_only $((2 + 20))
linked_only $((2 + 20))
plugin_only $((2502 + 20))
reused $((6 + 60))"
}

# One that there is no room for is said so, and is no reason to leave the others.
test_too_many_sites() {
	local first second
	start_meters
	copy_host
	make_large_plugin
	order "exe $APP" all open attach
	run_private_copy
	first=$TARGET
	start_target "$APP"
	second=$TARGET
	await_line ready
	forget_output
	cp "$TMP/large.so" "$TMP/second.so"
	tell "load $TMP/second.so"
	await_line 'done'
	eq "$(ask refresh)" "-7 $TMP/second.so: no room for 2504 more sites"
	start_target "$APP"
	await_line ready
	tell "load $HOST/plugin.so"
	await_line 'done'
	eq "$(ask refresh)" "-7 $TMP/second.so: no room for 2504 more sites"
	go 1
	eq "$(hits_of plugin_only)" $((2502 + 2)) "hits of the first and the last"
	# When there is room again it is measured.
	quit_target "$first"
	for i in {1..5}; do
		ask refresh >/dev/null
	done
	order refresh
	go 1 "$second"
	eq "$(hits_of plugin_only)" $((2502 + 2 + 2502)) "hits of all"
}

# ---- processes that come and go ---------------------------------------------------------------

test_processes() {
	local first
	start_meters
	copy_host
	order "exe $APP" all by open attach
	eq "$(ask processes)" ""
	start_target "$APP"
	await_line ready
	first=$TARGET
	start_target "$APP"
	await_line ready
	eq "$(ask processes)" ""
	order refresh
	eq "$(ask processes)" "$(printf '%s\n' "$first" "$TARGET" | sort -n)"
	quit_target "$first"
	order refresh
	eq "$(ask processes)" "$TARGET"

	order "pid $TARGET" all open
	eq "$(ask processes)" "$TARGET"
	order attach refresh
	eq "$(ask processes)" "$TARGET"
	quit_target
	order refresh
	eq "$(ask processes)" ""
}

# Rows by process: those of the dead become one, and no hit is missed or counted twice.
test_forget_ended() {
	local i sum survivor
	start_meters
	copy_host
	start_target "$APP"
	await_line ready
	survivor=$TARGET
	order "exe $APP" "count host_only" "count reused" by open attach
	go 5 "$survivor"
	for i in {1..30}; do
		order mark
		printf 'go 10\nquit\n' | "$APP" >/dev/null
		go 1 "$survivor"
		[[ $((i % 3)) -ne 0 ]] || order forget
		# Two sites each; and reused is in the library, too.
		eq "$(ask since)" $((11 * (2 + 4))) "hits since the mark, round $i"
	done
	sum=$(ask sum)
	eq "$sum" "$((335 * 6)) $((335 * 6)) 4" "sum of the rows, of the sites, and rows"
	eq "$(ask read)" "host_only 600
host_only $survivor 70
reused 1200
reused $survivor 140"
	order forget forget
	eq "$(ask sum)" "$sum"
	kill -KILL "$survivor"
	wait "$survivor" || :
	order refresh forget
	eq "$(ask read)" "host_only 670
reused 1340"
}

# A process that may not be inspected is reported once, and the list is then incomplete.
test_hidden_processes() {
	local nobody=65534 hidden
	need_command setpriv
	copy_host
	chmod 755 "$TMP" "$(dirname "$TMP")"
	start_target "$APP"
	await_line ready
	hidden=$TARGET
	start_target setpriv --reuid=$nobody --regid=$nobody --clear-groups "$APP"
	await_line ready
	start_meters setpriv --reuid=$nobody --regid=$nobody --clear-groups --inh-caps=-all,+bpf,+perfmon \
		--ambient-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon
	order "exe $APP" all
	eq "$(ask open)" "log: pid $hidden (${APP##*/}): left out, it may not be inspected"
	order attach refresh refresh
	eq "$(ask processes | xargs)" "$TARGET more"
	# What it may not inspect it may not count either.
	go 10 "$hidden"
	go 10
	eq "$(hits_of host_only)" 20

	# Nor has it the right to a lease: what is written is noticed afterwards.
	quit_target
	quit_target "$hidden"
	chmod 775 "$APP"
	touch "$APP"
	mv "$APP" "$APP.old"
	order refresh
	cp "$APP.old" "$TMP/copy"
	cp "$TMP/copy" "$APP.old"
	order refresh
	cp "$HOST/states" "$APP.old"
	eq "$(ask refresh)" "log: $APP: overwritten in place: its probes are no longer measured
-116 $APP: overwritten in place"
	eq "$(hits_of host_only)" 20
}

# ---- files that are overwritten ---------------------------------------------------------------

# A program of jumps to what follows. Any int3 that somebody has put in there ends it.
make_sled() {
	printf '.globl _start\n_start:\n.rept 8000\n.byte 0xe9, 0, 0, 0, 0\n.endr\nmov $60, %%eax\nxor %%edi, %%edi\nsyscall\n' >"$TMP/sled.S"
	gcc -nostdlib -static -no-pie -o "$TMP/sled" "$TMP/sled.S"
	"$TMP/sled" || fail "the sled is no program"
}

test_overwritten_file() {
	local writer other=$O/tests/fixtures/binaries/states
	start_meters
	copy_host
	make_sled
	order "exe $APP" all open attach
	printf 'go 10\nquit\n' | "$APP" >/dev/null
	order refresh
	cp "$TMP/sled" "$APP" &
	writer=$!
	wait_for 'grep -q "LEASE  *BREAKING .*:$(stat -c %i "$APP") " /proc/locks || ! kill -0 '"$writer"
	kill -0 "$writer" || fail "the writer did not wait"
	eq "$(ask refresh)" "log: $APP: overwritten in place: its probes are no longer measured
-116 $APP: overwritten in place"
	wait "$writer"
	"$APP" || fail "the new program: status $?"
	eq "$(ask refresh)" "-116 $APP: overwritten in place"
	order "off host_only" "on host_only"
	"$APP" || fail "the new program: status $?"
	eq "$(hits_of host_only)" 20 "what was counted before"

	# Between the reading and the attach.
	rm "$APP"
	copy_host
	order "exe $APP" all open
	cp "$other" "$APP"
	eq "$(ask attach)" "-116 $APP: overwritten since it was read"
	order "exe $APP" all open attach
	"$APP" < <(printf 'go 10\nquit\n') >/dev/null # it need not read
	order detach
	# It is nobody's any more.
	timeout 300 cp "$TMP/sled" "$APP"
	"$APP"
}

test_attach_ends_when_its_file_is_overwritten() {
	local status=0
	need_counting
	copy_host
	make_sled
	background "$TOOL" attach --budget none --exe "$APP" --count --json >"$TMP/counts" 2>"$TMP/counting.err"
	COUNTING=$!
	wait_for 'has_text "$TMP/counting.err" "counting [0-9]* probes?"'
	printf 'go 10\nquit\n' | "$APP" >/dev/null
	timeout 300 cp "$TMP/sled" "$APP" || fail "cp: status $?"
	"$APP" || fail "the new program: status $?"
	wait "$COUNTING" || status=$?
	eq "$status" 1
	grep -q "$APP: overwritten in place" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	eq "$(totals | head -n 1)" "host_only 20"
}

# A file that is replaced is another one: those that run the old one are measured on.
test_replaced_file() {
	start_meters
	copy_host
	start_target "$APP"
	await_line ready
	order "exe $APP" all open attach refresh
	make_sled
	mv "$TMP/sled" "$APP"
	"$APP"
	go 10
	order refresh
	eq "$(hits_of host_only)" 20
	eq "$(ask processes)" "$TARGET"
}

run_tests "$@"
