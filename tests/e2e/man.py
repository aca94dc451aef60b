"""man.py PAGES CASE: hold the manual pages in the folder PAGES against the programs.

Options are found by trying them, functions in the shared library, texts by mandoc's own rendering: not
by the scripts that the pages and --help come from.
"""

import glob
import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import readme

PAGES = sys.argv[1]
TOOL = os.environ["TOOL"]
BUILD = os.environ["O"]
ROOT = os.environ["ROOT"]
COMMAND_SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]
NO_OPTIONS = {"ocaml-probes-cc.1"}  # it passes all on


def read(path):
    with open(path) as file:
        return file.read()


def pages(pattern="*.[1-9]"):
    found = sorted(os.path.basename(path) for path in glob.glob(os.path.join(PAGES, pattern)))
    if not found:
        sys.exit("no pages in %s" % PAGES)
    return found


def source(page):
    return read(os.path.join(PAGES, page))


def programs():
    """Each page that describes options, and the words that run its program."""
    for page in pages("*.1"):
        name = page[:-2]
        if page in NO_OPTIONS:
            continue
        if name in ("ocaml-probes", "ocaml-probes-link"):
            yield page, [os.path.join(BUILD, name)]
        else:
            yield page, [TOOL, name.replace("ocaml-probes-", "")]


def run(words, **kwargs):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=readme.PATIENCE, check=False, **kwargs)


def rendered(page):
    done = run(["mandoc", "-Tascii", "-Owidth=200", os.path.join(PAGES, page)])
    return re.sub(".\b", "", done.stdout)


