# What the benchmarks share. A benchmark is an executable tools/bench/NAME.bench; it is called with
# the build folder as $1, prints a table that a person can read, and calls `bar` for each limit it
# has to keep. It measures us and the peer in the same run, alternating, and compares medians.
# shellcheck shell=bash

set -euo pipefail
export LC_ALL=C
O=$1
BENCH_DIR=$O/bench
TOOL=${OCAML_PROBES:-$O/ocaml-probes}

die() {
	echo "$(basename "$0"): $*" >&2
	exit 1
}

need() {
	local program
	for program; do
		command -v "$program" >/dev/null || die "$program is needed: make deps"
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

# bar NAME FIGURE LIMIT: a promise; tools/bench/run prints them all at the end
bar() {
	local verdict
	verdict=$(awk "BEGIN { print ($2 <= $3) ? \"holds\" : \"short\" }")
	printf 'bar %s: %.3f (at most %s) %s\n' "$1" "$2" "$3" "$verdict" >>"${BARS:-/dev/stdout}"
}

now_us() {
	echo "${EPOCHREALTIME/./}"
}

# ---- the target: one probe, hit on demand (target.c), or another program that answers lines -----

start_target() { # [PROGRAM]
	coproc TARGET_IO { exec "$BENCH_DIR/${1:-target}"; }
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

# ask COMMAND [ARG]: the target's answer in $REPLY
ask() {
	echo "$*" >&"${TARGET_IO[1]}"
	read -r REPLY <&"${TARGET_IO[0]}" || die "the target died"
	[[ $REPLY != timeout ]] || die "timed out: $*"
}

# The tracers: start_NAME leaves the process in $TRACER. What a script starts in the background
# ignores SIGINT unless told otherwise.
start_ours() {
	env --default-signal=INT "$TOOL" attach -pid "$TARGET" --count --for 60s >"$BENCH_DIR/ours.out" 2>&1 &
	TRACER=$!
}

start_bpftrace() {
	env --default-signal=INT bpftrace -q -p "$TARGET" -e "usdt:$BENCH_DIR/target:ocaml_1:hit { @ = count(); }" \
		>"$BENCH_DIR/bpftrace.out" 2>&1 &
	TRACER=$!
}

stop_tracer() {
	kill -INT "$TRACER"
	wait "$TRACER" || true
	ask await off
}
