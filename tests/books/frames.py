"""The frame tables of FILE, as tests/ocaml/frames/dump prints them, against another witness."""

import re
import struct
import subprocess

from said import holds


def positive(n):
    holds("nothing was compared", n > 0)
    return n


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def dumped(dump, path):
    rows = {}
    for line in run(dump, path).splitlines():
        head, *places = line.split(" | ")
        words = head.split()
        address = int(words[0], 16)
        assert address not in rows, f"{address:x} twice"
        rows[address] = (int(words[1]), "end" in words[2:], places)
    return rows


class Data:
    """The words of a file as the dynamic linker leaves them."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.segments = []
        for line in run("readelf", "-lW", path).splitlines():
            words = line.split()
            if words[:1] == ["LOAD"]:
                self.segments.append([int(word, 16) for word in (words[1], words[2], words[4])])
        self.filled = {}
        for line in run("readelf", "-rW", path).splitlines():
            words = line.split()
            if len(words) == 4 and words[2] == "R_X86_64_RELATIVE":
                self.filled[int(words[0], 16)] = int(words[3], 16)

    def get(self, va, form):
        if form == "Q" and va in self.filled:
            return self.filled[va]
        for off, start, size in self.segments:
            if start <= va < start + size:
                return struct.unpack_from("<" + form, self.bytes, off + va - start)[0]
        raise AssertionError(f"{va:x} is not in the file")


def symbols(path):
    found = {}
    for line in (run("nm", path) + run("nm", "-D", path)).splitlines():
        words = line.split()
        if len(words) == 3:
            found[words[2]] = int(words[0], 16)
    return found


def tables_of(path):
    names = symbols(path)
    if "caml_frametable" not in names:
        return [va for name, va in names.items() if re.match(r"caml.*[._]frametable$", name)]
    data, at, found = Data(path), names["caml_frametable"], []
    while data.get(at, "Q"):
        found.append(data.get(at, "Q"))
        at += 8
    return found


def tables(dump, path):
    """tables DUMP FILE: return addresses and sizes of frames, against a little reader of its own, on what readelf and nm print."""
    data, expected, total = Data(path), {}, 0
    for table in tables_of(path):
        count, at = data.get(table, "Q"), table + 8
        total += count
        for _ in range(count):
            size, live = data.get(at + 8, "H"), data.get(at + 10, "H")
            is_end = size == 0xFFFF
            expected[data.get(at, "Q")] = (0 if is_end else size & ~3, is_end)
            at += 12 + 2 * live
            if not is_end:
                places = 1
                if size & 2:
                    places = data.get(at, "B")
                    at += 1 + places
                if size & 1:
                    at = (at + 3) // 4 * 4 + 4 * places
            at = (at + 7) // 8 * 8
    rows = dumped(dump, path)
    assert {va: row[:2] for va, row in rows.items()} == expected, "the descriptors differ"
    assert total == len(rows), f"{len(rows)} descriptors, not {total}"
    assert any(row[1] for row in rows.values()) == ("caml_frametable" in symbols(path)), "ends of chunks"
    return positive(total)


def backtraces(dump, path, output):
    """backtraces DUMP FILE OUTPUT: what tests/ocaml/frames/frames has printed: Printexc's own locations."""
    rows, linked, n = dumped(dump, path), symbols(path)["caml_frametable"], 0
    with open(output) as file:
        for line in file:
            head, *places = line.rstrip("\n").split(" | ")
            address, loaded = (int(word, 16) for word in head.split())
            row = rows[address - loaded + linked]
            assert row[2] == places, f"{address - loaded + linked:x}: {row[2]} is not {places}"
            n += len(places) > 0
    return positive(n)


def calls(path):
    """What is called before each address."""
    found, last = {}, None
    for line in run("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        words = re.match(r" +([0-9a-f]+):\t(call|\S*) *(.*)", line)
        if not words:
            continue
        if last is not None:
            found[int(words.group(1), 16)] = last
        last = words.group(3) if words.group(2) == "call" else None
    return found


def line_numbers(dump, path):
    """line_numbers DUMP FILE: addr2line's file and line of each call. The assembler's lines are of the innermost function.
    Calls out of line have none of their own."""
    out_of_line = re.compile("<caml_(call_gc|ml_array_bound_error)")
    called = calls(path)
    rows = {
        va: row[2][0]
        for va, row in dumped(dump, path).items()
        if row[2] and not out_of_line.search(called.get(va, ""))
    }
    assert all(va in called for va in rows), "no call before a return address"
    asked = "".join(f"{va - 1:x}\n" for va in rows)
    answers = run("addr2line", "-e", path, input=asked).splitlines()
    known = same = 0
    for place, answer in zip(rows.values(), answers):
        file, line = re.match(r".*? ?(\S+) (\d+)-\d+ \d+-\d+", place).groups()
        told = re.match(r"(.*):(\d+)", answer)
        if told and told.group(1) != "??":
            known += 1
            same += told.group(1).split("/")[-1] == file.split("/")[-1] and told.group(2) == line
    assert same >= 0.99 * known, f"{same} of {known} lines are addr2line's"
    return positive(known)
