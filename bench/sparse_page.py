#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sparse_page.py OUT_DIR - the page of bench/sparse_page.sh: OUT_DIR/sparse.html with all pictures in it, of what OUT_DIR
has, and OUT_DIR/sparse.md, its tables as text."""
import glob
import html
import json
import os

import page
from page import CORES, OUT, Section, block, curves, numbered, origin, output, picture, say, shown, table, title

PAPER_HOT = 30000
PAPER_WAYS = "PS-lite 1/4 to 1/1.5 of Libra, with 32 workers; SwitchML a fifth (Figure 13: 45.6 % when 2.23 times as fast)"


def lines(name):
    """The objects that a section has printed."""
    section = Section(name)
    return [json.loads(line) for line in section.read("output").splitlines() if line.startswith("{")] if section.is_good else []


def measured(name):
    """What bench/sparse.sh has printed, or None."""
    found = lines(name)
    return found[-1] if found else None


def names_of(prefix):
    """The sections prefix-NAME, the made streams first."""
    found = [os.path.basename(os.path.dirname(path)) for path in glob.glob(os.path.join(OUT, prefix + "-*", "status"))]
    return sorted(found, key=lambda name: (not name.endswith("-like"), name))


def percent(part, digits=1):
    return "%.*f %%" % (digits, 100 * part)


def rate(way):
    return "%.0f (%.0f..%.0f)" % (way["pairs_per_s"] / 1e3, way["least"] / 1e3, way["most"] / 1e3)


def checked(*runs):
    """What was compared; a run with a wrong sum fails, so that it is not here."""
    ways = [way for run in runs for way in run["ways"].values()]
    assert ways and all(way["verified_keys"] > 0 for way in ways)
    say("%d runs; in each all sums, of %d keys or elements at least, compared with sums made without tally: all right. Packets "
        "that did not fit into a link's queue: %d." % (sum(way["runs"] for way in ways), min(way["verified_keys"] for way in ways),
                                                       sum(way["drops"] for way in ways)))


def stream_of(name):
    return name.partition("-")[2]


def share_of(points, count):
    """The part of all updates that the `count` hottest keys have, or None if that was not measured. A stream that has no
    more keys has no more updates."""
    for keys, share, line in points:
        if keys == count or (keys < count and keys == line["sampled_keys"]):
            return share
    return None


def counts_up_to(most, found):
    """The largest number of hottest keys, up to `most`, that was measured of all streams."""
    counts = {keys for points in found.values() for keys, _, _ in points if keys <= most}
    return max((count for count in counts if all(share_of(points, count) is not None for points in found.values())), default=most)


def figure_5():
    title("Figure 5: what part of all updates the hottest keys have")
    names = shown(names_of("hot"))
    if not names:
        return
    hot = int(Section(".").read("made").split()[0])
    found = {stream_of(name): [(line["hot_keys"], line["share"], line) for line in lines(name)] for name in names}
    say("Counted, all updates. The paper's curves are of two jobs in production and end at 100,000 keys: of 150 million parameters "
        "(OA) the hottest 30,000 have over half of the updates, of 9 million (SE) about 70 %. The made streams have fewer keys, "
        "so their tails are shorter.")
    columns = list(dict.fromkeys(counts_up_to(most, found) for most in (hot, max(1, hot // 30))))
    rows = [[name, keys, "-", words + ", of 30,000"] + ["-"] * (len(columns) - 1) for name, keys, words in (
        ("paper: OA", "150,000,000", "over 50 %"), ("paper: SE", "9,000,000", "about 70 %"))]
    for name, points in found.items():
        shares = [share_of(points, count) for count in columns]
        rows.append([name, str(points[-1][2]["sampled_keys"]), str(points[-1][2]["updates"])] +
                    ["not measured" if share is None else percent(share) for share in shares])
    table(["stream", "keys", "updates"] + ["%d hottest" % count for count in columns], rows)
    script = "".join(block("d%d" % i, [[count, 100 * share] for count, share, _ in points])
                     for i, points in enumerate(found.values()))
    script += block("paper", [[PAPER_HOT, 50, "OA (paper)"], [PAPER_HOT, 70, "SE (paper)"]])
    picture("figure-5", script + "set logscale x; set xlabel 'hottest keys'; set ylabel '% of all updates'; set key outside\n"
            "set yrange [0:100]; plot " + ", ".join(
                "$d%d using 1:2 with linespoints linewidth 2 title '%s' noenhanced" % (i, name) for i, name in enumerate(found)) +
            ", $paper using 1:2 with points pointtype 7 pointsize 1.5 title 'paper, 30,000', "
            "$paper using 1:2:3 with labels offset 6,0 notitle")


def bars(name, found):
    """found: {title: {way: part of hot}}."""
    ways = list(dict.fromkeys(way for row in found.values() for way in row))
    script = block("d", [[row] + [parts.get(way) for way in ways] for row, parts in found.items()])
    picture(name, script + "set style data histograms; set style fill solid 0.7; set xtics noenhanced\n"
            "set ylabel 'throughput, hot keys in tallyd = 1'; set yrange [0:*]; set key outside; plot " + ", ".join(
                "$d using %d:xtic(1) title '%s' noenhanced" % (i + 2, way) for i, way in enumerate(ways)))


def figure_12():
    title("Figure 12: pairs summed per second")
    names = shown(names_of("throughput"))
    if not names:
        return
    found = {stream_of(name): measured(name) for name in names}
    made_with = tuple(" or ".join(sorted({str(run[what]) for run in found.values()})) for what in ("workers", "link"))
    say("%s workers and one server, each behind a link of %s; thousands of pairs/s, the median (least..most). Hot: tallyd sums "
        "the hot keys. Servers alone: no key is hot, as with PS-lite, which is not here itself (docs/kv.md has figures of it). Dense: tally allreduce of "
        "vectors that are 1 %% full, as SwitchML would have to, on the same aggregator; a chip's 1 MB is not its limit. The "
        "paper's: %s." % (made_with + (PAPER_WAYS,)))
    rows, parts = [], {}
    for name, run in found.items():
        ways = run["ways"]
        hot, off, dense = ways["hot"], ways["off"], ways["dense"]
        parts[name] = {"hot": 1, "servers alone": off["pairs_per_s"] / hot["pairs_per_s"],
                       "dense": dense["pairs_per_s"] / hot["pairs_per_s"]}
        rows.append([name, percent(hot["hot_share"], 0), rate(hot), rate(off), rate(dense),
                     "%.2f" % (hot["pairs_per_s"] / off["pairs_per_s"]), "%.1f" % (hot["pairs_per_s"] / dense["pairs_per_s"]),
                     "%s, %s" % (percent(hot["of_link"], 0), percent(off["of_link"], 0))])
    table(["stream", "hot pairs", "hot", "servers alone", "dense", "hot / alone", "hot / dense", "of the busiest link: hot, alone"],
          rows)
    checked(*found.values())
    bars("figure-12", parts)


def workers():
    title("Figure 12: workers")
    names = shown(["workers-%d" % n for n in numbered("workers")])
    if not names:
        return
    runs = [measured(name) for name in names]
    found = {run["workers"]: run for run in runs}
    whole = measured("throughput-oa-like")
    if whole:
        found[whole["workers"]] = whole
    say("oa-like. The paper has 8, 16 and 32 workers, on as many processors as they want; here %d processors have all of them, and "
        "a switch." % CORES)
    rows = []
    for n, run in sorted(found.items()):
        hot, off = run["ways"]["hot"], run["ways"]["off"]
        rows.append([str(n), rate(hot), rate(off), "%.2f" % (hot["pairs_per_s"] / off["pairs_per_s"]),
                     percent(hot["of_link"], 0), percent(off["of_link"], 0)])
    table(["workers", "hot", "servers alone", "hot / alone", "of the busiest link, hot", "alone"], rows)
    checked(*runs)


def figures_13_14():
    title("Figures 13 and 14: more hot keys")
    hot, made = (int(word) for word in Section(".").read("made").split())
    streams = {name: numbered("keys-" + name) for name in ("oa-like", "se-like")}
    names = shown(["keys-%s-%d" % (name, count) for name, counts in streams.items() for count in counts])
    if not names:
        return
    say("Of %d keys; throughput as part of that with %d hot keys, each as a multiple of servers alone in turn with it. The paper: "
        "twice as many as its 30,000 are 7 %% (OA) and 1.7 %% (SE) better, 2.67 times as many no more than that. That SwitchML is "
        "2.23 times as fast with twice the memory has no counterpart: dense vectors are not short of memory here." % (made, hot))
    rows, series, counts_all = [], {}, sorted({int(name.rsplit("-", 1)[1]) for name in names})
    for name, counts in streams.items():
        found = {count: measured("keys-%s-%d" % (name, count)) for count in counts}
        found = {count: run for count, run in found.items() if run}
        gain = {count: run["ways"]["hot"]["pairs_per_s"] / run["ways"]["off"]["pairs_per_s"] for count, run in found.items()}
        base = gain.get(hot)  # nothing else stands for it
        if found and not base:
            say("%s: %d hot keys were not measured, so there is nothing to compare with." % (name, hot))
        elif base:
            series[name] = [gain[count] / base if count in gain else None for count in counts_all]
        paper = {30000: "1", 60000: "1.07" if name == "oa-like" else "1.017",
                 80000: "below 1.07" if name == "oa-like" else "below 1.017"}
        for count, run in found.items():
            ways = run["ways"]
            rows.append([name, str(count), percent(ways["hot"]["hot_share"], 0), rate(ways["hot"]), rate(ways["off"]),
                         "%.2f" % gain[count], "%.3f" % (gain[count] / base) if base else "not measured", paper.get(count, "-")])
    table(["stream", "hot keys", "hot pairs", "hot", "servers alone", "hot / alone", "of %d keys'" % hot, "paper"], rows)
    checked(*(measured(name) for name in names))
    if series:
        curves("figure-14", counts_all, series, "set xlabel 'hot keys'; set ylabel 'throughput, %d keys = 1'; set yrange [0:*]" % hot)


def figure_15():
    title("Figure 15: hot keys by a sample")
    names = shown(names_of("precision"))
    if not names:
        return
    say("Precision as the paper has it: |Hg and Hs| / |Hg|, hot keys by the thousand until 1,000 more add less than 1 % of all "
        "updates. The paper: over 80 % with a sample of 4 %, over 90 % with 8 %, on all its models. Ideal: as many updates drawn one "
        "by one and counted exactly, mean of five; no sample of that size knows more. A file of some 10,000 rows has most keys once or "
        "never in 8 % of it.")
    table(["stream", "sample", "paper", "precision", "ideal", "of as many keys", "|Hg|", "|Hs|", "their share of all updates"],
          [[line["name"], percent(line["sample"], 0), "over %d %%" % (80 if line["sample"] < 0.05 else 90), percent(line["precision"]),
            percent(line["ideal_precision"]), percent(line["precision_of_as_many"]), str(line["all_hot_keys"]), str(line["hot_keys"]),
            percent(line["all_share"])] for name in names for line in lines(name)])


def figure_16():
    title("Figure 16: recirculations per packet")
    names = shown(names_of("layout"))
    if not names:
        return
    say("What a chip would do, counted: packets of at most 192 bytes. The paper: 10 per packet for registers at random, less than 1 "
        "for its two steps together (heat-based placement and Algorithm 1); it does not say how many registers. Dealing is "
        "tally's own, with none (docs/layout.md).")
    for name in names:
        say(html.escape(stream_of(name)))
        output(Section(name).read("output"))


def figure_17():
    title("Figure 17: what agreeing on an exponent costs")
    if not origin("exponents"):
        return
    say("The paper: negotiating a scaling factor takes SwitchML over 100 ms an iteration with 8 workers, 130 ms with 32. Here a "
        "table's unit is fixed, so there is nothing to agree on; and dense mode agrees on each chunk's exponent one chunk ahead, "
        "in packets that travel anyway. So: allreduces of float32, which need exponents, and of int32, which do not, of %s ranks on "
        "this machine; medians of the slowest rank, each result verified. The first chunks have nobody ahead of them: that is the "
        "difference at 1 element, a round trip." % lines("exponents")[0]["ranks"])
    found = {}
    for line in lines("exponents"):
        assert line["verified"]
        found.setdefault(line["elements"], {})[line["dtype"]] = line["tat_us_median"]
    table(["elements", "int32, us", "float32, us", "more, us"],
          [[str(elements), row["int32"], row["float32"], row["float32"] - row["int32"]] for elements, row in found.items()])


def table_2():
    title("Table 2: precision of sums of floats")
    if not origin("lns"):
        return
    text = Section("lns").read("output")
    say("By tables of logarithms, as a chip could (docs/lns.md), and by integers with an exponent for each 360; in %%. The last "
        "columns are the paper's.%s" % ("" if "gradients" in text else " No gradients were given (GRADIENTS): R1 is missing."))
    output(text)


def figure_18():
    title("Figure 18: packets lost")
    names = shown(["loss-%d" % n for n in numbered("loss")])
    if not names:
        return
    rows, found = [], [measured(name) for name in names]
    for name, run in zip(names, found):
        n, hot, lossy = int(name.rsplit("-", 1)[1]), run["ways"]["hot"], run["ways"]["lossy"]
        if not lossy["seen_lost"][1]:
            say("At a chance of %.2f %% nothing was lost: that row says nothing of losses." % (n / 100))
        rows.append(["%.2f %%" % (n / 100), "%d of %d" % tuple(reversed(lossy["seen_lost"])), rate(hot), rate(lossy), "%+.1f %%" % (100 * (lossy["seconds"] / hot["seconds"] - 1)),
                     "below 3 %" if n == 10 else "-"])
    say("oa-like; lost on every link, both ways, so that what comes back is lost as well; segmentation offload is off for both. "
        "More time than without loss; the paper's is that of a whole training, with computation in it.")
    table(["chance", "packets lost", "hot", "hot, lossy", "more time", "paper"], rows)
    checked(*found)


def main():
    machine = Section(".").read("machine").split("\n")
    title("tables of keys: measured")
    say("%s, %s processors, %s; commit %s, begun %s. Hosts are network namespaces behind links of their own, the aggregator on the "
        "unshaped hub; all share the processors." % tuple(html.escape(line) for line in machine[:5]))
    say("Made by bench/sparse_page.sh. NAME-like are made streams, not data: %s keys each. Files: %s" % (
        Section(".").read("made").split()[-1], html.escape(Section(".").read("files").replace("\n", "; ") or "none")))
    say("Not here: the paper's testbed (8 hosts with 100 Gbit/s, a Tofino switch, up to 32 workers), its two jobs in "
        "production, and 5.7, the resources of its chip; tallyd is a program.")
    for part in (figure_5, figure_12, workers, figures_13_14, figure_15, figure_16, figure_17, table_2, figure_18):
        part()
    page.write("sparse", "tables of keys: measured")


main()
