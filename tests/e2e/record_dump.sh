#!/usr/bin/env bash
# `record --name NAME` and `record --dump NAME`: a running flight recorder writes a file on request. Who asks gets the path of a
# file that has all hits up to the request, or a reason.
#
# needs: fixtures ocaml
# takes: 25 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/record_lib.sh"

RECORD_FLAGS=(--print work --no-waits --hz 0 --last 1h)

check_dump() { # STATUS TEXT NAME [FLAG...]
	local status=0 want=$1 text=$2
	shift 2
	"$TOOL" record --dump "$@" >"$TMP/said" 2>"$TMP/why" || status=$?
	eq "$status" "$want" "status of --dump $*: $(<"$TMP/why")"
	finds "$text" "$TMP/why" || fail "--dump $*: $(<"$TMP/why")"
}

# Each dump has what happened up to it. The path is absolute, wherever the recorder and the client are.
test_dump() {
	start_reborn
	cd "$TMP"
	start_recording --name flight -o dump.pftrace --html page.html
	pass 3
	eq "$(cd / && "$TOOL" record --dump flight)" "$TMP/dump-1.pftrace
$TMP/page-1.html" "paths"
	eq "$(count_of work "$TMP/dump-1.pftrace")" 3 "hits of the first file"
	holds "$ROOT/tests/record/read_page" "$TMP/page-1.html" "$TMP/page"
	pass 4
	eq "$("$TOOL" record --dump flight | head -1)" "$TMP/dump-2.pftrace" "path"
	eq "$(count_of work "$TMP/dump-2.pftrace")" 7 "hits of the second file"
	stop_recording
	finds '^ocaml-probes: dump-1.pftrace: written, since record --dump$' "$TMP/err"
	finds '^ocaml-probes: 2 files written; a condition held 0 times$' "$TMP/err"
	eq "$(ls "$TMP/run/ocaml-probes")" "" "what is left in the directory"
}

# The recorder does nothing for some time just before it takes a request. What happens meanwhile is in the file, too.
hits_just_before_a_request() { # FLAG...
	local i
	start_reborn
	printf '#!/bin/sh\nexec strace -D -qq -o /dev/null -e trace=accept4 -e inject=accept4:delay_enter=500ms "%s" "$@"\n' "$TOOL" >"$TMP/late"
	chmod +x "$TMP/late"
	TOOL=$TMP/late start_recording --name flight -o "$TMP/dump" "$@"
	for i in 1 2 3; do
		pass 1
		eq "$(count_of work "$("$TOOL" record --dump flight)")" "$i" "hits of file $i"
	done
	stop_recording
}

test_hits_just_before_a_request() { hits_just_before_a_request; }
test_hits_just_before_a_request_inside() { hits_just_before_a_request --engine inside; }

# A request during the second after a condition gets the file that is planned, and is not answered before.
test_dump_while_a_file_is_planned() {
	start_reborn
	start_recording --name flight -o "$TMP/dump" --when 'hit worked'
	pass 2
	eq "$("$TOOL" record --dump flight)" "$TMP/dump-1" "path"
	stop_recording
	finds '^ocaml-probes: 1 file written; a condition held 2 times$' "$TMP/err"
	finds "^ocaml-probes: $TMP/dump-1: written, since hit worked\$" "$TMP/err"
}

# Many clients at once: each gets a whole file.
test_many_clients() {
	local i clients=()
	start_reborn
	start_recording --name flight -o "$TMP/dump" --files 100
	pass 5
	for ((i = 0; i < 40; i++)); do
		background "$TOOL" record --dump flight >"$TMP/client$i" 2>&1
		clients+=($!)
	done
	for i in "${clients[@]}"; do wait "$i" || fail "a client: $(cat "$TMP"/client*)"; done
	for ((i = 0; i < 40; i++)); do [[ -s $(<"$TMP/client$i") ]] || fail "no file: $(<"$TMP/client$i")"; done
	for i in $(sort -u "$TMP"/client*); do eq "$(count_of work "$i")" 5 "hits of $i"; done
	stop_recording
}

# A name belongs to one recorder. The name of a recorder that was killed is free.
test_names() {
	local status=0
	start_reborn
	check_dump 5 "^ocaml-probes: 'flight': no flight recorder of this user has this name\$" flight
	check_dump 2 "^ocaml-probes: '../flight': invalid name" ../flight
	check_dump 2 "^ocaml-probes: '': invalid name\|the name of the file is empty" ''
	start_recording --name flight -o "$TMP/dump"
	"$TOOL" record -pid "$TARGET" --print work --last 1s --name flight -o "$TMP/other" >/dev/null 2>"$TMP/why" || status=$?
	eq "$status" 1 "status of a second recorder"
	finds "^ocaml-probes: 'flight': another flight recorder has this name\$" "$TMP/why" || fail "$(<"$TMP/why")"
	# The first one has not noticed.
	pass 1
	eq "$(count_of work "$("$TOOL" record --dump flight)")" 1 "hits"
	kill -KILL "$RECORDING"
	wait "$RECORDING" || :
	[[ -S $TMP/run/ocaml-probes/record.flight ]] || fail "no stale socket: the test shows nothing"
	check_dump 5 "^ocaml-probes: 'flight': no flight recorder of this user has this name\$" flight
	start_recording --name flight -o "$TMP/dump"
	pass 2
	eq "$(count_of work "$("$TOOL" record --dump flight)")" 2 "hits of the next recorder"
	stop_recording
}

