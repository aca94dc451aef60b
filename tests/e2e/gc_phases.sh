#!/usr/bin/env bash
# Phases of the collector, counted and timed by name, against OCaml's own books: with OCaml 4 what the
# runtime prints with OCAMLRUNPARAM=v=..., with OCaml 5 runtime_events. The compiler is the one in PATH.
#
# needs: fixtures
# variants: inside
# ocaml5: test_events_of_one_domain test_events_of_four_domains test_events_inside test_report_inside test_phase_of_two_pairs test_report_by_domain test_end test_exec test_refusals test_stripped test_bug_13123
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

PHASES=$ROOT/tests/ocaml/phases
VERSION=$(ocamlopt -version)
UNDER=() # a command that runs the program

# ---- helpers ----------------------------------------------------------------------------------

is_5() {
	[[ $VERSION = 5.* ]]
}

# The phases of OCaml 5 that have a duration.
timed_phases() {
	echo gc:minor gc:major_slice gc:stw
	[[ $VERSION = 5.1.* ]] || echo gc:compact
	[[ $VERSION = 5.[123].* ]] || echo gc:stw_wait
}

build() { # [FLAG...]
	need_counting
	need_command python3
	"$PHASES/build" "$TMP/built" "$@" 2>"$TMP/warnings" || fail "$(<"$TMP/warnings")"
}

# The size of the ring of each domain. On a busy machine, a domain that waits for others does many slices, and wrote more
# than 8 MB of events once. OCaml 5.1 and 5.2 take no number of domains (d), and fail if 128 rings have 4 GB or more.
ring_size() {
	case $VERSION in
	5.[12].*) echo e=20 ;;
	*) echo d=16,e=22 ;;
	esac
}

# Start phases and wait until it waits. With OCaml 4 it writes what its collector does, with OCaml 5 its
# ring is in $TMP/ring, and it writes its totals at its end.
start_phases() { # ROUNDS WORKERS [large]
	mkdir "$TMP/ring"
	if is_5; then
		start_target "${UNDER[@]}" env OCAMLRUNPARAM="$(ring_size),v=0x400" OCAML_RUNTIME_EVENTS_START=1 OCAML_RUNTIME_EVENTS_DIR="$TMP/ring" \
			"$TMP/built/phases" "$@"
	else
		# 1: cycles, 0x10: compactions, 0x40: slices, 0x400: totals. A large heap is compacted twice.
		start_target env OCAMLRUNPARAM=h=4M,v=0x451 "$TMP/built/phases" "$@"
	fi
	await_line ready
}

# All that the events of the target say so far.
books() {
	"$TMP/built/events" "$TMP/ring" "$TARGET"
}

# "PHASE NUMBER" of each measured phase.
measured() { # FILE
	python3 - "$1" <<'PY'
import json, sys
total = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")][-1]
for pair in total.get("pairs", total.get("pauses")):
    print(pair["start"], pair["count"])
    assert pair["count"] == pair["starts"] and not pair["open"] and not pair["orphan_stops"], pair
counts = total["counts"].items() if "counts" in total else [(p["name"], p["hits"]) for p in total["probes"]]
for name, hits in counts:
    print(name, hits)
PY
}

# ---- OCaml 4: the totals of the runtime -------------------------------------------------------

# What an OCaml 4 program has printed. The lines of slices and compactions are one each.
booked_phases() { # FILE
	echo "gc:minor $(sed -n 's/^minor_collections: //p' "$1")"
	echo "gc:major_slice $(grep -c '^ordered work = ' "$1")"
	echo "gc:major_cycle $(sed -n 's/^major_collections: //p' "$1")"
	echo "gc:compact $(sed -n 's/^compactions: //p' "$1")"
}

# The start of the runtime collects nothing, so these are the totals.
check_totals() { # [PHASE-TO-LEAVE-OUT]
	local name
	booked_phases "$(output_of)" | grep -v "${1:-none}" | sort >"$TMP/totals"
	measured "$TMP/counts" | grep -v "${1:-none}" | sort >"$TMP/measured"
	eq "$(<"$TMP/measured")" "$(<"$TMP/totals")" "phases"
	for name in gc:minor gc:major_slice gc:major_cycle; do
		[[ $(sed -n "s/^$name //p" "$TMP/totals") -ge 30 ]] || fail "too few: $(<"$TMP/totals")"
	done
	[[ $(grep -c '^Recompacting heap' "$(output_of)") -ge 1 ]] || fail "no second compaction"
}

