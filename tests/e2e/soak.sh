#!/usr/bin/env bash
# `serve` for long: programs come and go by the hundred, and nothing of them stays. Nothing is lost,
# either: what was counted is what they all did.
#
# SOAK_SECONDS=600 (`make soak`) goes on for ten minutes, and leaves what it saw every second in
# $O/soak.tsv: WHO, the second, descriptors, BPF maps, programs, links, resident and anonymous kB.
#
# takes: 60 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-15}
# `serve` forgets rows of processes that have ended each five minutes: a shorter run sees them grow.
FORGETS_AFTER=300
TEST_TIMEOUT=$((SOAK_SECONDS + 600 + (SOAK_SECONDS > FORGETS_AFTER ? FORGETS_AFTER : 0)))
# How many programs at least, and how many looks at what is held; how many run side by side, for how
# many rounds of how many a second.
LEAST=200 LOOKS=10 LANES=8 ROUNDS=60 HZ=400
# How much more may be held in the last quarter than in the second: pages of the heap that are not given
# back. With rows by process, also the rows of 3 probes for each process that is not yet forgotten.
MAY_GROW_KB=128
KB_A_PROCESS=4

# What is known of the descriptors of process PID, of which some may be closed meanwhile.
fdinfo() { # PID
	cat "/proc/$1/fdinfo"/* 2>/dev/null || :
}

# "FDS MAPS PROGS LINKS RSS_KB ANON_KB" of process PID.
held_by() { # PID
	local fds
	fds=$(ls "/proc/$1/fd" | wc -l)
	fdinfo "$1" | awk -v fds="$fds" -v ORS=' ' '
		/^map_id:/ { maps++ }
		/^prog_id:/ { if (!in_link) progs++ }
		/^pos:/ { in_link = 0 }
		/^link_id:/ { links++; in_link = 1 }
		END { print fds, maps + 0, progs + 0, links + 0 }'
	awk '/^VmRSS|^RssAnon/ { print $2 }' "/proc/$1/status" | xargs
}

# The ids of all that process PID has of BPF: "map 12", "prog 34", "link 56".
bpf_of() { # PID
	fdinfo "$1" | sed -nE 's/^(map|prog|link)_id:[[:space:]]*/\1 /p' | sort -u
}

# Those of "KIND ID" lines that the kernel still has.
still_there() { # FILE
	local kind id
	while read -r kind id; do
		! bpftool "$kind" show id "$id" >/dev/null 2>&1 || echo "$kind $id"
	done <"$1"
}

# Run programs one after the other until the time is over and there were enough; each writes its own
# books.
run_lane() { # NUMBER
	local i
	for ((i = 0; ; i++)); do
		((SECONDS < SOAK_SECONDS || i * LANES < LEAST)) ||
			[[ $(grep -c . "$TMP/held") -lt $((LOOKS * 3)) ]] || break
		"$EXE" "$HZ" "$ROUNDS" >"$TMP/lane.$1.last" 2>&1
		grep ' hits=' "$TMP/lane.$1.last" >>"$TMP/lane.$1"
	done
}

booked() { # PROBE
	cat "$TMP"/lane.[0-9] | awk -v name="$1" '
		$1 == name { sub(/hits=/, "", $3); n += $3 }
		END { print n + 0 }'
}

# What there is of the three exporters, which are scraped, a line a second each: "WHO SECONDS HOLDS...".
watch_exporters() {
	local who
	trap - ERR
	while :; do
		for who in "${!serves[@]}"; do
			curl -sS --fail -o /dev/null "${urls[$who]}/metrics"
			echo "$who $SECONDS $(held_by "${serves[$who]}")"
		done
		sleep 1
	done >"$TMP/held"
}

# Of all that WHO held from the first quarter on: do BPF objects stay, and is there no more memory in the
# last quarter (its least) than there was in the second (its most)?
check_held() { # WHO MAY_GROW_KB
	awk -v who="$1" -v may_grow="$2" '
		$1 == who { n++; bpf[n] = $4 " " $5 " " $6; kb[n] = $8 }
		END {
			if (n < 6) { print who ": looked at only " n " times"; exit 1 }
			for (i = int(n / 4) + 1; i <= n; i++) {
				if (bpf[i] != bpf[n]) { print who ": BPF objects " bpf[i] ", then " bpf[n]; bad = 1 }
				if (i <= int(n / 2) && kb[i] > early) early = kb[i]
				if (i > int(n * 3 / 4) && (!late || kb[i] < late)) late = kb[i]
			}
			if (late > early + may_grow) { print who ": " early " kB, then " late; bad = 1 }
			exit bad
		}' "$TMP/held"
}

# Wait until WHO has opened, and closed, what it needs for the survivor, the one process there is: it
# knows what a hit costs, the thread that has found it out has ended, and it has looked into it.
await_rest() { # WHO PID
	wait_for '[[ $(ls "/proc/${serves['"$1"']}/task" | wc -l) -eq 1 ]]'
	wait_for '[[ $(curl -sS --fail "${urls['"$1"']}/api/v1/status" | "$PYTHON" -c "import json, sys
target = json.load(sys.stdin)[\"targets\"][0]
print(target[\"processes\"], target[\"probes\"][0][\"handler\"])") = "['"$2"'] off" ]]'
	wait_for '[[ $(ls "/proc/${serves['"$1"']}/task" | wc -l) -eq 1 ]]'
	wait_for '[[ $(ls -l "/proc/${serves['"$1"']}/fd" | grep -c socket:) -eq 1 ]]'
}

