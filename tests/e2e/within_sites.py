#!/usr/bin/env python3
"""within_sites.py PID FILE: is a thread of PID, which is stopped, at an address in FILE (a line each) or in a
trampoline, or will a signal handler that it runs return there? There the kernel has counted a hit that the
trampoline is going to count. Status 0: yes; 1: no."""
import glob
import os
import struct
import sys

STACK_BYTES = 8192  # a handler's frames, and the signal frame above them

pid, listed = sys.argv[1:]
with open(listed, encoding="ascii") as f:
    sites = {int(line, 16) for line in f}
trampolines = []
with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as f:
    for line in f:
        if "memfd:ocaml-probes-inside" in line:
            trampolines.append([int(end, 16) for end in line.split()[0].split("-")])


def is_within(address):
    return address in sites or any(start <= address < end for start, end in trampolines)


def words(memory, address):
    """The words of the stack from ADDRESS on, as far as it is mapped."""
    for size in (STACK_BYTES, 512):
        try:
            got = os.pread(memory, size, address)
            return struct.unpack(f"{len(got) // 8}Q", got[: len(got) // 8 * 8])
        except OSError:
            pass
    return ()


memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
for path in glob.glob(f"/proc/{pid}/task/*/syscall"):
    with open(path, encoding="ascii") as f:
        sp, pc = (int(word, 16) for word in f.read().split()[-2:])
    if is_within(pc) or any(map(is_within, words(memory, sp))):
        sys.exit(0)
sys.exit(1)
