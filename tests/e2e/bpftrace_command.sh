#!/usr/bin/env bash
# `ocaml-probes bpftrace`: what it prints is run as it stands, by the distribution's bpftrace, and
# finds what the programs say of themselves.
#
# needs: fixtures ocaml/bare_host ocaml/counted ocaml/loop ocaml/service
# smoke: test_forms
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/bpftrace_lib.sh"

# A copy of the fixtures: bpftrace's uprobes are in all processes that run a file.
FIXTURES=${TMP:-}/fixtures
[[ ${1:-} != --one ]] || cp -r "$O/tests/fixtures" "$FIXTURES"

# "NAME HITS" lines of what `count` found: keys are whole attach points, or names.
found_counts() {
	sed -nE 's/^@\[(usdt:.*:)?([^:]*)\]: ([0-9]+)$/\2 \3/p' "$TMP/bpftrace" | LC_ALL=C sort
}

start_fixture() { # PROGRAM [ARG...]
	need_counting
	need_command bpftrace bpftool
	start_target "$@" --wait
	await_line ready
}

go() { # ROUNDS
	forget_output
	tell "go $1"
	await_line 'done' 60
}

# What the fixture called NAME finds of itself in ROUNDS rounds, without the empty name.
named_hits() { # NAME ROUNDS
	fixture_hits "$1" "$2" | grep -v '^ '
}

test_count() {
	need_counting
	need_command bpftrace bpftool
	start_target "$(own_copy "$O/tests/ocaml/counted")" 20000 4
	await_line ready
	# Not the nested one, that handlers have.
	start_printed -pid "$TARGET" count 'in_\|inl\|[ort]'
	tell go
	await_line '# in_loop was seen enabled 0 times' 60
	stop_printed
	tell quit
	finish_target
	eq "$(found_counts)" "$(expected_hits | grep -v '^nested')" "hits"
}

# A provider with a dot, names of any length; -p does not disturb what else runs the file.
test_count_every_name_but_the_empty_one() {
	local other
	mkdir "$TMP/a folder's"
	cp "$FIXTURES/v1_dot" "$TMP/a folder's/v1_dot"
	start_fixture "$TMP/a folder's/v1_dot"
	other=$TARGET
	start_fixture "$TMP/a folder's/v1_dot"
	start_printed -pid "$TARGET" count '[a-z]'
	go 500
	tell 'go 100' "$other"
	await_line 'done' 20 "$other"
	stop_printed
	eq "$(found_counts)" "$(named_hits v1_dot 500)" "hits"
}

# Every process that runs the file. A part of the sites of v2 was left out by the compiler.
test_count_of_a_program() {
	local other
	start_fixture "$FIXTURES/v1-nopie"
	other=$TARGET
	start_fixture "$FIXTURES/v1-nopie"
	start_printed -prog "$FIXTURES/../fixtures/v1-nopie" count straddling,plain,odd
	go 500
	tell 'go 100' "$other"
	await_line 'done' 20 "$other"
	stop_printed
	eq "$(found_counts)" "odd 600
plain 600
straddling 1200" "hits"
}

# ---- forms that no version counts twice ---------------------------------------------------------

# Attach points and options of a printed command, without the pid.
forms() { # ARG...
	"$TOOL" bpftrace "$@" >"$TMP/command"
	sed -nE 's/^bpftrace(.*) -e .$/options:\1/p; s/^((usdt|uprobe):.*[^,]),?$/\1/p; s/^(\/pid == .*)/\1/p' "$TMP/command" |
		sed "s/\\b$TARGET\\b/PID/g"
}

# With -p bpftrace 0.26 takes a plain path for two files. The other forms count once in each version.
test_forms() {
	local binaries=$FIXTURES/binaries
	start_target "$FIXTURES/v1" --wait
	await_line ready
	eq "$(forms -pid "$TARGET" count plain,odd)" "options: -p PID
usdt:/proc/PID/exe:ocaml_1:plain
usdt:/proc/PID/exe:ocaml_1:odd
/pid == PID/" "a program"
	eq "$(forms -pid "$TARGET" args plain | head -n 3)" "options: -p PID
usdt:/proc/PID/exe:ocaml_1:plain
/pid == PID/" "a program"
	eq "$(forms -prog "$FIXTURES/v1" count plain)" "options:
usdt:$FIXTURES/v1:ocaml_1:plain" "all that run a program"
	start_target "$binaries/host"
	await_line ready
	eq "$(forms -pid "$TARGET" count reused)" "options:
usdt:$binaries/host:ocaml_1:reused
usdt:$binaries/liblinked.so:ocaml_1:reused
/pid == PID/" "several files"
	start_target "$FIXTURES/v0-stripped" --wait
	await_line ready
	eq "$(forms -pid "$TARGET" count once | sed 's/0x.*/OFF/' | uniq)" "options: --unsafe -p PID
uprobe:/proc/PID/exe:OFF
/pid == PID/" "uprobes"
}

