#!/usr/bin/env bash
# Programs that other people wrote, as Debian has them, stripped: liquidsoap (batch, into a file), coqc, and haxe, the
# server. Every command of the manual runs on them: its status is as documented, it has an answer, and its log says what it
# must, each line once.
#
# long: programs
# takes: 600 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

TEST_TIMEOUT=1800

# What may be said: progress, what a hit costs, and the words of the message that a test asks for. Numbers are "N".
KNOWN='(N of N|all N|the) places? (are|is) single-stepped: N us per hit, others N us
(counting|measuring) N probes? \(N sites?\) of (pid N|every process that runs it.*)
(sampling the CPU N times a second|sampling allocation|recording the waits): (pid N|N process(es)? that runs? it now, and all later ones)
measuring pid N for N s
no samples: (no thread ran at the time of a sample|no thread waited and ran again|no minor heap ran out, and no large blocks were allocated|the collector did not run)
N process(es)? cannot be inspected .*
kept: ocaml-probes read .* \| ocaml-probes detach .*
(page.html|page.pprof): written
N words of small blocks are missing.*'

# The lines of the log, without numbers that vary, that KNOWN and the words ALSO do not have.
unknown_lines() { # ALSO
	sed -E "s/^ocaml-probes: //; s/[0-9]+(\.[0-9]+)?/N/g; /^hint: /d" "$TMP/err" |
		grep -vxE "$KNOWN${1:+
$1}" || :
}

# Run a command of the tool on the program.
runs() { # STATUS ALSO ARG...
	local want=$1 also=$2 status=0
	shift 2
	(cd "$TMP" && exec "$TOOL" "$@") >"$TMP/out" 2>"$TMP/err" </dev/null || status=$?
	eq "$status" "$want" "status of $*: $(<"$TMP/err")"
	eq "$(unknown_lines "$also")" "" "what $* says"
	eq "$(sed -E 's/[0-9]+(\.[0-9]+)?/N/g' "$TMP/err" | sort | uniq -d)" "" "what $* says twice: $(<"$TMP/err")"
	[[ $want != 0 || -s $TMP/out || $* = "doctor "* || $* = "info "* || $* = *" --keep "* ]] || fail "$*: no answer"
}

# Something that the program does is counted, sooner or later.
counts() { # ARG...
	until "$TOOL" attach "$@" --for 300ms --json --quiet >"$TMP/out" && grep -q '"hits":[1-9]' "$TMP/out"; do sleep 0.1; done
	finds '"hits":[1-9]' "$TMP/out"
}

STRIPPED='.* was compiled with -g, then stripped: it has no line table'

check_attach() { # EXE FUNCTIONS
	local exe=$1 functions=$2
	runs 0 ".*: no probes yet: probes of files that are loaded later are measured from then on; functions need no probes \(fn:NAME\)" \
		attach "$TARGET" --count --for 100ms
	counts "$TARGET" --count="fn:$functions"
	counts "$TARGET" --count=gc:minor
	counts "$TARGET" --count=c:caml_alloc_small_dispatch
	runs 0 '' attach "$TARGET" --count="fn:$functions" --for 300ms --top 5
	runs 0 '' attach "$TARGET" --count="fn:$functions" --stack --for 300ms
	runs 0 '' attach "$TARGET" --count="fn:$functions" --by-thread --interval 100ms --for 300ms --json
	runs 0 '' attach "$TARGET" --count="fn:$functions" --by-site --for 300ms --csv --children
	runs 0 '' attach "$TARGET" --count=gc:minor --time=gc:minor --for 300ms
	runs 0 '' attach "$TARGET" --time=c:caml_empty_minor_heap --for 300ms --sort p99
	runs 0 '' attach "$TARGET" --print=c:caml_alloc_shr --limit 5 --for 300ms --time-of-day
	runs 0 '' attach --exe "$exe" --count="fn:$functions" --for 300ms
	runs 1 "'line:list.ml': $STRIPPED" attach "$TARGET" --count=line:list.ml --for 300ms
	runs 2 "'c:lstat': no such function in .*" attach "$TARGET" --count=c:lstat --for 300ms
	eq "$(grep '^hint' "$TMP/err")" "hint: did you mean 'c:libc.so.6:lstat'?"
	runs 2 "'fn:Nowhere.at_all': no such function in .*" attach "$TARGET" --count=fn:Nowhere.at_all
	runs 0 '' attach "$TARGET" --count=c:caml_alloc_shr --keep "kept$$"
	runs 0 '' read "kept$$"
	runs 0 '' list --kept
	runs 0 '' detach "kept$$"
}

