#!/usr/bin/env bash
# Programs in containers: mount and pid namespaces of their own, overlays as their roots, cgroups with the names that
# runtimes give them. They are found, named, counted, served and forgotten.
#
# needs: fixtures serve ocaml/counted ocaml/service
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

MANIFESTS=$ROOT/tools/containers
POD=6e9f1c2a-3b4d-4c5e-8f60-718293a4b5c6
ID1=$(printf '1%.0s' {1..64})
ID2=$(printf '2%.0s' {1..64})
ID3=$(printf '3%.0s' {1..64})
IN1="container_id=\"$ID1\""
IN2="container_id=\"$ID2\""
# As the systemd driver of Kubernetes' cgroups names them.
POD_CGROUP=kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${POD//-/_}.slice

# Mount cgroups, with a place of our own below CGROUPS, and make the image that the containers have in common.
prepare() {
	mkdir -p "$TMP/cgroup" "$TMP/image/app" "$TMP/image/lib64" "$TMP/image/lib/x86_64-linux-gnu"
	mount -t cgroup2 cgroup2 "$TMP/cgroup"
	CGROUPS=$TMP/cgroup/ocaml-probes-$(basename "$(dirname "$TMP")")
	mkdir "$CGROUPS"
	trap 'kill -KILL $(cat "$TMP"/*.pid) 2>/dev/null || :; leave_cgroups' EXIT
	cp "$V1" "$TMP/image/app/service"
	cp /lib64/ld-linux-x86-64.so.2 "$TMP/image/lib64"
	cp /lib/x86_64-linux-gnu/libc.so.6 "$TMP/image/lib/x86_64-linux-gnu"
}

# The kernel takes its time until the cgroup of a process that was killed is empty.
leave_cgroups() {
	local tries=100
	while ((tries-- > 0)) && [[ -d $CGROUPS ]]; do
		find "$CGROUPS" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.05
	done
}

# Start the image's program as container NAME in CGROUP, below ours. Sets TARGET, what `tell` and `go` want, and
# PID, the program's.
start_container() { # NAME CGROUP [CONTAINER.PY-ARG...]
	local name=$1 cgroup=$2
	shift 2
	rm -f "$TMP/$name.pid"
	start_target python3 "$ROOT/tests/e2e/container.py" --image "$TMP/image" --pid-file "$TMP/$name.pid" \
		--cgroup "$CGROUPS/$cgroup" "$@" "${PROGRAM:-/app/service}" --wait
	await_line ready
	wait_for "[[ -e '$TMP/$name.pid' ]]"
	PID=$(<"$TMP/$name.pid")
}

# The containers `one` and `two` of a pod, of the same image.
start_two() {
	start_container one "$POD_CGROUP/cri-containerd-$ID1.scope"
	ONE=$TARGET PID1=$PID
	start_container two "$POD_CGROUP/cri-containerd-$ID2.scope"
	TWO=$TARGET PID2=$PID
}

# ---- finding and counting -------------------------------------------------------------------------

# "PID EXE POD CONTAINER NS_PID" lines of `list --json`, from the command and on.
listed() { # [COMMAND...]
	"$@" "$TOOL" list --json 2>/dev/null | python3 -c 'import json, sys
for p in json.load(sys.stdin)["processes"]:
    print(p["pid"], p["exe"], p["pod_uid"], p["container_id"], p["ns_pid"])'
}

test_list() { among_our_own list; }

list() {
	prepare
	start_two
	start_container docker "docker/$ID3"
	own=$(own_copy "$V1")
	start_target "$own" --wait
	await_line ready
	eq "$(listed)" "$PID1 /app/service $POD $ID1 1
$PID2 /app/service $POD $ID2 1
$PID /app/service None $ID3 1
$TARGET $own None None $TARGET" "list --json"
	eq "$("$TOOL" list | awk -v pid="$PID1" '$1 == pid { $1 = ""; print }')" \
		" 10 1 /app/service [container 111111111111, pid 1 there]" "list"
	# A reader in a cgroup namespace, as in another container, sees paths that begin with /.. 
	mkdir -p "$CGROUPS/$POD_CGROUP/cri-containerd-$ID3.scope"
	eq "$(listed bash -c 'echo 0 >"$0/cgroup.procs"; exec unshare --cgroup "$@"' \
		"$CGROUPS/$POD_CGROUP/cri-containerd-$ID3.scope" | sed -n 2p)" \
		"$PID2 /app/service None $ID2 1" "from a container of the same pod"
	mkdir -p "$CGROUPS/kubepods.slice/other.slice/cri-containerd-$ID3.scope"
	eq "$(listed bash -c 'echo 0 >"$0/cgroup.procs"; exec unshare --cgroup "$@"' \
		"$CGROUPS/kubepods.slice/other.slice/cri-containerd-$ID3.scope" | sed -n 1,2p)" \
		"$PID1 /app/service $POD $ID1 1
$PID2 /app/service $POD $ID2 1" "from another pod"
	# What is in our own container is in none for us.
	eq "$(listed bash -c 'echo 0 >"$0/cgroup.procs"; exec "$@"' \
		"$CGROUPS/$POD_CGROUP/cri-containerd-$ID1.scope" | sed -n 1,2p)" \
		"$PID1 /app/service None None 1
$PID2 /app/service $POD $ID2 1" "from the same container"
}

# By the container's path, through its process. The other container's uprobes are on the same file below.
test_attach() { among_our_own attach; }

attach() {
	local counting
	prepare
	start_two
	background "$TOOL" attach --budget none --exe "/proc/$PID1/root/app/service" --count --time plain,odd --json \
		>"$TMP/counts" 2>"$TMP/err"
	counting=$!
	wait_for 'grep -Eq "(counting|measuring) [0-9]+ probes" "$TMP/err" || ! kill -0 '"$counting"
	TARGET=$ONE go 10
	TARGET=$TWO go 100
	kill -INT "$counting"
	wait "$counting" || fail "$(<"$TMP/err")"
	eq "$(totals | grep -E '^(plain|odd) ')" "odd 10
plain 10" "hits"
	matches "$(tail -n 1 "$TMP/counts")" '"start":"plain","stop":"odd","count":10,'
	"$TOOL" attach -pid "$PID1" -enable plain
	eq "$("$TOOL" info -pid "$PID1" | grep '^plain ')$("$TOOL" info -pid "$PID2" | grep '^plain ')" \
		"plain enabledplain disabled" "handlers"
}

# ---- serving --------------------------------------------------------------------------------------

# The values of NAME's samples for the program at PATH, a line each, with the labels pod_uid and container_id before.
values() { # NAME [PROBE]
	get metrics | sed -nE "s/^ocaml_probes_$1\{${2:+probe=\"$2\",}(start=\"plain\",stop=\"odd\",)?exe=\"\/app\/service\"(.*)\} /\2 /p"
}

test_serve() { among_our_own serve; }

serve() {
	local status
	prepare
	start_two
	start_server --time plain,odd --control
	TARGET=$ONE go 7
	TARGET=$TWO go 9
	eq "$(values hits_total plain)" ",pod_uid=\"$POD\",$IN1 7
,pod_uid=\"$POD\",$IN2 9" "hits"
	eq "$(values pair_duration_seconds_count)" ",pod_uid=\"$POD\",$IN1 7
,pod_uid=\"$POD\",$IN2 9" "pairs"
	# One that starts later, and what is in no container.
	start_container docker "docker/$ID3"
	wait_for 'values up | finds -xF ",container_id=\"$ID3\" 1"'
	go 3
	eq "$(values hits_total plain | tail -n 1)" ",container_id=\"$ID3\" 3" "hits in docker"
	start_v1
	wait_for 'get metrics | finds -xF "ocaml_probes_up{exe=\"$V1\"} 1"'
	eq "$(json_of api/v1/status '[(t["exe"], t["pod_uid"], t["container_id"], t["processes"]) for t in it["targets"]][1:]')" \
		"[('/app/service', '$POD', '$ID2', [$PID2]), ('/app/service', None, '$ID3', [$PID]), ('$V1', None, None, [$TARGET])]"
	eq "$(json_of api/v1/history '[t["container_id"] for t in it["targets"]][:2]')" "['$ID1', '$ID2']" "history"

	status=$(order '"exe": "/app/service"')
	eq "$status" 404 "status of an order that does not say which"
	grep -q "container_id" "$TMP/reply" || fail "replied: $(<"$TMP/reply")"
	eq "$(order '"exe": "/app/service", "container_id": "'"$ID1"'"')" 200 "status"
	eq "$("$TOOL" info -pid "$PID1" | grep '^plain ')$("$TOOL" info -pid "$PID2" | grep '^plain ')" \
		"plain enabledplain disabled" "handlers"
	matches "$(<"$TMP/serve.err")" 'handlers of plain in /app/service \[111111111111\] on: 1 process'
}

# The status of an order to switch the handlers of `plain` on in the program that MEMBERS name.
order() { # MEMBERS
	status_of api/v1/switch -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
		-d "{ $1, \"probe\": \"plain\", \"what\": \"handler\", \"on\": true }"
}

# In the terminal, each container has a line.
test_top() {
	need_command script
	among_our_own top
}

screen_has() { # TEXT
	grep -aqF "$1" "$TMP/screen"
}

top() {
	local viewer looks=0
	prepare
	start_two
	# A terminal that cannot repeat characters: xterm can.
	TERM=vt100 background script -qec "stty cols 120 rows 40; exec '$TOOL' top" /dev/null </dev/null >"$TMP/screen" 2>&1
	viewer=$!
	wait_for 'screen_has "service [111111111111]" && screen_has "service [222222222222]" || ((++looks > 600))'
	screen_has "service [111111111111]" && screen_has "service [222222222222]" || fail "$(cat -v "$TMP/screen")"
	kill -TERM "$(pgrep -P "$viewer")"
	wait "$viewer"
}

# The series of a container go two minutes after its processes; those of others stay.
test_series_of_a_container_go() { among_our_own series_of_a_container_go; }

series_of_a_container_go() {
	prepare
	prepare_clock
	start_two
	own=$(own_copy "$V1")
	start_target "$own" --wait
	await_line ready
	LD_PRELOAD=$TMP/later.so start_server
	eq "$(get metrics | grep -c '^ocaml_probes_up{')" 3 "programs"
	kill -KILL "$PID2" "$TARGET"
	wait_for 'values up | finds -xF ",pod_uid=\"$POD\",$IN2 0"'
	wait_for 'get metrics | finds -xF "ocaml_probes_up{exe=\"$own\"} 0"'
	# The numbers of the last moments can be scraped for a while.
	later 60
	sleep 1.5
	eq "$(values up | wc -l)" 2 "containers after a minute"
	later 130
	wait_for '! get metrics | finds -F "$ID2"'
	eq "$(values up)" ",pod_uid=\"$POD\",$IN1 1" "containers after two minutes"
	get metrics | finds -xF "ocaml_probes_up{exe=\"$own\"} 0" || fail "what is in no container was forgotten"
	TARGET=$ONE go 5
	eq "$(values hits_total plain)" ",pod_uid=\"$POD\",$IN1 5" "hits"
}

# One that is measured no more, since that cost too much, is remembered as long as it runs.
test_an_expensive_container_goes() { among_our_own an_expensive_container_goes; }

an_expensive_container_goes() {
	prepare
	prepare_clock
	start_container one "$POD_CGROUP/cri-containerd-$ID1.scope"
	LD_PRELOAD=$TMP/later.so start_server --count=plain --time plain,odd --budget 0.01%
	go 100000
	wait_for '[[ $(json_of api/v1/status "it[\"targets\"][0][\"problem\"]") = "measuring stopped"* ]]'
	later 1000
	sleep 2.5
	get metrics | finds -F "$ID1" || fail "it was forgotten"
	kill -KILL "$PID"
	wait_for '! [[ -e /proc/$PID/exe ]]'
	sleep 1.5
	later 1130
	wait_for '! get metrics | finds -F "$ID1"'
}

# A file of a volume that two containers run is in neither of them, from the moment that it is noticed.
test_a_volume() { among_our_own a_volume; }

a_volume() {
	prepare
	mkdir "$TMP/volume"
	mv "$TMP/image/app/service" "$TMP/volume"
	export PROGRAM=/srv/service
	start_container one "$POD_CGROUP/cri-containerd-$ID1.scope" --volume "$TMP/volume:/srv"
	ONE=$TARGET
	start_server
	go 3
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{probe="plain",exe="\/srv\/service"//p')" \
		",pod_uid=\"$POD\",$IN1} 3" "hits of one"
	start_container two "$POD_CGROUP/cri-containerd-$ID2.scope" --volume "$TMP/volume:/srv"
	wait_for 'get metrics | finds -xF "ocaml_probes_processes{exe=\"/srv/service\"} 2"'
	go 20
	TARGET=$ONE go 100
	eq "$(get metrics | sed -n 's/^ocaml_probes_hits_total{probe="plain",exe="\/srv\/service"//p')" \
		",pod_uid=\"$POD\",$IN1} 3
} 120" "hits of both"
}

# The process that follows one in a container runs the file of that container, not what is at its path for us.
test_a_process_is_followed() { among_our_own a_process_is_followed; }

a_process_is_followed() {
	local other
	prepare
	start_container one "$POD_CGROUP/cri-containerd-$ID1.scope"
	ONE=$TARGET PID1=$PID
	start_target nsenter --target "$PID1" --mount --pid --root --wd=/ /app/service --wait
	await_line ready
	other=$(pgrep -P "$TARGET")
	echo "$other" >"$CGROUPS/$POD_CGROUP/cri-containerd-$ID1.scope/cgroup.procs"
	start_server -pid "$other"
	go 3
	eq "$(values hits_total plain)" ",pod_uid=\"$POD\",$IN1 3" "hits"
	kill -KILL "$other"
	wait_for '[[ $(json_of api/v1/status "it[\"targets\"][0][\"processes\"]") = "['"$PID1"']" ]]'
	TARGET=$ONE go 4
	eq "$(values hits_total plain)" ",pod_uid=\"$POD\",$IN1 7" "hits"
}

# ---- tools/containers -----------------------------------------------------------------------------

# What the DaemonSet's container says at the place PATH, a Python expression of `it`, a word a line.
manifest() { # EXPRESSION
	python3 -c 'import sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    if document["kind"] == "DaemonSet":
        it = document["spec"]["template"]["spec"]["containers"][0]
        print(*eval(sys.argv[2]), sep="\n")' "$MANIFESTS/daemonset.yaml" "$1"
}

# Run COMMAND as the DaemonSet's container does: root without capabilities but CAPS, on file systems that are all
# read-only, and without a way to gain more.
as_daemonset() { # CAPS COMMAND...
	exec unshare --mount --propagation private bash -c '
		caps=-all$0
		while read -r _ path _; do
			[[ $path = /proc* ]] || mount -o remount,bind,ro "$path" || exit
		done <<<"$(tac /proc/self/mounts)"
		for path in "$TMP" /tmp /dev /run; do
			! touch "$path/ocaml-probes-test" 2>/dev/null || { echo "$path can be written" >&2; exit 99; }
		done
		cd /
		exec setpriv --no-new-privs --inh-caps="$caps" --bounding-set="$caps" "$@"' "$@"
}
export -f as_daemonset

# Start `serve` with the manifest's arguments, on another port, and CAPS.
serve_as_daemonset() { # CAPS
	local args
	mapfile -t args < <(manifest 'it["args"]')
	args=("${args[@]/:9464/:0}")
	: >"$TMP/serve.err"
	background bash -c 'as_daemonset "$@"' - "$1" "$TOOL" "${args[@]}" 2>>"$TMP/serve.err"
	SERVER=$!
	wait_for 'has_text "$TMP/serve.err" " serving http" || ! kill -0 "$SERVER" 2>/dev/null'
	PORT=$(sed -n 's|.* serving http://.*:\([0-9]*\)/$|\1|p' "$TMP/serve.err")
	URL=http://127.0.0.1:$PORT/
}

test_capabilities_of_the_daemonset() {
	need_command setpriv
	among_our_own capabilities_of_the_daemonset
}

capabilities_of_the_daemonset() {
	local all caps capability
	prepare
	# Of another user, in a place that nobody else may look into.
	mkdir -m 700 "$TMP/image/app/private"
	mv "$TMP/image/app/service" "$TMP/image/app/private"
	chmod 500 "$TMP/image/app/private/service"
	chown -R 60123 "$TMP/image/app/private"
	PROGRAM=/app/private/service start_container one "$POD_CGROUP/cri-containerd-$ID1.scope" --user 60123
	all=$(manifest '["," + ",".join("+" + name.lower() for name in it["securityContext"]["capabilities"]["add"])]')
	serve_as_daemonset "$all"
	[[ -n $PORT ]] || fail "said: $(<"$TMP/serve.err")"
	go 7
	get metrics | finds -xF "ocaml_probes_hits_total{probe=\"plain\",exe=\"/app/private/service\",pod_uid=\"$POD\",$IN1} 7" ||
		fail "metrics: $(get metrics | grep plain) $(<"$TMP/serve.err")"
	eq "$(get healthz -H 'Host: 10.0.0.7:9464')" ok "healthz, as the kubelet asks"
	end_server
	eq "$SERVER_STATUS" 0 "status"
	# None of them can be done without.
	for capability in ${all//,/ }; do
		caps=${all/,$capability/}
		serve_as_daemonset "$caps"
		case $capability in
		+bpf | +perfmon)
			SERVER_STATUS=0
			wait "$SERVER" || SERVER_STATUS=$?
			eq "$SERVER_STATUS" 3 "status without $capability: $(<"$TMP/serve.err")"
			;;
		*)
			[[ -n $PORT ]] || fail "without $capability: $(<"$TMP/serve.err")"
			eq "$(get metrics | grep -c '^ocaml_probes_up{' || :)" 0 "programs found without $capability"
			end_server
			;;
		esac
	done
	# Switching writes.
	eq "$(bash -c 'as_daemonset "$@"' - "$all" "$TOOL" attach -pid "$PID" -enable plain 2>/dev/null || echo $?)" 3 "switching"
	bash -c 'as_daemonset "$@"' - "$all,+dac_override" "$TOOL" attach -pid "$PID" -enable plain
}

