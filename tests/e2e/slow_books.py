"""slow_books.py FOLDER BOOKS: compare what `attach --slower` wrote to FOLDER/out.* with the books that
tests/ocaml/pairs/slow.ml printed."""

import ast
import datetime
import json
import re
import sys

folder, books_file = sys.argv[1:3]
text = open(books_file, encoding="utf-8").read()
pattern = r'^pair (\d+) (".*") (\d+) within_ns=(\d+) around_ns=(\d+)$'
books = {int(i): (ast.literal_eval(name), int(tid), int(within), int(around))
         for i, name, tid, within, around in re.findall(pattern, text, re.M)}
assert len(books) > 100, len(books)


def read(name):
    objects = [json.loads(line) for line in open(f"{folder}/out.{name}")]
    return [o for o in objects if o["type"] == "slow"], objects[-1]


def check(name, event):
    """An event is the pair of the books: its arguments, its thread and its time."""
    number = event["stopped"]["named"]["id"]
    its_name, tid, within, around = books[number]
    named = {"id": number, "name": its_name}
    assert event["started"]["named"] == named and event["stopped"]["named"] == named, (name, event)
    assert event["started"]["args"] == [number, its_name], (name, event)
    assert event["stopped"]["args"] == [its_name, number], (name, event)
    assert (event["start"], event["stop"]) == ("enter", "leave"), (name, event)
    for thread in event, event["started"]:
        assert (thread["tid"], thread["comm"]) == (tid, "slow"), (name, event, tid)
    assert within <= event["ns"] <= around, (name, event, within, around)
    # The time at which the stop was recorded.
    took = event["time_s"] - event["started"]["time_s"]
    assert took * 1e9 >= event["ns"] - 2000, (name, event)
    told = datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
    age = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - told
    assert 0 <= age.total_seconds() < 600, (name, event["time"])
    return number


def no_losses(total):
    names = "slow_limited", "slow_dropped", "slow_unkept"
    return [total["losses"][name] for name in names] == [0, 0, 0]


for name in "all", "keyed":
    events, total = read(name)
    pair = total["pairs"][0]
    numbers = [check(name, event) for event in events]
    assert sorted(numbers) == sorted(books), (name, len(numbers), len(books))
    assert pair["count"] == total["slow"] == total["slow_printed"] == len(books), (name, total)
    assert sum(event["ns"] for event in events) == pair["sum_ns"], (name, pair["sum_ns"])
    assert max(event["ns"] for event in events) == pair["max_ns"], name
    assert no_losses(total), (name, total["losses"])
    times = [event["time_s"] for event in events]
    assert times == sorted(times), name

for name, bound in ("slow", 3000000), ("filtered", 3000000):
    events, total = read(name)
    filtered = name == "filtered"
    mine = {n: b for n, b in books.items() if not filtered or n < 300}
    numbers = {check(name, event) for event in events}
    assert len(numbers) == len(events) == total["slow"], (name, total)
    assert total["pairs"][0]["count"] == len(mine), (name, total["pairs"][0]["count"], len(mine))
    assert numbers <= set(mine), name
    for number, (_, _, within, around) in mine.items():
        assert number in numbers or within < bound, (name, number, within)
        assert number not in numbers or around >= bound, (name, number, around)
    assert no_losses(total), (name, total["losses"])
    assert 10 < len(events) < len(mine), (name, len(events))

events, total = read("limited")
assert total["slow"] == len(books), total
assert len(events) == total["slow_printed"], total
assert len(events) + total["losses"]["slow_limited"] == len(books), total
assert 5 <= len(events) and total["losses"]["slow_limited"] > 0, total
for event in events:
    check("limited", event)

lines = open(f"{folder}/out.text", encoding="utf-8").read().splitlines()
shown = [re.match(r'\d\d:\d\d:\d\d\.\d{6} \d+/(\d+) slow \d[0-9.]*(?:ns|us|ms|s) enter id=(\d+) name=(".*") -> '
                  r"leave name=(\".*\") id=(\d+)$", line) for line in lines if " -> " in line]
assert all(shown), lines[:3]
for match in shown:
    name, tid, _, _ = books[int(match[2])]
    assert (int(match[1]), match[5]) == (tid, match[2]), match[0]
    assert ast.literal_eval(match[3]) == ast.literal_eval(match[4]) == name, match[0]
last = [line for line in lines if re.match(r"\d+ slow pair", line)]
assert last == [f"{len(shown)} slow pairs: {len(shown)} printed (0 without the arguments of the start), "
                "0 suppressed by --limit, 0 dropped (buffer full)"], last
