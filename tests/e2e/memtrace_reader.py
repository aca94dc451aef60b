#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memtrace_reader [--cut | --count] FILE: what a memtrace file (version 2) holds, in lines of JSON.

A reader that was written from the description of the format (memtrace.tsdl, docs/internal.md and the
codecs of the OCaml library memtrace), and that refuses whatever differs from it: status 1, and
the reason. The first line has what the file tells of the program. Each event has a line: its kind,
time in microseconds, and block; allocations also have length, samples, source, and stack: for each
frame, the outermost first, a list of [function, file, line, first column, last column].

--cut: the last packet may end before its end, as that of a program that was killed.
--count: print only how many events of each kind there are.
"""

import collections
import copy
import json
import struct
import sys

HEADER = struct.Struct("<IIQQIHQHHQQQ")
MAGIC, VERSION = 0xC1FC1FC1, 2
MAX_PACKET = 1 << 15
BUCKETS = 1 << 14
RECENT = 31
NO_CHECK = 0xFFFF
TIME_BITS = 25
INFO, LOCATION, ALLOC, PROMOTE, COLLECT = range(5)
SHORT = range(101, 117)
SOURCES = ["minor", "major", "external"]


class Malformed(Exception):
    pass


def check(condition, reason):
    if not condition:
        raise Malformed(reason)


class Buffer:
    """The bytes of a packet."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def rest(self):
        return len(self.data) - self.at

    def number(self, size):
        check(self.rest() >= size, "an event behind the end of its packet")
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def varying(self):
        first = self.number(1)
        if first < 253:
            return first
        size, least = {253: (2, 253), 254: (4, 1 << 16), 255: (8, 1 << 31)}[first]
        value = self.number(size)
        check(least <= value < 1 << (16 if size == 2 else 8 * size - 1), "a number in a long form")
        return value

    def text(self):
        end = self.data.find(b"\0", self.at)
        check(end >= 0, "a text without end")
        text = self.data[self.at : end].decode("utf-8", "surrogateescape")
        self.at = end + 1
        return text


def use(recent, number, make):
    """The entry NUMBER of the list RECENT, or a new one. It becomes the first."""
    if number == RECENT:
        entry = make()
        check(all(entry[0] != other[0] for other in recent), f"'{entry[0]}' is known already")
    else:
        check(number < len(recent), "a name that is not known")
        entry = recent.pop(number)
    recent.insert(0, entry)
    del recent[RECENT:]
    return entry


