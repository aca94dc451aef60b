#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py O [--count N] [--seed N] [--changed BASE] [--file PART]... [--slice K/N] [--again] [--list]

Check that the tests notice wrong code. A mutant is this project with one line changed: a reversed comparison, a missing
statement, a constant off by one, success instead of an error. Each one is built in a copy of the tree, O/mutants/tree, and the
tests that run its line are run until one fails: the unit tests first, then cases of scripts, the quickest first, for at most
BUDGET=300 seconds. Which tests these are is known from `make coverage` (O/coverage/coverage.json, or the file COVERAGE); for
BPF programs from the file `tests` beside this script, a line per source: its path, then its tests, the quickest first. A test is
GROUP of unit tests or a script; NAME:CASE:... are some of its cases, and asan/NAME is the group with the sanitizers.

N mutants (default: 400) are taken from all folders of src and from bpf in turn; the same ones in each run with the same SEED, as
long as the sources are the same. With --changed, only lines that differ from the commit BASE are changed. Left out are mutants
whose object code is that of the program, and those that the file `equivalent` lists with reasons.

Results are appended to O/mutants/results.tsv. Mutants with a result for the same source line are not run again; with --again,
those that were not noticed are. RESULTS is another file for them. Survivors are listed with what ran. The status is 0 if at least 95 % were
noticed.
"""

import argparse
import collections
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
GOAL = 0.95
UNIT_PROGRAMS = {"update": "update", "update_stores": "update", "trampolines": "trampolines"}
# A test takes longer if it waits for an event that does not come.
SECONDS_A_TEST = 120
BUDGET = float(os.environ.get("BUDGET", "300"))
# The objects that are made of bpf/*.bpf.c, and their flags (Makefile).
BPF_OBJECTS = [("measure",), ("measure", "-DMEASURE_PERF"), ("measure", "-DMEASURE_FULL"),
               *(("measure", "-DMEASURE_FULL", "-DMEASURE_" + part) for part in ("SLOWER", "STACKS", "BY")),
               ("profile",), ("memprof",), ("waiting",)]
# The number of groups of unit tests that run again with the sanitizers if no other test notices a mutant.
SANITIZED = 3
# The memory that a process may use.
MEMORY = 4 << 30
NOT_BUILT, SAME_CODE = "does not build", "same code"

# nth: the index among equal lines of the file, from 0; before: the preceding line.
Mutant = collections.namedtuple("Mutant", "path line kind old new nth before")

SWAPS = [
    ("equal", r"(?<=[^=!<>])==(?=[^=])", "!="),
    ("unequal", r"!=", "=="),
    ("less", r" < ", " <= "),
    ("at most", r" <= ", " < "),
    ("more", r" > ", " >= "),
    ("at least", r" >= ", " > "),
    ("and", r" && ", " || "),
    ("or", r" \|\| ", " && "),
    ("plus", r" \+ ", " - "),
    ("minus", r" - ", " + "),
    ("plus one", r"\+\+", "--"),
    ("true", r"\btrue\b", "false"),
    ("false", r"\bfalse\b", "true"),
    ("or bits", r" \|= ", " = "),
    ("add", r" \+= ", " = "),
    ("return 0", r"return 0;", "return 1;"),
    ("return 1", r"return 1;", "return 0;"),
    ("a shift", r" >> ", " << "),
    ("0 instead of an error", r"return -(?:E[A-Z0-9]+|errno|1);", "return 0;"),
    ("0 instead of an error", r"return (?:err|ret|rc|status);", "return 0;"),
    ("constant plus one", r"(?<=[ (\[])(?:[2-9]|[1-9]\d+)(?=[ ;,)\]])", lambda found: str(int(found) + 1)),
    ("constant minus one", r"(?<=[ (\[])(?:[1-9]|[1-9]\d+)(?=[ ;,)\]])", lambda found: str(int(found) - 1)),
    ("condition", r"(?<=\bif )\(.+\)(?=( \{)?$)", lambda found: "(!%s)" % found),
]

# A call as a statement, alone on its line. Calls that free or log are not mutated.
CALL = re.compile(r"^\t+(?!return|free\(|\w+_free\(|free_\w+\(|tdestroy\(|ctx_log|ctx_hint|if\b|for\b|while\b|switch\b|static_assert|_Static)"
                  r"[a-z_]\w*\(.*\);$")
JUMP = re.compile(r"^\t+(break|continue);$")
# An assignment, alone on its line, except in declarations.
STORE = re.compile(r"^\t+[a-z_][\w.>\[\]-]* [|&^+-]?= [^{]*;$")


def mutants_of(path):
    """All mutants of a file, except in comments, top-level declarations and macros."""
    in_comment, line = False, ""
    seen = collections.Counter()
    with open(os.path.join(ROOT, path)) as file:
        for number, text in enumerate(file, 1):
            before, line = line, text.rstrip("\n")
            if in_comment or line.lstrip().startswith("/*"):
                in_comment = "*/" not in line
                continue
            if not line.startswith("\t") or "ctx_error" in line or '"' in line:
                continue
            nth = seen[line]
            seen[line] += 1
            if CALL.match(line) or JUMP.match(line) or STORE.match(line):
                yield Mutant(path, number, "left out", line, "\t;", nth, before)
            code = line.split("/*")[0]
            for kind, pattern, new in SWAPS:
                for found in re.finditer(pattern, code):
                    text = new(found.group()) if callable(new) else new
                    yield Mutant(path, number, kind, line,
                                 line[: found.start()] + text + line[found.end():], nth, before)


def order(mutant, seed=0):
    """A random order that is the same in each run, and independent of line numbers."""
    name = ((seed,) if seed else ()) + (mutant.path, mutant.kind, mutant.old, mutant.new) + ((mutant.nth,) if mutant.nth else ())
    return hashlib.sha256(repr(name).encode()).hexdigest()


def read_tests():
    tests = {}
    with open(os.path.join(HERE, "tests")) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                tests[words[0]] = words[1:]
    return tests


def read_equivalent():
    """(path, old line, new line) -> reason. A line of the file: PATH | OLD | NEW | REASON. If OLD is
    ambiguous, the preceding line may stand before it."""
    known = {}
    with open(os.path.join(HERE, "equivalent")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                path, old, new, reason = [part.strip() for part in line.split(" | ")]
                known[path, old, new] = reason
    return known


def is_equivalent(mutant, known):
    old, new = mutant.old.strip(), mutant.new.strip()
    return (mutant.path, old, new) in known or (mutant.path, mutant.before.strip() + " " + old, new) in known


def sources():
    """{folder: paths} of the files that are mutated."""
    found = collections.OrderedDict()
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "src/*.c", "bpf/*.c", "bpf/*.bpf.h", "bpf/measure_floats.h"],
                            stdout=subprocess.PIPE, check=True, text=True).stdout
    for path in listed.split():
        found.setdefault("/".join(path.split("/")[:2]) if path.startswith("src/") else "bpf", []).append(path)
    return found


def changed_lines(base):
    """{path: numbers of the lines that differ from those of BASE}"""
    text = subprocess.run(["git", "-C", ROOT, "diff", "--unified=0", "--no-ext-diff", base, "--", "src", "bpf"],
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    found, path = collections.defaultdict(set), None
    for line in text.splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, n = int(hunk[1]), int(hunk[2] or 1)
            found[path].update(range(first, first + n))
    return found


def choose(args):
    """Mutants of each folder in turn, COUNT in all; of them those of the wanted files, or of a slice."""
    changed = changed_lines(args.changed) if args.changed else None
    lists = []
    for paths in sources().values():
        mutants = [mutant for path in paths for mutant in mutants_of(path)
                   if changed is None or mutant.line in changed.get(path, ())]
        mutants = [mutant for mutant in mutants if not args.file or any(part in mutant.path for part in args.file)]
        lists.append(sorted(mutants, key=lambda mutant: order(mutant, args.seed)))
    chosen = []
    while len(chosen) < args.count and any(lists):
        for mutants in lists:
            if mutants and len(chosen) < args.count:
                chosen.append(mutants.pop(0))
    if args.slice:
        part, n = map(int, args.slice.split("/"))
        chosen = chosen[part - 1::n]
    return chosen


# ---- which tests --------------------------------------------------------------------------------

Test = collections.namedtuple("Test", "name seconds")


class Coverage:
    """The lines that tests run, by `make coverage`."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        self.commit, self.programs, self.cases = known["commit"], known["programs"], known["cases"]
        self.functions, self.code, self.old_lines = known["functions"], known.get("code", {}), {}

    def old_line(self, path, number):
        """The number that a line had then: it is looked for near its place. None: it is new."""
        if path not in self.old_lines:
            old = subprocess.run(["git", "-C", ROOT, "show", "%s:%s" % (self.commit, path)], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, check=False, text=True).stdout
            self.old_lines[path] = old.split("\n")
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read().split("\n")[number - 1]
        near = [i for i, line in enumerate(self.old_lines[path], 1) if line == text]
        return min(near, key=lambda i: abs(i - number), default=None)

    def function_at(self, path, line):
        """The function that a line is in."""
        before = [(first, name) for name, first in self.functions.get(path, {}).items() if first <= line]
        return max(before)[1] if before else None

    def tests_of(self, path, number):
        """The tests that run a line, the quickest first: the groups of unit tests, and of the scripts that run it the
        cases that run its function. Of a new line, and of one without code: those that run any line of its file."""
        line = self.old_line(path, number)
        # Tables have no code that could be counted.
        if line and path in self.code and not int(self.code[path], 16) >> line & 1:
            line = None
        function = self.function_at(path, line) if line else None
        found = []
        for name, case in self.cases.items():
            program = name if name.startswith("unit/") else name.split("/")[0]
            ran = int(self.programs.get(program, {}).get(path, "0"), 16)
            if ran >> line & 1 if line else ran:
                if program == name or not function or function in case["functions"]:
                    found.append(Test(name, case["seconds"]))
        return sorted(found, key=lambda test: (not test.name.startswith("unit/"), test.seconds, test.name))


