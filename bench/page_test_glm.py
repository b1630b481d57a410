# SPDX-License-Identifier: Apache-2.0
"""page_test_glm.py - what the page of glm must show of made results. Words of a label -> way or key of the JSON, here again
and not by glm_page.py's own table."""
import json
import math
import os
import subprocess

from page_made import MACHINE, PROCESSORS, fresh, middle, origin, part, put, tenth, whole

ALLREDUCE = {"latency mode": "sum", "latency mode, kernel": "sum-kernel", "dense mode": "sum-dense", "Open MPI": "sum-mpi"}
TRAINED = {"latency mode": "latency", "latency mode, 1 % lost": "lossy", "dense mode": "dense", "tally (auto)": "auto",
           "tally (auto), kernel": "kernel", "Open MPI": "mpi", "1 rank": "alone", "liblinear": "liblinear",
           "data-parallel, tally": "data", "data-parallel, MPI": "data-mpi"}
EPOCH = {"latency": "latency", "dense": "dense", "auto": "auto", "auto, kernel": "kernel", "Open MPI": "mpi", "1 rank": "alone",
         "liblinear, whole": "liblinear"}
WHY = {"mpi": "no Open MPI (scripts/deps.sh bench)", "liblinear": "no liblinear (scripts/deps.sh test)"}
SIZES = {name: (700 + 130 * i, 11 + i, 3 + i) for i, name in enumerate(
    ("one", "two", "rcv1", "long", "made-rcv1", "made-other"))}  # rows, features, classes
ROWS_OF_PAPER = {"made-rcv1": 20242, "made-other": SIZES["made-other"][0]}
ONE_EPOCH = ("liblinear", "data", "data-mpi")
OVERLAPS = (("2", "8", "250us"), ("4", "119", "0us"))
BITS = ["float32"] + ["%d bits" % bits for bits in range(1, 9)]


