# SPDX-License-Identifier: Apache-2.0
"""compare_suites.py - what bench/compare can measure: suites of groups. A group is a lab (so many workers, one rate) and the
cells that are run in it in turn; a cell is one way with one work. Each suite knows what it must show."""
import resnet50_trace
from compare_read import Must, best, find, line_us, ratio, rate_bps

BIG = 25000000  # 100 MB, as SwitchML has it
LOSS_ELEMENTS = 10000000  # where links are slow
SIZES = {"64 KB": 16384, "256 KB": 65536, "1 MB": 262144}
LOSSES = (0, 0.001, 0.01)


def cell(way, ranks, elements, rate="1gbit", dtype="float32", iters=None, warmup=None, loss=0, lanes=None, offload=True, host=False,
         congestion=None, options=(), timeout_s=300, has_timeline=False,
         trace=None, gpu_speed=None, beside=False):
    return {"way": way, "ranks": ranks, "elements": list(elements), "rate": None if host else rate, "dtype": dtype, "iters": iters,
            "warmup": warmup, "loss": loss, "lanes": lanes, "offload": offload, "host": host,
            "congestion": congestion or (way.split("@")[1] if "@" in way else None), "options": list(options),
            "timeout_s": timeout_s, "has_timeline": has_timeline, "trace": trace, "gpu_speed": gpu_speed, "beside": beside}


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


RINGS = ("gloo-ring", "mpi-ring")  # the best there is for large vectors
PEERS = RINGS + ("gloo-hd", "gloo-bcube", "mpi")
OTHERS = PEERS + ("gloo-ring@bbr", "gloo-ring@cubic", "ps", "ps-colocated")  # may fail: then their runs are void

# ---- 1: one large vector ----


def rate_musts(table):
    musts = []
    for ranks, rate in (2, "1gbit"), (4, "1gbit"), (8, "1gbit"), (8, "100mbit"):
        at = {"ranks": ranks, "rate": rate, "elements": BIG, "dtype": "float32"}
        took = find(table, "us", way="tally", **at)
        words = "%d M float32, n = %d, %s: " % (BIG / 1e6, ranks, rate)
        musts.append(Must(words + "share of the link's limit", ratio(line_us(BIG, rate_bps(rate)), took), least=0.985))
        if ranks > 2:
            musts.append(Must(words + "tally over the best peer", ratio(best(table, "us", PEERS if rate == "1gbit" else RINGS, **at), took),
                              least=1.72 if ranks == 8 else 1.48))
    return musts


def rate_suite():
    groups = [star(n, "1gbit", ["tally", *PEERS, "ps", "ps-colocated"], [BIG], iters=3, warmup=1) for n in (2, 4, 8)]
    groups.append(star(8, "100mbit", ["tally", *RINGS], [BIG], iters=1, warmup=0))
    return Suite("rate", "SwitchML's Figure 3: 25 M float32, elements per second", groups, rate_musts)


# ---- 2: sizes back to back ----


def sizes_musts(table):
    musts = []
    for name, elements in SIZES.items():
        at = {"ranks": 8, "rate": "1gbit", "elements": elements}
        took = find(table, "us", way="tally", dtype="float32", **at)
        words = "%s float32 back to back, n = 8: " % name
        musts.append(Must(words + "time over the link's", ratio(took, line_us(elements, 1e9)), most=1.03))
        musts.append(Must(words + "time over the best peer's",
                          ratio(took, best(table, "us", PEERS, dtype="float32", **at)), most=0.6))
    return musts


def sizes_suite():
    group = star(8, "1gbit", ["tally", *PEERS], SIZES.values(), iters=200, warmup=20)
    group.cells += with_against([cell("tally", 8, SIZES.values(), dtype="int32", iters=200, warmup=20)])
    return Suite("sizes", "64 KB, 256 KB and 1 MB, one after the other, 8 ranks", [group], sizes_musts)


# ---- 3: the processor ----


