"""record_soak.py GENERATED PROGRAM TRIGGERS: flight recorders that are asked for TRIGGERS files, one after the other, and a condition
that holds as often: no file is missing or torn, each has the hit that came just before it, and the numbers are those of the program.
GENERATED has published_pb2 (protoc --python_out of tests/record/perfetto_published.proto). Run by Debian's Python, which has protobuf."""

import glob
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[1])
import perfetto_published_pb2 as published  # noqa: E402

TMP, TOOL = os.environ["TMP"], os.environ["TOOL"]
PATIENCE = 150
LAST_S = 3
INSTANT = published.TrackEvent.TYPE_INSTANT


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s in vain for: {what}"
        time.sleep(0.005)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def start_recorder(pid, name, *flags):
    said = f"{TMP}/{name}.err"
    with open(said, "wb") as err:
        recorder = subprocess.Popen([TOOL, "record", "-pid", str(pid), "--budget", "none", "--no-waits", "--hz", "0", "--name", name,
                                     "-o", f"{TMP}/files/{name}.pftrace", *flags], stderr=err)
    wait_for("the recorder", lambda: "measuring " in read(said) or recorder.poll() is not None)
    assert recorder.poll() is None, read(said)
    return recorder


def hits_of(path, name):
    """The times of the instants NAME. The file must be whole: all its packets, and the names that they refer to."""
    trace = published.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    names, times, tracks = {}, [], set()
    for packet in trace.packet:
        names.update({entry.iid: entry.name for entry in packet.interned_data.event_names})
        if packet.HasField("track_descriptor"):
            tracks.add(packet.track_descriptor.uuid)
        if packet.HasField("track_event"):
            assert packet.track_event.track_uuid in tracks, packet
            if packet.track_event.type == INSTANT and names[packet.track_event.name_iid] == name:
                times.append(packet.timestamp)
    return times


def main():
    triggers = int(sys.argv[3])
    os.makedirs(f"{TMP}/files")
    os.environ["XDG_RUNTIME_DIR"] = TMP
    with open(f"{TMP}/program.out", "wb") as out:
        program = subprocess.Popen([sys.argv[2]], stdin=subprocess.PIPE, stdout=out)
    wait_for("the program", lambda: "ready" in read(f"{TMP}/program.out"))
    output = open(f"{TMP}/program.out", encoding="utf-8")
    asked = start_recorder(program.pid, "asked", "--print", "work", "--last", f"{LAST_S}s", "--files", "20")
    held = start_recorder(program.pid, "held", "--when", "hit worked", "--last", "10s", "--files", "5")
    longest_s = n_late = 0
    for number in range(1, triggers + 1):
        began_ns = time.monotonic_ns()
        program.stdin.write(b"go 1\n")
        program.stdin.flush()
        wait_for("an answer", lambda: "passed 1" in output.read())
        passed_ns = time.monotonic_ns()
        path = subprocess.run([TOOL, "record", "--dump", "asked"], capture_output=True, text=True, check=True).stdout.strip()
        longest_s = max(longest_s, (time.monotonic_ns() - passed_ns) / 1e9)
        assert path == f"{TMP}/files/asked-{number}.pftrace", (path, number)
        hits = hits_of(path, "work")
        found = len([ns for ns in hits if began_ns <= ns <= passed_ns])
        # On a busy machine, the hit may be older than what the file has.
        is_late = time.monotonic_ns() - began_ns > LAST_S * 1000000000
        n_late += is_late
        assert found == 1 or (found == 0 and is_late), (path, hits, began_ns, passed_ns, time.monotonic_ns())
        assert all(ns <= passed_ns for ns in hits), (path, hits, passed_ns)
    assert n_late * 100 <= triggers, n_late
    for recorder in asked, held:
        recorder.send_signal(2)
        assert recorder.wait(PATIENCE) == 0
    files, times = re.search(r": (\d+) files? written; a condition held (\d+) times?\n", read(f"{TMP}/asked.err")).groups()
    assert (int(files), int(times)) == (triggers, 0), (files, times)
    files, times = re.search(r": (\d+) files? written; a condition held (\d+) times?\n", read(f"{TMP}/held.err")).groups()
    assert int(times) == triggers and int(files) > 0, (files, times)
    there = glob.glob(f"{TMP}/files/*")
    assert len(there) == min(20, triggers) + min(5, int(files)), there
    for path in there:
        hits_of(path, "worked")
    print(f"# {triggers} triggers: {triggers} files on request, the longest took {longest_s:.3f} s; a condition held {times} times, "
          f"{files} files")
    program.kill()


main()
