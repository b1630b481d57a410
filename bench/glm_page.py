#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""glm_page.py OUT_DIR - the page of bench/glm_page.sh: OUT_DIR/glm.html with all pictures in it, of what OUT_DIR has.
OUT_DIR/glm.md has its tables as text. A section that was not measured, or failed, is named as such."""
import glob
import html
import json
import os
import re

import page
from page import CORES, OUT, block, curves, embed, median, numbered, origin, output, picture, say, show, table, title

LANES = 3  # int32 of an activation, --wire fixed64
LINK_BYTES_US = 125  # 1 Gbit/s


class Run:
    """What one run of bench/glm.sh has printed."""

    def __init__(self, path):
        self.name, self.way, _ = os.path.basename(path)[:-5].rsplit(".", 2)
        lines = [json.loads(line) for line in open(path)]
        self.meta, self.end = lines[-1], lines[-2]
        self.epochs = lines[:-2]
        self.loss = [epoch["loss"] for epoch in self.epochs]
        self.times = [epoch["train_s"] for epoch in self.epochs]

    def epoch_ms(self):
        """Of all epochs but the first, in which the micro-batch is measured; of one, if there is no other."""
        times = [0] + self.times
        first = min(1, len(times) - 2)
        return (times[-1] - times[first]) / (len(times) - 1 - first) * 1e3

    def batch_us(self):
        return self.epoch_ms() * 1e3 / -(-self.end["rows"] // self.end["batch"])


class Section(page.Section):
    def __init__(self, name):
        super().__init__(name)
        self.runs = [Run(path) for path in sorted(glob.glob(self.at + "/*.json"))] if self.is_good else []

    def of(self, name, way):
        return [run for run in self.runs if (run.name, run.way) == (name, way)]

    def names(self):
        return sorted({run.name for run in self.runs})

    def ways(self, name):
        order = ["latency", "serial", "lossy", "dense", "auto", "kernel", "mpi", "alone", "liblinear", "data", "data-mpi"]
        return sorted({run.way for run in self.runs if run.name == name}, key=order.index)

    def without(self):
        """Why ways are not there, by what bench/glm.sh says that it does without."""
        words = {"Open MPI": ("mpi", "data-mpi", "sum-mpi"), "kernel": ("kernel", "sum-kernel"), "liblinear": ("liblinear",)}
        lines = [line[8:] for line in self.read("output").splitlines() if line.startswith("# SKIP: ")]
        return {way: line for line in lines for word, ways in words.items() if word in line for way in ways}


WAYS = {"latency": "latency mode", "dense": "dense mode", "auto": "tally (auto)", "kernel": "tally (auto), kernel", "mpi": "Open MPI",
        "data": "data-parallel, tally", "data-mpi": "data-parallel, MPI", "lossy": "latency mode, 1 % lost",
        "serial": "not overlapped", "alone": "1 rank", "liblinear": "liblinear", "sum": "latency mode", "sum-kernel": "latency mode, kernel",
        "sum-dense": "dense mode", "sum-mpi": "Open MPI"}


def latency_us():
    """T_l: the median of 8 x int32, or None."""
    return median(run.end["tat_us_median"] for run in Section("latency").runs if run.way == "sum")


def simulated_us():
    """By ranks: the simulator's median of 8 x int32, with an aggregator without bounds and with a port of 1 Gbit/s."""
    section, times = Section("sim"), {}
    for line in section.read("output").splitlines() if section.is_good else ():
        run = json.loads(line)
        times.setdefault(run["workers"], {}).setdefault(run["hub_bps"], []).append(run["tat_ns"] / 1e3)
    return {n: [median(hubs[hub]) for hub in sorted(hubs)] for n, hubs in sorted(times.items())}


def simulated():
    title("8 x int32 by the simulator")
    if not origin("sim"):
        return
    say("Simulated, not measured: `tally sim`, the shipped workers and switch program over cables of 1 Gbit/s and 1 us, a "
        "worker looking every 5 us at what has come. Medians of 25 seeds. A processor's time for a packet is not in it: what "
        "Figure 8 has above this is the processors'.")
    table(["ranks", "us, aggregator without a bound", "us, aggregator with a port of 1 Gbit/s"],
          [[str(n)] + times for n, times in simulated_us().items()])


