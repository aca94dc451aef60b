#!/usr/bin/python3
"""profile_page.py DRIVER TEST: one test of the page of a profile, in a browser; profile_formats.sh calls it."""

import os
import sys
import time

from made_profiles import LIBRARIES, Made, SMALL, generated, library_of, with_libraries
from web_lib import CONTRAST, OUTSIDE, Page, TMP, equal, wait_for

WIDTH_ERROR = 1.5  # pixels

# What is drawn: the names from the outermost function to the box, where the box is, and what colour it has.
BOXES = """
return [...document.querySelectorAll("#graph g.frame")].map((g) => {
    const names = [];
    for (let node = g.__data__; node.parent; node = node.parent)
        names.unshift(node.data.name);
    const box = g.querySelector("rect").getBoundingClientRect();
    return { names, x: box.x, y: box.y, width: box.width, fill: g.querySelector("rect").getAttribute("fill"),
             label: g.querySelector("foreignObject div").textContent, title: g.querySelector("title").textContent,
             chosen: g.classList.contains("chosen") };
});
"""


class ProfilePage(Page):
    """A browser in which profiles are opened, one after the other."""

    def __init__(self, driver, *flags):
        self.writer, self.path, self.form = driver, os.path.join(TMP, "page.html"), "html"
        super().__init__(None, self.write(SMALL), "ready", flags)

    def write(self, made):
        made.write(self.writer, self.form, self.path)
        return "file://" + self.path

    def open(self, made):
        url = self.write(made)
        started = time.monotonic()
        self.driver.get(url)
        self.wait("the profile", "return document.body.dataset.state === 'ready'")
        self.settle()
        return time.monotonic() - started

    def boxes(self):
        return {tuple(box["names"]): box for box in self.js(BOXES)}

    def settle(self):
        """What moves has come to rest, and the graph is as wide as its place."""
        self.wait("rest", """
            return Number(document.querySelector("#graph svg").getAttribute("width")) === graph.clientWidth &&
                [...document.querySelectorAll("#graph svg *")].every((e) => !e.__transition);""")

    def box_width(self):
        return self.js("return document.querySelector('#graph').clientWidth")

    def click(self, *names):
        box = self.boxes()[names]
        self.js("window.scrollTo(0, scrollY + arguments[0] - 300)", box["y"])
        box = self.boxes()[names]
        where = dict(x=box["x"] + box["width"] / 2, y=box["y"] + 8, button="left", clickCount=1)
        for event in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.cdp("Input.dispatchMouseEvent", type=event, **where)
        self.settle()

    def end(self):
        urls = {url for url in self.requests() if not url.startswith("data:")}
        equal(urls, {"file://" + self.path}, "requests")
        equal(self.console(), [], "console")
        self.close()


def check_boxes(page, wanted, whole, hidden=lambda names: False):
    """The boxes of the list WANTED (names to value) are there, as wide as their part of WHOLE."""
    boxes = page.boxes()
    equal({names for names in wanted if not hidden(names)}, set(boxes), "boxes")
    scale = page.box_width() / whole
    for names, box in boxes.items():
        assert abs(box["width"] - min(wanted[names], whole) * scale) < WIDTH_ERROR, (names, box, wanted[names])
        if names and box["width"] > 40:
            equal(box["label"], names[-1], "label")


ROWS = """
return [...document.querySelectorAll("#functions tr")].map((row) =>
    [row.querySelector("th").textContent, ...[1, 3].map((i) => Number(row.cells[i].dataset.value))]);
"""


def check_rows(page, made):
    rows = page.js(ROWS)
    functions = {name: sums for name, sums in made.functions().items() if not name.startswith("[truncated")}
    equal({name: (own, total) for name, own, total in rows}, functions, "functions")
    equal([row[1] for row in rows], sorted((row[1] for row in rows), reverse=True), "order")


