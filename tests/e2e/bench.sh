#!/usr/bin/env bash
# tools/bench/run and lib.sh, with benchmarks made for it: what cannot run is a short bar, and tracefs is
# there even if nobody has mounted it.
. "$(dirname "$0")/lib.sh"

# A benchmark called NAME: its lines are stdin.
make_bench() { # NAME
	mkdir -p "$TMP/bench"
	cp "$ROOT/tools/bench/run" "$ROOT/tools/bench/lib.sh" "$TMP/bench"
	{ printf '#!/bin/bash\n. "$(dirname "$0")/lib.sh"\n'; cat; } >"$TMP/bench/$1.bench"
	chmod +x "$TMP/bench/$1.bench"
}

# Run them; the status goes to STATUS, the bars to BARS.
run_benches() { # [COMMAND...]
	STATUS=0
	"$@" "$TMP/bench/run" "$O" >"$TMP/out" 2>"$TMP/err" || STATUS=$?
	BARS=$(grep '^bar ' "$TMP/out" || :)
}

test_what_could_not_run_is_short() {
	make_bench good <<<'bar good 1 2'
	make_bench lacks <<<'need no-such-program; bar lacks 1 2'
	make_bench fails <<<'false; bar fails 1 2'
	make_bench part <<<'cannot_run part_of_it "the moon is full"; bar the_rest 3 2'
	run_benches
	eq "$STATUS" 1 "status"
	eq "$BARS" "bar fails: could not run (see above) short
bar good: 1.000 (at most 2) holds
bar lacks: could not run (no-such-program is missing: run make deps) short
bar part_of_it: could not run (the moon is full) short
bar the_rest: 3.000 (at most 2) short"
}

# What a benchmark lacks is said, and a tracer that misses a signal or ignores it cannot make a benchmark wait for ever.
test_every_benchmark_ends() {
	# shellcheck disable=SC2016 # the benchmark expands it
	local start='BENCH_DIR=$(mktemp -d)
start() { # ACTION of SIGINT
	env --default-signal=INT bash -c "trap \"$1\" INT; : >$BENCH_DIR/ready; while :; do sleep 0.05; done" &
	TRACER=$!
	until [[ -e $BENCH_DIR/ready ]]; do sleep 0.01; done
}'
	make_bench compiler <<<'start_compiler /no-such-compiler; bar compiler 1 2'
	make_bench late <<<"$start"'
start "trap exit INT"; end_tracer; kill -0 $TRACER 2>/dev/null || bar late 1 2'
	make_bench stubborn <<<"$start"'
start ""; TRACER_SECONDS=1 end_tracer; bar stubborn 1 2'
	make_bench target <<<'start_target no-such-target; bar target 1 2'
	run_benches timeout 60
	eq "$STATUS" 1 "status: $(<"$TMP/err")"
	eq "$(sed -E 's/pid [0-9]+/pid N/' <<<"$BARS")" "bar compiler: could not run (/no-such-compiler is missing) short
bar late: 1.000 (at most 2) holds
bar stubborn: could not run (the tracer (pid N) did not end after SIGINT, and was killed) short
bar target: could not run ($O/bench/no-such-target is missing: run make bench-programs) short"
}

# In a mount namespace without tracefs, as on a machine that has just started.
without_tracefs() { # COMMAND...
	# shellcheck disable=SC2016 # the shell in the namespace expands it
	unshare --mount --propagation private bash -c '
		while umount /sys/kernel/debug/tracing || umount /sys/kernel/tracing; do :; done 2>/dev/null
		umount /sys/kernel/debug 2>/dev/null
		[[ ! -e /sys/kernel/tracing/uprobe_events ]] && exec "$@"' bash "$@"
}

test_tracefs_is_mounted_for_a_benchmark() {
	local before
	need_root
	make_bench tracefs <<-'END'
		with_tracefs "$@"
		if has_tracefs; then bar events "$(wc -l <"$tracefs/uprobe_events" >/dev/null; echo 1)" 1
		else cannot_run events "$tracefs is not mounted"; fi
	END
	before=$(grep tracefs /proc/self/mounts || :)
	run_benches without_tracefs
	eq "$STATUS $BARS" "0 bar events: 1.000 (at most 1) holds" "$(<"$TMP/err")"
	eq "$(grep tracefs /proc/self/mounts || :)" "$before" "mounts outside"
	# Where mounting is forbidden, it is said.
	need_command setpriv
	run_benches without_tracefs setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin
	eq "$STATUS $BARS" "0 bar events: could not run (/sys/kernel/tracing is not mounted) short" "$(<"$TMP/err")"
}

run_tests "$@"
