# shellcheck shell=bash
# A program with many sites in which int3s are that no uprobe has. For scripts that have lib.sh and target_lib.sh.

MANY=10000
WRAPPER=()

build_many() {
	[[ ! -e $TMP/many ]] || return 0
	gcc -std=gnu11 -D_GNU_SOURCE -O2 -pthread -fPIE -pie -fvisibility=hidden -DSITES=$MANY -DNAMES=1000 \
		-o "$TMP/many" "$ROOT/tools/bench/sites.S" "$ROOT/tools/bench/toggle_target.c"
}

# A program with 10 000 sites that it never passes. $TMP/sites has the places of its sites as leak_uprobes wants
# them. TEXT_BIAS and DATA_BIAS are the differences of addresses and offsets in the file.
start_many() {
	build_many
	start_target "${WRAPPER[@]}" "$TMP/many"
	await_exe "$TMP/many"
	wait_for '[[ $("$TOOL" info -pid "$TARGET" | wc -l) -eq 1000 ]]'
	TEXT_BIAS=$(difference r-xp)
	DATA_BIAS=$(difference rw-p)
	"$TOOL" info -pid "$TARGET" --sites --json | python3 -c '
import json, sys
text, data = (int(arg, 0) for arg in sys.argv[1:])
for site in json.load(sys.stdin)["sites"]:
    print("%x %x" % (int(site["address"], 0) - text, int(site["tracer_semaphore_address"], 0) - data))
' "$TEXT_BIAS" "$DATA_BIAS" >"$TMP/sites"
	eq "$(wc -l <"$TMP/sites")" $MANY "sites"
	FIRST=$((TEXT_BIAS + 0x$(head -n 1 "$TMP/sites" | cut -d' ' -f1)))
	BEFORE=$(memory_of "$TARGET")
}

# Address minus offset in the first mapping of $TMP/many with PROTECTION.
difference() { # PROTECTION
	local range protection offset rest
	while read -r range protection offset rest; do
		[[ $protection = "$1" && $rest = *"$TMP/many" ]] || continue
		printf '%d\n' $((0x${range%-*} - 0x$offset))
		return
	done <"/proc/$TARGET/maps"
	return 1
}

# Run the doctor; its status must be STATUS. What it prints goes to $TMP/doctor.
doctor() { # STATUS [FLAG...]
	local status=0 want=$1
	shift
	"$TOOL" doctor -pid "$TARGET" "$@" >"$TMP/doctor" 2>"$TMP/doctor.err" || status=$?
	eq "$status" "$want" "status of doctor $*: $(cat "$TMP/doctor" "$TMP/doctor.err")"
}

LEFT_OVER='left by a killed tool, through a defect of the kernel; each hit is a trap'

# `doctor` finds the int3s that LEAVE has left, removes them, and finds nothing more. LEAVE is a function: it leaves int3s
# at the sites of the lines LINES of $TMP/sites, with raised semaphores or `without`, and sets LEAKED to their number.
doctor_removes() { # LEAVE
	local kind
	start_many
	doctor 0
	eq "$(<"$TMP/doctor")" "" "before"
	# Each half has a kind of its own: the kernel remembers it for each place.
	for kind in '1,5000' '5001,$ without'; do
		# shellcheck disable=SC2086 # two words
		"$1" $kind
		doctor 1
		eq "$(<"$TMP/doctor")" "$LEAKED int3s in the code of $TMP/many, $LEAKED at sites of probes, belong to no link of a uprobe ($LEFT_OVER)" "$kind"
		eq "$(int3_count "$TARGET")" "$LEAKED" "looking changed them"
		doctor 0 --fix
		eq "$(tail -n 1 "$TMP/doctor")" "fixed: $LEAKED int3s removed that a killed tool had left" "$kind"
		eq "$(memory_of "$TARGET")" "$BEFORE" "text and semaphores, $kind"
		doctor 0
		eq "$(<"$TMP/doctor")" "" "after --fix"
	done
}
