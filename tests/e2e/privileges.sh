#!/usr/bin/env bash
# Least privilege: an ordinary user lists, toggles and traces its own processes; counting needs two
# capabilities, and says which.
#
# needs: fixtures serve ocaml/counted ocaml/loop ocaml/profiled
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

NOBODY=65534

# Copies that the other user can reach, wherever the build directory is.
prepare() {
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$O/tests/ocaml/loop" "$O/tests/ocaml/counted" "$TMP"
	TOOL=$TMP/ocaml-probes
	touch "$TMP/out" "$TMP/err"
}

as_nobody() { # COMMAND...
	setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --bounding-set=-all --inh-caps=-all "$@"
}

with_caps() { # CAPS COMMAND...
	local caps=$1
	shift
	setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --inh-caps="-all,$caps" \
		--ambient-caps="-all,$caps" --bounding-set="-all,$caps" "$@"
}

# The same, to be run in the background: CAP_PERFMON and CAP_BPF.
two_caps=(setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --inh-caps=-all,+cap_38,+cap_39
	--ambient-caps=-all,+cap_38,+cap_39 --bounding-set=-all,+cap_38,+cap_39)

start_as_nobody() { # PROGRAM ARG...
	start_target setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --bounding-set=-all --inh-caps=-all "$@"
	await_line ready
	eq "$(awk '/^CapEff/ { print $2 }' "/proc/$TARGET/status")" 0000000000000000 "capabilities"
}

test_owner_toggles() {
	prepare
	start_as_nobody "$TMP/loop"
	eq "$(as_nobody "$TOOL" list -prog "$TMP/loop" | xargs)" "alpha beta gamma"
	as_nobody "$TOOL" attach -pid "$TARGET" -enable alpha
	eq "$(as_nobody "$TOOL" info -pid "$TARGET" | xargs)" "alpha enabled beta disabled gamma disabled"
	as_nobody "$TOOL" attach -pid "$TARGET" -disable-all
	tell quit
	finish_target
	eq "$TARGET_STATUS" 0 "status"
}

test_owner_traces() {
	prepare
	printf 'go\nquit\n' | as_nobody "$TOOL" trace -prog "$TMP/counted" -enable-all -- 10 2 >"$TMP/run"
	holds wait_for 'grep -qx "tail handler=20 expected=20" "$TMP/run"'
}

test_counting_names_what_is_missing() {
	local status
	prepare
	start_as_nobody "$TMP/loop"
	status=0
	as_nobody "$TOOL" attach -pid "$TARGET" --count --engine bpf --for 1s >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(<"$TMP/err")" "lacks CAP_BPF and CAP_PERFMON"
	matches "$(<"$TMP/err")" "hint: .*setcap cap_bpf,cap_perfmon=ep $TMP/ocaml-probes"
	eq "$(wc -l <"$TMP/err")" 2 "lines"
	status=0
	with_caps +cap_39 "$TOOL" attach -pid "$TARGET" --count --engine bpf --for 1s 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(<"$TMP/err")" "lacks CAP_PERFMON"
	status=0
	with_caps +cap_38 "$TOOL" attach -pid "$TARGET" --count --engine bpf --for 1s 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(<"$TMP/err")" "lacks CAP_BPF"
}

# What COMMAND measures must have more than 0 in column COLUMN of the row NAME, once the target has run.
measures() { # NAME COLUMN COMMAND...
	local name=$1 column=$2 tool
	shift 2
	: >"$TMP/err"
	background "$@" >"$TMP/out" 2>"$TMP/err"
	tool=$!
	wait_for 'grep -Eq "(counting|measuring) [0-9]+ probes" "$TMP/err" || ! kill -0 '"$tool"
	let_run all
	kill -INT "$tool" || fail "$(<"$TMP/err")"
	wait "$tool" || fail "status $?: $(<"$TMP/err")"
	eq "$(awk -v name="$name" -v column="$column" '$1 == name && $column > 0 { print "measured" }' "$TMP/out")" \
		measured "$*: $(<"$TMP/out")"
}