test_manifests() {
	holds python3 "$ROOT/tests/e2e/check_manifests.py" "$MANIFESTS" "$O" >"$TMP/out" 2>&1 || fail "$(<"$TMP/out")"
}

# Faults that would stay unnoticed until somebody applies the files.
test_faults_in_manifests() {
	local fault
	mkdir -p "$TMP/tree/tools"
	cp "$ROOT/LICENSE" "$TMP/tree"
	cp "$ROOT/tools/install-deps" "$TMP/tree/tools"
	while read -r fault; do
		rm -rf "$TMP/tree/tools/containers"
		cp -r "$MANIFESTS" "$TMP/tree/tools"
		sed -i "$fault" "$TMP"/tree/tools/containers/{*.y*ml,Dockerfile}
		! cmp -s <(cat "$MANIFESTS"/{*.y*ml,Dockerfile}) <(cat "$TMP"/tree/tools/containers/{*.y*ml,Dockerfile}) ||
			fail "$fault: changes nothing"
		! holds python3 "$ROOT/tests/e2e/check_manifests.py" "$TMP/tree/tools/containers" "$O" >"$TMP/out" 2>&1 ||
			fail "$fault: was not noticed"
	done <<-'END'
		s/readOnlyRootFilesystem/readOnlyRootFileSystem/
		s/hostPID: true/hostPid: true/
		s/containerPort: 9464/containerPort: 9465/
		s/ocaml-probes", "serve"/ocaml-probes", "top"/;s/--listen", "0.0.0.0:9464"/--listen", "0.0.0.0:9000"/
		s/port: metrics/port: http/
		s/cpu: 50m/cpu: 1/
		s/path: .healthz/path: \/health/
		s/ libelf1 / /
		s/zlib1g/zlib1g libbpf1/
		s/COPY LICENSE/COPY COPYING/
	END
}