def figure_8():
    title("Figure 8: latency of an allreduce of 8 x int32, 4 ranks")
    if not origin("latency"):
        return
    section, rows = Section("latency"), []
    for way in ("sum", "sum-kernel", "sum-dense", "sum-mpi"):
        ends = [run.end for run in section.runs if run.way == way]
        if not ends:
            say("%s: %s." % (WAYS[way], section.without().get(way, "not run")))
            continue
        p1, p50, p99 = (median(end["tat_us_" + name] for end in ends) for name in ("p1", "median", "p99"))
        all_p50, all_p99 = ([end["tat_us_" + name] for end in ends] for name in ("median", "p99"))
        spread = median(end["tat_us_p99"] / end["tat_us_median"] for end in ends)
        rows.append([WAYS[way], str(len(ends)), str(ends[0]["operations"]), p1, p50, p99, spread,
                     "%.0f..%.0f" % (min(all_p50), max(all_p50)), "%.0f..%.0f" % (min(all_p99), max(all_p99))])
    say("One operation at a time, without loss; every sum verified. Of each rank's times the percentile, of the ranks "
        "the slowest, of the runs the median. Ranks share %d processors: tally waits in the kernel, MPI polls and "
        "yields." % CORES)
    table(["over", "runs", "operations each", "p1 us", "median us", "p99 us", "p99/p50", "medians", "p99s"], rows)
    script = block("d", [[i + 1, row[3], row[4], row[5], row[0]] for i, row in enumerate(rows)])
    picture("figure-8", script + "set ylabel 'us: median, p1 to p99'; set logscale y; unset key; set xrange [0.5:%d.5]\n"
            "plot $d using 1:3:2:4:xtic(5) with yerrorbars pointtype 7 linewidth 2" % len(rows), "600,420")


def epoch_table(section):
    rows = []
    for name in section.names():
        auto = median(run.epoch_ms() for run in section.of(name, "auto"))
        kernel = median(run.epoch_ms() for run in section.of(name, "kernel"))
        mpi = median(run.epoch_ms() for run in section.of(name, "mpi"))
        end = section.of(name, section.ways(name)[0])[0].end
        row = [name, "%d x %d" % (end["rows"], end["features"]), str(end["classes"])]
        for way in ("latency", "dense", "auto", "kernel", "mpi", "alone", "liblinear"):
            all_ms = [run.epoch_ms() for run in section.of(name, way)]
            row.append("%.1f (%.1f..%.1f)" % (median(all_ms), min(all_ms), max(all_ms)) if all_ms else section.without().get(way, "not run"))
        digests = {run.meta["model_sha256"] for run in section.runs if run.name == name and run.way != "liblinear"}
        rows.append(row + ["%.2f" % (mpi / tally) if mpi and tally else "nothing to compare" for tally in (auto, kernel)] +
                    ["yes" if len(digests) == 1 else "NO"])
    table(["data", "rows x features", "classes", "latency", "dense", "auto", "auto, kernel", "Open MPI", "1 rank", "liblinear, whole",
           "MPI/auto", "MPI/kernel", "same model"], rows)


def epochs():
    title("Time per epoch, 4 ranks, mini-batches of 64")
    if not origin("epoch"):
        return
    section = Section("epoch")
    say("ms per epoch, the median of %d runs of each way in turn (least..most). Same model: the files that all runs have "
        "written are equal, byte for byte. Kernel: tallyd --engine kernel. 1 rank: alone, without a network. liblinear: all of "
        "liblinear-train -s 0, not an epoch, reading the file included." % len(section.of(section.names()[0], "auto")))
    epoch_table(section)


