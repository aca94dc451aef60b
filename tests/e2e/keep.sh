#!/usr/bin/env bash
# Meters that are kept, by each engine: they go on without the tool, are read, listed, and taken away.
#
# variants: inside
# needs: fixtures asan ocaml/counted ocaml/loop ocaml/pairs
# uses: all-blocks
# smoke: test_exact_from_keep_to_detach test_wrong_use
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/kills_lib.sh"

# One a test script, also for the bash that runs a test alone.
NAME=ocp_test_$PPID
FOLDER=/sys/fs/bpf/ocaml-probes/$NAME

# What a failing test left would go on for ever.
take_away_later() {
	[[ $ENGINE = inside ]] || trap '[[ ! -e $FOLDER ]] || "$TOOL" detach "$NAME" >/dev/null 2>&1' EXIT
}

keep() { # FLAG...
	take_away_later
	"$TOOL" attach "${ENGINE_FLAGS[@]}" -pid "$TARGET" --keep "$NAME" "$@" 2>"$TMP/keep.err" || fail "$(<"$TMP/keep.err")"
	[[ -e $FOLDER ]] || [[ $ENGINE = inside ]] || fail "it has no directory"
}

number() { # NAME_OF_MEMBER, of the last line of $TMP/json
	tail -n 1 "$TMP/json" | grep -o "\"$1\":[0-9]*" | head -1 | cut -d: -f2
}

# Everything that the program did from --keep to detach, and nothing else, is in the totals.
test_exact_from_keep_to_detach() {
	need_counting
	start_target "$O/tests/ocaml/counted" 50000 2
	await_line ready
	keep_memory
	keep --count --time outer,tail
	tell go
	await_line '# in_loop was seen.*' 60
	"$TOOL" read "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, read"
	"$TOOL" detach "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits, detached"
	measured_that 'pair["starts"] == pair["count"] == hits["outer"] > 0' "t['engine'] == '$ENGINE'" \
		'min(t["empty_pair_ns"], t["cost_per_hit_ns"], t["cpu_overhead"]) > 0'
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
	check_clean
	check_error 2 "'$NAME': no kept measurement of this name" detach "$NAME"
}

