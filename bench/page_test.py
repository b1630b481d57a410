#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_test.py - the pages of figures say of each number what it is of: made results go in, in which not all sizes were
measured, a file could not be read and a program was not built; each number under a label is compared with the JSON
that this label means. gnuplot is a stand-in that keeps what it is told."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
failures = []


def expect(is_so, words):
    if not is_so:
        failures.append(words)
        print("FAILED: " + words)


def put(out, name, lines, status=0, log="", quick=False):
    """A section as page.sh leaves it."""
    at = os.path.join(out, name)
    os.makedirs(at)
    output = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    files = {"status": status, "output": output, "log": log, "command": "bench/measure " + name,
             "begin": "2026-01-01 00:00:00 UTC\n0.10", "end": "2026-01-01 00:00:01 UTC\n0.20"}
    if quick:
        files["quick"] = ""
    for file, words in files.items():
        open(os.path.join(at, file), "w").write("%s\n" % words)


def make(folder, script):
    """The page's text and HTML, and what gnuplot was told, by name of the picture."""
    tools = os.path.join(folder, "tools")
    os.makedirs(tools, exist_ok=True)
    stand_in = os.path.join(tools, "gnuplot")
    with open(stand_in, "w") as file:
        file.write("#!%s\nimport re, sys\nwords = sys.stdin.read()\n"
                   "open(re.search(\"set output '(.*?)'\", words).group(1), 'w').write('<svg>' + words)\n" % sys.executable)
    os.chmod(stand_in, 0o755)
    subprocess.run([sys.executable, os.path.join(HERE, script), os.path.join(folder, "out")], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "PATH": tools + ":" + os.environ["PATH"]})
    name = script.partition("_")[0]
    found = [open(os.path.join(folder, "out", name + end)).read() for end in (".md", ".html")]
    pictures = {file[:-4]: open(os.path.join(folder, "out", file)).read()
                for file in os.listdir(os.path.join(folder, "out")) if file.endswith(".svg")}
    return found + [pictures]


def part(page, begin):
    """The part of the page under the title that begins so."""
    parts = re.split("^## ", page, flags=re.M)
    return next((words for words in parts if words.startswith(begin)), "")


