#!/usr/bin/env bash
# The live view, in a real terminal (tmux): what it shows, what its keys do, and that the terminal is
# as it was before, whichever way it ends.
#
# needs: fixtures serve top ocaml
# takes: 90 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/memprof_lib.sh"

# Copies: a file is measured in all processes that run it, those of other tests too.
STEADY=${TMP:-}/steady LOOP=${TMP:-}/loop

# ---- the terminal -----------------------------------------------------------------------------

tmux_do() {
	env -u TMUX TMUX_TMPDIR="$TMP" tmux -f /dev/null "$@"
}

# A terminal of this size with a shell in it. The server is a child of ours, and ends as they do.
open_terminal() { # COLUMNS LINES
	need_counting
	need_command tmux
	cp "$O/tests/ocaml/steady" "$O/tests/ocaml/loop" "$TMP"
	env -u TMUX TMUX_TMPDIR="$TMP" tmux -f /dev/null -D &
	trap close_terminal EXIT
	wait_for 'tmux_do set -g exit-empty off 2>/dev/null'
	tmux_do new-session -d -x "$1" -y "$2" \
		'exec env LC_ALL=C.UTF-8 PS1="$ " bash --norc --noprofile -i'
	wait_for 'screen | finds "^\\$"'
}

# The view is in a session of its own, and ends with its terminal.
close_terminal() {
	tmux_do kill-server 2>/dev/null || :
	[[ -z ${VIEWER:-} ]] || (wait_for 'has_ended "$VIEWER"')
}

screen() { tmux_do capture-pane -p; }
press() { tmux_do send-keys "$@"; }
enter() { tmux_do send-keys -l -- "$1"; tmux_do send-keys Enter; }

shows() { screen | finds -E -- "$1"; }
await_screen() { # RE
	local awaited=$1
	(wait_for 'shows "$awaited"') || fail "waited in vain for $1 on this screen:
$(screen)"
}

# Wait until COMMAND prints EXPECTED. The screen may be looked at while it is being drawn: what is in
# its upper lines is there before what is below.
await_eq() { # COMMAND EXPECTED WHAT
	local command=$1 expected=$2
	(wait_for '[[ $($command) = "$expected" ]]') || eq "$($1)" "$2" "$3"
}

# Start the view with the shell's status of the terminal before it in $TMP/before, what it says on
# stderr in $TMP/err, and when it has ended its status in $TMP/status. Sets VIEWER to its pid.
start_top() { # ARG...
	rm -f "$TMP/status" "$TMP/pid" "$TMP/after"
	printf '%s\n' 'echo $$ >"$TMP/pid"' 'exec "$TOOL" top "$@" 2>"$TMP/err"' >"$TMP/run"
	enter "clear; export TMP='$TMP' TOOL='$TOOL'; stty -g >'$TMP/before'; bash '$TMP/run' $*; \
echo \$? >'$TMP/status'; stty -g >'$TMP/after'"
	wait_for 'shows "^ocaml-probes top  " || [[ -e $TMP/status ]]'
	[[ ! -e $TMP/status ]] || fail "it ended: $(<"$TMP/status") $(<"$TMP/err")"
	VIEWER=$(<"$TMP/pid")
}

# It has ended with STATUS, and the terminal is the shell's again.
check_restored() { # STATUS HOW
	wait_for '[[ -s $TMP/after ]]'
	eq "$(<"$TMP/status")" "$1" "status after $2: $(<"$TMP/err")"
	eq "$(<"$TMP/after")" "$(<"$TMP/before")" "the terminal's settings after $2"
	wait_for 'eval "$terminal_is_plain"'
	rm "$TMP/after"
}
# shellcheck disable=SC2016 # evaluated later
terminal_is_plain='[[ $(tmux_do display-message -p "#{cursor_flag} #{alternate_on} #{keypad_cursor_flag}") = "1 0 0" ]]'

