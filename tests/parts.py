# SPDX-License-Identifier: MIT
"""The parts of `make check-long`, and their steps: what runs (tests/long)."""
import collections
import glob
import os
import re
import shlex

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# A step is a command; `load` processes compute meanwhile.
Step = collections.namedtuple("Step", "name command load", defaults=[0])

COMPILERS = "4.13.1 4.14.1 4.14.1+flambda 5.1.4 5.3.0 5.4.1 5.5.2".split()


def names(pattern):
    return [os.path.basename(path).rsplit(".", 1)[0] for path in sorted(glob.glob(f"{ROOT}/{pattern}"))]


def long_scripts():
    """{script: PART} of those that are no part of `make check`."""
    found = {}
    for name in names("tests/e2e/*.sh"):
        with open(f"{ROOT}/tests/e2e/{name}.sh", encoding="utf-8") as file:
            top = re.match(r"(#.*\n)*", file.read()).group()
        if part := re.search(r"^# long: (\w+)$", top, re.MULTILINE):
            found[name] = part[1]
    return found


def of_part(part):
    for name, its_part in long_scripts().items():
        if its_part == part:
            yield script(name)


def cases(name, *settings, compiler=None, pattern=""):
    """A step for each case of a script that matches the PATTERN: it may take long."""
    if compiler:
        settings = (*settings, f"COMPILER={compiler}")
    with open(f"{ROOT}/tests/e2e/{name}.sh", encoding="utf-8") as file:
        for case in re.findall(r"^(test_\w+) *\(\)", file.read(), re.MULTILINE):
            if re.search(pattern, case):
                yield Step(f"{name}.{case}" + (f".{compiler}" if compiler else ""),
                           f"{' '.join([*settings, 'tests/run'])} $O {name}/{case}")


def script(name, *settings):
    return Step(name, f"{' '.join([*settings, 'tests/run'])} $O {name}")


def compilers():
    """every script, and each feature on one program, with each compiler"""
    for compiler in COMPILERS:
        yield Step(compiler, f"tools/matrix/check $O {compiler}")


def kills():
    """the tool is killed at its system calls, thousands of times, and each of its calls fails once"""
    yield from cases("inside_kills", "KILLS=500")
    # Threads, domains, effects and fibres.
    yield from cases("inside_kills", "KILLS=300", compiler="5.3.0", pattern="ocaml|several")
    yield from cases("stores_kills", "KILLS=400")
    for name, setting in ("inside_keep", "KILLS=200"), ("memprof", "MEMPROF_KILLS=300"), ("memprof_events", "MEMPROF_KILLS=300"):
        yield script(name, setting)
    yield script("hostile_blocks", "TIMES=20")
    yield script("link", "STEPS='2 3'")
    yield script("record_kills", "KILLS=500")
    yield Step("faults", "tools/faults/run $O")


def soak():
    """programs that come and go"""
    yield script("soak", "SOAK_SECONDS=600")
    yield script("inside_soak", "SECONDS_=600")
    yield script("inside", "WHOLE=yes", "MOVES=200")
    yield script("inside_suite", "WHOLE=yes")
    yield script("count", "TOGGLES=500", "ROUNDS=100000", "SWITCHES=60")
    yield script("serve_labels", "LABEL_REQUESTS=1000000")
    yield script("dormant", "TOGGLES=125")
    yield script("states", "TOGGLES=300")
    yield script("functions_measured", "CYCLES=1000", "SUITE=all", "TIMED=10")
    yield script("suite", "WHOLE=yes", "TOGGLES=20000")
    for name in "memprof_lib_ocaml", "memprof_probes", "memprof_memtrace":
        yield script(name, "MEMPROF_EVENTS=1000000", "MEMPROF_TURNS=500", "WHOLE=yes")
    yield script("record_soak", "TRIGGERS=10000")
    yield script("record_inside", "EVENTS=1000000")
    yield from of_part("soak")


