"""Values of arguments: groups by them, filters on them, histograms of them."""

import ast
import collections
import json
import math
import struct
from fractions import Fraction

from said import between, found, holds, objects, same, total, wrong


def read_orders(program):
    """What tests/ocaml/named/named.ml says of its orders."""
    return [dict(id=int(number), customer=ast.literal_eval(customer), price=float(price), rush=rush == "true",
                 grade=grade, amount=float(amount))
            for number, customer, price, rush, grade, amount
            in found(program, r'order (\d+) (".*?") (\S+) (true|false) \'(.)\' (\S+)')]


# ---- groups -----------------------------------------------------------------------------------


def in_order(counts):
    return sorted(counts.items(), key=str)


def grouped(what, groups, count, expected):
    """The groups have what is EXPECTED, {VALUE: NUMBER}."""
    same(f"{what}: groups that appear twice", len({json.dumps(g.get("value")) for g in groups}), len(groups))
    same(what, in_order({g.get("value", "others"): g[count] for g in groups}), in_order(expected))


def read_calls(program):
    """What tests/ocaml/calls/slow_calls.ml says of its calls: {FUNCTION: {NUMBER: (ns within, ns around)}}."""
    books = {}
    for name, number, within, around in found(program, r"one (\S+) (\d+) \d+ within_ns=(\d+) around_ns=(\d+)"):
        books.setdefault(name, {})[int(number)] = (int(within), int(around))
    return books


def check_call_groups(name, path, books):
    """PATH is what `attach --time fn:Slow_calls.NAME --by` wrote."""
    t = total(path)
    groups, n = t["groups"], len(books["works"])
    if name == "escapes":
        grouped(name, groups, "count", {-1: n})
        same("escapes: those that exceptions ended", t["pairs"][0]["orphan_starts"] + t["pairs"][0]["open"], 3 * n)
    elif name == "digs":
        same("digs: number of groups and calls", [len(groups), sum(g["count"] for g in groups)],
             [4097, len(books["digs"])])
        same("digs: sum", sum(g["sum_ns"] for g in groups), t["pairs"][0]["sum_ns"])
    else:
        grouped(name, groups, "count", {number: 1 for number in books[name]})
        for g in groups:
            within, around = books[name][g["value"]]
            between(f"{name} {g['value']}: ns", within, g["sum_ns"], around)
    return len(groups)


def call_groups(name, totals, program):
    """call_groups NAME TOTALS BOOKS: what `attach --time fn:Slow_calls.NAME --by` says of the calls of slow_calls.ml."""
    same("engine", total(totals)["engine"], "inside")
    return check_call_groups(name, totals, read_calls(program))


def calls_by(folder, program):
    """calls_by FOLDER BOOKS: what `attach --by` wrote to FOLDER/out.*, of tests/ocaml/calls/slow_calls.ml."""
    books = read_calls(program)
    for name in "works", "yields", "escapes", "digs":
        check_call_groups(name, f"{folder}/out.{name}", books)
    groups = total(f"{folder}/out.nests")["groups"]
    outermost = sorted(books["nests"])[::5]
    grouped("nests", groups, "count", {f"call {number}": 5 for number in outermost})
    for g in groups:
        its = [books["nests"][int(g["value"].removeprefix("call ")) + i] for i in range(5)]
        between(f"nests {g['value']}: ns", sum(within for within, _ in its), g["sum_ns"], sum(around for _, around in its))
    n = len(books["works"])
    groups = total(f"{folder}/out.counts")["groups"]
    for name, expected in ("escapes", {-1: n, 0: n, 1: n, 2: n}), ("nests", {i: n for i in range(5)}):
        grouped(f"counts of {name}", [g for g in groups if g["name"] == f"fn:Slow_calls.{name}"], "hits", expected)
    histogram = total(f"{folder}/out.hist")["histograms"][0]
    same("histogram: count and sum", [histogram["count"], histogram["sum"]], [n, sum(books["works"])])


def function_groups(engine, totals, program, *flags):
    """function_groups ENGINE TOTALS BOOKS [--filter EXPRESSION]: what `attach --count --by` says of the functions of
    tests/ocaml/calls/grouped.ml; the expression is `arg0 > N`."""
    t = total(totals)
    least = int(flags[1].split()[-1]) + 1 if flags else -math.inf
    names = {probe["name"].removeprefix("fn:Grouped."): probe["hits"] for probe in t["probes"]}
    books = {name: {} for name in names}
    for name, value, n in found(program, r"value (\S+) (\S+) (\d+)"):
        if name in names and (value == "?" or int(value) >= least):
            books[name][None if value == "?" else int(value)] = int(n)
    why = "not an int" if engine == "inside" else "neither a number nor a string"
    for name, expected in books.items():
        groups = [g for g in t["groups"] if g["name"] == f"fn:Grouped.{name}"]
        holds(f"{name}: too few values", len(expected) > 2)
        grouped(name, groups, "hits", expected)
        same(f"{name}: sum", names[name], sum(expected.values()))
        same(f"{name}: why", {g["why"] for g in groups if "why" in g}, {why} if None in expected else set())
    same("engine", t["engine"], engine)
    return len(books)


