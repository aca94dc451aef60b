#!/usr/bin/env bash
# `by` in a target of the configuration of `serve`: hits and durations by the value of an argument, against the
# books of the service (tests/ocaml/routes).
#
# needs: fixtures serve ocaml
# smoke: test_books
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"
. "$(dirname "$0")/routes_lib.sh"

# How many requests are compared with the books; 1000000 in `make check-long P=soak`.
REQUESTS=${LABEL_REQUESTS:-50000}

# ARGs of a target after its "exe": the usual ones.
USUAL='"count": ["request_started", "request_failed", "request_done"], "time": [["request_started", "request_done"]], "by": "route"'

configure() { # KEYS [KEYS-OF-THE-FILE]
	printf '{ "listen": "127.0.0.1:0", %s "targets": [{ "exe": "%s", %s }] }\n' "${2:-}" "$TMP/routes" "$1" >"$TMP/config.new"
	mv "$TMP/config.new" "$TMP/config"
}

start_routes() { # [PROGRAM]
	cp "$ROUTES/${1:-routes}" "$TMP/routes.new"
	mv "$TMP/routes.new" "$TMP/routes"
	start_target "$TMP/routes"
	await_line ready
}

# Have the service do what LINE says.
order() { # LINE
	forget_output
	tell "$1"
	await_line 'done' 300
}

# What the service says of itself since the last time, into $TMP/books.
take_books() {
	order books
	cp "$(output_of)" "$TMP/books"
}

compare() { # COMPARISON ARG...
	asserted
	"$PYTHON" "$ROOT/tests/books" "$@" >"$TMP/compared" || fail "$(head -n 20 "$TMP/compared")"
}

# The metrics, in both formats, say what the books say.
check_routes() { # LIMIT [N-ROUTES]
	get metrics >"$TMP/text"
	get metrics -H 'Accept: application/openmetrics-text' >"$TMP/open"
	compare routes "$TMP/text" "$TMP/books" "$@"
	compare routes "$TMP/open" "$TMP/books" "$@"
}

need() {
	need_counting
	need_module prometheus_client
}

# ---- numbers ----------------------------------------------------------------------------------

test_books() {
	local limit
	need
	start_routes
	for limit in 1000 100 1; do
		configure "$USUAL, \"by_limit\": $limit"
		start_server --config "$TMP/config"
		order "go $REQUESTS 1000"
		take_books
		check_routes "$limit" 1000
		# The sum of the histograms is the pair's.
		eq "$("$PYTHON" - "$TMP/text" <<-'PYTHON'
			import sys
			from decimal import Decimal
			print(sum(Decimal(line.split()[-1]) for line in open(sys.argv[1])
			          if line.startswith("ocaml_probes_pair_duration_seconds_sum{")).scaleb(9).to_integral())
		PYTHON
		)" "$(json_of api/v1/status 'it["targets"][0]["pairs"][0]["sum_ns"]')" "sum of the durations"
		eq "$(json_of api/v1/status 'it["targets"][0]["label"]')" \
			"{'name': 'route', 'values': $limit, 'limit': $limit, 'unreadable_values': 0}" "label in the status"
		end_server
		eq "$SERVER_STATUS" 0 "status"
	done
	# Without a limit of the user's.
	configure "$USUAL"
	start_server --config "$TMP/config"
	order "go 5000 300"
	take_books
	check_routes 100 300
}

# Another file takes the place of the program's, and is started.
replace_program() {
	quit_target
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 0$"'
	start_routes
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 1$"'
}

# While values come, more than there is room for, and programs come and go, no counter falls.
test_no_counter_falls() {
	local i scrapes=() routes=3
	need
	start_routes
	configure "$USUAL, \"by_limit\": 20"
	start_server --config "$TMP/config"
	for i in {1..12}; do
		forget_output
		tell "go 3000 $routes"
		get metrics >"$TMP/scrape.$i.0"
		await_line 'done' 300
		get metrics >"$TMP/scrape.$i.1"
		scrapes+=("$TMP/scrape.$i.0" "$TMP/scrape.$i.1")
		routes=$((routes + 5))
		case $i in
		4) quit_target && start_target "$TMP/routes" && await_line ready ;;
		8) replace_program ;;
		esac
	done
	compare never_fall "${scrapes[@]}"
	eq "$("$PYTHON" -c 'import sys
