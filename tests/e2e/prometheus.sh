#!/usr/bin/env bash
# A real Prometheus scrapes `ocaml-probes serve`: rates are right, counters never go back, formats are
# what strict parsers take.
#
# needs: fixtures serve ocaml/service
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"

HZ=500
DASHBOARDS=$ROOT/tools/dashboards
CHECK=$ROOT/tests/e2e/check_dashboards.py

start_steady() { # [ARG...]
	start_target "$EXE" "$HZ" "$@"
	await_line ready
}

# ---- formats ------------------------------------------------------------------------------------

# What python's parser takes from the OpenMetrics text in FILE: "NAME{LABELS} VALUE" lines, sorted,
# without _created. Its rules: families in one piece, types and units in the names, buckets cumulative, no
# value that goes back, # EOF at the end.
parse_openmetrics() { # FILE
	"$PYTHON" - "$1" <<-'END' | LC_ALL=C sort
		import sys
		from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
		for family in parse(open(sys.argv[1], encoding="utf-8").read()):
		    for s in family.samples:
		        if not s.name.endswith("_created"):
		            print(s.name + "".join(f"|{k}={v}" for k, v in sorted(s.labels.items())), float(s.value))
	END
}

parse_text() { # FILE
	"$PYTHON" - "$1" <<-'END' | LC_ALL=C sort
		import sys
		from prometheus_client.parser import text_string_to_metric_families as parse
		for family in parse(open(sys.argv[1], encoding="utf-8").read()):
		    for s in family.samples:
		        print(s.name + "".join(f"|{k}={v}" for k, v in sorted(s.labels.items())), float(s.value))
	END
}

# The content type that is served for ACCEPT, the body to FILE.
scrape_as() { # ACCEPT FILE
	scrape -H "Accept: $1" -o "$2" -w '%{content_type}\n'
}

test_formats() {
	local now any_time='s/^\(ocaml_probes_snapshot_timestamp_seconds\) [0-9.]*$/\1/'
	need_counting
	need_command promtool curl
	need_module prometheus_client
	copy_steady "a \"quoted\" \\ name"
	start_serve serve --exe "$EXE" --time work_start,work_stop --label-pid
	start_steady 200
	wait "$TARGET"
	await_sample 0 ocaml_probes_up
	# From then on nothing changes between two scrapes.
	wait_for '(($(scrape | sample ocaml_probes_cost_per_hit_seconds | grep -c "[1-9]") == 1))'
	matches "$(scrape_as text/plain "$TMP/text")" '^text/plain; *version=0\.0\.4' "content type"
	# What Prometheus 2.42 asks for.
	matches "$(scrape_as 'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1' "$TMP/open")" \
		'^application/openmetrics-text; *version=1\.0\.0; *charset=utf-8$' "content type"

	promtool check metrics <"$TMP/text" || fail "promtool does not like the text format"
	# Each has a time of its own.
	eq "$(parse_openmetrics "$TMP/open" | sed "$any_time")" "$(parse_text "$TMP/text" | sed "$any_time")" \
		"what the two formats say"
	eq "$(sample ocaml_probes_hits_total probe=\"tick\" <"$TMP/open")" 200
	eq "$(sample ocaml_probes_pair_duration_seconds_count <"$TMP/open")" 200
	eq "$(sample ocaml_probes_pair_duration_seconds_bucket 'le="+Inf"' <"$TMP/open")" 200
	eq "$(sample ocaml_probes_pair_orphans_total 'side="start"' <"$TMP/open")" 1

	# Prometheus's own parser of OpenMetrics stores it, given time stamps.
	now=$(date +%s)
	sed "/^#/!s/\$/ $now/" "$TMP/open" >"$TMP/stamped"
	promtool tsdb create-blocks-from openmetrics "$TMP/stamped" "$TMP/blocks" >"$TMP/promtool" 2>&1 ||
		fail "$(<"$TMP/promtool")"
	mkdir "$TMP/blocks/wal"
	promtool tsdb dump "$TMP/blocks" >"$TMP/dump" 2>"$TMP/promtool"
	eq "$(grep -c . "$TMP/dump")" "$(grep -vc '^#' "$TMP/open")" "samples in the block"
	eq "$(grep '"ocaml_probes_hits_total"' "$TMP/dump" | awk '/probe="tick"/ { print $(NF - 1) }')" 200
	stop_serve
}

# ---- Prometheus -----------------------------------------------------------------------------------

# Start Prometheus, which scrapes URL each second and, of COLLECTOR_URL, what concerns the collector. Sets API.
start_prometheus() {
	local port=$((20000 + $$ % 10000)) prefix=/$$-$RANDOM tries
	cat >"$TMP/prometheus.yml" <<-END
		global:
		  scrape_interval: 1s
		  evaluation_interval: 1s
		rule_files: [$DASHBOARDS/alerts.yml]
		scrape_configs:
		  - job_name: ocaml-probes
		    static_configs:
		      - targets: ["${URL#http://}"]
		  - job_name: collector
		    static_configs:
		      - targets: ["${COLLECTOR_URL#http://}"]
		    metric_relabel_configs:
		      - { source_labels: [__name__], regex: "ocaml_gc_.*", action: keep }
	END
	for ((tries = 5; tries; tries--, port++)); do
		background prometheus --config.file="$TMP/prometheus.yml" --storage.tsdb.path="$TMP/tsdb" \
			--web.listen-address="127.0.0.1:$port" --web.route-prefix="$prefix" --log.level=warn >"$TMP/prometheus.log" 2>&1
		PROMETHEUS=$!
		# Somebody else's that has the port does not know this path.
		API=http://127.0.0.1:$port$prefix/api/v1
		wait_for 'curl -sf "${API%/api*}/-/ready" >/dev/null || ! kill -0 "$PROMETHEUS" 2>/dev/null' 60
		! kill -0 "$PROMETHEUS" 2>/dev/null || return 0
	done
	fail "prometheus does not start: $(<"$TMP/prometheus.log")"
}

