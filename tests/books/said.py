"""What the comparisons share: reading what the tool and a program have said, and what is wrong."""

import json
import re

# A line for each difference.
wrong = []


def exact(value):
    """1, 1.0 and True differ, and so do 0.0 and -0.0. Lists and tuples do not."""
    return json.dumps(value, sort_keys=True, default=lambda values: sorted(values, key=repr))


def same(what, got, expected):
    if exact(got) != exact(expected):
        wrong.append(f"{what}: {got!r}, expected {expected!r}")


def at_most(what, got, limit):
    between(what, None, got, limit)


def between(what, least, got, most):
    if (least is not None and got < least) or got > most:
        wrong.append(f"{what}: {got}, expected {'at most' if least is None else f'{least} to'} {most}")


def holds(what, is_so):
    if not is_so:
        wrong.append(what)


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def objects(path):
    """The JSON objects of a file of the tool, which may have other lines."""
    return [json.loads(line) for line in text(path).splitlines() if line.startswith("{")]


def total(path):
    return objects(path)[-1]


def found(path, pattern):
    """The groups of each line of a program that matches PATTERN as a whole."""
    return re.findall(f"^{pattern}$", text(path), re.MULTILINE)


def figures(path):
    """The lines WORD NAME [NAME...] KEY=NUMBER..., as {WORD: {NAME: {KEY: NUMBER}}}."""
    lines = {}
    for line in text(path).splitlines():
        words = line.split()
        if len(words) > 1:
            numbers = dict(word.split("=", 1) for word in words if re.fullmatch(r"\w+=-?\d+", word))
            lines.setdefault(words[0], {})[words[1]] = {key: int(value) for key, value in numbers.items()}
    return lines


def hits_by(total_, key):
    """The sums of hits, by a member of the rows."""
    sums = {}
    for row in total_["probes"]:
        if key in row:
            sums[row[key]] = sums.get(row[key], 0) + row["hits"]
    return sums
