#!/usr/bin/python3
"""serve_profile_page.py EXE PID FAULTS: profiles on the page of `serve`, whose samples are taken at page faults by the library
FAULTS; serve_profile.sh calls it."""

import glob
import os
import sys
import time

from web_lib import CONTRAST, OUTSIDE, Page, Serve, equal, wait_for

BOXES = """
return [...document.querySelectorAll("#flame-graph g.frame")].map((g) => {
    const box = g.querySelector("rect").getBoundingClientRect();
    return { name: g.__data__.data.name, x: box.x, y: box.y, width: box.width,
             fill: g.querySelector("rect").getAttribute("fill") };
});
"""


def is_hidden(page, selector):
    return page.js("return !document.querySelector(arguments[0]).checkVisibility()", selector)


def box(page, name):
    found = [b for b in page.js(BOXES) if b["name"] == name]
    assert found, f"no box of {name}"
    return max(found, key=lambda b: b["width"])


def settle(page):
    page.wait("rest", "return [...document.querySelectorAll('#flame-graph svg *')].every((e) => !e.__transition) &&"
              "Number(document.querySelector('#flame-graph svg').getAttribute('width')) ==="
              "document.querySelector('#flame-graph').clientWidth")


def without_profiles(exe):
    page = Page(Serve("--control", "--exe", exe))
    page.next_update()
    assert is_hidden(page, "#profile") and not is_hidden(page, "#target"), "the panel is there without --profile"
    equal(page.console(), [], "console")
    page.close()
    page.serve.stop()


def errors(page):
    """What fails is said in words."""
    page.js("document.querySelector('#profile-cpu').click()")
    wait_for("a profile that is taken", lambda: page.js("return document.querySelector('#profile-progress').value > 0.5"))
    equal(page.js("return ['cpu', 'alloc'].map((k) => document.querySelector(`#profile-${k}`).disabled)"), [True, True],
          "buttons")
    assert "10 seconds" in page.text("#profile-state"), page.text("#profile-state")
    page.js("document.querySelector('#profile-cancel').click()")
    wait_for("the end", lambda: page.text("#profile-failure") == "The profile was cancelled.")
    assert is_hidden(page, "#profile-progress") and is_hidden(page, "#profile-cancel"), "progress"
    token = page.js("const t = sessionStorage.token; sessionStorage.token = 'x'; return t")
    page.js("document.querySelector('#profile-alloc').click()")
    wait_for("a refusal", lambda: "missing or wrong token" in page.text("#profile-failure"))
    wait_for("a hint", lambda: "with the token" in page.text("#profile-why"))
    assert is_hidden(page, "#profile-cpu"), "the button is there without a token"
    page.js("sessionStorage.token = arguments[0]", token)
    wait_for("the button", lambda: not is_hidden(page, "#profile-cpu"))
    # The browser says this, too.
    said = page.console()
    assert all("401" in line for line in said), said


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def is_sampling(server):
    """The profiling process has links for samples, and waits for more to do (system call 7, poll)."""
    for child in read(f"/proc/{server}/task/{server}/children").split():
        if read(f"/proc/{child}/comm") == "probes-profiler\n":
            return ("link_type:\tperf" in "".join(map(read, glob.glob(f"/proc/{child}/fdinfo/*")))
                    and read(f"/proc/{child}/syscall").startswith("7 "))
    return False


def shown(page, exe, pid):
    """A profile of ten seconds, in which the program touches 2000 pages, and a few others: its numbers, search and zoom."""
    page.js("document.querySelector('#profile-cpu').click()")
    wait_for("samples", lambda: is_sampling(page.serve.process.pid))
    with open(f"/proc/{pid}/fd/0", "w") as pipe:
        pipe.write("run 2\n")
    wait_for("the profile", lambda: not is_hidden(page, "#flame"))
    settle(page)
    equal(page.text("#flame-title"), f"CPU time of {exe}", "title")
    equal(page.text("#profile-failure"), "", "failure")
    whole = box(page, "all")["width"]
    share = box(page, "Profiled.seventy")["width"] / box(page, "Profiled.run")["width"]
    assert abs(share - 0.7) < 0.01, f"the box of seventy is {share} of run"
    page.focus("#flame-search")
    page.type("SEVENTY")
    wait_for("what is found", lambda: page.text("#flame-matches").startswith("1 function found: in "))
    settle(page)
    for b in page.js(BOXES):
        equal(b["fill"] == "var(--found)", "seventy" in b["name"], f"marked: {b['name']}")
    # With the mouse.
    page.js("document.querySelector('#flame-graph').scrollIntoView({ block: 'center' })")
    b = box(page, "Profiled.seventy")
    for event in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.cdp("Input.dispatchMouseEvent", type=event, x=b["x"] + b["width"] / 2, y=b["y"] + 8, button="left",
                 clickCount=1)
    settle(page)
    assert abs(box(page, "Profiled.seventy")["width"] - whole) < 2, "not zoomed"
    assert not [b for b in page.js(BOXES) if b["name"] == "Profiled.twenty"], "others are shown"
    assert page.text("#flame-details").startswith("Profiled.seventy"), page.text("#flame-details")
    page.js("document.querySelector('#flame-reset').click()")
    settle(page)
    assert abs(box(page, "Profiled.seventy")["width"] - b["width"]) < 2, "not zoomed back"


def looks(page):
    for width, scheme in ((1280, "light"), (1280, "dark"), (375, "light"), (375, "dark")):
        page.size(width)
        page.media(prefers_color_scheme=scheme)
        page.next_update()
        settle(page)
        where = f"at {width} px, {scheme}"
        room, needed = page.js("const e = document.documentElement; return [e.clientWidth, e.scrollWidth]")
        assert needed <= room, f"the page is {needed} px wide {where}"
        equal(page.js(OUTSIDE), [], f"what sticks out {where}")
        looked, bad, behind = page.js(CONTRAST)
        assert looked > 60, f"only {looked} texts {where}"
        equal(bad, [], f"texts that are hard to read {where}")
        assert (behind > 0.5) == (scheme == "light"), f"background {behind} {where}"
        page.screenshot(f"serve-profile-{width}-{scheme}", width)


def main():
    exe, pid, faults = sys.argv[1:]
    without_profiles(exe)
    os.environ["LD_PRELOAD"] = faults
    serve = Serve("--profile", "--exe", exe)
    del os.environ["LD_PRELOAD"]
    page = Page(serve, flags=["--force-prefers-reduced-motion"])
    errors(page)
    shown(page, exe, pid)
    looks(page)
    page.check_requests()
    equal(page.console(), [], "console")
    # The server goes away.
    page.js("document.querySelector('#profile-alloc').click()")
    time.sleep(0.5)
    page.serve.stop()
    wait_for("words", lambda: page.text("#profile-failure") == f"There is no profile of {exe}: the server did not answer.")
    page.close()


main()