def loss():
    title("1 % of the packets lost, on every link, both ways")
    if not origin("loss"):
        return
    section, rows = Section("loss"), []
    name = section.names()[0]
    for way in ("latency", "lossy"):
        runs = section.of(name, way)
        seen, lost = (sum((run.meta["seen_lost"] or [0, 0])[i] for run in runs) for i in (0, 1))
        rows.append([WAYS[way], str(len(runs)), median(run.epoch_ms() for run in runs),
                     "%.1f..%.1f" % (min(run.epoch_ms() for run in runs), max(run.epoch_ms() for run in runs)),
                     "%d of %d" % (lost, seen) if seen else "-", str(len({run.meta["model_sha256"] for run in runs}))])
    lines = {tuple(run.loss) for run in section.runs}
    digests = {run.meta["model_sha256"] for run in section.runs}
    say("%s, segmentation offload off for both. All %d loss curves are %s, and so are the models, by digest: %s." % (
        name, len(section.runs), "equal to the last digit" if len(lines) == 1 else "NOT EQUAL",
        "one" if len(digests) == 1 else "%d DIFFERENT ONES" % len(digests)))
    table(["over", "runs", "ms per epoch", "least..most", "packets lost", "different models"], rows)
    one, other = section.of(name, "latency")[0].loss, section.of(name, "lossy")[0].loss
    curves("loss", range(1, len(one) + 1), {"without loss": one, "1 % lost": other}, "set xlabel 'epoch'; set ylabel 'loss'")


def sections_of(prefix):
    """Sections prefix-N, by N."""
    return {n: Section("%s-%d" % (prefix, n)) for n in numbered(prefix)}


def figures_9_10():
    title("Figures 9 and 10: mini-batch size, data- against model-parallel, 4 ranks")
    sections = sections_of("batch")
    if not origin(*("batch-%d" % b for b in sections)) or not sections:
        return
    for name in next(iter(sections.values())).names():
        ways = next(iter(sections.values())).ways(name)
        series = {WAYS[way]: [median(run.epoch_ms() for run in section.of(name, way)) for section in sections.values()]
                  for way in ways}
        first = next(iter(sections.values())).of(name, ways[0])[0].end
        say("%s: %d rows, %d features; ms per epoch, medians of %d." % (
            name, first["rows"], first["features"], len(next(iter(sections.values())).of(name, "auto"))))
        rows = []
        for i, b in enumerate(sections):
            row = [ys[i] for ys in series.values()]
            data = series.get(WAYS["data"], [None] * len(sections))[i]
            rows.append([str(b)] + row + ["%.1f" % (data / series[WAYS["auto"]][i]) if data else "-"])
        table(["B"] + list(series) + ["data/model over tally"], rows)
        curves("figure-9-" + name, list(sections), series, "set xlabel 'B'; set ylabel 'ms per epoch'", "xy")


def figure_11():
    title("Figure 11: threads, one rank")
    sections = sections_of("threads")
    if not origin(*("threads-%d" % t for t in sections)) or not sections:
        return
    rows, one = [], next(iter(sections.values()))
    for name in one.names():
        times = [median(run.epoch_ms() for run in section.of(name, "auto")) for section in sections.values()]
        rows.append([name] + times + ["%.2f" % (times[0] / times[-1])])
    say("ms per epoch, mini-batches of 64, medians of %d; %d processors." % (len(one.of(rows[0][0], "auto")), CORES))
    table(["data"] + ["%d thread%s" % (t, "s" * (t > 1)) for t in sections] + ["as fast"], rows)


def equations(batch, micro, compute_us, ranks, features, cores_each, fixed):
    """Equations 1 to 3 in us of a mini-batch. compute_us: one rank's, half of it taken for each direction. Bytes: an
    activation's lanes, a gradient's float32, over a link that each rank has for itself. fixed: T_l."""
    forward = backward = compute_us / 2 / ranks / cores_each
    return (forward + backward / batch + features * 4 / LINK_BYTES_US + fixed,
            forward + backward + batch * LANES * 4 / LINK_BYTES_US + fixed,
            micro / batch * forward + backward + micro * LANES * 4 / LINK_BYTES_US + fixed)


