# shellcheck shell=bash
# What the scripts that test profiles over HTTP share: asking for one, and reading it. After serve_lib.sh.

# The status of the answer at PATH, with the token; the answer goes to $TMP/reply.
ask() { # PATH [CURL-ARG...]
	status_of "$1" -H "Authorization: Bearer $TOKEN" "${@:2}"
}

# Ask for PATH in the background. Sets ASKED to the id; the answer goes to FILE, the status to FILE.status.
ask_later() { # PATH FILE
	curl -sS --max-time 600 -H "Authorization: Bearer $TOKEN" -o "$2" -w '%{http_code}' "$URL$1" >"$2.status" &
	ASKED=$!
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
def value(function, at=-1, without=None, **wanted):
    """The sum over the stacks with FUNCTION, and not WITHOUT, of the processes that have the labels WANTED."""
    return sum(s.value[at] for s in it.message.sample
               if all(labels(s).get(k) == v for k, v in wanted.items())
               for names in [[f[0] for f in it.frames(s)]]
               if (function is None or function in names) and without not in names)
types = [it.type_name(t) for t in it.message.sample_type]
print(eval("(" + sys.argv[2] + ")"))' "$1" "$2"
}