print(sum(int(line.split()[-1]) for line in open(sys.argv[1]) if line.startswith("ocaml_probes_hits_total{probe=\"request_started\"")))' \
		"$TMP/scrape.12.1")" 36000 "requests of all processes and files"
	eq "$(sample ocaml_probes_label_values <"$TMP/scrape.12.1")" 20 "values"
}

# A value that comes between the last reading and the end of the file's program has a row, too.
test_values_that_come_last() {
	need
	start_routes
	configure "$USUAL"
	start_server --config "$TMP/config"
	kill -STOP "$SERVER"
	order "go 100 3"
	take_books
	quit_target
	cp "$ROUTES/routes" "$TMP/routes.new"
	mv "$TMP/routes.new" "$TMP/routes"
	kill -CONT "$SERVER"
	# It reads the new file, and so has read the old one's last numbers.
	wait_for '[[ $(grep -c "counted without groups" "$TMP/serve.err") = 2 ]]'
	check_routes 100 3
}

# Of the values that one reading finds, the most frequent ones have rows.
test_the_most_frequent_have_rows() {
	need
	start_routes
	kill -STOP "$TARGET"
	configure '"count": ["number"], "by": "route", "by_limit": 1'
	start_server --config "$TMP/config"
	# All of it is there before the first reading that sees any: see `count 5` twice in routes.ml.
	kill -STOP "$SERVER"
	kill -CONT "$TARGET"
	order numbers
	kill -CONT "$SERVER"
	wait_for '[[ $(get metrics | sample ocaml_probes_label_values) = 1 ]]'
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{.*route=\(.*\)}/\1/p')" $'"other" 4\n"5" 2' "hits"
}

# ---- values -----------------------------------------------------------------------------------

test_hostile_values() {
	need
	start_routes
	configure "$USUAL"
	start_server --config "$TMP/config"
	order hostile
	take_books
	check_routes 100 16
	eq "$(grep -c '^ocaml_probes_hits_total{probe="made up"' "$TMP/text" || :)" 0 "a made-up sample"
	if type -P promtool >/dev/null; then
		promtool check metrics <"$TMP/text" 2>"$TMP/promtool" || fail "promtool: $(<"$TMP/promtool")"
	fi
	order hostile
	order hostile
	eq "$(get metrics | grep -c '^ocaml_probes_hits_total{probe="request_started".*} 3$')" \
		"$(grep -c '^ocaml_probes_hits_total{probe="request_started".*} 1$' "$TMP/text")" "rows that are hit again"
}

# Ints, and what is no number and no string; the string "5" and the int 5 share a row.
test_other_types() {
	need
	start_routes
	configure '"count": ["number", "anything"], "by": "route"'
	start_server --config "$TMP/config"
	order numbers
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{probe=\("[a-z]*"\).*route=\(.*\)}/\1 \2/p' | LC_ALL=C sort)" \
		'"anything" "1.5" 1
"anything" "5" 2
"anything" "other" 3
"number" "-3" 1
"number" "-4611686018427387904" 1
"number" "0" 1
"number" "4611686018427387903" 1
"number" "5" 2
"number" "other" 0' "hits"
	get metrics | finds 'ocaml_probes_lost_total{.*reason="unreadable_values"} 3$' || fail "$(get metrics | grep lost)"
	eq "$(json_of api/v1/status 'it["targets"][0]["label"]["unreadable_values"]')" 3
}

# ---- programs ---------------------------------------------------------------------------------

