#!/usr/bin/env bash
# Every kind of file that probes come in, and every way in which a process can have it mapped: all
# handlers run while all is on, and every byte is as before when all is off again.
#
# needs: fixtures ocaml/plugin_host ocaml/plugin.cmxs
# smoke: test_static
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
BINARIES=$O/tests/fixtures/binaries

# Where FILE, or what was at its place, is loaded in TARGET. (The last mapping of its start: a file
# may be mapped a second time for reading.)
base_of() { # FILE
	if readelf -h "$1" | finds 'Type:.*EXEC'; then
		echo 0
	else
		sed -nE "s|^([0-9a-f]*)-[^ ]* [^ ]* 0* [^ ]* [^ ]* +/(.*/)?${1##*/}( \(deleted\))?\$|0x\1|p" \
			"/proc/$TARGET/maps" | tail -1
	fi
}

# The bytes at all notes of the FILEs in TARGET, a line a note.
bytes_of() { # FILE...
	local file
	for file; do
		notes_of "$file" | bytes_at "$TARGET" "$(base_of "$file")"
	done
}

run_rounds() { # N
	forget_output
	tell "go $1"
	await_line 'done'
	forget_output
	tell report
	await_line end
}

# TARGET has passed no probe yet. The FILEs, from which its probes are, may be copies.
switch_all() { # FILE...
	local before
	before=$(bytes_of "$@")
	matches "$before" '90 3d'
	"$TOOL" attach -pid "$TARGET" -enable-all
	[[ $("$TOOL" info -pid "$TARGET") != *[dm]i[sx]* ]] || fail "not all on"
	run_rounds 100
	eq "$(awk -F'[= ]' '/handler=/ && ($3 != $5 || $3 == 0)' "$(output_of)")" "" \
		"handlers that did not run at each hit"
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$(bytes_of "$@")" "$before" "text and semaphores"
}

