#!/usr/bin/env bash
# Probes of a host program that the compiler has inlined into its plugins: switched and counted like
# the host's own, whether the post-linker has been at the files or not.
#
# needs: link ocaml fixtures
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

LINK=${LINK:-$O/ocaml-probes-link}
export OCAMLPATH=$O/ocaml/lib PATH=$O:$PATH

# host, host_plain, and NAME.cmxs, NAME_plain.cmxs of both plugins, in $TMP.
build_all() {
	local suffix flags plugin
	cp "$ROOT"/tests/ocaml/inlined/*.ml "$TMP"
	cd "$TMP"
	for suffix in '' _plain; do
		flags=(-package ocaml-probes.ppx)
		[[ $suffix ]] || flags+=(-cc ocaml-probes-cc)
		ocamlfind ocamlopt -linkpkg -g -package dynlink "${flags[@]}" inlined_host.ml inlined_main.ml \
			-o "host$suffix" 2>>warnings
		for plugin in inlined_plugin inlined_plugin_own; do
			ocamlfind ocamlopt -shared -g "${flags[@]}" "$plugin.ml" -o "$plugin$suffix.cmxs" 2>>warnings
		done
	done
}

# The plugin's code, as the process has it.
code_of_plugin() { # PLUGIN
	local start end
	IFS='- ' read -r start end _ < <(grep -F "$TMP/$1" "/proc/$TARGET/maps" | grep ' r-xp ')
	dd if="/proc/$TARGET/mem" iflag=skip_bytes,count_bytes skip=$((0x$start)) \
		count=$((0x$end - 0x$start)) bs=64K status=none | md5sum
}

# The hits of NAME that the last measurement printed.
hits_of() { # NAME
	awk -v name="$1" '$1 == name { print $2 }' "$TMP/counts"
}

start_host() { # HOST
	start_target "$TMP/$1"
	await_line ready
}

load() { # PLUGIN
	tell "load $TMP/$1"
	await_line loaded
}

each_pair() { # FUNCTION
	local host plugin built
	build_all
	for host in host host_plain; do
		for plugin in inlined_plugin inlined_plugin_own; do
			for built in "$plugin.cmxs" "${plugin}_plain.cmxs"; do
				start_host "$host"
				"$1" "$built"
				tell quit
				finish_target
				eq "$TARGET_STATUS" 0 "$host $plugin: status"
			done
		done
	done
}

switch_it() { # PLUGIN
	local before code name=inlined
	load "$1"
	[[ $1 != *_own* ]] || name="inlined own"
	eq "$("$TOOL" info -pid "$TARGET" | cut -d' ' -f1 | xargs)" "$name" "probes with $1"
	code=$(code_of_plugin "$1")
	"$TOOL" attach -pid "$TARGET" -enable inlined
	[[ $(code_of_plugin "$1") != "$code" ]] || fail "$1: nothing was switched"
	tell 'go 10'
	# Each handler's 1 and 100, and 10000 from what asks.
	await_line 'sum 101010'
	eq "$("$TOOL" info -pid "$TARGET" | grep '^inlined')" "inlined enabled" "$1"
	eq "$("$TOOL" doctor -pid "$TARGET" | grep -v '^note:' || :)" "" "$1: doctor"
	"$TOOL" attach -pid "$TARGET" -disable inlined
	forget_output
	tell 'go 10'
	await_line 'sum 101010'
	eq "$(code_of_plugin "$1")" "$code" "$1: code"
}

test_switched() {
	each_pair switch_it
}

count_it() { # PLUGIN
	load "$1"
	start_counting "$TARGET" --count=inlined
	tell 'go 10'
	await_line 'sum 0'
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(hits_of inlined)" 20 "$1: hits: $(cat "$TMP/counts" "$TMP/counting.err")"
	grep -q "/$1: [0-9]* inlined sites* of other files' probes" "$TMP/counting.err" || fail "$(<"$TMP/counting.err")"
	background "$TOOL" attach --budget none -pid "$TARGET" --print inlined >"$TMP/counts" 2>"$TMP/counting.err"
	COUNTING=$!
	wait_for 'grep -q "^ocaml-probes: [a-z]* 1 probe " "$TMP/counting.err"'
	tell 'go 1'
	wait_for '[[ $(grep -c " inlined " "$TMP/counts") -ge 2 ]]'
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(awk '$4 == "inlined" { print $5 }' "$TMP/counts" | sort -n | xargs)" "x=1 x=100" "$1: arguments"
}

test_counted() {
	need_counting
	each_pair count_it
}

test_plugin_that_comes_while_its_host_is_counted() {
	need_counting
	build_all
	start_host host
	start_counting "$TARGET" --count=inlined
	load inlined_plugin.cmxs
	wait_for 'has_text "$TMP/counting.err" "1 more site, of newly loaded files"'
	tell 'go 10'
	await_line 'sum 0'
	kill -INT "$COUNTING"
	wait "$COUNTING"
	eq "$(hits_of inlined)" 20 "hits: $(<"$TMP/counting.err")"
}

# Enabled before the plugin came: `mixed`, as with any plugin, and repaired.
test_plugin_that_comes_while_the_probe_is_on() {
	build_all
	start_host host
	"$TOOL" attach -pid "$TARGET" -enable inlined
	load inlined_plugin.cmxs
	eq "$("$TOOL" info -pid "$TARGET")" "inlined mixed" "state"
	"$TOOL" doctor -pid "$TARGET" --fix >"$TMP/doctor"
	eq "$("$TOOL" info -pid "$TARGET")" "inlined enabled" "state"
	tell 'go 10'
	await_line 'sum 101010'
}

# What `list -prog` says of a plugin whose only sites are its host's.
test_list() {
	build_all
	for file in inlined_plugin.cmxs inlined_plugin_plain.cmxs; do
		eq "$("$TOOL" list -prog "$TMP/$file" 2>"$TMP/err")" ""
		eq "$(<"$TMP/err")" "ocaml-probes: $TMP/$file: has no OCaml probes of its own, but 1 site of probes of the program that loads it
hint: \`ocaml-probes info -pid PID\` shows them in a process that has loaded it"
	done
	eq "$("$TOOL" list -prog "$TMP/inlined_plugin_own.cmxs" 2>&1)" "own"
	check_error 1 "$(type -P true): not an OCaml program: it contains no OCaml runtime" list -prog "$(type -P true)"
}

test_post_linker() {
	local status
	build_all
	grep -q "inlined_plugin.cmxs: warning: 1 inlined site of other files' probes left dormant" "$TMP/warnings" || fail "$(<"$TMP/warnings")"
	for file in inlined_plugin.cmxs inlined_plugin_plain.cmxs inlined_plugin_own.cmxs inlined_plugin_own_plain.cmxs; do
		cp "$TMP/$file" "$TMP/before"
		status=0
		"$LINK" --check --strict "$TMP/$file" >"$TMP/out" 2>"$TMP/err" || status=$?
		eq "$status" 1 "$file: status of --check --strict: $(cat "$TMP/out" "$TMP/err")"
		[[ $(cat "$TMP/out" "$TMP/err") != *"nothing to do"* ]] || fail "$file: $(<"$TMP/out")"
		"$LINK" --check -v "$TMP/$file" >"$TMP/out" 2>"$TMP/err"
		eq "$(<"$TMP/err")" "ocaml-probes-link: $TMP/$file: warning: 1 inlined site of other files' probes left dormant: ocaml-probes finds them in the process; gdb, perf and bpftrace do not" "$file: warning"
		eq "$(grep -c 'a probe of another file at 0x[0-9a-f]* in camlInlined_plugin.*: stays dormant$' "$TMP/out")" 1 "$file: $(<"$TMP/out")"
		cmp "$TMP/$file" "$TMP/before"
	done
	eq "$("$LINK" --check "$TMP/inlined_plugin.cmxs" 2>/dev/null)" \
		"$TMP/inlined_plugin.cmxs: no probes of its own, 1 site of other files' probes" "what --check says"
	eq "$("$LINK" --check "$TMP/inlined_plugin_own_plain.cmxs" 2>/dev/null)" \
		"$TMP/inlined_plugin_own_plain.cmxs: 1 site of 1 probe can be converted, 0 probe_is_enabled" "what --check says"
	"$LINK" --check --strict "$TMP/host_plain" >"$TMP/out" 2>&1 || fail "$(<"$TMP/out")"
}

run_tests "$@"