# The line of a probe, its mark taken away, words between single spaces.
line_of() { # PROBE
	screen | sed -n "s/^[> ] *\($1 .*\)/\1/p" | tr -s ' '
}
field_of() { line_of "$1" | cut -d' ' -f"$2"; }
# Without bars, the last four fields are: hits, sites, handler, counted.
hits_of() { line_of "$1" | awk '{ print $(NF - 3) }'; }
handler_of() { line_of "$1" | awk '{ print $(NF - 1) }'; }
marked() { screen | sed -n 's/^> \([a-z_]*\) .*/\1/p'; }
probes_shown() { screen | sed -nE 's/^[> ] (beat|flood|rare|work_start|work_stop) .*/\1/p' | paste -sd' '; }
# Its expected hits, when it has ended.
books_of() { sed -n "s/^$1 handler=[0-9]* expected=//p" "$(output_of)"; }

start_steady() {
	start_target "$STEADY"
	await_line ready
}

# Step by step: a key may take its time, and lines change their places.
mark() { # PROBE
	local tries at lines
	for ((tries = 0; tries < 20; tries++)); do
		lines=$(screen | sed -nE 's/^([> ]) (beat|flood|rare|work_start|work_stop) .*/\1\2/p')
		at=$(sed -n 's/^>//p' <<<"$lines")
		[[ $at != "$1" ]] || return 0
		if [[ ${lines%%>*} = *" $1"* ]]; then press k; else press j; fi
		# In vain where it has become the last meanwhile.
		(PATIENCE=5 wait_for '[[ $(marked) != "$at" ]]') 2>/dev/null || :
	done
	fail "the cursor does not get to $1: $(screen)"
}

# Wait until a tick has come since now: hits of a probe that is counted all the time are more, and
# once more, since the first may have been read for something else.
await_tick() {
	local before times
	for times in first second; do
		before=$(hits_of flood)
		wait_for '[[ $(hits_of flood) -gt ${before:-0} ]]'
	done
}

# ---- what it shows ----------------------------------------------------------------------------

test_rates_pairs_sorting_filter_pause() {
	local before
	open_terminal 80 24
	start_steady
	start_top -pid "$TARGET" --time work_start,work_stop
	await_screen '^> flood +(1\.0[0-9]k|9[5-9][0-9]) .* off +yes'
	await_screen '^  beat +(9[5-9]\.[0-9]|10[0-9]) '
	# A thread that was not scheduled meanwhile took seconds.
	await_screen '^  work_start,work_stop +([89]\.[0-9]|1[01]\.[0-9]) +([2-9]\.|[1-9][0-9])[0-9.]*ms +(([2-9]\.|[1-9][0-9])[0-9.]*m|[1-9][0-9.]*)s'
	await_screen "^up   pid $TARGET +for [0-9hms]+ +[0-9.]+k hits/s +CPU overhead 0\\.[0-9]+% +[0-9.]+(n|µ)s per hit"
	await_screen '^  work_stop .* off +pair$'
	await_screen '^> flood .*[▁▂▃▄▅▆▇█]'

	# The cursor stays with its probe.
	wait_for '[[ $(probes_shown) =~ ^flood\ beat\ [a-z] ]]'
	mark rare
	press n
	await_screen '^  probe▲ '
	await_eq probes_shown "beat flood rare work_start work_stop" "by name"
	await_eq marked rare "the cursor's probe"
	press S
	await_screen '^  probe▼ '
	await_eq probes_shown "work_stop work_start rare flood beat" "by name, reversed"
	await_eq marked rare "the cursor's probe"
	press r
	await_screen 'hits/s▼'
	press s
	await_screen ' hits▼'

	press / w o r k
	await_screen '^/work'
	# By hits: one more stop than starts, if counting has begun within a pair.
	wait_for '[[ $(probes_shown) =~ ^(work_start\ work_stop|work_stop\ work_start)$ ]]'
	press Enter
	await_screen '/work 1-2/2$'
	press Escape
	await_screen ' 1-5/5$'
	press / x y z
	await_screen "no probe matches"
	press Escape
	await_screen ' 1-5/5$'

	# With Alt, or unknown, they are other keys, and nothing to us. What is typed behind them is,
	# though it comes together with them when the view has had no time for a while.
	press -l $'\eq\ee\ec\e/\e[99;5q\eOc\e[[e\e\e[99qn'
	await_screen '^  probe▲ '
	await_screen '^[> ] rare .* off +yes$'
	press r
	await_screen 'hits/s▼'
	press s
	await_screen ' hits▼'

	press Space
	await_screen 'FROZEN$'
	await_screen '^display frozen, '
	before=$(screen)
	sleep 1.3
	eq "$(screen)" "$before" "the screen, paused"
	press Space
	await_tick
	press '?'
	await_screen '^ q Ctrl-C +quit'
	press x
	await_screen '^ocaml-probes top  .*/steady'
	press q
	check_restored 0 q
	eq "$(<"$TMP/err")" "" "said"
}

