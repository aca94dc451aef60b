#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""one_line.py FILE: of the source that a ppx has printed of FILE, put each probe on one line, up to the call
of Record.here with which its handler begins. Its marker then has that line: so does the code before the call,
as where the compiler takes the syntax tree itself."""

import re
import sys

probe = re.compile(r"if\s+Ocaml_probes_runtime\.same.*?Record\.here \w+", re.DOTALL)
text = probe.sub(lambda found: " ".join(found[0].split()), sys.stdin.read())
for number, line in enumerate(text.splitlines(), 1):
    place = lambda found: f"@{sys.argv[1]}:{number}:{int(found[1]) * 1000 + int(found[2])}"
    print(re.sub(r"@[A-Za-z0-9_/]+\.ml:([0-9]+):([0-9]+)", place, line))
