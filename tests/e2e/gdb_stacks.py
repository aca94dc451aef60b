# SPDX-License-Identifier: MIT
"""Runs in gdb: gdb -batch -ex "python ARGS = [PID, STOPS, WALKER, REPORT]" -x gdb_stacks.py

Let the process PID run until it gets SIGPROF, STOPS times, and each time compare the stacks of all of its threads,
as gdb sees them, with those of WALKER (tests/profile/walk_stopped.c).

A stack is equal, or WALKER says that it is truncated. Where gdb sees another one, WALKER's must be whole, from
_start or the start of a thread on, and from the first difference on each return address must be behind a call;
and gdb's must not be such a one. gdb follows call frame information that is wrong where the collector is called
inside `try`, and stops where OCaml 5 changes stacks. It misses a frame where OCaml 5 makes a stack larger, and
the function has no frame yet: there the call must lead to the function (test_unwind_steps proves it by steps).
New threads that gdb holds at their first instruction, in clone3, are left out: it has no call frame information
on purpose. A C library without debug symbols has no symbol for clone3: the code itself shows it. What is found
stands in the file REPORT."""

import collections
import subprocess

import gdb

PID, STOPS, WALKER, REPORT = ARGS  # noqa: F821
REGISTERS = ["rbx", "rbp", "r12", "r13", "r14", "r15", "rsp", "rip"]
ENDS = ["whole", "too deep", "no mapping", "new file", "no rule", "unreadable", "no register", "no progress"]
OUTERMOST = {"_start", "clone", "clone3", "__clone", "__clone3"}
# In clone3, a new thread begins behind the system call, and ends itself behind the call of its first function.
NEW_THREAD = bytes.fromhex("b8b3010000 0f05"), bytes.fromhex("4885c0")  # mov $SYS_clone3,%eax; syscall; test %rax,%rax
END_OF_THREAD = bytes.fromhex("ffd2"), bytes.fromhex("4889c7 b83c000000 0f05")  # call *%rdx; exit(%rax)
NOT_ON_THE_STACK = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)


class Tool:
    """The walker under test."""

    def __init__(self):
        self.process = subprocess.Popen([WALKER, str(PID)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def walk(self):
        frame = gdb.newest_frame()
        values = [int(frame.read_register(r)) & (1 << 64) - 1 for r in REGISTERS]
        self.process.stdin.write(" ".join(f"{value:x}" for value in values) + "\n")
        self.process.stdin.flush()
        end, *frames = self.process.stdout.readline().split()
        return int(end), [int(at, 16) for at in frames]


def walk_by_gdb():
    frames, frame = [], gdb.newest_frame()
    while frame is not None and len(frames) < 1500:
        if frame.type() not in NOT_ON_THE_STACK:
            frames.append(frame.pc())
        try:
            frame = frame.older()
        except gdb.error:
            break
    return frames


def symbol(address):
    """The function at ADDRESS, and how far in it is."""
    text = gdb.execute(f"info symbol {address:#x}", to_string=True)
    if text.startswith("No symbol"):
        return "?", 0
    name, *rest = text.split(" in section ")[0].split(" + ")
    return name, int(rest[0]) if rest else 0


def read(address, size):
    """The SIZE bytes at ADDRESS, None if there are none: a stack of gdb that went astray may end anywhere."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size)) if address >= 0 else None
    except gdb.MemoryError:
        return None


def call_before(address):
    """Is a call in front of ADDRESS? The function that it leads to, "*" if it does not say which."""
    code = read(address - 7, 7)
    if code is None:
        return None
    if code[2] == 0xE8:
        target = address + int.from_bytes(code[3:], "little", signed=True)
        return symbol(target)[0]
    for bytes_ in (2, 3, 4, 6, 7):
        rest = code[7 - bytes_:]
        prefixes = 1 if rest[0] in (0x41, 0x3E, 0x40) and bytes_ > 2 else 0
        if rest[prefixes] == 0xFF and rest[prefixes + 1] >> 3 & 7 == 2:
            return "*"
    return None


def is_proven(frames, first):
    """Does each frame from number FIRST on return to behind a call, and is the last one the first of all?"""
    return is_outermost(frames[-1]) and all(call_before(at) for at in frames[max(first, 1):-1])


def is_code(address, code):
    """Does CODE, two pieces, stand before and behind ADDRESS?"""
    before, behind = code
    return read(address - len(before), len(before) + len(behind)) == before + behind


def is_outermost(address):
    return symbol(address)[0] in OUTERMOST or is_code(address, END_OF_THREAD)


def is_new_thread(address):
    return symbol(address)[0] in OUTERMOST or is_code(address, NEW_THREAD)


def report(text):
    with open(REPORT, "a", encoding="ascii") as file:
        print(text, file=file)


def is_growing(frames, first):
    """Is frame number FIRST the caller of a function that has its stack made larger?"""
    return (first >= 2 and symbol(frames[first - 2])[0] == "caml_call_realloc_stack"
            and call_before(frames[first]) in ("*", symbol(frames[first - 1])[0]))


def show(title, frames, first):
    report(title)
    for number, at in enumerate(frames[: first + 8]):
        name, off = symbol(at)
        report(f"  {'>' if number == first else ' '} {at:#x} {name}+{off}")


class Counts:
    def __init__(self):
        self.n, self.frames, self.kinds, self.places = 0, 0, collections.Counter(), collections.Counter()
        self.shown, self.n_new = 0, 0

    def compare(self, tool):
        end, ours = tool.walk()
        theirs = walk_by_gdb()
        if end and len(ours) == 1 and is_new_thread(ours[0]):
            self.n_new += 1
            return
        self.n += 1
        self.frames += len(ours)
        if end == 0 and ours == theirs:
            self.kinds["equal"] += 1
            return
        first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        kind = "wrong"
        if end != 0 and first == min(len(ours), len(theirs)) and all(map(call_before, ours[first:])):
            kind = f"truncated: {ENDS[end]}"
        elif end == 0 and is_proven(ours, first) and (is_growing(ours, first) or not is_proven(theirs, first)):
            kind = "gdb stops early" if first == len(theirs) else "gdb goes astray"
        self.kinds[kind] += 1
        self.places[f"{kind}, above {symbol(ours[first - 1])[0] if first else '?'}"] += 1
        if kind == "wrong" and self.shown < 5:
            self.shown += 1
            show(f"the walker, {ENDS[end]}:", ours, first)
            show("gdb:", theirs, first)


def main():
    for setting in ("pagination off", "confirm off", "backtrace past-main on", "backtrace past-entry on",
                    "backtrace limit 2000", "print thread-events off", "print inferior-events off"):
        gdb.execute(f"set {setting}")
    gdb.execute(f"attach {PID}", to_string=True)
    gdb.execute("handle all nostop noprint pass", to_string=True)
    gdb.execute("handle SIGPROF stop print nopass", to_string=True)
    tool, counts = Tool(), Counts()
    for _ in range(STOPS):
        gdb.execute("continue", to_string=True)
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            counts.compare(tool)
    gdb.execute("kill")
    for place, n in counts.places.most_common():
        report(f"{n:6} {place}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.kinds.most_common())
    report(f"{STOPS} stops, {counts.n} stacks, {counts.frames} frames: {kinds} ({counts.n_new} new threads)")
    truncated = sum(n for kind, n in counts.kinds.items() if kind.startswith("truncated"))
    failed = counts.kinds["wrong"] or truncated * 200 > counts.n or counts.n < STOPS
    gdb.execute(f"quit {1 if failed else 0}")


main()
