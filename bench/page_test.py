#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_test.py [TALLY-SIM] - pages of figures, and the plots of tally sim, show under each label what it says: pages of made
results, no number twice in them, are read as a reader sees them. For each title page_test_glm.py and page_test_sparse.py say
what is below it, and for each word of a label which number of the JSON it means. What they know nothing of is an error."""
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import page_test_glm
import page_test_sparse
from page_read import Page, Picture, as_text, gnuplot_put

HERE = os.path.dirname(os.path.abspath(__file__))
failures = []


def expect(is_so, words):
    if not is_so:
        failures.append(words)
        print("FAILED: " + words)


def is_same(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    return math.isclose(a, b, rel_tol=1e-6) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else a == b


def table_check(at, rows, keys, columns):
    """keys: what each row is of; columns: {label: what a row's cell must be, by its key}."""
    head = rows[0]
    expect(sorted(head) == sorted(columns), "%s: the columns are %s" % (at, head))
    expect(len(rows) == len(keys) + 1, "%s: %d rows, not %d" % (at, len(rows) - 1, len(keys)))
    for key, row in zip(keys, rows[1:]):
        expect(len(row) == len(head), "%s: %s" % (at, row))
        for label, cell in zip(head, row):
            want = columns[label](key) if label in columns else None
            expect(cell == want, "%s: %s of %s is %s, not %s" % (at, label, row[0], cell, want))


def picture_check(at, told, wanted):
    try:
        panels = Picture(told).panels
    except Exception as error:
        return expect(False, "%s: %r" % (at, error))
    expect(len(panels) == len(wanted), "%s has %d panels" % (at, len(panels)))
    for panel, want in zip(panels, wanted):
        for what, have, must in zip(("title", "label of x", "label of y", "logarithmic"), panel, want):
            expect(have == must, "%s: %s: %s, not %s" % (at, what, have, must))
        expect(list(panel[4]) == list(want[4]), "%s: series are called %s, not %s" % (at, list(panel[4]), list(want[4])))
        for name, points in panel[4].items():
            expect(is_same(points, want[4].get(name)), "%s: %s is %s, not %s" % (at, name, points, want[4].get(name)))


def item_check(at, item, want):
    kind, *have = item
    if want[0] == "columns":  # a table that a program has printed
        table_check(at, [re.split("  +", line.strip()) for line in have[0].split("\n")], *want[1:])
    elif kind == "table":
        table_check(at, have[0], *want[1:])
    elif kind == "picture":
        expect(have[0] == want[1], "%s: the picture is %s, not %s" % (at, have[0], want[1]))
        picture_check("%s: %s" % (at, want[1]), have[1], want[2])
    else:
        for words in want[1]:
            expect(words in have[0], "%s: \"%s\" is not in \"%s\"" % (at, words, have[0]))


def page_check(folder, name, spec):
    subprocess.run([sys.executable, os.path.join(HERE, name + "_page.py"), os.path.join(folder, "out")], check=True,
                   stdout=subprocess.DEVNULL)
    markup, text = (open(os.path.join(folder, "out", name + end)).read() for end in (".html", ".md"))
    parts = [(title, below) for title, below in Page(markup).parts if title or below]
    expect([title for title, _ in parts] == list(spec), "%s: the titles are %s" % (name, [title for title, _ in parts]))
    for title, below in parts:
        at, wanted = "%s: %s" % (name, title), spec.get(title, [])
        kinds = [want[0].replace("columns", "pre") for want in wanted]
        expect([item[0] for item in below] == kinds, "%s: there are %s, not %s" % (at, [item[0] for item in below], kinds))
        for item, want in zip(below, wanted):
            if item[0] == want[0].replace("columns", "pre"):
                item_check(at, item, want)
    tables = re.findall(r"^(?:## |\| ).*", text, re.M)
    for have, want in itertools.zip_longest(tables, as_text(parts)):
        expect(have == want, "%s: the text has \"%s\", not \"%s\"" % (name, have, want))
    for words in "QUICK: ", "QUICK=1: ":
        expect((words in text) == (words in markup) == ("" in spec), "%s: %s" % (name, words))
    expect("img{max-width:100%" in markup and ".wide{overflow-x:auto}" in markup, "pictures or tables are cut in a narrow window")


# ---- tally sim: label of the axis -> key of --json, and values of the option ----

SWEPT = {"link (bit/s)": ("link_bps", "1gbit,2gbit,40gbit"), "uplink (bit/s)": ("uplink_bps", "1gbit,2gbit"),
         "hub (bit/s)": ("hub_bps", "1gbit,2gbit"), "delay (ns)": ("delay_ns", "1us,2us,3us"), "poll (ns)": ("poll_ns", "4us,9us"),
         "queue (bytes)": ("queue_bytes", "8K,9K"), "message (bytes)": ("message_bytes", "16K,24K,1M"), "slots": ("slots", "32,64"),
         "window": ("window", "7,9"), "lanes": ("lanes", "320,360"), "loss (of the packets)": ("loss", "0,0.5%")}
# label of a column -> key, factor and form
TABLE = {"bytes": ("message_bytes", 1, "%d"), "slots": ("slots", 1, "%d"), "window": ("window", 1, "%d"), "loss": ("loss", 100, "%.3f %%"),
         "TAT": ("tat_ns", 1e-6, "%.3f ms"), "goodput": ("goodput_bps", 1e-9, "%.2f Gb/s"), "probes": ("probes", 1, "%d"),
         "a switch": ("switch_bytes", 1e-6, "%.2f MB")}


def sim_run(sim, *words):
    return subprocess.run([sim, *words], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def sim_check(folder, sim):
    """Of 2 switches below a root with 3 workers each, and of one with 2."""
    path = os.path.join(folder, "plot.svg")
    for shape, title in (("2x3", "6 workers, 3 switches"), ("2", "2 workers, 1 switch")):
        for label, (key, values) in SWEPT.items():
            name = label.split()[0]
            words = [] if name == "message" else ["--message", "16K"]
            lines = list(map(json.loads, sim_run(sim, "--topology", shape, *words, "--" + name, values, "--json", "--plot", path)))
            xs = [line[key] for line in lines]
            expect(len(set(xs)) == values.count(",") + 1, "sim over %s: these are not the values: %s" % (label, xs))
            picture_check("sim over " + label, open(path).read(), [[
                title, label, "TAT (ms)", "x" if 0 < 16 * xs[0] < xs[-1] else "", {
                    "simulated": [[line[key], line["tat_ns"] / 1e6] for line in lines],
                    "rate of the cable": [[line[key], line["line_ns"] / 1e6] for line in lines]}]])
    words = "--topology 2x3 --message 64K --loss 1%,2% --slots 32".split()
    printed = sim_run(sim, *words)
    expect(printed[0].startswith("6 workers, 3 switches in 2 levels, cables of 10 Gbit/s"), "sim: %s" % printed[0])
    table_check("sim", [re.split("  +", line.strip()) for line in printed[2:5]], list(map(json.loads, sim_run(sim, *words, "--json"))), {
        **{label: lambda line, of=of: of[2] % (line[of[0]] * of[1]) for label, of in TABLE.items()},
        "of line": lambda line: "%.1f %%" % (100 * line["line_ns"] / line["tat_ns"]),
        "resent": lambda line: "%.3f %%" % (100 * line["updates_resent"] / line["updates"])})


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PATH"] = gnuplot_put(os.path.join(folder, "gnuplot"))
        for name, test, flag in (("sparse", page_test_sparse, True), ("sparse", page_test_sparse, False),
                                 ("glm", page_test_glm, False), ("glm", page_test_glm, True)):
            within = os.path.join(folder, "%s-%s" % (name, flag))
            page_check(within, name, test.spec(test.Made(within, flag)))
        for sim in sys.argv[1:]:
            sim_check(folder, sim)
    print("%d labels are wrong" % len(failures) if failures else "labels are those of the JSON")
    return bool(failures)


sys.exit(main())
