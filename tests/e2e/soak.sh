#!/usr/bin/env bash
# `serve` for long: programs come and go by the hundred, and nothing of them stays. Nothing is lost,
# either: what was counted is what they all did.
#
# SOAK_SECONDS=600 (`make soak`) goes on for ten minutes, and leaves what it saw every second in
# $O/soak.tsv.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/scrape_lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-15}
TEST_TIMEOUT=$((SOAK_SECONDS + 60))
# How many programs at least; how many run side by side, for how many rounds of how many a second.
LEAST=200 LANES=8 ROUNDS=60 HZ=400
# What may be more at the end than after the first quarter: pages of the heap that are not given back.
MAY_GROW_KB=512

# "FDS MAPS PROGS LINKS RSS_KB ANON_KB" of process PID.
holds() { # PID
	local fds
	fds=$(ls "/proc/$1/fd" | wc -l)
	cat "/proc/$1/fdinfo"/* 2>/dev/null | awk -v fds="$fds" -v ORS=' ' '
		/^map_id:/ { maps++ }
		/^prog_id:/ { if (!in_link) progs++ }
		/^pos:/ { in_link = 0 }
		/^link_id:/ { links++; in_link = 1 }
		END { print fds, maps + 0, progs + 0, links + 0 }'
	awk '/^VmRSS|^RssAnon/ { print $2 }' "/proc/$1/status" | xargs
}

# The ids of all that process PID has of BPF: "map 12", "prog 34", "link 56".
bpf_of() { # PID
	cat "/proc/$1/fdinfo"/* 2>/dev/null | sed -nE 's/^(map|prog|link)_id:[[:space:]]*/\1 /p' | sort -u
}

# Those of "KIND ID" lines that the kernel still has.
still_there() { # FILE
	local kind id
	while read -r kind id; do
		! bpftool "$kind" show id "$id" >/dev/null 2>&1 || echo "$kind $id"
	done <"$1"
}

# Run programs one after the other until the time is over and there were enough; each writes its own
# books. A FILE to stop by.
run_lane() { # NUMBER
	local i
	for ((i = 0; ; i++)); do
		((SECONDS < SOAK_SECONDS || i * LANES < LEAST)) || break
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
	while :; do
		for who in "${!serves[@]}"; do
			curl -sS --fail -o /dev/null "${urls[$who]}/metrics"
			echo "$who $SECONDS $(holds "${serves[$who]}")"
		done
		sleep 1
	done >"$TMP/held"
}

# Of all that WHO held from the first quarter on: do descriptors and BPF objects stay, and is there no
# more memory in the last quarter (its least) than there was in the second (its most)?
check_held() { # WHO
	awk -v who="$1" -v may_grow="$MAY_GROW_KB" '
		$1 == who { n++; fds[n] = $3; bpf[n] = $4 " " $5 " " $6; rss[n] = $7 }
		END {
			if (n < 6) { print who ": looked at only " n " times"; exit 1 }
			for (i = int(n / 4) + 1; i <= n; i++) {
				if (fds[i] > most_fds) most_fds = fds[i]
				if (bpf[i] != bpf[n]) { print who ": BPF objects " bpf[i] ", then " bpf[n]; bad = 1 }
				if (i <= int(n / 2) && rss[i] > early) early = rss[i]
				if (i > int(n * 3 / 4) && (!late || rss[i] < late)) late = rss[i]
			}
			# One connection of a scrape may be open at the moment.
			if (most_fds > fds[1] + 2) { print who ": " fds[1] " descriptors, then " most_fds; bad = 1 }
			if (late > early + may_grow) { print who ": " early " kB, then " late; bad = 1 }
			printf "%s: %d kB after %d looks, %d at the end\n", who, early, n / 2, late
			exit bad
		}' "$TMP/held"
}

test_programs_come_and_go() {
	local who i lanes=() watching runs pins survivor
	local -A serves urls
	need_counting
	need_command curl bpftool
	pins=$(ls /sys/fs/bpf/ocaml-probes 2>/dev/null || :)
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
	start_target "$EXE" "$HZ" "$ROUNDS"
	start_serve pid -pid "$TARGET" --time work_start,work_stop
	serves[pid]=$SERVE urls[pid]=$URL
	wait "$TARGET"

	SECONDS=0
	watch_exporters &
	watching=$!
	for ((i = 0; i < LANES; i++)); do
		run_lane "$i" &
		lanes+=($!)
	done
	wait "${lanes[@]}"
	sleep 2
	kill "$watching"
	cp "$TMP/held" "$O/soak.tsv"

	# The survivor ends as well: all books are complete.
	leave "$survivor"
	runs=$(($(cat "$TMP"/lane.[0-9] | grep -c '^tick ') + 2))
	((runs >= LEAST)) || fail "only $runs programs"
	for who in exe by_pid; do
		URL=${urls[$who]}
		for i in tick work_start work_stop; do
			await_sums "$i"
		done
		eq "$(scrape | sample ocaml_probes_pair_duration_seconds_count)" \
			"$(($(booked work_stop) + $(books work_stop)))" "pairs"
		await_sample "$runs" ocaml_probes_pair_orphans_total 'side="start"'
		await_sample 0 ocaml_probes_pair_open
		await_sample 0 ocaml_probes_up
		eq "$(scrape | sample ocaml_probes_lost_total | sort -u)" 0 "losses"
	done
	for who in exe by_pid pid; do
		check_held "$who" || fail "$who keeps something: $(grep "^$who " "$TMP/held")"
	done
	check_nothing_stays
	eq "$(ls /sys/fs/bpf/ocaml-probes 2>/dev/null || :)" "$pins" "pins"
}

# The hits of NAME, whatever they are told apart by, are what all programs have booked.
await_sums() { # NAME
	local want sum tries=250
	want=$(($(booked "$1") + $(books "$1")))
	until sum=$(scrape | sample ocaml_probes_hits_total "probe=\"$1\"" | awk '{ n += $1 } END { print n + 0 }')
		[[ $sum -eq $want ]]; do
		((tries-- > 0)) || fail "$1 was hit $want times, and $sum counted"
		sleep 0.02
	done
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
		fail "where is their BPF: $(cat "$TMP/bpf")"
	for who in "${!serves[@]}"; do
		SERVE=${serves[$who]}
		stop_serve
	done
	eq "$(int3_count "$TARGET")" 0 "sites with an int3, at the end"
	eq "$(raised_semaphores "$TARGET")" 0 "raised semaphores"
	wait_for '[[ -z $(still_there "$TMP/bpf") ]]' 10
	leave
}

run_tests "$@"