def same_groups(inside, bpf, names, n):
    """same_groups INSIDE BPF NAMES N: both engines have the same groups of these probes, with N hits each."""
    parts = [{(g["name"], g["arg"], json.dumps(g["value"])): g["hits"] for g in total(path)["groups"]} for path in (inside, bpf)]
    same("groups", in_order(parts[0]), in_order(parts[1]))
    for name in names.split(","):
        same(f"hits of {name}", sum(hits for key, hits in parts[0].items() if key[0] == name), int(n))
    same("engines", [total(path)["engine"] for path in (inside, bpf)], ["inside", "bpf"])
    return len(parts[0])


PAIR_COUNTS = "count", "starts", "orphan_starts", "orphan_stops", "open", "map_full", "not_keyed"


def groups_of_pair(t, pair):
    return [g for g in t["groups"] if (g.get("start"), g.get("stop")) == (pair["start"], pair["stop"])]


def same_times(inside, bpf, *counts):
    """same_times INSIDE BPF COUNT...: of each pair, both engines have the same numbers and groups, and as many groups as
    COUNT says; the groups have what the pair has."""
    for path in inside, bpf:
        t = total(path)
        for pair in t["pairs"]:
            groups = groups_of_pair(t, pair)
            for member, of in ("count", sum), ("sum_ns", sum), ("min_ns", min), ("max_ns", max):
                same(f"{path}, {pair['start']}: {member}", of(g[member] for g in groups), pair[member])
            for g in groups:
                between(f"{path}: p50 of {g}", g["min_ns"], g["p50_ns"], g["p99_ns"])
                between(f"{path}: p99 of {g}", g["mean_ns"] if g["count"] == 1 else 0, g["p99_ns"], g["max_ns"])
    parts = [[({k: pair[k] for k in PAIR_COUNTS}, {str(g.get("value", "others")): g["count"] for g in groups_of_pair(t, pair)})
              for pair in t["pairs"]] for t in (total(inside), total(bpf))]
    same("pairs", parts[0], parts[1])
    same("groups", [len(groups) for _, groups in parts[0]], [int(n) for n in counts])
    same("groups of hits", [(g["value"], g["hits"]) for g in total(inside)["groups"] if "hits" in g],
         [(g["value"], g["hits"]) for g in total(bpf)["groups"] if "hits" in g])
    same("engines", [total(path)["engine"] for path in (inside, bpf)], ["inside", "bpf"])


def function_times(engine, totals, program):
    """function_times ENGINE TOTALS BOOKS: the times that `attach --time --by arg0` has of the functions of
    tests/ocaml/calls/grouped.ml from which no exception is raised."""
    t = total(totals)
    books = collections.defaultdict(dict)
    for name, value, n in found(program, r"value (\S+) (\S+) (\d+)"):
        books[name][None if value == "?" else int(value)] = int(n)
    for pair in t["pairs"]:
        name = pair["start"].removeprefix("fn:Grouped.").split(":")[0]
        groups = groups_of_pair(t, pair)
        grouped(name, groups, "count", books[name])
        same(f"{name}: sum", sum(g["sum_ns"] for g in groups), pair["sum_ns"])
        same(f"{name}: why", {g["why"] for g in groups if "why" in g},
             {"not an int" if engine == "inside" else "neither a number nor a string"} if None in books[name] else set())
    same("engine", t["engine"], engine)
    return len(t["pairs"])


def most_groups(totals, name, n, least, most):
    """most_groups TOTALS NAME N LEAST MOST: of N values, hit once each, LEAST to MOST are known."""
    t = total(totals)
    groups = [g for g in t["groups"] if g["name"] == name]
    known = {g["value"]: g["hits"] for g in groups if "others" not in g}
    others = sum(g["hits"] for g in groups if "others" in g)
    between("known values", int(least), len(known), int(most))
    same("values that are known more than once", {value: hits for value, hits in known.items() if hits != 1}, {})
    same("others", others, int(n) - len(known))
    same("hits", [probe["hits"] for probe in t["probes"] if probe["name"] == name], [int(n)])
    return len(known)


def total_by(arg, path):
    t = total(path)
    # A number of the tool may be whole.
    for g in t["groups"] if arg in ("price", "amount") else []:
        g["value"] = float(g["value"])
    return t


