#!/usr/bin/env bash
# What tools/dashboards and tools/systemd offer: it fits what `serve` really exports, and what it may
# do is enough.
#
# needs: fixtures serve ocaml/service
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"

DASHBOARDS=$ROOT/tools/dashboards
CHECK=$ROOT/tests/e2e/check_dashboards.py
UNIT=$ROOT/tools/systemd/ocaml-probes-serve.service
NOBODY=65534

test_alerts() {
	need_command promtool
	promtool check config "$DASHBOARDS/prometheus.yml" || fail "prometheus.yml or alerts.yml"
	promtool test rules "$DASHBOARDS/alerts_test.yml" || fail "alerts_test.yml"
	# Each alert is tested to fire.
	eq "$(sed -n 's/^ *- alert: //p' "$DASHBOARDS/alerts.yml" | sort)" \
		"$(awk '$1 == "alertname:" { name = $2 } /exp_labels:/ { print name }' \
			"$DASHBOARDS/alerts_test.yml" | sort -u)" "alerts that are tested"
}

test_dashboard_can_be_shown() {
	holds "$PYTHON" "$CHECK" schema "$DASHBOARDS/grafana.json" || fail "grafana.json"
}

test_what_is_used_is_served() {
	need_counting
	need_command curl
	EXE=$(own_copy "$O/tests/ocaml/service")
	start_serve serve --exe "$EXE" --count --time request_start,request_done --time gc:minor --time gc:major_slice
	start_target "$EXE"
	await_exe "$EXE"
	wait_for '[[ $(scrape | grep -c -e "^ocaml_probes_enabled" -e ^ocaml_probes_cost_per_hit_seconds -e ^ocaml_gc_heap_words) -eq 9 ]]'
	scrape -o "$TMP/scrape"
	"$PYTHON" "$CHECK" names "$TMP/scrape" "$DASHBOARDS/grafana.json" "$DASHBOARDS/alerts.yml" ||
		fail "grafana.json or alerts.yml"
	# The check finds what is not there.
	! "$PYTHON" "$CHECK" names <(sed 's/probe="[a-z_]*"//' "$TMP/scrape") "$DASHBOARDS/alerts.yml" \
		>"$TMP/problems" || fail "a label is missing, unnoticed"
	grep -qx 'OCamlProbesHandlerLeftOn: shows probe, which its series do not have' "$TMP/problems"
	kill "$TARGET"
	stop_serve
}

# ---- the service ----------------------------------------------------------------------------------

# The unit with paths of programs that are here.
local_unit() {
	cp "$TOOL" "$TOOL-serve" "$TMP"
	sed "s|/usr/local/bin/ocaml-probes|$TMP/ocaml-probes|; s|/etc/ocaml-probes|$TMP|" "$UNIT" \
		>"$TMP/ocaml-probes-serve.service"
}

test_service_unit() {
	need_command systemd-analyze
	local_unit
	systemd-analyze verify --man=no "$TMP/ocaml-probes-serve.service" >"$TMP/verify" 2>&1 ||
		fail "$(<"$TMP/verify")"
	eq "$(<"$TMP/verify")" "" "what verify says"
	# Of 10; 2.0 when it was written.
	systemd-analyze security --no-pager --offline=true --threshold=25 \
		"$TMP/ocaml-probes-serve.service" >"$TMP/security" || fail "$(<"$TMP/security")"
	tail -n 1 "$TMP/security"
	matches "$(unit_says MemoryMax) $(unit_says TasksMax)" '^[0-9]+G [0-9]+$' "bounds"
}

# What KEY= says in the unit, all lines together.
unit_says() { # KEY
	sed -n "s/^$1=//p" "$UNIT" | xargs
}

# The system calls that the unit allows.
allowed_syscalls() {
	"$PYTHON" - "$(sed -n 's/^SystemCallFilter=//p' "$UNIT")" <<-'END'
		import subprocess, sys
		def expand(name):
		    if not name.startswith("@"):
		        return {name}
		    lines = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", name], text=True, check=True, stdout=subprocess.PIPE).stdout
		    words = [line.strip() for line in lines.splitlines()[1:]]
		    return set().union(*[expand(w) for w in words if w and not w.startswith("#")])
		allowed = set()
		for line in sys.argv[1].splitlines():
		    names = set().union(*[expand(n) for n in line.lstrip("~").split()])
		    allowed = allowed - names if line.startswith("~") else allowed | names
		print("\n".join(sorted(allowed)))
	END
}