# Prometheus understands its configuration, and the query that adds the names of pods. (Debian's has no discovery
# by Kubernetes; check_manifests.py looks at that part.)
test_prometheus() {
	need_command promtool
	python3 -c 'import json, sys, yaml
it = yaml.safe_load(sys.stdin)
del it["scrape_configs"][0]["kubernetes_sd_configs"]
print(json.dumps(it))' <"$MANIFESTS/prometheus.yml" >"$TMP/prometheus.yml"
	promtool check config "$TMP/prometheus.yml" || fail "prometheus.yml"
	python3 - "$MANIFESTS/README.md" >"$TMP/test.yml" <<-'PY'
		import json, re, sys
		query = re.search(r"```promql\n(.*?)```", open(sys.argv[1]).read(), re.S)[1]
		hits = 'ocaml_probes_hits_total{job="ocaml-probes", instance="n%d", exe="/app", pod_uid="%s", container_id="%d", probe="a"}'
		info = 'kube_pod_info{job="kube-state-metrics", namespace="shop", pod="%s", uid="%s", node="n1"}'
		series = [(hits % (1, "u1", 1), 60), (hits % (1, "u1", 2), 120), (hits % (1, "u2", 3), 6),
		          (info % ("front-1", "u1"), 0), (info % ("front-2", "u2"), 0), (info % ("other", "u3"), 0)]
		print(json.dumps({"evaluation_interval": "1m", "tests": [{
		    "interval": "1m",
		    "input_series": [{"series": name, "values": f"{0 if step else 1}+{step}x20"} for name, step in series],
		    "promql_expr_test": [{"expr": query, "eval_time": "15m", "exp_samples": [
		        {"labels": '{namespace="shop", pod="front-1", probe="a"}', "value": 3},
		        {"labels": '{namespace="shop", pod="front-2", probe="a"}', "value": 0.1}]}]}]}))
	PY
	holds promtool test rules "$TMP/test.yml" || fail "the query in README.md"
}

run_tests "$@"