def rows(words):
    """Those of its table, by the head's words."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in words.splitlines() if line.startswith("| ")]
    return [dict(zip(cells[0], row)) for row in cells[1:]]


# ---- sparse ----

HOT, KEYS = 600, 20000


def share(stream, count):
    """No two are alike."""
    return (sum(stream.encode()) % 89 + 1) / 1000 + count / KEYS * 0.8


def way(speed):
    return {"pairs_per_s": speed, "least": speed - 1000, "most": speed + 1000, "hot_share": 0.5, "of_link": 0.9, "runs": 3,
            "verified_keys": 7, "drops": 0, "seen_lost": [1000, 10], "seconds": 1e6 / speed}


def speeds(stream, count):
    hot = 100000.0 + 37 * count + len(stream)
    return {"hot": hot, "off": 80000.0, "dense": 9000.0, "lossy": hot * 0.97}


def run_of(stream, count, ways, workers=2):
    return {"link": "50mbit", "workers": workers, "load": [0, 0],
            "ways": {name: way(speeds(stream, count)[name]) for name in ways.split()}}


MEASURED = {"oa-like": [1, 100, 3000], "small": [1, 100, 400]}  # of small, 400 are all keys
KEY_COUNTS = {"oa-like": [1000, 3000], "se-like": [300, 600]}  # of oa-like not HOT


def precision(stream, sample):
    return {"name": stream, "sample": sample, "precision": 0.5 + sample + len(stream) / 100, "ideal_precision": 0.4,
            "precision_of_as_many": 0.3, "all_hot_keys": 11, "hot_keys": 12, "all_share": 0.2}


def sparse_put(out, quick):
    os.makedirs(out)
    for name, words in {"made": "%d %d" % (HOT, KEYS), "machine": "a processor\n2\nLinux\nabc\nnow", "files": ""}.items():
        open(os.path.join(out, name), "w").write(words + "\n")
    for stream, counts in MEASURED.items():
        put(out, "hot-" + stream, [{"name": stream, "hot_keys": count, "share": share(stream, count), "updates": 5,
                                    "sampled_keys": 400 if stream == "small" else KEYS} for count in counts], quick=quick)
        put(out, "precision-" + stream, [precision(stream, sample) for sample in (0.04, 0.08)])
    put(out, "hot-broken", [], 1, "broken:3: not a number")
    put(out, "precision-broken", [], 1, "broken:3: not a number")
    put(out, "throughput-broken", [], 1, "broken:3: not a number")
    put(out, "throughput-oa-like", [run_of("oa-like", 1, "hot off dense", 8)])
    put(out, "workers-2", [run_of("oa-like", 2, "hot off", 2)], quick=quick)
    for stream, counts in KEY_COUNTS.items():
        for count in counts:
            put(out, "keys-%s-%d" % (stream, count), [run_of(stream, count, "hot off")])
    put(out, "loss-10", [run_of("oa-like", 3, "hot lossy")])


def sparse_check(folder):
    sparse_put(os.path.join(folder, "out"), quick=True)
    page, markup, pictures = make(folder, "sparse_page.py")
    figure = part(page, "Figure 5")
    streams = {row["stream"]: row for row in rows(figure)}
    expect(set(MEASURED) <= set(streams), "one unreadable file hides the other streams of Figure 5")
    expect("broken:3: not a number" in figure, "Figure 5 does not say why a stream is not there")
    for stream, counts in MEASURED.items():
        labels = [label for label in streams.get(stream, {}) if label.endswith(" hottest")]
        expect(len(labels) == 2, "Figure 5 has columns %s" % labels)
        for label in labels:
            count = int(label.split()[0])
            value = share(stream, count) if count in counts else share(stream, 400) if stream == "small" and count > 400 else None
            expect(value is not None, "Figure 5: %s of %s was not measured" % (label, stream))
            expect(value is None or streams[stream][label] == "%.1f %%" % (100 * value),
                   "Figure 5: %s of %s is not %s" % (label, stream, streams[stream][label]))
    expect("small" in part(page, "Figure 15") and "broken:3" in part(page, "Figure 15"), "Figure 15 hides streams, or why")
    for row in rows(part(page, "Figure 15")):
        sample = int(row["sample"].split()[0]) / 100
        expect(row["precision"] == "%.1f %%" % (100 * precision(row["stream"], sample)["precision"]), "Figure 15: %s" % row)

    figure = part(page, "Figures 13 and 14")
    for row in rows(figure):
        stream, count = row["stream"], int(row["hot keys"])
        gain = speeds(stream, count)["hot"] / speeds(stream, count)["off"]
        base = speeds(stream, HOT)["hot"] / speeds(stream, HOT)["off"] if HOT in KEY_COUNTS[stream] else None
        expect(row["hot / alone"] == "%.2f" % gain, "Figure 13: gain of %s" % row)
        expect(row["of %d keys'" % HOT] == ("not measured" if base is None else "%.3f" % (gain / base)), "Figure 13: %s" % row)
    expect("oa-like: %d hot keys were not measured" % HOT in figure, "Figure 13 does not say that its measure is missing")
    drawn = pictures.get("figure-14", "")
    expect("oa-like" not in drawn and "se-like" in drawn, "Figure 14 draws what has no measure")

    expect("8 workers and one server, each behind a link of 50mbit" in part(page, "Figure 12: pairs"), "Figure 12: workers or link")
    found = {row["workers"]: row for row in rows(part(page, "Figure 12: workers"))}
    for workers, made in (("2", 2), ("8", 1)):
        fast = speeds("oa-like", made)
        expect(found.get(workers, {}).get("hot / alone") == "%.2f" % (fast["hot"] / fast["off"]), "Figure 12: %s workers" % workers)
    expect("| 0.10 % | 10 of 1000 |" in part(page, "Figure 18"), "Figure 18: lost and sent")

    for words in page, markup:
        expect("QUICK=1: " in words and "no figures: hot-oa-like, hot-small, workers-2." in words, "the page does not say QUICK")
    expect("img{max-width:100%" in markup and ".wide{overflow-x:auto}" in markup, "pictures or tables are cut in a narrow window")


def sparse_check_whole(folder):
    sparse_put(os.path.join(folder, "out"), quick=False)
    page, markup, _ = make(folder, "sparse_page.py")
    expect("QUICK" not in page and "QUICK" not in markup, "a page of whole sections says QUICK")


# ---- glm ----

EPOCH_MS = {"auto": 5.0, "kernel": 4.0, "alone": 3.0}


def glm_check(folder):
    out = os.path.join(folder, "out")
    os.makedirs(out)
    open(os.path.join(out, "machine"), "w").write("a processor\n2\nLinux\nabc\nnow\nMPI none\n")
    put(out, "epoch", ["# SKIP: no Open MPI (scripts/deps.sh bench)", "# SKIP: no liblinear (scripts/deps.sh test)"])
    for name, ms in EPOCH_MS.items():
        lines = [{"loss": 0.5, "train_s": ms * (i + 1) / 1e3} for i in range(3)]
        lines += [{"rows": 640, "features": 7, "classes": 2, "batch": 64}, {"model_sha256": "x", "joules": None}]
        open(os.path.join(out, "epoch", "small.%s.1.json" % name), "w").write("\n".join(json.dumps(line) for line in lines))
    row = rows(part(make(folder, "glm_page.py")[0], "Time per epoch"))[0]
    for label, name in (("auto", "auto"), ("auto, kernel", "kernel"), ("1 rank", "alone")):
        expect(row[label] == "%.1f (%.1f..%.1f)" % ((EPOCH_MS[name],) * 3), "time per epoch: %s is %s" % (label, row[label]))
    expect(row["Open MPI"] == "no Open MPI (scripts/deps.sh bench)", "why Open MPI was not measured: %s" % row["Open MPI"])
    expect(row["liblinear, whole"].startswith("no liblinear"), "why liblinear was not: %s" % row["liblinear, whole"])
    expect(row["latency"] == "not run" and "-" not in row.values(), "a cell has no reason: %s" % row)


def main():
    for check in sparse_check, sparse_check_whole, glm_check:
        with tempfile.TemporaryDirectory() as folder:
            check(folder)
    print("%d labels are wrong" % len(failures) if failures else "labels are those of the JSON")
    return bool(failures)


sys.exit(main())
