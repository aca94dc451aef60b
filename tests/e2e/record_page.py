#!/usr/bin/python3
"""record_page.py DRIVER TEST: one test of the page with a timeline, in a browser; record_page.sh calls it."""

import json
import os
import sys
import time

from made_traces import (CALL, CATEGORIES, COUNTER, GC, GROUP, INSTANT, MadeTrace, PAIR, PROBE, PROCESS, SAMPLE, SAMPLES, SLICE, START,
                         THREAD, WAIT, flows, hung, many, small)
from web_lib import CONTRAST, OUTSIDE, Page, TMP, equal, wait_for

NEAR = 1.5  # pixels
RULER = 24

# The colour in the middle of the chosen box, and that of the category.
COLOURS = """
const [x, y, names] = arguments;
const canvas = document.querySelector("#timeline canvas");
const ratio = canvas.width / canvas.clientWidth;
const copy = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
copy.drawImage(canvas, Math.round(x * ratio), Math.round(y * ratio), 1, 1, 0, 0, 1, 1);
const [r, g, b] = copy.getImageData(0, 0, 1, 1).data;
const probe = document.createElement("i");
document.body.append(probe);
const wanted = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
});
probe.remove();
return [`rgb(${r}, ${g}, ${b})`, wanted];
"""

# Texts on the boxes of the timeline whose contrast is too low.
BOX_CONTRAST = """
const luminance = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const probe = document.createElement("i");
document.body.append(probe);
const get = (name) => {
    probe.style.color = `var(--${name})`;
    return luminance(getComputedStyle(probe).color);
};
const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const pairs = [["text", "found"], ["text", "title"], ["muted", "panel"],
    ...arguments[0].flatMap((category) => [0, 1, 2].map((shade) => ["text", `${category}-${shade}`]))];
const bad = pairs.map(([a, b]) => [a, b, ratio(get(a), get(b))]).filter(([, , found]) => !(found >= 4.5));
probe.remove();
return bad;
"""

# Turn the wheel N times at X, and return how long it takes until the timeline is drawn, in ms.
WHEEL = """
const [x, deltaY, n, done] = arguments;
const canvas = document.querySelector("#timeline canvas"), box = canvas.getBoundingClientRect();
const place = document.querySelector("#timeline"), times = [];
const turn = () => {
    if (times.length === n)
        return done(times);
    const draws = place.dataset.draws, began = performance.now();
    canvas.dispatchEvent(new WheelEvent("wheel",
        { deltaY, clientX: box.left + x, clientY: box.top + 60, bubbles: true, cancelable: true }));
    const wait = () => {
        if (place.dataset.draws === draws)
            return requestAnimationFrame(wait);
        times.push(performance.now() - began);
        setTimeout(turn, 0);
    };
    requestAnimationFrame(wait);
};
turn();
"""


