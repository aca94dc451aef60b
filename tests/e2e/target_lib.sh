# shellcheck shell=bash
# What the scripts that watch targets share: counting in the background, and reading what a target
# says of itself and what its memory holds.

# Counting is tested with the privileges it needs: inside of a process of one's own, none.
need_counting() {
	[[ $ENGINE = inside ]] || need_bpf
}

need_bpf() {
	need_root
	[[ -e /sys/fs/bpf ]] || skip "the kernel has no BPF"
}

# The flags that choose the engine of the variant. Without any, root's is BPF.
ENGINE_FLAGS=(--engine "$ENGINE")
[[ $ENGINE != bpf ]] || ENGINE_FLAGS=()

# Start `attach FLAG...` in the background, on TARGET unless FLAG... say on what, with the ENGINE of the variant. Its output
# is in $TMP/counts, what it says in $TMP/counting.err. Return when it measures. Sets COUNTING to its pid. Targets are busy
# with their hits on purpose, so there is no limit unless FLAG... say so.
start_measuring() { # FLAG...
	local flags=("${ENGINE_FLAGS[@]}")
	need_counting
	[[ " $* " != *" --engine "* ]] || flags=()
	[[ " $* " =~ " -pid "|" --exe "|" -exe "|" -prog " ]] || flags+=(-pid "$TARGET")
	[[ " $* " == *" --budget"* ]] || flags+=(--budget none)
	: >"$TMP/counting.err"
	background "$TOOL" attach "${flags[@]}" "$@" >"$TMP/counts" 2>"$TMP/counting.err"
	COUNTING=$!
	wait_for 'has_text "$TMP/counting.err" "ocaml-probes: (counting|measuring) [0-9]+ " || ! kill -0 "$COUNTING"'
	kill -0 "$COUNTING" 2>/dev/null || fail "it does not measure: $(<"$TMP/counting.err")"
}

# End what start_measuring has started, by SIGINT.
stop_measuring() {
	kill -INT "$COUNTING"
	wait "$COUNTING" || fail "status $?: $(<"$TMP/counting.err")"
}

# Measure until the results, in $TMP/counts, match the extended regular expression RE.
measure_until() { # RE FLAG...
	local RESULTS=$1
	start_measuring --json --interval 50ms "${@:2}"
	wait_for 'has_text "$TMP/counts" "$RESULTS" || ! kill -0 "$COUNTING"'
	stop_measuring
	holds has_text "$TMP/counts" "$RESULTS"
}