def figures_12_13():
    title("Figures 12 and 13: ranks, mini-batches of 16")
    sections = sections_of("ranks")
    if not origin(*("ranks-%d" % n for n in sections)) or not sections or 1 not in sections:
        return
    if latency_us() is None:
        say("No latency was measured (section latency), so nothing can be computed.")
        return
    say("us per mini-batch, micro-batches of 8. Measured: %d processors for all ranks and the aggregator, so from %d ranks "
        "on they share them. Computed, Eq. 3: as if each rank had a processor of its own; from one rank's measured "
        "computation (half for each direction) and a latency of 8 x int32: the measured one of 4 ranks, and the simulated one "
        "of as many ranks, which is the network's alone (an aggregator with a port of 1 Gbit/s)." % (CORES, CORES))
    for name in sections[1].names():
        compute = median(run.batch_us() for run in sections[1].of(name, "auto"))
        end = sections[1].of(name, "auto")[0].end
        by_ranks = simulated_us()
        ranks = sorted(set(sections) | {8, 16, 32})
        measured = [median(run.batch_us() for run in sections[n].of(name, "auto")) if n in sections else None for n in ranks]
        eq_3 = [equations(16, 8, compute, n, end["features"], 1, latency_us())[2] if n > 1 else compute for n in ranks]
        eq_3_sim = [None if n not in by_ranks else equations(16, 8, compute, n, end["features"], 1, by_ranks[n][-1])[2]
                    for n in ranks]
        shares = ["own" if n < CORES else "%d ranks and the aggregator on %d" % (n, CORES) for n in ranks]
        say(name + ": %d rows, %d features" % (end["rows"], end["features"]))
        table(["ranks", "measured us", "Eq. 3, T_l measured", "Eq. 3, T_l simulated", "processors, measured"],
              [[str(n), measured[i], eq_3[i], eq_3_sim[i], shares[i] if measured[i] else "-"] for i, n in enumerate(ranks)])
        curves("figure-12-" + name, ranks, {"measured, %d processors for all" % CORES: measured,
               "computed (Eq. 3, measured latency), a processor each": eq_3,
               "computed (Eq. 3, simulated latency), a processor each": eq_3_sim},
               "set xlabel 'ranks'; set ylabel 'us per mini-batch'", "xy")


def table_1():
    title("Table I: Equations 1 to 3 against what was measured, 4 ranks, mini-batches of 16")
    sections = sections_of("ranks")
    if 4 not in sections or 1 not in sections or latency_us() is None:
        say("Needs the sections latency, ranks-1 and ranks-4.")
        return
    rows = []
    for name in sections[1].names():
        compute = median(run.batch_us() for run in sections[1].of(name, "auto"))
        end = sections[1].of(name, "auto")[0].end
        own = equations(16, 8, compute, 4, end["features"], 1, latency_us())
        shared = equations(16, 8, compute, 4, end["features"], min(1, CORES / 4), latency_us())
        for i, words in enumerate(("1: data-parallel", "2: model-parallel, no overlap", "3: model-parallel, overlapped")):
            way = "data" if i == 0 else "auto"
            runs = sections[4].of(name, way)
            rows.append([name, words, own[i], shared[i], median(run.batch_us() for run in runs) if i != 1 else "-"])
    say("us per mini-batch. T_f + T_b: one rank's, alone, half each; D / BW: float32 of a gradient, B / BW: 12 bytes per "
        "activation, over 1 Gbit/s; T_l: the median of Figure 8, %.0f us. The equations are of hardware, where forward "
        "and backward have units of their own; here they share a processor, and the processor also sends and receives." % latency_us())
    table(["data", "equation", "a processor each", "%d for all" % CORES, "measured, %d for all" % CORES], rows)


def table_2():
    title("Table II: the paper's data sets, as stand-ins, 4 ranks, mini-batches of 64")
    if not origin("shapes"):
        return
    full = {"made-real_sim": 72309, "made-rcv1": 20242, "made-amazon_fashion": 200000, "made-avazu": 40428967}
    section = Section("shapes")
    say("Made rows with the features and classes of the paper's, fewer rows; non-zeros per row of the real ones where "
        "they are known (51, 74, 15), 30 for amazon_fashion. ms per epoch, medians of %d; the last columns are the "
        "measured ones times the rows that are missing: computed, not measured." % len(
            section.of(section.names()[0], "auto")))
    rows = []
    for name in section.names():
        end = section.of(name, "auto")[0].end
        times = [median(run.epoch_ms() for run in section.of(name, way)) for way in ("auto", "mpi")]
        more = full.get(name, end["rows"]) / end["rows"]
        rows.append([name, str(end["features"]), str(end["classes"]), "%d of %d" % (end["rows"], full.get(name, end["rows"]))]
                    + times + ["%.1f" % (time * more / 1e3) if time else "-" for time in times])
    table(["data", "features", "classes", "rows", "tally (auto) ms", "Open MPI ms", "all rows, tally s", "all rows, MPI s"],
          rows)


