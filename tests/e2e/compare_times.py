"""compare_times.py TOTALS BOOKS [ROOM]: compare the times of calls that the tool measured with the books of
tests/ocaml/calls/timed.ml. TOTALS has the tool's JSON, BOOKS what the program printed. A sum must be
between that of the times inside of the calls and that of the times around them. These differ by less than
1 %, more only if the machine is busy and another process runs between two clocks. Prints the number of functions compared."""
import json
import re
import sys


def read_books(path):
    books = {}
    for line in open(path):
        if re.match("call [^ ]* ", line):
            name, *numbers = line.split()[1:]
            books[name] = list(map(int, numbers))
    return books


def check(pair, books, wrong):
    name = pair["start"].removeprefix("fn:")
    calls, inner, outer = books[name]
    raised = books.get(name + ":raised", [0])[0]

    def equal(what, measured, expected):
        if measured != expected:
            wrong.append(f"{name}: {what} {measured}, expected {expected}")

    equal("starts", pair["starts"], calls)
    equal("count", pair["count"], calls - raised)
    equal("orphan starts and open", pair["orphan_starts"] + pair["open"], raised)
    equal("orphan stops", pair["orphan_stops"], 0)
    equal("map_full", pair["map_full"], 0)
    if outer and not inner <= pair["sum_ns"] <= outer:
        wrong.append(f"{name}: {pair['sum_ns']} ns, expected {inner} to {outer}")
    return inner if outer else 0, outer


def main():
    total = json.loads(open(sys.argv[1]).read().splitlines()[-1])
    books = read_books(sys.argv[2])
    wrong = []
    sums = [check(pair, books, wrong) for pair in total["pairs"]]
    inner, outer = map(sum, zip(*sums))
    if outer > 1.1 * inner:
        wrong.append(f"the books differ too much themselves: {inner} ns inside, {outer} ns around")
    if wrong:
        print("\n".join(wrong))
        return 1
    print(len(sums))
    return 0


sys.exit(main())