def by(folder, program):
    """by FOLDER BOOKS: what `attach --by --json` wrote to FOLDER/out.*, of tests/ocaml/named/named.ml."""
    orders = read_orders(program)
    numbers = {order["id"]: 1 for order in orders}

    def expected(arg):
        return collections.Counter(order[arg] for order in orders)

    for arg in "id", "customer", "price", "rush", "grade", "amount":
        t = total_by(arg, f"{folder}/out.count.{arg}")
        same(f"{arg}, names", {(g["name"], g["arg"]) for g in t["groups"]}, {("order", arg)})
        grouped(arg, t["groups"], "hits", expected(arg))
        same(f"{arg}, sum", sum(g["hits"] for g in t["groups"]), t["probes"][0]["hits"])
    for arg in "id", "customer", "grade", "price":
        by_times(arg, total_by(arg, f"{folder}/out.time.{arg}"), expected(arg), len(orders))

    # Starts that are nested, and other probes: a pair has the same numbers with groups as without.
    plain, with_groups = (total(f"{folder}/out.{name}") for name in ("nested", "nested_by"))
    pair = with_groups["pairs"][0]
    for member in "count", "starts", "orphan_starts", "orphan_stops", "map_full", "open":
        same(f"nested, {member}", pair[member], plain["pairs"][0][member])
    # What is begun last is answered first.
    grouped("nested, values", with_groups["groups"], "count", numbers)
    same("nested, sums", sum(g["sum_ns"] for g in with_groups["groups"]), pair["sum_ns"])

    # Two probes with an argument of the same name, at different positions.
    both = total(f"{folder}/out.both")["groups"]
    for probe in "begun", "answered":
        grouped(probe, [g for g in both if g["name"] == probe], "hits", numbers)

    # With a filter, only the hits that match are in groups.
    grouped("filter", total(f"{folder}/out.filter")["groups"], "hits",
            collections.Counter(order["customer"] for order in orders if order["id"] >= 30))

    # By position the two places of the source have different arguments: a float or a string, an int or a char.
    mixed = total(f"{folder}/out.mixed")["groups"]
    same("arg1", sum(g["hits"] for g in mixed), len(orders))
    grouped("arg1, strings", [g for g in mixed if isinstance(g["value"], str)], "hits",
            collections.Counter(order["customer"] for order in orders if order["id"] % 2 == 0))
    grouped("arg1, ints", [g for g in mixed if isinstance(g["value"], int)], "hits",
            collections.Counter(ord(order["grade"]) for order in orders if order["id"] % 2))

    # The intervals add up to no more than the total.
    *intervals, t = objects(f"{folder}/out.interval")
    grouped("total of intervals", t["groups"], "hits", expected("customer"))
    parts = collections.Counter()
    for g in (g for interval in intervals for g in interval["groups"]):
        parts[g["value"]] += g["hits"]
    holds(f"intervals: {parts}", parts <= expected("customer"))


def by_times(arg, t, expected, n):
    pair, groups = t["pairs"][0], t["groups"]
    grouped(f"times by {arg}", groups, "count", expected)
    same(f"pair by {arg}", [pair[k] for k in ("start", "stop", "count", "starts", "orphan_starts", "orphan_stops")],
         ["order", "begun", n, n, 0, 0])
    for member, of in ("count", sum), ("sum_ns", sum), ("min_ns", min), ("max_ns", max):
        same(f"{member} by {arg}", of(g[member] for g in groups), pair[member])
    for g in groups:
        between(f"times by {arg}: mean of {g}", g["min_ns"], g["mean_ns"], g["max_ns"])
        between(f"times by {arg}: p99 of {g}", g["p50_ns"], g["p99_ns"], g["max_ns"] * 1.13)


# ---- names ------------------------------------------------------------------------------------


def named(folder, program):
    """named FOLDER BOOKS: what `attach --json` wrote to FOLDER/out.*, of tests/ocaml/named/named.ml."""
    for i, (count, expression) in enumerate(found(program, r"filter (\d+) (.*)"), 1):
        t = total(f"{folder}/out.{i}")
        same(expression, t["probes"][0]["hits"], int(count))
        # Only positions have another type at another place of the source.
        if not expression.startswith("arg"):
            same(f"{expression}: mismatches", t["losses"]["filter_mismatches"], 0)

    orders = read_orders(program)
    (answers,), (id_sum,) = ([int(n) for n in found(program, rf"{name}=(\d+)")] for name in ("answers", "sum"))
    same("orders", len(orders), answers)
    pair = total(f"{folder}/out.key")["pairs"][0]
    for name, expected in (("count", answers), ("starts", answers), ("orphan_starts", 0), ("orphan_stops", 0),
                           ("open", 0), ("not_keyed", 0)):
        same(f"pairs, {name}", pair[name], expected)
    histogram = total(f"{folder}/out.hist")["histograms"][0]
    same("histogram", [histogram[n] for n in ("arg_name", "count", "sum", "not_int")], ["id", answers, id_sum, 0])
    named_prices(total(f"{folder}/out.price")["histograms"][0], [order["price"] for order in orders])

    hits = [hit for hit in objects(f"{folder}/out.print") if hit["type"] == "hit"]
    same("printed", len(hits), len(orders))
    for hit, order in zip(hits, orders):
        number = order["id"]
        expected = {**order, "same_id": number} if number % 2 else order
        if hit["named"] != expected:
            wrong.append(f"hit: {hit['named']}, expected {expected}")
        same("arguments by position", len(hit["args"]), 8 if number % 2 else 6)


