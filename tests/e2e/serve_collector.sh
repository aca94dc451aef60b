#!/usr/bin/env bash
# What `serve` and `top` say of the collector, against what the programs say of themselves.
#
# needs: fixtures serve top ocaml/service
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"

FIGURES="minor_collections major_collections compactions minor_words promoted_words major_words heap_words top_heap_words"

start_gauges() { # [PROGRAM]
	start_target "${1:-$TMP/gauges}"
	await_line ready
}

# Have the target do WORK, and rest in "stat" while its figures are compared.
rest() { # WORK...
	local word
	for word; do
		forget_output
		tell "$word"
		await_line finished 60
	done
	forget_output
	tell stat
	await_line waiting
}

# The resting target goes on, and prints its figures, which are "NAME FIGURE" lines in $TMP/books.PID then.
go_on() { # PID
	tell '' "$1"
	await_line end 20 "$1"
	sed -n 's/^\([a-z_]* [0-9]*\)$/\1/p' "$(output_of "$1")" >"$TMP/books.$1"
}

# Wait until the server has taken N times more what it takes each second.
await_ticks() { # N
	local times first
	first=$(tick_time)
	for ((times = 0; times < $1; times++)); do
		wait_for '[[ $(tick_time) != "$first" ]]'
		first=$(tick_time)
	done
}

# The figures of rates change at a tick only.
tick_time() {
	curl -sS --fail "$URL/api/v1/history" | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["time"])'
}

# The sum of figure NAME in the books of PIDs.
sum_of() { # NAME PID...
	local name=$1
	shift
	cat "${@/#/$TMP/books.}" | awk -v name="$name" '$1 == name { sum += $2 } END { print sum + 0 }'
}

# The value of figure NAME in the scrape on stdin.
metric_of() { # NAME
	case $1 in
	heap_words | top_heap_words) sample "ocaml_gc_$1" ;;
	*) sample "ocaml_gc_$1_total" ;;
	esac
}

await_processes() { # N
	wait_for "[[ \$(scrape | sample ocaml_gc_processes) = $1 ]]"
}

# Sums grow with processes that come, and stay when these have ended; the heap is that of those that run.
check_serve() { # SERVE-OPTION...
	local first second third name
	need_counting
	compile_source gauges gauges
	start_gauges
	first=$TARGET
	start_serve serve "$@"
	await_processes 1
	rest work major
	scrape >"$TMP/one"
	go_on "$first"
	for name in $FIGURES; do
		eq "$(metric_of "$name" <"$TMP/one")" "$(sum_of "$name" "$first")" "$name of one process"
	done
	eq "$(sample ocaml_gc_allocated_words_total <"$TMP/one")" \
		"$(($(sum_of minor_words "$first") + $(sum_of major_words "$first") - $(sum_of promoted_words "$first")))" "allocated words"
	[[ $(sum_of major_collections "$first") -gt 0 ]] || fail "no major cycle"

	start_gauges
	second=$TARGET
	await_processes 2
	rest work compact
	TARGET=$first
	rest
	scrape >"$TMP/two"
	go_on "$first"
	go_on "$second"
	for name in $FIGURES; do
		eq "$(metric_of "$name" <"$TMP/two")" "$(sum_of "$name" "$first" "$second")" "$name of two processes"
	done

	# What it did after the last reading is lost; so it rests, until it has been read (each second) in two histories.
	TARGET=$second
	rest
	await_ticks 3
	kill "$second"
	await_processes 1
	TARGET=$first
	rest
	scrape >"$TMP/ended"
	go_on "$first"
	for name in minor_collections major_collections compactions minor_words promoted_words major_words; do
		[[ $(metric_of "$name" <"$TMP/ended") -ge $(metric_of "$name" <"$TMP/two") ]] || fail "$name goes back"
		[[ $(metric_of "$name" <"$TMP/ended") -ge $(sum_of "$name" "$first" "$second") ]] || fail "$name lacks the process that ended"
	done
	eq "$(metric_of heap_words <"$TMP/ended")" "$(sum_of heap_words "$first")" "heap of the one that runs"
	kill "$first"
	await_processes 0
	start_gauges
	third=$TARGET
	await_processes 1
	for name in minor_collections minor_words; do
		[[ $(scrape | metric_of "$name") -ge $(metric_of "$name" <"$TMP/ended") ]] || fail "$name goes back"
	done
	rest work
	for name in minor_collections minor_words; do
		[[ $(scrape | metric_of "$name") -gt $(metric_of "$name" <"$TMP/ended") ]] || fail "$name does not grow"
	done
	kill "$third"
	stop_serve
}

test_figures() {
	check_serve --exe "$TMP/gauges" --count=c:caml_alloc_shr
}

test_figures_of_a_stripped_program() {
	compile_source() {
		(. "$ROOT/tests/e2e/target_lib.sh"; compile_source "$@") || exit 1
		strip "$TMP/$1"
	}
	check_serve --exe "$TMP/gauges" --time gc:minor
}

