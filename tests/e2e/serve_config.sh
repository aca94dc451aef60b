#!/usr/bin/env bash
# The configuration of `serve`: programs that are not installed yet, and the file, line and key of each error.
#
# needs: fixtures serve
# smoke: test_the_key_of_each_error
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

# Two programs, of which LATE is not there.
configure() { # [KEY-OF-LATE]
	cat >"$TMP/config" <<-END
		{
			"listen": "127.0.0.1:0",
			"targets": [
				{ "exe": "$TMP/late"$1 },
				{ "exe": "$V1", "count": ["plain"] }
			]
		}
	END
}

up() { # PROGRAM
	get metrics | sed -n "s|^ocaml_probes_up{exe=\"$1\"} ||p"
}

# It is not there at the start, comes, goes and comes again.
check_a_late_program() { # [KEY-OF-LATE]
	local other
	start_v1
	other=$TARGET
	configure "$1"
	start_server --config "$TMP/config"
	eq "$(grep -v ' serving http' "$TMP/serve.err")" "ocaml-probes: warning: $TMP/late: does not exist; waiting for it"
	eq "$(json_of api/v1/status 'it["targets"][0]["problem"]')" "does not exist; waiting for it"
	go 10
	eq "$(hits_of plain)" 10 "the other program"
	eq "$(up "$TMP/late")" 0
	cp "$O/tests/fixtures/v1" "$TMP/being_copied"
	mv "$TMP/being_copied" "$TMP/late"
	start_target "$TMP/late" --wait
	await_line ready
	wait_for '[[ $(up "$TMP/late") = 1 ]]'
	eq "$(json_of api/v1/status 'it["targets"][0]["problem"]')" "None"
	go 7
	wait_for '[[ $(get metrics | sed -n "s|^ocaml_probes_hits_total{probe=\"plain\",exe=\"$TMP/late\"} ||p") = 7 ]]'
	go 5 "$other"
	eq "$(grep -c 'does not exist' "$TMP/serve.err")" 1 "what it says: $(<"$TMP/serve.err")"
	end_server
	eq "$SERVER_STATUS" 0 "status"
}

test_a_program_that_does_not_exist_yet() {
	need_bpf
	check_a_late_program ''
}

test_a_program_that_does_not_exist_yet_inside() {
	check_a_late_program ', "engine": "inside"'
}

test_no_program_exists_yet() {
	need_bpf
	V1=$TMP/later
	configure ''
	start_server --config "$TMP/config"
	eq "$(grep -c 'does not exist; waiting for it' "$TMP/serve.err")" 2 "$(<"$TMP/serve.err")"
	# With the option it is a mistake.
	end_server
	check_error 2 "^ocaml-probes: $TMP/late: No such file or directory\$" serve --exe "$TMP/late" --listen 127.0.0.1:0
}

# A program that is taken out of the list, and one that comes to it, at a reload.
test_reload_with_a_program_that_does_not_exist_yet() {
	need_bpf
	start_v1
	echo "{ \"listen\": \"127.0.0.1:0\", \"targets\": [{ \"exe\": \"$V1\", \"count\": [\"plain\"] }] }" >"$TMP/config"
	start_server --config "$TMP/config"
	go 3
	configure ''
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "configuration reloaded, 2 targets"'
	eq "$(grep -c "warning: $TMP/late: does not exist; waiting for it" "$TMP/serve.err")" 1 "$(<"$TMP/serve.err")"
	go 4
	eq "$(hits_of plain)" 7 "hits of the target that stays"
	# Errors of a reload have their places, too.
	sed -i 's/"plain"/"plian"/; s/127.0.0.1:0/127.0.0.1:1/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for "has_text '$TMP/serve.err' 'config:2: listen: cannot change without a restart'"
	sed -i 's/127.0.0.1:1/127.0.0.1:0/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for "grep -q \"config:5: targets.1..count.0.: probe 'plian': no such probe in $V1\" '$TMP/serve.err'"
	sed -i 's/"plian"/"plain"/; 2s/$/ "label_pid": true,/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for "has_text '$TMP/serve.err' 'config:2: label_pid: cannot change without a restart'"
	go 1
	eq "$(hits_of plain)" 8 "hits after wrong files"
}

