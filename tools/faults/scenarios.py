"""The command lines whose system calls fail, what they run on, and what must be true afterwards."""
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import time

TIMEOUT_S = 30
SETTLE_S = 5  # until the kernel has taken a uprobe away
SITE_BYTES, SEMAPHORE_BYTES = 6, 4
INT3 = 0xCC
KEPT = "faults"
LET_GO = ("ptrace", "request 17")  # PTRACE_DETACH


def normal(text):
    """TEXT without the parts that differ between two runs: numbers, units of time, and adjacent space."""
    text = re.sub(r"\b(0x)?[0-9a-f]{6,}\b", "N", re.sub(r"[ -]+", " ", text))
    return re.sub(r"[\d.]+(ns|us|ms|s|k|M)?\b|[\d.]+", "N", text)


class Run:
    """The outcome of a command."""

    def __init__(self, status, out, err, log, speaker):
        self.status, self.out, self.err, self.speaker = status, out, err, speaker
        self.calls = [tuple(line.split("\t", 1)) for line in log.splitlines() if "\t" in line]
        # What the call that failed was about; None if no call failed.
        self.injected = self.calls[0][1] if self.calls and self.calls[0][0] == "injected" else None


class Workshop:
    """The folders of a run, and the commands that run in them."""

    def __init__(self, build, folder):
        self.build, self.folder = os.path.abspath(build), folder
        self.runtime = os.path.join(folder, "runtime")
        os.makedirs(self.runtime, 0o700)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.runtime, LC_ALL="C")
        self.inject = os.path.join(self.build, "faults", "inject")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "bpf", "none", "/sys/fs/bpf"], check=True)
        os.chmod("/sys/fs/bpf", 0o700)
        if os.path.isdir("/run/user"):
            subprocess.run(["mount", "-t", "tmpfs", "none", "/run/user"], check=True)
        self.fallback = "/tmp/ocaml-probes-0"
        os.makedirs(self.fallback, 0o700, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "none", self.fallback],
                       check=True)

    def close(self):
        subprocess.run(["umount", "/sys/fs/bpf", self.fallback], check=True)

    def tool(self, name):
        return os.path.join(self.build, name)

    def copy(self, path):
        """A copy of a file of the build folder; no other program has uprobes on it."""
        to = os.path.join(self.folder, os.path.basename(path))
        shutil.copy(os.path.join(self.build, path), to)
        return to

    def run(self, command, order=None, stdin=None):
        """Run COMMAND; with an ORDER for `inject`, inject a fault or record the calls."""
        log, out, err = (os.path.join(self.folder, name) for name in ("log", "out", "err"))
        open(log, "w").close()
        words = [self.inject, log, order] + command if order else command
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            child = subprocess.Popen(words, stdin=stdin or subprocess.DEVNULL, stdout=out_file,
                                     stderr=err_file, env=self.environment, start_new_session=True)
            try:
                status = child.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                status = None
        texts = [open(path, errors="replace").read() for path in (out, err, log)]
        return Run(status, *texts, os.path.basename(command[0]) + ": ")

    def leftovers(self):
        """The files that the tools have left in the folders for journals and in bpffs."""
        left = []
        for top in (self.runtime, "/run/user", self.fallback, "/sys/fs/bpf"):
            for folder, _, files in os.walk(top):
                left += [os.path.join(folder, name) for name in files
                         if folder != "/sys/fs/bpf"]
        return [f"left {path}" for path in left]

    def sweep(self):
        for path in self.leftovers():
            os.unlink(path.removeprefix("left "))
        shutil.rmtree("/sys/fs/bpf/ocaml-probes", ignore_errors=True)


