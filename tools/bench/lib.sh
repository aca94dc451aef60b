# Functions for the benchmarks. A benchmark is an executable tools/bench/NAME.bench. It gets the
# build directory as $1, prints a readable table, and calls `bar` for each limit. It measures
# ocaml-probes and the peer in the same run, alternating, and compares medians.
# shellcheck shell=bash

set -euo pipefail
export LC_ALL=C
O=$1
BENCH_DIR=$O/bench
TOOL=${OCAML_PROBES:-$O/ocaml-probes}

die() {
	echo "$(basename "$0"): $*" >&2
	cannot_run "$(basename "$0" .bench)" "$*"
	exit 1
}

# say_bar TEXT: for tools/bench/run, which collects the bars; or print it
say_bar() {
	if [[ -n ${BARS:-} ]]; then
		echo "bar $1" >>"$BARS"
	else
		echo "bar $1"
	fi
}

# cannot_run NAME REASON: report a bar that could not be measured as short
cannot_run() {
	say_bar "$1: could not run ($2) short"
}

# If tracefs is not mounted, rerun the benchmark in its own mount namespace with tracefs. This may
# be forbidden, so code that needs tracefs checks has_tracefs.
with_tracefs() { # ARG... of the benchmark
	[[ ! -e $tracefs/uprobe_events && -z ${IN_OWN_NAMESPACE:-} ]] || return 0
	if unshare --mount --propagation private mount -t tracefs tracefs "$tracefs" 2>/dev/null; then
		# shellcheck disable=SC2016 # the shell in the namespace expands it
		IN_OWN_NAMESPACE=yes exec unshare --mount --propagation private sh -ec '
			mount -t tracefs tracefs "$1"; shift; exec "$@"' sh "$tracefs" "$0" "$@"
	fi
}

tracefs=/sys/kernel/tracing
[[ ! -e /sys/kernel/debug/tracing/uprobe_events ]] || tracefs=/sys/kernel/debug/tracing

has_tracefs() {
	[[ -w $tracefs/uprobe_events ]]
}

need() {
	local program
	for program; do
		command -v "$program" >/dev/null || die "$program is missing: run make deps"
	done
}

# median NUMBER...
median() {
	printf '%s\n' "$@" | sort -g |
		awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# calc EXPRESSION, in awk's syntax
calc() {
	awk "BEGIN { printf \"%.6g\", $1 }"
}

# row CELL...
row() {
	printf '%-36s' "$1"
	shift
	(($# == 0)) || printf ' %12s' "$@"
	echo
}

# bar NAME FIGURE LIMIT: check a limit; tools/bench/run prints all bars at the end
bar() {
	local verdict
	verdict=$(awk "BEGIN { print ($2 <= $3) ? \"holds\" : \"short\" }")
	say_bar "$(printf '%s: %.3f (at most %s) %s' "$1" "$2" "$3" "$verdict")"
}

now_us() {
	echo "${EPOCHREALTIME/./}"
}

# ---- what the kernel counts of BPF programs ------------------------------------------------------

stats_file=/proc/sys/kernel/bpf_stats_enabled

# Have it count until the benchmark ends. FUNCTION runs then too.
count_bpf_time() { # FUNCTION
	[[ -w $stats_file ]] || die "$stats_file cannot be written"
	# shellcheck disable=SC2064 # the value of now is meant
	trap "$1; echo $(cat "$stats_file") >$stats_file" EXIT
	echo 1 >"$stats_file"
}

# The nanoseconds and runs of the programs of TRACER: all, or those of a type of linux/bpf.h.
bpf_time() { # [TYPE]
	cat /proc/"$TRACER"/fdinfo/* 2>/dev/null | awk -v wanted="${1:-}" '
		/^prog_type:/ { type = $2 }
		/^prog_id:/ { id = $2 }
		/^run_time_ns:/ { ns = $2 }
		/^run_cnt:/ && !(id in seen) && (wanted == "" || type == wanted) {
			seen[id] = 1
			sum += ns
			runs += $2
		}
		END { print sum + 0, runs + 0 }'
}

# ---- the target: one probe, hit on demand (target.c), or another program that answers lines -----

start_target() { # [PROGRAM [ARG...]]
	[[ -x $BENCH_DIR/${1:-target} ]] || die "$BENCH_DIR/${1:-target} is missing: run make bench-programs"
	coproc TARGET_IO { exec "$BENCH_DIR/${1:-target}" "${@:2}"; }
	# shellcheck disable=SC2034,SC2153 # made by coproc
	TARGET=$TARGET_IO_PID
	trap 'kill "$TARGET" 2>/dev/null || true' EXIT
	until [[ /proc/$TARGET/exe -ef $BENCH_DIR/${1:-target} ]]; do
		sleep 0.01
	done
}

stop_target() {
	kill "$TARGET"
	wait "$TARGET" 2>/dev/null || true
	trap - EXIT
}

# A compiler that waits: it reads its program from a pipe that nobody writes to.
start_compiler() { # PROGRAM
	[[ -x $1 ]] || die "$1 is missing"
	coproc COMPILER { exec "$1" -i -impl /dev/stdin 2>&1; }
	# shellcheck disable=SC2153 # made by coproc
	TARGET=$COMPILER_PID
	trap 'kill "$TARGET" 2>/dev/null || true' EXIT
	until [[ /proc/$TARGET/exe -ef $1 && $(awk '{ print $3 }' "/proc/$TARGET/stat") = S ]]; do
		sleep 0.01
	done
}

# ask COMMAND [ARG]: the target's answer in $REPLY
ask() {
	echo "$*" >&"${TARGET_IO[1]}"
	read -r REPLY <&"${TARGET_IO[0]}" || die "the target exited"
	[[ $REPLY != timeout ]] || die "timed out: $*"
}

# start_NAME starts a tracer and leaves its pid in $TRACER. A background process of a script ignores
# SIGINT by default.
start_ours() {
	env --default-signal=INT "$TOOL" attach --budget none -pid "$TARGET" --count --for 60s >"$BENCH_DIR/ours.out" 2>&1 &
	TRACER=$!
}

start_bpftrace() {
	env --default-signal=INT bpftrace -q -p "$TARGET" -e "usdt:$BENCH_DIR/target:ocaml_1:hit { @ = count(); }" \
		>"$BENCH_DIR/bpftrace.out" 2>&1 &
	TRACER=$!
}

# await_on WHAT TRACER: until the calls of WHAT (of `calls`) cost a trap, and the tracer has attached to all
# its places: ours says so, bpftrace does it within half a second.
await_on() { # WHAT ours|bpftrace
	ask await on "$1"
	if [[ $2 = ours ]]; then
		until grep -qE '^ocaml-probes: (counting|measuring) ' "$BENCH_DIR/ours.out"; do
			kill -0 "$TRACER" 2>/dev/null || die "$(cat "$BENCH_DIR/ours.out")"
			sleep 0.01
		done
	else
		sleep 0.5
	fi
}

# bpftrace misses a signal that comes while bpftrace starts. So repeat the signal for TRACER_SECONDS.
end_tracer() {
	local i
	for ((i = 0; i < ${TRACER_SECONDS:-60} * 50; i++)); do
		((i % 100)) || kill -INT "$TRACER" 2>/dev/null || break
		kill -0 "$TRACER" 2>/dev/null || break
		sleep 0.02
	done
	if kill -KILL "$TRACER" 2>/dev/null; then
		die "the tracer (pid $TRACER) did not end after SIGINT, and was killed"
	fi
	wait "$TRACER" || true
}

stop_tracer() {
	end_tracer
	ask await off
}
