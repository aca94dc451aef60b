#!/usr/bin/python3
"""report_page.py PAGE TEXT TEST: one test of the page of a report, in a browser; report.sh calls it.

TEXT is what the command that wrote PAGE has printed: the page shows the same lines."""

import json
import os
import sys

from web_lib import CONTRAST, OUTSIDE, Page, equal, wait_for

COLUMNS = 80
# "Width of the number" by topic, as in the text.
WIDTHS = {"cpu": 7, "alloc": 7, "wait": 7, "probes": 12, "pairs": 12}

# What is shown, by topic: the label, the text, the command, and the rows.
SHOWN = """
const words = (e) => e ? e.textContent : null;
return [...document.querySelectorAll("[data-topic]")].map((e) => ({
    topic: e.dataset.topic,
    label: words(e.querySelector("dt, h2")),
    text: words(e.querySelector(".summary") ?? e),
    command: words(e.querySelector(".command code")),
    notes: [...e.querySelectorAll(".note")].map(words),
    rows: [...e.querySelectorAll("tbody tr")].map((row) => ({
        number: words(row.cells[0]),
        share: row.cells[0].dataset.value === "" ? null : Number(row.cells[0].dataset.value),
        text: words(row.querySelector(".name")),
        bar: row.querySelector(".bar span")?.style.width ?? null,
        command: row.querySelector("button")?.title ?? null })) }));
"""


def data_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read().split('id="data">')[1].split("</script>")[0]
    assert not set(text) & set("<>&\u2028\u2029"), "not escaped"
    return json.loads(text)


def plain(text):
    """TEXT as it is printed: without what controls a terminal."""
    unsafe = {*range(0x20), *range(0x7f, 0xa0), *range(0x2028, 0x202f), *range(0x2066, 0x206a)}
    return "".join("?" if ord(c) in unsafe else c for c in text)


def printed(line):
    """The lines that the text has for LINE of the page."""
    text = line["text"] if line["label"] is None else f"{line['label']}: {line['text']}"
    command = line["command"] or ""
    size = len(text.encode())
    text = plain(text)
    if command and size + 2 + len(command) <= COLUMNS:
        text += command.rjust(COLUMNS - size)
    yield text
    if command and not text.endswith(command):
        yield command.rjust(COLUMNS)
    for row in line["rows"]:
        yield ("  " if row["number"] is None else row["number"].rjust(WIDTHS[line["topic"]]) + "  ") + plain(row["text"])


def check_text(data, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    equal([row for line in data["lines"] for row in printed(line)], text.splitlines(), "the page and the text")


def check_shown(page, data):
    shown = {line["topic"]: line for line in page.js(SHOWN)}
    equal(set(shown), {line["topic"] for line in data["lines"]}, "topics")
    for line in data["lines"]:
        seen = shown[line["topic"]]
        notes = [row["text"] for row in line["rows"] if row["number"] is None]
        rows = [row for row in line["rows"] if row["number"] is not None]
        equal(seen["command"], line["command"], "a command")
        equal(seen["notes"], notes, "notes")
        equal([{name: row[name] for name in ("number", "share", "text", "command")} for row in seen["rows"]], rows, "rows")
        for row in seen["rows"]:
            if row["share"] is not None:
                assert abs(float(row["bar"].rstrip("%")) - 100 * row["share"]) < 0.01, row
        if line["topic"] in WIDTHS or seen["label"] is not None:
            equal((seen["label"], seen["text"]), (line["label"], line["text"]), "a line")
        else:
            equal(seen["text"], line["text"] if line["label"] is None else f"{line['label']}: {line['text']}", "a line")


def shown(page, data):
    check_shown(page, data)
    equal(page.driver.title, f"Report: {data['exe'].split('/')[-1]}, pid {data['pid']}", "title")
    # Each button copies the command beside it.
    page.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    commands = [line["command"] for line in data["lines"] if line["command"]]
    commands += [row["command"] for line in data["lines"] for row in line["rows"] if row["command"]]
    buttons = page.js("return [...document.querySelectorAll('button')].map((e) => e.title)")
    equal(sorted(buttons), sorted(commands), "commands")
    for i, command in enumerate(buttons):
        page.js("document.querySelectorAll('button')[arguments[0]].click()", i)
        wait_for("the copy", lambda c=command: page.text("#copied") in (f"Copied: {c}", c))
        if page.text("#copied") != command:
            equal(page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])"), command, "copied")
    # Where the browser forbids it, the command is shown, selected.
    page.js("navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden'))")
    page.js("document.querySelector('button').click()")
    wait_for("the command", lambda: page.text("#copied") == buttons[0])
    equal(page.js("return String(getSelection())"), buttons[0], "selected")


def looks(page, _data):
    """Nothing sticks out, all can be read, on a phone and a desk, by day and night."""
    for width in (1280, 768, 375):
        for scheme in ("light", "dark"):
            page.size(width)
            page.media(prefers_color_scheme=scheme)
            where = f"at {width} px, {scheme}"
            room, needed = page.js("const e = document.documentElement; return [e.clientWidth, e.scrollWidth]")
            assert needed <= room, f"the page is {needed} px wide {where}"
            equal(page.js(OUTSIDE), [], f"what sticks out {where}")
            looked, bad, behind = page.js(CONTRAST)
            assert looked > 40, f"only {looked} texts {where}"
            equal(bad, [], f"texts that are hard to read {where}")
            assert (behind > 0.5) == (scheme == "light"), f"background {behind} {where}"
            page.screenshot(f"report-{width}-{scheme}", width)
    passed, found = page.axe()
    assert passed > 20 and found == [], found


def hostile(page, data):
    names = [row["text"] for line in data["lines"] for row in line["rows"]]
    assert os.environ["HOSTILE"] in names, (os.environ["HOSTILE"], names)
    assert "<b>" in data["exe"] and "\x1b]0;own\x07" in data["exe"], data["exe"]
    check_shown(page, data)
    equal(page.js("return [document.querySelectorAll('b').length, document.images.length, document.scripts.length]"),
          [0, 0, 2], "elements")
    for line in data["lines"]:
        for thing in (line, *line["rows"]):
            assert thing["command"] is None or plain(thing["command"]) == thing["command"], thing
    # Were there a script nevertheless, it would not run.
    equal(page.js("""const script = document.createElement("script");
                     script.textContent = "window.ran = true";
                     document.body.append(script);
                     return window.ran ?? false;"""), False, "a foreign script ran")
    said = page.console()
    assert len(said) == 1 and "Content Security Policy" in said[0], said


def main():
    path, text, name = sys.argv[1:]
    data = data_of(path)
    check_text(data, text)
    page = Page(None, "file://" + os.path.abspath(path), "ready")
    for test in {"used": (shown, looks), "hostile": (hostile,)}[name]:
        test(page, data)
    equal({url for url in page.requests() if not url.startswith("data:")}, {"file://" + os.path.abspath(path)}, "requests")
    equal(page.console(), [], "console")
    page.close()


main()
