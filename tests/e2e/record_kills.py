"""record_kills.py READER PROGRAM KILLS SEED: kill -9 of a flight recorder, or of the program that it records, at random moments
while files are written: what was written before is whole, and a program that was not killed is unharmed. Prints the numbers."""

import glob
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

TMP, TOOL = os.environ["TMP"], os.environ["TOOL"]
FOLDER = f"{TMP}/files"
PATIENCE = 150


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s in vain for: {what}"
        time.sleep(0.01)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Program:
    """Passes its probes as often as it is told to."""

    def __init__(self, path):
        self.out = f"{TMP}/program.out"
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=out)
        self.pid, self.n_told = self.process.pid, 0
        wait_for("the program", lambda: "ready" in read(self.out))
        self.text = self.hash_of_text()

    def hash_of_text(self):
        """Of the code that the process has in memory, with its sites and without uprobes."""
        digest = hashlib.sha256()
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps, open(f"/proc/{self.pid}/mem", "rb") as memory:
            for line in maps:
                if " r-xp " in line and "reborn" in line:
                    first, end = (int(part, 16) for part in line.split()[0].split("-"))
                    memory.seek(first)
                    digest.update(memory.read(end - first))
        return digest.hexdigest()

    def go(self):
        self.process.stdin.write(b"go 50\n")
        self.process.stdin.flush()
        self.n_told += 1

    def check(self):
        """It is not traced, has its own code, and does what it is told."""
        assert self.process.poll() is None, "the program has ended"
        wait_for("its own code", lambda: self.hash_of_text() == self.text)
        assert "\nTracerPid:\t0\n" in read(f"/proc/{self.pid}/status")
        self.go()
        wait_for("an answer", lambda: read(self.out).count("passed 50") == self.n_told)
        done = subprocess.run([TOOL, "doctor", "-pid", str(self.pid)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done


class Dumper(threading.Thread):
    """Asks for files all the time. An error is right only when the recorder has ended."""

    def __init__(self):
        super().__init__()
        self.is_ending, self.paths, self.errors = False, [], []

    def run(self):
        while not self.is_ending:
            done = subprocess.run([TOOL, "record", "--dump", "kills"], capture_output=True, text=True, check=False)
            self.paths += done.stdout.split()
            if done.returncode:
                self.errors.append((done.returncode, done.stderr))
                return


class Files:
    """The files, each of which is read once."""

    def __init__(self, reader):
        self.reader, self.seen, self.n_torn = reader, set(), 0

    def check(self):
        for left in glob.glob(f"{FOLDER}/*.tmp"):
            pid = int(re.search(r"\.(\d+)\.tmp$", left)[1])
            assert not os.path.exists(f"/proc/{pid}"), left
            os.unlink(left)
            self.n_torn += 1
        there = sorted(glob.glob(f"{FOLDER}/*"), key=os.path.getmtime)
        new = [path for path in there if (path, os.stat(path).st_mtime_ns) not in self.seen]
        # The newest of each form: it was written last before the kill.
        for path in new[-2:]:
            reader = "read_page" if path.endswith(".html") else "read_perfetto"
            if os.path.exists(f"{TMP}/db"):
                os.unlink(f"{TMP}/db")
            done = subprocess.run([f"{self.reader}/{reader}", path, f"{TMP}/db"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (path, done.stderr)
        self.seen = {(path, os.stat(path).st_mtime_ns) for path in there}
        return len(new)


def start_recorder(program):
    said = f"{TMP}/recorder.err"
    with open(said, "wb") as err:
        recorder = subprocess.Popen([TOOL, "record", "-pid", str(program.pid), "--budget", "none", "--no-waits", "--hz", "0", "--time",
                                     "work,worked", "--key", "none", "--print", "work", "--last", "300ms", "--memory", "1MB", "--files", "8",
                                     "--when", "slower work,worked 50us", "--name", "kills", "-o", f"{FOLDER}/flight.pftrace", "--html",
                                     f"{FOLDER}/flight.html"], stderr=err)
    wait_for("the recorder", lambda: "measuring " in read(said) or recorder.poll() is not None)
    assert recorder.poll() is None, read(said)
    return recorder


def one_kill(program, files, chance, is_of_recorder):
    recorder, dumpers = start_recorder(program), [Dumper() for _ in range(4)]
    for dumper in dumpers:
        dumper.start()
    end = time.monotonic() + chance.uniform(0, 0.5)
    while time.monotonic() < end:
        program.go()
        time.sleep(0.005)
    # Writing takes some milliseconds: half of the kills wait for it.
    until = time.monotonic() + (1 if chance.random() < 0.5 else 0)
    while time.monotonic() < until and not any(name.endswith(".tmp") for name in os.listdir(FOLDER)):
        pass
    victim = recorder if is_of_recorder else program.process
    victim.send_signal(signal.SIGKILL)
    victim.wait(PATIENCE)
    status = recorder.wait(PATIENCE)
    took_s = time.monotonic() - end
    for dumper in dumpers:
        dumper.is_ending = True
    for dumper in dumpers:
        dumper.join(PATIENCE)
        # The kernel removes the uprobes of a dying recorder first, and then closes its sockets.
        assert all(code == 5 or (code == 6 and took_s > 9) for code, _ in dumper.errors), (dumper.errors, took_s)
    if is_of_recorder:
        program.check()
    else:
        assert status == 0, (status, read(f"{TMP}/recorder.err"))
    return files.check(), sum(len(dumper.paths) for dumper in dumpers)


def main():
    reader, path, kills, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    chance, files, program = random.Random(seed), Files(reader), None
    os.makedirs(FOLDER)
    os.environ["XDG_RUNTIME_DIR"] = TMP
    n_files = n_dumps = 0
    for number in range(kills):
        program = program or Program(path)
        is_of_recorder = number % 3 != 2
        try:
            written, dumped = one_kill(program, files, chance, is_of_recorder)
        except AssertionError as error:
            raise AssertionError(f"kill {number}, seed {seed}") from error
        n_files, n_dumps = n_files + written, n_dumps + dumped
        if not is_of_recorder:
            program = None
    print(f"# {kills} kills: {n_files} whole files for {n_dumps} paths that were printed, {files.n_torn} kills while a file was written")
    assert n_files > kills, "few files were written"
    # Of many kills, some come in the middle.
    assert files.n_torn or kills < 50, "no kill came while a file was written"
    if program:
        program.process.kill()


main()
