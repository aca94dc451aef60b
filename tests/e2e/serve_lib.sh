# shellcheck shell=bash
# What the scripts that test `serve` share: starting it, and asking it.

COUNTED=$O/tests/ocaml/counted
V1=$O/tests/fixtures/v1

# The fixture V1, which waits to be told to go.
start_v1() {
	V1=$(own_copy "$V1")
	start_target "$V1" --wait
	await_line ready
}

go() { # ROUNDS [PID]
	forget_output "${2:-$TARGET}"
	tell "go $1" "${2:-$TARGET}"
	await_line 'done' 60 "${2:-$TARGET}"
}

# Start `serve` with ARGs, on a port of its own choice unless they, or the file of --config, say where. Sets SERVER to its pid,
# FRONT to that of its process that speaks HTTP, URL, which ends with a slash, PORT and TOKEN (empty without --control).
start_server() { # ARG...
	local where=(--listen 127.0.0.1:0)
	[[ " $* " != *" --listen "* && " $* " != *" --config "* ]] || where=()
	: >"$TMP/serve.err"
	background "$TOOL" serve "${where[@]}" "$@" >"$TMP/serve.out" 2>>"$TMP/serve.err"
	SERVER=$!
	wait_for 'has_text "$TMP/serve.err" " serving http" || ! kill -0 "$SERVER" 2>/dev/null'
	kill -0 "$SERVER" 2>/dev/null || fail "it does not serve: $(<"$TMP/serve.err")"
	URL=$(sed -n 's/.* serving \(http[^#]*\).*/\1/p' "$TMP/serve.err")
	TOKEN=$(sed -n 's/.* serving .*#token=//p' "$TMP/serve.err")
	PORT=${URL##*:}
	PORT=${PORT%/}
	# It has children for the textfile, too, for a moment each.
	FRONT=$(pgrep -P "$SERVER" -x probes-http)
}

# End it with SIGNAL. Sets SERVER_STATUS.
end_server() { # [SIGNAL]
	kill "-${1:-TERM}" "$SERVER"
	SERVER_STATUS=0
	wait "$SERVER" || SERVER_STATUS=$?
}

# Have the programs that are started after this find it SECONDS later than it is, as `later SECONDS` says.
prepare_clock() {
	gcc -shared -fPIC -O -x c - -o "$TMP/later.so" -ldl <<-'C'
		#define _GNU_SOURCE
		#include <dlfcn.h>
		#include <fcntl.h>
		#include <stdlib.h>
		#include <time.h>
		#include <unistd.h>

		int clock_gettime(clockid_t clock, struct timespec *time)
		{
			int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
			char text[32] = "";
			int status = real(clock, time), fd;

			if (clock == CLOCK_MONOTONIC && (fd = open(getenv("LATER"), O_RDONLY)) >= 0) {
				if (read(fd, text, sizeof(text) - 1) > 0)
					time->tv_sec += atoi(text);
				close(fd);
			}
			return status;
		}
	C
	export LATER=$TMP/later
	later 0
}

later() { # SECONDS
	echo "$1" >"$LATER.new"
	mv "$LATER.new" "$LATER"
}

# To wait for numbers of this moment, however busy it is.
NEW=(-H 'Cache-Control: no-cache')

# What it answers at PATH; fails if that is no success.
get() { # PATH [CURL-ARG...]
	local path=$1
	shift
	curl -sS --fail-with-body --max-time 300 "${NEW[@]}" "$@" "$URL$path"
}

# The status it answers with, after the reply itself has gone to $TMP/reply.
status_of() { # PATH [CURL-ARG...]
	local path=$1
	shift
	: >"$TMP/reply"
	curl -sS --max-time 300 "${NEW[@]}" -o "$TMP/reply" -w '%{http_code}' "$@" "$URL$path"
}

# "PROBE HITS" lines of a scrape, sorted as the tool does.
scraped_hits() { # [CURL-ARG...]
	get metrics "$@" | sed -n 's/^ocaml_probes_hits_total{probe="\([^"]*\)",exe="[^"]*"} /\1 /p'
}

hits_of() { # PROBE
	scraped_hits | sed -n "s/^$1 //p"
}

# A value in the JSON at PATH, by a Python expression of `it`.
json_of() { # PATH EXPRESSION
	get "$1" | python3 -c 'import json, sys
it = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$2"
}