check_profiles() { # EXE
	local kind
	for kind in cpu off-cpu alloc gc; do
		runs 0 '' profile "$TARGET" "--$kind" --for 500ms
	done
	until runs 0 '' profile "$TARGET" --for 500ms --json && ! grep -q 'no samples' "$TMP/err"; do :; done
	cp "$TMP/out" "$TMP/old.json"
	runs 0 '' profile "$TARGET" --for 500ms --diff old.json
	runs 0 '' profile "$TARGET" --for 500ms --html page.html --pprof page.pprof
	runs 0 '' profile --exe "$1" --for 500ms
}

# TARGET runs EXE.
check_all() { # EXE FUNCTIONS
	local exe=$1 functions=$2 what="pid N \($1\): has no OCaml probes"
	runs 0 "$what" info "$TARGET"
	runs 0 "$what" info "$TARGET" --sites --json
	runs 0 "$exe: has no OCaml probes" list -prog "$exe" --json
	runs 0 '' list --json
	runs 0 '' functions "$TARGET" "$functions"
	runs 0 '' functions -prog "$exe" --json
	check_attach "$exe" "$functions"
	runs 0 '' gc "$TARGET" --for 300ms
	runs 0 '' gc "$TARGET" --interval 100ms --for 300ms --json
	runs 0 '' report "$TARGET" --html page.html
	runs 0 '' "$TARGET" --for 500ms --json
	check_profiles "$exe"
	runs 1 "$STRIPPED" annotate "$TARGET" list.ml --for 100ms
	runs 1 'pid N: is not linked with ocaml-probes.memprof' memprof "$TARGET" --for 100ms
	runs 0 "$what" doctor "$TARGET"
	runs 0 '' bpftrace "$TARGET" count "fn:$functions"
	runs 0 '' bpftrace "$TARGET" time gc:minor
	start_server -pid "$TARGET" --count="fn:$functions" --time gc:minor --profile
	eq "$(get metrics | sed -n "s|^ocaml_probes_up{exe=\"$exe\"} ||p")" 1 "up"
	end_server
	eq "$(sed -E 's/[0-9]+(\.[0-9]+)?/N/g; s/^ocaml-probes: (warning: pid N: )?//' "$TMP/serve.err" | grep -v '^serving http' |
		grep -vxE "$KNOWN" || :)" "" "what serve says"
}

need_program() { # COMMAND
	need_bpf
	need_command "$1"
	cd "$TMP" || exit
}

test_liquidsoap() {
	need_program liquidsoap
	cat >"$TMP/batch.liq" <<-END
		init.allow_root.set(true)
		log.stdout.set(true)
		s = sine()
		clock.assign_new(sync="none", [s])
		output.file(fallible=true, %wav, "/dev/null", s)
	END
	start_target liquidsoap "$TMP/batch.liq"
	wait_for 'has_text "$(output_of)" "Streaming loop starts"'
	check_all "$(realpath "$(type -P liquidsoap)")" 'Mm_audio\..*'
}

test_coqc() {
	need_program coqc
	cat >"$TMP/c.v" <<-END
		Fixpoint fib (n : nat) : nat := match n with 0 => 1 | S p => match p with 0 => 1 | S q => fib p + fib q end end.
		Goal True. Proof. idtac "ready". do 10000000 (try (assert (fib 12 = 233) by (simpl; reflexivity); fail)). exact I. Qed.
	END
	start_target coqc "$TMP/c.v"
	await_exe "$(type -P coqc)"
	counts "$TARGET" --count='fn:Evd\..*'
	check_all "$(realpath "$(type -P coqc)")" 'Evd\..*'
}

test_haxe() {
	local port=$((20000 + $$ % 20000)) server
	need_program haxe
	echo 'class Main { static function main() { trace("x"); } }' >"$TMP/Main.hx"
	start_target haxe --wait "$port"
	server=$TARGET
	background bash -c "while kill -0 $server; do haxe --connect $port --main Main --js m.js; done" >"$TMP/clients" 2>&1
	check_all "$(realpath "$(type -P haxe)")" 'Type.*'
}

run_tests "$@"
