#!/usr/bin/env python3
"""compare_pairs.py MEASURED PROGRAM [counts]: what `attach --count --time ... --json` measured, against what
`pairs` says of itself. Prints a line for each figure that is not as it should be.

Counts are the same. The program reads its clock within each pair and around it: a time that was
measured is between its two, as it is with sums, the shortest and the longest. With a third argument only
the counts are compared."""

import json
import sys

wrong = []


def expect(what, got, wanted):
    if got != wanted:
        wrong.append(f"{what}: {got}, the program says {wanted}")


def at_most(what, got, limit):
    if got > limit:
        wrong.append(f"{what}: {got}, at most {limit:.0f}")


def read_program(path):
    said = {"probe": {}, "pair": {}, "thread": {}}
    with open(path) as lines:
        for line in lines:
            words = line.split()
            figures = {k: int(v) for k, v in (w.split("=") for w in words if "=" in w)}
            if words[0] in said:
                said[words[0]][words[1]] = figures
            else:
                said.update(figures)
    return said


def compare_counts(pair, program):
    name = pair["start"]
    said = program["pair"][name]
    for ours, theirs in (("count", "count"), ("orphan_starts", "orphan_starts"),
                         ("orphan_stops", "orphan_stops"), ("open", "open")):
        expect(f"{name} {ours}", pair[ours], said[theirs])
    expect(f"{name} map_full", pair["map_full"], 0)
    expect(f"{name} in all buckets", sum(b["count"] for b in pair["buckets"]), said["count"])


def compare_times(pair, program, empty_pair_ns):
    name = pair["start"]
    said = program["pair"][name]
    if name == "step_start":
        # Between these is little more than nothing. How near the two are is for time_pair.bench.
        at_most("half the floor, against the median", empty_pair_ns / 2, pair["p50_ns"])
        at_most("the median, against three floors", pair["p50_ns"], 3 * empty_pair_ns)
    at_most(f"the program's sum within {name}", said["within_ns"], pair["sum_ns"])
    at_most(f"{name} sum", pair["sum_ns"], said["around_ns"])
    at_most(f"the program's shortest {name}", said["shortest_ns"], pair["min_ns"])
    at_most(f"{name} max", pair["max_ns"], said["longest_ns"])
    for low, high in (("min_ns", "p50_ns"), ("p50_ns", "p90_ns"), ("p90_ns", "p99_ns"),
                      ("p99_ns", "p999_ns")):
        at_most(f"{name} {low}, above {high}", pair[low] * 7 // 8, pair[high])
    at_most(f"{name} p999, above the longest by an eighth", pair["p999_ns"] * 7 // 8, pair["max_ns"])


def main(measured_path, program_path, counts_only=None):
    with open(measured_path) as lines:
        measured = json.loads(lines.read().splitlines()[-1])
    program = read_program(program_path)
    expect("version", measured["version"], 4)
    expect("type", measured["type"], "total")
    hits, threads = {}, {}
    for row in measured["probes"]:
        hits[row["name"]] = hits.get(row["name"], 0) + row["hits"]
        if "tid" in row:
            threads[str(row["tid"])] = threads.get(str(row["tid"]), 0) + row["hits"]
    if hits:
        expect("hits", hits, {name: said["hits"] for name, said in program["probe"].items()})
    if threads:
        expect("hits by thread", threads,
               {tid: said["hits"] for tid, said in program["thread"].items()})
    for pair in measured["pairs"]:
        compare_counts(pair, program)
        if not counts_only:
            compare_times(pair, program, measured["empty_pair_ns"])
    for name, lost in measured["losses"].items():
        expect(f"lost, {name}", lost, 0)
    if not hits and not measured["pairs"]:
        wrong.append("nothing was measured")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
