"""Checks of what is in tools/dashboards.

    check_dashboards.py schema GRAFANA           the dashboard is one that Grafana can show
    check_dashboards.py names SCRAPE FILE...     dashboards (.json) and rules (.yml) use metrics and
                                                 labels that SCRAPE, in the text format, has
    check_dashboards.py live URL GRAFANA         a Prometheus that scrapes us evaluates every
                                                 expression, and finds the labels of its legend

Expressions are read by a tokenizer: metrics, matchers, and lists of labels behind by, on and so on.
Prints what is wrong, a line each; status 1 if there is anything. `names` ends with a line of figures.
"""

import json
import re
import sys
import urllib.parse
import urllib.request

TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:ms|[smhdwy])?|\.\d+)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<op>=~|!~|!=|==|<=|>=|[-+*/%^<>={}()\[\],:@])""",
    re.X,
)
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = LISTS | {"and", "or", "unless", "bool", "offset", "start", "end", "inf", "nan"}
FUNCTIONS = set(
    """sum min max avg count topk bottomk quantile stddev stdvar group count_values rate irate increase delta
    absent absent_over_time histogram_quantile vector scalar time max_over_time min_over_time avg_over_time
    sum_over_time changes resets label_replace label_join clamp_max clamp_min abs round""".split()
)
# What Prometheus adds to every series that it scrapes, and the series that it makes itself.
TARGET_LABELS = {"job", "instance"}
PROMETHEUS_METRICS = {"up": set()}
# Of a program in a container, beside `exe` (containers_have_labels in tests/unit/test_metrics.c).
CONTAINER_LABELS = {"pod_uid", "container_id"}

problems = []


def problem(where, text):
    problems.append(f"{where}: {text}")


def tokens_of(expr):
    at, tokens = 0, []
    while at < len(expr):
        m = TOKEN.match(expr, at)
        if not m:
            raise ValueError(f"what is {expr[at:at + 20]!r}")
        at = m.end()
        if m.lastgroup:
            tokens.append((m.lastgroup, m.group()))
    return tokens


# The label that label_replace makes, and the one that it reads.
REPLACED = re.compile(r',\s*"(\w+)",\s*"[^"]*",\s*"(\w+)",\s*"[^"]*"\s*\)')


class Uses:
    """What an expression uses: metrics with the labels of their matchers; labels by which it groups,
    with the metrics concerned."""

    def __init__(self, expr):
        self.metrics, self.lists, self.is_grouped = [], [], False
        self.replaced = REPLACED.findall(expr)
        self.tokens, self.at = tokens_of(expr), 0
        while self.at < len(self.tokens):
            self.step()

    def peek(self, ahead=0):
        i = self.at + ahead
        return self.tokens[i][1] if i < len(self.tokens) else None

    def names_until(self, end):
        names = []
        while self.peek() != end:
            if self.peek() is None:
                raise ValueError(f"no {end}")
            names.append(self.tokens[self.at])
            self.at += 1
        self.at += 1
        return names

    def matchers(self):
        """Behind the opening brace: the labels, and the name where it is among them."""
        tokens = self.names_until("}")
        labels = []
        for i in range(0, len(tokens), 4):
            kinds = [kind for kind, _ in tokens[i:i + 3]]
            if kinds != ["name", "op", "string"] or (tokens[i + 3:i + 4] or [("op", ",")])[0][1] != ",":
                raise ValueError("matchers not understood")
            labels.append(tokens[i][1])
        return labels

    def step(self):
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind != "name":
            if text == "[":
                self.names_until("]")
            elif text == "{":
                raise ValueError("a selector without a metric")
        elif text in LISTS:
            if self.peek() == "(":
                self.at += 1
                labels = [t for _, t in self.names_until(")") if t != ","]
                self.lists.append((text, labels, len(self.metrics)))
                self.is_grouped |= text == "by" and not self.metrics
        elif text in WORDS:
            pass
        elif self.peek() == "(" or self.peek() in ("by", "without"):
            if text not in FUNCTIONS:
                raise ValueError(f"no function {text}")
        else:
            labels = []
            if self.peek() == "{":
                self.at += 1
                labels = self.matchers()
            self.metrics.append((text, labels))

    def grouping(self):
        """Pairs (label, metrics that are concerned): of by, the next one; of on, those on both sides."""
        for word, labels, n_before in self.lists:
            metrics = [m for m, _ in self.metrics]
            concerned = metrics[n_before:n_before + 1]
            if word != "by" and n_before:
                concerned.append(metrics[0])
            for label in labels:
                yield label, concerned


def substitute(expr):
    """Grafana's variables, as it would for "All"; a variable of one value matches all, too."""
    expr = re.sub(r"\$__(rate_interval|interval|range)\b", "1m", expr)
    return re.sub(r'=~?"\$\{?[a-z]+\}?"', '=~".*"', expr)


