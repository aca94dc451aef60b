"""The graphs of the page: what is painted and written there, as web_page.py asks."""

import re

from web_lib import equal, wait_for


def painted(page, chart, colour):
    """How many pixels of a graph have about the colour that the style sheet calls COLOUR."""
    return page.js("""
        const canvas = document.querySelector(arguments[0] + " canvas");
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [canvas.width, canvas.height];
        const context = copy.getContext("2d", { willReadFrequently: true });
        context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(arguments[1]);
        context.fillRect(0, 0, 1, 1);
        const want = context.getImageData(0, 0, 1, 1).data;
        context.clearRect(0, 0, 1, 1);
        context.drawImage(canvas, 0, 0);
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 0; i < data.length; i += 4)
            n += data[i + 3] > 40 && [0, 1, 2].every((c) => Math.abs(data[i + c] - want[c]) < 24);
        return n;""", chart, colour)


# Writes down the labels that are drawn into the graphs, from its first call on.
LABELS = """
if (!window.labels) {
    window.labels = [];
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        labels.push(this.canvas.closest(".chart").id + " " + text);
        return fill.call(this, text, ...rest);
    };
}
return labels.splice(0);
"""


def labels_of(page, chart):
    page.js(LABELS)
    page.next_update()
    return {label.split(" ", 1)[1] for label in page.js(LABELS) if label.startswith(chart + " ")}


def axis_of_powers(page):
    """1, 10, 100: of rates if that is chosen, of durations always."""
    labels = labels_of(page, "rates-chart")
    assert {"0", "1", "10", "100"} <= labels and labels - {"now"} <= \
        {"0", "1", "10", "100", "1K", "10K", "100K", "60 s ago", "45 s ago", "30 s ago", "15 s ago"}, labels
    durations = {label.replace("\u00a0", " ") for label in labels_of(page, "heat-chart")}
    powers = [label for label in durations if re.fullmatch(r"10{0,2} [nµm]?s", label)]
    assert len(powers) >= 3, durations
    equal([label for label in durations if re.search(r"s$", label) and not re.fullmatch(r"10{0,2} [nµm]?s", label)], [],
          "durations that are no powers of ten")


def table_of_rates(page):
    """The graph as text: the newest row is the legend."""
    page.js("document.querySelector('#rates-table').open = true")
    page.wait("rows", "return document.querySelectorAll('#rates-table tbody tr').length > 1")
    wait_for("the legend in the table", lambda: page.js("""
        const texts = (selector) => [...document.querySelectorAll(selector)].map((e) => e.textContent);
        const [, ...titles] = texts("#rates-table th"), [time, ...rates] = texts("#rates-table tbody tr:first-child td");
        return titles.join() === texts("#rates-legend span").join() && rates.join() === texts("#rates-legend b").join() &&
            /^\\d\\d:\\d\\d:\\d\\d$/.test(time);"""))
    equal(page.axe()[1], [], "what axe finds with the table")
    page.js("document.querySelector('#rates-table').open = false")


def quarter_of_an_hour(page):
    """15 minutes beside the one: what the server has in columns of 15 seconds."""
    page.focus("[data-span=quarter]")
    page.press("Enter")
    equal(page.js("return [...document.querySelectorAll('[data-span]')].map((e) => e.ariaPressed)"), ["false", "true"], "buttons")
    equal(page.text("#rates-title"), "Hits/s, last 15 minutes", "title")
    equal(page.text("#pairs-title"), "Durations of pairs, last 15 minutes", "title")
    wait_for("a column", lambda: page.serve.get("/api/v1/history/15m")["targets"][0]["pairs"][0]["columns"])
    page.wait("the last 15 minutes", "return document.querySelectorAll('#rates-legend li').length === 6")
    assert "15 min ago" in labels_of(page, "rates-chart"), "the axis"
    history = page.serve.get("/api/v1/history/15m")
    target = history["targets"][0]
    equal(history["interval"], 15, "interval")
    rates = {probe["probe"]: probe["rates"][-1] for probe in target["probes"]}

    def shown():
        return page.js("return Object.fromEntries([...document.querySelectorAll('#rates-legend li')].map((item) => "
                       "[item.querySelector('span').textContent.replace(/ → .*/, ''), item.querySelector('b').textContent]))")

    def as_shown(rate):
        return f"{rate:,.1f}" if 0 < rate < 99.95 else f"{rate:,.0f}"

    page.js("document.querySelector('#distribution').open = true")
    wait_for("the newest rates", lambda: shown() == {name: as_shown(rates[name]) for name in rates if name != "request_done"}
             or (rates.update({p["probe"]: p["rates"][-1] for p in page.serve.get("/api/v1/history/15m")["targets"][0]["probes"]})))
    assert "in the last" not in page.text("#pair-words"), page.text("#pair-words")
    page.focus("[data-span=minute]")
    page.press("Enter")
    equal(page.text("#rates-title"), "Hits/s, last minute", "title")
