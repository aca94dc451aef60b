#!/usr/bin/env python3
"""What a process has of its probes, read through /proc/PID/mem and without the tool.

interrupted_truth.py save PID LIST FILE
    Keep the states of all probes in FILE.
interrupted_truth.py tell PID LIST BEFORE AFTER
    Print "CHANGED DONE HALF": how many probes differ between the files BEFORE and AFTER, how many of
    them are now as in AFTER, and how many neither as in AFTER nor as in BEFORE.
interrupted_truth.py other_than PID LIST COUNT
    Print how many probes have another counter than COUNT.

LIST has a line "NAME SITE COUNTER" for each site, addresses in the process; SITE 0: it has none.
"""
import json
import sys


def read_list(path):
    with open(path) as lines:
        for line in lines:
            name, site, counter = line.split()
            yield name, int(site, 0), int(counter, 0)


def read_window(mem, addresses, n_bytes):
    """One read for all: they stand together."""
    if not addresses:
        return lambda address: b""
    low = min(addresses)
    mem.seek(low)
    window = mem.read(max(addresses) + n_bytes - low)
    return lambda address: window[address - low : address - low + n_bytes]


def states(pid, path):
    places = list(read_list(path))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        opcode = read_window(mem, [site + 1 for _, site, _ in places if site], 1)
        counter = read_window(mem, [at for _, _, at in places], 2)
        probes = {}
        for name, site, at in places:
            have = probes.setdefault(name, [[], []])
            if site:
                have[0].append(opcode(site + 1).hex())
            have[1].append(int.from_bytes(counter(at), "little"))
    return probes


def load(path):
    with open(path) as f:
        return json.load(f)


def main():
    what, pid, path = sys.argv[1:4]
    now = states(pid, path)
    if what == "save":
        with open(sys.argv[4], "w") as f:
            json.dump(now, f)
    elif what == "tell":
        before, after = load(sys.argv[4]), load(sys.argv[5])
        changed = [name for name in now if before[name] != after[name]]
        done = sum(now[name] == after[name] for name in changed)
        left = sum(now[name] == before[name] for name in changed)
        print(len(changed), done, len(changed) - done - left)
    else:
        print(sum(set(counts) != {int(sys.argv[4])} for _, counts in now.values()))


main()
