#!/usr/bin/env bash
# Tab in a real bash and a real zsh. completion.py presses it.
#
# needs: fixtures serve top ocaml/service
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/namespace_lib.sh"

# Two processes with probes: a shell that is asked for a pid has to show a list.
start_services() {
	cp "$O/tests/ocaml/service" "$TMP/only-service"
	start_target "$TMP/only-service"
	SERVICE=$TARGET
	start_target "$TMP/only-service"
	OTHER=$TARGET
	wait_for 'finds -wx "request_start disabled" < <("$TOOL" info -pid "$OTHER" 2>&1)'
	wait_for 'finds -wx "request_start disabled" < <("$TOOL" info -pid "$SERVICE" 2>&1)'
	export SERVICE OTHER
}

# The shell's own rules, and no set-up of this machine's.
press() { # SHELL CASES
	PATH=$O:$PATH python3 "$ROOT/tests/e2e/completion.py" "$@"
}

test_bash() {
	start_services
	press bash words
}

test_zsh() {
	need_command zsh
	start_services
	press zsh words
}

# Names of kept meters; nobody else's are seen.
test_kept_meters() {
	need_command zsh
	# shellcheck disable=SC2016 # for the shell below
	holds in_namespaces bash -euc '
		/srv/bin/service >/dev/null &
		export SERVICE=$! OTHER=$$
		until [[ /proc/$SERVICE/exe -ef /srv/bin/service ]]; do read -rt 0.01 <> <(:) || true; done
		"$TOOL" attach -pid "$SERVICE" --count --keep night-shift 2>/dev/null
		PATH=$O:$PATH
		python3 "$ROOT/tests/e2e/completion.py" bash kept
		python3 "$ROOT/tests/e2e/completion.py" zsh kept
		"$TOOL" detach night-shift >/dev/null'
}

# What the shells ask, without a shell.
test_answers() {
	local word
	start_services
	# Names, and positions of arguments without one.
	args_of() { "$TOOL" list -prog "$TMP/only-service" --args | awk -v probe="$1" '
		$1 == probe && $4 ~ /^arg/ { print $5 == "-" ? $4 : $5 }' | xargs; }
	answers() { "$TOOL" complete "$@" | cut -f1 | xargs; }
	eq "$("$TOOL" complete '' | cut -f1 | sort | xargs)" \
		"$("$TOOL" help | sed -nE 's/^  ([a-z]+) .*/\1/p' | sort | xargs)" "the commands"
	eq "$("$TOOL" complete attach -pid "$SERVICE" -enable '' | cut -f1 | xargs)" \
		"$("$TOOL" info -pid "$SERVICE" | cut -d' ' -f1 | xargs)" "the probes of a process"
	eq "$("$TOOL" complete trace -prog "$TMP/only-service" -enable '' | cut -f1 | xargs)" \
		"$("$TOOL" list -prog "$TMP/only-service" | xargs)" "the probes of a file"
	# Each option of the help, in all commands.
	for word in annotate attach list info functions doctor read detach top serve bpftrace trace; do
		eq "$("$TOOL" complete "$word" - | cut -f1 | grep -v '=$' | sort | xargs)" \
			"$("$TOOL" help "$word" | sed -nE 's/^  (-.*[^ ])(  .*|$)/\1/p' | sed 's/  .*//; s/, /\n/g' |
				sed -E 's/[ [].*//' | sort | xargs)" "the options of $word"
	done
	matches " $(answers info -pid '' | tr '\n' ' ') " " $SERVICE .*$OTHER |$OTHER .*$SERVICE "
	[[ " $(answers info -pid '') " != *" $$ "* ]] || fail "a pid without probes is offered"
	[[ " $(answers attach -pid "$SERVICE" -pid '') " != *" $SERVICE "* ]] || fail "a pid is offered twice"
	eq "$(answers attach --pid="$SERVICE" -enable cache_hit,cache_)" \
		"cache_hit,cache_evict cache_hit,cache_miss" "what is not in the list yet"
	eq "$(answers attach "$SERVICE" --count=request_done --hist '')" "$(args_of request_done)" "arguments of a probe"
	eq "$(answers attach "$SERVICE" --time request_start,request_done --key '')" \
		"$({ args_of request_start; args_of request_done; } | xargs -n1 | sort -u | xargs)" "arguments of two probes"
	eq "$(answers attach --exe "$TMP/only-service" --count=request_start --by=)" \
		"$(args_of request_start | xargs -n1 | sed 's/^/--by=/' | xargs)" "arguments in a file"
	[[ " $(answers attach "$SERVICE" --hist '') " != *argN* ]] || fail "the words of the page are offered"
	eq "$(answers attach "-pid=${SERVICE:0:-1}" | tr ' ' '\n' | grep -x -- "-pid=$SERVICE")" "-pid=$SERVICE"
	# Nothing, and no message, for what makes no sense.
	for word in 'nosuch ' 'attach -pid 4194304 -enable ' 'attach --nosuch=' 'info -pid x' 'list -prog /nowhere -x' \
		'list -- ' 'attach -enable '; do
		# shellcheck disable=SC2046,SC2086 # words, the last of which is empty after a space
		eq "$("$TOOL" complete $word ${word:+$([[ $word != *' ' ]] || echo "zzz")} 2>&1)" "" "complete $word"
	done
	"$TOOL" complete
}

# What was asked of one process is read of one: fast enough for a key. (How fast is a matter of `make bench`.)
test_looks_at_one_process() {
	need_command strace
	start_services
	strace -f -qq -e trace=openat -o "$TMP/opened" "$TOOL" complete attach -pid "$SERVICE" -enable '' >"$TMP/names"
	grep -q cache_hit "$TMP/names" || fail "$(<"$TMP/names")"
	eq "$(grep -o '"/proc/[0-9]*/' "$TMP/opened" | sort -u)" "\"/proc/$SERVICE/" "processes"
}

run_tests "$@"
