#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memprof_books BOOKS EVENTS: are the events of `memprof --json` those of the program's own books?

Each event with all that is told of it: number of the block, collections, samples, size, source, call
stack; and how long each block lived, in collections. Prints how many of each kind there are.
"""

import collections
import json
import re
import sys

COLUMNS = re.compile(r":\d+-\d+(?=;|$)")


def read_books(path):
    for line in open(path):
        kind, block, minors, majors, *rest = line.rstrip("\n").split(" ", 7)
        event = (kind, int(block), int(minors), int(majors))
        if rest:
            samples, words, source, stack = rest
            event += (int(samples), int(words), source, COLUMNS.sub("", stack))
        yield event


def read_events(path):
    stacks = {}
    for line in open(path):
        event = json.loads(line)
        kind = event["event"]
        if kind == "stack":
            stacks[event["stack"]] = ";".join(
                f'{frame["file"]}:{frame["line"]}'
                for frame in event["frames"]
                if frame.get("file", "").endswith(".ml")
            )
        elif kind == "end":
            if any(event["lost"].values()) or event["damaged"] or event["cut"]:
                sys.exit(f"lost events: {line}")
        elif kind != "start":
            found = (kind, event["block"], event["minor_collections"], event["major_collections"])
            if kind.startswith("alloc"):
                found += (event["samples"], event["words"], event["source"], stacks[event["stack"]])
            yield found


def lives(events):
    born, life = {}, {}
    for kind, block, minors, majors, *_ in events:
        if kind.startswith("alloc"):
            born[block] = (minors, majors)
        elif kind.startswith("dealloc"):
            life[block] = (kind, minors - born[block][0], majors - born[block][1])
    return life


def main():
    books, events = list(read_books(sys.argv[1])), list(read_events(sys.argv[2]))
    for number, (book, event) in enumerate(zip(books, events)):
        if book != event:
            sys.exit(f"event {number}:\n  books {book}\n  tool  {event}")
    if len(books) != len(events):
        sys.exit(f"{len(books)} events in the books, {len(events)} of the tool")
    if lives(books) != lives(events):
        sys.exit("lives differ")
    kinds = collections.Counter(event[0] for event in events)
    sources = collections.Counter(event[6] for event in events if len(event) > 4)
    print(len(events), *(f"{kind} {kinds[kind]}" for kind in sorted(kinds)))
    print(*(f"{source} {sources[source]}" for source in sorted(sources)), len(lives(events)), "lives")


main()
