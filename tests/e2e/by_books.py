"""by_books.py FOLDER BOOKS: compare what `attach --by --json` wrote to FOLDER/out.* with the books that
tests/ocaml/named/named.ml printed."""

import ast
import collections
import json
import re
import sys

folder, books = sys.argv[1:3]
text = open(books, encoding="utf-8").read()
orders = [dict(id=int(number), customer=ast.literal_eval(customer), price=float(price), rush=rush == "true",
               grade=grade, amount=float(amount))
          for number, customer, price, rush, grade, amount
          in re.findall(r'^order (\d+) (".*?") (\S+) (true|false) \'(.)\' (\S+)$', text, re.M)]


def objects(name):
    return [json.loads(line) for line in open(f"{folder}/out.{name}")]


def same(what, is_there, expected):
    if is_there != expected:
        sys.exit(f"{what}: {is_there}, but expected {expected}")


def expected(arg):
    return dict(collections.Counter(order[arg] for order in orders))


def grouped(groups, count):
    same("groups that appear twice", len({json.dumps(g.get("value")) for g in groups}), len(groups))
    return {g.get("value", "others"): g[count] for g in groups}


for arg in "id", "customer", "price", "rush", "grade", "amount":
    total = objects(f"count.{arg}")[-1]
    same(f"{arg}, names", {(g["name"], g["arg"]) for g in total["groups"]}, {("order", arg)})
    hits = grouped(total["groups"], "hits")
    same(arg, hits, expected(arg))
    # A bool is no number here.
    same(f"types of {arg}", {type(v) for v in hits} - {int} if arg in ("price", "amount") else {type(v) for v in hits},
         {"id": {int}, "rush": {bool}, "price": {float}, "amount": {float}}.get(arg, {str}))
    same(f"{arg}, sum", sum(hits.values()), total["probes"][0]["hits"])

for arg in "id", "customer", "grade", "price":
    total = objects(f"time.{arg}")[-1]
    pair = total["pairs"][0]
    groups = total["groups"]
    same(f"times by {arg}", grouped(groups, "count"), expected(arg))
    same(f"pair by {arg}", [pair[k] for k in ("start", "stop", "count", "starts", "orphan_starts", "orphan_stops")],
         ["order", "begun", len(orders), len(orders), 0, 0])
    for member, of in ("count", sum), ("sum_ns", sum), ("min_ns", min), ("max_ns", max):
        same(f"{member} by {arg}", of(g[member] for g in groups), pair[member])
    for g in groups:
        if not (g["min_ns"] <= g["mean_ns"] <= g["max_ns"] and g["p50_ns"] <= g["p99_ns"] <= g["max_ns"] * 1.13):
            sys.exit(f"times by {arg}: {g}")

# Starts that are nested, and other probes: a pair has the same numbers with groups as without.
plain, by = (objects(name)[-1]["pairs"][0] for name in ("nested", "nested_by"))
for member in "count", "starts", "orphan_starts", "orphan_stops", "map_full", "open":
    same(f"nested, {member}", by[member], plain[member])
nested = objects("nested_by")[-1]["groups"]
same("nested, sums", (sum(g["count"] for g in nested), sum(g["sum_ns"] for g in nested)), (by["count"], by["sum_ns"]))
# What is begun last is answered first.
same("nested, values", grouped(nested, "count"), {order["id"]: 1 for order in orders})

# Two probes with an argument of the same name, at different positions.
both = objects("both")[-1]["groups"]
for probe in "begun", "answered":
    same(probe, grouped([g for g in both if g["name"] == probe], "hits"), {order["id"]: 1 for order in orders})

# With a filter, only the hits that match are in groups.
some = collections.Counter(order["customer"] for order in orders if order["id"] >= 30)
same("filter", grouped(objects("filter")[-1]["groups"], "hits"), dict(some))

# By position the two places of the source have different arguments: a float or a string, an int or a char.
mixed = objects("mixed")[-1]["groups"]
same("arg1", sum(g["hits"] for g in mixed), len(orders))
same("arg1, strings", grouped([g for g in mixed if isinstance(g["value"], str)], "hits"),
     dict(collections.Counter(order["customer"] for order in orders if order["id"] % 2 == 0)))
same("arg1, ints", grouped([g for g in mixed if isinstance(g["value"], int)], "hits"),
     dict(collections.Counter(ord(order["grade"]) for order in orders if order["id"] % 2)))

# The intervals sum up to the total.
parts = collections.Counter()
for interval in objects("interval")[:-1]:
    for g in interval["groups"]:
        parts[g["value"]] += g["hits"]
total = grouped(objects("interval")[-1]["groups"], "hits")
same("total of intervals", total, expected("customer"))
if any(parts[value] > total[value] for value in parts):
    sys.exit(f"intervals: {parts}, but {total} in all")