def shown(page):
    page.open(SMALL)
    check_boxes(page, SMALL.boxes(), SMALL.value())
    check_rows(page, SMALL)
    equal(page.driver.title, "made up", "title")
    tiles = page.js("return Object.fromEntries([...document.querySelectorAll('#tiles > div')]"
                    ".map((e) => [e.firstChild.textContent, Number(e.dataset.value)]))")
    equal(tiles, {"CPU time": SMALL.value(), "Samples": 102, "Stacks": 5, "Duration": 10**10, "Truncated": 3,
                  "Lost": 2}, "tiles")
    assert "3 samples" in page.text("#notice") and "2 samples are lost" in page.text("#notice"), page.text("#notice")
    equal(page.js("return [...document.querySelectorAll('#legend li')].map((e) => e.className)"),
          ["kind ocaml", "kind c", "kind kernel", "kind unknown", "kind truncated"], "legend")
    kinds = {frame[0]: frame[1] for frame in SMALL.frames}
    for names, box in page.boxes().items():
        assert box["fill"].startswith(f"var(--{kinds[names[-1]] if names else 'all'}-"), box
    found = page.boxes()[("main", "Service.loop", "Service.find")]
    equal(found["title"], "Service.find — service.ml:34 — 798\u00a0ms, 77.5\u00a0% of all — 79 samples — "
          "itself 707\u00a0ms", "numbers of a box")
    equal(page.js("return [...document.querySelectorAll('#functions tr')].find((row) => "
                  "row.cells[0].textContent === 'Service.find').cells[5].textContent"), "service.ml", "source")
    inlined = page.boxes()[("main", "Service.loop", "List.iter")]["title"]
    assert inlined.startswith("List.iter (inlined) — list.ml:110 — 202\u00a0ms"), inlined
    page.js("document.querySelector('[data-sort=total] button').click()")
    equal(page.js("return document.querySelector('#functions th').textContent"), "Service.loop", "most in total")
    waits = Made(SMALL.frames, SMALL.stacks, "wait", truncated=3, lost=2)
    page.open(waits)
    check_rows(page, waits)
    # Waits are recorded, not sampled.
    equal(page.js("return [...document.querySelectorAll('#tiles dt')].map((e) => e.textContent)"),
          ["Time waited", "Waits", "Stacks", "Duration", "Truncated", "Lost"], "what is shown")
    assert "times a second" not in page.text("#about"), page.text("#about")
    assert "3 waits" in page.text("#notice") and "2 waits are lost" in page.text("#notice"), page.text("#notice")
    equal(page.boxes()[("main", "Service.loop", "Service.find")]["title"].split(" — ")[3], "79 waits", "a box")
    page.open(Made([], [], "wait"))
    equal(page.text("#notice"), "No wait was recorded.", "said of no wait")
    equal(set(page.boxes()), {()}, "boxes of no sample")


def searched(page):
    made = generated(5, 60, 30, 8)
    page.open(made)
    word = made.frames[made.stacks[0][-1]][0]
    page.focus("#search")
    page.type(word.upper())
    equal(page.js("return document.querySelector('#search').value"), word.upper(), "text that was typed")
    wait_for("what is found", lambda: page.js("return Number(graph.dataset.found)") == made.share_of(word))
    page.settle()
    share = made.share_of(word) / made.value()
    assert f"in {share * 100:.{2 if share < 0.1 else 1}f}\u00a0% of all" in page.text("#matches"), page.text("#matches")
    page.settle()
    for names, box in page.boxes().items():
        equal(box["fill"] == "var(--found)", bool(names) and word in names[-1], f"marked: {names}")
    page.type("zzz")
    wait_for("word of nothing", lambda: page.text("#matches") == f"No function has “{word.upper()}zzz” in its name.")
    assert not [box for box in page.boxes().values() if box["fill"] == "var(--found)"], "still marked"
    page.js("document.querySelector('#search').value = ''")
    page.type("\u0020")
    wait_for("no word", lambda: page.text("#matches") == "")
    # From the list of functions.
    page.js("document.querySelector('#functions button').click()")
    name = page.js("return document.querySelector('#functions th').textContent")
    equal(page.js("return [document.querySelector('#search').value, Number(graph.dataset.found)]"),
          [name, made.share_of(name)], "search from the list")


def rows_of(page):
    return {name: (own, total) for name, own, total in page.js(ROWS)}


def of_the_program(made, functions):
    """The FUNCTIONS that are of no library."""
    libraries = {frame[0] for frame in made.frames if library_of(frame) is not None} | {f"[{name}]" for name in LIBRARIES}
    return {name: sums for name, sums in functions.items() if name not in libraries}