# Of a program without probes, which has loaded a plugin.
test_only_a_library() {
	local plugin
	need_counting
	need_command bpftrace bpftool
	plugin=$(own_copy "$O/tests/ocaml/plugin.cmxs")
	start_target "$(own_copy "$O/tests/ocaml/bare_host")"
	await_line ready
	tell "load $plugin"
	await_line loaded
	eq "$(forms -pid "$TARGET" count plugin_only)" "options: -p PID
usdt:/proc/PID/root$plugin:ocaml_1:plugin_only
/pid == PID/" "a library"
	start_printed -pid "$TARGET" count plugin_only,reused
	go 500
	stop_printed
	eq "$(found_counts)" "plugin_only 500
reused 500" "hits"
}

# In a container /proc may be another one, where 0.27's -p would look for the executable.
test_another_proc() {
	need_counting
	need_command bpftrace bpftool unshare
	start_target unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$0" --wait' "$FIXTURES/v1"
	await_line ready
	start_printed -pid "$TARGET" count plain
	count_plain 300
}

# The example, with the pid of another process.
test_example_of_the_readme() {
	start_target "$O/tests/ocaml/service"
	wait_for '"$TOOL" bpftrace -pid "$TARGET" count cache_hit,cache_miss >"$TMP/out" 2>/dev/null'
	eq "$(sed -n '/^    \$ ocaml-probes bpftrace -pid 9467/,/^$/ { /\$/d; s/^    //p }' "$ROOT/README.md")" \
		"$(sed "s/\\b$TARGET\\b/9467/g; s|$O/|/work/main/build/|" "$TMP/out")" "README.md"
}

# ---- files that bpftrace's -p does not find -----------------------------------------------------

count_plain() { # ROUNDS
	go "$1"
	stop_printed
	eq "$(found_counts)" "plain $1" "hits"
	grep -q '^# There is no -p: ' "$TMP/command"
}

test_deleted_or_replaced() {
	cp "$FIXTURES/v1" "$TMP/program"
	start_fixture "$TMP/program"
	rm "$TMP/program"
	start_printed -pid "$TARGET" count plain
	count_plain 300
	cp "$FIXTURES/no_probes" "$TMP/program"
	start_printed -pid "$TARGET" count plain
	count_plain 200
}

test_other_root() {
	local lib
	need_root
	mkdir "$TMP/root"
	for lib in "$FIXTURES/v1" $(ldd "$FIXTURES/v1" | grep -o '/[^ ]*'); do
		mkdir -p "$TMP/root${lib%/*}"
		cp -L "$lib" "$TMP/root$lib"
	done
	mkdir "$TMP/root/only here"
	cp "$FIXTURES/v1" "$TMP/root/only here/program"
	start_fixture chroot "$TMP/root" "/only here/program"
	start_printed -pid "$TARGET" count plain
	count_plain 300
}

# What bpftrace would expand or cannot quote.
test_unsayable_path() {
	cp "$FIXTURES/v1" "$TMP/a*\"\$1"
	start_fixture "$TMP/a*\"\$1"
	start_printed -pid "$TARGET" count plain
	count_plain 300
	check_error 2 'bpftrace has no syntax for such a path' bpftrace -prog "$TMP/a*\"\$1" count plain
}

# A name that the program and a library have; then the library is deleted.
test_several_files() {
	local folder=$TMP/programs i
	need_counting
	need_command bpftrace bpftool
	mkdir "$folder"
	cp "$FIXTURES/binaries/"{host,liblinked.so} "$folder"
	start_target "$folder/host"
	await_line ready
	for i in 1 2; do
		forget_output
		start_printed -pid "$TARGET" count reused
		go 100
		stop_printed
		eq "$(found_counts)" "reused 200
reused 200" "hits in two files"
		rm -f "$folder/liblinked.so"
	done
	grep -q '^usdt:/proc/[0-9]*/map_files/.*:ocaml_1:reused' "$TMP/command"
}

# ---- uprobes instead of usdt: -------------------------------------------------------------------

# Provider `ocaml` of two bytes: its semaphore is OCaml's, and stays what it was.
test_oldest_generation() {
	local program during
	for program in v0-stripped v0-nopie v0_single-stripped; do
		start_fixture "$FIXTURES/$program"
		"$TOOL" info -pid "$TARGET" >"$TMP/before"
		start_printed -pid "$TARGET" count '.*'
		during=$("$TOOL" info -pid "$TARGET")
		go 400
		stop_printed
		eq "$during" "$(<"$TMP/before")" "states while it counts"
		eq "$("$TOOL" info -pid "$TARGET")" "$(<"$TMP/before")" "states afterwards"
		eq "$(found_counts)" "$(fixture_hits "${program%-*}" 400)" "hits of $program"
		grep -q "^# '.*': uprobes, without a semaphore: usdt: would raise OCaml's own" "$TMP/command"
		quit_target
	done
}