# A file whose request_failed has no route replaces one that has: its hits have no label.
test_an_argument_that_goes() {
	need
	start_routes
	configure '"count": ["request_failed", "request_started"], "by": "route"'
	start_server --config "$TMP/config"
	order "go 1000 1"
	take_books
	quit_target
	start_routes unrouted
	wait_for 'has_text "$TMP/serve.err" "counted without groups: probe .request_failed.*no argument .route. for the groups"'
	wait_for 'get metrics | finds "^ocaml_probes_up{.*} 1$"'
	order "go 2000 1"
	order books
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{probe="request_failed",exe="[^"]*"\(.*\)}/\1/p')" \
		" $(sed -n 's/^route.* failed=\([0-9]*\).*/\1/p' "$(output_of)")
,route=\"other\" 0
,route=\"/r/0\" $(sed -n 's/^route.* failed=\([0-9]*\).*/\1/p' "$TMP/books")" "hits"
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{probe="request_started".*,\(route.*\)}/\1/p')" \
		$'route="other" 0\nroute="/r/0" 3000' "hits of the probe that has it"
}

reload() { # WHAT-IS-SAID
	local n
	n=$(grep -c "$1" "$TMP/serve.err" || :)
	kill -HUP "$SERVER"
	wait_for '[[ $(grep -c "'"$1"'" "$TMP/serve.err") -gt '"$n"' ]]'
}

series() {
	get metrics | sed -n 's/^ocaml_probes_hits_total{probe="request_started",exe="[^"]*"\(.*\)}/\1/p'
}

# Another argument, label or limit: the counters start again. Anything else: they go on.
test_reload() {
	local since
	need
	start_routes
	configure '"count": ["request_started"], "by": "route"'
	start_server --config "$TMP/config"
	order "go 100 1"
	eq "$(series)" $',route="other" 0\n,route="/r/0" 100'
	reload 'configuration reloaded, 1 target'
	order "go 100 1"
	eq "$(series)" $',route="other" 0\n,route="/r/0" 200' "the same file again"
	configure '"count": ["request_started", "request_done"], "by": "route"'
	reload 'configuration reloaded, 1 target'
	order "go 100 1"
	eq "$(series)" $',route="other" 0\n,route="/r/0" 300' "with another probe"
	since=$(get metrics -H 'Accept: application/openmetrics-text' | sed -n 's/^ocaml_probes_hits_created.*"request_started".*"other"} //p')
	configure '"count": ["request_started"], "by": "route", "by_limit": 7'
	reload 'configuration reloaded, 1 target'
	order "go 50 1"
	eq "$(series)" $',route="other" 0\n,route="/r/0" 50' "another limit"
	[[ $(get metrics -H 'Accept: application/openmetrics-text' | sed -n 's/^ocaml_probes_hits_created.*"request_started".*"other"} //p') > $since ]] ||
		fail "_created is still $since"
	configure '"count": ["request_started"], "by": "route", "by_limit": 7, "by_label": "path"'
	reload 'configuration reloaded, 1 target'
	order "go 50 1"
	eq "$(series)" $',path="other" 0\n,path="/r/0" 50' "another label"
	configure '"count": ["request_started"]'
	reload 'configuration reloaded, 1 target'
	order "go 10 1"
	eq "$(series)" " 10" "without a label"
	configure '"count": ["request_started"], "by": "arg1"'
	reload 'configuration reloaded, 1 target'
	order "go 10 1"
	eq "$(series)" $',arg1="other" 0\n,arg1="/r/0" 10' "by the argument's number"
	# A wrong file changes nothing.
	configure '"count": ["request_started"], "by": "rout"'
	reload 'keeping the old configuration'
	order "go 10 1"
	eq "$(series)" $',arg1="other" 0\n,arg1="/r/0" 20' "after a wrong file"
	end_server
	eq "$SERVER_STATUS" 0 "status: $(<"$TMP/serve.err")"
}

