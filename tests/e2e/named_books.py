"""named_books.py FOLDER BOOKS: compare what `attach --json` wrote to FOLDER/out.* with the books that
tests/ocaml/named/named.ml printed."""

import ast
import json
import math
import re
import sys

folder, books = sys.argv[1:3]
text = open(books, encoding="utf-8").read()


def last(name):
    return json.loads(open(f"{folder}/out.{name}").read().splitlines()[-1])


def same(what, is_there, expected):
    if is_there != expected:
        sys.exit(f"{what}: {is_there}, but the program says {expected}")


filters = re.findall(r"^filter (\d+) (.*)$", text, re.M)
for i, (count, expression) in enumerate(filters, 1):
    total = last(i)
    same(expression, total["probes"][0]["hits"], int(count))
    # Only positions have another type at another place of the source.
    if not expression.startswith("arg"):
        same(expression + ": mismatches", total["losses"]["filter_mismatches"], 0)

orders = re.findall(r'^order (\d+) (".*?") (\S+) (true|false) \'(.)\' (\S+)$', text, re.M)
answers = int(re.search(r"^answers=(\d+)$", text, re.M).group(1))
same("orders", len(orders), answers)

pair = last("key")["pairs"][0]
for name, expected in (("count", answers), ("starts", answers), ("orphan_starts", 0), ("orphan_stops", 0),
                       ("open", 0), ("not_keyed", 0)):
    same("pairs, " + name, pair[name], expected)

histogram = last("hist")["histograms"][0]
same("histogram", (histogram["arg_name"], histogram["count"], histogram["sum"], histogram["not_int"]),
     ("id", answers, int(re.search(r"^sum=(\d+)$", text, re.M).group(1)), 0))

prices = [float(price) for _, _, price, *_ in orders]
histogram = last("price")["histograms"][0]
floats = histogram["floats"]
same("histogram of prices", (histogram["arg_name"], histogram["count"], histogram["not_number"], floats["count"],
                             floats["sum"], floats["mean"], floats["min"], floats["max"]),
     ("price", 0, 0, len(prices), math.fsum(prices), math.fsum(prices) / len(prices), min(prices), max(prices)))
same("buckets of prices", [b["count"] for b in floats["buckets"]],
     [sum(b["from"] <= price < b["below"] for price in prices) for b in floats["buckets"]])
same("all buckets of prices", sum(b["count"] for b in floats["buckets"]), len(prices))

hits = [h for h in map(json.loads, open(f"{folder}/out.print")) if h["type"] == "hit"]
same("printed", len(hits), len(orders))
for hit, (number, customer, price, rush, grade, amount) in zip(hits, orders):
    named = {"id": int(number), "customer": ast.literal_eval(customer), "price": float(price),
             "rush": rush == "true", "amount": float(amount), "grade": grade}
    if int(number) % 2:
        named["same_id"] = int(number)
    same("hit", hit["named"], named)
    same("arguments by position", len(hit["args"]), 8 if int(number) % 2 else 6)