class Trace:
    def __init__(self, data):
        self.locations = {}  # by codes
        self.files = []  # [name, functions], the last used one first
        self.codes, self.next = [0] * BUCKETS, [0] * BUCKETS
        self.stack = []  # of the last allocation
        self.blocks = 0
        self.time = None
        self.major = {}  # of each block that is alive: was it promoted, or allocated in the major heap?
        self.data, self.at = data, 0
        self.packets = self.cut = 0
        self.free = {}  # where the writer is free: bits of bytes whose change may leave all as it is
        check(data, "nothing")
        self.info = self.read_info()

    # ---- packets

    def packet(self):
        """The next packet, or None if it is not whole."""
        check(len(self.data) - self.at >= HEADER.size or self.packets, "no header")
        if len(self.data) - self.at < HEADER.size:
            return None
        fields = HEADER.unpack_from(self.data, self.at)
        magic, bits, self.begin, self.end, _, version, pid = fields[:7]
        self.check_bucket, self.check_next, self.check_code = fields[7:10]
        first_block, self.blocks_after = fields[10:]
        check(magic == MAGIC, "another magic number")
        check(version == VERSION, f"version {version}")
        check(bits % 8 == 0 and HEADER.size < bits // 8 <= MAX_PACKET, f"a packet of {bits} bits")
        check(self.begin <= self.end, "a packet that ends before it begins")
        check(self.end - self.begin < 1 << TIME_BITS, "a packet of too long a time")
        check(self.time is None or self.time <= self.begin, "a packet before the last one")
        check(self.blocks <= first_block <= self.blocks_after < 1 << 62, "numbers of blocks that fall")
        check(self.packets == 0 or pid == self.pid, "another process")
        self.pid, self.blocks, self.time = pid, first_block, self.begin
        self.is_first = True
        start, end = self.at + HEADER.size, self.at + bits // 8
        if end > len(self.data):
            return None
        self.start, self.at = self.at, end
        # How long it took to write the packet.
        self.leave_free(self.start + 24, b"\xff" * 4)
        self.packets += 1
        return Buffer(self.data[:end], start)

    def leave_free(self, at, bits):
        """The writer is free to choose the BITS of the bytes from AT."""
        self.free.update(enumerate(bits, at))

    def event(self, buffer):
        word = buffer.number(4)
        low = word & (1 << TIME_BITS) - 1
        time = self.begin + (low - self.begin) % (1 << TIME_BITS)
        check(time <= self.end, "an event behind the time of its packet")
        check(self.time <= time, "an event before the last one")
        check(not self.is_first or time == self.begin, "a packet that begins before its first event")
        self.time, self.is_first = time, False
        return word >> TIME_BITS

    def copy(self, data):
        """The state between two packets, of a file that goes on as DATA does."""
        other = copy.copy(self)
        other.data, other.free = data, {}
        other.locations, other.major = dict(self.locations), dict(self.major)
        other.files = [[name, [list(function) for function in functions]] for name, functions in self.files]
        other.codes, other.next, other.stack = list(self.codes), list(self.next), list(self.stack)
        return other

    def read_info(self):
        buffer = self.packet()
        check(buffer is not None, "a file that is cut in its first packet")
        check(self.event(buffer) == INFO, "no information at the start")
        check(self.check_bucket == NO_CHECK, "a check of an empty cache")
        self.check_cache()
        check(self.time == self.begin == self.end, "a start at no time")
        check(self.blocks_after == 0, "blocks in the first packet")
        (rate,) = struct.unpack("<d", buffer.number(8).to_bytes(8, "little"))
        word_bits = buffer.number(1)
        executable, host, parameters = buffer.text(), buffer.text(), buffer.text()
        pid = buffer.number(8)
        context = buffer.text()
        check(0 < rate <= 1, f"a rate of {rate}")
        check(word_bits in (32, 64), f"words of {word_bits} bits")
        check(pid == self.pid, "two processes")
        check(not buffer.rest(), "something behind the information")
        return {
            "rate": rate,
            "word_bits": word_bits,
            "executable": executable,
            "host": host,
            "parameters": parameters,
            "pid": pid,
            "context": context,
            "start": self.time,
        }

    def check_cache(self):
        if self.check_bucket == NO_CHECK:
            check(self.check_next == self.check_code == 0, "a check of nothing")
            return
        check(self.check_bucket < BUCKETS, "a check of no bucket")
        check(self.codes[self.check_bucket] == self.check_code, "another code in the cache")
        check(self.next[self.check_bucket] == self.check_next, "another prediction in the cache")
        if self.check_code == self.check_next == 0:
            # The writer chooses the bucket. All that are empty look the same.
            self.leave_free(self.start + 38, struct.pack("<H", BUCKETS - 1))

    def events(self):
        while self.at < len(self.data) and not self.cut:
            yield from self.events_of_packet()

    def events_of_packet(self):
        buffer = self.packet()
        if buffer is None:
            self.cut = len(self.data) - self.at
            return
        self.check_cache()
        while buffer.rest():
            kind = self.event(buffer)
            if kind == LOCATION:
                self.read_location(buffer)
            elif kind == ALLOC or kind in SHORT:
                yield self.read_allocation(buffer, kind)
            else:
                yield self.read_change(buffer, kind)
        check(self.blocks == self.blocks_after, "another number of allocations")
        # Both ends of a packet are times of events; that of locations has one time.
        check(self.time == self.end, "a packet that ends after its last event")

    # ---- events

    def read_location(self, buffer):
        code, places = buffer.number(8), []
        for _ in range(buffer.number(1)):
            bits = buffer.number(6)
            file, functions = use(self.files, bits >> 38 & 31, lambda: [buffer.text(), []])
            (function,) = use(functions, bits >> 43, lambda: [buffer.text()])
            columns = bits >> 20 & 0xFF, bits >> 28 & 0x3FF
            places.append([function, file, bits & 0xFFFFF, *columns])
        check(0 < code < 1 << 62, f"code {code}")
        check(self.locations.setdefault(code, places) == places, f"two places of code {code}")

    def read_stack(self, buffer, count_size):
        common, words = buffer.varying(), buffer.number(count_size)
        check(common <= len(self.stack), "more in common with the last stack than it has")
        del self.stack[common:]
        bucket = 0
        for _ in range(words):
            word = buffer.number(2)
            before, bucket, tag = bucket, word >> 2, word & 3
            self.next[before] = bucket
            if tag == 3:
                # The bucket may be one that is never used again.
                self.leave_free(buffer.at - 2, struct.pack("<H", BUCKETS - 1 << 2))
                self.codes[bucket] = buffer.number(8)
            self.push(bucket)
            predicted = buffer.number(1) if tag == 2 else tag % 3
            check(tag != 2 or predicted >= 2, "few predictions in a long form")
            for _ in range(predicted):
                bucket = self.next[bucket]
                self.push(bucket)

    def push(self, bucket):
        code = self.codes[bucket]
        check(code in self.locations, f"code {code} has no place")
        self.stack.append(code)

    def read_allocation(self, buffer, kind):
        length, samples, source = kind - SHORT[0] + 1, 1, 0
        if kind == ALLOC:
            length, samples, source = buffer.varying(), buffer.varying(), buffer.number(1)
        check(source < len(SOURCES), f"source {source}")
        check(1 <= samples <= length + 1, f"{samples} samples of {length} words")
        self.read_stack(buffer, 2 if kind == ALLOC else 1)
        block = self.blocks
        self.blocks += 1
        self.major[block] = SOURCES[source] == "major"
        return {
            "kind": "alloc",
            "time": self.time,
            "block": block,
            "length": length,
            "samples": samples,
            "source": SOURCES[source],
            "stack": [self.locations[code] for code in self.stack],
        }

    def read_change(self, buffer, kind):
        check(kind in (PROMOTE, COLLECT), f"an event of kind {kind}")
        block = self.blocks - 1 - buffer.varying()
        check(block in self.major, f"block {block} is not alive")
        if kind == COLLECT:
            del self.major[block]
        else:
            check(not self.major[block], f"block {block} is in the major heap")
            self.major[block] = True
        name = "promote" if kind == PROMOTE else "collect"
        return {"kind": name, "time": self.time, "block": block}


def read(path, may_be_cut=False):
    """What the file tells, and its events, which are all read."""
    with open(path, "rb") as file:
        trace = Trace(file.read())
    events = list(trace.events())
    check(may_be_cut or not trace.cut, f"{trace.cut} bytes of a packet that is not whole")
    return trace.info, events


def main():
    may_be_cut = sys.argv[1] == "--cut"
    try:
        info, events = read(sys.argv[-1], may_be_cut)
    except Malformed as reason:
        sys.exit(f"{sys.argv[-1]}: {reason}")
    if sys.argv[1] == "--count":
        counts = collections.Counter(event["kind"] for event in events)
        print(", ".join(f"{kind} {counts[kind]}" for kind in ["alloc", "collect", "promote"]))
        return
    for line in [info, *events]:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