def statistics():
    """shares of samples, rates, stacks at random stops"""
    yield script("gdb_stacks", "STOPS=2000", "SEEDS=5")
    yield script("call_trees", "SEEDS=10")
    yield script("suite_stacks", "WHOLE=yes")
    yield script("float_histograms", "SEEDS=200")
    yield from of_part("statistics")


def fuzz():
    """new inputs for every reader"""
    for name in names("tests/fuzz/fuzz_*.c"):
        yield Step(name, f"tests/fuzz/run $O {name} ${{FUZZ_SECONDS:-240}}")


# What distributions build packages with: Debian and Ubuntu, Fedora, Arch, and builds for newer processors.
HARDENED = ("-O2 -g -fstack-protector-strong -fstack-clash-protection -fcf-protection -U_FORTIFY_SOURCE "
            "-D_FORTIFY_SOURCE=3 -Wformat -Werror=format-security")
BUILDS = {
    "gcc-O2": ("gcc", "-O2 -g"),
    "gcc-O3": ("gcc", "-O3 -g"),
    "gcc-lto": ("gcc", "-O2 -g -flto=auto -ffat-lto-objects"),
    "gcc-hardened": ("gcc", HARDENED),
    "gcc-frames": ("gcc", HARDENED + " -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fexceptions"),
    "gcc-v3": ("gcc", "-O2 -g -march=x86-64-v3 -mtune=generic"),
    "clang-O2": ("clang", "-O2 -g"),
    "clang-O3": ("clang", "-O3 -g"),
    "clang-hardened": ("clang", HARDENED),
}


def builds():
    """compilers and their flags, without a warning; and each benchmark for a moment"""
    for name, (compiler, flags) in BUILDS.items():
        build = f"$O/long/build/{name}"
        yield Step(name, f"rm -rf {build} && make -j$(nproc) WERROR=1 O={build} CC={compiler} CFLAGS={shlex.quote(flags)} all fixtures "
                         f"unit-tests && COMBINATIONS=all tests/run {build} unit toggle && rm -rf {build}")
    for name in "doctor", "list", "toggle", "trace":
        yield script(name, "TOOL=$O/asan/ocaml-probes")
    yield Step("bench-programs", "make -j$(nproc) bench-programs")
    for name in names("tools/bench/*.bench"):
        # Whether a bar holds is not asked.
        yield Step(f"bench-{name}", f"ROUNDS=1 tools/bench/run $O {name} | lacks 'could not run'")


def packages():
    """Debian's and opam's packages, built and installed in a system that has nothing"""
    for name in "ocaml_package", "install", "install_deps", "library":
        yield script(name)
    yield Step("check-deb", "make check-deb")
    yield from of_part("packages")


def programs():
    """liquidsoap, coqc and haxe, as Debian has them, under every command of the manual"""
    yield Step("install", "tools/install-deps programs")
    yield from of_part("programs")


def load():
    """the scripts of the check while the machine has much to do"""
    groups = 8
    some = [name for name in names("tests/e2e/*.sh") if not is_library(name) and name not in long_scripts()]
    for busy in 4, 8:
        for group in range(groups):
            yield Step(f"load{busy}-{group + 1}", f"tests/run $O {' '.join(some[group::groups])}", busy)
        yield Step(f"load{busy}-unit", "tests/run $O unit", busy)


def is_library(name):
    with open(f"{ROOT}/tests/e2e/{name}.sh", encoding="utf-8") as file:
        return not file.read(2) == "#!"


def mutants():
    """400 faults in the code, of which the tests notice 95 %"""
    # It goes on by itself where it was cut.
    yield Step("mutants", "RESULTS=$O/long/mutants/$COMMIT.tsv make mutants N=400")


def steps_of(part):
    """The steps of a part: one that says more of a script stands for the script."""
    return list({step.name: step for step in reversed(list(PARTS[part]()))}.values())[::-1]


PARTS = {part.__name__: part for part in (compilers, kills, soak, statistics, fuzz, builds, packages, programs, load, mutants)}