# With symbols bpftrace wants to look at the instructions, which Debian's cannot; and says so.
test_says_what_debian_lacks() {
	"$TOOL" bpftrace -prog "$FIXTURES/v0" count everywhere >"$TMP/out"
	grep -q '^# This needs a bpftrace that can check instructions' "$TMP/out"
	grep -q '^# position-independent: 0.17 of Debian 12 cannot. `attach --count` needs no bpftrace.$' "$TMP/out"
	eq "$(grep -c tested "$TMP/out" || :)" 0 "no version is said to be tested where Debian's is not"
	"$TOOL" bpftrace -prog "$FIXTURES/v0-nopie" count everywhere >"$TMP/out"
	eq "$(grep -c 'check instructions' "$TMP/out" || :)" 0 "without PIE offsets are no addresses"
}

# The compiler left out some sites of `both`, and all of another probe.
test_sites_left_out() {
	"$TOOL" bpftrace -prog "$FIXTURES/v2" count with_site,both,without_site >"$TMP/out"
	eq "$(sed -n "s/^# '\(.*\)': .*/\1/p" "$TMP/out" | xargs)" "without_site both"
	eq "$(grep -c '^usdt:' "$TMP/out")" 2 "attach points"
	check_error 2 'left its sites out' bpftrace -prog "$FIXTURES/v2" count without_site
	check_error 2 'left its sites out' bpftrace -prog "$FIXTURES/v2" time with_site,without_site
}

# ---- time, args ---------------------------------------------------------------------------------

test_time() {
	need_counting
	need_command bpftrace bpftool
	start_target "$(own_copy "$O/tests/ocaml/counted")" 20000 4
	await_line ready
	# In every round: in_functor, in_try, raising. No in_functor without the other: the stops of the
	# second command come before the first start of each thread.
	start_printed -pid "$TARGET" time in_functor,in_try
	tell go
	await_line '# in_loop was seen enabled 0 times' 60
	# It ends with its process, and then is nobody's to be stopped.
	stop_printed
	eq "$(sed -n 's/^@pairs: //p' "$TMP/bpftrace")" 80000 "pairs"
	eq "$(sed -n 's/^@orphan.*: //p' "$TMP/bpftrace" | xargs)" "0 0" "orphans"
	# The histogram has them all, and the sum is between its buckets.
	eq "$(sed -nE 's/^\[.*\) +([0-9]+) \|.*/\1/p' "$TMP/bpftrace" | awk "{ n += \$1 } END { print n }")" 80000
	(($(sed -n 's/^@sum_ns: //p' "$TMP/bpftrace") > 80000 * 50)) || fail "$(<"$TMP/bpftrace")"
}

# The values that were printed, in the order of time (there is a buffer a processor).
values() { # PROBE
	sort -s -n -k 1,1 "$TMP/bpftrace" | sed -nE "s/^[0-9]+\.[0-9]{6} [0-9]+ $1( |$)//p"
}

# bpftrace drops what it has not printed when the signal comes, so that is waited for.
stop_after_lines() { # LINES
	wait_for '[[ $(grep -cE "^[0-9]+\.[0-9]{6} " "$TMP/bpftrace") -ge '"$1"' ]]'
	stop_printed
}

test_args() {
	start_fixture "$FIXTURES/values"
	start_printed -pid "$TARGET" args ints,places,differing
	go 3
	stop_after_lines 24
	eq "$(values ints)" "$(thrice 'arg0=0 arg1=1 arg2=-1 arg3=4611686018427387903' \
		'arg4=-4611686018427387904 arg5=42')" "ints"
	eq "$(values places)" "$(thrice 'arg0=0x7f0012345678 arg1=2 arg2=4 arg3=-2' \
		'arg4=3 arg5=7 arg6=8 arg7=9' 'arg8=10 arg9=11 arg10=12 arg11=-1' \
		'arg12=-2 arg13=0x7f0012345678')" "registers, memory, constants"
	# What both its sites have is all that can be said of both.
	eq "$(values differing)" "$(thrice 'arg0=7' 'arg0=9')" "sites with different arguments"
	grep -q '^# differing: only the first 1 of up to 2 arguments' "$TMP/command"
	# Newer versions print a 0 where 0.17 prints nothing.
	eq "$(grep -c '%\.0' "$TMP/command" || :)" 0 "numbers of precision 0"
}