# Every hit of the program's whole life, over the life of a second process too.
test_exact_over_restart() {
	local first
	open_terminal 100 20
	start_top --exe "$STEADY"
	await_screen '^waiting +no process'
	start_steady
	await_screen "^up +pid $TARGET"
	await_screen '^> flood '
	quit_target
	first=$(books_of flood)
	await_screen '^steady: exited; '
	await_screen '^waiting +no process'
	await_eq "hits_of flood" "$first" "hits when it has ended"
	start_steady
	await_screen "^up +pid $TARGET"
	await_screen '^steady: running, measured'
	quit_target
	await_screen '^steady: exited; '
	wait_for '[[ $(hits_of flood) -eq '"$((first + $(books_of flood)))"' ]]'
	press q
	check_restored 0 q
}

# Two programs, one of which has two processes; among processes of our own, since those of other
# tests are to be left alone.
test_all_programs_and_confirmation() {
	need_counting
	need_command tmux unshare
	unshare --pid --fork --mount-proc bash "$0" --one all_programs_and_confirmation
}

all_programs_and_confirmation() {
	local first second program
	open_terminal 120 30
	start_steady
	first=$TARGET
	start_steady
	second=$TARGET
	start_target "$LOOP"
	await_line ready
	start_top --budget 1000%
	await_screen '^  program +state'
	await_screen "^  steady +up .* pids $first $second"
	await_screen "^  loop +up .* pid $TARGET\$"
	# Several meters find out at once what a hit costs, on the same sites.
	for program in steady loop; do
		await_screen "^  $program +up .* ([0-9]{3}ns|[0-9.]+µs) +[0-9]+s "
	done
	await_screen '^[> ] alpha +loop +[0-9.]+[kM] '
	press / r a r e Enter
	await_screen '^> rare +steady +(19|2[01])\.[0-9] '
	press e
	await_screen '^switch the handlers of rare on: 1 site in 2 processes\? \(y/n\)'
	press n
	await_screen '^rare: not changed'
	eq "$("$TOOL" info -pid "$first" | grep ' enabled' || :)" "" "handlers that are on"
	press e y
	await_screen '^rare: handlers switched on in 2 processes'
	eq "$("$TOOL" info -pid "$first" | grep ' enabled')" "rare enabled" "handlers that are on"
	"$TOOL" attach -pid "$second" -disable rare
	await_screen ' mixed 1/2 '
	press q
	check_restored 0 q
	eq "$(<"$TMP/err")" \
		"ocaml-probes: top: handlers switched on here stay on: rare (steady)" "said"
}

# Nobody named a program: each has a budget of its own, which the first screen says.
test_budget_of_all_programs() {
	need_counting
	need_command tmux unshare
	unshare --pid --fork --mount-proc bash "$0" --one budget_of_all_programs
}