def panels_of(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def dashboard_expressions(dashboard):
    """(where, expression, labels that its legend shows)"""
    for panel in panels_of(dashboard):
        for target in panel.get("targets", []):
            legend = re.findall(r"\{\{\s*(\w+)\s*\}\}", target.get("legendFormat", ""))
            yield f"panel {panel['title']!r}", substitute(target["expr"]), legend
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            m = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            if m:
                yield f"variable {variable['name']}", substitute(m[1]), [m[2]]
            else:
                problem(variable["name"], "its query is not label_values(selector, label)")


def rule_expressions(text):
    """(where, expression, labels in annotations) of the rules in a file that is written as ours is."""
    for block in re.split(r"\n      - alert: ", text)[1:]:
        name = block.split("\n", 1)[0]
        one = re.search(r"\n        expr: (?!\|)(.*)\n", block)
        more = re.search(r"\n        expr: \|\n((?:          .*\n)+)", block)
        if not one and not more:
            problem(name, "no expr")
            continue
        for key in ("for", "severity", "summary", "description"):
            if not re.search(rf"\n +{key}: *\S", block):
                problem(name, f"no {key}")
        yield name, (one or more)[1], re.findall(r"\$labels\.(\w+)", block)


def served_by(scrape):
    """Labels by metric."""
    served = {}
    for line in scrape.splitlines():
        if line and not line.startswith("#"):
            name = re.match(r"[A-Za-z_:][A-Za-z0-9_:]*", line)[0]
            served.setdefault(name, set()).update(re.findall(r'[{,]([A-Za-z_]\w*)="', line))
    return served


def check_names(scrape_path, paths):
    with open(scrape_path, encoding="utf-8") as f:
        served = {**served_by(f.read()), **PROMETHEUS_METRICS}
    n, used = 0, set()
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        found = dashboard_expressions(json.loads(text)) if path.endswith(".json") else rule_expressions(text)
        for where, expr, shown in found:
            n += 1
            try:
                uses = Uses(expr)
            except ValueError as error:
                problem(where, f"{error} in {expr}")
                continue
            used |= {metric for metric, _ in uses.metrics}
            check_uses(where, uses, shown, served)
    for metric in sorted(set(served) - used - PROMETHEUS_METRICS.keys()):
        problem(metric, "is served, and used nowhere")
    print(f"{n} expressions use {len(used & set(served))} metrics")


def check_uses(where, uses, shown, served):
    def known(metric):
        labels = served.get(metric, set())
        return labels | TARGET_LABELS | (CONTAINER_LABELS if "exe" in labels else set())

    if not uses.metrics:
        problem(where, "uses no metric")
    for metric, labels in uses.metrics:
        if metric not in served:
            problem(where, f"no metric {metric}")
        for label in labels:
            if label not in known(metric):
                problem(where, f"{metric} has no label {label}")
    for label, concerned in uses.grouping():
        for metric in concerned:
            if label not in known(metric):
                problem(where, f"{metric} has no label {label} to group by")
    by = {label for word, labels, _ in uses.lists if word == "by" for label in labels}
    there = by if uses.is_grouped else set(known(uses.metrics[0][0]))
    for made, source in uses.replaced:
        if source not in there:
            problem(where, f"makes {made} of {source}, which its series do not have")
    for label in shown:
        if label not in there | {made for made, _ in uses.replaced}:
            problem(where, f"shows {label}, which its series do not have")


def overlaps(a, b):
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


def check_schema(path):
    with open(path, encoding="utf-8") as f:
        dashboard = json.load(f)
    panels = list(panels_of(dashboard))
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        problem(path, "panel ids are not unique")
    for key in ("title", "uid", "schemaVersion", "time", "templating"):
        if not dashboard.get(key):
            problem(path, f"no {key}")
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    text = json.dumps(dashboard)
    for name in set(re.findall(r"\$\{?([a-z]\w*)", text)) - variables:
        problem(path, f"no variable {name}")
    for name in variables:
        if len(re.findall(rf"\$\{{?{name}\b", text)) == 0:
            problem(path, f"variable {name} is not used")
    for variable in dashboard["templating"]["list"]:
        if variable["name"] in ("start", "stop") and (variable["multi"] or variable["includeAll"]):
            problem(variable["name"], "is more than one pair")
    for i, panel in enumerate(panels):
        where, grid = f"panel {panel['title']!r}", panel["gridPos"]
        if grid["x"] < 0 or grid["x"] + grid["w"] > 24 or min(grid["w"], grid["h"]) < 1:
            problem(where, "is wider than the dashboard")
        for other in panels[:i]:
            if overlaps(grid, other["gridPos"]):
                problem(where, f"overlaps {other['title']!r}")
        if panel["type"] != "row":
            check_panel(where, panel)


# What the panel of all probes shows at most, and legends that fit under a graph.
MOST_LINES, LEGEND_LABELS = 20, {"probe", "program", "phase", "side", "reason", "le", "version", "instance", "engine"}


def check_readable(where, panel):
    """A program may have thousands of probes, paths are long, and one pair is chosen."""
    for target in panel.get("targets", []):
        expr, legend = target["expr"], target["legendFormat"]
        if "ocaml_probes_hits_total" in expr and "probe" in legend:
            tops = [int(n) for n in re.findall(r"topk\((\d+),", expr)]
            if not tops or max(tops) > MOST_LINES:
                problem(where, "shows each probe, however many there are")
        for label in set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)) - LEGEND_LABELS:
            problem(where, f"{label} makes its legend long")
        if "ocaml_probes_pair_" in expr and not ('start="$start"' in expr and 'stop="$stop"' in expr):
            problem(where, "is of more than the chosen pair")


