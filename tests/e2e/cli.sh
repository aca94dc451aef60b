#!/usr/bin/env bash
# The command line: every way to say what is to be switched, on one process or several, and every way
# to say it wrongly, which changes nothing.
#
# needs: fixtures serve link ocaml
# smoke: test_help test_did_you_mean
# takes: 40 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

NOBODY=65534
LOOP=$O/tests/ocaml/loop

start_loop() {
	start_target "${1:-$LOOP}"
	await_line ready
}

# What is on, e.g. "alpha gamma".
on() { # [PID]
	"$TOOL" info -pid "${1:-$TARGET}" | sed -n 's/ enabled$//p' | xargs
}

all_off() {
	"$TOOL" attach -pid "$TARGET" -disable-all
	eq "$(on)" "" "after -disable-all"
}

# ---- flags --------------------------------------------------------------------------------------

# Does `attach` with these arguments switch on what EXPECTED says? In all four ways of writing FLAG.
enables() { # EXPECTED FLAG VALUE
	local way
	for way in "-$2 $3" "--$2 $3" "-$2=$3" "--$2=$3"; do
		# shellcheck disable=SC2086 # two words are meant
		"$TOOL" attach -pid "$TARGET" $way
		eq "$(on)" "$1" "what $way enables"
		# shellcheck disable=SC2086
		"$TOOL" attach -pid "$TARGET" ${way/enable/disable}
		eq "$(on)" "" "what ${way/enable/disable} leaves on"
	done
}

test_both_spellings_of_every_action() {
	start_loop
	enables "alpha" enable alpha
	enables "alpha beta gamma" enable gamma,beta,alpha
	enables "alpha gamma" enable-pair gamma,alpha
	enables "alpha gamma" enable-regexp '.*a[lm]'
	enables "beta" enable-regexp 'b'
	enables "alpha beta" enable-regexp 'alp\|b'
	for flag in -enable-all --enable-all; do
		"$TOOL" attach -pid "$TARGET" "$flag"
		eq "$(on)" "alpha beta gamma" "$flag"
		"$TOOL" attach -pid "$TARGET" "${flag/enable/disable}"
		eq "$(on)" "" "${flag/enable/disable}"
	done
}

test_both_spellings_of_every_other_flag() {
	local flag
	cp "$LOOP" "$TMP/loop"
	start_loop "$TMP/loop"
	for flag in -f --f -force --force -atomically --atomically -gigatext --gigatext; do
		"$TOOL" attach "$flag" -pid "$TARGET" -enable alpha 2>"$TMP/err"
		eq "$(on)" "alpha" "with $flag"
		eq "$(<"$TMP/err")" "" "what $flag says"
		all_off
	done
	for flag in -v --v -verbose --verbose; do
		"$TOOL" attach -pid "$TARGET" -enable alpha "$flag" 2>"$TMP/err"
		matches "$(<"$TMP/err")" "^ocaml-probes: pid $TARGET: switched 1 probe: [0-9]+ writes?, [01] stops?$" "$flag"
		all_off
	done
	for flag in -q --q -quiet --quiet; do
		"$TOOL" attach -pid "$TARGET" -enable alpha "$flag"
		all_off
	done
	for flag in -atomically --atomically; do
		eq "$("$TOOL" info -pid "$TARGET" "$flag" | xargs)" \
			"alpha disabled beta disabled gamma disabled" "info $flag"
	done
	for flag in -exe --exe; do
		"$TOOL" attach "$flag" "$TMP/loop" -enable alpha
		eq "$(on)" "alpha" "$flag"
		all_off
	done
}

test_flags_repeat() {
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable alpha -enable beta,gamma
	eq "$(on)" "alpha beta gamma" "-enable twice"
	"$TOOL" attach -pid "$TARGET" -disable alpha -disable beta -enable-all 2>"$TMP/err" &&
		fail "two kinds of action were taken"
	eq "$(on)" "alpha beta gamma" "after an error"
	"$TOOL" attach -pid "$TARGET" -disable-regexp a -disable-regexp b -disable-regexp .
	eq "$(on)" "" "-disable-regexp three times"
	"$TOOL" attach -pid "$TARGET" -enable-regexp alp -enable-regexp .a
	eq "$(on)" "alpha gamma" "-enable-regexp twice"
	# Each probe once, however many expressions choose it; what is off stays off.
	"$TOOL" attach -pid "$TARGET" -disable-regexp . -disable-regexp a
	eq "$(on)" "" "once"
}

