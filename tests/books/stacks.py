"""Stacks: against Printexc's, and the shares of functions against perf's."""

import argparse
import collections
import json
import math
import re

from said import between, holds, objects, same, text, wrong

OUTERMOST = ["Trees", "Thread.create.(fun)", "Domain.spawn.body"]
DEEPEST = 1024


def short(name):
    """Stdlib__List.map is List.map, Dune__exe__Service.find is Service.find."""
    return re.sub(r"^(Stdlib|Dune\.exe)\.(?=.)", "", name.replace("__", "."))


def of_printexc(line):
    number, *slots = line.split("|")
    frames = []
    for slot in slots:
        if slot != "?":
            file, at, inlined, name = slot.split(":", 3)
            frames.append((short(name), file, int(at), inlined == "1"))
    assert frames[0][0] == "Record.here", line
    return int(number), frames[1:]


def of_tool(hit):
    """The frames, and whether the stack is whole, truncated for its depth, or for another reason."""
    stack = hit["stack"]
    frames = [(f["function"], f["file"], f["line"], f.get("inlined", False)) for f in stack
              if f["kind"] == "ocaml" and "file" in f]
    if stack[-1]["kind"] != "truncated":
        return frames, "whole"
    n_calls = sum(not f.get("inlined") for f in stack[:-1])
    return frames, "deep" if n_calls == DEEPEST else "truncated"


def is_same_function(printexc, name):
    """The tool names the function that has the code. Printexc has one name for an anonymous function, such as that of a
    lazy value, and what contains it, and for a function with optional arguments and the one that the compiler makes of its
    body. Printexc names a local function that the compiler has made a part of the function that has the code. And Printexc
    has one name for a function [@tail_mod_cons] and for its second version, which writes into a block of its caller."""
    return name in (printexc, printexc + ".(fun)", printexc + "_inner", printexc + "_dps") or printexc.startswith(name + ".")


def are_same(printexc, frames):
    return len(printexc) == len(frames) and all(
        known[1:] == frame[1:] and is_same_function(known[0], frame[0]) for known, frame in zip(printexc, frames))


def is_same(printexc, frames, kind, args):
    if kind == "deep":
        return are_same(printexc[: len(frames)], frames) and len(printexc) > len(frames)
    if are_same(printexc, frames) and kind == "whole":
        return True
    return args.fibres and printexc[-1][0] not in args.outermost and are_same(printexc, frames[: len(printexc)])


def listed(what, frames):
    return "\n    ".join([what, *(f"{name} {file}:{line}{' [inlined]' if inlined else ''}"
                                  for name, file, line, inlined in frames)])


def stacks(*arguments):
    """stacks HITS STACKS [--fibres] [--inlined] [--outermost NAME...]: what `--print here --stack --json` has printed of a
    program, against what Printexc told its handlers: STACKS, see record.ml of tests/ocaml/trees and tests/ocaml/recorded.

    Each hit is in both. Its frames of OCaml are the same, in the same order: name, file, line, inlined or not. Printexc
    knows no frames of C, and the program's handler is its first frame. Printexc leaves out frames whose place the compiler
    did not know, such as calls of the collector where a function polls; the tool has no line for them. Of stacks that are
    deeper than the tool walks the innermost frames are the same.

    --fibres: where a fibre's code is called by C, Printexc of OCaml 5 stops, and the tool goes on or says that the stack is
    truncated. NAMES are where Printexc's stacks end otherwise. --inlined: a tenth of the stacks must have inlined
    functions."""
    parser = argparse.ArgumentParser()
    for name in "hits", "stacks":
        parser.add_argument(name)
    parser.add_argument("--fibres", action="store_true")
    parser.add_argument("--inlined", action="store_true")
    parser.add_argument("--outermost", nargs="*", default=OUTERMOST)
    args = parser.parse_args(arguments)
    expected = dict(map(of_printexc, text(args.stacks).splitlines()))
    hits = [hit for hit in objects(args.hits) if hit["type"] == "hit"]
    found = {hit["args"][0]: of_tool(hit) for hit in hits}
    same("different hits", len(found), len(hits))
    only = sorted(expected.keys() ^ found.keys())
    same("number of hits that are not in both", (len(only), only[:5]), (0, []))
    seen, n_wrong = collections.Counter(), 0
    for number in expected.keys() & found.keys():
        printexc, (frames, kind) = expected[number], found[number]
        seen.update({"frames": len(printexc), "inlined": any(frame[3] for frame in printexc), kind: 1,
                     "longer": len(frames) > len(printexc)})
        if not is_same(printexc, frames, kind, args):
            n_wrong += 1
            if n_wrong <= 3:
                wrong.extend([listed(f"hit {number}, Printexc:", printexc), listed(f"the tool, {kind}:", frames)])
    same("stacks that differ", n_wrong, 0)
    told = (f"{len(expected)} stacks, {len(set(map(tuple, expected.values())))} different, {seen['frames']} frames,"
            f" {seen['inlined']} stacks with inlined functions; {seen['truncated']} truncated, {seen['deep']} too deep,"
            f" {seen['longer']} longer than Printexc's; {n_wrong} wrong")
    holds(f"too few: {told}", expected and not (args.inlined and seen["inlined"] * 10 < len(expected)))
    return told


