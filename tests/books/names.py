"""Names of functions, as tests/library/demangle prints them, against other witnesses."""

import bisect
import re
import subprocess

from frames import dumped, positive
from said import holds


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def code_symbols(path):
    """The symbols in the code of the file: {symbol: address}."""
    found = {}
    # The first prints nothing for a stripped file.
    for flags in ["-p"], ["-pD"]:
        for line in run("nm", *flags, path).splitlines():
            words = line.split()
            if len(words) == 3 and words[1] in "tT":
                found.setdefault(words[2], int(words[0], 16))
    return found


def units_of(symbols):
    """The compilation units, by their marks: {"camlStdlib__List": "."}, with what separates them from a function."""
    marks = (re.fullmatch(r"(caml[A-Z].*)(__|\.)code_begin", symbol) for symbol in symbols)
    return {mark[1]: mark[2] for mark in marks if mark}


def unit_of(symbol, units):
    """The unit of the longest name that the symbol begins with."""
    ends = (match.start() for match in re.finditer(r"\.|(?=__)", symbol))
    found = [symbol[:end] for end in ends if symbol[:end] in units and symbol[end:].startswith(units[symbol[:end]])]
    return found[-1] if found else None


def shown_path(unit):
    """As people write the path of a unit: "Stdlib__List" is List."""
    path = re.sub(r"(?<=.)__(?=[A-Z])", ".", unit)
    return re.sub(r"^(Stdlib|Dune__exe)\.(?=[A-Z])", "", path)


def encoded(identifier, separator):
    """As the assembler takes an identifier. From OCaml 5.1 on, it takes dots."""
    kept = r"[^A-Za-z0-9_.]" if separator == "." else r"[^A-Za-z0-9_]"
    return re.sub(kept, lambda match: "".join(f"${byte:02x}" for byte in match[0].encode()), identifier)


def encoded_again(name, symbol, unit, separator):
    """The symbol of the function called NAME, with the stamp of SYMBOL."""
    path = shown_path(unit[len("caml"):])
    if not name.startswith(path + "."):
        return f"(not in {path})"
    identifier = name[len(path) + 1:]
    stamp = re.search(r"_\d+$|$", symbol)[0]
    operator = re.fullmatch(r"\((.+)\)", identifier)
    if operator:
        identifier = operator[1]
    elif re.fullmatch(rf"fun{stamp}", identifier):
        identifier = "fun"
    return unit + separator + encoded(identifier, separator) + stamp


def own_path(places):
    """What the debug information of a call says about the function it is in: "Stdlib__List.iter.(fun)"."""
    if not places or " inlined" in places[-1]:
        return None
    return places[-1].split(" ")[0]


def split_name(name):
    """The unit's path and the identifier of the NAME of a flat symbol: "Stdlib.(@.)" has "Stdlib" and "@."."""
    module, identifier = re.fullmatch(r"(.+?)\.(\(.*\)|[^.]*)", name).groups()
    return module, identifier.removeprefix("(").removesuffix(")")


def is_in(identifier, path_in_file):
    """Is it one of the names in the path? The compiler makes other functions of some, and numbers of anonymous ones."""
    identifier = re.sub(r"_(inner|dps)$", "", identifier)
    parts = re.findall(r"\(.*?\)+(?=[.#]|$)|[^.#]+", path_in_file)
    return re.fullmatch(r"entry|fun(_\d+)?", identifier) or identifier in [part.strip("()") for part in parts]


def compare_with_tables(dump, path, named):
    """NAMED: {address: name}. Each call is in a function of the unit that its debug information says, and nearly
    each in a function of that name: the code of a local function can be a part of another function. Returns how
    many calls were compared."""
    starts, compared, elsewhere = sorted(named), 0, []
    for address, (_, _, places) in dumped(dump, path).items():
        at = bisect.bisect_left(starts, address) - 1
        called = own_path(places)
        if at < 0 or called is None or not named[starts[at]]:
            continue
        compared += 1
        module, identifier = split_name(named[starts[at]])
        unit, _, in_file = called.partition(".")
        holds(f"a call of {called} is in {named[starts[at]]}", module == shown_path(unit))
        if not is_in(identifier, in_file):
            elsewhere.append(f"{named[starts[at]]}: {called}")
    holds(f"{len(elsewhere)} of {compared} calls are in other functions: {elsewhere[:10]}",
          len(elsewhere) <= compared / 100)
    return compared


def demangled(demangle, dump, path):
    """demangled DEMANGLE DUMP FILE: the names of all OCaml functions of FILE. Returns how many there are."""
    symbols = code_symbols(path)
    units = units_of(symbols)
    functions = [symbol for symbol in symbols
                 if re.match(r"caml[A-Z]", symbol) and not re.search(r"(__|\.)code_(begin|end)$", symbol)]
    names = run(demangle, input="".join(f"{symbol}\n" for symbol in symbols)).splitlines()
    holds("not a name for each symbol", len(names) == len(symbols))
    name_of = dict(zip(symbols, names))
    seen, named = set(), {}
    for symbol in symbols:
        if symbol not in functions:
            holds(f"{symbol} became {name_of[symbol]}", name_of[symbol] == symbol)
    for symbol in functions:
        unit, name = unit_of(symbol, units), name_of[symbol]
        holds(f"{symbol} is in no unit", unit is not None)
        if not unit:
            continue
        again = encoded_again(name, symbol, unit, units[unit])
        holds(f"{symbol} became {name}, which is {again}", again == symbol)
        key = unit, name, re.search(r"_\d+$|$", symbol)[0]
        holds(f"two functions are {key}", key not in seen)
        seen.add(key)
    # What follows a function of another language, or of no symbol, is not in an OCaml function.
    for symbol, address in symbols.items():
        named[address] = name_of[symbol] if symbol in functions else named.get(address)
    return positive(len(functions)), positive(compare_with_tables(dump, path, named))
