"""compare_calls.py TOTALS BOOKS [UNCOUNTABLE...]: compare the calls that the tool counted with the books of
tests/ocaml/calls/calls.ml, function by function. TOTALS has the tool's JSON, BOOKS what the program
printed. The UNCOUNTABLE functions must be missing. Prints the number of functions that were equal."""
import json
import re
import sys

# What the compiler adds, inlines as it likes, or calls at the start.
UNBOOKED = {"entry", "labelled", "counter_init", "Versioned.entry"}


def read_books(path):
    books = {}
    for line in open(path):
        words = line.split()
        if words and words[0] == "call":
            books[words[1]] = int(words[2])
    return books


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
    if re.fullmatch(r"fun_\d+|anon_fn", name):
        return "anonymous"
    if re.fullmatch(r"Versioned\.fun_\d+", name):
        return None
    # Books have no modules or functions that a function is in.
    return name if name.startswith("Versioned.") else re.sub(r"^(\w+\.)*(?=[^.])", "", name)


def main():
    total = json.loads(open(sys.argv[1]).read().splitlines()[-1])
    books = read_books(sys.argv[2])
    uncountable = set(sys.argv[3:])
    assert not any(total["losses"].values()), total["losses"]
    hits = {}
    for probe in total["probes"]:
        book = book_of(probe["name"])
        if book:
            hits[book] = hits.get(book, 0) + probe["hits"]
    # To Flambda a functor is one more function without a name.
    if "Make" not in hits:
        books["anonymous"] += books.pop("Make")
    wrong = []
    parts = [name for name in books if re.search(r"\.\d$", name)]
    for name in sorted((books.keys() | hits.keys()) - UNBOOKED - set(parts)):
        if name in uncountable:
            if name in hits:
                wrong.append(f"{name}: counted {hits[name]} times, but it cannot be counted")
        elif books.get(name, 0) != hits.get(name):
            wrong.append(f"{name}: {books.get(name, 0)} calls, {hits.get(name)} counted")
    if wrong:
        print("\n".join(wrong))
        return 1
    print(len(hits))
    return 0


sys.exit(main())