# A recorder that is killed while a client waits, and one that is stopped.
test_recorder_that_does_not_answer() {
	local status=0 client
	start_reborn
	start_recording --name flight -o "$TMP/dump"
	kill -STOP "$RECORDING"
	background "$TOOL" record --dump flight >"$TMP/said" 2>"$TMP/why"
	client=$!
	wait "$client" || status=$?
	eq "$status" 6 "status: $(<"$TMP/why")"
	finds "^ocaml-probes: flight recorder 'flight' does not react\$" "$TMP/why" || fail "$(<"$TMP/why")"
	background "$TOOL" record --dump flight >"$TMP/said" 2>"$TMP/why"
	client=$!
	wait_for '[[ $(cut -d" " -f1 "/proc/$client/syscall") = 7 || $(cut -d" " -f1 "/proc/$client/syscall") = 271 ]]'
	kill -KILL "$RECORDING"
	wait "$RECORDING" || :
	status=0
	wait "$client" || status=$?
	eq "$status" 5 "status: $(<"$TMP/why")"
	finds "^ocaml-probes: flight recorder 'flight' has ended, without a file\$" "$TMP/why" || fail "$(<"$TMP/why")"
	pass 2
}

# The reason why no file was written reaches the client.
test_no_file() {
	start_reborn
	mkdir "$TMP/gone"
	start_recording --name flight -o "$TMP/gone/dump"
	rmdir "$TMP/gone"
	check_dump 1 "^ocaml-probes: flight recorder 'flight': $TMP/gone/dump-1: No such file or directory\$" flight
	wait_for 'has_ended "$RECORDING"'
}

# A directory that others can reach is not used, neither by recorders nor by clients. Other users cannot ask.
test_other_users() {
	local status=0
	need_root
	start_reborn
	start_recording --name flight -o "$TMP/dump"
	eq "$(stat -c '%a %u' "$TMP/run/ocaml-probes")" "700 0" "mode and owner of the directory"
	chmod 711 "$TMP" "$TMP/run"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$TOOL" record --dump flight >/dev/null 2>"$TMP/why" || status=$?
	eq "$status" 5 "status for another user: $(<"$TMP/why")"
	chmod 755 "$TMP/run/ocaml-probes"
	check_dump 5 "warning: $TMP/run/ocaml-probes: is not used: other users than uid 0 can access it" flight
	chmod 700 "$TMP/run/ocaml-probes"
	eq "$("$TOOL" record --dump flight)" "$TMP/dump-1" "path"
	# A socket of another user in our directory is not believed.
	stop_recording
	python3 - "$TMP/run/ocaml-probes/record.flight" <<-'PY' &
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		s.bind(sys.argv[1])
		os.setresuid(65534, 65534, 65534)
		s.listen()
		connection, _ = s.accept()
		connection.recv(10)
		connection.send(b"f/etc/passwd")
		connection.send(b"d")
	PY
	wait_for '[[ -S $TMP/run/ocaml-probes/record.flight ]]'
	wait_for 'finds "00010000 .*/record.flight\$" /proc/net/unix'
	check_dump 3 "^ocaml-probes: 'flight': another user listens on its socket\$" flight
	kill "$!" 2>"$TMP/null" || :
}

# Old files go when the files take more than --disk allows.
test_disk() {
	local n
	start_reborn
	start_recording --name flight -o "$TMP/dump" --disk 1MB
	# A file shows that the recorder has read the hits, which would not all have room in its ring.
	for n in 1 2 3 4 5; do
		pass 4000
		holds "$TOOL" record --dump flight
	done
	for n in 6 7 8; do holds "$TOOL" record --dump flight; done
	n=$(stat -c %s "$TMP/dump-8")
	((n > 350000 && n <= 524288)) || fail "the test needs files of another size than $n"
	# Two files fit, three do not.
	[[ -e $TMP/dump-7 && ! -e $TMP/dump-6 ]] || fail "$(ls -l "$TMP")"
	stop_recording
}

check_mistake() { # TEXT FLAG...
	local status=0 text=$1
	shift
	"$TOOL" record "$@" >"$TMP/said" 2>"$TMP/why" || status=$?
	eq "$status" 2 "status of record $*: $(<"$TMP/why")"
	finds "$text" "$TMP/why" || fail "record $*: $(<"$TMP/why")"
}

test_mistakes() {
	start_reborn
	check_mistake '^ocaml-probes: record: --dump excludes other options$' --dump flight "$TARGET"
	check_mistake '^ocaml-probes: record: --dump excludes other options$' --dump flight -o "$TMP/file"
	check_mistake '^ocaml-probes: record: --dump: given twice$' --dump flight --dump other
	check_mistake '^ocaml-probes: record: --name needs --when or --last$' "$TARGET" --name flight -o "$TMP/file"
	check_mistake '^ocaml-probes: record: --disk needs --when or --last$' "$TARGET" --disk 1GB -o "$TMP/file"
	check_mistake "record: --disk '5': not a size from 1MB to 64GB" "$TARGET" --disk 5 --last 1s -o "$TMP/file"
	check_mistake "^ocaml-probes: 'a b': invalid name" "$TARGET" --last 1s --name 'a b' -o "$TMP/file"
}

run_tests "$@"
