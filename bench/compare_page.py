#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_page.py OUT_DIR - the page of bench/compare: OUT_DIR/index.html with all pictures in it, of the OUT_DIR/SUITE.json that
are there, and OUT_DIR/index.md with its tables as text. Every figure has the command that made it, and where that was."""
import glob
import html
import json
import os

import compare_report
import page
from compare_read import KEY, find, line_us, ratio, rate_bps, summary
from page import OUT, bars, body, curves, say, table, text, title

BIG = 25000000


def results_read():
    found = {}
    for path in sorted(glob.glob(os.path.join(OUT, "*.json"))):
        with open(path) as file:
            result = json.load(file)
        result["table"] = summary(result["runs"])
        found[result["suite"]] = result
    return found


def origin(result):
    """The command below a figure, and the machine."""
    machine = result["machine"]
    words = "%s\n# %s, %d cores, Linux %s, TCP over %s, tree %s, %s to %s; %d runs, %d of them void" % (
        "\n".join(result["commands"]), machine["processor"], machine["cores"], machine["kernel"], machine["tcp"],
        ", ".join(sorted({run["tree"] for run in result["runs"]})), result["runs"][0]["at"], result["runs"][-1]["at"],
        len(result["runs"]), sum(bool(run["void"]) for run in result["runs"]))
    body.append("<pre>%s</pre>" % html.escape(words))
    text.append(words + "\n")


def values(of, name, **wanted):
    """What there is of one part of the key, in order."""
    found = {dict(zip(KEY, key))[name] for key in of if all(dict(zip(KEY, key))[k] == v for k, v in wanted.items())}
    return sorted(found, key=lambda value: (value is None, value))


def drawn(of, figure, ways, xs, axis, scale=1.0, **wanted):
    """{way: [median at each x]}, of ways that were measured at all."""
    found = {way: [find(of, figure, way=way, **{axis: x}, **wanted) for x in xs] for way in ways}
    return {way: [None if y is None else y * scale for y in ys] for way, ys in found.items() if any(y is not None for y in ys)}


FROM_0 = "set yrange [0:*]; "


def rate(result):
    of = result["table"]
    for link in values(of, "rate"):
        at = {"rate": link, "elements": BIG, "dtype": "float32"}
        ranks = values(of, "ranks", rate=link)
        series = drawn(of, "rate", values(of, "way", rate=link), ranks, "ranks", **at)
        series["limit of the link"] = [BIG / line_us(BIG, rate_bps(link))] * len(ranks)
        curves("rate-" + link, ranks, series, FROM_0 + "set xlabel 'workers'; set ylabel 'million elements per second'; set xrange [0:9]")


def lanes(result):
    of = result["table"]
    ranks = values(of, "ranks")
    made = {}
    for count in values(of, "lanes"):
        for way, ys in drawn(of, "rate", ("tally", "against"), ranks, "ranks", lanes=count).items():
            made["%s, %d lanes" % (way, count)] = ys
    curves("lanes", ranks, made, FROM_0 + "set xlabel 'workers'; set ylabel 'million elements per second'; set xrange [0:9]")


def sizes(result):
    of = result["table"]
    sizes = values(of, "elements")
    series = {}
    for dtype in values(of, "dtype"):
        for way, ys in drawn(of, "us", values(of, "way"), sizes, "elements", dtype=dtype).items():
            series["%s, %s" % (way, dtype)] = [ratio(y, line_us(size, 1e9)) for y, size in zip(ys, sizes)]
    bars("sizes", ["%d KB" % (size * 4 // 1024) for size in sizes], series, "time over the link''s")


def processor(result):
    of = result["table"]
    ranks = values(of, "ranks")
    elements = values(of, "elements")[-1]
    series = {}
    for figure, words in ("worker_s", "workers"), ("server_s", "tallyd"), ("machine_s", "the whole machine"):
        for way, ys in drawn(of, figure, values(of, "way"), ranks, "ranks", 1e9 / (4 * elements), elements=elements).items():
            if any(ys):
                series["%s, %s" % (way, words)] = ys
    bars("processor", ["%d workers" % n for n in ranks], series, "processor seconds per GB of tensor")


def beside(result):
    of = result["table"]
    names = {"": "alone", "beside multiply": "beside multiplications"}
    series = {way: [find(of, "us", way=way, options=options) for options in names] for way in values(of, "way")}
    bars("beside", list(names.values()), {way: [y and y / 1e3 for y in ys] for way, ys in series.items()}, "ms of 10 M elements")
    speeds = {way: [find(of, "multiplied", way=way)] for way in values(of, "way")}
    bars("beside-speed", ["beside allreduces"], speeds, "multiplications per second")


def idle(result):
    of = result["table"]
    ranks = values(of, "ranks")
    cores = drawn(of, "cores", values(of, "way"), ranks, "ranks", 100)
    bars("idle", ["%d workers" % n for n in ranks], cores, "% of a core, all ranks and tallyd")


def tiny(result):
    of = result["table"]
    ranks = values(of, "ranks")
    for figure, words in ("median_us", "median"), ("p99_us", "99th percentile"):
        series = {}
        for dtype in values(of, "dtype"):
            for way, ys in drawn(of, figure, values(of, "way"), ranks, "ranks", dtype=dtype).items():
                if not way.startswith("gloo"):  # in the table: the others would be a line on the axis
                    series["%s, %s" % (way, dtype)] = ys
        curves("tiny-" + figure[:3], ranks, series, FROM_0 + "set xlabel 'workers'; set ylabel 'us of 8 elements, %s'; set xrange [0:9]" % words)


def loss(result):
    of = result["table"]
    losses = values(of, "loss")
    series = {}
    for way, ys in drawn(of, "us", values(of, "way"), losses, "loss").items():
        if ys[0]:
            series[way] = [ratio(y, ys[0]) for y in ys]
    bars("loss", ["%g %%" % (100 * loss) for loss in losses], series, "time over that without loss")


def fast(result):
    of = result["table"]
    groups = [(n, link) for link in values(of, "rate") for n in values(of, "ranks", rate=link)]
    series = {way: [find(of, "rate", way=way, ranks=n, rate=link) for n, link in groups] for way in values(of, "way")}
    series["limit of the link"] = [BIG / line_us(BIG, rate_bps(link)) for _, link in groups]
    bars("fast", ["%d workers, %s" % group for group in groups], series, "million elements per second")


def modes(result):
    of = result["table"]
    ranks = values(of, "ranks")
    series = drawn(of, "median_us", values(of, "way"), ranks, "ranks")
    for name, ways, words in ("latency", ("tally", "against"), "us of 8 int32 in latency mode"), (
            "sparse", ("sparse", "sparse-against"), "us of a batch of 1,000 pairs"):
        bars("modes-" + name, ["%d workers" % n for n in ranks], {way: series[way] for way in ways if way in series}, words)


def scale(result):
    of = result["table"]
    for n in values(of, "ranks"):
        sizes = values(of, "elements", ranks=n)
        bytes_of = [4 * size for size in sizes]
        series = drawn(of, "us", values(of, "way", ranks=n), sizes, "elements", ranks=n)
        curves("scale-%d" % n, bytes_of, {**series, "limit of the link": [line_us(size, 1e9) for size in sizes]},
               "set xlabel 'bytes, %d workers'; set ylabel 'us'" % n, "xy")
        over = {way: [ratio(y, line_us(size, 1e9)) for y, size in zip(ys, sizes)][3:] for way, ys in series.items()}
        curves("scale-over-%d" % n, bytes_of[3:], over, FROM_0 + "set xlabel 'bytes, %d workers'; set ylabel 'time over the link''s'" % n, "x")
    say("Both axes of the first picture of each pair are logarithmic: no 0 is on them.")


def pool(result):
    of = result["table"]
    windows = sorted(int(words.split()[-1]) for words in values(of, "options"))
    series = drawn(of, "us", ["tally"], ["--window %d" % window for window in windows], "options", 1e-3)
    size = values(of, "elements")[0]
    series["limit of the link"] = [line_us(size, 1e9) / 1e3] * len(windows)
    curves("pool", windows, series, FROM_0 + "set xlabel 'packets on their way at most'; set ylabel 'ms of %d elements'" % size, "x")


def timeline(result):
    for run in result["runs"]:
        if run.get("sent") and not run["void"]:
            at = [ms for ms, _ in run["sent"]]
            curves("timeline-%g" % (100 * run["loss"]), at, {run["way"]: [packets for _, packets in run["sent"]]},
                   FROM_0 + "set xlabel 'ms, %g %% lost'; set ylabel 'packets sent by rank 0 in 10 ms'" % (100 * run["loss"]))


def replay(result):
    of = result["table"]
    options = values(of, "options")
    bars("replay", options, drawn(of, "us", values(of, "way"), options, "options", 1e-3), "ms of a step")


def host(result):
    of = result["table"]
    for size in values(of, "elements"):
        ranks = values(of, "ranks", elements=size)
        bars("host-%d" % size, ["%d ranks" % n for n in ranks], drawn(of, "us", values(of, "way"), ranks, "ranks", elements=size),
             "us of %d elements" % size)


def quick(result):
    of = result["table"]
    for size in values(of, "elements"):
        series = {}
        for dtype in values(of, "dtype", elements=size):
            for way, ys in drawn(of, "us", values(of, "way", elements=size), [4], "ranks", elements=size, dtype=dtype).items():
                series["%s, %s" % (way, dtype)] = ys
        bars("quick-%d" % size, ["4 workers"], series, "us of %d elements" % size)


PICTURES = {of.__name__: of for of in (rate, lanes, sizes, processor, beside, idle, tiny, loss, timeline, fast, modes, scale, pool, replay, host, quick)}


def main():
    results = results_read()
    title("What must be shown")
    rows = [[must[of] for of in ("must", "shown", "bound", "verdict")] for name in PICTURES if name in results for must in results[name]["musts"]]
    if rows:
        table(["", "measured", "demanded", ""], rows)
    for name, pictures in PICTURES.items():
        if name not in results:
            continue
        result = results[name]
        title(result["words"])
        for way, lacks in result["lacking"].items():
            say("Without %s: %s." % (html.escape(way), html.escape(lacks)))
        if any(not run["void"] for run in result["runs"]):
            pictures(result)
        origin(result)
        for where, rows in compare_report.rows_of(result["table"]).items():
            say(html.escape(where))
            table(list(compare_report.COLUMNS), rows)
    missing = [name for name in PICTURES if name not in results]
    if missing:
        say("Not measured: %s." % ", ".join(missing))
    page.write("index", "tally beside its peers")


main()