# What WHO holds but for memory.
objects_of() { # WHO
	held_by "${serves[$1]}" | cut -d' ' -f1-4
}

test_programs_come_and_go() {
	local who i lanes=() watching runs survivor may_grow first
	local -A serves urls at_first
	need_counting
	need_command curl bpftool
	PINS=$(pins)
	copy_steady steady
	start_serve exe --exe "$EXE" --time work_start,work_stop
	serves[exe]=$SERVE urls[exe]=$URL
	start_serve by_pid --exe "$EXE" --time work_start,work_stop --label-pid
	serves[by_pid]=$SERVE urls[by_pid]=$URL
	start_target "$EXE" 50
	survivor=$TARGET
	await_line ready
	eq "$(int3_count "$survivor")" 4 "sites with an int3, while they are counted"
	# A process that ends, and has successors.
	start_target "$EXE" "$HZ"
	start_serve pid -pid "$TARGET" --time work_start,work_stop
	serves[pid]=$SERVE urls[pid]=$URL
	leave
	first=$(books tick)
	for who in "${!serves[@]}"; do
		await_rest "$who" "$survivor"
		at_first[$who]=$(objects_of "$who")
	done

	SECONDS=0
	: >"$TMP/held"
	watch_exporters &
	watching=$!
	for ((i = 0; i < LANES; i++)); do
		run_lane "$i" &
		lanes+=($!)
	done
	wait "${lanes[@]}"
	kill -0 "$survivor" 2>/dev/null || { wait "$survivor"; fail "a program that is measured has died"; }
	sleep 2
	kill "$watching"
	wait "$watching" || :
	cp "$TMP/held" "$O/soak.tsv"
	runs=$(cat "$TMP"/lane.[0-9] | grep -c '^tick ')
	((runs >= LEAST)) || fail "only $runs programs"
	echo "# $runs programs" >>"$O/soak.tsv"
	for who in "${!serves[@]}"; do
		may_grow=$MAY_GROW_KB
		if [[ $who = by_pid ]] && ((SOAK_SECONDS <= FORGETS_AFTER)); then
			may_grow=$((runs * KB_A_PROCESS))
		fi
		check_held "$who" "$may_grow" || fail "$who keeps something: $(grep "^$who " "$TMP/held")"
		wait_for '[[ $(objects_of "$who") = "${at_first[$who]}" ]]' ||
			fail "$who has $(objects_of "$who") and had ${at_first[$who]}"
	done
	# Of the rows by process, those of the living process are there, and in the end no others.
	URL=${urls[by_pid]}
	if ((SOAK_SECONDS > FORGETS_AFTER)); then
		wait_for '[[ $(scrape | sample ocaml_probes_hits_total pid= | wc -l) -eq 3 ]]' $((FORGETS_AFTER + 5))
	fi
	matches "$(scrape)" "ocaml_probes_hits_total\{[^}]*pid=\"$survivor\""

	# The process that was named has ended long ago; another of its program is measured.
	URL=${urls[pid]}
	await_sample 1 ocaml_probes_up
	(($(scrape | sample ocaml_probes_hits_total 'probe="tick"') > first)) || fail "-pid: only its first process"

	# The survivor ends as well: all books are complete.
	leave "$survivor"
	for who in exe by_pid; do
		URL=${urls[$who]}
		await_sample $(($(booked work_stop) + $(books work_stop))) ocaml_probes_pair_duration_seconds_count
		await_sample $((runs + 2)) ocaml_probes_pair_orphans_total 'side="start"'
		await_sample 0 ocaml_probes_pair_open
		await_sample 0 ocaml_probes_up
		eq "$(scrape | sample ocaml_probes_lost_total | sort -u)" 0 "losses"
		for i in tick work_start work_stop; do
			eq "$(scrape | sample ocaml_probes_hits_total "probe=\"$i\"" | awk '{ n += $1 } END { print n }')" \
				"$(($(booked "$i") + $(books "$i")))" "$who: hits of $i"
		done
	done
	check_nothing_stays
}

pins() {
	ls /sys/fs/bpf/ocaml-probes 2>/dev/null || :
}

# The exporters end: a new process of the program is as it was, and the kernel has none of theirs.
check_nothing_stays() {
	local who
	start_target "$EXE" 50
	await_line ready
	eq "$(int3_count "$TARGET")" 4 "sites with an int3"
	for who in "${!serves[@]}"; do
		bpf_of "${serves[$who]}"
	done >"$TMP/bpf"
	[[ $(grep -c '^map' "$TMP/bpf") -ge 3 && $(grep -c '^link' "$TMP/bpf") -ge 3 ]] ||
		fail "where is their BPF: $(<"$TMP/bpf")"
	for who in "${!serves[@]}"; do
		SERVE=${serves[$who]}
		stop_serve
	done
	# Not at once if somebody looks at all links of the machine and so holds one of these.
	wait_for '[[ $(int3_count "$TARGET") -eq 0 ]]'
	wait_for '[[ $(raised_semaphores "$TARGET") -eq 0 ]]'
	wait_for '[[ -z $(still_there "$TMP/bpf") ]]'
	# Those of others, who test just that, go.
	wait_for '[[ -z $(comm -13 <(echo "$PINS") <(pins)) ]]'
	leave
}

run_tests "$@"
