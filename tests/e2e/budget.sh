#!/usr/bin/env bash
# The limit that `attach` has without --budget: measuring that takes too much of a program's CPU time ends, and the
# program runs as fast as before. What the totals say of the share is compared with the kernel's books.
#
# needs: ocaml
# smoke: test_calls
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

start_busy() { # WHAT
	need_bpf
	BUSY=$(own_copy "$O/tests/ocaml/busy")
	start_target "$BUSY" "$1"
	await_line ready
}

# Attach to TARGET. Sets STATUS.
attach() { # FLAG...
	STATUS=0
	"$TOOL" attach "$@" >"$TMP/out" 2>"$TMP/err" || STATUS=$?
}

# How often TARGET does what it does, in a second of its CPU time: the median of the next five lines. The first of them
# may be about the time before.
rate() {
	forget_output
	wait_for '[[ $(grep -c "^rate " "$(output_of)") -ge 6 ]]'
	sed -n '2,6s/^rate //p' "$(output_of)" | sort -n | sed -n 3p
}

# A member of the totals.
total() { # EXPRESSION
	tail -n 1 "$TMP/out" | python3 -c 'import json, sys
it = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"
}

# Has the program the rate of BEFORE again? While it was measured, it had less than a tenth.
runs_as_before() { # BEFORE
	local after
	after=$(rate)
	((after > $1 / 2)) || fail "$1 a second before it was measured, $after afterwards"
}

# Functions may take 20%.
test_calls() {
	local before
	start_busy calls
	before=$(rate)
	attach -pid "$TARGET" --count=fn:Busy.step --json --for 10s
	eq "$STATUS" 7 "status"
	holds runs_as_before "$before"
	matches "$(tail -n 1 "$TMP/err")" "^ocaml-probes: measuring stopped: pid $TARGET: the hits take [0-9]+% of its CPU time, the limit is 20%: it runs (at least [0-9.]+|more than 100) times slower; cheaper: name fewer or rarer events, or use \`ocaml-probes profile\`; --budget none lifts the limit\$"
	eq "$(total 'it["elapsed_s"] >= 1')" True "ended after a second"
	eq "$(total 'it["probes"][0]["hits"] > 0')" True "what was counted is told"
}

# Probes may take 50%. With stacks the limit is that of functions.
test_hits() {
	local before
	start_busy hits
	before=$(rate)
	attach -pid "$TARGET" --count --json --for 10s
	eq "$STATUS" 7 "status"
	finds "the limit is 50%: .* cheaper: use --engine inside, or name rarer probes; --budget none" "$TMP/err"
	eq "$(total 'it["elapsed_s"] >= 1')" True "ended after a second"
	attach -pid "$TARGET" --count --stack --json --for 10s
	eq "$STATUS" 7 "status"
	finds "the limit is 20%: .* cheaper: leave out --stack, name rarer events, or use" "$TMP/err"
	holds runs_as_before "$before"
}

# The limit is lifted, and the totals tell the share. The program's CPU time is that of its clock, in the kernel's books.
test_none() {
	local before after
	start_busy calls
	before=$(cpu_time "$TARGET")
	attach -pid "$TARGET" --count=fn:Busy.step --budget none --for 2s --json
	after=$(cpu_time "$TARGET")
	eq "$STATUS" 0 "status: $(<"$TMP/err")"
	eq "$(total 'it["elapsed_s"] >= 2')" True "seconds"
	eq "$(total "0 < it['program_cpu_s'] <= $after - $before + 0.02")" True "CPU time: $(total 'it["program_cpu_s"]') of $before to $after"
	eq "$(total 'it["program_share"] > 0.5')" True "share: $(total 'it["program_share"]')"
	attach -pid "$TARGET" --count=fn:Busy.step --budget none --for 300ms
	matches "$(tail -n 1 "$TMP/out")" '^CPU overhead: [0-9]+ hits/s x [0-9]+ ns per hit = [0-9.]+% of a core, [0-9.]+% of the program.s CPU time: it runs (at least [0-9.]+|more than 100) times slower$'
	attach -pid "$TARGET" --count=fn:Busy.step --budget 0.001% --for 10s
	eq "$STATUS" 7 "status"
	finds 'CPU overhead .* exceeds the budget of 0.001%$' "$TMP/err"
}

# Seconds of CPU time, by /proc/PID/stat.
cpu_time() { # PID
	python3 -c 'import os, sys
fields = open(f"/proc/{sys.argv[1]}/stat").read().rpartition(")")[2].split()
print((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))' "$1"
}

# The limit is that of each process: one has all hits, and two that have none have most of the CPU time.
test_each_process() {
	local hot
	start_busy spins
	start_target "$BUSY" spins
	await_line ready
	start_target "$BUSY" hits
	await_line ready
	hot=$TARGET
	attach --exe "$BUSY" --count --json --for 10s
	eq "$STATUS" 7 "status"
	finds "measuring stopped: pid $hot: the hits take " "$TMP/err"
}

# A program of a thousand functions and more, each called all the time: nothing is attached.
test_thousands() {
	local i before
	need_bpf
	mkdir "$TMP/src"
	for ((i = 0; i < 1500; i++)); do
		echo "let[@inline never] f$i x = x + $i"
	done >"$TMP/src/many.ml"
	{
		printf 'let all = [|'
		printf 'f%d;' {0..1499}
		cat <<-'END'
			|]
			let () =
			  let n = ref 0 and before = ref 0 and cpu = ref (Sys.time ()) in
			  print_endline "ready";
			  while true do
			    Array.iter (fun f -> incr n; ignore (Sys.opaque_identity (f !n))) all;
			    if Array.length Sys.argv > 1 then Unix.sleepf 3600.;
			    let now = Sys.time () in
			    if now -. !cpu >= 0.1 then begin
			      Printf.printf "rate %.0f\n%!" (float (!n - !before) /. (now -. !cpu));
			      before := !n;
			      cpu := now
			    end
			  done
		END
	} >>"$TMP/src/many.ml"
	(cd "$TMP/src" && ocamlfind ocamlopt -package unix -linkpkg -g many.ml -o ../many) 2>"$TMP/compiled" || fail "$(<"$TMP/compiled")"
	start_target "$TMP/many"
	await_line ready
	before=$(rate)
	attach -pid "$TARGET" --count='fn:Many\.f[0-9]+'
	eq "$STATUS $(<"$TMP/out")" "7 " "refused: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" 'not measured: a sample of 0.1 s says that hits of 1500 places would take [0-9]+% of the program.s CPU time, the limit is 20%: it would run (at least [0-9.]+|more than 100) times slower; cheaper: name fewer'
	eq "$(grep -c '^ocaml-probes: counting' "$TMP/err" || :)" 0 "attached to"
	holds runs_as_before "$before"
	attach -pid "$TARGET" --count='fn:Many\.f[0-9]+' --budget none --for 200ms
	eq "$STATUS" 0 "with --budget none"
	# A program that waits is measured.
	start_target "$TMP/many" waits
	await_line ready
	attach -pid "$TARGET" --count='fn:Many\.f[0-9]+' --for 500ms
	eq "$STATUS" 0 "one that waits: $(<"$TMP/err")"
}

test_wrong_use() {
	check_error 2 "--budget 'some': neither a share of a core, such as 5%, nor none" attach -pid 1 --count --budget some
}

run_tests "$@"
