"""Profiles that nobody measured, for tests of the formats: see tests/unit/made_profile.h."""

import json
import random
import subprocess
import sys


class Made:
    def __init__(self, frames, stacks, kind="cpu", **head):
        self.frames, self.stacks = frames, stacks
        self.head = dict(title="made up", kind=kind, hz=99, start_ns=1795800000123456789, duration_ns=10**10,
                         truncated=0, lost=0) | head

    def text(self):
        return json.dumps({"profile": self.head, "frames": self.frames, "stacks": self.stacks})

    def write(self, driver, form, path):
        with open(path, "wb") as file:
            subprocess.run([driver, form], input=self.text().encode(), stdout=file, check=True)

    def names(self, stack):
        return tuple(self.frames[number][0] for number in stack[2:])

    def value(self):
        return sum(stack[1] for stack in self.stacks)

    def boxes(self):
        """What a graph of it has: the value of each list of functions from the outermost one."""
        boxes = {}
        for stack in self.stacks:
            names = self.names(stack)
            for n in range(len(names) + 1):
                boxes[names[:n]] = boxes.get(names[:n], 0) + stack[1]
        return boxes

    def functions(self):
        """(self, total) of each. Who waits is the function that called the kernel."""
        sums = {}
        for stack in self.stacks:
            names = self.names(stack)
            own = [number for number in stack[2:] if self.head["kind"] == "cpu" or self.frames[number][1] != "kernel"]
            innermost = self.frames[own[-1]][0]
            for name in set(names):
                before = sums.get(name, (0, 0))
                sums[name] = before[0] + (stack[1] if name == innermost else 0), before[1] + stack[1]
        return sums

    def folded(self):
        """The profile with one frame for functions of a library in a row, and each chain of functions once."""
        made = Made(self.frames + [[f"[{name}]", "ocaml", None, 0, False] for name in LIBRARIES], [], **self.head)
        for samples, value, *numbers in self.stacks:
            own = [n for n in numbers if self.head["kind"] == "cpu" or self.frames[n][1] != "kernel"]
            innermost = len(numbers) - 1 - numbers[::-1].index(own[-1])
            stack = []
            for i, number in enumerate(numbers):
                library = library_of(self.frames[number]) if i != innermost else None
                if library is not None:
                    number = len(self.frames) + library
                if library is None or stack[-1:] != [number]:
                    stack.append(number)
            made.stacks.append([samples, value, *made.once(stack)])
        return made

    def once(self, numbers):
        """NUMBERS without chains of at most 8 functions that follow themselves. The functions of the kernel differ from others."""
        stack, names = [], []
        for number in numbers:
            stack.append(number)
            names.append((self.frames[number][0], self.frames[number][1] == "kernel"))
            for n in range(1, 9):
                if names[-n:] == names[-2 * n:-n]:
                    del stack[-2 * n:-n], names[-2 * n:-n]
                    break
        return stack

    def share_of(self, word):
        return sum(stack[1] for stack in self.stacks if any(word in name for name in self.names(stack)))


LIBRARIES = ["Lwt", "Eio"]


def library_of(frame):
    """The index of its library in LIBRARIES, or None."""
    module = frame[0].split(".")[0]
    return next((i for i, name in enumerate(LIBRARIES)
                 if frame[1] == "ocaml" and (module == name or module.startswith(name + "_"))), None)


SMALL = Made(
    [["main", "c", "main.c", 3, False], ["Service.loop", "ocaml", "service.ml", 12, False],
     ["Service.find", "ocaml", "service.ml", 34, False], ["List.iter", "ocaml", "list.ml", 110, True],
     ["caml_alloc_shr", "c", None, 0, False], ["do_syscall_64", "kernel", None, 0, False],
     ["[truncated: a register is not known]", "truncated", None, 0, False],
     ["[libfoo.so+0x1234]", "unknown", None, 0, False], ["Service.find", "ocaml", "service.ml", 35, False]],
    [[70, 707070700, 0, 1, 2], [20, 202020200, 0, 1, 3, 4], [7, 70707070, 0, 1, 2, 5, 5], [3, 30303030, 6, 2, 7],
     [2, 20202020, 0, 1, 2, 1, 8]], truncated=3, lost=2)


def generated(seed, n_stacks, n_functions, deepest, kind="cpu"):
    """Stacks of random depth with recursion and inlining, alike at their outer ends, each once."""
    chance = random.Random(seed)
    frames = []
    for i in range(n_functions):
        form = chance.choice(["ocaml", "ocaml", "ocaml", "c", "kernel", "unknown"])
        file = f"src/module_{i % 37}.ml" if form == "ocaml" else chance.choice([None, f"file_{i % 5}.c"])
        # Some functions are there with several lines, and both inlined and not.
        for _ in range(chance.choice([1, 1, 3])):
            frames.append([f"Module_{i % 37}.function_{i}", form, file, chance.randrange(1000) if file else 0,
                           form == "ocaml" and chance.random() < 0.3])
    outermost = [i for i, frame in enumerate(frames) if not frame[4]]
    stacks, seen, before = [], set(), []
    while len(stacks) < n_stacks:
        stack = before[:chance.randrange(len(before) + 1)] or [chance.choice(outermost)]
        stack += [chance.randrange(len(frames)) for _ in range(chance.randrange(1, max(2, deepest - len(stack))))]
        stack = stack[:deepest]
        names = tuple(frames[number][0] for number in stack)
        if names not in seen:
            seen.add(names)
            samples = 1 + int(chance.expovariate(0.1))
            stacks.append([samples, samples * 10101010 + (chance.randrange(1000) if kind != "cpu" else 0), *stack])
            before = stack
    return Made(frames, stacks, kind, lost=seed)


def with_libraries(made):
    """MADE, in which two thirds of the functions are of libraries."""
    prefixes = ["Lwt.", "Lwt_main.", "Eio_linux.", "Eio.", "Lwt_unix.", "Eio."]
    for frame in made.frames:
        module, function = frame[0].split(".")
        number = int(function.split("_")[1])
        if number % 3:
            frame[0] = prefixes[number % 6] + function
    return made


if __name__ == "__main__":
    sys.stdout.write(generated(*map(int, sys.argv[1:])).text())