if ! is_5; then
	test_totals_counted() {
		build
		start_phases 100 3 large
		start_measuring --json --count=gc:minor,gc:major_slice,gc:major_cycle,gc:compact
		tell go
		await_line finished 60
		stop_measuring
		quit_target
		check_totals
	}
fi

if ! is_5; then
	test_totals_timed() {
		build
		start_phases 100 3 large
		start_measuring --json --time gc:minor --time gc:major_slice --count=gc:major_cycle --time gc:compact
		tell go
		await_line finished 60
		stop_measuring
		quit_target
		# A pause can be two compactions.
		check_totals gc:compact
		eq "$(sed -n 's/^gc:compact //p' <<<"$(measured "$TMP/counts")")" \
			"$(($(grep -c '^Compacting heap' "$(output_of)") - $(grep -c '^Recompacting heap' "$(output_of)")))" "compactions"
	}
	not_in inside test_totals_timed
fi

# ---- OCaml 5: runtime_events ------------------------------------------------------------------

check_events_of_built() { # ROUNDS WORKERS PHASE=PERCENT...
	local rounds=$1 workers=$2 names name
	shift 2
	read -ra names < <(timed_phases | xargs)
	start_phases "$rounds" "$workers"
	start_measuring --json "${names[@]/#/--time=}" --count=gc:major_cycle
	books >"$TMP/before"
	tell go
	await_line finished 60
	stop_measuring
	books >"$TMP/after"
	quit_target
	compare_with_books pauses "$TMP/counts" "$TMP/before" "$TMP/after" "$@"
	[[ -z ${FIGURES:-} ]] || cat "$TMP/compared" >>"$FIGURES"
	for name in "${names[@]}"; do
		finds "^$name: " "$TMP/compared" || fail "no $name: $(<"$TMP/compared")"
	done
	# The total of 5.1 has cycles outside of the measured time: a program that quits at once has some, too.
	[[ $VERSION = 5.1.* ]] || eq "$(measured "$TMP/counts" | sed -n 's/^gc:major_cycle //p')" \
		"$(sed -n 's/^major_collections: //p' "$(output_of)")" "cycles"
}

# Where there are more domains than processors, a domain can lose its processor between the moments that the
# tool and OCaml take. OCaml 5.1 makes this likely. Domains that wait for the last one to end its minor
# collection sleep, and look about every 0.1 ms. The last one lets them continue right before it reports the end
# of EV_MINOR: if one of them wakes in the uprobe before the call of caml_ev_end, it takes the processor and
# works on. Uprobes and sched_switch showed that begins differ by 1 us, and ends too, but for a few of 300, where
# the domain waited for its processor between the two moments, for 5 to 50 ms: as long as the ends differ. The
# collection had ended, so OCaml's time is too long. The bounds of the books are exact: what the tool takes as
# the end comes after the event before, and before OCaml's end.
check_events() {
	build
	check_events_of_built "$@"
}

if is_5; then
	# Other programs do not take the processor between the moments that the tool and OCaml take.
	test_events_of_one_domain() {
		need_command chrt
		UNDER=(chrt -f 1)
		check_events 400 1 gc:minor=2 gc:major_slice=2 gc:stw=2
	}
fi

if is_5; then
	test_events_of_four_domains() {
		# Domains that wait for a full collection report slices all the time: without uprobes, 300 000 in a round.
		[[ $ENGINE != inside ]] || export FIRST=31
		UNDER=()
		check_events 40 4
	}
fi

# A function that reports an end by a jump has taken its frame away before. As part of two pairs, a phase is
# matched by frames.
if is_5; then
	test_phase_of_two_pairs() {
		local names pairs
		build
		read -ra names < <(timed_phases | xargs)
		pairs=("${names[@]/%/,gc:major_cycle}")
		start_phases 60 2
		start_measuring --json "${names[@]/#/--time=}" "${pairs[@]/#/--time=}" --count="$(IFS=,; echo "${names[*]}")"
		tell go
		await_line finished 60
		stop_measuring
		quit_target
		asserted
		python3 - "$TMP/counts" "${#names[@]}" <<'PY'
import json, sys
total = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")][-1]
hits = {p["name"]: p["hits"] for p in total["probes"]}
pauses = [pair for pair in total["pairs"] if pair.get("stop") != "gc:major_cycle"]
assert len(pauses) == int(sys.argv[2]) and len(total["pairs"]) == 2 * len(pauses), total
for pair in pauses:
    assert 0 < hits[pair["start"]] == pair["starts"] == pair["count"], (hits, pair)
    assert not pair["open"] and not pair["orphan_starts"] and not pair["orphan_stops"], pair
PY
	}
	not_in inside test_phase_of_two_pairs