quit_well() {
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

start_waiting() { # FILE
	start_target "$1" --wait
	await_line ready
}

start_host() { # [DIRECTORY]
	start_target "${1:-$BINARIES}/host"
	await_line ready
}

load_plugin() { # FILE
	forget_output
	tell "load $1"
	await_line 'done'
	forget_output
}

host_files() {
	echo "$BINARIES/host" "$BINARIES/liblinked.so" "$BINARIES/plugin.so"
}

# Count 100 rounds; totals has the result.
count_rounds() {
	need_counting
	start_counting "$TARGET" --json
	run_rounds 100
	kill -INT "$COUNTING"
	wait "$COUNTING"
}

# The hits of the host's probes and those of its units: see unit.S.
check_host_counts() { # UNITS
	count_rounds
	eq "$(totals | grep '^reused ')" "reused $(($1 * 200))" "hits"
	eq "$(totals | grep '^host_only ')" "host_only 200" "hits"
}

test_static() {
	local file
	for file in static static-pie; do
		start_waiting "$BINARIES/$file"
		switch_all "$BINARIES/$file"
		count_rounds
		eq "$(totals | grep '^inlined ')" "inlined 2000" "hits"
		quit_well
	done
}

test_more_sections_than_the_header_can_count() {
	local sections
	sections=$(readelf -hW "$BINARIES/many_sections" |
		sed -n 's/.*Number of section headers: *0 (\([0-9]*\))/\1/p')
	[[ $sections -gt 65280 ]] || fail "only ${sections:-ordinary} sections"
	eq "$("$TOOL" list -prog "$BINARIES/many_sections" | xargs)" "first last"
	start_waiting "$BINARIES/many_sections"
	switch_all "$BINARIES/many_sections"
	count_rounds
	eq "$(totals | xargs)" "first 100 last 200" "hits"
	quit_well
}

# Of an executable, a library that it is linked with and a plugin that it loads while it runs.
test_shared_objects() {
	start_host
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" \
		"host_only disabled linked_only disabled reused disabled"
	check_host_counts 2
	load_plugin "$BINARIES/plugin.so"
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" \
		"host_only disabled linked_only disabled plugin_only disabled reused disabled"
	check_host_counts 3
	quit_well
	start_host
	load_plugin "$BINARIES/plugin.so"
	# shellcheck disable=SC2046 # words
	switch_all $(host_files)
	quit_well
}

# A name is on in all units, or not; a unit that came later was not there to be switched on.
test_a_plugin_that_comes_while_a_probe_is_on() {
	local before
	start_host
	before=$(bytes_of "$BINARIES/host" "$BINARIES/liblinked.so")
	"$TOOL" attach -pid "$TARGET" -enable reused
	load_plugin "$BINARIES/plugin.so"
	eq "$("$TOOL" info -pid "$TARGET" | grep reused)" "reused mixed"
	run_rounds 10
	eq "$(grep reused "$(output_of)" | xargs)" \
		"host/reused handler=20 hits=20 linked/reused handler=20 hits=20 plugin/reused handler=0 hits=20"
	"$TOOL" attach -pid "$TARGET" -disable reused
	eq "$("$TOOL" info -pid "$TARGET" | grep reused)" "reused disabled"
	eq "$(bytes_of "$BINARIES/host" "$BINARIES/liblinked.so")" "$before" "text and semaphores"
	quit_well
}

test_an_ocaml_plugin() {
	local plugin=$O/tests/ocaml/plugin.cmxs before
	eq "$("$TOOL" list -prog "$plugin" | xargs)" "plugin_only reused"
	start_target "$O/tests/ocaml/plugin_host" "$plugin"
	await_line ready
	before=$(bytes_of "$O/tests/ocaml/plugin_host" "$plugin")
	tell go
	await_line 'host=0 plugin=0'
	"$TOOL" attach -pid "$TARGET" -enable reused
	tell go
	await_line 'host=1 plugin=1'
	"$TOOL" attach -pid "$TARGET" -enable plugin_only -disable reused
	tell go
	await_line 'host=1 plugin=2'
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$(bytes_of "$O/tests/ocaml/plugin_host" "$plugin")" "$before" "text and semaphores"
	quit_well
}

test_deleted_files() {
	local file
	mkdir "$TMP/dir"
	cp "$BINARIES"/{host,liblinked.so,plugin.so} "$TMP/dir"
	start_host "$TMP/dir"
	load_plugin "$TMP/dir/plugin.so"
	rm -r "$TMP/dir"
	need_root # for map_files
	check_host_counts 3
	quit_well
	mkdir "$TMP/dir"
	cp "$BINARIES"/{host,liblinked.so,plugin.so} "$TMP/dir"
	start_host "$TMP/dir"
	load_plugin "$TMP/dir/plugin.so"
	rm -r "$TMP/dir"
	# shellcheck disable=SC2046 # words
	switch_all $(host_files)
	quit_well
}

# As an upgrade does it: another file of the same name, which the process does not run.
test_replaced_files() {
	mkdir "$TMP/dir"
	cp "$BINARIES"/{host,liblinked.so,plugin.so} "$TMP/dir"
	start_host "$TMP/dir"
	load_plugin "$TMP/dir/plugin.so"
	rm "$TMP"/dir/*
	cp "$O/tests/fixtures/v2" "$TMP/dir/host"
	cp "$BINARIES/plugin.so" "$TMP/dir/liblinked.so"
	cp "$O/tests/fixtures/v0" "$TMP/dir/plugin.so"
	need_root # for map_files
	# shellcheck disable=SC2046 # words
	switch_all $(host_files)
	quit_well
}

test_mapped_a_second_time() {
	start_host
	load_plugin "$BINARIES/plugin.so"
	tell map-self
	await_line 'done'
	eq "$(grep -c "^10000000-.*/host" "/proc/$TARGET/maps")" 1 "mappings below"
	# shellcheck disable=SC2046 # words
	switch_all $(host_files)
	quit_well
}

# Switching works; counting says what it misses: the kernel puts no uprobe into a writable mapping
# (valid_vma() in kernel/events/uprobes.c).
test_code_made_writable() {
	local mappings
	start_host
	mappings=$(grep -c '/host$' "/proc/$TARGET/maps")
	tell split-text
	await_line 'done'
	[[ $(grep -c '/host$' "/proc/$TARGET/maps") -gt $mappings ]] || fail "not split"
	grep -q 'rwxp.*/host$' "/proc/$TARGET/maps"
	load_plugin "$BINARIES/plugin.so"
	# shellcheck disable=SC2046 # words
	switch_all $(host_files)
	need_counting
	"$TOOL" attach -pid "$TARGET" --count --for 50ms >"$TMP/counts" 2>"$TMP/err"
	matches "$(<"$TMP/err")" "warning: .* [1-9][0-9]* of [0-9]+ sites are in memory that is writable now"
	quit_well
}

# Its files are on a file system that nobody outside of its namespace sees, its pid is another one
# inside, and it has another root.
start_in_namespaces() { # FILE PROGRAM-INSIDE...
	local file=$1
	shift
	need_root
	need_command unshare chroot
	unshare --mount --pid --fork true 2>/dev/null || skip "namespaces are not to be had"
	mkdir -p "$TMP/hidden"
	start_target unshare --mount --pid --fork --kill-child --propagation private bash -c "
		mount -t tmpfs none '$TMP/hidden' && mkdir '$TMP/hidden/proc' &&
		cp '$file' '$TMP/hidden/program' && exec chroot '$TMP/hidden' /program --wait"
	await_line ready
	INSIDE=$(<"/proc/$TARGET/task/$TARGET/children")
	INSIDE=${INSIDE% }
	[[ ! -e $TMP/hidden/program ]] || fail "the program can be seen from outside"
	eq "$(awk '/^NSpid/ { print $3 }' "/proc/$INSIDE/status")" 1 "its pid inside"
	# The functions above ask $TARGET, whose pipes these are.
	target_fd["$INSIDE"]=${target_fd["$TARGET"]}
	target_out["$INSIDE"]=${target_out["$TARGET"]}
	TARGET=$INSIDE
}

test_other_namespaces() {
	start_in_namespaces "$BINARIES/static-pie"
	cp "$BINARIES/static-pie" "$TMP/program"
	switch_all "$TMP/program"
	count_rounds
	eq "$(totals | grep '^inlined ')" "inlined 2000" "hits"
	tell quit
	wait_for '! kill -0 "$TARGET" 2>/dev/null'
}

run_tests "$@"
