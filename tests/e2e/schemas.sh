#!/usr/bin/env bash
# tools/schemas: each JSON output is what its schema says, and the schemas have all members that the sources write. The
# configuration of `serve` is taken by its reader if, and only if, the schema takes it. json_schema.py reads the schemas.
#
# needs: fixtures serve ocaml
# not_on: 5.0.* 5.1.* 5.2.*
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"
. "$(dirname "$0")/memprof_lib.sh"
. "$(dirname "$0")/routes_lib.sh"

SCHEMAS=$ROOT/tools/schemas
CHECK=$ROOT/tests/e2e/json_schema.py

# Each object in the FILEs is what the schema NAME says.
fits() { # NAME FILE...
	asserted
	python3 "$CHECK" "$SCHEMAS/$1.schema.json" "${@:2}" >"$TMP/said" || fail "$1: $(<"$TMP/said")"
}

# The output of a command of the tool.
tool_fits() { # NAME COMMAND ARG...
	local name=$1
	shift
	"$TOOL" "$@" </dev/null >"$TMP/output" 2>"$TMP/err" || [[ $? = 1 && $1 = doctor ]] || fail "$*: status $?: $(<"$TMP/err")"
	fits "$name" "$TMP/output"
}

order() { # LINE
	forget_output
	tell "$1"
	await_line 'done' 300
}

# Measure a run of the program from its start to its end.
measured_fits() { # FLAG...
	printf '%s\n' 'go 300 5' hostile numbers |
		"$TOOL" attach --budget none --exe "$TMP/routes" --json -o "$TMP/output" "$@" -- "$TMP/routes" >"$TMP/printed" 2>"$TMP/err" ||
		fail "$*: status $?: $(<"$TMP/err")"
	fits attach "$TMP/output"
}

# ---- the tool ---------------------------------------------------------------------------------

test_attach() {
	need_counting
	cp "$ROUTES/routes" "$TMP"
	measured_fits --count
	measured_fits --count --by-site
	measured_fits --count --by-thread
	measured_fits --count --by-process
	measured_fits --count=number,request_started --by route --time request_started,request_done
	measured_fits --count=number --hist route
	measured_fits --count=anything --hist arg0
	measured_fits --count=fn:Routes.request --time fn:Routes.go
	measured_fits --count=request_started --stack --time request_started,request_done
	measured_fits --print=request_started,number,anything,request_failed
	measured_fits --print=anything --stack
	measured_fits --time request_started,request_done --slower 1ns
	measured_fits --time fn:Routes.go --slower 1ns
	measured_fits --count=request_started --filter 'arg1 == 5' --interval 5ms
	start_target "$TMP/routes"
	await_line ready
	tool_fits attach attach -pid "$TARGET" --count --engine inside --for 50ms --json
	eq "$(python3 "$CHECK" "$SCHEMAS/attach.schema.json" "$TMP/output")" "1 objects"
}

test_kept_meters() {
	need_counting
	need_command mount
	mount -t bpf bpf /sys/fs/bpf
	cp "$ROUTES/routes" "$TMP"
	start_target "$TMP/routes"
	await_line ready
	"$TOOL" attach -pid "$TARGET" --count --time request_started,request_done --keep schemas 2>"$TMP/err" || fail "$(<"$TMP/err")"
	order "go 50 5"
	tool_fits attach read schemas --json
	tool_fits list list --kept --json
	tool_fits attach detach schemas --json
}

test_programs_and_processes() {
	local follower
	need_counting
	cp "$ROUTES/routes" "$TMP"
	tool_fits list list --prog "$TMP/routes" --json
	tool_fits list list --prog "$TMP/routes" --args --json
	tool_fits functions functions --prog "$TMP/routes" --json
	background "$TOOL" list --follow --json >"$TMP/followed" 2>"$TMP/follow.err"
	follower=$!
	wait_for 'has_text "$TMP/follow.err" following || [[ -s $TMP/followed ]]'
	start_target "$TMP/routes"
	await_line ready
	wait_for 'has_text "$TMP/followed" "\"started\".*routes"'
	tool_fits list list --json
	tool_fits info info -pid "$TARGET" --json
	tool_fits info info -pid "$TARGET" --sites --json
	tool_fits functions functions -pid "$TARGET" --json 'Routes\.'
	tool_fits doctor doctor -pid "$TARGET" --json
	"$TOOL" attach -pid "$TARGET" -enable number
	tool_fits info info -pid "$TARGET" --sites --json
	tool_fits doctor doctor -pid "$TARGET" --json --fix
	quit_target
	wait_for 'has_text "$TMP/followed" "\"ended\".*routes"'
	kill -INT "$follower"
	fits list "$TMP/followed"
}