def processor_musts(table):
    musts = []
    for ranks, workers, machine in (4, 0.85, 1.4), (8, 0.75, 0.9):
        at = {"ranks": ranks, "rate": "1gbit", "elements": BIG, "dtype": "float32"}
        for figure, most, words in ("worker_s", workers, "workers alone"), ("machine_s", machine, "the whole machine"):
            musts.append(Must("processor, %d M float32, n = %d: %s over Gloo's ring" % (BIG / 1e6, ranks, words),
                              ratio(find(table, figure, way="tally", **at), find(table, figure, way="gloo-ring", **at)), most=most))
    return musts


def processor_suite():
    groups = [star(n, "1gbit", ["tally", *RINGS], [BIG], iters=3, warmup=1) for n in (4, 8)]
    return Suite("processor", "processor seconds of 25 M float32: workers, tallyd, the whole machine", groups, processor_musts)


def beside_musts(table):
    at = {"ranks": 4, "rate": "250mbit", "elements": LOSS_ELEMENTS, "dtype": "float32"}
    beside = {"options": "beside multiply", **at}
    speed, gloo = (find(table, "multiplied", way=way, **beside) for way in ("tally", "gloo-ring"))
    times = [find(table, "us", way="tally", **beside), find(table, "us", way="tally", options="", **at)]
    return [Must("10 M float32, n = 4, 250 Mbit/s: multiplications beside it over those beside Gloo's", ratio(speed, gloo), least=0.9),
            Must("10 M float32, n = 4, 250 Mbit/s: time beside multiplications over time alone", ratio(*times), most=1.1)]


def beside_suite():
    cells = [cell(way, 4, [LOSS_ELEMENTS], "250mbit", iters=3, warmup=1, beside=beside)
             for beside in (False, True) for way in ("tally", "gloo-ring")]
    return Suite("beside", "beside multiplications of matrices on every core", [Group(4, "250mbit", with_against(cells))], beside_musts)


def idle_musts(table):
    return [Must("all ranks but one wait for it, n = %d: cores, tallyd included" % ranks, find(table, "cores", way="tally", ranks=ranks),
                 most=0.01) for ranks in (2, 4, 8)]


def idle_suite():
    groups = [Group(n, "1gbit", with_against([cell("tally", n, [1024], iters=3, warmup=1, trace="late", gpu_speed=1)])) for n in (2, 4, 8)]
    return Suite("idle", "waiting for a rank that computes for 3 s", groups, idle_musts)


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


# ---- 5: loss ----


def loss_musts(table):
    musts = []
    for loss, most in (0.001, 1.006), (0.01, 1.03):
        for way, bound in ("tally", most), ("gloo-ring@bbr", None), ("gloo-ring@cubic", None):
            took = {p: find(table, "us", way=way, loss=p, ranks=4, rate="250mbit", elements=LOSS_ELEMENTS) for p in (0, loss)}
            over = ratio(took[loss], took[0])
            if bound:
                musts.append(Must("%.1f %% lost, n = 4, 250 Mbit/s: time over none, %s" % (100 * loss, way), over, most=bound))
            elif over is not None:
                musts.append(Must("    %.1f %% lost: beside it %s" % (100 * loss, way), over))
    return musts


def loss_suite():
    cells = [cell(way, 4, [LOSS_ELEMENTS], "250mbit", iters=2, warmup=1, loss=loss, offload=False)
             for loss in LOSSES for way in ("tally", "gloo-ring@bbr", "gloo-ring@cubic")]
    return Suite("loss", "SwitchML's Figure 6: time with packets lost both ways over time with none",
                 [Group(4, "250mbit", with_against(cells))], loss_musts)


# ---- 7: faster links ----


def fast_musts(table):
    musts = []
    for ranks, rate, least in (8, "2.5gbit", 1.6), (4, "5gbit", 1.25):
        at = {"ranks": ranks, "rate": rate, "elements": BIG, "dtype": "float32"}
        musts.append(Must("25 M float32, n = %d, %s: tally over Gloo's ring" % (ranks, rate),
                          ratio(find(table, "us", way="gloo-ring", **at), find(table, "us", way="tally", **at)), least=least))
    return musts