class Memory:
    """The sites and semaphores of a fixture's process, read and written without the tool."""

    def __init__(self, pid, program):
        text = subprocess.run([program, "--expect"], check=True, capture_output=True,
                              text=True).stdout
        found = re.findall(r"^site (\S+) semaphore (\S+) ", text, re.M)
        base = self.load_address(pid, program)
        self.sites = sorted({base + int(site, 0) for site, _ in found if int(site, 0)})
        semaphores = sorted({base + int(semaphore, 0) for _, semaphore in found})
        self.places = [(at, SITE_BYTES) for at in self.sites] + \
                      [(at, SEMAPHORE_BYTES) for at in semaphores]
        self.pid = pid

    @staticmethod
    def load_address(pid, program):
        with open(f"/proc/{pid}/maps") as maps:
            return next(int(line.split("-")[0], 16) for line in maps if program in line)

    def read(self):
        with open(f"/proc/{self.pid}/mem", "rb", 0) as mem:
            return [os.pread(mem.fileno(), n, at) for at, n in self.places]

    def write(self, wanted):
        """Single bytes: what differs."""
        with open(f"/proc/{self.pid}/mem", "r+b", 0) as mem:
            for (at, _), now, then in zip(self.places, self.read(), wanted):
                for i, (a, b) in enumerate(zip(now, then)):
                    if a != b:
                        os.pwrite(mem.fileno(), bytes([b]), at + i)

    def has_int3(self):
        return any(site[0] == INT3 for site in self.read()[:len(self.sites)])