def overlap():
    title("Overlap: a mini-batch against the sum of its parts")
    names = [os.path.basename(os.path.dirname(path)) for path in glob.glob(os.path.join(OUT, "overlap-*-*-*us", "status"))]
    names.sort(key=lambda name: [int(number) for number in re.findall("[0-9]+", name)])
    if not origin(*names) or not names:
        return
    say("us per mini-batch, latency mode. Alone: its computation, and its sums. Then as it is, and with --no-overlap, where "
        "nothing is computed while a packet travels (ways in turn; medians of %d runs, least..most). Hidden: computation and "
        "sums less the mini-batch; in brackets, of the smaller of the two, which is all that can be. Below 0 where ranks that "
        "share processors (%d here, for the aggregator and the links as well) wait for one another. Measured as --json's "
        "minibatch_us, compute_us and exchange_us are. Links hold every packet so long each way (lab/delay.c): that takes time "
        "and hardly a processor, as a cable does." % (
            len(Section(names[0]).of(Section(names[0]).names()[0], "latency")), CORES))
    rows, digests, lines = [], {}, []
    for name in names:
        _, ranks, micro, delay = name.split("-")
        section = Section(name)
        lines += ["%s: %s" % (name, line[2:]) for line in section.read("output").splitlines() if line.startswith("# delay:")]
        assert all(run.end["rows"] >= run.end["batch"] for run in section.runs), "no whole mini-batch"
        for data in section.names():
            piped, serial = section.of(data, "latency"), section.of(data, "serial")
            compute, sums = (median(run.end[part] for run in piped) for part in ("compute_us", "exchange_us"))
            both = [run.end["compute_us"] + run.end["exchange_us"] for run in piped]
            whole, alone = ([run.end["minibatch_us"] for run in runs] for runs in (piped, serial))
            digests.setdefault(data, set()).update(run.meta["model_sha256"] for run in section.runs)
            hidden = median(both[i] - whole[i] for i in range(len(both)))
            rows.append([data, ranks, delay[:-2], str(piped[0].end["batch"]), micro, compute, sums, median(both)]
                        + ["%.0f (%.0f..%.0f)" % (median(times), min(times), max(times)) for times in (whole, alone)]
                        + ["%.0f (%.0f %%)" % (hidden, 100 * hidden / min(compute, sums)),
                           median(run.epoch_ms() for run in piped), median(run.epoch_ms() for run in serial)])
    table(["data", "ranks", "us each way", "B", "MB", "computation", "sums", "together", "mini-batch", "not overlapped", "hidden",
           "ms per epoch", "ms per epoch, not overlapped"], rows)
    say("The links: %s." % "; ".join(lines))
    say("All runs on the same data have written %s." % (
        "the same model, byte for byte" if all(len(found) == 1 for found in digests.values()) else "DIFFERENT MODELS"))


def figures_14_15():
    title("Figures 14 and 15: loss over epochs, and over time")
    if not origin("curves"):
        return
    section = Section("curves")
    say("4 ranks, mini-batches of 64, one run of each. Over epochs the curves are %s." % (
        "one and the same" if all(len({tuple(run.loss) for run in section.runs if run.name == name}) == 1
                                  for name in section.names()) else "NOT the same"))
    for name in section.names():
        runs = [run for run in section.runs if run.name == name]
        script = "".join(block("d%d" % i, [[e + 1, run.loss[e], run.times[e]] for e in range(len(run.loss))])
                         for i, run in enumerate(runs))
        plots = [", ".join("$d%d using %s with linespoints title '%s %s' noenhanced" % (i, columns, name, WAYS[run.way])
                           for i, run in enumerate(runs)) for columns in ("1:2", "3:2")]
        picture("figure-14-" + name, script + "set multiplot layout 1,2; set ylabel 'loss'\n"
                "set xlabel 'epoch'\nplot %s\nset xlabel 's'\nplot %s\nunset multiplot" % tuple(plots), "1100,420")


