"""completion.py SHELL CASE: type into an interactive bash or zsh, press Tab, and see what comes.

A line that Tab has completed is run with `printf` before it, so that the shell itself says which words
the line has. The service's pids are in $SERVICE and $OTHER.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

ROOT = os.environ["ROOT"]
TMP = os.environ["TMP"]
SERVICE, OTHER = os.environ["SERVICE"], os.environ["OTHER"]
PROGRAM = os.path.join(TMP, "only-service")
PATIENCE = 150  # seconds, for what does not come when something is wrong

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
SET_UP = {
    "bash": ["bind 'set enable-bracketed-paste off'", "bind 'set show-all-if-ambiguous on'",
             "bind 'set completion-query-items 0'", "bind 'set page-completions off'",
             ". %s/tools/completion/ocaml-probes.bash" % ROOT],
    "zsh": ["unset zle_bracketed_paste", "bindkey -e", "LISTMAX=0", "setopt no_beep",
            "fpath=(%s/tools/completion $fpath)" % ROOT,
            "autoload -Uz compinit && compinit -u -d %s/zcompdump" % TMP],
}

# What is typed before Tab, and the words that the line has then.
WORDS = [
    ("att", ["attach"]),
    ("help trac", ["help", "trace"]),
    ("--vers", ["--version"]),
    ("attach --bud", ["attach", "--budget"]),
    ("attach -enable-p", ["attach", "-enable-pair"]),
    ("attach -pid %s -enable request_d" % SERVICE, ["attach", "-pid", SERVICE, "-enable", "request_done"]),
    ("attach -pid %s -enable cache_hit,request_d" % SERVICE,
     ["attach", "-pid", SERVICE, "-enable", "cache_hit,request_done"]),
    ("attach -pid %s --count=queue" % SERVICE, ["attach", "-pid", SERVICE, "--count=queue_full"]),
    ("attach -pid=%s --time request_start,request_d" % SERVICE,
     ["attach", "-pid=" + SERVICE, "--time", "request_start,request_done"]),
    ("attach --exe %s --print gc" % PROGRAM, ["attach", "--exe", PROGRAM, "--print", "gc_minor"]),
    ("list -prog %s" % PROGRAM[:-5], ["list", "-prog", PROGRAM]),
    ("top --exe=%s" % PROGRAM[:-5], ["top", "--exe=" + PROGRAM]),
    ("attach -p %s -enable request_d" % SERVICE, ["attach", "-p", SERVICE, "-enable", "request_done"]),
    ("attach %s --count queue" % SERVICE, ["attach", SERVICE, "--count", "queue_full"]),
    ("attach %s --sort h" % SERVICE, ["attach", SERVICE, "--sort", "hits"]),
    ("doctor -pid %s --fix=c" % SERVICE, ["doctor", "-pid", SERVICE, "--fix=complete"]),
    ("bpftrace -pid %s ti" % SERVICE, ["bpftrace", "-pid", SERVICE, "time"]),
    ("bpftrace %s ti" % SERVICE, ["bpftrace", SERVICE, "time"]),
    ("bpftrace %s count cache_m" % SERVICE, ["bpftrace", SERVICE, "count", "cache_miss"]),
    ("bpftrace -pid %s count cache_m" % SERVICE, ["bpftrace", "-pid", SERVICE, "count", "cache_miss"]),
    # Functions, whose names the shell quotes.
    ("attach -pid %s --count=fn:Service.answ" % SERVICE, ["attach", "-pid", SERVICE, "--count=fn:Service.answer"]),
    ("attach --exe %s --count=queue_full,fn:Array.of_seq.\\(" % PROGRAM,
     ["attach", "--exe", PROGRAM, "--count=queue_full,fn:Array.of_seq.(fun)"]),
    ("attach --exe %s --time fn:Array.of_seq." % PROGRAM, ["attach", "--exe", PROGRAM, "--time", "fn:Array.of_seq.(fun)"]),
    ("attach --exe %s --time 'fn:Array.of_seq." % PROGRAM, ["attach", "--exe", PROGRAM, "--time", "fn:Array.of_seq.(fun)"]),
    ("functions --exe %s Array.of_seq." % PROGRAM, ["functions", "--exe", PROGRAM, "Array.of_seq.(fun)"]),
]
# The same of lists: what must be shown, and what must not.
LISTS = [
    ("", ["attach", "bpftrace", "detach", "doctor", "functions", "gc", "help", "info", "list", "read", "serve", "top", "trace"], ["link"]),
    ("info -pid ", [SERVICE, OTHER], [str(os.getpid()), str(os.getppid())]),
    ("attach -pid %s -enable cache_" % SERVICE, ["cache_evict", "cache_hit", "cache_miss"], ["request_done"]),
    ("list -", ["-prog", "--exe", "--kept", "--follow", "--for", "--json"], ["--count"]),
]
KEPT = [("read nig", ["read", "night-shift"]), ("detach nig", ["detach", "night-shift"])]


class Shell:
    def __init__(self, name):
        self.name = name
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Nothing of the machine's or the user's set-up.
            environment = {key: os.environ[key] for key in ("PATH", "O", "TMP") if key in os.environ}
            environment.update(HOME=TMP, ZDOTDIR=TMP, TERM="vt100", LC_ALL="C", PS1="$ ")
            os.execvpe(START[name][0], START[name], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 2000, 300, 0, 0))
        for line in SET_UP[name]:
            self.type(line + "\r")
        self.type("echo rea''dy\r")
        self.await_prompt("ready\r")

    def type(self, text):
        os.write(self.fd, text.encode())

    def await_text(self, pattern):
        """What has come up to the regular expression; it is forgotten."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern.encode(), self.seen, flags=re.S):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                sys.exit("%s: waited in vain for %s in\n%s" % (self.name, pattern, self.seen.decode(errors="replace")))
            self.seen += os.read(self.fd, 65536)
        text, self.seen = self.seen, b""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00\x07\x0f]", "", text.decode(errors="replace"))

    def await_prompt(self, pattern):
        """What has come up to the prompt after PATTERN: the shell reads keys from then on, and the terminal does not."""
        return self.await_text(pattern + r".*\$ ")

    def abandon_line(self):
        self.type("\x15")  # ^U

    def check_words(self, typed, words):
        self.type("ocaml-probes " + typed + "\t")
        # Not before it is there: keys that wait change what zsh does.
        rest = words[-1][len(typed.split(" ")[-1]):] if typed else words[-1]
        self.await_text(".*".join(re.escape(character) for character in rest))
        self.type("\x01printf '<%s>' \x05; echo .end''ed.\r")  # ^A, ^E
        said = self.await_prompt(r"\.ended\.")
        got = re.findall("<([^<>]*)>", said[said.rindex("<ocaml-probes>"):] if "<ocaml-probes>" in said else "")
        if got != ["ocaml-probes"] + words:
            sys.exit("%s: `%s` Tab: %s, and not %s\n%s" % (self.name, typed, got, words, said))


def main():
    shell = Shell(sys.argv[1])
    for typed, words in KEPT if sys.argv[2] == "kept" else WORDS:
        shell.check_words(typed, words)
        print("ok: %s" % typed)
    if sys.argv[2] == "kept":
        return
    for typed, wanted, unwanted in LISTS:
        shell.type("ocaml-probes " + typed + "\t\t")
        shown = shell.await_text("".join(r"(?=.*\n.*\b%s\b)" % re.escape(word.lstrip("-")) for word in wanted))
        shell.abandon_line()
        shell.type("echo .end''ed.\r")
        shown += shell.await_prompt(r"\.ended\.")
        # Behind the line that was typed.
        listed = shown.split("\n", 1)[1].split()
        for word in wanted:
            if word not in listed:
                sys.exit("%s: `%s` Tab: no %s in\n%s" % (shell.name, typed, word, shown))
        for word in unwanted:
            if word in listed:
                sys.exit("%s: `%s` Tab: %s is in\n%s" % (shell.name, typed, word, shown))
        print("ok: %s" % typed)


main()
