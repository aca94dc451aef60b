"""What web_page.py needs: `ocaml-probes serve`, a browser, and the page in it.

The browser is Debian's Chromium without a window, steered by its own driver. (Its headless shell takes a fifth of the
CPU time that the whole browser takes to start.) It reports every request and every message to its console, and both are
looked at when a test ends."""

import json
import os
import re
import subprocess
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

TMP = os.environ["TMP"]
TOOL = os.environ["TOOL"]
AXE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vendor/axe-core/axe.min.js")


def wait_for(what, condition, seconds=150):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for: {what}")
        time.sleep(0.05)


def equal(actual, expected, what):
    assert actual == expected, f"{what}: {actual!r}, not {expected!r}"


class Serve:
    """A server of its own, which ends with the test."""

    def __init__(self, *flags, port=0):
        self.log = open(os.path.join(TMP, "serve.err"), "w+b")
        self.process = subprocess.Popen(
            [TOOL, "serve", "--listen", f"127.0.0.1:{port}", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)
        address = wait_for("the server's address", self.address)
        self.port, self.token = int(address[1]), address[2]
        self.origin = f"http://127.0.0.1:{self.port}"

    def said(self):
        with open(self.log.name) as log:
            return log.read()

    def address(self):
        assert self.process.poll() is None, f"serve ended: {self.said()}"
        return re.search(r"http://127\.0\.0\.1:(\d+)/(?:#token=([^\s#]+))?\s", self.said())

    def url(self):
        return f"{self.origin}/" + (f"#token={self.token}" if self.token else "")

    def get(self, path):
        new = urllib.request.Request(self.origin + path, headers={"Cache-Control": "no-cache"})
        with urllib.request.urlopen(new, timeout=300) as answer:
            return json.load(answer)

    def target(self, number=0):
        return self.get("/api/v1/status")["targets"][number]

    def probe(self, name):
        return next(p for p in self.target()["probes"] if p["probe"] == name)

    def stop(self):
        self.process.kill()
        self.process.wait()


# Keeps the last status that the page got, to hold what it shows against; and lets those wait that come
# while there is a promise in `held`.
SPY = """
const realFetch = window.fetch;
window.fetch = async (path, ...rest) => {
	const response = await realFetch(path, ...rest);
	if (String(path).endsWith("api/v1/status")) {
		window.isWaiting = true;
		await window.held;
		window.isWaiting = false;
		const realText = response.text.bind(response);
		response.text = async () => (window.lastStatus = await realText());
	}
	return response;
};
"""

ROWS = """
const number = (cell) => cell.dataset.value === "" ? null : Number(cell.dataset.value);
return [...document.querySelectorAll("table.probes tbody tr")].map((row) => ({
	probe: row.querySelector("th").textContent,
	rate: number(row.querySelector(".rate")),
	hits: number(row.querySelector(".hits")),
	sites: number(row.querySelector(".sites")),
	handler: row.querySelector(".handler .state").dataset.value,
	counted: row.querySelector(".counter .state").dataset.value === "true",
}));
"""

# Texts whose contrast with what is behind them is too low.
CONTRAST = """
const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const parts = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let looked = 0;
while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility() || e.closest("noscript, script, .skip"))
        continue;
    let behind = e;
    while (behind && parts(getComputedStyle(behind).backgroundColor)[3] === 0)
        behind = behind.parentElement;
    const a = luminance(parts(getComputedStyle(e).color));
    const box = e.closest("g")?.querySelector("rect");
    const b = luminance(parts(box ? getComputedStyle(box).fill : getComputedStyle(behind).backgroundColor));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    looked++;
    if (ratio < 4.5)
        bad.push(`${walker.currentNode.data.trim()}: ${ratio.toFixed(2)}`);
}
return [looked, bad, luminance(parts(getComputedStyle(document.body).backgroundColor))];
"""

# What sticks out of the window, and is not in something that scrolls by itself.
OUTSIDE = """
return [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() &&
    !e.closest(".scroll, .uplot, svg, .skip, thead") && e.getBoundingClientRect().right > innerWidth + 0.5)
    .map((e) => e.outerHTML.slice(0, 80));
"""

# Numbers that are not on one line.
BROKEN = """
return [...document.querySelectorAll("td.number, .tiles dd, .legend b, .pager span, .search span, .losses dd:not(.remedy)")]
    .filter((e) => e.checkVisibility() && e.textContent).filter((e) => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return new Set([...range.getClientRects()].map((box) => Math.round(box.top / 4))).size > 1;
    }).map((e) => e.textContent);
"""


class Page:
    def __init__(self, serve, url=None, state="connected", flags=()):
        self.serve = serve
        options = Options()
        # Not the script in /usr/bin: the driver would end that alone.
        options.binary_location = "/usr/lib/chromium/chromium-headless-shell"
        # Not with --user-data-dir: the browser would start without a page. The driver makes a folder in TMPDIR.
        for flag in ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", *flags):
            options.add_argument(flag)
        # With this switch of the driver the browser writes a log beside its program.
        options.add_experimental_option("excludeSwitches", ["enable-logging"])
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service("/usr/bin/chromedriver", env={**os.environ, "TMPDIR": TMP})
        self.driver = webdriver.Chrome(service=service, options=options)
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source=SPY)
        self.size(1280)
        self.driver.get(url or serve.url())
        self.wait(state, f"return document.body.dataset.state === '{state}'")

    def cdp(self, command, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, what, script, seconds=150):
        return wait_for(what, lambda: self.js(script), seconds)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.textContent.trim()", selector)

    def value(self, selector):
        """The number as it came from the server."""
        return float(self.js("return document.querySelector(arguments[0]).dataset.value", selector))

    def rows(self):
        return self.js(ROWS)

    def row(self, name):
        return next((row for row in self.rows() if row["probe"] == name), None)

    def updates(self):
        return int(self.js("return main.dataset.updates ?? 0"))

    def next_update(self):
        before = self.updates()
        wait_for("an update", lambda: self.updates() > before)

    def shown_and_status(self, what=ROWS):
        """What the script WHAT returns (the rows), and the status that it was made of, of one moment."""
        def take():
            update, rows, status = self.js(
                f"return [main.dataset.updates, (() => {{ {what} }})(), JSON.parse(lastStatus)]")
            # Not if a newer status had come and was not shown yet.
            again = self.js("return [main.dataset.updates, JSON.parse(lastStatus).time]")
            return again == [update, status["time"]] and (rows, status)
        return wait_for("a quiet moment", take)

    def size(self, width, height=900):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)

    def media(self, **features):
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": name.replace("_", "-"), "value": value}
                           for name, value in features.items()])

    def axe(self):
        """What axe-core finds: each rule with the elements."""
        if not self.js("return 'axe' in window"):
            with open(AXE, encoding="utf-8") as source:
                self.js(source.read())
        return self.driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            axe.run(document, { iframes: false }).then(({ passes, violations, incomplete }) => done([passes.length,
                [...violations, ...incomplete.filter((rule) => rule.id !== "color-contrast")].map((rule) =>
                    `${rule.id}: ${rule.nodes.map((node) => node.target.join(" ") + " " + node.failureSummary).join("; ")}`)]));""")

    def screenshot(self, name, width):
        height = self.js("return document.documentElement.scrollHeight")
        self.size(width, min(height, 4000))
        time.sleep(0.3)
        self.driver.save_screenshot(os.path.join(TMP, name + ".png"))
        self.size(width)

    def press(self, key, code=None, modifiers=0):
        """A key, as from a keyboard: the browser itself decides what has the focus."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27, "Backspace": 8}
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        common = dict(key=key, code=code or {" ": "Space"}.get(key, key), modifiers=modifiers,
                      windowsVirtualKeyCode=codes.get(key, ord(key.upper()[0]) if key.isalnum() else 0))
        self.cdp("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.cdp("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        for character in text:
            self.press(character)

    def focus(self, selector):
        assert self.js("const e = document.querySelector(arguments[0]); e?.focus();"
                       "return e !== null && document.activeElement === e", selector), f"{selector} takes no focus"

    def console(self):
        """What the browser complained of, since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def check_requests(self):
        """Every request went to the server."""
        urls = self.requests()
        assert len(urls) > 10, f"only {len(urls)} requests were seen"
        outside = [url for url in urls if not url.startswith((self.serve.origin + "/", "data:"))]
        equal(outside, [], "requests to elsewhere")

    def close(self):
        self.driver.quit()
