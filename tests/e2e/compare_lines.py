#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_lines.py SOURCE JSON BOOKS [PROF]: the counts of `ocaml-probes annotate --json` equal the program's.

BOOKS has "mark FILE:LINE N" for each line of SOURCE that was executed and has `here __LINE__`. PROF is
what ocamlprof makes of SOURCE: `(* N *)` before expressions that were executed N times. Lines with
`(* at most *)` can have fewer hits. Prints how many lines were compared with each, or what differs,
with status 1."""

import json
import re
import sys

source, counted, books = sys.argv[1:4]
name = source.rsplit("/", 1)[-1]
hits = {line["line"]: line["hits"] for line in json.load(open(counted))["lines"]}
marks = {}
for line in open(books):
    found = re.fullmatch(r"mark (.*):(\d+) (\d+)\n", line)
    if found and found[1] == name:
        marks[int(found[2])] = int(found[3])
wrong = []
compared = [0]


def expect(number, text, count):
    compared[-1] += 1
    at_most = "(* at most *)" in text
    if hits.get(number) != count and not (at_most and (hits.get(number) or 0) <= count):
        wrong.append(f"{number}: {hits.get(number)} instead of {count}: {text.strip()}")


for number, text in enumerate(open(source), 1):
    if "here __LINE__;" in text:
        expect(number, text, marks.get(number, 0))
if set(marks) - set(hits):
    wrong.append(f"not listed: {sorted(set(marks) - set(hits))}")
if len(sys.argv) > 4:
    compared.append(0)
    for number, text in enumerate(open(sys.argv[4]), 1):
        # One counter, at the beginning of the line, before code that is no function.
        found = re.match(r"\s*\(\* (\d+) \*\)", text)
        if found and "fun " not in text and "function" not in text and number in hits:
            expect(number, text, int(found[1]))
for line in wrong:
    print(line)
print(*compared)
sys.exit(bool(wrong))