# ---- shares -----------------------------------------------------------------------------------

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
    counts = collections.Counter()
    for symbol, file in re.findall(r"^\s*[0-9a-f]+ (.*) \((.*)\)$", text(path), re.MULTILINE):
        symbol = re.sub(r"\+0x[0-9a-f]+$", "", symbol)
        # The end of the runtime's assembly seems to be a function that reaches far.
        if symbol in ("[unknown]", "caml_system__code_end") or (".so" in file and symbol not in known):
            symbol = UNNAMED
        if "kernel" not in file:
            counts[of_symbol(symbol)] += 1
    return counts


def innermost(frames):
    frame = len(frames) - 1
    while frame > 0 and frames[frame].get("inlined"):
        frame -= 1
    kind, name = frames[frame]["kind"], frames[frame]["function"]
    return of_name(name) if kind == "ocaml" else name if kind == "c" else UNNAMED


def of_profile(path):
    counts = collections.Counter()
    for stack in json.loads(text(path))["stacks"]:
        if stack["frames"][-1]["kind"] != "kernel":
            counts[innermost(stack["frames"])] += stack["samples"]
    return counts


def deviations(a, n_a, b, n_b):
    """How far A of N_A and B of N_B are from each other."""
    p = (a + b) / (n_a + n_b)
    return abs(a / n_a - b / n_b) / math.sqrt(p * (1 - p) * (1 / n_a + 1 / n_b))


def shares(samples, profiled):
    """shares SAMPLES PROFILE: the shares of the functions in which the CPU was, as perf and as `profile --cpu --json` have
    seen the same run. SAMPLES is what `perf script -F ip,sym,dso --no-demangle` prints.

    Each function that has 0.5 % in one of them must have the same share in the other: within 2 points, and within 5
    standard deviations of the difference of two independent samples (binomial: of 100 functions that are equal, one is
    outside once in 17 000 runs). perf knows the symbol, the profile the name in the source: of both remain the compilation
    unit and the last part of the name. Code without a symbol is one function, and so are functions of shared libraries that
    only perf has names for, from other files with debug information. Anonymous functions and the code that starts a module
    are not compared: perf and the profile name them differently. Nor are the marks behind a unit's code, which perf takes
    for functions. Samples in the kernel are left out."""
    profile = of_profile(profiled)
    perf = of_perf(samples, profile.keys())
    n_perf, n_profile = sum(perf.values()), sum(profile.values())
    told = [f"{n_perf} samples of perf, {n_profile} of the profile"]
    holds(told[0], min(n_perf, n_profile) > 1000)
    for name, _ in (perf + profile).most_common():
        first, second = 100 * perf[name] / n_perf, 100 * profile[name] / n_profile
        if max(first, second) >= 0.5 and not name.endswith(NOT_COMPARED):
            far = deviations(perf[name], n_perf, profile[name], n_profile)
            told.append(f"{name}: perf {first:.2f} %, the profile {second:.2f} %: {far:.1f} deviations")
            holds(told[-1], abs(first - second) <= POINTS and far <= DEVIATIONS)
    between("functions compared", 10, len(told) - 1, math.inf)
    return "\n".join(told)