fi

# ---- the report of gc -------------------------------------------------------------------------

# Start `gc` and return when it measures. Sets REPORTING.
start_report() {
	background "$TOOL" gc -pid "$TARGET" "${ENGINE_FLAGS[@]}" --json --interval 20ms >"$TMP/counts" 2>"$TMP/err"
	REPORTING=$!
	wait_for '[[ -s $TMP/counts ]]'
}

# Return when an interval that began after the work has ended.
end_intervals() {
	local lines
	lines=$(wc -l <"$TMP/counts")
	wait_for '[[ $(wc -l <"$TMP/counts") -gt $((lines + 1)) ]]'
}

test_report() {
	local status=0
	build
	if is_5; then
		start_phases 100 1
	else
		start_phases 100 3 large
	fi
	start_report
	! is_5 || books >"$TMP/before"
	tell go
	await_line finished 60
	! is_5 || books >"$TMP/after"
	end_intervals
	kill -INT "$REPORTING"
	wait "$REPORTING" || status=$?
	eq "$status" 0 "status: $(<"$TMP/err")"
	quit_target
	if is_5; then
		compare_with_books pauses "$TMP/counts" "$TMP/before" "$TMP/after"
	else
		check_totals gc:compact
	fi
	# The intervals add up to the whole.
	python3 - "$TMP/counts" <<'PY'
import json, sys
*intervals, total = [json.loads(line) for line in open(sys.argv[1])]
assert len(intervals) > 5, len(intervals)
for i, pause in enumerate(total["pauses"]):
    some = sum(interval["pauses"][i]["count"] for interval in intervals)
    assert pause["count"] == some > 0, (some, pause)
PY
}

# The pauses of each domain; the threads of a domain, and the one that stands in for them, are one domain.
if is_5; then
	test_report_by_domain() {
		local status=0
		build
		start_phases 40 4
		start_report
		books >"$TMP/before"
		tell go
		await_line finished 60
		books >"$TMP/after"
		end_intervals
		kill -INT "$REPORTING"
		wait "$REPORTING" || status=$?
		eq "$status" 0 "status: $(<"$TMP/err")"
		quit_target
		compare_with_books pauses "$TMP/counts" "$TMP/before" "$TMP/after"
		eq "$(grep -c 'gc:minor of domain [0-3]:' "$TMP/compared")" 4 "domains: $(<"$TMP/compared")"
		[[ -z ${FIGURES:-} ]] || cat "$TMP/compared" >>"$FIGURES"
		# All pauses belong to a domain, and the intervals of each add up to its whole.
		python3 - "$TMP/counts" <<'PY'
import json, sys
*intervals, total = [json.loads(line) for line in open(sys.argv[1])]
def counts(lines):
    sums = {}
    for line in lines:
        for pause in line["pauses"]:
            for domain in pause["domains"]:
                key = pause["start"], domain["domain"]
                sums[key] = sums.get(key, 0) + domain["count"]
    return {key: n for key, n in sums.items() if n}
some, all_of_it = counts(intervals), counts([total])
assert len(all_of_it) >= 8, all_of_it
for pause in total["pauses"]:
    assert pause["count"] == sum(domain["count"] for domain in pause["domains"]), pause
assert some == all_of_it, (some, all_of_it)
PY
	}
	not_in inside test_report_by_domain
fi

# The variant `inside` runs on OCaml 4 only.
if is_5; then
	inside() { # COMMAND...
		ENGINE=inside ENGINE_FLAGS=(--engine inside)
		"$@"
	}

	test_events_inside() {
		inside test_events_of_one_domain
		rm -r "$TMP/ring"
		test_events_of_four_domains
	}

	test_report_inside() {
		inside test_report
	}
	not_in inside test_events_inside test_report_inside
fi

