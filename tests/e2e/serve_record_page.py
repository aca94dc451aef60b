#!/usr/bin/python3
"""serve_record_page.py EXE PIPE OUTPUT FOLDER: the recordings on the page of `serve`; serve_record.sh calls it. A line for PIPE lets
the program pass probes, and say so in OUTPUT."""

import os
import sys

from web_lib import CONTRAST, OUTSIDE, Page, Serve, equal, wait_for

ROWS = "return [...document.querySelectorAll('#recordings tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))"


def is_hidden(page, selector):
    return page.js("return !document.querySelector(arguments[0]).checkVisibility()", selector)


def focus_by_tab(page, label):
    """Press Tab until the button with this label has the focus."""
    page.js("document.querySelector('#recordings-title').tabIndex = -1; document.querySelector('#recordings-title').focus()")
    for _ in range(50):
        page.press("Tab")
        if page.js("return document.activeElement.getAttribute('aria-label')") == label:
            return
    raise AssertionError(f"Tab does not reach {label}")


def record(page):
    focus_by_tab(page, "Record reborn now")
    before = len(page.js(ROWS))
    page.press("Enter")
    wait_for("an answer", lambda: page.text("#recordings-result") or page.text("#recordings-failure"))
    equal(page.text("#recordings-failure"), "", "failure")
    wait_for("a row", lambda: len(page.js(ROWS)) == before + 1)
    # The focus stays where it was.
    equal(page.js("return document.activeElement.textContent"), "Record reborn now", "focus")


def open_newest(page):
    """The page of the recording, in a window of its own: it works, and it is no page of this server."""
    name = page.js(ROWS)[0][0]
    focus_by_tab(page, f"Open {name}")
    own = page.driver.current_window_handle
    page.press("Enter")
    wait_for("a window", lambda: len(page.driver.window_handles) == 2)
    page.driver.switch_to.window(next(h for h in page.driver.window_handles if h != own))
    wait_for("the timeline", lambda: page.js("return document.querySelector('#tiles')?.textContent.includes('events')"
                                            " || document.querySelectorAll('#tiles dd').length > 1"))
    page.focus("#search")
    page.type("worked")
    wait_for("what is found", lambda: page.js("return document.querySelector('#timeline').dataset.found") == "3")
    equal(page.js("return origin"), "null", "the page's origin")
    equal(page.js("try { return sessionStorage.token } catch (e) { return e.name }"), "SecurityError", "the token")
    # The address has opened it once.
    page.driver.get(page.driver.current_url)
    wait_for("a refusal", lambda: "this address was used already" in page.js("return document.body.textContent"))
    page.driver.close()
    page.driver.switch_to.window(own)


def download_newest(page, folder):
    name = page.js(ROWS)[0][0]
    page.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=os.environ["TMP"] + "/downloads")
    focus_by_tab(page, f"Download {name}")
    page.press(" ")
    path = f"{os.environ['TMP']}/downloads/{name}.pftrace"
    wait_for("the file", lambda: os.path.exists(path))
    with open(path, "rb") as got, open(f"{folder}/{name}.pftrace", "rb") as there:
        equal(got.read(), there.read(), "the file")


def main():
    exe, pipe, output, folder = sys.argv[1:]
    page = Page(Serve("--control", "--exe", exe))
    page.next_update()
    assert is_hidden(page, "#recordings"), "the section is there without --record"
    page.close()
    page.serve.stop()
    page = Page(Serve("--exe", exe, "--record", folder))
    wait_for("the words", lambda: page.text("#recordings-state") == "Nothing was recorded so far.")
    assert is_hidden(page, "#recordings table"), "an empty table is shown"
    # The recorder is ready when it has answered.
    wait_for("the recorder", lambda: page.js("document.querySelector('#recordings-buttons button').click()") or
             "written" in wait_for("an answer", lambda: page.text("#recordings-result") or page.text("#recordings-failure")))
    with open(pipe, "w", encoding="utf-8") as to:
        to.write("go 3\n")
    with open(output, encoding="utf-8") as said:
        wait_for("the hits", lambda: "passed 3" in said.read())
    record(page)
    assert all(" now" not in cell for row in page.js(ROWS) for cell in row)
    open_newest(page)
    download_newest(page, folder)
    for width, scheme in ((1280, "light"), (375, "dark")):
        page.size(width)
        page.media(prefers_color_scheme=scheme)
        page.next_update()
        equal(page.js(OUTSIDE), [], f"what sticks out at {width} px")
        equal(page.js(CONTRAST)[1], [], f"texts that are hard to read at {width} px, {scheme}")
        passes, found = page.axe()
        assert passes > 20, passes
        equal(found, [], f"what axe finds at {width} px")
        page.screenshot(f"serve-record-{width}-{scheme}", width)
    equal([line for line in page.console() if "403" not in line], [], "console")
    page.js("sessionStorage.removeItem('token')")
    wait_for("words", lambda: "with the token" in page.text("#recordings-problem"))
    assert is_hidden(page, "#recordings-buttons") and is_hidden(page, "#recordings table"), "buttons without the token"
    page.close()
    page.serve.stop()


main()
