#!/usr/bin/env bash
# The probes of the library ocaml-probes.memprof, while a profile runs: what other commands, and bpftrace,
# tell of them equals the events of the profile.
#
# MEMPROF_EVENTS=1000000 compares so many events.
#
# needs: fixtures ocaml
# not_on: 5.0.* 5.1.* 5.2.*
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
SOURCES=$ROOT/tests/ocaml/memprof

# A program of its own: nobody else's uprobes are on it.
build_subject() { # FLAG...
	need_counting
	cp "$SOURCES/subject.ml" "$TMP"
	cd "$TMP"
	PATH=$O:$PATH OCAMLPATH=$O/ocaml/lib:${OCAMLPATH:-} ocamlfind ocamlopt -thread -linkpkg -g \
		-package threads.posix,ocaml-probes.memprof "$@" subject.ml -o subject
	start_target "$TMP/subject" books "$TMP/books" "${MEMPROF_EVENTS:-20000}"
	await_line ready
}

# The hits take half of the program's time, or more: there is no limit.
start_tool() { # NAME ARG...
	background timeout 600 "$TOOL" attach -pid "$TARGET" --budget none "${@:2}" >"$TMP/$1" 2>"$TMP/$1.err"
	TOOLS+=($!)
	wait_for "grep -qE '(counting|measuring) [1-9]' '$TMP/$1.err'"
}

# The program ends by itself, in the middle of the profile.
profile() {
	timeout 600 "$TOOL" memprof -pid "$TARGET" --rate 0.01 --json --quiet >"$TMP/events"
}

# "BLOCK SAMPLES WORDS SOURCE" of the events KIND; the source is its number.
events_of() { # KIND
	sed -nE 's/.*"event":"'"$1"'","block":([0-9]+),.*"samples":([0-9]+),"words":([0-9]+),"source":"([a-z]+)".*/\1 \2 \3 \4/p' \
		"$TMP/events" | sed 's/normal$/0/; s/marshal$/1/; s/custom$/2/'
}

hits_of_events() {
	grep -oE '"event":"(alloc|promote|dealloc)[a-z_]*"' "$TMP/events" | sort | uniq -c |
		sed -E 's/ *([0-9]+) .*:"(.*)"/memprof_\2 \1/'
}

check_tools() {
	local tool TOOLS=()
	start_tool counts --count='memprof_.*' --json
	start_tool printed --print memprof_alloc_minor --filter 'arg1 >= 5'
	start_tool histogram --count=memprof_alloc_major --hist arg1 --json
	profile
	for tool in "${TOOLS[@]}"; do
		wait "$tool" || fail "status $?: $(cat "$TMP"/*.err)"
	done
	eq "$(totals | sort)" "$(hits_of_events)"
	eq "$(hits_of_events | wc -l)" 5
	eq "$(sed -nE 's/.* memprof_alloc_minor n_samples=([0-9]+) size=([0-9]+) source=([0-9]+) callstack=\(.*\) id=([0-9]+) session=1 minor_collections=[0-9]+ major_collections=[0-9]+ domain=0$/\4 \1 \2 \3/p' "$TMP/printed")" \
		"$(events_of alloc_minor | awk '$3 >= 5')"
	(($(events_of alloc_minor | awk '$3 >= 5' | wc -l) > 50))
	eq "$(python3 -c '
import json, sys
h = [json.loads(line) for line in open(sys.argv[1])][-1]["histograms"][0]
print(h["count"], h["sum"], h["min"], h["max"], h["not_int"])' "$TMP/histogram")" \
		"$(events_of alloc_major | awk '{ n++; sum += $3; if (!least || $3 < least) least = $3; if ($3 > most) most = $3 }
			END { print n, sum, least, most, 0 }')"
}

test_post_linked() {
	build_subject -cc ocaml-probes-cc
	check_tools
}

test_not_post_linked() {
	build_subject
	check_tools
}

test_bpftrace() {
	need_command bpftrace bpftool
	build_subject -cc ocaml-probes-cc
	background bpftrace -p "$TARGET" -e "usdt:$TMP/subject:ocaml_1:memprof_alloc_minor {
		@n = count(); @samples = sum(arg0 >> 1); @words = sum(arg1 >> 1); @blocks = sum(arg4 >> 1); }" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for 'bpftrace_is_attached 1' 30
	profile
	end_bpftrace
	eq "$(grep '^@' "$TMP/bpftrace" | sort | xargs)" \
		"$(events_of alloc_minor | awk '{ n++; samples += $2; words += $3; blocks += $1 }
			END { printf "@blocks: %d @n: %d @samples: %d @words: %d", blocks, n, samples, words }')"
}

run_tests "$@"