def named_prices(histogram, prices):
    seen = histogram["floats"]
    same("histogram of prices", [histogram[n] for n in ("arg_name", "count", "not_number")], ["price", 0, 0])
    same("prices", [float(seen[n]) for n in ("count", "sum", "mean", "min", "max")],
         [float(len(prices)), math.fsum(prices), math.fsum(prices) / len(prices), min(prices), max(prices)])
    same("buckets of prices", [b["count"] for b in seen["buckets"]],
         [sum(b["from"] <= price < b["below"] for price in prices) for b in seen["buckets"]])
    same("all buckets of prices", sum(b["count"] for b in seen["buckets"]), len(prices))


# ---- histograms of floats ---------------------------------------------------------------------


def number_of(value):
    return float(value["float"]) if isinstance(value, dict) else value


def rounded(fraction):
    try:
        return float(fraction)
    except OverflowError:
        return math.copysign(math.inf, fraction)


def same_buckets(what, buckets, values):
    is_int = what.endswith("ints")
    for bucket in buckets:
        low, high = number_of(bucket["from"]), number_of(bucket["below"])
        same(f"{what} from {low!r}", bucket["count"], sum(low <= x < high for x in values))
        most, least = max(abs(low), abs(high)), min(abs(low), abs(high))
        is_wide = high - low > max(1, most / 8) if is_int else 2.0**-32 <= least < most <= 2.0**64 and (
            high - low > least / 8)
        holds(f"{what}: the bucket from {low!r} to {high!r} is wide", not is_wide)
    same(f"{what}, all", sum(bucket["count"] for bucket in buckets), len(values))


def floats(program, probe, *outs):
    """floats BOOKS PROBE OUT...: the histogram of PROBE in each OUT of `attach --json`, of tests/ocaml/floats.ml. Sums are
    those of fractions, rounded once. Returns how many ints, floats and others there were."""
    of_kind = {"int": [], "float": []}
    others = 0
    for kind, value in found(program, rf"{probe} (\S+) (\S+)"):
        if kind in of_kind:
            of_kind[kind].append(int(value) if kind == "int" else struct.unpack(">d", bytes.fromhex(value))[0])
        else:
            others += 1
    for out in outs:
        histogram = total(out)["histograms"][0]
        same(f"{out}: probe", histogram["name"], probe)
        same_ints(out, histogram, of_kind["int"], len(of_kind["float"]) + others, others)
        same_floats(out, histogram.get("floats"), of_kind["float"])
    return len(of_kind["int"]), len(of_kind["float"]), others


def same_ints(out, histogram, ints, not_int, not_number):
    same(f"{out}: ints", [histogram[n] for n in ("count", "sum", "not_int", "not_number")],
         [len(ints), sum(ints), not_int, not_number])
    if ints:
        same(f"{out}: extremes of ints", (histogram["min"], histogram["max"]), (min(ints), max(ints)))
    same_buckets(f"{out}: ints", histogram["buckets"], ints)


def same_floats(out, seen, values):
    if not values:
        same(f"{out}: floats", seen, None)
        return
    finite = [x for x in values if math.isfinite(x)]
    same(f"{out}: floats", seen["count"], len(finite))
    same(f"{out}: others", [seen[name] for name in ("nan", "inf", "minus_inf")],
         [sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf)])
    exact = sum(map(Fraction, finite))
    same(f"{out}: sum", float(number_of(seen["sum"])), rounded(exact))
    same(f"{out}: mean", float(number_of(seen["mean"])), rounded(exact / len(finite)) if finite else 0.0)
    # -0.0 is below 0.0.
    order = sorted(finite, key=lambda x: (x, math.copysign(1, x)))
    same(f"{out}: extremes", (float(seen["min"]), float(seen["max"])), (order[0], order[-1]))
    same_buckets(f"{out}: floats", seen["buckets"], finite)