# Run as the unit would: its user's ids, its capabilities, no new privileges; every system call noted.
as_unit() {
	local -A number=([CAP_PERFMON]=38 [CAP_BPF]=39)
	local caps=-all name
	for name in $(unit_says AmbientCapabilities); do
		caps+=,+cap_${number[$name]}
	done
	serve_command=(strace -f -o "$TMP/strace" setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups
		--bounding-set="$caps" --inh-caps="$caps" --ambient-caps="$caps" --no-new-privs
		"$TMP/ocaml-probes" serve)
}

# What the strace shows since it is our program.
our_syscalls() {
	awk -v program="$TMP/ocaml-probes" '
		seen && !/^[0-9]+ +(\+\+\+|---|<\.\.\.)/
		index($0, "execve(\"" program "\"") { seen = 1 }' "$TMP/strace"
}

test_service_privileges() {
	local serve
	need_counting
	need_command setpriv strace systemd-analyze curl
	eq "$(unit_says AmbientCapabilities)" "CAP_BPF CAP_PERFMON" "capabilities"
	eq "$(unit_says CapabilityBoundingSet)" "CAP_BPF CAP_PERFMON" "the most there can be"
	chmod 755 "$TMP" "$(dirname "$TMP")"
	local_unit
	# Nobody else's has its name: of those it may not look into it goes by that.
	copy_steady "unit.$$"
	sed "s|/usr/local/bin/service|$EXE|; s|:9464|:0|; s|request_start|work_start|; s|request_done|work_stop|" \
		"$ROOT/tools/systemd/serve.json" >"$TMP/serve.json"
	start_target setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --bounding-set=-all --inh-caps=-all \
		"$EXE" 200
	await_line ready
	as_unit
	start_serve serve --config "$TMP/serve.json"
	serve=$(pgrep -P "$SERVE")
	eq "$(awk '/^(Uid|CapEff|NoNewPrivs)/ { print $2 }' "/proc/$serve/status" | xargs)" \
		"$NOBODY 000000c000000000 1" "user, capabilities, no new privileges"

	wait_for '[[ $(scrape | sample ocaml_probes_hits_total "probe=\"tick\"") -gt 100 ]]'
	await_sample 1 ocaml_probes_up
	eq "$(scrape | sample ocaml_probes_processes)" 1 "processes"
	eq "$(curl -sS --fail "$URL/healthz")" ok
	kill -HUP "$serve"
	wait_for '[[ $(scrape | sample ocaml_probes_pair_duration_seconds_count) -gt 200 ]]'
	leave
	await_sample 0 ocaml_probes_up
	kill -TERM "$serve"
	wait "$SERVE"

	# The rest of the unit takes nothing away that it uses.
	our_syscalls >"$TMP/calls"
	[[ $(wc -l <"$TMP/calls") -gt 100 ]] || fail "too few system calls"
	eq "$(awk '{ sub(/\(.*/, "", $2); print $2 }' "$TMP/calls" | LC_ALL=C sort -u |
		LC_ALL=C comm -23 - <(allowed_syscalls | LC_ALL=C sort))" "" "system calls that the unit forbids"
	eq "$(grep -E ' (mmap\(.*PROT_WRITE.*PROT_EXEC|mmap\(.*PROT_EXEC.*PROT_WRITE|mprotect\(.*PROT_EXEC)' \
		"$TMP/calls" || :)" "" "code that can be written"
	eq "$(sed -nE 's/.* socket\((AF_[A-Z0-9]*),.*/\1/p' "$TMP/calls" | grep -vx 'AF_INET6*' || :)" "" "sockets"
	eq "$(grep -E ' open(at)?\(.*(O_WRONLY|O_RDWR|O_CREAT)' "$TMP/calls" | grep -v '"/dev/null"' || :)" "" \
		"files that are opened to be written"
}

run_tests "$@"