test_help() {
	local command flag status
	for command in attach info list trace; do
		for flag in -help --help -h; do
			"$TOOL" "$command" "$flag" >"$TMP/$flag"
			cmp "$TMP/$flag" <("$TOOL" help "$command")
		done
		matches "$(<"$TMP/-h")" "usage: ocaml-probes $command " "help $command"
	done
	for flag in pid exe enable disable enable-pair disable-pair enable-regexp disable-regexp \
		enable-all disable-all force atomically gigatext count for interval json verbose quiet; do
		"$TOOL" help attach | finds -E -- "(^|[ [-])-$flag\\b" || fail "help attach has no -$flag"
	done
	for command in help version; do
		cmp <("$TOOL" help "$command") <("$TOOL" help)
	done
	matches "$("$TOOL" version)" '^[0-9]+\.[0-9]+\.[0-9]+$'
	eq "$("$TOOL" attach --version)" "$("$TOOL" version)" "of a command"
	status=0
	"$TOOL" helo >"$TMP/out" 2>"$TMP/err" || status=$?
	eq "$status $(<"$TMP/err")" "2 ocaml-probes: 'helo': no such command
hint: did you mean 'help'?"
}

# Does --help fit a terminal of 80 columns, with one to spare?
fits_terminal() { # PROGRAM [COMMAND]
	"$@" --help >"$TMP/help"
	[[ -s $TMP/help ]] || fail "$* --help says nothing"
	eq "$(grep -nE '.{80}' "$TMP/help" || :)" "" "what $* --help has beyond column 79, and nothing,"
}

test_help_fits_a_terminal() {
	local command commands
	commands=$("$TOOL" help | sed -nE 's/^  ([a-z]+) .*/\1/p' | grep -vxE 'help|version' | sort | xargs)
	matches "$commands" "^annotate attach .* serve top trace$" "the commands"
	fits_terminal "$TOOL"
	for command in $commands; do
		fits_terminal "$TOOL" "$command"
		matches "$(<"$TMP/help")" "usage: ocaml-probes $command " "$command --help"
	done
	fits_terminal "$O/ocaml-probes-link"
}

# ---- mistakes -----------------------------------------------------------------------------------

hints() { # HINT ARG...
	local hint=$1
	shift
	check_error 2 "no such" "$@"
	eq "$(sed -n 's/^hint: //p' "$TMP/err")" "$hint" "hint of $*"
}

