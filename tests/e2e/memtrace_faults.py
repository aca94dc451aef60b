#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memtrace_faults [--all] TRACE: does memtrace_reader find what it is there to find?

The file is whole at the end of each packet, and nowhere else. A change of a bit is refused, or what is
read is another: of the headers' every byte, and of 200 bytes of the file, or (--all) of every byte two bits.
Bits that the writer is free to choose (Trace.free) stay as they are. Prints how many changes were refused.
"""

import random
import struct
import sys

import memtrace_reader
from memtrace_reader import HEADER, Malformed

FIELDS = {
    "magic": (0, "<I", 0x75D11D4D),
    "bits": (4, "<I", 8 * 70),
    "begin": (8, "<Q", 1 << 60),
    "end": (16, "<Q", 0),
    "version": (28, "<H", 3),
    "pid": (30, "<Q", 1),
    "bucket": (38, "<H", 1 << 14),
    "first_block": (50, "<Q", 1 << 40),
    "next_block": (58, "<Q", 0),
}


def events_of(trace):
    """Each event, with the codes of its stack: two codes may have the same places."""
    for event in trace.events():
        yield event, list(trace.stack)
    memtrace_reader.check(not trace.cut, "cut")


class Whole:
    """The file as it is: what it tells, and what the reader knows at the start of each packet."""

    def __init__(self, data):
        trace = memtrace_reader.Trace(data)
        self.data, self.info, self.events = data, trace.info, []
        self.starts, self.states = [0], [None]  # the reader begins with the first packet
        while trace.at < len(data):
            self.starts.append(trace.at)
            self.states.append((trace.copy(data), len(self.events)))
            self.events += [(event, list(trace.stack)) for event in trace.events_of_packet()]
        memtrace_reader.check(not trace.cut, "cut")
        self.ends = [*self.starts[1:], len(data)]
        self.free = trace.free

    def is_refused(self, data, packet=0):
        """Is DATA, which differs in PACKET or behind it, refused, or read as something else?"""
        try:
            if packet == 0:
                trace, n = memtrace_reader.Trace(data), 0
                if trace.info != self.info:
                    return True
            else:
                state, n = self.states[packet]
                trace = state.copy(data)
            for event in events_of(trace):
                if n == len(self.events) or event != self.events[n]:
                    return True
                n += 1
            return n != len(self.events)
        except Malformed:
            return True

    def packet_of(self, at):
        return max(i for i, start in enumerate(self.starts) if start <= at)

    def may_change(self, at, bit):
        return not self.free.get(at, 0) >> bit & 1

    def demand_change(self, at, bit):
        """Change the BIT of the byte AT, if it has a meaning. Returns how many changes that is."""
        if not self.may_change(at, bit):
            return 0
        changed = bytearray(self.data)
        changed[at] ^= 1 << bit
        packet = self.packet_of(at)
        if not self.is_refused(bytes(changed), packet):
            sys.exit(f"a change of byte {at}, bit {bit}, is not seen: byte {at - self.starts[packet]} of its packet")
        return 1


def check_ends(whole):
    data = whole.data
    for end in whole.ends:
        start = Whole(data[:end])
        if start.info != whole.info or start.events != whole.events[: len(start.events)]:
            sys.exit(f"the first {end} bytes have other events")
        for cut in {end - 1, end + 1, end + HEADER.size} - set(whole.ends):
            if cut < len(data) and not whole.is_refused(data[:cut]):
                sys.exit(f"{cut} bytes are taken for a whole file")


def check_fields(whole):
    for name, (offset, form, value) in FIELDS.items():
        changed = bytearray(whole.data)
        struct.pack_into(form, changed, whole.starts[-1] + offset, value)
        if not whole.is_refused(bytes(changed), len(whole.starts) - 1):
            sys.exit(f"{name} is not looked at")
    return len(FIELDS)


def main():
    with open(sys.argv[-1], "rb") as file:
        whole = Whole(file.read())
    numbers, size = random.Random(1), len(whole.data)
    check_ends(whole)
    refused = check_fields(whole)
    if sys.argv[1] == "--all":
        places = [(at, bit) for at in range(size) for bit in {0, numbers.randrange(8)}]
    else:
        places = [(start + i, numbers.randrange(8)) for start in whole.starts for i in range(HEADER.size)]
        places += [(numbers.randrange(size), numbers.randrange(8)) for _ in range(200)]
    refused += sum(whole.demand_change(at, bit) for at, bit in places)
    print(len(whole.ends), "packets,", refused, "changes")


main()