def folded(page):
    """The graph is folded first. The sums of the program's functions are the same, folded or not."""
    made = with_libraries(generated(11, 80, 40, 24))
    page.form = "folded"
    for kind in ("cpu", "wait"):
        made = Made(made.frames, made.stacks, kind)
        fewer = made.folded()
        assert len(fewer.boxes()) < len(made.boxes()), "nothing is folded"
        assert {"[Lwt]", "[Eio]"} <= set(fewer.functions()), fewer.functions()
        page.open(made)
        check_boxes(page, fewer.boxes(), made.value())
        check_rows(page, fewer)
        before = rows_of(page)
        state = "return [fold.hidden, fold.getAttribute('aria-pressed'), folded.textContent]"
        hidden, pressed, text = page.js(state)
        equal((hidden, pressed), (False, "true"), "the button")
        assert "[Lwt]" in text and "[Eio]" in text and "shown once" in text, text
        own = next(name for name in of_the_program(made, made.functions()) if made.functions()[name][0])
        page.js("const e = document.querySelector('#search'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))", own)
        wait_for("what is found", lambda o=own: page.js("return Number(graph.dataset.found)") == made.share_of(o))
        page.js("document.querySelector('#fold').click()")
        page.settle()
        equal(page.js(state), [False, "false", ""], "the button, unfolded")
        check_boxes(page, made.boxes(), made.value())
        check_rows(page, made)
        equal(page.js("return Number(graph.dataset.found)"), made.share_of(own), "found in the whole graph")
        assert [box for box in page.boxes().values() if box["fill"] == "var(--found)"], "not marked"
        equal(of_the_program(made, before), of_the_program(made, rows_of(page)), "functions of the program")
        page.js("document.querySelector('#fold').click()")
        page.settle()
        check_boxes(page, fewer.boxes(), made.value())
        equal(rows_of(page), before, "functions, folded again")
    # Without libraries and repeats there is nothing to fold.
    page.open(Made(SMALL.frames, SMALL.stacks[:2]))
    equal(page.js(state), [True, "false", ""], "the button of a profile without libraries")
    page.form = "html"
    page.open(made)
    equal(page.js(state), [False, "false", ""], "the button with --unfold")
    check_boxes(page, made.boxes(), made.value())


def zoomed(page):
    page.open(SMALL)
    boxes, whole = SMALL.boxes(), SMALL.value()
    way = ("main", "Service.loop", "List.iter")

    def at(names):
        wanted = {n: v for n, v in boxes.items() if n[:len(names)] == names or names[:len(n)] == n}
        check_boxes(page, wanted, boxes[names])

    page.click(*way[:2])
    at(way[:2])
    assert "of all" in page.text("#details"), page.text("#details")
    page.click(*way)
    at(way)
    page.js("document.querySelector('#back').click()")
    page.settle()
    at(way[:2])
    page.js("document.querySelector('#back').click()")
    page.settle()
    check_boxes(page, boxes, whole)
    equal(page.js("return [back.disabled, reset.disabled]"), [True, True], "buttons")
    page.click(*way)
    page.js("document.querySelector('#reset').click()")
    page.settle()
    check_boxes(page, boxes, whole)
    page.click(*way)
    page.click("main")
    at(("main",))
    page.js("document.querySelector('#reset').click()")

    page.settle()
    rows = {names: box["y"] for names, box in page.boxes().items()}
    assert rows[()] < rows[("main",)] < rows[way], rows
    page.js("document.querySelector('#turn').click()")
    page.settle()
    check_boxes(page, boxes, whole)
    rows = {names: box["y"] for names, box in page.boxes().items()}
    assert rows[()] > rows[("main",)] > rows[way], rows


def keys(page):
    page.open(SMALL)
    page.focus("#graph")

    def chosen():
        return [names for names, box in page.boxes().items() if box["chosen"]]

    for key, names in (("ArrowDown", ()), ("ArrowDown", ("main",)), ("ArrowDown", ("main", "Service.loop")),
                       ("ArrowDown", ("main", "Service.loop", "Service.find")),
                       ("ArrowRight", ("main", "Service.loop", "List.iter")),
                       ("ArrowLeft", ("main", "Service.loop", "Service.find")),
                       ("ArrowUp", ("main", "Service.loop"))):
        page.press(key)
        equal(chosen(), [names], f"chosen after {key}")
        assert page.text("#details").startswith(names[-1] if names else "all"), page.text("#details")
    page.press("Enter")
    page.settle()
    assert ("main",) in page.boxes() and len(page.boxes()) < len(SMALL.boxes()), "not zoomed"
    equal(chosen(), [("main", "Service.loop")], "chosen in the zoomed graph")
    page.press("Backspace")
    page.settle()
    check_boxes(page, SMALL.boxes(), SMALL.value())
    page.press("Enter")
    page.settle()
    page.press("Escape")
    page.settle()
    check_boxes(page, SMALL.boxes(), SMALL.value())