test_samples() {
	need_counting
	cp "$O/tests/ocaml/service" "$TMP/service"
	start_target "$TMP/service"
	wait_for '[[ $(readlink "/proc/$TARGET/exe") = */service ]]'
	tool_fits gc gc -pid "$TARGET" --for 300ms --interval 100ms --json
	tool_fits profile profile -pid "$TARGET" --for 300ms --json
	cp "$TMP/output" "$TMP/old"
	tool_fits profile profile -pid "$TARGET" --for 300ms --json --by-thread
	tool_fits profile profile -pid "$TARGET" --for 300ms --json --alloc
	tool_fits profile profile -pid "$TARGET" --for 300ms --json --off-cpu
	tool_fits profile profile -pid "$TARGET" --for 300ms --json --diff "$TMP/old"
	tool_fits report report -pid "$TARGET" --for 1s --json
	tool_fits attach attach -pid "$TARGET" --count --for 100ms --json
	tool_fits annotate annotate -pid "$TARGET" --for 100ms --json "$ROOT"/tests/ocaml/service/*.ml
}

test_memprof() {
	start_subject shares 0.005
	tool_fits memprof memprof -pid "$TARGET" --rate 0.1 --for 1s --json
	grep -q '"event":"alloc' "$TMP/output" || fail "no allocation"
}

# ---- serve ------------------------------------------------------------------------------------

test_serve() {
	local path
	need_counting
	need_program subject
	cp "$PROGRAM" "$TMP/subject"
	cp "$ROUTES/routes" "$TMP"
	start_target "$TMP/subject" shares 0.005
	await_line ready
	start_target "$TMP/routes"
	await_line ready
	cat >"$TMP/config" <<-END
		{ "listen": "127.0.0.1:0", "profile": true, "memprof": 0.1, "buckets": [0.001, 1], "hosts": ["probes.example"],
		  "record": { "folder": "$TMP/recordings", "last": "5s" },
		  "targets": [
		    { "exe": "$TMP/subject", "time": ["gc:minor"] },
		    { "exe": "$TMP/routes", "by": "route", "by_limit": 3, "by_label": "path", "count": ["request_started", "number"],
		      "time": [["request_started", "request_done"]], "key": "rid", "budget": 50, "engine": "bpf", "when": ["slower request_started,request_done 1h"] } ] }
	END
	fits serve.conf "$TMP/config"
	start_server --config "$TMP/config" --control
	order "go 100 5"
	wait_for '[[ $(json_of api/v1/history "len(it[\"targets\"][0][\"probes\"][0][\"rates\"])") -gt 1 ]]'
	wait_for '[[ $(ask api/v1/heap) = 200 && $(<"$TMP/reply") = *\"running\"* ]]'
	fits serve-heap "$TMP/reply"
	for path in status history history/pairs history/15m; do
		get "api/v1/$path" >"$TMP/output"
		fits "serve-${path%%/*}" "$TMP/output"
	done
	eq "$(ask 'api/v1/profile?kind=cpu&seconds=1')" 200 "$(said "$TMP/reply")"
	fits serve-profile "$TMP/reply"
	eq "$(ask api/v1/switch -H 'Content-Type: application/json' -d "{\"exe\": \"$TMP/routes\", \"probe\": \"number\", \"what\": \"counter\", \"on\": false}")" \
		200 "$(<"$TMP/reply")"
	fits serve-switch "$TMP/reply"
	wait_for '[[ $(ask api/v1/recordings/dump -H "Content-Type: application/json" -d "{\"recorder\": \"routes\"}") = 200 ]]'
	fits serve-dump "$TMP/reply"
	eq "$(ask api/v1/recordings/open -H 'Content-Type: application/json' -d '{"name": "routes-1.html"}')" 200 "$(<"$TMP/reply")"
	fits serve-open "$TMP/reply"
	eq "$(ask api/v1/recordings)" 200 "$(<"$TMP/reply")"
	fits serve-recordings "$TMP/reply"
	finds '"name":"routes-1","time":[0-9.]*,"trace_bytes":[0-9]*,"page_bytes":[0-9]*' "$TMP/reply" || fail "$(<"$TMP/reply")"
	eq "$(status_of api/v1/heap)" 401 "without the token"
	fits serve-error "$TMP/reply"
	end_server
	start_server -pid "$TARGET" --label-pid
	order "go 10 2"
	get api/v1/status >"$TMP/output"
	fits serve-status "$TMP/output"
	eq "$(json_of api/v1/status 'len(it["targets"][0]["rows"]) > 0')" True "rows"
}

# The schema and the reader of the configuration say the same of each file. What the schema cannot know is not here: other
# files, processes, the names of probes, and orders.
test_configurations() {
	holds python3 - "$TOOL" "$TMP/config" "$CHECK" "$SCHEMAS/serve.conf.schema.json" "$ROOT/src/serve/config.c" <<-'PYTHON'
		import json, re, subprocess, sys
		tool, path, check, schema_path, source = sys.argv[1:]
		sys.path.insert(0, check.rsplit("/", 1)[0])
		from json_schema import Schema
		schema = Schema(schema_path)
		BAD_ADDRESS = "127.0.0.1:1x"

		def taken(config):
		    """The reader takes all but the address, which is looked at last."""
		    with open(path, "w") as file:
		        json.dump({**config, "listen": BAD_ADDRESS} if isinstance(config.get("listen", ""), str) and config.get("listen") != "" else config, file)
		    said = subprocess.run([tool, "serve", "--config", path], stderr=subprocess.PIPE, text=True, timeout=60).stderr
		    return f"listen: '{BAD_ADDRESS}'" in said, said

		def tops(key, good, bad):
		    extra = {"targets": [{"exe": "/nowhere"}]} if key in ("memprof", "record") else {"profile": True} if key == "token_file" else {}
		    yield from (({key: value, **extra}, True) for value in good)
		    yield from (({key: value, **extra}, False) for value in bad)

		def targets(key, good, bad):
		    extra = {} if key in ("exe", "pid") else {"exe": "/nowhere"}
		    record = {"record": {"folder": "/x"}} if key == "when" else {}
		    extra |= {"time": [["a", "b"]]} if key in ("depth", "key") else {"by": "x"} if key in ("by_label", "by_limit") else {}
		    yield from (({"targets": [{**extra, key: value}], **record}, True) for value in good)
		    yield from (({"targets": [{**extra, key: value}], **record}, False) for value in bad)

		CASES = [
		    *tops("listen", ["127.0.0.1:0"], [1, "", None]),
		    *tops("hosts", [["a", "b:1"]], [[], "a", [1], [""]]),
		    *tops("buckets", [[0.1], [1e-9, 1, 1e9]], [[], 1, ["1"], [0], [1e10]]),
		    *tops("label_pid", [True, False], [1, "yes"]),
		    *tops("textfile", ["/x"], [1, ""]),
		    *tops("profile", [True, False], [1, "yes", None]),
		    *tops("memprof", [True, False, 1, 1e-9, 0.5], [0, 2, "yes", None, [1]]),
		    *tops("token_file", ["/x"], [1, ""]),
		    *tops("record", [{"folder": "/x"}, {"folder": "/x", "last": "500ms", "files": 1000, "disk_mb": 1, "memory_mb": 65536}],
		          [True, "/x", {}, {"folder": ""}, {"folder": "/x", "last": "5"}, {"folder": "/x", "last": 5}, {"folder": "/x", "files": 0},
		           {"folder": "/x", "files": 1001}, {"folder": "/x", "disk_mb": 0}, {"folder": "/x", "memory_mb": 65537}, {"folder": "/x", "nosuch": 1}]),
		    *tops("targets", [[{"exe": "/x"}, {"pid": 1}]], [[], {}, "x", [1]]),
		    *tops("nosuch", [], [1]),
		    *targets("exe", ["/x"], [1, ""]),
		    *targets("pid", [1, 2**31 - 1], [0, -1, 1.5, "1", 2**31]),
		    *targets("count", ["a.*", ["a"], ["a,b", "c"]], ["", [], [1], [""], 1]),
		    *targets("time", [[["a", "b"]], ["fn:A.f"], ["gc:minor", "c:f"], []], ["fn:A.f", [["a"]], [["a", "b", "c"]], [1], ["a"], ["line:a.ml:1"]]),
		    *targets("depth", [1, 32], [0, 33, 1.5, "1"]),
		    *targets("key", ["arg0", "id", "none"], [1, ""]),
		    *targets("filter", ["id > 1"], [1, ""]),
		    *targets("by", ["arg0", "route", "route'"], [1, "", "5", "a b", "-"]),
		    *targets("by_label", ["path", "_x1"], [1, "", "1x", "a-b", "caf\u00e9"]),
		    *targets("by_limit", [1, 4096], [0, 4097, 1.5, "1"]),
		    *targets("budget", [0.1, 100000], [0, -1, 100001, "5"]),
		    *targets("engine", ["bpf", "auto"], ["", "BPF", 1]),
		    *targets("when", [["pause 10ms"], ["slower a,b 20ms", "hit a if id > 3"]], [[], "pause 10ms", [1], [""]]),
		    *targets("nosuch", [], [1]),
		    *[({"targets": [target]}, False) for target in (
		        {}, {"exe": "/x", "pid": 1}, {"exe": "/x", "depth": 3}, {"exe": "/x", "key": "arg0"}, {"exe": "/x", "by_label": "x"},
		        {"exe": "/x", "by_limit": 5})],
		    ({"targets": [{"exe": "/x", "when": ["pause 1ms"]}], "record": {"folder": "/x"}}, True),
		]
		wrong = []
		for config, is_good in CASES:
		    by_schema, (by_tool, said) = not list(schema.wrong(config)), taken(config)
		    if (by_schema, by_tool) != (is_good, is_good):
		        wrong.append(f"{config}: the schema says {by_schema}, the tool {by_tool}: {said}")
		keys = set(re.findall(r'\{ "(\w+)", take_', open(source).read()))
		tried = {key for config, is_good in CASES if is_good for key in {**config, **config.get("targets", [{}])[0], **config.get("record", {})}}
		if keys != tried or keys != set(schema.members()):
		    wrong.append(f"keys: {keys}, tried {tried}, in the schema {set(schema.members())}")
		sys.exit("\n".join(wrong) or 0)
	PYTHON
}

# ---- the schemas ------------------------------------------------------------------------------

# The names of members in what writes JSON. Names that are made up, such as those of events, are not seen.
test_all_members() {
	local sources
	cd "$ROOT"
	# The data of a page are for its own script.
	mapfile -t sources < <(printf '%s\n' src/tool/*.c src/serve/*.c | grep -v '^src/tool/overview_page.c$')
	grep -ohE 'json_(add_|u64|text|bool|real|scaled|null|open_member|object_object_add)[a-z0-9_]*\([^,()]*, "[a-z0-9_]+"' \
		"${sources[@]}" | sed 's/.*"\(.*\)"/\1/' >"$TMP/names"
	grep -ohE '\bresult_add_[a-z]+\(row, "[a-z0-9_]+"|\badd_(number|int|real|rate|percentage|address|byte)\((row|j|object|to), "[a-z0-9_]+"|\bwrite_(member|number|text_member|items)\([^"()]*"[a-z0-9_]+"' \
		"${sources[@]}" | sed 's/.*"\(.*\)"/\1/' >>"$TMP/names"
	grep -ohE '\\"[a-z0-9_]+\\":' src/tool/{json_writer,cmd_functions,cmd_memprof}.c | tr -d '\\":' >>"$TMP/names"
	python3 "$CHECK" --members "$SCHEMAS"/*.json | LC_ALL=C sort -u >"$TMP/members"
	LC_ALL=C sort -u "$TMP/names" >"$TMP/written"
	(($(wc -l <"$TMP/written") > 200)) || fail "names that were found: $(<"$TMP/written")"
	eq "$(LC_ALL=C comm -23 "$TMP/written" "$TMP/members")" "" "members that no schema has"
}

# What the reader of the schemas finds: each member that is left out, or has another type, and members that are new.
test_the_reader_of_schemas() {
	need_counting
	cp "$ROUTES/routes" "$TMP"
	measured_fits --count --time request_started,request_done
	holds python3 - "$CHECK" "$SCHEMAS/attach.schema.json" "$TMP/output" <<-'PYTHON'
		import copy, json, sys
		sys.path.insert(0, sys.argv[1].rsplit("/", 1)[0])
		from json_schema import Schema, objects
		schema = Schema(sys.argv[2])
		_, good = list(objects(sys.argv[3]))[-1]
		assert not list(schema.wrong(good))
		OPTIONAL = {"engine", "engine_reason", "program_cpu_s", "program_share", "empty_pair_ns", "empty_stepped_pair_ns", "time"}

		def damaged(value, where=()):
		    if isinstance(value, dict):
		        for name in value:
		            if name not in OPTIONAL:
		                yield where, name, None
		            yield where, name, [{}]
		            yield from damaged(value[name], where + (name,))
		        yield where, "made_up", 1
		    if isinstance(value, list) and value:
		        yield from damaged(value[0], where + (0,))
		n = 0
		for where, name, instead in damaged(good):
		    bad = copy.deepcopy(good)
		    at = bad
		    for step in where:
		        at = at[step]
		    if instead is None:
		        del at[name]
		    else:
		        at[name] = instead
		    assert list(schema.wrong(bad)), (where, name, instead)
		    n += 1
		assert n > 80, n
	PYTHON
	for name in "$SCHEMAS"/*; do
		matches "$name" '\.schema\.json$'
		python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); from json_schema import Schema; Schema(sys.argv[2])' "${CHECK%/*}" "$name" ||
			fail "$name"
	done
}

run_tests "$@"
