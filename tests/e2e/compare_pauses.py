#!/usr/bin/env python3
"""compare_pauses.py TOOL-JSON BOOKS-BEFORE BOOKS-AFTER [PHASE=PERCENT...]: pauses of the collector against OCaml's events.

The books are those of tests/ocaml/phases/events.ml, before and after the work. Numbers must be equal for
all phases; the sum of the times of each PHASE within so many per cent. A line a phase is printed. Status 1:
something differs."""

import json
import sys


def read_books(path):
    books = {}
    for line in open(path):
        name, _domain, spans, ns = line.rsplit(maxsplit=3)
        assert not name.startswith("lost"), line
        books.setdefault(name, [0, 0])
        books[name][0] += int(spans)
        books[name][1] += int(ns)
    return books


total = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")][-1]
before, after = read_books(sys.argv[2]), read_books(sys.argv[3])
limits = {name: float(percent) for name, percent in (arg.split("=") for arg in sys.argv[4:])}
pairs = total["pairs"] if "pairs" in total else total["pauses"]
faults = []
seen = set()
for pair in pairs:
    name = pair["start"]
    if name not in after:
        continue
    seen.add(name)
    spans, ns = (after[name][i] - before.get(name, (0, 0))[i] for i in (0, 1))
    error = 100 * (pair["sum_ns"] - ns) / ns if ns else 0
    print(f"{name}: {pair['count']} pauses of {spans}, {pair['sum_ns']} ns of {ns}, {error:+.2f} %")
    if pair["count"] != spans or pair["starts"] != spans or pair["open"] or pair["orphan_stops"]:
        faults.append(f"{name}: number: {pair}")
    if spans < 20:
        faults.append(f"{name}: too few to tell")
    if abs(error) > limits.get(name, 1e9):
        faults.append(f"{name}: time")
if seen != set(after) or len(seen) != 3:
    faults.append(f"phases: {sorted(seen)} of {sorted(after)}")
print(*faults, sep="\n", end="")
sys.exit(1 if faults else 0)