# Programs that were not named are read too, once an examiner has read their files. The program and the
# server are alone in a namespace.
test_every_program() {
	need_counting
	need_command unshare
	own_copy "$O/tests/ocaml/service" >/dev/null
	serve_command=(unshare --pid --fork --mount-proc --kill-child bash -c '"$0" >/dev/null & exec "$@"' "$TMP/service"
		"$TOOL" serve --listen 127.0.0.1:0)
	start_serve serve
	wait_for '[[ $(scrape | sample ocaml_gc_processes "exe=\"$TMP/service\"") = 1 ]]'
	holds wait_for '[[ $(scrape | sample ocaml_gc_minor_collections_total "exe=\"$TMP/service\"") -gt 1 ]]'
	kill -KILL "$SERVE"
}

# Pauses of the phases that are timed, as histograms and in the JSON.
test_pauses() {
	need_counting
	compile_source gauges gauges
	start_serve serve --exe "$TMP/gauges" --time gc:minor --time gc:major_slice
	start_gauges
	await_processes 1
	rest work major work
	await_rest
	scrape >"$TMP/scrape"
	curl -sS --fail -H 'Cache-Control: no-cache' "$URL/api/v1/status" >"$TMP/status"
	go_on "$TARGET"
	eq "$(sample ocaml_gc_pause_seconds_count 'phase="minor"' <"$TMP/scrape")" "$(sum_of minor_collections "$TARGET")" "minor pauses"
	eq "$(sample ocaml_gc_pause_seconds_bucket 'phase="minor"' 'le="+Inf"' <"$TMP/scrape")" "$(sum_of minor_collections "$TARGET")"
	[[ $(sample ocaml_gc_pause_seconds_count 'phase="major_slice"' <"$TMP/scrape") -gt 0 ]] || fail "no slice"
	python3 - "$TMP/status" "$TMP/scrape" <<'PY'
import json, re, sys
target = json.load(open(sys.argv[1]))["targets"][0]
pairs = {pair["start"]: pair for pair in target["pairs"]}
sums = dict(re.findall(r'^ocaml_gc_pause_seconds_sum\{phase="(\w+)",.*\} (\S+)$', open(sys.argv[2]).read(), re.M))
assert set(sums) == {"minor", "major_slice"}, sums
for phase, seconds in sums.items():
    assert abs(float(seconds) * 1e9 - pairs["gc:" + phase]["sum_ns"]) < 1, (phase, seconds, pairs)
gc = target["gc"]
assert gc["pause_share"] == 0 and gc["minor_rate"] == 0 and gc["processes"] == 1, gc
PY
	stop_serve
}

# Until a tick in which nothing was collected.
await_rest() {
	wait_for 'curl -sS "$URL/api/v1/status" | grep -q "\"minor_rate\":0[.,0]*[^1-9]*\"major_rate\":0[.,0]*,"'
}

# A program without OCaml has no such members.
test_a_program_in_c() {
	need_counting
	copy_steady steady
	start_serve serve --exe "$EXE"
	start_target "$EXE" 100
	await_line ready
	wait_for '[[ $(scrape | sample ocaml_probes_up) = 1 ]]'
	sleep 2.5
	scrape >"$TMP/scrape"
	! grep -q '^ocaml_gc' "$TMP/scrape" || fail "$(<"$TMP/scrape")"
	! curl -sS "$URL/api/v1/status" | finds '"gc"' || fail "it has a collector"
	stop_serve
}

# The line of top: all of it in a wide terminal, the most important parts in a narrow one.
test_top() {
	local line
	need_counting
	need_command tmux
	compile_source gauges gauges
	start_gauges
	tell go
	await_line going
	env -u TMUX TMUX_TMPDIR="$TMP" tmux -f /dev/null new-session -d -x 120 -y 20 "$TOOL top -pid $TARGET --time gc:minor --time gc:major_slice"
	wait_for 'screen | finds "^gc   [1-9].* pauses "'
	line=$(screen | grep '^gc ')
	matches "$line" '^gc   [0-9.]+k? minor/s   [0-9.]+k? major/s   allocated [0-9.]+[MG]B/s   promoted [0-9.]+[kM]B/s   heap [0-9.]+[kM]B   pauses [0-9.]+% *$'
	env -u TMUX TMUX_TMPDIR="$TMP" tmux resize-window -x 40
	wait_for 'screen | finds "^gc   [0-9.k]* minor/s   allocated [^ ]* *$"'
	kill "$TARGET"
	wait_for '! screen | finds "^gc "'
	env -u TMUX TMUX_TMPDIR="$TMP" tmux kill-server
}

screen() {
	env -u TMUX TMUX_TMPDIR="$TMP" tmux capture-pane -p
}

run_tests "$@"
