# SPDX-License-Identifier: Apache-2.0
"""compare_report.py - what bench/compare says: tables on the terminal, the machine, the page."""
import os
import platform
import subprocess
import sys

from compare_read import KEY, line_us, rate_bps

HERE = os.path.dirname(os.path.abspath(__file__))


def place(cell):
    """Where: ranks, links, what is lost."""
    if cell["host"]:
        return "n=%d one host" % cell["ranks"]
    words = "n=%d %s" % (cell["ranks"], cell["rate"])
    return words + (" loss %g %%" % (100 * cell["loss"]) if cell["loss"] else "") + (" %d lanes" % cell["lanes"] if cell["lanes"] else "")


def options(cell):
    """What a run is called with besides its work."""
    return " ".join(cell["options"] + (["--gpu-speed %g" % cell["gpu_speed"]] if cell["trace"] else []) +
                    (["beside multiply"] if cell["beside"] else []))


def command(argv):
    return " ".join(["bench/compare"] + argv[1:])


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def machine(builds):
    """Where it was measured."""
    model = [line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    git = ["git", "-C", HERE, "-c", "safe.directory=*", "describe", "--always", "--dirty"]
    return {"processor": model[0] if model else platform.machine(), "cores": os.sysconf("SC_NPROCESSORS_ONLN"),
            "kernel": platform.release(), "tcp": read("/proc/sys/net/ipv4/tcp_congestion_control"), "load": read("/proc/loadavg"),
            "tree": subprocess.run(git, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip(),
            "against": builds.get("against")}


def number(value, digits=3):
    """To so many figures."""
    if value is None:
        return "-"
    if abs(value) >= 10 ** digits:
        return "%.0f" % value
    return "%.*g" % (digits + 1, value)


def middle(of, name, scale=1, with_range=False):
    if name not in of:
        return "-"
    mid, least, most = (value * scale for value in of[name])
    return number(mid) + (" (%s..%s)" % (number(least), number(most)) if with_range else "")


COLUMNS = ("way", "type", "elements", "runs", "us an operation", "median us", "p99 us", "M elem/s", "of limit", "workers s", "tallyd s",
           "machine s")


def rows_of(table):
    """{place: rows as COLUMNS} of a summary."""
    found = {}
    for key, of in table.items():
        at = dict(zip(KEY, key))
        limit = "-"
        if at["rate"] and "us" in of and not at["way"].startswith("sparse"):  # it sends other bytes
            limit = "%.1f %%" % (100 * line_us(at["elements"], rate_bps(at["rate"]), at["lanes"] or 360) / of["us"][0])
        found.setdefault(place(at), []).append([
            at["way"] + (" " + at["options"] if at["options"] else ""), at["dtype"], str(at["elements"]),
            "%d%s" % (of["runs"], "+%d void" % of["void"] if of["void"] else ""), middle(of, "us", with_range=True),
            middle(of, "median_us"), middle(of, "p99_us"), middle(of, "rate"), limit, middle(of, "worker_s"), middle(of, "server_s"),
            middle(of, "machine_s")])
    return found


def columns_print(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))))


def table(suite, summary, musts, ways, path):
    print("\n%s: %s" % (suite.name, suite.words))
    for where, rows in rows_of(summary).items():
        print("\n" + where)
        columns_print([list(COLUMNS)] + rows)
    if musts:
        print("\nmust show                                                              measured  demanded")
    for must in musts:
        print(must.line())
    print("\n%s" % path)


def listing(suites, ways):
    print("suites:")
    for suite in suites.values():
        runs = sum(len(group.cells) for group in suite.groups)
        print("  %-10s %s (n = %s)" % (suite.name, suite.words, ", ".join(str(group.ranks) for group in suite.groups)))
        assert runs
    print("\nways:")
    for way in ways.values():
        print("  %-16s %s%s" % (way.name, way.words, "  -- NOT HERE: " + way.lacks if way.lacks else ""))
    return 0


def page(out):
    return subprocess.run([sys.executable, os.path.join(HERE, "compare_page.py"), out]).returncode