budget_of_all_programs() {
	local before
	open_terminal 120 30
	start_steady
	start_target "$LOOP" busy
	await_line ready
	start_top
	await_screen '^[0-9.k-]+ +hits/s   CPU overhead [0-9.]+%   budget 5% a program$'
	await_screen '^  loop .* busiest counters switched off \([123]\): CPU overhead [0-9]+%'
	await_screen '^[> ] alpha +loop .* no$'
	await_screen '^[> ] flood +steady .* yes$'
	before=$(field_of flood 3)
	wait_for '[[ $(field_of flood 3) != "'"$before"'" ]]'
	press q
	check_restored 0 q
	start_top --exe "$STEADY"
	await_screen '^up .* hits/s   CPU overhead'
	! shows 'budget [0-9]' || fail "a budget nobody asked for: $(screen)"
	press q
	check_restored 0 q
}

# A program without probes, which loads a plugin that has two.
test_no_probes_yet() {
	open_terminal 80 24
	cp "$O/tests/ocaml/bare_host" "$O/tests/ocaml/plugin.cmxs" "$TMP"
	start_target "$TMP/bare_host"
	await_line ready
	start_top -pid "$TARGET"
	await_screen '^ *no probes yet; waiting for a file with probes to be loaded'
	grep -q "warning: $TMP/bare_host: no probes yet" "$TMP/err" || fail "said: $(<"$TMP/err")"
	tell "load $TMP/plugin.cmxs"
	await_line loaded
	await_screen '^[> ] plugin_only .* 0 +1 +off +yes'
	tell "go 1000"
	await_screen '^[> ] plugin_only .* 1000 +1 +off +yes'
	await_screen '^[> ] reused .* 1000 +1 +off +yes'
	press q
	check_restored 0 q
}

# Plain text without a terminal: the fields in their order, and numbers that are those of the program.
test_batch() {
	local status=0
	need_counting
	cp "$O/tests/ocaml/steady" "$TMP"
	start_steady
	env -u TERM LC_ALL=C "$TOOL" top -pid "$TARGET" --time work_start,work_stop --batch 2 \
		</dev/null >"$TMP/out" 2>"$TMP/err" || fail "status $?: $(<"$TMP/err")"
	eq "$(<"$TMP/err")" "" "said"
	eq "$(LC_ALL=C grep -c '[^ -~]' "$TMP/out" || :)" 0 "lines that are not plain text"
	eq "$(sed -nE 's/^screen ([0-9/]*)  [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[+-][0-9]{4}$/\1/p' "$TMP/out" | paste -sd' ')" \
		"1/2 2/2" "screens"
	eq "$(grep -c '^$' "$TMP/out")" 7 "empty lines"
	eq "$(awk '$7 == "'"$STEADY"'" { print $1, $2, $3, NF }' "$TMP/out" | uniq -c | xargs)" "2 1 up 1 7" "programs"
	eq "$(awk '$9 == "work_start,work_stop" { print $8, NF, ($2 >= 2e6 && $4 >= $3 && $3 >= $2) }' "$TMP/out" | uniq -c | xargs)" \
		"2 1 9 1" "pairs: program, fields, times"
	eq "$(awk '$7 == "flood" { print $3, $4, $5, $6, NF }' "$TMP/out" | uniq -c | xargs)" \
		"2 1 off yes 1 7" "flood"
	eq "$(awk '$1 == "engine" { getline; print }' "$TMP/out" | uniq -c | xargs)" "2 bpf 1" "engines"
	eq "$(awk '/hits\/s +hits/ { n = NR } n && NR > n && NF == 7 { print $7 } !NF { n = 0 }' "$TMP/out" | sort | uniq -c | xargs)" \
		"2 beat 2 flood 2 rare 2 work_start 2 work_stop" "probes"
	# By rate, the highest first.
	eq "$(awk '$5 == "yes" && $1 != "-" { print $1 }' "$TMP/out" | head -n 3 | sort -c -s -g -r 2>&1)" "" "order"
	check_error 2 "--batch '0': not a number of screens" top -pid "$TARGET" --batch 0
	check_error 2 "--batch '3x': not a number of screens" top -pid "$TARGET" --batch 3x
	check_error 2 '--batch and --memprof are mutually exclusive' top -pid "$TARGET" --batch 3 --memprof
	check_error 2 '--leaf requires --memprof' top -pid "$TARGET" --leaf
	# A reader that has enough, and a signal, end it.
	{ "$TOOL" top -pid "$TARGET" --batch 1000 2>"$TMP/err" || :; } | head -n 1 >"$TMP/out"
	finds '^screen 1/1000 ' <"$TMP/out" || fail "$(<"$TMP/out")"
	# The rates are right in two screens in a row, as they are in each if the program has a processor when it wants one.
	background "$TOOL" top -pid "$TARGET" --time work_start,work_stop --batch 1000 >"$TMP/rates" 2>"$TMP/err"
	wait_for 'awk '"'"'$9 == "work_start,work_stop" { pair = $1 > 8 && $1 < 12 }
		$7 == "flood" { right = pair && $1 > 900 && $1 < 1100 ? right + 1 : 0; if (right == 2) exit }
		END { exit right < 2 }'"'"' "$TMP/rates"'
	kill -TERM $!
	wait $!
	background "$TOOL" top -pid "$TARGET" --batch 1000 >"$TMP/out" 2>"$TMP/err"
	wait_for 'grep -q "^screen 1/" "$TMP/out"'
	kill -TERM $!
	wait $! || status=$?
	eq "$status" 0 "status after a signal: $(<"$TMP/err")"
	eq "$(tail -c 1 "$TMP/out" | od -An -tx1 | tr -d " ")" 0a "the last screen is whole"
	wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
}

