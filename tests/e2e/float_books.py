"""float_books.py BOOKS PROBE OUT...: compare the histogram of PROBE in each OUT, which `attach --json`
wrote, with the books of tests/ocaml/floats.ml. Sums are those of fractions, rounded once."""

import json
import math
import struct
import sys
from fractions import Fraction

books, probe, outs = sys.argv[1], sys.argv[2], sys.argv[3:]
ints, floats, others = [], [], 0
for line in open(books, encoding="utf-8"):
    words = line.split()
    if len(words) != 3 or words[0] != probe:
        continue
    if words[1] == "int":
        ints.append(int(words[2]))
    elif words[1] == "float":
        floats.append(struct.unpack(">d", bytes.fromhex(words[2]))[0])
    else:
        others += 1
finite = [x for x in floats if math.isfinite(x)]


def number(value):
    return float(value["float"]) if isinstance(value, dict) else value


def rounded(fraction):
    try:
        return float(fraction)
    except OverflowError:
        return math.copysign(math.inf, fraction)


def same(what, is_there, expected):
    # 0.0 and -0.0 differ.
    if repr(is_there) != repr(expected):
        sys.exit(f"{out}: {what}: {is_there!r}, but the program says {expected!r}")


def check_buckets(what, buckets, values):
    for bucket in buckets:
        low, high = number(bucket["from"]), number(bucket["below"])
        same(f"{what} from {low!r}", bucket["count"], sum(low <= x < high for x in values))
        most, least = max(abs(low), abs(high)), min(abs(low), abs(high))
        is_wide = high - low > max(1, most / 8) if what == "ints" else 2.0**-32 <= least < most <= 2.0**64 and (
            high - low > least / 8)
        if is_wide:
            sys.exit(f"{out}: the bucket from {low!r} to {high!r} is wide")
    same(what + ", all", sum(bucket["count"] for bucket in buckets), len(values))


for out in outs:
    histogram = json.loads(open(out, encoding="utf-8").read().splitlines()[-1])["histograms"][0]
    same("probe", histogram["name"], probe)
    same("ints", (histogram["count"], histogram["sum"], histogram["not_int"], histogram["not_number"]),
         (len(ints), sum(ints), len(floats) + others, others))
    if ints:
        same("extremes of ints", (histogram["min"], histogram["max"]), (min(ints), max(ints)))
    check_buckets("ints", histogram["buckets"], ints)
    if not floats:
        same("floats", histogram.get("floats"), None)
        continue
    seen = histogram["floats"]
    same("floats", seen["count"], len(finite))
    same("others", [seen[name] for name in ("nan", "inf", "minus_inf")],
         [sum(map(math.isnan, floats)), floats.count(math.inf), floats.count(-math.inf)])
    total = sum(map(Fraction, finite))
    same("sum", float(number(seen["sum"])), rounded(total))
    same("mean", float(number(seen["mean"])), rounded(total / len(finite)) if finite else 0.0)
    # -0.0 is below 0.0.
    order = sorted(finite, key=lambda x: (x, math.copysign(1, x)))
    same("extremes", (float(seen["min"]), float(seen["max"])), (order[0], order[-1]))
    check_buckets("floats", seen["buckets"], finite)
print(len(ints), len(floats), others)