def fast_suite():
    groups = [star(n, rate, ["tally", "gloo-ring"], [BIG], iters=3, warmup=1) for n, rate in ((8, "2.5gbit"), (4, "5gbit"))]
    return Suite("fast", "25 M float32 on links of 2.5 and 5 Gbit/s", groups, fast_musts)


# ---- 8: what else there is, beside the tree before ----


def modes_musts(table):
    made = []
    for words, figure, mine, other in (("latency mode, 8 int32", "median_us", "tally", "against"), ("tables of keys", "us", "sparse", "sparse-against")):
        for ranks in 2, 4, 8:
            took, before = (find(table, figure, way=way, ranks=ranks) for way in (mine, other))
            made.append(Must("%s, n = %d: rate over the other build's" % (words, ranks), ratio(before, took), least=0.98))
    return made


def modes_suite():
    """Of use with --against alone."""
    groups = []
    for n in 2, 4, 8:
        cells = [cell(way, n, [8], dtype="int32", iters=10000, options=["--latency-slots", "64"]) for way in ("tally", "against")]
        cells += [cell(way, n, [1000], dtype="int32", iters=4000) for way in ("sparse", "sparse-against")]
        groups.append(Group(n, "1gbit", cells))
    return Suite("modes", "latency mode and tables of keys; with --against", groups, modes_musts)


# ---- figures that nothing is demanded of ----


def none_musts(table):
    return []


def lanes_suite():
    groups = [Group(n, "1gbit", with_against([cell("tally", n, [BIG], iters=2, warmup=1, lanes=lanes) for lanes in (64, 256, 360)]))
              for n in (2, 4, 8)]
    return Suite("lanes", "SwitchML's Figure 3: packets of 64, 256 and 360 lanes", groups, none_musts)


def scale_suite():
    """8 B to 1 GB, by eight. 1 GB at 1 Gbit/s takes 9 s."""
    small, large = [2 * 8 ** i for i in range(7)], [2 * 8 ** i for i in range(7, 9)]
    ways = ["tally", "gloo-ring", "gloo-hd", "mpi", "mpi-ring"]
    groups = []
    for n in 2, 4, 8:
        cells = [cell(way, n, small) for way in ways] + [cell(way, n, large, iters=1, warmup=0) for way in ways]
        if n == 4:
            cells += [cell(way, n, [1 << 28], iters=1, warmup=0) for way in ("tally", "gloo-ring")]
        groups.append(Group(n, "1gbit", with_against(cells)))
    return Suite("scale", "time against size, 8 B to 1 GB, 2 to 8 ranks", groups, none_musts)


