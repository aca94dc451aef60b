#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_shares.py SAMPLES PROFILE: the shares of the functions in which the CPU was, as perf and as
`profile --cpu --json` have seen the same run. SAMPLES is what `perf script -F ip,sym,dso --no-demangle` prints.

Each function that has 0.5 % in one of them must have the same share in the other: within 2 points, and within 5
standard deviations of the difference of two independent samples (binomial: of 100 functions that are equal, one
is outside once in 17 000 runs). perf knows the symbol, the profile the name in the source: of both remain the
compilation unit and the last part of the name. Code without a symbol is one function, and so are functions of
shared libraries that only perf has names for, from other files with debug information. Anonymous functions and
the code that starts a module are not compared: perf and the profile name them differently. Nor are the marks
behind a unit's code, which perf takes for functions. Samples in the kernel are left out."""

import collections
import json
import math
import re
import sys

UNNAMED = "(no symbol)"
NOT_COMPARED = ("..(fun)", "..entry", "..code_end")
POINTS, DEVIATIONS = 2, 5


def of_symbol(symbol):
    if not re.match(r"caml[A-Z]", symbol):
        return symbol
    symbol = re.sub(r"\$([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), symbol[4:])
    parts = symbol.replace("__", ".").split(".")
    if parts[0] == "Stdlib" and len(parts) > 2:
        parts = parts[1:]
    last = re.sub(r"_[0-9]+$", "", parts[-1])
    return f"{parts[0]}..{'(fun)' if last == 'fun' else last}"


def of_name(name):
    parts = re.findall(r"\([^)]*\)|[^.]+", name.replace("__", "."))
    parts = [part for part in parts if part != "Stdlib"] or parts
    last = parts[-1].strip("()") if parts[-1] != "(fun)" else parts[-1]
    last = "(fun)" if re.fullmatch("fun_[0-9]+", last) else last
    return f"{parts[0]}..{last}" if len(parts) > 1 else f"{parts[0]}..entry"


def of_perf(path, known):
    shares = collections.Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            found = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
            if found:
                symbol = re.sub(r"\+0x[0-9a-f]+$", "", found[1])
                # The end of the runtime's assembly seems to be a function that reaches far.
                if symbol in ("[unknown]", "caml_system__code_end") or (".so" in found[2] and symbol not in known):
                    symbol = UNNAMED
                if "kernel" not in found[2]:
                    shares[of_symbol(symbol)] += 1
    return shares


def innermost(frames):
    frame = len(frames) - 1
    while frame > 0 and frames[frame].get("inlined"):
        frame -= 1
    kind, name = frames[frame]["kind"], frames[frame]["function"]
    return of_name(name) if kind == "ocaml" else name if kind == "c" else UNNAMED


def of_profile(path):
    shares = collections.Counter()
    with open(path, encoding="utf-8") as file:
        for stack in json.load(file)["stacks"]:
            if stack["frames"][-1]["kind"] != "kernel":
                shares[innermost(stack["frames"])] += stack["samples"]
    return shares


def deviations(a, n_a, b, n_b):
    """How far A of N_A and B of N_B are from each other."""
    p = (a + b) / (n_a + n_b)
    return abs(a / n_a - b / n_b) / math.sqrt(p * (1 - p) * (1 / n_a + 1 / n_b))


def main():
    profile = of_profile(sys.argv[2])
    perf = of_perf(sys.argv[1], profile.keys())
    n_perf, n_profile = sum(perf.values()), sum(profile.values())
    print(f"{n_perf} samples of perf, {n_profile} of the profile")
    assert min(n_perf, n_profile) > 1000
    n, worst, farthest = 0, 0, 0
    for name, _ in (perf + profile).most_common():
        first, second = 100 * perf[name] / n_perf, 100 * profile[name] / n_profile
        if max(first, second) >= 0.5 and not name.endswith(NOT_COMPARED):
            far = deviations(perf[name], n_perf, profile[name], n_profile)
            n += 1
            worst, farthest = max(worst, abs(first - second)), max(farthest, far)
            print(f"{name}: perf {first:.2f} %, the profile {second:.2f} %: {far:.1f} deviations")
    print(f"{n} functions, the largest difference {worst:.2f} points, {farthest:.1f} deviations")
    sys.exit(n < 10 or worst > POINTS or farthest > DEVIATIONS)


main()