# bpftrace has no floats, and does not read the note from one on: later arguments are read where they are.
test_floats_that_are_not_boxed() {
	sed 's/8@$5 8@(%rsp)/8@$5 8f@%xmm1/' "$FIXTURES/values" >"$TMP/values"
	chmod +x "$TMP/values"
	start_fixture "$TMP/values"
	start_printed -pid "$TARGET" args places
	go 3
	stop_after_lines 12
	eq "$(grep left "$TMP/command")" "# places: arg2 is left out: it is in a floating-point register at the probe, which the kernel does not show."
	eq "$(values places)" "$(thrice 'arg0=0x7f0012345678 arg1=2 arg3=-2 arg4=3' \
		'arg5=7 arg6=8 arg7=9 arg8=10' 'arg9=11 arg10=12 arg11=-1 arg12=-2' \
		'arg13=0x7f0012345678')" "the others"
}

# Each line three times over.
thrice() { # LINE...
	printf '%s\n' "$@" "$@" "$@"
}

test_args_of_the_oldest_generation() {
	start_fixture "$FIXTURES/values_v0-stripped"
	start_printed -pid "$TARGET" args '[a-z]'
	go 3
	stop_after_lines 21
	eq "$(values ints | grep -c '^arg4=-4611686018427387904 arg5=42$')" 3 "ints"
	# Those on the stack are left out: the wrappers of this program do not say where they are.
	eq "$(values places | sed -n 2p)" 'arg7=9 arg8=10 arg9=11 arg10=12' "places"
	grep -q "^# places: arg2 is left out where its place is not known: " "$TMP/command"
	eq "$(values differing)" "$(thrice 'arg0=7 arg1=15' 'arg0=9')" "each site with its own"
}

test_args_without_arguments() {
	start_fixture "$FIXTURES/v1"
	start_printed -pid "$TARGET" args plain
	go 2
	stop_after_lines 2
	eq "$(values plain | wc -l)" 2 "lines"
}

# ---- limits, wrong use --------------------------------------------------------------------------

# More sites than bpftrace takes by itself.
test_many_sites() {
	need_command gcc
	gcc -O2 -pthread -D_GNU_SOURCE -DSITES=600 -DNAMES=60 -fvisibility=hidden -o "$TMP/sites" \
		"$ROOT/tools/bench/sites.S" "$ROOT/tools/bench/toggle_target.c"
	"$TOOL" bpftrace -prog "$TMP/sites" count 'lib.*' >"$TMP/out"
	grep -q '^BPFTRACE_MAX_PROBES=602 BPFTRACE_MAX_BPF_PROGS=602 bpftrace ' "$TMP/out"
	holds grep -q '^# bpftrace attaches to each of the 600 sites separately: .* 60 s' "$TMP/out"
}

test_wrong_use() {
	local v1=$FIXTURES/v1
	start_target "$O/tests/ocaml/loop"
	await_line ready
	check_error 2 'either -pid or -prog' bpftrace count plain
	check_error 2 'either -pid or -prog' bpftrace -pid "$TARGET" -prog "$v1" count plain
	check_error 2 'count, time or args' bpftrace -prog "$v1"
	check_error 2 "'counts': not count, time or args" bpftrace -prog "$v1" counts plain
	check_error 2 "requires the names of the probes" bpftrace -prog "$v1" count
	check_error 2 'as one word' bpftrace -prog "$v1" count plain odd
	check_error 2 "probe 'plian': no such probe" bpftrace -prog "$v1" count plian
	grep -q "^hint: did you mean 'plain'" "$TMP/err"
	check_error 2 "probe '': no such probe" bpftrace -pid "$TARGET" count alpha,
	check_error 2 "probe 'plain': named twice" bpftrace -prog "$v1" count plain,odd,plain
	check_error 2 "'zz.': matches no probe" bpftrace -prog "$v1" count 'zz.'
	check_error 2 'regular expression' bpftrace -prog "$v1" count '['
	check_error 2 'not two probes START,STOP' bpftrace -prog "$v1" time plain
	check_error 2 'not two probes START,STOP' bpftrace -prog "$v1" time plain,odd,inlined
	check_error 2 'named twice' bpftrace -prog "$v1" time plain,plain
	check_error 2 'has no OCaml probes' bpftrace -prog "$FIXTURES/no_probes" count plain
	check_error 2 'No such file' bpftrace -prog "$TMP/nothing" count plain
	check_error 2 'has no OCaml probes' bpftrace -pid $$ count plain
	check_error 5 'no such process' bpftrace -pid 4194304 count plain
	check_error 2 'no such option' bpftrace -pid "$TARGET" -enable alpha count alpha
	# Words of their own are for this command only.
	check_error 2 "'alpha': unexpected" info -pid "$TARGET" alpha
}

run_tests "$@"