def check_panel(where, panel):
    check_readable(where, panel)
    if panel["type"] not in ("timeseries", "stat", "heatmap", "bargauge", "state-timeline", "table"):
        problem(where, f"what is a {panel['type']}")
    if not panel["fieldConfig"]["defaults"].get("unit"):
        problem(where, "no unit")
    if panel["datasource"].get("uid") != "${datasource}":
        problem(where, "is not of the chosen data source")
    targets = panel.get("targets", [])
    if not targets or len({target["refId"] for target in targets}) != len(targets):
        problem(where, "no targets, or two of one name")
    for target in targets:
        if not target.get("expr") or not target.get("legendFormat"):
            problem(where, "a target without expression or legend")
        if target["datasource"].get("uid") != "${datasource}":
            problem(where, "a target is not of the chosen data source")


def check_live(url, path):
    with open(path, encoding="utf-8") as f:
        dashboard = json.load(f)
    n = 0
    for where, expr, shown in dashboard_expressions(dashboard):
        n += 1
        query = urllib.parse.urlencode({"query": re.sub(r"\[1m\]", "[10s]", expr)})
        with urllib.request.urlopen(f"{url}/api/v1/query?{query}") as response:
            answer = json.load(response)
        series = answer["data"]["result"]
        # What asks for what is unusual may find nothing.
        if not series and not re.search(r"[=>]=? *0(,|$)", expr):
            problem(where, f"finds nothing: {expr}")
        for label in shown:
            if not all(one["metric"].get(label) for one in series):
                problem(where, f"{label} of its legend is empty: {expr}")
    print(f"{n} expressions evaluated")


if __name__ == "__main__":
    what, args = sys.argv[1], sys.argv[2:]
    if what == "schema":
        check_schema(*args)
    elif what == "names":
        check_names(args[0], args[1:])
    elif what == "live":
        check_live(*args)
    else:
        sys.exit(f"what is {what}")
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(1 if problems else 0)
