"""readme.py README CASE: hold the examples of a README against what the programs do.

An example is a line `$ COMMAND` in an indented block, with what it prints below. Two texts agree if
they are equal after numbers, times, addresses and bars have been replaced by names: what a number
is differs from run to run, words, columns, probes and source lines do not. Equal neighbours count once,
so that a histogram may have more rows, and a line `...` stands for any lines.

Lines that begin with `ocaml-probes: ` go to standard error; they are compared where an example shows one.
"""

import collections
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

TOOL = os.environ["TOOL"]
BUILD = os.environ["O"]
SERVICE = "/srv/bin/service"
WORK = tempfile.mkdtemp(dir=os.environ["TMP"])
PATIENCE = int(os.environ.get("PATIENCE", 150))  # seconds, for what does not come when something is wrong

Example = collections.namedtuple("Example", "command expected")


# ---- reading the README ------------------------------------------------------------------------


def blocks(text):
    """The indented blocks, without their indentation; blank lines inside belong to them."""
    block = []
    for line in text.split("\n") + ["end"]:
        if line.startswith("    "):
            block.append(line[4:])
        elif not line.strip() and block:
            block.append("")
        elif block:
            yield "\n".join(block).rstrip("\n").split("\n")
            block = []


def examples(text):
    for block in blocks(text):
        command, expected = None, []
        for line in block + ["$ "]:
            if not line.startswith("$ "):
                expected.append(line)
                continue
            if command:
                yield Example(command, expected)
            command, expected = line[2:], []


# ---- comparing ---------------------------------------------------------------------------------

NUMBER = re.compile(
    r"(?<![\w.:^])-?\d+(\.\d+)?(k|M|G|ns|us|µs|ms|s|%)?(?![\w:]|\.\w)"
)


def shape(line):
    line = re.sub(r"[\w/.-]*/service\b", "SERVICE", line)
    line = re.sub(r"/proc/\d+/", "/proc/PID/", line)
    line = re.sub(r"\b\d\d:\d\d:\d\d\b", "TIME", line)
    line = re.sub(r"\|@* *\|", "|BAR|", line)
    line = re.sub(r"[▁▂▃▄▅▆▇█]+", "", line)
    line = re.sub(r"_\d+\+0x[0-9a-f]+", "_N+N", line)
    line = re.sub(r"\bworker \d+:", "worker N:", line)
    line = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", line)
    # Where a trap is slow, the line says by how much the program is.
    line = re.sub(r": it runs at least [\d.]+ times slower$", "", line)
    line = NUMBER.sub("N", line)
    return re.sub(r"\s+", " ", line).strip()


def shapes(lines):
    result = []
    for line in map(shape, lines):
        if line and (not result or result[-1] != line):
            result.append(line)
    return result