# The line of a program says what measures it.
test_engine() {
	open_terminal 100 24
	start_steady
	start_top -pid "$TARGET"
	await_screen '^up   pid .* engine bpf$'
	press q
	check_restored 0 q
	start_top -pid "$TARGET" --engine inside
	await_screen '^up   pid .* engine inside$'
	await_screen '^> flood .* yes'
	mark flood
	press c
	await_screen 'the engine `inside` cannot switch'
	press q
	check_restored 0 q
	eq "$("$TOOL" doctor -pid "$TARGET")" "" "doctor"
}

# Functions of a program without probes: their hits and times, and no handlers to switch.
test_functions() {
	open_terminal 110 24
	cp "$O/tests/ocaml/unprobed" "$TMP"
	start_target "$TMP/unprobed"
	await_line ready
	start_top --exe "$TMP/unprobed" --count=fn:Unprobed.find --time fn:Unprobed.work
	tell "go 100"
	await_line 'done'
	await_screen '^[> ] fn:Unprobed\.find .* 150 +1 +none +yes'
	await_screen '^[> ] fn:Unprobed\.work .* 1 +[0-9]+ +none +pair'
	# In the table of pairs it has no partner.
	await_screen '^  fn:Unprobed\.work  .* [0-9.]+ms +0 +0$'
	press n
	press g
	press e
	await_screen 'fn:Unprobed\.find: not a probe: it has a counter, but no handlers'
	press c
	await_screen 'fn:Unprobed\.find: counter switched off'
	tell "go 100"
	await_line 'done'
	press c
	await_screen 'fn:Unprobed\.find: counter switched on'
	tell "go 10"
	await_screen '^[> ] fn:Unprobed\.find .* 165 +1 +none +yes'
	press q
	check_restored 0 q
}

test_is_found_by_name() {
	need_command pgrep
	open_terminal 80 24
	start_steady
	start_top -pid "$TARGET"
	check_process_name "$VIEWER" ocaml-probes-top
	press q
	check_restored 0 q
}

