#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_stacks.py HITS STACKS [--fibres] [--inlined] [--outermost NAME...]: what `--print here --stack --json`
has printed of a program, against what Printexc told its handlers: STACKS, see record.ml of tests/ocaml/trees
and tests/ocaml/recorded.

Each hit is in both. Its frames of OCaml are the same, in the same order: name, file, line, inlined or not.
Printexc knows no frames of C, and the program's handler is its first frame. Printexc leaves out
frames whose place the compiler did not know, such as calls of the collector where a function polls; the tool has
no line for them. Of stacks that are deeper than
the tool walks the innermost frames are the same.

--fibres: where a fibre's code is called by C, Printexc of OCaml 5 stops, and the tool goes on or says that the
stack is truncated. NAMES are where Printexc's stacks end otherwise. --inlined: a tenth of the stacks must have
inlined functions."""

import argparse
import json
import re
import sys

OUTERMOST = ["Trees", "Thread.create.(fun)", "Domain.spawn.body"]
DEEPEST = 1024


def short(name):
    """Stdlib__List.map is List.map, Dune__exe__Service.find is Service.find."""
    return re.sub(r"^(Stdlib|Dune\.exe)\.(?=.)", "", name.replace("__", "."))


def of_printexc(line):
    number, *slots = line.rstrip("\n").split("|")
    frames = []
    for slot in slots:
        if slot != "?":
            file, at, inlined, name = slot.split(":", 3)
            frames.append((short(name), file, int(at), inlined == "1"))
    assert frames[0][0] == "Record.here", line
    return int(number), frames[1:]


def of_tool(hit):
    """The frames, and whether the stack is whole, truncated for its depth, or for another reason."""
    stack = hit["stack"]
    frames = [
        (f["function"], f["file"], f["line"], f.get("inlined", False))
        for f in stack
        if f["kind"] == "ocaml" and "file" in f
    ]
    if stack[-1]["kind"] != "truncated":
        return frames, "whole"
    calls = [f for f in stack[:-1] if not f.get("inlined")]
    return frames, "deep" if len(calls) == DEEPEST else "truncated"


def is_same(printexc, frames, kind, fibres, outermost):
    if kind == "deep":
        return printexc[: len(frames)] == frames and len(printexc) > len(frames)
    if printexc == frames and kind == "whole":
        return True
    return fibres and printexc[-1][0] not in outermost and frames[: len(printexc)] == printexc


def show(what, frames):
    print(what)
    for name, file, line, inlined in frames:
        print(f"    {name} {file}:{line}{' [inlined]' if inlined else ''}")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("hits")
    parser.add_argument("stacks")
    parser.add_argument("--fibres", action="store_true")
    parser.add_argument("--inlined", action="store_true")
    parser.add_argument("--outermost", nargs="*", default=OUTERMOST)
    return parser.parse_args()


def read_hits(path):
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            hit = json.loads(line)
            if hit["type"] == "hit":
                assert hit["args"][0] not in found, line
                found[hit["args"][0]] = of_tool(hit)
    return found


def main():
    args = arguments()
    with open(args.stacks, encoding="ascii") as file:
        expected = dict(map(of_printexc, file))
    found = read_hits(args.hits)
    wrong = sorted(expected.keys() ^ found.keys())
    if wrong:
        print(f"{len(wrong)} hits are not in both, such as {wrong[:5]}")
    n_wrong = 0
    n_inlined = n_truncated = n_deep = n_longer = n_frames = 0
    for number in expected.keys() & found.keys():
        printexc, (frames, kind) = expected[number], found[number]
        n_frames += len(printexc)
        n_inlined += any(frame[3] for frame in printexc)
        n_truncated += kind == "truncated"
        n_deep += kind == "deep"
        n_longer += len(frames) > len(printexc)
        if not is_same(printexc, frames, kind, args.fibres, args.outermost):
            n_wrong += 1
            if n_wrong <= 3:
                show(f"hit {number}, Printexc:", printexc)
                show(f"the tool, {kind}:", frames)
    print(
        f"{len(expected)} stacks, {len(set(map(tuple, expected.values())))} different, {n_frames} frames,"
        f" {n_inlined} stacks with inlined functions; {n_truncated} truncated, {n_deep} too deep,"
        f" {n_longer} longer than Printexc's; {n_wrong} wrong"
    )
    few = not expected or (args.inlined and n_inlined * 10 < len(expected))
    sys.exit(len(wrong) + n_wrong > 0 or few)


main()
