# SPDX-License-Identifier: Apache-2.0
"""compare_suites.py - what bench/compare can measure: suites of groups. A group is a lab (so many workers, one rate) and the
cells that are run in it in turn; a cell is one way with one work. Each suite knows what it must show."""
from compare_read import Must, find, line_us, ratio, rate_bps

BIG = 25000000  # 100 MB, as SwitchML has it
SIZES = {"64 KB": 16384, "256 KB": 65536, "1 MB": 262144}


def cell(way, ranks, elements, rate="1gbit", dtype="float32", iters=None, warmup=None, loss=0, mtu=1500, offload=True, host=False,
         congestion=None, options=(), timeout_s=300, has_timeline=False):
    return {"way": way, "ranks": ranks, "elements": list(elements), "rate": None if host else rate, "dtype": dtype, "iters": iters,
            "warmup": warmup, "loss": loss, "mtu": mtu, "offload": offload, "host": host,
            "congestion": congestion or (way.split("@")[1] if "@" in way else None), "options": list(options),
            "timeout_s": timeout_s, "has_timeline": has_timeline}


class Group:
    def __init__(self, ranks, rate, cells, workers=None):
        self.ranks, self.rate, self.cells, self.workers = ranks, rate, cells, workers or ranks


class Suite:
    def __init__(self, name, words, groups, musts):
        self.name, self.words, self.groups, self.musts = name, words, groups, musts


def with_against(cells):
    """Beside every cell of tally the other build's; the driver leaves it out where there is none."""
    made = []
    for one in cells:
        made.append(one)
        if one["way"] == "tally":
            made.append({**one, "way": "against"})
    return made


def star(ranks, rate, ways, elements, dtypes=("float32",), **more):
    cells = []
    for dtype in dtypes:
        for way in ways:
            if dtype == "float32" or way != "floor":
                cells.append(cell(way, ranks, elements, rate, dtype, **more))
    return Group(ranks, rate, with_against(cells), ranks + ("ps" in ways))


def best(table, figure, ways, least=True, **wanted):
    """Of the peers that were measured, the one with the least, or the most."""
    found = [value for value in (find(table, figure, way=way, **wanted) for way in ways) if value is not None]
    return (min if least else max)(found) if found else None


PEERS = ("gloo-ring", "gloo-hd", "gloo-bcube", "mpi", "mpi-ring")

# ---- 1: one large vector ----


def rate_musts(table):
    musts = []
    for ranks, rate in (2, "1gbit"), (4, "1gbit"), (8, "1gbit"), (8, "100mbit"):
        at = {"ranks": ranks, "rate": rate, "elements": BIG, "dtype": "float32"}
        took = find(table, "us", way="tally", **at)
        words = "%d M float32, n = %d, %s: " % (BIG / 1e6, ranks, rate)
        musts.append(Must(words + "share of the link's limit", ratio(line_us(BIG, rate_bps(rate)), took), least=0.985))
        if ranks > 2:
            musts.append(Must(words + "tally over the best peer", ratio(best(table, "us", PEERS, **at), took),
                              least=1.72 if ranks == 8 else 1.48))
    return musts


def rate_suite():
    ways = ["tally", "gloo-ring", "gloo-hd", "gloo-bcube", "mpi", "mpi-ring", "ps", "ps-colocated"]
    groups = [star(n, "1gbit", ways, [BIG], iters=3, warmup=1) for n in (2, 4, 8)]
    groups.append(star(8, "100mbit", ["tally", "gloo-ring", "mpi-ring"], [BIG], iters=1, warmup=0))
    return Suite("rate", "SwitchML's Figure 3: 25 M float32, elements per second", groups, rate_musts)


# ---- 4: 8 elements ----


def tiny_musts(table):
    musts = []
    for ranks in 2, 4, 8:
        at = {"ranks": ranks, "rate": "1gbit", "elements": 8}
        whole = find(table, "median_us", way="tally", dtype="int32", **at)
        floor = best(table, "median_us", ("floor", "floor-poll"), dtype="int32", **at)
        musts.append(Must("8 int32, n = %d: median over bench/floor's better one" % ranks, ratio(whole, floor), most=1.15))
        musts.append(Must("8 float32, n = %d: median over int32's" % ranks,
                          ratio(find(table, "median_us", way="tally", dtype="float32", **at), whole), most=1.1))
    musts.append(Must("8 int32, n = 8: median over Open MPI's",
                      ratio(whole, best(table, "median_us", ("mpi",), dtype="int32", **at)), most=0.3))
    return musts


def tiny_group(ranks, iters=10000):
    cells = [cell(way, ranks, [8], dtype="int32", iters=iters) for way in ("tally", "floor", "floor-poll", "mpi")]
    cells.append(cell("tally", ranks, [8], iters=iters))
    cells.append(cell("gloo-hd", ranks, [8], iters=min(iters, 1000)))
    return Group(ranks, "1gbit", with_against(cells))


def tiny_suite():
    return Suite("tiny", "8 elements beside a bare star: median and p99", [tiny_group(n) for n in (2, 4, 8)], tiny_musts)


# ---- daily use ----


def quick_suite():
    """Two minutes."""
    cells = [cell(way, 4, [BIG // 10], iters=15, warmup=3) for way in ("tally", "gloo-ring", "mpi-ring")]
    cells += [cell(way, 4, [16384, 262144], iters=100, warmup=10) for way in ("tally", "gloo-ring")]
    tiny = tiny_group(4).cells[:-1]
    return Suite("quick", "daily use: 10 MB, 64 KB, 1 MB and 8 elements, 4 ranks, 1 Gbit/s, two minutes",
                 [Group(4, "1gbit", with_against(cells) + tiny)], quick_musts)


def quick_musts(table):
    """What the other suites must show, of as much as was measured here."""
    at = {"ranks": 4, "rate": "1gbit", "elements": BIG // 10, "dtype": "float32"}
    took = find(table, "us", way="tally", **at)
    musts = [Must("10 MB float32, n = 4: share of the link's limit", ratio(line_us(BIG // 10, 1e9), took), least=0.985),
             Must("10 MB float32, n = 4: tally over the best peer", ratio(best(table, "us", PEERS, **at), took), least=1.48)]
    for figure, most, words in ("worker_s", 0.85, "workers"), ("machine_s", 1.4, "the machine"):
        musts.append(Must("10 MB float32, n = 4: processor of %s over Gloo's ring" % words,
                          ratio(find(table, figure, way="tally", **at), find(table, figure, way="gloo-ring", **at)), most=most))
    for name in "64 KB", "1 MB":
        took = find(table, "us", ranks=4, way="tally", dtype="float32", elements=SIZES[name])
        musts.append(Must("%s float32 back to back, n = 4: time over the link's" % name, ratio(took, line_us(SIZES[name], 1e9)),
                          most=1.03))
    return musts + [must for must in tiny_musts(table) if "n = 4" in must.words]


def suites_make():
    made = [quick_suite(), rate_suite(), tiny_suite()]
    return {suite.name: suite for suite in made}
