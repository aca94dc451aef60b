"""Events of `memprof --json`."""

import collections
import json
import re

from said import holds, same, text, wrong

COLUMNS = re.compile(r":\d+-\d+(?=;|$)")


def read_books(path):
    for line in text(path).splitlines():
        kind, block, minors, majors, *rest = line.split(" ", 7)
        event = (kind, int(block), int(minors), int(majors))
        if rest:
            samples, words, source, stack = rest
            event += (int(samples), int(words), source, COLUMNS.sub("", stack))
        yield event


def read_events(path):
    stacks = {}
    for line in text(path).splitlines():
        event = json.loads(line)
        kind = event["event"]
        if kind == "stack":
            stacks[event["stack"]] = ";".join(f'{frame["file"]}:{frame["line"]}' for frame in event["frames"]
                                              if frame.get("file", "").endswith(".ml"))
        elif kind == "end":
            holds(f"lost events: {line}", not (any(event["lost"].values()) or event["damaged"] or event["cut"]))
        elif kind != "start":
            found = (kind, event["block"], event["minor_collections"], event["major_collections"])
            if kind.startswith("alloc"):
                found += (event["samples"], event["words"], event["source"], stacks[event["stack"]])
            yield found


def lives(events_):
    born, life = {}, {}
    for kind, block, minors, majors, *_ in events_:
        if kind.startswith("alloc"):
            born[block] = (minors, majors)
        elif kind.startswith("dealloc"):
            life[block] = (kind, minors - born[block][0], majors - born[block][1])
    return life


def events(program, told):
    """events BOOKS EVENTS: each event with all that is told of it, and how long each block lived, in collections. Returns how
    many of each kind there are."""
    books, found = list(read_books(program)), list(read_events(told))
    for number, (book, event) in enumerate(zip(books, found)):
        if book != event:
            wrong.append(f"event {number}:\n  books {book}\n  tool  {event}")
            return None
    same("number of events", len(found), len(books))
    holds("lives differ", lives(books) == lives(found))
    kinds = collections.Counter(event[0] for event in found)
    sources = collections.Counter(event[6] for event in found if len(event) > 4)
    return "\n".join([" ".join([str(len(found)), *(f"{kind} {kinds[kind]}" for kind in sorted(kinds))]),
                      " ".join([*(f"{source} {sources[source]}" for source in sorted(sources)),
                                str(len(lives(found))), "lives"])])