test_two_capabilities_suffice() {
	prepare
	need_counting
	start_as_nobody "$TMP/loop"
	measures alpha 2 "${two_caps[@]}" "$TOOL" attach --budget none -pid "$TARGET" --count
	measures alpha,beta 2 "${two_caps[@]}" "$TOOL" attach --budget none -pid "$TARGET" --time alpha,beta --children
	measures alpha 4 "${two_caps[@]}" "$TOOL" attach --budget none --exe "$TMP/loop" --count --by-process
}

# The hint's command does what it says.
test_setcap_as_hinted() {
	prepare
	need_counting
	need_command setcap
	start_as_nobody "$TMP/loop"
	setcap cap_bpf,cap_perfmon=ep "$TOOL"
	measures alpha 2 setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups "$TOOL" attach --budget none -pid "$TARGET" --count
}

# README's command, for the programs that `make install` installs.
test_setcap_as_in_the_readme() {
	local command viewer
	prepare
	need_counting
	need_command setcap script curl
	mkdir -p "$TMP/usr/local/bin" "$TMP/sudo"
	cp "$O"/ocaml-probes "$O"/ocaml-probes-* "$TMP/usr/local/bin"
	printf '#!/bin/sh\nexec "$@"\n' >"$TMP/sudo/sudo"
	chmod -R a+rx "$TMP/usr" "$TMP/sudo"
	command=$(sed -n 's/^    \(.*sudo setcap .*\)/\1/p' "$ROOT/README.md")
	PATH=$TMP/sudo:$PATH sh -ec "${command//\/usr\/local/$TMP/usr/local}"
	printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --clear-groups "%s" "$@"\n' $NOBODY $NOBODY \
		"$TMP/usr/local/bin/ocaml-probes" >"$TMP/tool"
	chmod 755 "$TMP/tool"
	TOOL=$TMP/tool
	start_as_nobody "$TMP/loop"
	measures alpha 2 "$TOOL" attach --budget none -pid "$TARGET" --count

	start_server -pid "$TARGET"
	eq "$(awk '/^Uid/ { print $2 }' "/proc/$SERVER/status")" $NOBODY "user"
	let_run all
	[[ $(hits_of alpha) -gt 0 ]] || fail "hits: $(get metrics)"
	end_server

	TERM=xterm background script -qec "exec '$TOOL' top -pid $TARGET" /dev/null </dev/null >"$TMP/screen" 2>&1
	viewer=$!
	wait_for 'grep -aqE "[0-9]+(\.[0-9]+)?[kM] hits/s" "$TMP/screen" || ! kill -0 "$viewer" 2>/dev/null'
	kill -TERM "$(pgrep -f "^ocaml-probes-top -pid $TARGET\$")" || fail "$(<"$TMP/screen")"
	wait "$viewer"
}

# ---- a tool with file capabilities, in the hands of a user ----------------------------------------

setcap_tool() {
	prepare
	need_counting
	need_command setcap
	setcap cap_bpf,cap_perfmon=ep "$TOOL"
}

as_user=(setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups)

# The program `counted` as FILE, with ready threads; sets TARGET. What goes before it says as whom.
start_counted() { # FILE COMMAND...
	local file=$1
	shift
	start_target "$@" "$file" 10 2
	await_line ready
}

# Let it go through its probes: `tail` is hit 20 times.
go_through() { # PID
	tell go "$1"
	await_line 'tail handler=0 expected=20' 20 "$1"
}

# Measure every process that runs FILE as the user, with ARG..., until `stop_user`.
start_user() { # FILE ARG...
	local file=$1
	shift
	: >"$TMP/err"
	background "${as_user[@]}" "$TOOL" attach --exe "$file" "$@" >"$TMP/out" 2>"$TMP/err"
	MEASURING=$!
	wait_for 'grep -Eq "(counting|measuring) [0-9]+ probes" "$TMP/err" || ! kill -0 "$MEASURING"'
	kill -0 "$MEASURING" 2>/dev/null || fail "it does not measure: $(<"$TMP/err")"
}

