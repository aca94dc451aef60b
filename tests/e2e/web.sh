#!/usr/bin/env bash
# The page that `ocaml-probes serve` has, in a browser, over programs that are really counted.
#
# needs: fixtures serve ocaml
# takes: 90 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

PAGE=$ROOT/tests/e2e/web_page.py

# Debian's own interpreter: it is the one that has Debian's selenium.
need_browser() {
	need_counting
	need_command chromium-headless-shell chromedriver
	/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
}

# KEEP_SCREENSHOTS: a folder that gets the pictures that were taken, to be looked at.
on_page() { # TEST ARG...
	HOME=$TMP holds /usr/bin/python3 -B "$PAGE" "$@" || fail "serve said: $(<"$TMP/serve.err")"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

test_numbers_are_those_of_the_program() {
	need_browser
	start_target "$(own_copy "$O/tests/ocaml/requests")" 2000
	await_line ready
	on_page numbers "$TARGET" "$(output_of)" 2000
	quit_target
}

test_losses() {
	need_browser
	start_target "$(own_copy "$O/tests/ocaml/requests")" 300
	await_line ready
	on_page losses "$TARGET" "$(output_of)"
}

test_watching() {
	need_browser
	start_target "$(own_copy "$O/tests/ocaml/service")"
	await_exe "$TMP/service"
	on_page watching "$TARGET"
}

test_using_without_a_mouse() {
	need_browser
	start_target "$(own_copy "$O/tests/ocaml/service")"
	await_exe "$TMP/service"
	on_page using "$TARGET"
}

test_programs_with_hostile_names() {
	local name="$TMP/<img src=x onerror=document.title='owned'>&amp;\"" first
	need_browser
	cp "$O/tests/ocaml/service" "$name"
	start_target "$(own_copy "$O/tests/ocaml/service")"
	await_exe "$TMP/service"
	first=$TARGET
	# Not named to env, which would take it for a variable.
	start_target bash -c 'exec "$0"' "$name"
	await_exe "$name"
	on_page programs "$first" "$TARGET" "$name"
}

test_functions() {
	need_browser
	start_target "$(own_copy "$O/tests/ocaml/unprobed")"
	await_line ready
	on_page functions "$TARGET"
}

test_collector() {
	need_browser
	compile_source gauges gauges
	start_target "$TMP/gauges"
	await_line ready
	on_page collector "$TARGET" "$(output_of)"
}

test_many_probes() {
	need_browser
	need_command gcc
	gcc -O2 -pthread -fPIE -pie -fvisibility=hidden -D_GNU_SOURCE -DSITES=10000 -DNAMES=10000 -o "$TMP/many" \
		"$ROOT/tools/bench/sites.S" "$ROOT/tools/bench/toggle_target.c"
	start_target "$TMP/many"
	await_exe "$TMP/many"
	on_page many "$TARGET"
}

test_long_names() {
	local name
	need_browser
	need_command gcc
	name=$(printf 'a_name_of_%.0s' {1..20})
	sed "s/library_module_function_/$name/" "$ROOT/tools/bench/sites.S" >"$TMP/sites.S"
	gcc -O2 -pthread -fPIE -pie -fvisibility=hidden -D_GNU_SOURCE -DSITES=14 -DNAMES=14 -o "$TMP/long" \
		"$TMP/sites.S" "$ROOT/tools/bench/toggle_target.c"
	start_target "$TMP/long"
	await_exe "$TMP/long"
	on_page long_names "$TARGET" "${name}1" "${name}9"
}

run_tests "$@"
