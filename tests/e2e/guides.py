"""guides.py PAGES GUIDE: run the commands of the guide in PAGES, in their order, as they stand there.

A command that ends with `&` starts the program that the commands after it look at: whatever process id the page has,
they get that of this program. `dune build` and programs of tools/ocaml/examples work on a copy of that folder. Each
line of output that the page shows must come, but for numbers (readme.py), in whatever order, since rows with nearly
equal values change places. What the text says about the values, CLAIMS holds against what was printed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import man
import readme

ROOT = os.environ["ROOT"]
HAVE_THREADS = "leaking", "service", "orders.exe"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]


def as_readme(page):
    """The rendered page, with the literal blocks of all sections as the README has them."""
    return "\n".join("    " + line[11:] if line.startswith(" " * 11) else line.strip()
                     for line in man.rendered(page).split("\n"))


def shapes(line):
    """What is compared of a line: its text, and the command for more at its end, which may have a line of its own."""
    line = re.sub(r"[\w/.-]*/(leaking|(?:index|images|orders|hello)\.exe|ocaml-probes)\b", r"\1", line)
    line = re.sub(r"/proc/\d+/", "/proc/PID/", re.sub(r"\b\d\d:\d\d:\d\d\.\d+", "TIME", line))
    line = re.sub(r"\b\d+/\d+ ", "PID/TID ", re.sub(r"\(\d+\)", "(N)", re.sub(r"=-?\d+", "=N", line)))
    text, more = re.match(r"(.*?)((?:^| ) +ocaml-probes .*)?$", line).groups()
    # What a busy machine adds, units, and what is left out if it is 0.
    text = re.sub(r"^(CPU: \S+ of a core) .*", r"\1", re.sub(r"\bthreads waited", "thread waited", text))
    text = re.sub(r", other [\d.]+", "", re.sub(r"\b(\d+(?:\.\d+)?) [kMG]?B\b", r"\1 B", text))
    return {re.sub(r" +", " ", readme.shape(part)) for part in (text, more or "") if part.strip()}


class Guide:
    """The commands of a page: what they have started, and what they have printed."""

    def __init__(self, page, as_user=()):
        self.page, self.as_user = page, list(as_user)
        self.work = os.path.join(readme.WORK, "work")
        shutil.copytree(os.path.join(ROOT, "tools/ocaml/examples"), os.path.join(self.work, "tools/ocaml/examples"))
        os.makedirs(os.path.join(self.work, "build/tests/ocaml"))
        for name in "leaking", "service":
            shutil.copy(os.path.join(readme.BUILD, "tests/ocaml", name), os.path.join(self.work, "build/tests/ocaml"))
        for name in "ocaml-probes", "ocaml-probes-serve":
            shutil.copy(os.path.join(os.path.dirname(readme.TOOL), name), self.work)
        # The other user reaches it.
        for folder in self.work, readme.WORK, os.environ["TMP"], os.path.dirname(os.environ["TMP"]):
            os.chmod(folder, 0o755)
        self.folder, self.target, self.started, self.outputs = self.work, None, [], []

    def words(self, command):
        """COMMAND here: without sudo, as the user of the page. A file cannot give what the bounding set lacks."""
        prefix = [] if command.startswith("sudo ") else self.as_user
        if command.startswith("sudo setcap "):
            self.as_user = [word for word in self.as_user if not word.startswith("--bounding-set")]
        command = re.sub(r"^sudo ", "", command)
        command = re.sub(r"^ocaml-probes\b|/usr/bin/ocaml-probes\b", os.path.join(self.work, "ocaml-probes"), command)
        if self.target:
            command = re.sub(r"(?<=-pid )\d+|(?<=/proc/)\d+", str(self.target.pid), command)
        return prefix + ["sh", "-c", command]

    def start(self, command):
        path = os.path.join(readme.WORK, "output%d" % len(self.started))
        with open(path, "w") as output:
            words = self.words(command)
            process = subprocess.Popen(words[:-1] + ["exec " + words[-1]], cwd=self.folder, stdout=output, stderr=output)
        self.started.append(process)
        return process, path

    def start_target(self, command):
        """It runs as soon as it waits with all of its threads, or works: its process has the program's name."""
        self.target, path = self.start(command)
        program = os.path.basename(command.split()[0])
        readme.wait_for(program, lambda: self.target.poll() is not None or
                        os.readlink("/proc/%d/exe" % self.target.pid).endswith(program))
        readme.wait_for("threads of " + program, lambda: program not in HAVE_THREADS or
                        len(os.listdir("/proc/%d/task" % self.target.pid)) > 4)
        if self.target.poll() is not None:
            sys.exit("%s: %s: it ends: %s" % (self.page, command, man.read(path)))

    def start_server(self, command):
        _, path = self.start(command)
        readme.wait_for("serve", lambda: " serving " in man.read(path) or self.started[-1].poll() is not None)
        return man.read(path).split("\n")[:-1]

    def ask_server(self, command, expected):
        """As soon as it has counted: a value of 0 is one that has not been read yet."""
        answer = []

        def answers():
            answer[:] = subprocess.run(self.words(command), text=True, check=False, stdout=subprocess.PIPE).stdout.split("\n")
            return len(answer) > len(expected) and not answer[0].endswith(" 0")

        readme.wait_for(command, answers)
        return answer

    def run(self, command, status=0):
        done = subprocess.run(self.words(command), cwd=self.folder, text=True, timeout=readme.PATIENCE, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != status:
            sys.exit("%s: %s: status %d\n%s" % (self.page, command, done.returncode, done.stdout))
        return done.stdout.split("\n")[:-1]

    def follow(self, example):
        command = example.command
        if command.startswith("cd "):
            self.folder = os.path.join(self.folder, command[3:])
            return
        if command.startswith("curl "):
            output = self.ask_server(command, example.expected)
        elif not command.endswith(" &"):
            output = self.run(command, 3 if any(" lacks " in line for line in example.expected[:1]) and
                              "hint: " in example.expected[-1] else 0)
        elif " serve " in command:
            output = self.start_server(command[:-2])
        else:
            self.start_target(command[:-2])
            return
        self.outputs.append((command, output))
        self.compare(command, example.expected, output)
        print("ok: %s" % command, flush=True)

    def compare(self, command, expected, output):
        actual = set().union(*map(shapes, output)) if output else set()
        missing = [line for line in expected if line != "..." and not shapes(line) <= actual]
        if missing:
            sys.exit("%s: %s\n---- these lines did not come\n%s\n---- it is\n%s"
                     % (self.page, command, "\n".join(missing), "\n".join(output)))

    def output_of(self, text):
        """What the only command with TEXT has printed."""
        (output,) = [output for command, output in self.outputs if text in command]
        return output

    def end(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            process.wait()


# ---- what the text says of the values ----------------------------------------------------------


def that(condition, page, what, output):
    if not condition:
        sys.exit("%s: %s\n%s" % (page, what, "\n".join(output)))


def numbers(output, start):
    """Those of the only line that begins with START, k and M applied."""
    (line,) = [line for line in output if line.startswith(start)]
    return [float(number) for number in re.findall(r"(?<![\w.])[-+]?\d+(?:\.\d+)?", line[len(start):])]


def after(output, text):
    """The line below the only one that ends with TEXT."""
    (line,) = [below for above, below in zip(output, output[1:]) if above.endswith(text)]
    return line


def check_memory(guide):
    report = guide.output_of("report")
    that(any(re.match(r"heap: .*, grew by ", line) for line in report), guide.page, "the heap does not grow", report)
    _, images = [output for command, output in guide.outputs if " gc " in command]
    that(numbers(images, "heap words")[1] == 0, guide.page, "the heap grows, not C", images)
    alive = guide.output_of("--live")
    row = after(alive, "SITE").split()
    that(row[4] == "Service.Cache.add" and int(row[3]) > 0.5 * int(row[2]), guide.page, "the leak is not the first", alive)
    row = after(guide.output_of("--alloc"), "FUNCTION").split()
    that(row[2] == "Service.compute.digits", guide.page, "another function allocates", row)
    sizes = [numbers(output, "VmRSS:")[0] for command, output in guide.outputs if "VmRSS" in command]
    that(sizes[1] > sizes[0] + 1000, guide.page, "the process does not grow", [str(size) for size in sizes])


def check_collector(guide):
    report = guide.output_of("report")
    that(numbers(report, "collector: ")[0] > 20, guide.page, "the collector has no large share", report)
    figures = guide.output_of(" gc ")
    that(numbers(figures, "the collector takes ")[0] > 20, guide.page, "the collector has no large share", figures)
    promoted = numbers(figures, "promoted words")[1] / numbers(figures, "minor words")[1]
    that(0.2 < promoted < 0.6, guide.page, "%.2f are promoted" % promoted, figures)
    allocating = guide.output_of("--alloc")
    that("Index.run  via Map.Make.bal" in after(allocating, "FUNCTION"), guide.page, "another function allocates", allocating)


def check_waiting(guide):
    waits = guide.output_of("--off-cpu --for")
    row = after(waits, "  FOR")
    # Three of five threads, unless one of them got no turn and was left out.
    that(row.endswith("  a mutex") and 35 < float(row.split("%")[0]) < 75, guide.page, "others wait than for the mutex", waits)


def check_lwt(guide):
    shown = list(readme.blocks(as_readme(guide.page)))
    for name in "dune", "hello.ml":
        text = man.read(os.path.join(ROOT, "tools/ocaml/examples/lwt", name)).rstrip("\n")
        that(text.split("\n") in shown, guide.page, "it shows another file than " + name, [text])
    slow = [line for line in guide.output_of("--slower") if " -> " in line]
    that(all(re.search(r" rid=(\d+) customer=\d -> request_done rid=\1$", line) for line in slow), guide.page,
         "an end has another number than its start", slow)
    that(any(" customer=7 " in line for line in slow), guide.page, "customer 7 is not slow", slow)
    groups = guide.output_of("--by")
    row = after(groups[[line.startswith("customer ") for line in groups].index(True):], "sum").split()
    that(row[0] == "7", guide.page, "another customer is the slowest", groups)


def check_containers(guide):
    printed = [line for line in guide.outputs[-1][1] if " request_done " in line]
    that(printed, guide.page, "nothing was printed", guide.outputs[-1][1])


CLAIMS = {
    "memory": check_memory,
    "collector": check_collector,
    "waiting": check_waiting,
    "lwt": check_lwt,
    "containers": check_containers,
}


def main(name):
    guide = Guide("ocaml-probes-%s.7" % name, NOBODY if name == "containers" else ())
    try:
        for example in readme.examples(as_readme(guide.page)):
            guide.follow(example)
        CLAIMS[name](guide)
    finally:
        guide.end()


if __name__ == "__main__":
    main(sys.argv[2])