test_mistakes_change_nothing() {
	local before
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable beta
	before=$(memory_of "$TARGET")
	attach=(attach -pid "$TARGET")
	check_error 2 "'alpha': named twice" "${attach[@]}" -enable alpha,beta,alpha
	check_error 2 "'alpha': named twice" "${attach[@]}" -enable-pair alpha,beta -enable-pair gamma,alpha
	check_error 2 "enabled and disabled" "${attach[@]}" -enable alpha -disable gamma,alpha
	check_error 2 "not two names" "${attach[@]}" -enable-pair alpha
	check_error 2 "not two names" "${attach[@]}" -enable-pair alpha,beta,gamma
	check_error 2 "same name twice" "${attach[@]}" -enable-pair alpha,alpha
	check_error 2 "'nosuch': no such probe" "${attach[@]}" -enable-pair alpha,nosuch
	check_error 2 "'nosuch': no such probe" "${attach[@]}" -enable-pair nosuch,alpha
	check_error 1 "'alpha': is disabled already" "${attach[@]}" -disable-pair beta,alpha
	check_error 2 "'lpha': matches no probe" "${attach[@]}" -enable-regexp lpha
	check_error 2 "'x': matches no probe" "${attach[@]}" -enable-regexp a -enable-regexp x
	check_error 2 "without its" "${attach[@]}" -enable-regexp 'a\('
	check_error 2 "without its" "${attach[@]}" -enable-regexp 'a\)'
	check_error 2 "without its" "${attach[@]}" -disable-regexp '[a'
	check_error 2 "given twice" "${attach[@]}" -exe a -exe b -enable alpha
	check_error 2 "given twice" "${attach[@]}" -pid "$TARGET" -enable alpha
	check_error 2 "require an action" "${attach[@]}" --count -force
	check_error 2 "mutually exclusive" "${attach[@]}" --exe "$O/tests/ocaml/loop" --count
	check_error 2 "mutually exclusive" "${attach[@]}" --count --by-site --by-thread
	check_error 2 "require --count" "${attach[@]}" --time alpha,beta --by-site
	check_error 2 "requires --time" "${attach[@]}" --count --depth 3
	check_error 2 "from 1 to 32" "${attach[@]}" --time alpha,beta --depth 33
	check_error 2 "not two names" "${attach[@]}" --time alpha
	check_error 2 "same probe" "${attach[@]}" --time alpha,alpha
	check_error 2 "given twice" "${attach[@]}" --time alpha,beta --time alpha,beta
	check_error 2 "did you mean 'alpha'" "${attach[@]}" --time alhpa,beta
	check_error 2 "no such probe" "${attach[@]}" --count=alpha,nosuch
	check_error 2 "named twice" "${attach[@]}" --count=alpha,alpha
	check_error 2 "matches no probe" "${attach[@]}" --count='zz.*'
	check_error 2 "neither a share" "${attach[@]}" --count --budget nan
	check_error 2 "mutually exclusive" "${attach[@]}" --count --json --csv
	check_error 2 "required" attach -enable alpha
	check_error 2 "No such file" attach --exe "$TMP/nosuch" -enable alpha
	check_error 5 "no process runs it" attach --exe "$O/tests/ocaml/places" -enable alpha
	check_error 2 "takes one process" info -pid "$TARGET" -pid 1
	check_error 2 "no such option" info -pid "$TARGET" -force
	check_error 2 "no such option" trace -prog "$LOOP" -pid 1
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

test_one_kind_of_action() {
	local before first second
	local -A value=([enable]=alpha [disable]=gamma [enable-pair]="alpha,gamma"
		[disable-pair]="alpha,gamma" [enable-regexp]=a [disable-regexp]=g [enable-all]=""
		[disable-all]="")
	start_loop
	"$TOOL" attach -pid "$TARGET" -enable beta,gamma
	before=$(memory_of "$TARGET")
	for first in "${!value[@]}"; do
		for second in "${!value[@]}"; do
			[[ $first$second != enabledisable && $first$second != disableenable &&
				$first != "$second" ]] || continue
			# shellcheck disable=SC2086 # -enable-all has no value
			check_error 2 "^ocaml-probes: attach: -$first and -$second cannot be combined" attach \
				-pid "$TARGET" -$first ${value[$first]} -$second ${value[$second]}
		done
	done
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
	"$TOOL" attach -pid "$TARGET" -enable alpha -disable gamma
	eq "$(on)" "alpha beta" "-enable with -disable"
}

test_did_you_mean() {
	start_loop
	hints "did you mean 'alpha'?" attach -pid "$TARGET" -enable aplha
	hints "did you mean 'gamma'?" attach -pid "$TARGET" -enable-pair alpha,gama
	hints "did you mean 'beta'?" attach -pid "$TARGET" -enable BETTA
	hints "" attach -pid "$TARGET" -enable something
	hints "did you mean '-enable'?" attach -pid "$TARGET" -enabel alpha
	hints "did you mean '-disable-regexp'?" attach -pid "$TARGET" --disable-regxp=alpha
	hints "did you mean '-pid'?" info -pd "$TARGET"
	hints "did you mean '-atomically'?" info -pid "$TARGET" -atomicaly
	# Not what another command takes.
	hints "ocaml-probes help info" info -pid "$TARGET" -disable-all
	hints "did you mean 'attach'?" atach
	hints "did you mean 'trace'?" trcae -prog x
	hints "ocaml-probes help" something
}

# ---- what Core.Command has ----------------------------------------------------------------------

test_words_of_help() {
	local way page
	"$TOOL" help >"$TMP/help"
	"$TOOL" help attach >"$TMP/attach"
	for way in '-?' 'help -?' 'version -?' 'help vers'; do
		# shellcheck disable=SC2086 # words
		holds cmp "$TMP/help" <("$TOOL" $way)
	done
	for way in 'attach -?' '-? attach' 'help -recursive attach' 'help attach -flags -expand-dots' 'help att'; do
		# shellcheck disable=SC2086
		holds cmp "$TMP/attach" <("$TOOL" $way)
	done
	"$TOOL" help -recursive >"$TMP/list"
	eq "$(sed -nE 's/^  ([a-z]+) .*/\1/p' "$TMP/list" | sort | xargs)" \
		"$(sed -nE 's/^  ([a-z]+) .*/\1/p' "$TMP/help" | sort | xargs)" "the commands"
	eq "$(grep -nE '.{80}' "$TMP/list" || :)" "" "what is beyond column 79, and nothing,"
	# Each option of each command, as its own help has them.
	"$TOOL" help -recursive -flags >"$TMP/dots"
	"$TOOL" help -flags -expand-dots >"$TMP/names"
	eq "$(grep -c '^  \. -' "$TMP/dots")" "$(grep -c '^  [a-z]* -' "$TMP/names")" "options"
	for page in attach doctor serve; do
		eq "$(sed -nE "s/^  $page (-[^ []*).*/\1/p" "$TMP/names" | sort | xargs)" \
			"$("$TOOL" help "$page" | sed -nE 's/^  (-.*[^ ])(  .*|$)/\1/p' | sed 's/  .*//; s/, /\n/g' |
				sed -E 's/[ [].*//' | sort | xargs)" "the options of $page"
	done
	check_error 2 "^ocaml-probes: help: 'extra': unexpected" help attach extra
	check_error 2 "^ocaml-probes: help: 'info': unexpected" help -flags attach info
	check_error 2 "^ocaml-probes: help: '-nosuch': no such option" help -nosuch
	check_error 2 "^ocaml-probes: 'nosuch': no such command" help nosuch
	check_error 2 "^ocaml-probes: 're': ambiguous command: read, record, report" help re
}

test_words_of_version() {
	local way version
	version=$("$TOOL" version)
	for way in -version 'version -version' 'vers' 'attach -versi'; do
		# shellcheck disable=SC2086 # words
		eq "$("$TOOL" $way)" "$version" "$way"
	done
	for way in -build-info --build-info 'version -build-info'; do
		# shellcheck disable=SC2086
		matches "$("$TOOL" $way)" "^version: $version"$'\n'"compiler: [^ ]+ .*"$'\n'"C library: glibc 2\.[0-9]+$" "$way"
	done
	check_error 2 "^ocaml-probes: version: 'extra': unexpected" version extra
	check_error 2 "^ocaml-probes: version: 'extra': unexpected" version -build-info extra
	check_error 2 "'-build-info': no such option" attach -build-info
}

test_abbreviations() {
	local before
	start_loop
	"$TOOL" att -pid "$TARGET" -enable-r 'al'
	eq "$(on)" "alpha" "-enable-r"
	"$TOOL" at -pi "$TARGET" -disable-re=a -at -verb 2>"$TMP/err"
	eq "$(on)" "" "-disable-re="
	matches "$(<"$TMP/err")" "switched 1 probe" "-verb"
	eq "$("$TOOL" inf --pi="$TARGET" -js | jq -r '.probes[0].name')" alpha "inf -js"
	# A full name means itself, whatever begins with it.
	"$TOOL" attach -pid "$TARGET" -enable beta
	eq "$(on)" "beta" "-enable"
	before=$(memory_of "$TARGET")
	check_error 2 "^ocaml-probes: attach: '-en': ambiguous option: -enable, -enable-all, -enable-pair, -enable-regexp, --engine" \
		attach -pid "$TARGET" -en alpha
	check_error 2 "^ocaml-probes: attach: '--disable-': ambiguous option: -disable-all, -disable-pair, -disable-regexp" \
		attach -pid "$TARGET" --disable-=alpha
	check_error 2 "^ocaml-probes: 'a': ambiguous command: annotate, attach" a -pid "$TARGET" -enable alpha
	check_error 2 "^ocaml-probes: attach: '-enable-nosuch': no such option" attach -pid "$TARGET" -enable-nosuch
	check_error 2 "^ocaml-probes: attach: '-for': requires a value" attach -pid "$TARGET" --count -for
	check_error 2 "^ocaml-probes: attach: '--inter': requires a value|'--interval': requires a value" \
		attach -pid "$TARGET" --count --inter
	# Values, and words after --, are no options.
	check_error 2 "'-disable-a': no such probe" attach -pid "$TARGET" -enable -disable-a
	eq "$(memory_of "$TARGET")" "$before" "text and semaphores"
}

# ---- progress -----------------------------------------------------------------------------------

# Run the tool on a terminal; its file /proc/TARGET/maps takes two seconds to open. What it says is in $TMP/shown.
slowly() { # ARG...
	script -qec "strace -f -qq -o /dev/null -P /proc/$TARGET/maps -e trace=openat \
		-e inject=openat:delay_enter=2000000:when=1 $TOOL $*" /dev/null >"$TMP/shown"
}

# What takes long says so on a terminal, at once; the line is erased before the data.
test_progress() {
	local command doing progress data seen
	need_root
	need_command strace script
	start_loop "$(own_copy "$LOOP")"
	for command in "attach -pid $TARGET --count --for 50ms" "attach -pid $TARGET -enable alpha" \
		"functions -pid $TARGET Loop" "profile -pid $TARGET --for 50ms" "gc -pid $TARGET --for 50ms" \
		"info -pid $TARGET" "memprof -pid $TARGET --for 50ms" list; do
		slowly "$command" || [[ $command = memprof* ]]
		seen=$(<"$TMP/shown")
		doing="reading pid $TARGET"
		[[ $command != list ]] || doing="looking at processes"
		matches "$seen" $'\r\e\\[K'"$doing: 0\\.[5-9] s" "$command"
		# Behind the last line of progress comes the code that erases it.
		progress=${seen##*"$doing": }
		matches "$progress" $'^[0-9.]+ s\r\e\\[K' "the end of the progress of $command"
		data=${progress#*$'\e[K'}
		[[ $command != functions* ]] || matches "$data" "Loop" "$command"
		[[ $command != gc* ]] || matches "$data" "allocated words" "$command"
		[[ $command != info* ]] || matches "$data" "alpha" "$command"
		[[ $command != memprof* ]] || matches "$data" "^ocaml-probes: .*library" "$command"
		[[ $command != list ]] || matches "$data" "PROBES ENABLED EXE"$'.*\n'" *$TARGET " "$command"
		[[ $command != "attach "*count* ]] || matches "$data" "alpha +[0-9]+" "$command"
	done
	"$TOOL" attach -pid "$TARGET" -disable alpha
	# Neither with -quiet, nor for a script.
	slowly "attach -pid $TARGET --count --for 50ms -q"
	! has_text "$TMP/shown" "reading" || fail "with -q: $(<"$TMP/shown")"
	slowly "attach -pid $TARGET --count --for 50ms 2>$TMP/err"
	! has_text "$TMP/err" "reading" || fail "in a file: $(<"$TMP/err")"
	# An error ends the progress, too.
	slowly "attach -pid $TARGET --count=nosuch" || :
	matches "$(<"$TMP/shown")" $'\r\e\\[Kocaml-probes: .*no such probe'
	eq "$("$TOOL" doctor -pid "$TARGET")$(on)" "" "what is left"
}

# ---- processes and programs, as they are typed --------------------------------------------------

# Every way to name a process, in the commands that switch and in those that look.
test_ways_to_name_a_process() {
	local way program
	program=$(own_copy "$LOOP")
	start_loop "$program"
	for way in "-p $TARGET" "--p $TARGET" "-p=$TARGET" "-pid $TARGET" "$TARGET" "--exe $program" "-prog $program"; do
		# shellcheck disable=SC2086 # words are meant
		"$TOOL" attach $way -enable alpha
		# shellcheck disable=SC2086
		eq "$("$TOOL" info $way | xargs)" "alpha enabled beta disabled gamma disabled" "info $way"
		# shellcheck disable=SC2086
		"$TOOL" attach -disable alpha $way
		# shellcheck disable=SC2086
		eq "$("$TOOL" doctor $way)" "" "doctor $way"
		# shellcheck disable=SC2086
		"$TOOL" functions $way 'Loop\.work' | finds Loop.work || fail "functions $way"
		# shellcheck disable=SC2086
		"$TOOL" bpftrace $way count alpha | finds '@\[probe\] = count()' || fail "bpftrace $way"
		# shellcheck disable=SC2086
		"$TOOL" gc $way --for 10ms | finds 'minor collections' || fail "gc $way"
	done
	for way in --exe -prog; do
		eq "$("$TOOL" list $way "$program" | xargs)" "alpha beta gamma" "list $way"
		eq "$("$TOOL" trace $way "$O/tests/ocaml/counted" -enable nosuch 2>&1 | head -n 1)" \
			"ocaml-probes: probe 'nosuch': no such probe in $O/tests/ocaml/counted" "trace $way"
	done
}

test_numbers_alone() {
	local first second
	start_loop && first=$TARGET
	start_loop && second=$TARGET
	"$TOOL" attach "$first" -enable alpha "$second"
	eq "$(on "$first")/$(on "$second")" "alpha/alpha" "two numbers"
	check_error 2 "^ocaml-probes: attach: $first: given twice" attach "$first" -p "$second" "$first" -enable beta
	check_error 2 "takes one process" info "$first" "$second"
	check_error 2 "'0': not a process id" info 0
	check_error 2 "'99999999999': not a process id" info 99999999999
	check_error 2 "-p 'x': not a process id" info -p x
	check_error 5 "pid 4194304: no such process" attach 4194304 -enable beta
	check_error 2 "'12x': unexpected" info 12x
	check_error 2 "'$first': unexpected" list "$first"
	check_error 2 "'$first': unexpected" trace -prog "$LOOP" "$first" -enable alpha
	# Where words have a meaning, a process that is named otherwise leaves it to them.
	check_error 2 "'42': matches no OCaml function" functions "$first" 42
	check_error 2 "'42': matches no OCaml function" functions 42 -p "$first"
	check_error 2 "'42': matches no OCaml function" functions -prog "$LOOP" 42
	check_error 2 "'42': no such probe" bpftrace "$first" count 42
	check_error 2 "41: No such file" profile --diff 41 42
	check_error 2 "-pid: not where two files are compared" profile --diff 41 42 43
	check_error 2 "'42'" read 42
}

# A command that works on one process takes the file if one process runs it.
test_a_file_that_several_processes_run() {
	local first second third
	start_three
	check_error 2 "^ocaml-probes: $TMP/loop: 3 processes run it: $first, $second, $third$" info --exe "$TMP/loop"
	eq "$(sed -n 's/^hint: //p' "$TMP/err")" "choose one: -pid $first"
	check_error 2 "mutually exclusive" doctor --exe "$TMP/loop" "$first"
	check_error 2 "mutually exclusive" functions -prog "$TMP/loop" -pid "$first"
	check_error 2 "given twice" list -prog a --exe b
	check_error 5 "no process runs it" gc --exe "$O/tests/ocaml/places"
}

test_names_without_an_equals_sign() {
	need_root
	own_copy "$LOOP" >/dev/null
	start_loop "$TMP/loop"
	counted_rows() { "$TOOL" attach "$@" --for 50ms -q | sed -nE 's/^([a-z]+) +[0-9]+ .*/\1/p' | xargs; }
	eq "$(counted_rows -p "$TARGET" --count alpha)" "alpha"
	eq "$(counted_rows --count alpha,gamma "$TARGET")" "alpha gamma"
	eq "$(counted_rows --count 'al.*\|be.*' "$TARGET")" "alpha beta"
	eq "$(counted_rows --count "$TARGET")" "alpha beta gamma" "a number is the process"
	eq "$(counted_rows "$TARGET" --count --all)" "alpha beta gamma" "an option follows"
	check_error 2 "'17': no such probe" attach "$TARGET" --count=17
	check_error 2 "did you mean 'alpha'" attach "$TARGET" --count alhpa
	check_error 2 "'20': a number alone is a process id; write --stack=20" attach "$TARGET" --count --stack 20
	check_error 2 "--stack 'x': not a number" attach "$TARGET" --count --stack x
	eq "$("$TOOL" doctor "$TARGET" --fix complete)" "" "--fix complete"
	check_error 2 "not undo or complete" doctor "$TARGET" --fix everything
}

# ---- order and force ----------------------------------------------------------------------------

# The addresses that the tool writes one byte to, a line each.
opcode_writes() { # ARG...
	strace -f -qq -e trace=pwrite64 -e signal=none -o "$TMP/strace" "$TOOL" attach -pid "$TARGET" "$@"
	sed -n 's/.*pwrite64([0-9]*, ".*", 1, \([0-9]*\)).*/\1/p' "$TMP/strace"
}

opcode_of() { # NAME
	readelf -nW "$LOOP" | awk -v name="$1" '$1 == "Name:" { found = $2 == name }
		found && $1 == "Location:" { sub(",", "", $2); print $2 }' | while read -r site; do
		echo $(($(bias_of "$TARGET") + site + 1))
	done
}

test_a_pair_is_never_half_seen() {
	need_command strace
	start_loop
	eq "$(opcode_writes -enable-pair alpha,gamma)" "$(opcode_of gamma; opcode_of alpha)" "enabling"
	eq "$(opcode_writes -disable-pair alpha,gamma)" "$(opcode_of alpha; opcode_of gamma)" "disabling"
	eq "$(opcode_writes -enable-pair gamma,alpha)" "$(opcode_of alpha; opcode_of gamma)" "enabling"
	eq "$(on)" "alpha gamma"
}

poke() { # ADDRESS BYTES
	printf '%b' "$2" | dd of="/proc/$TARGET/mem" bs=1 seek="$1" conv=notrunc status=none
}

test_force_sets_outright() {
	local before site
	start_loop
	before=$(memory_of "$TARGET")
	# Of three sites of beta one is on, and no semaphore.
	site=$(opcode_of beta | tail -n 1)
	poke "$site" '\xe8'
	matches "$("$TOOL" info -pid "$TARGET" | xargs)" "beta mixed"
	"$TOOL" attach -pid "$TARGET" -enable beta -force
	eq "$(on)" "beta" "enabled by force"
	"$TOOL" attach -pid "$TARGET" -disable beta
	eq "$(memory_of "$TARGET")" "$before" "after one disable"
	# A count of several is gone at once; what is off is no error.
	"$TOOL" attach -pid "$TARGET" -enable-all
	"$TOOL" attach -pid "$TARGET" -enable alpha
	"$TOOL" attach -pid "$TARGET" -enable alpha
	"$TOOL" attach -pid "$TARGET" -disable alpha -f
	"$TOOL" attach -pid "$TARGET" -disable alpha,beta,gamma --force
	"$TOOL" attach -pid "$TARGET" -disable-all --f
	eq "$(memory_of "$TARGET")" "$before" "disabled by force"
	poke "$site" '\xe8'
	"$TOOL" attach -pid "$TARGET" -disable-regexp beta -force
	eq "$(memory_of "$TARGET")" "$before" "repaired by force"
}

# ---- several processes --------------------------------------------------------------------------

# Three instances of a program that nobody else runs.
start_three() {
	cp "$LOOP" "$TMP/loop"
	start_loop "$TMP/loop" && first=$TARGET
	start_loop "$TMP/loop" && second=$TARGET
	start_loop "$TMP/loop" && third=$TARGET
}

test_several_processes() {
	local first second third
	start_three
	"$TOOL" attach -pid "$first" --pid "$second" -enable alpha
	eq "$(on "$first")/$(on "$second")/$(on "$third")" "alpha/alpha/"
	"$TOOL" attach --exe "$TMP/loop" -enable beta
	eq "$(on "$first")/$(on "$second")/$(on "$third")" "alpha beta/alpha beta/beta"
	# One that is named as well is switched once.
	"$TOOL" attach -pid "$third" --exe "$TMP/loop" -disable beta
	eq "$(on "$first")/$(on "$second")/$(on "$third")" "alpha/alpha/"
}

test_exe_is_a_file_and_not_a_name() {
	local first second
	cp "$LOOP" "$TMP/prog"
	start_loop "$TMP/prog" && first=$TARGET
	mkdir "$TMP/elsewhere"
	mv "$TMP/prog" "$TMP/elsewhere/renamed"
	cp "$LOOP" "$TMP/prog"
	start_loop "$TMP/prog" && second=$TARGET
	ln -s prog "$TMP/link"
	"$TOOL" attach --exe "$TMP/link" -enable alpha
	"$TOOL" attach --exe "$TMP/elsewhere/renamed" -enable beta
	eq "$(on "$first")/$(on "$second")" "beta/alpha"
}

# All are verified before the first is changed: a mistake in one changes none.
test_several_or_none() {
	local first second before other
	start_loop && first=$TARGET
	start_loop && second=$TARGET
	"$TOOL" attach -pid "$second" -enable alpha
	before=$(memory_of "$first")$(memory_of "$second")
	check_error 1 "^ocaml-probes: pid $first: probe 'alpha': is disabled already" \
		attach -pid "$second" -pid "$first" -disable alpha
	start_target "$O/tests/ocaml/counted" 10 1 && other=$TARGET
	await_line ready
	check_error 2 "^ocaml-probes: pid $other: probe 'beta': no such probe" \
		attach -pid "$first" -pid "$other" -enable beta
	check_error 5 "^ocaml-probes: pid 4194304: no such process" \
		attach -pid "$first" -pid 4194304 -enable beta
	check_error 2 "^ocaml-probes: pid $$: .*has no OCaml probes" attach -pid "$first" -pid $$ -enable beta
	eq "$(memory_of "$first")$(memory_of "$second")" "$before" "text and semaphores"
}

# What shows only when it is tried: that one is named, the others are switched.
test_one_of_several_fails() {
	local first second third status=0
	need_command gdb
	start_three
	gdb -q -nx -batch -p "$second" -ex 'shell sleep 1000' >"$TMP/gdb" 2>&1 &
	wait_for '! grep -q "TracerPid:.0$" "/proc/'"$second"'/status"'
	"$TOOL" attach --exe "$TMP/loop" -enable alpha 2>"$TMP/err" || status=$?
	eq "$status" 6 "status"
	eq "$(grep -c "^ocaml-probes: pid $second .*: is being traced by pid" "$TMP/err")" 1 "$(<"$TMP/err")"
	eq "$(tail -n 1 "$TMP/err")" \
		"ocaml-probes: 2 of 3 processes switched; the others are named above"
	eq "$(on "$first")/$(on "$second")/$(on "$third")" "alpha//alpha"
}

test_processes_of_somebody_else() {
	local status=0 mine
	need_root
	need_command setpriv
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$TMP"
	cp "$LOOP" "$TMP/loop_of_$$"
	as_nobody=(setpriv "--reuid=$NOBODY" "--regid=$NOBODY" --clear-groups --bounding-set=-all --inh-caps=-all)
	start_loop "$TMP/loop_of_$$"
	"${as_nobody[@]}" "$TMP/ocaml-probes" attach --exe "$TMP/loop_of_$$" -enable alpha 2>"$TMP/err" || status=$?
	eq "$status" 5 "status: $(<"$TMP/err")"
	matches "$(<"$TMP/err")" "no process runs it"
	matches "$(<"$TMP/err")" "hint: 1 process that may run it may not be inspected: run as its user"
	start_target "${as_nobody[@]}" "$TMP/loop_of_$$" && mine=$TARGET
	await_line ready
	"${as_nobody[@]}" "$TMP/ocaml-probes" attach --exe "$TMP/loop_of_$$" -enable alpha 2>"$TMP/err"
	matches "$(<"$TMP/err")" "warning: pid [0-9]+ \(loop_of_$$\): left out, it may not be inspected"
	eq "$(on "$mine")" "alpha"
	# One that has ended, and that its parent has not waited for, runs nothing.
	start_zombie "$TMP/loop_of_$$"
	eq "$(<"/proc/$ZOMBIE/comm")" "loop_of_$$"
	"${as_nobody[@]}" "$TMP/ocaml-probes" attach --exe "$TMP/loop_of_$$" -disable alpha 2>"$TMP/err"
	eq "$(grep -c "left out" "$TMP/err")" 1 "$(<"$TMP/err")"
	eq "$(on "$mine")" ""
}

# Measuring looks for the processes as well: it is one warning all the same.
test_measured_processes_of_somebody_else() {
	local hidden caps=-all,+bpf,+perfmon
	need_root
	need_command setpriv
	[[ -e /sys/fs/bpf ]] || skip "the kernel has no BPF"
	chmod 755 "$TMP" "$(dirname "$TMP")"
	cp "$TOOL" "$TMP"
	cp "$LOOP" "$TMP/measured_$$"
	start_loop "$TMP/measured_$$"
	hidden=$TARGET
	start_target setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups "$TMP/measured_$$"
	await_line ready
	setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --inh-caps=$caps --ambient-caps=$caps \
		--bounding-set=$caps "$TMP/ocaml-probes" attach --exe "$TMP/measured_$$" --count --for 50ms >"$TMP/out" 2>"$TMP/err"
	eq "$(grep "left out" "$TMP/err")" "ocaml-probes: warning: pid $hidden (measured_$$): left out, it may not be inspected"
	matches "$(<"$TMP/err")" "counting [0-9]+ probes \\([0-9]+ sites\\) of every process that runs it"
}

# ---- trace --------------------------------------------------------------------------------------

# What `counted` says of the handlers that ran, when started by `trace` with these actions.
traced() { # ACTION...
	printf 'go\nquit\n' | "$TOOL" trace -prog "$O/tests/ocaml/counted" "$@" -- 10 1 >"$TMP/run"
	wait_for 'grep -q "^# in_loop was seen" "$TMP/run"' 20
	sed -n 's/ handler=\([0-9]*\) .*/ \1/p' "$TMP/run" | awk '$2 != 0 { print $1 }' | xargs
}

test_trace_takes_the_same_actions() {
	eq "$(traced -enable-pair in_loop,tail | tr ' ' '\n' | sort | xargs)" "in_loop tail" "a pair"
	eq "$(traced --enable-regexp='ta\|in_l' | tr ' ' '\n' | sort | xargs)" "in_loop tail" "an expression"
	eq "$(traced -enable-regexp ta -gigatext)" "tail" "-gigatext"
	eq "$(traced -disable-all)" "" "-disable-all"
	eq "$(traced -disable-regexp nosuch)" "" "-disable-regexp"
	eq "$(traced -disable-pair nosuch,neither)" "" "-disable-pair"
	check_error 2 "did you mean 'tail'|no such probe" trace -prog "$O/tests/ocaml/counted" -enable tali
	check_error 2 "matches no probe" trace -prog "$O/tests/ocaml/counted" -enable-regexp xyz
	check_error 2 "cannot be combined" trace -prog "$O/tests/ocaml/counted" -enable tail -enable-all
}

run_tests "$@"