test_switches_handler_and_counter() {
	local hits
	open_terminal 90 24
	start_steady
	start_top -pid "$TARGET" --time work_start,work_stop
	await_screen '^> flood +(1\.0|9)'
	mark beat
	press e
	await_screen '^switch the handlers of beat on: 1 site in 1 process\? \(y/n\)'
	press x
	await_screen '^beat: not changed'
	eq "$("$TOOL" info -pid "$TARGET" | grep -c ' enabled' || :)" 0 "probes switched on without an answer"
	press e y
	await_screen '^beat: handlers switched on in 1 process'
	await_screen '^> beat .* on +yes'
	matches "$("$TOOL" info --json -pid "$TARGET")" '"name":"beat","state":"enabled"'
	press e y
	await_screen '^> beat .* off +yes'
	matches "$("$TOOL" info --json -pid "$TARGET")" '"name":"beat","state":"disabled"'
	press c
	await_screen '^beat: counter switched off'
	await_screen '^> beat +- .* off +no'
	await_tick # with those of the moment in which it was switched
	hits=$(hits_of beat)
	await_tick
	eq "$(hits_of beat)" "$hits" "hits that are not counted"
	press c
	await_screen '^> beat .* off +yes'
	wait_for '[[ $(hits_of beat) -gt '"$hits"' ]]'
	mark work_stop
	press c
	await_screen '^work_stop: .*pair'
	mark rare
	press e y
	await_screen '^> rare .* on +yes'
	press q
	check_restored 0 q
	eq "$(<"$TMP/err")" \
		"ocaml-probes: top: handlers switched on here stay on: rare (steady)" "said"
	eq "$("$TOOL" info -pid "$TARGET" | grep ' enabled')" "rare enabled" "handlers that are on"
}

# No line is wider than the screen, and none is lost.
test_resizes() {
	local size
	open_terminal 120 40
	start_steady
	start_top -pid "$TARGET" --time work_start,work_stop
	await_screen '^> flood +(1\.0|9).* off +yes'
	for size in '40 12' '30 5' '12 2' '1 1' '120 40' '40 8' '500 200' '80 24'; do
		tmux_do resize-window -x "${size% *}" -y "${size#* }"
		case $size in
		'30 5')
			await_screen '^30x5 is too small \(40x8\)'
			press e c
			;;
		'12 2') await_screen '^12x2 is too…$' ;;
		'1 1') sleep 0.1 ;; # has room for nothing
		'40 12')
			await_screen '^> flood +[0-9.]+k? +[0-9]+ off$'
			await_screen '^\? help +hidden: pairs: max, open,'
			press '?'
			await_screen '^ +orphans, last minute,$'
			press x x x x x x x x x x x x x
			await_screen '^> flood '
			;;
		'40 8')
			await_screen '^> flood +[0-9.]+k? +[0-9]+ off$'
			await_screen 'hidden: pairs, last minute, '
			;;
		*)
			await_screen '^> flood .* off +yes'
			await_screen '^  work_start,work_stop .* [01] +[01]$'
			;;
		esac
		kill -0 "$VIEWER" || fail "it ended at $size"
	done
	await_screen '^\? help .*S reverse$'
	! shows hidden || fail "hidden on a screen with room: $(screen)"
	eq "$("$TOOL" info -pid "$TARGET" | grep -c ' enabled' || :)" 0 "probes switched on unseen"
	await_screen '^> flood .* off +yes$'
	press q
	check_restored 0 "resizes"
}

test_ascii_and_no_colours() {
	open_terminal 90 24
	start_steady
	enter "export LC_ALL=C NO_COLOR=1"
	start_top -pid "$TARGET"
	await_screen '^> flood +(1\.0|9).*[_.:=+*#-]+ .* off +yes'
	await_screen 'hits/sv'
	screen | LC_ALL=C grep -v '[^ -~]' >/dev/null || fail "not ASCII: $(screen)"
	eq "$(screen | LC_ALL=C grep -c '[^ -~]' || :)" 0 "lines that are not ASCII"
	eq "$(tmux_do capture-pane -p -e | grep -cE $'\e\\[(3[0-7]|9[0-7])' || :)" 0 "lines in colour"
	press q
	check_restored 0 q
	enter "unset NO_COLOR; export LC_ALL=C.UTF-8"
	start_top -pid "$TARGET"
	wait_for 'tmux_do capture-pane -p -e | finds -E $'"'\e'"'"\\[(3[0-7]|9[0-7])"'
	press q
	check_restored 0 q
}

# ---- how it ends ------------------------------------------------------------------------------

