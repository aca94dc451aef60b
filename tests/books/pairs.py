"""Pairs: numbers, times, single slow ones, and pauses of the collector."""

import ast
import collections
import datetime
import math
import re
import statistics

from said import at_most, between, figures, found, hits_by, holds, objects, same, text, total


def pairs(totals, program, counts_only=None):
    """pairs TOTALS BOOKS [counts]: what was measured of tests/ocaml/pairs/pairs.ml or skipping.ml.

    Counts are the same. The program reads its clock within each pair and around it: a time that was measured is
    between its two, as it is with sums, the shortest and the longest. `counts`: only the counts are compared."""
    t, said = total(totals), figures(program)
    same("version and type", (t["version"], t["type"]), (4, "total"))
    for what, key, rows in ("hits", "name", "probe"), ("hits by thread", "tid", "thread"):
        if hits := hits_by(t, key):
            same(what, sorted((str(of), n) for of, n in hits.items()),
                 sorted((of, figures_["hits"]) for of, figures_ in said[rows].items()))
    for pair in t["pairs"]:
        same_counts(pair, said["pair"][pair["start"]])
        if not counts_only:
            same_times(pair, said["pair"][pair["start"]], t)
    for name, lost in t["losses"].items():
        same(f"lost, {name}", lost, 0)
    holds("nothing was measured", t["probes"] or t["pairs"])


def same_counts(pair, said):
    name = pair["start"]
    for figure in "count", "orphan_starts", "orphan_stops", "open":
        same(f"{name} {figure}", pair[figure], said[figure])
    same(f"{name} map_full", pair["map_full"], 0)
    same(f"{name} in all buckets", sum(b["count"] for b in pair["buckets"]), said["count"])