# The maps outlive the process.
test_the_process_has_ended() {
	need_counting
	start_target "$O/tests/ocaml/counted" 1000 2
	await_line ready
	keep --count
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	finish_target
	"$TOOL" detach "$NAME" --json >"$TMP/counts"
	eq "$(totals)" "$(expected_hits)" "hits"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

test_it_goes_on_and_leaves_nothing() {
	local first second
	need_counting
	start_target "$O/tests/ocaml/loop"
	await_line ready
	keep_memory
	keep --count --time alpha,beta
	grep -q "ocaml-probes read $NAME" "$TMP/keep.err"
	[[ $(memory_of "$TARGET") != "${MEMORY_BEFORE[$TARGET]}" ]] || fail "nothing is counted"
	"$TOOL" read "$NAME" --json >"$TMP/json"
	first=$(number hits)
	wait_for '"$TOOL" read "$NAME" --json >"$TMP/json"; [[ $(number hits) -gt '"$first"' ]]'
	"$TOOL" list --kept >"$TMP/list" 2>"$TMP/err"
	grep -q "^$NAME .* 1 of 1 processes alive, pid $TARGET\$" "$TMP/list" || fail "$(<"$TMP/list")"
	"$TOOL" list --kept --json >"$TMP/json" 2>"$TMP/err"
	grep -q "\"name\":\"$NAME\".*\"pids\":\[$TARGET\]" "$TMP/json" || fail "$(<"$TMP/json")"
	"$TOOL" detach --csv "$NAME" >"$TMP/csv"
	grep -q '^total,.*,pair,alpha beta,' "$TMP/csv" || fail "$(<"$TMP/csv")"
	check_clean
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

# Sites with their functions and lines survive the way through the kernel, or the process.
test_sites_are_named() {
	need_counting
	start_target "$O/tests/ocaml/counted" 1000 1
	await_line ready
	keep --count --by-site
	"$TOOL" detach "$NAME" --all >"$TMP/out"
	holds grep -Eq '^in_loop +camlCounted__[a-z_0-9]+\+0x[0-9a-f]+ \(counted\.ml:[0-9]+\)' "$TMP/out" ||
		fail "$(<"$TMP/out")"
}

# Killed before each name that it makes, and after the last: what is there can be taken away.
test_killed_in_between() {
	local before call keep names=0
	need_counting
	start_target "$O/tests/ocaml/loop" busy
	await_line ready
	before=$(memory_of "$TARGET")
	take_away_later
	keep=("$TOOL" attach -pid "$TARGET" --count --keep "$NAME")
	list_calls "${keep[@]}"
	"$TOOL" detach "$NAME" >"$TMP/out"
	# The last name is that by which others know the meter.
	mapfile -t CALLS < <(printf '%s\n' "${CALLS[@]}" | grep '^bpf_obj_pin:')
	((${#CALLS[@]} > 8)) || fail "names: ${CALLS[*]}"
	kill_at mkdir:2 "${keep[@]}"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is there too early"
	for call in "${CALLS[@]}" "after:${CALLS[-1]}"; do
		kill_at "$call" "${keep[@]}"
		eq "$(find "$FOLDER" -type f | wc -l)" "$((names++))" "names before $call"
		"$TOOL" detach "$NAME" >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
		[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
		wait_for '[[ $(memory_of "$TARGET") = "'"$before"'" ]]'
	done
	let_run all
}

# The documented layout: the map `hits` is what others can read.
test_others_can_read_the_maps() {
	need_counting
	need_command bpftool
	start_target "$O/tests/ocaml/counted" 100 1
	await_line ready
	keep --count=in_loop
	tell go
	await_line '# in_loop was seen.*' 60
	tell quit
	finish_target
	"$TOOL" detach "$NAME" --json >"$TMP/json" &&
		eq "$(number hits)" "$(expected_hits | sed -n 's/^in_loop //p')"
	start_target "$O/tests/ocaml/counted" 100 1
	await_line ready
	keep --count=in_loop
	tell go
	await_line '# in_loop was seen.*' 60
	# Entry CPU * stride + site; the stride is the entries / possible CPUs.
	bpftool -j map dump pinned "$FOLDER/hits" | python3 -c 'import json, sys
slots = [entry["formatted"]["value"] for entry in json.load(sys.stdin)]
cpus = int(open("/sys/devices/system/cpu/possible").read().split("-")[-1]) + 1
print(sum(slots[cpu * (len(slots) // cpus)] for cpu in range(cpus)))' >"$TMP/map"
	eq "$(<"$TMP/map")" \
		"$("$TOOL" read "$NAME" --json | grep -o '"hits":[0-9]*' | head -1 | cut -d: -f2)" "sum over the CPUs: $(<"$TMP/map")"
}

# Replace what the regular expression FROM matches in the text beside the maps by TO, of equal length.
edit_meta() { # FROM TO
	bpftool -j map dump pinned "$FOLDER/meta" | python3 -c 'import json, re, sys
text = bytes(int(byte, 16) for byte in json.load(sys.stdin)[0]["value"]).decode()
edited = re.sub(sys.argv[1], sys.argv[2], text, 1)
assert edited != text and len(edited) == len(text), text
print(edited.encode().hex(" "))' "$1" "$2" >"$TMP/meta"
	# shellcheck disable=SC2046 # a word a byte
	bpftool map update pinned "$FOLDER/meta" key 0 0 0 0 value hex $(<"$TMP/meta")
}

# What another version kept has maps of another layout: it is neither read nor taken away.
test_of_another_version() {
	need_counting
	need_command bpftool
	start_target "$O/tests/ocaml/pairs" 1000 1
	await_line ready
	keep --time call_start,call_stop
	edit_meta 'kept 2 [0-9]' 'kept 2 0'
	for command in read detach; do
		check_error 1 "$FOLDER: pinned by another version of ocaml-probes; use that version to read or detach it" \
			$command "$NAME"
		matches "$(<"$TMP/err")" "hint: rm -r $FOLDER ends the measurement; its totals are lost"
	done
	"$TOOL" list --kept >"$TMP/out" 2>"$TMP/err"
	grep -q 'another version' "$TMP/err" || fail "$(<"$TMP/err")"
	edit_meta 'kept 2 0' "kept 2 $(sed -n 's/^#define MEASURE_VERSION //p' "$ROOT/bpf/measure.h")"
	"$TOOL" detach "$NAME" --json >"$TMP/json"
}

test_wrong_use() {
	start_target "$O/tests/ocaml/loop"
	await_line ready
	check_error 2 "invalid name" attach -pid "$TARGET" --count --keep a/b
	check_error 2 "excludes --for" attach -pid "$TARGET" --count --keep x --for 1s
	check_error 2 "needs --count=NAME or --time START,STOP" attach -pid "$TARGET" -enable alpha --keep x
	check_error 2 "one name" read
	check_error 2 "one name" detach a b
	check_error 2 "invalid name" read ..
	check_error 2 "no kept measurement of this name" read "no_such_$$"
	check_error 2 "no kept measurement of this name" detach "no_such_$$"
	check_error 2 "mutually exclusive" list --kept -prog "$O/tests/ocaml/loop"
	eq "$(int3_count "$TARGET")" 0 "int3"
	need_counting
	keep --count
	check_error 1 "a kept measurement of this name exists" attach -pid "$TARGET" -q --count --keep "$NAME"
	"$TOOL" detach "$NAME" >"$TMP/out"
}

# ---- a hostile bpffs --------------------------------------------------------------------------

# Keep something in a bpffs that only this test sees; its maps can then be replaced.
keep_apart() { # FLAG...
	need_counting
	need_command bpftool unshare
	TOOL=$O/asan/ocaml-probes
	[[ -x $TOOL ]] || fail "make check has not built $TOOL yet"
	[[ -n ${APART:-} ]] || APART=1 exec unshare --mount bash "$0" --one "${FUNCNAME[1]}"
	mount -t bpf -o mode=0700 bpf /sys/fs/bpf
	start_target "$O/tests/ocaml/loop"
	await_line ready
	keep "$@"
}

# It is refused by all that read it, in one line that says WHY.
refused() { # EXIT-STATUS WHY
	check_error "$1" "$2" read "$NAME"
	"$TOOL" list --kept >"$TMP/list" 2>"$TMP/err" || :
	matches "$(cat "$TMP/list" "$TMP/err")" "$2"
}

# A map in the place of another, FAULTY; and afterwards the right one again.
replaced() { # NAME WHY BPFTOOL-MAP-CREATE-ARG...
	local map=$FOLDER/$1 why=$2
	shift 2
	mv "$map" "$FOLDER/right"
	[[ $# -eq 0 ]] || bpftool map create "$map" "$@" name hostile
	refused 1 "$FOLDER.*$why"
	rm -f "$map"
	mv "$FOLDER/right" "$map"
	"$TOOL" read "$NAME" >"$TMP/out"
}

test_hostile_maps() {
	local cpus slots pair
	keep_apart --count --time alpha,beta --by-thread
	pair=$(bpftool -j map show pinned "$FOLDER/pair_stats" | grep -o '"bytes_value":[0-9]*' | cut -d: -f2)
	cpus=$(($(sed 's/.*-//' /sys/devices/system/cpu/possible) + 1))
	slots=$((cpus * 512))
	replaced hits 'is a map of another type' type hash key 4 value 8 entries "$slots"
	replaced hits 'has values of another size' type array key 4 value 4 entries "$slots" flags 1024
	replaced hits 'has values of another size' type array key 4 value 64 entries "$slots" flags 1024
	replaced hits 'has other flags' type array key 4 value 8 entries "$slots"
	replaced hits 'has another number of entries' type array key 4 value 8 entries 1 flags 1024
	replaced hits 'has another number of entries' type array key 4 value 8 entries 4000000 flags 1024
	replaced hits 'No such file'
	replaced pair_stats 'is a map of another type' type array key 4 value "$pair" entries 1
	replaced pair_stats 'has values of another size' type percpu_array key 4 value 8000 entries 1
	replaced pair_stats 'has another number of entries' type percpu_array key 4 value "$pair" entries 2
	replaced keyed 'has keys of another size' type hash key 128 value 32 entries 100
	replaced keyed 'has values of another size' type hash key 8 value 4096 entries 100
	replaced losses 'has values of another size' type percpu_array key 4 value 4096 entries 1
	replaced losses 'No such file'
	replaced gate 'has other flags' type array key 4 value 12 entries 1
	replaced gate 'has values of another size' type array key 4 value 4 entries 1 flags 1024
	replaced site_table 'is a map of another type' type hash key 4 value 24 entries 100
	replaced tgids 'No such file'
	replaced meta 'is a map of another type' type hash key 64 value 100 entries 1
	replaced meta 'has another number of entries' type array key 4 value 100 entries 2
	replaced meta 'damaged' type array key 4 value 100 entries 1
	# Hits of a probe that there is not.
	bpftool map update pinned "$FOLDER/keyed" key hex 1 0 0 0 ff ff ff 0f \
		value hex 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 41 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
	refused 1 'hits of a probe that is not measured'
	check_error 1 'hits of a probe that is not measured' detach "$NAME"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

# What has the name of a map or a link is something else.
test_hostile_kinds() {
	keep_apart --count
	mv "$FOLDER/hits" "$FOLDER/right"
	mv "$FOLDER/link_0" "$FOLDER/hits"
	refused 1 'hits: not a BPF map'
	mv "$FOLDER/hits" "$FOLDER/left"
	bpftool prog pin id "$(bpftool -j link show pinned "$FOLDER/left" |
		grep -o '"prog_id":[0-9]*' | cut -d: -f2)" "$FOLDER/hits"
	refused 1 'hits: not a BPF map'
	rm "$FOLDER/hits"
	mv "$FOLDER/right" "$FOLDER/hits"
	bpftool map pin pinned "$FOLDER/losses" "$FOLDER/link_0"
	refused 1 'link_0: not a link'
	# What cannot be read can be taken away.
	"$TOOL" detach "$NAME" 2>"$TMP/err"
	grep -q 'was incomplete: removed' "$TMP/err" || fail "$(<"$TMP/err")"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

# Folders that somebody else has made, or can write to.
test_folders_of_others() {
	keep_apart --count
	chown 65534 "$FOLDER"
	refused 3 "$FOLDER: belongs to user 65534"
	check_error 3 "$FOLDER: belongs to user 65534" detach "$NAME"
	[[ -e $FOLDER/hits ]] || fail "it was taken away"
	chown 0 "$FOLDER"
	chmod 777 "$FOLDER"
	refused 3 'other users can write to it \(mode 0777\)'
	chmod 700 "$FOLDER"
	chown 65534 "${FOLDER%/*}"
	refused 3 "${FOLDER%/*}: belongs to user 65534"
	check_error 3 "${FOLDER%/*}: belongs to user 65534" attach -pid "$TARGET" --count --keep other
	[[ ! -e ${FOLDER%/*}/other ]] || fail "something was kept there"
	chown 0 "${FOLDER%/*}"
	mv "$FOLDER" "${FOLDER}_right"
	ln -s "${FOLDER}_right" "$FOLDER"
	refused 3 "$FOLDER: not a directory"
	rm "$FOLDER"
	mv "${FOLDER}_right" "$FOLDER"
	# Where all can make files, but not touch others'.
	chmod 1777 /sys/fs/bpf
	"$TOOL" read "$NAME" >"$TMP/out"
	chmod 777 /sys/fs/bpf
	refused 3 '/sys/fs/bpf: other users can write to it'
	chmod 700 /sys/fs/bpf
	"$TOOL" detach "$NAME" >"$TMP/out"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

# Where no bpffs is, the hint does not open it to all.
test_the_hint_is_private() {
	need_counting
	[[ -n ${APART:-} ]] || APART=1 exec unshare --mount bash "$0" --one test_the_hint_is_private
	while mountpoint -q /sys/fs/bpf; do umount /sys/fs/bpf; done
	start_target "$O/tests/ocaml/loop"
	await_line ready
	setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$TOOL" attach -pid "$TARGET" --count --keep x \
		2>"$TMP/err" && fail "it was kept"
	holds grep -qx 'hint: sudo mount -t bpf -o mode=0700 bpf /sys/fs/bpf' "$TMP/err" || fail "$(<"$TMP/err")"
}

# What is pinned, and its folders and maps: inside_keep.sh has what is kept in processes.
not_in inside test_the_process_has_ended test_killed_in_between test_others_can_read_the_maps test_of_another_version
not_in inside test_wrong_use test_hostile_maps test_hostile_kinds test_folders_of_others test_the_hint_is_private

run_tests "$@"
