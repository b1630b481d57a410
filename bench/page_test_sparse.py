# SPDX-License-Identifier: Apache-2.0
"""page_test_sparse.py - what the page of tables of keys must show of made results, in which not all sizes were measured and
a file could not be read. Words of a label -> way or key of the JSON, here again and not by sparse_page.py's."""
import os

from page_made import MACHINE, fresh, origin, part, percent, put, tenth, whole

HOT, KEYS = 600, 20000
WAYS = {"hot": "hot", "servers alone": "off", "dense": "dense", "hot, lossy": "lossy"}
KEY_COUNTS = {"oa-like": [1000, 3000], "se-like": [300, 600]}  # of oa-like not HOT
BROKEN = "bench/measure %s\n# not shown, exit status 1: broken:3: not a number"


class Made:
    """quick: some sections are QUICK=1's, and of one stream less was counted."""

    def __init__(self, folder, quick):
        self.out, self.quick, self.lines = os.path.join(folder, "out"), quick, {}
        os.makedirs(self.out)
        for name, words in {"made": "%d %d" % (HOT, KEYS), "machine": "\n".join(MACHINE), "files": ""}.items():
            open(os.path.join(self.out, name), "w").write(words + "\n")
        # of small, 400 are all keys
        self.counts = {"oa-like": [1, 20, 100, 3000] if quick else [1, 20, 100, 600], "small": [1, 20, 100, 400]}
        for stream, counts in self.counts.items():
            updates = whole()
            self.put("hot-" + stream, [{"name": stream, "hot_keys": count, "share": part(), "updates": updates,
                                        "sampled_keys": 400 if stream == "small" else KEYS} for count in counts],
                     quick=quick, shared=["updates"])
            self.put("precision-" + stream, [
                {"name": stream, "sample": sample, **{key: part() for key in ("precision", "ideal_precision", "precision_of_as_many",
                                                                             "all_share")},
                 "all_hot_keys": whole(), "hot_keys": whole()} for sample in (0.04, 0.08)])
            self.put("layout-" + stream, ["registers of %s: 1" % stream, "dealt: 0"])
        for name in "hot", "precision", "throughput":
            put(self.out, name + "-broken", [], 1, "broken:3: not a number")
        self.rates("throughput-oa-like", "hot off dense", 8)
        self.rates("throughput-small_one", "hot off dense", 8)
        self.rates("workers-2", "hot off", 2, quick=quick)
        self.rates("workers-4", "hot off", 4)
        for stream, counts in KEY_COUNTS.items():
            for count in counts:
                self.rates("keys-%s-%d" % (stream, count), "hot off", 2)
        self.rates("loss-10", "hot lossy", 2)
        self.rates("loss-100", "hot lossy", 2, lost=0)
        self.put("exponents", [{"verified": True, "ranks": 8, "elements": elements, "dtype": dtype, "tat_us_median": fresh()}
                               for elements in (1, 64) for dtype in ("float32", "int32")])
        self.put("lns", ["sums by tables", "R2: 3"])

    def put(self, name, lines, **more):
        self.lines[name] = lines
        put(self.out, name, lines, **more)

    def rates(self, name, ways, workers, lost=None, **more):
        made = {way: {**{key: fresh() * 1e3 for key in ("pairs_per_s", "least", "most")}, "hot_share": part(), "of_link": part(),
                      "runs": whole(), "verified_keys": whole(), "drops": whole(), "seconds": fresh(),
                      "seen_lost": [whole(), whole() if lost is None else lost]} for way in ways.split()}
        self.put(name, [{"link": "50mbit", "workers": workers, "load": [whole(), whole()], "ways": made}], **more)

    def way(self, section, words):
        return self.lines[section][0]["ways"][WAYS[words]]

    def rate(self, words):
        def cell(section):
            way = self.way(section, words)
            return "%.0f (%.0f..%.0f)" % tuple(way[key] / 1e3 for key in ("pairs_per_s", "least", "most"))
        return {words: cell}

    def gain(self, section, over="servers alone"):
        return self.way(section, "hot")["pairs_per_s"] / self.way(section, over)["pairs_per_s"]

    def share(self, words, key, of="hot"):
        return {words: lambda section: percent(self.way(section, of)[key], 0)}

    def alone(self, words="hot / alone"):
        return {words: lambda section: "%.2f" % self.gain(section)}

    def checked(self, *sections):
        ways = [way for section in sections for way in self.lines[section][0]["ways"].values()]
        return ("p", ["%d runs; in each all sums, of %d keys or elements at least, compared" % (
            sum(way["runs"] for way in ways), min(way["verified_keys"] for way in ways)),
            "Packets that did not fit into a link's queue: %d." % sum(way["drops"] for way in ways)])

    def shown(self, prefix):
        """Where the sections of the streams come from; one of them could not be read."""
        names = [name for name in self.lines if name.startswith(prefix)]
        broken = [("pre", [BROKEN % (prefix + "broken")])]
        end = [name for name in names if not name.endswith("-like")]
        quick = self.quick and prefix == "hot-"
        return origin(*(name for name in names if name not in end), quick=quick) + broken + origin(*end, quick=quick)