class Made:
    """poor: there is no Open MPI, and all models and losses are alike."""

    def __init__(self, folder, poor):
        self.out, self.poor, self.sections, self.lines = os.path.join(folder, "out"), poor, {}, {}
        os.makedirs(self.out)
        for name, words in {"machine": "\n".join(MACHINE + ["MPI 4"]), "files": "one: one.xz\ntwo: two.xz"}.items():
            open(os.path.join(self.out, name), "w").write(words + "\n")
        self.put("latency", [("x", way) for way in ALLREDUCE.values()])
        self.text("sim", [{"workers": n, "hub_bps": hub, "tat_ns": fresh() * 1e3} for n in (2, 4, 8, 16, 32)
                          for _ in range(3) for hub in (0, 10**9)])
        self.put("epoch", [("one", way) for way in EPOCH.values()] + [("two", way) for way in ("auto", "kernel", "alone")])
        self.put("loss", [("one", "latency"), ("one", "lossy")])
        for b in (16, 64):
            self.put("batch-%d" % b, [("rcv1", way) for way in ("auto", "mpi", "data", "data-mpi")] +
                     [("two", "auto"), ("two", "mpi")], batch=b)
        for t in (1, 2):
            self.put("threads-%d" % t, [("one", "auto"), ("two", "auto")])
        for n in (1, 2, 4):
            self.put("ranks-%d" % n, [("one", "auto"), ("rcv1", "auto"), ("rcv1", "data")], batch=16)
        self.put("shapes", [(name, way) for name in ROWS_OF_PAPER for way in ("auto", "mpi")])
        for ranks, micro, delay in OVERLAPS:
            self.put("overlap-%s-%s-%s" % (ranks, micro, delay), [("long", "latency"), ("long", "serial")],
                     output=["# delay: %s held" % delay])
        self.put("curves", [(name, way) for name in ("one", "two") for way in ("auto", "mpi")], count=1)
        self.bits(folder)
        self.text("memory", [{"ranks": n, "kib_most": whole() * 1024, "kib_least": whole() * 1024, "model": self.model(),
                              "epoch_s": fresh(), "rows": 5, "features": 6, "nonzeros": 7} for n in (1, 2, 4)])
        self.text("same", [{"ranks": n, "micro": micro, "loss": [fresh(), fresh()], "model": self.model()}
                           for n in (1, 2) for micro in (8, 64)])
        self.text("accuracy", ["one 11 12 0.1314 0.1516 17.18", "two 21 22 0.2324 0.2526 -"])

    def model(self):
        return "alike" if self.poor else "%x" % whole()

    def text(self, name, lines, **more):
        self.lines[name] = lines
        put(self.out, name, lines, **more)

    def put(self, name, of, batch=64, count=3, output=()):
        of = [(data, way) for data, way in of if not (self.poor and "mpi" in way)]
        losses, operations = [fresh() for _ in range(4)], {}

        def run(data, way):
            if way.startswith("sum"):
                end = {"tat_us_" + key: fresh() for key in ("p1", "median", "p99")}
                return [{**end, "operations": operations.setdefault(way, whole())}, {"joules": None}]
            first, each = fresh(), fresh()
            times = [first / 1e3 + each * i / 1e3 for i in ((0,) if way in ONE_EPOCH else (0, 0.5, 2.1, 3))]
            own = losses if self.poor else [fresh() for _ in times]
            end = dict(zip(("rows", "features", "classes"), SIZES[data]), batch=batch)
            end.update({key: fresh() for key in ("minibatch_us", "compute_us", "exchange_us")})
            if way == "liblinear":
                own, end = [float("nan")], {key: end[key] for key in ("rows", "batch")}
            return [{"loss": loss, "train_s": at} for loss, at in zip(own, times)] + [end] + [
                {"model_sha256": None if way == "liblinear" else self.model(), "joules": fresh(),
                 "seen_lost": [whole(), whole()] if way == "lossy" else None}]

        self.sections[name] = {pair: [run(*pair) for _ in range(count)] for pair in of}
        put(self.out, name, ["# SKIP: " + why for why in WHY.values()] + list(output), runs=self.sections[name],
            shared=["loss"] if self.poor else ())

    def bits(self, folder):
        """bench/glm_bits.sh itself, with a program that prints what was made."""
        tools = os.path.join(folder, "build", "tools")
        os.makedirs(tools)
        self.of_bits = []
        for bits in range(9):
            lines = [{"epoch": e + 1, "loss": part(), "test_accuracy": part()} for e in range(3)]
            lines.append({"layout": "float32", "loss": part(), "test_loss": part(), "test_accuracy": part(), "train_s": part(),
                          "bytes_read_per_epoch": whole() * 1000, "dense_float32_bytes_per_epoch": whole() * 1000})
            self.of_bits.append(lines)
            open(os.path.join(tools, str(bits)), "w").write("".join(json.dumps(line) + "\n" for line in lines))
        with open(os.path.join(tools, "tally"), "w") as file:
            file.write('#!/bin/sh\nbits=0\n[ "$7" != --bits ] || bits=$8\nexec cat "${0%/*}/$bits"\n')
        os.chmod(file.name, 0o755)
        here = os.path.dirname(os.path.abspath(__file__))
        printed = subprocess.run([os.path.join(here, "glm_bits.sh"), "FILE", "TEST", os.path.join(self.out, "bits.svg")],
                                 env={**os.environ, "TALLY_BUILD": os.path.join(folder, "build")}, check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        put(self.out, "bits", printed.strip().split("\n"))

    # ---- what is measured, by section, data and way ----

    def runs(self, section, data, way):
        return self.sections[section].get((data, way), [])

    def names(self, section):
        return sorted({data for data, _ in self.sections[section]})

    def end(self, section, data, way="auto"):
        return self.runs(section, data, way)[0][-2]

    def ends(self, section, data, way, key):
        return [run[-2][key] for run in self.runs(section, data, way)]

    def ms(self, section, data, way):
        """Per epoch, without the first; of one epoch, all of it."""
        found = []
        for run in self.runs(section, data, way):
            times = [line["train_s"] * 1e3 for line in run[:-2]]
            found.append((times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[0])
        return found

    def us(self, section, data, way):
        """Per mini-batch."""
        found = self.ms(section, data, way)
        return middle(found) * 1e3 / math.ceil(self.end(section, data, way)["rows"] / 16) if found else None

    def models(self, section, data):
        return {run[-1]["model_sha256"] for (name, way), runs in self.sections[section].items() for run in runs
                if name == data and way != "liblinear"}

    def simulated(self, ranks, hub):
        return middle(line["tat_ns"] / 1e3 for line in self.lines["sim"] if (line["workers"], line["hub_bps"]) == (ranks, hub))

    def equation(self, i, ranks, data, latency, processors=1):
        """1 to 3 of P4SGD, in us; 125 bytes take one."""
        forward = backward = self.us("ranks-1", data, "auto") / 2 / ranks / processors
        features = SIZES[data][1]
        return latency + (forward + backward / 16 + 4 * features / 125, forward + backward + 16 * 12 / 125,
                          forward * 8 / 16 + backward + 8 * 12 / 125)[i - 1]


def spread(values, form="%.1f (%.1f..%.1f)"):
    return form % (middle(values), min(values), max(values))


def ratio(above, below, form="%.2f", otherwise="-"):
    return form % (above / below) if above and below else otherwise


def latency(made):
    ways = {words: way for words, way in ALLREDUCE.items() if ("x", way) in made.sections["latency"]}

    def us(key):
        return lambda words: tenth(middle(made.ends("latency", "x", ways[words], key)))

    def ends(form, key):
        return lambda words: form % tuple(pick(made.ends("latency", "x", ways[words], key)) for pick in (min, max))

    columns = {
        "over": str, "runs": lambda words: "3", "operations each": lambda words: str(made.end("latency", "x", ways[words])["operations"]),
        "p1 us": us("tat_us_p1"), "median us": us("tat_us_median"), "p99 us": us("tat_us_p99"),
        "p99/p50": lambda words: tenth(middle(run[-2]["tat_us_p99"] / run[-2]["tat_us_median"]
                                              for run in made.runs("latency", "x", ways[words]))),
        "medians": ends("%.0f..%.0f", "tat_us_median"), "p99s": ends("%.0f..%.0f", "tat_us_p99")}
    points = [[words] + [middle(made.ends("latency", "x", way, "tat_us_" + key)) for key in ("median", "p1", "p99")]
              for words, way in ways.items()]
    return origin("latency") + [("p", ["Open MPI: %s." % WHY["mpi"]])] * made.poor + [
        ("p", ["Of each rank's times the percentile, of the ranks the slowest, of the runs the median. Ranks share 3 processors"]),
        ("table", list(ways), columns),
        ("picture", "figure-8.svg", [["", "", "us: median, p1 to p99", "y", {"(yerrorbars)": points}]])]


def simulation(made):
    return origin("sim") + [
        ("p", ["Simulated, not measured"]),
        ("table", [2, 4, 8, 16, 32], {"ranks": str, "us, aggregator without a bound": lambda n: tenth(made.simulated(n, 0)),
                                      "us, aggregator with a port of 1 Gbit/s": lambda n: tenth(made.simulated(n, 10**9))})]


def epoch(made):
    def cell(way):
        def one(data):
            found = made.ms("epoch", data, way)
            return spread(found) if found else WHY.get(way, "not run")
        return one

    def less(way):
        return lambda data: ratio(*(middle(made.ms("epoch", data, of)) for of in ("mpi", way)), otherwise="nothing to compare")

    return origin("epoch") + [
        ("p", ["ms per epoch, the median of 3 runs of each way in turn (least..most)", "all of liblinear-train -s 0, not an epoch"]),
        ("table", ["one", "two"], {
            "data": str, "rows x features": lambda data: "%d x %d" % SIZES[data][:2], "classes": lambda data: str(SIZES[data][2]),
            **{words: cell(way) for words, way in EPOCH.items()}, "MPI/auto": less("auto"), "MPI/kernel": less("kernel"),
            "same model": lambda data: "yes" if len(made.models("epoch", data)) == 1 else "NO"})]


def loss(made):
    ways = {words: TRAINED[words] for words in ("latency mode", "latency mode, 1 % lost")}

    def lost(words):
        found = [run[-1]["seen_lost"] for run in made.runs("loss", "one", ways[words])]
        return "%d of %d" % tuple(sum(pair[i] for pair in found) for i in (1, 0)) if found[0] else "-"

    return origin("loss") + [
        ("p", ["one, ", "All 6 loss curves are %s, and so are the models, by digest: %s." % (
            ("equal to the last digit", "one") if made.poor else ("NOT EQUAL", "6 DIFFERENT ONES"))]),
        ("table", list(ways), {
            "over": str, "runs": lambda words: "3", "ms per epoch": lambda words: tenth(middle(made.ms("loss", "one", ways[words]))),
            "least..most": lambda words: "%.1f..%.1f" % tuple(pick(made.ms("loss", "one", ways[words])) for pick in (min, max)),
            "packets lost": lost, "different models": lambda words: "1" if made.poor else "3"}),
        ("picture", "loss.svg", [["", "epoch", "loss", "", {
            words: curve(made.runs("loss", "one", way)[0], "epoch")
            for words, way in (("without loss", "latency"), ("1 % lost", "lossy"))}]])]


def curve(run, over):
    return [[{"epoch": i + 1, "s": line["train_s"]}[over], line["loss"]] for i, line in enumerate(run[:-2])]


def batches(made):
    def below(data):
        ways = {words: way for words, way in TRAINED.items() if (data, way) in made.sections["batch-16"]}

        def ms(b, way):
            return middle(made.ms("batch-%d" % b, data, way))

        return [
            ("p", ["%s: %d rows, %d features; ms per epoch, medians of 3." % ((data,) + SIZES[data][:2])]),
            ("table", [16, 64], {"B": str, **{words: lambda b, way=way: tenth(ms(b, way)) for words, way in ways.items()},
                                 "data/model over tally": lambda b: ratio(ms(b, "data"), ms(b, "auto"), "%.1f")}),
            ("picture", "figure-9-%s.svg" % data, [["", "B", "ms per epoch", "xy", {
                words: [[b, ms(b, way)] for b in (16, 64)] for words, way in ways.items()}]])]

    return origin("batch-16", "batch-64") + sum(map(below, made.names("batch-16")), [])


def threads(made):
    def ms(t, data):
        return middle(made.ms("threads-%d" % t, data, "auto"))

    return origin("threads-1", "threads-2") + [
        ("p", ["ms per epoch", "medians of 3; 3 processors"]),
        ("table", ["one", "two"], {"data": str, "1 thread": lambda data: tenth(ms(1, data)), "2 threads": lambda data: tenth(ms(2, data)),
                                   "as fast": lambda data: ratio(ms(1, data), ms(2, data))})]


def ranks(made):
    """Figures 12 and 13, and Table I."""
    measured = middle(made.ends("latency", "x", "sum", "tat_us_median"))
    figures = origin("ranks-1", "ranks-2", "ranks-4") + [
        ("p", ["us per mini-batch, micro-batches of 8. Measured: 3 processors for all ranks and the aggregator, so from 3 ranks"])]
    for data in made.names("ranks-1"):
        by = {n: [made.us("ranks-%d" % n, data, "auto") if n <= 4 else None,
                  made.equation(3, n, data, measured) if n > 1 else made.us("ranks-1", data, "auto"),
                  made.equation(3, n, data, made.simulated(n, 10**9)) if n > 1 else None] for n in (1, 2, 4, 8, 16, 32)}
        where = {1: "own", 2: "own", 4: "4 ranks and the aggregator on 3"}
        words = ("measured, 3 processors for all", "computed (Eq. 3, measured latency), a processor each",
                 "computed (Eq. 3, simulated latency), a processor each")
        figures += [
            ("p", ["%s: %d rows, %d features" % ((data,) + SIZES[data][:2])]),
            ("table", list(by), {"ranks": str, "measured us": lambda n, by=by: tenth(by[n][0]),
                                 "Eq. 3, T_l measured": lambda n, by=by: tenth(by[n][1]),
                                 "Eq. 3, T_l simulated": lambda n, by=by: tenth(by[n][2]),
                                 "processors, measured": lambda n, where=where: where.get(n, "-")}),
            ("picture", "figure-12-%s.svg" % data, [["", "ranks", "us per mini-batch", "xy", {
                title: [[n, values[i]] for n, values in by.items() if values[i]] for i, title in enumerate(words)}]])]
    equations = {1: "1: data-parallel", 2: "2: model-parallel, no overlap", 3: "3: model-parallel, overlapped"}
    way = {1: "data", 2: "none", 3: "auto"}
    table = [("p", ["us per mini-batch.", "the median of Figure 8, %.0f us" % measured]),
             ("table", [(data, i) for data in made.names("ranks-1") for i in equations], {
                 "data": lambda key: key[0], "equation": lambda key: equations[key[1]],
                 "a processor each": lambda key: tenth(made.equation(key[1], 4, key[0], measured)),
                 "3 for all": lambda key: tenth(made.equation(key[1], 4, key[0], measured, PROCESSORS / 4)),
                 "measured, 3 for all": lambda key: tenth(made.us("ranks-4", key[0], way[key[1]]))})]
    return figures, table


def shapes(made):
    def times(words, way, form, factor):
        def cell(data):
            ms = middle(made.ms("shapes", data, way))
            return form % (ms * factor(data)) if ms else "-"
        return {words: cell}

    def all_rows(data):
        return ROWS_OF_PAPER[data] / SIZES[data][0] / 1e3

    return origin("shapes") + [
        ("p", ["ms per epoch, medians of 3; the last columns are the measured ones times the rows that are missing"]),
        ("table", sorted(ROWS_OF_PAPER), {
            "data": str, "features": lambda data: str(SIZES[data][1]), "classes": lambda data: str(SIZES[data][2]),
            "rows": lambda data: "%d of %d" % (SIZES[data][0], ROWS_OF_PAPER[data]),
            **times("tally (auto) ms", "auto", "%.1f", lambda data: 1), **times("Open MPI ms", "mpi", "%.1f", lambda data: 1),
            **times("all rows, tally s", "auto", "%.1f", all_rows), **times("all rows, MPI s", "mpi", "%.1f", all_rows)})]


def overlap(made):
    def section(key):
        return "overlap-" + "-".join(key)

    def us(*keys, less=None):
        def found(key):
            sums = [sum(values) for values in zip(*(made.ends(section(key), "long", "latency", of) for of in keys))]
            return [a - b for a, b in zip(sums, made.ends(section(key), "long", "latency", less))] if less else sums
        return found

    def hidden(key):
        us_hidden = middle(us("compute_us", "exchange_us", less="minibatch_us")(key))
        return "%.0f (%.0f %%)" % (us_hidden, 100 * us_hidden / min(middle(us(of)(key)) for of in ("compute_us", "exchange_us")))

    whole_us = "%.0f (%.0f..%.0f)"
    columns = {
        "data": lambda key: "long", "ranks": lambda key: key[0], "us each way": lambda key: key[2][:-2], "B": lambda key: "64",
        "MB": lambda key: key[1], "computation": lambda key: tenth(middle(us("compute_us")(key))),
        "sums": lambda key: tenth(middle(us("exchange_us")(key))),
        "together": lambda key: tenth(middle(us("compute_us", "exchange_us")(key))),
        "mini-batch": lambda key: spread(us("minibatch_us")(key), whole_us),
        "not overlapped": lambda key: spread(made.ends(section(key), "long", "serial", "minibatch_us"), whole_us), "hidden": hidden,
        "ms per epoch": lambda key: tenth(middle(made.ms(section(key), "long", "latency"))),
        "ms per epoch, not overlapped": lambda key: tenth(middle(made.ms(section(key), "long", "serial")))}
    return origin(*(section(key) for key in OVERLAPS)) + [
        ("p", ["us per mini-batch, latency mode.", "medians of 3 runs, least..most", "(3 here, for the aggregator"]),
        ("table", OVERLAPS, columns),
        ("p", ["The links: overlap-2-8-250us: delay: 250us held; overlap-4-119-0us: delay: 0us held."]),
        ("p", ["All runs on the same data have written " + ("the same model, byte" if made.poor else "DIFFERENT MODELS")])]


def curves(made):
    def panel(data, over):
        return ["", over, "loss", "", {"%s %s" % (data, words): curve(runs[0], over) for words, way in TRAINED.items()
                                       for runs in [made.runs("curves", data, way)] if runs}]

    return origin("curves") + [("p", ["Over epochs the curves are %s" % ("one and the same" if made.poor else "NOT the same")])] + [
        ("picture", "figure-14-%s.svg" % data, [panel(data, "epoch"), panel(data, "s")]) for data in ("one", "two")]


def bits(made):
    runs = dict(zip(BITS, made.of_bits))

    def of(key, form):
        return lambda words: form % runs[words][-1][key]

    def against(words):
        end = runs[words][-1]
        return "%.3f" % (end["bytes_read_per_epoch"] / (end["dense_float32_bytes_per_epoch"] * (BITS.index(words) or 32) / 32))

    def panel(label, key, log):
        return ["", "epoch", label, log, {words: [[line["epoch"], line[key]] for line in run[:-1]] for words, run in runs.items()}]

    return origin("bits") + [
        ("p", ["One rank, all defaults"]),
        ("columns", BITS, {"values": str, "loss": of("loss", "%.6f"), "test loss": of("test_loss", "%.6f"),
                           "test accuracy": of("test_accuracy", "%.4f"), "seconds": of("train_s", "%.3f"),
                           "MB an epoch": lambda words: "%.2f" % (runs[words][-1]["bytes_read_per_epoch"] / 1e6),
                           "against bits / 32": against}),
        ("picture", "bits.svg", [panel("training loss", "loss", "y"), panel("test accuracy", "test_accuracy", "")])]


def texts(made):
    """Memory of a rank, the same model, accuracy."""
    memory = {line["ranks"]: line for line in made.lines["memory"]}
    accuracy = {line.split()[0]: line.split() for line in made.lines["accuracy"]}
    one = made.lines["same"][0]["loss"]
    most = max(abs(line["loss"][i] / one[i] - 1) for line in made.lines["same"] for i in (0, 1))

    def of(i):
        return lambda data: accuracy[data][i]

    return (
        origin("memory") + [
            ("p", ["Made rows: 5, 6 features used, 7 non-zeros.", "The models are %s." % (
                "equal, byte for byte" if made.poor else "NOT EQUAL")]),
            ("table", [1, 2, 4], {
                "ranks": str, "resident MiB, at most": lambda n: "%.1f (%.1f)" % tuple(
                    memory[n]["kib_" + key] / 1024 for key in ("most", "least")),
                "bound MiB": lambda n: tenth(memory[1]["kib_most"] / 4096 + 50) if n == 4 else "-",
                "s per epoch": lambda n: "%.2f" % memory[n]["epoch_s"]})],
        origin("same") + [("p", ["1, 2 ranks with micro-batches of 8, 64: 4 runs of 2 epochs. Their losses differ by %g at most" % most,
                                 "their models are %s." % ("one, byte for byte" if made.poor else "NOT EQUAL")])],
        origin("accuracy") + [
            ("p", ["all defaults; liblinear-train -s 0 on the same rows"]),
            ("table", ["one", "two"], {
                "data": str, "rows trained with": of(1), "classes": of(2), "on these": of(3), "tally": of(4),
                "liblinear": lambda data: {"one": "0.1718", "two": "not installed"}[data],
                "points more": lambda data: {"one": "-2.02", "two": "-"}[data]})])


def energy(made):
    keys = [(data, words) for data in ("one", "two") for words in (
        "latency mode", "dense mode", "tally (auto)", "tally (auto), kernel", "Open MPI", "1 rank", "liblinear")
            if made.runs("epoch", data, TRAINED[words])]
    return [("p", ["Joules of a whole run of the section on time per epoch"]),
            ("table", keys, {"data": lambda key: key[0], "over": lambda key: key[1], "joules": lambda key: tenth(
                middle(run[-1]["joules"] for run in made.runs("epoch", key[0], TRAINED[key[1]])))})]


def spec(made):
    """What must be below each title, in order."""
    figures, table_1 = ranks(made)
    memory, same, accuracy = texts(made)
    return {
        "tally glm: measured": [("p", ["a processor, 3 processors, Linux 6; commit abc123, begun 2026-01-01 00:00:00 UTC. MPI 4."]),
                                ("p", ["Files: one: one.xz; two: two.xz"])],
        "Figure 8: latency of an allreduce of 8 x int32, 4 ranks": latency(made),
        "8 x int32 by the simulator": simulation(made),
        "Time per epoch, 4 ranks, mini-batches of 64": epoch(made),
        "1 % of the packets lost, on every link, both ways": loss(made),
        "Figures 9 and 10: mini-batch size, data- against model-parallel, 4 ranks": batches(made),
        "Figure 11: threads, one rank": threads(made),
        "Figures 12 and 13: ranks, mini-batches of 16": figures,
        "Table I: Equations 1 to 3 against what was measured, 4 ranks, mini-batches of 16": table_1,
        "Table II: the paper's data sets, as stand-ins, 4 ranks, mini-batches of 64": shapes(made),
        "Overlap: a mini-batch against the sum of its parts": overlap(made),
        "Figures 14 and 15: loss over epochs, and over time": curves(made),
        "Few bits": bits(made), "Memory of a rank": memory, "The same model for any ranks and micro-batches": same,
        "Accuracy on rows that were not trained with": accuracy, "Table IV: energy": energy(made)}
