"""Reads files of pprof with Debian's protobuf for Python, by tests/profile/profile.proto.

pprof_reader.py FILE [VALUE]: the folded form of FILE, by its last value or by the value of that number.
It needs profile_pb2.py in $TMP: protoc --python_out=$TMP.
"""

import collections
import gzip
import os
import sys

sys.path.insert(0, os.environ["TMP"])
import profile_pb2  # noqa: E402


class Pprof:
    def __init__(self, path):
        with gzip.open(path) as file:
            self.message = profile_pb2.Profile.FromString(file.read())
        self.strings = self.message.string_table
        self.functions = {function.id: function for function in self.message.function}
        self.locations = {location.id: location for location in self.message.location}

    def type_name(self, value_type):
        return self.strings[value_type.type], self.strings[value_type.unit]

    def frames(self, sample):
        """(function, file, line, is inlined), the outermost first."""
        frames = []
        for location in (self.locations[number] for number in sample.location_id):
            for i, line in enumerate(location.line):
                function = self.functions[line.function_id]
                frames.append((self.strings[function.name], self.strings[function.filename], line.line,
                               i + 1 < len(location.line)))
        return tuple(reversed(frames))

    def samples(self):
        for sample in self.message.sample:
            yield self.frames(sample), tuple(sample.value)

    def folded(self, value=-1):
        sums = collections.Counter()
        for frames, values in self.samples():
            sums[";".join(frame[0] for frame in frames)] += values[value]
        return sums


if __name__ == "__main__":
    read = Pprof(sys.argv[1]).folded(*map(int, sys.argv[2:]))
    print("\n".join(f"{stack} {value}" for stack, value in sorted(read.items())))
