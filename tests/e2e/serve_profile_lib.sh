# shellcheck shell=bash
# What the scripts that test profiles over HTTP share: asking for one, and reading it. After serve_lib.sh.

# The status of the answer at PATH, with the token; the answer goes to $TMP/reply.
ask() { # PATH [CURL-ARG...]
	status_of "$1" -H "Authorization: Bearer $TOKEN" "${@:2}"
}

# Ask for PATH in the background. Sets ASKED to the id; the answer goes to FILE, the status to FILE.status.
ask_later() { # PATH FILE
	curl -sSv --max-time 600 -H "Authorization: Bearer $TOKEN" -o "$2" -w '%{http_code}' "$URL$1" >"$2.status" 2>"$2.log" &
	ASKED=$!
}

# The server takes the profiles that were asked for. It has read the requests, and hands them on in that order: what it has
# answered later shows that the others have begun.
await_begun() { # FILE...
	local file port
	printf -v port %04X "$PORT"
	for file; do
		wait_for "grep -q '^> ' $(printf %q "$file.log")"
	done
	# Nothing that was sent waits to be read: local address, remote address, state, tx_queue:rx_queue.
	wait_for "! grep -E '^ *[0-9]+: [0-9A-F]+:$port [0-9A-F:]+ 01 ' /proc/net/tcp | grep -v ' [0-9A-F]*:00000000 '"
	eq "$(ask "debug/pprof/profile?seconds=1&hz=99")" 200 "$(said "$TMP/reply")"
}

# The beginning of an answer, which may be a profile.
said() { # FILE
	head -c 300 "$1" | tr -d '\0'
}

# The labels, value types and stacks of a file of pprof, by an independent reader.
read_pprof() { # FILE PYTHON-EXPRESSION of `it`, `folded(exe, pid)`
	[[ -e $TMP/profile_pb2.py ]] || protoc --proto_path="$ROOT/tests/profile" --python_out="$TMP" profile.proto
	PYTHONPATH="$ROOT/tests/e2e" /usr/bin/python3 -B -c '
import collections, sys
from pprof_reader import Pprof
it = Pprof(sys.argv[1])
def labels(sample):
    return {it.strings[l.key]: it.strings[l.str] if l.str else l.num for l in sample.label}
def value(function, at=-1, at_end=None, **wanted):
    """The sum over the stacks with FUNCTION, which end AT_END, of the processes that have the labels WANTED."""
    return sum(s.value[at] for s in it.message.sample
               if all(labels(s).get(k) == v for k, v in wanted.items())
               for names in [[f[0] for f in it.frames(s)]]
               if (function is None or function in names) and at_end in (None, names[-1]))
types = [it.type_name(t) for t in it.message.sample_type]
print(eval("(" + sys.argv[2] + ")"))' "$1" "$2"
}
