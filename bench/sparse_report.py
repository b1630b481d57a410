# SPDX-License-Identifier: Apache-2.0
"""What bench/sparse.sh has measured.

    line WAY NUMBER FOLDER WORKERS    one run, as a line of JSON: FOLDER has at.begin, at.end and out.RANK
    table RUNS LINK [--json]          all runs: medians, as a table or as one line of JSON
"""
import json
import os
import statistics
import sys


def links(path):
    """Bytes that left each end: a tbf counts what was sent, headers of every segment included."""
    at = json.load(open(path))
    sent = {}
    hub, hosts = at["links"][0], at["links"][1:]
    for queue in hub:
        if queue["kind"] == "tbf":
            sent["to " + queue["dev"][1:]] = (queue["bytes"], queue.get("drops", 0))
    for i, queues in enumerate(hosts):
        for queue in queues:
            if queue["kind"] == "tbf":
                sent["from %d" % i] = (queue["bytes"], queue.get("drops", 0))
    return at, sent


def line(way, number, folder, workers):
    begin, before = links(os.path.join(folder, "at.begin"))
    end, after = links(os.path.join(folder, "at.end"))
    out = [json.load(open(os.path.join(folder, "out.%d" % i))) for i in range(workers)]
    cpu = [(b - a) / end["hertz"] for a, b in zip(begin["ticks"], end["ticks"])]
    print(json.dumps({
        "way": way, "number": number, "workers": workers, "seconds": out[0]["seconds"],
        "pairs": sum(o["pairs"] for o in out), "updates_per_pair": out[0]["updates_per_pair"],
        "hot_share": sum(o["hot_share"] for o in out) / workers, "verified_keys": out[0]["verified_keys"],
        "bytes": {k: after[k][0] - before[k][0] for k in after},
        "drops": sum(after[k][1] - before[k][1] for k in after),
        "seen_lost": json.load(open(os.path.join(folder, "lost"))),
        "cpu_s": {"workers": sum(o["cpu_s"] for o in out), "tally-ps": cpu[0], "tallyd": cpu[1]},
        "load": float(open("/proc/loadavg").read().split()[0])}))


def bits(rate):
    for unit, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(unit):
            return float(rate[:-4]) * factor
    sys.exit("sparse_report.py: %s is not in kbit, mbit or gbit" % rate)


def summary(runs, rate):
    def middle(what):
        return statistics.median(what(r) for r in runs)

    workers = runs[0]["workers"]
    ends = {"worker out": ["from %d" % i for i in range(workers)], "worker in": ["to %d" % i for i in range(workers)],
            "server out": ["from %d" % workers], "server in": ["to %d" % workers]}
    return {
        "runs": len(runs), "pairs": runs[0]["pairs"], "seconds": middle(lambda r: r["seconds"]),
        "pairs_per_s": middle(lambda r: r["pairs"] / r["seconds"]),
        "least": min(r["pairs"] / r["seconds"] for r in runs), "most": max(r["pairs"] / r["seconds"] for r in runs),
        "hot_share": runs[0]["hot_share"], "updates_per_pair": runs[0]["updates_per_pair"],
        "verified_keys": min(r["verified_keys"] for r in runs), "drops": sum(r["drops"] for r in runs),
        "seen_lost": [sum((r["seen_lost"] or [0, 0])[i] for r in runs) for i in (0, 1)],
        "of_link": middle(lambda r: max(r["bytes"].values()) * 8 / rate / r["seconds"]),
        "bytes_per_pair": {name: middle(lambda r: max(r["bytes"][k] for k in keys) / r["pairs"] *
                                        (workers if name.startswith("worker") else 1))
                           for name, keys in ends.items()},
        "cpu_s_per_m": {who: middle(lambda r: r["cpu_s"][who] / r["pairs"] * 1e6) for who in runs[0]["cpu_s"]},
    }


def table(path, link, is_json):
    runs = [json.loads(text) for text in open(path)]
    names = list(dict.fromkeys(r["way"] for r in runs))
    ways = {way: summary([r for r in runs if r["way"] == way], bits(link)) for way in names}
    first = ways[names[0]]
    load = [r["load"] for r in runs]
    for way in ways.values():
        way["ratio"] = first["pairs_per_s"] / way["pairs_per_s"]
        way["time_more"] = (way["seconds"] / way["pairs"]) / (first["seconds"] / first["pairs"]) - 1
    if is_json:
        print(json.dumps({"link": link, "workers": runs[0]["workers"], "load": [min(load), max(load)], "ways": ways}))
        return
    print("%d workers, links of %s, %d pairs, %.1f updates a pair; load %.1f to %.1f; all sums right" % (
        runs[0]["workers"], link, first["pairs"], first["updates_per_pair"], min(load), max(load)))
    print("%-6s %10s %23s %7s %8s %6s %7s | %-35s | %-26s" % (
        "way", "pairs/s", "least to most", names[0] + "/it", "seconds", "hot", "of link",
        "bytes a pair: worker out, in; server", "CPU s/M: workers, ps, tallyd"))
    for name, way in ways.items():
        b, c = way["bytes_per_pair"], way["cpu_s_per_m"]
        print("%-6s %10.0f %10.0f to %9.0f %7.2f %8.2f %4.0f %% %5.0f %% | %8.2f %8.2f %8.2f %8.2f | %8.2f %8.2f %8.2f" % (
            name, way["pairs_per_s"], way["least"], way["most"], way["ratio"], way["seconds"],
            100 * way["hot_share"], 100 * way["of_link"], b["worker out"], b["worker in"], b["server out"],
            b["server in"], c["workers"], c["tally-ps"], c["tallyd"]))
    if "lossy" in ways and "hot" in ways:
        print("lossy takes %.1f %% more time than hot; %d of %d packets lost" % (
            100 * (ways["lossy"]["seconds"] / ways["hot"]["seconds"] - 1), *reversed(ways["lossy"]["seen_lost"])))
    if any(way["drops"] for way in ways.values()):
        print("packets that did not fit into a link's queue: %s" %
              ", ".join("%s %d" % (name, way["drops"]) for name, way in ways.items()))


if __name__ == "__main__":
    if sys.argv[1] == "line":
        line(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    else:
        table(sys.argv[2], sys.argv[3], "--json" in sys.argv[4:])