# Two processes of one program must be split in the same way.
test_processes_of_one_program() {
	local first
	need
	start_routes
	first=$TARGET
	start_target "$TMP/routes"
	await_line ready
	printf '{ "listen": "127.0.0.1:0", "targets": [\n{ "pid": %s, "count": ["request_started"], "by": "route" },\n{ "pid": %s, "count": ["request_started"], "by": "rid" } ] }\n' \
		"$first" "$TARGET" >"$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config:3: targets\[1\].by: groups by another argument, label or limit than pid $first, which runs the same program" \
		serve --config "$TMP/config"
	sed -i 's/"rid"/"route"/' "$TMP/config"
	start_server --config "$TMP/config"
	order "go 30 1"
	TARGET=$first
	order "go 40 1"
	eq "$(series)" $',route="other" 0\n,route="/r/0" 70' "hits of both"
}

# ---- mistakes ---------------------------------------------------------------------------------

wrong() { # KEY WHAT KEYS [HINT]
	local key=${1//[/\\[}
	printf '{ "listen": "127.0.0.1:0", "targets": [%%{ "exe": "%s",%%%s } ] }' "$TMP/routes" "$3" | tr % '\n' >"$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config:3: ${key//]/\\]}: $2" serve --config "$TMP/config"
	[[ -z ${4:-} ]] || finds -xF "hint: $4" <"$TMP/err" || fail "the hint: $(<"$TMP/err")"
}

test_messages() {
	local name
	need
	cp "$ROUTES/routes" "$TMP/routes"
	wrong 'targets[0].by' "probe 'request_started': no argument 'rout' for the groups: it has rid, route in [^;]*; did you mean 'route'\?$" \
		'"by": "rout", "count": ["request_started"]'
	wrong 'targets[0].by' "probe 'request_started': no arg7 for the groups: it has 2 arguments" '"by": "arg7", "count": ["request_started"]'
	wrong 'targets[0].by' "probe 'request_done': no argument 'route' for the groups: it has rid, status" \
		'"by": "route", "time": [["request_done", "request_started"]]'
	wrong 'targets[0].by' "'5': not an argument, \"argN\" or its name" '"by": "5"'
	wrong 'targets[0].by' "'a b': not an argument" '"by": "a b"'
	wrong 'targets[0].by' 'not a string' '"by": 5'
	wrong 'targets[0].by' 'is empty' '"by": ""'
	for name in probe exe pid le start stop side reason engine kind version phase pod_uid container_id job instance quantile; do
		wrong 'targets[0].by_label' "label '$name': is the name of another label of the metrics" "\"by_label\": \"$name\", \"by\": \"route\""
	done
	wrong 'targets[0].by' "label 'pid': is the name of another label of the metrics" '"by": "pid"' '"by_label": "NAME" gives the label another name'
	wrong 'targets[0].by_label' "label '__name__': is reserved by Prometheus" '"by_label": "__name__", "by": "route"'
	wrong 'targets[0].by_label' "label '1x': must begin with a letter or '_'" '"by_label": "1x", "by": "route"'
	wrong 'targets[0].by_label' "label 'a-b': may have only letters, digits and '_'" '"by_label": "a-b", "by": "route"'
	wrong 'targets[0].by_limit' 'not a number from 1 to 4096' '"by_limit": 0, "by": "route"'
	wrong 'targets[0].by_limit' 'not a number from 1 to 4096' '"by_limit": 4097, "by": "route"'
	wrong 'targets[0].by_limit' 'not a whole number' '"by_limit": "10", "by": "route"'
	sed -i '3s/.*/"by_limit": 10 } ] }/; 4d' "$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config:2: targets\[0\]: 'by_limit' requires 'by'$" serve --config "$TMP/config"
	sed -i '3s/.*/"by_label": "x" } ] }/' "$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config:2: targets\[0\]: 'by_label' requires 'by'$" serve --config "$TMP/config"
	sed -i '3s/.*/"by": "route", "time": ["gc:minor"] } ] }/' "$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config:2: targets\[0\]: 'by' needs arguments; c:, gc:, line: and note: have no arguments$" \
		serve --config "$TMP/config"
	sed -i '3s/.*/"by": "route" } ] }/' "$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config:3: targets\[0\].by: hits are split by the value of an argument or by process \(label_pid\), not by both$" \
		serve --config "$TMP/config" --label-pid
}

run_tests "$@"
