#!/usr/bin/python3
"""profile_pprof.py DRIVER: what is written in pprof's format, read again and held against what was given."""

import collections
import os
import sys

from made_profiles import SMALL, generated
from pprof_reader import Pprof


def equal(actual, expected, what):
    assert actual == expected, f"{what}: {actual!r}, not {expected!r}"


def unique(items, what):
    items = list(items)
    equal(len(items), len(set(items)), f"different {what}")


def given(made):
    stacks = collections.Counter()
    for samples, value, *numbers in made.stacks:
        frames = tuple((name, file or "", line, inlined)
                       for name, _, file, line, inlined in (made.frames[n] for n in numbers))
        stacks[frames, (samples, value)] += 1
    return stacks


def check_tables(read):
    """Each thing is there once, and all that is mentioned is there."""
    message = read.message
    equal(read.strings[0], "", "the first string")
    unique(read.strings, "strings")
    for table in (message.function, message.location, message.mapping):
        unique((item.id for item in table), "ids")
        assert all(item.id for item in table), "an id is 0"
    unique(((f.name, f.system_name, f.filename) for f in message.function), "functions")
    unique((tuple((line.function_id, line.line) for line in place.line) for place in message.location), "locations")
    equal({place.mapping_id for place in message.location}, {message.mapping[0].id}, "mappings")
    equal({place.address for place in message.location}, {0}, "addresses")
    mapping = message.mapping[0]
    assert mapping.has_functions and mapping.has_filenames and mapping.has_line_numbers and \
        mapping.has_inline_frames, "readers would look for names"
    equal([len(message.label) for message in message.sample if message.label], [], "labels")


def check(driver, made):
    path = os.path.join(os.environ["TMP"], "made.pb.gz")
    made.write(driver, "pprof", path)
    read = Pprof(path)
    message, head = read.message, made.head
    check_tables(read)
    types = {"cpu": [("samples", "count"), ("cpu", "nanoseconds")],
             "wait": [("contentions", "count"), ("delay", "nanoseconds")]}[head["kind"]]
    equal([read.type_name(t) for t in message.sample_type], types, "values")
    equal(read.strings[message.default_sample_type], types[1][0], "value that is shown")
    is_cpu = head["kind"] == "cpu"
    equal(read.type_name(message.period_type), types[is_cpu], "what periods are of")
    equal(message.period, 10**9 // 99 if is_cpu else 1, "period")
    equal((message.time_nanos, message.duration_nanos), (head["start_ns"], head["duration_ns"]), "times")
    comments = [f"{what}: {head[what]} samples" for what in ("truncated", "lost") if head[what]]
    equal([read.strings[c] for c in message.comment], comments, "comments")
    equal(collections.Counter(read.samples()), given(made), "samples")
    folded = collections.Counter()
    for stack in made.stacks:
        folded[";".join(made.names(stack))] += stack[1]
    equal(read.folded(), folded, "folded stacks")
    equal([sum(column) for column in zip(*(s.value for s in message.sample))],
          [sum(s[i] for s in made.stacks) for i in (0, 1)], "sums")
    kinds = {frame[0]: frame[1] for frame in made.frames}
    for function in message.function:
        name = read.strings[function.name]
        equal(read.strings[function.system_name], name if kinds[name] == "c" else "", f"symbol of {name}")


def main():
    driver = sys.argv[1]
    check(driver, SMALL)
    for seed in range(1, 4):
        check(driver, generated(seed, 400, 150, 60))
        check(driver, generated(seed, 400, 150, 60, "wait"))


main()