def hottest(made):
    """Figure 5; the counts that are columns, by HOT and a 30th of it."""
    paper = {"paper: OA": ("150,000,000", "over 50 %, of 30,000"), "paper: SE": ("9,000,000", "about 70 %, of 30,000")}
    most = 100 if made.quick else 600  # of small, 400 are 600's
    lines = {stream: {line["hot_keys"]: line for line in made.lines["hot-" + stream]} for stream in made.counts}

    def of(key, i):
        return lambda stream: paper[stream][i] if stream in paper else str(lines[stream][1][key])

    def share(count):
        def cell(stream):
            if stream in paper:
                return paper[stream][1] if count == most else "-"
            return percent(lines[stream][400 if (stream, count) == ("small", 600) else count]["share"])
        return {"%d hottest" % count: cell}

    columns = {"stream": str, "keys": of("sampled_keys", 0), **share(most), **share(20),
               "updates": lambda stream: "-" if stream in paper else str(lines[stream][1]["updates"])}
    series = {stream: [[count, 100 * line["share"]] for count, line in by.items()] for stream, by in lines.items()}
    series["paper, 30,000"] = [[30000, 50], [30000, 70]]
    series["(labels)"] = [[30000, 50, "OA (paper)"], [30000, 70, "SE (paper)"]]
    return made.shown("hot-") + [("p", ["Counted, all updates."]), ("table", list(paper) + list(made.counts), columns),
                                 ("picture", "figure-5.svg", [["", "hottest keys", "% of all updates", "x", series]])]


def throughput(made):
    names = ["throughput-oa-like", "throughput-small_one"]
    columns = {"stream": lambda name: name.split("-", 1)[1], **made.share("hot pairs", "hot_share"), **made.rate("hot"),
               **made.rate("servers alone"), **made.rate("dense"), **made.alone(),
               "hot / dense": lambda name: tenth(made.gain(name, "dense")),
               "of the busiest link: hot, alone": lambda name: ", ".join(
                   percent(made.way(name, words)["of_link"], 0) for words in ("hot", "servers alone"))}
    bars = {words: [[name.split("-", 1)[1], 1 / made.gain(name, words)] for name in names]
            for words in ("hot", "servers alone", "dense")}
    return made.shown("throughput-") + [
        ("p", ["8 workers and one server, each behind a link of 50mbit; thousands of pairs/s, the median (least..most)."]),
        ("table", names, columns), made.checked(*names),
        ("picture", "figure-12.svg", [["", "", "throughput, hot keys in tallyd = 1", "", bars]])]


def workers(made):
    names = {"workers-2": "2", "workers-4": "4", "throughput-oa-like": "8"}
    columns = {"workers": names.get, **made.rate("hot"), **made.rate("servers alone"), **made.alone(),
               **made.share("of the busiest link, hot", "of_link"), **made.share("alone", "of_link", "servers alone")}
    return origin("workers-2", quick=made.quick) + origin("workers-4") + [
        ("p", ["oa-like.", "here 3 processors have all of them"]), ("table", list(names), columns),
        made.checked("workers-2", "workers-4")]