def same_times(pair, said, t):
    name, floor = pair["start"], t["empty_pair_ns"]
    # Between these is little more than nothing. How near the two are is for time_pair.bench. Inside of the process an
    # empty pair takes less time than the program needs to read its clock.
    if name == "step_start" and t["engine"] == "bpf":
        between("the median, against the floor", floor / 2, pair["p50_ns"], 3 * floor)
    between(f"{name} sum", said["within_ns"], pair["sum_ns"], said["around_ns"])
    at_most(f"the program's shortest {name}", said["shortest_ns"], pair["min_ns"])
    at_most(f"{name} max", pair["max_ns"], said["longest_ns"])
    for low, high in (("min_ns", "p50_ns"), ("p50_ns", "p90_ns"), ("p90_ns", "p99_ns"), ("p99_ns", "p999_ns"),
                      ("p999_ns", "max_ns")):
        at_most(f"{name} {low}, above {high} by an eighth", pair[low] * 7 // 8, pair[high])


def intervals(totals):
    """intervals TOTALS: of counts, pairs and buckets intervals add up to the total."""
    *parts, t = objects(totals)
    same("types", [part["type"] for part in (*parts, t)], len(parts) * ["interval"] + ["total"])
    same("versions", {part["version"] for part in (*parts, t)}, {4})
    between("intervals", 4, len(parts), math.inf)
    for i, probe in enumerate(t["probes"]):
        hits = [part["probes"][i]["hits"] for part in parts]
        same(f"hits of {probe['name']}", sum(hits), probe["hits"])
        holds(f"{probe['name']}: all hits in one interval", sum(map(bool, hits)) > 1 or "stray" in probe["name"])
    for i, pair in enumerate(t["pairs"]):
        name = pair["start"]
        for figure in "count", "sum_ns", "orphan_starts", "orphan_stops":
            same(f"{name}: {figure}", sum(part["pairs"][i][figure] for part in parts), pair[figure])
        buckets = collections.Counter()
        for b in (b for part in parts for b in part["pairs"][i]["buckets"]):
            buckets[b["from_ns"]] += b["count"]
            holds(f"{name}: wide: {b}", b["below_ns"] <= b["from_ns"] * 9 / 8 or b["from_ns"] < 16)
        same(f"{name}: buckets", sorted(buckets.items()), [(b["from_ns"], b["count"]) for b in pair["buckets"]])


def times(totals, program):
    """times TOTALS BOOKS: the times of calls of tests/ocaml/calls/timed.ml. A sum is between that of the times inside of the
    calls and that of the times around them, which differ by less than 1 %, more only if the machine is busy and another
    process runs between two clocks. Returns the number of functions compared."""
    t = total(totals)
    return times_of(t, [pair["start"] for pair in t["pairs"]], program)


def times_of(t, names, program):
    """Compare the pairs NAMES of the total T."""
    books = {name: [int(n) for n in numbers.split()] for name, numbers in found(program, r"call (\S+) (.*)")}
    inner_sum = outer_sum = 0
    for pair in (pair for pair in t["pairs"] if pair["start"] in names):
        name = pair["start"].removeprefix("fn:")
        n, inner, outer = books[name]
        raised = books.get(f"{name}:raised", [0])[0]
        same(f"{name}: starts, count, orphan starts and open, orphan stops, map_full",
             [pair["starts"], pair["count"], pair["orphan_starts"] + pair["open"], pair["orphan_stops"],
              pair["map_full"]], [n, n - raised, raised, 0, 0])
        if outer:
            between(f"{name}: ns", inner, pair["sum_ns"], outer)
            inner_sum, outer_sum = inner_sum + inner, outer_sum + outer
    at_most("the books differ too much themselves: ns around", outer_sum, 1.1 * inner_sum)
    return len(names)


def times_of_a_pattern(totals, program, at_least):
    """times_of_a_pattern TOTALS BOOKS N: of the functions that match patterns, those that have books, which are at least N."""
    names = {f"fn:{name}" for name, _ in found(program, r"call (\S+) (.*)")}
    timed = [pair["start"] for pair in total(totals)["pairs"]]
    same("rows", len(set(timed)), len(timed))
    compared = times_of(total(totals), [name for name in timed if name in names], program)
    at_most("functions with books", int(at_least), compared)
    return compared


def function_pairs(what, totals, program):
    """function_pairs by_thread|by_key TOTALS BOOKS: pairs of functions of tests/ocaml/calls/paired.ml.
    function_pairs with_probes TOTALS BOOKS: pairs of functions and probes of tests/ocaml/requests.ml."""
    pairs = [pair for pair in total(totals)["pairs"] if pair["stop"]]
    # A start that is left is open, or an orphan: the process may have ended before or after the last reading.
    got = {pair["start"] + "," + pair["stop"]: [pair["starts"], pair["count"], pair["orphan_starts"] + pair["open"],
                                                pair["orphan_stops"], pair["not_keyed"], pair["map_full"]]
           for pair in pairs}
    if what == "with_probes":
        # Each request has a number before it is put.
        n = int(found(program, r"starts=(\d+)")[0]) - int(found(program, r"orphan_starts=(\d+)")[0])
        same("pairs", got, {"number,fn:Requests.put": [n, n, 0, 0, 0, 0],
                            "fn:Requests.put,number": [n, n - 1, 1, 1, 0, 0]})
        return len(got)
    books = {name: [int(n) for n in numbers.split()] for name, numbers in found(program, r"call (\S+) (.*)")}
    calls = {name: numbers[0] for name, numbers in books.items()}
    times, lost = {pair["start"]: pair["sum_ns"] for pair in pairs}, calls["enters"] - calls["leaves"]
    if what == "by_thread":
        same("pairs", got, {
            "fn:Paired.enters,fn:Paired.leaves": [calls["enters"], calls["leaves"], lost, 0, 0, 0],
            "fn:Paired.opens,fn:Paired.closes": [calls["opens"], calls["closes"], 0, calls["lone"], 0, 0]})
        hits = {probe["name"]: probe["hits"] for probe in total(totals)["probes"]}
        if hits:
            same("counted", hits, {"fn:Paired.closes": calls["closes"] + calls["lone"]})
        holds("exceptions", lost > 0)
        name, start = "visit", "fn:Paired.enters"
    else:
        again = calls["takes"] - calls["gives"]
        same("pairs", got, {"fn:Paired.takes,fn:Paired.gives": [
            calls["takes"] + calls["no_int"], calls["gives"], again, 0, calls["no_int"], 0]})
        name, start = "request", "fn:Paired.takes"
    _, inner, outer = books[name]
    between(f"{name}: ns", inner, times[start], outer)
    return len(got)


# ---- slow pairs -------------------------------------------------------------------------------


def slow(folder, program):
    """slow FOLDER BOOKS: what `attach --slower` wrote to FOLDER/out.*, of tests/ocaml/pairs/slow.ml."""
    pattern = r'pair (\d+) (".*") (\d+) within_ns=(\d+) around_ns=(\d+)'
    books = {int(i): (ast.literal_eval(name), int(tid), int(within), int(around))
             for i, name, tid, within, around in found(program, pattern)}
    holds("too few pairs", len(books) > 100)
    for name in "all", "keyed":
        events, t = slow_events(folder, name, books)
        pair = t["pairs"][0]
        same(f"{name}: numbers", sorted(events), sorted(books))
        same(f"{name}: counts", [pair["count"], t["slow"], t["slow_printed"]], 3 * [len(books)])
        same(f"{name}: sum and max", [pair["sum_ns"], pair["max_ns"]],
             [sum(events.values()), max(events.values())])
    for name, below in ("slow", None), ("filtered", 300):
        events, t = slow_events(folder, name, books)
        mine = {n: book for n, book in books.items() if not below or n < below}
        same(f"{name}: counts", [t["slow"], t["pairs"][0]["count"]], [len(events), len(mine)])
        holds(f"{name}: others than these", events.keys() <= mine.keys())
        for number, (_, _, within, around) in mine.items():
            holds(f"{name}: {number} is {within} to {around} ns",
                  within < 3000000 if number not in events else around >= 3000000)
        between(f"{name}: events", 11, len(events), len(mine) - 1)
    events, t = slow_events(folder, "limited", books)
    same("limited", [t["slow"], t["slow_printed"] + t["losses"]["slow_limited"], t["slow_printed"]],
         [len(books), len(books), len(events)])
    between("limited: printed", 5, len(events), len(books) - 1)
    slow_text(text(f"{folder}/out.text").splitlines(), books)


def slow_events(folder, name, books):
    """The nanoseconds by number, and the total."""
    *others, t = objects(f"{folder}/out.{name}")
    events = [event for event in others if event["type"] == "slow"]
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    for event in events:
        number = event["stopped"]["named"]["id"]
        its_name, tid, within, around = books[number]
        named = {"id": number, "name": its_name}
        same(f"{name}: {number}",
             [event["started"]["named"], event["stopped"]["named"], event["started"]["args"], event["stopped"]["args"],
              event["start"], event["stop"], event["tid"], event["comm"], event["started"]["tid"],
              event["started"]["comm"]],
             [named, named, [number, its_name], [its_name, number], "enter", "leave", tid, "slow", tid, "slow"])
        between(f"{name}: {number}: ns", within, event["ns"], around)
        # The time at which the stop was recorded.
        at_most(f"{name}: {number}: ns between the times", event["ns"] - 2000,
                (event["time_s"] - event["started"]["time_s"]) * 1e9)
        age = now - datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
        between(f"{name}: {number}: age", 0, age.total_seconds(), 600)
    at = [event["time_s"] for event in events]
    if name in ("all", "keyed"):
        holds(f"{name}: the order of time", at == sorted(at))
    if name != "limited":
        same(f"{name}: losses", [t["losses"][loss] for loss in ("slow_limited", "slow_dropped", "slow_unkept")], [0, 0, 0])
    numbers = {event["stopped"]["named"]["id"]: event["ns"] for event in events}
    same(f"{name}: different pairs", len(numbers), len(events))
    return numbers, t


def slow_text(lines, books):
    shown = [line for line in lines if " -> " in line]
    for line in shown:
        match = re.fullmatch(r'\d\d:\d\d:\d\d\.\d{6} \d+/(\d+) slow \d[0-9.]*(?:ns|us|ms|s) enter id=(\d+) name=(".*") -> '
                             r"leave name=(\".*\") id=(\d+)", line)
        holds(line, match)
        if match:
            name, tid, _, _ = books[int(match[2])]
            same(line, [int(match[1]), match[5], ast.literal_eval(match[3]), ast.literal_eval(match[4])],
                 [tid, match[2], name, name])
    same("the end", [line for line in lines if re.match(r"\d+ slow pair", line)],
         [f"{len(shown)} slow pairs: {len(shown)} printed (0 without the arguments of the start), "
          "0 suppressed by --limit, 0 dropped (buffer full)"])


# ---- slow calls -------------------------------------------------------------------------------


def slow_calls(folder, program):
    """slow_calls FOLDER BOOKS: what `attach --slower` wrote to FOLDER/out.*, of tests/ocaml/calls/slow_calls.ml."""
    books = {(f"fn:Slow_calls.{name}", int(number)): (int(tid), int(within), int(around)) for name, number, tid, within, around
             in found(program, r"one (\S+) (\d+) (\d+) within_ns=(\d+) around_ns=(\d+)")}
    sums = {f"fn:{name}": [int(n) for n in numbers.split()] for name, numbers in found(program, r"call (\S+) (.*)")}
    holds("too few calls", len(books) > 10000)
    events, t = slow_call_events(folder, "all", books)
    ours = {call: ns for call, ns in events.items() if call[0].startswith("fn:Slow_calls.")}
    same("all: calls", sorted(ours), sorted(books))
    for pair in t["pairs"]:
        name = pair["start"]
        raised = sums.get(f"{name}:raised", [0])[0]
        times = [ns for call, ns in events.items() if call[0] == name]
        same(f"{name}: starts, count, sum, max, without a stop, orphan stops, map_full",
             [pair["starts"], pair["count"], pair["sum_ns"], pair["max_ns"], pair["orphan_starts"] + pair["open"],
              pair["orphan_stops"], pair["map_full"]],
             [sums[name][0], sums[name][0] - raised, sum(times), max(times), raised, 0, 0])
        if name.startswith("fn:Versioned."):
            between(f"{name}: sum", sums[name][1], pair["sum_ns"], sums[name][2])
    events, t = slow_call_events(folder, "slow", books)
    same("slow: counts", [pair["count"] for pair in t["pairs"] if not pair["start"].startswith("fn:Versioned.")],
         [sum(name == pair["start"] for name, _ in books) for pair in t["pairs"] if not pair["start"].startswith("fn:Versioned.")])
    for call, (_, within, around) in books.items():
        holds(f"slow: {call} is {within} to {around} ns", within < 3000000 if call not in events else around >= 3000000)
    between("slow: events", 11, len(events), len(books) - 1)
    events, t = slow_call_events(folder, "filtered", books)
    same("filtered", sorted(events), sorted(call for call in books if call[0].endswith("works") and call[1] < 100))
    same("filtered: count", t["pairs"][0]["count"], len(events))
    slow_call_text(text(f"{folder}/out.text").splitlines(), books)


def slow_call_events(folder, name, books):
    """The nanoseconds by function and number, and the total."""
    *others, t = objects(f"{folder}/out.{name}")
    events = [event for event in others if event["type"] == "slow"]
    same(f"{name}: slow, slow_printed", [t["slow"], t["slow_printed"]], 2 * [len(events)])
    same(f"{name}: losses", [t["losses"][loss] for loss in ("slow_limited", "slow_dropped", "slow_unkept")], [0, 0, 0])
    numbers = {}
    same(f"{name}: without arguments", sum(not event["started"] for event in events), 0)
    for event in (event for event in events if event["started"]):
        number, *args = event["started"]["args"]
        call = (event["start"], number)
        holds(f"{name}: {call} twice", call not in numbers)
        numbers[call] = event["ns"]
        same(f"{name}: {call}: stop", [event["stop"], event["stopped"]], ["", {"args": []}])
        at_most(f"{name}: {call}: ns between the times", event["ns"] - 2000, (event["time_s"] - event["started"]["time_s"]) * 1e9)
        if call in books:
            tid, within, around = books[call]
            between(f"{name}: {call}: ns", within, event["ns"], around)
            same(f"{name}: {call}: threads", [event["tid"], event["started"]["tid"]], [tid, tid])
            same(f"{name}: {call}: number of arguments", len(args), {"nests": 2, "escapes": 2}.get(call[0].split(".")[1], 1))
        if args and isinstance(args[0], str):
            between(f"{name}: {call}: {args[0]}", number - 4, int(args[0].removeprefix("call ")), number)
    return numbers, t


def slow_call_text(lines, books):
    shown = [line for line in lines if " fn:Slow_calls." in line and line[2] == ":"]
    for line in shown:
        match = re.fullmatch(r'\d\d:\d\d:\d\d\.\d{6} \d+(?:/(\d+))? slow_calls \d[0-9.]*(?:ns|us|ms|s) (fn:Slow_calls\.works) (\d+) '
                             r'"call (\d+)"', line)
        holds(line, match and match[3] == match[4] and (match[2], int(match[3])) in books)
    holds("no slow call as text", shown)
    same("the end", [line for line in lines if re.match(r"\d+ slow pair", line)],
         [f"{len(shown)} slow pairs: {len(shown)} printed (0 without the arguments of the start), "
          "0 suppressed by --limit, 0 dropped (buffer full)"])


# ---- pauses -----------------------------------------------------------------------------------

# What a uprobe takes.
MOMENT_NS = 5000


def pauses(totals, before, after, *limits):
    """pauses TOTALS BOOKS-BEFORE BOOKS-AFTER [PHASE=PERCENT...]: pauses of the collector against OCaml's events.

    The books are those of tests/ocaml/phases/events.ml, before and after the work. Numbers are equal for all phases, and
    in each domain if TOTALS has domains. The sums of the times are within the bounds of the books, and the medians are those
    of the books: a quantile of the tool is correct to one eighth. The sum of the times of each PHASE that is named differs
    from the books by so many per cent at most."""
    limits = dict(limit.split("=") for limit in limits)
    first, last = phases(before), phases(after)
    books, spans = {}, {}
    for (name, domain), (*numbers, each) in last.items():
        *old, each_old = first.get((name, domain), [0, 0, 0, 0, []])
        books[name, domain] = [new - was for new, was in zip(numbers, old)]
        spans.setdefault(name, []).extend(each[len(each_old):])
    t = total(totals)
    seen, told = set(), []
    for pair in t["pairs"] if "pairs" in t else t["pauses"]:
        name = pair["start"]
        if (name, None) not in books:
            continue
        seen.add(name)
        holds(f"{name}: too few to tell", books[name, None][0] >= (1 if name == "gc:compact" else 20))
        domains = {domain["domain"]: domain for domain in pair.get("domains", [])}
        if "domains" in pair:
            same(f"{name}: domains", sorted(domains), sorted(d for n, d in books if n == name and d is not None
                                                            and books[n, d][0]))
        for domain, measured in {None: pair, **domains}.items():
            told.append(pause(name, domain, measured, books.get((name, domain), [0] * 4), limits.get(name)))
        middle = statistics.median(spans[name])
        if len(spans[name]) >= 20:
            between(f"{name}: the median", 0.85 * middle - MOMENT_NS, pair["p50_ns"], 1.15 * middle + MOMENT_NS)
    same("phases", sorted(seen), sorted({name for name, _ in books}))
    holds(f"number of phases: {len(seen)}", len(seen) >= 3)
    return "\n".join(told)


def phases(path):
    """[SPANS, NANOSECONDS, AT-LEAST, AT-MOST, NANOSECONDS OF EACH] by phase and domain; the sums have the domain None, and
    no list of each."""
    books = {}
    for line in text(path).splitlines():
        name, domain, *numbers, each = line.rsplit(maxsplit=6)
        holds(line, not name.startswith("lost"))
        for key in (name, None), (name, int(domain)):
            book = books.setdefault(key, [0, 0, 0, 0, []])
            for i, number in enumerate(numbers):
                book[i] += int(number)
        books[name, int(domain)][4] = [int(ns) for ns in each.split(",")]
    return books


def pause(name, domain, measured, book, limit):
    what = name if domain is None else f"{name} of domain {domain}"
    spans, ns, least, most = book
    error = 100 * (measured["sum_ns"] - ns) / ns if ns else 0
    same(f"{what}: count, starts, open, orphan stops", [measured[n] for n in ("count", "starts", "open", "orphan_stops")],
         [spans, spans, 0, 0])
    told = f"{what}: {measured['count']} pauses of {spans}, {measured['sum_ns']} ns of {ns}, {least} to {most}, {error:+.2f} %"
    # The clock of the engine `inside` is calibrated.
    holds(f"time: {told}", 0.998 * least <= measured["sum_ns"] <= 1.002 * most)
    if limit is not None:
        holds(f"time: {told}", abs(error) <= float(limit))
    return told
