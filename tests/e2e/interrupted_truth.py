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
import marshal
import os
import sys


def read_list(path):
    """The names, sites and counters of all lines. It is asked for hundreds of times: kept in LIST.kept."""
    kept = path + ".kept"
    try:
        if os.stat(kept).st_mtime_ns > os.stat(path).st_mtime_ns:
            with open(kept, "rb") as f:
                return marshal.load(f)
    except FileNotFoundError:
        pass
    with open(path) as f:
        lines = [line.split() for line in f]
    places = (
        [name for name, _, _ in lines],
        [int(site, 0) for _, site, _ in lines],
        [int(counter, 0) for _, _, counter in lines],
    )
    with open(kept, "wb") as f:
        marshal.dump(places, f)
    return places


def read_window(mem, addresses, n_bytes):
    """The lowest address, and all bytes from there on: one read for all, since they stand together."""
    if not addresses:
        return 0, b""
    low = min(addresses)
    mem.seek(low)
    return low, mem.read(max(addresses) + n_bytes - low)


def states(pid, path):
    """By name, what its lines have: the opcode of the site, or -1, and the counter."""
    names, sites, counters = read_list(path)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        low, code = read_window(mem, [site for site in sites if site], 2)
        start, data = read_window(mem, counters, 2)
    opcodes = [code[site + 1 - low] if site else -1 for site in sites]
    counts = [data[at - start] | data[at - start + 1] << 8 for at in counters]
    probes = {}
    if len(set(names)) == len(names):
        return dict(zip(names, zip(opcodes, counts)))
    for name, opcode, count in zip(names, opcodes, counts):
        probes[name] = probes.get(name, ()) + (opcode, count)
    return probes


def load(path):
    with open(path, "rb") as f:
        return marshal.load(f)


def main():
    what, pid, path = sys.argv[1:4]
    now = states(pid, path)
    if what == "save":
        with open(sys.argv[4], "wb") as f:
            marshal.dump(now, f)
    elif what == "tell":
        before, after = load(sys.argv[4]), load(sys.argv[5])
        changed = [name for name in now if before[name] != after[name]]
        done = sum(now[name] == after[name] for name in changed)
        left = sum(now[name] == before[name] for name in changed)
        print(len(changed), done, len(changed) - done - left)
    else:
        print(sum(set(have[1::2]) != {int(sys.argv[4])} for have in now.values()))


main()