stop_user() {
	kill -INT "$MEASURING"
	wait "$MEASURING" || fail "status $?: $(<"$TMP/err")"
}

counted_hits() { # PROBE
	tail -n 1 "$TMP/out" | grep -o "\"name\":\"$1\",\"hits\":[0-9]*" | sed 's/.*://'
}

# The same file is run by root and by the user, before and after the measuring begins.
test_strangers_are_not_measured() {
	local strangers=() own=() pid
	setcap_tool
	start_counted "$TMP/counted"
	strangers+=("$TARGET")
	start_counted "$TMP/counted" "${as_user[@]}"
	own+=("$TARGET")
	start_user "$TMP/counted" --count --print tail --limit 0 --time outer,nested --json
	start_counted "$TMP/counted"
	strangers+=("$TARGET")
	start_counted "$TMP/counted" "${as_user[@]}"
	own+=("$TARGET")
	for pid in "${strangers[@]}" "${own[@]}"; do
		go_through "$pid"
	done
	stop_user
	eq "$(counted_hits tail)" 40 "hits"
	eq "$(grep -o '"type":"hit".*' "$TMP/out" | grep -o '"pid":[0-9]*' | LC_ALL=C sort | uniq -c | xargs)" \
		"$(printf '20 "pid":%s\n' "${own[@]}" | LC_ALL=C sort | xargs)" "printed"
	# Nor is it told how much of theirs was passed over.
	matches "$(tail -n 1 "$TMP/out")" '"passed_over":0'
}

# The same of stacks. The user's processes are profiled, also the one that starts later, and root's are not.
test_strangers_are_not_profiled() {
	local file=$TMP/profiled
	setcap_tool
	cp "$O/tests/ocaml/profiled" "$file"
	start_target "${as_user[@]}" "$file" cpu
	await_line ready
	background "${as_user[@]}" "$TOOL" profile --exe "$file" --hz 997 --folded >"$TMP/out" 2>"$TMP/err"
	MEASURING=$!
	wait_for 'has_text "$TMP/err" "sampling" || ! kill -0 "$MEASURING"'
	echo "run 0.3" | "$file" cpu >"$TMP/strangers"
	kill -INT "$MEASURING"
	wait "$MEASURING" || fail "status $?: $(<"$TMP/err")"
	eq "$(<"$TMP/out")" "" "stacks of others"
	background "${as_user[@]}" "$TOOL" profile --exe "$file" --hz 997 --folded >"$TMP/out" 2>"$TMP/err"
	MEASURING=$!
	wait_for 'has_text "$TMP/err" "sampling" || ! kill -0 "$MEASURING"'
	echo "run 0.3" | "${as_user[@]}" "$file" cpu >"$TMP/own"
	kill -INT "$MEASURING"
	wait "$MEASURING" || fail "status $?: $(<"$TMP/err")"
	grep -q '^_start;.*;Profiled\.run;.*;Profiled\.spin' "$TMP/out" || fail "no stacks of the user's: $(<"$TMP/err")"
}

# The kernel lets CAP_PERFMON read the mappings of any process (Linux 6.13): the user of the tool, who lacks it, gets
# neither these nor the CPU time of a process that the user may not inspect.
test_strangers_named_by_pid() {
	local command
	setcap_tool
	printf '#!/bin/sh\nexec %s %q "$@"\n' "${as_user[*]}" "$TOOL" >"$TMP/users_tool"
	chmod 755 "$TMP/users_tool"
	TOOL=$TMP/users_tool
	start_counted "$TMP/counted"
	for command in "profile --for 1ms" "profile --off-cpu --for 1ms" "profile --alloc --for 1ms" "profile --gc --for 1ms" \
		info functions gc memprof doctor; do
		# shellcheck disable=SC2086 # it has options
		check_error 3 "^ocaml-probes: pid $TARGET \(counted\): belongs to uid 0, you are uid $NOBODY$" $command -pid "$TARGET"
	done
	"$TOOL" list >"$TMP/out" 2>"$TMP/err"
	eq "$(grep -c "^ *$TARGET " "$TMP/out" || :)" 0 "$(<"$TMP/out")"
}

