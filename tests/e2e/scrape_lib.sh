# shellcheck shell=bash
# What the scripts share that scrape `ocaml-probes serve`.
# shellcheck shell=bash

# The python that has Debian's modules, whatever else is in front of it in PATH.
PYTHON=/usr/bin/python3
STEADY=$O/tests/fixtures/binaries/steady

need_module() { # MODULE...
	local module
	for module; do
		"$PYTHON" -c "import $module" 2>/dev/null || skip "python3 has no $module"
	done
}

# Start `serve ARG...`, or what is in the array serve_command, on a free port; its messages go to
# $TMP/NAME.err. Sets SERVE to its pid, URL to where it is.
serve_command=()
start_serve() { # NAME ARG...
	local name=$1
	shift
	[[ ${#serve_command[@]} -gt 0 ]] || serve_command=("$TOOL" serve --listen 127.0.0.1:0)
	background "${serve_command[@]}" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
	SERVE=$!
	wait_for 'grep -q "serving http" "$TMP/'"$name"'.err" || ! kill -0 "$SERVE"'
	URL=$(sed -n 's|.*serving \(http://[^/]*\)/.*|\1|p' "$TMP/$name.err")
	[[ -n $URL ]] || fail "it does not serve: $(<"$TMP/$name.err")"
}

stop_serve() {
	local status=0
	kill -TERM "$SERVE"
	wait "$SERVE" || status=$?
	eq "$status" 0 "status of serve"
}

scrape() { # [CURL-ARG...]
	curl -sS --fail --max-time 300 -H 'Cache-Control: no-cache' "$@" "$URL/metrics"
}

# The value of the one sample in the text on stdin that is of METRIC and has all LABEL="VALUE" pairs.
sample() { # METRIC [LABEL="VALUE"...]
	awk -v metric="$1" -v labels="$(printf '%s\n' "${@:2}")" '
		BEGIN { n_labels = split(labels, label, "\n") }
		{
			name = $0
			sub(/[{ ].*/, "", name)
			if (name != metric)
				next
			for (i = 1; i <= n_labels; i++)
				if (label[i] != "" && !index($0, label[i]))
					next
			print $NF
		}'
}

# Wait until the scraped METRIC has VALUE; says what it had.
await_sample() { # VALUE METRIC [LABEL="VALUE"...]
	local tries=1000 value
	until value=$(scrape | sample "${@:2}"); [[ $value = "$1" ]]; do
		((tries-- > 0)) || fail "${*:2} is $value, not $1"
		pause 0.05
	done
}

# A copy of the steady program, so that nobody else's uprobes are on the file. Sets EXE.
copy_steady() { # NAME
	EXE=$TMP/$1
	cp "$STEADY" "$EXE"
}

# Have a target leave, and wait for it.
leave() { # [PID]
	local pid=${1:-$TARGET}
	kill -TERM "$pid"
	wait "$pid"
}

# How often the targets that have left passed the probe NAME, all together, as they say.
books() { # NAME
	cat "$TMP"/target.*/out | awk -v name="$1" '
		$1 == name { sub(/hits=/, "", $3); n += $3 }
		END { print n + 0 }'
}
