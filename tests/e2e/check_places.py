"""
check_places.py all|some SOURCE... <JSON

Compare what `info --sites --json` or `--count --by-site --json` says of each site's place in the
source with where [%probe "NAME" stands in the SOURCEs: file, line and column. With `all`, every probe
of the sources must have a site. Prints how many sites there were.
"""
import json
import os
import re
import sys


def probes_of(path):
    """(name, file, line, column) of each probe in a source"""
    with open(path, "rb") as f:
        text = f.read()
    for probe in re.finditer(rb'\[%probe\s+"([A-Za-z0-9_]*)"', text):
        before = text[: probe.start()]
        column = len(before) - (before.rfind(b"\n") + 1)
        yield (probe[1].decode(), os.path.basename(path), before.count(b"\n") + 1, column)


def sites_of(answer):
    """(name, file, line, column) of each site that has code"""
    for site in answer.get("sites") or answer["probes"]:
        if site.get("state") == "absent":
            continue
        name = site["probe"] if "probe" in site else site["name"]
        file = site["source"] if "probe" in site else site["file"]
        yield (name, os.path.basename(file or "?"), site["line"], site["column"])


how, sources = sys.argv[1], sys.argv[2:]
expected = {place for source in sources for place in probes_of(source)}
found = list(sites_of(json.loads(sys.stdin.read().splitlines()[-1])))
for site in sorted(set(found) - expected, key=str):
    print("no probe is there:", site)
for site in sorted(expected - set(found)) if how == "all" else []:
    print("no site says:", site)
print(len(found))