def pool_suite():
    windows = [2 ** i for i in range(3, 11)]
    cells = [cell("tally", 4, [BIG // 5], iters=2, warmup=1, options=["--window", str(window)]) for window in windows]
    return Suite("pool", "SwitchML's Figure 9: time against the packets on their way", [Group(4, "1gbit", cells)], none_musts)


def timeline_suite():
    cells = [cell("tally", 4, [LOSS_ELEMENTS // 2], "250mbit", iters=1, warmup=0, loss=loss, offload=False, has_timeline=True)
             for loss in (0, 0.0001, 0.01)]
    return Suite("timeline", "SwitchML's Figure 7: packets sent in 10 ms, with 0, 0.01 and 1 % lost", [Group(4, "250mbit", cells)], none_musts)


# ---- steps of a training ----


def trace_sizes(trace):
    """Elements of each layer of a trace; None: the made one of ResNet-50."""
    if not trace:
        return [size for size, _ in resnet50_trace.tensors()]
    with open(trace) as file:
        return [int(line.split(",")[1]) for line in file if line[:1].isdigit()]


def replay_words(gpu_speed, is_blocking=False):
    """How a run says what it was: part of its key."""
    return ("--blocking " if is_blocking else "") + "--gpu-speed %g" % gpu_speed


def replay_suite(trace=None):
    sizes = trace_sizes(trace)
    cells = []
    for speed in 0, 1, 10:
        more = {"iters": 3, "warmup": 1, "trace": trace or "resnet50", "gpu_speed": speed}
        cells += [cell(way, 8, [sum(sizes)], **more) for way in ("tally", *RINGS)]
        if not speed:
            cells.append(cell("tally", 8, [sum(sizes)], options=["--blocking"], **more))

    def musts(table):
        line = sum(line_us(size, 1e9) for size in sizes)
        made = []
        for is_blocking, least, words in (False, 0.97, "one stream"), (True, 0.93, "blocking calls"):
            took = find(table, "us", way="tally", options=replay_words(0, is_blocking))
            made.append(Must("%d tensors as %s, n = 8: share of the link's limit" % (len(sizes), words), ratio(line, took), least=least))
        for speed in 1, 10:
            took = find(table, "us", way="tally", options=replay_words(speed))
            peer = best(table, "us", RINGS, options=replay_words(speed))
            made.append(Must("    GPU %d times as fast, n = 8: a step beside the best peer's" % speed, ratio(peer, took)))
        return made

    return Suite("replay", "SwitchML's Figure 4: steps of ResNet-50's training, or of --trace", [Group(8, "1gbit", cells)], musts)


def host_suite():
    groups = []
    for n in 2, 4, 8:
        cells = [cell(way, n, [8, 16384, 262144, BIG // 5], host=True, iters=None, dtype="float32")
                 for way in ("tally-host", "mpi", "gloo-ring")]
        groups.append(Group(n, None, cells))
    return Suite("host", "ranks on one host: shared memory", groups, none_musts)


def quick_suite():
    """Two minutes."""
    cells = [cell(way, 4, [BIG // 10], iters=15, warmup=3) for way in ("tally", *RINGS)]
    cells += [cell(way, 4, [16384, 262144], iters=100, warmup=10) for way in ("tally", "gloo-ring")]
    tiny = tiny_group(4).cells[:-1]
    return Suite("quick", "daily use: 10 MB, 64 KB, 1 MB and 8 elements, 4 ranks, 1 Gbit/s, two minutes",
                 [Group(4, "1gbit", with_against(cells) + tiny)], quick_musts)


def quick_musts(table):
    """What the other suites must show, of as much as was measured here."""
    at = {"ranks": 4, "rate": "1gbit", "elements": BIG // 10, "dtype": "float32"}
    took = find(table, "us", way="tally", **at)
    musts = [Must("10 MB float32, n = 4: share of the link's limit", ratio(line_us(BIG // 10, 1e9), took), least=0.985),
             Must("10 MB float32, n = 4: tally over the best peer", ratio(best(table, "us", RINGS, **at), took), least=1.48)]
    for figure, most, words in ("worker_s", 0.85, "workers"), ("machine_s", 1.4, "the machine"):
        musts.append(Must("10 MB float32, n = 4: processor of %s over Gloo's ring" % words,
                          ratio(find(table, figure, way="tally", **at), find(table, figure, way="gloo-ring", **at)), most=most))
    for name in "64 KB", "1 MB":
        took = find(table, "us", ranks=4, way="tally", dtype="float32", elements=SIZES[name])
        musts.append(Must("%s float32 back to back, n = 4: time over the link's" % name, ratio(took, line_us(SIZES[name], 1e9)),
                          most=1.03))
    return musts + [must for must in tiny_musts(table) if "n = 4" in must.words]


def suites_make(trace=None):
    made = [quick_suite(), rate_suite(), sizes_suite(), processor_suite(), beside_suite(), idle_suite(), tiny_suite(), loss_suite(), fast_suite(), modes_suite(),
            lanes_suite(), scale_suite(), pool_suite(), timeline_suite(), replay_suite(trace), host_suite()]
    return {suite.name: suite for suite in made}