# A kept meter goes on without its user; `serve` is a program of its own.
test_strangers_are_not_kept() {
	setcap_tool
	need_command unshare
	unshare --mount --propagation private bash "$0" --one strangers_are_not_kept
}

strangers_are_not_kept() {
	mount -t bpf -o mode=0777 bpf /sys/fs/bpf
	"${as_user[@]}" "$TOOL" attach --exe "$TMP/counted" --count --keep mine 2>"$TMP/err" ||
		fail "$(<"$TMP/err")"
	start_counted "$TMP/counted"
	go_through "$TARGET"
	start_counted "$TMP/counted" "${as_user[@]}"
	go_through "$TARGET"
	"${as_user[@]}" "$TOOL" read mine --json >"$TMP/out"
	eq "$(counted_hits tail)" 20 "hits"
	"${as_user[@]}" "$TOOL" detach mine >"$TMP/out"
}

test_strangers_are_not_served() {
	setcap_tool
	cp "$O/ocaml-probes-serve" "$TMP"
	setcap cap_bpf,cap_perfmon=ep "$TMP/ocaml-probes-serve"
	start_counted "$TMP/counted"
	go_through "$TARGET"
	background "${as_user[@]}" "$TOOL" serve --exe "$TMP/counted" --listen 127.0.0.1:0 >"$TMP/out" 2>"$TMP/err"
	wait_for 'has_text "$TMP/err" " serving http"'
	URL=$(sed -n 's/.* serving \(http[^#]*\).*/\1/p' "$TMP/err")
	start_counted "$TMP/counted"
	go_through "$TARGET"
	start_counted "$TMP/counted" "${as_user[@]}"
	go_through "$TARGET"
	wait_for '[[ $(served_hits tail) -ge 20 ]]'
	eq "$(served_hits tail)" 20 "hits"
}

served_hits() { # PROBE
	curl -sS "${URL}metrics" | sed -n "s/^ocaml_probes_hits_total{probe=\"$1\",.* //p"
}

# Each is of the user as far as its name goes, and may not be inspected by him all the same.
test_processes_with_more_privileges_are_not_measured() {
	local kind file
	setcap_tool
	# PR_SET_DUMPABLE is 4. A program that holds secrets does so itself.
	gcc -shared -fPIC -x c - -o "$TMP/hide.so" <<-'C'
		int prctl(int option, ...);
		__attribute__((constructor)) static void hide(void) { prctl(4, 0L, 0L, 0L, 0L); }
	C
	for kind in setuid setgid capable undumpable; do
		file=$TMP/counted_$kind
		cp "$TMP/counted" "$file"
		start_user "$file" --count --json
		case $kind in
		setuid) chmod u+s "$file" && start_counted "$file" "${as_user[@]}" ;;
		setgid) chmod g+s "$file" && start_counted "$file" "${as_user[@]}" ;;
		# One that the tool does not have.
		capable) start_counted "$file" setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups \
			--inh-caps=-all,+net_raw --ambient-caps=-all,+net_raw ;;
		undumpable) start_counted "$file" "${as_user[@]}" env LD_PRELOAD="$TMP/hide.so" ;;
		esac
		! "${as_user[@]}" head -c 1 "/proc/$TARGET/maps" >"$TMP/maps" 2>&1 ||
			fail "the user may inspect a $kind program"
		go_through "$TARGET"
		stop_user
		eq "$(counted_hits tail)" 0 "hits of a $kind program"
		! kill -0 "$TARGET" 2>/dev/null || kill "$TARGET"
	done
	# The same without any of these.
	start_user "$TMP/counted" --count --json
	start_counted "$TMP/counted" "${as_user[@]}"
	go_through "$TARGET"
	stop_user
	eq "$(counted_hits tail)" 20 "hits of a plain program"
}

