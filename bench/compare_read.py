# SPDX-License-Identifier: Apache-2.0
"""compare_read.py - what bench/compare makes of what it measures: one row of the ranks' lines, figures of a row, whether a run
is void, medians of runs, and whether what must be shown holds. No processes, files or clocks: compare_test.py runs it."""
import statistics

VOID_SHARE = 0.03  # of the machine, foreign or stolen
RUNS_LEAST = 5  # what must be shown is decided by medians of so many
FRAME_BYTES = 24 + 8 + 20 + 14  # tally's header, UDP's, IP's, Ethernet's: what a shaped link counts of a packet besides its lanes

# Of the ranks' lines the largest, and the sum; of the rest the first.
LARGEST = ("timed_s", "tat_us_median", "tat_us_p99", "tat_us_p1", "tat_us_min")
SUMMED = ("cpu_s", "watched_cpu_s", "machine_busy_s", "machine_stolen_s", "elements_wrong")


def merge(lines):
    """One row of the lines that all ranks have printed about one size."""
    row = dict(lines[0])
    for line in lines[1:]:
        for name in LARGEST:
            row[name] = max(row[name], line[name])
        for name in SUMMED:
            row[name] = row[name] + line[name]
    row["verified"] = all(line["verified"] is True for line in lines)
    row.pop("rank", None)
    return row


def rows_of(lines, ranks):
    """Rows in the order of their sizes, as they first come; tally bench has one line each, the others one of each rank."""
    sizes = {}
    for line in lines:
        sizes.setdefault((line["dtype"], line.get("elements")), []).append(line)
    for key, of in sizes.items():
        seen = [line["rank"] for line in of if "rank" in line]
        if len(of) != max(1, len(seen)) or (seen and sorted(seen) != list(range(ranks))):
            raise ValueError("of %s elements there are lines of the ranks %s, and %d ranks" % (key[1], seen, ranks))
    return [merge(of) for of in sizes.values()]


def figures(row, multiplied=None):
    """What one operation takes. multiplied: of what multiplied matrices beside it, in a second of its processor: how many it
    then made in a second, while operations were timed."""
    operations = row["operations"]
    made = {"us": row["timed_s"] / operations * 1e6, "median_us": row["tat_us_median"], "p99_us": row["tat_us_p99"],
            "worker_s": row["cpu_s"] / operations}
    made["rate"] = row["elements"] / made["us"]
    if "machine_busy_s" in row:
        made["server_s"] = row["watched_cpu_s"] / operations
        made["machine_s"] = row["machine_busy_s"] / operations
        made["cores"] = (row["cpu_s"] + row["watched_cpu_s"]) / row["timed_s"]
    if multiplied:
        made["multiplied"] = multiplied * row["watched_cpu_s"] / row["timed_s"]
        del made["server_s"], made["cores"]  # it is what was watched
    return made


def process_ticks(stat):
    """(whether a process is the kernel's own thread, its ticks and those of its children that have ended), of /proc/PID/stat.
    The sum over all processes grows by what was worked, also by those that begin and end in between."""
    pid, _, rest = stat.partition(" (")
    fields = rest.rpartition(")")[2].split()
    return "2" in (pid, fields[1]), sum(int(field) for field in fields[11:15])


def shares(whole, cores):
    """Of the machine during a run: foreign, what the processes of others worked; kernel, what no process did: interrupts, above
    all packets that come while a processor is idle, and the kernel's threads; stolen, what the hypervisor gave to others."""
    machine_s = whole["wall_s"] * cores
    return {"foreign": max(0.0, whole["processes_s"] - whole["ours_s"]) / machine_s,
            "kernel": max(0.0, whole["busy_s"] - whole["processes_s"]) / machine_s, "stolen": whole["stolen_s"] / machine_s}


def void_because(share):
    """Why a run with these shares is void; None: it counts."""
    if share["foreign"] >= VOID_SHARE:
        return "%.1f %% of the machine worked for others" % (100 * share["foreign"])
    if share["stolen"] >= VOID_SHARE:
        return "%.1f %% of the machine was stolen" % (100 * share["stolen"])
    return None


def line_us(elements, rate_bps, lanes=360):
    """What the link takes for a vector in tally's packets: nobody who sends them is faster."""
    full, rest = divmod(elements, lanes)
    sent = full * (4 * lanes + FRAME_BYTES) + (4 * rest + FRAME_BYTES if rest else 0)
    return sent * 8e6 / rate_bps


RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def rate_bps(text):
    """tc's words for a rate."""
    for unit, factor in RATES.items():
        if text.endswith(unit):
            return float(text[:-len(unit)]) * factor
    raise ValueError("%s: not a rate, as 1gbit" % text)


def median(numbers):
    numbers = [number for number in numbers if number is not None]
    return statistics.median(numbers) if numbers else None


KEY = ("host", "ranks", "rate", "loss", "lanes", "way", "dtype", "elements", "options")


def key_of(run):
    return tuple(run[name] for name in KEY)


def summary(runs):
    """{key: {figure: (median, least, most)}} of the runs that are not void, with "runs" and "void", how many of them."""
    made = {}
    for run in runs:
        made.setdefault(key_of(run), []).append(run)
    return {key: spread(of) for key, of in made.items()}


def spread(runs):
    good = [run["figures"] for run in runs if not run["void"]]
    found = {"runs": len(good), "void": len(runs) - len(good)}
    for name in sorted({name for one in good for name in one}):
        values = [one[name] for one in good if name in one]
        found[name] = (median(values), min(values), max(values))
    return found


class Figure(float):
    """A number, and what it rests on: the least number of runs of what it was made of, and what is missing in it."""

    def __new__(cls, value, runs, without=()):
        made = super().__new__(cls, value)
        made.runs, made.without = runs, tuple(without)
        return made


def rows_as(table, wanted):
    """The rows of a summary that are as wanted."""
    return [of for key, of in table.items() if all(dict(zip(KEY, key))[name] == value for name, value in wanted.items())]


def find(table, figure, **wanted):
    """The median of a figure of the one row of a summary that is as wanted; None: there is none."""
    for of in rows_as(table, wanted):
        if figure in of:
            return Figure(of[figure][0], of["runs"])
    return None


def best(table, figure, ways, least=True, **wanted):
    """Of the ways the one with the least, or the most. A way that was tried and never counted, or was not tried, is missing."""
    found = {way: find(table, figure, way=way, **wanted) for way in ways}
    good = [value for value in found.values() if value is not None]
    if not good:
        return None
    return Figure((min if least else max)(good), min(value.runs for value in good), [way for way in ways if found[way] is None])


def ratio(a, b):
    """Of two figures, or of one and a plain number."""
    if a is None or not b:
        return None
    figures = [one for one in (a, b) if isinstance(one, Figure)]
    return Figure(a / b, min((one.runs for one in figures), default=0), [way for one in figures for way in one.without])


class Must:
    """What must be shown: a Figure, and what it has to be at least or at most; without either, it is only told."""

    def __init__(self, words, value, least=None, most=None):
        self.words, self.value, self.least, self.most = words, value, least, most

    def is_as_demanded(self):
        """None: it was not measured, or nothing is demanded."""
        if self.value is None or (self.least is None and self.most is None):
            return None
        return self.value >= self.least if self.least is not None else self.value <= self.most

    def lacks(self):
        """Why a number that is there decides nothing; empty: it does."""
        found = ["%d of %d runs" % (self.value.runs, RUNS_LEAST)] if self.value.runs < RUNS_LEAST else []
        return ", ".join(found + ["without " + way for way in self.value.without])

    def verdict(self):
        if self.value is None:
            return "not measured"
        if self.is_as_demanded() is None:
            return "told"
        if self.lacks():
            return "not decided (%s): %s" % (self.lacks(), "within" if self.is_as_demanded() else "OUTSIDE")
        return "holds" if self.is_as_demanded() else "DOES NOT HOLD"

    def bound(self):
        return ">= %.3f" % self.least if self.least is not None else "<= %.3f" % self.most if self.most is not None else ""

    def shown(self):
        return "-" if self.value is None else "%.3f" % self.value

    def line(self):
        return "%-72s %8s  %-10s %s" % (self.words, self.shown(), self.bound(), self.verdict())

    def as_json(self):
        holds = None if self.value is None or self.lacks() else self.is_as_demanded()
        return {"must": self.words, "value": self.value, "least": self.least, "most": self.most, "holds": holds,
                "shown": self.shown(), "bound": self.bound(), "verdict": self.verdict()}
