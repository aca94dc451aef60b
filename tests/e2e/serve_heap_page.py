#!/usr/bin/python3
"""serve_heap_page.py EXE EXE-OF-KINDS: live words by site on the page of `serve`; serve_heap.sh calls it."""

import json
import re
import sys
import urllib.request

from web_lib import CONTRAST, OUTSIDE, Page, Serve, equal, wait_for

SITES = """
const number = (cell) => Number(cell.dataset.value);
return [...document.querySelectorAll("#heap tbody tr")].map(({ cells: [name, share, live, allocated] }) =>
    [name.textContent, number(live), number(allocated), share.textContent]);
"""


def is_hidden(page):
    return page.js("return !document.querySelector('#heap').checkVisibility()")


def check_api(serve, sites):
    """The page shows what the API says, or said a moment ago."""
    asked = urllib.request.Request(serve.origin + "/api/v1/heap", headers={"Authorization": f"Bearer {serve.token}"})
    with urllib.request.urlopen(asked, timeout=300) as answer:
        heap = json.load(answer)
    names = [f"{s['function']}  {s['file']}:{s['line']}" + (f"  via {s['via']}" if s["via"] else "") for s in heap["sites"]]
    equal(sorted(names), sorted(s[0] for s in sites), "sites")
    assert heap["allocated_words"] >= sum(allocated for _, _, allocated, _ in sites), heap


def check_own_code(exe):
    """Beside a site in the program's own code stands the function that allocates."""
    page = Page(Serve("--memprof=0.001", "--exe", exe))
    wait_for("a site with via", lambda: any(
        re.fullmatch(r"Subject\.reversed  subject\.ml:\d+  via List\.rev_append", name) for name, _, _, _ in page.js(SITES)))
    for width in (1280, 375):
        page.size(width)
        page.next_update()
        equal(page.js(OUTSIDE), [], f"what sticks out at {width} px")
        page.screenshot(f"serve-heap-via-{width}", width)
    page.close()
    page.serve.stop()


def main():
    exe, exe_of_kinds = sys.argv[1:]
    page = Page(Serve("--control", "--exe", exe))
    page.next_update()
    assert is_hidden(page), "the panel is there without --memprof"
    page.close()
    page.serve.stop()
    page = Page(Serve("--memprof=0.5", "--exe", exe), flags=["--force-prefers-reduced-motion"])
    sites = wait_for("three sites", lambda: (lambda rows: rows if len(rows) == 3 else None)(page.js(SITES)))
    assert sites[0][0].startswith("Subject.most  subject.ml:"), sites
    assert [s[1] for s in sites] == sorted((s[1] for s in sites), reverse=True), sites
    check_api(page.serve, sites)
    before = sites[0][2]
    wait_for("new numbers", lambda: page.js(SITES)[0][2] > before)
    assert "Older blocks are not included." in page.text("#heap-state"), page.text("#heap-state")
    equal(page.text("#heap-problem"), "", "problem")
    for width, scheme in ((1280, "light"), (375, "dark")):
        page.size(width)
        page.media(prefers_color_scheme=scheme)
        page.next_update()
        equal(page.js(OUTSIDE), [], f"what sticks out at {width} px")
        equal(page.js(CONTRAST)[1], [], f"texts that are hard to read at {width} px, {scheme}")
        page.screenshot(f"serve-heap-{width}-{scheme}", width)
    page.check_requests()
    equal(page.console(), [], "console")
    page.js("sessionStorage.removeItem('token')")
    wait_for("words", lambda: "with the token" in page.text("#heap-problem"))
    page.close()
    page.serve.stop()
    check_own_code(exe_of_kinds)


main()