def looks(page):
    """Nothing sticks out, all can be read, on a phone and a desk, by day and night."""
    page.open(SMALL)
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
            assert (behind > 0.5) == (scheme == "light"), f"background {behind} {where}"
            check_boxes(page, SMALL.boxes(), SMALL.value())
            page.screenshot(f"profile-{width}-{scheme}", width)
    page.js("const e = document.querySelector('#search'); e.value = 'find'; e.dispatchEvent(new Event('input'))")
    wait_for("what is found", lambda: page.text("#matches"))
    for scheme in ("light", "dark"):
        page.media(prefers_color_scheme=scheme)
        page.settle()
        equal(page.js(CONTRAST)[1], [], f"found texts that are hard to read, {scheme}")


def hostile(page):
    names = ["</script><b>", "<!--<script>", "<img src=x onerror=document.title='owned'>", "&lt;&amp;", "a\u2028b\u2029c",
             "\"quoted\\\"", "]]>", "{{x}}", "\u202eright to left", "tab\tand\x01control", "x" * 5000, "@data", "\n@data\n"]
    frames = [[name, "ocaml", name, 1, False] for name in names]
    made = Made(frames, [[10, 100 + i, i] for i in range(len(names))] + [[1, 10, *range(len(names))]],
                title="</title></script><b>\n@data\n")
    page.open(made)
    equal(set(page.boxes()), set(made.boxes()), "names in the graph")
    equal(set(page.js("return [...document.querySelectorAll('#functions th')].map((e) => e.textContent)")), set(names),
          "names in the list")
    equal(page.text("#title"), "</title></script><b>\n@data", "title")
    equal(page.js("return [document.querySelectorAll('b').length, document.images.length, document.scripts.length]"),
          [2, 0, 4], "elements")
    with open(page.path, encoding="utf-8") as file:
        data = file.read().split('id="data">')[1].split("</script>")[0]
    assert not set(data) & set("<>&\u2028\u2029"), "not escaped"
    for names_of_box in [tuple(names), ("</script><b>",)]:
        page.click(*names_of_box)
        assert page.text("#details").startswith(names_of_box[-1].strip()[:20]), page.text("#details")
        page.js("document.querySelector('#reset').click()")
        page.settle()
    equal(page.console(), [], "console")
    # Were there a script all the same, it would not run.
    equal(page.js("""const script = document.createElement("script");
                     script.textContent = "window.ran = true";
                     document.body.append(script);
                     return window.ran ?? false;"""), False, "a foreign script ran")
    said = page.console()
    assert len(said) == 1 and "Content Security Policy" in said[0], said


def many(page):
    made = generated(9, 10000, 3000, 64)
    seconds = page.open(made)
    equal(page.js("return Number(document.querySelector('#tiles div:nth-child(3)').dataset.value)"), 10000, "stacks")
    size = os.path.getsize(page.path)
    print(f"# 10 000 stacks, {sum(map(len, made.stacks))} frames: {size >> 10} KB, {seconds:.1f} s")
    drawn = int(page.js("return graph.dataset.drawn"))
    assert 100 < drawn < len(made.boxes()), f"{drawn} boxes"
    equal(page.text("#narrow"), f"{len(made.boxes()) - drawn:,} boxes are too narrow to be drawn: zoom in to see more.",
          "what is not drawn")
    started = time.monotonic()
    page.js("const e = document.querySelector('#search'); e.value = 'function_1'; e.dispatchEvent(new Event('input'))")
    wait_for("what is found", lambda: page.text("#matches"))
    print(f"# found after {time.monotonic() - started:.1f} s")
    equal(int(page.js("return graph.dataset.found")), made.share_of("function_1"), "time found")
    # All of them at one time.
    page.js("const e = document.querySelector('#search'); e.value = '_'; e.dispatchEvent(new Event('input'))")
    wait_for("all", lambda: "in 100.0" in page.text("#matches"))
    page.screenshot("profile-many", 1280)


def main():
    driver, name = sys.argv[1:]
    # But for zooming, nothing moves.
    page = ProfilePage(driver, *([] if name == "zoomed" else ["--force-prefers-reduced-motion"]))
    for test in {"used": (shown, searched, keys, folded, looks, hostile), "zoomed": (zoomed,), "many": (many,)}[name]:
        test(page)
    page.end()


main()