# Those commands that need no capability say why the user may not, and change nothing; root may.
test_refusals_of_processes_with_more_privileges() {
	local kind file reason command status before
	prepare
	gcc -shared -fPIC -x c - -o "$TMP/hide.so" <<-'C'
		int prctl(int option, ...);
		__attribute__((constructor)) static void hide(void) { prctl(4, 0L, 0L, 0L, 0L); }
	C
	for kind in setuid undumpable; do
		file=$TMP/loop_$kind
		cp "$TMP/loop" "$file"
		if [[ $kind = setuid ]]; then
			chmod u+s "$file"
			start_target "${as_user[@]}" "$file"
			reason="runs as uid 0 \(setuid\), you are uid $NOBODY"
		else
			start_target "${as_user[@]}" env LD_PRELOAD="$TMP/hide.so" "$file"
			reason='may not be traced \(not dumpable, or more privileged\)'
		fi
		await_line ready
		before=$(memory_of "$TARGET")
		for command in info doctor 'attach -enable-all' 'attach --count --for 1s' 'attach --count --engine inside --for 1s'; do
			status=0
			# shellcheck disable=SC2086 # words
			as_nobody "$TOOL" ${command/ / -pid $TARGET } $([[ $command = *' '* ]] || echo -pid "$TARGET") \
				>"$TMP/out" 2>"$TMP/err" || status=$?
			eq "$status" 3 "status of $command of a $kind program: $(<"$TMP/err")"
			matches "$(head -n 1 "$TMP/err")" "^ocaml-probes: pid $TARGET \(loop_$kind\): $reason\$"
			eq "$(tail -n +2 "$TMP/err")" 'hint: run with CAP_SYS_PTRACE (e.g. sudo)' "hint"
			eq "$(memory_of "$TARGET")" "$before" "memory after $command"
		done
		"$TOOL" attach -pid "$TARGET" -enable alpha
		eq "$("$TOOL" info -pid "$TARGET" | xargs)" "alpha enabled beta disabled gamma disabled"
		"$TOOL" attach -pid "$TARGET" -disable alpha
		measures alpha 2 "$TOOL" attach --budget none -pid "$TARGET" --count --engine inside
		measures alpha 2 "$TOOL" attach --budget none -pid "$TARGET" --count --engine bpf
		tell quit
		finish_target
		eq "$TARGET_STATUS" 0 "status"
	done
}