def bits():
    title("Few bits")
    if not origin("bits"):
        return
    say("One rank, all defaults. The bytes are counted.")
    output(Section("bits").read("output").rsplit("\n", 1)[0])
    embed(os.path.join(OUT, "bits.svg"))


def memory():
    title("Memory of a rank")
    if not origin("memory"):
        return
    runs = [json.loads(line) for line in Section("memory").read("output").splitlines()]
    alone = next(run["kib_most"] for run in runs if run["ranks"] == 1) / 1024
    say("Made rows: %d, %d features used, %d non-zeros. The most that a rank ever had resident, reading the file included, of "
        "the largest rank (and the smallest); the bound is a quarter of one rank's, and 50 MB. On this machine, the aggregator "
        "in rank 0's process, mini-batches of 64. The models are %s." % (
            runs[0]["rows"], runs[0]["features"], runs[0]["nonzeros"],
            "equal, byte for byte" if len({run["model"] for run in runs}) == 1 else "NOT EQUAL"))
    table(["ranks", "resident MiB, at most", "bound MiB", "s per epoch"],
          [[str(run["ranks"]), "%.1f (%.1f)" % (run["kib_most"] / 1024, run["kib_least"] / 1024),
            alone / 4 + 50 if run["ranks"] == 4 else "-", show(run["epoch_s"], 2)] for run in runs])


def same():
    title("The same model for any ranks and micro-batches")
    if not origin("same"):
        return
    runs = [json.loads(line) for line in Section("same").read("output").splitlines()]
    most = max(abs(run["loss"][i] / one - 1) for run in runs for i, one in enumerate(runs[0]["loss"]))
    say("%s ranks with micro-batches of %s: %d runs of %d epochs. Their losses differ by %g at most, relatively; their models "
        "are %s." % (", ".join(sorted({str(run["ranks"]) for run in runs})), ", ".join(
            str(micro) for micro in sorted({run["micro"] for run in runs})), len(runs), len(runs[0]["loss"]), most,
            "one, byte for byte" if len({run["model"] for run in runs}) == 1 else "NOT EQUAL"))


def accuracy():
    title("Accuracy on rows that were not trained with")
    if not origin("accuracy"):
        return
    rows = []
    for line in Section("accuracy").read("output").splitlines():
        name, count, classes, trained, got, liblinear = line.split()
        other = "not installed" if liblinear == "-" else "%.4f" % (float(liblinear) / 100)
        rows.append([name, count, classes, "%.4f" % float(trained), "%.4f" % float(got), other,
                     "-" if liblinear == "-" else "%+.2f" % (100 * float(got) - float(liblinear))])
    say("tally run -n 4 -- tally glm train, model-parallel, all defaults; liblinear-train -s 0 on the same rows.")
    table(["data", "rows trained with", "classes", "on these", "tally", "liblinear", "points more"], rows)


def table_4():
    title("Table IV: energy")
    section = Section("epoch")
    rows = [[name, WAYS[way], median(run.meta["joules"] for run in section.of(name, way))]
            for name in section.names() for way in section.ways(name)]
    if not any(row[2] for row in rows):
        say("The processors' counters (RAPL, /sys/class/powercap) cannot be read on this machine: no joules.")
        return
    say("Joules of a whole run of the section on time per epoch, reading the file included, by RAPL, all processors.")
    table(["data", "over", "joules"], rows)


def main():
    machine = Section(".").read("machine").split("\n")
    title("tally glm: measured")
    say("%s, %s processors, %s; commit %s, begun %s. %s. 4 hosts are network namespaces, each behind a link of 1 Gbit/s, "
        "the aggregator on the unshaped hub; all of them share the processors." % tuple(
            html.escape(line) for line in machine[:6]))
    say("Made by bench/glm_page.sh. made-NAME and files in made/ are made rows, not data. Files: %s" % html.escape(
        Section(".").read("files").replace("\n", "; ")))
    for part in (figure_8, simulated, epochs, loss, figures_9_10, figure_11, figures_12_13, table_1, table_2, overlap, figures_14_15,
                 bits, memory, same, accuracy, table_4):
        part()
    page.write("glm", "tally glm: measured")


main()