class Target:
    """A fixture that runs until it is told to quit."""

    def __init__(self, program):
        self.program = program
        self.process = subprocess.Popen([program, "--wait"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.text = b""
        os.set_blocking(self.process.stdout.fileno(), False)
        if not self.says(b"ready"):
            raise RuntimeError("the target does not start")
        self.memory = Memory(self.pid, program)
        self.fresh = self.memory.read()

    def says(self, line):
        """Does it say LINE?"""
        until = time.monotonic() + TIMEOUT_S
        fd = self.process.stdout.fileno()
        while line + b"\n" not in self.text and time.monotonic() < until:
            if select.select([fd], [], [], 1)[0]:
                more = os.read(fd, 65536)
                if not more:
                    return False
                self.text += more
        found = line + b"\n" in self.text
        self.text = b""
        return found

    def tell(self, line):
        try:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def check(self):
        """The faults of the process, apart from its memory."""
        if self.process.poll() is not None:
            return [f"the target ended: {self.process.returncode}"]
        problems = []
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/status") as status:
                text = status.read()
            if re.search(r"^State:\s+[tTZ]", text, re.M):
                problems.append("a thread of the target is stopped")
            if not re.search(r"^TracerPid:\s+0$", text, re.M):
                problems.append("the target is traced")
        self.tell(b"go 1")
        if not problems and not self.says(b"done"):
            problems.append("the target does not answer")
        return problems

    def quit(self):
        self.tell(b"quit")
        try:
            self.process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        status = self.process.returncode
        return [f"the target ended with status {status}"] if status else []


class Scenario:
    """A command on a target. Words of it: PID and FILE stand for the target's."""

    fixture = "tests/fixtures/v1"
    status = 0
    fault = None  # the call that fails, and what it is about
    passes_by = ()  # errnos that mean that a process has ended, which needs no message

    def __init__(self, shop, name, words):
        self.shop, self.name, self.words = shop, name, words.split()
        self.target = None

    def begin(self):
        self.target = Target(self.shop.copy(self.fixture))

    def prepare(self):
        """Restore the state that the first run found."""

    def command(self):
        names = {"PID": str(self.target.pid), "FILE": self.target.program}
        return [self.shop.tool("ocaml-probes")] + [names.get(w, w) for w in self.words]

    def execute(self, order):
        return self.shop.run(self.command(), order)

    def run(self, *words):
        return self.shop.run([self.shop.tool("ocaml-probes"), *words])

    def wanted(self, run):
        """The states that the memory may have after RUN."""
        return [self.target.fresh]

    def check(self, run):
        """The faults after RUN."""
        problems = self.target.check()
        # doctor undoes or removes what the tool reports to have left in a journal.
        if "could not be switched back" in run.err or "cannot remove the undo journal" in run.err:
            fix = self.run("doctor", "-pid", str(self.target.pid), "--fix")
            if fix.status:
                problems.append(f"doctor does not repair it: {fix.status} {fix.out} {fix.err}")
        if not any("ended" in problem for problem in problems):
            until = time.monotonic() + SETTLE_S
            while self.target.memory.has_int3() and time.monotonic() < until:
                time.sleep(0.01)
            if self.target.memory.has_int3():
                problems.append("int3 left")
            elif self.target.memory.read() not in self.wanted(run):
                problems.append("sites and semaphores are not as they should be")
        return problems + self.check_leftovers(run)

    def check_leftovers(self, _run):
        left = self.shop.leftovers()
        self.shop.sweep()
        return left

    def end(self):
        return self.target.quit()


class Switch(Scenario):
    """A command that switches: all is done or nothing."""

    def __init__(self, shop, name, words, first=None):
        super().__init__(shop, name, words)
        self.first = first.split() if first else None
        self.before = self.after = None

    def begin(self):
        super().begin()
        for words in (self.first, self.words):
            self.before = self.target.memory.read()
            if words:
                names = {"PID": str(self.target.pid)}
                run = self.run(*(names.get(w, w) for w in words))
                if run.status != 0:
                    raise RuntimeError(f"{self.name}: {run.err}")
        self.after = self.target.memory.read()
        if self.after == self.before:
            raise RuntimeError(f"{self.name}: changes nothing")

    def prepare(self):
        self.target.memory.write(self.before)

    def wanted(self, run):
        return [self.after if run.status == 0 else self.before]


class Fix(Switch):
    """doctor --fix of a process some of whose sites are on without a semaphore."""

    def begin(self):
        Scenario.begin(self)
        self.after = self.target.fresh
        self.before = list(self.after)
        for i, site in enumerate(self.before):
            if i < len(self.target.memory.sites) and site[1] == 0x3D:
                self.before[i] = site[:1] + b"\xe8" + site[2:]
        self.prepare()

    def wanted(self, run):
        # doctor repairs one part after another, and then reports all repairs.
        return [self.after] if run.status == 0 else [self.before, self.after]


class Kept(Scenario):
    """Commands on kept meters. With BY_US, the scenario makes a kept meter for the command."""

    def __init__(self, shop, name, words, by_us):
        super().__init__(shop, name, words)
        self.by_us = by_us

    def prepare(self):
        if self.by_us and not os.path.isdir(f"/sys/fs/bpf/ocaml-probes/{KEPT}"):
            run = self.run("attach", "-pid", str(self.target.pid), "--count", "--engine", "bpf",
                           "--keep", KEPT)
            if run.status != 0:
                raise RuntimeError(f"{self.name}: {run.err}")

    def check(self, run):
        problems = []
        kept = os.path.isdir(f"/sys/fs/bpf/ocaml-probes/{KEPT}")
        must_be = {"attach": run.status == 0, "detach": run.status != 0}.get(self.words[0], True)
        if kept != must_be and not (self.words[0] == "detach" and not kept):
            problems.append(f"status {run.status}, but it is {'still' if kept else 'not'} kept")
        if kept and (self.words[0] != "read" or problems):
            end = self.run("detach", KEPT)
            if end.status != 0:
                problems.append(f"cannot be detached any more: {end.err}")
            kept = False
        return problems + ([] if kept else super().check(run))

    def end(self):
        if os.path.isdir(f"/sys/fs/bpf/ocaml-probes/{KEPT}"):
            self.run("detach", KEPT)
        return super().end()


class List(Scenario):
    """All processes that have probes."""

    passes_by = (errno.ENOENT, errno.ESRCH)


class Trace(Scenario):
    """A program that the tool starts: it runs with its probes on, or not at all."""

    def begin(self):
        self.program = self.shop.copy(self.fixture)
        self.after = None

    def command(self):
        return [self.shop.tool("ocaml-probes"), "trace", *self.words, "-prog", self.program, "--",
                "--wait"]

    def execute(self, order):
        read_end, write_end = os.pipe()
        run = self.shop.run(self.command(), order, read_end)
        os.close(read_end)
        self.stdin = write_end
        run.out = ""  # the output is the program's, which may not have reached this point
        return run

    def started(self):
        """The pids that run the program."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe") == self.program:
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def says(self, line):
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until:
            with open(os.path.join(self.shop.folder, "out"), "rb") as out:
                if line + b"\n" in out.read():
                    return True
            time.sleep(0.005)
        return False

    def check_started(self, pid):
        if not self.says(b"ready"):
            return ["the program does not start"]
        memory = Memory(pid, self.program).read()
        self.after = self.after or memory
        problems = [] if memory == self.after else ["the program's probes are not on"]
        with open(f"/proc/{pid}/status") as status:
            if not re.search(r"^State:\s+[RSD].*^TracerPid:\s+0$", status.read(), re.M | re.S):
                problems.append("the program is stopped or traced")
        os.write(self.stdin, b"go 1\nquit\n")
        if not self.says(b"end"):
            problems.append("the program does not end")
            os.kill(pid, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return problems + ([f"the program ended with status {ended}"] if ended else [])

    def check(self, run):
        problems = []
        pids = self.started()
        # A tracee that cannot be detached has been killed already (ptrace(2)).
        if run.status == 0 and len(pids) != 1 and self.fault != LET_GO:
            problems.append(f"{len(pids)} programs run")
        for pid in pids:
            if run.status != 0:
                problems.append("the program was left running")
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            else:
                problems += self.check_started(pid)
        os.close(self.stdin)
        return problems + self.check_leftovers(run)

    def end(self):
        return []


class Link(Scenario):
    """The post-linker: the file is the old or the new one, and alone in its folder."""

    fixture = "tests/fixtures/binaries/dormant"

    def begin(self):
        self.folder = os.path.join(self.shop.folder, "link")
        os.makedirs(self.folder, exist_ok=True)
        self.file = os.path.join(self.folder, "program")
        with open(os.path.join(self.shop.build, self.fixture), "rb") as old:
            self.old = old.read()
        self.new = None

    def prepare(self):
        if not os.path.exists(self.file) or self.content() != self.old:
            with open(self.file, "wb") as file:
                file.write(self.old)
            os.chmod(self.file, 0o750)

    def content(self):
        with open(self.file, "rb") as file:
            return file.read()

    def command(self):
        return [self.shop.tool("ocaml-probes-link"), *self.words, self.file]

    def check(self, run):
        problems = [f"left {name}" for name in os.listdir(self.folder) if name != "program"]
        for left in problems:
            os.unlink(os.path.join(self.folder, left.removeprefix("left ")))
        now = self.content()
        if run.status == 0 and not self.new:
            self.new = now
            if now == self.old:
                problems.append("was not converted")
        if now != (self.new if run.status == 0 else self.old):
            problems.append("the file is " + ("the old one" if now == self.old else
                                              "the new one" if now == self.new else "neither"))
        if os.stat(self.file).st_mode & 0o7777 != 0o750:
            problems.append("the file has another mode")
        return problems

    def end(self):
        shutil.rmtree(self.folder)
        return []


SCENARIOS = [
    lambda shop: Switch(shop, "enable", "attach -pid PID -enable-all"),
    lambda shop: Switch(shop, "disable", "attach -pid PID -disable-all",
                        "attach -pid PID -enable-all"),
    lambda shop: Switch(shop, "pair", "attach -pid PID -enable-pair plain,odd"),
    lambda shop: Scenario(shop, "for", "attach -pid PID -enable-all --for 20ms"),
    lambda shop: Fix(shop, "fix", "doctor -pid PID --fix"),
    lambda shop: Scenario(shop, "count", "attach -pid PID --count --for 20ms"),
    lambda shop: Scenario(shop, "time", "attach -pid PID --time plain,odd --for 20ms"),
    lambda shop: Scenario(shop, "print", "attach -pid PID --print with_args --for 20ms"),
    lambda shop: Kept(shop, "keep", f"attach -pid PID --count --engine bpf --keep {KEPT}", False),
    lambda shop: Kept(shop, "read", f"read {KEPT}", True),
    lambda shop: Kept(shop, "detach", f"detach {KEPT}", True),
    lambda shop: Trace(shop, "trace", "-enable-all"),
    lambda shop: Link(shop, "link", "-q"),
    lambda shop: List(shop, "list", "list"),
    lambda shop: Scenario(shop, "list-prog", "list -prog FILE"),
    lambda shop: Scenario(shop, "info", "info -pid PID"),
    lambda shop: Scenario(shop, "sites", "info -pid PID --sites"),
]