# Of the six ids that the kernel compares, one is another's; or they are the user's in a namespace of its
# own. All run the same file, and may be inspected as far as dumping goes.
test_one_id_is_another_users() {
	local kind pid id processes=()
	setcap_tool
	need_command unshare
	cp "$TMP/counted" "$TMP/counted_id"
	# The first of IDS is what has 60123 instead of the user's. PR_SET_DUMPABLE is 4.
	gcc -shared -fPIC -x c - -o "$TMP/ids.so" <<-C
		#define _GNU_SOURCE
		#include <grp.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/prctl.h>
		#include <unistd.h>
		static unsigned int id(const char *name)
		{
			return strcmp(getenv("OTHER"), name) == 0 ? 60123 : $NOBODY;
		}
		__attribute__((constructor)) static void take_ids(void)
		{
			if (setgroups(0, NULL) != 0 || setresgid(id("gid"), id("egid"), id("sgid")) != 0 ||
			    setresuid(id("uid"), id("euid"), id("suid")) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
				abort();
		}
	C
	start_user "$TMP/counted_id" --count --json
	for kind in uid euid suid gid egid sgid none; do
		start_counted "$TMP/counted_id" env OTHER=$kind LD_PRELOAD="$TMP/ids.so"
		processes+=("$TARGET")
		id=$(awk '/^[UG]id/ { print $2, $3, $4 }' "/proc/$TARGET/status" | xargs -n 1 | grep -c 60123 || :)
		[[ $id -eq 1 || $kind = none ]] || fail "$kind: $(<"/proc/$TARGET/status")"
	done
	start_counted "$TMP/counted_id" "${as_user[@]}" unshare --user
	processes+=("$TARGET")
	for pid in "${processes[@]}"; do
		go_through "$pid"
	done
	stop_user
	eq "$(counted_hits tail)" 20 "hits"
}

# With CAP_SYS_PTRACE he may look into all.
test_strangers_with_ptrace_capability() {
	setcap_tool
	setcap cap_bpf,cap_perfmon,cap_sys_ptrace=ep "$TOOL"
	start_user "$TMP/counted" --count --json
	start_counted "$TMP/counted"
	go_through "$TARGET"
	stop_user
	eq "$(counted_hits tail)" 20 "hits"
}

test_somebody_elses_process() {
	prepare
	start_target "$TMP/loop"
	await_line ready
	status=0
	as_nobody "$TOOL" attach -pid "$TARGET" -enable alpha 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(<"$TMP/err")" "belongs to uid 0, you are uid $NOBODY"
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "alpha disabled beta disabled gamma disabled"
}

# Without the right to open what is mapped itself, a library is opened by its path, which may be that of
# another file by now: it is the inode that says.
test_a_library_that_was_replaced() {
	local as_nobody=(setpriv --reuid 65534 --clear-groups --inh-caps -all --bounding-set -all)
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$O/tests/fixtures/binaries/"{host,liblinked.so,plugin.so} "$TMP"
	start_target "${as_nobody[@]}" env LD_LIBRARY_PATH="$TMP" "$TMP/host"
	await_line ready
	"${as_nobody[@]}" "$TOOL" info -pid "$TARGET" >"$TMP/out"
	grep -q '^linked_only' "$TMP/out" || fail "$(<"$TMP/out")"
	# What maps says of a file that was removed, " (deleted)", can be a name.
	rm "$TMP/liblinked.so"
	mv "$TMP/plugin.so" "$TMP/liblinked.so (deleted)"
	"${as_nobody[@]}" "$TOOL" info -pid "$TARGET" >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(grep -cE '^(plugin|linked)_only' "$TMP/out")" 0 "$(<"$TMP/out")"
	grep -q '^host_only' "$TMP/out" || fail "$(cat "$TMP/out" "$TMP/err")"
	tell quit
}

# What doctor, as root, finds about a process of user 60123, whose effective user is EUID, in that user's own
# folder: a journal of a tool that was killed.
found_of_60123() { # EUID
	local folder=/tmp/ocaml-probes-60123 tool
	rm -rf "$folder" "$TMP/run"
	mkdir -m 700 "$folder" "$TMP/run"
	start_target python3 -c 'import os, sys
os.setresgid(60123, 60123, 60123)
os.setgroups([])
os.setresuid(60123, int(sys.argv[1]), int(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])' "$1" "$O/tests/fixtures/v1"
	await_line ready
	XDG_RUNTIME_DIR=$TMP/run background "$TOOL" attach -pid "$TARGET" -enable-all --for 1h
	tool=$!
	wait_for '"$TOOL" info -pid "$TARGET" | grep -q enabled && compgen -G "$TMP/run/ocaml-probes/[1-9]*" >/dev/null'
	wait_for '! "$TOOL" info -pid "$TARGET" | grep -q disabled'
	kill -KILL "$tool"
	wait "$tool" || :
	mv "$TMP/run/ocaml-probes/"[1-9]* "$folder"
	chown -R 60123 "$folder"
	"$TOOL" doctor -pid "$TARGET" --json 2>"$TMP/err" | grep -c left-switched || :
	rm -r "$folder"
	tell quit
}

# A user that starts a set-user-ID program cannot tell root what to do to it.
test_journals_about_setuid_processes() {
	need_root
	trap 'rm -rf /tmp/ocaml-probes-60123' EXIT
	eq "$(found_of_60123 60123)" 1 "of the user's own process"
	eq "$(found_of_60123 0)" 0 "of a setuid process"
}

run_tests "$@"
