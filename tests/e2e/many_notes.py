"""many_notes.py PROGRAM N RESULT: a copy of PROGRAM, whose notes are its first one of OCaml's N times, each time with another name."""
import os, struct, subprocess, sys

SECTION = ".note.stapsdt"


def notes_of(section):
    """Header and owner, and descriptor, of each note."""
    at = 0
    while at < len(section):
        owner_bytes, descriptor_bytes = struct.unpack_from("<II", section, at)
        start = at + 12 + (owner_bytes + 3) // 4 * 4
        yield section[at:start], section[start:start + descriptor_bytes]
        at = start + (descriptor_bytes + 3) // 4 * 4


program, n, result = sys.argv[1], int(sys.argv[2]), sys.argv[3]
notes = result + ".notes"
subprocess.run(["objcopy", "--dump-section", SECTION + "=" + notes, program, result], check=True)
with open(notes, "rb") as f:
    head, descriptor = next((h, d) for h, d in notes_of(f.read())
                            if h[12:] == b"stapsdt\0" and d[24:].startswith(b"ocaml"))
provider, _, arguments = descriptor[24:].split(b"\0")[:3]
with open(notes, "wb") as f:
    for i in range(n):
        its = descriptor[:24] + b"\0".join([provider, b"name_%08d" % i, arguments, b""])
        f.write(head[:4] + struct.pack("<I", len(its)) + head[8:] + its + b"\0" * (-len(its) % 4))
subprocess.run(["objcopy", "--update-section", SECTION + "=" + notes, program, result], check=True)
os.unlink(notes)