def sections(text):
    """What stands below each heading of a rendered page."""
    parts = re.split(r"^(\S.*)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


# ---- pages by themselves -----------------------------------------------------------------------


def check_sections():
    for page in pages("*.1"):
        found = re.findall(r"^\.Sh (.*)", source(page), flags=re.M)
        wanted = [s for s in COMMAND_SECTIONS if page not in NO_OPTIONS or s not in ("OPTIONS", "FILES")]
        if [section for section in found if section in wanted] != wanted:
            sys.exit("%s: has the sections %s" % (page, ", ".join(found)))


def check_references():
    """Pages of ours exist. SEE ALSO is mutual, and that of the tool's page has all pages."""
    for page in pages():
        for name, section in re.findall(r"\.Xr (ocaml[-_]probes\S*) (\d)", source(page)):
            if "%s.%s" % (name, section) not in pages():
                sys.exit("%s: refers to %s(%s)" % (page, name, section))
    also = {page: re.findall(r"\.Xr (ocaml[-_]probes\S*) (\d)", source(page).split(".Sh SEE ALSO")[-1]) for page in pages()}
    for page, others in also.items():
        mine = tuple(page.rsplit(".", 1))
        for other in map(".".join, others):
            if other != "ocaml-probes.1" and mine not in also[other]:
                sys.exit("%s: SEE ALSO lacks %s, which has it" % (other, page))
        if page != "ocaml-probes.1" and mine not in also["ocaml-probes.1"]:
            sys.exit("ocaml-probes.1: SEE ALSO lacks %s" % page)


def unpaired(text):
    """What is wrong with the quotes and brackets of a paragraph; None: nothing. Quoted brackets are text."""
    opened = []
    for at, char in enumerate(text):
        if char == "\u2018":
            quoted = text[at + 1 :].split("\u2019")[0]
            if re.fullmatch(r"[\w:.]+(, [\w:.]+)+", quoted):
                return "a list in a quote, '%s'" % quoted
            if opened and opened[-1] == char:
                return "a quote in a quote"
            opened.append(char)
        elif char == "\u2019" and (not opened or opened.pop() != "\u2018"):
            return "a quote that closes none"
        elif opened and opened[-1] == "\u2018":
            continue
        elif char in "([":
            opened.append(char)
        elif char in ")]" and (not opened or opened.pop() + char not in ("()", "[]")):
            return "a bracket that closes none, after '%s'" % text[max(0, at - 30):at]
        elif char == "," and text[at - 1 : at].isspace():
            return "a blank before '%s'" % text[at : at + 20]
    return "without its end: '%s'" % opened[-1] if opened else None


def check_quotes():
    """Quotes and brackets of each rendered page are in pairs. Examples and formats are literal text."""
    for page in pages():
        text = re.sub(r"^\.Bd -literal.*?^\.Ed$", "", source(page), flags=re.M | re.S)
        done = subprocess.run(["mandoc", "-Tutf8", "-Owidth=200"], input=text, stdout=subprocess.PIPE, text=True, check=True)
        for paragraph in re.split(r"\n\s*\n", re.sub(".\b", "", done.stdout)):
            why = unpaired(re.sub(r"\s+", " ", paragraph))
            if why:
                sys.exit("%s: %s:\n%s" % (page, why, paragraph))


# ---- help --------------------------------------------------------------------------------------


def spaceless(text):
    """Where lines end and which quotes there are depends on who renders."""
    return re.sub(r"[\s'`\"]+", "", text)


def check_help():
    for page, words in programs():
        parts = sections(rendered(page))
        wanted = parts["SYNOPSIS"] + re.split(r"\n\s*\n|\n   \S", parts["DESCRIPTION"])[0]
        wanted += parts.get("COMMANDS", "") + parts["OPTIONS"]
        said = run(words + ["--help"]).stdout
        said = re.sub(r"^(usage|Options|Commands):", "", said, flags=re.M)
        if spaceless(said) != spaceless(wanted):
            sys.exit("%s: --help is another text:\n%s\n----\n%s" % (page, spaceless(said), spaceless(wanted)))
    # The list has each command with its page's summary.
    listed = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", run([TOOL, "help"]).stdout, flags=re.M))
    for page, words in programs():
        if len(words) == 2:
            summary = re.search(r"^\.Nd (.*)", source(page), flags=re.M).group(1)
            if not summary.startswith(listed.get(words[1], "?")):
                sys.exit("%s: `help` says '%s'" % (page, listed.get(words[1])))


# ---- options -----------------------------------------------------------------------------------


def options_of_page(page):
    """Each option of a page: "", "VALUE" or "[=VALUE]"."""
    found = {}
    for item in re.findall(r"^\.It Fl (.*)", source(page), flags=re.M):
        for one in ("Fl " + item).split(" , "):
            words = one.split()
            value = "[=VALUE]" if "Op" in words else "VALUE" if "Ar" in words else ""
            found[words[1].lstrip("-")] = value
    return found


def all_names():
    """Every option that any program may know: of all pages, and of the tables in the sources."""
    names = {name for page in pages("*.1") for name in options_of_page(page)}
    for path in ("src/cli/options.c", "src/link/main.c"):
        names.update(re.findall(r'\{ "([A-Za-z-]+)", \w+_argument', read(os.path.join(ROOT, path))))
    if len(names) < 50:
        sys.exit("only %d options were found" % len(names))
    return sorted(names)


def refuses(said, option):
    return any(text in said for text in ("'%s': no such option" % option, "unrecognized option '%s'" % option,
                                         "invalid option -- '%s'" % option.lstrip("-")))


def kind_of(words, name):
    """What the program takes: None, "", "VALUE" or "[=VALUE]". An option that no program knows ends it."""
    option, last = ("-" if len(name) == 1 else "--") + name, "--no-such-option"
    said = run(words + [option, last, last + "s"]).stderr
    if refuses(said, option):
        return None
    if said and not refuses(said, last):
        return "VALUE"  # which was the wrong one, or all were taken
    if len(name) == 1 or not said:
        return ""  # --help acts at once
    said = run(words + [option + "=x", last]).stderr
    return "" if refuses(said, option + "=x") or "doesn't allow an argument" in said else "[=VALUE]"


def check_options():
    for page, words in programs():
        if page == "ocaml-probes.1":
            continue  # its options are tried by test_help_and_version
        described = options_of_page(page)
        for name in all_names():
            longer = [other for other in described if other.startswith(name)]
            if name not in described and len(longer) > 1 and words[0] == TOOL:
                option = ("-" if len(name) == 1 else "--") + name
                said = run(words + [option]).stderr
                if "'%s': ambiguous option: " % option not in said:
                    sys.exit("%s: -%s stands for %s: %s" % (page, name, longer, said))
                continue
            taken = kind_of(words, name)
            if name not in described and longer and words[0] == TOOL:
                if taken is None:
                    sys.exit("%s: -%s does not stand for -%s" % (page, name, longer[0]))
            elif taken != described.get(name):
                sys.exit("%s: -%s: the program takes %r, the page has %r" % (page, name, taken, described.get(name)))
        # And --help, in its own words.
        heads = re.findall(r"^  (-.*?)(?:  .*)?$", run(words + ["--help"]).stdout, flags=re.M)
        helped = {re.match(r"-+([\w-]+)", head).group(1) for line in heads for head in line.split(", ")}
        if helped != set(described):
            sys.exit("%s: --help differs in %s" % (page, helped ^ set(described)))


# ---- exit codes, configuration, library --------------------------------------------------------


def check_exit_status():
    known = re.findall(r"^\tEXIT_\w+ = (\d)", read(os.path.join(ROOT, "src/cli/cli.h")), flags=re.M)
    for page, words in programs():
        if words[0] != TOOL or page == "ocaml-probes-doctor.1":
            continue
        section = source(page).split(".Sh EXIT STATUS\n")[1].split(".Sh ")[0]
        if re.findall(r"^\.It (\d)$", section, flags=re.M) != known:
            sys.exit("%s: the exit codes are %s" % (page, known))


def check_configuration():
    """Each key is tried alone, with a value that none takes."""
    page = "ocaml-probes-serve.conf.5"
    path = os.path.join(readme.WORK, "serve.json")
    text = source(page)
    upper, lower = text.split(".Ss Keys of the file")[1].split(".Ss Keys of a target")
    lower = lower.split(".Sh ")[0]

    def is_known(key, config):
        with open(path, "w") as file:
            json.dump(config, file)
        return key + ": no such key" not in run([TOOL, "serve", "--config", path]).stderr

    table = read(os.path.join(ROOT, "src/serve/config.c"))
    candidates = set(re.findall(r'\{ "(\w+)", take_', table)) | set(re.findall(r"\.It Cm (\w+)", text))
    for part, wrap in ((upper, lambda key: {key: None}), (lower, lambda key: {"targets": [{key: None}]})):
        described = set(re.findall(r"\.It Cm (\w+)", part))
        taken = {key for key in candidates if is_known(key, wrap(key))}
        if described != taken:
            sys.exit("%s: described are %s, taken are %s" % (page, sorted(described), sorted(taken)))
    example = re.search(r"\.Sh EXAMPLES\n\.Bd[^\n]*\n(.*?)\.Ed", text, flags=re.S).group(1)
    with open(path, "w") as file:
        file.write(example.replace("/srv/bin/", "/nowhere/").replace('"127.0.0.1:9464"', '"127.0.0.1:1x"'))
    said = run([TOOL, "serve", "--config", path]).stderr
    if not re.match(r"ocaml-probes: %s:\d+: listen: '127\.0\.0\.1:1x'" % re.escape(path), said):
        sys.exit("%s: the example is refused for another reason than its address: %s" % (page, said))


def check_library():
    page = "ocaml_probes.3"
    done = run(["nm", "-D", "--defined-only", os.path.join(BUILD, "libocaml_probes.so")])
    exported = set(re.findall(r" T (ocp_\w+)", done.stdout))
    described = re.findall(r"^\.Fo (\w+)", source(page), flags=re.M)
    if len(exported) < 50 or set(described) != exported or len(described) != len(exported):
        sys.exit("%s: differs from the library in %s" % (page, sorted(set(described) ^ exported)))
    example = re.search(r"^     EXAMPLES|^EXAMPLES\n(.*?)^SEE ALSO", rendered(page), flags=re.M | re.S).group(1)
    with open(os.path.join(readme.WORK, "example.c"), "w") as file:
        file.write(example[example.index("#include"):])
    readme.run_in(readme.WORK, "gcc -Wall -Wextra -Werror -I%s/include example.c -L%s -locaml_probes -o example"
                  % (ROOT, BUILD))


# ---- examples ----------------------------------------------------------------------------------


def examples(page):
    text = sections(rendered(page)).get("EXAMPLES", "")
    lines = [line.strip() if line.strip().startswith("$ ") else re.sub("^ {11}", "", line)
             for line in text.split("\n")]
    lines = [line for line in lines if line and not re.match(r" {5}\S", line)]
    for example in readme.examples("\n".join("    " + line for line in lines)):
        yield example


def is_build(example):
    return example.command.startswith("ocaml-probes-link") or "ocamlopt" in example.command


def run_on_terminal(command):
    """Press q when the first screen has come; the status counts."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
        os.execvp("sh", ["sh", "-c", "exec " + command])
    shown = b""
    end = time.monotonic() + readme.PATIENCE
    while b"request_done" not in shown:
        if time.monotonic() > end:
            sys.exit("%s: shows nothing" % command)
        try:
            shown += os.read(fd, 65536)
        except OSError:
            sys.exit("%s: ends with %r" % (command, shown))
    os.write(fd, b"q")
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        sys.exit("%s: status %d" % (command, status))


def run_trace(command):
    """Of a program that is only measured: it runs on."""
    path = os.path.join(readme.WORK, "measured")
    with open(path, "w") as output:
        done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                              timeout=readme.PATIENCE, check=False)
    said = read(path)
    if done.returncode != 0 or "request_done" not in said:
        sys.exit("%s: status %d\n%s" % (command, done.returncode, said))
    os.kill(int(re.search(r"of pid (\d+)", said).group(1)), signal.SIGTERM)


@contextlib.contextmanager
def running(command):
    """Runs while the caller does something else, from the moment when it measures to Ctrl-C; the status counts."""
    path = os.path.join(readme.WORK, "said")
    with open(path, "w") as output, subprocess.Popen(["sh", "-c", "exec " + command], stdin=subprocess.DEVNULL, stdout=output,
                                                     stderr=output) as process:
        end = time.monotonic() + readme.PATIENCE
        while "measuring" not in read(path):
            if process.poll() is not None or time.monotonic() > end:
                sys.exit("%s: measures nothing\n%s" % (command, read(path)))
            time.sleep(0.02)
        yield
        process.send_signal(signal.SIGINT)
    if process.returncode != 0:
        sys.exit("%s: status %d\n%s" % (command, process.returncode, read(path)))


def check_example(example, pid):
    command = readme.as_here(example.command, pid)
    if "ocaml-probes trace" in example.command and " -enable" in example.command:
        readme.check_trace(example)
    elif "ocaml-probes trace" in example.command:
        run_trace(command)
    elif "ocaml-probes top" in example.command:
        run_on_terminal(command)
    elif " --when " in example.command:
        with running(command):
            pass
    elif "memprof" in example.command:
        run_memprof(example.command)
    else:
        actual = readme.output_of(command)
        if example.expected:
            readme.check(example.command, example.expected, actual)


def run_memprof(command):
    """Of a program with the library: the service is linked without it."""
    subject = os.path.join(readme.BUILD, "tests/ocaml/memprof_subject")
    with subprocess.Popen([subject, "leak"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        readme.output_of(readme.as_here(command, process.pid))


def check_examples():
    done = 0
    os.environ["XDG_RUNTIME_DIR"] = readme.WORK
    for page in pages():
        wanted = [example for example in examples(page) if not is_build(example)]
        with readme.Service() as service, contextlib.ExitStack() as beside:
            server = None
            for example in wanted:
                print("%s: %s" % (page, example.command), flush=True)
                if example.command.startswith("ocaml-probes serve"):
                    server = readme.Server(readme.as_here(example.command, service.process.pid))
                    server.__enter__()
                elif " --name " in example.command:
                    beside.enter_context(running(readme.as_here(example.command, service.process.pid)))
                else:
                    check_example(example, service.process.pid)
                done += 1
            if server:
                server.__exit__()
    if done < 25:
        sys.exit("only %d examples were found" % done)


def check_builds():
    """In a folder beside a service.ml."""
    done = 0
    for page in pages("*.1"):
        folder = os.path.join(readme.WORK, page)
        for example in examples(page):
            if is_build(example):
                if not os.path.isdir(folder):
                    os.mkdir(folder)
                    with open(os.path.join(folder, "service.ml"), "w") as file:
                        file.write(read(os.path.join(ROOT, "tests/ocaml/service/service.ml")))
                readme.run_in(folder, example.command)
                done += 1
        if os.path.isdir(folder):
            readme.has_probes(os.path.join(folder, "service"))
    if done < 4:
        sys.exit("only %d examples were found" % done)


CASES = {
    "quotes": check_quotes,
    "sections": check_sections,
    "references": check_references,
    "help": check_help,
    "options": check_options,
    "exit_status": check_exit_status,
    "configuration": check_configuration,
    "library": check_library,
    "examples": check_examples,
    "builds": check_builds,
}

if __name__ == "__main__":
    CASES[sys.argv[2]]()
