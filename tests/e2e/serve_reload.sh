#!/usr/bin/env bash
# The configuration of `serve` is read again, a hundred times, while programs run, clients ask, and a profile is
# taken: no hit of a target that stays is lost, and no descriptor and no process is left over.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"
. "$(dirname "$0")/serve_profile_lib.sh"

RELOADS=100

# A copy of the steady program as $TMP/NAME, for no uprobes but this test's.
copy_steady() { # NAME
	cp "$O/tests/fixtures/binaries/steady" "$TMP/$1"
}

start_steady() { # NAME
	start_target "$TMP/$1" 200
	await_line ready
}

# Write the configuration with the targets NAME...; a file is never seen half written.
configure() { # NAME...
	local name targets=()
	for name; do
		targets+=("{ \"exe\": \"$TMP/$name\", \"time\": [[\"work_start\", \"work_stop\"]] }")
	done
	printf '{ "listen": "127.0.0.1:0", "targets": [%s] }\n' "$(IFS=,; echo "${targets[*]}")" >"$TMP/config.new"
	mv "$TMP/config.new" "$TMP/config"
}

# Have the server read it, and wait until it has said so.
reload() { # WHAT-IS-SAID
	local n
	n=$(grep -c "$1" "$TMP/serve.err" || :)
	kill -HUP "$SERVER"
	wait_for '[[ $(grep -c "'"$1"'" "$TMP/serve.err") -gt '"$n"' ]] || has_ended '"$SERVER"
	! has_ended "$SERVER" || fail "it ended: $(<"$TMP/serve.err")"
}

# A client that asks until $TMP/stop is there. Statuses other than those of an answer, or of a busy server, go to $TMP/refused.
ask_on() { # PATH
	local status
	until [[ -e $TMP/stop ]]; do
		status=$(curl -sS --max-time 300 -o "$TMP/asked.${1//\//_}" -w '%{http_code}' "$URL$1") || :
		[[ $status = 200 || $status = 503 ]] || echo "$status" >>"$TMP/refused"
	done
}

# What it has open, a line a kind, and its child processes.
held() {
	find "/proc/$SERVER/fd" "/proc/$FRONT/fd" -type l -printf '%l\n' 2>/dev/null | sed 's/:\[.*//' | sort | uniq -c
	pgrep -P "$SERVER" -l | cut -d' ' -f2-
}

# It has found out what a hit costs, and has looked into the process for good.
await_rest() {
	wait_for '[[ $(ls "/proc/$SERVER/task" | wc -l) -eq 1 &&
		$(json_of api/v1/status "it[\"targets\"][0][\"probes\"][0][\"handler\"]") = o* ]]'
}

await_held() { # EXPECTED
	(wait_for '[[ $(held) = "'"$1"'" ]]') || eq "$(held)" "$1" "what it holds"
}

# The hits of PROBE in the file of the program NAME.
hits_in() { # NAME PROBE
	get metrics | sed -n "s|^ocaml_probes_hits_total{probe=\"$2\",exe=\"$TMP/$1\"} ||p"
}

# Of round N: another target comes or goes, or the file is damaged.
change() { # N
	case $(($1 % 4)) in
	0) configure stays comes && reload 'configuration reloaded, 2 targets' ;;
	1) echo '{ "targets": [' >"$TMP/config" && reload 'keeping the old configuration' ;;
	2) configure comes stays && reload 'configuration reloaded, 2 targets' ;;
	3) configure stays && reload 'configuration reloaded, 1 target$' ;;
	esac
}

test_a_hundred_reloads() {
	local clients=() path stays comes before i
	need_counting
	copy_steady stays
	copy_steady comes
	configure stays
	start_server --config "$TMP/config" --profile --control
	start_steady stays
	stays=$TARGET
	start_steady comes
	comes=$TARGET
	wait_for '[[ $(hits_in stays tick) -gt 0 ]]'
	await_rest
	before=$(held)
	for path in metrics api/v1/status api/v1/history; do
		ask_on "$path" &
		clients+=($!)
	done
	ask_later 'debug/pprof/profile?seconds=3' "$TMP/profile"
	for ((i = 0; i < RELOADS; i++)); do
		change "$i"
	done
	wait "$ASKED"
	eq "$(<"$TMP/profile.status")" 200 "status of the profile: $(said "$TMP/profile")"
	touch "$TMP/stop"
	wait "${clients[@]}"
	[[ ! -e $TMP/refused ]] || fail "statuses: $(sort "$TMP/refused" | uniq -c)"
	eq "$(get metrics | grep -c '^ocaml_probes_up')" 1 "targets at the end"
	await_held "$before"
	# The program that went is left alone, and the other one's books agree.
	BEFORE=$(memory_of "$comes")
	eq "$(grep -c '^ cc' <<<"$BEFORE" || :)" 0 "int3 in the program that is no target any more"
	for TARGET in "$stays" "$comes"; do
		kill -TERM "$TARGET"
		finish_target
		eq "$TARGET_STATUS" 0 "status of a target"
	done
	for path in tick work_start work_stop; do
		eq "$(hits_in stays "$path")" "$(sed -n "s/^$path .*hits=//p" "$(output_of "$stays")")" "hits of $path"
	done
	end_server
	eq "$SERVER_STATUS" 0 "status: $(tail -n 5 "$TMP/serve.err")"
}

# Signals that come faster than files are read; the last file counts.
test_many_signals() {
	local before i
	need_counting
	copy_steady stays
	configure stays
	start_server --config "$TMP/config"
	start_steady stays
	wait_for '[[ $(hits_in stays tick) -gt 0 ]]'
	await_rest
	before=$(held)
	for ((i = 0; i < 500; i++)); do
		kill -HUP "$SERVER"
	done
	copy_steady comes
	configure stays comes
	reload 'configuration reloaded, 2 targets'
	configure stays
	reload 'configuration reloaded, 1 target$'
	await_held "$before"
	kill -TERM "$TARGET"
	finish_target
	eq "$(hits_in stays tick)" "$(sed -n 's/^tick .*hits=//p' "$(output_of)")" "hits"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

run_tests "$@"