def more_keys(made):
    names = ["keys-%s-%d" % (stream, count) for stream, counts in KEY_COUNTS.items() for count in counts]
    base = made.gain("keys-se-like-600")
    columns = {"stream": lambda name: name[5:12], "hot keys": lambda name: name[13:], **made.share("hot pairs", "hot_share"),
               **made.rate("hot"), **made.rate("servers alone"), **made.alone(), "paper": lambda name: "-",
               "of 600 keys'": lambda name: "%.3f" % (made.gain(name) / base) if name[5:7] == "se" else "not measured"}
    return origin(*names) + [
        ("p", ["Of 20000 keys; throughput as part of that with 600 hot keys"]),
        ("p", ["oa-like: 600 hot keys were not measured"]), ("table", names, columns), made.checked(*names),
        ("picture", "figure-14.svg", [["", "hot keys", "throughput, 600 keys = 1", "", {
            "se-like": [[count, made.gain("keys-se-like-%d" % count) / base] for count in (300, 600)]}]])]


def sample(made):
    lines = [line for stream in made.counts for line in made.lines["precision-" + stream]]
    parts = {"precision": "precision", "ideal": "ideal_precision", "of as many keys": "precision_of_as_many",
             "their share of all updates": "all_share"}
    texts = {"stream": "name", "|Hg|": "all_hot_keys", "|Hs|": "hot_keys"}
    columns = {"sample": lambda line: percent(line["sample"], 0), "paper": lambda line: {0.04: "over 80 %", 0.08: "over 90 %"}[line["sample"]],
               **{words: lambda line, key=key: percent(line[key]) for words, key in parts.items()},
               **{words: lambda line, key=key: str(line[key]) for words, key in texts.items()}}
    return made.shown("precision-") + [("p", ["|Hg and Hs| / |Hg|"]), ("table", lines, columns)]


def printed(made):
    """What programs have said themselves."""
    layouts = [made_name for made_name in made.lines if made_name.startswith("layout-")]
    below = origin(*layouts) + [("p", ["counted: packets of at most 192 bytes"])]
    for name in layouts:
        below += [("p", [name[7:]]), ("pre", ["\n".join(made.lines[name])])]
    return below, origin("lns") + [("p", ["in %. The last"]), ("pre", ["\n".join(made.lines["lns"])])]


def exponents(made):
    us = {(line["elements"], line["dtype"]): line["tat_us_median"] for line in made.lines["exponents"]}
    columns = {"elements": str, "int32, us": lambda n: tenth(us[n, "int32"]), "float32, us": lambda n: tenth(us[n, "float32"]),
               "more, us": lambda n: tenth(us[n, "float32"] - us[n, "int32"])}
    return origin("exponents") + [("p", ["of 8 ranks on this machine; medians of the slowest rank"]), ("table", [1, 64], columns)]


def losses(made):
    chances = {"loss-10": "0.10 %", "loss-100": "1.00 %"}
    columns = {"chance": chances.get, **made.rate("hot"), **made.rate("hot, lossy"),
               "packets lost": lambda name: "%d of %d" % tuple(made.way(name, "hot, lossy")["seen_lost"][::-1]),
               "more time": lambda name: "%+.1f %%" % (100 * (made.way(name, "hot, lossy")["seconds"] / made.way(name, "hot")["seconds"] - 1)),
               "paper": lambda name: "below 3 %" if name == "loss-10" else "-"}
    return origin(*chances) + [("p", ["At a chance of 1.00 % nothing was lost"]), ("p", ["oa-like; lost on every link, both ways"]),
                               ("table", list(chances), columns), made.checked(*chances)]


def spec(made):
    """What must be below each title, in order."""
    layouts, lns = printed(made)
    quick = [("p", ["QUICK=1: ", "no figures: hot-oa-like, hot-small, workers-2."])]
    return {
        **({"": quick} if made.quick else {}),
        "tables of keys: measured": [("p", ["a processor, 3 processors, Linux 6; commit abc123, begun 2026-01-01 00:00:00 UTC."]),
                                     ("p", ["streams, not data: 20000 keys each. Files: none"]), ("p", ["Not here: "])],
        "Figure 5: what part of all updates the hottest keys have": hottest(made),
        "Figure 12: pairs summed per second": throughput(made), "Figure 12: workers": workers(made),
        "Figures 13 and 14: more hot keys": more_keys(made), "Figure 15: hot keys by a sample": sample(made),
        "Figure 16: recirculations per packet": layouts, "Figure 17: what agreeing on an exponent costs": exponents(made),
        "Table 2: precision of sums of floats": lns, "Figure 18: packets lost": losses(made)}
