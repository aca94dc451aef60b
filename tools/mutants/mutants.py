#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py O [--count N] [--file PART]... [--again]: check that the tests notice wrong code.

A mutant is this project with one line changed: a reversed comparison, a missing call, a constant off
by one. Each mutant is built in a copy of the tree, and its tests run until a case fails. The file
`tests` beside this script lists the tests, one line per source file: its path, then its tests, the
quickest first. A test is NAME of tests/unit/test_NAME.c or tests/e2e/NAME.sh; NAME:CASE:... runs some
cases of it, and asan/NAME is the unit test with the sanitizers. The file `equivalent` lists mutants
that behave like the program, with reasons.

Each run makes the same N mutants, as long as the sources are the same. Results are appended to
O/mutants/results.tsv. Mutants with a result for the same source line are not run again; with --again,
those that were not noticed are. The status is 0 if at least 95 % of the mutants were noticed.
"""

import argparse
import collections
import hashlib
import os
import re
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
GOAL = 0.95
SECONDS_A_PROGRAM = 90
SECONDS_A_SCRIPT = 600
NOT_BUILT = "does not build"

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
    ("return an error", r"return err;", "return 0;"),
    ("return 0", r"return 0;", "return 1;"),
    ("return 1", r"return 1;", "return 0;"),
    ("not", r"if \(!(?=\w)", "if ("),
    ("if", r"if \((?=[\w.>()-]+\)$)", "if (!"),
    ("a shift", r" >> ", " << "),
]

# A statement that is a call, alone on its line. Freeing and logging do not count as behaviour.
CALL = re.compile(r"^\t+(?!return|free\(|\w+_free\(|ctx_log|ctx_hint|if\b|for\b|while\b|switch\b|static_assert|_Static)"
                  r"[a-z_]\w*\(.*\);$")
JUMP = re.compile(r"^\t+(break|continue);$")


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
            if CALL.match(line) or JUMP.match(line):
                yield Mutant(path, number, "left out", line, "\t;", nth, before)
            code = line.split("/*")[0]
            for kind, pattern, new in SWAPS:
                for found in re.finditer(pattern, code):
                    yield Mutant(path, number, kind, line,
                                 line[: found.start()] + new + line[found.end():], nth, before)


def order(mutant):
    """A random order that is the same in each run, and independent of line numbers."""
    name = (mutant.path, mutant.kind, mutant.old, mutant.new) + ((mutant.nth,) if mutant.nth else ())
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


def choose(tests, wanted, count):
    """Choose equally many mutants of each file, if it has enough; then keep those of the wanted files."""
    lists = [sorted(mutants_of(path), key=order) for path in tests]
    chosen = []
    while len(chosen) < count and any(lists):
        for mutants in lists:
            if mutants and len(chosen) < count:
                chosen.append(mutants.pop(0))
    files = list(tests)
    return sorted((mutant for mutant in chosen if not wanted or any(part in mutant.path for part in wanted)),
                  key=lambda mutant: files.index(mutant.path))


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
        self.sound = set()  # tests that have passed without a mutant

    def make(self, *targets):
        with open(self.log, "w") as log:
            return subprocess.run(["make", "-j%d" % os.cpu_count(), *targets], cwd=self.folder,
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                  check=False).returncode == 0

    def build(self):
        return self.make("all", "ocaml", "fixtures", "ocaml-tests", "unit-tests")

    def build_tools(self):
        """Build the programs under test; the programs that they are tested on remain."""
        return self.make("all")

    def run(self, seconds, *command):
        """Run a test up to its first failing case. Returns that case, or "" if all pass."""
        env = dict(os.environ, O=os.path.join(self.folder, "build"), CMOCKA_MESSAGE_OUTPUT="TAP")
        failed = ""
        with open(self.log, "w") as log:
            test = subprocess.Popen(["env", "--default-signal", "timeout", "--kill-after=5",
                                     str(seconds), *command], cwd=self.folder,
                                    env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
            for line in test.stdout:
                log.write(line)
                if failed and not line.startswith("#"):
                    break
                if line.startswith("not ok"):
                    failed = line.split("- ", 1)[-1].strip()
        if failed:
            os.killpg(test.pid, signal.SIGTERM)
        status = test.wait()
        return failed or {0: "", 124: "did not end", 137: "did not end"}.get(status, "status %d" % status)

    def run_test(self, test):
        """Returns the failed case, "" if all pass, None if the mutant does not build."""
        name, *cases = test.split(":")
        program = os.path.join("build/tests/unit", "test_" + name)
        if name.startswith("asan/"):
            program = os.path.join("build/asan/tests/unit", "test_" + name[len("asan/"):])
            made = self.make("ASAN=1", "O=build/asan", program)
            return self.run(SECONDS_A_PROGRAM, program) if made else None
        if os.path.exists(os.path.join(self.folder, "tests/unit", "test_%s.c" % name)):
            return self.run(SECONDS_A_PROGRAM, program) if self.make(program) else None
        return self.run(SECONDS_A_SCRIPT, "bash", "tests/e2e/%s.sh" % name, *cases) if self.build_tools() else None

    def write(self, mutant, line):
        path = os.path.join(self.folder, mutant.path)
        with open(path) as file:
            lines = file.read().split("\n")
        lines[mutant.line - 1] = line
        with open(path, "w") as file:
            file.write("\n".join(lines))

    def try_mutant(self, mutant, tests):
        """Returns the case that noticed the mutant, or "". Its output is in O/mutants/logs."""
        self.log = os.path.join(self.logs, "%s-%d-%s" % (os.path.basename(mutant.path), mutant.line, order(mutant)[:6]))
        self.write(mutant, mutant.new)
        try:
            for test in tests:
                failed = self.run_test(test)
                if failed is None:
                    return NOT_BUILT
                if failed:
                    break
            else:
                return ""
        finally:
            self.write(mutant, mutant.old)
        self.log = os.path.join(self.logs, "log")
        if test not in self.sound and self.run_test(test) != "":
            sys.exit("mutants: %s fails without any mutant: see %s" % (test, self.log))
        self.sound.add(test)
        return "%s: %s" % (test.split(":")[0], failed)


def read_results(path):
    results = {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                key, noticed = line.rstrip("\n").split("\t")[:2]
                results[key] = noticed
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("O")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--again", action="store_true", help="run mutants that were not noticed again")
    parser.add_argument("--list", action="store_true", help="list the mutants without running them")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = os.path.abspath(os.path.join(args.O, "mutants"))
    tests, equivalent = read_tests(), read_equivalent()
    mutants = choose(tests, args.file, args.count)
    if args.list:
        for mutant in mutants:
            print("%s:%d: %s: %s" % (mutant.path, mutant.line, mutant.kind, mutant.new.strip()))
        return 0
    os.makedirs(folder, exist_ok=True)
    results_path = os.path.join(folder, "results.tsv")
    results = read_results(results_path)
    tree = Tree(folder)
    if not tree.build():
        sys.exit("mutants: the tree does not build: see %s" % tree.log)
    noticed = alike = refused = 0
    survivors = []
    for number, mutant in enumerate(mutants, 1):
        where = "%s:%d: %s: %s" % (mutant.path, mutant.line, mutant.kind, mutant.new.strip())
        if is_equivalent(mutant, equivalent):
            alike += 1
            continue
        key = order(mutant)
        if key not in results or (args.again and not results[key]):
            results[key] = tree.try_mutant(mutant, tests[mutant.path])
            with open(results_path, "a") as file:
                file.write("%s\t%s\t%s\n" % (key, results[key], where))
        refused += results[key] == NOT_BUILT
        noticed += results[key] not in ("", NOT_BUILT)
        if not results[key]:
            survivors.append(where)
        print("%d/%d %s: %s" % (number, len(mutants), where, results[key] or "NOT NOTICED"), flush=True)
    run = noticed + len(survivors)
    print("\n%d mutants: %d noticed, %d not (%.1f %% noticed); %d others do not build, %d are equivalent"
          % (len(mutants), noticed, len(survivors), 100 * noticed / run if run else 0, refused, alike))
    for where in survivors:
        print("not noticed: %s" % where)
    return 0 if run and noticed >= GOAL * run else 1


if __name__ == "__main__":
    sys.exit(main())