# Begin one of several measurements of TARGET at a time: its output is in $TMP/out.ID, what it says in $TMP/err.ID.
measurements=()
measuring() { # ID FLAG...
	((${#measurements[@]})) || rm -f "$TMP"/out.* "$TMP"/err.*
	background "$TOOL" attach -pid "$TARGET" --budget none "${@:2}" >"$TMP/out.$1" 2>"$TMP/err.$1"
	measurements+=($!)
}

# When all of these have begun, let the target go; when that says `end`, they end.
go_measured() {
	await_measurements
	tell go
	await_line end 60
	end_measurements
}

await_measurements() {
	wait_for '[[ $(cat "$TMP"/err.* | grep -Ec "ing [0-9]+ probes?") -eq ${#measurements[@]} ]]'
}

end_measurements() {
	kill -INT "${measurements[@]}"
	wait "${measurements[@]}"
	measurements=()
}

# Count the hits of all probes of PID.
start_counting() { # PID [FLAG...]
	start_measuring -pid "$1" --count "${@:2}"
}

# "NAME HITS" lines of the last object that counting with --json printed.
totals() {
	tail -n 1 "$TMP/counts" | grep -o '"name":"[A-Za-z0-9_]*","hits":[0-9]*' |
		sed 's/"name":"\(.*\)","hits":/\1 /'
}

# What `counted` and `loop` print at their end, as "NAME RUNS" and "NAME HITS".
handler_runs() {
	sed -n 's/^\([A-Za-z0-9_]*\) handler=\([0-9]*\).*/\1 \2/p' "$(output_of)"
}

expected_hits() {
	sed -n 's/^\([A-Za-z0-9_]*\) handler=[0-9]* expected=\([0-9]*\).*/\1 \2/p' "$(output_of)"
}

# What a fixture's probes are hit in ROUNDS rounds, one hit a round at every site that has code, as
# "NAME HITS" lines sorted as the tool does.
fixture_hits() { # FIXTURE ROUNDS
	"$O/tests/fixtures/$1" --expect |
		awk -v rounds="$2" '/^site/ { name = $6 == "args" ? "" : $6; hits[name] += $2 != "0x0" && $2 != "0" ? rounds : 0 }
			END { for (name in hits) print name, hits[name] }' | LC_ALL=C sort -k1,1
}

# Wait for a target's end. Sets TARGET_STATUS.
finish_target() {
	TARGET_STATUS=0
	wait "$TARGET" || TARGET_STATUS=$?
}

# Start COMMAND, which ends at once. Its parent, which is no shell, does not wait for it. Sets ZOMBIE to its pid.
start_zombie() { # COMMAND...
	python3 -c 'import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(1000)' "$@" >"$TMP/zombie" &
	wait_for '[[ -s $TMP/zombie ]]'
	ZOMBIE=$(<"$TMP/zombie")
	wait_for 'grep -q "^State:.Z" "/proc/$ZOMBIE/status"'
}

# Sets TICKS to how long the process or thread of /proc/ID has had a CPU, in hundredths of a second.
# No process is started: waits look often.
read_ticks() { # ID
	local stat=''
	TICKS=0
	{ read -rd '' stat <"/proc/$1/stat" || :; } 2>/dev/null
	read -ra stat <<<"${stat##*) }"
	((${#stat[@]} < 13)) || TICKS=$((stat[11] + stat[12]))
}

# "TID TICKS" of PID's threads.
cpu_ticks() { # PID
	local task TICKS
	for task in "/proc/$1/task"/*; do
		read_ticks "$1/task/${task##*/}"
		echo "${task##*/} $TICKS"
	done
}

# Whether the CPU times that `cpu_ticks` told BEFORE have grown by some ticks: of each thread but the
# first, which reads what it is told, or of all together.
have_run() { # each|all PID BEFORE
	local task tid ticks sum=0 TICKS
	local -A before=()
	while read -r tid ticks; do
		before[$tid]=$ticks
	done <<<"$3"
	for task in "/proc/$2/task"/*; do
		tid=${task##*/}
		read_ticks "$2/task/$tid"
		ticks=$((TICKS - ${before[$tid]:-0}))
		sum=$((sum + ticks))
		[[ $1 != each || $tid = "$2" ]] || ((ticks >= 2)) || return 1
	done
	[[ $1 = each ]] || ((sum >= 5))
}

# Return when a target that can run has run: on a busy machine no sleep tells.
let_run() { # each|all [PID]
	local pid=${2:-$TARGET} before
	before=$(cpu_ticks "$pid")
	wait_for "have_run $1 $pid '$before'"
}

# The time that all threads of PID have had a CPU, those that have ended too, in hundredths of a second.
ticks_of() { # [PID]
	local TICKS
	read_ticks "${1:-$TARGET}"
	echo "$TICKS"
}

# Return when a target that can run has had so many hundredths of a second of a CPU.
let_work() { # TICKS [PID]
	local until_ticks TICKS
	read_ticks "${2:-$TARGET}"
	until_ticks=$((TICKS + $1))
	wait_for "read_ticks ${2:-$TARGET}; ((TICKS >= $until_ticks))"
}

# Run COMMAND, which takes samples of the target, until that has had so many hundredths of a second of a CPU, however
# long that takes. What COMMAND says is in $TMP/err.
for_ticks() { # TICKS COMMAND...
	local ticks=$1 sampler
	shift
	: >"$TMP/err"
	background "$@" 2>"$TMP/err"
	sampler=$!
	wait_for 'has_text "$TMP/err" "sampling|recording" || has_ended '"$sampler"
	has_ended "$sampler" || let_work "$ticks"
	kill -INT "$sampler" 2>/dev/null || :
	wait "$sampler"
}

# "0xSITE 0xSEMAPHORE" of every note of FILE's OCaml probes, link-time addresses.
notes_of() { # FILE
	readelf -nW "$1" | sed -n 's/.*Location: \(0x[0-9a-f]*\), .*Semaphore: \(0x[0-9a-f]*\)/\1 \2/p'
}

# Where PID's executable was loaded.
bias_of() { # PID
	local exe start
	exe=$(readlink "/proc/$1/exe")
	if readelf -h "$exe" | finds 'Type:.*DYN'; then
		start=$(grep -m1 -F "$exe" "/proc/$1/maps")
		printf '0x%s\n' "${start%%-*}"
	else
		echo 0
	fi
}

# Wait until every thread of a target has come to its stop, after SIGSTOP or when a tracer has let go.
await_stopped() {
	wait_for '! cut -d" " -f3 "/proc/$TARGET/task"/*/stat | finds -v T'
}

read_bytes() { # PID ADDRESS BYTES
	"$O/tests/fixtures/binaries/memory" "$1" <<<"$2 $3"
}

# What `memory` reads for each of the lines "0xSITE 0xSEMAPHORE", with BIAS added: the bytes of the site,
# and those around the semaphore.
places_at() { # BIAS
	local site semaphore
	while read -r site semaphore; do
		echo "$(($1 + site)) 6 $(($1 + semaphore)) 4"
	done
}

bytes_at() { # PID BIAS
	places_at "$2" | "$O/tests/fixtures/binaries/memory" "$1"
}

# The bytes of every site and of both halves of every semaphore of PID's executable, a line a note,
# read without the tool. The notes are read once: the first line of maps tells the file and its place.
memory_of() { # PID
	local range dev inode places
	read -r range _ _ dev inode _ <"/proc/$1/maps"
	places=$TMP/places-$1-$range-$dev-$inode
	[[ -e $places ]] || notes_of "/proc/$1/exe" | places_at "$(bias_of "$1")" >"$places"
	"$O/tests/fixtures/binaries/memory" "$1" <"$places"
}

# The code of the program is that of its file: neither a uprobe (unless UPROBES is `uprobes`) nor a jump of this tool is in it.
has_own_code() { # [UPROBES]
	python3 - "$TARGET" "$*" <<-'PY'
	import os, sys
	pid, uprobes, same = sys.argv[1], sys.argv[2] == "uprobes", 0
	exe, memory = open(f"/proc/{pid}/exe", "rb"), open(f"/proc/{pid}/mem", "rb")
	for line in open(f"/proc/{pid}/maps"):
	    addresses, rights, offset, *_ = line.split()
	    start, end = (int(x, 16) for x in addresses.split("-"))
	    if "x" in rights and line.rstrip().endswith(os.readlink(f"/proc/{pid}/exe")):
	        exe.seek(int(offset, 16))
	        memory.seek(start)
	        code = memory.read(end - start)
	        own = exe.read(end - start)[:len(code)]
	        if uprobes:
	            code = bytes(o if c == 0xcc else c for c, o in zip(code, own.ljust(len(code), b"\0")))
	        if code.rstrip(b"\0") != own.rstrip(b"\0"):
	            sys.exit(1)
	        same += 1
	sys.exit(same == 0)
	PY
}

# Take down the bytes of PIDs' sites and semaphores, for check_clean.
declare -A MEMORY_BEFORE
keep_memory() { # [PID...]
	local pid
	for pid in "${@:-$TARGET}"; do
		MEMORY_BEFORE[$pid]=$(memory_of "$pid")
	done
}

check_bytes() { # [PID...]
	local pid
	for pid in "${@:-$TARGET}"; do
		eq "$(memory_of "$pid")" "${MEMORY_BEFORE[$pid]}" "text and semaphores of $pid"
	done
}

# PIDs are as keep_memory has found them, and doctor finds nothing.
check_clean() { # [PID...]
	local pid
	check_bytes "$@"
	for pid in "${@:-$TARGET}"; do
		eq "$("$TOOL" doctor -pid "$pid")" "" "doctor of $pid"
	done
}

# How many of PID's sites have an int3 on them.
int3_count() { # PID
	memory_of "$1" | grep -c '^ cc' || :
}

# Whether BPFTRACE has its programs on as many uprobes as are wanted, or has ended. An int3 does not
# tell: it is there before the program, may be another tracer's, or serve two of bpftrace's uprobes.
# bpftrace enables each uprobe after it has put the program on it: it has done so when it waits for events
# (system call 232, epoll_wait).
bpftrace_is_attached() { # UPROBES
	! kill -0 "$BPFTRACE" || {
		[[ $(bpftool perf show | grep -cE "^pid $BPFTRACE .* u(ret)?probe ") -eq $1 ]] &&
			grep -q '^232 ' "/proc/$BPFTRACE/syscall"
	}
}

# End BPFTRACE by a signal. bpftrace sees one only if it interrupts its wait for events, of a tenth of a second each: if
# the time is over, and bpftrace waits for a CPU, the signal is missed, and another one is needed. This cannot be SIGINT,
# which kills it while it prints; SIGTERM does not.
end_bpftrace() {
	wait_for '! kill -TERM "$BPFTRACE" 2>/dev/null || { sleep 0.15; has_ended "$BPFTRACE"; }'
	wait "$BPFTRACE"
}

# How many of PID's notes have a semaphore whose first half, the tracers', is raised.
raised_semaphores() { # PID
	memory_of "$1" | grep -vc '/ 00 00' || :
}

# The tool must fail with STATUS, say something that matches TEXT in one line, and print nothing else.
check_error() { # STATUS TEXT ARG...
	local status=0 want=$1 text=$2 line found=0 lines=0
	shift 2
	"$TOOL" "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" "$want" "status of $*: $(<"$TMP/err")"
	while IFS= read -r line; do
		[[ ! $line =~ $text ]] || found=1
		[[ $line = 'hint: '* ]] || ((++lines))
	done <"$TMP/err"
	((found)) || fail "$*: said: $(<"$TMP/err")"
	eq "$lines" 1 "lines that $* said: $(<"$TMP/err")"
	eq "$(<"$TMP/out")" "" "standard output of $*"
}

# Four tools at once that enable and disable all probes of the target, each N times.
toggle_by_four() { # N
	local i jobs=()
	for _ in 1 2 3 4; do
		(for ((i = 0; i < $1; i++)); do
			"$TOOL" attach -pid "$TARGET" -enable alpha,beta,gamma
			"$TOOL" attach -pid "$TARGET" -disable gamma,alpha,beta
		done) &
		jobs+=($!)
	done
	for i in "${jobs[@]}"; do
		wait "$i"
	done
}

# Compile tests/ocaml/SOURCE.ml as $TMP/NAME, by the ocamlopt in PATH.
compile_source() { # NAME SOURCE [FLAG...]
	local name=$1 source=$2
	shift 2
	need_command ocamlopt
	mkdir -p "$TMP/$name.build"
	cp "$ROOT/tests/ocaml/$source.ml" "$TMP/$name.build/"
	(cd "$TMP/$name.build" && ocamlopt -g -I +unix unix.cmxa "$@" "$source.ml" -o "$TMP/$name") 2>"$TMP/ocamlopt.err" ||
		fail "ocamlopt: $(<"$TMP/ocamlopt.err")"
}

# The program of tests/ocaml/profiled_plugin in $TMP: host, and plugged.cmxs, which it loads when it is told to.
build_plugged() {
	cp "$ROOT"/tests/ocaml/profiled_plugin/*.ml "$TMP"
	(cd "$TMP" && ocamlopt -g -I +dynlink dynlink.cmxa host_api.ml host.ml -o host &&
		ocamlopt -g -shared plugged.ml -o plugged.cmxs) 2>"$TMP/ocamlopt.err" ||
		fail "ocamlopt: $(<"$TMP/ocamlopt.err")"
}

# Whether this is a pid namespace of the test's own; if not, the test has been run in one.
is_in_namespace() {
	[[ -z ${IN_NAMESPACE:-} ]] || return 0
	IN_NAMESPACE=yes unshare --pid --fork --mount-proc bash "${BASH_SOURCE[1]}" "${FUNCNAME[1]}" || exit
	return 1
}
