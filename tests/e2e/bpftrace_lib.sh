# shellcheck shell=bash
# Running the commands that `ocaml-probes bpftrace` prints, as they stand, with the distribution's bpftrace.

# Print a command and run it; return when its programs are on as many sites as its first line says.
# Its output comes into $TMP/bpftrace.
start_printed() { # ARG...
	local in_place
	"$TOOL" bpftrace "$@" >"$TMP/command" 2>"$TMP/err"
	eq "$(<"$TMP/err")" "" "what bpftrace $* says"
	# So that it gets the signals; nothing else is changed.
	sed -i -E 's/^([A-Z_=0-9 ]*)bpftrace /exec env \1bpftrace /' "$TMP/command"
	in_place=$(sed -nE '1s/.*\(([0-9]+) sites?\).*/\1/p' "$TMP/command")
	background sh "$TMP/command" >"$TMP/bpftrace" 2>&1
	BPFTRACE=$!
	wait_for "bpftrace_is_attached $in_place" 30
	kill -0 "$BPFTRACE" || fail "$(cat "$TMP/command" "$TMP/bpftrace")"
}

stop_printed() {
	end_bpftrace || fail "$(<"$TMP/bpftrace")"
}