def tests_for(mutant, coverage, listed):
    """The tests to run for a mutant: as many as the time permits, but at least three."""
    if mutant.path in listed:
        found = [Test(name, 20) for name in listed[mutant.path]]
    else:
        found = coverage.tests_of(mutant.path, mutant.line)
    chosen, seconds = [], 0
    for test in found:
        # An instrumented program is slower; the time of the build is not counted.
        seconds += test.seconds
        if seconds > BUDGET and len(chosen) >= 3:
            break
        chosen.append(test.name)
    # Reads and writes beyond an object fail only with the sanitizers.
    sanitized = ["asan/" + name.removeprefix("unit/") for name in chosen if name.startswith("unit/")]
    return chosen + sanitized[:SANITIZED], len(found)


def load_runner():
    """tests/run: it knows which processes a test has left."""
    loader = importlib.machinery.SourceFileLoader("runner", os.path.join(ROOT, "tests/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


# ---- the tree -----------------------------------------------------------------------------------


def lines_until_end(process):
    """The lines that a process writes before it ends. What it leaves behind may keep the pipe open."""
    text = b""
    while True:
        is_over = process.poll() is not None
        if select.select([process.stdout], [], [], 0 if is_over else 0.2)[0]:
            more = os.read(process.stdout.fileno(), 65536)
            *lines, text = (text + more).split(b"\n")
            yield from (line + b"\n" for line in lines)
            if not more:
                return
        elif is_over:
            return


class Tree:
    """A copy of the project in which mutants are built."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "tree")
        os.makedirs(self.folder, exist_ok=True)
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, check=True).stdout
        # Give files that differ a new time, so that make rebuilds them: one may be a mutant that remained.
        subprocess.run(["rsync", "-rlp", "--checksum", "--from0", "--files-from=-", ROOT, self.folder],
                       input=files, check=True)
        self.logs = os.path.join(folder, "logs")
        os.makedirs(self.logs, exist_ok=True)
        self.log = os.path.join(self.logs, "log")
        self.object = os.path.join(self.logs, "object.o")
        self.sound_code = {}
        self.sound = {}  # test -> whether it passes without a mutant
        self.runner = load_runner()
        ccache = "ccache " if shutil.which("ccache") else ""
        self.variables = ["CC=%sgcc" % ccache, "CLANG=%sclang" % ccache]

    def make(self, *targets):
        with open(self.log, "w") as log:
            return subprocess.run(["make", "-j%d" % os.cpu_count(), *self.variables, *targets], cwd=self.folder,
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                  check=False).returncode == 0

    def build(self):
        return self.make("all", "ocaml", "fixtures", "ocaml-tests", "unit-tests", "build/tests/frames_dump",
                         "build/faults/inject")

    def build_tools(self):
        """Build the programs under test; the programs that they are tested on remain."""
        return self.make("all")

    def run(self, *command):
        """Run a test up to its first failing case. Returns that case, or "" if all pass."""
        mark = "mutant-%d" % os.getpid()
        env = dict(os.environ, O=os.path.join(self.folder, "build"), COPIED="fixtures", PATIENCE="30", TEST_PROGRAM=mark)
        if "tests/e2e" in " ".join(command):
            del env["COPIED"]
        failed = ""
        with open(self.log, "wb") as log:
            test = subprocess.Popen(["env", "--default-signal", "timeout", "--kill-after=5", str(SECONDS_A_TEST), *command],
                                    cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, start_new_session=True)
            for line in lines_until_end(test):
                log.write(line)
                line = line.decode(errors="replace")
                if failed and not line.startswith("#"):
                    break
                if line.startswith("not ok"):
                    failed = line.split("- ", 1)[-1].strip()
        if failed and test.poll() is None:
            os.killpg(test.pid, signal.SIGTERM)
        status = test.wait()
        test.stdout.close()
        self.runner.signal_all("TEST_PROGRAM=" + mark, test.pid, signal.SIGKILL)
        return failed or {0: "", 124: "did not end", 137: "did not end"}.get(status, "status %d" % status)

    def run_test(self, test):
        """Returns the failed case, "" if all pass, None if the mutant does not build."""
        isolate = os.path.join(self.folder, "tests/isolate")
        if test.startswith("unit/") or test.startswith("asan/") or \
                os.path.exists(os.path.join(self.folder, "tests/unit", "test_%s.c" % test)):
            kind, _, group = test.rpartition("/")
            program = "tests/unit/unit-" + UNIT_PROGRAMS.get(group, "tests")
            if kind == "asan":
                made = self.make("ASAN=1", "O=build/asan", "build/asan/" + program)
                # The sanitizer's maps are as large as the address space.
                return self.run("prlimit", "--data=unlimited", isolate, "build/asan/" + program, group) if made else None
            return self.run(isolate, "build/" + program, group) if self.make("build/" + program) else None
        name, *cases = re.split("[:/]", test)
        return self.run("bash", "tests/e2e/%s.sh" % name, *cases) if self.build_tools() else None

    def write(self, mutant, line):
        path = os.path.join(self.folder, mutant.path)
        with open(path) as file:
            lines = file.read().split("\n")
        lines[mutant.line - 1] = line
        with open(path, "w") as file:
            file.write("\n".join(lines))

    def bpf_code(self, path):
        """The instructions of the BPF programs that PATH is a part of. Maps are types alone: see compare_code."""
        code = b""
        for name, *flags in BPF_OBJECTS:
            command = ["clang", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86", "-O2", "-g", "-w", *flags, "-Ivmlinux",
                       "-Ibpf", "bpf/%s.bpf.c" % name]
            needs = subprocess.run([*command, "-MM"], cwd=self.folder, stdout=subprocess.PIPE, check=False, text=True).stdout
            if path not in needs.split():
                continue
            if subprocess.run([*command, "-c", "-o", self.object], cwd=self.folder, stderr=subprocess.DEVNULL,
                              check=False).returncode:
                return None
            code += subprocess.run(["llvm-objdump", "-d", "-r", self.object], stdout=subprocess.PIPE, check=True).stdout
        return code

    def object_code(self, path):
        """What a file compiles to, without debug information; None if it does not compile."""
        if path.startswith("bpf/"):
            return self.bpf_code(path)
        includes = ["-Iinclude", "-Isrc", "-Ibpf", "-Ibuild/bpf", "-Ibuild/pprof"]
        command = ["gcc", "-std=gnu11", "-w", "-O1", "-g0", "-fPIC", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", *includes,
                   "-c", "-o", self.object, path]
        if subprocess.run(command, cwd=self.folder, stderr=subprocess.DEVNULL, check=False).returncode:
            return None
        with open(self.object, "rb") as file:
            return file.read()

    def compare_code(self, mutant):
        """SAME_CODE, NOT_BUILT, or ""."""
        if mutant.path not in self.sound_code:
            self.sound_code[mutant.path] = self.object_code(mutant.path)
        sound = self.sound_code[mutant.path]
        self.write(mutant, mutant.new)
        try:
            changed = self.object_code(mutant.path)
        finally:
            self.write(mutant, mutant.old)
        if changed is None and sound is not None:
            return NOT_BUILT
        is_map = mutant.path.startswith("bpf/") and "__uint" in mutant.old
        return SAME_CODE if changed is not None and changed == sound and not is_map else ""

    def try_test(self, mutant, test):
        self.write(mutant, mutant.new)
        try:
            return self.run_test(test)
        finally:
            self.write(mutant, mutant.old)

    def is_sound(self, test):
        if test not in self.sound:
            self.sound[test] = self.run_test(test) == ""
            if not self.sound[test]:
                print("# fails without a mutant, and is left out: %s" % test, flush=True)
        return self.sound[test]

    def try_mutant(self, mutant, tests):
        """Returns the case that noticed the mutant, or "". Its output is in O/mutants/logs."""
        log = os.path.join(self.logs, "%s-%d-%s" % (os.path.basename(mutant.path), mutant.line, order(mutant)[:6]))
        if same := self.compare_code(mutant):
            return same
        for test in tests:
            if self.sound.get(test) is False:
                continue
            self.log = log
            failed = self.try_test(mutant, test)
            if failed is None:
                return NOT_BUILT
            self.log = os.path.join(self.logs, "log")
            if failed and self.is_sound(test):
                return "%s: %s" % (test.split(":")[0], failed)
        return ""


def read_results(path):
    results = {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                key, noticed = line.rstrip("\n").split("\t")[:2]
                results[key] = noticed
    return results


def where(mutant):
    return "%s:%d: %s: %s" % (mutant.path, mutant.line, mutant.kind, mutant.new.strip())


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("O")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0, help="other mutants than those of seed 0")
    parser.add_argument("--changed", metavar="BASE", help="only lines that differ from those of this commit")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--slice", metavar="K/N", help="the K-th of N parts of the mutants")
    parser.add_argument("--again", action="store_true", help="run mutants that were not noticed again")
    parser.add_argument("--list", action="store_true", help="list the mutants without running them")
    return parser.parse_args()


class Tally:
    def __init__(self):
        self.noticed = collections.Counter()
        self.survived = collections.Counter()
        self.left_out = collections.Counter()
        self.survivors = []

    def add(self, mutant, result, what_ran):
        folder = os.path.dirname(mutant.path)
        if result in (NOT_BUILT, SAME_CODE, "equivalent"):
            self.left_out[result] += 1
        elif result:
            self.noticed[folder] += 1
        else:
            self.survived[folder] += 1
            self.survivors.append("%s\n    was: %s\n    ran: %s" % (where(mutant), mutant.old.strip(), what_ran))

    def report(self):
        """Print all, and return whether it suffices."""
        noticed, survived = sum(self.noticed.values()), sum(self.survived.values())
        print("\nnoticed, and not, by folder:")
        for folder in sorted({*self.noticed, *self.survived}):
            print("%5d %4d  %s" % (self.noticed[folder], self.survived[folder], folder))
        for text in self.survivors:
            print("not noticed: %s" % text)
        share = 100 * noticed / (noticed + survived) if noticed + survived else 0
        print("%.1f %% of %d mutants were noticed; left out: %s" % (share, noticed + survived, ", ".join(
            "%d (%s)" % (n, why) for why, n in sorted(self.left_out.items())) or "none"))
        return noticed > 0 and share >= 100 * GOAL


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = os.path.abspath(os.path.join(args.O, "mutants"))
    mutants = choose(args)
    if args.list:
        print(*map(where, mutants), sep="\n")
        return 0
    path = os.environ.get("COVERAGE") or os.path.join(args.O, "coverage/coverage.json")
    if not os.path.exists(path):
        sys.exit("mutants: %s: it does not exist: `make coverage` makes it" % path)
    coverage, listed, equivalent = Coverage(path), read_tests(), read_equivalent()
    os.makedirs(folder, exist_ok=True)
    results_path = os.environ.get("RESULTS") or os.path.join(folder, "results.tsv")
    results, tree, tally = read_results(results_path), Tree(folder), Tally()
    if not tree.build():
        sys.exit("mutants: the tree does not build: see %s" % tree.log)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number, mutant in enumerate(mutants, 1):
        key, began = order(mutant), time.monotonic()
        tests, n_tests = tests_for(mutant, coverage, listed)
        what_ran = "%d of %d tests: %s" % (len(tests), n_tests, " ".join(tests)) if tests else "no test runs this line"
        if is_equivalent(mutant, equivalent):
            result = "equivalent"
        elif key in results and (results[key] or not args.again):
            result = results[key]
        else:
            result = results[key] = tree.try_mutant(mutant, tests)
            with open(results_path, "a") as file:
                file.write("%s\t%s\t%s\n" % (key, result, where(mutant)))
        tally.add(mutant, result, what_ran)
        print("%d/%d %s: %s (%.0f s)" % (number, len(mutants), where(mutant), result or "NOT NOTICED",
                                        time.monotonic() - began), flush=True)
    return 0 if tally.report() else 1


if __name__ == "__main__":
    sys.exit(main())