test_exits_restore_the_terminal() {
	local signal
	open_terminal 80 24
	start_steady
	for signal in INT TERM HUP; do
		start_top -pid "$TARGET"
		kill -"$signal" "$VIEWER"
		check_restored 0 "SIG$signal"
		eq "$(<"$TMP/err")" "" "said after SIG$signal"
	done
	start_top -pid "$TARGET"
	press / C-c
	check_restored 0 "Ctrl-C"
	start_top -pid "$TARGET"
	kill -SEGV "$VIEWER"
	check_restored 139 "a crash"
	# Not at once if somebody looks at all links of the machine and so holds one of these.
	wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
}

# Ctrl-Z and fg; and a view that is ended, or sent to the background, while it is stopped.
test_suspends() {
	open_terminal 80 24
	start_steady
	enter "set +m; set -m" # job control
	enter "stty -g >'$TMP/before'; clear; '$TOOL' top -pid $TARGET 2>'$TMP/err'"
	await_screen '^up   pid'
	press C-z
	await_screen 'Stopped'
	VIEWER=$(pgrep -P "$(tmux_do list-panes -F '#{pane_pid}')")
	eval "$terminal_is_plain" || fail "the terminal while it is stopped: $(screen)"
	enter "stty -g >'$TMP/during'"
	wait_for '[[ -s $TMP/during ]]'
	eq "$(<"$TMP/during")" "$(<"$TMP/before")" "the terminal's settings while it is stopped"
	enter "clear; fg"
	await_screen '^up   pid'
	await_screen '^> flood '
	press C-z
	wait_for 'eval "$terminal_is_plain"'
	enter "clear; bg; echo it is back"
	await_screen '^it is back'
	# It has been continued, and stops by itself.
	wait_for 'grep -q "^State:.T" "/proc/$VIEWER/status"'
	enter "clear; jobs"
	await_screen 'Stopped'
	enter "fg"
	await_screen '^> flood '
	# Nobody can leave in order at this one.
	kill -STOP "$VIEWER"
	await_screen 'Stopped'
	enter "stty \$(cat '$TMP/before'); clear; fg"
	await_screen '^up   pid'
	press '?'
	await_screen '^any key: back'
	press x
	await_screen '^> flood '
	press C-z
	wait_for 'eval "$terminal_is_plain"'
	enter 'kill %1; wait; clear; jobs; echo none left; stty -g >$TMP/after'
	await_screen '^none left'
	wait_for '[[ -s $TMP/after ]]'
	eq "$(<"$TMP/after")" "$(<"$TMP/before")" "the terminal's settings at the end"
	# Not at once if somebody looks at all links of the machine and so holds one of these.
	wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
}

# Its terminal goes away.
test_hangup() {
	open_terminal 80 24
	start_steady
	start_top -pid "$TARGET"
	tmux_do kill-server
	wait_for 'has_ended "$VIEWER"'
	wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
}

test_sigkill_leaves_nothing() {
	open_terminal 80 24
	start_steady
	start_top -pid "$TARGET" --time work_start,work_stop
	[[ $(int3_count "$TARGET") -gt 0 ]] || fail "no int3 while it counts"
	kill -KILL "$VIEWER"
	wait_for '[[ $(int3_count "$TARGET") -eq 0 && $(raised_semaphores "$TARGET") -eq 0 ]]' 2
	quit_target
	eq "$TARGET_STATUS" 0 "status"
}

# ---- what it refuses --------------------------------------------------------------------------

# The view on a terminal of its own kind says one line and a hint, and sends no other byte.
refuses() { # STATUS TEXT TERM ARG...
	local want=$1 text=$2 term=$3 status=0
	shift 3
	script -qec "${term:+TERM=$term} '$TOOL' top $*" /dev/null </dev/null >"$TMP/out" || status=$?
	eq "$status" "$want" "status: $(<"$TMP/out")"
	grep -qE -- "$text" "$TMP/out" || fail "said: $(<"$TMP/out")"
	eq "$(grep -vc '^hint: ' "$TMP/out")" 1 "lines: $(<"$TMP/out")"
	eq "$(tr -d '\r' <"$TMP/out" | LC_ALL=C grep -c '[^ -~]' || :)" 0 "lines with control characters"
}