def agree(expected, actual):
    """As described above; both are shapes."""
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(agree(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and agree(expected[1:], actual[1:])


def without_talk(lines):
    return [line for line in lines if not line.startswith("ocaml-probes: ")]


def check(command, expected, actual):
    if not any(line.startswith("ocaml-probes: ") for line in expected):
        actual = without_talk(actual)
    if not agree(shapes(expected), shapes(actual)):
        sys.exit(
            "README: %s\n---- it says\n%s\n---- it is\n%s\n---- compared were\n%s\n----\n%s"
            % (command, "\n".join(expected), "\n".join(actual),
               "\n".join(shapes(expected)), "\n".join(shapes(actual)))
        )
    print("ok: %s" % command)


# ---- running -----------------------------------------------------------------------------------


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit("README: waited %d s in vain for %s" % (PATIENCE, what))
        time.sleep(0.05)


class Service:
    """The README's service, running, with what it prints in a file."""

    def __enter__(self):
        self.path = os.path.join(WORK, "output")
        self.output = open(self.path, "w+")
        self.process = subprocess.Popen([SERVICE], stdout=self.output)
        wait_for("the service", lambda: os.path.getsize(self.path) > 0)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.output.close()

    def lines(self):
        with open(self.path) as output:
            return output.read().split("\n")[:-1]


def as_here(command, pid):
    """COMMAND with our tool, our process and our file."""
    command = re.sub(r"^sudo ", "", command)
    command = re.sub(r"^ocaml-probes\b", TOOL, command)
    command = re.sub(r"-pid \d+", "-pid %d" % pid, command)
    # What is written goes to the test's own directory.
    command = re.sub(r"(--html |--pprof |--diff | -o |> )(?=\w)", r"\1%s/" % WORK, command)
    return command.replace(" ./service", " " + SERVICE)


def output_of(command):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        sys.exit("README: %s: status %d\n%s" % (command, done.returncode, done.stdout))
    return done.stdout.split("\n")[:-1]


def check_trace(example):
    """The service begins under the tool, with all handlers on, and goes on without it."""
    path = os.path.join(WORK, "traced")
    with open(path, "w") as output:
        subprocess.run(as_here(example.command, 0), shell=True, stdout=output, timeout=PATIENCE,
                       check=True)
    with open(path) as output:
        wait_for("handlers of a traced program", lambda: "starts" in output.read())
    with open(path) as output:
        pid = int(re.search(r"pid (\d+)", output.read()).group(1))
    os.kill(pid, signal.SIGTERM)
    print("ok: %s" % example.command)


def start_time(pid):
    with open("/proc/%s/stat" % pid) as stat:
        return stat.read().rsplit(") ", 1)[1].split()[19]


def interrupt_update(pid):
    """Leave of an update of all probes what a tool leaves that is killed after three of them."""
    names = [line.split()[0] for line in output_of("%s info -pid %d" % (TOOL, pid))]
    output_of("%s attach -pid %d -enable %s" % (TOOL, pid, ",".join(names[:3])))
    folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "ocaml-probes")
    with open("/proc/sys/kernel/random/boot_id") as boot, \
            open(os.path.join(folder, "%d.1" % pid), "w") as journal:
        journal.write("ocaml-probes journal 3\nboot %spid-namespace %d\n"
                      % (boot.read(), os.stat("/proc/self/ns/pid").st_ino))
        journal.write("process %d %s\nprogram 0\ntool 4194303 1\nupdate\n" % (pid, start_time(pid)))
        journal.write("progress %010d %010d\n" % (3, 3))
        journal.writelines("enable %s 0 1\n" % name for name in names)
        journal.write("end\n")


def check_doctor(example):
    os.environ["XDG_RUNTIME_DIR"] = os.path.join(WORK, "run")
    os.mkdir(os.environ["XDG_RUNTIME_DIR"], 0o700)
    with Service() as service:
        interrupt_update(service.process.pid)
        done = subprocess.run(as_here(example.command, service.process.pid), shell=True, text=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE, check=False)
        found = [line for line in done.stdout.split("\n") if not line.startswith("note: ")]
        check(example.command, example.expected, found)


def check_examples(text):
    done = 0
    with Service() as service:
        for example in examples(text):
            command = example.command
            if not command.startswith("ocaml-probes "):
                continue
            if command.startswith("ocaml-probes trace"):
                check_trace(example)
                continue
            if command.startswith("ocaml-probes doctor"):
                check_doctor(example)
                continue
            before = len(service.lines())
            actual = output_of(as_here(command, service.process.pid))
            if " -enable " in command:
                # What it shows is the service's, of which the first lines are enough.
                shown = len(without_talk(example.expected))
                wait_for("handlers", lambda: len(service.lines()) >= before + shown)
                actual += service.lines()[before:]
            check(command, example.expected, actual)
            done += 1
    subprocess.run([TOOL, "detach", "night"], check=True, stdout=subprocess.DEVNULL)
    if done < 9:
        sys.exit("README: only %d examples were found" % done)


# ---- the terminal ------------------------------------------------------------------------------


def check_top(text):
    (example,) = [e for e in examples(text) if e.command.startswith("sudo ocaml-probes top")]
    socket = os.path.join(WORK, "tmux")

    def tmux(*args):
        done = subprocess.run(["tmux", "-f", "/dev/null", "-S", socket, *args], text=True,
                              stdout=subprocess.PIPE, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        return done.stdout.split("\n")

    def screen():
        return [re.sub("^> ", "", line) for line in map(shape, tmux("capture-pane", "-p")) if line]

    # In the foreground, a child of ours: it ends as we do, however that is.
    server = subprocess.Popen(["tmux", "-f", "/dev/null", "-S", socket, "-D"],
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
    try:
        wait_for("tmux", lambda: os.path.exists(socket))
        tmux("set", "-g", "exit-empty", "off")
        with Service() as service:
            width = max(len(line) for line in example.expected) + 1
            tmux("new-session", "-d", "-x", str(width), "-y", str(len(example.expected) + 3),
                 "exec " + as_here(example.command, service.process.pid))
            # Which probe is above which changes with the rates.
            wanted = {re.sub("^> ", "", line) for line in map(shape, example.expected) if line}
            end = time.monotonic() + PATIENCE
            while not wanted <= set(screen()):
                if time.monotonic() > end:
                    sys.exit("README: %s\n---- not on the screen\n%s\n---- the screen\n%s"
                             % (example.command, "\n".join(wanted - set(screen())), "\n".join(screen())))
                time.sleep(0.2)
    finally:
        server.terminate()
        server.wait()
    print("ok: %s" % example.command)


# ---- serve -------------------------------------------------------------------------------------


class Server:
    """`serve`, ready to answer; what it has said is in `talk`."""

    def __init__(self, command):
        self.command = command

    def __enter__(self):
        path = os.path.join(WORK, "talk")
        with open(path, "w") as talk:
            self.process = subprocess.Popen("exec " + self.command, shell=True, stdout=talk, stderr=talk)
        wait_for("serve", lambda: self.process.poll() is not None or " serving " in open(path).read())
        self.talk = open(path).read().split("\n")[:-1]
        if self.process.poll() is not None:
            sys.exit("README: %s: it ends: %s" % (self.command, self.talk))
        return self

    def __exit__(self, *_):
        self.process.terminate()
        if self.process.wait() != 0:
            sys.exit("README: %s: status %d" % (self.command, self.process.returncode))


def check_serve(text):
    found = [e for e in examples(text) if "serve" in e.command or e.command.startswith("curl")]
    serve, curl = found
    with Service(), Server(as_here(serve.command, 0)) as server:
        check(serve.command, serve.expected, server.talk)

        def answers():
            lines = output_of("{ %s; } || :" % curl.command)
            return len(lines) >= len(curl.expected) and not lines[0].endswith(" 0")

        # States of handlers are read less often than hits.
        wait_for("hits and states", answers)
        check(curl.command, curl.expected, output_of(curl.command))


def build_worker():
    """A program for the configuration's second target."""
    with open(os.path.join(WORK, "worker.ml"), "w") as source:
        source.write('let () = [%probe "job_start" ()]; [%probe "job_done" ()]\n')
    run_in(WORK, "ocamlfind ocamlopt -package ocaml-probes.ppx -linkpkg -cc ocaml-probes-cc worker.ml"
                 " -o /srv/bin/worker")


def check_configuration(text):
    build_worker()
    (block,) = [b for b in blocks(text) if '"targets"' in "\n".join(b)]
    path = os.path.join(WORK, "serve.json")
    with open(path, "w") as config:
        config.write("\n".join(block))
    with Service() as service, Server("%s serve --config %s" % (TOOL, path)):
        def status():
            return json.loads("\n".join(output_of("curl -s http://127.0.0.1:9464/api/v1/status")))

        wait_for("the target's process", lambda: str(service.process.pid) in json.dumps(status()))
        status_text = json.dumps(status())
        for word in (SERVICE, "/srv/bin/worker", "job_start"):
            if word not in status_text:
                sys.exit("README: the configuration's %s is not in the status" % word)
    print("ok: the configuration")


# ---- without running anything ------------------------------------------------------------------


def check_tables(text):
    """Hits add up to (all), and hits divided by the time are hits/s, and so on."""
    found = 0
    for example in examples(text):
        seconds, hits, rates = None, [], []
        for line in example.expected:
            total = re.match(r"total, ([\d.]+) s$", line)
            row = re.match(r"(\S+) .*? (\d+) +([\d.]+)$", line)
            cost = re.match(r"CPU overhead: (\d+) hits/s x ([\d.]+) ns per hit = ([\d.]+)% of a core, [\d.]+% of the program's CPU time", line)
            if total:
                seconds = float(total.group(1))
            elif cost:
                share = int(cost.group(1)) * float(cost.group(2)) / 1e7
                if abs(share - float(cost.group(3))) > 0.005 + 1e-9:
                    sys.exit("README: %s: %s: it is %.3f%%" % (example.command, line, share))
            elif row and seconds:
                hits.append(int(row.group(2)))
                rates.append(float(row.group(3)))
                # The time is rounded, too.
                if abs(hits[-1] / seconds - rates[-1]) > 0.05 + rates[-1] * 0.0005 / seconds:
                    sys.exit("README: %s: %s: it is %.1f" % (example.command, line, hits[-1] / seconds))
            if row and row.group(1) == "(all)":
                found += 1
                if sum(hits) != 2 * hits[-1]:
                    sys.exit("README: %s: (all) is %d" % (example.command, sum(hits) - hits[-1]))
    if found < 2:
        sys.exit("README: only %d tables were found" % found)
    print("ok: %d tables" % found)


def spaceless(text):
    return re.sub(r"\s+", " ", text)


def check_probe(text):
    """The probe that is quoted stands in the program."""
    quoted = [b for b in blocks(text) if b[0].startswith('[%probe "')]
    with open(os.path.join(os.environ["ROOT"], "tests/ocaml/service/service.ml")) as source:
        program = spaceless(source.read())
    for block in quoted:
        if spaceless("\n".join(block)) not in program:
            sys.exit("README: this is not in service.ml:\n%s" % "\n".join(block))
    if not quoted:
        sys.exit("README: no probe is quoted")
    print("ok: %d probes" % len(quoted))


def run_in(folder, command):
    done = subprocess.run(command, shell=True, cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit("README: %s\n%s" % (command, done.stdout))


def has_probes(program):
    names = output_of("%s list -prog %s" % (TOOL, program))
    if "request_done" not in names:
        sys.exit("README: %s has the probes %s" % (program, names))


def check_builds(text):
    """The dune stanza and the command line, each in a folder of its own beside a service.ml."""
    (stanza,) = [b for b in blocks(text) if b[0] == "(executable"]
    (command,) = [b for b in blocks(text) if b[0].startswith("ocamlfind ocamlopt")]
    source = os.path.join(os.environ["ROOT"], "tests/ocaml/service/service.ml")
    for way in ("dune", "ocamlfind"):
        folder = os.path.join(WORK, way)
        os.mkdir(folder)
        shutil.copy(source, folder)
        if way == "dune":
            with open(os.path.join(folder, "dune-project"), "w") as project:
                project.write("(lang dune 2.9)\n")
            with open(os.path.join(folder, "dune"), "w") as dune:
                # The service has threads, which the README's program need not have.
                dune.write("\n".join(stanza).replace("(name service)", "(name service)\n (libraries threads.posix)"))
            run_in(folder, "dune build --root . ./service.exe")
            has_probes(os.path.join(folder, "_build/default/service.exe"))
        else:
            run_in(folder, " ".join(command).replace("-package ", "-thread -package threads.posix,"))
            has_probes(os.path.join(folder, "service"))
    print("ok: dune, ocamlfind")


def check_leak(text):
    """The three commands that lead to the flame graph of a leak; the third one looks at it."""
    (block,) = [b for b in blocks(text) if "leaking" in b[0]]
    make, program = block[0].split("; ")
    run_in(os.environ["ROOT"], "%s --dry-run O=%s" % (make, BUILD))
    path = os.path.join(WORK, "leaking")
    with open(path, "w") as output:
        process = subprocess.Popen(program.replace("build/", BUILD + "/").rstrip(" &").split(), stdout=output)
    try:
        wait_for("the service", lambda: os.path.getsize(path) > 0)
        command = block[1].replace("build/ocaml-probes", TOOL).replace("$!", str(process.pid))
        output = output_of(command.replace("leak.html", WORK + "/leak.html").replace("--for 10s", "--for 3s"))
    finally:
        process.terminate()
        process.wait()
    (first,) = [after for before, after in zip(output, output[1:]) if before.endswith("SITE")]
    with open(os.path.join(WORK, "leak.html")) as page:
        if "Service.Cache.add" not in first or "Service.Cache.add" not in page.read():
            sys.exit("README: %s: the leak is not there:\n%s" % (command, "\n".join(output)))
    print("ok: the flame graph of a leak")


def check_slow_request(text):
    """The three commands that lead to the timeline of a slow request; the third one looks at it."""
    (block,) = [b for b in blocks(text) if "slow.html" in "\n".join(b)]
    make, program = block[0].split("; ")
    run_in(os.environ["ROOT"], "%s --dry-run O=%s" % (make, BUILD))
    path = os.path.join(WORK, "service.log")
    with open(path, "w") as output:
        process = subprocess.Popen(program.replace("build/", BUILD + "/").split(" >")[0].split(), stdout=output)
    try:
        command = block[1].replace("sudo build/ocaml-probes", TOOL).replace("$!", str(process.pid))
        run_in(WORK, command)
    finally:
        process.terminate()
        process.wait()
    (page,) = re.findall(r"^xdg-open (\S+)", block[2])
    readers = os.path.join(os.environ["ROOT"], "tests/record")
    for reader, name in (("read_page", page), ("read_perfetto", page.replace(".html", ".pftrace"))):
        run_in(WORK, "rm -f db; %s/%s %s db" % (readers, reader, name))
        (longest,) = sqlite3.connect(os.path.join(WORK, "db")).execute("select max(ns) from slices where name = 'request_start,request_done'").fetchone()
        if not longest or longest < 100000:
            sys.exit("README: %s: the longest request in %s took %s ns" % (command, name, longest))
    print("ok: the timeline of a slow request")


def check_snippet(text):
    (snippet,) = [b for b in blocks(text) if "Probes_lib.create" in "\n".join(b)]
    lines = "\n".join(snippet)
    # The statement at its end is one of its own.
    lines = lines.replace("    Probes_lib.Self", "Probes_lib.Self")
    first, last = lines.split("\n\n")
    with open(os.path.join(WORK, "snippet.ml"), "w") as source:
        source.write("let f pid =\n%s\nlet g () =\n%s\nlet _ = f, g\n" % (first, last))
    run_in(WORK, "ocamlfind ocamlopt -linkpkg -package ocaml-probes.probes_lib snippet.ml -o snippet")
    print("ok: the OCaml snippet")


def check_lwt(text):
    """The section about Lwt is a service of a hundred requests at once: each answer finds its request."""
    (block,) = [b for b in blocks(text) if "let%lwt" in "\n".join(b)]
    (key,) = re.findall(r"^`--key (\w+)` matches", text, re.M)
    names = re.findall(r'%probe "(\w+)"', "\n".join(block))
    with open(os.path.join(WORK, "pages.ml"), "w") as source:
        source.write("""
            let render customer = let%%lwt () = Lwt.pause () in Lwt.return (customer ^ "!")
            %s
            let one rid = Lwt.map ignore (serve rid (string_of_int rid))
            let () = Lwt_main.run (Lwt.join (List.init 100 one))""" % "\n".join(block))
    run_in(WORK, "ocamlfind ocamlopt -thread -package lwt.unix,lwt_ppx,ocaml-probes.ppx -linkpkg "
           "-cc 'ocaml-probes-cc' pages.ml -o pages")
    lines = output_of("%s trace -prog %s --time %s --key %s --json" %
                      (TOOL, os.path.join(WORK, "pages"), ",".join(names), key))
    (pair,) = json.loads([line for line in lines if line.startswith("{")][-1])["pairs"]
    counts = [pair[name] for name in ("count", "orphan_starts", "orphan_stops", "not_keyed", "open")]
    if names != [pair["start"], pair["stop"]] or counts != [100, 0, 0, 0, 0]:
        sys.exit("README: the pairs of Lwt: %s" % pair)
    print("ok: Lwt")


CASES = {
    "examples": check_examples,
    "top": check_top,
    "serve": check_serve,
    "configuration": check_configuration,
    "tables": check_tables,
    "probe": check_probe,
    "builds": check_builds,
    "leak": check_leak,
    "slow_request": check_slow_request,
    "snippet": check_snippet,
    "lwt": check_lwt,
}

if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        CASES[sys.argv[2]](file.read())