# What the program collects before the time of the report begins is in neither of the numbers. The report's CPU samples
# begin with an event: strace holds the tool there for three seconds, in which the program collects.
test_pauses_before_the_report() {
	local tracer tool status=0
	need_command strace
	build
	start_phases 20 1
	background strace -qq -o "$TMP/calls" -e trace=perf_event_open -e inject=perf_event_open:delay_exit=3s:when=1 \
		"$TOOL" gc -pid "$TARGET" "${ENGINE_FLAGS[@]}" --for 100ms >"$TMP/report" 2>"$TMP/err"
	tracer=$!
	wait_for 'tool=$(pgrep -P $tracer) && ls -l /proc/$tool/fd 2>/dev/null | grep -q perf_event'
	tell go
	await_line finished 60
	eq "$(wc -l <"$TMP/report")" 0 "lines of the report"
	wait "$tracer" || status=$?
	eq "$status" 0 "status: $(<"$TMP/err")"
	quit_target
	matches "$(grep '^minor collections' "$TMP/report")" ' [1-9][0-9]* +0 +0$'
	eq "$(sed -n '/^PAUSES/,$ { /^gc:minor /s/  */ /gp }' "$TMP/report")" "gc:minor 0" "pauses: $(<"$TMP/report")"
}

# ---- programs that end or change --------------------------------------------------------------

# What was measured up to there is reported.
check_end() { # LINE STATUS-OF-GC
	local status=0
	build
	start_phases 20 1
	# One tool can count inside at a time.
	[[ $ENGINE = inside ]] || start_measuring --json --time gc:minor --count=gc:major_cycle
	background "$TOOL" gc -pid "$TARGET" "${ENGINE_FLAGS[@]}" --json --interval 10ms >"$TMP/report" 2>"$TMP/err"
	REPORTING=$!
	wait_for '[[ -s $TMP/report ]]'
	tell go
	await_line finished 60
	tell "$1"
	wait "$REPORTING" || status=$?
	eq "$status" "$2" "status of gc: $(<"$TMP/err")"
	[[ $1 != exec ]] || { await_exe /bin/sleep; kill "$TARGET"; }
	measured "$TMP/report" | finds '^gc:minor [1-9][0-9]' || fail "$(<"$TMP/report")"
	[[ $ENGINE != inside ]] || return 0
	status=0
	wait "$COUNTING" || status=$?
	eq "$status" 0 "status: $(<"$TMP/counting.err")"
	measured "$TMP/counts" | finds '^gc:minor [1-9][0-9]' || fail "$(<"$TMP/counts")"
	eq "$(measured "$TMP/report" | grep '^gc:m[a-z]* ')" "$(measured "$TMP/counts" | grep '^gc:m[a-z]* ')" "pauses in the report"
}

test_end() {
	check_end quit 0
}

test_exec() {
	check_end exec 5
}

# ---- what cannot be measured ------------------------------------------------------------------

test_refusals() {
	build
	start_phases 1 1
	check_error 4 "gc:major_cycle.* cannot be timed: it has no duration" attach -pid "$TARGET" --time gc:major_cycle
	if ! is_5; then
		check_error 2 "OCaml ${VERSION%.*}[.0-9]* has no gc:stw" attach -pid "$TARGET" --count=gc:stw
	fi
	if [[ $(timed_phases) != *gc:stw_wait* ]]; then
		check_error 2 "OCaml ${VERSION%.*}[.0-9]* has no gc:stw_wait" attach -pid "$TARGET" --count=gc:stw_wait
	fi
	quit_target
}
not_in inside test_refusals

# The symbols for the dynamic linker are left: of OCaml 5 the functions that report events.
test_stripped() {
	build -ccopt -s
	if is_5; then
		check_events_of_built 40 1
	else
		start_phases 100 3 large
		start_measuring --json --time gc:minor --time gc:major_slice --count=gc:major_cycle,gc:compact
		tell go
		await_line finished 60
		stop_measuring
		quit_target
		check_totals
	fi
}

# ---- the program of OCaml's bug 13123 ---------------------------------------------------------

test_bug_13123() {
	build
	"$TOOL" trace -prog "$TMP/built/bug13123" --count='fn:Bug13123\..*' --json -- 30 <<<go >"$TMP/out"
	"$TOOL" trace -prog "$TMP/built/bug13123" --time gc:minor --time gc:major_slice -- 30 <<<go >"$TMP/table"
	python3 - "$TMP/out" <<'PY'
import json, sys
lines = open(sys.argv[1]).read().splitlines()
hits = {p["name"].removeprefix("fn:Bug13123."): p["hits"] for p in json.loads(lines[-1])["probes"]}
books = dict(line.split() for line in lines if line.split()[0] in ("collect", "doze", "doze_on", "fill"))
assert len(books) == 4, books
for name, n in books.items():
    assert hits.get(name) == int(n), (name, hits, books)
PY
	matches "$(<"$TMP/table")" 'gc:minor +[1-9][0-9]+ '
}
not_in inside test_bug_13123

run_tests "$@"