test_refusals() {
	need_counting
	need_command script tic
	cp "$O/tests/ocaml/steady" "$TMP"
	start_steady
	refuses 2 'TERM is dumb' dumb -pid "$TARGET"
	refuses 2 'unknown terminal type: TERM is nosuch' nosuch -pid "$TARGET"
	refuses 2 'TERM is not set' "'' " -pid "$TARGET"
	printf 'paper|prints and never looks back,\n\tam, cols#80, cr=\\r, ind=\\n,\n' >"$TMP/paper"
	tic -o "$TMP/terminfo" "$TMP/paper"
	refuses 2 'cannot position the cursor: TERM is paper' "paper TERMINFO=$TMP/terminfo" -pid "$TARGET"
	refuses 2 '-pid and --exe are mutually exclusive' xterm -pid "$TARGET" --exe "$STEADY"
	refuses 2 "'nosuch': no such probe" xterm -pid "$TARGET" --count=nosuch
	refuses 5 'pid 4194304' xterm -pid 4194304
	refuses 2 'filter' xterm -pid "$TARGET" "--filter 'arg0 >'"
	check_error 2 'standard input is not a terminal' top -pid "$TARGET"
	TERM=xterm script -qec "{ '$TOOL' top -pid $TARGET; echo status \$?; } | cat" /dev/null \
		</dev/null >"$TMP/out"
	grep -q 'standard output is not a terminal' "$TMP/out" || fail "said: $(<"$TMP/out")"
	grep -q '^status 2.$' "$TMP/out" || fail "$(<"$TMP/out")"
	"$TOOL" help top >"$TMP/out"
	grep -q '^usage: ocaml-probes top' "$TMP/out" || fail "help: $(<"$TMP/out")"
}

test_uses_without_site() {
	open_terminal 120 30
	start_target "$(own_copy "$O/tests/fixtures/v2")" --wait
	await_line ready
	start_top -pid "$TARGET"
	await_screen "^probe 'both': 1 of its 2 uses have no site; their hits are not counted \\(and 2 others\\)"
	press q
	wait_for '[[ -s $TMP/after ]]'
}

# The list of live words by site: its shares are those of the program.
test_memprof() {
	open_terminal 120 30
	need_program subject
	cp "$PROGRAM" "$TMP/subject"
	start_target "$TMP/subject" shares 0.005
	await_line ready
	start_top -pid "$TARGET" --memprof=0.5
	await_screen '^live words by site: [1-9][0-9]* alive of [1-9][0-9]* allocated since the start$'
	await_screen '^  Subject.most  subject.ml:[0-9]+ +(6[89]|7[0-2])(\.[0-9])?% +[1-9][0-9]* +[1-9][0-9]*$'
	await_screen '^  Subject.few  subject.ml:[0-9]+ +([89]|1[0-2])(\.[0-9]+)?% '
	eq "$(screen | sed -n 's/^  Subject\.\([a-z]*\) .*/\1/p' | paste -sd' ')" "most some few" "order"
	press q
	wait_for '[[ -s $TMP/after ]]'
	start_target "$TMP/subject" kinds
	await_line ready
	start_top -pid "$TARGET" --memprof=0.001
	await_screen '^  Subject.reversed  subject.ml:[0-9]+  via List.rev_append +[0-9.]+% '
	press q
	wait_for '[[ -s $TMP/after ]]'
	start_top -pid "$TARGET" --memprof=0.001 --leaf
	await_screen '^  List.rev_append  list.ml:[0-9]+ +[0-9.]+% '
	eq "$(screen | grep -c ' via ' || :)" 0 "rows with via"
	press q
	wait_for '[[ -s $TMP/after ]]'
	start_steady
	start_top -pid "$TARGET" --memprof
	await_screen "^memprof: pid $TARGET: is not linked with ocaml-probes.memprof; .ocaml-probes profile --alloc"
	press q
	wait_for '[[ -s $TMP/after ]]'
}

run_tests "$@"