# "LINE|KEY|STATUS|WHAT|LINES...": the configuration has a line for each "%".
wrong() { # LINE KEY STATUS WHAT TEXT [ARG...]
	local line=$1 key=$2 status=$3 what=$4
	printf '%s\n' "${5//%/$'\n'}" >"$TMP/config"
	key=${key//[/\\[}
	check_error "$status" "^ocaml-probes: $TMP/config:$line: ${key//]/\\]}: $what" serve --config "$TMP/config" "${@:6}"
}

test_the_key_of_each_error() {
	local head='{ "listen": "127.0.0.1:0", "targets": [%'
	need_bpf
	V1=$(own_copy "$V1")
	printf '%s\n' text >"$TMP/text"
	wrong 3 'targets[0].count[0]' 2 "probe 'nosuch': no such probe in $V1" "$head{ \"exe\": \"$V1\",%\"count\": [\"nosuch\"] } ] }"
	wrong 4 'targets[0].count[1]' 2 "probe 'nosuch': no such probe in $V1" "$head{ \"exe\": \"$V1\",%\"count\": [\"plain\",%\"nosuch\"] } ] }"
	wrong 3 'targets[0].count' 2 "regular expression 'z.*': matches no probe" "$head{ \"exe\": \"$V1\",%\"count\": \"z.*\" } ] }"
	wrong 3 'targets[0].count' 2 "regular expression 'z\[': \[ without its \]" "$head{ \"exe\": \"$V1\",%\"count\": \"z[\" } ] }"
	wrong 4 'targets[0].time[0][1]' 2 "probe 'nosuch': no such probe" "$head{ \"exe\": \"$V1\",%\"count\": [\"plain\"],%\"time\": [[\"plain\", \"nosuch\"]] } ] }"
	wrong 3 'targets[0].filter' 2 'filter arg0 >: column 7' "$head{ \"exe\": \"$V1\",%\"filter\": \"arg0 >\" } ] }"
	wrong 4 'targets[0].filter' 2 ".* no argument 'named' for the filter" "$head{ \"exe\": \"$V1\", \"count\": [\"plain\"],%%\"filter\": \"named > 3\" } ] }"
	wrong 3 'targets[0].key' 2 ".* no argument 'named' for the key" "$head{ \"exe\": \"$V1\", \"time\": [[\"plain\", \"neighbour_a\"]],%\"key\": \"named\" } ] }"
	wrong 2 'targets[0].exe' 1 "$TMP/text: not an ELF file" "$head{ \"exe\": \"$TMP/text\" } ] }"
	wrong 2 'targets[0].pid' 5 'pid 4194304: no such process' "$head{ \"pid\": 4194304 } ] }"
	wrong 3 'targets[1].exe' 2 "$TMP/./v1: given twice" "$head{ \"exe\": \"$TMP/v1\" },%{ \"exe\": \"$TMP/./v1\" } ] }"
	wrong 2 listen 1 '192.0.2.1:0: Cannot assign requested address' '{%"listen": "192.0.2.1:0" }'
	wrong 2 listen 2 "'here': not ADDRESS:PORT" '{%"listen": "here" }'
	wrong 2 listen 2 '--control: 0.0.0.0:0: not a loopback address' '{%"listen": "0.0.0.0:0" }' --control
	wrong 3 textfile 2 "$TMP/no/file: No such file or directory" "{ \"targets\": [{ \"exe\": \"$V1\" }],%%\"textfile\": \"$TMP/no/file\" }"
	wrong 1 'hosts[0]' 2 "'http://': not NAME" '{ "hosts": ["http://"] }'
	wrong 1 profile 2 'not true or false' '{ "profile": "yes" }'
	wrong 2 memprof 2 'not true, false, or a number' '{%"memprof": "yes" }'
	wrong 2 memprof 2 'not a number from 1e-9 to 1' '{%"memprof": 1.5 }'
	wrong 2 memprof 2 'not a number from 1e-9 to 1' '{%"memprof": 0 }'
	wrong 1 token_file 2 "requires 'profile', 'memprof', 'record' or the option --control" '{ "token_file": "/nowhere" }'
	wrong 3 token_file 2 '/nowhere: No such file or directory' '{ "listen": "127.0.0.1:0",%"profile": true,%"token_file": "/nowhere" }'
	wrong 2 profile 2 "'profile' requires 'listen'" "{%\"profile\": true, \"textfile\": \"$TMP/metrics\" }"
	wrong 1 listen 2 "'profile': 0.0.0.0:0: not a loopback address, so other machines could profile programs" \
		'{ "listen": "0.0.0.0:0", "profile": true }'
	# Of the option, not of the file.
	echo '{ "listen": "127.0.0.1:1" }' >"$TMP/config"
	check_error 1 '^ocaml-probes: 192.0.2.1:0: Cannot assign' serve --config "$TMP/config" --listen 192.0.2.1:0
	check_error 2 "^ocaml-probes: $TMP/config: targets: not given: --memprof is for programs that are named" serve --config "$TMP/config" --memprof
	check_error 2 "^ocaml-probes: --token-file requires --control, --profile, --memprof or --record$" serve --config "$TMP/config" --token-file "$TMP/text"
	echo '{ "memprof": true }' >"$TMP/config"
	check_error 2 "^ocaml-probes: $TMP/config: targets: not given: 'memprof' is for programs that are named" serve --config "$TMP/config"
}

run_tests "$@"