# "LABELS VALUE..." lines of what Prometheus answers to QUERY; of a range vector all its values.
query() { # QUERY [TIME]
	curl -sS --fail --get --data-urlencode "query=$1" ${2:+--data-urlencode "time=$2"} "$API/query" | "$PYTHON" -c '
import json, sys
for one in json.load(sys.stdin)["data"]["result"]:
    labels = ",".join(f"{k}={v}" for k, v in sorted(one["metric"].items()) if k in ("probe", "start", "alertname"))
    print(labels, *[value for _, value in one.get("values", [one.get("value")])])'
}

# Wait for 20 s in which no scrape took long: Prometheus dates what it gets by when it asked for it. Sets
# CALM to their end, which all scrapes before it have come to.
await_calm() {
	wait_for 'CALM=$(($(date +%s) - 2)) &&
		query "max(max_over_time(scrape_duration_seconds[20s]))" "$CALM" | awk "{ exit !(\$1 < 0.1) }"' 400
}

are_rates_right() { # QUERY N
	await_calm
	query "$1" "$CALM" >"$TMP/rates"
	awk -v hz="$HZ" -v n="$2" '
		{ if ($2 < hz * 0.99 || $2 > hz * 1.01) bad = 1 }
		END { exit bad || NR != n }' "$TMP/rates"
}

# Each value of QUERY is within 1 % of HZ, and there are N; in one of some tries, since the program itself may get no
# processor for a while.
check_rates() { # QUERY N
	local try
	for try in 1 2 3 4; do
		! are_rates_right "$@" || { cat "$TMP/rates"; return 0; }
		sleep 10
	done
	fail "$1 is not $HZ: $(<"$TMP/rates")"
}

# "ALERT HEALTH STATE" of the alerts.
rule_states() {
	curl -sS --fail "$API/rules" | "$PYTHON" -c '
import json, sys
for group in json.load(sys.stdin)["data"]["groups"]:
    for rule in group["rules"]:
        print(rule["name"], rule["health"], rule["state"])'
}

test_prometheus() {
	local metric service collector
	need_counting
	need_command prometheus curl
	start_target "$(own_copy "$O/tests/ocaml/service")"
	service=$TARGET
	await_exe "$TMP/service"
	start_serve collector --exe "$TMP/service" --count=gc:major_cycle --time gc:minor --time gc:major_slice
	collector=$SERVE COLLECTOR_URL=$URL
	copy_steady steady
	start_serve serve --exe "$EXE" --time work_start,work_stop
	start_steady
	start_prometheus
	"$TOOL" attach -pid "$TARGET" -enable tick
	wait_for '[[ $(query "count_over_time(ocaml_probes_hits_total{probe=\"tick\"}[1m])" | cut -d" " -f2) -ge 25 ]]' 60

	check_rates 'rate(ocaml_probes_hits_total[20s])' 3
	check_rates 'rate(ocaml_probes_pair_duration_seconds_count[20s])' 1
	"$PYTHON" "$CHECK" live "${API%/api*}" "$DASHBOARDS/grafana.json" || fail "the dashboard"
	kill "$collector" "$service"
	# Only OpenMetrics has these: it is what Prometheus asked for, and got.
	eq "$(query 'count(ocaml_probes_hits_created)')" " 3" "creation times"

	# Another process of the same program goes on where the first ended.
	leave
	await_sample 0 ocaml_probes_up
	start_steady
	wait_for 'query ocaml_probes_up | grep -qx " 1"'
	sleep 2
	leave
	await_sample "$(books tick)" ocaml_probes_hits_total 'probe="tick"'
	wait_for 'query "ocaml_probes_hits_total{probe=\"tick\"}" | grep -qx "probe=tick $(books tick)"'
	eq "$(query 'sum by (probe) (ocaml_probes_hits_total)')" "probe=tick $(books tick)
probe=work_start $(books work_start)
probe=work_stop $(books work_stop)" "hits of both processes"
	eq "$(query 'sum(ocaml_probes_pair_duration_seconds_count)')" " $(books work_stop)" "pairs of both"
	wait_for 'query "sum(ocaml_probes_pair_orphans_total{side=\"start\"})" | grep -qx " 2"'

	for metric in hits_total pair_duration_seconds_{bucket,sum,count} pair_orphans_total lost_total \
		cpu_overhead_seconds_total; do
		eq "$(query "max(resets(ocaml_probes_${metric}[2m]))")" " 0" "resets of $metric"
	done
	query '{__name__=~"ocaml_probes_.*(_total|_bucket|_sum|_count)"}[2m]' | awk '
		{ for (i = 3; i <= NF; i++) if ($i + 0 < $(i - 1) + 0) { print "goes back:", $0; exit 1 } n++ }
		END { exit n < 10 }' || fail "counters go back"

	# Of the alerts one is right that the program does not run, and will be raised in five minutes.
	wait_for '[[ $(rule_states) = *OCamlProbesTargetDown\ ok\ pending* ]]'
	rule_states >"$TMP/rules"
	eq "$(wc -l <"$TMP/rules")" "$(grep -c 'alert:' "$DASHBOARDS/alerts.yml")" "rules"
	eq "$(awk '$2 != "ok" || $3 == "firing"' "$TMP/rules")" "" "rules that fail or fire"
	stop_serve
}

TEST_TIMEOUT=1800
run_tests "$@"
