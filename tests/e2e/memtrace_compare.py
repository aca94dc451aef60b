#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memtrace_compare TRACE EVENTS BEFORE AFTER [BOOKS]: is the memtrace file what `--json` printed?

Each event of the same session: kind, time, number of the block, words, samples, source, and the stack with
functions, files and lines. All times are between BEFORE and AFTER (microseconds since 1970). With
BOOKS, those of the program itself: also the columns of each frame. Prints how many of each kind
there are.
"""

import collections
import json
import sys

import memtrace_reader

UNKNOWN = ["<unknown>", 0]


def source_of(event):
    if event["source"] == "custom":
        return "external"
    return event["event"].removeprefix("alloc_")


def read_json(path):
    """The start, and the events as the file must have them, with times of the program's clock."""
    start, end, stacks, numbers, events, last = None, None, {}, {}, [], 0
    for line in map(json.loads, open(path)):
        kind = line["event"]
        if kind == "start":
            start = line
        elif kind == "stack":
            stacks[line["stack"]] = [
                [frame["function"], frame.get("file", UNKNOWN[0]), frame.get("line", UNKNOWN[1])]
                for frame in reversed(line["frames"])
            ]
        elif kind == "end":
            end = line
        else:
            last = max(last, line["time_ns"] // 1000)
            event = {"kind": kind.split("_")[0].replace("dealloc", "collect"), "time": last}
            if event["kind"] == "alloc":
                numbers[line["block"]] = len(numbers)
                event |= {"length": line["words"], "samples": line["samples"]}
                event |= {"source": source_of(line), "stack": stacks[line["stack"]]}
            event["block"] = numbers[line["block"]]
            events.append(event)
    if not start or not end or end["damaged"]:
        sys.exit(f"no whole session: {start} to {end}")
    return start, events


def read_books(path):
    for line in open(path):
        kind, _, _, _, *rest = line.rstrip("\n").split(" ", 7)
        event = {"kind": kind.split("_")[0].replace("dealloc", "collect")}
        if rest:
            samples, words, source, stack = rest
            event |= {"samples": int(samples), "length": int(words), "stack": stack}
            event["source"] = source_of({"event": kind, "source": source})
        yield event


def as_in_books(event):
    event = {key: value for key, value in event.items() if key not in ("time", "block")}
    if event["kind"] == "alloc":
        event["stack"] = ";".join(
            f"{file}:{line}:{first}-{last}"
            for _, file, line, first, last in reversed(flat(event["stack"]))
            if file.endswith(".ml")
        )
    return event


def flat(stack):
    return [place for places in stack for place in places]


def compare(found, expected, what):
    for number, (one, other) in enumerate(zip(found, expected)):
        if one != other:
            sys.exit(f"event {number}:\n  trace {one}\n  {what} {other}")
    if len(found) != len(expected):
        sys.exit(f"{len(found)} events in the trace, {len(expected)} in {what}")


def main():
    info, trace = memtrace_reader.read(sys.argv[1])
    start, events = read_json(sys.argv[2])
    before, after = int(sys.argv[3]), int(sys.argv[4])
    if (info["rate"], info["pid"]) != (start["rate"], start["pid"]):
        sys.exit(f"the trace is of {info}, the events are of {start}")
    if not before <= info["start"] <= trace[0]["time"] <= trace[-1]["time"] <= after:
        sys.exit(f"times {info['start']}, {trace[0]['time']}, {trace[-1]['time']}: not in {before}, {after}")
    if len(sys.argv) > 5:
        compare([as_in_books(event) for event in trace], list(read_books(sys.argv[5])), "books")
    for event in trace:
        if event["kind"] == "alloc":
            event["stack"] = [place[:3] for place in flat(event["stack"])]
    # Both clocks go on together.
    distance = trace[0]["time"] - events[0]["time"]
    for event in events:
        event["time"] += distance
    compare(trace, events, "json")
    kinds = collections.Counter(event["kind"] for event in trace)
    sources = collections.Counter(event.get("source") for event in trace)
    print(*(f"{kind} {kinds[kind]}" for kind in sorted(kinds)))
    print(*(f"{source} {sources[source]}" for source in memtrace_reader.SOURCES))


main()
