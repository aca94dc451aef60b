"""Hits: of probes, functions, and lines."""

import ast
import collections
import re

from said import figures, found, hits_by, holds, objects, same, text, total, wrong


def that(path, *expressions):
    """that TOTALS [BOOKS --] EXPRESSION...: each holds, of `t`, the last object of TOTALS, its `pairs`, `pair` (the first),
    `probes`, `groups`, `hits` by name, `intervals`, the other objects, and `said`, the figures of BOOKS."""
    *intervals, t = objects(path)
    said = {}
    if "--" in expressions:
        books, _, *expressions = expressions
        said = figures(books)
    known = {"t": t, "intervals": intervals, "said": said, "hits": hits_by(t, "name"), "probes": t["probes"],
             "pairs": t["pairs"], "pair": (t["pairs"] or [None])[0], "groups": t.get("groups"),
             "hits_by": lambda key: hits_by(t, key), "Counter": collections.Counter}
    for expression in expressions:
        tree = ast.parse(expression.strip(), mode="eval")
        if not eval(compile(tree, "", "eval"), known):
            parts = [tree.body.left, *tree.body.comparators] if isinstance(tree.body, ast.Compare) else []
            values = [repr(eval(compile(ast.Expression(part), "", "eval"), known)) for part in parts]
            wrong.append(f"it is not so that {expression.strip()}: {' and '.join(values) or t}")
    return "all"


# What the compiler adds, inlines as it likes, or calls at the start.
UNBOOKED = {"entry", "labelled", "counter_init", "Versioned.entry"}


def book_of(probe):
    """The name of the book that a probe belongs to; None: it is not of the program."""
    if probe.startswith("c:"):
        return probe
    name = probe.removeprefix("fn:").removeprefix("Calls.")
    if name == probe.removeprefix("fn:") and not name.startswith("Versioned."):
        return None
    # The modules inside of a file may stand before the name.
    if not name.startswith("Versioned."):
        name = re.sub(r"^([A-Z]\w*\.)+(?=.)", "", name)
    # Flambda calls a function anon_fn whose place in the source it does not know.
    anonymous = re.fullmatch(r"(Versioned\.)?(.*\.)?(\(fun\)|fun_\d+|anon_fn)", name)
    if anonymous:
        return None if anonymous[1] else "anonymous"
    # Books have no modules or functions that a function is in.
    return name if name.startswith("Versioned.") else re.sub(r"^(\w+\.)*(?=[^.])", "", name)


def calls(totals, program, *uncountable):
    """calls TOTALS BOOKS [UNCOUNTABLE...]: the calls of the functions of tests/ocaml/calls/calls.ml. The UNCOUNTABLE ones are
    missing. Returns how many functions were compared."""
    t = total(totals)
    books = {name: int(n) for name, n in found(program, r"call (\S+) (\d+).*")}
    same("losses", [name for name, n in t["losses"].items() if n], [])
    hits = collections.Counter()
    for probe in t["probes"]:
        if book := book_of(probe["name"]):
            hits[book] += probe["hits"]
    # To Flambda a functor is one more function without a name.
    if "Make" not in hits:
        books["anonymous"] += books.pop("Make")
    parts = {name for name in books if re.search(r"\.\d$", name)}
    for name in sorted((books.keys() | hits.keys()) - UNBOOKED - parts):
        same(f"calls of {name}", hits.get(name), None if name in uncountable else books.get(name, 0))
    return len(hits)


def lines(source, counted, program, prof=None):
    """lines SOURCE JSON BOOKS [PROF]: the hits of lines by `annotate --json`. BOOKS has "mark FILE:LINE N" for each line of
    SOURCE that was executed and has `here __LINE__`. PROF is what ocamlprof makes of SOURCE: `(* N *)` before expressions
    that were executed N times. Lines with `(* at most *)` can have fewer hits; those without room for a jump are not compared.
    Returns how many lines were compared with each."""
    lines_ = total(counted)["lines"]
    hits = {line["line"]: line["hits"] for line in lines_}
    no_room = {line["line"] for line in lines_ if line.get("reason", "").startswith("a jump does not fit")}
    name = re.escape(source.rsplit("/", 1)[-1])
    marks = {int(line): int(n) for line, n in found(program, rf"mark {name}:(\d+) (\d+)")}
    expected = {}
    for number, line in enumerate(text(source).splitlines(), 1):
        if "here __LINE__;" in line and number not in no_room:
            expected[number] = (line, marks.get(number, 0))
    compared = [expected]
    if prof:
        compared.append({})
        for number, line in enumerate(text(prof).splitlines(), 1):
            # One counter, at the beginning of the line, before code that is no function.
            counter = re.match(r"\s*\(\* (\d+) \*\)", line)
            if counter and "fun " not in line and "function" not in line and number in hits and number not in no_room:
                compared[1][number] = (line, int(counter[1]))
    for number, (line, count) in ((number, lines_[number]) for lines_ in compared for number in lines_):
        if "(* at most *)" not in line or (hits.get(number) or 0) > count:
            same(f"{number}: {line.strip()}", hits.get(number), count)
    same("marks that are not listed", sorted(set(marks) - set(hits)), [])
    return [len(lines_) for lines_ in compared]


def engines(kernel, inside):
    """engines BPF INSIDE: the totals of two runs that do the same. What is counted inside has the count of the kernel.
    Returns how many probes were compared, and how many are missing inside."""
    by_kernel, by_inside = ({p["name"]: p["hits"] for p in total(totals)["probes"]} for totals in (kernel, inside))
    for name, hits in by_inside.items():
        same(name, hits, by_kernel.get(name))
    holds("at least one probe is hit", any(by_inside.values()))
    holds("most probes are counted", len(by_inside) * 10 >= len(by_kernel) * 7)
    return len(by_inside), len(by_kernel.keys() - by_inside.keys())
