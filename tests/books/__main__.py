"""books COMPARISON ARG...: is what the tool says what a program says of itself?

A COMPARISON is a function of one of the modules beside this one, and its documentation tells the ARGs. Status 0: it is
so, and what it returns is printed. Status 1: a line for each difference.
"""

import importlib
import sys

sys.dont_write_bytecode = True
import said  # noqa: E402

MODULES = {
    "counts": "that calls lines engines",
    "pairs": "pairs function_pairs intervals times times_of_a_pattern slow slow_calls pauses",
    "values": "by calls_by call_groups function_groups function_times same_groups same_times most_groups named floats",
    "stacks": "stacks shares",
    "names": "demangled",
    "frames": "tables backtraces line_numbers",
    "memprof": "events",
    "labels": "routes never_fall",
}


def main(name, *arguments):
    module = next(module for module, names in MODULES.items() if name in names.split())
    result = getattr(importlib.import_module(module), name)(*arguments)
    if said.wrong:
        print(*said.wrong, sep="\n")
        return 1
    print(*(result if isinstance(result, (list, tuple)) else [result]))
    return 0


sys.exit(main(*sys.argv[1:]))
