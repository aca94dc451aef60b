"""Metrics of `serve` that are split by the argument route, against the books of tests/ocaml/routes."""

import re

import said
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as text_families

HITS = "ocaml_probes_hits"
TIMES = "ocaml_probes_pair_duration_seconds"


def decoded(text):
    """A string in OCaml's syntax, as the bytes that it stands for."""
    parts = re.findall(r"\\(\d{3})|\\(.)|([^\\]+)", text)
    named = {"n": b"\n", "t": b"\t", "r": b"\r", "b": b"\b"}
    return b"".join(bytes([int(code)]) if code else named.get(one, one.encode()) if one else rest.encode("latin-1")
                    for code, one, rest in parts)


def books(path):
    """{route: {"started": N, "failed": N, "done": N}}, the routes as bytes."""
    found = {}
    with open(path, encoding="latin-1") as file:
        for line in file:
            match = re.fullmatch(r'route "(.*)" started=(\d+) failed=(\d+) done=(\d+)\n', line)
            if match:
                found[decoded(match[1])] = dict(zip(("started", "failed", "done"), map(int, match.groups()[1:])))
    return found


def samples(path):
    """{(sample's name, sorted labels): value}. Each series is there once."""
    text = said.text(path)
    families = open_families(text) if text.endswith("# EOF\n") else text_families(text)
    found = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            said.holds(f"twice: {key}", key not in found)
            found[key] = int(sample.value) if sample.value == int(sample.value) else sample.value
    return found


def same_numbers(what, got, wanted):
    """Like said.same(), with the first differences of what may be thousands of numbers."""
    differ = [key for key in {**got, **wanted} if got.get(key) != wanted.get(key)]
    for key in differ[:5]:
        said.wrong.append(f"{what} of {key!r}: {got.get(key)}, expected {wanted.get(key)} ({len(differ)} differ)")


def by_route(found, name, **wanted):
    """{route: value} of the samples called NAME that have the labels WANTED; the route None: no such label."""
    values = {}
    for (sample, labels), value in found.items():
        labels = dict(labels)
        if sample == name and all(labels.get(key) == text for key, text in wanted.items()):
            said.holds(f"{name} {wanted}: two samples of {labels.get('route')!r}", labels.get("route") not in values)
            values[labels.get("route")] = value
    return values


def label_of(route, length=64):
    """The value of the label that stands for a route."""
    text = route[:length].decode("utf-8", "replace").replace("\0", "\ufffd")
    if len(route) <= length:
        return text
    return route[:length].decode("utf-8", "ignore" if route[:length].decode("utf-8", "ignore") else "replace") + "..."


def expected(all_books, kind, rows):
    """The numbers of KIND by label, when the labels ROWS have rows of their own."""
    numbers = dict.fromkeys(rows, 0)
    for route, book in all_books.items():
        label = label_of(route)
        numbers[label if label in rows else "other"] += book[kind]
    return {label: number for label, number in numbers.items() if number or label == "other"}


def routes(metrics, books_path, limit, n_routes=None):
    """The metrics in the file METRICS say what the books say, and at most LIMIT routes have rows."""
    found, told, limit = samples(metrics), books(books_path), int(limit)
    n_labels = len({label_of(route) for route in told} - {"other"})
    started = by_route(found, HITS + "_total", probe="request_started")
    failed = by_route(found, HITS + "_total", probe="request_failed")
    done = by_route(found, HITS + "_total", probe="request_done")
    rows = set(started)
    if n_routes:
        said.same("routes in the books", len(told), int(n_routes))
    said.same("rows of their own", len(rows - {"other"}), min(limit, n_labels))
    same_numbers("hits of request_started", started, expected(told, "started", rows))
    same_numbers("hits of request_failed", failed, expected(told, "failed", rows))
    same_numbers("hits of request_done", done, {None: sum(book["done"] for book in told.values())})
    count = by_route(found, TIMES + "_count", start="request_started")
    same_numbers("pairs", count, expected(told, "done", rows))
    same_numbers("buckets +Inf", by_route(found, TIMES + "_bucket", start="request_started", le="+Inf"), count)
    said.same("sums", set(by_route(found, TIMES + "_sum", start="request_started")), rows)
    check_buckets(found)
    for name, value in ("values", len(rows) - 1), ("limit", limit):
        said.same(name, list(by_route(found, f"ocaml_probes_label_{name}").values()), [value])
    return f"{sum(started.values())} requests of {len(told)} routes, {len(rows) - 1} of them with rows"


def check_buckets(found):
    """The buckets of each histogram do not fall from one bound to the next."""
    histograms = {}
    for (name, labels), value in found.items():
        if name == TIMES + "_bucket":
            labels = dict(labels)
            bound = float(labels.pop("le"))
            histograms.setdefault(tuple(sorted(labels.items())), []).append((bound, value))
    for labels, buckets in histograms.items():
        values = [value for _, value in sorted(buckets)]
        said.same(f"buckets of {labels}", values, sorted(values))


def never_fall(*paths):
    """From one of the scrapes PATHS to the next, no counter and no bucket falls, and no series goes."""
    before, falls = {}, ("_total", "_count", "_bucket", "_sum")
    for path in paths:
        now = samples(path)
        for key, value in before.items():
            if key[0].endswith(falls) and key[0].startswith(("ocaml_probes_hits", "ocaml_probes_pair_dur")):
                said.holds(f"{path}: {key} is gone", key in now)
                said.holds(f"{path}: {key} falls from {value} to {now.get(key)}", now.get(key, 0) >= value)
        before = now
    return f"{len(before)} samples in {len(paths)} scrapes"
