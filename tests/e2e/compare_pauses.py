#!/usr/bin/env python3
"""compare_pauses.py TOOL-JSON BOOKS-BEFORE BOOKS-AFTER [PHASE=PERCENT...]: pauses of the collector against OCaml's events.

The books are those of tests/ocaml/phases/events.ml, before and after the work. Numbers must be equal for
all phases, and in each domain if TOOL-JSON has domains; the sum of the times of each PHASE within so many
per cent. A line a phase is printed. Status 1: something differs."""

import json
import sys


def read_books(path):
    """By phase, and by phase and domain."""
    books = {}
    for line in open(path):
        name, domain, spans, ns = line.rsplit(maxsplit=3)
        assert not name.startswith("lost"), line
        for key in (name, (name, int(domain))):
            books.setdefault(key, [0, 0])
            books[key][0] += int(spans)
            books[key][1] += int(ns)
    return books


total = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")][-1]
before, after = read_books(sys.argv[2]), read_books(sys.argv[3])
limits = {name: float(percent) for name, percent in (arg.split("=") for arg in sys.argv[4:])}
pairs = total["pairs"] if "pairs" in total else total["pauses"]
faults = []
seen = set()


def compare(what, key, measured, limit):
    spans, ns = (after[key][i] - before.get(key, (0, 0))[i] for i in (0, 1))
    error = 100 * (measured["sum_ns"] - ns) / ns if ns else 0
    print(f"{what}: {measured['count']} pauses of {spans}, {measured['sum_ns']} ns of {ns}, {error:+.2f} %")
    if measured["count"] != spans or measured["starts"] != spans or measured["open"] or measured["orphan_stops"]:
        faults.append(f"{what}: number: {measured}")
    if abs(error) > limit:
        faults.append(f"{what}: time")
    return spans


def compare_domains(name, domains, limit):
    of_books = {key[1] for key in after if key[0] == name and after[key] != before.get(key, [0, 0])}
    if {domain["domain"] for domain in domains} != of_books:
        faults.append(f"{name}: domains {domains}, not {of_books}")
        return
    for domain in domains:
        compare(f"{name} of domain {domain['domain']}", (name, domain["domain"]), domain, limit)


for pair in pairs:
    name = pair["start"]
    if name not in after:
        continue
    seen.add(name)
    limit = limits.get(name, 1e9)
    if compare(name, name, pair, limit) < 20:
        faults.append(f"{name}: too few to tell")
    if "domains" in pair:
        compare_domains(name, pair["domains"], limit)
phases = {key for key in after if isinstance(key, str)}
if seen != phases or len(seen) != 3:
    faults.append(f"phases: {sorted(seen)} of {sorted(phases)}")
print(*faults, sep="\n", end="")
sys.exit(1 if faults else 0)
