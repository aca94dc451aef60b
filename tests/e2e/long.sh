#!/usr/bin/env bash
# tests/long: parts are resumed, cut, and counted, for one commit; the plan of `make check` leaves long scripts out.
#
# needs: tool
. "$(dirname "$0")/lib.sh"
unset MINUTES AGAIN CI ORDER WORKERS

# A repository with tests/long and a part of the steps `NAME COMMAND` on stdin.
make_part() {
	REPO=$TMP/repo
	mkdir -p "$REPO/tests" "$TMP/build"
	cp "$ROOT/tests/long" "$REPO/tests"
	{
		printf 'import collections\nStep = collections.namedtuple("Step", "name command load", defaults=[0])\n'
		printf 'def steps_of(part):\n    return [\n'
		while read -r name command; do printf '        Step("%s", """%s """),\n' "$name" "${command//\\/\\\\}"; done
		printf '    ]\nPARTS = {"some": None}\n'
	} >"$REPO/tests/parts.py"
	git -C "$REPO" init -q
	commit first
}

commit() { # TITLE
	git -C "$REPO" add -A
	git -C "$REPO" -c user.name=a -c user.email=a@b commit -qm "$1" --allow-empty
}

# Sets STATUS and LINES, the seconds of steps left out.
run_part() { # [SETTING...]
	STATUS=0
	LINES=$(env "$@" "$REPO/tests/long" "$TMP/build" some | sed -E 's/, [0-9]+ s(: see.*)?$//') || STATUS=$?
}

table() {
	STATUS=0
	LINES=$("$REPO/tests/long" "$TMP/build" | sed -E 's/ +/ /g; s/20..-..-.. ..:../DATE/; s/[0-9a-f]{12}/COMMIT/') || STATUS=$?
}

test_finished_steps_do_not_run_again() {
	make_part <<-END
		one echo "3 passed, 0 failed, 1 skipped"; echo x >>$TMP/ran
		two test -e $TMP/mended
	END
	run_part
	eq "$STATUS $LINES" "1 ok   one: 3 passed, 0 failed, 1 skipped
FAIL two: 0 passed, 1 failed, 0 skipped
3 passed, 1 failed, 1 skipped"
	run_part
	eq "$STATUS $LINES" "1 3 passed, 1 failed, 1 skipped" "a run with nothing to do"
	touch "$TMP/mended"
	run_part AGAIN=failed
	eq "$STATUS $LINES" "0 ok   two: 1 passed, 0 failed, 0 skipped
4 passed, 0 failed, 1 skipped"
	run_part AGAIN=1
	eq "$STATUS $(wc -l <"$TMP/ran")" "0 2" "runs of the first step"
	# Another commit has no results, and neither have changes that are not committed.
	echo '#' >>"$REPO/tests/parts.py"
	run_part
	eq "$(wc -l <"$TMP/ran")" 3
	commit second
	run_part
	eq "$(wc -l <"$TMP/ran")" 4
}

test_a_part_that_was_cut_goes_on() {
	make_part <<-END
		one echo x >>$TMP/ran
		two touch $TMP/waits; until [[ -e $TMP/mended ]]; do sleep 0.05; done
		three true
	END
	env "$REPO/tests/long" "$TMP/build" some >"$TMP/out" &
	wait_for '[[ -e $TMP/waits ]]'
	kill $!
	wait $! && fail "a part that was terminated has passed"
	eq "$(cut -f2 "$TMP/build/long/some/results")" one "steps with results"
	table
	eq "$STATUS $(sed -n 2p <<<"$LINES")" "1 some not finished 1/3 1 0 0 0 min DATE COMMIT"
	run_part MINUTES=0
	matches "$STATUS $LINES" "^1 # to be continued .*: two three
1 passed, 0 failed, 0 skipped$"
	touch "$TMP/mended"
	run_part
	eq "$STATUS $LINES" "0 ok   two: 1 passed, 0 failed, 0 skipped
ok   three: 1 passed, 0 failed, 0 skipped
3 passed, 0 failed, 0 skipped"
	eq "$(wc -l <"$TMP/ran")" 1 "runs of the first step"
}

test_the_table_says_what_is_missing() {
	make_part <<<'one echo "2 passed, 0 failed, 0 skipped"'
	table
	eq "$STATUS $(tail -n 1 <<<"$LINES")" "1 for COMMIT, missing: some"
	run_part
	table
	eq "$STATUS $(tail -n 3 <<<"$LINES")" "0 some passed 1/1 2 0 0 0 min DATE COMMIT

COMMIT has passed all parts"
	commit second
	table
	eq "$STATUS $(tail -n 3 <<<"$LINES")" "1 some of another commit 1/1 2 0 0 0 min DATE COMMIT

for COMMIT, missing: some"
}

# A step that says "0 failed" and fails, one without a case, and one that leaves a process.
test_no_step_passes_by_its_words_alone() {
	make_part <<-END
		liar echo "5 passed, 0 failed, 0 skipped"; exit 3
		lacks echo "could not run" | lacks "could not run"
		leaves sleep 1000 & echo \$! >$TMP/left
	END
	run_part
	eq "$STATUS $LINES" "1 FAIL liar: 5 passed, 1 failed, 0 skipped
FAIL lacks: 0 passed, 1 failed, 0 skipped
ok   leaves: 1 passed, 0 failed, 0 skipped
6 passed, 2 failed, 0 skipped"
	wait_for 'has_ended "$(<"$TMP/left")"'
	holds has_ended "$(<"$TMP/left")"
}

# Every part has steps, whose names are those of files; a script is in the check or in a part.
test_the_parts() {
	local part long
	for part in compilers kills soak statistics fuzz builds packages load mutants; do
		"$ROOT/tests/long" --list $part >"$TMP/steps"
		holds test -s "$TMP/steps"
		eq "$(cut -f1 "$TMP/steps" | sort | uniq -d)$(cut -f1 "$TMP/steps" | grep -vxE '[A-Za-z0-9._+-]+' || :)" ""
	done
	for long in $(sed -n 's/^# long: //p' "$ROOT"/tests/e2e/*.sh | sort -u); do
		holds "$ROOT/tests/long" --list "$long" >"$TMP/steps"
	done
	"$ROOT/tests/long" "$TMP" nonsense 2>"$TMP/err" && fail "an unknown part has passed"
	matches "$(<"$TMP/err")" '^usage: tests/long O \[PART\]; PART is one of: compilers kills '
}

test_steps_name_scripts() {
	local name
	for name in $(cd "$ROOT/tests" && python3 -B -c 'import re, parts
for part in parts.PARTS:
    for step in parts.steps_of(part):
        for name in re.findall(r"tests/run \$O (.*)", step.command):
            print(*(word.split("/")[0] for word in name.split() if not word.startswith("unit")))' | tr ' ' '\n' | sort -u); do
		holds test -e "$ROOT/tests/e2e/$name.sh" || fail "a step names the script $name"
	done
}

run_tests "$@"