class TracePage(Page):
    """A browser in which traces are opened, one after the other."""

    def __init__(self, driver, *flags):
        self.writer, self.path = driver, os.path.join(TMP, "page.html")
        super().__init__(None, self.write(small()), "ready", flags)
        self.driver.set_script_timeout(300)

    def write(self, made):
        made.write(self.writer, "html", self.path)
        return "file://" + self.path

    def open(self, made):
        url = self.write(made)
        started = time.monotonic()
        self.driver.get(url)
        self.wait("the trace", "return document.body.dataset.state === 'ready'")
        self.settle()
        return time.monotonic() - started

    def settle(self):
        """All that was planned is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => done())));")

    def data(self, name):
        return self.js("return document.querySelector('#timeline').dataset[arguments[0]]", name)

    def shown(self):
        self.settle()
        return float(self.data("since")), float(self.data("until"))

    def box(self):
        self.settle()
        return json.loads(self.data("chosen") or "null")

    def width(self):
        return self.js("return document.querySelector('#timeline canvas').clientWidth")

    def fields(self, of="fields"):
        return self.js("""const list = [...document.querySelectorAll(`#${arguments[0]} > *`)].map((e) => e.textContent);
            return Object.fromEntries(list.filter((_, i) => i % 2 === 0).map((name, i) => [name, list[2 * i + 1]]))""", of)

    def mouse(self, kind, x, y, **more):
        """The mouse at a point of the canvas."""
        left, top = self.js("const b = document.querySelector('#timeline canvas').getBoundingClientRect(); return [b.left, b.top]")
        self.cdp("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, **more)

    def click(self, x, y, times=1):
        self.js("document.querySelector('#timeline-title').scrollIntoView()")
        for n in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=n)
        self.settle()

    def button(self, name):
        self.js("document.getElementById(arguments[0]).click()", name)
        self.settle()

    def search(self, text):
        self.js("const e = document.querySelector('#search'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))", text)
        wait_for("the end of the search", lambda: self.data("searched") == text)
        self.settle()

    def end(self):
        urls = {url for url in self.requests() if not url.startswith("data:")}
        equal(urls, {"file://" + self.path}, "requests")
        equal(self.console(), [], "console")
        self.close()


def number(text):
    """Nanoseconds of an exact time, such as 1.5 ms."""
    value, unit = text.replace("\u00a0", " ").split()[:2]
    return round(float(value) * {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1}[unit])


def check_names(page, made):
    rows = page.js("""return [...document.querySelectorAll("#names tr")].map((row) =>
        [row.querySelector("th").textContent, row.querySelector("th").className.replace("kind ", ""), row.cells[3].textContent !== "",
         ...[2, 3, 5].map((i) => Number(row.cells[i].dataset.value))])""")
    found = {(name, category, SLICE if is_slice else INSTANT): tuple(sums) for name, category, is_slice, *sums in rows}
    equal(found, made.sums(), "names")
    equal([row[4] for row in rows], sorted((row[4] for row in rows), reverse=True), "order")


def shown(page):
    made = small()
    page.open(made)
    check_names(page, made)
    equal(page.driver.title, "service (42): timeline", "title")
    tiles = page.js("return Object.fromEntries([...document.querySelectorAll('#tiles > div')]"
                    ".map((e) => [e.firstChild.textContent, e.lastChild.textContent]))")
    equal(tiles, {"Duration": "60\u00a0ms", "Events": str(len(made.events)), "Threads": "2", "Lost": "3", "Dropped": "0"}, "tiles")
    assert "Made up. Written because of: slower request_start,request_done 20ms. From " in page.text("#about"), page.text("#about")
    equal(page.text("#notice"), "3 events were lost, because the kernel or the recorder had no room for them.", "notice")
    equal(page.js("return [...document.querySelectorAll('#legend li')].map((e) => e.className)"),
          [f"kind {category}" for category in CATEGORIES], "legend")
    page.js("document.querySelector('[data-sort=n] button').click()")
    equal(page.js("return document.querySelector('#names th').textContent"), "Service.digits", "most")
    page.open(MadeTrace())
    equal([page.text("#title"), page.text("#notice"), page.text("#matches")], ["No event was recorded", "", ""], "an empty trace")
    equal(page.js("return document.querySelectorAll('#names tr').length"), 0, "names of nothing")
    page.focus("#timeline")
    for key in ("ArrowDown", "ArrowRight", "Enter", "w", "Escape"):
        page.press(key)
    equal(page.box(), None, "chosen of nothing")


def unended(page):
    """Slices without an end last until the end of the recording, say so, and are no part of sums."""
    page.open(hung())
    equal(page.js("return document.querySelector('#tiles dd').textContent"), "100\u00a0ms", "duration")
    found = {}
    since, until = page.shown()
    scale = page.width() / (until - since)
    for fields, box, text, args, _ in (event for row in walk(page) for event in row):
        begin, length = number(fields["Begins"]), number(fields["Duration"])
        assert abs(box["x"] - (begin - since) * scale) < NEAR and abs(box["width"] - length * scale) < NEAR, (fields, box)
        if args.get("did not end"):
            equal(args["did not end"], "no end was seen in the recording", "argument")
            equal(fields["Ends"], "Not in the recording", "end")
            assert fields["Duration"].endswith(" until the end of the recording"), fields
            assert " — did not end in the recording, open for " in text, text
            found[text.split(" — ")[0]] = (begin, length)
        else:
            assert "did not end" not in text and fields["Ends"] != "Not in the recording", (text, fields)
    ms = 1000000
    equal(found, {"request_start,request_done": (0, 100 * ms), "Service.inner": (9 * ms, 91 * ms), "Service.outer": (1 * ms, 99 * ms),
                  "Fibre.b": (4 * ms, 96 * ms)}, "slices without an end")
    rows = page.js("""return Object.fromEntries([...document.querySelectorAll("#names tr")].map((row) =>
        [row.querySelector("th").textContent, [2, 3, 4, 5].map((i) => row.cells[i].textContent)]))""")
    equal(rows["Service.outer"], ["0 and 1 without an end", "", "", ""], "sums of one that has not ended")
    equal(rows["request_start,request_done"], ["1 and 1 without an end"] + ["20\u00a0ms"] * 3, "sums of both")
    page.search("request_start")
    assert page.text("#matches").startswith("2 events found, 20\u00a0ms in all"), page.text("#matches")


def walk(page):
    """Choose all events with the keys: the first of each row, and those to its right. Returns the rows."""
    rows = []
    page.focus("#timeline")
    page.press("ArrowDown")
    while True:
        page.press("Home")
        row = [(page.fields(), page.box(), page.text("#chosen"), page.fields("args"), page.text("#stack"))]
        while True:
            page.press("ArrowRight")
            box = page.box()
            if box["event"] == row[-1][1]["event"]:
                break
            row.append((page.fields(), box, page.text("#chosen"), page.fields("args"), page.text("#stack")))
        rows.append(row)
        page.press("ArrowDown")
        if page.box()["event"] == row[-1][1]["event"]:
            return rows


def chosen(page):
    """Each event is where it belongs, and shows what it has."""
    made = small()
    page.open(made)
    rows = walk(page)
    found = []
    since, until = page.shown()
    scale = page.width() / (until - since)
    for row in rows:
        heights = {box["y"] for _, box, _, _, _ in row}
        equal(len(heights), 1, "events of one row")
        ends = -1
        for fields, box, text, args, stack in row:
            begin, length = number(fields["Begins"]), number(fields.get("Duration", "0 ns"))
            assert abs(box["x"] - (begin - since) * scale) < NEAR and abs(box["width"] - length * scale) < NEAR, (fields, box)
            assert begin >= ends, "a row overlaps"
            ends = begin + length
            found.append((text.split(" — ")[0] if "Value" not in fields else fields["Track"], begin, length, args, stack))
    wanted = []
    for event in made.events:
        name = made.name_of(event) if event[0] != COUNTER else made.tracks[event[1]][3]
        length = event[5] if event[0] == SLICE else 0
        stack = made.stacks[event[6]][1] if event[3] in (WAIT, SAMPLE) else None
        name = f"{name}: {event[5]:,}" if event[0] == COUNTER else name
        wanted.append((name, event[4] - START, length, {k: str(v) for k, v in made.args_of(event).items()}, stack))
    found = [(f"{name}: {1000000 * (begin // 10000000 + 1):,}" if name.startswith("major") else name, begin, *rest)
             for name, begin, *rest in found]
    equal(sorted(found, key=str), sorted(wanted, key=str), "events")
    # Threads are first, then pairs, then counters; the requests that overlap have two rows.
    tracks = [row[0][0]["Track"] for row in rows]
    equal(tracks, ["main (thread 42)"] * 5 + ["worker (thread 43)"] * 3 + ["request_start,request_done"] * 2 +
          ["major heap (bytes)"], "rows")


def clicked(page):
    """What is drawn is what the pointer finds, in the colour of its category."""
    made = small()
    page.open(made)
    for row in walk(page):
        fields, box, text, args, stack = row[0]
        if "Value" in fields:
            continue
        kind = next(category for category in CATEGORIES if fields["Kind"].split(",")[0] in
                    {"probe": "probe", "pair": "two probes", "function": "function", "gc": "collector", "wait": "waits",
                     "ready": "ready", "cpu": "CPU samples"}[category])
        x, y = box["x"] + min(box["width"] / 2, box["width"] - 2 if box["width"] > 4 else 1), box["y"] + box["height"] - 2
        page.click(page.width() - 2, box["y"] + box["height"] / 2)
        equal([page.box(), page.text("#chosen")], [None, "Nothing is chosen."], "chosen beside all events")
        drawn, colours = page.js(COLOURS, x, y, [f"{kind}-{shade}" for shade in range(3)])
        assert drawn in colours, (fields, drawn, colours)
        page.mouse("mouseMoved", x, y)
        wait_for("what is under the pointer", lambda: page.text("#under") == text)
        page.click(x, y)
        equal([page.box(), page.text("#chosen"), page.fields("args"), page.text("#stack")], [box, text, args, stack], "clicked")
    page.mouse("mouseMoved", 5, 5)
    wait_for("nothing under the pointer", lambda: page.text("#under") == "")


# What is chosen: its name, where it begins, and its track.
def step_chosen(page):
    fields = page.fields()
    return page.text("#chosen").split(" — ")[0], number(fields["Begins"]), fields["Track"]


def check_arrows(page, boxes):
    """Arrows are between the boxes of the steps, by the numbers of their events: from the row of one to the row of the next."""
    arrows = json.loads(page.data("flows"))
    equal([(arrow["from"], arrow["to"]) for arrow in arrows], list(zip(list(boxes), list(boxes)[1:])), "arrows")
    for arrow in arrows:
        one, other = boxes[arrow["from"]], boxes[arrow["to"]]
        x = min(max(other["x"], one["x"]), one["x"] + one["width"])
        assert abs(arrow["x"] - x) < NEAR and abs(arrow["toX"] - other["x"]) < NEAR, (arrow, one, other)
        for y, box in ((arrow["y"], one), (arrow["toY"], other)):
            assert box["y"] - NEAR < y < box["y"] + box["height"] + NEAR, (arrow, box)
    return arrows


def followed(page):
    """The steps of a request: arrows between them, and the keys and buttons that follow these."""
    page.open(flows())
    page.search("start,stop")
    page.button("next")
    page.focus("#timeline")
    page.press("Enter")
    # The trace lasts 90 ms, and this request 40 us: all of it is on the screen.
    steps, boxes, texts = [step_chosen(page)], {}, []
    while True:
        box = page.box()
        boxes[box["event"]] = box
        texts.append(page.js("return [...document.querySelectorAll('#steps button')].map((e) => e.textContent)"))
        page.press("]")
        if page.box()["event"] == box["event"]:
            break
        steps.append(step_chosen(page))
    first = 5000  # the first event is at 5 us
    equal(steps, [("start,stop", 10000 - first, "start,stop"), ("start", 11000 - first, "a (thread 1)"), ("ask,answer", 20000 - first, "ask,answer"),
                  ("ask", 21000 - first, "b (thread 2)"), ("answer", 31000 - first, "b (thread 2)"), ("stop", 51000 - first, "b (thread 2)")], "steps")
    equal(texts[0], ["Next: start, a (thread 1)"], "buttons of the first step")
    equal(texts[2], ["Previous: start, a (thread 1)", "Next: ask, b (thread 2)"], "buttons of a step")
    equal(texts[-1], ["Previous: answer, b (thread 2)"], "buttons of the last step")
    # The last key may have moved the view.
    page.press("Escape")
    page.search("id=7")
    for zoom in ("Enter", "Escape"):
        boxes = {}
        while json.loads(page.data("flows")) and page.js("return document.querySelector('#steps button').dataset.step") == "-1":
            page.press("[")
            page.settle()
        page.press(zoom)
        page.settle()
        for _ in steps:
            box = page.box()
            boxes[box["event"]] = box
            page.press("]")
        arrows = check_arrows(page, boxes)
    # An arrow is drawn between two rows, in the colour of what is chosen.
    page.press("Escape")
    page.button("all")
    while page.js("return document.querySelector('#steps button').dataset.step") == "-1":
        page.js("document.querySelector('#steps button').click()")
        page.settle()
    page.focus("#timeline")
    page.press("Enter")
    page.settle()
    arrows = json.loads(page.data("flows"))
    equal(len(arrows), len(steps) - 1, "arrows of the first step")
    arrow = max(arrows, key=lambda one: abs(one["toY"] - one["y"]))
    # The edges of a line that is not level are mixed with what is behind it.
    drawn = [page.js(COLOURS, (arrow["x"] + arrow["toX"]) / 2 + i, (arrow["y"] + arrow["toY"]) / 2, ["focus"]) for i in (-2, -1, 0, 1, 2)]
    assert any([colour] == wanted for colour, wanted in drawn), f"colours of an arrow: {drawn}"
    page.screenshot("record-flows", 1280)
    # Buttons lead there, too. An event without flows has neither.
    page.js("document.querySelector('#steps button[data-step=\"1\"]').click()")
    page.settle()
    equal(step_chosen(page)[0], "start", "chosen by the button")
    page.search("alone")
    page.button("next")
    page.settle()
    equal([page.text("#chosen").split(" — ")[0], json.loads(page.data("flows")), page.js("return document.querySelectorAll('#steps').length")],
          ["alone", [], 0], "an event of no request")
    page.press("]")
    equal(step_chosen(page)[0], "alone", "a step of no request")


def zoomed(page):
    page.open(small())
    whole = page.shown()
    width = page.width()

    def time_at(x):
        since, until = page.shown()
        return since + x / width * (until - since)

    def span():
        since, until = page.shown()
        return until - since

    page.js("document.querySelector('#timeline-title').scrollIntoView()")
    x = round(width * 0.3)
    before, long = time_at(x), span()
    page.mouse("mouseWheel", x, 60, deltaX=0, deltaY=-240)
    wait_for("a zoom", lambda: span() < long * 0.99)
    page.settle()
    assert abs(time_at(x) - before) < span() / width * NEAR, "the time at the pointer has moved"
    before = page.shown()
    page.mouse("mouseWheel", x, 60, deltaX=0, deltaY=100, modifiers=8)
    wait_for("a move", lambda: page.shown()[0] > before[0])
    assert abs(span() - (before[1] - before[0])) < 1, "Shift and the wheel zoom"
    before, at = page.shown(), time_at(400)
    page.mouse("mousePressed", 400, 60, button="left", clickCount=1)
    for step in range(1, 6):
        page.mouse("mouseMoved", 400 + 20 * step, 60, button="left", buttons=1)
    page.mouse("mouseReleased", 500, 60, button="left", clickCount=1)
    page.settle()
    assert abs(time_at(500) - at) < span() / width * NEAR and page.shown() != before, "dragging does not move"
    equal(page.box(), None, "chosen by dragging")
    page.button("all")
    equal(page.shown(), whole, "all")
    page.button("out")
    equal(page.shown(), whole, "more than all")
    page.button("in")
    assert abs(span() * 2 - (whole[1] - whole[0])) < 1, "in"
    before = page.shown()
    page.button("right")
    assert page.shown()[0] > before[0]
    page.button("left")
    assert abs(page.shown()[0] - before[0]) < 1
    page.focus("#timeline")
    for key, longer, later in (("w", -1, 0), ("s", 1, 0), ("d", 0, 1), ("a", 0, -1)):
        before = page.shown()
        page.press(key)
        after = page.shown()
        change = (after[1] - after[0]) - (before[1] - before[0])
        equal(0 if abs(change) < 1 else 1 if change > 0 else -1, longer, f"length after {key}")
        if not longer:
            equal(1 if after[0] > before[0] else -1, later, f"direction of {key}")
    page.press("Escape")
    equal(page.shown(), whole, "Escape")
    # To a box, by Enter and by two clicks.
    page.search("Service.parse")
    page.button("next")
    box = page.box()
    page.focus("#timeline")
    page.press("Enter")
    since, until = page.shown()
    assert abs(since - 1.5e6) < 10 and abs(until - 7.5e6) < 10, (since, until)
    page.press("Escape")
    page.click(box["x"] + box["width"] / 2, box["y"] + 5, times=2)
    assert page.shown() == (since, until), page.shown()
    for _ in range(40):
        page.button("in")
    assert 19.9 < span() < 20.1, f"the least time is {span()}"
    page.press("Escape")
    # A narrower window shows the same time.
    page.press("Enter")
    before = page.shown()
    page.size(700)
    wait_for("another width", lambda: page.width() < 690)
    after = page.shown()
    assert max(abs(before[0] - after[0]), abs(before[1] - after[1])) < 10, (before, after)
    page.size(1280)


def searched(page):
    made = small()
    page.open(made)
    page.focus("#search")
    page.type("SERVICE.DIGITS")
    # Two calls; the samples and the wait, by their names and stacks; all lie in Service.handle's stack.
    wait_for("what is found", lambda: page.data("found") == "7")
    equal(page.data("total"), str(23 * 10**6), "time that is found")
    assert page.text("#matches").startswith("7 events found, 23\u00a0ms in all"), page.text("#matches")
    order = []
    for _ in range(8):
        page.press("Enter")
        order.append(page.box()["event"])
    equal(order[0], order[7], "the first one again")
    equal(order[:7], sorted(set(order)), "order of what is found")
    page.press("Enter", modifiers=8)
    equal(page.box()["event"], order[6], "back")
    equal([page.js("return document.getElementById(arguments[0]).disabled", i) for i in ("next", "previous")], [False, False], "buttons")
    # In a stack; in an argument; nothing.
    page.search("mutex.ml:7")
    equal(page.data("found"), "1", "found in a stack")
    page.search("id=42")
    equal(page.data("found"), "1", "found by an argument")
    page.button("next")
    equal(page.fields("args"), {"id": "42", "result": str(-2**53 - 1)}, "an argument that JavaScript would round")
    box = page.box()
    drawn, colours = page.js(COLOURS, box["x"] + box["width"] - 3, box["y"] + box["height"] - 2, ["found"])
    equal([drawn], colours, "colour of what is found")
    page.search(str(-2**53 - 1))
    equal(page.data("found"), "1", "found by a long number")
    page.search("nowhere")
    equal(page.text("#matches"), "Nothing has “nowhere” in its name, its arguments or its stack.", "nothing found")
    equal(page.js("return document.querySelector('#next').disabled"), True, "next")
    page.search("")
    equal(page.text("#matches"), "", "no search")
    drawn, colours = page.js(COLOURS, box["x"] + box["width"] - 3, box["y"] + box["height"] - 2, [f"pair-{i}" for i in range(3)])
    assert drawn in colours, "still marked"
    page.js("document.querySelector('#names button').click()")
    name = page.js("return document.querySelector('#names th').textContent")
    equal([page.js("return document.querySelector('#search').value"), int(page.data("found"))],
          [name, sum(sums[0] for key, sums in made.sums().items() if name in key[0])], "search from the list")


def looks(page):
    """Nothing sticks out, all can be read, on a phone and a desk, by day and night."""
    page.open(small())
    page.search("Service.digits")
    page.button("next")
    page.search("mutex.ml")
    page.button("next")
    for width, schemes in ((1280, ("light", "dark")), (768, ("dark",)), (375, ("light", "dark"))):
        for scheme in schemes:
            page.size(width)
            page.media(prefers_color_scheme=scheme)
            page.settle()
            where = f"at {width} px, {scheme}"
            room, needed = page.js("const e = document.documentElement; return [e.clientWidth, e.scrollWidth]")
            assert needed <= room, f"the page is {needed} px wide {where}"
            equal(page.js(OUTSIDE), [], f"what sticks out {where}")
            looked, bad, behind = page.js(CONTRAST)
            assert looked > 60, f"only {looked} texts {where}"
            equal(bad, [], f"texts that are hard to read {where}")
            equal(page.js(BOX_CONTRAST, CATEGORIES), [], f"texts on boxes that are hard to read {where}")
            assert (behind > 0.5) == (scheme == "light"), f"background {behind} {where}"
            equal(page.width(), page.js("return document.querySelector('#timeline').clientWidth"), f"canvas {where}")
            drawn, colours = page.js(COLOURS, 2, 3, ["title"])
            equal([drawn], colours, f"colours {where}")
            passes, found = page.axe()
            assert passes > 20 and not found, f"{where}: {passes} {found}"
            page.screenshot(f"record-{width}-{scheme}", width)
    # What a screen reader says of the timeline.
    said, = [node for node in page.cdp("Accessibility.getFullAXTree")["nodes"] if node.get("role", {}).get("value") == "application"]
    equal(said["name"]["value"], "Timeline", "name of the timeline")
    assert "Keys: W and S zoom" in said["description"]["value"] and "waits: a mutex" in said["description"]["value"], said["description"]
    # From the search to the list of names by Tab alone, nothing is skipped and nothing holds the focus.
    page.size(1280)
    page.focus("#search")
    order = []
    for _ in range(12):
        page.press("Tab")
        order.append(page.js("return document.activeElement.id || document.activeElement.className"))
    equal(order[:9], ["previous", "next", "in", "out", "left", "right", "all", "timeline", "stack"], "order of Tab")


def hostile(page):
    names = ["</script><b>", "<!--<script>", "<img src=x onerror=document.title='owned'>", "&lt;&amp;", "a\u2028b\u2029c",
             "\"quoted\\\"", "]]>", "{{x}}", "\u202eright to left", "tab\tand\x01control", "x" * 5000, "@data", "\n@data\n",
             "__proto__", "constructor", "toString"]
    made = MadeTrace(tool="</title></script><b>\n@data\n", why="<img src=x onerror=document.title='owned'>")
    made.track(PROCESS, 1, 0, "</title></script><b>")
    thread, group = made.track(THREAD, 1, 1, "</script><b>"), made.track(GROUP, 1, 0, "<!--<script>")
    samples = made.track(SAMPLES, 1, 1, "</script><b>")
    for i, name in enumerate(names):
        made.add(SLICE, thread, name, CALL, 100 * i, 50, **{name: name, "n": i})
        made.add(INSTANT, thread, name, PROBE, 100 * i, **{name: name})
        made.add(SLICE, group, name, PAIR, 100 * i, 50)
        stack = made.stack(name, *names)
        made.add(INSTANT, samples, "cpu", SAMPLE, 100 * i, stack=stack)
    # An unknown stack has no name but that of its event.
    made.stacks.append(None)
    made.add(INSTANT, samples, "unknown", SAMPLE, 100 * len(names), stack=len(made.stacks) - 1)
    page.open(made)
    sums = made.sums()
    more = len(sums) - 50
    equal(page.text("#more"), f"{more} more names are not listed here.", "names that are not listed")
    listed = set(page.js("return [...document.querySelectorAll('#names th')].map((e) => e.textContent)"))
    assert listed <= {key[0] for key in sums} and listed >= set(names), listed
    equal(page.text("#title"), "</title></script><b> (1)", "title")
    assert page.text("#about").startswith("</title></script><b>\n@data\n. Written because of: <img"), page.text("#about")
    equal(page.js("return [document.querySelectorAll('b').length, document.images.length, document.scripts.length]"), [1, 0, 10], "elements")
    page.focus("#timeline")
    page.press("ArrowDown")
    for _ in names:
        page.press("ArrowRight")
        page.settle()
    equal(page.text("#chosen"), "unknown", "an event without a known stack")
    page.press("Home")
    page.settle()
    equal(page.js("return document.querySelector('#stack').textContent"), "\n".join(names), "stack")
    page.press("ArrowDown")
    page.press("Home")
    page.press("ArrowDown")
    for name in names:
        page.settle()
        equal(page.js("return document.querySelector('#args').children[1].textContent"), name, "argument")
        assert page.js("return document.querySelector('#chosen').textContent").startswith(name), "name"
        page.press("ArrowRight")
    for name in names:
        if name.strip():
            page.search(name.strip().lower())
            assert int(page.data("found")) >= 4, (name, page.data("found"))
    equal(page.driver.title, "</title></script><b> (1): timeline", "title of the window")
    equal(page.console(), [], "console")
    # Were there a script all the same, it would not run.
    equal(page.js("""const script = document.createElement("script");
                     script.textContent = "window.ran = true";
                     document.body.append(script);
                     return window.ran ?? false;"""), False, "a foreign script ran")
    said = page.console()
    assert len(said) == 1 and "Content Security Policy" in said[0], said


def crowded(page):
    """More rows than fit are reached by scrolling."""
    made = MadeTrace()
    made.track(PROCESS, 1, 0, "crowd")
    for i in range(300):
        made.add(SLICE, made.track(THREAD, 1, 100 + i, f"t{i}"), f"work{i}", CALL, 10 * i, 1000)
    page.open(made)
    page.focus("#timeline")
    page.search("work250")
    page.button("next")
    box, height = page.box(), page.js("return document.querySelector('#timeline').clientHeight")
    assert RULER <= box["y"] < height, (box, height)
    drawn, colours = page.js(COLOURS, box["x"] + box["width"] - 4, box["y"] + box["height"] - 2, ["found"])
    equal([drawn], colours, "colour of the row that was scrolled to")
    page.click(box["x"] + box["width"] / 2, box["y"] + 4)
    assert page.text("#chosen").startswith("work250 "), page.text("#chosen")
    before = page.js("return document.querySelector('#timeline').scrollTop")
    page.mouse("mousePressed", 400, 60, button="left", clickCount=1)
    for step in range(1, 6):
        page.mouse("mouseMoved", 400, 60 + 20 * step, button="left", buttons=1)
    page.mouse("mouseReleased", 400, 160, button="left", clickCount=1)
    wait_for("rows above", lambda: page.js("return document.querySelector('#timeline').scrollTop") < before)


def of_many(page):
    made = many(500000)
    seconds = page.open(made)
    size = os.path.getsize(page.path)
    equal(page.js("return document.querySelector('#tiles div:nth-child(2)').dataset.value"), "500000", "events")
    sums = made.sums()
    assert len(sums) < 50, len(sums)
    check_names(page, made)
    rows = page.js("return document.querySelector('#timeline').clientHeight") / 15 + 1  # that can be seen: an upper bound
    times = []
    for x in (100, 700, 1100):
        page.button("all")
        times += page.driver.execute_async_script(WHEEL, x, -500, 12)
        drawn = int(page.data("drawn"))
        assert 0 < drawn < rows * page.width(), f"{drawn} boxes"
    since, until = page.shown()
    assert until - since < 10**6, (since, until)
    page.button("all")
    drawn = int(page.data("drawn"))
    assert 1000 < drawn < rows * page.width(), f"{drawn} boxes of all"
    print("# ms:", " ".join(f"{ms:.0f}" for ms in times))
    times.sort()
    print(f"# 500,000 events: {size >> 10} KB, open in {seconds:.1f} s; zoom: median {times[len(times) // 2]:.0f} ms, "
          f"at most {times[-1]:.0f} ms; {drawn} boxes of all")
    started = time.monotonic()
    rid = next(rid for rid in (made.args_of(event).get("rid", 0) for event in made.events[250000:]) if rid > 100000)
    page.search(f"rid={rid}")
    print(f"# found after {time.monotonic() - started:.1f} s")
    # The request that has this number, with its hit and its call.
    equal(page.data("found"), "3", "events of a request")
    page.button("next")
    equal(page.fields("args")["rid"], str(rid), "request")
    page.screenshot("record-many", 1280)


def main():
    driver, name = sys.argv[1:]
    page = TracePage(driver, "--force-prefers-reduced-motion")
    for test in {"used": (shown, unended, chosen, clicked, searched), "zoomed": (zoomed, crowded), "flows": (followed,), "looks": (looks, hostile), "many": (of_many,)}[name]:
        test(page)
        print(f"# {test.__name__}: done")
    page.end()


main()
