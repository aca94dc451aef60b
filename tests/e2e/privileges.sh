#!/usr/bin/env bash
# Least privilege: an ordinary user lists, toggles and traces its own processes; counting needs two
# capabilities, and says which.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

NOBODY=65534

# Copies that the other user can reach, wherever the build folder is.
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
	wait_for 'grep -qx "tail handler=20 expected=20" "$TMP/run"'
}

test_counting_names_what_is_missing() {
	local status
	prepare
	start_as_nobody "$TMP/loop"
	status=0
	as_nobody "$TOOL" attach -pid "$TARGET" --count --for 1s >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(cat "$TMP/err")" "lacks CAP_BPF and CAP_PERFMON"
	matches "$(cat "$TMP/err")" "hint: .*setcap cap_bpf,cap_perfmon=ep $TMP/ocaml-probes"
	eq "$(wc -l <"$TMP/err")" 2 "lines"
	status=0
	with_caps +cap_39 "$TOOL" attach -pid "$TARGET" --count --for 1s 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(cat "$TMP/err")" "lacks CAP_PERFMON"
	status=0
	with_caps +cap_38 "$TOOL" attach -pid "$TARGET" --count --for 1s 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(cat "$TMP/err")" "lacks CAP_BPF"
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
	kill -INT "$tool" || fail "$(cat "$TMP/err")"
	wait "$tool" || fail "status $?: $(cat "$TMP/err")"
	eq "$(awk -v name="$name" -v column="$column" '$1 == name && $column > 0 { print "measured" }' "$TMP/out")" \
		measured "$*: $(cat "$TMP/out")"
}

test_two_capabilities_suffice() {
	prepare
	need_counting
	start_as_nobody "$TMP/loop"
	measures alpha 2 "${two_caps[@]}" "$TOOL" attach -pid "$TARGET" --count
	measures alpha,beta 2 "${two_caps[@]}" "$TOOL" attach -pid "$TARGET" --time alpha,beta --children
	measures alpha 4 "${two_caps[@]}" "$TOOL" attach --exe "$TMP/loop" --count --by-process
}

# The hint's command does what it says.
test_setcap_as_hinted() {
	prepare
	need_counting
	need_command setcap
	start_as_nobody "$TMP/loop"
	setcap cap_bpf,cap_perfmon=ep "$TOOL"
	measures alpha 2 setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups "$TOOL" attach -pid "$TARGET" --count
}

test_somebody_elses_process() {
	prepare
	start_target "$TMP/loop"
	await_line ready
	status=0
	as_nobody "$TOOL" attach -pid "$TARGET" -enable alpha 2>"$TMP/err" || status=$?
	eq "$status" 3 "status"
	matches "$(cat "$TMP/err")" "belongs to uid 0, you are uid $NOBODY"
	eq "$("$TOOL" info -pid "$TARGET" | xargs)" "alpha disabled beta disabled gamma disabled"
}

run_tests "$@"
